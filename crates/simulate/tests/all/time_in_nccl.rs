//! The most that a GPU can have been in NCCL, by a sample of its calls.

use simulate::{Drawn, Evidence, Ranks};

#[test]
fn a_sample_bounds_the_time_in_nccl_that_all_calls_have() {
    let (mut ranks, mut below) = (0, 0);
    for seed in 1..=12 {
        let drawn = Drawn::new(seed);
        let outcome = drawn.play();
        let rows = |levels: Vec<u32>| {
            let evidence = Evidence {
                windows: Ranks::None,
                levels,
                ..Evidence::default()
            };
            let mut capture = outcome.played.capture_of(&evidence);
            for process in &mut capture.processes {
                process.ended = true;
            }
            analyze::report(&capture).ranks.rows
        };
        for (all, sample) in rows(vec![0]).iter().zip(rows(vec![3])) {
            let (Some(all), Some(most)) = (all.nccl_us, sample.most_us) else {
                continue;
            };
            ranks += 1;
            below += usize::from(most < all);
        }
    }
    // Each is the end of an interval of 95 %.
    assert!(ranks >= 30, "{ranks}");
    assert!(below * 20 <= ranks, "{below} of {ranks} are too small");
}
