//! What the run loses by a rank or a link: what of an earlier readiness arrives at the end.
//!
//! Rule: no loss by a rank is more than its bound.

use super::{ByChance, WhatIf, NONE};
use crate::interval::{by_chance, by_chance_at_most, waits_by_chance, Batches, LEAST_OPERATIONS};
use crate::steps::pattern::first_repeated;
use crate::time::Nanos;

/// What the run loses by a rank, and the 95 % interval of that.
pub(in crate::arrivals) struct Loss {
    pub(in crate::arrivals) time: Nanos,
    pub(in crate::arrivals) interval: Option<(Nanos, Nanos)>,
}

impl Loss {
    /// The interval, µs.
    pub(in crate::arrivals) fn interval_us(&self) -> Option<(f64, f64)> {
        self.interval.map(|(low, high)| (low.us(), high.us()))
    }
}

impl WhatIf {
    /// What the run loses by the rank of `lane`. Without its lateness it would still be last now and then, as
    /// the others are. How often is only known from what it is late by now. So the interval reaches from
    /// where all by which that differs is chance to where nothing is.
    pub(in crate::arrivals) fn loss(&self, lane: u32) -> Loss {
        let lateness = self.lateness(lane, NONE);
        let marks = self.marks(lane);
        let told = |by_chance: ByChance| {
            let late = self.avoidable(&lateness, by_chance);
            self.told(&marks, self.without(&[(lane, late)], None))
        };
        let (loss, least) = (told(by_chance).0, told(by_chance_at_most).0);
        let (most, chance) = told(|_| 0.0);
        let bound = self.bound(lane);
        let ends = loss.interval.zip(least.interval).zip(most.interval);
        Loss {
            time: loss.time.min(bound),
            interval: ends.map(|((of, least), most)| {
                let low = of.0.min(least.0).min(most.0 - chance);
                (low.min(bound), of.1.max(most.1).min(bound))
            }),
        }
    }

    /// What it loses by the ranks of two lanes together.
    pub(in crate::arrivals) fn loss_of_both(&self, lanes: (u32, u32)) -> Loss {
        let of = |lane: u32, beside: u32| {
            let lateness = self.lateness(lane, beside);
            (lane, self.avoidable(&lateness, by_chance))
        };
        let late = [of(lanes.0, lanes.1), of(lanes.1, lanes.0)];
        let marks = self.marks(lanes.0);
        self.told(&marks, self.without(&late, None)).0
    }

    /// What the run loses by the rank of `lane`: in the operations of `only`, and in the ones after them that
    /// are parts of the same work.
    pub(in crate::arrivals) fn loss_in(&self, lane: u32, only: &[bool]) -> Nanos {
        let mut late = self.avoidable(&self.lateness(lane, NONE), by_chance);
        let mut since = None;
        for index in &self.lanes[lane as usize] {
            let node = self.node(*index);
            if only[node.operation as usize] {
                since = Some(node.anchor);
            } else if since != Some(node.anchor) {
                since = None;
                late[node.operation as usize] = 0;
            }
        }
        let earlier = self.without(&[(lane, late)], None);
        let last = self.lanes[lane as usize].last();
        last.map_or(Nanos::ZERO, |last| {
            Nanos::from(earlier[self.node(*last).operation as usize])
        })
    }

    /// What the run can lose by the rank of `lane` at most: each other rank's time less that of its own work.
    fn bound(&self, lane: u32) -> Nanos {
        let of = |nodes: &Vec<u32>| {
            let beyond = |index: &u32| {
                let (node, own) = (self.node(*index), self.alone[*index as usize]);
                let before = self.nodes.get(node.before as usize);
                let since = before.map_or(0, |before| node.start.saturating_sub(before.start));
                match own {
                    i64::MIN => since,
                    own => since.saturating_sub(own).max(0),
                }
            };
            let waits = |index: &u32| {
                self.node(*index)
                    .end
                    .saturating_sub(self.node(*index).start)
            };
            let last = nodes.last().map_or(0, waits);
            let all = nodes.iter().map(|index| Nanos::from(beyond(index)));
            all.sum::<Nanos>() + Nanos::from(last)
        };
        let others = (0..)
            .zip(&self.lanes)
            .filter(|(other, nodes)| *other != lane && !nodes.is_empty());
        let least = others.map(|(_, nodes)| of(nodes)).min();
        least.unwrap_or(Nanos(f64::INFINITY))
    }

    /// What it loses by transfers that take so much longer, ns by operation, as the rank of `lane` sees it.
    pub(in crate::arrivals) fn loss_of(&self, lane: u32, longer: &[i64]) -> Loss {
        let marks = self.marks(lane);
        let (loss, chance) = self.told(&marks, self.without(&[], Some(longer)));
        Loss {
            // Another link would be the slowest now and then.
            interval: loss.interval.map(|(low, high)| (low - chance, high)),
            ..loss
        }
    }

    /// The nodes between which the loss is compared: the anchors of a lane, because at these all work of a
    /// step is behind. Between them, lateness comes and goes. Those of the set-up are no sample of the steps,
    /// so they are left out.
    fn marks(&self, lane: u32) -> Vec<u32> {
        let nodes = &self.lanes[lane as usize];
        let places: Vec<u32> = nodes.iter().map(|n| self.places[*n as usize]).collect();
        let steps = &nodes[first_repeated(&places)..];
        let mut marks: Vec<u32> = steps.iter().map(|n| self.node(*n).anchor).collect();
        marks.retain(|anchor| *anchor != NONE);
        marks.dedup();
        marks.extend(nodes.last());
        if marks.len() < LEAST_OPERATIONS {
            marks.clone_from(nodes);
        }
        marks
    }

    /// `earlier` is by how much operations end earlier. And what of that one of two would lose by chance.
    fn told(&self, marks: &[u32], earlier: Vec<i64>) -> (Loss, Nanos) {
        let at = |node: u32| Nanos::from(earlier[self.node(node).operation as usize]);
        let (Some(first), Some(last)) = (marks.first(), marks.last()) else {
            let nothing = Loss {
                time: Nanos::ZERO,
                interval: None,
            };
            return (nothing, Nanos::ZERO);
        };
        // The time up to the first is the start-up, which is no sample of the steps.
        let (start_up, steps) = (at(*first), marks.len() - 1);
        let each: Vec<f64> = marks
            .windows(2)
            .map(|pair| (at(pair[1]) - at(pair[0])).0)
            .collect();
        let batches = Batches::new(steps).map(|mut batches| {
            for (index, of_step) in each.iter().enumerate() {
                batches.add(index, steps, *of_step, 1.0);
            }
            batches
        });
        let mean = batches.and_then(|batches| batches.mean(0.0));
        let whole = |of_step: f64| start_up + Nanos(of_step) * steps as f64;
        let interval = mean.and_then(|mean| mean.interval());
        let loss = Loss {
            time: at(*last),
            interval: interval.map(|(low, high)| (whole(low), whole(high))),
        };
        let chance = Nanos(waits_by_chance(&each, 1));
        (loss, chance * steps as f64)
    }
}
