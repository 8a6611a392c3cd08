//! Every event of a capture as a Perfetto trace.
//!
//! Each process is a track, and its lanes ([`crate::events`]) are tracks under it; lanes with one name are
//! drawn as one. A bar is a slice of the category `event`, and a state an instant of the category `state`. A
//! flow leads from each parent to each of its children, and another one through the parts of an operation on
//! all ranks. What is known of an event are its annotations.
//!
//! Rule: packets of a track are in order, so that slices nest as they lie.

use super::{
    annotation, event, packet, InternedData, Interner, Packets, TracePacket, TrackDescriptor,
    TrackEvent, EXPLICIT, INSTANT, SLICE_BEGIN, SLICE_END,
};
use crate::events::{Bar, Events, Moment};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::io::{Result, Write};
use tables::calls::Value;

/// The ids of flows that are operations are below this one.
const LINKS: u64 = 1 << 40;

/// Writes the trace and returns how many bars it has.
///
/// # Errors
/// Those of `out`.
pub fn write(events: &Events<'_>, out: &mut impl Write) -> Result<u64> {
    let mut writer = Writer {
        packets: Packets {
            out,
            bytes: Vec::new(),
            base_ns: 0,
        },
        names: Interner::default(),
        columns: Interner::default(),
        texts: Interner::default(),
    };
    writer.packets.begin(events.base_ns)?;
    let first_lane = writer.tracks(events)?;
    let mut flows: Vec<Flows> = Vec::new();
    flows.resize_with(events.bars.len(), Flows::default);
    for (id, link) in (LINKS..).zip(events.links()) {
        flows[link.from].leaves.push(id);
        flows[link.to].ends.push(id);
    }
    for part in last_parts(events) {
        flows[part].is_last = true;
    }
    let mut of_lane: Vec<Vec<usize>> = vec![Vec::new(); events.lanes.len()];
    for (number, bar) in events.bars.iter().enumerate() {
        of_lane[bar.lane].push(number);
    }
    for (lane, bars) in of_lane.iter().enumerate() {
        writer.lane(events, first_lane + lane as u64, bars, &flows)?;
    }
    Ok(events.bars.len() as u64)
}

/// The flows that a bar is a part of.
#[derive(Default)]
struct Flows {
    leaves: Vec<u64>,
    ends: Vec<u64>,
    /// Whether no other part of its operation begins later.
    is_last: bool,
}

/// Of each operation, the bar that begins last.
fn last_parts(events: &Events<'_>) -> impl Iterator<Item = usize> {
    let mut last: BTreeMap<u64, (i64, usize)> = BTreeMap::new();
    for (number, bar) in events.bars.iter().enumerate() {
        if let Some(operation) = bar.operation {
            let this = (bar.span.begin, number);
            let last = last.entry(operation).or_insert(this);
            *last = this.max(*last);
        }
    }
    last.into_values().map(|(_, number)| number)
}

/// What happens on a lane, in order.
enum Step<'a> {
    Begin(usize),
    State(usize, &'a Moment),
    End(usize),
}

/// The bars of a lane as begins, states and ends, in order of time and of nesting.
fn steps<'a>(events: &'a Events<'_>, bars: &[usize]) -> Vec<(i64, Step<'a>)> {
    let mut order = bars.to_vec();
    let span = |number: usize| events.bars[number].span;
    order.sort_by_key(|n| (span(*n).begin, std::cmp::Reverse(span(*n).end), *n));
    let mut steps: Vec<(i64, Step<'_>)> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for number in order {
        while let Some(ended) = open.pop_if(|o| span(*o).end <= span(number).begin) {
            steps.push((span(ended).end, Step::End(ended)));
        }
        steps.push((span(number).begin, Step::Begin(number)));
        open.push(number);
    }
    while let Some(ended) = open.pop() {
        steps.push((span(ended).end, Step::End(ended)));
    }
    for number in bars {
        for state in &events.bars[*number].states {
            steps.push((state.at, Step::State(*number, state)));
        }
    }
    // Stable: begins and ends of equal time keep their order, and states come behind them.
    steps.sort_by_key(|(at, _)| *at);
    steps
}

struct Writer<'a, W> {
    packets: Packets<'a, W>,
    names: Interner,
    columns: Interner,
    texts: Interner,
}

impl<W: Write> Writer<'_, W> {
    /// Writes a track for each process and each lane. Gives the number of the first lane's.
    fn tracks(&mut self, events: &Events<'_>) -> Result<u64> {
        let capture = events.capture();
        let processes = capture.processes.len() as u64;
        let mut track = |uuid: u64, parent: Option<u64>, name: String| {
            self.packets.write(TracePacket {
                track_descriptor: Some(TrackDescriptor {
                    uuid: Some(uuid),
                    parent_uuid: parent,
                    name: Some(name),
                    child_ordering: Some(EXPLICIT),
                    sibling_order_rank: i32::try_from(uuid).ok(),
                    ..TrackDescriptor::default()
                }),
                ..packet()
            })
        };
        for (uuid, process) in (1..).zip(&capture.processes) {
            track(uuid, None, format!("{}, {}", process.host, process.title()))?;
        }
        let first = processes + 1;
        for (uuid, lane) in (first..).zip(&events.lanes) {
            track(uuid, Some(lane.process as u64 + 1), lane.title.clone())?;
        }
        Ok(first)
    }

    fn lane(
        &mut self,
        events: &Events<'_>,
        track: u64,
        bars: &[usize],
        flows: &[Flows],
    ) -> Result<()> {
        for (at, step) in steps(events, bars) {
            let written = match step {
                Step::Begin(number) => self.begin(events, &events.bars[number], &flows[number]),
                Step::State(number, state) => self.state(&events.bars[number], state),
                // One that was never stopped stays open.
                Step::End(number) if events.bars[number].stopped.is_none() => continue,
                Step::End(_) => TrackEvent {
                    r#type: Some(SLICE_END),
                    ..TrackEvent::default()
                },
            };
            let fresh = InternedData {
                event_names: std::mem::take(&mut self.names.fresh),
                debug_annotation_names: std::mem::take(&mut self.columns.fresh),
                debug_annotation_string_values: std::mem::take(&mut self.texts.fresh),
            };
            let written = TrackEvent {
                track_uuid: Some(track),
                ..written
            };
            self.packets.write(TracePacket {
                interned_data: (fresh != InternedData::default()).then_some(fresh),
                ..event(at, written)
            })?;
        }
        Ok(())
    }

    fn begin(&mut self, events: &Events<'_>, bar: &Bar, flows: &Flows) -> TrackEvent {
        let operation = |is_last: bool| bar.operation.filter(|_| flows.is_last == is_last);
        let mut annotated = self.annotated(&events.arguments(bar));
        annotated.r#type = Some(SLICE_BEGIN);
        annotated.categories = vec!["event".to_owned()];
        annotated.name_iid = Some(self.names.id(&events.name(bar)));
        annotated.flow_ids = flows
            .leaves
            .iter()
            .copied()
            .chain(operation(false))
            .collect();
        annotated.terminating_flow_ids =
            flows.ends.iter().copied().chain(operation(true)).collect();
        annotated
    }

    fn state(&mut self, bar: &Bar, state: &Moment) -> TrackEvent {
        let mut arguments = state.fields.clone();
        arguments.insert("event".to_owned(), bar.number.into());
        let mut annotated = self.annotated(&arguments);
        annotated.r#type = Some(INSTANT);
        annotated.categories = vec!["state".to_owned()];
        annotated.name_iid = Some(self.names.id(&state.name));
        annotated
    }

    fn annotated(&mut self, arguments: &Map<String, Json>) -> TrackEvent {
        let mut debug_annotations = Vec::new();
        for (name, value) in arguments {
            let value = match value {
                Json::Bool(value) => Value::Bool(*value),
                Json::String(text) => Value::Text(text),
                Json::Number(number) => match (number.as_u64(), number.as_i64()) {
                    (Some(value), _) => Value::Unsigned(value),
                    (None, Some(value)) => Value::Signed(value),
                    _ => continue,
                },
                _ => continue,
            };
            let columns = &mut self.columns;
            debug_annotations.extend(annotation(columns, &mut self.texts, name, value));
        }
        TrackEvent {
            debug_annotations,
            ..TrackEvent::default()
        }
    }
}
