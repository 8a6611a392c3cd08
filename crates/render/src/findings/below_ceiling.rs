//! That calls reach far less than is possible.

use super::words::{costs, interval};
use super::Figures;
use crate::efficiency::{file, named};
use analyze::efficiency::{CeilingSource, ShareOfCeiling};
use analyze::findings::{BelowCeiling, Candidate, Finding};
use analyze::spelling::{percent, plural, size, three, time};

/// What the kind is, for `ncclscope explain`.
pub(super) const ABOUT: &str =
    "calls of one kind reach far less than a benchmark of this machine, NCCL's own estimate or the links, \
    beyond the error of that, and GPUs stand still for them.";

/// The calls.
pub(super) fn subject(of: &Finding, below: &BelowCeiling) -> String {
    let Some(call) = &of.subject.call else {
        return String::new();
    };
    let over = below
        .nranks
        .map_or(String::new(), |n| format!(" over {n} ranks"));
    format!("{} of {}{over}", call.function, size(call.bytes))
}

/// A ceiling, to follow "of".
fn ceiling(of: &ShareOfCeiling) -> String {
    let rate = three(of.ceiling_gb_per_s);
    match of.source {
        CeilingSource::Given => named(&of.named),
        CeilingSource::Bench => {
            format!("the {rate} GB/s in {}", file(&of.named))
        }
        _ => format!("{} ({rate} GB/s)", named(&of.named)),
    }
}

/// How far below what.
fn reaches(below: &BelowCeiling) -> String {
    format!(
        "{} GB/s, {} of {}",
        three(below.busbw_gb_per_s),
        percent(below.ceiling.share),
        ceiling(&below.ceiling)
    )
}

/// The claim.
pub(super) fn sentence(of: &Finding, below: &BelowCeiling) -> String {
    let subject = subject(of, below);
    match &of.loss {
        Some(loss) => {
            let costs = costs(loss, true);
            format!("{subject} {costs}: it reaches {}.", reaches(below))
        }
        None => format!(
            "{subject} reaches {}: at most {} can be gained.",
            reaches(below),
            time(below.at_most_us)
        ),
    }
}

/// What is wrong.
pub(super) fn cause(of: &Finding, below: &BelowCeiling) -> String {
    format!("{} reaches {}", subject(of, below), reaches(below))
}

/// So many reasons are a list of their own.
const LIST: usize = 3;

/// What it rests on, as one text.
pub(super) fn evidence(of: &Finding, below: &BelowCeiling) -> String {
    let (said, reasons) = parts(of, below);
    match &reasons[..] {
        [] => said,
        some => format!("{said} {}.", some.join("; ")),
    }
}

/// What it rests on, and the possible reasons if they are many: the text then ends before them.
pub(super) fn parts(of: &Finding, below: &BelowCeiling) -> (String, Vec<String>) {
    let mut said = format!(
        "In {} that were timed on all ranks, the shortest rank took {} at the median, and would take {} at \
         this ceiling. Waiting for late ranks is not in that.",
        plural(below.compared, "operation", "operations"),
        time(below.time_us),
        time(below.ceiling_us),
    );
    let others = below.others.iter();
    let others: Vec<String> = others
        .map(|other| format!("{} of {}", percent(other.share), ceiling(other)))
        .collect();
    if !others.is_empty() {
        said += &format!(" Other ceilings: {}.", others.join(", "));
    }
    said += &match below.exposed_us {
        Some(exposed) => format!(
            " GPUs stood still for {} of {} of such transfers, and no more can be gained. Interval of the \
             cost: {}.",
            time(exposed),
            time(below.transfer_us),
            of.loss.as_ref().map_or(String::new(), interval),
        ),
        None => format!(
            " All of these transfers took {}. For how long GPUs stood still for them is not known, and what \
             other work hides gains nothing.",
            time(below.transfer_us)
        ),
    };
    if below.more > 0 {
        let more = plural(below.more as u64, "kind of call", "kinds of calls");
        said += &format!(" {more} more like this.");
    }
    let candidates: Vec<String> = below.candidates.iter().map(candidate).collect();
    said += &match &candidates[..] {
        [] => {
            " The capture knows no reason: other traffic on the same links may be one.".to_owned()
        }
        some if some.len() >= LIST => return (said + " Possible reasons:", candidates),
        some => format!(" Possible reasons: {}.", some.join("; ")),
    };
    (said, Vec::new())
}

/// One of several reasons.
fn candidate(of: &Candidate) -> String {
    match of {
        Candidate::Setting { name, value, .. } => format!("{name}={value} is set"),
        Candidate::Protocol => {
            "the calls used LL, which sends a flag with every four bytes of data".to_owned()
        }
        Candidate::Buffers => {
            "their buffers are not registered with NCCL, and NVLS could use them without a copy"
                .to_owned()
        }
        Candidate::Size(half) => {
            format!("up to {}, latency is most of the time", size(*half))
        }
        Candidate::Path(reason) => reason.because.trim_end_matches('.').to_owned(),
        Candidate::Links(remark) => remark.sentence.trim_end_matches('.').to_owned(),
        Candidate::Computing(share) => {
            format!(
                "kernels that compute run beside {} of the time",
                percent(*share)
            )
        }
    }
}

/// What it rests on, in numbers.
pub(super) fn figures(of: &BelowCeiling) -> Figures {
    let mut all = vec![
        ("operations", of.operations),
        ("compared", of.compared as f64),
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
