//! The sentence that a report ends with, and the command that helps most after it.
//!
//! Rule: the sentence is about what took most time, by the best clock there is; the command can be typed as it stands.

use crate::operations::Operation;
use crate::statistics::Statistics;
use crate::warmup::WarmupRow;
use crate::Report;

/// A size as users say it, where that is exact.
pub fn size(bytes: u64) -> String {
    let units = [
        (1u64 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    match units
        .into_iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit))
    {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} B"),
    }
}

/// The sentence.
pub fn summary(operations: &[Operation], warmup: &[WarmupRow]) -> String {
    let of = |pick: fn(&Operation) -> &Option<Statistics>| {
        let sum: f64 = operations
            .iter()
            .filter_map(|o| pick(o).as_ref())
            .map(|t| t.sum)
            .sum();
        // The first of equals, which stands first in the table.
        let worst = operations.iter().rev().max_by(|a, b| {
            let sum = |o: &&Operation| pick(o).as_ref().map_or(0.0, |t| t.sum);
            sum(a).total_cmp(&sum(b))
        })?;
        Some((worst, (*pick(worst))?, sum))
    };
    let (what, found) = match of(|o| &o.time_us) {
        Some(found) => ("GPU time", Some(found)),
        None => ("host time", of(|o| &o.host_us)),
    };
    let Some((worst, time, whole)) = found else {
        let first = |w: &WarmupRow| w.time_us.is_some() || w.host_us.is_some();
        return if warmup.iter().any(first) {
            "Only first calls have a time; they are under Warm-up.".to_owned()
        } else {
            "No call has a time.".to_owned()
        };
    };
    let function = worst.function.as_deref().unwrap_or("An unnamed function");
    let bytes = worst.bytes.map_or("unknown size".to_owned(), size);
    let percent = if whole > 0.0 {
        100.0 * time.sum / whole
    } else {
        0.0
    };
    let sum = if time.sum < 1e6 {
        format!("{:.3} ms", time.sum / 1e3)
    } else {
        format!("{:.3} s", time.sum / 1e6)
    };
    let calls = if time.n == 1 { "call" } else { "calls" };
    format!(
        "{function} of {bytes} took {percent:.0} % of the {what} in NCCL: {sum} over ranks in {} {calls}.",
        time.n
    )
}

/// The command that helps most.
pub fn next(report: &Report) -> String {
    let folder = &report.job.capture;
    let command = report
        .job
        .command
        .as_deref()
        .filter(|c| c.len() < 60)
        .unwrap_or("…");
    let lost = &report.completeness.lost;
    if report.completeness.collectable {
        format!("ncclscope collect {folder}")
    } else if !report.deaths.is_empty() {
        format!("ncclscope hang {folder}")
    } else if !report.completeness.absent.is_empty() {
        format!("ncclscope doctor {folder}")
    } else if lost.contains_key("rows_full") || lost.contains_key("totals_full") {
        format!("NCCLSCOPE_MEMORY=64M ncclscope run -- {command}")
    } else if report.completeness.timed == 0
        && report.job.timing.iter().any(|t| t == "host")
        && report.times_exist
    {
        format!("NCCLSCOPE_TIMING=auto ncclscope run -- {command}")
    } else {
        let name = std::path::Path::new(folder).file_name();
        let name = name.map_or("capture".into(), |name| name.to_string_lossy());
        format!("ncclscope export {folder} --to perfetto -o {name}.pftrace")
    }
}
