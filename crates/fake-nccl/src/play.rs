//! Plays a script: one process for each rank, or threads of this one.
//!
//! [`play`] starts the processes ([`crate::processes`]) and gathers what each announced. A process runs a
//! `Driver` for each thread. The driver walks the script's statements (`play/statements.rs`), asks the
//! [`Schedule`] what its ranks do and when, and has a [`Launcher`] do it. `cuda` has what the CUDA runtime
//! holds for it.
//!
//! Rule: a process reports what it announced before it does anything that may end it. So the count is right
//! even for a rank that kills itself.
//!
//! [`Schedule`]: crate::schedule::Schedule
//! [`Launcher`]: crate::nccl::Launcher

mod calls;
mod communicators;
mod cuda;
mod driver;
mod faults;
mod graphs;
mod hosts;
mod job;
mod process;
mod ranks;
mod statements;
mod streams;
mod threads;

use crate::choosing::SEED;
use crate::control::realtime_ns;
use crate::processes::{beside, run_processes, Start, CLOCK, RANK_PROCESS, STAMPS};
use crate::script::Script;
use process::play_here;
use serde_json::json;
use std::process::Command;
use std::time::Duration;

pub use crate::outcome::{Outcome, Process};
pub use crate::processes::Options;
pub(crate) use process::process;

/// Plays a script, with source `source`, and waits for its end.
///
/// # Errors
/// The script's own error, or a process that can't be started.
pub fn play(source: &str, options: &Options) -> anyhow::Result<Outcome> {
    let mut script = Script::parse(source)?;
    script.nccl = options.nccl.unwrap_or(script.nccl);
    if options.in_process {
        return play_here(script, options);
    }
    let program = match &options.program {
        Some(program) => program.clone(),
        None => beside("fake-nccl")?,
    };
    let mut starts = Vec::new();
    // Noise differs from play to play, and not from process to process.
    let seed = realtime_ns();
    for first in (0..script.ranks).step_by(script.per_process) {
        let local = script.host(first);
        let local_rank = (0..first).filter(|r| script.host(*r) == local).count();
        let mut command = Command::new(&program);
        command
            .arg(RANK_PROCESS)
            .env("RANK", first.to_string())
            .env("WORLD_SIZE", script.ranks.to_string())
            .env("LOCAL_RANK", local_rank.to_string());
        // If hosts have clocks of their own, the stamps are of the same time as the launches.
        if script.host_clock_ns.is_empty() {
            command.env(STAMPS.0, STAMPS.1);
        }
        if script.virtual_time {
            command.env(CLOCK.0, CLOCK.1);
        }
        if let Some(plugin) = &options.plugin {
            command.env("NCCL_PROFILER_PLUGIN", plugin);
        }
        if script.noise > 0.0 && std::env::var_os(SEED).is_none() {
            command.env(SEED, seed.to_string());
        }
        if script.hosts > 1 {
            // As users do who let NCCL take one machine for several.
            command.env("NCCL_HOSTID", format!("host-{local}"));
        }
        command.envs(options.env.iter().map(|(k, v)| (k, v)));
        let order = json!({
            "play": {
                "script": source, "first": first, "nccl": script.nccl.0, "highest_abi": options.highest_abi,
                "fast": options.fast, "verbose": options.verbose,
            }
        });
        starts.push(Start {
            rank: first,
            command,
            order,
        });
    }
    let (abi, processes) = run_processes(
        starts,
        options.timeout,
        Duration::from_nanos(script.linger_ns),
    )?;
    Ok(Outcome {
        nccl: script.nccl,
        abi,
        processes,
    })
}
