//! Efficiencies of a job's steps, as POP defines them: which part of the ranks' time is work.
//!
//! Rule: the parallel efficiency is the product of the other two.

use super::Account;

/// Above this part of the ranks' time that is not known, efficiencies are not known either.
const MOST_UNKNOWN: f64 = 0.05;

/// Efficiencies, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Efficiencies {
    /// The mean work of the ranks, of the wall time.
    pub parallel: f64,
    /// The mean work of the ranks, of the most work that one has.
    pub load_balance: f64,
    /// The most work that a rank has, of the wall time.
    pub communication: f64,
}

impl Account {
    /// The efficiencies of the steps; `None` if too much is not known.
    pub fn efficiencies(&self) -> Option<Efficiencies> {
        let n = self.ranks.len() as f64;
        let whole = n * self.wall_us;
        let unknown: f64 = self.ranks.iter().map(|rank| rank.unknown_us).sum();
        let work = self.ranks.iter().map(|rank| rank.work_us);
        let (mean, most) = (work.clone().sum::<f64>() / n, work.fold(0.0, f64::max));
        // Without GPU times, all time looks like work.
        let is_seen = self.ranks.iter().all(|rank| rank.known_share > 0.0);
        let is_known = most > 0.0 && is_seen && unknown <= MOST_UNKNOWN * whole;
        is_known.then(|| Efficiencies {
            parallel: mean / self.wall_us,
            load_balance: mean / most,
            communication: most / self.wall_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::RankAccount;

    fn account(work: &[f64], unknown: f64) -> Account {
        let rank = |work: &f64| RankAccount {
            rank: None,
            host: String::new(),
            pid: 1,
            device: None,
            work_us: *work,
            wait_us: 100.0 - work - unknown,
            transfer_us: 0.0,
            unknown_us: unknown,
            known_share: 1.0,
        };
        Account {
            steps: 10,
            skipped: 0,
            wall_us: 100.0,
            ranks: work.iter().map(rank).collect(),
            together_share: None,
            settles: false,
            answers: Vec::new(),
        }
    }

    #[test]
    fn a_rank_with_less_work_is_load_balance_and_the_rest_communication() {
        let found = account(&[90.0, 60.0], 0.0).efficiencies();
        let close = |found: f64, truth: f64| assert!((found - truth).abs() < 1e-9, "{found}");
        let found = found.expect("known");
        close(found.parallel, 0.75);
        close(found.load_balance, 75.0 / 90.0);
        close(found.communication, 0.9);
    }

    #[test]
    fn what_is_not_known_is_not_an_efficiency() {
        assert_eq!(account(&[50.0, 50.0], 10.0).efficiencies(), None);
        assert_eq!(account(&[], 0.0).efficiencies(), None);
        assert_eq!(account(&[0.0], 0.0).efficiencies(), None);
        let mut unseen = account(&[100.0, 100.0], 0.0);
        unseen.ranks[1].known_share = 0.0;
        assert_eq!(unseen.efficiencies(), None);
    }
}
