//! Hashes of communicators. All processes of a job come to the same ones.

/// A stable 64-bit mix, for hashes that every process of a run agrees on.
pub fn mix(seed: u64, value: u64) -> u64 {
    let mut z = seed
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(value)
        .wrapping_add(0x632B_E59B_D9B4_E019);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The hash that NCCL gives a child communicator. It depends on the parent's hash, the number among the
/// splits of that parent (from 1; 0 for a shrunk one), and the colour. A profiler can prove a parent by it.
pub(crate) fn child_hash(parent: u64, ordinal: u32, color: u32) -> u64 {
    let mut state = [1u64; 2];
    for (value, bytes) in [(parent, 8u64), (ordinal.into(), 4), (color.into(), 4)] {
        let [a, b] = state;
        let a = (a ^ bytes).wrapping_add(b);
        let b = b ^ a;
        state = [
            (a ^ (a >> 31))
                .wrapping_mul(0x9de6_2bbc_8cef_3ce3)
                .wrapping_add(value),
            (b ^ (b >> 32)).wrapping_mul(0x485c_d631_1b59_9e79),
        ];
    }
    let [a, b] = state;
    let h = (a ^ (a >> 31))
        .wrapping_mul(0xbac3_bd56_2846_de6b)
        .wrapping_add(b);
    (h ^ (h >> 32)).wrapping_mul(0x995a_187a_14e7_b445)
}
