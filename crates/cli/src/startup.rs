//! `ncclscope startup`: what NCCL did between the start of the job and its first call, and what took long.

use crate::progress;
use crate::report::{hinted, print};
use crate::run::NCCL_LOGS;
use analyze::startup::{leave_attempt, of_said, Startup};
use anyhow::{bail, Context};
use setup::log::{Reader, Said};
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
            let which = args.attempt.which();
            let mut said = of_files(files)?;
            let attempt = leave_attempt(&mut said, which);
            let (read, of) = attempt.map_err(|of| no_attempt(files, which, of))?;
            crate::attempt::tell_of(read, of as usize);
            let startup = of_said(&said);
            if said.inits.is_empty() && startup.failure.is_none() {
                bail!(nothing(files, &said));
            }
            startup
        }
    };
    print(|out| {
        if args.json {
            render::startup::json(&startup, out)
        } else {
            render::startup::text(&startup, args.all, args.look.of_stdout(), out)
        }
    })
}

/// That these files have only so many attempts.
fn no_attempt(files: &[PathBuf], asked: Which, of: u32) -> anyhow::Error {
    let shown: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
    let asked = match asked {
        Which::Number(asked) => asked,
        Which::All | Which::Last => 0,
    };
    anyhow::anyhow!(
        "`{}`: expected an attempt from 1 to {of}, found {asked}\n  hint: leave out `--attempt` to read the \
         last attempt",
        shown.join("`, `")
    )
}

/// Why files say nothing about start-up.
fn nothing(files: &[PathBuf], said: &Said) -> String {
    let shown: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
    let shown = shown.join("`, `");
    match &said.version {
        Some(version) if said.lines == 0 => format!(
            "`{shown}` has NCCL's version ({version}) and no line of its level INFO\n  hint: run the job \
             with NCCL_DEBUG=INFO; or record it with `NCCLSCOPE_NCCL_LOG=on ncclscope run`"
        ),
        _ if said.lines > 0 => format!(
            "expected lines `Init timings`, `Init START` or `Init COMPLETE` of NCCL, found {} other lines of \
             NCCL in `{shown}`\n  hint: NCCL_DEBUG_SUBSYS must have INIT, and the output must be whole",
            said.lines
        ),
        _ => format!(
            "expected lines `Init timings` or `Init START` of NCCL, found none in `{shown}`\n  hint: NCCL \
             prints them with NCCL_DEBUG=INFO, from 2.22 on; or record with `NCCLSCOPE_NCCL_LOG=on ncclscope \
             run`"
        ),
    }
}

/// What NCCL printed into these files.
pub fn of_files(files: &[PathBuf]) -> anyhow::Result<Said> {
    let mut reader = Reader::default();
    for file in files {
        read(file, &mut reader)?;
    }
    Ok(reader.finish())
}

/// What NCCL printed into the files of a folder; nothing if there is no folder.
pub fn of_folder(folder: &Path) -> anyhow::Result<Said> {
    of_files_and_folder(&[], folder)
}

/// What NCCL printed into these files and those of a folder.
pub fn of_files_and_folder(files: &[PathBuf], folder: &Path) -> anyhow::Result<Said> {
    let mut reader = Reader::default();
    for file in files {
        read(file, &mut reader)?;
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        read(&entry.path(), &mut reader)?;
    }
    Ok(reader.finish())
}

/// Of a capture, with the output of processes that never loaded the recorder.
fn of_capture(capture: &Path, which: Which) -> anyhow::Result<Startup> {
    let mut said = of_folder(&capture.join(NCCL_LOGS))?;
    let found = said.lines + said.warned;
    let source = progress::show("reading", |progress| {
        Source::open_attempt(capture, progress, which)
    });
    let source = match source {
        Ok(source) => {
            crate::attempt::tell(source.capture());
            source
        }
        // Nothing but these: every process was still in its init.
        Err(OpenError::NoTrace { .. }) if found > 0 => return Ok(of_said(&said)),
        Err(error) => return Err(hinted(error)),
    };
    let startup = progress::show("reading", |progress| {
        analyze::report_from(source, None, progress).startup
    });
    if said.inits.is_empty() && said.warnings.is_empty() {
        return Ok(startup);
    }
    said.inits.extend(startup.inits.iter().cloned());
    said.warnings.extend(startup.warnings.iter().cloned());
    said.warned += startup.warned;
    Ok(Startup {
        processes: startup.processes,
        first_uses: startup.first_uses,
        whole: startup.whole,
        hardly_used: startup.hardly_used,
        notes: startup.notes,
        ..of_said(&said)
    })
}

/// How compressed files begin, and what prints them.
const COMPRESSED: [(&[u8], &str); 3] = [
    (&[0x1f, 0x8b], "zcat"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstdcat"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "xzcat"),
];

/// Reads NCCL's output from a file, or from standard input.
fn read(file: &Path, reader: &mut Reader) -> anyhow::Result<()> {
    let from: Box<dyn Read> = if file == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(
            std::fs::File::open(file)
                .with_context(|| format!("`{}` can't be read", file.display()))?,
        )
    };
    let mut lines = BufReader::new(from);
    let begins = lines
        .fill_buf()
        .with_context(|| format!("`{}` can't be read", file.display()))?;
    for (magic, program) in COMPRESSED {
        if begins.starts_with(magic) {
            bail!(
                "`{0}` is compressed\n  hint: `{program} {0} | ncclscope startup -` reads it; `paths` and \
                 `memory` take `-`, too",
                file.display()
            );
        }
    }
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
