//! The verdict that a report begins with, the sentence that it ends with, and the command that helps most after it.
//!
//! Rule: the verdict answers whether communication is the job's problem, and whose fault that is. What makes it doubtful
//! comes first: a rank that died, calls that are not here. The last sentence is about what took most time, by the best clock there is;
//! the command can be typed as it stands.

use crate::completeness::NOT_COUNTED;
use crate::operations::Operation;
use crate::statistics::Statistics;
use crate::streams::Streams;
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
    let calls = if worst.calls == 1 { "call" } else { "calls" };
    // The table has as many calls, and says which are left out of its sums.
    let of_them = match (time.n == worst.calls, what) {
        (true, _) => String::new(),
        (false, "GPU time") => format!(" ({} timed, first calls apart)", time.n),
        (false, _) => format!(" ({} in the sum)", time.n),
    };
    format!(
        "{function} of {bytes} took {percent:.0} % of the {what} in NCCL: {sum} over ranks in {} {calls}{of_them}.",
        worst.calls
    )
}

/// That most of the communication is not NCCL's, if it is so in windows.
fn beside_nccl(streams: &Streams) -> Option<String> {
    let others = &streams.other_communication;
    let kernels: u64 = others.iter().map(|other| other.kernels).sum();
    let nccl: u64 = streams.communication.iter().map(|of| of.kernels).sum();
    if kernels <= nccl {
        return None;
    }
    let most = others.iter().max_by_key(|other| other.kernels)?;
    let more = if others.len() > 1 { " and others" } else { "" };
    Some(format!(
        "Most of this job's communication is not NCCL's: {kernels} kernels in windows are of {}{more}, and \
         {nccl} are NCCL's.",
        most.library
    ))
}

/// The verdict: what matters most about this job, in one sentence or two.
pub fn verdict(report: &Report) -> String {
    let of_nccl = of_nccl(report);
    let ended = !report.deaths.is_empty() || report.sightings.iter().any(|s| s.still_holds());
    match report.streams.as_ref().and_then(beside_nccl) {
        Some(beside) if ended => format!("{of_nccl} {beside}"),
        Some(beside) => format!("{beside} {of_nccl}"),
        None => of_nccl,
    }
}

/// The verdict on what NCCL did.
fn of_nccl(report: &Report) -> String {
    if let Some(death) = report.deaths.first() {
        return death.sentence();
    }
    if let Some(seen) = report
        .sightings
        .iter()
        .rev()
        .find(|seen| seen.still_holds())
    {
        return seen.sentence();
    }
    let c = &report.completeness;
    if let Some(missing) = c.missing().into_iter().next() {
        return format!("Not all of this job is here. {missing}");
    }
    if let Some(lost) = c.not_here() {
        return format!("Not all of this job is here. {lost}");
    }
    if !c.unseen.is_empty() {
        return NOT_COUNTED.to_owned();
    }
    if let Some(finding) = report.findings.first() {
        return finding.sentence.clone();
    }
    let measured = report.streams.as_ref().is_some_and(Streams::tells_who);
    let nobody = match measured || report.arrivals.is_some() {
        true => "No rank holds the others up by as much as can be proved. ",
        false => "",
    };
    match (exposed(report), report.ranks.share) {
        (Some((exposed, from)), _) => {
            let from = from.map_or(String::new(), |from| format!(", by {from}"));
            format!("{nobody}Communication stops the computing for {exposed} of the time{from}.")
        }
        (None, Some(_)) => format!(
            "{nobody}How much of its time NCCL stops the computing is not known: there are no kernel windows."
        ),
        (None, None) => summary(&report.operations, &report.warmup),
    }
}

/// The share of exposed communication over ranks, for people, and from what it is if not from kernel windows. `None`
/// without windows and stream waits.
pub fn exposed(report: &Report) -> Option<(String, Option<&'static str>)> {
    let windows = report.streams.iter().flat_map(|streams| &streams.ranks);
    let by_windows = range_of_shares(windows.map(|rank| rank.exposed.share));
    by_windows.map(|range| (range, None)).or_else(|| {
        let waits = report.stream_waits.as_ref().filter(|w| w.tells())?;
        let range = range_of_shares(waits.shares().flatten())?;
        Some((range, Some("stream waits")))
    })
}

/// Shares from the lowest to the highest, for people; `None` of none.
pub fn range_of_shares(shares: impl Iterator<Item = f64>) -> Option<String> {
    let mut shares: Vec<f64> = shares.collect();
    shares.sort_by(f64::total_cmp);
    let percent = |share: &f64| format!("{:.1}", 100.0 * share);
    let (low, high) = (percent(shares.first()?), percent(shares.last()?));
    Some(match low == high {
        true => format!("{low} %"),
        false => format!("{low} to {high} %"),
    })
}

/// The few figures that belong to it.
pub fn figures(report: &Report) -> Vec<String> {
    let ms = |us: f64| match us {
        us if us >= 999.5 => format!("{:.1} ms", us / 1e3),
        us => format!("{us:.0} µs"),
    };
    let mut figures = Vec::new();
    let step = report.steps.as_ref().and_then(|steps| steps.step_us?.p50);
    figures.extend(step.map(|us| format!("step {}", ms(us))));
    match (exposed(report), report.ranks.share) {
        (Some((exposed, from)), _) => {
            let by = from.map_or(String::new(), |from| format!(", by {from}"));
            figures.push(format!("exposed communication {exposed} of the time{by}"));
        }
        (None, Some(share)) => {
            let percent = 100.0 * share.median;
            figures.push(format!("in NCCL {percent:.1} % of the run (median rank)"));
        }
        (None, None) => {}
    }
    let most = report
        .operations
        .iter()
        .find(|o| o.busbw_gb_per_s.is_some());
    figures.extend(most.and_then(|operation| {
        let busbw = operation.busbw_gb_per_s?;
        let function = operation.function.as_deref()?;
        Some(format!(
            "{function} of {} at {busbw:.1} GB/s (busbw)",
            size(operation.bytes?)
        ))
    }));
    figures
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
    } else if !report.completeness.absent.is_empty() || report.completeness.not_here().is_some() {
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
