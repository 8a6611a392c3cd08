//! Replays a capture of a real job to a plugin: its callbacks, or its calls as a script (`recorded`).
//!
//! [`replay`] finds the trace files, and starts a process for each, with the launcher's variables as they
//! were. The process reads its records (`trace`). It maps what belongs to the recorded process (handles,
//! contexts, texts, process id) to what belongs to this one (`replayer`). It makes the calls in the recorded
//! order, each on the thread that stands for the recorded one (`process`).
//!
//! Rule: bytes that aren't mapped are passed on as they were recorded, and what was not recorded is poison.
//! The plugin is called at the recorded ABI, so no shim comes between. What was recorded is what a shim, if
//! there was one, let through.

mod operations;
mod pace;
mod process;
mod recorded;
mod replayer;
mod trace;

use crate::outcome::{Outcome, Process};
use crate::play::play;
use crate::plugin::Version;
use crate::processes::{beside, run_processes, Options, Start, RANK_PROCESS, STAMPS};
use anyhow::{anyhow, bail};
use pace::{paces, RecordedClock};
use process::newest;
use serde_json::json;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tables::{Capture, Which};
use trace::{read_file, trace_files};

pub(crate) use process::process;

/// Replays a capture: a folder, or one trace file. `real_pace` keeps the recorded times between the calls.
///
/// # Errors
/// When there is nothing to replay, or a process can't be started.
pub fn replay(capture: &Path, options: &Options, real_pace: bool) -> anyhow::Result<Outcome> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => beside("fake-nccl")?,
    };
    let mut starts = Vec::new();
    let mut nccl = None;
    let mut without = Vec::new();
    let mut clocks = Vec::new();
    for (index, path) in trace_files(capture)?.into_iter().enumerate() {
        let trace = read_file(&path)?;
        for damage in &trace.damage {
            tell!("fake-nccl: `{}` is damaged: {damage}", path.display());
        }
        if trace.records.is_empty() {
            without.push(path);
            continue;
        }
        let recorded = trace.process.get("nccl").and_then(|v| Version::parse(v));
        nccl = options.nccl.or(recorded).or(nccl);
        let mut command = Command::new(&program);
        command.arg(RANK_PROCESS);
        command.env(STAMPS.0, STAMPS.1);
        for (key, variable) in [
            ("rank", "RANK"),
            ("world_size", "WORLD_SIZE"),
            ("local_rank", "LOCAL_RANK"),
        ] {
            match trace.process.get(key) {
                Some(value) => command.env(variable, value),
                None => command.env_remove(variable),
            };
        }
        if let Some(plugin) = &options.plugin {
            command.env("NCCL_PROFILER_PLUGIN", plugin);
        }
        command.envs(options.env.iter().map(|(k, v)| (k, v)));
        let order = json!({"replay": {
            "file": path, "real_pace": real_pace, "verbose": options.verbose,
            "nccl": options.nccl.map(|v| v.0),
        }});
        clocks.push(RecordedClock::new(&trace));
        let rank = trace.process.get("rank").and_then(|r| r.parse().ok());
        starts.push(Start {
            rank: rank.unwrap_or(index),
            command,
            order,
        });
    }
    if starts.is_empty() {
        return replay_calls(capture, options, real_pace);
    }
    for (start, pace) in starts.iter_mut().zip(paces(&clocks)) {
        start.order["replay"]["tick_ns"] = json!(pace.map(|of| of.tick_ns));
        start.order["replay"]["after_ns"] = json!(pace.map(|of| of.after_ns));
    }
    for path in without {
        tell!("fake-nccl: no callback records in `{}`", path.display());
    }
    let (abi, processes): (_, Vec<Process>) =
        run_processes(starts, options.timeout, Duration::ZERO)?;
    Ok(Outcome {
        nccl: nccl.unwrap_or(newest()),
        abi,
        processes,
    })
}

/// Plays the calls of a capture that has no callbacks, at the recorded times.
fn replay_calls(capture: &Path, options: &Options, real_pace: bool) -> anyhow::Result<Outcome> {
    let read = Capture::open_attempt(capture, Which::Last)
        .map_err(|error| anyhow!("{error}\n  hint: {}", error.hint()))?;
    let Some(recorded) = recorded::script(&read, options, real_pace) else {
        bail!(
            "expected callbacks, or calls that all ranks of a communicator recorded, in `{}`, found neither\
             \n  hint: NCCLSCOPE_MODE=callbacks records every callback",
            capture.display()
        );
    };
    for what in &recorded.left_out {
        tell!("fake-nccl: {what} are not played");
    }
    play(&recorded.script, options)
}
