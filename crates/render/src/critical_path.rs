//! The critical path of a step, as text.

use crate::layout::{short_ids, Page, Table, Unit};
use analyze::critical_path::{CriticalPath, On, PathRow, PathStep, Segment};
use analyze::spelling::{percent, size, three, time};
use analyze::Report;
use schemars::JsonSchema;
use serde::Serialize;

/// What a path rests on.
pub(crate) const BASIS: &str =
    "GPU times of matched operations, and who arrived last at each. An operation counts as ended on all of \
     its ranks at once. Clocks are not compared.";

/// The critical path, and what it rests on, as JSON has it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CriticalPath")]
pub(crate) struct Row<'a> {
    /// What the path rests on.
    basis: &'static str,
    #[serde(flatten)]
    path: &'a CriticalPath,
    /// What it consists of, largest first.
    rows: Vec<PathRowJson<'a>>,
    /// The step of median time.
    step: StepJson<'a>,
}

/// Segments of one kind, over all steps.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PathRow")]
struct PathRowJson<'a> {
    /// Work of a rank, or the transfer of an operation, for people: `work before AllReduce 8 MiB`.
    what: String,
    #[serde(flatten)]
    row: &'a PathRow,
}

/// The path of one step.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PathStep")]
struct StepJson<'a> {
    #[serde(flatten)]
    step: &'a PathStep,
    /// In order; they sum to the step's time.
    segments: Vec<SegmentJson<'a>>,
    /// Segments after these, which are left out.
    beyond: u64,
}

/// A segment of the path.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PathSegment")]
struct SegmentJson<'a> {
    /// Work of a rank, or the transfer of an operation, for people: `work before AllReduce 8 MiB`.
    what: String,
    #[serde(flatten)]
    segment: &'a Segment,
}

impl Row<'_> {
    pub(crate) fn of(path: &CriticalPath) -> Row<'_> {
        fn row(row: &PathRow) -> PathRowJson<'_> {
            PathRowJson {
                what: what(&row.on),
                row,
            }
        }
        fn segment(segment: &Segment) -> SegmentJson<'_> {
            SegmentJson {
                what: what(&segment.on),
                segment,
            }
        }
        Row {
            basis: BASIS,
            path,
            rows: path.rows.iter().map(row).collect(),
            step: StepJson {
                step: &path.step,
                segments: path.step.segments.iter().map(segment).collect(),
                beyond: path.step.beyond,
            },
        }
    }
}

/// What a segment is: `work before AllReduce 8 MiB`.
pub(crate) fn what(of: &On) -> String {
    let operation = match (&of.function, of.bytes) {
        (Some(function), Some(bytes)) => format!("{function} {}", size(bytes)),
        (Some(function), None) => function.clone(),
        _ => "an operation".to_owned(),
    };
    match of.kind {
        "operation" => operation,
        "work" => format!("work before {operation}"),
        _ => format!("other NCCL kernel before {operation}"),
    }
}

/// Why work ended when it did.
pub(crate) fn why(word: &str) -> &'static str {
    match word {
        "launch" => "launched then",
        _ => "GPU was busy",
    }
}

/// How much of a step is what.
fn shares(of: &CriticalPath) -> String {
    format!(
        "Of a step's time, {} is work of ranks, {} is transfer of operations{}.",
        percent(of.share("work")),
        percent(of.share("operation")),
        match of.share("other_kernel") {
            none if none < 0.0005 => String::new(),
            share => format!(", and {} is in other NCCL kernels", percent(share)),
        },
    )
}

/// A segment and who it is.
fn segment(of: &On) -> String {
    let rank = of
        .process
        .rank
        .map_or("a rank that is not known".to_owned(), |r| {
            format!("rank {r}")
        });
    match of.kind {
        "operation" => format!("the transfer of {}, which {rank} joined last", what(of)),
        _ => format!("{} on {rank}", what(of)),
    }
}

/// The largest part of a step, after "the".
fn largest(of: &CriticalPath) -> Option<String> {
    let first = of.rows.first()?;
    Some(format!(
        "largest part is {}: {} of a step.",
        segment(&first.on),
        percent(first.share)
    ))
}

/// The path in one line.
fn line(of: &CriticalPath) -> String {
    let largest = largest(of).map_or(String::new(), |largest| format!("the {largest}"));
    format!("Critical path: {largest} (--all)")
}

/// What the steps' time consists of, in sentences.
pub(crate) fn lines(of: &CriticalPath) -> Vec<String> {
    let mut lines = vec![format!(
        "{} Steps take {} on average over {} steps in which every call was timed.",
        shares(of),
        time(of.mean_us()),
        of.steps,
    )];
    lines.extend(largest(of).map(|largest| format!("The {largest}")));
    lines.extend(of.worker().map(|(rank, share)| {
        format!(
            "Rank {rank} does {} of the work on the path, so a faster rank {rank} shortens the step.",
            percent(share)
        )
    }));
    lines
}

/// Writes one line below the section on steps: what a step's time consists of. With `--all`, writes a section
/// with each part, and the segments of one step.
pub(crate) fn critical_path(report: &Report, page: &mut Page) {
    let Some(path) = &report.critical_path else {
        return;
    };
    if !page.all {
        // Below the lines on steps: there are some, if there is a path.
        page.line(&line(path));
        return;
    }
    let short = short_ids(report);
    let communicator = |on: &On| {
        let id = on.communicator.as_deref();
        let id = id.filter(|_| report.communicators.len() > 1);
        id.map_or("-".to_owned(), |id| short[id].clone())
    };
    let rank = |on: &On| {
        on.process
            .rank
            .map_or("-".to_owned(), |rank| rank.to_string())
    };
    let why = |on: &On| on.why.map_or("-", why).to_owned();
    let steps = path.steps as f64;
    let unit = Unit::of(path.rows.iter().map(|row| row.sum_us / steps));
    page.title(&format!(
        "Critical path of a step (largest part first, time per step in {})",
        unit.name
    ));
    lines(path).iter().for_each(|line| page.line(line));
    let mut table = Table::new(
        ["segment", "comm", "why", "rank", "time", "%", "segments"],
        "<<<>>>>",
    );
    table.squeeze = &["comm", "why"];
    for row in &path.rows {
        table.row([
            what(&row.on),
            communicator(&row.on),
            why(&row.on),
            rank(&row.on),
            unit.show(Some(row.sum_us / steps)),
            three(100.0 * row.share),
            three(row.count as f64 / steps),
        ]);
    }
    page.table(&table, usize::MAX, "segments");
    let step = &path.step;
    let unit = Unit::of(std::iter::once(step.time_us));
    page.line(&format!(
        "Step {}, the one of median time ({} {}), in order:",
        step.number,
        unit.show(Some(step.time_us)),
        unit.name
    ));
    let mut table = Table::new(["at", "time", "rank", "segment", "comm", "why"], ">>><<<");
    table.squeeze = &["comm", "why"];
    for segment in &step.segments {
        table.row([
            unit.show(Some(segment.at_us)),
            unit.show(Some(segment.time_us)),
            rank(&segment.on),
            what(&segment.on),
            communicator(&segment.on),
            why(&segment.on),
        ]);
    }
    page.table(&table, usize::MAX, "segments");
    if step.beyond > 0 {
        page.line(&format!("… {} segments more", step.beyond));
    }
}
