//! Operations by GPU time and by host time.

use super::{text, OPERATIONS};
use crate::layout::figure;
use crate::layout::{plural, short_ids, Page, Table, Unit, ESTIMATED};
use analyze::operations::Operation;
use analyze::spelling::{self, Sizes};
use analyze::statistics::Statistics;
use analyze::Report;
use std::collections::BTreeMap;

const FIRST: [&str; 5] = ["function", "size", "type", "comm", "algorithm"];

const FIGURES: [&str; 6] = ["mean", "min", "p50", "p95", "p99", "max"];

/// Figures that are on the page of `--all` only.
const FOR_FEW: [&str; 3] = ["min", "p99", "algbw"];

pub(super) fn operations(report: &Report, page: &mut Page) {
    let (timed, others): (Vec<&Operation>, Vec<&Operation>) = report
        .operations
        .iter()
        // What was a warm-up and nothing else stands under Warm-up.
        .filter(|o| o.calls == 0 || o.calls_past_warmup() > 0)
        .partition(|o| o.time_us.is_some());
    if !timed.is_empty() {
        by_gpu_time(report, &timed, page);
    }
    if others.is_empty() {
        return;
    }
    if page.all || timed.is_empty() {
        by_host_time(report, &others, page);
    } else {
        // What was only captured into graphs did not run.
        let ran = others.iter().filter(|o| o.calls > 0).count();
        if ran > 0 {
            let kinds = plural(ran as u64, "operation has", "operations have");
            page.line(&format!("{kinds} no GPU time (host times: --all)."));
        }
    }
}

fn by_gpu_time(report: &Report, timed: &[&Operation], page: &mut Page) {
    let short = short_ids(report);
    let names = FIRST.iter().chain(&["calls", "sum"]).chain(&FIGURES);
    let names: Vec<&str> = names
        .chain(&["algbw", "busbw", "call_bw"])
        .copied()
        .collect();
    let mut table = Table::new(names, "<><<<>>>>>>>>>>>");
    table.squeeze = &[
        "min",
        "p99",
        "algbw",
        "mean",
        "type",
        "comm",
        "p95",
        "max",
        "algorithm",
        "call_bw",
    ];
    if !page.all {
        table.hidden = &FOR_FEW;
    }
    let shown = if page.all { timed.len() } else { OPERATIONS };
    let shown = &timed[..timed.len().min(shown)];
    let sums = Unit::of(shown.iter().filter_map(|o| o.gpu_sum_us()));
    let times = Unit::of(shown.iter().filter_map(|o| o.time_us.as_ref()?.max));
    let sizes = Sizes::of(timed.iter().filter_map(|o| o.bytes));
    for o in timed {
        let Some(time) = &o.time_us else {
            continue;
        };
        let sum = sums.estimated(o.gpu_sum_us(), o.gpu_sum_interval_us());
        let bandwidths = [o.algbw_gb_per_s, o.busbw_gb_per_s, o.call_busbw_gb_per_s];
        table.row(
            first_cells(report, o, &short, &sizes)
                .into_iter()
                .chain([calls_of(o, true), sum])
                .chain(figures_of(time, &times))
                .chain(bandwidths.map(figure)),
        );
    }
    let sample = if shown.iter().any(|o| o.sampled.is_some()) {
        ESTIMATED
    } else {
        ""
    };
    page.title(&format!(
        "Operations by GPU time (largest sum over ranks first, sum in {}, mean to max in {}, \
         bandwidths in GB/s{sample})",
        sums.name, times.name
    ));
    page.table(&table, OPERATIONS, "operations");
}

fn by_host_time(report: &Report, others: &[&Operation], page: &mut Page) {
    let short = short_ids(report);
    let names = FIRST.iter().chain(&["calls", "sum"]).chain(&FIGURES);
    let mut table = Table::new(names.copied(), "<><<<>>>>>>>>");
    table.squeeze = &[
        "min",
        "p99",
        "mean",
        "type",
        "comm",
        "p95",
        "algorithm",
        "max",
    ];
    if !page.all {
        table.hidden = &FOR_FEW;
    }
    let shown = if page.all { others.len() } else { OPERATIONS };
    let shown = &others[..others.len().min(shown)];
    let hosts = || shown.iter().filter_map(|o| o.host_us);
    let (sums, times) = (
        Unit::of(hosts().map(|h| h.sum)),
        Unit::of(hosts().filter_map(|h| h.max)),
    );
    let sizes = Sizes::of(others.iter().filter_map(|o| o.bytes));
    for o in others {
        let host = o.host_us.as_ref();
        let sum = sums.show(host.map(|h| h.sum));
        let none = || std::array::from_fn(|_| "-".to_owned());
        let figures = host.map_or_else(none, |host| figures_of(host, &times));
        table.row(
            first_cells(report, o, &short, &sizes)
                .into_iter()
                .chain([calls_of(o, false), sum])
                .chain(figures),
        );
    }
    page.title(&format!(
        "Operations by host time (no GPU time; largest sum over ranks first, sum in {}, \
         mean to max in {} from API entry to return)",
        sums.name, times.name
    ));
    page.table(&table, OPERATIONS, "operations");
}

/// What an operation is: function, size, datatype, communicator, algorithm.
fn first_cells(
    report: &Report,
    o: &Operation,
    short: &BTreeMap<&str, String>,
    sizes: &Sizes,
) -> [String; 5] {
    let id = o
        .communicator
        .as_deref()
        .filter(|_| report.communicators.len() > 1);
    [
        text(&o.function),
        o.bytes.map_or("-".to_owned(), |bytes| sizes.spell(bytes)),
        o.datatype
            .as_deref()
            .map_or("-".to_owned(), spelling::datatype),
        id.map_or("-".to_owned(), |id| short[id].clone()),
        algorithm(o),
    ]
}

/// Calls, with those that were timed and those that were captured into graphs.
fn calls_of(o: &Operation, timed: bool) -> String {
    let mut calls = if timed && o.timed != o.calls {
        format!("{}/{}", o.timed, o.calls)
    } else {
        o.calls.to_string()
    };
    if let Some(captured) = o.captured.filter(|n| *n > 0) {
        calls += &format!("+{captured}c");
    }
    calls
}

/// The figures of a row that a page shows: all, or the few that are read.
fn figures_of(time: &Statistics, unit: &Unit) -> [String; 6] {
    let Statistics {
        mean,
        min,
        p50,
        p95,
        p99,
        max,
        ..
    } = *time;
    [Some(mean), min, p50, p95, p99, max].map(|us| unit.show(us))
}

fn algorithm(o: &Operation) -> String {
    match (&o.algorithm, &o.protocol) {
        (None, None) => "-".to_owned(),
        (algorithm, protocol) => format!("{}/{}", text(algorithm), text(protocol)),
    }
}
