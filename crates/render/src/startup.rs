//! The start-up of a job as text: what took long, on which rank, and for whom the others waited.

use crate::layout::{plural, Look, Page, Style, Table};
use analyze::startup::{ProcessRow, Startup};
use setup::log::PHASES;
use setup::startup::{CommunicatorStartup, Leg, PhaseRow};
use std::io::{Result, Write};

/// The JSON Schema of [`json`].
pub const SCHEMA: &str = include_str!("../schema/startup-1.json");

/// Communicators whose tables are printed.
const COMMUNICATORS: usize = 1;
/// Ranks, the slowest first.
const RANKS: usize = 8;
/// A phase that takes less of the whole is not worth a word of advice.
const WORTH: f64 = 0.2;
/// Nor is one that takes less time, in seconds.
const WORTH_S: f64 = 1.0;

/// Writes it as JSON.
///
/// # Errors
/// Those of `out`.
pub fn json(startup: &Startup, out: &mut impl Write) -> Result<()> {
    crate::json::pretty(startup, out)
}

/// Writes it as a page of text.
///
/// # Errors
/// Those of `out`.
pub fn text(startup: &Startup, all: bool, look: Look, out: &mut impl Write) -> Result<()> {
    let mut page = Page::new(look, all);
    page.styled(
        Style::Open,
        &sentence(startup).unwrap_or_else(|| nothing(startup)),
    );
    if let Some(advice) = longest(startup).and_then(advice) {
        page.title("What to do");
        page.line(&advice);
    }
    let shown = if all { usize::MAX } else { COMMUNICATORS };
    for communicator in startup.communicators.iter().take(shown) {
        communicator_tables(communicator, &mut page);
    }
    let more = startup.communicators.len().saturating_sub(shown);
    if more > 0 {
        let more = plural(more as u64, "communicator", "communicators");
        page.line(&format!("… {more} more (--all)"));
    }
    processes(&startup.processes, &mut page);
    for note in &startup.notes {
        page.gap();
        page.wrap("", "", note);
    }
    page.finish(out)
}

/// Other ranks took as long as the one on the critical path if they took this part of its time at least.
const ALIKE: f64 = 0.5;

/// The answer, if any rank's phases are known.
pub fn sentence(startup: &Startup) -> Option<String> {
    let communicator = startup.communicators.first()?;
    let total = communicator.phases.last()?;
    let longest = longest(startup)?;
    let ranks = plural(communicator.nranks.into(), "rank", "ranks");
    let row = |row: &&PhaseRow| row.phase == longest.phase;
    let shortest = communicator.phases.iter().find(row)?.shortest_s;
    let others = match communicator.ranks_known > 1 && shortest >= ALIKE * longest.time_s {
        true => format!(", and {} s or more on each other", seconds(shortest)),
        false => String::new(),
    };
    let known = match communicator.ranks_known == communicator.nranks {
        true => String::new(),
        false => format!(
            " Only {} of the {ranks} said how long it took. So another one may have been slower.",
            communicator.ranks_known
        ),
    };
    Some(format!(
        "Making the slowest communicator ({ranks}) took {} s. The largest part of it was {}: {} s on rank \
         {}{others}.{known}",
        seconds(total.slowest_s),
        named(longest.phase),
        seconds(longest.time_s),
        longest.rank,
    ))
}

/// The longest leg of the slowest communicator's critical path; the first of several.
fn longest(startup: &Startup) -> Option<&Leg> {
    let path = &startup.communicators.first()?.critical_path;
    path.iter()
        .reduce(|a, b| if b.time_s > a.time_s { b } else { a })
}

/// What is said if no phases are known.
fn nothing(startup: &Startup) -> String {
    let communicators = &startup.communicators;
    let unfinished = communicators.iter().find(|c| !c.unfinished.is_empty());
    let why = match unfinished {
        Some(c) => format!("No communicator is complete. {}", not_there(c)),
        None if communicators.is_empty() => {
            "The phases of start-up are not known: there is no line `Init timings` of NCCL.".to_owned()
        }
        None => "The phases of start-up are not known: NCCL prints them from 2.22 on (`Init timings`), and \
                 this output has none."
            .to_owned(),
    };
    // The last to be ready stands first.
    let last = startup.processes.first();
    let ready = last.and_then(|row| Some((row, row.to_first_call_s?)));
    match ready {
        Some((row, s)) => {
            let who = match row.rank {
                Some(rank) => format!("rank {rank}"),
                None => format!("process {} on {}", row.pid, row.host),
            };
            format!("The last to make its first call was {who}: {s:.3} s after its start. {why}")
        }
        None => why,
    }
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
    if !communicator.silent.is_empty() {
        said.push(format!(
            "Ranks without a line of NCCL: {}.",
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

/// What helps against a long phase; nothing for one that is short.
fn advice(leg: &Leg) -> Option<String> {
    if leg.time_s < WORTH_S {
        return None;
    }
    let advice = match leg.phase {
        "kernels" => {
            "NCCL's library may hold no code for this GPU, and the driver then compiles it at each start. \
             Use an NCCL that was built for this GPU (`cuobjdump --list-elf libnccl.so.2` lists what it \
             holds), keep CUDA_MODULE_LOADING=LAZY, which is the default, and keep the compiled code \
             (CUDA_CACHE_PATH on a disk that stays, CUDA_CACHE_MAXSIZE large enough)."
        }
        "bootstrap" => {
            "The ranks meet over TCP. See that NCCL_SOCKET_IFNAME names a fast interface, and that no rank \
             is late for other reasons: the table has each rank's phases before it."
        }
        "topo" => {
            "NCCL reads /sys and asks NVML. Persistence mode of the driver (`nvidia-smi -pm 1`) makes NVML \
             fast, and NCCL_TOPO_FILE can hold what NCCL finds."
        }
        "graphs" => "NCCL_GRAPH_FILE can hold what NCCL finds, if all nodes are alike.",
        "connections" => {
            "NCCL_RUNTIME_CONNECT=1, the default from 2.22 on, connects at the first call that needs it."
        }
        _ => return None,
    };
    Some(advice.to_owned())
}

fn communicator_tables(communicator: &CommunicatorStartup, page: &mut Page) {
    let id = communicator.id.as_deref().unwrap_or("of unknown id");
    let title = |what: &str, known: usize, order: &str| {
        let known = match known == communicator.nranks as usize {
            true => plural(communicator.nranks.into(), "rank", "ranks"),
            false => format!("{known} of {} ranks", communicator.nranks),
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
    table.squeeze = &["thread", "pid", "rest", "graphs"];
    let mut ranks: Vec<_> = communicator.ranks.iter().collect();
    let total = |s: Option<f64>| s.unwrap_or(f64::INFINITY);
    ranks.sort_by(|a, b| total(b.total_s).total_cmp(&total(a.total_s)));
    for row in ranks {
        let time = |s: Option<f64>| s.map_or("-".to_owned(), seconds);
        let first = [
            row.rank.to_string(),
            row.host.clone(),
            row.pid.to_string(),
            row.thread.to_string(),
            time(row.total_s),
        ];
        table.row(first.into_iter().chain(row.phases_s().map(time)));
    }
    page.table(&table, RANKS, "ranks");
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
    let late = communicator.spread_s.map_or(String::new(), |late| {
        format!(" The last rank began {} s after the first.", seconds(late))
    });
    match parts.is_empty() {
        true => format!("No phase of it took any time.{late}"),
        false => format!(
            "The critical path goes through {}.{late}",
            parts.join(", then through ")
        ),
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
            row.rank.map_or("-".to_owned(), |rank| rank.to_string()),
            row.host.clone(),
            row.pid.to_string(),
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
    let communicator = startup.communicators.first()?;
    let total = communicator.phases.last()?.slowest_s;
    let leg = longest(startup)?;
    (leg.time_s >= WORTH_S && leg.time_s >= WORTH * total)
        .then(|| sentence(startup))
        .flatten()
}
