//! `ncclscope hang`: does the job hang, and if so, which rank in which call?

use crate::report::{open, print};
use analyze::hang::Conditions;
use anyhow::bail;
use std::path::PathBuf;
use std::process::ExitCode;

/// Say whether a job hangs, running or dead: which rank is missing in which call, or which network operation is stuck
///
/// The first sentence is the verdict. Exit status: 0 no hang, 1 hang, 2 can't tell (or an error).
#[derive(clap::Args)]
pub struct Args {
    /// Capture folder, the folder of one host in it, or one trace file; of a running job, too
    capture: PathBuf,
    /// From how long on a wait is a hang, like 10s, 500ms or 5min; by default 120s, and at least twice the longest
    /// pause between two calls that a rank of this job has come back from
    #[arg(long, value_name = "TIME", value_parser = time)]
    after: Option<i64>,
    /// Print JSON (ncclscope.hang/1) instead of text
    #[arg(long)]
    json: bool,
    /// Print every rank instead of the first of each communicator
    #[arg(long, conflicts_with = "json")]
    all: bool,
}

/// A time in ns, or in seconds where it has no unit.
fn time(text: &str) -> anyhow::Result<i64> {
    // A year is more than any job waits.
    match units::nanos(text, Some(1e9)).filter(|ns| *ns <= 3.2e16) {
        Some(ns) => Ok(ns as i64),
        None => bail!("expected a time like 10s, 500ms or 5min, found `{text}`"),
    }
}

/// Prints the verdict.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let capture = open(&args.capture)?;
    let conditions = Conditions {
        after_ns: args.after,
    };
    let hang = analyze::hang::hang(&capture, &conditions);
    print(|out| match args.json {
        true => render::hang::json(&hang, out),
        false => render::hang::text(&hang, args.all, out),
    })?;
    Ok(ExitCode::from(match hang.verdict.hang() {
        Some(false) => 0,
        Some(true) => 1,
        None => 2,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_users_write_them() {
        for (text, ns) in [
            ("10s", 10_000_000_000),
            ("10", 10_000_000_000),
            ("500ms", 500_000_000),
            ("1.5min", 90_000_000_000),
            ("0s", 0),
        ] {
            assert_eq!(time(text).ok(), Some(ns), "{text}");
        }
        for text in ["", "s", "-1s", "5 parsecs", "1e9s", "999999999999h"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
