//! `ncclscope attach`: records NCCL calls of processes that already run, from outside.
//!
//! Rule: whatever ends it (the time, Ctrl-C, the job's end), the probes go and the capture is whole.

mod init;
mod net;
mod why;

use crate::run::folder::{Folder, Name};
use crate::run::launcher::Launcher;
use ::attach::json::AttachJson;
use ::attach::probes::Refusal;
use ::attach::{Options, Seen, Session, Summary, Targets, Way};
use anyhow::bail;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Record NCCL calls of processes that already run, from outside
///
/// The processes go on without a restart and without a change. Their descendants are recorded too, so the
/// PID of torchrun is enough:
///
///   sudo ncclscope attach 4711 --for 30s -o DIR
///   sudo ncclscope attach --all
///   sudo ncclscope attach 4711 --sched --net --for 30s
///
/// Each call is recorded with its times on the host, its thread, communicator, size, datatype and return
/// code. What only NCCL and the GPU know is not seen from outside: GPU times, algorithms, launches of CUDA
/// graphs.
///
/// It needs CAP_BPF and CAP_PERFMON (Linux 6.6 or newer), or CAP_SYS_ADMIN (5.15 or newer). Where BPF is
/// forbidden or too old, root gets the same calls by perf events, at a higher cost and without --sched.
/// `ncclscope doctor` says beforehand if it can work here, and how.
///
/// Exit status: 0 calls were recorded, 1 there were none, 2 it can't work here.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Processes to record, with their descendants
    #[arg(value_name = "PID", required_unless_present = "all")]
    pids: Vec<u32>,

    /// Record every process of this machine that has NCCL, also those that start later
    #[arg(long, conflicts_with = "pids")]
    all: bool,

    /// End after this time, such as 30s; else at Ctrl-C, or when the processes have ended
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,

    /// Folder of the capture
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Memory between kernel and ncclscope, such as 64MiB
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = buffer)]
    buffer: usize,

    /// Also probe functions where the kernel must single-step (some 10 µs a call)
    #[arg(long)]
    slow: bool,

    /// Also record why calls took long: asleep, in the run queue, or interrupted (needs BTF)
    #[arg(long)]
    sched: bool,

    /// Also count the processes' TCP connections and RDMA adapters: bytes, retransmits, round trip, queues
    #[arg(long)]
    net: bool,

    /// Also time steps inside NCCL's init, if the library has kept its symbols
    #[arg(long)]
    init: bool,

    /// A file with the symbols of a stripped program that links NCCL statically; can be repeated
    #[arg(long, value_name = "FILE")]
    symbols: Vec<PathBuf>,

    /// Print the summary as JSON (ncclscope.attach/1)
    #[arg(long)]
    json: bool,

    /// How probes are set; else the best way that works
    #[arg(long, value_name = "WAY", hide = true)]
    probes: Option<Probing>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Probing {
    Multi,
    Perf,
    Samples,
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let nanos = units::nanos(text, Some(1e9)).filter(|nanos| *nanos > 0.0 && *nanos < 1e18);
    let nanos = nanos.ok_or("expected a time such as 30s or 5m")?;
    Ok(Duration::from_nanos(nanos as u64))
}

fn buffer(text: &str) -> Result<usize, String> {
    let bytes = units::bytes(text).ok_or("expected a size such as 64MiB")?;
    match bytes {
        0x10000..=0x4000_0000 => Ok((bytes as usize).next_power_of_two()),
        _ => Err("expected a size from 64KiB to 1GiB".into()),
    }
}

/// Set by the first signal that asks to end.
static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn asked(_: i32) {
    ASKED.store(true, Relaxed);
}

/// The error for a machine on which nothing can be attached.
pub fn refused(refusal: &Refusal) -> String {
    format!(
        "{refusal}\n  hint: {}\n  hint: {}",
        refusal.way_out(),
        Refusal::INSTEAD
    )
}

/// Records.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    for file in &args.symbols {
        if let Err(error) = std::fs::File::open(file) {
            bail!("--symbols: `{}` can't be read: {error}", file.display());
        }
    }
    for pid in &args.pids {
        let stat = ::attach::processes::stat(*pid);
        if stat.as_ref().is_some_and(|stat| stat.ended) {
            bail!("process {pid} has ended, and only its parent has not noticed yet (a zombie)");
        }
        if stat.is_none() {
            bail!(
                "there is no process {pid}\n  hint: `pgrep -af train.py` finds it; in a container, numbers \
                 differ from the machine's"
            );
        }
    }
    for pid in &args.pids {
        if let Some(process) = ::attach::processes::of_thread(*pid) {
            bail!(
                "{pid} is a thread of process {process}\n  hint: `ncclscope attach {process}` records all of \
                 its threads"
            );
        }
    }
    let command: Vec<_> = std::env::args_os().collect();
    let name = args.output.as_deref();
    let name = name.map(|output| Name::of(output, None, Launcher::Local));
    let mut folder = Folder::prepare(name.transpose()?, None, &command)?;
    if let Some(note) = folder.note.take() {
        tell!("ncclscope: note: {}", tables::printable(&note));
    }
    let targets = if args.all {
        Targets::All
    } else {
        Targets::Trees(args.pids.clone())
    };
    let options = Options {
        ring_bytes: args.buffer,
        slow: args.slow,
        sched: args.sched,
        net: args.net,
        init: args.init,
        symbols: args.symbols,
        way: args.probes.map(|way| match way {
            Probing::Multi => Way::Multi,
            Probing::Perf => Way::Perf,
            Probing::Samples => Way::Samples,
        }),
        ..Options::new(targets, folder.path.clone())
    };
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only stores to an atomic.
        unsafe { libc::signal(signal, asked as *const () as libc::sighandler_t) };
    }
    let mut session = match Session::start(options) {
        Ok(session) => session,
        Err(refusal) => {
            folder.abandon();
            bail!(refused(&refusal));
        }
    };
    let end = args.time.map(|time| Instant::now() + time);
    let mut told = Told {
        init: args.init,
        ..Told::default()
    };
    session.run(|session| {
        told.tell(session);
        ASKED.load(Relaxed) || end.is_some_and(|end| Instant::now() >= end)
    });
    told.tell(&mut session);
    let summary = session.finish();
    let calls: u64 = summary.processes.iter().map(|p| p.counts.all()).sum();
    let shown = folder.shown.clone();
    if recorded(&summary).next().is_none() {
        folder.abandon();
    } else if let Err(error) = folder.end(None) {
        tell!("warning: `{}/capture.json`: {error}", shown.display());
    }
    let next = format!("ncclscope report {}", shown.display());
    let text = if args.json {
        let json =
            serde_json::to_string_pretty(&AttachJson::new(&summary, &shown.display().to_string()))?;
        format!("{}\n", render::json::printable(&json))
    } else {
        page(&summary, &next)
    };
    crate::report::print(|out| std::io::Write::write_all(out, text.as_bytes()))?;
    Ok(ExitCode::from(u8::from(calls == 0)))
}

/// What was said so far.
#[derive(Default)]
struct Told {
    processes: Vec<u32>,
    libraries: usize,
    cost: bool,
    waits: bool,
    /// Whether steps inside inits were asked for.
    init: bool,
}

impl Told {
    fn tell(&mut self, session: &mut Session) {
        for trouble in session.troubles() {
            tell!("warning: {trouble}");
        }
        for library in session.libraries().iter().skip(self.libraries) {
            let version = library.version.as_deref().unwrap_or("of unknown release");
            tell!(
                "NCCL {version}: {} functions of `{}`",
                library.functions,
                library.path
            );
            if self.init {
                match library.inner {
                    0 => tell!("warning: it has no symbols of NCCL's inside, so --init shows nothing of it"),
                    inner => tell!("{inner} steps inside its init"),
                }
            }
            if !library.slow.is_empty() {
                tell!(
                    "warning: not recorded, because a probe there costs some 10 µs a call: {} (--slow \
                     records them)",
                    library.slow.join(", ")
                );
            }
        }
        self.libraries = session.libraries().len();
        let seen: Vec<(u32, Option<String>)> = session
            .watched()
            .map(|seen| (seen.pid, seen.rank.clone()))
            .collect();
        for (pid, rank) in seen {
            if !self.processes.contains(&pid) {
                self.processes.push(pid);
                let rank = rank.map_or(String::new(), |rank| format!(" (rank {rank})"));
                tell!("recording process {pid}{rank}");
            }
        }
        if let (false, Some(ns)) = (self.cost, session.ns_per_call()) {
            self.cost = true;
            tell!("probes by {}", by(session.way()));
            tell!(
                "a recorded call costs {:.2} µs here, measured just now",
                ns / 1e3
            );
        }
        if self.processes.is_empty() && !self.waits {
            self.waits = true;
            tell!("no process has NCCL loaded yet; waiting");
        }
    }
}

/// Processes that are in the capture.
fn recorded(summary: &Summary) -> impl Iterator<Item = &Seen> {
    summary.processes.iter().filter(|seen| seen.trace.is_some())
}

fn lost(seen: &Seen) -> u64 {
    seen.losses.entries
}

fn page(summary: &Summary, next: &str) -> String {
    use std::fmt::Write;
    let mut page = String::new();
    let calls: u64 = summary.processes.iter().map(|p| p.counts.all()).sum();
    let lost_calls: u64 = summary.processes.iter().map(lost).sum();
    let returns: u64 = summary.processes.iter().map(|p| p.losses.returns).sum();
    let count = recorded(summary).count();
    let plural = if count == 1 { "process" } else { "processes" };
    let loss = match (lost_calls, returns) {
        (0, 0) => "none lost".to_owned(),
        (calls, 0) => format!("{calls} lost"),
        (calls, returns) => format!("{calls} lost, and {returns} returns"),
    };
    let _ = writeln!(
        page,
        "Recorded {calls} calls of {count} {plural} in {:.1} s, {loss}.",
        summary.seconds
    );
    match summary.processes.len() - count {
        0 => {}
        1 => {
            let _ = writeln!(page, "One more process has NCCL and did not call it.");
        }
        more => {
            let _ = writeln!(page, "{more} more processes have NCCL and did not call it.");
        }
    }
    if lost_calls + returns > 0 {
        let _ = writeln!(page, "The ring was full: a larger --buffer has more room.");
    }
    if summary.shared_losses {
        let _ = writeln!(
            page,
            "The kernel does not say which process they are of: they stand at the one with most calls."
        );
    }
    if summary.unseen > 0 {
        let _ = writeln!(
            page,
            "{} events came from processes that ended before they could be looked at.",
            summary.unseen
        );
    }
    if let Some(error) = &summary.write_error {
        let _ = writeln!(page, "Not all was written: {error}.");
    }
    if count > 0 {
        let _ = writeln!(page, "\nCalls by process, function and thread");
        let _ = writeln!(
            page,
            "{:>8} {:>5}  {:<24} {:>8} {:>10}",
            "process", "rank", "function", "thread", "calls"
        );
    }
    for seen in &summary.processes {
        for ((function, thread), calls) in &seen.counts.calls {
            let rank = seen.rank.as_deref().unwrap_or("-");
            let _ = writeln!(
                page,
                "{:>8} {rank:>5}  {function:<24} {thread:>8} {calls:>10}",
                seen.pid
            );
        }
    }
    let _ = writeln!(page);
    why::page(&mut page, summary);
    net::page(&mut page, summary);
    init::page(&mut page, summary);
    let mut failed: BTreeMap<i32, u64> = BTreeMap::new();
    for (code, calls) in summary.processes.iter().flat_map(|p| &p.counts.failed) {
        *failed.entry(*code).or_insert(0) += calls;
    }
    for (code, calls) in &failed {
        let _ = writeln!(page, "{calls} calls returned {}.", code_name(*code));
    }
    let open: usize = summary.processes.iter().map(|p| p.open).sum();
    if open > 0 {
        let had = if open == 1 { "call had" } else { "calls had" };
        let _ = writeln!(
            page,
            "{open} {had} not returned. `ncclscope hang` says which."
        );
    }
    let costs = summary
        .processes
        .iter()
        .filter_map(|seen| summary.cost(seen));
    let dearest = costs.max_by(|a, b| a.0.total_cmp(&b.0));
    if let (Some((seconds, share)), Some(ns)) = (dearest, summary.ns_per_call) {
        let _ = writeln!(
            page,
            "Cost: {:.2} µs a call, at most {:.3} s of a process's time ({:.2} %).",
            ns / 1e3,
            seconds,
            share * 100.0
        );
    }
    let _ = writeln!(page, "Probes: {}.", by(summary.way));
    match (count, summary.processes.len()) {
        (0, 0) => {
            let _ = writeln!(
                page,
                "No process has loaded NCCL from a library that is known. Next: ncclscope doctor"
            );
        }
        (0, _) => {
            let _ = writeln!(
                page,
                "A job that hangs makes no new calls. Next: py-spy dump --pid PID"
            );
        }
        _ => {
            let _ = writeln!(page, "Next: {next}");
        }
    }
    page
}

/// How probes were set, for people.
pub fn by(way: Way) -> &'static str {
    match way {
        Way::Multi => "BPF (uprobe_multi)",
        Way::Perf => "BPF (perf events), which slows all processes that use the library",
        Way::Samples => {
            "perf events without BPF, which slow all processes that use the library; there is no --sched"
        }
    }
}

/// NCCL's name of a return code.
fn code_name(code: i32) -> String {
    let names = [
        "ncclSuccess",
        "ncclUnhandledCudaError",
        "ncclSystemError",
        "ncclInternalError",
        "ncclInvalidArgument",
        "ncclInvalidUsage",
        "ncclRemoteError",
        "ncclInProgress",
        "ncclTimeout",
    ];
    let name = usize::try_from(code).ok().and_then(|code| names.get(code));
    name.map_or_else(|| format!("code {code}"), |name| format!("{name} ({code})"))
}
