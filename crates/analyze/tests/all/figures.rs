//! One figure has one value, whoever prints it.

use analyze::summary::Summary;
use std::path::{Path, PathBuf};
use tables::Capture;

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data")
        .join(name)
}

fn opened(name: &str) -> Capture {
    Capture::open(&recorded(name)).expect("it opens")
}

#[test]
fn the_median_of_a_comparison_is_that_of_the_report() {
    let capture = opened("ddp4");
    let report = analyze::report(&capture);
    let run = analyze::diff::Run::of(&capture);
    let diff = analyze::diff::diff(&run, &run, &[]);
    let mut compared = 0;
    for kind in &diff.operations {
        let same = report.operations.iter().filter(|o| {
            (&o.function, &o.datatype, o.bytes) == (&kind.function, &kind.datatype, kind.bytes)
        });
        let same: Vec<_> = same.collect();
        if let ([operation], Some(p50)) = (&same[..], kind.a.as_ref().and_then(|a| a.p50_us)) {
            assert_eq!(operation.time_us.and_then(|t| t.p50), Some(p50), "{kind:?}");
            compared += 1;
        }
    }
    assert!(compared > 5, "{compared}");
}

#[test]
fn ranks_and_functions_leave_the_same_warm_up_out() {
    for name in ["ddp4", "flood_228", "calls_228"] {
        let report = analyze::report(&opened(name));
        let ranks: f64 = report.ranks.rows.iter().filter_map(|r| r.sum_us).sum();
        let timed: f64 = report
            .operations
            .iter()
            .filter_map(|o| o.time_us)
            .map(|t| t.sum)
            .sum();
        let apart = (ranks - timed).abs() / timed;
        assert!(apart < 0.02, "{name}: {ranks} us and {timed} us");
    }
}

#[test]
fn no_rank_is_said_to_wait_for_what_its_first_call_took() {
    for name in ["flood_228", "mix_228"] {
        let report = analyze::report(&opened(name));
        let of = |figure: &str| report.ranks.outliers.iter().any(|o| o.figure == figure);
        assert!(!of("nccl_us"), "{name}: {:?}", report.ranks.outliers);
    }
}

#[test]
fn the_last_sentence_counts_as_many_calls_as_the_table() {
    for (name, calls) in [("killed_228", 5500), ("flood_228", 8000), ("ddp4", 28)] {
        let report = analyze::report(&opened(name));
        let largest = &report.operations[0];
        assert_eq!(largest.calls, calls, "{name}");
        let Summary::Most(most) = report.summary else {
            panic!("{name}: {:?}", report.summary);
        };
        assert_eq!(most.calls, calls, "{name}");
    }
}
