//! Start-up in the page: the critical path of the slowest communicator's init over all ranks, and the start
//! of the process where that took longest as a tree.
//!
//! Rule: the tree has all of its parts, or says how many the page has no room for. Those that are a small
//! share of the whole are folded.

use super::{escaped, marked, Page};
use crate::startup::tree::{nodes, remarks, who, Node};
use crate::startup::{millis, named, sentence};
use analyze::spelling::{percent, time};
use analyze::startup::Whole;
use setup::startup::{CommunicatorStartup, Leg};
use std::fmt::Write as _;

/// Ranks that the picture has a row for.
const MOST_RANKS: usize = 16;
/// Width of the picture, of its names, and heights of a row and of the line below.
const WIDTH: f64 = 900.0;
const NAMES: f64 = 70.0;
const ROW: f64 = 22.0;
const BELOW: f64 = 20.0;

/// Parts of the tree with this share of the whole are unfolded.
const UNFOLDED: f64 = 0.1;

/// The slowest communicator, if its phases are known.
fn slowest(report: &analyze::Report) -> Option<&CommunicatorStartup> {
    let slowest = report.startup.communicators.first()?;
    (slowest.critical_path_s > 0.0).then_some(slowest)
}

/// What the section says.
pub(super) fn result(report: &analyze::Report) -> Option<String> {
    sentence(&report.startup).or_else(|| {
        let whole = report.startup.whole.as_ref()?;
        Some(format!(
            "{} took longest: {}",
            analyze::spelling::capital(who(whole)),
            time(1e6 * whole.total_s)
        ))
    })
}

impl Page<'_> {
    pub(super) fn start_up(&mut self) {
        let (slowest, whole) = (slowest(self.report), self.report.startup.whole.as_ref());
        if slowest.is_none() && whole.is_none() {
            return;
        }
        self.section(
            "start-up",
            "Start-up",
            "From the start of the processes to their first calls. `ncclscope startup` has every rank, and \
             `ncclscope startup --json` gives the figures to programs.",
        );
        if let Some(slowest) = slowest {
            self.init(slowest);
        }
        if let Some(whole) = whole {
            self.start_of(whole);
        }
        self.end();
    }

    /// The critical path of the slowest init.
    fn init(&mut self, slowest: &CommunicatorStartup) {
        self.html += "<h3>Critical path of the slowest init</h3>\n<p class=\"about\">In each phase of NCCL's \
                      init, the rank that the others waited for.</p>\n";
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
    }

    /// The start of one process as a tree.
    fn start_of(&mut self, whole: &Whole) {
        let _ = writeln!(
            self.html,
            "<h3>Start of {}, where it took longest</h3>\n<p class=\"about\">In its order, with shares of \
             the whole.</p>\n<div class=\"tree\">\n<div class=\"head\"><span>part</span>\
             <span>time, s</span><span>share</span></div>",
            escaped(&who(whole))
        );
        for node in nodes(whole) {
            self.node(&node);
        }
        let _ = writeln!(
            self.html,
            "<div class=\"leaf whole\">{}</div>\n</div>",
            cells("total", whole.total_s, 1.0)
        );
        for remark in remarks(whole) {
            let _ = writeln!(self.html, "<p class=\"about\">{}</p>", marked(&remark));
        }
    }

    fn node(&mut self, node: &Node) {
        let line = cells(&node.name, node.time_s, node.share);
        if node.below.is_empty() {
            let _ = writeln!(self.html, "<div class=\"leaf\">{line}</div>");
            return;
        }
        let open = if node.share >= UNFOLDED { " open" } else { "" };
        let _ = writeln!(self.html, "<details{open}>\n<summary>{line}</summary>");
        for below in node.below.iter().take(self.rows) {
            self.node(below);
        }
        if let Some(more) = node.below.get(self.rows..).filter(|more| !more.is_empty()) {
            let time_s: f64 = more.iter().map(|node| node.time_s).sum();
            let share: f64 = more.iter().map(|node| node.share).sum();
            let name = format!("{} more (`ncclscope startup --all`)", more.len());
            let _ = writeln!(
                self.html,
                "<div class=\"leaf\">{}</div>",
                cells(&name, time_s, share)
            );
        }
        self.html += "</details>\n";
    }
}

/// A line of the tree.
fn cells(name: &str, time_s: f64, share: f64) -> String {
    format!(
        "<span>{}</span><span>{}</span><span>{}</span><svg viewBox=\"0 0 100 1\" \
         preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect width=\"{:.1}\" height=\"1\"/></svg>",
        marked(name),
        millis(time_s),
        percent(share),
        (100.0 * share).clamp(0.0, 100.0)
    )
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
