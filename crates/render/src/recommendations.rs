//! What to do: the ranked list, as text, and its rows as JSON and tables have them.

use crate::findings;
use crate::layout::Page;
use analyze::findings::GainSource;
use analyze::recommendations::{Action, Level, Recommendation, Rule, RuleName, Status};
use analyze::spelling::{time, times};
use analyze::Report;
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) mod words;

/// Recommendations without `--all`.
const SHOWN: usize = 3;

/// The gain, where it comes from, effort and risk.
pub(crate) fn gain(of: &Recommendation) -> String {
    let from = match of.gain.source {
        Some(GainSource::Measured) => ", measured",
        Some(GainSource::WhatIf) => ", by what-if replay",
        Some(GainSource::Model) => ", by a model",
        Some(GainSource::Ceiling) => ", by the ceiling",
        None => "",
    };
    let gain = match (of.gain.us, of.gain.interval_us, of.gain.at_most_us) {
        (Some(gain), Some((low, high)), _) => {
            format!("Gain {} [{}]{from}", time(gain), times(low, high))
        }
        (Some(gain), None, _) => format!("Gain {}{from}", time(gain)),
        (None, _, Some(most)) => format!("Gain {} at most{from}", time(most)),
        (None, _, None) => {
            return format!("Effort {}, risk {}.", of.effort.name(), of.risk.name());
        }
    };
    format!(
        "{gain}; effort {}, risk {}.",
        of.effort.name(),
        of.risk.name()
    )
}

/// What to do, why, and the gain. The evidence of a finding stands with the finding, and what was asked for
/// and done stands under Settings.
pub(crate) fn sentence(of: &Recommendation) -> String {
    let gain = gain(of);
    match &of.rule {
        Rule::Finding(finding) => format!("{} {gain}", findings::advice(finding)),
        Rule::Own {
            action: action @ Action::DropSetting { .. },
            ..
        } => format!("{} {gain}", words::action(action)),
        Rule::Own {
            action, evidence, ..
        } => format!(
            "{} {} {gain}",
            words::action(action),
            words::grounds(evidence)
        ),
    }
}

/// Writes the list, the largest gain first.
pub(crate) fn what_to_do(report: &Report, page: &mut Page) {
    let all = &report.recommendations;
    let ranked = all.len() > 1;
    match (all.is_empty(), ranked) {
        (true, _) => return,
        (_, true) => page.title("What to do (largest gain first)"),
        _ => page.title("What to do"),
    }
    let shown = if page.all { all.len() } else { SHOWN };
    for (at, of) in (1..).zip(all.iter().take(shown)) {
        let first = if ranked {
            format!("  {at}. ")
        } else {
            "  ".to_owned()
        };
        let rest = if ranked { "     " } else { "    " };
        page.wrap(&first, rest, &sentence(of));
    }
    let more = all.len().saturating_sub(shown);
    if more > 0 {
        page.line(&format!("… {more} more (--all)"));
    }
}

/// A recommendation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Recommendation")]
pub struct RecommendationRow {
    /// A kind of finding, or a rule of its own; `ncclscope explain` knows it.
    pub rule: RuleName,
    /// What the recommendation is about: a rank, a variable, a function.
    pub subject: String,
    /// What to change.
    pub action: String,
    /// What it rests on.
    pub evidence: String,
    /// What the run would take less with the recommendation, µs; null where that is not known.
    pub gain_us: Option<f64>,
    /// 95 % interval of that.
    pub gain_interval_us: Option<(f64, f64)>,
    /// No more than this can be gained, µs.
    pub gain_at_most_us: Option<f64>,
    /// Where the gain comes from; null without one.
    pub gain_source: Option<GainSource>,
    /// How much work it is.
    pub effort: Level,
    /// How likely it makes something else worse.
    pub risk: Level,
    /// What became of a recommendation: `open`; in a comparison `done`, `better` or `unchanged`.
    pub status: Status,
}

impl RecommendationRow {
    /// A recommendation's row.
    pub fn of(of: &Recommendation) -> RecommendationRow {
        let (subject, action, evidence) = match &of.rule {
            Rule::Finding(finding) => (
                findings::subject(finding),
                findings::advice(finding),
                findings::evidence(finding),
            ),
            Rule::Own {
                subject,
                action,
                evidence,
            } => (
                subject.clone(),
                words::action(action),
                words::grounds(evidence),
            ),
        };
        RecommendationRow {
            rule: of.rule.name(),
            subject,
            action,
            evidence,
            gain_us: of.gain.us,
            gain_interval_us: of.gain.interval_us,
            gain_at_most_us: of.gain.at_most_us,
            gain_source: of.gain.source,
            effort: of.effort,
            risk: of.risk,
            status: of.status,
        }
    }
}

/// The rows of the recommendations of a report.
pub fn rows(report: &Report) -> Vec<RecommendationRow> {
    let all = report.recommendations.iter();
    all.map(RecommendationRow::of).collect()
}
