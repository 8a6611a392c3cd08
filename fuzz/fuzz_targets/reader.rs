// One reader of files of other tools, from opening to the report: included by a target for each kind.
use libfuzzer_sys::fuzz_target;

/// What is of another kind has a target of its own.
fn read(kind: convert::Kind, input: &[u8]) {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, input).expect("written");
    if convert::kind(&file) != Some(kind) {
        return;
    }
    let progress = tables::ReadProgress::default();
    if let Ok((source, _held)) = convert::open(&file, &progress, tables::Which::Last) {
        let _ = analyze::report_from(source, None, &progress);
    }
}
