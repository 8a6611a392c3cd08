//! What each process is to the others: alive, stopped, ended, dead, or silent.

use super::judge::Judge;
use super::{Life, SECOND};
use serde::Serialize;
use std::collections::BTreeSet;
use tables::LiveSource;

/// A recorder writes the time into its live part 25 times a second; if it was this much behind the others when the job
/// ended, its process died first.
const DEAD_NS: i64 = 2 * SECOND;
/// As much where all of its host are dead, and others had begun to wait for it: three of those times.
const DIED_FIRST_NS: i64 = 120_000_000;
/// Snapshots are written at flushes, seldom on a shared file system.
const SNAPSHOT_NS: i64 = 15 * SECOND;

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

impl Judge<'_> {
    /// Finds those that died before a launcher ended the others: their evidence ends before that of all on their host that had just begun
    /// to wait for them. After a hang that lasts, the order in which a launcher ends ranks says nothing.
    pub(super) fn died_first(&mut self, lives: &[Life]) {
        if lives.iter().any(|life| *life != Life::Gone) {
            return;
        }
        let process = |communicator: usize, member: usize| {
            self.calls.communicators[communicator].ranks[member].process
        };
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
            let of = |ranks: &[usize]| -> Vec<usize> {
                ranks
                    .iter()
                    .map(|member| process(wait.communicator, *member))
                    .collect()
            };
            let waiting = of(&wait.waiting);
            for suspect in of(&wait.missing) {
                judge(suspect, &waiting, wait.since_ns);
            }
        }
        for stall in &self.stalls {
            let ranks = 0..self.calls.communicators[stall.communicator].ranks.len();
            let all: Vec<usize> = ranks
                .map(|member| process(stall.communicator, member))
                .collect();
            for suspect in &all {
                judge(*suspect, &all, stall.since_ns);
            }
        }
        for process in dead {
            self.states[process] = State::Dead;
        }
    }

    pub(super) fn states(&self, lives: &[Life]) -> Vec<State> {
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
}
