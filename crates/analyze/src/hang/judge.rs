//! The verdict, from who waits for whom.

use super::calls::{Calls, CommunicatorCalls};
use super::liveness::State;
use super::progress::CallRow;
use super::reached::{self, Reached};
use super::roots::Cause;
use super::say_net_ops::NetOpRow;
use super::wait_for::Root;
use super::waits::{waits, Lack, Stall, Wait};
use super::{alignment, seconds, Blamed, Conditions, Hang, Verdict, WaitRow, SCHEMA, SECOND};
use std::collections::{BTreeMap, BTreeSet};
use tables::Capture;

/// Waits up to this long are part of any job.
const BRIEF_NS: i64 = 5 * SECOND;
/// Without a limit of the user's, a wait is a hang from here on; longer than checkpoints of a minute or two.
const PATIENCE_NS: i64 = 120 * SECOND;

/// Everything that the verdict is made of.
pub(super) struct Judge<'a> {
    pub capture: &'a Capture,
    pub calls: Calls<'a>,
    pub states: Vec<State>,
    /// By process: newest evidence, ns since 1970.
    pub evidence: Vec<Option<i64>>,
    /// By vertex: newest host time of a call.
    pub active: Vec<Option<i64>>,
    pub as_of: Option<i64>,
    pub brief_ns: i64,
    pub patience_ns: i64,
    pub waits: Vec<Wait>,
    pub stalls: Vec<Stall>,
}

/// A verdict without its words.
pub(super) struct Found {
    pub verdict: Verdict,
    pub hang: Option<bool>,
    pub certain: bool,
    pub sentence: String,
    pub details: Vec<String>,
    pub blamed: Vec<(usize, usize)>,
    pub call: Option<CallRow>,
    pub waited_ns: Option<i64>,
    pub net_ops: Vec<NetOpRow>,
    pub cause: Option<Cause>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(capture: &'a Capture, conditions: &Conditions) -> Judge<'a> {
        let mut calls = Calls::new(capture);
        alignment::align(&mut calls);
        let (waits, stalls) = waits(&calls);
        let evidence: Vec<Option<i64>> =
            capture.processes.iter().map(|p| p.clock.newest()).collect();
        let as_of = evidence.iter().flatten().copied().max();
        let mut active = vec![None; calls.vertices];
        let mut longest_pause = 0;
        let mut vertices: Vec<BTreeMap<u32, usize>> =
            vec![BTreeMap::new(); capture.processes.len()];
        for member in calls
            .communicators
            .iter()
            .flat_map(|communicator| &communicator.ranks)
        {
            vertices[member.process].insert(member.uid, member.vertex);
        }
        for (process, vertices) in capture.processes.iter().zip(&vertices) {
            let vertex_of: Vec<Option<usize>> = process
                .shapes
                .iter()
                .map(|shape| vertices.get(&shape.uid).copied())
                .collect();
            let mut before: Option<i64> = None;
            for call in &process.calls {
                let newest = reached::newest(call);
                if let Some(vertex) = vertex_of[call.shape as usize] {
                    active[vertex] = active[vertex].max(newest);
                }
                // Times of a damaged file may be anything, so far from each other.
                if let (Some(before), Some(now)) = (before, reached::known(call.api_ns)) {
                    longest_pause = longest_pause.max(now.saturating_sub(before));
                }
                before = before.max(newest);
            }
        }
        let (brief_ns, patience_ns) = match conditions.after_ns {
            Some(after) => (after.min(BRIEF_NS), after),
            None => {
                let longest = longest_pause.min(24 * 3600 * SECOND);
                (BRIEF_NS.max(longest), PATIENCE_NS.max(2 * longest))
            }
        };
        let mut judge = Judge {
            capture,
            calls,
            states: Vec::new(),
            evidence,
            active,
            as_of,
            brief_ns,
            patience_ns,
            waits,
            stalls,
        };
        judge.states = judge.states(&conditions.lives);
        judge.died_first(&conditions.lives);
        judge
    }

    pub(super) fn verdict(self) -> Hang {
        let found = self
            .mismatch()
            .or_else(|| self.chains())
            .unwrap_or_else(|| self.quiet());
        let next = self.next(&found);
        let member = |(communicator, member): &(usize, usize)| {
            let s = &self.calls.communicators[*communicator].ranks[*member];
            let process = &self.capture.processes[s.process];
            Blamed {
                global_rank: process.rank,
                rank: s.rank,
                host: process.host.clone(),
                pid: process.pid,
                state: self.states[s.process],
            }
        };
        Hang {
            schema: SCHEMA,
            hang: found.hang,
            verdict: found.verdict,
            certain: found.certain,
            blamed: found.blamed.iter().map(member).collect(),
            sentence: found.sentence,
            details: found.details,
            next,
            call: found.call,
            cause: found.cause,
            net_ops: found.net_ops,
            waited_s: found.waited_ns.map(seconds),
            after_s: seconds(self.patience_ns),
            as_of_ns: self.as_of,
            communicators: self.communicators(),
            waits: self.waits.iter().map(|wait| self.wait_row(wait)).collect(),
            problems: crate::job::problems(self.capture),
        }
    }

    /// Since then, as of the newest evidence.
    pub(super) fn ago(&self, since: Option<i64>) -> Option<i64> {
        Some(self.as_of?.saturating_sub(since?).max(0))
    }

    /// A hang by time alone: yes from the patience on, no while it is brief.
    pub(super) fn by_time(&self, lasted: Option<i64>) -> Option<bool> {
        match lasted? {
            ns if ns >= self.patience_ns => Some(true),
            ns if ns <= self.brief_ns => Some(false),
            _ => None,
        }
    }

    pub(super) fn vertex(&self, communicator: usize, member: usize) -> usize {
        self.calls.communicators[communicator].ranks[member].vertex
    }

    pub(super) fn state(&self, communicator: usize, member: usize) -> State {
        self.states[self.calls.communicators[communicator].ranks[member].process]
    }

    /// How long a rank that others wait for has done nothing that they do not know of.
    pub(super) fn away(&self, wait: &Wait, member: usize) -> Option<i64> {
        let s = &self.calls.communicators[wait.communicator].ranks[member];
        let until = self.evidence[s.process]?;
        let since = wait.since_ns?;
        let since = since.max(self.active[s.vertex].unwrap_or(since));
        Some(until.saturating_sub(since).max(0))
    }

    pub(super) fn root(&self, root: &Root, roots: &[Root]) -> Found {
        let wait = &self.waits[root.index];
        let communicator = &self.calls.communicators[wait.communicator];
        let first = root.ranks[0];
        let others = self.ago(wait.since_ns);
        let ended = communicator.ranks[first].ended_ns.is_some();
        let (verdict, hang) = match self.state(wait.communicator, first) {
            State::Dead => (Verdict::Dead, Some(true)),
            State::Ended => (Verdict::Left, Some(true)),
            State::Stopped => (Verdict::Stopped, Some(false)),
            State::Silent => (Verdict::Silent, self.by_time(others)),
            State::Running if ended => (Verdict::Left, Some(true)),
            State::Running => {
                let verdict = match wait.lack {
                    Lack::Call => Verdict::Missing,
                    Lack::Launch => Verdict::Inside,
                    Lack::Start => Verdict::NotBegun,
                };
                let away = root.ranks.iter().filter_map(|s| self.away(wait, *s)).max();
                let by_others = self.by_time(others);
                (
                    verdict,
                    match (self.by_time(away), by_others) {
                        // It still makes other calls, however long these wait.
                        (Some(false), Some(true)) => None,
                        (Some(false), _) => Some(false),
                        (Some(true), Some(true)) => Some(true),
                        _ => None,
                    },
                )
            }
        };
        let blind = self.blind(wait, first);
        let proven = matches!(verdict, Verdict::Dead | Verdict::Left | Verdict::Stopped);
        self.say_root(
            root,
            roots,
            verdict,
            hang,
            others,
            blind.filter(|_| !proven),
        )
    }

    /// Why the rank of this member may be waiting itself: a communicator where it is in the newest call of all, of whose
    /// ranks some are not known. Gives that communicator.
    pub(super) fn blind(&self, wait: &Wait, member: usize) -> Option<usize> {
        let vertex = self.vertex(wait.communicator, member);
        self.calls
            .communicators
            .iter()
            .enumerate()
            .find_map(|(index, communicator)| {
                let own = communicator.ranks.iter().find(|s| s.vertex == vertex)?;
                if !communicator.is_partial() || own.ended_ns.is_some() {
                    return None;
                }
                let process = &self.capture.processes[own.process];
                let last = own.calls.iter().flatten().copied();
                let last = last
                    .chain(own.newest_piece(process, Reached::Entered))
                    .max();
                // An operation that ended on this rank had everybody in it.
                let ended = last.is_none_or(|call| {
                    reached::reached(process, &process.calls[call as usize]) == Reached::Finished
                });
                (!ended).then_some(index)
            })
    }

    /// Whether a rank may lack an earlier call on another communicator, of whose ranks some are not known.
    pub(super) fn may_lack_more(&self, wait: &Wait, member: usize) -> bool {
        let vertex = self.vertex(wait.communicator, member);
        let mut calls = self.calls.communicators.iter().enumerate();
        wait.lack == Lack::Call
            && calls.any(|(index, communicator)| {
                index != wait.communicator
                    && communicator.is_partial()
                    && communicator
                        .ranks
                        .iter()
                        .any(|s| s.vertex == vertex && s.ended_ns.is_none())
            })
    }

    pub(super) fn stall(&self, stall: &Stall) -> Found {
        let communicator = &self.calls.communicators[stall.communicator];
        // What still moves, however slowly, does not hang.
        let lasted = self.ago(stall.since_ns.max(self.moved(stall)));
        let stopped = communicator
            .ranks
            .iter()
            .position(|s| self.states[s.process] == State::Stopped);
        let dead = communicator
            .ranks
            .iter()
            .position(|s| self.states[s.process] == State::Dead);
        let hang = match (dead, stopped) {
            (Some(_), _) => Some(true),
            (_, Some(_)) => Some(false),
            _ => self.by_time(lasted),
        };
        self.say_stall(stall, dead, stopped, hang, lasted)
    }

    /// Nobody is seen to wait.
    pub(super) fn quiet(&self) -> Found {
        let open: Vec<(usize, &CommunicatorCalls)> = self
            .calls
            .communicators
            .iter()
            .enumerate()
            .filter(|(_, communicator)| !communicator.is_over() && communicator.is_shared())
            .collect();
        let lasted = self.ago(self.active.iter().flatten().copied().max());
        let is = |state: State| {
            open.iter()
                .flat_map(|(_, communicator)| &communicator.ranks)
                .filter(|member| member.ended_ns.is_none())
                .map(|member| member.process)
                .filter(|process| self.states[*process] == state)
                .collect::<BTreeSet<usize>>()
        };
        let (dead, stopped, silent) = (is(State::Dead), is(State::Stopped), is(State::Silent));
        let over = open.is_empty()
            || self
                .capture
                .processes
                .iter()
                .enumerate()
                .all(|(i, p)| p.ended || self.states[i] == State::Ended);
        let brief = lasted.is_none_or(|ns| ns <= self.brief_ns);
        self.say_quiet(over, lasted, brief, [dead, stopped, silent], &open)
    }

    pub(super) fn wait_row(&self, wait: &Wait) -> WaitRow {
        WaitRow {
            call: self.call_row(wait.communicator, wait.call, wait.ordinal, wait.lane),
            lack: match wait.lack {
                Lack::Call => "call",
                Lack::Launch => "launch",
                Lack::Start => "start",
            },
            waiting: self.numbers(wait.communicator, &wait.waiting),
            missing: self.numbers(wait.communicator, &wait.missing),
            for_s: self.ago(wait.since_ns).map(seconds),
        }
    }
}
