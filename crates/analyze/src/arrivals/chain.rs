//! Where inherited lateness came from: the communicators in whose kernels a rank was when others waited for
//! it.
//!
//! [`Busy`] has a GPU's kernels as intervals that do not overlap: of two at a time, the one that began first
//! counts. A rank inherits what of its lateness lies in them, and [`Chains`] adds that up by communicator. If
//! the kernel is of an operation that has a time on every rank, it is also known until when the rank waited
//! there, and for whom. The rest of the kernel moved bytes.
//!
//! Rule: what a rank inherits from its communicators sums to what it inherits, and nothing of it is charged
//! to anybody here: it was charged where it arose.

use super::operations::{Operations, PartIndex, RankPart};
use super::{Arrivals, RankArrivals};
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use tables::Capture;

/// Lateness that a rank brought along from a communicator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct InheritedFrom {
    /// The communicator in whose kernels it was; null where its definition is lost.
    pub communicator: Option<String>,
    /// The program's name for it.
    pub name: Option<String>,
    /// Its part of `inherited_rank_us`.
    pub cost_rank_us: f64,
    /// Of that: the rank waited there for another; the rest moved bytes, or is not known.
    pub waiting_rank_us: f64,
    /// Of the rest: data of that operation was in the network's hands; null where that was not recorded.
    pub network_rank_us: Option<f64>,
    /// The launcher's rank that it waited for most of that time.
    pub waited_for: Option<u32>,
}

/// Least part of all waiting that is worth a sentence.
const LEAST_SHARE: f64 = 0.01;

impl RankArrivals {
    /// Whether most of what it is charged with was inherited.
    pub fn is_mostly_inherited(&self) -> bool {
        self.inherited_rank_us > 0.5 * self.cost_rank_us
    }
}

/// Ranks whose lateness is mostly another's, where that matters, the largest first.
pub fn inherited(arrivals: &Arrivals) -> Vec<&RankArrivals> {
    let least = LEAST_SHARE * arrivals.wait_rank_us;
    let mut ranks: Vec<&RankArrivals> = arrivals.ranks.iter().collect();
    ranks.retain(|rank| rank.inherited_rank_us > least && rank.is_mostly_inherited());
    ranks.sort_by(|a, b| b.inherited_rank_us.total_cmp(&a.inherited_rank_us));
    ranks
}

/// When a GPU was in NCCL kernels, on its own clock.
pub(super) struct Busy {
    /// Intervals that do not overlap, in order.
    intervals: Vec<Interval>,
}

struct Interval {
    begin: u64,
    end: u64,
    /// How long all before took.
    before: u64,
    /// The part of the lane that is in it.
    part: u32,
}

impl Busy {
    pub(super) fn of(parts: &[RankPart]) -> Busy {
        let mut all: Vec<(u64, u64, u32)> = parts
            .iter()
            .zip(0..)
            .map(|(part, at)| (part.start, part.start.saturating_add(part.ns), at))
            .collect();
        all.sort_unstable();
        let mut intervals: Vec<Interval> = Vec::with_capacity(all.len());
        for (begin, end, part) in all {
            let last = intervals.last();
            let (until, before) = last.map_or((0, 0), |l| (l.end, l.before + (l.end - l.begin)));
            let begin = begin.max(until);
            if begin < end {
                intervals.push(Interval {
                    begin,
                    end,
                    before,
                    part,
                });
            }
        }
        Busy { intervals }
    }

    /// How long it was in kernels before `time`.
    fn until(&self, time: u64) -> u64 {
        let after = self.intervals.partition_point(|i| i.begin < time);
        after.checked_sub(1).map_or(0, |index| {
            let last = &self.intervals[index];
            last.before + (last.end.min(time) - last.begin)
        })
    }

    /// How long it was in none, from one time to another.
    pub(super) fn free(&self, from: u64, to: u64) -> u64 {
        let length = to.saturating_sub(from);
        length.saturating_sub(self.until(to).saturating_sub(self.until(from)))
    }

    /// What it was in from one time to another: begin, end, part.
    pub(super) fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64, u32)> + '_ {
        let first = self.intervals.partition_point(|i| i.end <= from);
        self.intervals[first..]
            .iter()
            .take_while(move |i| i.begin < to)
            .map(move |i| (i.begin.max(from), i.end.min(to), i.part))
    }
}

/// What one rank inherited from one communicator, as cost.
#[derive(Default)]
struct Sum {
    cost: Nanos,
    /// By lane that was waited for.
    waiting: BTreeMap<u32, Nanos>,
    network: Nanos,
}

/// What ranks inherited, under construction.
pub(super) struct Chains<'a> {
    of: &'a Operations,
    /// By lane and part: its operation + 1 among those with a time on every rank.
    operations: Vec<Vec<u32>>,
    /// By these: the shortest time, ns, and the lane that it is of.
    shortest: Vec<(u64, u32)>,
    /// By these: for how much of that data was in the network's hands.
    held: Option<&'a [u64]>,
    /// By lane, then communicator.
    sums: Vec<BTreeMap<u32, Sum>>,
}

impl<'a> Chains<'a> {
    /// `held` is for how much of each operation's transfer data was in the network's hands.
    pub(super) fn new(of: &'a Operations, held: Option<&'a [u64]>) -> Chains<'a> {
        let lanes = of.lanes.iter();
        let mut operations: Vec<Vec<u32>> = lanes.map(|l| vec![0; l.parts.len()]).collect();
        let mut shortest = Vec::with_capacity(of.whole.len());
        for (operation, whole) in (1..).zip(&of.whole) {
            let mut last: (u64, PartIndex) = (u64::MAX, (0, 0));
            for (lane, index) in of.of(whole) {
                operations[lane as usize][index as usize] = operation;
                // Of equals the later place counts as last, as where costs are shared.
                let this = (of.part((lane, index)).ns, (lane, index));
                if this.0 <= last.0 {
                    last = this;
                }
            }
            shortest.push((last.0, last.1 .0));
        }
        Chains {
            sums: of.lanes.iter().map(|_| BTreeMap::new()).collect(),
            of,
            operations,
            shortest,
            held,
        }
    }

    /// Adds the kernels that the rank of `lane` was in while it was late, where a ns of lateness costs
    /// `each`; gives their cost.
    pub(super) fn add(
        &mut self,
        lane: u32,
        within: impl Iterator<Item = (u64, u64, u32)>,
        each: f64,
    ) -> Nanos {
        let mut all = Nanos::ZERO;
        for (begin, end, index) in within {
            let part = self.of.part((lane, index));
            let sum = self.sums[lane as usize]
                .entry(part.communicator)
                .or_default();
            let cost = Nanos::from(end - begin) * each;
            sum.cost += cost;
            all += cost;
            let operation = self.operations[lane as usize][index as usize] as usize;
            if let Some(at) = operation.checked_sub(1) {
                let (shortest, last) = self.shortest[at];
                let there = part.start.saturating_add(part.ns - shortest);
                let waited = there.min(end).saturating_sub(begin);
                let moved = Nanos::from(end - begin - waited);
                let held = self.held.map_or(0, |held| held[at]);
                sum.network += moved * each * held as f64 / shortest.max(1) as f64;
                if waited > 0 && last != lane {
                    *sum.waiting.entry(last).or_default() += Nanos::from(waited) * each;
                }
            }
        }
        all
    }

    /// Tells the ranks, which are by lane.
    pub(super) fn finish(self, capture: &Capture, ranks: &mut [RankArrivals]) {
        for (sums, row) in self.sums.into_iter().zip(ranks) {
            let told = sums.into_iter().map(|(communicator, sum)| {
                let of = capture.communicators.get(communicator as usize);
                // Of equals the first lane.
                let most = sum.waiting.iter().rev().max_by_key(|of| of.1);
                InheritedFrom {
                    communicator: of.map(|c| c.id.clone()),
                    name: of.and_then(|c| c.name.clone()),
                    cost_rank_us: sum.cost.us(),
                    waiting_rank_us: sum.waiting.values().sum::<Nanos>().us(),
                    network_rank_us: self.held.map(|_| sum.network.us()),
                    waited_for: most
                        .and_then(|(lane, _)| self.of.lanes[*lane as usize].process.rank),
                }
            });
            row.inherited_from = told.collect();
            row.inherited_from
                .sort_by(|a, b| b.cost_rank_us.total_cmp(&a.cost_rank_us));
        }
    }
}
