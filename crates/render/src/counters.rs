//! Counters of the run over time, which the Chrome and the Perfetto export have in common.
//!
//! Rule: a counter is written for every bucket, and once more with 0 at the end of the last. What the node
//! sampler did not see is left out.

use analyze::timeline::curves::SampledCurve;
use analyze::timeline::{Curve, Timeline};

/// A figure over time.
pub(crate) struct Counter<'a> {
    /// What it is.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whether it is a share of the time, and not a rate.
    pub is_share: bool,
    curve: Drawn<'a>,
    bucket_us: f64,
}

/// What a counter is made of.
#[derive(Clone, Copy)]
enum Drawn<'a> {
    Curve(&'a Curve),
    Sampled(&'a SampledCurve),
}

impl Counter<'_> {
    /// Its values, mean of ranks, each with the begin of its bucket in µs of the timeline.
    pub fn values(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let by = if self.is_share { 100.0 } else { 1.0 };
        let mut means: Vec<Option<f64>> = match self.curve {
            Drawn::Curve(curve) => curve.mean.iter().copied().map(Some).collect(),
            Drawn::Sampled(sampled) => sampled.mean.clone(),
        };
        means.push(Some(0.0));
        let bucket_us = self.bucket_us;
        let known = means
            .into_iter()
            .enumerate()
            .filter_map(|(bucket, mean)| Some((bucket, mean?)));
        known.map(move |(bucket, mean)| (bucket as f64 * bucket_us, mean * by))
    }
}

/// The counters that are not 0 throughout: rates, then shares of the time, then what was sampled.
pub(crate) fn of(timeline: &Timeline) -> Vec<Counter<'_>> {
    let rates = [
        ("Calls, mean of ranks", "/s", Some(&timeline.calls)),
        (
            "Bytes of calls, mean of ranks",
            "B/s",
            timeline.bytes.as_ref(),
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
        ("In NCCL, mean of ranks", timeline.nccl.as_ref()),
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
    let of = &timeline.sampled;
    let sampled = [
        ("Power, mean of GPUs", "W", &of.power_w),
        ("Clock of the SMs, mean of GPUs", "MHz", &of.sm_mhz),
        (
            "Sent over NVLink, mean of GPUs",
            "B/s",
            &of.nvlink_sent_bytes,
        ),
        (
            "Received over NVLink, mean of GPUs",
            "B/s",
            &of.nvlink_received_bytes,
        ),
        ("Busy CPUs, mean of nodes", "CPUs", &of.cpus_busy),
        ("CPUs of the job, mean of nodes", "CPUs", &of.job_cpus_busy),
        (
            "Threads of the job that wait for a CPU, mean of nodes",
            "threads",
            &of.job_threads_ready,
        ),
        ("Read from disks, mean of nodes", "B/s", &of.disk_read_bytes),
        (
            "Written to disks, mean of nodes",
            "B/s",
            &of.disk_written_bytes,
        ),
        (
            "Sent by network interfaces, mean of nodes",
            "B/s",
            &of.net_sent_bytes,
        ),
        (
            "Received by network interfaces, mean of nodes",
            "B/s",
            &of.net_received_bytes,
        ),
    ];
    let sampled = sampled.into_iter().filter_map(|(name, unit, curve)| {
        Some((name, unit, false, Drawn::Sampled(curve.as_ref()?)))
    });
    let curves = rates.into_iter().chain(shares);
    let curves = curves.filter_map(|(name, unit, is_share, curve)| {
        Some((name, unit, is_share, Drawn::Curve(curve?)))
    });
    let counter = |(name, unit, is_share, curve)| Counter {
        name,
        unit,
        is_share,
        curve,
        bucket_us: timeline.bucket_us,
    };
    let all = curves.chain(sampled).map(counter);
    all.filter(|counter| match counter.curve {
        Drawn::Curve(curve) => curve.sum.iter().any(|sum| *sum > 0.0),
        Drawn::Sampled(sampled) => sampled.max.iter().flatten().any(|value| *value > 0.0),
    })
    .collect()
}
