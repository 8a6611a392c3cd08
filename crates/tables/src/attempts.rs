//! The attempts of a job that was started again, all recorded into one folder.
//!
//! torchrun starts its workers again after one failed, and a script may start a whole job again. Each start
//! is an [`Attempt`]: the same ranks, later. [`find`] tells the attempts apart, and [`Which`] says which of
//! them is read. Nothing of the others is in the capture then, so no sum mixes two attempts.
//!
//! Rule: two jobs are never taken for attempts of one. Attempts have different numbers of a torchrun restart
//! within one job. Or they ran one after the other, with the same command, as many ranks and ranks in common,
//! and not as two batch jobs.

use crate::jobs::{of_processes, Group};
use crate::{Communicator, Process};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// One start of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// From 1, the oldest first.
    pub number: u32,
    /// Number of the torchrun restart, 0 for the first start.
    pub restart: u32,
    /// Processes with a trace.
    pub nprocesses: usize,
    /// The launcher's ranks that are here.
    pub ranks: BTreeSet<u32>,
    /// When its first process began, ns since 1970.
    pub began_ns: Option<i64>,
    /// The last moment of it that is known, ns since 1970.
    pub seen_ns: Option<i64>,
    /// The trace file of its first process, relative to the capture.
    pub file: PathBuf,
}

/// Which attempts of a job are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// All of them together.
    #[default]
    All,
    /// The last.
    Last,
    /// The one with this number.
    Number(u32),
}

/// The attempts of the job that began last, the oldest first, with their processes. One if it was started
/// once; none of no process. Processes of other jobs are in none of them.
pub(crate) fn find(
    processes: &[Process],
    communicators: &[Communicator],
) -> Vec<(Attempt, Vec<usize>)> {
    let mut starts: Vec<(usize, Group)> = Vec::new();
    for (job, members) in of_processes(processes, communicators)
        .into_iter()
        .enumerate()
    {
        let first = starts.len();
        for index in members {
            let restart = processes[index].restart;
            let of_restart =
                |(_, start): &&mut (usize, Group)| processes[start.processes[0]].restart == restart;
            let place = starts[first..].iter_mut().find(of_restart);
            match place {
                Some((_, start)) => start.add(index, &processes[index]),
                None => {
                    let mut start = Group::default();
                    start.add(index, &processes[index]);
                    starts.push((job, start));
                }
            }
        }
    }
    let restart = |start: &Group| processes[start.processes[0]].restart;
    starts.sort_by_key(|(job, start)| (start.began, *job, restart(start)));
    let Some((last_job, last)) = starts.pop() else {
        return Vec::new();
    };
    let mut chain = vec![last];
    for (job, start) in starts.into_iter().rev() {
        let next = &chain[chain.len() - 1];
        let again = if job == last_job {
            restart(&start) < restart(next)
        } else {
            was_repeated(&start, next, processes)
        };
        if again {
            chain.push(start);
        }
    }
    let attempt = |(number, start): (u32, Group)| {
        let attempt = Attempt {
            number,
            restart: restart(&start),
            nprocesses: start.processes.len(),
            ranks: start.ranks.iter().map(|(_, rank)| *rank).collect(),
            began_ns: start.began,
            seen_ns: start.seen,
            file: processes[start.processes[0]].file.clone(),
        };
        (attempt, start.processes)
    };
    (1..).zip(chain.into_iter().rev()).map(attempt).collect()
}

/// Whether `later` is the same program once more on the same ranks, after `earlier` was over.
fn was_repeated(earlier: &Group, later: &Group, processes: &[Process]) -> bool {
    let ranks = |of: &Group| -> BTreeSet<u32> { of.ranks.iter().map(|(_, rank)| *rank).collect() };
    let commands = |of: &Group| -> BTreeSet<String> {
        let commands = of
            .processes
            .iter()
            .map(|index| processes[*index].fact("command"));
        commands.flatten().map(str::to_owned).collect()
    };
    let sizes = |of: &Group| -> BTreeSet<u32> { of.sizes.values().copied().collect() };
    let over = earlier.seen.zip(later.began);
    over.is_some_and(|(seen, began)| seen <= began)
        && earlier.batches == later.batches
        && sizes(earlier) == sizes(later)
        && !commands(earlier).is_empty()
        && commands(earlier) == commands(later)
        && !ranks(earlier).is_disjoint(&ranks(later))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communicators::Local;

    fn process(rank: u32, restart: u32, began: i64, command: &str) -> Process {
        let second = 1_000_000_000;
        let mut process = Process {
            rank: Some(rank),
            restart,
            communicators: vec![Local {
                created_ns: Some(began * second),
                ended_ns: Some((began + 5) * second),
                ..Local::default()
            }],
            ..Process::default()
        };
        let started = (began * second).to_string();
        process.facts.insert("started".into(), started);
        process.facts.insert("command".into(), command.into());
        process.facts.insert("world_size".into(), "2".into());
        process
    }

    fn found(processes: &[Process]) -> Vec<Vec<usize>> {
        let found = find(processes, &[]).into_iter();
        found.map(|(_, processes)| processes).collect()
    }

    #[test]
    fn a_restart_of_torchrun_is_an_attempt() {
        let all: Vec<Process> = [(0, 0, 0), (1, 0, 0), (0, 1, 9), (1, 1, 9), (0, 2, 20)]
            .map(|(rank, restart, began)| process(rank, restart, began, "train"))
            .into();
        assert_eq!(found(&all), [vec![0, 1], vec![2, 3], vec![4]]);
        let attempts = find(&all, &[]);
        let last = &attempts[2].0;
        assert_eq!((last.number, last.restart, last.nprocesses), (3, 2, 1));
        assert_eq!(found(&all[..2]), [[0, 1]]);
        assert!(found(&[]).is_empty());
    }

    #[test]
    fn the_same_command_later_is_an_attempt_and_another_is_a_job() {
        let twice = |began, command| {
            let all = [
                (0, 0, "train"),
                (1, 0, "train"),
                (0, began, command),
                (1, began, command),
            ];
            found(&all.map(|(rank, began, command)| process(rank, 0, began, command)))
        };
        assert_eq!(twice(60, "train"), [[0, 1], [2, 3]]);
        assert_eq!(twice(60, "evaluate"), [[2, 3]]);
        // At the same time: two jobs.
        assert_eq!(twice(3, "train").len(), 1);
    }
}
