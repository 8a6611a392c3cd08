//! Clocks, locks, atomics, and calls of the system.
//!
//! One thread measures its own calls. For what two threads do together, a partner runs on a CPU of another
//! core.

use crate::item::{Items, Unit};
use crate::placement::{pin, CpuPlacement};
use crate::timing::{best, median};
use std::hint::{black_box, spin_loop};
use std::mem::{size_of, zeroed};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{fence, AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

const NO_PARTNER: &str = "this process may use one core only";

/// Clock reads, and the clock's smallest step.
pub fn clocks(items: &mut Items) {
    items.group("Clocks");
    let read = |clock: libc::clockid_t| {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: a live place for the time.
        unsafe { libc::clock_gettime(clock, &mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let mut clock = |name: &str, what: &str, id: libc::clockid_t| {
        items.nanos(name, what, best(|| _ = black_box(read(id))));
    };
    clock(
        "clock_monotonic",
        "clock_gettime(CLOCK_MONOTONIC)",
        libc::CLOCK_MONOTONIC,
    );
    clock(
        "clock_monotonic_raw",
        "clock_gettime(CLOCK_MONOTONIC_RAW)",
        libc::CLOCK_MONOTONIC_RAW,
    );
    clock(
        "clock_realtime",
        "clock_gettime(CLOCK_REALTIME)",
        libc::CLOCK_REALTIME,
    );
    clock(
        "clock_thread_cpu",
        "clock_gettime(CLOCK_THREAD_CPUTIME_ID), a call of the kernel",
        libc::CLOCK_THREAD_CPUTIME_ID,
    );
    let counter = match cycle_counter() {
        Some(_) => Ok(best(|| _ = black_box(cycle_counter()))),
        None => Err("this processor's counter is not read here".to_owned()),
    };
    items.add(
        "cycle_counter",
        Unit::Nanos,
        "the processor's counter (rdtsc, cntvct_el0)",
        counter,
    );
    let mut smallest = u64::MAX;
    let mut last = read(libc::CLOCK_MONOTONIC);
    for _ in 0..20_000 {
        let now = read(libc::CLOCK_MONOTONIC);
        if now > last {
            smallest = smallest.min(now - last);
        }
        last = now;
    }
    items.nanos(
        "clock_step",
        "smallest step between two reads of CLOCK_MONOTONIC",
        smallest as f64,
    );
}

#[cfg(target_arch = "x86_64")]
fn cycle_counter() -> Option<u64> {
    // SAFETY: reads a register that every x86-64 processor has.
    Some(unsafe { std::arch::x86_64::_rdtsc() })
}

#[cfg(target_arch = "aarch64")]
fn cycle_counter() -> Option<u64> {
    let count: u64;
    // SAFETY: reads a register that Linux lets every program read.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
    Some(count)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn cycle_counter() -> Option<u64> {
    None
}

/// Locks that nobody else wants, atomics, and a value that goes from core to core.
pub fn locks(items: &mut Items, place: &CpuPlacement) {
    items.group("Locks and atomics");
    // SAFETY: a mutex of zeros is PTHREAD_MUTEX_INITIALIZER here; it stays where it is until the end.
    let mut mutex: Box<libc::pthread_mutex_t> = Box::new(libc::PTHREAD_MUTEX_INITIALIZER);
    let lock = &raw mut *mutex;
    items.nanos(
        "mutex",
        "pthread_mutex_lock and unlock, uncontended",
        // SAFETY: a live mutex that this thread unlocks after it has locked it.
        best(|| unsafe {
            libc::pthread_mutex_lock(lock);
            libc::pthread_mutex_unlock(lock);
        }),
    );
    let flag = AtomicBool::new(false);
    items.nanos(
        "spin_lock",
        "spin lock and unlock, uncontended",
        best(|| {
            while flag
                .compare_exchange(false, true, Acquire, Relaxed)
                .is_err()
            {
                spin_loop();
            }
            black_box(&flag).store(false, Release);
        }),
    );
    let cell = AtomicU64::new(0);
    let cell = black_box(&cell);
    items.nanos(
        "atomic_add",
        "atomic add",
        best(|| _ = black_box(cell.fetch_add(1, SeqCst))),
    );
    items.nanos(
        "atomic_cas",
        "atomic compare and swap",
        best(|| _ = black_box(cell.compare_exchange(0, 0, SeqCst, SeqCst))),
    );
    items.nanos(
        "atomic_load",
        "atomic load, acquire",
        best(|| _ = black_box(cell.load(Acquire))),
    );
    items.nanos(
        "atomic_store",
        "atomic store, release",
        best(|| black_box(cell).store(1, Release)),
    );
    items.nanos(
        "fence",
        "memory fence, sequentially consistent",
        best(|| {
            fence(SeqCst);
            // Else the compiler would make one of many fences.
            black_box(cell);
        }),
    );
    items.add(
        "core_to_core",
        Unit::Nanos,
        "a value from one core to another that spins for it, one way",
        place
            .partner
            .map(core_to_core)
            .ok_or_else(|| NO_PARTNER.to_owned()),
    );
    items.add(
        "wake_thread",
        Unit::Micros,
        "a sleeping thread on another core wakes up (futex), one way; median",
        place
            .partner
            .map(wake_thread)
            .ok_or_else(|| NO_PARTNER.to_owned()),
    );
}

const LAST: u64 = u64::MAX;

/// Waits until a cell has this value, or the last one. A partner without a CPU must not stop the benchmark.
fn spin_for(cell: &AtomicU64, value: u64) -> u64 {
    let mut turns = 0u32;
    loop {
        let now = cell.load(Acquire);
        if now == value || now == LAST {
            return now;
        }
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(4096) {
            std::thread::yield_now();
        }
        spin_loop();
    }
}

fn core_to_core(partner: usize) -> f64 {
    /// On a cache line of its own, and the neighbour that processors fetch along.
    #[repr(align(128))]
    struct Line(AtomicU64);
    let (there, back) = (Line(AtomicU64::new(0)), Line(AtomicU64::new(0)));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            pin(partner);
            let mut turn = 1;
            while spin_for(&there.0, turn) != LAST {
                back.0.store(turn, Release);
                turn += 1;
            }
        });
        let mut turn = 0;
        let took = best(|| {
            turn += 1;
            there.0.store(turn, Release);
            spin_for(&back.0, turn);
        });
        there.0.store(LAST, Release);
        took / 2.0
    })
}

fn wake_thread(partner: usize) -> f64 {
    let (there, back) = (AtomicU64::new(0), AtomicU64::new(0));
    let me = std::thread::current();
    std::thread::scope(|threads| {
        let handle = threads.spawn(|| {
            pin(partner);
            let mut turn = 1;
            loop {
                match there.load(Acquire) {
                    LAST => break,
                    now if now == turn => {
                        turn += 1;
                        back.store(now, Release);
                        me.unpark();
                    }
                    _ => std::thread::park(),
                }
            }
        });
        let mut turn = 0;
        let took = median(200, || {
            turn += 1;
            // The partner must have gone to sleep.
            std::thread::sleep(Duration::from_micros(20));
            let start = Instant::now();
            there.store(turn, Release);
            handle.thread().unpark();
            while back.load(Acquire) != turn {
                std::thread::park();
            }
            start.elapsed().as_nanos() as f64 / 2e3
        });
        there.store(LAST, Release);
        handle.thread().unpark();
        took
    })
}

/// Calls of the system that a communication library makes.
pub fn calls(items: &mut Items) {
    items.group("Calls");
    // SAFETY: takes nothing, returns a number.
    let getpid = best(|| _ = black_box(unsafe { libc::syscall(libc::SYS_getpid) }));
    items.nanos("getpid", "the getpid call of the kernel", getpid);
    // SAFETY: as above.
    let cpu = best(|| _ = black_box(unsafe { libc::sched_getcpu() }));
    items.nanos("sched_getcpu", "which CPU this thread is on", cpu);
    // SAFETY: a set of bits, for which zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: a live set of that size.
    let get = best(|| unsafe { _ = libc::sched_getaffinity(0, size, &mut set) });
    items.nanos("sched_getaffinity", "a thread's CPUs, read", get);
    // SAFETY: a live set of that size, as it was read.
    let put = best(|| unsafe { _ = libc::sched_setaffinity(0, size, &set) });
    items.nanos("sched_setaffinity", "a thread's CPUs, set to the same", put);
    let look = best(|| {
        // SAFETY: a name that ends with 0.
        black_box(unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"getpid".as_ptr()) });
    });
    items.nanos("dlsym", "address of a function of libc", look);
    let thread = best(|| {
        let _ = std::thread::spawn(|| ()).join();
    });
    items.add(
        "thread_create",
        Unit::Micros,
        "thread created and joined",
        Ok(thread / 1e3),
    );
}
