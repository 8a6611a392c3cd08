//! `ncclscope history`: many runs, and who was to blame in them.

use crate::report::{open, print};
use analyze::history::{history, History, Past, Skipped};
use anyhow::bail;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Over many runs, say which rank, host, GPU or link was to blame again and again, and at what cost
///
///   ncclscope history runs/*
///   ncclscope history monday tuesday wednesday --json
///
/// A fault that stays with a node while ranks move is the hardware's or the system's; one that stays with a
/// rank is the program's or the data's. A name is only called the culprit if chance does not explain it.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Captures, in any order
    #[arg(required = true, value_name = "DIR")]
    captures: Vec<PathBuf>,
    /// Print JSON (ncclscope.history/1) instead of text
    #[arg(long)]
    json: bool,
    /// Print all suspects and runs
    #[arg(long, conflicts_with = "json")]
    all: bool,
    #[command(flatten)]
    look: crate::look::Look,
}

/// Prints it.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let mut pasts: Vec<Past> = Vec::new();
    let mut skipped = Vec::new();
    let mut skip = |path: &Path, because: String| {
        // The hint after it is about one capture alone.
        let because = because.lines().next().unwrap_or_default().to_owned();
        tell!("ncclscope: note: skipped: {because}");
        skipped.push(Skipped {
            capture: path.display().to_string(),
            because,
        });
    };
    // One capture in memory at a time.
    for path in &args.captures {
        let past = match open(path) {
            Ok(capture) => Past::of(&capture),
            // One run of many that can't be read takes nothing from the others.
            Err(error) if args.captures.len() > 1 => {
                skip(path, format!("{error:#}"));
                continue;
            }
            Err(error) => return Err(error),
        };
        // A copy would count a fault twice.
        if let Some(known) = pasts.iter().find(|known| known.is_same_recording(&past)) {
            let same = format!(
                "`{}` is the same recording as `{}`",
                path.display(),
                known.capture
            );
            skip(path, same);
            continue;
        }
        pasts.push(past);
    }
    if pasts.is_empty() {
        bail!("none of these can be read\n  hint: `ncclscope list` lists the captures in a folder");
    }
    let history = History {
        skipped,
        ..history(&pasts)
    };
    print(|out| {
        if args.json {
            render::history::json(&history, out)
        } else {
            render::history::text(&history, args.all, args.look.of_stdout(), out)
        }
    })
}
