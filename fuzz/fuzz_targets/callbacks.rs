//! Random callback programs (`crates/recorder/tests/all/program`) in one process. A panic ends it, before the
//! guard sees it.
#![no_main]

#[path = "../../crates/recorder/tests/all/job/mod.rs"]
mod job;
#[path = "../../crates/recorder/tests/all/program/mod.rs"]
mod program;

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: {
        let folder = std::env::temp_dir().join(format!("ncclscope-fuzz-{}", std::process::id()));
        for (name, value) in [
            ("NCCLSCOPE_OUT", folder.to_str().expect("text")),
            ("NCCLSCOPE_TIMING", "stamps"),
            ("NCCLSCOPE_MEMORY", "1MiB"),
            ("NCCLSCOPE_MAX_SIZE", "64KiB"),
            ("NCCLSCOPE_QUIET", "1"),
        ] {
            std::env::set_var(name, value);
        }
    },
    |program: &[u8]| {
        program::play(program);
    }
);
