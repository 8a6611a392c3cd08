//! Words for ranks that are inside of MPI, or make or end a communicator.

use super::names::{ranks, span};
use analyze::hang::{Hang, Inside, Members};

/// The longest such call that these ranks are in; `None` unless all of them are in one.
fn longest<'a>(hang: &'a Hang, members: &Members) -> Option<&'a Inside> {
    let of = &hang.communicators[members.communicator].ranks;
    let inside = members.members.iter();
    let inside: Option<Vec<&Inside>> = inside.map(|member| of[*member].inside()).collect();
    inside?.into_iter().max_by_key(|inside| inside.lasted)
}

/// `rank 2 has been inside of MPI_Recv for 13.8 s`; `None` unless all these ranks are inside.
pub(super) fn inside(hang: &Hang, members: &Members) -> Option<String> {
    let longest = longest(hang, members)?;
    let of = &hang.communicators[members.communicator].ranks;
    let mut functions = members
        .members
        .iter()
        .filter_map(|member| of[*member].inside());
    let is_same = functions.all(|inside| inside.function == longest.function);
    let function = if is_same {
        &longest.function
    } else {
        library(hang, members)
    };
    let who = ranks(hang, members);
    let time = span(longest.lasted);
    Some(match members.len() {
        1 => format!("{who} has been inside of {function} for {time}"),
        _ => format!("{who} have been inside of {function} for up to {time}"),
    })
}

/// Of what these ranks, which are all inside, are inside.
fn library(hang: &Hang, members: &Members) -> &'static str {
    let of = &hang.communicators[members.communicator].ranks;
    let mut members = members.members.iter();
    if members.all(|member| of[*member].in_mpi.is_some()) {
        "MPI"
    } else {
        "such a call"
    }
}

/// Which other ranks of the communicator are inside of such a call, too: one that waits there waits for
/// another rank.
pub(super) fn others(hang: &Hang, members: &Members) -> Option<String> {
    longest(hang, members)?;
    let of = &hang.communicators[members.communicator].ranks;
    let others = (0..of.len()).filter(|member| !members.members.contains(member));
    let others = Members {
        communicator: members.communicator,
        members: others
            .filter(|member| of[*member].inside().is_some())
            .collect(),
    };
    Some(match inside(hang, &others) {
        None => format!(
            "No other rank is seen inside of {}.",
            library(hang, members)
        ),
        Some(inside) => format!("{}, too.", super::names::capital(inside)),
    })
}
