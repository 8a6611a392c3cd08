//! When windows are opened, and for how long.
//!
//! A window should have some whole steps of the job, and the same ones on all ranks. It lasts [`STEPS`] steps as far as their
//! length is known and [`USUAL`] at least, unless it has [`ENOUGH`] records before that. The period is the time of which
//! that is the share that the budget allows; as a job grows older, it grows with it.
//!
//! **Where.** One rank's host may be half a second ahead of another's, though their GPUs work in step. So windows begin at calls
//! and not at times: at every multiple of a number of calls on the communicators with the most ranks of those that are used,
//! launches of graphs included. That number is the power of two that comes nearest to the calls of a period. Quiet spells begin half of it
//! later.
//!
//! Rule: what decides is equal on all ranks, or nearly: their number of calls, how fast they make them, the length of a
//! step. A rank that decides otherwise has half or twice the number, and half of its windows are the others'.

use std::time::{Duration, Instant};

/// Steps in a window: some whole ones, and what is cut off at both ends.
const STEPS: u32 = 4;
/// As long as no step is known, and for short steps.
const USUAL: Duration = Duration::from_millis(200);
/// Shorter ones might miss each other: the recorder's thread sees a call some milliseconds later.
const SHORTEST: Duration = Duration::from_millis(20);
/// Kernels, copies and fills that tell enough of steps that the window has.
const ENOUGH: usize = 8192;
/// Longer ones have more kernels than the recorder keeps.
const LONGEST: Duration = Duration::from_secs(10);
/// A window's share of the time may be so many times the budget, because a window slows a job by 1 to 5 %, and one that
/// launches many small kernels by 15 % (measured): with a budget of 1 %, a twentieth of the time costs 0.05 to 0.75 %.
const SHARE: f64 = 5.0;
/// In the beginning windows come twice as often, so that short jobs have some.
const BEGINNING: Duration = Duration::from_secs(16);
/// Windows since the job's age was half of what it is, about: a job of a day has some 700, and takes no more space.
const HALF_LIFE: u32 = 64;
/// NCCL calls before the first window: set-up is over then.
const CALLS: u64 = 32;
/// How fast calls are made is looked at so often; the first time earlier.
const SAMPLE: Duration = Duration::from_secs(1);
const FIRST_SAMPLE: Duration = Duration::from_millis(250);

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
    /// Calls a second, and when and at which call that was last looked at.
    rate: f64,
    sampled: (Duration, u64),
    /// Calls between two windows; a power of two, 0 not known yet.
    calls: u64,
    /// The newest point that was dealt with: a number of calls.
    point: u64,
    /// When something was last due.
    due: Duration,
}

impl Schedule {
    pub fn new(budget: f64) -> Schedule {
        Schedule {
            budget,
            step: None,
            began: None,
            rate: 0.0,
            sampled: (Duration::ZERO, 0),
            calls: 0,
            point: 0,
            due: Duration::ZERO,
        }
    }

    /// A step of the job takes so long.
    pub fn step(&mut self, step: Duration) {
        self.step = Some(step);
    }

    /// The number of calls for which the window was opened.
    pub fn point(&self) -> u64 {
        self.point
    }

    /// How long the steps of a window take.
    fn steps(&self) -> Duration {
        self.step.map_or(USUAL, |step| step * STEPS)
    }

    fn length(&self) -> Duration {
        self.steps().clamp(USUAL, LONGEST)
    }

    /// Whether a window that was open for so long and has so many records has enough of them.
    pub fn is_enough(&self, open: Duration, records: usize) -> bool {
        records >= ENOUGH && open >= self.steps().max(SHORTEST)
    }

    /// From one window to the next, in a job of this age.
    fn period(&self, age: Duration) -> Duration {
        let share = (self.budget * SHARE).clamp(0.001, 0.5);
        let affordable = self.length().div_f64(share);
        if age < BEGINNING {
            affordable / 2
        } else {
            affordable.max(age / HALF_LIFE)
        }
    }

    /// What is due now. `calls` is how many there were on the communicator with the most ranks.
    pub fn due(&mut self, calls: u64, last: bool) -> Option<Due> {
        if calls < CALLS || last {
            return None;
        }
        let began = *self.began.get_or_insert_with(Instant::now);
        self.due_at(began.elapsed(), calls)
    }

    fn due_at(&mut self, age: Duration, calls: u64) -> Option<Due> {
        let (since, before) = self.sampled;
        if calls < before || before == 0 {
            // A communicator with more ranks counts from now on.
            (self.sampled, self.point) = ((age, calls), calls);
            return None;
        }
        let long = (age - since).as_secs_f64();
        let first = if self.rate == 0.0 {
            FIRST_SAMPLE
        } else {
            SAMPLE
        };
        if long >= first.as_secs_f64() {
            let now = (calls - before) as f64 / long;
            self.rate += (now - self.rate) * if self.rate == 0.0 { 1.0 } else { 0.25 };
            self.sampled = (age, calls);
        }
        let period = self.period(age);
        let wanted = self.rate * period.as_secs_f64();
        if wanted < 2.0 {
            // A call in a period: windows at each.
            self.calls = 2;
        } else if self.calls == 0 || !(0.5..2.0).contains(&(wanted / self.calls as f64)) {
            self.calls = 1 << (wanted.log2().round() as u32).clamp(1, 62);
        }
        let half = self.calls / 2;
        let point = calls / half * half;
        // If calls come faster than before, the budget counts.
        if self.rate == 0.0 || point <= self.point || age - self.due < period / 8 {
            return None;
        }
        (self.point, self.due) = (point, age);
        let length = self.length();
        Some(match (point / half).is_multiple_of(2) {
            true => Due::Window(length),
            false => Due::Quiet(length),
        })
    }

    /// A window was closed and written: what was missed meanwhile is left out.
    pub fn closed(&mut self, calls: u64) {
        self.point = self.point.max(calls);
    }

    /// How long until something may be due.
    pub fn until_next(&self, calls: u64) -> Duration {
        let next = (self.point + self.calls / 2).saturating_sub(calls);
        if self.rate > 0.0 {
            // Looked at again half way, because the rate is not exact.
            Duration::from_secs_f64((next as f64 / self.rate / 2.0).min(1.0))
        } else {
            FIRST_SAMPLE / 8
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(step_ms: u64) -> Schedule {
        let mut schedule = Schedule::new(0.01);
        schedule.step(Duration::from_millis(step_ms));
        schedule
    }

    /// The points of windows and quiet spells of a rank that makes a call every `every`, from `from` to `to`, and is looked at
    /// every 5 ms.
    fn due(schedule: &mut Schedule, every: Duration, from: u64, to: u64) -> Vec<(u64, Due)> {
        let mut found = Vec::new();
        for ms in (from * 1000..to * 1000).step_by(5) {
            let age = Duration::from_millis(ms);
            let calls = (age.as_secs_f64() / every.as_secs_f64()) as u64;
            if let Some(due) = schedule.due_at(age, calls + 1) {
                found.push((schedule.point(), due));
            }
        }
        found
    }

    fn windows(found: Vec<(u64, Due)>) -> Vec<u64> {
        let windows = found
            .into_iter()
            .filter(|(_, due)| matches!(due, Due::Window(_)));
        windows.map(|(point, _)| point).collect()
    }

    #[test]
    fn ranks_that_began_at_different_times_have_the_same_windows() {
        let every = Duration::from_millis(3);
        let (mut one, mut other) = (schedule(150), schedule(155));
        let a = windows(due(&mut one, every, 0, 200));
        // Its clock began 3 s later, and its host is as much behind.
        let b = windows(due(&mut other, every, 0, 190));
        let common = b.iter().filter(|point| a.contains(point)).count();
        assert!(b.len() > 8 && common == b.len(), "{a:?} {b:?}");
    }

    #[test]
    fn windows_take_the_share_that_the_budget_allows() {
        for step in [1, 15, 150, 1000, 60_000] {
            let mut schedule = schedule(step);
            let every = Duration::from_millis(step).max(Duration::from_millis(2)) / 2;
            let found = windows(due(&mut schedule, every, 60, 6000));
            let share = found.len() as f64 * schedule.length().as_secs_f64() / 6000.0;
            assert!((0.001..=0.07).contains(&share), "{step} ms: {share}");
        }
    }

    #[test]
    fn long_jobs_get_fewer_windows_as_they_grow_old() {
        let schedule = schedule(10);
        let hours = |n: u64| schedule.period(Duration::from_secs(3600 * n)).as_secs();
        assert_eq!((hours(1), hours(24)), (56, 1350));
    }

    #[test]
    fn quiet_spells_lie_between_windows() {
        let mut schedule = schedule(10);
        let kinds = due(&mut schedule, Duration::from_millis(2), 0, 60);
        assert!(kinds.len() > 10);
        for pair in kinds.windows(2) {
            assert_ne!(
                matches!(pair[0].1, Due::Quiet(_)),
                matches!(pair[1].1, Due::Quiet(_))
            );
        }
    }

    #[test]
    fn nothing_before_the_job_has_begun_and_nothing_at_its_end() {
        let mut schedule = schedule(10);
        assert_eq!(schedule.due(31, false), None);
        assert_eq!(schedule.due(1000, true), None);
        // A job that makes no calls has nothing to learn from.
        for ms in (0..20_000).step_by(5) {
            assert_eq!(schedule.due_at(Duration::from_millis(ms), 1000), None);
        }
    }
}
