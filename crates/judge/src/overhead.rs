//! What a profiler costs the work: runs under it against runs of the same round without.
//!
//! Rule: a pair is of one round, so whatever the machine does over minutes is in both; the interval is over
//! rounds. A cost is decided only where its whole interval is on one side of the limit.

use analyze::interval;
use schemars::JsonSchema;
use serde::Serialize;

/// How an interval lies to the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All of it is at the limit or below.
    Within,
    /// All of it is above.
    Above,
    /// It straddles the limit, or there is no interval.
    Undecided,
}

impl Verdict {
    /// The word in tables.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Within => "within",
            Verdict::Above => "above",
            Verdict::Undecided => "undecided",
        }
    }
}

/// One figure of the work, with a profiler and without.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Overhead {
    /// Rounds.
    pub pairs: u64,
    /// Without a profiler, in `unit`, median over rounds.
    pub without: f64,
    /// Under it, in `unit`.
    pub with: f64,
    /// Geometric mean of the rounds' ratios.
    pub ratio: f64,
    /// 95 % interval of the ratio, from two rounds on.
    pub ratio_interval: Option<(f64, f64)>,
    /// The whole interval against `limit`.
    pub verdict: Verdict,
}

/// From pairs (without, with), both above 0; `None` of none.
pub fn overhead(pairs: &[(f64, f64)], limit: f64) -> Option<Overhead> {
    let sound: Vec<(f64, f64)> = pairs
        .iter()
        .filter(|p| p.0 > 0.0 && p.1 > 0.0)
        .copied()
        .collect();
    let ratios: Vec<f64> = sound.iter().map(|(without, with)| with / without).collect();
    let interval = interval::ratio_of_runs(&ratios);
    let mut without: Vec<f64> = sound.iter().map(|p| p.0).collect();
    let mut with: Vec<f64> = sound.iter().map(|p| p.1).collect();
    Some(Overhead {
        pairs: sound.len() as u64,
        without: crate::accuracy::percentile(&mut without, 50)?,
        with: crate::accuracy::percentile(&mut with, 50)?,
        ratio: interval.map_or(*ratios.first()?, |i| i.mean),
        ratio_interval: interval.map(|i| (i.low, i.high)),
        verdict: match interval {
            Some(i) if i.high <= limit => Verdict::Within,
            Some(i) if i.low > limit => Verdict::Above,
            _ => Verdict::Undecided,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_decided_only_where_its_interval_is_on_one_side() {
        let verdict = |with: [f64; 4]| {
            let pairs: Vec<(f64, f64)> = with.iter().map(|w| (10.0, *w)).collect();
            overhead(&pairs, 1.02).expect("pairs").verdict
        };
        assert_eq!(verdict([10.0, 10.1, 10.0, 10.1]), Verdict::Within);
        assert_eq!(verdict([11.0, 11.1, 11.0, 11.2]), Verdict::Above);
        assert_eq!(verdict([9.0, 11.1, 10.0, 11.2]), Verdict::Undecided);
    }

    #[test]
    fn drift_of_the_machine_cancels_within_a_pair() {
        let pairs: Vec<(f64, f64)> = (1..9).map(|i| (f64::from(i), 1.1 * f64::from(i))).collect();
        let cost = overhead(&pairs, 1.02).expect("pairs");
        let (low, high) = cost.ratio_interval.expect("eight pairs");
        assert!((cost.ratio - 1.1).abs() < 1e-9 && low > 1.0999 && high < 1.1001);
        assert_eq!((cost.without, cost.with), (4.0, 4.4));
    }

    #[test]
    fn one_pair_has_a_ratio_and_decides_nothing() {
        let cost = overhead(&[(10.0, 20.0), (0.0, 1.0)], 1.02).expect("a pair");
        assert_eq!(
            (cost.pairs, cost.ratio, cost.ratio_interval),
            (1, 2.0, None)
        );
        assert_eq!(cost.verdict, Verdict::Undecided);
        assert_eq!(overhead(&[], 1.02), None);
    }
}
