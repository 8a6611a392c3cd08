//! Launches by their place in the step: which ones of different lanes are the same operation.
//!
//! A place is a kind of launch and how many of the kind came before in the step. An operation is a place in a
//! step, with the launches of all lanes.

use super::frame::Frame;
use super::launches::{Kind, Lane, Launch, Ordinals};
use std::collections::HashMap;

/// If this part of a rank's launches has no time, it may have stood still in them for any time.
const DARK: f64 = 0.1;

/// A launch of a lane at its place.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'l> {
    /// The place.
    pub place: u32,
    /// The step.
    pub step: u32,
    /// The lane.
    pub lane: u32,
    /// Number of its host, of those with clocks of their own.
    pub host: u32,
    /// It stands for so many: of calls in graphs, only windows show some.
    pub times: f32,
    /// [`Launch::still`], or what is known of it here.
    still: f64,
    /// Its number in the lane.
    pub index: u32,
    /// What is known of it.
    pub launch: &'l Launch,
}

impl Cell<'_> {
    /// For how long the computing stream stood still for it, ns, if that is known.
    pub fn still(&self) -> Option<f64> {
        Some(self.still).filter(|ns| !ns.is_nan())
    }

    /// What of a launch of a graph may be anything, ns: work, waits, transfer; `None` of other launches.
    pub fn in_graph(&self) -> Option<f64> {
        let still = self.still().filter(|_| self.launch.graph != 0)?;
        Some(self.launch.length()? - still)
    }

    /// When the host had launched it, or called it if that is not known, ns since 1970.
    pub fn launched(&self) -> i64 {
        match self.launch.launched {
            0 => self.launch.api,
            at => at,
        }
    }
}

/// All launches in steps, by place.
pub struct Places<'l> {
    /// By place, step and lane.
    cells: Vec<Cell<'l>>,
    /// Where operations begin in `cells`.
    begins: Vec<u32>,
    /// How many places there are.
    pub count: usize,
    /// How many lanes there are.
    pub lanes: usize,
    /// There are calls in graphs of which no window shows one on all lanes.
    pub unseen: bool,
    /// If so: launches of these graphs were timed on two lanes. They say which lane comes to them later than
    /// others, and not what is in them.
    pub bounded: bool,
}

impl<'l> Places<'l> {
    /// Of these lanes.
    pub fn new(lanes: &'l [Lane], frame: &Frame) -> Places<'l> {
        let mut kinds: HashMap<Kind, usize> = HashMap::new();
        let mut count = 0;
        let mut places = Numbers::default();
        let mut spots: Vec<Spot> = Vec::new();
        let mut exchanges: HashMap<(u32, u32, u32, u32, u32), u32> = HashMap::new();
        let mut tied = Tied::default();
        let mut in_graphs = 0.0f64;
        for (number, lane) in lanes.iter().enumerate() {
            let mut number_of = |kind: &Kind| {
                let next = kinds.len();
                *kinds.entry(kind.of_place()).or_insert(next)
            };
            let kinds: Vec<usize> = lane.kinds.iter().map(&mut number_of).collect();
            let mut ordinals = Ordinals::new(&lane.kinds);
            let mut step_of = frame.steps_in_order(number);
            let mut own_places = Numbers::default();
            let mut sent: HashMap<(u32, u32, u32), u32> = HashMap::new();
            let mut step = None;
            let mut exchange = 0;
            let mut calls = 0.0;
            for (index, launch) in (0u32..).zip(&lane.launches) {
                let of = step_of(launch.api);
                if of != step {
                    sent.clear();
                    step = of;
                }
                let spot = spots.len() as u32;
                let mut ties = false;
                while let Some(of) = lane.exchanges.get(exchange) {
                    if of.launch > index {
                        break;
                    }
                    exchange += 1;
                    ties = true;
                    let Some(step) = step else { continue };
                    let ordinal = sent.entry((of.communicator, of.from, of.to)).or_default();
                    let key = (of.communicator, of.from, of.to, step as u32, *ordinal);
                    *ordinal += 1;
                    tied.join(*exchanges.entry(key).or_insert(spot), spot);
                }
                let Some(step) = step else { continue };
                calls += f64::from(launch.graph);
                // Whom sends and receives tie together says which ones they are.
                let places = if ties { &mut own_places } else { &mut places };
                let ordinal = ordinals.next(step, launch.kind);
                spots.push(Spot {
                    place: places.get(kinds[launch.kind as usize], ordinal, &mut count),
                    step: step as u32,
                    lane: number as u32,
                    launch: index,
                });
            }
            in_graphs = in_graphs.max(calls);
        }
        // What is tied together is at the place of its first lane.
        for index in 0..spots.len() {
            let first = &spots[tied.first(index as u32) as usize];
            (spots[index].place, spots[index].step) = (first.place, first.step);
        }
        let hosts = hosts(lanes);
        let cell = |index: u32| {
            let spot = &spots[index as usize];
            let launch = &lanes[spot.lane as usize].launches[spot.launch as usize];
            Cell {
                place: spot.place,
                step: spot.step,
                lane: spot.lane,
                host: hosts[spot.lane as usize],
                times: 1.0,
                still: launch.still,
                index: spot.launch,
                launch,
            }
        };
        let order = in_order(&spots, count as usize, frame.wall.len());
        let cells = order.into_iter().map(cell).collect();
        let mut cells = of_graphs(cells, in_graphs);
        let unseen = in_graphs > 0.0 && !cells.iter().any(|cell| cell.launch.in_graph);
        let bounded = if unseen {
            stand_in_graphs(&mut cells)
        } else {
            cells.retain(|cell| cell.launch.graph == 0);
            false
        };
        let mut begins: Vec<u32> = Vec::new();
        let mut last = None;
        for (index, cell) in cells.iter().enumerate() {
            if last != Some((cell.place, cell.step)) {
                begins.push(index as u32);
                last = Some((cell.place, cell.step));
            }
        }
        begins.push(cells.len() as u32);
        Places {
            cells,
            begins,
            count: count as usize,
            lanes: lanes.len(),
            unseen,
            bounded,
        }
    }

    /// Operations by place and step, each with its launches by lane.
    pub fn operations(&self) -> impl Iterator<Item = &[Cell<'l>]> {
        self.begins
            .windows(2)
            .map(|pair| &self.cells[pair[0] as usize..pair[1] as usize])
    }

    /// The part of the time that lanes stood still in operations in which all lanes need each other; `None`
    /// if they did not. Of two lanes, who stands still waits for the other, whoever sends.
    pub fn together(&self) -> Option<f64> {
        let still = |operation: &[Cell]| operation.iter().filter_map(Cell::still).sum::<f64>();
        let (mut all, mut together) = (0.0, 0.0);
        for operation in self.operations() {
            let still = still(operation);
            all += still;
            let all_need = self.lanes == 2 || operation.iter().all(|cell| cell.launch.is_mutual());
            together += if operation.len() == self.lanes && all_need {
                still
            } else {
                0.0
            };
        }
        (all > 0.0).then(|| together / all)
    }

    /// The part of the time that lanes stood still in a send alone or a receive alone, as stages of a
    /// pipeline have them.
    pub fn passed_on(&self) -> f64 {
        let still = |cell: &Cell| cell.still().unwrap_or(0.0);
        let all: f64 = self.cells.iter().map(still).sum();
        let alone = self.cells.iter().filter(|cell| !cell.launch.is_mutual());
        alone.map(still).sum::<f64>() / all.max(1.0)
    }

    /// All launches at each place, by step and lane.
    fn by_place(&self) -> impl Iterator<Item = &[Cell<'l>]> {
        self.cells.chunk_by(|a, b| a.place == b.place)
    }

    /// What `value` says of the launches of each lane, summed over all operations of steps that are in: the
    /// mean at each place, times the lane's launches there. Also how many values are known, and which part of
    /// the launches is at places with one. A lane has a launch in each operation of its places; sends and
    /// receives that are tied together may be several launches of one lane.
    pub fn scaled(&self, steps: &[bool], value: impl Fn(&Cell<'l>) -> Option<f64>) -> Vec<Scaled> {
        let mut all = vec![Scaled::default(); self.lanes];
        for place in self.by_place() {
            let mut at = vec![(0.0, 0u64, 0.0); self.lanes];
            let mut operations = 0.0;
            for operation in place.chunk_by(|a, b| a.step == b.step) {
                if !steps[operation[0].step as usize] {
                    continue;
                }
                operations += f64::from(operation[0].times);
                for cell in operation {
                    let at = &mut at[cell.lane as usize];
                    at.2 += f64::from(cell.times);
                    if let Some(value) = value(cell) {
                        *at = (at.0 + value, at.1 + 1, at.2);
                    }
                }
            }
            let lanes = at.into_iter().zip(&mut all);
            for ((sum, known, own), all) in lanes.filter(|((.., own), _)| *own > 0.0) {
                let launches = operations.max(own);
                all.operations += launches;
                if known > 0 {
                    all.sum += sum / known as f64 * launches;
                    all.known += known;
                    all.covered += launches;
                }
            }
        }
        all
    }

    /// Whether so many operations of a lane have no value that their sum says nothing.
    pub fn is_dark(&self, seen: &Scaled) -> bool {
        (self.unseen && !self.bounded) || seen.covered < (1.0 - DARK) * seen.operations
    }

    /// By lane: how long its launches took at places where none of them was timed, ns of these steps. They
    /// took as long as those of other lanes.
    pub fn dark(&self, steps: &[bool]) -> Vec<f64> {
        let mut dark = vec![0.0; self.lanes];
        for place in self.by_place() {
            // By lane: launches, and those with a time.
            let mut at = vec![(0.0, 0u32); self.lanes];
            let (mut sum, mut timed) = (0.0, 0u32);
            for cell in place.iter().filter(|cell| steps[cell.step as usize]) {
                let length = cell.launch.length();
                let at = &mut at[cell.lane as usize];
                at.0 += f64::from(cell.times);
                at.1 += u32::from(cell.still().is_some() || length.is_some());
                if let Some(ns) = length {
                    (sum, timed) = (sum + ns, timed + 1);
                }
            }
            for ((launches, known), dark) in at.into_iter().zip(&mut dark) {
                if known == 0 && timed > 0 {
                    *dark += launches * sum / f64::from(timed);
                }
            }
        }
        dark
    }
}

/// Where a launch is.
struct Spot {
    place: u32,
    step: u32,
    lane: u32,
    /// Its index in the lane.
    launch: u32,
}

/// Numbers of places, by kind and how many of the kind came before in the step.
#[derive(Default)]
struct Numbers(Vec<Vec<u32>>);

impl Numbers {
    /// The number of a place, the next one if there was none.
    fn get(&mut self, kind: usize, ordinal: u32, next: &mut u32) -> u32 {
        if self.0.len() <= kind {
            self.0.resize(kind + 1, Vec::new());
        }
        let of_kind = &mut self.0[kind];
        if of_kind.len() <= ordinal as usize {
            of_kind.resize(ordinal as usize + 1, u32::MAX);
        }
        let number = &mut of_kind[ordinal as usize];
        if *number == u32::MAX {
            *number = *next;
            *next += 1;
        }
        *number
    }
}

/// By lane: the number of its host, of those with clocks of their own.
fn hosts(lanes: &[Lane]) -> Vec<u32> {
    let mut known: HashMap<&String, u32> = HashMap::new();
    let mut number = |of| {
        let next = known.len() as u32;
        *known.entry(of).or_insert(next)
    };
    lanes.iter().map(|lane| number(&lane.clock)).collect()
}

/// The indices of launches by place, step, and as they are.
fn in_order(spots: &[Spot], places: usize, steps: usize) -> Vec<u32> {
    let by_step = counted(0..spots.len() as u32, steps, |at| spots[at as usize].step);
    counted(by_step.into_iter(), places, |at| spots[at as usize].place)
}

/// Sorts by a key below `keys`, in time that grows with the number of items; equal ones stay as they are.
fn counted(
    items: impl Iterator<Item = u32> + Clone,
    keys: usize,
    key: impl Fn(u32) -> u32,
) -> Vec<u32> {
    let mut begins = vec![0u32; keys + 1];
    for item in items.clone() {
        begins[key(item) as usize + 1] += 1;
    }
    for at in 0..keys {
        begins[at + 1] += begins[at];
    }
    let mut sorted = vec![0; begins[keys] as usize];
    for item in items {
        let at = &mut begins[key(item) as usize];
        sorted[*at as usize] = item;
        *at += 1;
    }
    sorted
}

/// Calls in graphs are only known from windows. Those that the windows of all lanes show stand for all.
fn of_graphs(cells: Vec<Cell>, calls: f64) -> Vec<Cell> {
    if calls == 0.0 {
        return cells;
    }
    let mut most: HashMap<u32, usize> = HashMap::new();
    let operations = || cells.chunk_by(|a, b| (a.place, a.step) == (b.place, b.step));
    for operation in operations() {
        let of = most.entry(operation[0].place).or_default();
        *of = operation.len().max(*of);
    }
    let is_whole = |operation: &&[Cell]| {
        !operation[0].launch.in_graph || operation.len() == most[&operation[0].place]
    };
    let mut kept: Vec<Cell> = operations().filter(is_whole).flatten().copied().collect();
    let shown = operations().filter(|o| is_whole(o) && o[0].launch.in_graph);
    let times = (calls / shown.count().max(1) as f64).max(1.0) as f32;
    for cell in kept.iter_mut().filter(|cell| cell.launch.in_graph) {
        cell.times = times;
    }
    kept
}

/// Of launches of a graph, nothing shows what is in them. But all lanes do the same in it, and leave it
/// together. So a lane stood still in it for as long as it was in it longer than the one that was in it for
/// the shortest time. Whether two lanes or more were timed.
fn stand_in_graphs(cells: &mut [Cell]) -> bool {
    let mut any = false;
    for operation in cells.chunk_by_mut(|a, b| (a.place, a.step) == (b.place, b.step)) {
        let times = operation.iter().filter(|cell| cell.launch.graph != 0);
        let times = times.filter_map(|cell| cell.launch.length());
        let (n, least) = times.fold((0, f64::INFINITY), |(n, least), ns| (n + 1, ns.min(least)));
        if n < 2 {
            continue;
        }
        any = true;
        for cell in operation.iter_mut() {
            if let Some(ns) = cell.launch.length() {
                cell.still = ns - least;
            }
        }
    }
    any
}

/// Which launches are one operation, by their number; the first one stands for all.
#[derive(Default)]
struct Tied {
    first: Vec<u32>,
}

impl Tied {
    fn first(&mut self, of: u32) -> u32 {
        let known = |at: u32| self.first.get(at as usize).copied().unwrap_or(at);
        let mut at = of;
        while known(at) != at {
            at = known(at);
        }
        if (of as usize) < self.first.len() {
            self.first[of as usize] = at;
        }
        at
    }

    fn join(&mut self, a: u32, b: u32) {
        let next = self.first.len() as u32;
        self.first.extend(next..=a.max(b));
        let (a, b) = (self.first(a), self.first(b));
        self.first[a.max(b) as usize] = a.min(b);
    }
}

/// What a sample says of all operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scaled {
    /// The sum over all operations.
    pub sum: f64,
    /// Values that it rests on.
    pub known: u64,
    /// Launches at places with a value.
    pub covered: f64,
    /// All launches.
    pub operations: f64,
}

#[cfg(test)]
mod tests {
    use super::super::launches::{Exchange, Group};
    use super::*;

    const STEPS: i64 = 30;

    /// A lane whose host makes launches of sends or receives of rank 1 from rank 0 in each step of 100 ns.
    /// Each launch has so many of them, and the stream stands still for so long in it, ns.
    fn lane(own: u32, of_a_step: &[(u32, f64)]) -> Lane {
        let kind = Kind {
            communicator: 0,
            function: tables::Name::NONE,
            bytes: 8,
            graph: 0,
        };
        let mut lane = Lane {
            kinds: vec![kind],
            groups: HashMap::from([(0, Group::default())]),
            ..Lane::default()
        };
        for (step, (n, (calls, still))) in
            (0..STEPS).flat_map(|step| (0..).zip(of_a_step).map(move |of| (step, of)))
        {
            let launch = lane.launches.len() as u32;
            lane.launches.push(Launch {
                api: 100 * step + n + 1,
                still: *still,
                ..Launch::default()
            });
            lane.exchanges.extend((0..*calls).map(|_| Exchange {
                launch,
                communicator: 0,
                from: 0,
                to: 1,
                own: Some(own),
            }));
        }
        lane
    }

    #[test]
    fn launches_of_a_lane_that_are_one_operation_all_count() {
        let lanes = [lane(0, &[(2, 5.0)]), lane(1, &[(1, 10.0), (1, 20.0)])];
        let begins: Vec<i64> = (0..=STEPS).map(|step| 100 * step).collect();
        let frame = Frame {
            begins: vec![begins; 2],
            wall: vec![100.0; STEPS as usize],
            skipped: 0,
            by_hosts: false,
            equal_parts: 1,
        };
        let places = Places::new(&lanes, &frame);
        assert_eq!(places.operations().count(), STEPS as usize);
        let still = places.scaled(&[true; STEPS as usize], Cell::still);
        let sums: Vec<f64> = still.iter().map(|of| of.sum / STEPS as f64).collect();
        assert_eq!(sums, [5.0, 30.0]);
        let known = still.iter().map(|of| of.known as f64 / of.operations);
        assert_eq!(known.collect::<Vec<f64>>(), [1.0, 1.0]);
    }
}
