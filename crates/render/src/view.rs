//! What the viewer draws: a heat map of waiting by rank and time, and the calls of a span.
//!
//! A [`View`] lays every call of a [`Timeline`] on a lane, one for each communicator × stream of a process,
//! and sums for each lane which share of a bin's time was waiting, and which was anything in NCCL. [`Level`]s
//! have half as many bins each, so a screen never needs more of them than it has pixels. Calls of a span are
//! handed out one by one if they are few enough.
//!
//! Rule: times go out as µs after [`View::base_ns`], and every figure is one of the capture's, or the
//! difference of two.

use crate::timeline::{Placed, Span, Timeline};
use analyze::Report;
use serde_json::{json, Value};
use std::collections::HashMap;
use tables::calls::{CallRef, Value as Cell, COLUMNS};

/// The page, its script and its style.
pub const PAGE: &str = include_str!("../html/view.html");
/// See there.
pub const SCRIPT: &str = include_str!("../html/view.js");
/// See there.
pub const STYLE: &str = include_str!("../html/view.css");

/// Bins of the finest level.
const BINS: usize = 4096;
/// Bins of the coarsest level.
const FEWEST: usize = 256;

/// A call on a lane.
struct Seen {
    span: Span,
    /// From the last rank's arrival on, ns; none where waiting is not known.
    transfer: Option<i64>,
    lane: u32,
    /// Whether it is on the GPU; else it is the API call.
    is_gpu: bool,
    /// The process, and the call's ticket there.
    call: (u32, u64),
    /// Index of what it is called.
    name: u32,
    /// Number of the operation, where several ranks' calls are one.
    operation: Option<u64>,
}

/// A lane.
struct Lane {
    title: String,
    process: usize,
    waited_ns: i64,
}

/// Shares by lane and bin, 0 to 255: waiting, and all of NCCL.
struct Level {
    width_ns: i64,
    bins: usize,
    shares: Vec<[u8; 2]>,
}

/// Everything that the viewer can ask for.
pub struct View<'a> {
    timeline: &'a Timeline<'a>,
    report: &'a Report,
    /// Begin of the first bin, ns since 1970.
    pub base_ns: i64,
    lanes: Vec<Lane>,
    names: Vec<String>,
    /// By begin.
    seen: Vec<Seen>,
    longest_ns: i64,
    /// By operation, indexes of its calls.
    operations: HashMap<u64, Vec<u32>>,
    /// Indexes of calls that waited, longest first.
    worst: Vec<u32>,
    /// The finest first.
    levels: Vec<Level>,
}

impl<'a> View<'a> {
    /// Lays out all calls.
    pub fn new(timeline: &'a Timeline<'a>, report: &'a Report) -> View<'a> {
        let mut lanes: Vec<Lane> = Vec::new();
        let mut known: HashMap<(usize, usize), u32> = HashMap::new();
        let mut names: Vec<String> = Vec::new();
        let mut name_of: HashMap<String, u32> = HashMap::new();
        let mut seen = Vec::new();
        for placed in timeline.calls() {
            let Some((track, span, is_gpu)) = slice(&placed) else {
                continue;
            };
            let process = placed.row.index;
            let of = &timeline.tracks(process)[track];
            let lane = *known
                .entry((process, of.lane.unwrap_or(0)))
                .or_insert_with(|| {
                    let role = of
                        .title
                        .rsplit_once(", ")
                        .map_or(&*of.title, |(role, _)| role);
                    lanes.push(Lane {
                        title: format!("{}: {role}", timeline.short_title(process)),
                        process,
                        waited_ns: 0,
                    });
                    lanes.len() as u32 - 1
                });
            let name = placed.name();
            let name = *name_of.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                names.len() as u32 - 1
            });
            let transfer = placed.waited.map(|w| w.transfer.min(span.end - span.begin));
            seen.push(Seen {
                span,
                transfer,
                lane,
                is_gpu,
                call: (process as u32, placed.row.call.ticket),
                name,
                operation: placed.part.map(|part| part.operation),
            });
        }
        // Lanes by rank, as they are numbered in exports.
        let mut order: Vec<u32> = (0..lanes.len() as u32).collect();
        order.sort_by_key(|lane| (timeline.number(lanes[*lane as usize].process), *lane));
        let mut place = vec![0u32; lanes.len()];
        for (at, lane) in (0..).zip(&order) {
            place[*lane as usize] = at;
        }
        let mut sorted: Vec<Option<Lane>> = lanes.into_iter().map(Some).collect();
        let mut lanes: Vec<Lane> = order
            .iter()
            .filter_map(|lane| sorted[*lane as usize].take())
            .collect();
        for call in &mut seen {
            call.lane = place[call.lane as usize];
            lanes[call.lane as usize].waited_ns += call.waited_ns();
        }
        seen.sort_by_key(|call| (call.span.begin, call.lane, call.call));
        let mut operations: HashMap<u64, Vec<u32>> = HashMap::new();
        for (index, call) in (0..).zip(&seen) {
            if let Some(operation) = call.operation {
                operations.entry(operation).or_default().push(index);
            }
        }
        let mut worst: Vec<u32> = (0..seen.len() as u32)
            .filter(|index| seen[*index as usize].waited_ns() > 0)
            .collect();
        worst.sort_by_key(|index| std::cmp::Reverse(seen[*index as usize].waited_ns()));
        worst.truncate(1000);
        let from = seen.first().map_or(0, |call| call.span.begin);
        let to = seen.iter().map(|call| call.span.end).max().unwrap_or(from);
        let mut view = View {
            timeline,
            report,
            base_ns: from,
            longest_ns: seen.iter().map(Seen::length_ns).max().unwrap_or(0),
            lanes,
            names,
            seen,
            operations,
            worst,
            levels: Vec::new(),
        };
        view.levels = view.pyramid(to - from);
        view
    }

    fn pyramid(&self, length_ns: i64) -> Vec<Level> {
        let width = length_ns / BINS as i64 + 1;
        let mut sums = vec![[0i64; 2]; self.lanes.len() * BINS];
        for call in &self.seen {
            let lane = &mut sums[call.lane as usize * BINS..][..BINS];
            let begin = call.span.begin - self.base_ns;
            let end = call.span.end - self.base_ns;
            let arrived = begin + call.waited_ns();
            for (kind, from, to) in [(0, begin, arrived), (1, begin, end)] {
                let mut at = from;
                while at < to {
                    let bin = (at / width).min(BINS as i64 - 1);
                    let until = ((bin + 1) * width).min(to);
                    lane[bin as usize][kind] += until - at;
                    at = until;
                }
            }
        }
        let share = |ns: i64| ((ns * 255 + width - 1) / width).clamp(0, 255) as u8;
        let finest = sums.iter().map(|[wait, all]| [share(*wait), share(*all)]);
        let mut levels = vec![Level {
            width_ns: width,
            bins: BINS,
            shares: finest.collect(),
        }];
        while levels[levels.len() - 1].bins > FEWEST {
            let finer = &levels[levels.len() - 1];
            let mean = |pair: &[[u8; 2]]| {
                [0, 1].map(|kind| {
                    let sum = pair
                        .iter()
                        .map(|shares| u16::from(shares[kind]))
                        .sum::<u16>();
                    sum.div_ceil(2) as u8
                })
            };
            let coarser = Level {
                width_ns: 2 * finer.width_ns,
                bins: finer.bins / 2,
                shares: finer.shares.chunks_exact(2).map(mean).collect(),
            };
            levels.push(coarser);
        }
        levels
    }

    fn us(&self, ns: i64) -> f64 {
        (ns - self.base_ns) as f64 / 1e3
    }

    /// What is known before anything is asked for: lanes, steps, findings.
    pub fn data(&self) -> Value {
        let capture = self.timeline.capture();
        let lane = |lane: &Lane| {
            let process = &capture.processes[lane.process];
            json!({
                "title": lane.title,
                "rank": process.rank,
                "host": process.host,
                "waited_us": lane.waited_ns as f64 / 1e3,
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
        let findings = over_time.map_or(Vec::new(), |of| {
            let moments = crate::perfetto::moments(self.report, of);
            let at = |(us, text): (f64, String)| json!({ "at_us": us - late_us, "text": text });
            moments.into_iter().map(at).collect()
        });
        json!({
            "capture": self.report.job.capture,
            "verdict": self.report.verdict,
            "length_us": self.levels[0].width_ns as f64 * BINS as f64 / 1e3,
            "base_ns": self.base_ns.to_string(),
            "calls": self.seen.len(),
            "unplaced": self.timeline.unplaced,
            "names": self.names,
            "lanes": self.lanes.iter().map(lane).collect::<Vec<_>>(),
            "steps": steps,
            "findings": findings,
        })
    }

    /// Shares of waiting and of NCCL by lane and bin, of the coarsest level with at least `bins` bins between
    /// two moments, µs.
    ///
    /// First begin and width of the bins in µs, as doubles, then numbers of bins and lanes, in 32 bits,
    /// little-endian; then for each lane and bin two bytes.
    pub fn heat(&self, from_us: f64, to_us: f64, bins: usize) -> Vec<u8> {
        let length = ((to_us - from_us).max(0.0) * 1e3) as i64;
        let enough = |level: &&Level| length / level.width_ns >= bins as i64;
        let level = self
            .levels
            .iter()
            .rev()
            .find(enough)
            .unwrap_or(&self.levels[0]);
        let bin =
            |us: f64| ((us * 1e3) as i64 / level.width_ns).clamp(0, level.bins as i64) as usize;
        let (first, last) = (bin(from_us), (bin(to_us) + 1).min(level.bins));
        let first = first.min(last);
        let begin = first as i64 * level.width_ns;
        let mut out = Vec::with_capacity(24 + 2 * self.lanes.len() * (last - first));
        out.extend((begin as f64 / 1e3).to_le_bytes());
        out.extend((level.width_ns as f64 / 1e3).to_le_bytes());
        out.extend(((last - first) as u32).to_le_bytes());
        out.extend((self.lanes.len() as u32).to_le_bytes());
        for lane in level.shares.chunks_exact(level.bins) {
            out.extend(lane[first..last].iter().flatten());
        }
        out
    }

    /// The calls between two moments, µs, if there are no more than `most`; else how many there are at least.
    pub fn calls(&self, from_us: f64, to_us: f64, most: usize) -> Value {
        let at = |us: f64| self.base_ns.saturating_add((us * 1e3) as i64);
        let (from, to) = (at(from_us), at(to_us));
        let first = from.saturating_sub(self.longest_ns);
        let first = self.seen.partition_point(|call| call.span.begin < first);
        let last = self.seen.partition_point(|call| call.span.begin <= to);
        let within = (first..last).filter(|index| self.seen[*index].span.end >= from);
        let found: Vec<usize> = within.take(most + 1).collect();
        if found.len() > most {
            return json!({ "too_many": true, "calls": [] });
        }
        let row = |index: &usize| {
            let call = &self.seen[*index];
            let transfer = call.transfer.map(|ns| ns as f64 / 1e3);
            json!([
                index,
                call.lane,
                self.us(call.span.begin),
                call.length_ns() as f64 / 1e3,
                transfer,
                call.name,
                call.is_gpu,
                call.operation,
            ])
        };
        json!({ "too_many": false, "calls": found.iter().map(row).collect::<Vec<_>>() })
    }

    /// A call with all that is known of it, and its operation on all ranks, in order of arrival.
    pub fn call(&self, index: usize) -> Option<Value> {
        let call = self.seen.get(index)?;
        let capture = self.timeline.capture();
        let process = call.call.0 as usize;
        let calls = &capture.processes[process].calls;
        let at = calls
            .binary_search_by_key(&call.call.1, |c| c.ticket)
            .ok()?;
        let of = &capture.processes[process];
        let row = CallRef {
            capture,
            process: of,
            index: process,
            call: &calls[at],
            shape: &of.shapes[calls[at].shape as usize],
            // The page's own number of the operation is beside the columns.
            operation: None,
        };
        let mut columns = serde_json::Map::new();
        for column in COLUMNS {
            let value = match (column.value)(&row) {
                Cell::Null => continue,
                Cell::Bool(value) => value.into(),
                // Numbers beyond 2^53 are no doubles.
                Cell::Unsigned(value) if value > 1 << 53 => value.to_string().into(),
                Cell::Unsigned(value) => value.into(),
                Cell::Signed(value) if value.unsigned_abs() > 1 << 53 => value.to_string().into(),
                Cell::Signed(value) => value.into(),
                Cell::Text(text) => text.into(),
            };
            columns.insert(column.name.to_owned(), value);
        }
        let alone = [index as u32];
        let all = call.operation.and_then(|o| self.operations.get(&o));
        let all = all.map_or(&alone[..], Vec::as_slice);
        let part = |index: &u32| {
            let part = &self.seen[*index as usize];
            json!({
                "call": index,
                "lane": part.lane,
                "begin_us": self.us(part.span.begin),
                "length_us": part.length_ns() as f64 / 1e3,
                "waited_us": part.transfer.map(|_| part.waited_ns() as f64 / 1e3),
                "is_gpu": part.is_gpu,
            })
        };
        // All ranks end together, so the longest came first.
        let mut parts: Vec<&u32> = all.iter().collect();
        parts.sort_by_key(|index| std::cmp::Reverse(self.seen[**index as usize].length_ns()));
        Some(json!({
            "call": index,
            "name": self.names[call.name as usize],
            "lane": call.lane,
            "begin_us": self.us(call.span.begin),
            "length_us": call.length_ns() as f64 / 1e3,
            "operation": call.operation,
            "ranks": parts.into_iter().map(part).collect::<Vec<_>>(),
            "columns": columns,
        }))
    }

    /// Another call: the next or the one before of the same kind on its lane, or the one that waited longest
    /// after it.
    pub fn other(&self, index: usize, which: &str) -> Option<usize> {
        if which == "worst" {
            let at = self.worst.iter().position(|worst| *worst as usize == index);
            let next = at.map_or(0, |at| (at + 1) % self.worst.len());
            return self.worst.get(next).map(|worst| *worst as usize);
        }
        let call = self.seen.get(index)?;
        let is_alike = |other: &usize| {
            let other = &self.seen[*other];
            (other.lane, other.name) == (call.lane, call.name)
        };
        match which {
            "next" => (index + 1..self.seen.len()).find(is_alike),
            "previous" => (0..index).rev().find(is_alike),
            _ => None,
        }
    }
}

impl Seen {
    fn length_ns(&self) -> i64 {
        self.span.end - self.span.begin
    }

    fn waited_ns(&self) -> i64 {
        self.transfer
            .map_or(0, |transfer| self.length_ns() - transfer)
    }
}

/// Where a call is drawn: on the GPU, or else at its API call.
fn slice(placed: &Placed<'_>) -> Option<(usize, Span, bool)> {
    let gpu = placed.gpu.map(|(slice, _)| (slice.track, slice.span, true));
    gpu.or(placed.host.map(|slice| (slice.track, slice.span, false)))
}
