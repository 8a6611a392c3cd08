//! Exposed communication from stream waits, as text.

use crate::layout::{plural, short_ids, wrap, Table};
use crate::text::{bytes, datatype, ms};
use analyze::stream_waits::{Exposed, StreamWaits};
use analyze::summary::range_of_shares;
use analyze::Report;
use std::io::{Result, Write};

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

/// A time in ms; with half of its interval's width if it is an estimate.
fn with_error(exposed: &Exposed) -> String {
    let error = exposed
        .interval_us
        .filter(|(low, high)| high > low)
        .map_or(String::new(), |(low, high)| {
            format!("±{}", ms(Some((high - low) / 2.0)))
        });
    ms(Some(exposed.sum_us)) + &error
}

fn share_with_error(share: &analyze::streams::Share) -> String {
    let error = share
        .interval
        .filter(|(low, high)| high > low)
        .map_or(String::new(), |(low, high)| {
            format!("±{:.1}", 50.0 * (high - low))
        });
    percent(share.share) + &error
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
                "Streams stood still for calls for {least} of the time; {most} with calls that no other stream \
                 waited for, which may run on the compute stream itself."
            )
        };
        lines.push(sentence);
    }
    let sum = |of: fn(&Exposed) -> u64| waits.ranks.iter().map(|r| of(&r.exposed)).sum::<u64>();
    let untimed = sum(|exposed| exposed.untimed);
    if untimed > 0 {
        lines.push(format!(
            "{} not timed: of a stream of another GPU or a captured one, or because no event was to be recorded.",
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

/// Writes what streams waited for: all of it for the first `shown` ranks and `operations`, or a sentence if
/// there are kernel windows, which show more.
pub(crate) fn stream_waits(
    report: &Report,
    shown: usize,
    operations: usize,
    out: &mut impl Write,
) -> Result<()> {
    let Some(waits) = &report.stream_waits else {
        return Ok(());
    };
    let windows = report.streams.iter().any(|s| !s.ranks.is_empty());
    if windows && shown != usize::MAX {
        writeln!(out, "\nExposed communication, from stream waits")?;
    } else {
        writeln!(
            out,
            "\nExposed communication, from stream waits (% of the time ± 95 %; at_most: with calls that no other \
             stream waited for)"
        )?;
        ranks(waits, shown, out)?;
        writeln!(
            out,
            "  by operation (ms, over ranks ± 95 %; unwaited: time of calls that no other stream waited for)"
        )?;
        by_operation(report, waits, operations, out)?;
    }
    lines(waits)
        .iter()
        .try_for_each(|line| wrap(out, "  ", "    ", line))
}

fn ranks(waits: &StreamWaits, shown: usize, out: &mut impl Write) -> Result<()> {
    let names = [
        "rank",
        "exposed",
        "at_most",
        "calls",
        "known",
        "waited",
        "active_ms",
    ];
    let mut table = Table::new(names, ">>>>>>>");
    for rank in &waits.ranks {
        table.row([
            rank.rank
                .map_or(format!("pid {}", rank.pid), |rank| rank.to_string()),
            share_with_error(&rank.share),
            percent(rank.at_most),
            rank.exposed.calls.to_string(),
            rank.exposed.known.to_string(),
            rank.exposed.waited.to_string(),
            ms(Some(rank.active_us)),
        ]);
    }
    table.write(out, shown, "ranks")
}

fn by_operation(
    report: &Report,
    waits: &StreamWaits,
    shown: usize,
    out: &mut impl Write,
) -> Result<()> {
    let short = short_ids(report);
    let names = [
        "function", "bytes", "type", "comm", "calls", "known", "waited", "exposed", "unwaited",
    ];
    let mut table = Table::new(names, "<><<>>>>>");
    let or_not = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for operation in &waits.operations {
        let exposed = &operation.exposed;
        let id = operation.communicator.as_deref();
        table.row([
            or_not(operation.function.clone()),
            or_not(operation.bytes.map(bytes)),
            or_not(operation.datatype.as_deref().map(datatype)),
            or_not(id.map(|id| short[id].clone())),
            exposed.calls.to_string(),
            exposed.known.to_string(),
            exposed.waited.to_string(),
            with_error(exposed),
            ms(Some(exposed.unwaited_us)),
        ]);
    }
    table.write(out, shown, "operations")
}
