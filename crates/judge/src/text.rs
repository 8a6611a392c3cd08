//! The report as plain text: one table for each question.
//!
//! Rule: what a table shows has the same name in JSON; where a table leaves rows out it says how many.

use crate::completeness::Counts;
use crate::report::*;
use crate::truth::bench::size;
use render::layout::{plural, wrap, Table};
use std::collections::BTreeMap;
use std::io::{Result, Write};

/// Rows of detail that are shown of a table, unless all are asked for.
const SHOWN: usize = 20;

/// Writes the report; `all` leaves no row out.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, all: bool, out: &mut impl Write) -> Result<()> {
    let shown = if all { usize::MAX } else { SHOWN };
    writeln!(
        out,
        "Judge: {} of {} (seed {}; intervals are {:.0} % over rounds)",
        plural(report.rounds.into(), "round", "rounds"),
        report.work,
        report.seed,
        report.confidence * 100.0
    )?;
    completeness(report, shown, out)?;
    recorded(report, out)?;
    accuracy(report, shown, out)?;
    distributions(report, shown, out)?;
    communication(report, out)?;
    overhead(report, shown, out)?;
    event_costs(report, out)?;
    callbacks(report, out)?;
    resources(report, out)?;
    for (number, note) in report.notes.iter().enumerate() {
        if number == 0 {
            writeln!(out, "\nNotes")?;
        }
        wrap(out, "  ", "    ", note)?;
    }
    let verdict = conclusion(report);
    if !verdict.is_empty() {
        writeln!(out)?;
        wrap(out, "", "", &verdict)?;
    }
    Ok(())
}

fn completeness(report: &Report, shown: usize, out: &mut impl Write) -> Result<()> {
    if report.completeness.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nCompleteness (calls done against calls in the output; matched + missing = done, the rest was \
        found beside)"
    )?;
    let names = [
        "profiler",
        "case",
        "done",
        "matched",
        "missing",
        "duplicate",
        "foreign",
        "admitted",
        "recorded_%",
    ];
    let mut table = Table::new(names, "<<>>>>>>>");
    for row in &report.completeness {
        let c = &row.counts;
        let numbers = [c.done, c.matched, c.missing, c.duplicate, c.foreign];
        table.row(
            [row.profiler.clone(), row.case.clone()]
                .into_iter()
                .chain(numbers.map(|n| n.to_string()))
                .chain([row.admitted.map_or("-".into(), |n| n.to_string())])
                .chain([percent(c.matched, c.done)]),
        );
    }
    table.write(out, usize::MAX, "rows")?;
    by(
        report,
        "function and size",
        |b| format!("{} {}", b.function, size(b.bytes)),
        shown,
        out,
    )?;
    by(report, "rank", |b| format!("rank {}", b.rank), shown, out)
}

/// Where something is missing or too much, grouped by `what`.
fn by(
    report: &Report,
    title: &str,
    what: impl Fn(&CompletenessBy) -> String,
    shown: usize,
    out: &mut impl Write,
) -> Result<()> {
    let mut table = Table::new(
        [
            "profiler",
            "case",
            "of",
            "done",
            "missing",
            "duplicate",
            "foreign",
        ],
        "<<<>>>>",
    );
    let mut any = false;
    for row in report.completeness.iter().filter(|row| !row.counts.whole()) {
        // In the order of the first of each.
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        let mut groups: Vec<(String, Counts)> = Vec::new();
        for one in &row.by {
            let name = what(one);
            let place = *places.entry(name.clone()).or_insert_with(|| {
                groups.push((name, Counts::default()));
                groups.len() - 1
            });
            groups[place].1.add(&one.counts);
        }
        for (name, c) in groups.into_iter().filter(|(_, c)| !c.whole()) {
            any = true;
            let numbers = [c.done, c.missing, c.duplicate, c.foreign];
            table.row(
                [row.profiler.clone(), row.case.clone(), name]
                    .into_iter()
                    .chain(numbers.map(|n| n.to_string())),
            );
        }
    }
    if any {
        writeln!(
            out,
            "\nIncomplete by {title} (in the order of the table above)"
        )?;
        table.write(out, shown, "rows")?;
    }
    Ok(())
}

/// Functions down, profilers across; left out if every call was recorded.
fn recorded(report: &Report, out: &mut impl Write) -> Result<()> {
    if report.recorded.iter().all(|row| row.matched == row.done) {
        return Ok(());
    }
    let mut profilers: Vec<&str> = report.recorded.iter().map(|r| &*r.profiler).collect();
    let mut seen = std::collections::HashSet::new();
    profilers.retain(|name| seen.insert(*name));
    // As many columns as there are characters.
    const ALIGN: &str = "<<>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>";
    profilers.truncate(ALIGN.len() - 2);
    writeln!(
        out,
        "\nRecorded by function (percent of the calls done; over all sizes and ranks)"
    )?;
    let names = ["case", "function"]
        .into_iter()
        .chain(profilers.iter().copied());
    let mut table = Table::new(names, &ALIGN[..2 + profilers.len()]);
    let mut places: Vec<(&str, &str)> = Vec::new();
    for row in &report.recorded {
        if !places.contains(&(&row.case, &row.function)) {
            places.push((&row.case, &row.function));
        }
    }
    for (case, function) in places {
        let cells = profilers.iter().map(|profiler| {
            let of = report.recorded.iter().find(|row| {
                (&*row.case, &*row.function, &*row.profiler) == (case, function, *profiler)
            });
            of.map_or("-".to_owned(), |row| percent(row.matched, row.done))
        });
        table.row(
            [case.to_owned(), function.to_owned()]
                .into_iter()
                .chain(cells),
        );
    }
    table.write(out, usize::MAX, "rows")
}

fn distributions(report: &Report, shown: usize, out: &mut impl Write) -> Result<()> {
    if report.distributions.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nTimes of calls (us, all ranks and rounds; by the benchmark's events under each profiler, and by \
         the profiler)"
    )?;
    let names = [
        "profiler", "case", "function", "by", "calls", "mean", "p5", "p25", "p50", "p75", "p95",
        "max",
    ];
    let mut table = Table::new(names, "<<<<>>>>>>>>");
    for row in &report.distributions {
        let d = &row.distribution;
        let times = [
            d.mean_us, d.p5_us, d.p25_us, d.p50_us, d.p75_us, d.p95_us, d.max_us,
        ];
        table.row(
            [
                row.profiler.clone(),
                row.case.clone(),
                format!("{} {}", row.function, size(row.bytes)),
                row.by.to_owned(),
                d.count.to_string(),
            ]
            .into_iter()
            .chain(times.map(|us| format!("{us:.2}"))),
        );
    }
    table.write(out, shown, "rows")
}

fn communication(report: &Report, out: &mut impl Write) -> Result<()> {
    if report.communication.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nCommunication time (s, sum over calls, mean over ranks; medians of the runs)"
    )?;
    let names = [
        "profiler",
        "case",
        "by_profiler",
        "interval",
        "calls_timed_%",
        "by_bench",
        "whole_run",
    ];
    let mut table = Table::new(names, "<<>>>>>");
    let cell = |value: Option<f64>, digits: usize| {
        value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
    };
    for row in &report.communication {
        table.row([
            row.profiler.clone(),
            row.case.clone(),
            cell(row.told_s, 4),
            interval(row.told_interval_s, |s| format!("{s:.4}")),
            cell(row.timed_percent, 2),
            cell(row.own_s, 4),
            cell(Some(row.wall_s), 2),
        ]);
    }
    table.write(out, usize::MAX, "rows")
}

fn accuracy(report: &Report, shown: usize, out: &mut impl Write) -> Result<()> {
    if report.accuracy.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nAccuracy (profiler's time less the work's own, recorded calls only; p95 and p99 of the error \
         without its sign; w1 is the Wasserstein-1 distance; us)"
    )?;
    let names = [
        "profiler",
        "case",
        "function",
        "bytes",
        "timed",
        "own_p50",
        "error_p50",
        "p95",
        "p99",
        "w1",
        "w1_%",
        "shift_p50",
        "shift_p95",
        "shift_p99",
    ];
    let mut table = Table::new(names, "<<<>>>>>>>>>>>");
    for row in &report.accuracy {
        let a = &row.accuracy;
        let some = |value: Option<f64>| value.map_or("-".into(), number);
        table.row([
            row.profiler.clone(),
            row.case.clone(),
            row.function.clone(),
            size(row.bytes),
            format!("{}/{}", a.timed, a.done),
            number(a.own_p50_us),
            match a.error_p50_interval_us {
                Some((low, high)) => {
                    format!(
                        "{} [{}, {}]",
                        some(a.error_p50_us),
                        number(low),
                        number(high)
                    )
                }
                None => some(a.error_p50_us),
            },
            some(a.error_p95_us),
            some(a.error_p99_us),
            number(a.wasserstein_us),
            some(a.wasserstein_percent),
            number(a.shift_p50_us),
            number(a.shift_p95_us),
            some(a.shift_p99_us),
        ]);
    }
    table.write(out, shown, "rows")
}

fn overhead(report: &Report, shown: usize, out: &mut impl Write) -> Result<()> {
    if report.overhead.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nOverhead (under the profiler by without, of the same round; undecided if the interval \
        straddles {})",
        number(report.limit)
    )?;
    let names = [
        "profiler", "case", "figure", "unit", "without", "with", "ratio", "interval", "verdict",
    ];
    let mut table = Table::new(names, "<<<<>>>><");
    for row in &report.overhead {
        let o = &row.overhead;
        table.row([
            row.profiler.clone(),
            row.case.clone(),
            row.figure.clone(),
            row.unit.clone(),
            number(o.without),
            number(o.with),
            format!("{:.4}", o.ratio),
            interval(o.ratio_interval, |r| format!("{r:.4}")),
            o.verdict.name().into(),
        ]);
    }
    table.write(out, shown, "rows")
}

/// A title, the heads, and the rows.
type EventTable = (String, Vec<String>, Vec<Vec<String>>);

/// Rows by profiler, and columns by function and hosts: a table for each release and kind of thread.
pub(crate) fn event_tables(report: &Report) -> Vec<EventTable> {
    fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
        let mut seen = Vec::new();
        all.for_each(|of| {
            if !seen.contains(&of) {
                seen.push(of);
            }
        });
        seen
    }
    let all = &report.event_costs;
    let mut tables = Vec::new();
    for release in distinct(all.iter().map(|of| &of.release)) {
        let here: Vec<&EventCost> = all.iter().filter(|of| of.release == *release).collect();
        let mut columns = distinct(here.iter().map(|of| (&of.function, of.hosts)));
        columns.sort_unstable();
        let heads = columns.iter().map(|(function, hosts)| {
            format!("{function}, {}", plural(u64::from(*hosts), "host", "hosts"))
        });
        let heads: Vec<String> = ["profiler".to_owned()].into_iter().chain(heads).collect();
        for (threads, title) in [
            (false, "on the thread that calls NCCL"),
            (true, "on NCCL's other threads"),
        ] {
            let find = |profiler: Option<&String>, column: &(&String, u32)| {
                let mut here = here.iter();
                here.find(|of| {
                    (&of.function, of.hosts) == *column
                        && profiler.is_none_or(|profiler| of.profiler == *profiler)
                })
            };
            let alone = columns.iter().map(|column| {
                let of = find(None, column).map(|of| [of.call_us, of.threads_us]);
                of.map_or("-".to_owned(), |us| {
                    format!("{:.2}", us[usize::from(threads)])
                })
            });
            let mut rows = vec![["none".to_owned()].into_iter().chain(alone).collect()];
            for profiler in distinct(here.iter().map(|of| &of.profiler)) {
                let cells = columns.iter().map(|column| {
                    let Some(of) = find(Some(profiler), column) else {
                        return "-".to_owned();
                    };
                    let (more, interval) = if threads {
                        (of.threads_more_us, of.threads_more_interval_us)
                    } else {
                        (of.call_more_us, of.call_more_interval_us)
                    };
                    let half = interval.map(|(low, high)| format!(" ± {:.2}", (high - low) / 2.0));
                    format!("{more:+.2}{}", half.unwrap_or_default())
                });
                rows.push([profiler.clone()].into_iter().chain(cells).collect());
            }
            let bytes = here.first().map_or(0, |of| of.bytes);
            let title = format!("NCCL {release}, calls of {bytes} B, {title}");
            tables.push((title, heads.clone(), rows));
        }
    }
    tables
}

/// What fake-nccl's costs of events are, and are not.
pub(crate) const OF_EVENTS: &str =
    "The first row is the processor time that a call takes, in µs, and the others what it takes more (mean \
     over rounds ± half of its interval). The calls of the plugin are real, and so is what happens in it. \
     What happens before and after each is fake-nccl's code, not NCCL's, and there is no network and no GPU.";

/// One column of names, and figures.
const ALIGN: &str = "<>>>>>>>>>>>>>>>";

fn event_costs(report: &Report, out: &mut impl Write) -> Result<()> {
    if report.event_costs.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nCost of events")?;
    wrap(out, "", "", OF_EVENTS)?;
    for (title, heads, rows) in event_tables(report) {
        writeln!(out, "\n{title}")?;
        let heads = heads.iter().map(String::as_str);
        let align = ALIGN.get(..heads.len()).unwrap_or(ALIGN);
        let mut table = Table::new(heads, align);
        for row in rows {
            table.row(row);
        }
        table.write(out, usize::MAX, "rows")?;
    }
    Ok(())
}

fn callbacks(report: &Report, out: &mut impl Write) -> Result<()> {
    if report.callbacks.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nCallbacks (what one call costs the calling and the progress thread, an empty plugin subtracted; \
         ns, and us for a single callback)"
    )?;
    let names = [
        "profiler",
        "calls/s",
        "ch",
        "call_ns",
        "call_interval",
        "progress_ns",
        "progress_interval",
        "p9999_us",
        "max_us",
        "own_cpu_%",
        "rss_growth_mib",
    ];
    let mut table = Table::new(names, "<>>>>>>>>>>");
    for row in &report.callbacks {
        let whole = |ns: f64| format!("{ns:.0}");
        table.row([
            row.profiler.clone(),
            match row.rate {
                0 => "flat out".into(),
                rate => rate.to_string(),
            },
            row.channels.to_string(),
            whole(row.call_ns),
            interval(row.call_interval_ns, whole),
            whole(row.progress_ns),
            interval(row.progress_interval_ns, whole),
            number(row.p9999_us),
            number(row.max_us),
            number(row.own_cpu_percent),
            number(row.rss_growth_mib),
        ]);
    }
    table.write(out, usize::MAX, "rows")
}

fn resources(report: &Report, out: &mut impl Write) -> Result<()> {
    if report.resources.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nResources (median of the runs; peak_mib is the largest process)"
    )?;
    let names = [
        "profiler",
        "case",
        "wall_s",
        "cpu_s",
        "peak_mib",
        "bytes/call",
    ];
    let mut table = Table::new(names, "<<>>>>");
    for row in &report.resources {
        table.row([
            row.profiler.clone(),
            row.case.clone(),
            format!("{:.2}", row.wall_s),
            format!("{:.2}", row.cpu_s),
            format!("{:.1}", row.peak_mib),
            row.output_bytes_per_call.map_or("-".into(), number),
        ]);
    }
    table.write(out, usize::MAX, "rows")
}

/// One sentence for each profiler.
pub(crate) fn conclusion(report: &Report) -> String {
    let mut names: Vec<&str> = Vec::new();
    for row in &report.completeness {
        if !names.contains(&&*row.profiler) {
            names.push(&row.profiler);
        }
    }
    let sentences = names.into_iter().map(|name| {
        let mut counts = Counts::default();
        let of = report
            .completeness
            .iter()
            .filter(|row| row.profiler == name);
        of.for_each(|row| counts.add(&row.counts));
        let rows = || {
            report
                .completeness
                .iter()
                .filter(|row| row.profiler == name)
        };
        let silent: Vec<_> = rows()
            .filter_map(|row| Some((row, row.why.as_ref()?)))
            .collect();
        let mut sentence = match counts.matched {
            0 => format!("{name} recorded none of {} calls", counts.done),
            matched => format!(
                "{name} recorded {matched} of {} calls ({} %)",
                counts.done,
                percent(matched, counts.done)
            ),
        };
        for (n, one, many) in [
            (counts.duplicate, "duplicate", "duplicates"),
            (counts.foreign, "that never was", "that never were"),
        ] {
            if n > 0 {
                sentence += &format!(", {}", plural(n, one, many));
            }
        }
        match &silent[..] {
            [(_, why)] if rows().count() == 1 => sentence += &format!(": {why}."),
            silent => {
                sentence += ".";
                for (row, why) in silent {
                    sentence += &format!(" In the case {}, it recorded none: {why}.", row.case);
                }
            }
        }
        sentence
    });
    sentences.collect::<Vec<_>>().join(" ")
}

/// Both ends of an interval, each in these words.
pub(crate) fn interval(ends: Option<(f64, f64)>, each: impl Fn(f64) -> String) -> String {
    ends.map_or("-".into(), |(low, high)| {
        format!("[{}, {}]", each(low), each(high))
    })
}

/// Never 100 for less than all.
fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    let tenths = (u128::from(part) * 10_000 / u128::from(whole)) as f64;
    format!("{:.2}", tenths / 100.0)
}

/// Three digits or so.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
