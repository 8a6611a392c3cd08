//! The account of the steps, as text.

use crate::layout::{Page, Table};
use crate::text::FEW_RANKS;
use analyze::account::RankAccount;
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
            rank.rank
                .map_or(format!("pid:{}", rank.pid), |rank| rank.to_string()),
            share(rank.work_us),
            share(rank.wait_us),
            share(rank.transfer_us),
            share(rank.unknown_us),
            format!("{:.0}", 100.0 * rank.known_share),
        ]
    };
    account.ranks.iter().for_each(|rank| table.row(row(rank)));
    page.table(&table, FEW_RANKS, "ranks");
}
