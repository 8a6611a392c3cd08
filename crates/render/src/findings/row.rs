//! Findings and recommendations as JSON and tables have them: words for people, and facts for programs.

use super::{advice, evidence, figures, sentence, Figures};
use analyze::findings::{
    Advice, BusierBy, CandidateName, Cause, Evidence, Finding, Kind, Method, Way,
};
use analyze::nodes::Throttle;
use analyze::Report;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// A finding.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Finding")]
pub struct Row {
    /// Which kind.
    pub kind: Kind,
    /// The claim, in words.
    pub sentence: String,
    /// The report's verdict is this sentence and no more.
    pub is_verdict: bool,
    /// The launcher's rank that is to blame, the first of several; null if no rank is, or its number is not
    /// known.
    pub rank: Option<u32>,
    /// Its host, or the host that the finding is about; null if it is about none.
    pub host: Option<String>,
    /// Its process; null if no rank is to blame.
    pub pid: Option<u32>,
    /// CUDA's number of its GPU; null if that is not known.
    pub device: Option<u32>,
    /// The UUID of its GPU, 32 hex digits; null if that was not recorded.
    pub gpu: Option<String>,
    /// All launcher's ranks that are to blame, ascending.
    pub ranks: Vec<u32>,
    /// The id of the communicator on which it shows; null if it is about none.
    pub communicator: Option<String>,
    /// The program's name for that communicator; null if it has none.
    pub communicator_name: Option<String>,
    /// The function of the calls that it is about; null if it is about no kind of call.
    pub function: Option<String>,
    /// Bytes of these calls, by the convention of nccl-tests; null as `function`.
    pub bytes: Option<u64>,
    /// The launcher's rank at the other end of a link; null if it is about no link.
    pub peer: Option<u32>,
    /// The host at the other end of a link, or the other of two hosts; null if it is about one.
    pub peer_host: Option<String>,
    /// Which way of a link; null if it is about none.
    pub link: Option<Way>,
    /// The stage of a pipeline, from 0; null if it is about none.
    pub stage: Option<u32>,
    /// The group of ranks that are to blame together; null if it is about none.
    pub rank_group: Option<String>,
    /// What the run would take less, µs of the wall; null if that is not known.
    pub wall_us: Option<f64>,
    /// Its 95 % interval; null if that is not known.
    pub wall_interval_us: Option<(f64, f64)>,
    /// Upper limit of the cost, which is an estimate; null if kernel windows measured it.
    pub wall_at_most_us: Option<f64>,
    /// The cost on all GPUs of the job, hours; null if it is not known.
    pub lost_gpu_hours: Option<f64>,
    /// How the loss was found; null without a loss.
    pub method: Option<Method>,
    /// The part of the run, or of its operations, that the loss rests on; null if that is not known.
    pub coverage: Option<f64>,
    /// From when to when, since the first kernel of the rank that it is about; null where it is all the time.
    pub when_us: Option<(f64, f64)>,
    /// Why a rank is late; null where there is no such question.
    pub cause: Option<Cause>,
    /// Why the GPU of a late rank is busy: it runs kernels more often than the others, or the same kernels
    /// take longer on it. Null where kernel windows do not show it.
    pub busier_by: Option<BusierBy>,
    /// The kernel that it runs more often, if that is most of it.
    pub kernel: Option<String>,
    /// What held its clock down in most samples, and those of the others in fewer.
    pub throttled: Vec<Throttle>,
    /// What may be the reason that calls reach less than their ceiling; empty of other findings.
    pub candidates: Vec<CandidateName>,
    /// What it rests on, in words.
    pub evidence: String,
    /// What it rests on, in numbers by name. The unit is in the name.
    #[serde(serialize_with = "as_object")]
    #[schemars(with = "BTreeMap<String, f64>")]
    pub figures: Figures,
    /// What to do, by name; `advice` has it in words.
    pub action: Advice,
    /// The same in words.
    pub advice: String,
}

fn as_object<S: Serializer>(pairs: &[(&'static str, f64)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(pairs.iter().copied())
}

impl Row {
    fn of(finding: &Finding, is_verdict: bool, report: &Report) -> Row {
        let subject = &finding.subject;
        let first = subject.rank();
        let communicator = subject.communicator.as_ref();
        let loss = finding.loss.as_ref();
        let busy_gpu = finding.busy_gpu();
        let mut ranks: Vec<u32> = subject
            .ranks
            .iter()
            .filter_map(|id| id.process.rank)
            .collect();
        ranks.sort_unstable();
        ranks.dedup();
        let host = first.map(|id| &id.process.host).or(subject.hosts.first());
        let peer = subject.peer.as_ref();
        let peer_host = peer.map(|peer| &peer.host).or(subject.hosts.get(1));
        Row {
            kind: finding.kind(),
            sentence: sentence(finding),
            is_verdict,
            rank: finding.rank(),
            host: host.cloned(),
            pid: first.and_then(|id| tables::pid::known(id.process.pid)),
            device: first.and_then(|id| id.device),
            gpu: first.and_then(|id| id.gpu.clone()),
            ranks,
            communicator: communicator.map(|of| of.id.clone()),
            communicator_name: communicator.and_then(|of| of.name.clone()),
            function: subject.call.as_ref().map(|call| call.function.clone()),
            bytes: subject.call.as_ref().map(|call| call.bytes),
            peer: peer.and_then(|peer| peer.rank),
            peer_host: peer_host.cloned(),
            link: subject.way,
            stage: subject.stage,
            rank_group: subject.group.clone(),
            wall_us: loss.map(|loss| loss.wall_us),
            // Of a loss to which more comes on top, the interval is not known.
            wall_interval_us: loss
                .filter(|loss| loss.untimed_in_graphs.is_none())
                .and_then(|loss| loss.interval_us),
            wall_at_most_us: loss.and_then(|loss| loss.at_most_us),
            lost_gpu_hours: loss.map(|loss| super::gpu_hours(loss, report)),
            method: loss.map(|loss| loss.method),
            coverage: loss.and_then(|loss| loss.coverage),
            when_us: finding.when_us,
            cause: finding.cause,
            busier_by: busy_gpu.map(|of| of.by),
            kernel: busy_gpu.and_then(|of| Some(of.kernel.as_ref()?.name.clone())),
            throttled: busy_gpu.map_or(Vec::new(), |of| of.throttled.clone()),
            candidates: candidates(finding),
            evidence: evidence(finding),
            figures: figures(finding),
            action: finding.advice,
            advice: advice(finding),
        }
    }
}

/// By name, each once.
fn candidates(of: &Finding) -> Vec<CandidateName> {
    let mut names = Vec::new();
    if let Evidence::BelowCeiling(below) = &of.evidence {
        for candidate in &below.candidates {
            if !names.contains(&candidate.name()) {
                names.push(candidate.name());
            }
        }
    }
    names
}

/// The rows of the findings of a report.
pub fn rows(report: &Report) -> Vec<Row> {
    let all = report.findings.iter().enumerate();
    all.map(|(index, finding)| Row::of(finding, report.verdict.is_finding(index), report))
        .collect()
}
