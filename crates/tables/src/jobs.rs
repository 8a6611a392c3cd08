//! Which processes of a folder are of one job, and which of another that was recorded into the same folder.
//!
//! Processes that share a communicator are of one job. Groups of processes that share none are put together
//! unless something shows that they are not of one job. Such signs are the same rank of the launcher in both,
//! different batch jobs, or different numbers of ranks. If ranks are not known, it is a sign that one ended
//! before the other began.
//!
//! Rule: two jobs are never taken for one because their figures fit together. Programs that a rank runs one
//! after the other count as two jobs.

use crate::{Capture, Communicator, Process};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Clocks of two hosts, and a launcher and its processes, may be so far apart, ns.
const APART: i64 = 2_000_000_000;

/// What is known of some processes together.
#[derive(Default)]
pub(crate) struct Group {
    pub processes: Vec<usize>,
    /// With the number of the restart.
    pub ranks: BTreeSet<(u32, u32)>,
    /// Some process has no rank.
    rankless: bool,
    pub batches: BTreeSet<String>,
    pub sizes: BTreeMap<u32, u32>,
    pub began: Option<i64>,
    pub seen: Option<i64>,
}

impl Group {
    pub fn add(&mut self, index: usize, process: &Process) {
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
pub fn world_size(process: &Process) -> Option<u32> {
    process.fact("world_size")?.parse().ok()
}

/// When a process began, ns since 1970, as far as is known.
pub fn began(process: &Process) -> Option<i64> {
    let said = process.fact("started").and_then(|ns| ns.parse().ok());
    let made = process.communicators.iter().filter_map(|c| c.created_ns);
    said.or_else(|| made.min())
}

/// The last moment of a process that is known, ns since 1970.
pub fn seen(process: &Process) -> Option<i64> {
    let ended = process.communicators.iter().filter_map(|c| c.ended_ns);
    ended.max().max(process.clock.newest())
}

/// The processes of each job, as indexes into the capture's, by when the jobs began.
pub fn jobs(capture: &Capture) -> Vec<Vec<usize>> {
    of_processes(&capture.processes, &capture.communicators)
}

/// The folders of captures around which this one is only a folder: each has a `capture.json` with an id of
/// its own, and no job has processes in two of them. Nothing if this is a capture itself. Hosts that each
/// wrote a capture of their own of one job are one capture.
pub(crate) fn captures(capture: &Capture, communicators: &[Communicator]) -> Vec<PathBuf> {
    let root = capture.root();
    if root.join("capture.json").is_file() {
        return Vec::new();
    }
    let mut ids: BTreeMap<PathBuf, Option<String>> = BTreeMap::new();
    let mut id = |folder: &Path| -> Option<String> {
        let read = || {
            let job = crate::job(folder).ok()??;
            job["id"].as_str().map(str::to_owned)
        };
        ids.entry(folder.to_owned()).or_insert_with(read).clone()
    };
    let mut nearest = |process: &Process| -> Option<(String, PathBuf)> {
        let within = process.file.ancestors().skip(1);
        let within = within.take_while(|folder| !folder.as_os_str().is_empty());
        within
            .map(|folder| root.join(folder))
            .find_map(|folder| Some((id(&folder)?, folder)))
    };
    let of: Vec<_> = capture.processes.iter().map(&mut nearest).collect();
    // The first folder of each id: a copy is no other run.
    let mut folders: BTreeMap<&String, &PathBuf> = BTreeMap::new();
    for (id, folder) in of.iter().flatten() {
        folders.entry(id).or_insert(folder);
    }
    if folders.len() < 2 {
        return Vec::new();
    }
    let is_apart = |job: &Vec<usize>| {
        let ids = job.iter().filter_map(|index| of[*index].as_ref());
        ids.map(|(id, _)| id).collect::<BTreeSet<_>>().len() < 2
    };
    let jobs = of_processes(&capture.processes, communicators);
    if !jobs.iter().all(is_apart) {
        return Vec::new();
    }
    let mut folders: Vec<PathBuf> = folders.into_values().cloned().collect();
    folders.sort();
    folders
}

/// The same of processes and their communicators.
pub(crate) fn of_processes(all: &[Process], communicators: &[Communicator]) -> Vec<Vec<usize>> {
    let mut of: Vec<usize> = (0..all.len()).collect();
    fn root(of: &mut [usize], mut at: usize) -> usize {
        while of[at] != at {
            of[at] = of[of[at]];
            at = of[at];
        }
        at
    }
    for communicator in communicators {
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
    for (index, process) in all.iter().enumerate() {
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
                    job.add(index, &all[index]);
                }
            }
            None => jobs.push(group),
        }
    }
    let mut jobs: Vec<Vec<usize>> = jobs.into_iter().map(|job| job.processes).collect();
    jobs.iter_mut().for_each(|job| job.sort_unstable());
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communicators::{Local, Member};

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

    /// A communicator of these processes.
    fn communicator((index, members): (usize, &&[usize])) -> Communicator {
        let member = |process: &usize| Member {
            process: *process,
            uid: 1,
            rank: None,
        };
        Communicator {
            id: index.to_string(),
            members: members.iter().map(member).collect(),
            ..Communicator::default()
        }
    }

    fn found(processes: Vec<Process>, communicators: &[&[usize]]) -> Vec<Vec<usize>> {
        let communicators = communicators.iter().enumerate();
        let capture = Capture {
            processes,
            communicators: communicators.map(communicator).collect(),
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
    fn a_folder_of_captures_is_none() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |folder: &str, id: &str| {
            let folder = root.path().join(folder);
            std::fs::create_dir_all(&folder).expect("made");
            let job = format!("{{\"id\": \"{id}\"}}");
            std::fs::write(folder.join("capture.json"), job).expect("written");
        };
        let capture = |processes: [(&str, u32, i64); 2]| Capture {
            path: root.path().to_owned(),
            processes: processes
                .map(|(file, rank, began)| Process {
                    file: file.into(),
                    ..process(Some(rank), 2, began)
                })
                .into(),
            ..Capture::default()
        };
        let (a, b) = (
            "runs/a/n/r0-p7-00c0ffee.trace",
            "runs/b/n/r0-p8-00c0ffef.trace",
        );
        let two = [(a, 0, 0), (b, 0, 60)];
        assert!(captures(&capture(two), &[]).is_empty());
        write("runs/a", "1");
        write("runs/b", "2");
        let found = captures(&capture(two), &[]);
        assert_eq!(found, ["runs/a", "runs/b"].map(|of| root.path().join(of)));
        // Hosts of one job, each with a capture of its own.
        assert!(captures(&capture([(a, 0, 0), (b, 1, 0)]), &[]).is_empty());
        write("runs/b", "1");
        assert!(captures(&capture(two), &[]).is_empty());
        write("runs/b", "2");
        write("", "3");
        assert!(captures(&capture(two), &[]).is_empty());
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
}
