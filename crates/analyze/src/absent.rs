//! Ranks that the job had and this capture lacks.
//!
//! The launcher says how many ranks there are, and a communicator how many it has. [`rows`] names the ranks
//! that have no file here, or none that can be read. It adds how many calls they made at least, by the
//! [`evidence`] of the others.
//!
//! A member of a communicator that is not here is one of the launcher's ranks that are not here. So one row
//! stands for all of these together, and only without a launcher, or if its figures do not fit, for the
//! members of one communicator.
//!
//! Rule: a rank is absent, or it is here; a file that can't be read is no rank that is here.
//!
//! [`evidence`]: crate::evidence

use crate::evidence::{gaps, Absent, Found, Ranks};
use crate::jobs::world_size;
use crate::spelling::ranges;
use crate::subject::ProcessId;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tables::{Capture, Unreadable};

/// No job has more ranks than this; a larger number is damaged.
pub const MOST_RANKS: u32 = 1 << 20;

/// Ranks that made calls which are not here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Absent")]
pub struct AbsentRow {
    /// The launcher's ranks, as `3` or `4-7`; null if they are not known.
    pub ranks: Option<String>,
    /// How many they are.
    pub nranks: u64,
    /// Ranks that the launcher spoke of; null without a launcher.
    pub world_size: Option<u32>,
    /// The torchrun restart; null if files of another tool do not say.
    pub restart: Option<u32>,
    /// How many calls they made at least; operations that ended on other ranks prove it.
    pub calls_at_least: u64,
    /// How many calls they made if they made all that other ranks began.
    pub calls_begun: u64,
    /// Where they are missing.
    pub communicators: Vec<AbsentMember>,
    /// Files of them that are here and can't be read.
    pub unreadable: Vec<UnreadableRow>,
    /// They may be ranks that are here, whose definition of the communicator is lost.
    #[serde(skip)]
    pub undefined: bool,
}

/// Ranks that a communicator lacks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct AbsentMember {
    /// The communicator.
    pub communicator: String,
    /// Its ranks, as `0-7`; null if NCCL did not say which are here.
    pub ranks: Option<String>,
    /// How many it has.
    pub of: Option<u32>,
    /// How many calls they made there at least.
    pub calls_at_least: u64,
}

/// A file in which nothing is sound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "UnreadableFile")]
pub struct UnreadableRow {
    /// The file, relative to the capture.
    pub file: String,
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// What is in it.
    pub found: String,
}

/// The launcher's ranks of one start of one job.
#[derive(Default)]
struct World {
    size: Option<u32>,
    there: BTreeSet<u32>,
    /// Without a rank of the launcher.
    rankless: bool,
}

/// The ranks that are not here, of each of `jobs`.
pub fn rows(capture: &Capture, jobs: &[Vec<usize>], found: &Found) -> Vec<AbsentRow> {
    // By process, its job.
    let mut job_of = vec![0; capture.processes.len()];
    let mut worlds: BTreeMap<(usize, u32), World> = BTreeMap::new();
    for (job, processes) in jobs.iter().enumerate() {
        for index in processes {
            let process = &capture.processes[*index];
            job_of[*index] = job;
            let world = worlds.entry((job, process.restart)).or_default();
            world.size = world.size.max(world_size(process));
            world.there.extend(process.rank);
            world.rankless |= process.rank.is_none();
        }
    }
    let mut rows = Vec::new();
    let mut of_world: BTreeMap<(usize, u32), usize> = BTreeMap::new();
    for (key, world) in &worlds {
        let size = world.size.filter(|n| *n <= MOST_RANKS && !world.rankless);
        let gaps = gaps(&world.there, size.unwrap_or(0));
        // One process may drive all GPUs; the launcher's size then counts these.
        if gaps.is_empty() || whole(capture, size, |index| job_of[index] == key.0) {
            continue;
        }
        of_world.insert(*key, rows.len());
        let ranks = || gaps.iter().flat_map(|(first, last)| *first..=*last);
        rows.push(AbsentRow {
            ranks: Some(ranges(ranks())),
            nranks: ranks().count() as u64,
            world_size: size,
            restart: Some(key.1),
            ..AbsentRow::default()
        });
    }
    for of in by_communicator(&found.absent) {
        let communicator = &capture.communicators[of[0].communicator];
        let mut members: BTreeMap<usize, u64> = BTreeMap::new();
        for member in &communicator.members {
            *members.entry(member.process).or_default() += 1;
        }
        // A process that drives several GPUs is several ranks of a communicator.
        let each = members.values().copied().max().unwrap_or(1);
        let key = communicator.members.first().map(|m| {
            let process = &capture.processes[m.process];
            (job_of[m.process], process.restart)
        });
        let n: u64 = of.iter().map(|a| a.n).sum();
        let row = key.and_then(|key| of_world.get(&key).copied());
        let row = row.filter(|row| n <= rows[*row].nranks.saturating_mul(each));
        let row = match row {
            Some(row) => &mut rows[row],
            None => {
                rows.push(AbsentRow {
                    nranks: n,
                    restart: Some(key.map_or(0, |key| key.1)),
                    ..AbsentRow::default()
                });
                rows.last_mut().expect("just pushed")
            }
        };
        let sum = |of: &[Absent], pick: fn(&Absent) -> u64| {
            of.iter().map(pick).fold(0, u64::saturating_add)
        };
        let mut least = sum(of, |a| a.calls);
        if row.ranks.is_none() {
            let job = key.map_or(0, |key| key.0);
            let others = (0..capture.processes.len())
                .filter(|index| job_of[*index] == job && !members.contains_key(index));
            let calls = others.map(|index| found.undefined.get(index).copied().unwrap_or(0));
            let calls = calls.fold(0, u64::saturating_add);
            // A file that is cut may lack what says that its rank took part.
            let cut = (0..capture.processes.len()).any(|index| {
                let process = &capture.processes[index];
                let mut problems = capture.problems.iter();
                job_of[index] == job
                    && process.communicators.is_empty()
                    && problems.any(|problem| problem.file == process.file)
            });
            row.undefined = calls > 0 || cut;
            least = least.saturating_sub(calls);
        }
        row.calls_at_least = row.calls_at_least.saturating_add(least);
        row.calls_begun = row.calls_begun.saturating_add(sum(of, |a| a.begun));
        row.communicators.push(AbsentMember {
            communicator: communicator.id.clone(),
            ranks: ranks(of),
            of: communicator.nranks,
            calls_at_least: least,
        });
    }
    for file in &capture.unreadable {
        let of = |key: &(usize, u32)| {
            let absent = file.rank.is_some_and(|r| !worlds[key].there.contains(&r));
            key.1 == file.restart && absent
        };
        let world = of_world.iter().find(|(key, _)| of(key));
        let row = match world {
            Some((_, row)) => &mut rows[*row],
            // Whose rank is not known may be that of a communicator, if one row only lacks some.
            None if rows.len() == 1 && file.rank.is_none() => &mut rows[0],
            None => {
                rows.push(AbsentRow {
                    ranks: file.rank.map(|rank| rank.to_string()),
                    nranks: 1,
                    restart: Some(file.restart),
                    ..AbsentRow::default()
                });
                rows.last_mut().expect("just pushed")
            }
        };
        row.unreadable.push(unreadable(file));
    }
    if capture.processes.iter().any(|of| of.other_tool().is_some()) {
        for row in &mut rows {
            row.restart = None;
        }
    }
    rows
}

/// Whether a communicator of as many ranks as the launcher spoke of is here with all of them.
fn whole(capture: &Capture, size: Option<u32>, of_job: impl Fn(usize) -> bool) -> bool {
    capture.communicators.iter().any(|communicator| {
        let all = communicator.nranks == Some(communicator.members.len() as u32);
        let members = || communicator.members.iter();
        let ranks: BTreeSet<Option<u32>> = members().map(|m| m.rank).collect();
        all && communicator.nranks >= size
            && ranks.len() == communicator.members.len()
            && members().all(|m| of_job(m.process))
    })
}

fn unreadable(of: &Unreadable) -> UnreadableRow {
    UnreadableRow {
        file: of.file.display().to_string(),
        process: ProcessId {
            rank: of.rank,
            host: of.host.clone(),
            pid: of.pid,
        },

        found: of.found.clone(),
    }
}

/// Consecutive ones of one communicator.
fn by_communicator(absent: &[Absent]) -> impl Iterator<Item = &[Absent]> {
    absent.chunk_by(|a, b| a.communicator == b.communicator)
}

fn ranks(of: &[Absent]) -> Option<String> {
    let known = of.iter().map(|absent| match absent.ranks {
        Ranks::Known(first, last) => Some(first..=last),
        Ranks::Unknown => None,
    });
    let known: Option<Vec<_>> = known.collect();
    Some(ranges(known?.into_iter().flatten()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::communicator;
    use tables::Process;

    fn process(rank: Option<u32>, size: Option<u32>) -> Process {
        let mut process = Process {
            rank,
            ..Process::default()
        };
        if let Some(size) = size {
            let fact = ("world_size".to_owned(), size.to_string());
            process.facts.extend([fact]);
        }
        process
    }

    /// Ranks 0 and 1 of four, in a communicator of so many.
    fn capture(launched: bool, nranks: u32) -> Capture {
        let rank = |rank| process(launched.then_some(rank), launched.then_some(4));
        let mut communicator = communicator(0, &[0, 1]);
        communicator.nranks = Some(nranks);
        Capture {
            processes: vec![rank(0), rank(1)],
            communicators: vec![communicator],
            ..Capture::default()
        }
    }

    fn absent(first: u32, last: u32, each: u64) -> Absent {
        let n = u64::from(last - first) + 1;
        Absent {
            communicator: 0,
            ranks: Ranks::Known(first, last),
            n,
            calls: each * n,
            begun: (each + 1) * n,
        }
    }

    fn found(capture: &Capture, absent: Vec<Absent>) -> Vec<AbsentRow> {
        let found = Found {
            absent,
            undefined: capture.processes.iter().map(|p| p.sealed).collect(),
            ..Found::default()
        };
        let jobs = crate::jobs::jobs(capture);
        rows(capture, &jobs, &found)
    }

    #[test]
    fn the_launchers_ranks_are_named_with_the_calls_of_all_communicators() {
        let mut of = capture(true, 4);
        of.communicators.push(communicator(1, &[0]));
        let mut second = absent(1, 1, 5);
        second.communicator = 1;
        let rows = found(&of, vec![absent(2, 3, 10), second]);
        let [row] = &rows[..] else {
            panic!("{rows:?}");
        };
        assert_eq!((row.ranks.as_deref(), row.nranks), (Some("2-3"), 2));
        assert_eq!((row.calls_at_least, row.communicators.len()), (25, 2));
    }

    #[test]
    fn without_a_launcher_the_communicators_ranks_are_named() {
        let of = capture(false, 3);
        let rows = found(&of, vec![absent(2, 2, 1)]);
        let member = AbsentMember {
            communicator: of.communicators[0].id.clone(),
            ranks: Some("2".to_owned()),
            of: Some(3),
            calls_at_least: 1,
        };
        assert_eq!((rows.len(), &rows[0].ranks), (1, &None));
        assert_eq!(rows[0].communicators, [member]);
    }

    #[test]
    fn more_members_than_absent_ranks_are_of_others() {
        let of = capture(true, 9);
        let rows = found(&of, vec![absent(2, 8, 0)]);
        let calls = rows.iter().map(|row| (row.calls_at_least, row.calls_begun));
        assert_eq!(calls.collect::<Vec<_>>(), [(0, 0), (0, 7)]);
    }

    #[test]
    fn one_process_may_drive_the_gpus_of_all_ranks() {
        let mut of = capture(true, 4);
        of.processes.truncate(1);
        of.communicators = vec![communicator(0, &[0, 0, 0, 0])];
        assert_eq!(found(&of, vec![]), []);
        of.communicators[0].nranks = Some(5);
        assert_eq!(found(&of, vec![absent(4, 4, 1)]).len(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_its_ranks() {
        let mut of = capture(true, 4);
        of.processes.push(process(Some(3), Some(4)));
        of.unreadable = vec![Unreadable {
            file: "node/r2-p7-00000000.trace".into(),
            rank: Some(2),
            found: "nothing".into(),
            ..Unreadable::default()
        }];
        let rows = found(&of, vec![absent(2, 2, 33)]);
        assert_eq!((rows.len(), rows[0].ranks.as_deref()), (1, Some("2")));
        assert_eq!(rows[0].unreadable[0].file, "node/r2-p7-00000000.trace");
        assert_eq!(rows[0].calls_at_least, 33);
    }

    #[test]
    fn a_rank_that_lost_its_communicator_may_be_the_one_that_is_missing() {
        let mut of = capture(true, 2);
        of.processes[0]
            .facts
            .insert("world_size".into(), "2".into());
        of.processes[1]
            .facts
            .insert("world_size".into(), "2".into());
        of.communicators = vec![communicator(0, &[0])];
        of.communicators[0].nranks = Some(2);
        of.processes[1].sealed = 7;
        let rows = found(&of, vec![absent(1, 1, 10)]);
        assert!(rows.len() == 1 && rows[0].undefined, "{rows:?}");
        assert_eq!(rows[0].calls_at_least, 3);
    }

    #[test]
    fn a_rank_of_another_restart_is_not_here() {
        let mut of = capture(true, 2);
        of.processes[0].facts.clear();
        of.processes[1].restart = 1;
        for process in &mut of.processes {
            process.facts.insert("world_size".into(), "2".into());
        }
        of.communicators.clear();
        let rows = found(&of, vec![]);
        let named = rows.iter().map(|row| (row.ranks.as_deref(), row.restart));
        let named: Vec<_> = named.collect();
        assert_eq!(named, [(Some("1"), Some(0)), (Some("0"), Some(1))]);
    }
}
