//! Anchors: moments at which a GPU's clock and the host's were read together, and the times of launches by
//! them.
//!
//! [`refresh`] makes an anchor when the newest one is old. [`measure`] tells the time of a launch by the
//! newest anchor.
//!
//! Rule: a time is given out only after the next anchor has shown that both clocks went on alike.

use super::ring::Rings;
use crate::cuda::{Context, Driver};
use capture::graphs::LaunchTime;
use capture::rows::Ticks;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::{Duration, Instant};

/// How far two clocks may drift apart, as a share of the time passed: for GPUs, 10 to 100 ppm are reported.
const DRIFT: f64 = 100e-6;
/// Time between anchors while launches are timed. Rows wait for the next anchor, and there is room for some
/// 80 ms of a flood.
const ANCHOR_EVERY: Duration = Duration::from_millis(20);
/// An anchor with a wider bracket than this is tried again.
const BRACKET_NS: f64 = 20_000.0;
/// Delay between two polls of an anchor's event: each poll takes the driver's lock.
const BETWEEN_NS: f64 = 2_000.0;

/// A context's newest anchor.
pub(super) struct GpuAnchor {
    pub(super) context: Context,
    pub(super) stream: u64,
    /// Two, so that an anchor can be compared with the one before it.
    pub(super) events: [u64; 2],
    pub(super) newest: usize,
    pub(super) ticks: Ticks,
    /// Half the bracket, ns; infinite before the first anchor.
    pub(super) half: f64,
    pub(super) at: Instant,
    /// The newest anchor that showed a step of the GPU's clock: times before it are not believed.
    pub(super) stepped: Ticks,
}

/// The host's clock: how to read it, and its rate.
pub struct HostClock<'a> {
    pub ticks: &'a dyn Fn() -> Ticks,
    pub ns_per_tick: f64,
}

/// What [`measure`] found.
pub(super) enum MeasuredLaunch {
    /// A capture forbids to ask now.
    Later,
    /// Times that can't be right.
    Impossible,
    Span(LaunchTime),
}

/// The times of a launch by the newest anchor.
pub(super) fn measure(
    anchor: &GpuAnchor,
    driver: &Driver,
    clock: &HostClock,
    before: u64,
    after: u64,
) -> Result<MeasuredLaunch, u32> {
    let length = driver.elapsed_ns(before, after)?;
    let since = driver.elapsed_ns(anchor.events[anchor.newest], before)?;
    let (Some(length), Some(since)) = (length, since) else {
        return Ok(MeasuredLaunch::Later);
    };
    let seen = (clock.ticks)();
    let error = anchor.half + since.abs() * (DRIFT + f64::from(f32::EPSILON));
    let ticks = |ns: f64| (ns / clock.ns_per_tick) as i64;
    let start = anchor.ticks.plus(ticks(since));
    let least_end = start.plus(ticks(length - error));
    // Nothing ends after it was seen to have ended.
    let possible = length >= 0.0 && least_end.after(seen) <= 0;
    let unspoilt = start.after(anchor.stepped) > 0;
    if !possible || !unspoilt {
        return Ok(MeasuredLaunch::Impossible);
    }
    Ok(MeasuredLaunch::Span(LaunchTime {
        start: Ticks(start.0 & !(GRAIN - 1)),
        ns: ((length as u64 + GRAIN / 2) & !(GRAIN - 1)).max(GRAIN),
        error: rounded_up(error.min(1e9) as u32),
    }))
}

/// Rounds up to two binary digits: the errors of neighbours are then mostly equal, and take no room in the
/// file.
fn rounded_up(error: u32) -> u32 {
    let step = 1 << (30 - (error | 1).leading_zeros().min(30));
    error.div_ceil(step) * step
}

/// Times are kept in steps of so many ticks and ns. Events resolve much less.
const GRAIN: u64 = 16;

/// Makes a new anchor if the newest is old, or `at_once`. If the GPU's clock and the host's went on alike,
/// the new anchor confirms the times of the launches that ended since the one before. If not, these times are
/// forgotten.
pub(super) fn refresh(
    anchor: &mut GpuAnchor,
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
    // The event stands for its newest record, so the last try counts.
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
            // Launches need the driver's lock, too.
            let asked = (clock.ticks)();
            while ((clock.ticks)().after(asked) as f64 * clock.ns_per_tick) < BETWEEN_NS {
                std::hint::spin_loop();
            }
        }
        let width = (clock.ticks)().after(before);
        let half = width as f64 * clock.ns_per_tick / 2.0;
        found = Some((before.plus(width / 2), half));
        if half * 2.0 < BRACKET_NS {
            break;
        }
    }
    let Some((ticks, half)) = found else {
        return Ok(());
    };
    if known {
        let Some(by_gpu) = driver.elapsed_ns(anchor.events[anchor.newest], event)? else {
            return Ok(());
        };
        let by_host = ticks.after(anchor.ticks) as f64 * clock.ns_per_tick;
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
}
