//! A typical step of each lane from a sample of its launches, so that a run can be played again of which no
//! step was timed as a whole.
//!
//! When a launch began is when its step began on the GPU, and a distance that it has in each step. Both are
//! fitted to all launches that were timed: least squares in a table of steps and launches with gaps, by turns
//! (F. Yates, "The analysis of replicated experiments when the field results are incomplete", 1933). How long
//! it took, and for how long computing stood still for it, are means.
//!
//! What differs from step to step is not in it: if lanes are late in turns, it is shorter than the steps are.
//!
//! Rule: the error is how much the answer differs if a part of the run is left out (a jackknife).

use super::division;
use super::frame::{symbols, Frame};
use super::launches::{Exchange, Lane, Launch};
use super::pace::Paces;
use super::places::Places;
use super::replay::{self, Equal, Run};
use super::BY_CHANCE;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// Parts of the run, each of which is left out once.
const PARTS: usize = 8;

/// Steps that are played before those that count: lanes begin together, and then each waits for those that it
/// depends on.
const WARM_UP: usize = 3;

/// Steps that count. All are alike.
const STEPS: usize = 6;

/// At least this part of the steps have the same launches.
const LEAST_ALIKE: f64 = 0.5;

/// Launches of which nothing is known are no more than this part, by their number and by their time.
const MOST_UNKNOWN: f64 = 0.1;

/// Fewer exposed times of a lane tell nothing.
const LEAST_KNOWN: f64 = 20.0;

/// The typical step is shorter than the steps by less than this part. It lacks their noise, and of many lanes
/// one is late by it in each step: a random job of 32 lanes is played for 0.13 too short by that.
const MOST_NOISE: f64 = 0.25;

/// How often the two are fitted by turns. Hosts say when steps begin, so the first fit is nearly right.
const TURNS: usize = 12;

/// When the typical steps begin, ns: 0 is not known.
const ORIGIN: i64 = 1 << 40;

/// What the typical step says of the steps that are alike.
pub struct Found {
    /// What equal lanes would save, as a share of their wall; `None` if the typical step does not take as
    /// long as the steps do, and what it lacks may be all of that.
    pub equal: Option<Equal>,
    /// Their wall, ns.
    pub wall: f64,
    /// The part by which the typical step is shorter than the steps are on average. If lanes are late in
    /// turns, it is: in each step all wait for the last one, and no lane has more work on average.
    pub shorter: f64,
}

/// Finds it; `None` if too little is known of some lane. `regular` says which steps are no stalls.
pub fn find(
    lanes: &[Lane],
    frame: &Frame,
    places: &Places,
    regular: &[bool],
    paces: &Paces,
) -> Option<Found> {
    let of_lane = |(number, lane)| Programs::of(lane, number, frame, regular);
    let all: Vec<Programs> = lanes
        .iter()
        .enumerate()
        .map(of_lane)
        .collect::<Option<_>>()?;
    let is_regular = |step: &usize| regular[*step];
    let steps: Vec<usize> = (0..regular.len()).filter(is_regular).collect();
    let is_alike = |step: &usize| all.iter().all(|lane| lane.is_usual(*step));
    let alike: Vec<usize> = steps.iter().copied().filter(is_alike).collect();
    if alike.is_empty() || (alike.len() as f64) < LEAST_ALIKE * steps.len() as f64 {
        return None;
    }
    let mut all: Vec<OfLane> = all.into_iter().map(|of| of.lane(&alike)).collect();
    fit(&mut all, frame, &alike, &division::waited(lanes, places));
    let wall: f64 = alike.iter().map(|step| frame.wall[*step]).sum();
    let period = (wall / alike.len() as f64).round();
    let is_known = |lane: &OfLane| lane.is_known(period);
    if period < 1.0 || !all.iter().all(is_known) {
        return None;
    }
    let mut typical: Vec<Lane> = all.iter().map(|lane| lane.typical(period as i64)).collect();
    align(&mut typical);
    let begins = (WARM_UP..=WARM_UP + STEPS).map(|step| ORIGIN + step as i64 * period as i64);
    let steps = Frame {
        begins: vec![begins.collect(); lanes.len()],
        wall: vec![period; STEPS],
        skipped: WARM_UP,
        by_hosts: false,
        equal_parts: 1,
    };
    let run = Run::new(&typical, &steps, &[true; STEPS], &[true; STEPS], paces)?;
    let (noise, is_as_measured) = (run.shorter(), run.is_as_measured());
    let equal = || {
        let mut equal = run.equal();
        let half = equal.share * error(&all, &equal.lanes);
        equal.interval = (equal.interval.0 - half, equal.interval.1 + half);
        if is_as_measured {
            return Some(equal);
        }
        // What lanes wait by noise, they may wait for this one, or without it for the others.
        equal.interval = (equal.interval.0 - noise, equal.interval.1 + noise);
        (equal.interval.0 >= BY_CHANCE * equal.share).then_some(equal)
    };
    let is_possible = is_as_measured || (0.0..MOST_NOISE).contains(&noise);
    let equal = is_possible.then(equal).flatten();
    Some(Found {
        equal,
        wall,
        shorter: noise,
    })
}

/// The error of how much less lanes stand still than the others, as a part of it: by leaving out each part of
/// the run once.
fn error(all: &[OfLane], lanes: &[usize]) -> f64 {
    let less = |left_out: Option<usize>| {
        let mean = |own: bool| {
            let of = (0..all.len()).filter(|lane| lanes.contains(lane) == own);
            let still: Vec<f64> = of.map(|lane| all[lane].still(left_out)).collect();
            still.iter().sum::<f64>() / still.len() as f64
        };
        mean(false) - mean(true)
    };
    let without: Vec<f64> = (0..PARTS).map(|part| less(Some(part))).collect();
    let (whole, n) = (less(None), PARTS as f64);
    let mean = without.iter().sum::<f64>() / n;
    let squares: f64 = without.iter().map(|of| (of - mean).powi(2)).sum();
    let half = crate::interval::student(n - 1.0) * ((n - 1.0) / n * squares).sqrt();
    if whole > 0.0 {
        half / whole
    } else {
        1.0
    }
}

/// When steps began and how long after that each launch did, in all lanes: what lanes do together keeps them
/// in step.
fn fit(lanes: &mut [OfLane], frame: &Frame, steps: &[usize], waited: &[Vec<f32>]) {
    let origin = frame.begins[0][0];
    let mut until = 0.0;
    let ends = frame.wall.iter().map(|wall| {
        until += wall;
        until - wall
    });
    let begins: Vec<f64> = ends.collect();
    let mut began: Vec<f64> = steps.iter().map(|step| begins[*step]).collect();
    let places: usize = lanes.iter().map(|lane| lane.launches.len()).sum();
    let mut timed: Vec<(usize, usize, f64)> = Vec::new();
    let mut first = 0;
    for lane in lanes.iter() {
        for (step, begin) in lane.begins.iter().enumerate() {
            for (place, launch) in lane.at(*begin).iter().enumerate() {
                if launch.start != 0 {
                    timed.push((step, first + place, (launch.start - origin) as f64));
                }
            }
        }
        first += lane.launches.len();
    }
    let mut after = vec![0.0; places];
    for _ in 0..TURNS {
        let values = timed.iter().map(|(s, p, start)| (*p, start - began[*s]));
        means(values, &mut after);
        let values = timed.iter().map(|(s, p, start)| (*s, start - after[*p]));
        means(values, &mut began);
    }
    for (lane, waited) in lanes.iter_mut().zip(waited) {
        lane.sum(&began, origin, waited);
    }
}

/// Sets each to the mean of its values, if it has any.
fn means(values: impl Iterator<Item = (usize, f64)>, of: &mut [f64]) {
    let mut sums = vec![(0.0, 0.0); of.len()];
    for (at, value) in values {
        sums[at] = (sums[at].0 + value, sums[at].1 + 1.0);
    }
    for (of, (sum, n)) in of.iter_mut().zip(sums) {
        if n > 0.0 {
            *of = sum / n;
        }
    }
}

/// Puts lanes on one clock: launches that are tied together end together. Each lane is put beside the first
/// one that it is tied to.
fn align(lanes: &mut [Lane]) {
    let mut tied: HashMap<replay::Key, Vec<(usize, i64)>> = HashMap::new();
    for (number, lane) in lanes.iter().enumerate() {
        for (key, index) in replay::ties(lane, &HashMap::new()) {
            let stop = lane.launches[index].stop;
            if stop != 0 {
                tied.entry(key).or_default().push((number, stop));
            }
        }
    }
    // By two lanes: by how much the first one's ends are later, in sum, and of how many.
    let mut later: HashMap<(usize, usize), (i64, i64)> = HashMap::new();
    for of in tied.into_values() {
        let Some(((first, at), rest)) = of.split_first() else {
            continue;
        };
        for (other, stop) in rest {
            for (key, ns) in [((*first, *other), at - stop), ((*other, *first), stop - at)] {
                let sum = later.entry(key).or_default();
                *sum = (sum.0 + ns, sum.1 + 1);
            }
        }
    }
    let mut by_lane: Vec<Vec<(usize, i64)>> = vec![Vec::new(); lanes.len()];
    for ((one, other), (sum, n)) in later {
        by_lane[one].push((other, sum / n));
    }
    let mut shift: Vec<Option<i64>> = vec![None; lanes.len()];
    for lane in 0..lanes.len() {
        let mut next = VecDeque::from([(lane, 0)]);
        while let Some((lane, by)) = next.pop_front() {
            if shift[lane].is_some() {
                continue;
            }
            shift[lane] = Some(by);
            by_lane[lane].sort_unstable();
            next.extend(
                by_lane[lane]
                    .iter()
                    .map(|(other, later)| (*other, by + later)),
            );
        }
    }
    for (lane, by) in lanes.iter_mut().zip(shift) {
        for launch in &mut lane.launches {
            for at in [&mut launch.start, &mut launch.stop, &mut launch.stands] {
                if *at != 0 {
                    *at += by.unwrap_or(0);
                }
            }
        }
    }
}

/// What a sample says of a launch of the step, in one part of the run.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// Launches that were timed: how long after its step each began, and how long it took, ns.
    timed: f64,
    starts: f64,
    length: f64,
    /// Those of which it is known how long they waited for other lanes: that, ns.
    met: f64,
    waited: f64,
    /// Those whose exposed time is known: that, and from when computing stood still until the end, ns.
    known: f64,
    still: f64,
    stands: f64,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.timed += other.timed;
        self.starts += other.starts;
        self.length += other.length;
        self.met += other.met;
        self.waited += other.waited;
        self.known += other.known;
        self.still += other.still;
        self.stands += other.stands;
    }
}

/// What a lane does in each step.
struct Programs<'a> {
    lane: &'a Lane,
    /// What each launch is, by number.
    symbols: Vec<u32>,
    /// By step: which launches are its.
    steps: Vec<Range<usize>>,
    /// A step with the launches that most steps have.
    usual: usize,
}

impl<'a> Programs<'a> {
    /// `None` if graphs are in its steps: of these, nothing shows what is in each.
    fn of(lane: &'a Lane, number: usize, frame: &Frame, regular: &[bool]) -> Option<Programs<'a>> {
        let mut steps: Vec<Range<usize>> = vec![0..0; frame.wall.len()];
        let mut step_of = frame.steps_in_order(number);
        for (index, launch) in lane.launches.iter().enumerate() {
            let Some(step) = step_of(launch.api) else {
                continue;
            };
            if launch.graph != 0 || launch.in_graph {
                return None;
            }
            let of = &mut steps[step];
            *of = if of.end == 0 { index } else { of.start }..index + 1;
        }
        let symbols = symbols(lane);
        // How many steps have the same launches, and the first of them.
        let mut alike: HashMap<&[u32], (usize, usize)> = HashMap::new();
        for (step, of) in steps.iter().enumerate().filter(|(step, _)| regular[*step]) {
            alike.entry(&symbols[of.clone()]).or_insert((0, step)).0 += 1;
        }
        let most = alike
            .into_values()
            .max_by_key(|(n, first)| (*n, Reverse(*first)));
        let usual = most.map(|(_, first)| first)?;
        Some(Programs {
            lane,
            symbols,
            steps,
            usual,
        })
    }

    fn is_usual(&self, step: usize) -> bool {
        let of = |step: usize| &self.symbols[self.steps[step].clone()];
        of(step) == of(self.usual)
    }

    /// With these steps, which are all alike.
    fn lane(self, steps: &[usize]) -> OfLane<'a> {
        let usual = &self.steps[self.usual];
        let (begin, places) = (usual.start, usual.len());
        let exchange = |of: &Exchange| {
            let place = (of.launch as usize).checked_sub(begin)?;
            (place < places).then_some(Exchange {
                launch: place as u32,
                ..*of
            })
        };
        let mut lane = OfLane {
            lane: self.lane,
            begins: steps.iter().map(|step| self.steps[*step].start).collect(),
            launches: self.lane.launches[begin..begin + places].to_vec(),
            exchanges: self.lane.exchanges.iter().filter_map(exchange).collect(),
            sums: vec![[Sums::default(); PARTS]; places],
        };
        // One that was timed says more.
        for place in 0..places {
            let all = lane
                .begins
                .iter()
                .map(|begin| lane.lane.launches[begin + place]);
            if let Some(timed) = { all }.find(|launch| launch.start != 0) {
                lane.launches[place] = timed;
            }
        }
        lane
    }
}

/// The step of a lane.
struct OfLane<'a> {
    lane: &'a Lane,
    /// Of each step that is alike: the index of its first launch.
    begins: Vec<usize>,
    /// One launch for each of a step.
    launches: Vec<Launch>,
    /// Its sends and receives: `launch` is its place in the step.
    exchanges: Vec<Exchange>,
    /// By launch of the step and part of the run.
    sums: Vec<[Sums; PARTS]>,
}

impl OfLane<'_> {
    /// The launches of a step.
    fn at(&self, begin: usize) -> &[Launch] {
        &self.lane.launches[begin..begin + self.launches.len()]
    }

    /// Sums what was timed. `began` says when each step did, ns after `origin`.
    fn sum(&mut self, began: &[f64], origin: i64, waited: &[f32]) {
        let steps = self.begins.len();
        for (step, begin) in self.begins.iter().enumerate() {
            let of_step = *begin..begin + self.launches.len();
            let launches = self.lane.launches[of_step.clone()]
                .iter()
                .zip(&waited[of_step]);
            for ((launch, waited), sums) in launches.zip(&mut self.sums) {
                if launch.start == 0 {
                    continue;
                }
                let sum = &mut sums[step * PARTS / steps];
                sum.timed += 1.0;
                sum.starts += (launch.start - origin) as f64 - began[step];
                sum.length += (launch.stop - launch.start).max(0) as f64;
                if !waited.is_nan() {
                    sum.met += 1.0;
                    sum.waited += f64::from(*waited);
                }
                if !launch.still.is_nan() {
                    sum.known += 1.0;
                    sum.still += launch.still;
                    if launch.stands != 0 {
                        sum.stands += (launch.stop - launch.stands).max(0) as f64;
                    }
                }
            }
        }
    }

    /// What is known of a launch without one part of the run, or with all of it.
    fn of(&self, place: usize, left_out: Option<usize>) -> Sums {
        let mut sum = Sums::default();
        for (part, of) in self.sums[place].iter().enumerate() {
            if left_out != Some(part) {
                sum.add(of);
            }
        }
        sum
    }

    /// Whether enough is known of it, if a step takes so long.
    fn is_known(&self, period: f64) -> bool {
        let all: Vec<Sums> = (0..self.launches.len()).map(|p| self.of(p, None)).collect();
        let untimed = all.iter().filter(|of| of.timed == 0.0).count() as f64;
        let hidden = |(of, launch): (&Sums, &Launch)| {
            let alone = launch.is_alone && !launch.receives;
            (of.known == 0.0 && of.timed > 0.0 && !alone).then(|| of.length / of.timed)
        };
        let hidden: f64 = all.iter().zip(&self.launches).filter_map(hidden).sum();
        untimed <= MOST_UNKNOWN * all.len() as f64
            && hidden <= MOST_UNKNOWN * period
            && all.iter().map(|of| of.known).sum::<f64>() >= LEAST_KNOWN
    }

    /// For how long computing stands still in a step, ns.
    fn still(&self, left_out: Option<usize>) -> f64 {
        let at = |place: usize| match self.of(place, left_out) {
            // It was only known in that part.
            of if of.known == 0.0 => self.of(place, None),
            of => of,
        };
        let known = (0..self.sums.len()).map(at).filter(|of| of.known > 0.0);
        known.map(|of| of.still / of.known).sum()
    }

    /// The typical step so many times, one each period, ns.
    fn typical(&self, period: i64) -> Lane {
        let places = 0..self.launches.len();
        let all: Vec<Sums> = places.map(|place| self.of(place, None)).collect();
        let timed = all.iter().filter(|of| of.timed > 0.0);
        let first = timed
            .map(|of| of.starts / of.timed)
            .fold(f64::INFINITY, f64::min);
        let n = all.len() as u32;
        let at = |step: usize| ORIGIN + step as i64 * period;
        let launch = |step: usize, place: usize| {
            let (of, own) = (&all[place], &self.launches[place]);
            let api = at(step) + place as i64;
            let unknown = Launch {
                api,
                launched: api,
                start: 0,
                stop: 0,
                still: f64::NAN,
                stands: 0,
                ..*own
            };
            if of.timed == 0.0 {
                return unknown;
            }
            let start = at(step) + (of.starts / of.timed - first) as i64;
            let length = (of.length / of.timed) as i64;
            let stop = start + length;
            let mean = |sum: f64| sum / of.known;
            Launch {
                start,
                stop,
                ns: length as f32,
                synced: if of.met > 0.0 {
                    (of.waited / of.met) as u32 + 1
                } else {
                    0
                },
                still: mean(of.still),
                // Of none, the mean is no number.
                stands: if mean(of.stands) > 0.0 {
                    stop - mean(of.stands) as i64
                } else {
                    0
                },
                ..unknown
            }
        };
        let steps = 0..WARM_UP + STEPS + 1;
        let launches = steps.clone().flat_map(|step| {
            let launch = &launch;
            (0..all.len()).map(move |place| launch(step, place))
        });
        let exchanges = steps.flat_map(|step| {
            self.exchanges.iter().map(move |of| Exchange {
                launch: step as u32 * n + of.launch,
                ..*of
            })
        });
        Lane {
            process: self.lane.process.clone(),

            clock: self.lane.clock.clone(),

            device: self.lane.device,
            multiprocessors: self.lane.multiprocessors,
            kinds: self.lane.kinds.clone(),
            launches: launches.collect(),
            exchanges: exchanges.collect(),
            groups: self.lane.groups.clone(),
            ..Lane::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::launches::{Group, Kind};
    use super::*;
    use crate::subject::ProcessId;
    use tables::Name;

    const MS: i64 = 1_000_000;
    const STEPS: i64 = 64;
    /// Rank 0 works for 30 ms and sends, rank 1 works for 50 ms and sends back; 5 ms each.
    const PERIOD: i64 = 90 * MS;

    /// Of every `of` launches, one is timed. Each is a send or receive of a rank: from when to when it is in
    /// a step, and from when on computing stands still, in ms.
    fn lane(own: u32, of_a_step: [(u32, [i64; 3]); 2], of: i64, drift: i64) -> Lane {
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
            for (place, (from, [start, stop, stands])) in (0..).zip(of_a_step) {
                let at = |ms: i64| ORIGIN + step * PERIOD + ms * MS + drift;
                let mut launch = Launch {
                    api: ORIGIN + step * PERIOD + place + 1,
                    on: u64::from(from),
                    sends: from == own,
                    receives: from != own,
                    still: f64::NAN,
                    ..Launch::default()
                };
                if (7 * step + 3 * place + i64::from(own)) % of == 0 {
                    (launch.start, launch.stop) = (at(start), at(stop));
                    launch.still = ((stop - stands) * MS) as f64;
                    launch.stands = if stands < stop { at(stands) } else { 0 };
                }
                lane.exchanges.push(Exchange {
                    launch: lane.launches.len() as u32,
                    communicator: 0,
                    from,
                    to: 1 - from,
                    own: Some(own),
                });
                lane.launches.push(launch);
            }
        }
        lane
    }

    fn lanes(of: i64, clock: i64) -> [Lane; 2] {
        [
            lane(0, [(0, [30, 35, 35]), (1, [30, 90, 30])], of, 0),
            lane(1, [(0, [-5, 35, -5]), (1, [85, 90, 90])], of, clock),
        ]
    }

    fn found(lanes: &[Lane]) -> Option<Equal> {
        all_found(lanes)?.equal
    }

    fn all_found(lanes: &[Lane]) -> Option<Found> {
        let begins: Vec<i64> = (0..=STEPS).map(|step| ORIGIN + step * PERIOD).collect();
        let frame = Frame {
            begins: vec![begins; lanes.len()],
            wall: vec![PERIOD as f64; STEPS as usize],
            skipped: 0,
            by_hosts: false,
            equal_parts: 1,
        };
        let regular = [true; STEPS as usize];
        let places = Places::new(lanes, &frame);
        let paces = Paces::new(lanes, &frame, None);
        let found = find(lanes, &frame, &places, &regular, &paces)?;
        assert_eq!(found.wall, (STEPS * PERIOD) as f64);
        Some(found)
    }

    #[test]
    fn a_few_times_of_each_launch_say_who_works_longer_in_a_pipeline() {
        // On clocks that differ by a second, too.
        for (of, clock) in [(1, 0), (3, 0), (5, 0), (3, 1_000 * MS)] {
            let equal = found(&lanes(of, clock)).expect("known");
            assert_eq!(equal.lanes, [1], "1 of {of}");
            assert!((equal.share - 20.0 / 90.0).abs() < 0.01, "{equal:?}");
            let (low, high) = equal.interval;
            assert!(low > 0.2 && high < 0.25, "{equal:?}");
        }
    }

    /// Two lanes that meet in a collective once a step, after 50 ms of work, and `late` says after which one.
    fn together(works: impl Fn(u32, i64) -> i64, of: i64) -> [Lane; 2] {
        let kind = Kind {
            communicator: 0,
            function: tables::Names::default().intern("AllReduce"),
            bytes: 8,
            graph: 0,
        };
        let group = Group {
            ranks: 2,
            id: "two".to_owned(),
        };
        [0, 1].map(|own| {
            let launch = |step: i64| {
                let at = |ms: i64| ORIGIN + step * PERIOD + ms * MS;
                let (own, other) = (works(own, step), works(1 - own, step));
                let stop = own.max(other) + 10;
                let known = Launch {
                    start: at(own),
                    stop: at(stop),
                    ns: ((stop - own) * MS) as f32,
                    still: ((stop - own) * MS) as f64,
                    stands: at(own),
                    ..Launch::default()
                };
                let unknown = Launch {
                    ns: f32::NAN,
                    still: f64::NAN,
                    ..Launch::default()
                };
                let is_timed = step % of == 0;
                Launch {
                    api: at(0) + 1,
                    sends: true,
                    receives: true,
                    ..if is_timed { known } else { unknown }
                }
            };
            Lane {
                kinds: vec![kind],
                launches: (0..STEPS).map(launch).collect(),
                groups: HashMap::from([(0, group.clone())]),
                ..Lane::default()
            }
        })
    }

    #[test]
    fn the_typical_step_is_shorter_than_steps_in_which_lanes_are_late_in_turns() {
        // Of 90 ms, 80 are work of one lane in turns, and 10 transfer. Each works for 55 on average.
        let turns = |own: u32, step: i64| {
            if (step / 3 + i64::from(own)) % 2 == 0 {
                80
            } else {
                30
            }
        };
        for of in [1, 3] {
            let found = all_found(&together(turns, of)).expect("known");
            assert!(
                (found.shorter - 25.0 / 90.0).abs() < 0.05,
                "{}",
                found.shorter
            );
            assert!(found.equal.is_none());
        }
        // Of one that is always late, it is as long.
        let found = all_found(&together(|own, _| if own == 0 { 80 } else { 30 }, 3));
        let found = found.expect("known");
        assert!(found.shorter.abs() < 0.01, "{}", found.shorter);
        assert_eq!(found.equal.expect("as long").lanes, [0]);
    }

    #[test]
    fn what_was_hardly_timed_or_takes_another_time_says_nothing() {
        assert!(found(&lanes(11, 0)).is_none());
        // If it is not known who waits for whom, the typical step is shorter than the steps are.
        let mut apart = lanes(3, 0);
        apart.iter_mut().for_each(|lane| lane.exchanges.clear());
        assert!(found(&apart).is_none());
        let mut graph = lanes(3, 0);
        graph[0].launches[5].graph = 8;
        assert!(found(&graph).is_none());
    }
}
