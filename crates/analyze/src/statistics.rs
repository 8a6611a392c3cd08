//! Sums and percentiles of durations.
//!
//! A [`Sample`] takes durations one by one or as a histogram and ends as [`Statistics`] in microseconds and,
//! for plots, as a [`Histogram`].
//!
//! Rule: a percentile is a value that was observed (nearest rank), or the middle of the histogram bucket that
//! holds it. The median of an even number of values is the mean of the two in the middle. With fewer than 100
//! durations, p99 would be the largest, so it is not given.
//!
//! Source: nearest rank is definition 1 of R. J. Hyndman and Y. Fan, "Sample quantiles in statistical
//! packages", The American Statistician 50(4), 1996.

use crate::time::Nanos;
use capture::live::bucket;
use schemars::JsonSchema;
use serde::Serialize;

/// p99 is given from so many durations on.
pub const P99_FROM: u64 = 100;

/// So many values are worth a look at whether many of them are equal.
const MANY: usize = 1 << 18;

/// What a set of durations looks like, in µs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Statistics {
    /// How many there are.
    pub n: u64,
    /// Sum of all.
    pub sum: f64,
    /// Mean.
    pub mean: f64,
    /// Shortest; null if some times are known by their sum only.
    pub min: Option<f64>,
    /// Median; null if some times are known by their sum only.
    pub p50: Option<f64>,
    /// 95th percentile; null if some times are known by their sum only.
    pub p95: Option<f64>,
    /// 99th percentile; null below 100 durations.
    pub p99: Option<f64>,
    /// Longest; null if some times are known by their sum only.
    pub max: Option<f64>,
}

/// No histogram has more numbers.
pub const MOST_BUCKETS: usize = 64;

/// How durations are spread, in as fine buckets as [`MOST_BUCKETS`] allow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Histogram {
    /// Buckets of equal width between a power of two, in ns, and the next: 64, 32, 16, … 1.
    pub per_octave: usize,
    /// Number of the first bucket. With i = number × 64 / `per_octave`, a bucket begins at i ns below 64 and
    /// at (64 + i mod 64) × 2^(⌊i / 64⌋ - 1) ns from there on, and ends where the next begins.
    pub first: usize,
    /// Durations in each bucket from there on; a number below 0 stands for that many buckets without any.
    pub counts: Vec<i64>,
}

impl Histogram {
    /// From counts by the number of [`bucket`]; `None` without a duration.
    fn new(fine: &[u64]) -> Option<Histogram> {
        let mut width = 1;
        loop {
            let found = Histogram::with(fine, width)?;
            if width == 64 || found.counts.len() <= MOST_BUCKETS {
                return Some(found);
            }
            width *= 2;
        }
    }

    /// How many durations are surely longer than `us`: those in buckets that begin there or later.
    pub fn above(&self, us: f64) -> u64 {
        let begin = |number: usize| {
            let i = number as f64 * 64.0 / self.per_octave as f64;
            if i < 64.0 {
                i
            } else {
                (64.0 + i % 64.0) * ((i / 64.0).floor() - 1.0).exp2()
            }
        };
        let (mut number, mut found) = (self.first, 0);
        for count in &self.counts {
            match u64::try_from(*count) {
                Ok(count) => {
                    if Nanos(begin(number)) >= Nanos::from_us(us) {
                        found += count;
                    }
                    number += 1;
                }
                Err(_) => number += count.unsigned_abs() as usize,
            }
        }
        found
    }

    /// With as many of `fine` in each bucket.
    fn with(fine: &[u64], width: usize) -> Option<Histogram> {
        let mut first = None;
        let mut counts = Vec::new();
        let mut next = 0;
        for (number, bucket) in fine.chunks(width).enumerate() {
            let count = bucket.iter().fold(0u64, |sum, n| sum.saturating_add(*n));
            if count == 0 {
                continue;
            }
            if first.is_some() && number > next {
                counts.push(-((number - next) as i64));
            }
            first = first.or(Some(number));
            counts.push(i64::try_from(count).unwrap_or(i64::MAX));
            next = number + 1;
        }
        Some(Histogram {
            per_octave: 64 / width,
            first: first?,
            counts,
        })
    }
}

/// Durations being gathered, in ns.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Those below 4.3 s, which is nearly all of them.
    values: Vec<u32>,
    /// Of those, the ones that were counted: ascending, each with its number. Clocks have a grain, so many
    /// are equal.
    counted: Vec<(u32, u32)>,
    /// How many that are.
    counted_n: u64,
    /// As many values are counted next; 0 for [`MANY`].
    count_at: usize,
    /// The others.
    wide: Vec<u64>,
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
    #[inline]
    pub fn push(&mut self, ns: u64) {
        match u32::try_from(ns) {
            Ok(ns) => {
                self.values.push(ns);
                if self.values.len() >= self.count_at.max(MANY) {
                    self.count_values();
                }
            }
            Err(_) => self.wide.push(ns),
        }
    }

    /// Counts the values at hand, if that takes less memory than they do.
    #[cold]
    fn count_values(&mut self) {
        let counted = tally(&self.values);
        if counted.len() * 4 > self.values.len() {
            // With four times as many it may be worth it.
            self.count_at = self.values.len().saturating_mul(4);
            return;
        }
        self.counted_n += self.values.len() as u64;
        self.values.clear();
        self.add_counted(counted);
        // Adding takes as long as both lists.
        self.count_at = self.counted.len().saturating_mul(4);
    }

    fn add_counted(&mut self, more: Vec<(u32, u32)>) {
        let mut all = std::mem::take(&mut self.counted);
        all.extend(more);
        // Two runs, each in order.
        all.sort();
        for (value, n) in all {
            match self.counted.last_mut() {
                Some((last, sum)) if *last == value && sum.checked_add(n).is_some() => *sum += n,
                _ => self.counted.push((value, n)),
            }
        }
    }

    /// Adds durations that were only counted.
    pub fn push_summed(&mut self, summed: Summed) {
        if summed.count == 0 {
            return;
        }
        self.add_sum(summed.count, summed.sum, summed.extremes);
        self.incomplete |= summed.extremes.is_none() && summed.histogram.is_none();
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

    fn add_sum(&mut self, count: u64, sum: u64, extremes: Option<(u64, u64)>) {
        // Counters of a damaged live part may be anything.
        self.summed.0 = self.summed.0.saturating_add(count);
        self.summed.1 = self.summed.1.saturating_add(sum);
        if let Some((min, max)) = extremes {
            let (a, b) = self.extremes.unwrap_or((u64::MAX, 0));
            self.extremes = Some((a.min(min), b.max(max)));
        }
    }

    /// Takes in another sample.
    pub fn merge(&mut self, other: Sample) {
        if self.values.is_empty() {
            self.values = other.values;
        } else {
            self.values.extend(other.values);
        }
        self.counted_n += other.counted_n;
        self.add_counted(other.counted);
        self.count_at = self.count_at.max(other.count_at);
        self.wide.extend(other.wide);
        self.buckets.extend(other.buckets);
        self.add_sum(other.summed.0, other.summed.1, other.extremes);
        self.incomplete |= other.incomplete;
    }

    /// How many durations there are.
    pub fn count(&self) -> u64 {
        (self.values.len() as u64 + self.counted_n + self.wide.len() as u64)
            .saturating_add(self.summed.0)
    }

    /// Whether percentiles come from a histogram, and so are within 1 %.
    pub fn is_rounded(&self) -> bool {
        self.summed.0 > 0
    }

    /// How the durations are spread; `None` without one, and where some are known by their sum only.
    pub fn histogram(&self) -> Option<Histogram> {
        if self.incomplete {
            return None;
        }
        let number = |ns: u64| {
            let (octave, index) = bucket(ns);
            64 * octave + index
        };
        let mut fine = vec![0u64; number(u64::MAX) + 1];
        for ns in &self.values {
            fine[number(u64::from(*ns))] += 1;
        }
        for ns in &self.wide {
            fine[number(*ns)] += 1;
        }
        for (ns, n) in &self.buckets {
            let count = &mut fine[number(*ns)];
            *count = count.saturating_add(*n);
        }
        Histogram::new(&fine)
    }

    /// The statistics; `None` without a duration.
    pub fn statistics(self) -> Option<Statistics> {
        Some(self.with_typical()?.0)
    }

    /// The statistics, and the median by nearest rank in µs. Of an even number it is the lower of the two in
    /// the middle, so that it is one of the durations.
    pub fn with_typical(self) -> Option<(Statistics, Option<f64>)> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let narrow: u128 = self.values.iter().map(|v| u128::from(*v)).sum();
        let counted = self.counted.iter();
        let counted: u128 = counted.map(|(v, n)| u128::from(*v) * u128::from(*n)).sum();
        let wide: u128 = self.wide.iter().map(|v| u128::from(*v)).sum();
        let sum = narrow + counted + wide + u128::from(self.summed.1);
        let [min, lower, p50, p95, p99, max] = self.ranks(count);
        let statistics = Statistics {
            n: count,
            sum: Nanos(sum as f64).us(),
            mean: Nanos(sum as f64).us() / count as f64,
            min,
            p50,
            p95,
            p99: p99.filter(|_| count >= P99_FROM),
            max,
        };
        Some((statistics, lower))
    }

    /// Shortest, 50th percentile by nearest rank, median, 95th, 99th percentile and longest, in µs.
    fn ranks(mut self, count: u64) -> [Option<f64>; 6] {
        let us = |ns: u64| Nanos::from(ns).us();
        let percents = [50, 95, 99];
        let rank = |percent| rank(percent, count);
        self.wide.sort_unstable();
        if self.summed.0 == 0 && self.counted.is_empty() {
            let ends = [0, count as usize - 1].map(|index| {
                let narrow = self.values.len();
                let ns = if index >= narrow {
                    self.wide[index - narrow]
                } else if index == 0 {
                    self.values.iter().copied().min().unwrap_or(0).into()
                } else {
                    self.values.iter().copied().max().unwrap_or(0).into()
                };
                Some(us(ns))
            });
            let [p50, p95, p99] = percents.map(|percent| rank(percent) as usize - 1);
            let at = [p50, count as usize / 2, p95, p99];
            let found = select(&mut self.values, &self.wide, at);
            let median = middle(found[0], found[1]);
            let found = found.map(us);
            return [
                ends[0],
                Some(found[0]),
                Some(median),
                Some(found[2]),
                Some(found[3]),
                ends[1],
            ];
        }
        let values = tally(&self.values);
        self.add_counted(values);
        let counted = self.counted.iter();
        let mut ranked: Vec<(u64, u64)> = counted
            .map(|(v, n)| (u64::from(*v), u64::from(*n)))
            .chain(self.wide.iter().map(|v| (*v, 1)))
            .chain(self.buckets.iter().copied())
            .collect();
        ranked.sort_unstable();
        let known = self.extremes.is_some() || !self.incomplete;
        let extremes = known.then(|| {
            let (first, last) = (self.counted.first(), self.counted.last());
            let first = first.map(|(v, _)| u64::from(*v));
            let first = first.or(self.wide.first().copied());
            let last = last.map(|(v, _)| u64::from(*v));
            let last = self.wide.last().copied().or(last);
            match self.extremes {
                // A bucket's middle may lie beyond the true extremes, which are known.
                Some((min, max)) => (
                    first.unwrap_or(u64::MAX).min(min),
                    last.unwrap_or(0).max(max),
                ),
                None => (
                    ranked.first().map_or(u64::MAX, |v| v.0),
                    ranked.last().map_or(0, |v| v.0),
                ),
            }
        });
        let at = |rank: u128| {
            let (min, max) = extremes?;
            (!self.incomplete).then(|| at_rank(&ranked, rank).max(min).min(max))
        };
        let [lower, p95, p99] = percents.map(|percent| at(rank(percent)));
        let upper = at(u128::from(count) / 2 + 1);
        let p50 = lower.zip(upper).map(|(lower, upper)| middle(lower, upper));
        let (p95, p99) = (p95.map(us), p99.map(us));
        [
            extremes.map(|(min, _)| us(min)),
            lower.map(us),
            p50,
            p95,
            p99,
            extremes.map(|(_, max)| us(max)),
        ]
    }
}

/// The values with their numbers, ascending.
fn tally(values: &[u32]) -> Vec<(u32, u32)> {
    // Durations are mostly short: those below 4 ms are counted in a table, the rest is sorted.
    const SHORT: u32 = 1 << 22;
    let mut counted = Vec::new();
    let longest = values.iter().copied().filter(|v| *v < SHORT).max();
    let mut table = vec![0u32; longest.map_or(0, |v| v as usize + 1)];
    let mut long = Vec::new();
    for value in values {
        match table.get_mut(*value as usize) {
            Some(n) => *n += 1,
            None => long.push(*value),
        }
    }
    let short = (0..).zip(&table).filter(|(_, n)| **n != 0);
    counted.extend(short.map(|(value, n)| (value, *n)));
    long.sort_unstable();
    let runs = long.chunk_by(|a, b| a == b);
    counted.extend(runs.map(|run| (run[0], run.len() as u32)));
    counted
}

/// The values at ascending indexes `at` of `values` and the sorted `wide` after them.
fn select<const N: usize>(values: &mut [u32], wide: &[u64], at: [usize; N]) -> [u64; N] {
    let narrow = values.len();
    // Each selection leaves what is larger on its right, where the next one looks.
    let mut from = 0;
    at.map(|index| {
        if index >= narrow {
            return wide[index - narrow];
        }
        let (_, found, _) = values[from..].select_nth_unstable(index - from);
        let found = u64::from(*found);
        from = index;
        found
    })
}

/// Where a percentile stands among `n` ascending values, from 1.
fn rank(percent: u64, n: u64) -> u128 {
    (u128::from(n) * u128::from(percent)).div_ceil(100).max(1)
}

/// A percentile of ascending values by nearest rank: one of them, or `None` of nothing.
pub fn nearest_rank(ascending: &[f64], percent: u64) -> Option<f64> {
    let at = rank(percent, ascending.len() as u64) as usize;
    ascending.get(at - 1).copied()
}

/// The mean of two durations in ns, in µs.
pub(crate) fn middle(lower: u64, upper: u64) -> f64 {
    (u128::from(lower) + u128::from(upper)) as f64 / 2e3
}

/// The median of ascending values; of an even number the mean of the two in the middle.
pub fn median(ascending: &[f64]) -> Option<f64> {
    let upper = *ascending.get(ascending.len() / 2)?;
    let lower = *ascending.get((ascending.len() - 1) / 2)?;
    Some(lower.midpoint(upper))
}

/// The value at `rank`, from 1, of ascending values with their numbers.
fn at_rank(ranked: &[(u64, u64)], rank: u128) -> u64 {
    let mut left = rank;
    for (value, number) in ranked {
        if u128::from(*number) >= left {
            return *value;
        }
        left -= u128::from(*number);
    }
    ranked.last().map_or(0, |(value, _)| *value)
}

/// What a figure is over all ranks that have it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Range")]
pub struct Spread {
    /// Ranks that have it.
    pub n: u64,
    /// Smallest.
    pub min: f64,
    /// Median (nearest rank).
    pub median: f64,
    /// Largest.
    pub max: f64,
}

/// Those that are known, ascending.
pub(crate) fn sorted(values: &[Option<f64>]) -> Vec<f64> {
    let mut values: Vec<f64> = values.iter().copied().flatten().collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The spread of those that are known; `None` of none.
pub(crate) fn spread(values: &[Option<f64>]) -> Option<Spread> {
    let sorted = sorted(values);
    Some(Spread {
        n: sorted.len() as u64,
        min: *sorted.first()?,
        median: median(&sorted)?,
        max: *sorted.last()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_what_is_surely_longer() {
        let mut sample = Sample::default();
        for ns in [10, 500, 2_000, 70_000, 70_000, 9_000_000] {
            sample.push(ns);
        }
        let spread = sample.histogram().expect("durations");
        let above = [0.0, 0.4, 1.0, 50.0, 100.0, 1e5].map(|us| spread.above(us));
        assert_eq!(above, [6, 5, 4, 3, 1, 0]);
    }

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
            (Some(100.5), Some(190.0), Some(198.0))
        );
        assert_eq!(
            (s.min, s.max, s.sum, s.mean),
            (Some(1.0), Some(200.0), 20_100.0, 100.5)
        );
        let s = of([3000, 1000, 2000]);
        assert_eq!((s.p50, s.p95), (Some(2.0), Some(3.0)));
        // The median of two is not the lower one.
        assert_eq!(of([1000, 4000]).p50, Some(2.5));
        assert_eq!(of([1000, 5_000_000_000]).p50, Some(2_500_000.5));
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
            (Some(1.01), Some(1.51), Some(2.01), Some(2.01))
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

    /// Where each bucket begins and ends, in ns, as the documentation of [`Histogram`] says, and how many it
    /// holds.
    fn buckets(histogram: &Histogram) -> Vec<(u64, u64, u64)> {
        let begin = |number: usize| {
            let i = (number * 64 / histogram.per_octave) as u64;
            if i < 64 {
                i
            } else {
                (64 + i % 64) << (i / 64 - 1)
            }
        };
        let mut number = histogram.first;
        let mut found = Vec::new();
        for count in &histogram.counts {
            match usize::try_from(-count) {
                Ok(skipped) => number += skipped,
                Err(_) => {
                    found.push((begin(number), begin(number + 1), *count as u64));
                    number += 1;
                }
            }
        }
        found
    }

    #[test]
    fn a_histogram_holds_every_duration_between_its_edges() {
        let (near, far) = (
            (0..50).map(|i| 5_000 + 40 * i),
            (0..50).map(|i| 1_000_000 + i),
        );
        for (values, per_octave) in [
            (vec![13_472, 13_504, 13_472], 64),
            (near.chain(far).collect(), 64),
            ((0..1_000).map(|i| 1_000 + 17 * i).collect(), 8),
            (vec![3, 700, 1_000_000, 9_000_000_000], 64),
            ((0..53).map(|i| 1 << i).collect(), 1),
            (vec![0, 1], 64),
            (vec![1, u64::MAX], 64),
        ] {
            let mut sample = Sample::default();
            values.iter().for_each(|ns| sample.push(*ns));
            let histogram = sample.histogram().expect("durations");
            assert_eq!(histogram.per_octave, per_octave, "{histogram:?}");
            assert!(histogram.counts.len() <= MOST_BUCKETS);
            let mut left = values.len() as u64;
            for (from, to, count) in buckets(&histogram) {
                let inside = |ns: &&u64| (from..to).contains(&(**ns).min((1 << 53) - 1));
                assert_eq!(values.iter().filter(inside).count() as u64, count);
                assert!(count > 0);
                left -= count;
            }
            assert_eq!(left, 0);
        }
        assert_eq!(Sample::default().histogram(), None);
    }

    #[test]
    fn counted_durations_are_in_the_histogram_or_there_is_none() {
        let counted = [(1008, 50), (2016, 50)];
        let mut sample = Sample::default();
        sample.push(1_000);
        sample.push_summed(Summed {
            count: 100,
            sum: 150_000,
            extremes: Some((1010, 2010)),
            histogram: Some(&counted),
        });
        let histogram = sample.histogram().expect("durations");
        let counts = buckets(&histogram).into_iter().map(|(.., count)| count);
        assert_eq!(counts.sum::<u64>(), 101);
        sample.push_summed(Summed {
            count: 3,
            sum: 9000,
            ..Summed::default()
        });
        assert_eq!(sample.histogram(), None);
    }

    #[test]
    fn durations_of_many_seconds_are_the_longest() {
        let s = of([1_000, 5_000_000_000, 2_000, 9_000_000_000]);
        assert_eq!(
            (s.min, s.p50, s.p95, s.max),
            (Some(1.0), Some(2_500_001.0), Some(9e6), Some(9e6))
        );
        let s = of([7_000_000_000]);
        assert_eq!((s.min, s.p50, s.max), (Some(7e6), Some(7e6), Some(7e6)));
    }

    #[test]
    fn many_durations_are_counted_and_none_is_lost() {
        // Of few values, of many, and longer than the table.
        for (values, scale) in [(1000, 1), (1 << 20, 3), (500, 1 << 20)] {
            let all: Vec<u64> = (0..MANY as u64 * 3)
                .map(|i| i * i % values * scale)
                .collect();
            let mut whole = Sample::default();
            let mut parts = [Sample::default(), Sample::default()];
            for (i, value) in all.iter().enumerate() {
                whole.push(*value);
                parts[usize::from(i > MANY + 9)].push(*value);
            }
            assert_eq!(whole.counted.is_empty(), values == 1 << 20, "{values}");
            let [mut merged, second] = parts;
            merged.merge(second);
            let mut sorted = all;
            sorted.sort_unstable();
            let n = sorted.len();
            let us = |ns: u64| Nanos::from(ns).us();
            let at = |percent: usize| Some(us(sorted[(n * percent).div_ceil(100) - 1]));
            for sample in [whole, merged] {
                let s = sample.statistics().expect("durations");
                let middle = sorted[(n - 1) / 2].midpoint(sorted[n / 2]) as f64;
                let halves = (sorted[(n - 1) / 2] + sorted[n / 2]) % 2;
                let p50 = Some(Nanos(middle + halves as f64 / 2.0).us());
                assert_eq!((s.p95, s.p99), (at(95), at(99)));
                assert!(s.p50.zip(p50).is_some_and(|(a, b)| (a - b).abs() < 1e-6));
                assert_eq!((s.min, s.max), (Some(us(sorted[0])), at(100)));
                assert_eq!(s.n, n as u64);
                assert_eq!(s.sum, us(sorted.iter().sum()));
            }
        }
    }

    #[test]
    fn merged_samples_are_one() {
        let (mut a, mut b, mut whole) = (Sample::default(), Sample::default(), Sample::default());
        for i in 0..1000u64 {
            let ns = i * 7_919 % 1_000 + 5_000_000_000 * u64::from(i % 97 == 0);
            let into = if i % 3 == 0 { &mut a } else { &mut b };
            into.push(ns);
            whole.push(ns);
        }
        a.merge(b);
        assert_eq!(a.statistics(), whole.statistics());
    }
}
