//! The account of calls whose trace files were rotated away.
//!
//! A process may have several trace files. `NAME.trace` is never removed. Of `NAME.1.trace`, `NAME.2.trace`
//! and so on, only the newest are kept. The first block of each later file is a [`Rotated`]: which files are
//! gone, which blocks were in them, and an [`Account`] of their calls.
//!
//! Rule: a file is removed only after the block that accounts for it is written. A reader leaves out the
//! files that the newest such block declares gone. So a call is in exactly one place, whenever the process
//! ends.
//!
//! ```text
//! first file kept │ first block gone │ blocks gone │ calls not listed │ entries n
//! n times: communicator │ count │ function │ datatype │ algorithm │ protocol │ flags │ channels │
//!          calls │ timed │ sum │ min │ max │ host │ times without a bucket │ buckets m
//!          m times: difference to the last bucket's number (octave << 6 | index) │ times
//! ```
//! All are base-128 integers; sum, min and max are of GPU times in ns, host is the sum of host times in
//! ticks.

use crate::live::bucket;
use crate::varint::{put, Reader};
use std::collections::BTreeMap;

/// What an entry is about; as the key of [`crate::live::Total`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Communicator uid; 0 when it is not known any more.
    pub comm: u32,
    /// Elements per call.
    pub count: u64,
    /// Strings: function, datatype, algorithm, protocol.
    pub names: [u8; 4],
    /// [`crate::live::flag`] bits.
    pub flags: u8,
    /// Channels.
    pub nchannels: u8,
}

/// Sums over the calls of an entry; as in [`crate::live::Total`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSums {
    /// Calls.
    pub calls: u64,
    /// Those with a GPU time.
    pub timed: u64,
    /// Sum of GPU times, ns.
    pub sum: u64,
    /// Least of them; `u64::MAX` without any.
    pub min: u64,
    /// Largest of them.
    pub max: u64,
    /// Sum of host times, ticks.
    pub host: u64,
    /// Times that found no bucket free.
    pub bucketless: u64,
    /// How many times fell into a [`bucket`], by `octave << 6 | index`.
    pub histogram: BTreeMap<u16, u64>,
}

impl Default for CallSums {
    fn default() -> CallSums {
        CallSums {
            calls: 0,
            timed: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
            host: 0,
            bucketless: 0,
            histogram: BTreeMap::new(),
        }
    }
}

/// The times of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallTimes {
    /// On the GPU, ns, where that is known.
    pub gpu: Option<u64>,
    /// On the host, ticks.
    pub host: u64,
    /// What goes into the histogram: the GPU time, else the host's, ns.
    pub shown: u64,
}

/// Calls by what they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// By what they were.
    pub entries: BTreeMap<Key, CallSums>,
    /// Calls that found no entry free.
    pub unlisted: u64,
    buckets: usize,
}

/// How large an [`Account`] may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Entries.
    pub entries: usize,
    /// Histogram buckets of all entries.
    pub buckets: usize,
}

impl Account {
    /// All calls in it.
    pub fn calls(&self) -> u64 {
        self.entries
            .values()
            .fold(self.unlisted, |n, sums| n.saturating_add(sums.calls))
    }

    /// Adds a call.
    pub fn add(&mut self, key: Key, times: CallTimes, bounds: Bounds) {
        let full = self.entries.len() >= bounds.entries;
        if full && !self.entries.contains_key(&key) {
            self.unlisted += 1;
            return;
        }
        let sums = self.entries.entry(key).or_default();
        sums.calls += 1;
        sums.host = sums.host.wrapping_add(times.host);
        if let Some(gpu) = times.gpu {
            sums.timed += 1;
            sums.sum = sums.sum.wrapping_add(gpu);
            sums.min = sums.min.min(gpu);
            sums.max = sums.max.max(gpu);
        }
        let (octave, index) = bucket(times.shown);
        let number = (octave << 6 | index) as u16;
        count(&mut self.buckets, sums, number, 1, bounds);
    }

    /// Adds another account.
    pub fn merge(&mut self, other: &Account, bounds: Bounds) {
        self.unlisted = self.unlisted.saturating_add(other.unlisted);
        for (key, from) in &other.entries {
            if self.entries.len() >= bounds.entries && !self.entries.contains_key(key) {
                self.unlisted = self.unlisted.saturating_add(from.calls);
                continue;
            }
            let sums = self.entries.entry(*key).or_default();
            sums.calls = sums.calls.saturating_add(from.calls);
            sums.timed = sums.timed.saturating_add(from.timed);
            sums.sum = sums.sum.wrapping_add(from.sum);
            sums.min = sums.min.min(from.min);
            sums.max = sums.max.max(from.max);
            sums.host = sums.host.wrapping_add(from.host);
            sums.bucketless = sums.bucketless.saturating_add(from.bucketless);
            for (number, n) in &from.histogram {
                count(&mut self.buckets, sums, *number, *n, bounds);
            }
        }
    }

    /// Gives calls of communicators that `known` denies to communicator 0: their definitions go with the
    /// files.
    pub fn forget(&mut self, known: impl Fn(u32) -> bool, bounds: Bounds) {
        let gone = |key: &Key| key.comm != 0 && !known(key.comm);
        if !self.entries.keys().any(gone) {
            return;
        }
        let mut kept = Account {
            unlisted: self.unlisted,
            ..Account::default()
        };
        for (key, sums) in std::mem::take(&mut self.entries) {
            let comm = if gone(&key) { 0 } else { key.comm };
            let one = Account {
                entries: BTreeMap::from([(Key { comm, ..key }, sums)]),
                ..Account::default()
            };
            kept.merge(&one, bounds);
        }
        *self = kept;
    }
}

fn count(used: &mut usize, sums: &mut CallSums, number: u16, n: u64, bounds: Bounds) {
    if let Some(times) = sums.histogram.get_mut(&number) {
        *times = times.saturating_add(n);
    } else if *used < bounds.buckets {
        *used += 1;
        sums.histogram.insert(number, n);
    } else {
        sums.bucketless = sums.bucketless.saturating_add(n);
    }
}

/// The first block of a later trace file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotated {
    /// Files from 1 to below this one are gone.
    pub first_kept: u32,
    /// Number of the first block that is gone.
    pub first_block: u32,
    /// Blocks that are gone, from there on.
    pub blocks: u32,
    /// Their calls.
    pub account: Account,
}

impl Rotated {
    /// Appends the payload to `out`.
    pub fn put(&self, out: &mut Vec<u8>) {
        let account = &self.account;
        for value in [self.first_kept, self.first_block, self.blocks] {
            put(out, value.into());
        }
        put(out, account.unlisted);
        put(out, account.entries.len() as u64);
        for (key, sums) in &account.entries {
            put(out, key.comm.into());
            put(out, key.count);
            out.extend(key.names);
            out.extend([key.flags, key.nchannels]);
            for value in [
                sums.calls,
                sums.timed,
                sums.sum,
                if sums.timed == 0 { 0 } else { sums.min },
                sums.max,
                sums.host,
                sums.bucketless,
                sums.histogram.len() as u64,
            ] {
                put(out, value);
            }
            let mut last = 0;
            for (number, n) in &sums.histogram {
                put(out, (number - last).into());
                put(out, *n);
                last = *number;
            }
        }
    }

    /// Reads a payload; `None` when it is not well formed.
    pub fn read(payload: &[u8]) -> Option<Rotated> {
        let mut reader = Reader::new(payload);
        let mut small = || u32::try_from(reader.get()?).ok();
        let mut rotated = Rotated {
            first_kept: small()?,
            first_block: small()?,
            blocks: small()?,
            account: Account::default(),
        };
        rotated.account.unlisted = reader.get()?;
        for _ in 0..reader.get()? {
            let (comm, count) = (u32::try_from(reader.get()?).ok()?, reader.get()?);
            let &[a, b, c, d, flags, nchannels] = reader.take(6)? else {
                return None;
            };
            let key = Key {
                comm,
                count,
                names: [a, b, c, d],
                flags,
                nchannels,
            };
            let mut sums = CallSums {
                calls: reader.get()?,
                timed: reader.get()?,
                sum: reader.get()?,
                min: reader.get()?,
                max: reader.get()?,
                host: reader.get()?,
                bucketless: reader.get()?,
                histogram: BTreeMap::new(),
            };
            if sums.timed == 0 {
                sums.min = u64::MAX;
            }
            let mut last = 0u16;
            for _ in 0..reader.get()? {
                last = last.checked_add(u16::try_from(reader.get()?).ok()?)?;
                // 48 octaves of 64 buckets.
                if last >= 48 << 6 {
                    return None;
                }
                sums.histogram.insert(last, reader.get()?);
            }
            rotated.account.buckets += sums.histogram.len();
            rotated.account.entries.insert(key, sums);
        }
        Some(rotated)
    }
}

/// The name of a process's `number`-th trace file, from its name without an ending.
pub fn file_ending(number: u32) -> String {
    match number {
        0 => ".trace".to_owned(),
        n => format!(".{n}.trace"),
    }
}

/// The number of a trace file by its name without `.trace`, and the name without that number.
pub fn split_number(name: &str) -> (&str, u32) {
    let numbered = name.rsplit_once('.').and_then(|(stem, digits)| {
        let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
        (plain && !stem.is_empty()).then_some((stem, digits.parse().ok()?))
    });
    numbered.unwrap_or((name, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WIDE: Bounds = Bounds {
        entries: 512,
        buckets: 1 << 16,
    };

    fn times(gpu: Option<u64>, host: u64) -> CallTimes {
        CallTimes {
            gpu,
            host,
            shown: gpu.unwrap_or(host),
        }
    }

    fn key(comm: u32, count: u64) -> Key {
        Key {
            comm,
            count,
            names: [1, 2, 0, 3],
            ..Key::default()
        }
    }

    #[test]
    fn names_of_files_are_told_apart() {
        assert_eq!(split_number("r0-p7-00c0ffee"), ("r0-p7-00c0ffee", 0));
        assert_eq!(split_number("r0-p7-00c0ffee.12"), ("r0-p7-00c0ffee", 12));
        assert_eq!(split_number("job.old"), ("job.old", 0));
        assert_eq!(split_number("job.0"), ("job.0", 0));
        assert_eq!(split_number(".3"), (".3", 0));
        assert_eq!(split_number("a.99999999999"), ("a.99999999999", 0));
        assert_eq!(
            (file_ending(0), file_ending(3)),
            (".trace".into(), ".3.trace".into())
        );
    }

    #[test]
    fn a_full_account_still_counts_every_call() {
        let bounds = Bounds {
            entries: 2,
            buckets: 3,
        };
        let mut account = Account::default();
        for i in 0..100 {
            account.add(key(1 + (i % 5) as u32, 4), times(None, i * i), bounds);
        }
        assert_eq!((account.calls(), account.entries.len()), (100, 2));
        let mut shown = 0;
        for sums in account.entries.values() {
            shown += sums.bucketless + sums.histogram.values().sum::<u64>();
        }
        assert_eq!(shown + account.unlisted, 100);
        assert!(
            account
                .entries
                .values()
                .map(|s| s.histogram.len())
                .sum::<usize>()
                <= 3
        );
    }

    #[test]
    fn communicators_that_are_gone_are_one() {
        let mut account = Account::default();
        for comm in 1..=4 {
            account.add(key(comm, 9), times(Some(50), 1), WIDE);
        }
        account.forget(|comm| comm == 3, WIDE);
        let kept: Vec<_> = account
            .entries
            .iter()
            .map(|(k, s)| (k.comm, s.calls))
            .collect();
        assert_eq!(kept, [(0, 3), (3, 1)]);
    }

    proptest! {
        #[test]
        fn what_is_put_is_read(
            calls in prop::collection::vec(
                (0u32..4, 0u64..9, prop::option::of(any::<u32>()), any::<u32>()), 0..60),
            first in any::<[u32; 3]>(),
        ) {
            let mut account = Account::default();
            for (comm, count, gpu, host) in &calls {
                account.add(key(*comm, *count), times(gpu.map(u64::from), u64::from(*host)), WIDE);
            }
            prop_assert_eq!(account.calls(), calls.len() as u64);
            let rotated = Rotated { first_kept: first[0], first_block: first[1], blocks: first[2], account };
            let mut payload = Vec::new();
            rotated.put(&mut payload);
            prop_assert_eq!(Rotated::read(&payload), Some(rotated));
            for cut in (0..payload.len()).step_by(if cfg!(miri) { 97 } else { 1 }) {
                prop_assert_eq!(Rotated::read(&payload[..cut]), None);
            }
        }

        #[test]
        fn merging_is_adding_one_after_the_other(
            calls in prop::collection::vec(
                (0u32..4, prop::option::of(any::<u32>()), any::<u32>(), any::<bool>()), 0..60),
        ) {
            let (mut all, mut parts) = (Account::default(), [Account::default(), Account::default()]);
            for (comm, gpu, host, second) in calls {
                let times = times(gpu.map(u64::from), u64::from(host));
                all.add(key(comm, 1), times, WIDE);
                parts[usize::from(second)].add(key(comm, 1), times, WIDE);
            }
            let [mut merged, second] = parts;
            merged.merge(&second, WIDE);
            prop_assert_eq!(merged, all);
        }

        #[test]
        fn any_payload_is_read_without_a_panic(payload in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Rotated::read(&payload);
        }
    }
}
