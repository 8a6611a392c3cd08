//! Which threads are inside of NCCL's functions that make and end communicators.
//!
//! NCCL tells a profiler of a communicator when it is made. If a rank does not come, the others stay inside
//! of `ncclCommInitRank` or `ncclCommSplit`, and no event says so. Ours stand before these functions in the
//! libraries that call them, as before the driver's ([`crate::driver_watch`]). The first communicator of a
//! process is not seen: the recorder is only loaded while NCCL makes it.
//!
//! Rule: ours hand on all arguments as they came. They take no lock, allocate nothing, and make no system
//! call but for the thread's number at its first call. A thread beyond [`SEATS`] that are inside at one time
//! is not seen.

use crate::comm_memory;
use crate::guard::guard;
use crate::interpose::interposed;
use crate::recorder::fork_page::get;
use crate::recorder::Recorder;
use crate::seats;
use capture::rows::Ticks;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Threads that are inside at one time.
const SEATS: usize = 16;

/// A thread that is inside.
struct Seat {
    /// [`seats::thread`]; 0 free.
    owner: AtomicU64,
    /// Address of its process's recorder: a forked child has a copy of its parent's seats, and none of the
    /// threads.
    recorder: AtomicUsize,
    /// Ticks; 0 while it is going in or out.
    since: AtomicU64,
    /// Place in [`FUNCTIONS`].
    function: AtomicU32,
    thread: AtomicU32,
}

static INSIDE: [Seat; SEATS] = [const {
    Seat {
        owner: AtomicU64::new(0),
        recorder: AtomicUsize::new(0),
        since: AtomicU64::new(0),
        function: AtomicU32::new(0),
        thread: AtomicU32::new(0),
    }
}; SEATS];

/// The functions, in the order of [`FUNCTIONS`].
#[derive(Clone, Copy)]
enum Function {
    InitRank,
    InitRankConfig,
    InitRankScalable,
    InitAll,
    Split,
    Shrink,
    Finalize,
    Destroy,
    Abort,
}

/// What a thread is inside of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// NCCL's name of the function.
    pub function: &'static str,
    /// Since when.
    pub since: Ticks,
    /// Linux's number of the thread; 0 not known.
    pub thread: u32,
}

/// All of this recorder's process that are inside now, the first that went in first.
pub fn inside(recorder: &Recorder) -> Vec<Call> {
    let of = std::ptr::from_ref(recorder).addr();
    let taken = INSIDE.iter().filter(|seat| {
        // The Acquire meets the Release of whoever had the seat before.
        seat.owner.load(Acquire) != 0 && seat.recorder.load(Relaxed) == of
    });
    let mut calls: Vec<Call> = taken
        .filter_map(|seat| {
            Some(Call {
                function: name(seat.function.load(Relaxed))?,
                since: Ticks(seat.since.load(Relaxed)),
                thread: seat.thread.load(Relaxed),
            })
        })
        .filter(|call| call.since != Ticks(0))
        .collect();
    calls.sort_by_key(|call| (call.since, call.thread));
    calls
}

fn name(function: u32) -> Option<&'static str> {
    FUNCTIONS.get(function as usize)?.name.to_str().ok()
}

/// Takes the calling thread's seat for a call; `None` if it is inside already, or there is none.
fn enter(function: Function) -> Option<&'static Seat> {
    let recorder = get()?;
    let me = seats::thread();
    if INSIDE.iter().any(|seat| seat.owner.load(Relaxed) == me) {
        return None;
    }
    let free = |seat: &&Seat| {
        let claim = seat.owner.compare_exchange(0, me, AcqRel, Relaxed);
        claim.is_ok()
    };
    let seat = INSIDE.iter().find(free)?;
    seat.recorder
        .store(std::ptr::from_ref(recorder).addr(), Relaxed);
    seat.function.store(function as u32, Relaxed);
    seat.thread.store(recorder.thread(), Relaxed);
    seat.since.store(recorder.clock.ticks().0, Relaxed);
    Some(seat)
}

fn noted(nccl: bool, function: Function, call: impl FnOnce() -> c_int) -> c_int {
    let seat = if nccl {
        None
    } else {
        guard(None, || enter(function))
    };
    let result = call();
    if let Some(seat) = seat {
        seat.since.store(0, Relaxed);
        seat.owner.store(0, Release);
    }
    result
}

/// A communicator is ended; `before` looks at its memory, if that is asked for.
fn ended(
    nccl: bool,
    function: Function,
    before: impl FnOnce(),
    call: impl FnOnce() -> c_int,
) -> c_int {
    noted(nccl, function, || {
        if !nccl {
            guard((), before);
        }
        call()
    })
}

/// NCCL's, which functions take by value.
#[derive(Clone, Copy)]
#[repr(C)]
struct UniqueId([u8; 128]);

type Comm = *mut c_void;
type Out = *mut Comm;
type Config = *mut c_void;

interposed! { FUNCTIONS reals call;
    init_rank "ncclCommInitRank" (comm: Out, nranks: c_int, id: UniqueId, rank: c_int) -> c_int {
        noted(NCCL, Function::InitRank, call)
    }
    init_config "ncclCommInitRankConfig" (comm: Out, nranks: c_int, id: UniqueId, rank: c_int,
        config: Config) -> c_int {
        noted(NCCL, Function::InitRankConfig, call)
    }
    init_scalable "ncclCommInitRankScalable" (comm: Out, nranks: c_int, rank: c_int, nids: c_int,
        ids: *mut UniqueId, config: Config) -> c_int {
        noted(NCCL, Function::InitRankScalable, call)
    }
    init_all "ncclCommInitAll" (comms: Out, ndev: c_int, devices: *const c_int) -> c_int {
        noted(NCCL, Function::InitAll, call)
    }
    split "ncclCommSplit" (comm: Comm, color: c_int, key: c_int, new: Out, config: Config) -> c_int {
        noted(NCCL, Function::Split, call)
    }
    shrink "ncclCommShrink" (comm: Comm, excluded: *mut c_int, n: c_int, new: Out, config: Config,
        flags: c_int) -> c_int {
        noted(NCCL, Function::Shrink, call)
    }
    finalize "ncclCommFinalize" (comm: u64) -> c_int {
        ended(NCCL, Function::Finalize, || comm_memory::finalizes(comm), call)
    }
    destroy "ncclCommDestroy" (comm: u64) -> c_int {
        ended(NCCL, Function::Destroy, || comm_memory::destroys(comm), call)
    }
    abort "ncclCommAbort" (comm: u64) -> c_int {
        ended(NCCL, Function::Abort, || comm_memory::aborts(comm), call)
    }
}
