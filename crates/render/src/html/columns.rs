//! The columns of the page's tables.
//!
//! A [`Column`] names a field of the JSON report, and [`Show`] says how that looks.
//!
//! Rule: every column's field is in the schema of the report, and it says why a row may have none.

use crate::layout::figure;
use crate::text::counts;
use analyze::spelling::{datatype, size, three};
use serde_json::Value;

/// How a field is shown.
#[derive(Clone, Copy, PartialEq)]
pub enum Show {
    Text,
    /// Text over several lines.
    Wide,
    /// As many digits of the id as tell it apart, and its name.
    Communicator,
    Bytes,
    Datatype,
    /// The row's algorithm and protocol.
    Algorithm,
    Count,
    /// Three digits or more.
    Figure,
    /// µs in ms.
    Ms,
    /// Bytes in MiB.
    Mib,
    /// The calls of a graph: `80 AllReduce 64 KiB`.
    InGraph,
    /// How many elements a list has.
    Length,
    /// A share in %.
    Percent,
    /// Numbers by name.
    Counts,
}

impl Show {
    /// Whether it is aligned left.
    pub fn is_text(self) -> bool {
        use Show::*;
        matches!(
            self,
            Text | Wide | Communicator | Datatype | Algorithm | InGraph | Counts
        )
    }

    /// A field that is there, for the eye.
    pub fn text(self, value: &Value) -> Option<String> {
        match self {
            Show::Text | Show::Wide => {
                Some(value.as_str()?.to_owned()).filter(|text| !text.is_empty())
            }
            Show::Bytes => value.as_u64().map(size),
            Show::Mib => Some(three(value.as_f64()? / f64::from(1 << 20))),
            Show::Datatype => value.as_str().map(datatype),
            Show::Count => value.as_u64().map(|n| n.to_string()),
            Show::Figure => value.as_f64().map(|v| figure(Some(v))),
            Show::Ms => value.as_f64().map(|us| three(us / 1e3)),
            Show::Percent => Some(format!("{:.1}", 100.0 * value.as_f64()?)),
            Show::Counts => {
                let by_name = value
                    .as_object()?
                    .iter()
                    .filter_map(|(name, n)| Some((name.clone(), n.as_u64()?)));
                Some(counts(&by_name.collect())).filter(|text| !text.is_empty())
            }
            Show::InGraph => Some(crate::graphs::of_one_launch(value.as_array()?)),
            // These need the row.
            Show::Algorithm | Show::Communicator | Show::Length => None,
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy)]
pub struct Column {
    /// The field in a row of the JSON report, names joined by dots. Rows sort by it; without one, by what
    /// they show.
    pub path: &'static str,
    /// What its head says.
    pub name: &'static str,
    /// Under the name.
    pub unit: &'static str,
    /// How a field looks.
    pub show: Show,
    /// What it is.
    pub help: &'static str,
    /// Why a row may have none.
    pub missing: &'static str,
}

/// Columns, one to a line: field, name, unit, how it is shown, what it is, why a row may have none.
macro_rules! columns {
    ($($name:ident {
        $($path:literal $title:literal $unit:literal $show:ident $help:literal $missing:expr;)*
    })*) => {
        $(pub const $name: &[Column] = &[$(Column {
            path: $path,
            name: $title,
            unit: $unit,
            show: Show::$show,
            help: $help,
            missing: $missing,
        }),*];)*

        /// All of them.
        pub const ALL: &[&[Column]] = &[$($name),*];
    };
}

const NEVER: &str = "";
const NONE: &str = "none";
const NOT_SEEN: &str = "the last column says why";
const NO_STEPS_READ: &str = "it is not known, or no two readings lie within steps";
const NO_WINDOWS: &str = "the GPU has no kernel windows";
const NO_CAUSES: &str = "neither the node sampler nor time in MPI says";
const NO_POWER: &str = "the GPU does not tell";
const NO_LONG: &str = "no call was long, or the kernel gave no records";
const NO_TIME_IN_PHASE: &str = "no call in it, or a call without a GPU time";
const NO_STEPS: &str = "no pattern of calls repeats";
const NOT_COMPARED: &str = "no kernel ran both ways";
const NO_LAUNCHES: &str = "needs two launches with a time on a rank";
const NOT_KNOWN: &str = "not known";
const NOT_SHOWN: &str = "files of other tools do not show them";
const NOT_COUNTED: &str = "NCCL's RAS does not count them";
const NO_NAME: &str = "its name is lost";
const NO_COMMUNICATOR: &str = "its communicator's definition is lost";
const NO_SIZE: &str = "some size is not known: it needs the number of ranks";
pub(super) const NOT_SAMPLED: &str =
    "every launch was to be timed, or too few were for an estimate";
const NO_GPU_TIME: &str = "no call but warm-ups has a GPU time that can be believed";
const NO_HOST_TIME: &str =
    "no call but warm-ups has a host time; replays and ABI v1 to v4 have none";
const NO_PERCENTILE: &str = "no such time, or some of them are known by their sum only";
const NO_P99: &str = "given from 100 calls on";
const NO_SHORTEST: &str =
    "no operation has a GPU time on every rank; sends and receives are not matched";
const NO_BANDWIDTH: &str =
    "needs a size, a GPU time on every rank and more than one rank, or is refused";
const NO_CALL_BANDWIDTH: &str = "needs a size, a GPU time and more than one rank, or is refused";
const NO_INTERVAL: &str = "no call of this rank has a time";
const NO_PART: &str = "no call has this part";
const NO_NETWORK: &str = "only operations were recorded";
const NO_OFFSET: &str = "nothing bounds it";
const NO_WAIT: &str = "no step was in this wait";

columns! {
    GRAPH {
        "calls" "calls of one launch" "" InGraph
            "NCCL calls that one launch executes on one rank, in the order of capture" NONE;
        "launches" "launches" "" Count "over ranks" NEVER;
        "calls_per_launch" "calls" "" Count "NCCL calls of one launch" NEVER;
        "bytes_per_launch" "size" "MiB" Mib
            "of the calls of one launch, by the convention of nccl-tests" NO_SIZE;
        "launches_per_second.median" "per second" "1/s" Figure
            "launches a second of the median rank, between its first and its last" NO_LAUNCHES;
        "launch_call_us.median" "launch" "µs" Figure
            "how long the launch call took on the host, mean of the median rank" NO_LAUNCHES;
        "nranks" "ranks" "" Count "that launched it" NEVER;
        "executables" "graphs" "" Count
            "executable graphs over ranks: more than ranks if a rank made it again" NEVER;
        "streams" "streams" "" Count "different streams that a rank launched on, at most" NEVER;
    }

    STREAMS {
        "rank" "rank" "" Count "the launcher's rank" NOT_KNOWN;
        "host" "host" "" Text "the machine" NEVER;
        "device" "GPU" "" Count "CUDA's number of it" NEVER;
        "computing.share" "compute" "%" Percent "kernels computed, and nothing communicated" NEVER;
        "beside.share" "both" "%" Percent "kernels computed beside communication" NEVER;
        "exposed.share" "exposed" "%" Percent "kernels communicated, and nothing computed" NEVER;
        "exposed_waiting.share" "waiting" "%" Percent
            "of exposed: it waited for other ranks" "no operation was found on all its ranks";
        "copies.share" "copies" "%" Percent "only copies and fills ran" NEVER;
        "idle.share" "idle" "%" Percent "nothing ran" NEVER;
        "interference" "slower beside" "%" Percent
            "how much longer the same kernels ran beside communication" NOT_COMPARED;
        "windows" "windows" "" Count "kernel windows that count" NEVER;
        "seen_us" "seen" "ms" Ms "how long they are together" NEVER;
    }
    IDLE_CAUSES {
        "rank" "rank" "" Count "the launcher's rank" NOT_KNOWN;
        "host" "host" "" Text "the machine" NEVER;
        "device" "GPU" "" Count "CUDA's number of it" NEVER;
        "idle_causes.step_us" "step" "ms" Ms "mean time of a step" NO_CAUSES;
        "idle.share" "idle" "%" Percent "nothing ran on the GPU" NEVER;
        "idle_causes.mpi" "MPI" "%" Percent "the thread that launches was in MPI meanwhile" NO_CAUSES;
        "idle_causes.program" "program" "%" Percent "it ran the program: Python or a library" NO_CAUSES;
        "idle_causes.driver" "driver" "%" Percent "it ran in CUDA's driver" NO_CAUSES;
        "idle_causes.preempted" "preempted" "%" Percent "it was ready, and the scheduler ran others"
            NO_CAUSES;
        "idle_causes.disk" "disk" "%" Percent "it waited for a disk" NO_CAUSES;
        "idle_causes.blocked" "blocked" "%" Percent
            "it waited for a lock, a socket, another thread, or the GPU" NO_CAUSES;
        "idle_causes.unknown" "unknown" "%" Percent "it was not watched" NO_CAUSES;
    }
    ENERGY_PHASE {
        "phase" "phase" "" Text "what the job did" NEVER;
        "time_s" "time" "s" Figure "how long" NEVER;
        "energy_j" "energy" "J" Figure "of all GPUs together" NEVER;
        "mean_w" "mean power" "W" Figure "of all GPUs together" NEVER;
    }
    POWER {
        "host" "host" "" Text "the machine" NEVER;
        "uuid" "UUID" "" Text "the GPU" NEVER;
        "name" "name" "" Text "its product name" NEVER;
        "counter_j" "energy" "J" Figure "by the GPU's own counter" "the GPU has no counter";
        "integrated_j" "integrated" "J" Figure "its power, integrated over the same time" NO_POWER;
        "gap" "gap" "%" Percent "how much more the integrated power gives" "one of both is not known";
        "mean_w" "mean power" "W" Figure "by its energy" NO_POWER;
        "max_w" "max power" "W" Figure "largest power that was read" NO_POWER;
        "sm_mhz" "SM clock" "MHz" Figure "mean" NO_POWER;
        "temperature_c" "hottest" "°C" Count "highest temperature" NO_POWER;
        "busy" "busy" "%" Percent "mean share of the time in which a kernel ran, as NVML has it" NO_POWER;
    }
    HOST {
        "host" "host" "" Text "the machine" NEVER;
        "time_s" "time" "s" Figure "from the first sample to the last" NEVER;
        "energy_j" "energy" "J" Figure "of its GPUs" NO_POWER;
        "mean_w" "mean power" "W" Figure "of its GPUs together" NO_POWER;
        "cpus" "CPUs" "" Count "that the sampler may use" NOT_KNOWN;
        "cpus_busy" "busy CPUs" "" Figure "on average, with any program" NOT_KNOWN;
        "job_cpus_busy" "job's CPUs" "" Figure "that the job kept busy, on average" NOT_KNOWN;
        "job_threads_ready" "ready" "" Figure "threads of the job without a CPU, on average" NOT_KNOWN;
        "memory_bytes" "memory" "" Bytes "in use, at most" NOT_KNOWN;
        "disk_read_bytes" "read" "" Bytes "from disks" NOT_KNOWN;
        "disk_written_bytes" "written" "" Bytes "to disks" NOT_KNOWN;
    }
    THREAD {
        "rank" "rank" "" Count "the launcher's rank" "the process made no NCCL call";
        "host" "host" "" Text "the machine" NEVER;
        "pid" "pid" "" Count "process" NEVER;
        "tid" "thread" "" Count "number of the thread" NEVER;
        "name" "name" "" Text "of the thread" NONE;
        "running" "ran" "%" Percent "share of the time in which it ran" NEVER;
        "ready" "ready" "%" Percent "it was ready, and no CPU was free" NEVER;
        "in_io" "disk" "%" Percent "it waited for a disk, by the samples" NEVER;
        "blocked" "blocked" "%" Percent "it waited for anything else" NEVER;
    }
    LONG_CALLS {
        "rank" "rank" "" Count "the launcher's rank" NOT_KNOWN;
        "host" "host" "" Text "the machine" NEVER;
        "tid" "thread" "" Count "number of the thread that calls" NEVER;
        "calls" "calls" "" Count "while the thread was watched" NEVER;
        "long" "long calls" "" Count "of more than 50 µs" NEVER;
        "long_us" "time" "ms" Ms "of the long calls" NEVER;
        "longest_us" "longest" "ms" Ms "of them" NEVER;
        "preempted" "preempted" "%" Percent "of that time: ready, and the scheduler ran others" NO_LONG;
        "asleep" "asleep" "%" Percent "it slept, or waited for its turn after" NO_LONG;
        "running" "ran" "%" Percent "it ran" NO_LONG;
        "source" "source" "" Text "records of context switches, or counters that bound the share" NEVER;
    }
    MPI_RANK {
        "rank" "rank" "" Count "the launcher's rank" NOT_KNOWN;
        "host" "host" "" Text "the machine" NEVER;
        "calls" "calls" "" Count "of functions of MPI" NEVER;
        "share" "in MPI" "%" Percent "of the time since the first communicator, over threads" NEVER;
        "time_us" "time" "ms" Ms "in MPI" NEVER;
        "collective_us" "collectives" "ms" Ms "of that" NEVER;
        "point_to_point_us" "sends, receives" "ms" Ms "of that" NEVER;
        "waits_us" "waits, tests" "ms" Ms "of that" NEVER;
        "one_sided_us" "one-sided" "ms" Ms "of that" NEVER;
        "files_us" "files" "ms" Ms "of that" NEVER;
        "step_us" "a step" "ms" Ms "mean time in MPI of a step" NO_STEPS;
        "step_share" "of a step" "%" Percent "the same as a share of the step" NO_STEPS;
        "open" "last inside" "" Text "what a thread was inside of when it was last seen" NONE;
    }
    PHASE {
        "name" "phase" "" Text "the program's name" NEVER;
        "time_us.n" "ranks" "" Count "that were in it" NEVER;
        "visits.median" "visits" "" Figure "how often a rank was in it, the median" NEVER;
        "time_us.median" "in phase" "ms" Ms "time of a rank in it, in all, the median" NEVER;
        "time_us.max" "longest stay" "ms" Ms "of the rank that spent most in it" NEVER;
        "longest_rank" "by rank" "" Count "that rank" NOT_KNOWN;
        "communication_us.median" "NCCL" "ms" Ms "of it in NCCL kernels, on the median rank" NO_TIME_IN_PHASE;
    }
    MPI_FUNCTION {
        "function" "function" "" Text "as in mpi.h" NEVER;
        "calls" "calls" "" Count "of all ranks" NEVER;
        "time_us" "time" "ms" Ms "of them" NEVER;
        "mean_us" "mean" "µs" Figure "of a call" NEVER;
        "ranks" "ranks" "" Count "that called it" NEVER;
    }
    BUBBLES {
        "rank" "rank" "" Count "the launcher's rank" NOT_KNOWN;
        "host" "host" "" Text "the machine" NEVER;
        "device" "GPU" "" Count "CUDA's number of it" NEVER;
        "bubble.share" "bubble" "%" Percent "of a step: the GPU computed nothing" NEVER;
        "bubble_us" "bubble" "ms" Ms "the same of a step" NEVER;
        "late_sender_us" "late sender" "ms" Ms "of that: it waited to receive" NEVER;
        "late_receiver_us" "late receiver" "ms" Ms "it waited to send" NEVER;
        "collective_us" "collective" "ms" Ms "it waited for the last rank of a collective" NEVER;
        "transfer_us" "transfer" "ms" Ms "it communicated without waiting" NEVER;
        "idle_us" "idle" "ms" Ms "nothing ran, or only copies and fills did" NEVER;
        "bubble_run_us" "in the run" "ms" Ms "the bubble, of the time from its first call to its last" NEVER;
        "step_us" "step" "ms" Ms "how long a step is" NEVER;
        "steps" "steps" "" Count "whole steps in which windows of all GPUs show what ran" NEVER;
    }
    RANK_WAITS {
        "rank" "rank" "" Count "the launcher's rank" NOT_KNOWN;
        "host" "host" "" Text "the machine" NEVER;
        "device" "GPU" "" Count "CUDA's number of it" NOT_KNOWN;
        "share.share" "exposed" "%" Percent "streams stood still for calls" NEVER;
        "at_most" "at most" "%" Percent "the same with calls that no other stream waited for" NEVER;
        "by_windows.share" "by windows" "%" Percent "exposed communication by kernel windows" NO_WINDOWS;
        "calls" "calls" "" Count "without warm-ups" NEVER;
        "known" "known" "" Count "those that were timed, with their waits" NEVER;
        "waited" "waited" "" Count "of these: a stream waited" NEVER;
        "sum_us" "stood still" "ms" Ms "of all calls, by those that are known" NEVER;
        "unwaited_us" "unwaited" "ms" Ms "GPU time of calls that no other stream waited for" NEVER;
        "active_us" "active" "ms" Ms "from the first call behind warm-up to the end of the last" NEVER;
    }
    OPERATION_WAITS {
        "function" "function" "" Text "as NCCL names it" NO_NAME;
        "bytes" "bytes" "" Bytes "by the convention of nccl-tests" NO_SIZE;
        "datatype" "type" "" Datatype "as NCCL names it" NO_NAME;
        "communicator" "communicator" "" Communicator "its id" NO_COMMUNICATOR;
        "calls" "calls" "" Count "over ranks, without warm-ups" NEVER;
        "known" "known" "" Count "those that were timed, with their waits" NEVER;
        "waited" "waited" "" Count "of these: a stream waited" NEVER;
        "sum_us" "exposed" "ms" Ms "streams stood still for all calls, by those that are known" NEVER;
        "before_us" "before" "ms" Ms "of that: before the call itself began" NEVER;
        "unwaited_us" "unwaited" "ms" Ms "GPU time of calls that no other stream waited for" NEVER;
    }
    DRIVER_CALL {
        "counter" "counter" "" Text "what was counted" NEVER;
        "nccl" "by NCCL" "" Count "calls that libnccl made, over processes" NOT_SEEN;
        "nccl_per_step" "in a step" "" Figure "NCCL's calls in a step of the median rank" NO_STEPS_READ;
        "program" "by the program" "" Count "calls of the program and its other libraries" NOT_SEEN;
        "program_per_step" "in a step" "" Figure "these calls in a step of the median rank" NO_STEPS_READ;
        "why_null" "why none" "" Text "why a number is not known" NONE;
    }
    PATH_ROW {
        "what" "segment" "" Text "work of a rank, or the transfer of an operation" NEVER;
        "communicator" "communicator" "" Communicator "of the operation" NO_COMMUNICATOR;
        "why" "why" "" Text "launch: its host launched the call then; busy_gpu: launched before" NOT_KNOWN;
        "rank" "rank" "" Count "whose work it is, or which rank arrived last" NOT_KNOWN;
        "host" "host" "" Text "the machine" NEVER;
        "sum_us" "time" "ms" Ms "over all steps of the path" NEVER;
        "share" "of the step" "%" Percent "the time as a share of the steps' time" NEVER;
        "count" "segments" "" Count "over all steps of the path; in text, in a step on average" NEVER;
    }
    SEGMENT {
        "at_us" "at" "ms" Ms "begin, from the begin of the step" NEVER;
        "time_us" "time" "ms" Ms "how long it takes" NEVER;
        "what" "segment" "" Text "work of a rank, or the transfer of an operation" NEVER;
        "communicator" "communicator" "" Communicator "of the operation" NO_COMMUNICATOR;
        "why" "why" "" Text "launch: its host launched the call then; busy_gpu: launched before" NOT_KNOWN;
        "rank" "rank" "" Count "whose work it is, or which rank arrived last" NOT_KNOWN;
        "host" "host" "" Text "the machine" NEVER;
    }
    NCCL_KERNELS {
        "function" "function" "" Text "of NCCL's kernel" NEVER;
        "kernels" "kernels" "" Count "in windows, over ranks" NEVER;
        "sum_us" "time" "ms" Ms "their time" NEVER;
        "exposed_us" "exposed" "ms" Ms "of that: nothing computed beside them" NEVER;
        "hidden_us" "hidden" "ms" Ms "of that: other kernels computed beside them" NEVER;
    }
    REPLAYS {
        "rank" "rank" "" Count "the launcher's rank" NOT_KNOWN;
        "host" "host" "" Text "the machine" NEVER;
        "device" "GPU" "" Count "CUDA's number of it" NEVER;
        "calls" "calls of one replay" "" Counts
            "kernels that communicate, by function of NCCL or by library" NEVER;
        "replays" "replays" "" Count "whole replays in windows" NEVER;
        "replay_us" "replay" "µs" Figure "from its first kernel to the end of its last, mean" NEVER;
        "communication_us" "communication" "µs" Figure "kernels communicated, mean" NEVER;
        "exposed_us" "exposed" "µs" Figure "kernels communicated, and nothing computed, mean" NEVER;
    }
    KERNELS {
        "name" "kernel" "" Wide "demangled; copies and fills together" NEVER;
        "kind" "kind" "" Text "computing, communication, copy or fill" NEVER;
        "kernels" "kernels" "" Count "in windows, over ranks" NEVER;
        "sum_us" "time" "ms" Ms "their time" NEVER;
        "share" "share" "%" Percent "of the time that windows show" NEVER;
        "beside_us" "beside" "ms" Ms "of their time: communication ran at the same time" NEVER;
    }
    KERNELS_BY_RANK {
        "name" "kernel" "" Wide "demangled; copies and fills together" NEVER;
        "rank" "rank" "" Count "the launcher's rank" NOT_KNOWN;
        "host" "host" "" Text "the machine" NEVER;
        "device" "GPU" "" Count "CUDA's number of it" NEVER;
        "kind" "kind" "" Text "computing, communication, copy or fill" NEVER;
        "kernels" "kernels" "" Count "in windows" NEVER;
        "sum_us" "time" "ms" Ms "their time" NEVER;
        "share" "share" "%" Percent "of the time that windows of this GPU show" NEVER;
        "beside_us" "beside" "ms" Ms "of their time: communication ran at the same time" NEVER;
    }

    ON_COMMUNICATOR {
        "function" "function" "" Text
            "as NCCL names it; operations that came in pieces under their own name" NO_NAME;
        "communicator" "communicator" "" Communicator
            "as many digits of its id as tell it apart, and its name" NO_COMMUNICATOR;
    }
    OPERATION {
        "function" "function" "" Text
            "as NCCL names it; operations that came in pieces under their own name" NO_NAME;
        "bytes" "bytes" "" Bytes "by the convention of nccl-tests" NO_SIZE;
        "datatype" "type" "" Datatype "datatype" "NCCL gave none";
        "communicator" "comm" "" Communicator
            "as many digits of its id as tell it apart, and its name" NO_COMMUNICATOR;
        "" "algorithm" "/protocol" Algorithm "what NCCL chose" "NCCL said none";
        "calls" "calls" "" Count "executions, one rank's part each, warm-ups included" NEVER;
    }
    GPU_TIME {
        "timed" "timed" "" Count "calls with a GPU time that can be believed" NEVER;
        "time_us.sum" "sum" "ms" Ms "of the GPU times on all ranks" NO_GPU_TIME;
        "sampled.sum_us" "estimated sum" "ms" Ms "of all calls, where only a sample was timed" NOT_SAMPLED;
        "sampled.sum_low_us" "from" "ms" Ms "lower end of the estimate's 95 % interval" NOT_SAMPLED;
        "sampled.sum_high_us" "to" "ms" Ms "upper end of the estimate's 95 % interval" NOT_SAMPLED;
        "time_us.mean" "mean" "µs" Figure "GPU time of a call" NO_GPU_TIME;
        "time_us.min" "min" "µs" Figure "shortest call" NO_PERCENTILE;
        "time_us.p50" "p50" "µs" Figure "median call" NO_PERCENTILE;
        "time_us.p95" "p95" "µs" Figure "95th percentile" NO_PERCENTILE;
        "time_us.p99" "p99" "µs" Figure "99th percentile" NO_P99;
        "time_us.max" "max" "µs" Figure "longest call" NO_PERCENTILE;
        "shortest_us.p50" "shortest" "p50, µs" Figure
            "GPU time of an operation's shortest rank, which waited least: the median operation's"
            NO_SHORTEST;
        "algbw_gb_per_s" "algbw" "GB/s" Figure "bytes by the median of the shortest ranks" NO_BANDWIDTH;
        "busbw_gb_per_s" "busbw" "GB/s" Figure
            "algbw by nccl-tests' factor: of the operation, close to the transfer" NO_BANDWIDTH;
        "call_busbw_gb_per_s" "call_busbw" "GB/s" Figure
            "busbw by the mean time over an operation's ranks: waiting for late ranks is in it"
            NO_CALL_BANDWIDTH;
        "untimed" "not timed" "" Counts "calls without a GPU time, by cause" NONE;
    }
    HOST_TIME {
        "captured" "captured" "" Count "captured into CUDA graphs: templates, not executions" NOT_SHOWN;
        "host_us.sum" "sum" "ms" Ms "of the host times on all ranks" NO_HOST_TIME;
        "host_us.mean" "mean" "µs" Figure "host time of a call" NO_HOST_TIME;
        "host_us.min" "min" "µs" Figure "shortest call" NO_PERCENTILE;
        "host_us.p50" "p50" "µs" Figure "median call" NO_PERCENTILE;
        "host_us.p95" "p95" "µs" Figure "95th percentile" NO_PERCENTILE;
        "host_us.p99" "p99" "µs" Figure "99th percentile" NO_P99;
        "host_us.max" "max" "µs" Figure "longest call" NO_PERCENTILE;
        "untimed" "why no GPU time" "" Counts "calls without a GPU time, by cause" NONE;
    }
    FIRST_CALLS {
        "calls" "calls" "" Count "ranks whose first call this was" NEVER;
        "time_us.min" "GPU min" "µs" Figure "shortest GPU time" "no GPU time that can be believed";
        "time_us.p50" "GPU p50" "µs" Figure "median GPU time" "no GPU time that can be believed";
        "time_us.max" "GPU max" "µs" Figure "longest GPU time" "no GPU time that can be believed";
        "host_us.min" "host min" "µs" Figure "shortest host time" "no host time";
        "host_us.p50" "host p50" "µs" Figure "median host time" "no host time";
        "host_us.max" "host max" "µs" Figure "longest host time" "no host time";
    }
    ARRIVALS {
        "device" "device" "" Count "CUDA device ordinal" NOT_KNOWN;
        "operations" "operations" "" Count "operations it was in" NEVER;
        "last" "last" "" Count "those in which it arrived last" NEVER;
        "last_proved" "proved" "" Count
            "those in which the hosts' clocks prove it" "on one host, or no offset is bounded";
        "last_refuted" "refuted" "" Count
            "those in which they prove that another came after it" "on one host, or no offset is bounded";
        "saving_wall_us" "saves" "ms of the wall" Ms
            "what operations would have ended earlier with this rank on time; other work may hide a part"
            NEVER;
        "cost_rank_us" "cost" "ms over ranks" Ms "waiting of others that is charged to it" NEVER;
        "inherited_rank_us" "inherited" "ms over ranks" Ms
            "the part of the cost that was charged before, on another communicator" NEVER;
        "wait_rank_us" "waited" "ms over ranks" Ms "its own waiting" NEVER;
        "launched_late_us" "late launch" "ms of the wall" Ms
            "of the saving: its launch on the host was late as well" NOT_KNOWN;
        "gpu_busy_us" "busy GPU" "ms of the wall" Ms "of the saving: it was launched in time" NOT_KNOWN;
    }
    LINKS {
        "communicator" "communicator" "" Communicator "the communicator" NO_COMMUNICATOR;
        "state" "state" "" Text
            "where most of the time in the network's hands passed" "none that was long enough to be seen";
        "peer" "peer" "" Count "the launcher's rank that this was with" NOT_KNOWN;
        "peer_host" "peer's host" "" Text "as the recorder saw it" NOT_KNOWN;
        "operations" "operations" "" Count "in which it could be compared" NEVER;
        "transfer_wall_us" "transfer" "ms of the wall" Ms "from the last arrival to the end, of these" NEVER;
        "held_wall_us" "held" "ms of the wall" Ms
            "in the network's hands: of the network operations of a call the longest, in which a step was \
             sent and not done, or being flushed"
            NEVER;
        "others_wall_us" "others" "ms of the wall" Ms
            "the same of the median of the ranks that moved as many bytes in the same operation" NEVER;
        "excess_wall_us" "excess" "ms of the wall" Ms "the difference of both" NEVER;
        "loss_wall_us" "run loses" "ms of the wall" Ms
            "what the run would take less, were it as fast as the median of the others"
            "slower no more than chance gives";
    }
    CLOCKS {
        "host" "host" "" Text "as the recorder saw it" NEVER;
        "offset_us" "offset" "µs" Figure "its clock less the reference's" NO_OFFSET;
        "low_us" "low" "µs" Figure "what that is at least" NO_OFFSET;
        "high_us" "high" "µs" Figure "what that is at most" NO_OFFSET;
        "source" "from" "" Text "what the offset rests on" NO_OFFSET;
        "given_error_us" "given error" "µs" Figure "the error of an offset that was given" "none was given";
        "operations" "operations" "" Count "that were compared" NEVER;
        "windows" "windows" "" Count "of a second each, with bounds" NEVER;
        "drift_low_ppm" "drift low" "ppm" Figure
            "by how much its clock runs faster at least" "fewer than two windows, or a step";
        "drift_high_ppm" "drift high" "ppm" Figure
            "by how much its clock runs faster at most" "fewer than two windows, or a step";
    }
    STEPS {
        "steps" "steps" "" Count "repetitions of its pattern" NEVER;
        "calls" "calls" "" Count "in each step" NEVER;
        "step_us.p50" "step p50" "ms" Ms
            "median time from a step's first call to the next step's" "no two steps follow each other";
        "step_us.p95" "step p95" "ms" Ms "95th percentile of that" "no two steps follow each other";
        "communication_us.p50" "in NCCL p50" "ms" Ms
            "median time of the GPU in NCCL kernels, by step" "no GPU times";
        "startup_us" "start-up" "ms" Ms "from the first call to the first step" "no host times";
        "between_us" "between" "ms" Ms
            "between steps that do not follow each other" "no two steps follow each other";
    }
    PROCESS {
        "rank" "rank" "" Count "the launcher's" "no launcher told it";
        "host" "host" "" Text "as the recorder saw it" NOT_KNOWN;
        "pid" "pid" "" Count "process" NEVER;
    }
    RANK {
        "device" "device" "" Count "CUDA device ordinal" NOT_KNOWN;
        "calls" "calls" "" Count "executions" NEVER;
        "timed" "timed" "" Count "calls with a GPU time" NEVER;
        "p2p" "p2p" "" Count "calls that are sends and receives" NOT_COUNTED;
        "wall_us" "wall" "ms" Ms "from its first communicator or call to the last thing seen" NOT_KNOWN;
        "nccl_us" "in NCCL" "ms" Ms "union of its NCCL intervals" NO_INTERVAL;
        "nccl_interval_us.0" "from" "ms" Ms "lower end of the estimate's 95 % interval" NOT_SAMPLED;
        "nccl_interval_us.1" "to" "ms" Ms "upper end of the estimate's 95 % interval" NOT_SAMPLED;
        "share" "share" "% of wall" Percent "the share of the run: never above 100 %" NO_INTERVAL;
        "basis" "clock" "" Text
            "gpu: kernels; sample: estimated from the kernels that were timed; host: API calls, \
             where no call has a GPU time"
            NO_INTERVAL;
        "sum_us" "plain sum" "ms" Ms "of the intervals, overlaps counted twice" NO_INTERVAL;
    }
    CAUSE {
        "calls" "calls" "" Count "how many" NEVER;
        "what" "what" "" Text "lost, or recorded without a GPU time" NEVER;
        "cause" "cause" "" Text "why" NEVER;
        "remedy" "what it means, what to do" "" Wide "the way out" "none is known";
    }
    COMPLETENESS {
        "announced" "announced" "" Count "calls that NCCL announced" NEVER;
        "recorded" "recorded" "" Count "calls with all that was asked for" NEVER;
        "timed" "timed" "" Count "calls with a GPU time" NEVER;
        "lost" "lost" "" Counts "calls without a row, by cause" NONE;
        "odd" "without effect" "" Counts "callbacks without effect, by cause" NONE;
        "live" "live part" "" Text "where its open rows and counters were read" NEVER;
        "recorder" "recorder" "" Text "what happened to it" "nothing but the usual";
    }
    COMMUNICATORS {
        "communicator" "communicator" "" Text "its id, unique in the capture" NEVER;
        "name" "name" "" Text "given by the program" "the program gave none";
        "nranks" "nranks" "" Count "its ranks" "ABI v1 to v3 do not tell";
        "nnodes" "nodes" "" Count "its nodes" NOT_KNOWN;
        "members.length" "here" "ranks" Length "ranks that this capture holds" NEVER;
        "ranks" "ranks" "launcher's" Text "the launcher's ranks of its members" "not known of every member";
        "parent" "parent" "" Communicator "the communicator it was made from" "none, or none that is proved";
        "nccl_gpu_bytes" "GPU memory" "MiB" Mib
            "what NCCL allocated for it on the GPU of its largest rank (`ncclscope memory`)"
            "NCCL's output was not recorded (NCCLSCOPE_NCCL_LOG=on)";
        "parent_evidence" "why that is the parent" "" Wide "the evidence" NONE;
    }
    KIND {
        "kind" "kind" "" Text "collective or p2p (point-to-point)" NEVER;
        "calls" "calls" "" Count "executions, one rank's part each" NEVER;
        "bytes" "bytes" "MiB" Mib "of all calls" NO_SIZE;
        "sum_over_ranks_us" "GPU time" "ms" Ms "of all calls on all ranks" NO_GPU_TIME;
        "sum_interval_us.0" "from" "ms" Ms "lower end of the estimate's 95 % interval" NOT_SAMPLED;
        "sum_interval_us.1" "to" "ms" Ms "upper end of the estimate's 95 % interval" NOT_SAMPLED;
        "host_sum_over_ranks_us" "host time" "ms" Ms "of all calls on all ranks" NO_HOST_TIME;
    }
    FUNCTION {
        "function" "function" "" Text
            "as NCCL names it; operations that came in pieces under their own name" NO_NAME;
        "kind" "kind" "" Text "collective or p2p (point-to-point)" NEVER;
        "calls" "calls" "" Count "executions, one rank's part each" NEVER;
        "share_of_calls" "calls" "%" Percent "part of all calls" NEVER;
        "bytes" "bytes" "MiB" Mib "of all calls" NO_SIZE;
        "sum_over_ranks_us" "GPU time" "ms" Ms "of all calls on all ranks" NO_GPU_TIME;
        "sum_interval_us.0" "from" "ms" Ms "lower end of the estimate's 95 % interval" NOT_SAMPLED;
        "sum_interval_us.1" "to" "ms" Ms "upper end of the estimate's 95 % interval" NOT_SAMPLED;
        "share_of_time" "GPU time" "%" Percent "part of the GPU time of all functions" NO_GPU_TIME;
        "host_sum_over_ranks_us" "host time" "ms" Ms "of all calls on all ranks" NO_HOST_TIME;
    }
    CALLER {
        "caller" "line" "" Wide "file, line and function of the program"
            "not recorded: in a launch of a CUDA graph, counted only, or of a process without stacks";
        "function" "function" "" Text
            "as NCCL names it; operations that came in pieces under their own name" NO_NAME;
        "calls" "calls" "" Count "executions, one rank's part each" NEVER;
        "bytes" "bytes" "MiB" Mib "of all calls" NO_SIZE;
        "sum_over_ranks_us" "GPU time" "ms" Ms "of all calls on all ranks" NO_GPU_TIME;
        "sum_interval_us.0" "from" "ms" Ms "lower end of the estimate's 95 % interval" NOT_SAMPLED;
        "sum_interval_us.1" "to" "ms" Ms "upper end of the estimate's 95 % interval" NOT_SAMPLED;
        "share_of_time" "GPU time" "%" Percent "part of the GPU time of all calls" NO_GPU_TIME;
        "exposed_us" "exposed" "ms" Ms "how long streams stood still for these calls, on all ranks"
            "no wait of a stream is known";
        "exposed_interval_us.0" "from" "ms" Ms "lower end of the estimate's 95 % interval" NOT_SAMPLED;
        "exposed_interval_us.1" "to" "ms" Ms "upper end of the estimate's 95 % interval" NOT_SAMPLED;
        "wait_rank_us" "waiting" "ms" Ms "how long ranks waited for the last one in these calls, on all ranks"
            "no such operation has a time on every rank";
        "wait_interval_us.0" "from" "ms" Ms "lower end of the estimate's 95 % interval" NOT_SAMPLED;
        "wait_interval_us.1" "to" "ms" Ms "upper end of the estimate's 95 % interval" NOT_SAMPLED;
        "host_sum_over_ranks_us" "host time" "ms" Ms "of all calls on all ranks" NO_HOST_TIME;
        "stacks" "stacks" "" Count "different stacks that lead to the line" NEVER;
    }
    PARTS {
        "function" "function" "" Text
            "as NCCL names it; operations that came in pieces under their own name" NO_NAME;
        "least_bytes" "size" "" Bytes "the smallest in this row, by the convention of nccl-tests" NO_SIZE;
        "most_bytes" "up to" "" Bytes "the largest in this row" NO_SIZE;
        "calls" "calls" "" Count "that have parts, without warm-ups" NEVER;
        "parts_us.api.mean" "api" "mean, µs" Figure "API entry to return" NO_PART;
        "parts_us.api.p50" "api" "p50, µs" Figure "API entry to return" NO_PART;
        "parts_us.enqueue.mean" "enqueue" "mean, µs" Figure
            "API entry to the kernel launch, or to the event of enqueueing" NO_PART;
        "parts_us.enqueue.p50" "enqueue" "p50, µs" Figure
            "API entry to the kernel launch, or to the event of enqueueing" NO_PART;
        "parts_us.launch.mean" "launch" "mean, µs" Figure "kernel launch on the host" NO_PART;
        "parts_us.launch.p50" "launch" "p50, µs" Figure "kernel launch on the host" NO_PART;
        "parts_us.kernel.mean" "kernel" "mean, µs" Figure "GPU time" NO_PART;
        "parts_us.kernel.p50" "kernel" "p50, µs" Figure "GPU time" NO_PART;
        "parts_us.proxy.mean" "proxy" "mean, µs" Figure
            "waits of the network proxy's steps, summed over steps and channels" NO_PART;
        "parts_us.proxy.p50" "proxy" "p50, µs" Figure
            "waits of the network proxy's steps, summed over steps and channels" NO_PART;
    }
    SETTING {
        "variable" "variable" "" Text "of NCCL" NEVER;
        "value" "value" "" Text "what was asked for" "some processes have none";
        "nprocesses" "processes" "" Count "that have it" NEVER;
        "function" "function" "" Text
            "that was called" "it says nothing about any function that was called, or differs over processes";
        "calls" "calls" "" Count "of the function" NEVER;
        "obeyed" "obeyed" "" Count "calls that used what was asked for" NEVER;
        "others" "others" "" Counts "calls that used something else, by what" NONE;
        "not_told" "not told" "" Count "calls of which NCCL told nothing" NEVER;
        "why" "why others" "" Wide "where that is certain" "all obeyed, or it is not certain";
    }
    NETWORK {
        "calls" "calls" "" Count "that used the network, sends and receives one by one" NEVER;
        "operations" "ops" "started" Count "proxy operations started" NEVER;
        "operations_done" "ops" "stopped" Count "proxy operations stopped" NEVER;
        "steps" "steps" "" Count "proxy steps finished" NEVER;
        "bytes_sent" "sent" "MiB" Mib "that the network accepted" NO_NETWORK;
        "bytes_received" "received" "MiB" Mib "bytes received" NO_NETWORK;
        "wait_us.send_gpu" "send_gpu" "ms" Ms "send steps waiting for the GPU's data" NO_WAIT;
        "wait_us.send_peer" "send_peer" "ms" Ms "send steps waiting for the receiver" NO_WAIT;
        "wait_us.send_network" "send_network" "ms" Ms "send steps waiting for the network" NO_WAIT;
        "wait_us.recv_network" "recv_network" "ms" Ms "receive steps waiting for data" NO_WAIT;
        "wait_us.recv_flush" "recv_flush" "ms" Ms "receive steps waiting for the flush" NO_WAIT;
        "wait_us.recv_gpu" "recv_gpu" "ms" Ms "receive steps waiting for the GPU to take the data" NO_WAIT;
    }
    PROBLEM {
        "file" "file" "" Text "in the capture" NEVER;
        "place" "place" "" Text "where in it" NEVER;
        "expected" "expected" "" Wide "what should be there" NEVER;
        "found" "found" "" Wide "what is there" NEVER;
    }
}

/// The field `path` of `row`; `None` where it is null or not there. A number is a place in a list.
pub fn field<'a>(row: &'a Value, path: &str) -> Option<&'a Value> {
    let found = path
        .split('.')
        .try_fold(row, |at, name| match name.parse() {
            Ok(place) if at.is_array() => at.get::<usize>(place),
            _ => at.get(name),
        })?;
    (!found.is_null()).then_some(found)
}

#[cfg(test)]
mod tests;
