//! What other work on some lanes would save: the run is played again over its dependency graph.
//!
//! A lane's computing stream works, and stands still for launches of NCCL. A launch begins when the computing
//! stream has come to where it began, and when the launch before it on its stream has ended. It ends when all
//! that it is tied to have begun and the bytes have moved: the shortest GPU time of these. Launches of a
//! collective are tied by their order on the communicator, sends to receives by their order between two
//! ranks.
//! Then the computing stream goes on, if it stood still.
//!
//! Rule: with the work as it was measured, the replay gives the measured steps. Else it says nothing.

mod graph;
mod ready;

use super::frame::Frame;
use super::launches::Lane;
use super::pace::{Paces, Slower};
pub use graph::{known_steps, ties, Key};
use graph::{Graph, Piece};
use std::collections::{BTreeSet, HashMap};

/// Upper limit on the lanes, and on the groups, that are tried.
const MOST_TRIED: usize = 16;

/// The replay is off from the measured steps by no more than this part.
const MOST_OFF: f64 = 0.1;

/// Lanes are late in turns if one constant for each lane saves less than this part of what equal lanes save.
pub const IN_TURNS: f64 = 0.5;

/// A group is to blame if it saves so many times as much as any lane.
const MORE: f64 = 1.25;

/// Fewer steps tell nothing.
const LEAST_STEPS: usize = 3;

/// From the 5 % to the 35 % quantile of a normal distribution, in standard deviations.
const NORMAL: f64 = 1.26;

/// A piece of work is out of the usual by so many standard deviations.
const USUAL: f64 = 3.0;

/// What equal lanes would save.
#[derive(Clone, Debug, PartialEq)]
pub struct Equal {
    /// The share of the steps' wall.
    pub share: f64,
    /// Interval of that: by how much the excess work differs from step to step, and by what is not known of
    /// the others' pace.
    pub interval: (f64, f64),
    /// The lanes to blame; empty if lanes are late in turns.
    pub lanes: Vec<usize>,
    /// Another lane that is late, and what both cost.
    pub with: Option<(usize, f64)>,
}

/// How long no piece may be so that all of them together are so much shorter.
fn level(pieces: &mut [f64], less: f64) -> f64 {
    pieces.sort_by(f64::total_cmp);
    let mut left = pieces.iter().sum::<f64>() - less;
    for (index, piece) in pieces.iter().enumerate() {
        let equal = left / (pieces.len() - index) as f64;
        if *piece >= equal {
            return equal.max(0.0);
        }
        left -= piece;
    }
    f64::INFINITY
}

/// A run that can be played again.
pub struct Run<'a> {
    lanes: &'a [Lane],
    paces: &'a Paces,
    graph: Graph,
    /// The work of all moments as it was measured, and how long the run takes with it, the sum over lanes.
    measured: Vec<f64>,
    whole: f64,
    /// By lane and step.
    work: Vec<Vec<f64>>,
    /// By lane.
    sums: Vec<f64>,
    regular: Vec<bool>,
}

impl<'a> Run<'a> {
    /// Of the `known` steps; `None` if these lanes can't be played again. `regular` says which steps are no
    /// stalls.
    pub fn new(
        lanes: &'a [Lane],
        frame: &Frame,
        known: &[bool],
        regular: &[bool],
        paces: &'a Paces,
    ) -> Option<Run<'a>> {
        let graph = Graph::new(lanes, frame, known)?;
        let measured = graph.measured_work();
        let whole = graph.play(&measured);
        let regular: Vec<bool> = regular.iter().zip(known).map(|(a, b)| *a && *b).collect();
        let is_sample = known.contains(&false);
        if is_sample && regular.iter().filter(|is| **is).count() < LEAST_STEPS {
            return None;
        }
        let steps = frame.wall.len();
        let all = 0..lanes.len();
        let work: Vec<Vec<f64>> = all.map(|lane| graph.by_step(lane, steps)).collect();
        Some(Run {
            sums: work.iter().map(|work| work.iter().sum()).collect(),
            lanes,
            paces,
            graph,
            measured,
            whole,
            work,
            regular,
        })
    }

    /// How much less time it takes with the work as it was measured than it took, as a part of that.
    pub fn shorter(&self) -> f64 {
        1.0 - self.whole / self.graph.measured
    }

    fn scene(&self) -> Scene<'_> {
        Scene {
            graph: &self.graph,
            measured: &self.measured,
            work: &self.work,
            regular: &self.regular,
            spread: spread(&self.graph),
        }
    }

    /// How much these lanes work, on average, ns.
    fn mean(&self, lanes: &[usize]) -> f64 {
        lanes.iter().map(|lane| self.sums[*lane]).sum::<f64>() / lanes.len() as f64
    }

    /// Which part of the run other work saves.
    fn saved(&self, work: &[f64]) -> f64 {
        1.0 - self.graph.play(work) / self.whole
    }

    /// What it saves if a group does no more than the others, which are as much slower then as `pace` says;
    /// `None` if it does no more now.
    fn cost(&self, scene: &Scene, group: &[usize], pace: fn(&Slower) -> f64) -> Option<f64> {
        let is_other = |lane: &usize| !group.contains(lane);
        let others: Vec<usize> = (0..self.lanes.len()).filter(is_other).collect();
        let busier = !others.is_empty() && self.mean(group) > self.mean(&others);
        let slower = self.paces.slower(group, &self.sums);
        let slower: Vec<f64> = slower.iter().map(pace).collect();
        busier.then(|| self.saved(&scene.without(group, &others, &slower, Excess::All)))
    }

    /// Whether it takes as long with the work as it was measured.
    pub fn is_as_measured(&self) -> bool {
        self.shorter().abs() <= MOST_OFF
    }

    /// What equal lanes would save.
    pub fn equal(&self) -> Equal {
        let n = self.lanes.len();
        let scene = self.scene();
        let everybody: Vec<usize> = (0..n).collect();
        // Steps in which a lane does much more than usual, of all lanes.
        let no_slower = vec![0.0; n];
        let rare = scene.without(&everybody, &everybody, &no_slower, Excess::Rare);
        let turns = self.saved(&rare);
        let mut busiest = everybody;
        busiest.sort_by(|a, b| self.sums[*b].total_cmp(&self.sums[*a]));
        let probably = |of: &Slower| of.probably;
        let mut best: Option<Equal> = None;
        let single = busiest.iter().take(MOST_TRIED).map(|lane| vec![*lane]);
        let mut groups = groups(self.lanes);
        groups.extend(self.graph.alike_lanes());
        // Those to blame are the fewer.
        let is_part = |group: &Vec<usize>| (2..=n / 2).contains(&group.len());
        let mut groups: Vec<Vec<usize>> = groups.into_iter().filter(is_part).collect();
        groups.sort_by(|a, b| self.mean(b).total_cmp(&self.mean(a)));
        for group in single.chain(groups.into_iter().take(MOST_TRIED)) {
            let Some(share) = self.cost(&scene, &group, probably) else {
                continue;
            };
            let more = if group.len() > 1 { MORE } else { 1.0 };
            if best.as_ref().is_none_or(|best| share > more * best.share) {
                best = Some(Equal {
                    share,
                    interval: (share, share),
                    lanes: group,
                    with: None,
                });
            }
        }
        let mut best = best
            .filter(|best| best.share >= IN_TURNS * turns)
            .unwrap_or(Equal {
                share: turns,
                interval: (turns, turns),
                lanes: Vec::new(),
                with: None,
            });
        if !best.lanes.is_empty() {
            let half = best.share * error(&self.work, &best.lanes, &self.regular);
            let low = self.cost(&scene, &best.lanes, |of| of.most);
            let high = self.cost(&scene, &best.lanes, |_| 0.0);
            let end = |of: Option<f64>| of.unwrap_or(best.share);
            best.interval = (end(low) - half, end(high) + half);
        }
        if let [lane] = best.lanes[..] {
            let next = busiest
                .iter()
                .find(|other| **other != lane)
                .filter(|_| n > 2);
            best.with = next.and_then(|other| {
                let both = self.cost(&scene, &[lane, *other], probably)?;
                Some((*other, both))
            });
        }
        best
    }
}

/// The error of the mean excess work of lanes over the others, as a part of it: by batches of neighbouring
/// steps.
fn error(work: &[Vec<f64>], lanes: &[usize], regular: &[bool]) -> f64 {
    let mean = |step: usize, own: bool| {
        let of = (0..work.len()).filter(|lane| lanes.contains(lane) == own);
        let (sum, n) = of.fold((0.0, 0.0), |(sum, n), lane| {
            (sum + work[lane][step], n + 1.0)
        });
        sum / n
    };
    let steps = (0..regular.len()).filter(|step| regular[*step]);
    let excess: Vec<f64> = steps
        .map(|step| mean(step, true) - mean(step, false))
        .collect();
    let batch = (excess.len() as f64).cbrt().round().max(1.0) as usize;
    let chunks = excess.chunks_exact(batch);
    let batches: Vec<f64> = chunks
        .map(|of| of.iter().sum::<f64>() / batch as f64)
        .collect();
    let n = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / n;
    let squares: f64 = batches.iter().map(|of| (of - mean).powi(2)).sum();
    if n < 3.0 || mean <= 0.0 {
        1.0
    } else {
        crate::interval::student(n - 1.0) * (squares / (n * (n - 1.0))).sqrt() / mean
    }
}

/// The run with other work.
struct Scene<'a> {
    graph: &'a Graph,
    measured: &'a [f64],
    /// By lane and step.
    work: &'a [Vec<f64>],
    regular: &'a [bool],
    /// By piece of the step.
    spread: HashMap<u32, f64>,
}

/// Which excess over other lanes a lane shall not have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Excess {
    /// What it usually has, and what is out of the usual.
    All,
    /// What is out of the usual.
    Rare,
}

impl Scene<'_> {
    /// The work of all moments if these lanes had no more to do than the mean of others: piece by piece,
    /// where these do the same. What differs from step to step as usual stays. Of what nobody else does, the
    /// longest pieces are shorter. The others work longer by the part that `slower` has for each lane.
    fn without(
        &self,
        lanes: &[usize],
        others: &[usize],
        slower: &[f64],
        excess: Excess,
    ) -> Vec<f64> {
        let graph = self.graph;
        let mut takes = self.measured.to_vec();
        let all = others.len() == self.work.len();
        let is_regular = |piece: &&Piece| self.regular[piece.step as usize];
        // The sum and number of the others' pieces.
        let mut alike = vec![(0.0, 0u32); graph.alike];
        for lane in others {
            let pace = 1.0 + slower[*lane];
            for piece in &graph.pieces[*lane] {
                let of = &mut alike[piece.alike as usize];
                *of = (of.0 + pace * piece.work, of.1 + 1);
            }
            for piece in graph.pieces[*lane].iter().filter(is_regular) {
                takes[piece.moment as usize] = pace * piece.work;
            }
        }
        let least = if all { 2 } else { 1 };
        let mean = |piece: &Piece| {
            let (sum, lanes) = alike[piece.alike as usize];
            (lanes >= least).then(|| sum / f64::from(lanes))
        };
        for lane in lanes {
            let pieces = || graph.pieces[*lane].iter().filter(is_regular);
            // The mean excess by piece of the step.
            let mut usual: HashMap<u32, (f64, u64)> = HashMap::new();
            for piece in pieces() {
                if let Some(mean) = mean(piece) {
                    let of = usual.entry(piece.which).or_default();
                    *of = (of.0 + piece.work - mean, of.1 + 1);
                }
            }
            for pieces in graph.pieces[*lane].chunk_by(|a, b| a.step == b.step) {
                let step = pieces[0].step as usize;
                if !self.regular[step] {
                    continue;
                }
                let of_others = others
                    .iter()
                    .map(|lane| (1.0 + slower[*lane]) * self.work[*lane][step]);
                let mut more =
                    self.work[*lane][step] - of_others.sum::<f64>() / others.len() as f64;
                let mut own = Vec::new();
                for piece in pieces {
                    match mean(piece) {
                        Some(mean) => {
                            let (sum, n) = usual[&piece.which];
                            let usual = sum / n as f64;
                            let spread = self.spread[&piece.which];
                            let noise = (piece.work - mean - usual).clamp(-spread, spread);
                            let rest = match excess {
                                Excess::All => noise,
                                Excess::Rare => noise + usual,
                            };
                            takes[piece.moment as usize] = (mean + rest).max(0.0);
                            more -= piece.work - mean;
                        }
                        None => own.push(piece.work),
                    }
                }
                if excess == Excess::All && more > 0.0 && !own.is_empty() {
                    let level = level(&mut own, more);
                    for piece in pieces.iter().filter(|piece| mean(piece).is_none()) {
                        takes[piece.moment as usize] = piece.work.min(level);
                    }
                }
            }
        }
        takes
    }
}

/// By how much each piece of a step differs from step to step as usual, ns.
fn spread(graph: &Graph) -> HashMap<u32, f64> {
    let mut by: HashMap<u32, Vec<f64>> = HashMap::new();
    for pieces in &graph.pieces {
        let mut own: HashMap<u32, Vec<f64>> = HashMap::new();
        for piece in pieces {
            own.entry(piece.which).or_default().push(piece.work);
        }
        for (which, mut all) in own {
            all.sort_by(f64::total_cmp);
            // The lower part: a lane may be late in half of its steps.
            let at = |part: f64| all[(part * (all.len() - 1) as f64).round() as usize];
            let deviation = (at(0.35) - at(0.05)) / NORMAL;
            by.entry(which).or_default().push(USUAL * deviation);
        }
    }
    let lower_median = |(which, mut all): (u32, Vec<f64>)| {
        all.sort_by(f64::total_cmp);
        (which, all[(all.len() - 1) / 2])
    };
    by.into_iter().map(lower_median).collect()
}

/// The lanes of each communicator, each set once.
fn groups(lanes: &[Lane]) -> BTreeSet<Vec<usize>> {
    let mut by: HashMap<u32, BTreeSet<usize>> = HashMap::new();
    for (number, lane) in lanes.iter().enumerate() {
        for kind in &lane.kinds {
            by.entry(kind.communicator).or_default().insert(number);
        }
    }
    by.into_values()
        .map(|lanes| lanes.into_iter().collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::launches::{Exchange, Group, Kind, Launch};
    use super::*;
    use crate::subject::ProcessId;
    use tables::Name;

    const STEPS: usize = 20;
    const ORIGIN: i64 = 1 << 40;

    /// A rank of a ring of four, which sends to the next one and receives from the one before in each step
    /// of 60 ms. Its computing stream stands still from the launch's begin to its end.
    fn lane(own: u32, [start, stop]: [i64; 2]) -> Lane {
        let kind = Kind {
            communicator: 0,
            function: Name::NONE,
            bytes: 8,
            graph: 0,
        };
        let mut lane = Lane {
            process: ProcessId {
                rank: Some(own),
                ..ProcessId::default()
            },
            kinds: vec![kind],
            groups: HashMap::from([(0, Group::default())]),
            ..Lane::default()
        };
        for step in 0..STEPS {
            let at = |ms: i64| ORIGIN + (60 * step as i64 + ms) * 1_000_000;
            for (from, to) in [(own, (own + 1) % 4), ((own + 3) % 4, own)] {
                lane.exchanges.push(Exchange {
                    launch: step as u32,
                    communicator: 0,
                    from,
                    to,
                    own: Some(own),
                });
            }
            lane.launches.push(Launch {
                api: at(start - 1),
                start: at(start),
                stop: at(stop),
                still: (stop - start) as f64 * 1e6,
                stands: at(start),
                sends: true,
                receives: true,
                ..Launch::default()
            });
        }
        lane
    }

    #[test]
    fn two_that_exchange_something_may_both_wait_for_a_third() {
        // Rank 2 works for 50 ms, the others for 20, and bytes move for 10. Ranks 0 and 1 both wait for 30 ms
        // more than that, rank 1 for rank 2, and rank 0 for rank 1.
        let times = [[-10, 30], [20, 60], [50, 60], [20, 60]];
        let lanes: Vec<Lane> = (0..).zip(times).map(|(own, of)| lane(own, of)).collect();
        let begins = |lane: &Lane| {
            let all = lane.launches.iter().map(|launch| launch.api);
            all.collect::<Vec<i64>>()
        };
        let frame = Frame {
            begins: lanes.iter().map(begins).collect(),
            wall: vec![60e6; STEPS - 1],
            skipped: 0,
            by_hosts: false,
            equal_parts: 1,
        };
        let all = [true; STEPS - 1];
        let paces = Paces::new(&lanes, &frame, None);
        let run = Run::new(&lanes, &frame, &all, &all, &paces).expect("can be played again");
        let equal = run.equal();
        assert_eq!(equal.lanes, [2]);
        assert!((equal.share - 0.5).abs() < 0.03, "{equal:?}");
    }
}
