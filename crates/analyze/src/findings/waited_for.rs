//! A rank that the others wait for, by what kernel windows show.
//!
//! Rule: it is only told where the lower end of the loss's interval is above zero. The loss is exposed
//! waiting of the other ranks and what their waiting kernels slow, so it is never more than these ranks lost.

use super::{arrived_last, both, costs, costs_about, estimate, late_to, Finding, HOST_LATE_ADVICE};
use crate::arrivals::Arrivals;
use crate::spelling::{time, times};
use crate::streams::{Streams, WaitedFor};

/// The ranks that cost the job something. `wall_us` is the length of the run.
pub fn waited_for(
    streams: &Streams,
    arrivals: Option<&Arrivals>,
    wall_us: Option<f64>,
) -> Vec<Finding> {
    let ranks = streams.waited_for.iter().filter(|rank| rank.is_proved());
    ranks
        .map(|rank| {
            let mut found = finding(rank, streams, wall_us);
            let rows = arrivals.map_or(&[][..], |arrivals| &arrivals.ranks);
            let row = rows.iter().find(|row| rank.is(row));
            found.evidence += &row.map_or(String::new(), |row| both(row, rank.loss_us, wall_us));
            found
        })
        .collect()
}

fn finding(rank: &WaitedFor, streams: &Streams, wall_us: Option<f64>) -> Finding {
    let who = match rank.rank {
        Some(number) => format!("Rank {number} (GPU {} on {})", rank.device, rank.host),
        None => format!("Pid {} on {}", rank.pid, rank.host),
    };
    let to = late_to(rank.last, rank.operations);
    let measured = streams.windows > 0;
    let (why, advice) = if rank.host_late {
        let idle = if measured {
            ", and its GPU stands idle"
        } else {
            ""
        };
        (
            format!("its host launches {to} late{idle}"),
            HOST_LATE_ADVICE,
        )
    } else {
        (
            format!("its GPU is busy with other work before {to}"),
            "Compare its GPU with another's: extra kernels (report --kernels), clocks, temperature \
             (nvidia-smi -q -d PERFORMANCE).",
        )
    };
    let (low, high) = rank.loss_interval_us.unwrap_or_default();
    let by = match rank.by_events {
        true => " Its process has no kernel windows: CUDA events say when it came.",
        false => "",
    };
    if !measured {
        let most_us = rank.host_most.map(|most| most.share * rank.active_ns / 1e3);
        let cost = costs_about(rank.loss_us, (low, high), wall_us);
        return Finding {
            kind: "late_rank",
            sentence: format!("{who} {cost}: {why}."),
            wall_us: Some(rank.loss_us),
            wall_interval_us: rank.loss_interval_us,
            wall_at_most_us: most_us,
            when_us: None,
            evidence: format!(
                "It {}. CUDA events say how long streams of the others stood still for it. {} 95 % interval: \
                 {}.",
                arrived_last(rank.last, streams.operations),
                estimate(most_us),
                times(low, high),
            ),
            advice: advice.to_owned(),
        };
    }
    Finding {
        kind: "late_rank",
        sentence: format!("{who} {}: {why}.", costs(rank.loss_us, wall_us)),
        wall_us: Some(rank.loss_us),
        wall_interval_us: rank.loss_interval_us,
        wall_at_most_us: None,
        when_us: None,
        evidence: format!(
            "It {} in {} of kernel windows. Measured there: the time in which the others' GPUs waited and \
             computed nothing, and what waiting slowed beside it.{by} 95 % interval of the cost: {}.",
            arrived_last(rank.last, streams.operations),
            time(streams.common_us),
            times(low, high),
        ),
        advice: advice.to_owned(),
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
        assert_eq!(
            found[0].sentence,
            "Rank 1 (GPU 0 on a) costs this job 2.00 s of 10.0 s: its host launches most collectives late, \
             and its GPU stands idle."
        );
        assert!(found[0]
            .evidence
            .contains("95 % interval of the cost: 1.00 to 4.00 s."));
    }
}
