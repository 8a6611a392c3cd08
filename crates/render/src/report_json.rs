//! A report as JSON, in the format of `schema/report-1.json`.

use crate::recommendations::{self, RecommendationRow};
use crate::{clocks, completeness, critical_path, findings, notes, settings, verdict};
use analyze::job::ProblemRow;
use analyze::Report;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;

/// The JSON Schema of a report.
pub const SCHEMA: &str = include_str!("../schema/report-1.json");

/// A report with the words of its findings, as JSON has it.
#[derive(Serialize, JsonSchema)]
pub struct ReportJson<'a> {
    schema: &'static str,
    /// What matters most, in one sentence.
    verdict: String,
    #[serde(flatten)]
    report: Report,
    /// How the hosts' clocks stand to each other; null for one host. docs/concepts/clocks.md says what the
    /// words mean.
    clocks: Option<clocks::Row<'a>>,
    /// What the figures mean here, and what can't be seen.
    notes: Vec<String>,
    /// What was wrong with files that were read.
    problems: &'a [ProblemRow],
    /// What is wrong, the costliest first.
    findings: Vec<findings::Row>,
    /// What to change, what saves most first.
    recommendations: Vec<RecommendationRow>,
    /// Whether the recording is complete, and what the figures are of.
    summary: String,
    /// What to run next.
    next: String,
}

/// The report with the sentences inside of it: what to do about calls that are not here, which settings took
/// effect, what the critical path rests on, and how ranks died.
fn with_words(report: &Report) -> Report {
    let mut all = report.clone();
    let remedies = completeness::remedies(&report.completeness).into_iter();
    let remedies = remedies.map(|(cause, text)| (cause.to_owned(), text.to_owned()));
    all.completeness.remedies = remedies.collect();
    for row in &mut all.settings {
        (row.why, row.summary) = (settings::why(row), settings::summary(row));
    }
    if let Some(path) = &mut all.critical_path {
        path.basis = critical_path::BASIS;
    }
    let marks = all.timeline.iter_mut().flat_map(|of| &mut of.marks);
    for (mark, death) in marks.zip(&report.deaths) {
        mark.text = findings::died(death);
    }
    all
}

fn whole(report: &Report) -> ReportJson<'_> {
    ReportJson {
        schema: report.schema,
        verdict: verdict::sentence(report),
        report: with_words(report),
        clocks: report.clocks.as_ref().map(clocks::Row::of),
        notes: notes::sentences(report),
        problems: &report.problems,
        findings: findings::rows(report),
        recommendations: recommendations::rows(report),
        summary: verdict::summary(&report.summary),
        next: verdict::next(report),
    }
}

/// Writes `report`, indented, with a newline at its end.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, out: &mut impl Write) -> std::io::Result<()> {
    crate::json::pretty(&whole(report), out)
}

/// The same as a value.
///
/// # Errors
/// Never, as long as the names of all objects are texts.
pub fn value(report: &Report) -> serde_json::Result<serde_json::Value> {
    serde_json::to_value(whole(report))
}
