//! Metrics with names of ncclscope's own.

use super::counted::{size, Counts, Key};
use super::{Admitted, Family, Kind, Metrics, Value};
use crate::top::{Now, Part, RankNow};
use analyze::completeness;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Whether the newest look found the capture.
pub(super) const READABLE: &str = "ncclscope_capture_readable";
/// Labels of what has no series of its own.
const OTHER: &str = "other";

fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family::new(name, Kind::Gauge, unit, help)
}

fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family::new(name, Kind::Counter, unit, help)
}

/// A gauge with at most one value.
fn one(name: &'static str, unit: &'static str, help: &'static str, value: Option<f64>) -> Family {
    let mut family = gauge(name, unit, help);
    if let Some(value) = value {
        family.add(&[], Value::Number(value));
    }
    family
}

fn count(name: &'static str, help: &'static str, value: u64) -> Family {
    let mut family = gauge(name, "", help);
    family.add(&[], Value::Count(value));
    family
}

/// 1 for what is so, with a label that says what.
const SO: Value = Value::Count(1);

pub(super) fn families(metrics: &mut Metrics, now: &Now) -> Vec<Family> {
    let mut all = of_job(now);
    all.extend(of_verdict(now));
    all.extend(of_ranks(metrics, now));
    all.extend(of_calls(metrics));
    all.push(of_operations(now));
    let mut left_out = gauge(
        "ncclscope_left_out",
        "",
        "What has no series of its own and is summed up as other.",
    );
    left_out.add(
        &[("of", "combinations")],
        Value::Count(metrics.keys.left_out()),
    );
    left_out.add(&[("of", "ranks")], Value::Count(metrics.ranks.left_out()));
    all.push(left_out);
    all
}

fn of_job(now: &Now) -> Vec<Family> {
    let mut info = gauge("ncclscope_capture_info", "", "The capture that is watched.");
    let name = now.job.as_deref().unwrap_or("");
    let version = env!("CARGO_PKG_VERSION");
    info.add(&[("name", name), ("version", version)], SO);
    let mut state = gauge(
        "ncclscope_job_state",
        "",
        "1 for what the job does: live, silent or ended.",
    );
    for of in ["live", "silent", "ended"] {
        let is_so = u64::from(of == now.state);
        state.add(&[("state", of)], Value::Count(is_so));
    }
    let mut lost = counter(
        "ncclscope_lost_calls",
        "",
        "Calls that were lost for good, by cause.",
    );
    // An alert on an increase needs the zero before it.
    for cause in completeness::LASTING {
        let n = now.lost.get(cause).copied().unwrap_or(0);
        lost.add(&[("cause", cause)], Value::Count(n));
    }
    let mut missing = gauge(
        "ncclscope_missing_calls",
        "",
        "Calls that are not here yet, by cause.",
    );
    for cause in completeness::PASSING {
        let n = now.lost.get(cause).copied().unwrap_or(0);
        missing.add(&[("cause", cause)], Value::Count(n));
    }
    let mut announced = counter(
        "ncclscope_announced_calls",
        "",
        "Calls that NCCL announced.",
    );
    announced.add(&[], Value::Count(now.announced));
    vec![
        info,
        count(
            READABLE,
            "1 if the capture could be read at the newest look. Otherwise, all else is of an earlier look.",
            1,
        ),
        state,
        count(
            "ncclscope_processes",
            "Processes of the job that are here.",
            now.processes,
        ),
        count("ncclscope_nodes", "Their nodes.", now.nodes),
        one(
            "ncclscope_evidence_timestamp_seconds",
            "seconds",
            "When the newest evidence was written, since 1970.",
            now.at_ns.map(|at| at as f64 / 1e9),
        ),
        one(
            "ncclscope_span_seconds",
            "seconds",
            "Time up to the newest call, of which all gauges are.",
            now.span_s,
        ),
        one(
            "ncclscope_step_seconds",
            "seconds",
            "Median step.",
            now.step_us.map(|us| us / 1e6),
        ),
        one(
            "ncclscope_steps_per_second",
            "",
            "Steps a second.",
            now.steps_per_s,
        ),
        count(
            "ncclscope_inflight_calls",
            "Calls that are not over, of all ranks.",
            now.in_flight.calls,
        ),
        one(
            "ncclscope_inflight_oldest_seconds",
            "seconds",
            "How long the oldest of them has been under way.",
            now.in_flight.oldest_s,
        ),
        one(
            "ncclscope_recording_cost_ratio",
            "ratio",
            "What recording costs, as a share of the time.",
            now.recording_share,
        ),
        one(
            "ncclscope_serve_cpu_ratio",
            "ratio",
            "CPU time of ncclscope serve, as a share of one CPU.",
            now.view_share,
        ),
        announced,
        lost,
        missing,
    ]
}

fn of_verdict(now: &Now) -> Vec<Family> {
    let mut verdict = gauge(
        "ncclscope_verdict",
        "",
        "1 for what ncclscope report and hang say first.",
    );
    verdict.add(&[("kind", now.verdict)], SO);
    let shares = [
        (
            "ncclscope_straggler_cost_ratio",
            "ratio",
            "What they cost, as a share of the time.",
            now.cost_share,
        ),
        (
            "ncclscope_straggler_cost_step_seconds",
            "seconds",
            "What the job would gain in each step without them.",
            now.cost_step_us.map(|us| us / 1e6),
        ),
    ];
    let of_culprits = shares.map(|(name, unit, help, value)| {
        let mut family = gauge(name, unit, help);
        for (culprit, value) in now.culprits.iter().zip(value.into_iter().cycle()) {
            let rank = number(culprit.rank);
            let labels = [
                ("rank", &*rank),
                ("host", &*culprit.host),
                ("kind", now.verdict),
            ];
            family.add(&labels, Value::Number(value));
        }
        family
    });
    let worst = now.links.first();
    let cost = worst.and_then(|link| link.cost_step_us).map(|us| us / 1e6);
    let hang = now.hang.map(|hang| f64::from(u8::from(hang)));
    let mut all = vec![
        verdict,
        one(
            "ncclscope_hang",
            "",
            "1 if the job hangs; absent if that can't be told.",
            hang,
        ),
    ];
    all.extend(of_culprits);
    all.push(one(
        "ncclscope_slowest_link_ratio",
        "ratio",
        "Time in the network's hands on the costliest link, by that of the median link.",
        worst.and_then(|link| link.of_the_median_ratio),
    ));
    all.push(one(
        "ncclscope_slowest_link_cost_step_seconds",
        "seconds",
        "What that link costs in each step.",
        cost,
    ));
    all
}

fn number(n: Option<u32>) -> String {
    n.map_or_else(String::new, |n| n.to_string())
}

/// Rank, host and GPU as labels.
type Who = [String; 3];

fn labels(who: &Who) -> [(&'static str, &str); 3] {
    let [rank, host, gpu] = who;
    [("rank", rank), ("host", host), ("gpu", gpu)]
}

/// The labels of a rank, if it has series of its own.
fn admitted(ranks: &mut Admitted<Who>, who: Who) -> Option<Who> {
    ranks.admits(&who).then_some(who)
}

fn of_ranks(metrics: &mut Metrics, now: &Now) -> Vec<Family> {
    let mut time = gauge(
        "ncclscope_rank_time_ratio",
        "ratio",
        "Where the time of a rank's steps went.",
    );
    let mut state = gauge("ncclscope_rank_state", "", "1 for what a rank does.");
    let mut power = gauge(
        "ncclscope_gpu_power_watts",
        "watts",
        "Mean power of a GPU over the span.",
    );
    let mut clock = gauge(
        "ncclscope_gpu_sm_clock_hertz",
        "hertz",
        "Mean clock of a GPU's SMs over the span.",
    );
    let mut lost = counter(
        "ncclscope_rank_lost_calls",
        "",
        "Calls that a rank lost for good.",
    );
    // A rank counts its calls by GPU, and the report knows its number.
    let mut numbers: BTreeMap<(&str, u32, Option<u32>), Option<u32>> = BTreeMap::new();
    let mut rows: Vec<&RankNow> = now.ranks.iter().collect();
    // Of more ranks than have series, those that the verdict names, and then the first.
    rows.sort_by_key(|row| {
        (
            row.cost_step_us.is_none(),
            row.process.rank.is_none(),
            row.process.rank,
        )
    });
    let other = || [OTHER; 3].map(str::to_owned);
    for row in rows {
        numbers.insert(
            (&row.process.host, row.process.pid, row.device),
            row.process.rank,
        );
        let who = [
            number(row.process.rank),
            row.process.host.clone(),
            number(row.device),
        ];
        let Some(who) = admitted(&mut metrics.ranks, who) else {
            lost.add(&labels(&other()), Value::Count(row.lost_for_good));
            continue;
        };
        let of = labels(&who);
        for share in &row.parts {
            let part = match share.part {
                Part::WorkOrHost => "work_or_host",
                Part::Transfer => "transfer",
                Part::Waiting => "waiting",
                Part::Unknown => "unknown",
            };
            let labels = [of[0], of[1], of[2], ("part", part)];
            time.add(&labels, Value::Number(share.share));
        }
        state.add(&[of[0], of[1], of[2], ("state", row.state)], SO);
        lost.add(&of, Value::Count(row.lost_for_good));
        if let Some(watts) = row.power_w {
            power.add(&of, Value::Number(watts));
        }
        if let Some(mhz) = row.sm_mhz {
            clock.add(&of, Value::Number(mhz * 1e6));
        }
    }
    let mut by_rank: BTreeMap<Who, (Counts, u64)> = BTreeMap::new();
    for process in metrics.counted.processes() {
        let devices = process.by_device.keys().chain(process.open.keys());
        let devices: std::collections::BTreeSet<_> = devices.copied().collect();
        for device in devices {
            let key = (process.host.as_str(), process.pid, device);
            let rank = numbers.get(&key).copied().unwrap_or(process.rank);
            let who = [number(rank), process.host.clone(), number(device)];
            let who = admitted(&mut metrics.ranks, who).unwrap_or_else(other);
            let (counts, open) = by_rank.entry(who).or_default();
            if let Some(more) = process.by_device.get(&device) {
                counts.merge(more);
            }
            *open += process.open.get(&device).copied().unwrap_or(0);
        }
    }
    let mut calls = counter("ncclscope_rank_calls", "", "Calls of a rank.");
    let mut gpu = counter(
        "ncclscope_rank_gpu_seconds",
        "seconds",
        "GPU time of those that have one.",
    );
    let mut exposed = counter(
        "ncclscope_rank_exposed_seconds",
        "seconds",
        "How long its streams stood still for those of which that is known.",
    );
    let mut in_flight = gauge(
        "ncclscope_rank_inflight_calls",
        "",
        "Its calls that are not over.",
    );
    for (who, (counts, open)) in &by_rank {
        let of = labels(who);
        let sum = &counts.sum;
        calls.add(&of, Value::Count(sum.calls));
        gpu.add(&of, Value::Number(sum.gpu_ns as f64 / 1e9));
        if sum.waited > 0 {
            exposed.add(&of, Value::Number(sum.exposed_ns as f64 / 1e9));
        }
        in_flight.add(&of, Value::Count(*open));
    }
    vec![
        time, state, lost, power, clock, calls, gpu, exposed, in_flight,
    ]
}

/// Calls by key. Those that have no series of their own are one row.
fn sums(metrics: &mut Metrics) -> BTreeMap<Key, Counts> {
    let mut all: BTreeMap<&Key, Counts> = BTreeMap::new();
    for process in metrics.counted.processes() {
        for (key, counts) in &process.by_key {
            all.entry(key).or_default().merge(counts);
        }
    }
    let mut all: Vec<(&Key, Counts)> = all.into_iter().collect();
    all.sort_by_key(|(_, counts)| Reverse(counts.sum.calls));
    let mut rows: BTreeMap<Key, Counts> = BTreeMap::new();
    for (key, counts) in all {
        let key = if metrics.keys.admits(key) {
            key.clone()
        } else {
            [OTHER; 4].map(str::to_owned)
        };
        rows.entry(key).or_default().merge(&counts);
    }
    rows
}

fn of_calls(metrics: &mut Metrics) -> Vec<Family> {
    let mut calls = counter(
        "ncclscope_calls",
        "",
        "Calls of all ranks since the start, without those in CUDA graphs. A size is its class's end.",
    );
    let mut moved = counter(
        "ncclscope_bytes",
        "bytes",
        "Their bytes, as nccl-tests counts them.",
    );
    let mut gpu = Family::new(
        "ncclscope_gpu_seconds",
        Kind::Histogram,
        "seconds",
        "GPU times of those that have one.",
    );
    let mut exposed = counter(
        "ncclscope_exposed_seconds",
        "seconds",
        "How long streams stood still for calls of which that is known.",
    );
    for (key, Counts { sum, bytes }) in sums(metrics) {
        let [communicator, ranks, function, size] = &key;
        let labels = [
            ("communicator", &**communicator),
            ("ranks", &**ranks),
            ("function", &**function),
            ("size", &**size),
        ];
        calls.add(&labels, Value::Count(sum.calls));
        moved.add(&labels, Value::Count(bytes));
        let times = Value::Times {
            buckets: sum.buckets.to_vec(),
            count: sum.timed,
            sum_ns: sum.gpu_ns,
        };
        gpu.add(&labels, times);
        if sum.waited > 0 {
            exposed.add(&labels, Value::Number(sum.exposed_ns as f64 / 1e9));
        }
    }
    vec![calls, moved, gpu, exposed]
}

fn of_operations(now: &Now) -> Family {
    let mut family = gauge(
        "ncclscope_bus_bandwidth_bytes_per_second",
        "bytes_per_second",
        "Bus bandwidth of the median operation in the span, of the kind with most GPU time.",
    );
    for of in &now.operations {
        let function = of.function.as_deref().unwrap_or("unknown");
        if let Some(speed) = of.busbw_gb_per_s {
            let labels = [("function", function), ("size", size(of.bytes))];
            family.add(&labels, Value::Number(speed * 1e9));
        }
    }
    family
}
