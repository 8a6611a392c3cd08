//! Counters of the run over time, which the Chrome and the Perfetto export have in common.
//!
//! Rule: a counter is written for every bucket, and once more with 0 at the end of the last.

use analyze::timeline::{Curve, Timeline};

/// A figure over time.
pub(crate) struct Counter<'a> {
    /// What it is.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whether it is a share of the time, and not a rate.
    pub is_share: bool,
    curve: &'a Curve,
    bucket_us: f64,
}

impl Counter<'_> {
    /// Its values, mean of ranks, each with the begin of its bucket in µs of the timeline.
    pub fn values(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let by = if self.is_share { 100.0 } else { 1.0 };
        let means = self.curve.mean.iter().chain(&[0.0]).enumerate();
        means.map(move |(bucket, mean)| (bucket as f64 * self.bucket_us, mean * by))
    }
}

/// The counters that are not 0 throughout: rates, then shares of the time.
pub(crate) fn of(timeline: &Timeline) -> Vec<Counter<'_>> {
    let rates = [
        ("Calls, mean of ranks", "/s", Some(&timeline.calls)),
        (
            "Bytes of calls, mean of ranks",
            "B/s",
            Some(&timeline.bytes),
        ),
        (
            "Sent over the network, mean of ranks",
            "B/s",
            timeline.bytes_sent.as_ref(),
        ),
    ];
    let shares = [
        (
            "Waiting for the last rank, mean of ranks",
            timeline.waiting.as_ref(),
        ),
        ("In NCCL, mean of ranks", Some(&timeline.nccl)),
        ("Transfer, mean of ranks", timeline.transfer.as_ref()),
        (
            "Exposed communication, mean of ranks",
            timeline.exposed.as_ref(),
        ),
        (
            "Data in the network's hands, mean of ranks",
            timeline.nic.as_ref(),
        ),
    ];
    let rates = rates.map(|(name, unit, curve)| (name, unit, false, curve));
    let shares = shares.map(|(name, curve)| (name, "%", true, curve));
    let counter = |(name, unit, is_share, curve): (_, _, _, Option<_>)| {
        let curve: &Curve = curve?;
        Some(Counter {
            name,
            unit,
            is_share,
            curve,
            bucket_us: timeline.bucket_us,
        })
    };
    let all = rates.into_iter().chain(shares).filter_map(counter);
    all.filter(|counter| counter.curve.sum.iter().any(|sum| *sum > 0.0))
        .collect()
}
