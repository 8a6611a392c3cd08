//! Calls as they are kept in memory, and the columns that they are handed out as.
//!
//! A [`Call`] has what differs from call to call; what many calls share is its [`Shape`]; what few calls
//! have (network, buffers, phases) is its [`Extra`]. Ten million calls take 1.3 GB. [`COLUMNS`] names every
//! column once, with its unit and what null means in it: exporters and `docs/reference/tables.md` follow it.
//!
//! Rule: a time of 0 is "not known" here and null in a column.

use crate::columns::{known, less_one, moment, nonzero, text};
use crate::communicators::Communicator;
use crate::names::Name;
use crate::process::Process;
use crate::Capture;
use capture::live::{flag, part, verdict, waiter};
use capture::rows::GpuTime;

pub use crate::columns::Value;

/// What many calls of a process have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// The process's number of the communicator.
    pub uid: u32,
    /// Index of the communicator in the capture.
    pub communicator: Option<u32>,
    /// CUDA's number of the communicator's GPU.
    pub device: Option<u32>,
    /// The thread that called, by Linux's number.
    pub thread: Option<u32>,
    /// The thread that made the communicator, by Linux's number.
    pub init_thread: Option<u32>,
    /// The calling rank in it.
    pub rank: Option<u32>,
    /// Ranks of the communicator.
    pub nranks: Option<u32>,
    /// Function as NCCL names it.
    pub function: Name,
    /// Datatype as NCCL names it.
    pub datatype: Name,
    /// Algorithm.
    pub algorithm: Name,
    /// Protocol.
    pub protocol: Name,
    /// Kernel variant (ABI v7).
    pub variant: Name,
    /// [`capture::live::flag`] bits.
    pub flags: u8,
    /// [`capture::live::part`] bits.
    pub parts: u16,
    /// Channels that NCCL says it uses.
    pub nchannels: u8,
    /// Warps per channel.
    pub nwarps: u8,
    /// Elements as the program gave them; bytes for AllGather and Broadcast below ABI v5.
    pub count: u64,
    /// Root.
    pub root: Option<u32>,
    /// Peer of a send or receive.
    pub peer: Option<u32>,
    /// cudaStream_t as a number, 0 not known.
    pub stream: u64,
    /// Batches of a copy-engine collective.
    pub ce_batches: u16,
    /// The program's line that made the call; see [`crate::stacks`].
    pub caller: Name,
    /// The stack that made the call.
    pub stack: Name,
    /// NCCL stamps the end of such a call before its work has ended: sends and receives, trees and NVLS.
    pub stops_early: bool,
}

/// What NCCL's sequence numbers count on a communicator: calls of a function, and whether copy engines do
/// them.
pub type Series = (Name, bool);

impl Shape {
    /// Whether this flag is set.
    pub fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether copy engines do it, without a kernel.
    pub fn by_copy_engines(&self) -> bool {
        self.parts & part::COPY_ENGINE != 0
    }

    /// What its sequence numbers count on a communicator. NCCL numbers the calls of each function, and those
    /// that copy engines do apart from the others.
    pub fn series(&self) -> Series {
        (self.function, self.by_copy_engines())
    }

    /// Whether its GPU times are of CUDA events, on the host's clock.
    pub fn has_events(&self) -> bool {
        self.parts & part::EVENTS != 0
    }

    /// What its GPU times are, if it has any.
    pub fn time_source(&self) -> &'static str {
        if self.has_events() {
            "events"
        } else {
            "stamps"
        }
    }
}

/// Bit of [`Call::verdict`] that reading adds: the stamps are older than the launch.
pub const STALE: u16 = 1 << 15;
/// Bit of [`Call::verdict`] that reading adds: made after a call that puts NCCL's counters of stamps out of
/// step.
pub const DESYNCHRONISED: u16 = 1 << 14;

/// One rank's part in an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Call {
    /// Unique in the process, in order of announcement.
    pub ticket: u64,
    /// Number + 1 of the group it was made in, 0 not known.
    pub group: u64,
    /// NCCL's sequence number + 1, 0 none.
    pub seq: u64,
    pub api_ns: i64,
    pub launch_start_ns: i64,
    pub launch_end_ns: i64,
    pub enqueue_ns: i64,
    pub return_ns: i64,
    /// When it ran on its GPU.
    pub gpu: GpuTimes,
    /// When the host was told that it had ended there.
    pub gpu_seen_ns: i64,
    /// For how long the program's threads waited in the CUDA driver since the call before, ns: some 30 if
    /// they called it and did not wait, and 0 if they did not.
    pub driver_waited_ns: u64,
    /// Index into [`Process::shapes`].
    pub shape: u32,
    /// For a replay: its template's number + 1.
    pub template: u32,
    /// Index into [`Process::extras`] + 1, 0 none.
    pub extra: u32,
    /// Index into [`Process::composites`] + 1, 0 none.
    pub composite: u32,
    pub channels_started: u16,
    pub channels_stopped: u16,
    /// [`capture::live::verdict`] bits, [`STALE`] and [`DESYNCHRONISED`].
    pub verdict: u16,
    /// The first stream that waited for it, and what is known of that: [`capture::live::waiter`].
    pub waiter: u32,
    /// For how long, in units of [`capture::live::waiter::UNIT`].
    pub waited: i32,
    /// In a block, so finished; the rest are from the live part and may be open.
    pub sealed: bool,
}

const _: () = assert!(std::mem::size_of::<Call>() == 136);

/// When a call ran on its GPU, and which clock says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GpuTimes {
    /// Not known.
    #[default]
    None,
    /// Only how long it ran, ns, by NCCL's stamps. Another tool did not keep when that was.
    Length(u64),
    /// NCCL's stamps, on the GPU's own clock. A stamp that was not delivered is 0.
    Stamps {
        /// Of its begin.
        start: GpuTime,
        /// Of its end.
        stop: GpuTime,
    },
    /// ns since 1970 on the host's clock, so above 0. These are the times of CUDA events, and of stamps that
    /// could be moved to that clock.
    OnHost {
        /// When it began.
        start: i64,
        /// When it ended.
        stop: i64,
        /// Neither is further off than this, ns.
        error: u32,
    },
}

impl GpuTimes {
    /// NCCL's stamps as it delivered them, 0 for none.
    pub fn stamps(start: u64, stop: u64) -> GpuTimes {
        match (start, stop) {
            (0, 0) => GpuTimes::None,
            _ => GpuTimes::Stamps {
                start: GpuTime(start),
                stop: GpuTime(stop),
            },
        }
    }

    /// Begin and end on the host's clock, ns since 1970, if they are known on it.
    pub fn on_host(self) -> Option<(i64, i64)> {
        match self {
            GpuTimes::OnHost { start, stop, .. } => Some((start, stop)),
            _ => None,
        }
    }

    /// How far off the times on the host's clock may be, ns.
    pub fn error(self) -> Option<u32> {
        match self {
            GpuTimes::OnHost { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Begin and end on whichever clock they are on: only for what stays within one GPU, such as lengths and
    /// orders. `None` unless both are known, and in order.
    pub fn on_either_clock(self) -> Option<(u64, u64)> {
        let (start, stop) = (self.start()?, self.stop()?);
        (start <= stop).then_some((start, stop))
    }

    /// From the first begin of two to the last end; `None` where these are on different clocks.
    pub fn around(self, other: GpuTimes) -> Option<GpuTimes> {
        match (self, other) {
            (GpuTimes::None, times) | (times, GpuTimes::None) => Some(times),
            (GpuTimes::Stamps { start: a, stop: b }, GpuTimes::Stamps { start, stop }) => {
                Some(GpuTimes::Stamps {
                    start: a.min(start),
                    stop: b.max(stop),
                })
            }
            (
                GpuTimes::OnHost {
                    start: a,
                    stop: b,
                    error: c,
                },
                GpuTimes::OnHost { start, stop, error },
            ) => Some(GpuTimes::OnHost {
                start: a.min(start),
                stop: b.max(stop),
                error: c.max(error),
            }),
            _ => None,
        }
    }

    /// From begin to end, ns; `None` unless both are known, and in order, or this is all that is known.
    pub fn length(self) -> Option<u64> {
        if let GpuTimes::Length(ns) = self {
            return Some(ns);
        }
        self.on_either_clock().map(|(start, stop)| stop - start)
    }

    /// When it began, on whichever clock.
    pub fn start(self) -> Option<u64> {
        let start = match self {
            GpuTimes::None | GpuTimes::Length(_) => 0,
            GpuTimes::Stamps { start, .. } => start.0,
            GpuTimes::OnHost { start, .. } => start as u64,
        };
        (start != 0).then_some(start)
    }

    /// When it ended, on whichever clock.
    pub fn stop(self) -> Option<u64> {
        let stop = match self {
            GpuTimes::None | GpuTimes::Length(_) => 0,
            GpuTimes::Stamps { stop, .. } => stop.0,
            GpuTimes::OnHost { stop, .. } => stop as u64,
        };
        (stop != 0).then_some(stop)
    }
}

/// What is known of the first stream that waited for a call, if there was one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// From the moment at which it had nothing else to do to the call's end, ns; negative if the call had
    /// ended before.
    For(i64),
    /// The call had ended when the stream came to wait.
    Ended,
    /// The wait was not timed.
    Untimed,
}

/// What few calls have. 0 stands for "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Extra {
    pub user_tag: u64,
    pub send_buffer: u64,
    pub recv_buffer: u64,
    pub phase_stop: [u64; 2],
    pub ops_started: u32,
    pub ops_stopped: u32,
    pub steps: u32,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// In the order of [`capture::live::WAITS`].
    pub waits_ns: [u64; 6],
    /// Of its network operations, how long the one that was longest in the network's hands was there: a send
    /// accepted and not done, a receive being flushed.
    pub longest_ns: u64,
    /// That one's peer in the communicator + 1.
    pub longest_peer: u32,
    /// It sends.
    pub longest_sends: bool,
    /// NCCL's return code, if that was not success and somebody saw it.
    pub error: u8,
}

impl Extra {
    /// The state in which [`Extra::longest_ns`] passed.
    pub fn longest_state(&self) -> &'static str {
        capture::live::WAITS[if self.longest_sends { 2 } else { 4 }]
    }
}

impl Call {
    /// Host time from API entry to return, ns.
    pub fn host_ns(&self) -> Option<u64> {
        if self.api_ns == 0 || self.return_ns == 0 {
            return None;
        }
        u64::try_from(self.return_ns.checked_sub(self.api_ns)?).ok()
    }

    /// What is known of the first stream that waited for it.
    pub fn waited(&self) -> Option<Waited> {
        match self.waiter & waiter::KIND {
            waiter::TIMED => Some(Waited::For(i64::from(self.waited) * waiter::UNIT)),
            waiter::ENDED => Some(Waited::Ended),
            waiter::UNTIMED => Some(Waited::Untimed),
            _ => None,
        }
    }

    /// CUDA's id of that stream.
    pub fn waiting_stream(&self) -> Option<u32> {
        Some(self.waiter >> 2).filter(|id| *id != 0)
    }

    /// When that stream had nothing else to do, on the host's clock, ns since 1970.
    pub fn waited_from(&self) -> Option<i64> {
        let (_, stop) = self.gpu.on_host()?;
        match self.waited()? {
            Waited::For(ns) => stop.checked_sub(ns),
            _ => None,
        }
    }

    /// How long that stream stood still until the end of this call's launch, ns.
    pub fn exposed_ns(&self) -> Option<u64> {
        match self.waited()? {
            Waited::For(ns) => Some(u64::try_from(ns).unwrap_or(0)),
            Waited::Ended => Some(0),
            Waited::Untimed => None,
        }
    }

    /// Its stamps, if it has both, in order, and a host time to compare them with.
    pub(crate) fn stamped(&self) -> Option<(GpuTime, GpuTime)> {
        match self.gpu {
            GpuTimes::Stamps { start, stop } => {
                let is_whole = start != GpuTime(0) && stop >= start && self.gpu_seen_ns != 0;
                is_whole.then_some((start, stop))
            }
            _ => None,
        }
    }

    /// Time on the GPU, ns; or why there is none that can be believed. For [`Untimed::Fused`] see there.
    pub fn gpu_ns(&self, shape: &Shape) -> Result<u64, Untimed> {
        if shape.parts & (part::EVENTS | part::UNSAMPLED) != 0 {
            return self.between_events(shape);
        }
        if let GpuTimes::Length(ns) = self.gpu {
            return if shape.stops_early {
                Err(Untimed::EarlyStop)
            } else {
                Ok(ns)
            };
        }
        let (start, stop) = (self.gpu.start(), self.gpu.stop());
        if self.verdict & verdict::REPEATED != 0 {
            Err(Untimed::Repeated)
        } else if self.verdict & verdict::BACKWARDS != 0 {
            Err(Untimed::Backwards)
        } else if self.verdict & STALE != 0 {
            Err(Untimed::Stale)
        } else if self.verdict & DESYNCHRONISED != 0 {
            Err(Untimed::Desynchronised)
        } else if self.verdict & verdict::NEGATIVE != 0 || stop.is_some_and(|at| Some(at) < start) {
            Err(Untimed::Negative)
        } else if start.is_none() && self.channels_started == 0 {
            Err(Untimed::NoStamp)
        } else if self.channels_stopped < self.channels_started
            || stop.is_none()
            || (!self.sealed && self.channels_started < shape.nchannels.into())
        {
            Err(self.not_ended())
        } else if self.verdict & verdict::MISSING != 0 || start.is_none() {
            Err(Untimed::Missing)
        } else if shape.stops_early {
            Err(Untimed::EarlyStop)
        } else if self.verdict & verdict::FUSED != 0 {
            Err(Untimed::Fused)
        } else {
            self.gpu.length().ok_or(Untimed::Missing)
        }
    }
}

impl Call {
    /// Why there is no end, if that was all that was missing.
    fn not_ended(&self) -> Untimed {
        if self.sealed {
            Untimed::SealedEarly
        } else {
            Untimed::Unfinished
        }
    }

    /// As [`Call::gpu_ns`], where its launch was to be timed by CUDA events.
    fn between_events(&self, shape: &Shape) -> Result<u64, Untimed> {
        if shape.parts & part::UNSAMPLED != 0 {
            Err(Untimed::Unsampled)
        } else if self.verdict & STALE != 0 {
            Err(Untimed::Stale)
        } else {
            match self.gpu.length() {
                None if self.sealed => Err(Untimed::NoEvent),
                None => Err(Untimed::Unfinished),
                Some(_) if self.verdict & verdict::FUSED != 0 => Err(Untimed::Fused),
                Some(ns) => Ok(ns),
            }
        }
    }
}

/// Why a call has no GPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Untimed {
    /// NCCL delivered no stamp, and no CUDA events lie around its launch.
    NoStamp,
    /// Launched in one batch with others: the stamps are the batch's. An operation made of all calls of the
    /// batch has this time.
    Fused,
    /// A stamp of another call was delivered.
    Repeated,
    /// It overlaps a call of another launch on a channel.
    Backwards,
    /// It starts before its launch.
    Stale,
    /// Made after a call that puts NCCL's counters of stamps out of step, so whose stamps these are is not
    /// known.
    Desynchronised,
    /// It stops before it starts.
    Negative,
    /// Some channel's stamp was zero or missing.
    Missing,
    /// It had not ended when the recording did.
    Unfinished,
    /// Its row was sealed before its end was seen.
    SealedEarly,
    /// Counted in totals without a time.
    Rowless,
    /// Left out of the sample of launches that are timed.
    Unsampled,
    /// NCCL's stamp of its end comes too early: taken by a warp that does not wait for the others.
    EarlyStop,
    /// The CUDA events around its launch told no time: the process ended too soon, CUDA failed, or a clock
    /// stepped.
    NoEvent,
    /// Executed in a launch of a CUDA graph, which counts it and does not time it.
    InGraph,
}

impl Untimed {
    /// The word for it in reports.
    pub fn name(self) -> &'static str {
        match self {
            Untimed::NoStamp => "no_stamp",
            Untimed::Fused => "fused",
            Untimed::Repeated => "repeated",
            Untimed::Backwards => "backwards",
            Untimed::Stale => "stale",
            Untimed::Desynchronised => "desynchronised",
            Untimed::Negative => "negative",
            Untimed::Missing => "missing",
            Untimed::Unfinished => "unfinished",
            Untimed::SealedEarly => "sealed_early",
            Untimed::Rowless => "rowless",
            Untimed::Unsampled => "unsampled",
            Untimed::EarlyStop => "early_stop",
            Untimed::NoEvent => "no_event",
            Untimed::InGraph => "in_graph",
        }
    }
}

/// The bytes of an operation by the convention of nccl-tests; `None` when the size of the communicator is
/// needed and not known.
///
/// Below ABI v5, NCCL gives AllGather and Broadcast in bytes with datatype `ncclInt8`, which comes to the
/// same.
pub fn bytes(function: &str, datatype: &str, count: u64, nranks: Option<u32>) -> Option<u64> {
    // Another tool may not have told it, and what is not known is not zero.
    if datatype.is_empty() {
        return None;
    }
    let per_rank = count.saturating_mul(nccl_abi::names::datatype_size(datatype) as u64);
    match function {
        "AllGather" | "ReduceScatter" | "AlltoAll" | "Gather" | "Scatter" => {
            Some(per_rank.saturating_mul(nranks?.into()))
        }
        _ => Some(per_rank),
    }
}

/// A call where it stands.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct CallRef<'a> {
    pub capture: &'a Capture,
    pub process: &'a Process,
    pub index: usize,
    pub call: &'a Call,
    pub shape: &'a Shape,
    /// Number of the operation over all ranks, where calls were matched.
    pub operation: Option<u64>,
}

/// Functions with a root. NCCL gives the others one too: 0.
const ROOTED: [&str; 4] = ["Broadcast", "Reduce", "Gather", "Scatter"];

impl<'a> CallRef<'a> {
    /// The communicator of the capture that the call was made on.
    pub fn communicator(&self) -> Option<&'a Communicator> {
        let index = self.shape.communicator?;
        self.capture.communicators.get(index as usize)
    }

    fn is_rooted(&self) -> bool {
        let function = self.capture.names.get(self.shape.function);
        function.is_some_and(|function| ROOTED.contains(&function))
    }

    fn extra(&self) -> Option<&'a Extra> {
        self.process
            .extras
            .get((self.call.extra as usize).checked_sub(1)?)
    }

    /// What a file of another tool does not have stays 0 in its capture, and is not known.
    fn said(&self, number: u64) -> Value<'a> {
        if number == 0 && self.process.other_tool().is_some() {
            return Value::Null;
        }
        Value::Unsigned(number)
    }

    /// Files of other tools do not say this of a call. So that it was not so is not known.
    fn is(&self, it: bool) -> Value<'a> {
        if !it && self.process.other_tool().is_some() {
            return Value::Null;
        }
        Value::Bool(it)
    }

    fn count(&self) -> Value<'a> {
        if self.capture.names.get(self.shape.datatype).is_none() {
            return self.said(self.shape.count);
        }
        Value::Unsigned(self.shape.count)
    }

    fn name(&self, name: Name) -> Value<'a> {
        text(self.capture.names.get(name))
    }
}

fn time(value: i64) -> Value<'static> {
    moment((value != 0).then_some(value))
}

crate::columns! { CallRef:
    "process" "int" "" |r| Value::Unsigned(r.index as u64);
    "launcher_rank" "int" "" |r| known(r.process.rank);
    "host" "text" "" |r| Value::Text(&r.process.host);
    "pid" "int" "" |r| known(crate::pid::known(r.process.pid));
    "thread" "int" "" |r| known(r.shape.thread);
    "init_thread" "int" "" |r| known(r.shape.init_thread);
    "device" "int" "" |r| known(r.shape.device);
    "ticket" "int" "" |r| Value::Unsigned(r.call.ticket);
    "communicator" "text" "" |r| text(r.communicator().map(|c| c.id.as_str()));
    "communicator_name" "text" "" |r| text(r.communicator().and_then(|c| c.name.as_deref()));
    "nranks" "int" "" |r| known(r.shape.nranks);
    "rank" "int" "" |r| known(r.shape.rank);
    "function" "text" "" |r| r.name(r.shape.function);
    "operation" "text" ""
        |r| {
            let composite = r.process.composites.get((r.call.composite as usize).wrapping_sub(1));
            r.name(composite.map_or(r.shape.function, |c| c.function))
        };
    "operation_id" "int" "" |r| known(r.operation);
    "operation_part" "int" "" |r| less_one(r.call.composite);
    "datatype" "text" "" |r| r.name(r.shape.datatype);
    "count" "int" "elements" |r| r.count();
    "bytes" "int" "bytes" |r| known(r.capture.bytes(r.shape));
    "root" "int" "" |r| if r.is_rooted() { known(r.shape.root) } else { Value::Null };
    "peer" "int" "" |r| known(r.shape.peer);
    "stream" "uint" "" |r| nonzero(r.shape.stream);
    "group_id" "int" "" |r| less_one(r.call.group);
    "seq" "int" "" |r| less_one(r.call.seq);
    "algorithm" "text" "" |r| r.name(r.shape.algorithm);
    "protocol" "text" "" |r| r.name(r.shape.protocol);
    "variant" "text" "" |r| r.name(r.shape.variant);
    "nchannels" "int" ""
        |r| if r.shape.parts & part::ENQUEUED == 0 {
            Value::Null
        } else {
            r.said(r.shape.nchannels.into())
        };
    "nwarps" "int" "" |r| nonzero(r.shape.nwarps);
    "caller" "text" "" |r| r.name(r.shape.caller);
    "stack" "text" "" |r| r.name(r.shape.stack);
    "captured" "bool" "" |r| r.is(r.shape.is(flag::CAPTURED));
    "replay" "bool" "" |r| r.is(r.shape.is(flag::REPLAY));
    "template" "int" "" |r| less_one(r.call.template);
    "copy_engine" "bool" "" |r| r.is(r.shape.parts & part::COPY_ENGINE != 0);
    "symmetric_memory" "bool" "" |r| r.is(r.shape.parts & part::SYMMETRIC != 0);
    "launch_ambiguous" "bool" "" |r| r.is(r.shape.parts & part::LAUNCH_AMBIGUOUS != 0);
    "finished" "bool" "" |r| Value::Bool(r.process.has_finished(r.call));
    "api_ns" "time" "ns since 1970" |r| time(r.call.api_ns);
    "launch_start_ns" "time" "ns since 1970" |r| time(r.call.launch_start_ns);
    "launch_end_ns" "time" "ns since 1970" |r| time(r.call.launch_end_ns);
    "enqueue_ns" "time" "ns since 1970" |r| time(r.call.enqueue_ns);
    "return_ns" "time" "ns since 1970" |r| time(r.call.return_ns);
    "host_time_ns" "int" "ns" |r| known(r.call.host_ns());
    "gpu_start_ns" "time" "see gpu_error_ns" |r| known(r.call.gpu.start());
    "gpu_stop_ns" "time" "see gpu_error_ns" |r| known(r.call.gpu.stop());
    "gpu_error_ns" "int" "ns" |r| known(r.call.gpu.error());
    "gpu_time_ns" "int" "ns" |r| known(r.call.gpu_ns(r.shape).ok());
    "gpu_time_source" "text" ""
        |r| r.call.gpu.start().or(r.call.gpu.length())
            .map_or(Value::Null, |_| Value::Text(r.shape.time_source()));
    "gpu_seen_ns" "time" "ns since 1970" |r| time(r.call.gpu_seen_ns);
    "waiting_stream" "int" "" |r| known(r.call.waiting_stream());
    "waited_from_ns" "time" "see gpu_error_ns" |r| moment(r.call.waited_from());
    "exposed_ns" "int" "ns" |r| known(r.call.gpu_ns(r.shape).ok().and_then(|_| r.call.exposed_ns()));
    "untimed" "text" "" |r| r.call.gpu_ns(r.shape).map_or_else(|u| Value::Text(u.name()), |_| Value::Null);
    "late" "bool" "" |r| r.is(r.call.verdict & verdict::LATE != 0);
    "channels_started" "int" "" |r| r.said(r.call.channels_started.into());
    "channels_stopped" "int" "" |r| r.said(r.call.channels_stopped.into());
    "phase_sync_stop_ns" "time" "clock of gpu_start_ns" |r| nonzero(r.extra().map_or(0, |e| e.phase_stop[0]));
    "phase_compute_stop_ns" "time" "clock of gpu_start_ns"
        |r| nonzero(r.extra().map_or(0, |e| e.phase_stop[1]));
    "driver_waited_ns" "int" "ns, summed over threads" |r| nonzero(r.call.driver_waited_ns);
    "return_code" "int" "" |r| nonzero(r.extra().map_or(0, |e| e.error));
    "user_tag" "uint" "" |r| nonzero(r.extra().map_or(0, |e| e.user_tag));
    "send_buffer" "uint" "" |r| nonzero(r.extra().map_or(0, |e| e.send_buffer));
    "recv_buffer" "uint" "" |r| nonzero(r.extra().map_or(0, |e| e.recv_buffer));
    "net_ops_started" "int" "" |r| nonzero(r.extra().map_or(0, |e| e.ops_started));
    "net_ops_stopped" "int" "" |r| nonzero(r.extra().map_or(0, |e| e.ops_stopped));
    "net_steps" "int" "" |r| nonzero(r.extra().map_or(0, |e| e.steps));
    "net_bytes_sent" "int" "bytes" |r| nonzero(r.extra().map_or(0, |e| e.bytes_sent));
    "net_bytes_received" "int" "bytes" |r| nonzero(r.extra().map_or(0, |e| e.bytes_received));
    "wait_send_gpu_ns" "int" "ns, summed over steps" |r| nonzero(r.extra().map_or(0, |e| e.waits_ns[0]));
    "wait_send_peer_ns" "int" "ns, summed over steps" |r| nonzero(r.extra().map_or(0, |e| e.waits_ns[1]));
    "wait_send_network_ns" "int" "ns, summed over steps" |r| nonzero(r.extra().map_or(0, |e| e.waits_ns[2]));
    "wait_recv_network_ns" "int" "ns, summed over steps" |r| nonzero(r.extra().map_or(0, |e| e.waits_ns[3]));
    "wait_recv_flush_ns" "int" "ns, summed over steps" |r| nonzero(r.extra().map_or(0, |e| e.waits_ns[4]));
    "wait_recv_gpu_ns" "int" "ns, summed over steps" |r| nonzero(r.extra().map_or(0, |e| e.waits_ns[5]));
    "net_longest_ns" "int" "ns" |r| nonzero(r.extra().map_or(0, |e| e.longest_ns));
    "net_longest_peer" "int" "" |r| known(r.extra().and_then(|e| e.longest_peer.checked_sub(1)));
    "net_longest_state" "text" ""
        |r| text(r.extra().filter(|e| e.longest_ns != 0).map(|e| e.longest_state()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exposed_is_from_the_moment_of_a_stream_to_the_end() {
        let call = |kind, ns| Call {
            gpu: GpuTimes::OnHost {
                start: 1_000_000,
                stop: 5_000_000,
                error: 500,
            },
            waiter: waiter::word(7, kind),
            waited: waiter::units(ns),
            ..Call::default()
        };
        let timed = |ns| call(waiter::TIMED, ns);
        for (call, from, exposed) in [
            (timed(3_999_984), Some(1_000_016), Some(3_999_984)),
            (timed(4_000_016), Some(999_984), Some(4_000_016)),
            (timed(0), Some(5_000_000), Some(0)),
            (timed(-6_000_000), Some(11_000_000), Some(0)),
            (call(waiter::ENDED, 0), None, Some(0)),
            (call(waiter::UNTIMED, 0), None, None),
            (Call::default(), None, None),
        ] {
            assert_eq!((call.waited_from(), call.exposed_ns()), (from, exposed));
        }
        assert_eq!(timed(0).waiting_stream(), Some(7));
        assert_eq!(Call::default().waiting_stream(), None);
    }

    #[test]
    fn a_row_that_was_given_away_early_is_no_hang() {
        let shape = Shape::default();
        let mut call = Call {
            gpu: GpuTimes::stamps(5, 0),
            channels_started: 2,
            channels_stopped: 1,
            ..Call::default()
        };
        assert_eq!(call.gpu_ns(&shape), Err(Untimed::Unfinished));
        call.sealed = true;
        assert_eq!(call.gpu_ns(&shape), Err(Untimed::SealedEarly));
    }
}
