//! A diff as plain text, and as JSON in the format of `schema/diff-1.json`.

use crate::layout::{plural, wrap, write_printable, Table};
use analyze::diff::{Diff, Finding, Row, RunRow, Side, Status, Total};
use analyze::spelling::size;
use std::io::{Result, Write};

/// The JSON Schema of a diff.
pub const SCHEMA: &str = include_str!("../schema/diff-1.json");
/// Rows of a table unless all are asked for.
const ROWS: usize = 16;

/// Writes `diff` as JSON, indented, with a newline at its end.
///
/// # Errors
/// Those of `out`.
pub fn write_json(diff: &Diff, out: &mut impl Write) -> Result<()> {
    crate::json::pretty(diff, out)
}

/// Writes `diff` as text; with `all`, every row of every table.
///
/// # Errors
/// Those of `out`.
pub fn write(diff: &Diff, all: bool, out: &mut impl Write) -> Result<()> {
    let mut text = Vec::new();
    body(diff, all, &mut text)?;
    write_printable(&text, out)
}

fn body(diff: &Diff, all: bool, out: &mut Vec<u8>) -> Result<()> {
    let shown = if all { usize::MAX } else { ROWS };
    run("A", &diff.a, out)?;
    run("B", &diff.b, out)?;
    writeln!(out, "\n{}.", diff.definition)?;
    let about = format!(
        "Brackets are {:.0} % intervals. `slower` and `faster` hold for all kinds together (Holm).",
        diff.confidence * 100.0
    );
    wrap(out, "", "", &about)?;
    verdict(diff, shown, out)?;
    environment(diff, shown, out)?;
    communicators(diff, shown, out)?;
    operations(diff, shown, out)?;
    writeln!(out, "\nNotes")?;
    for note in &diff.notes {
        wrap(out, "  ", "    ", note)?;
    }
    closing(diff, out)
}

fn run(name: &str, run: &RunRow, out: &mut impl Write) -> Result<()> {
    let list = |values: &[String]| {
        if values.is_empty() {
            "not known".to_owned()
        } else {
            values.join(", ")
        }
    };
    writeln!(out, "{name}  {}", run.capture)?;
    if let Some(command) = &run.command {
        wrap(out, "     ", "       ", &crate::text::clipped(command))?;
    }
    let least = if run.missing_at_least > 0 {
        "at least "
    } else {
        ""
    };
    let line = format!(
        "{} on {}; NCCL {}; {}; {} of {least}{} announced calls recorded",
        plural(run.nprocesses as u64, "process", "processes"),
        plural(run.nhosts as u64, "host", "hosts"),
        list(&run.nccl),
        list(&run.recording),
        run.recorded,
        run.announced.saturating_add(run.missing_at_least)
    );
    wrap(out, "     ", "       ", &line)
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Passed => "passed",
        Status::Failed => "failed",
        Status::Undecided => "undecided",
    }
}

fn verdict(diff: &Diff, shown: usize, out: &mut impl Write) -> Result<()> {
    let Some(whole) = diff.verdict.status else {
        return Ok(());
    };
    writeln!(out, "\nVerdict: {}", status(whole))?;
    for judgement in &diff.verdict.criteria {
        writeln!(out, "  {}: {}", judgement.fail_on, status(judgement.status))?;
        for reason in judgement.reasons.iter().take(shown) {
            wrap(out, "    ", "      ", reason)?;
        }
        if judgement.reasons.len() > shown {
            writeln!(
                out,
                "    … {} more (--all)",
                judgement.reasons.len() - shown
            )?;
        }
    }
    Ok(())
}

fn environment(diff: &Diff, shown: usize, out: &mut impl Write) -> Result<()> {
    if diff.environment.is_empty() {
        return writeln!(out, "\nNothing changed in the environment.");
    }
    writeln!(out, "\nEnvironment (what changed, A -> B)")?;
    for change in diff.environment.iter().take(shown) {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
        let text = format!("{} -> {}", value(&change.a), value(&change.b));
        wrap(out, &format!("  {}: ", change.key), "    ", &text)?;
    }
    if diff.environment.len() > shown {
        writeln!(out, "  … {} more (--all)", diff.environment.len() - shown)?;
    }
    Ok(())
}

fn communicators(diff: &Diff, shown: usize, out: &mut impl Write) -> Result<()> {
    if diff.communicators.is_empty() {
        return writeln!(out, "\nNo communicator was made.");
    }
    writeln!(
        out,
        "\nCommunicators by role (`A` and `B` count them, `members` are one's; hashes differ from run to run)"
    )?;
    let names = [
        "role",
        "nranks",
        "nodes",
        "A",
        "B",
        "name",
        "members",
        "paired by",
    ];
    let mut table = Table::new(names, ">>>>><<<");
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
    table.write(out, shown, "roles")
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
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
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

fn finding(finding: Finding) -> &'static str {
    match finding {
        Finding::Slower => "slower",
        Finding::Faster => "faster",
        Finding::NoneFound => "no change found",
        Finding::Unknown => "-",
        Finding::Appeared => "only in B",
        Finding::Vanished => "only in A",
    }
}

/// µs or ms with as many digits as help.
fn time(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() < 1000.0 => format!("{value:.2}"),
        Some(value) => format!("{value:.1}"),
    }
}

/// `+1.0 [+0.5, +1.5]`.
fn with_interval(value: Option<f64>, interval: Option<[f64; 2]>) -> String {
    let number = |value: f64| {
        // Neither -0.0 nor more digits than a large one needs.
        let (small, large) = (format!("{value:+.2}"), format!("{value:+.1}"));
        let text = if value.abs() < 100.0 { small } else { large };
        if text
            .trim_start_matches(['+', '-'])
            .trim_matches(['0', '.'])
            .is_empty()
        {
            return text.replace('-', "+");
        }
        text
    };
    match (value, interval) {
        (None, _) => "-".to_owned(),
        (Some(value), None) => number(value),
        (Some(value), Some([low, high])) => {
            format!("{} [{}, {}]", number(value), number(low), number(high))
        }
    }
}

fn operations(diff: &Diff, shown: usize, out: &mut impl Write) -> Result<()> {
    if diff.operations.is_empty() {
        return writeln!(out, "\nNo call was recorded.");
    }
    writeln!(
        out,
        "\nKinds of operations (largest change of A's total time first; mean µs per call, without each rank's first)"
    )?;
    let names = [
        "function",
        "bytes",
        "datatype",
        "role",
        "time",
        "mean_A",
        "mean_B",
        "percent",
        "difference",
        "finding",
    ];
    let mut means = Table::new(names, "<><>>>>>><");
    let names = [
        "function", "bytes", "datatype", "role", "calls_A", "calls_B", "sum_A_ms", "sum_B_ms",
        "p50_A", "p50_B", "p50 %",
    ];
    let mut sums = Table::new(names, "<><>>>>>>>>");
    for row in &diff.operations {
        let [function, bytes, datatype, role] = title(row);
        let mean = |side: &Option<Side>| time(side.as_ref().and_then(|s| s.mean_us));
        means.row([
            function.clone(),
            bytes.clone(),
            datatype.clone(),
            role.clone(),
            row.time_source.unwrap_or("-").to_owned(),
            mean(&row.a),
            mean(&row.b),
            with_interval(row.versus.percent, row.versus.percent_interval),
            with_interval(row.versus.difference_us, row.versus.difference_interval_us),
            finding(row.finding).to_owned(),
        ]);
        let calls = |side: &Option<Side>| {
            side.as_ref()
                .map_or("-".to_owned(), |s| s.calls.to_string())
        };
        let sum =
            |side: &Option<Side>| time(side.as_ref().and_then(|s| s.sum_us).map(|us| us / 1e3));
        let p50 = |side: &Option<Side>| time(side.as_ref().and_then(|s| s.p50_us));
        sums.row([
            function,
            bytes,
            datatype,
            role,
            calls(&row.a),
            calls(&row.b),
            sum(&row.a),
            sum(&row.b),
            p50(&row.a),
            p50(&row.b),
            with_interval(row.versus.p50_ratio.map(|r| (r - 1.0) * 100.0), None),
        ]);
    }
    for total in &diff.totals {
        means.row(total_row(total));
    }
    // The whole stays, whatever else is cut.
    let kinds = if diff.operations.len() > shown {
        shown
    } else {
        usize::MAX
    };
    means.write(out, kinds, "kinds")?;
    for total in diff.totals.iter().filter(|_| kinds != usize::MAX) {
        let [_, _, _, _, source, a, b, percent, difference, finding] = total_row(total);
        writeln!(
            out,
            "  all of {} kinds, {source}: {a} -> {b}; {percent} %; {difference} µs; {finding}",
            total.kinds
        )?;
    }
    writeln!(
        out,
        "\nThe same in total (warm-up included) and in the middle (p50 in µs; p50 %: B's against A's)"
    )?;
    sums.write(out, shown, "kinds")?;
    algorithms(diff, shown, out)
}

/// The row for all kinds together.
fn total_row(total: &Total) -> [String; 10] {
    let mean = |sum: f64| time(Some(sum / total.calls as f64));
    [
        "all".to_owned(),
        "-".to_owned(),
        plural(total.kinds as u64, "kind", "kinds"),
        "-".to_owned(),
        total.time_source.to_owned(),
        mean(total.a_us),
        mean(total.b_us),
        with_interval(total.versus.percent, total.versus.percent_interval),
        with_interval(
            total.versus.difference_us,
            total.versus.difference_interval_us,
        ),
        finding(total.finding).to_owned(),
    ]
}

/// Function, bytes, datatype and role of a kind.
fn title(row: &Row) -> [String; 4] {
    let datatype = row.datatype.as_deref().unwrap_or("-");
    [
        row.function.clone().unwrap_or_else(|| "-".to_owned()),
        row.bytes.map_or("-".to_owned(), size),
        datatype.trim_start_matches("nccl").to_owned(),
        row.role.map_or("-".to_owned(), |r| r.to_string()),
    ]
}

fn algorithms(diff: &Diff, shown: usize, out: &mut impl Write) -> Result<()> {
    let changed: Vec<&Row> = diff.operations.iter().filter(|r| r.how_changed).collect();
    if changed.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nAlgorithm, protocol or channels changed (calls)")?;
    for row in changed.iter().take(shown) {
        let [function, bytes, _, role] = title(row);
        let how = |side: &Option<Side>| {
            let how = side.iter().flat_map(|s| &s.how);
            let texts: Vec<String> = how.map(|(how, n)| format!("{how} ({n})")).collect();
            texts.join(", ")
        };
        let text = format!("{} -> {}", how(&row.a), how(&row.b));
        wrap(
            out,
            &format!("  {function} {bytes}, role {role}: "),
            "    ",
            &text,
        )?;
    }
    if changed.len() > shown {
        writeln!(out, "  … {} more (--all)", changed.len() - shown)?;
    }
    Ok(())
}

fn closing(diff: &Diff, out: &mut impl Write) -> Result<()> {
    writeln!(out)?;
    for total in &diff.totals {
        let source = if total.time_source == "gpu" {
            "GPU"
        } else {
            "host"
        };
        let of = format!(
            "{}, {:.0} % of the compared {source} time",
            plural(
                total.kinds as u64,
                "kind of operation",
                "kinds of operations"
            ),
            total.share * 100.0
        );
        let [low, high] = total.versus.percent_interval.unwrap_or_default();
        let percent = total.versus.percent.unwrap_or(0.0);
        let line = match total.finding {
            Finding::Slower | Finding::Faster => format!(
                "NCCL calls took {:.1} % {} {source} time in B than in A [{low:+.1}, {high:+.1}] over {of}.",
                percent.abs(),
                if percent > 0.0 { "more" } else { "less" }
            ),
            _ => format!(
                "No change of the {source} time of NCCL calls is found: {percent:+.1} % [{low:+.1}, {high:+.1}] over {of}."
            ),
        };
        wrap(out, "", "", &line)?;
    }
    if diff.totals.is_empty() {
        wrap(
            out,
            "",
            "",
            "No kind of operation has an interval in both runs, so nothing is called slower or faster.",
        )?;
    }
    writeln!(out, "Next: ncclscope report {}", diff.b.capture)
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
            "+0.00 [-0.10, +0.10]"
        );
        assert_eq!(with_interval(None, None), "-");
        assert_eq!(with_interval(Some(-250.0), None), "-250.0");
    }
}
