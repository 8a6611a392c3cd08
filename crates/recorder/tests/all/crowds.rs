//! Many of everything at once: 64 communicators under four threads, groups of a thousand calls, a thousand
//! groups that are open together. Every call is a row or is counted.

use crate::job::{coll_fields, Driver, Job};
use nccl_abi::event;
use std::collections::BTreeSet;

const COMMUNICATORS: u64 = 64;
const THREADS: usize = 4;
const GROUP: usize = 1000;

/// One group of `calls` AllReduces, as NCCL announces it: all API calls, then all collectives, then the end
/// of the group.
fn grouped(comm: &Driver, calls: usize, captured: bool) {
    let group = comm.group(captured);
    let apis: Vec<_> = (0..calls)
        .map(|i| comm.coll_api(group, 1 + i % 50, captured))
        .collect();
    comm.state(group, nccl_abi::state::GROUP_END_API_START, None);
    let plan = comm.start(event::GROUP, std::ptr::null_mut(), |_| {});
    for (i, api) in apis.into_iter().enumerate() {
        let coll = comm.start(event::COLL, api, |u| u.coll = coll_fields(1 + i % 50, 1));
        comm.stop(coll);
    }
    comm.stop(plan);
    comm.stop(group);
}

#[test]
#[ignore = "played by the test below"]
fn job_of_64_communicators() {
    let comms: Vec<Driver> = (0..COMMUNICATORS).map(|i| Driver::new(0xc0 + i)).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let comms = &comms;
            // All of them meet at the same communicators, each beginning elsewhere.
            scope.spawn(move || {
                for turn in 0..COMMUNICATORS as usize {
                    let comm = &comms[(turn + 16 * thread) % comms.len()];
                    (0..100).for_each(|_| grouped(comm, 1, false));
                    if turn % 16 == 0 {
                        grouped(comm, GROUP, false);
                    }
                }
            });
        }
    });
    comms.into_iter().for_each(Driver::finalize);
}

#[test]
fn four_threads_on_64_communicators_with_groups_of_1000_calls_lose_nothing() {
    let each = COMMUNICATORS * 100 + COMMUNICATORS / 16 * GROUP as u64;
    for memory in ["1MiB", "16MiB"] {
        let mut job =
            Job::new(module_path!(), "job_of_64_communicators").env("NCCLSCOPE_MEMORY", memory);
        assert!(job.run().success());
        let capture = job.capture();
        assert_eq!(capture.problems, []);
        let process = &capture.processes[0];
        assert_eq!(process.communicators.len() as u64, COMMUNICATORS);
        let c = analyze::report(&capture).completeness;
        let lost: u64 = c.lost.values().sum();
        let announced = each * THREADS as u64;
        assert_eq!(
            (c.announced, c.recorded + lost, c.adds_up),
            (announced, announced, true),
            "{memory}: {c:#?}"
        );
        assert!(c.lost.keys().all(|cause| cause == "rows_full"), "{c:#?}");
        let callers: BTreeSet<_> = capture.rows().map(|row| row.shape.thread).collect();
        assert!(!callers.contains(&None));
        // Threads whose calls all came when there was no room have none in the capture.
        let rows_of_all = c.lost.is_empty();
        assert!(callers.len() == THREADS || !rows_of_all && callers.len() <= THREADS);
    }
}

#[test]
#[ignore = "played by the test below"]
fn job_of_a_large_captured_group() {
    let comm = Driver::new(0xc0);
    grouped(&comm, 5000, true);
    comm.finalize();
}

#[test]
fn captured_calls_that_find_no_row_count_once() {
    let mut job =
        Job::new(module_path!(), "job_of_a_large_captured_group").env("NCCLSCOPE_MEMORY", "1MiB");
    assert!(job.run().success());
    let c = analyze::report(&job.capture()).completeness;
    let lost: u64 = c.lost.values().sum();
    assert_eq!((c.announced, c.recorded + lost), (5000, 5000), "{c:#?}");
    assert!(c.adds_up && c.lost.keys().eq(["rows_full"]), "{c:#?}");
}

#[test]
#[ignore = "played by the test below"]
fn job_of_1000_open_groups() {
    let comm = Driver::new(0xc0);
    let open: Vec<_> = (0..1000)
        .map(|i| {
            let group = comm.group(false);
            let api = comm.coll_api(group, 1 + i % 50, false);
            (group, api)
        })
        .collect();
    for (group, api) in open {
        comm.state(group, nccl_abi::state::GROUP_END_API_START, None);
        let coll = comm.start(event::COLL, api, |u| u.coll = coll_fields(7, 1));
        comm.stop(coll);
        comm.stop(group);
    }
    comm.finalize();
}

#[test]
fn a_thousand_groups_open_together_are_each_ended() {
    let mut job =
        Job::new(module_path!(), "job_of_1000_open_groups").env("NCCLSCOPE_FLUSH", "0.05");
    assert!(job.run().success());
    let capture = job.capture();
    let c = analyze::report(&capture).completeness;
    assert_eq!((c.announced, c.recorded), (1000, 1000), "{c:#?}");
    assert!(c.adds_up && c.lost.is_empty(), "{c:#?}");
    assert!(capture.processes[0]
        .calls
        .iter()
        .all(|c| c.host_ns().is_some()));
}
