//! Keeps the cost of each source of figures within its share of one core.
//!
//! A [`Pace`] measures the CPU time of each reading. The next one is due after the source's period, or later
//! if the reading was so expensive that its share would not hold.
//!
//! A source may have a credit, which it uses up before it is read less often. So what happens at the start of
//! a job is seen at each tick.
//!
//! Rule: over any long time, a source takes at most its share of one core. On a large node, figures come less
//! often; they never cost more.

use std::time::{Duration, Instant};

/// When a source is due, and what it may cost.
pub struct Pace {
    period: Duration,
    share: f64,
    due: Instant,
    /// CPU time beyond the share that is left.
    credit: Duration,
}

impl Pace {
    /// A source that is due now, then after each `period`, and takes at most `share` of one core.
    pub fn new(period: Duration, share: f64, now: Instant) -> Pace {
        Pace {
            period,
            share,
            due: now,
            credit: Duration::ZERO,
        }
    }

    /// The same with so much CPU time in advance.
    pub fn with_credit(mut self, credit: Duration) -> Pace {
        self.credit = credit;
        self
    }

    /// Reads the source if it is due. Times are those of the tick, so that sources with one period are due at
    /// the same ticks.
    pub fn run(&mut self, tick: Instant, read: impl FnOnce()) {
        if tick < self.due {
            return;
        }
        let before = thread_cpu();
        read();
        let cost = thread_cpu().saturating_sub(before);
        self.due = tick + self.next(cost);
    }

    /// Until the next reading, after one that took `cost` of CPU time.
    fn next(&mut self, cost: Duration) -> Duration {
        let beyond = cost.saturating_sub(self.period.mul_f64(self.share));
        if beyond <= self.credit {
            self.credit -= beyond;
            return self.period;
        }
        let needed = cost.div_f64(self.share);
        if needed <= self.period {
            return self.period;
        }
        // A whole number of periods.
        let periods = (needed.as_secs_f64() / self.period.as_secs_f64()).ceil();
        self.period.mul_f64(periods.min(1e6))
    }
}

/// CPU time of this thread.
pub fn thread_cpu() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel fills in a struct on our stack.
    let asked = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    if asked != 0 {
        return Duration::ZERO;
    }
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expensive_source_is_read_less_often() {
        let mut pace = Pace::new(Duration::from_millis(100), 0.01, Instant::now());
        assert_eq!(
            pace.next(Duration::from_micros(900)),
            Duration::from_millis(100)
        );
        assert_eq!(
            pace.next(Duration::from_micros(1_100)),
            Duration::from_millis(200)
        );
        assert_eq!(pace.next(Duration::from_millis(10)), Duration::from_secs(1));
    }

    #[test]
    fn a_source_with_credit_is_read_at_each_tick_until_that_is_used_up() {
        let period = Duration::from_millis(100);
        let pace = Pace::new(period, 0.01, Instant::now());
        let mut pace = pace.with_credit(Duration::from_millis(12));
        // Each reading takes 4 ms more than the share of a period.
        let next: Vec<_> = (0..4)
            .map(|_| pace.next(Duration::from_millis(5)))
            .collect();
        let slower = Duration::from_millis(500);
        assert_eq!(next, [period, period, period, slower]);
    }

    #[test]
    fn a_source_is_read_when_it_is_due() {
        let now = Instant::now();
        let mut pace = Pace::new(Duration::from_secs(100), 1.0, now);
        let mut read = 0;
        pace.run(now, || read += 1);
        pace.run(now + Duration::from_secs(99), || read += 1);
        assert_eq!(read, 1);
        pace.run(now + Duration::from_secs(100), || read += 1);
        assert_eq!(read, 2);
    }
}
