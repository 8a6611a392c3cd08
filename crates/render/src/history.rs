//! Many runs as text and as JSON: who was to blame again and again.

use crate::layout::{plural, Look, Page, Style, Table};
use analyze::findings::Kind;
use analyze::history::{History, HistoryRun, Part, Suspect};
use analyze::spelling::{capital, percent, time, word};
use std::io::{Result, Write};

/// The JSON Schema of [`json`].
pub const SCHEMA: &str = include_str!("../schema/history-1.json");

/// Suspects that are shown.
const SUSPECTS: usize = 12;
/// Runs that are shown.
const RUNS: usize = 20;
/// Names in one cell.
const NAMES: usize = 3;

/// Writes it as JSON.
///
/// # Errors
/// Those of `out`.
pub fn json(history: &History, out: &mut impl Write) -> Result<()> {
    crate::json::pretty(history, out)
}

/// Writes it as a page of text.
///
/// # Errors
/// Those of `out`.
pub fn text(history: &History, all: bool, look: Look, out: &mut impl Write) -> Result<()> {
    let mut page = Page::new(look, all);
    let style = match history.culprit {
        Some(_) => Style::Bad,
        None if history.suspects.is_empty() && unjudged(history) == 0 => Style::Good,
        None => Style::Open,
    };
    page.styled(style, &sentence(history));
    suspects(history, &mut page);
    runs(&history.runs, &mut page);
    let blamed = history.culprit.map(|index| &history.suspects[index]);
    let blamed = blamed.or(history.suspects.first());
    let last = blamed.and_then(|suspect| suspect.captures.last());
    if let Some(capture) = last.or(history.runs.last().map(|run| &run.capture)) {
        page.gap();
        page.next(&format!("ncclscope report {}", word(capture)));
    }
    page.finish(out)
}

/// Who it was, and what that means.
pub fn sentence(history: &History) -> String {
    let runs = plural(history.runs.len() as u64, "run", "runs");
    if let Some(index) = history.culprit {
        return culprit(&history.suspects[index]);
    }
    let unknown = unjudged(history);
    match history.suspects.first() {
        None if unknown > 0 => format!(
            "Nobody is known to be to blame: of {unknown} of {runs}, the report can't say which rank is late."
        ),
        None => format!("Nobody is to blame: no rank, host, GPU or link cost time in {runs}."),
        Some(most) if most.named() == 1 => {
            format!("No culprit: nobody was to blame in more than one of {runs}.")
        }
        Some(most) => format!(
            "No culprit: {} {} to blame most often, in {} of {} runs, and chance alone blames somebody so \
             often in {} of all histories. More runs tell, best with ranks on other nodes.",
            name(most),
            if most.at_most == 0 { "was" } else { "may be" },
            most.named(),
            most.present,
            percent(most.chance_p)
        ),
    }
}

/// Runs whose reports can't name a late rank.
fn unjudged(history: &History) -> usize {
    history.runs.iter().filter(|run| !run.is_judged).count()
}

fn culprit(of: &Suspect) -> String {
    let cost = match of.loss_us.zip(of.share) {
        Some((loss, share)) => {
            format!(" It cost {}, {} of their time.", time(loss), percent(share))
        }
        None => String::new(),
    };
    let ranks: Vec<String> = of.ranks.iter().map(u32::to_string).collect();
    let means = match (of.part, of.moved()) {
        (Part::Rank, true) => format!(
            "The rank was on {}, so look at what this rank runs and reads, not at a node.",
            few(&of.hosts, " and ")
        ),
        (Part::Host | Part::Gpu, true) => format!(
            "Ranks {} were there, so look at this {}, not at what a rank runs.",
            few(&ranks, " and "),
            if of.part == Part::Gpu { "GPU" } else { "node" }
        ),
        (Part::Link, _) => {
            "Look at the network cards, cables and switches between these hosts.".to_owned()
        }
        (Part::Rank, false) => format!(
            "The rank was always on {}: run once with the ranks on other nodes, to tell the rank from the \
             node.",
            few(&of.hosts, " and ")
        ),
        (Part::Host | Part::Gpu, false) => format!(
            "Rank {} was always there: run once with the ranks on other nodes, to tell the rank from the \
             node.",
            few(&ranks, " and ")
        ),
    };
    let who = capital(name(of));
    let most = of.at_most_us.map_or("-".to_owned(), time);
    match (of.blamed, of.at_most) {
        (blamed, 0) => format!(
            "{who} was to blame in {blamed} of the {} runs that it was in.{cost} {means}",
            of.present
        ),
        (0, named) => format!(
            "{who} may be to blame in {named} of the {} runs that it was in: it cost {most} at most. Their \
             reports know no more. {means}",
            of.present
        ),
        (blamed, named) => format!(
            "{who} was to blame in {blamed} of the {} runs that it was in.{cost} It may be to blame in \
             {named} more, which it cost {most} at most. {means}",
            of.present
        ),
    }
}

/// `rank 3`, `host n1`.
fn name(of: &Suspect) -> String {
    let unknown = || "?".to_owned();
    let host = of.host.clone().unwrap_or_else(unknown);
    match of.part {
        Part::Rank => format!(
            "rank {}",
            of.rank.map_or_else(unknown, |rank| rank.to_string())
        ),
        Part::Host => format!("host {host}"),
        Part::Gpu => format!("GPU {} of {host}", of.gpu.as_deref().map_or("?", short)),
        Part::Link => format!(
            "the link from {host} to {}",
            of.peer_host.as_deref().unwrap_or("?")
        ),
    }
}

/// The first digits of a UUID, as people compare them.
fn short(gpu: &str) -> &str {
    gpu.get(..8).unwrap_or(gpu)
}

/// The first names, and how many more there are.
fn few(names: &[String], last: &str) -> String {
    match names {
        [] => "?".to_owned(),
        [one] => one.clone(),
        [all @ .., end] if names.len() <= NAMES => format!("{}{last}{end}", all.join(", ")),
        _ => format!(
            "{} and {} more",
            names[..NAMES].join(", "),
            names.len() - NAMES
        ),
    }
}

fn suspects(history: &History, page: &mut Page) {
    if history.suspects.is_empty() {
        return;
    }
    page.title(
        "Suspects (most runs first; lost: the largest finding of each run; chance: to blame any so often)",
    );
    let has_limits = history.suspects.iter().any(|of| of.at_most > 0);
    let heads = [
        "suspect",
        "blamed_in",
        "runs_of_it",
        "lost",
        "of_time",
        "chance",
        "findings",
    ];
    let limits = ["at_most_in", "at_most"];
    let heads = heads
        .into_iter()
        .chain(limits.into_iter().filter(|_| has_limits));
    let mut table = Table::new(heads, if has_limits { "<>>>>><>>" } else { "<>>>>><" });
    for of in &history.suspects {
        let kinds: Vec<String> = of
            .kinds
            .iter()
            .copied()
            .map(Kind::name)
            .map(str::to_owned)
            .collect();
        let cells = [
            name(of),
            of.blamed.to_string(),
            of.present.to_string(),
            of.loss_us.map_or("-".to_owned(), time),
            of.share.map_or("-".to_owned(), percent),
            percent(of.chance_p),
            if kinds.is_empty() {
                "-".to_owned()
            } else {
                few(&kinds, ", ")
            },
        ];
        let limits = [
            of.at_most.to_string(),
            of.at_most_us.map_or("-".to_owned(), time),
        ];
        table.row(
            cells
                .into_iter()
                .chain(limits.into_iter().filter(|_| has_limits)),
        );
    }
    page.table(&table, SUSPECTS, "suspects");
}

fn runs(runs: &[HistoryRun], page: &mut Page) {
    page.title("Runs (oldest first)");
    let has_limits = runs.iter().any(|run| run.at_most_us.is_some());
    let heads = ["capture", "began", "nranks", "took", "blamed", "lost"];
    let limits = ["named", "at_most"];
    let heads = heads
        .into_iter()
        .chain(limits.into_iter().filter(|_| has_limits));
    let mut table = Table::new(heads, if has_limits { "<<>><><>" } else { "<<>><>" });
    let names = |ranks: &[u32]| {
        let ranks: Vec<String> = ranks.iter().map(|rank| format!("rank {rank}")).collect();
        if ranks.is_empty() {
            "-".to_owned()
        } else {
            few(&ranks, ", ")
        }
    };
    for run in runs {
        let limits = [
            names(&run.named),
            run.at_most_us.map_or("-".to_owned(), time),
        ];
        let cells = [
            run.capture.clone(),
            run.started.clone().unwrap_or_else(|| "-".to_owned()),
            run.nranks.to_string(),
            run.wall_us.map_or("-".to_owned(), time),
            names(&run.blamed),
            run.loss_us.map_or("-".to_owned(), time),
        ];
        table.row(
            cells
                .into_iter()
                .chain(limits.into_iter().filter(|_| has_limits)),
        );
    }
    page.table(&table, RUNS, "runs");
}
