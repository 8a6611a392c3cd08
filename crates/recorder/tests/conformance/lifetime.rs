//! Lines 7 to 10: what remains after a kill or an exit, and callbacks after the end or in a forked child.

use crate::comm::{one_of_each, Comm, ABIS, REDUCE};
use crate::job::{flushed, until, Driver};
use crate::playing::checked;
use crate::reading::{announced, calls, complete, complete_but, odd, process};
use capture::live::Odd;
use fake_nccl::event::Handle;
use fake_nccl::plugin::MISDEEDS;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};
use tables::{LiveSource, Process};

#[test]
#[ignore = "played by line 7"]
fn job_line_07_killed() {
    let mut comm = Driver::new(7);
    (0..2000).for_each(|i| comm.all_reduce(1 + i % 10));
    flushed();
    (0..50).for_each(|_| comm.all_reduce(11));
    // SAFETY: ends this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

#[test]
#[ignore = "played by line 7"]
fn job_line_07_exit() {
    let mut comm = Driver::new(7);
    (0..1234).for_each(|_| comm.all_reduce(1));
    // SAFETY: the end of a program that destroys nothing.
    unsafe { libc::exit(0) }
}

#[test]
fn line_07_without_finalize_kill_loses_one_flush_interval_at_most_and_exit_nothing() {
    use std::os::unix::process::ExitStatusExt;
    let mut job = job!(job_line_07_killed).env("NCCLSCOPE_FLUSH", "0.05");
    assert_eq!(job.run().signal(), Some(libc::SIGKILL));
    // With the live part, which outlives the process: all (see also
    // `killed_at_any_moment_keeps_every_completed_call`).
    complete(&job.capture(), 2050);
    // The node is gone, and the live part with it.
    let live = process(&job.capture())
        .fact("live")
        .expect("a path")
        .to_owned();
    std::fs::remove_file(live).expect("removed");
    let capture = job.capture();
    assert_eq!(process(&capture).live, LiveSource::Snapshot);
    let c = analyze::report(&capture).completeness;
    assert!(c.recorded >= 2000, "{c:#?}");
    assert!(c.adds_up);

    let mut job = job!(job_line_07_exit).env("NCCLSCOPE_FLUSH", "3600");
    assert!(job.run().success());
    let capture = job.capture();
    complete(&capture, 1234);
    let process = process(&capture);
    assert!(process.ended);
    // All of it is in the folder: the live part is not left behind.
    assert!(!Path::new(process.fact("live").expect("a path")).exists());
}

#[test]
#[ignore = "played by line 8"]
fn job_line_08() {
    for abi in ABIS {
        let (comm, other) = (Comm::new(abi, 1, 0), Comm::new(abi, 2, 0));
        let (api, coll) = comm.coll(REDUCE);
        let mut open: Vec<Handle> = vec![api, coll];
        open.extend(one_of_each(abi).iter().map(|e| comm.start(e, coll)));
        let late = |open: &[Handle]| {
            for handle in open {
                for number in 0..40 {
                    comm.table.state_raw(*handle, number, None);
                    comm.table.state_raw(*handle, number, Some(&mut [7; 2]));
                }
                comm.table.stop(*handle);
            }
            for event in one_of_each(abi) {
                comm.start(&event, coll);
            }
        };
        // Others go on, then none does.
        comm.table.finalize(comm.context);
        late(&open);
        other.coll(REDUCE);
        other.finalize();
        late(&open);
        comm.table.finalize(comm.context);
    }
    assert_eq!(MISDEEDS.errors.load(Relaxed), 0);
}

#[test]
fn line_08_callbacks_after_finalize_change_nothing() {
    let mut job = job!(job_line_08);
    assert!(job.run().success());
    let capture = job.capture();
    let p = process(&capture);
    // Below v5 the Coll and the P2p that `one_of_each` starts are calls, once while the communicator lived.
    let expected = 7 * 2 + 4 * 2;
    // Twice after that they are announced on a communicator that is gone.
    let late = 4 * 2 * 2;
    assert_eq!(announced(p), expected + late);
    complete_but(&capture, expected, &[("stale_context", late)]);
    assert!(odd(p, Odd::StaleContext) > 7);
    checked("late_callbacks");
}

static LATE: std::sync::Mutex<Option<Driver>> = std::sync::Mutex::new(None);

extern "C" fn calls_at_exit() {
    if let Some(mut comm) = LATE.lock().expect("held by none").take() {
        (0..100).for_each(|_| comm.all_reduce(9));
        comm.finalize();
    }
}

#[test]
#[ignore = "played by line 9"]
fn job_line_09() {
    // Registered before the plugin's, so it runs after it.
    // SAFETY: a plain registration.
    unsafe { libc::atexit(calls_at_exit) };
    let mut comm = Driver::new(9);
    (0..10).for_each(|_| comm.all_reduce(1));
    *LATE.lock().expect("free") = Some(comm);
    let mut busy = Driver::new(10);
    static CALLED: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(move || loop {
        busy.all_reduce(2);
        CALLED.store(true, Release);
    });
    until(|| CALLED.load(Acquire));
    // SAFETY: the thread goes on calling meanwhile, which is the point.
    unsafe { libc::exit(0) }
}

#[test]
fn line_09_callbacks_during_and_after_the_exit_handlers_do_no_harm() {
    let mut job = job!(job_line_09);
    assert!(job.run().success());
    let capture = job.capture();
    let recorded = calls(&capture, "AllReduce");
    let of = |count| recorded.iter().filter(|(_, s)| s.count == count).count();
    // What came before the exit is all there.
    assert_eq!(of(1), 10);
    assert!(of(2) > 0);
    checked("exit");
}

#[test]
#[ignore = "played by line 10"]
fn job_line_10() {
    let mut comm = Driver::new(0x10);
    let open = comm.group(false);
    // Keeps every lock of the recorder busy: init, finalize and the flush that it waits for.
    let going = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let going = &going;
        scope.spawn(move || {
            while going.load(Relaxed) {
                let mut other = Driver::new(0x11);
                other.all_reduce(5);
                other.finalize();
            }
        });
        for turn in 0..40 {
            comm.all_reduce(1);
            // SAFETY: the child calls the plugin and exits.
            let child = unsafe { libc::fork() };
            assert!(child >= 0, "turn {turn}: no process");
            if child == 0 {
                // The parent's names mean nothing here, and are not touched.
                comm.stop(open);
                comm.all_reduce(2);
                if turn % 4 == 0 {
                    // NCCL begins anew in the child, while the parent's lock may look held.
                    let mut own = Driver::new(0xc41d);
                    own.all_reduce(3);
                    own.finalize();
                }
                // SAFETY: the handlers run, the plugin's too.
                unsafe { libc::exit(0) };
            }
            let began = Instant::now();
            loop {
                let mut status = 0;
                // SAFETY: our child.
                if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
                    assert_eq!(status, 0, "turn {turn}");
                    break;
                }
                if began.elapsed() > Duration::from_secs(20) {
                    eprintln!("the child of turn {turn} hangs");
                    // SAFETY: our child, and the end of this process with its busy thread.
                    unsafe {
                        libc::kill(child, libc::SIGKILL);
                        libc::_exit(1);
                    }
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        going.store(false, Relaxed);
    });
    comm.all_reduce(4);
    comm.finalize();
}

#[test]
fn line_10_a_forked_child_neither_touches_its_parents_rows_nor_hangs() {
    let mut job = job!(job_line_10);
    assert!(job.run().success());
    let capture = job.capture();
    let counts = |p: &Process| {
        let mut counts = BTreeMap::new();
        for call in &p.calls {
            *counts
                .entry(p.shapes[call.shape as usize].count)
                .or_insert(0) += 1;
        }
        counts
    };
    let (mut parents, mut children) = (0, 0);
    for p in &capture.processes {
        let counts = counts(p);
        if counts.contains_key(&3) {
            assert_eq!(
                counts,
                BTreeMap::from([(3, 1)]),
                "a child recorded its own call only"
            );
            children += 1;
        } else {
            assert_eq!(
                (counts.get(&1), counts.get(&2), counts.get(&4)),
                (Some(&40), None, Some(&1))
            );
            parents += 1;
        }
    }
    assert_eq!((parents, children), (1, 10));
    checked("fork");
}
