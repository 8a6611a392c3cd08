//! The start-up of communicators over all ranks: phases, the slowest rank of each, and the critical path.
//!
//! [`communicators`] puts the inits of the ranks of one communicator together. A [`CommunicatorStartup`] has
//! a [`PhaseRow`] for each phase and the [`Leg`]s of its critical path.
//!
//! The critical path follows from how NCCL's init goes. A rank loads kernels and allocates by itself. In
//! `bootstrap` it meets the other ranks, so the rank with the shortest bootstrap came last, and the others
//! waited for it. The ranks meet again in `allgathers`: the rank with the shortest one was the last through
//! `topo` and `graphs`. What follows ends on all ranks together, and the slowest counts.
//!
//! Rule: the phases are NCCL's own figures. The path is concluded from them, and is never longer than the
//! longest total if the ranks began together.

use crate::late::{late, until_met, Late};
use crate::log::{Init, Timings, PHASES};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The start-up of one communicator.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CommunicatorStartup {
    /// NCCL's id as hex; null for a communicator that was split from another.
    pub id: Option<String>,
    /// NCCL's function that made it.
    pub function: String,
    /// Ranks in it.
    pub nranks: u32,
    /// Ranks whose phases are known.
    pub ranks_known: u32,
    /// Ranks that began and did not say that they were done.
    pub unfinished: Vec<u32>,
    /// Ranks that began, and of which the last line was cut, so that nothing is known of their end.
    pub cut: Vec<u32>,
    /// Ranks that said nothing.
    pub silent: Vec<u32>,
    /// From the first rank's beginning to the last rank's end; null without times of day.
    pub elapsed_s: Option<f64>,
    /// How much later than the first rank the last one began; null without times of day.
    pub spread_s: Option<f64>,
    /// Which attempt of the program it belongs to, from 1 on, if ranks came again in other processes.
    pub attempt: u32,
    /// The ranks for which the others waited because they began late; null if none did. This follows from the
    /// phases, without clocks.
    pub late: Option<Late>,
    /// The phases over all ranks, in NCCL's order.
    pub phases: Vec<PhaseRow>,
    /// What the ranks waited for, one after the other; empty if no rank's phases are known.
    pub critical_path: Vec<Leg>,
    /// The sum of that.
    pub critical_path_s: f64,
    /// Each rank, by number.
    pub ranks: Vec<RankInit>,
}

/// One phase over all ranks.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhaseRow {
    /// NCCL's name for it; `total` is all of them.
    #[schemars(extend("enum" = [
        "kernels", "alloc", "bootstrap", "allgathers", "topo", "graphs", "connections", "rest", "total"
    ]))]
    pub phase: &'static str,
    /// The rank that took longest; the lowest of several.
    pub slowest_rank: u32,
    /// How long that took.
    pub slowest_s: f64,
    /// The median over ranks.
    pub median_s: f64,
    /// The shortest.
    pub shortest_s: f64,
}

/// A part of the critical path.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Leg {
    /// The phase.
    #[schemars(extend("enum" = [
        "kernels", "alloc", "bootstrap", "allgathers", "topo", "graphs", "connections", "rest"
    ]))]
    pub phase: &'static str,
    /// The rank that the others waited for there.
    pub rank: u32,
    /// How long it took there.
    pub time_s: f64,
}

/// One rank's init.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RankInit {
    /// The rank.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// The thread that made the communicator, by Linux's number.
    pub thread: u32,
    /// CUDA device.
    pub device: Option<u32>,
    /// All phases together; null as long as NCCL has not said so.
    pub total_s: Option<f64>,
    /// Loading of NCCL's kernels onto the GPU.
    pub kernels_s: Option<f64>,
    /// Allocating memory.
    pub alloc_s: Option<f64>,
    /// Meeting the other ranks.
    pub bootstrap_s: Option<f64>,
    /// Exchanges with all other ranks.
    pub allgathers_s: Option<f64>,
    /// Finding out about GPUs, network cards and links.
    pub topo_s: Option<f64>,
    /// Search for rings and trees.
    pub graphs_s: Option<f64>,
    /// Connections to other ranks.
    pub connections_s: Option<f64>,
    /// What is in no other phase.
    pub rest_s: Option<f64>,
}

impl RankInit {
    fn new(init: &Init) -> RankInit {
        let phase = |at: usize| init.timings.map(|t| t.phases_s[at]);
        RankInit {
            rank: init.rank,
            host: init.host.clone(),
            pid: init.pid,
            thread: init.tid,
            device: init.device,
            total_s: init.timings.map(|t| t.total_s),
            kernels_s: phase(0),
            alloc_s: phase(1),
            bootstrap_s: phase(2),
            allgathers_s: phase(3),
            topo_s: phase(4),
            graphs_s: phase(5),
            connections_s: phase(6),
            rest_s: phase(7),
        }
    }

    /// Phases in NCCL's order.
    pub fn phases_s(&self) -> [Option<f64>; PHASES.len()] {
        [
            self.kernels_s,
            self.alloc_s,
            self.bootstrap_s,
            self.allgathers_s,
            self.topo_s,
            self.graphs_s,
            self.connections_s,
            self.rest_s,
        ]
    }
}

/// What says that inits of different ranks are of one communicator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// NCCL's id.
    Id(u64),
    /// Split from the communicator with this index, as its so manieth child, with this colour.
    Split(usize, i64, i64),
}

/// The communicators that these inits made, in the order of their first inits.
pub fn communicators(inits: &[Init]) -> Vec<CommunicatorStartup> {
    let groups = group(inits);
    let attempts = Attempts::of_groups(&groups);
    let made = |members: &Vec<&Init>| CommunicatorStartup {
        attempt: attempts.of(&members[0].host, members[0].pid).unwrap_or(1),
        ..communicator(members)
    };
    groups.iter().map(made).collect()
}

/// Which start of the program each process belongs to.
///
/// A program that was started again makes a communicator of as many ranks, and the same rank is on the same
/// GPU in another process. Processes that share a communicator are of one attempt.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    of_process: BTreeMap<(String, u32), u32>,
}

impl Attempts {
    /// Those of these inits' processes.
    pub fn of_inits(inits: &[Init]) -> Attempts {
        Attempts::of_groups(&group(inits))
    }

    fn of_groups(groups: &[Vec<&Init>]) -> Attempts {
        // Processes that share communicators, and the groups of each such job, in the order of first lines.
        let mut job_of: BTreeMap<(&str, u32), usize> = BTreeMap::new();
        let mut jobs: Vec<Vec<usize>> = Vec::new();
        for (at, members) in groups.iter().enumerate() {
            let named = || members.iter().filter(|init| init.pid != 0);
            let known = named().filter_map(|init| job_of.get(&(init.host.as_str(), init.pid)));
            let known: BTreeSet<usize> = known.copied().collect();
            let job = known.first().copied().unwrap_or_else(|| {
                jobs.push(Vec::new());
                jobs.len() - 1
            });
            for other in known.into_iter().skip(1) {
                let moved = std::mem::take(&mut jobs[other]);
                jobs[job].extend(moved);
                job_of
                    .values_mut()
                    .filter(|of| **of == other)
                    .for_each(|of| *of = job);
            }
            jobs[job].push(at);
            job_of.extend(named().map(|init| ((init.host.as_str(), init.pid), job)));
        }
        let mut attempts: Vec<u32> = Vec::new();
        let mut newest: BTreeMap<(u32, u32, &str, u64), u32> = BTreeMap::new();
        for job in &jobs {
            let members = || job.iter().flat_map(|at| &groups[*at]);
            let places: BTreeSet<_> = members()
                .filter(|init| init.pid != 0 && init.nranks > 1)
                .filter_map(|init| Some((init.nranks, init.rank, init.host.as_str(), init.bus?)))
                .collect();
            let before = places.iter().filter_map(|place| newest.get(place)).max();
            let attempt = before.map_or(1, |before| before + 1);
            newest.extend(places.into_iter().map(|place| (place, attempt)));
            attempts.push(attempt);
        }
        let of_process = job_of
            .into_iter()
            .map(|((host, pid), job)| ((host.to_owned(), pid), attempts[job]))
            .collect();
        Attempts { of_process }
    }

    /// That of a process; nothing for one that made no communicator.
    pub fn of(&self, host: &str, pid: u32) -> Option<u32> {
        self.of_process.get(&(host.to_owned(), pid)).copied()
    }

    /// How many there are; 1 if nothing is known.
    pub fn count(&self) -> u32 {
        self.of_process.values().copied().max().unwrap_or(1)
    }
}

/// What a process spent on all its communicators, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Together {
    /// How many it made, one after the other.
    pub communicators: u32,
    /// How long that took.
    pub time_s: f64,
    /// Its rank in the first of them.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// The longest phase of all of them.
    pub phase: &'static str,
    /// How long that took.
    pub phase_s: f64,
    /// For what it took that long, and who took it, the largest first. Waits are counted for those who were
    /// waited for.
    pub causes: Vec<Cause>,
}

/// What several communicators needed time for.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cause {
    /// NCCL's name for the phase; `late` if a rank began late and was waited for.
    pub phase: &'static str,
    /// All of it, over the communicators, in seconds.
    pub time_s: f64,
    /// In how many communicators that took half of an equal share or more.
    pub communicators: u32,
    /// The rank on which most of it was, by its number in the largest communicator that it is in.
    pub rank: u32,
    /// How much of it that was, in seconds.
    pub rank_s: f64,
}

/// What ranks that began late cost, as a [`Cause`].
pub const LATE: &str = "late";

/// A process, and a device of it.
type Place<'a> = (&'a str, u32, Option<u32>);

fn place(init: &Init) -> Place<'_> {
    (init.host.as_str(), init.pid, init.device)
}

/// The process and device that spent longest on its communicators, if it made several.
///
/// Containers may have equal names and numbers. Then one process seems to be in a communicator twice, and
/// nothing can be said about it.
pub fn together(inits: &[Init]) -> Option<Together> {
    let groups = group(inits);
    let mut all: BTreeMap<Place, Vec<(&Init, Timings, usize)>> = BTreeMap::new();
    let mut ambiguous: BTreeSet<Place> = BTreeSet::new();
    for (at, members) in groups.iter().enumerate() {
        let mut here = BTreeSet::new();
        for init in members {
            if !here.insert(place(init)) {
                ambiguous.insert(place(init));
            }
            let timed = init.timings.map(|timings| (*init, timings, at));
            all.entry(place(init)).or_default().extend(timed);
        }
    }
    all.retain(|place, _| !ambiguous.contains(place));
    let sum = |of: &[(&Init, Timings, usize)]| of.iter().map(|(_, t, _)| t.total_s).sum::<f64>();
    let several = all.into_values().filter(|of| of.len() > 1);
    // The first of several that took as long.
    let longest = several.reduce(|a, b| if sum(&b) > sum(&a) { b } else { a })?;
    let phases = PHASES.iter().map(|phase| {
        let times = longest.iter().map(|(_, t, _)| t.phase(phase));
        (*phase, times.sum::<f64>())
    });
    let (phase, phase_s) = phases.reduce(|a, b| if b.1 > a.1 { b } else { a })?;
    let first = longest[0].0;
    let legs = longest
        .iter()
        .map(|(init, timings, at)| legs_of(init, timings, &groups[*at]));
    Some(Together {
        communicators: longest.len() as u32,
        time_s: sum(&longest),
        rank: first.rank,
        host: first.host.clone(),
        pid: first.pid,
        phase,
        phase_s,
        causes: causes(&legs.collect::<Vec<_>>(), &groups, &ambiguous),
    })
}

/// A part of the time that a rank spent on a communicator, and the rank that took it.
type Part<'a> = (&'static str, &'a Init, f64);

/// For what a rank spent its time in a communicator: where ranks meet, for what the last one did.
fn legs_of<'a>(init: &'a Init, timings: &Timings, members: &[&'a Init]) -> Vec<Part<'a>> {
    let by_rank = |rank: u32| members.iter().copied().find(|of| of.rank == rank);
    let mut parts: Vec<Part> = critical_path(&met(members))
        .into_iter()
        .filter_map(|leg| Some((leg.phase, by_rank(leg.rank)?, leg.time_s)))
        .collect();
    // The first part is of the rank that came last.
    let last = parts.first().map(|part| part.1);
    if let Some((last, of)) = last.and_then(|last| Some((last, last.timings?))) {
        let late_s = until_met(init, timings).0 - until_met(last, &of).0;
        parts.push((LATE, last, late_s.max(0.0)));
    }
    parts
}

/// Adds up what communicators needed time for; `made` has the parts of each.
fn causes(made: &[Vec<Part>], groups: &[Vec<&Init>], ambiguous: &BTreeSet<Place>) -> Vec<Cause> {
    /// A communicator counts if it has this part of an equal share.
    const PART: f64 = 0.5;
    // A rank has another number in each communicator.
    let mut numbers: BTreeMap<Place, (u32, u32)> = BTreeMap::new();
    for init in groups.iter().flatten() {
        let known = numbers
            .entry(place(init))
            .or_insert((init.nranks, init.rank));
        if init.nranks > known.0 {
            *known = (init.nranks, init.rank);
        }
    }
    let number = |init: &Init| {
        let known = numbers
            .get(&place(init))
            .filter(|_| !ambiguous.contains(&place(init)));
        known.map_or(init.rank, |(_, rank)| *rank)
    };
    let mut of: BTreeMap<&'static str, (Vec<f64>, BTreeMap<u32, f64>)> = BTreeMap::new();
    for (phase, init, time_s) in made.iter().flatten() {
        let (times, ranks) = of.entry(phase).or_default();
        times.push(*time_s);
        *ranks.entry(number(init)).or_default() += time_s;
    }
    let cause = |(phase, (times, ranks)): (&'static str, (Vec<f64>, BTreeMap<u32, f64>))| {
        let time_s: f64 = times.iter().sum();
        let counts = |time: &&f64| **time >= PART * time_s / made.len() as f64;
        let most = ranks
            .into_iter()
            .reduce(|a, b| if b.1 > a.1 { b } else { a });
        let (rank, rank_s) = most.filter(|_| time_s > 0.0)?;
        Some(Cause {
            phase,
            time_s,
            communicators: times.iter().filter(counts).count() as u32,
            rank,
            rank_s,
        })
    };
    let mut causes: Vec<Cause> = of.into_iter().filter_map(cause).collect();
    causes.sort_by(|a, b| b.time_s.total_cmp(&a.time_s));
    causes
}

/// The inits of each communicator, in the order of their first ones.
///
/// An id comes back if a program makes a communicator with it again. So does a colour before NCCL 2.24, which
/// does not count splits. Then a rank would be there twice, and a new group begins. Each rank makes them in
/// the same order, so an init goes to the first group with its key that lacks the rank. Lines of the
/// subsystem PROFILE alone name no communicator. They go to the first one of that size that lacks the rank.
pub fn group(inits: &[Init]) -> Vec<Vec<&Init>> {
    let mut groups: Vec<Vec<&Init>> = Vec::new();
    let mut keyed: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
    // By host, process and pointer: where a communicator went.
    let mut homes: BTreeMap<(&str, u32, u64), usize> = BTreeMap::new();
    let lacks = |group: &[&Init], rank: u32| group.iter().all(|init| init.rank != rank);
    let (named, others): (Vec<&Init>, Vec<&Init>) =
        inits.iter().partition(|init| init.comm.is_some());
    for init in named.into_iter().chain(others) {
        // From 2.32 on, one that was split has an id, too.
        let key = match (init.id, init.split) {
            (Some(id), _) => Some(Key::Id(id)),
            (None, Some((parent, count, color))) => homes
                .get(&(init.host.as_str(), init.pid, parent))
                .map(|home| Key::Split(*home, count, color)),
            (None, None) => None,
        };
        let fits =
            |at: &usize| groups[*at][0].nranks == init.nranks && lacks(&groups[*at], init.rank);
        let home = match &key {
            Some(key) => keyed.get(key).into_iter().flatten().copied().find(fits),
            None => (0..groups.len()).find(|at| fits(at)),
        };
        let home = home.unwrap_or_else(|| {
            groups.push(Vec::new());
            let new = groups.len() - 1;
            if let Some(key) = key {
                keyed.entry(key).or_default().push(new);
            }
            new
        });
        groups[home].push(init);
        if let Some(comm) = init.comm {
            homes.insert((&init.host, init.pid, comm), home);
        }
    }
    groups
}

fn communicator(members: &[&Init]) -> CommunicatorStartup {
    let mut members = members.to_vec();
    members.sort_by_key(|init| init.rank);
    let known: Vec<(u32, Timings)> = members
        .iter()
        .filter_map(|init| Some((init.rank, init.timings?)))
        .collect();
    let begun: Option<Vec<f64>> = members
        .iter()
        .map(|init| Some(init.completed_s? - init.timings?.total_s))
        .collect();
    let ended: Option<Vec<f64>> = members.iter().map(|init| init.completed_s).collect();
    let least = |times: &[f64]| times.iter().copied().reduce(f64::min);
    let most = |times: &[f64]| times.iter().copied().reduce(f64::max);
    let begun = begun.filter(|_| !known.is_empty());
    let elapsed = begun.as_deref().zip(ended.as_deref());
    let critical_path = critical_path(&met(&members));
    CommunicatorStartup {
        id: members
            .iter()
            .find_map(|init| init.id)
            .map(|id| format!("0x{id:x}")),
        function: members[0].function.clone(),
        nranks: members[0].nranks,
        ranks_known: known.len() as u32,
        unfinished: members
            .iter()
            .filter(|init| !init.is_complete && !init.is_cut)
            .map(|init| init.rank)
            .collect(),
        cut: members
            .iter()
            .filter(|init| init.is_cut)
            .map(|init| init.rank)
            .collect(),
        silent: silent(&members),
        elapsed_s: elapsed.and_then(|(begun, ended)| Some(most(ended)? - least(begun)?)),
        spread_s: begun
            .as_deref()
            .and_then(|begun| Some(most(begun)? - least(begun)?)),
        attempt: 1,
        late: late(&members),
        phases: phases(&known),
        critical_path_s: critical_path.iter().map(|leg| leg.time_s).sum(),
        critical_path,
        ranks: members.iter().map(|init| RankInit::new(init)).collect(),
    }
}

/// Ranks of which there is no line.
fn silent(members: &[&Init]) -> Vec<u32> {
    /// More ranks than any job has; a damaged line may have any number.
    const MOST: u32 = 1 << 20;
    let there: BTreeSet<u32> = members.iter().map(|init| init.rank).collect();
    let all = 0..members[0].nranks.min(MOST);
    all.filter(|rank| !there.contains(rank)).collect()
}

fn phases(known: &[(u32, Timings)]) -> Vec<PhaseRow> {
    let row = |phase: &'static str, of: &dyn Fn(&Timings) -> f64| {
        let mut times: Vec<(f64, u32)> = known.iter().map(|(rank, t)| (of(t), *rank)).collect();
        times.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let (shortest, slowest) = (times.first()?, times.last()?);
        let middle = times.len() / 2;
        let median = match times.len() % 2 {
            0 => (times[middle - 1].0 + times[middle].0) / 2.0,
            _ => times[middle].0,
        };
        Some(PhaseRow {
            phase,
            slowest_rank: slowest.1,
            slowest_s: slowest.0,
            median_s: median,
            shortest_s: shortest.0,
        })
    };
    let each = PHASES
        .iter()
        .enumerate()
        .filter_map(|(at, phase)| row(phase, &|t| t.phases_s[at]));
    let mut rows: Vec<PhaseRow> = each.collect();
    rows.extend(row("total", &|t| t.total_s));
    rows
}

/// What NCCL rounds to.
const RESOLUTION_S: f64 = 0.01;

/// Timings of ranks for their critical path. In a split, ranks meet before `bootstrap`, too, and NCCL counts
/// that in `rest` ([`crate::late`]).
fn met(members: &[&Init]) -> Vec<(u32, Timings)> {
    let [bootstrap, rest] = [2, 7];
    let of = |init: &&Init| {
        let mut timings = init.timings?;
        if init.split.is_some() {
            timings.phases_s[bootstrap] += std::mem::take(&mut timings.phases_s[rest]);
        }
        Some((init.rank, timings))
    };
    members.iter().filter_map(of).collect()
}

/// See the top of this file.
fn critical_path(known: &[(u32, Timings)]) -> Vec<Leg> {
    // The lowest rank of several; before all others the one that the path is at.
    let by = |at: Option<u32>, of: &dyn Fn(&Timings) -> f64| {
        let mut ranks = known.iter();
        let first = ranks.next()?;
        let least = ranks.fold(first, |a, b| if of(&b.1) < of(&a.1) { b } else { a });
        let stays = |(rank, t): &&(u32, Timings)| {
            Some(*rank) == at && of(t) - of(&least.1) < RESOLUTION_S / 2.0
        };
        Some(known.iter().find(stays).unwrap_or(least))
    };
    // Of ranks with equal bootstraps, which have 10 ms, the one that was busiest before.
    let before = |t: &Timings| t.phase("kernels") + t.phase("alloc");
    let last_in_bootstrap = by(None, &|t| t.phase("bootstrap") - 1e-6 * before(t));
    let search = |t: &Timings| t.phase("topo") + t.phase("graphs");
    let at = last_in_bootstrap.map(|(rank, _)| *rank);
    let last_in_allgathers = by(at, &|t| t.phase("allgathers") - 1e-6 * search(t));
    let at = last_in_allgathers.map(|(rank, _)| *rank);
    let last_at_all = by(at, &|t| -(t.phase("connections") + t.phase("rest")));
    let legs = [
        (last_in_bootstrap, &["kernels", "alloc", "bootstrap"][..]),
        (last_in_allgathers, &["topo", "graphs", "allgathers"][..]),
        (last_at_all, &["connections", "rest"][..]),
    ];
    let legs = legs
        .into_iter()
        .filter_map(|(of, phases)| Some((of?, phases)));
    legs.flat_map(|((rank, timings), phases)| {
        phases.iter().map(|phase| Leg {
            phase,
            rank: *rank,
            time_s: timings.phase(phase),
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::read;

    /// Lines from the public log in NVIDIA/nccl#1646: eight B200, NCCL 2.25.1.
    const SLOW_KERNELS: &str = include_str!("../tests/slow_kernels.log");

    #[test]
    fn the_log_of_nccl_1646_names_kernels_and_rank_4() {
        let found = communicators(&read(SLOW_KERNELS));
        let [one] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!((one.nranks, one.ranks_known), (8, 3));
        assert_eq!(one.id.as_deref(), Some("0x2fb902677fd5202e"));
        let four = one.ranks.iter().find(|r| r.rank == 4).expect("rank 4");
        assert_eq!((four.total_s, four.kernels_s), (Some(54.93), Some(52.94)));
        let kernels = &one.phases[0];
        assert_eq!(
            (kernels.phase, kernels.slowest_rank, kernels.slowest_s),
            ("kernels", 4, 52.94)
        );
        assert_eq!(
            (one.critical_path[0].rank, one.critical_path[0].time_s),
            (4, 52.94)
        );
        assert!((one.critical_path_s - 54.93).abs() < 0.01, "{one:?}");
    }

    fn init(rank: u32, id: u64, comm: u64, phases_s: [f64; 8]) -> Init {
        Init {
            host: "n1".into(),
            pid: 100 + rank,
            rank,
            nranks: 2,
            comm: Some(comm),
            id: Some(id).filter(|id| *id != 0),
            is_complete: true,
            timings: Some(Timings {
                total_s: phases_s.iter().sum(),
                phases_s,
            }),
            ..Init::default()
        }
    }

    #[test]
    fn the_path_goes_by_the_rank_that_came_last() {
        // Rank 1 loads kernels for longer, so rank 0 waits in bootstrap; rank 0 searches for longer, so rank
        // 1 waits in the allgathers.
        let found = communicators(&[
            init(0, 1, 1, [1.0, 0.1, 2.1, 0.0, 0.9, 0.1, 0.2, 0.0]),
            init(1, 1, 1, [3.0, 0.1, 0.1, 0.7, 0.2, 0.1, 0.2, 0.0]),
        ]);
        let path: Vec<(&str, u32)> = found[0]
            .critical_path
            .iter()
            .map(|l| (l.phase, l.rank))
            .collect();
        assert_eq!(
            path,
            [
                ("kernels", 1),
                ("alloc", 1),
                ("bootstrap", 1),
                ("topo", 0),
                ("graphs", 0),
                ("allgathers", 0),
                ("connections", 0),
                ("rest", 0),
            ]
        );
        assert!((found[0].critical_path_s - 4.4).abs() < 1e-9);
    }

    #[test]
    fn splits_belong_together_by_parent_and_colour() {
        let split = |rank: u32, pid: u32, comm: u64, parent: u64, color: i64| Init {
            pid,
            nranks: 1,
            split: Some((parent, 0, color)),
            ..init(rank, 0, comm, [0.0; 8])
        };
        let found = communicators(&[
            init(0, 9, 0x10, [0.0; 8]),
            init(1, 9, 0x20, [0.0; 8]),
            split(0, 100, 0x11, 0x10, 0),
            split(0, 101, 0x21, 0x20, 1),
        ]);
        let sizes: Vec<usize> = found.iter().map(|c| c.ranks.len()).collect();
        assert_eq!(sizes, [2, 1, 1]);
    }

    #[test]
    fn splits_with_one_colour_belong_together_in_their_order() {
        // As NCCL 2.23 has them, without a count, and rank by rank, as a capture has them.
        let split = |rank: u32, comm: u64, took: f64| Init {
            split: Some((0x10, -1, 7)),
            ..init(rank, 0, comm, [took, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        };
        let of = |rank: u32| {
            let [first, second] = [split(rank, 0x11, 1.0), split(rank, 0x12, 2.0)];
            [init(rank, 9, 0x10, [0.0; 8]), first, second]
        };
        let found = communicators(&[of(0), of(1)].concat());
        let totals: Vec<Vec<Option<f64>>> = found
            .iter()
            .map(|c| c.ranks.iter().map(|rank| rank.total_s).collect())
            .collect();
        let twice = |total: f64| vec![Some(total); 2];
        assert_eq!(totals, [twice(0.0), twice(1.0), twice(2.0)]);
    }

    #[test]
    fn an_id_that_comes_back_is_another_communicator() {
        let [a, b] = [init(0, 1, 1, [0.0; 8]), init(1, 1, 1, [0.0; 8])];
        for inits in [[&a, &b, &a, &b], [&a, &a, &b, &b]] {
            let found = communicators(&inits.map(Init::clone));
            assert_eq!(found.len(), 2);
            assert!(found.iter().all(|c| c.ranks.len() == 2));
        }
    }

    #[test]
    fn times_of_day_tell_how_long_it_took_over_ranks() {
        let at = |init: Init, completed: f64| Init {
            completed_s: Some(completed),
            ..init
        };
        let found = communicators(&[
            at(
                init(0, 1, 1, [3.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
                105.0,
            ),
            at(
                init(1, 1, 1, [3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
                105.1,
            ),
        ]);
        let one = &found[0];
        assert!((one.elapsed_s.expect("times") - 5.1).abs() < 1e-9);
        assert!((one.spread_s.expect("times") - 2.1).abs() < 1e-9);
    }

    #[test]
    fn what_a_process_spends_on_all_its_communicators_is_added_up() {
        let phases = [0.1, 0.0, 0.0, 0.0, 0.9, 0.0, 0.0, 0.0];
        let of = |pid, id| Init {
            pid,
            ..init(0, id, id, phases)
        };
        let all = together(&[of(5, 1), of(5, 2), of(6, 3), of(5, 4)]).expect("several");
        assert_eq!((all.communicators, all.pid, all.phase), (3, 5, "topo"));
        assert!((all.time_s - 3.0).abs() < 1e-9 && (all.phase_s - 2.7).abs() < 1e-9);
        assert_eq!(together(&[of(5, 1), of(6, 2)]), None);
        // Two containers that look like one process.
        let one = init(0, 1, 1, phases);
        let twin = Init {
            pid: one.pid,
            ..init(1, 1, 1, phases)
        };
        assert_eq!(together(&[one, twin]), None);
    }

    #[test]
    fn attempts_are_told_apart_by_the_processes_of_a_rank() {
        let of = |pid, rank, id| Init {
            pid,
            bus: Some(u64::from(rank)),
            ..init(rank, id, id, [0.0; 8])
        };
        let attempts = |inits: &[Init]| -> Vec<u32> {
            let found = communicators(inits);
            found.iter().map(|one| one.attempt).collect()
        };
        let [first, second] = [[of(5, 0, 1), of(6, 1, 1)], [of(7, 0, 2), of(8, 1, 2)]];
        assert_eq!(attempts(&[first.clone(), second.clone()].concat()), [1, 2]);
        // A group that only the second attempt came to make is of that attempt, too.
        let alone = |pid, rank| Init {
            nranks: 1,
            ..of(pid, rank, 3)
        };
        let three = [&first[..], &second[..], &[alone(7, 0)]].concat();
        assert_eq!(attempts(&three), [1, 2, 2]);
        assert_eq!(Attempts::of_inits(&three).of("n1", 8), Some(2));
        // Ray shows each process one GPU, as device 0. Pairs on other GPUs are no attempts.
        let on = |pid, rank, bus, id| Init {
            bus: Some(bus),
            device: Some(0),
            ..of(pid, rank, id)
        };
        let pairs = [
            on(5, 0, 1, 1),
            on(6, 1, 2, 1),
            on(7, 0, 3, 2),
            on(8, 1, 4, 2),
        ];
        assert_eq!(attempts(&pairs), [1, 1]);
    }

    #[test]
    fn the_time_of_several_communicators_is_counted_for_who_was_waited_for() {
        let usual = |wait| [0.2, 0.1, wait, 0.1, 0.1, 0.1, 0.1, 0.0];
        let slow = [9.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.0];
        let all = together(&[
            init(0, 1, 1, usual(12.6)),
            init(1, 1, 1, usual(0.1)),
            init(0, 2, 2, usual(8.9)),
            init(1, 2, 2, slow),
        ])
        .expect("several");
        let causes: Vec<(&str, f64, u32, u32)> = all
            .causes
            .iter()
            .map(|c| {
                (
                    c.phase,
                    (c.time_s * 100.0).round() / 100.0,
                    c.communicators,
                    c.rank,
                )
            })
            .collect();
        assert_eq!(causes[..2], [("late", 12.5, 1, 1), ("kernels", 9.2, 1, 1)]);
        let sum: f64 = all.causes.iter().map(|cause| cause.time_s).sum();
        assert!((sum - all.time_s).abs() < 1e-9, "{all:?}");
    }

    #[test]
    fn a_rank_that_never_ends_is_named() {
        let hung = Init {
            is_complete: false,
            timings: None,
            ..init(1, 1, 1, [0.0; 8])
        };
        let found = communicators(&[init(0, 1, 1, [0.0; 8]), hung]);
        assert_eq!(
            (found[0].ranks_known, found[0].unfinished.as_slice()),
            (1, &[1][..])
        );
        assert!(found[0].silent.is_empty());
        let one = communicators(&[init(1, 1, 1, [0.0; 8])]);
        assert_eq!(one[0].silent, [0]);
    }
}
