//! How much faster the hosts of other lanes could be if a late lane were in time, by the times of all calls.
//!
//! From one call to the next, a host works, waits for its GPU, or waits for room in the queue of launches.
//! Only the work is left if nobody is late. Calls are compared with calls at the same place of the step. If
//! the queue was full at most places in all steps, calls are compared in the same context: the kinds of the
//! call before, of the call itself, and of the next two.
//!
//! A host waits for room while its queue is full: from when it has half as many launches in it as it ever
//! has, until it has a quarter. If a launch ended while the host was between two calls, the host may have
//! waited for it. It did if that end explains most of how the time between the calls differs from step to
//! step, and it did not if the call does.
//!
//! Rule: time is work only if it is known to be. So the host floor is never too high.

use super::frame::Frame;
use super::launches::{Kind, Lane, Launch, Ordinals};
use crate::streams::Share;
use std::cell::LazyCell;
use std::collections::BTreeMap;

/// A host waits for one of so many launches before.
const BACK: usize = 4;

/// Spreads of fewer times can't be compared.
const LEAST_TIMES: usize = 20;

/// An end explains most of a variance if less than half of it is left: the spread is its square root.
const EXPLAINED: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// The queue is full for longer than to launch as much as it holds, so many times.
const FULL_FOR: usize = 2;

/// A host is never so few launches ahead that its queue is full: the driver's holds a thousand kernels.
const LEAST_AHEAD: usize = 3;

/// The longest times between calls, this part, are noise: what else runs on the host.
const NOISE: f64 = 0.1;

/// Nothing is known of a host if its queue was full for more of the time than this part, wherever it was.
const MOST_UNKNOWN: f64 = 0.1;

/// How calls that are compared are the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Place,
    Context,
}

/// Which call it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Which {
    /// The call and the next one, and how many of its kind came before in the step.
    Place([Kind; 2], u32),
    /// The call before, the call, and the next two.
    Context([Kind; 4]),
}

/// From a call to the next one, ns.
struct Work {
    /// How many such times there are, and their sum.
    times: f64,
    sum: f64,
    /// What of one is work: at least, probably, and with all noise; `None` if the queue was full in all.
    work: Option<[f64; 3]>,
    /// What of one is work at most, without noise and with it.
    bound: [f64; 2],
    /// Hosts of all lanes do the same.
    is_alike: bool,
}

/// By which part of the time the host of each other lane could be faster if these were in time: of the one
/// that could least. What any host needs at a place, others need no more than. `None` if that is not known.
pub fn faster(lanes: &[Lane], frame: &Frame, late: &[usize]) -> Option<Share> {
    let all = |by: By| -> Vec<BTreeMap<Which, Work>> {
        let lanes = lanes.iter().enumerate();
        lanes
            .map(|(number, lane)| work(between(lane, number, frame, by)))
            .collect()
    };
    let places = all(By::Place);
    let contexts = LazyCell::new(|| all(By::Context));
    let others = (0..lanes.len()).filter(|lane| !late.contains(lane));
    let of = |lane| of_lane(&places, lane).or_else(|| of_lane(&contexts, lane));
    let all = others.filter_map(of);
    all.min_by(|a, b| a.share.total_cmp(&b.share))
}

/// By which part of the time the host of a lane could be faster.
fn of_lane(lanes: &[BTreeMap<Which, Work>], lane: usize) -> Option<Share> {
    let (mut all, mut unknown, mut needs) = (0.0, 0.0, [0.0; 3]);
    for (which, own) in &lanes[lane] {
        all += own.sum;
        let Some(mut work) = own.work else {
            unknown += own.sum;
            continue;
        };
        let others = lanes.iter().filter_map(|of| of.get(which));
        for other in others.filter(|of| own.is_alike && of.work.is_some()) {
            let [bound, noisy] = other.bound;
            work = [work[0].min(bound), work[1].min(bound), work[2].min(noisy)];
        }
        for (needs, work) in needs.iter_mut().zip(work) {
            *needs += work * own.times;
        }
    }
    if all <= 0.0 || unknown > MOST_UNKNOWN * all {
        return None;
    }
    let [least, work, most] = needs.map(|needs| 1.0 - needs / all);
    Some(Share {
        share: work,
        interval: Some((most - unknown / all, least)),
    })
}

/// A time from one call to the next.
#[derive(Clone, Copy)]
struct Between {
    ns: f64,
    /// The queue was full.
    full: bool,
    /// Since the launch of that call, or one of those before, ended within it; NaN if it did not.
    since: [f64; BACK],
    /// Whether it is known if the launch of that call ended.
    is_timed: bool,
}

type Times = BTreeMap<Which, Vec<Between>>;

/// The times between the calls of a lane.
fn between(lane: &Lane, number: usize, frame: &Frame, by: By) -> Times {
    let mut step_of = frame.steps_in_order(number);
    let launches = lane.launches.iter().filter(|launch| !launch.in_graph);
    let in_steps = launches.filter_map(|launch| Some((launch, step_of(launch.api)?)));
    let calls: Vec<(&Launch, usize)> = in_steps.collect();
    let of = |at: usize| calls[at].0;
    let mut times = Times::new();
    // How long a launch of a graph waits for room is not known.
    if (0..calls.len()).any(|at| of(at).graph != 0) {
        return times;
    }
    let full = full(&(0..calls.len()).map(of).collect::<Vec<&Launch>>());
    let kind = |at: usize| lane.kinds[of(at).kind as usize].of_place();
    let mut ordinals = Ordinals::new(&lane.kinds);
    for at in 0..calls.len().saturating_sub(1) {
        let (from, to) = (of(at).api, of(at + 1).api);
        let which = match by {
            By::Place => {
                let ordinal = ordinals.next(calls[at].1, of(at).kind);
                Which::Place([kind(at), kind(at + 1)], ordinal)
            }
            By::Context if at > 0 && at + 2 < calls.len() => {
                Which::Context([at - 1, at, at + 1, at + 2].map(kind))
            }
            By::Context => continue,
        };
        let since = |back: usize| {
            let stop = at.checked_sub(back).map_or(0, |at| of(at).stop);
            if from < stop && stop <= to {
                (to - stop) as f64
            } else {
                f64::NAN
            }
        };
        times.entry(which).or_default().push(Between {
            ns: (to - from) as f64,
            full: full[at] || full[at + 1],
            since: std::array::from_fn(since),
            is_timed: of(at).stop != 0,
        });
    }
    times
}

/// What of these times is work.
fn work(times: Times) -> BTreeMap<Which, Work> {
    let of = |(which, between): (Which, Vec<Between>)| {
        let mut free: Vec<&Between> = between.iter().filter(|of| !of.full).collect();
        // Of the others it is not known if the host waited.
        if free.iter().any(|of| of.is_timed) {
            free.retain(|of| of.is_timed);
        }
        let explained: [Explained; BACK] = std::array::from_fn(|back| explained(&free, back));
        let around = match &which {
            Which::Place(kinds, _) => &kinds[..],
            Which::Context(kinds) => &kinds[1..3],
        };
        let work = Work {
            times: between.len() as f64,
            sum: between.iter().map(|of| of.ns).sum(),
            work: (!free.is_empty()).then(|| of_one(&free, explained)),
            bound: bound(&free, explained),
            is_alike: around.iter().all(|of| !of.is_exchange()),
        };
        (which, work)
    };
    times.into_iter().map(of).collect()
}

/// By call: whether the queue of launches is full.
fn full(calls: &[&Launch]) -> Vec<bool> {
    let mut stops: Vec<(i64, usize)> = calls.iter().map(|launch| launch.stop).zip(0..).collect();
    stops.retain(|(stop, _)| *stop != 0);
    stops.sort_unstable();
    let mut stops = stops.into_iter().peekable();
    let mut ended = 0;
    let ahead = |(at, launch): (usize, &&Launch)| {
        while let Some((_, of)) = stops.next_if(|(stop, _)| *stop <= launch.api) {
            ended = ended.max(of);
        }
        at.saturating_sub(ended)
    };
    let ahead: Vec<usize> = calls.iter().enumerate().map(ahead).collect();
    let mut sorted = ahead.clone();
    sorted.sort_unstable();
    let most = sorted.get(sorted.len() * 19 / 20).copied().unwrap_or(0);
    let mut full = vec![false; calls.len()];
    if most < LEAST_AHEAD {
        return full;
    }
    let mut since = None;
    for at in 0..=ahead.len() {
        let drained = ahead.get(at).is_none_or(|ahead| 4 * ahead <= most);
        match since {
            None if !drained && 2 * ahead[at] >= most => since = Some(at),
            Some(from) if drained => {
                if at - from >= FULL_FOR * most {
                    full[from..at].fill(true);
                }
                since = None;
            }
            _ => {}
        }
    }
    full
}

/// What explains most of how times differ from step to step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Explained {
    /// The end of a launch: the host waits for it.
    End,
    /// The call: the host works.
    Call,
    Neither,
}

/// Of times in which the launch so many calls before ended.
fn explained(free: &[&Between], back: usize) -> Explained {
    let ended: Vec<&&Between> = free.iter().filter(|of| !of.since[back].is_nan()).collect();
    let since = spread(ended.iter().map(|of| of.since[back]).collect());
    let whole = spread(ended.iter().map(|of| of.ns).collect());
    match since.zip(whole) {
        Some((since, whole)) if since < EXPLAINED * whole => Explained::End,
        Some((since, whole)) if whole < EXPLAINED * since => Explained::Call,
        _ => Explained::Neither,
    }
}

/// What of a time at a place, or in a context, is work: at least, probably, and with all noise.
fn of_one(free: &[&Between], explained: [Explained; BACK]) -> [f64; 3] {
    let least = |of: &&Between| of.since.iter().copied().fold(of.ns, f64::min);
    let probable = |of: &&Between| {
        // Launches that end later than the next one say nothing by themselves.
        let last = if explained[0] == Explained::Neither {
            of.since[0]
        } else {
            f64::NAN
        };
        of.without_waits(explained).min(last)
    };
    let least: Vec<f64> = free.iter().map(least).collect();
    let probable: Vec<f64> = free.iter().map(probable).collect();
    let noisy = mean(&probable);
    [without_noise(least), without_noise(probable), noisy]
}

/// What of it is work at most, without noise and with it.
fn bound(free: &[&Between], explained: [Explained; BACK]) -> [f64; 2] {
    let most: Vec<f64> = free.iter().map(|of| of.without_waits(explained)).collect();
    let noisy = mean(&most);
    [without_noise(most), noisy]
}

impl Between {
    /// Without what is known to be waiting.
    fn without_waits(&self, explained: [Explained; BACK]) -> f64 {
        let ends = self.since.iter().zip(explained);
        let ends = ends.filter(|(_, by)| *by == Explained::End);
        ends.fold(self.ns, |ns, (since, _)| ns.min(*since))
    }
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

/// From the first to the third quartile; `None` for a few.
fn spread(mut of: Vec<f64>) -> Option<f64> {
    of.sort_by(f64::total_cmp);
    let n = of.len();
    (n >= LEAST_TIMES).then(|| of[3 * n / 4] - of[n / 4])
}

/// The mean without the longest.
fn without_noise(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    let kept = ((1.0 - NOISE) * of.len() as f64).ceil() as usize;
    mean(&of[..kept])
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const STEPS: i64 = 60;

    /// Launches of one kind, of two a step: when the host calls and when the GPU ends them. And the steps.
    fn lanes(all: &[&dyn Fn(i64) -> (i64, i64)]) -> (Vec<Lane>, Frame) {
        let kind = Kind {
            communicator: 0,
            function: tables::Names::default().intern("AllReduce"),
            bytes: 8,
            graph: 0,
        };
        let lane = |times: &&dyn Fn(i64) -> (i64, i64)| Lane {
            kinds: vec![kind],
            launches: (0..2 * STEPS)
                .map(|n| {
                    let (api, stop) = times(n);
                    Launch {
                        api: MS + api,
                        stop: MS + stop,
                        ..Launch::default()
                    }
                })
                .collect(),
            ..Lane::default()
        };
        let lanes: Vec<Lane> = all.iter().map(lane).collect();
        let begins = |lane: &Lane| lane.launches.iter().step_by(2).map(|l| l.api).collect();
        let frame = Frame {
            begins: lanes.iter().map(begins).collect(),
            wall: vec![1.0; STEPS as usize - 1],
            skipped: 0,
            by_hosts: false,
            equal_parts: 1,
        };
        (lanes, frame)
    }

    /// Something that differs from step to step, up to 1 ms.
    fn differs(n: i64) -> i64 {
        (n * 7_919) % 1_000 * 1_000
    }

    #[test]
    fn a_host_whose_queue_is_full_could_be_faster() {
        // It works for 1 ms, as long as fewer than 12 launches are in the queue. One takes 5 ms.
        let ahead = |n: i64| ((n * MS).max((n - 12) * 5 * MS), (n + 1) * 5 * MS);
        let late = |n: i64| (n * 5 * MS, (n + 1) * 5 * MS + 1);
        let (lanes, frame) = lanes(&[&ahead, &late]);
        let most = faster(&lanes, &frame, &[1]).expect("known");
        assert!((most.share - 0.78).abs() < 0.02, "{most:?}");
    }

    #[test]
    fn a_host_that_waits_for_its_gpu_could_be_faster() {
        // The next call comes 1 ms after a launch ended, which takes 4 to 5 ms.
        let begin = |n: i64| (0..n).map(|n| 5 * MS + differs(n)).sum::<i64>();
        let waits = |n: i64| (begin(n), begin(n + 1) - MS);
        // The next call comes 5 to 6 ms after this one, whenever the launch ended.
        let works = |n: i64| (begin(n), begin(n) + MS + n * n * 31 % 997 * 2_000);
        let (lanes, frame) = lanes(&[&waits, &works]);
        let most = faster(&lanes, &frame, &[1]).expect("known");
        assert!((most.share - 0.8).abs() < 0.05, "{most:?}");
    }

    #[test]
    fn a_host_that_is_the_limit_could_not_be_faster() {
        let host = |n: i64| (n * 2 * MS, n * 2 * MS + MS / 2 + differs(n));
        let (lanes, frame) = lanes(&[&host, &host]);
        let most = faster(&lanes, &frame, &[0]).expect("known");
        assert!(most.share.abs() < 1e-9, "{most:?}");
    }

    #[test]
    fn a_host_of_which_nothing_is_known_may_wait() {
        // Launches end half a step after the call, always.
        let host = |n: i64| (n * 2 * MS, n * 2 * MS + MS);
        let (lanes, frame) = lanes(&[&host, &host]);
        let most = faster(&lanes, &frame, &[0]).expect("known");
        assert!((most.share - 0.5).abs() < 1e-9, "{most:?}");
    }
}
