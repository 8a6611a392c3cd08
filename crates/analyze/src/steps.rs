//! The steps of a job: as the program marked them, or found from the pattern of calls that repeats.
//!
//! If the program of a process marked its steps, these are its steps ([`marked`]), and no pattern is looked
//! for. The rest of this page is about the others.
//!
//! A [`Gatherer`] keeps what a process called, in order. [`Gatherer::finish`] looks for the period: a number
//! of calls after which the same calls (communicator, function, datatype, count) come again. Candidates are
//! the distances between equal stretches of calls; one is judged by how many of all calls it explains. What
//! lies in between (start-up, checkpoints, evaluation) explains nothing and breaks nothing. Loops nest:
//! layers repeat in a step, steps between two evaluations. Several periods may explain nearly as much as the
//! best. The shortest with at least three different calls is taken, because the calls of one layer seldom
//! differ. If there is none, the one with the most different calls is taken, unless the host pauses in a
//! shorter one as before a step, and for as long wherever that is in the longer one. If more time lies
//! between its occurrences than in them, a longer one is looked for.
//!
//! A step begins after the longest pause of the pattern, where the host waits or computes.
//!
//! Calls at random repeat patterns, too. But then a pattern follows itself at once as often as its calls come
//! by chance. Steps do so in [three of five cases](pattern::AT_ONCE) or more, and beyond chance.
//!
//! The calls of experts with a router are never of one size. So if there is no period by calls with their
//! sizes, sizes are left out.
//!
//! Some steps are the same call several times, or calls of one kind in many sizes. Their calls alone have no
//! period. Then the pauses are looked at: if the calls come in bursts of one length, each burst is a step. A
//! burst has the same communicators, functions and datatypes as the others, and the pauses between bursts are
//! ten times as long as those within. Pauses that come by chance make bursts of all lengths: at most a
//! quarter of them have any one length from two on, so nine in ten is beyond chance.
//!
//! If calls are captured into CUDA graphs, NCCL announces no call of a step. So if there are more launches of
//! graphs with calls than steps by calls alone, each launch counts as a call. First each graph counts as a
//! call of its own. If that gives no steps, all graphs count as the same call, because a server has a graph
//! for each batch size. Steps that leave out most launches are none: a server's prompts are calls, and its
//! tokens are launches.
//!
//! Calls alone can't always tell a step from its parts or its multiples. If the pattern is the same calls
//! several times, a step of the program may be shorter ([`StepsRow::equal_parts`]). If the times of steps
//! repeat, as with micro-batches, it may be longer ([`StepsRow::times_repeat`]).
//!
//! Rule: a step's time is told where the next step follows at once, so nothing else is in it. Steps are each
//! rank's own, on its own host's clock, or on its own GPU's if its host runs ahead: no clocks are compared.

pub mod marked;
pub(crate) mod pattern;
#[cfg(test)]
mod tests;

use crate::executions::Execution;
use crate::statistics::{spread, Sample, Spread, Statistics};
use crate::subject::ProcessId;
use crate::time::Nanos;
use pattern::{bursts, equal_parts, follow_each_other, occurrences, paused_periods, Period};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use tables::{Name, Process};

pub(crate) use pattern::{periods, repeat_after};

/// Of a process, so many calls are looked at: at 32 bytes each they take 32 MiB.
const MOST_CALLS: usize = 1 << 20;
/// A period, and then its steps, must explain this share of the calls.
const LEAST_COVERED: f64 = 0.5;
/// Steps have so much of the calls of those that have most.
const WHOLE: f64 = 0.9;
/// Fewer repetitions are no steps,
const LEAST_STEPS: usize = 4;
/// nor are fewer of a single call.
const LEAST_SINGLE: usize = 16;
/// Steps of calls are not shorter than this, µs: calls that are made in a loop and nothing else are a
/// benchmark's.
pub(crate) const LEAST_US: f64 = 1e3;
/// Steps of launches of graphs are not shorter than this, µs: a GPU needs as long to read the parameters of
/// a small model.
const LEAST_OF_GRAPHS_US: f64 = 100.0;
/// A host's lead over its GPU is looked at without this part of the steps at each end: one stall of the host
/// is no lead.
const SELDOM: f64 = 0.05;
/// Pauses that part bursts are looked for from this length on, ns, and up to the longest. Shorter ones are
/// between the calls of a loop.
const SHORTEST_PAUSE: i64 = 50_000;
/// Each next length is so many times the one before.
const PAUSE_FACTOR: i64 = 2;

/// Who says what a step is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StepSource {
    /// The program, by its marks.
    Program,
    /// The pattern of its calls.
    #[default]
    Calls,
}

/// The steps of the job.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Steps {
    /// Who says what a step is: the program by its marks, or the pattern of its calls.
    pub source: StepSource,
    /// Rank whose steps `step_us` is of: the first of those with the number of steps that most ranks have.
    pub rank: Option<u32>,
    /// With an account, the wall times of its steps: of the GPUs' clocks where they can be had, the mean over
    /// ranks, without the steps of the start-up.
    ///
    /// Else from a step's first call to the next step's, on that rank's host; null where no two follow each
    /// other. If the host makes many steps at once, from end to end of a step's last call on the GPU.
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
    /// Ranks that have another number of steps than [`Steps::rank`], by row.
    #[serde(skip)]
    pub unlike: Vec<usize>,
    /// The times that `step_us` sums up, ns, in order.
    #[serde(skip)]
    pub times_ns: Vec<u64>,
    /// By restart and rank.
    pub rows: Vec<StepsRow>,
}

/// The steps of one process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StepsRow {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// Who says what a step is: the program by its marks, or the pattern of its calls.
    pub source: StepSource,
    /// Repetitions of its pattern.
    pub steps: u64,
    /// Calls in each step.
    pub calls: u64,
    /// The calls of a step are so many times the same ones, so a step of the program may be shorter; 1 if
    /// they are not.
    pub equal_parts: u64,
    /// The times of so many steps in a row come again, so a step of the program may be so many of these; 1 if
    /// they don't.
    pub times_repeat: u64,
    /// Calls of the process after its first 1 048 576, which were not looked at.
    pub calls_beyond: u64,
    /// Time from a step's first call to the next step's; null if no two steps follow each other.
    pub step_us: Option<Statistics>,
    /// Time of the GPU in NCCL kernels, by step; null without GPU times.
    pub communication_us: Option<Statistics>,
    /// From the first call to the first step; null where host times are not known.
    pub startup_us: Option<f64>,
    /// Time between steps that do not follow each other; null if no two steps follow each other.
    pub between_us: Option<f64>,
    /// The steps one by one, in order.
    #[serde(skip)]
    pub each: Vec<Step>,
    /// The times that `step_us` sums up, ns, in order.
    #[serde(skip)]
    pub times_ns: Vec<u64>,
    /// These are of the GPU: the host runs ahead of it, so the bounds of `each` are not those of its work.
    #[serde(skip)]
    pub on_gpu: bool,
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
        reference(&self.rows)
    }

    /// The steps of the process with this id on this host.
    pub fn row_of(&self, host: &str, pid: u32) -> Option<&StepsRow> {
        let mut rows = self.rows.iter();
        rows.find(|row| row.process.pid == pid && row.process.host == host)
    }

    /// The mean step, µs: with all of them it makes the run.
    pub fn mean_us(&self) -> Option<f64> {
        self.step_us.map(|step| step.mean)
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

/// The pattern leaves out steps that have other calls, too; the account has all of them.
pub(crate) const ALIKE: f64 = 1.1;

/// The kind of a launch of a graph. Calls are numbered from 0.
const GRAPH: u32 = u32::MAX;

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
        if let Some(marked) = self.marked(process) {
            return Some(marked);
        }
        // By time.
        let launches = &process.graphs.launches;
        let found = self.find(process);
        let of_calls = found.as_ref().map_or(0, |row| row.steps);
        if launches.len() as u64 <= of_calls {
            return found;
        }
        let Some(by_graph) = self.with_launches(process, true) else {
            return found;
        };
        let until = |time: i64| launches.partition_point(|launch| launch.at < time);
        let has_most = |row: &StepsRow| {
            let within = row.each.iter().filter_map(|step| {
                let start = step.start_ns?;
                Some(until(start.saturating_add_unsigned(step.time_ns?)) - until(start))
            });
            2 * within.sum::<usize>() >= launches.len()
        };
        let steps = |of: Gatherer| of.find(process).filter(has_most);
        steps(by_graph).or_else(|| steps(self.with_launches(process, false)?))
    }

    /// The same calls with launches of graphs among them, if there are some and all times are known.
    fn with_launches(&self, process: &Process, by_graph: bool) -> Option<Gatherer> {
        let launches = &process.graphs.launches;
        if launches.is_empty() || self.items.iter().any(|item| item.time == 0) {
            return None;
        }
        let mut items = self.items.clone();
        items.extend(launches.iter().map(|launch| Item {
            symbol: if by_graph {
                GRAPH - launch.graph
            } else {
                GRAPH
            },
            kind: GRAPH,
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
        let all = |of: fn(&Item) -> u32| -> Vec<u32> { self.items.iter().map(of).collect() };
        let without_sizes = || {
            let kinds = all(|item| item.kind);
            let several = kinds.windows(2).any(|pair| pair[0] != pair[1]);
            several.then(|| self.by_periods(kinds, process)).flatten()
        };
        self.by_periods(all(|item| item.symbol), process)
            .or_else(without_sizes)
            .or_else(|| self.of_bursts(process))
    }

    /// The steps, if calls repeat: those with the same symbol are the same.
    fn by_periods(&self, symbols: Vec<u32>, process: &Process) -> Option<StepsRow> {
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
        let (first, is_most) = whole.next()?;
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
        let parts = equal_parts(&pattern);
        // A single call that repeats is nearly all of the calls.
        if period > 1 && !follow_each_other(symbols, &pattern, &begins) {
            return None;
        }
        let (row, is_most) = self.of_begins(&begins, period, process)?;
        let equal_parts = parts as u64;
        Some((StepsRow { equal_parts, ..row }, is_most))
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
        let symbols = |begin: usize| items[begin..begin + calls].iter().map(|item| item.symbol);
        let burst: Vec<u32> = symbols(*begins.get(begins.len() / 2)?).collect();
        let equal_parts = equal_parts(&burst) as u64;
        let (row, _) = self.of_begins(&begins, calls, process)?;
        Some(StepsRow { equal_parts, ..row })
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
        let mut communication = Sample::default();
        let mut times = Times::default();
        let (mut apart, mut at_once) = (Vec::new(), Vec::new());
        let since = |from: usize, to: usize| {
            let (from, to) = (items[from].time, items[to].time);
            let length = u64::try_from(to.checked_sub(from)?).ok();
            length.filter(|_| from != 0 && to != 0)
        };
        for pair in begins.windows(2) {
            let Some(ns) = since(pair[0], pair[1]) else {
                continue;
            };
            if pair[1] - pair[0] == period {
                at_once.push(ns as f64);
                let [step, next] = [0, 1].map(|n| &items[pair[n]..pair[n] + period]);
                times.add(ns, steps_apart(step, next));
            } else {
                apart.push(ns);
                times.begin_anew();
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
            let follows = next.filter(|next| *next - begin == period);
            each.push(Step {
                start_ns: Some(items[*begin].time).filter(|time| *time != 0),
                time_ns: follows.and_then(|next| since(*begin, *next)),
                communication_ns: busy,
                end_ns: end.filter(|_| busy.is_some()),
            });
        }
        let (times_ns, step_us, on_gpu) = times.finish();
        let p50 = step_us.and_then(|s| s.p50);
        let has_graph = items[begins[0]..begins[0] + period]
            .iter()
            .any(|item| item.kind == GRAPH);
        let least = if has_graph {
            LEAST_OF_GRAPHS_US
        } else {
            LEAST_US
        };
        p50.filter(|p50| *p50 >= least)?;
        // Between two steps that do not follow each other is one more step. The sum of nothing is -0
        // otherwise.
        let between = |usual: f64| {
            apart
                .iter()
                .map(move |ns| (Nanos::from(*ns).us() - usual).max(0.0))
        };
        let between_us = p50.map(|usual| between(usual).fold(0.0, |a, b| a + b));
        let is_most = between_us.unwrap_or(0.0) <= step_us.map_or(0.0, |s| s.sum);
        let row = StepsRow {
            process: ProcessId::of(process),
            source: StepSource::Calls,
            steps: begins.len() as u64,
            calls: period as u64,
            equal_parts: 1,
            times_repeat: repeat_after(&at_once) as u64,
            calls_beyond: self.beyond,
            step_us,
            communication_us: communication.statistics(),
            startup_us: since(0, begins[0])
                .filter(|_| process.begins_with_first_call())
                .map(|ns| Nanos::from(ns).us()),
            between_us,
            each,
            times_ns,
            on_gpu,
        };
        Some((row, is_most))
    }
}

/// Puts the rows of all processes together; `processes` is how many there are. `None` without steps.
pub fn finish(rows: Vec<StepsRow>, processes: usize) -> Option<Steps> {
    let reference = reference(&rows)?;
    let unlike = (0..rows.len()).filter(|index| !agree(rows[*index].steps, reference.steps));
    let spread = |figure: fn(&StepsRow) -> Option<f64>| {
        let figures: Vec<Option<f64>> = rows.iter().map(figure).collect();
        spread(&figures)
    };
    Some(Steps {
        source: reference.source,
        rank: reference.process.rank,
        step_us: reference.step_us,
        steps: spread(|row| Some(row.steps as f64)),
        calls: spread(|row| Some(row.calls as f64)),
        communication_us: spread(|row| row.communication_us?.p50),
        startup_us: spread(|row| row.startup_us),
        between_us: spread(|row| row.between_us),
        without: (processes - rows.len().min(processes)) as u64,
        unlike: unlike.collect(),
        times_ns: reference.times_ns.clone(),
        rows,
    })
}

/// Whether two ranks agree on the number of steps: one or two may be cut at each end, or lie beside an
/// evaluation.
pub(crate) fn agree(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= 4.max(a.max(b) / 20)
}

/// Whether two counts of the same steps differ by what a rule of either leaves out.
pub(crate) fn alike(a: u64, b: u64) -> bool {
    a.max(b) as f64 <= ALIKE * a.min(b) as f64
}

/// The row with which most rows agree; of equals, the one with the most steps, and of these the first. Rows
/// that the program marked count alone, if there are some.
fn reference(rows: &[StepsRow]) -> Option<&StepsRow> {
    let is_marked = rows.iter().any(|row| row.source == StepSource::Program);
    let counts = |row: &&StepsRow| !is_marked || row.source == StepSource::Program;
    let agreeing = |row: &StepsRow| {
        rows.iter()
            .filter(counts)
            .filter(|other| agree(row.steps, other.steps))
            .count()
    };
    let rank_of = |row: &StepsRow| (agreeing(row), row.steps);
    let most = rows.iter().filter(counts).map(rank_of).max()?;
    rows.iter().filter(counts).find(|row| rank_of(row) == most)
}

/// How long after a step the next one ended on the GPU, ns. It is told by the last place in them at which
/// both kernels have a time.
fn steps_apart(step: &[Item], next: &[Item]) -> Option<u64> {
    let known = |item: &&Item| item.kernel != (0, 0);
    let mut both = step.iter().zip(next).rev();
    let (a, b) = both.find(|(a, b)| known(a) && known(b))?;
    b.kernel.1.checked_sub(a.kernel.1)
}

/// How long steps took on the host and on the GPU, ns.
#[derive(Default)]
struct Times {
    host: Vec<u64>,
    gpu: Vec<u64>,
    /// By how much the host is ahead of its GPU at the end of each step, more than at the begin of a stretch
    /// of steps that follow each other.
    leads: Vec<f64>,
    lead: f64,
}

impl Times {
    /// A step, and if that is known how long the GPU took for it.
    fn add(&mut self, host_ns: u64, gpu_ns: Option<u64>) {
        self.host.push(host_ns);
        if let Some(gpu_ns) = gpu_ns {
            self.gpu.push(gpu_ns);
            self.lead += gpu_ns as f64 - host_ns as f64;
            self.leads.push(self.lead);
        }
    }

    /// The next step does not follow at once: what the host did then may have waited for the GPU.
    fn begin_anew(&mut self) {
        self.lead = 0.0;
    }

    /// By how much the host's lead differs, ns.
    fn leads_differ(&mut self) -> Option<f64> {
        self.leads.sort_unstable_by(f64::total_cmp);
        let last = self.leads.len().checked_sub(1)?;
        let at = |part: f64| self.leads[(part * last as f64).round() as usize];
        Some(at(1.0 - SELDOM) - at(SELDOM))
    }

    /// The times of steps. A host that runs ahead makes other steps than its GPU is at: it may make many at
    /// once, and then wait for all of them. If it comes to be ahead by a step, those of the GPU count; the
    /// last value says so.
    fn finish(mut self) -> (Vec<u64>, Option<Statistics>, bool) {
        let gpu = statistics(&self.gpu);
        let step = gpu.as_ref().and_then(|gpu| gpu.p50);
        let differ_us = self.leads_differ().map(|ns| Nanos(ns).us());
        let is_ahead = step
            .zip(differ_us)
            .is_some_and(|(step, differ)| differ > step);
        if is_ahead && 2 * self.gpu.len() >= self.host.len() {
            (self.gpu, gpu, true)
        } else {
            let host = statistics(&self.host);
            (self.host, host, false)
        }
    }
}

pub(crate) fn statistics(times_ns: &[u64]) -> Option<Statistics> {
    let mut sample = Sample::default();
    times_ns.iter().for_each(|ns| sample.push(*ns));
    sample.statistics()
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
