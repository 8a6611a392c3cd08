//! What the operations that were timed say of those that were not.
//!
//! A [`Scale`] takes the waits of every operation that has a time on every rank, by row of the table of
//! operations. It also takes the calls of each row that were left out of the sample. Each row is scaled up by
//! itself, so that what is timed more often does not count more.
//!
//! Rule: where a row of many operations has too few in the sample for an interval, the whole has none.

use crate::sampled::Stretches;
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Estimates for all operations, from those that were timed on all ranks. µs, with 95 % intervals; null where
/// they are too few.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SampledArrivals {
    /// All operations, as far as calls tell.
    pub operations: u64,
    /// The part of them that was timed on all ranks.
    pub share: f64,
    /// Waits of all ranks, summed over ranks.
    pub wait_rank_us: f64,
    /// Its interval.
    pub wait_interval_us: Option<(f64, f64)>,
    /// What operations would have ended earlier with their last rank on time, of the wall.
    pub saving_wall_us: f64,
    /// Its interval.
    pub saving_interval_us: Option<(f64, f64)>,
}

/// One row.
#[derive(Default)]
struct SampledOperations {
    ranks: u64,
    operations: u64,
    wait: Nanos,
    saving: Nanos,
    waits: Stretches,
    savings: Stretches,
}

/// See the module.
#[derive(Default)]
pub(super) struct Scale(BTreeMap<u32, SampledOperations>);

/// A sum and the ends of its interval.
type Sum = (f64, Option<(f64, f64)>);

impl Scale {
    /// Adds an operation of a row, in their order: how many ranks it has, their waits together, and how much
    /// later the last came.
    pub(super) fn add(&mut self, row: u32, ranks: usize, wait_ns: u64, saving_ns: u64) {
        let row = self.0.entry(row).or_default();
        row.ranks = ranks as u64;
        row.operations += 1;
        row.wait += Nanos::from(wait_ns);
        row.saving += Nanos::from(saving_ns);
        row.waits.push(wait_ns);
        row.savings.push(saving_ns);
    }

    /// The estimate; `None` where nothing was left out. `unsampled` are calls by row.
    pub(super) fn estimate(self, unsampled: &[u64]) -> Option<SampledArrivals> {
        let left_out = |row: u32| unsampled.get(row as usize).copied().unwrap_or(0);
        if !self.0.keys().any(|row| left_out(*row) > 0) {
            return None;
        }
        let (mut timed, mut all) = (0, 0);
        let (mut wait, mut saving): (Sum, Sum) = ((0.0, Some((0.0, 0.0))), (0.0, Some((0.0, 0.0))));
        for (index, row) in &self.0 {
            let operations = row.operations + left_out(*index).div_ceil(row.ranks.max(1));
            timed += row.operations;
            all += operations;
            for (into, sum, stretches) in [
                (&mut wait, row.wait, &row.waits),
                (&mut saving, row.saving, &row.savings),
            ] {
                let us = sum.us();
                let (estimate, ends) = if operations == row.operations || sum == Nanos::ZERO {
                    (us, Some((us, us)))
                } else {
                    let scaled = us * operations as f64 / row.operations as f64;
                    let sampled = stretches.estimate(operations);
                    (scaled, sampled.map(|s| (s.sum_low_us, s.sum_high_us)))
                };
                into.0 += estimate;
                // Errors add up, as if a slow moment hit all rows: never too narrow.
                into.1 = into.1.zip(ends).map(|(a, b)| (a.0 + b.0, a.1 + b.1));
            }
        }
        Some(SampledArrivals {
            operations: all,
            share: timed as f64 / all as f64,
            wait_rank_us: wait.0,
            wait_interval_us: wait.1,
            saving_wall_us: saving.0,
            saving_interval_us: saving.1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Random;

    #[test]
    fn the_truth_of_all_operations_lies_in_the_interval() {
        let mut held = [0, 0];
        for seed in 1..=200 {
            let mut random = Random(seed);
            let mut scale = Scale::default();
            let (mut waits, mut savings, mut left_out) = (0, 0, [0, 0]);
            // A row of which one in 16 is timed, and one of which all are.
            for operation in 0..8_000u64 {
                let row = u32::from(operation % 8 == 0);
                let saving = (2_000.0 + 8_000.0 * random.uniform()) as u64;
                let wait = saving * 3 + (5_000.0 * random.uniform()) as u64;
                (waits, savings) = (waits + wait, savings + saving);
                if row == 1 || random.uniform() < 1.0 / 16.0 {
                    scale.add(row, 4, wait, saving);
                } else {
                    left_out[row as usize] += 4;
                }
            }
            let found = scale.estimate(&left_out).expect("a sample");
            assert_eq!(found.operations, 8_000);
            let holds = |interval: Option<(f64, f64)>, truth: u64| {
                let (low, high) = interval.expect("enough");
                u32::from((low..=high).contains(&Nanos::from(truth).us()))
            };
            held[0] += holds(found.wait_interval_us, waits);
            held[1] += holds(found.saving_interval_us, savings);
        }
        assert!(held.iter().all(|held| *held >= 184), "{held:?} of 200");
    }

    #[test]
    fn what_is_all_timed_needs_no_estimate_and_a_handful_has_no_interval() {
        let mut scale = Scale::default();
        (0..100).for_each(|_| scale.add(3, 2, 10, 5));
        assert_eq!(scale.estimate(&[0; 5]), None);
        let mut scale = Scale::default();
        (0..3).for_each(|_| scale.add(0, 2, 2_000, 1_000));
        let found = scale.estimate(&[194]).expect("a sample");
        assert_eq!((found.operations, found.wait_rank_us), (100, 200.0));
        assert_eq!(found.wait_interval_us, None);
    }
}
