//! Logs of nccl-tests as captures: who communicated with whom, and how long calls took.
//!
//! The logs are of cases that people reported, rebuilt; their figures are invented.

use analyze::Report;
use std::fmt::Write as _;
use tables::{ReadProgress, Which};

/// The head of a run: rank, group, pid, host.
fn devices(of: &[(u32, u32, u32, &str)]) -> String {
    let mut text = String::from(
        "# nccl-tests version 2.17.8 nccl-headers=22809 nccl-library=22809\n\
        # Collective test starting: all_reduce_perf\n#\n# Using devices\n",
    );
    for (at, (rank, group, pid, host)) in of.iter().enumerate() {
        let _ = writeln!(
            text,
            "#  Rank {rank:2} Group {group:2} Pid {pid:6} on {host:>10} device {:2} [0000:10:00] NVIDIA H200",
            at % 8
        );
    }
    text + "#\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time \
        \x20 algbw   busbw #wrong\n#        (B)    (elements)                               (us)  (GB/s)  \
        (GB/s)            (us)  (GB/s)  (GB/s)\n"
}

fn row(bytes: u64, us: f64, wrong: u32) -> String {
    let gb = bytes as f64 / us / 1e3;
    format!(
        "{bytes:12} {:12} float sum -1 {us:8.2} {gb:6.2} {gb:6.2} {wrong} {us:8.2} {gb:6.2} {gb:6.2} 0\n",
        bytes / 4
    )
}

const FOOT: &str = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 52.4288\n#\n";

fn report(text: &str) -> Report {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("log.txt");
    std::fs::write(&file, text).expect("written");
    let progress = ReadProgress::default();
    let (source, _held) = convert::open(&file, &progress, Which::Last).expect("opened");
    analyze::report_from(source, None, &progress)
}

fn sizes(report: &Report) -> Vec<Option<u32>> {
    let mut all: Vec<_> = report.communicators.iter().map(|c| c.nranks).collect();
    all.sort_unstable();
    all
}

fn problems(report: &Report) -> Vec<String> {
    let rows = render::problems::rows(&report.problems);
    rows.into_iter().map(|row| row.found).collect()
}

#[test]
fn a_row_is_a_call_on_each_rank_with_its_mean_time() {
    let ranks: Vec<_> = (0..4).map(|rank| (rank, 0, 100 + rank, "node-1")).collect();
    let text = devices(&ranks) + &row(1 << 20, 20.0, 0) + &row(1 << 21, 40.0, 0) + FOOT;
    let report = report(&text);
    assert_eq!(sizes(&report), [Some(4)]);
    let rows: Vec<_> = report
        .operations
        .iter()
        .map(|o| {
            (
                o.function.as_deref(),
                o.bytes,
                o.calls,
                o.time_us.as_ref().and_then(|t| t.p50),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            (Some("AllReduce"), Some(1 << 21), 8, Some(40.0)),
            (Some("AllReduce"), Some(1 << 20), 8, Some(20.0)),
        ]
    );
    // Nothing is known of when calls were made, so nobody is late.
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert!(report.steps.is_none());
}

#[test]
fn groups_and_programs_without_mpi_have_communicators_of_their_own() {
    let split: Vec<_> = (0..16)
        .map(|rank| (rank, rank % 8, 100 + rank, "node-1"))
        .collect();
    let found = report(&(devices(&split) + &row(1 << 20, 20.0, 0) + FOOT));
    assert_eq!(sizes(&found), [Some(2); 8]);
    assert_eq!(
        problems(&found),
        ["8 groups of 2 ranks each ran at the same time"]
    );
    // Two programs of two ranks each.
    let alone: Vec<_> = (0..4).map(|n| (n % 2, 0, 100 + n / 2, "node-1")).collect();
    let two = row(1 << 20, 20.0, 0) + &row(1 << 20, 21.0, 0);
    let found = report(&(devices(&alone) + &two + FOOT + FOOT));
    assert_eq!(sizes(&found), [Some(2); 2]);
    assert!(problems(&found)[0].contains("build nccl-tests with MPI=1"));
}

#[test]
fn two_runs_in_one_file_are_two_runs() {
    let of = |n: u32| -> Vec<_> {
        (0..n)
            .map(|rank| (rank, 0, 100 * n + rank, "node-1"))
            .collect()
    };
    let text = devices(&of(2))
        + &row(1 << 20, 20.0, 0)
        + FOOT
        + &devices(&of(4))
        + &row(1 << 20, 30.0, 0)
        + FOOT;
    let found = report(&text);
    assert_eq!(sizes(&found), [Some(2), Some(4)]);
    assert_eq!(
        lead(&found),
        "These are 2 runs of nccl-tests, one after the other, of 2 and 4 ranks, and all figures mix them."
    );
}

/// The first sentence.
fn lead(report: &Report) -> String {
    render::verdict::lead(report, &report.verdict.lead)
}

#[test]
fn what_makes_a_run_worthless_is_the_first_sentence() {
    let ranks: Vec<_> = (0..2).map(|rank| (rank, 0, 100 + rank, "node-1")).collect();
    let head = devices(&ranks).replace("#\n# Using", "# nThread 1 nGpus 1\n#\n# Using");
    let first = row(1 << 20, 20.0, 0);
    let died = format!("{head}{first}node-2: Test NCCL failure common.cu:303\n");
    let wrong = format!("{head}{first}{}{FOOT}", row(1 << 21, 40.0, 7));
    let cut = format!("{head}{first}");
    for (text, expected) in [
        (
            died,
            "The run failed: node-2: Test NCCL failure common.cu:303, after the figures of 1 MiB.",
        ),
        (
            wrong,
            "Wrong data at 1 size, from 2 MiB on: these figures are left out.",
        ),
        (
            cut,
            "The text ends before the average of the run: the run died, or lines are missing.",
        ),
    ] {
        assert_eq!(lead(&report(&text)), expected);
    }
    let whole = lead(&report(&format!("{head}{first}{FOOT}")));
    assert!(whole.starts_with("Which rank is late"), "{whole}");
}

#[test]
fn a_log_with_the_tags_of_a_launcher_is_known_by_them() {
    let ranks: Vec<_> = (0..2).map(|rank| (rank, 0, 100 + rank, "node-1")).collect();
    let text = devices(&ranks) + &row(1 << 20, 20.0, 0) + FOOT;
    for tag in [
        "[1,0]<stdout>:",
        "[node-1:0] ",
        "2026-08-21T10:00:00.123Z ",
        "job-abc  | ",
    ] {
        let tagged: String = text.lines().map(|line| format!("{tag}{line}\n")).collect();
        let found = report(&tagged);
        assert_eq!(
            (sizes(&found), found.operations.len()),
            (vec![Some(2)], 1),
            "{tag}"
        );
    }
}

#[test]
fn a_host_that_the_json_does_not_say_is_unknown() {
    let text = include_str!("../../../bench/tests/data/broadcast.json");
    let without = text.replace("\"hostname\"", "\"of\"");
    assert_ne!(without, text);
    assert_eq!(report(&without).job.hosts, ["unknown host"]);
}

#[test]
fn a_run_that_died_and_wrong_data_are_problems() {
    let ranks: Vec<_> = (0..2).map(|rank| (rank, 0, 100 + rank, "node-1")).collect();
    let died = devices(&ranks)
        + &row(1 << 20, 20.0, 0)
        + "node-2: Test NCCL failure common.cu:303 'remote process exited or there was a network error / '\n";
    let found = report(&died);
    assert!(problems(&found)[0].starts_with("the run failed: node-2: Test NCCL failure"));
    let wrong = devices(&ranks) + &row(1 << 20, 20.0, 0) + &row(1 << 21, 40.0, 7);
    let found = report(&wrong);
    assert_eq!(
        problems(&found),
        ["wrong data at 1 size, from 2 MiB on, which are left out"]
    );
    assert_eq!(found.operations.len(), 1);
}

#[test]
fn json_of_nccl_tests_is_a_capture_too() {
    let found = report(include_str!("../../../bench/tests/data/broadcast.json"));
    let row = &found.operations[0];
    assert_eq!((row.function.as_deref(), row.calls), (Some("Broadcast"), 2));
}

#[test]
fn damaged_logs_are_read_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("log.txt");
    let ranks: Vec<_> = (0..2).map(|rank| (rank, 0, 100 + rank, "node-1")).collect();
    let text = devices(&ranks) + &row(1 << 20, 20.0, 0) + FOOT;
    crate::damage::read_damaged(&file, text.as_bytes(), b"# 0123456789.-\neinf", 11);
    let json = include_bytes!("../../../bench/tests/data/broadcast.json");
    crate::damage::read_damaged(&file, json, b"{}[]\",:0123456789 \n-ainf", 12);
}
