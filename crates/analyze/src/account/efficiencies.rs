//! Efficiencies of a job's steps, as POP defines them, and the slowdown by ranks that are not equal.
//!
//! Time that is not known makes each of them an interval: from all of it was no work to all of it was work.
//!
//! Rule: the parallel efficiency is the product of load balance, serialisation and transfer.

use super::division::RankAccount;
use schemars::JsonSchema;
use serde::Serialize;

/// The lower and the upper end.
pub type Ends = (f64, f64);

/// Efficiencies, 0 to 1, each with both ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Efficiencies {
    /// The share of the wall time that is the ranks' mean work; lower and upper end.
    pub parallel: Ends,
    /// The ranks' mean work as a share of the most work that one has; lower and upper end.
    pub load_balance: Ends,
    /// The most work that a rank has, as a share of the wall time without that rank's transfers: the rest is
    /// waiting in turns.
    pub serialisation: Ends,
    /// The share of the wall time that is left without the transfers of the rank with the most work; lower
    /// and upper end.
    pub transfer: Ends,
    /// How many times as long a step takes as if nobody was late; lower and upper end, without a unit. It is
    /// by what the ranks that are named cost. If none is named, it is as if all ranks were equal, and null if
    /// ranks do not all need each other in what they wait for.
    pub slowdown: Option<Ends>,
}

impl Efficiencies {
    /// Of these ranks; `None` if no exposed time of some rank is known: all time looks like work then.
    pub fn of(ranks: &[RankAccount], wall_us: f64, all_meet: bool) -> Option<Efficiencies> {
        let is_seen = ranks.iter().all(|rank| rank.known_share > 0.0);
        if ranks.is_empty() || wall_us <= 0.0 || !is_seen {
            return None;
        }
        let (a, b) = (point(ranks, wall_us, 0.0)?, point(ranks, wall_us, 1.0)?);
        let ends = |of: fn(&[f64; 5]) -> f64| (of(&a).min(of(&b)), of(&a).max(of(&b)));
        Some(Efficiencies {
            parallel: ends(|of| of[0]),
            load_balance: ends(|of| of[1]),
            serialisation: ends(|of| of[2]),
            transfer: ends(|of| of[3]),
            slowdown: all_meet.then(|| ends(|of| of[4])),
        })
    }

    /// Whether both ends of all efficiencies are within this part of each other.
    pub fn are_within(&self, part: f64) -> bool {
        let all = [
            self.parallel,
            self.load_balance,
            self.serialisation,
            self.transfer,
        ];
        all.iter().all(|(low, high)| high - low <= part)
    }
}

/// If this part of what is not known was work, and the rest waiting: parallel efficiency, load balance,
/// serialisation, transfer and slowdown.
fn point(ranks: &[RankAccount], wall: f64, part: f64) -> Option<[f64; 5]> {
    let n = ranks.len() as f64;
    let work = |rank: &RankAccount| rank.work_us + part * rank.unknown_us;
    let most = ranks.iter().max_by(|a, b| work(a).total_cmp(&work(b)))?;
    let mean = ranks.iter().map(work).sum::<f64>() / n;
    let waits = ranks
        .iter()
        .map(|rank| rank.wait_us + (1.0 - part) * rank.unknown_us);
    let waits = waits.sum::<f64>() / n;
    let busy = wall - most.transfer_us;
    (work(most) > 0.0).then(|| {
        [
            mean / wall,
            mean / work(most),
            work(most) / busy,
            busy / wall,
            wall / (wall - waits),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::ProcessId;

    fn ranks(of: &[(f64, f64, f64)]) -> Vec<RankAccount> {
        let rank = |(work, transfer, unknown): &(f64, f64, f64)| RankAccount {
            process: ProcessId {
                rank: None,
                host: String::new(),
                pid: 1,
            },

            device: None,
            work_us: *work,
            wait_us: 100.0 - work - transfer - unknown,
            transfer_us: *transfer,
            unknown_us: *unknown,
            known_share: 1.0,
        };
        of.iter().map(rank).collect()
    }

    fn close(found: Ends, truth: Ends) {
        let off = (found.0 - truth.0).abs() + (found.1 - truth.1).abs();
        assert!(off < 1e-9, "{found:?} {truth:?}");
    }

    #[test]
    fn the_parallel_efficiency_is_the_product_of_the_others() {
        let found = Efficiencies::of(&ranks(&[(81.0, 10.0, 0.0), (60.0, 10.0, 0.0)]), 100.0, true);
        let found = found.expect("known");
        close(found.parallel, (0.705, 0.705));
        close(found.load_balance, (70.5 / 81.0, 70.5 / 81.0));
        close(found.serialisation, (0.9, 0.9));
        close(found.transfer, (0.9, 0.9));
        let product = found.load_balance.0 * found.serialisation.0 * found.transfer.0;
        close((product, product), found.parallel);
        // They wait for 9 and 30: 19.5 on average.
        let slowdown = found.slowdown.expect("all meet");
        close(slowdown, (100.0 / 80.5, 100.0 / 80.5));
    }

    #[test]
    fn what_is_not_known_makes_an_interval() {
        let of = ranks(&[(90.0, 0.0, 0.0), (60.0, 0.0, 20.0)]);
        let found = Efficiencies::of(&of, 100.0, false).expect("known");
        close(found.parallel, (0.75, 0.85));
        assert_eq!(found.slowdown, None);
        assert!(!found.are_within(0.05));
    }

    #[test]
    fn without_exposed_times_there_are_none() {
        let mut unseen = ranks(&[(100.0, 0.0, 0.0), (100.0, 0.0, 0.0)]);
        unseen[1].known_share = 0.0;
        assert_eq!(Efficiencies::of(&unseen, 100.0, true), None);
        assert_eq!(Efficiencies::of(&[], 100.0, true), None);
    }
}
