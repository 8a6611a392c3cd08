//! The verdict that a report begins with, the sentence that it ends with, and the command that helps most
//! after it.
//!
//! Rule: the verdict answers whether communication is the job's problem, and whose fault that is. What makes
//! it doubtful comes first: a rank that died, calls that are not here. The last sentence is about what took
//! most time, by the best clock there is; the command can be typed as it stands.

use crate::account::{Open, RankAccount, MATTERS};
use crate::arrivals::{Arrivals, RankArrivals};
use crate::efficiency::EfficiencyRow;
use crate::findings::{settling, Finding, Kind, RankId, LEAST_SHARE};
use crate::notes::WINDOWS_TELL;
use crate::operations::Operation;
use crate::ranks::RankRow;
use crate::spelling::{percent, plural, size, three, time, word};
use crate::standstill::Standstill;
use crate::statistics::Statistics;
use crate::steps::Steps;
use crate::streams::Streams;
use crate::warmup::WarmupRow;
use crate::Report;

/// The sentence.
pub fn summary(operations: &[Operation], warmup: &[WarmupRow]) -> String {
    let of = |pick: fn(&Operation) -> &Option<Statistics>| {
        let sum: f64 = operations
            .iter()
            .filter_map(|o| pick(o).as_ref())
            .map(|t| t.sum)
            .sum();
        // The first of equals, which stands first in the table.
        let worst = operations.iter().rev().max_by(|a, b| {
            let sum = |o: &&Operation| pick(o).as_ref().map_or(0.0, |t| t.sum);
            sum(a).total_cmp(&sum(b))
        })?;
        Some((worst, (*pick(worst))?, sum))
    };
    let (what, found) = match of(|o| &o.time_us) {
        Some(found) => ("GPU time", Some(found)),
        None => ("host time", of(|o| &o.host_us)),
    };
    let Some((worst, times, whole)) = found else {
        let first = |w: &WarmupRow| w.time_us.is_some() || w.host_us.is_some();
        return if warmup.iter().any(first) {
            "Only first calls have a time; they are under Warm-up.".to_owned()
        } else {
            "No call has a time.".to_owned()
        };
    };
    let function = worst.function.as_deref().unwrap_or("An unnamed function");
    let bytes = worst.bytes.map_or("unknown size".to_owned(), size);
    let share = if whole > 0.0 {
        percent(times.sum / whole)
    } else {
        percent(0.0)
    };
    let sum = time(times.sum);
    let calls = if worst.calls == 1 { "call" } else { "calls" };
    // The table has as many calls, and says which are left out of its sums.
    let of_them = match (times.n == worst.calls, what) {
        (true, _) => String::new(),
        (false, "GPU time") => format!(" ({} timed, first calls apart)", times.n),
        (false, _) => format!(" ({} in the sum)", times.n),
    };
    format!(
        "{function} of {bytes} took {share} of the {what} in NCCL: {sum} over ranks in {} {calls}{of_them}.",
        worst.calls
    )
}

/// That most of the communication is not NCCL's, by the time of its kernels in windows.
#[derive(Clone, Debug, PartialEq)]
pub struct BesideNccl {
    /// Time of others' kernels, µs.
    pub other_us: f64,
    /// Time of NCCL's kernels, µs.
    pub nccl_us: f64,
    /// The library with most of it.
    pub library: String,
    /// There are other libraries, too.
    pub more: bool,
}

fn beside_nccl(streams: &Streams) -> Option<BesideNccl> {
    let others = &streams.other_communication;
    let other_us: f64 = others.iter().map(|other| other.sum_us).sum();
    let nccl_us: f64 = streams.communication.iter().map(|of| of.sum_us).sum();
    let most = others.iter().max_by(|a, b| a.sum_us.total_cmp(&b.sum_us))?;
    (other_us > nccl_us).then(|| BesideNccl {
        other_us,
        nccl_us,
        library: most.library.to_owned(),
        more: others.len() > 1,
    })
}

/// What matters most about a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// What matters most about its calls of NCCL.
    pub lead: Lead,
    /// Most of its communication is not NCCL's.
    pub beside: Option<BesideNccl>,
    /// The job died or hangs: that comes before `beside`.
    pub ended: bool,
    /// The exit status of the command, if it failed and nothing else says so. That comes first.
    pub failed: Option<i64>,
    /// That the last calls of ranks may be lost, if `lead` is about something else.
    pub last_calls: Option<String>,
    /// All of its processes died, the last of them at this time, as people read it.
    pub killed: Option<String>,
}

/// What matters most about the calls of NCCL.
#[derive(Clone, Debug, PartialEq)]
pub enum Lead {
    /// The first finding.
    Finding,
    /// What the account of the steps says: no rank costs so much that it matters.
    Account,
    /// What a late host costs at most, because who is late is not known.
    LateHost,
    /// Something else, in words.
    Words(String),
}

impl Default for Lead {
    fn default() -> Lead {
        Lead::Words(String::new())
    }
}

impl Verdict {
    /// Whether it says nothing but the finding at this place of the report.
    pub fn is_finding(&self, index: usize) -> bool {
        (index, &self.lead, &self.beside) == (0, &Lead::Finding, &None)
    }
}

/// The verdict: what matters most about this job.
pub fn verdict(report: &Report) -> Verdict {
    let jobs = report.job.jobs.len();
    let faults = report.job.faults.join(" ");
    if jobs <= 1 && !faults.is_empty() {
        return Verdict {
            lead: Lead::Words(faults),
            ..Verdict::default()
        };
    }
    if jobs > 1 {
        let words = if let Some(sizes) = report.job.sizes_of_runs() {
            format!(
                "These are {jobs} runs of nccl-tests, one after the other, of {sizes} ranks, and all figures \
                 mix them."
            )
        } else if report.job.is_benchmark() {
            format!(
            "These are {jobs} runs of nccl-tests that knew nothing of each other, and all figures mix \
             them."
        )
        } else {
            format!(
            "This folder holds {jobs} jobs, and all figures mix them: report each from a folder of its \
             own."
        )
        };
        let words = format!("{faults} {words}");
        return Verdict {
            lead: Lead::Words(words.trim_start().to_owned()),
            ..Verdict::default()
        };
    }
    // Else the lead says what is missing.
    let last_calls = report.completeness.last_calls();
    Verdict {
        last_calls: last_calls.filter(|_| has_stopped(report)),
        lead: of_nccl(report),
        beside: report.streams.as_ref().and_then(beside_nccl),
        ended: is_over(report),
        failed: report
            .job
            .exit_status
            .filter(|status| *status != 0 && !is_over(report) && report.standstill.is_none()),
        killed: report.killed.clone().filter(|_| {
            let mut findings = report.findings.iter();
            report.job.exit_status != Some(0)
                && !is_over(report)
                && !findings.any(|finding| finding.kind().is_broken())
        }),
    }
}

/// Whether the job is seen to have died or to hang.
fn is_over(report: &Report) -> bool {
    !report.deaths.is_empty() || report.sightings.iter().any(|seen| seen.still_holds())
}

/// Whether the verdict is that it stopped.
fn has_stopped(report: &Report) -> bool {
    is_over(report) || report.standstill.is_some() && !report.findings.is_empty()
}

/// How a verdict on a job begins that is not all here.
const NOT_ALL: &str = "Not all of this job is here.";

/// The verdict on what NCCL did.
fn of_nccl(report: &Report) -> Lead {
    // Deaths are the first findings.
    if !report.deaths.is_empty() {
        return Lead::Finding;
    }
    let mut seen = report.sightings.iter().rev();
    if let Some(seen) = seen.find(|seen| seen.still_holds()) {
        let agrees = |of: &Standstill| seen.agrees(of.hang.verdict.kind());
        return match &report.standstill {
            Some(of) if agrees(of) && !report.findings.is_empty() => Lead::Finding,
            _ => Lead::Words(seen.sentence()),
        };
    }
    if report.standstill.is_some() && !report.findings.is_empty() {
        return Lead::Finding;
    }
    match incomplete(report) {
        Some(said) => Lead::Words(said),
        None if !report.findings.is_empty() => Lead::Finding,
        None => blameless(report).lead,
    }
}

/// What of the job is not in the capture, if that comes before findings.
fn incomplete(report: &Report) -> Option<String> {
    let c = &report.completeness;
    let lacks = c.missing().into_iter().next().or_else(|| c.not_here());
    // Without any call, more is said below.
    let last = || c.last_calls().filter(|_| c.recorded > 0);
    let lacks = lacks.or_else(last).map(|what| format!("{NOT_ALL} {what}"));
    lacks.or_else(|| c.not_counted())
}

/// What is to be said of a job that no finding blames anybody for.
#[derive(Clone, Debug, PartialEq)]
pub struct Blameless {
    /// What.
    pub lead: Lead,
    /// Nobody holds the others up, as far as that shows; else it is not known who does.
    pub is_even: bool,
}

/// The same while the job runs. Ranks may then be some calls behind others, because their recorders write
/// at other moments: that says nothing.
pub fn blameless_now(report: &Report) -> Blameless {
    let c = &report.completeness;
    let absent = c.absent.first().map(|absent| absent.sentence());
    let absent = absent.map(|what| format!("{NOT_ALL} {what}"));
    match absent.or_else(|| c.not_counted()) {
        Some(said) => Blameless {
            lead: Lead::Words(said),
            is_even: false,
        },
        None => blameless(report),
    }
}

/// What a report says of complete calls without a finding.
fn blameless(report: &Report) -> Blameless {
    let account = report.account.as_ref();
    if settling(account, report.arrivals.as_ref()).is_some_and(|account| account.open.is_none()) {
        return Blameless {
            lead: Lead::Account,
            is_even: true,
        };
    }
    if let Some(words) = without_communication(report) {
        return Blameless {
            lead: Lead::Words(words),
            is_even: false,
        };
    }
    let exposed = exposed(report);
    let late_host = account.and_then(|account| account.late_host);
    if late_host.is_some_and(|late| late.leads || exposed.is_none()) {
        return Blameless {
            lead: Lead::LateHost,
            is_even: false,
        };
    }
    let judged =
        report.streams.as_ref().is_some_and(Streams::tells_who) || report.arrivals.is_some();
    // Who arrives last in nearly all operations may hold the others up.
    let nobody_is_last = judged && seems_last(report).is_none();
    let nobody = nobody(report);
    let (words, is_even) = match exposed {
        Some((exposed, from)) => {
            let from = from.map_or(String::new(), |from| format!(", by {from}"));
            let over = over_ranks(&exposed);
            (
                format!("{nobody}Communication stops computing for {exposed} of the time{over}{from}."),
                nobody_is_last,
            )
        }
        None => match bounded(report) {
            Some(bounded) => (format!("{nobody}{}", bounded.words), bounded.is_small),
            None if judged => (
                format!(
                    "{nobody}How long communication stops computing is not known: compute kernels were \
                     not recorded.{}",
                    then(report, Some(WINDOWS_TELL))
                ),
                nobody_is_last,
            ),
            None => (not_judged(report), false),
        },
    };
    Blameless {
        lead: Lead::Words(words),
        is_even,
    }
}

const WINDOWS_TELL_MORE: &str = "Kernel windows on all ranks tell more.";

/// Bounds that are wider say nothing.
const WIDE: f64 = 0.9;

/// Between which bounds GPUs stood still, in words.
struct Bounded {
    words: String,
    /// The bounds, as shares of the steps' time, or of the run's.
    between: (f64, f64),
    /// Even the upper bound is so small that it does not matter.
    is_small: bool,
}

/// For how long GPUs stood still, if there are bounds of that; why no more is known, and what would tell
/// more.
fn bounded(report: &Report) -> Option<Bounded> {
    by_account(report).or_else(|| by_time_in_nccl(report))
}

/// By the time in NCCL: a GPU that is not in it does not stand still for it. All of it may have been in the
/// steps, if there are any.
fn by_time_in_nccl(report: &Report) -> Option<Bounded> {
    let steps_us = report.steps.as_ref().and_then(|steps| steps.step_us);
    let steps_us = steps_us.map(|step| step.sum);
    let share = |rank: &RankRow| Some(rank.most_us? / steps_us.or(rank.wall_us)?);
    let shares: Vec<f64> = report.ranks.rows.iter().map(share).collect::<Option<_>>()?;
    // Of first calls alone nothing is known.
    let most = shares
        .into_iter()
        .reduce(f64::max)
        .filter(|most| *most > 0.0)?;
    // Calls that were not recorded have no times either.
    let c = &report.completeness;
    let is_all = c.lost.is_empty() && c.unseen.is_empty() && !c.announced_is_lower_bound;
    if !is_all || most >= WIDE {
        return None;
    }
    let of = steps_us.map_or("time", |_| "steps' time");
    let most_said = percent(most);
    let words = if most < MATTERS {
        format!(
            "Communication is no problem: GPUs stand still for it for {most_said} of the {of} at most, first \
             calls apart."
        )
    } else {
        let then = then(report, Some(WINDOWS_TELL_MORE));
        format!(
            "GPUs stand still in communication for {most_said} of the {of} at most, first calls apart: they \
             are in NCCL for no longer.{then}"
        )
    };
    Some(Bounded {
        words,
        between: (0.0, most),
        is_small: most < MATTERS,
    })
}

/// The sentence that says what would tell more, behind another one. Of a file of another tool nothing can be
/// recorded again.
fn then(report: &Report, sentence: Option<&str>) -> String {
    let sentence = sentence.filter(|_| !report.job.is_of_other_tool);
    sentence.map_or(String::new(), |sentence| format!(" {sentence}"))
}

/// By the account of the steps.
fn by_account(report: &Report) -> Option<Bounded> {
    let account = report.account.as_ref()?;
    let (between @ (low, high), open) = (account.still_between, account.open?);
    if high < MATTERS {
        let words = format!(
            "Communication is no problem: GPUs stand still for it for {} of the steps' time at most.",
            percent(high)
        );
        return Some(Bounded {
            words,
            between,
            is_small: true,
        });
    }
    let wide = |words: String| Bounded {
        words,
        between,
        is_small: false,
    };
    if open == Open::InGraphs && low < MATTERS {
        return Some(wide(format!(
            "No rank comes late to its CUDA graphs: ranks wait for each other for {} of the steps' time. How \
             long calls in the graphs wait is not known; kernel windows tell.",
            percent(low)
        )));
    }
    let (why, then) = match open {
        Open::Absent(ranks) => (
            format!(
                "{} not in this capture",
                match ranks {
                    1 => "one rank is".to_owned(),
                    _ => format!("{ranks} ranks are"),
                }
            ),
            "Record all ranks.",
        ),
        Open::Graphs | Open::InGraphs => (
            "calls in CUDA graphs have no times outside of kernel windows".to_owned(),
            "Longer kernel windows tell more.",
        ),
        Open::Hidden => (
            "it was not recorded what GPUs computed beside communication".to_owned(),
            WINDOWS_TELL_MORE,
        ),
        Open::Apart => (
            "ranks do not all meet in the same operations, and too few calls were timed".to_owned(),
            WINDOWS_TELL_MORE,
        ),
    };
    let still = match (high < WIDE, percent(low) == percent(high)) {
        (false, _) if low < MATTERS => return None,
        (false, _) => format!("for {} of the steps' time or more", percent(low)),
        (true, true) => format!("for {} of the steps' time", percent(low)),
        (true, false) => {
            let low = percent(low);
            format!(
                "for {} to {} of the steps' time",
                low.trim_end_matches(" %"),
                percent(high)
            )
        }
    };
    Some(wide(format!(
        "GPUs stand still in communication {still}. Who is late is not known: {why}. {then}"
    )))
}

/// Between which parts of the steps' time, or of the run's, GPUs stand still, if the verdict says that and
/// blames nobody.
pub fn still_between(report: &Report) -> Option<(f64, f64)> {
    let account = report.account.as_ref();
    match &report.verdict.lead {
        Lead::Account => account?.still(),
        Lead::LateHost => Some(account?.still_between),
        Lead::Words(_) => {
            let shares = exposed_shares(report).filter(|shares| !shares.is_empty());
            let range = shares.map(|shares| {
                let ends = (f64::INFINITY, 0.0f64);
                shares.iter().fold(ends, |(low, high), share| {
                    (low.min(*share), high.max(*share))
                })
            });
            range.or_else(|| bounded(report).map(|bounded| bounded.between))
        }
        Lead::Finding => None,
    }
}

/// The rank that the verdict names without a finding, and what it costs at most, µs of the wall: a price
/// that is not proved, or that may be nothing.
pub fn at_most(report: &Report) -> Option<(RankId, f64)> {
    let account = report.account.as_ref()?;
    let (rank, most_us) = match report.verdict.lead {
        Lead::LateHost => (account.late_host?.rank, account.late_host?.most_us),
        Lead::Account => {
            let first = account.answers.first()?;
            let (_, most_us) = first.interval_us;
            // Less costs little, and the verdict says so.
            let matters = most_us >= MATTERS * account.wall_us;
            (*first.ranks.first().filter(|_| matters)?, most_us)
        }
        Lead::Finding | Lead::Words(_) => return None,
    };
    Some((account.ranks.get(rank)?.id(), most_us))
}

/// Whether the report could name a late rank if there was one.
pub fn tells_who(report: &Report) -> bool {
    let by_lead = !matches!(report.verdict.lead, Lead::Words(_));
    by_lead || report.arrivals.is_some() || report.streams.as_ref().is_some_and(Streams::tells_who)
}

/// Why nobody can be blamed and no cost be told.
fn not_judged(report: &Report) -> String {
    let (calls, timed) = (report.completeness.recorded, report.completeness.timed);
    let processes = plural(report.job.nprocesses as u64, "process", "processes");
    let no_times = report.no_times.as_ref();
    let mut tells = no_times.map_or(Some(WINDOWS_TELL), |no| no.then);
    let why = match (calls, timed, no_times) {
        (0, ..) if report.completeness.announced > 0 => {
            return format!(
                "No call is here: NCCL announced {} to {processes}, and none was recorded.",
                plural(report.completeness.announced, "call", "calls")
            )
        }
        // Nothing that is here shows a call, and not everything is here.
        (0, ..) if report.completeness.announced_is_lower_bound => {
            let mut of: Vec<&str> = report
                .completeness
                .ranks
                .iter()
                .map(|rank| rank.live)
                .collect();
            of.retain(|live| !matches!(*live, "adopted" | "here"));
            of.sort_unstable();
            of.dedup();
            let states = if of.is_empty() {
                String::new()
            } else {
                format!(" ({})", of.join(", "))
            };
            return format!(
                "How many NCCL calls this job made is not known: the newest part of its data is not here or \
                 can't be read{states}. Next: `ncclscope collect DIR` on its hosts, as the user who ran it."
            );
        }
        (0, ..) => {
            let mut all = report.communicators.iter();
            let alone = all.len() > 0 && all.all(|of| of.nranks == Some(1));
            let why = if alone {
                ": all of its communicators have one rank".to_owned()
            } else {
                format!(" ({processes})")
            };
            if let Some(functions) = &report.not_recorded {
                return format!(
                    "No NCCL call of this job was recorded. Calls of {functions} were left out: \
                     `ncclscope attach --slow` records them."
                );
            }
            return format!("This job made no NCCL call that a profiler sees{why}.");
        }
        _ if report.job.mode == ["profile"] => {
            tells = Some("Mode trace tells.");
            "mode profile keeps totals, and no single call".to_owned()
        }
        (_, 0, Some(no)) => format!("no call has a GPU time, because {}", no.because),
        (_, 0, None) => "no call has a GPU time".to_owned(),
        _ if report.only_lengths => {
            format!("of {timed} calls the file says how long they ran, and not when")
        }
        _ => format!(
            "{timed} of {calls} calls have a GPU time, and no operation on all of its ranks"
        ),
    };
    let then = then(report, tells);
    format!("Which rank is late, and what communication costs, is not known: {why}.{then}")
}

/// That no rank is proved to be late, if that could be known; and which one seems to be.
fn nobody(report: &Report) -> String {
    let told = report.streams.as_ref().is_some_and(Streams::tells_who);
    if report.arrivals.is_none() && !told {
        return String::new();
    }
    match seems_last(report) {
        Some(rank) => format!(
            "No rank is proved to hold this job up, but {} arrived last in {} of {} operations. ",
            named(rank.rank, rank.device, &rank.host, rank.pid),
            rank.last,
            rank.operations
        ),
        None => "No rank is proved to hold this job up. ".to_owned(),
    }
}

fn seems_last(report: &Report) -> Option<&RankArrivals> {
    let wall_us = report.ranks.wall_us.map(|wall| wall.max);
    last_of_all(report.arrivals.as_ref()?, wall_us)
}

/// A rank that is nearly always the last, and would save enough to matter if it was not. But the interval of
/// that begins at zero or below.
fn last_of_all(arrivals: &Arrivals, wall_us: Option<f64>) -> Option<&RankArrivals> {
    /// Of fewer operations one of two ranks is the last in all by chance.
    const LEAST_OPERATIONS: u64 = 20;
    let run_us = wall_us?;
    let ranks = arrivals.ranks.iter().filter(|rank| {
        rank.operations >= LEAST_OPERATIONS
            && 10 * rank.last >= 9 * rank.operations
            && rank.saving_wall_us >= LEAST_SHARE * run_us
            && 2 * rank.last_refuted.unwrap_or(0) <= rank.last
    });
    ranks.max_by(|a, b| a.saving_wall_us.total_cmp(&b.saving_wall_us))
}

/// A rank, for the middle of a sentence.
fn named(rank: Option<u32>, device: Option<u32>, host: &str, pid: u32) -> String {
    match (rank, device) {
        (Some(number), Some(device)) => format!("rank {number} (GPU {device} on {host})"),
        (Some(number), None) => format!("rank {number}"),
        (None, _) => format!("pid {pid} on {host}"),
    }
}

/// The share of exposed communication by rank, from kernel windows, or else from stream waits.
pub fn exposed_shares(report: &Report) -> Option<Vec<f64>> {
    if without_communication(report).is_some() {
        return None;
    }
    let windows = report.streams.iter().flat_map(|streams| &streams.ranks);
    let shares: Vec<f64> = windows.map(|rank| rank.exposed.share).collect();
    let waits = report.stream_waits.as_ref().filter(|waits| waits.tells());
    if !shares.is_empty() {
        Some(shares)
    } else {
        waits.map(|waits| waits.ranks.iter().map(|rank| rank.share.share).collect())
    }
}

/// The share of exposed communication over ranks, for people, and from what it is if not from kernel windows.
/// Windows of some ranks say nothing about the others: then it is from the account, if that settles it.
/// `None` without windows and stream waits.
pub fn exposed(report: &Report) -> Option<(String, Option<&'static str>)> {
    if without_communication(report).is_some() {
        return None;
    }
    let seen = report
        .streams
        .as_ref()
        .map_or(0, |streams| streams.ranks.len());
    if (1..report.ranks.rows.len()).contains(&seen) {
        let still = |rank: &RankAccount| rank.wait_us + rank.transfer_us;
        if let Some(range) = in_account(report, still) {
            return Some((range, Some("the account of the steps")));
        }
    }
    let windows = report.streams.iter().flat_map(|streams| &streams.ranks);
    let by_windows = range_of_shares(windows.map(|rank| rank.exposed.share));
    by_windows.map(|range| (range, None)).or_else(|| {
        let waits = report.stream_waits.as_ref().filter(|w| w.tells())?;
        let range = range_of_shares(waits.shares().flatten())?;
        Some((range, Some("stream waits")))
    })
}

/// That a file of another tool shows what GPUs computed, and not one kernel that communicates. Then nothing
/// is known of exposed communication. Ranks that are alone have nothing to communicate.
fn without_communication(report: &Report) -> Option<String> {
    let streams = report.streams.as_ref()?;
    let shows = !streams.communication.is_empty() || !streams.other_communication.is_empty();
    let (calls, timed) = (report.completeness.recorded, report.completeness.timed);
    if !report.job.is_of_other_tool || streams.ranks.is_empty() || shows || timed > 0 {
        return None;
    }
    let mut all = report.communicators.iter();
    match calls {
        0 => Some(
            "No NCCL call is here: the file has no call and no kernel of NCCL, so it says nothing about \
             communication."
                .to_owned(),
        ),
        _ if all.all(|of| of.nranks == Some(1)) => None,
        _ => Some(format!(
            "How long communication stops computing is not known: the file has {}, and no kernel of NCCL.",
            plural(calls, "NCCL call", "NCCL calls")
        )),
    }
}

/// The share of the steps' time over ranks, by the account; `None` if that does not settle it.
fn in_account(report: &Report, time_us: impl Fn(&RankAccount) -> f64) -> Option<String> {
    let account = report.account.as_ref().filter(|account| account.settles)?;
    let shares = account.ranks.iter();
    range_of_shares(shares.map(|rank| time_us(rank) / account.wall_us))
}

/// Shares from the lowest to the highest, for people; `None` of none.
pub fn range_of_shares(shares: impl Iterator<Item = f64>) -> Option<String> {
    let mut shares: Vec<f64> = shares.collect();
    shares.sort_by(f64::total_cmp);
    let (low, high) = (percent(*shares.first()?), percent(*shares.last()?));
    Some(if low == high {
        low
    } else {
        format!("{} to {high}", low.trim_end_matches(" %"))
    })
}

/// Behind what [`range_of_shares`] gave: what makes clear that it is the least and the most of the ranks.
/// Nothing for one share.
fn over_ranks(range: &str) -> &'static str {
    if range.contains(" to ") {
        " across ranks"
    } else {
        ""
    }
}

/// Whether nothing that costs time or makes the figures doubtful stands first.
pub fn is_sound(report: &Report) -> bool {
    let c = &report.completeness;
    let holds = report.sightings.iter().any(|seen| seen.still_holds());
    report.deaths.is_empty()
        && matches!(report.job.exit_status, None | Some(0))
        && !holds
        && c.missing().is_empty()
        && c.not_here().is_none()
        && c.last_calls().is_none()
        && c.unseen.is_empty()
        && report.findings.is_empty()
}

/// The median step is told beside the mean if the two differ by this part.
const UNLIKE: f64 = 0.25;

/// How long a step is, and that the program's may be shorter or longer.
fn step(steps: &Steps) -> Option<String> {
    let us = steps.mean_us()?;
    let row = steps.reference()?;
    let other = if row.equal_parts > 1 {
        format!(" of {} equal parts", row.equal_parts)
    } else if row.times_repeat > 1 {
        format!(" (or {} of these)", row.times_repeat)
    } else {
        String::new()
    };
    // A mean that few long steps make is no step that anybody sees.
    let p50 = steps.step_us.and_then(|step| step.p50);
    let median = p50
        .filter(|p50| (us / p50 - 1.0).abs() > UNLIKE)
        .map_or(String::new(), |p50| {
            format!(" on average, {} mostly", time(p50))
        });
    Some(format!("step {}{median}{other}", time(us)))
}

/// The few figures that belong to it: step time, exposed communication, waiting, bandwidth.
pub fn figures(report: &Report) -> Vec<String> {
    let mut figures = Vec::new();
    figures.extend(report.steps.as_ref().and_then(step));
    match (exposed(report), report.ranks.share) {
        (Some((exposed, from)), _) => {
            let by = from.map_or(String::new(), |from| format!(", by {from}"));
            let over = over_ranks(&exposed);
            figures.push(format!(
                "exposed communication {exposed} of the time{over}{by}"
            ));
        }
        // What runs in graphs is most of the job, and nothing tells its time.
        (None, Some(_)) if mostly_in_graphs(report) => {
            let calls = report.completeness.in_graphs.unwrap_or(0);
            figures.push(format!(
                "time in NCCL not known: {calls} calls in CUDA graphs were not timed"
            ));
        }
        (None, Some(share)) => {
            let on_host = report
                .ranks
                .rows
                .iter()
                .any(|rank| rank.basis == Some("host"));
            let place = if on_host {
                "in NCCL's calls on the host"
            } else {
                "in NCCL"
            };
            let share = percent(share.median);
            figures.push(format!("{place} {share} of the time (median rank)"));
        }
        (None, None) => {}
    }
    figures.extend(waiting(report));
    // What moved most bytes says most about the links, if its bandwidth is known.
    let moved = |o: &&Operation| o.bytes.unwrap_or(0).saturating_mul(o.calls);
    // The first of equals, which took longer.
    let most = report.operations.iter().rev().max_by_key(moved);
    let most = most.filter(|o| o.busbw_gb_per_s.is_some());
    figures.extend(most.and_then(|operation| {
        let busbw = three(operation.busbw_gb_per_s?);
        let function = operation.function.as_deref()?;
        let size = size(operation.bytes?);
        let row = report.efficiency.iter().find(|row| row.is_of(operation));
        let share = row.and_then(EfficiencyRow::from_outside);
        let share = share.map_or(String::new(), |of| {
            format!(", {} of {}", percent(of.share), of.named)
        });
        Some(format!(
            "{function} of {size} at {busbw} GB/s (busbw{share})"
        ))
    }));
    figures
}

/// Whether most calls ran in CUDA graphs, where no event of theirs has a time.
pub(crate) fn mostly_in_graphs(report: &Report) -> bool {
    let of = &report.completeness;
    of.in_graphs.is_some_and(|calls| calls > of.recorded)
}

/// How much of the time was waiting for late ranks. What a late rank costs is by the account, so if that
/// settles it, this is by the account, too.
fn waiting(report: &Report) -> Option<String> {
    if let Some(range) = in_account(report, |rank| rank.wait_us) {
        let over = over_ranks(&range);
        return Some(format!(
            "waiting for late ranks {range} of the steps' time{over}"
        ));
    }
    let ranks = report.streams.iter().flat_map(|streams| &streams.ranks);
    let shares = ranks.filter_map(|rank| Some(rank.exposed_waiting?.share));
    if let Some(range) = range_of_shares(shares) {
        let over = over_ranks(&range);
        return Some(format!("waiting for late ranks {range} of the time{over}"));
    }
    if mostly_in_graphs(report) {
        return None;
    }
    let share = waiting_share(report)?;
    Some(format!("waiting {} of the time in NCCL", percent(share)))
}

/// The part of the GPU time in NCCL that was waiting for late ranks. `None` if that is known for operations
/// with less than half of that time. They say nothing about the rest.
pub fn waiting_share(report: &Report) -> Option<f64> {
    let arrivals = report.arrivals.as_ref()?;
    let most = arrivals.part_of(&report.operations)? >= 0.5;
    most.then(|| arrivals.wait_share()).flatten()
}

/// Whether ranks died, waited to the end, or made calls that do not fit: `ncclscope hang` shows how far each
/// one came.
fn stopped_early(report: &Report) -> bool {
    let differ = |finding: &Finding| finding.kind() == Kind::DifferingOperations;
    !report.deaths.is_empty()
        || report.standstill.is_some()
        || report.findings.first().is_some_and(differ)
}

/// The command that helps most.
pub fn next(report: &Report) -> String {
    let folder = word(&report.job.capture);
    let command = report
        .job
        .command
        .as_deref()
        .filter(|c| c.len() < 60)
        .unwrap_or("…");
    let lost = &report.completeness.lost;
    if report.completeness.collectable {
        format!("ncclscope collect {folder}")
    } else if stopped_early(report) {
        format!("ncclscope hang {folder}")
    } else if report.job.is_of_other_tool {
        // There is nothing to record again.
        format!("ncclscope view {folder}")
    } else if !report.completeness.absent.is_empty()
        || report.completeness.not_here().is_some()
        || report.completeness.recorded == 0
    {
        format!("ncclscope doctor {folder}")
    } else if report.completeness.small_memory {
        format!("NCCLSCOPE_MEMORY=64MiB ncclscope run -- {command}")
    } else if lost.contains_key("rows_full") || lost.contains_key("totals_full") {
        format!("ncclscope doctor {folder}")
    } else if report.completeness.timed == 0
        && report.times_exist
        && report
            .job
            .timing
            .iter()
            .any(|t| t == "host" || t == "stamps")
    {
        format!("NCCLSCOPE_TIMING=auto ncclscope run -- {command}")
    } else if report.job.mode == ["profile"] {
        // Totals have no single call that could be drawn.
        format!("ncclscope report {folder} --all")
    } else {
        format!("ncclscope view {folder}")
    }
}
