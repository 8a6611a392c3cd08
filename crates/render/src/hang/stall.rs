//! Words for an operation that all ranks are in and that does not end.
//!
//! The first sentence names a rank that is dead or stopped, else the network operation that the others wait
//! for (`network`), else the operation alone.

use super::names::{are, call, capital, for_time, of, one, rank, ranks, unknown, without_dump};
use super::network;
use super::phrases::{ended_by, stopped, when, when_stopped, Words, NOTHING_SINCE, UNSEEN_END};
use analyze::hang::{Hang, Liveness, Members, Outcome, Stall};

pub(super) fn words(hang: &Hang, stall: &Stall) -> Words {
    let communicator = stall.ranks.communicator;
    let call = call(hang, &stall.call);
    let time = for_time(stall.lasted);
    let nranks = of(hang, communicator).ranks.len();
    let all = match of(hang, communicator).unknown {
        Some(_) => format!("All {nranks} ranks that are known"),
        None => format!("All {nranks} ranks"),
    };
    let not_ended = if !stall.piece {
        format!("{all} are in {call}, and it has not ended{time}")
    } else {
        let who = are(&ranks(hang, &stall.ranks), stall.ranks.len());
        format!("{} in {call}, and it has not ended{time}", capital(who))
    };
    let network_op = network::sentence(hang, stall, &call);
    let mut details = Vec::new();
    let sentence = match (stall.outcome, network_op) {
        (Outcome::Dead(member), _) => {
            let unseen = rank(hang, communicator, member).has_unseen_end;
            details.extend(unseen.then(|| UNSEEN_END.to_owned()));
            format!(
                "{} is dead{}; {} were in {call}, and it has not ended{time}.",
                one(hang, communicator, member),
                ended_by(hang, &Members::one(communicator, member)),
                all.replacen("All", "all", 1)
            )
        }
        (Outcome::Stopped(member), _) => {
            let rank = rank(hang, communicator, member);
            if rank.state == Liveness::Stopped {
                details.extend(when_stopped(hang, stall.by_time));
            } else {
                details.push(NOTHING_SINCE.to_owned());
            }
            let are = if rank.was_stopped.is_some() {
                "were"
            } else {
                "are"
            };
            format!(
                "{} {}; {} {are} in {call}, and it has not ended{time}.",
                one(hang, communicator, member),
                stopped(hang, rank, "is"),
                all.replacen("All", "all", 1)
            )
        }
        (Outcome::GoesOn, _) => format!("No hang: {all} are in {call}, and it goes on{time}."),
        (Outcome::Unknown, network_op) => {
            details.extend(network_op);
            match without_dump(hang, communicator) {
                Some(without) => {
                    let who = are(&ranks(hang, &stall.ranks), stall.ranks.len());
                    format!("{who} in {call}, and it has not ended{time}; {without}.")
                }
                None => {
                    let unknown = unknown(hang, communicator);
                    format!("{not_ended}; what {unknown} did is not known.")
                }
            }
        }
        (Outcome::NotLaunched, _) => {
            format!("{all} are inside {call}, and none has launched it{time}.")
        }
        (Outcome::NotBegun, _) => format!(
            "{all} have launched {call}, and no GPU has begun it{time}: all are busy with earlier work."
        ),
        (Outcome::Stuck, Some(network_op)) => {
            details.push(format!("{not_ended}."));
            network_op
        }
        (Outcome::Stuck, None) => format!("{not_ended}."),
    };
    if !matches!(stall.outcome, Outcome::Dead(_) | Outcome::Stopped(_)) {
        details.extend(network::details(hang, stall));
        // GPUs that are in the call do not compute.
        let until = match stall.outcome {
            Outcome::Stuck => when_stopped(hang, stall.by_time),
            _ => when(hang, stall.by_time),
        };
        details.extend(until);
    }
    Words {
        sentence: capital(sentence),
        details,
    }
}
