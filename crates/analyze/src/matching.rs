//! Matches the calls of many ranks into operations, to find each operation's shortest rank.
//!
//! A [`Matcher`] takes the executions of one process after another, in any order of processes. It keeps one
//! [`Slot`] for each operation: how many ranks have a GPU time, their sum, and the shortest one. The rank
//! that arrives last waits for nobody, so its time is the shortest, and closest to the transfer.
//!
//! An operation's key is (communicator of the capture, function, by copy engines or not, number). The number
//! is NCCL's sequence number if it gave one, because that survives lost rows. Else it is the execution's
//! ordinal in its rank's sequence of that communicator and function, as long as no row of the rank is missing
//! before it. Replays of CUDA graphs carry their template's sequence number and are counted apart.
//!
//! Rule: time is no part of the key, so clock errors can't mismatch calls. Memory grows with operations, not
//! with calls. Only functions that every rank of a communicator calls are matched: sends and receives are
//! not.

use crate::executions::{Execution, Walk};
use crate::pages::Pages;
use capture::live::flag;
use std::collections::HashMap;
use tables::{Capture, Name};

/// Functions that every rank of the communicator takes part in.
const COLLECTIVE: [&str; 8] = [
    "AllReduce",
    "AllGather",
    "ReduceScatter",
    "Broadcast",
    "Reduce",
    "AlltoAll",
    "Gather",
    "Scatter",
];

/// Whether every rank of a communicator takes part in this function.
pub fn is_collective(function: &str) -> bool {
    COLLECTIVE.contains(&function)
}

/// Whether it goes from one rank to one other.
pub fn is_p2p(function: &str) -> bool {
    matches!(function, "Send" | "Recv" | "SendRecv")
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The row of the operations table that all its calls are in; [`Slot::NO_ROW`] when they differ or are
    /// not counted.
    row: u32,
    /// Ranks with a GPU time.
    timed: u32,
    /// Shortest GPU time, ns.
    shortest: u64,
    /// GPU time of all these ranks, ns.
    sum: u64,
}

impl Slot {
    const EMPTY: Slot = Slot {
        row: u32::MAX - 1,
        timed: 0,
        shortest: u64::MAX,
        sum: 0,
    };
    const NO_ROW: u32 = u32::MAX;

    fn unite(&mut self, other: Slot) {
        if self.row == Slot::EMPTY.row {
            self.row = other.row;
        } else if self.row != other.row && other.row != Slot::EMPTY.row {
            self.row = Slot::NO_ROW;
        }
        self.timed = self.timed.saturating_add(other.timed);
        self.shortest = self.shortest.min(other.shortest);
        self.sum = self.sum.saturating_add(other.sum);
    }
}

/// Operations of a sequence, by number.
type Sequence = Pages<Slot, 256>;

/// What the operations of a sequence have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Index of the communicator in the capture.
    pub communicator: u32,
    /// Function.
    pub function: Name,
    /// Done by copy engines: NCCL numbers these calls apart from the others.
    pub copy_engines: bool,
    /// Replays of CUDA graphs.
    pub replay: bool,
    /// Numbered by NCCL, else in order.
    pub by_seq: bool,
}

/// Operations of a capture under construction.
#[derive(Default)]
pub struct Matcher {
    sequences: Vec<Sequence>,
    known: HashMap<Key, u32>,
}

/// Where the executions of one process go.
pub struct ProcessMatches {
    /// By place: by sequence number and by ordinal, where the function is matched.
    by_place: Vec<Option<(u32, usize)>>,
    /// How many came so far, by counter.
    counters: Vec<u64>,
}

impl Matcher {
    /// Prepares for a process.
    pub fn plan(&mut self, capture: &Capture, walk: &Walk) -> ProcessMatches {
        let mut counters: HashMap<(u32, u32), usize> = HashMap::new();
        let by_place = walk
            .places()
            .iter()
            .map(|place| {
                let communicator = place.shape.communicator?;
                is_collective(capture.names.get(place.function)?).then_some(())?;
                // The two sequences lie side by side.
                let first = self.sequence(Key {
                    communicator,
                    function: place.function,
                    copy_engines: place.shape.by_copy_engines(),
                    replay: place.shape.is(flag::REPLAY),
                    by_seq: true,
                });
                let next = counters.len();
                let counter = *counters.entry((place.local, first)).or_insert(next);
                Some((first, counter))
            })
            .collect();
        ProcessMatches {
            by_place,
            counters: vec![0; counters.len()],
        }
    }

    /// The index of the sequence by NCCL's number; the one by ordinal follows it.
    fn sequence(&mut self, key: Key) -> u32 {
        if let Some(index) = self.known.get(&key) {
            return *index;
        }
        let index = self.sequences.len() as u32;
        for (offset, by_seq) in [(0, true), (1, false)] {
            self.known.insert(Key { by_seq, ..key }, index + offset);
            self.sequences.push(Sequence::new(Slot::EMPTY));
        }
        index
    }

    /// Adds an execution whose calls are counted in `row`; `None` for one that must not count, such as a
    /// warm-up. Returns the operation that it is a part of: the index of its sequence, and its number there.
    #[inline]
    pub fn add(
        &mut self,
        plan: &mut ProcessMatches,
        execution: &Execution,
        row: Option<u32>,
    ) -> Option<(u32, u64)> {
        let (sequence, counter) = plan.by_place[execution.place].filter(|_| !execution.captured)?;
        let given = execution.call.seq.checked_sub(1);
        let (sequence, number) = match given.filter(|_| !execution.shape.is(flag::REPLAY)) {
            Some(seq) => (sequence, seq),
            // Behind a lost row it is not known which one this is.
            None if !execution.whole => return None,
            None => {
                let ordinal = &mut plan.counters[counter];
                *ordinal += 1;
                (sequence + 1, *ordinal - 1)
            }
        };
        // Without a GPU time it only counts where calls are told apart by their order.
        if let Ok(ns) = execution.gpu {
            self.sequences[sequence as usize]
                .get_mut(number)
                .unite(Slot {
                    row: row.unwrap_or(Slot::NO_ROW),
                    timed: 1,
                    shortest: ns,
                    sum: ns,
                });
        }
        Some((sequence, number))
    }

    /// Takes in what another matcher gathered; `rows` says which of our rows each of its rows is. Returns
    /// which of our sequences each of its sequences is.
    pub fn merge(&mut self, other: Matcher, rows: &[u32]) -> Vec<u32> {
        let mut sequences = vec![0; other.sequences.len()];
        for (key, from) in other.known {
            let into = self.sequence(Key {
                by_seq: true,
                ..key
            }) + u32::from(!key.by_seq);
            sequences[from as usize] = into;
            let into = &mut self.sequences[into as usize];
            for (number, slot) in other.sequences[from as usize].iter() {
                let row = rows.get(slot.row as usize).copied().unwrap_or(slot.row);
                into.get_mut(number).unite(Slot { row, ..*slot });
            }
        }
        sequences
    }

    /// What each sequence is of, by its index.
    pub fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<(u32, Key)> = self.known.iter().map(|(k, i)| (*i, *k)).collect();
        keys.sort_unstable_by_key(|(index, _)| *index);
        keys.into_iter().map(|(_, key)| key).collect()
    }

    /// Hands the rows of operations to `each`, in no order, with the shortest time and the mean over ranks,
    /// ns. Only operations with a GPU time on each of their communicator's ranks are handed over.
    pub fn whole(&self, capture: &Capture, mut each: impl FnMut(u32, u64, u64)) {
        for (key, index) in &self.known {
            let communicator = capture.communicators.get(key.communicator as usize);
            // Below ABI v4 the number of ranks is not told; those that the capture holds are the best there
            // is.
            let nranks =
                communicator.map_or(0, |c| c.nranks.map_or(c.members.len(), |n| n as usize));
            for (_, slot) in self.sequences[*index as usize].iter() {
                if slot.timed as usize == nranks && nranks > 0 && slot.row < Slot::EMPTY.row {
                    each(slot.row, slot.shortest, slot.sum / u64::from(slot.timed));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::communicators::Member;
    use tables::{Call, Communicator, GpuTimes, Process, Shape};

    fn capture(nranks: u32) -> (Capture, Name) {
        let mut capture = Capture::default();
        let function = capture.names.intern("AllReduce");
        capture.communicators.push(Communicator {
            id: "c".into(),
            hash: 1,
            nranks: Some(nranks),
            nnodes: None,
            name: None,
            members: (0..nranks as usize)
                .map(|process| Member {
                    process,
                    uid: 1,
                    rank: Some(process as u32),
                })
                .collect(),
            created_ns: None,
            parent: None,
        });
        (capture, function)
    }

    /// (seq + 1, GPU time) of each call.
    fn process(function: Name, calls: &[(u64, u64)]) -> Process {
        let call = |(ticket, (seq, ns)): (usize, &(u64, u64))| Call {
            ticket: ticket as u64,
            seq: *seq,
            gpu: GpuTimes::stamps(1_000, 1_000 + ns),
            channels_started: 1,
            channels_stopped: 1,
            sealed: true,
            ..Call::default()
        };
        Process {
            shapes: vec![Shape {
                communicator: Some(0),
                function,
                ..Shape::default()
            }],
            calls: calls.iter().enumerate().map(call).collect(),
            ..Process::default()
        }
    }

    fn add(matcher: &mut Matcher, capture: &Capture, process: &Process, row: u32) {
        let walk = Walk::new(process);
        let mut plan = matcher.plan(capture, &walk);
        walk.for_each(&mut Default::default(), |execution| {
            matcher.add(&mut plan, execution, Some(row));
        });
    }

    fn shortest(matcher: &Matcher, capture: &Capture) -> Vec<(u32, u64)> {
        let mut found = Vec::new();
        matcher.whole(capture, |row, ns, mean| {
            assert!(ns <= mean);
            found.push((row, ns));
        });
        found.sort_unstable();
        found
    }

    #[test]
    fn the_shortest_rank_of_each_operation_counts() {
        let (capture, function) = capture(2);
        let mut matcher = Matcher::default();
        add(
            &mut matcher,
            &capture,
            &process(function, &[(0, 50), (0, 10)]),
            3,
        );
        assert_eq!(shortest(&matcher, &capture), []);
        add(
            &mut matcher,
            &capture,
            &process(function, &[(0, 20), (0, 70)]),
            3,
        );
        assert_eq!(shortest(&matcher, &capture), [(3, 10), (3, 20)]);
    }

    #[test]
    fn nccls_number_goes_before_the_order() {
        let (capture, function) = capture(2);
        let mut matcher = Matcher::default();
        // The first call of the second rank is lost.
        add(
            &mut matcher,
            &capture,
            &process(function, &[(1, 50), (2, 10)]),
            0,
        );
        add(&mut matcher, &capture, &process(function, &[(2, 70)]), 0);
        assert_eq!(shortest(&matcher, &capture), [(0, 10)]);
    }

    #[test]
    fn order_tells_nothing_behind_a_lost_row() {
        let (capture, function) = capture(2);
        let mut matcher = Matcher::default();
        let calls = [(0, 50), (0, 60), (0, 70)];
        add(&mut matcher, &capture, &process(function, &calls), 0);
        let mut lost = process(function, &[(0, 20), (0, 30), (0, 40)]);
        lost.calls.remove(1);
        add(&mut matcher, &capture, &lost, 0);
        // Its last call is not taken for the second.
        assert_eq!(shortest(&matcher, &capture), [(0, 20)]);
    }

    #[test]
    fn ranks_that_disagree_are_no_operation_of_a_row() {
        let (capture, function) = capture(2);
        let mut matcher = Matcher::default();
        add(&mut matcher, &capture, &process(function, &[(0, 50)]), 0);
        add(&mut matcher, &capture, &process(function, &[(0, 60)]), 1);
        assert_eq!(shortest(&matcher, &capture), []);
    }

    #[test]
    fn merged_matchers_know_what_one_would() {
        let (capture, function) = capture(2);
        let (mut a, mut b) = (Matcher::default(), Matcher::default());
        let far = u64::MAX / 2;
        add(
            &mut a,
            &capture,
            &process(function, &[(7, 50), (far, 40)]),
            0,
        );
        add(
            &mut b,
            &capture,
            &process(function, &[(7, 20), (far, 60)]),
            1,
        );
        // Row 1 there is row 0 here.
        a.merge(b, &[5, 0]);
        assert_eq!(shortest(&a, &capture), [(0, 20), (0, 40)]);
    }
}
