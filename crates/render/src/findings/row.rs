//! Findings and recommendations as JSON and tables have them: words for people, and facts for programs.

use super::{advice, evidence, sentence};
use analyze::findings::{
    Advice, BusierBy, CandidateName, Cause, Evidence, Finding, InSteps, Kind, Late, Method, Way,
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
    pub figures: Vec<(&'static str, f64)>,
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

/// What a finding rests on, as numbers by name.
fn figures(of: &Finding) -> Vec<(&'static str, f64)> {
    let n = |n: u64| n as f64;
    match &of.evidence {
        Evidence::Death { death, more } => vec![
            ("before_others_us", death.before_others_ns as f64 / 1e3),
            ("calls", n(death.calls)),
            ("most_calls", n(death.most_calls)),
            ("more", *more as f64),
        ],
        Evidence::Standstill(of) => {
            let call = of.call.map(|call| ("call", n(call)));
            let all = [
                ("waited_us", of.for_ns as f64 / 1e3),
                ("waiting", of.waiting.len() as f64),
                ("missing", of.missing.len() as f64),
            ];
            all.into_iter().chain(call).collect()
        }
        Evidence::Late(late) => late_figures(late),
        Evidence::Unequal(by) => vec![
            ("ranks", n(by.ranks)),
            ("steps", n(by.steps)),
            ("steps_us", by.wall_us),
            ("in_turns", f64::from(u8::from(by.in_turns))),
        ],
        Evidence::Stalls(of) => {
            let mut all = vec![
                ("last", n(of.operations)),
                ("operations", n(of.of_all)),
                ("times", n(of.times)),
                ("held_up_us", of.held_up_us),
                ("longest_us", of.longest_us),
                ("usual_us", of.usual_us),
            ];
            all.extend(of.steps.iter().flat_map(in_steps));
            all
        }
        Evidence::Link(of) => vec![
            ("operations", n(of.operations)),
            ("transfer_us", of.transfer_us),
            ("held_us", of.held_us),
            ("others_us", of.others_us),
        ],
        Evidence::BelowCeiling(of) => {
            let mut all = vec![
                ("operations", of.operations),
                ("compared", n(of.compared)),
                ("time_us", of.time_us),
                ("ceiling_us", of.ceiling_us),
                ("busbw_gb_per_s", of.busbw_gb_per_s),
                ("ceiling_gb_per_s", of.ceiling.ceiling_gb_per_s),
                ("share", of.ceiling.share),
                ("transfer_us", of.transfer_us),
                ("at_most_us", of.at_most_us),
                ("more", of.more as f64),
            ];
            all.extend(of.exposed_us.map(|us| ("exposed_us", us)));
            all
        }
        Evidence::Differing { first, more, .. } => {
            vec![("places", n(first.places)), ("more", *more as f64)]
        }
        Evidence::DifferingSettings(operations) => vec![("operations", n(*operations))],
        Evidence::Clocks {
            least_us,
            between_s: (from_s, until_s),
            more,
            frequency_error_ppm,
        } => vec![
            ("least_us", *least_us),
            ("from_s", *from_s),
            ("until_s", *until_s),
            ("more", *more as f64),
            ("frequency_error_ppm", *frequency_error_ppm),
        ],
        Evidence::Memory {
            gpu_bytes,
            total_bytes,
            communicators,
            init_bytes,
            largest_bytes,
        } => {
            let mut all = vec![
                ("gpu_bytes", n(*gpu_bytes)),
                ("total_bytes", n(*total_bytes)),
                ("communicators", f64::from(*communicators)),
                ("largest_bytes", n(*largest_bytes)),
            ];
            all.extend(init_bytes.map(|bytes| ("init_bytes", n(bytes))));
            all
        }
        Evidence::Topology { more, .. } => vec![("more", *more as f64)],
    }
}

fn in_steps(of: &InSteps) -> Vec<(&'static str, f64)> {
    let mut all = vec![
        ("steps", of.steps as f64),
        ("steps_us", of.wall_us),
        ("stalls", of.stalls as f64),
        ("stalls_us", of.stalls_us),
        ("slowing_us", of.slowing_us),
        ("own_still_share", of.still.0),
        ("others_still_share", of.still.1),
        ("timed_share", of.timed),
    ];
    let why = [
        ("launched_share", of.launched_share),
        ("host_longer_us", of.host_longer_us),
        ("hosts_need_us", of.hosts_need_us),
    ];
    all.extend(
        why.into_iter()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    all
}

fn late_figures(late: &Late) -> Vec<(&'static str, f64)> {
    let mut all = vec![
        ("last", late.last as f64),
        ("operations", late.operations as f64),
    ];
    all.extend(late.with_other.map(|(_, us)| ("with_other_us", us)));
    all.extend(late.steps.iter().flat_map(in_steps));
    if let Some(proved) = late.clocks.proved {
        all.push(("last_over_hosts", late.clocks.operations as f64));
        all.push(("last_proved", proved as f64));
    }
    if let Some(by) = &late.arrivals {
        all.push(("held_up_us", by.held_up_us));
        all.push(("waited_rank_us", by.waited_rank_us));
        all.extend(by.sampled.map(|share| ("sampled_share", share)));
    }
    if let Some(of) = &late.busy_gpu {
        all.push(("more_kernels_share", of.share.0));
        all.push(("longer_kernels_share", of.share.1));
        if let Some(kernel) = &of.kernel {
            all.push(("kernel_per_s", kernel.per_s.0));
            all.push(("kernel_per_s_on_others", kernel.per_s.1));
        }
        all.extend(of.pace.map(|pace| ("kernels_take_times", pace)));
        if let Some((own, others)) = of.sm_mhz {
            all.push(("sm_mhz", own));
            all.push(("sm_mhz_of_others", others));
        }
    }
    all
}

/// The rows of the findings of a report.
pub fn rows(report: &Report) -> Vec<Row> {
    let all = report.findings.iter().enumerate();
    all.map(|(index, finding)| Row::of(finding, report.verdict.is_finding(index), report))
        .collect()
}
