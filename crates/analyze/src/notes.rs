//! What the figures mean here, and what NCCL can't show.
//!
//! Rule: a note names what is not visible and why, with the version or setting that makes it so; it never
//! guesses a figure.

use crate::operations::Operation;
use crate::phases::Phases;
use capture::live::{flag, part};
use std::collections::{BTreeMap, BTreeSet};
use tables::marks::{Origin, Source};
use tables::{Capture, Process};

/// NCCL turned Broadcast into a kind of operation that it does not announce.
const SILENT_BROADCAST: u32 = 22_900;
/// From here on symmetric kernels are announced.
const SYMMETRIC_SHOWN: u32 = 23_100;
/// API calls are announced from here on, so a call without a kernel event can be told.
const API_EVENTS: u32 = 22_800;
/// Kernel events carry stamps from here on.
const STAMPS: u32 = 22_700;

/// Why no call has a GPU time.
#[derive(Clone, Debug)]
pub struct NoTimes {
    /// As it follows the word "because".
    pub because: String,
    /// As a note.
    pub note: String,
    /// What would tell times in this job, as a sentence.
    pub then: Option<&'static str>,
}

/// What tells times where events tell none.
pub(crate) const WINDOWS_TELL: &str = "Kernel windows on all ranks tell.";

/// Why no call has a GPU time, if that was so from the beginning of the job.
pub fn no_times(capture: &Capture, rows: &[Operation]) -> Option<NoTimes> {
    let mut processes = capture.processes.iter();
    if let Some(process) = processes.find(|p| !has_stamps(p) && is_ours(p)) {
        let version = version(process);
        return Some(NoTimes {
            because: format!("{version} has no GPU stamps (2.27 on)"),
            note: format!("{version} has no GPU stamps (2.27 on): no call has a GPU time."),
            then: Some(WINDOWS_TELL),
        });
    }
    let mut processes = capture.processes.iter();
    let off = processes.any(|p| p.fact("timing") == Some("host"));
    if !off || rows.iter().any(|o| o.timed > 0) {
        return None;
    }
    let because = |p: &Process| p.fact("timing_because").map(str::to_owned);
    Some(match capture.processes.iter().find_map(because) {
        Some(because) => NoTimes {
            note: format!("There are no GPU times: {because}."),
            because,
            then: None,
        },
        None => NoTimes {
            because: "GPU timing was off (NCCLSCOPE_TIMING=host)".to_owned(),
            note: "GPU timing was off (NCCLSCOPE_TIMING=host). Unset it to record GPU times."
                .to_owned(),
            then: Some("Without NCCLSCOPE_TIMING=host, GPU times tell."),
        },
    })
}

/// That this is not all of the run.
fn part(capture: &Capture) -> Option<String> {
    let part = capture.part.as_ref()?;
    let left_out: u64 = capture.processes.iter().map(|of| of.forgotten).sum();
    Some(format!(
        "This is {part} alone. {left_out} calls of the run are left out; whether the recording is complete \
         is said of all of the run."
    ))
}

/// The notes on a capture, from its processes' facts and what was gathered from their calls.
pub fn notes(
    capture: &Capture,
    silent: Silent,
    phases: Option<Phases>,
    rows: &[Operation],
) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(part(capture));
    from_outside(capture, &mut notes);
    of_other_tools(capture, &mut notes);
    notes.extend(crate::behind::sentences(capture));
    no_ranges(capture, &mut notes);
    of_origin(capture, &mut notes);
    notes.extend(phases.map(|phases| phases.sentence()));
    if let Some(because) = no_times(capture, rows) {
        notes.push(because.note);
    }
    let sum = |of: fn(&Operation) -> u64| rows.iter().map(of).fold(0, u64::saturating_add);
    let idle = sum(|o| o.on_idle_stream);
    // Other tools have times of kernels, and not of events around launches.
    if idle > 0 && capture.processes.iter().any(is_ours) {
        notes.push(format!(
            "{idle} of {} GPU times include about 5 µs of launch latency, because the stream was idle.",
            sum(|o| o.timed)
        ));
    }
    if rows.iter().any(|o| o.untimed.contains_key("unsampled")) {
        notes.push(
            "GPU times are of a sample of the launches (NCCLSCOPE_BUDGET): sums are estimates, extremes and \
             high percentiles are bounds, and waiting is that of the operations that were timed on all ranks."
                .to_owned(),
        );
    }
    if unseen_network(capture) {
        notes.push(
            "Mode profile keeps network figures as totals, and some process has none: it ended before it \
            wrote them, or its recorder is older.".to_owned(),
        );
    }
    silent.tell(&mut notes);
    let mut timed = rows.iter().filter(|o| o.time_us.is_some() && !o.is_p2p());
    if timed.next().is_some() && rows.iter().all(|o| o.matched == 0) {
        notes.push(
            "No operation has a row with a GPU time from every rank of its communicator: there is no algbw \
             or busbw of the shortest rank."
                .to_owned(),
        );
    }
    for operation in rows
        .iter()
        .filter(|o| o.bandwidth_refused.is_some())
        .take(3)
    {
        let text = |t: &Option<String>| t.clone().unwrap_or_else(|| "not known".to_owned());
        notes.push(format!(
            "No bandwidth for {}: {}.",
            text(&operation.function),
            text(&operation.bandwidth_refused)
        ));
    }
    if rows.iter().any(|o| o.percentile_error > 0.0) {
        notes.push("Percentiles of calls that were counted without rows come from histograms: error at most \
            1 %.".to_owned());
    }
    if rows
        .iter()
        .any(|o| o.communicator.is_some() && o.nranks.is_none())
        && capture.processes.iter().any(is_ours)
    {
        notes.push(
            "This NCCL does not tell a profiler how many ranks a communicator has (before 2.27): \
            null, and so is what needs it."
                .to_owned(),
        );
    }
    notes
}

/// Whether a process was recorded by `ncclscope attach`.
pub(crate) fn is_attached(process: &Process) -> bool {
    process.fact("mode") == Some("attach")
}

/// Whether a process was recorded by the plugin inside of it.
fn is_ours(process: &Process) -> bool {
    !is_attached(process) && process.other_tool().is_none()
}

/// What files of other tools do not say.
fn of_other_tools(capture: &Capture, notes: &mut Vec<String>) {
    let mut tools: Vec<&str> = capture
        .processes
        .iter()
        .filter_map(Process::other_tool)
        .collect();
    tools.sort_unstable();
    tools.dedup();
    for tool in tools {
        notes.push(format!(
            "This is a file of {tool}. Calls that it does not have are not known, and neither is \
             the network. The page `docs/reference/other-tools.md` says what such a \
             file can know."
        ));
    }
    let times = |process: &Process| {
        let known = process
            .fact("host")
            .is_some_and(|host| host.starts_with("unknown host"));
        process.other_tool().is_some() && known
    };
    if capture.processes.iter().any(times) {
        notes.push(
            "The files do not say on which hosts they were written, so the clocks of no two ranks are taken \
             for one."
                .to_owned(),
        );
    }
}

/// Where the steps are from if the program did not mark them itself, or why there are none, if they were
/// asked for.
fn of_origin(capture: &Capture, notes: &mut Vec<String>) {
    for source in [Source::Nvtx, Source::Torch] {
        of_source(capture, source, notes);
    }
}

fn of_source(capture: &Capture, source: Source, notes: &mut Vec<String>) {
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
        let what = match source {
            Source::Nvtx => "its NVTX ranges do",
            Source::Torch => "those of torch's optimizers do",
        };
        notes.push(format!(
            "The program marks its steps by `ncclscope.step()`, so {what} not count."
        ));
    }
    let are_steps = told
        .iter()
        .filter(|(process, origin)| origin.unused == 0 && process.marks.steps.len() > 1);
    let names: BTreeSet<&str> = are_steps
        .filter_map(|(_, origin)| origin.name.as_deref())
        .collect();
    if !names.is_empty() {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let names = names.join(", ");
        notes.push(match source {
            Source::Nvtx => format!("Steps are those of the program's NVTX ranges {names}."),
            Source::Torch => format!(
                "Steps are those of torch's optimizer {names}: a step lasts from the end of one `step()` to \
                 the end of the next."
            ),
        });
    }
    let all = capture.processes.iter().filter(asked);
    let none = all
        .clone()
        .filter(|process| process.marks.steps.len() < 2)
        .count();
    // A part of a run may have no whole step.
    if none > 0 && capture.part.is_none() {
        let who = match all.count() {
            all if all == none => String::new(),
            all => format!(" in {none} of {all} processes"),
        };
        notes.push(match source {
            Source::Nvtx => format!(
                "NVTX ranges marked no steps{who}: the program pushed less than two ranges of such a name. \
                 The page `docs/guides/steps.md` has the names, and `run --steps nvtx:NAME` takes another."
            ),
            Source::Torch => format!(
                "torch's optimizers marked no steps{who}: no optimizer stepped three times, or Python did \
                 not look for modules on PYTHONPATH (as with `python -I`, `-E` or `-S`). The page \
                 `docs/guides/steps.md` has all reasons."
            ),
        });
    }
}

/// That what was to be done with NVTX or Score-P was not.
fn no_ranges(capture: &Capture, notes: &mut Vec<String>) {
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
        notes.extend(by_why.into_iter().map(|(why, n)| {
            let who = if n == all {
                String::new()
            } else {
                format!(" in {n} of {all} processes")
            };
            format!("{variable} had no effect{who}: {why}.")
        }));
    }
}

/// What can't be seen from outside of a process.
fn from_outside(capture: &Capture, notes: &mut Vec<String>) {
    let mut attached = capture
        .processes
        .iter()
        .filter(|p| is_attached(p))
        .peekable();
    if attached.peek().is_none() {
        return;
    }
    notes.push(
        "`ncclscope attach` recorded this from outside: algorithms, networks and launches of CUDA graphs are \
         not seen. A call that was captured into a graph counts once."
            .to_owned(),
    );
    if let Some(functions) = not_recorded(capture) {
        notes.push(format!(
            "Calls of {functions} were not recorded, because a probe there costs some 10 µs a call: \
             `ncclscope attach --slow` records them."
        ));
    }
    let ends: Vec<bool> = attached.clone().map(|p| p.ended).collect();
    let ended = ends.iter().filter(|ended| **ended).count();
    notes.push(match ended {
        0 => "The job went on when the recording ended.".to_owned(),
        n if n == ends.len() => {
            "All processes ended while they were recorded. From outside, it is not seen how."
                .to_owned()
        }
        n => format!(
            "{n} of {} processes ended while they were recorded. From outside, it is not seen how.",
            ends.len()
        ),
    });
    if attached.flat_map(|p| &p.communicators).any(|c| c.hash == 0) {
        notes.push(
            "Of communicators that were made before that, it is not known which ranks belong together. So \
             there is no waiting and no late rank: `ncclscope run` from the start shows both."
                .to_owned(),
        );
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

/// How NCCL is called in a note.
fn version(process: &Process) -> String {
    process
        .fact("nccl")
        .map_or("This NCCL".to_owned(), |v| format!("NCCL {v}"))
}

/// Calls that NCCL announces at the API and never again, counted.
#[derive(Default)]
pub struct Silent {
    broadcast: BTreeMap<String, u64>,
    others: BTreeMap<(String, bool), u64>,
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

    fn tell(self, notes: &mut Vec<String>) {
        for (nccl, n) in self.broadcast {
            notes.push(format!(
                "{nccl} does not announce kernels for Broadcast: {n} calls have no algorithm, protocol or \
                 GPU time (NCCL_ALLGATHERV_ENABLE=0 brings them back)."
            ));
        }
        for ((nccl, symmetric), n) in self.others {
            let why = if symmetric {
                "as it does with symmetric-memory kernels and copy engines"
            } else {
                "for a reason it does not tell"
            };
            notes.push(format!(
                "{nccl} announced {n} calls at the API only, {why}: they have no algorithm, \
                protocol or GPU time."
            ));
        }
        if self.copy_engine > 0 {
            notes.push(format!(
                "{} calls were done by copy engines, without a kernel: host time only.",
                self.copy_engine
            ));
        }
    }
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
        let told = "Calls of ncclRecv, ncclSend were not recorded, because";
        assert!(notes.iter().any(|note| note.starts_with(told)), "{notes:?}");
    }
}
