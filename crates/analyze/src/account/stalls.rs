//! Steps that took much longer than usual, and which lane made them so.
//!
//! Ranks that are late by as much in other steps, or in turns, do not stall: that is their habit.
//!
//! Rule: a stall is priced by the wall of its step, and by no more than others waited. It and its neighbours
//! are left out of the habit, because a host that runs ahead stalls in one step and its GPU waits in
//! another. A long step that no lane stalled stays in the habit, so that its time is in one of both. If only
//! hosts' times say how long steps are, a stall is one that all hosts see: one that is ahead of its GPU
//! stands still and nobody waits.
//!
//! Where of no call it is known for how long computing stood still, the time that calls took on the GPU says
//! it. Other work may hide them, but what makes a step longer is not hidden.
//!
//! Rule: many stalls are a habit. One is seen if calls of its step were timed, so without those that were
//! seen, the other timed steps have less waiting than all steps have.

use super::frame::{median, Frame, LONG};
use super::places::{Cell, Places};
use super::work::Work;

/// A lane is blamed for a stall if what is known of it explains this part.
const EXPLAINS: f64 = 0.4;

/// Fewer regular steps tell nothing of a habit.
const LEAST_REGULAR: usize = 5;

/// A mean over so many stalls is known to [`super::LEAST_HALF`] of it: that is one over its square root.
const MANY: u64 = 13;

/// See [`far_out`].
const FENCE: f64 = 7.0;

/// Stalls by lane.
#[derive(Debug)]
pub struct Stalls {
    /// What they cost, ns of the wall.
    pub ns: Vec<f64>,
    /// Of that: how much later the lane's host launched than usual.
    pub by_host: Vec<f64>,
    /// How many.
    pub count: Vec<u64>,
    /// The longest step of these: what it costs, ns, and which one it is.
    pub longest: Vec<Option<(f64, usize)>>,
    /// Which steps a lane stalled.
    steps: Vec<usize>,
}

impl Stalls {
    /// What a lane's stalls cost more than those of another one on average, ns. All lanes stall now and then
    /// by what else runs on their hosts, and no lane owns that.
    pub fn beyond_others(&self, lane: usize) -> f64 {
        let others = (self.ns.len() - 1).max(1) as f64;
        let of_others = self.ns.iter().sum::<f64>() - self.ns[lane];
        (self.ns[lane] - of_others / others).max(0.0)
    }

    /// Which steps are no stalls and no neighbours of one.
    pub fn regular(&self, frame: &Frame) -> Vec<bool> {
        let mut regular = vec![true; frame.wall.len()];
        for step in &self.steps {
            let to = (step + 2).min(regular.len());
            regular[step.saturating_sub(1)..to].fill(false);
        }
        regular
    }

    /// Whether what is known of all steps says better what they cost than their own walls: a lane has many,
    /// or few steps are left without them.
    pub fn are_many(&self, frame: &Frame) -> bool {
        let regular = self.regular(frame).into_iter().filter(|is| *is).count();
        self.count.iter().any(|count| *count >= MANY)
            || !self.steps.is_empty() && regular < LEAST_REGULAR
    }
}

/// The stalls that a lane made; `usual` is how long each step usually takes at that time of the run.
pub fn find(places: &Places, frame: &Frame, work: &Work, usual: &[f64]) -> Stalls {
    let steps = frame.wall.len();
    let mut stalls = Stalls {
        ns: vec![0.0; places.lanes],
        by_host: vec![0.0; places.lanes],
        count: vec![0; places.lanes],
        longest: vec![None; places.lanes],
        steps: Vec::new(),
    };
    let is_long = |step: &usize| {
        frame.wall[*step] > LONG * usual[*step] && frame.is_long_on_all(*step, usual)
    };
    let long: Vec<usize> = (0..steps).filter(is_long).collect();
    if long.is_empty() {
        return stalls;
    }
    // By step: operations, and those that are known to stand still. By step and lane: for how much less than
    // others it stood still in the same operations, as far as that is known; and how late it launched most.
    let mut seen = vec![(0u32, 0u32); steps];
    let mut less = vec![0.0; steps * places.lanes];
    let mut late = vec![0.0f64; steps * places.lanes];
    let mut of_place: Vec<(usize, usize, f64)> = Vec::new();
    let mut close = |of_place: &mut Vec<(usize, usize, f64)>| {
        of_place.sort_by_key(|of| of.1);
        for own in of_place.chunk_by(|a, b| a.1 == b.1) {
            let usual = median(own.iter().map(|of| of.2).collect());
            for (step, lane, by) in own {
                let late = &mut late[step * places.lanes + lane];
                let by = by - usual;
                *late = if by.abs() > late.abs() { by } else { *late };
            }
        }
        of_place.clear();
    };
    // Without a GPU time no operation is known, but all lanes begin each step. Hosts that run ahead of their
    // GPUs begin them at other times, so this is for want of anything else.
    if places.operations().next().is_none() {
        for step in 0..steps {
            let begins = frame.begins.iter().map(|of| of[step]).enumerate();
            for (lane, by) in after_others(&begins.collect::<Vec<_>>()) {
                of_place.push((step, lane, by));
            }
        }
        close(&mut of_place);
    }
    let mut cells = places.operations().flatten();
    let stands_still = cells.any(|cell| cell.still().is_some());
    let mut place = 0;
    for operation in places.operations() {
        if operation[0].place != place {
            close(&mut of_place);
            place = operation[0].place;
        }
        let step = operation[0].step as usize;
        let of = |time: &dyn Fn(&Cell) -> Option<f64>| -> Vec<(u32, f64)> {
            let all = operation.iter();
            all.filter_map(|cell| Some((cell.lane, time(cell)?)))
                .collect()
        };
        let timed = if stands_still {
            of(&|cell| cell.still())
        } else {
            of(&|cell| cell.launch.length())
        };
        let sum: f64 = timed.iter().map(|(_, ns)| ns).sum();
        seen[step].0 += 1;
        seen[step].1 += u32::from(timed.len() > 1);
        for (lane, ns) in timed.iter().filter(|_| timed.len() > 1) {
            let others = (sum - ns) / (timed.len() - 1) as f64;
            less[step * places.lanes + *lane as usize] += others - ns;
        }
        let launched = operation.iter().map(|of| (of.lane as usize, of.launched()));
        for (lane, by) in after_others(&launched.collect::<Vec<_>>()) {
            of_place.push((step, lane, by));
        }
    }
    close(&mut of_place);
    let (much_less, much_later) = (far_out(&less, places.lanes), far_out(&late, places.lanes));
    // The lane, the step, and the stall so far with its first step.
    let mut before: Option<(usize, usize, (f64, usize))> = None;
    for step in long {
        let excess = frame.wall[step] - usual[step];
        let around = step.saturating_sub(1)..(step + 2).min(steps);
        let less = |lane: usize| -> f64 {
            let steps = around.clone();
            steps.map(|s| less[s * places.lanes + lane]).sum()
        };
        let operations = |of: fn(&(u32, u32)) -> u32| -> f64 {
            seen[around.clone()]
                .iter()
                .map(|seen| f64::from(of(seen)))
                .sum()
        };
        let unseen = 1.0 - operations(|seen| seen.1) / operations(|seen| seen.0).max(1.0);
        // A host that was ahead, and waited for its GPU, launches later than usual, too. It did not work.
        let by_host = |lane: usize| {
            let at = |s: usize| late[s * places.lanes + lane];
            let next = (step + 1).min(steps - 1);
            let worked = work.beyond_usual(lane, around.clone());
            at(step).max(at(next)).min(worked.unwrap_or(f64::INFINITY))
        };
        let most = |value: &dyn Fn(usize) -> f64, far: f64| {
            let lanes = 0..places.lanes;
            let lane = lanes.max_by(|a, b| value(*a).total_cmp(&value(*b)).then(b.cmp(a)));
            lane.filter(|lane| value(*lane) >= EXPLAINS * excess && value(*lane) > far)
        };
        let by_waits = most(&less, much_less);
        if let Some(lane) = by_waits.or_else(|| most(&by_host, much_later)) {
            // What others did not wait for is not its doing, but operations that were not timed may have the
            // rest of the waits.
            let excess = if by_waits.is_some() {
                excess.min(less(lane) + unseen * excess)
            } else {
                excess
            };
            stalls.steps.push(step);
            stalls.ns[lane] += excess;
            stalls.by_host[lane] += by_host(lane).clamp(0.0, excess);
            // Hosts and GPUs see a stall in neighbouring steps.
            let begun = before
                .filter(|(of, last, _)| (*of, *last) == (lane, step.wrapping_sub(1)))
                .map(|(.., begun)| begun);
            stalls.count[lane] += u64::from(begun.is_none());
            let (ns, first) = begun.map_or((excess, step), |(ns, first)| (ns + excess, first));
            if stalls.longest[lane].is_none_or(|(longest, _)| longest < ns) {
                stalls.longest[lane] = Some((ns, first));
            }
            before = Some((lane, step, (ns, first)));
        }
    }
    stalls
}

/// From where on the highest value of a step is far out of those of the run, by step and lane. Tukey's outer
/// fence lies three interquartile ranges above the upper quartile: seven times as far from the median as the
/// lower quartile is, if noise is symmetric. The lower half of the steps is noise even if many stall.
fn far_out(values: &[f64], lanes: usize) -> f64 {
    let steps = values.chunks(lanes);
    let mut highest: Vec<f64> = steps
        .map(|of| of.iter().copied().fold(0.0, f64::max))
        .collect();
    highest.sort_unstable_by(f64::total_cmp);
    let at = |part: usize| {
        highest
            .get(highest.len() * part / 4)
            .copied()
            .unwrap_or(0.0)
    };
    at(2) + FENCE * (at(2) - at(1))
}

/// By how much each lane was later than the others on average, ns; nothing for one lane. `at` is when.
fn after_others(at: &[(usize, i64)]) -> impl Iterator<Item = (usize, f64)> + '_ {
    let first = at.first().map_or(0.0, |(_, at)| *at as f64);
    let sum: f64 = at.iter().map(|(_, at)| *at as f64 - first).sum();
    at.iter()
        .filter(|_| at.len() > 1)
        .map(move |(lane, at_ns)| {
            let own = *at_ns as f64 - first;
            (*lane, own - (sum - own) / (at.len() - 1) as f64)
        })
}
