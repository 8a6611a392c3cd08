//! Start-up in the page: the critical path of the slowest communicator's init over all ranks.

use super::{escaped, Page};
use crate::startup::{named, sentence};
use analyze::spelling::{percent, time};
use setup::startup::{CommunicatorStartup, Leg};
use std::fmt::Write as _;

/// Ranks that the picture has a row for.
const MOST_RANKS: usize = 16;
/// Width of the picture, of its names, and heights of a row and of the line below.
const WIDTH: f64 = 900.0;
const NAMES: f64 = 70.0;
const ROW: f64 = 22.0;
const BELOW: f64 = 20.0;

/// The slowest communicator, if its phases are known.
pub(super) fn slowest(report: &analyze::Report) -> Option<&CommunicatorStartup> {
    let slowest = report.startup.communicators.first()?;
    (slowest.critical_path_s > 0.0).then_some(slowest)
}

impl Page<'_> {
    pub(super) fn start_up(&mut self) {
        let Some(slowest) = slowest(self.report) else {
            return;
        };
        self.section(
            "start-up",
            "Start-up",
            "The critical path of making the slowest communicator, over all ranks: in each phase of NCCL's \
             init, the rank that the others waited for. `ncclscope startup` has every rank.",
        );
        if let Some(sentence) = sentence(&self.report.startup) {
            let _ = writeln!(self.html, "<p>{}</p>", escaped(&sentence));
        }
        let legs: Vec<&Leg> = slowest
            .critical_path
            .iter()
            .filter(|leg| leg.time_s > 0.0)
            .collect();
        self.html += &picture(&legs, slowest.critical_path_s);
        self.html += "<ol class=\"legs\">\n";
        for leg in legs {
            let _ = writeln!(
                self.html,
                "<li>{} ({}): {} on rank {}</li>",
                time(1e6 * leg.time_s),
                percent(leg.time_s / slowest.critical_path_s),
                escaped(named(leg.phase)),
                leg.rank
            );
        }
        self.html += "</ol>\n";
        self.end();
    }
}

/// One row for each rank on the path; nothing if these are too many.
fn picture(legs: &[&Leg], whole_s: f64) -> String {
    let mut ranks: Vec<u32> = legs.iter().map(|leg| leg.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    if ranks.len() > MOST_RANKS {
        return String::new();
    }
    let tall = ROW * ranks.len() as f64 + BELOW;
    let x = |s: f64| NAMES + (WIDTH - NAMES - 10.0) * s / whole_s;
    let mut out = format!(
        "<svg class=\"path\" role=\"img\" aria-label=\"Critical path of start-up\" \
         viewBox=\"0 0 {WIDTH} {tall}\">\n"
    );
    for (at, rank) in ranks.iter().enumerate() {
        let below = ROW * (at as f64 + 0.7);
        let _ = writeln!(out, "<text x=\"0\" y=\"{below:.1}\">rank {rank}</text>");
    }
    let (mut at_s, mut before): (f64, Option<f64>) = (0.0, None);
    for leg in legs {
        let row = ranks.iter().position(|rank| *rank == leg.rank);
        let y = ROW * row.unwrap_or(0) as f64;
        let (from, to) = (x(at_s), x(at_s + leg.time_s));
        if let Some(before) = before.filter(|before| *before != y) {
            let (a, b) = (before + ROW / 2.0, y + ROW / 2.0);
            let _ = writeln!(out, "<path d=\"M{from:.1} {a:.1}V{b:.1}\"/>");
        }
        let _ = writeln!(
            out,
            "<rect class=\"work\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
             <title>{}: {} at {}</title></rect>",
            y + 3.0,
            (to - from - 1.0).max(0.5),
            ROW - 6.0,
            escaped(leg.phase),
            time(1e6 * leg.time_s),
            time(1e6 * at_s),
        );
        at_s += leg.time_s;
        before = Some(y);
    }
    let _ = write!(
        out,
        "<text x=\"{NAMES}\" y=\"{below:.1}\">0</text>\n\
         <text x=\"{:.1}\" y=\"{below:.1}\" text-anchor=\"end\">{}</text>\n</svg>\n",
        x(whole_s),
        time(1e6 * whole_s),
        below = tall - 5.0,
    );
    out
}
