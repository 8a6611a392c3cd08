//! A capture as a Perfetto trace: a stream of protobuf packets with track events.
//!
//! Perfetto folds groups when it opens a file, and draws the slices of a track that has others under it. So
//! each communicator × stream of a process is a track with a slice for each call on the GPU, and under it the
//! host's. In a slice lie its waiting for the last rank and its transfer, where these are known. Steps,
//! findings and counters of the run over time come first, and kernels in windows are under the first track of
//! their process. Annotations are the columns of `docs/reference/tables.md` that are known. The calls of one
//! operation carry the same flow id. Names and texts are interned as they first appear.
//!
//! Only the messages and fields that are written are declared, with Perfetto's names and numbers.
//!
//! Rule: packets are written one by one; no more than one is in memory.

use crate::events::Events;
use crate::timeline::{Placed, Slice, Span, Timeline, GPU_CLOCK, KERNEL_CLOCK};
use analyze::findings::{Finding, Kind};
use analyze::streams::kernels;
use analyze::Report;
use flate2::write::GzEncoder;
use flate2::Compression;
use prost::Message;
use std::collections::HashMap;
use std::io::{Result, Write};
use tables::calls::{Value, COLUMNS};

mod events;

pub use events::write as write_events;

/// `TracePacket`.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct TracePacket {
    #[prost(message, optional, tag = "6")]
    pub clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
}

/// `ClockSnapshot`.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<Clock>,
}

/// `ClockSnapshot.Clock`.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct Clock {
    #[prost(uint32, optional, tag = "1")]
    pub clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub timestamp: Option<u64>,
}

/// `TrackDescriptor`.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
    #[prost(int32, optional, tag = "11")]
    pub child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    pub sibling_order_rank: Option<i32>,
    #[prost(string, optional, tag = "14")]
    pub description: Option<String>,
}

/// `CounterDescriptor`.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct CounterDescriptor {
    #[prost(string, optional, tag = "6")]
    pub unit_name: Option<String>,
}

/// `TrackEvent`.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    pub r#type: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    #[prost(string, repeated, tag = "22")]
    pub categories: Vec<String>,
    #[prost(double, optional, tag = "44")]
    pub double_counter_value: Option<f64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub terminating_flow_ids: Vec<u64>,
}

/// `DebugAnnotation`.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct DebugAnnotation {
    #[prost(uint64, optional, tag = "1")]
    pub name_iid: Option<u64>,
    #[prost(bool, optional, tag = "2")]
    pub bool_value: Option<bool>,
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    pub int_value: Option<i64>,
    #[prost(uint64, optional, tag = "17")]
    pub string_value_iid: Option<u64>,
}

/// `InternedData`.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct InternedData {
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<Interned>,
    #[prost(message, repeated, tag = "3")]
    pub debug_annotation_names: Vec<Interned>,
    #[prost(message, repeated, tag = "29")]
    pub debug_annotation_string_values: Vec<Interned>,
}

/// `EventName`, `DebugAnnotationName` and `InternedString`, which are alike on the wire.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct Interned {
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}

/// `TrackEvent.Type`.
const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;
/// `TracePacket.SequenceFlags`.
const SEQ_INCREMENTAL_STATE_CLEARED: u32 = 1;
const SEQ_NEEDS_INCREMENTAL_STATE: u32 = 2;
/// `TrackDescriptor.ChildTracksOrdering`.
const EXPLICIT: i32 = 3;
/// `BuiltinClock`.
const REALTIME: u32 = 1;
const BOOTTIME: u32 = 6;
/// All packets are of one sequence, so that they share the interned names.
const SEQUENCE: u32 = 1;

/// Writes the trace and returns how many slices of calls and kernels it has. Steps, findings and counters are
/// those of `report`, if there is one.
///
/// # Errors
/// Those of `out`.
pub fn write(
    timeline: &Timeline<'_>,
    report: Option<&Report>,
    out: &mut impl Write,
) -> Result<u64> {
    let capture = timeline.capture();
    let mut packets = Packets {
        out,
        bytes: Vec::new(),
        base_ns: 0,
    };
    let over_time = report.and_then(|report| Some((report, report.timeline.as_ref()?)));
    // Steps and counters may begin before the first slice.
    let begins = over_time.map_or(i64::MAX, |(_, of)| of.begin_ns);
    packets.begin(begins.min(timeline.base_ns))?;
    let mut first_track = Vec::new();
    let mut names = Interner::default();
    let mut uuid = match over_time {
        Some((report, over_time)) => packets.over_time(report, over_time, &mut names)?,
        None => 1,
    };
    for process in 0..capture.processes.len() {
        first_track.push(uuid);
        packets.process(timeline, process, uuid)?;
        uuid += timeline.tracks(process).len() as u64;
    }
    let mut columns = Interner::default();
    let mut texts = Interner::default();
    let mut slices = 0;
    for placed in timeline.calls() {
        let row = &placed.row;
        let name = placed.name();
        let sides = [placed.host, placed.gpu.map(|(slice, _)| slice)];
        for (side, slice) in sides.into_iter().enumerate() {
            let Some(Slice { track, span }) = slice else {
                continue;
            };
            let track = first_track[row.index] + track as u64;
            let is_gpu = side == 1;
            let mut annotations: Vec<DebugAnnotation> = COLUMNS
                .iter()
                .filter_map(|c| annotation(&mut columns, &mut texts, c.name, (c.value)(row)))
                .collect();
            let offset = placed.gpu.filter(|_| is_gpu).map(|(_, offset)| offset);
            annotations.extend(offset.and_then(|offset| {
                let value = Value::Signed(offset);
                annotation(&mut columns, &mut texts, "gpu_clock_offset_ns", value)
            }));
            // As in the Chrome export, the flow meets the call on the GPU if it is there.
            let part = placed.part.filter(|_| is_gpu || placed.gpu.is_none());
            let flow = |last| part.filter(|p| p.last == last).map(|p| p.operation);
            let begin = TrackEvent {
                debug_annotations: annotations,
                r#type: Some(SLICE_BEGIN),
                name_iid: Some(names.id(&name)),
                track_uuid: Some(track),
                flow_ids: flow(false).into_iter().collect(),
                terminating_flow_ids: flow(true).into_iter().collect(),
                ..TrackEvent::default()
            };
            let parts = parts(timeline, &placed, span, is_gpu, &mut names);
            let fresh = InternedData {
                event_names: std::mem::take(&mut names.fresh),
                debug_annotation_names: std::mem::take(&mut columns.fresh),
                debug_annotation_string_values: std::mem::take(&mut texts.fresh),
            };
            packets.slice(track, span, begin, fresh, &parts)?;
            slices += 1;
        }
    }
    for (process, first) in first_track.iter().enumerate() {
        for placed in timeline.kernels(process) {
            let Slice { track, span } = placed.slice;
            let track = first + track as u64;
            let annotations = kernels::COLUMNS.iter().filter_map(|c| {
                annotation(&mut columns, &mut texts, c.name, (c.value)(&placed.row))
            });
            let begin = TrackEvent {
                debug_annotations: annotations.collect(),
                r#type: Some(SLICE_BEGIN),
                name_iid: Some(names.id(placed.name())),
                track_uuid: Some(track),
                ..TrackEvent::default()
            };
            let fresh = InternedData {
                event_names: std::mem::take(&mut names.fresh),
                debug_annotation_names: std::mem::take(&mut columns.fresh),
                debug_annotation_string_values: std::mem::take(&mut texts.fresh),
            };
            packets.slice(track, span, begin, fresh, &[])?;
            slices += 1;
        }
    }
    Ok(slices)
}

/// As [`write`], compressed with gzip, which the viewer and trace_processor read as they are.
///
/// # Errors
/// Those of `out`.
pub fn write_gzip(
    timeline: &Timeline<'_>,
    report: Option<&Report>,
    out: impl Write,
) -> Result<u64> {
    let mut out = GzEncoder::new(out, Compression::default());
    let slices = write(timeline, report, &mut out)?;
    out.finish()?;
    Ok(slices)
}

/// As [`write_events`], compressed with gzip.
///
/// # Errors
/// Those of `out`.
pub fn write_events_gzip(events: &Events<'_>, out: impl Write) -> Result<u64> {
    let mut out = GzEncoder::new(out, Compression::default());
    let bars = write_events(events, &mut out)?;
    out.finish()?;
    Ok(bars)
}

/// What of a call's time on the GPU was waiting and what transfer, with the numbers of their names.
fn parts(
    timeline: &Timeline<'_>,
    placed: &Placed<'_>,
    span: Span,
    is_gpu: bool,
    names: &mut Interner,
) -> Vec<(Span, u64)> {
    let Some(waited) = placed.waited.filter(|_| is_gpu) else {
        return Vec::new();
    };
    let arrived = (span.end - waited.transfer).max(span.begin);
    let mut parts = Vec::new();
    if arrived > span.begin {
        let name = format!("waiting for {}", timeline.short_title(waited.last));
        let waiting = Span {
            begin: span.begin,
            end: arrived,
        };
        parts.push((waiting, names.id(&name)));
    }
    let transfer = Span {
        begin: arrived,
        end: span.end,
    };
    parts.push((transfer, names.id("transfer")));
    parts
}

fn packet() -> TracePacket {
    TracePacket {
        trusted_packet_sequence_id: Some(SEQUENCE),
        ..TracePacket::default()
    }
}

/// `at` is ns since 1970, until [`Packets::write`] counts it from the begin of the trace.
fn event(at: i64, event: TrackEvent) -> TracePacket {
    TracePacket {
        timestamp: Some(u64::try_from(at).unwrap_or(0)),
        track_event: Some(event),
        sequence_flags: Some(SEQ_NEEDS_INCREMENTAL_STATE),
        ..packet()
    }
}

/// An event with a name, and what the file does not have yet of it.
fn named(kind: i32, track: u64, name: &str, names: &mut Interner) -> (TrackEvent, InternedData) {
    let event = TrackEvent {
        r#type: Some(kind),
        name_iid: Some(names.id(name)),
        track_uuid: Some(track),
        ..TrackEvent::default()
    };
    let fresh = InternedData {
        event_names: std::mem::take(&mut names.fresh),
        ..InternedData::default()
    };
    (event, fresh)
}

/// When ranks died, and where ranks that are late held the others up most: µs of the timeline, and what to
/// say.
pub(crate) fn moments(report: &Report, of: &analyze::timeline::Timeline) -> Vec<(f64, String)> {
    let deaths = of.marks.iter().zip(&report.deaths);
    let deaths = deaths.map(|(mark, death)| (mark.at_us, crate::findings::died(death)));
    let late = of.late.iter().filter_map(|late| {
        let rank = Some(late.process.rank?);
        let is_of = |f: &&Finding| f.kind() == Kind::LateRank && f.rank() == rank;
        let finding = report.findings.iter().find(is_of)?;
        let most = late.held_up_us.iter().copied().fold(0.0, f64::max);
        let bucket = late.held_up_us.iter().position(|us| *us == most)?;
        Some((
            (bucket as f64 + 0.5) * of.bucket_us,
            crate::findings::sentence(finding),
        ))
    });
    deaths.chain(late).collect()
}

fn annotation(
    columns: &mut Interner,
    texts: &mut Interner,
    name: &str,
    value: Value<'_>,
) -> Option<DebugAnnotation> {
    let mut annotation = DebugAnnotation::default();
    match value {
        Value::Null => return None,
        Value::Bool(value) => annotation.bool_value = Some(value),
        Value::Unsigned(value) => annotation.uint_value = Some(value),
        Value::Signed(value) => annotation.int_value = Some(value),
        Value::Text(text) => annotation.string_value_iid = Some(texts.id(text)),
    }
    annotation.name_iid = Some(columns.id(name));
    Some(annotation)
}

/// Numbers for texts, and those that the file does not have yet.
#[derive(Default)]
struct Interner {
    ids: HashMap<String, u64>,
    fresh: Vec<Interned>,
}

impl Interner {
    fn id(&mut self, text: &str) -> u64 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = self.ids.len() as u64 + 1;
        self.ids.insert(text.to_owned(), id);
        self.fresh.push(Interned {
            iid: Some(id),
            name: Some(text.to_owned()),
        });
        id
    }
}

struct Packets<'a, W> {
    out: &'a mut W,
    bytes: Vec<u8>,
    /// Where the trace's own time is 0, ns since 1970.
    base_ns: u64,
}

impl<W: Write> Packets<'_, W> {
    /// A packet is field 1 of `Trace`, which is repeated and so may be written in pieces.
    fn write(&mut self, mut packet: TracePacket) -> Result<()> {
        self.bytes.clear();
        packet.timestamp = packet.timestamp.map(|at| at.saturating_sub(self.base_ns));
        prost::encoding::message::encode(1, &packet, &mut self.bytes);
        self.out.write_all(&self.bytes)
    }

    /// Writes what comes before all else: how the clocks stand, and the track that all others are under.
    fn begin(&mut self, base_ns: i64) -> Result<()> {
        // Perfetto's own clock is BOOTTIME, and its viewer shows that clock's time. So it counts from the
        // begin of the run, and the snapshot lets the viewer show the time of day, too.
        self.base_ns = u64::try_from(base_ns).unwrap_or(0);
        let clock = |id, at| Clock {
            clock_id: Some(id),
            timestamp: Some(at),
        };
        self.write(TracePacket {
            clock_snapshot: Some(ClockSnapshot {
                clocks: vec![clock(BOOTTIME, 0), clock(REALTIME, self.base_ns)],
            }),
            sequence_flags: Some(SEQ_INCREMENTAL_STATE_CLEARED),
            ..packet()
        })?;
        // Tracks are numbered through; 0 is what all of them are under.
        self.write(TracePacket {
            track_descriptor: Some(TrackDescriptor {
                uuid: Some(0),
                child_ordering: Some(EXPLICIT),
                ..TrackDescriptor::default()
            }),
            ..packet()
        })?;
        Ok(())
    }

    /// Writes the tracks of a process; the one with index i has the number `first + i`.
    fn process(&mut self, timeline: &Timeline<'_>, process: usize, first: u64) -> Result<()> {
        let tracks = timeline.tracks(process);
        let number = |index: usize| first + index as u64;
        // The first on the GPU is what stands for a communicator × stream, or else the first on the host.
        let root_of = |lane: Option<usize>| {
            let of_lane = || tracks.iter().enumerate().filter(|(_, t)| t.lane == lane);
            let on_gpu = of_lane().find(|(_, track)| track.is_gpu);
            on_gpu.or(of_lane().next()).map(|(index, _)| index)
        };
        let roots: Vec<Option<usize>> = tracks.iter().map(|track| root_of(track.lane)).collect();
        let is_bare = |index: usize| roots.iter().filter(|root| **root == Some(index)).count() == 1;
        let first_root = tracks.first().and_then(|track| root_of(track.lane));
        for (index, lane) in tracks.iter().enumerate() {
            // What has nothing under it would be hidden among others of its kind.
            let parent = match roots[index] {
                _ if lane.is_kernels => first_root,
                Some(root) if root != index => Some(root),
                _ if is_bare(index) => first_root,
                _ => None,
            };
            let parent = parent.filter(|parent| *parent != index);
            let who = timeline.short_title(process);
            let clock = if lane.is_kernels {
                KERNEL_CLOCK
            } else {
                GPU_CLOCK
            };
            let about = [Some(timeline.title(process)), timeline.clock(process)];
            let about = about.into_iter().flatten();
            let about = about.chain(lane.is_gpu.then(|| clock.to_owned()));
            self.write(TracePacket {
                track_descriptor: Some(TrackDescriptor {
                    uuid: Some(number(index)),
                    parent_uuid: parent.map(number),
                    name: Some(format!("{who}: {}", lane.title)),
                    child_ordering: Some(EXPLICIT),
                    sibling_order_rank: i32::try_from(number(index)).ok(),
                    description: Some(about.collect::<Vec<_>>().join("; ")),
                    ..TrackDescriptor::default()
                }),
                ..packet()
            })?;
        }
        Ok(())
    }

    fn slice(
        &mut self,
        track: u64,
        span: Span,
        begin: TrackEvent,
        fresh: InternedData,
        parts: &[(Span, u64)],
    ) -> Result<()> {
        let end = || TrackEvent {
            r#type: Some(SLICE_END),
            track_uuid: Some(track),
            ..TrackEvent::default()
        };
        self.write(TracePacket {
            interned_data: (fresh != InternedData::default()).then_some(fresh),
            ..event(span.begin, begin)
        })?;
        for (part, name) in parts {
            let begin = TrackEvent {
                r#type: Some(SLICE_BEGIN),
                name_iid: Some(*name),
                track_uuid: Some(track),
                ..TrackEvent::default()
            };
            self.write(event(part.begin, begin))?;
            self.write(event(part.end, end()))?;
        }
        self.write(event(span.end, end()))
    }

    /// Writes steps, findings and counters, on tracks that are numbered from 1. Returns the number of the
    /// next track.
    fn over_time(
        &mut self,
        report: &Report,
        of: &analyze::timeline::Timeline,
        names: &mut Interner,
    ) -> Result<u64> {
        let mut uuid = 0;
        let mut track =
            |packets: &mut Self, parent: Option<u64>, name: &str, unit: Option<&str>| {
                uuid += 1;
                let descriptor = TrackDescriptor {
                    uuid: Some(uuid),
                    parent_uuid: parent,
                    name: Some(name.to_owned()),
                    counter: unit.map(|unit| CounterDescriptor {
                        unit_name: Some(unit.to_owned()),
                    }),
                    child_ordering: Some(EXPLICIT),
                    sibling_order_rank: i32::try_from(uuid).ok(),
                    ..TrackDescriptor::default()
                };
                packets.write(TracePacket {
                    track_descriptor: Some(descriptor),
                    ..packet()
                })?;
                Ok::<u64, std::io::Error>(uuid)
            };
        let at = |us: f64| of.begin_ns.saturating_add((us * 1e3) as i64);
        let moments = moments(report, of);
        let title = match &of.steps {
            Some(steps) => steps
                .rank
                .map(|rank| format!("Steps of rank {rank}, and findings")),
            None => Some("Findings".to_owned()).filter(|_| !moments.is_empty()),
        };
        let first = match &title {
            Some(title) => Some(track(self, None, title, None)?),
            None => None,
        };
        if let Some((on, steps)) = first.zip(of.steps.as_ref()) {
            for (number, pair) in (0..).zip(steps.begins_us.windows(2)) {
                let first: u64 = number * steps.every + 1;
                let name = match steps.every {
                    1 => format!("step {first}"),
                    every => format!("steps {first} to {}", first + every - 1),
                };
                let span = Span {
                    begin: at(pair[0]),
                    end: at(pair[1]),
                };
                let (begin, fresh) = named(SLICE_BEGIN, on, &name, names);
                self.slice(on, span, begin, fresh, &[])?;
            }
        }
        for (on, (us, text)) in first
            .into_iter()
            .flat_map(|on| moments.iter().map(move |m| (on, m)))
        {
            let (instant, fresh) = named(INSTANT, on, text, names);
            self.write(TracePacket {
                interned_data: (fresh != InternedData::default()).then_some(fresh),
                ..event(at(*us), instant)
            })?;
        }
        // Rates have the steps above them; the first share has the others under it.
        let mut parents = [first, None];
        for counter in crate::counters::of(of) {
            let parent = &mut parents[usize::from(counter.is_share)];
            let on = track(self, *parent, counter.name, Some(counter.unit))?;
            *parent = parent.or(Some(on));
            for (us, value) in counter.values() {
                let value = TrackEvent {
                    r#type: Some(COUNTER),
                    track_uuid: Some(on),
                    double_counter_value: Some(value),
                    ..TrackEvent::default()
                };
                self.write(event(at(us), value))?;
            }
        }
        Ok(uuid + 1)
    }
}
