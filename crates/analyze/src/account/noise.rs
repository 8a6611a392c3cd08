//! How long a late lane would wait for the others if it was in time.
//!
//! Lanes that do the same come at different moments by noise, and each waits for the last one. A lane that is
//! late waits less than that, or never. So the others wait for it longer than they would save: what it would
//! wait then, the step takes as well.
//!
//! Of n lanes with the same noise, each waits for the last for as long as the largest of n values lies above
//! their mean. How much a lane differs from the mean of the others in an operation, from step to step, shows
//! the noise. Steps that are a few apart are compared, so that a lane that is late for a part of the run, or
//! every few steps, makes none.
//!
//! Rule: the noise of a place makes a lane wait there only.

use super::places::{Cell, Places};
use statrs::distribution::{ContinuousCDF, Normal};

/// Fewer operations of a place don't show its noise.
const LEAST: usize = 8;

/// Steps up to so many apart are compared.
pub const MOST_APART: u32 = 4;

/// The median of |x - y| of two standard normal values.
const MEDIAN_APART: f64 = 0.954;

/// The expected value of the `i`-th of `n` values of a standard normal distribution, from the smallest, 1, to
/// the largest, `n` (G. Blom, "Statistical Estimates and Transformed Beta-Variables", 1958).
pub fn expected(i: usize, n: usize) -> f64 {
    Normal::standard().inverse_cdf((i as f64 - 0.375) / (n as f64 + 0.25))
}

/// What is known of a place.
#[derive(Default)]
struct AtPlace {
    operations: f64,
    lanes: usize,
    /// By operation: its step, and for how much longer the others stood still.
    less: Vec<(u32, f64)>,
    /// For how long the lane waited in all of them, ns.
    waited: f64,
}

impl AtPlace {
    /// How much longer the lane would wait in all operations of the place, ns.
    fn missing(&self) -> f64 {
        if self.less.len() < LEAST {
            return 0.0;
        }
        let noise = (1..=MOST_APART).flat_map(|n| [self.apart(n), self.of_timed(n as usize)]);
        let noise = noise.flatten().fold(f64::INFINITY, f64::min);
        let noise = noise / MEDIAN_APART;
        // The noise of the mean of the others is a part of that.
        let others = (self.lanes - 1) as f64;
        let wait = expected(self.lanes, self.lanes) * noise / (1.0 + 1.0 / others).sqrt();
        (wait - self.waited / self.less.len() as f64).max(0.0) * self.operations
    }

    /// By how much it differs between operations that are so many steps apart, by the median; `None` if few
    /// are.
    fn apart(&self, steps: u32) -> Option<f64> {
        let mut later = self.less.iter().peekable();
        let mut apart = Vec::new();
        for (step, less) in &self.less {
            while later.next_if(|(at, _)| *at < step + steps).is_some() {}
            if let Some((_, then)) = later.peek().filter(|(at, _)| *at == step + steps) {
                apart.push((then - less).abs());
            }
        }
        (apart.len() >= LEAST).then(|| super::frame::median(apart))
    }

    /// The same of those timed that are so many apart, whatever lies between.
    fn of_timed(&self, operations: usize) -> Option<f64> {
        let pairs = self.less.windows(operations + 1);
        let apart: Vec<f64> = pairs.map(|of| (of[operations].1 - of[0].1).abs()).collect();
        (!apart.is_empty()).then(|| super::frame::median(apart))
    }
}

/// How much longer a lane would wait in the operations of these steps, ns.
pub fn missing(
    places: &Places,
    steps: &[bool],
    value: &dyn Fn(&Cell) -> Option<f64>,
    lane: usize,
) -> f64 {
    let (mut missing, mut place, mut at) = (0.0, 0, AtPlace::default());
    for operation in places.operations() {
        if operation[0].place != place {
            missing += std::mem::take(&mut at).missing();
            place = operation[0].place;
        }
        let step = operation[0].step;
        if !steps[step as usize] {
            continue;
        }
        at.operations += f64::from(operation[0].times);
        let own = operation.iter().find(|cell| cell.lane as usize == lane);
        let Some(own) = own.and_then(value) else {
            continue;
        };
        let values = operation.iter().filter_map(value);
        let (n, sum, least) = values.fold((0, 0.0, f64::INFINITY), |(n, sum, least), ns| {
            (n + 1, sum + ns, ns.min(least))
        });
        if n > 1 {
            at.less.push((step, (sum - own) / (n - 1) as f64 - own));
            at.waited += own - least;
            at.lanes = at.lanes.max(n);
        }
    }
    missing + at.missing()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(less: impl Fn(usize) -> f64) -> AtPlace {
        let less: Vec<(u32, f64)> = (0..400).zip((0..400).map(less)).collect();
        // Of two lanes, the one that comes first waits.
        let waited = less.iter().map(|(_, of)| (-of).max(0.0)).sum();
        AtPlace {
            operations: 400.0,
            lanes: 2,
            less,
            waited,
        }
    }

    /// Values of a normal distribution, in an order that shows no pattern.
    fn noise(n: usize) -> f64 {
        let mut mixed = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let part = (mixed >> 11) as f64 / (1u64 << 53) as f64;
        Normal::standard().inverse_cdf(part.clamp(0.001, 0.999))
    }

    #[test]
    fn a_lane_that_is_never_first_would_be_in_half_of_the_steps() {
        // The mean of what is above 0 of a normal distribution is 0.399.
        let missing = at(|n| 20.0 + noise(n)).missing() / 400.0;
        assert!((0.33..0.47).contains(&missing), "{missing}");
    }

    #[test]
    fn a_lane_in_time_waits_as_it_is() {
        let missing = at(noise).missing() / 400.0;
        assert!(missing < 0.08, "{missing}");
    }

    #[test]
    fn lateness_at_times_is_no_noise() {
        let part = |n: usize| if (100..260).contains(&n) { 20.0 } else { 0.0 };
        assert_eq!(at(part).missing(), 0.0);
        for every in 2..=4 {
            let at_times = |n: usize| if n.is_multiple_of(every) { 20.0 } else { 0.0 };
            assert_eq!(at(at_times).missing(), 0.0, "{every}");
            // Also if half of the operations were timed.
            let mut sampled = at(at_times);
            sampled.less.retain(|(step, _)| noise(*step as usize) > 0.0);
            assert_eq!(sampled.missing(), 0.0, "{every}");
        }
    }

    #[test]
    fn more_lanes_wait_longer_for_the_last() {
        assert!((expected(2, 2) - 0.564).abs() < 0.03);
        assert!((expected(8, 8) - 1.424).abs() < 0.03);
    }
}
