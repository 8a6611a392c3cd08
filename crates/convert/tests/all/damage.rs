//! Files in which bytes are replaced at random: whatever is in them, reading them ends.

use std::path::Path;
use tables::{ReadProgress, Which};

/// Reads the text 200 times, each time with four of its bytes replaced by some of `letters`.
pub fn read_damaged(path: &Path, text: &[u8], letters: &[u8], mut seed: u64) {
    for _ in 0..200 {
        let mut bytes = text.to_vec();
        for _ in 0..4 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = (seed >> 33) as usize % bytes.len();
            bytes[at] = letters[(seed >> 20) as usize % letters.len()];
        }
        std::fs::write(path, &bytes).expect("written");
        let progress = ReadProgress::default();
        if let Ok((source, _held)) = convert::open(path, &progress, Which::Last) {
            let _ = analyze::report_from(source, None, &progress);
        }
    }
}

#[test]
fn what_the_fuzzer_is_begun_with_is_of_its_kind_and_read() {
    use convert::Kind;
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (folder, kind) in [
        ("flight", Kind::FlightRecorder),
        ("inspector", Kind::Inspector),
        ("kineto", Kind::Kineto),
        ("nccl_tests", Kind::NcclTests),
        ("nsys", Kind::Nsys),
        ("ras", Kind::Ras),
    ] {
        let seeds = std::fs::read_dir(corpus.join(folder)).expect("seeds");
        let mut n = 0;
        for seed in seeds {
            let path = seed.expect("a seed").path();
            assert_eq!(convert::kind(&path), Some(kind), "{}", path.display());
            let progress = ReadProgress::default();
            let opened = convert::open(&path, &progress, Which::Last);
            let (source, _held) =
                opened.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let _ = analyze::report_from(source, None, &progress);
            n += 1;
        }
        assert!(n > 0, "{folder}");
    }
}
