//! What `--fail-on` may ask, and the answers.

use super::{DiffFinding, KindOfOperation, Run, Total, Versus};
use crate::environment::{Change, FactKind};
use crate::interval::{holm, Comparison, CONFIDENCE, LEAST_OPERATIONS};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// A false alarm of any kind in a verdict has at most this probability; one-sided, as the end of a 95 %
/// interval.
const VERDICT_LEVEL: f64 = (1.0 - CONFIDENCE) / 2.0;
/// Kinds with an interval must hold this share of the compared time, or a verdict can't be given.
const JUDGED_SHARE: f64 = 0.8;
/// A verdict needs an interval that is not wider than what was asked for, or than this.
const LEAST_SLOWER: f64 = 0.05;

/// What `--fail-on` may ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Criterion {
    /// A step, or the run if there are no steps, is slower by more than this ratio − 1.
    Slower(f64),
    /// A kind of NCCL operation, or all of them, is slower by more than this ratio − 1.
    NcclSlower(f64),
    /// A kind of operation is in A and not in B.
    Missing,
    /// Software, variables, topology or recording differ.
    Environment,
    /// An algorithm, protocol or number of channels differs.
    Algorithm,
    /// A or B lacks calls.
    Incomplete,
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Criterion::Slower(by) => write!(f, "slower={}%", round(by * 100.0)),
            Criterion::NcclSlower(by) => write!(f, "nccl-slower={}%", round(by * 100.0)),
            Criterion::Missing => write!(f, "missing"),
            Criterion::Environment => write!(f, "environment"),
            Criterion::Algorithm => write!(f, "algorithm"),
            Criterion::Incomplete => write!(f, "incomplete"),
        }
    }
}

/// Without the digits that binary fractions bring.
fn round(x: f64) -> f64 {
    const STEPS: f64 = 1e9;
    (x * STEPS).round() / STEPS
}

impl std::str::FromStr for Criterion {
    type Err = String;

    fn from_str(text: &str) -> Result<Criterion, String> {
        let expected =
            "expected slower=N%, nccl-slower=N%, missing, environment, algorithm or incomplete";
        match text.split_once('=') {
            None => match text {
                "missing" => Ok(Criterion::Missing),
                "environment" => Ok(Criterion::Environment),
                "algorithm" => Ok(Criterion::Algorithm),
                "incomplete" => Ok(Criterion::Incomplete),
                _ => Err(expected.to_owned()),
            },
            Some((what @ ("slower" | "nccl-slower"), by)) => {
                let percent = by
                    .strip_suffix('%')
                    .and_then(|p| p.trim().parse::<f64>().ok());
                match percent {
                    Some(percent) if (0.0..=1e6).contains(&percent) => Ok(match what {
                        "slower" => Criterion::Slower(percent / 100.0),
                        _ => Criterion::NcclSlower(percent / 100.0),
                    }),
                    _ => Err(format!("expected a percentage, like {what}=5%")),
                }
            }
            Some(_) => Err(expected.to_owned()),
        }
    }
}

/// Whether a criterion is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is not.
    Passed,
    /// It can't be told.
    Undecided,
    /// It is.
    Failed,
}

/// The answer to one `--fail-on`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Judgement {
    /// As it was asked.
    pub fail_on: String,
    /// The answer.
    pub status: Status,
    /// Why.
    pub reasons: Vec<String>,
}

/// The answer to all of them.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Verdict {
    /// The worst of the answers; null when nothing was asked.
    pub status: Option<Status>,
    /// 0 passed or not asked, 1 failed, 2 undecided.
    #[schemars(range(max = 2))]
    pub exit_status: u8,
    /// One by one.
    pub criteria: Vec<Judgement>,
}

/// A kind in a sentence.
fn title(row: &KindOfOperation) -> String {
    let function = row.function.as_deref().unwrap_or("an unnamed function");
    let bytes = row
        .bytes
        .map_or(String::new(), |b| format!(" of {b} bytes"));
    let datatype = row
        .datatype
        .as_deref()
        .unwrap_or("")
        .trim_start_matches("nccl");
    let role = row
        .role
        .map_or(String::new(), |r| format!(", communicator role {r}"));
    format!("{function}{bytes} {datatype}{role}")
        .trim_end()
        .replace(" ,", ",")
}

pub(super) fn judge(
    criterion: Criterion,
    a: &Run,
    b: &Run,
    rows: &[KindOfOperation],
    totals: &[Total],
    changes: &[Change],
) -> Judgement {
    let (status, reasons) = match criterion {
        Criterion::Slower(by) => slower(by, a, b),
        Criterion::NcclSlower(by) if a.mostly_in_graphs || b.mostly_in_graphs => {
            nccl_slower_in_windows(by, a, b)
        }
        Criterion::NcclSlower(by) => nccl_slower(by, rows, totals),
        Criterion::Missing => listed(
            rows.iter()
                .filter(|r| r.finding == DiffFinding::Vanished)
                .map(title),
        ),
        Criterion::Algorithm => listed(rows.iter().filter(|r| r.how_changed).map(title)),
        Criterion::Environment => listed(
            changes
                .iter()
                .filter(|c| c.kind != FactKind::Placement)
                .map(|c| c.key.clone()),
        ),
        Criterion::Incomplete => {
            let of = |name: &str, run: &Run| -> Vec<String> {
                let why = run.row.incomplete.iter();
                why.map(|why| format!("{name}: {why}")).collect()
            };
            listed(of("A", a).into_iter().chain(of("B", b)))
        }
    };
    Judgement {
        fail_on: criterion.to_string(),
        status,
        reasons,
    }
}

fn listed(reasons: impl Iterator<Item = String>) -> (Status, Vec<String>) {
    let reasons: Vec<String> = reasons.collect();
    let status = if reasons.is_empty() {
        Status::Passed
    } else {
        Status::Failed
    };
    (status, reasons)
}

/// Whether a step became slower; or the run, if neither run has steps, or theirs can't be compared.
fn slower(by: f64, a: &Run, b: &Run) -> (Status, Vec<String>) {
    let limit = 1.0 + by;
    let same_steps = a.has_steps_of(b);
    if same_steps && (a.nsteps > 0 || b.nsteps > 0) {
        let Some((of_a, of_b)) = a.step.as_ref().zip(b.step.as_ref()) else {
            let why = format!(
                "too few steps for an interval: {} and {}, and it takes {LEAST_OPERATIONS} in both",
                a.nsteps, b.nsteps
            );
            return (Status::Undecided, vec![why]);
        };
        let step = Comparison::new(of_a, of_b);
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let (low, high) = step.ratio_interval;
        let (change, low, high) = (percent(step.ratio), percent(low), percent(high));
        let told = format!("the step: {change:+.1} % [{low:+.1}, {high:+.1}]");
        return if step.p_above(limit) <= VERDICT_LEVEL {
            (Status::Failed, vec![told])
        } else if high / 100.0 > by && (high - change) / 100.0 > by.max(LEAST_SLOWER) {
            (Status::Undecided, vec![format!("too noisy for it: {told}")])
        } else {
            (Status::Passed, Vec::new())
        };
    }
    let walls = a.row.figures.wall_us.zip(b.row.figures.wall_us);
    match walls.filter(|(of_a, _)| *of_a > 0.0) {
        None => {
            let why = "neither steps nor the length of the run are known of both".to_owned();
            (Status::Undecided, vec![why])
        }
        Some((of_a, of_b)) if of_b > of_a * limit => {
            let percent = (of_b / of_a - 1.0) * 100.0;
            let because = if same_steps {
                "the runs have no steps"
            } else {
                "their steps are not of one kind"
            };
            let why = format!("the run: {percent:+.1} %, without an interval, because {because}");
            (Status::Failed, vec![why])
        }
        Some(_) => (Status::Passed, Vec::new()),
    }
}

fn nccl_slower(by: f64, rows: &[KindOfOperation], totals: &[Total]) -> (Status, Vec<String>) {
    let limit = 1.0 + by;
    let kinds = rows
        .iter()
        .filter_map(|r| Some((title(r), r.comparison?, r.versus)));
    let whole = totals.iter().map(|t| {
        (
            format!("all operations together ({} time)", t.time_source),
            t.comparison,
            t.versus,
        )
    });
    let tests: Vec<(String, Comparison, Versus)> = kinds.chain(whole).collect();
    let p: Vec<f64> = tests.iter().map(|(_, c, _)| c.p_above(limit)).collect();
    let failed: Vec<String> = tests
        .iter()
        .zip(holm(&p, VERDICT_LEVEL))
        .filter(|(_, failed)| *failed)
        .map(|((title, _, versus), _)| {
            let [low, high] = versus.percent_interval.unwrap_or_default();
            let percent = versus.percent.unwrap_or(0.0);
            format!("{title}: {percent:+.1} % [{low:+.1}, {high:+.1}]")
        })
        .collect();
    if !failed.is_empty() {
        return (Status::Failed, failed);
    }
    // What can't be seen through the noise was not looked for.
    let blurred = totals.iter().find_map(|t| {
        let [low, high] = t.versus.percent_interval?;
        let width = (high - t.versus.percent?) / 100.0;
        (width > by.max(LEAST_SLOWER)).then_some((t, low, high))
    });
    if let Some((t, low, high)) = blurred {
        let percent = t.versus.percent.unwrap_or(0.0);
        let why = format!(
            "too noisy for it: all operations together ({} time) {percent:+.1} % [{low:+.1}, {high:+.1}]",
            t.time_source
        );
        return (Status::Undecided, vec![why]);
    }
    match totals.iter().map(|t| t.share).reduce(f64::min) {
        Some(share) if share >= JUDGED_SHARE => (Status::Passed, Vec::new()),
        Some(share) => {
            let why = format!(
                "kinds that can be compared with an interval hold {:.0} % of A's time; {:.0} % are needed",
                share * 100.0,
                JUDGED_SHARE * 100.0
            );
            (Status::Undecided, vec![why])
        }
        None => {
            let why = format!(
                "no kind of operation has an interval (it takes rows of {} operations in both \
                runs, after the first)",
                LEAST_OPERATIONS
            );
            (Status::Undecided, vec![why])
        }
    }
}

/// The same if most calls ran in CUDA graphs, where they have times in kernel windows only.
fn nccl_slower_in_windows(by: f64, a: &Run, b: &Run) -> (Status, Vec<String>) {
    let Some(((of_a, in_a), (of_b, in_b))) =
        a.in_windows.zip(b.in_windows).filter(|of| of.0 .0 > 0.0)
    else {
        let why = "most calls ran in CUDA graphs, where they have times in kernel windows only, and one run \
                   has fewer than three of these on some rank";
        return (Status::Undecided, vec![why.to_owned()]);
    };
    let ratio = of_b / of_a;
    // The errors of both do not depend on each other.
    let error = |ends: (f64, f64), of: f64| (ends.1 - ends.0) / 2.0 / of;
    let half = ratio * error(in_a, of_a).hypot(error(in_b, of_b.max(f64::MIN_POSITIVE)));
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let told = format!(
        "NCCL's kernels of a step, by kernel windows: {:+.1} % [{:+.1}, {:+.1}]",
        percent(ratio),
        percent(ratio - half),
        percent(ratio + half)
    );
    if ratio - half > 1.0 + by {
        (Status::Failed, vec![told])
    } else if ratio + half > 1.0 + by && half > by.max(LEAST_SLOWER) {
        (Status::Undecided, vec![format!("too noisy for it: {told}")])
    } else {
        (Status::Passed, Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criteria_are_read_as_they_are_written() {
        for text in [
            "slower=5%",
            "slower=0.5%",
            "nccl-slower=5%",
            "missing",
            "environment",
            "algorithm",
            "incomplete",
        ] {
            let criterion: Criterion = text.parse().expect("a criterion");
            assert_eq!(criterion.to_string(), text);
        }
        for wrong in [
            "slower",
            "slower=5",
            "slower=x%",
            "slower=-1%",
            "nccl-slower=5",
            "faster=5%",
            "nothing",
            "",
        ] {
            assert!(wrong.parse::<Criterion>().is_err(), "{wrong}");
        }
    }
}
