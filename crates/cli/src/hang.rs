//! `ncclscope hang`: does the job hang, and if so, which rank in which call?

use crate::report::{open, print};
use crate::run::adopt::{state, Here};
use analyze::hang::{Conditions, Life};
use anyhow::bail;
use std::path::PathBuf;
use std::process::ExitCode;
use tables::{LiveSource, Process};

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
    let here = Here::ask();
    let conditions = Conditions {
        lives: capture.processes.iter().map(|p| life(p, &here)).collect(),
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

/// Whether a process that recorded is still there. Only on its own boot of its own host, and in its own pid name space,
/// does a pid mean anything.
pub(crate) fn life(process: &Process, here: &Here) -> Life {
    match (asked(process, here), process.live) {
        // Only what a dead process left is adopted.
        (Life::Unknown, LiveSource::Adopted) => Life::Gone,
        (life, _) => life,
    }
}

/// What this system knows of it.
fn asked(process: &Process, here: &Here) -> Life {
    let number = |key: &str| process.fact(key).and_then(|v| v.parse::<u64>().ok());
    // Empty where there is no /proc.
    let Some(boot) = process.fact("boot_id").filter(|boot| !boot.is_empty()) else {
        return Life::Unknown;
    };
    if boot != here.boot_id {
        // The same host, started anew: what ran before is gone. Another machine may have the same name.
        let (host, seen) = (process.fact("host"), process.clock.newest());
        let known = host.is_some() && !here.boot_id.is_empty();
        return match known && here.was_restarted_since(host, seen) {
            true => Life::Gone,
            false => Life::Unknown,
        };
    }
    if number("pid_namespace") != Some(here.pid_namespace) {
        return Life::Unknown;
    }
    let Some(start) = number("pid_start").filter(|start| *start != 0) else {
        return Life::Unknown;
    };
    match state(process.pid, start) {
        Some('T' | 't') => Life::Stopped,
        Some(_) => Life::Running,
        None => Life::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::clock::{Anchor, Clock};

    #[test]
    fn a_process_on_another_machine_of_this_name_is_not_known_to_be_gone() {
        let here = Here {
            host: "node".to_owned(),
            boot_id: "aa".to_owned(),
            pid_namespace: 7,
            booted_ns: Some(2_000_000_000),
            now_ns: 4_000_000_000_000,
        };
        let life_of = |boot: &str, seen_ns: u64| {
            let facts = [("host", "node"), ("boot_id", boot), ("pid_namespace", "7")];
            let anchor = Anchor {
                ticks: 1,
                realtime: seen_ns,
                monotonic: 1,
            };
            let process = Process {
                facts: facts.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
                clock: Clock::new([anchor], true),
                ..Process::default()
            };
            life(&process, &here)
        };
        assert_eq!(life_of("bb", 3_999_000_000_000), Life::Unknown);
        // Seen last before this host was started anew, and not since.
        assert_eq!(life_of("bb", 1_000_000_000), Life::Gone);
    }

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
