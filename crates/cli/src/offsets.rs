//! `--offsets`: what somebody else knows of the clocks of a job's hosts.

use analyze::clocks::Given;
use std::path::PathBuf;

/// Offsets of the hosts' clocks.
#[derive(clap::Args)]
pub struct Offsets {
    /// Offsets of the hosts' clocks in place of those estimated: a CSV or JSON file of host, offset_ns and
    /// error_ns, or `within=100us` where all agree to that
    #[arg(long, value_name = "FILE")]
    offsets: Option<PathBuf>,
}

impl Offsets {
    /// What was given, if anything.
    pub fn read(&self) -> anyhow::Result<Option<Given>> {
        let read = |named: &PathBuf| {
            Given::read(named).map_err(|error| anyhow::anyhow!("{error}\n  hint: {}", error.hint()))
        };
        self.offsets.as_ref().map(read).transpose()
    }
}
