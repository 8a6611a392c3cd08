//! The recorder's thread's part: it asks which launches have ended, and keeps their times.

use super::anchor::{measure, refresh, Anchor, HostClock};
use super::ring::{Ring, Rings, PAIRS};
use super::sampling::{Switch, BURST, FLOOD};
use crate::cuda::Driver;
use std::sync::atomic::{
    fence,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use std::time::{Duration, Instant};

/// Between looks for launches that have ended.
const POLL_EVERY: Duration = Duration::from_millis(10);
/// Between looks at the rate.
const LOOK_EVERY: Duration = Duration::from_millis(50);

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
