//! What equal ranks would save if not all ranks meet in the same operations: in pipelines, and over several
//! communicators. The run is played again over its dependency graph, with other work on some ranks.
//!
//! A lane works, then arrives at its next launch. The launch ends when all lanes that it is tied to have
//! arrived and the bytes have moved: the shortest GPU time of these lanes. Launches of a collective are tied
//! by their order on the communicator, sends to receives by their order between two ranks.
//!
//! Rule: with the work as it was measured, the replay gives the measured steps. Else it says nothing.

use super::frame::Frame;
use super::launches::Lane;
use std::collections::{BTreeSet, HashMap};

/// Upper limit on launches that are played again: each play takes a pass over them.
const MOST: usize = 1 << 22;

/// Upper limit on the lanes, and on the groups, that are tried.
const MOST_TRIED: usize = 16;

/// The replay is off from the measured steps by no more than this part.
const MOST_OFF: f64 = 0.1;

/// Launches without times are left out, and may be no more than this part.
const MOST_UNTIMED: f64 = 0.01;

/// Lanes are late in turns if one constant for each lane saves less than this part of what equal lanes save.
const IN_TURNS: f64 = 0.5;

/// What equal lanes would save.
#[derive(Clone, Debug, PartialEq)]
pub struct Equal {
    /// The share of the steps' wall.
    pub share: f64,
    /// The lanes to blame; empty if lanes are late in turns.
    pub lanes: Vec<usize>,
}

struct Node {
    lane: usize,
    work: f64,
    step: Option<usize>,
    takes: f64,
    /// Indices in [`Graph::ties`].
    ties: Vec<u32>,
}

#[derive(Default)]
struct Tie {
    nodes: Vec<u32>,
    shortest: f64,
}

struct Graph {
    nodes: Vec<Node>,
    ties: Vec<Tie>,
    /// By lane: its nodes, by time.
    order: Vec<Vec<u32>>,
    /// By lane and step: how long it works.
    work: Vec<Vec<f64>>,
    measured: f64,
}

#[derive(PartialEq, Eq, Hash)]
enum Key {
    Collective(u32, tables::Name, u32),
    Exchange(u32, u32, u32, u32),
}

impl Graph {
    fn new(lanes: &[Lane], frame: &Frame) -> Option<Graph> {
        let all: usize = lanes.iter().map(|lane| lane.launches.len()).sum();
        let untimed = lanes
            .iter()
            .flat_map(|lane| &lane.launches)
            .filter(|l| l.start == 0);
        if all > MOST || untimed.count() as f64 > MOST_UNTIMED * all as f64 {
            return None;
        }
        let mut graph = Graph {
            nodes: Vec::with_capacity(all),
            ties: Vec::new(),
            order: Vec::new(),
            work: vec![vec![0.0; frame.wall.len()]; lanes.len()],
            measured: 0.0,
        };
        let mut known: HashMap<Key, u32> = HashMap::new();
        for (number, lane) in lanes.iter().enumerate() {
            let first = graph.nodes.len() as u32;
            let mut keys: Vec<Vec<Key>> = lane.launches.iter().map(|_| Vec::new()).collect();
            let mut before: HashMap<(u32, tables::Name), u32> = HashMap::new();
            for (index, launch) in lane.launches.iter().enumerate() {
                let kind = lane.kinds[launch.kind as usize];
                if kind.function == tables::Name::NONE {
                    continue;
                }
                let ordinal = before
                    .entry((kind.communicator, kind.function))
                    .or_default();
                keys[index].push(Key::Collective(kind.communicator, kind.function, *ordinal));
                *ordinal += 1;
            }
            let mut sent: HashMap<(u32, u32, u32), u32> = HashMap::new();
            for of in &lane.exchanges {
                let ordinal = sent.entry((of.communicator, of.from, of.to)).or_default();
                let key = Key::Exchange(of.communicator, of.from, of.to, *ordinal);
                keys[of.launch as usize].push(key);
                *ordinal += 1;
            }
            let mut by_start: Vec<usize> = (0..lane.launches.len())
                .filter(|i| lane.launches[*i].start != 0)
                .collect();
            by_start.sort_by_key(|i| (lane.launches[*i].start, lane.launches[*i].api));
            let mut until: Option<i64> = None;
            let (mut begin, mut end) = (None, 0);
            for index in by_start {
                let launch = &lane.launches[index];
                let step = frame.step(number, launch.api);
                let work = until.map_or(0, |until| (launch.start - until).max(0)) as f64;
                let node = graph.nodes.len() as u32;
                let takes = (launch.stop - launch.start).max(0) as f64;
                let mut ties = Vec::new();
                for key in keys[index].drain(..) {
                    let tie = *known.entry(key).or_insert_with(|| {
                        graph.ties.push(Tie {
                            nodes: Vec::new(),
                            shortest: f64::INFINITY,
                        });
                        graph.ties.len() as u32 - 1
                    });
                    let of = &mut graph.ties[tie as usize];
                    of.nodes.push(node);
                    of.shortest = of.shortest.min(takes);
                    ties.push(tie);
                }
                if let Some(step) = step {
                    graph.work[number][step] += work;
                    begin = begin.or(Some(until.unwrap_or(launch.start)));
                    end = until.map_or(launch.stop, |until| until.max(launch.stop));
                }
                until = Some(until.map_or(launch.stop, |until| until.max(launch.stop)));
                graph.nodes.push(Node {
                    lane: number,
                    work,
                    step,
                    takes,
                    ties,
                });
            }
            graph.measured += (end - begin?) as f64 / lanes.len() as f64;
            graph
                .order
                .push((first..graph.nodes.len() as u32).collect());
        }
        Some(graph)
    }

    /// How long the steps take, the mean over lanes, if the work of each lane and step is multiplied by this;
    /// `None` if launches wait for each other in a circle.
    fn play(&self, times: impl Fn(usize, usize) -> f64) -> Option<f64> {
        let lanes = self.order.len();
        let (mut now, mut next) = (vec![0.0; lanes], vec![0usize; lanes]);
        let mut begin: Vec<Option<f64>> = vec![None; lanes];
        let mut end = vec![0.0; lanes];
        let mut arrived = vec![(0u32, 0.0f64); self.ties.len()];
        let mut missing = vec![0u32; self.nodes.len()];
        let mut left = self.nodes.len();
        let mut ready: Vec<usize> = (0..lanes).collect();
        while let Some(lane) = ready.pop() {
            let Some(index) = self.order[lane].get(next[lane]).copied() else {
                continue;
            };
            let node = &self.nodes[index as usize];
            let scale = node.step.map_or(1.0, |step| times(lane, step));
            let at = now[lane] + node.work * scale;
            missing[index as usize] = node.ties.len() as u32;
            let mut done = Vec::new();
            if node.ties.is_empty() {
                now[lane] = at;
                done.push(index);
            }
            for tie in &node.ties {
                let of = &mut arrived[*tie as usize];
                *of = (of.0 + 1, of.1.max(at));
                let tied = &self.ties[*tie as usize].nodes;
                if of.0 as usize == tied.len() {
                    for node in tied {
                        missing[*node as usize] -= 1;
                        if missing[*node as usize] == 0 {
                            done.push(*node);
                        }
                    }
                }
            }
            for index in done {
                let node = &self.nodes[index as usize];
                let lane = node.lane;
                let ties = || node.ties.iter().map(|tie| *tie as usize);
                let came = ties().map(|tie| arrived[tie].1).fold(now[lane], f64::max);
                let moved = ties()
                    .map(|tie| self.ties[tie].shortest)
                    .fold(0.0, f64::max);
                let takes = if node.ties.is_empty() {
                    node.takes
                } else {
                    moved
                };
                if node.step.is_some() {
                    begin[lane] = begin[lane].or(Some(now[lane]));
                    end[lane] = came + takes;
                }
                now[lane] = came + takes;
                next[lane] += 1;
                left -= 1;
                ready.push(lane);
            }
        }
        let took = end
            .iter()
            .zip(&begin)
            .map(|(end, begin)| end - begin.unwrap_or(*end));
        (left == 0).then(|| took.sum::<f64>() / lanes as f64)
    }
}

/// What equal lanes would save; `None` if the run can't be played again.
pub fn find(lanes: &[Lane], frame: &Frame) -> Option<Equal> {
    let graph = Graph::new(lanes, frame)?;
    let whole = graph.play(|_, _| 1.0)?;
    if (whole / graph.measured - 1.0).abs() > MOST_OFF {
        return None;
    }
    let (n, steps) = (lanes.len(), frame.wall.len());
    let work = &graph.work;
    let mean = |step: usize, of: &[usize]| {
        of.iter().map(|lane| work[*lane][step]).sum::<f64>() / of.len().max(1) as f64
    };
    let everybody: Vec<usize> = (0..n).collect();
    let of_all: Vec<f64> = (0..steps).map(|step| mean(step, &everybody)).collect();
    let times = |target: f64, lane: usize, step: usize| match work[lane][step] {
        own if own > 0.0 => target / own,
        _ => 1.0,
    };
    let saved = |took: f64| 1.0 - took / whole;
    let equal = saved(graph.play(|lane, step| times(of_all[step], lane, step))?);
    let sums: Vec<f64> = work.iter().map(|work| work.iter().sum()).collect();
    let sum: f64 = sums.iter().sum::<f64>() / n as f64;
    let constant = saved(graph.play(|lane, _| {
        if sums[lane] > 0.0 {
            sum / sums[lane]
        } else {
            1.0
        }
    })?);
    if constant < IN_TURNS * equal {
        return Some(Equal {
            share: equal,
            lanes: Vec::new(),
        });
    }
    let mut tried: Vec<Vec<usize>> = Vec::new();
    let mut busiest = everybody.clone();
    busiest.sort_by(|a, b| sums[*b].total_cmp(&sums[*a]));
    tried.extend(busiest.iter().take(MOST_TRIED).map(|lane| vec![*lane]));
    tried.extend(
        groups(lanes)
            .into_iter()
            .filter(|group| (2..n).contains(&group.len()))
            .take(MOST_TRIED),
    );
    let mut best: Option<Equal> = None;
    for group in tried {
        let others: Vec<usize> = everybody
            .iter()
            .copied()
            .filter(|l| !group.contains(l))
            .collect();
        let total = |of: &[usize]| of.iter().map(|lane| sums[*lane]).sum::<f64>() / of.len() as f64;
        if total(&group) <= total(&others) {
            continue;
        }
        let target: Vec<f64> = (0..steps).map(|step| mean(step, &others)).collect();
        let play = graph.play(|lane, step| match group.contains(&lane) {
            true => times(target[step], lane, step),
            false => 1.0,
        });
        let share = saved(play?);
        if best.as_ref().is_none_or(|best| share > best.share) {
            best = Some(Equal {
                share,
                lanes: group,
            });
        }
    }
    best
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
