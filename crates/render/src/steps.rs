//! The steps of the job, as text.

use crate::layout::{Page, Table};
use analyze::spelling::{percent, plural, time, times};
use analyze::statistics::Spread;
use analyze::steps::marked::PhaseRow;
use analyze::steps::{StepSource, Steps, StepsRow};
use analyze::Report;

/// Phases in a report.
const PHASES_SHOWN: usize = 8;

/// How many steps, how long, and what of them was communication.
pub(crate) fn lines(report: &Report) -> Vec<String> {
    let Some(steps) = &report.steps else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    if let (Some(number), Some(calls)) = (steps.steps, steps.calls) {
        let whole = |s: Spread| {
            if s.min == s.max {
                format!("{:.0}", s.max)
            } else {
                format!("{:.0} to {:.0}", s.min, s.max)
            }
        };
        let ranks = match (number.n, steps.without) {
            (1, 0) => "the only rank".to_owned(),
            (n, 0) => format!("each of {n} ranks"),
            (n, without) => format!("{n} ranks, and none on {without} more"),
        };
        let calls = match calls.max {
            1.0 => "1 call".to_owned(),
            _ => format!("{} calls", whole(calls)),
        };
        let times = steps.step_us.map_or(String::new(), |of| {
            let known = |us: Option<f64>| us.map_or("-".to_owned(), time);
            format!(
                "; p50 {}, p95 {}, longest {}",
                known(of.p50),
                known(of.p95),
                known(of.max)
            )
        });
        lines.push(format!(
            "{} steps of {calls} on {ranks}{times}.",
            whole(number)
        ));
    }
    let p50 = steps.step_us.and_then(|time| time.p50);
    lines.extend(steps.reference().into_iter().flat_map(ambiguous));
    lines.extend(differing(steps));
    if let (Some(spread), Some(p50)) = (steps.communication_us, p50) {
        let over = if time(spread.min) == time(spread.max) {
            String::new()
        } else {
            format!("; {} over ranks", times(spread.min, spread.max))
        };
        lines.push(format!(
            "Of a step, {} ({}) is in NCCL kernels on the median rank{over}.",
            time(spread.median),
            percent(spread.median / p50),
        ));
    }
    if let Some(between) = steps.between_us {
        let gaps = (between.max >= 1.0).then(|| time(between.max));
        lines.push(match (steps.startup_us, gaps) {
            (Some(startup), Some(gaps)) => format!(
                "Start-up before step 1: {}; {gaps} between other steps.",
                time(startup.max)
            ),
            (Some(startup), None) => format!(
                "Start-up before step 1: {}; no gaps between steps.",
                time(startup.max)
            ),
            // The first step that is here was not the first of the run.
            (None, Some(gaps)) => format!("{gaps} between steps that do not follow each other."),
            (None, None) => "No gaps between steps.".to_owned(),
        });
    }
    lines
}

/// That a step of the program may be shorter or longer than these.
fn ambiguous(row: &StepsRow) -> Vec<String> {
    let mut lines = Vec::new();
    if row.equal_parts > 1 {
        lines.push(format!(
            "A step of the program may be shorter: these are {} equal patterns of {}.",
            row.equal_parts,
            plural(row.calls / row.equal_parts, "call", "calls"),
        ));
    }
    if row.times_repeat > 1 {
        let mean = row.step_us.as_ref().map(|of| of.mean);
        let together = mean.map_or(String::new(), |us| {
            format!(" ({})", time(us * row.times_repeat as f64))
        });
        lines.push(format!(
            "A step of the program may be longer: their times repeat every {} of these{together}, as \
             micro-batches do, or logging.",
            row.times_repeat,
        ));
    }
    lines
}

/// Which ranks have other steps.
fn differing(steps: &Steps) -> Option<String> {
    let first = steps.rows.get(*steps.unlike.first()?)?;
    let name = |row: &StepsRow| match row.process.rank {
        Some(rank) => format!("rank {rank}"),
        None => format!(
            "process {} on {}",
            tables::pid::shown(row.process.pid),
            row.process.host
        ),
    };
    let more = match steps.unlike.len() - 1 {
        0 => String::new(),
        n => format!(" (and {})", plural(n as u64, "more rank", "more ranks")),
    };
    Some(format!(
        "Ranks do not agree: {}{more} has {} of {}, {} has {}.",
        name(first),
        plural(first.steps, "step", "steps"),
        plural(first.calls, "call", "calls"),
        steps.reference().map_or("another".to_owned(), name),
        steps.reference().map_or(0, |row| row.steps),
    ))
}

fn source(report: &Report) -> StepSource {
    report
        .steps
        .as_ref()
        .map_or(StepSource::Calls, |of| of.source)
}

/// What steps are, as a sentence.
pub(crate) fn about(report: &Report) -> &'static str {
    match source(report) {
        StepSource::Program => "As the program marked them.",
        StepSource::Calls => "Calls that repeat, from the first after their longest pause.",
    }
}

/// What phases are, as a sentence.
pub(crate) const ABOUT_PHASES: &str =
    "Parts of the run that the program marked, the largest median time of a rank first.";

/// Writes them.
pub(crate) fn steps(report: &Report, page: &mut Page) {
    let lines = lines(report);
    if lines.is_empty() {
        return;
    }
    page.title(match source(report) {
        StepSource::Program => "Steps (as the program marked them)",
        StepSource::Calls => "Steps (calls that repeat, from the first after their longest pause)",
    });
    lines.iter().for_each(|line| page.line(line));
}

/// The columns of phases.
const PHASES: [&str; 7] = [
    "phase",
    "ranks",
    "visits",
    "in_phase",
    "longest_stay",
    "by_rank",
    "nccl_%",
];

/// A row of [`PHASES`].
fn phase(row: &PhaseRow) -> [String; 7] {
    let known = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let of = |spread: &Option<Spread>, figure: fn(&Spread) -> f64| spread.as_ref().map(figure);
    let median = |spread: &Option<Spread>| of(spread, |of| of.median);
    let share = median(&row.communication_us).zip(median(&row.time_us));
    [
        row.name.clone(),
        row.time_us.map_or(0, |of| of.n).to_string(),
        known(median(&row.visits).map(|n| format!("{n:.0}"))),
        known(median(&row.time_us).map(time)),
        known(of(&row.time_us, |of| of.max).map(time)),
        known(row.longest_rank.map(|rank| rank.to_string())),
        known(
            share
                .filter(|(_, whole)| *whole > 0.0)
                .map(|(part, whole)| percent(part / whole)),
        ),
    ]
}

/// The phases that the program marked.
pub(crate) fn phases(report: &Report, page: &mut Page) {
    if report.phases.is_empty() {
        return;
    }
    page.title("Phases (as the program marked them, largest median time of a rank first)");
    let mut table = Table::new(PHASES, "<>>>>>>");
    report.phases.iter().for_each(|row| table.row(phase(row)));
    page.table(&table, PHASES_SHOWN, "phases");
}
