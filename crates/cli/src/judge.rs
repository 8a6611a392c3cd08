//! `ncclscope judge`: profilers held against the work that they watched.

use crate::plugin_path;
use crate::progress;
use crate::report::print;
use anyhow::{bail, Context};
use bench::function::Function;
use bench::stop;
use clap::ValueEnum;
use judge::plan::{Events, JudgePlan, Profiler, Work};
use judge::truth::bench::CASES;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Judge NCCL profilers: what they miss, how wrong their times are, what they cost
///
/// Runs the same work without a profiler, under an empty plugin, under ncclscope and under every
/// --plugin, each once a round in a random order, and compares what was done with what was recorded:
///
///   ncclscope judge                                             # simulated jobs, no GPU needed
///   ncclscope judge --work bench -- all_reduce -b 1K -e 1M      # ncclscope bench on GPUs
///   ncclscope judge --step 'python train.py' -- python job.py   # any program that uses NCCL
///   ncclscope judge --plugin inspector=/path/libinspector.so,NCCL_INSPECTOR_ENABLE=1
///
/// A plugin's output is looked for in the folder that NCCLSCOPE_OUT and NCCL_INSPECTOR_DUMP_DIR name
/// in its runs, and that `{out}` stands for in the VALUEs of --plugin.
///
/// Exit status: 0 judged, 2 it could not be, or every run failed, 130 after ^C.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// A further profiler, with variables for its runs; without PATH, ncclscope's own plugin
    #[arg(long = "plugin", value_name = "NAME=PATH[,ENV=VALUE...]")]
    plugins: Vec<String>,

    /// Only the profilers of --plugin, without ncclscope and the empty plugin
    #[arg(long)]
    only: bool,

    /// The empty plugin also with each event type by itself: what each costs. With fake-nccl, of calls of 64
    /// B on --hosts hosts and on --release releases, in place of the standard jobs
    #[arg(long)]
    mask_bits: bool,

    /// What the profilers watch [default: command if one is given, else bench where there is an NVIDIA GPU,
    /// else fake-nccl]
    #[arg(long, value_enum)]
    work: Option<WorkKind>,

    /// Rounds; each pairs one run under every profiler with one without
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,

    /// A training step: a command for the shell that prints the milliseconds of each step on a line, or whose
    /// whole time counts
    #[arg(long, value_name = "CMD")]
    step: Option<String>,

    /// Overhead up to this ratio is within the limit
    #[arg(long, value_name = "RATIO", default_value_t = 1.02)]
    limit: f64,

    /// Seed of the order of runs [default: from the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Seconds after which a run is killed
    #[arg(long, value_name = "S", default_value_t = 600.0)]
    timeout: f64,

    /// Write the report as JSON too; `-` prints it instead of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write the figures as one HTML file: recorded shares, distributions, overhead, communication time
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Show every row of every table
    #[arg(long)]
    all: bool,

    /// Keep the files of the runs in this folder, which is new or empty
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// bench: only these ways of calling
    #[arg(long = "case", value_delimiter = ',', value_name = "CASE", value_parser = CASES.map(|c| c.0))]
    cases: Vec<String>,

    /// bench: run the counter of calls along, and note what both say
    #[arg(long)]
    check_counter: bool,

    /// fake-nccl: calls a second, 0 for as fast as they go
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N",
        default_value = "10000,0"
    )]
    rate: Vec<u64>,

    /// fake-nccl: sizes of the jobs
    #[arg(long, value_delimiter = ',', value_name = "N", default_value = "2,8",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    ranks: Vec<u32>,

    /// fake-nccl: channels of each call
    #[arg(long, value_delimiter = ',', value_name = "N", default_value = "1,16",
        value_parser = clap::value_parser!(u8).range(1..=32))]
    channels: Vec<u8>,

    /// fake-nccl: calls of each rank
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..))]
    calls: u64,

    /// fake-nccl with --mask-bits: numbers of simulated hosts
    #[arg(long, value_delimiter = ',', value_name = "N", default_value = "1,2",
        value_parser = clap::value_parser!(u32).range(1..=64))]
    hosts: Vec<u32>,

    /// fake-nccl with --mask-bits: releases of NCCL to simulate
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "VERSION",
        default_value = "2.28.9,2.30.7,2.31.2",
        value_parser = release
    )]
    release: Vec<String>,

    /// fake-nccl: leave out the cost of callbacks
    #[arg(long)]
    no_callbacks: bool,

    /// fake-nccl: a script instead of the standard jobs
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,

    /// The command, or options for `ncclscope bench`
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum WorkKind {
    /// Simulated jobs, without a GPU
    FakeNccl,
    /// `ncclscope bench`
    Bench,
    /// The command after `--`
    Command,
}

/// Runs and reports.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let json = args.json.clone();
    let html = args.html.clone();
    let all = args.all;
    let plan = plan(args)?;
    if let Some(file) = json.as_deref().filter(|file| file.as_os_str() != "-") {
        bench::writable(file)?;
    }
    if let Some(file) = &html {
        bench::writable(file)?;
    }
    stop::watch();
    let judged = progress::show("judging", |progress| {
        judge::trial::run(&plan, &mut |done, of| {
            progress.of.store(of, Relaxed);
            progress.done.store(done, Relaxed);
        })
    });
    let report = match (judged, stop::asked()) {
        (Err(error), Some(signal)) => {
            tell!("error: {error:#}");
            return Ok(ExitCode::from(128 + signal as u8));
        }
        (judged, _) => judged?,
    };
    let text = || serde_json::to_string_pretty(&report);
    match &json {
        Some(file) if file.as_os_str() == "-" => {
            let text = text()?;
            print(|out| writeln!(out, "{}", render::json::printable(&text)))?;
        }
        Some(file) => std::fs::write(file, text()? + "\n")
            .with_context(|| format!("could not write `{}`", file.display()))?,
        None => {}
    }
    if let Some(file) = &html {
        let mut page = Vec::new();
        judge::html::write(&report, &mut page)?;
        std::fs::write(file, page)
            .with_context(|| format!("could not write `{}`", file.display()))?;
    }
    if json.is_none_or(|file| file.as_os_str() != "-") {
        print(|out| judge::text::write(&report, all, out))?;
    }
    // Every run failed: there is no figure at all.
    Ok(ExitCode::from(if report.resources.is_empty() {
        2
    } else {
        0
    }))
}

fn plan(args: Args) -> anyhow::Result<JudgePlan> {
    if !(args.limit.is_finite() && args.limit > 0.0) {
        bail!(
            "--limit: expected a ratio above 0 like 1.02, found `{}`",
            args.limit
        );
    }
    if !(args.timeout > 0.0 && args.timeout < 1e9) {
        bail!(
            "--timeout: expected seconds above 0, found `{}`",
            args.timeout
        );
    }
    let kind = args
        .work
        .unwrap_or_else(|| match Path::new("/dev/nvidia0").exists() {
            _ if !args.command.is_empty() => WorkKind::Command,
            true => WorkKind::Bench,
            false => WorkKind::FakeNccl,
        });
    let of_bench = !args.cases.is_empty() || args.check_counter;
    if of_bench && kind != WorkKind::Bench {
        bail!(
            "--case and --check-counter are for --work bench, found {}",
            name(kind)
        );
    }
    if args.script.is_some() && kind != WorkKind::FakeNccl {
        bail!("--script is for --work fake-nccl, found {}", name(kind));
    }
    if args.mask_bits && args.script.is_some() {
        bail!("expected --mask-bits or --script, found both: it makes calls of its own");
    }
    let first = args.command.first().map_or("", String::as_str);
    if args.work.is_none() && (first.starts_with('-') || Function::named(first).is_some()) {
        bail!(
            "expected a command after `--`, found `{first}`\n  hint: --work bench takes what `ncclscope \
             bench` takes there; if it is a program, --work command"
        );
    }
    let own = plugin_path::find();
    let mut profilers = Vec::new();
    if !args.only {
        let empty = plugin_path::installed("libnccl_profiler_empty.so")
            .map_err(|error| anyhow::anyhow!("{error}, and --only does without it"))?;
        profilers.push(Profiler::empty(&empty, None));
        if args.mask_bits {
            let bits = nccl_abi::event::ALL.iter();
            profilers.extend(bits.map(|e| Profiler::empty(&empty, Some((e.name, e.bit)))));
        }
        let named = |text: &String| text.starts_with("ncclscope=");
        if !args.plugins.iter().any(named) {
            profilers.push(Profiler::parse(
                "ncclscope=",
                Some(own.as_ref().map_err(again)?),
            )?);
        }
    }
    for text in &args.plugins {
        let profiler = Profiler::parse(text, own.as_deref().ok())?;
        if profilers.iter().any(|p| p.name == profiler.name) {
            bail!(
                "--plugin: expected names of their own, found `{}` twice",
                profiler.name
            );
        }
        profilers.push(profiler);
    }
    if profilers.is_empty() {
        bail!("--only: expected a --plugin, found none");
    }
    let work = match kind {
        WorkKind::Command if args.command.is_empty() => {
            bail!("--work command: expected a command after `--`, found none")
        }
        WorkKind::Command => Work::Command {
            command: args.command,
        },
        WorkKind::Bench => Work::Bench {
            program: std::env::current_exe()?,
            args: args.command,
            cases: args.cases,
        },
        WorkKind::FakeNccl if !args.command.is_empty() => {
            bail!(
                "--work fake-nccl: expected no command, found `{}`",
                args.command.join(" ")
            )
        }
        WorkKind::FakeNccl => Work::FakeNccl {
            program: plugin_path::installed("fake-nccl")?,
            script: args.script.map(readable).transpose()?,
            rates: args.rate,
            ranks: args.ranks,
            channels: args.channels,
            calls: args.calls,
            events: args.mask_bits.then_some(Events {
                hosts: args.hosts,
                releases: args.release,
            }),
        },
    };
    let counts = kind == WorkKind::Command || args.step.is_some() || args.check_counter;
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH);
    Ok(JudgePlan {
        work,
        profilers,
        rounds: args.pairs,
        seed: args
            .seed
            .unwrap_or_else(|| clock().map_or(0, |d| d.as_nanos() as u64)),
        limit: args.limit,
        step: args.step,
        counter: counts
            .then(|| plugin_path::installed("libncclscope_counter.so"))
            .transpose()?,
        check_counter: args.check_counter,
        timeout: Duration::from_secs_f64(args.timeout),
        stopped: || stop::asked().is_some(),
        callbacks: !args.no_callbacks,
        folder: args.output,
    })
}

/// A release that fake-nccl can simulate.
fn release(text: &str) -> Result<String, String> {
    let all = || nccl_abi::release::ALL.iter().map(|of| of.version);
    let shown = |of: u32| format!("{}.{}.{}", of / 10_000, of / 100 % 100, of % 100);
    if all().any(|of| shown(of) == text) {
        return Ok(text.to_owned());
    }
    let all: Vec<String> = all().map(shown).collect();
    Err(format!("expected one of {}", all.join(", ")))
}

fn name(kind: WorkKind) -> String {
    let value = kind.to_possible_value();
    value.map_or_else(String::new, |value| format!("--work {}", value.get_name()))
}

/// A script that is there: else it would fail in every run.
fn readable(script: PathBuf) -> anyhow::Result<PathBuf> {
    std::fs::File::open(&script)
        .with_context(|| format!("--script: could not read `{}`", script.display()))?;
    Ok(script)
}

/// An error that is told from where it is needed, though it came before.
fn again(error: &anyhow::Error) -> anyhow::Error {
    anyhow::anyhow!("{error:#}")
}
