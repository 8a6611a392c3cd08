//! What to do first: one ranked list, with what each thing would save.
//!
//! [`recommendations`] asks the findings and three kinds of rules: of NCCL's variables ([`settings`]), of
//! how calls are made ([`calls`]), and of NCCL's init ([`start_up`]). [`compare`] says of each
//! recommendation of a run what became of it in a later one.
//!
//! Rule: a gain is seconds of the run, and says where it comes from: `measured`, a `what_if` replay, or a
//! cost `model`. A rule without such a number has no gain, and stands behind those that have one. Every rule
//! has its evidence in the capture, and a story in which it stays silent.

use crate::findings::Finding;
use crate::Report;
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

/// Something to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// Which rule it is: a kind of finding, or a name of its own.
    pub rule: &'static str,
    /// What it is about, the same in two runs: a rank, a variable, a function.
    pub subject: String,
    /// What to change.
    pub action: String,
    /// What it rests on.
    pub evidence: String,
    /// What the run would take less, µs; null where that is not known.
    pub gain_us: Option<f64>,
    /// 95 % interval of that.
    pub gain_interval_us: Option<(f64, f64)>,
    /// No more than this can be gained, µs.
    pub gain_at_most_us: Option<f64>,
    /// Where the gain comes from: `measured`, `what_if` or `model`; null without one.
    pub gain_source: Option<&'static str>,
    /// How much work it is.
    pub effort: Level,
    /// How likely it makes something else worse.
    pub risk: Level,
    /// `open`; in a comparison `done`, `better` or `unchanged`.
    pub status: &'static str,
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
    let mut known: Vec<(&str, String)> = Vec::new();
    all.retain(|of| {
        let same = (of.rule, of.action.clone());
        let again = of.gain_us.is_none() && known.contains(&same);
        known.push(same);
        !again
    });
    // Stable: what has no gain stays in the order of the rules.
    all.sort_by(|a, b| {
        let doubtful = |r: &Recommendation| {
            !matches!(r.rule, "dead_rank" | "standstill" | "differing_operations")
        };
        let gain = |r: &Recommendation| r.gain_us.unwrap_or(0.0);
        let most = |r: &Recommendation| r.gain_at_most_us.unwrap_or(0.0);
        doubtful(a)
            .cmp(&doubtful(b))
            .then(gain(b).total_cmp(&gain(a)))
            .then(most(b).total_cmp(&most(a)))
    });
    all
}

/// Something to change that costs and risks little, of which the gain is not known.
fn advice(rule: &'static str, subject: &str, action: String, evidence: String) -> Recommendation {
    Recommendation {
        rule,
        subject: subject.to_owned(),
        action,
        evidence,
        gain_us: None,
        gain_interval_us: None,
        gain_at_most_us: None,
        gain_source: None,
        effort: Level::Low,
        risk: Level::Low,
        status: "open",
    }
}

fn of_finding(finding: &Finding) -> Recommendation {
    let sentence = finding.sentence.trim_end_matches('.');
    let subject = sentence
        .split_once(" costs this job ")
        .map_or(sentence, |(who, _)| who);
    // What kernel windows measure has no other bound.
    let source = match (finding.kind, finding.wall_at_most_us) {
        ("late_rank", None) => "measured",
        _ => "what_if",
    };
    let (effort, risk) = match finding.kind {
        "slow_network" => (Level::High, Level::Low),
        "clock_step" => (Level::Low, Level::Low),
        _ => (Level::Medium, Level::Low),
    };
    // Other sentences have figures of one run.
    let subject = match finding.kind {
        "late_rank" | "stall" | "slow_network" => subject,
        kind => kind,
    };
    Recommendation {
        rule: finding.kind,
        subject: subject.to_owned(),
        action: finding.advice.clone(),
        evidence: finding.evidence.clone(),
        gain_us: finding.wall_us,
        gain_interval_us: finding.wall_interval_us,
        gain_at_most_us: finding.wall_at_most_us,
        gain_source: finding.wall_us.map(|_| source),
        effort,
        risk,
        status: "open",
    }
}

/// What became of the recommendations of run A in run B. One that B does not have is `done`. If the interval
/// of B's gain lies below that of A's, it is `better`, and else `unchanged`.
pub fn compare(a: &[Recommendation], b: &[Recommendation]) -> Vec<Recommendation> {
    let status = |of: &Recommendation| {
        let same = |other: &&Recommendation| (other.rule, &other.subject) == (of.rule, &of.subject);
        let Some(later) = b.iter().find(same) else {
            return "done";
        };
        match of.gain_interval_us.zip(later.gain_interval_us) {
            Some(((low, _), (_, high))) if high < low => "better",
            _ => "unchanged",
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

    fn of(subject: &str, gain: Option<(f64, f64)>) -> Recommendation {
        Recommendation {
            rule: "late_rank",
            subject: subject.to_owned(),
            action: String::new(),
            evidence: String::new(),
            gain_us: gain.map(|(low, high)| low.midpoint(high)),
            gain_interval_us: gain,
            gain_at_most_us: None,
            gain_source: gain.map(|_| "measured"),
            effort: Level::Low,
            risk: Level::Low,
            status: "open",
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
        let statuses: Vec<&str> = found.iter().map(|of| of.status).collect();
        assert_eq!(statuses, ["done", "unchanged", "better", "unchanged"]);
    }
}
