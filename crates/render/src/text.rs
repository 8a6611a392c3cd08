//! A report as plain text: no colour, at most 120 columns, about 60 lines unless all is asked for.

use analyze::operations::Operation;
use analyze::statistics::Statistics;
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
}

/// Rows of a table unless all are asked for.
const ROWS: [usize; 4] = [8, 24, 6, 6];
const WIDTH: usize = 120;

/// Writes `report`.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, options: Options, out: &mut impl Write) -> Result<()> {
    header(report, out)?;
    completeness(report, options, out)?;
    communicators(report, options, out)?;
    operations(report, options, out)?;
    network(report, options, out)?;
    list("Notes", &report.notes, options, ROWS[2], out)?;
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
    list("Problems", &problems, options, ROWS[3], out)?;
    if options.explain {
        write!(out, "\n{DEFINITIONS}")?;
    }
    closing(report, out)
}

fn header(report: &Report, out: &mut impl Write) -> Result<()> {
    let job = &report.job;
    writeln!(out, "Capture {}", job.capture)?;
    if let Some(command) = &job.command {
        wrap(out, "  command  ", "           ", command)?;
    }
    let some = |list: &[String]| {
        if list.is_empty() {
            "not known".to_owned()
        } else {
            list.join(", ")
        }
    };
    let mut ranks = plural(job.nprocesses as u64, "process", "processes");
    if let Some(size) = job.world_size {
        ranks += &format!(" of {}", plural(size.into(), "rank", "ranks"));
    }
    if job.restarts > 0 {
        ranks += &format!(", {}", plural(job.restarts.into(), "restart", "restarts"));
    }
    let hosts = if job.hosts.len() > 4 {
        format!("{} hosts", job.hosts.len())
    } else {
        some(&job.hosts)
    };
    writeln!(out, "  job      {ranks} on {hosts}")?;
    writeln!(
        out,
        "  NCCL     {}; mode {}, timing {}",
        some(&job.nccl),
        some(&job.mode),
        some(&job.timing)
    )?;
    match (&job.started, &job.ended, job.exit_status) {
        (Some(started), Some(ended), Some(status)) => {
            writeln!(out, "  run      {started} to {ended}, exit status {status}")
        }
        (Some(started), ..) => {
            writeln!(out, "  run      since {started}; its end was not recorded")
        }
        _ => Ok(()),
    }
}

/// What to do about a loss, by its cause.
fn way_out(cause: &str) -> &'static str {
    match cause {
        "rows_full" => "no free row: a larger NCCLSCOPE_MEMORY has more; they are counted in the totals",
        "size_limit" => "the trace file was full: a larger NCCLSCOPE_MAX_SIZE lets it grow; they are counted in the totals",
        "write_failed" => "the trace file could not be written: see the disk behind NCCLSCOPE_OUT; they are counted in the totals",
        "totals_full" => "the totals were full: a larger NCCLSCOPE_MEMORY has more; they are counted here only",
        "damaged" => "in damaged blocks, see Problems",
        "elsewhere" => "after the last flush, on the hosts named under Problems: `ncclscope collect` there brings them",
        _ => "neither recorded nor counted as lost: the figures do not add up, please report it",
    }
}

fn completeness(report: &Report, options: Options, out: &mut impl Write) -> Result<()> {
    let c = &report.completeness;
    let least = if c.announced_is_lower_bound {
        "at least "
    } else {
        ""
    };
    writeln!(out, "\nCompleteness")?;
    writeln!(
        out,
        "  {} of {least}{} announced calls recorded, {} timed.",
        c.recorded, c.announced, c.timed
    )?;
    for (cause, n) in &c.lost {
        wrap(out, &format!("  {n} {cause}: "), "    ", way_out(cause))?;
    }
    if !c.adds_up && !c.lost.contains_key("unexplained") {
        writeln!(out, "  More calls are recorded than were announced: the figures do not add up, please report it.")?;
    }
    if !c.untimed.is_empty() && c.timed > 0 {
        wrap(out, "  not timed: ", "    ", &counts(&c.untimed))?;
    }
    if !c.odd.is_empty() {
        wrap(out, "  callbacks without effect: ", "    ", &counts(&c.odd))?;
    }
    let shown = if options.all { usize::MAX } else { ROWS[0] };
    for rank in c.ranks.iter().take(shown) {
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
        if let Some(recorder) = &rank.recorder {
            text += &format!("; {recorder}");
        }
        wrap(out, &format!("  {name} on {}: ", rank.host), "    ", &text)?;
    }
    more(out, c.ranks.len(), shown, "ranks")
}

fn counts(of: &BTreeMap<String, u64>) -> String {
    of.iter()
        .map(|(cause, n)| format!("{n} {cause}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Ids cut to the digits that tell them apart.
fn short_ids(report: &Report) -> BTreeMap<&str, String> {
    let cut = |id: &str, digits: usize| match id.split_once('#') {
        Some((hash, nth)) => format!("{}#{nth}", &hash[..digits.min(hash.len())]),
        None => id[..digits.min(id.len())].to_owned(),
    };
    let ids: Vec<&str> = report
        .communicators
        .iter()
        .map(|c| c.communicator.as_str())
        .collect();
    let fits = |digits: &usize| {
        let mut short: Vec<String> = ids.iter().map(|id| cut(id, *digits)).collect();
        short.sort_unstable();
        short.windows(2).all(|pair| pair[0] != pair[1])
    };
    let digits = [8, 12].into_iter().find(fits).unwrap_or(16);
    ids.into_iter().map(|id| (id, cut(id, digits))).collect()
}

fn communicators(report: &Report, options: Options, out: &mut impl Write) -> Result<()> {
    if report.communicators.is_empty() {
        return writeln!(out, "\nNo communicator was made.");
    }
    let short = short_ids(report);
    let mut table = Table::new(
        ["communicator", "nranks", "nodes", "here", "name", "parent"],
        "<>>><<",
    );
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
            c.name.clone().unwrap_or_else(|| "-".into()),
            parent,
        ]);
    }
    writeln!(
        out,
        "\nCommunicators (by first use; `here` counts the ranks that this capture holds)"
    )?;
    table.write(
        out,
        if options.all { usize::MAX } else { ROWS[0] },
        "communicators",
    )
}

fn operations(report: &Report, options: Options, out: &mut impl Write) -> Result<()> {
    if report.operations.is_empty() {
        return writeln!(out, "\nNo call was recorded.");
    }
    let short = short_ids(report);
    let names = [
        "function",
        "bytes",
        "datatype",
        "communicator",
        "algorithm",
        "calls",
        "timed",
        "time",
        "sum_ms",
        "p50_us",
        "p95_us",
        "p99_us",
        "max_us",
    ];
    let mut table = Table::new(names, "<><<<>><>>>>>");
    for o in &report.operations {
        let (clock, time) = match (&o.time_us, &o.host_us) {
            (Some(time), _) => ("gpu", Some(time)),
            (None, Some(time)) => ("host", Some(time)),
            (None, None) => ("-", None),
        };
        let us = |pick: fn(&Statistics) -> Option<f64>| {
            time.and_then(pick)
                .map_or("-".to_owned(), |v| format!("{v:.1}"))
        };
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
        let communicator = o
            .communicator
            .as_deref()
            .map_or("-".to_owned(), |id| short[id].clone());
        table.row([
            name(&o.function),
            o.bytes.map_or("-".to_owned(), size),
            name(&o.datatype).trim_start_matches("nccl").to_owned(),
            communicator,
            algorithm(o),
            if o.captured > 0 {
                format!("{}+{}c", o.calls, o.captured)
            } else {
                o.calls.to_string()
            },
            o.timed.to_string(),
            clock.to_owned(),
            time.map_or("-".to_owned(), |t| format!("{:.3}", t.sum / 1e3)),
            us(|t| t.p50),
            us(|t| t.p95),
            us(|t| t.p99),
            us(|t| t.max),
        ]);
    }
    writeln!(out, "\nOperations (largest total time first)")?;
    table.write(
        out,
        if options.all { usize::MAX } else { ROWS[1] },
        "operations",
    )
}

fn network(report: &Report, options: Options, out: &mut impl Write) -> Result<()> {
    if report.network.is_empty() {
        return Ok(());
    }
    let short = short_ids(report);
    let names = [
        "function",
        "communicator",
        "calls",
        "ops",
        "steps",
        "sent_MiB",
        "recv_MiB",
        WAITS[0],
        WAITS[1],
        WAITS[2],
        WAITS[3],
        WAITS[4],
        WAITS[5],
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
    table.write(
        out,
        if options.all { usize::MAX } else { ROWS[0] },
        "functions",
    )
}

fn algorithm(o: &Operation) -> String {
    match (&o.algorithm, &o.protocol) {
        (None, None) => "-".to_owned(),
        (algorithm, protocol) => {
            let text = |t: &Option<String>| t.clone().unwrap_or_else(|| "-".to_owned());
            format!("{}/{}", text(algorithm), text(protocol))
        }
    }
}

fn list(
    title: &str,
    lines: &[String],
    options: Options,
    rows: usize,
    out: &mut impl Write,
) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    let shown = if options.all { usize::MAX } else { rows };
    for line in lines.iter().take(shown) {
        wrap(out, "  ", "    ", line)?;
    }
    more(out, lines.len(), shown, &title.to_lowercase())
}

fn closing(report: &Report, out: &mut impl Write) -> Result<()> {
    let of = |pick: fn(&Operation) -> &Option<Statistics>| {
        let sum: f64 = report
            .operations
            .iter()
            .filter_map(|o| pick(o).as_ref())
            .map(|t| t.sum)
            .sum();
        // The first of equals, which stands first in the table.
        let worst = report.operations.iter().rev().max_by(|a, b| {
            let sum = |o: &&Operation| pick(o).as_ref().map_or(0.0, |t| t.sum);
            sum(a).total_cmp(&sum(b))
        })?;
        let time = pick(worst).as_ref()?;
        Some((worst, time.sum, sum))
    };
    let (what, found) = match of(|o| &o.time_us) {
        Some(found) => ("GPU time", Some(found)),
        None => ("host time", of(|o| &o.host_us)),
    };
    writeln!(out)?;
    match found {
        Some((worst, sum, whole)) => {
            let function = worst.function.as_deref().unwrap_or("An unnamed function");
            let bytes = worst.bytes.map_or("unknown size".to_owned(), size);
            let percent = if whole > 0.0 {
                100.0 * sum / whole
            } else {
                0.0
            };
            let time = if sum < 1e6 {
                format!("{:.3} ms", sum / 1e3)
            } else {
                format!("{:.3} s", sum / 1e6)
            };
            let line = format!(
                "{function} of {bytes} took {percent:.0} % of the {what} in NCCL: {time} in {}.",
                plural(worst.calls, "call", "calls")
            );
            wrap(out, "", "", &line)?;
        }
        None => writeln!(out, "No call has a time.")?,
    }
    writeln!(out, "Next: {}", next(report))
}

/// The command that helps most.
fn next(report: &Report) -> String {
    let folder = &report.job.capture;
    let command = report
        .job
        .command
        .as_deref()
        .filter(|c| c.len() < 60)
        .unwrap_or("…");
    let lost = &report.completeness.lost;
    if lost.contains_key("elsewhere") || report.completeness.announced_is_lower_bound {
        format!("ncclscope collect {folder}")
    } else if lost.contains_key("rows_full") || lost.contains_key("totals_full") {
        format!("NCCLSCOPE_MEMORY=64M ncclscope run -- {command}")
    } else if report.completeness.timed == 0
        && report.job.timing.iter().any(|t| t == "host")
        && report.stamps_exist
    {
        format!("NCCLSCOPE_TIMING=stamps ncclscope run -- {command}")
    } else {
        format!("ncclscope report {folder} --json")
    }
}

/// A size as users say it, where that is exact.
fn size(bytes: u64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units
        .into_iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit))
    {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} B"),
    }
}

fn number(n: Option<u32>) -> String {
    n.map_or("-".to_owned(), |n| n.to_string())
}

fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn more(out: &mut impl Write, there: usize, shown: usize, what: &str) -> Result<()> {
    if there > shown {
        writeln!(out, "  … {} more {what} (--all)", there - shown)?;
    }
    Ok(())
}

/// Writes `text` after `first`, broken between words; later lines begin with `rest`.
fn wrap(out: &mut impl Write, first: &str, rest: &str, text: &str) -> Result<()> {
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        let len = line.chars().count() + word.chars().count() + usize::from(!empty);
        if !empty && len > WIDTH {
            writeln!(out, "{line}")?;
            line = rest.to_owned();
        } else if !empty {
            line.push(' ');
        }
        line += word;
        empty = false;
    }
    writeln!(out, "{line}")
}

/// A table with a header and columns aligned left (`<`) or right (`>`).
struct Table {
    align: &'static str,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new<const N: usize>(names: [&str; N], align: &'static str) -> Table {
        Table {
            align,
            rows: vec![names.iter().map(|n| (*n).to_owned()).collect()],
        }
    }

    fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    fn write(&self, out: &mut impl Write, shown: usize, what: &str) -> Result<()> {
        let rows = &self.rows[..self.rows.len().min(shown.saturating_add(1))];
        let width = |column: usize| {
            rows.iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.align.len()).map(width).collect();
        for row in rows {
            let mut line = " ".to_owned();
            for ((cell, width), align) in row.iter().zip(&widths).zip(self.align.chars()) {
                line += &if align == '<' {
                    format!(" {cell:<width$}")
                } else {
                    format!(" {cell:>width$}")
                };
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        more(out, self.rows.len() - 1, shown, what)
    }
}

const DEFINITIONS: &str = "\
Definitions
  announced    CollApi and P2pApi starts (Coll and P2p before NCCL 2.28), and graph replays where NCCL shows them.
               The sends and receives of an AlltoAll count one by one here.
  recorded     announced calls that have a row, or a count in the totals where only totals were asked for.
  timed        calls with a GPU time that can be believed.
  calls        executions in an operation, one rank's part each; `12+3c` are 12 and 3 captured into CUDA graphs.
  bytes        by the convention of nccl-tests: count × type size; × ranks for AllGather, ReduceScatter, AlltoAll,
               Gather and Scatter.
  time gpu     from stamps: first channel's start to last channel's stop on one rank, waiting for peers included.
  time host    from API entry to return on the calling thread.
  p50 p95 p99  nearest rank, so a value that was observed; p99 from 100 calls on. Calls counted without rows give
               percentiles from a histogram with an error of at most 1 %.
  ops steps    operations of the network proxies (stopped/started where not all stopped) and their steps, as NCCL tells
               them; `calls` are those that used the network, sends and receives one by one.
  send_gpu     a send's step waits for the GPU's data; send_peer for the receiver; send_network for the network;
               recv_network waits for data, recv_flush for the flush, recv_gpu for the GPU to take it.
  fused        launched in one batch with other operations: the stamps are the batch's.
  no_stamp     NCCL delivered no GPU stamp; repeated, backwards, negative, missing: it delivered one that can't be right.
  unfinished   not ended when the recording did.
";
