//! A process of a played script, or this process in the place of all.

use super::job::{Flow, Job, Stuck};
use super::ranks::ends_process;
use crate::control::Control;
use crate::gpu;
use crate::lock::lock;
use crate::machine;
use crate::outcome::{Outcome, Process};
use crate::plugin::{Choice, Loader, Version};
use crate::processes::Options;
use crate::script::Script;
use anyhow::bail;
use serde_json::{json, Value};

/// Does what a process of a played script has to. `told` is called with the release before the plugin is
/// loaded.
pub(crate) fn process(
    control: Control,
    order: &Value,
    told: impl Fn(Version),
) -> anyhow::Result<()> {
    let mut script = Script::parse(order["script"].as_str().unwrap_or_default())?;
    script.nccl = Version(order["nccl"].as_u64().unwrap_or_default() as u32);
    told(script.nccl);
    let flag = |key: &str| order[key].as_bool().unwrap_or(false);
    // Without waiting there is no moment at which a stream is done.
    if script.cuda && !flag("fast") && !script.virtual_time {
        gpu::load()?;
    }
    let loader = Loader::new(Choice {
        version: script.nccl,
        plugin: std::env::var("NCCL_PROFILER_PLUGIN").ok(),
        highest_abi: highest(order["highest_abi"].as_u64().unwrap_or(0) as u8),
        log_level: log_level(flag("verbose")),
    });
    let ranks = script.process_ranks(order["first"].as_u64().unwrap_or(0) as usize);
    let host = script.host(ranks.start);
    if let Some(clock_ns) = script.host_clock_ns.get(host) {
        machine::be(host, *clock_ns);
    }
    let job = Job::new(script, loader, Some(control), flag("fast"));
    match job.run(ranks) {
        Flow::Continue(()) => {
            job.report(None);
            Ok(())
        }
        Flow::Break(Stuck) => {
            job.report(None);
            if let Some(control) = &job.control {
                control.say(&json!({"stuck": true}));
            }
            loop {
                std::thread::park();
            }
        }
    }
}

fn highest(limit: u8) -> u8 {
    if limit == 0 {
        u8::MAX
    } else {
        limit
    }
}

fn log_level(verbose: bool) -> i32 {
    if verbose {
        nccl_abi::log::LEVEL_INFO
    } else {
        nccl_abi::log::LEVEL_WARN
    }
}

pub(super) fn play_here(script: Script, options: &Options) -> anyhow::Result<Outcome> {
    if script.virtual_time {
        bail!("expected no virtual_time in a script played inside one process: its clocks are the process's");
    }
    if ends_process(&script.body) {
        bail!("expected no kill, exit, _exit, abort or fork in a script played inside one process");
    }
    let plugin = options.plugin.clone();
    let loader = Loader::new(Choice {
        version: script.nccl,
        plugin: plugin.or_else(|| std::env::var("NCCL_PROFILER_PLUGIN").ok()),
        highest_abi: highest(options.highest_abi),
        log_level: log_level(options.verbose),
    });
    let ranks = 0..script.ranks;
    let job = Job::new(script, loader, None, options.fast);
    let stuck = job.run(ranks).is_break();
    let announced = lock(&job.announced).clone();
    Ok(Outcome {
        nccl: job.script.nccl,
        abi: job
            .abi
            .get()
            .cloned()
            .unwrap_or(Err("no communicator".into())),
        processes: vec![Process {
            rank: 0,
            pid: std::process::id(),
            ended: if stuck { "stuck" } else { "played" }.into(),
            expected: true,
            announced: Some(announced),
        }],
    })
}
