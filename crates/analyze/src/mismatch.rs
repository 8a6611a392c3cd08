//! Ranks that made different calls at the same place: another function, size, datatype or root.
//!
//! A [`Gatherer`] keeps the first call that it saw at each place, 8 bytes, and compares those of other ranks
//! with it. There are two kinds of place. By NCCL's sequence number, calls differ in size, datatype or root.
//! NCCL counts each function of a communicator, calls of copy engines apart, and the number survives lost
//! rows. By order on the communicator, they can differ in function, too. That needs every row of the rank,
//! and no captured call, because others may have made the same call without a graph.
//!
//! Rule: whether calls have GPU times, or ended, is of no matter. Sends, receives and what is made of them
//! are not compared.

use crate::executions::{Execution, Walk};
use crate::matching::is_collective;
use crate::pages::Pages;
use crate::subject::ProcessId;
use crate::subject::RankId;
use capture::live::flag;
use std::collections::{BTreeMap, HashMap};
use tables::calls::Series;
use tables::{Capture, Name, Process};

/// What ranks must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Signature {
    function: Name,
    datatype: Name,
    bytes: Option<u64>,
    root: Option<u32>,
}

/// A call that a rank made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Function.
    pub function: Option<String>,
    /// Datatype.
    pub datatype: Option<String>,
    /// Bytes.
    pub bytes: Option<u64>,
    /// Root.
    pub root: Option<u32>,
}

/// Where on a communicator a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPlace {
    /// The number of the call on the communicator, from 1.
    Call(u64),
    /// NCCL's sequence number of the function.
    SequenceNumber(u64),
}

/// The first place of a communicator at which ranks made different calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differing {
    /// The communicator's id.
    pub communicator: String,
    /// Where.
    pub place: CallPlace,
    /// The rank that made another call than `against`; `None` if its process is not known.
    pub rank: Option<RankId>,
    /// What it made.
    pub made: Made,
    /// The rank that it is compared with; `None` if its process is not known.
    pub against: Option<RankId>,
    /// What that one made.
    pub against_made: Made,
    /// Places of the communicator at which ranks differ.
    pub places: u64,
}

/// Calls at one kind of place on a communicator: in order, or of a function by NCCL's number.
type Line = (u32, Option<Series>);

/// A call at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// Index of its signature; [`Seen::NONE`] where there is none, [`Seen::DIFFER`] where calls were found to
    /// differ.
    signature: u32,
    /// Its process.
    process: u32,
}

impl Seen {
    const NONE: u32 = u32::MAX;
    const DIFFER: u32 = u32::MAX - 1;
    const EMPTY: Seen = Seen {
        signature: Seen::NONE,
        process: 0,
    };
}

struct Places {
    seen: Pages<Seen, 32>,
    /// Places at which calls differ, and the first of them.
    differing: u64,
    first: Option<(u64, Seen, Seen)>,
}

impl Places {
    fn new() -> Places {
        Places {
            seen: Pages::new(Seen::EMPTY),
            differing: 0,
            first: None,
        }
    }

    fn add(&mut self, number: u64, this: Seen) {
        let seen = self.seen.get_mut(number);
        match seen.signature {
            Seen::NONE => *seen = this,
            Seen::DIFFER => {}
            signature if signature == this.signature => {
                seen.process = seen.process.min(this.process);
            }
            _ => {
                let pair = if seen.process <= this.process {
                    (*seen, this)
                } else {
                    (this, *seen)
                };
                seen.signature = Seen::DIFFER;
                if self.first.is_none_or(|(first, ..)| number < first) {
                    self.first = Some((number, pair.0, pair.1));
                }
                self.differing += 1;
            }
        }
    }
}

/// The first place of a line: its function, number, and the line's places.
type Found<'a> = (Option<Series>, u64, &'a Places);

/// What is gathered.
#[derive(Default)]
pub struct Gatherer {
    known: HashMap<Signature, u32>,
    /// Index in `places`.
    lines: HashMap<Line, u32>,
    places: Vec<Places>,
    processes: u32,
}

/// Where the executions of one process go.
pub struct ProcessCalls {
    process: u32,
    /// By place of the walk; `None` for what is not compared.
    places: Vec<Option<Compared>>,
    /// By local: calls so far; `None` once order tells nothing.
    order: Vec<Option<u64>>,
}

/// Where the calls of a place of the walk are compared.
#[derive(Clone, Copy)]
struct Compared {
    local: usize,
    signature: u32,
    /// Lines, by index: in order, and by number.
    order: u32,
    numbers: u32,
}

impl Gatherer {
    /// Prepares for a process.
    pub fn plan(&mut self, capture: &Capture, walk: &Walk) -> ProcessCalls {
        let process = self.processes;
        self.processes += 1;
        let place_of = |place: &crate::executions::Place| {
            let communicator = place.shape.communicator?;
            is_collective(capture.names.get(place.function)?).then_some(())?;
            let next = self.known.len() as u32;
            let signature = *self.known.entry(signature(capture, place)).or_insert(next);
            Some(Compared {
                local: place.local as usize,
                signature,
                order: self.line((communicator, None)),
                numbers: self.line((communicator, Some(place.shape.series()))),
            })
        };
        ProcessCalls {
            process,
            places: walk.places().iter().map(place_of).collect(),
            order: vec![Some(0); walk.locals()],
        }
    }

    fn line(&mut self, line: Line) -> u32 {
        let next = self.places.len() as u32;
        let index = *self.lines.entry(line).or_insert(next);
        if index == next {
            self.places.push(Places::new());
        }
        index
    }

    /// Adds an execution.
    #[inline]
    pub fn add(&mut self, plan: &mut ProcessCalls, execution: &Execution) {
        let Some(compared) = plan.places[execution.place] else {
            return;
        };
        let order = &mut plan.order[compared.local];
        if execution.captured || execution.shape.is(flag::REPLAY) || !execution.whole {
            *order = None;
        }
        if execution.captured || execution.pieces > 1 || execution.call.composite != 0 {
            return;
        }
        let this = Seen {
            signature: compared.signature,
            process: plan.process,
        };
        if let Some(number) = order {
            self.places[compared.order as usize].add(*number, this);
            *number += 1;
        }
        let seq = execution.call.seq.checked_sub(1);
        if let Some(seq) = seq.filter(|_| !execution.shape.is(flag::REPLAY)) {
            self.places[compared.numbers as usize].add(seq, this);
        }
    }

    /// Takes in what was gathered from the processes that follow.
    pub fn merge(&mut self, later: Gatherer) {
        let mut ids = vec![0; later.known.len()];
        for (signature, id) in later.known {
            let next = self.known.len() as u32;
            ids[id as usize] = *self.known.entry(signature).or_insert(next);
        }
        let before = self.processes;
        self.processes += later.processes;
        let ours = |seen: Seen| Seen {
            signature: ids
                .get(seen.signature as usize)
                .copied()
                .unwrap_or(seen.signature),
            process: seen.process + before,
        };
        for (line, from) in later.lines {
            let (into, from) = (self.line(line), &later.places[from as usize]);
            let into = &mut self.places[into as usize];
            // Of their first difference: the lowest process of all at that place, and the lowest that differs
            // from it.
            let theirs = from.first.map(|(number, a, b)| {
                let (a, b) = (ours(a), ours(b));
                match into.seen.get(number) {
                    here if here.signature >= Seen::DIFFER => (number, a, b),
                    here if here.signature != a.signature => (number, here, a),
                    here => (number, here, b),
                }
            });
            for (number, seen) in from.seen.iter() {
                if seen.signature == Seen::DIFFER {
                    // Counted over there, unless it was here too.
                    let here = &mut into.seen.get_mut(number).signature;
                    let new = *here != Seen::DIFFER;
                    *here = Seen::DIFFER;
                    into.differing += u64::from(new);
                } else if seen.signature != Seen::NONE {
                    into.add(number, ours(*seen));
                }
            }
            if let Some((number, ..)) = theirs {
                if into.first.is_none_or(|(first, ..)| number < first) {
                    into.first = theirs;
                }
            }
        }
    }

    /// Of each communicator on which ranks differ, where they do first.
    pub fn finish(&self, capture: &Capture) -> Vec<Differing> {
        let mut signatures: Vec<(&Signature, &u32)> = self.known.iter().collect();
        signatures.sort_unstable_by_key(|(_, id)| **id);
        // The order tells all that differs, where it is known, so it comes before functions by number.
        let mut found: BTreeMap<u32, Found> = BTreeMap::new();
        for ((communicator, function), places) in &self.lines {
            let places = &self.places[*places as usize];
            let Some((number, ..)) = places.first else {
                continue;
            };
            let this = (*function, number, places);
            let rank = |(function, number, _): &Found| (function.is_some(), *number, *function);
            let best = found.entry(*communicator).or_insert(this);
            if rank(&this) < rank(best) {
                *best = this;
            }
        }
        let first = |(communicator, (function, number, places)): (u32, Found)| {
            let (_, a, b) = places.first?;
            let made = |seen: Seen| signatures[seen.signature as usize].0.made(capture);
            let communicator = capture.communicators.get(communicator as usize)?;
            Some(Differing {
                communicator: communicator.id.clone(),
                place: match function {
                    None => CallPlace::Call(number + 1),
                    Some(_) => CallPlace::SequenceNumber(number),
                },
                rank: who(capture.processes.get(b.process as usize)),
                made: made(b),
                against: who(capture.processes.get(a.process as usize)),
                against_made: made(a),
                places: places.differing,
            })
        };
        // Which of two communicators was made first is chance: the larger one, then by id.
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by_key(|(communicator, _)| {
            let of = capture.communicators.get(*communicator as usize);
            of.map(|c| (std::cmp::Reverse(c.nranks), c.id.as_str()))
        });
        found.into_iter().filter_map(first).collect()
    }
}

fn signature(capture: &Capture, place: &crate::executions::Place) -> Signature {
    Signature {
        function: place.function,
        datatype: place.shape.datatype,
        bytes: capture.bytes_as(place.shape, place.function),
        root: place.shape.root,
    }
}

impl Signature {
    fn made(&self, capture: &Capture) -> Made {
        let name = |name: Name| capture.names.get(name).map(str::to_owned);
        Made {
            function: name(self.function),
            datatype: name(self.datatype),
            bytes: self.bytes,
            root: self.root,
        }
    }
}

fn who(process: Option<&Process>) -> Option<RankId> {
    process.map(|process| RankId {
        process: ProcessId::of(process),

        ..RankId::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::communicator;
    use tables::{Call, Shape};

    /// Function, elements, root; `None` for a row that is lost.
    type MadeOne = Option<(&'static str, u64, Option<u32>)>;

    fn capture(ranks: &[Vec<MadeOne>]) -> Capture {
        let mut capture = Capture::default();
        let members: Vec<usize> = (0..ranks.len()).collect();
        capture.communicators.push(communicator(0, &members));
        let datatype = capture.names.intern("ncclFloat32");
        for (rank, made) in (0..).zip(ranks) {
            let mut process = Process {
                rank: Some(rank),
                ..Process::default()
            };
            let mut counters: HashMap<&str, u64> = HashMap::new();
            for (ticket, made) in (0..).zip(made) {
                let Some((function, count, root)) = *made else {
                    // A lost AllReduce.
                    *counters.entry("AllReduce").or_default() += 1;
                    continue;
                };
                let seq = counters.entry(function).or_default();
                *seq += 1;
                process.calls.push(Call {
                    ticket,
                    seq: *seq,
                    shape: process.shapes.len() as u32,
                    ..Call::default()
                });
                process.shapes.push(Shape {
                    communicator: Some(0),
                    nranks: Some(ranks.len() as u32),
                    function: capture.names.intern(function),
                    datatype,
                    count,
                    root,
                    ..Shape::default()
                });
            }
            capture.processes.push(process);
        }
        capture
    }

    fn found(capture: &Capture) -> Vec<Differing> {
        let gathered = |processes: &[Process]| {
            let mut gatherer = Gatherer::default();
            for process in processes {
                let walk = Walk::new(process);
                let mut plan = gatherer.plan(capture, &walk);
                walk.for_each(&mut Default::default(), |e| gatherer.add(&mut plan, e));
            }
            gatherer
        };
        let whole = gathered(&capture.processes).finish(capture);
        for split in 0..=capture.processes.len() {
            let mut first = gathered(&capture.processes[..split]);
            first.merge(gathered(&capture.processes[split..]));
            assert_eq!(first.finish(capture), whole, "{split}");
        }
        whole
    }

    fn ranks_of(differ: &Differing) -> (Option<u32>, Option<u32>) {
        let rank = |of: &Option<RankId>| of.as_ref().and_then(|of| of.process.rank);
        (rank(&differ.rank), rank(&differ.against))
    }

    #[test]
    fn calls_that_never_had_a_row_leave_no_order_to_compare() {
        let large = Some(("AllReduce", 4096, None));
        let small = Some(("AllReduce", 1, None));
        // The second rank found no row for its second call, which so took no ticket.
        let mut capture = capture(&[vec![large, large, small], vec![large, small]]);
        for call in &mut capture.processes[1].calls[1..] {
            call.seq += 1;
        }
        assert_eq!(found(&capture).len(), 1);
        capture.processes[1].counters = Some(tables::process::Counters {
            lost: vec![1],
            ..Default::default()
        });
        assert_eq!(found(&capture), []);
    }

    fn same(n: usize) -> Vec<MadeOne> {
        vec![Some(("AllReduce", 1024, None)); n]
    }

    #[test]
    fn the_first_place_that_differs_is_named_with_what_differs() {
        let broadcast = |root| Some(("Broadcast", 256, Some(root)));
        let mut ranks = vec![same(300); 4];
        assert_eq!(found(&capture(&ranks)), []);
        for rank in &mut ranks {
            rank[280] = broadcast(0);
        }
        ranks[2][280] = broadcast(1);
        ranks[3][290] = Some(("AllReduce", 2048, None));
        let differ = &found(&capture(&ranks))[0];
        assert_eq!((differ.place, differ.places), (CallPlace::Call(281), 2));
        assert_eq!(ranks_of(differ), (Some(2), Some(0)));
        let roots = (differ.made.root, differ.against_made.root);
        assert_eq!(roots, (Some(1), Some(0)));
        assert_eq!(differ.made.function.as_deref(), Some("Broadcast"));
        // Rank 1 makes two calls the other way round than all others.
        for rank in &mut ranks {
            rank[100] = Some(("AllGather", 64, None));
        }
        ranks[1].swap(100, 101);
        let differ = &found(&capture(&ranks))[0];
        assert_eq!((differ.place, differ.places), (CallPlace::Call(101), 4));
        assert_eq!(ranks_of(differ), (Some(1), Some(0)));
        let functions = [&differ.made, &differ.against_made].map(|made| made.function.as_deref());
        assert_eq!(functions, [Some("AllReduce"), Some("AllGather")]);
    }

    #[test]
    fn lost_rows_make_no_difference_and_hide_none_of_size() {
        let mut ranks = vec![same(50); 3];
        ranks[1][7] = None;
        ranks[2][0] = None;
        assert_eq!(found(&capture(&ranks)), []);
        ranks[1][20] = Some(("AllReduce", 2048, None));
        let found = found(&capture(&ranks));
        assert_eq!(found.len(), 1);
        let differ = &found[0];
        assert_eq!(
            (differ.place, differ.places),
            (CallPlace::SequenceNumber(20), 1)
        );
        assert_eq!(ranks_of(differ), (Some(1), Some(0)));
        let bytes = (differ.made.bytes, differ.against_made.bytes);
        assert_eq!(bytes, (Some(8192), Some(4096)));
    }
}
