//! What a session did, as `ncclscope attach --json` prints it.

use crate::inner::{Part, Step};
use crate::net::Connection;
use crate::rdma::Port;
use crate::sched::{Long, Parts, Sum};
use crate::{Probed, Seen, Summary, Way};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The schema's name.
pub const SCHEMA: &str = "ncclscope.attach/1";

/// What `ncclscope attach --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct AttachJson<'a> {
    schema: &'static str,
    /// The capture's folder.
    capture: &'a str,
    /// For how long was recorded.
    recorded_s: f64,
    /// How probes were set: by BPF (`uprobe_multi`, `perf`), or without it (`perf_samples`).
    probes: Way,
    /// It is not known of which process the lost calls are: all stand at the one with most calls.
    losses_shared: bool,
    /// What entry and return of a recorded call cost on this machine, measured before.
    call_cost_ns: Option<f64>,
    /// Events of processes that ended before they could be looked at.
    unseen_events: u64,
    /// Why the last write failed.
    write_error: Option<&'a str>,
    /// Libraries and programs with NCCL.
    libraries: &'a [Probed],
    /// Processes that have loaded NCCL.
    processes: Vec<ProcessJson<'a>>,
    /// Connections and adapters; null without --net.
    net: Option<NetJson<'a>>,
}

/// A process that has loaded NCCL.
#[derive(Serialize, JsonSchema)]
struct ProcessJson<'a> {
    /// Its number, as seen from where attach runs.
    pid: u32,
    /// The launcher's rank.
    rank: Option<&'a str>,
    /// Its trace file; null if it made no call and is no part of the capture.
    trace: Option<String>,
    /// Calls by function and thread.
    calls: Vec<CallsJson>,
    /// Calls that did not return success, by NCCL's return code.
    #[schemars(with = "BTreeMap<String, u64>")]
    failed: &'a BTreeMap<i32, u64>,
    /// Calls that had not returned at the end.
    open: usize,
    /// Calls that the ring had no room for.
    lost: u64,
    /// Returns that the ring had no room for.
    lost_returns: u64,
    /// Calls that seem not to have returned, because their returns were lost.
    unreturned: u64,
    /// Returns of calls that began before attach.
    begun_before: u64,
    /// The process ended while attach ran.
    ended: bool,
    /// Time that the process spent in probes.
    cost_s: Option<f64>,
    /// The same as a share of the time that was recorded.
    cost_share: Option<f64>,
    /// What the scheduler did; null without --sched.
    sched: Option<SchedJson>,
    /// What went on inside each init, step by step in order of time; empty without --init.
    inits: Vec<Vec<StepJson>>,
    /// RDMA adapters that it has open; empty without --net.
    rdma_adapters: &'a [String],
}

/// Calls of a function by a thread.
#[derive(Serialize, JsonSchema)]
struct CallsJson {
    /// As NCCL exports it.
    function: &'static str,
    /// Number of the thread, as the machine has it.
    thread: u32,
    /// Calls.
    calls: u64,
}

/// What the scheduler did.
#[derive(Serialize, JsonSchema)]
struct SchedJson {
    /// What threads did in their calls, by function and thread.
    calls: Vec<SumJson>,
    /// The ten longest calls, the longest first.
    longest: Vec<LongJson>,
    /// Context switches that the ring had no room for.
    lost_switches: u64,
}

/// Calls of a function by a thread.
#[derive(Serialize, JsonSchema)]
struct SumJson {
    #[serde(flatten)]
    parts: PartsJson,
    /// As NCCL exports it.
    function: &'static str,
    /// Number of the thread, as the machine has it.
    thread: u32,
    /// Calls that returned.
    calls: u64,
    /// The longest one.
    longest_us: f64,
}

/// A long call.
#[derive(Serialize, JsonSchema)]
struct LongJson {
    #[serde(flatten)]
    parts: PartsJson,
    /// As NCCL exports it.
    function: &'static str,
    /// Number of the thread, as the machine has it.
    thread: u32,
    /// When it began, since 1970.
    began_ns: u64,
    /// It had not returned; its parts are those up to the end.
    open: bool,
}

/// What the time of calls went into.
#[derive(Serialize, JsonSchema)]
struct PartsJson {
    /// Time from entry to return.
    took_us: f64,
    /// Of it, the thread had a CPU; less than 20 µs off the CPU counts here, too.
    running_us: f64,
    /// The thread waited for something, such as a lock, a file or the GPU.
    asleep_us: f64,
    /// The thread was ready and waited in the run queue, because others ran on its CPU.
    queued_us: f64,
    /// The kernel used its CPU for soft interrupts: network, timers.
    softirq_us: f64,
    /// Stretches of 20 µs and more off the CPU.
    switches: u64,
}

/// A step inside an init.
#[derive(Serialize, JsonSchema)]
struct StepJson {
    /// As NCCL's source names it.
    function: &'static str,
    /// What its time is spent on.
    part: Part,
    /// Number of the thread, as the machine has it.
    thread: u32,
    /// Steps of this list that it was called in, on the same thread.
    depth: usize,
    /// Calls.
    calls: u64,
    /// Begin of the first call, from the init's begin.
    began_us: f64,
    /// Time of all calls.
    took_us: f64,
    /// Of it, in steps of this list that it called.
    inner_us: f64,
}

/// Connections and adapters.
#[derive(Serialize, JsonSchema)]
struct NetJson<'a> {
    /// TCP connections by process, those with most bytes first.
    connections: Vec<ConnectionJson<'a>>,
    /// Ports of RDMA adapters.
    rdma_ports: &'a [Port],
}

/// A TCP connection.
#[derive(Serialize, JsonSchema)]
struct ConnectionJson<'a> {
    /// Process.
    pid: Option<u32>,
    /// The launcher's rank.
    rank: Option<&'a str>,
    /// Own address and port.
    local: String,
    /// Address and port at the other end.
    remote: String,
    /// The process at the other end, if attach watches it.
    peer_pid: Option<u32>,
    /// Its rank.
    peer_rank: Option<&'a str>,
    /// It began while attach ran.
    new: bool,
    /// It ended while attach ran.
    ended: bool,
    /// Sent meanwhile, each byte once.
    sent_bytes: u64,
    /// Received meanwhile.
    received_bytes: u64,
    /// Segments that were sent again.
    retransmits: u64,
    /// Bytes in them.
    retransmitted_bytes: u64,
    /// Mean of the smoothed round trip at ticks with traffic.
    rtt_us: u64,
    /// The largest one.
    most_rtt_us: u64,
    /// The least that the kernel ever saw on it.
    least_rtt_us: u64,
    /// Most that was given to it and not acknowledged.
    most_send_queue_bytes: u64,
    /// Most that came and was not read by the program.
    most_receive_queue_bytes: u64,
    /// Time in which there was something to send.
    sending_us: u64,
    /// Of it, the other end's window was full: that program reads too slowly.
    window_full_us: u64,
    /// Of it, the own buffer was full.
    buffer_full_us: u64,
    /// Most in both directions between two ticks, 0.5 s each.
    most_bytes_per_s: Option<f64>,
    /// Calls that the process made between ticks in which the connection carried data.
    calls: u64,
}

impl AttachJson<'_> {
    /// Of a session whose capture is in this folder.
    pub fn new<'a>(summary: &'a Summary, capture: &'a str) -> AttachJson<'a> {
        let processes = summary.processes.iter();
        let net = |connections: &'a Vec<Connection>| NetJson {
            connections: connections.iter().map(|c| connection(summary, c)).collect(),
            rdma_ports: summary.ports.as_deref().unwrap_or_default(),
        };
        AttachJson {
            schema: SCHEMA,
            capture,
            recorded_s: summary.seconds,
            probes: summary.way,
            losses_shared: summary.shared_losses,
            call_cost_ns: summary.ns_per_call,
            unseen_events: summary.unseen,
            write_error: summary.write_error.as_deref(),
            libraries: &summary.libraries,
            processes: processes.map(|seen| process(summary, seen)).collect(),
            net: summary.connections.as_ref().map(net),
        }
    }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn process<'a>(summary: &Summary, seen: &'a Seen) -> ProcessJson<'a> {
    let calls = |(of, calls): (&(&'static str, u32), &u64)| CallsJson {
        function: of.0,
        thread: of.1,
        calls: *calls,
    };
    let cost = summary.cost(seen);
    ProcessJson {
        pid: seen.pid,
        rank: seen.rank.as_deref(),
        trace: seen.trace.as_ref().map(|trace| trace.display().to_string()),
        calls: seen.counts.calls.iter().map(calls).collect(),
        failed: &seen.counts.failed,
        open: seen.open,
        lost: seen.losses.entries,
        lost_returns: seen.losses.returns,
        unreturned: seen.counts.unreturned,
        begun_before: seen.counts.begun_before,
        ended: seen.ended,
        cost_s: cost.map(|(seconds, _)| seconds),
        cost_share: cost.map(|(_, share)| share),
        sched: summary.sched.then(|| sched(seen)),
        inits: seen
            .inits
            .iter()
            .map(|steps| steps.iter().map(step).collect())
            .collect(),
        rdma_adapters: &seen.adapters,
    }
}

fn sched(seen: &Seen) -> SchedJson {
    let sum = |(of, sum): (&(&'static str, u32), &Sum)| SumJson {
        parts: parts(&sum.parts),
        function: of.0,
        thread: of.1,
        calls: sum.calls,
        longest_us: us(sum.longest),
    };
    let long = |long: &Long| LongJson {
        parts: parts(&long.parts),
        function: long.function,
        thread: long.thread,
        began_ns: long.began,
        open: long.open,
    };
    SchedJson {
        calls: seen.sums.iter().map(sum).collect(),
        longest: seen.longest.iter().map(long).collect(),
        lost_switches: seen.losses.switches,
    }
}

fn parts(parts: &Parts) -> PartsJson {
    PartsJson {
        took_us: us(parts.took),
        running_us: us(parts.ran()),
        asleep_us: us(parts.asleep),
        queued_us: us(parts.queued),
        softirq_us: us(parts.softirq),
        switches: parts.switches,
    }
}

fn step(step: &Step) -> StepJson {
    StepJson {
        function: step.function,
        part: step.part,
        thread: step.thread,
        depth: step.depth,
        calls: step.calls,
        began_us: us(step.began_ns),
        took_us: us(step.took_ns),
        inner_us: us(step.inner_ns),
    }
}

fn connection<'a>(summary: &'a Summary, connection: &Connection) -> ConnectionJson<'a> {
    let since = connection.since();
    let peer = connection.peer.and_then(|peer| summary.of(peer));
    let process = summary.of(connection.process);
    let (most, ns) = connection.busiest;
    ConnectionJson {
        pid: process.map(|seen| seen.pid),
        rank: process.and_then(|seen| seen.rank.as_deref()),
        local: connection.local.to_string(),
        remote: connection.remote.to_string(),
        peer_pid: peer.map(|seen| seen.pid),
        peer_rank: peer.and_then(|seen| seen.rank.as_deref()),
        new: connection.is_new,
        ended: connection.has_ended,
        sent_bytes: since.sent,
        received_bytes: since.received,
        retransmits: since.retransmits,
        retransmitted_bytes: since.retransmitted,
        rtt_us: connection.mean_rtt(),
        most_rtt_us: connection.most_rtt,
        least_rtt_us: since.least_rtt,
        most_send_queue_bytes: connection.most_send_queue,
        most_receive_queue_bytes: connection.most_receive_queue,
        sending_us: since.busy,
        window_full_us: since.window_full,
        buffer_full_us: since.buffer_full,
        most_bytes_per_s: (ns > 0).then(|| most as f64 * 1e9 / ns as f64),
        calls: connection.calls,
    }
}
