//! How long a step of the job takes, so that windows have some.
//!
//! A job makes the same calls in each step. [`StepWatch`] keeps what the newest calls were (communicator,
//! function, size, peer, and whether it is in a group with the one before) and when. Groups count, because
//! the last stage of a pipeline receives and sends in turn all the time. Only at the ends of a step are these
//! two groups. The step is the least number of calls after which the same calls come again, in all of the
//! newer half of what is kept. If layers are equal, a few calls repeat too, but not over a whole step.
//!
//! That half may still have calls of the set-up, which are hundreds in DeepSpeed. Then a smaller part counts,
//! unless another kind of call comes as regularly and less often: what repeats may then be the layers of a
//! step. If no number is found, because something else comes in between now and then, the last one that was
//! found holds, as long as most calls still repeat so. Before there is one, the step is the time from one
//! call to the next of the rarest regular kind.
//!
//! Rule: this only chooses the length of windows. What a step is in a report is found from all calls.

use capture::rows::Ticks;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Kinds that are watched; a job has some tens.
const MOST: usize = 256;
/// Calls that are kept: some steps of a model with hundreds of layers.
const KEPT: usize = 8192;
/// Calls that must repeat.
const LEAST: usize = 48;
/// So many steps must be alike.
const ALIKE: usize = 3;
/// The newer half of the calls must repeat, or a smaller part.
const PARTS: [usize; 4] = [2, 4, 8, 16];

/// Times that differ by this factor are those of the same regular call.
const REGULAR: f64 = 1.3;

/// What is known of a call: communicator, function, elements, peer, and whether it is in a group with the
/// call before it.
pub type CallKey = (u32, u8, u64, u32, bool);

#[derive(Default)]
struct Seen {
    number: u16,
    last: Ticks,
    /// Ticks from one to the next, lately.
    every: f64,
    alike: usize,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    calls: usize,
    ticks: f64,
}

/// Watches the calls of a process.
#[derive(Default)]
pub struct StepWatch {
    kinds: HashMap<CallKey, Seen>,
    /// The newest calls: number of the kind, and when, in ticks.
    calls: VecDeque<(u16, Ticks)>,
    /// Calls since a step was last looked for.
    since: usize,
    step: Option<Step>,
}

impl StepWatch {
    /// A call was made.
    pub fn call(&mut self, kind: CallKey, at: Ticks) {
        let number = self.kinds.len();
        if number >= MOST && !self.kinds.contains_key(&kind) {
            return;
        }
        let seen = self.kinds.entry(kind).or_insert_with(|| Seen {
            number: number as u16,
            ..Seen::default()
        });
        let since = at.since(seen.last) as f64;
        if seen.last != Ticks(0) && since > 0.0 {
            let regular = seen.every > 0.0 && (since / seen.every - 1.0).abs() < REGULAR - 1.0;
            seen.alike = if regular { seen.alike + 1 } else { 0 };
            seen.every = if regular {
                seen.every + (since - seen.every) / 4.0
            } else {
                since
            };
        }
        seen.last = at;
        if self.calls.len() >= KEPT {
            self.calls.pop_front();
        }
        self.calls.push_back((seen.number, at));
        self.since += 1;
    }

    /// How long a step takes, as far as that is known.
    pub fn longest(&mut self, ns_per_tick: f64) -> Option<Duration> {
        // A fourth more each time: short jobs need it early, and in long ones it hardly changes.
        if self.since >= (self.calls.len() / 4).max(LEAST) {
            self.since = 0;
            let before = self.step;
            let found = self.repeated();
            self.step = found.or(before.filter(|step| self.mostly_repeats(step.calls)));
        }
        let step = self.step.map(|step| step.ticks);
        let step = step.or_else(|| self.rarest())? * ns_per_tick;
        (step > 0.0 && step < 1e12).then(|| Duration::from_nanos(step as u64))
    }

    /// The least number of calls after which the newer calls repeat themselves.
    fn repeated(&mut self) -> Option<Step> {
        let rarest = self.rarest().unwrap_or(0.0);
        let calls = &*self.calls.make_contiguous();
        PARTS.into_iter().find_map(|part| {
            let step = every(&calls[calls.len() - calls.len() / part..])?;
            let is_whole = part == PARTS[0] || REGULAR * step.ticks >= rarest;
            is_whole.then_some(step)
        })
    }

    /// Whether most of the newest calls are those of so many calls before.
    fn mostly_repeats(&self, after: usize) -> bool {
        let newest = self.calls.len() - self.calls.len() / PARTS[1]..self.calls.len();
        let same = |at: &usize| *at >= after && self.calls[*at].0 == self.calls[at - after].0;
        2 * newest.clone().filter(same).count() > newest.len()
    }

    /// The longest time after which a kind of call comes again and again.
    fn rarest(&self) -> Option<f64> {
        let regular = self.kinds.values().filter(|seen| seen.alike >= ALIKE);
        regular.map(|seen| seen.every).reduce(f64::max)
    }
}

/// The least number of calls after which all of these repeat themselves.
fn every(calls: &[(u16, Ticks)]) -> Option<Step> {
    let repeats = |n: &usize| (*n..calls.len()).all(|at| calls[at].0 == calls[at - n].0);
    let n = (1..=calls.len() / (ALIKE + 1)).find(repeats)?;
    let steps = (calls.len() - 1) / n;
    let (last, first) = (calls[calls.len() - 1], calls[calls.len() - 1 - steps * n]);
    (calls.len() >= LEAST / 2).then(|| Step {
        calls: n,
        ticks: last.1.since(first.1) as f64 / steps as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of 200 µs, at two ns to a tick, of `layers` equal layers: gathers forwards, then gathers and
    /// reductions backwards.
    fn sharded(steps: &mut StepWatch, first: u64, n: u64, layers: u64) {
        for step in first..first + n {
            let begin = 1 + step * 100_000;
            let every = 100_000 / (3 * layers);
            for call in 0..3 * layers {
                let reduces = call >= layers && (call - layers) % 2 == 1;
                let kind = (1, if reduces { 3 } else { 2 }, 4096, 0, false);
                steps.call(kind, Ticks(begin + call * every));
            }
        }
    }

    /// As in DeepSpeed's third stage: the set-up handles each layer's parameters by themselves, again and
    /// again, and a step has ten calls.
    #[test]
    fn calls_of_the_set_up_hide_a_step_only_for_some_steps() {
        let mut steps = StepWatch::default();
        for call in 0..240u64 {
            let count = [1024, 2048, 8192, 8192, 6144, 512][call as usize % 6];
            steps.call((1, 2, count, 0, false), Ticks(1 + call * 50));
            steps.longest(2.0);
        }
        let mut found = Vec::new();
        for step in 0..60 {
            for call in 0..10 {
                let kind = if call < 8 {
                    (1, 2, 48, 0, false)
                } else {
                    (1, 3, 800, 0, false)
                };
                steps.call(kind, Ticks(20_000 + step * 1000 + call * 100));
                found.push(steps.longest(2.0));
            }
        }
        let right = Some(Duration::from_nanos(2000));
        let last_wrong = found.iter().rposition(|step| *step != right);
        assert!(last_wrong.is_some_and(|call| call < 100), "{last_wrong:?}");
    }

    /// A step of so many calls that even the newest half has no four of it: its layers are no steps.
    #[test]
    fn layers_of_a_long_step_are_no_steps() {
        let mut steps = StepWatch::default();
        for step in 0..12u64 {
            for call in 0..2400 {
                let at = 1 + (step * 2401 + call) * 10;
                steps.call((1, (call % 4) as u8, 48, 0, false), Ticks(at));
            }
            steps.call((1, 5, 1, 0, false), Ticks(1 + (step * 2401 + 2400) * 10));
            let found = steps.longest(1.0);
            if step > 4 {
                assert_eq!(found, Some(Duration::from_nanos(24_010)), "{step}");
            }
        }
    }

    #[test]
    fn equal_layers_are_no_steps() {
        let mut steps = StepWatch::default();
        sharded(&mut steps, 0, 8, 12);
        assert_eq!(steps.longest(2.0), Some(Duration::from_nanos(200_000)));
        // What comes in between once does not change it.
        steps.call((1, 7, 1, 0, false), Ticks(801_000));
        sharded(&mut steps, 9, 8, 12);
        assert_eq!(steps.longest(2.0), Some(Duration::from_nanos(200_000)));
        let mut large = StepWatch::default();
        sharded(&mut large, 0, 12, 160);
        assert_eq!(large.longest(2.0), Some(Duration::from_nanos(200_000)));
    }

    #[test]
    fn a_stage_of_a_pipeline_has_steps() {
        let mut steps = StepWatch::default();
        for step in 0..10u64 {
            // 1F1B with warm-up of two micro-batches: from the stage before, to the next, and back.
            let order = [0, 1, 0, 1, 0, 1, 2, 3, 0, 1, 2, 3, 2, 3, 2, 3];
            for (at, what) in order.into_iter().enumerate() {
                let (function, peer) = [(5, 1), (4, 3), (5, 3), (4, 1)][what];
                let at = 1 + step * 100_000 + (at * at * 300) as u64;
                steps.call((1, function, 4096, peer, false), Ticks(at));
            }
        }
        assert_eq!(steps.longest(2.0), Some(Duration::from_nanos(200_000)));
    }

    #[test]
    fn the_last_stage_of_a_pipeline_has_steps() {
        let mut steps = StepWatch::default();
        for step in 0..12u64 {
            // It receives, then sends and receives together seven times, and sends.
            for call in 0..16u64 {
                let (function, peer) = if call % 2 == 0 { (5, 1) } else { (4, 1) };
                let with_before = call % 2 == 0 && call > 0;
                let at = 1 + step * 100_000 + call * 6_000;
                steps.call((1, function, 4096, peer, with_before), Ticks(at));
            }
        }
        assert_eq!(steps.longest(2.0), Some(Duration::from_nanos(200_000)));
    }

    #[test]
    fn one_call_is_a_step_where_there_is_no_other() {
        let mut steps = StepWatch::default();
        (0..100).for_each(|i| steps.call((1, 3, 4096, 0, false), Ticks(1 + i * 1000)));
        assert_eq!(steps.longest(1.0), Some(Duration::from_nanos(1000)));
        assert_eq!(StepWatch::default().longest(1.0), None);
    }

    #[test]
    fn the_rarest_regular_call_marks_the_step_of_a_job_that_varies() {
        let mut steps = StepWatch::default();
        for step in 0..10u64 {
            let begin = 1 + step * 100_000;
            for layer in 0..8 + step % 3 {
                steps.call((1, 3, 4096, 0, false), Ticks(begin + layer * 8_000));
            }
            steps.call((1, 5, 1, 0, false), Ticks(begin + 90_000));
        }
        assert_eq!(steps.longest(2.0), Some(Duration::from_nanos(200_000)));
    }

    #[test]
    fn memory_is_bounded() {
        let mut steps = StepWatch::default();
        (0..10_000).for_each(|i| steps.call((1, 1, i, 0, false), Ticks(i)));
        assert_eq!(steps.kinds.len(), MOST);
        (0..20_000).for_each(|i| steps.call((1, 1, 1, 0, false), Ticks(i)));
        assert_eq!(steps.calls.len(), KEPT);
    }
}
