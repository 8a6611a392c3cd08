//! A rank that the others wait for, by what kernel windows show.
//!
//! Rule: it is only told where the lower end of the loss's interval is above zero. The loss is exposed
//! waiting of the other ranks and what their waiting kernels slow, so it is never more than these ranks lost.

use super::{with_other, Advice, Cause, Evidence, Finding, Late, Loss, Method, Subject};
use crate::arrivals::Arrivals;
use crate::streams::{Streams, WaitedFor};

/// The ranks that cost the job something. `wall_us` is the length of the run.
pub fn waited_for(
    streams: &Streams,
    arrivals: Option<&Arrivals>,
    wall_us: Option<f64>,
) -> Vec<Finding> {
    let ranks = streams.waited_for.iter().filter(|rank| rank.is_proved());
    let rows = arrivals.map_or(&[][..], |arrivals| &arrivals.ranks);
    ranks
        .map(|rank| {
            let row = rows.iter().find(|row| rank.is(row));
            let both = row.and_then(|row| with_other(row, rank.loss_us, wall_us));
            finding(rank, streams, both, wall_us)
        })
        .collect()
}

fn finding(
    rank: &WaitedFor,
    streams: &Streams,
    with_other: Option<(Option<u32>, f64)>,
    wall_us: Option<f64>,
) -> Finding {
    let measured = streams.windows > 0;
    let most = rank.host_most.filter(|_| !measured);
    let seen_us = measured.then_some(streams.common_us);
    let (cause, advice) = match rank.host_late {
        true => (Cause::Host, Advice::ProfileHost),
        false => (Cause::Gpu, Advice::CompareGpu),
    };
    Finding {
        subject: Subject::of(rank.id()),
        loss: Some(Loss {
            wall_us: rank.loss_us,
            interval_us: rank.loss_interval_us,
            at_most_us: most.map(|most| most.share * rank.active_ns / 1e3),
            method: match measured {
                true => Method::KernelWindows,
                false => Method::StreamWaits,
            },
            coverage: seen_us
                .zip(wall_us.filter(|wall| *wall > 0.0))
                .map(|(seen, wall)| (seen / wall).min(1.0)),
            untimed_in_graphs: None,
            run_us: wall_us,
        }),
        when_us: None,
        cause: Some(cause),
        evidence: Evidence::Late(Late {
            last: rank.last,
            operations: rank.operations,
            of_all: streams.operations,
            with_other,
            seen_us,
            by_events: measured && rank.by_events,
            ..Late::default()
        }),
        advice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::Share;

    #[test]
    fn only_losses_that_are_proved_and_matter_are_told() {
        let rank = |number, share, low| WaitedFor {
            rank: Some(number),
            host: "a".to_owned(),
            pid: 1,
            device: 0,
            last: 90,
            operations: 100,
            by_events: false,
            loss: Share {
                share,
                interval: Some((low, 2.0 * share)),
            },
            loss_us: share * 1e7,
            loss_interval_us: Some((low * 1e7, 2e7 * share)),
            host_late: number == 1,
            other: ("a".to_owned(), 9, 0),
            host_most: None,
            in_windows: Share::default(),
            sample: Default::default(),
            active_ns: 1e10,
            of_both: 0,
            by_run: false,
            again: false,
            steady: false,
            cycle_ns: 0.0,
        };
        let ranks = vec![rank(1, 0.2, 0.1), rank(2, 0.2, -0.1), rank(3, 0.005, 0.004)];
        let streams = Streams::of_waits(ranks);
        let found = waited_for(&streams, None, Some(1e7));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].rank(), Some(1));
        assert_eq!(found[0].cause, Some(Cause::Host));
        let loss = found[0].loss.as_ref().expect("a loss");
        assert_eq!(loss.interval_us, Some((1e6, 4e6)));
        assert_eq!(loss.method, Method::KernelWindows);
    }
}
