//! The rows of [`super::Now`].

use crate::hang::Answer;
use analyze::completeness::LASTING;
use analyze::live::Live;
use analyze::subject::ProcessId;
use analyze::Report;
use capture::live::flag;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tables::{Capture, Life, Process};

/// Up to this share of unknown time, a small share of waiting is one.
const MOST_UNKNOWN: f64 = 0.5;
/// Operations and links that are listed.
const MOST: usize = 20;

/// What the time of a rank was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Its GPU computed, or its host had launched nothing: without kernel windows, these can't be told apart.
    WorkOrHost,
    /// It stood still while bytes moved.
    Transfer,
    /// It stood still for ranks that had not come.
    Waiting,
    /// What no evidence covers.
    Unknown,
}

/// A part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Share {
    /// What the time was spent on.
    pub part: Part,
    /// 0 to 1; all parts of a rank sum to 1.
    pub share: f64,
}

/// One GPU of a process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RankNow {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// CUDA device ordinal.
    pub device: Option<u32>,
    /// `runs`, `late`, `waits`, `missing`, `stopped`, `died`, `ended` or `unknown`.
    #[schemars(extend("enum" = ["runs", "late", "waits", "missing", "stopped", "died", "ended", "unknown"]))]
    pub state: &'static str,
    /// Where its time went, in the order of a bar; empty if nothing is known.
    pub parts: Vec<Share>,
    /// `account`: of its steps. `calls`: of its time, because no steps are found. `hang`: only the time of a
    /// hang is known. In a hang, the waiting since it began is a part of each.
    #[schemars(extend("enum" = ["account", "calls", "hang", null]))]
    pub source: Option<&'static str>,
    /// Share of its time that it stood still for other ranks, 0 to 1.
    pub wait_share: Option<f64>,
    /// The rank that it waits for; null if there is no single one.
    pub waits_for: Option<u32>,
    /// What the job would gain in each step without its lateness; null for all but culprits.
    pub cost_step_us: Option<f64>,
    /// Operations of the largest communicator that it entered, since the start or since calls are counted.
    pub call: Option<u64>,
    /// Mean power of its GPU.
    pub power_w: Option<f64>,
    /// Mean clock of the GPU's SMs.
    pub sm_mhz: Option<f64>,
    /// Calls that it lost since the start.
    pub lost: u64,
    /// Those of them that its process lost for good. Of several GPUs of a process, the first has them.
    #[serde(skip)]
    pub lost_for_good: u64,
}

/// What was done, with one function and size on one communicator.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OperationNow {
    /// The communicator.
    pub communicator: Option<String>,
    /// Function.
    pub function: Option<String>,
    /// Bytes by the convention of nccl-tests.
    pub bytes: Option<u64>,
    /// Datatype.
    pub datatype: Option<String>,
    /// Calls a second, of all ranks.
    pub calls_per_s: Option<f64>,
    /// Mean GPU time, µs.
    pub mean_us: Option<f64>,
    /// Bus bandwidth of the median operation, GB/s.
    pub busbw_gb_per_s: Option<f64>,
}

/// A link of the network.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LinkNow {
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Its host.
    pub host: String,
    /// Rank at the other end.
    pub peer: Option<u32>,
    /// Host of that rank.
    pub peer_host: Option<String>,
    /// Its time in the network's hands, by that of the median of the others.
    pub of_the_median_ratio: Option<f64>,
    /// What it costs in each step, µs.
    pub cost_step_us: Option<f64>,
}

/// Calls that are not over.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct InFlight {
    /// How many.
    pub calls: u64,
    /// For how long the oldest, s.
    pub oldest_s: Option<f64>,
    /// Its function.
    pub function: Option<String>,
    /// Its bytes.
    pub bytes: Option<u64>,
    /// Ranks that are in it, as `0-3`.
    pub ranks: Option<String>,
}

/// From the first call that is here to the last, s.
pub(super) fn span_s(capture: &Capture) -> Option<f64> {
    let times = || {
        let calls = capture.processes.iter().flat_map(|process| &process.calls);
        calls.map(|call| call.api_ns).filter(|ns| *ns != 0)
    };
    Some((times().max()? - times().min()?) as f64 / 1e9)
}

pub(super) fn ranks(
    capture: &Capture,
    live: &Live,
    answer: &Answer,
    culprits: &[ProcessId],
    span_s: Option<f64>,
) -> Vec<RankNow> {
    let report = &live.report;
    let lives: BTreeMap<(&str, u32), &Process> = capture
        .processes
        .iter()
        .map(|process| ((process.host.as_str(), process.pid), process))
        .collect();
    let is_culprit = |host: &str, pid: u32| {
        culprits
            .iter()
            .any(|of| (of.host.as_str(), of.pid) == (host, pid))
    };
    let waiting: BTreeSet<(&str, u32)> = match answer.hang {
        Some(true) => waiting(answer),
        _ => BTreeSet::new(),
    };
    // What is reported of steps and calls ends where the hang begins.
    let hung_s = answer.waited_s.filter(|_| answer.hang == Some(true));
    let steps = report
        .steps
        .as_ref()
        .and_then(|steps| Some(steps.step_us?.n));
    let loss_us = live
        .finding()
        .and_then(|found| Some(found.loss.as_ref()?.wall_us));
    let rows = report.ranks.rows.iter().map(|row| {
        let key = (row.process.host.as_str(), row.process.pid);
        let process = lives.get(&key);
        let culprit = is_culprit(&row.process.host, row.process.pid);
        let (mut parts, mut source) = parts(report, row);
        if let Some((hung_s, span_s)) = hung_s.zip(span_s) {
            let died = process.is_some_and(|of| of.life == Life::Gone && !of.ended);
            let in_hang = if waiting.contains(&key) {
                Part::Waiting
            } else if culprit && !died && answer.waits.iter().any(|wait| wait.lack == "call") {
                // It is outside of NCCL, where it computes or its host does something else.
                Part::WorkOrHost
            } else {
                Part::Unknown
            };
            parts = with_hang(&parts, in_hang, hung_s / span_s);
            source = source.or(Some("hang"));
        }
        let share_of = |part: Part| parts.iter().find(|s| s.part == part).map(|s| s.share);
        // Of a rank of which little is known, it would be a part of the waiting only.
        let is_known = share_of(Part::Unknown).is_some_and(|share| share <= MOST_UNKNOWN);
        let wait_share = share_of(Part::Waiting).filter(|share| is_known || *share >= 0.05);
        let only = match culprits {
            [one] if !culprit => one.rank,
            _ => None,
        };
        let gpu = process.and_then(|process| gpu(process, row.device));
        let gpu = gpu.and_then(|uuid| report.nodes.gpus.iter().find(|gpu| bare(&gpu.uuid) == uuid));
        let state = match process.map(|process| (process.life, process.ended)) {
            Some((_, true)) => "ended",
            Some((Life::Gone, _)) => "died",
            Some((Life::Stopped, _)) => "stopped",
            _ if answer.hang == Some(true) && culprit => "missing",
            _ if waiting.contains(&key) => "waits",
            _ if culprit => "late",
            _ if wait_share.is_some_and(|share| share >= 0.05) => "waits",
            Some((Life::Running, _)) => "runs",
            _ => "unknown",
        };
        let completeness = report.completeness.ranks.iter();
        let lost = completeness.filter(|of| (of.process.host.as_str(), of.process.pid) == key);
        let lost = || lost.clone().flat_map(|of| &of.lost);
        let lasting = lost().filter(|(cause, _)| LASTING.contains(&cause.as_str()));
        let same = report
            .ranks
            .rows
            .iter()
            .filter(|other| (other.process.host.as_str(), other.process.pid) == key);
        let is_first = same.map(|other| other.device).min() == Some(row.device);
        RankNow {
            process: row.process.clone(),
            device: row.device,
            state,
            wait_share,
            waits_for: only.filter(|_| wait_share.is_some_and(|share| share >= 0.01)),
            cost_step_us: (culprit && answer.hang != Some(true))
                .then(|| Some(loss_us? / steps.filter(|n| *n > 0)? as f64))
                .flatten(),
            call: call(answer, key),
            power_w: gpu.and_then(|gpu| gpu.mean_w),
            sm_mhz: gpu.and_then(|gpu| gpu.sm_mhz),
            lost: lost().map(|(_, n)| n).sum(),
            lost_for_good: lasting.map(|(_, n)| n).filter(|_| is_first).sum(),
            source: source.filter(|_| !parts.is_empty()),
            parts,
        }
    });
    rows.collect()
}

/// Where the time of a rank went: by the account of its steps, or by its calls alone.
fn parts(report: &Report, row: &analyze::ranks::RankRow) -> (Vec<Share>, Option<&'static str>) {
    let shares = |parts: [(Part, f64); 4]| -> Vec<Share> {
        let all: f64 = parts.iter().map(|(_, us)| us.max(0.0)).sum();
        let share = |(part, us): (Part, f64)| Share {
            part,
            share: if all > 0.0 { us.max(0.0) / all } else { 0.0 },
        };
        parts.into_iter().map(share).collect()
    };
    let key = (row.process.host.as_str(), row.process.pid, row.device);
    let account = report.account.as_ref();
    let found = account.and_then(|account| {
        let mut ranks = account.ranks.iter();
        ranks.find(|of| (of.process.host.as_str(), of.process.pid, of.device) == key)
    });
    if let Some(of) = found {
        let parts = [
            (Part::WorkOrHost, of.work_us),
            (Part::Transfer, of.transfer_us),
            (Part::Waiting, of.wait_us),
            (Part::Unknown, of.unknown_us),
        ];
        return (shares(parts), Some("account"));
    }
    let (Some(wall), Some(nccl), Some("gpu")) = (row.wall_us, row.nccl_us, row.basis) else {
        return (Vec::new(), None);
    };
    let waited = row.waited_us.map(|us| us.min(nccl));
    let parts = [
        (Part::WorkOrHost, wall - nccl),
        (Part::Transfer, waited.map_or(0.0, |waited| nccl - waited)),
        (Part::Waiting, waited.unwrap_or(0.0)),
        (Part::Unknown, if waited.is_none() { nccl } else { 0.0 }),
    ];
    (shares(parts), Some("calls"))
}

/// The parts of a rank's time with that of the hang, which takes this share of it. Before the hang, nothing
/// is known of a rank without parts.
fn with_hang(before: &[Share], in_hang: Part, hung: f64) -> Vec<Share> {
    let hung = hung.clamp(0.0, 1.0);
    let all = [
        Part::WorkOrHost,
        Part::Transfer,
        Part::Waiting,
        Part::Unknown,
    ];
    let share = |part: Part| {
        let known = before.iter().find(|share| share.part == part);
        let was = match (known, before.is_empty()) {
            (Some(share), _) => share.share,
            (None, true) if part == Part::Unknown => 1.0,
            _ => 0.0,
        };
        let is = if part == in_hang { hung } else { 0.0 };
        Share {
            part,
            share: was * (1.0 - hung) + is,
        }
    };
    all.into_iter().map(share).collect()
}

/// The id of a rank's GPU, 32 hex digits.
fn gpu(process: &Process, device: Option<u32>) -> Option<String> {
    let mut locals = process.communicators.iter();
    let local = locals.find(|local| local.device == device && local.gpu.is_some())?;
    local.gpu.clone()
}

/// A UUID as NVML prints it, as 32 hex digits.
fn bare(uuid: &str) -> String {
    let digits = uuid.strip_prefix("GPU-").unwrap_or(uuid);
    digits.chars().filter(char::is_ascii_hexdigit).collect()
}

/// Ranks of communicators that are in a call. In the newest span of a long job, calls have no number, and
/// there is only NCCL's.
fn open(answer: &Answer) -> impl Iterator<Item = &crate::hang::Rank> {
    let ranks = answer
        .communicators
        .iter()
        .filter(|of| !of.over)
        .flat_map(|of| &of.ranks);
    ranks.filter(|rank| match (&rank.entered, &rank.finished) {
        (Some(entered), Some(finished)) => {
            let place = |call: &crate::hang::Call| (call.number, call.seq);
            place(entered) > place(finished)
        }
        (entered, None) => entered.is_some(),
        (None, Some(_)) => false,
    })
}

/// Processes that wait in a call that others lack.
fn waiting(answer: &Answer) -> BTreeSet<(&str, u32)> {
    let blamed = |host: &str, pid: u32| {
        let mut all = answer.blamed.iter();
        all.any(|of| (of.host.as_str(), of.pid) == (host, pid))
    };
    let open = open(answer);
    open.map(|rank| (rank.host.as_str(), rank.pid))
        .filter(|(host, pid)| !blamed(host, *pid))
        .collect()
}

/// The number of the newest call on the largest communicator.
fn call(answer: &Answer, (host, pid): (&str, u32)) -> Option<u64> {
    let mut largest = answer.communicators.iter().collect::<Vec<_>>();
    largest.sort_by_key(|of| std::cmp::Reverse(of.nranks));
    largest.into_iter().find_map(|of| {
        let own = of
            .ranks
            .iter()
            .find(|of| (of.host.as_str(), of.pid) == (host, pid))?;
        own.entered.as_ref()?.number
    })
}

pub(super) fn operations(report: &Report, span_s: Option<f64>) -> Vec<OperationNow> {
    let mut all: Vec<_> = report.operations.iter().filter(|of| of.calls > 0).collect();
    let time = |of: &analyze::operations::Operation| of.time_us.as_ref().map_or(0.0, |t| t.sum);
    all.sort_by(|a, b| time(b).total_cmp(&time(a)).then(b.calls.cmp(&a.calls)));
    let row = |of: &analyze::operations::Operation| OperationNow {
        communicator: of.communicator.clone(),
        function: of.function.clone(),
        bytes: of.bytes,
        datatype: of.datatype.clone(),
        calls_per_s: span_s.filter(|s| *s > 0.0).map(|s| of.calls as f64 / s),
        mean_us: of.time_us.as_ref().map(|time| time.mean),
        busbw_gb_per_s: of.busbw_gb_per_s,
    };
    all.into_iter().take(MOST).map(row).collect()
}

pub(super) fn links(report: &Report, steps: u64) -> Vec<LinkNow> {
    let links = report.arrivals.iter().flat_map(|arrivals| &arrivals.links);
    let row = |link: &analyze::arrivals::Link| LinkNow {
        rank: link.process.rank,
        host: link.process.host.clone(),
        peer: link.peer,
        peer_host: link.peer_host.clone(),
        of_the_median_ratio: (link.others_wall_us > 0.0)
            .then(|| link.held_wall_us / link.others_wall_us),
        cost_step_us: link
            .loss_wall_us
            .filter(|_| steps > 0)
            .map(|us| us / steps as f64),
    };
    links.take(MOST).map(row).collect()
}

pub(super) fn in_flight(capture: &Capture, answer: &Answer, at_ns: Option<i64>) -> InFlight {
    let mut found = InFlight::default();
    let mut oldest: Option<(i64, &Process, &tables::Call)> = None;
    for process in &capture.processes {
        if process.ended {
            continue;
        }
        for call in &process.calls {
            let shape = &process.shapes[call.shape as usize];
            if call.sealed || shape.is(flag::CAPTURED) {
                continue;
            }
            found.calls += 1;
            let since = call.api_ns;
            if since != 0 && oldest.is_none_or(|(before, ..)| since < before) {
                oldest = Some((since, process, call));
            }
        }
    }
    if let Some((since, process, call)) = oldest {
        let shape = &process.shapes[call.shape as usize];
        found.oldest_s = at_ns.map(|at| ((at - since) as f64 / 1e9).max(0.0));
        found.function = capture.names.get(shape.function).map(str::to_owned);
        found.bytes = capture.bytes(shape);
        let same = |wait: &&crate::hang::Wait| wait.call.function == found.function;
        let wait = answer.waits.iter().find(same);
        found.ranks = wait
            .map(|wait| wait.waiting.clone())
            .or_else(|| process.rank.map(|rank| rank.to_string()));
    }
    found
}

pub(super) fn power(report: &Report) -> Option<f64> {
    let all = report.nodes.gpus.iter().filter_map(|gpu| gpu.mean_w);
    all.reduce(|a, b| a + b)
}
