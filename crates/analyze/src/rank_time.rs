//! Where the time of each rank went: the lines of its account, with kernel windows beside them.
//!
//! [`of`] takes the best evidence that a report has. That is the [account](crate::account) of the steps if it
//! settles what late ranks cost, else what [kernel windows](crate::streams) show, else the GPU times of
//! calls.
//! The account can't tell computing from an idle GPU. Of a rank with kernel windows, its work is divided as
//! these show it.
//!
//! Rule: the parts of a rank sum to 1. What nobody saw is [`Part::Outside`] or [`Part::Unknown`], and no rank
//! gets another's shares.

use crate::account::RankAccount;
use crate::arrivals::Arrivals;
use crate::findings::RankId;
use crate::ranks::RankRow;
use crate::streams::{RankStreams, Streams};
use crate::Report;
use schemars::JsonSchema;
use serde::Serialize;

/// What the shares rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The account of the steps.
    Account,
    /// Kernel windows.
    Windows,
    /// GPU times of calls, over the whole run.
    Calls,
}

/// A part of a rank's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// Its GPU computed or copied, and nothing communicated.
    Computing,
    /// Its GPU computed beside communication.
    Beside,
    /// It stood still while bytes moved.
    Transfer,
    /// It stood still for ranks that had not come.
    Waiting,
    /// Its GPU had nothing to do.
    Host,
    /// Not in communication: computing or an idle GPU. No window tells which.
    Outside,
    /// In communication, and no more is known.
    Unknown,
}

impl Part {
    /// In the order in which they are drawn.
    pub const ALL: [Part; 7] = [
        Part::Computing,
        Part::Beside,
        Part::Transfer,
        Part::Waiting,
        Part::Host,
        Part::Outside,
        Part::Unknown,
    ];
}

/// One rank's time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RankTime {
    /// Which rank.
    pub id: RankId,
    /// Shares of its time, 0 to 1, as in [`Part::ALL`].
    pub shares: [f64; 7],
    /// The time that its kernel windows show, µs; null without any.
    pub seen_us: Option<f64>,
}

impl RankTime {
    /// The share of a part.
    pub fn share(&self, part: Part) -> f64 {
        self.shares[part as usize]
    }

    fn new(id: RankId, seen_us: Option<f64>, parts: &[(Part, f64)]) -> RankTime {
        let mut shares = [0.0; 7];
        for (part, share) in parts {
            shares[*part as usize] += share.max(0.0);
        }
        // Rounding, and intervals that overlap by the error of their times.
        let sum: f64 = shares.iter().sum();
        if sum > 0.0 {
            shares.iter_mut().for_each(|share| *share /= sum);
        }
        RankTime {
            id,
            shares,
            seen_us,
        }
    }
}

/// Where the time of the ranks went.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RankTimes {
    /// What that rests on.
    pub basis: Basis,
    /// By restart and rank.
    pub ranks: Vec<RankTime>,
}

/// Where the time of a report's ranks went; `None` if no call has a GPU time.
pub fn of(report: &Report) -> Option<RankTimes> {
    let streams = report.streams.as_ref();
    let times = |basis, ranks: Vec<RankTime>| Some(RankTimes { basis, ranks });
    if let Some(account) = report.account.as_ref().filter(|account| account.settles) {
        return times(Basis::Account, by_account(&account.ranks, streams));
    }
    let windows: Vec<RankTime> = streams
        .iter()
        .flat_map(|s| &s.ranks)
        .map(by_windows)
        .collect();
    if !windows.is_empty() {
        return times(Basis::Windows, windows);
    }
    let rows = report.ranks.rows.iter();
    let ranks: Vec<RankTime> = rows
        .filter_map(|row| by_calls(row, report.arrivals.as_ref()))
        .collect();
    times(Basis::Calls, ranks).filter(|times| !times.ranks.is_empty())
}

fn by_account(account: &[RankAccount], streams: Option<&Streams>) -> Vec<RankTime> {
    let rank = |of: &RankAccount| {
        let all = of.work_us + of.wait_us + of.transfer_us + of.unknown_us;
        let share = |us: f64| us / all.max(f64::MIN_POSITIVE);
        let seen = streams
            .iter()
            .flat_map(|streams| &streams.ranks)
            .find(|row| {
                (&row.process.host, row.process.pid) == (&of.process.host, of.process.pid)
                    && of.device.is_none_or(|device| device == row.device)
            });
        let work = share(of.work_us);
        let mut parts = vec![
            (Part::Waiting, share(of.wait_us)),
            (Part::Transfer, share(of.transfer_us)),
            (Part::Unknown, share(of.unknown_us)),
        ];
        let divided = seen.and_then(|row| {
            let computing = row.computing.share + row.copies.share;
            let all = computing + row.beside.share + row.idle.share;
            (all > 0.0).then(|| {
                [
                    (Part::Computing, work * computing / all),
                    (Part::Beside, work * row.beside.share / all),
                    (Part::Host, work * row.idle.share / all),
                ]
            })
        });
        match divided {
            Some(divided) => parts.extend(divided),
            None => parts.push((Part::Outside, work)),
        }
        RankTime::new(of.id(), seen.map(|row| row.seen_us), &parts)
    };
    account.iter().map(rank).collect()
}

fn by_windows(of: &RankStreams) -> RankTime {
    let id = RankId::new(of.process.clone(), Some(of.device));
    let exposed = of.exposed.share;
    // With too few operations on all ranks, windows don't say who waited.
    let known = of.exposed_waiting.filter(|of| of.interval.is_some());
    let split = match known.map(|of| of.share.min(exposed)) {
        Some(waiting) => [
            (Part::Waiting, waiting),
            (Part::Transfer, exposed - waiting),
        ],
        None => [(Part::Unknown, exposed), (Part::Waiting, 0.0)],
    };
    let [a, b] = split;
    let parts = [
        a,
        b,
        (Part::Computing, of.computing.share + of.copies.share),
        (Part::Beside, of.beside.share),
        (Part::Host, of.idle.share),
    ];
    RankTime::new(id, Some(of.seen_us), &parts)
}

/// From the GPU times of calls. What operations transferred is their mean.
fn by_calls(row: &RankRow, arrivals: Option<&Arrivals>) -> Option<RankTime> {
    let (nccl, wall) = (row.nccl_us?, row.wall_us.filter(|wall| *wall > 0.0)?);
    if row.basis != Some("gpu") {
        return None;
    }
    let id = RankId {
        process: row.process.clone(),

        device: row.device,
        gpu: row.gpu.clone(),
    };
    let own = arrivals.and_then(|all| {
        let own = all.ranks.iter().find(|of| {
            (&of.process.host, of.process.pid, of.device)
                == (&row.process.host, row.process.pid, row.device)
        })?;
        Some((all, own))
    });
    let (waiting, transfer) = own.map_or((0.0, 0.0), |(all, own)| {
        let waiting = all.waited_us(own).min(nccl);
        let part = own.operations as f64 / all.operations.max(1) as f64;
        (waiting, (all.transfer_wall_us * part).min(nccl - waiting))
    });
    let parts = [
        (Part::Waiting, waiting / wall),
        (Part::Transfer, transfer / wall),
        (Part::Unknown, (nccl - waiting - transfer) / wall),
        (Part::Outside, (wall - nccl) / wall),
    ];
    Some(RankTime::new(id, None, &parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::Share;
    use crate::subject::ProcessId;

    fn share(share: f64) -> Share {
        Share {
            share,
            interval: Some((share, share)),
        }
    }

    fn row(rank: u32, computing: f64, beside: f64, idle: f64) -> RankStreams {
        let exposed = 1.0 - computing - beside - idle;
        RankStreams {
            process: ProcessId {
                rank: Some(rank),
                host: "h".to_owned(),
                pid: rank,
            },

            device: 0,
            windows: 4,
            seen_us: 1e6,
            computing: share(computing),
            beside: share(beside),
            exposed: share(exposed),
            copies: share(0.0),
            idle: share(idle),
            idle_causes: None,
            exposed_waiting: Some(share(exposed / 2.0)),
            host_waited: None,
            interference: None,
            interference_share: None,
            waiting_slows: None,
            busier: None,
            pace: None,
        }
    }

    fn account(rank: u32, work: f64, wait: f64) -> RankAccount {
        RankAccount {
            process: ProcessId {
                rank: Some(rank),
                host: "h".to_owned(),
                pid: rank,
            },

            device: Some(0),
            work_us: work,
            wait_us: wait,
            transfer_us: 100.0 - work - wait,
            unknown_us: 0.0,
            known_share: 1.0,
        }
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn windows_divide_the_work_of_their_own_rank_only() {
        let streams = Streams {
            ranks: vec![row(0, 0.3, 0.1, 0.1)],
            ..Streams::default()
        };
        let account = [account(0, 60.0, 30.0), account(1, 80.0, 0.0)];
        let ranks = by_account(&account, Some(&streams));
        let of = |rank: usize, part| ranks[rank].share(part);
        assert!(near(of(0, Part::Computing), 0.36), "{ranks:?}");
        assert!(near(of(0, Part::Beside), 0.12) && near(of(0, Part::Host), 0.12));
        assert!(near(of(0, Part::Waiting), 0.3) && near(of(0, Part::Transfer), 0.1));
        assert!(near(of(1, Part::Outside), 0.8) && near(of(1, Part::Transfer), 0.2));
        assert_eq!((ranks[0].seen_us, ranks[1].seen_us), (Some(1e6), None));
    }

    #[test]
    fn the_parts_of_a_rank_sum_to_one_and_what_is_not_known_is_said() {
        let mut one = row(0, 0.5, 0.1, 0.2);
        assert!(near(by_windows(&one).share(Part::Waiting), 0.1));
        one.exposed_waiting = None;
        let of = by_windows(&one);
        assert!(near(of.share(Part::Unknown), 0.2) && of.share(Part::Transfer) == 0.0);
        for of in [by_windows(&one), by_windows(&row(1, 0.9, 0.3, 0.3))] {
            assert!(near(of.shares.iter().sum(), 1.0), "{of:?}");
        }
    }
}
