//! The NCCL calls of one rank as events of Chrome's format, on the clock of another tool's trace.
//!
//! Each communicator × stream has a thread for the host's calls and one for the GPU. A kernel is two slices
//! if it is known when the last rank came: the wait for that rank, and the transfer. So both stand beside the
//! kernels and Python frames of the trace.
//!
//! Rule: events are appended to an array that has others, so each one begins with a comma.

use crate::timeline::{Placed, Slice, Span, Timeline};
use serde_json::{json, Value as Json};
use std::io::{Result, Write};

/// How the times of a capture become those of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnTrace {
    /// Added to a time of the capture, it is one of the trace, ns.
    pub offset_ns: i64,
    /// The trace's times count from here, ns since 1970.
    pub base_ns: i64,
    /// The number of the process that the events are in: no other of the trace.
    pub pid: u64,
    /// What the join is off by, ns.
    pub error_ns: i64,
}

/// Writes the calls of a process, and returns how many slices that are.
///
/// # Errors
/// Those of `out`.
pub fn write(
    timeline: &Timeline<'_>,
    process: usize,
    on: OnTrace,
    out: &mut dyn Write,
) -> Result<u64> {
    let mut metadata = |name: &str, tid: usize, args: Json| {
        let event = json!({"ph": "M", "name": name, "pid": on.pid, "tid": tid, "args": args});
        write!(out, ",\n{event}")
    };
    let title = format!("NCCL of {} (ncclscope)", timeline.title(process));
    metadata("process_name", 0, json!({"name": title}))?;
    // Above the tracks of GPUs, which torch.profiler sorts from 5 000 000 on.
    metadata("process_sort_index", 0, json!({"sort_index": 4_000_000}))?;
    for (index, track) in timeline.tracks(process).iter().enumerate() {
        if !track.is_kernels {
            metadata("thread_name", index + 1, json!({"name": track.title}))?;
        }
    }
    let mut slices = 0;
    for placed in timeline
        .calls()
        .filter(|placed| placed.row.index == process)
    {
        for (slice, name, waits) in slices_of(&placed, timeline) {
            let args = args(&placed, waits, timeline, on);
            let ts = slice.span.begin + on.offset_ns - on.base_ns;
            let dur = slice.span.end - slice.span.begin;
            let event = json!({
                "ph": "X", "cat": if waits { "nccl_wait" } else { "nccl" }, "name": name, "pid": on.pid,
                "tid": slice.track + 1, "ts": ts as f64 / 1e3, "dur": dur as f64 / 1e3, "args": args,
            });
            write!(out, ",\n{event}")?;
            slices += 1;
        }
    }
    Ok(slices)
}

/// The slices of a call: on the host, and on the GPU the wait and the rest.
fn slices_of(placed: &Placed<'_>, timeline: &Timeline<'_>) -> Vec<(Slice, String, bool)> {
    let mut all: Vec<(Slice, String, bool)> = Vec::new();
    all.extend(placed.host.map(|slice| (slice, placed.name(), false)));
    let Some((slice, _)) = placed.gpu else {
        return all;
    };
    let Span { begin, end } = slice.span;
    let waited = placed
        .waited
        .filter(|waited| waited.last != placed.row.index);
    let came = waited.map(|waited| (end - waited.transfer).clamp(begin, end));
    match waited.zip(came).filter(|(_, came)| *came > begin) {
        Some((waited, came)) => {
            let part = |begin, end| Slice {
                span: Span { begin, end },
                ..slice
            };
            let last = timeline.short_title(waited.last);
            all.push((part(begin, came), format!("waits for {last}"), true));
            all.push((part(came, end), placed.name(), false));
        }
        None => all.push((slice, placed.name(), false)),
    }
    all
}

fn args(placed: &Placed<'_>, waits: bool, timeline: &Timeline<'_>, on: OnTrace) -> Json {
    let row = &placed.row;
    let bytes = row.capture.bytes(row.shape);
    let waited = placed.waited.filter(|_| waits);
    json!({
        "bytes": bytes, "seq": row.call.seq.checked_sub(1), "join_error_us": on.error_ns as f64 / 1e3,
        "waits_for": waited.map(|waited| timeline.title(waited.last)),
    })
}
