//! A report as text: the verdict, its figures, the evidence and what to do; then the job; tables last.
//!
//! Every table says in its title in which order and unit it stands. What few readers need (single
//! communicators, parts of a call, warm-up, the network's counters, paragraphs about causes) is on the page
//! of `--all` only.
//!
//! Rule: line 1 is the verdict and the last line the next command. What is left out is said to be, with the
//! number of rows.

use crate::layout::{cut, plural, short_ids, Look, Page, Style, Table, FEW_RANKS, ROWS};
use crate::words::{self, Word};
use crate::{findings, settings, verdict};
use analyze::ranks::{Outlier, RankRow, Ranks};
use analyze::spelling::{size, time};
use analyze::Report;
use completeness::completeness;
pub(crate) use completeness::counts;
use functions::{functions, network, rates, warmup};
use job::job;
pub(crate) use job::{attempts, begun, clipped, from_to, is_from_outside, some};
use operations::operations;
use std::io::{Result, Write};

mod completeness;
mod functions;
mod job;
mod operations;

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
/// Rows of operations.
const OPERATIONS: usize = 5;
/// Lines of a list.
const LINES: usize = 3;

/// Writes `report`.
///
/// # Errors
/// Those of `out`.
pub fn write(report: &Report, options: Options, out: &mut impl Write) -> Result<()> {
    let mut page = Page::new(options.look, options.all);
    answer(report, &mut page);
    job(report, &mut page)?;
    let settings: Vec<String> = report.settings.iter().map(settings::summary).collect();
    list("Settings", &settings, &mut page);
    crate::startup::section(&report.startup, &mut page);
    crate::topo::section(&report.topologies, &mut page);
    crate::paths::section(&report.paths, &mut page);
    completeness(report, &mut page);
    crate::steps::steps(report, &mut page);
    crate::steps::phases(report, &mut page);
    crate::account::account(report, &mut page);
    crate::critical_path::critical_path(report, &mut page);
    ranks(report, &mut page);
    operations(report, &mut page);
    rates(report, &mut page);
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
    list("Notes", &crate::notes::sentences(report), &mut page);
    let problems = crate::problems::rows(&report.problems);
    let problems: Vec<String> = problems.iter().map(crate::problems::line).collect();
    list("Problems", &problems, &mut page);
    if options.kernels {
        crate::streams::kernels(report, &mut page);
        crate::replays::replays(report.streams.as_ref(), &mut page);
    }
    if options.explain {
        definitions(&mut page);
    }
    page.gap();
    // Else the tables say it, or the verdict does.
    let has_time = |o: &analyze::operations::Operation| o.time_us.or(o.host_us).is_some();
    if !report.operations.is_empty() && !report.operations.iter().any(has_time) {
        page.wrap("", "", &verdict::summary(&report.summary));
    }
    page.next(&verdict::next(report));
    page.finish(out)
}

/// The verdict, its figures, the evidence and what to do.
fn answer(report: &Report, page: &mut Page) {
    let style = if analyze::summary::is_sound(report) {
        Style::Good
    } else {
        Style::Bad
    };
    page.styled(style, &verdict::sentence(report));
    let figures = verdict::figures(report);
    if !figures.is_empty() {
        page.wrap("", "", &figures.join(" · "));
    }
    let shown = if page.all { usize::MAX } else { FINDINGS };
    for (index, finding) in report.findings.iter().enumerate().take(shown) {
        let (evidence, list) = findings::evidence_and_list(finding);
        if report.verdict.is_finding(index) {
            page.title("Evidence");
            page.line(&evidence);
        } else {
            page.gap();
            page.wrap("", "", &format!("Also: {}", findings::sentence(finding)));
            page.line(&format!("Evidence: {evidence}"));
        }
        for of in &list {
            page.wrap("  - ", "    ", of);
        }
    }
    let more = report.findings.len().saturating_sub(shown);
    if more > 0 {
        let number = plural(more as u64, "finding", "findings");
        page.line(&format!("… {number} more (--all)"));
    }
    crate::recommendations::what_to_do(report, page);
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
        .process
        .rank
        .map_or(format!("pid {}", tables::pid::shown(of.process.pid)), |r| {
            format!("rank {r}")
        });
    let same =
        |r: &&RankRow| (&r.process.host, r.process.pid) == (&of.process.host, of.process.pid);
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
    (format!("{name} on {}", of.process.host), how)
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
        ("Why calls are not counted", words::UNSEEN),
        ("Why calls are not timed", words::UNTIMED),
    ] {
        page.title(title);
        for Word { name, text } in words {
            page.wrap(&format!("  {name:<17}"), &" ".repeat(19), text);
        }
    }
}
