//! Sums and percentiles of durations.
//!
//! A [`Sample`] takes durations one by one or as a histogram and ends as [`Statistics`] in microseconds.
//!
//! Rule: a percentile is a value that was observed (nearest rank), or the middle of the histogram bucket that holds it.
//! p99 of fewer than 100 durations would be the largest, so it is not given.

use serde::Serialize;

/// p99 is given from so many durations on.
pub const P99_FROM: u64 = 100;

/// What a set of durations looks like, in µs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// All of them.
    pub sum: f64,
    /// Sum by number.
    pub mean: f64,
    /// Shortest.
    pub min: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile; null below [`P99_FROM`] durations.
    pub p99: Option<f64>,
    /// Longest.
    pub max: Option<f64>,
}

/// Durations being gathered, in ns.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    values: Vec<u64>,
    /// Middles of buckets and their counts.
    buckets: Vec<(u64, u64)>,
    /// Number and sum of durations that are known by their sum only.
    summed: (u64, u64),
    /// Extremes of durations that are known by a histogram.
    extremes: Option<(u64, u64)>,
    /// Set when some duration is in the sum only, so that there are no percentiles.
    incomplete: bool,
}

/// Durations of calls without rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summed<'a> {
    /// How many.
    pub count: u64,
    /// Their sum, ns.
    pub sum: u64,
    /// Shortest and longest, if known.
    pub extremes: Option<(u64, u64)>,
    /// Their histogram; nothing when it holds other durations too.
    pub histogram: Option<&'a [(u64, u64)]>,
}

impl Sample {
    /// Adds one duration.
    pub fn push(&mut self, ns: u64) {
        self.values.push(ns);
    }

    /// Adds durations that were only counted.
    pub fn push_summed(&mut self, summed: Summed) {
        if summed.count == 0 {
            return;
        }
        // Counters of a damaged live part may be anything.
        self.summed.0 = self.summed.0.saturating_add(summed.count);
        self.summed.1 = self.summed.1.saturating_add(summed.sum);
        match summed.extremes {
            Some((min, max)) => {
                let (a, b) = self.extremes.unwrap_or((u64::MAX, 0));
                self.extremes = Some((a.min(min), b.max(max)));
            }
            None => self.incomplete |= summed.histogram.is_none(),
        }
        match summed.histogram {
            Some(buckets)
                if buckets.iter().map(|(_, n)| u128::from(*n)).sum::<u128>()
                    == summed.count.into() =>
            {
                self.buckets.extend(buckets)
            }
            _ => self.incomplete = true,
        }
    }

    /// How many durations there are.
    pub fn count(&self) -> u64 {
        (self.values.len() as u64).saturating_add(self.summed.0)
    }

    /// Whether percentiles come from a histogram, and so are within 1 %.
    pub fn is_rounded(&self) -> bool {
        self.summed.0 > 0
    }

    /// The statistics; `None` without a duration.
    pub fn statistics(mut self) -> Option<Statistics> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        self.values.sort_unstable();
        let sum =
            self.values.iter().map(|v| u128::from(*v)).sum::<u128>() + u128::from(self.summed.1);
        let mut ranked: Vec<(u64, u64)> = self
            .values
            .iter()
            .map(|v| (*v, 1))
            .chain(self.buckets.iter().copied())
            .collect();
        ranked.sort_unstable();
        let extremes =
            (self.summed.0 == 0 || self.extremes.is_some() || !self.incomplete).then(|| {
                let ends = (
                    ranked.first().map_or(u64::MAX, |v| v.0),
                    ranked.last().map_or(0, |v| v.0),
                );
                match self.extremes {
                    // A bucket's middle may lie beyond the true extremes, which are known.
                    Some((min, max)) => (
                        self.values.first().copied().unwrap_or(u64::MAX).min(min),
                        self.values.last().copied().unwrap_or(0).max(max),
                    ),
                    None => ends,
                }
            });
        let us = |ns: u64| ns as f64 / 1e3;
        let percentile = |percent: u64| {
            let (min, max) = extremes?;
            (!self.incomplete).then(|| us(nearest_rank(&ranked, count, percent).max(min).min(max)))
        };
        Some(Statistics {
            sum: sum as f64 / 1e3,
            mean: sum as f64 / 1e3 / count as f64,
            min: extremes.map(|(min, _)| us(min)),
            p50: percentile(50),
            p95: percentile(95),
            p99: percentile(99).filter(|_| count >= P99_FROM),
            max: extremes.map(|(_, max)| us(max)),
        })
    }
}

/// The value at rank ⌈percent · count / 100⌉ of ascending values with their numbers.
fn nearest_rank(ranked: &[(u64, u64)], count: u64, percent: u64) -> u64 {
    let mut left = (u128::from(count) * u128::from(percent))
        .div_ceil(100)
        .max(1);
    for (value, number) in ranked {
        if u128::from(*number) >= left {
            return *value;
        }
        left -= u128::from(*number);
    }
    ranked.last().map_or(0, |(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Statistics {
        let mut sample = Sample::default();
        values.into_iter().for_each(|v| sample.push(v));
        sample.statistics().expect("durations")
    }

    #[test]
    fn percentiles_are_observed_values() {
        let s = of((1..=200).map(|i| i * 1000));
        assert_eq!(
            (s.p50, s.p95, s.p99),
            (Some(100.0), Some(190.0), Some(198.0))
        );
        assert_eq!(
            (s.min, s.max, s.sum, s.mean),
            (Some(1.0), Some(200.0), 20_100.0, 100.5)
        );
        let s = of([3000, 1000, 2000]);
        assert_eq!((s.p50, s.p95), (Some(2.0), Some(3.0)));
    }

    #[test]
    fn p99_needs_a_hundred() {
        assert_eq!(of((0..99).map(|_| 1000)).p99, None);
        assert_eq!(of((0..100).map(|_| 1000)).p99, Some(1.0));
        assert_eq!(Sample::default().statistics(), None);
    }

    #[test]
    fn a_histogram_gives_percentiles_within_its_extremes() {
        let mut sample = Sample::default();
        let histogram = [(1008, 50), (2016, 50)];
        sample.push_summed(Summed {
            count: 100,
            sum: 150_000,
            extremes: Some((1010, 2010)),
            histogram: Some(&histogram),
        });
        assert!(sample.is_rounded());
        let s = sample.clone().statistics().expect("durations");
        assert_eq!(
            (s.min, s.p50, s.p95, s.max),
            (Some(1.01), Some(1.01), Some(2.01), Some(2.01))
        );
        sample.push(500);
        assert_eq!(sample.statistics().expect("durations").min, Some(0.5));
    }

    #[test]
    fn a_sum_alone_gives_no_percentiles() {
        let mut sample = Sample::default();
        sample.push(1000);
        sample.push_summed(Summed {
            count: 3,
            sum: 9000,
            ..Summed::default()
        });
        let s = sample.statistics().expect("durations");
        assert_eq!(
            (s.sum, s.mean, s.min, s.p50, s.max),
            (10.0, 2.5, None, None, None)
        );
    }
}
