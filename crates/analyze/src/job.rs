//! What was recorded, by whom and how.

use crate::attempts::AttemptRow;
use crate::jobs::JobRow;
use crate::memory::Memory;
use crate::moments::Zone;
use crate::ranks::Ranks;
use crate::spelling::ranges;
use crate::subject::ProcessId;
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use tables::{Capture, LiveSource, Newest, Process};

/// The job of a capture.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Job {
    /// Where the capture is.
    pub capture: String,
    /// Its id, where `ncclscope run` made it.
    pub id: Option<String>,
    /// The command that was run. Of a job that `ncclscope attach` recorded, that of its first process.
    pub command: Option<String>,
    /// Start, RFC 3339, in the recording's time zone. With `ncclscope attach`, start and end are those of the
    /// recording.
    pub started: Option<String>,
    /// End, RFC 3339.
    pub ended: Option<String>,
    /// The time zone of the recording, such as Europe/Berlin; null if it was not recorded.
    pub zone: Option<String>,
    /// From start to end of the command; without these, the longest of any rank.
    pub wall_us: Option<f64>,
    /// What the command returned; null with `ncclscope attach`, which does not see it.
    pub exit_status: Option<i64>,
    /// Hosts by name.
    pub hosts: Vec<String>,
    /// The jobs, if several were recorded into one folder; the figures are of all of them together.
    pub jobs: Vec<JobRow>,
    /// Processes with a trace.
    pub nprocesses: usize,
    /// Ranks that the launcher spoke of.
    pub world_size: Option<u32>,
    /// torchrun restarts that were recorded; null if files of another tool do not say.
    pub restarts: Option<u32>,
    /// The attempt that the figures are of; null if the job was started once.
    pub attempt: Option<u32>,
    /// The attempts of a job that was started several times, the oldest first.
    pub attempts: Vec<AttemptRow>,
    /// Which part of the run the figures are of, such as `steps 100 to 199 of 860`; null if of all of it.
    pub part: Option<String>,
    /// Versions of NCCL.
    pub nccl: Vec<String>,
    /// Versions of the GPU driver, and the newest CUDA that it supports.
    pub driver: Vec<String>,
    /// System and processor, such as `Linux x86_64` or `Linux aarch64, WSL2`.
    pub platform: Vec<String>,
    /// GPUs that hosts have, as `8 x NVIDIA H200`.
    pub gpu: Vec<String>,
    /// Values of each NCCL variable; `null` where some processes have none.
    pub environment: BTreeMap<String, Vec<Option<String>>>,
    /// Recording modes.
    pub mode: Vec<String>,
    /// Whether it is of files that other tools wrote.
    #[serde(skip)]
    pub is_of_other_tool: bool,
    /// Time sources asked for.
    pub timing: Vec<String>,
    /// What makes the figures of a benchmark worth less than those of a whole run with right data.
    #[serde(skip)]
    pub faults: Vec<String>,
    /// Processes of each of the runs of a benchmark that were made one after the other; empty for one run.
    #[serde(skip)]
    pub runs: Vec<usize>,
}

impl Job {
    /// Whether it is what nccl-tests printed.
    pub fn is_benchmark(&self) -> bool {
        self.mode == ["nccl-tests"]
    }

    /// How many processes each run of a benchmark had, as `72 and 2`, if jobs are runs one after the other.
    pub fn sizes_of_runs(&self) -> Option<String> {
        if self.runs.len() < 2 || self.runs.len() != self.jobs.len() {
            return None;
        }
        let sizes: Vec<String> = self.runs.iter().map(usize::to_string).collect();
        Some(listed(&sizes))
    }
}

/// `a, b and c`.
pub fn listed(names: &[String]) -> String {
    match names.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => names.concat(),
    }
}

/// A communicator in a report.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Communicator")]
pub struct CommunicatorRow {
    /// Its id, unique in the capture.
    pub communicator: String,
    /// Name given by the program; null if it gave none.
    pub name: Option<String>,
    /// Its ranks; null if the profiler ABI does not tell (v1 to v3).
    pub nranks: Option<u32>,
    /// Its nodes.
    pub nnodes: Option<u32>,
    /// Communicator it was made from; null if there is none, or none that is proved.
    pub parent: Option<String>,
    /// Why that is the parent.
    pub parent_evidence: Option<String>,
    /// The launcher's ranks of its members, as `0-7` or `0-56:8` (every eighth); null where some are not
    /// known. If one drives several GPUs, with these: `0/0-3`, or `0x4` if they are not known.
    pub ranks: Option<String>,
    /// What NCCL allocated for it on the GPU of its largest rank, bytes; null if NCCL's output is not
    /// recorded.
    pub nccl_gpu_bytes: Option<u64>,
    /// Ranks in the capture.
    pub members: Vec<MemberRow>,
}

/// One rank of a communicator in a report.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Member")]
pub struct MemberRow {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// The launcher's rank.
    pub global_rank: Option<u32>,
    /// CUDA device ordinal.
    pub device: Option<u32>,
}

/// Something unsound in a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// In a file.
    InFile(tables::Problem),
    /// The last calls of a process are not in the capture.
    LastCalls {
        /// The file of the process.
        file: PathBuf,
        /// The process, as reports call it.
        process: String,
        /// Where the calls are.
        are: LastCalls,
    },
}

/// Where the last calls of a process are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastCalls {
    /// Nowhere: an ended process left no snapshot that can be read.
    Nowhere,
    /// Nobody knows: what says it is damaged or missing.
    Unknown,
    /// In this place, from which `ncclscope collect` brings them.
    In(Place),
    /// In the memory of the job, which still runs.
    Running,
    /// They were in this place, and are lost.
    Lost(Place),
}

/// Where a process kept its last calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the memory of `ncclscope run` on this host.
    Run(String),
    /// In this file on this host.
    File(String, String),
    /// It did not say where.
    Unknown,
}

/// What a fact is over all processes.
fn all(capture: &Capture, fact: impl Fn(&Process) -> Option<String>) -> Vec<String> {
    capture
        .processes
        .iter()
        .filter_map(fact)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// The job.
pub fn job(capture: &Capture, ranks: &Ranks, jobs: &[Vec<usize>]) -> Job {
    let fact = |key: &'static str| all(capture, |p| p.fact(key).map(str::to_owned));
    let text = |key: &str| {
        capture
            .job
            .get(key)
            .and_then(|v| v.as_str())
            .map(str::to_owned)
    };
    let zone = Zone::of(capture);
    let words = capture.job.get("command").and_then(|v| v.as_array());
    let command = words.map(|words| {
        words
            .iter()
            .filter_map(|w| w.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    });
    // What `ncclscope attach` wrote into capture.json is its own command, and its own end.
    let attached =
        !capture.processes.is_empty() && capture.processes.iter().all(Process::is_attached);
    let command = command.filter(|_| !attached);
    let status = capture.job.get("exit_status").and_then(|v| v.as_i64());
    let sizes = capture
        .processes
        .iter()
        .filter_map(|p| p.fact("world_size")?.parse().ok());
    let mut processes = capture.processes.iter();
    let is_of_other_tool = processes.any(|process| process.other_tool().is_some());
    let restarts = capture.attempts.iter().map(|attempt| attempt.restart);
    let restarts = restarts.chain(capture.processes.iter().map(|p| p.restart));
    // The launcher's end is that of the last attempt, and its start that of the first.
    let is_last = capture
        .attempt
        .is_none_or(|attempt| attempt as usize >= capture.attempts.len());
    let launched = match capture.attempts.len() {
        0 | 1 => wall_us(text("started"), text("ended")),
        _ => None,
    };
    Job {
        capture: capture.path.display().to_string(),
        id: text("id"),
        command: command.or_else(|| fact("command").into_iter().next()),
        started: text("started").map(|started| zone.moved(started)),
        ended: text("ended").map(|ended| zone.moved(ended)),
        zone: zone.name.clone(),
        wall_us: launched.or_else(|| ranks.wall_us.map(|wall| wall.max)),
        exit_status: status.filter(|_| !attached && is_last),
        hosts: all(capture, |p| (!p.host.is_empty()).then(|| p.host.clone())),
        jobs: crate::jobs::rows(capture, jobs),
        nprocesses: capture.processes.len(),
        world_size: sizes.max(),
        restarts: (!is_of_other_tool).then(|| restarts.max().unwrap_or(0)),
        attempt: capture.attempt.filter(|_| capture.attempts.len() > 1),
        attempts: crate::attempts::rows(capture),
        part: capture.part.clone(),
        nccl: fact("nccl"),
        driver: drivers(capture),
        platform: fact("platform"),
        gpu: fact("gpus"),
        environment: environment(capture),
        mode: fact("mode"),
        is_of_other_tool,
        timing: fact("timing"),
        faults: fact("fault"),
        runs: runs(capture),
    }
}

/// Processes of each of several runs.
fn runs(capture: &Capture) -> Vec<usize> {
    let mut by_run: BTreeMap<u64, usize> = BTreeMap::new();
    for process in &capture.processes {
        if let Some(run) = process.fact("run").and_then(|run| run.parse().ok()) {
            *by_run.entry(run).or_default() += 1;
        }
    }
    by_run.into_values().collect()
}

/// Versions of the driver. A process that knew CUDA's alone adds nothing to one that knew both.
fn drivers(capture: &Capture) -> Vec<String> {
    let mut found = all(capture, |p| {
        let parts = [p.fact("driver_version"), p.fact("driver")];
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    });
    let whole = found.clone();
    found.retain(|one| {
        let mut more = whole
            .iter()
            .filter_map(|other| other.strip_suffix(one.as_str()));
        !more.any(|before| before.ends_with(", "))
    });
    found
}

fn wall_us(started: Option<String>, ended: Option<String>) -> Option<f64> {
    let time = |text: Option<String>| text?.parse::<jiff::Timestamp>().ok();
    let ns = time(ended)?.as_nanosecond() - time(started)?.as_nanosecond();
    (ns > 0).then(|| Nanos(ns as f64).us())
}

/// The NCCL variables that processes had, and their values.
fn environment(capture: &Capture) -> BTreeMap<String, Vec<Option<String>>> {
    let mut found: BTreeMap<&str, BTreeSet<Option<&str>>> = BTreeMap::new();
    for process in &capture.processes {
        for (key, value) in &process.facts {
            // Container images set NCCL_VERSION to the version that they were built with; NCCL does not read
            // it.
            let is_setting = |name: &&str| name.starts_with("NCCL_") && *name != "NCCL_VERSION";
            if let Some(name) = key.strip_prefix("env.").filter(is_setting) {
                found.entry(name).or_default().insert(Some(value));
            }
        }
    }
    found
        .into_iter()
        .map(|(name, mut values)| {
            let fact = format!("env.{name}");
            if !capture
                .processes
                .iter()
                .all(|p| p.facts.contains_key(&fact))
            {
                values.insert(None);
            }
            let values = values.into_iter().map(|v| v.map(str::to_owned));
            (name.to_owned(), values.collect())
        })
        .collect()
}

/// The communicators.
pub fn communicators(capture: &Capture, memory: &Memory) -> Vec<CommunicatorRow> {
    let row = |communicator: &tables::Communicator| CommunicatorRow {
        communicator: communicator.id.clone(),
        name: communicator.name.clone(),
        nranks: communicator.nranks,
        nnodes: communicator.nnodes,
        parent: communicator
            .parent
            .as_ref()
            .map(|p| capture.communicators[p.communicator].id.clone()),
        parent_evidence: communicator.parent.as_ref().map(|p| p.evidence.clone()),
        ranks: ranks_of(capture, communicator),
        nccl_gpu_bytes: memory.of(&communicator.id),
        members: communicator
            .members
            .iter()
            .map(|member| {
                let process = &capture.processes[member.process];
                MemberRow {
                    process: ProcessId {
                        rank: member.rank,
                        host: process.host.clone(),
                        pid: process.pid,
                    },

                    global_rank: process.rank,
                    device: process.communicator(member.uid).and_then(|l| l.device),
                }
            })
            .collect(),
    };
    capture.communicators.iter().map(row).collect()
}

/// The launcher's ranks of its members, with their GPUs if one has several.
fn ranks_of(capture: &Capture, communicator: &tables::Communicator) -> Option<String> {
    // By rank, the devices of its members.
    let mut ranks: BTreeMap<u32, Vec<Option<u32>>> = BTreeMap::new();
    for member in &communicator.members {
        let process = &capture.processes[member.process];
        let device = process.communicator(member.uid).and_then(|l| l.device);
        ranks.entry(process.rank?).or_default().push(device);
    }
    if ranks.values().all(|devices| devices.len() == 1) {
        return (!ranks.is_empty()).then(|| ranges(ranks.into_keys()));
    }
    let one = |(rank, devices): (&u32, &Vec<Option<u32>>)| {
        let known: BTreeSet<u32> = devices.iter().copied().flatten().collect();
        if known.len() == devices.len() {
            format!("{rank}/{}", ranges(known))
        } else {
            format!("{rank}x{}", devices.len())
        }
    };
    Some(ranks.iter().map(one).collect::<Vec<_>>().join(","))
}

/// What was unsound, and whose last calls are elsewhere.
pub fn problems(capture: &Capture) -> Vec<Problem> {
    let in_files = capture.problems.iter().cloned().map(Problem::InFile);
    let last_calls = capture.processes.iter().filter_map(|process| {
        Some(Problem::LastCalls {
            file: process.file.clone(),
            process: process.title(),
            are: last_calls(process)?,
        })
    });
    in_files.chain(last_calls).collect()
}

/// Where the last calls of a process are; `None` if they are here, or a problem by themselves.
fn last_calls(process: &Process) -> Option<LastCalls> {
    let place = || match process.fact("live") {
        Some("memfd") => Place::Run(process.host.clone()),
        Some(path) => Place::File(path.to_owned(), process.host.clone()),
        None => Place::Unknown,
    };
    match process.newest {
        // An ended process leaves a snapshot.
        Newest::Here if process.live == LiveSource::None => Some(LastCalls::Nowhere),
        // What can't be read is a problem by itself.
        Newest::Here | Newest::Unreadable => None,
        Newest::Unknown if !process.is_collectable() => Some(LastCalls::Unknown),
        Newest::Elsewhere | Newest::Unknown => Some(LastCalls::In(place())),
        Newest::Running => Some(LastCalls::Running),
        Newest::Gone => Some(LastCalls::Lost(place())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_of_one_rank_have_names_of_their_own() {
        let with = |ranks: &[(u32, &[Option<u32>])]| {
            let mut capture = Capture::default();
            let mut communicator = crate::fixtures::communicator(0, &[]);
            for (index, (rank, devices)) in ranks.iter().enumerate() {
                let local = |(uid, device): (u32, &Option<u32>)| tables::communicators::Local {
                    uid,
                    device: *device,
                    ..Default::default()
                };
                capture.processes.push(Process {
                    rank: Some(*rank),
                    communicators: (0..).zip(*devices).map(local).collect(),
                    ..Process::default()
                });
                for uid in 0..devices.len() {
                    communicator.members.push(tables::communicators::Member {
                        process: index,
                        uid: uid as u32,
                        rank: None,
                    });
                }
            }
            ranks_of(&capture, &communicator)
        };
        let of = |ranks: &[(u32, &[Option<u32>])]| with(ranks).expect("known");
        assert_eq!(of(&[(0, &[Some(0)]), (1, &[Some(0)])]), "0-1");
        let four: &[Option<u32>] = &[Some(0), Some(1), Some(2), Some(3)];
        assert_eq!(of(&[(0, four)]), "0/0-3");
        assert_eq!(of(&[(0, four), (1, &[Some(6), Some(7)])]), "0/0-3,1/6-7");
        assert_eq!(of(&[(0, &[None, None])]), "0x2");
        assert_eq!(with(&[]), None);
    }

    #[test]
    fn a_driver_is_named_once_and_an_image_s_version_is_no_setting() {
        let process = |facts: &[(&str, &str)]| Process {
            facts: facts
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            ..Process::default()
        };
        let version = ("env.NCCL_VERSION", "2.25.1-1");
        let processes = vec![
            process(&[
                ("driver_version", "580.95"),
                ("driver", "CUDA 13.0"),
                version,
            ]),
            process(&[("driver", "CUDA 13.0"), ("env.NCCL_ALGO", "Ring"), version]),
        ];
        let capture = Capture {
            processes,
            ..Capture::default()
        };
        assert_eq!(drivers(&capture), ["580.95, CUDA 13.0"]);
        let environment = environment(&capture);
        assert_eq!(environment.keys().collect::<Vec<_>>(), ["NCCL_ALGO"]);
    }
}
