//! A profiler's times against the work's own times of the same calls.
//!
//! [`judge`] takes a run's accepted records and the calls that the work timed, function by function and size
//! by size. *Paired*, each record is compared with the call that it is of. They are paired by order if all
//! calls of the key are there, else by sequence number if every call of the function is known. *Unpaired*,
//! the two sets of times are compared as a whole by the Wasserstein-1 distance. That is the mean amount by
//! which a time has to be moved to make one set the other.
//!
//! Rule: calls that were not recorded, or without a time, are in no figure here; how many there are stands
//! beside it. The error is the profiler's time less the work's.

use crate::completeness::Completeness;
use crate::truth::{Key, Truth};
use analyze::statistics::nearest_rank;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Times of one function and size, ns.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Of every call that the work timed.
    pub own: Vec<f64>,
    /// Of the accepted records of these calls, with a time.
    pub told: Vec<f64>,
    /// Errors of the pairs.
    pub errors: Vec<f64>,
    /// Median error of each run.
    pub medians: Vec<f64>,
}

/// What comes of them, in µs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Accuracy {
    /// Calls that the work timed.
    pub done: u64,
    /// Of these, recorded with a time; of all recorded calls, where it isn't known which is which.
    pub timed: u64,
    /// Median of the work's own times.
    pub own_p50_us: f64,
    /// Median of the profiler's.
    pub told_p50_us: f64,
    /// Calls of which both times are known.
    pub pairs: u64,
    /// Median error of the pairs.
    pub error_p50_us: Option<f64>,
    /// Its 95 % interval over runs; null below two runs.
    pub error_p50_interval_us: Option<(f64, f64)>,
    /// 95 % of the errors are smaller, sign apart.
    pub error_p95_us: Option<f64>,
    /// 99 % are; null below 100 pairs.
    pub error_p99_us: Option<f64>,
    /// Wasserstein-1 distance of the two sets of times.
    pub wasserstein_us: f64,
    /// The same in percent of the work's median.
    pub wasserstein_percent: Option<f64>,
    /// Difference of the medians.
    pub shift_p50_us: f64,
    /// Of the 95th percentiles.
    pub shift_p95_us: f64,
    /// Of the 99th; from 100 times on both sides.
    pub shift_p99_us: Option<f64>,
}

/// Adds a run's times by function and size.
pub fn collect(
    truth: &Truth,
    completeness: &Completeness,
    times: &mut BTreeMap<(String, u64), Times>,
) {
    let mut errors: BTreeMap<(String, u64), Vec<f64>> = BTreeMap::new();
    for (key, calls) in &truth.calls {
        let own = || calls.each.iter().filter_map(|c| c.time_ns);
        if own().next().is_none() {
            continue;
        }
        let place = (key.function.clone(), key.bytes);
        let sum = times.entry(place.clone()).or_default();
        sum.own.extend(own().map(|ns| ns as f64));
        let Some(records) = completeness.accepted.get(key) else {
            continue;
        };
        let Some(pairs) = pairs(truth, key, completeness) else {
            let told = records.iter().filter_map(|r| r.time_ns);
            sum.told.extend(told.map(|ns| ns as f64));
            continue;
        };
        // Calls that the work did not time, such as those of warm-up, are left out on both sides.
        sum.told.extend(pairs.iter().map(|(told, _)| told));
        let found: Vec<f64> = pairs.iter().map(|(told, own)| told - own).collect();
        sum.errors.extend(&found);
        errors.entry(place).or_default().extend(found);
    }
    for (place, mut errors) in errors {
        if let (Some(median), Some(sum)) = (percentile(&mut errors, 50), times.get_mut(&place)) {
            sum.medians.push(median);
        }
    }
}

/// For each call of a key, its time by the profiler and by the work. `None` if it is not known which record
/// belongs to which call.
fn pairs(truth: &Truth, key: &Key, completeness: &Completeness) -> Option<Vec<(f64, f64)>> {
    let (calls, records) = (&truth.calls[key], &completeness.accepted[key]);
    let both = |told: Option<u64>, own: Option<u64>| Some((told? as f64, own? as f64));
    if records.len() == calls.each.len() {
        let mut records = records.clone();
        if records.iter().all(|r| r.seq.is_some()) {
            // Files of several dumps need not be in order.
            records.sort_by_key(|r| r.seq);
        }
        let found = records.iter().zip(&calls.each);
        return Some(
            found
                .filter_map(|(r, c)| both(r.time_ns, c.time_ns))
                .collect(),
        );
    }
    if !truth.whole || records.iter().any(|r| r.seq.is_none()) {
        return None;
    }
    let by_index: BTreeMap<u64, Option<u64>> =
        calls.each.iter().map(|c| (c.index, c.time_ns)).collect();
    let found = records
        .iter()
        .filter_map(|r| both(r.time_ns, *by_index.get(&r.seq?)?));
    Some(found.collect())
}

impl Times {
    /// The figures; `None` when one side has no time.
    pub fn accuracy(mut self) -> Option<Accuracy> {
        let wasserstein = wasserstein(&mut self.own, &mut self.told)?;
        let (own, told) = (&mut self.own, &mut self.told);
        let many = own.len().min(told.len()) >= MANY;
        let mut shift = |percent| Some(percentile(told, percent)? - percentile(own, percent)?);
        let (shift_p50, shift_p95) = (shift(50)?, shift(95)?);
        let shift_p99 = shift(99).filter(|_| many);
        let own_p50 = percentile(&mut self.own, 50)?;
        let us = |ns: f64| ns / 1e3;
        let mut sizes: Vec<f64> = self.errors.iter().map(|e| e.abs()).collect();
        let interval = analyze::interval::of_runs(&self.medians);
        Some(Accuracy {
            done: self.own.len() as u64,
            timed: self.told.len() as u64,
            own_p50_us: us(own_p50),
            told_p50_us: us(percentile(&mut self.told, 50)?),
            pairs: self.errors.len() as u64,
            error_p50_us: percentile(&mut self.errors, 50).map(us),
            error_p50_interval_us: interval.map(|i| (us(i.low), us(i.high))),
            error_p95_us: percentile(&mut sizes, 95).map(us),
            error_p99_us: percentile(&mut sizes, 99)
                .filter(|_| sizes.len() >= MANY)
                .map(us),
            wasserstein_us: us(wasserstein),
            wasserstein_percent: (own_p50 > 0.0).then(|| wasserstein / own_p50 * 100.0),
            shift_p50_us: us(shift_p50),
            shift_p95_us: us(shift_p95),
            shift_p99_us: shift_p99.map(us),
        })
    }
}

/// A 99th percentile of fewer values would be the largest.
const MANY: usize = 100;

/// Nearest rank: a value that was observed. Sorts.
pub(crate) fn percentile(values: &mut [f64], percent: u64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    nearest_rank(values, percent)
}

/// Area between the two distribution functions, in the unit of the values; `None` of nothing. Sorts both.
///
/// That this area is the Wasserstein distance: S. S. Vallender, "Calculation of the Wasserstein distance
/// between probability distributions on the line", Theory of Probability and Its Applications 18(4), 1974.
pub fn wasserstein(a: &mut [f64], b: &mut [f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    // Both distributions are steps: walk over all values in order, with the share of each that lies below.
    let (mut i, mut j, mut area) = (0, 0, 0.0);
    let mut last = a[0].min(b[0]);
    while i < a.len() || j < b.len() {
        let next = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => x.min(*y),
            (Some(x), None) | (None, Some(x)) => *x,
            (None, None) => break,
        };
        let apart = i as f64 / a.len() as f64 - j as f64 / b.len() as f64;
        area += apart.abs() * (next - last);
        last = next;
        while a.get(i).is_some_and(|x| *x <= next) {
            i += 1;
        }
        while b.get(j).is_some_and(|y| *y <= next) {
            j += 1;
        }
    }
    Some(area)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Record, Records};
    use crate::truth::{KeyCalls, Timed};

    #[test]
    fn wasserstein_is_the_shift_of_equal_shapes_and_the_work_of_moving_others() {
        let mut a = vec![3.0, 1.0, 2.0];
        assert_eq!(wasserstein(&mut a, &mut [11.0, 12.0, 13.0]), Some(10.0));
        assert_eq!(wasserstein(&mut a.clone(), &mut a), Some(0.0));
        // Half of the mass moves by 4; sizes differ.
        let far = wasserstein(&mut [0.0, 0.0], &mut [0.0, 4.0, 0.0, 4.0]);
        assert_eq!(far, Some(2.0));
        // By hand: |F - G| is 1/3 on [0, 1], 1/3 on [1, 2].
        let near = wasserstein(&mut [0.0, 1.0, 2.0], &mut [1.0, 1.0, 1.0]).expect("one");
        assert!((near - 2.0 / 3.0).abs() < 1e-12, "{near}");
        assert_eq!(wasserstein(&mut [], &mut [1.0]), None);
    }

    fn run(seqs: &[u64], whole: bool) -> Option<Accuracy> {
        let key = Key {
            function: "AllReduce".into(),
            bytes: 1024,
            rank: 0,
        };
        let mut truth = Truth {
            whole,
            ..Truth::default()
        };
        let each = (0..10).map(|index| Timed {
            index,
            time_ns: Some(10_000 + 1000 * index),
        });
        let calls = KeyCalls {
            number: 10,
            each: each.collect(),
        };
        truth.calls.insert(key, calls);
        let rows = seqs.iter().map(|seq| Record {
            rank: Some(0),
            function: "AllReduce".into(),
            bytes: Some(1024),
            number: 1,
            communicator: Some(0),
            seq: Some(*seq),
            // 2 µs short.
            time_ns: Some(8_000 + 1000 * seq),
            ..Record::default()
        });
        let records = Records {
            rows: rows.collect(),
            ..Records::default()
        };
        let judged = crate::completeness::judge(&truth, &records);
        let mut times = BTreeMap::new();
        collect(&truth, &judged, &mut times);
        times.into_values().next()?.accuracy()
    }

    #[test]
    fn a_constant_error_is_found_pair_by_pair_whatever_the_order() {
        let accuracy = run(&[9, 0, 1, 2, 3, 4, 5, 6, 7, 8], false).expect("figures");
        assert_eq!((accuracy.pairs, accuracy.timed), (10, 10));
        assert_eq!(accuracy.error_p50_us, Some(-2.0));
        assert_eq!(accuracy.error_p95_us, Some(2.0));
        assert_eq!(accuracy.error_p99_us, None);
        assert_eq!(
            (accuracy.wasserstein_us, accuracy.shift_p50_us),
            (2.0, -2.0)
        );
    }

    #[test]
    fn with_calls_missing_pairs_go_by_sequence_number_and_not_by_order() {
        let accuracy = run(&[8, 9], true).expect("figures");
        assert_eq!((accuracy.pairs, accuracy.error_p50_us), (2, Some(-2.0)));
        // Unpaired, what is left of the calls looks longer than all of them: completeness stands beside it.
        assert!(accuracy.shift_p50_us > 0.0);
        let unknown = run(&[8, 9], false).expect("figures");
        assert_eq!((unknown.pairs, unknown.error_p50_us), (0, None));
        assert_eq!(run(&[], true), None);
    }
}
