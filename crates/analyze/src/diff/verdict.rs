//! What `--fail-on` may ask, and the answers. `render` has their words.

use super::{DiffFinding, KindOfOperation, Lack, Run, Total, Versus, Which};
use crate::environment::{self, FactKind};
use crate::interval::{holm, Comparison, CONFIDENCE};
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
    #[serde(skip)]
    pub reasons: Vec<Reason>,
}

/// Why a criterion is not passed.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// A capture beside itself, or beside its copy, shows nothing.
    SameRecording,
    /// A and B have so many steps, which are too few for an interval.
    FewSteps([usize; 2]),
    /// Something takes longer than was asked for.
    Slower(Slower, Change),
    /// It may, or may not: the interval is too wide for an answer.
    Noisy(Slower, Change),
    /// How long steps or the run took is not known of both.
    NoTimes,
    /// The run takes so many percent longer. That has no interval, because the runs have no steps, or steps
    /// of two kinds.
    Run {
        /// B by A.
        percent: f64,
        /// They have steps.
        of_two_kinds: bool,
    },
    /// The kinds that have an interval hold this share of A's time, and so much is needed.
    SmallShare(f64, f64),
    /// No kind has an interval.
    NoInterval,
    /// Most calls ran in CUDA graphs, and a run has too few kernel windows.
    FewWindows,
    /// This kind of operation.
    Kind(KindName),
    /// What this is in the environment.
    Environment(String),
    /// What a run lacks.
    Incomplete(Which, Lack),
}

/// What may take longer.
#[derive(Clone, Debug, PartialEq)]
pub enum Slower {
    /// The step.
    Step,
    /// A kind of operation.
    Kind(KindName),
    /// All operations together, by times of this source.
    All(&'static str),
    /// NCCL's kernels of a step, by kernel windows.
    InWindows,
}

/// How much longer, in percent, with the ends of the interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// B by A.
    pub percent: f64,
    /// Its 95 % interval.
    pub interval: [f64; 2],
}

impl Change {
    /// Of ratios B / A.
    fn of(ratio: f64, (low, high): (f64, f64)) -> Change {
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        Change {
            percent: percent(ratio),
            interval: [percent(low), percent(high)],
        }
    }

    fn of_versus(versus: &Versus) -> Change {
        Change {
            percent: versus.percent.unwrap_or(0.0),
            interval: versus.percent_interval.unwrap_or_default(),
        }
    }
}

/// What a kind of operation is known by.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KindName {
    /// Its function, if NCCL named it.
    pub function: Option<String>,
    /// Bytes by the convention of nccl-tests.
    pub bytes: Option<u64>,
    /// Datatype, as NCCL names it.
    pub datatype: Option<String>,
    /// Number of the communicator's role.
    pub role: Option<usize>,
}

impl KindName {
    fn of(row: &KindOfOperation) -> KindName {
        KindName {
            function: row.function.clone(),
            bytes: row.bytes,
            datatype: row.datatype.clone(),
            role: row.role,
        }
    }
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
    #[serde(skip)]
    pub criteria: Vec<Judgement>,
}

pub(super) fn judge(
    criterion: Criterion,
    a: &Run,
    b: &Run,
    rows: &[KindOfOperation],
    totals: &[Total],
    changes: &[environment::Change],
) -> Judgement {
    let kind = |row: &KindOfOperation| Reason::Kind(KindName::of(row));
    let (status, reasons) = match criterion {
        Criterion::Slower(by) => slower(by, a, b),
        Criterion::NcclSlower(by) if a.mostly_in_graphs || b.mostly_in_graphs => {
            nccl_slower_in_windows(by, a, b)
        }
        Criterion::NcclSlower(by) => nccl_slower(by, rows, totals),
        Criterion::Missing => listed(
            rows.iter()
                .filter(|r| r.finding == DiffFinding::Vanished)
                .map(kind),
        ),
        Criterion::Algorithm => listed(rows.iter().filter(|r| r.how_changed).map(kind)),
        Criterion::Environment => listed(
            changes
                .iter()
                .filter(|c| c.kind != FactKind::Placement)
                .map(|c| Reason::Environment(c.key.clone())),
        ),
        Criterion::Incomplete => {
            let of = |which, run: &Run| -> Vec<Reason> {
                let lacks = run.row.incomplete.iter().cloned();
                lacks.map(|lack| Reason::Incomplete(which, lack)).collect()
            };
            listed(of(Which::A, a).into_iter().chain(of(Which::B, b)))
        }
    };
    Judgement {
        fail_on: criterion.to_string(),
        status,
        reasons,
    }
}

fn listed(reasons: impl Iterator<Item = Reason>) -> (Status, Vec<Reason>) {
    let reasons: Vec<Reason> = reasons.collect();
    let status = if reasons.is_empty() {
        Status::Passed
    } else {
        Status::Failed
    };
    (status, reasons)
}

/// Whether a step became slower; or the run, if neither run has steps, or theirs can't be compared.
fn slower(by: f64, a: &Run, b: &Run) -> (Status, Vec<Reason>) {
    let limit = 1.0 + by;
    let same_steps = a.has_steps_of(b);
    if same_steps && (a.nsteps > 0 || b.nsteps > 0) {
        let Some((of_a, of_b)) = a.step.as_ref().zip(b.step.as_ref()) else {
            let few = Reason::FewSteps([a.nsteps, b.nsteps]);
            return (Status::Undecided, vec![few]);
        };
        let step = Comparison::new(of_a, of_b);
        let change = Change::of(step.ratio, step.ratio_interval);
        let high = change.interval[1];
        return if step.p_above(limit) <= VERDICT_LEVEL {
            (Status::Failed, vec![Reason::Slower(Slower::Step, change)])
        } else if high / 100.0 > by && (high - change.percent) / 100.0 > by.max(LEAST_SLOWER) {
            (Status::Undecided, vec![Reason::Noisy(Slower::Step, change)])
        } else {
            (Status::Passed, Vec::new())
        };
    }
    let walls = a.row.figures.wall_us.zip(b.row.figures.wall_us);
    match walls.filter(|(of_a, _)| *of_a > 0.0) {
        None => (Status::Undecided, vec![Reason::NoTimes]),
        Some((of_a, of_b)) if of_b > of_a * limit => {
            let run = Reason::Run {
                percent: (of_b / of_a - 1.0) * 100.0,
                of_two_kinds: !same_steps,
            };
            (Status::Failed, vec![run])
        }
        Some(_) => (Status::Passed, Vec::new()),
    }
}

fn nccl_slower(by: f64, rows: &[KindOfOperation], totals: &[Total]) -> (Status, Vec<Reason>) {
    let limit = 1.0 + by;
    let kinds = rows
        .iter()
        .filter_map(|r| Some((Slower::Kind(KindName::of(r)), r.comparison?, r.versus)));
    let whole = totals
        .iter()
        .map(|t| (Slower::All(t.time_source), t.comparison, t.versus));
    let tests: Vec<(Slower, Comparison, Versus)> = kinds.chain(whole).collect();
    let p: Vec<f64> = tests.iter().map(|(_, c, _)| c.p_above(limit)).collect();
    let failed: Vec<Reason> = tests
        .into_iter()
        .zip(holm(&p, VERDICT_LEVEL))
        .filter(|(_, failed)| *failed)
        .map(|((what, _, versus), _)| Reason::Slower(what, Change::of_versus(&versus)))
        .collect();
    if !failed.is_empty() {
        return (Status::Failed, failed);
    }
    // What can't be seen through the noise was not looked for.
    let blurred = totals.iter().find(|t| {
        let interval = t.versus.percent_interval.zip(t.versus.percent);
        let width = interval.map(|([_, high], percent)| (high - percent) / 100.0);
        width.is_some_and(|width| width > by.max(LEAST_SLOWER))
    });
    if let Some(t) = blurred {
        let noisy = Reason::Noisy(Slower::All(t.time_source), Change::of_versus(&t.versus));
        return (Status::Undecided, vec![noisy]);
    }
    match totals.iter().map(|t| t.share).reduce(f64::min) {
        Some(share) if share >= JUDGED_SHARE => (Status::Passed, Vec::new()),
        Some(share) => {
            let small = Reason::SmallShare(share, JUDGED_SHARE);
            (Status::Undecided, vec![small])
        }
        None => (Status::Undecided, vec![Reason::NoInterval]),
    }
}

/// The same if most calls ran in CUDA graphs, where they have times in kernel windows only.
fn nccl_slower_in_windows(by: f64, a: &Run, b: &Run) -> (Status, Vec<Reason>) {
    let Some(((of_a, in_a), (of_b, in_b))) =
        a.in_windows.zip(b.in_windows).filter(|of| of.0 .0 > 0.0)
    else {
        return (Status::Undecided, vec![Reason::FewWindows]);
    };
    let ratio = of_b / of_a;
    // The errors of both do not depend on each other.
    let error = |ends: (f64, f64), of: f64| (ends.1 - ends.0) / 2.0 / of;
    let half = ratio * error(in_a, of_a).hypot(error(in_b, of_b.max(f64::MIN_POSITIVE)));
    let change = Change::of(ratio, (ratio - half, ratio + half));
    let what = Slower::InWindows;
    if ratio - half > 1.0 + by {
        (Status::Failed, vec![Reason::Slower(what, change)])
    } else if ratio + half > 1.0 + by && half > by.max(LEAST_SLOWER) {
        (Status::Undecided, vec![Reason::Noisy(what, change)])
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
