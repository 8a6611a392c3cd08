//! `hang --watch` beside a hundred jobs that hang and a hundred healthy ones, and the generator of both.

use crate::watcher::{trials, watch_all, Matrix};
use simulate::hanging::{Trial, PAUSES};

/// Hangs of a hundred that are told. It may only go up.
const FOUND: usize = 98;
/// Hangs of which the right ranks are named.
const RIGHT: usize = 98;
/// Stand-stills that are told within 10 s.
const SOON: usize = 90;

#[test]
fn a_hundred_hangs_are_told_as_well_as_they_were_and_no_healthy_job_hangs() {
    let seen = watch_all(&trials(1..101));
    let wrong = seen.iter().filter(|seen| !seen.is_right());
    let wrong: String = wrong.map(|seen| seen.lines.as_str()).collect();
    let matrix = Matrix::new(&seen);
    println!("{wrong}{matrix}");
    assert_eq!(matrix.false_hangs(), 0);
    assert!(matrix.found() >= FOUND, "{} are found", matrix.found());
    assert!(matrix.right() >= RIGHT, "{} are right", matrix.right());
    assert!(matrix.soon() >= SOON, "{} are told soon", matrix.soon());
}

#[test]
fn a_rank_that_left_out_a_call_and_went_on_is_named() {
    // A call of some ranks; a send in a ring; a send, where the rank waits on another communicator.
    for seed in [39, 572, 472] {
        let matrix = Matrix::new(&watch_all(&trials(seed..seed + 1)));
        assert_eq!(matrix.right(), 1, "{seed}: {matrix}");
    }
}

#[test]
fn each_pause_ends() {
    for seed in 1..4 {
        for pause in PAUSES {
            let stage = Trial::pauses(seed, pause).play();
            assert!(stage.is_over(), "{pause:?} of seed {seed}");
        }
    }
}
