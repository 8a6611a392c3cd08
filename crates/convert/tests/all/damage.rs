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
