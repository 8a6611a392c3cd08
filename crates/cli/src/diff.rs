//! `ncclscope diff`: two runs side by side.

use crate::report::{open, print};
use analyze::diff::{Criterion, Run};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compare two runs: what became slower or faster, what changed around it, what appeared or vanished
///
///   ncclscope diff before after
///   ncclscope diff before after --fail-on slower=5% --fail-on missing
///
/// Exit status: 0 nothing asked for by --fail-on is the case, 1 something is, 2 it can't be told, or wrong
/// usage.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Capture of the first run, which the other is measured by
    a: PathBuf,
    /// Capture of the second run
    b: PathBuf,
    /// Exit with 1 if slower=N% (a kind of operation or all together is slower by more than that, beyond
    /// noise), missing (a kind of A is not in B), environment (software, variables, topology or recording
    /// differ), algorithm (algorithm, protocol or channels differ), incomplete (a capture lacks calls); may
    /// be given several times
    #[arg(long, value_name = "WHAT")]
    fail_on: Vec<Criterion>,
    /// Print JSON (ncclscope.diff/1) instead of text
    #[arg(long)]
    json: bool,
    /// Print every row instead of the first of each table
    #[arg(long, conflicts_with = "json")]
    all: bool,
}

/// Prints the diff; the exit status is the verdict's.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    // One capture in memory at a time.
    let run = |path: &Path| open(path).map(|capture| Run::of(&capture));
    let diff = analyze::diff::diff(&run(&args.a)?, &run(&args.b)?, &args.fail_on);
    print(|out| match args.json {
        true => render::diff_text::write_json(&diff, out),
        false => render::diff_text::write(&diff, args.all, out),
    })?;
    Ok(ExitCode::from(diff.verdict.exit_status))
}
