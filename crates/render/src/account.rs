//! The account of the steps, as text.

use crate::layout::FEW_RANKS;
use crate::layout::{Page, Table};
use analyze::account::{Account, RankAccount};
use analyze::spelling::{plural, time};
use analyze::Report;

/// Writes where the wall time of the steps goes.
pub(crate) fn account(report: &Report, page: &mut Page) {
    let Some(account) = report.account.as_ref().filter(|account| account.settles) else {
        return;
    };
    let steps = plural(account.steps, "step", "steps");
    page.title(&format!(
        "Account of {steps} of {} ({} at the start left out; % of their time)",
        time(account.wall_us / account.steps.max(1) as f64),
        account.skipped
    ));
    let share = |us: f64| format!("{:.1}", 100.0 * us / account.wall_us);
    let mut table = Table::new(
        ["rank", "work", "wait", "transfer", "unknown", "known_%"],
        ">>>>>>",
    );
    let row = |rank: &RankAccount| {
        [
            rank.process.rank.map_or(
                format!("pid:{}", tables::pid::shown(rank.process.pid)),
                |rank| rank.to_string(),
            ),
            share(rank.work_us),
            share(rank.wait_us),
            share(rank.transfer_us),
            share(rank.unknown_us),
            format!("{:.0}", 100.0 * rank.known_share),
        ]
    };
    account.ranks.iter().for_each(|rank| table.row(row(rank)));
    page.table(&table, FEW_RANKS, "ranks");
    if let Some(said) = efficiencies(account) {
        page.line(&said);
    }
}

/// The efficiencies in a sentence, if they are known.
pub(crate) fn efficiencies(account: &Account) -> Option<String> {
    let of = account.efficiencies?;
    let percent = |(low, high): (f64, f64)| match (100.0 * low, 100.0 * high) {
        (low, high) if high - low < 0.05 => format!("{high:.1} %"),
        (low, high) => format!("{low:.1} to {high:.1} %"),
    };
    let slowdown = of.slowdown.map_or(String::new(), |(low, high)| {
        let range = if high - low < 0.005 {
            format!("{high:.2}")
        } else {
            format!("{low:.2} to {high:.2}")
        };
        let lost: f64 = account.late().map(|answer| answer.loss_us).sum();
        if lost > 0.0 {
            let times = account.wall_us / (account.wall_us - lost).max(f64::MIN_POSITIVE);
            let times = times.clamp(low, high);
            format!(" Steps take {times:.2} ({range}) times as long as if nobody was late.")
        } else {
            format!(" Steps take {range} times as long as with equal ranks.")
        }
    });
    Some(format!(
        "Parallel efficiency {} = load balance {} x serialisation {} x transfer {}.{slowdown}",
        percent(of.parallel),
        percent(of.load_balance),
        percent(of.serialisation),
        percent(of.transfer),
    ))
}
