//! A trace file and a snapshot with any content, through every reader. Checksums are made right first, or hardly any
//! input would get behind them.
#![no_main]

#[path = "../../crates/render/tests/readers/mod.rs"]
mod readers;

use capture::block::{self, BLOCK_HEADER, BLOCK_MAGIC};
use libfuzzer_sys::fuzz_target;

/// Makes the checksums of a trace file's header and blocks right, where their lengths are.
fn repair(bytes: &mut [u8]) {
    let put = |bytes: &mut [u8], at: usize, crc: u32| {
        bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    };
    if bytes.len() < block::FILE_HEADER {
        return;
    }
    bytes[..8].copy_from_slice(&block::FILE_MAGIC);
    bytes[8..12].copy_from_slice(&capture::FORMAT.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..24]);
    put(bytes, 24, crc);
    let mut at = block::FILE_HEADER;
    while at + BLOCK_HEADER <= bytes.len() {
        let room = bytes.len() - at - BLOCK_HEADER;
        let said = u32::from_le_bytes(bytes[at + 12..at + 16].try_into().expect("4 bytes"));
        let len = (said as usize).min(room);
        bytes[at..at + 4].copy_from_slice(&BLOCK_MAGIC);
        bytes[at + 12..at + 16].copy_from_slice(&(len as u32).to_le_bytes());
        let crc = crc32fast::hash(&bytes[at + BLOCK_HEADER..at + BLOCK_HEADER + len]);
        put(bytes, at + 16, crc);
        let crc = crc32fast::hash(&bytes[at..at + 20]);
        put(bytes, at + 20, crc);
        at += (BLOCK_HEADER + len).next_multiple_of(8);
    }
}

fuzz_target!(|input: &[u8]| {
    let (kind, input) = input.split_first().unwrap_or((&0, &[]));
    let mut trace = input.to_vec();
    let mut files = readers::Files::new();
    if kind & 1 == 0 {
        repair(&mut trace);
    }
    if kind & 2 != 0 {
        // The second half is a live part; its magic is what makes it one.
        let mut live = trace.split_off(trace.len() / 2);
        if let Some(start) = live.get_mut(..8) {
            start.copy_from_slice(&capture::live::MAGIC.to_le_bytes());
        }
        files.insert("h/r0-p1-aa.live".into(), live);
    }
    files.insert("h/r0-p1-aa.trace".into(), trace);
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    readers::write(&files, folder.path());
    readers::read(folder.path());
});
