//! What to do first: one ranked list, with what each thing would save.
//!
//! [`recommendations`] asks the findings and three kinds of rules: of NCCL's variables ([`settings`]), of
//! how calls are made ([`calls`]), and of NCCL's init ([`start_up`]). [`compare`] says of each
//! recommendation of a run what became of it in a later one.
//!
//! Rule: a gain is seconds of the run, and says where it comes from: `measured`, a `what_if` replay, or a
//! cost `model`. A rule without such a number has no gain, and stands behind those that have one. Every rule
//! has its evidence in the capture, and a story in which it stays silent.

use crate::findings::{Finding, Gain, Kind};
use crate::Report;
pub(crate) use calls::warm_up_in_steps;
use serde::Serialize;
use tables::costs::Cost;
use tables::Capture;

mod calls;
mod settings;
mod start_up;

/// How much work something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// A variable, or a line.
    Low,
    /// A part of the program, or a search for a cause.
    Medium,
    /// The program's structure, or hardware.
    High,
}

impl Level {
    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            Level::Low => "low",
            Level::Medium => "medium",
            Level::High => "high",
        }
    }
}

/// Which rule a recommendation is of.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// A finding, which has evidence and advice.
    Finding(Box<Finding>),
    /// A rule of its own.
    Own {
        /// Its name.
        name: &'static str,
        /// What it is about, the same in two runs: a variable, a function.
        subject: String,
        /// What to change, in words.
        action: String,
        /// What it rests on, in words.
        evidence: String,
    },
}

impl Rule {
    /// Its name: a kind of finding, or a name of its own.
    pub fn name(&self) -> &'static str {
        match self {
            Rule::Finding(finding) => finding.kind().name(),
            Rule::Own { name, .. } => name,
        }
    }

    /// Whether the other one, of another run or not, is about the same thing.
    fn is_same(&self, other: &Rule) -> bool {
        match (self, other) {
            (Rule::Finding(a), Rule::Finding(b)) => a.is_same(b),
            (
                Rule::Own { name, subject, .. },
                Rule::Own {
                    name: n,
                    subject: s,
                    ..
                },
            ) => (name, subject) == (n, s),
            _ => false,
        }
    }

    /// Whether both have one way out.
    fn has_same_action(&self, other: &Rule) -> bool {
        match (self, other) {
            (Rule::Finding(a), Rule::Finding(b)) => {
                let same = (a.kind(), a.advice) == (b.kind(), b.advice);
                same && (!a.advice.names_process() || a.subject.ranks == b.subject.ranks)
            }
            (
                Rule::Own { name, action, .. },
                Rule::Own {
                    name: n, action: a, ..
                },
            ) => (name, action) == (n, a),
            _ => false,
        }
    }

    /// Results are doubtful because of it.
    fn is_doubtful(&self) -> bool {
        matches!(self, Rule::Finding(finding) if finding.kind().is_doubtful())
    }
}

/// What became of a recommendation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It stands.
    #[default]
    Open,
    /// The later run does not have it.
    Done,
    /// Its gain is smaller in the later run, beyond the interval.
    Better,
    /// It is as it was.
    Unchanged,
}

impl Status {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Open => "open",
            Status::Done => "done",
            Status::Better => "better",
            Status::Unchanged => "unchanged",
        }
    }
}

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    /// Which rule it is, and what it is about.
    pub rule: Rule,
    /// What the run would take less.
    pub gain: Gain,
    /// How much work it is.
    pub effort: Level,
    /// How likely it makes something else worse.
    pub risk: Level,
    /// In a comparison: what became of it.
    pub status: Status,
}

/// All of a report, first what makes results doubtful, then the largest gain first. `costs` are NCCL's own
/// estimates, as far as they were recorded.
pub fn recommendations(report: &Report, capture: &Capture, costs: &[Cost]) -> Vec<Recommendation> {
    let mut all: Vec<Recommendation> = report.findings.iter().map(of_finding).collect();
    all.extend(calls::recommendations(report));
    all.extend(start_up::recommendation(report));
    all.extend(settings::recommendations(report, capture));
    all.extend(calls::unregistered(costs));
    // Several findings may have one way out.
    let mut kept: Vec<Recommendation> = Vec::new();
    for of in all {
        let again = kept.iter().any(|k| k.rule.has_same_action(&of.rule));
        if of.gain.us.is_some() || !again {
            kept.push(of);
        }
    }
    // Stable: what has no gain stays in the order of the rules.
    kept.sort_by(|a, b| {
        let gain = |r: &Recommendation| r.gain.us.unwrap_or(0.0);
        let most = |r: &Recommendation| r.gain.at_most_us.unwrap_or(0.0);
        (b.rule.is_doubtful().cmp(&a.rule.is_doubtful()))
            .then(gain(b).total_cmp(&gain(a)))
            .then(most(b).total_cmp(&most(a)))
    });
    kept
}

/// Something to change that costs and risks little, of which the gain is not known.
fn advice(name: &'static str, subject: &str, action: String, evidence: String) -> Recommendation {
    Recommendation {
        rule: Rule::Own {
            name,
            subject: subject.to_owned(),
            action,
            evidence,
        },
        gain: Gain::default(),
        effort: Level::Low,
        risk: Level::Low,
        status: Status::Open,
    }
}

fn of_finding(finding: &Finding) -> Recommendation {
    let effort = match finding.kind() {
        Kind::SlowNetwork => Level::High,
        Kind::ClockStep => Level::Low,
        _ => Level::Medium,
    };
    Recommendation {
        rule: Rule::Finding(Box::new(finding.clone())),
        gain: finding.gain(),
        effort,
        risk: Level::Low,
        status: Status::Open,
    }
}

/// What became of the recommendations of run A in run B. One that B does not have is `done`. If the interval
/// of B's gain lies below that of A's, it is `better`, and else `unchanged`.
pub fn compare(a: &[Recommendation], b: &[Recommendation]) -> Vec<Recommendation> {
    let status = |of: &Recommendation| {
        let Some(later) = b.iter().find(|other| other.rule.is_same(&of.rule)) else {
            return Status::Done;
        };
        match of.gain.interval_us.zip(later.gain.interval_us) {
            Some(((low, _), (_, high))) if high < low => Status::Better,
            _ => Status::Unchanged,
        }
    };
    let with = |of: &Recommendation| Recommendation {
        status: status(of),
        ..of.clone()
    };
    a.iter().map(with).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::GainSource;

    fn of(subject: &str, gain: Option<(f64, f64)>) -> Recommendation {
        Recommendation {
            gain: Gain {
                us: gain.map(|(low, high)| low.midpoint(high)),
                interval_us: gain,
                at_most_us: None,
                source: gain.map(|_| GainSource::Measured),
            },
            ..advice("transport_off", subject, String::new(), String::new())
        }
    }

    #[test]
    fn what_is_gone_is_done_and_less_beyond_noise_is_better() {
        let a = [
            of("Rank 1", Some((2e6, 3e6))),
            of("Rank 2", Some((2e6, 3e6))),
            of("Rank 3", Some((2e6, 3e6))),
            of("Rank 4", None),
        ];
        let b = [
            of("Rank 4", None),
            of("Rank 3", Some((1e6, 1.9e6))),
            of("Rank 2", Some((1e6, 2.5e6))),
        ];
        let found = compare(&a, &b);
        let statuses: Vec<&str> = found.iter().map(|of| of.status.name()).collect();
        assert_eq!(statuses, ["done", "unchanged", "better", "unchanged"]);
    }
}
