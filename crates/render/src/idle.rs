//! What hosts did while their GPUs were idle, as text.

use crate::layout::ROWS;
use crate::layout::{Page, Table};
use analyze::spelling::{percent, time};
use analyze::streams::idle::IdleCauses;
use analyze::streams::{RankStreams, Streams};
use analyze::Report;

/// A GPU that is idle for this share of the time is worth a line.
const MUCH: f64 = 0.1;
/// A cause with less of the time is left out of it.
const LEAST: f64 = 0.01;

/// The GPU that was idle for longest of those of which causes are known, if that is long.
pub(crate) fn line(streams: &Streams) -> Option<String> {
    let known = streams
        .ranks
        .iter()
        .filter(|rank| rank.idle_causes.is_some());
    let rank = known.max_by(|a, b| a.idle.share.total_cmp(&b.idle.share))?;
    let causes = rank.idle_causes.filter(|_| rank.idle.share >= MUCH)?;
    let mut parts = [
        (causes.mpi, "was in MPI"),
        (causes.program, "ran the program"),
        (causes.driver, "ran in CUDA's driver"),
        (causes.preempted, "was ready and had no CPU"),
        (causes.disk, "waited for a disk"),
        (causes.blocked, "was blocked"),
    ];
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let parts = parts.iter().filter(|(share, _)| *share >= LEAST);
    let parts: Vec<String> = parts
        .map(|(share, what)| format!("{what} ({})", percent(*share)))
        .collect();
    let step = causes.step_us.map_or(String::new(), |step| {
        format!(", {} of each step", time(rank.idle.share * step))
    });
    (!parts.is_empty()).then(|| {
        format!(
            "The GPU of {} was idle for {} of the time{step}. Meanwhile, the thread that launches on it {}.",
            rank.process.rank.map_or(
                format!("process {}", tables::pid::shown(rank.process.pid)),
                |rank| format!("rank {rank}"),
            ),
            percent(rank.idle.share),
            parts.join(", "),
        )
    })
}

/// Writes what hosts did, below what the GPUs did.
pub(crate) fn idle(report: &Report, page: &mut Page) {
    let Some(streams) = &report.streams else {
        return;
    };
    let known: Vec<(&RankStreams, IdleCauses)> = (streams.ranks.iter())
        .filter_map(|rank| Some((rank, rank.idle_causes?)))
        .collect();
    let line = line(streams);
    if known.is_empty() || line.is_none() && !page.all {
        return;
    }
    page.title("What hosts did while their GPUs were idle");
    if let Some(line) = line {
        page.line(&line);
    }
    if !page.all {
        return;
    }
    page.title(
        "Idle time by cause (% of the time in kernel windows; step and idle/step: mean time)",
    );
    let names = [
        "rank",
        "step",
        "idle/step",
        "idle",
        "mpi",
        "program",
        "driver",
        "preempted",
        "disk",
        "blocked",
        "unknown",
    ];
    let mut table = Table::new(names, ">>>>>>>>>>>");
    table.squeeze = &["unknown", "step", "idle/step"];
    let of_step =
        |step: Option<f64>, share: f64| step.map_or("-".to_owned(), |step| time(step * share));
    let share = |share: f64| format!("{:.1}", 100.0 * share);
    for (rank, causes) in &known {
        table.row([
            rank.process
                .rank
                .map_or("-".to_owned(), |rank| rank.to_string()),
            of_step(causes.step_us, 1.0),
            of_step(causes.step_us, rank.idle.share),
            share(rank.idle.share),
            share(causes.mpi),
            share(causes.program),
            share(causes.driver),
            share(causes.preempted),
            share(causes.disk),
            share(causes.blocked),
            share(causes.unknown),
        ]);
    }
    page.table(&table, ROWS, "ranks");
    if known.iter().any(|(_, causes)| causes.source == "schedstat") {
        page.line(
            "Of some hosts, the kernel gave no records of context switches. Their causes come from \
             counters at ticks, and are estimates.",
        );
    }
}
