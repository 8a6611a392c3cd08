//! CUDA graphs with NCCL calls, as text.

use crate::layout::{plural, Table};
use analyze::ranks::Spread;
use analyze::Report;
use serde_json::Value;
use std::io::{Result, Write};

/// Runs of calls that are shown of a graph.
const RUNS: usize = 2;

/// Writes the first `shown` graphs.
pub(crate) fn graphs(report: &Report, shown: usize, out: &mut impl Write) -> Result<()> {
    if report.graphs.is_empty() {
        return Ok(());
    }
    let names = [
        "launches",
        "per_s",
        "launch_us",
        "ranks",
        "graphs",
        "streams",
        "calls",
        "MiB",
        "calls of one launch",
    ];
    let mut table = Table::new(names, ">>>>>>>><");
    let median = |spread: &Option<Spread>, digits: usize| {
        spread.map_or("-".to_owned(), |s| format!("{:.digits$}", s.median))
    };
    for graph in &report.graphs {
        let calls = serde_json::to_value(&graph.calls).unwrap_or_default();
        let mib = |bytes: u64| format!("{:.3}", bytes as f64 / f64::from(1 << 20));
        table.row([
            graph.launches.to_string(),
            median(&graph.launches_per_second, 1),
            median(&graph.launch_call_us, 1),
            graph.nranks.to_string(),
            graph.executables.to_string(),
            graph.streams.to_string(),
            graph.calls_per_launch.to_string(),
            graph.bytes_per_launch.map_or("-".to_owned(), mib),
            of_one_launch(calls.as_array().map_or(&[], Vec::as_slice)),
        ]);
    }
    writeln!(
        out,
        "\nCUDA graphs with NCCL calls (most calls first; launches over ranks, per_s and launch_us of the median rank; \
         calls and MiB of one launch)"
    )?;
    table.write(out, shown, "kinds of graph")
}

/// `80 AllReduce 64KiB`, and how many runs of calls more; of the `calls` of a graph in JSON.
pub(crate) fn of_one_launch(calls: &[Value]) -> String {
    let run = |run: &Value| {
        let function = run["function"].as_str().unwrap_or("unknown calls");
        let size = run["bytes"].as_u64().map(analyze::summary::size);
        let size = size.map_or(String::new(), |size| format!(" {}", size.replace(' ', "")));
        format!("{} {function}{size}", run["calls"])
    };
    let mut text: Vec<String> = calls.iter().take(RUNS).map(run).collect();
    if calls.len() > RUNS {
        let more = (calls.len() - RUNS) as u64;
        text.push(plural(more, "run of calls more", "runs of calls more"));
    }
    text.join(", ")
}
