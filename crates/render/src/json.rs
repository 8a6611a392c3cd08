//! A report as JSON, in the format of `schema/report-1.json`.

use analyze::Report;
use std::io::Write;

/// The JSON Schema of a report.
pub const SCHEMA: &str = include_str!("../schema/report-1.json");

/// Writes `report`, indented, with a newline at its end.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, out: &mut impl Write) -> std::io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    writeln!(out)
}
