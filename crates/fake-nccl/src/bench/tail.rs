//! The longest callbacks: a histogram of durations, and what fills it.

use std::time::Instant;

/// Durations in bins of 16 ns. Beyond 16 µs, bins are 1/64 of the next lower power of two.
pub(super) struct Tail {
    pub(super) bins: Vec<u64>,
    pub(super) max: u64,
}

impl Tail {
    pub(super) fn new() -> Self {
        Tail {
            bins: vec![0; 1024 + 64 * 50],
            max: 0,
        }
    }

    pub(super) fn add(&mut self, ns: u64) {
        let bin = match ns {
            0..16384 => (ns / 16) as usize,
            _ => {
                let magnitude = 63 - ns.leading_zeros() as usize;
                1024 + (magnitude - 14) * 64 + ((ns >> (magnitude - 6)) & 63) as usize
            }
        };
        self.bins[bin] += 1;
        self.max = self.max.max(ns);
    }

    pub(super) fn merge(&mut self, other: &Tail) {
        for (a, b) in self.bins.iter_mut().zip(&other.bins) {
            *a += b;
        }
        self.max = self.max.max(other.max);
    }

    /// The upper edge of the bin that holds this quantile.
    pub(super) fn quantile(&self, q: f64) -> u64 {
        let all: u64 = self.bins.iter().sum();
        let mut left = (all as f64 * q).ceil() as u64;
        for (bin, n) in self.bins.iter().enumerate() {
            if *n >= left {
                let edge = match bin {
                    0..1024 => 16 * (bin as u64 + 1),
                    _ => {
                        let (magnitude, low) = ((bin - 1024) / 64 + 14, (bin - 1024) as u64 % 64);
                        (65 + low) << (magnitude - 6)
                    }
                };
                return edge.min(self.max);
            }
            left -= n;
        }
        self.max
    }
}

/// What is done with a single callback: it is timed or not.
pub(super) trait Watch {
    fn callback(&mut self, call: impl FnOnce());
}

/// Single callbacks are not timed.
pub(super) struct Blind;

impl Watch for Blind {
    #[inline]
    fn callback(&mut self, call: impl FnOnce()) {
        call();
    }
}

impl Watch for Tail {
    #[inline]
    fn callback(&mut self, call: impl FnOnce()) {
        let began = Instant::now();
        call();
        self.add(began.elapsed().as_nanos() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_tail_are_within_a_bin() {
        let mut tail = Tail::new();
        for ns in 1..=100_000u64 {
            tail.add(ns);
        }
        for q in [0.1, 0.5, 0.99, 0.9999] {
            let (found, exact) = (tail.quantile(q) as f64, 100_000.0 * q);
            assert!(
                (found - exact).abs() <= (exact / 60.0).max(16.0),
                "{q}: {found}"
            );
        }
        assert_eq!(tail.quantile(1.0), 100_000);
        tail.add(u64::from(u32::MAX) * 1000);
        assert_eq!(tail.max, u64::from(u32::MAX) * 1000);
    }
}
