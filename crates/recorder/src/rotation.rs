//! Which trace files a process has, so that together they stay within `NCCLSCOPE_MAX_SIZE`.
//!
//! Up to four files may be there at a time, and each is at most a quarter of the limit. `NAME.trace` is never
//! removed, because it has the start of the job. The others are the three newest of `NAME.1.trace`,
//! `NAME.2.trace` …. A [`Rotation`] keeps an account of the calls in each file that may be removed, so that
//! they can be counted when it is.
//!
//! Rule: every call that goes into a later file is added to that file's account. When the file is removed,
//! its account is added to that of what was removed.

use crate::settings::Mode;
use capture::rotated::{Account, Bounds, CallTimes, Key, Rotated};
use std::collections::VecDeque;

/// Files at a time.
const FILES: u64 = 4;
/// Bytes of a row in a block at most, its shape and its block's header included.
const ROW: u64 = 512;

/// What is known of a file that may be removed.
struct Later {
    number: u32,
    first_block: u32,
    account: Account,
}

/// See the module.
pub struct Rotation {
    /// Bytes of a file at most; nothing where files are not rotated.
    share: Option<u64>,
    /// Bytes that the file that is written to began with, which is no room for rows.
    preamble: u64,
    later: VecDeque<Later>,
    removed: Rotated,
    bounds: Bounds,
}

impl Rotation {
    /// For a limit of `max_size` bytes. `callbacks` mode keeps its first file only, because a replay needs
    /// the beginning.
    pub fn new(max_size: u64, mode: Mode) -> Rotation {
        let share = max_size / FILES;
        Rotation {
            share: (mode != Mode::Callbacks).then_some(share),
            preamble: 0,
            later: VecDeque::new(),
            removed: Rotated {
                first_kept: 1,
                ..Rotated::default()
            },
            // An account fits in a sixth of a share or so. At the smallest limit it has 512 buckets: the host
            // times of 10 000 calls on a busy machine take some 250. One time without a bucket costs all
            // percentiles.
            bounds: Bounds {
                entries: (share / 1024).clamp(16, 512) as usize,
                buckets: (share / 32).clamp(64, 1 << 14) as usize,
            },
        }
    }

    /// Rows of a block at most, of `most` that the staging area has room for: a block is at most a quarter of
    /// a file.
    pub fn batch(&self, most: usize) -> usize {
        self.share
            .map_or(most, |share| most.min((share / 4 / ROW) as usize).max(8))
    }

    /// Whether a file of `size` bytes has no room for another block of rows.
    pub fn is_full(&self, size: u64, batch: usize) -> bool {
        self.share.is_some_and(|share| {
            // Names of very many communicators at a very small limit must not make every block a file of its
            // own.
            let room = share.max(self.preamble + share / 2);
            size + batch as u64 * ROW > room
        })
    }

    /// Whether files are rotated at all.
    pub fn rotates(&self) -> bool {
        self.share.is_some()
    }

    /// The number of the next file, and its first block's content. Communicators that `known` denies have no
    /// definition any more.
    pub fn next(
        &self,
        current: u32,
        next_block: u32,
        known: impl Fn(u32) -> bool,
    ) -> (u32, Rotated) {
        let mut rotated = self.removed.clone();
        if let Some(oldest) = self.oldest() {
            if rotated.blocks == 0 {
                rotated.first_block = oldest.first_block;
            }
            let end = self.later.get(1).map_or(next_block, |l| l.first_block);
            rotated.blocks = end.wrapping_sub(rotated.first_block);
            rotated.first_kept = oldest.number + 1;
            rotated.account.merge(&oldest.account, self.bounds);
        }
        rotated.account.forget(known, self.bounds);
        (current + 1, rotated)
    }

    /// The file to be removed when another is begun.
    fn oldest(&self) -> Option<&Later> {
        // The first file, those here, and the one to come.
        let files = self.later.len() as u64 + 2;
        self.later.front().filter(|_| files > FILES)
    }

    /// The next file is there and begins with that block; the number of the file to be removed for it, if one
    /// is.
    pub fn begun(&mut self, number: u32, first_block: u32, rotated: Rotated) -> Option<u32> {
        let remove = self.oldest().map(|oldest| oldest.number);
        if remove.is_some() {
            self.later.pop_front();
        }
        self.removed = rotated;
        self.later.push_back(Later {
            number,
            first_block,
            account: Account::default(),
        });
        remove
    }

    /// The file that is written to has `size` bytes before its rows.
    pub fn begins_with(&mut self, size: u64) {
        self.preamble = size;
    }

    /// Whether calls are to be added; those of the first file are not.
    pub fn accounts(&self) -> bool {
        !self.later.is_empty()
    }

    /// Adds a call that was written.
    pub fn add(&mut self, key: Key, times: CallTimes) {
        if let Some(newest) = self.later.back_mut() {
            newest.account.add(key, times, self.bounds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(rotation: &mut Rotation) {
        let times = CallTimes {
            gpu: None,
            host: 3,
            shown: 3,
        };
        rotation.add(Key::default(), times);
    }

    #[test]
    fn the_first_file_and_the_three_newest_stay() {
        let mut rotation = Rotation::new(1 << 20, Mode::Trace);
        let mut removed = Vec::new();
        for file in 0..6u32 {
            let (number, rotated) = rotation.next(file, 10 * (file + 1), |_| true);
            assert_eq!(number, file + 1);
            // Each file has as many calls as its number, and ten blocks.
            let gone: u64 = (1..u64::from(rotated.first_kept)).sum();
            assert_eq!(rotated.account.calls(), gone);
            assert_eq!(rotated.blocks, 10 * (rotated.first_kept - 1));
            removed.extend(rotation.begun(number, 10 * number, rotated));
            (0..number).for_each(|_| call(&mut rotation));
        }
        assert_eq!(removed, [1, 2, 3]);
        assert_eq!(rotation.removed.first_block, 10);
    }

    #[test]
    fn a_file_that_could_not_be_made_changes_nothing() {
        let mut rotation = Rotation::new(1 << 20, Mode::Trace);
        for file in 0..3 {
            let (number, rotated) = rotation.next(file, file + 1, |_| true);
            rotation.begun(number, file + 1, rotated);
            call(&mut rotation);
        }
        let first = rotation.next(3, 4, |_| true);
        assert_eq!(rotation.next(3, 4, |_| true), first);
        assert_eq!(first.1.account.calls(), 1);
    }

    #[test]
    fn an_account_has_buckets_for_the_host_times_of_a_busy_machine_and_stays_small() {
        let share = 16 << 10;
        let mut rotation = Rotation::new(4 * share, Mode::Trace);
        let bounds = rotation.bounds;
        let (number, rotated) = rotation.next(0, 1, |_| true);
        rotation.begun(number, 1, rotated);
        // From 1 us to 16 ms, ever more sparsely, as times are that the scheduler made longer.
        let times = (0..400).map(|i| (1000.0 * 1.0245f64.powi(i)) as u64);
        for shown in times {
            let times = CallTimes {
                gpu: None,
                host: shown,
                shown,
            };
            (0..300).for_each(|_| rotation.add(Key::default(), times));
        }
        let mut account = rotation.later[0].account.clone();
        assert_eq!(account.entries[&Key::default()].bucketless, 0);
        for count in 0..1 << 10 {
            let key = Key {
                count,
                ..Key::default()
            };
            let times = CallTimes {
                gpu: Some(count << 20),
                host: count << 20,
                shown: count << 20,
            };
            account.add(key, times, bounds);
        }
        let mut bytes = Vec::new();
        let full = Rotated {
            account,
            ..Rotated::default()
        };
        full.put(&mut bytes);
        assert!((bytes.len() as u64) < share / 6, "{}", bytes.len());
    }

    #[test]
    fn a_file_is_full_within_its_share_and_takes_some_rows_whatever_it_begins_with() {
        let mut rotation = Rotation::new(64 << 10, Mode::Trace);
        let batch = rotation.batch(1024);
        assert_eq!(batch, 8);
        assert!(!rotation.is_full(12 << 10, batch) && rotation.is_full((12 << 10) + 1, batch));
        rotation.begins_with(60 << 10);
        assert!(!rotation.is_full(61 << 10, batch));
        assert!(!Rotation::new(64 << 10, Mode::Callbacks).is_full(1 << 40, batch));
        assert_eq!(Rotation::new(8 << 30, Mode::Trace).batch(1024), 1024);
    }
}
