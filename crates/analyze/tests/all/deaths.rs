//! A rank of a recorded job was killed, and the others made 500 calls more, which can't complete.

use analyze::deaths::Death;
use analyze::summary::Next;
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
fn the_killed_rank_is_the_first_finding() {
    let report = analyze::report(&opened("killed_228"));
    let [death] = &report.deaths[..] else {
        panic!("{:?}", report.deaths);
    };
    let Death {
        process,
        calls,
        most_calls,
        left,
        last_function,
        last_bytes,
        ..
    } = death;
    assert_eq!(
        (process.rank, process.pid, *calls, *most_calls),
        (Some(1), 3139, 1000, 1500)
    );
    assert_eq!(left, &[0, 2, 3]);
    assert_eq!(last_function.as_deref(), Some("AllReduce"));
    assert_eq!(*last_bytes, Some(1024));
    assert_eq!(report.findings[0].kind(), analyze::findings::Kind::DeadRank);
    assert_eq!(report.next, Next::Hang);
}

#[test]
fn calls_that_a_rank_never_made_have_not_finished() {
    let capture = opened("killed_228");
    let finished = capture.processes.iter().map(|process| {
        let calls = process.calls.iter();
        calls.filter(|call| process.has_finished(call)).count()
    });
    // Of the one that was killed, no call was written as finished.
    assert_eq!(finished.collect::<Vec<_>>(), [1000, 0, 1000, 1000]);
}

#[test]
fn in_jobs_that_ended_well_nobody_died_and_all_finished() {
    for name in [
        "flood_228",
        "mix_228",
        "mix_230",
        "mix_two_hosts_228",
        "ddp4",
        "threads_228",
    ] {
        let capture = opened(name);
        for process in &capture.processes {
            let written = process.calls.iter().filter(|call| call.sealed);
            let finished = process
                .calls
                .iter()
                .filter(|call| process.has_finished(call));
            assert_eq!(finished.count(), written.count(), "{name}");
        }
        assert_eq!(analyze::report(&capture).deaths, [], "{name}");
    }
}
