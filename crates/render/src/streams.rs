//! What the GPUs did in kernel windows, as text.

use crate::layout::{plural, wrap, Table};
use analyze::streams::{RankStreams, Share, Streams};
use analyze::summary::range_of_shares;
use analyze::Report;
use std::io::{Result, Write};

/// Kernels that are shown if they are asked for.
const KERNELS: usize = 40;
/// Width of a kernel's name.
const NAME: usize = 60;

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

/// A share with half of its interval's width.
fn with_error(share: &Share) -> String {
    let error = share.interval.map_or(String::new(), |(low, high)| {
        format!("±{:.1}", 50.0 * (high - low))
    });
    percent(share.share) + &error
}

/// Sentences about all ranks.
pub(crate) fn lines(streams: &Streams) -> Vec<String> {
    let mut lines = Vec::new();
    let range = |pick: fn(&RankStreams) -> f64| range_of_shares(streams.ranks.iter().map(pick));
    if let Some(exposed) = range(|rank| rank.exposed.share) {
        let waiting = range(|rank| rank.exposed_waiting.share).filter(|_| streams.operations > 0);
        let of_it = waiting.map_or(String::new(), |waiting| {
            format!("; {waiting} of the time it waited for other ranks")
        });
        lines.push(format!(
            "Exposed communication, beside which a GPU computed nothing: {exposed} of the time{of_it}."
        ));
    }
    let slowed = streams
        .ranks
        .iter()
        .filter_map(|rank| rank.interference.zip(rank.interference_share));
    if let Some((ratio, cost)) = slowed.max_by(|a, b| a.1.total_cmp(&b.1)) {
        lines.push(format!(
            "Kernels beside communication take up to {} % longer than the same without, which is {} % of the time in windows.",
            percent(ratio),
            percent(cost)
        ));
    }
    for other in &streams.other_communication {
        lines.push(format!(
            "{} communicates beside NCCL: {}, {:.3} ms in windows. Its calls are in no other table.",
            other.library,
            plural(other.kernels, "kernel", "kernels"),
            other.sum_us / 1e3
        ));
    }
    if streams.yielded > 0 {
        lines.push(format!(
            "{} not opened, because another profiler used CUPTI.",
            plural(streams.yielded, "window was", "windows were")
        ));
    }
    for (cause, n) in &streams.without {
        let why = match *cause {
            "no_cupti" => "CUPTI was not found; it comes with torch and with the CUDA toolkit",
            "another_tool" => "a tool was in the process that can't share CUPTI (Nsight, compute-sanitizer, XLA's profiler)",
            "host_bound" => {
                "CUPTI would have slowed the job by more than NCCLSCOPE_BUDGET, because the GPU waits for its host \
                 (NCCLSCOPE_WINDOWS=on records kernels all the same)"
            }
            "cupti_error" => "CUPTI returned an error (doctor names it)",
            _ => "of a cause that is not known here",
        };
        let processes = plural(*n, "process has", "processes have");
        lines.push(format!("{processes} no kernel windows: {why}."));
    }
    lines
}

/// Writes what GPUs did, for the first `shown` ranks.
pub(crate) fn streams(report: &Report, shown: usize, out: &mut impl Write) -> Result<()> {
    let Some(streams) = &report.streams else {
        return Ok(());
    };
    if streams.ranks.is_empty() {
        writeln!(out, "\nWhat the GPUs did")?;
    } else {
        writeln!(
            out,
            "\nWhat the GPUs did (% of the time in kernel windows ± 95 %; compute: alone; both: beside communication; exposed: only \
             communication)"
        )?;
        let names = [
            "rank", "compute", "both", "exposed", "waiting", "copies", "idle", "windows", "seen_ms",
        ];
        let mut table = Table::new(names, ">>>>>>>>>");
        for rank in &streams.ranks {
            let waiting = match streams.operations {
                0 => "-".to_owned(),
                _ => with_error(&rank.exposed_waiting),
            };
            table.row([
                name(streams, rank),
                with_error(&rank.computing),
                with_error(&rank.beside),
                with_error(&rank.exposed),
                waiting,
                percent(rank.copies.share),
                with_error(&rank.idle),
                rank.windows.to_string(),
                format!("{:.0}", rank.seen_us / 1e3),
            ]);
        }
        table.write(out, shown, "ranks")?;
    }
    let lines = lines(streams);
    lines
        .iter()
        .try_for_each(|line| wrap(out, "  ", "    ", line))
}

/// A rank's name; with its GPU, if its process drives several.
fn name(streams: &Streams, rank: &RankStreams) -> String {
    let same = |other: &&RankStreams| (&other.host, other.pid) == (&rank.host, rank.pid);
    let several = streams.ranks.iter().filter(same).count() > 1;
    match (rank.rank, several) {
        (Some(number), true) => format!("{number}/{}", rank.device),
        (Some(number), false) => number.to_string(),
        (None, _) => format!("pid {}", rank.pid),
    }
}

/// Writes the kernels by name.
pub(crate) fn kernels(report: &Report, all: bool, out: &mut impl Write) -> Result<()> {
    let Some(streams) = report.streams.as_ref().filter(|s| !s.kernels.is_empty()) else {
        return writeln!(
            out,
            "\nKernels\n  none: the capture has no kernel windows (docs/concepts/streams.md says when there are some)"
        );
    };
    writeln!(
        out,
        "\nKernels in windows (largest time first; over all ranks; %: of the time that windows show; beside: communication ran at the same \
         time)"
    )?;
    let mut table = Table::new(
        [
            "kernel", "kind", "kernels", "ms", "mean_us", "%", "beside_%",
        ],
        "<<>>>>>",
    );
    for kernel in &streams.kernels {
        let cut: String = kernel.name.chars().take(NAME).collect();
        let name = if cut.len() < kernel.name.len() {
            cut + "…"
        } else {
            cut
        };
        table.row([
            name,
            kernel.kind.to_owned(),
            kernel.kernels.to_string(),
            format!("{:.3}", kernel.sum_us / 1e3),
            format!("{:.2}", kernel.sum_us / kernel.kernels.max(1) as f64),
            percent(kernel.share),
            percent(kernel.beside_us / kernel.sum_us.max(f64::MIN_POSITIVE)),
        ]);
    }
    table.write(out, if all { usize::MAX } else { KERNELS }, "kernels")
}
