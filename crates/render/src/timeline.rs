//! Where each call lies on a time line: what the Chrome and the Perfetto export have in common.
//!
//! A [`Timeline`] gives every process of a capture a number, every communicator × stream in it [`Track`]s,
//! and every call a [`Placed`]. That is an interval on the host from API entry to return, and one on the GPU
//! if the call has a GPU time. Viewers draw the slices of a track as a stack, so intervals that cross get
//! another track. On the host, one may lie in another (calls of a group). On the GPU none does, because it
//! would mean nothing there.
//!
//! GPU times that are on the host's clock stay as they are. Stamps that nothing placed there (of a replayed
//! job, or without launches) are in the clock of their GPU. NCCL's callback for a stop comes after the stop.
//! So the smallest `gpu_seen_ns - gpu_stop_ns` over the calls of a process on a device is the distance of the
//! clocks plus the smallest delay. They are moved by that. Their lengths and distances on one GPU are exact;
//! against the host they are late by that delay, and by what the clocks drift apart.
//!
//! Each host has a clock of its own. If the calls show how far these clocks are apart, or if that was given
//! ([`analyze::clocks`]), all times are moved onto the clock of one host. [`Timeline::clock`] says by how
//! much, and how wrong that may be.
//!
//! A [`Placed`] says for how long its rank waited and for whom ([`WaitInOperation`]). That is known if nobody
//! can leave the operation before its last rank has arrived, and every rank has a GPU time.
//!
//! Kernels of windows have tracks of their own, for each GPU and stream ([`Timeline::kernels`]).
//!
//! Rule: a call without any time is not placed, and [`Timeline::unplaced`] counts it.

use analyze::clocks::{ClockLine, Clocks, HostClock};
use analyze::streams::kernels;
use analyze::time::{HostTime, Nanos};
use std::collections::{BTreeMap, HashMap};
use tables::calls::{CallRef, Series};
use tables::{Call, Capture, GpuTimes, Process, Shape};

use naming::{size, titles};
use tracks::{lay, trim};

pub use naming::communicator;
pub(crate) use naming::purpose;

mod naming;
mod tracks;

/// Where GPU intervals lie, in words for the exported files.
pub const GPU_CLOCK: &str = "GPU intervals are on the host's clock, right to gpu_error_ns; where that is \
    missing they were moved by the smallest gpu_seen_ns - gpu_stop_ns of their process and GPU: lengths are \
    exact, positions late by the smallest delay of NCCL's callbacks";

/// Where kernels lie, in words for the exported files.
pub const KERNEL_CLOCK: &str =
    "what ran in kernel windows, by CUPTI's times on the host's clock; between windows nothing was recorded";

/// An interval in ns since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Begin.
    pub begin: i64,
    /// End, never before the begin.
    pub end: i64,
}

/// A line of slices in a process. One communicator × stream has them next to each other: the host's, then the
/// GPU's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// What its communicator is for, and its side; the stream if there are several.
    pub title: String,
    /// Number of its communicator × stream in the process; `None` of kernels.
    pub lane: Option<usize>,
    /// Whether its slices are on the GPU.
    pub is_gpu: bool,
    /// Whether these are the kernels of windows, and no calls.
    pub is_kernels: bool,
}

/// A call's interval on a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Index into [`Timeline::tracks`] of its process.
    pub track: usize,
    /// From when to when.
    pub span: Span,
}

/// The number of an operation of which the capture holds at least two calls, and where one of them stands in
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationPart {
    /// Number of the operation, from 1.
    pub operation: u64,
    /// Whether no other of its calls begins earlier.
    pub first: bool,
    /// Whether no other of its calls begins later.
    pub last: bool,
}

/// For how long a rank waited in an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitInOperation {
    /// From the arrival of the last rank to the end of its kernel, ns; before that it waited.
    pub transfer: i64,
    /// Index of the process that arrived last.
    pub last: usize,
}

/// A call on the time line.
pub struct Placed<'a> {
    /// The call.
    pub row: CallRef<'a>,
    /// From API entry to return. Where the API call is not known it begins with the enqueueing, and where the
    /// return is not known it ends with the launch.
    pub host: Option<Slice>,
    /// First start to last stop, in host time; and by how much it was moved.
    pub gpu: Option<(Slice, i64)>,
    /// Its part in an operation.
    pub part: Option<OperationPart>,
    /// What of its time on the GPU was waiting, where that is known.
    pub waited: Option<WaitInOperation>,
}

impl Placed<'_> {
    /// What it is called: function and size, as `AllReduce 25 MiB`.
    pub fn name(&self) -> String {
        let (capture, shape) = (self.row.capture, self.row.shape);
        let function = capture.names.get(shape.function).unwrap_or("?");
        match capture.bytes(shape) {
            Some(bytes) => format!("{function} {}", size(bytes)),
            None => function.to_owned(),
        }
    }
}

/// A kernel, copy or fill on the time line.
pub struct PlacedKernel<'a> {
    /// What ran.
    pub row: kernels::KernelRef<'a>,
    /// Where it lies.
    pub slice: Slice,
}

impl PlacedKernel<'_> {
    /// What it is called: the kernel's name, or what was done.
    pub fn name(&self) -> &str {
        match self.row.ran.kind {
            capture::windows::ActivityKind::Kernel if self.row.name.is_empty() => "kernel",
            capture::windows::ActivityKind::Kernel => self.row.name,
            capture::windows::ActivityKind::Copy => "copy",
            capture::windows::ActivityKind::Fill => "fill",
        }
    }
}

/// Orders the calls of an operation: by begin, then process, then ticket, so that no two are equal.
type Position = (i64, usize, u64);

/// NCCL counts operations by communicator and [series](Series), so this names one.
type Key = (u32, Series, u64);

struct Operation {
    number: u64,
    calls: u64,
    first: Position,
    last: Position,
    /// Those of its calls with a GPU time.
    timed: usize,
    /// The shortest of these, ns, and its process.
    shortest: (i64, usize),
}

/// One process on the time line.
struct Line {
    number: u32,
    tracks: Vec<Track>,
    /// First track on the host and on the GPU by shape.
    track_of: Vec<[usize; 2]>,
    /// How many tracks further calls are that cross others, by side and ticket.
    further: HashMap<(bool, u64), usize>,
    /// By ticket, where a call on the GPU begins that seemed to begin before the one before it had ended.
    trimmed: HashMap<u64, i64>,
    /// By device and stream: the first track of what ran there in windows.
    kernels: BTreeMap<(u32, u32), usize>,
    /// By number of what ran, how many tracks further it is because it crosses others.
    further_kernels: HashMap<u64, usize>,
    /// By shape, what moves stamps that are on the GPU's clock.
    offset_of: Vec<Option<i64>>,
    /// How its host's times are moved onto the clock of the first host.
    clock: ClockLine,
}

/// The calls of a capture on a time line.
pub struct Timeline<'a> {
    capture: &'a Capture,
    clocks: Option<&'a Clocks>,
    lines: Vec<Line>,
    operations: HashMap<Key, Operation>,
    /// The earliest begin, ns since 1970; 0 without calls.
    pub base_ns: i64,
    /// Calls without any time, which are not on it.
    pub unplaced: u64,
}

impl<'a> Timeline<'a> {
    /// The time line of a capture. `clocks` says how far the hosts' clocks are apart.
    pub fn new(capture: &'a Capture, clocks: Option<&'a Clocks>) -> Timeline<'a> {
        Timeline::made(capture, clocks, false)
    }

    /// The same for the eye: calls of one stream that overlap by no more than the errors of their times
    /// follow each other.
    pub fn trimmed(capture: &'a Capture, clocks: Option<&'a Clocks>) -> Timeline<'a> {
        Timeline::made(capture, clocks, true)
    }

    fn made(capture: &'a Capture, clocks: Option<&'a Clocks>, trims: bool) -> Timeline<'a> {
        let numbers = numbers(&capture.processes);
        let line = |(process, number): (&'a Process, u32)| {
            let clock = ClockLine::of(process.clock_host(), clocks);
            Line::new(capture, process, number, clock, trims)
        };
        let mut timeline = Timeline {
            capture,
            clocks,
            lines: capture.processes.iter().zip(numbers).map(line).collect(),
            operations: HashMap::new(),
            base_ns: 0,
            unplaced: 0,
        };
        let mut operations: HashMap<Key, Operation> = HashMap::new();
        let mut base = i64::MAX;
        for row in capture.rows() {
            let (host, gpu) = timeline.lines[row.index].spans(row.call, row.shape);
            let begins = host.into_iter().chain(gpu.map(|(span, _)| span));
            let Some(begin) = begins.map(|span| span.begin).min() else {
                timeline.unplaced += 1;
                continue;
            };
            base = base.min(begin);
            let (Some(key), Some(position)) = (key(&row), position(&row, host, gpu)) else {
                continue;
            };
            let number = operations.len() as u64 + 1;
            let operation = operations.entry(key).or_insert(Operation {
                number,
                calls: 0,
                first: position,
                last: position,
                timed: 0,
                shortest: (i64::MAX, 0),
            });
            if let Some((span, _)) = gpu {
                operation.timed += 1;
                let this = (span.end - span.begin, row.index);
                // Of equals the later rank counts as last, as in reports.
                if this.0 <= operation.shortest.0 {
                    operation.shortest = this;
                }
            }
            operation.calls += 1;
            operation.first = operation.first.min(position);
            operation.last = operation.last.max(position);
        }
        for (line, process) in timeline.lines.iter().zip(&capture.processes) {
            for ran in process.windows.list.iter().flat_map(|w| &w.ran) {
                let at = line.on_one_clock(Span {
                    begin: ran.start,
                    end: ran.start,
                });
                base = base.min(at.begin);
            }
        }
        operations.retain(|_, operation| operation.calls > 1);
        timeline.operations = operations;
        timeline.base_ns = if base == i64::MAX { 0 } else { base };
        timeline
    }

    /// The capture.
    pub fn capture(&self) -> &'a Capture {
        self.capture
    }

    /// How a process's times were moved onto the clock of another host, in words; nothing where they are on
    /// that clock, or there is one host.
    pub fn clock(&self, process: usize) -> Option<String> {
        let clocks = self.clocks?;
        let host = self.capture.processes[process].clock_host();
        if *host == clocks.reference {
            return None;
        }
        let row = clocks.hosts.iter().find(|row| row.host == *host);
        let Some((row, line)) = row.zip(clocks.lines.get(host)) else {
            return Some(format!(
                "times are on the clock of {host}: how that stands to the clock of {} is not known",
                clocks.reference
            ));
        };
        let rests = match row.source {
            Some("given") => "as it was given",
            Some("bounds") => "as operations bound it",
            _ => "assuming common ends",
        };
        let error = line.error.map_or("not known".to_owned(), |error| {
            format!("{:.1} us at most", error.us())
        });
        let false_if_given = if row.contradicted == Some(true) {
            "; operations contradict it"
        } else {
            ""
        };
        Some(format!(
            "times are moved from the clock of {host} onto that of {}, which is {:.1} us behind it at first, \
             {rests}; error {error}{false_if_given}",
            clocks.reference,
            line.first_offset().us(),
        ))
    }

    /// How wrong times of a process's host may be on the clock of the first host, ns: 0 on that host itself,
    /// `None` if it is not known.
    pub fn host_error_ns(&self, process: usize) -> Option<u32> {
        let Some(clocks) = self.clocks else {
            return Some(0);
        };
        let host = self.capture.processes[process].clock_host();
        if *host == clocks.reference {
            return Some(0);
        }
        let error = clocks.lines.get(host)?.error?;
        Some(u32::try_from(error.whole()).unwrap_or(u32::MAX))
    }

    /// A moment of a process's host on the clock of the first host.
    pub fn on_one_clock(&self, process: usize, ns: i64) -> i64 {
        let span = Span { begin: ns, end: ns };
        self.lines[process].on_one_clock(span).begin
    }

    /// By host, how its times were moved onto the clock of the first one; nothing for one host.
    pub fn clocks(&self) -> Option<serde_json::Value> {
        let clocks = self.clocks?;
        let host = |row: &HostClock| {
            let line = clocks.lines.get(&row.host);
            serde_json::json!({
                "host": row.host,
                "offset_us": line.map(|line| line.first_offset().us()),
                "error_us": line.and_then(|line| line.error).map(Nanos::us),
                "source": row.source,
                "contradicted": row.contradicted,
            })
        };
        let hosts: Vec<serde_json::Value> = clocks.hosts.iter().map(host).collect();
        Some(serde_json::json!({"reference": clocks.reference, "hosts": hosts}))
    }

    /// The process's number in the export: the launcher's rank. Processes without one, or with one that an
    /// earlier process has (a restart's), get the numbers after the highest rank.
    pub fn number(&self, process: usize) -> u32 {
        self.lines[process].number
    }

    /// How the process is called in other names.
    pub fn short_title(&self, process: usize) -> String {
        match self.capture.processes[process].rank {
            Some(rank) => format!("rank {rank}"),
            None => format!("process {}", self.number(process)),
        }
    }

    /// How the process is called there.
    pub fn title(&self, process: usize) -> String {
        let of = &self.capture.processes[process];
        let mut title = of.title();
        if of.rank.is_some() {
            title.push_str(&format!(", {} pid {}", of.host, tables::pid::shown(of.pid)));
        }
        if of.restart > 0 {
            title.push_str(&format!(", restart {}", of.restart));
        }
        title
    }

    /// The tracks of a process, by first use.
    pub fn tracks(&self, process: usize) -> &[Track] {
        &self.lines[process].tracks
    }

    /// What ran in a process's kernel windows.
    pub fn kernels(&self, process: usize) -> Vec<PlacedKernel<'a>> {
        let line = &self.lines[process];
        let rows = kernels::of_process(self.capture, process);
        let placed = (0u64..).zip(rows).map(|(number, row)| {
            let first = line.kernels.get(&(row.ran.device, row.ran.stream));
            let further = line.further_kernels.get(&number);
            let span = line.on_one_clock(Span {
                begin: row.ran.start,
                end: row.ran.end.max(row.ran.start),
            });
            let track = first.unwrap_or(&0) + further.unwrap_or(&0);
            PlacedKernel {
                row,
                slice: Slice { track, span },
            }
        });
        placed.collect()
    }

    /// The calls that have a time, process by process.
    pub fn calls(&self) -> impl Iterator<Item = Placed<'a>> + '_ {
        self.capture.rows().filter_map(|row| {
            let line = &self.lines[row.index];
            let (host, gpu) = line.spans(row.call, row.shape);
            if host.is_none() && gpu.is_none() {
                return None;
            }
            let operation = key(&row).and_then(|key| self.operations.get(&key));
            let part = operation.and_then(|operation| {
                let position = position(&row, host, gpu)?;
                Some(OperationPart {
                    operation: operation.number,
                    first: operation.first == position,
                    last: operation.last == position,
                })
            });
            Some(Placed {
                row,
                host: host.map(|span| line.slice(false, row.call, span)),
                gpu: gpu.map(|(span, offset)| {
                    let begin = line.trimmed.get(&row.call.ticket).copied();
                    let begin = begin.unwrap_or(span.begin);
                    let span = Span { begin, ..span };
                    (line.slice(true, row.call, span), offset)
                }),
                part,
                waited: operation.filter(|_| gpu.is_some()).and_then(|operation| {
                    let nranks = nranks(self.capture, row.shape)?;
                    let (shortest, last) = operation.shortest;
                    (operation.timed == nranks && waits_for_last(self.capture, row.shape))
                        .then_some(WaitInOperation {
                            transfer: shortest,
                            last,
                        })
                }),
            })
        })
    }
}

impl Line {
    fn new(
        capture: &Capture,
        process: &Process,
        number: u32,
        clock: ClockLine,
        trims: bool,
    ) -> Line {
        let device = |shape: &Shape| {
            let local = process.communicator(shape.uid);
            local.and_then(|l| l.device)
        };
        let devices: Vec<Option<u32>> = process.shapes.iter().map(device).collect();
        let mut offsets: HashMap<Option<u32>, i64> = HashMap::new();
        for call in &process.calls {
            let shape = call.shape as usize;
            let is_timed = call.gpu_ns(&process.shapes[shape]).is_ok();
            let GpuTimes::Stamps { stop, .. } = call.gpu else {
                continue;
            };
            if call.gpu_seen_ns == 0 || !is_timed {
                continue;
            }
            let offset = i128::from(call.gpu_seen_ns) - i128::from(stop.0);
            if let Ok(offset) = i64::try_from(offset) {
                let least = offsets.entry(devices[shape]).or_insert(offset);
                *least = offset.min(*least);
            }
        }
        let mut line = Line {
            number,
            tracks: Vec::new(),
            track_of: vec![[0; 2]; process.shapes.len()],
            further: HashMap::new(),
            trimmed: HashMap::new(),
            kernels: BTreeMap::new(),
            further_kernels: HashMap::new(),
            offset_of: devices.iter().map(|d| offsets.get(d).copied()).collect(),
            clock,
        };
        line.lay_tracks(capture, process, trims);
        line.lay_kernels(process);
        line
    }

    fn lay_kernels(&mut self, process: &Process) {
        let mut spans: BTreeMap<(u32, u32), Vec<(Span, u64)>> = BTreeMap::new();
        let ran = process.windows.list.iter().flat_map(|w| &w.ran);
        for (number, ran) in (0..).zip(ran) {
            let span = self.on_one_clock(Span {
                begin: ran.start,
                end: ran.end.max(ran.start),
            });
            let on = spans.entry((ran.device, ran.stream)).or_default();
            on.push((span, number));
        }
        for ((device, stream), spans) in spans {
            self.kernels.insert((device, stream), self.tracks.len());
            let further = &mut self.further_kernels;
            let count = lay(&spans, false, |number, track| {
                further.insert(number, track);
            });
            let title = format!("GPU {device} stream {stream}, kernels in windows");
            self.tracks.extend((1..=count).map(|n| Track {
                title: match n {
                    1 => title.clone(),
                    n => format!("{title} {n}"),
                },
                lane: None,
                is_gpu: true,
                is_kernels: true,
            }));
        }
    }

    fn lay_tracks(&mut self, capture: &Capture, process: &Process, trims: bool) {
        // Communicator × stream by shape, and the first shape of each.
        let mut lanes: HashMap<(u32, u64), usize> = HashMap::new();
        let mut shapes: Vec<&Shape> = Vec::new();
        let mut lane_of = Vec::with_capacity(process.shapes.len());
        for shape in &process.shapes {
            lane_of.push(*lanes.entry((shape.uid, shape.stream)).or_insert_with(|| {
                shapes.push(shape);
                shapes.len() - 1
            }));
        }
        let mut spans: Vec<[Vec<(Span, u64)>; 2]> = vec![Default::default(); shapes.len()];
        for call in &process.calls {
            let (host, gpu) = self.spans(call, &process.shapes[call.shape as usize]);
            let [on_host, on_gpu] = &mut spans[lane_of[call.shape as usize]];
            on_host.extend(host.map(|span| (span, call.ticket)));
            on_gpu.extend(gpu.map(|(span, _)| (span, call.ticket)));
        }
        let mut first = Vec::new();
        let error = |ticket: u64| {
            let of = process
                .calls
                .binary_search_by_key(&ticket, |call| call.ticket);
            of.map_or(0, |index| {
                i64::from(process.calls[index].gpu.error().unwrap_or(0))
            })
        };
        for (shape, [_, on_gpu]) in shapes.iter().zip(&mut spans) {
            // A stream runs one after the other, so what is left of an overlap is the error of the times.
            if trims && shape.stream != 0 {
                trim(on_gpu, error, &mut self.trimmed);
            }
        }
        let titles = titles(capture, &shapes);
        for (lane, (title, sides)) in titles.iter().zip(spans).enumerate() {
            let tracks = &mut self.tracks;
            let further = &mut self.further;
            first.push([false, true].map(|is_gpu| {
                let start = tracks.len();
                let count = lay(&sides[usize::from(is_gpu)], !is_gpu, |ticket, track| {
                    further.insert((is_gpu, ticket), track);
                });
                let side = if is_gpu { "GPU" } else { "host" };
                tracks.extend((1..=count).map(|n| Track {
                    title: match n {
                        1 => format!("{title}, {side}"),
                        n => format!("{title}, {side} {n}"),
                    },
                    lane: Some(lane),
                    is_gpu,
                    is_kernels: false,
                }));
                start
            }));
        }
        for (track, lane) in self.track_of.iter_mut().zip(lane_of) {
            *track = first[lane];
        }
    }

    fn spans(&self, call: &Call, shape: &Shape) -> (Option<Span>, Option<(Span, i64)>) {
        let gpu = || {
            call.gpu_ns(shape).ok()?;
            let (begin, end, offset) = match call.gpu {
                GpuTimes::None | GpuTimes::Length(_) => return None,
                GpuTimes::OnHost { start, stop, .. } => (start, stop, 0),
                GpuTimes::Stamps { start, stop } => {
                    let offset = self.offset_of[call.shape as usize]?;
                    (moved(start.0, offset)?, moved(stop.0, offset)?, offset)
                }
            };
            Some((self.on_one_clock(Span { begin, end }), offset))
        };
        (host(call).map(|span| self.on_one_clock(span)), gpu())
    }

    /// A span of this process's host on the clock of the first host.
    fn on_one_clock(&self, span: Span) -> Span {
        let on_one_clock = |at: i64| self.clock.on_reference(HostTime(at)).0;
        let begin = on_one_clock(span.begin);
        Span {
            begin,
            // A clock that was set back meanwhile.
            end: on_one_clock(span.end).max(begin),
        }
    }

    fn slice(&self, is_gpu: bool, call: &Call, span: Span) -> Slice {
        let first = self.track_of[call.shape as usize][usize::from(is_gpu)];
        let further = self.further.get(&(is_gpu, call.ticket));
        Slice {
            track: first + further.unwrap_or(&0),
            span,
        }
    }
}

/// Ranks of its communicator.
fn nranks(capture: &Capture, shape: &Shape) -> Option<usize> {
    let communicator = capture.communicators.get(shape.communicator? as usize)?;
    let known = communicator.nranks.map(|n| n as usize);
    Some(known.unwrap_or(communicator.members.len())).filter(|n| *n > 1)
}

/// Whether no rank can leave the operation before the last has arrived.
fn waits_for_last(capture: &Capture, shape: &Shape) -> bool {
    let function = capture.names.get(shape.function);
    function.is_some_and(analyze::arrivals::waits_for_last)
}

fn numbers(processes: &[Process]) -> Vec<u32> {
    let ranks = processes.iter().filter_map(|p| p.rank);
    let mut next = ranks.max().map_or(0, |r| r.saturating_add(1));
    let mut taken = std::collections::HashSet::new();
    let number = |process: &Process| match process.rank {
        Some(rank) if taken.insert(rank) => rank,
        _ => {
            next = next.saturating_add(1);
            next - 1
        }
    };
    processes.iter().map(number).collect()
}

fn host(call: &Call) -> Option<Span> {
    let known = |times: [i64; 3]| times.into_iter().find(|t| *t != 0);
    let begin = known([call.api_ns, call.enqueue_ns, call.launch_start_ns])?;
    let end = known([call.return_ns, call.launch_end_ns, call.enqueue_ns]);
    Some(Span {
        begin,
        end: end.unwrap_or(begin).max(begin),
    })
}

fn moved(stamp: u64, offset: i64) -> Option<i64> {
    i64::try_from(i128::from(stamp) + i128::from(offset)).ok()
}

/// Replays and captured calls share the sequence number of one call, so it does not name an operation.
fn key(row: &CallRef<'_>) -> Option<Key> {
    use capture::live::flag;
    if row.call.seq == 0 || row.shape.is(flag::REPLAY) || row.shape.is(flag::CAPTURED) {
        return None;
    }
    Some((row.shape.communicator?, row.shape.series(), row.call.seq))
}

/// Where the flow of an operation meets the call: on the GPU if it is there.
fn position(row: &CallRef<'_>, host: Option<Span>, gpu: Option<(Span, i64)>) -> Option<Position> {
    let span = gpu.map(|(span, _)| span).or(host)?;
    Some((span.begin, row.index, row.call.ticket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_seen_twice_gets_another_number() {
        let process = |rank| Process {
            rank,
            ..Process::default()
        };
        let processes = [Some(0), Some(3), Some(0), None].map(process);
        assert_eq!(numbers(&processes), [0, 3, 4, 5]);
    }
}
