//! CUDA graphs with NCCL calls, as text.

use crate::layout::ROWS;
use crate::layout::{plural, Page, Table};
use analyze::spelling::{size, three};
use analyze::statistics::Spread;
use analyze::Report;
use serde_json::Value;

/// Runs of calls that are shown of a graph.
const RUNS: usize = 2;

/// Writes the graphs, those with most calls first.
pub(crate) fn graphs(report: &Report, page: &mut Page) {
    if report.graphs.is_empty() {
        return;
    }
    let names = [
        "launches",
        "per_s",
        "launch_us",
        "ranks",
        "graphs",
        "streams",
        "calls",
        "size",
        "calls of one launch",
    ];
    let mut table = Table::new(names, ">>>>>>>><");
    table.squeeze = &["streams", "graphs", "launch_us", "ranks", "per_s", "size"];
    let median = |spread: &Option<Spread>| spread.map_or("-".to_owned(), |s| three(s.median));
    for graph in &report.graphs {
        let calls = serde_json::to_value(&graph.calls).unwrap_or_default();
        table.row([
            graph.launches.to_string(),
            median(&graph.launches_per_second),
            median(&graph.launch_call_us),
            graph.nranks.to_string(),
            graph.executables.to_string(),
            graph.streams.to_string(),
            graph.calls_per_launch.to_string(),
            graph.bytes_per_launch.map_or("-".to_owned(), size),
            of_one_launch(calls.as_array().map_or(&[], Vec::as_slice)),
        ]);
    }
    page.title(
        "CUDA graphs with NCCL calls (most calls first; launches over ranks, per_s and launch_us of the \
         median rank; calls and size of one launch)",
    );
    page.table(&table, ROWS, "kinds of graph");
}

/// `80 AllReduce 64 KiB`, and how many runs of calls more; of the `calls` of a graph in JSON.
pub(crate) fn of_one_launch(calls: &[Value]) -> String {
    let run = |run: &Value| {
        let function = run["function"].as_str().unwrap_or("unknown calls");
        let size = run["bytes"].as_u64().map(size);
        let size = size.map_or(String::new(), |size| format!(" {size}"));
        format!("{} {function}{size}", run["calls"])
    };
    let mut text: Vec<String> = calls.iter().take(RUNS).map(run).collect();
    if calls.len() > RUNS {
        let more = (calls.len() - RUNS) as u64;
        text.push(plural(more, "run of calls more", "runs of calls more"));
    }
    text.join(", ")
}
