//! `ncclscope memory`: what communicators take of the GPUs' memory.

use crate::progress;
use crate::report::{hinted, print};
use crate::startup::of_files;
use analyze::memory::{of_inits, Memory, Note};
use anyhow::bail;
use std::path::PathBuf;
use std::process::ExitCode;
use tables::{Source, Which};

/// Say what each communicator takes of the GPU's memory, what for, and what more of them would take
///
/// Reads a capture, or what NCCL printed with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,ALLOC:
///
///   ncclscope memory DIR
///   ncclscope memory --communicators 16 --ranks 64 DIR
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Capture folder, or files with NCCL's debug output; `-` is standard input
    #[arg(required = true, value_name = "DIR|FILE")]
    from: Vec<PathBuf>,
    /// Say what so many communicators like the largest would take
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    communicators: Option<u32>,
    /// Say what the largest would take with so many ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// Print JSON (ncclscope.memory/1) instead of text
    #[arg(long)]
    json: bool,
    /// Print all communicators and ranks
    #[arg(long, conflicts_with = "json")]
    all: bool,
    #[command(flatten)]
    look: crate::look::Look,
}

/// Prints it.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let mut memory = read(&args.from)?;
    if args.communicators.or(args.ranks).is_some() {
        memory.project(args.communicators.unwrap_or(1), args.ranks);
    }
    print(|out| {
        if args.json {
            render::memory::json(&memory, out)
        } else {
            render::memory::text(&memory, args.all, args.look.of_stdout(), out)
        }
    })
}

fn read(from: &[PathBuf]) -> anyhow::Result<Memory> {
    if let [capture] = from {
        if capture.is_dir() {
            return progress::show("reading", |progress| {
                let source =
                    Source::open_attempt(capture, progress, Which::Last).map_err(hinted)?;
                Ok(analyze::report_from(source, None, progress).memory)
            });
        }
    }
    let said = of_files(from)?;
    let mut unowned = setup::memory::Sizes::default();
    said.unowned.values().for_each(|sizes| unowned.add(*sizes));
    let mut memory = of_inits(&said.inits, unowned);
    // A rank that failed holds nothing, and is what the reader looks for.
    let startup = analyze::startup::of_said(&said);
    if startup.failure.is_some() {
        memory.notes.push(Note::InitFailed(Box::new(startup)));
    }
    if memory.communicators.is_empty() {
        let shown: Vec<String> = from.iter().map(|f| f.display().to_string()).collect();
        bail!(
            "expected lines about communicators and allocations of NCCL, found none in `{}`\n  hint: NCCL \
             prints them with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,ALLOC; or record with \
             `NCCLSCOPE_NCCL_LOG=on ncclscope run`",
            shown.join("`, `")
        );
    }
    Ok(memory)
}
