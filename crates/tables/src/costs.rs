//! What NCCL itself expects calls to take: the tables of costs that ncclscope's tuner library kept.
//!
//! The library has one file for each process, `costs-HOST-PID.bin` in the capture's folder, and its module
//! `costs` says what is in it. [`costs`] reads them all.
//!
//! Rule: a record counts if it is whole. NCCL may have been ended while one was written.

use crate::files;
use nccl_abi::names::{ALGOS, FUNCS, PROTOS};
use std::path::Path;

/// What the files begin with.
const MAGIC: &[u8] = b"NSCOST01";
/// Bytes before the first record.
const HEAD: usize = 4096;
/// Bytes of a record.
const RECORD: usize = 192;
/// Where the table stands in a record, and how many entries have room there.
const TABLE: (usize, usize) = (64, 32);

/// What NCCL expects of one kind of call.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// The communicator's id, or 0.
    pub id: u64,
    /// Its ranks.
    pub nranks: u32,
    /// Its nodes.
    pub nnodes: u32,
    /// Function, as NCCL names it.
    pub function: &'static str,
    /// Bytes by the convention of nccl-tests.
    pub bytes: u64,
    /// Operations that NCCL joined into one.
    pub joined: u32,
    /// Whether the buffers were registered with NCCL; nothing if NCCL did not tell.
    pub registered: Option<bool>,
    /// Calls of this kind.
    pub calls: u64,
    /// µs by algorithm and protocol: those that can run.
    pub us: Vec<(&'static str, &'static str, f64)>,
}

impl Cost {
    /// By one algorithm and protocol.
    pub fn of(&self, algorithm: &str, protocol: &str) -> Option<f64> {
        let mut all = self.us.iter();
        all.find(|(a, p, _)| (*a, *p) == (algorithm, protocol))
            .map(|(.., us)| *us)
    }

    fn read(record: &[u8]) -> Option<Cost> {
        let word = |at: usize| {
            let bytes = record.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let long = |at: usize| Some(u64::from(word(at)?) | u64::from(word(at + 4)?) << 32);
        if word(44)? != 1 {
            return None;
        }
        let (algorithms, protocols) = (word(56)? as usize, word(60)? as usize);
        let (start, room) = TABLE;
        let mut us = Vec::new();
        for at in 0..algorithms.saturating_mul(protocols).min(room) {
            let cost = f64::from(f32::from_bits(word(start + 4 * at)?));
            let names = ALGOS.get(at / protocols).zip(PROTOS.get(at % protocols));
            // What can't run here costs -1. NCCL gives very large ones to what it does not want.
            if let Some((algorithm, protocol)) = names.filter(|_| cost > 0.0 && cost < 1e15) {
                // In whole nanoseconds: the rest is of NCCL's 32 bits.
                us.push((*algorithm, *protocol, (cost * 1e3).round() / 1e3));
            }
        }
        Some(Cost {
            id: long(8)?,
            bytes: long(16)?,
            nranks: word(24)?,
            nnodes: word(28)?,
            function: FUNCS.get(word(32)? as usize)?,
            joined: word(36)?,
            registered: [Some(false), Some(true)]
                .get(word(40)? as usize)
                .copied()
                .flatten(),
            calls: long(48)?,
            us,
        })
    }
}

/// All records of a capture, in order of their files and places.
pub fn costs(capture: &Path) -> Vec<Cost> {
    let entries = std::fs::read_dir(capture).into_iter().flatten().flatten();
    let is_ours = |name: &str| name.starts_with("costs-") && name.ends_with(".bin");
    let mut paths: Vec<_> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_ours))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        let file = files::load(&path, files::SMALL, &mut Vec::new());
        if file.starts_with(MAGIC) && file.len() > HEAD {
            all.extend(file[HEAD..].chunks_exact(RECORD).filter_map(Cost::read));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one record, as the tuner library writes it.
    fn file(whole: u32) -> Vec<u8> {
        let mut file = vec![0; HEAD + 2 * RECORD];
        file[..8].copy_from_slice(MAGIC);
        let mut put = |at: usize, bytes: &[u8]| {
            file[HEAD + RECORD + at..][..bytes.len()].copy_from_slice(bytes);
        };
        put(8, &77u64.to_le_bytes());
        put(16, &(1u64 << 20).to_le_bytes());
        for (at, value) in [
            (24, 8u32),
            (28, 2),
            (32, 4),
            (36, 1),
            (40, 1),
            (44, whole),
            (56, 7),
            (60, 3),
        ] {
            put(at, &value.to_le_bytes());
        }
        put(48, &5u64.to_le_bytes());
        for at in 0..21 {
            put(64 + 4 * at, &(-1.0f32).to_le_bytes());
        }
        // RING by LL and by SIMPLE; and one that NCCL does not want.
        put(64 + 12, &12.5f32.to_le_bytes());
        put(64 + 20, &8.0f32.to_le_bytes());
        put(64, &3.0e38f32.to_le_bytes());
        file
    }

    #[test]
    fn whole_records_are_read_and_damaged_files_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, bytes: &[u8]| {
            std::fs::write(folder.path().join(name), bytes).expect("written");
        };
        write("costs-n1-5.bin", &file(1));
        write("costs-n1-6.bin", &file(0));
        write("costs-n1-7.bin", b"something else");
        write("costs-n1-8.bin", &file(1)[..HEAD + RECORD + 100]);
        let found = costs(folder.path());
        let [one] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(
            (one.id, one.nranks, one.nnodes, one.bytes),
            (77, 8, 2, 1 << 20)
        );
        assert_eq!(
            (one.function, one.registered, one.calls),
            ("AllReduce", Some(true), 5)
        );
        assert_eq!(one.us, [("RING", "LL", 12.5), ("RING", "SIMPLE", 8.0)]);
        assert_eq!(
            (one.of("RING", "LL"), one.of("TREE", "LL")),
            (Some(12.5), None)
        );
        assert!(costs(Path::new("/nowhere")).is_empty());
    }
}
