//! What a plugin costs: the same callbacks to it and to an empty plugin, in turns.
//!
//! A case is a rate and a number of channels. Its process drives one communicator with one calling thread and
//! one progress thread. First, slices of calls go to the plugin and to an empty plugin in turns. The median
//! difference of neighbours is the plugin's cost. Then a steady stretch goes to each alone. There every
//! callback is timed for the tail, and the processor time of threads that are not ours is the plugin's own.
//!
//! Rule: both plugins get the same events, which the plugin's mask asks for. The same clock times both. So
//! the driver's own cost is in both and cancels.

mod empty;
mod lane;
mod measure;
mod resources;
mod ring;
mod settings;
mod tail;

use crate::output;
use anyhow::{bail, Context};
use measure::case;
use serde_json::{json, Value};
use std::process::{Command, Stdio};

pub(crate) use resources::{cpu_ns, resident_bytes};
pub use settings::Settings;

/// Measures and prints. `Ok(false)` when a process failed.
///
/// # Errors
/// When the plugin can't be loaded.
pub fn run(settings: &Settings) -> anyhow::Result<bool> {
    if settings.here {
        output::line(case(settings)?)?;
        return Ok(true);
    }
    let mut previous: Option<(u64, Value)> = None;
    if !settings.json {
        print_head()?;
    }
    for rate in &settings.rate {
        for channels in &settings.channels {
            let cases = measure_apart(settings, *rate, *channels)?;
            for (rank, mut case) in cases.into_iter().enumerate() {
                case["rank"] = json!(rank);
                let before = previous.as_ref().filter(|(at, _)| at == rate);
                case["per_channel_ns"] = json!(before.and_then(|(_, b)| per_channel(b, &case)));
                if settings.json {
                    output::line(&case)?;
                } else {
                    print_row(&case)?;
                }
                if rank == 0 {
                    previous = Some((*rate, case));
                }
            }
        }
    }
    if !settings.json {
        output::line(
            "Costs are medians ± half the middle half; an empty plugin's cost on the same events is \
             subtracted.",
        )?;
    }
    Ok(true)
}

/// Measures a case in processes of its own, all at once. Gives what each printed.
fn measure_apart(settings: &Settings, rate: u64, channels: u8) -> anyhow::Result<Vec<Value>> {
    let program = std::env::current_exe()?;
    let mut children = Vec::new();
    for rank in 0..settings.ranks {
        let mut command = Command::new(&program);
        command
            .args(["bench", "--here", "--nccl", &settings.nccl.to_string()])
            .args(["--rate", &rate.to_string()])
            .args(["--channels", &channels.to_string()])
            .args(["--calls", &settings.calls.to_string()])
            .args(["--seconds", &settings.seconds.to_string()])
            .args(settings.no_kernel_ch.then_some("--no-kernel-ch"))
            .args(settings.proxy_ops.then_some("--proxy-ops"))
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", settings.ranks.to_string())
            .env("LOCAL_RANK", rank.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if let Some(plugin) = &settings.plugin {
            command.env("NCCL_PROFILER_PLUGIN", plugin);
        }
        children.push(command.spawn()?);
    }
    let mut cases = Vec::new();
    for child in children {
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().last().unwrap_or_default();
        if !output.status.success() {
            bail!("a process of the measurement failed: {}", output.status);
        }
        cases.push(serde_json::from_str::<Value>(line).context("a process said nothing")?);
    }
    Ok(cases)
}

/// What one more channel costs, compared with the case before, which had fewer channels.
fn per_channel(before: &Value, case: &Value) -> Option<f64> {
    let number = |case: &Value| case["channels"].as_u64();
    let more = number(case)?.checked_sub(number(before)?)?;
    let cost = case["progress_ns"].as_f64()? - before["progress_ns"].as_f64()?;
    (more > 0).then(|| cost / more as f64)
}

fn print_head() -> std::io::Result<()> {
    output::line(format_args!(
        "{:>8} {:>4} {:>14} {:>14} {:>12} {:>10} {:>10} {:>10} {:>8} {:>8}",
        "calls/s",
        "ch",
        "call ns",
        "progress ns",
        "per channel",
        "p99.99 us",
        "max us",
        "(empty) us",
        "own CPU",
        "RSS MiB"
    ))
}

fn print_row(case: &Value) -> std::io::Result<()> {
    let number = |value: &Value, digits: usize| match value.as_f64() {
        Some(n) => format!("{n:.digits$}"),
        None => "-".into(),
    };
    let rate = match case["rate"].as_u64() {
        Some(0) => "flat out".into(),
        rate => rate.unwrap_or(0).to_string(),
    };
    let spread = |value: &str, spread: &str| {
        format!("{} ± {}", number(&case[value], 0), number(&case[spread], 0))
    };
    output::line(format_args!(
        "{rate:>8} {:>4} {:>14} {:>14} {:>12} {:>10} {:>10} {:>10} {:>7}% {:>8}",
        number(&case["channels"], 0),
        spread("call_ns", "call_spread_ns"),
        spread("progress_ns", "progress_spread_ns"),
        number(&case["per_channel_ns"], 1),
        number(&case["p9999_us"], 1),
        number(&case["max_us"], 1),
        number(&case["empty_max_us"], 1),
        number(&case["own_cpu_percent"], 2),
        number(&case["rss_growth_mib"], 1),
    ))
}
