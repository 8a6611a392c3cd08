//! The frame of the account: the steps, and the wall time of each.
//!
//! The boundary is the rarest kind of launch that all lanes make all the time. If there are several of it in
//! a step, the pattern of their distances says how many.
//!
//! Rule: the walls are of the GPUs' clocks where the boundary was timed, because a host may run ahead.

use super::launches::{Kind, Lane};
use std::collections::HashMap;

/// A kind of launch that comes less often is no boundary.
const LEAST: usize = 16;

/// Lanes make as many steps, or differ by no more than this.
const ALIKE: f64 = 1.1;

/// A step that is this much longer than the median is a stall.
pub const LONG: f64 = 1.5;

/// The steps.
#[derive(Debug)]
pub struct Frame {
    /// By lane: when its host began each step, and ended the last one, ns.
    pub begins: Vec<Vec<i64>>,
    /// How long each step took, ns: the mean over lanes.
    pub wall: Vec<f64>,
    /// Steps of the start-up, before these.
    pub skipped: usize,
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

    /// The steps of these lanes; `None` if no kind of launch marks them.
    pub fn find(lanes: &[Lane]) -> Option<Frame> {
        let mut marks = boundary(lanes)?;
        let steps_of = |marks: &Vec<(i64, i64)>, period: usize| marks.len() / period;
        let (least, most) = range(marks.iter().map(Vec::len))?;
        let periods = match most as f64 <= ALIKE * least as f64 {
            true => {
                marks.iter_mut().for_each(|m| m.truncate(least));
                vec![period(&marks); marks.len()]
            }
            // A lane in the middle of a pipeline has more of them in a step.
            false => {
                let of = |marks: &Vec<(i64, i64)>| period(std::slice::from_ref(marks));
                let periods: Vec<usize> = marks.iter().map(of).collect();
                let steps = marks.iter().zip(&periods).map(|(m, p)| steps_of(m, *p));
                let (least, most) = range(steps)?;
                if most as f64 > ALIKE * least as f64 + 1.0 {
                    return None;
                }
                periods
            }
        };
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
        let ends: Vec<Vec<f64>> = marks.iter().map(|m| on_gpu(m)).collect();
        let steps = marks[0].len().checked_sub(1).filter(|steps| *steps > 0)?;
        let wall = |i: usize| {
            let sum: f64 = ends.iter().map(|ends| ends[i + 1] - ends[i]).sum();
            sum / ends.len() as f64
        };
        let wall: Vec<f64> = (0..steps).map(wall).collect();
        let skipped = start_up(&wall);
        let begins = marks
            .iter()
            .map(|m| m[skipped..].iter().map(|(api, _)| *api).collect());
        Some(Frame {
            begins: begins.collect(),
            wall: wall[skipped..].to_vec(),
            skipped,
        })
    }
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

/// The least and the most.
fn range(mut of: impl Iterator<Item = usize>) -> Option<(usize, usize)> {
    let first = of.next()?;
    Some(of.fold((first, first), |(least, most), n| {
        (least.min(n), most.max(n))
    }))
}

/// By lane, the launches of the rarest kind that comes often enough on all lanes, for most of their common
/// time: where they are called, and end on the GPU if that is known. Kinds of a communicator come first, then
/// what lanes do alike on communicators of their own.
fn boundary(lanes: &[Lane]) -> Option<Vec<Vec<(i64, i64)>>> {
    let own = |kind: &Kind| *kind;
    let alike = |kind: &Kind| Kind {
        communicator: u32::MAX,
        ..*kind
    };
    marks(lanes, own).or_else(|| marks(lanes, alike))
}

fn marks(lanes: &[Lane], name: impl Fn(&Kind) -> Kind) -> Option<Vec<Vec<(i64, i64)>>> {
    let mut kinds: HashMap<Kind, (usize, usize, i64, i64)> = HashMap::new();
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    for lane in lanes {
        let mut own: HashMap<Kind, (usize, i64, i64)> = HashMap::new();
        let names: Vec<Kind> = lane.kinds.iter().map(&name).collect();
        for launch in lane.launches.iter().filter(|launch| !launch.in_graph) {
            let of = own
                .entry(names[launch.kind as usize])
                .or_insert((0usize, i64::MAX, i64::MIN));
            *of = (of.0 + 1, of.1.min(launch.api), of.2.max(launch.api));
        }
        for (kind, (n, from, to)) in own {
            let of = kinds
                .entry(kind)
                .or_insert((0, usize::MAX, i64::MIN, i64::MAX));
            *of = (of.0 + 1, of.1.min(n), of.2.max(from), of.3.min(to));
            (first, last) = (first.min(from), last.max(to));
        }
    }
    let span = (last - first) as f64;
    let kind = [0.6, 0.3, 0.0].iter().find_map(|part| {
        let fits = |(_, of): &(&Kind, &(usize, usize, i64, i64))| {
            of.0 == lanes.len() && of.1 >= LEAST && (of.3 - of.2) as f64 > part * span
        };
        let found = kinds
            .iter()
            .filter(fits)
            .min_by_key(|(kind, of)| (of.1, **kind));
        found.map(|(kind, _)| *kind)
    })?;
    let of = |lane: &Lane| {
        let is: Vec<bool> = lane.kinds.iter().map(|k| name(k) == kind).collect();
        let marks = lane
            .launches
            .iter()
            .filter(|l| is[l.kind as usize] && !l.in_graph);
        marks.map(|l| (l.api, l.stop)).collect()
    };
    Some(lanes.iter().map(of).collect())
}

/// How many boundaries make a step: the smallest distance at which the gaps between them repeat; 1 without a
/// pattern.
fn period(marks: &[Vec<(i64, i64)>]) -> usize {
    let n = marks[0].len().saturating_sub(1);
    let gap = |i: usize| {
        let log = |m: &Vec<(i64, i64)>| ((m[i + 1].0 - m[i].0) as f64).max(1e3).ln();
        (marks.iter().map(log).sum::<f64>() / marks.len() as f64).exp()
    };
    let gaps: Vec<f64> = (0..n).map(gap).collect();
    crate::steps::repeat_after(&gaps)
}

/// When each boundary ended on the GPU: where it was not timed, its call and what lay between call and end
/// around it. All by the host if few were timed.
fn on_gpu(marks: &[(i64, i64)]) -> Vec<f64> {
    let known: Vec<(f64, f64)> = marks
        .iter()
        .filter(|(_, stop)| *stop != 0)
        .map(|(api, stop)| (*api as f64, (stop - api) as f64))
        .collect();
    if known.len() < 8.max(marks.len() / 10) {
        return marks.iter().map(|(api, _)| *api as f64).collect();
    }
    let lead = |api: f64| {
        let after = known.partition_point(|(at, _)| *at < api);
        match (after.checked_sub(1).map(|i| known[i]), known.get(after)) {
            (None, Some((_, lead))) => *lead,
            (Some((_, lead)), None) => lead,
            (Some((a, from)), Some((b, to))) => from + (to - from) * (api - a) / (b - a).max(1.0),
            (None, None) => 0.0,
        }
    };
    marks
        .iter()
        .map(|(api, _)| *api as f64 + lead(*api as f64))
        .collect()
}

/// Steps before the first four in a row that are no longer than usual.
fn start_up(wall: &[f64]) -> usize {
    let usual = LONG * median(wall.to_vec());
    let n = wall.len();
    let most = n.saturating_sub(4).min((n / 2).max(5));
    let first = (0..most).find(|i| wall[*i..i + 4].iter().all(|ns| *ns <= usual));
    let least = if n >= 20 { 2 } else { 1 };
    first.unwrap_or(0).max(least).min(n - 1)
}
