//! The columns of the page's tables.
//!
//! A [`Column`] names a field of the JSON report, and [`Show`] says how that looks.
//!
//! Rule: every column's field is in the schema of the report, which says what it is and when there is none.

use crate::layout::figure;
use crate::meanings::{self, Meaning};
use crate::text::counts;
use crate::words;
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
    /// The list of the JSON report whose elements are rows; nothing if they are made for the page.
    pub rows: &'static str,
    /// The field in such a row, names joined by dots. Rows sort by it; without one, by what
    /// they show.
    pub path: &'static str,
    /// What its head says.
    pub name: &'static str,
    /// Under the name.
    pub unit: &'static str,
    /// How a field looks.
    pub show: Show,
}

impl Column {
    /// What it is, by the docstring of the field. What is no field is a word.
    pub fn meaning(&self) -> Option<Meaning> {
        meanings::of("report", self.rows, self.path).or_else(|| {
            let text = words::head(self.name)?.to_owned();
            let none = "none".to_owned();
            Some(Meaning { text, none })
        })
    }

    /// Whether it is of an estimate from a sample.
    pub fn is_of_sample(&self) -> bool {
        self.path.starts_with("sampled.") || self.path.contains("interval_us.")
    }
}

/// Columns by table, with the list of the report whose elements are its rows; one to a line: field, name,
/// unit, how it is shown.
macro_rules! columns {
    ($($name:ident $rows:literal {
        $($path:literal $title:literal $unit:literal $show:ident;)*
    })*) => {
        $(pub const $name: &[Column] = &[$(Column {
            rows: $rows,
            path: $path,
            name: $title,
            unit: $unit,
            show: Show::$show,
        }),*];)*

        /// All of them.
        pub const ALL: &[&[Column]] = &[$($name),*];
    };
}

columns! {
    GRAPH "graphs" {
        "calls" "calls of one launch" "" InGraph;
        "launches" "launches" "" Count;
        "calls_per_launch" "calls" "" Count;
        "bytes_per_launch" "size" "MiB" Mib;
        "launches_per_second.median" "per second" "1/s" Figure;
        "launch_call_us.median" "launch" "µs" Figure;
        "nranks" "ranks" "" Count;
        "executables" "graphs" "" Count;
        "streams" "streams" "" Count;
    }
    STREAMS "streams.ranks" {
        "rank" "rank" "" Count;
        "host" "host" "" Text;
        "device" "GPU" "" Count;
        "computing.share" "compute" "%" Percent;
        "beside.share" "both" "%" Percent;
        "exposed.share" "exposed" "%" Percent;
        "exposed_waiting.share" "waiting" "%" Percent;
        "copies.share" "copies" "%" Percent;
        "idle.share" "idle" "%" Percent;
        "interference" "slower beside" "%" Percent;
        "windows" "windows" "" Count;
        "seen_us" "seen" "ms" Ms;
    }
    IDLE_CAUSES "streams.ranks" {
        "rank" "rank" "" Count;
        "host" "host" "" Text;
        "device" "GPU" "" Count;
        "idle_causes.step_us" "step" "ms" Ms;
        "idle.share" "idle" "%" Percent;
        "idle_causes.mpi" "MPI" "%" Percent;
        "idle_causes.program" "program" "%" Percent;
        "idle_causes.driver" "driver" "%" Percent;
        "idle_causes.preempted" "preempted" "%" Percent;
        "idle_causes.disk" "disk" "%" Percent;
        "idle_causes.blocked" "blocked" "%" Percent;
        "idle_causes.unknown" "unknown" "%" Percent;
    }
    ENERGY_PHASE "nodes.energy.phases" {
        "phase" "phase" "" Text;
        "time_s" "time" "s" Figure;
        "energy_j" "energy" "J" Figure;
        "mean_w" "mean power" "W" Figure;
    }
    POWER "nodes.gpus" {
        "host" "host" "" Text;
        "uuid" "UUID" "" Text;
        "name" "name" "" Text;
        "counter_j" "energy" "J" Figure;
        "integrated_j" "integrated" "J" Figure;
        "gap" "gap" "%" Percent;
        "mean_w" "mean power" "W" Figure;
        "max_w" "max power" "W" Figure;
        "sm_mhz" "SM clock" "MHz" Figure;
        "temperature_c" "hottest" "°C" Count;
        "busy" "busy" "%" Percent;
    }
    HOST "nodes.rows" {
        "host" "host" "" Text;
        "time_s" "time" "s" Figure;
        "energy_j" "energy" "J" Figure;
        "mean_w" "mean power" "W" Figure;
        "cpus" "CPUs" "" Count;
        "cpus_busy" "busy CPUs" "" Figure;
        "job_cpus_busy" "job's CPUs" "" Figure;
        "job_threads_ready" "ready" "" Figure;
        "memory_bytes" "memory" "" Bytes;
        "disk_read_bytes" "read" "" Bytes;
        "disk_written_bytes" "written" "" Bytes;
    }
    THREAD "nodes.threads" {
        "rank" "rank" "" Count;
        "host" "host" "" Text;
        "pid" "pid" "" Count;
        "tid" "thread" "" Count;
        "name" "name" "" Text;
        "running" "ran" "%" Percent;
        "ready" "ready" "%" Percent;
        "in_io" "disk" "%" Percent;
        "blocked" "blocked" "%" Percent;
    }
    LONG_CALLS "nodes.jitter" {
        "rank" "rank" "" Count;
        "host" "host" "" Text;
        "tid" "thread" "" Count;
        "calls" "calls" "" Count;
        "long" "long calls" "" Count;
        "long_us" "time" "ms" Ms;
        "longest_us" "longest" "ms" Ms;
        "preempted" "preempted" "%" Percent;
        "asleep" "asleep" "%" Percent;
        "running" "ran" "%" Percent;
        "source" "source" "" Text;
    }
    MPI_RANK "mpi.rows" {
        "rank" "rank" "" Count;
        "host" "host" "" Text;
        "calls" "calls" "" Count;
        "share" "in MPI" "%" Percent;
        "time_us" "time" "ms" Ms;
        "collective_us" "collectives" "ms" Ms;
        "point_to_point_us" "sends, receives" "ms" Ms;
        "waits_us" "waits, tests" "ms" Ms;
        "one_sided_us" "one-sided" "ms" Ms;
        "files_us" "files" "ms" Ms;
        "step_us" "a step" "ms" Ms;
        "step_share" "of a step" "%" Percent;
        "open" "last inside" "" Text;
    }
    PHASE "phases" {
        "name" "phase" "" Text;
        "visits.n" "ranks" "" Count;
        "visits.median" "visits" "" Figure;
        "time_us.median" "in phase" "ms" Ms;
        "time_us.max" "longest stay" "ms" Ms;
        "longest_rank" "by rank" "" Count;
        "communication_us.median" "NCCL" "ms" Ms;
    }
    MPI_FUNCTION "mpi.functions" {
        "function" "function" "" Text;
        "calls" "calls" "" Count;
        "time_us" "time" "ms" Ms;
        "mean_us" "mean" "µs" Figure;
        "ranks" "ranks" "" Count;
    }
    BUBBLES "streams.bubbles" {
        "rank" "rank" "" Count;
        "host" "host" "" Text;
        "device" "GPU" "" Count;
        "bubble.share" "bubble" "%" Percent;
        "bubble_us" "bubble" "ms" Ms;
        "late_sender_us" "late sender" "ms" Ms;
        "late_receiver_us" "late receiver" "ms" Ms;
        "collective_us" "collective" "ms" Ms;
        "transfer_us" "transfer" "ms" Ms;
        "idle_us" "idle" "ms" Ms;
        "bubble_run_us" "in the run" "ms" Ms;
        "step_us" "step" "ms" Ms;
        "steps" "steps" "" Count;
    }
    RANK_WAITS "stream_waits.ranks" {
        "rank" "rank" "" Count;
        "host" "host" "" Text;
        "device" "GPU" "" Count;
        "share.share" "exposed" "%" Percent;
        "at_most" "at most" "%" Percent;
        "by_windows.share" "by windows" "%" Percent;
        "calls" "calls" "" Count;
        "known" "known" "" Count;
        "waited" "waited" "" Count;
        "sum_us" "stood still" "ms" Ms;
        "unwaited_us" "unwaited" "ms" Ms;
        "active_us" "active" "ms" Ms;
    }
    OPERATION_WAITS "stream_waits.operations" {
        "function" "function" "" Text;
        "bytes" "bytes" "" Bytes;
        "datatype" "type" "" Datatype;
        "communicator" "communicator" "" Communicator;
        "calls" "calls" "" Count;
        "known" "known" "" Count;
        "waited" "waited" "" Count;
        "sum_us" "exposed" "ms" Ms;
        "before_us" "before" "ms" Ms;
        "unwaited_us" "unwaited" "ms" Ms;
    }
    DRIVER_CALL "driver_calls.rows" {
        "counter" "counter" "" Text;
        "nccl" "by NCCL" "" Count;
        "nccl_per_step" "by NCCL/step" "" Figure;
        "program" "by the program" "" Count;
        "program_per_step" "by the program/step" "" Figure;
        "why_null" "why none" "" Text;
    }
    PATH_ROW "critical_path.rows" {
        "what" "segment" "" Text;
        "communicator" "communicator" "" Communicator;
        "why" "why" "" Text;
        "rank" "rank" "" Count;
        "host" "host" "" Text;
        "sum_us" "time" "ms" Ms;
        "share" "of the step" "%" Percent;
        "count" "segments" "" Count;
    }
    SEGMENT "critical_path.step.segments" {
        "at_us" "at" "ms" Ms;
        "time_us" "time" "ms" Ms;
        "what" "segment" "" Text;
        "communicator" "communicator" "" Communicator;
        "why" "why" "" Text;
        "rank" "rank" "" Count;
        "host" "host" "" Text;
    }
    NCCL_KERNELS "streams.communication" {
        "function" "function" "" Text;
        "kernels" "kernels" "" Count;
        "sum_us" "time" "ms" Ms;
        "exposed_us" "exposed" "ms" Ms;
        "hidden_us" "hidden" "ms" Ms;
    }
    REPLAYS "streams.replays" {
        "rank" "rank" "" Count;
        "host" "host" "" Text;
        "device" "GPU" "" Count;
        "calls" "calls of one replay" "" Counts;
        "replays" "replays" "" Count;
        "replay_us" "replay" "µs" Figure;
        "communication_us" "communication" "µs" Figure;
        "exposed_us" "exposed" "µs" Figure;
    }
    KERNELS "streams.kernels" {
        "name" "kernel" "" Wide;
        "kind" "kind" "" Text;
        "kernels" "kernels" "" Count;
        "sum_us" "time" "ms" Ms;
        "share" "share" "%" Percent;
        "beside_us" "beside" "ms" Ms;
    }
    KERNELS_BY_RANK "streams.kernels_by_rank" {
        "name" "kernel" "" Wide;
        "rank" "rank" "" Count;
        "host" "host" "" Text;
        "device" "GPU" "" Count;
        "kind" "kind" "" Text;
        "kernels" "kernels" "" Count;
        "sum_us" "time" "ms" Ms;
        "share" "share" "%" Percent;
        "beside_us" "beside" "ms" Ms;
    }
    ON_COMMUNICATOR "warmup" {
        "function" "function" "" Text;
        "communicator" "communicator" "" Communicator;
    }
    OPERATION "operations" {
        "function" "function" "" Text;
        "bytes" "bytes" "" Bytes;
        "datatype" "type" "" Datatype;
        "communicator" "comm" "" Communicator;
        "" "algorithm" "/protocol" Algorithm;
        "calls" "calls" "" Count;
    }
    GPU_TIME "operations" {
        "timed" "timed" "" Count;
        "time_us.sum" "sum" "ms" Ms;
        "sampled.sum_us" "estimated sum" "ms" Ms;
        "sampled.sum_low_us" "from" "ms" Ms;
        "sampled.sum_high_us" "to" "ms" Ms;
        "time_us.mean" "mean" "µs" Figure;
        "time_us.min" "min" "µs" Figure;
        "time_us.p50" "p50" "µs" Figure;
        "time_us.p95" "p95" "µs" Figure;
        "time_us.p99" "p99" "µs" Figure;
        "time_us.max" "max" "µs" Figure;
        "shortest_us.p50" "shortest" "p50, µs" Figure;
        "algbw_gb_per_s" "algbw" "GB/s" Figure;
        "busbw_gb_per_s" "busbw" "GB/s" Figure;
        "call_busbw_gb_per_s" "call_busbw" "GB/s" Figure;
        "untimed" "not timed" "" Counts;
    }
    HOST_TIME "operations" {
        "captured" "captured" "" Count;
        "host_us.sum" "sum" "ms" Ms;
        "host_us.mean" "mean" "µs" Figure;
        "host_us.min" "min" "µs" Figure;
        "host_us.p50" "p50" "µs" Figure;
        "host_us.p95" "p95" "µs" Figure;
        "host_us.p99" "p99" "µs" Figure;
        "host_us.max" "max" "µs" Figure;
        "untimed" "why no GPU time" "" Counts;
    }
    FIRST_CALLS "warmup" {
        "calls" "calls" "" Count;
        "time_us.min" "GPU min" "µs" Figure;
        "time_us.p50" "GPU p50" "µs" Figure;
        "time_us.max" "GPU max" "µs" Figure;
        "host_us.min" "host min" "µs" Figure;
        "host_us.p50" "host p50" "µs" Figure;
        "host_us.max" "host max" "µs" Figure;
    }
    ARRIVALS "arrivals.ranks" {
        "device" "device" "" Count;
        "operations" "operations" "" Count;
        "last" "last" "" Count;
        "last_proved" "proved" "" Count;
        "last_refuted" "refuted" "" Count;
        "saving_wall_us" "saves" "ms of the wall" Ms;
        "cost_rank_us" "cost" "ms over ranks" Ms;
        "inherited_rank_us" "inherited" "ms over ranks" Ms;
        "wait_rank_us" "waited" "ms over ranks" Ms;
        "launched_late_us" "late launch" "ms of the wall" Ms;
        "gpu_busy_us" "busy GPU" "ms of the wall" Ms;
    }
    LINKS "arrivals.links" {
        "communicator" "communicator" "" Communicator;
        "state" "state" "" Text;
        "peer" "peer" "" Count;
        "peer_host" "peer's host" "" Text;
        "operations" "operations" "" Count;
        "transfer_wall_us" "transfer" "ms of the wall" Ms;
        "held_wall_us" "held" "ms of the wall" Ms;
        "others_wall_us" "others" "ms of the wall" Ms;
        "excess_wall_us" "excess" "ms of the wall" Ms;
        "loss_wall_us" "run loses" "ms of the wall" Ms;
    }
    CLOCKS "clocks.hosts" {
        "host" "host" "" Text;
        "offset_us" "offset" "µs" Figure;
        "low_us" "low" "µs" Figure;
        "high_us" "high" "µs" Figure;
        "source" "from" "" Text;
        "given_error_us" "given error" "µs" Figure;
        "operations" "operations" "" Count;
        "windows" "windows" "" Count;
        "drift_low_ppm" "drift low" "ppm" Figure;
        "drift_high_ppm" "drift high" "ppm" Figure;
    }
    STEPS "steps.rows" {
        "steps" "steps" "" Count;
        "calls" "calls" "" Count;
        "step_us.p50" "step p50" "ms" Ms;
        "step_us.p95" "step p95" "ms" Ms;
        "communication_us.p50" "in NCCL p50" "ms" Ms;
        "startup_us" "start-up" "ms" Ms;
        "between_us" "between" "ms" Ms;
    }
    PROCESS "ranks.rows" {
        "rank" "rank" "" Count;
        "host" "host" "" Text;
        "pid" "pid" "" Count;
    }
    RANK "ranks.rows" {
        "device" "device" "" Count;
        "calls" "calls" "" Count;
        "timed" "timed" "" Count;
        "p2p" "p2p" "" Count;
        "wall_us" "wall" "ms" Ms;
        "nccl_us" "in NCCL" "ms" Ms;
        "nccl_interval_us.0" "from" "ms" Ms;
        "nccl_interval_us.1" "to" "ms" Ms;
        "share" "share" "% of wall" Percent;
        "basis" "clock" "" Text;
        "sum_us" "plain sum" "ms" Ms;
    }
    CAUSE "" {
        "calls" "calls" "" Count;
        "what" "what" "" Text;
        "cause" "cause" "" Text;
        "remedy" "what it means, what to do" "" Wide;
    }
    COMPLETENESS "completeness.ranks" {
        "announced" "announced" "" Count;
        "recorded" "recorded" "" Count;
        "timed" "timed" "" Count;
        "lost" "lost" "" Counts;
        "odd" "without effect" "" Counts;
        "live" "live part" "" Text;
        "recorder" "recorder" "" Text;
    }
    COMMUNICATORS "communicators" {
        "communicator" "communicator" "" Text;
        "name" "name" "" Text;
        "nranks" "nranks" "" Count;
        "nnodes" "nodes" "" Count;
        "members.length" "here" "ranks" Length;
        "ranks" "ranks" "launcher's" Text;
        "parent" "parent" "" Communicator;
        "nccl_gpu_bytes" "GPU memory" "MiB" Mib;
        "parent_evidence" "why that is the parent" "" Wide;
    }
    KIND "kinds" {
        "kind" "kind" "" Text;
        "calls" "calls" "" Count;
        "bytes" "bytes" "MiB" Mib;
        "sum_over_ranks_us" "GPU time" "ms" Ms;
        "sum_interval_us.0" "from" "ms" Ms;
        "sum_interval_us.1" "to" "ms" Ms;
        "host_sum_over_ranks_us" "host time" "ms" Ms;
    }
    FUNCTION "functions" {
        "function" "function" "" Text;
        "kind" "kind" "" Text;
        "calls" "calls" "" Count;
        "share_of_calls" "calls" "%" Percent;
        "bytes" "bytes" "MiB" Mib;
        "sum_over_ranks_us" "GPU time" "ms" Ms;
        "sum_interval_us.0" "from" "ms" Ms;
        "sum_interval_us.1" "to" "ms" Ms;
        "share_of_time" "GPU time" "%" Percent;
        "host_sum_over_ranks_us" "host time" "ms" Ms;
    }
    CALLER "callers" {
        "caller" "line" "" Wide;
        "function" "function" "" Text;
        "calls" "calls" "" Count;
        "bytes" "bytes" "MiB" Mib;
        "sum_over_ranks_us" "GPU time" "ms" Ms;
        "sum_interval_us.0" "from" "ms" Ms;
        "sum_interval_us.1" "to" "ms" Ms;
        "share_of_time" "GPU time" "%" Percent;
        "exposed_us" "exposed" "ms" Ms;
        "exposed_interval_us.0" "exposed from" "ms" Ms;
        "exposed_interval_us.1" "exposed to" "ms" Ms;
        "wait_rank_us" "waiting" "ms" Ms;
        "wait_interval_us.0" "waiting from" "ms" Ms;
        "wait_interval_us.1" "waiting to" "ms" Ms;
        "host_sum_over_ranks_us" "host time" "ms" Ms;
        "stacks" "stacks" "" Count;
    }
    PARTS "parts" {
        "function" "function" "" Text;
        "least_bytes" "size" "" Bytes;
        "most_bytes" "up to" "" Bytes;
        "calls" "calls" "" Count;
        "parts_us.api.mean" "api" "mean, µs" Figure;
        "parts_us.api.p50" "api" "p50, µs" Figure;
        "parts_us.enqueue.mean" "enqueue" "mean, µs" Figure;
        "parts_us.enqueue.p50" "enqueue" "p50, µs" Figure;
        "parts_us.launch.mean" "launch" "mean, µs" Figure;
        "parts_us.launch.p50" "launch" "p50, µs" Figure;
        "parts_us.kernel.mean" "kernel" "mean, µs" Figure;
        "parts_us.kernel.p50" "kernel" "p50, µs" Figure;
        "parts_us.proxy.mean" "proxy" "mean, µs" Figure;
        "parts_us.proxy.p50" "proxy" "p50, µs" Figure;
    }
    SETTING "settings" {
        "variable" "variable" "" Text;
        "value" "value" "" Text;
        "nprocesses" "processes" "" Count;
        "function" "function" "" Text;
        "calls" "calls" "" Count;
        "obeyed" "obeyed" "" Count;
        "others" "others" "" Counts;
        "not_told" "not told" "" Count;
        "why" "why others" "" Wide;
    }
    NETWORK "network" {
        "calls" "calls" "" Count;
        "operations" "ops" "started" Count;
        "operations_done" "ops" "stopped" Count;
        "steps" "steps" "" Count;
        "bytes_sent" "sent" "MiB" Mib;
        "bytes_received" "received" "MiB" Mib;
        "wait_us.send_gpu" "send_gpu" "ms" Ms;
        "wait_us.send_peer" "send_peer" "ms" Ms;
        "wait_us.send_network" "send_network" "ms" Ms;
        "wait_us.recv_network" "recv_network" "ms" Ms;
        "wait_us.recv_flush" "recv_flush" "ms" Ms;
        "wait_us.recv_gpu" "recv_gpu" "ms" Ms;
    }
    PROBLEM "problems" {
        "file" "file" "" Text;
        "place" "place" "" Text;
        "expected" "expected" "" Wide;
        "found" "found" "" Wide;
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
