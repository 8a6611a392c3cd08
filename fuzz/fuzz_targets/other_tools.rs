//! Files of other tools with any content, from opening to the report.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, input).expect("written");
    let progress = tables::ReadProgress::default();
    if let Ok((source, _held)) = convert::open(&file, &progress, tables::Which::Last) {
        let _ = analyze::report_from(source, None, &progress);
    }
});
