//! The event pairs of a communicator, and the times of its newest launches.
//!
//! A pair goes through three counts, each of which follows the one before: `pushed` (the launching thread
//! recorded both events), `done` (the poller saw them end and kept their [`Span`]), `sure` (an anchor behind
//! them confirmed the time).
//!
//! Rule: only the launching thread moves `pushed`, and only the recorder's thread moves `done` and `sure`. A
//! pair is recorded again only after it is done.

use super::sampling::Switch;
use crate::array;
use crate::cuda::{Context, Driver};
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8,
    Ordering::{Acquire, Relaxed, Release},
};

/// Launches of a communicator that can wait for their times.
pub const PAIRS: usize = 1024;
/// Times that are kept until their rows are sealed. A launch has at least one row, and a live part of the
/// usual size has 8192.
const KEPT: usize = 8192;
/// Functions that are counted apart for sampling.
const FUNCTIONS: usize = 16;
/// Classes of size that are counted apart for sampling.
const CLASSES: usize = 32;

/// How a launch is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// By this pair.
    By(u32),
    /// Left out to keep to the budget.
    Unsampled,
    /// Not at all: all pairs are under way, the launch is captured into a graph, or timing has ended.
    No,
}

impl Timed {
    /// As a number that fits into a launch: 0 no, 1 unsampled, else the pair's number + 2.
    pub fn pack(self) -> u64 {
        match self {
            Timed::No => 0,
            Timed::Unsampled => 1,
            Timed::By(number) => u64::from(number) + 2,
        }
    }

    /// See [`Timed::pack`].
    pub fn unpack(packed: u64) -> Timed {
        match packed {
            0 => Timed::No,
            1 => Timed::Unsampled,
            n => Timed::By((n - 2) as u32),
        }
    }
}

/// What is known of a launch that was timed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Start on the host's clock, ticks.
    pub start: u64,
    /// Its length, ns.
    pub length: u64,
    /// Error of `start`, ns.
    pub error: u32,
}

/// The two events around one launch.
#[derive(Default)]
pub(super) struct Pair {
    pub(super) before: AtomicU64,
    pub(super) after: AtomicU64,
}

/// See the module.
pub struct Ring {
    driver: &'static Driver,
    pub(super) context: Context,
    pub(super) pairs: Box<[Pair; PAIRS]>,
    /// Pairs recorded so far, by the launching thread.
    pub(super) pushed: AtomicU32,
    /// Pairs of these that have ended; their times are in `spans`.
    pub(super) done: AtomicU32,
    /// Pairs of these with times that an anchor behind them has confirmed.
    pub(super) sure: AtomicU32,
    /// Launches seen, timed or not.
    launches: AtomicU32,
    /// A pair's first event is recorded and its second is not yet.
    open: AtomicBool,
    /// The bracket that is open around a call without a launch event ([`Timed::pack`]).
    bracket: AtomicU64,
    /// Bits: functions (by number) that NCCL launches without an event.
    silent: AtomicU32,
    /// The thread of the newest group; 0 none.
    caller: AtomicU64,
    /// Whether the communicator's calls launch before they return: 0 not known, 1 yes, 2 not always.
    blocking: AtomicU8,
    /// Launches so far of each function and class of size.
    indexes: Box<[AtomicU32; FUNCTIONS * CLASSES]>,
    spans: Box<[Kept; KEPT]>,
    /// Its communicator was finalized: nobody launches any more.
    closed: AtomicBool,
}

/// The time of a launch, in `spans`.
#[derive(Default)]
struct Kept {
    /// The pair's number + 1; 0 none, or being written.
    number: AtomicU64,
    start: AtomicU64,
    length: AtomicU64,
    error: AtomicU32,
}

/// The bit of a function in [`Ring::silent`]; those without a number of their own share one.
fn function_bit(func: u8) -> u32 {
    1 << (func as u32).min(31)
}

fn zeroed<T: Default>(n: usize) -> Box<[T]> {
    (0..n).map(|_| T::default()).collect()
}

impl Ring {
    /// A ring for the context that is current; `None` without one, or if CUDA makes no events.
    pub fn make(driver: &'static Driver) -> Option<Ring> {
        let context = driver.context()?;
        let pairs: Box<[Pair; PAIRS]> = array::boxed(zeroed(PAIRS));
        for pair in pairs.iter() {
            pair.before.store(driver.new_event()?, Relaxed);
            pair.after.store(driver.new_event()?, Relaxed);
        }
        Some(Ring {
            driver,
            context,
            pairs,
            pushed: AtomicU32::new(0),
            done: AtomicU32::new(0),
            sure: AtomicU32::new(0),
            launches: AtomicU32::new(0),
            open: AtomicBool::new(false),
            bracket: AtomicU64::new(0),
            silent: AtomicU32::new(0),
            caller: AtomicU64::new(0),
            blocking: AtomicU8::new(0),
            indexes: array::boxed(zeroed(FUNCTIONS * CLASSES)),
            spans: array::boxed(zeroed(KEPT)),
            closed: AtomicBool::new(false),
        })
    }

    /// Before a launch on `stream`: records the first event, if the launch is in the sample. `func` (the
    /// number of its name) and `count` are those of the launch's first call.
    #[inline]
    pub fn begin(&self, switch: &Switch, stream: u64, func: u8, count: u64) -> Timed {
        self.launches
            .store(self.launches.load(Relaxed).wrapping_add(1), Relaxed);
        if switch.is_off() {
            return Timed::No;
        }
        // If the launch before never ended, this one gets its pair.
        self.open.store(false, Relaxed);
        let class = (64 - count.leading_zeros() as usize) / 2 % CLASSES;
        let index = &self.indexes[usize::from(func) % FUNCTIONS * CLASSES + class];
        let number = index.load(Relaxed);
        index.store(number.wrapping_add(1), Relaxed);
        if !switch.wants(number) {
            return Timed::Unsampled;
        }
        let pushed = self.pushed.load(Relaxed);
        if pushed.wrapping_sub(self.done.load(Acquire)) >= PAIRS as u32 {
            return Timed::No;
        }
        // NCCL launches in its communicator's context. If the program has switched contexts, it is left
        // alone.
        if self.driver.current_context() != Some(self.context.handle) {
            return Timed::No;
        }
        let event = self.pairs[pushed as usize % PAIRS].before.load(Relaxed);
        match self.driver.record(event, stream) {
            Ok(true) => {
                self.open.store(true, Relaxed);
                Timed::By(pushed)
            }
            Ok(false) => Timed::No,
            Err(code) => {
                switch.fail(code);
                Timed::No
            }
        }
    }

    /// Behind the launch that [`Ring::begin`] timed: records the second event. True if the pair is complete.
    #[inline]
    pub fn end(&self, switch: &Switch, stream: u64) -> bool {
        if !self.open.load(Relaxed) || switch.is_off() {
            return false;
        }
        self.open.store(false, Relaxed);
        let pushed = self.pushed.load(Relaxed);
        let event = self.pairs[pushed as usize % PAIRS].after.load(Relaxed);
        match self.driver.record(event, stream) {
            Ok(recorded) => {
                if recorded {
                    self.pushed.store(pushed.wrapping_add(1), Release);
                }
                recorded
            }
            Err(code) => {
                switch.fail(code);
                false
            }
        }
    }

    /// A call's group begins on this thread.
    #[inline]
    pub fn called_by(&self, thread: u64) {
        if self.blocking.load(Relaxed) != 2 {
            self.caller.store(thread, Relaxed);
        }
    }

    /// A launch begins on this thread. It is the thread of the call, or one of NCCL's own if the communicator
    /// is non-blocking.
    #[inline]
    pub fn launched_by(&self, thread: u64) {
        let blocking = self.blocking.load(Relaxed);
        if blocking != 2 {
            let same = self.caller.load(Relaxed) == thread;
            self.blocking.store(if same { 1 } else { 2 }, Relaxed);
        }
    }

    /// Whether a call of this function is to be timed from its group's end to its return. That is so if NCCL
    /// launches it without an event, and if other launches have shown that this communicator's calls launch
    /// before they return.
    #[inline]
    pub fn brackets(&self, func: u8) -> bool {
        self.silent.load(Relaxed) & function_bit(func) != 0 && self.blocking.load(Relaxed) == 1
    }

    /// A call of this function was launched with an event, or without one.
    #[inline]
    pub fn learn(&self, func: u8, launched: bool) {
        let silent = self.silent.load(Relaxed);
        let bit = function_bit(func);
        let now = if launched {
            silent & !bit
        } else {
            silent | bit
        };
        if now != silent {
            self.silent.store(now, Relaxed);
        }
    }

    /// Keeps the answer of [`Ring::begin`] for the call's return.
    pub fn bracket(&self, timed: Timed) {
        self.bracket.store(timed.pack(), Relaxed);
    }

    /// Takes out what [`Ring::bracket`] kept.
    #[inline]
    pub fn take_bracket(&self) -> Timed {
        let packed = self.bracket.load(Relaxed);
        if packed != 0 {
            self.bracket.store(0, Relaxed);
        }
        Timed::unpack(packed)
    }

    /// Launches that have no times yet.
    pub(super) fn under_way(&self) -> usize {
        let pushed = self.pushed.load(Acquire);
        pushed.wrapping_sub(self.done.load(Relaxed)) as usize
    }

    /// Nobody launches on its communicator any more.
    pub fn close(&self) {
        self.closed.store(true, Release);
    }

    /// Whether its communicator was finalized.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Acquire)
    }

    /// Gives up what is under way: it will have no times.
    pub(super) fn abandon(&self) {
        let pushed = self.pushed.load(Acquire);
        let sure = self.sure.load(Relaxed);
        (0..pushed.wrapping_sub(sure)).for_each(|i| self.forget(sure.wrapping_add(i)));
        self.done.store(pushed, Release);
        self.sure.store(pushed, Release);
    }

    /// Whether another communicator of this context may have it: it is closed, and nothing is under way.
    fn is_spare(&self, context: Context) -> bool {
        self.context == context
            && self.closed.load(Acquire)
            && self.pushed.load(Relaxed) == self.sure.load(Acquire)
    }

    fn reopen(&self) {
        self.indexes.iter().for_each(|i| i.store(0, Relaxed));
        self.silent.store(0, Relaxed);
        self.caller.store(0, Relaxed);
        self.blocking.store(0, Relaxed);
        self.bracket.store(0, Relaxed);
        self.closed.store(false, Release);
    }

    /// The times of a launch: `None` while they are not known, `Some(None)` if they never will be.
    pub fn span(&self, number: u32, switch: &Switch) -> Option<Option<Span>> {
        let sure = self.sure.load(Acquire).wrapping_sub(number) as i32 > 0;
        if !sure {
            return switch.is_off().then_some(None);
        }
        let kept = &self.spans[number as usize % KEPT];
        let known = kept.number.load(Acquire) == u64::from(number) + 1;
        Some(known.then(|| Span {
            start: kept.start.load(Relaxed),
            length: kept.length.load(Relaxed),
            error: kept.error.load(Relaxed),
        }))
    }

    pub(super) fn forget(&self, number: u32) {
        self.spans[number as usize % KEPT].number.store(0, Release);
    }

    pub(super) fn keep(&self, number: u32, span: &Span) {
        let kept = &self.spans[number as usize % KEPT];
        kept.number.store(0, Relaxed);
        kept.start.store(span.start, Relaxed);
        kept.length.store(span.length, Relaxed);
        kept.error.store(span.error, Relaxed);
        kept.number.store(u64::from(number) + 1, Release);
    }
}

/// All rings of the process. Rings are never dropped: a callback may hold one at any time.
pub struct Rings {
    pub(super) list: [AtomicPtr<Ring>; RINGS],
}

/// Rings at most. A communicator beyond them has host times only.
const RINGS: usize = 64;

impl Rings {
    pub fn new() -> Rings {
        Rings {
            list: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &'static Ring> + '_ {
        // SAFETY: null, or a box that was leaked.
        self.list
            .iter()
            .map_while(|ring| unsafe { ring.load(Acquire).as_ref() })
    }

    /// Launches seen on all of them, timed or not; wraps round.
    pub(super) fn launches(&self) -> u32 {
        self.all()
            .fold(0u32, |sum, r| sum.wrapping_add(r.launches.load(Relaxed)))
    }

    /// A ring for a communicator in the context that is current: a spare one or a new one. Under the init
    /// lock.
    pub fn take(&self, driver: &'static Driver) -> Option<&'static Ring> {
        let context = driver.context()?;
        if let Some(spare) = self.all().find(|ring| ring.is_spare(context)) {
            spare.reopen();
            return Some(spare);
        }
        let free = self.list.get(self.all().count())?;
        let ring = Box::leak(Box::new(Ring::make(driver)?));
        free.store(ring, Release);
        Some(ring)
    }
}
