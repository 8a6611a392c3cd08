//! How long a step of the job takes, so that windows have some.
//!
//! A job makes the same calls in each step: of each kind of call (communicator, function, size) the time from one to the
//! next is noted. Kinds that come several times a step have shorter times, so the longest regular one is the step.
//!
//! Rule: this only chooses the length of windows. What a step is in a report is found from all calls.

use std::collections::HashMap;
use std::time::Duration;

/// Kinds that are watched; a job has some tens.
const MOST: usize = 256;
/// Times in a row that must be alike.
const ALIKE: u32 = 3;

/// What is known of a kind: communicator, function, elements.
type Kind = (u32, u8, u64);

#[derive(Default)]
struct Seen {
    last: u64,
    /// Ticks from one to the next, lately.
    every: f64,
    alike: u32,
}

/// Watches the calls of a process.
#[derive(Default)]
pub struct Steps {
    kinds: HashMap<Kind, Seen>,
}

impl Steps {
    /// A call was made.
    pub fn call(&mut self, kind: Kind, at: u64) {
        if !self.kinds.contains_key(&kind) && self.kinds.len() >= MOST {
            return;
        }
        let seen = self.kinds.entry(kind).or_default();
        let since = at.saturating_sub(seen.last) as f64;
        if seen.last != 0 && since > 0.0 {
            let regular = seen.every > 0.0 && (since / seen.every - 1.0).abs() < 0.3;
            seen.alike = if regular { seen.alike + 1 } else { 0 };
            seen.every = if regular {
                seen.every + (since - seen.every) / 4.0
            } else {
                since
            };
        }
        seen.last = at;
    }

    /// The longest time after which a kind of call comes again and again.
    pub fn longest(&self, ns_per_tick: f64) -> Option<Duration> {
        let regular = self.kinds.values().filter(|seen| seen.alike >= ALIKE);
        let longest = regular
            .map(|seen| seen.every * ns_per_tick)
            .fold(0.0, f64::max);
        (longest > 0.0 && longest < 1e12).then(|| Duration::from_nanos(longest as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rarest_regular_call_marks_the_step() {
        let mut steps = Steps::default();
        for step in 0..10u64 {
            let begin = 1 + step * 100_000;
            for layer in 0..8 {
                steps.call((1, 3, 4096), begin + layer * 10_000);
            }
            steps.call((1, 5, 1), begin + 90_000);
            // An evaluation now and then is no step.
            if step == 4 {
                steps.call((1, 7, 1), begin);
            }
        }
        assert_eq!(steps.longest(2.0), Some(Duration::from_nanos(200_000)));
        assert_eq!(Steps::default().longest(1.0), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut steps = Steps::default();
        (0..10_000).for_each(|i| steps.call((1, 1, i), i));
        assert_eq!(steps.kinds.len(), MOST);
    }
}
