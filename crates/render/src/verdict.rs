//! What a report begins and ends with, in words: the verdict, its figures, what took most time, and the
//! command that helps most.

use crate::completeness::{last_calls, missing, not_counted, not_here};
use crate::findings::{self, account};
use crate::{notes, sightings};
use analyze::account::{Open, MATTERS};
use analyze::efficiency::EfficiencyRow;
use analyze::findings::RankId;
use analyze::operations::Operation;
use analyze::spelling::{percent, plural, size, three, time, word};
use analyze::steps::Steps;
use analyze::summary::{
    exposed, mostly_in_graphs, sighting, BesideNccl, Bounded, BoundedBy, Exposed, ExposedBy,
    HowLong, Lead, MostTime, Next, NotHere, NotJudged, SeemsLast, Still, Summary, Waiting,
};
use analyze::Report;

/// The verdict: what matters most about a job, in one sentence or two.
pub fn sentence(report: &Report) -> String {
    let verdict = &report.verdict;
    let lead = lead(report, &verdict.lead);
    let said = match verdict.beside.as_ref().map(beside) {
        Some(beside) if verdict.ended => format!("{lead} {beside}"),
        Some(beside) => format!("{beside} {lead}"),
        None => lead,
    };
    let said = match &verdict.killed {
        Some(at) => {
            let all = plural(report.ranks.rows.len() as u64, "process", "processes");
            format!("{said} All {all} were killed, at {at}: no recording has an end.")
        }
        None => said,
    };
    let last = last_calls(&report.completeness).filter(|_| verdict.last_calls);
    let said = match last {
        Some(last) => format!("{said} {last}"),
        None => said,
    };
    match verdict.failed {
        Some(status) => format!("The job failed: exit status {status}. {said}"),
        None => said,
    }
}

fn beside(of: &BesideNccl) -> String {
    let more = if of.more { " and others" } else { "" };
    format!(
        "Most of this job's communication is not NCCL's: kernels of {}{more} took {} in windows, and \
         NCCL's {}.",
        of.library,
        time(of.other_us),
        time(of.nccl_us)
    )
}

/// What matters most about the calls of NCCL.
pub fn lead(report: &Report, of: &Lead) -> String {
    let account = report.account.as_ref();
    match of {
        Lead::Finding => {
            let first = report.findings.first();
            first.map_or(String::new(), findings::sentence)
        }
        Lead::Account => account.map_or(String::new(), account::nobody),
        Lead::LateHost => account.and_then(account::late_host).unwrap_or_default(),
        Lead::Faults => report.job.faults.join(" "),
        Lead::SeveralJobs => several_jobs(report),
        Lead::Sighting => sighting(report).map_or(String::new(), sightings::sentence),
        Lead::NotAllHere(what) => {
            let c = &report.completeness;
            let what = match what {
                NotHere::Ranks => missing(c).into_iter().next(),
                NotHere::Calls => not_here(c),
                NotHere::LastCalls => last_calls(c),
            };
            format!("Not all of this job is here. {}", what.unwrap_or_default())
        }
        Lead::NotCounted(why) => not_counted(*why),
        Lead::NoKernels { calls: 0 } => {
            "No NCCL call is here: the file has no call and no kernel of NCCL, so it says nothing about \
             communication."
                .to_owned()
        }
        Lead::NoKernels { calls } => format!(
            "How long communication stops computing is not known: the file has {}, and no kernel of NCCL.",
            plural(*calls, "NCCL call", "NCCL calls")
        ),
        Lead::Still(of) => still(report, of),
        Lead::NotJudged(why) => not_judged(report, why),
    }
}

/// That all figures mix several jobs.
fn several_jobs(report: &Report) -> String {
    let jobs = report.job.jobs.len();
    let words = if let Some(sizes) = report.job.sizes_of_runs() {
        format!(
            "These are {jobs} runs of nccl-tests, one after the other, of {sizes} ranks, and all figures mix \
             them."
        )
    } else if report.job.is_benchmark() {
        format!(
            "These are {jobs} runs of nccl-tests that knew nothing of each other, and all figures mix them."
        )
    } else {
        format!(
            "This folder holds {jobs} jobs, and all figures mix them: report each from a folder of its own."
        )
    };
    let faults = report.job.faults.join(" ");
    format!("{faults} {words}").trim_start().to_owned()
}

/// What would tell more about a job with some.
const WINDOWS_TELL_MORE: &str = "Kernel windows on all ranks tell more.";

/// The sentence that says what would tell more, behind another one. Of a file of another tool nothing can be
/// recorded again.
fn then(report: &Report, sentence: Option<&str>) -> String {
    let sentence = sentence.filter(|_| !report.job.is_of_other_tool);
    sentence.map_or(String::new(), |sentence| format!(" {sentence}"))
}

/// For how long GPUs stood still in a job in which no rank is proved to be late.
fn still(report: &Report, of: &Still) -> String {
    let nobody = match &of.seems_last {
        _ if !of.is_judged => String::new(),
        Some(SeemsLast {
            rank,
            last,
            operations,
        }) => format!(
            "No rank is proved to hold this job up, but {} arrived last in {last} of {operations} \
             operations. ",
            named(rank)
        ),
        None => "No rank is proved to hold this job up. ".to_owned(),
    };
    let how_long = match &of.how_long {
        HowLong::Exposed(exposed) => {
            let (shares, over, by) = (range(exposed.shares), over_ranks(exposed.shares), by(exposed));
            format!("Communication stops computing for {shares} of the time{over}{by}.")
        }
        HowLong::Bounded(of) => bounded(report, of),
        HowLong::Unknown => format!(
            "How long communication stops computing is not known: compute kernels were not recorded.{}",
            then(report, Some(notes::WINDOWS_TELL))
        ),
    };
    nobody + &how_long
}

/// Between which bounds GPUs stood still; why no more is known, and what would tell more.
fn bounded(report: &Report, of: &Bounded) -> String {
    let (low, high) = of.between;
    let most = percent(high);
    match of.by {
        BoundedBy::Account(_) if of.is_small() => format!(
            "Communication is no problem: GPUs stand still for it for {most} of the steps' time at most."
        ),
        BoundedBy::Account(Open::InGraphs) if low < MATTERS => format!(
            "No rank comes late to its CUDA graphs: ranks wait for each other for {} of the steps' time. How \
             long calls in the graphs wait is not known; kernel windows tell.",
            percent(low)
        ),
        BoundedBy::Account(open) => by_account(of, open),
        BoundedBy::TimeInNccl { of_steps } => {
            let of_what = if of_steps { "steps' time" } else { "time" };
            if of.is_small() {
                format!(
                    "Communication is no problem: GPUs stand still for it for {most} of the {of_what} at \
                     most, first calls apart."
                )
            } else {
                let then = then(report, Some(WINDOWS_TELL_MORE));
                format!(
                    "GPUs stand still in communication for {most} of the {of_what} at most, first calls \
                     apart: they are in NCCL for no longer.{then}"
                )
            }
        }
    }
}

/// What the account of the steps says if it does not say all.
fn by_account(of: &Bounded, open: Open) -> String {
    let (why, then) = match open {
        Open::Absent(1) => (
            "one rank is not in this capture".to_owned(),
            "Record all ranks.",
        ),
        Open::Absent(ranks) => (
            format!("{ranks} ranks are not in this capture"),
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
    let still = match of.most() {
        None => format!("for {} of the steps' time or more", percent(of.between.0)),
        Some(_) => format!("for {} of the steps' time", range(of.between)),
    };
    format!("GPUs stand still in communication {still}. Who is late is not known: {why}. {then}")
}

/// Why nobody can be blamed and no cost be told.
fn not_judged(report: &Report, of: &NotJudged) -> String {
    let processes = || plural(report.job.nprocesses as u64, "process", "processes");
    let no_times = report.no_times.as_ref();
    let mut tells = no_times.map_or(Some(notes::WINDOWS_TELL), notes::tells);
    let why = match of {
        NotJudged::NoneRecorded { announced } => {
            return format!(
                "No call is here: NCCL announced {} to {}, and none was recorded.",
                plural(*announced, "call", "calls"),
                processes()
            )
        }
        NotJudged::NewestUnread { live } => {
            let states = if live.is_empty() {
                String::new()
            } else {
                format!(" ({})", live.join(", "))
            };
            return format!(
                "How many NCCL calls this job made is not known: the newest part of its data is not here or \
                 can't be read{states}. Next: `ncclscope collect DIR` on its hosts, as the user who ran it."
            );
        }
        NotJudged::LeftOut { functions } => {
            return format!(
                "No NCCL call of this job was recorded. Calls of {functions} were left out: `ncclscope \
                 attach --slow` records them."
            )
        }
        NotJudged::NoCall { are_alone: true } => {
            return "This job made no NCCL call that a profiler sees: all of its communicators have one rank."
                .to_owned()
        }
        NotJudged::NoCall { are_alone: false } => {
            return format!("This job made no NCCL call that a profiler sees ({}).", processes())
        }
        NotJudged::OnlyTotals => {
            tells = Some("Mode trace tells.");
            "mode profile keeps totals, and no single call".to_owned()
        }
        NotJudged::NoTimes => match no_times {
            Some(no) => format!("no call has a GPU time, because {}", notes::because(no)),
            None => "no call has a GPU time".to_owned(),
        },
        NotJudged::OnlyLengths { timed } => {
            format!("of {timed} calls the file says how long they ran, and not when")
        }
        NotJudged::NoOperation { timed, calls } => {
            format!("{timed} of {calls} calls have a GPU time, and no operation on all of its ranks")
        }
    };
    let then = then(report, tells);
    format!("Which rank is late, and what communication costs, is not known: {why}.{then}")
}

/// A rank, for the middle of a sentence.
fn named(of: &RankId) -> String {
    match (of.process.rank, of.device) {
        (Some(number), Some(device)) => {
            format!("rank {number} (GPU {device} on {})", of.process.host)
        }
        (Some(number), None) => format!("rank {number}"),
        (None, _) => format!("pid {} on {}", of.process.pid, of.process.host),
    }
}

/// Shares from the lowest to the highest.
pub(crate) fn range((low, high): (f64, f64)) -> String {
    let (low, high) = (percent(low), percent(high));
    if low == high {
        low
    } else {
        format!("{} to {high}", low.trim_end_matches(" %"))
    }
}

/// The same of these shares; `None` of none.
pub(crate) fn range_of_shares(shares: impl Iterator<Item = f64>) -> Option<String> {
    analyze::summary::range(shares).map(range)
}

/// Behind a [`range`]: what makes clear that it is the least and the most of the ranks. Nothing if these are
/// the same.
fn over_ranks((low, high): (f64, f64)) -> &'static str {
    if percent(low) == percent(high) {
        ""
    } else {
        " across ranks"
    }
}

/// From what exposed communication is, if not from kernel windows.
fn by(of: &Exposed) -> &'static str {
    match of.by {
        ExposedBy::Windows => "",
        ExposedBy::Account => ", by the account of the steps",
        ExposedBy::StreamWaits => ", by stream waits",
    }
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

/// The few figures that belong to the verdict: step time, exposed communication, waiting, bandwidth.
pub fn figures(report: &Report) -> Vec<String> {
    let mut figures = Vec::new();
    figures.extend(report.steps.as_ref().and_then(step));
    match (exposed(report), report.ranks.share) {
        (Some(exposed), _) => {
            let (shares, over, by) = (
                range(exposed.shares),
                over_ranks(exposed.shares),
                by(&exposed),
            );
            figures.push(format!(
                "exposed communication {shares} of the time{over}{by}"
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
            let mut ranks = report.ranks.rows.iter();
            let place = if ranks.any(|rank| rank.basis == Some("host")) {
                "in NCCL's calls on the host"
            } else {
                "in NCCL"
            };
            let share = percent(share.median);
            figures.push(format!("{place} {share} of the time (median rank)"));
        }
        (None, None) => {}
    }
    figures.extend(analyze::summary::waiting(report).map(waiting));
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
            format!(
                ", {} of {}",
                percent(of.share),
                crate::efficiency::named(&of.named)
            )
        });
        Some(format!(
            "{function} of {size} at {busbw} GB/s (busbw{share})"
        ))
    }));
    figures
}

/// How much of the time was waiting for late ranks.
fn waiting(of: Waiting) -> String {
    let (low, high, what) = match of {
        Waiting::OfSteps(low, high) => (low, high, "steps' time"),
        Waiting::OfTime(low, high) => (low, high, "time"),
        Waiting::InNccl(share) => return format!("waiting {} of the time in NCCL", percent(share)),
    };
    let (shares, over) = (range((low, high)), over_ranks((low, high)));
    format!("waiting for late ranks {shares} of the {what}{over}")
}

/// What took most time.
pub fn summary(of: &Summary) -> String {
    match of {
        Summary::NoTime => "No call has a time.".to_owned(),
        Summary::FirstCallsOnly => {
            "Only first calls have a time; they are under Warm-up.".to_owned()
        }
        Summary::Most(most) => most_time(most),
    }
}

fn most_time(of: &MostTime) -> String {
    let function = of.function.as_deref().unwrap_or("An unnamed function");
    let bytes = of.bytes.map_or("unknown size".to_owned(), size);
    let (share, sum) = (percent(of.share), time(of.sum_us));
    let what = if of.on_gpu { "GPU time" } else { "host time" };
    let calls = plural(of.calls, "call", "calls");
    let of_them = match (of.summed == of.calls, of.on_gpu) {
        (true, _) => String::new(),
        (false, true) => format!(" ({} timed, first calls apart)", of.summed),
        (false, false) => format!(" ({} in the sum)", of.summed),
    };
    format!("{function} of {bytes} took {share} of the {what} in NCCL: {sum} over ranks in {calls}{of_them}.")
}

/// The command that helps most, as it can be typed.
pub fn next(report: &Report) -> String {
    let folder = word(&report.job.capture);
    let command = report.job.command.as_deref();
    let command = command.filter(|c| c.len() < 60).unwrap_or("…");
    match report.next {
        Next::Collect => format!("ncclscope collect {folder}"),
        Next::Hang => format!("ncclscope hang {folder}"),
        Next::Doctor => format!("ncclscope doctor {folder}"),
        Next::View => format!("ncclscope view {folder}"),
        Next::AllTables => format!("ncclscope report {folder} --all"),
        Next::MoreMemory => format!("NCCLSCOPE_MEMORY=64MiB ncclscope run -- {command}"),
        Next::WithTimes => format!("NCCLSCOPE_TIMING=auto ncclscope run -- {command}"),
    }
}
