//! Jobs of which some ranks have no kernel windows.
//!
//! By default a process that is bound by its host has none. When it came to an operation is then known from
//! CUDA events, and what the others lost is the same as if it had windows.

use analyze::findings::Finding;
use analyze::report;
use std::path::Path;
use tables::windows::Off;
use tables::Capture;

fn recorded(name: &str) -> Capture {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    Capture::open(&data.join(name)).expect("a recorded job")
}

/// What is found of this rank, with windows of all ranks, and without the windows of these.
fn found(name: &str, late: u32, without: &[u32]) -> [Finding; 2] {
    let mut capture = recorded(name);
    let of = |capture: &Capture| {
        let mut found = report(capture).findings.into_iter();
        let found = found.find(|of| of.rank() == Some(late));
        found.unwrap_or_else(|| panic!("{name}: no finding"))
    };
    let whole = of(&capture);
    for process in &mut capture.processes {
        if process.rank.is_some_and(|rank| without.contains(&rank)) {
            process.windows = tables::Windows {
                off: Some(Off::HostBound(300)),
                ..tables::Windows::default()
            };
        }
    }
    [whole, of(&capture)]
}

#[test]
fn a_late_rank_without_windows_costs_what_it_costs_with_them() {
    for name in [
        "ddp_slow_gpu",
        "ddp_late_host",
        "fsdp2_slow_gpu",
        "pipe_slow_gpu",
        "grid_slow_host",
    ] {
        let [both, one] = found(name, 1, &[1]);
        let us = |of: &Finding| of.wall_us().expect("a loss");
        let interval = |of: &Finding| of.loss.as_ref()?.interval_us;
        let (a, b) = (interval(&both), interval(&one));
        let (a, b) = a.zip(b).expect("intervals");
        assert!(a.0 < b.1 && b.0 < a.1, "{name}: {a:?} {b:?}");
        // What waiting slowed beside it may not be known, and how fast its kernels are is not: there is
        // nothing to compare with.
        let less = us(&one) / us(&both);
        assert!((0.7..1.3).contains(&less), "{name}: {less}");
        assert_eq!(one.cause, both.cause, "{name}");
    }
}
