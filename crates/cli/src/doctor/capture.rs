//! Why a capture is empty or partial.
//!
//! Rule: the figures are those of `ncclscope report`; here stands what made them so, and what to do.

use super::{Check, Checks, Status};
use analyze::spelling::word;
use analyze::Report;
use capture::live::{flag, part};
use nccl_abi::event;
use serde_json::Value;
use std::path::Path;
use tables::{Capture, LiveSource, Newest, OpenError, Process, Which};

/// What to do if a capture has no call.
const IN_THE_JOB: &str = "ncclscope doctor, in the job's environment";

/// The checks, and the command to go on with.
pub fn checks(folder: &Path) -> (Vec<Check>, String) {
    let mut checks = Checks::new("Capture");
    let capture = match Capture::open_attempt(folder, Which::Last) {
        Ok(capture) => capture,
        Err(error) => {
            no_trace(folder, &error, &mut checks);
            return (checks.list, IN_THE_JOB.to_owned());
        }
    };
    let report = analyze::report(&capture);
    examine(&capture, &report, &mut checks);
    // A report on no call says no more than this.
    let next = match report.completeness.recorded {
        0 => IN_THE_JOB.to_owned(),
        _ => format!("ncclscope report {}", word(&folder.display().to_string())),
    };
    (checks.list, next)
}

fn examine(capture: &Capture, report: &Report, checks: &mut Checks) {
    let jobs = report.job.jobs.len();
    if jobs > 1 {
        checks.not(
            Status::Fail,
            "jobs",
            format!("this folder holds {jobs} jobs, and a report of it mixes them"),
            "move the files of each job, which `ncclscope report` lists, into a folder of its own",
        );
    }
    ranks(capture, report, checks);
    calls(capture, report, checks);
    lost(capture, report, checks);
    events(capture, checks);
    times(capture, report, checks);
    paths(report, checks);
    damage(capture, checks);
}

/// Whether NCCL goes a slower way than it must, if its output was recorded.
fn paths(report: &Report, checks: &mut Checks) {
    const NAME: &str = "paths";
    let mut routes = report
        .paths
        .communicators
        .iter()
        .flat_map(|one| &one.routes);
    if routes.any(|route| route.is_best == Some(false)) {
        let sentence = render::paths::sentence(&report.paths);
        let finding = sentence.trim_end_matches('.').to_owned();
        let remedy = "`ncclscope paths DIR` has each pair, and what changes it";
        checks.not(Status::Warn, NAME, finding, remedy);
    }
}

fn no_trace(folder: &Path, error: &OpenError, checks: &mut Checks) {
    const NAME: &str = "trace_files";
    let shown = folder.display();
    if let OpenError::NotFound { .. } = error {
        let remedy =
            "`ncclscope run -o DIR` or NCCLSCOPE_OUT sets the folder; the recorder's first line names it";
        checks.not(
            Status::Fail,
            NAME,
            format!("`{shown}` does not exist"),
            remedy,
        );
        return;
    }
    if let OpenError::NoTrace { problems, .. } = error {
        if let Some(problem) = problems.first() {
            checks.not(
                Status::Fail,
                NAME,
                format!("no trace file in `{shown}` is sound: {problem}"),
                "`ncclscope collect` on the hosts of the job may bring what these files lack",
            );
            return;
        }
    }
    let job = tables::job(folder);
    if let Err(problem) = &job {
        checks.not(
            Status::Fail,
            NAME,
            format!("`{shown}` has no trace file, and {problem}"),
            "see that this is the capture's own folder, and that nothing else writes into it",
        );
        return;
    }
    let Ok(Some(job)) = job else {
        checks.not(
            Status::Fail,
            NAME,
            format!("`{shown}` has no trace file, and `ncclscope run` did not make it"),
            "see NCCLSCOPE_OUT of the job; on a cluster, that all hosts see this folder: `ncclscope collect` \
            brings parts together",
        );
        return;
    };
    let status = job.get("exit_status").and_then(Value::as_i64);
    match status {
        Some(0) => checks.not(
            Status::Fail,
            NAME,
            "the program ended well, and no process of it loaded the plugin",
            "did it use NCCL (torch: backend nccl, on GPUs)? NCCL 2.23 or newer? did the launcher pass \
             NCCL_PROFILER_PLUGIN on? `ncclscope doctor` in the job's environment checks these; \
             NCCL_DEBUG=INFO makes NCCL say what it loads",
        ),
        Some(status) => checks.not(
            Status::Fail,
            NAME,
            format!("the program ended with status {status} before any process of it loaded the plugin"),
            "see that it runs without `ncclscope run`",
        ),
        None => checks.not(
            Status::Fail,
            NAME,
            "the program's end was not recorded, and no process of it has loaded the plugin",
            "if it is still starting, wait; a trace file appears with the first communicator",
        ),
    }
}

/// A list of ranks that stays short.
fn some(ranks: &[String]) -> String {
    match ranks.len() {
        0..=6 => ranks.join(", "),
        n => format!("{} and {} more", ranks[..6].join(", "), n - 6),
    }
}

fn ranks(capture: &Capture, report: &Report, checks: &mut Checks) {
    const NAME: &str = "ranks";
    for row in &report.completeness.absent {
        let remedy = if row.unreadable.is_empty() {
            "their hosts may not see this folder (`ncclscope collect --into` there), may not have the plugin \
             at this path, or their launcher did not pass the variables on; ranks that made no communicator \
             leave none"
        } else {
            "copy the file again from its host; if it is the original, its disk was full or lost it, and the \
            calls are lost"
        };
        let said = render::completeness::absent(row);
        checks.not(Status::Fail, NAME, said, remedy);
    }
    if !report.completeness.absent.is_empty() {
        return;
    }
    let n = capture.processes.len();
    // Ranks that are too many to be true are not looked for.
    match report
        .job
        .world_size
        .filter(|size| *size <= analyze::absent::MOST_RANKS)
    {
        Some(size) => checks.ok(NAME, format!("all {size} ranks left a trace")),
        None => checks.ok(
            NAME,
            format!("{n} processes; how many there should be is not known"),
        ),
    }
}

fn calls(capture: &Capture, report: &Report, checks: &mut Checks) {
    const NAME: &str = "calls";
    let announced = report.completeness.announced;
    let missing = report.completeness.missing_at_least;
    if missing > 0 {
        return checks.not(
            Status::Fail,
            NAME,
            format!(
                "{} of at least {} announced calls are recorded",
                report.completeness.recorded,
                announced.saturating_add(missing)
            ),
            "bring what is missing of these ranks into this folder; figures over ranks leave it out",
        );
    }
    if announced > 0 {
        checks.ok(
            NAME,
            format!(
                "{} of {announced} announced calls are recorded",
                report.completeness.recorded
            ),
        );
        return;
    }
    let communicators = &capture.communicators;
    if communicators.is_empty() {
        return checks.not(
            Status::Fail,
            NAME,
            "the plugin was loaded and no communicator was made",
            "the program ended, or hangs, in its first communicator's init: `NCCL_DEBUG=INFO` shows how far \
            it came",
        );
    }
    if communicators.iter().all(|c| c.nranks == Some(1)) {
        return checks.not(
            Status::Fail,
            NAME,
            "all communicators have one rank: NCCL announces no call of these, as it moves nothing",
            "run with two or more ranks to a communicator; see WORLD_SIZE and the launcher's options",
        );
    }
    if capture.processes.iter().any(|p| p.live == LiveSource::None) {
        return checks.not(
            Status::Fail,
            NAME,
            "no call reached the disk, and the live parts, which have them, are not here: the processes were \
             killed before their first flush, or still run",
            "`ncclscope collect` on the hosts of the job, before they restart; `ncclscope run` keeps live \
            parts by itself",
        );
    }
    checks.not(
        Status::Fail,
        NAME,
        format!("{} communicators were made and no call was announced on them", communicators.len()),
        "the program may have ended before its first call, or have used paths that NCCL keeps silent about: \
         symmetric memory before 2.28, device-side communication, put and signal; see the notes of the \
         report",
    );
}

fn lost(capture: &Capture, report: &Report, checks: &mut Checks) {
    let c = &report.completeness;
    for (cause, n) in &c.lost {
        let (finding, remedy) = match cause.as_str() {
            "running" => (
                "are in the memory of the job, which still runs",
                "report again when it has ended; `ncclscope run` takes them into the capture",
            ),
            "gone" => (
                "were made after the last flush, and are lost with the memory of their process",
                "a smaller NCCLSCOPE_FLUSH loses fewer; `ncclscope run` keeps them",
            ),
            "moving" => (
                "moved from rows to totals while they were read, because the job runs",
                "nothing to do: report again",
            ),
            "elsewhere" => (
                "were made after the last flush, and the live parts that have them are not here",
                "`ncclscope collect` on the hosts of the job, before they restart",
            ),
            "rows_full" => (
                "found no free row in the live part",
                "no NCCLSCOPE_MEMORY, if it is set: the default of 64MiB is the most; more space in \
                 /dev/shm; a core for the recorder's thread, which makes rows free again",
            ),
            "totals_full" => (
                "had no row, and were of more kinds than the 512 that the totals hold",
                "NCCLSCOPE_MODE=trace, which keeps rows",
            ),
            "communicators_full" => (
                "were made on communicators that found no room in the live part",
                "more space in /dev/shm",
            ),
            "stale_context" => (
                "were made on communicators that NCCL had ended",
                "nothing to do; please report it",
            ),
            "ring_full" => (
                "were made faster than `ncclscope attach` took them out of the kernel's ring",
                "a larger --buffer of `ncclscope attach`",
            ),
            "size_limit" => (
                "found the trace file full",
                "a larger NCCLSCOPE_MAX_SIZE, or NCCLSCOPE_MODE=profile",
            ),
            "rotated" => (
                "were in trace files that were removed for newer ones",
                "a larger NCCLSCOPE_MAX_SIZE, or NCCLSCOPE_MODE=profile",
            ),
            "write_failed" => (
                "could not be written",
                "see the disk behind NCCLSCOPE_OUT: full, over quota, or gone",
            ),
            "in_birth" => (
                "were begun at the moment when their process ended or was stopped",
                "nothing to do: one a thread may be",
            ),
            "damaged" => (
                "are in damaged blocks",
                "copy the files from the hosts again, if they are copies",
            ),
            _ => (
                "are neither recorded nor counted as lost",
                "please report it, with the capture if you can",
            ),
        };
        checks.not(Status::Fail, "lost", format!("{n} calls {finding}"), remedy);
    }
    let of = |pick: &dyn Fn(&Process) -> bool| -> Vec<String> {
        let picked = capture.processes.iter().filter(|p| pick(p));
        picked.map(Process::title).collect()
    };
    let elsewhere = of(&Process::is_collectable);
    if !elsewhere.is_empty() && !c.lost.contains_key("elsewhere") {
        checks.not(
            Status::Warn,
            "live_parts",
            format!(
                "the live part of {} is not here, so calls after the last flush may be missing",
                some(&elsewhere)
            ),
            "`ncclscope collect` on the hosts of the job, before they restart",
        );
    }
    let gone = of(&|p| p.newest == Newest::Gone);
    if !gone.is_empty() && !c.lost.contains_key("gone") {
        checks.not(
            Status::Warn,
            "live_parts",
            format!(
                "the live part of {} is gone, so calls after the last flush may be missing",
                some(&gone)
            ),
            "a smaller NCCLSCOPE_FLUSH loses fewer; `ncclscope run` keeps them",
        );
    }
    let off = of(&|p| p.counters.as_ref().is_some_and(|c| c.state == 2));
    if !off.is_empty() {
        checks.not(
            Status::Fail,
            "recorder",
            format!(
                "the recorder of {} switched itself off after a failure of its own",
                some(&off)
            ),
            "please report it, with what it said on stderr",
        );
    }
}

/// Which of the events that were asked for came.
fn events(capture: &Capture, checks: &mut Checks) {
    const NAME: &str = "events";
    let masks = capture.processes.iter().filter_map(|p| {
        let mask = p.fact("mask")?;
        u64::from_str_radix(mask.trim_start_matches("0x"), 16).ok()
    });
    let mask = masks.fold(0, |all, mask| all | mask);
    let calls = || {
        let processes = capture.processes.iter();
        processes.flat_map(|p| {
            p.calls
                .iter()
                .map(move |c| (&p.shapes[c.shape as usize], c))
        })
    };
    if calls().next().is_none() || mask == 0 {
        return;
    }
    let collective = |shape: &tables::Shape| shape.flags & flag::P2P == 0;
    let came = [
        (
            event::COLL,
            "Coll",
            calls().any(|(s, _)| collective(s)),
            calls().any(|(s, _)| collective(s) && s.parts & part::ENQUEUED != 0),
        ),
        (
            event::P2P,
            "P2p",
            calls().any(|(s, _)| !collective(s)),
            calls().any(|(s, _)| !collective(s) && s.parts & part::ENQUEUED != 0),
        ),
        (
            event::KERNEL_CH,
            "KernelCh",
            true,
            calls().any(|(_, c)| c.channels_started > 0),
        ),
    ];
    let wanted = came
        .iter()
        .filter(|(bit, _, possible, _)| mask & *bit != 0 && *possible);
    let (fired, silent): (Vec<_>, Vec<_>) = wanted.partition(|(_, _, _, came)| *came);
    let names = |list: &[&(_, &'static str, bool, bool)]| {
        list.iter()
            .map(|(_, name, ..)| *name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let nccl = capture
        .processes
        .iter()
        .find_map(|p| p.fact("nccl"))
        .unwrap_or("of unknown version");
    if silent.is_empty() {
        checks.ok(
            NAME,
            format!(
                "of the events asked for (mask {mask:#x}), {} came",
                names(&fired)
            ),
        );
    } else {
        checks.not(
            Status::Warn,
            NAME,
            format!("events were asked for and never came: {} (mask {mask:#x}, NCCL {nccl})", names(&silent)),
            "NCCL does not announce them for these calls (Broadcast from 2.29 on, symmetric memory up to \
             2.30, copy engines), or another client set its mask; the report's notes name the calls",
        );
    }
}

fn times(capture: &Capture, report: &Report, checks: &mut Checks) {
    const NAME: &str = "gpu_times";
    let c = &report.completeness;
    if c.recorded == 0 {
        return;
    }
    let host = |p: &&tables::Process| p.fact("timing") == Some("host");
    let because = |p: &tables::Process| p.fact("timing_because").map(str::to_owned);
    if capture.processes.iter().filter(host).count() == capture.processes.len() {
        return match capture.processes.iter().find_map(because) {
            Some(because) => checks.not(
                Status::Warn,
                NAME,
                format!("no call has a GPU time: {because}"),
                "a program that calls NCCL has loaded libcuda.so.1; one that simulates it has not",
            ),
            None => checks.ok(
                NAME,
                "GPU timing was off (NCCLSCOPE_TIMING=host); unset it to record GPU times",
            ),
        };
    }
    if let Some(error) = capture.processes.iter().find_map(cuda_error) {
        checks.not(
            Status::Warn,
            NAME,
            format!("CUDA returned error {error}, and timing by its events ended there"),
            "the program's own error, which it sees as well: 700 is an illegal address, 710 an assertion, \
            719 a failed launch",
        );
    }
    // What was left out on purpose is not missing.
    let untimed: u64 = c
        .untimed
        .iter()
        .filter(|(cause, _)| !matches!(cause.as_str(), "captured" | "unsampled"))
        .map(|(_, n)| *n)
        .sum();
    let sampled = match c.untimed.get("unsampled") {
        Some(n) => format!(" ({n} more were left out of the sample)"),
        None => String::new(),
    };
    let finding = format!(
        "{} calls have a GPU time{sampled}, {untimed} have none",
        c.timed
    );
    if untimed == 0 {
        return checks.ok(NAME, finding);
    }
    let causes: Vec<String> = c
        .untimed
        .iter()
        .map(|(cause, n)| format!("{n} {cause}"))
        .collect();
    let most = c
        .untimed
        .iter()
        .filter(|(cause, _)| !matches!(cause.as_str(), "captured" | "unsampled"))
        .max_by_key(|(_, n)| **n);
    let remedy = match most.map(|(cause, _)| cause.as_str()) {
        Some("no_stamp") => "stamps: NCCL has none before 2.27, and none for Broadcast from 2.29 on, \
            symmetric memory up to 2.30 and copy engines; events: none before 2.28, and none for graph \
            replays",
        Some("early_stop") => "NCCL stamps the end of these too early; NCCLSCOPE_TIMING=auto or events times \
            them",
        Some("no_event") => "the process ended too soon after them, CUDA failed, or the GPU's clock stepped",
        Some("fused") => "calls of one group share a launch and its time; NCCL has no time of the single \
            call",
        Some("desynchronised") => "a Broadcast (2.31 on; NCCL_ALLGATHERV_ENABLE=0 avoids it) or a send to \
            oneself (up to 2.30) put NCCL's stamps out of step",
        Some("unfinished") => "they had not ended when the recording did: the job hung, was killed, still \
            runs or left by _exit(); ncclscope report names them",
        Some("sealed_early") => "rows ran short, and were given away before these calls ended: a larger \
            NCCLSCOPE_MEMORY (to 64MiB)",
        Some("rowless") => "they were counted without rows: NCCLSCOPE_MODE=trace, a larger NCCLSCOPE_MEMORY \
            or NCCLSCOPE_MAX_SIZE",
        _ => "NCCL delivered stamps of other calls; ncclscope report --explain has the causes",
    };
    let status = if c.timed == 0 {
        Status::Fail
    } else {
        Status::Warn
    };
    checks.not(
        status,
        NAME,
        format!("{finding} ({})", causes.join(", ")),
        remedy,
    );
}

fn cuda_error(process: &tables::Process) -> Option<u32> {
    let error = process.counters.as_ref()?.cuda_error;
    (error != 0).then_some(error)
}

fn damage(capture: &Capture, checks: &mut Checks) {
    match capture.problems.as_slice() {
        [] => checks.ok("files", "all files are sound"),
        [first, rest @ ..] => {
            let more = match rest.len() {
                0 => String::new(),
                n => format!(" (and {n} more)"),
            };
            let remedy = "what is sound was read; `ncclscope report` lists the rest under Problems";
            checks.not(Status::Warn, "files", format!("{first}{more}"), remedy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake;
    use super::*;
    use tables::process::Counters;
    use tables::Communicator;

    fn process(rank: u32, announced: u64) -> Process {
        Process {
            rank: Some(rank),
            host: "node-1".to_owned(),
            facts: [("world_size", "2"), ("timing", "host")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into(),
            counters: Some(Counters {
                announced,
                lost: vec![0; 5],
                ..Counters::default()
            }),
            live: LiveSource::Adopted,
            ..Process::default()
        }
    }

    fn communicator(nranks: u32) -> Communicator {
        Communicator {
            id: "00".to_owned(),
            hash: 1,
            nranks: Some(nranks),
            nnodes: Some(1),
            name: None,
            members: Vec::new(),
            created_ns: Some(1),
            parent: None,
        }
    }

    fn examined(processes: Vec<Process>, communicators: Vec<Communicator>) -> Vec<Check> {
        let capture = Capture {
            processes,
            communicators,
            ..Capture::default()
        };
        let mut checks = Checks::new("Capture");
        examine(&capture, &analyze::report(&capture), &mut checks);
        checks.list
    }

    #[test]
    fn an_empty_capture_is_explained() {
        let finding = |processes, communicators| {
            let found = examined(processes, communicators);
            let calls = fake::one(&found, "calls");
            assert_eq!(calls.status, Status::Fail);
            calls.finding.clone()
        };
        let both = || vec![process(0, 0), process(1, 0)];
        assert!(finding(both(), vec![]).contains("no communicator was made"));
        assert!(finding(both(), vec![communicator(1)]).contains("have one rank"));
        assert!(finding(both(), vec![communicator(2)]).contains("no call was announced"));
        let mut killed = both();
        killed[1].live = LiveSource::None;
        killed[1].counters = None;
        assert!(finding(killed, vec![communicator(2)]).contains("killed before their first flush"));
    }

    #[test]
    fn losses_and_failures_have_their_way_out() {
        let mut full = process(0, 9);
        full.counters.as_mut().expect("there").lost[0] = 9;
        let mut off = process(1, 0);
        off.counters.as_mut().expect("there").state = 2;
        let found = examined(vec![full, off], vec![]);
        let lost = fake::one(&found, "lost");
        assert_eq!(
            (lost.finding.as_str(), lost.status),
            ("9 calls found no free row in the live part", Status::Fail)
        );
        assert!(fake::one(&found, "recorder").finding.contains("rank 1"));
        assert_eq!(fake::one(&found, "ranks").status, Status::Ok);
    }

    #[test]
    fn a_world_size_that_is_nonsense_makes_no_long_list() {
        let mut one = process(7, 0);
        one.facts
            .insert("world_size".to_owned(), u32::MAX.to_string());
        let found = examined(vec![one], vec![]);
        let ranks = fake::one(&found, "ranks");
        assert_eq!(
            ranks.finding,
            "1 processes; how many there should be is not known"
        );
    }
}
