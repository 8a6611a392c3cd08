//! What windows show of a loss, on the scale of the whole run.
//!
//! Windows are a tenth of the run at most. A rank that is late now and then may be later in them than
//! elsewhere, or not late at all. CUDA events time calls all the time. They don't show what a GPU computed,
//! and so not what a wait costs, but for how long each rank waited for the last one. A loss is taken to rise
//! and fall with that: its share in windows is multiplied by the waiting in the run by the waiting in
//! windows. Before the job has begun nobody waits, so its start-up costs nothing. In quiet spells no events
//! are recorded, and none of them is in a window: as much is taken to be waited in them as elsewhere.
//!
//! Rule: if most operations of windows have no such times (graphs, sends and receives), a loss keeps its
//! share of windows. These show whole steps, so it is a share of the time of steps ([`in_steps`]).

use super::{Exposure, Quiet, Streams, WaitedFor, LEAST_MATCHED};
use crate::arrivals::over_time::{GpuKey, OverTime, PartOver};
use crate::ranks::{RankRow, Ranks};
use crate::steps::{Steps, StepsRow};

/// A step is as long as a cycle of windows if they differ by less than this part. A micro-batch is half of a
/// step at most.
const ALIKE: f64 = 0.25;

/// How long a GPU waited for another, less how long that one waited for it, ns.
#[derive(Clone, Copy, Default)]
struct Waited {
    run: f64,
    windows: f64,
    /// Operations in windows.
    operations: u64,
}

impl Waited {
    /// How many times the waiting in windows it is in the run, per time: events were recorded for `timed_ns`,
    /// and windows show `shown_ns`. `None` if nobody waited in windows.
    fn times(&self, timed_ns: f64, shown_ns: f64) -> Option<f64> {
        let known = self.windows > 0.0 && timed_ns > 0.0 && shown_ns > 0.0;
        known.then(|| self.run.max(0.0) / timed_ns * shown_ns / self.windows)
    }
}

/// Scales the losses. `exposures` say when windows were open, and `quiet` which part of the calls has no
/// events.
pub(crate) fn scale(streams: &mut Streams, of: &OverTime, exposures: &[Exposure], quiet: &[Quiet]) {
    let gpus: Vec<GpuKey> = of.gpus().collect();
    let matched = streams.operations;
    for found in &mut streams.waited_for {
        let late = (&found.host[..], found.pid, found.device);
        let other = found.other.clone();
        let other = (&other.0[..], other.1, other.2);
        let place = |of: (&str, u32, u32)| {
            let is = |gpu: &GpuKey| (gpu.host, gpu.pid, gpu.device) == (of.0, of.1, Some(of.2));
            gpus.iter().position(is)
        };
        let (Some(late), Some(waits)) = (place(late), place(other)) else {
            continue;
        };
        let windows = exposures.iter();
        let windows = windows.filter(|e| (&e.host[..], e.pid, e.device) == other);
        let mut windows: Vec<(i64, i64)> = windows.map(|e| e.span).collect();
        windows.sort_unstable();
        let waited = waited(of, &windows, waits, late);
        let shown: i64 = windows.iter().map(|(from, to)| to - from).sum();
        if waited.operations < LEAST_MATCHED || 2 * waited.operations < matched {
            continue;
        }
        // Quiet spells begin at the same call on all ranks.
        let of_both = quiet.iter().filter(|quiet| {
            let of = (&quiet.host[..], quiet.pid);
            of == (&found.host[..], found.pid) || of == (other.0, other.1)
        });
        let quiet = of_both.map(|quiet| quiet.share).fold(0.0, f64::max);
        let times = waited.times((1.0 - quiet) * found.active_ns, shown as f64);
        if let Some(times) = times {
            found.scale(times);
            found.by_run = true;
        }
    }
    let share = |of: &WaitedFor| of.loss.share;
    streams.waited_for.retain(|of| share(of) > 0.0);
    streams
        .waited_for
        .sort_by(|a, b| share(b).total_cmp(&share(a)));
}

/// Leaves start-up and pauses between steps out of losses that the run's events don't show. The run then has
/// as many steps as a GPU's calls make, each of the usual length. The pattern of calls need not be the job's
/// step: in a pipeline it may be a micro-batch. Then windows show longer cycles, and nothing is left out.
pub(crate) fn in_steps(streams: &mut Streams, steps: &Steps, ranks: &Ranks) {
    for found in streams.waited_for.iter_mut().filter(|of| !of.by_run) {
        let (host, pid, _) = &found.other;
        let is = |row: &&StepsRow| (&row.host, &row.pid) == (host, pid);
        let row = steps.rows.iter().find(is);
        let Some((row, step_us)) = row.and_then(|row| Some((row, row.step_us.as_ref()?.mean)))
        else {
            continue;
        };
        let of_it = |row: &&RankRow| (&row.host, &row.pid) == (host, pid);
        let calls: u64 = ranks.rows.iter().filter(of_it).map(|row| row.calls).sum();
        let all = calls as f64 / row.calls.max(1) as f64;
        let is_step = (1e3 * step_us / found.cycle_ns - 1.0).abs() < ALIKE;
        if is_step && found.active_ns > 0.0 {
            let inside = all * 1e3 * step_us / found.active_ns;
            found.scale(inside.clamp(0.0, 1.0));
        }
    }
}

fn waited(of: &OverTime, windows: &[(i64, i64)], waits: usize, late: usize) -> Waited {
    let mut sum = Waited::default();
    of.operations(|parts| {
        let part = |gpu: usize| parts.iter().find(|part: &&PartOver| part.gpu == gpu);
        let (Some(own), Some(others), Some(last)) = (part(waits), part(late), parts.last()) else {
            return;
        };
        let longer = |part: &PartOver| part.ns as f64 - last.ns as f64;
        let waited = if last.gpu == late {
            longer(own)
        } else if last.gpu == waits {
            -longer(others)
        } else {
            0.0
        };
        sum.run += waited;
        let end = (own.start + own.ns) as i64;
        let window = windows.partition_point(|window| window.1 < end);
        if windows.get(window).is_some_and(|window| window.0 <= end) {
            sum.windows += waited;
            sum.operations += 1;
        }
    });
    sum
}

impl WaitedFor {
    /// The loss is so many times what windows show, and no more than the other's host could be faster.
    fn scale(&mut self, times: f64) {
        let share = self.loss.share;
        let most = self.host_most.unwrap_or(f64::INFINITY);
        let times = if share * times > most.max(share) {
            most.max(share) / share
        } else {
            times
        };
        let both = |of: (f64, f64)| (of.0 * times, of.1 * times);
        self.loss.share *= times;
        self.loss.interval = self.loss.interval.map(both);
        self.loss_us *= times;
        self.loss_interval_us = self.loss_interval_us.map(both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Statistics;
    use crate::streams::Share;

    fn found(host_most: Option<f64>) -> WaitedFor {
        WaitedFor {
            rank: Some(1),
            host: "a".to_owned(),
            pid: 1,
            device: 0,
            last: 90,
            operations: 100,
            by_events: false,
            loss: Share {
                share: 0.2,
                interval: Some((0.1, 0.3)),
            },
            loss_us: 2e6,
            loss_interval_us: Some((1e6, 3e6)),
            host_late: true,
            other: ("a".to_owned(), 2, 0),
            host_most,
            active_ns: 1e10,
            by_run: false,
            cycle_ns: 1.02e8,
        }
    }

    #[test]
    fn a_rank_that_is_late_in_half_of_the_run_costs_half() {
        let mut half = found(Some(0.25));
        half.scale(0.5);
        assert_eq!(
            (half.loss.share, half.loss.interval),
            (0.1, Some((0.05, 0.15)))
        );
        assert_eq!(
            (half.loss_us, half.loss_interval_us),
            (1e6, Some((0.5e6, 1.5e6)))
        );
    }

    #[test]
    fn quiet_spells_count_as_the_rest_of_the_run() {
        // A tenth of the time, in windows and else; of 10 s events show 8 s, in which 0.8 s were waited.
        let waited = Waited {
            run: 0.8e9,
            windows: 0.1e9,
            operations: 100,
        };
        assert_eq!(waited.times(8e9, 1e9), Some(1.0));
        assert_eq!(waited.times(10e9, 1e9), Some(0.8));
        assert_eq!(Waited::default().times(8e9, 1e9), None);
    }

    #[test]
    fn no_loss_is_more_than_the_other_host_could_be_faster() {
        let mut twice = found(Some(0.25));
        twice.scale(2.0);
        assert_eq!(twice.loss.share, 0.25);
        // Nor does that bound make a loss smaller here: it was looked at before.
        let mut bound = found(Some(0.15));
        bound.scale(2.0);
        assert_eq!(bound.loss.share, 0.2);
        let mut unknown = found(None);
        unknown.scale(2.0);
        assert_eq!(unknown.loss.share, 0.4);
    }

    #[test]
    fn start_up_costs_nothing_where_windows_alone_tell() {
        // 80 steps of 9 calls and 100 ms, and some before; start-up and pauses took the rest of 10 s.
        let step = Statistics {
            n: 80,
            sum: 8e6,
            mean: 1e5,
            min: None,
            p50: None,
            p95: None,
            p99: None,
            max: None,
        };
        let steps = Steps {
            rank: None,
            step_us: None,
            steps: None,
            calls: None,
            communication_us: None,
            startup_us: None,
            between_us: None,
            without: 0,
            rows: vec![StepsRow {
                rank: Some(0),
                host: "a".to_owned(),
                pid: 2,
                steps: 80,
                calls: 9,
                calls_beyond: 0,
                step_us: Some(step),
                communication_us: None,
                startup_us: None,
                between_us: None,
                each: Vec::new(),
            }],
        };
        let row = RankRow {
            rank: Some(0),
            host: "a".to_owned(),
            pid: 2,
            device: Some(0),
            calls: 9 * 85,
            timed: 0,
            p2p: 0,
            wall_us: None,
            basis: None,
            nccl_us: None,
            share: None,
            sum_us: None,
        };
        let ranks = Ranks {
            rows: vec![row],
            ..Ranks::default()
        };
        let mut by_run = found(None);
        by_run.by_run = true;
        let mut streams = Streams::of_waits(vec![found(None), by_run]);
        streams.waited_for.push(WaitedFor {
            cycle_ns: 4e8,
            ..found(None)
        });
        in_steps(&mut streams, &steps, &ranks);
        let losses = streams.waited_for.iter().map(|of| of.loss_us);
        assert_eq!(losses.collect::<Vec<_>>(), [1.7e6, 2e6, 2e6]);
    }
}
