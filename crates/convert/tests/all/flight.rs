//! Dumps of PyTorch's flight recorder: who is awaited in which collective.
//!
//! The dumps are made here in the shape that PyTorch documents (version 2.5); names and figures are invented.

use analyze::hang::{hang, Conditions, Hang, Verdict};
use std::fmt::Write as _;
use std::path::Path;
use tables::{ReadProgress, Which};

const CREATED: u64 = 1_790_857_026_000_000_000;

/// The dump of a rank with so many calls, of which the last is in this state.
fn dump(ranks: u32, calls: u64, last: &str, size: u64) -> String {
    let all: Vec<String> = (0..ranks).map(|rank| rank.to_string()).collect();
    let mut text = format!(
        r#"{{"version": "2.5", "nccl_version": "2.28.9", "pg_config": {{"0": {{"name": "0",
        "desc": "default_pg", "ranks": "[{}]"}}}},
        "pg_status": {{"0": {{"last_enqueued_collective": {calls}}}}}, "entries": ["#,
        all.join(", ")
    );
    for call in 1..=calls {
        let state = if call == calls { last } else { "completed" };
        let size = if call == calls { size } else { 64 };
        let _ = write!(
            text,
            r#"{}{{"frames": [{{"name": "f", "filename": "train.py", "line": 3}}], "record_id": {call},
            "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": {seq}, "p2p_seq_id": 0,
            "op_id": {call}, "profiling_name": "nccl:all_reduce", "time_created_ns": {at},
            "input_sizes": [[{size}, 4]],
            "input_dtypes": ["Float"], "output_sizes": [[{size}, 4]], "output_dtypes": ["Float"],
            "state": "{state}", "retired": false, "timeout_ms": 600000, "is_p2p": false}}"#,
            if call == 1 { "" } else { ",\n" },
            seq = call + 600,
            at = CREATED + 1_000_000_000 * call,
        );
    }
    text + "]}"
}

fn answer(dumps: &[String]) -> Hang {
    let folder = tempfile::tempdir().expect("a folder");
    for (rank, text) in dumps.iter().enumerate() {
        let file = folder.path().join(format!("nccl_trace_rank_{rank}"));
        std::fs::write(file, text).expect("written");
    }
    of(folder.path())
}

fn of(path: &Path) -> Hang {
    let progress = ReadProgress::default();
    let (source, _held) = convert::open(path, &progress, Which::Last).expect("opened");
    hang(&source.load(&progress), &Conditions { after_ns: Some(0) })
}

#[test]
fn the_rank_that_did_not_come_is_named_with_the_call() {
    let waits = || dump(4, 10, "started", 64);
    let found = answer(&[waits(), waits(), dump(4, 9, "completed", 64), waits()]);
    let Verdict::Sink(sink) = &found.verdict else {
        panic!("{:?}", found.verdict);
    };
    assert_eq!(sink.ranks.members, [2]);
    assert_eq!(found.verdict.hang(), Some(true));
    let wait = &found.waits[0];
    assert_eq!(wait.call.function.as_deref(), Some("AllReduce"));
    assert_eq!(
        (wait.call.bytes, wait.waiting.members.len()),
        (Some(1024), 3)
    );
}

/// A dump whose buffer has lost its first calls.
fn without_first(text: &str, calls: usize) -> String {
    let (head, rest) = text.split_once("\"entries\": [").expect("entries");
    let begins = rest.match_indices(",\n{").map(|(at, _)| at + 1);
    let kept = &rest[begins.take(calls).last().expect("calls")..];
    format!("{head}\"entries\": [{kept}")
}

#[test]
fn buffers_that_begin_at_different_calls_are_laid_beside_each_other_by_number() {
    let waits = || dump(4, 10, "started", 64);
    let missing = dump(4, 9, "completed", 64);
    // It made fewer calls, so its buffer reaches further back.
    let found = answer(&[
        without_first(&waits(), 3),
        without_first(&missing, 2),
        without_first(&waits(), 3),
        waits(),
    ]);
    let Verdict::Sink(sink) = &found.verdict else {
        panic!("{:?}", found.verdict);
    };
    assert_eq!(sink.ranks.members, [1]);
    assert_eq!((sink.call.seq, sink.call.number), (Some(610), None));
}

#[test]
fn calls_of_a_rank_without_a_dump_are_counted_over_all_functions_together() {
    let folder = tempfile::tempdir().expect("a folder");
    for rank in 0..3 {
        let file = folder.path().join(format!("nccl_trace_rank_{rank}"));
        // Every second call is of another function; PyTorch numbers them together.
        let mut text = dump(4, 10, "started", 64);
        for seq in (602..=610).step_by(2) {
            let (before, after) =
                text.split_at(text.find(&format!("_id\": {seq},")).expect("a call"));
            text = format!("{before}{}", after.replacen("all_reduce", "all_gather", 1));
        }
        std::fs::write(file, text).expect("written");
    }
    let progress = ReadProgress::default();
    let opened = convert::open(folder.path(), &progress, Which::Last);
    let (source, _held) = opened.expect("opened");
    let report = analyze::report_from(source, None, &progress);
    let begun: Vec<u64> = report
        .completeness
        .absent
        .iter()
        .map(|row| row.calls_begun)
        .collect();
    assert_eq!(begun, [10]);
}

#[test]
fn sizes_that_differ_are_a_mismatch() {
    let same = || dump(4, 10, "started", 64);
    let found = answer(&[same(), dump(4, 10, "started", 65), same(), same()]);
    let Verdict::Mismatch(mismatch) = &found.verdict else {
        panic!("{:?}", found.verdict);
    };
    assert_eq!(mismatch.odd.members, [1]);
}

#[test]
fn a_job_without_open_calls_does_not_hang() {
    let done = || dump(2, 10, "completed", 64);
    let found = answer(&[done(), done()]);
    assert_ne!(found.verdict.hang(), Some(true), "{:?}", found.verdict);
}

#[test]
fn dumps_that_are_cut_off_or_no_dumps_are_errors_or_problems() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("nccl_trace_rank_0");
    let text = dump(2, 10, "started", 64);
    for bytes in [
        &text.as_bytes()[..text.len() / 2],
        b"\x80\x02cos\nsystem\n.",
        b"\x80\x02}q",
        b"{\"entries\": 7}",
    ] {
        std::fs::write(&file, bytes).expect("written");
        let error = convert::open(folder.path(), &ReadProgress::default(), Which::Last)
            .err()
            .expect("an error");
        assert!(error.to_string().contains("flight recorder"), "{error}");
    }
}
