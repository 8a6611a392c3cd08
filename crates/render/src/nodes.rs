//! Power, energy, and what the hosts did, as text.

use crate::layout::ROWS;
use crate::layout::{plural, Page, Table};
use analyze::nodes::energy::Energy;
use analyze::nodes::jitter::JitterRow;
use analyze::nodes::threads::ThreadRow;
use analyze::nodes::{Nodes, NotSampled};
use analyze::spelling::{percent, size, three, time};
use analyze::Report;
use schemars::JsonSchema;
use serde::Serialize;

/// Power, energy, CPU time, memory, disks and networks of the job's nodes.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Nodes")]
pub(crate) struct Row<'a> {
    /// Why there are no samples; null if there are some.
    why_none: Option<&'static str>,
    #[serde(flatten)]
    nodes: &'a Nodes,
}

impl Row<'_> {
    pub(crate) fn of(nodes: &Nodes) -> Row<'_> {
        Row {
            why_none: nodes.why_none.map(not_sampled),
            nodes,
        }
    }
}

/// Why no node was sampled.
pub(crate) fn not_sampled(of: NotSampled) -> &'static str {
    match of {
        NotSampled::Off => {
            "no node was sampled: the sampler was off (`run --no-sampler`), or the run was shorter than \
             a second"
        }
        NotSampled::NotRun => {
            "no node was sampled, because the job was not started by `ncclscope run`"
        }
    }
}

/// A thread that calls NCCL and was ready without a CPU for this share of its time is worth a line.
const MUCH: f64 = 0.05;
/// A rank lost this to the scheduler in long calls before they are worth a line, µs.
const MUCH_JITTER_US: f64 = 20_000.0;

/// An amount of energy.
pub(crate) fn joules(value: f64) -> String {
    match value.abs() {
        j if j >= 1e6 => format!("{} MJ", three(value / 1e6)),
        j if j >= 1e3 => format!("{} kJ", three(value / 1e3)),
        _ => format!("{} J", three(value)),
    }
}

fn watts(value: f64) -> String {
    match value.abs() {
        w if w >= 1e4 => format!("{} kW", three(value / 1e3)),
        _ => format!("{value:.0} W"),
    }
}

/// The energy of the run in a sentence or two.
pub(crate) fn energy(energy: &Energy) -> String {
    let mut text = format!(
        "{} on {} in {}, {} on average",
        joules(energy.energy_j),
        plural(energy.gpus, "GPU", "GPUs"),
        time(energy.time_s * 1e6),
        watts(energy.mean_w),
    );
    if let Some(split) = &energy.split {
        let all = split.computing_or_idle_j + split.waiting_j + split.transfer_j;
        if all > 0.0 {
            text += &format!(
                "; by time (an estimate), {} of it in calls that waited, {} in transfers",
                percent(split.waiting_j / all),
                percent(split.transfer_j / all),
            );
        }
    }
    text
}

/// What the power, integrated, says of the counters' energy.
pub(crate) fn energy_check(energy: &Energy) -> Option<String> {
    let (integrated, gap) = energy.integrated_j.zip(energy.gap)?;
    Some(format!(
        "The energy is that of the GPUs' counters. Their power, integrated, gives {} ({:+.1} %).",
        joules(integrated),
        100.0 * gap,
    ))
}

/// The thread that calls NCCL and was kept from a CPU most, if that is much.
pub(crate) fn kept_waiting(nodes: &Nodes) -> Option<String> {
    let callers = nodes.threads.iter().filter(|thread| thread.calls_nccl);
    let most = callers.max_by(|a, b| a.ready.total_cmp(&b.ready))?;
    (most.ready >= MUCH).then(|| {
        format!(
            "{} calls NCCL, and for {} of the time it was ready to run and had no CPU: other programs or \
             threads take them.",
            who(most),
            percent(most.ready)
        )
    })
}

/// The rank that the scheduler kept off a CPU most in its calls, if that was most of their time.
pub(crate) fn jitter(nodes: &Nodes) -> Option<String> {
    let lost = |row: &JitterRow| row.long_us * row.preempted.unwrap_or(0.0);
    let most = (nodes.jitter.iter()).max_by(|a, b| lost(a).total_cmp(&lost(b)))?;
    let share = most.preempted.filter(|share| *share >= 0.5)?;
    let rank = most
        .process
        .rank
        .map_or(format!("process {}", most.process.pid), |rank| {
            format!("rank {rank}")
        });
    (lost(most) >= MUCH_JITTER_US).then(|| {
        format!(
            "{} of {rank} took longer than 50 µs on the host, {} in all: for {}{} of that time the \
             scheduler ran other threads on its CPU. Pin the ranks' threads to CPUs of their own, or start \
             fewer threads.",
            plural(most.long, "call", "calls"),
            time(most.long_us),
            if most.source == "switches" { "" } else { "up to " },
            percent(share),
        )
    })
}

/// GPUs that gave no figures any more at some time.
pub(crate) fn lost(nodes: &Nodes) -> Option<String> {
    let mut lost = (nodes.gpus.iter()).filter_map(|gpu| Some((gpu, gpu.lost_after_s?)));
    let (gpu, after) = lost.next()?;
    let more = match lost.count() {
        0 => String::new(),
        n => format!(" So did {} more.", plural(n as u64, "GPU", "GPUs")),
    };
    Some(format!(
        "GPU {} of {} gave no figures any more {} after sampling began: it fell off its bus, or the driver \
         failed. The kernel's log says so (`dmesg`, Xid 79).{more}",
        gpu.uuid,
        gpu.host,
        time(after * 1e6),
    ))
}

fn who(thread: &ThreadRow) -> String {
    match thread.process.rank {
        Some(rank) => format!("Thread `{}` of rank {rank}", thread.name),
        None => format!("Thread `{}` of process {}", thread.name, thread.process.pid),
    }
}

fn show(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

fn bytes(value: Option<u64>) -> String {
    value.map_or("-".to_owned(), size)
}

/// Writes what was sampled, on the page of `--all`. The job's section has the line on energy.
pub(crate) fn nodes(report: &Report, page: &mut Page) {
    let nodes = &report.nodes;
    let lines: Vec<String> = [lost(nodes), kept_waiting(nodes), jitter(nodes)]
        .into_iter()
        .flatten()
        .collect();
    if !lines.is_empty() {
        page.title("Hosts");
        lines.iter().for_each(|line| page.line(line));
    }
    if !page.all {
        return;
    }
    if let Some(why) = nodes.why_none {
        page.title("Power and hosts");
        page.line(&format!("Not known: {}.", not_sampled(why)));
        return;
    }
    if let Some(energy) = &nodes.energy {
        phases(energy, page);
    }
    gpus(nodes, page);
    hosts(nodes, page);
    threads(nodes, page);
    long_calls(nodes, page);
}

fn phases(energy: &Energy, page: &mut Page) {
    page.title("Energy by phase (in order; all GPUs together)");
    let mut table = Table::new(["phase", "time", "energy", "mean power"], "<>>>");
    for phase in &energy.phases {
        table.row([
            phase.phase.to_owned(),
            time(phase.time_s * 1e6),
            joules(phase.energy_j),
            watts(phase.mean_w),
        ]);
    }
    page.table(&table, ROWS, "phases");
    if let Some(step) = &energy.step {
        let spread = step.each_j.map_or(String::new(), |of| {
            format!(", from {} to {}", joules(of.min), joules(of.max))
        });
        page.line(&format!(
            "A step takes {} on average of {}{spread}.",
            joules(step.mean_j),
            plural(step.steps, "step", "steps")
        ));
    }
    if let Some(split) = &energy.split {
        let per_gb = split.transfer_j_per_gb.map_or(String::new(), |j| {
            format!(", {} for each GB of calls", joules(j))
        });
        page.line(&format!(
            "By shares of the time, an estimate: {} while no call ran, {} in calls that waited, {} in \
             transfers{per_gb}.",
            joules(split.computing_or_idle_j),
            joules(split.waiting_j),
            joules(split.transfer_j),
        ));
    }
    if let Some(line) = energy_check(energy) {
        page.line(&line);
    }
}

fn gpus(nodes: &Nodes, page: &mut Page) {
    if nodes.gpus.is_empty() {
        return;
    }
    page.title("GPUs that were sampled (in the order of NVML; MHz, °C)");
    let names = [
        "host",
        "uuid",
        "energy",
        "mean power",
        "max power",
        "sm_mhz",
        "throttled",
        "hottest",
        "busy",
    ];
    let mut table = Table::new(names, "<<>>>>>>>");
    table.squeeze = &["busy", "hottest", "max power", "host"];
    for gpu in &nodes.gpus {
        let most = gpu.throttled.iter().max_by(|a, b| a.1.total_cmp(b.1));
        table.row([
            gpu.host.clone(),
            gpu.uuid.chars().take(12).collect(),
            gpu.counter_j
                .or(gpu.integrated_j)
                .map_or("-".to_owned(), joules),
            gpu.mean_w.map_or("-".to_owned(), watts),
            gpu.max_w.map_or("-".to_owned(), watts),
            show(gpu.sm_mhz, 0),
            most.map_or("-".to_owned(), |(why, share)| {
                format!("{} {}", percent(*share), why.name())
            }),
            gpu.temperature_c.map_or("-".to_owned(), |c| c.to_string()),
            gpu.busy.map_or("-".to_owned(), percent),
        ]);
    }
    page.table(&table, ROWS, "GPUs");
}

fn hosts(nodes: &Nodes, page: &mut Page) {
    page.title("Hosts (by name; CPUs on average, memory at most)");
    let names = [
        "host",
        "cpus",
        "busy cpus",
        "job cpus",
        "ready",
        "memory",
        "read",
        "written",
        "sent",
        "sampler",
    ];
    let mut table = Table::new(names, "<>>>>>>>>>");
    table.squeeze = &["written", "read", "sent", "memory", "sampler"];
    for row in &nodes.rows {
        let sent = match (row.net_sent_bytes, row.ib_sent_bytes) {
            (None, None) => None,
            (net, ib) => Some(net.unwrap_or(0).saturating_add(ib.unwrap_or(0))),
        };
        table.row([
            row.host.clone(),
            row.cpus.map_or("-".to_owned(), |cpus| cpus.to_string()),
            show(row.cpus_busy, 1),
            show(row.job_cpus_busy, 1),
            show(row.job_threads_ready, 2),
            bytes(row.memory_bytes),
            bytes(row.disk_read_bytes),
            bytes(row.disk_written_bytes),
            bytes(sent),
            row.sampler_share
                .map_or("-".to_owned(), |share| format!("{:.2} %", 100.0 * share)),
        ]);
    }
    page.table(&table, ROWS, "hosts");
    for row in &nodes.rows {
        if let Some(why) = &row.why_no_gpu {
            page.line(&format!(
                "{}: power and energy are not known, because {why}.",
                row.host
            ));
        }
    }
}

fn threads(nodes: &Nodes, page: &mut Page) {
    if nodes.threads.is_empty() {
        return;
    }
    page.title("Threads of the job (by rank, those that call NCCL first; shares of the time)");
    let names = [
        "rank",
        "pid",
        "thread",
        "calls NCCL",
        "ran",
        "ready",
        "disk",
        "blocked",
    ];
    let mut table = Table::new(names, ">><<>>>>");
    table.squeeze = &["pid"];
    for thread in &nodes.threads {
        table.row([
            thread
                .process
                .rank
                .map_or("-".to_owned(), |rank| rank.to_string()),
            thread.process.pid.to_string(),
            thread.name.clone(),
            if thread.calls_nccl { "yes" } else { "no" }.to_owned(),
            percent(thread.running),
            percent(thread.ready),
            percent(thread.in_io),
            percent(thread.blocked),
        ]);
    }
    page.table(&table, ROWS, "threads");
}

fn long_calls(nodes: &Nodes, page: &mut Page) {
    if nodes.jitter.is_empty() {
        return;
    }
    page.title("Calls that took the host longer than 50 µs (by rank; shares of their time)");
    let names = [
        "rank",
        "pid",
        "tid",
        "calls",
        "long calls",
        "time",
        "longest",
        "preempted",
        "asleep",
        "ran",
    ];
    let mut table = Table::new(names, ">>>>>>>>>>");
    table.squeeze = &["pid", "tid", "asleep"];
    let share = |share: Option<f64>| share.map_or("-".to_owned(), percent);
    for row in &nodes.jitter {
        table.row([
            row.process
                .rank
                .map_or("-".to_owned(), |rank| rank.to_string()),
            row.process.pid.to_string(),
            row.tid.to_string(),
            row.calls.to_string(),
            row.long.to_string(),
            time(row.long_us),
            time(row.longest_us),
            share(row.preempted),
            share(row.asleep),
            share(row.running),
        ]);
    }
    page.table(&table, ROWS, "threads");
    if nodes.jitter.iter().any(|row| row.source == "schedstat") {
        page.line(
            "The kernel gave no records of context switches for some threads. Their share `preempted` comes \
             from counters at ticks, and is an upper limit.",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use analyze::subject::ProcessId;

    #[test]
    fn energy_is_spelled_with_three_digits() {
        let spelled = [12.34, 35_412.0, 7.2e6].map(joules);
        assert_eq!(spelled, ["12.3 J", "35.4 kJ", "7.20 MJ"]);
        assert_eq!(watts(1103.4), "1103 W");
    }

    #[test]
    fn only_time_that_the_scheduler_took_is_worth_a_line() {
        let row = |long_us, preempted| JitterRow {
            process: ProcessId {
                rank: Some(2),
                host: "node".to_owned(),
                pid: 7,
            },

            tid: 7,
            source: "switches",
            calls: 900,
            long: 40,
            long_us,
            longest_us: 4_000.0,
            preempted: Some(preempted),
            asleep: Some(0.0),
            running: Some(1.0 - preempted),
        };
        let of = |jitter| {
            super::jitter(&Nodes {
                jitter,
                ..Nodes::default()
            })
        };
        assert_eq!(of(vec![row(90_000.0, 0.2), row(1_000.0, 0.9)]), None);
        let line = of(vec![row(1_000.0, 0.9), row(90_000.0, 0.97)]).expect("a line");
        assert!(
            line.starts_with(
                "40 calls of rank 2 took longer than 50 µs on the host, 90.0 ms in all: for 97"
            ),
            "{line}"
        );
    }

    #[test]
    fn only_a_thread_that_calls_nccl_and_lacks_a_cpu_is_named() {
        let thread = |calls_nccl, ready| ThreadRow {
            process: ProcessId {
                rank: Some(2),
                host: "node".to_owned(),
                pid: 7,
            },

            tid: 7,
            name: "python".to_owned(),
            calls_nccl,
            time_s: 10.0,
            running: 0.5,
            ready,
            in_io: 0.0,
            blocked: 0.5 - ready,
        };
        let of = |threads| {
            kept_waiting(&Nodes {
                threads,
                ..Nodes::default()
            })
        };
        assert_eq!(of(vec![thread(true, 0.01), thread(false, 0.4)]), None);
        let line = of(vec![thread(true, 0.01), thread(true, 0.4)]).expect("a line");
        assert!(
            line.starts_with("Thread `python` of rank 2 calls NCCL, and for 40"),
            "{line}"
        );
    }
}
