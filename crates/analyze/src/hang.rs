//! Does the job hang: who waits, in which call, and for whom?
//!
//! [`hang`] puts every rank's calls side by side (`places`), which gives operations that some ranks are in and others
//! lack. Ranks that wait are followed to the ones that wait for nobody: those are named. What can't end by itself is a
//! hang at once: a rank that is dead or has left, calls that do not fit. All else is a hang only by time, because a rank
//! that computes for long looks like one that never comes: see [`Conditions`].
//!
//! Rule: the verdict is a function of the capture and its [`Conditions`]. Nobody is named for want of evidence: what may
//! be hidden by a missing file, lost rows or host timing is said, and [`Hang::certain`] is then false.

mod alignment;
mod mismatch;
mod net_ops;
mod places;
mod reached;
mod roots;
mod say;
mod say_net_ops;
mod waits;

use crate::job::{ranges, ProblemRow};
use mismatch::Mismatch;
use places::{Lane, Place, Places};
use reached::Reached;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tables::{Capture, LiveSource};
use waits::{Lack, Stall, Wait};

pub use roots::Cause;
pub use say_net_ops::NetOpRow;

/// The format of [`Hang`].
pub const SCHEMA: &str = "ncclscope.hang/1";

const SECOND: i64 = 1_000_000_000;
/// Waits up to this long are part of any job.
const BRIEF_NS: i64 = 5 * SECOND;
/// Without a limit of the user's, a wait is a hang from here on; longer than checkpoints of a minute or two.
const PATIENCE_NS: i64 = 120 * SECOND;
/// A recorder writes the time into its live part 25 times a second; if it was this much behind the others when the job
/// ended, its process died first.
const DEAD_NS: i64 = 2 * SECOND;
/// As much where all of its host are dead, and others had begun to wait for it: three of those times.
const DIED_FIRST_NS: i64 = 120_000_000;
/// Snapshots are written at flushes, seldom on a shared file system.
const SNAPSHOT_NS: i64 = 15 * SECOND;

/// What the system says about a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    /// It runs on this host.
    Running,
    /// It is on this host, and a signal or a debugger has stopped it.
    Stopped,
    /// It was on this host and is gone.
    Gone,
    /// It is on another host or in another pid name space.
    #[default]
    Unknown,
}

/// What the verdict depends on beside the capture.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// What is known of each process, in the capture's order; missing ones are [`Life::Unknown`].
    pub lives: Vec<Life>,
    /// From how long a wait on is a hang, ns. `None`: 120 s, and at least twice the longest pause between two calls that
    /// a rank of this job has come back from.
    pub after_ns: Option<i64>,
}

/// What a process is to the others, as of the newest evidence of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It lives, or lived then.
    Running,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// It ended its recording.
    Ended,
    /// It died without ending it.
    Dead,
    /// It writes no more, and whether it lives can't be asked from here.
    Silent,
}

/// What kind of verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nobody waits for long.
    NoHang,
    /// Ranks made different calls at the same place.
    Mismatch,
    /// Ranks did not make a call that others are in.
    Missing,
    /// Ranks are in a call and have not launched it, as others have.
    Inside,
    /// GPUs have not begun a kernel that others run.
    NotBegun,
    /// All are in, and it does not end.
    NoProgress,
    /// Ranks wait for each other in different operations.
    Cycle,
    /// Ranks that others wait for are dead.
    Dead,
    /// Ranks that others wait for have left.
    Left,
    /// Ranks that others wait for are stopped by a signal or a debugger.
    Stopped,
    /// Ranks that others wait for write no more.
    Silent,
    /// The capture does not hold what would tell.
    Unknown,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Hang {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Whether the job hangs; null when it can't be told.
    pub hang: Option<bool>,
    /// What kind of verdict.
    pub verdict: Verdict,
    /// Whether nothing that is missing could name another rank or call.
    pub certain: bool,
    /// The verdict.
    pub sentence: String,
    /// What belongs to it.
    pub details: Vec<String>,
    /// What to do.
    pub next: String,
    /// The ranks that it names.
    pub blamed: Vec<Blamed>,
    /// The call that they lack, or are in.
    pub call: Option<CallRow>,
    /// Of a call that all are in and that does not end: why its network operations do not; null where that can't be told, or
    /// it has none.
    pub cause: Option<Cause>,
    /// Its open network operations, those first that wait for no other.
    pub net_ops: Vec<NetOpRow>,
    /// For how long others have waited, s; null when nobody does or times are not known.
    pub waited_s: Option<f64>,
    /// From how long on that is a hang, s.
    pub after_s: f64,
    /// The newest evidence: ns since 1970.
    pub as_of_ns: Option<i64>,
    /// Where each rank stands.
    pub communicators: Vec<CommunicatorState>,
    /// All operations that some ranks are in and others lack.
    pub waits: Vec<WaitRow>,
    /// What was unsound in the capture.
    pub problems: Vec<ProblemRow>,
}

/// A rank that a verdict names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blamed {
    /// The launcher's rank.
    pub global_rank: Option<u32>,
    /// Rank in the communicator.
    pub rank: Option<u32>,
    /// Host.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// Its state.
    pub state: State,
}

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

/// An operation that some are in and others lack.
#[derive(Clone, Debug, Serialize)]
pub struct WaitRow {
    /// The operation.
    pub call: CallRow,
    /// `call`, `launch` or `start`: what is lacking.
    pub lack: &'static str,
    /// Launcher's ranks, else ranks of the communicator, that are in it.
    pub waiting: String,
    /// Those that lack it.
    pub missing: String,
    /// Since the first of them entered, s.
    pub for_s: Option<f64>,
}

/// Whether the job of `capture` hangs.
pub fn hang(capture: &Capture, conditions: &Conditions) -> Hang {
    Judge::new(capture, conditions).verdict()
}

/// Everything that the verdict is made of.
struct Judge<'a> {
    capture: &'a Capture,
    places: Places<'a>,
    states: Vec<State>,
    /// By process: newest evidence, ns since 1970.
    evidence: Vec<Option<i64>>,
    /// By node: newest host time of a call.
    active: Vec<Option<i64>>,
    as_of: Option<i64>,
    brief_ns: i64,
    patience_ns: i64,
    waits: Vec<Wait>,
    stalls: Vec<Stall>,
}

/// A verdict without its words.
struct Found {
    verdict: Verdict,
    hang: Option<bool>,
    certain: bool,
    sentence: String,
    details: Vec<String>,
    blamed: Vec<(usize, usize)>,
    call: Option<CallRow>,
    waited_ns: Option<i64>,
    net_ops: Vec<NetOpRow>,
    cause: Option<Cause>,
}

impl<'a> Judge<'a> {
    fn new(capture: &'a Capture, conditions: &Conditions) -> Judge<'a> {
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

    /// Finds those that died before a launcher ended the others: their evidence ends before that of all on their host that had just begun
    /// to wait for them. After a hang that lasts, the order in which a launcher ends ranks says nothing.
    fn died_first(&mut self, lives: &[Life]) {
        if lives.iter().any(|life| *life != Life::Gone) {
            return;
        }
        let process = |place: usize, seat: usize| self.places.places[place].seats[seat].process;
        let precise = |process: usize| {
            let live = self.capture.processes[process].live;
            matches!(live, LiveSource::Here | LiveSource::Adopted)
        };
        let mut dead: BTreeSet<usize> = BTreeSet::new();
        let mut judge = |suspect: usize, others: &[usize], since: Option<i64>| {
            let host = &self.capture.processes[suspect].host;
            let (Some(end), Some(since)) = (self.evidence[suspect], since) else {
                return;
            };
            let mut there = others.iter().filter(|other| {
                **other != suspect
                    && precise(**other)
                    && self.capture.processes[**other].host == *host
            });
            let mut ends = there.by_ref().filter_map(|other| self.evidence[*other]);
            let first = ends.next().map(|first| ends.fold(first, i64::min));
            if self.states[suspect] == State::Running
                && precise(suspect)
                && first.is_some_and(|first| first.saturating_sub(end) >= DIED_FIRST_NS)
                && since >= end.saturating_sub(self.brief_ns)
            {
                dead.insert(suspect);
            }
        };
        for wait in &self.waits {
            let of = |seats: &[usize]| -> Vec<usize> {
                seats
                    .iter()
                    .map(|seat| process(wait.place, *seat))
                    .collect()
            };
            let waiting = of(&wait.waiting);
            for suspect in of(&wait.missing) {
                judge(suspect, &waiting, wait.since_ns);
            }
        }
        for stall in &self.stalls {
            let seats = 0..self.places.places[stall.place].seats.len();
            let all: Vec<usize> = seats.map(|seat| process(stall.place, seat)).collect();
            for suspect in &all {
                judge(*suspect, &all, stall.since_ns);
            }
        }
        for process in dead {
            self.states[process] = State::Dead;
        }
    }

    fn states(&self, lives: &[Life]) -> Vec<State> {
        let life = |index: usize| lives.get(index).copied().unwrap_or_default();
        let someone_lives = (0..self.capture.processes.len())
            .any(|i| matches!(life(i), Life::Running | Life::Stopped));
        let state = |index: usize| {
            let process = &self.capture.processes[index];
            let behind = self
                .as_of
                .zip(self.evidence[index])
                .map_or(i64::MAX, |(all, own)| all - own);
            let flush = process
                .fact("env.NCCLSCOPE_FLUSH")
                .and_then(|f| f.parse::<f64>().ok())
                .map_or(0, |s| (3.0 * s * 1e9) as i64);
            let late = match process.live {
                LiveSource::Here | LiveSource::Adopted => DEAD_NS,
                LiveSource::Snapshot | LiveSource::None => SNAPSHOT_NS.max(flush),
            };
            match life(index) {
                Life::Running => State::Running,
                Life::Stopped => State::Stopped,
                _ if process.ended => State::Ended,
                Life::Gone if someone_lives || behind > late => State::Dead,
                Life::Gone => State::Running,
                Life::Unknown if behind > late.max(SNAPSHOT_NS) => State::Silent,
                Life::Unknown => State::Running,
            }
        };
        (0..self.capture.processes.len()).map(state).collect()
    }

    fn verdict(self) -> Hang {
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
    fn ago(&self, since: Option<i64>) -> Option<i64> {
        Some(self.as_of?.saturating_sub(since?).max(0))
    }

    /// A hang by time alone: yes from the patience on, no while it is brief.
    fn by_time(&self, lasted: Option<i64>) -> Option<bool> {
        match lasted? {
            ns if ns >= self.patience_ns => Some(true),
            ns if ns <= self.brief_ns => Some(false),
            _ => None,
        }
    }

    fn node(&self, place: usize, seat: usize) -> usize {
        self.places.places[place].seats[seat].node
    }

    fn state(&self, place: usize, seat: usize) -> State {
        self.states[self.places.places[place].seats[seat].process]
    }

    /// How long a rank that others wait for has done nothing that they do not know of.
    fn away(&self, wait: &Wait, seat: usize) -> Option<i64> {
        let s = &self.places.places[wait.place].seats[seat];
        let until = self.evidence[s.process]?;
        let since = wait.since_ns?;
        let since = since.max(self.active[s.node].unwrap_or(since));
        Some(until.saturating_sub(since).max(0))
    }

    fn mismatch(&self) -> Option<Found> {
        let mismatches = self.places.mismatches();
        let quiet = |m: &Mismatch| {
            let seats = &self.places.places[m.place].seats;
            let active = seats.iter().filter_map(|s| self.active[s.node]).max();
            self.ago(active)
        };
        let open = |m: &&Mismatch| !self.places.places[m.place].is_over();
        let first = mismatches
            .iter()
            .filter(open)
            .min_by_key(|m| {
                let call = self.places.places[m.place].seats[m.most[0]]
                    .call(Lane::Eager, m.ordinal)
                    .map(|call| self.places.made(m.place, (m.most[0], call)).0.api_ns);
                (call, m.place)
            })?
            .clone();
        let first = self.settle(first);
        let lasted = quiet(&first);
        let hang = lasted.filter(|ns| *ns >= self.brief_ns).map(|_| true);
        Some(self.say_mismatch(&first, hang, lasted))
    }

    /// Where as many made one call as another, those are the odd ones whose order is new.
    fn settle(&self, mut mismatch: Mismatch) -> Mismatch {
        if mismatch.odd.len() != mismatch.most.len() {
            return mismatch;
        }
        let new = |seats: &[usize]| {
            seats.iter().any(|seat| {
                let own = &self.places.places[mismatch.place].seats[*seat];
                let call = own.call(Lane::Eager, mismatch.ordinal);
                let before = mismatch.ordinal.checked_sub(1);
                let before = before.and_then(|before| own.call(Lane::Eager, before));
                call.is_some_and(|call| self.strayed(own.process, before, call))
            })
        };
        match (new(&mismatch.most), new(&mismatch.odd)) {
            (true, false) => {
                std::mem::swap(&mut mismatch.most, &mut mismatch.odd);
                mismatch.how = mismatch::How::Differs;
            }
            (false, true) => {}
            _ => mismatch.tied = true,
        }
        mismatch
    }

    /// Follows who waits for whom to those that wait for nobody.
    fn chains(&self) -> Option<Found> {
        let mut edges: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for wait in &self.waits {
            for waiting in &wait.waiting {
                let to = edges.entry(self.node(wait.place, *waiting)).or_default();
                to.extend(wait.missing.iter().map(|m| self.node(wait.place, *m)));
            }
        }
        // One that lacks what it is in itself, of two of its communicators' ranks, waits for nobody else.
        for (node, to) in &mut edges {
            to.remove(node);
        }
        let stalled: BTreeSet<usize> = self
            .stalls
            .iter()
            .flat_map(|stall| &self.places.places[stall.place].seats)
            .map(|seat| seat.node)
            .collect();
        let waits_for = |node: usize| edges.get(&node).is_some_and(|to| !to.is_empty());
        let gone = |place: usize, seat: usize| {
            matches!(
                self.state(place, seat),
                State::Dead | State::Ended | State::Stopped | State::Silent
            ) || self.places.places[place].seats[seat].ended_ns.is_some()
        };
        // How many nodes wait for one, over others too.
        let mut back: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (from, to) in &edges {
            for node in to {
                back.entry(*node).or_default().push(*from);
            }
        }
        let waiters = |node: usize| {
            let (mut seen, mut next) = (BTreeSet::from([node]), vec![node]);
            while let Some(node) = next.pop() {
                for from in back.get(&node).into_iter().flatten() {
                    if seen.insert(*from) {
                        next.push(*from);
                    }
                }
            }
            seen.len() - 1
        };
        let mut roots: Vec<Root> = Vec::new();
        for (index, wait) in self.waits.iter().enumerate() {
            let seats: Vec<usize> = wait
                .missing
                .iter()
                .copied()
                .filter(|seat| {
                    let node = self.node(wait.place, *seat);
                    gone(wait.place, *seat) || !waits_for(node) && !stalled.contains(&node)
                })
                .collect();
            if let Some(first) = seats.first().copied() {
                let rank = |seat: usize| match self.state(wait.place, seat) {
                    State::Dead => 0,
                    State::Ended => 1,
                    _ if gone(wait.place, seat) => 2,
                    _ => 3,
                };
                let order = seats.iter().map(|s| rank(*s)).min().unwrap_or(3);
                let seats = seats.into_iter().filter(|s| rank(*s) == order).collect();
                let waiters = waiters(self.node(wait.place, first));
                let process = self.places.places[wait.place].seats[first].process;
                roots.push(Root {
                    index,
                    seats,
                    order,
                    waiters,
                    expected: self.is_expected(wait, process),
                });
            }
        }
        roots.sort_by_key(|root| {
            let wait = &self.waits[root.index];
            (
                root.order,
                std::cmp::Reverse(root.waiters),
                // Of what one rank lacks: what it is in, else what comes next in its pattern.
                std::cmp::Reverse(wait.lack == Lack::Launch),
                wait.lack == Lack::Call,
                !root.expected,
                wait.since_ns.is_none(),
                wait.since_ns,
                root.index,
            )
        });
        let judged: Vec<Found> = roots.iter().map(|root| self.root(root, &roots)).collect();
        let mut stalls: Vec<Found> = self.stalls.iter().map(|stall| self.stall(stall)).collect();
        // A GPU that one waits for may be busy with another.
        stalls.sort_by_key(|found| {
            (
                found.verdict != Verdict::Dead,
                found.cause.is_none(),
                found.cause,
            )
        });
        let cycle = (judged.is_empty() && self.stalls.is_empty())
            .then(|| self.cycle(&edges))
            .flatten();
        let all: Vec<Found> = judged.into_iter().chain(stalls).chain(cycle).collect();
        // A hang goes before a doubt, and a doubt before what is no hang; then the order above.
        let weight = |found: &Found| match found.hang {
            Some(true) => 0,
            None => 1,
            Some(false) if found.verdict == Verdict::Stopped => 2,
            Some(false) => 3,
        };
        let best = all.iter().map(weight).min()?;
        let stopped = all
            .iter()
            .position(|found| found.verdict == Verdict::Stopped);
        let first = all.iter().position(|found| weight(found) == best)?;
        // While a rank is stopped, nothing that only lasts proves anything.
        let chosen = match stopped {
            Some(stopped) if !matches!(all[first].verdict, Verdict::Dead | Verdict::Left) => {
                stopped
            }
            _ => first,
        };
        all.into_iter().nth(chosen)
    }

    fn root(&self, root: &Root, roots: &[Root]) -> Found {
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
    fn blind(&self, wait: &Wait, seat: usize) -> Option<usize> {
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
    fn may_lack_more(&self, wait: &Wait, seat: usize) -> bool {
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

    fn stall(&self, stall: &Stall) -> Found {
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

    /// A smallest ring of nodes that wait for each other, from the lowest node on.
    fn cycle(&self, edges: &BTreeMap<usize, BTreeSet<usize>>) -> Option<Found> {
        let mut best: Option<Vec<usize>> = None;
        // Each ring is found from each of its nodes; a bound keeps thousands of ranks cheap.
        for start in edges.keys().take(4096) {
            let mut from: BTreeMap<usize, usize> = BTreeMap::new();
            let mut next = std::collections::VecDeque::from([*start]);
            'search: while let Some(node) = next.pop_front() {
                for to in edges.get(&node).into_iter().flatten() {
                    if to == start {
                        let mut ring = vec![node];
                        while *ring.last()? != *start {
                            ring.push(from[ring.last()?]);
                        }
                        ring.reverse();
                        if best.as_ref().is_none_or(|b| ring.len() < b.len()) {
                            best = Some(ring);
                        }
                        break 'search;
                    }
                    if !from.contains_key(to) {
                        from.insert(*to, node);
                        next.push_back(*to);
                    }
                }
            }
            if best.as_ref().is_some_and(|b| b.len() == 2) {
                break;
            }
        }
        let ring = best?;
        let steps: Vec<(usize, usize, usize)> = ring
            .iter()
            .enumerate()
            .filter_map(|(i, node)| {
                let to = ring[(i + 1) % ring.len()];
                self.waits.iter().enumerate().find_map(|(index, wait)| {
                    let seat = |seats: &[usize], node: usize| {
                        let is = |s: &&usize| self.node(wait.place, **s) == node;
                        seats.iter().find(is).copied()
                    };
                    Some((index, seat(&wait.waiting, *node)?, seat(&wait.missing, to)?))
                })
            })
            .collect();
        let since = steps.iter().filter_map(|(w, ..)| self.waits[*w].since_ns);
        let active = ring.iter().filter_map(|node| self.active[*node]);
        let lasted = self.ago(since.chain(active).max());
        let hang = self.by_time(lasted);
        // Of ranks whose order is as it always was, and one whose order is new, the latter went astray.
        let astray: Vec<usize> = (0..steps.len())
            .filter(|step| {
                let before = (step + steps.len() - 1) % steps.len();
                self.is_astray(steps[*step], steps[before])
            })
            .collect();
        Some(match astray[..] {
            [step] => {
                let before = (step + steps.len() - 1) % steps.len();
                self.say_astray(&steps, step, before, hang, lasted)
            }
            _ => self.say_cycle(&steps, hang, lasted),
        })
    }

    /// Whether a rank came to the call that it waits in by another way than ever before, since its last call where
    /// others wait for it.
    fn is_astray(
        &self,
        (index, waiting, _): (usize, usize, usize),
        (lacked, _, missing): (usize, usize, usize),
    ) -> bool {
        let wait = &self.waits[index];
        let own = &self.places.places[wait.place].seats[waiting];
        let call = match wait.ordinal {
            Some(ordinal) => own.call(wait.lane, ordinal),
            None => (wait.call.0 == waiting).then_some(wait.call.1),
        };
        let lacked = &self.waits[lacked];
        let seats = &self.places.places[lacked.place].seats;
        let there = &seats[missing];
        let before: Vec<u32> = match lacked.ordinal {
            Some(_) => there.calls[lacked.lane as usize].clone(),
            None => {
                let (_, shape) = self.places.made(lacked.place, lacked.call);
                let send = self.capture.names.get(shape.function) != Some("Send");
                let peer = seats[lacked.call.0].rank;
                let last = peer
                    .zip(lacked.met.checked_sub(1))
                    .and_then(|(peer, number)| there.pair(send, peer, number));
                last.into_iter().collect()
            }
        };
        let Some(call) = call else {
            return false;
        };
        let before = before.into_iter().filter(|b| *b < call).max();
        self.strayed(own.process, before, call)
    }

    /// Whether any call after `from`, up to and with `to`, is new.
    fn strayed(&self, process: usize, from: Option<u32>, to: u32) -> bool {
        let from = from.map_or(0, |from| from + 1).max(to.saturating_sub(1000));
        (from..=to).any(|call| self.is_new(process, call as usize))
    }

    /// The call that a process's last calls were followed by before: the one after the longest stretch of earlier calls
    /// that equals its last ones.
    fn expected(&self, process: usize) -> Option<u32> {
        let process = &self.capture.processes[process];
        let what = |index: usize| {
            let call = &process.calls[index];
            let shape = &process.shapes[call.shape as usize];
            (
                shape.uid,
                shape.function,
                shape.count,
                shape.datatype,
                shape.peer,
                shape.root,
            )
        };
        let last = process.calls.len().checked_sub(1)?;
        let alike = |index: usize| {
            let back = 0..(index + 1).min(64);
            back.take_while(|back| what(index - back) == what(last - back))
                .count()
        };
        let earlier = (0..last)
            .rev()
            .take(10_000)
            .map(|index| (alike(index), index));
        let (length, index) = earlier.max_by_key(|(length, index)| (*length, *index))?;
        (length > 0).then_some(index as u32 + 1)
    }

    /// Whether a wait is for the call that this process is expected to make next.
    fn is_expected(&self, wait: &Wait, process: usize) -> bool {
        let Some(expected) = self.expected(process) else {
            return false;
        };
        let of = &self.capture.processes[process];
        let theirs = &of.shapes[of.calls[expected as usize].shape as usize];
        let (_, ours) = self.places.made(wait.place, wait.call);
        let place = Some(self.places.places[wait.place].communicator as u32);
        let half = if wait.ordinal.is_some() {
            theirs.function == ours.function
        } else {
            theirs.peer == self.places.places[wait.place].seats[wait.call.0].rank
        };
        half && theirs.communicator == place && theirs.count == ours.count
    }

    /// Whether a call follows another than each such call before did, or is followed by it for the first time.
    fn is_new(&self, process: usize, call: usize) -> bool {
        let process = &self.capture.processes[process];
        let what = |index: usize| {
            let shape = &process.shapes[process.calls[index].shape as usize];
            (
                shape.uid,
                shape.function,
                shape.count,
                shape.datatype,
                shape.peer,
                shape.root,
            )
        };
        if call < 2 {
            return false;
        }
        let (this, before) = (what(call), what(call - 1));
        let recent = || (1..call).rev().take(100_000);
        let mut same = recent().filter(|i| what(*i) == this).take(1000).peekable();
        let mut after = recent()
            .filter(|i| what(*i - 1) == before)
            .take(1000)
            .peekable();
        same.peek().is_some() && same.all(|i| what(i - 1) != before)
            || after.peek().is_some() && after.all(|i| what(i) != this)
    }

    /// Nobody is seen to wait.
    fn quiet(&self) -> Found {
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

    fn communicators(&self) -> Vec<CommunicatorState> {
        let of = |(index, place): (usize, &Place)| {
            let communicator = &self.capture.communicators[place.communicator];
            CommunicatorState {
                communicator: communicator.id.clone(),
                name: communicator.name.clone(),
                nranks: communicator.nranks,
                absent: (place.nabsent == 0 || !place.absent.is_empty())
                    .then(|| ranges(place.absent.iter().copied())),
                over: place.is_over(),
                ranks: (0..place.seats.len())
                    .map(|seat| self.rank_state(index, seat))
                    .collect(),
            }
        };
        self.places.places.iter().enumerate().map(of).collect()
    }

    fn rank_state(&self, place: usize, seat: usize) -> RankState {
        let own = &self.places.places[place].seats[seat];
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
            let lanes = places::LANES.into_iter().filter_map(newest);
            let pieces = own.newest_piece(process, at_least);
            let found = lanes.chain(pieces.map(|call| (call, None, Lane::Eager)));
            let (call, ordinal, lane) = found.max_by_key(|(call, ..)| *call)?;
            Some(self.call_row(place, (seat, call), ordinal, lane))
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

    fn call_row(
        &self,
        place: usize,
        at: (usize, u32),
        ordinal: Option<u64>,
        lane: Lane,
    ) -> CallRow {
        let (call, shape) = self.places.made(place, at);
        let of = &self.places.places[place];
        let name = |name| self.capture.names.get(name).map(str::to_owned);
        let function = self.places.function(place, at);
        CallRow {
            communicator: Some(self.capture.communicators[of.communicator].id.clone()),
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

    fn wait_row(&self, wait: &Wait) -> WaitRow {
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

/// Ranks that wait for nobody and that others wait for, in one wait.
struct Root {
    index: usize,
    seats: Vec<usize>,
    /// Dead ones first, those that may come last.
    order: u32,
    waiters: usize,
    /// The call is the one that comes next in their pattern.
    expected: bool,
}

/// To the millisecond, so that reports do not depend on how floats are printed.
fn seconds(ns: i64) -> f64 {
    (ns as f64 / 1e6).round() / 1e3
}
