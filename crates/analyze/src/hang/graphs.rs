//! How far ranks got with launches of CUDA graphs.
//!
//! NCCL reports nothing of a call that runs in a graph, so it is not known how far a launch came on the GPU.
//! How often each rank launched is: ranks whose graphs have calls of one communicator launch them in step.
//! One that lacks launches is waited for, at the first call with it of the first launch that it lacks.
//!
//! [`LaunchesByContent`] sorts the launches of a process once, by what they execute. A job may have thousands
//! of communicators, graphs and launches, and every communicator is asked about.

use super::calls::{Lane, RankCalls};
use super::case::Case;
use super::reached::known;
use crate::time::{HostTime, Nanos};
use std::collections::{BTreeSet, HashMap};
use tables::graphs::Graphs;
use tables::{Capture, Process, Shape};

/// The launches of one process. Only of graphs with NCCL calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launches {
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Process.
    pub pid: u32,
    /// How many, over all graphs.
    pub launches: u64,
    /// How long ago the newest was called, ns, by the newest evidence of the capture.
    pub newest_ago: Option<Nanos>,
    /// It had not returned.
    pub launching: bool,
    /// NCCL calls in it.
    pub calls: Option<u64>,
}

/// The processes of a capture that launched graphs with NCCL calls.
pub(super) fn launches(capture: &Capture, as_of: Option<HostTime>) -> Vec<Launches> {
    let launched = capture.processes.iter().filter(|p| p.graphs.launched() > 0);
    launched
        .map(|process| {
            let graphs = process.graphs.executables.iter();
            let newest = graphs.max_by_key(|graph| graph.newest);
            Launches {
                rank: process.rank,
                pid: process.pid,
                launches: process.graphs.launched(),
                newest_ago: newest
                    .and_then(|graph| graph.newest)
                    .zip(as_of)
                    .map(|(newest, now)| (now - HostTime(newest)).max(Nanos::ZERO)),
                launching: newest.is_some_and(|graph| graph.launching),
                calls: newest.and_then(|graph| process.graphs.calls_of(graph.number)),
            }
        })
        .collect()
}

/// A launch that some members of a communicator have made, and that some lack.
pub(super) struct Lacked {
    pub communicator: usize,
    /// Its number, from 1.
    pub number: u64,
    pub waiting: Vec<usize>,
    pub missing: Vec<usize>,
    /// When the first of those made it that have, as far as that is known.
    pub since: Option<HostTime>,
}

/// The launches of one process, by what they execute.
#[derive(Default)]
pub(super) struct LaunchesByContent {
    /// By index of the contents.
    contents: Vec<OfContent>,
    /// The contents in which a communicator has calls, by its number in the process.
    with: HashMap<u32, Vec<usize>>,
    /// What some launches executed is lost, so nothing can be counted.
    is_partial: bool,
}

/// The launches of graphs with the same contents.
#[derive(Clone, Default)]
struct OfContent {
    launches: u64,
    /// When they were called, in order, as far as that is known.
    times: Vec<i64>,
    /// When the newest was called.
    newest: Option<i64>,
}

impl LaunchesByContent {
    /// Of each process.
    pub fn of_all(capture: &Capture) -> Vec<LaunchesByContent> {
        let of = |process: &Process| LaunchesByContent::new(&process.graphs, &process.shapes);
        capture.processes.iter().map(of).collect()
    }

    fn new(graphs: &Graphs, shapes: &[Shape]) -> LaunchesByContent {
        let mut all = LaunchesByContent {
            contents: vec![OfContent::default(); graphs.contents.len()],
            ..LaunchesByContent::default()
        };
        for (index, content) in graphs.contents.iter().enumerate() {
            let uid = |(shape, _): &(u32, u32)| {
                let shape = graphs.shapes.get(*shape as usize)?;
                Some(shapes.get(*shape as usize)?.uid)
            };
            let uids: BTreeSet<u32> = content.runs.iter().filter_map(uid).collect();
            for uid in uids {
                all.with.entry(uid).or_default().push(index);
            }
        }
        let there = graphs.executables.iter();
        let there = there.map(|of| (of.content, of.launches, of.newest));
        let gone = graphs.folded.iter();
        let gone = gone.map(|of| (of.content, of.launches, None));
        for (content, launches, newest) in there.chain(gone) {
            match content.and_then(|content| all.contents.get_mut(content)) {
                Some(of) => {
                    of.launches += launches;
                    of.newest = of.newest.max(newest);
                }
                None => all.is_partial |= launches > 0,
            }
        }
        for launch in &graphs.launches {
            let of = graphs
                .executables
                .binary_search_by_key(&launch.graph, |of| of.number);
            let content = of.ok().and_then(|of| graphs.executables[of].content);
            if let Some(of) = content.and_then(|content| all.contents.get_mut(content)) {
                of.times.push(launch.at);
            }
        }
        for of in &mut all.contents {
            of.times.sort_unstable();
        }
        all
    }

    /// The contents in which a communicator has calls.
    fn of(&self, uid: u32) -> impl Iterator<Item = &OfContent> {
        let with = self.with.get(&uid).into_iter().flatten();
        with.map(|index| &self.contents[*index])
    }

    /// How often the process launched graphs with calls of a communicator; `None` if that is not known.
    fn launched(&self, uid: u32) -> Option<u64> {
        (!self.is_partial).then(|| self.of(uid).map(|of| of.launches).sum())
    }

    /// When the process made the first of its last `back` launches of such graphs; of those whose times are
    /// known.
    fn launch_at(&self, uid: u32, back: u64) -> Option<i64> {
        let newest = self.newest(uid);
        let timed = self.first_timed(uid).zip(self.last_timed(uid));
        // Older blocks have the others.
        let timed = timed.filter(|(_, last)| back > 0 && Some(*last) >= newest);
        let Some((first, last)) = timed else {
            return newest;
        };
        let back = back.min(self.timed_from(uid, i64::MIN));
        // The last moment from which on there are so many.
        let (mut from, mut before) = (first, last.saturating_add(1));
        while from < before - 1 {
            let middle = ((i128::from(from) + i128::from(before)) / 2) as i64;
            if self.timed_from(uid, middle) >= back {
                from = middle;
            } else {
                before = middle;
            }
        }
        Some(from)
    }

    /// How many such launches the process made after a moment; `None` if that is not known.
    fn launches_after(&self, uid: u32, at: i64) -> Option<u64> {
        let newest = self.newest(uid);
        let none = newest.is_none_or(|newest| newest <= at);
        let is_timed = self.last_timed(uid) >= newest && self.first_timed(uid) <= Some(at);
        (none || is_timed).then(|| self.timed_from(uid, at.saturating_add(1)))
    }

    fn newest(&self, uid: u32) -> Option<i64> {
        self.of(uid).filter_map(|of| of.newest).max()
    }

    fn first_timed(&self, uid: u32) -> Option<i64> {
        self.of(uid)
            .filter_map(|of| of.times.first().copied())
            .min()
    }

    fn last_timed(&self, uid: u32) -> Option<i64> {
        self.of(uid).filter_map(|of| of.times.last().copied()).max()
    }

    /// How many such launches with a time there are from a moment on.
    fn timed_from(&self, uid: u32, at: i64) -> u64 {
        let from = |of: &OfContent| of.times.len() - of.times.partition_point(|time| *time < at);
        self.of(uid).map(|of| from(of) as u64).sum()
    }
}

impl Lacked {
    /// Of launches that members have made.
    fn of(case: &Case, communicator: usize, made: &[u64], ahead: &[u64]) -> Option<Lacked> {
        let (least, most) = (*made.iter().min()?, *made.iter().max()?);
        if least == most {
            return None;
        }
        let (missing, waiting): (Vec<usize>, Vec<usize>) =
            (0..made.len()).partition(|member| made[*member] == least);
        let since = waiting.iter().filter_map(|member| {
            let own = &case.calls.communicators[communicator].ranks[*member];
            let back = made[*member] - least + ahead[*member];
            case.launches()[own.process].launch_at(own.uid, back)
        });
        Some(Lacked {
            communicator,
            number: least + 1,
            since: since.min().map(HostTime),
            waiting,
            missing,
        })
    }
}

/// The first launch that ranks lack, of the first communicator in whose graphs one is lacking.
pub(super) fn lacked(case: &Case) -> Option<Lacked> {
    let all = case.calls.communicators.iter().enumerate();
    let open = all.filter(|(_, of)| !of.is_over() && of.is_shared() && of.nabsent == 0);
    let lacked = open.filter_map(|(communicator, of)| {
        let made = |own: &RankCalls| {
            let launched = case.launches()[own.process].launched(own.uid);
            launched.filter(|n| *n > 0)
        };
        let made: Option<Vec<u64>> = of.ranks.iter().map(made).collect();
        let made = made?;
        Lacked::of(case, communicator, &made, &vec![0; made.len()])
    });
    lacked.min_by_key(|lacked| (lacked.since.is_none(), lacked.since))
}

/// The first launch that ranks had not made when they made the call with this ordinal, and others had.
pub(super) fn lacked_before(case: &Case, communicator: usize, ordinal: u64) -> Option<Lacked> {
    let (mut made, mut ahead) = (Vec::new(), Vec::new());
    for (member, own) in case.of(communicator).ranks.iter().enumerate() {
        let launches = &case.launches()[own.process];
        let call = own.call(Lane::Eager, ordinal)?;
        let called = known(case.calls.made(communicator, (member, call)).0.api_ns)?;
        let after = launches.launches_after(own.uid, called.0)?;
        made.push(launches.launched(own.uid)?.checked_sub(after)?);
        ahead.push(after);
    }
    Lacked::of(case, communicator, &made, &ahead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::graphs::{Content, GoneGraphs, Graph, Launch};

    fn shape(uid: u32) -> Shape {
        Shape {
            uid,
            ..Shape::default()
        }
    }

    fn content(shapes: &[u32]) -> Content {
        Content {
            runs: shapes.iter().map(|shape| (*shape, 1)).collect(),
            countable: true,
        }
    }

    fn graph(number: u32, content: usize, launches: u64, newest: Option<i64>) -> Graph {
        Graph {
            number,
            content: Some(content),
            before: None,
            instantiated: None,
            destroyed: None,
            launches,
            newest,
            launching: false,
            stream: 0,
        }
    }

    fn launch(graph: u32, at: i64) -> Launch {
        Launch {
            graph,
            at,
            took: 1,
            stream: 0,
            gpu: None,
        }
    }

    /// The times of all launches with calls of a communicator, in order, one after the other.
    fn times(graphs: &Graphs, shapes: &[Shape], uid: u32) -> Vec<i64> {
        let has = |content: usize| {
            let runs = &graphs.contents[content].runs;
            let uid_of = |run: &(u32, u32)| shapes[graphs.shapes[run.0 as usize] as usize].uid;
            runs.iter().map(uid_of).any(|of| of == uid)
        };
        let number = |number: u32| graphs.executables.iter().find(|of| of.number == number);
        let launches = graphs.launches.iter();
        let launches = launches.filter(|launch| {
            let content = number(launch.graph).and_then(|of| of.content);
            content.is_some_and(has)
        });
        let mut times: Vec<i64> = launches.map(|launch| launch.at).collect();
        times.sort_unstable();
        times
    }

    #[test]
    fn launches_are_counted_and_found_by_what_they_execute() {
        // Communicators 0 to 2. The second content has two of them, and the third none of theirs.
        let shapes: Vec<Shape> = [0, 1, 2].map(shape).into();
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let mut graphs = Graphs {
                shapes: vec![0, 1, 2],
                contents: vec![content(&[0]), content(&[0, 1]), content(&[])],
                ..Graphs::default()
            };
            for number in 1..=4 {
                let of = random(3) as usize;
                graphs.executables.push(graph(number, of, 0, None));
            }
            for _ in 0..random(20) {
                let at = random(12) as i64 - 6;
                let of = random(4) as usize;
                let of = &mut graphs.executables[of];
                of.launches += 1;
                of.newest = of.newest.max(Some(at));
                graphs.launches.push(launch(of.number, at));
            }
            let all = LaunchesByContent::new(&graphs, &shapes);
            for uid in 0..3 {
                let times = times(&graphs, &shapes, uid);
                assert_eq!(all.launched(uid), Some(times.len() as u64));
                for back in 1..25 {
                    let first = times.len().saturating_sub(back);
                    let wanted = times.get(first).copied();
                    assert_eq!(all.launch_at(uid, back as u64), wanted, "{times:?} {back}");
                }
                for at in -8..8 {
                    let after = times.iter().filter(|time| **time > at).count() as u64;
                    // Launches before the first that is known may be later than `at`.
                    let is_known = times.first().is_none_or(|first| *first <= at);
                    let wanted = is_known.then_some(after);
                    assert_eq!(all.launches_after(uid, at), wanted, "{times:?} {at}");
                }
            }
        }
    }

    #[test]
    fn launches_of_which_not_all_is_known_are_not_counted() {
        let shapes = [shape(0)];
        let mut graphs = Graphs {
            shapes: vec![0],
            contents: vec![content(&[0])],
            executables: vec![graph(1, 0, 5, Some(90))],
            launches: vec![launch(1, 10), launch(1, 20)],
            ..Graphs::default()
        };
        let all = LaunchesByContent::new(&graphs, &shapes);
        // The times of the newest are in a block that is not written yet.
        assert_eq!(all.launched(0), Some(5));
        assert_eq!(all.launch_at(0, 1), Some(90));
        assert_eq!(all.launches_after(0, 15), None);
        assert_eq!(all.launches_after(0, 90), Some(0));
        let gone = GoneGraphs {
            content: None,
            graphs: 1,
            launches: 3,
        };
        graphs.folded.push(gone);
        let all = LaunchesByContent::new(&graphs, &shapes);
        assert_eq!(all.launched(0), None);
    }

    #[test]
    fn many_graphs_of_many_communicators_are_each_looked_at_once() {
        // As if each step instantiated a graph of its own, with calls of all communicators. If each of those
        // looked at all graphs, that would be a billion looks.
        let (communicators, steps) = (2_000u32, 500_000u32);
        let shapes: Vec<Shape> = (0..communicators).map(shape).collect();
        let all: Vec<u32> = (0..communicators).collect();
        let numbers = || 1..=steps;
        let graphs = Graphs {
            shapes: all.clone(),
            contents: vec![content(&all)],
            executables: numbers()
                .map(|of| graph(of, 0, 1, Some(i64::from(of))))
                .collect(),
            launches: numbers().map(|of| launch(of, i64::from(of))).collect(),
            ..Graphs::default()
        };
        let made = LaunchesByContent::new(&graphs, &shapes);
        for uid in 0..communicators {
            assert_eq!(made.launched(uid), Some(u64::from(steps)));
            assert_eq!(made.launch_at(uid, 3), Some(i64::from(steps) - 2));
            assert_eq!(made.launches_after(uid, i64::from(steps) - 2), Some(2));
        }
    }
}
