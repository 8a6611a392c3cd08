//! A report as plain text: no colour, at most 120 columns, at most about 60 lines unless all is asked for.
//!
//! Every table says in its title in which order and unit it stands. Names of communicators aside, no cell has a space in
//! it, so that `awk` finds its columns. [`write`] tries [`LEVELS`] until the report fits.
//!
//! Rule: what is left out is said to be, with the number of rows.

use crate::layout::{more, plural, short_ids, wrap, write_printable, Table};
use analyze::completeness::RankCompleteness;
use analyze::functions::{FunctionRow, PARTS};
use analyze::operations::Operation;
use analyze::ranks::{Outlier, RankRow, Ranks, Spread};
use analyze::statistics::Statistics;
use analyze::words::{self, Word};
use analyze::Report;
use capture::live::WAITS;
use std::collections::BTreeMap;
use std::io::{Result, Write};

/// How much to print.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Every row of every table.
    pub all: bool,
    /// What the words and figures mean.
    pub explain: bool,
    /// The GPUs' kernels by name.
    pub kernels: bool,
}

/// How many rows of each table are printed.
#[derive(Clone, Copy)]
struct Rows {
    ranks: usize,
    communicators: usize,
    functions: usize,
    operations: usize,
    host_operations: usize,
    warmup: usize,
    network: usize,
    notes: usize,
}

const fn rows(all: [usize; 8]) -> Rows {
    let [ranks, communicators, functions, operations, host_operations, warmup, network, notes] =
        all;
    Rows {
        ranks,
        communicators,
        functions,
        operations,
        host_operations,
        warmup,
        network,
        notes,
    }
}

/// From much to little; the first that fits is taken, else the last.
const LEVELS: [Rows; 8] = [
    rows([8, 8, 12, 24, 8, 6, 8, 8]),
    rows([6, 5, 8, 14, 6, 3, 6, 6]),
    rows([4, 4, 6, 8, 4, 2, 4, 5]),
    rows([3, 3, 4, 6, 3, 1, 3, 4]),
    rows([2, 2, 3, 5, 2, 1, 2, 3]),
    rows([1, 1, 2, 3, 1, 1, 1, 2]),
    rows([1, 1, 1, 2, 1, 1, 1, 1]),
    rows([1, 1, 1, 1, 1, 1, 1, 1]),
];
const ALL: Rows = rows([usize::MAX; 8]);
const LINES: usize = 64;

/// Writes `report`.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, options: Options, out: &mut impl Write) -> Result<()> {
    let levels = if options.all { &[ALL][..] } else { &LEVELS };
    let mut end = Vec::new();
    closing(report, &mut end)?;
    let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
    let mut text = Vec::new();
    for rows in levels {
        text.clear();
        body(report, *rows, &mut text)?;
        if lines(&text) + lines(&end) <= LINES {
            break;
        }
    }
    write_printable(&text, out)?;
    if options.kernels {
        let mut kernels = Vec::new();
        crate::streams::kernels(report, options.all, &mut kernels)?;
        crate::replays::replays(report.streams.as_ref(), options.all, &mut kernels)?;
        write_printable(&kernels, out)?;
    }
    if options.explain {
        definitions(out)?;
    }
    write_printable(&end, out)
}

fn body(report: &Report, rows: Rows, out: &mut Vec<u8>) -> Result<()> {
    wrap(out, "", "", &report.verdict)?;
    let figures = analyze::summary::figures(report);
    if !figures.is_empty() {
        wrap(out, "", "", &figures.join(" · "))?;
    }
    crate::waiting::findings(
        report,
        if rows.ranks == usize::MAX {
            usize::MAX
        } else {
            2
        },
        out,
    )?;
    writeln!(out)?;
    header(report, out)?;
    completeness(report, rows, out)?;
    ranks(report, rows, out)?;
    communicators(report, rows, out)?;
    functions(report, rows, out)?;
    operations(report, rows, out)?;
    crate::graphs::graphs(report, rows.functions, out)?;
    warmup(report, rows, out)?;
    crate::steps::steps(report, out)?;
    crate::streams::streams(report, rows.ranks.max(2), out)?;
    crate::bubbles::bubbles(report.streams.as_ref(), rows.ranks.max(2), out)?;
    crate::stream_waits::stream_waits(report, rows.ranks.max(2), rows.functions, out)?;
    crate::waiting::waiting(report, rows.ranks, rows.ranks == usize::MAX, out)?;
    crate::waiting::links(report, rows.ranks, rows.ranks == usize::MAX, out)?;
    crate::clocks::clocks(report, rows.ranks, out)?;
    let settings: Vec<String> = report.settings.iter().map(|s| s.summary.clone()).collect();
    list("Settings", &settings, rows.notes, out)?;
    network(report, rows, out)?;
    list("Notes", &report.notes, rows.notes, out)?;
    let problems: Vec<String> = report
        .problems
        .iter()
        .map(|p| {
            format!(
                "{}, {}: expected {}, found {}",
                p.file, p.place, p.expected, p.found
            )
        })
        .collect();
    list("Problems", &problems, rows.notes, out)
}

fn closing(report: &Report, out: &mut impl Write) -> Result<()> {
    writeln!(out)?;
    wrap(out, "", "", &report.summary)?;
    writeln!(out, "Next: {}", report.next)
}

fn some(list: &[String]) -> String {
    if list.is_empty() {
        "not known".to_owned()
    } else {
        list.join(", ")
    }
}

/// A command that is much longer than a few lines is cut.
pub(crate) fn clipped(command: &str) -> std::borrow::Cow<'_, str> {
    const MOST: usize = 600;
    match command.char_indices().nth(MOST) {
        None => command.into(),
        Some((at, _)) => {
            let more = command.len() - at;
            format!("{} … ({more} more bytes: --json)", &command[..at]).into()
        }
    }
}

fn header(report: &Report, out: &mut impl Write) -> Result<()> {
    let job = &report.job;
    writeln!(out, "Capture {}", job.capture)?;
    let command = clipped(job.command.as_deref().unwrap_or("not known"));
    wrap(out, "  command  ", "           ", &command)?;
    let mut ranks = plural(job.nprocesses as u64, "process", "processes");
    if let Some(size) = job.world_size {
        ranks += &format!(" of {}", plural(size.into(), "rank", "ranks"));
    }
    if job.restarts > 0 {
        ranks += &format!(", {}", plural(job.restarts.into(), "restart", "restarts"));
    }
    let hosts = match job.hosts.as_slice() {
        [first, .., last] if job.hosts.len() > 4 => {
            format!("{} hosts, {first} to {last}", job.hosts.len())
        }
        hosts => some(hosts),
    };
    wrap(
        out,
        "  job      ",
        "           ",
        &format!("{ranks} on {hosts}"),
    )?;
    jobs(report, out)?;
    writeln!(
        out,
        "  NCCL     {}; mode {}, timing {}",
        some(&job.nccl),
        some(&job.mode),
        some(&job.timing)
    )?;
    let gpu = format!("{}; driver {}", some(&job.gpu), some(&job.driver));
    wrap(out, "  GPU      ", "           ", &gpu)?;
    let wall = job.wall_us.map(|us| format!("{:.3} s", us / 1e6));
    match (&job.started, &job.ended, job.exit_status) {
        (Some(started), Some(ended), Some(status)) => {
            let wall = wall.unwrap_or_else(|| "not known how long".to_owned());
            writeln!(
                out,
                "  run      {started} to {ended}, {wall}, exit status {status}"
            )
        }
        (Some(started), ..) => {
            writeln!(out, "  run      since {started}; its end was not recorded")
        }
        _ => match wall {
            Some(wall) => writeln!(out, "  run      {wall} on the longest rank"),
            None => writeln!(out, "  run      not known how long"),
        },
    }
}

/// The jobs of a folder that holds several.
fn jobs(report: &Report, out: &mut impl Write) -> Result<()> {
    let jobs = &report.job.jobs;
    if jobs.is_empty() {
        return Ok(());
    }
    let text = format!(
        "this folder holds {} jobs, and the figures below mix them. Move the files of each job into a folder of its own, \
         and report that folder.",
        jobs.len()
    );
    wrap(out, "  WARNING  ", "           ", &text)?;
    const SHOWN: usize = 4;
    for job in jobs.iter().take(SHOWN) {
        let started = job.started.as_deref().unwrap_or("at an unknown time");
        let mut text = format!(
            "from {started}: {}",
            plural(job.nprocesses as u64, "process", "processes")
        );
        if let Some(ranks) = &job.ranks {
            text += &format!(", ranks {ranks}");
        }
        text += &format!(" on {}", some(&job.hosts));
        if let Some(batch) = &job.batch {
            text += &format!(", batch job {batch}");
        }
        if let [first, ..] = job.files.as_slice() {
            text += &format!(", first file {first}");
        }
        wrap(out, "           ", "             ", &text)?;
    }
    match jobs.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        rest => writeln!(out, "           … {rest} more jobs (--json)"),
    }
}

fn completeness(report: &Report, rows: Rows, out: &mut impl Write) -> Result<()> {
    let c = &report.completeness;
    writeln!(out, "\nCompleteness and trust")?;
    let first = rows.ranks.max(2);
    let missing = c.missing();
    for sentence in missing.iter().take(first) {
        wrap(out, "  ", "    ", sentence)?;
    }
    more(
        out,
        missing.len(),
        first,
        "lines about ranks that lack calls",
    )?;
    let remedy = |cause: &String| c.remedies.get(cause).map_or("", String::as_str);
    wrap(out, "  ", "    ", &c.counted())?;
    for (cause, n) in &c.unseen {
        wrap(out, &format!("  {n} {cause}: "), "    ", remedy(cause))?;
    }
    if let Some(sentence) = c.in_launches() {
        writeln!(out, "  {sentence}")?;
    }
    for (cause, n) in &c.lost {
        wrap(
            out,
            &format!("  {n} lost, {cause}: "),
            "    ",
            remedy(cause),
        )?;
    }
    if !c.adds_up && !c.lost.contains_key("unexplained") {
        writeln!(out, "  More calls are recorded than were announced: the figures do not add up, please report it.")?;
    }
    // Without any, a note says why at once.
    if c.timed > 0 {
        let mut causes: Vec<(&String, &u64)> = c.untimed.iter().collect();
        causes.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        for (cause, n) in causes {
            wrap(
                out,
                &format!("  {n} not timed, {cause}: "),
                "    ",
                remedy(cause),
            )?;
        }
    }
    if !c.odd.is_empty() {
        wrap(out, "  callbacks without effect: ", "    ", &counts(&c.odd))?;
    }
    let mut worst: Vec<&RankCompleteness> = c.ranks.iter().collect();
    if worst.len() > rows.ranks {
        let missing = |r: &RankCompleteness| {
            let lost = r.announced.saturating_sub(r.recorded);
            lost.saturating_add(r.missing_at_least)
        };
        worst.sort_by_key(|r| std::cmp::Reverse(missing(r)));
    }
    let shown = worst.len().min(rows.ranks);
    for rank in &worst[..shown] {
        let name = rank
            .rank
            .map_or(format!("pid {}", rank.pid), |r| format!("rank {r}"));
        let mut text = format!(
            "{} of {} recorded, {} timed, live part {}",
            rank.recorded, rank.announced, rank.timed, rank.live
        );
        for counts_of in [&rank.lost, &rank.odd] {
            if !counts_of.is_empty() {
                text += &format!("; {}", counts(counts_of));
            }
        }
        if rank.missing_at_least > 0 {
            text += &format!("; at least {} more missing", rank.missing_at_least);
        }
        if let Some(recorder) = &rank.recorder {
            text += &format!("; {recorder}");
        }
        wrap(out, &format!("  {name} on {}: ", rank.host), "    ", &text)?;
    }
    // Callbacks alone are a line too much for most.
    let all = rows.ranks == usize::MAX;
    if let Some(cost) = report
        .cost
        .as_ref()
        .filter(|cost| all || cost.has_gpu_part())
    {
        wrap(out, "  ", "    ", &cost.sentence())?;
    }
    let rest = &worst[shown..];
    if rest.is_empty() {
        return Ok(());
    }
    let mut missing: Vec<u64> = rest
        .iter()
        .map(|r| r.announced.saturating_sub(r.recorded))
        .collect();
    missing.sort_unstable();
    writeln!(
        out,
        "  … {} more ranks (--all), not recorded on each: min {}, median {}, max {}",
        rest.len(),
        missing[0],
        missing[(missing.len() - 1) / 2].midpoint(missing[missing.len() / 2]),
        missing[missing.len() - 1]
    )
}

pub(crate) fn counts(of: &BTreeMap<String, u64>) -> String {
    of.iter()
        .map(|(cause, n)| format!("{n} {cause}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn ranks(report: &Report, rows: Rows, out: &mut impl Write) -> Result<()> {
    let ranks = &report.ranks;
    if ranks.rows.is_empty() {
        return Ok(());
    }
    let basis = |which: &str| ranks.rows.iter().any(|r| r.basis == Some(which));
    let basis = match (basis("gpu"), basis("host")) {
        _ if basis("sample") => "sample",
        (true, true) => "gpu+host",
        (true, false) => "gpu",
        (false, true) => "host",
        (false, false) => "-",
    };
    writeln!(
        out,
        "\nRanks (over {}; nccl_ms is the union of a rank's NCCL intervals after warm-up, share_% that by wall_ms)",
        ranks.rows.len()
    )?;
    let mut table = Table::new(["figure", "clock", "min", "median", "max"], "<<>>>");
    let spread = |of: &Option<Spread>, factor: f64, digits: usize| {
        of.map(|s| [s.min, s.median, s.max].map(|v| format!("{:.digits$}", v * factor)))
    };
    for (name, clock, cells) in [
        ("calls", "-", spread(&ranks.calls, 1.0, 0)),
        ("nccl_ms", basis, spread(&ranks.nccl_us, 1e-3, 3)),
        ("wall_ms", "host", spread(&ranks.wall_us, 1e-3, 3)),
        ("share_%", basis, spread(&ranks.share, 100.0, 2)),
    ] {
        if let Some(cells) = cells {
            let names = [name, clock].map(str::to_owned);
            table.row(names.into_iter().chain(cells));
        }
    }
    table.write(out, usize::MAX, "figures")?;
    for of in ranks.outliers.iter().take(rows.ranks) {
        let (name, how) = outlier(ranks, of);
        wrap(out, &format!("  {name}: "), "    ", &how)?;
    }
    more(out, ranks.outliers.len(), rows.ranks, "ranks that differ")
}

/// A rank that differs, and how.
pub(crate) fn outlier(ranks: &Ranks, outlier: &Outlier) -> (String, String) {
    let Outlier {
        figure,
        value,
        median,
        ..
    } = outlier;
    let of = &ranks.rows[outlier.row];
    let mut name = of
        .rank
        .map_or(format!("pid {}", of.pid), |r| format!("rank {r}"));
    let same = |r: &&RankRow| (&r.host, r.pid) == (&of.host, of.pid);
    if let (Some(device), true) = (of.device, ranks.rows.iter().filter(same).count() > 1) {
        name += &format!(", device {device}");
    }
    let how = match *figure {
        "calls" => format!("{value:.0} calls, the median rank {median:.0}"),
        "untimed" => {
            format!("{value:.0} calls without a GPU time, the median rank {median:.0}")
        }
        _ => format!(
            "{:.3} ms in NCCL, the median rank {:.3}: {}",
            value / 1e3,
            median / 1e3,
            if value < median {
                "it waits less, so the others wait for it"
            } else {
                "it waits for others"
            }
        ),
    };
    (format!("{name} on {}", of.host), how)
}

fn communicators(report: &Report, rows: Rows, out: &mut impl Write) -> Result<()> {
    if report.communicators.is_empty() {
        return writeln!(out, "\nNo communicator was made.");
    }
    let short = short_ids(report);
    let names = [
        "communicator",
        "nranks",
        "nodes",
        "here",
        "ranks",
        "name",
        "parent",
    ];
    let mut table = Table::new(names, "<>>><<<");
    for c in &report.communicators {
        let parent = match (&c.parent, &c.parent_evidence) {
            (Some(parent), Some(evidence)) => {
                let evidence = evidence.split_once(", ").map_or("", |(_, rest)| rest);
                format!("{} ({evidence})", short[parent.as_str()])
            }
            _ => "-".to_owned(),
        };
        table.row([
            c.communicator.clone(),
            number(c.nranks),
            number(c.nnodes),
            c.members.len().to_string(),
            cut(c.ranks.as_deref().unwrap_or("-"), 24),
            cut(c.name.as_deref().unwrap_or("-"), 24),
            parent,
        ]);
    }
    writeln!(
        out,
        "\nCommunicators (by first use; `here` counts the ranks that this capture holds, `ranks` are the launcher's)"
    )?;
    table.write(out, rows.communicators, "communicators")
}

/// At most so many characters of a text.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Three digits of a figure or more, or `-`.
pub(crate) fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(v) if v < 1.0 => format!("{v:.3}"),
        Some(v) if v < 10.0 => format!("{v:.2}"),
        Some(v) if v < 1000.0 => format!("{v:.1}"),
        Some(v) => format!("{v:.0}"),
    }
}

/// A sum in ms, or `-`.
pub(crate) fn ms(us: Option<f64>) -> String {
    match us {
        None => "-".to_owned(),
        Some(us) if us < 1e6 => format!("{:.3}", us / 1e3),
        Some(us) => format!("{:.1}", us / 1e3),
    }
}

fn functions(report: &Report, rows: Rows, out: &mut impl Write) -> Result<()> {
    if report.functions.is_empty() {
        return Ok(());
    }
    let names = [
        "function", "calls", "calls_%", "gpu_ms", "gpu_%", "host_ms", PARTS[0], PARTS[1], PARTS[2],
        PARTS[3], PARTS[4],
    ];
    let mut table = Table::new(names, "<>>>>>>>>>>");
    let percent =
        |share: Option<f64>| share.map_or("-".to_owned(), |s| format!("{:.1}", 100.0 * s));
    for f in &report.functions {
        let part = |name: &str| {
            let part = f.parts_us.get(name).copied().flatten();
            part.map_or("-".to_owned(), |p| {
                format!("{}/{}", figure(Some(p.mean)), figure(Some(p.p50)))
            })
        };
        table.row([
            text(&f.function),
            f.calls.to_string(),
            percent(Some(f.share_of_calls)),
            ms(f.sum_over_ranks_us),
            percent(f.share_of_time),
            ms(f.host_sum_over_ranks_us),
            part(PARTS[0]),
            part(PARTS[1]),
            part(PARTS[2]),
            part(PARTS[3]),
            part(PARTS[4]),
        ]);
    }
    let all = |pick: fn(&FunctionRow) -> Option<f64>| {
        let known = report.functions.iter().filter_map(pick);
        known.reduce(|a, b| a + b)
    };
    let time = all(|f| f.sum_over_ranks_us);
    let host = all(|f| f.host_sum_over_ranks_us);
    let calls = report
        .functions
        .iter()
        .fold(0, |sum: u64, f| sum.saturating_add(f.calls));
    let mut sums: Vec<(&str, u64, Option<f64>, Option<f64>)> = report
        .kinds
        .iter()
        .map(|k| {
            let (gpu, host) = (k.sum_over_ranks_us, k.host_sum_over_ranks_us);
            (k.kind, k.calls, gpu, host)
        })
        .filter(|_| report.kinds.len() > 1)
        .collect();
    sums.push(("all", calls, time, host));
    for (name, n, gpu, host) in sums.into_iter().filter(|_| report.functions.len() > 1) {
        let share = gpu.zip(time).filter(|(_, all)| *all > 0.0);
        let mut cells = vec![
            name.to_owned(),
            n.to_string(),
            percent(Some(n as f64 / calls.max(1) as f64)),
            ms(gpu),
            percent(share.map(|(part, all)| part / all)),
            ms(host),
        ];
        cells.resize(names.len(), "-".to_owned());
        table.foot.push(cells);
    }
    writeln!(
        out,
        "\nFunctions (largest GPU time first; sums over ranks; %: of all calls and GPU time; api to proxy: mean/p50 of a call, µs)"
    )?;
    table.write(out, rows.functions, "functions")
}

/// The GPU time of all calls in ms: the sum, or an estimate with half its interval.
fn sum_of(o: &Operation) -> String {
    match o.sampled {
        None => ms(o.gpu_sum_us()),
        Some(s) => {
            let half = (s.sum_high_us - s.sum_low_us) / 2.0;
            format!(
                "~{}±{:.0}%",
                ms(Some(s.sum_us)),
                100.0 * half / s.sum_us.max(f64::MIN_POSITIVE)
            )
        }
    }
}

fn operations(report: &Report, rows: Rows, out: &mut impl Write) -> Result<()> {
    if report.operations.is_empty() {
        return writeln!(out, "\nNo call was recorded.");
    }
    let short = short_ids(report);
    let (timed, others): (Vec<&Operation>, Vec<&Operation>) = report
        .operations
        .iter()
        // What was a warm-up and nothing else stands under Warm-up.
        .filter(|o| o.calls == 0 || o.calls > o.warmup)
        .partition(|o| o.time_us.is_some());
    let first = |o: &Operation| {
        let id = o.communicator.as_deref();
        [
            text(&o.function),
            o.bytes.map_or("-".to_owned(), bytes),
            o.datatype.as_deref().map_or("-".to_owned(), datatype),
            id.map_or("-".to_owned(), |id| short[id].clone()),
            algorithm(o),
        ]
    };
    let names = [
        "function",
        "bytes",
        "type",
        "comm",
        "algorithm",
        "calls",
        "sum_ms",
    ];
    let figures = ["mean", "min", "p50", "p95", "p99", "max"];
    let us = |time: &Statistics| {
        let Statistics {
            mean,
            min,
            p50,
            p95,
            p99,
            max,
            ..
        } = *time;
        [Some(mean), min, p50, p95, p99, max].map(figure)
    };
    if !timed.is_empty() {
        let names = names.iter().chain(&figures);
        let mut table = Table::new(
            names.chain(&["algbw", "busbw", "call_bw"]).copied(),
            "<><<<>>>>>>>>>>>",
        );
        table.squeeze = &["min", "mean", "algbw"];
        for o in timed {
            let Some(time) = &o.time_us else {
                continue;
            };
            let mut calls = if o.timed == o.calls {
                o.calls.to_string()
            } else {
                format!("{}/{}", o.timed, o.calls)
            };
            if o.captured > 0 {
                calls += &format!("+{}c", o.captured);
            }
            let bandwidths = [o.algbw_gb_per_s, o.busbw_gb_per_s, o.call_busbw_gb_per_s];
            table.row(
                first(o)
                    .into_iter()
                    .chain([calls, sum_of(o)])
                    .chain(us(time))
                    .chain(bandwidths.map(figure)),
            );
        }
        writeln!(
            out,
            "\nOperations by GPU time (largest sum over ranks first; calls are timed/all; µs; bandwidths in GB/s{})",
            if report.operations.iter().any(|o| o.sampled.is_some()) {
                "; ~ estimated from a sample ± its 95 % interval, and the rest is of the sample"
            } else {
                ""
            }
        )?;
        table.write(out, rows.operations, "operations")?;
    }
    if !others.is_empty() {
        let names = names.iter().chain(&figures);
        let mut table = Table::new(names.copied(), "<><<<>>>>>>>>");
        for o in others {
            let mut calls = o.calls.to_string();
            if o.captured > 0 {
                calls += &format!("+{}c", o.captured);
            }
            let host = o.host_us.as_ref();
            let sum = ms(host.map(|h| h.sum));
            let figures = host.map_or(std::array::from_fn(|_| "-".to_owned()), us);
            table.row(first(o).into_iter().chain([calls, sum]).chain(figures));
        }
        writeln!(
            out,
            "\nOperations by host time (no GPU time; largest sum over ranks first; µs from API entry to return)"
        )?;
        table.write(out, rows.host_operations, "operations")?;
    }
    Ok(())
}

fn warmup(report: &Report, rows: Rows, out: &mut impl Write) -> Result<()> {
    if report.warmup.is_empty() {
        return Ok(());
    }
    let short = short_ids(report);
    let names = [
        "function", "comm", "calls", "gpu_min", "gpu_p50", "gpu_max", "host_min", "host_p50",
        "host_max",
    ];
    let mut table = Table::new(names, "<<>>>>>>>");
    for w in &report.warmup {
        let id = w.communicator.as_deref();
        let of = |time: &Option<Statistics>| {
            let pick = |pick: fn(&Statistics) -> Option<f64>| figure(time.as_ref().and_then(pick));
            [pick(|t| t.min), pick(|t| t.p50), pick(|t| t.max)]
        };
        let first = [
            text(&w.function),
            id.map_or("-".to_owned(), |id| short[id].clone()),
            w.calls.to_string(),
        ];
        let times = of(&w.time_us).into_iter().chain(of(&w.host_us));
        table.row(first.into_iter().chain(times));
    }
    writeln!(
        out,
        "\nWarm-up: first call of each rank on a communicator, in `calls` only above (longest first; µs)"
    )?;
    table.write(out, rows.warmup, "first calls")
}

fn network(report: &Report, rows: Rows, out: &mut impl Write) -> Result<()> {
    if report.network.is_empty() {
        return Ok(());
    }
    let short = short_ids(report);
    let names = [
        "function", "comm", "calls", "ops", "steps", "sent_MiB", "recv_MiB", WAITS[0], WAITS[1],
        WAITS[2], WAITS[3], WAITS[4], WAITS[5],
    ];
    let mut table = Table::new(names, "<<>>>>>>>>>>>");
    for n in &report.network {
        let mib = |bytes: Option<u64>| {
            bytes.map_or("-".to_owned(), |b| {
                format!("{:.3}", b as f64 / f64::from(1 << 20))
            })
        };
        let wait = |i: usize| {
            let us = n.wait_us.get(WAITS[i]).copied().flatten();
            us.map_or("-".to_owned(), |us| format!("{:.3}", us / 1e3))
        };
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
            mib(n.bytes_sent),
            mib(n.bytes_received),
            wait(0),
            wait(1),
            wait(2),
            wait(3),
            wait(4),
            wait(5),
        ]);
    }
    writeln!(
        out,
        "\nNetwork (most bytes first; waits in ms, summed over steps)"
    )?;
    table.write(out, rows.network, "functions")
}

fn algorithm(o: &Operation) -> String {
    match (&o.algorithm, &o.protocol) {
        (None, None) => "-".to_owned(),
        (algorithm, protocol) => format!("{}/{}", text(algorithm), text(protocol)),
    }
}

fn text(name: &Option<String>) -> String {
    name.as_deref().unwrap_or("-").to_owned()
}

/// A size in the largest unit that is exact, without a space.
pub(crate) fn bytes(bytes: u64) -> String {
    analyze::summary::size(bytes).replace(' ', "")
}

/// A datatype in a few letters, those of fake-nccl's scripts.
pub(crate) fn datatype(nccl: &str) -> String {
    let (name, bits) = nccl.split_at(
        nccl.find(|c: char| c.is_ascii_digit())
            .unwrap_or(nccl.len()),
    );
    let letter = match name {
        "ncclFloat" => "f",
        "ncclBfloat" => "bf",
        "ncclInt" => "i",
        "ncclUint" => "u",
        _ => return nccl.trim_start_matches("nccl").to_owned(),
    };
    match bits.split_once('e') {
        Some((_, exponent)) => format!("e{exponent}"),
        None => format!("{letter}{bits}"),
    }
}

fn list(title: &str, lines: &[String], shown: usize, out: &mut impl Write) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    for line in lines.iter().take(shown) {
        wrap(out, "  ", "    ", line)?;
    }
    more(out, lines.len(), shown, &title.to_lowercase())
}

fn number(n: Option<u32>) -> String {
    n.map_or("-".to_owned(), |n| n.to_string())
}

/// What the words mean, each after its name.
fn definitions(out: &mut impl Write) -> Result<()> {
    for (title, words) in [
        ("Definitions", words::DEFINITIONS),
        ("Why calls are lost", words::LOST),
        ("Why calls in CUDA graphs are not counted", words::UNSEEN),
        ("Why calls are not timed", words::UNTIMED),
    ] {
        writeln!(out, "\n{title}")?;
        for Word { name, text } in words {
            wrap(out, &format!("  {name:<17}"), &" ".repeat(19), text)?;
        }
    }
    Ok(())
}

/// Writes what `ncclscope explain` says of a word.
///
/// # Errors
/// Those of `out`.
pub fn explanation(found: &words::Explanation, out: &mut impl Write) -> Result<()> {
    for paragraph in &found.paragraphs {
        wrap(out, "", "  ", paragraph)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::clipped;

    #[test]
    fn a_command_of_megabytes_is_cut() {
        assert_eq!(clipped("python3 train.py"), "python3 train.py");
        let long = "é".repeat(1 << 20);
        let cut = clipped(&long);
        assert!(
            cut.len() < 2000 && cut.ends_with(" more bytes: --json)"),
            "{}",
            cut.len()
        );
    }
}
