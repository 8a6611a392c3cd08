//! `ncclscope startup`: what NCCL did between the start of the job and its first call, and what took long.

use crate::progress;
use crate::report::{hinted, print};
use crate::run::NCCL_LOGS;
use analyze::startup::{of_inits, Startup};
use anyhow::{bail, Context};
use setup::log::{Init, Reader, Said};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tables::{OpenError, Source, Which};

/// Say what took long before the first call: phases of NCCL's init, rank by rank, and the critical path
///
/// Reads a capture, or what NCCL printed with NCCL_DEBUG=INFO, of one rank or of all in any mixture:
///
///   ncclscope startup DIR
///   ncclscope startup slurm-1234.out
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Capture folder, or files with NCCL's debug output; `-` is standard input
    #[arg(required = true, value_name = "DIR|FILE")]
    from: Vec<PathBuf>,
    /// Print JSON (ncclscope.startup/1) instead of text
    #[arg(long)]
    json: bool,
    /// Print all communicators and ranks
    #[arg(long, conflicts_with = "json")]
    all: bool,
    #[command(flatten)]
    look: crate::look::Look,
    #[command(flatten)]
    attempt: crate::attempt::Attempt,
}

/// Prints it. Exit status 2 if nothing is known.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let startup = match args.from.as_slice() {
        [capture] if capture.is_dir() => of_capture(capture, args.attempt.which())?,
        files => {
            let inits = of_files(files)?.inits;
            if inits.is_empty() {
                let shown: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
                bail!(
                    "expected lines `Init timings` or `Init START` of NCCL, found none in `{}`\n  hint: NCCL \
                     prints them with NCCL_DEBUG=INFO, from 2.22 on; or record with `NCCLSCOPE_NCCL_LOG=on \
                     ncclscope run`",
                    shown.join("`, `")
                );
            }
            of_inits(&inits)
        }
    };
    print(|out| match args.json {
        true => render::startup::json(&startup, out),
        false => render::startup::text(&startup, args.all, args.look.of_stdout(), out),
    })
}

/// What NCCL printed into these files.
pub fn of_files(files: &[PathBuf]) -> anyhow::Result<Said> {
    let mut reader = Reader::default();
    for file in files {
        read(file, &mut reader)?;
    }
    Ok(reader.finish())
}

/// Of a capture, with the output of processes that never loaded the recorder.
fn of_capture(capture: &Path, which: Which) -> anyhow::Result<Startup> {
    let mut reader = Reader::default();
    let mut found = 0;
    for entry in std::fs::read_dir(capture.join(NCCL_LOGS))
        .into_iter()
        .flatten()
    {
        found += 1;
        read(&entry?.path(), &mut reader)?;
    }
    let source = progress::show("reading", |progress| {
        Source::open_attempt(capture, progress, which)
    });
    let source = match source {
        Ok(source) => {
            crate::attempt::tell(source.capture());
            source
        }
        // Nothing but these: every process was still in its init.
        Err(OpenError::NoTrace { .. }) if found > 0 => return Ok(of_inits(&reader.finish().inits)),
        Err(error) => return Err(hinted(error)),
    };
    let mut inits: Vec<Init> = reader.finish().inits;
    let startup = progress::show("reading", |progress| {
        analyze::report_from(source, None, progress).startup
    });
    if inits.is_empty() {
        return Ok(startup);
    }
    inits.extend(startup.inits.iter().cloned());
    Ok(Startup {
        processes: startup.processes,
        notes: startup.notes,
        ..of_inits(&inits)
    })
}

/// Reads NCCL's output from a file, or from standard input.
fn read(file: &Path, reader: &mut Reader) -> anyhow::Result<()> {
    let from: Box<dyn Read> = match file == Path::new("-") {
        true => Box::new(std::io::stdin()),
        false => Box::new(
            std::fs::File::open(file)
                .with_context(|| format!("`{}` can't be read", file.display()))?,
        ),
    };
    let mut lines = BufReader::new(from);
    let mut line = Vec::new();
    while lines
        .read_until(b'\n', &mut line)
        .with_context(|| format!("`{}` can't be read", file.display()))?
        > 0
    {
        reader.add(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(())
}
