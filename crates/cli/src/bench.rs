//! `ncclscope bench`: times NCCL's calls on this machine's GPUs, or on a job's.

use crate::report::print;
use anyhow::{anyhow, Context};
use bench::datatype::{Datatype, Reduction};
use bench::function::Function;
use bench::lead::Watch;
use bench::plan::{range, seconds, size, Length, Mode, Placement, Plan};
use bench::ranks::Trouble;
use bench::table::Table;
use bench::{json, nccl_tests, Settings};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Time NCCL's calls, each by itself or back to back, and check their data
///
///   ncclscope bench all_reduce -b 1K -e 1G -f 4        # all GPUs of this machine, a process for each
///   ncclscope bench all --sizes 1K,1M --time 3s --gpus 4
///   srun -N 2 -n 16 ncclscope bench alltoall           # or torchrun, or mpirun; across hosts
///   ncclscope bench --read nccl-tests.txt              # what nccl-tests printed, text or JSON
///
/// Columns are those of nccl-tests, then median, percentiles, the host's time inside a call, how far
/// apart the ranks started, and calls that were set apart for it. Sizes and bandwidths follow
/// nccl-tests. libnccl.so.2 is the one of LD_LIBRARY_PATH, python3's packages or the system.
///
/// Exit status: 0 done, 1 wrong data, or a rank failed or hung, 2 it can't begin, or wrong usage,
/// 130 after ^C. What was measured until then is in the files all the same.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// all_reduce, all_gather, reduce_scatter, broadcast, reduce, sendrecv (around a ring), sendrecv_pairs,
    /// alltoall, gather, scatter, or all
    #[arg(value_name = "FUNCTION", default_value = "all_reduce", value_parser = functions,
        value_delimiter = ',')]
    functions: Vec<Functions>,

    /// Smallest size
    #[arg(short = 'b', long, value_name = "SIZE", default_value = "32M", value_parser = size)]
    min_bytes: u64,
    /// Largest size [default: the smallest]
    #[arg(short = 'e', long, value_name = "SIZE", value_parser = size)]
    max_bytes: Option<u64>,
    /// From one size to the next
    #[arg(short = 'f', long, value_name = "N", default_value_t = 2)]
    factor: u64,
    /// These sizes instead, like 1K,1M,1G
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size, conflicts_with_all = [
        "min_bytes", "max_bytes", "factor"])]
    sizes: Vec<u64>,

    /// int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3 or f8e5m2
    #[arg(short, long, value_name = "TYPE", default_value = "float", value_parser = datatype)]
    datatype: Datatype,
    /// sum, prod, max or min
    #[arg(short, long, value_name = "OP", default_value = "sum", value_parser = reduction)]
    op: Reduction,
    /// Root of broadcast, reduce, gather and scatter
    #[arg(short, long, value_name = "RANK", default_value_t = 0)]
    root: u32,
    /// Two buffers, one, or first two and then one; sendrecv and alltoall know two only
    #[arg(long, value_enum, value_name = "WHERE", default_value = "both")]
    placement: Where,

    /// Start each call together on all ranks and time it, or make all without waiting and time the whole
    #[arg(long, value_enum, value_name = "MODE", default_value = "single")]
    mode: CallingMode,
    /// Calls in one ncclGroupStart and ncclGroupEnd; times are of one call
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    group: u32,
    /// Calls (or groups) in one CUDA graph; times are of one call
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    graph: Option<u32>,
    /// Calls (or groups, or graphs) at each size
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    iters: u64,
    /// As many as fit into this time at each size, like 3s
    #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with = "iters")]
    time: Option<f64>,
    /// Calls (or groups, or graphs) before, at each size
    #[arg(short, long, value_name = "N", default_value_t = 5)]
    warmup_iters: u64,
    /// Check the data: 1 yes, 0 no
    #[arg(short, long, value_name = "0|1", default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(0..=1))]
    check: u8,
    /// Set calls apart that the ranks of a host start further from each other, in single mode
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = micros)]
    max_skew: f64,

    /// At the end, this many calls (or groups, or graphs) of each function without a wait between them
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1000",
        require_equals = true, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    stress: Option<u64>,
    /// Size of the calls of --stress
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = size)]
    stress_size: u64,
    /// Measure everything so many times, each time in new processes, and say how far the starts differ
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "parquet",
        value_parser = clap::value_parser!(u32).range(1..=100))]
    starts: u32,

    /// GPUs of this machine, one process for each [default: as torchrun, srun or mpirun say, else all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    gpus: Option<u32>,
    /// Let NCCL take every N ranks for a host of their own (NCCL_HOSTID)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    hostid_per: Option<u32>,
    /// libnccl.so.2 to use
    #[arg(long, value_name = "PATH")]
    nccl: Option<PathBuf>,
    /// libcuda.so.1 to use
    #[arg(long, value_name = "PATH")]
    cuda: Option<PathBuf>,
    /// Port of rank 0, under a launcher [default: the one after MASTER_PORT, else 29511]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// A rank that does not answer for so long hangs
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = seconds)]
    timeout: f64,

    /// Write the table as JSON too (ncclscope.bench/1, with nccl-tests' names); - is stdout, instead of the
    /// text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write every call of every rank as Parquet
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// The run's name in that file
    #[arg(long, value_name = "NAME", default_value = "bench")]
    run: String,
    /// Print what nccl-tests or this command printed before, text or JSON, instead of measuring
    #[arg(long, value_name = "FILE", conflicts_with_all = ["parquet", "gpus", "nccl", "cuda"])]
    read: Option<PathBuf>,
}

#[derive(Clone)]
struct Functions(Vec<Function>);

#[derive(Clone, Copy, ValueEnum)]
enum Where {
    Out,
    In,
    Both,
}

#[derive(Clone, Copy, ValueEnum)]
enum CallingMode {
    Single,
    BackToBack,
}

fn functions(text: &str) -> Result<Functions, String> {
    if text == "all" {
        return Ok(Functions(Function::ALL.to_vec()));
    }
    let known = || Function::ALL.map(Function::option).join(", ");
    let function =
        Function::named(text).ok_or_else(|| format!("expected one of {}, or all", known()))?;
    Ok(Functions(vec![function]))
}

fn datatype(text: &str) -> Result<Datatype, String> {
    Datatype::named(text).ok_or_else(|| format!("expected one of {}", Datatype::names()))
}

fn reduction(text: &str) -> Result<Reduction, String> {
    Reduction::named(text).ok_or_else(|| "expected one of sum, prod, max, min".to_owned())
}

/// `10us`, `1ms`, `1s`, as µs.
fn micros(text: &str) -> Result<f64, String> {
    let digits = text.strip_suffix("us").or(text.strip_suffix("µs"));
    let value = match digits {
        Some(digits) => digits
            .parse()
            .ok()
            .filter(|v: &f64| *v >= 0.0 && v.is_finite()),
        None => seconds(text).ok().map(|s| s * 1e6),
    };
    value.ok_or_else(|| format!("`{text}` is not a duration (like 10us or 1ms)"))
}

/// Each value once, where it first stands: rows and calls are known by function and size.
fn once<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.fold(Vec::new(), |mut seen, value| {
        if !seen.contains(&value) {
            seen.push(value);
        }
        seen
    })
}

impl Args {
    fn plan(&self) -> anyhow::Result<Plan> {
        let last = self.max_bytes.unwrap_or(self.min_bytes);
        let sizes = match &self.sizes[..] {
            [] => range(self.min_bytes, last, self.factor).map_err(|why| anyhow!(why))?,
            sizes => once(sizes.iter().copied()),
        };
        Ok(Plan {
            functions: once(self.functions.iter().flat_map(|f| f.0.clone())),
            sizes,
            datatype: self.datatype,
            reduction: self.op,
            root: self.root,
            placement: match self.placement {
                Where::Out => Placement::Out,
                Where::In => Placement::In,
                Where::Both => Placement::Both,
            },
            group: self.group,
            graph: self.graph.unwrap_or(0),
            mode: match self.mode {
                CallingMode::Single => Mode::Single,
                CallingMode::BackToBack => Mode::BackToBack,
            },
            length: self
                .time
                .map_or(Length::Iterations(self.iters), Length::Seconds),
            warmup: self.warmup_iters,
            check: self.check == 1,
            max_skew_us: self.max_skew,
            hostid_per: self.hostid_per,
            stress: self.stress.map(|steps| (steps, self.stress_size)),
        })
    }
}

/// Measures or reads, and prints; the exit status tells whether all went well.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.read {
        let named = || format!("`{}` can't be read", path.display());
        let text = std::fs::read_to_string(path).with_context(named)?;
        let table = nccl_tests::read(&text).with_context(named)?;
        write(&table, None, None, args.json.as_deref())?;
        if !to_stdout(&args) {
            print(|out| out.write_all(table.text().as_bytes()))?;
        }
        return Ok(status(&table));
    }
    let plan = args.plan()?;
    let settings = Settings {
        gpus: args.gpus,
        nccl: args.nccl.clone(),
        cuda: args.cuda.clone(),
        port: args.port,
        limit: Duration::from_secs_f64(args.timeout),
        parquet: args.parquet.clone(),
        json: args.json.clone().filter(|_| !to_stdout(&args)),
        run: args.run.clone(),
    };
    let mut follower = Follower::new(to_stdout(&args));
    let ended = match bench::run_starts(&plan, &settings, args.starts, &mut follower) {
        Ok(None) => return Ok(ExitCode::SUCCESS),
        Ok(Some(table)) => {
            write(&table, Some(&plan), None, args.json.as_deref())?;
            return match follower.unprinted.take() {
                Some(error) => Err(error).context("the table can't be printed"),
                None => Ok(status(&table)),
            };
        }
        Err(ended) => *ended,
    };
    drop(follower);
    let (why, status) = match ended.why {
        Trouble::Setup(error) => return Err(error),
        Trouble::Failed(why) => (why, 1),
        Trouble::Stopped(signal) => (format!("stopped by signal {signal}"), 128 + signal as u8),
    };
    tell!("error: {why}");
    let written = write(&ended.table, Some(&plan), Some(&why), args.json.as_deref());
    if let Err(error) = written {
        tell!("error: {error:#}");
    }
    // Without exit handlers: under a launcher a rank is a thread of this process, which may be stuck in NCCL,
    // and CUDA's may wait for a GPU that hangs. Stdout was flushed with every row. SAFETY: ends the process.
    unsafe { libc::_exit(status.into()) }
}

fn to_stdout(args: &Args) -> bool {
    args.json.as_deref() == Some(Path::new("-"))
}

fn status(table: &Table) -> ExitCode {
    let is_wrong = table.wrong().is_some_and(|wrong| wrong > 0);
    ExitCode::from(u8::from(is_wrong || table.failed.is_some()))
}

/// Writes the table as JSON; `error` is why it is not whole.
fn write(
    table: &Table,
    plan: Option<&Plan>,
    error: Option<&str>,
    to: Option<&Path>,
) -> anyhow::Result<()> {
    let Some(path) = to else {
        return Ok(());
    };
    let text = serde_json::to_string_pretty(&json::of(table, plan, error))? + "\n";
    if path == Path::new("-") {
        return print(|out| out.write_all(text.as_bytes())).map(|_| ());
    }
    std::fs::write(path, text).map_err(|error| crate::report::unwritable(path, &error))
}

/// Prints rows as they come, and shows on a terminal what is being measured.
struct Follower {
    bar: Option<ProgressBar>,
    quiet: bool,
    /// Why the table is not on stdout, if it isn't.
    unprinted: Option<std::io::Error>,
}

impl Follower {
    fn new(quiet: bool) -> Follower {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Follower {
            bar,
            quiet,
            unprinted: None,
        }
    }

    fn aside(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Watch for Follower {
    fn at(&mut self, what: &str, done: u64, of: u64) {
        if let Some(bar) = &self.bar {
            let count = if of > 0 {
                format!(" [{}/{of}]", done + 1)
            } else {
                String::new()
            };
            bar.set_message(format!("{what}{count}"));
        }
    }

    fn print(&mut self, text: &str) {
        if self.quiet {
            return;
        }
        let mut written = Ok(());
        self.aside(|| {
            let mut out = std::io::stdout().lock();
            written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        });
        // A reader that went away does not stop the measurement, and has what it wanted.
        let failed = written
            .err()
            .filter(|e| e.kind() != std::io::ErrorKind::BrokenPipe);
        self.unprinted = self.unprinted.take().or(failed);
    }

    fn note(&mut self, text: &str) {
        self.aside(|| tell!("ncclscope bench: {text}"));
    }
}
