//! What a report begins and ends with, as facts: the verdict, the operation with most time, and the command
//! that helps most after it.
//!
//! Rule: the verdict answers whether communication is the job's problem, and whose fault that is. What makes
//! it doubtful comes first: a rank that died, calls that are not here. The last sentence is about what took
//! most time, by the best clock there is. `render` makes sentences of all this.

use crate::account::LEAST_SHARE;
use crate::account::{Open, RankAccount, MATTERS};
use crate::arrivals::{Arrivals, RankArrivals};
use crate::completeness::NotCounted;
use crate::findings::{settling, Finding, Kind, RankId};
use crate::operations::Operation;
use crate::ranks::RankRow;
use crate::sightings::SightingRow;
use crate::standstill::Standstill;
use crate::statistics::Statistics;
use crate::streams::Streams;
use crate::warmup::WarmupRow;
use crate::Report;

/// What took most time.
#[derive(Clone, Debug, PartialEq)]
pub enum Summary {
    /// No call has a time.
    NoTime,
    /// Only first calls have one.
    FirstCallsOnly,
    /// One kind of operation.
    Most(MostTime),
}

/// The operation with most time.
#[derive(Clone, Debug, PartialEq)]
pub struct MostTime {
    /// Its function.
    pub function: Option<String>,
    /// Its size.
    pub bytes: Option<u64>,
    /// The time is that of the GPU; else that of the host.
    pub on_gpu: bool,
    /// Over all ranks, µs.
    pub sum_us: f64,
    /// The same as a share of all operations' time.
    pub share: f64,
    /// Its calls.
    pub calls: u64,
    /// The calls of which the sum is. The table has all, and says which are left out of its sums.
    pub summed: u64,
}

/// What took most time.
pub fn summary(operations: &[Operation], warmup: &[WarmupRow]) -> Summary {
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
    let (on_gpu, found) = match of(|o| &o.time_us) {
        Some(found) => (true, Some(found)),
        None => (false, of(|o| &o.host_us)),
    };
    let Some((worst, times, whole)) = found else {
        let first = |w: &WarmupRow| w.time_us.is_some() || w.host_us.is_some();
        return if warmup.iter().any(first) {
            Summary::FirstCallsOnly
        } else {
            Summary::NoTime
        };
    };
    Summary::Most(MostTime {
        function: worst.function.clone(),
        bytes: worst.bytes,
        on_gpu,
        sum_us: times.sum,
        share: if whole > 0.0 { times.sum / whole } else { 0.0 },
        calls: worst.calls,
        summed: times.n,
    })
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
    /// The last calls of ranks may be lost, and `lead` is about something else.
    pub last_calls: bool,
    /// All of its processes died, the last of them at this time, as people read it.
    pub killed: Option<String>,
}

/// What matters most about the calls of NCCL.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Lead {
    /// The first finding.
    #[default]
    Finding,
    /// What the account of the steps says: no rank costs so much that it matters.
    Account,
    /// What a late host costs at most, because who is late is not known.
    LateHost,
    /// The faults of the files, which make the figures worthless.
    Faults,
    /// There are several jobs, and all figures mix them. Faults of the files come before that.
    SeveralJobs,
    /// What `ncclscope hang` said last while the job ran, which still holds.
    Sighting,
    /// Not all of this job is here.
    NotAllHere(NotHere),
    /// Not all calls were counted, or some were only counted.
    NotCounted(NotCounted),
    /// A file of another tool has so many calls of NCCL and shows what GPUs computed, but it has no kernel of
    /// NCCL.
    NoKernels {
        /// Calls.
        calls: u64,
    },
    /// Nobody is blamed, and this is known of how long GPUs stood still.
    Still(Still),
    /// It is known neither who is late nor what communication costs.
    NotJudged(NotJudged),
}

/// What of the job is not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotHere {
    /// Ranks, or calls that operations on other ranks prove.
    Ranks,
    /// Calls of ranks that are here.
    Calls,
    /// The last calls of ranks: nobody knows how many.
    LastCalls,
}

/// How long GPUs stood still in a job in which no rank is proved to be late.
#[derive(Clone, Debug, PartialEq)]
pub struct Still {
    /// It could be known if a rank was late.
    pub is_judged: bool,
    /// A rank that seems to be late, though that is not proved.
    pub seems_last: Option<SeemsLast>,
    /// For how long.
    pub how_long: HowLong,
}

/// A rank that nearly always arrived last.
#[derive(Clone, Debug, PartialEq)]
pub struct SeemsLast {
    /// Which.
    pub rank: RankId,
    /// Operations in which it was last.
    pub last: u64,
    /// All of its operations.
    pub operations: u64,
}

/// For how long GPUs stood still.
#[derive(Clone, Debug, PartialEq)]
pub enum HowLong {
    /// So long.
    Exposed(Exposed),
    /// Between bounds.
    Bounded(Bounded),
    /// That is not known: compute kernels were not recorded.
    Unknown,
}

/// Why nobody can be blamed and no cost be told.
#[derive(Clone, Debug, PartialEq)]
pub enum NotJudged {
    /// NCCL announced so many calls, and none was recorded.
    NoneRecorded {
        /// Calls.
        announced: u64,
    },
    /// The newest part of its data is not here, and no call is.
    NewestUnread {
        /// Where that part is, or what happened to it, for the ranks where that is known.
        live: Vec<&'static str>,
    },
    /// `ncclscope attach` recorded no call, and left these functions out.
    LeftOut {
        /// As `ncclAllReduce, ncclSend`.
        functions: String,
    },
    /// It made no call that a profiler sees.
    NoCall {
        /// All of its communicators have one rank.
        are_alone: bool,
    },
    /// Mode `profile` keeps totals, and no single call.
    OnlyTotals,
    /// No call has a GPU time; [`Report::no_times`] may say why.
    NoTimes,
    /// Of so many calls, it is known how long they ran, and not when.
    OnlyLengths {
        /// Calls.
        timed: u64,
    },
    /// No operation has a GPU time on all of its ranks.
    NoOperation {
        /// Calls with a GPU time.
        timed: u64,
        /// All calls.
        calls: u64,
    },
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
    let whole = |lead| Verdict {
        lead,
        ..Verdict::default()
    };
    if jobs > 1 {
        return whole(Lead::SeveralJobs);
    }
    if !report.job.faults.join(" ").is_empty() {
        return whole(Lead::Faults);
    }
    // Else the lead says what is missing.
    let last_calls = !report.completeness.last_calls_unknown().is_empty();
    Verdict {
        last_calls: last_calls && has_stopped(report),
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
    !report.deaths.is_empty() || sighting(report).is_some()
}

/// Whether the verdict is that it stopped.
fn has_stopped(report: &Report) -> bool {
    is_over(report) || report.standstill.is_some() && !report.findings.is_empty()
}

/// The verdict on what NCCL did.
fn of_nccl(report: &Report) -> Lead {
    // Deaths are the first findings.
    if !report.deaths.is_empty() {
        return Lead::Finding;
    }
    if let Some(seen) = sighting(report) {
        let agrees = |of: &Standstill| of.hang.verdict.kind().agrees(seen);
        return match &report.standstill {
            Some(of) if agrees(of) && !report.findings.is_empty() => Lead::Finding,
            _ => Lead::Sighting,
        };
    }
    if report.standstill.is_some() && !report.findings.is_empty() {
        return Lead::Finding;
    }
    match incomplete(report) {
        Some(lead) => lead,
        None if !report.findings.is_empty() => Lead::Finding,
        None => blameless(report).lead,
    }
}

/// What `ncclscope hang` said last while the job ran, if that still holds.
pub fn sighting(report: &Report) -> Option<&SightingRow> {
    let mut seen = report.sightings.iter().rev();
    seen.find(|seen| seen.still_holds())
}

/// What of the job is not in the capture, if that comes before findings.
fn incomplete(report: &Report) -> Option<Lead> {
    let c = &report.completeness;
    if c.lacks_ranks() {
        Some(Lead::NotAllHere(NotHere::Ranks))
    } else if c.not_here().is_some() {
        Some(Lead::NotAllHere(NotHere::Calls))
    } else if c.recorded > 0 && !c.last_calls_unknown().is_empty() {
        // Without any call, more is said below.
        Some(Lead::NotAllHere(NotHere::LastCalls))
    } else {
        c.not_counted().map(Lead::NotCounted)
    }
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
    let lead = if c.absent.is_empty() {
        c.not_counted().map(Lead::NotCounted)
    } else {
        Some(Lead::NotAllHere(NotHere::Ranks))
    };
    lead.map_or_else(|| blameless(report), unknown)
}

/// That it is not known who holds the others up.
fn unknown(lead: Lead) -> Blameless {
    Blameless {
        lead,
        is_even: false,
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
    if let Some(calls) = without_kernels(report) {
        return unknown(Lead::NoKernels { calls });
    }
    let exposed = exposed(report);
    let late_host = account.and_then(|account| account.late_host);
    if late_host.is_some_and(|late| late.leads || exposed.is_none()) {
        return unknown(Lead::LateHost);
    }
    let is_judged =
        report.streams.as_ref().is_some_and(Streams::tells_who) || report.arrivals.is_some();
    let seems_last = seems_last(report).map(|rank| SeemsLast {
        rank: rank.id(),
        last: rank.last,
        operations: rank.operations,
    });
    // Who arrives last in nearly all operations may hold the others up.
    let nobody_is_last = is_judged && seems_last.is_none();
    let (how_long, is_even) = match exposed {
        Some(exposed) => (HowLong::Exposed(exposed), nobody_is_last),
        None => match bounded(report) {
            Some(bounded) => {
                let is_small = bounded.is_small();
                (HowLong::Bounded(bounded), is_small)
            }
            None if is_judged => (HowLong::Unknown, nobody_is_last),
            None => return unknown(Lead::NotJudged(not_judged(report))),
        },
    };
    Blameless {
        lead: Lead::Still(Still {
            is_judged,
            seems_last,
            how_long,
        }),
        is_even,
    }
}

/// Bounds that are wider say nothing.
const WIDE: f64 = 0.9;

/// Between which bounds GPUs stood still.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounded {
    /// The bounds, as shares of the steps' time, or of the run's.
    pub between: (f64, f64),
    /// What gives them.
    pub by: BoundedBy,
}

/// What bounds the time in which GPUs stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundedBy {
    /// The account of the steps, and why it does not say all.
    Account(Open),
    /// The time in NCCL: GPUs do not stand still for it outside of it.
    TimeInNccl {
        /// The bounds are shares of the steps' time; else of the run's.
        of_steps: bool,
    },
}

impl Bounded {
    /// Even the upper bound is so small that it does not matter.
    pub fn is_small(&self) -> bool {
        self.between.1 < MATTERS
    }

    /// The upper bound, unless it is so high that it says nothing.
    pub fn most(&self) -> Option<f64> {
        Some(self.between.1).filter(|most| *most < WIDE)
    }
}

/// For how long GPUs stood still, if there are bounds of that.
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
    (is_all && most < WIDE).then_some(Bounded {
        between: (0.0, most),
        by: BoundedBy::TimeInNccl {
            of_steps: steps_us.is_some(),
        },
    })
}

/// By the account of the steps.
fn by_account(report: &Report) -> Option<Bounded> {
    let account = report.account.as_ref()?;
    let (between @ (low, high), open) = (account.still_between, account.open?);
    // If calls in graphs are all that is not known, it is known that no rank comes late to these.
    let says_nothing = low < MATTERS && high >= WIDE && open != Open::InGraphs;
    (!says_nothing).then_some(Bounded {
        between,
        by: BoundedBy::Account(open),
    })
}

/// Between which parts of the steps' time, or of the run's, GPUs stand still, if the verdict says that and
/// blames nobody.
pub fn still_between(report: &Report) -> Option<(f64, f64)> {
    let account = report.account.as_ref();
    match &report.verdict.lead {
        Lead::Account => account?.still(),
        Lead::LateHost => Some(account?.still_between),
        Lead::Finding => None,
        _ => {
            let shares = exposed_shares(report).unwrap_or_default();
            range(shares).or_else(|| bounded(report).map(|bounded| bounded.between))
        }
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
        _ => return None,
    };
    Some((account.ranks.get(rank)?.id(), most_us))
}

/// Whether the report could name a late rank if there was one.
pub fn tells_who(report: &Report) -> bool {
    let lead = &report.verdict.lead;
    let by_lead = matches!(lead, Lead::Finding | Lead::Account | Lead::LateHost);
    by_lead || report.arrivals.is_some() || report.streams.as_ref().is_some_and(Streams::tells_who)
}

/// Why nobody can be blamed and no cost be told.
fn not_judged(report: &Report) -> NotJudged {
    let c = &report.completeness;
    let (calls, timed) = (c.recorded, c.timed);
    if calls == 0 {
        return no_call(report);
    }
    if report.job.mode == ["profile"] {
        NotJudged::OnlyTotals
    } else if timed == 0 {
        NotJudged::NoTimes
    } else if report.only_lengths {
        NotJudged::OnlyLengths { timed }
    } else {
        NotJudged::NoOperation { timed, calls }
    }
}

/// Why there is not one call.
fn no_call(report: &Report) -> NotJudged {
    let c = &report.completeness;
    if c.announced > 0 {
        return NotJudged::NoneRecorded {
            announced: c.announced,
        };
    }
    // Nothing that is here shows a call, and not everything is here.
    if c.announced_is_lower_bound {
        let mut live: Vec<&str> = c.ranks.iter().map(|rank| rank.live).collect();
        live.retain(|live| !matches!(*live, "adopted" | "here"));
        live.sort_unstable();
        live.dedup();
        return NotJudged::NewestUnread { live };
    }
    if let Some(functions) = report.not_recorded.clone() {
        return NotJudged::LeftOut { functions };
    }
    let mut all = report.communicators.iter();
    NotJudged::NoCall {
        are_alone: all.len() > 0 && all.all(|of| of.nranks == Some(1)),
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

/// The share of exposed communication by rank, from kernel windows, or else from stream waits.
pub fn exposed_shares(report: &Report) -> Option<Vec<f64>> {
    if without_kernels(report).is_some() {
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

/// The share of exposed communication over ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exposed {
    /// From the lowest to the highest.
    pub shares: (f64, f64),
    /// From what it is.
    pub by: ExposedBy,
}

/// From what exposed communication is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExposedBy {
    /// Kernel windows.
    Windows,
    /// The account of the steps.
    Account,
    /// Streams that waited for calls.
    StreamWaits,
}

/// The share of exposed communication over ranks. Windows of some ranks say nothing about the others: then it
/// is from the account, if that settles it. `None` without windows and stream waits.
pub fn exposed(report: &Report) -> Option<Exposed> {
    if without_kernels(report).is_some() {
        return None;
    }
    let seen = report
        .streams
        .as_ref()
        .map_or(0, |streams| streams.ranks.len());
    if (1..report.ranks.rows.len()).contains(&seen) {
        let still = |rank: &RankAccount| rank.wait_us + rank.transfer_us;
        if let Some(shares) = in_account(report, still) {
            let by = ExposedBy::Account;
            return Some(Exposed { shares, by });
        }
    }
    let windows = report.streams.iter().flat_map(|streams| &streams.ranks);
    if let Some(shares) = range(windows.map(|rank| rank.exposed.share)) {
        let by = ExposedBy::Windows;
        return Some(Exposed { shares, by });
    }
    let waits = report.stream_waits.as_ref().filter(|w| w.tells())?;
    Some(Exposed {
        shares: range(waits.shares().flatten())?,
        by: ExposedBy::StreamWaits,
    })
}

/// So many calls of NCCL has a file of another tool that shows what GPUs computed, and not one kernel that
/// communicates. Then nothing is known of exposed communication. Ranks that are alone have nothing to
/// communicate.
fn without_kernels(report: &Report) -> Option<u64> {
    let streams = report.streams.as_ref()?;
    let shows = !streams.communication.is_empty() || !streams.other_communication.is_empty();
    let (calls, timed) = (report.completeness.recorded, report.completeness.timed);
    if !report.job.is_of_other_tool || streams.ranks.is_empty() || shows || timed > 0 {
        return None;
    }
    let mut all = report.communicators.iter();
    (calls == 0 || !all.all(|of| of.nranks == Some(1))).then_some(calls)
}

/// The share of the steps' time over ranks, by the account; `None` if that does not settle it.
fn in_account(report: &Report, time_us: impl Fn(&RankAccount) -> f64) -> Option<(f64, f64)> {
    let account = report.account.as_ref().filter(|account| account.settles)?;
    let shares = account.ranks.iter();
    range(shares.map(|rank| time_us(rank) / account.wall_us))
}

/// The lowest and the highest share; `None` of none.
pub fn range(shares: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let mut shares: Vec<f64> = shares.into_iter().collect();
    shares.sort_by(f64::total_cmp);
    Some((*shares.first()?, *shares.last()?))
}

/// Whether nothing that costs time or makes the figures doubtful stands first.
pub fn is_sound(report: &Report) -> bool {
    let c = &report.completeness;
    report.deaths.is_empty()
        && matches!(report.job.exit_status, None | Some(0))
        && sighting(report).is_none()
        && !c.lacks_ranks()
        && c.not_here().is_none()
        && c.last_calls_unknown().is_empty()
        && c.unseen.is_empty()
        && report.findings.is_empty()
}

/// Whether most calls ran in CUDA graphs, where no event of theirs has a time.
pub fn mostly_in_graphs(report: &Report) -> bool {
    let of = &report.completeness;
    of.in_graphs.is_some_and(|calls| calls > of.recorded)
}

/// How much of the time was waiting for late ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Waiting {
    /// Shares of the steps' time over ranks.
    OfSteps(f64, f64),
    /// Shares of the time over ranks.
    OfTime(f64, f64),
    /// Share of the time in NCCL.
    InNccl(f64),
}

/// How much of the time was waiting for late ranks. What a late rank costs is by the account, so if that
/// settles it, this is by the account, too.
pub fn waiting(report: &Report) -> Option<Waiting> {
    if let Some((low, high)) = in_account(report, |rank| rank.wait_us) {
        return Some(Waiting::OfSteps(low, high));
    }
    let ranks = report.streams.iter().flat_map(|streams| &streams.ranks);
    let shares = ranks.filter_map(|rank| Some(rank.exposed_waiting?.share));
    if let Some((low, high)) = range(shares) {
        return Some(Waiting::OfTime(low, high));
    }
    if mostly_in_graphs(report) {
        return None;
    }
    waiting_share(report).map(Waiting::InNccl)
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Bring what other hosts have.
    Collect,
    /// See how far each rank came.
    Hang,
    /// Ask why something is missing.
    Doctor,
    /// Draw the calls.
    View,
    /// Show all tables: there are only totals, and no single call that could be drawn.
    AllTables,
    /// Record again with more memory.
    MoreMemory,
    /// Record again with GPU times.
    WithTimes,
}

/// The command that helps most.
pub fn next(report: &Report) -> Next {
    let (c, job) = (&report.completeness, &report.job);
    let is_full = ["rows_full", "totals_full"]
        .iter()
        .any(|cause| c.lost.contains_key(*cause));
    let were_asked = |timing: &String| timing == "host" || timing == "stamps";
    if c.collectable {
        Next::Collect
    } else if stopped_early(report) {
        Next::Hang
    } else if job.is_of_other_tool {
        // There is nothing to record again.
        Next::View
    } else if !c.absent.is_empty() || c.not_here().is_some() || c.recorded == 0 {
        Next::Doctor
    } else if c.small_memory {
        Next::MoreMemory
    } else if is_full {
        Next::Doctor
    } else if c.timed == 0 && report.times_exist && job.timing.iter().any(were_asked) {
        Next::WithTimes
    } else if job.mode == ["profile"] {
        Next::AllTables
    } else {
        Next::View
    }
}
