//! The event pairs of a communicator, and the times of its newest launches.
//!
//! A pair goes through three counts, in this order. `pushed`: the launching thread recorded both events.
//! `done`: the poller saw them end and kept their [`LaunchTime`]. `sure`: an anchor behind them confirmed the
//! time.
//!
//! The first stream that is made to wait for the launch gets an event of the pair's, just before it waits
//! ([`Ring::awaited`]). Its thread marks the pair in `marked`, and the poller finds it there
//! ([`Ring::take_waits`]):
//!
//! ```text
//!           begin               awaited: its event             the poller
//!   (any) ────────▶ NO_WAIT ──▶ CLAIMED ──▶ RECORDED, marked ──▶ Waited in `spans`
//!                      '─────────────────▶ ENDED or UNTIMED, marked ──'
//! ```
//!
//! Rule: only the launching thread moves `pushed`, and only the poller's moves `done` and `sure`; the
//! recorder's thread reads. A pair is recorded again only after it is done, and while no thread has claimed
//! it.

use super::sampling::{Kind, Switch};
use crate::array;
use crate::clock::Clock;
use crate::cuda::{Context, Driver};
use crate::driver_time;
use crate::pages;
use crate::stream_waits::{Stream, TimedCall};
use capture::graphs::LaunchTime;
use capture::live::on_gpu;
use capture::rows::{AtomicTicks, Ticks};
use std::sync::atomic::{
    fence, AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicU8,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
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

/// What is known of the first stream that waited for a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// None is known.
    Not,
    /// From the moment at which it had nothing else to do to the launch's end, ns; negative if the launch had
    /// ended by then. With the stream's id.
    For(i64, u32),
    /// The launch had ended when this stream came to wait.
    Ended(u32),
    /// It could not be timed.
    Untimed(u32),
}

/// How far the GPU has come with a launch that has been under way for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenLaunch {
    /// The number of its pair.
    pub number: u32,
    /// A number of [`on_gpu`].
    pub on_gpu: u32,
    /// When the GPU was asked.
    pub asked: Ticks,
}

/// The two events around one launch, and that of the first stream that waits for it.
#[derive(Default)]
pub(super) struct Pair {
    pub(super) before: AtomicU64,
    pub(super) after: AtomicU64,
    pub(super) wait: AtomicU64,
    /// When the host launched it.
    pub(super) launched: AtomicTicks,
    /// The key of the launch's stream.
    stream: AtomicU64,
    /// The pair's number << 3 | what is known of a stream that waits.
    waited: AtomicU64,
    /// The id of that stream.
    waiter: AtomicU32,
}

// States of `Pair::waited`.
const NO_WAIT: u64 = 0;
/// A thread is about to record the event.
const CLAIMED: u64 = 1;
const RECORDED: u64 = 2;
const ENDED: u64 = 3;
const UNTIMED: u64 = 4;

fn waited_word(number: u32, state: u64) -> u64 {
    u64::from(number) << 3 | state
}

/// A wait that was recorded, if the driver should refuse the program's own.
#[derive(Clone, Copy)]
pub struct Awaited {
    ring: &'static Ring,
    number: u32,
}

impl Awaited {
    /// The stream does not wait after all.
    #[cold]
    pub fn undo(self) {
        let pair = &self.ring.pairs[self.number as usize % PAIRS];
        let word = |state| waited_word(self.number, state);
        let _ = pair
            .waited
            .compare_exchange(word(RECORDED), word(UNTIMED), Relaxed, Relaxed);
    }
}

/// See the module.
pub struct Ring {
    driver: &'static Driver,
    clock: Clock,
    /// Its place among all rings.
    index: u8,
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
    /// Launches of each function and class of size.
    kinds: Box<[Kind; FUNCTIONS * CLASSES]>,
    spans: Box<[Kept; KEPT]>,
    /// Bits: pairs that a stream waits for, which the poller has not taken.
    marked: [AtomicU64; PAIRS / 64],
    /// The oldest launch, if it has been under way for long: the pair's number << 2 | how far the GPU has
    /// come with it; 0 none.
    oldest: AtomicU64,
    /// When the GPU was asked about it.
    asked: AtomicTicks,
    /// Its communicator was finalized: nobody launches any more.
    closed: AtomicBool,
    /// Its launches are those of graphs.
    of_graphs: AtomicBool,
    /// No more than one in `1 << least` of them is timed.
    least: AtomicU32,
}

/// The time of a launch, in `spans`.
#[derive(Default)]
struct Kept {
    /// The pair's number + 1; 0 none, or being written.
    number: AtomicU64,
    start: AtomicTicks,
    length: AtomicU64,
    error: AtomicU32,
    /// State of the wait, as in `Pair::waited`; `RECORDED` with the time in `waited_for`.
    wait: AtomicU8,
    waiter: AtomicU32,
    /// As [`Waited::For`].
    waited_for: AtomicI64,
}

impl Kept {
    /// What `load` finds, if it is of the launch with this number, from beginning to end.
    fn read<T>(&self, number: u32, load: impl FnOnce() -> T) -> Option<T> {
        let is_its = |found: u64| found == u64::from(number) + 1;
        if !is_its(self.number.load(Acquire)) {
            return None;
        }
        let found = load();
        fence(Acquire);
        is_its(self.number.load(Relaxed)).then_some(found)
    }
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
    fn make(driver: &'static Driver, clock: Clock, index: u8) -> Option<Ring> {
        let context = driver.context()?;
        let pairs: Box<[Pair; PAIRS]> = array::boxed(zeroed(PAIRS));
        for pair in pairs.iter() {
            pair.before.store(driver.new_event()?, Relaxed);
            pair.after.store(driver.new_event()?, Relaxed);
            pair.wait.store(driver.new_event()?, Relaxed);
        }
        Some(Ring {
            driver,
            clock,
            index,
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
            kinds: array::boxed(zeroed(FUNCTIONS * CLASSES)),
            spans: array::boxed(zeroed(KEPT)),
            marked: std::array::from_fn(|_| AtomicU64::new(0)),
            oldest: AtomicU64::new(0),
            asked: AtomicTicks::default(),
            closed: AtomicBool::new(false),
            of_graphs: AtomicBool::new(false),
            least: AtomicU32::new(0),
        })
    }

    /// Its place among all rings.
    pub fn place(&self) -> usize {
        self.index.into()
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
        let kind = &self.kinds[usize::from(func) % FUNCTIONS * CLASSES + class];
        if !switch.wants(kind, kind.next(), self.least.load(Relaxed)) {
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
        let pair = &self.pairs[pushed as usize % PAIRS];
        if pair.waited.load(Acquire) & 7 == CLAIMED {
            // A thread was stopped just before it records the event for the launch before.
            return Timed::No;
        }
        match self.record(pair.before.load(Relaxed), stream) {
            Ok(true) => {
                let key = Stream::legacy(stream).key;
                pair.stream.store(key, Relaxed);
                pair.launched.store(self.clock.ticks(), Relaxed);
                pair.waited.store(waited_word(pushed, NO_WAIT), Relaxed);
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
        match self.record(event, stream) {
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

    /// Records an event on the launching thread, which may wait there for room in the queue of the stream.
    #[inline]
    fn record(&self, event: u64, stream: u64) -> Result<bool, u32> {
        let since = self.clock.ticks();
        let recorded = self.driver.record(event, stream);
        driver_time::for_us(self.clock.ticks().since(since));
        recorded
    }

    /// What a stream that waits for a launch knows it by. `None` if it can't be said whether NCCL is done
    /// with the launch when the call returns.
    pub fn call(&self, number: u32) -> Option<TimedCall> {
        let blocking = self.blocking.load(Relaxed) == 1;
        blocking.then_some(TimedCall {
            ring: self.index,
            pair: number,
        })
    }

    /// A stream is about to wait for a launch. The first time, an event is recorded on it, if the launch
    /// has not ended. Returns what to undo if the stream does not wait after all.
    #[cold]
    pub fn awaited(&'static self, switch: &Switch, stream: Stream, number: u32) -> Option<Awaited> {
        if switch.is_off() || self.is_closed() {
            return None;
        }
        let pair = &self.pairs[number as usize % PAIRS];
        let word = |state| waited_word(number, state);
        // A stream that waits for itself does not wait.
        if pair.waited.load(Acquire) != word(NO_WAIT) || pair.stream.load(Relaxed) == stream.key {
            return None;
        }
        // Of several streams, the first one's thread gets it.
        let claim = pair
            .waited
            .compare_exchange(word(NO_WAIT), word(CLAIMED), AcqRel, Relaxed);
        claim.ok()?;
        let ended = self.done.load(Acquire).wrapping_sub(number) as i32 > 0;
        let state = if ended {
            ENDED
        } else {
            self.record_wait(switch, pair, stream)
        };
        let id = self.driver.stream_id(stream.handle);
        pair.waiter.store(id, Relaxed);
        // Meets the Acquire in `take_waits`.
        pair.waited.store(word(state), Release);
        let place = number as usize % PAIRS;
        self.marked[place / 64].fetch_or(1 << (place % 64), Release);
        (state == RECORDED).then_some(Awaited { ring: self, number })
    }

    /// Records the event of a stream that waits; the new state.
    fn record_wait(&self, switch: &Switch, pair: &Pair, stream: Stream) -> u64 {
        let context = Some(self.context.handle);
        let driver = self.driver;
        // The event belongs to this context, and so must the stream.
        if !switch.wants_wait()
            || driver.current_context() != context
            || driver.context_of(stream.handle) != context
        {
            return UNTIMED;
        }
        match self.record(pair.wait.load(Relaxed), stream.handle) {
            Ok(true) => RECORDED,
            Ok(false) => UNTIMED,
            Err(code) => {
                switch.fail(code);
                UNTIMED
            }
        }
    }

    /// Whether streams wait for launches that the poller has not asked about.
    pub(super) fn has_waits(&self) -> bool {
        self.marked.iter().any(|word| word.load(Relaxed) != 0)
    }

    /// Keeps what is known of streams that wait for launches that have ended. `measure` gives the time from
    /// the event of such a stream to the launch's end, if the stream has come to it.
    pub(super) fn take_waits(
        &self,
        mut measure: impl FnMut(&Pair) -> Result<Option<f64>, u32>,
    ) -> Result<(), u32> {
        let (pushed, done) = (self.pushed.load(Acquire), self.done.load(Relaxed));
        // Streams that have not come to an event of this launch have not come to later ones.
        let mut behind = [None; 4];
        for place in (0..PAIRS).map(|i| (pushed as usize + i) % PAIRS) {
            let bit = 1 << (place % 64);
            if self.marked[place / 64].load(Acquire) & bit == 0 {
                continue;
            }
            let pair = &self.pairs[place];
            let word = pair.waited.load(Acquire);
            let (number, state) = ((word >> 3) as u32, word & 7);
            let ended = done.wrapping_sub(number) as i32 > 0;
            let waiter = pair.waiter.load(Relaxed);
            if matches!(state, RECORDED | ENDED | UNTIMED) && !ended {
                continue;
            }
            // The launching thread must not record this pair again while it is asked about.
            let is_old = pushed.wrapping_sub(number) > PAIRS as u32 / 2;
            let length = if state != RECORDED || is_old || behind.contains(&Some(waiter)) {
                None
            } else {
                measure(pair)?
            };
            let known = match (state, length) {
                (RECORDED, Some(length)) => Waited::For(length as i64, waiter),
                (RECORDED | ENDED, _) => Waited::Ended(waiter),
                (UNTIMED, _) => Waited::Untimed(waiter),
                _ => Waited::Not,
            };
            self.keep_wait(number, known);
            if state == RECORDED && length.is_none() && !is_old {
                behind.rotate_right(1);
                behind[0] = Some(waiter);
            } else {
                self.marked[place / 64].fetch_and(!bit, Relaxed);
            }
        }
        Ok(())
    }

    fn keep_wait(&self, number: u32, known: Waited) {
        let kept = &self.spans[number as usize % KEPT];
        if kept.number.load(Relaxed) != u64::from(number) + 1 {
            return;
        }
        let (state, length, waiter) = match known {
            Waited::Not => return,
            Waited::For(length, waiter) => (RECORDED, length, waiter),
            Waited::Ended(waiter) => (ENDED, 0, waiter),
            Waited::Untimed(waiter) => (UNTIMED, 0, waiter),
        };
        kept.waited_for.store(length, Relaxed);
        kept.waiter.store(waiter, Relaxed);
        // Meets the Acquire in `waited`.
        kept.wait.store(state as u8, Release);
    }

    /// What is known of a stream that waited for a launch.
    pub fn waited(&self, number: u32) -> Waited {
        let kept = &self.spans[number as usize % KEPT];
        let waited = kept.read(number, || {
            let state = u64::from(kept.wait.load(Acquire));
            let waiter = kept.waiter.load(Relaxed);
            match state {
                RECORDED => Waited::For(kept.waited_for.load(Relaxed), waiter),
                ENDED => Waited::Ended(waiter),
                UNTIMED => Waited::Untimed(waiter),
                _ => Waited::Not,
            }
        });
        waited.unwrap_or(Waited::Not)
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

    /// Keeps how far the GPU has come with the oldest launch that has not ended.
    pub(super) fn keep_oldest(&self, found: Option<OpenLaunch>) {
        if let Some(found) = found {
            self.asked.store(found.asked, Relaxed);
        }
        let word = found.map_or(0, |found| {
            u64::from(found.number) << 2 | u64::from(found.on_gpu)
        });
        // Meets the Acquire in `oldest`.
        self.oldest.store(word, Release);
    }

    /// The oldest launch that has not ended, if it has been under way for long.
    pub fn oldest(&self) -> Option<OpenLaunch> {
        let word = self.oldest.load(Acquire);
        let on_gpu = (word & 3) as u32;
        (on_gpu != on_gpu::NOT_ASKED).then(|| OpenLaunch {
            number: (word >> 2) as u32,
            on_gpu,
            asked: self.asked.load(Relaxed),
        })
    }

    /// It is of no communicator: launches of graphs are timed by it.
    pub fn give_to_graphs(&self) {
        self.of_graphs.store(true, Relaxed);
    }

    /// Sets how sparse the sample is, if it is the ring of launches of graphs.
    pub(super) fn keep_pace_of_graphs(&self, level: impl FnOnce(u32) -> Option<u32>) {
        if self.of_graphs.load(Relaxed) {
            if let Some(level) = level(self.launches.load(Relaxed)) {
                self.least.store(level, Relaxed);
            }
        }
    }

    /// What was launched, by kind.
    pub(super) fn kinds(&self) -> &[Kind] {
        &self.kinds[..]
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
        self.marked.iter().for_each(|word| word.store(0, Relaxed));
        self.keep_oldest(None);
    }

    /// Whether another communicator of this context may have it: it is closed, and nothing is under way.
    fn is_spare(&self, context: Context) -> bool {
        self.context == context
            && self.closed.load(Acquire)
            && self.pushed.load(Relaxed) == self.sure.load(Acquire)
    }

    fn reopen(&self) {
        self.kinds.iter().for_each(Kind::reset);
        self.silent.store(0, Relaxed);
        self.caller.store(0, Relaxed);
        self.blocking.store(0, Relaxed);
        self.bracket.store(0, Relaxed);
        self.of_graphs.store(false, Relaxed);
        self.least.store(0, Relaxed);
        self.closed.store(false, Release);
    }

    /// The times of a launch: `None` while they are not known, `Some(None)` if they never will be.
    pub fn span(&self, number: u32, switch: &Switch) -> Option<Option<LaunchTime>> {
        let sure = self.sure.load(Acquire).wrapping_sub(number) as i32 > 0;
        if !sure {
            return switch.is_off().then_some(None);
        }
        let kept = &self.spans[number as usize % KEPT];
        Some(kept.read(number, || LaunchTime {
            start: kept.start.load(Relaxed),
            ns: kept.length.load(Relaxed),
            error: kept.error.load(Relaxed),
        }))
    }

    pub(super) fn forget(&self, number: u32) {
        self.spans[number as usize % KEPT].number.store(0, Release);
    }

    pub(super) fn keep(&self, number: u32, span: &LaunchTime) {
        let kept = &self.spans[number as usize % KEPT];
        kept.number.store(0, Relaxed);
        // Whoever sees one of the new values sees that the number is gone.
        fence(Release);
        kept.start.store(span.start, Relaxed);
        kept.length.store(span.ns, Relaxed);
        kept.error.store(span.error, Relaxed);
        kept.wait.store(NO_WAIT as u8, Relaxed);
        kept.number.store(u64::from(number) + 1, Release);
    }
}

/// All rings of the process. Rings are never dropped: a callback may hold one at any time.
pub struct Rings {
    clock: Clock,
    pub(super) list: [AtomicPtr<Ring>; RINGS],
}

/// Rings at most. A communicator beyond them has host times only.
const RINGS: usize = 64;

impl Rings {
    pub fn new(clock: Clock) -> Rings {
        Rings {
            clock,
            list: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &'static Ring> + '_ {
        // SAFETY: null, or a box that was leaked.
        self.list
            .iter()
            .map_while(|ring| unsafe { ring.load(Acquire).as_ref() })
    }

    /// The ring with this index.
    pub fn at(&self, index: u8) -> Option<&'static Ring> {
        // SAFETY: as above.
        unsafe { self.list.get(usize::from(index))?.load(Acquire).as_ref() }
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
        let index = self.all().count();
        let free = self.list.get(index).filter(|_| pages::are_spare())?;
        let ring = Box::leak(Box::new(Ring::make(driver, self.clock, index as u8)?));
        free.store(ring, Release);
        Some(ring)
    }
}
