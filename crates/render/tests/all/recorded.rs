//! The jobs in `data/` with their reports. They are read once for all tests.

use analyze::Report;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use tables::Capture;

pub struct Recorded {
    pub path: PathBuf,
    pub capture: Capture,
    pub report: Report,
}

/// All of them, by name.
pub static JOBS: LazyLock<Vec<Recorded>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let entries = std::fs::read_dir(folder).expect("data");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    // `hangs` is a folder of captures.
    let is_one = |path: &PathBuf| path.is_dir() && !path.ends_with("hangs");
    let mut paths: Vec<_> = paths.filter(is_one).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let capture = Capture::open(&path).expect("a capture");
        let report = analyze::report(&capture);
        Recorded {
            path,
            capture,
            report,
        }
    };
    paths.into_iter().map(read).collect()
});
