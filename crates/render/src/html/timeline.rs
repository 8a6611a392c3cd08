//! The section on the run over time, which `html/report/over_time.js` draws.

use super::Page;
use analyze::timeline::Buckets;
use analyze::Report;
use serde_json::{json, Value};

pub(super) const STYLE: &str = include_str!("../../html/timeline.css");

impl Page<'_> {
    pub(super) fn timeline(&mut self) {
        let Some(timeline) = &self.report.timeline else {
            return;
        };
        let without = match timeline.without_time {
            0 => String::new(),
            1 => "1 call without any time is in no curve.".to_owned(),
            n => format!(
                "{n} calls without any time, such as those in CUDA graphs, are in no curve."
            ),
        };
        self.section("timeline", "The run over time", &without);
        self.html += "<figure id=\"over-time\" hidden></figure>\n\
             <p id=\"over-time-without\">Curves need JavaScript. \
             The JSON report has them as <code>timeline</code>.</p>\n";
        self.end();
    }
}

/// In which buckets rows of tables have calls, for the script.
pub(super) fn active(report: &Report) -> Value {
    let hex = |all: &[Buckets]| all.iter().map(hex).collect::<Vec<_>>();
    report.timeline.as_ref().map_or(Value::Null, |timeline| {
        json!({
            "operations": hex(&timeline.active.operations),
            "ranks": hex(&timeline.active.ranks),
        })
    })
}

/// The buckets as a hexadecimal number, the first bucket's bit the lowest.
fn hex(buckets: &Buckets) -> String {
    let digits: String = buckets
        .iter()
        .rev()
        .map(|of| format!("{of:016x}"))
        .collect();
    digits.trim_start_matches('0').to_owned()
}
