//! What the GPUs did in kernel windows, as text.

use crate::layout::FEW_RANKS;
use crate::layout::{cut, plural, share_with_interval, Page, Table, Unit};
use crate::verdict::range_of_shares;
use analyze::spelling::{self, three, time};
use analyze::streams::kernels::NoKernels;
use analyze::streams::{NoWindows, RankStreams, Streams};
use analyze::Report;
use tables::windows::Off;

/// Kernels that are shown if they are asked for.
const KERNELS: usize = 40;
/// Width of a kernel's name.
const NAME: usize = 60;

/// Why a process has no kernel windows: CUPTI is not on the machine.
const NO_CUPTI: &str = "CUPTI was not found; it comes with torch and with the CUDA toolkit";
/// The same: no memory.
const NO_MEMORY: &str = "there was no memory for records";
/// The same: CUDA's MPS.
const SHARED_GPU: &str =
    "CUDA's MPS runs several processes on the GPU, which CUPTI may slow (NCCLSCOPE_WINDOWS=on records \
     all the same)";
/// The same: a CUPTI that crashes programs.
const UNSAFE_CUPTI: &str =
    "CUPTI before 13.5 may crash a program in which it is switched on and off (NCCLSCOPE_WINDOWS=on \
     takes that risk)";

/// Why a capture has no kernels.
pub(crate) fn no_kernels(of: NoKernels) -> String {
    match of {
        NoKernels::Off(off) => why_off(off),
        NoKernels::Yielded => "another profiler used CUPTI".to_owned(),
        NoKernels::NothingRan => "nothing ran in kernel windows".to_owned(),
        NoKernels::NoWindow => {
            "no kernel window was opened: the job was too short, or made too few calls".to_owned()
        }
    }
}

fn why_off(off: Off) -> String {
    match off {
        Off::NotAsked => {
            "kernel windows were off (NCCLSCOPE_WINDOWS=off, or mode profile)".to_owned()
        }
        Off::NoDriver => "no process has a CUDA driver".to_owned(),
        Off::NoCupti => NO_CUPTI.to_owned(),
        Off::ForeignTool => {
            "a tool was in the process that can't share CUPTI (Nsight, compute-sanitizer, XLA)"
                .to_owned()
        }
        Off::Error(code) => format!("CUPTI returned error {code}"),
        Off::NoMemory => NO_MEMORY.to_owned(),
        Off::HostBound(share) => format!(
            "CUPTI would have slowed the job by up to {:.1} %, because its GPU waits for its host \
             (NCCLSCOPE_WINDOWS=on records kernels all the same)",
            f64::from(share) / 100.0
        ),
        Off::SharedGpu => SHARED_GPU.to_owned(),
        Off::UnsafeCupti(_) => UNSAFE_CUPTI.to_owned(),
        Off::Unknown(code) => format!("of cause {code}, which this version does not know"),
    }
}

/// Why buckets of the timeline have no figure from kernel windows.
pub(crate) fn no_windows(of: &NoWindows) -> String {
    match of {
        NoWindows::InBuckets => "no kernel window shows these buckets".to_owned(),
        NoWindows::AtAll(without) if without.is_empty() => "there are no kernel windows".to_owned(),
        NoWindows::AtAll(without) => {
            let cause = |(cause, n): (&&str, &u64)| format!("{cause} ({n} processes)");
            let causes: Vec<String> = without.iter().map(cause).collect();
            format!("there are no kernel windows: {}", causes.join(", "))
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

/// Sentences about all ranks.
pub(crate) fn lines(streams: &Streams) -> Vec<String> {
    let mut lines = Vec::new();
    let ranks = || streams.ranks.iter();
    if let Some(exposed) = range_of_shares(ranks().map(|rank| rank.exposed.share)) {
        let waiting = range_of_shares(ranks().filter_map(|rank| Some(rank.exposed_waiting?.share)));
        let of_it = waiting.map_or(String::new(), |waiting| {
            format!("; {waiting} of the time it waited for other ranks")
        });
        lines.push(format!(
            "Exposed communication, beside which a GPU computed nothing: {exposed} of the time{of_it}."
        ));
    }
    let slowed = streams
        .ranks
        .iter()
        .filter_map(|rank| rank.interference.zip(rank.interference_share))
        .filter(|(ratio, _)| *ratio > 0.0);
    if let Some((ratio, cost)) = slowed.max_by(|a, b| a.1.total_cmp(&b.1)) {
        lines.push(format!(
            "Kernels beside communication take up to {} longer than the same without, \
             which is {} of the time in windows.",
            spelling::percent(ratio),
            spelling::percent(cost)
        ));
    }
    for other in &streams.other_communication {
        lines.push(format!(
            "{} communicates beside NCCL: {}, {} in windows. Its calls are in no other table.",
            other.library,
            plural(other.kernels, "kernel", "kernels"),
            time(other.sum_us)
        ));
    }
    if streams.yielded > 0 {
        lines.push(format!(
            "{} not opened, because another profiler used CUPTI.",
            plural(streams.yielded, "window was", "windows were")
        ));
    }
    for (cause, n) in &streams.without {
        let why = match *cause {
            "no_cupti" => NO_CUPTI,
            "another_tool" => "a tool was in the process that can't share CUPTI (Nsight, \
             compute-sanitizer, XLA's profiler)",
            "host_bound" => {
                "CUPTI would have slowed the job by more than NCCLSCOPE_BUDGET, because the GPU waits for \
                 its host (NCCLSCOPE_WINDOWS=on records kernels all the same)"
            }
            "shared_gpu" => SHARED_GPU,
            "unsafe_cupti" => UNSAFE_CUPTI,
            "cupti_error" => "CUPTI returned an error (doctor names it)",
            "no_memory" => NO_MEMORY,
            _ => "of a cause that is not known here",
        };
        let processes = plural(*n, "process has", "processes have");
        lines.push(format!("{processes} no kernel windows: {why}."));
    }
    if streams.timed > 0 {
        lines.push(format!(
            "When {} without windows came to an operation is known from CUDA events.",
            plural(streams.timed, "GPU", "GPUs")
        ));
    }
    lines
}

/// Writes what GPUs did.
pub(crate) fn streams(report: &Report, page: &mut Page) {
    let Some(streams) = &report.streams else {
        return;
    };
    if streams.ranks.is_empty() {
        page.title("What the GPUs did");
    } else {
        page.title(
            "What the GPUs did (% of the time in kernel windows ± 95 %; compute: alone; both: beside \
             communication; exposed: only communication)",
        );
        let names = [
            "rank", "compute", "both", "exposed", "waiting", "copies", "idle", "windows", "seen",
        ];
        let mut table = Table::new(names, ">>>>>>>>>");
        table.squeeze = &["seen", "windows", "copies", "idle"];
        for rank in &streams.ranks {
            let waiting = rank.exposed_waiting.as_ref();
            table.row([
                name(streams, rank),
                share_with_interval(&rank.computing),
                share_with_interval(&rank.beside),
                share_with_interval(&rank.exposed),
                waiting.map_or("-".to_owned(), share_with_interval),
                percent(rank.copies.share),
                share_with_interval(&rank.idle),
                rank.windows.to_string(),
                time(rank.seen_us),
            ]);
        }
        page.table(&table, FEW_RANKS, "ranks");
    }
    lines(streams).iter().for_each(|line| page.line(line));
}

/// A rank's name; with its GPU, if its process drives several.
fn name(streams: &Streams, rank: &RankStreams) -> String {
    let same = |other: &&RankStreams| {
        (&other.process.host, other.process.pid) == (&rank.process.host, rank.process.pid)
    };
    let several = streams.ranks.iter().filter(same).count() > 1;
    match (rank.process.rank, several) {
        (Some(number), true) => format!("{number}/{}", rank.device),
        (Some(number), false) => number.to_string(),
        (None, _) => format!("pid {}", tables::pid::shown(rank.process.pid)),
    }
}

/// Writes the kernels by name.
pub(crate) fn kernels(report: &Report, page: &mut Page) {
    let Some(streams) = report.streams.as_ref().filter(|s| !s.kernels.is_empty()) else {
        page.title("Kernels");
        return page.line(
            "none: the capture has no kernel windows (docs/concepts/streams.md says when there are some)",
        );
    };
    let names = [
        "kernel", "kind", "kernels", "sum", "mean_us", "share_%", "beside_%",
    ];
    let mut table = Table::new(names, "<<>>>>>");
    table.squeeze = &["kind", "mean_us", "kernels"];
    let unit = Unit::of(streams.kernels.iter().map(|kernel| kernel.sum_us));
    page.title(&format!(
        "Kernels in windows (largest time first; over all ranks, sum in {}; %: of the time that windows \
         show; beside: communication ran at the same time)",
        unit.name
    ));
    for kernel in &streams.kernels {
        table.row([
            cut(&kernel.name, NAME),
            kernel.kind.to_owned(),
            kernel.kernels.to_string(),
            unit.show(Some(kernel.sum_us)),
            three(kernel.sum_us / kernel.kernels.max(1) as f64),
            percent(kernel.share),
            percent(kernel.beside_us / kernel.sum_us.max(f64::MIN_POSITIVE)),
        ]);
    }
    page.table(&table, KERNELS, "kernels");
    kernels_by_rank(streams, page);
}

/// Writes the kernels by name and rank, kernel by kernel.
fn kernels_by_rank(streams: &Streams, page: &mut Page) {
    if streams.ranks.len() < 2 {
        return;
    }
    let names = [
        "kernel", "rank", "kernels", "sum", "mean_us", "share_%", "beside_%",
    ];
    let mut table = Table::new(names, "<>>>>>>");
    table.squeeze = &["mean_us", "kernels"];
    let unit = Unit::of(streams.kernels_by_rank.iter().map(|of| of.kernel.sum_us));
    page.title(&format!(
        "Kernels by rank (in the same order; sum in {}; %: of the time that windows of this GPU show)",
        unit.name
    ));
    for of in &streams.kernels_by_rank {
        let kernel = &of.kernel;
        let mut ranks = streams.ranks.iter();
        let this = ranks.find(|rank| {
            (&rank.process.host, rank.process.pid, rank.device)
                == (&of.process.host, of.process.pid, of.device)
        });
        table.row([
            cut(&kernel.name, NAME),
            this.map_or(String::new(), |rank| name(streams, rank)),
            kernel.kernels.to_string(),
            unit.show(Some(kernel.sum_us)),
            three(kernel.sum_us / kernel.kernels.max(1) as f64),
            percent(kernel.share),
            percent(kernel.beside_us / kernel.sum_us.max(f64::MIN_POSITIVE)),
        ]);
    }
    page.table(&table, KERNELS, "kernels");
}
