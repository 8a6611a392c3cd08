//! What the figures of a report mean, and what it can't show, in words.

use crate::behind;
use analyze::notes::patterns::Unused;
use analyze::notes::{HowMany, NoTimes, Note};
use analyze::phases::Phases;
use analyze::spelling::{percent, plural, time};
use analyze::Report;
use tables::communication::FILE;
use tables::marks::Source;

/// What tells times where events tell none.
pub(crate) const WINDOWS_TELL: &str = "Kernel windows on all ranks tell.";

/// All notes of a report.
pub(crate) fn sentences(report: &Report) -> Vec<String> {
    report.notes.iter().map(sentence).collect()
}

/// A note, in a sentence or several.
pub(crate) fn sentence(of: &Note) -> String {
    match of {
        Note::Part { part, left_out } => format!(
            "This is {part} alone. {left_out} calls of the run are left out; whether the recording is \
             complete is said of all of the run."
        ),
        Note::Attached => {
            "`ncclscope attach` recorded this from outside: algorithms, networks and launches of CUDA graphs \
             are not seen. A call that was captured into a graph counts once."
                .to_owned()
        }
        Note::LeftOut(functions) => format!(
            "Calls of {functions} were not recorded, because a probe there costs some 10 µs a call: \
             `ncclscope attach --slow` records them."
        ),
        Note::Ended { ended: 0, .. } => "The job went on when the recording ended.".to_owned(),
        Note::Ended { ended, of } if ended == of => {
            "All processes ended while they were recorded. From outside, it is not seen how.".to_owned()
        }
        Note::Ended { ended, of } => format!(
            "{ended} of {of} processes ended while they were recorded. From outside, it is not seen how."
        ),
        Note::UnknownMembers => {
            "Of communicators that were made before that, it is not known which ranks belong together. So \
             there is no waiting and no late rank: `ncclscope run` from the start shows both."
                .to_owned()
        }
        Note::OtherTool(tool) => format!(
            "This is a file of {tool}. Calls that it does not have are not known, and neither is the \
             network. The page `docs/reference/other-tools.md` says what such a file can know."
        ),
        Note::UnknownHosts => {
            "The files do not say on which hosts they were written, so the clocks of no two ranks are taken \
             for one."
                .to_owned()
        }
        Note::Behind(of) => behind::sentence(of),
        Note::NoEffect {
            variable,
            processes,
            why,
        } => format!("{variable} had no effect{}: {why}.", in_processes(processes)),
        Note::Unused(source) => {
            let what = match source {
                Source::Nvtx => "its NVTX ranges do",
                Source::Torch => "those of torch's optimizers do",
            };
            format!("The program marks its steps by `ncclscope.step()`, so {what} not count.")
        }
        Note::Steps { source, names } => steps(*source, names),
        Note::NoSteps { source, processes } => no_steps(*source, processes),
        Note::Phases(of) => phases(of),
        Note::NoTimes(of) => no_times(of),
        Note::OnIdleStreams { idle, timed } => format!(
            "{idle} of {timed} GPU times include about 5 µs of launch latency, because the stream was idle."
        ),
        Note::Sampled => {
            "GPU times are of a sample of the launches (NCCLSCOPE_BUDGET): sums are estimates, extremes and \
             high percentiles are bounds, and waiting is that of the operations that were timed on all ranks."
                .to_owned()
        }
        Note::UnseenNetwork => {
            "Mode profile keeps network figures as totals, and some process has none: it ended before it \
             wrote them, or its recorder is older."
                .to_owned()
        }
        Note::SilentBroadcast { nccl, calls } => format!(
            "{} does not announce kernels for Broadcast: {calls} calls have no algorithm, protocol or GPU \
             time (NCCL_ALLGATHERV_ENABLE=0 brings them back).",
            version(nccl)
        ),
        Note::Silent {
            nccl,
            calls,
            symmetric,
        } => {
            let why = if *symmetric {
                "as it does with symmetric-memory kernels and copy engines"
            } else {
                "for a reason it does not tell"
            };
            format!(
                "{} announced {calls} calls at the API only, {why}: they have no algorithm, protocol or GPU \
                 time.",
                version(nccl)
            )
        }
        Note::CopyEngines(calls) => {
            format!("{calls} calls were done by copy engines, without a kernel: host time only.")
        }
        Note::NoneMatched => {
            "No operation has a row with a GPU time from every rank of its communicator: there is no algbw \
             or busbw of the shortest rank."
                .to_owned()
        }
        Note::NoBandwidth { function, why } => {
            let text = |known: &Option<String>| known.clone().unwrap_or("not known".to_owned());
            format!("No bandwidth for {}: {}.", text(function), text(why))
        }
        Note::Histograms => {
            "Percentiles of calls that were counted without rows come from histograms: error at most 1 %."
                .to_owned()
        }
        Note::UnknownSizes => {
            "This NCCL does not tell a profiler how many ranks a communicator has (before 2.27): null, and \
             so is what needs it."
                .to_owned()
        }
        Note::WithoutLine { calls, why } => format!(
            "{} no line of the program: {why}.",
            plural(*calls, "call has", "calls have")
        ),
        Note::PatternsWithoutWindows => {
            format!("{FILE} changes nothing: the capture has no kernel windows.")
        }
        Note::PatternUnused { pattern, why } => {
            let why = match why {
                Unused::OnlyNccl => "only NCCL's own kernels have it in their names".to_owned(),
                Unused::Capitals(name) => format!("capitals count, and one is named `{name}`"),
                Unused::Unknown => "`report --kernels` has the names".to_owned(),
            };
            format!("{FILE}: no kernel is named like `{pattern}`; {why}.")
        }
        Note::MorePatternsUnused(more) => format!("{FILE}: {more} more patterns fit no kernel."),
        Note::OneIn(n) => format!(
            "Who waited for whom is by one in {n} operations: this report compares 33 million timed kernels \
             at most."
        ),
        Note::WarmUpInSteps {
            first_us,
            p50_us,
            steps,
            share,
        } => format!(
            "The first calls on communicators are in step 1, and NCCL connects ranks and loads kernels then. \
             Step 1 takes {}, and the median step {}: the mean of {steps} steps is {} larger with it.",
            time(*first_us),
            time(*p50_us),
            percent(*share)
        ),
    }
}

/// Why no call has a GPU time, as it follows the word "because".
pub(crate) fn because(of: &NoTimes) -> String {
    match of {
        NoTimes::NoStamps { nccl } => format!("{} has no GPU stamps (2.27 on)", version(nccl)),
        NoTimes::Because(why) => why.clone(),
        NoTimes::Off => "GPU timing was off (NCCLSCOPE_TIMING=host)".to_owned(),
    }
}

/// What would tell times in this job.
pub(crate) fn tells(of: &NoTimes) -> Option<&'static str> {
    match of {
        NoTimes::NoStamps { .. } => Some(WINDOWS_TELL),
        NoTimes::Because(_) => None,
        NoTimes::Off => Some("Without NCCLSCOPE_TIMING=host, GPU times tell."),
    }
}

fn no_times(of: &NoTimes) -> String {
    let because = because(of);
    match of {
        NoTimes::NoStamps { .. } => format!("{because}: no call has a GPU time."),
        NoTimes::Because(_) => format!("There are no GPU times: {because}."),
        NoTimes::Off => format!("{because}. Unset it to record GPU times."),
    }
}

fn steps(source: Source, names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let names = names.join(", ");
    match source {
        Source::Nvtx => format!("Steps are those of the program's NVTX ranges {names}."),
        Source::Torch => format!(
            "Steps are those of torch's optimizer {names}: a step lasts from the end of one `step()` to the \
             end of the next."
        ),
    }
}

fn no_steps(source: Source, processes: &HowMany) -> String {
    let who = in_processes(processes);
    match source {
        Source::Nvtx => format!(
            "NVTX ranges marked no steps{who}: the program pushed less than two ranges of such a name. The \
             page `docs/guides/steps.md` has the names, and `run --steps nvtx:NAME` takes another."
        ),
        Source::Torch => format!(
            "torch's optimizers marked no steps{who}: no optimizer stepped three times, or Python did not \
             look for modules on PYTHONPATH (as with `python -I`, `-E` or `-S`). The page \
             `docs/guides/steps.md` has all reasons."
        ),
    }
}

/// NCCL's own phases of kernels; two sentences if all ranks of some operations have phases.
fn phases(of: &Phases) -> String {
    let share = |part: u64| 100.0 * part as f64 / of.ran.max(1) as f64;
    let mut text = format!(
        "NCCL's own phases of {} kernels: of their GPU time, {:.1} % was waiting for other ranks, and {:.1} \
         % moving bytes.",
        of.kernels,
        share(of.waited),
        share(of.moved)
    );
    if of.matched > 0 {
        text += &format!(
            " Of {}, all ranks have phases: {} of waiting, and {} by the GPU times of all ranks.",
            plural(of.matched, "operation", "operations"),
            time(of.matched_waited as f64 / 1e3),
            time(of.matched_longer as f64 / 1e3)
        );
    }
    text
}

/// Behind what was the case: in which processes, if not in all.
fn in_processes(of: &HowMany) -> String {
    if of.n == of.of {
        String::new()
    } else {
        format!(" in {} of {} processes", of.n, of.of)
    }
}

/// How NCCL is called in a note.
fn version(nccl: &Option<String>) -> String {
    nccl.as_ref()
        .map_or("This NCCL".to_owned(), |version| format!("NCCL {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_held_against_the_times_of_all_ranks() {
        let mut of = Phases {
            kernels: 60,
            ran: 1_000_000_000,
            waited: 993_000_000,
            moved: 6_000_000,
            ..Phases::default()
        };
        let alone = "NCCL's own phases of 60 kernels: of their GPU time, 99.3 % was waiting for other ranks, \
                     and 0.6 % moving bytes.";
        assert_eq!(phases(&of), alone);
        (of.matched, of.matched_waited, of.matched_longer) = (15, 141_000_000, 142_000_000);
        let both = " Of 15 operations, all ranks have phases: 141 ms of waiting, and 142 ms by the GPU times \
                    of all ranks.";
        assert_eq!(phases(&of), format!("{alone}{both}"));
    }

    #[test]
    fn processes_are_counted_if_not_all_are_meant() {
        let note = |n| {
            sentence(&Note::NoEffect {
                variable: "NCCLSCOPE_STEPS",
                processes: HowMany { n, of: 4 },
                why: "it is not set".to_owned(),
            })
        };
        assert_eq!(note(4), "NCCLSCOPE_STEPS had no effect: it is not set.");
        assert_eq!(
            note(1),
            "NCCLSCOPE_STEPS had no effect in 1 of 4 processes: it is not set."
        );
    }

    #[test]
    fn patterns_that_fit_no_kernel_are_said_to() {
        let said = |why| {
            let pattern = "x".to_owned();
            sentence(&Note::PatternUnused { pattern, why })
        };
        assert_eq!(
            said(Unused::Capitals("X8".to_owned())),
            "communication-kernels.txt: no kernel is named like `x`; capitals count, and one is named `X8`."
        );
        assert!(said(Unused::Unknown).ends_with("`report --kernels` has the names."));
    }
}
