//! What a job does now, as `ncclscope top` shows it and `ncclscope serve` exports it.
//!
//! A [`Now`] is made of the newest span of a capture, with the same judgement as `ncclscope report` and
//! `ncclscope hang`: a hang comes first, and then the largest finding. Its fields are the format
//! `ncclscope.top/1` (`schema/top-1.json`).
//!
//! Rule: nothing is judged here. What is not known is null.

mod rows;

use crate::findings;
use crate::hang::Answer;
use analyze::hang::Hang;
use analyze::live::Live;
use analyze::spelling::{percent, three, time};
use analyze::subject::ProcessId;
use analyze::Report;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{Result, Write};
use tables::{Capture, Life, LiveSource};

pub use rows::{InFlight, LinkNow, OperationNow, Part, RankNow, Share};

/// The JSON Schema of [`json`].
pub const SCHEMA: &str = include_str!("../schema/top-1.json");

/// The format of [`Now`].
const FORMAT: &str = "ncclscope.top/1";

/// Evidence that is younger than this is of now, s: recorders on other nodes write a few times a second, and
/// a file system that is shared brings it here some seconds later.
const FRESH_S: f64 = 15.0;

/// What a job does now.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Now {
    /// The format.
    pub schema: &'static str,
    /// Where the capture is.
    pub capture: String,
    /// The newest evidence, ns since 1970.
    pub at_ns: Option<i64>,
    /// The same as a time of day, in the time zone of the recording.
    pub at_clock: Option<String>,
    /// How old that is, s.
    pub age_s: Option<f64>,
    /// `live`, `ended`, or `silent` if nothing new comes from a job that has not ended.
    #[schemars(extend("enum" = ["live", "silent", "ended"]))]
    pub state: &'static str,
    /// What all figures are of: the time up to the newest call, s. In a hang, the waiting since then is a
    /// part of it.
    pub span_s: Option<f64>,
    /// Set if all figures are only of the newest part of the span, in seconds: somebody is named who was not
    /// late before.
    pub recent_s: Option<f64>,
    /// The name of its folder.
    pub job: Option<String>,
    /// Processes that are here.
    pub processes: u64,
    /// Their hosts.
    pub nodes: u64,
    /// `hang`, the kind of the first finding, `even` if no rank holds the others up, or `unknown` if that
    /// can't be told.
    pub verdict: &'static str,
    /// The verdict.
    pub sentence: String,
    /// What belongs to it.
    pub remark: Option<String>,
    /// Processes that the verdict names.
    pub culprits: Vec<ProcessId>,
    /// What they cost, as a share of the time that is looked at, 0 to 1.
    pub cost_share: Option<f64>,
    /// The same in each step, µs.
    pub cost_step_us: Option<f64>,
    /// Whether the job hangs; null if that can't be told.
    pub hang: Option<bool>,
    /// Median step, µs.
    pub step_us: Option<f64>,
    /// Steps a second.
    pub steps_per_s: Option<f64>,
    /// Calls a second, of all ranks.
    pub calls_per_s: Option<f64>,
    /// By rank.
    pub ranks: Vec<RankNow>,
    /// What was done in the span, most GPU time first.
    pub operations: Vec<OperationNow>,
    /// The 20 with the largest price.
    pub links: Vec<LinkNow>,
    /// Calls that are not over.
    pub in_flight: InFlight,
    /// Power of all GPUs that are sampled, W.
    pub power_w: Option<f64>,
    /// Calls that NCCL announced since the start.
    pub announced: u64,
    /// Calls that were recorded.
    pub recorded: u64,
    /// Calls that were lost, by cause.
    pub lost: BTreeMap<String, u64>,
    /// What recording costs, as a share of the time.
    pub recording_share: Option<f64>,
    /// CPU time of the process that looks, as a share of one CPU; null for a single look.
    pub view_share: Option<f64>,
}

/// The verdict, as it is put together.
struct Judged {
    verdict: &'static str,
    sentence: String,
    remark: Option<String>,
    culprits: Vec<ProcessId>,
    /// What that costs, and the time of which it is a part, µs.
    cost: Option<(f64, Option<f64>)>,
}

fn judged(live: &Live, answer: &Answer) -> Judged {
    let report = &live.report;
    let remark = still(report);
    if answer.hang == Some(true) {
        let culprits = answer.blamed.iter().map(|blamed| ProcessId {
            rank: blamed.global_rank,
            host: blamed.host.clone(),
            pid: blamed.pid,
        });
        return Judged {
            verdict: "hang",
            sentence: answer.sentence.clone(),
            remark: None,
            culprits: culprits.collect(),
            cost: None,
        };
    }
    if let Some(found) = live.finding() {
        let culprits = found.subject.ranks.iter().map(|of| of.process.clone());
        return Judged {
            verdict: found.kind().name(),
            sentence: match live.recent_s {
                Some(s) => format!(
                    "New in the last {}: {}",
                    time(s * 1e6),
                    findings::sentence(found)
                ),
                None => findings::sentence(found),
            },
            remark,
            culprits: culprits.collect(),
            cost: found.loss.as_ref().map(|loss| (loss.wall_us, loss.run_us)),
        };
    }
    let said = analyze::summary::blameless_now(report);
    let verdict = if said.is_even { "even" } else { "unknown" };
    Judged {
        verdict,
        sentence: crate::verdict::lead(report, &said.lead),
        remark,
        culprits: Vec::new(),
        cost: None,
    }
}

/// For how long GPUs stood still.
fn still(report: &Report) -> Option<String> {
    let account = report.account.as_ref()?;
    let known = account.ranks.iter().filter(|rank| rank.known_share > 0.5);
    let (mut sum, mut n) = (0.0, 0);
    for rank in known {
        sum += (rank.wait_us + rank.transfer_us) / account.wall_us;
        n += 1;
    }
    (n > 0).then(|| {
        let share = percent(sum / f64::from(n));
        format!("GPUs stood still for NCCL in {share} of the steps.")
    })
}

impl Now {
    /// Of the newest span of a capture. `now_ns` is the time of this machine, ns since 1970.
    pub fn new(capture: &Capture, live: &Live, now_ns: i64) -> Now {
        let (report, hang) = (&live.report, &live.hang);
        let answer = Answer::new(hang);
        let at_ns = hang.as_of.map(|at| at.0);
        let age_s = at_ns.map(|at| (now_ns - at) as f64 / 1e9);
        let judged = judged(live, &answer);
        let steps = report.steps.as_ref();
        let step = steps.and_then(|steps| steps.step_us.as_ref());
        let step_us = step.map(|step| step.mean).filter(|us| *us > 0.0);
        let counted = step.map_or(0, |step| step.n);
        let state = state(capture, age_s);
        let hung_s = answer.waited_s.filter(|_| answer.hang == Some(true));
        let span_s = rows::span_s(capture).map(|s| s + hung_s.unwrap_or(0.0));
        // A job that hangs, or has ended, makes no steps.
        let goes_on = state == "live" && answer.hang != Some(true);
        let calls: usize = capture.processes.iter().map(|p| p.calls.len()).sum();
        let hosts: std::collections::BTreeSet<&str> =
            capture.processes.iter().map(|p| p.host.as_str()).collect();
        let folder = capture.path.canonicalize();
        let job = folder.as_ref().unwrap_or(&capture.path).file_name();
        let job = job.map(|name| tables::printable(&name.to_string_lossy()).into_owned());
        Now {
            schema: FORMAT,
            capture: capture.path.display().to_string(),
            at_ns,
            at_clock: at_ns.and_then(|at| clock(hang, at)),
            age_s,
            state,
            span_s,
            recent_s: live.recent_s,
            job,
            processes: capture.processes.len() as u64,
            nodes: hosts.len() as u64,
            cost_share: judged
                .cost
                .and_then(|(us, of)| Some(us / of.filter(|of| *of > 0.0)?)),
            cost_step_us: judged
                .cost
                .filter(|_| counted > 0)
                .map(|(us, _)| us / counted as f64),
            hang: answer.hang,
            step_us,
            steps_per_s: match (goes_on, step_us) {
                (true, Some(us)) => Some(1e6 / us),
                (false, Some(_)) => Some(0.0),
                _ => None,
            },
            calls_per_s: span_s.filter(|s| *s > 0.0).map(|s| {
                if goes_on {
                    calls as f64 / s
                } else {
                    0.0
                }
            }),
            ranks: rows::ranks(capture, live, &answer, &judged.culprits, span_s),
            operations: rows::operations(report, span_s),
            links: rows::links(report, counted),
            in_flight: rows::in_flight(capture, &answer, at_ns),
            power_w: rows::power(report),
            announced: report.completeness.announced,
            recorded: report.completeness.recorded,
            lost: report.completeness.lost.clone(),
            recording_share: report
                .cost
                .as_ref()
                .and_then(|cost| cost.gpu.as_ref())
                .map(|share| share.share),
            view_share: None,
            verdict: judged.verdict,
            sentence: judged.sentence,
            remark: judged.remark,
            culprits: judged.culprits,
        }
    }
}

/// The time of day.
fn clock(hang: &Hang, at_ns: i64) -> Option<String> {
    let spelled = hang.zone.spelled(at_ns, 0);
    spelled.split(' ').nth(1).map(str::to_owned)
}

fn state(capture: &Capture, age_s: Option<f64>) -> &'static str {
    let all = &capture.processes;
    if all.iter().any(|process| process.life.is_there()) {
        return "live";
    }
    let has_ended = |process: &tables::Process| {
        process.ended || process.life == Life::Gone || process.live == LiveSource::Adopted
    };
    if all.iter().all(has_ended) {
        return "ended";
    }
    if age_s.is_some_and(|age| age < FRESH_S) {
        "live"
    } else {
        "silent"
    }
}

/// Writes it as JSON on one line.
///
/// # Errors
/// Those of `out`.
pub fn json(now: &Now, out: &mut impl Write) -> Result<()> {
    let json = serde_json::to_string(now)?;
    writeln!(out, "{}", crate::json::printable(&json))
}

/// A rate: `46.1 GB/s`.
pub fn gb_per_s(value: f64) -> String {
    format!("{} GB/s", three(value))
}
