//! GPU times from CUDA events: one recorded before a kernel's launch and one behind it, in stream order.
//!
//! Each communicator has a ring of event pairs, made at its init in the context that is current there. The launching
//! thread takes the next pair, records its two events and goes on: [`Ring::begin`] and [`Ring::end`]. The recorder's
//! thread asks for the oldest ones, in order, and keeps their times: [`Poller`]. No other thread calls CUDA, and nothing
//! is ever waited for in a callback.
//!
//! Times are told on the host's clock. An event on a stream of our own, which is always idle, is bracketed by two host
//! reads now and then (an anchor); `cuEventElapsedTime` to the newest anchor gives the rest, with an error that is half the
//! bracket, what two clocks may drift apart until then ([`DRIFT`]), and what a float can tell.
//!
//! Rule: the first failure of CUDA that is not a capture's ends this for the whole process. A sticky error belongs to the
//! program, which must be the one to see it, and a driver that shuts down must not be called.

use crate::cuda::Driver;
use crate::recorder::making::array;
use std::sync::atomic::{
    fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use std::time::{Duration, Instant};

/// Launches of a communicator whose times are not known yet, at most.
pub const PAIRS: usize = 1024;
/// Times that are kept until their rows are sealed: a launch has at least one row, and a live part of usual size 8192.
const KEPT: usize = 8192;
/// What two clocks may drift apart, as a share of the time passed: 10 to 100 ppm are told of GPUs.
const DRIFT: f64 = 100e-6;
/// Between anchors while launches are timed. Rows wait for the next one, and there is room for some 80 ms of a flood.
const ANCHOR_EVERY: Duration = Duration::from_millis(20);
/// Between looks for launches that have ended.
const POLL_EVERY: Duration = Duration::from_millis(10);
/// An anchor whose bracket is wider than this is tried again.
const BRACKET_NS: f64 = 20_000.0;
/// Between two questions for an anchor.
const BETWEEN_NS: f64 = 2_000.0;
/// What timing a launch costs the GPU's stream when it is full, ns: 5.4 us were measured on H200, whatever the size.
const COST_NS: f64 = 5_400.0;
/// Launches timed without a look at the rate, after a calm time; a step's calls come in bursts.
const BURST: u32 = 256;
/// The same once the burst is used up: a flood gets sparser after each of these.
const FLOOD: u32 = 32;
/// Between looks at the rate.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Functions and size classes that are counted apart for sampling.
const FUNCTIONS: usize = 16;
const CLASSES: usize = 32;
/// The first calls of each kind are timed whatever the rate.
const FIRST: u32 = 8;
/// The sparsest sample with a budget of 1 %, one in `1 << DEEPEST`, whatever the rate: a flood of launches on the fastest machine
/// seen (one each 9 us) then costs 1.8 %. A smaller budget may go deeper.
const DEEPEST: u32 = 5;

/// What became of a launch, in place of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// By this pair.
    By(u32),
    /// Left out to keep to the budget.
    Unsampled,
    /// All pairs are under way, the launch is captured into a graph, or timing has ended.
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

/// Whether CUDA may still be called by this process, and how much of the launches is timed.
pub struct Switch {
    /// 1 once no CUDA function may be called any more.
    off: AtomicBool,
    /// CUDA's error that ended it; 0 none.
    pub error: AtomicU32,
    /// The recorder's thread is in a CUDA function.
    polling: AtomicBool,
    /// One in `1 << level` launches is timed.
    level: AtomicU32,
    /// Launches that may be timed before the recorder's thread looks again.
    credit: AtomicU32,
    /// Launches timed per second at most, as long as that leaves a sample; 0 no limit.
    limit: f64,
    /// The level is at most this.
    deepest: u32,
}

impl Switch {
    /// `budget` is the share of the GPU's time that timing may take; `None` times every launch.
    pub fn new(budget: Option<f64>) -> Switch {
        Switch {
            off: AtomicBool::new(false),
            error: AtomicU32::new(0),
            polling: AtomicBool::new(false),
            level: AtomicU32::new(0),
            credit: AtomicU32::new(BURST),
            limit: budget.map_or(0.0, |share| share * 1e9 / COST_NS),
            deepest: budget.map_or(0, |share| {
                (f64::from(DEEPEST) + (0.01 / share).log2())
                    .ceil()
                    .clamp(0.0, 31.0) as u32
            }),
        }
    }

    fn is_off(&self) -> bool {
        self.off.load(Acquire)
    }

    /// No CUDA function is called from now on; waits until none is being called by the recorder's thread, at most 100 ms.
    pub fn end(&self) {
        self.off.store(true, Release);
        fence(SeqCst);
        for _ in 0..1000 {
            if !self.polling.load(Acquire) {
                return;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    #[cold]
    fn fail(&self, code: u32) {
        self.error.store(code, Relaxed);
        self.off.store(true, Release);
    }

    /// Whether the `index`-th launch of its kind is of the sample.
    #[inline]
    fn wants(&self, index: u32) -> bool {
        if self.limit == 0.0 {
            return true;
        }
        let level = self.level.load(Relaxed);
        let first = index < FIRST;
        if !first && !sampled(index, level) {
            return false;
        }
        // The rate is known some milliseconds later only: a flood is noticed here.
        let credit = self.credit.load(Relaxed);
        if credit == 0 {
            self.level.store((level + 1).min(self.deepest), Relaxed);
            self.credit.store(FLOOD, Relaxed);
        } else {
            self.credit.store(credit - 1, Relaxed);
        }
        true
    }
}

/// Nested samples of one in `1 << level`: what is in a sparser one is in each denser one. Ranks that agree on the level
/// take the same calls, and share those of the sparser sample where they don't. Mixed, so that no stride of a model's
/// layers can line up with it.
fn sampled(index: u32, level: u32) -> bool {
    let mut mixed = index.wrapping_add(0x9e37_79b9);
    mixed = (mixed ^ mixed >> 16).wrapping_mul(0x85eb_ca6b);
    mixed = (mixed ^ mixed >> 13).wrapping_mul(0xc2b2_ae35);
    (mixed ^ mixed >> 16).trailing_zeros() >= level
}

/// One launch under way.
#[derive(Default)]
struct Pair {
    before: AtomicU64,
    after: AtomicU64,
}

/// Of a communicator: the event pairs, and the times of the newest launches.
pub struct Ring {
    driver: &'static Driver,
    context: u64,
    pairs: Box<[Pair; PAIRS]>,
    /// Pairs recorded so far, by the launching thread.
    pushed: AtomicU32,
    /// Those of them that have ended; their times are in `spans`.
    done: AtomicU32,
    /// Those of them whose times an anchor behind them has confirmed.
    sure: AtomicU32,
    /// Launches seen, timed or not.
    launches: AtomicU32,
    /// A pair's first event is recorded and its second is not yet.
    open: AtomicBool,
    /// The bracket that is open around a call without a launch event ([`Timed::pack`]).
    bracket: AtomicU64,
    /// Bits: functions (by number) whose launches NCCL does not tell of.
    silent: AtomicU32,
    /// The thread of the newest group; 0 none.
    caller: AtomicU64,
    /// Whether the communicator's calls launch before they return: 0 not known, 1 yes, 2 not always.
    blocking: AtomicU8,
    indexes: Box<[AtomicU32; FUNCTIONS * CLASSES]>,
    spans: Box<[Kept; KEPT]>,
    /// Its communicator was finalized: nobody launches any more.
    closed: AtomicBool,
}

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
    /// For the context that is current; `None` without one, or when CUDA makes no events.
    pub fn make(driver: &'static Driver) -> Option<Ring> {
        let context = driver.current_context()?;
        let pairs: Box<[Pair; PAIRS]> = array(zeroed(PAIRS));
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
            indexes: array(zeroed(FUNCTIONS * CLASSES)),
            spans: array(zeroed(KEPT)),
            closed: AtomicBool::new(false),
        })
    }

    /// Before a launch on `stream` whose first call is of this function (its number) and count. Records the first event if
    /// the launch is to be timed.
    #[inline]
    pub fn begin(&self, switch: &Switch, stream: u64, func: u8, count: u64) -> Timed {
        self.launches
            .store(self.launches.load(Relaxed).wrapping_add(1), Relaxed);
        if switch.is_off() {
            return Timed::No;
        }
        // A launch that never ended leaves its pair for the next.
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
        // NCCL launches where its communicator lives; a program that switches contexts in between is left alone.
        if self.driver.current_context() != Some(self.context) {
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

    /// Behind the launch that [`Ring::begin`] timed.
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

    /// A launch begins on this thread: that of its call, or one of NCCL's own where the communicator is non-blocking.
    #[inline]
    pub fn launched_by(&self, thread: u64) {
        let blocking = self.blocking.load(Relaxed);
        if blocking != 2 {
            let same = self.caller.load(Relaxed) == thread;
            self.blocking.store(if same { 1 } else { 2 }, Relaxed);
        }
    }

    /// Whether a call of this function is to be timed from its group's end to its return: NCCL does not tell of its launch,
    /// and other launches have shown that this communicator's calls launch before they return.
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

    /// Keeps what [`Ring::begin`] said for the call's return.
    pub fn bracket(&self, timed: Timed) {
        self.bracket.store(timed.pack(), Relaxed);
    }

    /// See [`Ring::bracket`].
    #[inline]
    pub fn take_bracket(&self) -> Timed {
        let packed = self.bracket.load(Relaxed);
        if packed != 0 {
            self.bracket.store(0, Relaxed);
        }
        Timed::unpack(packed)
    }

    /// Launches whose times are not known yet.
    fn under_way(&self) -> usize {
        let pushed = self.pushed.load(Acquire);
        pushed.wrapping_sub(self.done.load(Relaxed)) as usize
    }

    /// Nobody launches on its communicator any more.
    pub fn close(&self) {
        self.closed.store(true, Release);
    }

    /// Whether another communicator of this context may have it: closed, and nothing under way.
    fn is_spare(&self, context: u64) -> bool {
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

    /// The times of a launch: `None` while they are not known, `Some(None)` when they never will be.
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

    fn forget(&self, number: u32) {
        self.spans[number as usize % KEPT].number.store(0, Release);
    }

    fn keep(&self, number: u32, span: &Span) {
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
    list: [AtomicPtr<Ring>; RINGS],
}

/// Rings at most: a communicator beyond has host times only.
const RINGS: usize = 64;

impl Rings {
    pub fn new() -> Rings {
        Rings {
            list: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
        }
    }

    fn all(&self) -> impl Iterator<Item = &'static Ring> + '_ {
        // SAFETY: null, or a box that was leaked.
        self.list
            .iter()
            .map_while(|ring| unsafe { ring.load(Acquire).as_ref() })
    }

    /// A ring for a communicator in the context that is current: a spare one or a new one. Under the init lock.
    pub fn take(&self, driver: &'static Driver) -> Option<&'static Ring> {
        let context = driver.current_context()?;
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

/// A context's newest anchor.
struct Anchor {
    context: u64,
    stream: u64,
    /// Two, so that an anchor can be compared with the one before it.
    events: [u64; 2],
    newest: usize,
    ticks: u64,
    /// Half the bracket, ns; infinite before the first anchor.
    half: f64,
    at: Instant,
    /// The GPU's clock was found to have stepped not after this, ticks.
    stepped: u64,
}

/// Reads the host's clock and knows its rate.
pub struct HostClock<'a> {
    pub ticks: &'a dyn Fn() -> u64,
    pub ns_per_tick: f64,
}

/// The recorder's thread's part.
#[derive(Default)]
pub struct Poller {
    anchors: Vec<Anchor>,
    /// Since when launches are counted for the rate, and how many there were then.
    since: Option<(Instant, u32)>,
    calm: u32,
    relaxed: bool,
    polled: Option<Instant>,
}

impl Poller {
    /// Takes in the launches that have ended since; returns how many are under way. Unless a ring fills up, that is once in
    /// [`POLL_EVERY`], because every question takes the driver's lock. `last` asks at once and confirms them all, because nobody will
    /// ask again.
    pub fn poll(
        &mut self,
        driver: &Driver,
        rings: &Rings,
        switch: &Switch,
        clock: &HostClock,
        last: bool,
    ) -> usize {
        if rings.list[0].load(Relaxed).is_null() {
            return 0;
        }
        self.rate(rings, switch);
        let full = |ring: &Ring| ring.under_way() > PAIRS / 4;
        let due = self.polled.is_none_or(|at| at.elapsed() >= POLL_EVERY);
        if !last && !due && !rings.all().any(full) {
            return 0;
        }
        self.polled = Some(Instant::now());
        switch.polling.store(true, Release);
        // Between the store and the load: whoever switches off sees the one, or is seen by the other.
        fence(SeqCst);
        let mut under_way = 0;
        if !switch.is_off() {
            // Queries while another thread captures a graph would end its capture; for this thread alone they are allowed.
            if !self.relaxed {
                driver.relax_capture();
                self.relaxed = true;
            }
            match self.poll_all(driver, rings, clock, last) {
                Ok(n) => under_way = n,
                Err(code) => switch.fail(code),
            }
        }
        switch.polling.store(false, Release);
        under_way
    }

    fn poll_all(
        &mut self,
        driver: &Driver,
        rings: &Rings,
        clock: &HostClock,
        last: bool,
    ) -> Result<usize, u32> {
        let mut under_way = 0;
        for ring in rings.all() {
            let pushed = ring.pushed.load(Acquire);
            if pushed == ring.sure.load(Relaxed) {
                continue;
            }
            driver.set_context(ring.context)?;
            let anchor = self.anchor_of(driver, ring.context)?;
            refresh(anchor, driver, rings, clock, false)?;
            let mut done = ring.done.load(Relaxed);
            while done != pushed && anchor.half.is_finite() {
                let pair = &ring.pairs[done as usize % PAIRS];
                let (before, after) = (pair.before.load(Relaxed), pair.after.load(Relaxed));
                if !driver.has_ended(after)? {
                    break;
                }
                if let Some(span) = measure(anchor, driver, clock, before, after)? {
                    ring.keep(done, &span);
                }
                done = done.wrapping_add(1);
                ring.done.store(done, Release);
            }
            if last {
                refresh(anchor, driver, rings, clock, true)?;
            }
            under_way += pushed.wrapping_sub(done) as usize;
        }
        Ok(under_way)
    }

    /// The anchor of a context, which is current.
    fn anchor_of(&mut self, driver: &Driver, context: u64) -> Result<&mut Anchor, u32> {
        if let Some(at) = self.anchors.iter().position(|a| a.context == context) {
            return Ok(&mut self.anchors[at]);
        }
        let (Some(stream), Some(first), Some(second)) =
            (driver.new_stream(), driver.new_event(), driver.new_event())
        else {
            return Err(OUT_OF_MEMORY);
        };
        self.anchors.push(Anchor {
            context,
            stream,
            events: [first, second],
            newest: 0,
            ticks: 0,
            half: f64::INFINITY,
            at: Instant::now(),
            stepped: 0,
        });
        let newest = self.anchors.len() - 1;
        Ok(&mut self.anchors[newest])
    }

    /// Sets how sparse the sample must be for the launches of late.
    fn rate(&mut self, rings: &Rings, switch: &Switch) {
        if switch.limit == 0.0 {
            return;
        }
        let launches = rings
            .all()
            .fold(0u32, |sum, r| sum.wrapping_add(r.launches.load(Relaxed)));
        let Some((since, before)) = self.since else {
            self.since = Some((Instant::now(), launches));
            return;
        };
        let passed = since.elapsed();
        if passed < LOOK_EVERY {
            return;
        }
        self.since = Some((Instant::now(), launches));
        let rate = f64::from(launches.wrapping_sub(before)) / passed.as_secs_f64();
        // Between two powers of two the nearer one in cost: up to a quarter above the budget, or well below it.
        let sparse = (rate / (1.25 * switch.limit)).log2().ceil().max(0.0) as u32;
        let level = switch.level.load(Relaxed);
        if sparse >= level {
            self.calm = 0;
            switch.level.store(sparse.min(switch.deepest), Relaxed);
        } else {
            // A step's calls come in bursts: the level falls slowly.
            self.calm += 1;
            if self.calm >= 10 {
                self.calm = 0;
                switch.level.store(level - 1, Relaxed);
            }
        }
        let usual = 2.0 * switch.limit * LOOK_EVERY.as_secs_f64();
        let credit = if switch.level.load(Relaxed) == 0 {
            BURST
        } else {
            (usual as u32).max(FLOOD)
        };
        switch.credit.store(credit, Relaxed);
    }
}

/// CUDA's own word for it, told when an anchor's stream or events can't be made.
const OUT_OF_MEMORY: u32 = 2;

/// The times of a launch by the newest anchor; `None` when they can't be right.
fn measure(
    anchor: &Anchor,
    driver: &Driver,
    clock: &HostClock,
    before: u64,
    after: u64,
) -> Result<Option<Span>, u32> {
    let length = driver.elapsed_ns(before, after)?;
    let since = driver.elapsed_ns(anchor.events[anchor.newest], before)?;
    let seen = (clock.ticks)();
    let error = anchor.half + since.abs() * (DRIFT + f64::from(f32::EPSILON));
    let ticks = |ns: f64| (ns / clock.ns_per_tick) as i64;
    let start = anchor.ticks.wrapping_add_signed(ticks(since));
    let least_end = start.wrapping_add_signed(ticks(length - error));
    // Nothing ends after it was seen to have ended.
    let possible = length >= 0.0 && least_end.wrapping_sub(seen) as i64 <= 0;
    let unspoilt = start.wrapping_sub(anchor.stepped) as i64 > 0;
    Ok((possible && unspoilt).then(|| Span {
        start: start & !(GRAIN - 1),
        length: ((length as u64 + GRAIN / 2) & !(GRAIN - 1)).max(GRAIN),
        error: rounded_up(error.min(1e9) as u32),
    }))
}

/// Rounded up to two binary digits, so that neighbours' errors are mostly equal and take no room in the file.
fn rounded_up(error: u32) -> u32 {
    let step = 1 << (30 - (error | 1).leading_zeros().min(30));
    error.div_ceil(step) * step
}

/// Times are kept in steps of so many ticks and ns, which is well below what events resolve.
const GRAIN: u64 = 16;

/// Makes a new anchor if the newest is old, or at once; and says of the launches that ended since the one before whether
/// their times are right: the GPU's clock and the host's must have gone on alike.
fn refresh(
    anchor: &mut Anchor,
    driver: &Driver,
    rings: &Rings,
    clock: &HostClock,
    at_once: bool,
) -> Result<(), u32> {
    let known = anchor.half.is_finite();
    if known && !at_once && anchor.at.elapsed() < ANCHOR_EVERY {
        return Ok(());
    }
    let next = 1 - anchor.newest;
    let event = anchor.events[next];
    let mut found = None;
    // The last try's record is the one that the event stands for.
    for _ in 0..4 {
        let before = (clock.ticks)();
        if !driver.record(event, anchor.stream)? {
            return Ok(());
        }
        let deadline = Instant::now() + Duration::from_millis(2);
        while !driver.has_ended(event)? {
            if Instant::now() > deadline {
                return Ok(());
            }
            // Each question takes the driver's lock, which launches need.
            let asked = (clock.ticks)();
            while ((clock.ticks)().wrapping_sub(asked) as f64 * clock.ns_per_tick) < BETWEEN_NS {
                std::hint::spin_loop();
            }
        }
        let width = (clock.ticks)().wrapping_sub(before);
        let half = width as f64 * clock.ns_per_tick / 2.0;
        found = Some((before.wrapping_add(width / 2), half));
        if half * 2.0 < BRACKET_NS {
            break;
        }
    }
    let Some((ticks, half)) = found else {
        return Ok(());
    };
    if known {
        let by_gpu = driver.elapsed_ns(anchor.events[anchor.newest], event)?;
        let by_host = ticks.wrapping_sub(anchor.ticks) as f64 * clock.ns_per_tick;
        let allowed = half + anchor.half + by_host * (DRIFT + f64::from(f32::EPSILON));
        if (by_gpu - by_host).abs() > allowed {
            anchor.stepped = ticks;
        }
    }
    let stepped = anchor.stepped == ticks && known;
    for ring in rings.all().filter(|ring| ring.context == anchor.context) {
        let (sure, done) = (ring.sure.load(Relaxed), ring.done.load(Relaxed));
        if stepped {
            (0..done.wrapping_sub(sure)).for_each(|i| ring.forget(sure.wrapping_add(i)));
        }
        ring.sure.store(done, Release);
    }
    (anchor.newest, anchor.ticks, anchor.half, anchor.at) = (next, ticks, half, Instant::now());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_nested_and_of_the_right_size() {
        for level in 0..10 {
            let of = |level| (0..1 << 16).filter(|i| sampled(*i, level)).count() as f64;
            let expected = f64::from(1 << (16 - level));
            assert!((of(level) / expected - 1.0).abs() < 0.25, "level {level}");
            assert!((0..1 << 16).all(|i| !sampled(i, level + 1) || sampled(i, level)));
        }
    }

    #[test]
    fn no_stride_of_layers_is_left_out_or_taken_alone() {
        for stride in 2..=64u32 {
            let mut seen = vec![0; stride as usize];
            for i in (0..1 << 16).filter(|i| sampled(*i, 5)) {
                seen[(i % stride) as usize] += 1;
            }
            let (least, most) = (seen.iter().min(), seen.iter().max());
            assert!(
                least > Some(&0) && most < Some(&(3 * 2048 / stride + 30)),
                "{stride}: {seen:?}"
            );
        }
    }

    #[test]
    fn errors_are_never_rounded_down() {
        for (error, rounded) in [
            (0, 0),
            (1, 1),
            (3, 3),
            (5, 6),
            (1000, 1024),
            (4500, 6144),
            (1 << 29, 1 << 29),
        ] {
            assert_eq!(rounded_up(error), rounded);
        }
    }

    #[test]
    fn a_flood_is_thinned_out_before_the_rate_is_known() {
        let switch = Switch::new(Some(0.01));
        let timed = (0..100_000).filter(|i| switch.wants(*i)).count();
        let least = 100_000 >> DEEPEST;
        let most = least * 5 / 4 + (BURST + DEEPEST * FLOOD) as usize;
        assert!((least * 3 / 4..most).contains(&timed), "{timed}");
        let sparse = Switch::new(Some(0.001));
        assert_eq!((sparse.deepest, Switch::new(Some(0.3)).deepest), (9, 1));
        assert!(Switch::new(None).wants(99_999));
    }
}
