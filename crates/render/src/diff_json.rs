//! A diff as JSON, in the format of `schema/diff-1.json`; several variants in that of
//! `schema/variants-1.json`.

use crate::diff_text::note;
use crate::diff_words::{lack, no_interval, reason};
use crate::findings::{cause, changed, moved, sentence};
use crate::recommendations::RecommendationRow;
use analyze::diff::{Diff, FigureRow, Figures, Judgement, KindOfOperation, RoleRow, RunRow, Total};
use analyze::diff::{Moved, Stayed, Variant, Variants, Verdict};
use analyze::environment::Change;
use analyze::findings::{Finding, Kind};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::io::{Result, Write};

/// The JSON Schema of [`write`].
pub const SCHEMA: &str = include_str!("../schema/diff-1.json");
/// The JSON Schema of [`write_variants`].
pub const VARIANTS_SCHEMA: &str = include_str!("../schema/variants-1.json");

/// A finding of a run, as far as a comparison needs it.
#[derive(Serialize, JsonSchema)]
struct FindingRow {
    /// Which kind.
    kind: Kind,
    /// The claim, in words.
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
#[derive(Serialize, JsonSchema)]
struct MovedRow {
    /// Which kind.
    kind: Kind,
    /// What the fault stayed with: `rank` is software or data, `node` and `gpu` are hardware.
    stayed: Stayed,
    /// The launcher's rank in A and in B.
    rank: [Option<u32>; 2],
    /// Its host in A and in B.
    host: [Option<String>; 2],
    /// The claim, and what it stayed with, in words.
    sentence: String,
}

impl MovedRow {
    fn of(of: &Moved) -> MovedRow {
        let host = |of: &Finding| of.subject.rank().map(|rank| rank.process.host.clone());
        MovedRow {
            kind: of.a.kind(),
            stayed: of.stayed,
            rank: [of.a.rank(), of.b.rank()],
            host: [host(&of.a), host(&of.b)],
            sentence: moved(of),
        }
    }
}

/// One of the two runs.
#[derive(Serialize, JsonSchema)]
struct Run<'a> {
    #[serde(flatten)]
    run: &'a RunRow,
    /// Why calls are not there, or may not be.
    incomplete: Vec<String>,
    /// What the run is as a whole.
    figures: &'a Figures,
    /// What its report found.
    findings: Vec<FindingRow>,
}

impl Run<'_> {
    fn of(run: &RunRow) -> Run<'_> {
        Run {
            run,
            incomplete: run.incomplete.iter().map(lack).collect(),
            figures: &run.figures,
            findings: rows(&run.findings),
        }
    }
}

/// The answer to one `--fail-on`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Judgement")]
struct JudgementRow<'a> {
    #[serde(flatten)]
    judgement: &'a Judgement,
    /// Why.
    reasons: Vec<String>,
}

/// The answer to all of them.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Verdict")]
struct VerdictRow<'a> {
    #[serde(flatten)]
    verdict: &'a Verdict,
    /// One by one.
    criteria: Vec<JudgementRow<'a>>,
}

impl VerdictRow<'_> {
    fn of(verdict: &Verdict) -> VerdictRow<'_> {
        fn row(judgement: &Judgement) -> JudgementRow<'_> {
            JudgementRow {
                judgement,
                reasons: judgement.reasons.iter().map(reason).collect(),
            }
        }
        VerdictRow {
            verdict,
            criteria: verdict.criteria.iter().map(row).collect(),
        }
    }
}

/// One kind of operation in both runs.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "KindOfOperation")]
struct KindRow<'a> {
    #[serde(flatten)]
    kind: &'a KindOfOperation,
    /// Why there is no interval.
    no_interval: Option<&'static str>,
    /// Whether algorithm, protocol or channels differ.
    how_changed: bool,
}

impl KindRow<'_> {
    fn of(kind: &KindOfOperation) -> KindRow<'_> {
        KindRow {
            kind,
            no_interval: kind.no_interval.map(no_interval),
            how_changed: kind.how_changed,
        }
    }
}

/// What `ncclscope diff A B --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct DiffJson<'a> {
    schema: &'static str,
    /// What ratio, percent and difference mean.
    definition: &'static str,
    /// Of all intervals, a share of one.
    confidence: f64,
    /// The first run.
    a: Run<'a>,
    /// The second run.
    b: Run<'a>,
    /// Whether the comparison passed what `--fail-on` asks.
    verdict: VerdictRow<'a>,
    /// The figures of both runs, without those that neither has.
    run: &'a [FigureRow],
    /// Findings that B has and A has not.
    new_findings: Vec<FindingRow>,
    /// Findings that A has and B has not.
    gone_findings: Vec<FindingRow>,
    /// Faults that are in both runs, on other nodes or ranks.
    moved_findings: Vec<MovedRow>,
    /// What the report on A recommends, and what became of it in B.
    recommendations: Vec<RecommendationRow>,
    /// What changed and why, in one sentence.
    summary: String,
    /// Settings, versions and hardware that differ.
    environment: &'a [Change],
    /// The communicators of both runs by their role.
    communicators: &'a [RoleRow],
    /// All kinds of operations that are compared, by the source of their times.
    totals: &'a [Total],
    /// Kinds of operations, by what they cost.
    operations: Vec<KindRow<'a>>,
    /// What limits the comparison.
    notes: Vec<String>,
}

/// Writes `diff`, indented, with a newline at its end.
///
/// # Errors
/// Those of `out`.
pub fn write(diff: &Diff, out: &mut impl Write) -> Result<()> {
    let recommendations = diff.recommendations.iter();
    let whole = DiffJson {
        schema: diff.schema,
        definition: diff.definition,
        confidence: diff.confidence,
        a: Run::of(&diff.a),
        b: Run::of(&diff.b),
        verdict: VerdictRow::of(&diff.verdict),
        run: &diff.run,
        new_findings: rows(&diff.new_findings),
        gone_findings: rows(&diff.gone_findings),
        moved_findings: diff.moved_findings.iter().map(MovedRow::of).collect(),
        recommendations: recommendations.map(RecommendationRow::of).collect(),
        summary: changed(&diff.changed),
        environment: &diff.environment,
        communicators: &diff.communicators,
        totals: &diff.totals,
        operations: diff.operations.iter().map(KindRow::of).collect(),
        notes: diff.notes.iter().map(note).collect(),
    };
    crate::json::pretty(&whole, out)
}

/// A variant: captures of the same program with the same settings.
#[derive(Serialize, JsonSchema)]
struct VariantRow<'a> {
    /// How it is called: its name if it was given one, else the folder of its first run.
    name: &'a str,
    /// Its captures.
    captures: &'a [String],
    /// What differs from the first variant.
    differs: &'a [Change],
    /// The mean over its runs.
    mean: &'a Figures,
    /// Lower ends of 95 % intervals over its runs; null for one run.
    low: &'a Figures,
    /// Upper ends.
    high: &'a Figures,
    /// Findings of all its runs, each once.
    findings: Vec<FindingRow>,
}

/// What `ncclscope diff A B C --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct VariantsJson<'a> {
    schema: &'static str,
    /// The variants, in the order of the command.
    variants: Vec<VariantRow<'a>>,
    /// For each figure the index of the best variant; null where none is sure.
    #[serde(serialize_with = "as_object")]
    #[schemars(with = "BTreeMap<String, Option<usize>>")]
    best: &'a [(&'static str, Option<usize>)],
    /// Which one is best, in one sentence.
    summary: String,
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
    let whole = VariantsJson {
        schema: variants.schema,
        variants: variants.variants.iter().map(row).collect(),
        best: &variants.best,
        summary: crate::variants::summary(variants),
    };
    crate::json::pretty(&whole, out)
}
