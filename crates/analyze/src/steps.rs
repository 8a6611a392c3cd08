//! The steps of a job: training or decoding, found from the pattern of calls that repeats.
//!
//! A [`Gatherer`] keeps what a process called, in order. [`Gatherer::finish`] looks for the period: a number
//! of calls after which the same calls (communicator, function, datatype, count) come again. Candidates are
//! the distances between equal stretches of calls; one is judged by how many of all calls it explains. What
//! lies in between (start-up, checkpoints, evaluation) explains nothing and breaks nothing. Loops nest:
//! layers repeat in a step, steps between two evaluations. Several periods may explain nearly as much as the
//! best. The shortest with at least three different calls is taken, because the calls of one layer seldom
//! differ. If there is none, the one with the most different calls is taken. If more time lies between its
//! occurrences than in them, a longer one is looked for.
//!
//! A step begins after the longest pause of the pattern, where the host waits or computes.
//!
//! Calls at random repeat patterns, too. But then a pattern follows itself at once as often as its calls come
//! by chance. Steps do so in [three of five cases](AT_ONCE) or more, and beyond chance.
//!
//! Some steps are the same call several times, or calls that are never of one size. Their calls alone have no
//! period. Then the pauses are looked at: if the calls come in bursts of one length, each burst is a step. A
//! burst has the same communicators, functions and datatypes as the others, and the pauses between bursts are
//! ten times as long as those within. Pauses that come by chance make bursts of all lengths: at most a
//! quarter of them have any one length from two on, so nine in ten is beyond chance.
//!
//! If calls are captured into CUDA graphs, NCCL announces no call of a step. So if there are no steps by
//! calls alone, each launch of a graph with calls stands among them as if it was a call: each graph as one of
//! its own, or else all as one, because a server has a graph for each batch size.
//!
//! Rule: a step's time is told where the next step follows at once, so nothing else is in it. Steps are each
//! rank's own, on its own host's clock: no clocks are compared.

use crate::executions::Execution;
use crate::ranks::{spread, Spread};
use crate::statistics::{Sample, Statistics};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use tables::{Name, Process};

/// Of a process, so many calls are looked at: at 32 bytes each they take 32 MiB.
const MOST_CALLS: usize = 1 << 20;
/// Periods are looked for in so many calls, from the middle.
const WINDOW: usize = 1 << 16;
/// How many calls make two places look alike.
const CONTEXTS: [usize; 3] = [1, 8, 64];
/// As many of the most frequent distances are tried, for each context.
const CANDIDATES: usize = 8;
/// A period, and then its steps, must explain this share of the calls,
const LEAST_COVERED: f64 = 0.5;
/// and not less than the best by more than this.
const NEARLY: f64 = 0.25;
/// Steps of few different calls are so much of all calls.
const MOSTLY: f64 = 0.9;
/// Steps have so much of the calls of those that have most.
const WHOLE: f64 = 0.9;
/// Of steps, this share is followed by the next at once.
const AT_ONCE: f64 = 0.6;
/// A pattern of calls at random follows itself so often with a probability of less than 1 in 10 000. This is
/// the natural logarithm. There are some 20 candidates.
const BEYOND_CHANCE: f64 = 9.21;
/// So many calls that differ make a pattern that is not a layer's.
const DIFFERENT: usize = 3;
/// Fewer repetitions are no steps,
const LEAST_STEPS: usize = 4;
/// nor are fewer of a single call.
const LEAST_SINGLE: usize = 16;
/// Steps are not shorter than this, µs: calls that are made in a loop and nothing else are a benchmark's.
const LEAST_US: f64 = 1e3;
/// The pauses of so many repetitions are looked at.
const PAUSES: usize = 256;
/// A pause before a pattern is so many times as long as any other in it, if the pattern is a step and no
/// layer.
const DISTINCT_PAUSE: i64 = 10;
/// Or it is as long as this part of the longest pause in longer patterns.
const SIMILAR_PAUSE: i64 = 2;
/// Pauses that part bursts are looked for from this length on, ns, and up to the longest. Shorter ones are
/// between the calls of a loop.
const SHORTEST_PAUSE: i64 = 50_000;
/// Each next length is so many times the one before.
const PAUSE_FACTOR: i64 = 2;

/// The steps of the job.
#[derive(Clone, Debug, Serialize)]
pub struct Steps {
    /// Rank whose steps `step_us` is of: that with the most steps, of equals the first.
    pub rank: Option<u32>,
    /// From a step's first call to the next step's, on that rank; null where no two follow each other.
    pub step_us: Option<Statistics>,
    /// Steps of a rank.
    pub steps: Option<Spread>,
    /// Calls in a step of a rank.
    pub calls: Option<Spread>,
    /// Time of a rank's GPU in NCCL kernels per step, waiting included: the rank's median. Null without GPU
    /// times.
    pub communication_us: Option<Spread>,
    /// From a rank's first call to its first step.
    pub startup_us: Option<Spread>,
    /// What a rank spent between steps that do not follow each other: evaluation, checkpoints that
    /// communicate.
    pub between_us: Option<Spread>,
    /// Ranks in whose calls no pattern repeats.
    pub without: u64,
    /// By restart and rank.
    pub rows: Vec<StepsRow>,
}

/// The steps of one process.
#[derive(Clone, Debug, Serialize)]
pub struct StepsRow {
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Host.
    pub host: String,
    /// Process.
    pub pid: u32,
    /// Steps.
    pub steps: u64,
    /// Calls in each.
    pub calls: u64,
    /// Calls of the process after its first 1 048 576, which were not looked at.
    pub calls_beyond: u64,
    /// Step time.
    pub step_us: Option<Statistics>,
    /// Time of the GPU in NCCL kernels, by step.
    pub communication_us: Option<Statistics>,
    /// From the first call to the first step; null where host times are not known.
    pub startup_us: Option<f64>,
    /// Between steps that do not follow each other.
    pub between_us: Option<f64>,
    /// The steps one by one, in order.
    #[serde(skip)]
    pub each: Vec<Step>,
}

/// One step of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When its first call was made, ns since 1970.
    pub start_ns: Option<i64>,
    /// To the next step, where that follows at once, ns.
    pub time_ns: Option<u64>,
    /// Time of the GPU in NCCL kernels, ns.
    pub communication_ns: Option<u64>,
    /// When the last of these kernels ended, by their clock, if all are known.
    pub end_ns: Option<u64>,
}

impl Steps {
    /// The row that `rank` and `step_us` are of.
    pub fn reference(&self) -> Option<&StepsRow> {
        let most = self.rows.iter().map(|row| row.steps).max()?;
        self.rows.iter().find(|row| row.steps == most)
    }
}

/// A call: what it is, the same without its size, when it was made on the host (0 not known), and when its
/// kernel ran (0, 0 not known).
#[derive(Clone, Copy)]
struct Item {
    symbol: u32,
    kind: u32,
    time: i64,
    kernel: (u64, u64),
}

/// What makes two calls the same: communicator, function, datatype, elements.
type Same = (u32, Name, Name, u64);
/// The same without elements.
type CallKind = (u32, Name, Name);

/// What is gathered of one process.
#[derive(Default)]
pub struct Gatherer {
    symbols: HashMap<Same, u32>,
    kinds: HashMap<CallKind, u32>,
    /// By place of the walk: what came there last, its symbol and its kind.
    latest: Vec<Option<(Same, u32, u32)>>,
    items: Vec<Item>,
    beyond: u64,
}

impl Gatherer {
    /// Adds an execution of `function`, of the process's communicator `local`.
    #[inline]
    pub fn add(&mut self, local: u32, function: Name, execution: &Execution) {
        if execution.captured {
            return;
        }
        if self.items.len() >= MOST_CALLS {
            self.beyond += 1;
            return;
        }
        let (shape, call) = (execution.shape, execution.call);
        let key = (local, function, shape.datatype, shape.count);
        if self.latest.len() <= execution.place {
            self.latest.resize(execution.place + 1, None);
        }
        let (symbol, kind) = match self.latest[execution.place] {
            Some((same, symbol, kind)) if same == key => (symbol, kind),
            _ => {
                let next = self.symbols.len() as u32;
                let symbol = *self.symbols.entry(key).or_insert(next);
                let next = self.kinds.len() as u32;
                let kind = (local, function, shape.datatype);
                let kind = *self.kinds.entry(kind).or_insert(next);
                self.latest[execution.place] = Some((key, symbol, kind));
                (symbol, kind)
            }
        };
        let times = [call.api_ns, call.launch_start_ns, call.enqueue_ns];
        self.items.push(Item {
            symbol,
            kind,
            time: times.into_iter().find(|t| *t != 0).unwrap_or(0),
            kernel: execution.kernel.on_either_clock().unwrap_or((0, 0)),
        });
    }

    /// The steps of `process`; `None` where nothing repeats.
    pub fn finish(self, process: &Process) -> Option<StepsRow> {
        let with_launches = |by_graph| self.with_launches(process, by_graph)?.find(process);
        let found = self.find(process);
        found
            .or_else(|| with_launches(true))
            .or_else(|| with_launches(false))
    }

    /// The same calls with launches of graphs among them, if there are some and all times are known.
    fn with_launches(&self, process: &Process, by_graph: bool) -> Option<Gatherer> {
        let launches = &process.graphs.launches;
        if launches.is_empty() || self.items.iter().any(|item| item.time == 0) {
            return None;
        }
        let mut items = self.items.clone();
        items.extend(launches.iter().map(|launch| Item {
            // Calls are numbered from 0.
            symbol: if by_graph {
                u32::MAX - launch.graph
            } else {
                u32::MAX
            },
            kind: u32::MAX,
            time: launch.at,
            kernel: (0, 0),
        }));
        items.sort_by_key(|item| item.time);
        items.truncate(MOST_CALLS);
        Some(Gatherer {
            items,
            beyond: self.beyond,
            ..Gatherer::default()
        })
    }

    /// The steps by these calls.
    fn find(&self, process: &Process) -> Option<StepsRow> {
        let symbols: Vec<u32> = self.items.iter().map(|item| item.symbol).collect();
        let periods = paused_periods(&self.items, &symbols).into_iter();
        let found: Vec<(StepsRow, bool)> = periods
            .filter_map(|period| self.of_period(&symbols, period, process))
            .collect();
        // Parts of a step repeat too, but not all of its calls, and often not for most of the time.
        let calls = |row: &StepsRow| row.steps as f64 * row.calls as f64;
        let most = found.iter().map(|(row, _)| calls(row)).fold(0.0, f64::max);
        let mut whole = found
            .into_iter()
            .filter(|(row, _)| calls(row) >= WHOLE * most);
        let Some((first, is_most)) = whole.next() else {
            return self.of_bursts(process);
        };
        if is_most {
            return Some(first);
        }
        Some(
            whole
                .find(|(_, is_most)| *is_most)
                .map_or(first, |(row, _)| row),
        )
    }

    /// The steps, if they are of so many calls, and whether most of the time is in them.
    fn of_period(
        &self,
        symbols: &[u32],
        period: usize,
        process: &Process,
    ) -> Option<(StepsRow, bool)> {
        let pattern = Period::new(&self.items, symbols, period)?.pattern;
        let begins = occurrences(symbols, &pattern);
        // A single call that repeats is nearly all of the calls.
        if period > 1 && !follow_each_other(symbols, &pattern, &begins) {
            return None;
        }
        self.of_begins(&begins, period, process)
    }

    /// The steps, if calls come in bursts: those that the shortest pauses part. A longer pause within a burst
    /// parts that one, too, so of the lengths of pauses that give bursts of so many calls, the one with the
    /// most is taken.
    fn of_bursts(&self, process: &Process) -> Option<StepsRow> {
        let items = &self.items;
        if items.iter().any(|item| item.time == 0) {
            return None;
        }
        let longest = items
            .windows(2)
            .map(|pair| pair[1].time - pair[0].time)
            .max()?;
        let lengths =
            std::iter::successors(Some(SHORTEST_PAUSE), |ns| ns.checked_mul(PAUSE_FACTOR));
        let mut found = lengths
            .take_while(|ns| *ns <= longest)
            .filter_map(|ns| bursts(items, ns));
        let (first, calls) = found.next()?;
        let most = found
            .filter(|(_, same)| *same == calls)
            .map(|(begins, _)| begins);
        let begins = most.fold(first, |a, b| if b.len() > a.len() { b } else { a });
        Some(self.of_begins(&begins, calls, process)?.0)
    }

    /// Steps of `period` calls each that begin at these places, as [`Gatherer::of_period`].
    fn of_begins(
        &self,
        begins: &[usize],
        period: usize,
        process: &Process,
    ) -> Option<(StepsRow, bool)> {
        let items = &self.items;
        let covered = (begins.len() * period) as f64;
        let least = if period == 1 {
            LEAST_SINGLE
        } else {
            LEAST_STEPS
        };
        if begins.len() < least || covered < LEAST_COVERED * items.len() as f64 {
            return None;
        }
        let (mut times, mut communication) = (Sample::default(), Sample::default());
        let mut apart = Vec::new();
        let since = |from: usize, to: usize| {
            let (from, to) = (items[from].time, items[to].time);
            let length = u64::try_from(to.checked_sub(from)?).ok();
            length.filter(|_| from != 0 && to != 0)
        };
        for pair in begins.windows(2) {
            let Some(ns) = since(pair[0], pair[1]) else {
                continue;
            };
            match pair[1] - pair[0] == period {
                true => times.push(ns),
                false => apart.push(ns),
            }
        }
        let mut each = Vec::with_capacity(begins.len());
        for (index, begin) in begins.iter().enumerate() {
            let of_step = &items[*begin..begin + period];
            let busy = busy(of_step);
            let end = of_step.iter().map(|item| item.kernel.1).max();
            if let Some(ns) = busy {
                communication.push(ns);
            }
            let next = begins.get(index + 1);
            let at_once = next.filter(|next| *next - begin == period);
            each.push(Step {
                start_ns: Some(items[*begin].time).filter(|time| *time != 0),
                time_ns: at_once.and_then(|next| since(*begin, *next)),
                communication_ns: busy,
                end_ns: end.filter(|_| busy.is_some()),
            });
        }
        let step_us = times.statistics();
        let p50 = step_us.and_then(|s| s.p50);
        p50.filter(|p50| *p50 >= LEAST_US)?;
        // Between two steps that do not follow each other is one more step. The sum of nothing is -0
        // otherwise.
        let between = |usual: f64| {
            apart
                .iter()
                .map(move |ns| (*ns as f64 / 1e3 - usual).max(0.0))
        };
        let between_us = p50.map(|usual| between(usual).fold(0.0, |a, b| a + b));
        let is_most = between_us.unwrap_or(0.0) <= step_us.map_or(0.0, |s| s.sum);
        let row = StepsRow {
            rank: process.rank,
            host: process.host.clone(),
            pid: process.pid,
            steps: begins.len() as u64,
            calls: period as u64,
            calls_beyond: self.beyond,
            step_us,
            communication_us: communication.statistics(),
            startup_us: since(0, begins[0]).map(|ns| ns as f64 / 1e3),
            between_us,
            each,
        };
        Some((row, is_most))
    }
}

/// Puts the rows of all processes together; `processes` is how many there are. `None` without steps.
pub fn finish(rows: Vec<StepsRow>, processes: usize) -> Option<Steps> {
    let most = rows.iter().map(|row| row.steps).max()?;
    let reference = rows.iter().find(|row| row.steps == most)?;
    let spread = |figure: fn(&StepsRow) -> Option<f64>| {
        let figures: Vec<Option<f64>> = rows.iter().map(figure).collect();
        spread(&figures)
    };
    Some(Steps {
        rank: reference.rank,
        step_us: reference.step_us,
        steps: spread(|row| Some(row.steps as f64)),
        calls: spread(|row| Some(row.calls as f64)),
        communication_us: spread(|row| row.communication_us?.p50),
        startup_us: spread(|row| row.startup_us),
        between_us: spread(|row| row.between_us),
        without: (processes - rows.len().min(processes)) as u64,
        rows,
    })
}

/// Whether `pattern`, which begins at these places, follows itself at once more often than by chance. Chance
/// is that of calls in any order, each as frequent as it is.
fn follow_each_other(symbols: &[u32], pattern: &[u32], begins: &[usize]) -> bool {
    let mut counts: HashMap<u32, usize> = HashMap::new();
    for symbol in symbols {
        *counts.entry(*symbol).or_default() += 1;
    }
    let share = |symbol: &u32| {
        counts
            .get(symbol)
            .map_or(0.0, |n| *n as f64 / symbols.len() as f64)
    };
    let chance = pattern.iter().map(|symbol| share(symbol).ln()).sum::<f64>();
    let pairs = begins.len().saturating_sub(1) as f64;
    let at_once = begins
        .windows(2)
        .filter(|pair| pair[1] - pair[0] == pattern.len());
    let found = at_once.count() as f64 / pairs.max(1.0);
    if found < AT_ONCE || found.ln() <= chance {
        return false;
    }
    // Chernoff's bound of the binomial distribution's tail.
    let rest = match 1.0 - found {
        0.0 => 0.0,
        rest => rest * (rest.ln() - (-chance.exp()).ln_1p()),
    };
    pairs * (found * (found.ln() - chance) + rest) >= BEYOND_CHANCE
}

/// The bursts of calls with pauses of at least `pause` ns between them: where they begin, and how many calls
/// each has. `None` if they are not of one length, or if the pauses do not stand out.
fn bursts(items: &[Item], pause: i64) -> Option<(Vec<usize>, usize)> {
    let before = |at: usize| items[at].time - items[at - 1].time;
    let edges: Vec<usize> = (1..items.len()).filter(|at| before(*at) >= pause).collect();
    // What comes before the first pause and after the last one may be cut.
    let all: Vec<(usize, usize)> = edges
        .windows(2)
        .map(|pair| (pair[0], pair[1] - pair[0]))
        .collect();
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for (_, calls) in &all {
        *lengths.entry(*calls).or_default() += 1;
    }
    let (calls, n) = lengths.into_iter().max_by_key(|(calls, n)| (*n, *calls))?;
    // What is parted after each single call is no burst.
    if calls < 2 || n < LEAST_SINGLE || (n as f64) < MOSTLY * all.len() as f64 {
        return None;
    }
    let of_length = || all.iter().filter(|(_, length)| *length == calls);
    let kinds = |begin: usize| items[begin..begin + calls].iter().map(|item| item.kind);
    let (first, _) = of_length().nth(n / 2)?;
    let mut begins: Vec<usize> = of_length().map(|(begin, _)| *begin).collect();
    begins.retain(|begin| kinds(*begin).eq(kinds(*first)));
    // The last one is whole, if it is as long.
    let last = edges.last().copied().filter(|at| items.len() - at == calls);
    begins.extend(last.filter(|begin| kinds(*begin).eq(kinds(*first))));
    let median = |mut pauses: Vec<i64>| {
        pauses.sort_unstable();
        pauses.get(pauses.len() / 2).copied().unwrap_or(0)
    };
    let between = median(begins.iter().map(|at| before(*at)).collect());
    let within =
        (1..calls).map(|place| median(begins.iter().map(|at| before(at + place)).collect()));
    let within = within.max().unwrap_or(0).max(0);
    let is_mostly = begins.len() as f64 >= MOSTLY * all.len() as f64;
    (is_mostly && between >= within.saturating_mul(DISTINCT_PAUSE)).then_some((begins, calls))
}

/// For how long the GPU was in these kernels, ns; `None` where that is not known of all.
fn busy(items: &[Item]) -> Option<u64> {
    if items.iter().any(|item| item.kernel == (0, 0)) {
        return None;
    }
    let mut kernels: Vec<(u64, u64)> = items.iter().map(|item| item.kernel).collect();
    kernels.sort_unstable();
    let (mut sum, mut until) = (0u64, 0);
    for (start, stop) in kernels {
        sum = sum.saturating_add(stop.saturating_sub(start.max(until)));
        until = until.max(stop);
    }
    Some(sum)
}

/// After how many calls the same calls come again: the best first, then longer ones. Layers are left out.
pub(crate) fn periods(symbols: &[u32]) -> Vec<usize> {
    candidates(symbols).1
}

/// The same with patterns of few calls, if the host pauses before them.
fn paused_periods(items: &[Item], symbols: &[u32]) -> Vec<usize> {
    let (mut layered, others) = candidates(symbols);
    let of = |period: &usize| Period::new(items, symbols, *period);
    let longest = others.iter().filter_map(|period| Some(of(period)?.pause));
    let longest = longest.max().unwrap_or(0);
    layered.retain(|period| of(period).is_some_and(|p| p.is_paused_for(longest)));
    let mut all = [layered, others].concat();
    all.sort_unstable();
    all
}

/// After how many calls the same calls come again, by length: patterns in which few calls differ, as in those
/// of layers, and others.
fn candidates(symbols: &[u32]) -> (Vec<usize>, Vec<usize>) {
    let window = {
        let skipped = symbols.len().saturating_sub(WINDOW) / 2;
        &symbols[skipped..(skipped + WINDOW).min(symbols.len())]
    };
    let mut tried: Vec<usize> = Vec::new();
    for context in CONTEXTS {
        let mut last: HashMap<u64, usize> = HashMap::new();
        let mut distances: HashMap<usize, usize> = HashMap::new();
        for (at, hash) in hashes(window, context) {
            if let Some(before) = last.insert(hash, at) {
                *distances.entry(at - before).or_default() += 1;
            }
        }
        let mut distances: Vec<(usize, usize)> = distances.into_iter().collect();
        distances.sort_unstable_by_key(|(distance, n)| (std::cmp::Reverse(*n), *distance));
        tried.extend(distances.iter().take(CANDIDATES).map(|(d, _)| *d));
    }
    tried.sort_unstable();
    tried.dedup();
    let judged: Vec<(usize, f64, usize)> = tried
        .into_iter()
        .map(|period| {
            let (covered, longest) = covered(symbols, period);
            let word = &symbols[longest.saturating_sub(period - 1)..=longest];
            let different = word.iter().collect::<HashSet<_>>().len();
            (period, covered as f64 / symbols.len() as f64, different)
        })
        .filter(|(_, covered, _)| *covered >= LEAST_COVERED)
        .collect();
    let best = judged.iter().map(|(_, c, _)| *c).fold(0.0, f64::max);
    let most = judged.iter().map(|(.., d)| *d).max().unwrap_or(0);
    let is_layered = |different: usize| different < most.min(DIFFERENT);
    // Layers, and parts of a pipeline, repeat in some of a step; steps with few calls fill the whole time.
    let fills = |covered: f64, different: usize| !is_layered(different) || covered >= MOSTLY;
    let good = judged
        .iter()
        .filter(|(_, c, different)| *c >= best - NEARLY && fills(*c, *different));
    let (layered, others): (Vec<_>, Vec<_>) = good.partition(|(.., d)| is_layered(*d));
    let periods = |judged: Vec<&(usize, f64, usize)>| -> Vec<usize> {
        judged.into_iter().map(|(period, ..)| *period).collect()
    };
    (periods(layered), periods(others))
}

/// The hash of each stretch of so many symbols, by its last place.
fn hashes(symbols: &[u32], length: usize) -> impl Iterator<Item = (usize, u64)> + '_ {
    const BASE: u64 = 0x9e37_79b9_7f4a_7c15;
    let out = (0..length).fold(1u64, |power, _| power.wrapping_mul(BASE));
    let mut hash = 0u64;
    let value = |symbol: u32| (u64::from(symbol) + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let step = move |(at, symbol): (usize, &u32)| {
        hash = hash.wrapping_mul(BASE).wrapping_add(value(*symbol));
        if let Some(left) = at.checked_sub(length) {
            hash = hash.wrapping_sub(value(symbols[left]).wrapping_mul(out));
        }
        (at + 1 >= length).then_some((at, hash))
    };
    symbols.iter().enumerate().filter_map({
        let mut step = step;
        move |item| step(item)
    })
}

/// How many calls are in stretches that repeat themselves whole after `period`, and where the longest of them
/// ends.
fn covered(symbols: &[u32], period: usize) -> (usize, usize) {
    let (mut all, mut run, mut longest) = (0, 0, (0, 0));
    for at in period..=symbols.len() {
        if symbols.get(at) == Some(&symbols[at - period]) {
            run += 1;
            continue;
        }
        if run >= period {
            all += run + period;
            longest = longest.max((run, at - 1));
        }
        run = 0;
    }
    // Two stretches side by side share calls.
    (all.min(symbols.len()), longest.1)
}

/// What repeats after so many calls.
struct Period {
    /// Its calls, from the first after the longest pause.
    pattern: Vec<u32>,
    /// The longest pause, and the longest of the others, ns: medians over repetitions.
    pause: i64,
    other_pause: i64,
}

impl Period {
    fn new(items: &[Item], symbols: &[u32], period: usize) -> Option<Period> {
        let (_, end) = covered(symbols, period);
        let mut begin = end;
        while begin >= period && symbols[begin] == symbols[begin - period] {
            begin -= 1;
        }
        let begin = (begin + 1).checked_sub(period)?;
        let mut pauses: Vec<Vec<i64>> = vec![Vec::new(); period];
        for at in (begin + 1..=end).take(PAUSES * period) {
            let (before, now) = (items[at - 1].time, items[at].time);
            if before != 0 && now != 0 {
                pauses[(at - begin) % period].push(now.saturating_sub(before));
            }
        }
        let median = |pauses: &mut Vec<i64>| {
            pauses.sort_unstable();
            pauses.get(pauses.len() / 2).copied().unwrap_or(0)
        };
        let pauses: Vec<i64> = pauses.iter_mut().map(median).collect();
        let longest = pauses.iter().copied().enumerate();
        let (phase, pause) = longest.max_by_key(|(phase, ns)| (*ns, std::cmp::Reverse(*phase)))?;
        let others = pauses.iter().enumerate().filter(|(at, _)| *at != phase);
        let pattern = symbols.get(begin + phase..begin + phase + period)?;
        Some(Period {
            pattern: pattern.to_vec(),
            pause,
            other_pause: others.map(|(_, ns)| *ns).max().unwrap_or(i64::MAX),
        })
    }

    /// Whether the host pauses before it as before a step. Layers follow each other as their calls do, and
    /// the pause comes after all of them. `longest` is the longest pause in longer patterns.
    fn is_paused_for(&self, longest: i64) -> bool {
        let distinct = self.other_pause.saturating_mul(DISTINCT_PAUSE);
        self.pause >= distinct || self.pause >= longest / SIMILAR_PAUSE
    }
}

/// Where `word` begins in `text`, without overlap (Knuth, Morris and Pratt's search).
fn occurrences(text: &[u32], word: &[u32]) -> Vec<usize> {
    let mut border = vec![0usize; word.len()];
    let mut matched = 0;
    for at in 1..word.len() {
        while matched > 0 && word[at] != word[matched] {
            matched = border[matched - 1];
        }
        matched += usize::from(word[at] == word[matched]);
        border[at] = matched;
    }
    let (mut found, mut matched) = (Vec::new(), 0);
    for (at, symbol) in text.iter().enumerate() {
        while matched > 0 && *symbol != word[matched] {
            matched = border[matched - 1];
        }
        matched += usize::from(*symbol == word[matched]);
        if matched == word.len() {
            found.push(at + 1 - matched);
            matched = 0;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls by letter, made a millisecond apart and `pause` after each `|`.
    fn calls(text: &str, pause: i64) -> (Vec<Item>, Vec<u32>) {
        let (mut items, mut time) = (Vec::new(), 1);
        for letter in text.chars() {
            match letter {
                '|' => time += pause,
                _ => {
                    time += 1_000_000;
                    items.push(Item {
                        symbol: letter as u32,
                        kind: letter as u32,
                        time,
                        kernel: (time as u64, time as u64 + 400_000),
                    });
                }
            }
        }
        let symbols = items.iter().map(|item| item.symbol).collect();
        (items, symbols)
    }

    fn row(text: &str) -> Option<StepsRow> {
        let (items, _) = calls(text, 5_000_000);
        let gatherer = Gatherer {
            items,
            ..Gatherer::default()
        };
        gatherer.finish(&Process::default())
    }

    #[test]
    fn steps_are_counted_through_start_up_and_evaluation() {
        let step = "|abcad";
        let ten = step.repeat(10);
        let text = format!("xyxxz{ten}eeef{ten}eeef{ten}eeef{ten}eeef{ten}");
        let found = row(&text).expect("steps");
        assert_eq!((found.steps, found.calls), (50, 5));
        let time = found.step_us.expect("times");
        assert_eq!((time.n, time.p50, time.max), (45, Some(1e4), Some(1e4)));
        let communication = found.communication_us.expect("times");
        assert_eq!((communication.n, communication.p50), (50, Some(2e3)));
        // Five calls and a pause come before the first step, and four calls in each evaluation.
        assert_eq!(found.startup_us, Some(1e4));
        assert_eq!(found.between_us, Some(4.0 * 4e3));
    }

    #[test]
    fn layers_are_no_steps() {
        let forward = "a".repeat(24);
        let text = format!("|{forward}b").repeat(20);
        assert_eq!(row(&text).map(|r| (r.steps, r.calls)), Some((20, 25)));
        let text = format!("|{}{}c", "a".repeat(12), "ab".repeat(12)).repeat(20);
        assert_eq!(row(&text).map(|r| (r.steps, r.calls)), Some((20, 37)));
    }

    #[test]
    fn steps_of_few_calls_between_evaluations_are_steps() {
        // Two equal buckets and another, and metrics are gathered after 20 steps: 3 or 10 times.
        for times in [3, 10] {
            let text = format!("xyxx{}", format!("{}|g", "|||aab".repeat(20)).repeat(times));
            let found = row(&text).map(|r| (r.steps as usize, r.calls));
            assert_eq!(found, Some((20 * times, 3)), "{times}");
        }
        // One call in a step.
        let text = format!("xyxx{}", format!("{}|g", "||a".repeat(20)).repeat(3));
        assert_eq!(row(&text).map(|r| (r.steps, r.calls)), Some((60, 1)));
    }

    #[test]
    fn a_pattern_within_a_step_is_no_step() {
        // Buckets of DDP with equal layers: `bcd` comes three times in a step, and most of the time is
        // elsewhere.
        let text = "|abcdbcdbcde".repeat(20).replace('|', "||||");
        assert_eq!(row(&text).map(|r| (r.steps, r.calls)), Some((20, 11)));
    }

    #[test]
    fn a_step_begins_after_its_longest_pause() {
        let text = format!("bc{}|a", "|abc".repeat(20));
        let (items, symbols) = calls(&text, 5_000_000);
        let period = paused_periods(&items, &symbols)[0];
        let found = Period::new(&items, &symbols, period).expect("a pattern");
        let word = found.pattern.iter();
        let word: String = word.filter_map(|symbol| char::from_u32(*symbol)).collect();
        assert_eq!(word, "abc");
    }

    #[test]
    fn where_nothing_repeats_there_are_no_steps() {
        assert!(row("").is_none());
        assert!(row("abcdefgh").is_none());
        let sweep: String = ('a'..='j').map(|c| c.to_string().repeat(20)).collect();
        assert!(row(&sweep).is_none());
        // A sequence that does not repeat (Thue and Morse's, squared letters by place).
        let odd: String = (0..300u32)
            .map(|i| char::from(b'a' + (i * i * 7 % 23 + i % 3) as u8))
            .collect();
        let found = row(&odd);
        assert!(found.is_none_or(|r| r.calls == 69), "{:?}", row(&odd));
    }

    /// Calls of one kind, so many µs after each other, by their sizes.
    fn of_one_kind(calls: impl IntoIterator<Item = (u32, i64)>) -> Option<StepsRow> {
        let mut time = 1_000_000_000;
        let item = |(symbol, us): (u32, i64)| {
            time += us * 1_000;
            Item {
                symbol,
                kind: 7,
                time,
                kernel: (time as u64, time as u64 + 400_000),
            }
        };
        let gatherer = Gatherer {
            items: calls.into_iter().map(item).collect(),
            ..Gatherer::default()
        };
        gatherer.finish(&Process::default())
    }

    #[test]
    fn steps_of_one_call_that_repeats_are_its_bursts() {
        // Four calls that warm up, then 60 steps of four, 50 ms apart. In the middle, one takes longer to
        // come than usual.
        let warm_up = [(1, 0), (1, 900), (1, 20), (1, 20)];
        let step = |n: i64| {
            [
                (1, 50_000),
                (1, 20 + n % 7),
                (1, if n == 30 { 900 } else { 25 }),
                (1, 22),
            ]
        };
        let found = of_one_kind(warm_up.into_iter().chain((0..60).flat_map(step)));
        let found = found.expect("steps");
        assert_eq!((found.steps, found.calls), (60, 4));
        let p50 = found.step_us.and_then(|s| s.p50).expect("times");
        assert!((50_060.0..50_080.0).contains(&p50), "{p50}");
        assert!(found.startup_us.is_some_and(|us| us > 50_000.0));
        // The same if no two calls have one size, and with a checkpoint after each ten steps.
        let sizes = (0..240u32).map(|n| n * n % 251);
        let pause = |n: i64| match (n % 4, n % 40) {
            (0, 0) => 2_000_000,
            (0, _) => 50_000,
            _ => 20,
        };
        let found = of_one_kind(sizes.zip((0..).map(pause)));
        assert_eq!(found.map(|r| (r.steps, r.calls)), Some((59, 4)));
    }

    #[test]
    fn calls_at_random_have_no_steps() {
        // A linear congruential generator: the same numbers in each run.
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for round in 0..40 {
            // From one call that repeats to many sizes, and pauses of two lengths or of all.
            let sizes = 1 + u64::from(round % 5 == 4) * 6;
            let calls: Vec<(u32, i64)> = (0..2_000)
                .map(|_| {
                    let us = match round % 4 {
                        0 => 20 + 50_000 * i64::from(random(4) == 0),
                        1 => 20 + 50_000 * i64::from(random(2) == 0),
                        2 => 10 << random(14),
                        _ => 20 + (random(1_000) * random(1_000)) as i64 / 10,
                    };
                    (random(sizes) as u32, us)
                })
                .collect();
            // Calls that follow each other 1 ms apart are steps of one call.
            let found = of_one_kind(calls).filter(|row| row.calls > 1);
            assert!(found.is_none(), "{round}: {found:?}");
        }
        // Few calls that differ, some ms apart: any two in a row come again often.
        for round in 0..200 {
            let (different, length) = (2 + round % 4, 40 + 13 * round);
            let calls: Vec<(u32, i64)> = (0..length)
                .map(|_| {
                    (
                        random(different) as u32,
                        5_000 + 15_000 * i64::from(random(3) == 0),
                    )
                })
                .collect();
            let found = of_one_kind(calls).filter(|row| row.calls > 1);
            assert!(found.is_none(), "{round}: {found:?}");
        }
    }

    #[test]
    fn launches_of_graphs_are_steps_if_calls_are_none() {
        let launches = |graph: fn(u32) -> u32, per_step: i64| {
            let mut process = Process::default();
            let launch = |n: u32| tables::graphs::Launch {
                graph: graph(n),
                at: 1_000_000_000
                    + i64::from(n) / per_step * 8_000_000
                    + i64::from(n) % per_step * 30_000,
                took: 10_000,
                stream: 0,
            };
            process.graphs.launches = (0..200).map(launch).collect();
            let found = Gatherer::default().finish(&process);
            found.map(|row| (row.steps, row.calls, row.step_us.and_then(|s| s.p50)))
        };
        let steps = |n, calls| Some((n, calls, Some(8_000.0)));
        // One graph, and a graph for each batch size.
        assert_eq!(launches(|_| 1, 1), steps(200, 1));
        assert_eq!(
            launches(
                |n| 1 + (n.wrapping_mul(n).wrapping_mul(0x9E37_79B1) >> 25) % 13,
                1
            ),
            steps(200, 1)
        );
        // A graph for each of four parts of a model, and all alike.
        assert_eq!(launches(|n| 1 + n % 4, 4), steps(50, 4));
        assert_eq!(launches(|_| 1, 4).map(|(_, calls, _)| calls), Some(4));
        assert_eq!(launches(|n| n / 300, 200), None);
    }

    #[test]
    fn the_search_finds_words_that_overlap_themselves_once() {
        let text: Vec<u32> = vec![1, 1, 2, 1, 1, 2, 1, 1, 1, 2, 1, 1];
        assert_eq!(occurrences(&text, &[1, 1, 2, 1, 1]), [0, 7]);
        assert_eq!(occurrences(&text, &[1]).len(), 9);
    }
}
