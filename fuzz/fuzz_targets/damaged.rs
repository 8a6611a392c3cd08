//! Trace files and a live part with any content, through every reader.
#![no_main]

#[path = "../../crates/render/tests/all/readers/mod.rs"]
mod readers;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    readers::write(&readers::of_input(input), folder.path());
    readers::read(folder.path());
});
