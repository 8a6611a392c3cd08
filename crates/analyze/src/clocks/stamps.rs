//! Where a GPU's stamps lie on its host's clock.
//!
//! A kernel begins after its launch and ends before NCCL tells of its end, so each stamped call bounds the host's clock less the GPU's
//! from both sides. A [`StampMap`] keeps the best bounds of each window of time.
//!
//! Rule: the map is an interval, not a guess; where the bounds of a window contradict each other (the GPU's clock stepped) there is none.

use std::collections::BTreeMap;

/// GPU clocks have been seen to step, and drift against the host's by up to [`DRIFT_PPM`]; a window is short against both, ns.
const WINDOW_NS: i64 = 100_000_000;
/// Parts per million.
const DRIFT_PPM: i64 = 100;

/// By window of the GPU's clock: the host's clock less the GPU's, at least and at most, ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct StampMap {
    windows: BTreeMap<i64, (i64, i64)>,
    /// The window at hand: calls mostly follow each other.
    open: Option<(i64, (i64, i64))>,
}

impl StampMap {
    /// Adds a call with these stamps, which was launched no earlier than `launched` and seen to have ended at `seen` (0 not known).
    #[inline]
    pub fn add(&mut self, start: u64, stop: u64, launched: i64, seen: i64) {
        let (Ok(start), Ok(stop)) = (i64::try_from(start), i64::try_from(stop)) else {
            return;
        };
        let low = match launched {
            0 => i64::MIN,
            launched => launched.saturating_sub(start),
        };
        let high = match seen {
            0 => i64::MAX,
            seen => seen
                .saturating_sub(stop)
                .saturating_add(drift(stop.saturating_sub(start))),
        };
        let window = start.div_euclid(WINDOW_NS);
        match &mut self.open {
            Some((open, bounds)) if *open == window => {
                *bounds = (bounds.0.max(low), bounds.1.min(high));
            }
            _ => {
                self.close();
                self.open = Some((window, (low, high)));
            }
        }
    }

    /// To be called before the first question.
    pub fn close(&mut self) {
        if let Some((window, (low, high))) = self.open.take() {
            let of = self.windows.entry(window).or_insert((low, high));
            *of = (of.0.max(low), of.1.min(high));
        }
    }

    /// What is to be added to the stamps of a kernel that began at `start` and ran for so long, for the host's clock, and the error of
    /// that, ns.
    pub fn at(&self, start: u64, ran: i64) -> Option<(i64, i64)> {
        let window = i64::try_from(start).ok()?.div_euclid(WINDOW_NS);
        let slack = drift(WINDOW_NS.saturating_add(ran));
        let (low, high) = *self.windows.get(&window)?;
        if low == i64::MIN || high == i64::MAX || low > high {
            return None;
        }
        let half = high.saturating_sub(low) / 2;
        Some((low.saturating_add(half), half.saturating_add(slack + 1)))
    }
}

/// What a GPU's clock and its host's may run apart in this time, ns.
fn drift(ns: i64) -> i64 {
    ns / 1_000_000 * DRIFT_PPM + DRIFT_PPM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_and_sightings_enclose_the_clock() {
        let mut map = StampMap::default();
        // The host's clock is 5 ms ahead of the GPU's.
        for (i, (delay, late)) in [(9_000, 40_000), (4_000, 90_000), (30_000, 2_000)]
            .into_iter()
            .enumerate()
        {
            let start = 1_000_000_000 + 1_000_000 * i as u64;
            let host = start as i64 + 5_000_000;
            map.add(start, start + 50_000, host - delay, host + 50_000 + late);
        }
        map.close();
        let (offset, error) = map.at(1_000_500_000, 50_000).expect("bounds");
        assert!((offset - 5_000_000).abs() <= error, "{offset} {error}");
        assert!(error <= 3_001 + 10_500);
        assert_eq!(map.at(3_000_000_000, 0), None);
    }

    #[test]
    fn one_side_alone_and_a_step_tell_nothing() {
        let mut map = StampMap::default();
        map.add(1_000_000_000, 1_000_050_000, 1_000_000_000, 0);
        map.add(2_000_000_000, 2_000_050_000, 2_000_000_000, 2_000_060_000);
        // The GPU's clock went back by 1 ms.
        map.add(2_001_000_000, 2_001_050_000, 2_002_000_000, 2_002_060_000);
        map.add(u64::MAX, u64::MAX, 1, 1);
        // What a damaged file may say.
        map.add(5_000_000_000, 5_000_000_000, i64::MIN / 2, i64::MAX - 1);
        map.close();
        assert_eq!(
            (map.at(1_000_000_000, 0), map.at(2_000_000_000, 0)),
            (None, None)
        );
        assert_eq!(map.at(u64::MAX, 0), None);
        assert!(map.at(5_000_000_000, i64::MAX).is_some());
    }
}
