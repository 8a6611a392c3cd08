//! Who is inside a callback: a seat for each thread that NCCL calls us on.
//!
//! [`Seats::enter`] finds the calling thread's [`Seat`] by a hash of its thread pointer, and sits down there
//! until the [`Inside`] is dropped. A thread claims its seat at its first callback, and keeps it for the life
//! of the process: a later thread with the same pointer has it then. [`Keeper`] is the part of the recorder's
//! thread, which finds out what was retired long enough ago ([`crate::epoch`]).
//!
//! The barrier of a callback costs nothing but a compiler's: the recorder's thread lets the kernel put one
//! into every running thread instead (`membarrier`). Where the kernel can't, callbacks have one of their own.
//!
//! Rule: nobody but the thread whose seat it is stores to a seat's epoch.

use crate::epoch::{oldest, Epoch, Quarantine};
use crate::pages;
use std::sync::atomic::{
    compiler_fence, fence, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
};

/// Seats that are there from the start.
const FIRST: usize = 256;
/// Seats of each further chunk, which is made when a thread finds no seat.
const MORE: [usize; 3] = [2048, 16_384, 131_072];
/// Seats of a chunk that a thread looks at.
const PROBES: usize = 16;

/// A thread's seat, on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
pub struct Seat {
    /// The thread's pointer; 0 free.
    owner: AtomicU64,
    /// The epoch since which the thread is inside; 0 outside.
    since: AtomicU64,
}

/// See the module.
#[repr(align(64))]
pub struct Seats {
    epoch: Epoch<AtomicU64>,
    /// Everything that was retired in an epoch before this one may be used again.
    safe: AtomicU64,
    first: &'static [Seat; FIRST],
    more: [AtomicPtr<Seat>; MORE.len()],
    /// Seats claimed so far.
    claimed: AtomicU32,
    /// Threads that are inside without a seat.
    crowd: AtomicU64,
}

/// A callback that is inside; outside when dropped.
pub struct Inside<'a> {
    seat: Option<&'a Seat>,
    before: u64,
    seats: &'a Seats,
}

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        match self.seat {
            Some(seat) => Epoch::leave(&seat.since, self.before),
            None => {
                self.seats.crowd.fetch_sub(1, Release);
            }
        }
    }
}

/// A number that tells the calling thread from others that live, without a call.
#[inline(always)]
pub fn thread() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let pointer: u64;
        // SAFETY: the ABI of x86-64 has the thread's pointer to itself there.
        unsafe {
            core::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly))
        };
        pointer
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let pointer: u64;
        // SAFETY: reads the thread's pointer.
        unsafe {
            core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem))
        };
        pointer
    }
    #[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri))]
    // SAFETY: always succeeds.
    unsafe {
        libc::pthread_self() as u64
    }
}

/// Fibonacci hashing: thread pointers lie a stack apart.
#[inline(always)]
fn hash(thread: u64) -> usize {
    (thread.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize
}

impl Seats {
    /// All free.
    pub fn new() -> Seats {
        // Leaked like the recorder, which is never dropped.
        let first = crate::array::boxed((0..FIRST).map(|_| Seat::default()).collect());
        Seats {
            epoch: Epoch::new(AtomicU64::new(0)),
            safe: AtomicU64::new(0),
            first: Box::leak(first),
            more: Default::default(),
            claimed: AtomicU32::new(0),
            crowd: AtomicU64::new(0),
        }
    }

    /// Sits down. What is looked up from here on stays what it is until the guard is dropped.
    #[inline(always)]
    pub fn enter(&self) -> Inside<'_> {
        let me = thread();
        let likely = &self.first[hash(me) % FIRST];
        let seat = if likely.owner.load(Relaxed) == me {
            Some(likely)
        } else {
            self.find(me)
        };
        // Meets the barrier in `Keeper::look`.
        let before = match seat {
            Some(seat) => self.epoch.enter(&seat.since, || fence(SeqCst)),
            None => self.stand(),
        };
        compiler_fence(SeqCst);
        Inside {
            seat,
            before,
            seats: self,
        }
    }

    /// Goes in without a seat.
    #[cold]
    fn stand(&self) -> u64 {
        self.crowd.fetch_add(1, AcqRel);
        fence(SeqCst);
        0
    }

    /// The present epoch.
    pub fn now(&self) -> u64 {
        self.epoch.now()
    }

    /// Whether no callback is inside that could have found what was retired in that epoch.
    #[inline]
    pub fn is_safe(&self, epoch: u64) -> bool {
        // Meets the Release in `Keeper::look`.
        epoch < self.safe.load(Acquire)
    }

    /// The seat of thread `me`, claimed if it has none. `None` where there is no room for it.
    #[cold]
    #[inline(never)]
    fn find(&self, me: u64) -> Option<&Seat> {
        // Seats are claimed in the order of looking and never given back, so a thread's own comes before the
        // first free one.
        for chunk in 0..=MORE.len() {
            let seats = self.chunk(chunk)?;
            for probe in 0..PROBES {
                let seat = &seats[(hash(me) + probe) % seats.len()];
                let owner = match seat.owner.load(Relaxed) {
                    0 => {
                        let claim = seat.owner.compare_exchange(0, me, AcqRel, Relaxed);
                        if claim.is_ok() {
                            self.claimed.fetch_add(1, Release);
                        }
                        claim.map_or_else(|other| other, |_| me)
                    }
                    owner => owner,
                };
                if owner == me {
                    return Some(seat);
                }
            }
        }
        None
    }

    /// A chunk of seats, which is made if it is not there yet.
    fn chunk(&self, number: usize) -> Option<&'static [Seat]> {
        let Some(number) = number.checked_sub(1) else {
            return Some(self.first);
        };
        let bytes = MORE[number] * std::mem::size_of::<Seat>();
        let place = &self.more[number];
        // A new thread is set-up work.
        if !pages::map_once(place, bytes) {
            return None;
        }
        self.there(number)
    }

    /// A further chunk, if it is there.
    fn there(&self, number: usize) -> Option<&'static [Seat]> {
        let seats = self.more[number].load(Acquire);
        // SAFETY: null, or so many seats of zeroed memory that is never unmapped; they hold atomics only.
        (!seats.is_null()).then(|| unsafe { std::slice::from_raw_parts(seats, MORE[number]) })
    }

    fn all(&self) -> impl Iterator<Item = &'static Seat> + '_ {
        let more = (0..MORE.len()).filter_map(|number| self.there(number));
        self.first.iter().chain(more.flatten())
    }
}

/// The part of the recorder's thread: what it retired and may not use yet.
pub struct Keeper {
    quarantine: Quarantine,
    /// The claimed seats that are known.
    claimed: Vec<&'static Seat>,
    /// The kernel puts up the callbacks' barriers.
    by_kernel: bool,
}

impl Keeper {
    /// With room for so many slots.
    pub fn new(slots: usize) -> Keeper {
        Keeper {
            quarantine: Quarantine::with_capacity(slots),
            claimed: Vec::with_capacity(FIRST),
            by_kernel: false,
        }
    }

    /// Lets the kernel put up the callbacks' barriers, if it can.
    pub fn ask_kernel(&mut self, seats: &Seats) {
        self.by_kernel = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
            && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
        if self.by_kernel {
            seats.epoch.turn();
        }
    }

    /// Keeps a slot that no new look finds until [`Keeper::take`] gives it.
    pub fn retire(&mut self, seats: &Seats, slot: u32) {
        self.quarantine.put(seats.epoch.now(), slot);
    }

    /// Whether slots wait.
    pub fn waits(&self) -> bool {
        !self.quarantine.is_empty()
    }

    /// Looks who is inside, so that [`Keeper::take`] gives what was retired before this.
    pub fn look(&mut self, seats: &Seats) {
        seats.epoch.advance();
        if !self.barrier(seats) {
            return;
        }
        let claimed = seats.claimed.load(Acquire) as usize;
        if claimed != self.claimed.len() {
            self.claimed.clear();
            let taken = |seat: &&Seat| seat.owner.load(Relaxed) != 0;
            self.claimed.extend(seats.all().filter(taken));
        }
        if seats.crowd.load(Acquire) != 0 {
            return;
        }
        let oldest = oldest(self.claimed.iter().map(|seat| &seat.since));
        seats.safe.store(oldest.min(seats.epoch.now()), Release);
    }

    /// A slot that may be used again.
    pub fn take(&mut self, seats: &Seats) -> Option<u32> {
        self.quarantine.take(seats.safe.load(Relaxed))
    }

    /// The barrier that meets those of callbacks; false if there was none.
    fn barrier(&mut self, seats: &Seats) -> bool {
        if !self.by_kernel {
            fence(SeqCst);
            return true;
        }
        if membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
            return true;
        }
        // The program forbade the call meanwhile (seccomp). From the next turn on, milliseconds later, every
        // callback that runs has seen this.
        self.by_kernel = false;
        seats.epoch.turn();
        false
    }
}

const MEMBARRIER_CMD_PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

fn membarrier(command: libc::c_int) -> bool {
    // Linux before 4.14 answers with an error, and Miri has no such call.
    // SAFETY: a system call without memory of ours.
    !cfg!(miri) && unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// What is retired while so many threads are inside waits for all of them.
    fn waits_for(threads: usize, by_kernel: bool) {
        let seats = Seats::new();
        let mut keeper = Keeper::new(1);
        if by_kernel {
            keeper.ask_kernel(&seats);
        }
        let [arrived, go, out] = [0; 3].map(|_| Barrier::new(threads + 1));
        let early = std::thread::scope(|scope| {
            for _ in 0..threads {
                let builder = std::thread::Builder::new().stack_size(64 << 10);
                let thread = builder.spawn_scoped(scope, || {
                    let guard = seats.enter();
                    arrived.wait();
                    go.wait();
                    drop(guard);
                    // A second callback finds the same seat.
                    drop(seats.enter());
                    out.wait();
                });
                thread.expect("a thread");
            }
            arrived.wait();
            keeper.retire(&seats, 7);
            keeper.look(&seats);
            let early = keeper.take(&seats);
            go.wait();
            out.wait();
            early
        });
        assert_eq!(early, None);
        assert_eq!(seats.claimed.load(Relaxed) as usize, threads);
        keeper.look(&seats);
        assert_eq!(keeper.take(&seats), Some(7));
    }

    #[test]
    fn any_number_of_threads_has_seats() {
        for threads in [1, 3, if cfg!(miri) { 5 } else { 700 }] {
            waits_for(threads, true);
            waits_for(threads, false);
        }
    }

    #[test]
    fn who_finds_no_seat_stands_and_is_waited_for() {
        let seats = Seats::new();
        let mut keeper = Keeper::new(1);
        let guard = Inside {
            seat: None,
            before: seats.stand(),
            seats: &seats,
        };
        keeper.retire(&seats, 7);
        keeper.look(&seats);
        assert_eq!(keeper.take(&seats), None);
        drop(guard);
        keeper.look(&seats);
        assert_eq!(keeper.take(&seats), Some(7));
    }
}
