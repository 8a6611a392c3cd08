//! Windows and quiet spells of a process, each compared with what is beside it.
//!
//! Rule: both neighbours are as long as each other, so a job that gets slower all the time is no cost.

use super::{CuptiCost, OtherCallbacks};
use crate::executions::Execution;
use crate::steps::periods;
use crate::time::Nanos;
use std::collections::HashMap;
use tables::calls::Waited;
use tables::{Name, Process};

/// Calls beside a spell, at most: 32 MiB.
const MOST_MARKS: usize = 1 << 20;
/// Records of a window are fetched for so long after it, ns: that belongs to its cost.
const FETCHED: i64 = 200_000_000;
/// Between two threads, calls are out of order by less, ns.
const DISORDER: i64 = 1_000_000_000;
/// So many calls must come again after a period.
const PERIODIC: f64 = 0.9;
/// A mean over so many places in the step is taken, at most.
const OFFSETS: usize = 64;
/// A spell of so many steps shows whether one of them was an interruption.
const STEPS: usize = 4;

/// A call, or the launch of a graph.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mark {
    host: i64,
    /// When its kernel began and ended, on the host's clock; 0 not known.
    start: i64,
    stop: i64,
    /// What it is.
    symbol: u32,
}

/// A window or a quiet spell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spell {
    pub(super) quiet: bool,
    pub(super) planned: u64,
    /// From when to when, with what belongs to it.
    pub(super) open: i64,
    pub(super) end: i64,
    /// Nothing else is between these times.
    pub(super) free: (i64, i64),
    /// Calls between these times are looked at.
    pub(super) seen: (i64, i64),
}

/// A spell beside its neighbours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Compared {
    /// What the spell's steps took.
    pub(super) spell: Nanos,
    /// What as many ordinary steps take.
    pub(super) ordinary: Nanos,
    /// Which part of these steps is the spell's.
    pub(super) share: f64,
    /// By which part of their mean the steps before and after differ.
    pub(super) unlike: f64,
    /// Calls beside it with a time from CUDA events.
    pub(super) timed: usize,
}

/// What is gathered of a process.
#[derive(Default)]
pub struct ProcessSpells {
    pub(super) spells: Vec<Spell>,
    /// By spell: from when on calls are needed for it and those that follow.
    pub(super) needed: Vec<i64>,
    pub(super) next: usize,
    marks: Vec<Mark>,
    /// By shape.
    pub(super) symbols: Vec<u32>,
    /// How far the host is ahead of the GPU, as windows show, ns.
    pub(super) lead: i64,
    pub(super) period: usize,
    pub(super) compared: Vec<(bool, u64, Compared)>,
    pub(super) active: Option<(i64, i64)>,
    pub(super) calls: u64,
    pub(super) timed: u64,
    /// Of these: with an event on a stream that waited.
    pub(super) waits: u64,
    pub(super) beside: OtherCallbacks,
    pub(super) cupti: CuptiCost,
}

impl ProcessSpells {
    /// For a process.
    pub fn new(process: &Process) -> ProcessSpells {
        type Same = (u32, Name, Name, u64);
        let mut known: HashMap<Same, u32> = HashMap::new();
        let symbols = process.shapes.iter().map(|shape| {
            let next = known.len() as u32;
            let same = (shape.uid, shape.function, shape.datatype, shape.count);
            *known.entry(same).or_insert(next)
        });
        let symbols = symbols.collect();
        let list = &process.windows.list;
        let mut leads: Vec<i64> = list
            .iter()
            .filter(|w| !w.is_quiet() && w.is_whole())
            .filter_map(|w| Some((w.ran.iter().map(|r| r.end).max()? - w.closing).max(0)))
            .collect();
        leads.sort_unstable();
        let lead = leads.get(leads.len() / 2).copied().unwrap_or(0);
        let mut spells: Vec<Spell> = list
            .iter()
            .map(|w| Spell {
                quiet: w.is_quiet(),
                planned: w.planned,
                open: w.open,
                end: if w.is_quiet() {
                    w.closing
                } else {
                    w.closed.saturating_add(FETCHED)
                },
                free: (i64::MIN, i64::MAX),
                seen: (0, 0),
            })
            .collect();
        spells.sort_by_key(|spell| spell.open);
        for at in 0..spells.len() {
            let before = at.checked_sub(1).map(|at| spells[at].end);
            let after = spells.get(at + 1).map(|spell| spell.open);
            let spell = &mut spells[at];
            spell.free = (before.unwrap_or(i64::MIN), after.unwrap_or(i64::MAX));
            let beside = spell.end.saturating_sub(spell.open).saturating_mul(2);
            spell.seen = (
                spell.open.saturating_sub(beside),
                spell.end.saturating_add(beside).saturating_add(lead),
            );
        }
        let mut needed: Vec<i64> = spells.iter().map(|spell| spell.seen.0).collect();
        for at in (1..needed.len()).rev() {
            needed[at - 1] = needed[at - 1].min(needed[at]);
        }
        ProcessSpells {
            spells,
            needed,
            symbols,
            lead,
            period: 1,
            cupti: CuptiCost::of(process),
            ..ProcessSpells::default()
        }
    }

    /// Adds an execution.
    #[inline]
    pub fn add(&mut self, process: &Process, execution: &Execution) {
        if execution.captured {
            return;
        }
        let call = execution.call;
        self.calls += execution.pieces;
        if execution.shape.has_events() {
            self.timed += u64::from(execution.gpu.is_ok());
            let waited = execution.last.waited();
            self.waits += u64::from(matches!(waited, Some(Waited::For(_))));
        } else {
            self.beside.channels += u64::from(call.channels_started);
        }
        if let Some(extra) = (call.extra as usize).checked_sub(1) {
            if let Some(extra) = process.extras.get(extra) {
                self.beside.operations += u64::from(extra.ops_started);
                self.beside.steps += u64::from(extra.steps);
            }
        }
        let times = [call.launch_start_ns, call.api_ns, call.enqueue_ns];
        let Some(host) = times.into_iter().find(|time| *time != 0) else {
            return;
        };
        let (from, to) = self.active.unwrap_or((host, host));
        self.active = Some((from.min(host), to.max(host)));
        while let Some(spell) = self.spells.get(self.next) {
            if host <= spell.seen.1.saturating_add(DISORDER) {
                break;
            }
            self.compare_next(process);
        }
        let needed = self.needed.get(self.next);
        if needed.is_none_or(|from| host < *from) || self.marks.len() >= MOST_MARKS {
            return;
        }
        let (start, stop) = execution.kernel.on_host().unwrap_or((0, 0));
        self.marks.push(Mark {
            host,
            start,
            stop,
            symbol: self.symbols.get(call.shape as usize).copied().unwrap_or(0),
        });
    }

    /// Compares the next spell with its neighbours.
    pub(super) fn compare_next(&mut self, process: &Process) {
        let spell = self.spells[self.next];
        let is_seen = |mark: &Mark| (spell.seen.0..=spell.seen.1).contains(&mark.host);
        let mut marks: Vec<Mark> = self.marks.iter().copied().filter(is_seen).collect();
        let launches = &process.graphs.launches;
        let first = launches.partition_point(|launch| launch.at < spell.seen.0);
        let launches = launches[first..]
            .iter()
            .take_while(|launch| launch.at <= spell.seen.1);
        marks.extend(launches.map(|launch| Mark {
            host: launch.at,
            start: 0,
            stop: 0,
            symbol: u32::MAX - launch.graph,
        }));
        marks.sort_by_key(|mark| mark.host);
        self.period = period(&marks, self.period);
        if let Some(compared) = compare(&marks, &spell, self.period, self.lead) {
            self.compared.push((spell.quiet, spell.planned, compared));
        }
        self.next += 1;
        let needed = self.needed.get(self.next).copied().unwrap_or(i64::MAX);
        self.marks.retain(|mark| mark.host >= needed);
    }
}

/// After how many calls the same calls come again; 1 if that is not known, so that all calls are as good as
/// each other.
fn period(marks: &[Mark], last: usize) -> usize {
    let symbols: Vec<u32> = marks.iter().map(|mark| mark.symbol).collect();
    let comes_again = |period: &usize| {
        let pairs = symbols.iter().zip(symbols.iter().skip(*period));
        let same = pairs.filter(|(a, b)| a == b).count();
        let all = symbols.len().saturating_sub(*period);
        all > 0 && same as f64 >= PERIODIC * all as f64
    };
    if last > 1 && comes_again(&last) {
        return last;
    }
    let found = periods(&symbols).into_iter().find(comes_again);
    found.unwrap_or(1)
}

/// Compares a spell with what is beside it; `None` if there is too little, or if the job stood still.
fn compare(marks: &[Mark], spell: &Spell, period: usize, lead: i64) -> Option<Compared> {
    let by_gpu = compare_by(marks, spell, period, 0, |mark| {
        (mark.stop != 0).then_some(mark.stop)
    });
    by_gpu.or_else(|| {
        let mut leads: Vec<i64> = marks
            .iter()
            .filter(|mark| mark.start != 0)
            .map(|mark| (mark.start - mark.host).max(0))
            .collect();
        leads.sort_unstable();
        let lead = leads.get(leads.len() / 2).copied().unwrap_or(lead);
        compare_by(marks, spell, period, lead, |mark| Some(mark.host))
    })
}

/// The same with times of one kind; `late` is by how much these are later than the launches that the spell
/// applies to.
fn compare_by(
    marks: &[Mark],
    spell: &Spell,
    period: usize,
    late: i64,
    time: impl Fn(&Mark) -> Option<i64>,
) -> Option<Compared> {
    let from = |at: i64| {
        let at = at.saturating_add(late);
        marks.partition_point(|mark| mark.host < at)
    };
    let (open, end) = (from(spell.open), from(spell.end));
    let (low, high) = (from(spell.free.0), from(spell.free.1));
    let (mut spells, mut before, mut after, mut share, mut n) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let mut timed = 0;
    for offset in 0..period.clamp(8, OFFSETS) {
        // The last call before the spell, and the first behind it at the same place of a step.
        let Some(first) = open.checked_sub(1 + offset) else {
            break;
        };
        let steps = end.saturating_sub(first).div_ceil(period);
        let last = first + steps * period;
        let earlier = first.saturating_sub(low) / period;
        let later = high.saturating_sub(1).saturating_sub(last) / period;
        let beside = steps.min(earlier).min(later);
        if steps == 0 || beside == 0 || 2 * beside < steps {
            continue;
        }
        let (begin, behind) = (first - beside * period, last + beside * period);
        let at = |index: usize| marks.get(index).and_then(&time).map(|time| time as f64);
        let (Some(a), Some(b), Some(c), Some(d)) = (at(begin), at(first), at(last), at(behind))
        else {
            continue;
        };
        let inside = c - b;
        let hosts = marks[begin..=behind].windows(2);
        let pause = hosts.map(|pair| pair[1].host - pair[0].host).max()?;
        if steps >= STEPS && pause as f64 > inside / 2.0 {
            return None;
        }
        spells += inside;
        before += (b - a) / beside as f64 * steps as f64;
        after += (d - c) / beside as f64 * steps as f64;
        let neighbours = marks[begin..first].iter().chain(&marks[last..behind]);
        timed += neighbours.filter(|mark| mark.stop != 0).count();
        share += (end - open) as f64 / (last - first) as f64;
        n += 1.0;
    }
    let ordinary = (before + after) / 2.0;
    (n > 0.0 && spells > 0.0 && share > 0.0 && ordinary > 0.0).then(|| Compared {
        spell: Nanos(spells / n),
        ordinary: Nanos(ordinary / n),
        share: share / n,
        unlike: (before - after).abs() / ordinary,
        timed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Random;

    #[test]
    fn the_period_is_found_again_and_a_job_without_one_counts_calls() {
        let marks = |symbols: &[u32]| -> Vec<Mark> {
            let mark = |symbol: &u32| Mark {
                host: 0,
                start: 0,
                stop: 0,
                symbol: *symbol,
            };
            symbols.iter().map(mark).collect()
        };
        let steps: Vec<u32> = (0..60).map(|i| i % 5).collect();
        assert_eq!(
            (period(&marks(&steps), 1), period(&marks(&steps), 5)),
            (5, 5)
        );
        let mut random = Random(1);
        let mixed: Vec<u32> = (0..60).map(|_| random.below(9) as u32).collect();
        assert_eq!(period(&marks(&mixed), 1), 1);
        assert_eq!(period(&[], 1), 1);
    }
}
