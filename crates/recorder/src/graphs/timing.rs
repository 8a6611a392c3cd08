//! GPU times of launches: an event before a launch and one behind it, as around launches of NCCL's kernels.
//!
//! The pairs of events are those of one [`Ring`], in the context of the first launch. Its launches count for
//! the budget of all rings, and may take a small part of it.
//!
//! Rule: a ring has one launching thread at a time. What another thread launches meanwhile is not timed.

use crate::array;
use crate::cuda::Driver;
use crate::gpu_events::{Ring, Timed};
use crate::lock::INIT;
use crate::recorder::Recorder;
use capture::graphs::LaunchTime;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// See the module.
pub struct Timing {
    /// Null before the first launch.
    ring: AtomicPtr<Ring>,
    /// It may be used: a communicator lives since it was taken.
    open: AtomicBool,
    /// There is none to be had until the last communicator is gone.
    given_up: AtomicBool,
    /// A thread is between the two events, or makes the ring.
    taken: AtomicBool,
    /// By launch, modulo their number: launch + 1 and its pair, 32 bits each; 0 is not timed.
    pairs: &'static [AtomicU64],
}

/// A launch with its first event.
pub struct Begun {
    ring: &'static Ring,
    pair: u32,
}

/// What is known of a launch's time.
pub enum Known {
    /// Nothing, and that stays so, or all.
    For(Option<LaunchTime>),
    /// It comes later.
    NotYet,
}

impl Timing {
    /// For so many launches that nobody has read; `None` if there is no memory.
    pub fn new(launches: usize) -> Option<Timing> {
        Some(Timing {
            ring: AtomicPtr::default(),
            open: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
            taken: AtomicBool::new(false),
            // SAFETY: zeros are atomics.
            pairs: unsafe { array::zeros(launches.max(1)) }?,
        })
    }

    fn ring(&self) -> Option<&'static Ring> {
        // SAFETY: null, or a ring that is never dropped.
        unsafe { self.ring.load(Acquire).as_ref() }
    }

    fn take(&self) -> bool {
        !self.taken.swap(true, AcqRel)
    }

    /// Before a launch of a graph with so many calls: its first event, if it is in the sample. Then
    /// [`Timing::end`] has to follow.
    #[inline]
    pub fn begin(&self, recorder: &Recorder, stream: u64, calls: u32) -> Option<Begun> {
        let driver = recorder.driver()?;
        if self.given_up.load(Relaxed) || !self.take() {
            return None;
        }
        let ring = self.ring().filter(|_| self.open.load(Relaxed));
        let begun = ring
            .or_else(|| self.make(recorder, driver))
            .and_then(
                |ring| match ring.begin(&recorder.switch, stream, 0, calls.into()) {
                    Timed::By(pair) => Some(Begun { ring, pair }),
                    Timed::Unsampled | Timed::No => None,
                },
            );
        if begun.is_none() {
            self.taken.store(false, Release);
        }
        begun
    }

    #[cold]
    fn make(&self, recorder: &Recorder, driver: &'static Driver) -> Option<&'static Ring> {
        if !recorder.has_communicators() {
            return None;
        }
        let _guard = INIT.lock();
        // Events are made while other threads may capture.
        let ring = driver.relaxed(|| recorder.rings.take(driver)).flatten();
        self.given_up.store(ring.is_none(), Relaxed);
        let ring = ring?;
        ring.give_to_graphs();
        self.ring
            .store(std::ptr::from_ref(ring).cast_mut(), Release);
        self.open.store(true, Relaxed);
        Some(ring)
    }

    /// Behind the launch: its second event. `launch` is its number, if the driver accepted it.
    #[inline]
    pub fn end(&self, recorder: &Recorder, begun: Begun, stream: u64, launch: Option<u64>) {
        let complete = begun.ring.end(&recorder.switch, stream);
        if let Some(launch) = launch.filter(|_| complete) {
            let word = (launch as u32).wrapping_add(1);
            let word = u64::from(word) << 32 | u64::from(begun.pair);
            self.pairs[launch as usize % self.pairs.len()].store(word, Release);
        }
        self.taken.store(false, Release);
    }

    /// When a launch ran.
    pub fn of(&self, recorder: &Recorder, launch: u64) -> Known {
        let word = self.pairs[launch as usize % self.pairs.len()].load(Acquire);
        let is_its = (word >> 32) as u32 == (launch as u32).wrapping_add(1);
        let Some(ring) = self.ring().filter(|_| word != 0 && is_its) else {
            return Known::For(None);
        };
        match ring.span(word as u32, &recorder.switch) {
            Some(time) => Known::For(time),
            None => Known::NotYet,
        }
    }

    /// The last communicator is gone, and the context may follow. What was launched may still get its times.
    /// A launch that is under way keeps the ring.
    pub fn close(&self) {
        if self.take() {
            self.open.store(false, Relaxed);
            self.given_up.store(false, Relaxed);
            if let Some(ring) = self.ring() {
                ring.close();
            }
            self.taken.store(false, Release);
        }
    }
}
