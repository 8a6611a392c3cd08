//! What to do first: one ranked list, with what each thing would save.
//!
//! [`recommendations`] asks the findings and three kinds of rules: of NCCL's variables ([`settings`]), of
//! how calls are made ([`calls`]), and of NCCL's init ([`start_up`]). [`compare`] says of each
//! recommendation of a run what became of it in a later one.
//!
//! Here are facts; `render` has the words.
//!
//! Rule: a gain is seconds of the run, and says where it comes from: `measured`, a `what_if` replay, or a
//! cost `model`. A rule without such a number has no gain, and stands behind those that have one. Every rule
//! has its evidence in the capture, and a story in which it stays silent.

use crate::findings::{Finding, Gain, Kind};
use crate::settings::SettingRow;
use crate::Report;
pub(crate) use calls::warm_up_in_steps;
use schemars::JsonSchema;
use serde::Serialize;
use tables::costs::Cost;
use tables::Capture;

mod calls;
mod settings;
mod start_up;

/// How much work something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
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
        /// What it is about, the same in two runs: a variable, a function.
        subject: String,
        /// What to change.
        action: Action,
        /// What it rests on.
        evidence: Grounds,
    },
}

/// What to change, by a rule of its own.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Do without LL.
    AvoidLl {
        /// The function that used it.
        function: String,
        /// Size of the calls.
        bytes: u64,
        /// Who chose it.
        chosen: LlChosen,
    },
    /// Join small calls of a function into buckets.
    JoinSmallCalls {
        /// The function.
        function: String,
    },
    /// Overlap communication with computing.
    Overlap,
    /// Register buffers with NCCL.
    RegisterBuffers,
    /// Leave sends and receives out.
    LeaveOutP2p,
    /// Make a phase of NCCL's init shorter.
    ShortenPhase {
        /// Its name.
        phase: &'static str,
    },
    /// Unset a variable that turns a transport off.
    AllowTransport {
        /// The variable.
        variable: &'static str,
        /// What it turns off.
        transport: Transport,
    },
    /// Unset NCCL_GRAPH_REGISTER.
    AllowRegistration,
    /// Set NCCL_DEBUG=WARN.
    LessDebugOutput,
    /// Don't rely on a setting that NCCL did not follow.
    DropSetting {
        /// NCCL_ALGO or NCCL_PROTO.
        variable: &'static str,
        /// Its value.
        value: String,
        /// The functions that used something else.
        functions: Vec<String>,
        /// What may have overridden it.
        by: OverriddenBy,
    },
    /// Unset a variable that can do nothing here.
    UnsetUseless(Useless),
}

/// Who chose LL.
#[derive(Clone, Debug, PartialEq)]
pub enum LlChosen {
    /// NCCL_PROTO asks for it.
    BySetting {
        /// The variable's value.
        value: String,
    },
    /// NCCL; its NCCL_PROTO leaves LL to it.
    AsAllowed {
        /// The variable's value.
        value: String,
    },
    /// A tuner, maybe.
    ByTuner {
        /// The variable that names the tuner or its file.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// NCCL by itself.
    ByNccl {
        /// The job's command, if it is short.
        command: Option<String>,
    },
}

/// What transports are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Between the GPUs of a node, directly.
    PeerToPeer,
    /// Shared memory, between ranks of a node that have no direct way.
    SharedMemory,
    /// InfiniBand or RoCE, between nodes.
    Rdma,
}

impl Transport {
    /// Whether it is between ranks of one node.
    pub fn is_in_a_node(self) -> bool {
        self != Transport::Rdma
    }
}

/// What overrides a setting of algorithm or protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverriddenBy {
    /// What is known of the functions and algorithms themselves.
    Property,
    /// A tuner, maybe.
    Tuner,
    /// It is not known what.
    Unknown,
}

/// A variable that can do nothing in this job.
#[derive(Clone, Debug, PartialEq)]
pub enum Useless {
    /// It asks for more channels than any call used.
    MinChannels {
        /// The variable.
        variable: &'static str,
        /// What it asks for.
        asked: u64,
        /// The most channels of a call.
        most: u64,
    },
    /// NCCL_BUFFSIZE, and no call used the Simple protocol.
    BufferSize {
        /// The variable's value.
        value: String,
    },
    /// NCCL_NET_GDR_LEVEL, and no call used the network.
    GdrLevel {
        /// The variable's value.
        value: String,
    },
}

impl Useless {
    /// The variable.
    pub fn variable(&self) -> &'static str {
        match self {
            Useless::MinChannels { variable, .. } => variable,
            Useless::BufferSize { .. } => "NCCL_BUFFSIZE",
            Useless::GdrLevel { .. } => "NCCL_NET_GDR_LEVEL",
        }
    }
}

impl Action {
    /// The rule.
    pub fn rule(&self) -> OwnRule {
        match self {
            Action::AvoidLl { .. } => OwnRule::SlowProtocol,
            Action::JoinSmallCalls { .. } => OwnRule::ManySmallCalls,
            Action::Overlap => OwnRule::ExposedCommunication,
            Action::RegisterBuffers => OwnRule::UnregisteredBuffers,
            Action::LeaveOutP2p => OwnRule::FewP2p,
            Action::ShortenPhase { .. } => OwnRule::SlowStartUp,
            Action::AllowTransport { .. } => OwnRule::TransportOff,
            Action::AllowRegistration => OwnRule::RegistrationOff,
            Action::LessDebugOutput => OwnRule::DebugOutput,
            Action::DropSetting { .. } => OwnRule::SettingOverridden,
            Action::UnsetUseless(_) => OwnRule::SettingWithoutEffect,
        }
    }
}

/// The rules of recommendations that are no findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OwnRule {
    /// Calls use a protocol that costs bandwidth.
    SlowProtocol,
    /// Calls are bound by latency.
    ManySmallCalls,
    /// Communication does not overlap with computing.
    ExposedCommunication,
    /// Buffers are not registered with NCCL.
    UnregisteredBuffers,
    /// Few calls pay for the connections of sends.
    FewP2p,
    /// A phase of the start takes long.
    SlowStartUp,
    /// A setting turns a faster way off.
    TransportOff,
    /// A setting turns registration off.
    RegistrationOff,
    /// NCCL writes more than warnings.
    DebugOutput,
    /// NCCL did something else than a setting says.
    SettingOverridden,
    /// A setting has no effect.
    SettingWithoutEffect,
}

/// The rule of a recommendation, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum RuleName {
    /// A kind of finding.
    Finding(Kind),
    /// A rule of its own.
    Own(OwnRule),
}

/// What a rule of its own rests on.
#[derive(Clone, Debug, PartialEq)]
pub enum Grounds {
    /// So many calls used LL.
    UsedLl {
        /// How many.
        calls: u64,
        /// Of which size.
        bytes: u64,
        /// What they reached, and what another protocol did at such a size, GB/s.
        busbw_gb_per_s: Option<(f64, f64)>,
    },
    /// Calls that are bound by latency.
    SmallCalls {
        /// Their function.
        function: String,
        /// Calls in a step, or in the run without steps.
        calls: f64,
        /// The run has steps.
        in_steps: bool,
        /// Their mean size.
        bytes: u64,
        /// Latency of a call, µs.
        latency_us: f64,
        /// The median residual of the model that says so, as a share.
        residual_p50_share: f64,
    },
    /// For at least this share of the time, communication stops computing on each rank.
    Exposed {
        /// The share.
        least_share: f64,
        /// By kernel windows; else by stream waits.
        by_windows: bool,
        /// Waiting for late ranks is known, and left out.
        knows_waiting: bool,
    },
    /// NVLS can run, and calls of 1 MiB and more had buffers that were not registered.
    Unregistered {
        /// How many.
        calls: u64,
        /// Most of them are of this function,
        function: &'static str,
        /// and of this size:
        bytes: u64,
        /// so many.
        most: u64,
    },
    /// Few sends and receives, and many collectives.
    FewP2p(FewP2p),
    /// A phase on the critical path of an init.
    Phase {
        /// What it took, µs.
        us: f64,
        /// On which rank.
        rank: u64,
        /// Ranks of the communicator.
        nranks: u64,
        /// What the init took, µs.
        init_us: f64,
    },
    /// The variable was set, and ranks would use what it turns off.
    TurnedOff {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What it turns off.
        transport: Transport,
    },
    /// NCCL_GRAPH_REGISTER=0, and calls in graphs.
    UnregisteredGraphs,
    /// NCCL_DEBUG was set to this.
    DebugLevel(String),
    /// What was asked for and done.
    Overridden(Vec<SettingRow>),
    /// A variable was set that can do nothing here.
    Useless(Useless),
}

/// Point-to-point calls in a job of collectives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FewP2p {
    /// Sends and receives.
    pub p2p: u64,
    /// Collective calls.
    pub collective: u64,
    /// Ranks that make them, if all are known.
    pub ranks: Option<Vec<u32>>,
}

impl Rule {
    /// Its name: a kind of finding, or a name of its own.
    pub fn name(&self) -> RuleName {
        match self {
            Rule::Finding(finding) => RuleName::Finding(finding.kind()),
            Rule::Own { action, .. } => RuleName::Own(action.rule()),
        }
    }

    /// Whether the other one, of another run or not, is about the same thing.
    fn is_same(&self, other: &Rule) -> bool {
        match (self, other) {
            (Rule::Finding(a), Rule::Finding(b)) => a.is_same(b),
            (
                Rule::Own {
                    action, subject, ..
                },
                Rule::Own {
                    action: a,
                    subject: s,
                    ..
                },
            ) => (action.rule(), subject) == (a.rule(), s),
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
            (Rule::Own { action, .. }, Rule::Own { action: a, .. }) => action == a,
            _ => false,
        }
    }

    /// Results are doubtful because of it.
    fn is_doubtful(&self) -> bool {
        matches!(self, Rule::Finding(finding) if finding.kind().is_doubtful())
    }
}

/// What became of a recommendation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
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
fn advice(subject: &str, action: Action, evidence: Grounds) -> Recommendation {
    Recommendation {
        rule: Rule::Own {
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
            ..advice(subject, Action::Overlap, Grounds::UnregisteredGraphs)
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
