//! What an estimated loss can be at most.
//!
//! A loss that is found by a what-if replay ([`super::what_if`]) is an estimate. It is bounded by what was
//! measured. A run cannot be shorter by more than the rank that waited least waited in all. With a faster
//! link, it can't be shorter by more than the link's transfers were longer than the others'. Kernel windows
//! may show how much communication was exposed, and how long a host waited for its GPU. The loss is no more
//! than these either, on the rank where they are least.
//!
//! Windows that are too few to tell who was waited for still show how long the others waited and computed
//! nothing. Where that is more than the estimate, the interval reaches so far.
//!
//! If a sample of operations was timed, a loss and what was waited are of the sample. They are scaled up to
//! all operations as the savings and waits of the sample are ([`super::sampled`]), interval included.
//!
//! Rule: no estimate is printed that is larger than its bound. One that was larger is wrong by the difference
//! at least, so the lower end of its interval is lowered by as much. What is left of a gross error is an
//! interval that begins at 0, and no finding.

use super::{Arrivals, SampledArrivals};
use crate::streams::{RankStreams, Streams};

/// How many times a sum of the sample the same of all operations is, and the ends of its interval.
struct ScaleUp {
    times: f64,
    interval: (f64, f64),
}

impl ScaleUp {
    /// `of` is a sum of the sample.
    fn new(of: f64, all: Option<(f64, Option<(f64, f64)>)>) -> ScaleUp {
        let (all, interval) = all.filter(|_| of > 0.0).unwrap_or((1.0, None));
        let of = if of > 0.0 { of } else { 1.0 };
        let times = (all / of).max(1.0);
        let (low, high) = interval.unwrap_or((all, all));
        ScaleUp {
            times,
            interval: ((low / of).clamp(1.0, times), (high / of).max(times)),
        }
    }

    fn loss(&self, us: &mut Option<f64>, interval: &mut Option<(f64, f64)>) {
        *us = us.map(|us| us * self.times);
        *interval = interval.map(|(low, high)| (low * self.interval.0, high * self.interval.1));
    }
}

/// Takes off what is not possible. `run_us` is the length of the run.
pub fn bound(arrivals: &mut Arrivals, streams: Option<&Streams>, run_us: Option<f64>) {
    let all = arrivals.sampled;
    let saving = |of: SampledArrivals| (of.saving_wall_us, of.saving_interval_us);
    let wait = |of: SampledArrivals| (of.wait_rank_us, of.wait_interval_us);
    let savings = ScaleUp::new(arrivals.saving_wall_us, all.map(saving));
    let waited = ScaleUp::new(arrivals.wait_rank_us, all.map(wait));
    for rank in &mut arrivals.ranks {
        savings.loss(&mut rank.loss_wall_us, &mut rank.loss_interval_us);
    }
    for link in &mut arrivals.links {
        savings.loss(&mut link.loss_wall_us, &mut link.loss_interval_us);
    }
    let least = |but: Option<u32>, of: fn(&RankStreams) -> f64| {
        let ranks = streams?.ranks.iter();
        let others = ranks.filter(|rank| but.is_none() || rank.process.rank != but);
        let us = others.map(|rank| of(rank) * run_us.unwrap_or(f64::INFINITY));
        us.reduce(f64::min)
    };
    let exposed = |but: Option<u32>| least(but, |rank| rank.exposed.share);
    let host = |rank: &RankStreams| rank.host_waited.map_or(f64::INFINITY, |host| host.share);
    let faster_hosts = |but: Option<u32>| least(but, host);
    let waited_in_windows = |but: Option<u32>| {
        let waited = least(but, |rank| rank.exposed_waiting.map_or(0.0, |of| of.share));
        waited.filter(|_| run_us.is_some()).unwrap_or(0.0)
    };
    let waits: Vec<f64> = arrivals
        .ranks
        .iter()
        .map(|rank| rank.wait_rank_us * waited.interval.1)
        .collect();
    for (index, rank) in arrivals.ranks.iter_mut().enumerate() {
        let others = waits
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index);
        let waited = others.map(|(_, us)| *us).reduce(f64::min);
        let most = waited
            .into_iter()
            .chain(exposed(rank.process.rank))
            .chain(faster_hosts(rank.process.rank))
            .reduce(f64::min);
        if let (Some(loss), Some(most)) = (rank.loss_wall_us, most) {
            rank.loss_wall_us = Some(loss.min(most));
            let shown = waited_in_windows(rank.process.rank);
            let interval = rank.loss_interval_us;
            rank.loss_interval_us =
                interval.map(|(low, high)| below(loss, (low, high.max(shown)), most));
            rank.loss_at_most_us = Some(most);
        }
    }
    for link in &mut arrivals.links {
        let most = exposed(None)
            .unwrap_or(f64::INFINITY)
            .min(link.excess_wall_us.max(0.0) * savings.interval.1);
        if let Some(loss) = link.loss_wall_us {
            link.loss_wall_us = Some(loss.min(most));
            link.loss_interval_us = link.loss_interval_us.map(|ends| below(loss, ends, most));
            link.loss_at_most_us = Some(most);
        }
    }
}

/// The interval of a loss of which no more than `most` is possible.
fn below(loss: f64, (low, high): (f64, f64), most: f64) -> (f64, f64) {
    let wrong_by = (loss - most).max(0.0);
    ((low.min(most) - wrong_by).max(0.0), high.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::{Link, RankArrivals};
    use crate::subject::ProcessId;

    fn rank(number: u32, waited: f64, loss: Option<f64>) -> RankArrivals {
        RankArrivals {
            process: ProcessId {
                rank: Some(number),
                ..ProcessId::default()
            },
            wait_rank_us: waited,
            loss_wall_us: loss,
            loss_interval_us: loss.map(|loss| (0.9 * loss, 1.1 * loss)),
            ..RankArrivals::default()
        }
    }

    fn arrivals(ranks: Vec<RankArrivals>, links: Vec<Link>) -> Arrivals {
        Arrivals {
            operations: 100,
            differing: 0,
            transfer_wall_us: 0.0,
            wait_rank_us: 0.0,
            saving_wall_us: 0.0,
            sampled: None,
            stalls: Vec::new(),
            ranks,
            over_network: None,
            links,
        }
    }

    #[test]
    fn no_estimate_is_larger_than_what_the_others_waited() {
        let link = |excess: f64| Link {
            excess_wall_us: excess,
            loss_wall_us: Some(50.0),
            ..Link::default()
        };
        let ranks = vec![
            rank(3, 1.0, Some(1000.0)),
            rank(0, 400.0, Some(0.5)),
            rank(1, 300.0, None),
        ];
        let mut arrivals = arrivals(ranks, vec![link(40.0), link(60.0)]);
        bound(&mut arrivals, None, Some(1e6));
        let [late, early, other] = &arrivals.ranks[..] else {
            panic!("three");
        };
        assert_eq!(late.loss_wall_us, Some(300.0));
        // 1000 was wrong by 700 at least, so nothing is known but the bound.
        assert_eq!(late.loss_interval_us, Some((0.0, 300.0)));
        assert_eq!(late.loss_at_most_us, Some(300.0));
        assert_eq!(
            (early.loss_wall_us, early.loss_at_most_us),
            (Some(0.5), Some(1.0))
        );
        assert_eq!((other.loss_wall_us, other.loss_at_most_us), (None, None));
        let links = arrivals.links.iter().map(|link| link.loss_wall_us);
        assert_eq!(links.collect::<Vec<_>>(), [Some(40.0), Some(50.0)]);
        assert_eq!(below(50.0, (45.0, 55.0), 48.0), (43.0, 48.0));
    }

    #[test]
    fn what_a_sample_says_is_of_all_operations() {
        let ranks = vec![rank(3, 0.0, Some(90.0)), rank(0, 100.0, None)];
        let mut arrivals = Arrivals {
            wait_rank_us: 100.0,
            saving_wall_us: 100.0,
            // One in five was timed.
            sampled: Some(SampledArrivals {
                operations: 100,
                share: 0.2,
                wait_rank_us: 500.0,
                wait_interval_us: Some((450.0, 550.0)),
                saving_wall_us: 500.0,
                saving_interval_us: Some((450.0, 550.0)),
            }),
            ..arrivals(ranks, Vec::new())
        };
        bound(&mut arrivals, None, Some(1e6));
        let late = &arrivals.ranks[0];
        assert_eq!(late.loss_wall_us, Some(450.0));
        let (low, high) = late.loss_interval_us.expect("an interval");
        assert!((low - 0.9 * 0.9 * 450.0).abs() < 1e-6 && (high - 1.1 * 1.1 * 450.0).abs() < 1e-6);
        assert_eq!(late.loss_at_most_us, Some(550.0));
    }
}
