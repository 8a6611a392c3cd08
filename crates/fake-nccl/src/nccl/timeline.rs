//! Virtual time on this machine's clock, and on the simulated GPUs' clocks.

use crate::machine::{self, Moment};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// What the hosts' clocks have to do with virtual time.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// Threads sleep until they are due. Virtual time 0 is at this moment.
    Kept(Instant),
    /// Nobody sleeps, and the clocks show how long the play takes.
    Fast,
    /// Nobody sleeps, and threads that play read virtual time from their clocks. CLOCK_MONOTONIC is at so
    /// many nanoseconds at 0.
    Virtual(u64),
}

/// When virtual time 0 is.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// How hosts get to it.
    pub pace: Pace,
    /// CLOCK_REALTIME at that moment, in nanoseconds.
    pub realtime_ns: u64,
}

/// Joins one rank's virtual time to this machine's clock.
///
/// The origin is set when all processes are ready, which is after the first communicators are made.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    /// Shared by the process.
    pub origin: Arc<OnceLock<Origin>>,
    /// How far the GPU runs behind.
    pub lead_ns: u64,
    /// How far its clock is off.
    pub offset_ns: i64,
    /// How far the host runs behind: as far as its GPU, once it has waited for it.
    pub host_lag_ns: u64,
}

impl VirtualClock {
    fn origin(&self) -> &Origin {
        self.origin.get().expect("set before the first call")
    }

    /// Waits until the host is due.
    pub fn wait_host(&self, at: u64) {
        self.wait(at + self.host_lag_ns);
    }

    fn wait(&self, at: u64) {
        let host = match self.origin().pace {
            Pace::Kept(host) => host,
            Pace::Fast => return,
            Pace::Virtual(monotonic) => {
                machine::is_now(Moment {
                    realtime: self.origin().realtime_ns.saturating_add(at),
                    monotonic: monotonic.saturating_add(at),
                });
                return;
            }
        };
        let left = (host + Duration::from_nanos(at)).saturating_duration_since(Instant::now());
        // A sleep is some 50 µs late, so a short one would only make the pace worse.
        if left > Duration::from_micros(200) {
            std::thread::sleep(left);
        }
    }

    /// Waits until the GPU is due.
    pub fn wait_gpu(&self, at: u64) {
        self.wait(at + self.lead_ns);
    }

    /// When the GPU is at that time; `None` without waiting.
    pub fn instant(&self, at: u64) -> Option<Instant> {
        match self.origin().pace {
            Pace::Kept(host) => Some(host + Duration::from_nanos(at + self.lead_ns)),
            Pace::Fast | Pace::Virtual(_) => None,
        }
    }

    /// A stamp of the GPU's clock, which goes in steps of 32 ns. The origin is cut to a step first, so that
    /// durations don't depend on it.
    pub(super) fn stamp(&self, at: u64) -> u64 {
        let origin = (self.origin().realtime_ns + self.lead_ns).wrapping_add_signed(self.offset_ns);
        (origin & !31) + (at & !31)
    }
}
