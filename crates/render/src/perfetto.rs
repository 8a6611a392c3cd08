//! A capture as a Perfetto trace: a stream of protobuf packets with track events.
//!
//! A process track is one process of the capture, by its number in [`Timeline`]; under it each communicator ×
//! stream has tracks for `host` and `GPU`, with a slice per call, and each stream of a GPU one for the
//! kernels in windows. Annotations are the columns of `docs/reference/tables.md` that are known. The calls of one
//! operation carry the same flow id. Names and texts are interned as they first appear.
//!
//! Only the messages and fields that are written are declared, with Perfetto's names and numbers.
//!
//! Rule: packets are written one by one; no more than one is in memory.

use crate::timeline::{Slice, Span, Timeline, GPU_CLOCK, KERNEL_CLOCK};
use analyze::streams::kernels;
use prost::Message;
use std::collections::HashMap;
use std::io::{Result, Write};
use tables::calls::{Value, COLUMNS};

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
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    #[prost(int32, optional, tag = "11")]
    pub child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    pub sibling_order_rank: Option<i32>,
    #[prost(string, optional, tag = "14")]
    pub description: Option<String>,
}

/// `ProcessDescriptor`.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
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

/// Writes the trace and returns how many slices it has.
///
/// # Errors
/// Those of `out`.
pub fn write(timeline: &Timeline<'_>, out: &mut impl Write) -> Result<u64> {
    let capture = timeline.capture();
    let mut packets = Packets {
        out,
        bytes: Vec::new(),
    };
    // Events are in CLOCK_REALTIME and Perfetto's own clock is BOOTTIME. That the two are one here lets its viewer show
    // the time of day.
    let base = u64::try_from(timeline.base_ns).unwrap_or(0);
    let clock = |id| Clock {
        clock_id: Some(id),
        timestamp: Some(base),
    };
    packets.write(&TracePacket {
        clock_snapshot: Some(ClockSnapshot {
            clocks: vec![clock(BOOTTIME), clock(REALTIME)],
        }),
        sequence_flags: Some(SEQ_INCREMENTAL_STATE_CLEARED),
        ..packet()
    })?;
    // Tracks are numbered through: first a process, then what it has.
    let mut first_track = Vec::new();
    let mut uuid = 1;
    for process in 0..capture.processes.len() {
        first_track.push(uuid);
        packets.process(timeline, process, uuid)?;
        uuid += 1 + timeline.tracks(process).len() as u64;
    }
    let mut names = Interner::default();
    let mut columns = Interner::default();
    let mut texts = Interner::default();
    let mut slices = 0;
    for placed in timeline.calls() {
        let row = &placed.row;
        let function = capture.names.get(row.shape.function).unwrap_or("?");
        let sides = [placed.host, placed.gpu.map(|(slice, _)| slice)];
        for (side, slice) in sides.into_iter().enumerate() {
            let Some(Slice { track, span }) = slice else {
                continue;
            };
            let track = first_track[row.index] + 1 + track as u64;
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
                name_iid: Some(names.id(function)),
                track_uuid: Some(track),
                flow_ids: flow(false).into_iter().collect(),
                terminating_flow_ids: flow(true).into_iter().collect(),
            };
            let fresh = InternedData {
                event_names: std::mem::take(&mut names.fresh),
                debug_annotation_names: std::mem::take(&mut columns.fresh),
                debug_annotation_string_values: std::mem::take(&mut texts.fresh),
            };
            packets.slice(track, span, begin, fresh)?;
            slices += 1;
        }
    }
    for (process, first) in first_track.iter().enumerate() {
        for placed in timeline.kernels(process) {
            let Slice { track, span } = placed.slice;
            let track = first + 1 + track as u64;
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
            packets.slice(track, span, begin, fresh)?;
            slices += 1;
        }
    }
    Ok(slices)
}

fn packet() -> TracePacket {
    TracePacket {
        trusted_packet_sequence_id: Some(SEQUENCE),
        ..TracePacket::default()
    }
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
}

impl<W: Write> Packets<'_, W> {
    /// A packet is field 1 of `Trace`, which is repeated and so may be written in pieces.
    fn write(&mut self, packet: &TracePacket) -> Result<()> {
        self.bytes.clear();
        prost::encoding::message::encode(1, packet, &mut self.bytes);
        self.out.write_all(&self.bytes)
    }

    fn process(&mut self, timeline: &Timeline<'_>, process: usize, uuid: u64) -> Result<()> {
        let number = i32::try_from(timeline.number(process)).unwrap_or(i32::MAX);
        let track = |descriptor| TracePacket {
            track_descriptor: Some(descriptor),
            ..packet()
        };
        self.write(&track(TrackDescriptor {
            uuid: Some(uuid),
            process: Some(ProcessDescriptor {
                pid: Some(number),
                process_name: Some(timeline.title(process)),
            }),
            child_ordering: Some(EXPLICIT),
            sibling_order_rank: Some(number),
            description: timeline.clock(process),
            ..TrackDescriptor::default()
        }))?;
        for (index, lane) in timeline.tracks(process).iter().enumerate() {
            self.write(&track(TrackDescriptor {
                uuid: Some(uuid + 1 + index as u64),
                parent_uuid: Some(uuid),
                name: Some(lane.title.clone()),
                sibling_order_rank: i32::try_from(index).ok(),
                description: lane.is_gpu.then(|| match lane.is_kernels {
                    true => KERNEL_CLOCK.to_owned(),
                    false => GPU_CLOCK.to_owned(),
                }),
                ..TrackDescriptor::default()
            }))?;
        }
        Ok(())
    }

    fn slice(
        &mut self,
        track: u64,
        span: Span,
        begin: TrackEvent,
        fresh: InternedData,
    ) -> Result<()> {
        let end = TrackEvent {
            r#type: Some(SLICE_END),
            track_uuid: Some(track),
            ..TrackEvent::default()
        };
        let event = |at: i64, event| TracePacket {
            timestamp: u64::try_from(at).ok(),
            track_event: Some(event),
            sequence_flags: Some(SEQ_NEEDS_INCREMENTAL_STATE),
            ..packet()
        };
        self.write(&TracePacket {
            interned_data: (fresh != InternedData::default()).then_some(fresh),
            ..event(span.begin, begin)
        })?;
        self.write(&event(span.end, end))
    }
}
