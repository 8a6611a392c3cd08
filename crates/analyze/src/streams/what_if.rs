//! What windows show, played again with one rank in time.
//!
//! A wait is not what the job loses by it. Others may have had work to do beside it, and what they do later
//! may wait for its effects: transfers that queue behind a late one, ranks of other communicators, the
//! stages of a pipeline. So the kernels of windows that show all GPUs at the same time are followed again
//! ([`WhatIf::earlier`]), with a late lane that has no more to do than the others. What of that arrives on
//! the other lanes is the loss.
//!
//! **What a kernel waits for.** It begins when all of these are over, and as long after the last of them as
//! it did ([`Node::lag`]):
//!
//! - The kernel before it on its stream. One of NCCL: also the one before it on its communicator, and what
//!   was launched to compute before it, because streams that communicate wait for the stream that computes.
//! - If a stream stood still before it, what ended meanwhile last, and was launched before it.
//! - What the same kernel stood still for elsewhere. Work that once stood still for an operation needs it
//!   each time, also if it was over in time ([`Needs`]). Whoever receives needs what it receives.
//!
//! One of NCCL ends as long after its last rank has begun as it did. A send or receive ends so long after it
//! and its peers have begun.
//!
//! **In time** means: the lane computes no longer than the median of the others, and is idle for no longer.
//! Where that is taken off is in [`in_time`]. What differs from step to step stays as it is.
//!
//! Rule: with nobody in time, every kernel runs when it did.

use super::intervals::{Span, Union};
use super::kinds::{function, Does, Names};
use super::waiting::Waits;
use super::window::Seen;
use super::Lane;
use crate::interval::LEAST_STRETCHES;
use capture::windows::ActivityKind;
use in_time::{Did, InTime};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use tables::windows::GpuActivity;

mod in_time;

/// Something that ran on a GPU in a window.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    span: Span,
    stream: u32,
    /// Numbers in the order of launches.
    correlation: u32,
    /// Which are the same: by name and size.
    same: u64,
    /// And by the two kernels before it on its stream.
    place: u64,
    /// Of NCCL's: its number in [`Seen::nccl`].
    nccl: Option<u32>,
    computes: bool,
}

/// What ran on a device, in the order in which it began.
pub fn ran(ran: &[GpuActivity], names: &Names) -> Vec<Ran> {
    let mut of_nccl = 0;
    let mut before: HashMap<u32, [(&str, u64); 2]> = HashMap::new();
    let all = ran.iter().map(|r| {
        let is_kernel = r.kind == ActivityKind::Kernel;
        let does = names.does(r.name);
        let nccl = (is_kernel && does == Does::Nccl).then(|| {
            of_nccl += 1;
            of_nccl - 1
        });
        let mut same = DefaultHasher::new();
        match nccl {
            Some(_) => function(names.name(r.name)).hash(&mut same),
            None => (names.name(r.name), r.size).hash(&mut same),
        }
        let mut place = DefaultHasher::new();
        let this = (names.name(r.name), r.size);
        let previous = before.entry(r.stream).or_default();
        (this, *previous).hash(&mut place);
        *previous = [this, previous[0]];
        Ran {
            // What takes no time would end before it begins, in the order of events.
            span: (r.start, r.end.max(r.start + 1)),
            stream: r.stream,
            correlation: r.correlation,
            same: same.finish(),
            place: place.finish(),
            nccl,
            computes: is_kernel && does == Does::Computes,
        }
    });
    all.collect()
}

const NONE: u32 = u32::MAX;

/// A kernel, and what it waits for.
struct Node {
    lane: u32,
    span: Span,
    same: u64,
    place: u64,
    computes: bool,
    nccl: bool,
    /// By what it begins: where in [`WhatIf::behind`].
    behind: (u32, u32),
    /// Of NCCL's: with whom it ends: where in [`WhatIf::beside`].
    beside: (u32, u32),
    /// It began so long after the last of these was over, ns.
    lag: i64,
    /// And for so long of that nothing ran, ns.
    idle: i64,
}

/// The windows of all lanes that can be played again.
pub struct WhatIf {
    nodes: Vec<Node>,
    behind: Vec<u32>,
    beside: Vec<u32>,
    /// Of nodes, by time.
    events: Vec<(i64, Event, u32)>,
    /// By lane: when anything ran.
    busy: Vec<Union>,
    /// The time that counts, in pieces.
    pieces: Vec<Span>,
    /// By lane: its cycles in that time. Why ranks were late in the first of a window may lie before it, so
    /// that one is left out.
    cycles: Vec<Vec<Span>>,
}

/// What ends goes before what begins then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ends,
    Begins,
}

/// A place in a program: a kernel of NCCL between two others, by launch.
type Place = (u64, u64, u64);

/// By place: how many kernels are launched until the one that stood still for it, and how often.
type Needs = HashMap<Place, HashMap<u32, u32>>;

/// One window of a lane while its nodes are put together.
struct Laid {
    first: u32,
    /// Places in the window, by launch: of what is on streams that compute, and of all that is not NCCL's.
    work: Vec<u32>,
    /// By node: how much of `work` was launched before it.
    launched: Vec<u32>,
}

impl WhatIf {
    /// `None` if windows do not show all lanes at the same time.
    pub fn new(lanes: &[Lane], waits: &Waits) -> Option<WhatIf> {
        let mut windows = lanes.iter().flat_map(|lane| &lane.windows);
        if !waits.shared || lanes.len() < 2 || windows.any(|window| window.ran.is_empty()) {
            return None;
        }
        let mut what_if = WhatIf {
            nodes: Vec::new(),
            behind: Vec::new(),
            beside: Vec::new(),
            events: Vec::new(),
            busy: Vec::new(),
            pieces: waits.pieces.clone(),
            cycles: lanes
                .iter()
                .map(|lane| cycles(lane, &waits.pieces))
                .collect(),
        };
        let mut needs = Needs::new();
        // What each node begins behind, until all is known.
        let mut behind: Vec<Vec<u32>> = Vec::new();
        let mut laid: Vec<(usize, usize, Laid)> = Vec::new();
        let mut place_of: HashMap<(usize, usize, usize), u32> = HashMap::new();
        for (index, lane) in lanes.iter().enumerate() {
            let windows = lane.windows.iter();
            let spans = windows.flat_map(|window| window.ran.iter().map(|ran| ran.span));
            what_if.busy.push(Union::of(spans.collect()));
            for (number, window) in lane.windows.iter().enumerate() {
                let of = what_if.lay(index, &window.ran, &window.seen, &mut behind);
                for (at, ran) in window.ran.iter().enumerate() {
                    if let Some(nccl) = ran.nccl {
                        place_of.insert((index, number, nccl as usize), of.first + at as u32);
                    }
                }
                what_if.stood_still(&window.ran, &of, &mut behind, &mut needs);
                laid.push((index, number, of));
            }
        }
        for (lane, window, of) in &laid {
            let window = &lanes[*lane].windows[*window];
            what_if.need(&window.ran, &window.seen, of, &mut behind, &needs);
        }
        what_if.meet(waits, &place_of);
        for (node, behind) in what_if.nodes.iter_mut().zip(&mut behind) {
            behind.sort_unstable();
            behind.dedup();
            node.behind.0 = what_if.behind.len() as u32;
            what_if.behind.extend(behind.iter());
            node.behind.1 = what_if.behind.len() as u32;
        }
        for at in 0..what_if.nodes.len() {
            let node = &what_if.nodes[at];
            let (from, to) = node.behind;
            let before = what_if.behind[from as usize..to as usize].iter();
            let over = before.map(|of| what_if.nodes[*of as usize].span.1).max();
            let lag = over.map_or(0, |over| node.span.0 - over);
            let busy = &what_if.busy[node.lane as usize];
            let idle = lag - busy.covers((node.span.0 - lag, node.span.0));
            let node = &mut what_if.nodes[at];
            (node.lag, node.idle) = (lag, idle);
        }
        let events = what_if.nodes.iter().zip(0..);
        what_if.events = events
            .flat_map(|(node, at)| {
                [
                    (node.span.0, Event::Begins, at),
                    (node.span.1, Event::Ends, at),
                ]
            })
            .collect();
        what_if.events.sort_unstable();
        Some(what_if)
    }

    /// Adds what ran in a window of a lane, and what it certainly waits for.
    fn lay(&mut self, lane: usize, ran: &[Ran], seen: &Seen, behind: &mut Vec<Vec<u32>>) -> Laid {
        let first = self.nodes.len() as u32;
        let mut on_stream: HashMap<u32, u32> = HashMap::new();
        let mut on_communicator: HashMap<u32, u32> = HashMap::new();
        // NCCL's kernels on a stream that computes are a part of its work.
        let computing = ran.iter().filter(|ran| ran.computes);
        let computing: HashSet<u32> = computing.map(|ran| ran.stream).collect();
        let is_work = |at: &u32| {
            let ran = &ran[*at as usize];
            ran.nccl.is_none() || computing.contains(&ran.stream)
        };
        let mut work: Vec<u32> = (0..ran.len() as u32).filter(is_work).collect();
        // Kernels of a graph have one launch, and are in the order in which they began.
        work.sort_by_key(|at| (ran[*at as usize].correlation, *at));
        let launched: Vec<u32> = (0..ran.len() as u32)
            .map(|at| {
                let own = (ran[at as usize].correlation, at);
                work.partition_point(|of| (ran[*of as usize].correlation, *of) < own) as u32
            })
            .collect();
        for (at, of) in ran.iter().enumerate() {
            let mut before: Vec<u32> = Vec::new();
            before.extend(on_stream.insert(of.stream, at as u32));
            if let Some(nccl) = of.nccl {
                let communicator = seen.nccl[nccl as usize].communicator;
                before.extend(communicator.and_then(|c| on_communicator.insert(c, at as u32)));
                // Of what was launched before it, what was over last.
                let earlier = work[..launched[at] as usize].iter().rev().take(BACK);
                let over = earlier.filter(|w| ran[**w as usize].span.1 <= of.span.0);
                before.extend(over.max_by_key(|w| ran[**w as usize].span.1));
            }
            before.retain(|before| ran[*before as usize].span.1 <= of.span.0);
            behind.push(before.into_iter().map(|before| first + before).collect());
            self.nodes.push(Node {
                lane: lane as u32,
                span: of.span,
                same: of.same,
                place: of.place,
                computes: of.computes,
                nccl: of.nccl.is_some(),
                behind: (0, 0),
                beside: (0, 0),
                lag: 0,
                idle: 0,
            });
        }
        Laid {
            first,
            work,
            launched,
        }
    }

    /// Adds what streams stood still for.
    fn stood_still(&self, ran: &[Ran], of: &Laid, behind: &mut [Vec<u32>], needs: &mut Needs) {
        let mut ended: Vec<u32> = (0..ran.len() as u32).collect();
        ended.sort_by_key(|at| ran[*at as usize].span.1);
        for (at, own) in ran.iter().enumerate() {
            let before = behind[of.first as usize + at].first().copied();
            if own.nccl.is_some() && before.is_some() {
                continue;
            }
            // What a stream did before the window is not known: then it stood still until now.
            let since = before.map_or(i64::MIN, |before| self.nodes[before as usize].span.1);
            let last = ended.partition_point(|e| ran[*e as usize].span.1 <= own.span.0);
            let meanwhile = ended[..last].iter().rev();
            let meanwhile = meanwhile.take_while(|e| ran[**e as usize].span.1 > since);
            let launched = |e: &&u32| ran[**e as usize].correlation <= own.correlation;
            let Some(on) = meanwhile.filter(launched).find(|e| **e != at as u32) else {
                continue;
            };
            behind[of.first as usize + at].push(of.first + on);
            if ran[*on as usize].nccl.is_some() && own.nccl.is_none() && before.is_some() {
                let later = of.launched[at] - of.launched[*on as usize];
                let counts = needs.entry(of.place(ran, *on)).or_default();
                *counts.entry(later).or_default() += 1;
            }
        }
    }

    /// Adds what the same work stood still for elsewhere.
    fn need(&self, ran: &[Ran], seen: &Seen, of: &Laid, behind: &mut [Vec<u32>], needs: &Needs) {
        for (at, own) in ran.iter().enumerate() {
            let Some(nccl) = own.nccl else { continue };
            let known = needs.get(&of.place(ran, at as u32)).and_then(|counts| {
                let most = counts.iter().max_by_key(|(later, n)| (**n, **later));
                most.map(|(later, _)| *later)
            });
            let receives = seen.peers_of(&seen.nccl[nccl as usize]);
            let receives = receives.iter().any(|peer| peer.receives).then_some(0);
            let Some(later) = known.or(receives) else {
                continue;
            };
            let Some(user) = of.work.get((of.launched[at] + later) as usize) else {
                continue;
            };
            if own.span.1 <= ran[*user as usize].span.0 {
                behind[(of.first + user) as usize].push(of.first + at as u32);
            }
        }
    }

    /// Adds with whom NCCL's kernels end.
    fn meet(&mut self, waits: &Waits, place_of: &HashMap<(usize, usize, usize), u32>) {
        let mut beside: HashMap<u32, Vec<u32>> = HashMap::new();
        for of in &waits.together {
            let parts = of.iter().map(|part| place_of.get(&part.key()).copied());
            let Some(parts) = parts.collect::<Option<Vec<u32>>>() else {
                continue;
            };
            for part in &parts {
                beside.entry(*part).or_default().extend(&parts);
            }
        }
        for (part, others) in &waits.sent {
            let Some(own) = place_of.get(&part.key()) else {
                continue;
            };
            let others = others.iter().filter_map(|other| place_of.get(&other.key()));
            beside.entry(*own).or_default().extend(others);
        }
        for (at, node) in (0..).zip(&mut self.nodes) {
            node.beside.0 = self.beside.len() as u32;
            self.beside.extend(beside.get(&at).into_iter().flatten());
            node.beside.1 = self.beside.len() as u32;
        }
    }

    fn behind(&self, node: &Node) -> &[u32] {
        &self.behind[node.behind.0 as usize..node.behind.1 as usize]
    }

    fn beside(&self, node: &Node) -> &[u32] {
        &self.beside[node.beside.0 as usize..node.beside.1 as usize]
    }

    /// By node: by how much it begins earlier, if kernels are shorter by `shorter` and begin as much sooner
    /// after what they wait for as `sooner` says; ns by node.
    fn earlier(&self, shorter: &[f64], sooner: &[f64]) -> Vec<f64> {
        // When it begins and ends now.
        let mut begins = vec![0.0f64; self.nodes.len()];
        let mut ends = vec![0.0f64; self.nodes.len()];
        for (_, event, at) in &self.events {
            let at = *at as usize;
            let node = &self.nodes[at];
            let (start, end) = (node.span.0 as f64, node.span.1 as f64);
            if *event == Event::Begins {
                let behind = self.behind(node).iter();
                let over = behind.map(|of| ends[*of as usize]).reduce(f64::max);
                begins[at] = over.map_or(start, |over| over + node.lag as f64 - sooner[at]);
                continue;
            }
            let others = self.beside(node).iter();
            let others = others.filter(|other| self.nodes[**other as usize].span.0 < node.span.1);
            let (mut came, mut comes) = (start, begins[at]);
            for other in others {
                came = came.max(self.nodes[*other as usize].span.0 as f64);
                comes = comes.max(begins[*other as usize]);
            }
            ends[at] = comes + (end - came).max(0.0) - shorter[at];
        }
        let earlier = self.nodes.iter().zip(&begins);
        earlier
            .map(|(node, begins)| node.span.0 as f64 - begins)
            .collect()
    }

    /// What each lane would compute in the time that counts if nobody waited, by which are the same, and for
    /// how long nothing ran. `cuts` are by node.
    fn did(&self, cuts: &[f64]) -> Vec<Did> {
        let mut did: Vec<Did> = self.busy.iter().map(|_| Did::default()).collect();
        let counts = Union::of(self.pieces.clone());
        for (node, cut) in self.nodes.iter().zip(cuts) {
            let of = &mut did[node.lane as usize];
            let long = (node.span.1 - node.span.0) as f64;
            let inside = counts.covers(node.span) as f64 / long;
            if node.computes && inside > 0.0 {
                of.computed(node, inside, long - cut);
            }
            if counts.covers((node.span.0, node.span.0 + 1)) > 0 {
                of.was_idle(node);
            }
        }
        for (of, busy) in did.iter_mut().zip(&self.busy) {
            let pieces = self.pieces.iter();
            of.idle = pieces.map(|p| (p.1 - p.0 - busy.covers(*p)) as f64).sum();
        }
        did
    }

    /// The lanes that compute or are idle for longest, so many at most, ascending.
    pub fn with_most_to_do(&self, most: usize) -> Vec<usize> {
        let did = self.did(&vec![0.0; self.nodes.len()]);
        let does = |lane: usize| did[lane].computed + did[lane].idle;
        let mut lanes: Vec<usize> = (0..did.len()).collect();
        lanes.sort_by(|a, b| does(*b).total_cmp(&does(*a)));
        lanes.truncate(most);
        lanes.sort_unstable();
        lanes
    }

    /// As [`Lost::left`], if kernels are so much shorter, and the late lane is idle for this part less.
    fn left(&self, late: usize, shorter: &[f64], less_idle: f64) -> Vec<(f64, f64)> {
        let mut computed = vec![vec![0.0; self.busy.len()]; self.pieces.len()];
        for (node, cut) in self.nodes.iter().zip(shorter).filter(|(n, _)| n.computes) {
            let long = (node.span.1 - node.span.0) as f64;
            let first = self.pieces.partition_point(|piece| piece.1 <= node.span.0);
            let pieces = self.pieces.iter().enumerate().skip(first);
            for (at, piece) in pieces.take_while(|(_, piece)| piece.0 < node.span.1) {
                let inside = node.span.1.min(piece.1) - node.span.0.max(piece.0);
                computed[at][node.lane as usize] += inside as f64 * (1.0 - cut / long);
            }
        }
        let of = |(piece, computed): (&Span, Vec<f64>)| {
            let does = |lane: usize| {
                let idle = (piece.1 - piece.0 - self.busy[lane].covers(*piece)) as f64;
                let less = if lane == late { less_idle } else { 0.0 };
                computed[lane] + (1.0 - less) * idle
            };
            let others = (0..self.busy.len()).filter(|lane| *lane != late);
            let more = does(late) - median(others.map(does).collect());
            (more, (piece.1 - piece.0) as f64)
        };
        self.pieces.iter().zip(computed).map(of).collect()
    }

    /// How long the cycles of a lane are together, ns.
    pub fn shown(&self, lane: usize) -> i64 {
        self.cycles[lane].iter().map(|span| span.1 - span.0).sum()
    }

    /// What a lane loses by `late` in each of its cycles, ns. `paces` say by lane what it computes faster or
    /// slower now than it would.
    pub fn loss(&self, late: usize, other: usize, paces: &[Pace]) -> Option<Lost> {
        // What kernels would take less.
        let of_others = self
            .nodes
            .iter()
            .map(|node| match &paces[node.lane as usize] {
                pace if node.computes && node.lane as usize != late => {
                    let long = (node.span.1 - node.span.0) as f64;
                    let beside = pace.waits.covers(node.span) as f64;
                    let alone = long - pace.lost * beside;
                    long - alone * (1.0 + pace.slower)
                }
                _ => 0.0,
            });
        let mut shorter: Vec<f64> = of_others.collect();
        let did = self.did(&shorter);
        let in_time = InTime::new(&did, late)?;
        let mut sooner = vec![0.0; self.nodes.len()];
        let of_late = self.nodes.iter().enumerate();
        for (at, node) in of_late.filter(|(_, node)| node.lane as usize == late) {
            if node.computes {
                shorter[at] = (node.span.1 - node.span.0) as f64 * in_time.shorter(node);
            }
            sooner[at] = node.idle as f64 * in_time.sooner(node);
        }
        let left = self.left(late, &shorter, in_time.less_idle);
        let earlier = self.earlier(&shorter, &sooner);
        let mut by_lane: Vec<Vec<(i64, f64)>> = vec![Vec::new(); did.len()];
        for (node, earlier) in self.nodes.iter().zip(&earlier).filter(|(n, _)| !n.nccl) {
            by_lane[node.lane as usize].push((node.span.0, *earlier));
        }
        by_lane
            .iter_mut()
            .for_each(|of| of.sort_by_key(|(at, _)| *at));
        let at = |lane: usize, time: i64| {
            let of = &by_lane[lane];
            let next = of.partition_point(|(at, _)| *at <= time);
            next.checked_sub(1).map_or(0.0, |last| of[last].1)
        };
        let each = self.cycles[other].iter();
        let by_cycle = each.map(|span| (*span, at(other, span.1) - at(other, span.0)));
        Some(Lost {
            by_cycle: by_cycle.collect(),
            left,
        })
    }
}

/// The cycles of a lane's windows within the time that counts, but for the first of each, if enough are left.
/// If steps differ, they are from one to the next of the kernel that comes back least often.
fn cycles(lane: &Lane, pieces: &[Span]) -> Vec<Span> {
    let counts = Union::of(pieces.to_vec());
    let marks_of_none = lane
        .windows
        .iter()
        .all(|window| window.seen.marks.is_empty());
    let of = |span: &Span| {
        let inside = |at: &i64| (span.0..=span.1).contains(at);
        let marks = lane.windows.iter().flat_map(|window| &window.seen.marks);
        let mut marks: Vec<i64> = marks.copied().filter(inside).collect();
        if marks_of_none {
            let ran = lane.windows.iter().flat_map(|window| &window.ran);
            let mut begun: HashMap<u64, Vec<i64>> = HashMap::new();
            for ran in ran.filter(|ran| ran.computes && inside(&ran.span.0)) {
                begun.entry(ran.same).or_default().push(ran.span.0);
            }
            let long = |at: &[i64]| at[at.len() - 1] - at[0];
            let most = |at: &Vec<i64>| at.len() > 2 && 2 * long(at) > span.1 - span.0;
            let begun = begun.into_values().filter(most);
            marks = begun.min_by_key(|at| (at.len(), at[0])).unwrap_or_default();
        }
        let pairs = marks.windows(2).enumerate();
        let pairs = pairs.map(|(at, pair)| ((pair[0], pair[1]), at == 0));
        pairs.collect::<Vec<(Span, bool)>>()
    };
    let all: Vec<(Span, bool)> = counts.spans().iter().flat_map(of).collect();
    let later = all.iter().filter(|(_, is_first)| !is_first);
    match later.clone().count() >= LEAST_STRETCHES {
        true => later.map(|(span, _)| *span).collect(),
        false => all.iter().map(|(span, _)| *span).collect(),
    }
}

/// What a lane loses by another, played again.
pub struct Lost {
    /// In each of its cycles, ns.
    pub by_cycle: Vec<(Span, f64)>,
    /// What the late lane, in time, has to do more than the others do, and how long a piece is, ns; of each
    /// piece of the time that counts.
    pub left: Vec<(f64, f64)>,
}

/// By how much a lane computes at another pace while it waits.
pub struct Pace<'a> {
    /// When its kernels of NCCL wait.
    pub waits: &'a Union,
    /// Which part of what it computes meanwhile is lost to them.
    pub lost: f64,
    /// By which part it would be slower if it did not wait: it is cooler now.
    pub slower: f64,
}

/// Of an even number of values, the mean of the two in the middle.
fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    let half = all.len() / 2;
    match all.len() % 2 {
        1 => all[half],
        _ => (all[half - 1] + all[half]) / 2.0,
    }
}

/// How far back in the order of launches the work is looked for that an operation waits for. What was over
/// last was launched last, but for streams that compute beside each other.
const BACK: usize = 64;

impl Laid {
    /// Where in the program a kernel of NCCL is.
    fn place(&self, ran: &[Ran], nccl: u32) -> Place {
        let at = self.launched[nccl as usize] as usize;
        let same = |at: Option<usize>| {
            let of = at.and_then(|at| self.work.get(at));
            of.map_or(u64::from(NONE), |of| ran[*of as usize].same)
        };
        let own = ran[nccl as usize].same;
        (own, same(at.checked_sub(1)), same(Some(at)))
    }
}
