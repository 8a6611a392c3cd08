//! Communicators, the numbers of calls on them, and groups.

use crate::job::Job;
use crate::session::{attached, during, read, without_bpf};
use attach::{Options, Session};
use tables::Capture;

/// What is recorded of a communicator of 8 ranks, ten AllReduces on it and a group of four calls.
fn of_one_communicator(mut session: Session, job: &mut Job) -> Capture {
    during(&mut session, job, |job| {
        for line in ["init 8 3", "loop 1 10", "group 2", "end"] {
            job.tell(line);
        }
    });
    drop(session.finish());
    read(&job.capture())
}

#[test]
fn communicators_and_groups_are_as_the_program_made_them() {
    let mut job = Job::start_with("libnccl.so.2.99.1", &[("RANK", "3"), ("WORLD_SIZE", "8")]);
    job.tell("load");
    let Some(session) = attached(job.options()) else {
        return;
    };
    let capture = of_one_communicator(session, &mut job);
    let process = &capture.processes[0];
    assert_eq!(process.rank, Some(3));
    let local = &process.communicators[0];
    assert_eq!((local.nranks, local.rank), (8, Some(3)));
    assert!(local.hash != 0 && local.created_ns.is_some() && local.ended_ns > local.created_ns);
    let shape = |call: &tables::Call| &process.shapes[call.shape as usize];
    let name = |call: &tables::Call| {
        capture
            .names
            .get(shape(call).function)
            .unwrap_or("?")
            .to_owned()
    };
    let reduces: Vec<_> = process
        .calls
        .iter()
        .filter(|call| name(call) == "AllReduce")
        .collect();
    let numbers: Vec<u64> = reduces.iter().map(|call| call.seq).collect();
    assert_eq!(numbers, (1..=10).collect::<Vec<u64>>());
    let grouped: Vec<_> = process
        .calls
        .iter()
        .filter(|call| call.group != 0)
        .collect();
    assert_eq!(grouped.len(), 4);
    assert!(grouped
        .iter()
        .all(|call| call.return_ns == grouped[0].return_ns));
    let peers: Vec<Option<u32>> = grouped.iter().map(|call| shape(call).peer).collect();
    assert_eq!(peers, [Some(0), Some(0), Some(1), Some(1)]);
}

#[test]
fn of_a_communicator_that_was_made_before_rank_and_size_are_read() {
    let mut job = Job::loaded();
    job.tell("init 8 3");
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    during(&mut session, &mut job, |job| job.tell("loop 1 10"));
    let summary = session.finish();
    // The launcher does not say it.
    assert_eq!(summary.processes[0].rank.as_deref(), Some("3"));
    let capture = read(&job.capture());
    let process = &capture.processes[0];
    let local = &process.communicators[0];
    let known = (local.nranks, local.rank, local.device, local.hash);
    assert_eq!(known, (8, Some(3), Some(5), 0));
    // Its calls began before, so their numbers are not known.
    assert!(process.calls.iter().all(|call| call.seq == 0));
}

/// The communicators and calls of a job, as one way to set probes has them.
fn as_seen(way: Option<attach::Way>) -> Option<Vec<String>> {
    let mut job = Job::loaded();
    let session = attached(Options {
        way,
        ..job.options()
    })?;
    let capture = of_one_communicator(session, &mut job);
    let process = &capture.processes[0];
    let communicators = process.communicators.iter().map(|c| {
        let lives = (c.created_ns.is_some(), c.ended_ns > c.created_ns);
        format!("{} {:?} {:x} {lives:?}", c.nranks, c.rank, c.hash)
    });
    let calls = process.calls.iter().map(|call| {
        let shape = &process.shapes[call.shape as usize];
        let function = capture.names.get(shape.function).unwrap_or("?");
        let grouped = call.group != 0;
        format!(
            "{function} {} {:?} {} {grouped}",
            shape.count, shape.peer, call.seq
        )
    });
    Some(communicators.chain(calls).collect())
}

#[test]
fn without_bpf_communicators_numbers_and_groups_are_the_same() {
    let (Some(with), Some(without)) = (as_seen(None), as_seen(Some(attach::Way::Samples))) else {
        return;
    };
    assert_eq!(with.len(), 1 + 10 + 4);
    assert_eq!(with, without);
}

#[test]
fn without_bpf_a_communicator_is_known_only_if_its_address_can_be_proved() {
    let mut job = Job::loaded();
    let Some(mut session) = without_bpf(job.options()) else {
        return;
    };
    // The first two are overwritten by the next at once. Whatever is read in their place has another rank.
    during(&mut session, &mut job, |job| job.tell("heap 3"));
    drop(session.finish());
    let capture = read(&job.capture());
    let process = &capture.processes[0];
    assert_eq!(process.calls.len(), 3);
    for call in &process.calls {
        let shape = &process.shapes[call.shape as usize];
        let mut all = process.communicators.iter();
        let local = all.find(|c| c.uid == shape.uid).expect("known");
        // Each call is the first of its communicator. It has that number only if the init is known to be its.
        let is_known = local.hash != 0;
        assert_eq!((local.nranks, call.seq), (3, u64::from(is_known)));
    }
    let ranks: Vec<_> = process.communicators.iter().map(|c| c.rank).collect();
    assert_eq!(ranks.len(), 3, "{ranks:?}");
    for rank in 0..3 {
        assert!(ranks.contains(&Some(rank)), "{ranks:?}");
    }
}
