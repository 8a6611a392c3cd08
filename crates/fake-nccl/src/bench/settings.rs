//! What to measure: the options of `fake-nccl bench`.

use crate::plugin::Version;
use clap::Args;

/// What to measure.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// As NCCL_PROFILER_PLUGIN.
    #[arg(long)]
    pub plugin: Option<String>,
    /// NCCL release to simulate.
    #[arg(long, default_value = "2.28.9", value_parser = parse_version)]
    pub nccl: Version,
    /// Calls per second; 0 is as fast as they go.
    #[arg(long, value_delimiter = ',', default_value = "10000,0")]
    pub rate: Vec<u64>,
    /// Channels of each call; two values give the cost of one more channel.
    #[arg(long, value_delimiter = ',', default_value = "1,16")]
    pub channels: Vec<u8>,
    /// Calls to each plugin in the alternating part.
    #[arg(long, default_value_t = 40_000)]
    pub calls: u64,
    /// Length of the steady part with each plugin.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Processes that run at once.
    #[arg(long, default_value_t = 1)]
    pub ranks: usize,
    /// Leave KernelCh out, whatever the plugin asks for.
    #[arg(long)]
    pub no_kernel_ch: bool,
    /// Network operations for each channel (2 steps each), where the plugin asks for them.
    #[arg(long)]
    pub proxy_ops: bool,
    /// One JSON line for each case.
    #[arg(long)]
    pub json: bool,
    /// Measure the one case here, in this process.
    #[arg(long, hide = true)]
    pub here: bool,
}

fn parse_version(text: &str) -> Result<Version, String> {
    let found = Version::parse(text).filter(|v| v.native_abi().is_some());
    found.ok_or_else(|| format!("expected one of {}", Version::known()))
}
