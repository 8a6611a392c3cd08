//! Lines 25 to 27: a callback allocates nothing, makes no system call, never panics outward, and stores the
//! mask once.

use crate::comm::{one_of_each, Comm, ABIS, MASK, REDUCE};
use crate::job::{table, Driver};
use crate::playing::checked;
use crate::reading::{announced, complete, odd, process};
use capture::live::Odd;
use fake_nccl::event::{Event, Handle};
use fake_nccl::plugin::{Identity, MISDEEDS};
use nccl_abi::{event, state};
use nccl_profiler_ncclscope::counted;
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

/// All kinds of callbacks, none of which allocates on this side.
fn all_callbacks(comm: &mut Driver, pid: i32) {
    comm.all_reduce(3);
    let group = comm.group(false);
    let api = comm.coll_api(group, 100, false);
    let coll = comm.coll(api, 100, 2);
    comm.stop(group);
    comm.kernel(coll, 2);
    let op = comm.start(event::PROXY_OP, coll, |u| {
        u.proxy_op.pid = pid;
        u.proxy_op.channel_id = 0;
        u.proxy_op.is_send = 1;
    });
    let step = comm.start(event::PROXY_STEP, op, |u| u.proxy_step.step = 0);
    for number in [
        state::PROXY_STEP_SEND_GPU_WAIT,
        state::PROXY_STEP_SEND_PEER_WAIT,
        state::PROXY_STEP_SEND_WAIT,
    ] {
        comm.state(step, number, Some(100));
    }
    comm.stop(step);
    comm.stop(op);
    // And what is wrong.
    comm.stop(std::ptr::null_mut());
    comm.stop(0xdead_beef as *mut c_void);
    comm.stop(op);
    let unknown = comm.start(1 << 40, coll, |_| {});
    comm.state(unknown, 77, None);
}

/// Others who keep the recorder's locks busy, until `going` ends.
fn busy_locks(going: &AtomicBool) {
    let mut hash = 0x2500;
    while going.load(Relaxed) {
        let mut other = Driver::new(hash);
        other.all_reduce(1);
        other.finalize();
        hash += 1;
    }
}

/// The first system call that was made in spite of [`forbid_system_calls`], + 1.
static FORBIDDEN: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_forbidden(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: siginfo_t of SIGSYS has the call's number at byte 24 on 64-bit Linux.
    let number = unsafe { info.cast::<u8>().add(24).cast::<i32>().read() };
    let _ = FORBIDDEN.compare_exchange(0, number + 1, Relaxed, Relaxed);
    loop {
        std::hint::spin_loop();
    }
}

/// From here on this thread makes no system call but its own end; false where that can't be had.
///
/// # Safety
/// The thread must not return.
unsafe fn forbid_system_calls() -> bool {
    const fn op(code: u32, k: u32, skip: u8) -> libc::sock_filter {
        libc::sock_filter {
            code: code as u16,
            jt: skip,
            jf: 0,
            k,
        }
    }
    let mut program = [
        // The call's number is the first word that a filter sees.
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        op(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            libc::SYS_exit as u32,
            1,
        ),
        op(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_TRAP, 0),
        op(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: plain calls on valid arguments.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_forbidden as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut());
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) == 0
    }
}

#[test]
#[ignore = "played by line 25"]
fn job_line_25() {
    let mut comm = Driver::new(0x25);
    let pid = std::process::id() as i32;
    let going = &AtomicBool::new(true);
    let done = &AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(move || busy_locks(going));
        // From its very first callback, with every row taken and the totals' turn on the way.
        let worker = scope.spawn(move || {
            // SAFETY: plain calls.
            unsafe {
                counted::THREAD.store(libc::pthread_self(), Relaxed);
                for _ in 0..20_000 {
                    all_callbacks(&mut comm, pid);
                }
                counted::THREAD.store(0, Relaxed);
                done.store(1, Release);
                if !forbid_system_calls() {
                    done.store(3, Release);
                    return;
                }
                for _ in 0..20_000 {
                    all_callbacks(&mut comm, pid);
                }
                done.store(2, Release);
                // Shows that one would have been seen.
                libc::syscall(libc::SYS_getppid);
                // The one call that is left; what Rust and pthreads do at a thread's end is not.
                libc::syscall(libc::SYS_exit, 0);
            }
        });
        let began = Instant::now();
        while done.load(Acquire) < 3
            && FORBIDDEN.load(Relaxed) == 0
            && began.elapsed() < Duration::from_secs(30)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        let made = libc::c_long::from(FORBIDDEN.load(Relaxed) - 1);
        let status = match (counted::COUNT.load(Relaxed), done.load(Acquire)) {
            (0, 2) if made == libc::SYS_getppid => 0,
            (0, 3) => {
                eprintln!("no seccomp here: system calls were not looked at");
                0
            }
            (0, _) => {
                eprintln!("system call {made} was made");
                11
            }
            _ => 12,
        };
        // Not joined: the worker is gone without a word.
        std::mem::forget(worker);
        // SAFETY: ends the process with its stuck scope.
        unsafe { libc::_exit(status) }
    });
}

#[test]
fn line_25_callbacks_allocate_nothing_and_make_no_system_call() {
    for (mode, timing) in [("trace", "stamps"), ("profile", "host"), ("full", "stamps")] {
        let mut job = job!(job_line_25)
            .env("NCCLSCOPE_MODE", mode)
            .env("NCCLSCOPE_TIMING", timing);
        job = job
            .env("NCCLSCOPE_MEMORY", "1MiB")
            .env("NCCLSCOPE_FLUSH", "0.05");
        let status = job.run().code();
        assert_ne!(status, Some(11), "{mode}: a callback made a system call");
        assert_ne!(status, Some(12), "{mode}: a callback allocated");
        assert_eq!(status, Some(0), "{mode}");
    }
}

#[cfg(debug_assertions)]
#[test]
#[ignore = "played by line 26"]
fn job_line_26() {
    use nccl_profiler_ncclscope::forced;
    for abi in ABIS {
        forced::forget();
        let comm = Comm::new(abi, u64::from(abi), 5);
        let (_, coll) = comm.coll(REDUCE);
        forced::at_next_entry();
        let other = Comm::new(abi, 0x26, 6);
        forced::at_next_entry();
        let handle = comm.start(&Event::Group, coll);
        assert_ne!(handle, Handle::NULL);
        forced::at_next_entry();
        comm.table.state_raw(coll, 22, Some(&mut [1; 2]));
        forced::at_next_entry();
        comm.table.stop(coll);
        forced::at_next_entry();
        comm.table.finalize(comm.context);
        // Recording is off now, and everything is still answered.
        comm.coll(REDUCE);
        other.coll(REDUCE);
        other.finalize();
    }
    assert_eq!(
        (
            MISDEEDS.errors.load(Relaxed),
            MISDEEDS.unwritten.load(Relaxed)
        ),
        (0, 0)
    );
}

#[cfg(debug_assertions)]
#[test]
fn line_26_no_panic_leaves_any_entry_point_of_any_table() {
    let mut job = job!(job_line_26).quietly();
    let status = job.run();
    assert!(status.success(), "{status}");
    let capture = job.capture();
    let p = process(&capture);
    assert_eq!(odd(p, Odd::Panic), 5 * 7);
    assert_eq!(
        p.counters.as_ref().map(|c| c.state),
        Some(2),
        "the report must say that recording went off"
    );
    assert_eq!(announced(p), 7);
}

#[test]
#[ignore = "played by line 27"]
fn job_line_27() {
    const BEFORE: i32 = 0x5a5a_5a5a;
    // The word gets a page of its own that can be made read-only.
    // SAFETY: a new mapping, used as one atomic.
    let word = unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(page, libc::MAP_FAILED);
        &*page.cast::<AtomicI32>()
    };
    let seen = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for abi in ABIS {
            let wanted = {
                let comm = Comm::new(abi, 1, 0);
                comm.finalize();
                MASK.load(Relaxed)
            };
            seen.store(false, Relaxed);
            word.store(BEFORE, SeqCst);
            // A thread of NCCL that looks at the mask meanwhile sees the old or the new one, and no third.
            let watcher = scope.spawn(move || {
                let mut values = BTreeSet::new();
                while !seen.load(Relaxed) {
                    values.insert(word.load(Relaxed));
                }
                values
            });
            for _ in 0..200 {
                word.store(BEFORE, SeqCst);
                let comm = comm_with_mask(abi, word);
                comm.finalize();
            }
            seen.store(true, Relaxed);
            let values = watcher.join().expect("no panic");
            assert!(
                values.is_subset(&BTreeSet::from([BEFORE, wanted])),
                "{values:x?}"
            );
        }
    });
    // Nobody writes it after init: a store would be the end of the process.
    let comm = comm_with_mask(5, word);
    let page = std::ptr::from_ref(word).cast_mut().cast();
    // SAFETY: the page is ours.
    let result = unsafe { libc::mprotect(page, 4096, libc::PROT_READ) };
    assert_eq!(result, 0);
    comm.coll(REDUCE);
    for event in one_of_each(5) {
        // None of these types is in the mask of NCCLSCOPE_NET=off and timing host but those of a call.
        let handle = comm.start(&event, Handle::NULL);
        comm.table.stop(handle);
    }
    comm.finalize();
}

fn comm_with_mask(abi: u8, mask: &'static AtomicI32) -> Comm {
    let table = table(abi);
    let identity = Identity {
        name: None,
        hash: 27,
        nodes: 1,
        ranks: 8,
        rank: 0,
    };
    let (result, context) = table.init(mask, &identity);
    assert_eq!(result, 0);
    Comm {
        table,
        context,
        hash: 27,
    }
}

#[test]
fn line_27_the_mask_is_stored_once_and_unrequested_events_are_borne() {
    let mut job = job!(job_line_27).env("NCCLSCOPE_NET", "off");
    assert!(job.run().success());
    let capture = job.capture();
    let p = process(&capture);
    complete(&capture, 1);
    // ProxyOp, ProxyStep, ProxyCtrl, KernelCh and NetPlugin were not asked for.
    assert_eq!(p.counters.as_ref().map(|c| c.unrequested), Some(5));
    checked("unrequested");
}
