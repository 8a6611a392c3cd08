//! The pieces that the work comes in, each run and compared by itself.
//!
//! Rule: a case is the same command for every profiler and round; only its environment and where its output
//! goes differ.

use crate::plan::{Events, JudgePlan, Work};
use crate::truth;
use std::path::{Path, PathBuf};

/// How a case's figures and calls done are had.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// `fake-nccl play`: what it prints.
    Announced,
    /// `fake-nccl play`: what small calls took.
    Events(EventCase),
    /// `fake-nccl bench`: costs of callbacks.
    Callbacks,
    /// `ncclscope bench`: its Parquet file.
    Timed,
    /// A command: the counter's files; figures are the whole time, or steps.
    Counted {
        /// Whether lines of the output are ms of steps.
        steps: bool,
    },
}

/// Small calls of one function.
#[derive(Clone, Debug)]
pub(crate) struct EventCase {
    pub function: &'static str,
    pub hosts: u32,
    pub release: String,
}

/// Bytes of such a call.
pub(crate) const SMALL: u64 = 64;

/// A piece of the work.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub name: String,
    pub program: PathBuf,
    pub args: Vec<String>,
    pub source: Source,
}

/// What a plan's work comes in. Scripts go to `folder`.
pub(crate) fn cases(plan: &JudgePlan, folder: &Path) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    match &plan.work {
        Work::FakeNccl {
            program,
            script,
            rates,
            ranks,
            channels,
            calls,
            events,
        } => {
            if let Some(events) = events {
                let ranks = *ranks.first().unwrap_or(&2);
                return of_events(program, events, ranks, *calls, folder);
            }
            let play = |name: String, script: &Path, fast: bool| Case {
                name,
                program: program.clone(),
                args: ["play".into(), script.display().to_string()]
                    .into_iter()
                    .chain(fast.then(|| "--fast".into()))
                    .collect(),
                source: Source::Announced,
            };
            if let Some(script) = script {
                let script = std::path::absolute(script)?;
                cases.push(play("script".into(), &script, false));
            } else {
                let flat_out = |rate: u64| match rate {
                    0 => "flat out".into(),
                    rate => format!("{rate}/s"),
                };
                for rate in rates {
                    for ranks in ranks {
                        for channels in channels {
                            let name = format!("{ranks} ranks, {channels} ch, {}", flat_out(*rate));
                            let path = folder.join(format!("{ranks}-{channels}-{rate}.job"));
                            std::fs::write(&path, job(*ranks, *channels, *rate, *calls))?;
                            cases.push(play(name, &path, *rate == 0));
                        }
                    }
                }
                let path = folder.join("killed.job");
                let (most, wide) = (ranks.iter().max(), channels.iter().max());
                let (most, wide) = (*most.unwrap_or(&2), *wide.unwrap_or(&1));
                let whole = job(most.max(2), wide, 10_000, calls / 2);
                std::fs::write(&path, format!("{whole}rank 1 kill\nall_reduce 1KiB\n"))?;
                cases.push(play("a rank killed".into(), &path, false));
            }
            if plan.callbacks && script.is_none() {
                let list = |values: Vec<String>| values.join(",");
                let args = [
                    "bench".into(),
                    "--json".into(),
                    "--rate".into(),
                    list(rates.iter().map(u64::to_string).collect()),
                    "--channels".into(),
                    list(channels.iter().map(u8::to_string).collect()),
                    "--calls".into(),
                    calls.max(&2000).to_string(),
                    "--seconds".into(),
                    // A steady stretch long enough for a 99.99th percentile of the callbacks of a call.
                    "0.5".into(),
                ];
                cases.push(Case {
                    name: "callbacks".into(),
                    program: program.clone(),
                    args: args.into(),
                    source: Source::Callbacks,
                });
            }
        }
        Work::Bench {
            program,
            args,
            cases: wanted,
        } => {
            let wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
            for (name, mode) in truth::bench::CASES.iter().filter(|c| wanted(c.0)) {
                let words = ["bench"].into_iter().chain(mode.iter().copied());
                cases.push(Case {
                    name: (*name).into(),
                    program: program.clone(),
                    args: words
                        .map(str::to_owned)
                        .chain(args.iter().map(|word| from_here(word)))
                        .collect(),
                    source: Source::Timed,
                });
            }
        }
        Work::Command { command } => cases.push(Case {
            name: "command".into(),
            program: command[0].clone().into(),
            args: command[1..].to_vec(),
            source: Source::Counted { steps: false },
        }),
    }
    if let Some(step) = &plan.step {
        cases.push(Case {
            name: "step".into(),
            program: "sh".into(),
            args: vec!["-c".into(), step.clone()],
            source: Source::Counted { steps: true },
        });
    }
    Ok(cases)
}

/// Small calls by function, hosts and release.
fn of_events(
    program: &Path,
    events: &Events,
    ranks: u32,
    calls: u64,
    folder: &Path,
) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for release in &events.releases {
        for hosts in &events.hosts {
            let ranks = ranks.max(*hosts);
            for (function, call) in [
                ("AllReduce", format!("all_reduce {SMALL}")),
                (
                    "SendRecv",
                    format!("group {{ send {SMALL} to=+1 ; recv {SMALL} from=-1 }}"),
                ),
            ] {
                let path = folder.join(format!("{function}-{hosts}-{release}.job"));
                let job = format!(
                    "nccl {release}\nranks {ranks}\nhosts {hosts}\nrepeat {calls} {{ {call} }}\n"
                );
                std::fs::write(&path, job)?;
                let on = if *hosts == 1 { "host" } else { "hosts" };
                cases.push(Case {
                    name: format!("{function} {SMALL} B, {hosts} {on}, NCCL {release}"),
                    program: program.to_owned(),
                    args: vec!["play".into(), path.display().to_string(), "--fast".into()],
                    source: Source::Events(EventCase {
                        function,
                        hosts: *hosts,
                        release: release.clone(),
                    }),
                });
            }
        }
    }
    Ok(cases)
}

/// A word of a command line that means the same in another folder.
fn from_here(word: &str) -> String {
    let (option, value) = match word.split_once('=') {
        Some((option, value)) => (format!("{option}="), value),
        None => (String::new(), word),
    };
    match std::path::absolute(value) {
        Ok(path) if value.contains('/') => format!("{option}{}", path.display()),
        _ => word.to_owned(),
    }
}

/// A job of the five collectives in two sizes.
fn job(ranks: u32, channels: u8, rate: u64, calls: u64) -> String {
    let pace = match rate {
        0 => "rate off".into(),
        rate => format!("rate {rate}/s"),
    };
    let calls = calls.div_ceil(10).max(1);
    let small = "all_reduce all_gather reduce_scatter broadcast reduce";
    let each = |size: &str| -> String {
        let call = |function| format!("  {function} {size} channels={channels}\n");
        small.split(' ').map(call).collect()
    };
    // Divisible by the datatype's size times any number of ranks up to 64.
    let (small, large) = (each("64KiB"), each("1MiB"));
    format!("nccl 2.28.9\nranks {ranks}\n{pace}\nrepeat {calls} {{\n{small}{large}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_beside_are_found_from_another_folder() {
        let here = std::env::current_dir().expect("a folder");
        let here = here.display();
        assert_eq!(
            from_here("lib/libnccl.so"),
            format!("{here}/lib/libnccl.so")
        );
        assert_eq!(from_here("--nccl=./l"), format!("--nccl={here}/l"));
        for same in [
            "all_reduce,all_gather",
            "--nccl",
            "libnccl.so.2",
            "/a/b",
            "--n=3",
        ] {
            assert_eq!(from_here(same), same);
        }
    }
}
