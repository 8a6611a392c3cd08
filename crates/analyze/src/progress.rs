//! How many collectives each process made on each communicator, and when it made the last one.
//!
//! A [`Gatherer`] takes one process after the other. [`crate::deaths`] compares what it has.
//!
//! Rule: of a process that lacks calls, nothing is kept, because a lower count would prove nothing.

use crate::executions::{Execution, Walk};
use crate::exits::LastCall;
use crate::graphs::nccl_shows_all;
use crate::matching::is_collective;
use crate::time::HostTime;
use capture::live::flag;
use std::collections::HashMap;
use tables::communicators::Member;
use tables::{Capture, Process};

/// The collectives of a process on a communicator, by one of its ranks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub communicator: Option<u32>,
    /// The communicator's number in the process.
    pub uid: u32,
    pub calls: u64,
    /// Beside them, those that launches of CUDA graphs executed; `None` if none was captured.
    pub in_graphs: Option<u64>,
    /// The last of them.
    pub last: Option<LastCall>,
    /// The newest time at which one was entered.
    pub newest_time: HostTime,
    /// Some of them are a Gather or Scatter, which are put together from sends and receives by guess.
    pub guessed: bool,
}

impl Progress {
    /// That of a rank that made no call.
    pub const NONE: Progress = Progress {
        communicator: None,
        uid: 0,
        calls: 0,
        in_graphs: None,
        last: None,
        newest_time: HostTime(0),
        guessed: false,
    };
}

/// What is gathered.
#[derive(Default)]
pub struct Gatherer {
    /// By process.
    pub(crate) progress: Vec<Vec<Progress>>,
    /// By process: where in that its ranks' progress on a communicator is.
    places: Vec<HashMap<u32, Vec<usize>>>,
    /// By process: its last call.
    last_calls: Vec<Option<LastCall>>,
    /// By process: whether all calls that NCCL announced are here.
    pub(crate) complete: Vec<bool>,
    /// When the newest call of any was entered; 0 if that is not known.
    newest_time: HostTime,
}

/// What is gathered of one process.
pub struct ProcessProgress {
    /// By place of the walk: whether its calls count, and whether they are put together by guess.
    counted: Vec<(bool, bool)>,
    /// By local.
    progress: Vec<Progress>,
    /// By local: the place of the last call.
    last: Vec<Option<usize>>,
    /// The place of the newest call of any kind.
    newest: Option<usize>,
    /// No call is missing so far.
    whole: bool,
    /// Announced calls so far.
    calls: u64,
    /// When the newest call of any kind was entered.
    newest_time: HostTime,
}

impl ProcessProgress {
    /// Prepares for a process, or for the next part of one.
    pub fn new(capture: &Capture, walk: &Walk) -> ProcessProgress {
        let counted = walk.places().iter().map(|place| {
            let function = capture.names.get(place.function);
            let replayed = place.shape.is(flag::REPLAY) || place.shape.is(flag::CAPTURED);
            let counts = !replayed && function.is_some_and(is_collective);
            (counts, matches!(function, Some("Gather" | "Scatter")))
        });
        let mut progress = vec![Progress::default(); walk.locals()];
        for place in walk.places() {
            let of = &mut progress[place.local as usize];
            (of.communicator, of.uid) = (place.shape.communicator, place.shape.uid);
        }
        ProcessProgress {
            counted: counted.collect(),
            last: vec![None; progress.len()],
            progress,
            newest: None,
            whole: true,
            calls: 0,
            newest_time: HostTime(0),
        }
    }

    /// Counts a call.
    pub fn add(&mut self, local: u32, execution: &Execution) {
        let entered = HostTime(execution.call.api_ns);
        self.whole &= execution.whole;
        self.calls += execution.pieces;
        if entered >= self.newest_time {
            self.newest = Some(execution.place);
        }
        self.newest_time = self.newest_time.max(entered);
        let (counts, guessed) = self.counted[execution.place];
        if counts {
            let progress = &mut self.progress[local as usize];
            progress.guessed |= guessed;
            progress.calls += 1;
            progress.newest_time = progress.newest_time.max(entered);
            self.last[local as usize] = Some(execution.place);
        }
    }
}

impl Gatherer {
    /// The last call of a process, by its index.
    pub fn last_call(&self, process: usize) -> Option<LastCall> {
        self.last_calls.get(process)?.clone()
    }

    /// Adds a process that was walked.
    pub fn add(
        &mut self,
        capture: &Capture,
        process: &Process,
        walk: &Walk,
        plan: ProcessProgress,
    ) {
        let last_call = |place: usize| {
            let place = &walk.places()[place];
            LastCall::of(capture, place.shape, place.function)
        };
        self.last_calls.push(plan.newest.map(last_call));
        let mut progress = plan.progress;
        for (progress, place) in progress.iter_mut().zip(plan.last) {
            progress.last = place.map(last_call);
        }
        add_in_graphs(&mut progress, capture, process);
        let progress = if plan.whole { progress } else { Vec::new() };
        let mut places: HashMap<u32, Vec<usize>> = HashMap::new();
        for (at, of) in progress.iter().enumerate() {
            if let Some(communicator) = of.communicator {
                places.entry(communicator).or_default().push(at);
            }
        }
        self.places.push(places);
        self.progress.push(progress);
        let announced = process.counters.as_ref().map(|counters| counters.announced);
        let complete = plan.whole && process.is_whole() && announced == Some(plan.calls);
        self.complete.push(complete);
        self.newest_time = self.newest_time.max(plan.newest_time);
    }

    /// Takes in what was gathered of later processes.
    pub fn merge(&mut self, later: Gatherer) {
        self.progress.extend(later.progress);
        self.places.extend(later.places);
        self.last_calls.extend(later.last_calls);
        self.complete.extend(later.complete);
        self.newest_time = self.newest_time.max(later.newest_time);
    }

    /// The progress of a process's ranks on a communicator; nothing on one where it made no call.
    pub(crate) fn on(&self, process: usize, communicator: u32) -> impl Iterator<Item = &Progress> {
        let places = self
            .places
            .get(process)
            .and_then(|of| of.get(&communicator));
        let places = places.map_or(&[][..], Vec::as_slice).iter();
        places.map(move |at| &self.progress[process][*at])
    }

    /// How many calls the ranks executed less than others, in CUDA graphs.
    ///
    /// All ranks of a communicator make the same collectives, whether in a graph or not. If the program ended
    /// by itself, they made all of them. So a rank with fewer has launched graphs that were not seen.
    pub fn unseen_in_graphs(&self, capture: &Capture) -> u64 {
        if capture.job["exit_status"]
            .as_i64()
            .is_some_and(|status| status != 0)
        {
            return 0;
        }
        let made = |of: &Progress| of.calls.saturating_add(of.in_graphs.unwrap_or(0));
        let lacking = capture
            .communicators
            .iter()
            .enumerate()
            .filter_map(|(index, of)| {
                if of.nranks != Some(of.members.len() as u32) {
                    return None;
                }
                let of_member = |member: &Member| {
                    let process = &capture.processes[member.process];
                    let complete = *self.complete.get(member.process)? && process.ended;
                    let mut own = self.on(member.process, index as u32);
                    let own = own.find(|of| of.uid == member.uid)?;
                    (complete && !own.guessed).then_some((process, own))
                };
                let members: Vec<(&Process, &Progress)> =
                    of.members.iter().map(of_member).collect::<Option<_>>()?;
                let most = members.iter().map(|(_, own)| made(own)).max()?;
                let less = members.iter().filter(|(process, own)| {
                    let known = process.graphs.unseen.is_empty();
                    own.in_graphs.is_some() && known && !nccl_shows_all(process)
                });
                Some(
                    less.map(|(_, own)| most - made(own))
                        .fold(0, u64::saturating_add),
                )
            });
        lacking.fold(0, u64::saturating_add)
    }

    /// When the newest call was entered.
    pub fn newest_time(&self) -> Option<HostTime> {
        (self.newest_time != HostTime(0)).then_some(self.newest_time)
    }
}

/// Adds the executions of captured calls.
fn add_in_graphs(progress: &mut [Progress], capture: &Capture, process: &Process) {
    let executions = process.graphs.executions();
    let executions = executions
        .into_iter()
        .map(|(shape, calls)| (shape as usize, calls));
    let captured = (0..process.shapes.len()).filter(|at| process.shapes[*at].is(flag::CAPTURED));
    let all: Vec<(usize, u64)> = captured.map(|shape| (shape, 0)).chain(executions).collect();
    if all.is_empty() {
        return;
    }
    let places: HashMap<u32, usize> = progress.iter().map(|of| of.uid).zip(0..).collect();
    for (shape, calls) in all {
        let shape = &process.shapes[shape];
        let function = capture.names.get(shape.function);
        let place = places
            .get(&shape.uid)
            .filter(|_| function.is_some_and(is_collective));
        if let Some(own) = place.map(|at| &mut progress[*at]) {
            own.in_graphs = Some(own.in_graphs.unwrap_or(0).saturating_add(calls));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::communicator;
    use tables::process::Counters;
    use tables::{LiveSource, Shape};

    /// Ranks 0 and 1 made these many calls, and launched a graph of two more so often.
    fn unseen(made: [(u64, Option<u64>); 2], ended: bool) -> u64 {
        let process = Process {
            live: LiveSource::Adopted,
            counters: Some(Counters::default()),
            shapes: vec![Shape {
                flags: flag::CAPTURED,
                ..Shape::default()
            }],
            ended,
            ..Process::default()
        };
        let capture = Capture {
            processes: vec![process.clone(), process],
            communicators: vec![communicator(0, &[0, 1])],
            ..Capture::default()
        };
        let uids: Vec<u32> = capture.communicators[0]
            .members
            .iter()
            .map(|m| m.uid)
            .collect();
        let progress = made.iter().zip(uids).map(|((calls, launches), uid)| {
            vec![Progress {
                communicator: Some(0),
                uid,
                calls: *calls,
                in_graphs: launches.map(|n| 2 * n),
                ..Progress::NONE
            }]
        });
        let gatherer = Gatherer {
            progress: progress.collect(),
            places: vec![HashMap::from([(0, vec![0])]); 2],
            complete: vec![true; 2],
            ..Gatherer::default()
        };
        gatherer.unseen_in_graphs(&capture)
    }

    #[test]
    fn a_rank_that_launched_a_graph_less_often_than_others_was_not_seen_to_do_so() {
        assert_eq!(unseen([(3, Some(500)), (3, Some(500))], true), 0);
        assert_eq!(unseen([(3, Some(500)), (3, Some(250))], true), 500);
        // What one rank made in a graph, the other made by itself.
        assert_eq!(unseen([(1003, None), (3, Some(500))], true), 0);
        // Calls without a graph are all announced.
        assert_eq!(unseen([(3, None), (3, Some(500))], true), 0);
        // Of a job that was killed, a rank may have been ahead.
        assert_eq!(unseen([(3, Some(500)), (3, Some(499))], false), 0);
    }
}
