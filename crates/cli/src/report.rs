//! `ncclscope report`: what was recorded, and what it says.

use anyhow::Context;
use render::text::Options;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use tables::Capture;

/// Say what a capture holds: is every call there, and where did the time go?
#[derive(clap::Args)]
pub struct Args {
    /// Capture folder, the folder of one host in it, or one trace file
    capture: PathBuf,
    /// Print JSON (ncclscope.report/1) instead of text
    #[arg(long)]
    json: bool,
    /// Print every row instead of the first of each table
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Print what the words and figures mean
    #[arg(long, conflicts_with = "json")]
    explain: bool,
}

/// Prints the report.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let capture = open(&args.capture)?;
    let report = analyze::report(&capture);
    let mut out = BufWriter::new(std::io::stdout().lock());
    let written = if args.json {
        render::json::write(&report, &mut out)
    } else {
        render::text::write(
            &report,
            Options {
                all: args.all,
                explain: args.explain,
            },
            &mut out,
        )
    };
    finish(written.and_then(|()| out.flush()))
}

/// Opens a capture; an error says what to do.
pub(crate) fn open(path: &std::path::Path) -> anyhow::Result<Capture> {
    Capture::open(path).map_err(|error| anyhow::anyhow!("{error}\n  hint: {}", error.hint()))
}

/// The exit status after writing to stdout. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn finish(written: std::io::Result<()>) -> anyhow::Result<ExitCode> {
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        written => written
            .map(|()| ExitCode::SUCCESS)
            .context("writing the output"),
    }
}
