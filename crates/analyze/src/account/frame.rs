//! The frame of the account: the steps, and the wall time of each.
//!
//! The boundary is the rarest kind of launch that all lanes make all the time. If a lane makes the same
//! launches between any two of them, and these are more than a layer's, that is a step. Else the pattern of
//! the distances says how many are in a step: a pause after every twentieth step makes no step of twenty,
//! unless nearly all of the time is in such pauses. Then what repeats are the layers of a model whose
//! parameters are averaged now and then. A kind that comes once in twenty steps, with an evaluation, is no
//! boundary if one that comes more often marks steps that take nearly all of the time.
//!
//! Rule: the walls are of the GPUs' clocks where the boundary was timed, because a host may run ahead.

use super::launches::{Kind, Lane, Launch};
use crate::steps::pattern::{
    self, clamped_logs, places_differ, ENOUGH_TIMES, LEAST_TIMES, MOST_TIMES,
};
use crate::steps::LEAST_US;
use crate::time::Nanos;
use std::collections::HashMap;
use std::hash::Hash;

/// A kind of launch that comes less often is no boundary.
const LEAST: usize = 16;

/// Fewer times of boundaries say nothing of single steps.
const LEAST_TIMED: usize = 8;

/// Lanes make as many steps, or differ by no more than this.
const ALIKE: f64 = 1.1;

/// So many kinds of launches are more than a layer's,
const MORE_KINDS: usize = 3;

/// and so are more of one kind: a layer that is split over GPUs gathers four times.
const MOST_OF_LAYER: usize = 4;

/// Launches are the same in so many steps, if they are the same in all.
const ALWAYS: f64 = 0.9;

/// Usual steps take at least this part of the time. No job spends nine tenths of its time in pauses.
const LEAST_USUAL: f64 = 0.1;

/// Usual steps of a kind that is not the rarest take at least this part of the time. The layers of a
/// backward pass, which have calls that a forward pass lacks, take three quarters if it computes the forward
/// pass again.
const NEARLY_ALL: f64 = 0.8;

/// A kind that comes so many times as often may mark a part of what another one marks.
const MORE_OFTEN: f64 = 1.5;

/// Calls say how long steps take together if that is known to this part.
const UNKNOWN: f64 = 0.1;

/// A step that is this much longer than the median is a stall.
pub const LONG: f64 = 1.5;

/// Times whose logarithms vary less do not repeat.
const LEAST_VARIANCE: f64 = 1e-4;
/// Nor do those whose correlation with themselves is smaller at each distance.
const LIKE_THEMSELVES: f64 = 0.3;
/// Nor if it is no more than so many standard deviations of that of random times.
const RANDOM_ALIKE: f64 = 4.0;

/// The steps.
#[derive(Debug)]
pub struct Frame {
    /// By lane: when its host began each step, and ended the last one, ns.
    pub begins: Vec<Vec<i64>>,
    /// How long each step took, ns: the mean over lanes.
    pub wall: Vec<f64>,
    /// Steps of the start-up, before these.
    pub skipped: usize,
    /// The hosts say how long steps are, because too few boundaries have GPU times.
    pub by_hosts: bool,
    /// A step is so many times the same launches, and only their times say that these are one step; 1 if it
    /// is not.
    pub equal_parts: usize,
}

impl Frame {
    /// All steps together, ns.
    pub fn total(&self) -> f64 {
        self.wall.iter().sum()
    }

    /// The steps that are in, together, ns.
    pub fn total_of(&self, is_in: &[bool]) -> f64 {
        let steps = self.wall.iter().zip(is_in).filter(|(_, is)| **is);
        steps.map(|(ns, _)| ns).sum()
    }

    /// Whether a long step is long on the hosts of all lanes, if only these say so: it or one beside it,
    /// because a host may be ahead.
    pub fn is_long_on_all(&self, step: usize, usual: &[f64]) -> bool {
        let excess = self.wall[step] - usual[step];
        let is_long = |begins: &Vec<i64>| {
            let (from, to) = (step.saturating_sub(1), (step + 2).min(begins.len() - 1));
            let took = (begins[to] - begins[from]) as f64;
            took - usual[step] * (to - from) as f64 > (LONG - 1.0) / LONG * excess
        };
        !self.by_hosts || self.begins.iter().all(is_long)
    }

    /// The median step, ns.
    pub fn median(&self) -> f64 {
        median(self.wall.clone())
    }

    /// The step in which a lane's host was at this moment; `None` before the first and behind the last.
    pub fn step(&self, lane: usize, at: i64) -> Option<usize> {
        let begins = &self.begins[lane];
        let step = begins
            .partition_point(|begin| *begin <= at)
            .checked_sub(1)?;
        (step < self.wall.len()).then_some(step)
    }

    /// The same of many moments, each asked for after the earlier ones.
    pub fn steps_in_order(&self, lane: usize) -> impl FnMut(i64) -> Option<usize> + '_ {
        let begins = &self.begins[lane];
        let mut begun = 0;
        move |at| {
            while begins.get(begun).is_some_and(|begin| *begin <= at) {
                begun += 1;
            }
            begun.checked_sub(1).filter(|step| *step < self.wall.len())
        }
    }

    /// The steps of these lanes; `None` if no kind of launch marks them.
    pub fn find(lanes: &[Lane]) -> Option<Frame> {
        let by_kind = || Frame::of(lanes, boundary(lanes)?);
        let by_program = || Frame::of(lanes, Boundary::whole(by_program(lanes)?));
        by_kind().or_else(by_program)
    }

    /// With these boundaries.
    fn of(lanes: &[Lane], boundary: Boundary) -> Option<Frame> {
        let Boundary {
            mut marks,
            is_whole,
            equal_parts,
        } = boundary;
        let begins_late = lanes.iter().any(|lane| lane.begins_late);
        let together = made_together(lanes, &marks, begins_late);
        let (least, most) = range(together.iter().copied())?;
        let periods = if most as f64 <= ALIKE * least as f64 {
            let (least, _) = range(marks.iter().map(Vec::len))?;
            for marks in &mut marks {
                // Lanes end together, or begin together.
                let surplus = marks.len() - least;
                marks.drain(if begins_late {
                    0..surplus
                } else {
                    least..marks.len()
                });
            }
            let period = if is_whole { 1 } else { period(&marks) };
            vec![period; marks.len()]
        } else {
            let of = |marks: &Vec<(i64, i64)>| period(std::slice::from_ref(marks));
            let periods: Vec<usize> = marks.iter().map(of).collect();
            let steps = together.iter().zip(&periods).map(|(n, period)| n / period);
            let (least, most) = range(steps)?;
            if most as f64 > ALIKE * least as f64 + 1.0 {
                return None;
            }
            periods
        };
        let by_times = periods.iter().any(|period| *period > 1);
        // From the end, so that odd calls of the start-up don't shift the phase.
        for (marks, period) in marks.iter_mut().zip(periods) {
            let mut kept: Vec<(i64, i64)> = marks.iter().rev().step_by(period).copied().collect();
            kept.reverse();
            *marks = kept;
        }
        let least = marks.iter().map(Vec::len).min()?;
        for marks in &mut marks {
            marks.drain(..marks.len() - least);
        }
        let by_hosts = marks.iter().any(|marks| is_sparse(marks));
        let on_gpu = |(lane, marks): (&Lane, &Vec<(i64, i64)>)| on_gpu_of(lane, marks);
        let mut marks: Vec<Vec<Mark>> = lanes.iter().zip(&marks).map(on_gpu).collect();
        marks.iter_mut().for_each(|marks| place_unknown_ends(marks));
        let steps = marks[0].len().checked_sub(1).filter(|steps| *steps > 0)?;
        // Hosts without a GPU time say nothing if others have some.
        let has_times = |marks: &&Vec<Mark>| marks.iter().any(|mark| mark.is_timed);
        let known: Vec<&Vec<Mark>> = marks.iter().filter(has_times).collect();
        let by_calls = known.is_empty();
        let known = if by_calls {
            marks.iter().collect()
        } else {
            known
        };
        let wall = |i: usize| {
            let sum: f64 = known.iter().map(|m| m[i + 1].end - m[i].end).sum();
            sum / known.len() as f64
        };
        let wall: Vec<f64> = (0..steps).map(wall).collect();
        let skipped = start_up(&wall, by_calls);
        let begins = marks
            .iter()
            .map(|m| m[skipped..].iter().map(|mark| mark.api).collect());
        let begins: Vec<Vec<i64>> = begins.collect();
        let parts = lanes
            .iter()
            .zip(&begins)
            .map(|(lane, begins)| same_calls(lane, begins));
        let parts = by_times.then(|| parts.reduce(gcd)).flatten();
        Some(Frame {
            equal_parts: parts.unwrap_or(equal_parts),
            begins,
            wall: wall[skipped..].to_vec(),
            skipped,
            by_hosts,
        })
    }
}

/// What comes most often, and how often; of equals the largest.
fn most_frequent<T: Hash + Ord>(all: impl IntoIterator<Item = T>) -> Option<(T, usize)> {
    let mut counts: HashMap<T, usize> = HashMap::new();
    for of in all {
        *counts.entry(of).or_default() += 1;
    }
    counts
        .into_iter()
        .max_by(|(a, n), (b, m)| n.cmp(m).then(a.cmp(b)))
}

fn gcd(a: usize, b: usize) -> usize {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}

/// How many times the same launches make a lane's usual step, by where steps begin; 1 if they are no
/// repetition.
fn same_calls(lane: &Lane, begins: &[i64]) -> usize {
    let begins = &begins[begins.len().saturating_sub(MOST_TIMES)..];
    let of_step = |step: &[i64]| {
        let at = |time| lane.launches.partition_point(|launch| launch.api < time);
        (at(step[0]), at(step[1]))
    };
    let symbols = symbols(lane);
    let calls = |(from, to): (usize, usize)| -> Vec<u32> {
        let calls = (from..to).filter(|at| !lane.launches[*at].in_graph);
        calls.map(|at| symbols[at]).collect()
    };
    let usual = most_frequent(begins.windows(2).map(of_step).map(calls));
    usual.map_or(1, |(calls, _)| pattern::equal_parts(&calls).max(1))
}

/// By lane, how many boundaries it makes while all lanes are there. Lanes that begin late end with the
/// others: that says when this is without a clock that they share.
fn made_together(lanes: &[Lane], marks: &Marks, begins_late: bool) -> Vec<usize> {
    let ends = |lane: &Lane| Some((lane.launches.first()?.api, lane.launches.last()?.api));
    let lasts = lanes.iter().filter_map(ends).map(|(from, to)| to - from);
    let together = lasts.min().filter(|_| begins_late).unwrap_or(i64::MAX);
    let of_lane = |(lane, marks): (&Lane, &Vec<(i64, i64)>)| {
        let end = ends(lane).map_or(0, |(_, to)| to);
        let before = marks.partition_point(|(api, _)| end.saturating_sub(*api) > together);
        marks.len() - before
    };
    lanes.iter().zip(marks).map(of_lane).collect()
}

/// A boundary.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// When it was called, ns.
    api: i64,
    /// When it ended on the GPU, ns; when it was called if too few were timed.
    end: f64,
    /// `end` was timed.
    is_timed: bool,
}

pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => f64::NAN,
        _ if n % 2 == 1 => values[n / 2],
        _ => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// The value below which this part of sorted ones is.
pub(super) fn quantile(sorted: &[f64], part: f64) -> f64 {
    sorted[(part * (sorted.len() - 1) as f64).round() as usize]
}

/// The least and the most.
fn range(mut of: impl Iterator<Item = usize>) -> Option<(usize, usize)> {
    let first = of.next()?;
    Some(of.fold((first, first), |(least, most), n| {
        (least.min(n), most.max(n))
    }))
}

/// The launches of the kind that marks steps. Kinds of a communicator come first, then what lanes do alike on
/// communicators of their own.
///
/// Kinds count that come often enough on all lanes, from early to late among their launches. Times say less:
/// the first call of a kind may take as long as a hundred steps. The rarest of them is taken, unless one that
/// comes more often marks steps.
fn boundary(lanes: &[Lane]) -> Option<Boundary> {
    let own = |kind: &Kind| *kind;
    let alike = |kind: &Kind| Kind {
        communicator: u32::MAX,
        ..*kind
    };
    marks(lanes, own).or_else(|| marks(lanes, alike))
}

/// By lane: when boundaries are called, and end on the GPU if that is known.
type Marks = Vec<Vec<(i64, i64)>>;

/// What marks steps.
struct Boundary {
    marks: Marks,
    /// What lies between two of them is a step.
    is_whole: bool,
    /// See [`Frame::equal_parts`].
    equal_parts: usize,
}

impl Boundary {
    /// What lies between two of these is one step.
    fn whole(marks: Marks) -> Boundary {
        Boundary {
            marks,
            is_whole: true,
            equal_parts: 1,
        }
    }
}

fn marks(lanes: &[Lane], name: impl Fn(&Kind) -> Kind) -> Option<Boundary> {
    // By kind: the lanes that make it, how often each does at least, and within which part of their launches.
    let mut kinds: HashMap<Kind, (usize, usize, f64)> = HashMap::new();
    for lane in lanes {
        let mut own: HashMap<Kind, (usize, usize, usize)> = HashMap::new();
        let names: Vec<Kind> = lane.kinds.iter().map(&name).collect();
        let mut all = 0;
        for launch in lane.launches.iter().filter(|launch| !launch.in_graph) {
            let kind = names[launch.kind as usize];
            let (n, _, last) = own.entry(kind).or_insert((0, all, all));
            (*n, *last) = (*n + 1, all);
            all += 1;
        }
        for (kind, (n, first, last)) in own {
            let part = (last - first + 1) as f64 / all as f64;
            let of = kinds.entry(kind).or_insert((0, usize::MAX, 1.0));
            *of = (of.0 + 1, of.1.min(n), of.2.min(part));
        }
    }
    let fitting = [0.6, 0.3, 0.0].iter().find_map(|part| {
        let fits = |(_, of): &(&Kind, &(usize, usize, f64))| {
            of.0 == lanes.len() && of.1 >= LEAST && of.2 > *part
        };
        let found = kinds.iter().filter(fits);
        let mut found: Vec<(usize, Kind)> = found.map(|(kind, of)| (of.1, *kind)).collect();
        found.sort_unstable();
        (!found.is_empty()).then_some(found)
    })?;
    let is_of = |lane: &Lane, kind: Kind| -> Vec<bool> {
        lane.kinds.iter().map(|k| name(k) == kind).collect()
    };
    let of = |kind: Kind| -> Marks {
        let of = |lane: &Lane| {
            let is = is_of(lane, kind);
            let marks = lane.launches.iter();
            let marks = marks.filter(|l| is[l.kind as usize] && !l.in_graph);
            marks.map(|l| (l.api, l.stop)).collect()
        };
        lanes.iter().map(of).collect()
    };
    // Kinds that come about as often mark the same.
    let (mut often, mut more_often) = (fitting[0].0 as f64, Vec::new());
    for (n, kind) in &fitting {
        if *n as f64 >= MORE_OFTEN * often {
            often = *n as f64;
            more_often.push(*kind);
        }
    }
    for kind in more_often.into_iter().rev() {
        let is_step = |lane: &Lane| usual_launches(lane, &is_of(lane, kind), false).is_some();
        if lanes.iter().all(is_step) {
            let marks = of(kind);
            if marks.iter().all(|marks| usual_part(marks) >= NEARLY_ALL) {
                return Some(Boundary::whole(marks));
            }
        }
    }
    let kind = fitting[0].1;
    let usual = |lane: &Lane| usual_launches(lane, &is_of(lane, kind), true);
    let usual: Option<Vec<Vec<u32>>> = lanes.iter().map(usual).collect();
    let marks = of(kind);
    let is_mostly = |marks: &Vec<(i64, i64)>| usual_part(marks) >= LEAST_USUAL;
    let usual = usual.filter(|_| marks.iter().all(is_mostly));
    Some(Boundary {
        is_whole: usual.is_some(),
        equal_parts: usual.map_or(1, |usual| {
            steps_between(&lanes[0], &is_of(&lanes[0], kind), &usual[0])
        }),
        marks,
    })
}

/// How many steps may lie between two boundaries if a lane usually makes these launches there: as often as
/// the times of the most frequent kind come again within them. An evaluation after each tenth step marks ten
/// of them. What comes again must be more than a layer's, and last as long as a step may.
fn steps_between(lane: &Lane, is_mark: &[bool], usual: &[u32]) -> usize {
    let is_known = |kind: &u32| (*kind as usize) < lane.kinds.len();
    let Some((kind, n)) = most_frequent(usual.iter().copied().filter(is_known)) else {
        return 1;
    };
    // What lies between two of them; what has a boundary in it says nothing.
    let (mut gaps, mut before) = (Vec::new(), None);
    for launch in lane.launches.iter().filter(|l| !l.in_graph) {
        if is_mark[launch.kind as usize] {
            before = before.map(|(api, _)| (api, false));
        }
        if launch.kind == kind {
            let gap = before.map(|(api, is_known)| is_known.then_some((launch.api - api) as f64));
            gaps.extend(gap);
            before = Some((launch.api, true));
        }
    }
    gaps.drain(..gaps.len().saturating_sub(ENOUGH_TIMES));
    let usual = median(gaps.iter().flatten().copied().collect());
    let gaps: Vec<f64> = gaps.into_iter().map(|gap| gap.unwrap_or(usual)).collect();
    let again = repeat_after(&gaps);
    let lasts = gaps.iter().sum::<f64>() / gaps.len() as f64 * again as f64;
    let is_step = again > MOST_OF_LAYER && Nanos(lasts).us() >= LEAST_US;
    match n % again {
        0 if is_step => n / again,
        _ => 1,
    }
}

/// Boundaries where lanes send and receive: the first such launch of each step. A pipeline fills and drains
/// in each step, so its launches come again after a step and not before. The last stage has the same ones for
/// each micro-batch. Its step has so many of these as take as long. The job ends with a step. What all ranks
/// do beside that, as after an evaluation, is no part of this.
fn by_program(lanes: &[Lane]) -> Option<Marks> {
    let of_lane = |lane: &Lane| {
        let is_exchange = |launch: &Launch| lane.kinds[launch.kind as usize].is_exchange();
        let has_exchanges = lane.launches.iter().any(is_exchange);
        let all = symbols(lane).into_iter().zip(&lane.launches);
        let all = all.filter(|(_, l)| !l.in_graph && (is_exchange(l) || !has_exchanges));
        let all = all.map(|(symbol, launch)| (symbol, (launch.api, launch.stop)));
        let (symbols, launches): (Vec<u32>, Vec<(i64, i64)>) = all.unzip();
        (launches, repeats(&symbols))
    };
    let (all, periods): (Marks, Vec<usize>) = lanes.iter().map(of_lane).unzip();
    // On average, behind the start-up.
    let took = |(all, period): (&Vec<(i64, i64)>, &usize)| {
        let of = &all[all.len() / 5..];
        let steps = (of.len() - 1) as f64 / (*period > 0).then_some(*period)? as f64;
        Some((of.last()?.0 - of.first()?.0) as f64 / steps)
    };
    let lasts = all.iter().zip(&periods).map(took);
    let lasts: Vec<f64> = lasts.collect::<Option<_>>()?;
    let took = lasts.iter().copied().fold(0.0, f64::max);
    let of_lane = |lane: usize| {
        let times = (took / lasts[lane]).round();
        let step = times as usize * periods[lane];
        let marks = all[lane].rchunks_exact(step).map(|launches| launches[0]);
        let mut marks: Vec<(i64, i64)> = marks.collect();
        marks.reverse();
        let is_whole = (times * lasts[lane] / took - 1.0).abs() < ALIKE - 1.0;
        (is_whole && marks.len() > LEAST).then_some(marks)
    };
    let marks = (0..lanes.len()).map(of_lane);
    let longest = *periods.iter().max()?;
    marks
        .collect::<Option<Marks>>()
        .filter(|_| longest > MOST_OF_LAYER)
}

/// What each launch of a lane is, by number: its kind, and whom it sends to or receives from.
pub(super) fn symbols(lane: &Lane) -> Vec<u32> {
    let mut exchanges = lane.exchanges.iter().peekable();
    let mut known: HashMap<(Kind, Vec<(u32, u32)>), u32> = HashMap::new();
    // By kind, of launches without sends and receives.
    let mut collectives = vec![None; lane.kinds.len()];
    let mut symbols = Vec::with_capacity(lane.launches.len());
    for (index, launch) in lane.launches.iter().enumerate() {
        let mut with = Vec::new();
        while let Some(of) = exchanges.next_if(|of| of.launch as usize <= index) {
            with.push((of.from, of.to));
        }
        let mut number = |with| {
            let what = (lane.kinds[launch.kind as usize].of_place(), with);
            let next = known.len() as u32;
            *known.entry(what).or_insert(next)
        };
        symbols.push(if with.is_empty() {
            *collectives[launch.kind as usize].get_or_insert_with(|| number(with))
        } else {
            number(with)
        });
    }
    symbols
}

/// After how many of them symbols come again: the least distance at which about as few differ as at any; 0 if
/// a hundredth does, as where evaluations come between steps. The first fifth is start-up.
fn repeats(symbols: &[u32]) -> usize {
    let symbols = &symbols[symbols.len() / 5..];
    let mut best: Option<(usize, usize)> = None;
    for distance in 1..symbols.len() / LEAST {
        let pairs = symbols.len() - distance;
        let most = best.map_or(pairs / 100, |(differ, _)| differ / 2);
        let all = symbols[distance..].iter().zip(symbols);
        let differ = all.filter(|(a, b)| a != b).take(most + 1).count();
        if differ < most {
            best = Some((differ, distance));
        }
        if differ == 0 {
            break;
        }
    }
    best.map_or(0, |(_, distance)| distance)
}

/// What a lane usually launches from one of these to the next. `None` if that is not nearly always the same,
/// or no more than a layer's. More are several different launches, one of them very often, or a graph if that
/// may be a step. What has other kinds of launches, too, is no step: an evaluation. But if the same kinds
/// come in other numbers, again and again after as many, then these are layers: one in so many is the last.
fn usual_launches(lane: &Lane, is_mark: &[bool], of_graph: bool) -> Option<Vec<u32>> {
    let mut segments: Vec<Vec<u32>> = Vec::new();
    // Sends and receives differ in size from step to step.
    let first_like = |of: u32| match lane.kinds[of as usize] {
        kind if !kind.is_exchange() => of,
        _ => u32::MAX,
    };
    for launch in lane.launches.iter().filter(|l| !l.in_graph) {
        if is_mark[launch.kind as usize] {
            segments.push(Vec::new());
        } else if let Some(last) = segments.last_mut() {
            last.push(first_like(launch.kind));
        }
    }
    segments.pop();
    let (usual, same) = most_frequent(&segments)?;
    let mut counts: HashMap<u32, usize> = HashMap::new();
    let mark = is_mark.iter().position(|is| *is).map(|at| at as u32);
    usual
        .iter()
        .chain(&mark)
        .for_each(|kind| *counts.entry(*kind).or_default() += 1);
    let is_graph = |kind: &u32| {
        let known = lane.kinds.get(*kind as usize);
        known.is_some_and(|kind| kind.graph != 0)
    };
    let is_more = counts.len() >= MORE_KINDS
        || counts.values().any(|n| *n > MOST_OF_LAYER)
        || of_graph && counts.keys().any(is_graph);
    let is_last = |segment: &Vec<u32>| {
        segment != usual && segment.iter().all(|kind| counts.contains_key(kind))
    };
    let others = (0..segments.len()).filter(|at| is_last(&segments[*at]));
    let others: Vec<usize> = others.collect();
    let apart: Vec<usize> = others.windows(2).map(|of| of[1] - of[0]).collect();
    let middle = apart.get(apart.len() / 2).copied().unwrap_or(0);
    let as_far = apart.iter().filter(|apart| **apart == middle).count();
    let are_layers = others.len() >= LEAST && as_far as f64 >= ALWAYS * apart.len() as f64;
    let is_step = is_more && !are_layers && same as f64 >= ALWAYS * segments.len() as f64;
    is_step.then(|| usual.clone())
}

/// The part of the time that usual steps take, if these are the boundaries. The gaps are the GPU's, if that
/// is known: a host that makes ten steps at once, and then waits for them, has gaps that say nothing.
fn usual_part(marks: &[(i64, i64)]) -> f64 {
    let is_known = timed(marks).len() >= LEAST_TIMED;
    let marks = on_gpu(marks);
    let gaps: Vec<f64> = marks.windows(2).map(|of| of[1].end - of[0].end).collect();
    let (n, all) = (gaps.len() as f64, gaps.iter().sum::<f64>());
    n * if is_known {
        usual(&marks)
    } else {
        median(gaps)
    } / all
}

/// The usual gap between boundaries on the GPU: the median between two that were timed, whatever is between
/// them; NaN if fewer were.
fn usual(marks: &[Mark]) -> f64 {
    let timed: Vec<usize> = (0..marks.len()).filter(|at| marks[*at].is_timed).collect();
    let gap = |of: &[usize]| (marks[of[1]].end - marks[of[0]].end) / (of[1] - of[0]) as f64;
    median(timed.windows(2).map(gap).collect())
}

/// How many boundaries make a step: the smallest distance at which the gaps between them repeat; 1 without a
/// pattern. The gaps are the hosts': all of their calls have a time.
fn period(marks: &[Vec<(i64, i64)>]) -> usize {
    let n = marks[0].len().saturating_sub(1);
    let gap = |i: usize| {
        let log = |m: &Vec<(i64, i64)>| ((m[i + 1].0 - m[i].0) as f64).max(1e3).ln();
        (marks.iter().map(log).sum::<f64>() / marks.len() as f64).exp()
    };
    let gaps: Vec<f64> = (0..n).map(gap).collect();
    repeat_after(&gaps)
}

/// After how many of them times come again: the smallest distance at which their logarithms are like
/// themselves; 1 if they don't. Layers differ that much. For what differs less, as micro-batches do,
/// [`steps::repeat_after`](crate::steps::repeat_after) says that a step may be several: here, a rank that is
/// late now and then would make steps of several.
fn repeat_after(times: &[f64]) -> usize {
    let times = &times[times.len() / 5..];
    let n = times.len();
    if n < LEAST_TIMES {
        return 1;
    }
    let mut logs = clamped_logs(times, 200);
    let mean = logs.iter().sum::<f64>() / n as f64;
    logs.iter_mut().for_each(|log| *log -= mean);
    let variance = logs.iter().map(|log| log * log).sum::<f64>() / n as f64;
    if variance < LEAST_VARIANCE {
        return 1;
    }
    let most = (n / 6).min(MOST_TIMES);
    let at = |lag: usize| {
        let sum: f64 = logs[lag..].iter().zip(&logs).map(|(a, b)| a * b).sum();
        sum / (n - lag) as f64 / variance
    };
    let by_lag: Vec<f64> = (0..most).map(at).collect();
    let best = by_lag.iter().skip(2).copied().fold(0.0, f64::max);
    if best < LIKE_THEMSELVES.max(RANDOM_ALIKE / (n as f64).sqrt()) {
        return 1;
    }
    let first = (2..most).find(|lag| by_lag[*lag] >= 0.85 * best);
    let first = first.unwrap_or(1);
    let is_like = by_lag[first] > 1.15 * by_lag[1] || by_lag[1] < 0.5 * best;
    if is_like && places_differ(&logs, first) {
        first
    } else {
        1
    }
}

/// The boundaries with a GPU time: when they were called, and how long after it they ended, ns.
fn timed(marks: &[(i64, i64)]) -> Vec<(f64, f64)> {
    let timed = marks.iter().filter(|(_, stop)| *stop != 0);
    timed
        .map(|(api, stop)| (*api as f64, (stop - api) as f64))
        .collect()
}

/// So few boundaries were timed that the hosts say how long steps are. Where some were, the GPUs do for all
/// together.
fn is_sparse(marks: &[(i64, i64)]) -> bool {
    timed(marks).len() < LEAST_TIMED.max(marks.len() / 10)
}

/// When each boundary of this lane ended on the GPU. Before the first and behind the last one that was timed,
/// or if few were, other launches say how far the host was ahead. These may wait for longer or shorter than
/// boundaries do: by as much as where both were timed. Those of the start-up say nothing of steps.
fn on_gpu_of(lane: &Lane, marks: &[(i64, i64)]) -> Vec<Mark> {
    let is_mark = |api: i64| marks.binary_search_by_key(&api, |(api, _)| *api).is_ok();
    let first = marks.first().map_or(0, |(api, _)| *api);
    // Calls in a graph are all launched with it, and end one after the other.
    let is_other = |l: &&Launch| l.stop != 0 && !l.in_graph && l.api > first && !is_mark(l.api);
    let others = lane.launches.iter().filter(is_other);
    let others: Vec<(i64, i64)> = others.map(|launch| (launch.api, launch.stop)).collect();
    let (own, others) = (timed(marks), timed(&others));
    let between = own.first().zip(own.last()).filter(|_| !is_sparse(marks));
    let is_between = |api: f64| between.is_some_and(|(a, b)| (a.0..=b.0).contains(&api));
    let longer = own.iter().map(|(api, lead)| lead - lead_at(&others, *api));
    let longer = median(longer.collect());
    let longer = if longer.is_nan() { 0.0 } else { longer };
    let beside = others.into_iter().filter(|(api, _)| !is_between(*api));
    let beside: Vec<(f64, f64)> = beside.map(|(api, lead)| (api, lead + longer)).collect();
    if beside.len() < LEAST_TIMED {
        return on_gpu(marks);
    }
    let mut known = own.clone();
    known.extend(beside);
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ends = known.first().zip(known.last()).map(|(a, b)| (a.0, b.0));
    let is_within = |api: f64| ends.is_some_and(|(from, to)| (from..=to).contains(&api));
    let mut marks = behind_host(marks, &known);
    for mark in &mut marks {
        let api = mark.api as f64;
        mark.is_timed |= is_within(api) && !is_between(api);
    }
    // None ends behind the next one.
    for at in (1..marks.len()).rev() {
        marks[at - 1].end = marks[at - 1].end.min(marks[at].end);
    }
    marks
}

/// When each boundary ended on the GPU: where it was not timed, its call and what lay between call and end
/// around it.
fn on_gpu(marks: &[(i64, i64)]) -> Vec<Mark> {
    behind_host(marks, &timed(marks))
}

/// The same, if that much lay between call and end of launches that were timed.
fn behind_host(marks: &[(i64, i64)], known: &[(f64, f64)]) -> Vec<Mark> {
    let mark = |(api, stop): &(i64, i64)| Mark {
        api: *api,
        end: *api as f64 + lead_at(known, *api as f64),
        is_timed: *stop != 0,
    };
    marks.iter().map(mark).collect()
}

/// How long after a call at this moment its launch ended, by those around it, ns; nothing if none is known.
fn lead_at(known: &[(f64, f64)], api: f64) -> f64 {
    let after = known.partition_point(|(at, _)| *at < api);
    match (after.checked_sub(1).map(|i| known[i]), known.get(after)) {
        (None, Some((_, lead))) => *lead,
        (Some((_, lead)), None) => lead,
        (Some((a, from)), Some((b, to))) => from + (to - from) * (api - a) / (b - a).max(1.0),
        (None, None) => 0.0,
    }
}

/// Places the boundaries before the first one that was timed, and behind the last, as far from each other as
/// those between usually are. That is where their calls say too little: a GPU may be behind its host by
/// anything between nothing and what it was at the one that was timed, which is much against the time that
/// they span.
fn place_unknown_ends(marks: &mut [Mark]) {
    let first = marks.iter().position(|mark| mark.is_timed);
    let last = marks.iter().rposition(|mark| mark.is_timed);
    let (Some(first), Some(last)) = (first, last) else {
        return;
    };
    if first == last {
        return;
    }
    let usual = usual(marks);
    let is_unknown = |timed: Mark, from: Mark, to: Mark| {
        timed.end - timed.api as f64 > UNKNOWN * (to.api - from.api) as f64
    };
    let (begin, end) = (marks[first], marks[last]);
    if is_unknown(begin, marks[0], begin) {
        for (n, mark) in (1..).zip(marks[..first].iter_mut().rev()) {
            mark.end = begin.end - f64::from(n) * usual;
        }
    }
    if is_unknown(end, end, marks[marks.len() - 1]) {
        for (n, mark) in (1..).zip(&mut marks[last + 1..]) {
            mark.end = end.end + f64::from(n) * usual;
        }
    }
}

/// Steps before the first four in a row of which no more are long than in a quarter of all such. If only
/// calls say how long steps are, they are short until the host is as far ahead of its GPU as it can be.
fn start_up(wall: &[f64], by_calls: bool) -> usize {
    let usual = median(wall.to_vec());
    let n = wall.len();
    let is_odd = |ns: &&f64| **ns > LONG * usual || by_calls && **ns < usual / LONG;
    let odd = |four: &[f64]| four.iter().filter(is_odd).count();
    let mut all: Vec<usize> = wall.windows(4).map(odd).collect();
    all.sort_unstable();
    let few = all.get(all.len() / 4).copied().unwrap_or(0);
    let most = n.saturating_sub(4).min((n / 2).max(5));
    let first = (0..most).find(|i| odd(&wall[*i..i + 4]) <= few);
    let least = if n >= 20 { 2 } else { 1 };
    first.unwrap_or(0).max(least).min(n - 1)
}

#[cfg(test)]
mod tests {
    use super::super::launches::{Exchange, Launch};
    use super::*;

    const MS: i64 = 1_000_000;

    /// Two lanes that make such launches in each step of 10 ms, with a pause of 90 ms after every 16th.
    fn lanes(of_a_step: &[u32]) -> Vec<Lane> {
        lanes_that_pause(of_a_step, 90 * MS)
    }

    /// The same with such a pause.
    fn lanes_that_pause(of_a_step: &[u32], pause: i64) -> Vec<Lane> {
        let name = tables::Names::default().intern("AllReduce");
        let kinds = (0..4).map(|bytes| Kind {
            communicator: 0,
            function: name,
            bytes,
            graph: 0,
        });
        let launch = |(at, kind): (i64, &u32)| Launch {
            api: at,
            kind: *kind,
            ..Launch::default()
        };
        let step = |step: i64| {
            let begin = MS + step * 10 * MS + step / 16 * pause;
            let times = (0..).map(move |n| begin + n * MS);
            times.zip(of_a_step).map(launch).collect::<Vec<Launch>>()
        };
        let lane = |_| Lane {
            kinds: kinds.clone().collect(),
            launches: (0..320).flat_map(step).collect(),
            ..Lane::default()
        };
        (0..2).map(lane).collect()
    }

    /// A lane that sends (`+`) to the next rank or receives (`-`) from it, and the same (`>`, `<`) of the
    /// rank before, in steps of 12 ms.
    fn stage(own: u32, of_a_step: &str, steps: usize) -> Lane {
        let mut lane = Lane {
            kinds: vec![Kind {
                communicator: 0,
                function: tables::Name::NONE,
                bytes: 8,
                graph: 0,
            }],
            ..Lane::default()
        };
        let apart = 12 * MS / of_a_step.len() as i64;
        for (n, call) in of_a_step.repeat(steps).chars().enumerate() {
            lane.exchanges.push(Exchange {
                launch: n as u32,
                communicator: 0,
                from: own,
                to: if "+-".contains(call) {
                    own + 1
                } else {
                    own - 1
                },
                own: Some(own),
            });
            if "-<".contains(call) {
                let exchange = &mut lane.exchanges[n];
                (exchange.from, exchange.to) = (exchange.to, exchange.from);
            }
            lane.launches.push(Launch {
                api: MS + n as i64 * apart,
                ..Launch::default()
            });
        }
        lane
    }

    #[test]
    fn a_pipeline_that_only_sends_and_receives_has_steps_from_filling_to_draining() {
        // Three stages with four micro-batches. To the last one, each micro-batch is the same.
        let stages = |last: &str, steps: usize| {
            let (first, middle) = ("+++-+---", "<+<+-><+-><+->->");
            let (first, middle) = (stage(0, first, steps), stage(1, middle, steps));
            [first, middle, stage(2, last, steps)]
        };
        let frame = Frame::find(&stages("<><><><>", 40)).expect("steps");
        assert_eq!((frame.wall.len(), frame.skipped), (37, 2));
        for begins in &frame.begins {
            assert!(begins.windows(2).all(|of| of[1] - of[0] == 12 * MS));
            assert_eq!(begins[0], 25 * MS);
        }
        // The last stage is there from its second half of the sixth step on.
        let mut late = stages("<><><><>", 40);
        late[2].launches.drain(..44);
        late[2].exchanges.drain(..44);
        late[2].exchanges.iter_mut().for_each(|of| of.launch -= 44);
        late[2].begins_late = true;
        let frame = Frame::find(&late).expect("steps");
        assert_eq!(frame.wall.len() + frame.skipped, 33);
        assert!(frame.wall.iter().all(|ns| *ns == 12e6), "{frame:?}");
        // What all stages add up after every tenth step is an evaluation's.
        let mut evaluates = stages("<><><><>", 40);
        for lane in &mut evaluates {
            let name = tables::Names::default().intern("AllReduce");
            lane.kinds.push(Kind {
                function: name,
                ..lane.kinds[0]
            });
            let of_step = lane.launches.len() / 40;
            for after in (10..40).step_by(10).rev() {
                let at = after * of_step;
                let launch = Launch {
                    api: lane.launches[at].api - MS / 4,
                    kind: 1,
                    ..Launch::default()
                };
                lane.launches.insert(at, launch);
                let later = lane
                    .exchanges
                    .iter_mut()
                    .filter(|of| of.launch as usize >= at);
                later.for_each(|of| of.launch += 1);
            }
        }
        let frame = Frame::find(&evaluates).expect("steps");
        assert_eq!((frame.wall.len(), frame.skipped), (37, 2));
        // An evaluation after every tenth step that sends shifts the others.
        let evaluated = "<><><><>".repeat(10) + "<<<<";
        assert!(by_program(&stages(&evaluated, 4)).is_none());
        // What is the same all the time has no steps.
        let alike = [stage(0, "+-", 400), stage(1, "<>", 400)];
        assert!(by_program(&alike).is_none());
    }

    #[test]
    fn a_pause_after_many_steps_does_not_make_them_one_step() {
        let frame = Frame::find(&lanes(&[0, 1, 2, 1, 3])).expect("steps");
        assert_eq!(frame.wall.len() + frame.skipped, 319);
    }

    #[test]
    fn patterns_between_long_pauses_are_layers() {
        let frame = Frame::find(&lanes_that_pause(&[0, 1, 2, 1, 3], 2_000 * MS)).expect("steps");
        assert_eq!(frame.wall.len() + frame.skipped, 19);
    }

    #[test]
    fn steps_between_evaluations_are_steps() {
        let mut lanes = lanes_that_pause(&[0, 1, 2, 1, 3], 15 * MS);
        for lane in &mut lanes {
            lane.kinds.push(Kind {
                bytes: 9,
                ..lane.kinds[0]
            });
            // One call more in each pause after 16 steps.
            let evaluation = |n: i64| Launch {
                api: MS + n * 175 * MS - 10 * MS,
                kind: 4,
                ..Launch::default()
            };
            lane.launches.extend((1..20).map(evaluation));
            lane.launches.sort_by_key(|launch| launch.api);
        }
        let frame = Frame::find(&lanes).expect("steps");
        assert_eq!(frame.wall.len() + frame.skipped, 319);
    }

    #[test]
    fn steps_that_a_host_makes_at_once_are_steps() {
        // A ring passes seven pieces on and reduces once. The host makes ten steps within 2 ms and waits.
        // Of the calls that reduce, each or one in seven is timed.
        for one_in in [1, 7] {
            let mut lanes = lanes(&[1, 1, 1, 1, 1, 1, 1, 0]);
            for launch in lanes
                .iter_mut()
                .flat_map(|lane| (0..).zip(&mut lane.launches))
            {
                let (i, launch): (i64, &mut Launch) = launch;
                let step = i / 8;
                let is_timed = i % 8 != 7 || step % one_in == 0;
                launch.stop = i64::from(is_timed) * (MS + step * 10 * MS + i % 8 * MS);
                launch.api = MS + step / 10 * 100 * MS + i % 80 * MS / 40;
            }
            let frame = Frame::find(&lanes).expect("steps");
            assert_eq!(frame.wall.len() + frame.skipped, 319);
        }
    }

    #[test]
    fn a_first_call_that_takes_long_does_not_hide_what_marks_steps() {
        // What comes once in a step comes first after as long as the whole rest of the run.
        let mut lanes = lanes_that_pause(&[0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 3], 0);
        for lane in &mut lanes {
            let first = lane.launches.iter().position(|launch| launch.kind == 3);
            let wait = lane.launches.last().map_or(0, |launch| launch.api);
            let late = &mut lane.launches[first.expect("it is there")..];
            late.iter_mut().for_each(|launch| launch.api += wait);
        }
        let frame = Frame::find(&lanes).expect("steps");
        assert_eq!(frame.wall.len() + frame.skipped, 319);
    }

    #[test]
    fn the_start_up_has_more_long_steps_than_the_rest() {
        let steps = |long: fn(usize) -> bool| -> Vec<f64> {
            (0..100)
                .map(|step| if long(step) { 3e7 } else { 1e7 })
                .collect()
        };
        assert_eq!(start_up(&steps(|step| step < 6), false), 6);
        // A host that only calls is ahead after ten steps.
        let calls = |step: usize| step >= 10;
        assert_eq!(start_up(&steps(calls), true), 10);
        assert_eq!(start_up(&steps(calls), false), 2);
        // In one of three steps, a host is late.
        assert_eq!(start_up(&steps(|step| step % 3 == 0), false), 2);
        assert_eq!(start_up(&steps(|step| step < 6 || step % 3 == 0), false), 7);
    }

    #[test]
    fn layers_that_are_alike_are_no_steps() {
        let frame = Frame::find(&lanes(&[0])).expect("steps");
        assert!(
            frame.wall.len() + frame.skipped < 21,
            "{}",
            frame.wall.len()
        );
    }

    #[test]
    fn hosts_that_are_far_ahead_say_nothing_of_how_long_steps_are() {
        let mut lanes = lanes(&[0, 1, 2, 1, 3]);
        for (lane, shift) in lanes.iter_mut().zip([0, 40]) {
            let launches = lane.launches.len() as i64;
            for (i, launch) in (0..).zip(&mut lane.launches) {
                // The GPU's moments, but where the first and the last three steps were not timed.
                let is_timed = (15..launches - 15).contains(&i);
                launch.stop = if is_timed { launch.api + 100 * MS } else { 0 };
                // All is launched within 16 ms, and the hosts do not do so at the same time.
                launch.api = shift * MS + i * MS / 100;
            }
        }
        let frame = Frame::find(&lanes).expect("steps");
        assert_eq!(frame.wall.len() + frame.skipped, 319);
        assert!(frame.wall.iter().all(|ns| *ns >= 10e6), "{:?}", frame.wall);
    }

    #[test]
    fn few_times_say_how_long_all_steps_are_together() {
        let mut lanes = lanes(&[0, 1, 2, 1, 3]);
        for launch in lanes.iter_mut().flat_map(|lane| &mut lane.launches) {
            // The host needs 9 ms for a step, of which the GPU takes 10. One in 32 is timed.
            let of_gpu = launch.api;
            launch.api = of_gpu / 10 * 9;
            let step = of_gpu / (10 * MS);
            launch.stop = if step % 32 == 5 { of_gpu + MS } else { 0 };
        }
        let frame = Frame::find(&lanes).expect("steps");
        assert!(frame.by_hosts);
        let mean = frame.total() / frame.wall.len() as f64;
        let truth = 10e6 + 20.0 * 90e6 / 320.0;
        assert!((mean / truth - 1.0).abs() < 0.02, "{mean} {truth}");
    }

    #[test]
    fn where_boundaries_were_not_timed_other_launches_say_how_far_hosts_are_ahead() {
        let mut lanes = lanes(&[0, 1, 2, 1, 3]);
        let pauses = |step: i64| step / 16 * 90 * MS;
        for launch in lanes.iter_mut().flat_map(|lane| &mut lane.launches) {
            // The host makes all steps in 7 of the 10 ms that the GPU takes, and none of its pauses.
            let of_gpu = launch.api;
            let step = (0..320)
                .rev()
                .find(|step| of_gpu >= MS + step * 10 * MS + pauses(*step));
            launch.api = (of_gpu - pauses(step.expect("a step"))) / 10 * 7;
            launch.stop = if launch.kind == 1 { of_gpu + MS } else { 0 };
        }
        let frame = Frame::find(&lanes).expect("steps");
        let mean = frame.total() / frame.wall.len() as f64;
        let truth = 10e6 + 19.0 * 90e6 / 319.0;
        assert!((mean / truth - 1.0).abs() < 0.01, "{mean} {truth}");
    }

    /// Two lanes with such launches one after the other: the kind of each, and how long after the one before.
    fn in_order(of: impl Fn(usize) -> Vec<(u32, i64)>, steps: usize) -> Vec<Lane> {
        let mut all = lanes(&[0]);
        for lane in &mut all {
            let mut api = MS;
            let launches = (0..steps).flat_map(&of).map(|(kind, after)| {
                api += after;
                Launch {
                    api,
                    kind,
                    ..Launch::default()
                }
            });
            lane.launches = launches.collect();
        }
        all
    }

    #[test]
    fn layers_of_which_the_last_is_another_are_no_steps() {
        // The gradients of ten layers are reduced one by one, and then all layers go forward.
        let layer = |_| [&[(0, MS)][..], &[(1, MS), (2, MS)].repeat(3)].concat();
        let forward = [(1, MS / 2), (2, MS / 2)].repeat(10);
        let step = |_| [(0..10).flat_map(layer).collect(), forward.clone()].concat();
        let frame = Frame::find(&in_order(step, 100)).expect("steps");
        assert_eq!(frame.wall.len() + frame.skipped, 99);
        assert_eq!(frame.equal_parts, 1);
    }

    #[test]
    fn what_evaluations_mark_may_be_so_many_steps() {
        // A forward pass, and a backward pass that takes twice as long.
        let pass = |long: i64| [(1, long * MS), (2, long * MS)].repeat(3);
        let calls = [pass(1), pass(2)].concat();
        let step = |number: usize| {
            let evaluation = [(0, 40 * MS)].repeat(usize::from(number % 13 == 12));
            [evaluation, calls.clone()].concat()
        };
        let frame = Frame::find(&in_order(step, 520)).expect("steps");
        assert_eq!(frame.wall.len() + frame.skipped, 39);
        assert_eq!(frame.equal_parts, 13);
        // If all calls take as long, nothing says that it is more than one step.
        let alike = |number: usize| {
            step(number)
                .into_iter()
                .map(|(kind, _)| (kind, MS))
                .collect()
        };
        let frame = Frame::find(&in_order(alike, 520)).expect("steps");
        assert_eq!(frame.equal_parts, 1);
    }

    #[test]
    fn steps_that_only_times_show_may_be_shorter() {
        let frame = Frame::find(&lanes(&[0])).expect("steps");
        assert_eq!(frame.equal_parts, 16);
        let frame = Frame::find(&lanes(&[0, 1, 2, 1, 3])).expect("steps");
        assert_eq!(frame.equal_parts, 1);
    }

    #[test]
    fn a_lane_that_begins_late_has_the_last_steps() {
        for part in [2, 20] {
            let mut lanes = lanes(&[0, 1, 2, 1, 3]);
            let all = lanes[0].launches.len();
            let late = &mut lanes[1];
            late.launches.drain(..all / 5 / part * 5);
            late.begins_late = true;
            let begins = late.launches[0].api;
            let frame = Frame::find(&lanes).expect("steps");
            assert!(frame.begins[0][0] >= begins - MS, "{part}");
            assert_eq!(frame.begins[0], frame.begins[1]);
        }
    }

    #[test]
    fn a_host_that_stands_still_alone_makes_no_long_step() {
        let mut lanes = lanes(&[0, 1, 2, 1, 3]);
        // The host of lane 0 is ahead: after a pause of 45 ms it has caught up in 10 steps.
        let mut behind = 45 * MS;
        for launch in &mut lanes[0].launches[500..550] {
            launch.api += behind;
            behind = (behind - MS).max(0);
        }
        let frame = Frame::find(&lanes).expect("steps");
        let usual = vec![frame.median(); frame.wall.len()];
        let long = (0..frame.wall.len()).filter(|step| frame.wall[*step] > LONG * frame.median());
        let (all, alone): (Vec<usize>, Vec<usize>) =
            long.partition(|s| frame.is_long_on_all(*s, &usual));
        assert!(all.len() == 19 && !alone.is_empty(), "{all:?} {alone:?}");
    }

    #[test]
    fn long_times_that_lie_apart_by_chance_do_not_repeat() {
        // A host that stands still in some of its steps, twice of these seven and fourteen steps apart.
        let long = [43, 50, 57, 90, 97, 104, 111, 150];
        let noise = |i: usize| ((i * 7919 + i * i * 31) % 101) as f64 * 1e3;
        let time = |i: usize| if long.contains(&i) { 4e6 } else { 2e6 } + noise(i);
        let times: Vec<f64> = (0..200).map(time).collect();
        assert_eq!(repeat_after(&times), 1);
        // A pause after each seventh step does.
        let time = |i: usize| if i.is_multiple_of(7) { 4e6 } else { 2e6 } + noise(i);
        let times: Vec<f64> = (0..200).map(time).collect();
        assert_eq!(repeat_after(&times), 7);
    }
}
