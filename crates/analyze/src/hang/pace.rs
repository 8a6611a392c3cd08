//! The pace of a process: its pauses from one call to the next.
//!
//! [`Pace`] takes the calls of one process in their order. [`brief`] is what the paces of a job say of a
//! short wait at its end.
//!
//! Rule: a time that was not recorded is no pause.

use super::reached::{known, newest};
use crate::account::MATTERS;
use crate::time::{HostTime, Nanos};
use tables::Call;

/// A wait that is less probable than this is no pause of the job: as for the intervals of 95 %.
const CHANCE: f64 = 0.05;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// The newest time of the calls so far.
    newest: Option<HostTime>,
    /// The newest time at which one was entered.
    entered: Option<HostTime>,
    /// The longest pause between two calls that it has come back from.
    pub(super) longest: Nanos,
    /// Pauses from the beginning of a call to that of the next, and their sum.
    pauses: u64,
    sum: Nanos,
}

impl Pace {
    /// Adds the next call.
    pub fn add(&mut self, call: &Call) {
        let entered = known(call.api_ns);
        // Times of a damaged file may be anything, and so may the pause between them.
        if let Some((before, entered)) = self.newest.zip(entered) {
            self.longest = self.longest.max(entered - before);
        }
        self.newest = self.newest.max(newest(call));
        // Calls of several threads may be out of order.
        let pause = self.entered.zip(entered);
        let pause = pause.map(|(before, entered)| entered - before);
        if let Some(pause) = pause.filter(|pause| *pause > Nanos::ZERO) {
            self.pauses += 1;
            self.sum += pause;
        }
        self.entered = self.entered.max(entered);
    }

    /// The shortest wait that is no pause of this process, ns; `None` without any pause.
    ///
    /// Pauses whose ends don't depend on how long they have lasted (exponential ones) are longer than this
    /// with the probability [`CHANCE`], whatever their mean. Those of steps vary less, which makes a long one
    /// less probable still. And it does not matter that the job may have been ended within a pause. A
    /// launcher does not end all ranks at once: what is short beside the run says nothing of it.
    fn brief(&self) -> Option<Nanos> {
        if self.pauses == 0 {
            return None;
        }
        let beyond_chance = self.sum * (CHANCE.powf(-1.0 / self.pauses as f64) - 1.0);
        Some(beyond_chance.max(self.sum * MATTERS))
    }
}

/// Up to this length a wait may be a pause, by the paces of all processes, ns; `None` if they do not tell.
pub(super) fn brief(paces: &[Pace]) -> Option<Nanos> {
    paces.iter().filter_map(Pace::brief).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_brief_by_the_number_and_the_length_of_pauses() {
        let pace = |pauses: u64, ns: i64| {
            let mut pace = Pace::default();
            for call in 0..=pauses as i64 {
                pace.add(&Call {
                    api_ns: 1 + call * ns,
                    ..Call::default()
                });
            }
            pace
        };
        assert_eq!(brief(&[pace(0, 1)]), None);
        // A hundred pauses have a hundred times less of such length.
        let us = |pauses: u64| brief(&[pace(pauses, 20_000)]).map(|brief| brief.us() as i64);
        assert_eq!([1, 2, 100].map(us), [Some(380), Some(138), Some(100)]);
        // The slowest decides.
        let slowest = brief(&[pace(1, 10), pace(1, 30)]).expect("pauses");
        assert_eq!(slowest.whole(), 570);
        assert_eq!(pace(2, 20).longest, Nanos(20.0));
    }
}
