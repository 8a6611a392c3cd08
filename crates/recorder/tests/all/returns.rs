//! When a call counts as returned: at the stop of its own group or task, and with all that came before it.

#[allow(dead_code)]
#[path = "../conformance/comm.rs"]
mod comm;

use crate::job::{flushed, until, Driver, Job};
use comm::{Comm, REDUCE, SEND};
use fake_nccl::event::{Event, Handle, P2p};
use nccl_abi::event;
use nccl_profiler_ncclscope::forced;

/// Ends the process as a kill would: nothing is hurried.
fn end_at_once() -> ! {
    // SAFETY: ends this process.
    unsafe { libc::_exit(0) }
}

#[test]
#[ignore = "played by the test below"]
fn job_with_an_open_replay() {
    let mut comm = Driver::new(0xc0);
    let group = comm.group(true);
    let template = comm.coll_api(group, 7, true);
    comm.stop(group);
    comm.all_reduce(1);
    flushed();
    // The graph is launched: NCCL enqueues the call, and is stuck in it.
    comm.start(event::COLL, template, |u| {
        u.coll = crate::job::coll_fields(7, 1)
    });
    comm.all_reduce(1);
    flushed();
    end_at_once();
}

#[test]
fn a_replay_ends_at_its_own_stop_and_not_with_its_capture() {
    let mut job =
        Job::new(module_path!(), "job_with_an_open_replay").env("NCCLSCOPE_FLUSH", "0.05");
    assert!(job.run().success());
    let capture = job.capture();
    let process = &capture.processes[0];
    let replay = process.calls.iter().find(|call| call.template != 0);
    let replay = replay.expect("a replay");
    assert!(replay.api_ns != 0 && !replay.sealed, "{replay:?}");
    assert_eq!(replay.return_ns, 0, "{replay:?}");
}

#[test]
#[ignore = "played by the test below"]
fn job_with_an_open_task_below_v5() {
    let comm = Comm::new(4, 9, 0);
    comm.start(&Event::Coll(REDUCE), Handle::NULL);
    // As long as the recorder waits for network operations of a call.
    std::thread::sleep(std::time::Duration::from_millis(400));
    flushed();
    end_at_once();
}

#[test]
fn a_task_below_v5_ends_at_its_stop() {
    let mut job =
        Job::new(module_path!(), "job_with_an_open_task_below_v5").env("NCCLSCOPE_FLUSH", "0.05");
    assert!(job.run().success());
    let capture = job.capture();
    let call = &capture.processes[0].calls[0];
    assert!(call.api_ns != 0 && !call.sealed, "{call:?}");
    assert_eq!(call.return_ns, 0, "{call:?}");
}

#[test]
#[ignore = "played by the test below"]
fn job_with_a_late_stop_of_a_group() {
    let comm = Driver::new(0xc0);
    let two_calls = || {
        let group = comm.group(false);
        comm.coll_api(group, 1, false);
        comm.coll_api(group, 2, false);
        group
    };
    let first = two_calls() as usize;
    std::thread::scope(|scope| {
        forced::pause_at_next_find();
        let late = comm.beside();
        scope.spawn(move || late.stop(first as *mut _));
        until(forced::is_paused);
        // Its entry serves another group when the table has gone round.
        (0..2047).for_each(|_| comm.stop(comm.group(false)));
        two_calls();
        forced::resume();
    });
    flushed();
    end_at_once();
}

#[test]
fn a_late_stop_ends_no_other_group() {
    let mut job =
        Job::new(module_path!(), "job_with_a_late_stop_of_a_group").env("NCCLSCOPE_FLUSH", "0.05");
    assert!(job.run().success());
    let capture = job.capture();
    let calls = &capture.processes[0].calls;
    assert_eq!(calls.len(), 4);
    for call in &calls[2..] {
        assert!(!call.sealed && call.return_ns == 0, "{call:?}");
    }
}

/// The first send to a peer of a non-blocking communicator: its group has returned, and a thread of NCCL's
/// own connects the two for long before it launches.
#[test]
#[ignore = "played by the test below"]
fn job_that_connects_behind_the_call() {
    let comm = Comm::new(5, 9, 0);
    let group = comm.start(
        &Event::GroupApi {
            captured: false,
            depth: 1,
        },
        Handle::NULL,
    );
    let api = comm.start(
        &Event::P2pApi {
            func: SEND.func,
            count: SEND.count,
            datatype: SEND.datatype,
            stream: 0x57,
            captured: false,
            tag: 0,
        },
        group,
    );
    comm.table.stop(api);
    comm.table.stop(group);
    // Longer than a part is waited for that follows at once.
    std::thread::sleep(std::time::Duration::from_millis(500));
    flushed();
    let plan = comm.start(&Event::Group, Handle::NULL);
    let send = comm.start(
        &Event::P2p(P2p {
            group: plan,
            ..SEND
        }),
        api,
    );
    comm.table.stop(send);
    comm.table.stop(plan);
    comm.finalize();
}

#[test]
fn a_send_that_is_launched_long_after_its_return_has_its_peer() {
    let mut job = Job::new(module_path!(), "job_that_connects_behind_the_call")
        .env("NCCLSCOPE_FLUSH", "0.05");
    assert!(job.run().success());
    let capture = job.capture();
    let process = &capture.processes[0];
    let peers = process
        .calls
        .iter()
        .map(|call| process.shapes[call.shape as usize].peer);
    assert_eq!(peers.collect::<Vec<_>>(), [Some(9)]);
}
