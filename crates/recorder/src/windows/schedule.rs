//! When windows are opened, and for how long.
//!
//! A window should have some whole steps of the job. It lasts [`STEPS`] steps as far as their length is known, and the
//! period is the least power of two seconds in which that is the share of the time that the budget allows. As a job grows
//! older, the period grows with it. Windows begin at multiples of the period in wall-clock time, and quiet spells half a
//! period later.
//!
//! Rule: what decides is equal on all ranks, or nearly: the clock, the length of a step, the time since the job began. A
//! rank that decides otherwise has a period of half or twice the length, and half of its windows are the others'.

use crate::clock::nanoseconds;
use std::time::{Duration, Instant};

/// Steps in a window: some whole ones, and what is cut off at both ends.
const STEPS: u32 = 4;
/// As long as no step is known.
const UNKNOWN: Duration = Duration::from_millis(100);
/// Shorter ones might miss each other: hosts' clocks are equal within milliseconds.
const SHORTEST: Duration = Duration::from_millis(20);
/// Longer ones have more kernels than the recorder keeps.
const LONGEST: Duration = Duration::from_secs(10);
/// A window's share of the time may be so many times the budget, because a window slows kernels by 1 to 5 % only: with a
/// budget of 1 %, a tenth of the time costs 0.1 to 0.5 %.
const SHARE: f64 = 10.0;
/// In the beginning windows come twice as often, so that short jobs have some.
const BEGINNING: Duration = Duration::from_secs(16);
/// Windows since the job's age was half of what it is, about: a job of a day has some 700, and takes no more space.
const HALF_LIFE: u64 = 64;
/// NCCL calls before the first window: set-up is over then.
const CALLS: u64 = 32;
/// A point of the grid that was missed by so much is left out: the other ranks' windows may be over.
const MISSED: Duration = Duration::from_millis(100);

/// What is to begin now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Window(Duration),
    Quiet(Duration),
}

/// When the next window is due.
pub struct Schedule {
    budget: f64,
    step: Option<Duration>,
    began: Option<Instant>,
    /// NCCL calls at the newest point.
    calls: u64,
    /// The newest point of the grid that was dealt with, CLOCK_REALTIME ns.
    point: u64,
}

impl Schedule {
    pub fn new(budget: f64) -> Schedule {
        Schedule {
            budget,
            step: None,
            began: None,
            calls: 0,
            point: 0,
        }
    }

    /// A step of the job takes so long.
    pub fn step(&mut self, step: Duration) {
        self.step = Some(step);
    }

    /// The point of the grid for which the window was opened.
    pub fn point(&self) -> u64 {
        self.point
    }

    fn length(&self) -> Duration {
        let length = self.step.map_or(UNKNOWN, |step| step * STEPS);
        length.clamp(SHORTEST, LONGEST)
    }

    /// ns; a power of two seconds.
    fn period(&self) -> u64 {
        let share = (self.budget * SHARE).clamp(0.001, 0.5);
        let least = self.length().as_secs_f64() / share;
        let affordable = (least.ceil() as u64).max(1).next_power_of_two();
        let age = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        let seconds = if age < BEGINNING {
            (affordable / 2).max(1)
        } else {
            let enough = (age.as_secs() / HALF_LIFE + 1).next_power_of_two();
            affordable.max(enough)
        };
        seconds * 1_000_000_000
    }

    /// What is due now. `calls` is how many NCCL calls there were.
    pub fn due(&mut self, calls: u64, last: bool) -> Option<Due> {
        self.due_at(nanoseconds(libc::CLOCK_REALTIME), calls, last)
    }

    fn due_at(&mut self, now: u64, calls: u64, last: bool) -> Option<Due> {
        if calls < CALLS || last {
            return None;
        }
        if self.began.is_none() {
            self.began = Some(Instant::now());
            // What is under way is not waited for.
            self.point = now;
        }
        let half = self.period() / 2;
        let point = now / half * half;
        if point <= self.point {
            return None;
        }
        self.point = point;
        // A job that makes no calls has nothing to learn from.
        let idle = std::mem::replace(&mut self.calls, calls) == calls;
        if idle || now - point > MISSED.as_nanos() as u64 {
            return None;
        }
        let length = self.length();
        Some(match (point / half).is_multiple_of(2) {
            true => Due::Window(length),
            false => Due::Quiet(length),
        })
    }

    /// A window was closed and written: what was missed meanwhile is left out.
    pub fn closed(&mut self) {
        self.point = self.point.max(nanoseconds(libc::CLOCK_REALTIME));
    }

    /// How long until something may be due.
    pub fn until_next(&self) -> Duration {
        let half = self.period() / 2;
        let now = nanoseconds(libc::CLOCK_REALTIME);
        Duration::from_nanos(half - now % half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn schedule(step_ms: u64) -> Schedule {
        let mut schedule = Schedule::new(0.01);
        schedule.step(Duration::from_millis(step_ms));
        schedule
    }

    /// The points of windows within `seconds`, looked at every 5 ms from `from` on.
    fn windows(schedule: &mut Schedule, from: u64, seconds: u64) -> Vec<u64> {
        let moments = (from..from + seconds * SECOND).step_by(5_000_000);
        let mut found = Vec::new();
        for now in moments {
            if let Some(Due::Window(_)) = schedule.due_at(now, now / 1000, false) {
                found.push(schedule.point() / SECOND);
            }
        }
        found
    }

    #[test]
    fn ranks_that_began_at_different_times_have_the_same_windows() {
        let mut one = schedule(150);
        let mut other = schedule(155);
        let (a, b) = (
            windows(&mut one, 100 * SECOND, 61),
            windows(&mut other, 103 * SECOND + 7_000_000, 57),
        );
        let late: Vec<u64> = a.iter().copied().filter(|point| *point > 103).collect();
        assert_eq!(late, b);
        assert!(b.len() > 8);
    }

    #[test]
    fn windows_take_the_share_that_the_budget_allows() {
        for step in [1, 15, 150, 1000, 60_000] {
            let mut schedule = schedule(step);
            // It is no longer young.
            schedule.began = Some(Instant::now() - Duration::from_secs(60));
            let found = windows(&mut schedule, 1000 * SECOND, 2000);
            let share = found.len() as f64 * schedule.length().as_secs_f64() / 2000.0;
            assert!((0.01..=0.11).contains(&share), "{step} ms: {share}");
        }
    }

    #[test]
    fn long_jobs_get_fewer_windows_as_they_grow_old() {
        let mut schedule = schedule(10);
        for (hours, period) in [(1, 64), (24, 2048)] {
            schedule.began = Some(Instant::now() - Duration::from_secs(hours * 3600));
            assert_eq!(schedule.period() / SECOND, period);
        }
    }

    #[test]
    fn quiet_spells_lie_between_windows() {
        let mut schedule = schedule(10);
        let mut kinds = Vec::new();
        for now in (10 * SECOND..20 * SECOND).step_by(5_000_000) {
            kinds.extend(schedule.due_at(now, now / 1000, false));
        }
        assert!(kinds.len() > 10);
        for pair in kinds.windows(2) {
            assert_ne!(
                matches!(pair[0], Due::Quiet(_)),
                matches!(pair[1], Due::Quiet(_))
            );
        }
    }

    #[test]
    fn a_job_that_makes_no_calls_gets_no_windows() {
        let mut schedule = schedule(10);
        schedule.due_at(9 * SECOND + 1, 1000, false);
        assert!(schedule.due_at(10 * SECOND, 1001, false).is_some());
        for now in (10 * SECOND + 1..20 * SECOND).step_by(5_000_000) {
            assert_eq!(schedule.due_at(now, 1001, false), None);
        }
        assert!(schedule.due_at(21 * SECOND, 1002, false).is_some());
    }

    #[test]
    fn nothing_before_the_job_has_begun_and_nothing_at_its_end() {
        let mut schedule = schedule(10);
        for now in (10 * SECOND..20 * SECOND).step_by(5_000_000) {
            assert_eq!(schedule.due_at(now, 31, false), None);
            assert_eq!(schedule.due_at(now, 1000, true), None);
        }
        // A point that was missed by much is left out.
        assert_eq!(schedule.due_at(20 * SECOND + 1, 1000, false), None);
        assert_eq!(
            schedule.due_at(22 * SECOND + 200_000_000, 1000, false),
            None
        );
    }
}
