//! Time in MPI: when the program's threads were inside of MPI's functions.
//!
//! [`look`] finds an MPI library that the process has loaded, and puts ours before its functions wherever
//! they are called from ([`crate::interpose`]). So nothing is preloaded, and a library that was opened with
//! `dlopen`, as mpi4py opens MPI, is seen too. Libraries for Fortran call `PMPI_…`, and so do tools that
//! stand before MPI; these calls are seen in the same way.
//!
//! [`enter`] notes that the calling thread goes in. When its guard is dropped, the call is added to the
//! thread's [`Seat`]. It goes to the sums of its function, and to a ring of [`MpiCalls`], which the
//! recorder's thread empties ([`Mpi::take`]).
//!
//! ```text
//! calls      [Send]  [Send][Test]          [------- Barrier -------]
//! records    [   one of three calls   ]    [   one of one call     ]
//! ```
//!
//! Calls within [`TOGETHER`] become one record, with the time in which the thread was inside. A program that
//! polls has few records therefore, and a call that is longer has its exact times.
//!
//! Rules: a call takes no lock, allocates nothing and makes no system call, but for the thread's number at
//! its first call. A function that MPI calls within another one does not count. Nobody but the thread whose
//! seat it is stores to a seat, other than what has been taken.

use crate::guard::guard;
use crate::interpose::{objects, Interposed, Search};
use crate::pages;
use crate::recorder::fork_page::get;
use crate::recorder::Recorder;
use crate::seats::thread;
use capture::mpi::{FunctionSum, MpiCalls, ThreadInside};
use capture::rows::{AtomicTicks, Ticks};
use std::ffi::{c_void, CStr};
use std::marker::PhantomData;
use std::sync::atomic::{
    fence, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

mod functions;

use functions::{COUNT, FUNCTIONS, NAMES, PROFILED};

/// Calls of a thread that begin and end within this are one record, ns.
const TOGETHER: f64 = 100_000.0;
/// Threads whose calls have times.
const SEATS: usize = 64;
/// Records of a thread that wait for the recorder's thread: at most 20 000 a second are made, and it comes
/// 25 times a second or more often.
const RING: usize = 4096;

/// Calls of one thread, as they are stored.
#[repr(C)]
struct Cell {
    from: AtomicTicks,
    to: AtomicTicks,
    inside: AtomicU64,
    calls: AtomicU32,
    function: AtomicU32,
    thread: AtomicU32,
    _pad: u32,
}

/// A thread that calls MPI.
#[repr(C, align(64))]
struct Seat {
    /// The thread's pointer; 0 free.
    owner: AtomicU64,
    /// Where the frame of the outermost call is on the stack; 0 outside.
    frame: AtomicU64,
    /// Since when it is inside, and of which function.
    since: AtomicTicks,
    function: AtomicU32,
    /// The thread's number, as of its newest call.
    thread: AtomicU32,
    /// Records begun. The last one may still get calls.
    begun: AtomicU64,
    /// Records that were taken. The recorder's thread stores it.
    taken: AtomicU64,
    /// Calls that found the ring full.
    lost: AtomicU64,
    /// By function: calls, and ticks inside.
    sums: [[AtomicU64; 2]; COUNT],
    ring: [Cell; RING],
}

/// What all threads share, in zeroed memory of its own.
#[repr(C, align(64))]
struct MpiSeats {
    /// Since when calls are seen.
    since: AtomicTicks,
    /// [`TOGETHER`] in ticks; 0 until the clock's rate is known.
    together: AtomicU64,
    /// Calls of threads without a seat.
    unseated: AtomicU64,
    seats: [Seat; SEATS],
}

/// Time in MPI of one process.
pub struct Mpi(AtomicPtr<MpiSeats>);

impl Mpi {
    /// No MPI has been found yet.
    pub const fn new() -> Mpi {
        Mpi(AtomicPtr::new(std::ptr::null_mut()))
    }

    #[inline]
    fn table(&self) -> Option<&'static MpiSeats> {
        // SAFETY: null, or zeroed memory of this size that is never unmapped; it holds atomics only.
        unsafe { self.0.load(Acquire).as_ref() }
    }
}

/// Puts ours before MPI's functions, in all libraries that call them by now. Does little if nothing was
/// loaded since the last time.
pub fn look(recorder: &Recorder) {
    if !recorder.settings.mpi {
        return;
    }
    // Names are enough. A search for addresses takes longer, and programs look few of MPI's functions up.
    static CALLERS: Interposed = Interposed::by_name();
    /// How many libraries had been loaded when they were last looked at, by which process.
    static LOOKED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    let now = [objects::loads(), u64::from(std::process::id())];
    if [LOOKED[0].load(Relaxed), LOOKED[1].load(Relaxed)] == now {
        return;
    }
    if let Some(library) = library() {
        if !pages::map_once(&recorder.mpi.0, std::mem::size_of::<MpiSeats>()) {
            return;
        }
        if let Some(table) = recorder.mpi.table() {
            let now = recorder.clock.ticks();
            let _ = table.since.compare_exchange(Ticks(0), now, Relaxed);
        }
        let find = |name: &CStr| {
            // SAFETY: the library is loaded, and the name is a C string.
            let [found, first] =
                unsafe { [library, libc::RTLD_DEFAULT].map(|of| libc::dlsym(of, name.as_ptr())) };
            // A tool that is searched before MPI has a function of its own. Slots that are not bound yet will
            // lead there, and must go on doing so.
            let is_first = first.is_null() || first == found;
            (is_first && !found.is_null()).then_some(found)
        };
        CALLERS.install(&[&FUNCTIONS, &PROFILED], Search::default(), find);
    }
    LOOKED[0].store(now[0], Relaxed);
    LOOKED[1].store(now[1], Relaxed);
}

/// A handle of the MPI library that the process has loaded; it is never closed. `None` if there are two,
/// because a slot that is not bound yet does not say which of them it is for.
fn library() -> Option<*mut c_void> {
    let is_mpi = |path: &String| {
        let file = path.rsplit('/').next().unwrap_or_default();
        file.starts_with("libmpi") || file.starts_with("libpmpi")
    };
    let open = |path: String| {
        let path = std::ffi::CString::new(path).ok()?;
        let now = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
        // SAFETY: a C string; the library is loaded, so this only gives another handle of it.
        let handle = unsafe { libc::dlopen(path.as_ptr(), now) };
        if handle.is_null() {
            return None;
        }
        // SAFETY: a handle, and a C string.
        let init = unsafe { libc::dlsym(handle, c"PMPI_Init".as_ptr()) };
        (!init.is_null()).then_some((handle, init))
    };
    let mut found = objects::names().into_iter().filter(is_mpi).filter_map(open);
    let (handle, init) = found.next()?;
    // One for Fortran or C++ finds the same function in the one for C.
    found.all(|(_, other)| other == init).then_some(handle)
}

/// A thread inside of MPI; outside when dropped.
pub(super) struct Inside {
    seat: Option<&'static Seat>,
    table: Option<&'static MpiSeats>,
    recorder: Option<&'static Recorder>,
    /// It belongs to its thread.
    _here: PhantomData<*const ()>,
}

/// The calling thread goes into a function.
#[inline]
fn enter(function: usize) -> Inside {
    let mut inside = Inside {
        seat: None,
        table: None,
        recorder: None,
        _here: PhantomData,
    };
    guard((), || {
        let Some(recorder) = get() else { return };
        let Some(table) = recorder.mpi.table() else {
            return;
        };
        let Some(seat) = table.seat(thread()) else {
            table.unseated.fetch_add(1, Relaxed);
            return;
        };
        // Stacks grow downwards, so a call within another one has its frame below. If the frame that was
        // noted is below this one, its call was left by `longjmp`.
        let here = (&raw const inside).addr() as u64;
        let outer = seat.frame.load(Relaxed);
        if outer > here {
            return;
        }
        seat.function.store(function as u32, Relaxed);
        seat.thread.store(recorder.thread(), Relaxed);
        seat.since.store(recorder.clock.ticks(), Relaxed);
        // Meets the Acquire in `open`.
        seat.frame.store(here, Release);
        inside.seat = Some(seat);
        inside.table = Some(table);
        inside.recorder = Some(recorder);
    });
    inside
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        let (Some(seat), Some(table), Some(recorder)) = (self.seat, self.table, self.recorder)
        else {
            return;
        };
        guard((), || {
            let together = table.together.load(Relaxed);
            seat.leave(recorder.clock.ticks(), together);
        });
        // Meets the Acquire in `settled`. Also if recording was switched off meanwhile.
        seat.frame.store(0, Release);
    }
}

impl MpiSeats {
    /// The seat of thread `me`, which gets one if it has none.
    #[inline]
    fn seat(&'static self, me: u64) -> Option<&'static Seat> {
        let first = (me.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
        for probe in 0..SEATS {
            let seat = &self.seats[(first + probe) % SEATS];
            let owner = match seat.owner.load(Relaxed) {
                0 => {
                    let claim = seat.owner.compare_exchange(0, me, AcqRel, Relaxed);
                    claim.map_or_else(|other| other, |_| me)
                }
                owner => owner,
            };
            if owner == me {
                return Some(seat);
            }
        }
        None
    }
}

/// Adds to a number that only this thread stores to.
#[inline]
fn add(to: &AtomicU64, more: u64) {
    to.store(to.load(Relaxed).wrapping_add(more), Relaxed);
}

impl Seat {
    /// The outermost call is over. It belongs to the record before it if it ended soon after that began.
    #[inline]
    fn leave(&self, now: Ticks, together: u64) {
        let since = self.since.load(Relaxed);
        let took = now.since(since);
        let function = self.function.load(Relaxed);
        if let Some([calls, ticks]) = self.sums.get(function as usize) {
            add(calls, 1);
            add(ticks, took);
        }
        let begun = self.begun.load(Relaxed);
        let thread = self.thread.load(Relaxed);
        if begun != 0 {
            let last = &self.ring[(begun - 1) as usize % RING];
            let is_soon = now.0.wrapping_sub(last.from.load(Relaxed).0) <= together;
            if is_soon && last.thread.load(Relaxed) == thread {
                last.to.store(now, Relaxed);
                add(&last.inside, took);
                last.calls.store(last.calls.load(Relaxed) + 1, Relaxed);
                return;
            }
        }
        // Meets the Release in `take`: the cell's record was read.
        if begun - self.taken.load(Acquire) >= RING as u64 {
            add(&self.lost, 1);
            return;
        }
        let cell = &self.ring[begun as usize % RING];
        cell.from.store(since, Relaxed);
        cell.to.store(now, Relaxed);
        cell.inside.store(took, Relaxed);
        cell.calls.store(1, Relaxed);
        cell.function.store(function, Relaxed);
        cell.thread.store(thread, Relaxed);
        // Meets the Acquire in `take`.
        self.begun.store(begun + 1, Release);
    }

    /// Whether the last record can get no more calls: it began too long before `now`, and the thread is not
    /// inside. A call that ends later began after this, and is too late for that record.
    fn settled(&self, begun: u64, now: Ticks, together: u64) -> bool {
        let last = &self.ring[(begun - 1) as usize % RING];
        let age = now.since(last.from.load(Relaxed));
        fence(Acquire);
        // Meets the Release of a call that has ended.
        age > together && self.frame.load(Acquire) == 0
    }

    /// Whether a thread has it. A thread that takes it now is seen the next time.
    fn is_taken(&self) -> bool {
        self.owner.load(Relaxed) != 0
    }

    fn read(&self, number: u64) -> MpiCalls {
        let cell = &self.ring[number as usize % RING];
        MpiCalls {
            thread: cell.thread.load(Relaxed),
            from: cell.from.load(Relaxed),
            to: cell.to.load(Relaxed),
            inside: cell.inside.load(Relaxed),
            calls: cell.calls.load(Relaxed),
            function: cell.function.load(Relaxed),
        }
    }
}

/// What the recorder's thread does.
impl Mpi {
    /// The rate of the clock is known.
    pub fn learn(&self, ns_per_tick: f64) {
        if let Some(table) = self.table().filter(|_| ns_per_tick > 0.0) {
            let ticks = (TOGETHER / ns_per_tick) as u64;
            // Once, because `settled` goes by it.
            let _ = table.together.compare_exchange(0, ticks, Relaxed, Relaxed);
        }
    }

    /// Since when calls are seen; `None` if no MPI has been found.
    pub fn since(&self) -> Option<Ticks> {
        let since = self.table()?.since.load(Relaxed);
        (since != Ticks(0)).then_some(since)
    }

    /// Takes all records out that get no more calls. At the `end`, the others too.
    pub fn take(&self, now: Ticks, end: bool, mut each: impl FnMut(MpiCalls)) {
        let Some(table) = self.table() else { return };
        let together = table.together.load(Relaxed);
        for seat in table.seats.iter().filter(|seat| seat.is_taken()) {
            // Meets the Release in `leave`.
            let begun = seat.begun.load(Acquire);
            let mut next = seat.taken.load(Relaxed);
            while next < begun {
                if next + 1 == begun && !end && !seat.settled(begun, now, together) {
                    break;
                }
                each(seat.read(next));
                next += 1;
            }
            seat.taken.store(next, Release);
        }
    }

    /// Calls and ticks by function, calls of threads without a seat, and calls without a record.
    pub fn sums(&self) -> (Vec<FunctionSum>, u64, u64) {
        let Some(table) = self.table() else {
            return Default::default();
        };
        // This is asked often, and most seats stay free.
        let taken = table.seats.iter().filter(|seat| seat.is_taken());
        let taken: Vec<&Seat> = taken.collect();
        let sum = |id: usize, at: usize| -> u64 {
            let seats = taken.iter();
            seats.map(|seat| seat.sums[id][at].load(Relaxed)).sum()
        };
        let sums = (0..COUNT).filter_map(|id| {
            let calls = sum(id, 0);
            (calls != 0).then(|| FunctionSum {
                function: id as u32,
                calls,
                ticks: sum(id, 1),
                name: NAMES[id].to_owned(),
            })
        });
        let lost = taken.iter().map(|seat| seat.lost.load(Relaxed));
        (sums.collect(), table.unseated.load(Relaxed), lost.sum())
    }

    /// Threads that are inside, with the function's name.
    pub fn open(&self) -> Vec<ThreadInside> {
        let Some(table) = self.table() else {
            return Vec::new();
        };
        let inside = |seat: &Seat| {
            // Meets the Release in `enter`.
            let frame = seat.frame.load(Acquire);
            let open = ThreadInside {
                thread: seat.thread.load(Relaxed),
                since: seat.since.load(Relaxed),
                name: NAMES.get(seat.function.load(Relaxed) as usize)?.to_string(),
            };
            fence(Acquire);
            let is_same = seat.since.load(Relaxed) == open.since;
            (frame != 0 && is_same && seat.frame.load(Relaxed) == frame).then_some(open)
        };
        let taken = table.seats.iter().filter(|seat| seat.is_taken());
        taken.filter_map(inside).collect()
    }
}
