//! As much of a [`View`] as fits into a page: lanes, levels of the heat map, and calls of the worst spans.
//!
//! What goes in first is what the page can't do without: lanes and the coarsest level. Then come finer
//! levels, in [`LEVELS_SHARE`] of the bytes. Then come the calls of the typical step and of the
//! longest wait, and of those steps in which ranks waited longest, with all that is known of them, as long as
//! they fit. A job without steps is cut into equal spans.
//!
//! Rule: the text of [`within`] has no more bytes than it was given.

use super::pyramid::{self, Level};
use super::{Slice, View};
use base64::prelude::{Engine, BASE64_STANDARD};
use flate2::write::DeflateEncoder;
use flate2::Compression;
use serde_json::{json, Map, Value};
use std::collections::HashSet;
use std::io::Write;

/// Of the bytes that are left, levels of the heat map take so many hundredths at most.
const LEVELS_SHARE: usize = 50;
/// A level of fewer bins shows nothing.
const LEAST_BINS: usize = 16;
/// Spans of a job without steps.
const SPANS: usize = 64;
/// Calls that are compressed at once, about.
const CHUNK_CALLS: usize = 3000;
/// After so many chunks that did not fit, the others are not tried.
const MOST_TRIES: usize = 8;
/// What there is beside data, levels and chunks.
const AROUND: usize = 2000;
/// What a chunk has beside its compressed text.
const AROUND_CHUNK: usize = 80;

/// The view as JSON that is safe inside an element of a page, in `most` bytes; `None` if that is too few.
pub fn within(view: &View<'_>, most: usize) -> Option<String> {
    let data = packed(&view.data());
    let mut left = most.checked_sub(data.len() + AROUND)?;
    let levels = levels(view, left)?;
    left -= levels.iter().map(Packed::len).sum::<usize>();
    let (chunks, inside, is_whole) = chunks(view, left);
    let is_inside = |call: &&u32| inside.contains(*call);
    let worst: Vec<u32> = view
        .worst
        .iter()
        .filter(is_inside)
        .take(100)
        .copied()
        .collect();
    let list = |of: Vec<Packed>| Value::from(of.into_iter().map(|p| p.0).collect::<Vec<_>>());
    let all = json!({
        "data": data,
        "levels": list(levels),
        "chunks": list(chunks),
        "whole": is_whole,
        "worst": worst,
    });
    // Base64 and numbers: nothing in it could end an element.
    let text = all.to_string();
    (text.len() <= most).then_some(text)
}

/// An object with something compressed in it.
struct Packed(Value);

impl Packed {
    fn len(&self) -> usize {
        let text = self.0["deflate"].as_str().map_or(0, str::len);
        text + AROUND_CHUNK
    }
}

fn deflated(bytes: &[u8]) -> String {
    let mut out = DeflateEncoder::new(Vec::new(), Compression::default());
    // Writing into memory can't fail.
    let _ = out.write_all(bytes);
    BASE64_STANDARD.encode(out.finish().unwrap_or_default())
}

fn packed(value: &Value) -> String {
    deflated(value.to_string().as_bytes())
}

/// Levels from the coarsest on, as many as fit; `None` if not even one does.
fn levels(view: &View<'_>, left: usize) -> Option<Vec<Packed>> {
    let most = left / 100 * LEVELS_SHARE;
    let pack = |level: &Level| {
        Packed(json!({
            "bins": level.bins,
            "width_us": level.width_ns as f64 / 1e3,
            "deflate": deflated(level.cells.as_flattened()),
        }))
    };
    let mut used = 0;
    let mut found = Vec::new();
    for level in view.levels.iter().rev() {
        // Compression saves a factor of 60 at most here, so this can't fit.
        if level.cells.len() / 20 > most {
            break;
        }
        let packed = pack(level);
        used += packed.len();
        if used > most {
            break;
        }
        found.push(packed);
    }
    let mut coarser = view.levels.last().map(pyramid::coarser);
    while found.is_empty() {
        let level = coarser.filter(|level| level.bins >= LEAST_BINS)?;
        let packed = pack(&level);
        if packed.len() <= most {
            found.push(packed);
        }
        coarser = Some(pyramid::coarser(&level));
    }
    Some(found)
}

/// Calls of a span: of a step, or of a part of one with many calls.
struct Chunk {
    from_ns: i64,
    to_ns: i64,
    /// How long ranks waited in its step, ns.
    waited_ns: i64,
    /// Indexes, by begin.
    calls: Vec<u32>,
}

/// The calls of the worst steps, as many as fit; which these are, and whether these are all.
fn chunks(view: &View<'_>, mut left: usize) -> (Vec<Packed>, HashSet<u32>, bool) {
    let mut found = Vec::new();
    let mut inside = HashSet::new();
    let mut all = cut(view);
    // What the viewer opens with and where "Longest wait" leads come first.
    let typical = view.typical.map(|step| (step.begin, step.end));
    let first = view.worst.first();
    let is_wanted = |chunk: &Chunk| {
        let opens = typical.is_some_and(|(begin, end)| chunk.from_ns < end && begin < chunk.to_ns);
        opens || first.is_some_and(|first| chunk.calls.binary_search(first).is_ok())
    };
    all.sort_by_cached_key(|chunk| {
        let waited = std::cmp::Reverse(chunk.waited_ns);
        (!is_wanted(chunk), waited, chunk.from_ns)
    });
    let mut failures = 0;
    for chunk in &all {
        let packed = pack(view, chunk);
        if packed.len() > left {
            failures += 1;
            if failures == MOST_TRIES {
                break;
            }
            continue;
        }
        left -= packed.len();
        found.push(packed);
        inside.extend(&chunk.calls);
    }
    let is_whole = found.len() == all.len();
    (found, inside, is_whole)
}

/// All calls, by steps or equal spans, and these in pieces of few calls.
fn cut(view: &View<'_>) -> Vec<Chunk> {
    let over_time = view.report.timeline.as_ref();
    let steps = over_time.and_then(|of| Some((of.begin_ns, of.steps.as_ref()?)));
    let mut begins: Vec<i64> = match steps {
        Some((begin, steps)) if steps.begins_us.len() > 2 => {
            let at = |us: &f64| begin.saturating_add((us * 1e3) as i64);
            steps.begins_us.iter().map(at).collect()
        }
        _ => {
            let width = view.length_ns / SPANS as i64 + 1;
            (1..SPANS as i64)
                .map(|n| view.base_ns + n * width)
                .collect()
        }
    };
    let end = view.base_ns + view.length_ns;
    begins.retain(|at| (view.base_ns + 1..=end).contains(at));
    begins.sort_unstable();
    begins.dedup();
    begins.insert(0, view.base_ns);
    let mut chunks = Vec::new();
    let mut from = 0;
    for (number, begin) in begins.iter().enumerate() {
        let to_ns = begins.get(number + 1).copied().unwrap_or(end + 1);
        let of_step = &view.seen[from..];
        let count = of_step.partition_point(|call| call.span.begin < to_ns);
        let of_step = &of_step[..count];
        let waited_ns: i64 = of_step.iter().map(Slice::waited_ns).sum();
        let mut at = 0;
        let mut begin = *begin;
        while at < of_step.len() {
            let mut upto = (at + CHUNK_CALLS).min(of_step.len());
            // Calls that begin at once stay together, so that spans don't share a moment.
            while upto < of_step.len() && of_step[upto].span.begin == of_step[upto - 1].span.begin {
                upto += 1;
            }
            let until = of_step.get(upto).map_or(to_ns, |call| call.span.begin);
            chunks.push(Chunk {
                from_ns: begin,
                to_ns: until,
                waited_ns,
                calls: (from + at..from + upto).map(|index| index as u32).collect(),
            });
            (begin, at) = (until, upto);
        }
        from += count;
    }
    chunks
}

/// A chunk with all that is known of its calls, and what reaches into its span from before.
fn pack(view: &View<'_>, chunk: &Chunk) -> Packed {
    let lanes = 0..view.lanes.len();
    let before = lanes.flat_map(|lane| view.reaching_into(lane, chunk.from_ns));
    let rows: Vec<Value> = before
        .chain(chunk.calls.iter().copied())
        .map(|index| view.row(index))
        .collect();
    let mut operations = Map::new();
    let mut more = Map::new();
    for index in &chunk.calls {
        let call = &view.seen[*index as usize];
        if let Some(detail) = view.detail(*index as usize) {
            more.insert(index.to_string(), detail);
        }
        let name = match call.operation {
            0 => format!("call {index}"),
            operation => operation.to_string(),
        };
        if call.kind.is_call() && !operations.contains_key(&name) {
            operations.extend(view.arrivals(*index as usize).map(|found| (name, found)));
        }
    }
    let all = json!({ "calls": rows, "operations": operations, "more": more });
    Packed(json!({
        "from_us": view.us(chunk.from_ns),
        "to_us": view.us(chunk.to_ns),
        "deflate": packed(&all),
    }))
}
