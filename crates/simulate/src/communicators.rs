//! Communicators of jobs that tests make up.

use tables::communicators::Member;
use tables::Communicator;

/// The communicator of this number, whose ranks are these processes.
pub fn communicator(index: usize, members: &[usize]) -> Communicator {
    let member = |(own, rank): (usize, &usize)| Member {
        process: *rank,
        uid: index as u32,
        rank: Some(own as u32),
    };
    Communicator {
        id: index.to_string(),
        hash: 1,
        nranks: Some(members.len() as u32),
        nnodes: None,
        name: None,
        members: members.iter().enumerate().map(member).collect(),
        created_ns: None,
        parent: None,
    }
}
