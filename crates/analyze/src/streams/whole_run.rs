//! What windows show of a loss, on the scale of the whole run.
//!
//! Windows are a tenth of the run at most, and a rank that is late now and then may be later in them than it
//! is else, or not at all. CUDA events time calls all the time. They don't show what a GPU computed, and so
//! not what a wait costs, but for how long each rank waited for the last one. A loss is taken to rise and
//! fall with that: its share in windows is multiplied by the waiting in the run by the waiting in windows.
//! Before the job has begun nobody waits, so its start-up costs nothing.
//!
//! Rule: if most operations of windows have no such times (graphs, sends and receives), a loss stays as it
//! is.

use super::{Exposure, Streams, WaitedFor, LEAST_MATCHED};
use crate::arrivals::over_time::{Gpu, OverTime, PartOver};

/// How long a GPU waited for another, less how long that one waited for it, ns.
#[derive(Clone, Copy, Default)]
struct Waited {
    run: f64,
    windows: f64,
    /// Operations in windows.
    operations: u64,
}

/// Scales the losses. `exposures` say when windows were open.
pub(crate) fn scale(streams: &mut Streams, of: &OverTime, exposures: &[Exposure]) {
    let gpus: Vec<Gpu> = of.gpus().collect();
    let matched = streams.operations;
    for found in &mut streams.waited_for {
        let late = (&found.host[..], found.pid, found.device);
        let other = found.other.clone();
        let other = (&other.0[..], other.1, other.2);
        let place = |of: (&str, u32, u32)| {
            let is = |gpu: &Gpu| (gpu.host, gpu.pid, gpu.device) == (of.0, of.1, Some(of.2));
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
        if waited.windows > 0.0 && found.active_ns > 0.0 && shown > 0 {
            let in_run = waited.run.max(0.0) / found.active_ns;
            found.scale(in_run * shown as f64 / waited.windows);
        }
    }
    let share = |of: &WaitedFor| of.loss.share;
    streams.waited_for.retain(|of| share(of) > 0.0);
    streams
        .waited_for
        .sort_by(|a, b| share(b).total_cmp(&share(a)));
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
}
