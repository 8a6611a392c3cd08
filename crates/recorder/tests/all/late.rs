//! Callbacks that go on late: they have found their row, and the call is sealed before they store to it.
//!
//! What they store belongs to a call that is written already. It may be lost, and it may never be another
//! call's.

use crate::job::{until, Driver, Job};
use nccl_abi::{event, state};
use nccl_profiler_ncclscope::forced;

/// Bytes that the late callback reports.
const LATE: u64 = 12_345;

/// A send over the network, with one step that is under way: its operation and its step.
fn send(comm: &Driver, coll: *mut std::ffi::c_void) -> [*mut std::ffi::c_void; 2] {
    let op = comm.start(event::PROXY_OP, coll, |u| {
        u.proxy_op.pid = std::process::id() as i32;
        u.proxy_op.channel_id = 0;
        u.proxy_op.peer = 1;
        u.proxy_op.n_steps = 1;
        u.proxy_op.chunk_size = LATE as i32;
        u.proxy_op.is_send = 1;
    });
    let step = comm.start(event::PROXY_STEP, op, |u| u.proxy_step.step = 0);
    [op, step]
}

#[test]
#[ignore = "played by the test below"]
fn job_with_a_late_callback() {
    let mut comm = Driver::new(0xc0);
    let coll = comm.enqueue(7);
    let [op, step] = send(&comm, coll).map(|handle| handle as usize);
    std::thread::scope(|scope| {
        forced::pause_at_next_find();
        let late = comm.beside();
        scope.spawn(move || {
            late.state(step as *mut _, state::PROXY_STEP_SEND_WAIT, Some(LATE));
            late.stop(step as *mut _);
            late.stop(op as *mut _);
        });
        until(forced::is_paused);
        // Under pressure the call is sealed although its operation is under way; then its row is due again.
        for call in 0..5000 {
            comm.all_reduce(1);
            if call % 100 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        forced::resume();
    });
    (0..2000).for_each(|_| comm.all_reduce(1));
    comm.finalize();
}

#[test]
fn a_late_callback_stores_to_no_other_call() {
    let mut job = Job::new(module_path!(), "job_with_a_late_callback")
        .env("NCCLSCOPE_MEMORY", "1MiB")
        .env("NCCLSCOPE_TIMING", "host");
    assert!(job.run().success());
    let capture = job.capture();
    assert_eq!(capture.problems, []);
    let process = &capture.processes[0];
    let first = &process.calls[0];
    assert_eq!((first.ticket, first.sealed), (0, true));
    for call in &process.calls[1..] {
        assert_eq!(call.extra, 0, "{call:?} has {:?}", process.extras);
    }
    let c = analyze::report(&capture).completeness;
    let lost: u64 = c.lost.values().sum();
    assert_eq!((c.announced, c.recorded + lost), (7001, 7001), "{c:#?}");
}
