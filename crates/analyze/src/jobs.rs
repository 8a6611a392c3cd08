//! The jobs of a folder into which several were recorded, for people. [`tables::jobs`] finds them.

use crate::moments::Zone;
use crate::spelling::ranges;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use tables::jobs::{began, seen};
pub(crate) use tables::jobs::{jobs, world_size};
use tables::Capture;

/// A job of a folder that holds several.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "OneJob")]
pub struct JobRow {
    /// When its first process began, RFC 3339, in the recording's time zone.
    pub started: Option<String>,
    /// The last moment that any of its recorders wrote down.
    pub seen: Option<String>,
    /// Processes with a trace.
    pub nprocesses: usize,
    /// The launcher's ranks that are here, as `0-7`.
    pub ranks: Option<String>,
    /// Ranks that the launcher spoke of.
    pub world_size: Option<u32>,
    /// Hosts by name.
    pub hosts: Vec<String>,
    /// The batch job, if there was one.
    pub batch: Option<String>,
    /// The command of its first process.
    pub command: Option<String>,
    /// Trace files, relative to the capture.
    pub files: Vec<String>,
}

/// The jobs of a folder that holds several; nothing for one.
pub fn rows(capture: &Capture, jobs: &[Vec<usize>]) -> Vec<JobRow> {
    if jobs.len() < 2 {
        return Vec::new();
    }
    let zone = Zone::of(capture);
    let row = |job: &Vec<usize>| {
        let processes = || job.iter().map(|index| &capture.processes[*index]);
        let time = |ns: Option<i64>| zone.rfc3339(ns?);
        let first = processes().min_by_key(|p| began(p));
        let fact = |key: &str| first.and_then(|p| p.fact(key)).map(str::to_owned);
        let ranks: BTreeSet<u32> = processes().filter_map(|p| p.rank).collect();
        let hosts: BTreeSet<&str> = processes().map(|p| p.host.as_str()).collect();
        JobRow {
            started: time(first.and_then(began)),
            seen: time(processes().filter_map(seen).max()),
            nprocesses: job.len(),
            ranks: (!ranks.is_empty()).then(|| ranges(ranks)),
            world_size: processes().filter_map(world_size).max(),
            hosts: hosts.into_iter().map(str::to_owned).collect(),
            batch: fact("job").filter(|job| job != "none"),
            command: fact("command"),
            files: processes().map(|p| p.file.display().to_string()).collect(),
        }
    };
    jobs.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::communicators::Local;
    use tables::Process;

    /// A process of this rank of so many, from second `began` on for a second.
    fn process(rank: Option<u32>, size: u32, began: i64) -> Process {
        let second = 1_000_000_000;
        let mut process = Process {
            rank,
            communicators: vec![Local {
                created_ns: Some(began * second),
                ended_ns: Some((began + 1) * second),
                ..Local::default()
            }],
            ..Process::default()
        };
        let mut fact = |key: &str, value: String| process.facts.insert(key.to_owned(), value);
        fact("started", (began * second).to_string());
        if rank.is_some() {
            fact("world_size", size.to_string());
        }
        process
    }

    #[test]
    fn a_row_says_what_tells_a_job_from_another() {
        let all = vec![
            process(Some(0), 2, 0),
            process(Some(1), 2, 0),
            process(Some(0), 2, 100),
        ];
        let capture = Capture {
            processes: all,
            ..Capture::default()
        };
        let jobs = jobs(&capture);
        let rows = rows(&capture, &jobs);
        assert_eq!(
            (rows.len(), rows[0].nprocesses, rows[0].ranks.as_deref()),
            (2, 2, Some("0-1"))
        );
        assert_eq!(rows[1].started.as_deref(), Some("1970-01-01T00:01:40Z"));
    }
}
