//! What recording cost this job.
//!
//! CUDA events and kernel windows slow the GPU's streams. The recorder leaves them out now and then, in quiet
//! spells, so that a job has its own measure. It compares a spell with the same number of calls just before
//! and after it, in whole steps if steps are found.
//!
//! ```text
//!   ordinary          quiet spell         ordinary            kernel window     ordinary
//!   ├─ m steps ─┼────── n steps ──────┼─ m steps ─┤   ├─ m ─┼──── n steps ────┼─ m ─┤
//! ```
//!
//! Both neighbours are as long as each other, so a job that gets slower all the time is no cost.
//! [`ProcessSpells`] takes the calls of a process and compares as soon as a spell and its neighbours are
//! there; [`Gatherer::finish`] puts ranks and spells together. Spells begin at the same calls on all ranks,
//! and ranks wait for each other: those of one number are one value. The interval is Student's t over these
//! values.
//!
//! **Times** are those of the GPU where calls beside a spell have some. Else they are the host's. A host may
//! be ahead of its GPU; a spell is then felt later, by what timed calls or windows say of that lead.
//!
//! **Callbacks** can't be left out for a while. Their number is known, and what each takes was measured
//! (bench/README.md).
//!
//! Rule: what is told has an interval. Fewer than [`LEAST`] spells make none, and no figure.

use crate::streams::Share;
use crate::time::{HostTime, Nanos};
use capture::windows::DriverCallKind;
use mean::Mean;
use schemars::JsonSchema;
use serde::Serialize;
pub use spells::ProcessSpells;
use std::collections::BTreeMap;
use tables::Process;

mod mean;
mod spells;

/// Fewer spells tell nothing.
pub const LEAST: usize = 4;
/// If steps before and after a spell differ by so many times what they usually do, the job did something else
/// meanwhile: it began, or was evaluated. The spell itself is not asked, so this favours no result.
const UNLIKE: f64 = 5.0;
/// They may differ by this part of their length, however little they usually do.
const ALIKE: f64 = 0.005;

/// What an NCCL call costs its thread: 0.13 µs on the Xeon of an H200 machine (bench/README.md, "What
/// recording costs the stream"). It has 12 callbacks.
const CALL: Nanos = Nanos(130.0);
/// What a channel of a kernel costs NCCL's progress thread with stamps (bench/README.md, "What a callback
/// costs").
const CHANNEL: Nanos = Nanos(11.6);
/// What a network operation costs that thread, and one of its steps (the same).
const OPERATION: Nanos = Nanos(34.0);
const STEP: Nanos = Nanos(50.0);
/// What it costs a busy stream to time a launch (bench/README.md: 5.4 µs on H200).
const EVENTS: Nanos = Nanos(5_400.0);
/// What CUPTI adds to the launch of a kernel or copy, and of a graph, also between windows: the host's time
/// where it is most (bench/README.md, "What stays of CUPTI"). On a quiet host, 850 ns a kernel. FSDP2, bound
/// by its host, lost as much as 8500 ns a launch.
const CUPTI_LAUNCH: Nanos = Nanos(8_500.0);
const CUPTI_GRAPH: Nanos = Nanos(3_500.0);

/// What recording cost, as a share of what the job would have taken without.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Cost {
    /// CUDA events and kernel windows together; null if one of both is not known.
    pub gpu: Option<Share>,
    /// CUDA events, measured in quiet spells; null for too few spells.
    pub events: Option<Share>,
    /// Kernel windows; null for too few.
    pub windows: Option<Share>,
    /// Quiet spells that were compared; those at the same call on several ranks are one.
    pub quiet_spells: u64,
    /// Windows that were compared, counted the same way.
    pub windows_compared: u64,
    /// Spells and windows that were not compared: the job began, stood still or ended, or others were too
    /// near.
    pub left_out: u64,
    /// Launches with CUDA events.
    pub timed_launches: u64,
    /// What these cost if each costs a busy stream 5.4 µs, as measured on H200, and an event on a stream
    /// that waits half of that.
    pub events_counted: f64,
    /// The share of the host's time that CUPTI takes between windows: launches as windows show them, times
    /// the most that was measured for each, in ns. Of kernels and copies, the job feels it only if its GPU
    /// waits for its host. Replays of graphs cost the GPU about as much (bench/README.md). Null without
    /// windows.
    pub cupti_at_most: Option<f64>,
    /// A share: callbacks of NCCL calls, of stamps and of network operations, counted, times the measured ns
    /// of each.
    pub callbacks: f64,
    /// NCCL calls that were counted for that.
    pub calls: u64,
    /// The share of the time that it might take; `None` if that is not known.
    #[serde(skip)]
    pub budget: Option<f64>,
}

/// What CUPTI would have added to the launches in windows, and how long these were.
#[derive(Clone, Copy, Default)]
struct CuptiCost {
    added: Nanos,
    seen: Nanos,
}

impl CuptiCost {
    fn of(process: &Process) -> CuptiCost {
        let mut cost = CuptiCost::default();
        let windows = process.windows.list.iter();
        for window in windows.filter(|w| !w.is_quiet() && w.is_whole()) {
            let seen = HostTime(window.closing) - HostTime(window.open);
            cost.seen += seen.max(Nanos::ZERO);
            cost.added += window
                .asked
                .iter()
                .map(|asked| match asked.kind {
                    DriverCallKind::Launch | DriverCallKind::Copy => CUPTI_LAUNCH,
                    DriverCallKind::LaunchGraph => CUPTI_GRAPH,
                    _ => Nanos::ZERO,
                })
                .sum();
        }
        cost
    }

    fn add(&mut self, other: CuptiCost) {
        self.added += other.added;
        self.seen += other.seen;
    }

    fn share(self) -> Option<f64> {
        (self.seen > Nanos::ZERO).then(|| self.added / self.seen)
    }
}

/// Callbacks that are not of calls.
#[derive(Clone, Copy, Default)]
struct OtherCallbacks {
    channels: u64,
    operations: u64,
    steps: u64,
}

impl OtherCallbacks {
    fn add(&mut self, other: OtherCallbacks) {
        self.channels = self.channels.saturating_add(other.channels);
        self.operations = self.operations.saturating_add(other.operations);
        self.steps = self.steps.saturating_add(other.steps);
    }

    fn time(self) -> Nanos {
        CHANNEL * self.channels as f64
            + OPERATION * self.operations as f64
            + STEP * self.steps as f64
    }
}

impl Cost {
    /// Whether there were CUDA events or windows, which may have cost something.
    pub fn has_gpu_part(&self) -> bool {
        let none = self.gpu.is_some_and(|gpu| gpu.interval == Some((0.0, 0.0)));
        !none
    }

    /// What takes more than the budget; `None` if nothing is known to, or there is no budget.
    pub fn over_budget(&self) -> Option<OverBudget> {
        let budget = self.budget?;
        match self.gpu.and_then(|gpu| gpu.interval) {
            Some((least, _)) if least > budget => Some(OverBudget::Windows),
            None if self.events.is_none() && self.events_counted > budget => {
                Some(OverBudget::Events)
            }
            _ => {
                let may = self.cupti_at_most.is_some_and(|share| share > budget);
                may.then_some(OverBudget::CuptiAtMost)
            }
        }
    }
}

/// What takes more than the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverBudget {
    /// CUDA events and kernel windows, as measured: less without windows.
    Windows,
    /// CUDA events, by their number.
    Events,
    /// CUPTI may, where the GPU waits for its host.
    CuptiAtMost,
}

/// What comes out of a spell.
#[derive(Clone, Copy, Default)]
struct Value {
    /// What a quiet spell saved, or a window took.
    time: Nanos,
    /// What as many ordinary steps take.
    ordinary: Nanos,
    /// See [`Compared::unlike`].
    unlike: f64,
}

impl Value {
    /// The mean of ranks.
    fn of(ranks: &[Value]) -> Value {
        let mean = |pick: fn(&Value) -> f64| {
            let sum: f64 = ranks.iter().map(pick).sum();
            sum / ranks.len() as f64
        };
        Value {
            time: Nanos(mean(|value| value.time.0)),
            ordinary: Nanos(mean(|value| value.ordinary.0)),
            unlike: mean(|value| value.unlike),
        }
    }
}

/// Leaves out spells whose neighbours are unlike each other.
fn steady(mut values: Vec<Value>) -> Vec<Value> {
    let mut unlike: Vec<f64> = values.iter().map(|value| value.unlike).collect();
    unlike.sort_by(f64::total_cmp);
    let usual = unlike.get(unlike.len() / 2).copied().unwrap_or(0.0);
    values.retain(|value| value.unlike <= (UNLIKE * usual).max(ALIKE));
    values
}

/// What is gathered from processes.
#[derive(Default)]
pub struct Gatherer {
    /// By restart, kind and call, of each rank on which it could be compared.
    values: BTreeMap<(u32, bool, u64), Vec<Value>>,
    windows: u64,
    quiet: Nanos,
    active: Nanos,
    calls: u64,
    timed: u64,
    /// Of these: with an event on a stream that waited.
    waits: u64,
    /// Some calls beside quiet spells have times from CUDA events.
    timed_beside: bool,
    beside: OtherCallbacks,
    cupti: CuptiCost,
    budget: Option<f64>,
}

impl Gatherer {
    /// Adds a process; `now` has taken all of its calls.
    pub fn add(&mut self, process: &Process, mut now: ProcessSpells) {
        // What another tool cost is not known, and our recorder cost nothing.
        if process.other_tool().is_some() {
            return;
        }
        for launch in [
            process.graphs.launches.first(),
            process.graphs.launches.last(),
        ] {
            let Some(at) = launch.map(|launch| launch.at) else {
                continue;
            };
            let (from, to) = now.active.unwrap_or((at, at));
            now.active = Some((from.min(at), to.max(at)));
        }
        while now.next < now.spells.len() {
            now.compare_next(process);
        }
        for (quiet, planned, of) in now.compared {
            let time = if quiet {
                (of.ordinary - of.spell) / of.share
            } else {
                of.spell - of.ordinary
            };
            self.timed_beside |= quiet && of.timed > 0;
            let key = (process.restart, quiet, planned);
            let value = Value {
                time,
                ordinary: of.ordinary,
                unlike: of.unlike,
            };
            self.values.entry(key).or_default().push(value);
        }
        for spell in &now.spells {
            let key = (process.restart, spell.quiet, spell.planned);
            self.values.entry(key).or_default();
            if spell.quiet {
                self.quiet += HostTime(spell.end) - HostTime(spell.open)
            } else {
                self.windows += 1
            }
        }
        let budget = || process.fact("budget")?.strip_suffix(" %")?.parse().ok();
        self.budget = self.budget.or_else(|| budget().map(|of: f64| of / 100.0));
        let active = now.active;
        self.active += active.map_or(Nanos::ZERO, |(from, to)| HostTime(to) - HostTime(from));
        // Calls without rows too.
        let announced = process.counters.as_ref().map_or(0, |c| c.announced);
        let calls = announced.max(now.calls);
        self.calls = self.calls.saturating_add(calls);
        self.timed += now.timed;
        self.waits += now.waits;
        self.beside.add(now.beside);
        self.cupti.add(now.cupti);
    }

    /// Takes in what was gathered from the processes that follow.
    pub fn merge(&mut self, later: Gatherer) {
        for (key, values) in later.values {
            self.values.entry(key).or_default().extend(values);
        }
        self.windows += later.windows;
        self.quiet += later.quiet;
        self.active += later.active;
        self.calls = self.calls.saturating_add(later.calls);
        self.timed += later.timed;
        self.waits += later.waits;
        self.timed_beside |= later.timed_beside;
        self.beside.add(later.beside);
        self.cupti.add(later.cupti);
        self.budget = self.budget.or(later.budget);
    }

    /// What recording cost; `None` if no time passed between calls.
    pub fn finish(self) -> Option<Cost> {
        let active = self.active;
        if active <= Nanos::ZERO {
            return None;
        }
        let of = |kind: bool| -> Vec<Value> {
            let of_kind = self
                .values
                .iter()
                .filter(|((_, quiet, _), _)| *quiet == kind);
            let compared = of_kind.filter(|(_, ranks)| !ranks.is_empty());
            steady(compared.map(|(_, ranks)| Value::of(ranks)).collect())
        };
        let (quiet, windows) = (of(true), of(false));
        let mean = |values: &[Value]| {
            let times: Vec<f64> = values.iter().map(|value| value.time.0).collect();
            Mean::of(&times)
        };
        // The mean of ratios would be off by what their denominators vary.
        let ordinary: Nanos = quiet.iter().map(|value| value.ordinary).sum();
        let ordinary = ordinary / quiet.len() as f64;
        let noisy = 1.0 - (self.quiet / active).clamp(0.0, 1.0);
        // One event instead of two.
        let pairs = self.timed as f64 + self.waits as f64 / 2.0;
        let events_counted = EVENTS * pairs / active;
        let events = match (self.timed, self.timed_beside) {
            (0, _) => Some(Mean::exactly(0.0)),
            // Only a few while the job was set up, as with graphs: there is nothing that could be compared.
            (_, false) if quiet.len() >= LEAST => Some(Mean::exactly(events_counted)),
            _ => mean(&quiet).map(|saved| saved.times(noisy / ordinary.0)),
        };
        let of_window = match self.windows {
            0 => Some(Mean::exactly(0.0)),
            n => mean(&windows).map(|ns| ns.times(n as f64 / active.0)),
        };
        let both = events.zip(of_window).map(|(a, b)| a.plus(b));
        // Of the time with recording; told of the time without.
        let without = both.map_or(1.0, |both| (1.0 - both.mean).max(0.5));
        let share = |of: Option<Mean>| of?.times(1.0 / without).share();
        Some(Cost {
            gpu: share(both),
            events: share(events),
            windows: share(of_window),
            quiet_spells: quiet.len() as u64,
            windows_compared: windows.len() as u64,
            left_out: (self.values.len() - quiet.len() - windows.len()) as u64,
            timed_launches: self.timed,
            events_counted,
            cupti_at_most: self.cupti.share(),
            callbacks: (CALL * self.calls as f64 + self.beside.time()) / active,
            calls: self.calls,
            budget: self.budget,
        })
    }
}

#[cfg(test)]
mod tests;
