//! What the viewer draws: a heat map of waiting by rank and time, and the calls of a span.
//!
//! A [`View`] lays every call of a [`Timeline`] on a lane. There is a lane for each communicator × stream of
//! a process. What ran in kernel windows has lanes of its own. It sums for each lane which share of a bin's
//! time was waiting, transfer, or anything else ([`pyramid`]). Each level has half as many bins as the one
//! before, so a screen never needs more of them than it has pixels. Questions of the page are answered by
//! [`answers`], and [`embedded`] puts as much of the answers into one file as fits.
//!
//! The page puts lanes together to rows: by communicator, stream, thread or rank.
//!
//! Rule: times go out as µs after [`View::base_ns`], and every figure is one of the capture's, or the
//! difference of two.

use crate::events::Events;
use crate::picture::Picture;
use crate::timeline::{Placed, PlacedKernel, Span, Timeline};
use analyze::rank_time::Part;
use analyze::Report;
use call_events::CallEvents;
use ends::End;
use nccl_abi::event;
use pyramid::Level;
use serde_json::{json, Value};
use std::collections::{BTreeSet, HashMap};

mod answers;
mod call_events;
pub mod embedded;
mod ends;
mod kernel_waits;
mod parts;
mod path;
mod pins;
mod pyramid;
mod waits;

/// The page that `ncclscope view` serves.
pub const PAGE: &str = include_str!("../html/view.html");
/// The style of that page, around the viewer.
pub const PAGE_STYLE: &str = concat!(
    include_str!("../html/palette.css"),
    include_str!("../html/view.css")
);
/// The viewer's script: the modules in `html/viewer`, as one.
pub const SCRIPT: &str = include_str!(concat!(env!("OUT_DIR"), "/viewer.js"));
/// The viewer's style.
pub const STYLE: &str = include_str!("../html/viewer.css");

/// What is known of the time of something on a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SliceKind {
    /// A call with a time on the GPU.
    Timed,
    /// A call without one: its API call is drawn.
    Untimed,
    /// A call that was not finished when the recording ended.
    Open,
    /// A kernel, copy or fill of a window that computes.
    Computes,
    /// A kernel of a window that communicates.
    Communicates,
    /// An event that NCCL told the profiler of.
    Event,
    /// A state of such an event: from when it was told until the next.
    State,
}

impl SliceKind {
    fn name(self) -> &'static str {
        match self {
            SliceKind::Timed => "gpu",
            SliceKind::Untimed => "host",
            SliceKind::Open => "open",
            SliceKind::Computes => "kernel",
            SliceKind::Communicates => "nccl_kernel",
            SliceKind::Event => "event",
            SliceKind::State => "state",
        }
    }

    fn is_kernel(self) -> bool {
        matches!(self, SliceKind::Computes | SliceKind::Communicates)
    }

    fn is_event(self) -> bool {
        matches!(self, SliceKind::Event | SliceKind::State)
    }

    fn is_call(self) -> bool {
        !self.is_kernel() && !self.is_event()
    }
}

/// What has no such time or number.
const NONE: i64 = -1;

/// A call or kernel on a lane.
struct Slice {
    span: Span,
    /// From the last rank's arrival on, ns; [`NONE`] where waiting is not known.
    transfer: i64,
    /// One of three numbers: the call's ticket in its process, the number of what ran in windows, or the
    /// index of an event's bar. For a state of an event, its place among the event's states + 1 is above bit
    /// 40.
    number: u64,
    process: u32,
    lane: u32,
    /// Index of what it is called.
    name: u32,
    /// Number of the operation, where several ranks' calls are one, else 0.
    operation: u32,
    /// How wrong its begin and its end may be, ns; 0 is not known.
    error: u32,
    kind: SliceKind,
}

impl Slice {
    fn length_ns(&self) -> i64 {
        self.span.end - self.span.begin
    }

    fn waited_ns(&self) -> i64 {
        match self.transfer {
            NONE => 0,
            transfer => self.length_ns() - transfer,
        }
    }
}

/// A lane.
#[derive(Default)]
struct Lane {
    process: usize,
    /// What its communicator is for; which stream the kernels are of.
    role: String,
    stream: u64,
    thread: Option<u32>,
    is_kernels: bool,
    is_events: bool,
    /// How deep its events lie in others, and their types.
    depth: u32,
    types: BTreeSet<&'static str>,
    waited_ns: i64,
    longest_ns: i64,
    /// Its calls in [`View::by_lane`].
    calls: std::ops::Range<usize>,
}

/// Everything that the viewer can ask for.
pub struct View<'a> {
    timeline: &'a Timeline<'a>,
    report: &'a Report,
    /// Begin of the first bin, ns since 1970: of the first call, or where a rank died before it.
    pub base_ns: i64,
    length_ns: i64,
    lanes: Vec<Lane>,
    names: Vec<String>,
    /// What ran in windows, by process.
    kernels: Vec<Vec<PlacedKernel<'a>>>,
    /// Every event, if they were recorded.
    events: Option<CallEvents<'a>>,
    /// Indexes in [`View::seen`] of events, by bar.
    event_at: Vec<u32>,
    /// By begin.
    seen: Vec<Slice>,
    /// Indexes of these, by lane and begin.
    by_lane: Vec<u32>,
    /// Indexes of calls that are part of an operation, by operation and begin.
    by_operation: Vec<u32>,
    /// Indexes of calls that waited, longest first: those that the first finding is about, if it is about
    /// waiting.
    worst: Vec<u32>,
    /// One typical step, if one was recorded whole.
    typical: Option<Span>,
    /// The longest wait in it.
    typical_wait: Option<Span>,
    /// By process, where its recording ended before the run did.
    ends: Vec<Option<End>>,
    /// The finest first.
    levels: Vec<Level>,
}

/// Lanes, names and what lies on lanes, while calls are laid out.
#[derive(Default)]
struct Laying {
    lanes: Vec<Lane>,
    /// By process: communicator × stream and thread of calls, or stream and device of kernels.
    known: HashMap<(usize, bool, usize, Option<u32>), u32>,
    names: Vec<String>,
    name_of: HashMap<String, u32>,
    /// By process and shape of a call.
    name_of_shape: HashMap<(usize, u32), u32>,
    seen: Vec<Slice>,
    /// By process and ticket of a call, the time from the last rank's arrival on, ns.
    transfers: HashMap<(usize, u64), i64>,
}

impl Laying {
    fn events(&mut self, events: &Events<'_>) {
        let depths = events.depths();
        let mut types: Vec<Vec<BTreeSet<&'static str>>> = vec![Vec::new(); events.lanes.len()];
        for (bar, depth) in events.bars.iter().zip(&depths) {
            let of_lane = &mut types[bar.lane];
            of_lane.resize(of_lane.len().max(depth + 1), BTreeSet::new());
            of_lane[*depth].extend(event::name(bar.kind));
        }
        // Where the lanes of each line of events begin: a lane for each depth.
        let mut first = Vec::new();
        for (lane, types) in events.lanes.iter().zip(types) {
            first.push(self.lanes.len());
            self.lanes
                .extend((0u32..).zip(types).map(|(depth, types)| Lane {
                    process: lane.process,
                    role: match lane.further {
                        0 => lane.role.clone(),
                        further => format!("{} ({})", lane.role, further + 1),
                    },
                    is_events: true,
                    depth,
                    types,
                    ..Lane::default()
                }));
        }
        for ((number, bar), depth) in (0u64..).zip(&events.bars).zip(depths) {
            let of_bar = |span: Span, name: u32, number: u64, kind: SliceKind| Slice {
                span,
                transfer: NONE,
                number,
                process: bar.process as u32,
                lane: (first[bar.lane] + depth) as u32,
                name,
                operation: 0,
                error: 0,
                kind,
            };
            let name = self.name(&events.name(bar));
            self.seen
                .push(of_bar(bar.span, name, number, SliceKind::Event));
            for (place, state) in (1u64..).zip(&bar.states) {
                // A state lasts until the next one.
                let next = bar.states.get(place as usize).map(|next| next.at);
                let at = Span {
                    begin: state.at,
                    end: next.unwrap_or(bar.span.end).max(state.at),
                };
                let name = self.name(&state.name);
                let number = number | place << BAR_BITS;
                self.seen.push(of_bar(at, name, number, SliceKind::State));
            }
        }
    }

    fn name(&mut self, name: &str) -> u32 {
        if let Some(known) = self.name_of.get(name) {
            return *known;
        }
        let index = self.names.len() as u32;
        self.name_of.insert(name.to_owned(), index);
        self.names.push(name.to_owned());
        index
    }

    fn call(&mut self, timeline: &Timeline<'_>, placed: &Placed<'_>, ends: &[i64]) {
        let (row, process) = (&placed.row, placed.row.index);
        let gpu = placed.gpu.map(|(slice, _)| slice);
        let Some(slice) = gpu.or(placed.host) else {
            return;
        };
        let track = &timeline.tracks(process)[slice.track];
        let lanes = &mut self.lanes;
        let key = (process, false, track.lane.unwrap_or(0), row.shape.thread);
        let lane = *self.known.entry(key).or_insert_with(|| {
            let role = track.title.rsplit_once(", ");
            lanes.push(Lane {
                process,
                role: role.map_or(&*track.title, |(role, _)| role).to_owned(),
                stream: row.shape.stream,
                thread: row.shape.thread,
                ..Lane::default()
            });
            lanes.len() as u32 - 1
        });
        let mut span = slice.span;
        let kind = match gpu {
            Some(_) => SliceKind::Timed,
            None if row.process.has_finished(row.call) => SliceKind::Untimed,
            None => {
                span.end = span.end.max(ends[process]);
                SliceKind::Open
            }
        };
        let transfer = placed.waited.map(|w| w.transfer.min(span.end - span.begin));
        if let Some(transfer) = transfer {
            self.transfers.insert((process, row.call.ticket), transfer);
        }
        let shape = (process, row.call.shape);
        let name = self.name_of_shape.get(&shape).copied();
        let name = name.unwrap_or_else(|| {
            let name = self.name(&placed.name());
            self.name_of_shape.insert(shape, name);
            name
        });
        let own = row.call.gpu.error().filter(|_| gpu.is_some());
        let between = timeline.host_error_ns(process);
        self.seen.push(Slice {
            span,
            transfer: transfer.unwrap_or(NONE),
            number: row.call.ticket,
            process: process as u32,
            lane,
            name,
            operation: placed.part.map_or(0, |part| part.operation as u32),
            error: own
                .zip(between)
                .map_or(0, |(own, of)| own.saturating_add(of)),
            kind,
        });
    }

    /// A lane for each process that has none: it died before its first call, or its trace is not here.
    fn without_calls(&mut self, processes: usize) {
        let has_lane: BTreeSet<usize> = self.lanes.iter().map(|lane| lane.process).collect();
        let without = (0..processes).filter(|process| !has_lane.contains(process));
        self.lanes.extend(without.map(|process| Lane {
            process,
            role: "no call is here".to_owned(),
            ..Lane::default()
        }));
    }

    fn kernels(&mut self, process: usize, of: &[PlacedKernel<'_>], transfers: &[i64]) {
        for ((number, placed), transfer) in (0..).zip(of).zip(transfers) {
            let lanes = &mut self.lanes;
            let ran = placed.row.ran;
            let key = (process, true, ran.stream as usize, Some(ran.device));
            let lane = *self.known.entry(key).or_insert_with(|| {
                lanes.push(Lane {
                    process,
                    role: format!("kernels, stream {}", ran.stream),
                    stream: ran.stream.into(),
                    is_kernels: true,
                    ..Lane::default()
                });
                lanes.len() as u32 - 1
            });
            let kind = if placed.row.communicates() {
                SliceKind::Communicates
            } else {
                SliceKind::Computes
            };
            let name = self.name(placed.name());
            self.seen.push(Slice {
                span: placed.slice.span,
                transfer: *transfer,
                number,
                process: process as u32,
                lane,
                name,
                operation: 0,
                error: 0,
                kind,
            });
        }
    }
}

/// Of a number of an event, the bits that are the bar's.
const BAR_BITS: u32 = 40;

impl<'a> View<'a> {
    /// The calls on one time line.
    pub fn timeline(&self) -> &'a Timeline<'a> {
        self.timeline
    }

    /// Lays out all calls.
    pub fn new(timeline: &'a Timeline<'a>, report: &'a Report) -> View<'a> {
        View::with_events(timeline, report, None)
    }

    /// The same, with lanes of events.
    pub fn with_events(
        timeline: &'a Timeline<'a>,
        report: &'a Report,
        events: Option<&'a Events<'a>>,
    ) -> View<'a> {
        let open_until = ends::of_open(timeline, report);
        let mut laying = Laying::default();
        for placed in timeline.calls() {
            laying.call(timeline, &placed, &open_until);
        }
        let processes = 0..timeline.capture().processes.len();
        let kernels: Vec<Vec<_>> = processes.map(|process| timeline.kernels(process)).collect();
        let transfers = kernel_waits::of(timeline, &kernels, &laying.transfers);
        for (process, (of, transfers)) in kernels.iter().zip(&transfers).enumerate() {
            laying.kernels(process, of, transfers);
        }
        laying.without_calls(timeline.capture().processes.len());
        let of_calls = laying.seen.iter().map(|call| call.span);
        let base_ns = of_calls.clone().map(|span| span.begin).min().unwrap_or(0);
        let end_ns = of_calls.map(|span| span.end).max().unwrap_or(base_ns);
        let ends = ends::marks(timeline, report, end_ns);
        let marks = || ends.iter().flatten().map(|end| end.at);
        let base_ns = marks().fold(base_ns, i64::min);
        let end_ns = marks().fold(end_ns, i64::max);
        if let Some(events) = events {
            laying.events(events);
        }
        let Laying {
            lanes,
            names,
            mut seen,
            ..
        } = laying;
        let (mut lanes, place) = by_rank(timeline, lanes);
        for call in &mut seen {
            call.lane = place[call.lane as usize];
            let lane = &mut lanes[call.lane as usize];
            lane.waited_ns += call.waited_ns();
            lane.longest_ns = lane.longest_ns.max(call.length_ns());
        }
        seen.sort_unstable_by_key(|call| (call.span.begin, call.lane, call.number));
        let mut event_at = vec![0u32; events.map_or(0, |events| events.bars.len())];
        for (index, seen) in (0u32..).zip(&seen) {
            if seen.kind == SliceKind::Event {
                event_at[seen.number as usize] = index;
            }
        }
        let indexes = 0..seen.len() as u32;
        let mut by_lane: Vec<u32> = indexes.clone().collect();
        by_lane.sort_by_key(|index| seen[*index as usize].lane);
        let mut from = 0;
        for (number, lane) in (0u32..).zip(&mut lanes) {
            let calls = by_lane[from..].partition_point(|i| seen[*i as usize].lane == number);
            lane.calls = from..from + calls;
            from += calls;
        }
        let is_part = |index: &u32| seen[*index as usize].operation != 0;
        let mut by_operation: Vec<u32> = indexes.filter(is_part).collect();
        by_operation.sort_by_key(|index| seen[*index as usize].operation);
        let picture = Picture::of(report, Some(timeline));
        let typical = picture.typical_step();
        let wait = typical.and_then(|step| {
            let waiter = &step.lanes[0];
            Some((waiter.process, waiter.longest(Part::Waiting)?))
        });
        let worst = waits::worst(timeline, report, &seen, &by_operation, wait);
        let mut view = View {
            timeline,
            report,
            base_ns,
            length_ns: end_ns - base_ns,
            lanes,
            names,
            kernels,
            events: events.map(CallEvents::new),
            event_at,
            seen,
            by_lane,
            by_operation,
            worst,
            typical: typical.map(|step| step.span),
            typical_wait: wait.map(|(_, span)| span),
            ends,
            levels: Vec::new(),
        };
        view.levels = pyramid::of(&view);
        view
    }

    /// How many calls and kernels are on lanes.
    pub fn calls_in_all(&self) -> usize {
        self.seen
            .iter()
            .filter(|seen| !seen.kind.is_event())
            .count()
    }

    /// From when to when a typical step is, µs; `None` if no step was recorded whole.
    pub fn typical_us(&self) -> Option<(f64, f64)> {
        let span = self.typical?;
        Some((self.us(span.begin), self.us(span.end)))
    }

    fn us(&self, ns: i64) -> f64 {
        (ns - self.base_ns) as f64 / 1e3
    }

    /// What is known before anything is asked for: lanes, steps, findings, critical path.
    pub fn data(&self) -> Value {
        let capture = self.timeline.capture();
        let ended = |lane: &Lane| {
            let end = self.ends[lane.process].as_ref()?;
            Some(json!({ "at_us": self.us(end.at), "text": end.text }))
        };
        let lane = |lane: &Lane| {
            let process = &capture.processes[lane.process];
            json!({
                "who": self.timeline.short_title(lane.process),
                "role": lane.role,
                "rank": process.rank,
                "host": process.host,
                "stream": (lane.stream != 0).then(|| format!("{:#x}", lane.stream)),
                "thread": lane.thread,
                "kernels": lane.is_kernels,
                "events": lane.is_events,
                "depth": lane.depth,
                "types": lane.types,
                "waited_us": lane.waited_ns as f64 / 1e3,
                "ended": ended(lane),
            })
        };
        let over_time = self.report.timeline.as_ref();
        // The timeline begins earlier: with the first communicator.
        let late_us = over_time.map_or(0.0, |of| (self.base_ns - of.begin_ns) as f64 / 1e3);
        let steps = over_time.and_then(|of| of.steps.as_ref());
        let steps = steps.map(|steps| {
            let begins: Vec<f64> = steps.begins_us.iter().map(|us| us - late_us).collect();
            json!({ "rank": steps.rank, "every": steps.every, "begins_us": begins })
        });
        json!({
            "capture": self.report.job.capture,
            "verdict": crate::verdict::sentence(self.report),
            "length_us": self.levels[0].width_ns as f64 * self.levels[0].bins as f64 / 1e3,
            "base_ns": self.base_ns.to_string(),
            "calls": self.calls_in_all(),
            "unplaced": self.timeline.unplaced,
            "names": self.names,
            "lanes": self.lanes.iter().map(lane).collect::<Vec<_>>(),
            "steps": steps,
            "typical": self.typical_us().map(|(from, to)| json!({"from_us": from, "to_us": to})),
            "findings": pins::of(self),
            "waits": self.worst.len(),
            "path": path::of(self),
            "start_up": path::of_start_up(self.report),
        })
    }
}

/// Lanes by rank, as these are numbered in exports, and the new place of each.
fn by_rank(timeline: &Timeline<'_>, lanes: Vec<Lane>) -> (Vec<Lane>, Vec<u32>) {
    let mut order: Vec<(u32, Lane)> = (0..).zip(lanes).collect();
    order.sort_by_key(|(was, lane)| {
        let number = timeline.number(lane.process);
        (number, lane.is_events, lane.is_kernels, *was)
    });
    let mut place = vec![0u32; order.len()];
    for (at, (was, _)) in (0..).zip(&order) {
        place[*was as usize] = at;
    }
    (order.into_iter().map(|(_, lane)| lane).collect(), place)
}
