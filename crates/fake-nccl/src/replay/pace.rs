//! When the callbacks of a process are played, if recorded times are kept.
//!
//! The starting process reads the clocks of all trace files ([`paces`]), and each process waits for its
//! callbacks by what it is given ([`Pace`]).
//!
//! Rule: processes of one boot of a machine share CLOCK_MONOTONIC, so they keep their times to each other.
//! Those of several machines each begin with their first callback.

use super::trace::Trace;
use anyhow::Context;
use capture::callback;
use capture::rows::Ticks;
use serde_json::Value;
use std::time::{Duration, Instant};

/// What a trace file says of its clock.
pub(super) struct RecordedClock {
    boot: Option<String>,
    /// The first callback, ticks.
    first: u64,
    /// (ticks, CLOCK_MONOTONIC ns), the first first.
    anchors: Vec<(u64, u64)>,
}

impl RecordedClock {
    pub(super) fn new(trace: &Trace) -> RecordedClock {
        RecordedClock {
            boot: trace.process.get("boot_id").cloned(),
            first: first(trace).0,
            anchors: trace.anchors.clone(),
        }
    }

    /// Ticks and ns from the first to the last anchor.
    fn length(&self) -> Option<(u64, u64)> {
        let (first, last) = (self.anchors.first()?, self.anchors.last()?);
        let ticks = last.0.checked_sub(first.0).filter(|ticks| *ticks > 0)?;
        Some((ticks, last.1.saturating_sub(first.1)))
    }

    /// When the first callback was, CLOCK_MONOTONIC ns.
    fn begin_ns(&self, tick_ns: f64) -> Option<f64> {
        let (ticks, ns) = self.anchors.first()?;
        Some(*ns as f64 + (self.first as f64 - *ticks as f64) * tick_ns)
    }
}

/// How the callbacks of a process are paced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Paced {
    /// How long a tick is, ns.
    pub(super) tick_ns: f64,
    /// How long after the first process of its machine it begins, ns.
    pub(super) after_ns: f64,
}

/// Of each process; `None` if no clock is known.
pub(super) fn paces(clocks: &[RecordedClock]) -> Vec<Option<Paced>> {
    // A process that was killed in its first milliseconds has read its clocks once.
    let longest = clocks.iter().filter_map(RecordedClock::length).max();
    let tick_ns = |of: &RecordedClock| {
        let (ticks, ns) = of.length().or(longest)?;
        Some(ns as f64 / ticks as f64)
    };
    let begin = |of: &RecordedClock| of.begin_ns(tick_ns(of)?);
    let pace = |of: &RecordedClock| {
        let own = begin(of);
        let beside = clocks.iter().filter(|other| other.boot == of.boot);
        let first = beside.filter_map(begin).min_by(f64::total_cmp);
        let after = own.zip(first).filter(|_| of.boot.is_some());
        Some(Paced {
            tick_ns: tick_ns(of)?,
            after_ns: after.map_or(0.0, |(own, first)| own - first),
        })
    };
    clocks.iter().map(pace).collect()
}

fn first(trace: &Trace) -> Ticks {
    let all = callback::read(&trace.records).map(|record| record.ticks);
    all.min().unwrap_or_default()
}

/// Keeps the recorded times between calls.
pub(super) struct Pace {
    began: Instant,
    first: Ticks,
    of: Paced,
}

impl Pace {
    /// From the order that the process was given.
    pub(super) fn new(trace: &Trace, order: &Value) -> anyhow::Result<Pace> {
        let number = |key: &str| {
            order[key]
                .as_f64()
                .context("expected two clock anchors for `--pace real`, found fewer")
        };
        Ok(Pace {
            began: Instant::now(),
            first: first(trace),
            of: Paced {
                tick_ns: number("tick_ns")?,
                after_ns: number("after_ns")?,
            },
        })
    }

    /// Until a callback is due.
    pub(super) fn wait(&self, ticks: Ticks) {
        let since = ticks.since(self.first) as f64 * self.of.tick_ns + self.of.after_ns;
        let left = Duration::from_nanos(since as u64).saturating_sub(self.began.elapsed());
        if left > Duration::from_micros(200) {
            std::thread::sleep(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(boot: &str, first: u64, anchors: &[(u64, u64)]) -> RecordedClock {
        RecordedClock {
            boot: Some(boot.to_owned()),
            first,
            anchors: anchors.to_vec(),
        }
    }

    #[test]
    fn processes_of_a_machine_keep_their_times_to_each_other() {
        // Two ticks are a ns. The second process was killed before it read its clocks again.
        let clocks = [
            clock("a", 1000, &[(1000, 5000), (3000, 6000)]),
            clock("a", 1600, &[(1400, 5200)]),
            clock("b", 9_000_000, &[(9_000_000, 77), (9_000_100, 177)]),
        ];
        let paced = |tick_ns: f64, after_ns: f64| Some(Paced { tick_ns, after_ns });
        let expected = [paced(0.5, 0.0), paced(0.5, 300.0), paced(1.0, 0.0)];
        assert_eq!(paces(&clocks), expected);
        assert_eq!(paces(&clocks[1..2]), [None]);
    }
}
