//! Random orders that a seed repeats.

/// SplitMix64: enough for orders of runs.
pub(crate) struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The numbers below `n` in a random order (Fisher and Yates).
    pub fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for last in (1..n).rev() {
            order.swap(last, (self.next() % (last as u64 + 1)) as usize);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_each_once_and_a_seed_repeats_it() {
        let (mut a, mut b) = (Random(7), Random(7));
        let mut firsts = [0; 4];
        for _ in 0..400 {
            let order = a.order(4);
            assert_eq!(order, b.order(4));
            firsts[order[0]] += 1;
            let mut sorted = order;
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
        }
        assert!(firsts.iter().all(|n| (60..=140).contains(n)), "{firsts:?}");
    }
}
