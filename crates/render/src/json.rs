//! A report as JSON, in the format of `schema/report-1.json`.

use crate::{clocks, findings, notes, verdict};
use analyze::job::ProblemRow;
use analyze::Report;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write;

/// The JSON Schema of a report.
pub const SCHEMA: &str = include_str!("../schema/report-1.json");

/// A report with the words of its findings, as JSON has it.
#[derive(Serialize)]
struct Whole<'a> {
    schema: &'static str,
    verdict: String,
    #[serde(flatten)]
    report: Cow<'a, Report>,
    clocks: Option<clocks::Row<'a>>,
    notes: Vec<String>,
    problems: &'a [ProblemRow],
    findings: Vec<findings::Row>,
    recommendations: Vec<findings::RecommendationRow>,
    summary: String,
    next: String,
}

/// The report with the sentences that its timeline has for deaths.
fn with_words(report: &Report) -> Cow<'_, Report> {
    let mut report = Cow::Borrowed(report);
    let timeline = report.timeline.as_ref();
    if timeline.is_some_and(|timeline| !timeline.marks.is_empty()) {
        let all = report.to_mut();
        let marks = all.timeline.iter_mut().flat_map(|of| &mut of.marks);
        for (mark, death) in marks.zip(&all.deaths) {
            mark.text = findings::died(death);
        }
    }
    report
}

fn whole(report: &Report) -> Whole<'_> {
    Whole {
        schema: report.schema,
        verdict: verdict::sentence(report),
        report: with_words(report),
        clocks: report.clocks.as_ref().map(clocks::Row::of),
        notes: notes::sentences(report),
        problems: &report.problems,
        findings: findings::rows(report),
        recommendations: findings::recommendations(report),
        summary: verdict::summary(&report.summary),
        next: verdict::next(report),
    }
}

/// Writes `report`, indented, with a newline at its end.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, out: &mut impl Write) -> std::io::Result<()> {
    pretty(&whole(report), out)
}

/// The same as a value.
///
/// # Errors
/// Never, as long as the names of all objects are texts.
pub fn value(report: &Report) -> serde_json::Result<serde_json::Value> {
    serde_json::to_value(whole(report))
}

/// Writes `value`, indented, with a newline at its end, and numbers of an array on one line. What a terminal
/// obeys is written by its number; it stands in strings only.
pub(crate) fn pretty(value: &impl Serialize, out: &mut impl Write) -> std::io::Result<()> {
    let json = in_lines(&serde_json::to_string_pretty(value)?);
    writeln!(out, "{}", printable(&json))
}

/// JSON without what a terminal obeys, which stands in strings only: it is written by its number.
pub fn printable(json: &str) -> Cow<'_, str> {
    let is_obeyed = |c: char| c != '\n' && tables::obeyed(c);
    let mut rest = json;
    let mut out = String::new();
    while let Some(at) = rest.find(is_obeyed) {
        let (before, from) = rest.split_at(at);
        let mut after = from.chars();
        let number = after.next().map_or(0, u32::from);
        let _ = write!(out, "{before}\\u{number:04x}");
        rest = after.as_str();
    }
    if out.is_empty() {
        return json.into();
    }
    (out + rest).into()
}

/// `json`, which is indented, with numbers of an array on one line: curves would be thousands of lines.
fn in_lines(json: &str) -> String {
    let is_of_numbers = |c: char| c.is_ascii_digit() || " \n,.+-eEnul".contains(c);
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    // A line of a string never ends in a bracket that opens: a quote follows.
    while let Some((before, after)) = rest.split_once("[\n") {
        out.push_str(before);
        out.push('[');
        let numbers = after.find(']').map(|end| after.split_at(end));
        rest =
            match numbers.filter(|(numbers, _)| numbers.chars().all(is_of_numbers)) {
                Some((numbers, after)) => {
                    out.extend(numbers.split_whitespace().flat_map(
                        |n| match n.strip_suffix(',') {
                            Some(n) => [n, ", "],
                            None => [n, ""],
                        },
                    ));
                    after
                }
                None => {
                    out.push('\n');
                    after
                }
            };
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_of_an_array_share_a_line() {
        let value = serde_json::json!({
            "a": [1, -2.5e-7, null], "b": [[0], ["x", 1]], "c": [], "d": ["[\n1\n]"], "e": [true],
        });
        let mut out = Vec::new();
        super::pretty(&value, &mut out).expect("in memory");
        let text = String::from_utf8(out).expect("text");
        assert!(text.contains("\"a\": [1, -2.5e-7, null],\n"), "{text}");
        assert!(
            text.contains("[0],\n    [\n      \"x\",\n      1\n    ]\n"),
            "{text}"
        );
        let read: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read, value);
    }

    #[test]
    fn what_a_terminal_obeys_is_written_by_its_number() {
        let name = "a\u{1b}[31m\u{7f}\u{9b}\u{202e}\t\u{e9}";
        let mut out = Vec::new();
        super::pretty(&[name], &mut out).expect("in memory");
        let text = String::from_utf8(out).expect("text");
        assert!(text.chars().all(|c| c == '\n' || !tables::obeyed(c)));
        let read: Vec<String> = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read, [name]);
        assert!(text.contains('\u{e9}'));
    }
}
