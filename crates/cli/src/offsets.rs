//! `--offsets`: what somebody else knows of the clocks of a job's hosts.

use analyze::clocks::Given;
use std::path::PathBuf;

/// Offsets of the hosts' clocks.
#[derive(clap::Args)]
pub struct Offsets {
    /// Offsets of the hosts' clocks in place of those estimated: a CSV or JSON file of host, offset_ns and error_ns, or
    /// `within=100us` where all agree to that
    #[arg(long, value_name = "FILE")]
    offsets: Option<PathBuf>,
}

impl Offsets {
    /// What was given, if anything.
    pub fn read(&self) -> anyhow::Result<Option<Given>> {
        let Some(path) = &self.offsets else {
            return Ok(None);
        };
        let within = path.to_str().and_then(|text| text.strip_prefix("within="));
        let given = match within {
            Some(time) => Given::within(time)
                .map_err(|error| anyhow::anyhow!("{error}\n  hint: ns, us, ms and s are units")),
            None => {
                let text = std::fs::read_to_string(path).map_err(|error| {
                    anyhow::anyhow!(
                        "`{}` can't be read: {error}\n  hint: name a file of host, offset_ns and error_ns, or say `--offsets within=100us`",
                        path.display()
                    )
                })?;
                Given::parse(&text).map_err(|error| {
                    anyhow::anyhow!(
                        "`{}`: {error}\n  hint: `host,offset_ns,error_ns` in CSV or JSON; see docs/clocks.md",
                        path.display()
                    )
                })
            }
        };
        given.map(Some)
    }
}
