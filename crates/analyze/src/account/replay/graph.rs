//! The dependency graph of a run: which moments come after which.

use super::super::frame::Frame;
use super::super::launches::{Exchange, Lane, Launch};
use super::ready::{begun, Apart, Begun, Worked};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Upper limit on launches that are played again: each play takes a few passes over them.
const MOST: usize = 1 << 22;

/// Launches without times are left out, and may be no more than this part.
const MOST_UNTIMED: f64 = 0.01;

/// The steps of which all launches of all lanes have times; and whether nearly all launches of the run have.
pub fn known_steps(lanes: &[Lane], frame: &Frame) -> (Vec<bool>, bool) {
    let steps = frame.wall.len();
    let mut all = vec![(0i64, 0i64); steps];
    let (mut launches, mut untimed) = (0, 0);
    for (number, lane) in lanes.iter().enumerate() {
        let mut step_of = frame.steps_in_order(number);
        for launch in &lane.launches {
            // A graph has so many calls that windows may show or not.
            let (calls, missing) = match (launch.graph, launch.in_graph) {
                (0, true) => (0, -1),
                (0, false) => (1, i64::from(launch.start == 0 || !launch.is_known())),
                (calls, _) => (i64::from(calls), i64::from(calls)),
            };
            (launches, untimed) = (launches + calls, untimed + missing);
            if let Some(step) = step_of(launch.api) {
                all[step] = (all[step].0 + calls, all[step].1 + missing);
            }
        }
    }
    let is_known = |(all, missing): (i64, i64)| missing as f64 <= MOST_UNTIMED * all as f64;
    if is_known((launches, untimed)) {
        return (vec![true; steps], true);
    }
    (all.into_iter().map(is_known).collect(), false)
}

/// A moment of the run, and what must have been before.
#[derive(Clone, Copy)]
enum Moment {
    /// The computing stream of a lane comes to a place, after so much work.
    Works(f64),
    /// Something begins or ends so long after what must have been.
    After(f64),
}

/// A piece of a lane's work: until a launch begins, or until the computing stream stands still for it.
#[derive(Clone, Copy)]
pub struct Piece {
    /// Until when it is.
    pub moment: u32,
    /// The step.
    pub step: u32,
    /// How long it is, ns.
    pub work: f64,
    /// Which piece of a step it is: lanes that do the same have the same ones.
    pub which: u32,
    /// The number of the pieces of all lanes that are the same one in the same step.
    pub alike: u32,
}

/// A moment must have been before another.
#[derive(Clone, Copy)]
struct Edge {
    from: u32,
    to: u32,
    /// The end of a launch comes before something else of its lane. Which of the two came first is told by
    /// when they were, and not by the program.
    by_time: bool,
}

impl Edge {
    fn new(from: u32, to: u32) -> Edge {
        Edge {
            from,
            to,
            by_time: false,
        }
    }

    fn by_time(from: u32, to: u32) -> Edge {
        Edge {
            by_time: true,
            ..Edge::new(from, to)
        }
    }
}

#[derive(Default)]
pub struct Graph {
    moments: Vec<Moment>,
    /// By moment: when it was, ns since 1970, if that was measured.
    measured_at: Vec<i64>,
    /// Which moment must have been before which.
    edges: Vec<Edge>,
    /// By moment: where what must have been before it begins in `before`.
    begins: Vec<u32>,
    before: Vec<u32>,
    order: Vec<u32>,
    /// When the first moment of each lane is, ns.
    since: HashMap<u32, f64>,
    /// The first and last moment of the steps of each lane, by stretches of steps that follow each other.
    ends: Vec<(u32, u32)>,
    /// By lane: its work in the steps, by step.
    pub pieces: Vec<Vec<Piece>>,
    /// By lane: the program of its last step.
    programs: Vec<u32>,
    /// How many numbers [`Piece::alike`] has.
    pub alike: usize,
    /// How long the steps took, the sum over lanes, ns.
    pub measured: f64,
}

/// What launches of lanes that do the same have in common.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Class {
    /// Function and bytes.
    Collective(tables::Name, u64),
    /// Sends and receives in one launch: how many.
    Both(usize, usize),
    /// Only sends or only receives: to how many ranks further, or from.
    Way(bool, Vec<i64>),
}

/// Numbers for what comes again.
struct Numbers<T>(HashMap<T, u32>);

impl<T: Eq + std::hash::Hash> Numbers<T> {
    fn of(&mut self, what: T) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(what).or_insert(next)
    }
}

impl<T> Default for Numbers<T> {
    fn default() -> Numbers<T> {
        Numbers(HashMap::new())
    }
}

/// Where a piece of work ends: the place in the program, and whether the stream stands still there.
type End = (u32, bool);

/// What the lanes have in common while the graph is built.
#[derive(Default)]
struct Common {
    ties: HashMap<Key, Tie>,
    before_first: HashMap<Side, u32>,
    classes: Numbers<Class>,
    /// The classes of a step's launches: lanes with the same program do the same.
    programs: Numbers<Vec<u32>>,
    /// Program, where in it a piece of work ends, and where the one before it did.
    which: Numbers<(u32, End, Option<End>)>,
    alike: Numbers<(u32, u32)>,
    apart: Apart,
    /// Clocks, by host.
    clocks: Numbers<String>,
}

/// What is known of a lane before all lanes are known.
struct Prepared<'a> {
    number: usize,
    lane: &'a Lane,
    worked: Worked,
    begun: Vec<Begun>,
    /// By launch: the program of its step, and its place there.
    which: Vec<(u32, u32)>,
}

impl<'a> Prepared<'a> {
    fn new(number: usize, lane: &'a Lane, frame: &Frame, common: &mut Common) -> Prepared<'a> {
        let worked = Worked::of(lane);
        let begun = begun(lane, &worked);
        let classes = classes(lane, &mut common.classes);
        let step = |index: &usize| frame.step(number, lane.launches[*index].api);
        let all: Vec<usize> = (0..lane.launches.len()).collect();
        let mut which = Vec::with_capacity(all.len());
        for of in all.chunk_by(|a, b| step(a) == step(b)) {
            let program = of.iter().map(|index| classes[*index]).collect();
            let program = common.programs.of(program);
            which.extend((0..of.len() as u32).map(|position| (program, position)));
        }
        common.apart.add(&begun, &which);
        Prepared {
            number,
            lane,
            worked,
            begun,
            which,
        }
    }
}

/// What launches of several lanes are one operation.
#[derive(PartialEq, Eq, Hash)]
pub enum Key {
    /// Of a communicator and function, by how many came before.
    Collective(u32, tables::Name, u32),
    /// Of a communicator, from a rank to another, the same.
    Exchange(u32, u32, u32, u32),
}

impl Graph {
    /// Of these lanes and these steps; `None` if there are too many launches.
    pub fn new(lanes: &[Lane], frame: &Frame, steps: &[bool]) -> Option<Graph> {
        let all: usize = lanes.iter().map(|lane| lane.launches.len()).sum();
        if all > MOST || !steps.contains(&true) {
            return None;
        }
        let mut graph = Graph::default();
        let mut common = Common {
            before_first: before_first(lanes),
            ..Common::default()
        };
        let prepare = |(number, lane)| Prepared::new(number, lane, frame, &mut common);
        let prepared: Vec<Prepared> = lanes.iter().enumerate().map(prepare).collect();
        let program = |of: &Prepared| of.which.last().map_or(0, |(program, _)| *program);
        graph.programs = prepared.iter().map(program).collect();
        for prepared in &prepared {
            graph.add(prepared, frame, steps, &mut common)?;
        }
        graph.alike = common.alike.0.len();
        graph.tie(common.ties);
        graph.sort();
        Some(graph)
    }

    fn moment(&mut self, moment: Moment, at: i64) -> u32 {
        self.measured_at.push(at);
        self.moments.push(moment);
        self.moments.len() as u32 - 1
    }

    /// Adds a lane, and its launches to what they are tied to.
    fn add(
        &mut self,
        prepared: &Prepared,
        frame: &Frame,
        steps: &[bool],
        common: &mut Common,
    ) -> Option<()> {
        let (lane, worked, which) = (prepared.lane, &prepared.worked, &prepared.which);
        let of = |index: u32| -> &Launch { &lane.launches[index as usize] };
        let mut begun = vec![u32::MAX; lane.launches.len()];
        let mut ended = vec![u32::MAX; lane.launches.len()];
        let ready = common.apart.ready(&prepared.begun, which);
        // In the order of the computing stream: when it comes to where a launch began or stands still for it.
        let mut events: Vec<(i64, i64, bool, u32)> = Vec::new();
        // Of all steps, also what is before and behind them.
        let whole = steps.iter().all(|is| *is);
        let step_of = |index: u32| frame.step(prepared.number, of(index).api);
        for (launch, ready) in prepared.begun.iter().zip(ready) {
            let index = launch.index;
            if !whole && step_of(index).is_none_or(|step| !steps[step]) {
                continue;
            }
            let Launch {
                start,
                stop,
                stands,
                ..
            } = *of(index);
            begun[index as usize] = self.moment(Moment::After(0.0), start);
            let took = Moment::After((stop - start).max(0) as f64);
            ended[index as usize] = self.moment(took, stop);
            for before in launch.behind.into_iter().flatten() {
                if ended[before as usize] == u32::MAX {
                    continue;
                }
                let (ended, begun) = (ended[before as usize], begun[index as usize]);
                self.edges.push(Edge::by_time(ended, begun));
            }
            events.push((ready, start, false, index));
            if stands != 0 {
                events.push((worked.until(stands.min(stop)), stop, true, index));
            }
        }
        events.sort_unstable();
        let mut pieces = Vec::new();
        let (mut last, mut until, mut last_step): (Option<u32>, i64, Option<usize>) =
            (None, 0, None);
        let (mut first_in, mut last_in, mut before) = (None, None, None);
        for (at, _, stands, index) in events {
            let step = step_of(index);
            let real = if stands {
                of(index).stop
            } else {
                of(index).start
            };
            // Where steps are left out, the lane begins anew.
            let follows = whole
                || last_step
                    .zip(step)
                    .is_some_and(|(last, step)| (last..=step).all(|step| steps[step]));
            let begins = last.is_none() || !follows;
            if !follows {
                self.end(&mut first_in, &mut last_in);
                before = None;
            }
            let work = if begins && !whole {
                0.0
            } else {
                (at - until) as f64
            };
            (until, last_step) = (at, step.or(last_step));
            let moment = self.moment(Moment::Works(work), real);
            match last.filter(|_| !begins) {
                Some(last) => self.edges.push(Edge::new(last, moment)),
                None if whole => {
                    self.since.insert(moment, worked.origin() as f64);
                }
                None => {
                    self.since.insert(moment, real as f64);
                }
            }
            last = Some(moment);
            if stands {
                let ended = ended[index as usize];
                self.edges.push(Edge::by_time(ended, moment))
            } else {
                self.edges.push(Edge::new(moment, begun[index as usize]))
            }
            let Some(step) = step else {
                continue;
            };
            let (program, place) = which[index as usize];
            let which = common.which.of((program, (place, stands), before));
            before = Some((place, stands));
            first_in = first_in.or(Some((moment, real)));
            last_in = Some((moment, real));
            if begins && !whole {
                continue;
            }
            pieces.push(Piece {
                moment,
                step: step as u32,
                work,
                which,
                alike: common.alike.of((step as u32, which)),
            });
        }
        self.end(&mut first_in, &mut last_in);
        if pieces.is_empty() {
            return None;
        }
        pieces.sort_by_key(|piece| piece.step);
        self.pieces.push(pieces);
        self.keys(lane, &begun, &ended, common);
        Some(())
    }

    /// A stretch of steps of a lane ends.
    fn end(&mut self, first: &mut Option<(u32, i64)>, last: &mut Option<(u32, i64)>) {
        if let Some(((first, from), (last, to))) = first.take().zip(last.take()) {
            self.ends.push((first, last));
            self.measured += (to - from) as f64;
        }
    }

    fn keys(&self, lane: &Lane, begun: &[u32], ended: &[u32], common: &mut Common) {
        let Common {
            ties,
            before_first,
            clocks,
            ..
        } = common;
        let clock = clocks.of(lane.clock.clone());
        let mut tie = |key: Key, index: usize| {
            let launch = &lane.launches[index];
            if begun[index] == u32::MAX {
                return;
            }
            let tie = ties.entry(key).or_default();
            tie.begun.push((begun[index], clock));
            tie.ended.push(ended[index]);
            let took = (launch.stop - launch.start).max(0) as f64;
            let took = (took - launch.synced().unwrap_or(0.0)).max(0.0);
            tie.shortest = tie
                .shortest
                .map_or(Some(took), |least| Some(least.min(took)));
        };
        for (key, index) in self::ties(lane, before_first) {
            tie(key, index);
        }
    }

    /// A launch ends after all that it is tied to have begun, and the bytes have moved. That takes no longer
    /// than from the begin of the last of them until it ends, if all have one clock: two that exchange
    /// something may both wait for a third.
    fn tie(&mut self, ties: HashMap<Key, Tie>) {
        let mut moved: HashMap<u32, Moved> = HashMap::new();
        for tie in ties.into_values() {
            let shortest = tie.shortest.unwrap_or(0.0);
            let all = self.moment(Moment::After(0.0), 0);
            let begun = tie.begun.iter();
            self.edges
                .extend(begun.map(|(begun, _)| Edge::new(*begun, all)));
            let begun = tie.begun.iter();
            let last = begun.map(|(begun, _)| self.measured_at[*begun as usize]);
            // Each launch that ends has begun, so all are on this clock, or it is not known.
            let one_clock = tie.begun.windows(2).all(|of| of[0].1 == of[1].1);
            let last = last.max().filter(|_| one_clock);
            for ended in tie.ended {
                self.edges.push(Edge::new(all, ended));
                let moved = moved.entry(ended).or_insert(Moved {
                    takes: 0.0,
                    last: Some(i64::MIN),
                    ties: 0,
                });
                moved.takes = shortest.max(moved.takes);
                moved.last = moved.last.zip(last).map(|(a, b)| a.max(b));
                moved.ties += 1;
            }
        }
        for (ended, Moved { takes, last, ties }) in moved {
            let at_most = last
                .filter(|_| ties > 1)
                .map(|last| (self.measured_at[ended as usize] - last).max(0) as f64);
            self.moments[ended as usize] = Moment::After(at_most.map_or(takes, |of| of.min(takes)));
        }
    }

    /// Puts moments into an order in which each comes after those that must have been before.
    ///
    /// If some wait for each other in a circle, times that were not measured in the same step, or on two
    /// clocks, have put two moments of a lane in the wrong order. The earliest of the circle does not wait.
    fn sort(&mut self) {
        let n = self.moments.len();
        // What is missing by the program, and by time.
        let mut missing = vec![(0u32, 0u32); n];
        let mut next_begins = vec![0u32; n + 1];
        self.begins = vec![0; n + 1];
        for edge in &self.edges {
            let missing = &mut missing[edge.to as usize];
            missing.0 += u32::from(!edge.by_time);
            missing.1 += u32::from(edge.by_time);
            next_begins[edge.from as usize + 1] += 1;
            self.begins[edge.to as usize + 1] += 1;
        }
        for i in 0..n {
            next_begins[i + 1] += next_begins[i];
            self.begins[i + 1] += self.begins[i];
        }
        self.before = vec![0; self.edges.len()];
        let mut next = vec![(0u32, false); self.edges.len()];
        let (mut at, mut at_next) = (self.begins.clone(), next_begins.clone());
        for Edge { from, to, by_time } in self.edges.drain(..) {
            self.before[at[to as usize] as usize] = from;
            at[to as usize] += 1;
            next[at_next[from as usize] as usize] = (to, by_time);
            at_next[from as usize] += 1;
        }
        let is_ready = |missing: &(u32, u32)| *missing == (0, 0);
        let mut ready: Vec<u32> = (0..n as u32)
            .filter(|i| is_ready(&missing[*i as usize]))
            .collect();
        // Those that only wait by time, the earliest first.
        let by_time = |moment: u32, at: &[i64]| Reverse((at[moment as usize], moment));
        let waits = (0..n as u32).filter(|i| matches!(missing[*i as usize], (0, 1..)));
        let mut waiting: BinaryHeap<_> = waits.map(|i| by_time(i, &self.measured_at)).collect();
        let mut sorted = vec![false; n];
        loop {
            let earliest = || waiting.pop().map(|Reverse((_, moment))| moment);
            let Some(moment) = ready.pop().or_else(earliest) else {
                break;
            };
            if std::mem::replace(&mut sorted[moment as usize], true) {
                continue;
            }
            self.order.push(moment);
            let of = next_begins[moment as usize]..next_begins[moment as usize + 1];
            for after in of {
                let (after, is_by_time) = next[after as usize];
                let missing = &mut missing[after as usize];
                if is_by_time {
                    missing.1 -= 1;
                } else {
                    missing.0 -= 1;
                }
                if is_ready(missing) {
                    ready.push(after);
                } else if missing.0 == 0 && !is_by_time {
                    waiting.push(by_time(after, &self.measured_at));
                }
            }
        }
    }

    /// The work of all moments as it was measured.
    pub fn measured_work(&self) -> Vec<f64> {
        let of = |moment: &Moment| match moment {
            Moment::Works(work) => *work,
            Moment::After(_) => 0.0,
        };
        self.moments.iter().map(of).collect()
    }

    /// How long the steps take, the sum over lanes, if the work until each moment takes this long.
    pub fn play(&self, work: &[f64]) -> f64 {
        let mut at = vec![0.0f64; self.moments.len()];
        for moment in &self.order {
            let index = *moment as usize;
            let before = &self.before[self.begins[index] as usize..self.begins[index + 1] as usize];
            let mut came = if before.is_empty() {
                self.since.get(moment).copied().unwrap_or(0.0)
            } else {
                f64::NEG_INFINITY
            };
            for before in before {
                came = came.max(at[*before as usize]);
            }
            // In a circle, what must have been before the first moment of a lane may come after it.
            if came <= 0.0 {
                came = self.since.get(moment).copied().unwrap_or(0.0);
            }
            at[index] = match self.moments[index] {
                Moment::After(ns) => came + ns,
                Moment::Works(_) => {
                    // What a stream stands still for may end before it comes there.
                    let own = before.first().map_or(came, |first| at[*first as usize]);
                    came.max(own + work[index])
                }
            };
        }
        let took = |(first, last): &(u32, u32)| at[*last as usize] - at[*first as usize];
        self.ends.iter().map(took).sum()
    }

    /// Lanes that do the same: those of a stage, in all pipelines.
    pub fn alike_lanes(&self) -> Vec<Vec<usize>> {
        let mut by: HashMap<u32, Vec<usize>> = HashMap::new();
        for (lane, program) in self.programs.iter().enumerate() {
            by.entry(*program).or_default().push(lane);
        }
        by.into_values().collect()
    }

    /// The work of a lane in each step.
    pub fn by_step(&self, lane: usize, steps: usize) -> Vec<f64> {
        let mut work = vec![0.0; steps];
        for piece in &self.pieces[lane] {
            work[piece.step as usize] += piece.work;
        }
        work
    }
}

/// Sends from one rank of a communicator to another, or their receives: communicator, sender, receiver, and
/// whether it is the one who sends.
type Side = (u32, u32, u32, bool);

fn side(of: &Exchange) -> Side {
    let sends = of.own.is_some_and(|own| own == of.from);
    (of.communicator, of.from, of.to, sends)
}

/// How many exchanges the other side made before the first one of this side that is known. A call that was
/// recorded in part, with no peer, is no exchange. If one side has fewer of them, it lacks the first or the
/// last ones: those that are tied together overlap on the GPUs.
fn before_first(lanes: &[Lane]) -> HashMap<Side, u32> {
    let mut all: HashMap<Side, Vec<(i64, i64)>> = HashMap::new();
    for lane in lanes {
        for of in lane.exchanges.iter().filter(|of| of.own.is_some()) {
            let launch = &lane.launches[of.launch as usize];
            all.entry(side(of))
                .or_default()
                .push((launch.start, launch.stop));
        }
    }
    let is_apart =
        |(a, b): (&(i64, i64), &(i64, i64))| a.0 != 0 && b.0 != 0 && (a.0 > b.1 || b.0 > a.1);
    let lacking = all.iter().filter_map(|(own, fewer)| {
        let (communicator, from, to, sends) = *own;
        let more = all.get(&(communicator, from, to, !sends))?;
        let lacks = more.len().checked_sub(fewer.len()).filter(|n| *n > 0)?;
        let apart = |from: usize| {
            fewer
                .iter()
                .zip(&more[from..])
                .filter(|of| is_apart(*of))
                .count()
        };
        (apart(lacks) < apart(0)).then_some((*own, lacks as u32))
    });
    lacking.collect()
}

/// What ties each launch of a lane to those of others, and the launch's index.
pub fn ties(lane: &Lane, before_first: &HashMap<Side, u32>) -> Vec<(Key, usize)> {
    let mut ties = Vec::new();
    let mut before = lane.before.clone();
    for (index, launch) in lane.launches.iter().enumerate() {
        let kind = lane.kinds[launch.kind as usize];
        if kind.function != tables::Name::NONE {
            let of = (kind.communicator, kind.function);
            let ordinal = before.entry(of).or_default();
            ties.push((Key::Collective(of.0, of.1, *ordinal), index));
            *ordinal += 1;
        }
    }
    let mut sent: HashMap<Side, u32> = HashMap::new();
    for of in &lane.exchanges {
        let side = side(of);
        let first = || before_first.get(&side).copied().unwrap_or(0);
        let ordinal = sent.entry(side).or_insert_with(first);
        let key = Key::Exchange(of.communicator, of.from, of.to, *ordinal);
        ties.push((key, of.launch as usize));
        *ordinal += 1;
    }
    ties
}

/// Launches that end together.
#[derive(Default)]
struct Tie {
    /// Moments, and on which clock each was measured.
    begun: Vec<(u32, u32)>,
    ended: Vec<u32>,
    shortest: Option<f64>,
}

/// For how long the bytes of a launch move.
struct Moved {
    /// The longest of its ties: the shortest GPU time of each.
    takes: f64,
    /// When the last of all that it is tied to began, if all have its clock.
    last: Option<i64>,
    ties: u32,
}

/// The class of each launch of a lane.
fn classes(lane: &Lane, numbers: &mut Numbers<Class>) -> Vec<u32> {
    let mut exchanges = lane.exchanges.iter().peekable();
    let of = |(index, launch): (usize, &Launch)| {
        let (mut sends, mut receives) = (Vec::new(), Vec::new());
        while let Some(of) = exchanges.next_if(|of| of.launch as usize <= index) {
            let way = i64::from(of.to) - i64::from(of.from);
            match of.own {
                Some(own) if own == of.from => sends.push(way),
                _ => receives.push(-way),
            }
        }
        let kind = lane.kinds[launch.kind as usize];
        numbers.of(match (sends.len(), receives.len()) {
            _ if kind.function != tables::Name::NONE => {
                Class::Collective(kind.function, kind.bytes)
            }
            (_, 0) => Class::Way(true, sends),
            (0, _) => Class::Way(false, receives),
            (sends, receives) => Class::Both(sends, receives),
        })
    };
    lane.launches.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lane that sends to another one, or receives from it, in these launches of 5 ns each.
    fn lane(own: u32, starts: impl Iterator<Item = i64>) -> Lane {
        let launch = |start| Launch {
            start,
            stop: start + 5,
            ..Launch::default()
        };
        let launches: Vec<Launch> = starts.map(launch).collect();
        let exchange = |launch| Exchange {
            launch,
            communicator: 0,
            from: 0,
            to: 1,
            own: Some(own),
        };
        Lane {
            exchanges: (0..launches.len() as u32).map(exchange).collect(),
            launches,
            ..Lane::default()
        }
    }

    #[test]
    fn receives_whose_first_ones_are_not_known_belong_to_later_sends() {
        let all = |n: i64| (0..n).map(|n| 10 * (n + 1));
        let lacks = |sends: Lane, receives: Lane| before_first(&[sends, receives]);
        let first = lacks(lane(0, all(20)), lane(1, all(20).skip(2)));
        assert_eq!(first, HashMap::from([((0, 0, 1, false), 2)]));
        assert!(lacks(lane(0, all(20)), lane(1, all(18))).is_empty());
        assert!(lacks(lane(0, all(20)), lane(1, all(20))).is_empty());
    }
}
