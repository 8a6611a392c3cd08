//! The ranks as text: one row for each of a few, or what is usual over many.
//!
//! A row of [`by_rank`] has what several parts of a report say about a GPU. That is time in NCCL, exposed
//! communication, waiting, how often it came last, and what that costs the job.
//!
//! Rule: a figure that a part of the report has not is `-`, and never 0.

use crate::layout::{plural, Page, Table, Unit};
use analyze::ranks::Ranks;
use analyze::spelling::three;
use analyze::statistics::Spread;
use analyze::Report;

/// Writes a row for each rank.
pub(crate) fn by_rank(report: &Report, page: &mut Page) {
    let rows = &report.ranks.rows;
    let names = [
        "rank",
        "host",
        "gpu",
        "calls",
        "nccl",
        "nccl_%",
        "exposed_%",
        "waited",
        "last",
        "costs",
    ];
    let mut table = Table::new(names, "><>>>>>>>>");
    table.squeeze = &["host", "gpu", "calls", "nccl"];
    let times = rows.iter().flat_map(|row| {
        [row.nccl_us, row.waited_us, row.loss_us]
            .into_iter()
            .flatten()
    });
    let unit = Unit::of(times);
    let share = |share: Option<f64>| share.map_or("-".to_owned(), |s| three(100.0 * s));
    for row in rows {
        table.row([
            row.process.rank.map_or(
                format!("pid:{}", tables::pid::shown(row.process.pid)),
                |rank| rank.to_string(),
            ),
            row.process.host.clone(),
            row.device
                .map_or("-".to_owned(), |device| device.to_string()),
            row.calls.to_string(),
            unit.estimated(row.nccl_us, row.nccl_interval_us),
            share(row.share),
            share(row.exposed_share),
            unit.show(row.waited_us),
            row.last.map_or("-".to_owned(), |n| n.to_string()),
            unit.show(row.loss_us),
        ]);
    }
    let (first, by) = match basis(&report.ranks) {
        "host" => ("in API calls, ", ""),
        "sample" => (
            "",
            "; ~ estimated from a sample ± its 95 % interval; waited: so estimated",
        ),
        "-" => ("", ""),
        _ => ("", "; nccl: in its kernels"),
    };
    let last = report.arrivals.as_ref().map_or(String::new(), |arrivals| {
        let operations = plural(arrivals.operations, "operation", "operations");
        format!("; last: to arrive in {operations}")
    });
    let exposed = match (
        &report.streams,
        rows.iter().any(|r| r.exposed_share.is_some()),
    ) {
        (_, false) => "",
        (Some(streams), _) if !streams.ranks.is_empty() => ", exposed_% of kernel windows",
        _ => ", exposed_% of the time behind the warm-up",
    };
    page.title(&format!(
        "Ranks ({first}times in {}, nccl_% of the run{exposed}{by}{last})",
        unit.name
    ));
    page.table(&table, usize::MAX, "ranks");
}

/// From what the time in NCCL is.
fn basis(ranks: &Ranks) -> &'static str {
    let of = |which: &str| ranks.rows.iter().any(|r| r.basis == Some(which));
    match (of("gpu"), of("host")) {
        _ if of("sample") => "sample",
        (true, true) => "gpu+host",
        (true, false) => "gpu",
        (false, true) => "host",
        (false, false) => "-",
    }
}

/// Writes the least, the median and the most of each figure.
pub(crate) fn over_ranks(ranks: &Ranks, page: &mut Page) {
    let basis = basis(ranks);
    let mut table = Table::new(["figure", "clock", "min", "median", "max"], "<<>>>");
    let spread = |of: &Option<Spread>, show: &dyn Fn(f64) -> String| {
        of.map(|s| [s.min, s.median, s.max].map(show))
    };
    let most = |of: &Option<Spread>| of.map(|s| s.max);
    let unit = Unit::of(most(&ranks.nccl_us).into_iter().chain(most(&ranks.wall_us)));
    let time = |us: f64| unit.show(Some(us));
    for (name, clock, cells) in [
        ("calls", "-", spread(&ranks.calls, &|n| format!("{n:.0}"))),
        ("nccl", basis, spread(&ranks.nccl_us, &time)),
        ("wall", "host", spread(&ranks.wall_us, &time)),
        ("nccl_%", basis, spread(&ranks.share, &|s| three(100.0 * s))),
    ] {
        if let Some(cells) = cells {
            let names = [name, clock].map(str::to_owned);
            table.row(names.into_iter().chain(cells));
        }
    }
    page.title(&format!(
        "Ranks (over {}; times in {}, nccl_% of wall)",
        ranks.rows.len(),
        unit.name
    ));
    page.table(&table, usize::MAX, "figures");
}
