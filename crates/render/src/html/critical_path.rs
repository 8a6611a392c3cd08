//! The critical path in the page: what a step's time consists of, a picture of one step, and the tables.

use super::columns::{PATH_ROW, SEGMENT};
use super::{escaped, Page};
use analyze::critical_path::{CriticalPath, Segment};
use analyze::spelling::time;
use std::fmt::Write as _;

/// Ranks that the picture has a row for.
const MOST_RANKS: usize = 16;
/// Width of the picture, of its names, and heights of a row and of the line below.
const WIDTH: f64 = 900.0;
const NAMES: f64 = 70.0;
const ROW: f64 = 22.0;
const BELOW: f64 = 20.0;

impl Page<'_> {
    pub(super) fn critical_path(&mut self) {
        let Some(path) = &self.report.critical_path else {
            return;
        };
        self.section(
            "critical-path",
            "Critical path of a step",
            "The chain of work and transfers, over all ranks, that the step's time consists of. What is not \
             on it costs the step nothing by itself.",
        );
        for line in crate::critical_path::lines(path) {
            let _ = writeln!(self.html, "<p>{}</p>", escaped(&line));
        }
        self.html += &picture(path);
        self.table_of(
            "critical_path.rows",
            "Critical path over all steps",
            &[PATH_ROW],
            "sum_us",
        );
        let _ = writeln!(
            self.html,
            "<h3>Step {}, the one of median time, in order</h3>",
            path.step.number
        );
        self.table_of(
            "critical_path.step.segments",
            "Critical path of one step",
            &[SEGMENT],
            "",
        );
        if path.step.beyond > 0 {
            let _ = writeln!(
                self.html,
                "<p class=\"about\">… {} segments more.</p>",
                path.step.beyond
            );
        }
        self.end();
    }
}

/// One row for each rank on the path of the step; nothing if these are too many.
fn picture(path: &CriticalPath) -> String {
    let mut ranks: Vec<Option<u32>> = path
        .step
        .segments
        .iter()
        .map(|s| s.on.process.rank)
        .collect();
    ranks.sort_unstable();
    ranks.dedup();
    if ranks.len() > MOST_RANKS || path.step.time_us <= 0.0 {
        return String::new();
    }
    let tall = ROW * ranks.len() as f64 + BELOW;
    let x = |us: f64| NAMES + (WIDTH - NAMES - 10.0) * us / path.step.time_us;
    let y = |of: &Segment| {
        let row = ranks.iter().position(|rank| *rank == of.on.process.rank);
        ROW * row.unwrap_or(0) as f64
    };
    let mut out = format!(
        "<svg class=\"path\" role=\"img\" aria-label=\"Critical path of step {}\" \
         viewBox=\"0 0 {WIDTH} {tall}\">\n",
        path.step.number
    );
    for (at, rank) in ranks.iter().enumerate() {
        let name = rank.map_or("not known".to_owned(), |rank| format!("rank {rank}"));
        let below = ROW * (at as f64 + 0.7);
        let _ = writeln!(out, "<text x=\"0\" y=\"{below:.1}\">{name}</text>");
    }
    let mut before: Option<&Segment> = None;
    for segment in &path.step.segments {
        let (from, to) = (x(segment.at_us), x(segment.at_us + segment.time_us));
        if let Some(before) =
            before.filter(|before| before.on.process.rank != segment.on.process.rank)
        {
            let (a, b) = (y(before) + ROW / 2.0, y(segment) + ROW / 2.0);
            let _ = writeln!(out, "<path d=\"M{from:.1} {a:.1}V{b:.1}\"/>");
        }
        before = Some(segment);
        let _ = writeln!(
            out,
            "<rect class=\"{}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
             <title>{}: {} at {}</title></rect>",
            segment.on.kind,
            y(segment) + 3.0,
            (to - from).max(0.5),
            ROW - 6.0,
            escaped(&crate::critical_path::what(&segment.on)),
            time(segment.time_us),
            time(segment.at_us),
        );
    }
    let _ = write!(
        out,
        "<text x=\"{NAMES}\" y=\"{below:.1}\">0</text>\n\
         <text x=\"{:.1}\" y=\"{below:.1}\" text-anchor=\"end\">{}</text>\n</svg>\n\
         <p class=\"about keys\"><i class=\"work\"></i> work of a rank \
         <i class=\"operation\"></i> transfer of an operation, on the rank that arrived last \
         <i class=\"other_kernel\"></i> other NCCL kernels</p>\n",
        x(path.step.time_us),
        time(path.step.time_us),
        below = tall - 5.0,
    );
    out
}
