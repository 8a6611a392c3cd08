//! Metrics of a running job, for Prometheus and what reads its formats.
//!
//! [`text`] writes a [`Now`] and the sums of all calls since the start ([`Process::sums`]) as OpenMetrics, or
//! in the older text format that node_exporter takes from files. Names are in base units: seconds, bytes,
//! ratios.
//!
//! Rule: a job of any size has a bounded number of series. By rank there are a dozen; calls are summed over
//! ranks, by communicator, function and size, and beyond [`MOST_KEYS`] of these the rest is one.
//!
//! [`Process::sums`]: tables::Process::sums

use crate::top::{Now, Part, RankNow};
use capture::live::flag;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use tables::sums::{Sum, BOUNDS_NS};
use tables::{printable, Capture};

/// The format of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus's text format 0.0.4.
    Text,
}

impl Format {
    /// The media type.
    pub fn kind(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Combinations of communicator, function and size.
const MOST_KEYS: usize = 200;
/// Bytes of a label's value.
const MOST_LABEL: usize = 128;

/// Up to so many bytes, and the name of that class.
const SIZES: [(u64, &str); 10] = [
    (1 << 10, "1KiB"),
    (16 << 10, "16KiB"),
    (256 << 10, "256KiB"),
    (1 << 20, "1MiB"),
    (4 << 20, "4MiB"),
    (16 << 20, "16MiB"),
    (64 << 20, "64MiB"),
    (256 << 20, "256MiB"),
    (1 << 30, "1GiB"),
    (u64::MAX, "more"),
];

/// The class of a size: the first that it fits in.
fn size(bytes: Option<u64>) -> &'static str {
    let class = |bytes| SIZES.iter().find(|(most, _)| bytes <= *most);
    bytes.and_then(class).map_or("unknown", |(_, name)| name)
}

type Labels<'a> = &'a [(&'a str, &'a str)];

/// What is written.
struct Page {
    text: String,
    format: Format,
    name: &'static str,
    /// Labels of the family's samples: none comes twice.
    seen: BTreeSet<String>,
}

impl Page {
    /// Begins a family. Its name has the unit.
    fn family(&mut self, name: &'static str, kind: &str, unit: &str, help: &str) {
        let total = match (self.format, kind) {
            (Format::Text, "counter") => "_total",
            _ => "",
        };
        self.name = name;
        self.seen.clear();
        // Writing to a string can't fail.
        let _ = writeln!(self.text, "# TYPE ncclscope_{name}{total} {kind}");
        if self.format == Format::OpenMetrics && !unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT ncclscope_{name} {unit}");
        }
        let _ = writeln!(self.text, "# HELP ncclscope_{name}{total} {help}");
    }

    /// Adds a sample, unless one with these labels is there.
    fn sample(&mut self, suffix: &str, labels: Labels, value: impl std::fmt::Display) {
        let mut all = String::new();
        for (key, value) in labels {
            let comma = if all.is_empty() { "" } else { "," };
            let _ = write!(all, "{comma}{key}=\"{}\"", escaped(value));
        }
        let name = self.name;
        if !self.seen.insert(format!("{suffix}{all}")) {
            return;
        }
        let _ = match all.is_empty() {
            true => writeln!(self.text, "ncclscope_{name}{suffix} {value}"),
            false => writeln!(self.text, "ncclscope_{name}{suffix}{{{all}}} {value}"),
        };
    }

    /// A gauge with at most one value.
    fn gauge(&mut self, name: &'static str, unit: &str, help: &str, value: Option<f64>) {
        self.family(name, "gauge", unit, help);
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.sample("", &[], value);
        }
    }
}

/// The value of a label: printable, of a bounded length.
fn escaped(text: &str) -> String {
    let text = printable(text);
    let mut escaped = String::new();
    for letter in text.chars() {
        if escaped.len() >= MOST_LABEL {
            break;
        }
        match letter {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The metrics of a job. Sums are left out if they were not counted.
pub fn text(now: &Now, capture: &Capture, format: Format) -> String {
    let mut page = Page {
        text: String::new(),
        format,
        name: "",
        seen: BTreeSet::new(),
    };
    of_job(&mut page, now);
    of_verdict(&mut page, now);
    of_ranks(&mut page, now);
    of_calls(&mut page, capture);
    of_operations(&mut page, now);
    if format == Format::OpenMetrics {
        page.text.push_str("# EOF\n");
    }
    page.text
}

fn of_job(page: &mut Page, now: &Now) {
    page.family("capture_info", "gauge", "", "The capture that is watched.");
    let name = now.job.as_deref().unwrap_or("");
    let version = env!("CARGO_PKG_VERSION");
    page.sample("", &[("name", name), ("version", version)], 1);
    page.family(
        "job_state",
        "gauge",
        "",
        "1 for what the job does: live, silent or ended.",
    );
    for state in ["live", "silent", "ended"] {
        page.sample("", &[("state", state)], u8::from(state == now.state));
    }
    let count = |n: u64| Some(n as f64);
    page.gauge(
        "processes",
        "",
        "Processes of the job that are here.",
        count(now.processes),
    );
    page.gauge("nodes", "", "Their nodes.", count(now.nodes));
    let at = now.at_ns.map(|at| at as f64 / 1e9);
    let help = "When the newest evidence was written, since 1970.";
    page.gauge("evidence_timestamp_seconds", "seconds", help, at);
    let span = "Time up to the newest call, of which all gauges are.";
    page.gauge("span_seconds", "seconds", span, now.span_s);
    let step = now.step_us.map(|us| us / 1e6);
    page.gauge("step_seconds", "seconds", "Median step.", step);
    page.gauge("steps_per_second", "", "Steps a second.", now.steps_per_s);
    let in_flight = "Calls that are not over, of all ranks.";
    page.gauge("inflight_calls", "", in_flight, count(now.in_flight.calls));
    let oldest = "How long the oldest of them has been under way.";
    page.gauge(
        "inflight_oldest_seconds",
        "seconds",
        oldest,
        now.in_flight.oldest_s,
    );
    let cost = "What recording costs, as a share of the time.";
    page.gauge("recording_cost_ratio", "ratio", cost, now.recording_share);
    let cost = "CPU time of ncclscope serve, as a share of one CPU.";
    page.gauge("serve_cpu_ratio", "ratio", cost, now.view_share);
    page.family(
        "announced_calls",
        "counter",
        "",
        "Calls that NCCL announced.",
    );
    page.sample("_total", &[], now.announced);
    page.family("recorded_calls", "counter", "", "Calls that were recorded.");
    page.sample("_total", &[], now.recorded);
    page.family(
        "lost_calls",
        "counter",
        "",
        "Calls that were lost, by cause.",
    );
    for (cause, n) in &now.lost {
        page.sample("_total", &[("cause", cause)], n);
    }
    // An alert on an increase needs the zero before it.
    if now.lost.is_empty() {
        page.sample("_total", &[("cause", "none")], 0);
    }
}

fn of_verdict(page: &mut Page, now: &Now) {
    page.family(
        "verdict",
        "gauge",
        "",
        "1 for what ncclscope report and hang say first.",
    );
    page.sample("", &[("kind", now.verdict)], 1);
    let hang = now.hang.map(|hang| f64::from(u8::from(hang)));
    page.gauge(
        "hang",
        "",
        "1 if the job hangs; absent if that can't be told.",
        hang,
    );
    let shares = [
        (
            "straggler_cost_ratio",
            "ratio",
            "What they cost, as a share of the time.",
            now.cost_share,
        ),
        (
            "straggler_cost_step_seconds",
            "seconds",
            "What the job would gain in each step without them.",
            now.cost_step_us.map(|us| us / 1e6),
        ),
    ];
    for (name, unit, help, value) in shares {
        page.family(name, "gauge", unit, help);
        for culprit in &now.culprits {
            let rank = culprit
                .rank
                .map_or_else(String::new, |rank| rank.to_string());
            if let Some(value) = value {
                let labels = [
                    ("rank", &*rank),
                    ("host", &*culprit.host),
                    ("kind", now.verdict),
                ];
                page.sample("", &labels, value);
            }
        }
    }
    let worst = now.links.first();
    let ratio = worst.and_then(|link| link.of_the_median_ratio);
    let help = "Time in the network's hands on the costliest link, by that of the median link.";
    page.gauge("slowest_link_ratio", "ratio", help, ratio);
    let cost = worst.and_then(|link| link.cost_step_us).map(|us| us / 1e6);
    page.gauge(
        "slowest_link_cost_step_seconds",
        "seconds",
        "What that link costs in each step.",
        cost,
    );
}

fn of_ranks(page: &mut Page, now: &Now) {
    let numbers: Vec<[String; 2]> = now
        .ranks
        .iter()
        .map(|row| [row.rank, row.device].map(|n| n.map_or_else(String::new, |n| n.to_string())))
        .collect();
    let rows = || now.ranks.iter().zip(&numbers);
    fn of<'a>(row: &'a RankNow, numbers: &'a [String; 2]) -> [(&'a str, &'a str); 3] {
        let [rank, gpu] = numbers;
        [("rank", rank), ("host", &row.host), ("gpu", gpu)]
    }
    page.family(
        "rank_time_ratio",
        "gauge",
        "ratio",
        "Where the time of a rank's steps went.",
    );
    for (row, numbers) in rows() {
        let [rank, host, gpu] = of(row, numbers);
        for share in &row.parts {
            let part = match share.part {
                Part::WorkOrHost => "work_or_host",
                Part::Transfer => "transfer",
                Part::Waiting => "waiting",
                Part::Unknown => "unknown",
            };
            page.sample("", &[rank, host, gpu, ("part", part)], share.share);
        }
    }
    page.family("rank_state", "gauge", "", "1 for what a rank does.");
    for (row, numbers) in rows() {
        let [rank, host, gpu] = of(row, numbers);
        page.sample("", &[rank, host, gpu, ("state", row.state)], 1);
    }
    page.family("rank_lost_calls", "counter", "", "Calls that a rank lost.");
    for (row, numbers) in rows() {
        page.sample("_total", &of(row, numbers), row.lost);
    }
    page.family(
        "gpu_power_watts",
        "gauge",
        "watts",
        "Mean power of a GPU over the span.",
    );
    for (row, numbers) in rows() {
        if let Some(power) = row.power_w {
            page.sample("", &of(row, numbers), power);
        }
    }
    page.family(
        "gpu_sm_clock_hertz",
        "gauge",
        "hertz",
        "Mean clock of a GPU's SMs over the span.",
    );
    for (row, numbers) in rows() {
        if let Some(mhz) = row.sm_mhz {
            page.sample("", &of(row, numbers), mhz * 1e6);
        }
    }
}

/// By communicator's name and ranks, function and size.
type Key = (String, String, String, &'static str);

/// The sums of all processes by key, and with each the bytes of its calls.
fn sums(capture: &Capture) -> BTreeMap<Key, (Sum, u64)> {
    let mut all: BTreeMap<Key, (Sum, u64)> = BTreeMap::new();
    for process in &capture.processes {
        for (shape, sum) in process.shapes.iter().zip(&process.sums) {
            // What was captured ran when its graph was launched, and not then.
            if sum.calls == 0 || shape.is(flag::CAPTURED) {
                continue;
            }
            let communicator = shape
                .communicator
                .and_then(|of| capture.communicators.get(of as usize));
            let name = communicator
                .and_then(|of| of.name.clone())
                .unwrap_or_default();
            let ranks = shape.nranks.map_or_else(String::new, |n| n.to_string());
            let function = capture.names.get(shape.function).unwrap_or("unknown");
            let bytes = capture.bytes(shape);
            let key = (name, ranks, function.to_owned(), size(bytes));
            let key = match all.len() >= MOST_KEYS && !all.contains_key(&key) {
                true => (
                    "other".to_owned(),
                    String::new(),
                    "other".to_owned(),
                    "unknown",
                ),
                false => key,
            };
            let (into, moved) = all.entry(key).or_default();
            into.merge(sum);
            *moved = moved.saturating_add(bytes.unwrap_or(0).saturating_mul(sum.calls));
        }
    }
    all
}

fn of_calls(page: &mut Page, capture: &Capture) {
    let all = sums(capture);
    if all.is_empty() {
        return;
    }
    let rows = || {
        all.iter()
            .map(|((communicator, ranks, function, size), (sum, bytes))| {
                let labels = [
                    ("communicator", communicator.as_str()),
                    ("ranks", ranks.as_str()),
                    ("function", function.as_str()),
                    ("size", *size),
                ];
                (labels, sum, bytes)
            })
    };
    let help = "Calls of all ranks since the start, without those in CUDA graphs. A size is its class's end.";
    page.family("calls", "counter", "", help);
    for (labels, sum, _) in rows() {
        page.sample("_total", &labels, sum.calls);
    }
    page.family(
        "bytes",
        "counter",
        "bytes",
        "Their bytes, as nccl-tests counts them.",
    );
    for (labels, _, bytes) in rows() {
        page.sample("_total", &labels, bytes);
    }
    page.family(
        "gpu_seconds",
        "histogram",
        "seconds",
        "GPU times of those that have one.",
    );
    for (labels, sum, _) in rows() {
        let [communicator, ranks, function, size] = labels;
        let mut below = 0;
        for (bound, n) in BOUNDS_NS.iter().zip(&sum.buckets) {
            below += n;
            let le = (*bound as f64 / 1e9).to_string();
            page.sample(
                "_bucket",
                &[communicator, ranks, function, size, ("le", &le)],
                below,
            );
        }
        let all = &[communicator, ranks, function, size, ("le", "+Inf")];
        page.sample("_bucket", all, sum.timed);
        page.sample("_count", &labels, sum.timed);
        page.sample("_sum", &labels, sum.gpu_ns as f64 / 1e9);
    }
    let help = "How long streams stood still for calls of which that is known.";
    page.family("exposed_seconds", "counter", "seconds", help);
    for (labels, sum, _) in rows().filter(|(_, sum, _)| sum.waited > 0) {
        page.sample("_total", &labels, sum.exposed_ns as f64 / 1e9);
    }
}

fn of_operations(page: &mut Page, now: &Now) {
    let help = "Bus bandwidth of the median operation in the span, of the kind with most GPU time.";
    page.family(
        "bus_bandwidth_bytes_per_second",
        "gauge",
        "bytes_per_second",
        help,
    );
    for of in &now.operations {
        let function = of.function.as_deref().unwrap_or("unknown");
        if let Some(speed) = of.busbw_gb_per_s {
            let labels = [("function", function), ("size", size(of.bytes))];
            page.sample("", &labels, speed * 1e9);
        }
    }
}
