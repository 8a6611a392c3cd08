//! Words for ranks that others wait for and that wait for nobody: what they lack, why they do not come, and
//! what is known of them.
//!
//! Rule: if such a rank may wait itself for ranks of which nothing is known, the first sentence says so.

use super::inside;
use super::names::{
    call, call_and_peer, capital, for_time, one, rank, ranks, seconds, span, unknown,
};
use super::phrases::{
    absent, ended_by, stopped, when, when_inside, when_stopped, Words, NOTHING_SINCE, UNSEEN_END,
};
use analyze::hang::{Hang, Lack, Lacking, Liveness, Reached, Reason, Sink};
use analyze::time::Nanos;

/// Waiting ranks that are named; more are counted.
const NAMED: usize = 64;
/// Other sinks that are named; more are counted.
const OTHERS: usize = 4;

pub(super) fn words(hang: &Hang, sink: &Sink) -> Words {
    Words {
        sentence: capital(sentence(hang, sink)),
        details: details(hang, sink),
    }
}

fn sentence(hang: &Hang, sink: &Sink) -> String {
    let who = ranks(hang, &sink.ranks);
    let (is, has) = match sink.ranks.len() {
        1 => ("is", "has"),
        _ => ("are", "have"),
    };
    let lacks = lacks(hang, sink);
    let sentence = match sink.reason {
        Reason::Dead => format!("{who} {is} dead{} and {lacks}", ended_by(hang, &sink.ranks)),
        Reason::Ended => format!(
            "{who} {has} ended{}, and {lacks}",
            ended_by(hang, &sink.ranks)
        ),
        Reason::Destroyed => format!("{who} {has} destroyed the communicator and {lacks}"),
        Reason::Stopped(_) => {
            let first = rank(hang, sink.ranks.communicator, sink.ranks.members[0]);
            format!("{who} {}, and {lacks}", stopped(hang, first, is))
        }
        Reason::Silent(_) => {
            let first = rank(hang, sink.ranks.communicator, sink.ranks.members[0]);
            format!(
                "{who} on {} {has} written nothing{}: as far as is known, {who} {lacks}",
                first.process.host,
                for_time(first.evidence_age)
            )
        }
        Reason::Running(by_time) if by_time.hang() == Some(false) => {
            let first = rank(hang, sink.ranks.communicator, sink.ranks.members[0]);
            let until = match first.state {
                Liveness::Dead => "when the job ended",
                _ => "so far",
            };
            format!("No hang {until}: {}", running(hang, sink, &who, &lacks))
        }
        Reason::Running(_) => running(hang, sink, &who, &lacks),
    };
    let undecided = match sink.reason {
        Reason::Running(by_time) => by_time.hang() != Some(false),
        _ => false,
    };
    let it = if sink.ranks.len() == 1 {
        "it waits itself"
    } else {
        "they wait themselves"
    };
    match (sink.may_wait_on, &sink.may_wait_in) {
        (Some(other), _) if undecided => {
            format!("{sentence}, unless {it} for {}.", unknown(hang, other))
        }
        (None, Some(row)) if undecided => {
            format!("{sentence}, unless {it} in {}.", call(hang, row))
        }
        _ => format!("{sentence}."),
    }
}

/// What ranks do not do that run, and who waits for them.
fn running(hang: &Hang, sink: &Sink, who: &str, lacks: &str) -> String {
    if sink.lack != Lack::Start {
        let inside = inside::inside(hang, &sink.ranks);
        let inside = inside.map_or(String::new(), |inside| format!("; {inside}"));
        return format!("{who} {lacks}{inside}");
    }
    let (gpu, has, it_is) = match sink.ranks.len() {
        1 => ("GPU", "has", "it is"),
        _ => ("GPUs", "have", "they are"),
    };
    let call = call_and_peer(hang, &sink.call);
    let [waiting, time] = waits(hang, sink);
    let busy = if sink.may_be_in_graph {
        format!(
            "{it_is} busy with earlier work, or in a CUDA graph that others did not launch (not all launches \
             were seen)"
        )
    } else {
        format!("{it_is} busy with earlier work")
    };
    format!("the {gpu} of {who} {has} not begun {call}: {busy}; {waiting}{time}")
}

/// `ranks 0-2 wait`, and ` for 3.0 s`.
fn waits(hang: &Hang, sink: &Sink) -> [String; 2] {
    let waiting = match sink.waiting.len() {
        n if n <= NAMED => ranks(hang, &sink.waiting),
        n => format!("{n} ranks"),
    };
    let wait = match sink.waiting.len() {
        1 => "waits",
        _ => "wait",
    };
    [format!("{waiting} {wait}"), for_time(sink.lasted)]
}

/// What they lack, and who waits for them.
fn lacks(hang: &Hang, sink: &Sink) -> String {
    let call = call_and_peer(hang, &sink.call);
    let (is, has) = match sink.ranks.len() {
        1 => ("is", "has"),
        _ => ("are", "have"),
    };
    let [waiting, time] = waits(hang, sink);
    match (sink.lack, &sink.went_on) {
        (Lack::Call, Some(later)) => format!(
            "went on to {} without {call}, which {waiting} in{time}",
            self::call(hang, later)
        ),
        (Lack::Call, None) => format!("{has} not made {call}, which {waiting} in{time}"),
        (Lack::Launch, _) => {
            format!("{is} inside {call}, and {has} not launched it; {waiting}{time}")
        }
        (Lack::Start, _) => {
            format!("{has} launched {call}, and the GPU has not begun it; {waiting}{time}")
        }
    }
}

fn details(hang: &Hang, sink: &Sink) -> Vec<String> {
    let communicator = sink.ranks.communicator;
    let first = sink.ranks.members[0];
    let process = rank(hang, communicator, first);
    let mut details = Vec::new();
    match sink.reason {
        Reason::Stopped(by_time) => {
            if process.state == Liveness::Stopped {
                details.push(format!(
                    "`kill -CONT {}` on {} lets it go on.",
                    process.process.pid, process.process.host
                ));
                details.extend(when_stopped(hang, by_time));
            } else {
                details.push(last_call(hang, communicator, first));
                details.push(NOTHING_SINCE.to_owned());
            }
        }
        Reason::Dead | Reason::Ended | Reason::Destroyed => {
            details.push(last_call(hang, communicator, first));
            details.extend(process.has_unseen_end.then(|| UNSEEN_END.to_owned()));
        }
        Reason::Silent(_) => details.push(format!(
            "Whether pid {} lives can only be asked on {}; ask there.",
            tables::pid::shown(process.process.pid),
            process.process.host
        )),
        Reason::Running(by_time) => {
            details.push(last_call(hang, communicator, first));
            let others = inside::others(hang, &sink.ranks);
            details.extend(match others {
                Some(_) => when_inside(hang, by_time),
                None => when(hang, by_time),
            });
            details.extend(others);
        }
    }
    if sink.may_lack_earlier {
        details.push(capital(format!(
            "{} may lack an earlier call with ranks that are not in the capture.",
            ranks(hang, &sink.ranks)
        )));
    }
    details.extend(others(hang, &sink.others));
    details.extend(absent(hang, communicator));
    details
}

/// The last that is known of a rank on a communicator.
fn last_call(hang: &Hang, communicator: usize, member: usize) -> String {
    let rank = rank(hang, communicator, member);
    let who = one(hang, communicator, member);
    let at = match tables::pid::known(rank.process.pid) {
        // Another tool does not say it.
        None => rank.process.host.clone(),
        Some(pid) => format!("pid {pid} on {}", rank.process.host),
    };
    let Some(entered) = &rank.entered else {
        return format!("No call of {who} ({at}) on this communicator is known.");
    };
    let came = match rank.came {
        Some(Reached::Finished) => "ended",
        Some(Reached::Started) => "begun on its GPU",
        Some(Reached::Launched) => "launched",
        Some(Reached::Enqueued | Reached::Entered) | None => "entered",
    };
    let ago = entered.age.map_or(String::new(), |ns| {
        format!(", {} ago", span(Nanos::from_seconds(seconds(ns))))
    });
    let call = call(hang, entered);
    format!("The last call of {who} there ({at}) is {call}: {came}{ago}.")
}

/// Other ranks that others wait for.
fn others(hang: &Hang, others: &[Lacking]) -> Option<String> {
    let lacking = |other: &Lacking| {
        let lack = match (other.lack, other.ranks.len()) {
            (Lack::Call, 1) => "lacks",
            (Lack::Call, _) => "lack",
            (Lack::Launch, 1) => "has not launched",
            (Lack::Launch, _) => "have not launched",
            (Lack::Start, 1) => "has, on its GPU, not begun",
            (Lack::Start, _) => "have, on their GPUs, not begun",
        };
        let call = call_and_peer(hang, &other.call);
        format!("{} {lack} {call}", ranks(hang, &other.ranks))
    };
    let named: Vec<String> = others.iter().take(OTHERS).map(lacking).collect();
    let more = match others.len() - named.len() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let named = named.join("; ");
    (!others.is_empty()).then(|| format!("Others wait apart from this: {named}{more}."))
}
