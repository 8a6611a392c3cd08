//! A report as text: the verdict, its figures, the evidence and what to do; then the job; tables last.
//!
//! Every table says in its title in which order and unit it stands. What few readers need (single
//! communicators, parts of a call, warm-up, the network's counters, paragraphs about causes) is on the page
//! of `--all` only.
//!
//! Rule: line 1 is the verdict and the last line the next command. What is left out is said to be, with the
//! number of rows.

use crate::layout::{cut, plural, short_ids, Look, Page, Style, Table, Unit};
use analyze::completeness::RankCompleteness;
use analyze::functions::{FunctionRow, PARTS};
use analyze::job::Job;
use analyze::moments::spelled;
use analyze::operations::Operation;
use analyze::ranks::{Outlier, RankRow, Ranks};
use analyze::spelling::{self, size, three, time};
use analyze::statistics::Statistics;
use analyze::words::{self, Word};
use analyze::Report;
use capture::live::WAITS;
use std::collections::BTreeMap;
use std::io::{Result, Write};

/// How much to print, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Every section, row and column.
    pub all: bool,
    /// What the words and figures mean.
    pub explain: bool,
    /// The GPUs' kernels by name.
    pub kernels: bool,
    /// Width and colours.
    pub look: Look,
}

/// Findings with their evidence.
const FINDINGS: usize = 2;
/// A job of so many ranks has a row for each.
pub(crate) const FEW_RANKS: usize = 8;
/// Rows of operations.
const OPERATIONS: usize = 5;
/// Rows of other tables.
pub(crate) const ROWS: usize = 3;
/// Lines of a list.
const LINES: usize = 3;
/// Ranks that are not complete, if those of many are not.
const FEWEST: usize = 2;

/// Writes `report`.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, options: Options, out: &mut impl Write) -> Result<()> {
    let mut page = Page::new(options.look, options.all);
    answer(report, &mut page);
    job(report, &mut page)?;
    let settings: Vec<String> = report.settings.iter().map(|s| s.summary.clone()).collect();
    list("Settings", &settings, &mut page);
    crate::startup::section(&report.startup, &mut page);
    crate::topo::section(&report.topologies, &mut page);
    completeness(report, &mut page);
    crate::steps::steps(report, &mut page);
    crate::critical_path::critical_path(report, &mut page);
    ranks(report, &mut page);
    operations(report, &mut page);
    crate::efficiency::efficiency(report, &mut page);
    crate::callers::callers(report, &mut page);
    crate::graphs::graphs(report, &mut page);
    crate::streams::streams(report, &mut page);
    crate::idle::idle(report, &mut page);
    crate::bubbles::bubbles(report.streams.as_ref(), &mut page);
    crate::stream_waits::stream_waits(report, &mut page);
    crate::driver_calls::driver_calls(report, &mut page);
    crate::waiting::waiting(report, &mut page);
    crate::waiting::links(report, &mut page);
    crate::clocks::clocks(report, &mut page);
    crate::nodes::nodes(report, &mut page);
    crate::mpi::mpi(report, &mut page);
    communicators(report, &mut page);
    if options.all {
        functions(report, &mut page);
        warmup(report, &mut page);
    }
    network(report, &mut page);
    list("Notes", &report.notes, &mut page);
    let problem = |p: &analyze::job::ProblemRow| {
        format!(
            "{}, {}: expected {}, found {}",
            p.file, p.place, p.expected, p.found
        )
    };
    let problems: Vec<String> = report.problems.iter().map(problem).collect();
    list("Problems", &problems, &mut page);
    if options.kernels {
        crate::streams::kernels(report, &mut page);
        crate::replays::replays(report.streams.as_ref(), &mut page);
    }
    if options.explain {
        definitions(&mut page);
    }
    page.gap();
    // Else the tables say it.
    if !report
        .operations
        .iter()
        .any(|o| o.time_us.or(o.host_us).is_some())
    {
        page.wrap("", "", &report.summary);
    }
    page.next(&report.next);
    page.finish(out)
}

/// The verdict, its figures, the evidence and what to do.
fn answer(report: &Report, page: &mut Page) {
    let style = match analyze::summary::is_sound(report) {
        true => Style::Good,
        false => Style::Bad,
    };
    page.styled(style, &report.verdict);
    let figures = analyze::summary::figures(report);
    if !figures.is_empty() {
        page.wrap("", "", &figures.join(" · "));
    }
    let shown = if page.all { usize::MAX } else { FINDINGS };
    for finding in report.findings.iter().take(shown) {
        if finding.sentence == report.verdict {
            page.title("Evidence");
            page.line(&finding.evidence);
        } else {
            page.gap();
            page.wrap("", "", &format!("Also: {}", finding.sentence));
            page.line(&format!("Evidence: {}", finding.evidence));
        }
    }
    let more = report.findings.len().saturating_sub(shown);
    if more > 0 {
        let findings = plural(more as u64, "finding", "findings");
        page.line(&format!("… {findings} more (--all)"));
    }
    crate::recommendations::what_to_do(report, page);
}

pub(crate) fn some(list: &[String]) -> String {
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

fn job(report: &Report, page: &mut Page) -> Result<()> {
    let job = &report.job;
    page.title(&format!("Job {}", job.capture));
    let mut fact = |name: &str, text: &str| {
        page.wrap(&format!("  {name:<8} "), "           ", text);
    };
    if let Some(command) = job.command.as_deref() {
        fact("command", &clipped(command));
    }
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
    fact("ranks", &format!("{ranks} on {hosts}"));
    jobs(report, &mut fact);
    let mut software = format!("NCCL {}", some(&job.nccl));
    for (name, values) in [("", &job.gpu), ("driver ", &job.driver)] {
        if !values.is_empty() {
            software += &format!("; {name}{}", values.join(", "));
        }
    }
    // The usual one goes without saying.
    if job
        .platform
        .iter()
        .any(|platform| platform != "Linux x86_64")
    {
        software += &format!("; {}", job.platform.join(", "));
    }
    fact("software", &software);
    let (mode, timing) = (some(&job.mode), some(&job.timing));
    fact("recorded", &format!("mode {mode}, timing {timing}"));
    fact("time", &when(report));
    if let Some(energy) = &report.nodes.energy {
        fact("energy", &crate::nodes::energy(energy));
    }
    Ok(())
}

/// When a job began, and the name of the time zone in which that is said.
pub(crate) fn begun(job: &Job, started: &str) -> String {
    let began = spelled(started, 0);
    // The abbreviation of some zones is their offset.
    let says_more = |name: &&str| !name.starts_with(['+', '-']) && !began.ends_with("UTC");
    match job.zone.as_deref().filter(says_more) {
        Some(name) => format!("{began} ({name})"),
        None => began,
    }
}

/// With what the time of a job begins. Of communicators that are older than a recording from outside, the
/// beginning is not known.
pub(crate) fn first(job: &Job) -> &'static str {
    match is_from_outside(job) {
        true => "the first call or communicator",
        false => "the first communicator",
    }
}

/// Whether `ncclscope attach` recorded all of a job, so that its start and end are not the job's.
pub(crate) fn is_from_outside(job: &Job) -> bool {
    job.mode == ["attach"]
}

/// How long the job took, and when it ran.
fn when(report: &Report) -> String {
    let job = &report.job;
    let mut parts = Vec::new();
    if let Some(wall) = report.ranks.wall_us {
        parts.push(format!(
            "{} from {} to the last call: all % are of that",
            time(wall.max),
            first(job)
        ));
    }
    match (&job.started, &job.ended, job.exit_status) {
        (Some(started), Some(_), _) if is_from_outside(job) => {
            let took = job.wall_us.map_or("unknown".to_owned(), time);
            parts.push(format!(
                "recorded from outside for {took}, begun {}",
                begun(job, started)
            ));
        }
        (Some(started), Some(_), status) => {
            let status = status.map_or(String::new(), |status| format!(", exit status {status}"));
            let took = job.wall_us.map_or("unknown".to_owned(), time);
            parts.push(format!(
                "{took} from launch to exit, begun {}{status}",
                begun(job, started)
            ));
        }
        (Some(started), ..) => parts.push(format!(
            "begun {}; its end was not recorded",
            begun(job, started)
        )),
        _ => {}
    }
    match parts.is_empty() {
        true => "not known".to_owned(),
        false => parts.join("; "),
    }
}

/// The jobs of a folder that holds several.
fn jobs(report: &Report, fact: &mut impl FnMut(&str, &str)) {
    let jobs = &report.job.jobs;
    if jobs.is_empty() {
        return;
    }
    let text = format!(
        "this folder holds {} jobs, and the figures below mix them. Move the files of each job into a folder \
         of its own, and report that folder.",
        jobs.len()
    );
    fact("WARNING", &text);
    const SHOWN: usize = 4;
    for job in jobs.iter().take(SHOWN) {
        let started = job.started.as_deref().map(|started| spelled(started, 0));
        let mut text = format!(
            "from {}: {}",
            started.unwrap_or_else(|| "an unknown time".to_owned()),
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
        fact("", &text);
    }
    let rest = jobs.len().saturating_sub(SHOWN);
    if rest > 0 {
        fact("", &format!("… {rest} more jobs (--json)"));
    }
}

fn completeness(report: &Report, page: &mut Page) {
    let c = &report.completeness;
    page.title("Completeness");
    let shown = if page.all { usize::MAX } else { LINES };
    let missing = c.missing();
    for sentence in missing.iter().take(shown) {
        page.line(sentence);
    }
    if missing.len() > shown {
        let more = missing.len() - shown;
        page.line(&format!(
            "… {more} more lines about ranks that lack calls (--all)"
        ));
    }
    let remedy = |cause: &String| c.remedies.get(cause).map_or("", String::as_str);
    page.line(&c.counted());
    for (cause, n) in &c.unseen {
        page.line(&format!("{n} {cause}: {}", remedy(cause)));
    }
    if let Some(sentence) = c.in_launches() {
        page.line(&sentence);
    }
    for (cause, n) in &c.lost {
        page.line(&format!("{n} lost, {cause}: {}", remedy(cause)));
    }
    if !c.adds_up && !c.lost.contains_key("unexplained") {
        page.line(
            "More calls are recorded than were announced: the figures do not add up, please report it.",
        );
    }
    // Without any, a note says why at once.
    if c.timed > 0 {
        let mut causes: Vec<(&String, &u64)> = c.untimed.iter().collect();
        causes.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        if page.all {
            for (cause, n) in causes {
                page.line(&format!("{n} not timed, {cause}: {}", remedy(cause)));
            }
        } else if let Some((first, _)) = causes.first() {
            let all: u64 = causes.iter().fold(0, |sum, (_, n)| sum.saturating_add(**n));
            let each: Vec<String> = causes
                .iter()
                .map(|(cause, n)| format!("{n} {cause}"))
                .collect();
            let calls = plural(all, "call has", "calls have");
            page.line(&format!(
                "{calls} no GPU time: {} (ncclscope explain {first}).",
                each.join(", ")
            ));
        }
    }
    if !c.odd.is_empty() {
        page.line(&format!("Callbacks without effect: {}.", counts(&c.odd)));
    }
    incomplete_ranks(report, page);
    // Callbacks alone are a line too much for most.
    let cost = report.cost.as_ref();
    if let Some(cost) = cost.filter(|cost| page.all || cost.has_gpu_part()) {
        page.line(&cost.sentence());
    }
}

/// Ranks that are not complete, the worst first.
fn incomplete_ranks(report: &Report, page: &mut Page) {
    let mut worst: Vec<&RankCompleteness> = report.completeness.ranks.iter().collect();
    let not_recorded = |r: &RankCompleteness| r.announced.saturating_sub(r.recorded);
    let most = if page.all { usize::MAX } else { FEW_RANKS };
    if worst.len() > most {
        worst
            .sort_by_key(|r| std::cmp::Reverse(not_recorded(r).saturating_add(r.missing_at_least)));
    }
    let shown = match worst.len() > most {
        true => FEWEST,
        false => worst.len(),
    };
    for rank in &worst[..shown] {
        let name = rank
            .rank
            .map_or(format!("pid {}", rank.pid), |r| format!("rank {r}"));
        let mut text = format!(
            "{name} on {}: {} of {} recorded, {} timed, live part {}",
            rank.host, rank.recorded, rank.announced, rank.timed, rank.live
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
        page.line(&text);
    }
    let mut missing: Vec<u64> = worst[shown..].iter().map(|r| not_recorded(r)).collect();
    missing.sort_unstable();
    if let [least, .., most] = missing.as_slice() {
        let median = missing[(missing.len() - 1) / 2].midpoint(missing[missing.len() / 2]);
        page.line(&format!(
            "… {} more ranks (--all), not recorded on each: min {least}, median {median}, max {most}",
            missing.len()
        ));
    }
}

pub(crate) fn counts(of: &BTreeMap<String, u64>) -> String {
    of.iter()
        .map(|(cause, n)| format!("{n} {cause}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn ranks(report: &Report, page: &mut Page) {
    let ranks = &report.ranks;
    if ranks.rows.is_empty() {
        return;
    }
    if page.all || ranks.rows.len() <= FEW_RANKS {
        return crate::ranks::by_rank(report, page);
    }
    crate::ranks::over_ranks(ranks, page);
    for of in ranks.outliers.iter().take(LINES) {
        let (name, how) = outlier(ranks, of);
        page.line(&format!("{name}: {how}"));
    }
    let more = ranks.outliers.len().saturating_sub(LINES);
    if more > 0 {
        page.line(&format!("… {more} more ranks that differ (--all)"));
    }
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
            "{} in NCCL, the median rank {}: {}",
            time(*value),
            time(*median),
            if value < median {
                "it waits less, so the others wait for it"
            } else {
                "it waits for others"
            }
        ),
    };
    (format!("{name} on {}", of.host), how)
}

fn communicators(report: &Report, page: &mut Page) {
    if report.communicators.is_empty() {
        page.gap();
        return page.wrap("", "", "No communicator was made.");
    }
    if report.communicators.len() == 1 && !page.all {
        return;
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
        "gpu_memory",
    ];
    let has_memory = report
        .communicators
        .iter()
        .any(|c| c.nccl_gpu_bytes.is_some());
    let names = names
        .iter()
        .copied()
        .filter(|name| has_memory || *name != "gpu_memory");
    let mut table = Table::new(names, if has_memory { "<>>><<<>" } else { "<>>><<<" });
    table.squeeze = &["nodes", "parent", "here"];
    for c in &report.communicators {
        let parent = match (&c.parent, &c.parent_evidence) {
            (Some(parent), Some(evidence)) => {
                let evidence = evidence.split_once(", ").map_or("", |(_, rest)| rest);
                format!("{} ({evidence})", short[parent.as_str()])
            }
            _ => "-".to_owned(),
        };
        let memory = has_memory.then(|| c.nccl_gpu_bytes.map_or("-".to_owned(), size));
        let cells = [
            c.communicator.clone(),
            number(c.nranks),
            number(c.nnodes),
            c.members.len().to_string(),
            cut(c.ranks.as_deref().unwrap_or("-"), 24),
            cut(c.name.as_deref().unwrap_or("-"), 24),
            parent,
        ];
        table.row(cells.into_iter().chain(memory));
    }
    page.title("Communicators (by first use; ranks are the launcher's, here: in this capture)");
    page.table(&table, ROWS, "communicators");
}

/// Calls, with those that were timed and those that were captured into graphs.
fn calls_of(o: &Operation, timed: bool) -> String {
    let mut calls = match timed && o.timed != o.calls {
        true => format!("{}/{}", o.timed, o.calls),
        false => o.calls.to_string(),
    };
    if o.captured > 0 {
        calls += &format!("+{}c", o.captured);
    }
    calls
}

fn operations(report: &Report, page: &mut Page) {
    if report.operations.is_empty() {
        page.gap();
        return page.wrap("", "", "No call was recorded.");
    }
    let (timed, others): (Vec<&Operation>, Vec<&Operation>) = report
        .operations
        .iter()
        // What was a warm-up and nothing else stands under Warm-up.
        .filter(|o| o.calls == 0 || o.calls > o.warmup)
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

/// What an operation is: function, size, datatype, communicator, algorithm.
fn first_cells(report: &Report, o: &Operation, short: &BTreeMap<&str, String>) -> [String; 5] {
    let id = o
        .communicator
        .as_deref()
        .filter(|_| report.communicators.len() > 1);
    [
        text(&o.function),
        o.bytes.map_or("-".to_owned(), spelling::size),
        o.datatype
            .as_deref()
            .map_or("-".to_owned(), spelling::datatype),
        id.map_or("-".to_owned(), |id| short[id].clone()),
        algorithm(o),
    ]
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

const FIRST: [&str; 5] = ["function", "size", "type", "comm", "algorithm"];
const FIGURES: [&str; 6] = ["mean", "min", "p50", "p95", "p99", "max"];
/// Figures that are on the page of `--all` only.
const FOR_FEW: [&str; 3] = ["min", "p99", "algbw"];

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
    for o in timed {
        let Some(time) = &o.time_us else {
            continue;
        };
        let sum = match o.sampled {
            None => sums.show(o.gpu_sum_us()),
            Some(s) => {
                let half = (s.sum_high_us - s.sum_low_us) / 2.0;
                let percent = 100.0 * half / s.sum_us.max(f64::MIN_POSITIVE);
                format!("~{}±{percent:.0}%", sums.show(Some(s.sum_us)))
            }
        };
        let bandwidths = [o.algbw_gb_per_s, o.busbw_gb_per_s, o.call_busbw_gb_per_s];
        table.row(
            first_cells(report, o, &short)
                .into_iter()
                .chain([calls_of(o, true), sum])
                .chain(figures_of(time, &times))
                .chain(bandwidths.map(figure)),
        );
    }
    let sample = match shown.iter().any(|o| o.sampled.is_some()) {
        true => "; ~ estimated from a sample ± its 95 % interval",
        false => "",
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
    for o in others {
        let host = o.host_us.as_ref();
        let sum = sums.show(host.map(|h| h.sum));
        let none = || std::array::from_fn(|_| "-".to_owned());
        let figures = host.map_or_else(none, |host| figures_of(host, &times));
        table.row(
            first_cells(report, o, &short)
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

/// Three digits of a figure, or `-`.
pub(crate) fn figure(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), three)
}

fn functions(report: &Report, page: &mut Page) {
    if report.functions.is_empty() {
        return;
    }
    let names = ["function", "calls", "calls_%", "gpu", "gpu_%", "host"];
    let mut table = Table::new(names, "<>>>>>");
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
            sums.show(f.sum_over_ranks_us),
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
    let mut foot: Vec<(&str, u64, Option<f64>, Option<f64>)> = report
        .kinds
        .iter()
        .map(|k| {
            let (gpu, host) = (k.sum_over_ranks_us, k.host_sum_over_ranks_us);
            (k.kind, k.calls, gpu, host)
        })
        .filter(|_| report.kinds.len() > 1)
        .collect();
    foot.push(("all", calls, gpu, host));
    for (name, n, of_gpu, of_host) in foot.into_iter().filter(|_| report.functions.len() > 1) {
        let part = of_gpu.zip(gpu).filter(|(_, all)| *all > 0.0);
        table.foot.push(vec![
            name.to_owned(),
            n.to_string(),
            share(Some(n as f64 / calls.max(1) as f64)),
            sums.show(of_gpu),
            share(part.map(|(part, all)| part / all)),
            hosts.show(of_host),
        ]);
    }
    page.title(&format!(
        "Functions (largest GPU time first; sums over ranks, gpu in {}, \
         host in {}; % of all calls and GPU time)",
        sums.name, hosts.name
    ));
    page.table(&table, ROWS, "functions");
    parts(report, page);
}

/// What of a call takes how long, by function and size.
fn parts(report: &Report, page: &mut Page) {
    let names = ["function", "size", "calls"].into_iter().chain(PARTS);
    let mut table = Table::new(names, "<>>>>>>>");
    table.squeeze = &["enqueue", "launch", "proxy", "calls"];
    for row in &report.parts {
        let part = |name: &str| {
            let part = row.parts_us.get(name).copied().flatten();
            part.map_or("-".to_owned(), |p| {
                format!("{}/{}", three(p.mean), three(p.p50))
            })
        };
        let cells = [
            text(&row.function),
            sizes(row.least_bytes, row.most_bytes),
            row.calls.to_string(),
        ];
        table.row(cells.into_iter().chain(PARTS.map(part)));
    }
    if !report.parts.is_empty() {
        page.title("Parts of a call (by function and size, most calls first; mean/p50 in µs)");
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

fn warmup(report: &Report, page: &mut Page) {
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

fn network(report: &Report, page: &mut Page) {
    let blamed = report.findings.iter().any(|f| f.kind == "slow_network");
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
        .flat_map(|n| n.wait_us.values().copied().flatten());
    let unit = Unit::of(waits);
    for n in &report.network {
        let size = |bytes: Option<u64>| bytes.map_or("-".to_owned(), spelling::size);
        let wait = |i: usize| unit.show(n.wait_us.get(WAITS[i]).copied().flatten());
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
            wait(0),
            wait(1),
            wait(2),
            wait(3),
            wait(4),
            wait(5),
        ]);
    }
    page.title(&format!(
        "Network (most bytes first; waits in {}, summed over steps and channels)",
        unit.name
    ));
    page.table(&table, ROWS, "functions");
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

fn list(title: &str, lines: &[String], page: &mut Page) {
    if lines.is_empty() {
        return;
    }
    page.title(title);
    let shown = if page.all { usize::MAX } else { LINES };
    for line in lines.iter().take(shown) {
        page.line(line);
    }
    let more = lines.len().saturating_sub(shown);
    if more > 0 {
        page.line(&format!("… {more} more {} (--all)", title.to_lowercase()));
    }
}

fn number(n: Option<u32>) -> String {
    n.map_or("-".to_owned(), |n| n.to_string())
}

/// What the words mean, each after its name.
fn definitions(page: &mut Page) {
    for (title, words) in [
        ("Definitions", words::DEFINITIONS),
        ("Why calls are lost", words::LOST),
        ("Why calls in CUDA graphs are not counted", words::UNSEEN),
        ("Why calls are not timed", words::UNTIMED),
    ] {
        page.title(title);
        for Word { name, text } in words {
            page.wrap(&format!("  {name:<17}"), &" ".repeat(19), text);
        }
    }
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
