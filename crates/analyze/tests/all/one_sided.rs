//! Jobs of which some ranks have no kernel windows.
//!
//! By default a process that is bound by its host has none. When it came to an operation is then known from
//! CUDA events, and what the others lost is the same as if it had windows.

use analyze::report;
use analyze::streams::WaitedFor;
use std::path::Path;
use tables::windows::Off;
use tables::Capture;

fn recorded(name: &str) -> Capture {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    Capture::open(&data.join(name)).expect("a recorded job")
}

/// The loss by this rank, as windows of all ranks show it, and without the windows of these.
fn losses(name: &str, late: u32, without: &[u32]) -> [WaitedFor; 2] {
    let mut capture = recorded(name);
    let loss = |capture: &Capture| {
        let streams = report(capture).streams.expect("windows");
        let mut found = streams.waited_for.into_iter();
        found.find(|of| of.rank == Some(late)).expect("a loss")
    };
    let whole = loss(&capture);
    for process in &mut capture.processes {
        if process.rank.is_some_and(|rank| without.contains(&rank)) {
            process.windows = tables::Windows {
                off: Some(Off::HostBound(300)),
                ..tables::Windows::default()
            };
        }
    }
    [whole, loss(&capture)]
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
        let [both, one] = losses(name, 1, &[1]);
        assert!(!both.by_events && one.by_events);
        let (low, high) = one.loss_interval_us.expect("enough");
        assert!(low > 0.0 && low < both.loss_us && both.loss_us < high);
        // What waiting slowed beside it may not be known: there is nothing to compare with.
        let less = one.loss_us / both.loss_us;
        assert!((0.7..1.1).contains(&less), "{name}: {less}");
        assert_eq!(one.host_late, both.host_late);
    }
}
