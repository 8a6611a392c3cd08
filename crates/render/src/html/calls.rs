//! Tables of calls: by rank, operation, function, line of the program and communicator.

use super::columns::*;
use super::table::HtmlTable;
use super::Page;
use crate::text::outlier;
use serde_json::Value;
use std::fmt::Write as _;

/// What tables of functions sum.
const SUMS: &[&str] = &[
    "calls",
    "bytes",
    "sum_over_ranks_us",
    "host_sum_over_ranks_us",
];

impl<'a> Page<'a> {
    pub(super) fn ranks(&mut self) {
        let ranks = &self.report.ranks;
        if ranks.rows.is_empty() {
            return;
        }
        self.section(
            "ranks",
            "Ranks",
            "In NCCL is the union of a rank's NCCL intervals, so no moment counts twice. A rank that differs \
             much from the median is named: less time in NCCL than the others means that they wait for it.",
        );
        if ranks.rows.len() > 1 {
            let spreads = [
                ("calls", ranks.calls, 1.0, 0),
                ("in NCCL, ms", ranks.nccl_us, 1e-3, 3),
                ("wall, ms", ranks.wall_us, 1e-3, 3),
                ("share of the run, %", ranks.share, 100.0, 2),
            ];
            self.html += "<div class=\"frame\" tabindex=\"0\" role=\"region\" \
                          aria-label=\"Figures over ranks\"><table aria-label=\"Figures over ranks\">\n\
                          <thead><tr><th scope=\"col\" class=\"t\">over ranks</th><th \
                          scope=\"col\">ranks</th><th scope=\"col\">min</th><th scope=\"col\">median</th><th \
                          scope=\"col\">max</th></tr></thead>\n<tbody>\n";
            for (name, spread, factor, digits) in spreads {
                let Some(s) = spread else { continue };
                let _ = write!(self.html, "<tr><td class=\"t\">{name}</td><td>{}</td>", s.n);
                for value in [s.min, s.median, s.max] {
                    let _ = write!(self.html, "<td>{:.digits$}</td>", value * factor);
                }
                self.html += "</tr>\n";
            }
            self.html += "</tbody></table></div>\n";
        }
        if !ranks.outliers.is_empty() {
            self.html += "<h3>Ranks that differ</h3>\n";
            let line = |of| {
                let (name, how) = outlier(ranks, of);
                format!("{name}: {how}")
            };
            let lines: Vec<String> = ranks.outliers.iter().map(line).collect();
            self.list(&lines);
        }
        self.html += "<h3>All ranks</h3>\n";
        self.table_of("ranks.rows", "All ranks", &[PROCESS, RANK], "");
        self.end();
    }

    pub(super) fn operations(&mut self) {
        self.section("operations", "Operations", "");
        let all = self.elements("operations");
        if all.is_empty() {
            self.html += "<p>No call was recorded.</p>\n";
            return self.end();
        }
        self.html += "<div id=\"plots\" hidden>\n<div class=\"plots\">\n\
                      <figure id=\"by-size\"><figcaption>By size</figcaption></figure>\n\
                      <figure id=\"spread\"><figcaption>How the times of one operation are \
                      spread</figcaption></figure>\n\
                      </div>\n<div id=\"detail\" aria-live=\"polite\"></div>\n</div>\n\
                      <p id=\"without\" class=\"about\">Plots, sorting and filters need JavaScript; every \
                      figure is in the tables.</p>\n";
        let count = |row: &Value, name: &str| field(row, name).and_then(Value::as_u64).unwrap_or(0);
        let (timed, others): (Vec<_>, Vec<_>) = all
            .into_iter()
            // What was a warm-up and nothing else stands under Warm-up.
            .filter(|(_, o)| count(o, "calls") == 0 || count(o, "calls") > count(o, "warmup"))
            .partition(|(_, o)| field(o, "time_us").is_some());
        if !timed.is_empty() {
            self.html += "<h3>By GPU time</h3>\n\
                          <p class=\"about\">Largest sum over ranks first. GPU time is from first start to \
                          last stop on one rank, waiting for peers included. busbw is of the operation's \
                          shortest rank, close to the transfer; call_busbw is of the median call, \
                          waiting included.</p>\n";
            self.table(&HtmlTable {
                from: Some("operations"),
                rows: timed,
                sorted: "time_us.sum",
                sums: &["calls", "timed", "time_us.sum"],
                ..HtmlTable::new("Operations by GPU time", &[OPERATION, GPU_TIME])
            });
        }
        if !others.is_empty() {
            self.html += "<h3>By host time</h3>\n\
                <p class=\"about\">These have no GPU time. Largest sum over ranks first; \
                from API entry to return.</p>\n";
            self.table(&HtmlTable {
                from: Some("operations"),
                rows: others,
                sorted: "host_us.sum",
                sums: &["calls", "host_us.sum"],
                ..HtmlTable::new("Operations by host time", &[OPERATION, HOST_TIME])
            });
        }
        self.end();
    }

    pub(super) fn callers(&mut self) {
        if self.report.callers.is_empty() {
            return;
        }
        self.section(
            "callers",
            "Calls by line of the program",
            "Largest GPU time first; sums are over ranks. The line is the innermost one that is in no \
             library.",
        );
        let rows = self.elements("callers");
        self.table(&HtmlTable {
            from: Some("callers"),
            rows,
            sorted: "sum_over_ranks_us",
            sums: &[
                "calls",
                "bytes",
                "sum_over_ranks_us",
                "host_sum_over_ranks_us",
                "exposed_us",
                "wait_rank_us",
            ],
            ..HtmlTable::new("Calls by line of the program", &[CALLER])
        });
        self.end();
    }

    pub(super) fn communicators(&mut self) {
        self.section("communicators", "Communicators", "By first use.");
        if self.report.communicators.is_empty() {
            self.html += "<p>No communicator was made.</p>\n";
        } else {
            self.table_of("communicators", "Communicators", &[COMMUNICATORS], "");
        }
        self.end();
    }

    pub(super) fn functions(&mut self) {
        if self.report.functions.is_empty() {
            return;
        }
        self.section(
            "functions",
            "Functions",
            "Largest GPU time first; sums are over ranks.",
        );
        let rows = self.elements("functions");
        self.table(&HtmlTable {
            from: Some("functions"),
            rows,
            sorted: "sum_over_ranks_us",
            sums: SUMS,
            ..HtmlTable::new("Functions", &[FUNCTION])
        });
        self.html += "<h3>Parts of one call, by function and size</h3>\n";
        self.table_of("parts", "Parts of one call", &[PARTS], "");
        self.html += "<h3>Collectives against point-to-point</h3>\n";
        let rows = self.elements("kinds");
        self.table(&HtmlTable {
            from: Some("kinds"),
            rows,
            sums: SUMS,
            ..HtmlTable::new("Collectives against point-to-point", &[KIND])
        });
        self.end();
    }

    pub(super) fn warmup(&mut self) {
        if self.report.warmup.is_empty() {
            return;
        }
        self.section(
            "warmup",
            "Warm-up",
            "The first call of each rank on a communicator, when NCCL connects ranks and loads kernels. In \
             `calls` above and in no other figure there. Longest first.",
        );
        self.table_of("warmup", "Warm-up", &[ON_COMMUNICATOR, FIRST_CALLS], "");
        self.end();
    }

    pub(super) fn network(&mut self) {
        if self.report.network.is_empty() {
            return;
        }
        self.section("network", "Network",
            "Most bytes first; waits are summed over steps and channels, so they may exceed the run.");
        self.table_of("network", "Network", &[ON_COMMUNICATOR, NETWORK], "");
        self.end();
    }
}
