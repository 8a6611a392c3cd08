//! Words for ranks that wait for each other: each with its call, and the one that went astray if that is
//! known.

use super::names::{self, asked, call, call_and_peer, capital, for_time, one, ranks, span};
use super::phrases::{when, Words};
use analyze::hang::{Astray, AstrayBecause, ByTime, Cycle, CycleStep, Hang, Member};
use analyze::spelling::ranges;

pub(super) fn words(hang: &Hang, cycle: &Cycle) -> Words {
    let ring = ring(hang, cycle);
    let mut details: Vec<String> = until_when(hang, cycle.by_time).into_iter().collect();
    let order = if cycle.one_communicator {
        "All ranks of a communicator must make its calls in one order."
    } else {
        "Each may be behind the other on a stream: calls on several communicators need one order \
         on all ranks."
    };
    details.push(order.to_owned());
    match &cycle.astray {
        None if !cycle.turned.is_empty() => Words {
            sentence: turned(hang, cycle),
            details: [ring].into_iter().chain(details).collect(),
        },
        None => Words {
            sentence: ring,
            details,
        },
        Some(astray) => {
            let who = name(hang, cycle.steps[astray.step].waiting);
            let because = match astray.because {
                AstrayBecause::OnEveryCycle => {
                    format!("Without {who}, no ranks would wait for each other.")
                }
                AstrayBecause::NewOrder => {
                    format!("Every time before, {who} came to that call after another one.")
                }
            };
            Words {
                sentence: capital(left_out(hang, cycle, astray)),
                details: [because, ring].into_iter().chain(details).collect(),
            }
        }
    }
}

/// When ranks that wait for each other count as a hang.
fn until_when(hang: &Hang, by_time: ByTime) -> Option<String> {
    match by_time {
        ByTime::TooEarly => Some(format!(
            "Ranks that wait for each other do not go on by themselves: from {} on that counts as a hang \
             (--after).",
            asked(hang.after)
        )),
        by_time => when(hang, by_time),
    }
}

/// The ranks that made their calls in a new order.
fn turned(hang: &Hang, cycle: &Cycle) -> String {
    let number = |member: &Member| {
        let of = names::of(hang, member.communicator);
        let rank = &of.ranks[member.member];
        rank.number.filter(|_| of.numbered)
    };
    let numbers: Option<Vec<u32>> = cycle.turned.iter().map(number).collect();
    let who = if let Some(mut numbers) = numbers {
        numbers.sort_unstable();
        let plural = if numbers.len() > 1 { "Ranks" } else { "Rank" };
        format!("{plural} {}", ranges(numbers))
    } else {
        let names: Vec<String> = cycle
            .turned
            .iter()
            .map(|member| name(hang, *member))
            .collect();
        capital(names.join(", "))
    };
    let time = cycle
        .lasted
        .map_or(String::new(), |ns| format!(", for {}", span(ns)));
    format!(
        "{who} made calls on several communicators in another order than before, so ranks wait for each other\
         {time}."
    )
}

fn name(hang: &Hang, member: Member) -> String {
    one(hang, member.communicator, member.member)
}

/// Who waits for whom, round the ring.
fn ring(hang: &Hang, cycle: &Cycle) -> String {
    let step = |step: &CycleStep| {
        format!(
            "{} is in {} and waits for {}",
            name(hang, step.waiting),
            call(hang, &step.call),
            name(hang, step.missing)
        )
    };
    let steps: Vec<String> = cycle.steps.iter().map(step).collect();
    let start = match cycle.by_time.hang() {
        Some(false) => "No hang so far, but a cycle",
        _ => "A cycle",
    };
    let time = cycle.lasted;
    let time = time.map_or(String::new(), |ns| format!(", for {}", span(ns)));
    format!("{start}: {}{time}.", steps.join("; "))
}

/// The call that one rank left out.
fn left_out(hang: &Hang, cycle: &Cycle, astray: &Astray) -> String {
    let step = &cycle.steps[astray.step];
    let start = match cycle.by_time.hang() {
        Some(false) => "No hang so far, but ",
        _ => "",
    };
    let wait = if astray.waiting.len() > 1 {
        "wait"
    } else {
        "waits"
    };
    format!(
        "{start}{} went on to {} without {}, which {} {wait} in{}.",
        name(hang, step.waiting),
        call(hang, &step.call),
        call_and_peer(hang, &astray.lacked),
        ranks(hang, &astray.waiting),
        for_time(cycle.lasted)
    )
}
