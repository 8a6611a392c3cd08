//! Who waited for whom in windows, and how much of that was exposed.
//!
//! **Collectives.** In an AllReduce, AllGather or ReduceScatter nobody can end before the last rank has
//! begun, and all end together, within some µs. So a rank waited for as long as its kernel ran longer than
//! the shortest of the operation, and whoever had the shortest was waited for. Kernels of different ranks
//! are one operation if they are of the same function and communicator and ran at the same time. The last
//! rank is charged for the time since the one before it had come: with it in time, the operation would have
//! begun then.
//!
//! **Sends and receives.** A kernel that sends or receives can't end before its peer's has begun. It waited
//! from its own beginning to that of the latest of its peers. Two kernels belong together if one sends to
//! the other's rank, the other receives from the one's, and they ran at the same time. A send that was over
//! before its receive began has waited for nobody. Who waits to receive waits for a *late sender*, and who
//! only waits to send for a *late receiver*; in an exchange of both it is the sender that counts.
//!
//! **Chains.** The rank that was waited for may have been late because it waited itself. Who is charged for
//! that in sends and receives is in [`super::causes`]. In a collective it is by time: while the last rank
//! stood still and computed nothing, whoever it waited for is charged, and so on ([`culprit`]).
//!
//! **Transfers.** Who waits has often nothing left to compute when the transfer begins, and who came last
//! has. With it in time, the transfer would be as hidden as its own is. So it is charged for the difference.
//! If no window shows what the last one computed, the transfer is thought to run beside what the waiting one
//! computed in the wait.
//!
//! Of a wait, the part counts beside which the GPU computed nothing: that much later the rank went on. The
//! rest is hidden, and slows the computing beside it.
//!
//! **When.** Only the whole cycles of a GPU's windows count. They are cut into [`Waits::own`] pieces, and the
//! pieces' shares make the intervals. If windows of all GPUs show most of that time together, only the time
//! that they show together counts. Where no cycles are found nothing counts: what a window shows of a part of
//! a step says nothing about steps. When the others came to its operations is known from their windows, or
//! else from CUDA events ([`super::timed`]). A piece counts if that is known for most of its operations
//! ([`Waits::weight`]). Bubbles need to know what all GPUs computed at the same time: only [`Waits::pieces`]
//! count for them, which windows of all GPUs show.
//!
//! Rule: no rank's exposed waiting is more than its exposed communication, so no loss is more than the
//! windows show.

use super::causes::{self, Causes, Still};
use super::intervals::{Span, Union};
use super::kinds::function;
use super::schedule::Meet;
use super::window::Peer;
use super::Lane;
use crate::interval::LEAST_STRETCHES;
use std::collections::HashMap;

/// Functions whose operations nobody leaves before the last has begun.
const ALL_TO_ALL: [&str; 3] = ["AllReduce", "AllGather", "ReduceScatter"];

/// One kernel of an operation.
#[derive(Clone, Copy)]
struct WaitPart {
    lane: usize,
    window: usize,
    start: i64,
    end: i64,
    /// As in [`super::window::NcclKernel`].
    launched: Option<i64>,
}

/// Waiting of GPUs, by piece of the common time, ns.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// By waiting lane and own piece: exposed.
    pub all: HashMap<(usize, usize), i64>,
    /// By waiting lane, lane that is charged, and own piece of the first: exposed and hidden.
    pub by: HashMap<(usize, usize, usize), (i64, i64)>,
    /// Operations by their last lane.
    pub last: HashMap<usize, u64>,
    /// Operations that were looked at.
    pub operations: u64,
    /// The time that windows of all GPUs show, in pieces, ascending.
    pub pieces: Vec<Span>,
    /// By lane: the whole cycles that its windows show, in pieces, ascending. A lane that shows too few has
    /// those of the one that shows most.
    pub own: Vec<Vec<Span>>,
    /// By lane: whether the cycles are its own.
    cycles: Vec<bool>,
    /// All lanes have the same pieces: those that windows of all GPUs show.
    pub shared: bool,
    /// By lane and own piece.
    found: HashMap<(usize, usize), Found>,
    /// By waiting lane and the one that came last: how often.
    pub times: HashMap<(usize, usize), u64>,
    /// Whole steps in them.
    pub steps: u64,
    /// By lane: when its kernels waited for another, in any operation.
    pub waiting: HashMap<usize, Union>,
    /// Kernels that waited.
    pub direct: Vec<Direct>,
    /// When each lane stood still, and in which wait, ascending.
    pub still: Vec<Vec<Still>>,
    /// Receives that were matched, by the time at which they could go on.
    pub meets: Vec<Meet>,
    /// By wait in `direct`: who it is charged to; `None` if that is by when they stood still.
    pub causes: Vec<Option<Causes>>,
    /// Kernels that pass data on between neighbours, as stages of a pipeline do, and were matched.
    pub passed_on: u64,
}

/// Whom a kernel waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// The last rank of a collective.
    Rank,
    /// The one that it received from.
    Sender,
    /// The one that it sent to.
    Receiver,
}

/// A kernel that waited for another GPU.
#[derive(Clone, Copy, Debug)]
pub struct Direct {
    /// Of the kernel.
    pub lane: usize,
    /// Of the kernel.
    pub window: usize,
    /// Who came last.
    pub last: usize,
    /// As what.
    pub late: Late,
    /// From when to when it waited.
    pub whole: Span,
    /// Of a sender or receiver: when the two passed on data in the same direction before, in the same window.
    pub since: Option<i64>,
    /// Since the one before the last had come.
    charged: Span,
    /// The kernel's end.
    end: i64,
    /// Of the kernel of the one that came last: its window, and when it ran.
    other: (usize, Span),
    /// How long that one had been launched when it began, if that is known.
    pub queued: Option<i64>,
}

/// Of how many kernels of a piece it is known when the others came.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// In collectives.
    collectives: u64,
    /// Those that were found on all ranks.
    on_all: u64,
    /// Kernels that receive.
    receives: u64,
    /// Those of which a sender was found. What had been sent before is not found, and nobody waited for it.
    sent: u64,
}

impl Direct {
    /// When the one that came last came.
    pub fn came(&self) -> i64 {
        self.other.1 .0
    }
}

/// A window is cut into so many pieces at most.
const PIECES: usize = 8;

/// The waits in all windows. `members` is how many GPUs a communicator has, by its index.
pub fn waits(lanes: &[Lane], members: &[usize]) -> Waits {
    let mut kinds: HashMap<(u32, &str), Vec<Vec<WaitPart>>> = HashMap::new();
    for (lane, of) in lanes.iter().enumerate() {
        for (window, seen) in of.all().enumerate() {
            for kernel in &seen.seen.nccl {
                let name = function(seen.names.name(kernel.name));
                let Some(communicator) = kernel.communicator else {
                    continue;
                };
                if !ALL_TO_ALL.contains(&name) {
                    continue;
                }
                let parts = kinds.entry((communicator, name));
                parts.or_insert_with(|| vec![Vec::new(); lanes.len()])[lane].push(WaitPart {
                    lane,
                    window,
                    start: kernel.start,
                    end: kernel.end,
                    launched: kernel.launched,
                });
            }
        }
    }
    let (pieces, steps) = pieces(lanes);
    let length = |of: &[Span]| of.iter().map(|span| span.1 - span.0).sum::<i64>();
    let mut own: Vec<Vec<Span>> = lanes.iter().map(own).collect();
    let enough = |of: &Vec<Span>| of.len() >= LEAST_STRETCHES;
    let mut cycles: Vec<bool> = own.iter().map(enough).collect();
    let least = own
        .iter()
        .filter(|of| enough(of))
        .map(|of| length(of))
        .min();
    // Where windows show most of their time together, what lanes lost is compared at the same time.
    let most = least.is_none_or(|least| enough(&pieces) && 2 * length(&pieces) > least);
    let shared = most && lanes.iter().all(|lane| !lane.windows.is_empty());
    let of_all = match shared {
        true => pieces.clone(),
        false => own
            .iter()
            .max_by_key(|of| of.len())
            .cloned()
            .unwrap_or_default(),
    };
    for of in own.iter_mut().filter(|of| shared || !enough(of)) {
        of.clone_from(&of_all);
    }
    if shared {
        cycles.fill(true);
    }
    let mut waits = Waits {
        pieces,
        steps,
        own,
        cycles,
        shared,
        ..Waits::default()
    };
    waits.count(lanes, members);
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
            let others: Option<Vec<WaitPart>> = parts[1..]
                .iter()
                .map(|parts| beside(parts, first))
                .collect();
            if let Some(mut operation) = others {
                operation.push(*first);
                waits.add(&operation);
            }
        }
    }
    waits.add_sends(lanes);
    waits.charge(lanes);
    waits
}

/// From mark to mark, some cycles to a piece, so many at most of a window; and how many cycles.
fn cut(marks: &[i64]) -> (impl Iterator<Item = Span>, u64) {
    let each = marks.len().saturating_sub(1).div_ceil(PIECES).max(1);
    let ends: Vec<i64> = marks.iter().copied().step_by(each).collect();
    let steps = (ends.len().saturating_sub(1) * each) as u64;
    let pairs: Vec<Span> = ends.windows(2).map(|pair| (pair[0], pair[1])).collect();
    (pairs.into_iter(), steps)
}

/// The time that windows of all GPUs show: whole cycles of the first, some of them to a piece. And how many
/// cycles.
fn pieces(lanes: &[Lane]) -> (Vec<Span>, u64) {
    let known = |lane: &Lane| Union::of(lane.windows.iter().map(|w| w.seen.known).collect());
    let all = lanes.iter().map(known).reduce(|a, b| a.and(&b));
    let (Some(all), Some(first)) = (all, lanes.first()) else {
        return (Vec::new(), 0);
    };
    let (mut pieces, mut steps) = (Vec::new(), 0);
    for window in &first.windows {
        for common in all.within(window.seen.known).spans() {
            let marks = window.seen.marks.iter().copied();
            let marks = marks.filter(|mark| (common.0..=common.1).contains(mark));
            let (spans, cycles) = cut(&marks.collect::<Vec<_>>());
            steps += cycles;
            pieces.extend(spans);
        }
    }
    (pieces, steps)
}

/// The whole cycles that windows of a lane show, in pieces.
fn own(lane: &Lane) -> Vec<Span> {
    let windows = lane.windows.iter();
    let mut spans: Vec<Span> = windows.flat_map(|w| cut(&w.seen.marks).0).collect();
    spans.sort_unstable();
    spans
}

/// What of a span others do not cover.
pub fn without(span: Span, others: &Union) -> Vec<Span> {
    let mut left = Vec::new();
    let mut at = span.0;
    for (from, to) in others.within(span).spans() {
        left.push((at, *from));
        at = *to;
    }
    left.push((at, span.1));
    left.retain(|(from, to)| from < to);
    left
}

/// Who kept a lane from coming in this span: the lane itself, but where it stood still for another. `on`
/// says for whom a wait was.
fn culprit(
    still: &[Vec<Still>],
    on: &dyn Fn(usize) -> usize,
    lane: usize,
    span: Span,
    depth: usize,
    found: &mut Vec<(usize, Span)>,
) {
    let mut at = span.0;
    // Waits of a lane overlap if it has several streams; the first counts.
    let first = still[lane].partition_point(|((_, to), _)| *to <= span.0);
    for ((from, to), wait) in &still[lane][first..] {
        if *from >= span.1 || depth == 0 {
            break;
        }
        let part = ((*from).max(at), (*to).min(span.1));
        if part.0 >= part.1 {
            continue;
        }
        found.push((lane, (at, part.0)));
        culprit(still, on, on(*wait), part, depth - 1, found);
        at = part.1;
    }
    found.push((lane, (at, span.1)));
    found.retain(|(_, (from, to))| from < to);
}

/// The causes of a wait by who stood still while it lasted.
fn at_the_same_time(
    wait: &Direct,
    direct: &[Direct],
    still: &[Vec<Still>],
    lanes: usize,
) -> Causes {
    let mut found = Vec::new();
    let on = |wait: usize| direct[wait].last;
    culprit(still, &on, wait.last, wait.whole, lanes, &mut found);
    let length = (wait.whole.1 - wait.whole.0).max(1) as f64;
    let parts = found.into_iter();
    let parts = parts.map(|(lane, (from, to))| (lane, (to - from) as f64 / length));
    parts.filter(|(lane, _)| *lane != wait.lane).collect()
}

/// Whether a kernel of `rank` with these peers passes data on between neighbours: a stage has two at most. An
/// AlltoAll that is made of sends and receives has more, or sends to itself.
fn passes_on(rank: u32, peers: &[Peer]) -> bool {
    let mut others: Vec<u32> = peers.iter().map(|peer| peer.rank).collect();
    others.sort_unstable();
    others.dedup();
    others.len() <= 2 && !others.contains(&rank)
}

/// The kernel that ran beside `first` for the longest.
fn beside(parts: &[WaitPart], first: &WaitPart) -> Option<WaitPart> {
    let from = parts.partition_point(|part| part.end <= first.start);
    let at_once = parts[from..]
        .iter()
        .take_while(|part| part.start < first.end);
    at_once
        .max_by_key(|part| part.end.min(first.end) - part.start.max(first.start))
        .copied()
}

impl Waits {
    /// How long the pieces are together, ns.
    pub fn common(&self) -> i64 {
        self.pieces.iter().map(|piece| piece.1 - piece.0).sum()
    }

    /// Whether windows of a lane show enough whole cycles.
    pub fn shows_cycles(&self, lane: usize) -> bool {
        self.cycles[lane]
    }

    /// For how long it is known who was waited for, on the lane with the least of it, ns.
    pub fn looked_at(&self) -> i64 {
        let known = |lane: usize| {
            let pieces = self.own[lane].iter().enumerate();
            let known = pieces.filter(|(at, _)| self.weight(lane, *at).is_some());
            known.map(|(_, piece)| piece.1 - piece.0).sum()
        };
        let lanes = (0..self.own.len()).filter(|lane| self.cycles[*lane]);
        lanes.map(known).min().unwrap_or(0)
    }

    /// What of the own pieces of a lane, and how long they are; of those that count. `of` is by piece.
    pub fn each<'a>(
        &'a self,
        lane: usize,
        of: impl Fn(usize) -> f64 + 'a,
    ) -> impl Iterator<Item = (f64, f64)> + 'a {
        let pieces = self.own[lane].iter().enumerate();
        pieces.filter_map(move |(at, piece)| {
            let weight = self.weight(lane, at)?;
            Some((weight * of(at), (piece.1 - piece.0) as f64))
        })
    }

    /// What the collectives of an own piece that were found on all ranks stand for: events may leave some
    /// out. `None` if less than half of what the piece communicates was found.
    fn weight(&self, lane: usize, piece: usize) -> Option<f64> {
        let found = self.found.get(&(lane, piece)).copied().unwrap_or_default();
        let most = 2 * (found.on_all + found.sent) >= found.collectives + found.receives;
        most.then(|| match found.on_all {
            0 => 1.0,
            on_all => found.collectives as f64 / on_all as f64,
        })
    }

    /// Counts the kernels that wait for others, by own piece.
    fn count(&mut self, lanes: &[Lane], members: &[usize]) {
        for (lane, of) in lanes.iter().enumerate() {
            for window in of.all() {
                for kernel in &window.seen.nccl {
                    let name = function(window.names.name(kernel.name));
                    let members = kernel.communicator.and_then(|c| members.get(c as usize));
                    let collective = ALL_TO_ALL.contains(&name) && members.is_some_and(|n| *n > 1);
                    let receives = window.seen.peers_of(kernel).iter().any(|p| p.receives);
                    if let Some(found) = self.found_in(lane, (kernel.start, kernel.end)) {
                        found.collectives += u64::from(collective);
                        found.receives += u64::from(receives);
                    }
                }
            }
        }
    }

    /// Of the own piece in which a kernel of a lane ended.
    fn found_in(&mut self, lane: usize, kernel: Span) -> Option<&mut Found> {
        let (piece, _) = self.overlaps(lane, (kernel.1 - 1, kernel.1)).next()?;
        Some(self.found.entry((lane, piece)).or_default())
    }

    /// Whether own pieces show a part of a kernel.
    fn shows(&self, part: &WaitPart) -> bool {
        self.overlaps(part.lane, (part.start, part.end))
            .next()
            .is_some()
    }

    fn add(&mut self, operation: &[WaitPart]) {
        let ns = |part: &WaitPart| part.end - part.start;
        let Some(last) = operation.iter().min_by_key(|part| (ns(part), part.lane)) else {
            return;
        };
        for part in operation {
            if let Some(found) = self.found_in(part.lane, (part.start, part.end)) {
                found.on_all += 1;
            }
        }
        if !operation.iter().any(|part| self.shows(part)) {
            return;
        }
        self.operations += 1;
        *self.last.entry(last.lane).or_default() += 1;
        let others = operation.iter().filter(|part| part.lane != last.lane);
        // How long the operation takes from the arrival of the one before the last.
        let second = others.clone().map(ns).min().unwrap_or(0);
        self.direct.extend(others.map(|part| Direct {
            lane: part.lane,
            window: part.window,
            last: last.lane,
            late: Late::Rank,
            since: None,
            whole: (part.start, part.start + ns(part) - ns(last)),
            charged: (
                part.start + ns(part) - second,
                part.start + ns(part) - ns(last),
            ),
            end: part.end,
            other: (last.window, (last.start, last.end)),
            queued: last.launched.map(|at| last.start - at),
        }));
    }

    /// Adds the kernels that send and receive.
    fn add_sends(&mut self, lanes: &[Lane]) {
        // By communicator, own rank and peer.
        let mut by_pair: HashMap<(u32, u32, Peer), Vec<WaitPart>> = HashMap::new();
        let mut all = Vec::new();
        for (lane, of) in lanes.iter().enumerate() {
            for (window, seen) in of.all().enumerate() {
                let kernels = seen.seen.nccl.iter();
                for kernel in kernels.filter(|kernel| kernel.peers.0 < kernel.peers.1) {
                    let (Some(communicator), Some(rank)) = (kernel.communicator, kernel.rank)
                    else {
                        continue;
                    };
                    let part = WaitPart {
                        lane,
                        window,
                        start: kernel.start,
                        end: kernel.end,
                        launched: kernel.launched,
                    };
                    let peers = seen.seen.peers_of(kernel);
                    all.push((communicator, rank, peers, part));
                    for peer in peers {
                        let parts = by_pair.entry((communicator, rank, *peer)).or_default();
                        if parts.last().is_none_or(|before| before.start != part.start) {
                            parts.push(part);
                        }
                    }
                }
            }
        }
        for parts in by_pair.values_mut() {
            parts.sort_by_key(|part| part.start);
        }
        // By lane, window, other lane and direction: when data was passed on last.
        let mut before: HashMap<(usize, usize, usize, bool), i64> = HashMap::new();
        all.sort_by_key(|(.., part)| (part.lane, part.window, part.start));
        for (communicator, rank, peers, part) in all {
            let others = peers.iter().filter(|peer| peer.rank != rank);
            let others = others.filter_map(|peer| {
                let this = Peer {
                    rank,
                    receives: !peer.receives,
                };
                let parts = by_pair.get(&(communicator, peer.rank, this))?;
                Some((beside(parts, &part)?, peer.receives))
            });
            let others: Vec<(WaitPart, bool)> = others.collect();
            if others.iter().any(|(_, receives)| *receives) {
                if let Some(found) = self.found_in(part.lane, (part.start, part.end)) {
                    found.sent += 1;
                }
            }
            let seen = lanes[part.lane].at(part.window);
            for (other, _) in others.iter().filter(|(_, receives)| *receives) {
                let waited = (part.start, other.start.min(part.end));
                let needed = match waited.0 < waited.1 {
                    true => waited.1 - seen.without_computing(waited),
                    false => part.start,
                };
                self.meets.push(Meet {
                    lane: part.lane,
                    sender: other.lane,
                    needed,
                    came: other.start,
                });
            }
            let others = others.into_iter();
            let Some((last, receives)) =
                others.max_by_key(|(other, receives)| (other.start, other.lane, *receives))
            else {
                continue;
            };
            let met = last.start.max(part.start);
            let since = before.insert((part.lane, part.window, last.lane, receives), met);
            if !self.shows(&part) {
                continue;
            }
            self.operations += 1;
            self.passed_on += u64::from(passes_on(rank, peers));
            let span = (part.start, last.start.min(part.end));
            if span.0 < span.1 {
                *self.last.entry(last.lane).or_default() += 1;
                self.direct.push(Direct {
                    lane: part.lane,
                    window: part.window,
                    last: last.lane,
                    late: match receives {
                        true => Late::Sender,
                        false => Late::Receiver,
                    },
                    whole: span,
                    since,
                    charged: span,
                    end: part.end,
                    other: (last.window, (last.start, last.end)),
                    queued: last.launched.map(|at| last.start - at),
                });
            }
        }
    }

    /// Sums the waits up, each charged to whom it was for.
    fn charge(&mut self, lanes: &[Lane]) {
        let direct = std::mem::take(&mut self.direct);
        let mut spans: HashMap<usize, Vec<Span>> = HashMap::new();
        // When each lane stood still, and in which wait.
        let mut still: Vec<Vec<Still>> = vec![Vec::new(); lanes.len()];
        for (index, wait) in direct.iter().enumerate() {
            spans.entry(wait.lane).or_default().push(wait.whole);
            let computes = &lanes[wait.lane].at(wait.window).computes;
            let exposed = without(wait.whole, computes);
            still[wait.lane].extend(exposed.into_iter().map(|span| (span, index)));
        }
        still.iter_mut().for_each(|of| of.sort_unstable());
        let mut order: Vec<usize> = (0..direct.len()).collect();
        order.sort_by_key(|index| (direct[*index].whole.1, *index));
        let mut causes: Vec<Option<Causes>> = vec![None; direct.len()];
        for index in order {
            let wait = &direct[index];
            let seen = lanes[wait.lane].at(wait.window);
            let exposed = seen.without_computing(wait.whole);
            causes[index] = causes::causes(wait, exposed, &still, &causes);
            if causes[index].is_none() {
                causes[index] = Some(at_the_same_time(wait, &direct, &still, lanes.len()));
            }
        }
        for (index, wait) in direct.iter().enumerate() {
            let seen = lanes[wait.lane].at(wait.window);
            let within = |span: Span| {
                let exposed = seen.without_computing(span);
                (exposed, span.1 - span.0 - exposed)
            };
            let pieces: Vec<(usize, Span)> = self.overlaps(wait.lane, wait.whole).collect();
            if !pieces.is_empty() {
                *self.times.entry((wait.lane, wait.last)).or_default() += 1;
            }
            for (piece, span) in pieces {
                *self.all.entry((wait.lane, piece)).or_default() += within(span).0;
                let span = (span.0.max(wait.charged.0), span.1);
                if span.0 >= span.1 {
                    continue;
                }
                let mut charge = |lane: usize, exposed: i64, hidden: i64| {
                    let sum = self.by.entry((wait.lane, lane, piece)).or_default();
                    *sum = (sum.0 + exposed, sum.1 + hidden);
                };
                if wait.since.is_some() {
                    let (exposed, hidden) = within(span);
                    let of = |ns: i64, part: f64| (ns as f64 * part).round() as i64;
                    for (lane, part) in causes[index].iter().flatten() {
                        charge(*lane, of(exposed, *part), of(hidden, *part));
                    }
                    continue;
                }
                let mut culprits = Vec::new();
                let on = |wait: usize| direct[wait].last;
                culprit(&still, &on, wait.last, span, lanes.len(), &mut culprits);
                for (lane, span) in culprits.into_iter().filter(|(lane, _)| *lane != wait.lane) {
                    let (exposed, hidden) = within(span);
                    charge(lane, exposed, hidden);
                }
            }
        }
        for wait in &direct {
            self.charge_transfer(lanes, wait);
        }
        let spans = spans.into_iter();
        self.waiting = spans
            .map(|(lane, spans)| (lane, Union::of(spans)))
            .collect();
        (self.direct, self.causes, self.still) = (direct, causes, still);
        self.meets.sort_by_key(|meet| meet.needed.max(meet.came));
    }

    /// Charges the last lane for what the transfer after a wait is more exposed than it would be without the
    /// wait. That is as much as the last lane's own, if windows show what that one computed. Else the
    /// transfer would begin where the wait does, beside what was computed then.
    fn charge_transfer(&mut self, lanes: &[Lane], wait: &Direct) {
        let exposed =
            |lane: usize, window: usize, span: Span| lanes[lane].at(window).without_computing(span);
        let transfer = exposed(wait.lane, wait.window, (wait.whole.1, wait.end));
        let more = match lanes[wait.last].shows_computing(wait.other.0) {
            true => transfer - exposed(wait.last, wait.other.0, wait.other.1),
            false => {
                let (from, to) = wait.charged;
                transfer.min(to - from - exposed(wait.lane, wait.window, wait.charged))
            }
        };
        let piece = self.overlaps(wait.lane, wait.whole).last();
        if let Some((piece, _)) = piece.filter(|_| wait.charged.0 < wait.charged.1) {
            let sum = self.by.entry((wait.lane, wait.last, piece)).or_default();
            sum.0 += more;
        }
    }

    /// How long a lane communicated in an own piece and computed nothing, ns.
    pub fn exposed(&self, lanes: &[Lane], lane: usize, piece: usize) -> i64 {
        let span = self.own[lane][piece];
        let windows = lanes[lane].windows.iter().map(|w| &w.seen);
        let around = windows.filter(|seen| seen.known.0 < span.1 && span.0 < seen.known.1);
        let exposed = around.map(|seen| {
            let communicates = seen.communicates().within(span);
            let spans = communicates.spans().iter();
            spans.map(|span| seen.without_computing(*span)).sum::<i64>()
        });
        exposed.sum()
    }

    /// The own pieces of a lane that overlap a span, and where.
    pub fn overlaps(&self, lane: usize, span: Span) -> impl Iterator<Item = (usize, Span)> + '_ {
        overlaps(&self.own[lane], span)
    }

    /// The pieces that overlap a span, and where.
    pub fn overlaps_common(&self, span: Span) -> impl Iterator<Item = (usize, Span)> + '_ {
        overlaps(&self.pieces, span)
    }
}

fn overlaps(pieces: &[Span], span: Span) -> impl Iterator<Item = (usize, Span)> + '_ {
    let first = pieces.partition_point(|piece| piece.1 <= span.0);
    let pieces = pieces.iter().enumerate().skip(first);
    let pieces = pieces.take_while(move |(_, piece)| piece.0 < span.1);
    let common = pieces.map(move |(at, p)| (at, (p.0.max(span.0), p.1.min(span.1))));
    common.filter(|(_, span)| span.0 < span.1)
}

#[cfg(test)]
mod tests {
    use super::super::kinds::Names;
    use super::super::window::{NcclKernel, Seen};
    use super::super::LaneWindow;
    use super::*;
    use std::sync::Arc;

    const fn from(rank: u32) -> Peer {
        Peer {
            rank,
            receives: true,
        }
    }

    const fn to(rank: u32) -> Peer {
        Peer {
            rank,
            receives: false,
        }
    }

    /// One GPU with a window of 100 ns: when it computed, and its kernels: from, to, peers.
    fn lane(rank: u32, computes: &[Span], kernels: &[(i64, i64, &[Peer])]) -> Lane {
        named("ncclDevKernel_SendRecv", rank, computes, kernels)
    }

    /// The same with one AllReduce.
    fn collective(rank: u32, computes: &[Span], (start, end): Span) -> Lane {
        let kernel = (start, end, &[][..]);
        named(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            rank,
            computes,
            &[kernel],
        )
    }

    fn named(name: &str, rank: u32, computes: &[Span], kernels: &[(i64, i64, &[Peer])]) -> Lane {
        let mut seen = Seen {
            span: (0, 100),
            known: (0, 100),
            marks: vec![0, 50, 100],
            computes: Union::of(computes.to_vec()),
            ..Seen::default()
        };
        for (start, end, peers) in kernels {
            let first = seen.peers.len() as u32;
            seen.peers.extend(*peers);
            seen.nccl.push(NcclKernel {
                start: *start,
                end: *end,
                name: 1,
                correlation: 0,
                graph: 0,
                communicator: Some(0),
                call: None,
                captured_as: None,
                rank: Some(rank),
                peers: (first, seen.peers.len() as u32),
                launched: None,
            });
        }
        let names = ["", name].map(String::from);
        Lane::with(vec![LaneWindow::with(
            seen,
            Arc::new(Names::new(&names, &[])),
        )])
    }

    /// Exposed and hidden, by waiting lane and charged lane.
    fn charged(lanes: &[Lane]) -> Vec<((usize, usize), (i64, i64))> {
        let waits = waits(lanes, &[lanes.len()]);
        let mut by: HashMap<(usize, usize), (i64, i64)> = HashMap::new();
        for ((lane, last, _), (exposed, hidden)) in &waits.by {
            let sum = by.entry((*lane, *last)).or_default();
            *sum = (sum.0 + exposed, sum.1 + hidden);
        }
        let mut by: Vec<_> = by.into_iter().collect();
        by.sort_unstable();
        by
    }

    #[test]
    fn a_late_sender_is_charged_for_what_the_receiver_did_not_compute() {
        // The receiver is there from 10 on, and computes until 15; the sender comes at 40.
        let receiver = lane(1, &[(0, 15), (45, 50)], &[(10, 45, &[from(0)])]);
        let sender = lane(0, &[(0, 40)], &[(40, 45, &[to(1)])]);
        let lanes = [sender, receiver];
        assert_eq!(charged(&lanes), [((1, 0), (25, 5))]);
        assert_eq!(waits(&lanes, &[2]).direct[0].late, Late::Sender);
    }

    #[test]
    fn a_late_receiver_is_charged_too_and_a_send_that_was_over_is_not() {
        let sender = lane(0, &[(0, 10)], &[(10, 45, &[to(1)]), (60, 62, &[to(1)])]);
        let receiver = lane(1, &[(0, 40)], &[(40, 45, &[from(0)]), (80, 82, &[from(0)])]);
        let lanes = [sender, receiver];
        assert_eq!(charged(&lanes), [((0, 1), (30, 0))]);
        assert_eq!(waits(&lanes, &[2]).direct[0].late, Late::Receiver);
    }

    #[test]
    fn two_that_both_receive_at_a_time_do_not_wait_for_each_other() {
        // Rank 1 gets what rank 0 sent; the kernel in which rank 0 receives began before that was over.
        let first = lane(0, &[(50, 60)], &[(10, 22, &[to(1)]), (18, 42, &[from(1)])]);
        let second = lane(1, &[(24, 40)], &[(12, 22, &[from(0)]), (40, 42, &[to(0)])]);
        let lanes = [first, second];
        assert_eq!(charged(&lanes), [((0, 1), (24, 0))]);
        let waits = waits(&lanes, &[2]);
        assert_eq!(waits.direct.len(), 2);
        assert_eq!(waits.passed_on, 4);
    }

    #[test]
    fn who_waited_itself_passes_the_charge_on() {
        // Stage 2 waits for stage 1, which waits from 5 to 30 for stage 0 and then computes until 40.
        let lanes = [
            lane(0, &[(0, 30)], &[(30, 32, &[to(1)])]),
            lane(
                1,
                &[(0, 5), (32, 40)],
                &[(5, 32, &[from(0)]), (40, 42, &[to(2)])],
            ),
            lane(2, &[(0, 8)], &[(8, 42, &[from(1)])]),
        ];
        let charges = [((1, 0), (25, 0)), ((2, 0), (22, 0)), ((2, 1), (10, 0))];
        assert_eq!(charged(&lanes), charges);
    }

    #[test]
    fn a_transfer_that_the_wait_made_exposed_is_charged() {
        // Ranks 0 and 1 come at 10 and 40, and both end at 50. Rank 0 computes until 25 or 45.
        let late = |shown: bool| {
            let mut lane = collective(1, &[(0, 40), (45, 50)], (40, 50));
            if !shown {
                lane.timed = lane.windows.pop();
            }
            lane
        };
        let waits = |until: i64| collective(0, &[(0, until)], (10, 50));
        // With both in windows: 10 of the transfer are exposed on rank 0, and 5 on the late one.
        assert_eq!(charged(&[waits(25), late(true)]), [((0, 1), (20, 15))]);
        // Else it would have run beside what rank 0 computed from 10 on: all of it, or what is exposed now.
        assert_eq!(charged(&[waits(25), late(false)]), [((0, 1), (25, 15))]);
        assert_eq!(charged(&[waits(45), late(false)]), [((0, 1), (5, 30))]);
        // Nothing was computed from 10 on.
        assert_eq!(charged(&[waits(10), late(false)]), [((0, 1), (30, 0))]);
    }

    #[test]
    fn without_whole_steps_nobody_is_charged() {
        let mut late = lane(0, &[(0, 40)], &[(40, 45, &[to(1)])]);
        late.windows[0].seen.marks.clear();
        let other = lane(1, &[], &[(10, 45, &[from(0)])]);
        assert_eq!(charged(&[late, other]), []);
    }
}
