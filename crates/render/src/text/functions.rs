//! How many operations a second; and, for the page of `--all`, calls by function, their parts, first calls
//! and the network's counters.

use super::text;
use crate::layout::ROWS;
use crate::layout::{short_ids, Page, Table, Unit, ESTIMATED};
use analyze::functions::{interval_of, CallPart, FunctionRow, GpuSum};
use analyze::job::listed;
use analyze::matching::is_p2p;
use analyze::spelling::{self, three};
use analyze::statistics::Statistics;
use analyze::Report;
use capture::live::WAITS;

/// So many calls of all ranks, for each rank and second. Ranks make about the same calls in about the same
/// time, so the median rank's time stands for that of each.
fn per_second(report: &Report, calls: u64) -> Option<f64> {
    let ranks = report.ranks.rows.len() as f64;
    let seconds = report.ranks.wall_us.as_ref()?.median / 1e6;
    (seconds > 0.0 && ranks > 0.0).then(|| calls as f64 / ranks / seconds)
}

/// How many collectives, sends and receives a rank makes a second.
pub(super) fn rates(report: &Report, page: &mut Page) {
    let of = |counts: fn(&str) -> bool| {
        let rows = report.functions.iter();
        let rows = rows.filter(|row| row.function.as_deref().is_some_and(counts));
        rows.fold(0, |sum: u64, row| sum.saturating_add(row.calls))
    };
    let kinds = [
        (of(|function| !is_p2p(function)), "collectives"),
        (
            of(|function| matches!(function, "Send" | "SendRecv")),
            "sends",
        ),
        (
            of(|function| matches!(function, "Recv" | "SendRecv")),
            "receives",
        ),
    ];
    let made = kinds.into_iter().filter(|(calls, _)| *calls > 0);
    let rates: Option<Vec<String>> = made
        .map(|(calls, kind)| Some(format!("{} {kind}", three(per_second(report, calls)?))))
        .collect();
    let Some(rates) = rates.filter(|rates| !rates.is_empty()) else {
        return;
    };
    // Files of other tools have some of the calls.
    let least = if report.job.is_of_other_tool {
        "at least "
    } else {
        ""
    };
    page.line(&format!(
        "On average, a rank makes {least}{} a second.",
        listed(&rates)
    ));
}

pub(super) fn functions(report: &Report, page: &mut Page) {
    if report.functions.is_empty() {
        return;
    }
    let names = [
        "function",
        "calls",
        "calls_%",
        "calls_per_s",
        "gpu",
        "gpu_%",
        "host",
    ];
    let mut table = Table::new(names, "<>>>>>>");
    let rate = |calls: u64| per_second(report, calls).map_or("-".to_owned(), three);
    let share = |share: Option<f64>| share.map_or("-".to_owned(), |s| format!("{:.1}", 100.0 * s));
    let sums = Unit::of(report.functions.iter().filter_map(|f| f.sum_over_ranks_us));
    let hosts = Unit::of(
        report
            .functions
            .iter()
            .filter_map(|f| f.host_sum_over_ranks_us),
    );
    for f in &report.functions {
        table.row([
            text(&f.function),
            f.calls.to_string(),
            share(Some(f.share_of_calls)),
            rate(f.calls),
            sums.estimated(f.sum_over_ranks_us, f.sum_interval_us),
            share(f.share_of_time),
            hosts.show(f.host_sum_over_ranks_us),
        ]);
    }
    let all = |pick: fn(&FunctionRow) -> Option<f64>| {
        let known = report.functions.iter().filter_map(pick);
        known.reduce(|a, b| a + b)
    };
    let gpu = all(|f| f.sum_over_ranks_us);
    let host = all(|f| f.host_sum_over_ranks_us);
    let calls = report
        .functions
        .iter()
        .fold(0, |sum: u64, f| sum.saturating_add(f.calls));
    let mut foot: Vec<(&str, u64, GpuSum, Option<f64>)> = report
        .kinds
        .iter()
        .map(|k| {
            let gpu = (k.sum_over_ranks_us, k.sum_interval_us);
            (k.kind, k.calls, gpu, k.host_sum_over_ranks_us)
        })
        .filter(|_| report.kinds.len() > 1)
        .collect();
    let interval = interval_of(report.functions.iter().map(FunctionRow::gpu_sum));
    foot.push(("all", calls, (gpu, interval), host));
    let foot = foot.into_iter().filter(|_| report.functions.len() > 1);
    for (name, n, (of_gpu, interval), of_host) in foot {
        let part = of_gpu.zip(gpu).filter(|(_, all)| *all > 0.0);
        table.foot.push(vec![
            name.to_owned(),
            n.to_string(),
            share(Some(n as f64 / calls.max(1) as f64)),
            rate(n),
            sums.estimated(of_gpu, interval),
            share(part.map(|(part, all)| part / all)),
            hosts.show(of_host),
        ]);
    }
    let sample = if interval.is_some() { ESTIMATED } else { "" };
    page.title(&format!(
        "Functions (largest GPU time first; sums over ranks, calls_per_s of one; gpu in {}, host in {}; \
         % of all{sample})",
        sums.name, hosts.name
    ));
    page.table(&table, ROWS, "functions");
    parts(report, page);
}

/// What of a call takes how long, by function and size.
fn parts(report: &Report, page: &mut Page) {
    let names = [
        "function",
        "size",
        "calls",
        "api",
        "enqueue",
        "enqueue_%",
        "launch",
        "launch_%",
        "kernel",
        "proxy",
    ];
    let mut table = Table::new(names, "<>>>>>>>>>");
    table.squeeze = &[
        "enqueue_%",
        "launch_%",
        "enqueue",
        "launch",
        "proxy",
        "calls",
    ];
    for row in &report.parts {
        let parts = &row.parts_us;
        let part = |of: Option<CallPart>| {
            of.map_or("-".to_owned(), |p| {
                format!("{}/{}", three(p.mean), three(p.p50))
            })
        };
        let share_of_api = |of: Option<CallPart>| {
            let share = of.and_then(|p| p.share_of_api);
            share.map_or("-".to_owned(), |share| format!("{:.0}", 100.0 * share))
        };
        table.row([
            text(&row.function),
            sizes(row.least_bytes, row.most_bytes),
            row.calls.to_string(),
            part(parts.api),
            part(parts.enqueue),
            share_of_api(parts.enqueue),
            part(parts.launch),
            share_of_api(parts.launch),
            part(parts.kernel),
            part(parts.proxy),
        ]);
    }
    if !report.parts.is_empty() {
        page.title(
            "Parts of a call (by function and size, most calls first; mean/p50 in µs, % of the mean api)",
        );
        page.table(&table, ROWS, "sizes");
    }
}

/// From one size to another: `3.91 MiB`, `1.5 to 2 MiB`.
fn sizes(least: Option<u64>, most: Option<u64>) -> String {
    match (least, most) {
        (Some(least), Some(most)) if least != most => {
            format!("{} to {}", spelling::size(least), spelling::size(most))
        }
        (Some(bytes), _) => spelling::size(bytes),
        (None, _) => "-".to_owned(),
    }
}

pub(super) fn warmup(report: &Report, page: &mut Page) {
    if report.warmup.is_empty() {
        return;
    }
    let short = short_ids(report);
    let names = [
        "function", "comm", "calls", "gpu_min", "gpu_p50", "gpu_max", "host_min", "host_p50",
        "host_max",
    ];
    let mut table = Table::new(names, "<<>>>>>>>");
    table.squeeze = &["gpu_min", "host_min", "gpu_max", "host_max", "calls"];
    let most = |time: &Option<Statistics>| time.as_ref().and_then(|t| t.max);
    let gpu = Unit::of(report.warmup.iter().filter_map(|w| most(&w.time_us)));
    let host = Unit::of(report.warmup.iter().filter_map(|w| most(&w.host_us)));
    for w in &report.warmup {
        let id = w.communicator.as_deref();
        let of = |time: &Option<Statistics>, unit: &Unit| {
            let pick =
                |pick: fn(&Statistics) -> Option<f64>| unit.show(time.as_ref().and_then(pick));
            [pick(|t| t.min), pick(|t| t.p50), pick(|t| t.max)]
        };
        let first = [
            text(&w.function),
            id.map_or("-".to_owned(), |id| short[id].clone()),
            w.calls.to_string(),
        ];
        let times = of(&w.time_us, &gpu)
            .into_iter()
            .chain(of(&w.host_us, &host));
        table.row(first.into_iter().chain(times));
    }
    page.title(&format!(
        "Warm-up: first call of each rank on a communicator, in no other time here (longest first, \
         GPU in {}, host in {})",
        gpu.name, host.name
    ));
    page.table(&table, ROWS, "first calls");
}

pub(super) fn network(report: &Report, page: &mut Page) {
    let blamed = report
        .findings
        .iter()
        .any(|f| f.kind() == analyze::findings::Kind::SlowNetwork);
    if report.network.is_empty() || !page.all && !blamed {
        return;
    }
    let short = short_ids(report);
    let names = [
        "function", "comm", "calls", "ops", "steps", "sent", "recv", WAITS[0], WAITS[1], WAITS[2],
        WAITS[3], WAITS[4], WAITS[5],
    ];
    let mut table = Table::new(names, "<<>>>>>>>>>>>");
    table.squeeze = &[
        "steps",
        "ops",
        "comm",
        "recv_flush",
        "send_peer",
        "recv_gpu",
        "send_gpu",
    ];
    let waits = report
        .network
        .iter()
        .flat_map(|n| n.wait_us.all().into_iter().flatten());
    let unit = Unit::of(waits);
    for n in &report.network {
        let size = |bytes: Option<u64>| bytes.map_or("-".to_owned(), spelling::size);
        let waits = n.wait_us.all().map(|us| unit.show(us));
        let [send_gpu, send_peer, send_network, recv_network, recv_flush, recv_gpu] = waits;
        let ops = if n.operations_done == n.operations {
            n.operations.to_string()
        } else {
            format!("{}/{}", n.operations_done, n.operations)
        };
        let communicator = n.communicator.as_deref();
        table.row([
            n.function.clone().unwrap_or_else(|| "-".to_owned()),
            communicator.map_or("-".to_owned(), |id| short[id].clone()),
            n.calls.to_string(),
            ops,
            n.steps.to_string(),
            size(n.bytes_sent),
            size(n.bytes_received),
            send_gpu,
            send_peer,
            send_network,
            recv_network,
            recv_flush,
            recv_gpu,
        ]);
    }
    page.title(&format!(
        "Network (most bytes first; waits in {}, summed over steps and channels)",
        unit.name
    ));
    page.table(&table, ROWS, "functions");
}
