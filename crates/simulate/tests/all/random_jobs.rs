//! The report on a hundred random jobs, and the generator itself.

use crate::judge::{judge_all, told};
use simulate::{Drawn, Verdict};

/// Jobs of which the first finding is right, or that rightly have none. It may only go up.
const RIGHT: usize = 87;
/// Prices that are right, of those that are told of the right rank.
const PRICES: f64 = 0.7;
/// Jobs whose mean step is right within 1 %, or labelled as a part or a multiple. It may only go up.
const STEPS: usize = 98;
/// Jobs in which somebody is blamed for nothing.
const FALSE_ALARMS: usize = 2;

#[test]
fn the_report_on_a_hundred_random_jobs_is_as_right_as_it_was() {
    let (matrix, lines) = judge_all(1..101, told);
    let wrong = lines.iter().filter(|(_, right, _)| !right);
    let wrong: String = wrong.map(|(_, _, lines)| lines.as_str()).collect();
    println!("{wrong}{matrix}");
    assert!(matrix.with(Verdict::Right) >= RIGHT);
    assert!(matrix.with(Verdict::FalseAlarm) <= FALSE_ALARMS);
    let [right, labelled, ..] = matrix.steps();
    assert!(right + labelled >= STEPS);
    let (close, prices) = matrix.prices();
    assert!(
        close as f64 >= PRICES * prices as f64,
        "{close} of {prices}"
    );
}

#[test]
fn the_curve_of_exposed_time_sums_to_the_report_however_few_calls_are_timed() {
    for seed in [394, 384, 277] {
        let drawn = Drawn::new(seed);
        let report = analyze::report(&drawn.play().played.capture_of(&drawn.evidence));
        let waits = report.stream_waits.expect("stream waits");
        let of_ranks: f64 = waits.ranks.iter().map(|rank| rank.exposed.sum_us).sum();
        let timeline = report.timeline.expect("a timeline");
        let curve = timeline.exposed.expect("a curve");
        let over_time: f64 = curve.sum.iter().sum();
        let off = over_time / of_ranks - 1.0;
        assert!(off.abs() < 1e-3, "{drawn}: {over_time} and {of_ranks}");
    }
}

#[test]
fn a_seed_is_the_same_job_each_time() {
    for seed in [3, 14] {
        let play = || Drawn::new(seed).play();
        let (a, b) = (play(), play());
        assert_eq!(a.played.seconds, b.played.seconds);
        let losses = |of: &simulate::Outcome| -> Vec<f64> {
            of.culprits.iter().map(|culprit| culprit.loss).collect()
        };
        assert_eq!(losses(&a), losses(&b));
    }
}

#[test]
fn without_a_cause_the_truth_is_that_nothing_is_lost() {
    for seed in 1..60 {
        let drawn = Drawn::new(seed);
        if drawn.causes == 0 {
            let outcome = drawn.play();
            assert_eq!(outcome.played.seconds, outcome.plain);
        }
    }
}
