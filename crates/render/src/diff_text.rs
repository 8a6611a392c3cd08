//! A diff as plain text.

use crate::diff_words;
use crate::findings::{self, sentence};
use crate::layout::{plural, Look, Page, Style, Table, Unit};
use crate::recommendations::RecommendationRow;
use analyze::diff::{
    Diff, DiffFinding, DiffNote, FigureRow, KindOfOperation, RunRow, Side, Status, Total, Variants,
    LEAST_CHANGE,
};
use analyze::environment::{Change, FactKind};
use analyze::interval::LEAST_OPERATIONS;
use analyze::spelling::{datatype, percent, size, three, time, word};
use std::io::{Result, Write};

/// Rows of a table unless all are asked for.
const ROWS: usize = 16;
/// Rows of the kinds of operations.
const FEW: usize = 8;

/// Writes `diff` as text; with `all`, every row of every table.
///
/// # Errors
/// Those of `out`.
pub fn write(diff: &Diff, all: bool, look: Look, out: &mut impl Write) -> Result<()> {
    let mut page = Page::new(look, all);
    body(diff, &mut page)?;
    page.finish(out)
}

fn body(diff: &Diff, page: &mut Page) -> Result<()> {
    page.styled(verdict_style(diff), &findings::changed(&diff.changed));
    page.gap();
    run("A", &diff.a, page);
    run("B", &diff.b, page);
    whole(diff, page);
    environment(diff, page);
    findings(diff, page);
    recommendations(diff, page);
    verdict(diff, page);
    operations(diff, page);
    communicators(diff, page);
    page.title("Notes");
    page.line(&format!(
        "{}. Brackets are {:.0} % intervals. `slower` and `faster` hold for all kinds together (Holm).",
        diff.definition,
        diff.confidence * 100.0
    ));
    diff.notes.iter().for_each(|of| page.line(&note(of)));
    page.gap();
    page.styled(Style::Title, &findings::changed(&diff.changed));
    page.next(&format!("ncclscope report {}", word(&diff.b.capture)));
    Ok(())
}

/// How the verdict looks: whether a run did not come to its end, or a step, or the run, takes longer.
fn verdict_style(diff: &Diff) -> Style {
    let stopped = |of: &RunRow| {
        let mut findings = of.findings.iter();
        findings.any(|finding| finding.kind().is_broken())
    };
    if stopped(&diff.a) || stopped(&diff.b) {
        return Style::Bad;
    }
    let time = |row: &&FigureRow| matches!(row.figure, "step_us" | "wall_us");
    let both = diff
        .run
        .iter()
        .filter(time)
        .find_map(|row| row.a.zip(row.b));
    match both {
        None => Style::Open,
        Some((a, b)) if b > a * (1.0 + LEAST_CHANGE) => Style::Bad,
        Some(_) => Style::Good,
    }
}

/// A figure of a run, for people.
pub(crate) fn figure(name: &str, value: Option<f64>) -> String {
    let Some(value) = value else {
        return "-".to_owned();
    };
    match name {
        "step_us" | "wall_us" => time(value),
        "exposed_share" | "waiting_share" => percent(value),
        "energy_j" | "step_energy_j" => crate::nodes::joules(value),
        _ => format!("{} GB/s", three(value)),
    }
}

/// What a figure is called on a page.
pub(crate) fn figure_name(name: &str) -> &'static str {
    match name {
        "step_us" => "step",
        "wall_us" => "wall",
        "exposed_share" => "exposed",
        "waiting_share" => "waiting",
        "energy_j" => "energy",
        "step_energy_j" => "step energy",
        _ => "busbw",
    }
}

/// By how much a figure changed: a time or a bandwidth by a part, a share by points.
pub(crate) fn figure_change(row: &FigureRow) -> String {
    let Some((a, b)) = row.a.zip(row.b) else {
        return "-".to_owned();
    };
    match row.figure {
        "exposed_share" | "waiting_share" => format!("{:+.1} points", 100.0 * (b - a)),
        _ if a > 0.0 => format!("{:+.1} %", 100.0 * (b / a - 1.0)),
        _ => "-".to_owned(),
    }
}

/// The runs as a whole.
fn whole(diff: &Diff, page: &mut Page) {
    let mut table = Table::new(["figure", "A", "B", "change"], "<>>>");
    for row in &diff.run {
        table.row([
            figure_name(row.figure).to_owned(),
            figure(row.figure, row.a),
            figure(row.figure, row.b),
            figure_change(row),
        ]);
    }
    let meaning = |row: &FigureRow| match row.figure {
        "step_us" => Some("step: mean"),
        "exposed_share" => Some("exposed: of the rank that has most"),
        "waiting_share" => Some("waiting: of the time in NCCL"),
        "busbw_gb_per_s" => Some("busbw: of the operation that moved most bytes"),
        _ => None,
    };
    let meanings: Vec<&str> = diff.run.iter().filter_map(meaning).collect();
    page.title(&if meanings.is_empty() {
        "The run".to_owned()
    } else {
        format!("The run ({})", meanings.join("; "))
    });
    page.table(&table, usize::MAX, "figures");
}

fn findings(diff: &Diff, page: &mut Page) {
    let all = [
        (&diff.new_findings, "New in B"),
        (&diff.gone_findings, "Gone since A"),
    ];
    if all.iter().all(|(list, _)| list.is_empty()) {
        page.gap();
        page.wrap("", "", "No finding is new or gone.");
    }
    for (list, title) in all.into_iter().filter(|(list, _)| !list.is_empty()) {
        page.title(title);
        for finding in list {
            page.line(&sentence(finding));
        }
    }
    if !diff.moved_findings.is_empty() {
        page.title("In both, on other nodes or ranks");
    }
    for of in &diff.moved_findings {
        page.line(&findings::moved(of));
    }
}

/// What became of what the report on A recommends.
fn recommendations(diff: &Diff, page: &mut Page) {
    if diff.recommendations.is_empty() {
        return;
    }
    page.title("What the report on A recommends, and what became of it in B");
    for of in &diff.recommendations {
        let gain = crate::recommendations::gain(of);
        let row = RecommendationRow::of(of);
        page.line(&format!(
            "{}: {} ({}) {gain}",
            of.status.name(),
            row.action,
            row.subject
        ));
    }
}

fn run(name: &str, run: &RunRow, page: &mut Page) {
    page.wrap("", "     ", &format!("{name}  {}", run.capture));
    // Where commands differ, the environment says so.
    if let Some(command) = run.command.as_ref().filter(|_| page.all) {
        page.wrap("     ", "       ", &crate::text::clipped(command));
    }
    let least = if run.is_least || run.missing_at_least > 0 {
        "at least "
    } else {
        ""
    };
    let line = format!(
        "{} on {}; NCCL {}; {}; {} of {least}{} announced calls recorded",
        plural(run.nprocesses as u64, "process", "processes"),
        plural(run.nhosts as u64, "host", "hosts"),
        crate::text::some(&run.nccl),
        crate::text::some(&run.recording),
        run.recorded,
        run.announced.saturating_add(run.missing_at_least)
    );
    page.wrap("     ", "       ", &line);
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Passed => "passed",
        Status::Failed => "failed",
        Status::Undecided => "undecided",
    }
}

/// What limits the comparison.
pub(crate) fn note(of: &DiffNote) -> String {
    match of {
        DiffNote::NoiseWithin => {
            "An interval knows the noise within these two runs only. What differs from start to start \
             (placement, clocks, other jobs) shows when two equal runs are compared."
                .to_owned()
        }
        DiffNote::SeveralJobs(which, jobs) => format!(
            "{which:?} holds {jobs} jobs in one folder, and its figures mix them: move the files of each \
             into a folder of its own."
        ),
        DiffNote::GpuTimes => {
            "GPU time is from a rank's start to its stop and includes waiting for ranks that come later."
                .to_owned()
        }
        DiffNote::HostTimes => {
            "Host time is from API entry to return: it says what the calls cost the program, not how long \
             the operations took."
                .to_owned()
        }
        DiffNote::TimingOff(off) => {
            let off: Vec<String> = off.iter().map(|which| format!("{which:?}")).collect();
            format!(
                "GPU timing was off in {} (NCCLSCOPE_TIMING=host). Unset it to record GPU times.",
                off.join(" and ")
            )
        }
        DiffNote::Few(kinds) => format!(
            "Kinds with less than {LEAST_OPERATIONS} operations after the first in a run have no interval \
             and no finding: {kinds}."
        ),
        DiffNote::WithoutRows(kinds) => format!(
            "Kinds with calls that were counted without rows have no interval and no finding: {kinds}. \
             NCCLSCOPE_MODE=trace keeps rows."
        ),
        DiffNote::FallenBack(kinds) => format!(
            "Kinds with GPU times in A and none in B, so compared by host time: {kinds}. `ncclscope report` \
             on B says why."
        ),
        DiffNote::Incomplete(which, lacks) => {
            let lacks: Vec<String> = lacks.iter().map(diff_words::lack).collect();
            format!("{which:?} is not complete: {}.", lacks.join(", "))
        }
        DiffNote::ReplaysHidden(which) => format!(
            "Replays of CUDA graphs do not show in {which:?}, so what they did is not compared."
        ),
    }
}

fn verdict(diff: &Diff, page: &mut Page) {
    let Some(whole) = diff.verdict.status else {
        return;
    };
    page.title(&format!("Verdict: {}", status(whole)));
    let shown = if page.all { usize::MAX } else { ROWS };
    for judgement in &diff.verdict.criteria {
        page.line(&format!(
            "{}: {}",
            judgement.fail_on,
            status(judgement.status)
        ));
        for reason in judgement.reasons.iter().take(shown) {
            page.wrap("    ", "      ", &diff_words::reason(reason));
        }
        let more = judgement.reasons.len().saturating_sub(shown);
        if more > 0 {
            page.wrap("    ", "    ", &format!("… {more} more (--all)"));
        }
    }
}

fn environment(diff: &Diff, page: &mut Page) {
    if diff.environment.is_empty() {
        page.gap();
        return page.wrap("", "", "Nothing changed in the environment.");
    }
    page.title("Environment (what changed, A -> B)");
    // A variable that somebody set is what a reader looks for, so none is left out.
    let is_variable = |change: &&Change| change.kind == FactKind::Variable;
    let shown = if page.all { usize::MAX } else { ROWS };
    let mut others = 0;
    for change in &diff.environment {
        others += usize::from(!is_variable(&change));
        if is_variable(&change) || others <= shown {
            page.line(&changed_on(page, change));
        }
    }
    let more = others.saturating_sub(shown);
    if more > 0 {
        page.line(&format!("… {more} more (--all)"));
    }
}

/// A change as a page says it: without `--all`, the ids of GPUs are not spelled out.
fn changed_on(page: &Page, change: &Change) -> String {
    if change.key == "GPU ids" && !page.all {
        "GPU ids: other GPUs (--all)".to_owned()
    } else {
        changed(change)
    }
}

/// `NCCL_ALGO: not set -> RING`; of long values, what differs.
pub(crate) fn changed(change: &Change) -> String {
    let value =
        |value: &Option<String>| value.clone().unwrap_or_else(|| change.missing().to_owned());
    let (a, b) = (value(&change.a), value(&change.b));
    let (short_a, short_b) = apart(&a, &b);
    format!("{}: {short_a} -> {short_b}", change.key)
}

/// Two texts without the words at their begin that they share, if these are many.
fn apart(a: &str, b: &str) -> (String, String) {
    const LONG: usize = 40;
    let (words_a, words_b): (Vec<&str>, Vec<&str>) =
        (a.split(' ').collect(), b.split(' ').collect());
    let same = words_a
        .iter()
        .zip(&words_b)
        .take_while(|(a, b)| a == b)
        .count();
    let shared: usize = words_a[..same].iter().map(|word| word.len() + 1).sum();
    if shared < LONG {
        return (a.to_owned(), b.to_owned());
    }
    let rest = |words: &[&str]| match words.get(same..) {
        Some(rest) if !rest.is_empty() => format!("… {}", rest.join(" ")),
        _ => "…".to_owned(),
    };
    (rest(&words_a), rest(&words_b))
}

fn communicators(diff: &Diff, page: &mut Page) {
    if diff.communicators.is_empty() {
        page.gap();
        return page.wrap("", "", "No communicator was made.");
    }
    // One that both have needs no row.
    let plain = diff.communicators.len() == 1 && diff.communicators[0].paired_by.is_some();
    if plain && !page.all {
        return;
    }
    let names = [
        "role",
        "nranks",
        "nodes",
        "A",
        "B",
        "name",
        "members",
        "paired_by",
    ];
    let mut table = Table::new(names, ">>>>><<<");
    table.squeeze = &["nodes", "paired_by", "name"];
    for role in &diff.communicators {
        let known = |n: Option<u32>| n.map_or("-".to_owned(), |n| n.to_string());
        let nodes = match role.nnodes {
            [Some(a), Some(b)] if a != b => format!("{a} -> {b}"),
            [a, b] => known(a.or(b)),
        };
        table.row([
            role.role.to_string(),
            known(role.nranks),
            nodes,
            role.a.len().to_string(),
            role.b.len().to_string(),
            role.name.clone().unwrap_or_else(|| "-".to_owned()),
            ranges(&role.members),
            role.paired_by.unwrap_or("no partner").to_owned(),
        ]);
    }
    page.title(
        "Communicators by role (A and B count them, members are one's; hashes differ from run to run)",
    );
    page.table(&table, ROWS, "roles");
}

/// `0-3,8`.
fn ranges(ranks: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*rank) => *last = *rank,
            _ => parts.push((*rank, *rank)),
        }
    }
    let mut text: Vec<String> = parts
        .iter()
        .take(6)
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect();
    if parts.len() > 6 {
        text.push("…".to_owned());
    }
    if text.is_empty() {
        return "-".to_owned();
    }
    text.join(",")
}

pub(crate) fn finding(finding: DiffFinding) -> &'static str {
    match finding {
        DiffFinding::Slower => "slower",
        DiffFinding::Faster => "faster",
        DiffFinding::NoneFound => "no change found",
        DiffFinding::Unknown => "-",
        DiffFinding::Appeared => "only in B",
        DiffFinding::Vanished => "only in A",
    }
}

/// `+46.1 % [+40, +52]`; a part that is more than twice is a factor: `×3.14`.
pub(crate) fn with_interval(value: Option<f64>, interval: Option<[f64; 2]>) -> String {
    let number = |percent: f64| match percent {
        p if p >= 100.0 => format!("×{}", three(1.0 + p / 100.0)),
        // Neither -0.0 nor more digits than help.
        p => format!("{p:+.1}%").replace("-0.0%", "+0.0%"),
    };
    match (value, interval) {
        (None, _) => "-".to_owned(),
        (Some(value), None) => number(value),
        (Some(value), Some([low, high])) => {
            format!("{} [{}, {}]", number(value), number(low), number(high))
        }
    }
}

fn operations(diff: &Diff, page: &mut Page) {
    if diff.operations.is_empty() {
        page.gap();
        return page.wrap("", "", "No call was recorded.");
    }
    let names = [
        "function", "size", "type", "role", "time", "mean_A", "mean_B", "change", "finding",
    ];
    let mut means = Table::new(names, "<><>>>>><");
    means.squeeze = &["time", "role", "type", "mean_A", "mean_B"];
    let names = [
        "function", "size", "type", "role", "calls_A", "calls_B", "sum_A", "sum_B", "p50_A",
        "p50_B", "change",
    ];
    let mut sums = Table::new(names, "<><>>>>>>>>");
    sums.squeeze = &["role", "type", "calls_A", "calls_B", "p50_A", "p50_B"];
    let known = |side: &Option<Side>, of: fn(&Side) -> Option<f64>| side.as_ref().and_then(of);
    let each = || diff.operations.iter().flat_map(|row| [&row.a, &row.b]);
    let unit = Unit::of(each().filter_map(|side| known(side, |s| s.mean_us)));
    let of_sums = Unit::of(each().filter_map(|side| known(side, |s| s.sum_us)));
    for row in &diff.operations {
        let first = title(row);
        let mean = |side: &Option<Side>| unit.show(known(side, |s| s.mean_us));
        means.row(first.clone().into_iter().chain([
            row.time_source.unwrap_or("-").to_owned(),
            mean(&row.a),
            mean(&row.b),
            with_interval(row.versus.percent, row.versus.percent_interval),
            finding(row.finding).to_owned(),
        ]));
        let calls = |side: &Option<Side>| {
            side.as_ref()
                .map_or("-".to_owned(), |s| s.calls.to_string())
        };
        let sum = |side: &Option<Side>| of_sums.show(known(side, |s| s.sum_us));
        let p50 = |side: &Option<Side>| unit.show(known(side, |s| s.p50_us));
        sums.row(first.into_iter().chain([
            calls(&row.a),
            calls(&row.b),
            sum(&row.a),
            sum(&row.b),
            p50(&row.a),
            p50(&row.b),
            with_interval(row.versus.p50_ratio.map(|r| (r - 1.0) * 100.0), None),
        ]));
    }
    for total in &diff.totals {
        means.foot.push(total_row(total, &unit).to_vec());
    }
    page.title(&format!(
        "Kinds of operations (largest change of A's total time first; mean {} per call, \
         without each rank's first)",
        unit.name
    ));
    page.table(&means, FEW, "kinds");
    algorithms(diff, page);
    if page.all {
        page.title(&format!(
            "The same in total (sums in {}, warm-up included) and in the middle (p50 in {}; change: of p50)",
            of_sums.name, unit.name
        ));
        page.table(&sums, ROWS, "kinds");
    }
}

/// The row for all kinds together.
fn total_row(total: &Total, unit: &Unit) -> [String; 9] {
    let mean = |sum: f64| unit.show(Some(sum / total.calls as f64));
    [
        "all".to_owned(),
        "-".to_owned(),
        plural(total.kinds as u64, "kind", "kinds"),
        "-".to_owned(),
        total.time_source.to_owned(),
        mean(total.a_us),
        mean(total.b_us),
        with_interval(total.versus.percent, total.versus.percent_interval),
        finding(total.finding).to_owned(),
    ]
}

/// Function, bytes, datatype and role of a kind.
pub(crate) fn title(row: &KindOfOperation) -> [String; 4] {
    [
        row.function.clone().unwrap_or_else(|| "-".to_owned()),
        row.bytes.map_or("-".to_owned(), size),
        row.datatype.as_deref().map_or("-".to_owned(), datatype),
        row.role.map_or("-".to_owned(), |r| r.to_string()),
    ]
}

/// `AllReduce 1 MiB, role 0: RING/LL, 2 channels (10) -> TREE/LL, 2 channels (10)`
pub(crate) fn how_changed(row: &KindOfOperation) -> String {
    let [function, size, _, role] = title(row);
    let how = |side: &Option<Side>| {
        let how = side.iter().flat_map(|s| &s.how);
        let texts: Vec<String> = how.map(|(how, n)| format!("{how} ({n})")).collect();
        texts.join(", ")
    };
    format!(
        "{function} {size}, role {role}: {} -> {}",
        how(&row.a),
        how(&row.b)
    )
}

fn algorithms(diff: &Diff, page: &mut Page) {
    let changed: Vec<&KindOfOperation> = diff.operations.iter().filter(|r| r.how_changed).collect();
    if changed.is_empty() {
        return;
    }
    page.title("Algorithm, protocol or channels changed (calls)");
    let shown = if page.all { usize::MAX } else { ROWS };
    for row in changed.iter().take(shown) {
        page.line(&how_changed(row));
    }
    let more = changed.len().saturating_sub(shown);
    if more > 0 {
        page.line(&format!("… {more} more (--all)"));
    }
}

/// Writes any number of runs side by side, one column for each variant.
///
/// # Errors
/// Those of `out`.
pub fn write_variants(
    variants: &Variants,
    all: bool,
    look: Look,
    out: &mut impl Write,
) -> Result<()> {
    let mut page = Page::new(look, all);
    page.styled(Style::Title, &crate::variants::summary(variants));
    page.gap();
    let letter = |index: usize| letter(index);
    for (index, variant) in variants.variants.iter().enumerate() {
        let runs = match variant.captures.len() {
            1 => String::new(),
            n => format!(" ({n} runs: {})", variant.captures.join(", ")),
        };
        page.wrap(
            "",
            "     ",
            &format!("{}  {}{runs}", letter(index), variant.name),
        );
    }
    side_by_side(variants, &mut page);
    for (index, variant) in variants.variants.iter().enumerate().skip(1) {
        if !variant.differs.is_empty() {
            page.title(&format!(
                "Environment (what changed, A -> {})",
                letter(index)
            ));
            for change in variant.differs.iter().take(ROWS) {
                page.line(&changed_on(&page, change));
            }
        }
    }
    for (index, variant) in variants.variants.iter().enumerate() {
        if !variant.findings.is_empty() {
            page.title(&format!("Findings of {}", letter(index)));
            for finding in &variant.findings {
                page.line(&sentence(finding));
            }
        }
    }
    page.gap();
    page.styled(Style::Title, &crate::variants::summary(variants));
    if let [first, .., last] = variants.variants.as_slice() {
        let [a, b] = [first, last].map(|variant| word(&variant.captures[0]).into_owned());
        page.next(&format!("ncclscope diff {a} {b}"));
    } else if let [only] = variants.variants.as_slice() {
        page.next(&format!("ncclscope report {}", word(&only.captures[0])));
    }
    page.finish(out)
}

/// One line for each figure, with a column for each variant. What the page has no room for goes below.
fn side_by_side(variants: &Variants, page: &mut Page) {
    let cell = |figure_is: &str, best: &Option<usize>, index: usize| {
        let variant = &variants.variants[index];
        let mark = if *best == Some(index) { "*" } else { "" };
        let (low, high) = (variant.low.get(figure_is), variant.high.get(figure_is));
        let half = low.zip(high).map(|(low, high)| (high - low) / 2.0);
        let half = half.map_or(String::new(), |h| {
            format!(" ± {}", figure(figure_is, Some(h)))
        });
        let mean = figure(figure_is, variant.mean.get(figure_is));
        format!("{mark}{mean}{half}")
    };
    let columns: Vec<Vec<String>> = (0..variants.variants.len())
        .map(|index| {
            let figures = variants.best.iter();
            let cells = figures.map(|(figure_is, best)| cell(figure_is, best, index));
            std::iter::once(letter(index)).chain(cells).collect()
        })
        .collect();
    let names = variants.best.iter().map(|(name, _)| figure_name(name));
    let names: Vec<&str> = std::iter::once("figure").chain(names).collect();
    let wide = |cells: &mut dyn Iterator<Item = usize>| 1 + cells.max().unwrap_or(0);
    let first = 1 + wide(&mut names.iter().map(|name| name.chars().count()));
    page.title(
        "The runs (mean over the runs of a variant ± 95 %; * best, beyond every other's interval)",
    );
    let mut rest = columns.as_slice();
    while !rest.is_empty() {
        let mut room = page.width().saturating_sub(first);
        let fits = rest.iter().take_while(|column| {
            let width = wide(&mut column.iter().map(|cell| cell.chars().count()));
            let fits = width <= room;
            room = room.saturating_sub(width);
            fits
        });
        let (shown, below) = rest.split_at(fits.count().clamp(1, rest.len()));
        const ALIGN: &str = "<>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>>";
        let (shown, below) = if shown.len() < ALIGN.len() {
            (shown, below)
        } else {
            rest.split_at(ALIGN.len() - 1)
        };
        let headings = shown.iter().map(|column| column[0].as_str());
        let mut table = Table::new(
            std::iter::once(names[0]).chain(headings),
            &ALIGN[..=shown.len()],
        );
        for (row, name) in names.iter().enumerate().skip(1) {
            // A figure that no run has says nothing.
            if columns.iter().any(|column| column[row] != "-") {
                let cells = shown.iter().map(|column| column[row].clone());
                table.row(std::iter::once((*name).to_owned()).chain(cells));
            }
        }
        if rest.len() < columns.len() {
            page.gap();
        }
        page.whole_table(&table, usize::MAX, "figures");
        rest = below;
    }
}

/// `A` to `Z`, then `V27`.
pub(crate) fn letter(index: usize) -> String {
    match u8::try_from(index) {
        Ok(index) if index < 26 => char::from(b'A' + index).to_string(),
        _ => format!("V{}", index + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_said_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(ranges(&[0, 2, 4, 6, 8, 10, 12, 14]), "0,2,4,6,8,10,…");
        assert_eq!(ranges(&[]), "-");
    }

    #[test]
    fn nothing_is_never_minus_nothing() {
        assert_eq!(
            with_interval(Some(-0.001), Some([-0.1, 0.1])),
            "+0.0% [-0.1%, +0.1%]"
        );
        assert_eq!(with_interval(None, None), "-");
        assert_eq!(with_interval(Some(3438.1), None), "×35.4");
    }

    #[test]
    fn what_two_commands_share_is_said_once() {
        let a = "python3 -u bench/gpu/ddp_densenet.py --batch 256 --steps 40";
        let b = format!("{a} --slow-rank 0");
        assert_eq!(apart(a, &b), ("…".to_owned(), "… --slow-rank 0".to_owned()));
        assert_eq!(
            apart("2.28.9", "2.30.7"),
            ("2.28.9".into(), "2.30.7".into())
        );
    }
}
