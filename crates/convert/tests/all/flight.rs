//! Dumps of PyTorch's flight recorder: who is awaited in which collective.
//!
//! Most dumps are made here in the shape that PyTorch documents (version 2.5), with names and figures that
//! are invented. Those of Gloo in `gloo/` are of torch 2.11, from a hang of two ranks (`gloo/hang.py`).

use analyze::hang::{hang, Conditions, Hang, Verdict};
use analyze::time::Nanos;
use render::hang::Answer;
use render::problems::rows;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};
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

/// Of dumps that were written so long after the last call.
fn answer_after(dumps: &[(u32, String)], after: Duration) -> Hang {
    let folder = tempfile::tempdir().expect("a folder");
    let at = UNIX_EPOCH + Duration::from_nanos(CREATED + 10_000_000_000) + after;
    for (rank, text) in dumps {
        let path = folder.path().join(format!("nccl_trace_rank_{rank}"));
        let mut file = File::create(path).expect("created");
        file.write_all(text.as_bytes()).expect("written");
        file.set_modified(at).expect("a time");
    }
    of(folder.path())
}

fn answer(dumps: &[String]) -> Hang {
    let numbered: Vec<(u32, String)> = (0..).zip(dumps.iter().cloned()).collect();
    answer_after(&numbered, Duration::from_secs(600))
}

/// The first sentence of a verdict.
fn sentence(hang: &Hang) -> String {
    Answer::new(hang).sentence
}

fn of(path: &Path) -> Hang {
    let progress = ReadProgress::default();
    let (source, _held) = convert::open(path, &progress, Which::Last).expect("opened");
    hang(
        &source.load(&progress),
        &Conditions {
            after: Some(Nanos::ZERO),
        },
    )
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

#[test]
fn a_rank_without_a_dump_is_named_and_open_calls_are_never_no_hang() {
    let waits = || dump(4, 10, "started", 64);
    let dumps = [(0, waits()), (2, waits()), (3, waits())];
    // A copy without times is as old as the copy.
    for (after, for_time) in [(600, " for 10.0 min"), (30 * 24 * 3600, "")] {
        let found = answer_after(&dumps, Duration::from_secs(after));
        let expected = format!(
            "Ranks 0,2-3 are in AllReduce of 1 KiB, sequence number 610 on communicator \
             {} (default_pg), and it has not ended{for_time}; rank 1 left no dump.",
            found.communicators[0].id
        );
        assert_eq!(sentence(&found), expected);
        assert_eq!(found.verdict.hang(), None);
        assert_eq!(
            Answer::new(&found).next,
            "py-spy dump --pid PID (of rank 1)"
        );
    }
}

#[test]
fn how_long_is_not_known_if_the_dumps_do_not_tell() {
    let waits = || dump(2, 10, "started", 64);
    let dumps = [(0, waits()), (1, dump(2, 9, "completed", 64))];
    let found = answer_after(&dumps, Duration::from_secs(30 * 24 * 3600));
    let answer = Answer::new(&found);
    assert!(
        answer.sentence.ends_with("which rank 0 waits in."),
        "{}",
        answer.sentence
    );
    // Any wait of a dump counts.
    assert_eq!((answer.waited_s, answer.hang), (None, Some(true)));
    let unknown = |detail: &String| detail.starts_with("How long is not known: the dumps");
    assert!(answer.details.iter().any(unknown), "{:?}", answer.details);
}

#[test]
fn a_rank_with_a_scheduled_call_is_one_that_its_gpu_has_not_begun() {
    let starts = |text: String| {
        text.replace(
            r#""retired""#,
            r#""time_discovered_started_ns": 7, "retired""#,
        )
    };
    let waits = || starts(dump(4, 10, "started", 64));
    let scheduled = starts(dump(4, 9, "completed", 64));
    let last = dump(4, 10, "scheduled", 64);
    let last = last.rsplit_once(",\n{").expect("calls").1;
    let scheduled = format!("{},\n{{{last}", scheduled.trim_end_matches("]}"));
    let found = answer(&[waits(), waits(), waits(), scheduled]);
    let first = sentence(&found);
    assert!(
        first.starts_with("The GPU of rank 3 has not begun AllReduce"),
        "{first}"
    );
    assert!(first.ends_with("ranks 0-2 wait for 10.0 min."), "{first}");
}

#[test]
fn without_timing_scheduled_says_nothing_about_the_gpu() {
    let open = || dump(2, 10, "scheduled", 64);
    let found = answer(&[open(), open()]);
    let first = sentence(&found);
    assert!(first.starts_with("All 2 ranks are in AllReduce"), "{first}");
    assert!(first.ends_with("it has not ended for 10.0 min."), "{first}");
}

#[test]
fn a_dump_without_calls_is_no_absent_file() {
    let empty = dump(2, 0, "", 64);
    let found = answer(&[dump(2, 10, "started", 64), empty]);
    let first = sentence(&found);
    assert!(
        first.ends_with("; the dump of rank 1 has no calls."),
        "{first}"
    );
    let problems = rows(&found.problems);
    let problems: Vec<&str> = problems.iter().map(|row| row.place.as_str()).collect();
    assert_eq!(problems, ["its entries"]);
}

/// The dumps of a hang of two ranks of Gloo, of which rank 1 left out the last AllReduce. `edit` changes what
/// JSON says.
fn of_gloo(kind: &str, edit: impl Fn(&str) -> String) -> Hang {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gloo");
    let folder = tempfile::tempdir().expect("a folder");
    for entry in from.join(kind).read_dir().expect("dumps") {
        let path = entry.expect("a dump").path();
        let bytes = std::fs::read(&path).expect("read");
        let bytes = match String::from_utf8(bytes) {
            Ok(text) => edit(&text).into_bytes(),
            Err(binary) => binary.into_bytes(),
        };
        let name = path.file_name().expect("a name");
        let mut file = File::create(folder.path().join(name)).expect("created");
        file.write_all(&bytes).expect("written");
        let last = Duration::from_nanos(1_795_922_948_796_652_037);
        let at = UNIX_EPOCH + last + Duration::from_secs(5);
        file.set_modified(at).expect("a time");
    }
    of(folder.path())
}

#[test]
fn a_hang_of_gloo_names_the_rank_that_did_not_come() {
    for kind in ["pickle", "json"] {
        let found = of_gloo(kind, str::to_owned);
        let Verdict::Sink(sink) = &found.verdict else {
            panic!("{kind}: {:?}", found.verdict);
        };
        assert_eq!(sink.ranks.members, [1], "{kind}");
        assert_eq!(found.verdict.hang(), Some(true), "{kind}");
        let first = sentence(&found);
        assert!(
            first.starts_with("Rank 1 has not made AllReduce of 256 KiB, sequence number 8 on")
                && first.ends_with("(default_pg), which rank 0 waits in for 5.00 s."),
            "{kind}: {first}"
        );
    }
}

#[test]
fn a_call_of_gloo_is_over_once_it_is_retired() {
    // Rank 0 made a call more, which failed.
    let failed = of_gloo("json", |text| {
        text.replace(":false,\"state\"", ":true,\"state\"")
    });
    let Verdict::Sink(sink) = &failed.verdict else {
        panic!("{:?}", failed.verdict);
    };
    assert_eq!(sink.ranks.members, [1]);
    // All calls of both are over.
    let ended = of_gloo("json", |text| {
        let last = text.find("{\"collective_seq_id\":8");
        let Some(last) = last else {
            return text.to_owned();
        };
        let end = text[last..].find('}').expect("its end") + last + 1;
        format!("{}{}", text[..last].trim_end_matches(','), &text[end..])
    });
    assert_ne!(ended.verdict.hang(), Some(true), "{:?}", ended.verdict);
}

#[test]
fn a_start_at_0_is_not_known() {
    let open = || {
        dump(2, 10, "scheduled", 64).replace(
            r#""retired""#,
            r#""time_discovered_started_ns": 0, "retired""#,
        )
    };
    let first = sentence(&answer(&[open(), open()]));
    assert!(first.starts_with("All 2 ranks are in AllReduce"), "{first}");
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
