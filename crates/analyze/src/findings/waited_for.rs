//! A rank that the others wait for, by what kernel windows show.
//!
//! Rule: it is only told where the lower end of the loss's interval is above zero. The loss is exposed waiting of the other
//! ranks and what their waiting kernels slow, so it is never more than these ranks lost.

use super::{time, Finding, HOST_LATE_ADVICE, LEAST_SHARE};
use crate::streams::{Streams, WaitedFor};

/// The ranks that cost the job something.
pub fn waited_for(streams: &Streams) -> Vec<Finding> {
    let costs = |rank: &&WaitedFor| {
        rank.loss.share >= LEAST_SHARE && rank.loss.interval.is_some_and(|(low, _)| low > 0.0)
    };
    let ranks = streams.waited_for.iter().filter(costs);
    ranks.map(|rank| finding(rank, streams)).collect()
}

fn finding(rank: &WaitedFor, streams: &Streams) -> Finding {
    let who = match rank.rank {
        Some(number) => format!("rank {number} (GPU {} of {})", rank.device, rank.host),
        None => format!("pid {} on {}", rank.pid, rank.host),
    };
    let (why, advice) = if rank.host_late {
        (
            "its GPU stands idle before, so its host launches late",
            HOST_LATE_ADVICE,
        )
    } else {
        (
            "its GPU is busy with other work before",
            "Compare its GPU with another's: extra kernels (report --kernels), clocks, temperature (nvidia-smi -q -d PERFORMANCE).",
        )
    };
    let (low, high) = rank.loss_interval_us.unwrap_or_default();
    Finding {
        kind: "late_rank",
        sentence: format!(
            "The others wait for {who}: as early as they are, the job would take {} less ({:.0} % of it).",
            time(rank.loss_us),
            100.0 * rank.loss.share
        ),
        wall_us: Some(rank.loss_us),
        wall_interval_us: rank.loss_interval_us,
        evidence: format!(
            "95 % interval {} to {}; it arrived last in {} of {} operations in {} of kernel windows, {why}; measured: time in which the \
             others' GPUs waited and computed nothing, and what waiting slowed beside it",
            time(low),
            time(high),
            rank.last,
            streams.operations,
            time(streams.common_us),
        ),
        advice: advice.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::Share;
    use std::collections::BTreeMap;

    #[test]
    fn only_losses_that_are_proved_and_matter_are_told() {
        let rank = |number, share, low| WaitedFor {
            rank: Some(number),
            host: "a".to_owned(),
            pid: 1,
            device: 0,
            last: 90,
            operations: 100,
            loss: Share {
                share,
                interval: Some((low, 2.0 * share)),
            },
            loss_us: share * 1e7,
            loss_interval_us: Some((low * 1e7, 2e7 * share)),
            host_late: number == 1,
        };
        let streams = Streams {
            windows: 8,
            yielded: 0,
            without: BTreeMap::new(),
            ranks: Vec::new(),
            communication: Vec::new(),
            other_communication: Vec::new(),
            kernels: Vec::new(),
            common_us: 1e6,
            operations: 100,
            bubbles: Vec::new(),
            replays: Vec::new(),
            waited_for: vec![rank(1, 0.2, 0.1), rank(2, 0.2, -0.1), rank(3, 0.005, 0.004)],
        };
        let found = waited_for(&streams);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].sentence,
            "The others wait for rank 1 (GPU 0 of a): as early as they are, the job would take 2.00 s less (20 % of it)."
        );
        assert!(found[0].evidence.contains("its host launches late"));
    }
}
