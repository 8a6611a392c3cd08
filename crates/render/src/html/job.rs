//! What the job was, and how much of it was recorded.

use super::columns::{CAUSE, COMPLETENESS, PROBLEM, PROCESS};
use super::table::HtmlTable;
use super::Page;
use crate::completeness::{counted, in_launches, missing, remedies};
use crate::escape::escaped;
use crate::layout::plural;
use crate::text::{attempts, begun, counts};
use analyze::moments::spelled;
use serde_json::{json, Value};
use std::fmt::Write as _;

impl<'a> Page<'a> {
    pub(super) fn job(&mut self) {
        let job = &self.report.job;
        self.section("job", "Job", "");
        let some = |list: &[String]| match list {
            [] => "not known".to_owned(),
            list => list.join(", "),
        };
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "not known".to_owned());
        let mut ranks = plural(job.nprocesses as u64, "process", "processes");
        if let Some(size) = job.world_size {
            ranks += &format!(" of {}", plural(size.into(), "rank", "ranks"));
        }
        if let Some(restarts) = job.restarts.filter(|n| *n > 0) {
            ranks += &format!(", {}", plural(restarts.into(), "restart", "restarts"));
        }
        let run = match (&job.started, &job.ended) {
            (Some(started), Some(ended)) => {
                format!("{} to {}", begun(job, started), spelled(ended, 0))
            }
            (Some(started), None) => {
                format!("since {}; its end was not recorded", begun(job, started))
            }
            _ => "not known when".to_owned(),
        };
        let mut facts = vec![
            ("command".to_owned(), known(&job.command)),
            ("job".to_owned(), ranks),
            ("hosts".to_owned(), some(&job.hosts)),
            ("NCCL".to_owned(), some(&job.nccl)),
            ("GPU".to_owned(), some(&job.gpu)),
            ("driver".to_owned(), some(&job.driver)),
            ("run".to_owned(), run),
            (
                "recorded".to_owned(),
                format!("mode {}, timing {}", some(&job.mode), some(&job.timing)),
            ),
        ];
        if let Some(text) = attempts(job) {
            facts.push(("attempt".to_owned(), text));
        }
        if let Some(part) = &job.part {
            facts.push(("part of the run".to_owned(), part.clone()));
        }
        if let Some(id) = &job.id {
            facts.push(("id".to_owned(), id.clone()));
        }
        for (name, values) in &job.environment {
            let values: Vec<&str> = values
                .iter()
                .map(|v| v.as_deref().unwrap_or("(not set)"))
                .collect();
            facts.push((name.clone(), values.join(" or ")));
        }
        self.html += "<dl class=\"facts\">\n";
        for (name, value) in facts {
            let _ = writeln!(
                self.html,
                "<dt>{}</dt><dd>{}</dd>",
                escaped(&name),
                escaped(&value)
            );
        }
        self.html += "</dl>\n";
        self.end();
    }

    pub(super) fn completeness(&mut self) {
        let c = &self.report.completeness;
        self.section("completeness", "What was recorded", "");
        self.recorded();
        for sentence in missing(c) {
            let _ = writeln!(self.html, "<p class=\"bad\">{}</p>", escaped(&sentence));
        }
        let sound = if c.adds_up {
            ""
        } else {
            " The figures do not add up, please report it."
        };
        let _ = writeln!(self.html, "<p>{}{sound}</p>", counted(c));
        if let Some(sentence) = in_launches(c) {
            let _ = writeln!(self.html, "<p>{sentence}</p>");
        }
        if let Some(cost) = &self.report.cost {
            let _ = writeln!(
                self.html,
                "<p>{}</p>",
                escaped(&crate::cost::sentence(cost))
            );
        }
        if !c.odd.is_empty() {
            let _ = writeln!(
                self.html,
                "<p>Callbacks without effect: {}.</p>",
                escaped(&counts(&c.odd))
            );
        }
        let remedies = remedies(c);
        let remedy = |cause: &String| remedies.get(cause.as_str());
        let lost = c.lost.iter().map(|(cause, n)| {
            json!({"calls": n, "what": "lost", "cause": cause,
            "remedy": remedy(cause)})
        });
        let untimed = c.untimed.iter().map(|(cause, n)| {
            json!({"calls": n, "what": "not timed", "cause": cause,
            "remedy": remedy(cause)})
        });
        let unseen = c.unseen.iter().map(|(cause, n)| {
            json!({"calls": n, "what": "not counted", "cause": cause,
            "remedy": remedy(cause)})
        });
        let mut causes: Vec<Value> = lost.chain(unseen).chain(untimed).collect();
        // What is lost stands first.
        causes.sort_by_key(|row| {
            (
                row["what"] == "not timed",
                std::cmp::Reverse(row["calls"].as_u64()),
            )
        });
        if !causes.is_empty() {
            self.table(&HtmlTable {
                rows: causes.iter().enumerate().collect(),
                ..HtmlTable::new("Calls that were lost or not timed", &[CAUSE])
            });
        }
        if !c.ranks.is_empty() {
            self.html += "<h3>Processes that are not complete, or differ otherwise</h3>\n";
            self.table_of(
                "completeness.ranks",
                "Completeness by process",
                &[PROCESS, COMPLETENESS],
                "",
            );
        }
        self.end();
    }

    pub(super) fn problems(&mut self) {
        if self.report.problems.is_empty() {
            return;
        }
        self.section("problems", "Problems", "What was unsound in the capture.");
        self.table_of("problems", "Problems", &[PROBLEM], "");
        self.end();
    }
}
