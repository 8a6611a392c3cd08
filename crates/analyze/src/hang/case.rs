//! All that a verdict is made from.
//!
//! [`Case`] reads a capture once, step by step: the calls of all ranks, the evidence of each, the operations
//! that can't end, and the state of each process. Nothing in it is judged yet.

use super::alignment::align;
use super::calls::{CaptureCalls, CommunicatorCalls, RankCalls};
use super::evidence::Evidence;
use super::graphs::LaunchesByContent;
use super::limits::Limits;
use super::liveness::{states, Liveness};
use super::pace::{self, Pace};
use super::waits::{waits, Stall, Wait, Waits};
use crate::deaths;
use crate::time::{HostTime, Nanos};
use std::cell::OnceCell;
use tables::{Capture, Life, Process};

/// What the verdict depends on beside the capture.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// From how long a wait on is a hang. `None`: 120 s, and at least twice the longest pause between two
    /// calls that a rank of this job has come back from.
    pub after: Option<Nanos>,
}

/// See the module.
pub(super) struct Case<'a> {
    pub capture: &'a Capture,
    pub calls: CaptureCalls<'a>,
    pub evidence: Evidence,
    pub limits: Limits,
    pub waits: Vec<Wait>,
    pub stalls: Vec<Stall>,
    /// See [`Waits::held_up`].
    pub held_up: Vec<Wait>,
    /// See [`Waits::crossed`].
    pub crossed: Vec<Wait>,
    /// By process.
    pub states: Vec<Liveness>,
    /// By process; made when somebody asks.
    launches: OnceCell<Vec<LaunchesByContent>>,
    /// By process: whether it is gone, or dies.
    gone: Vec<bool>,
}

impl<'a> Case<'a> {
    /// `paces` are of the processes, if not all of their calls are in the capture.
    pub fn new(
        capture: &'a Capture,
        conditions: &Conditions,
        paces: Option<Vec<Pace>>,
    ) -> Case<'a> {
        let mut calls = CaptureCalls::new(capture);
        align(&mut calls);
        let evidence = Evidence::new(&calls, paces);
        let mut limits = Limits::new(conditions.after, evidence.longest_pause);
        let has_ended = |process: &Process| process.ended || deaths::is_over(capture, process);
        if conditions.after.is_none() && capture.processes.iter().all(has_ended) {
            let pace = pace::brief(&evidence.paces);
            limits = limits.at_the_end(pace, evidence.longest_pause);
        }
        let Waits {
            waits,
            stalls,
            held_up,
            crossed,
        } = waits(&calls);
        let states = states(&calls, &evidence, (&waits, &stalls), limits.brief);
        // It counts as running until it has died.
        let dies = |of: &Process| of.life == Life::Running && of.was_stopped().is_some();
        let processes = capture.processes.iter();
        let gone = processes
            .map(|process| process.life == Life::Gone || dies(process))
            .collect();
        Case {
            capture,
            calls,
            evidence,
            limits,
            waits,
            stalls,
            held_up,
            crossed,
            states,
            launches: OnceCell::new(),
            gone,
        }
    }

    /// A wait by its number in the wait-for graph: those for members that are held up stand behind the
    /// others, and those in an order that can't end stand last.
    pub fn wait(&self, index: usize) -> &Wait {
        let mut all = self.waits.iter().chain(&self.held_up).chain(&self.crossed);
        all.nth(index).expect("a number of a wait")
    }

    /// The launches of CUDA graphs of each process.
    pub fn launches(&self) -> &[LaunchesByContent] {
        let of_all = || LaunchesByContent::of_all(self.capture);
        self.launches.get_or_init(of_all)
    }

    /// What a process is by now. All processes of a job that was killed count as running up to its end, but
    /// none of them runs.
    pub fn state_now(&self, process: usize) -> Liveness {
        match self.states[process] {
            Liveness::Running | Liveness::Stopped if self.gone[process] => Liveness::Dead,
            state => state,
        }
    }

    /// Whether a process died before the others, and that is known from what it wrote last alone.
    pub fn has_unseen_end(&self, process: usize) -> bool {
        let behind = self.ago(self.evidence.newest[process]);
        self.states[process] == Liveness::Dead
            && behind.is_some_and(|behind| deaths::has_unseen_end(self.capture, process, behind))
    }

    /// The calls on a communicator.
    pub fn of(&self, communicator: usize) -> &CommunicatorCalls {
        &self.calls.communicators[communicator]
    }

    /// The calls of one member of a communicator.
    pub fn member(&self, communicator: usize, member: usize) -> &RankCalls {
        &self.of(communicator).ranks[member]
    }

    /// The state of a member's process.
    pub fn state(&self, communicator: usize, member: usize) -> Liveness {
        self.states[self.member(communicator, member).process]
    }

    /// How long ago a time was, as of the newest evidence.
    pub fn ago(&self, since: Option<HostTime>) -> Option<Nanos> {
        self.evidence.ago(since)
    }
}
