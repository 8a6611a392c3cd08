//! CUPTI's clock beside the recorder's: anchors, and ticks from both.

use super::cupti::CuptiTime;
use super::neighbours;
use crate::clock::Clock;
use capture::live::Header;
use capture::rows::Ticks;
use capture::windows::GpuActivity;

/// The clock was set if it is ahead by so much more or less, ns. NTP moves both clocks alike.
pub(super) const CLOCK_SET: u64 = 50_000;

/// Another clock is off by far more than this, and CUPTI's own by far less, ns.
pub(super) const CLOCK_SLACK: u64 = 1_000_000;

/// The clock of CUPTI's times beside ticks, at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct CuptiAnchor {
    pub(super) ticks: Ticks,
    pub(super) cupti: CuptiTime,
    /// It is another profiler's clock, and not CLOCK_REALTIME.
    pub(super) foreign: bool,
}

impl CuptiAnchor {
    pub(super) fn now(clock: Clock) -> CuptiAnchor {
        let mut best = (u64::MAX, Ticks(0), 0);
        for _ in 0..5 {
            let before = clock.ticks();
            let Some(cupti) = neighbours::foreign_clock() else {
                let now = clock.anchor();
                return CuptiAnchor {
                    ticks: now.ticks,
                    cupti: CuptiTime(now.realtime),
                    foreign: false,
                };
            };
            let took = clock.ticks().since(before);
            best = best.min((took, before.plus(took as i64 / 2), cupti));
        }
        let (_, ticks, cupti) = best;
        CuptiAnchor {
            ticks,
            cupti: CuptiTime(cupti),
            foreign: true,
        }
    }
}

/// From CUPTI's clock to ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToTicks {
    last: CuptiAnchor,
    /// Ticks in a unit of CUPTI's clock.
    ticks: f64,
    /// Nanoseconds in one.
    ns: f64,
}

impl ToTicks {
    /// Two moments, one before and one after what is to be mapped; `None` if the clock was changed in
    /// between.
    pub(super) fn between(
        first: CuptiAnchor,
        last: CuptiAnchor,
        ticks_per_ns: f64,
    ) -> Option<ToTicks> {
        let units = last.cupti.0.checked_sub(first.cupti.0);
        let units = units.filter(|n| *n > 0)?;
        let ticks = last.ticks.since(first.ticks) as f64 / units as f64;
        (first.foreign == last.foreign).then_some(ToTicks {
            last,
            ticks,
            ns: if last.foreign {
                ticks / ticks_per_ns
            } else {
                1.0
            },
        })
    }

    pub(super) fn ticks(&self, time: CuptiTime) -> Ticks {
        let since = time.0.wrapping_sub(self.last.cupti.0) as i64 as f64;
        self.last.ticks.plus((since * self.ticks) as i64)
    }

    /// What ran, on the recorder's clock.
    pub(super) fn ran(&self, ran: &GpuActivity<CuptiTime>) -> GpuActivity {
        ran.on_clock(self.ticks(ran.start), self.ns(ran.ns))
    }

    pub(super) fn ns(&self, duration: u64) -> u64 {
        if self.last.foreign {
            (duration as f64 * self.ns) as u64
        } else {
            duration
        }
    }
}

/// Ticks in a nanosecond, from the first anchor to now.
pub(super) fn ticks_per_ns(header: &Header, clock: Clock) -> f64 {
    let known = clock.anchor().ns_per_tick(&header.first);
    known.map_or(1.0, |ns_per_tick| 1.0 / ns_per_tick)
}

/// By how much CLOCK_REALTIME is ahead of CLOCK_MONOTONIC, ns: it changes only if the clock is set.
pub(super) fn ahead(clock: Clock) -> u64 {
    let now = clock.anchor();
    now.realtime.wrapping_sub(now.monotonic)
}
