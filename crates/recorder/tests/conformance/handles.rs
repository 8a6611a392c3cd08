//! Lines 18 to 24: handles that are stale, foreign or null, and threads that share a communicator.

use crate::comm::{one_of_each, Comm, ABIS, REDUCE};
use crate::job::{recorded, Driver};
use crate::playing::checked;
use crate::reading::{announced, calls, complete, complete_but, lost, odd, process};
use capture::live::{part, Cause, Odd};
use fake_nccl::event::{Event, Handle, StateArgs};
use nccl_abi::{event, state};
use std::ffi::c_void;
use std::time::Duration;
use tables::GpuTimes;

#[test]
#[ignore = "played by line 18"]
fn job_line_18() {
    for abi in ABIS {
        let comm = Comm::new(abi, u64::from(abi), 5);
        for parent in [Handle::NULL, Handle::GARBAGE, comm.context] {
            for event in one_of_each(abi) {
                // Asserts that it was written.
                let handle = comm.start(&event, parent);
                assert_ne!(handle, Handle::NULL, "v{abi} {event:?}");
            }
        }
        comm.finalize();
    }
}

#[test]
fn line_18_every_start_writes_a_handle_that_is_not_null() {
    let mut job = job!(job_line_18);
    assert!(job.run().success());
    checked("handles");
}

#[test]
#[ignore = "played by line 19"]
fn job_line_19() {
    let mut comm = Driver::new(0x19);
    let group = comm.group(false);
    let api = comm.coll_api(group, 100, false);
    let coll = comm.coll(api, 100, 1);
    let kernel = comm.start(event::KERNEL_CH, coll, |u| {
        u.kernel_ch.channel_id = 0;
        u.kernel_ch.p_timer = 1000;
    });
    comm.state(kernel, state::KERNEL_CH_STOP, Some(2000));
    comm.stop(kernel);
    comm.stop(group);
    // Stopped twice; changed after its stop; nothing at all.
    (0..3).for_each(|_| comm.stop(kernel));
    (0..5).for_each(|_| comm.stop(std::ptr::null_mut()));
    comm.state(std::ptr::null_mut(), state::NET_PLUGIN_UPDATE, None);
    // The row is sealed, and other calls take its place: 20 000 are more than there are rows.
    for i in 0..20_000 {
        comm.all_reduce(200 + i % 50);
        if i % 2000 == 0 {
            recorded(|p| p.sealed + 4000 > i as u64);
        }
    }
    for handle in [kernel, coll, api, group] {
        comm.state(handle, state::KERNEL_CH_STOP, Some(999_999));
        comm.stop(handle);
        let child = comm.start(event::KERNEL_CH, handle, |u| {
            u.kernel_ch.channel_id = 0;
            u.kernel_ch.p_timer = 1;
        });
        comm.stop(child);
    }
    comm.finalize();
}

#[test]
fn line_19_stops_of_null_stopped_and_recycled_handles_have_no_effect_and_are_counted() {
    let mut job = job!(job_line_19)
        .env("NCCLSCOPE_TIMING", "stamps")
        .env("NCCLSCOPE_FLUSH", "0.05");
    assert!(job.run().success());
    let capture = job.capture();
    let p = process(&capture);
    complete(&capture, 20_001);
    assert_eq!(odd(p, Odd::DoubleStop), 3);
    assert_eq!(odd(p, Odd::NullHandle), 6);
    assert!(odd(p, Odd::StaleHandle) >= 4, "{:?}", p.counters);
    let first = &p.calls[0];
    assert_eq!(first.gpu, GpuTimes::stamps(1000, 2000));
    assert_eq!((first.channels_started, first.channels_stopped), (1, 1));
    // Whoever has the place now kept its own stamps: 9984 ns each in the driver.
    let strange = p.calls[1..]
        .iter()
        .filter(|c| c.gpu.length() != Some(9_984))
        .count();
    assert_eq!(strange, 0);
    for item in [
        "stale_stop",
        "double_stop",
        "null_stop",
        "stale_state",
        "null_state",
    ] {
        checked(item);
    }
}

#[test]
#[ignore = "played by line 20"]
fn job_line_20() {
    for abi in ABIS {
        let comm = Comm::new(abi, u64::from(abi), 5);
        comm.coll(REDUCE);
        let mut word = 0x9e37_79b9_7f4a_7c15u64;
        for i in 0..20_000usize {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            // Random, small, kernel space, misaligned, and a name of ours with one bit wrong.
            let ours = comm.context.0;
            let pointer = [
                word as usize,
                i,
                usize::MAX - i,
                ours ^ (1 << (i % 52)),
                0x7fff_0000_0001 + i,
            ][i % 5];
            let pointer = Handle(pointer);
            comm.table.stop(pointer);
            comm.table
                .state_raw(pointer, (word % 40) as u32, Some(&mut [word; 2]));
            let kinds = one_of_each(abi);
            let event = &kinds[i % kinds.len()];
            let mut handle = Handle::GARBAGE;
            if event.bit() & (event::COLL | event::P2P) == 0 || abi >= 5 {
                comm.table
                    .start(comm.context, event, pointer, 5, &mut handle);
            }
            // With a context that it never gave, nothing announces. Some are those of communicators before.
            comm.table
                .start(pointer, event, comm.context, 5, &mut handle);
            comm.table.finalize(pointer);
        }
        comm.coll(REDUCE);
        comm.finalize();
    }
}

#[test]
fn line_20_nothing_that_is_handed_back_is_followed() {
    let mut job = job!(job_line_20);
    assert!(
        job.run().success(),
        "a word that was handed back was followed"
    );
    let capture = job.capture();
    let stale = lost(process(&capture), Cause::StaleContext);
    assert!(stale < 20_000, "{stale}");
    complete_but(&capture, 14, &[("stale_context", stale)]);
    assert!(odd(process(&capture), Odd::ForeignHandle) > 100_000);
    for item in [
        "foreign_stop",
        "foreign_parent",
        "foreign_context",
        "null_context",
        "random_handles",
    ] {
        checked(item);
    }
}

#[test]
#[ignore = "played by line 21"]
fn job_line_21() {
    for abi in ABIS {
        let comm = Comm::new(abi, u64::from(abi), 5);
        let (_, coll) = comm.coll(REDUCE);
        // The very words that would be right in this process.
        for pid in [0, -1, 1, std::process::id() as i32 + 1] {
            let op = comm.start(
                &Event::ProxyOp {
                    pid,
                    channel: 0,
                    peer: 1,
                    steps: 1,
                    chunk: 1,
                    send: true,
                },
                coll,
            );
            let step = comm.start(&Event::ProxyStep { step: 0 }, op);
            comm.table.state(
                step,
                state::PROXY_STEP_SEND_WAIT,
                StateArgs::ProxyStep { bytes: 4096 },
            );
            comm.table.stop(step);
            comm.table.stop(op);
        }
        comm.finalize();
    }
}

#[test]
fn line_21_a_proxy_operation_of_another_process_touches_nothing_here() {
    let mut job = job!(job_line_21);
    assert!(job.run().success());
    let capture = job.capture();
    let p = process(&capture);
    complete(&capture, 7);
    assert_eq!(odd(p, Odd::ForeignPid), 4 * 7);
    let touched = p
        .calls
        .iter()
        .filter(|c| c.extra != 0)
        .map(|c| &p.extras[c.extra as usize - 1]);
    assert!(touched
        .clone()
        .all(|e| e.ops_started == 0 && e.bytes_sent == 0 && e.steps == 0));
    checked("foreign_pid");
}

#[test]
#[ignore = "played by line 22"]
fn job_line_22() {
    let comm = Driver::new(0x22);
    let shared = std::sync::Arc::new(comm);
    // One thread announces, one launches, one delivers kernels, one stops what it did not start: as in NCCL,
    // each handing on to the next. Two such teams on one communicator.
    std::thread::scope(|scope| {
        for team in 0..2u64 {
            let (to_stop, stops) = std::sync::mpsc::sync_channel::<usize>(256);
            let (to_run, runs) = std::sync::mpsc::sync_channel::<(usize, usize)>(256);
            let (announcing, running) = (shared.clone(), shared.clone());
            scope.spawn(move || {
                for i in 0..10_000usize {
                    let count = 1 + (i % 100) + 1000 * team as usize;
                    let group = announcing.group(false);
                    let api = announcing.coll_api(group, count, false);
                    let coll = announcing.start(event::COLL, api, |u| {
                        u.coll = crate::job::coll_fields(count, 1);
                    });
                    to_run.send((coll as usize, count)).expect("taken");
                    to_stop.send(group as usize).expect("taken");
                    to_stop.send(coll as usize).expect("taken");
                }
            });
            let stopping = shared.clone();
            scope.spawn(move || {
                for handle in stops {
                    stopping.stop(handle as *mut c_void);
                }
            });
            scope.spawn(move || {
                for (i, (coll, count)) in runs.into_iter().enumerate() {
                    let stamp = (1 << 40) + 1_000_000 * i as u64;
                    let kernel = running.start(event::KERNEL_CH, coll as *mut c_void, |u| {
                        u.kernel_ch.channel_id = team as u8;
                        u.kernel_ch.p_timer = stamp;
                    });
                    running.state(kernel, state::KERNEL_CH_STOP, Some(stamp + count as u64));
                    running.stop(kernel);
                }
            });
        }
    });
    std::sync::Arc::into_inner(shared)
        .expect("all threads are done")
        .finalize();
}

#[test]
fn line_22_six_threads_on_one_communicator_lose_and_mix_nothing() {
    let mut job = job!(job_line_22)
        .env("NCCLSCOPE_TIMING", "stamps")
        .env("NCCLSCOPE_MEMORY", "16MiB");
    assert!(job.run().success());
    let capture = job.capture();
    let p = process(&capture);
    assert_eq!(announced(p), 20_000);
    let c = analyze::report(&capture).completeness;
    assert!(c.adds_up, "{c:#?}");
    // Each kernel ran as long as its call's count says: no row got another's.
    let mut timed = 0;
    for call in p.calls.iter().filter(|c| c.gpu.stop().is_some()) {
        let count = p.shapes[call.shape as usize].count;
        assert_eq!(call.gpu.length(), Some(count));
        timed += 1;
    }
    // On a machine that gives the recorder's thread no time, only the calls of the first 8192 rows have one.
    assert!(timed >= 8192, "{timed}");
    checked("threads");
}

#[test]
#[ignore = "played by line 23"]
fn job_line_23() {
    let mut comm = Driver::new(0x23);
    // `coll_api` and `coll` stop their event before the next begins, and the group ends before the kernel
    // does.
    comm.all_reduce(10);
    comm.finalize();
}

#[test]
fn line_23_children_join_parents_that_were_stopped() {
    let mut job = job!(job_line_23).env("NCCLSCOPE_TIMING", "stamps");
    assert!(job.run().success());
    let capture = job.capture();
    complete(&capture, 1);
    let (call, shape) = calls(&capture, "AllReduce")[0];
    assert_eq!(capture.names.get(shape.algorithm), Some("RING"));
    assert_eq!(call.gpu_ns(shape), Ok(9_984));
    assert_ne!(shape.parts & part::LAUNCHED, 0);
    assert_eq!(odd(process(&capture), Odd::Orphan), 0);
}

#[test]
#[ignore = "played by line 24"]
fn job_line_24() {
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/statm").expect("read");
        let pages: u64 = text
            .split(' ')
            .nth(1)
            .expect("a field")
            .parse()
            .expect("a number");
        pages * 4096
    };
    let mut comm = Driver::new(0x24);
    comm.all_reduce(1);
    let group = comm.group(false);
    let api = comm.coll_api(group, 1, false);
    let coll = comm.coll(api, 1, 1);
    comm.stop(group);
    let before = resident();
    for i in 0..100_000u32 {
        let op = comm.start(event::PROXY_OP, coll, |u| {
            u.proxy_op.pid = std::process::id() as i32;
            u.proxy_op.channel_id = 0;
            u.proxy_op.is_send = 1;
        });
        comm.start(event::PROXY_STEP, op, |u| u.proxy_step.step = i as i32);
        comm.start(event::KERNEL_CH, coll, |u| {
            u.kernel_ch.channel_id = 0;
            u.kernel_ch.p_timer = 1;
        });
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes more");
    // What comes later finds its place, and the communicator's other calls are sealed without waiting for
    // these.
    for _ in 0..100 {
        comm.all_reduce(2);
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: no destroy, so nothing is hurried.
    unsafe { libc::_exit(0) }
}

#[test]
fn line_24_events_that_never_stop_take_bounded_memory_and_hold_up_nothing() {
    let mut job = job!(job_line_24).env("NCCLSCOPE_FLUSH", "0.05");
    assert!(job.run().success());
    let capture = job.capture();
    let p = process(&capture);
    complete(&capture, 102);
    // 4096 are remembered at most. The others were aged out, or came when no entry was free.
    let forgotten = odd(p, Odd::Unstopped) + odd(p, Odd::NetOpsFull);
    assert!(
        (100_000 - 4096..=100_000).contains(&forgotten),
        "{forgotten}"
    );
    checked("unstopped");
    checked("unstopped_op");
}
