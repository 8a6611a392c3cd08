//! The host clock that callbacks read: a counter register where the kernel trusts it, else the vDSO.
//!
//! Ticks are turned into time by readers, from anchors that the recorder's thread writes, so a callback pays
//! for one register read only.

use capture::live::LiveAnchor;
use capture::rows::Ticks;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Which counter `ticks` reads; the number in `live::Header::clock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Clock {
    /// CLOCK_MONOTONIC in ns, by the vDSO.
    Monotonic = 0,
    /// The x86 time stamp counter.
    #[cfg(target_arch = "x86_64")]
    Tsc = 1,
    /// The aarch64 virtual counter.
    #[cfg(target_arch = "aarch64")]
    VirtualCounter = 2,
}

impl Clock {
    /// The cheapest clock that is safe here. The kernel's own clock source shows if the TSC is the same on
    /// all CPUs. With `system`, the one that every program reads by the C library.
    pub fn choose(system: bool) -> Clock {
        if system {
            return Clock::Monotonic;
        }
        #[cfg(target_arch = "x86_64")]
        {
            let source = std::fs::read_to_string(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            );
            if source.is_ok_and(|s| s.trim() == "tsc") {
                return Clock::Tsc;
            }
            Clock::Monotonic
        }
        #[cfg(target_arch = "aarch64")]
        {
            // The architecture guarantees one system-wide counter at a fixed rate, readable from user space.
            Clock::VirtualCounter
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            Clock::Monotonic
        }
    }

    /// Its name in the Process block.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Monotonic => "monotonic",
            #[cfg(target_arch = "x86_64")]
            Clock::Tsc => "tsc",
            #[cfg(target_arch = "aarch64")]
            Clock::VirtualCounter => "cntvct",
        }
    }

    /// Now. Never 0, which stands for "not known".
    #[inline]
    pub fn ticks(self) -> Ticks {
        Ticks(match self {
            Clock::Monotonic => monotonic(),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every x86-64 CPU has the instruction; Linux leaves it enabled for user space.
            Clock::Tsc => unsafe { core::arch::x86_64::_rdtsc() },
            #[cfg(target_arch = "aarch64")]
            Clock::VirtualCounter => {
                let ticks: u64;
                // SAFETY: Linux enables EL0 access to the virtual counter.
                unsafe {
                    core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack))
                };
                ticks
            }
        })
    }

    /// The three clocks as close to one moment as a few tries get them.
    pub fn anchor(self) -> HostAnchor {
        let mut best = (HostAnchor::default(), u64::MAX);
        for _ in 0..5 {
            let before = self.ticks();
            let monotonic = nanoseconds(libc::CLOCK_MONOTONIC);
            let realtime = nanoseconds(libc::CLOCK_REALTIME);
            let after = self.ticks();
            let width = after.0.wrapping_sub(before.0);
            if width < best.1 {
                let anchor = HostAnchor {
                    ticks: before.plus(width as i64 / 2),
                    monotonic,
                    realtime,
                };
                best = (anchor, width);
            }
        }
        best.0
    }
}

/// The clocks of the host at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostAnchor {
    pub ticks: Ticks,
    /// CLOCK_MONOTONIC, ns.
    pub monotonic: u64,
    /// CLOCK_REALTIME, ns since 1970.
    pub realtime: u64,
}

impl HostAnchor {
    /// Nanoseconds in a tick, from an earlier anchor to this one; `None` within the first millisecond.
    ///
    /// Both clocks of an anchor are read together. Of two clocks that are read one after the other, a thread
    /// that loses its CPU in between gets a wrong rate, and the GPU's clock then seems to step.
    pub fn ns_per_tick(self, since: &LiveAnchor) -> Option<f64> {
        let ns = self.monotonic.saturating_sub(since.monotonic.load(Relaxed));
        let ticks = self.ticks.since(since.ticks.load(Relaxed));
        (ns > 1_000_000 && ticks > 0).then(|| ns as f64 / ticks as f64)
    }
}

/// Stores an anchor; `version` is odd meanwhile.
pub fn store(anchor: &LiveAnchor, version: &AtomicU64, now: HostAnchor) {
    let before = version.load(Relaxed);
    version.store(before + 1, Release);
    anchor.ticks.store(now.ticks, Release);
    anchor.monotonic.store(now.monotonic, Release);
    anchor.realtime.store(now.realtime, Release);
    version.store(before + 2, Release);
}

/// Out of the callbacks' way: it needs a stack frame, which the counters don't.
#[cold]
#[inline(never)]
fn monotonic() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// A POSIX clock in ns.
pub fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid timespec for the call to fill.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
