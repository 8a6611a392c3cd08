//! How long a call takes.
//!
//! Rule: the clock is read around batches, never around single calls, if one call is not much longer than
//! reading it.

use std::time::{Duration, Instant};

/// A batch takes this at least: 10 000 times the clock's own cost.
pub const BATCH: Duration = Duration::from_micros(400);
/// Calls of a batch at most: what takes no time at all must end, too.
const MOST_CALLS: u64 = 1 << 32;
/// Batches of an item.
pub const BATCHES: usize = 15;

/// Nanoseconds of a call, from the best batch.
pub fn best(mut call: impl FnMut()) -> f64 {
    let mut calls = 1u64;
    // The search warms up caches and pages, too.
    let mut took = batch(&mut call, calls);
    while took < BATCH && calls < MOST_CALLS {
        let factor = BATCH.as_nanos() / took.as_nanos().max(1) + 1;
        calls = calls.saturating_mul((factor as u64).clamp(2, 100));
        took = batch(&mut call, calls);
    }
    let mut best = took;
    for _ in 1..BATCHES {
        best = best.min(batch(&mut call, calls));
    }
    best.as_nanos() as f64 / calls as f64
}

/// Bytes by nanoseconds, so GB/s, of a pass over so many bytes, from the best of `passes`.
pub fn bandwidth(bytes: usize, passes: usize, mut pass: impl FnMut()) -> f64 {
    pass();
    let times = (0..passes.max(1)).map(|_| batch(&mut pass, 1));
    let best = times.min().unwrap_or_default();
    bytes as f64 / best.as_nanos().max(1) as f64
}

/// The median of times that `once` says, in its unit.
pub fn median(times: usize, mut once: impl FnMut() -> f64) -> f64 {
    let values: Vec<f64> = (0..times.max(1)).map(|_| once()).collect();
    middle(values)
}

/// The median of values; NaN of none.
pub fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

fn batch(call: &mut impl FnMut(), calls: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        call();
    }
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_call_takes_longer() {
        let nap = |us: u64| best(|| std::thread::sleep(Duration::from_micros(us)));
        let (short, long) = (nap(100), nap(2000));
        assert!(short >= 100_000.0 && long >= 2_000_000.0, "{short} {long}");
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(middle(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(middle(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(middle(Vec::new()).is_nan());
    }
}
