//! It asks which launches have ended, and keeps their times: on the one thread that asks CUDA.

use super::anchor::{measure, refresh, GpuAnchor, HostClock, MeasuredLaunch};
use super::lead::{Lead, TimedLaunch};
use super::ring::{OpenLaunch, Ring, Rings, PAIRS};
use super::sampling::{Pace, Switch};
use crate::cuda::{Context, Driver};
use capture::live::on_gpu;
use capture::rows::Ticks;
use std::sync::atomic::{
    fence,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use std::time::{Duration, Instant};

/// Time between two looks for launches that have ended.
const POLL_EVERY: Duration = Duration::from_millis(10);

/// From how long on the GPU is asked how far it has come with a launch, ns. A collective mostly takes less,
/// and `hang` asks for seconds.
const LONG_NS: f64 = 1e9;
/// Time between two such questions, ns.
const ASK_EVERY_NS: f64 = 1e8;

/// See the module.
#[derive(Default)]
pub struct Poller {
    anchors: Vec<GpuAnchor>,
    pace: Pace,
    relaxed: bool,
    polled: Option<Instant>,
    /// Of each ring.
    leads: Vec<Lead>,
}

impl Poller {
    /// Whether the host is known to be ahead of its GPU.
    pub fn is_ahead(&self) -> bool {
        self.leads.iter().any(|lead| lead.is_ahead())
    }

    /// Takes in the launches that have ended since; returns how many are under way. Unless a ring fills up,
    /// it asks once in [`POLL_EVERY`] only, because every question takes the driver's lock. `last` asks at
    /// once and confirms all times, because nobody will ask again.
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
        let kinds = || rings.all().map(Ring::kinds).collect();
        self.pace.keep(switch, || rings.launches(), kinds);
        for ring in rings.all() {
            ring.keep_pace_of_graphs(|launches| self.pace.of_graphs(switch, launches));
        }
        let full = |ring: &Ring| ring.under_way() > PAIRS / 4;
        let due = self.polled.is_none_or(|at| at.elapsed() >= POLL_EVERY);
        if !last && !due && !rings.all().any(full) {
            return 0;
        }
        self.polled = Some(Instant::now());
        switch.polling.store(true, Release);
        // Between the store of `polling` and the load of `off`: either `Switch::end` sees that this thread
        // polls, or this thread sees that it must not.
        fence(SeqCst);
        let mut under_way = 0;
        if !switch.is_off() {
            // A query would end the capture of a graph by another thread. This setting of the calling thread
            // allows it.
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
            if pushed == ring.sure.load(Relaxed) && !ring.has_waits() {
                continue;
            }
            match self.poll_one(driver, rings, ring, clock, last) {
                Ok(left) => under_way += left,
                // Its context may be gone, with its communicator. What it had under way has no times.
                Err(_) if ring.is_closed() => ring.abandon(),
                Err(code) => return Err(code),
            }
        }
        Ok(under_way)
    }

    fn poll_one(
        &mut self,
        driver: &Driver,
        rings: &Rings,
        ring: &Ring,
        clock: &HostClock,
        last: bool,
    ) -> Result<usize, u32> {
        let pushed = ring.pushed.load(Acquire);
        driver.set_context(ring.context.handle)?;
        let place = ring.place();
        if self.leads.len() <= place {
            self.leads.resize(place + 1, Lead::default());
        }
        let mut lead = self.leads[place];
        let anchor = self.anchor_of(driver, ring.context)?;
        refresh(anchor, driver, rings, clock, false)?;
        let mut done = ring.done.load(Relaxed);
        let mut oldest = None;
        while done != pushed && anchor.half.is_finite() {
            let pair = &ring.pairs[done as usize % PAIRS];
            let (before, after) = (pair.before.load(Relaxed), pair.after.load(Relaxed));
            match driver.has_come_to(after)? {
                Some(true) => {}
                Some(false) => {
                    oldest = how_far(driver, ring, clock, done)?;
                    break;
                }
                None => break,
            }
            match measure(anchor, driver, clock, before, after)? {
                MeasuredLaunch::Later => break,
                MeasuredLaunch::Impossible => {}
                MeasuredLaunch::Span(span) => {
                    let launch = TimedLaunch {
                        launched: pair.launched.load(Relaxed),
                        began: span.start,
                    };
                    lead.add(launch);
                    ring.keep(done, &span);
                }
            }
            done = done.wrapping_add(1);
            ring.done.store(done, Release);
        }
        ring.keep_oldest(oldest);
        ring.take_waits(|pair| {
            let (wait, after) = (pair.wait.load(Relaxed), pair.after.load(Relaxed));
            if !driver.has_ended(wait)? {
                return Ok(None);
            }
            driver.elapsed_ns(wait, after)
        })?;
        if last {
            refresh(anchor, driver, rings, clock, true)?;
        }
        self.leads[place] = lead;
        Ok(pushed.wrapping_sub(done) as usize)
    }

    /// The anchor of a context, which is current.
    fn anchor_of(&mut self, driver: &Driver, context: Context) -> Result<&mut GpuAnchor, u32> {
        if let Some(at) = self.anchors.iter().position(|a| a.context == context) {
            return Ok(&mut self.anchors[at]);
        }
        let (Some(stream), Some(first), Some(second)) =
            (driver.new_stream(), driver.new_event(), driver.new_event())
        else {
            return Err(OUT_OF_MEMORY);
        };
        self.anchors.push(GpuAnchor {
            context,
            stream,
            events: [first, second],
            newest: 0,
            ticks: Ticks(0),
            half: f64::INFINITY,
            at: Instant::now(),
            stepped: Ticks(0),
        });
        let newest = self.anchors.len() - 1;
        Ok(&mut self.anchors[newest])
    }
}

/// How far the GPU has come with a launch that has not ended, if it has been under way for long.
fn how_far(
    driver: &Driver,
    ring: &Ring,
    clock: &HostClock,
    number: u32,
) -> Result<Option<OpenLaunch>, u32> {
    let pair = &ring.pairs[number as usize % PAIRS];
    let now = (clock.ticks)();
    let ns_since = |then: Ticks| now.since(then) as f64 * clock.ns_per_tick;
    if ns_since(pair.launched.load(Relaxed)) < LONG_NS {
        return Ok(None);
    }
    let known = ring.oldest().filter(|oldest| oldest.number == number);
    if known.is_some_and(|known| ns_since(known.asked) < ASK_EVERY_NS) {
        return Ok(known);
    }
    // A stream that has come to a launch stays there.
    let begun = match known {
        Some(known) if known.on_gpu == on_gpu::BEGUN => Some(true),
        _ => driver.has_come_to(pair.before.load(Relaxed))?,
    };
    let on_gpu = match begun {
        Some(true) => on_gpu::BEGUN,
        Some(false) => on_gpu::NOT_REACHED,
        None => return Ok(known),
    };
    Ok(Some(OpenLaunch {
        number,
        on_gpu,
        asked: now,
    }))
}

/// CUDA's own number for it, which stands for a failure to make an anchor's stream or events.
const OUT_OF_MEMORY: u32 = 2;
