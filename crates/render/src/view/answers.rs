//! What the page asks for while it is moved: bins of a span, its calls, and all that is known of a call.

use super::parts;
use super::pyramid::Level;
use super::{Slice, SliceKind, View, BAR_BITS, NONE};
use analyze::bandwidth::Bandwidth;
use nccl_abi::event;
use serde_json::{json, Map, Value};
use tables::calls::{CallRef, Value as Cell, COLUMNS};

/// Cells of one answer, at most: 36 MiB.
const MOST_CELLS: usize = 12 << 20;
/// Of an operation of more ranks, only the first and the last to arrive are listed.
const MOST_RANKS: usize = 200;
/// Of an event with more children, the first are listed.
const MOST_CHILDREN: usize = 40;
/// The event of a call begins within so many ns of it.
const LATE_NS: i64 = 1_000_000_000;
/// So many of the first.
const FIRST_RANKS: usize = 20;

impl View<'_> {
    /// Shares by lane and bin, of the coarsest level with at least `bins` bins between two moments, µs; of a
    /// coarser one where that would be too much at once.
    ///
    /// First begin and width of the bins in µs, as doubles, then numbers of bins and lanes, in 32 bits,
    /// little-endian; then for each lane and bin three bytes.
    pub fn heat(&self, lanes: &[u32], from_us: f64, to_us: f64, bins: usize) -> Vec<u8> {
        let cut = |level: &Level| {
            let bin = |us: f64| (us * 1e3) as i64 / level.width_ns;
            let last = (bin(to_us) + 1).clamp(0, level.bins as i64) as usize;
            (bin(from_us).clamp(0, last as i64) as usize, last)
        };
        let length = ((to_us - from_us).max(0.0) * 1e3) as i64;
        let enough = |level: &&Level| length / level.width_ns >= bins as i64;
        let best = self.levels.iter().rposition(|level| enough(&level));
        let fits = |level: &&Level| {
            let (first, last) = cut(level);
            (last - first) * lanes.len() <= MOST_CELLS
        };
        let coarsest = &self.levels[self.levels.len() - 1];
        let level = self.levels[best.unwrap_or(0)..].iter().find(fits);
        let level = level.unwrap_or(coarsest);
        let (first, last) = cut(level);
        let begin = first as i64 * level.width_ns;
        let lanes: Vec<usize> = lanes
            .iter()
            .map(|lane| *lane as usize)
            .filter(|lane| *lane < self.lanes.len())
            .collect();
        let mut out = Vec::with_capacity(24 + 3 * lanes.len() * (last - first));
        out.extend((begin as f64 / 1e3).to_le_bytes());
        out.extend((level.width_ns as f64 / 1e3).to_le_bytes());
        out.extend(((last - first) as u32).to_le_bytes());
        out.extend((lanes.len() as u32).to_le_bytes());
        for lane in lanes {
            let of_lane = &level.cells[lane * level.bins..][..level.bins];
            out.extend(of_lane[first..last].as_flattened());
        }
        out
    }

    /// The calls on lanes between two moments, µs, if there are no more than `most`.
    pub fn calls(&self, lanes: &[u32], from_us: f64, to_us: f64, most: usize) -> Value {
        let at = |us: f64| self.base_ns.saturating_add((us * 1e3) as i64);
        let (from, to) = (at(from_us), at(to_us));
        let mut found: Vec<u32> = Vec::new();
        for lane in lanes
            .iter()
            .filter_map(|lane| self.lanes.get(*lane as usize))
        {
            let of_lane = &self.by_lane[lane.calls.clone()];
            let begin = |index: &u32| self.seen[*index as usize].span.begin;
            let earliest = from.saturating_sub(lane.longest_ns);
            let first = of_lane.partition_point(|index| begin(index) < earliest);
            for index in &of_lane[first..] {
                if begin(index) > to {
                    break;
                }
                if self.seen[*index as usize].span.end >= from {
                    found.push(*index);
                }
                if found.len() > most {
                    return json!({ "too_many": true, "calls": [] });
                }
            }
        }
        found.sort_unstable();
        let rows: Vec<Value> = found.into_iter().map(|index| self.row(index)).collect();
        json!({ "too_many": false, "calls": rows })
    }

    /// A call as the page draws it.
    pub(super) fn row(&self, index: u32) -> Value {
        let call = &self.seen[index as usize];
        json!([
            index,
            call.lane,
            self.us(call.span.begin),
            call.length_ns() as f64 / 1e3,
            us(call.transfer),
            call.name,
            call.kind.name(),
            (call.operation != 0).then_some(call.operation),
            (call.error != 0).then(|| f64::from(call.error) / 1e3),
            self.event_type(call),
        ])
    }

    /// Index of the bar of an event, or of the event that a state is of.
    fn bar_of(seen: &Slice) -> usize {
        (seen.number & ((1 << BAR_BITS) - 1)) as usize
    }

    /// The type of an event, or of the event that a state is of.
    fn event_type(&self, seen: &Slice) -> Option<&'static str> {
        let events = self.events.as_ref().filter(|_| seen.kind.is_event())?;
        event::name(events.bar(Self::bar_of(seen)).kind)
    }

    /// The events beside an event: its parent, what it is the parent of, and the same operation on other
    /// ranks.
    fn related(&self, seen: &Slice) -> Option<Map<String, Value>> {
        let events = self.events.as_ref()?;
        let number = Self::bar_of(seen);
        let row = |bar: usize| {
            let index = self.event_at[bar];
            let seen = &self.seen[index as usize];
            json!({
                "call": index,
                "name": self.names[seen.name as usize],
                "lane": seen.lane,
                "begin_us": self.us(seen.span.begin),
                "length_us": seen.length_ns() as f64 / 1e3,
            })
        };
        let children: Vec<usize> = events.children(number).collect();
        let listed = children.iter().take(MOST_CHILDREN);
        let same = events.same_operation(number).into_iter();
        let same = same.take(MOST_RANKS);
        let mut all = Map::new();
        let parent = events.bar(number).parent;
        all.insert("parent".to_owned(), parent.map(row).into());
        all.insert("children_in_all".to_owned(), children.len().into());
        all.insert("children".to_owned(), listed.copied().map(row).collect());
        all.insert("same".to_owned(), same.map(row).collect());
        all.insert("on_gpu".to_owned(), self.on_gpu(seen, number).into());
        Some(all)
    }

    /// What an event became on the GPU: its call, if that has a GPU time, and its kernels in windows.
    fn on_gpu(&self, event: &Slice, number: usize) -> Vec<Value> {
        let process = event.process as usize;
        let found = self.events.as_ref().and_then(|events| {
            let of_call = events.of_call(number)?;
            let started = events.bar(of_call).started;
            let mut calls = self.seen.iter().enumerate().filter(|(_, seen)| {
                // The event of a call begins with it, and its kernel later.
                seen.kind == SliceKind::Timed && seen.process == event.process
            });
            calls.find(|(_, seen)| {
                let row = self.call_ref(seen).filter(|row| {
                    let made = [row.call.api_ns, row.call.enqueue_ns];
                    let near = |ns: &i64| {
                        let at = self.timeline.on_one_clock(process, *ns);
                        *ns != 0 && at <= started && started - at < LATE_NS
                    };
                    made.iter().any(near)
                });
                row.and_then(|row| parts::event_of(self, seen, &row)) == Some(of_call)
            })
        });
        let Some((index, call)) = found else {
            return Vec::new();
        };
        let kernels = self.kernels.get(process).into_iter().flatten();
        let numbers: Vec<u64> = (0..)
            .zip(kernels)
            .filter(|(_, kernel)| kernel.row.ticket() == Some(call.number))
            .map(|(number, _)| number)
            .collect();
        let is_kernel = |seen: &Slice| {
            seen.kind.is_kernel() && seen.process == event.process && numbers.contains(&seen.number)
        };
        let in_windows = self.seen.iter().enumerate();
        let in_windows = in_windows.filter(|(_, seen)| !numbers.is_empty() && is_kernel(seen));
        let all = std::iter::once((index, call)).chain(in_windows);
        let row = |(index, seen): (usize, &Slice)| {
            json!({
                "call": index,
                "name": self.names[seen.name as usize],
                "lane": seen.lane,
                "kind": seen.kind.name(),
                "begin_us": self.us(seen.span.begin),
                "length_us": seen.length_ns() as f64 / 1e3,
            })
        };
        all.map(row).collect()
    }

    /// The calls of an operation, by begin.
    pub(super) fn operation(&self, operation: u32) -> &[u32] {
        let of = |index: &u32| self.seen[*index as usize].operation;
        let first = self.by_operation.partition_point(|i| of(i) < operation);
        let count = self.by_operation[first..].partition_point(|i| of(i) == operation);
        &self.by_operation[first..first + count]
    }

    /// Indexes of calls on a lane that begin before a moment and end after it.
    pub(super) fn reaching_into(&self, lane: usize, at: i64) -> Vec<u32> {
        let of_lane = &self.by_lane[self.lanes[lane].calls.clone()];
        let span = |index: &u32| self.seen[*index as usize].span;
        let earliest = at.saturating_sub(self.lanes[lane].longest_ns);
        let first = of_lane.partition_point(|index| span(index).begin < earliest);
        let last = of_lane.partition_point(|index| span(index).begin < at);
        let reaching = of_lane[first..last].iter();
        reaching
            .copied()
            .filter(|index| span(index).end > at)
            .collect()
    }

    /// A call with all that is known of it, and its operation on all ranks, in order of arrival.
    pub fn call(&self, index: usize) -> Option<Value> {
        let call = self.seen.get(index)?;
        let mut answer = json!({
            "call": index,
            "name": self.names[call.name as usize],
            "lane": call.lane,
            "kind": call.kind.name(),
            "begin_us": self.us(call.span.begin),
            "length_us": call.length_ns() as f64 / 1e3,
            "waited_us": (call.transfer != NONE).then(|| call.waited_ns() as f64 / 1e3),
            "error_us": (call.error != 0).then(|| f64::from(call.error) / 1e3),
            "operation": (call.operation != 0).then_some(call.operation),
        });
        let fields = answer.as_object_mut()?;
        for more in [self.arrivals(index), self.detail(index)]
            .into_iter()
            .flatten()
        {
            if let Value::Object(more) = more {
                fields.extend(more);
            }
        }
        Some(answer)
    }

    /// The columns of a call or a kernel, and the parts of a call.
    pub(super) fn detail(&self, index: usize) -> Option<Value> {
        let call = self.seen.get(index)?;
        if call.kind.is_event() {
            let mut all = self.related(call)?;
            all.insert("columns".to_owned(), self.event(call)?.into());
            return Some(all.into());
        }
        if call.kind.is_kernel() {
            return Some(json!({ "columns": self.kernel(call)? }));
        }
        let row = self.call_ref(call)?;
        Some(json!({
            "parts": parts::of(self, call, &row),
            "columns": columns(COLUMNS.iter().map(|c| (c.name, (c.value)(&row)))),
        }))
    }

    /// Everything that is known of an event, or of one of its states.
    fn event(&self, seen: &Slice) -> Option<Map<String, Value>> {
        let events = self.events.as_ref()?.events();
        let bar = events.bars.get(Self::bar_of(seen))?;
        let mut columns = match (seen.number >> BAR_BITS) as usize {
            0 => events.arguments(bar),
            place => {
                let state = bar.states.get(place - 1)?;
                let mut fields = state.fields.clone();
                fields.insert("event".to_owned(), bar.number.into());
                fields
            }
        };
        crate::chrome::make_exact(&mut columns);
        Some(columns)
    }

    /// The operation of a call on all ranks, by arrival; `None` of a kernel or an event.
    pub(super) fn arrivals(&self, index: usize) -> Option<Value> {
        let call = self.seen.get(index).filter(|call| call.kind.is_call())?;
        let row = self.call_ref(call)?;
        let alone = [index as u32];
        let all = match call.operation {
            0 => &alone[..],
            operation => self.operation(operation),
        };
        // All ranks end together, so the longest came first.
        let mut parts: Vec<u32> = all.to_vec();
        parts.sort_by_key(|i| std::cmp::Reverse(self.seen[*i as usize].length_ns()));
        let first = &self.seen[*parts.first()? as usize];
        let last = &self.seen[*parts.last()? as usize];
        let is_known = parts.len() > 1 && last.transfer != NONE;
        let transfer_us = is_known.then(|| last.length_ns() as f64 / 1e3);
        let function = row.capture.names.get(row.shape.function).unwrap_or("");
        let bandwidth = transfer_us.zip(row.capture.bytes(row.shape));
        let bandwidth = bandwidth
            .and_then(|(us, bytes)| Bandwidth::of(function, row.shape.nranks, bytes, us).ok());
        let listed = |at: &usize| {
            let is_end = *at < FIRST_RANKS || at + MOST_RANKS - FIRST_RANKS >= parts.len();
            parts.len() <= MOST_RANKS || is_end || parts[*at] as usize == index
        };
        let ranks = (0..parts.len()).filter(listed);
        let ranks: Vec<Value> = ranks.map(|at| self.part(parts[at], at)).collect();
        Some(json!({
            "ranks_in_all": parts.len(),
            "skew_us": is_known.then(|| (first.length_ns() - last.length_ns()) as f64 / 1e3),
            "transfer_us": transfer_us,
            "algbw_gb_per_s": bandwidth.and_then(|of| of.algbw_gb_per_s),
            "busbw_gb_per_s": bandwidth.and_then(|of| of.busbw_gb_per_s),
            "ranks": ranks,
        }))
    }

    /// A call of an operation that is the `at`th to arrive.
    fn part(&self, index: u32, at: usize) -> Value {
        let part = &self.seen[index as usize];
        let row = self.call_ref(part);
        let exposed = row.and_then(|row| {
            let timed = row.call.gpu_ns(row.shape).ok();
            timed.and_then(|_| row.call.exposed_ns())
        });
        let nic = row.and_then(|row| {
            let extra = row
                .process
                .extras
                .get((row.call.extra as usize).checked_sub(1)?);
            extra.map(|extra| extra.longest_ns).filter(|ns| *ns != 0)
        });
        let in_us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
        json!({
            "call": index,
            "at": at,
            "lane": part.lane,
            "begin_us": self.us(part.span.begin),
            "length_us": part.length_ns() as f64 / 1e3,
            "waited_us": (part.transfer != NONE).then(|| part.waited_ns() as f64 / 1e3),
            "exposed_us": in_us(exposed),
            "nic_us": in_us(nic),
            "is_gpu": part.kind == SliceKind::Timed,
        })
    }

    pub(super) fn call_ref(&self, call: &Slice) -> Option<CallRef<'_>> {
        let capture = self.timeline.capture();
        let process = &capture.processes[call.process as usize];
        let calls = &process.calls;
        let at = calls
            .binary_search_by_key(&call.number, |c| c.ticket)
            .ok()?;
        Some(CallRef {
            capture,
            process,
            index: call.process as usize,
            call: &calls[at],
            shape: &process.shapes[calls[at].shape as usize],
            // The page's own number of the operation is beside the columns.
            operation: None,
        })
    }

    fn kernel(&self, call: &Slice) -> Option<Map<String, Value>> {
        let of_process = self.kernels.get(call.process as usize)?;
        let row = &of_process.get(call.number as usize)?.row;
        let of = analyze::streams::kernels::COLUMNS.iter();
        Some(columns(of.map(|column| (column.name, (column.value)(row)))))
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
        let of_lane = &self.by_lane[self.lanes[call.lane as usize].calls.clone()];
        let at = of_lane.binary_search(&(index as u32)).ok()?;
        let is_alike = |other: &&u32| self.seen[**other as usize].name == call.name;
        let found = match which {
            "next" => of_lane[at + 1..].iter().find(is_alike),
            "previous" => of_lane[..at].iter().rfind(is_alike),
            _ => None,
        };
        found.map(|other| *other as usize)
    }
}

fn us(ns: i64) -> Option<f64> {
    (ns != NONE).then(|| ns as f64 / 1e3)
}

/// The columns that are known.
fn columns<'c>(of: impl Iterator<Item = (&'static str, Cell<'c>)>) -> Map<String, Value> {
    const EXACT: u64 = 1 << 53;
    let value = |cell: Cell<'_>| -> Option<Value> {
        Some(match cell {
            Cell::Null => return None,
            Cell::Bool(value) => value.into(),
            // Numbers beyond 2^53 are no doubles.
            Cell::Unsigned(value) if value > EXACT => value.to_string().into(),
            Cell::Unsigned(value) => value.into(),
            Cell::Signed(value) if value.unsigned_abs() > EXACT => value.to_string().into(),
            Cell::Signed(value) => value.into(),
            Cell::Text(text) => text.into(),
        })
    };
    of.filter_map(|(name, cell)| Some((name.to_owned(), value(cell)?)))
        .collect()
}
