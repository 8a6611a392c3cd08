//! What communication takes in one replay of a CUDA graph, as text.

use crate::layout::{Page, Table};
use analyze::streams::Replay;
use analyze::streams::Streams;

/// Rows that are shown if not all are asked for.
const ROWS: usize = 8;
/// Functions that are shown of a replay.
const CALLS: usize = 3;

/// `24 AllReduce, 2 AllGather`.
fn calls(replay: &Replay) -> String {
    let mut calls: Vec<(&String, &u64)> = replay.calls.iter().collect();
    calls.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let named = calls.iter().take(CALLS);
    let mut named: Vec<String> = named.map(|(what, n)| format!("{n} {what}")).collect();
    if calls.len() > CALLS {
        named.push(format!("{} more", calls.len() - CALLS));
    }
    named.join(", ")
}

/// Writes what replays take.
pub(crate) fn replays(streams: Option<&Streams>, page: &mut Page) {
    let Some(streams) = streams.filter(|streams| !streams.replays.is_empty()) else {
        return;
    };
    page.title(
        "Replays of CUDA graphs in windows (µs of one replay, means; of a decode graph: \
         of one token; ± 95 %)",
    );
    let names = [
        "rank",
        "replays",
        "replay_us",
        "communication_us",
        "exposed_us",
        "calls of one replay",
    ];
    let mut table = Table::new(names, ">>>>><");
    for replay in &streams.replays {
        let rank = replay.process.rank;
        let error = replay
            .exposed_interval_us
            .map_or(String::new(), |(low, high)| {
                format!("±{:.1}", (high - low) / 2.0)
            });
        table.row([
            rank.map_or(
                format!("pid {}", tables::pid::shown(replay.process.pid)),
                |rank| rank.to_string(),
            ),
            replay.replays.to_string(),
            format!("{:.1}", replay.replay_us),
            format!("{:.1}", replay.communication_us),
            format!("{:.1}{error}", replay.exposed_us),
            calls(replay),
        ]);
    }
    page.table(&table, ROWS, "kinds of replay");
}
