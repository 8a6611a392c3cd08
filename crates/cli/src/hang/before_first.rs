//! A job in which no process has made a communicator: what this machine and NCCL's log say of it.
//!
//! No recorder is loaded then, so nothing of the job is in its capture but what `ncclscope run` wrote. Its
//! processes carry the capture's folder in their environment, and the name of the file that NCCL writes.

use crate::run::adopt::traces;
use crate::run::{host_in_log, nccl_log_of, NCCL_LOGS};
use analyze::hang::{before_first, BeforeFirst, ByTime, Conditions, Hang, Starting};
use analyze::subject::ProcessId;
use analyze::time::Nanos;
use attach::processes;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// No machine has more ranks; an environment may say anything.
const MOST_RANKS: usize = 4096;

/// What is known of the job that records into `folder`, if there is no trace file yet; `None` if there is, or
/// if no process of the job runs on this machine and NCCL's log says nothing of it.
pub fn look(folder: &Path, after: Option<Nanos>) -> Option<Hang> {
    if !traces(folder).is_empty() {
        return None;
    }
    let job = tables::job(folder).ok()??;
    let ours = folder.canonicalize().ok()?;
    let host = capture::left::host().unwrap_or_default();
    let mut of_job: BTreeMap<u32, Found> = BTreeMap::new();
    for pid in processes::all().into_keys() {
        let environment = processes::environment(pid);
        let path = environment.get("NCCLSCOPE_RUN").map(Path::new);
        if path.and_then(|path| path.canonicalize().ok()).as_ref() != Some(&ours) {
            continue;
        }
        let Some(stat) = processes::stat(pid).filter(|stat| !stat.ended) else {
            continue;
        };
        of_job.insert(
            pid,
            Found {
                parent: stat.parent,
                is_stopped: stat.stopped,
                has_nccl: has_nccl(pid),
                rank: processes::rank(&environment).and_then(|rank| rank.parse().ok()),
                of_machine: of_machine(&environment),
                log: nccl_log_of(pid, &host, &environment),
            },
        );
    }
    // What the log of those says that are gone is in the capture.
    let logs: BTreeSet<PathBuf> = of_job
        .values()
        .filter_map(|found| found.log.clone())
        .collect();
    let logs: Vec<PathBuf> = logs.into_iter().collect();
    let log = crate::startup::of_files_and_folder(&logs, &folder.join(NCCL_LOGS)).ok();
    let log = log.filter(|log| log.lines + log.warned > 0);
    if of_job.is_empty() && log.is_none() {
        return None;
    }
    let inits = || {
        log.iter()
            .flat_map(|log| &log.inits)
            .filter(|init| !init.is_complete)
    };
    let said = log.as_ref();
    let said = said.and_then(|said| render::startup::sentence(&analyze::startup::of_said(said)));
    let is_it = |of: &str, own: u32, pid: u32| own == pid && host_in_log(of) == host_in_log(&host);
    let starting = |pid: u32| Starting {
        name: ProcessId {
            rank: of_job[&pid].rank,
            host: host.clone(),
            pid,
        },
        has_nccl: of_job[&pid].has_nccl,
        in_init: inits().any(|init| is_it(&init.host, init.pid, pid)),
        has_log: log
            .iter()
            .flat_map(|log| &log.speakers)
            .any(|(host, own)| is_it(host, *own, pid)),
        is_stopped: of_job[&pid].is_stopped,
    };
    let found = BeforeFirst {
        processes: one_of_each(&of_job).into_iter().map(starting).collect(),
        gone: gone(&of_job),
        running_for: since(&job),
        in_init_for: inits()
            .filter_map(|init| init.started_s)
            .reduce(f64::max)
            .map(ago),
        by_time: ByTime::Unknown,
        said,
    };
    Some(before_first(folder, found, &Conditions { after }))
}

/// A process of the job.
struct Found {
    parent: u32,
    is_stopped: bool,
    has_nccl: bool,
    rank: Option<u32>,
    /// Where NCCL's log of it is.
    log: Option<PathBuf>,
    /// Which ranks its launcher started on this machine, if it says so.
    of_machine: Option<Range<u32>>,
}

/// The ranks that torchrun or Open MPI started on the machine of a process with this environment: they number
/// the ranks of a machine in a row.
fn of_machine(environment: &HashMap<String, String>) -> Option<Range<u32>> {
    let number = |name: &str| environment.get(name)?.parse::<u32>().ok();
    let of = |[rank, local, size]: [&str; 3]| {
        let first = number(rank)?.checked_sub(number(local)?)?;
        Some(first..first.checked_add(number(size)?)?)
    };
    of(["RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"]).or_else(|| {
        of([
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "OMPI_COMM_WORLD_LOCAL_SIZE",
        ])
    })
}

/// Ranks of this machine without a process; none if processes disagree about which ranks these are.
fn gone(all: &BTreeMap<u32, Found>) -> Vec<u32> {
    let mut of_machine = all.values().filter_map(|found| found.of_machine.clone());
    let Some(ranks) = of_machine.next().filter(|ranks| ranks.len() <= MOST_RANKS) else {
        return Vec::new();
    };
    if of_machine.any(|other| other != ranks) {
        return Vec::new();
    }
    let there: BTreeSet<u32> = all.values().filter_map(|found| found.rank).collect();
    ranks.filter(|rank| !there.contains(rank)).collect()
}

/// The processes that make communicators, as far as that can be told: those that have loaded NCCL, and of
/// each other rank the first. Without ranks and NCCL: those that have started no other.
fn one_of_each(all: &BTreeMap<u32, Found>) -> Vec<u32> {
    let mut of_rank: BTreeMap<u32, u32> = BTreeMap::new();
    for (pid, found) in all {
        if let Some(rank) = found.rank {
            let first = of_rank.entry(rank).or_insert(*pid);
            // Data loaders have their parent's rank.
            let is_child = |pid: u32, of: u32| all[&pid].parent == of;
            if found.has_nccl && !all[first].has_nccl || is_child(*first, *pid) {
                *first = *pid;
            }
        }
    }
    let with_nccl = all.iter().filter(|(_, found)| found.has_nccl);
    let with_nccl: Vec<u32> = with_nccl.map(|(pid, _)| *pid).collect();
    let is_parent = |pid: &u32| all.values().any(|found| found.parent == *pid);
    match (of_rank.is_empty(), with_nccl.is_empty()) {
        (false, _) => of_rank.into_values().collect(),
        (true, false) => with_nccl,
        (true, true) => all.keys().copied().filter(|pid| !is_parent(pid)).collect(),
    }
}

/// For how long the job has run, ns.
fn since(job: &serde_json::Value) -> Option<Nanos> {
    let started: jiff::Timestamp = job.get("started")?.as_str()?.parse().ok()?;
    let ran = jiff::Timestamp::now().as_nanosecond() - started.as_nanosecond();
    Some(Nanos(ran.max(0) as f64))
}

/// How long ago a time was; seconds since 1970.
fn ago(at_s: f64) -> Nanos {
    let now = Nanos(jiff::Timestamp::now().as_nanosecond() as f64);
    (now - Nanos::from_seconds(at_s)).max(Nanos::ZERO)
}

fn has_nccl(pid: u32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().any(|line| line.contains("/libnccl.so"))
}
