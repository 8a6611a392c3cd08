//! Sections that are folded, each with one sentence that says its result, so that most readers need not open
//! it. The list of them is the page's navigation.

use super::Page;
use crate::completeness::{counted, missing};
use crate::layout::plural;
use analyze::spelling::{percent, time};
use analyze::Report;
use std::fmt::Write as _;

/// Sections that are open: what everybody asks. The account has a row for each rank, and the first picture
/// shows it.
const OPEN: [&str; 2] = ["findings", "timeline"];

impl Page<'_> {
    /// Begins a section, which the caller ends: open or folded.
    pub(super) fn section(&mut self, id: &str, title: &str, about: &str) {
        self.is_folded = !OPEN.contains(&id);
        let _ = if self.is_folded {
            writeln!(
            self.html,
            "<details class=\"fold\" id=\"{id}\">\n<summary><h2>{title}</h2><span>{}</span></summary>",
            super::escaped(&result(self.report, id))
        )
        } else {
            writeln!(self.html, "<section id=\"{id}\">\n<h2>{title}</h2>")
        };
        if !about.is_empty() {
            let _ = writeln!(self.html, "<p class=\"about\">{}</p>", super::marked(about));
        }
    }

    pub(super) fn end(&mut self) {
        self.html += if self.is_folded {
            "</details>\n"
        } else {
            "</section>\n"
        };
    }
}

/// What a section says, in one sentence; nothing if its title is enough.
fn result(report: &Report, id: &str) -> String {
    result_of(report, id).unwrap_or_default()
}

fn result_of(report: &Report, id: &str) -> Option<String> {
    let n = |n: usize, one: &str, many: &str| Some(plural(n as u64, one, many));
    match id {
        "account" => {
            let account = report.account.as_ref()?;
            let said = crate::account::efficiencies(account);
            Some(said.unwrap_or_else(|| plural(account.steps, "step", "steps")))
        }
        "lanes" => Some("every call of every rank over time, to zoom in".to_owned()),
        "job" => {
            let job = &report.job;
            let mut parts = vec![plural(job.nprocesses as u64, "process", "processes")];
            parts.extend(match job.hosts.as_slice() {
                [] => None,
                [one] => Some(format!("on {one}")),
                all => Some(format!("on {} hosts", all.len())),
            });
            parts.extend(job.nccl.first().map(|version| format!("NCCL {version}")));
            Some(parts.join(", "))
        }
        "completeness" => {
            let c = &report.completeness;
            Some(missing(c).into_iter().next().unwrap_or_else(|| counted(c)))
        }
        "topology" => n(report.topologies.len(), "host", "hosts"),
        "start-up" => super::startup::result(report),
        "steps" => {
            let steps = report.steps.as_ref()?;
            let times = steps.step_us.as_ref()?;
            let (p50, p95) = (times.p50?, times.p95?);
            let all = steps.steps.map_or(String::new(), |all| {
                format!("{}: ", plural(all.median.round() as u64, "step", "steps"))
            });
            Some(format!(
                "{all}p50 {}, p95 {}, longest {}",
                time(p50),
                time(p95),
                time(times.max?)
            ))
        }
        "phases" => n(report.phases.len(), "phase", "phases"),
        "critical-path" => {
            let path = report.critical_path.as_ref()?;
            crate::critical_path::lines(path).into_iter().next()
        }
        "ranks" => {
            let share = report.ranks.share?;
            Some(format!(
                "in NCCL for {} to {} of the time",
                percent(share.min),
                percent(share.max)
            ))
        }
        "operations" => Some(crate::verdict::summary(&report.summary)),
        "models" => n(super::models::of(report).len(), "model", "models"),
        "callers" => n(report.callers.len(), "line", "lines"),
        "graphs" => n(report.graphs.len(), "kind of graph", "kinds of graphs"),
        "streams" => {
            let ranks = &report.streams.as_ref()?.ranks;
            let seen = ranks.iter().map(|rank| rank.seen_us);
            let most = seen.fold(0.0, f64::max);
            let ranks = plural(ranks.len() as u64, "GPU", "GPUs");
            Some(if most > 0.0 {
                format!("kernel windows of {ranks}, up to {} each", time(most))
            } else {
                "no kernel windows".to_owned()
            })
        }
        "stream-waits" => Some("exposed communication, by streams that stood still".to_owned()),
        "driver-calls" => Some("what NCCL and the program asked the CUDA driver for".to_owned()),
        "mpi" => Some("how long threads were inside of MPI".to_owned()),
        "bubbles" => n(report.streams.as_ref()?.bubbles.len(), "stage", "stages"),
        "waiting" => {
            let ranks = &report.arrivals.as_ref()?.ranks;
            // The first of equals.
            let last = ranks.iter().rev().max_by_key(|rank| rank.last)?;
            Some(format!(
                "rank {} came last in {} of {} operations",
                last.process
                    .rank
                    .map_or("?".to_owned(), |rank| rank.to_string()),
                last.last,
                last.operations
            ))
        }
        "clocks" => n(report.clocks.as_ref()?.hosts.len(), "host", "hosts"),
        "hosts" => {
            let energy = report.nodes.energy.as_ref()?;
            Some(format!("energy: {}", crate::nodes::energy(energy)))
        }
        "settings" => n(report.settings.len(), "setting", "settings"),
        "communicators" => n(report.communicators.len(), "communicator", "communicators"),
        "functions" => n(report.functions.len(), "function", "functions"),
        "warmup" => n(report.warmup.len(), "first call", "first calls"),
        "network" => n(
            report.network.len(),
            "kind of transfer",
            "kinds of transfers",
        ),
        "notes" => report.notes.first().map(crate::notes::sentence),
        "problems" => n(report.problems.len(), "problem", "problems"),
        "definitions" => Some("transfer, wait, work, busbw and other words".to_owned()),
        _ => None,
    }
}
