//! The network's part in an operation that does not end.
//!
//! [`network`] gathers the open network operations of a [`Stall`] (`ops`: one channel of one call, to or from
//! one peer) and follows what they wait for (`graph`). [`Network`] has them as [`NetOpRow`]s, and the
//! [`NetSink`]s in which their wait-for graph ends. If there is no sink, it has why ([`Unfollowed`]); if no
//! operation is open, what was counted ([`Counted`]).
//!
//! Rule: a sink is certain only if the evidence of all network operations of the call is complete.

mod graph;
mod ops;

use super::case::Case;
use super::waits::Stall;
use crate::time::Nanos;
use graph::Graph;
use ops::{Gathered, Open};
use tables::calls::Extra;

pub use graph::{Cause, Half, NetSink};
pub(super) use ops::moved;
pub use ops::{NetWait, Stage};

/// What the network did for an operation that does not end.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Its network operations that are not over, by member, channel and direction.
    pub open: Vec<NetOpRow>,
    /// Those that wait for no other, most important first.
    pub sinks: Vec<NetSink>,
    /// Why there is no sink though some are open.
    pub unfollowed: Option<Unfollowed>,
    /// What was counted of it, if none is open.
    pub counted: Option<Counted>,
}

impl Network {
    /// Whether the first sink is not the only explanation of the evidence.
    pub fn is_unclear(&self) -> bool {
        self.sinks.first().is_some_and(|sink| match sink.cause {
            Cause::Unknown => true,
            // The other half may not have been begun yet.
            Cause::Network | Cause::Receiver => matches!(sink.half, Half::Closed | Half::None),
            _ => sink.inferred,
        })
    }

    /// Why the first sink does not go on.
    pub fn cause(&self) -> Option<Cause> {
        self.sinks.first().map(|sink| sink.cause)
    }
}

/// A network operation that is not over: one channel of one call, to or from one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetOpRow {
    /// The member of the communicator that it belongs to.
    pub member: usize,
    /// Whether it sends; else it receives.
    pub send: bool,
    /// Peer's rank in the communicator.
    pub peer: Option<u32>,
    /// The member that is its peer, if the capture has it.
    pub peer_member: Option<usize>,
    /// Channel.
    pub channel: u8,
    /// Where it stands; `None` if steps are not recorded.
    pub stage: Option<Stage>,
    /// It is a send that seems to wait for its GPU and may wait for its peer: below ABI v4 NCCL does not say
    /// which.
    pub vague: bool,
    /// Since when it stands there, as of the newest evidence.
    pub lasted: Option<Nanos>,
    /// Steps done.
    pub steps_done: u32,
    /// Steps that it consists of.
    pub steps: u32,
}

/// Why no open network operation can be named as the one that the others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfollowed {
    /// Some process did not record what its steps wait for.
    NotRecorded,
    /// Some send does not say whether it waits for its GPU or for its peer.
    Vague,
    /// All wait for GPUs, and these for each other's data.
    Gpus,
}

/// What the recorder counted of a collective's network operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Members with network operations that have not ended.
    pub unfinished: Vec<usize>,
    /// The member that moved fewest bytes.
    pub least: usize,
    /// Bytes that it sent.
    pub bytes_sent: u64,
    /// Bytes that it received.
    pub bytes_received: u64,
    /// Its steps.
    pub steps: u32,
    /// In what its finished steps waited longest, and for how many ns in all.
    pub longest: Option<(NetWait, u64)>,
}

/// What the network did for a stalled operation, and the ticket of the call that its first sink belongs to.
pub(super) fn network(case: &Case, stall: &Stall) -> (Network, Option<u64>) {
    let gathered = Gathered::new(case, stall);
    let sinks = if gathered.are_recorded() {
        Graph::new(case, stall, &gathered).sinks()
    } else {
        Vec::new()
    };
    let open = &gathered.open;
    let unfollowed = if !sinks.is_empty() || open.is_empty() {
        None
    } else if !gathered.are_recorded() {
        Some(Unfollowed::NotRecorded)
    } else if open.iter().any(|open| open.vague) {
        Some(Unfollowed::Vague)
    } else {
        Some(Unfollowed::Gpus)
    };
    let ticket = sinks.first().map(|sink| open[sink.op].op.ticket);
    let network = Network {
        open: open.iter().map(|open| row(case, open)).collect(),
        counted: if open.is_empty() {
            counted(case, stall)
        } else {
            None
        },
        sinks,
        unfollowed,
    };
    (network, ticket)
}

fn row(case: &Case, open: &Open) -> NetOpRow {
    let op = open.op;
    NetOpRow {
        member: open.member,
        send: op.send,
        peer: op.peer,
        peer_member: open.peer,
        channel: op.channel,
        stage: open.stage,
        vague: open.vague,
        lasted: case.ago(super::reached::known(op.since_ns)),
        steps_done: op.done,
        steps: op.steps,
    }
}

/// What was counted of the network operations of a collective, if it had any.
fn counted(case: &Case, stall: &Stall) -> Option<Counted> {
    let ordinal = stall.ordinal?;
    let of = |(member, own): (usize, &super::calls::RankCalls)| {
        let process = &case.capture.processes[own.process];
        let call = &process.calls[own.call(stall.lane, ordinal)? as usize];
        let extra = process.extras.get((call.extra as usize).checked_sub(1)?)?;
        (extra.ops_started > 0).then_some((member, extra))
    };
    let ranks = case.of(stall.communicator).ranks.iter().enumerate();
    let all: Vec<(usize, &Extra)> = ranks.filter_map(of).collect();
    let unfinished = all.iter().filter(|(_, e)| e.ops_started > e.ops_stopped);
    let (least, extra) = all
        .iter()
        .min_by_key(|(_, e)| e.bytes_sent + e.bytes_received)?;
    let longest = (0..).zip(extra.waits_ns).max_by_key(|(_, ns)| *ns);
    Some(Counted {
        unfinished: unfinished.map(|(member, _)| *member).collect(),
        least: *least,
        bytes_sent: extra.bytes_sent,
        bytes_received: extra.bytes_received,
        steps: extra.steps,
        longest: longest
            .filter(|(_, ns)| *ns > 0)
            .and_then(|(wait, ns)| Some((NetWait::at(wait)?, ns))),
    })
}
