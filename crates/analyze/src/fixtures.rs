//! What tests are made of: random numbers, the same in every run, communicators, and a process's calls
//! gathered.

use crate::arrivals::Gatherer;
use crate::executions::Walk;
use crate::matching::Matcher;
use tables::{Capture, Process};

pub(crate) use simulate::communicator;

/// SplitMix64 (G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014).
pub(crate) struct Random(pub u64);

impl Random {
    /// In 0..1.
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.uniform() * n as f64) as u64
    }
}

/// Gathers the calls of a process, all of row 0.
pub(crate) fn gather(
    capture: &Capture,
    process: &Process,
    matcher: &mut Matcher,
    gatherer: &mut Gatherer,
) {
    let walk = Walk::new(process);
    let mut matching = matcher.plan(capture, &walk);
    let plan = gatherer.plan(capture, process, &walk);
    walk.for_each(&mut Default::default(), |execution| {
        let at = matcher.add(&mut matching, execution, Some(0));
        gatherer.add(&plan, execution, at.map(|at| (at, 0)));
    });
}
