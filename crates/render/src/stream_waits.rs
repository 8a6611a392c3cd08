//! Exposed communication from stream waits, as text.

use crate::layout::ROWS;
use crate::layout::{plural, share_with_interval, short_ids, Page, Table, Unit};
use crate::verdict::range_of_shares;
use analyze::spelling::{datatype, size, time};
use analyze::stream_waits::{Exposed, StreamWaits};
use analyze::Report;

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

/// A time; with half of its interval's width if it is an estimate.
fn with_error(exposed: &Exposed, unit: &Unit) -> String {
    let error = exposed
        .interval_us
        .filter(|(low, high)| high > low)
        .map_or(String::new(), |(low, high)| {
            format!("±{}", unit.show(Some((high - low) / 2.0)))
        });
    unit.show(Some(exposed.sum_us)) + &error
}

/// Sentences about all ranks.
pub(crate) fn lines(waits: &StreamWaits) -> Vec<String> {
    let mut lines = Vec::new();
    let least = range_of_shares(waits.ranks.iter().map(|rank| rank.share.share));
    let most = range_of_shares(waits.ranks.iter().map(|rank| rank.at_most));
    if let Some((least, most)) = least.zip(most) {
        let sentence = if least == most {
            format!("Streams stood still for calls for {least} of the time.")
        } else {
            format!(
                "Streams stood still for calls for {least} of the time; {most} with calls that no other \
                 stream waited for, which may run on the compute stream itself."
            )
        };
        lines.push(sentence);
    }
    let sum = |of: fn(&Exposed) -> u64| waits.ranks.iter().map(|r| of(&r.exposed)).sum::<u64>();
    let untimed = sum(|exposed| exposed.untimed);
    if untimed > 0 {
        lines.push(format!(
            "{} not timed: of a stream of another GPU or a captured one, or because no event was to be \
            recorded.",
            plural(untimed, "wait was", "waits were")
        ));
    }
    let in_graphs: u64 = waits.ranks.iter().map(|rank| rank.in_graphs).sum();
    if in_graphs > 0 {
        lines.push(format!(
            "{} in CUDA graphs, of which waits tell nothing.",
            plural(in_graphs, "call was", "calls were")
        ));
    }
    lines
}

/// Writes what streams waited for. The tables are on the page of `--all`: shares by rank stand with the
/// ranks.
pub(crate) fn stream_waits(report: &Report, page: &mut Page) {
    let Some(waits) = &report.stream_waits else {
        return;
    };
    // Windows show more.
    let windows = report.streams.iter().any(|s| !s.ranks.is_empty());
    if windows && !page.all {
        return;
    }
    page.title("Exposed communication, from stream waits (% of the time ± 95 %)");
    lines(waits).iter().for_each(|line| page.line(line));
    if page.all {
        ranks(waits, page);
        by_operation(report, waits, page);
    }
}

fn ranks(waits: &StreamWaits, page: &mut Page) {
    let names = [
        "rank",
        "exposed_%",
        "at_most_%",
        "calls",
        "known",
        "waited",
        "active",
    ];
    let mut table = Table::new(names, ">>>>>>>");
    table.squeeze = &["active", "known", "calls"];
    for rank in &waits.ranks {
        table.row([
            rank.process.rank.map_or(
                format!("pid:{}", tables::pid::shown(rank.process.pid)),
                |rank| rank.to_string(),
            ),
            share_with_interval(&rank.share),
            percent(rank.at_most),
            rank.exposed.calls.to_string(),
            rank.exposed.known.to_string(),
            rank.exposed.waited.to_string(),
            time(rank.active_us),
        ]);
    }
    page.table(&table, ROWS, "ranks");
}

fn by_operation(report: &Report, waits: &StreamWaits, page: &mut Page) {
    let short = short_ids(report);
    let names = [
        "function", "size", "type", "comm", "calls", "known", "waited", "exposed", "unwaited",
    ];
    let mut table = Table::new(names, "<><<>>>>>");
    table.squeeze = &["type", "comm", "known", "calls"];
    let or_not = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let times = waits.operations.iter().map(|operation| &operation.exposed);
    let unit = Unit::of(times.flat_map(|exposed| [exposed.sum_us, exposed.unwaited_us]));
    for operation in &waits.operations {
        let exposed = &operation.exposed;
        let id = operation.communicator.as_deref();
        table.row([
            or_not(operation.function.clone()),
            or_not(operation.bytes.map(size)),
            or_not(operation.datatype.as_deref().map(datatype)),
            or_not(id.map(|id| short[id].clone())),
            exposed.calls.to_string(),
            exposed.known.to_string(),
            exposed.waited.to_string(),
            with_error(exposed, &unit),
            unit.show(Some(exposed.unwaited_us)),
        ]);
    }
    page.line(&format!(
        "by operation ({} over ranks ± 95 %; unwaited: time of calls that no other stream waited for)",
        unit.name
    ));
    page.table(&table, ROWS, "operations");
}
