//! Words for what a comparison of two runs found: why `--fail-on` is not passed, and what a run lacks.

use analyze::absent::AbsentRow;
use analyze::diff::{Change, KindName, Lack, NoInterval, Reason, Slower, Which};
use analyze::interval::LEAST_OPERATIONS;

/// What is said of a capture beside itself, or beside its copy.
pub(crate) const SAME_RECORDING: &str = "A and B are the same recording";

/// The name of a run.
pub(crate) fn name(which: Which) -> &'static str {
    match which {
        Which::A => "A",
        Which::B => "B",
    }
}

/// Why a criterion is not passed.
pub(crate) fn reason(of: &Reason) -> String {
    match of {
        Reason::SameRecording => SAME_RECORDING.to_owned(),
        Reason::FewSteps([a, b]) => format!(
            "too few steps for an interval: {a} and {b}, and it takes {LEAST_OPERATIONS} in both"
        ),
        Reason::Slower(what, change) => slower(what, change),
        Reason::Noisy(Slower::All(source), change) => {
            format!("too noisy for it: {} {}", all(source), percent(change))
        }
        Reason::Noisy(what, change) => format!("too noisy for it: {}", slower(what, change)),
        Reason::NoTimes => "neither steps nor the length of the run are known of both".to_owned(),
        Reason::Run {
            percent,
            of_two_kinds,
        } => {
            let because = match of_two_kinds {
                false => "the runs have no steps",
                true => "their steps are not of one kind",
            };
            format!("the run: {percent:+.1} %, without an interval, because {because}")
        }
        Reason::SmallShare(share, needed) => format!(
            "kinds that can be compared with an interval hold {:.0} % of A's time; {:.0} % are needed",
            share * 100.0,
            needed * 100.0
        ),
        Reason::NoInterval => format!(
            "no kind of operation has an interval (it takes rows of {LEAST_OPERATIONS} operations in both \
             runs, after the first)"
        ),
        Reason::FewWindows => {
            "most calls ran in CUDA graphs, where they have times in kernel windows only, and one run has \
             fewer than three of these on some rank"
                .to_owned()
        }
        Reason::Kind(of) => kind(of),
        Reason::Environment(key) => key.clone(),
        Reason::Incomplete(which, of) => format!("{}: {}", name(*which), lack(of)),
    }
}

fn slower(what: &Slower, change: &Change) -> String {
    let what = match what {
        Slower::Step => "the step".to_owned(),
        Slower::Kind(of) => kind(of),
        Slower::All(source) => all(source),
        Slower::InWindows => "NCCL's kernels of a step, by kernel windows".to_owned(),
    };
    format!("{what}: {}", percent(change))
}

/// All operations together, by times of this source.
fn all(source: &str) -> String {
    format!("all operations together ({source} time)")
}

/// A change and its interval: `+4.0 % [+1.2, +6.8]`.
fn percent(of: &Change) -> String {
    let [low, high] = of.interval;
    format!("{:+.1} % [{low:+.1}, {high:+.1}]", of.percent)
}

/// A kind in a sentence.
fn kind(of: &KindName) -> String {
    let function = of.function.as_deref().unwrap_or("an unnamed function");
    let bytes = of.bytes.map_or(String::new(), |b| format!(" of {b} bytes"));
    let datatype = of.datatype.as_deref().unwrap_or("");
    let datatype = match datatype.trim_start_matches("nccl") {
        "" => String::new(),
        name => format!(" {name}"),
    };
    let role = of.role;
    let role = role.map_or(String::new(), |r| format!(", communicator role {r}"));
    format!("{function}{bytes}{datatype}{role}")
}

/// What a run lacks.
pub(crate) fn lack(of: &Lack) -> String {
    match of {
        Lack::Ranks(absent) => missing(absent),
        Lack::Calls(calls, process) => {
            let pid = || {
                format!(
                    "pid {} on {}",
                    tables::pid::shown(process.pid),
                    process.host
                )
            };
            let who = process.rank.map_or_else(pid, |r| format!("rank {r}"));
            format!("at least {calls} more calls of {who} are missing")
        }
        Lack::Lost(calls, cause) => format!("{calls} calls {cause}"),
        Lack::NotCounted(cause) => format!("calls not counted: {cause}"),
        Lack::LastCalls => "the last calls of a process are not here".to_owned(),
        Lack::Sum => "the figures do not add up".to_owned(),
    }
}

/// Who is not here.
fn missing(absent: &AbsentRow) -> String {
    let who = match (&absent.ranks, absent.communicators.first()) {
        (Some(ranks), _) if absent.nranks == 1 => format!("rank {ranks}"),
        (Some(ranks), _) => format!("ranks {ranks}"),
        (None, Some(of)) => {
            let ranks = of.ranks.as_deref();
            let which = ranks.map_or(format!("{} ranks", absent.nranks), |r| format!("rank {r}"));
            format!("{which} of communicator {}", of.communicator)
        }
        (None, None) => "a process".to_owned(),
    };
    match absent.calls_at_least {
        0 => format!("{who} missing"),
        n => format!("{who} missing with at least {n} calls"),
    }
}

/// Why a kind of operation has no interval.
pub(crate) fn no_interval(of: NoInterval) -> &'static str {
    match of {
        NoInterval::TwoSources => "no times of one source in both",
        NoInterval::WithoutRows => "calls counted without rows",
        NoInterval::Few => "too few operations",
        NoInterval::FewWithTime => "too few operations with a time",
    }
}
