//! How often a capture of a running job is looked at.

use nix::time::{clock_gettime, ClockId};
use std::time::{Duration, Instant};

/// A file system is read at most half of the time.
const PART_READING: u32 = 2;

/// Looks that take at most a part of one CPU. On a busy machine a look waits for the others: that is no
/// reason to look less often.
pub struct Pace {
    every: Duration,
    part: u32,
    began: Instant,
    cpu: Duration,
}

impl Pace {
    /// A look each `every`, and less often if one takes more than one in `part` parts of the time of a CPU.
    pub fn new(every: Duration, part: u32) -> Pace {
        Pace {
            every,
            part,
            began: Instant::now(),
            cpu: cpu(),
        }
    }

    /// A look begins.
    pub fn begin(&mut self) {
        self.began = Instant::now();
        self.cpu = cpu();
    }

    /// The look is over: waits for the time of the next.
    pub fn rest(&self) {
        let (took, cpu) = (self.began.elapsed(), cpu().saturating_sub(self.cpu));
        let next = cpu.saturating_mul(self.part);
        let next = next.max(took.saturating_mul(PART_READING)).max(self.every);
        std::thread::sleep(next.saturating_sub(took));
    }
}

/// What this process took of the CPUs; nothing where that can't be asked.
fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
