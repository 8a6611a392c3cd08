//! The sections on what ranks do to each other: findings, steps, waiting, clocks.

use super::columns::{ARRIVALS, BUBBLES, CLOCKS, LINKS, PHASE, PROCESS, STEPS};
use super::{marked, Page};
use crate::layout::plural;
use std::fmt::Write as _;

/// Recommendations that are not folded.
const FEW: usize = 3;

impl Page<'_> {
    pub(super) fn findings(&mut self) {
        let findings = &self.report.findings;
        let recommended = &self.report.recommendations;
        if findings.is_empty() && recommended.is_empty() {
            return;
        }
        self.section("findings", "What to do", "");
        if !recommended.is_empty() {
            self.html += "<ol>\n";
            for (index, of) in recommended.iter().enumerate() {
                if index == FEW {
                    let more = plural((recommended.len() - FEW) as u64, "other", "others");
                    let _ = writeln!(
                        self.html,
                        "</ol>\n<details><summary>{more}, which gain less</summary>\n<ol start=\"{}\">",
                        FEW + 1
                    );
                }
                let text = crate::recommendations::sentence(of);
                let _ = writeln!(self.html, "<li>{}</li>", marked(&text));
            }
            self.html += "</ol>\n";
            if recommended.len() > FEW {
                self.html += "</details>\n";
            }
        }
        for (index, finding) in findings.iter().enumerate() {
            // The verdict stands above.
            let title = if self.report.verdict.is_finding(index) {
                "Evidence".to_owned()
            } else {
                format!("Also: {}", crate::findings::sentence(finding))
            };
            let (evidence, list) = crate::findings::evidence_and_list(finding);
            let _ = writeln!(
                self.html,
                "<h3>{}</h3>\n<p>{}</p>",
                marked(&title),
                marked(&evidence)
            );
            if !list.is_empty() {
                let items = list.iter().map(|of| format!("<li>{}</li>\n", marked(of)));
                let _ = writeln!(self.html, "<ul>\n{}</ul>", items.collect::<String>());
            }
        }
        self.end();
    }

    pub(super) fn steps(&mut self) {
        if self.report.steps.is_none() {
            return;
        }
        let about = crate::steps::about(self.report);
        self.section("steps", "Steps", about);
        self.list(&crate::steps::lines(self.report));
        self.table_of("steps.rows", "Steps by rank", &[PROCESS, STEPS], "");
        self.end();
    }

    pub(super) fn phases(&mut self) {
        if self.report.phases.is_empty() {
            return;
        }
        self.section("phases", "Phases", crate::steps::ABOUT_PHASES);
        self.table_of("phases", "Phases", &[PHASE], "");
        self.end();
    }

    pub(super) fn bubbles(&mut self) {
        let Some(streams) = self.report.streams.as_ref() else {
            return;
        };
        if streams.bubbles.is_empty() {
            return;
        }
        self.section("bubbles", "Pipeline bubbles", crate::bubbles::ABOUT);
        self.list(&crate::bubbles::lines(streams));
        self.table_of("streams.bubbles", "Bubbles by rank", &[BUBBLES], "");
        self.end();
    }

    pub(super) fn waiting(&mut self) {
        let Some(arrivals) = &self.report.arrivals else {
            return;
        };
        self.section(
            "waiting",
            "Waiting for the last rank",
            crate::findings::BASIS,
        );
        self.list(&crate::waiting::lines(self.report, false));
        self.table_of(
            "arrivals.ranks",
            "Arrivals by rank",
            &[PROCESS, ARRIVALS],
            "saving_wall_us",
        );
        if !arrivals.links.is_empty() {
            self.table_of(
                "arrivals.links",
                "Links of the network",
                &[PROCESS, LINKS],
                "excess_wall_us",
            );
        }
        self.end();
    }

    pub(super) fn clocks(&mut self) {
        let Some(clocks) = &self.report.clocks else {
            return;
        };
        let about = crate::clocks::about(clocks);
        self.section("clocks", "Clocks of the hosts", &about);
        self.list(&crate::clocks::lines(self.report));
        self.table_of("clocks.hosts", "Clocks by host", &[CLOCKS], "");
        self.end();
    }
}
