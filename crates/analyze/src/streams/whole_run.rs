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

use super::losses::smaller;
use super::{Exposure, Quiet, Share, Streams, WaitedFor, LEAST_MATCHED};
use crate::arrivals::over_time::{GpuKey, OverTime};
use crate::interval::{student, LEAST_STRETCHES};
use crate::ranks::{RankRow, Ranks};
use crate::steps::{Steps, StepsRow};

/// A step is as long as a cycle of windows if they differ by less than this part. A micro-batch is half of a
/// step at most.
const ALIKE: f64 = 0.25;

/// How long a GPU waited for another, ns. What that one waited the other way round says nothing of it: it may
/// have been for a checkpoint, or for what no window shows.
#[derive(Clone, Default)]
struct Waited {
    run: f64,
    windows: f64,
    /// Operations in windows.
    operations: u64,
    /// By piece of windows.
    pieces: Vec<f64>,
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
        let pieces: Vec<(i64, i64)> = found.sample.pieces.iter().map(|(span, _)| *span).collect();
        let waited = waited(of, &windows, &pieces, waits, late);
        let shown: i64 = windows.iter().map(|(from, to)| to - from).sum();
        if waited.operations < LEAST_MATCHED || 2 * waited.operations < found.of_both {
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
            let pieces = found.sample.pieces.iter().zip(&waited.pieces);
            let pieces = pieces.map(|((span, lost), waited)| (*span, *lost, *waited));
            let known = relative(&pieces.collect::<Vec<_>>());
            let surer = |known: f64| known * found.in_windows.share > found.sample.half;
            found.steady = found.sample.half > 0.0 && known.map_or(found.again, surer);
            found.scale(times, known, false);
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
    let by_steps = |of: &&mut WaitedFor| !of.by_run || of.steady;
    for found in streams.waited_for.iter_mut().filter(by_steps) {
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
            // How long steps are on the GPU: a host may be ahead, and so quicker at first.
            let inside = all * found.cycle_ns / found.active_ns;
            found.scale(inside.clamp(0.0, 1.0), None, true);
        }
    }
}

/// How well the waiting in pieces of windows tells what was lost in them: half of the 95 % interval of their
/// ratio, by the ratio. `None` if they are too few.
///
/// Waiting is known for the whole run, so only by how much a loss departs from it counts: the ratio estimator
/// of W. G. Cochran, "Sampling Techniques", 3rd edition, 1977, chapter 6. What is lost and waited in one
/// window is alike, so windows count and not pieces.
fn relative(pieces: &[((i64, i64), f64, f64)]) -> Option<f64> {
    let mut windows: Vec<(f64, f64)> = Vec::new();
    let mut until = None;
    for ((from, to), lost, waited) in pieces {
        match windows.last_mut().filter(|_| until == Some(*from)) {
            Some(last) => *last = (last.0 + lost, last.1 + waited),
            None => windows.push((*lost, *waited)),
        }
        until = Some(*to);
    }
    let n = windows.len() as f64;
    let (lost, waited) = windows
        .iter()
        .fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    if windows.len() < LEAST_STRETCHES || lost <= 0.0 || waited <= 0.0 {
        return None;
    }
    let apart = windows
        .iter()
        .map(|of| (of.0 - lost / waited * of.1).powi(2));
    let error = (apart.sum::<f64>() * n / (n - 1.0)).sqrt() / lost;
    Some(student(n - 1.0) * error)
}

fn waited(
    of: &OverTime,
    windows: &[(i64, i64)],
    pieces: &[(i64, i64)],
    waits: usize,
    late: usize,
) -> Waited {
    let mut sum = Waited {
        pieces: vec![0.0; pieces.len()],
        ..Waited::default()
    };
    of.operations(|parts| {
        let own = parts.iter().find(|part| part.gpu == waits);
        let (Some(own), Some(last)) = (own, parts.last()) else {
            return;
        };
        if !parts.iter().any(|part| part.gpu == late) {
            return;
        }
        let waited = match last.gpu == late {
            true => own.ns as f64 - last.ns as f64,
            false => 0.0,
        };
        sum.run += waited;
        let end = (own.start + own.ns) as i64;
        let window = windows.partition_point(|window| window.1 < end);
        if windows.get(window).is_some_and(|window| window.0 <= end) {
            sum.windows += waited;
            sum.operations += 1;
        }
        let piece = pieces.partition_point(|piece| piece.1 < end);
        if pieces.get(piece).is_some_and(|piece| piece.0 <= end) {
            sum.pieces[piece] += waited;
        }
    });
    sum
}

impl WaitedFor {
    /// The loss is so many times what windows show, and no more than the other's host could be faster, which
    /// is a part of the same time if `of_steps`. `relative` is how well waiting tells the loss
    /// ([`relative`]), if that is known.
    pub(super) fn scale(&mut self, times: f64, relative: Option<f64>, of_steps: bool) {
        let Share { share, interval } = self.in_windows;
        // What the sample alone makes the interval wide is known better by its waiting.
        let known = relative.unwrap_or(f64::INFINITY) * share;
        let surer = (self.sample.half - known).max(0.0);
        let all = Share {
            share: share * times,
            interval: interval.map(|(low, high)| {
                let (low, high) = ((low + surer).min(share), (high - surer).max(share));
                (low * times, high * times)
            }),
        };
        let part = if of_steps { times } else { 1.0 };
        let host = self.host_most.map(|host| Share {
            share: host.share * part,
            interval: host.interval.map(|(low, high)| (low * part, high * part)),
        });
        self.loss = match host {
            Some(host) => smaller(all, host),
            None => Share {
                interval: None,
                ..all
            },
        };
        let us = |share: f64| share * self.active_ns / 1e3;
        self.loss_us = us(self.loss.share);
        let interval = self.loss.interval;
        self.loss_interval_us =
            interval.map(|(low, high)| (us(low.clamp(0.0, 1.0)), us(high.clamp(0.0, 1.0))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Statistics;
    use crate::streams::losses::Sample;
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
            host_most: host_most.map(|share| Share {
                share,
                interval: None,
            }),
            in_windows: Share {
                share: 0.2,
                interval: Some((0.1, 0.3)),
            },
            sample: Sample::default(),
            active_ns: 1e10,
            of_both: 0,
            by_run: false,
            again: false,
            steady: false,
            cycle_ns: 1.02e8,
        }
    }

    #[test]
    fn a_rank_that_is_late_in_half_of_the_run_costs_half() {
        let mut half = found(Some(0.25));
        half.scale(0.5, None, false);
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
            pieces: Vec::new(),
        };
        assert_eq!(waited.times(8e9, 1e9), Some(1.0));
        assert_eq!(waited.times(10e9, 1e9), Some(0.8));
        assert_eq!(Waited::default().times(8e9, 1e9), None);
    }

    #[test]
    fn no_loss_is_more_than_the_other_host_could_be_faster() {
        let mut twice = found(Some(0.25));
        twice.scale(2.0, None, false);
        assert_eq!(twice.loss.share, 0.25);
        let mut bound = found(Some(0.15));
        bound.scale(2.0, None, false);
        assert_eq!(bound.loss.share, 0.15);
        let mut unknown = found(None);
        unknown.scale(2.0, None, false);
        assert_eq!(unknown.loss.share, 0.4);
    }

    #[test]
    fn what_waiting_tells_needs_no_sample() {
        // Windows in which a rank is late by chance: what is lost is always four fifths of what is waited.
        let window = |n: i64, lost: f64, waited: f64| ((10 * n, 10 * n + 5), lost, waited);
        let exact: Vec<_> = [3.0, 0.0, 7.0, 1.0, 9.0]
            .iter()
            .zip(0..)
            .map(|(waited, n)| window(n, 0.8 * waited, *waited))
            .collect();
        assert!(relative(&exact).is_some_and(|half| half < 1e-9));
        // Pieces of one window are one value.
        let cut: Vec<_> = (0..6).map(|n| ((5 * n, 5 * n + 5), 1.0, 1.0)).collect();
        assert_eq!(relative(&cut), None);
        let mut sure = found(None);
        (sure.host_most, sure.sample.half) = (
            Some(Share {
                share: 0.9,
                interval: None,
            }),
            0.1,
        );
        sure.scale(1.0, Some(0.1), false);
        let (low, high) = sure.loss.interval.expect("known");
        assert!((low - 0.18).abs() < 1e-9 && (high - 0.22).abs() < 1e-9);
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
            source: Default::default(),
            rank: None,
            step_us: None,
            steps: None,
            calls: None,
            communication_us: None,
            startup_us: None,
            between_us: None,
            without: 0,
            unlike: Vec::new(),
            rows: vec![StepsRow {
                rank: Some(0),
                host: "a".to_owned(),
                pid: 2,
                source: Default::default(),
                steps: 80,
                calls: 9,
                equal_parts: 1,
                times_repeat: 1,
                calls_beyond: 0,
                step_us: Some(step),
                communication_us: None,
                startup_us: None,
                between_us: None,
                times_ns: Vec::new(),
                on_gpu: false,
                each: Vec::new(),
            }],
        };
        let row = RankRow {
            rank: Some(0),
            host: "a".to_owned(),
            pid: 2,
            device: Some(0),
            calls: 9 * 85,
            ..RankRow::default()
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
        let losses = streams.waited_for.iter().map(|of| of.loss_us.round());
        assert_eq!(losses.collect::<Vec<_>>(), [1.734e6, 2e6, 2e6]);
    }
}
