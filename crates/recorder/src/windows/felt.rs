//! How much slower the job is while a window is open.
//!
//! [`Felt`] is told now and then how many calls were made, and when a window was open. It compares the rate
//! of calls in the window with that just before and after it, for as long each. One window says little,
//! because it has few steps; what is known for sure is the lower end of an interval over all of them.
//!
//! Rule: memory is bounded by [`SAMPLES`]. Ranks that wait for each other see the same rates.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Numbers of calls that are kept.
const SAMPLES: usize = 512;
/// So many fit into a window.
const IN_WINDOW: u32 = 64;
/// With fewer calls in a window nothing is compared.
const CALLS: f64 = 16.0;
/// Before and after may differ by this ratio, or the job does something else.
const ALIKE: f64 = 1.5;
/// Windows that are needed.
const LEAST: f64 = 4.0;

/// What windows cost.
#[derive(Default)]
pub struct Felt {
    /// When there were how many calls.
    samples: VecDeque<(Instant, u64)>,
    /// The newest window, until it is compared.
    window: Option<(Instant, Duration)>,
    /// Windows that were compared, the mean of how much slower they were, and the squares of what they differ
    /// by.
    windows: f64,
    mean: f64,
    squares: f64,
}

impl Felt {
    /// So many calls were made by now. `length` is that of a window.
    pub fn calls(&mut self, now: Instant, calls: u64, length: Duration) {
        let newest = self.samples.back();
        if newest.is_some_and(|(at, _)| now < *at + length / IN_WINDOW) {
            return;
        }
        if newest.is_some_and(|(_, before)| calls < *before) {
            // Those of another communicator count from now on.
            (self.samples, self.window) = (VecDeque::new(), None);
        }
        if self.samples.len() >= SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((now, calls));
    }

    /// A window was open from then on for so long.
    pub fn window(&mut self, open: Instant, length: Duration) {
        self.window = Some((open, length));
    }

    /// Compares the newest window if enough has passed since; true if it was.
    pub fn compare(&mut self) -> bool {
        let Some((open, length)) = self.window else {
            return false;
        };
        let closed = open + length;
        let Some(after) = self.at(closed + length) else {
            return false;
        };
        self.window = None;
        let before = open.checked_sub(length).and_then(|at| self.at(at));
        let (Some(before), Some(opened), Some(closed)) = (before, self.at(open), self.at(closed))
        else {
            return false;
        };
        let [before, inside, after] = [opened - before, closed - opened, after - closed];
        let alike = before < after * ALIKE && after < before * ALIKE;
        if inside < CALLS || !alike {
            return false;
        }
        let slower = (before + after) / 2.0 / inside - 1.0;
        self.windows += 1.0;
        let off = slower - self.mean;
        self.mean += off / self.windows;
        self.squares += off * (slower - self.mean);
        true
    }

    /// How much slower the job is in windows for sure.
    pub fn slower(&self) -> Option<f64> {
        let error = (self.squares / (self.windows - 1.0) / self.windows).sqrt();
        let slower = self.mean - 2.0 * error;
        (self.windows >= LEAST && slower > 0.0).then_some(slower)
    }

    /// Calls at a moment, between two that were looked at.
    fn at(&self, time: Instant) -> Option<f64> {
        let next = self.samples.partition_point(|(at, _)| *at < time);
        let (at, calls) = *self.samples.get(next)?;
        let (before, fewer) = *self.samples.get(next.checked_sub(1)?)?;
        let part = (time - before).div_duration_f64(at - before);
        Some(fewer as f64 + (calls - fewer) as f64 * part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that makes a call each millisecond and is looked at every 5 ms. It has windows of 200 ms each
    /// second, in which it takes `slower` times as much longer. Every so often it is slow for another cause.
    fn play(slower: f64, windows: u32, disturbed: bool) -> Felt {
        let mut felt = Felt::default();
        let length = Duration::from_millis(200);
        let (began, mut calls) = (Instant::now(), 0.0);
        for window in 0..windows {
            for turn in 0..200 {
                let at = began + Duration::from_millis(u64::from(window * 1000 + turn * 5));
                let open = (80..120).contains(&turn);
                let noise = f64::from((window * 7919 + turn * 104_729) % 100) / 500.0;
                let pause = disturbed && window % 2 == 0 && turn < 80;
                let rate = if pause { 0.1 } else { 1.0 + noise };
                calls += 5.0 * rate / if open { 1.0 + slower } else { 1.0 };
                felt.calls(at, calls as u64, length);
                if turn == 120 {
                    felt.window(at - length, length);
                }
                felt.compare();
            }
        }
        felt
    }

    #[test]
    fn what_a_window_costs_is_felt() {
        let felt = play(0.3, 20, false);
        let slower = felt.slower().expect("for sure");
        assert!((0.2..=0.31).contains(&slower), "{slower}");
        assert!((felt.mean - 0.3).abs() < 0.03, "{}", felt.mean);
        assert!(felt.samples.len() <= SAMPLES);
    }

    #[test]
    fn few_windows_and_those_that_cost_nothing_are_not_felt() {
        assert_eq!(play(0.3, 3, false).slower(), None);
        let free = play(0.0, 20, false).slower();
        assert!(free.is_none_or(|slower| slower < 0.02), "{free:?}");
    }

    #[test]
    fn windows_beside_which_the_job_did_something_else_are_left_out() {
        let felt = play(0.3, 20, true);
        assert_eq!(felt.windows, 10.0);
        assert!((felt.mean - 0.3).abs() < 0.03, "{}", felt.mean);
    }
}
