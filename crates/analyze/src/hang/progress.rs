//! How far each rank got.

use super::calls::{CommunicatorCalls, Lane};
use super::judge::Judge;
use super::liveness::State;
use super::reached::{self, Reached};
use super::seconds;
use crate::job::ranges;
use serde::Serialize;

/// An operation, named.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallRow {
    /// Communicator.
    pub communicator: Option<String>,
    /// Number of the call on the communicator from 1, replays apart; null for sends, receives and after lost rows.
    pub number: Option<u64>,
    /// Whether it replays a captured call.
    pub replay: bool,
    /// Function; `AlltoAll` and the like for those that come in pieces.
    pub function: Option<String>,
    /// Datatype.
    pub datatype: Option<String>,
    /// Bytes by nccl-tests' convention.
    pub bytes: Option<u64>,
    /// Root.
    pub root: Option<u32>,
    /// Peer of a send or receive.
    pub peer: Option<u32>,
    /// NCCL's sequence number.
    pub seq: Option<u64>,
    /// How long ago it was entered, s, as of the newest evidence.
    pub age_s: Option<f64>,
}

/// A communicator's ranks.
#[derive(Clone, Debug, Serialize)]
pub struct CommunicatorState {
    /// Its id.
    pub communicator: String,
    /// Name given by the program.
    pub name: Option<String>,
    /// Ranks.
    pub nranks: Option<u32>,
    /// Ranks of which the capture holds nothing, as `0-7`; null where they can't be named.
    pub absent: Option<String>,
    /// Whether all its ranks in the capture have destroyed it.
    pub over: bool,
    /// Its ranks.
    pub ranks: Vec<RankState>,
}

/// The last call of each kind on one rank. What was not recorded is null.
#[derive(Clone, Debug, Serialize)]
pub struct RankState {
    /// Rank in the communicator.
    pub rank: Option<u32>,
    /// The launcher's rank.
    pub global_rank: Option<u32>,
    /// Host.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// Its state.
    pub state: State,
    /// How old the newest evidence of it is, s, by that of the capture.
    pub evidence_age_s: Option<f64>,
    /// The call that it entered last.
    pub entered: Option<CallRow>,
    /// The last that NCCL enqueued.
    pub enqueued: Option<CallRow>,
    /// The last whose kernel was launched.
    pub launched: Option<CallRow>,
    /// The last that the GPU began.
    pub started: Option<CallRow>,
    /// The last that the GPU ended.
    pub finished: Option<CallRow>,
}

impl Judge<'_> {
    pub(super) fn communicators(&self) -> Vec<CommunicatorState> {
        let of = |(index, calls): (usize, &CommunicatorCalls)| {
            let communicator = &self.capture.communicators[index];
            CommunicatorState {
                communicator: communicator.id.clone(),
                name: communicator.name.clone(),
                nranks: communicator.nranks,
                absent: (calls.nabsent == 0 || !calls.absent.is_empty())
                    .then(|| ranges(calls.absent.iter().copied())),
                over: calls.is_over(),
                ranks: (0..calls.ranks.len())
                    .map(|member| self.rank_state(index, member))
                    .collect(),
            }
        };
        self.calls
            .communicators
            .iter()
            .enumerate()
            .map(of)
            .collect()
    }

    pub(super) fn rank_state(&self, communicator: usize, member: usize) -> RankState {
        let own = &self.calls.communicators[communicator].ranks[member];
        let process = &self.capture.processes[own.process];
        let last = |at_least: Reached| {
            let newest = |lane: Lane| {
                let calls = &own.calls[lane as usize];
                let index = calls.iter().rposition(|call| {
                    reached::reached(process, &process.calls[*call as usize]) >= at_least
                })?;
                let base = if lane == Lane::Eager {
                    own.base
                } else {
                    Some(0)
                };
                Some((calls[index], base.map(|b| b + index as u64), lane))
            };
            let lanes = super::calls::LANES.into_iter().filter_map(newest);
            let pieces = own.newest_piece(process, at_least);
            let found = lanes.chain(pieces.map(|call| (call, None, Lane::Eager)));
            let (call, ordinal, lane) = found.max_by_key(|(call, ..)| *call)?;
            Some(self.call_row(communicator, (member, call), ordinal, lane))
        };
        RankState {
            rank: own.rank,
            global_rank: process.rank,
            host: process.host.clone(),
            pid: process.pid,
            state: self.states[own.process],
            evidence_age_s: self.ago(self.evidence[own.process]).map(seconds),
            entered: last(Reached::Entered),
            enqueued: last(Reached::Enqueued),
            launched: last(Reached::Launched),
            started: last(Reached::Started),
            finished: last(Reached::Finished),
        }
    }

    pub(super) fn call_row(
        &self,
        communicator: usize,
        at: (usize, u32),
        ordinal: Option<u64>,
        lane: Lane,
    ) -> CallRow {
        let (call, shape) = self.calls.made(communicator, at);
        let of = &self.calls.communicators[communicator];
        let name = |name| self.capture.names.get(name).map(str::to_owned);
        let function = self.calls.function(communicator, at);
        CallRow {
            communicator: Some(self.capture.communicators[communicator].id.clone()),
            number: ordinal
                .filter(|_| of.numbered || lane == Lane::Replay)
                .map(|o| o + 1),
            replay: lane == Lane::Replay,
            function: name(function),
            datatype: name(shape.datatype),
            bytes: self.capture.bytes_as(shape, function),
            root: shape.root,
            peer: shape.peer.filter(|_| function == shape.function),
            seq: call.seq.checked_sub(1),
            age_s: self.ago(reached::known(call.api_ns)).map(seconds),
        }
    }
}
