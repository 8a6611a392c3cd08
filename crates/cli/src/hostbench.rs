//! `ncclscope hostbench`: what this host's clocks, locks, sockets, memory, timers and GPUs cost.

use crate::progress;
use crate::report::print;
use anyhow::Context;
use hostbench::compare::compare;
use hostbench::starts::{self, Plan, PARTS};
use hostbench::{results, text};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

/// Measure what this host costs a program that uses NCCL, and compare two hosts
///
/// Clock reads, locks, atomics, calls of the kernel, timers, TCP over loopback, memory, shared memory, NUMA,
/// huge pages; with a GPU, launches, events, allocations, registrations, IPC handles and copies, also between
/// GPUs, and NVML's calls. Each start of the benchmark is a process of its own; figures are medians over
/// starts.
///
///   ncclscope hostbench --json a.json          # on each host
///   ncclscope hostbench diff a.json b.json     # exit status 1 if an item differs
///   ncclscope hostbench diff a.json b.json --html hosts.html     # a page with the winner of each row
///
/// Exit status: 0 done, or no item differs, 1 one does, 2 it can't be measured or told, or wrong usage.
#[derive(clap::Args)]
#[command(verbatim_doc_comment, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,

    /// Processes that measure everything once
    #[arg(long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=50))]
    starts: u32,

    /// Only these parts
    #[arg(long, value_delimiter = ',', value_name = "PART", value_parser = PARTS.map(|(name, _)| name))]
    only: Vec<String>,

    /// libcuda.so.1 to use
    #[arg(long, value_name = "PATH")]
    cuda: Option<PathBuf>,

    /// Write the figures as JSON too (ncclscope.hostbench/1); - is stdout, instead of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Lend memory of this GPU to the process that measures what opening it costs
    #[arg(long, hide = true, value_name = "GPU")]
    lend_memory: Option<usize>,

    /// What a start does, by its number
    #[arg(long, hide = true, value_name = "N")]
    one_start: Option<usize>,

    #[command(flatten)]
    look: crate::look::Look,
}

#[derive(clap::Subcommand)]
enum Verb {
    Diff(Diff),
}

/// Name the items in which two hosts differ
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  ncclscope hostbench diff a.json b.json",
    disable_help_subcommand = true
)]
struct Diff {
    /// What `ncclscope hostbench --json` wrote on the first host
    #[arg(value_name = "A.json")]
    a: PathBuf,
    /// The same of the second host
    #[arg(value_name = "B.json")]
    b: PathBuf,
    /// A difference is more than this ratio
    #[arg(long, value_name = "RATIO", default_value_t = 1.25)]
    limit: f64,
    /// Print JSON (ncclscope.hostbench-diff/1) instead of text
    #[arg(long)]
    json: bool,
    /// Write a page too: every item of both hosts, with the better one
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    look: crate::look::Look,
}

/// Measures, or compares.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(Verb::Diff(diff)) = args.verb {
        return main_of_diff(&diff);
    }
    if let Some(gpu) = args.lend_memory {
        let (input, mut out) = (std::io::stdin(), std::io::stdout());
        hostbench::gpu::lend(args.cuda.as_deref(), gpu, input, &mut out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let plan = Plan {
        program: std::env::current_exe()?,
        starts: args.starts as usize,
        only: args.only,
        cuda: args.cuda,
    };
    if let Some(number) = args.one_start {
        let line = starts::one(&plan, number)?;
        return print(|out| writeln!(out, "{line}"));
    }
    let on_stdout = args
        .json
        .as_deref()
        .is_some_and(|file| file == Path::new("-"));
    if let Some(file) = args.json.as_deref().filter(|_| !on_stdout) {
        bench::writable(file)?;
    }
    let found = progress::show("measuring", |progress| {
        progress.of.store(plan.starts as u64, Relaxed);
        starts::run(&plan, &mut |done| progress.done.store(done as u64, Relaxed))
    })?;
    if let Some(file) = &args.json {
        let json = serde_json::to_string_pretty(&found)? + "\n";
        if on_stdout {
            return print(|out| write!(out, "{}", render::json::printable(&json)));
        }
        std::fs::write(file, json)
            .with_context(|| format!("`{}` can't be written", file.display()))?;
    }
    let look = args.look.of_stdout();
    print(|out| text::results(&found, look, out))
}

fn main_of_diff(args: &Diff) -> anyhow::Result<ExitCode> {
    if !(args.limit >= 1.0 && args.limit.is_finite()) {
        anyhow::bail!(
            "--limit: expected a ratio of 1 or more like 1.25, found `{}`",
            args.limit
        );
    }
    let (a, b) = (results::read(&args.a)?, results::read(&args.b)?);
    let found = compare(&a, &b, args.limit);
    let names = [&args.a, &args.b].map(|path| path.display().to_string());
    let look = args.look.of_stdout();
    if let Some(file) = &args.html {
        let mut page = Vec::new();
        hostbench::html::comparison(&found, [&names[0], &names[1]], &mut page)?;
        std::fs::write(file, page)
            .with_context(|| format!("`{}` can't be written", file.display()))?;
    }
    print(|out| {
        if args.json {
            let json = serde_json::to_string_pretty(&found)?;
            writeln!(out, "{}", render::json::printable(&json))
        } else {
            text::comparison(&found, [&names[0], &names[1]], look, out)
        }
    })?;
    Ok(ExitCode::from(match (found.any(), found.can_tell) {
        (true, _) => 1,
        (false, true) => 0,
        (false, false) => 2,
    }))
}
