//! Calls without a row of their own: counts and a histogram for each kind of call.
//!
//! A [`Total`] is an entry by communicator, size, names and flags. Its histogram has a [`HistogramPage`] for
//! each octave of durations that it met. The recorder's thread folds rows into entries; [`Undo`] lets a
//! reader take back a fold that the process did not live to finish.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicU8};

/// The state of an entry before the fold in progress, so that a reader can take a half-done fold back.
#[repr(C)]
#[derive(Default)]
pub struct Undo {
    /// Ticket + 1 of the row being folded; 0 if no fold is in progress. Set (Release) after the other
    /// fields, and cleared (Release) after the row is free.
    pub ticket: AtomicU64,
    /// The entry.
    pub entry: AtomicU32,
    /// `(histogram page + 1) << 6 | bucket`, or 0.
    pub bucket: AtomicU32,
    /// The entry's calls, timed, sum, min, max, host sum before.
    pub before: [AtomicU64; 6],
    /// The bucket's count before.
    pub bucket_before: AtomicU64,
}

/// Counts and a histogram for one kind of call.
#[repr(C)]
pub struct Total {
    /// 0 free, 1 being claimed, 2 ready. Stored (Release) after the key.
    pub state: AtomicU32,
    /// Communicator uid.
    pub comm: AtomicU32,
    /// Count of elements per call.
    pub count: AtomicU64,
    /// Strings: function, datatype, algorithm, protocol.
    pub names: [AtomicU8; 4],
    /// [`flag`](super::flag) bits that all its calls share.
    pub flags: AtomicU8,
    /// Channels.
    pub nchannels: AtomicU8,
    /// 0.
    pub spare: AtomicU16,
    /// Calls that never had a row, counted at birth by the calling thread (`fetch_add`).
    pub rowless: AtomicU64,
    /// Calls with rows that the recorder's thread folded.
    pub calls: AtomicU64,
    /// Those of them with a GPU time.
    pub timed: AtomicU64,
    /// Sum, min and max of GPU durations, ns.
    pub sum: AtomicU64,
    /// See `sum`.
    pub min: AtomicU64,
    /// See `sum`.
    pub max: AtomicU64,
    /// Sum of host durations (API entry to return), ticks.
    pub host: AtomicU64,
    /// Histogram page + 1 by octave of the duration in ns; see [`bucket`].
    pub pages: [AtomicU16; 48],
}

/// 64 histogram counts.
pub type HistogramPage = [AtomicU32; 64];

/// The histogram bucket of a duration: (octave, bucket in it).
///
/// Below 64 ns buckets are 1 ns wide. Above, each octave has 64 equal buckets, so a value differs from its
/// bucket's middle by at most 1/128 of itself (0.8 %).
pub fn bucket(ns: u64) -> (usize, usize) {
    let ns = ns.min((1 << 53) - 1);
    if ns < 64 {
        return (0, ns as usize);
    }
    let exponent = 63 - ns.leading_zeros() as usize;
    (exponent - 5, (ns >> (exponent - 6)) as usize & 63)
}

/// The middle of a bucket, ns.
pub fn bucket_middle(octave: usize, index: usize) -> u64 {
    if octave == 0 {
        return index as u64;
    }
    let shift = octave - 1;
    let low = (64 + index as u64) << shift;
    low + ((1u64 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_within_one_percent() {
        for ns in (0..10_000u64).chain((0..5000).map(|i| 97 * i * i * i)) {
            let (octave, index) = bucket(ns);
            let middle = bucket_middle(octave, index);
            assert!(
                middle.abs_diff(ns) as f64 <= 0.01 * ns as f64,
                "{ns} in {octave}/{index}, middle {middle}"
            );
        }
        assert_eq!(bucket(u64::MAX).0, 47);
    }
}
