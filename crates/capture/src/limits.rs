//! Limits of settings, which the recorder keeps to and the command checks.

use std::ops::RangeInclusive;

/// Memory of the live part of a process, bytes: `NCCLSCOPE_MEMORY`. The most is the default.
pub const MEMORY: RangeInclusive<u64> = 1 << 20..=64 << 20;
/// All files of a process, bytes: `NCCLSCOPE_MAX_SIZE`.
pub const MAX_SIZE: RangeInclusive<u64> = 64 << 10..=1 << 50;
