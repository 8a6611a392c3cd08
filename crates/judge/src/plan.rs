//! What is run, under which profilers, how often.
//!
//! Rule: a plan says everything that a run depends on but the machine; the same plan with the same seed runs
//! the same things in the same order.

use anyhow::{bail, Context};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a profiler's environment names the folder of its run.
pub const OUT: &str = "{out}";

/// One profiler, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profiler {
    /// How the tables call it.
    pub name: String,
    /// What `NCCL_PROFILER_PLUGIN` becomes; `None` runs without a profiler.
    pub plugin: Option<String>,
    /// Further variables; [`OUT`] in a value becomes the folder of the run.
    pub env: Vec<(String, String)>,
    /// The events that it asks for, if it is an empty one of some events.
    pub mask: Option<u64>,
    /// Whether it records, so that its output is judged.
    pub records: bool,
}

impl Profiler {
    /// No profiler.
    pub fn none() -> Profiler {
        Profiler {
            name: "none".into(),
            plugin: None,
            env: Vec::new(),
            mask: None,
            records: false,
        }
    }

    /// The empty plugin at `plugin`, asking for the events of `mask`, or for all.
    pub fn empty(plugin: &Path, mask: Option<(&str, u64)>) -> Profiler {
        Profiler {
            name: mask.map_or("empty".into(), |(name, _)| format!("empty {name}")),
            plugin: Some(plugin.display().to_string()),
            env: mask
                .map(|(_, bits)| ("NCCLSCOPE_EMPTY_MASK".into(), format!("{bits:#x}")))
                .into_iter()
                .collect(),
            mask: mask.map(|(_, bits)| bits),
            records: false,
        }
    }

    /// Reads `NAME=PATH[,ENV=VALUE...]`; without a path it is `own`, ncclscope's plugin.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str, own: Option<&Path>) -> anyhow::Result<Profiler> {
        let expected = "expected NAME=PATH[,ENV=VALUE...]";
        let mut parts = text.split(',');
        let Some((name, path)) = parts.next().and_then(|first| first.split_once('=')) else {
            bail!("{expected}, found `{text}`");
        };
        if name.is_empty() || name == "none" {
            bail!("{expected} with a name of its own, found `{text}`");
        }
        let mut env = Vec::new();
        for part in parts {
            let (key, value) = part
                .split_once('=')
                .filter(|(key, _)| !key.is_empty())
                .with_context(|| {
                    format!("{expected}, found `{part}` in `{text}`\n  hint: a value can't have a comma; \
                        export such a variable instead")
                })?;
            env.push((key.to_owned(), value.to_owned()));
        }
        let plugin = match (path, own) {
            ("", Some(own)) => own.display().to_string(),
            ("", None) => bail!("`{text}` names no path, and ncclscope's own plugin was not found"),
            (path, _) if path.contains('/') => {
                let absolute = std::path::absolute(path)?;
                if !absolute.is_file() {
                    bail!(
                        "`{text}`: expected a plugin at `{}`, found no file",
                        absolute.display()
                    );
                }
                absolute.display().to_string()
            }
            // A name that NCCL looks for itself.
            (path, _) => path.to_owned(),
        };
        Ok(Profiler {
            name: name.to_owned(),
            plugin: Some(plugin),
            env,
            mask: None,
            records: true,
        })
    }
}

/// What the profilers watch.
#[derive(Clone, Debug)]
pub enum Work {
    /// Simulated jobs, without a GPU.
    FakeNccl {
        /// The `fake-nccl` program.
        program: PathBuf,
        /// A script instead of the standard jobs.
        script: Option<PathBuf>,
        /// Calls a second; 0 is as fast as they go.
        rates: Vec<u64>,
        /// Sizes of the job.
        ranks: Vec<u32>,
        /// Channels of each call.
        channels: Vec<u8>,
        /// Calls of each rank.
        calls: u64,
        /// Small calls on these numbers of hosts and releases of NCCL, in place of the standard jobs.
        events: Option<Events>,
    },
    /// `ncclscope bench`.
    Bench {
        /// The `ncclscope` program.
        program: PathBuf,
        /// What follows `bench`, the same for every case.
        args: Vec<String>,
        /// Which of [`CASES`](crate::truth::bench::CASES); empty for all.
        cases: Vec<String>,
    },
    /// Any command that uses NCCL.
    Command {
        /// Program and arguments.
        command: Vec<String>,
    },
}

/// Where small calls are made, to see what events cost.
#[derive(Clone, Debug)]
pub struct Events {
    /// Simulated hosts.
    pub hosts: Vec<u32>,
    /// Releases of NCCL, as `2.28.9`.
    pub releases: Vec<String>,
}

impl Work {
    /// The word for it.
    pub fn name(&self) -> &'static str {
        match self {
            Work::FakeNccl { .. } => "fake-nccl",
            Work::Bench { .. } => "bench",
            Work::Command { .. } => "command",
        }
    }
}

/// All of it.
#[derive(Clone, Debug)]
pub struct JudgePlan {
    /// The work.
    pub work: Work,
    /// The profilers, without [`Profiler::none`], which is always run.
    pub profilers: Vec<Profiler>,
    /// Rounds; each pairs one run under every profiler with one without.
    pub rounds: u32,
    /// For the order of runs.
    pub seed: u64,
    /// A ratio above this is too much.
    pub limit: f64,
    /// A training step: a command for the shell that prints the ms of each step, or whose whole time counts.
    pub step: Option<String>,
    /// The library that counts calls in commands.
    pub counter: Option<PathBuf>,
    /// Whether the counter runs along with the benchmark, to be held against what that says itself.
    pub check_counter: bool,
    /// After so long, a run is killed.
    pub timeout: Duration,
    /// Whether all is to end now.
    pub stopped: fn() -> bool,
    /// Whether fake-nccl measures the cost of callbacks too.
    pub callbacks: bool,
    /// Where runs leave their files; `None` removes them.
    pub folder: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profiler_is_a_name_a_path_and_variables() {
        let own = Path::new("/lib/ours.so");
        let parse = |text: &str| Profiler::parse(text, Some(own));
        let stamps = parse("stamps=,NCCLSCOPE_TIMING=stamps,A={out}/a=b").expect("sound");
        assert_eq!(stamps.plugin.as_deref(), Some("/lib/ours.so"));
        assert_eq!(stamps.env[0], ("NCCLSCOPE_TIMING".into(), "stamps".into()));
        assert_eq!(stamps.env[1], ("A".into(), "{out}/a=b".into()));
        assert_eq!(
            parse("x=inspector").expect("sound").plugin.as_deref(),
            Some("inspector")
        );
        for bad in ["x", "=a", "none=a", "x=a,b", "x=a,=b", "x=/nowhere/a.so"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(Profiler::parse("x=", None).is_err());
    }
}
