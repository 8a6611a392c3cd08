//! What the figures mean here, and what NCCL can't show.
//!
//! Rule: a note names what is not visible and why, with the version or setting that makes it so; it never
//! guesses a figure.

use crate::behind::{self, Behind};
use crate::operations::Operation;
use crate::phases::Phases;
use capture::live::{flag, part};
use std::collections::{BTreeMap, BTreeSet};
use tables::marks::{Origin, Source};
use tables::{Capture, Process};

pub mod patterns;

use crate::callers::CallerRow;
use patterns::Unused;

/// NCCL turned Broadcast into a kind of operation that it does not announce.
const SILENT_BROADCAST: u32 = 22_900;
/// From here on symmetric kernels are announced.
const SYMMETRIC_SHOWN: u32 = 23_100;
/// API calls are announced from here on, so a call without a kernel event can be told.
const API_EVENTS: u32 = 22_800;
/// Kernel events carry stamps from here on.
const STAMPS: u32 = 22_700;

/// What the figures of a report mean, or what it can't show.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// The report is of a part of the run.
    Part {
        /// Which, in words of the user's choice.
        part: String,
        /// Calls of the run that are left out.
        left_out: u64,
    },
    /// `ncclscope attach` recorded it from outside.
    Attached,
    /// It left these functions out, as `ncclAllReduce, ncclSend`.
    LeftOut(String),
    /// So many of its processes ended while they were recorded.
    Ended {
        /// These.
        ended: usize,
        /// All.
        of: usize,
    },
    /// Of communicators that were made before, nobody knows which ranks belong together.
    UnknownMembers,
    /// It is a file of another tool.
    OtherTool(String),
    /// Files do not say on which hosts they were written.
    UnknownHosts,
    /// Another profiler plugin was behind the recorder.
    Behind(Behind),
    /// What the user asked for with a variable had no effect.
    NoEffect {
        /// The variable.
        variable: &'static str,
        /// In these processes.
        processes: HowMany,
        /// Why.
        why: String,
    },
    /// Steps are those that the program marks itself, and not those of this source.
    Unused(Source),
    /// Steps are from this source.
    Steps {
        /// The source.
        source: Source,
        /// Its names of steps.
        names: Vec<String>,
    },
    /// This source marked no steps, though it was asked to.
    NoSteps {
        /// The source.
        source: Source,
        /// In these processes.
        processes: HowMany,
    },
    /// NCCL's own phases of kernels.
    Phases(Phases),
    /// No call has a GPU time.
    NoTimes(NoTimes),
    /// So many GPU times include the latency of a launch.
    OnIdleStreams {
        /// These.
        idle: u64,
        /// All.
        timed: u64,
    },
    /// GPU times are of a sample of launches.
    Sampled,
    /// Some process has no network figures in its totals.
    UnseenNetwork,
    /// NCCL does not announce kernels for Broadcast.
    SilentBroadcast {
        /// The version of NCCL.
        nccl: Option<String>,
        /// Calls without one.
        calls: u64,
    },
    /// NCCL announced calls at the API only.
    Silent {
        /// The version of NCCL.
        nccl: Option<String>,
        /// Calls.
        calls: u64,
        /// That version does so with symmetric-memory kernels and copy engines.
        symmetric: bool,
    },
    /// Copy engines did so many calls.
    CopyEngines(u64),
    /// No operation has a GPU time of every rank, so there are no bandwidths.
    NoneMatched,
    /// A bandwidth is left out.
    NoBandwidth {
        /// Of this function.
        function: Option<String>,
        /// Why.
        why: Option<String>,
    },
    /// Percentiles are from histograms.
    Histograms,
    /// NCCL does not say how many ranks communicators have.
    UnknownSizes,
    /// Calls have no line of the program.
    WithoutLine {
        /// Calls.
        calls: u64,
        /// Why.
        why: String,
    },
    /// The user's patterns of kernels change nothing: there are no kernel windows.
    PatternsWithoutWindows,
    /// One of them fits no kernel.
    PatternUnused {
        /// The pattern.
        pattern: String,
        /// Why, as far as that shows.
        why: Unused,
    },
    /// So many more of them fit none.
    MorePatternsUnused(usize),
    /// Who waited for whom is by one in so many operations.
    OneIn(u64),
    /// The first calls on communicators are in the first step.
    WarmUpInSteps {
        /// That step, µs.
        first_us: f64,
        /// The median step, µs.
        p50_us: f64,
        /// Steps.
        steps: u64,
        /// By so much that makes the mean step longer.
        share: f64,
    },
}

/// Why no call has a GPU time.
#[derive(Clone, Debug, PartialEq)]
pub enum NoTimes {
    /// NCCL of this version has no stamps.
    NoStamps {
        /// The version.
        nccl: Option<String>,
    },
    /// The recorder said why, as it follows the word "because".
    Because(String),
    /// The user switched GPU timing off.
    Off,
}

/// How many of the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HowMany {
    /// So many.
    pub n: u64,
    /// All.
    pub of: u64,
}

/// Why no call has a GPU time, if that was so from the beginning of the job.
pub fn no_times(capture: &Capture, rows: &[Operation]) -> Option<NoTimes> {
    let mut processes = capture.processes.iter();
    if let Some(process) = processes.find(|p| !has_stamps(p) && is_ours(p)) {
        return Some(NoTimes::NoStamps {
            nccl: version(process),
        });
    }
    let mut processes = capture.processes.iter();
    let off = processes.any(|p| p.fact("timing") == Some("host"));
    if !off || rows.iter().any(|o| o.timed > 0) {
        return None;
    }
    let because = |p: &Process| p.fact("timing_because").map(str::to_owned);
    let said = capture.processes.iter().find_map(because);
    Some(said.map_or(NoTimes::Off, NoTimes::Because))
}

/// That this is not all of the run.
fn part(capture: &Capture) -> Option<Note> {
    Some(Note::Part {
        part: capture.part.clone()?,
        left_out: capture.processes.iter().map(|of| of.forgotten).sum(),
    })
}

/// The notes on a capture, from its processes' facts and what was gathered from their calls.
pub fn notes(
    capture: &Capture,
    silent: Silent,
    phases: Option<Phases>,
    rows: &[Operation],
) -> Vec<Note> {
    let mut notes = Vec::new();
    notes.extend(part(capture));
    from_outside(capture, &mut notes);
    of_other_tools(capture, &mut notes);
    notes.extend(behind::rows(capture).into_iter().map(Note::Behind));
    no_ranges(capture, &mut notes);
    of_origin(capture, &mut notes);
    notes.extend(phases.map(Note::Phases));
    notes.extend(no_times(capture, rows).map(Note::NoTimes));
    let sum = |of: fn(&Operation) -> u64| rows.iter().map(of).fold(0, u64::saturating_add);
    let idle = sum(|o| o.on_idle_stream);
    // Other tools have times of kernels, and not of events around launches.
    if idle > 0 && capture.processes.iter().any(is_ours) {
        let timed = sum(|o| o.timed);
        notes.push(Note::OnIdleStreams { idle, timed });
    }
    if rows.iter().any(|o| o.untimed.contains_key("unsampled")) {
        notes.push(Note::Sampled);
    }
    if unseen_network(capture) {
        notes.push(Note::UnseenNetwork);
    }
    silent.note(&mut notes);
    let mut timed = rows.iter().filter(|o| o.time_us.is_some() && !o.is_p2p());
    if timed.next().is_some() && rows.iter().all(|o| o.matched == 0) {
        notes.push(Note::NoneMatched);
    }
    let refused = rows.iter().filter(|o| o.bandwidth_refused.is_some());
    notes.extend(refused.take(3).map(|operation| Note::NoBandwidth {
        function: operation.function.clone(),
        why: operation.bandwidth_refused.clone(),
    }));
    if rows.iter().any(|o| o.percentile_error > 0.0) {
        notes.push(Note::Histograms);
    }
    if rows
        .iter()
        .any(|o| o.communicator.is_some() && o.nranks.is_none())
        && capture.processes.iter().any(is_ours)
    {
        notes.push(Note::UnknownSizes);
    }
    notes
}

/// Whether a process was recorded by the plugin inside of it.
fn is_ours(process: &Process) -> bool {
    !process.is_attached() && process.other_tool().is_none()
}

/// What files of other tools do not say.
fn of_other_tools(capture: &Capture, notes: &mut Vec<Note>) {
    let mut tools: Vec<&str> = capture
        .processes
        .iter()
        .filter_map(Process::other_tool)
        .collect();
    tools.sort_unstable();
    tools.dedup();
    let tools = tools.into_iter().map(str::to_owned);
    notes.extend(tools.map(Note::OtherTool));
    if capture.processes.iter().any(Process::is_host_unknown) {
        notes.push(Note::UnknownHosts);
    }
}

/// Where the steps are from if the program did not mark them itself, or why there are none, if they were
/// asked for.
fn of_origin(capture: &Capture, notes: &mut Vec<Note>) {
    for source in [Source::Nvtx, Source::Torch] {
        of_source(capture, source, notes);
    }
}

fn of_source(capture: &Capture, source: Source, notes: &mut Vec<Note>) {
    let asked = |process: &&Process| {
        let value = process.fact("env.NCCLSCOPE_STEPS").unwrap_or("");
        let value = value.trim().to_ascii_lowercase();
        let is_asked = match source {
            Source::Nvtx => value.starts_with("nvtx"),
            Source::Torch => value == "torch",
        };
        is_asked && process.fact("steps_because").is_none()
    };
    let processes = capture.processes.iter();
    let told: Vec<(&Process, &Origin)> = processes
        .filter_map(|process| Some((process, process.marks.origin.as_ref()?)))
        .filter(|(_, origin)| origin.source == source)
        .collect();
    if told.iter().any(|(_, origin)| origin.unused > 0) {
        notes.push(Note::Unused(source));
    }
    let are_steps = told
        .iter()
        .filter(|(process, origin)| origin.unused == 0 && process.marks.steps.len() > 1);
    let names: BTreeSet<&str> = are_steps
        .filter_map(|(_, origin)| origin.name.as_deref())
        .collect();
    if !names.is_empty() {
        let names = names.into_iter().map(str::to_owned).collect();
        notes.push(Note::Steps { source, names });
    }
    let all = capture.processes.iter().filter(asked);
    let none = all
        .clone()
        .filter(|process| process.marks.steps.len() < 2)
        .count();
    // A part of a run may have no whole step.
    if none > 0 && capture.part.is_none() {
        let processes = HowMany {
            n: none as u64,
            of: all.count() as u64,
        };
        notes.push(Note::NoSteps { source, processes });
    }
}

/// That what was to be done with NVTX or Score-P was not.
fn no_ranges(capture: &Capture, notes: &mut Vec<Note>) {
    for (fact, variable) in [
        ("nvtx_because", "NCCLSCOPE_NVTX"),
        ("scorep_because", "NCCLSCOPE_SCOREP"),
        ("steps_because", "NCCLSCOPE_STEPS"),
    ] {
        let mut by_why: BTreeMap<&str, u64> = BTreeMap::new();
        for why in capture.processes.iter().filter_map(|p| p.fact(fact)) {
            *by_why.entry(why).or_default() += 1;
        }
        let all = capture.processes.len() as u64;
        notes.extend(by_why.into_iter().map(|(why, n)| Note::NoEffect {
            variable,
            processes: HowMany { n, of: all },
            why: why.to_owned(),
        }));
    }
}

/// What can't be seen from outside of a process.
fn from_outside(capture: &Capture, notes: &mut Vec<Note>) {
    let mut attached = capture
        .processes
        .iter()
        .filter(|p| p.is_attached())
        .peekable();
    if attached.peek().is_none() {
        return;
    }
    notes.push(Note::Attached);
    notes.extend(not_recorded(capture).map(Note::LeftOut));
    let ends: Vec<bool> = attached.clone().map(|p| p.ended).collect();
    notes.push(Note::Ended {
        ended: ends.iter().filter(|ended| **ended).count(),
        of: ends.len(),
    });
    if attached.flat_map(|p| &p.communicators).any(|c| c.hash == 0) {
        notes.push(Note::UnknownMembers);
    }
}

/// The functions of NCCL that `ncclscope attach` left out, as `ncclAllReduce, ncclSend`.
pub(crate) fn not_recorded(capture: &Capture) -> Option<String> {
    let left_out = capture
        .processes
        .iter()
        .filter_map(|p| p.fact("not_recorded"));
    let functions: BTreeSet<&str> = left_out.flat_map(|of| of.split(',')).collect();
    let functions: Vec<&str> = functions.into_iter().collect();
    (!functions.is_empty()).then(|| functions.join(", "))
}

/// Whether the NCCL of a process can stamp kernels; also when it isn't known.
pub(crate) fn has_stamps(process: &Process) -> bool {
    process.nccl_version().is_none_or(|nccl| nccl >= STAMPS)
}

/// Whether a job of several nodes was recorded in totals alone, which keep nothing of the network.
fn unseen_network(capture: &Capture) -> bool {
    let without = |process: &Process| {
        process.net_totals.is_empty() && process.fact("mode") == Some("profile")
    };
    capture.processes.iter().any(without)
        && capture
            .communicators
            .iter()
            .any(|c| c.nnodes.is_some_and(|nodes| nodes > 1))
}

fn version(process: &Process) -> Option<String> {
    process.fact("nccl").map(str::to_owned)
}

/// Calls that NCCL announces at the API and never again, counted.
#[derive(Default)]
pub struct Silent {
    broadcast: BTreeMap<Option<String>, u64>,
    others: BTreeMap<(Option<String>, bool), u64>,
    copy_engine: u64,
}

/// What a silent call of a shape would be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SilentKind {
    Announced,
    CopyEngine,
    Broadcast,
    Other,
}

impl Silent {
    /// Counts the silent calls of a process.
    pub fn add(&mut self, capture: &Capture, process: &Process) {
        let nccl = process.nccl_version().unwrap_or(0);
        let mask = process
            .fact("mask")
            .and_then(|m| u64::from_str_radix(m.trim_start_matches("0x"), 16).ok());
        // Without any of these bits NCCL was not asked for more than the API call.
        let asked = mask.is_none_or(|mask| mask & 0xde != 0) && nccl >= API_EVENTS;
        let asked = asked && is_ours(process);
        let kinds: Vec<SilentKind> = process
            .shapes
            .iter()
            .map(|shape| {
                let silent = shape.parts & part::ENQUEUED == 0
                    && shape.flags & (flag::CAPTURED | flag::P2P) == 0;
                let broadcast = capture.names.get(shape.function) == Some("Broadcast");
                if shape.parts & part::COPY_ENGINE != 0 {
                    SilentKind::CopyEngine
                } else if !silent || !asked {
                    SilentKind::Announced
                } else if broadcast && nccl >= SILENT_BROADCAST {
                    SilentKind::Broadcast
                } else {
                    SilentKind::Other
                }
            })
            .collect();
        if kinds.iter().all(|kind| *kind == SilentKind::Announced) {
            return;
        }
        let (mut broadcast, mut others) = (0, 0);
        for call in process.calls.iter().filter(|c| c.sealed) {
            match kinds[call.shape as usize] {
                SilentKind::CopyEngine => self.copy_engine += 1,
                SilentKind::Broadcast if call.channels_started == 0 => broadcast += 1,
                SilentKind::Other if call.channels_started == 0 => others += 1,
                _ => {}
            }
        }
        if broadcast > 0 {
            *self.broadcast.entry(version(process)).or_insert(0) += broadcast;
        }
        if others > 0 {
            let key = (version(process), nccl < SYMMETRIC_SHOWN);
            *self.others.entry(key).or_insert(0) += others;
        }
    }

    /// Takes in what another counted.
    pub fn merge(&mut self, other: Silent) {
        self.copy_engine += other.copy_engine;
        for (key, n) in other.broadcast {
            *self.broadcast.entry(key).or_insert(0) += n;
        }
        for (key, n) in other.others {
            *self.others.entry(key).or_insert(0) += n;
        }
    }

    fn note(self, notes: &mut Vec<Note>) {
        let broadcast = self.broadcast.into_iter();
        notes.extend(broadcast.map(|(nccl, calls)| Note::SilentBroadcast { nccl, calls }));
        let others = self.others.into_iter();
        notes.extend(others.map(|((nccl, symmetric), calls)| Note::Silent {
            nccl,
            calls,
            symmetric,
        }));
        if self.copy_engine > 0 {
            notes.push(Note::CopyEngines(self.copy_engine));
        }
    }
}

/// What is not known of callers, a note for each cause.
pub(crate) fn of_callers(callers: &[CallerRow]) -> Vec<Note> {
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    for row in callers {
        let caller = row.caller.as_deref().unwrap_or("");
        if let Some(why) = caller.strip_prefix("unknown: ") {
            let calls = causes.entry(why).or_default();
            *calls = calls.saturating_add(row.calls);
        }
    }
    let note = |(why, calls): (&str, u64)| Note::WithoutLine {
        calls,
        why: why.to_owned(),
    };
    causes.into_iter().map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_attach_left_out_is_a_note() {
        let mut process = Process::default();
        let mut fact = |key: &str, value: &str| process.facts.insert(key.into(), value.into());
        fact("mode", "attach");
        fact("not_recorded", "ncclSend,ncclRecv");
        let capture = Capture {
            processes: vec![process.clone(), process, Process::default()],
            ..Capture::default()
        };
        let mut notes = Vec::new();
        from_outside(&capture, &mut notes);
        let left_out = Note::LeftOut("ncclRecv, ncclSend".to_owned());
        assert!(notes.contains(&left_out), "{notes:?}");
    }
}
