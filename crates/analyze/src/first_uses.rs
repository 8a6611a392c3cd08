//! What first uses cost: the first call of each function, algorithm, protocol and peer on a communicator.
//!
//! NCCL connects ranks, loads kernels and maps buffers when a way is used for the first time, within the
//! call. A [`ProcessUses`] keeps the first call of each kind and the host times of later ones. The
//! [`Gatherer`] compares the ranks.
//!
//! Rule: only a call that is known to be the first of its kind counts, and only against calls that were made
//! later by the same rank on the same communicator. What can't be compared is null.

use crate::executions::{Execution, Walk};
use crate::statistics::Sample;
use crate::subject::ProcessId;
use crate::time::{seconds_of_us, HostTime, Nanos};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use tables::{Capture, Name};

/// Later calls that a first one is compared with, at most.
const LATER: u64 = 256;
/// A first use later than this after the first call of its process is not of its start, ns.
pub const START: Nanos = Nanos::from_seconds(60.0);

/// What is used: function, algorithm, protocol, and peer of a send or receive.
type Way = (Name, Name, Name, Option<u32>);

/// Communicator and way.
type Key = (Option<u32>, Way);

/// The first use of a way on a communicator.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FirstUse {
    /// The communicator.
    pub communicator: Option<String>,
    /// Function, under its own name if it came in pieces.
    pub function: String,
    /// Algorithm.
    pub algorithm: Option<String>,
    /// Protocol.
    pub protocol: Option<String>,
    /// The peer of a send or receive, as a rank of the communicator.
    pub peer: Option<u32>,
    /// Ranks whose first call of this kind is known.
    pub ranks: u32,
    /// How much longer it took than later calls on the host of the rank where that was most.
    pub longer_s: Option<f64>,
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// How long the call took there.
    pub first_s: f64,
    /// How long later calls of this kind took there, as a median; if there are none, later calls of any kind
    /// on the communicator.
    pub later_s: Option<f64>,
    /// Whether these were of the same kind.
    pub same_kind: bool,
    /// How much longer it took where that was least: on the other ranks, a part is a wait for the slowest.
    pub least_longer_s: Option<f64>,
    /// Whether it was within the first minute of calls, so that it counts as start-up.
    pub in_start: bool,
    /// When the call began there, and how long it took.
    #[serde(skip)]
    pub call: (HostTime, Nanos),
}

/// The first uses of a process, under construction.
#[derive(Default)]
pub struct ProcessUses {
    numbers: HashMap<Key, usize>,
    uses: Vec<Use>,
    /// By communicator.
    locals: HashMap<Option<u32>, usize>,
    later: Vec<Later>,
    /// Calls, by communicator.
    calls: Vec<u64>,
    /// When the first call of all began.
    begun: Option<HostTime>,
}

/// Host times of later calls.
#[derive(Default)]
struct Later {
    sample: Sample,
}

impl Later {
    fn add(&mut self, ns: u64) {
        if self.sample.count() < LATER {
            self.sample.push(ns);
        }
    }

    fn median_s(self) -> Option<f64> {
        let statistics = self.sample.statistics()?;
        Some(seconds_of_us(statistics.p50?))
    }
}

struct Use {
    communicator: Option<u32>,
    way: Way,
    local: usize,
    begun: bool,
    /// When it began, and how long it took.
    first: Option<(HostTime, Nanos)>,
    later: Later,
}

impl ProcessUses {
    /// By place, the number of its use.
    pub fn plan(&mut self, walk: &Walk) -> Vec<usize> {
        let numbers = walk.places().iter().map(|place| {
            let shape = place.shape;
            let is_one = shape.function == place.function;
            let peer = shape.peer.filter(|_| is_one);
            let way = (place.function, shape.algorithm, shape.protocol, peer);
            let communicator = shape.communicator;
            let (uses, locals) = (&mut self.uses, &mut self.locals);
            let (later, calls) = (&mut self.later, &mut self.calls);
            *self.numbers.entry((communicator, way)).or_insert_with(|| {
                let local = *locals.entry(communicator).or_insert_with(|| {
                    later.push(Later::default());
                    calls.push(0);
                    later.len() - 1
                });
                uses.push(Use {
                    communicator,
                    way,
                    local,
                    begun: false,
                    first: None,
                    later: Later::default(),
                });
                uses.len() - 1
            })
        });
        numbers.collect()
    }

    /// Adds an execution, with the number of its use.
    pub fn add(&mut self, number: usize, execution: &Execution) {
        let of = &mut self.uses[number];
        self.calls[of.local] += 1;
        if execution.captured {
            return;
        }
        let is_first = !std::mem::replace(&mut of.begun, true);
        let begun = execution.api.map(|(begun, _)| HostTime(begun));
        let Some((begun, host)) = begun.zip(execution.host()) else {
            return;
        };
        self.begun.get_or_insert(begun);
        match is_first {
            true if execution.whole => of.first = Some((begun, Nanos::from(host))),
            true => {}
            false => {
                of.later.add(host);
                self.later[of.local].add(host);
            }
        }
    }

    fn finish(self) -> OfProcess {
        let begun = self.begun;
        let number = |(of, local): (&Option<u32>, &usize)| Some(((*of)?, self.calls[*local]));
        let calls = self.locals.iter().filter_map(number).collect();
        let typical: Vec<Option<f64>> = self.later.into_iter().map(Later::median_s).collect();
        let rows = self.uses.into_iter().filter_map(|of| {
            let call = of.first?;
            let of_kind = of.later.median_s();
            Some(OfRank {
                communicator: of.communicator,
                way: of.way,
                call,
                same_kind: of_kind.is_some(),
                later_s: of_kind.or(typical[of.local]),
                in_start: begun.is_some_and(|begun| call.0 - begun <= START),
            })
        });
        OfProcess {
            uses: rows.collect(),
            calls,
            begun,
        }
    }
}

/// The first uses of a process.
struct OfProcess {
    uses: Vec<OfRank>,
    /// Calls by communicator.
    calls: BTreeMap<u32, u64>,
    /// When the first call of all began.
    begun: Option<HostTime>,
}

/// The first use of a way on one rank.
#[derive(Clone, Debug)]
struct OfRank {
    communicator: Option<u32>,
    way: Way,
    /// When it began, and how long it took.
    call: (HostTime, Nanos),
    same_kind: bool,
    later_s: Option<f64>,
    in_start: bool,
}

impl OfRank {
    fn first_s(&self) -> f64 {
        self.call.1.seconds()
    }

    fn longer_s(&self) -> Option<f64> {
        Some((self.first_s() - self.later_s?).max(0.0))
    }
}

/// First uses, by index of the process in the order of the capture.
#[derive(Default)]
pub struct Gatherer {
    processes: Vec<OfProcess>,
}

impl Gatherer {
    /// Adds the first uses of the next process.
    pub fn add(&mut self, of: ProcessUses) {
        self.processes.push(of.finish());
    }

    /// Takes in what was gathered from later processes.
    pub fn merge(&mut self, later: Gatherer) {
        self.processes.extend(later.processes);
    }

    /// The first uses, the one that cost most first.
    pub fn finish(&self, capture: &Capture) -> Vec<FirstUse> {
        let mut rows: BTreeMap<Key, Vec<(usize, &OfRank)>> = BTreeMap::new();
        for (index, process) in self.processes.iter().enumerate() {
            for of in &process.uses {
                rows.entry((of.communicator, of.way))
                    .or_default()
                    .push((index, of));
            }
        }
        let mut uses: Vec<FirstUse> = rows
            .into_values()
            .filter_map(|of| row(capture, &of))
            .collect();
        let cost = |of: &FirstUse| of.longer_s.unwrap_or(-1.0);
        uses.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
        uses
    }

    /// The same of one process alone.
    pub fn of_process(&self, capture: &Capture, index: usize) -> Vec<FirstUse> {
        let own = self.of(index);
        let mut uses: Vec<FirstUse> = own.filter_map(|of| row(capture, &[(index, of)])).collect();
        let cost = |of: &FirstUse| of.longer_s.unwrap_or(-1.0);
        uses.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
        uses
    }

    fn of(&self, index: usize) -> impl Iterator<Item = &OfRank> {
        self.processes
            .get(index)
            .into_iter()
            .flat_map(|of| &of.uses)
    }

    /// How many calls a process made on a communicator.
    pub fn calls(&self, index: usize, communicator: u32) -> u64 {
        let of = self.processes.get(index);
        of.and_then(|of| of.calls.get(&communicator).copied())
            .unwrap_or(0)
    }

    /// When the first call of a process began.
    pub fn begun(&self, index: usize) -> Option<HostTime> {
        self.processes.get(index)?.begun
    }

    /// What first uses of a process's start cost it, s.
    pub fn in_start_s(&self, index: usize) -> f64 {
        let own = self.of(index);
        let counted = own.filter(|of| of.in_start);
        counted.filter_map(OfRank::longer_s).sum()
    }
}

fn row(capture: &Capture, ranks: &[(usize, &OfRank)]) -> Option<FirstUse> {
    let cost = |of: &OfRank| of.longer_s().unwrap_or(-1.0);
    let (index, most) = ranks.iter().max_by(|a, b| {
        let order = cost(a.1).total_cmp(&cost(b.1));
        // Of equals, the first rank.
        order.then(b.0.cmp(&a.0))
    })?;
    let process = capture.processes.get(*index)?;
    let word = |name: Name| {
        let word = capture.names.get(name).filter(|word| !word.is_empty());
        word.map(str::to_owned)
    };
    let (function, algorithm, protocol, peer) = most.way;
    let least = ranks.iter().filter_map(|(_, of)| of.longer_s());
    Some(FirstUse {
        communicator: most
            .communicator
            .and_then(|of| capture.communicators.get(of as usize))
            .map(|of| of.id.clone()),
        function: word(function)?,
        algorithm: word(algorithm),
        protocol: word(protocol),
        peer,
        ranks: ranks.len() as u32,
        longer_s: most.longer_s(),
        process: ProcessId::of(process),
        first_s: most.first_s(),
        later_s: most.later_s,
        same_kind: most.same_kind,
        least_longer_s: least.reduce(f64::min),
        in_start: most.in_start,
        call: most.call,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::{Call, Process, Shape};

    /// Two ranks. Ring calls, then the first tree, which takes longest on rank 1, and later ones.
    fn capture(lost: bool) -> Capture {
        let mut capture = Capture::default();
        let words = ["AllReduce", "RING", "TREE"].map(|word| capture.names.intern(word));
        let shape = |algorithm: Name, count: u64| Shape {
            uid: 1,
            function: words[0],
            algorithm,
            count,
            ..Shape::default()
        };
        for rank in 0..2 {
            let call = |at: u64, shape: u32, host_us: i64| Call {
                ticket: at + u64::from(lost),
                shape,
                api_ns: 1_000_000_000 + at as i64 * 1_000_000_000,
                return_ns: 1_000_000_000 + at as i64 * 1_000_000_000 + 1000 * host_us,
                sealed: true,
                ..Call::default()
            };
            let tree_us = [60_000, 80_000][rank as usize];
            capture.processes.push(Process {
                rank: Some(rank),
                pid: 7 + rank,
                shapes: vec![shape(words[1], 1), shape(words[2], 8), shape(words[2], 9)],
                calls: vec![
                    call(0, 0, 10_000),
                    call(1, 0, 20),
                    call(2, 1, tree_us),
                    call(3, 2, 20),
                    call(4, 2, 20),
                ],
                ..Process::default()
            });
        }
        capture
    }

    #[test]
    fn the_first_tree_is_compared_with_later_ones_of_any_size() {
        let startup = crate::report(&capture(false)).startup;
        let [tree, ring] = startup.first_uses.as_slice() else {
            panic!("{:?}", startup.first_uses);
        };
        assert_eq!(tree.algorithm.as_deref(), Some("TREE"));
        assert_eq!(
            (tree.process.rank, tree.ranks, tree.in_start),
            (Some(1), 2, true)
        );
        assert!((tree.longer_s.unwrap() - 0.07998).abs() < 1e-6, "{tree:?}");
        assert!((tree.least_longer_s.unwrap() - 0.05998).abs() < 1e-6);
        assert!((ring.longer_s.unwrap() - 0.00998).abs() < 1e-6);
        let whole = startup.whole.expect("first uses are known");
        assert_eq!((whole.process.pid, whole.parts.len()), (8, 1));
        assert!((whole.total_s - 0.08996).abs() < 1e-6);
        assert_eq!(whole.parts[0].first_uses.len(), 2);
    }

    #[test]
    fn no_use_is_the_first_if_calls_before_it_are_lost() {
        let startup = crate::report(&capture(true)).startup;
        assert_eq!((startup.first_uses, startup.whole), (Vec::new(), None));
    }
}
