//! Steps that the program pushes as NVTX ranges (`NCCLSCOPE_STEPS=nvtx`).
//!
//! NVTX loads this library by `NVTX_INJECTION64_PATH` and calls [`injection`], which puts functions of ours
//! into NVTX's tables. [`names`] knows which range is a step. What is one goes through [`ring`] to the
//! recorder's thread (`writer/step_marks.rs`), which writes it beside the trace as Python's marks are.
//!
//! ```text
//! push ──▶ names: a step's? ──no──▶ depth + 1                    (all ranges but a few)
//!                          └─yes──▶ begin: note time and depth
//! pop  ──▶ back at that depth? ──▶ end: two times into the ring ──▶ recorder's thread ──▶ NAME.1.marks
//! ```
//!
//! A range that is a step lasts from its begin to its end. A range that ends a step, as an optimizer's, gives
//! a step from its end to the next one's end.
//!
//! What counts:
//!
//! - Of several names in the list, the one that the process pushed first. Others are parts of such a step.
//! - Of pushed ranges, those of the thread that pushed the first. Threads that drive a GPU each make the same
//!   steps. If that thread ends, the next one that pushes takes its place.
//! - Of ranges within each other, the outer one.
//!
//! There may be several clients of NVTX in a process (each library that includes its header is one). They
//! share the stack of a thread, as they do in other tools.
//!
//! Rule: a range that is no step costs a comparison and a count. None waits, allocates, or reaches the job
//! with a panic.

mod injection;
mod names;
mod ring;

pub use injection::{is_own, slot};
pub use names::asked;

use crate::clock::nanoseconds;
use crate::guard::guard;
use names::{Bound, Found};
use ring::{Mark, Ring};
use std::cell::Cell;
use std::sync::atomic::{
    AtomicI32, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Domains whose ranges are counted: the one without a name, and those with the first names. Ranges of
/// others are no steps.
const DOMAINS: usize = 32;
/// Ranges that began on one thread and may end on another, at a time. Others are no steps.
const FREE_RANGES: usize = 16;

/// Steps on their way to the recorder's thread. They wait here until there is one.
static RING: Ring = Ring::new();
/// The process that the ring's steps are of.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Which of the names counts: its number and what tells ranges of this name apart, or 0.
static CHOSEN: AtomicU32 = AtomicU32::new(0);
/// The thread whose pushed ranges count, or 0.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// When the newest range ended that ends a step, or 0.
static LAST_END: AtomicU64 = AtomicU64::new(0);
/// Begins of ranges that may end on another thread; 0 is free.
static FREE: [AtomicU64; FREE_RANGES] = [const { AtomicU64::new(0) }; FREE_RANGES];

/// What a thread has pushed. Plain cells need no destructor.
struct Here {
    depths: [Cell<u32>; DOMAINS],
    open: Cell<Option<Open>>,
    /// The kernel's number of the thread, once it is asked for.
    thread: Cell<i32>,
}

thread_local! {
    static HERE: Here = const {
        Here {
            depths: [const { Cell::new(0) }; DOMAINS],
            open: Cell::new(None),
            thread: Cell::new(0),
        }
    };
}

/// A place in the stacks of a thread: a domain, and how many ranges are around it there.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    domain: usize,
    depth: u32,
}

/// A range of a step that is open on a thread.
#[derive(Clone, Copy)]
struct Open {
    place: Place,
    began: u64,
    bound: Bound,
    inner: Inner,
}

/// What is known of ranges with the step's name within it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inner {
    None,
    /// One is open there.
    Open(Place),
    /// One was. So if another begins now, nobody has popped the outer one, and nobody will: an exception has
    /// gone through it.
    Over,
}

/// A range begins on this thread. Returns how many are around it.
#[inline]
fn push(domain: usize, found: Option<Found>) -> u32 {
    HERE.with(|here| {
        let Some(depth) = here.depths.get(domain) else {
            return 0;
        };
        let around = depth.get();
        depth.set(around.saturating_add(1));
        if let Some(found) = found {
            let place = Place {
                domain,
                depth: around,
            };
            begin(here, place, found);
        }
        around
    })
}

/// The newest range of this thread ends. `None` if there is none.
#[inline]
fn pop(domain: usize) -> Option<u32> {
    HERE.with(|here| {
        let depth = here.depths.get(domain)?;
        let around = depth.get().checked_sub(1)?;
        depth.set(around);
        if let Some(open) = here.open.get() {
            end(here, open, domain, around);
        }
        Some(around)
    })
}

#[cold]
#[inline(never)]
fn begin(here: &Here, place: Place, found: Found) {
    guard((), || {
        if !is_chosen(found) || !is_owner(here) {
            return;
        }
        match here.open.get() {
            Some(open) if open.inner == Inner::None => here.open.set(Some(Open {
                inner: Inner::Open(place),
                ..open
            })),
            Some(open) if open.inner != Inner::Over => {}
            _ => here.open.set(Some(Open {
                place,
                began: now(),
                bound: found.bound,
                inner: Inner::None,
            })),
        }
    });
}

/// A range ended on a thread with an open step, and so many are around it.
#[cold]
#[inline(never)]
fn end(here: &Here, open: Open, domain: usize, around: u32) {
    guard((), || {
        let is_left = |place: Place| place.domain == domain && around <= place.depth;
        if is_left(open.place) {
            here.open.set(None);
            ended(open.bound, open.began);
        } else if matches!(open.inner, Inner::Open(place) if is_left(place)) {
            here.open.set(Some(Open {
                inner: Inner::Over,
                ..open
            }));
        }
    });
}

/// A range begins that may end on another thread. Returns its number.
#[inline]
fn start(domain: usize, found: Option<Found>) -> u64 {
    match found {
        Some(found) if domain < DOMAINS => begin_free(found),
        _ => 0,
    }
}

#[cold]
#[inline(never)]
fn begin_free(found: Found) -> u64 {
    guard(0, || {
        if !is_chosen(found) {
            return 0;
        }
        let value = free_range(now(), found.bound);
        let take = |at: &AtomicU64| at.compare_exchange(0, value, AcqRel, Relaxed).is_ok();
        match FREE.iter().position(take) {
            Some(at) => value << 4 | at as u64,
            None => {
                RING.dropped();
                0
            }
        }
    })
}

/// The range with this number ends; 0 is no step.
#[inline]
fn stop(number: u64) {
    if number != 0 {
        end_free(number);
    }
}

#[cold]
#[inline(never)]
fn end_free(number: u64) {
    guard((), || {
        let (value, at) = (number >> 4, (number % FREE_RANGES as u64) as usize);
        let of = FREE[at].compare_exchange(value, 0, AcqRel, Relaxed);
        if value != 0 && of.is_ok() {
            let bound = if value & 1 == 0 {
                Bound::Step
            } else {
                Bound::End
            };
            ended(bound, value >> 1);
        }
    });
}

/// When such a range began, and what it bounds. It fits into 60 bits for 18 years after a boot.
fn free_range(began: u64, bound: Bound) -> u64 {
    (began << 1 | u64::from(bound == Bound::End)) & (u64::MAX >> 4)
}

/// An instant, which is a step until the next one.
#[inline]
fn mark(domain: usize, found: Option<Found>) {
    if let Some(found) = found.filter(|_| domain < DOMAINS) {
        at_once(found);
    }
}

#[cold]
#[inline(never)]
fn at_once(found: Found) {
    guard((), || {
        if is_chosen(found) && HERE.with(is_owner) {
            ended(found.bound, now());
        }
    });
}

/// A range of a step ended now.
fn ended(bound: Bound, began: u64) {
    let to = now();
    let from = match bound {
        Bound::Step => began,
        Bound::End => LAST_END.swap(to, AcqRel),
    };
    // The first of those that end a step ends one whose begin is not known.
    if from != 0 {
        RING.push(Mark {
            from: from.min(to),
            to,
        });
    }
}

/// Whether the process's steps have this name. The first name decides.
fn is_chosen(found: Found) -> bool {
    let of = found.identity();
    match CHOSEN.compare_exchange(0, of, AcqRel, Acquire) {
        Ok(_) => true,
        Err(chosen) => chosen == of,
    }
}

/// Whether pushed ranges of this thread count. It is asked of ranges with a step's name only: some in a
/// second.
fn is_owner(here: &Here) -> bool {
    let mut own = here.thread.get();
    if own == 0 {
        // SAFETY: a plain system call.
        own = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
        here.thread.set(own);
    }
    let owner = OWNER.load(Acquire);
    if owner == own {
        return true;
    }
    // SAFETY: signal 0 is none: the kernel only says whether there is such a thread.
    let is_there =
        owner != 0 && unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), owner, 0) == 0 };
    !is_there && OWNER.compare_exchange(owner, own, AcqRel, Relaxed).is_ok()
}

fn now() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// Hands out the steps since the last time, in order of their ends; returns how many had no room. Only the
/// recorder's thread asks. In a forked child, what its parent left is forgotten.
pub fn take(each: impl FnMut(u64, u64)) -> u64 {
    let mut each = each;
    let own = std::process::id();
    if PROCESS.load(Acquire) != own {
        RING.clear();
        LAST_END.store(0, Release);
        FREE.iter().for_each(|at| at.store(0, Release));
        PROCESS.store(own, Release);
    }
    RING.take(|mark| each(mark.from, mark.to))
}

/// The framework's name of the ranges that are steps, as it is in the list; `None` for a name of the user's,
/// or if there was none yet.
pub fn range() -> Option<&'static str> {
    let number = (CHOSEN.load(Acquire) as usize & 0xff).checked_sub(1)?;
    names::known(number)
}
