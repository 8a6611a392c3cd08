//! Who waited for whom in windows, and how much of that was exposed.
//!
//! In an AllReduce, AllGather, ReduceScatter or AlltoAll nobody can end before the last rank has begun, and all end
//! together, within some µs. So a rank waited for as long as its kernel ran longer than the shortest of the operation, and
//! whoever had the shortest was waited for. Kernels of different ranks are one operation if they are of the same function
//! and communicator and ran at the same time.
//!
//! Of a wait, the part counts beside which the GPU computed nothing: that much later the rank went on. The rest is
//! hidden, and slows the computing beside it.
//!
//! **When.** Windows of different ranks begin at the same moment, and GPUs are behind their hosts by different times. So
//! only the time counts that windows of all GPUs show ([`Waits::common`]): shares are of that.
//!
//! Rule: no rank's exposed waiting is more than its exposed communication, so no loss is more than the windows show.

use super::intervals::{Span, Union};
use super::kinds::function;
use super::{Lane, LaneWindow};
use std::collections::HashMap;

/// Functions whose operations nobody leaves before the last has begun.
const ALL_TO_ALL: [&str; 3] = ["AllReduce", "AllGather", "ReduceScatter"];

/// One kernel of an operation.
#[derive(Clone, Copy)]
struct Part {
    lane: usize,
    window: usize,
    start: i64,
    end: i64,
}

/// Exposed and hidden waiting of one GPU for another, by window, ns.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// By waiting lane, waited-for lane and window of the former: exposed, hidden.
    pub by: HashMap<(usize, usize, usize), (i64, i64)>,
    /// Operations by their last lane.
    pub last: HashMap<usize, u64>,
    /// Operations that were looked at.
    pub operations: u64,
    /// The time that windows of all GPUs show.
    pub common: Union,
    /// By lane: when its kernels waited, in any operation.
    pub waiting: HashMap<usize, Union>,
    spans: HashMap<usize, Vec<Span>>,
}

/// The waits in all windows. `members` is how many GPUs a communicator has, by its index.
pub fn waits(lanes: &[Lane], members: &[usize]) -> Waits {
    let mut kinds: HashMap<(u32, &str), Vec<Vec<Part>>> = HashMap::new();
    for (lane, of) in lanes.iter().enumerate() {
        for (window, seen) in of.windows.iter().enumerate() {
            for kernel in &seen.seen.nccl {
                let name = seen
                    .names
                    .get(kernel.name as usize)
                    .map_or("", |name| function(name));
                let Some(communicator) = kernel.communicator else {
                    continue;
                };
                if !ALL_TO_ALL.contains(&name) {
                    continue;
                }
                let parts = kinds.entry((communicator, name));
                parts.or_insert_with(|| vec![Vec::new(); lanes.len()])[lane].push(Part {
                    lane,
                    window,
                    start: kernel.start,
                    end: kernel.end,
                });
            }
        }
    }
    let mut waits = Waits {
        common: common(lanes),
        ..Waits::default()
    };
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(kind, _)| *kind);
    for ((communicator, _), mut parts) in kinds {
        parts.retain(|parts| !parts.is_empty());
        let all = members.get(communicator as usize).copied().unwrap_or(0);
        if parts.len() < 2 || parts.len() != all {
            continue;
        }
        parts
            .iter_mut()
            .for_each(|parts| parts.sort_by_key(|part| part.start));
        // That with the fewest: an operation must be on all.
        parts.sort_by_key(Vec::len);
        for first in &parts[0] {
            let others: Option<Vec<Part>> = parts[1..]
                .iter()
                .map(|parts| beside(parts, first))
                .collect();
            if let Some(mut operation) = others {
                operation.push(*first);
                waits.add(lanes, &operation);
            }
        }
    }
    let spans = std::mem::take(&mut waits.spans).into_iter();
    waits.waiting = spans
        .map(|(lane, spans)| (lane, Union::of(spans)))
        .collect();
    waits
}

/// The time that windows of all GPUs show, in whole cycles of the first where it has some.
fn common(lanes: &[Lane]) -> Union {
    let known = |lane: &Lane| Union::of(lane.windows.iter().map(|w| w.seen.known).collect());
    let all = lanes
        .iter()
        .map(known)
        .reduce(|a, b| a.and(&b))
        .unwrap_or_default();
    let Some(first) = lanes.first() else {
        return all;
    };
    let mut whole = Vec::new();
    for window in &first.windows {
        for piece in all.within(window.seen.known).spans() {
            let marks = &window.seen.marks;
            let from = marks.iter().find(|mark| **mark >= piece.0);
            let to = marks.iter().rev().find(|mark| **mark <= piece.1);
            whole.extend(from.zip(to).map(|(from, to)| (*from, *to)));
        }
    }
    let whole = Union::of(whole);
    if whole.length() > 0 {
        whole
    } else {
        all
    }
}

/// The kernel that ran beside `first` for the longest.
fn beside(parts: &[Part], first: &Part) -> Option<Part> {
    let from = parts.partition_point(|part| part.end <= first.start);
    let at_once = parts[from..]
        .iter()
        .take_while(|part| part.start < first.end);
    at_once
        .max_by_key(|part| part.end.min(first.end) - part.start.max(first.start))
        .copied()
}

impl Waits {
    fn add(&mut self, lanes: &[Lane], operation: &[Part]) {
        let ns = |part: &Part| part.end - part.start;
        let Some(last) = operation.iter().min_by_key(|part| (ns(part), part.lane)) else {
            return;
        };
        if self.common.covers((last.start, last.end)) == 0 {
            return;
        }
        self.operations += 1;
        *self.last.entry(last.lane).or_default() += 1;
        for part in operation.iter().filter(|part| part.lane != last.lane) {
            let seen: &LaneWindow = &lanes[part.lane].windows[part.window];
            let wait: Span = (part.start, part.start + ns(part) - ns(last));
            self.spans.entry(part.lane).or_default().push(wait);
            let wait = self.common.within(wait).within(seen.seen.known);
            let hidden = wait.and(&seen.seen.computes).length();
            let exposed = wait.length() - hidden;
            if exposed + hidden > 0 {
                let at = (part.lane, last.lane, part.window);
                let sum = self.by.entry(at).or_default();
                *sum = (sum.0 + exposed, sum.1 + hidden);
            }
        }
    }
}
