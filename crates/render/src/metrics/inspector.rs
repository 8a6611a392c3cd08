//! Metrics with the names of NCCL Inspector's exporter, for dashboards that are there already.
//!
//! Names, labels and units are those of NVIDIA's `plugins/profiler/inspector` in the repository of NCCL
//! (`inspector_prom.cc`): gauges by GPU, of the newest time; a mean of times in µs, and a geometric mean of
//! bandwidths in GB/s. Sizes are what each rank gives, in ranges as there: `4-5MB` has 4 MiB up to 5 MiB.
//!
//! Differences: that exporter leaves out calls below 8 KiB, and those that it dropped. Here, all calls with a
//! GPU time count.

use super::{Family, Kind, Metrics, Value};
use crate::top::Now;
use analyze::bandwidth::Bandwidth;
use capture::live::flag;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use tables::{Capture, Process, Shape};

/// Kinds of calls of all GPUs that have series of their own.
pub(super) const MOST_KEYS: usize = 16 << 10;

/// The version of that exporter's labels.
const VERSION: &str = "v5.1";
const UNKNOWN: &str = "unknown";

/// Calls of one kind on one GPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    is_p2p: bool,
    job: String,
    node: String,
    gpu: String,
    communicator: String,
    nnodes: String,
    nranks: String,
    function: String,
    size: String,
    /// Of collectives.
    algo_proto: String,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    calls: u64,
    us: f64,
    /// Calls with a bandwidth, and the sum of its logarithms.
    fast: u64,
    logs: f64,
}

impl Mean {
    fn merge(&mut self, other: Mean) {
        self.calls += other.calls;
        self.us += other.us;
        self.fast += other.fast;
        self.logs += other.logs;
    }
}

pub(super) fn families(metrics: &mut Metrics, now: &Now, capture: &Capture) -> Vec<Family> {
    let mut all: Vec<(Key, Mean)> = means(capture).into_iter().collect();
    all.sort_by_key(|(_, mean)| Reverse(mean.calls));
    let mut rows: BTreeMap<Key, Mean> = BTreeMap::new();
    for (mut key, mean) in all {
        if !metrics.of_gpus.admits(&key) {
            for label in [&mut key.communicator, &mut key.size, &mut key.algo_proto] {
                "other".clone_into(label);
            }
        }
        rows.entry(key).or_default().merge(mean);
    }
    let gauge = |name, help| Family::new(name, Kind::Gauge, "", help);
    let mut speed = gauge(
        "nccl_bus_bandwidth_gbs",
        "Bus bandwidth in GB/s, geometric mean.",
    );
    let mut time = gauge(
        "nccl_collective_exec_time_microseconds",
        "Execution time in microseconds, mean.",
    );
    let mut p2p_speed = gauge(
        "nccl_p2p_bus_bandwidth_gbs",
        "Bus bandwidth of sends and receives in GB/s, geometric mean.",
    );
    let mut p2p_time = gauge(
        "nccl_p2p_exec_time_microseconds",
        "Execution time of sends and receives in microseconds, mean.",
    );
    for (key, mean) in &rows {
        let mut labels = of_gpu(&key.job, &key.node, &key.gpu).to_vec();
        labels.extend([
            ("comm_name", &*key.communicator),
            ("n_nodes", &*key.nnodes),
            ("nranks", &*key.nranks),
        ]);
        let (speed, time) = if key.is_p2p {
            labels.extend([
                ("p2p_operation", &*key.function),
                ("message_size", &*key.size),
            ]);
            (&mut p2p_speed, &mut p2p_time)
        } else {
            labels.extend([
                ("collective", &*key.function),
                ("message_size", &*key.size),
                ("algo_proto", &*key.algo_proto),
            ]);
            (&mut speed, &mut time)
        };
        time.add(&labels, Value::Number(mean.us / mean.calls as f64));
        if mean.fast > 0 {
            let geometric = (mean.logs / mean.fast as f64).exp();
            speed.add(&labels, Value::Number(geometric));
        }
    }
    let mut dropped = Family::new(
        "nccl_collectives_dropped",
        Kind::Counter,
        "",
        "Calls that were lost for good.",
    );
    let job = job(capture.processes.first());
    for row in &now.ranks {
        let gpu = gpu(row.device);
        dropped.add(
            &of_gpu(&job, &row.process.host, &gpu),
            Value::Count(row.lost_for_good),
        );
    }
    vec![speed, time, p2p_speed, p2p_time, dropped]
}

fn of_gpu<'a>(job: &'a str, node: &'a str, gpu: &'a str) -> [(&'static str, &'a str); 4] {
    [
        ("version", VERSION),
        ("slurm_job_id", job),
        ("node", node),
        ("gpu", gpu),
    ]
}

fn job(process: Option<&Process>) -> String {
    let job = process.and_then(|process| process.fact("job"));
    job.unwrap_or(UNKNOWN).to_owned()
}

fn gpu(device: Option<u32>) -> String {
    device.map_or_else(|| UNKNOWN.to_owned(), |n| format!("GPU{n}"))
}

/// The calls of the span by kind.
fn means(capture: &Capture) -> BTreeMap<Key, Mean> {
    let mut all: BTreeMap<Key, Mean> = BTreeMap::new();
    for process in &capture.processes {
        let mut of_shapes = vec![Mean::default(); process.shapes.len()];
        let bytes: Vec<Option<u64>> = process.shapes.iter().map(|s| capture.bytes(s)).collect();
        for call in &process.calls {
            let index = call.shape as usize;
            let shape = &process.shapes[index];
            let Ok(ns) = call.gpu_ns(shape) else { continue };
            if shape.is(flag::CAPTURED) {
                continue;
            }
            let mean = &mut of_shapes[index];
            let us = ns as f64 / 1e3;
            mean.calls += 1;
            mean.us += us;
            let function = capture.names.get(shape.function).unwrap_or("");
            let found = bytes[index].map(|bytes| Bandwidth::of(function, shape.nranks, bytes, us));
            if let Some(Ok(Bandwidth {
                busbw_gb_per_s: Some(busbw),
                ..
            })) = found
            {
                mean.fast += 1;
                mean.logs += busbw.ln();
            }
        }
        for (shape, mean) in process.shapes.iter().zip(of_shapes) {
            if mean.calls > 0 {
                let key = key(capture, process, shape);
                all.entry(key).or_default().merge(mean);
            }
        }
    }
    all
}

fn key(capture: &Capture, process: &Process, shape: &Shape) -> Key {
    let text = |name| capture.names.get(name).unwrap_or(UNKNOWN);
    let local = process.communicator(shape.uid);
    let communicator = shape
        .communicator
        .and_then(|of| capture.communicators.get(of as usize));
    let name = communicator.and_then(|of| of.name.as_deref());
    let number = |n: Option<u32>| n.map_or_else(|| UNKNOWN.to_owned(), |n| n.to_string());
    let nnodes = local.map(|local| local.nnodes).filter(|n| *n > 0);
    // What each rank gives, and not what nccl-tests counts.
    let given = tables::calls::bytes("", text(shape.datatype), shape.count, None);
    Key {
        is_p2p: shape.is(flag::P2P),
        job: job(Some(process)),
        node: process.host.clone(),
        gpu: gpu(shape.device),
        communicator: name.unwrap_or(UNKNOWN).to_owned(),
        nnodes: number(nnodes),
        nranks: number(shape.nranks),
        function: text(shape.function).to_owned(),
        size: range(given.unwrap_or(0)),
        algo_proto: format!("{}_{}", text(shape.algorithm), text(shape.protocol)),
    }
}

/// The range of a size: whole numbers of the largest unit that it holds one of.
fn range(bytes: u64) -> String {
    if bytes == 0 {
        return "0B".to_owned();
    }
    let units = ["B", "KB", "MB", "GB", "TB"];
    let mut lower = bytes;
    let mut unit = 0;
    while lower >= 1024 && unit + 1 < units.len() {
        lower /= 1024;
        unit += 1;
    }
    format!("{lower}-{}{}", lower + 1, units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_spelled_as_inspector_spells_them() {
        let spelled = [
            0,
            1,
            1023,
            1024,
            5 << 20,
            (5 << 20) - 1,
            4 << 30,
            2048 << 40,
        ]
        .map(range);
        let expected = [
            "0B",
            "1-2B",
            "1023-1024B",
            "1-2KB",
            "5-6MB",
            "4-5MB",
            "4-5GB",
            "2048-2049TB",
        ];
        assert_eq!(spelled, expected);
    }
}
