//! Which processes of a folder are of one job, and which of another that was recorded into the same folder.
//!
//! Processes that share a communicator are of one job. Groups of processes that share none are put together
//! unless something shows that they are not of one job. Such signs are the same rank of the launcher in both,
//! different batch jobs, or different numbers of ranks. If ranks are not known, it is a sign that one ended
//! before the other began.
//!
//! Rule: two jobs are never taken for one because their figures fit together. Programs that a rank runs one
//! after the other count as two jobs.

use crate::moments::Zone;
use crate::spelling::ranges;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tables::{Capture, Process};

/// Clocks of two hosts, and a launcher and its processes, may be so far apart, ns.
const APART: i64 = 2_000_000_000;

/// A job of a folder that holds several.
#[derive(Clone, Debug, PartialEq, Serialize)]
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

/// What is known of some processes together.
#[derive(Default)]
struct Group {
    processes: Vec<usize>,
    /// With the number of the restart.
    ranks: BTreeSet<(u32, u32)>,
    /// Some process has no rank.
    rankless: bool,
    batches: BTreeSet<String>,
    sizes: BTreeMap<u32, u32>,
    began: Option<i64>,
    seen: Option<i64>,
}

impl Group {
    fn add(&mut self, index: usize, process: &Process) {
        self.processes.push(index);
        match process.rank {
            Some(rank) => {
                self.ranks.insert((process.restart, rank));
            }
            None => self.rankless = true,
        }
        // torchrun says `none` if it was given no id.
        let batch = process.fact("job").filter(|job| *job != "none");
        self.batches.extend(batch.map(str::to_owned));
        if let Some(size) = world_size(process) {
            self.sizes.insert(process.restart, size);
        }
        let began = [self.began, began(process)];
        self.began = began.into_iter().flatten().min();
        self.seen = self.seen.max(seen(process));
    }

    /// Whether nothing says that `later`, which did not begin earlier, is of another job.
    fn takes(&self, later: &Group) -> bool {
        let differ = |a: &BTreeSet<String>, b: &BTreeSet<String>| {
            !a.is_empty() && !b.is_empty() && a.is_disjoint(b)
        };
        let other_size = |(restart, size): (&u32, &u32)| {
            let own = self.sizes.get(restart);
            own.is_some_and(|own| own != size)
        };
        if !self.ranks.is_disjoint(&later.ranks)
            || differ(&self.batches, &later.batches)
            || later.sizes.iter().any(other_size)
        {
            return false;
        }
        if !self.rankless && !later.rankless && !self.sizes.is_empty() && !later.sizes.is_empty() {
            return true;
        }
        match (self.seen, later.began) {
            (Some(seen), Some(began)) => began <= seen.saturating_add(APART),
            _ => true,
        }
    }
}

/// The number of ranks that the launcher of a process spoke of.
pub(crate) fn world_size(process: &Process) -> Option<u32> {
    process.fact("world_size")?.parse().ok()
}

fn began(process: &Process) -> Option<i64> {
    let said = process.fact("started").and_then(|ns| ns.parse().ok());
    let made = process.communicators.iter().filter_map(|c| c.created_ns);
    said.or_else(|| made.min())
}

/// The last moment of a process that is known.
fn seen(process: &Process) -> Option<i64> {
    let ended = process.communicators.iter().filter_map(|c| c.ended_ns);
    ended.max().max(process.clock.newest())
}

/// The processes of each job, as indexes into the capture's, by when the jobs began.
pub fn jobs(capture: &Capture) -> Vec<Vec<usize>> {
    let mut of: Vec<usize> = (0..capture.processes.len()).collect();
    fn root(of: &mut [usize], mut at: usize) -> usize {
        while of[at] != at {
            of[at] = of[of[at]];
            at = of[at];
        }
        at
    }
    for communicator in &capture.communicators {
        let mut members = communicator.members.iter().map(|m| m.process);
        let Some(first) = members.next() else {
            continue;
        };
        for other in members {
            let (a, b) = (root(&mut of, first), root(&mut of, other));
            of[a.max(b)] = a.min(b);
        }
    }
    let mut together: BTreeMap<usize, Group> = BTreeMap::new();
    for (index, process) in capture.processes.iter().enumerate() {
        let root = root(&mut of, index);
        together.entry(root).or_default().add(index, process);
    }
    let mut groups: Vec<Group> = together.into_values().collect();
    // Restarts come after the first start, and what has no time stays where it is.
    groups.sort_by_key(|g| (g.began, g.processes[0]));
    let mut jobs: Vec<Group> = Vec::new();
    for group in groups {
        match jobs.iter_mut().rev().find(|job| job.takes(&group)) {
            Some(job) => {
                for index in group.processes {
                    job.add(index, &capture.processes[index]);
                }
            }
            None => jobs.push(group),
        }
    }
    let mut jobs: Vec<Vec<usize>> = jobs.into_iter().map(|job| job.processes).collect();
    jobs.iter_mut().for_each(|job| job.sort_unstable());
    jobs
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
    use crate::fixtures::communicator;
    use tables::communicators::Local;

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

    fn found(processes: Vec<Process>, communicators: &[&[usize]]) -> Vec<Vec<usize>> {
        let communicators = communicators.iter().enumerate();
        let capture = Capture {
            processes,
            communicators: communicators.map(|(i, m)| communicator(i, m)).collect(),
            ..Capture::default()
        };
        jobs(&capture)
    }

    #[test]
    fn a_rank_twice_is_of_two_jobs() {
        let all = [(0, 0), (0, 9), (1, 0), (1, 9)];
        let all = all.map(|(rank, began)| process(Some(rank), 2, began));
        assert_eq!(found(all.to_vec(), &[&[0, 2], &[1, 3]]), [[0, 2], [1, 3]]);
        // Also at the same time, and without a communicator.
        let all = [0, 0].map(|rank| process(Some(rank), 1, 5));
        assert_eq!(found(all.to_vec(), &[]), [[0], [1]]);
    }

    #[test]
    fn groups_of_ranks_without_a_common_communicator_are_one_job() {
        // The second host's clock is hours ahead.
        let all = [(0, 0), (1, 0), (2, 9_999), (3, 9_999)];
        let all = all.map(|(rank, began)| process(Some(rank), 4, began));
        assert_eq!(found(all.to_vec(), &[&[0, 1], &[2, 3]]), [[0, 1, 2, 3]]);
    }

    #[test]
    fn a_restart_is_of_the_same_job() {
        let mut all = [(0, 0), (1, 0), (0, 20), (1, 20)];
        let mut all: Vec<Process> = all
            .iter_mut()
            .map(|(rank, began)| process(Some(*rank), 2, *began))
            .collect();
        all[2].restart = 1;
        all[3].restart = 1;
        assert_eq!(found(all, &[&[0, 1], &[2, 3]]), [[0, 1, 2, 3]]);
    }

    #[test]
    fn other_batches_and_sizes_are_other_jobs() {
        let mut all = vec![process(Some(0), 4, 0), process(Some(1), 4, 0)];
        all[1].facts.insert("job".into(), "77".into());
        assert_eq!(found(all.clone(), &[]).len(), 1);
        all[0].facts.insert("job".into(), "76".into());
        assert_eq!(found(all.clone(), &[]).len(), 2);
        // A common communicator says more.
        assert_eq!(found(all, &[&[0, 1]]).len(), 1);
        let sizes = vec![process(Some(0), 2, 0), process(Some(3), 4, 0)];
        assert_eq!(found(sizes, &[]).len(), 2);
    }

    #[test]
    fn without_ranks_time_tells() {
        let runs = |began: [i64; 3]| began.map(|began| process(None, 0, began)).to_vec();
        assert_eq!(found(runs([0, 1, 2]), &[]), [[0, 1, 2]]);
        assert_eq!(found(runs([0, 10, 20]), &[]).len(), 3);
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
