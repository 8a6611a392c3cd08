//! Kernel windows: for a short time now and then, everything that runs on the process's GPUs.
//!
//! NCCL announces its calls and nothing around them. In a window, CUPTI records every kernel, copy and fill
//! ([`store`]), and functions before the driver's note what the host asks for ([`asked`]). From both, a
//! reader finds which communication was exposed, and what a late rank costs. Windows are opened and closed by
//! the recorder's second thread (`writer::gpu_thread`):
//!
//! ```text
//!            a point, budget allows            as long as planned,         all records came,
//!                 nobody else uses CUPTI      or it is full               or they are too late
//!   closed ───────────────────────────▶ open ───────────────▶ draining ───────────────────▶ blocks, closed
//!                                         │  another profiler begins: neighbours, on its thread
//!                                         └──────────────────────────────▶ blocks, closed
//! ```
//!
//! **When.** All ranks must look at the same steps. They have no way to agree, so windows begin at calls that
//! each counts by itself ([`schedule`]). A reader says if the windows of two ranks do not overlap.
//!
//! **Whether.** CUPTI slows launches for the rest of the job once it was on, so it is only switched on if the
//! job can afford that ([`price`]).
//!
//! **Cost.** Kernels run 1 to 5 % slower in a window (measured), so a twentieth of the time in windows stays
//! within a budget of 1 %. If the job is slower in them than that allows, there are fewer ([`felt`]). Now and
//! then, CUDA events are not recorded for a while either ([`Windows::is_quiet`]): from windows, quiet spells
//! and what is beside them a reader finds what both cost this job.
//!
//! Rule: the first error of CUPTI ends windows for the rest of the process. No window is open while another
//! profiler uses CUPTI. Memory is bounded: [`store::MOST`] records, [`driver_calls::MOST`] calls and
//! [`cupti::make_buffers`].

pub mod cupti;
mod cupti_clock;
pub mod driver_calls;
mod felt;
pub mod neighbours;
pub mod price;
mod schedule;
pub mod steps;
mod store;

use crate::clock::Clock;
use crate::cuda::{driver_function, has_mps};
use crate::interpose::objects;
use crate::lock::Lock;
use crate::settings::When;
use capture::block::BlockKind;
use capture::live::Header;
use capture::rows::Ticks;
use capture::windows::{self, ActivityKind, DriverCallKind, End, GpuActivity, Window};
use cupti::Cupti;
use cupti_clock::{ahead, ticks_per_ns, CuptiAnchor, ToTicks, CLOCK_SET, CLOCK_SLACK};
use felt::Felt;
use price::{Decision, Price};
use schedule::{Due, Schedule};
use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::{Duration, Instant};

/// How long records of a window are waited for: a kernel that waits for a late rank may run this long.
const LATE: Duration = Duration::from_secs(10);
/// Between two flushes of a window that drains.
const DRAIN: Duration = Duration::from_millis(50);
/// CUPTI takes 40 to 170 ms when it is first switched on, in which launches wait (measured), and later
/// 0.03 ms. So it is switched on and off for no time when the job has begun to make calls, rather than in its
/// first steps.
const WARM_UP: Duration = Duration::ZERO;
/// A window has all its records when none came for so long, and all buffers are back.
const SETTLED: Duration = Duration::from_millis(150);

/// Why there are no windows, in `Header::windows_off`.
pub mod off {
    pub const NOT_ASKED: u32 = 1;
    pub const NO_CUPTI: u32 = 2;
    pub const FOREIGN_TOOL: u32 = 3;
    pub const ERROR: u32 = 4;
    pub const NO_MEMORY: u32 = 5;
    pub const NO_DRIVER: u32 = 6;
    /// Not for good: the host may come to be ahead of its GPU.
    pub const TOO_DEAR: u32 = 7;
    pub const SHARED_GPU: u32 = 8;
    /// The version of CUPTI is in `Header::windows_code`.
    pub const UNSAFE_CUPTI: u32 = 9;
}

/// Switching on and off is done by the recorder's second thread, and off also by the thread of another
/// profiler.
static SWITCH: Lock = Lock::new();
struct Shared(UnsafeCell<Open>);
// SAFETY: only touched under SWITCH.
unsafe impl Sync for Shared {}
static OPEN: Shared = Shared(UnsafeCell::new(Open::Closed));

#[derive(Clone, Copy)]
enum Open {
    Closed,
    /// Switched on.
    On(&'static Cupti, Clock),
    /// Switched off, and CUPTI still has buffers of ours.
    Draining(&'static Cupti),
    /// Switched off by another profiler's thread: since when, and the error that this gave.
    GivenUp([Ticks; 2], u32),
    /// The buffers were taken back by another profiler's thread, with this error.
    TakenBack(u32),
}

fn switched<T>(act: impl FnOnce(&mut Open) -> T) -> T {
    let _held = SWITCH.lock();
    // SAFETY: under the lock, and `act` does not come back here.
    act(unsafe { &mut *OPEN.0.get() })
}

/// Closes the window and takes every buffer back, on the thread of another profiler that is about to use
/// CUPTI.
fn give_up() {
    switched(|open| match *open {
        Open::On(cupti, clock) => {
            driver_calls::end();
            let closing = clock.ticks();
            let result = cupti.end().and(cupti.flush(true));
            *open = Open::GivenUp([closing, clock.ticks()], result.err().unwrap_or(0));
        }
        Open::Draining(cupti) => {
            *open = Open::TakenBack(cupti.flush(true).err().unwrap_or(0));
        }
        _ => {}
    });
}

/// One block to be written.
pub type EncodedBlock = (BlockKind, Vec<u8>);

/// How far the job has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Calls on the communicator with the most ranks, launches of graphs included.
    pub calls: u64,
    /// The number at which windows begin: `calls`, or the time in ms.
    pub at: u64,
    /// The host is known to be ahead of its GPU.
    pub ahead: bool,
    /// For how long launches of graphs waited for room in their stream, ticks.
    pub in_launches: u64,
    /// The job ends.
    pub last: bool,
}

/// The windows of a process: used by one thread at a time.
pub struct Windows {
    schedule: Schedule,
    felt: Felt,
    cupti: Option<&'static Cupti>,
    /// Looked for CUPTI; its absence is final.
    looked: bool,
    now: State,
    number: u32,
    /// The number for windows that was told of last.
    at: u64,
    /// [`ahead`] when the window was opened.
    ahead: u64,
    /// CUPTI's clock at that moment.
    anchor: Option<CuptiAnchor>,
    price: Price,
    /// When CUPTI is to be set up, if the job can afford it; `None` before it was found, and afterwards.
    warm_up_at: Option<Instant>,
    /// What is open, or drains, is no window ([`WARM_UP`]).
    warming_up: bool,
    /// There are launches that are not seen, or may be: callers are to be searched for.
    misses_callers: bool,
}

enum State {
    Closed,
    Open(Window, Instant, Duration),
    Draining(Window, Instant, (usize, Instant)),
    /// CUDA events are not recorded.
    Quiet(Window, Instant),
    /// For good.
    Off,
}

impl Windows {
    /// `budget` is the share of the time that windows and events may cost.
    pub fn new(when: When, budget: f64) -> Windows {
        let asked_for = when != When::Off;
        Windows {
            schedule: Schedule::new(budget),
            felt: Felt::default(),
            cupti: None,
            looked: false,
            now: if asked_for { State::Closed } else { State::Off },
            number: 0,
            at: 0,
            ahead: 0,
            anchor: None,
            price: Price::new((when == When::Auto).then_some(budget)),
            warm_up_at: None,
            warming_up: false,
            misses_callers: false,
        }
    }

    /// How long may pass until the next look.
    pub fn patience(&self) -> Duration {
        match &self.now {
            State::Closed => self
                .schedule
                .until_next(self.at)
                .max(Duration::from_millis(1)),
            // It may have enough before.
            State::Open(_, since, length) => {
                let left = length.saturating_sub(since.elapsed());
                left.min(Duration::from_millis(10))
            }
            State::Quiet(..) => Duration::from_millis(2),
            State::Draining(..) => DRAIN,
            State::Off => Duration::MAX,
        }
    }

    /// Whether there will be none any more.
    pub fn are_off(&self) -> bool {
        matches!(self.now, State::Off)
    }

    /// Whether no CUDA events are to be recorded now.
    pub fn is_quiet(&self) -> bool {
        matches!(self.now, State::Quiet(..))
    }

    /// How long a step of the job takes, as far as is known: windows are long enough for some.
    pub fn step(&mut self, step: Duration) {
        self.schedule.step(step);
    }

    /// Whether to search for callers of the driver. That is so if the newest window has kernels that unseen
    /// calls launched, or if all launches must be seen now. Says so once.
    pub fn misses_callers(&mut self) -> bool {
        std::mem::take(&mut self.misses_callers)
    }

    /// Windows begin at other numbers from now on.
    pub fn recount(&mut self) {
        self.schedule.recount();
    }

    /// Opens the window or begins the quiet spell that is due while none is open.
    fn begin(&mut self, header: &Header, clock: Clock, now: Progress) {
        if self.may_set_up(header, clock, now) {
            self.warm_up_at = None;
            if neighbours::none() {
                self.open(header, clock, WARM_UP);
            }
            return;
        }
        match self.schedule.due(now.at, now.last) {
            Some(Due::Window(_)) if self.warm_up_at.is_some() => {}
            Some(Due::Window(length)) => self.open(header, clock, length),
            Some(Due::Quiet(length)) => {
                let mut window = self.new_window(clock);
                window.end = End::Quiet;
                self.now = State::Quiet(window, Instant::now() + length);
            }
            None => {}
        }
    }

    /// Does what is due; blocks to be written.
    pub fn poll(&mut self, header: &Header, clock: Clock, now: Progress) -> Vec<EncodedBlock> {
        let Progress {
            calls, at, last, ..
        } = now;
        let mut blocks = Vec::new();
        self.at = at;
        if !matches!(self.now, State::Off) {
            self.felt
                .calls(Instant::now(), calls, self.schedule.length());
            if self.felt.compare() {
                if let Some(slower) = self.felt.slower() {
                    self.schedule.felt(slower);
                }
            }
        }
        match &mut self.now {
            State::Off => {}
            // Before the first window is due: to search for others takes a while.
            State::Closed if !self.looked && calls > 0 && !last => {
                self.look(header);
            }
            // A job may end before anybody has looked.
            State::Closed if !self.looked && last && driver_function(c"cuInit").is_none() => {
                self.off(header, off::NO_DRIVER, 0);
            }
            State::Closed => self.begin(header, clock, now),
            State::Quiet(window, until) => {
                if Instant::now() >= *until || last {
                    (window.closing, window.closed) = (clock.ticks(), clock.ticks());
                    blocks.push(block_of(window));
                    self.now = State::Closed;
                }
            }
            State::Open(window, since, length) => {
                let (ran, lost) = store::count();
                let enough = self.schedule.is_enough(since.elapsed(), ran);
                let full =
                    lost > 0 || ran >= store::MOST || driver_calls::count() >= driver_calls::MOST;
                let over = since.elapsed() >= *length || enough || full || last;
                if !close(window, over) {
                    return blocks;
                }
                window.end = match window.end {
                    End::Planned if full => End::Full,
                    End::Planned if last => End::Exit,
                    end => end,
                };
                let yielded = window.end == End::Yielded;
                let now = Instant::now();
                self.felt.window(*since, now - *since);
                self.now = State::Draining(*window, now, (ran, now));
                if let (true, Some(cupti)) = (last && !yielded, self.cupti) {
                    // All that has run by now; the driver shuts down soon.
                    let _ = cupti.flush(true);
                }
                if yielded || last {
                    // What is not here by now won't come.
                    blocks = self.finish(header, clock);
                }
            }
            State::Draining(window, since, (seen, changed)) => {
                // Another profiler that took over since gets what is left.
                let (flushed, taken_back) = switched(|open| match *open {
                    Open::Draining(cupti) if neighbours::none() => (cupti.flush(last), false),
                    Open::TakenBack(0) => (Ok(()), true),
                    Open::TakenBack(code) => (Err(code), true),
                    _ => (Ok(()), false),
                });
                if let Err(code) = flushed {
                    (window.end, window.code) = (End::Failed, code);
                }
                let (ran, _) = store::count();
                if ran != *seen {
                    (*seen, *changed) = (ran, Instant::now());
                }
                let settled = changed.elapsed() >= SETTLED && cupti::buffers_out() == 0;
                let late = since.elapsed() >= LATE;
                let gone = (taken_back || last) && store::count().1 > 0;
                let missing = gone || (late && !settled);
                if missing && window.end == End::Planned {
                    window.end = End::Late;
                }
                if settled || late || taken_back || last || window.end == End::Failed {
                    blocks = self.finish(header, clock);
                }
            }
        }
        blocks
    }

    /// Whether CUPTI is to be set up now. If the job can't afford it, the header says so.
    fn may_set_up(&mut self, header: &Header, clock: Clock, progress: Progress) -> bool {
        let now = Instant::now();
        if progress.last || self.warm_up_at.is_none_or(|at| now < at) {
            return false;
        }
        let per_ns = ticks_per_ns(header, clock);
        let time = |ticks: u64| Duration::from_nanos((ticks as f64 / per_ns) as u64);
        let mut passed = driver_calls::passed(time);
        passed.waited += time(progress.in_launches);
        let (why, share) = match self.price.ask(now, passed, progress.calls, progress.ahead) {
            Decision::Yes => (0, 0),
            Decision::TooDear(share) => (off::TOO_DEAR, share),
            Decision::Search => {
                self.misses_callers = true;
                return false;
            }
            Decision::Wait => return false,
        };
        header.windows_code.store(share, Relaxed);
        header.windows_off.store(why, Release);
        if why == 0 {
            driver_calls::count_no_more();
            // What has looked the driver up by now is to be seen in the first window already. Launches wait
            // for CUPTI anyway.
            self.misses_callers = !self.price.has_searched();
        }
        why == 0
    }

    fn new_window(&mut self, clock: Clock) -> Window {
        self.number += 1;
        let now = clock.ticks();
        Window {
            number: self.number,
            planned: self.schedule.point(),
            opening: now,
            open: now,
            ..Window::default()
        }
    }

    /// Ends windows for good, and says why in the header.
    fn off(&mut self, header: &Header, why: u32, code: u32) {
        header.windows_code.store(code, Relaxed);
        header.windows_off.store(why, Release);
        driver_calls::count_no_more();
        self.now = State::Off;
    }

    /// Finds CUPTI, once, and watches who else uses it; false if there will be no windows.
    fn look(&mut self, header: &Header) -> bool {
        if !self.looked && driver_function(c"cuInit").is_none() {
            self.off(header, off::NO_DRIVER, 0);
            return false;
        }
        if neighbours::foreign_tool(&objects::names()).is_some() {
            self.off(header, off::FOREIGN_TOOL, 0);
            return false;
        }
        if !self.looked {
            self.looked = true;
            self.cupti = Cupti::find().map(|cupti| &*Box::leak(Box::new(cupti)));
            let Some(cupti) = self.cupti else {
                self.off(header, off::NO_CUPTI, 0);
                return false;
            };
            // Who asked for windows whatever they cost has them in these two cases, too.
            if self.price.is_limited() && has_mps() {
                self.off(header, off::SHARED_GPU, 0);
                return false;
            }
            if self.price.is_limited() && !cupti.is_safe() {
                self.off(header, off::UNSAFE_CUPTI, cupti.version());
                return false;
            }
            if !driver_calls::make() || !cupti::make_buffers() {
                self.off(header, off::NO_MEMORY, 0);
                return false;
            }
            cupti::deliver_to(cupti, store::add);
            neighbours::watch(give_up);
            // By then it is known whether somebody uses it already.
            self.warm_up_at = Some(Instant::now() + neighbours::SILENCE);
        } else {
            neighbours::watch(give_up);
        }
        true
    }

    fn open(&mut self, header: &Header, clock: Clock, length: Duration) {
        if !self.look(header) {
            return;
        }
        let Some(cupti) = self.cupti else { return };
        if !neighbours::none() {
            // Somebody else's turn; or, if that is not known, perhaps.
            header.windows_yielded.fetch_add(1, Relaxed);
            return;
        }
        self.ahead = ahead(clock);
        self.anchor = Some(CuptiAnchor::now(clock));
        let mut window = self.new_window(clock);
        let begun = switched(|open| {
            if !neighbours::none() {
                return None;
            }
            driver_calls::begin();
            let begun = cupti.begin();
            *open = if begun.is_ok() {
                Open::On(cupti, clock)
            } else {
                Open::Closed
            };
            Some(begun)
        });
        window.open = clock.ticks();
        match begun {
            None => {
                header.windows_yielded.fetch_add(1, Relaxed);
            }
            Some(Ok(())) => {
                self.warming_up = length == WARM_UP;
                self.now = State::Open(window, Instant::now(), length);
            }
            Some(Err(code)) => {
                driver_calls::end();
                let _ = cupti.end();
                self.off(header, off::ERROR, code);
            }
        }
    }

    /// The window has all it will get.
    fn finish(&mut self, header: &Header, clock: Clock) -> Vec<EncodedBlock> {
        let State::Draining(mut window, ..) = std::mem::replace(&mut self.now, State::Closed)
        else {
            return Vec::new();
        };
        switched(|open| *open = Open::Closed);
        let (ran, names, lost) = store::take();
        let asked = driver_calls::take();
        // CUPTI counts those for which it found no buffer too, unless no buffer came after them.
        let dropped = cupti::dropped().max(cupti::refused()) as u64 + lost;
        window.dropped = dropped.min(u32::MAX.into()) as u32;
        window.asked = asked.len() as u32;
        window.ran = ran.values().map(|of| of.len() as u32).sum();
        let mut blocks = names_in_blocks(names);
        let last = CuptiAnchor::now(clock);
        let per_ns = ticks_per_ns(header, clock);
        let map = self.anchor.and_then(|first| {
            let set = ahead(clock).abs_diff(self.ahead) > CLOCK_SET;
            let map = ToTicks::between(first, last, per_ns);
            map.filter(|_| !set || last.foreign)
        });
        // What was launched in the window began in it or since, unless CUPTI's clock is not the one that was
        // looked at.
        let slack = (CLOCK_SLACK as f64 * per_ns) as i64;
        let (first, latest) = (window.opening.plus(-slack), last.ticks.plus(slack));
        let fits = map.is_some_and(|map| {
            let mut ran = ran.values().flatten();
            ran.all(|ran| (first..=latest).contains(&map.ticks(ran.start)))
        });
        if !fits && window.ran > 0 {
            window.end = End::ClockSet;
            window.dropped = window.dropped.saturating_add(window.ran);
            window.ran = 0;
        }
        let kernels = ran.values().flatten();
        let kernels = kernels.filter(|r| r.kind == ActivityKind::Kernel && r.graph == 0);
        let launches = asked
            .iter()
            .filter(|a| a.kind == DriverCallKind::Launch)
            .count();
        self.misses_callers = misses_launches(kernels.count(), launches);
        if let Some(map) = map.filter(|_| fits) {
            for (device, of) in &ran {
                for chunk in of.chunks(CHUNK) {
                    let chunk: Vec<GpuActivity> = chunk.iter().map(|ran| map.ran(ran)).collect();
                    let mut payload = Vec::new();
                    windows::put_activities(&mut payload, window.number, *device, &chunk);
                    blocks.push((BlockKind::GpuActivities, payload));
                }
            }
        }
        for chunk in asked.chunks(CHUNK) {
            let mut payload = Vec::new();
            windows::put_driver_calls(&mut payload, window.number, chunk);
            blocks.push((BlockKind::DriverCalls, payload));
        }
        // Last, so that a window is only known with all that is in it.
        blocks.push(block_of(&window));
        self.schedule.closed(self.at);
        if window.code != 0 {
            self.off(header, off::ERROR, window.code);
        }
        if self.warming_up {
            self.warming_up = false;
            self.number -= 1;
            // The names stay.
            blocks.retain(|(kind, _)| *kind == BlockKind::Names);
        }
        blocks
    }
}

/// The names again, because a trace file begins anew. On any thread: it asks nobody.
pub fn names() -> Vec<EncodedBlock> {
    names_in_blocks(store::names())
}

/// Entries in a block: it then fits in the staging area.
const CHUNK: usize = 4096;
/// Bytes of names in a block.
const NAMES: usize = 64 << 10;

fn names_in_blocks(names: Vec<(u32, Vec<u8>)>) -> Vec<EncodedBlock> {
    let mut blocks = Vec::new();
    let mut payload = Vec::new();
    for (id, name) in names {
        windows::put_name(&mut payload, id, &name);
        if payload.len() > NAMES {
            blocks.push((BlockKind::Names, std::mem::take(&mut payload)));
        }
    }
    if !payload.is_empty() {
        blocks.push((BlockKind::Names, payload));
    }
    blocks
}

fn block_of(window: &Window) -> EncodedBlock {
    let mut payload = Vec::new();
    windows::put_window(&mut payload, window);
    (BlockKind::Windows, payload)
}

/// Closes the window if its time is over, or if another profiler's thread has done so; whether it is closed.
fn close(window: &mut Window, over: bool) -> bool {
    switched(|open| {
        match *open {
            Open::On(cupti, clock) if over => {
                driver_calls::end();
                window.closing = clock.ticks();
                if let Err(code) = cupti.end() {
                    (window.end, window.code) = (End::Failed, code);
                }
                window.closed = clock.ticks();
                *open = Open::Draining(cupti);
            }
            Open::On(..) => return false,
            Open::GivenUp([closing, closed], code) => {
                (window.closing, window.closed) = (closing, closed);
                (window.end, window.code) = (End::Yielded, code);
            }
            _ => {}
        }
        true
    })
}

/// Whether so many kernels were launched in part by calls that were not seen. The analysis goes by the same
/// rule (`misses_launches` in its streams/host.rs).
fn misses_launches(kernels: usize, launches: usize) -> bool {
    kernels > launches + launches / 16 + 16
}
