//! `--steps`, `--last` and `--phase`: which part of a run is looked at.

use analyze::spans::Part as Asked;
use anyhow::anyhow;
use std::time::Duration;
use tables::Capture;

/// Which part.
#[derive(clap::Args)]
pub struct Part {
    /// Only these steps of the run, as `report` counts them, from 0: `100..200` (without the 200th), `100..`,
    /// `..50` or `42`
    #[arg(long, value_name = "A..B", group = "part")]
    steps: Option<String>,
    /// Only the last of the run: `10m`, `30s`
    #[arg(long, value_name = "TIME", group = "part", value_parser = crate::attach::duration)]
    last: Option<Duration>,
    /// Only phases of this name, which the program marked
    #[arg(long, value_name = "NAME", group = "part")]
    phase: Option<String>,
}

impl Part {
    /// Whether it is not all of the run.
    pub fn is_given(&self) -> bool {
        self.steps.is_some() || self.last.is_some() || self.phase.is_some()
    }

    /// Leaves out all else of a capture, and says so on standard error.
    ///
    /// # Errors
    /// If it is written in another way, or if the capture has none of it.
    pub fn keep(&self, capture: &mut Capture) -> anyhow::Result<()> {
        let Some(asked) = self.asked()? else {
            return Ok(());
        };
        let kept = asked.keep(capture);
        kept.map_err(|no| anyhow!("{no}\n  hint: {}", no.hint))?;
        if let Some(part) = &capture.part {
            tell!("ncclscope: note: this is {part} alone");
        }
        Ok(())
    }

    /// Which part that is; `None` if all of the run.
    ///
    /// # Errors
    /// If it is written in another way.
    pub fn asked(&self) -> anyhow::Result<Option<Asked>> {
        if let Some(text) = &self.steps {
            let steps = analyze::spans::steps_of(text);
            let steps = steps.map_err(|said| anyhow!("`--steps {text}`: {said}"))?;
            return Ok(Some(Asked::Steps(steps)));
        }
        if let Some(last) = self.last {
            let ns = i64::try_from(last.as_nanos()).unwrap_or(i64::MAX);
            return Ok(Some(Asked::Last(ns)));
        }
        Ok(self.phase.clone().map(Asked::Phase))
    }
}
