//! Proves which communicator another was split or shrunk from.
//!
//! NCCL tells a profiler nothing about parents. But NCCL makes a child's hash from three numbers: the
//! parent's hash, the child's ordinal on the parent, and the colour. Ordinals of splits begin at 1. A shrink
//! has ordinal 0 and colour 0. Every step of that hash can be undone, so for a given parent and ordinal there
//! is one 64-bit colour that fits. It is a proof if it is a colour that NCCL takes, 0 to 2^31 − 1: by chance
//! that happens once in 2^33 trials.
//!
//! The order of the fields and their widths (8, 4 and 4 bytes) are the same in NCCL 2.23 to 2.30.
//!
//! Rule: [`TRIALS`] bounds the trials of a capture, which keeps a wrong parent below one capture in a
//! thousand.

/// Trials for all pairs of a capture.
pub(crate) const TRIALS: u64 = 8 << 20;

const MIX_0: u64 = 0x9de6_2bbc_8cef_3ce3;
const MIX_1: u64 = 0x485c_d631_1b59_9e79;
const END_0: u64 = 0xbac3_bd56_2846_de6b;
const END_1: u64 = 0x995a_187a_14e7_b445;

/// NCCL's accumulator, for values of at most 8 bytes.
#[derive(Clone, Copy)]
struct Accumulator(u64, u64);

impl Accumulator {
    fn new() -> Self {
        Accumulator(1, 1)
    }

    /// The state before a value of `size` bytes is added.
    fn mixed(self, size: u64) -> Self {
        let Accumulator(mut a, mut b) = self;
        a ^= size;
        a = a.wrapping_add(b);
        b ^= a;
        a = (a ^ a >> 31).wrapping_mul(MIX_0);
        b = (b ^ b >> 32).wrapping_mul(MIX_1);
        Accumulator(a, b)
    }

    fn eat(self, value: u64, size: u64) -> Self {
        let Accumulator(a, b) = self.mixed(size);
        Accumulator(a.wrapping_add(value), b)
    }

    fn digest(self) -> u64 {
        let Accumulator(a, b) = self;
        let h = (a ^ a >> 31).wrapping_mul(END_0).wrapping_add(b);
        (h ^ h >> 32).wrapping_mul(END_1)
    }
}

/// The hash of child `ordinal` of `parent` with `color`.
pub fn child_hash(parent: u64, ordinal: u32, color: u32) -> u64 {
    Accumulator::new()
        .eat(parent, 8)
        .eat(ordinal.into(), 4)
        .eat(color.into(), 4)
        .digest()
}

/// The inverse of an odd number modulo 2^64, by Newton's iteration: each step doubles the right bits, from 3.
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut step = 0;
    while step < 5 {
        x = x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)));
        step += 1;
    }
    x
}

const END_0_INVERSE: u64 = inverse(END_0);
const END_1_INVERSE: u64 = inverse(END_1);

/// The colour with which child `ordinal` of `parent` has the hash `child`, if there is one.
pub fn color(parent: u64, ordinal: u32, child: u64) -> Option<u32> {
    let Accumulator(a, b) = Accumulator::new()
        .eat(parent, 8)
        .eat(ordinal.into(), 4)
        .mixed(4);
    let h = child.wrapping_mul(END_1_INVERSE);
    let h = (h ^ h >> 32).wrapping_sub(b).wrapping_mul(END_0_INVERSE);
    let h = h ^ h >> 31 ^ h >> 62;
    u32::try_from(h.wrapping_sub(a))
        .ok()
        .filter(|color| *color <= i32::MAX as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_color_comes_back() {
        for parent in [1, 0x1234_5678_9abc_def0, u64::MAX] {
            for ordinal in [0, 1, 2, 77, 4096] {
                for wanted in [0, 1, 7, 64, 1_234_567_890, i32::MAX as u32] {
                    let child = child_hash(parent, ordinal, wanted);
                    assert_eq!(color(parent, ordinal, child), Some(wanted));
                    assert_eq!(color(parent, ordinal + 1, child), None);
                    assert_eq!(color(parent ^ 1, ordinal, child), None);
                }
            }
        }
    }
}
