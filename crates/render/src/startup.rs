//! The start-up of a job as text: what took long, on which rank, and for whom the others waited.

mod advice;
mod answer;
pub(crate) mod tree;

use crate::layout::{plural, Look, Page, Style, Table};
use analyze::first_uses::FirstUse;
use analyze::spelling::percent;
use analyze::startup::{HardlyUsed, Note, ProcessRow, Startup};
use answer::{Answer, WORTH_S};
use schemars::JsonSchema;
use serde::Serialize;
use setup::log::PHASES;
use setup::startup::CommunicatorStartup;
use std::io::{Result, Write};

/// The JSON Schema of [`json`].
pub const SCHEMA: &str = include_str!("../schema/startup-1.json");

/// Communicators whose tables are printed.
const COMMUNICATORS: usize = 1;
/// Ranks, the slowest first.
const RANKS: usize = 8;
/// A phase that takes less of the whole is not worth a word of advice.
const WORTH: f64 = 0.2;

/// Writes it as JSON.
///
/// # Errors
/// Those of `out`.
pub fn json(startup: &Startup, out: &mut impl Write) -> Result<()> {
    let notes = startup.notes.iter().map(note).collect();
    crate::json::pretty(&StartupJson { startup, notes }, out)
}

/// A start-up with the words of its notes, as JSON has it.
#[derive(Serialize, JsonSchema)]
pub struct StartupJson<'a> {
    #[serde(flatten)]
    startup: &'a Startup,
    /// What is not known, or unusual.
    notes: Vec<String>,
}

/// What is not known, or unusual.
fn note(of: &Note) -> String {
    match of {
        Note::LeftOutByRay(lines) => format!(
            "Ray left out {lines} lines that were like lines of other ranks, so ranks are missing here. Set \
             RAY_DEDUP_LOGS=0 to keep them."
        ),
        Note::SharedGpu { all, bus, host } => {
            let who = all.map_or("Several ranks".to_owned(), |n| format!("All {n} ranks"));
            format!(
                "{who} of a communicator are on the GPU with bus number {bus:x} of {host}: they share it, as \
                 with MIG or MPS."
            )
        }
        Note::OwnLevel(level) => format!(
            "The phases of NCCL's init are not recorded, because the job set NCCL_DEBUG={level} itself, and \
             ncclscope leaves that as it is. Unset it, set NCCL_DEBUG=INFO and NCCL_DEBUG_FILE, or give what \
             NCCL printed to `ncclscope startup FILE`."
        ),
        Note::OwnFile { level } => format!(
            "NCCL said nothing about the phases of its init in the job's own NCCL_DEBUG_FILE \
             (NCCL_DEBUG={level}). It does so with NCCL_DEBUG=INFO and the subsystem INIT."
        ),
        Note::NotRecorded => {
            "The phases of NCCL's init are not recorded. `NCCLSCOPE_NCCL_LOG=on ncclscope run` records them \
             with NCCL 2.23 and later (docs/guides/startup.md)."
                .to_owned()
        }
    }
}

/// Writes it as a page of text.
///
/// # Errors
/// Those of `out`.
pub fn text(startup: &Startup, all: bool, look: Look, out: &mut impl Write) -> Result<()> {
    let mut page = Page::new(look, all);
    page.styled(
        Style::Open,
        &sentence(startup).unwrap_or_else(|| answer::nothing(startup)),
    );
    if let Some(advice) = Answer::of(startup).and_then(|answer| answer.advice()) {
        page.title("What to do");
        page.line(&advice);
    }
    let shown = if all { usize::MAX } else { COMMUNICATORS };
    // Those that were not made come first.
    let (failed, made): (Vec<_>, Vec<_>) = startup
        .communicators
        .iter()
        .partition(|communicator| !communicator.unfinished.is_empty());
    for communicator in failed.into_iter().chain(made).take(shown) {
        communicator_tables(communicator, &mut page);
    }
    warnings(startup, &mut page);
    let more = startup.communicators.len().saturating_sub(shown);
    if more > 0 {
        let more = plural(more as u64, "communicator", "communicators");
        page.line(&format!("… {more} more (--all)"));
    }
    hardly_used(startup, &mut page);
    if let Some(whole) = &startup.whole {
        tree::tree(whole, &mut page);
    }
    first_uses(&startup.first_uses, &mut page);
    processes(&startup.processes, &mut page);
    for of in &startup.notes {
        page.gap();
        page.wrap("", "", &note(of));
    }
    page.finish(out)
}

/// The answer, if something failed or any rank's phases are known.
pub fn sentence(startup: &Startup) -> Option<String> {
    Answer::of(startup).map(|answer| answer.sentence(startup))
}

/// Ranks that did not get through the init; empty if there are none.
fn not_there(communicator: &CommunicatorStartup) -> String {
    let mut said = Vec::new();
    if !communicator.unfinished.is_empty() {
        said.push(format!(
            "Ranks that began and did not end: {}.",
            list(&communicator.unfinished)
        ));
    }
    if !communicator.cut.is_empty() {
        said.push(format!(
            "Ranks whose output ends in the middle of a line: {}.",
            list(&communicator.cut)
        ));
    }
    if !communicator.silent.is_empty() {
        said.push(format!(
            "Ranks without a line about it: {}.",
            list(&communicator.silent)
        ));
    }
    said.join(" ")
}

/// What a phase does, in the words of a sentence.
pub(crate) fn named(phase: &str) -> &'static str {
    match phase {
        "kernels" => "loading NCCL's kernels onto the GPU",
        "alloc" => "allocating memory",
        "bootstrap" => "meeting the other ranks (bootstrap)",
        "allgathers" => "exchanging data with all ranks (allgathers)",
        "topo" => "finding GPUs, network cards and links (topo)",
        "graphs" => "searching rings and trees (graphs)",
        "connections" => "connecting to other ranks",
        _ => "what NCCL counts in no phase",
    }
}

fn communicator_tables(communicator: &CommunicatorStartup, page: &mut Page) {
    let id = communicator.id.as_deref().unwrap_or("of unknown id");
    let title = |what: &str, known: usize, order: &str| {
        let known = if known == communicator.nranks as usize {
            plural(communicator.nranks.into(), "rank", "ranks")
        } else {
            format!("{known} of {} ranks", communicator.nranks)
        };
        format!("{what} of communicator {id} ({known}; {order})")
    };
    if !communicator.phases.is_empty() {
        let known = communicator.ranks_known as usize;
        page.title(&title("Phases", known, "in NCCL's order, s"));
        let names = [
            "phase",
            "slowest",
            "rank",
            "median",
            "shortest",
            "on critical path",
        ];
        let mut table = Table::new(names, "<>>>>>");
        let path = |phase: &str| {
            let legs = communicator.critical_path.iter();
            let mut legs = legs.filter(|leg| leg.phase == phase);
            legs.next().map(|leg| leg.time_s)
        };
        for row in &communicator.phases {
            let on_path = match row.phase {
                "total" => Some(communicator.critical_path_s),
                phase => path(phase),
            };
            table.row([
                row.phase.to_owned(),
                seconds(row.slowest_s),
                row.slowest_rank.to_string(),
                seconds(row.median_s),
                seconds(row.shortest_s),
                on_path.map_or("-".to_owned(), seconds),
            ]);
        }
        page.table(&table, usize::MAX, "phases");
        page.line(&path_in_words(communicator));
    }
    let not_there = not_there(communicator);
    if !not_there.is_empty() {
        page.line(&not_there);
    }
    page.title(&title(
        "Ranks",
        communicator.ranks.len(),
        "slowest first, s",
    ));
    let names = [&["rank", "host", "pid", "thread", "total"][..], &PHASES].concat();
    let mut table = Table::new(names, "><>>>>>>>>>>>");
    table.squeeze = &["thread", "pid", "rest", "graphs", "alloc", "topo"];
    let mut ranks: Vec<_> = communicator.ranks.iter().collect();
    let total = |s: Option<f64>| s.unwrap_or(f64::INFINITY);
    ranks.sort_by(|a, b| total(b.total_s).total_cmp(&total(a.total_s)));
    for row in ranks {
        let time = |s: Option<f64>| s.map_or("-".to_owned(), seconds);
        let first = [
            row.rank.to_string(),
            or_dash(!row.host.is_empty(), &row.host),
            or_dash(row.pid != 0, &row.pid),
            or_dash(row.thread != 0, &row.thread),
            time(row.total_s),
        ];
        table.row(first.into_iter().chain(row.phases_s().map(time)));
    }
    page.table(&table, RANKS, "ranks");
}

/// What a line of NCCL had, or a dash.
fn or_dash(is_known: bool, value: &impl ToString) -> String {
    if is_known {
        value.to_string()
    } else {
        "-".to_owned()
    }
}

/// Through which ranks the critical path goes, one after the other.
fn path_in_words(communicator: &CommunicatorStartup) -> String {
    let mut parts: Vec<(u32, Vec<&str>, f64)> = Vec::new();
    for leg in communicator
        .critical_path
        .iter()
        .filter(|leg| leg.time_s > 0.0)
    {
        match parts.last_mut() {
            Some((rank, phases, time)) if *rank == leg.rank => {
                phases.push(leg.phase);
                *time += leg.time_s;
            }
            _ => parts.push((leg.rank, vec![leg.phase], leg.time_s)),
        }
    }
    let parts = parts.iter().map(|(rank, phases, time)| {
        format!(
            "rank {rank} in {} ({} s)",
            phases.join(", "),
            seconds(*time)
        )
    });
    let parts: Vec<String> = parts.collect();
    let late = match (&communicator.late, communicator.spread_s) {
        (Some(late), _) => format!(
            " {} {} s after the first rank.",
            match late.ranks.len() {
                0 | 1 => format!("Rank {} began", late.rank),
                n => format!("Rank {} began last of {n} late ranks:", late.rank),
            },
            seconds(late.by_s)
        ),
        (None, Some(spread_s)) => {
            let spread = seconds(spread_s);
            format!(" The last rank began {spread} s after the first.")
        }
        (None, None) => String::new(),
    };
    if parts.is_empty() {
        format!("No phase of it took any time.{late}")
    } else {
        format!(
            "The critical path goes through {}.{late}",
            parts.join(", then through ")
        )
    }
}

/// Lines of warnings that are printed.
const WARNINGS: usize = 4;

/// What NCCL warned of, in its own words.
fn warnings(startup: &Startup, page: &mut Page) {
    let shown = if page.all { usize::MAX } else { WARNINGS };
    let mut lines: Vec<(String, u64)> = Vec::new();
    for warning in &startup.warnings {
        match lines.iter_mut().find(|(text, _)| *text == warning.text) {
            Some((_, n)) => *n += 1,
            None => lines.push((warning.text.clone(), 1)),
        }
    }
    if lines.is_empty() {
        return;
    }
    page.title(&format!(
        "Warnings of NCCL ({} lines; in their order)",
        startup.warned
    ));
    for (text, n) in lines.iter().take(shown) {
        let of = startup
            .warnings
            .iter()
            .find(|warning| warning.text == *text);
        let from = of.map_or(String::new(), |warning| match warning.host.as_str() {
            "" => String::new(),
            host => format!("{host}:{} ", warning.pid),
        });
        let times = if *n > 1 {
            format!(" ({n} times)")
        } else {
            String::new()
        };
        page.line(&format!("{from}{text}{times}"));
    }
    if lines.len() > shown {
        page.line(&format!("… {} more (--all)", lines.len() - shown));
    }
}

/// A first use that took less longer is not printed, s.
const FIRST_USE_S: f64 = 0.01;
/// First uses that are printed.
const FIRST_USES: usize = 5;

/// What is used for the first time, in words.
fn used(of: &FirstUse) -> String {
    let words = [of.algorithm.as_deref(), of.protocol.as_deref()];
    let words: Vec<&str> = words.into_iter().flatten().collect();
    let peer = of
        .peer
        .map_or(String::new(), |peer| match of.function.as_str() {
            "Recv" => format!(" from {peer}"),
            _ => format!(" to {peer}"),
        });
    format!("first {}{peer} {}", of.function, words.join(" "))
        .trim()
        .to_owned()
}

/// Communicators of less of all inits are printed with `--all` only.
const HARDLY_SHARE: f64 = 0.05;

/// Communicators that took long to make and have few calls.
fn hardly_used(startup: &Startup, page: &mut Page) {
    let is_worth =
        |of: &&HardlyUsed| page.all || of.share.is_some_and(|share| share >= HARDLY_SHARE);
    let shown: Vec<&HardlyUsed> = startup.hardly_used.iter().filter(is_worth).collect();
    if shown.is_empty() {
        return;
    }
    page.title("Communicators with two calls or fewer on each rank (the longest to make first, s)");
    let names = [
        "communicator",
        "name",
        "ranks",
        "calls",
        "init_s",
        "of_inits",
    ];
    let mut table = Table::new(names, "<<>>>>");
    table.squeeze = &["name"];
    for of in shown {
        table.row([
            of.communicator.clone(),
            of.name.clone().unwrap_or_else(|| "-".to_owned()),
            of.nranks.map_or("-".to_owned(), |n| n.to_string()),
            of.calls.to_string(),
            of.time_s.map_or("-".to_owned(), seconds),
            of.share.map_or("-".to_owned(), percent),
        ]);
    }
    page.table(&table, RANKS, "communicators");
    page.line(
        "Each takes time at the start, and GPU memory. Make it when it is needed, or not at all.",
    );
}

/// First uses that cost some rank much, with all ranks.
fn first_uses(uses: &[FirstUse], page: &mut Page) {
    let is_worth = |of: &&FirstUse| page.all || of.longer_s.is_some_and(|s| s >= FIRST_USE_S);
    let shown: Vec<&FirstUse> = uses.iter().filter(is_worth).collect();
    if shown.is_empty() {
        return;
    }
    page.title("First uses (how much longer the call took than later ones, s of host time)");
    let names = [
        "use",
        "communicator",
        "ranks",
        "slowest",
        "rank",
        "shortest",
        "later",
    ];
    let mut table = Table::new(names, "<<>>>>>");
    table.squeeze = &["communicator"];
    for of in shown {
        let time = |s: Option<f64>| s.map_or("-".to_owned(), millis);
        table.row([
            used(of),
            of.communicator.clone().unwrap_or_else(|| "-".to_owned()),
            of.ranks.to_string(),
            time(of.longer_s),
            of.process
                .rank
                .map_or("-".to_owned(), |rank| rank.to_string()),
            time(of.least_longer_s),
            time(of.later_s),
        ]);
    }
    page.table(&table, FIRST_USES, "first uses");
}

/// Seconds, to the millisecond; below one, three digits.
pub(crate) fn millis(s: f64) -> String {
    match s {
        s if s >= 0.001 || s <= 0.0 => format!("{s:.3}"),
        s => format!("{s:.6}"),
    }
}

fn processes(rows: &[ProcessRow], page: &mut Page) {
    if rows.is_empty() {
        return;
    }
    page.title("Processes (last to be ready first, s from the start of the process)");
    let names = [
        "rank",
        "host",
        "pid",
        "to init",
        "plugin",
        "to first call",
        "first call",
    ];
    let mut table = Table::new(names, "><>>>>>");
    table.squeeze = &["pid"];
    for row in rows {
        let time = |s: Option<f64>| s.map_or("-".to_owned(), |s| format!("{s:.3}"));
        table.row([
            row.process
                .rank
                .map_or("-".to_owned(), |rank| rank.to_string()),
            row.process.host.clone(),
            row.process.pid.to_string(),
            time(row.to_init_s),
            time(row.plugin_init_s),
            time(row.to_first_call_s),
            time(row.first_call_s),
        ]);
    }
    page.table(&table, RANKS, "processes");
}

fn list(ranks: &[u32]) -> String {
    analyze::spelling::ranges(ranks.iter().copied())
}

/// With two digits behind the point: NCCL has no more.
fn seconds(s: f64) -> String {
    format!("{s:.2}")
}

/// The section of a report: a sentence if a phase took long, and all phases with `--all`.
pub(crate) fn section(startup: &Startup, page: &mut Page) {
    let line = line(startup).or_else(|| sentence(startup).filter(|_| page.all));
    let Some(line) = line else { return };
    page.title("Start-up");
    page.line(&format!("{line} `ncclscope startup` has each rank."));
    if page.all {
        if let Some(slowest) = startup.communicators.first() {
            communicator_tables(slowest, page);
        }
        processes(&startup.processes, page);
    }
}

/// Whether a start-up is worth a line in a report.
fn line(startup: &Startup) -> Option<String> {
    let total = startup.communicators.first().and_then(|c| c.phases.last());
    let total_s = total.map_or(0.0, |total| total.slowest_s);
    let answer = Answer::of(startup)?;
    let is_worth = answer
        .time_s()
        .is_none_or(|time_s| time_s >= WORTH_S && time_s >= WORTH * total_s);
    is_worth.then(|| answer.sentence(startup))
}
