//! When windows are opened, and for how long.
//!
//! A window should have some whole steps of the job, and the same ones on all ranks. It lasts [`STEPS`] steps
//! as far as their length is known and [`USUAL`] at least, unless it has [`ENOUGH`] records before that. The
//! period is so long that a window takes the share of time that the budget allows. As a job grows older, the
//! period grows with it.
//!
//! **Where.** One rank's host may be half a second ahead of another's, though their GPUs work in step. So
//! windows begin at numbers of calls and not at times. Calls are counted on the communicators with the most
//! ranks of those in use, launches of graphs included. A period is a number of calls too, the power of two
//! that comes nearest to what is made in the time of a period. Each has a window in one half and a quiet
//! spell in the other. Which half, and where in it, is drawn by [`place`], or what the job does every so many
//! calls would always, or never, be in a window:
//!
//! ```text
//! calls    0 · · · · · · · · · · · · 2048 · · · · · · · · · · · · 4096 · · · · · · · · · · ·
//! period   ├────────── 0 ──────────┼┤├─────────── 1 ───────────┼┤├─────────── 2 ─ ─ ─
//!              window       quiet        quiet   window                 window
//! ```
//!
//! **Cost.** What windows slow the job by is measured ([`super::felt`]). If that is more than the budget for
//! sure, periods are twice as long from then on, and again.
//!
//! In a process that hangs no call is made, so no window begins.
//!
//! Rule: decisions rest on what is equal on all ranks, or nearly. That is their number of calls, how fast
//! they make them, the length of a step, and how much slower they are in windows. A rank that decides
//! otherwise has half or twice the period, and half of its windows are the others'.

use std::time::{Duration, Instant};

/// Steps in a window: some whole ones, and what is cut off at both ends.
const STEPS: u32 = 4;
/// As long as no step is known, and for short steps.
const USUAL: Duration = Duration::from_millis(200);
/// Shorter ones might miss each other: the recorder sees a call some milliseconds later.
const SHORTEST: Duration = Duration::from_millis(20);
/// Kernels, copies and fills that tell enough of steps that the window has.
const ENOUGH: usize = 4096;
/// Longer ones have more kernels than the recorder keeps.
const LONGEST: Duration = Duration::from_secs(10);
/// A window's share of the time may be so many times the budget. For a window slows a job by only 1 to 5 %,
/// or by 15 % if the job launches many small kernels (measured). With a budget of 1 %, a twentieth of the
/// time costs 0.05 to 0.75 %.
const SHARE: f64 = 5.0;
/// From one window or quiet spell to the next is at least this part of a period: what is between them is
/// compared with both.
const APART: u64 = 5;
/// Periods are made twice as long so often, at most.
const DOUBLED: u32 = 6;
/// In the beginning windows come twice as often, so that short jobs have some. They come four times as often
/// if steps are so long that a window has but a few: it takes three steps to know how they differ.
const BEGINNING: Duration = Duration::from_secs(16);
/// Windows since the job's age was half of what it is, about: a job of a day has some 700, and takes no more
/// space.
const HALF_LIFE: u32 = 64;
/// A quiet spell takes so many times as long as a window, because events cost less. Not in the beginning, so
/// that few calls lack a GPU time in short jobs.
const QUIET: u32 = 2;
/// NCCL calls before the first window: set-up is over then.
const CALLS: u64 = 32;
/// How fast calls are made is looked at so often; the first time earlier.
const SAMPLE: Duration = Duration::from_secs(1);
const FIRST_SAMPLE: Duration = Duration::from_millis(250);

/// Calls come far faster or slower than when the period was decided: by two to the power of this.
const FAR: f64 = 1.25;

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
    /// Calls in a period, as the power of two; none known yet. And at which age and call that was decided.
    level: Option<u32>,
    decided: Option<(Duration, u64)>,
    /// How often the period was made twice as long because of what windows cost.
    doubled: u32,
    /// The newest number of calls that was looked at: what was due before is past.
    looked: u64,
    /// The number of calls at which something was last due, and when.
    point: u64,
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
            level: None,
            decided: None,
            doubled: 0,
            looked: 0,
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

    /// How long a window is, unless it has enough before.
    pub fn length(&self) -> Duration {
        self.steps().clamp(USUAL, LONGEST)
    }

    /// Whether a window that was open for so long and has so many records has enough of them.
    pub fn is_enough(&self, open: Duration, records: usize) -> bool {
        records >= ENOUGH && open >= self.steps().max(SHORTEST)
    }

    /// From one window to the next, in a job of this age.
    fn period(&self, age: Duration) -> Duration {
        let share = (self.budget * SHARE).clamp(0.001, 0.5);
        let affordable = self.length().div_f64(share) * (1 << self.doubled);
        if age < BEGINNING {
            affordable / if self.steps() > USUAL { 4 } else { 2 }
        } else {
            affordable.max(age / HALF_LIFE)
        }
    }

    /// Windows are known to slow the job by this part while they are open: are they too many for the budget?
    pub fn felt(&mut self, slower: f64) {
        let Some(began) = self.began else { return };
        let share = self.length().div_duration_f64(self.period(began.elapsed()));
        if share * slower > self.budget && self.doubled < DOUBLED {
            self.doubled += 1;
            self.decided = None;
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
            (self.sampled, self.looked, self.point) = ((age, calls), calls, 0);
            self.decided = None;
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
        let passed = self.looked + 1..calls + 1;
        self.looked = calls;
        if self.rate == 0.0 {
            return None;
        }
        let period = self.period(age);
        let level = self.decide(age, calls, period);
        let now = calls >> level;
        let (point, quiet) = [now.saturating_sub(1), now]
            .into_iter()
            .flat_map(|period| points(period, level))
            .rfind(|(point, _)| passed.contains(point))?;
        // If calls come faster than before, the budget counts.
        let near = point - self.point.min(point) < (1 << level) / APART;
        if near || age - self.due < period / 8 {
            return None;
        }
        (self.point, self.due) = (point, age);
        let length = self.length();
        Some(match quiet {
            false => Due::Window(length),
            true if age < BEGINNING => Due::Quiet(length),
            true => Due::Quiet(length * QUIET),
        })
    }

    /// The level. It is decided again when the job is twice as old, from all calls since the last time. Ranks
    /// agree on these calls better than on the calls of one second. It is decided at once if calls come far
    /// faster or slower.
    fn decide(&mut self, age: Duration, calls: u64, period: Duration) -> u32 {
        // At least two calls: a window and a quiet spell.
        let wanted = |rate: f64| (rate * period.as_secs_f64()).log2().clamp(1.0, 62.0);
        let now = wanted(self.rate);
        if let (Some(level), Some((at, _))) = (self.level, self.decided) {
            if age < 2 * at && (f64::from(level) - now).abs() < FAR {
                return level;
            }
        }
        let since = self.decided.filter(|(at, _)| age > 2 * *at);
        let all = since.map(|(at, before)| (calls - before) as f64 / (age - at).as_secs_f64());
        let steady = all.map(wanted).filter(|all| (all - now).abs() < FAR);
        let level = steady.unwrap_or(now).round() as u32;
        (self.decided, self.level) = (Some((age.max(SAMPLE), calls)), Some(level));
        level
    }

    /// From now on, another kind of calls is counted.
    pub fn recount(&mut self) {
        (self.rate, self.level, self.decided) = (0.0, None, None);
        (self.sampled, self.looked, self.point) = ((Duration::ZERO, 0), 0, 0);
    }

    /// A window was closed and written: what was missed meanwhile is left out.
    pub fn closed(&mut self, calls: u64) {
        self.looked = self.looked.max(calls);
    }

    /// How long until something may be due.
    pub fn until_next(&self, calls: u64) -> Duration {
        let Some(level) = self.level.filter(|_| self.rate > 0.0) else {
            return FIRST_SAMPLE / 8;
        };
        let period = calls >> level;
        let next = [period, period + 1].into_iter();
        let next = next.flat_map(|period| points(period, level));
        let next = next.map(|(point, _)| point).find(|point| *point > calls);
        let next = next.unwrap_or(calls).saturating_sub(calls);
        // Looked at again half way, because the rate is not exact.
        Duration::from_secs_f64((next as f64 / self.rate / 2.0).min(1.0))
    }
}

/// Where the window and the quiet spell of a period of `1 << level` calls begin, in order, and whether that
/// is the quiet one.
fn points(period: u64, level: u32) -> [(u64, bool); 2] {
    let half = 2 * period + drawn(period, level);
    let window = (place(half, level - 1), false);
    let quiet = (place(half ^ 1, level - 1), true);
    if window.0 < quiet.0 {
        [window, quiet]
    } else {
        [quiet, window]
    }
}

/// A place in the `number`th stretch of `1 << level` calls. It is also that of the half in which it lies, so
/// windows of twice the period are every second one of the period's.
fn place(number: u64, level: u32) -> u64 {
    (1..=level).rev().fold(number, |number, level| {
        number.saturating_mul(2) + drawn(number, level)
    })
}

/// 0 or 1, the same on all ranks.
fn drawn(number: u64, level: u32) -> u64 {
    let mut mixed = number ^ u64::from(level) << 58;
    for _ in 0..2 {
        mixed = (mixed ^ mixed >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    mixed >> 63
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(step_ms: u64) -> Schedule {
        let mut schedule = Schedule::new(0.01);
        schedule.step(Duration::from_millis(step_ms));
        schedule
    }

    /// The points of windows and quiet spells of a rank that makes a call every `every`, from `from` to `to`,
    /// and is looked at every 5 ms.
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
        // But for those that are too near to another of one of them.
        assert!(b.len() > 8 && 10 * common >= 9 * b.len(), "{a:?} {b:?}");
    }

    #[test]
    fn nothing_is_due_while_no_call_is_made() {
        // It hangs after each of so many calls, for an hour.
        for calls in (32..4000).step_by(307) {
            let mut schedule = schedule(20);
            let every = Duration::from_millis(5);
            let found = due(&mut schedule, every, 0, calls * 5 / 1000);
            let began = Duration::from_secs(calls * 5 / 1000);
            let mut after = 0;
            for ms in (0..3_600_000u64).step_by(50) {
                let age = began + Duration::from_millis(ms);
                after += usize::from(schedule.due_at(age, calls).is_some());
            }
            // What was due at the last of the calls begins a moment later.
            assert!(after <= 1, "{calls}: {} and then {after}", found.len());
        }
    }

    #[test]
    fn ranks_whose_calls_jitter_decide_alike() {
        // The rate lies between two powers of two for none of these.
        for every_us in [2_200, 3_000, 5_000] {
            let every = Duration::from_micros(every_us);
            let ranks: Vec<Vec<u64>> = (0..3u64)
                .map(|rank| {
                    let mut schedule = schedule(20);
                    let mut found = Vec::new();
                    for ms in (0..60_000u64).step_by(5) {
                        let age = Duration::from_millis(ms);
                        // A host is up to 150 ms ahead of its GPU, and not always as much.
                        let ahead = (ms / 700 + rank) * 0x9e37_79b9 % 150;
                        let calls =
                            (age + Duration::from_millis(ahead)).as_micros() as u64 / every_us;
                        if let Some(Due::Window(_)) = schedule.due_at(age, calls + 1) {
                            found.push(schedule.point());
                        }
                    }
                    found
                })
                .collect();
            for rank in &ranks[1..] {
                let common = rank.iter().filter(|point| ranks[0].contains(point)).count();
                assert!(
                    10 * common >= 9 * rank.len().max(ranks[0].len()),
                    "{every:?} {ranks:?}"
                );
            }
        }
    }

    #[test]
    fn another_kind_of_calls_counts_from_its_first() {
        let mut schedule = schedule(20);
        let every = Duration::from_millis(3);
        let few = windows(due(&mut schedule, every, 0, 5)).len();
        schedule.recount();
        let mut found = 0;
        for ms in (5_000..205_000u64).step_by(5) {
            let age = Duration::from_millis(ms);
            found += u64::from(matches!(
                schedule.due_at(age, 1_700_000_000_000 + ms),
                Some(Due::Window(_))
            ));
        }
        // A window of 200 ms every 4 s, and twice as many before.
        assert!(few <= 4 && (35..75).contains(&found), "{few} {found}");
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
    fn there_are_as_many_quiet_spells_and_room_between_both() {
        let mut schedule = schedule(10);
        let kinds = due(&mut schedule, Duration::from_millis(2), 0, 600);
        let quiet = kinds.iter().filter(|(_, d)| matches!(d, Due::Quiet(_)));
        let (quiet, all) = (quiet.count(), kinds.len());
        assert!(
            all > 200 && (3 * quiet > all && 3 * (all - quiet) > all),
            "{quiet} of {all}"
        );
        let apart = kinds.windows(2).map(|pair| pair[1].0 - pair[0].0);
        // 2000 calls are a period.
        assert!(apart.min() >= Some(2048 / 2 / APART), "{kinds:?}");
        // Both orders come, so nothing that the job does in turn is always in one of them.
        let follow = |a: bool, b: bool| {
            let is_quiet = |due: &Due| matches!(due, Due::Quiet(_));
            let pairs = kinds.windows(2);
            pairs
                .filter(|p| (is_quiet(&p[0].1), is_quiet(&p[1].1)) == (a, b))
                .count()
        };
        assert!(follow(true, true) > 10 && follow(false, false) > 10);
    }

    #[test]
    fn no_phase_of_the_job_is_always_hit() {
        // What the job does every 64, 100 or 1024 calls is as often in windows as elsewhere.
        for every in [64, 100, 1024] {
            let mut hit = [0; 8];
            for period in 0..8000 {
                let [a, b] = points(period, 11);
                let window = if a.1 { b } else { a };
                hit[(window.0 % every * 8 / every) as usize] += 1;
            }
            assert!(
                hit.iter().all(|n| (850..1150).contains(n)),
                "{every}: {hit:?}"
            );
        }
    }

    #[test]
    fn half_of_the_windows_are_those_of_twice_the_period() {
        let window = |period: u64, level: u32| points(period, level).into_iter().find(|p| !p.1);
        for level in 1..40 {
            for period in 0..50 {
                let longer = window(period, level + 1).expect("one");
                let shorter = [2 * period, 2 * period + 1].map(|period| window(period, level));
                assert!(shorter.contains(&Some(longer)));
                let inside = (
                    period << level..(period + 1) << level,
                    points(period, level),
                );
                assert!(inside.1.iter().all(|(point, _)| inside.0.contains(point)));
            }
        }
    }

    #[test]
    fn windows_that_cost_more_than_the_budget_are_spaced_further() {
        let mut schedule = schedule(10);
        schedule.felt(0.9);
        // The job has not begun.
        let every = Duration::from_millis(2);
        let count =
            |schedule: &mut Schedule, from, to| windows(due(schedule, every, from, to)).len();
        let _ = schedule.due(CALLS, false);
        schedule.began = Some(Instant::now() - 20 * Duration::from_secs(1));
        let usual = count(&mut schedule, 20, 420);
        // A twentieth of the time, and 19 % slower: as planned.
        schedule.felt(0.19);
        assert_eq!(schedule.doubled, 0);
        (0..3).for_each(|_| schedule.felt(0.6));
        assert_eq!(schedule.doubled, 2);
        let fewer = count(&mut schedule, 420, 820);
        assert!(
            (3 * fewer..5 * fewer + 5).contains(&usual),
            "{usual} {fewer}"
        );
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
