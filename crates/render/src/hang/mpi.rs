//! Words for ranks that are inside of MPI.

use super::names::{ranks, span};
use analyze::hang::{Hang, InMpi, Members};

/// The longest call of MPI that these ranks are in; `None` unless all of them are in one.
fn longest<'a>(hang: &'a Hang, members: &Members) -> Option<&'a InMpi> {
    let of = &hang.communicators[members.communicator].ranks;
    let inside = members.members.iter();
    let inside: Option<Vec<&InMpi>> = inside.map(|member| of[*member].in_mpi.as_ref()).collect();
    inside?.into_iter().max_by_key(|inside| inside.for_ns)
}

/// `rank 2 has been inside of MPI_Recv for 13.8 s`; `None` unless all these ranks are inside.
pub(super) fn inside(hang: &Hang, members: &Members) -> Option<String> {
    let longest = longest(hang, members)?;
    let of = &hang.communicators[members.communicator].ranks;
    let mut functions = members
        .members
        .iter()
        .filter_map(|member| of[*member].in_mpi.as_ref());
    let is_same = functions.all(|inside| inside.function == longest.function);
    let function = if is_same { &longest.function } else { "MPI" };
    let who = ranks(hang, members);
    let time = span(longest.for_ns);
    Some(match members.len() {
        1 => format!("{who} has been inside of {function} for {time}"),
        _ => format!("{who} have been inside of {function} for up to {time}"),
    })
}

/// Which other ranks of the communicator are inside of MPI, too: one that waits there waits for another rank.
pub(super) fn others(hang: &Hang, members: &Members) -> Option<String> {
    longest(hang, members)?;
    let of = &hang.communicators[members.communicator].ranks;
    let others = (0..of.len()).filter(|member| !members.members.contains(member));
    let others = Members {
        communicator: members.communicator,
        members: others
            .filter(|member| of[*member].in_mpi.is_some())
            .collect(),
    };
    Some(match inside(hang, &others) {
        None => "No other rank is seen inside of MPI.".to_owned(),
        Some(inside) => format!("{}, too.", super::names::capital(inside)),
    })
}
