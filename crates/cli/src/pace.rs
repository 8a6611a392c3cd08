//! How often a capture of a running job is looked at.

use std::time::{Duration, Instant};

/// Looks that take at most a part of the time.
pub struct Pace {
    every: Duration,
    part: u32,
    began: Instant,
}

impl Pace {
    /// A look each `every`, and less often if one takes more than one in `part` parts of the time.
    pub fn new(every: Duration, part: u32) -> Pace {
        Pace {
            every,
            part,
            began: Instant::now(),
        }
    }

    /// A look begins.
    pub fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// The look is over: waits for the time of the next.
    pub fn rest(&self) {
        let took = self.began.elapsed();
        let next = self.every.max(took.saturating_mul(self.part));
        std::thread::sleep(next.saturating_sub(took));
    }
}
