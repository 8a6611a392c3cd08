//! Random numbers, the same on every machine.

/// SplitMix64 (G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// In 0..1.
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// With mean 0 and standard deviation 1.
    pub fn normal(&mut self) -> f64 {
        let (a, b) = (self.uniform(), self.uniform());
        (-2.0 * (1.0 - a).ln()).sqrt() * (b * std::f64::consts::TAU).cos()
    }

    /// From 1 up: over 2 in a third of the cases, over 10 in 3 of 100 (Pareto, 1.5).
    pub fn heavy(&mut self) -> f64 {
        (1.0 - self.uniform()).powf(-1.0 / 1.5)
    }

    /// One of these.
    pub fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// Below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.uniform() * n as f64) as usize
    }

    /// From `low` to `high`; each power of ten is as likely as another.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        (low.ln() + self.uniform() * (high / low).ln()).exp()
    }

    /// True so often.
    pub fn chance(&mut self, often: f64) -> bool {
        self.uniform() < often
    }
}
