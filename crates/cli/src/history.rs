//! `ncclscope history`: many runs, and who was to blame in them.

use crate::report::{open, print};
use analyze::history::{history, Past};
use std::path::PathBuf;
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
    // One capture in memory at a time.
    for path in &args.captures {
        let past = open(path).map(|capture| Past::of(&capture))?;
        // A copy would count a fault twice.
        if let Some(known) = pasts.iter().find(|known| known.is_same_recording(&past)) {
            anyhow::bail!(
                "`{}` and `{}` are the same recording\n  hint: name each capture once",
                known.capture,
                past.capture
            );
        }
        pasts.push(past);
    }
    let history = history(&pasts);
    print(|out| {
        if args.json {
            render::history::json(&history, out)
        } else {
            render::history::text(&history, args.all, args.look.of_stdout(), out)
        }
    })
}
