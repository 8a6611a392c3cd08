//! What NCCL itself counts as a communicator's memory: `ncclCommMemStats`, of NCCL 2.29.7 and later.
//!
//! NCCL gives a profiler no handle of a communicator. But the program passes handles to NCCL all the time,
//! and functions of ours stand before some of NCCL's in the program's table of imports. There the
//! communicator is valid, and the thread may call NCCL for it:
//!
//! - behind `ncclCommGetAsyncError`, if that said that the communicator has no error and nothing pending.
//!   PyTorch's watchdog asks so several times a second.
//! - before `ncclCommFinalize` and `ncclCommDestroy`, if NCCL's own answer to that question is the same. Both
//!   ask it first themselves.
//!
//! What NCCL does when it is asked, in the source of 2.29.7 and 2.30.7 and the machine code of 2.32.3. The
//! real libraries said the same about communicators made by hand, in a process without a GPU:
//!
//! - It takes no lock and makes no CUDA call. It loads a few counters of the communicator's memory manager.
//! - It asks `ncclCommGetAsyncError` first. So here it neither completes anything that the program left
//!   pending, nor fails.
//! - A communicator that does not begin and end with NCCL's magic number is an invalid argument (4), with a
//!   warning. So is a null pointer. An address that is not mapped crashes the process, so a handle is only
//!   used within the program's own call with it.
//! - Its counters go on while a communicator is suspended: then the suspendable part is not on the GPU.
//! - Memory of other ranks that it unmaps may be taken off the communicator's own persistent memory. A figure
//!   can therefore fall below zero, and [such figures](MOST_BYTES) are left out.
//! - A communicator that was split with `splitShare` shares the counters of its parent. Only NCCL's debug
//!   output says so, and the report reads it there.
//! - NVTX tools see a range `ncclCommMemStats`.
//!
//! Rule: a communicator is asked [at most once a second](EVERY_NS), and at its end. Whatever is odd (no such
//! function, an error, a communicator with something pending) leaves the program's call as it was.

use crate::clock;
use crate::communicator_calls;
use crate::cuda::nccl_function;
use crate::guard::guard;
use crate::interpose::{interposed, Interposed, Search};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Communicators that are followed at once. A rank of a job with all kinds of parallelism has some 30.
const MOST: usize = 256;
/// Between two questions for the same communicator, ns.
const EVERY_NS: u64 = 1_000_000_000;
/// A count that is larger has fallen below zero.
const MOST_BYTES: u64 = 1 << 62;
/// NCCL's results: all is well; and the function is off (`NCCL_DISABLE_MEM_MANAGER` in a file of NCCL's).
const OK: c_int = 0;
const INVALID_USAGE: c_int = 5;

/// What NCCL is asked for: as in its header.
const SUSPENDABLE: c_int = 0;
const IS_SUSPENDED: c_int = 1;
const PERSISTENT: c_int = 2;
const TOTAL: c_int = 3;

/// One communicator. `handle` is 0 while the place is free.
struct CommSlot {
    handle: AtomicU64,
    /// When it may be asked again, ns of CLOCK_MONOTONIC.
    due: AtomicU64,
    rank: AtomicU32,
    nranks: AtomicU32,
    device: AtomicU32,
    suspendable: AtomicU64,
    persistent: AtomicU64,
    total: AtomicU64,
    /// 1 while the program has it suspended.
    is_suspended: AtomicU64,
    /// Bytes were told since the recorder's thread looked last.
    is_new: AtomicBool,
    /// The program gave it up.
    is_gone: AtomicBool,
}

static PLACES: [CommSlot; MOST] = [const {
    CommSlot {
        handle: AtomicU64::new(0),
        due: AtomicU64::new(0),
        rank: AtomicU32::new(0),
        nranks: AtomicU32::new(0),
        device: AtomicU32::new(0),
        suspendable: AtomicU64::new(0),
        persistent: AtomicU64::new(0),
        total: AtomicU64::new(0),
        is_suspended: AtomicU64::new(0),
        is_new: AtomicBool::new(false),
        is_gone: AtomicBool::new(false),
    }
}; MOST];

type Stats = unsafe extern "C" fn(u64, c_int, *mut u64) -> c_int;
type Number = unsafe extern "C" fn(u64, *mut c_int) -> c_int;

/// NCCL's functions; null until they are known.
static STATS: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static COUNT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static RANK: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static DEVICE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Puts ours before NCCL's functions, in all libraries that import them by now; nothing for an NCCL that does
/// not count.
pub fn install() {
    static INTERPOSED: Interposed = Interposed::by_name();
    // With its memory manager off, NCCL warns at each question.
    let is_off = std::env::var("NCCL_DISABLE_MEM_MANAGER").is_ok_and(|v| v != "0");
    let Some(stats) = nccl_function(c"ncclCommMemStats").filter(|_| !is_off) else {
        return;
    };
    let others = [
        (&COUNT, c"ncclCommCount"),
        (&RANK, c"ncclCommUserRank"),
        (&DEVICE, c"ncclCommCuDevice"),
    ];
    for (place, name) in others {
        let Some(found) = nccl_function(name) else {
            return;
        };
        place.store(found, Relaxed);
    }
    // Meets the Acquire in `ask`.
    STATS.store(stats, Release);
    // Those that end communicators stand in one table with those that make them.
    let tables = [&FUNCTIONS[..], &communicator_calls::FUNCTIONS];
    INTERPOSED.install(&tables, Search::default(), nccl_function);
}

interposed! { FUNCTIONS reals call;
    asked "ncclCommGetAsyncError" (comm: u64, state: *mut c_int) -> c_int {
        let result = call();
        // SAFETY: NCCL has just stored a number there, if it accepted the call.
        if !NCCL && result == OK && !state.is_null() && unsafe { *state } == OK {
            guard((), || ask(comm, false));
        }
        result
    }
}

/// The program finalizes a communicator.
pub fn finalizes(comm: u64) {
    if is_ready(comm) {
        ask(comm, true);
    }
}

/// The program destroys a communicator.
pub fn destroys(comm: u64) {
    finalizes(comm);
    gone(comm);
}

/// The program aborts a communicator, which is not asked: it may hang, or be in use by another thread.
pub fn aborts(comm: u64) {
    gone(comm);
}

/// Whether a communicator that the program passes to NCCL has no error, and nothing pending.
fn is_ready(comm: u64) -> bool {
    let (question, mut state) = (reals::asked.get(), -1);
    if comm == 0 || question.is_null() {
        return false;
    }
    // SAFETY: NCCL's function of this signature; the program passes the communicator to NCCL in this call.
    let result = unsafe { std::mem::transmute::<*mut c_void, Number>(question)(comm, &mut state) };
    (result, state) == (OK, OK)
}

/// The place of a communicator, or a new one.
fn place(comm: u64) -> Option<(&'static CommSlot, bool)> {
    let is_its =
        |place: &&CommSlot| place.handle.load(Acquire) == comm && !place.is_gone.load(Relaxed);
    if let Some(place) = PLACES.iter().find(is_its) {
        return Some((place, false));
    }
    let free = |place: &&CommSlot| {
        let free = place.handle.compare_exchange(0, comm, AcqRel, Relaxed);
        free.is_ok()
    };
    PLACES.iter().find(free).map(|place| (place, true))
}

/// Asks NCCL for the memory of a communicator that is ready.
fn ask(comm: u64, now: bool) {
    // Meets the Release in `install`.
    let stats = STATS.load(Acquire);
    if stats.is_null() || comm == 0 {
        return;
    }
    let Some((place, is_first)) = place(comm) else {
        return;
    };
    let at = clock::nanoseconds(libc::CLOCK_MONOTONIC);
    let due = place.due.load(Relaxed);
    if at < due && !now && !is_first {
        return;
    }
    // Of several threads one asks.
    let claimed = place
        .due
        .compare_exchange(due, at + EVERY_NS, AcqRel, Relaxed);
    if claimed.is_err() {
        return;
    }
    if is_first {
        let number = |function: &AtomicPtr<c_void>| {
            let mut number = -1;
            // SAFETY: NCCL's functions of this signature; the communicator is valid.
            unsafe {
                let function = std::mem::transmute::<*mut c_void, Number>(function.load(Relaxed));
                function(comm, &mut number);
            }
            number as u32
        };
        place.nranks.store(number(&COUNT), Relaxed);
        place.rank.store(number(&RANK), Relaxed);
        place.device.store(number(&DEVICE), Relaxed);
    }
    let kinds = [
        (SUSPENDABLE, &place.suspendable),
        (PERSISTENT, &place.persistent),
        (TOTAL, &place.total),
        (IS_SUSPENDED, &place.is_suspended),
    ];
    let mut said = [0; 4];
    for ((kind, _), said) in kinds.iter().zip(&mut said) {
        // SAFETY: as above; NCCL stores 64 bits.
        let result = unsafe { std::mem::transmute::<*mut c_void, Stats>(stats)(comm, *kind, said) };
        match result {
            OK => {}
            // It would warn each time.
            INVALID_USAGE => return STATS.store(std::ptr::null_mut(), Relaxed),
            // It failed since the program asked. It would say no again, and warn.
            _ => return place.due.store(u64::MAX, Relaxed),
        }
    }
    if said.iter().any(|bytes| *bytes > MOST_BYTES) {
        return;
    }
    let mut changed = is_first;
    for ((_, kept), said) in kinds.iter().zip(said) {
        changed |= kept.swap(said, Relaxed) != said;
    }
    if changed {
        // Meets the Acquire in `written`.
        place.is_new.store(true, Release);
    }
}

/// The program destroys a communicator: its handle may come again for another one.
fn gone(comm: u64) {
    let is_its =
        |place: &&CommSlot| place.handle.load(Acquire) == comm && !place.is_gone.load(Relaxed);
    if let Some(place) = PLACES.iter().find(is_its) {
        place.is_gone.store(true, Release);
    }
}

/// Hands what NCCL said since the last time to `write`, a line each, which says whether it could be written.
/// To be called by one thread.
pub fn written(mut write: impl FnMut(&str) -> bool) {
    for place in &PLACES {
        let handle = place.handle.load(Acquire);
        if handle == 0 {
            continue;
        }
        // Meet the Releases in `gone` and `ask`.
        let is_gone = place.is_gone.load(Acquire);
        if place.is_new.swap(false, Acquire) {
            let of = |number: &AtomicU64| number.load(Relaxed);
            let line = format!(
                "ncclscope comm_memory at_ns={} comm={handle} rank={} nranks={} device={} total={} \
                 persistent={} suspendable={} suspended={}\n",
                clock::nanoseconds(libc::CLOCK_REALTIME),
                place.rank.load(Relaxed),
                place.nranks.load(Relaxed),
                place.device.load(Relaxed),
                of(&place.total),
                of(&place.persistent),
                of(&place.suspendable),
                of(&place.is_suspended),
            );
            if !write(&line) {
                place.is_new.store(true, Release);
                continue;
            }
        }
        if is_gone {
            place.due.store(0, Relaxed);
            place.is_gone.store(false, Relaxed);
            // Last: whoever takes the place finds it as new.
            place.handle.store(0, Release);
        }
    }
}
