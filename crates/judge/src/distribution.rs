//! How times are spread: what a violin shows.
//!
//! A [`Distribution`] has percentiles, the mean, and a histogram whose steps have equal ratios, because times
//! of calls span powers of ten and their long tail matters.
//!
//! Rule: every time is in it. What would be an outlier in a box plot is what a profiler is judged by.

use analyze::statistics::nearest_rank;
use render::figures::shares;
use schemars::JsonSchema;
use serde::Serialize;

/// Steps of a histogram.
const STEPS: usize = 48;

/// Times, in µs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean_us: f64,
    /// The shortest.
    pub min_us: f64,
    /// 5th percentile.
    pub p5_us: f64,
    /// 25th percentile.
    pub p25_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 75th percentile.
    pub p75_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// The longest.
    pub max_us: f64,
    /// The share of the calls in each of 48 steps of equal ratio, from the shortest time to the longest.
    pub shares: Vec<f64>,
}

impl Distribution {
    /// Of times in ns; `None` of none above 0.
    pub fn of(times_ns: impl IntoIterator<Item = f64>) -> Option<Distribution> {
        let mut us: Vec<f64> = times_ns
            .into_iter()
            .filter(|ns| ns.is_finite() && *ns > 0.0)
            .map(|ns| ns / 1e3)
            .collect();
        us.sort_by(f64::total_cmp);
        let at = |percent| nearest_rank(&us, percent);
        let (min, max) = (*us.first()?, *us.last()?);
        Some(Distribution {
            count: us.len() as u64,
            mean_us: us.iter().sum::<f64>() / us.len() as f64,
            min_us: min,
            p5_us: at(5)?,
            p25_us: at(25)?,
            p50_us: at(50)?,
            p75_us: at(75)?,
            p95_us: at(95)?,
            max_us: max,
            shares: shares(&us, STEPS),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_shares_are_of_all_times() {
        let of = Distribution::of((1..=100).map(|us| f64::from(us) * 1e3)).expect("times");
        assert_eq!(
            (of.min_us, of.p50_us, of.p95_us, of.max_us),
            (1.0, 50.0, 95.0, 100.0)
        );
        assert_eq!((of.count, of.mean_us), (100, 50.5));
        assert!((of.shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        // The steps have equal ratios: the upper half of the scale has the times above 10.
        let upper: f64 = of.shares[24..].iter().sum();
        assert!((upper - 0.91).abs() < 0.011, "{upper}");
    }

    #[test]
    fn equal_times_are_one_step_and_none_is_none() {
        let one = Distribution::of([2e3, 2e3]).expect("times");
        assert_eq!((one.p5_us, one.max_us, one.shares[24]), (2.0, 2.0, 1.0));
        assert_eq!(Distribution::of([0.0, f64::NAN]), None);
    }
}
