//! Trace files stay within `NCCLSCOPE_MAX_SIZE`, and no call goes uncounted for it.

use crate::job::{shared_counter, Driver, Job};
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Release};

const LIMIT: u64 = 64 << 10;

#[test]
#[ignore = "played by the tests below"]
fn endless_job() {
    let counter = shared_counter(Path::new(&std::env::var("COUNTER").expect("set")));
    let mut comm = Driver::new(0xc0ffee);
    loop {
        comm.all_reduce(1 + counter.load(Acquire) as usize % 7);
        // Counted only after the call has returned.
        counter.fetch_add(1, Release);
    }
}

/// The trace files below a folder: their numbers and bytes.
fn trace_files(folder: &Path) -> Vec<(u32, u64)> {
    let mut found = Vec::new();
    for host in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        for file in std::fs::read_dir(host.path())
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = file.path();
            let name = path.file_name().expect("a file").to_string_lossy();
            if let Some(name) = name.strip_suffix(".trace") {
                let number = capture::rotated::split_number(name).1;
                found.push((number, file.metadata().map_or(0, |m| m.len())));
            }
        }
    }
    found.sort_unstable();
    found
}

#[test]
fn killed_while_files_come_and_go_keeps_every_completed_call() {
    let kills: u64 = std::env::var("NCCLSCOPE_KILLS").map_or(20, |n| n.parse().expect("a number"));
    let mut rotated = 0;
    for kill in 0..kills {
        let counter_path =
            std::env::temp_dir().join(format!("ncclscope-rotation-{}-{kill}", std::process::id()));
        let counter = shared_counter(&counter_path);
        let mut job = Job::new(module_path!(), "endless_job")
            .env("COUNTER", counter_path.to_str().expect("utf-8"))
            .env("NCCLSCOPE_FLUSH", "0.05")
            .env("NCCLSCOPE_MAX_SIZE", "64KiB");
        let mut child = job.spawn();
        while trace_files(&job.folder)
            .last()
            .is_none_or(|file| file.0 < 4)
        {
            assert!(child.try_wait().expect("asked").is_none(), "it ended");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        // The sequence is fixed, the moments are not.
        std::thread::sleep(std::time::Duration::from_micros(kill * 7_919 % 50_000));
        child.kill().expect("killed");
        child.wait().expect("reaped");
        let done = counter.load(Acquire);
        let capture = job.capture();
        let process = &capture.processes[0];
        assert!(
            capture.problems.is_empty(),
            "kill {kill}: {:?}",
            capture.problems
        );
        let totals: u64 = process.totals.iter().map(|t| t.folded + t.rowless).sum();
        let recorded = process.calls.len() as u64 + totals;
        // One call may be under way, and one may have returned before the counter was raised.
        assert!(
            (done..=done + 1).contains(&recorded),
            "kill {kill}: {done} calls done, {recorded} recorded"
        );
        let c = analyze::report(&capture).completeness;
        let lost = c.lost.get("rotated").copied();
        assert_eq!(lost.unwrap_or(0), process.rotated, "{c:#?}");
        assert!(c.adds_up, "{c:#?}");
        // Both ends of the job are there. A call that found no row has no ticket.
        let counters = process.counters.as_ref().expect("the live part survives");
        let born = counters.announced - counters.lost[0];
        let ticket = |i: usize| process.calls.get(i).expect("calls").ticket;
        assert_eq!(ticket(0), 0);
        assert!(ticket(process.calls.len() - 1) + 2 >= born, "kill {kill}");
        let files = trace_files(&job.folder);
        let bytes: u64 = files.iter().map(|file| file.1).sum();
        // The file to be removed may still be there.
        assert!(files.len() <= 5 && bytes <= LIMIT / 4 * 5, "{files:?}");
        rotated += process.rotated;
        let _ = std::fs::remove_file(counter_path);
    }
    assert!(rotated > kills);
}

#[test]
#[ignore = "played by the test below"]
fn job_with_ever_new_communicators() {
    for round in 0..400 {
        let mut comm = Driver::new(1000 + round);
        for i in 0..40 {
            comm.all_reduce(1 + i);
        }
        comm.finalize();
    }
}

#[test]
fn calls_of_communicators_that_are_long_gone_are_still_counted() {
    let mut job = Job::new(module_path!(), "job_with_ever_new_communicators")
        .env("NCCLSCOPE_FLUSH", "0.05")
        .env("NCCLSCOPE_MAX_SIZE", "64KiB");
    assert!(job.run().success());
    let capture = job.capture();
    assert!(capture.problems.is_empty(), "{:?}", capture.problems);
    let c = analyze::report(&capture).completeness;
    assert_eq!((c.announced, c.adds_up), (16_000, true), "{c:#?}");
    assert!(c.lost["rotated"] > 1000, "{c:#?}");
    assert_eq!(c.recorded + c.lost.values().sum::<u64>(), 16_000);
}

#[test]
#[ignore = "played by the test below"]
fn job_of_8000_calls() {
    let mut comm = Driver::new(0xe5);
    for i in 0..8000 {
        comm.all_reduce(1 + i % 100);
    }
    comm.finalize();
}

#[test]
fn callbacks_mode_keeps_its_first_file_within_the_limit() {
    let mut job = Job::new(module_path!(), "job_of_8000_calls")
        .env("NCCLSCOPE_MODE", "callbacks")
        .env("NCCLSCOPE_MAX_SIZE", "1MiB");
    assert!(job.run().success());
    let files = trace_files(&job.folder);
    assert_eq!(files.len(), 1);
    // What was staged when the limit was met is still written: 256 KiB at most.
    assert!(files[0].1 <= (1 << 20) + (320 << 10), "{files:?}");
    let capture = job.capture();
    let c = analyze::report(&capture).completeness;
    assert!(c.odd.get("callbacks_dropped") > Some(&0), "{c:#?}");
    // Callbacks take half of the file, and the rows of calls fit in the other one.
    assert!(c.adds_up && c.lost.is_empty(), "{c:#?}");
    assert_eq!(c.recorded, 8000);
}
