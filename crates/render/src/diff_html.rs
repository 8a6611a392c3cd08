//! A comparison of runs as one HTML file that needs nothing else, and runs no script; and of two runs as
//! Markdown.
//!
//! Rule: it says what the text says, in the same order, with every row; whatever a program or a host chose is
//! escaped.

use crate::diff_text::{
    changed, figure, figure_change, figure_name, finding, how_changed, letter, note, title,
    with_interval,
};
use crate::escape::escaped;
use crate::layout::Unit;
use crate::markdown::Markdown;
use crate::page::{finish, Sections};
use analyze::diff::{Diff, Side, Variants};
use analyze::environment::Change;
use analyze::findings::Finding;
use std::io::{Result, Write};

/// The page of two runs, with the [first picture](crate::picture::Picture::section) of each.
///
/// # Errors
/// Those of `out`.
pub fn write(diff: &Diff, pictures: &[String; 2], out: &mut impl Write) -> Result<()> {
    let mut html = String::new();
    begin(diff, &mut html);
    let runs = [("A", &diff.a), ("B", &diff.b)].into_iter().zip(pictures);
    for ((name, run), picture) in runs.filter(|(_, picture)| !picture.is_empty()) {
        let capture = escaped(&run.capture);
        html += &format!("<section>\n<h2>{name}: {capture}</h2>\n{picture}</section>\n");
    }
    sections(diff, &mut html);
    finish(&html, "Two runs - ncclscope diff", out)
}

/// The same as Markdown, without pictures.
///
/// # Errors
/// Those of `out`.
pub fn write_markdown(diff: &Diff, out: &mut impl Write) -> Result<()> {
    let mut page = Markdown::default();
    begin(diff, &mut page);
    sections(diff, &mut page);
    out.write_all(page.text().as_bytes())
}

fn begin(diff: &Diff, to: &mut impl Sections) {
    to.head(
        "Two runs beside each other",
        &crate::findings::changed(&diff.changed),
    );
}

fn sections(diff: &Diff, to: &mut impl Sections) {
    let runs = [("A", &diff.a), ("B", &diff.b)].map(|(name, run)| {
        let command = run.command.as_deref().unwrap_or("command not known");
        vec![name.to_owned(), run.capture.clone(), command.to_owned()]
    });
    to.table("Runs", &["run", "capture", "command"], 3, &runs);
    let rows: Vec<Vec<String>> = diff
        .run
        .iter()
        .map(|row| {
            vec![
                figure_name(row.figure).to_owned(),
                figure(row.figure, row.a),
                figure(row.figure, row.b),
                figure_change(row),
            ]
        })
        .collect();
    to.table("The run", &["figure", "A", "B", "change"], 1, &rows);
    environment(to, "What changed in the environment", &diff.environment);
    findings(to, "New in B", &diff.new_findings);
    findings(to, "Gone since A", &diff.gone_findings);
    let mut moved = diff.moved_findings.iter().map(crate::findings::moved);
    to.list("In both, on other nodes or ranks", &mut moved);
    let recommended = diff.recommendations.iter().map(|of| {
        let gain = crate::recommendations::gain(of);
        let row = crate::recommendations::RecommendationRow::of(of);
        vec![of.status.name().to_owned(), row.subject, row.action, gain]
    });
    let recommended: Vec<Vec<String>> = recommended.collect();
    if !recommended.is_empty() {
        to.table(
            "What the report on A recommends, and what became of it in B",
            &["status", "subject", "action", "gain"],
            4,
            &recommended,
        );
    }
    let of = |side: &Option<Side>| side.as_ref().and_then(|side| side.mean_us);
    let means = diff
        .operations
        .iter()
        .flat_map(|row| [of(&row.a), of(&row.b)]);
    let unit = Unit::of(means.flatten());
    let rows: Vec<Vec<String>> = diff
        .operations
        .iter()
        .map(|row| {
            let cells = [
                row.time_source.unwrap_or("-").to_owned(),
                unit.show(of(&row.a)),
                unit.show(of(&row.b)),
                with_interval(row.versus.percent, row.versus.percent_interval),
                finding(row.finding).to_owned(),
            ];
            title(row).into_iter().chain(cells).collect()
        })
        .collect();
    let names = [
        "function", "size", "type", "role", "time", "mean_A", "mean_B", "change", "finding",
    ];
    let name = format!("Kinds of operations (mean {} per call)", unit.name);
    to.table(&name, &names, 5, &rows);
    let changed = diff.operations.iter().filter(|row| row.how_changed);
    to.list(
        "Algorithm, protocol or channels changed (calls)",
        &mut changed.map(how_changed),
    );
    to.list("Notes", &mut diff.notes.iter().map(note));
}

/// The page of any number of runs.
///
/// # Errors
/// Those of `out`.
pub fn write_variants(variants: &Variants, out: &mut impl Write) -> Result<()> {
    let mut html = String::new();
    html.head(
        "Variants beside each other",
        &crate::variants::summary(variants),
    );
    let all = &variants.variants;
    let rows: Vec<Vec<String>> = all
        .iter()
        .enumerate()
        .map(|(index, variant)| {
            let captures = variant.captures.join(", ");
            vec![letter(index), variant.name.clone(), captures]
        })
        .collect();
    html.table("Runs", &["variant", "name", "captures"], 3, &rows);
    let letters: Vec<String> = (0..all.len()).map(letter).collect();
    let names: Vec<&str> = std::iter::once("figure")
        .chain(letters.iter().map(String::as_str))
        .collect();
    // A figure that no run has says nothing.
    let known = |name: &str| all.iter().any(|variant| variant.mean.get(name).is_some());
    let rows: Vec<Vec<String>> = variants
        .best
        .iter()
        .filter(|(name, _)| known(name))
        .map(|(name, best)| {
            let cells = all.iter().enumerate().map(|(index, variant)| {
                let mark = if *best == Some(index) { " (best)" } else { "" };
                let ends = variant.low.get(name).zip(variant.high.get(name));
                let half = ends.map_or(String::new(), |(low, high)| {
                    format!(" ± {}", figure(name, Some((high - low) / 2.0)))
                });
                format!("{}{half}{mark}", figure(name, variant.mean.get(name)))
            });
            std::iter::once(figure_name(name).to_owned())
                .chain(cells)
                .collect()
        })
        .collect();
    html.table("The runs (mean ± 95 %)", &names, 1, &rows);
    for (index, variant) in all.iter().enumerate() {
        let name = letter(index);
        environment(
            &mut html,
            &format!("What changed from A to {name}"),
            &variant.differs,
        );
        findings(&mut html, &format!("Findings of {name}"), &variant.findings);
    }
    finish(&html, "Variants - ncclscope diff", out)
}

fn environment(to: &mut impl Sections, name: &str, changes: &[Change]) {
    to.list(name, &mut changes.iter().map(changed));
}

fn findings(to: &mut impl Sections, name: &str, findings: &[Finding]) {
    to.list(name, &mut findings.iter().map(crate::findings::sentence));
}
