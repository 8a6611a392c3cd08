//! The verdict, from who waits for whom.

use super::liveness::State;
use super::places::{Place, Places};
use super::progress::CallRow;
use super::reached::{self, Reached};
use super::roots::Cause;
use super::say_net_ops::NetOpRow;
use super::wait_for::Root;
use super::waits::{Lack, Stall, Wait};
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
    pub places: Places<'a>,
    pub states: Vec<State>,
    /// By process: newest evidence, ns since 1970.
    pub evidence: Vec<Option<i64>>,
    /// By node: newest host time of a call.
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
        let mut places = Places::new(capture);
        for place in &mut places.places {
            alignment::align(capture, place);
        }
        let (waits, stalls) = places.waits();
        let evidence: Vec<Option<i64>> =
            capture.processes.iter().map(|p| p.clock.newest()).collect();
        let as_of = evidence.iter().flatten().copied().max();
        let mut active = vec![None; places.nodes];
        let mut longest_pause = 0;
        let mut nodes: Vec<BTreeMap<u32, usize>> = vec![BTreeMap::new(); capture.processes.len()];
        for seat in places.places.iter().flat_map(|place| &place.seats) {
            nodes[seat.process].insert(seat.uid, seat.node);
        }
        for (process, nodes) in capture.processes.iter().zip(&nodes) {
            let node_of: Vec<Option<usize>> = process
                .shapes
                .iter()
                .map(|shape| nodes.get(&shape.uid).copied())
                .collect();
            let mut before: Option<i64> = None;
            for call in &process.calls {
                let newest = reached::newest(call);
                if let Some(node) = node_of[call.shape as usize] {
                    active[node] = active[node].max(newest);
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
            places,
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
        let seat = |(place, seat): &(usize, usize)| {
            let s = &self.places.places[*place].seats[*seat];
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
            blamed: found.blamed.iter().map(seat).collect(),
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

    pub(super) fn node(&self, place: usize, seat: usize) -> usize {
        self.places.places[place].seats[seat].node
    }

    pub(super) fn state(&self, place: usize, seat: usize) -> State {
        self.states[self.places.places[place].seats[seat].process]
    }

    /// How long a rank that others wait for has done nothing that they do not know of.
    pub(super) fn away(&self, wait: &Wait, seat: usize) -> Option<i64> {
        let s = &self.places.places[wait.place].seats[seat];
        let until = self.evidence[s.process]?;
        let since = wait.since_ns?;
        let since = since.max(self.active[s.node].unwrap_or(since));
        Some(until.saturating_sub(since).max(0))
    }

    pub(super) fn root(&self, root: &Root, roots: &[Root]) -> Found {
        let wait = &self.waits[root.index];
        let place = &self.places.places[wait.place];
        let first = root.seats[0];
        let others = self.ago(wait.since_ns);
        let ended = place.seats[first].ended_ns.is_some();
        let (verdict, hang) = match self.state(wait.place, first) {
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
                let away = root.seats.iter().filter_map(|s| self.away(wait, *s)).max();
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

    /// Why the rank of this seat may be waiting itself: a communicator where it is in the newest call of all, of whose
    /// ranks some are not known. Gives that place.
    pub(super) fn blind(&self, wait: &Wait, seat: usize) -> Option<usize> {
        let node = self.node(wait.place, seat);
        self.places
            .places
            .iter()
            .enumerate()
            .find_map(|(index, place)| {
                let own = place.seats.iter().find(|s| s.node == node)?;
                if !place.is_partial() || own.ended_ns.is_some() {
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
    pub(super) fn may_lack_more(&self, wait: &Wait, seat: usize) -> bool {
        let node = self.node(wait.place, seat);
        let mut places = self.places.places.iter().enumerate();
        wait.lack == Lack::Call
            && places.any(|(index, place)| {
                index != wait.place
                    && place.is_partial()
                    && place
                        .seats
                        .iter()
                        .any(|s| s.node == node && s.ended_ns.is_none())
            })
    }

    pub(super) fn stall(&self, stall: &Stall) -> Found {
        let place = &self.places.places[stall.place];
        // What still moves, however slowly, does not hang.
        let lasted = self.ago(stall.since_ns.max(self.moved(stall)));
        let stopped = place
            .seats
            .iter()
            .position(|s| self.states[s.process] == State::Stopped);
        let dead = place
            .seats
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
        let open: Vec<&Place> = self
            .places
            .places
            .iter()
            .filter(|place| !place.is_over() && place.seats.len() as u32 + place.nabsent > 1)
            .collect();
        let lasted = self.ago(self.active.iter().flatten().copied().max());
        let is = |state: State| {
            open.iter()
                .flat_map(|place| &place.seats)
                .filter(|seat| seat.ended_ns.is_none())
                .map(|seat| seat.process)
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
            call: self.call_row(wait.place, wait.call, wait.ordinal, wait.lane),
            lack: match wait.lack {
                Lack::Call => "call",
                Lack::Launch => "launch",
                Lack::Start => "start",
            },
            waiting: self.numbers(wait.place, &wait.waiting),
            missing: self.numbers(wait.place, &wait.missing),
            for_s: self.ago(wait.since_ns).map(seconds),
        }
    }
}
