//! The figures below the verdict.

use render::verdict::figures;
use std::path::Path;
use tables::Capture;

#[test]
fn if_most_calls_ran_in_graphs_the_time_in_nccl_is_not_that_of_the_others() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/calls_228");
    let capture = Capture::open(&data).expect("a recorded job");
    let mut report = analyze::report(&capture);
    let line = figures(&report).join(" · ");
    assert!(
        line.contains("in NCCL ") && line.contains("waiting "),
        "{line}"
    );
    report.completeness.in_graphs = Some(80_000);
    let line = figures(&report).join(" · ");
    assert!(
        line.contains("time in NCCL not known: 80000 calls in CUDA graphs were not timed"),
        "{line}"
    );
    assert!(!line.contains("waiting "), "{line}");
}
