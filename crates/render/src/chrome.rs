//! A capture as Chrome Trace Event JSON, for Perfetto's and Chrome's viewers and HolisticTraceAnalysis.
//!
//! A process is one of the capture, by its number in [`Timeline`]; each communicator × stream in it has
//! threads for `host` and `GPU`, with a slice per call. Times are µs after `baseTimeNanoseconds` with three
//! decimals, so no digit is lost. Slices carry the columns of `docs/reference/tables.md` that are known,
//! under their names, and PyTorch Kineto's names for some of them. Flows join the calls of one operation over
//! ranks. The counters of the run over time have a process of their own.
//!
//! Rule: integers beyond 2^53 are decimal strings, because readers keep JSON numbers as doubles.
//!
//! HolisticTraceAnalysis takes a slice for one of a GPU if it has the argument `stream`. So only slices of
//! GPUs have it; on the host it is `cuda_stream`. It takes a slice for communication if its name contains
//! `ncclKernel`. So that is the name, and not the kernel's symbol.

use crate::timeline::{communicator, Placed, PlacedKernel, Slice, Span, Timeline, GPU_CLOCK};
use analyze::streams::kernels;
use analyze::Report;
use flate2::write::GzEncoder;
use flate2::Compression;
use serde_json::{json, Value as Json};
use std::io::{Result, Write};
use tables::calls::{CallRef, Value, COLUMNS};

mod events;

pub(crate) use events::make_exact;
pub use events::{write as write_events, write_gzip as write_events_gzip};

/// Integers up to this one are exact as doubles.
const EXACT: u64 = 1 << 53;

/// Columns of a call on the GPU; the host's slice has all.
const ON_GPU: &[&str] = &[
    "ticket",
    "communicator",
    "nranks",
    "rank",
    "operation",
    "datatype",
    "count",
    "bytes",
    "seq",
    "algorithm",
    "protocol",
    "nchannels",
    "replay",
    "gpu_start_ns",
    "gpu_stop_ns",
    "gpu_time_ns",
    "gpu_time_source",
    "gpu_seen_ns",
];

/// Writes the trace of all processes, or of the one with this index, and returns how many slices it has.
///
/// A trace of one process has `distributedInfo`, as HolisticTraceAnalysis expects of one file per rank, and
/// no flows, which would lead out of it.
///
/// # Errors
/// Those of `out`.
pub fn write(timeline: &Timeline<'_>, only: Option<usize>, out: &mut impl Write) -> Result<u64> {
    write_with(timeline, None, only, out)
}

/// As [`write`]; a trace of all processes has the counters of the run over time that `report` has.
///
/// # Errors
/// Those of `out`.
pub fn write_with(
    timeline: &Timeline<'_>,
    report: Option<&Report>,
    only: Option<usize>,
    out: &mut impl Write,
) -> Result<u64> {
    let capture = timeline.capture();
    let mut other = json!({"version": format!("ncclscope \
        {}", env!("CARGO_PKG_VERSION")), "gpu_clock": GPU_CLOCK});
    if let (Some(other), Some(clocks)) = (other.as_object_mut(), timeline.clocks()) {
        other.insert("host_clocks".to_owned(), clocks);
    }
    write!(
        out,
        "{{\"schemaVersion\":1,\"displayTimeUnit\":\"ns\",\"baseTimeNanoseconds\":{},\"otherData\":{}",
        timeline.base_ns,
        other,
    )?;
    if let Some(process) = only {
        let of = &capture.processes[process];
        let size = of.fact("world_size").and_then(|v| v.parse::<u32>().ok());
        // The space is part of it: HolisticTraceAnalysis finds the rank with the expression
        // `"rank":\s+(\d+)`.
        write!(
            out,
            ",\"distributedInfo\":{{\"backend\":\"nccl\",\"rank\": {},\"world_size\":{}}}",
            timeline.number(process),
            Json::from(size)
        )?;
    }
    write!(out, ",\"traceEvents\":[")?;
    let mut events = Events {
        out,
        timeline,
        flows: only.is_none(),
        first: true,
        slices: 0,
    };
    let is_shown = |process: usize| only.is_none_or(|only| only == process);
    for process in (0..capture.processes.len()).filter(|p| is_shown(*p)) {
        events.name_process(process)?;
    }
    for placed in timeline.calls().filter(|p| is_shown(p.row.index)) {
        events.call(&placed)?;
    }
    // HolisticTraceAnalysis would count what ran in windows together with calls, and take the rest for idle.
    if only.is_none() {
        for process in 0..capture.processes.len() {
            for placed in timeline.kernels(process) {
                events.kernel(&placed)?;
            }
        }
    }
    let over_time = report.and_then(|report| report.timeline.as_ref());
    if let Some(of) = over_time.filter(|_| only.is_none()) {
        events.counters(of)?;
    }
    let slices = events.slices;
    out.write_all(b"\n]}\n")?;
    Ok(slices)
}

/// As [`write`], compressed with gzip.
///
/// # Errors
/// Those of `out`.
pub fn write_gzip(timeline: &Timeline<'_>, only: Option<usize>, out: impl Write) -> Result<u64> {
    write_gzip_with(timeline, None, only, out)
}

/// As [`write_with`], compressed with gzip.
///
/// # Errors
/// Those of `out`.
pub fn write_gzip_with(
    timeline: &Timeline<'_>,
    report: Option<&Report>,
    only: Option<usize>,
    out: impl Write,
) -> Result<u64> {
    let mut out = GzEncoder::new(out, Compression::default());
    let slices = write_with(timeline, report, only, &mut out)?;
    out.finish()?;
    Ok(slices)
}

/// The thread of a track. Threads start at 1, as 0 is the idle thread to some viewers.
fn thread(track: usize) -> usize {
    track + 1
}

struct Events<'a, W> {
    out: &'a mut W,
    timeline: &'a Timeline<'a>,
    flows: bool,
    first: bool,
    slices: u64,
}

impl<W: Write> Events<'_, W> {
    /// Goes on to the next event, one a line.
    fn next(&mut self) -> Result<()> {
        let between: &[u8] = if self.first { b"\n" } else { b",\n" };
        self.first = false;
        self.out.write_all(between)
    }

    fn metadata(&mut self, what: &str, pid: u32, tid: usize, args: Json) -> Result<()> {
        self.next()?;
        let event = json!({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args});
        write!(self.out, "{event}")
    }

    fn name_process(&mut self, process: usize) -> Result<()> {
        let (timeline, pid) = (self.timeline, self.timeline.number(process));
        self.metadata(
            "process_name",
            pid,
            0,
            json!({"name": timeline.title(process)}),
        )?;
        self.metadata("process_sort_index", pid, 0, json!({"sort_index": pid}))?;
        let with_kernels = self.flows;
        let tracks = timeline.tracks(process).iter().enumerate();
        for (index, track) in tracks.filter(|(_, track)| with_kernels || !track.is_kernels) {
            let tid = thread(index);
            self.metadata("thread_name", pid, tid, json!({"name": track.title}))?;
            self.metadata("thread_sort_index", pid, tid, json!({"sort_index": tid}))?;
        }
        Ok(())
    }

    /// Writes the run over time as a process of its own, below the others.
    fn counters(&mut self, of: &analyze::timeline::Timeline) -> Result<()> {
        let processes = 0..self.timeline.capture().processes.len();
        let numbers = processes.map(|process| self.timeline.number(process));
        let pid = numbers.max().map_or(0, |most| most.saturating_add(1));
        self.metadata("process_name", pid, 0, json!({"name": "The run over time"}))?;
        self.metadata("process_sort_index", pid, 0, json!({"sort_index": pid}))?;
        for counter in crate::counters::of(of) {
            let name = Json::from(format!("{} ({})", counter.name, counter.unit));
            // The run over time begins before the first call, with the first communicator.
            let late_us = (self.timeline.base_ns - of.begin_ns) as f64 / 1e3;
            let is_in = |(us, _): &(f64, f64)| us + of.bucket_us > late_us;
            for (us, value) in counter.values().filter(is_in) {
                self.next()?;
                write!(
                    self.out,
                    "{{\"ph\":\"C\",\"pid\":{pid},\"name\":{name},\"ts\":"
                )?;
                let at = of.begin_ns.saturating_add((us * 1e3) as i64);
                self.at(at.max(self.timeline.base_ns))?;
                write!(self.out, ",\"args\":{{\"value\":{}}}}}", Json::from(value))?;
            }
        }
        Ok(())
    }

    fn call(&mut self, placed: &Placed<'_>) -> Result<()> {
        let row = &placed.row;
        let function = row.capture.names.get(row.shape.function).unwrap_or("?");
        if let Some(Slice { track, span }) = placed.host {
            let tid = thread(track);
            self.slice(placed, tid, span, "cpu_op", &format!("nccl{function}"))?;
            for column in COLUMNS {
                let name = match column.name {
                    "stream" => "cuda_stream",
                    name => name,
                };
                self.argument(name, (column.value)(row))?;
            }
            self.end_slice(row)?;
            if placed.gpu.is_none() {
                self.flow(placed, tid, span)?;
            }
        }
        if let Some((Slice { track, span }, offset)) = placed.gpu {
            let tid = thread(track);
            self.slice(
                placed,
                tid,
                span,
                "kernel",
                &format!("ncclKernel_{function}"),
            )?;
            for column in COLUMNS.iter().filter(|c| ON_GPU.contains(&c.name)) {
                self.argument(column.name, (column.value)(row))?;
            }
            self.argument("gpu_clock_offset_ns", Value::Signed(offset))?;
            // A small number of the track rather than the handle, which does not fit the reader's column.
            self.argument("stream", Value::Unsigned(tid as u64))?;
            self.end_slice(row)?;
            self.flow(placed, tid, span)?;
        }
        Ok(())
    }

    fn at(&mut self, ns: i64) -> Result<()> {
        let ns = ns - self.timeline.base_ns;
        write!(self.out, "{}.{:03}", ns / 1000, ns % 1000)
    }

    /// Opens a slice up to its arguments.
    fn slice(
        &mut self,
        placed: &Placed<'_>,
        tid: usize,
        span: Span,
        category: &str,
        name: &str,
    ) -> Result<()> {
        self.begin_slice(placed.row.index, tid, span, category, name)?;
        // Joins the two slices of a call to HolisticTraceAnalysis, which keeps -1 for none.
        write!(self.out, "\"correlation\":{}", placed.row.call.ticket)
    }

    fn begin_slice(
        &mut self,
        process: usize,
        tid: usize,
        span: Span,
        category: &str,
        name: &str,
    ) -> Result<()> {
        self.slices += 1;
        self.next()?;
        write!(self.out, "{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":")?;
        serde_json::to_writer(&mut *self.out, name)?;
        let pid = self.timeline.number(process);
        write!(self.out, ",\"pid\":{pid},\"tid\":{tid},\"ts\":")?;
        self.at(span.begin)?;
        let length = span.end - span.begin;
        write!(
            self.out,
            ",\"dur\":{}.{:03},\"args\":{{",
            length / 1000,
            length % 1000
        )
    }

    /// What ran in a window.
    fn kernel(&mut self, placed: &PlacedKernel<'_>) -> Result<()> {
        let Slice { track, span } = placed.slice;
        let category = match placed.row.ran.kind {
            capture::windows::ActivityKind::Kernel => "kernel",
            capture::windows::ActivityKind::Copy => "gpu_memcpy",
            capture::windows::ActivityKind::Fill => "gpu_memset",
        };
        let (process, tid) = (placed.row.index, thread(track));
        self.begin_slice(process, tid, span, category, placed.name())?;
        write!(self.out, "\"table\":\"kernels\"")?;
        for column in kernels::COLUMNS {
            self.argument(column.name, (column.value)(&placed.row))?;
        }
        self.out.write_all(b"}}")
    }

    /// Kineto's arguments, and the end.
    fn end_slice(&mut self, row: &CallRef<'_>) -> Result<()> {
        let names = &row.capture.names;
        if let Some(function) = names.get(row.shape.function) {
            self.argument("Collective name", Value::Text(&kineto_collective(function)))?;
            if let Some((sent, received)) = elements(row, function) {
                self.argument("In msg nelems", Value::Unsigned(sent))?;
                self.argument("Out msg nelems", Value::Unsigned(received))?;
            }
        }
        if let Some(nranks) = row.shape.nranks {
            self.argument("Group size", Value::Unsigned(nranks.into()))?;
        }
        if let Some(datatype) = names.get(row.shape.datatype) {
            self.argument("dtype", Value::Text(kineto_datatype(datatype)))?;
        }
        if let Some(name) = communicator(row.capture, row.shape) {
            self.argument("Process Group Name", Value::Text(name))?;
        }
        self.out.write_all(b"}}")
    }

    fn argument(&mut self, name: &str, value: Value<'_>) -> Result<()> {
        let out = &mut *self.out;
        match value {
            Value::Null => Ok(()),
            Value::Bool(value) => write!(out, ",\"{name}\":{value}"),
            Value::Unsigned(value) if value > EXACT => write!(out, ",\"{name}\":\"{value}\""),
            Value::Unsigned(value) => write!(out, ",\"{name}\":{value}"),
            Value::Signed(value) if value.unsigned_abs() > EXACT => {
                write!(out, ",\"{name}\":\"{value}\"")
            }
            Value::Signed(value) => write!(out, ",\"{name}\":{value}"),
            Value::Text(value) => {
                write!(out, ",\"{name}\":")?;
                Ok(serde_json::to_writer(out, value)?)
            }
        }
    }

    /// A flow goes by time, from the first call of the operation to the last.
    fn flow(&mut self, placed: &Placed<'_>, tid: usize, span: Span) -> Result<()> {
        let Some(part) = placed.part.filter(|_| self.flows) else {
            return Ok(());
        };
        let phase = match part {
            _ if part.first => "s",
            _ if part.last => "f",
            _ => "t",
        };
        self.next()?;
        let (pid, id) = (self.timeline.number(placed.row.index), part.operation);
        write!(
            self.out,
            "{{\"ph\":\"{phase}\",\"bp\":\"e\",\"cat\":\"operation\",\"name\":\"operation\",\"id\":{id},\
             \"pid\":{pid},\"tid\":{tid},\"ts\":"
        )?;
        self.at(span.begin)?;
        self.out.write_all(b"}")
    }
}

/// The function as `torch.distributed` calls it.
fn kineto_collective(function: &str) -> String {
    match function {
        "AllGather" => "_allgather_base".into(),
        "ReduceScatter" => "_reduce_scatter_base".into(),
        "AlltoAll" => "all_to_all".into(),
        other => other.to_lowercase(),
    }
}

/// Elements that a rank puts in and gets out; nothing where that is not known.
fn elements(row: &CallRef<'_>, function: &str) -> Option<(u64, u64)> {
    let count = row.shape.count;
    let all = || Some(count.saturating_mul(row.shape.nranks?.into()));
    Some(match function {
        "AllGather" | "Gather" => (count, all()?),
        "ReduceScatter" | "Scatter" => (all()?, count),
        "AlltoAll" => (all()?, all()?),
        _ => (count, count),
    })
}

/// The datatype as PyTorch calls it.
fn kineto_datatype(datatype: &str) -> &str {
    match datatype {
        "ncclInt8" => "Char",
        "ncclUint8" | "Unknown" => "Byte",
        "ncclInt32" => "Int",
        "ncclUint32" => "UInt32",
        "ncclInt64" => "Long",
        "ncclUint64" => "UInt64",
        "ncclFloat16" => "Half",
        "ncclFloat32" => "Float",
        "ncclFloat64" => "Double",
        "ncclBfloat16" => "BFloat16",
        "ncclFloat8e4m3" => "Float8_e4m3fn",
        "ncclFloat8e5m2" => "Float8_e5m2",
        other => other,
    }
}
