//! A report as JSON, in the format of `schema/report-1.json`.

use analyze::Report;
use serde::Serialize;
use std::io::Write;

/// The JSON Schema of a report.
pub const SCHEMA: &str = include_str!("../schema/report-1.json");

/// Writes `report`, indented, with a newline at its end.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, out: &mut impl Write) -> std::io::Result<()> {
    pretty(report, out)
}

/// Writes `value`, indented, with a newline at its end. What a terminal obeys is written by its number; it stands in strings
/// only.
pub(crate) fn pretty(value: &impl Serialize, out: &mut impl Write) -> std::io::Result<()> {
    let json = serde_json::to_string_pretty(value)?;
    let mut rest = json.as_str();
    while let Some(at) = rest.find(|c| c != '\n' && tables::obeyed(c)) {
        let (before, from) = rest.split_at(at);
        let mut after = from.chars();
        let number = after.next().map_or(0, u32::from);
        write!(out, "{before}\\u{number:04x}")?;
        rest = after.as_str();
    }
    writeln!(out, "{rest}")
}

#[cfg(test)]
mod tests {
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
