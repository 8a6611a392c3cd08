//! What a sample of calls says of all of them.
//!
//! A [`Stretches`] takes the times of a rank's sampled calls in their order, and adds them up in equal
//! stretches of the run. There are few enough of these to keep them for every row of a table. Stretches of
//! several ranks are laid on each other, because a slow moment is slow for all. [`Sampled`] is the estimate
//! for all calls, with its 95 % interval by [`crate::interval`].
//!
//! Rule: an estimate is given beside the figures of the calls that were timed, never in their place.

use crate::interval::Batches;
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// Most stretches that are kept; twice as long ones take their place.
const MOST: usize = 64;

/// Times in order, in equal stretches.
#[derive(Clone, Debug, Default)]
pub struct Stretches {
    /// Durations in a stretch of one rank.
    width: u64,
    /// Durations in the newest stretch.
    filled: u64,
    /// Sum, ns, and number.
    list: Vec<(f64, f64)>,
}

impl Stretches {
    /// Adds the next duration of the rank, ns.
    pub fn push(&mut self, ns: u64) {
        if self.list.is_empty() {
            self.width = 1;
            self.filled = 1;
            self.list.push((0.0, 0.0));
        } else if self.filled == self.width {
            if self.list.len() == MOST {
                self.widen();
            }
            self.list.push((0.0, 0.0));
            self.filled = 1;
        } else {
            self.filled += 1;
        }
        if let Some(last) = self.list.last_mut() {
            *last = (last.0 + ns as f64, last.1 + 1.0);
        }
    }

    fn widen(&mut self) {
        self.list = self
            .list
            .chunks(2)
            .map(|pair| pair.iter().fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1)))
            .collect();
        self.width *= 2;
        self.filled = self.width;
    }

    /// Lays the stretches of another rank on these.
    pub fn merge(&mut self, mut other: Stretches) {
        if self.list.is_empty() {
            *self = other;
            return;
        }
        while !other.list.is_empty() && other.width < self.width {
            other.widen();
        }
        while !other.list.is_empty() && self.width < other.width {
            self.widen();
        }
        if self.list.len() < other.list.len() {
            self.list.resize(other.list.len(), (0.0, 0.0));
        }
        for (into, from) in self.list.iter_mut().zip(other.list) {
            *into = (into.0 + from.0, into.1 + from.1);
        }
        // Nothing is pushed any more once ranks were merged.
        self.filled = self.width;
    }

    /// Sum and number of the durations.
    pub fn total(&self) -> (Nanos, f64) {
        let add = |a: (f64, f64), b: &(f64, f64)| (a.0 + b.0, a.1 + b.1);
        let (sum, number) = self.list.iter().fold((0.0, 0.0), add);
        (Nanos(sum), number)
    }

    /// The estimate for `calls` calls of which these are a sample.
    pub fn estimate(&self, calls: u64) -> Option<Sampled> {
        let mean = Batches::of_stretches(&self.list)?.mean(0.0)?;
        let (low, high) = mean.interval()?;
        let number = self.total().1;
        let us = |ns: f64| Nanos(ns).us();
        Some(Sampled {
            share: number / calls as f64,
            mean_low_us: us(low.max(0.0)),
            mean_high_us: us(high),
            sum_us: us(mean.mean * calls as f64),
            sum_low_us: us(low.max(0.0) * calls as f64),
            sum_high_us: us(high * calls as f64),
        })
    }
}

/// An estimate for all calls of a row, warm-ups left out, from those of them that were timed. µs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Sampled {
    /// Share of the calls that were timed.
    pub share: f64,
    /// Lower end of the mean's 95 % interval.
    pub mean_low_us: f64,
    /// Upper end.
    pub mean_high_us: f64,
    /// GPU time of all calls.
    pub sum_us: f64,
    /// Lower end of its 95 % interval.
    pub sum_low_us: f64,
    /// Upper end.
    pub sum_high_us: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Random;

    #[test]
    fn the_interval_holds_the_truth_as_often_as_it_says() {
        let mut held = 0;
        for seed in 1..=200 {
            let mut noise = Random(seed);
            let mut random = || noise.uniform();
            // Calls whose times follow each other, with slow moments.
            let (mut level, mut all) = (0.0, Vec::new());
            for _ in 0..8_000 {
                level = 0.7 * level + random() - 0.5;
                let slow = if random() < 0.02 { 30_000.0 } else { 0.0 };
                all.push((20_000.0 + 4_000.0 * level + slow * random()).max(1.0) as u64);
            }
            let mut stretches = Stretches::default();
            for ns in all.iter().filter(|_| random() < 1.0 / 16.0) {
                stretches.push(*ns);
            }
            let estimate = stretches.estimate(all.len() as u64).expect("enough");
            let truth = Nanos::from(all.iter().sum::<u64>()).us();
            held += u32::from((estimate.sum_low_us..=estimate.sum_high_us).contains(&truth));
        }
        assert!(held >= 184, "{held} of 200");
    }

    #[test]
    fn ranks_are_laid_on_each_other_and_nothing_is_lost() {
        let of = |n: u64| {
            let mut stretches = Stretches::default();
            (0..n).for_each(|i| stretches.push(1_000 + i % 7));
            stretches
        };
        let mut all = of(1_000);
        all.merge(of(77));
        all.merge(of(64));
        all.merge(Stretches::default());
        let number: f64 = all.list.iter().map(|s| s.1).sum();
        assert_eq!(number, 1_141.0);
        assert!(all.list.len() <= MOST);
        let estimate = all.estimate(11_410).expect("enough");
        assert!((estimate.share - 0.1).abs() < 1e-9);
        assert!(
            (estimate.sum_us / 11_410.0 - 1.003).abs() < 0.01,
            "{estimate:?}"
        );
    }

    #[test]
    fn a_handful_has_no_interval() {
        let mut stretches = Stretches::default();
        (0..3).for_each(|_| stretches.push(5));
        assert_eq!(stretches.estimate(100), None);
    }
}
