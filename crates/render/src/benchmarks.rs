//! Two tables of benchmarks beside each other, as text and as JSON (`schema/bench-diff-1.json`).
//!
//! Rule: the first sentence says which one is slower, for which messages, and by how much; or that nothing
//! shows it.

use crate::efficiency::{named, ShareRow};
use crate::layout::{Look, Page, Style, Table};
use analyze::benchmarks::{
    BenchmarkDiff, BenchmarkPair, BenchmarkRun, BenchmarkSide, BestShare, Messages, Part, Said,
};
use analyze::spelling::{percent, plural, size, three};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{Result, Write};

/// The JSON Schema of [`json`].
pub const SCHEMA: &str = include_str!("../schema/bench-diff-1.json");
/// The format.
const FORMAT: &str = "ncclscope.bench-diff/1";
/// Rows that are printed unless all are asked for.
const ROWS: usize = 40;
/// Sizes with wrong data that are named.
const NAMED: usize = 3;

/// What `ncclscope diff A.txt B.txt --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct BenchDiffJson<'a> {
    schema: &'static str,
    /// The first sentence of the text.
    summary: String,
    /// The first log.
    a: SideRow<'a>,
    /// The second log.
    b: SideRow<'a>,
    #[serde(flatten)]
    diff: &'a BenchmarkDiff,
}

/// What is known of one table.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BenchmarkSide")]
struct SideRow<'a> {
    #[serde(flatten)]
    side: &'a BenchmarkSide,
    /// The size at which it comes closest to a ceiling; null without --ceiling.
    best: Option<BestRow<'a>>,
}

/// How close a table comes to a ceiling.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BestShare")]
struct BestRow<'a> {
    #[serde(flatten)]
    best: &'a BestShare,
    /// The ceiling.
    ceiling: ShareRow,
}

impl SideRow<'_> {
    fn of(side: &BenchmarkSide) -> SideRow<'_> {
        let best = |best| BestRow {
            best,
            ceiling: ShareRow::of(&best.ceiling),
        };
        SideRow {
            side,
            best: side.best.as_ref().map(best),
        }
    }
}

/// Writes it as JSON.
///
/// # Errors
/// Those of `out`.
pub fn json(diff: &BenchmarkDiff, out: &mut impl Write) -> Result<()> {
    let printed = BenchDiffJson {
        schema: FORMAT,
        summary: summary(diff),
        a: SideRow::of(&diff.a),
        b: SideRow::of(&diff.b),
        diff,
    };
    crate::json::pretty(&printed, out)
}

/// Writes it as text; `all` leaves no row out.
///
/// # Errors
/// Those of `out`.
pub fn text(diff: &BenchmarkDiff, all: bool, look: Look, out: &mut impl Write) -> Result<()> {
    let mut page = Page::new(look, all);
    let is_slower = diff.parts.iter().any(|part| part.said == Said::Slower);
    let style = if is_slower { Style::Bad } else { Style::Good };
    page.styled(style, &summary(diff));
    if let Some(sentence) = against(diff) {
        page.line(&sentence);
    }
    for (name, side) in [("A", &diff.a), ("B", &diff.b)] {
        page.line(&about(name, side));
        for said in notes(&side.run) {
            page.line(&format!("{name}: {said}"));
        }
    }
    if diff.rows.is_empty() {
        return page.finish(out);
    }
    page.line(
        "Both are one run. How far runs differ from start to start is not known: repeat each run before you \
        act on a small difference.",
    );
    parts(diff, &mut page);
    rows(diff, &mut page);
    page.finish(out)
}

/// The first sentence.
pub fn summary(diff: &BenchmarkDiff) -> String {
    if diff.rows.is_empty() {
        return "Nothing can be compared: no row has the same function, datatype, size and number of ranks \
            in both."
            .to_owned();
    }
    let of =
        |said: Said| -> Vec<&Part> { diff.parts.iter().filter(|part| part.said == said).collect() };
    let mut all = Vec::new();
    let several = diff.parts.iter().any(|part| {
        (&part.function, part.nranks) != (&diff.parts[0].function, diff.parts[0].nranks)
    });
    for (said, word) in [(Said::Slower, "slower"), (Said::Faster, "faster")] {
        let mut found = of(said);
        found.sort_by(|x, y| y.ratio.ln().abs().total_cmp(&x.ratio.ln().abs()));
        let part = |part: &&&Part| format!("for {}: {}", messages(part, several), by(part));
        if !found.is_empty() {
            // The small and the large messages of one function.
            let mut parts: Vec<String> = found.iter().take(2).map(|of| part(&of)).collect();
            if let Some(more) = found.len().checked_sub(2).filter(|more| *more > 0) {
                parts.push(format!("for {} more", plural(more as u64, "part", "parts")));
            }
            all.push(format!("{word} than A {}", parts.join(", and ")));
        }
    }
    let others = of(Said::Same);
    match (all.is_empty(), others.first()) {
        (true, Some(_)) => {
            let spread: Vec<String> = others.iter().map(|part| within(part, several)).collect();
            format!(
                "Nothing shows that B is slower or faster than A: {}.",
                spread.join("; ")
            )
        }
        (true, None) => "There are too few sizes in both to say which one is slower.".to_owned(),
        (false, same) => {
            let same = same.map_or(String::new(), |part| {
                format!(
                    ". For {} nothing shows a difference",
                    messages(part, several)
                )
            });
            format!("B is {}{same}.", all.join("; "))
        }
    }
}

/// `messages from 1 MiB on`
fn messages(part: &Part, several: bool) -> String {
    let of = match (&part.function, several) {
        (Some(function), true) => match part.nranks {
            Some(n) => format!("{function} over {n} ranks, "),
            None => format!("{function}, "),
        },
        _ => String::new(),
    };
    match part.messages {
        Messages::Small => format!("{of}small messages (up to {})", size(part.to_bytes)),
        Messages::Large => format!("{of}large messages (from {} on)", size(part.from_bytes)),
    }
}

/// `calls take 12.3 % longer (95 % interval 11.8 to 12.8 %, 9 sizes)`
fn by(part: &Part) -> String {
    let is_slower = part.ratio > 1.0;
    let share = |ratio: f64| if is_slower { ratio - 1.0 } else { 1.0 - ratio };
    let (mut low, mut high) = (
        part.ratio_low.map(share).unwrap_or_default(),
        part.ratio_high.map(share).unwrap_or_default(),
    );
    if low > high {
        std::mem::swap(&mut low, &mut high);
    }
    format!(
        "calls take {} {} (95 % interval {} to {}, {})",
        percent(share(part.ratio)),
        if is_slower { "longer" } else { "less time" },
        percent(low),
        percent(high),
        plural(part.sizes, "size", "sizes")
    )
}

/// `small messages (up to 64 KiB) take 0.99 to 1.02 times as long`
fn within(part: &Part, several: bool) -> String {
    let ends = part.ratio_low.zip(part.ratio_high);
    let (low, high) = ends.unwrap_or((part.ratio, part.ratio));
    format!(
        "{} take {low:.3} to {high:.3} times as long",
        messages(part, several)
    )
}

/// How close both come to the ceiling.
fn against(diff: &BenchmarkDiff) -> Option<String> {
    let of = |name: &str, side: &BenchmarkSide| {
        let best = side.best.as_ref()?;
        Some(format!(
            "{name} reaches {} of {} GB/s ({}) with {} of {}",
            percent(best.ceiling.share),
            three(best.ceiling.ceiling_gb_per_s),
            named(&best.ceiling.named),
            best.function,
            size(best.bytes)
        ))
    };
    let best = match (of("A", &diff.a), of("B", &diff.b)) {
        (Some(a), Some(b)) => format!("At its best, {a}; {b}."),
        (Some(one), None) | (None, Some(one)) => format!("At its best, {one}."),
        (None, None) if diff.has_ceiling => {
            "How much they reach of the ceiling is not known: it is of other functions, sizes or ranks, or \
             the logs do not say which function ran."
                .to_owned()
        }
        (None, None) => return None,
    };
    // Rounded figures may be a little above.
    let is_above =
        |side: &&BenchmarkSide| side.best.as_ref().is_some_and(|of| of.ceiling.share > 1.02);
    let above = [&diff.a, &diff.b].into_iter().find(is_above);
    let Some(of) = above.and_then(|side| side.best.as_ref()) else {
        return Some(best);
    };
    Some(format!(
        "{best} More than {} GB/s was reached, so that is not the ceiling of these runs.",
        three(of.ceiling.ceiling_gb_per_s)
    ))
}

/// `A: old.txt, 8 x NVIDIA H100, NCCL 2.28.9, average bus bandwidth 40.1 GB/s`
fn about(name: &str, side: &BenchmarkSide) -> String {
    let run = &side.run;
    let mut parts = vec![run.file.clone()];
    parts.extend(run.gpus.iter().cloned());
    parts.extend(run.nccl.as_ref().map(|nccl| format!("NCCL {nccl}")));
    let average = run.average_gb_per_s;
    parts.extend(average.map(|gb| format!("average bus bandwidth {gb} GB/s as printed")));
    if side.alone > 0 {
        let sizes = plural(side.alone, "row", "rows");
        parts.push(format!("{sizes} that the other one lacks"));
    }
    format!("{name}: {}", parts.join(", "))
}

/// What is wrong with a table.
fn notes(run: &BenchmarkRun) -> Vec<String> {
    let mut notes = run.about.clone();
    if let Some(first) = run.wrong_sizes.first() {
        let named: Vec<String> = run
            .wrong_sizes
            .iter()
            .take(NAMED)
            .map(|bytes| size(*bytes))
            .collect();
        let more = if run.wrong_sizes.len() > NAMED {
            ", …"
        } else {
            ""
        };
        notes.push(format!(
            "wrong data at {} from {} on ({}{more}), which are left out",
            plural(run.wrong_sizes.len() as u64, "size", "sizes"),
            size(*first),
            named.join(", ")
        ));
    }
    notes
}

fn parts(diff: &BenchmarkDiff, page: &mut Page) {
    let names = [
        "function", "ranks", "bound_by", "sizes", "n_sizes", "B/A", "B/A_low", "B/A_high",
    ];
    let mut table = Table::new(names, "<><<>>>>");
    let ratio = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
    for part in &diff.parts {
        table.row([
            part.function.clone().unwrap_or_else(|| "-".to_owned()),
            part.nranks.map_or("-".to_owned(), |n| n.to_string()),
            match part.messages {
                Messages::Small => "latency",
                Messages::Large => "bandwidth",
            }
            .to_owned(),
            format!("{} to {}", size(part.from_bytes), size(part.to_bytes)),
            part.sizes.to_string(),
            ratio(Some(part.ratio)),
            ratio(part.ratio_low),
            ratio(part.ratio_high),
        ]);
    }
    page.title("Time of B by that of A (bound by latency: up to twice the shortest time of A)");
    page.table(&table, ROWS, "parts");
}

fn rows(diff: &BenchmarkDiff, page: &mut Page) {
    let names = [
        "function", "ranks", "size", "type", "A_us", "B_us", "B/A", "A_busbw", "B_busbw", "A_%",
        "B_%",
    ];
    let mut table = Table::new(names, "<>><>>>>>>>");
    table.squeeze = &["type", "ranks"];
    let figure = |value: Option<f64>| value.map_or("-".to_owned(), three);
    for row in &diff.rows {
        let BenchmarkPair {
            function, nranks, ..
        } = row;
        table.row([
            function.clone().unwrap_or_else(|| "-".to_owned()),
            nranks.map_or("-".to_owned(), |n| n.to_string()),
            size(row.bytes),
            row.datatype.clone(),
            three(row.a_us),
            three(row.b_us),
            format!("{:.3}", row.ratio),
            figure(row.a_busbw_gb_per_s),
            figure(row.b_busbw_gb_per_s),
            figure(row.a_share.map(|share| 100.0 * share)),
            figure(row.b_share.map(|share| 100.0 * share)),
        ]);
    }
    page.title("Sizes (mean time of both sides in µs, bus bandwidth of the better side in GB/s)");
    page.table(&table, ROWS, "sizes");
}
