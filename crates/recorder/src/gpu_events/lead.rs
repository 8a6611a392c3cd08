//! Whether the host is ahead of its GPU.
//!
//! ```text
//!   host   launch i ─────────── launch i + 1
//!   GPU                                      begins i ── …
//! ```
//!
//! If the host makes the next launch before the GPU begins this one, the GPU finds all work between them
//! ready. It did not wait for the host in that time. If that is so for nearly all of the time, the host could
//! be slower without anybody noticing. It is not enough if the GPU is far behind at the launches themselves.
//! In a step of DDP the host is ahead in the backward pass, where the AllReduces are, but not in the
//! optimizer.

use capture::rows::Ticks;

/// So many launches decide, and count half as much when there are twice as many.
const ENOUGH: u32 = 64;
/// The host may be slower by this part of its time, which is what CUPTI adds to a launch (`windows::price`).
const SLOWER: f64 = 1.0 / 8.0;
/// The part of the time in which the GPU may wait for its host: a host that is slower by [`SLOWER`] then
/// makes the job 0.6 % slower.
const REST: f64 = 1.0 / 20.0;

/// A launch that was timed.
#[derive(Clone, Copy, Debug)]
pub struct TimedLaunch {
    /// When the host made it.
    pub launched: Ticks,
    /// When the GPU began it.
    pub began: Ticks,
}

/// In which part of the time the newest launches of a communicator show that the GPU did not wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lead {
    newest: Option<TimedLaunch>,
    launches: u32,
    time: f64,
    ahead: f64,
}

impl Lead {
    /// The next launch that was timed; others before it may not have been.
    pub fn add(&mut self, next: TimedLaunch) {
        let Some(launch) = self.newest.replace(next) else {
            return;
        };
        let between = next.launched.since(launch.launched) as f64;
        let behind = launch.began.since(launch.launched) as f64;
        self.launches += 1;
        self.time += between;
        if behind >= between * (1.0 + SLOWER) {
            self.ahead += between;
        }
        if self.launches >= 2 * ENOUGH {
            self.launches /= 2;
            self.time /= 2.0;
            self.ahead /= 2.0;
        }
    }

    /// The GPU did not wait for its host for nearly all of the time.
    pub fn is_ahead(self) -> bool {
        self.launches >= ENOUGH && self.time > 0.0 && self.ahead >= (1.0 - REST) * self.time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Launches at these times, each begun so much later.
    fn lead(launches: impl IntoIterator<Item = (u64, u64)>) -> Lead {
        let mut lead = Lead::default();
        let launch = |(launched, behind)| TimedLaunch {
            launched: Ticks(launched),
            began: Ticks(launched + behind),
        };
        launches.into_iter().map(launch).for_each(|l| lead.add(l));
        lead
    }

    #[test]
    fn the_gpu_must_begin_each_launch_after_the_next_was_made() {
        let every = 1_000_000;
        let behind = |by: u64, n: u64| lead((0..n).map(|i| (i * every, by)));
        assert!(!behind(2 * every, 64).is_ahead());
        assert!(behind(2 * every, 65).is_ahead());
        assert!(behind(2 * every, 1000).is_ahead());
        assert!(!behind(every / 2, 1000).is_ahead());
        // Not if the host were a little slower.
        assert!(!behind(every + every / 10, 1000).is_ahead());
    }

    #[test]
    fn a_lead_at_the_calls_is_not_one_over_the_whole_step() {
        // Steps of 20 ms with eight calls within 4 ms of them, at each of which the GPU is 3 ms behind.
        let step = 20_000_000;
        let calls = |behind: u64| {
            let at = move |call: u64| call / 8 * step + call % 8 * 500_000;
            lead((0..800).map(move |call| (at(call), behind)))
        };
        assert!(!calls(3_000_000).is_ahead());
        assert!(calls(30_000_000).is_ahead());
    }

    #[test]
    fn a_single_pause_is_forgotten() {
        let pause = |i: u64| if i > 100 { 1_000_000_000 } else { 0 };
        let launches = |n: u64| (0..n).map(move |i| (i * 1_000_000 + pause(i), 5_000_000));
        assert!(lead(launches(100)).is_ahead());
        assert!(!lead(launches(120)).is_ahead());
        assert!(lead(launches(1000)).is_ahead());
    }
}
