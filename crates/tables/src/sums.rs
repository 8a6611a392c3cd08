//! Counts of all calls since the start of a process, also of those that are not kept.
//!
//! Metrics count from the start, and a [`Tail`](crate::Tail) keeps only the newest span. So calls are added
//! to a [`Sum`] once, when the tail forgets them; those that it keeps are added to a copy at each look.

use crate::process::Total;
use crate::{Call, Shape};

/// Upper bounds of the buckets of GPU times, ns. One more bucket has what is longer.
pub const BOUNDS_NS: [u64; 12] = [
    10_000,
    30_000,
    100_000,
    300_000,
    1_000_000,
    3_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    300_000_000,
    1_000_000_000,
    10_000_000_000,
];

/// Calls of one shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Calls that were recorded.
    pub calls: u64,
    /// Those of them with a GPU time.
    pub timed: u64,
    /// Sum of these times, ns.
    pub gpu_ns: u64,
    /// Calls for which it is known how long a stream stood still.
    pub waited: u64,
    /// Sum of these times, ns.
    pub exposed_ns: u64,
    /// How many GPU times are in each bucket of [`BOUNDS_NS`], and above.
    pub buckets: [u64; BOUNDS_NS.len() + 1],
}

impl Sum {
    /// Adds a call.
    pub fn add(&mut self, shape: &Shape, call: &Call) {
        self.calls += 1;
        if let Ok(ns) = call.gpu_ns(shape) {
            self.time(ns, 1);
            self.gpu_ns = self.gpu_ns.saturating_add(ns);
        }
        if let Some(ns) = call.exposed_ns() {
            self.waited += 1;
            self.exposed_ns = self.exposed_ns.saturating_add(ns);
        }
    }

    /// Adds calls that the recorder added up itself.
    pub fn add_total(&mut self, total: &Total) {
        self.calls = self.calls.saturating_add(total.folded);
        let mut left = total.timed;
        if total.histogram_of == crate::process::HistogramOf::Gpu {
            for (ns, n) in &total.histogram {
                let n = (*n).min(left);
                self.time(*ns, n);
                left -= n;
            }
        }
        // Of these, no more is known than their mean.
        if let Some(mean) = total.sum.checked_div(total.timed) {
            self.time(mean, left);
        }
        self.gpu_ns = self.gpu_ns.saturating_add(total.sum);
    }

    /// Adds others of this kind.
    pub fn merge(&mut self, other: &Sum) {
        let add = |into: &mut u64, of: u64| *into = into.saturating_add(of);
        add(&mut self.calls, other.calls);
        add(&mut self.timed, other.timed);
        add(&mut self.gpu_ns, other.gpu_ns);
        add(&mut self.waited, other.waited);
        add(&mut self.exposed_ns, other.exposed_ns);
        for (into, of) in self.buckets.iter_mut().zip(other.buckets) {
            add(into, of);
        }
    }

    fn time(&mut self, ns: u64, n: u64) {
        let bucket = BOUNDS_NS.partition_point(|bound| *bound < ns);
        self.buckets[bucket] = self.buckets[bucket].saturating_add(n);
        self.timed = self.timed.saturating_add(n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_bucket_of_the_first_bound_that_is_not_below_it() {
        let mut sum = Sum::default();
        for ns in [0, 10_000, 10_001, 10_000_000_000, u64::MAX] {
            sum.time(ns, 2);
        }
        assert_eq!(sum.timed, 10);
        let own = |index: usize| sum.buckets[index];
        assert_eq!((own(0), own(1), own(11), own(12)), (4, 2, 2, 2));
        assert_eq!(sum.buckets.iter().sum::<u64>(), sum.timed);
    }
}
