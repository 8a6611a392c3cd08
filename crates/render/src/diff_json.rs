//! A diff as JSON, in the format of `schema/diff-1.json`; several variants in that of
//! `schema/variants-1.json`.

use crate::diff_text::note;
use crate::findings::{cause, changed, moved, sentence, RecommendationRow};
use analyze::diff::{Diff, FigureRow, Figures, KindOfOperation, RoleRow, RunRow, Total};
use analyze::diff::{Moved, Stayed, Variant, Variants, Verdict};
use analyze::environment::Change;
use analyze::findings::{Finding, Kind};
use serde::{Serialize, Serializer};
use std::io::{Result, Write};

/// The JSON Schema of [`write`].
pub const SCHEMA: &str = include_str!("../schema/diff-1.json");
/// The JSON Schema of [`write_variants`].
pub const VARIANTS_SCHEMA: &str = include_str!("../schema/variants-1.json");

/// A finding of a run, as far as a comparison needs it.
#[derive(Serialize)]
struct FindingRow {
    kind: Kind,
    sentence: String,
    /// What is wrong, to follow "because".
    cause: String,
}

fn rows(findings: &[Finding]) -> Vec<FindingRow> {
    let row = |of: &Finding| FindingRow {
        kind: of.kind(),
        sentence: sentence(of),
        cause: cause(of),
    };
    findings.iter().map(row).collect()
}

/// A fault that is in both runs.
#[derive(Serialize)]
struct MovedRow {
    kind: Kind,
    stayed: Stayed,
    /// The launcher's ranks in A and B.
    rank: [Option<u32>; 2],
    /// Their hosts.
    host: [Option<String>; 2],
    sentence: String,
}

impl MovedRow {
    fn of(of: &Moved) -> MovedRow {
        let host = |of: &Finding| of.subject.rank().map(|rank| rank.host.clone());
        MovedRow {
            kind: of.a.kind(),
            stayed: of.stayed,
            rank: [of.a.rank(), of.b.rank()],
            host: [host(&of.a), host(&of.b)],
            sentence: moved(of),
        }
    }
}

#[derive(Serialize)]
struct Run<'a> {
    #[serde(flatten)]
    run: &'a RunRow,
    findings: Vec<FindingRow>,
}

impl Run<'_> {
    fn of(run: &RunRow) -> Run<'_> {
        Run {
            run,
            findings: rows(&run.findings),
        }
    }
}

#[derive(Serialize)]
struct Whole<'a> {
    schema: &'static str,
    definition: &'static str,
    confidence: f64,
    a: Run<'a>,
    b: Run<'a>,
    verdict: &'a Verdict,
    run: &'a [FigureRow],
    new_findings: Vec<FindingRow>,
    gone_findings: Vec<FindingRow>,
    moved_findings: Vec<MovedRow>,
    recommendations: Vec<RecommendationRow>,
    summary: String,
    environment: &'a [Change],
    communicators: &'a [RoleRow],
    totals: &'a [Total],
    operations: &'a [KindOfOperation],
    notes: Vec<String>,
}

/// Writes `diff`, indented, with a newline at its end.
///
/// # Errors
/// Those of `out`.
pub fn write(diff: &Diff, out: &mut impl Write) -> Result<()> {
    let recommendations = diff.recommendations.iter();
    let whole = Whole {
        schema: diff.schema,
        definition: diff.definition,
        confidence: diff.confidence,
        a: Run::of(&diff.a),
        b: Run::of(&diff.b),
        verdict: &diff.verdict,
        run: &diff.run,
        new_findings: rows(&diff.new_findings),
        gone_findings: rows(&diff.gone_findings),
        moved_findings: diff.moved_findings.iter().map(MovedRow::of).collect(),
        recommendations: recommendations.map(RecommendationRow::of).collect(),
        summary: changed(&diff.changed),
        environment: &diff.environment,
        communicators: &diff.communicators,
        totals: &diff.totals,
        operations: &diff.operations,
        notes: diff.notes.iter().map(note).collect(),
    };
    crate::json::pretty(&whole, out)
}

#[derive(Serialize)]
struct VariantRow<'a> {
    name: &'a str,
    captures: &'a [String],
    differs: &'a [Change],
    mean: &'a Figures,
    low: &'a Figures,
    high: &'a Figures,
    findings: Vec<FindingRow>,
}

#[derive(Serialize)]
struct WholeVariants<'a> {
    schema: &'static str,
    variants: Vec<VariantRow<'a>>,
    #[serde(serialize_with = "as_object")]
    best: &'a [(&'static str, Option<usize>)],
    summary: &'a str,
}

/// Pairs of a name and a value as an object, in their order.
fn as_object<S: Serializer>(
    pairs: &&[(&'static str, Option<usize>)],
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    to.collect_map(pairs.iter().copied())
}

/// Writes variants, indented, with a newline at its end.
///
/// # Errors
/// Those of `out`.
pub fn write_variants(variants: &Variants, out: &mut impl Write) -> Result<()> {
    fn row(of: &Variant) -> VariantRow<'_> {
        VariantRow {
            findings: rows(&of.findings),
            name: &of.name,
            captures: &of.captures,
            differs: &of.differs,
            mean: &of.mean,
            low: &of.low,
            high: &of.high,
        }
    }
    let whole = WholeVariants {
        schema: variants.schema,
        variants: variants.variants.iter().map(row).collect(),
        best: &variants.best,
        summary: &variants.summary,
    };
    crate::json::pretty(&whole, out)
}
