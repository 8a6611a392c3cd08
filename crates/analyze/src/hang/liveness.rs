//! What each process is to the others: running, stopped, ended, dead, or silent.
//!
//! [`states`] puts together what the system says about a process ([`tables::Life`]) and how old the newest
//! evidence of it is.
//!
//! What `ncclscope hang` or `ncclscope run` saw of a process while it was there stays true after its end, as
//! long as it wrote nothing more. For example, a process that was stopped, and then killed with all others,
//! did not die first.
//!
//! Rule: a process is dead only if the system says that it is gone and its evidence ends before that of
//! others. If a job is over, all its processes count as running up to its end, except those that died first.

use super::calls::CaptureCalls;
use super::evidence::Evidence;
use super::waits::{Stall, Wait};
use crate::time::{HostTime, Nanos};
use std::collections::BTreeSet;
use tables::{Capture, Life, LiveSource};

/// A recorder writes the time into its live part 25 times a second. If it was this much behind the others
/// when the job ended, its process died first.
const DEAD: Nanos = Nanos::from_seconds(2.0);
/// The same if all processes of its host are dead and others had begun to wait for it: three of those times.
const DIED_FIRST: Nanos = Nanos::from_ms(120.0);
/// A snapshot is as old as the newest flush. Flushes are so far apart on a shared file system, or farther if
/// the setting says so.
const FLUSH: Nanos = Nanos::from_seconds(4.5);
/// A flush may be late by so much: a busy machine, and a file system that takes its time.
const LATE: Nanos = Nanos::from_seconds(0.5);

/// What a process is to the others, as of the newest evidence of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It lives, or lived then.
    Running,
    /// A signal or a debugger has stopped it.
    Stopped,
    /// It ended its recording.
    Ended,
    /// It died without ending its recording.
    Dead,
    /// It writes no more, and from here nobody can ask whether it lives.
    Silent,
}

/// The state of each process. `brief` is how long a wait may be that has just begun.
pub(super) fn states(
    calls: &CaptureCalls,
    evidence: &Evidence,
    (waits, stalls): (&[Wait], &[Stall]),
    brief: Nanos,
) -> Vec<Liveness> {
    let mut states = by_evidence(calls.capture, evidence);
    let mut processes = calls.capture.processes.iter();
    if processes.all(|process| process.life == Life::Gone) {
        let ends = Ends {
            capture: calls.capture,
            evidence,
            brief,
        };
        for dead in ends.died_first(calls, waits, stalls, &states) {
            states[dead] = Liveness::Dead;
        }
    }
    states
}

fn by_evidence(capture: &Capture, evidence: &Evidence) -> Vec<Liveness> {
    let someone_lives = capture.processes.iter().any(|p| p.life.is_there());
    let state = |index: usize| {
        let process = &capture.processes[index];
        let behind = evidence
            .as_of
            .zip(evidence.newest[index])
            .map_or(Nanos(f64::INFINITY), |(all, own)| all - own);
        let flush = process
            .fact("env.NCCLSCOPE_FLUSH")
            .and_then(|f| f.parse::<f64>().ok())
            .filter(|seconds| !seconds.is_nan())
            .map_or(FLUSH, |s| FLUSH.max(Nanos::from_seconds(s)));
        // Two flushes did not come.
        let silent = flush * 2.0 + LATE;
        let late = match process.live {
            LiveSource::Here | LiveSource::Adopted => DEAD,
            LiveSource::Snapshot | LiveSource::None | LiveSource::OtherTool => silent,
        };
        // Seen while it could still be asked.
        let was_gone = process.seen.is_some_and(|seen| seen.life == Life::Gone);
        let was_stopped = process.was_stopped().is_some();
        match process.life {
            Life::Stopped => Liveness::Stopped,
            Life::Running if was_stopped => Liveness::Stopped,
            Life::Running => Liveness::Running,
            _ if process.ended => Liveness::Ended,
            Life::Gone if someone_lives => Liveness::Dead,
            _ if was_gone => Liveness::Dead,
            _ if was_stopped => Liveness::Stopped,
            Life::Gone if behind > late => Liveness::Dead,
            Life::Gone => Liveness::Running,
            Life::Unknown if behind > silent => Liveness::Silent,
            Life::Unknown => Liveness::Running,
        }
    };
    (0..capture.processes.len()).map(state).collect()
}

/// When the evidence of processes ends that are all gone.
struct Ends<'e> {
    capture: &'e Capture,
    evidence: &'e Evidence,
    brief: Nanos,
}

impl Ends<'_> {
    /// The processes that died before a launcher ended the others: their evidence ends before that of all on
    /// their host that had just begun to wait for them. After a wait that lasts, the order in which a
    /// launcher ends ranks proves nothing.
    fn died_first(
        &self,
        calls: &CaptureCalls,
        waits: &[Wait],
        stalls: &[Stall],
        states: &[Liveness],
    ) -> BTreeSet<usize> {
        let process = |communicator: usize, member: &usize| {
            calls.communicators[communicator].ranks[*member].process
        };
        let mut dead = BTreeSet::new();
        let mut decide = |suspect: usize, others: &[usize], since: Option<HostTime>| {
            if states[suspect] == Liveness::Running && self.is_first(suspect, others, since) {
                dead.insert(suspect);
            }
        };
        for wait in waits {
            let of = |member: &usize| process(wait.communicator, member);
            let waiting: Vec<usize> = wait.waiting.iter().map(of).collect();
            for suspect in wait.missing.iter().map(of) {
                decide(suspect, &waiting, wait.since);
            }
        }
        for stall in stalls {
            let ranks = &calls.communicators[stall.communicator].ranks;
            let all: Vec<usize> = ranks.iter().map(|own| own.process).collect();
            for suspect in &all {
                decide(*suspect, &all, stall.since);
            }
        }
        dead
    }

    /// Whether the evidence of `suspect` ends before that of the others on its machine, which wait for it
    /// since then.
    fn is_first(&self, suspect: usize, others: &[usize], since: Option<HostTime>) -> bool {
        let (Some(end), Some(since)) = (self.evidence.newest[suspect], since) else {
            return false;
        };
        let clock = self.capture.processes[suspect].clock_host();
        let there = others.iter().copied().filter(|other| {
            *other != suspect
                && self.is_precise(*other)
                && self.capture.processes[*other].clock_host() == clock
        });
        let first = there.filter_map(|other| self.evidence.newest[other]).min();
        self.is_precise(suspect)
            && first.is_some_and(|first| first - end >= DIED_FIRST)
            && since >= end - self.brief
    }

    /// Whether the end of a process is known to a fraction of a second.
    fn is_precise(&self, process: usize) -> bool {
        let live = self.capture.processes[process].live;
        matches!(live, LiveSource::Here | LiveSource::Adopted)
    }
}
