//! The judge over a benchmark whose every time is known, and a profiler that is half a microsecond off.

use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use judge::overhead::Verdict;
use judge::plan::{JudgePlan, Profiler, Work};
use judge::report::{Callbacks, Report};
use parquet::arrow::ArrowWriter;
use std::fmt::Write;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const CALLS: i64 = 120;
const RANKS: u32 = 2;
/// The processes of the ranks begin here.
const PIDS: u32 = 70;

/// Time of a call of a rank, ns.
fn own(call: i64, rank: u32) -> i64 {
    10_000 + 100 * call + 1000 * i64::from(rank)
}

/// The benchmark's file: a warm-up call, then the timed ones; `slower` times as long.
fn write_calls(path: &Path, mode: &str, slower: i64) {
    // Rank by rank, the warm-up is call -1.
    let rows: Vec<(u32, i64)> = (0..RANKS)
        .flat_map(|rank| (-1..CALLS).map(move |call| (rank, call)))
        .collect();
    let text = |of: &dyn Fn(i64) -> String| {
        Arc::new(StringArray::from_iter_values(rows.iter().map(|r| of(r.1)))) as ArrayRef
    };
    let long = |of: fn(i64) -> u64| {
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|r| of(r.1)))) as ArrayRef
    };
    let ranks = UInt32Array::from_iter_values(rows.iter().map(|r| r.0));
    let pids = UInt32Array::from_iter_values(rows.iter().map(|r| PIDS + r.0));
    let times = rows
        .iter()
        .map(|(rank, call)| (*call >= 0).then(|| own(*call, *rank) * slower / 10));
    let times = Int64Array::from_iter(times);
    let batch = RecordBatch::try_from_iter([
        ("function", text(&|_| "AllReduce".into())),
        ("bytes", long(|_| 1024)),
        (
            "mode",
            text(&|call| {
                if call < 0 {
                    "warmup".into()
                } else {
                    mode.into()
                }
            }),
        ),
        ("iteration", long(|call| call.max(0) as u64)),
        (
            "in_place",
            Arc::new(BooleanArray::from_iter(rows.iter().map(|_| Some(false)))) as ArrayRef,
        ),
        ("rank", Arc::new(ranks) as ArrayRef),
        ("pid", Arc::new(pids) as ArrayRef),
        ("time_ns", Arc::new(times) as ArrayRef),
        (
            "skew_ns",
            Arc::new(Int64Array::from_iter(rows.iter().map(|_| Some(100)))) as ArrayRef,
        ),
    ])
    .expect("columns");
    let file = File::create(path).expect("made");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("written");
    writer.close().expect("closed");
}

/// Asserts that the JSON of a report is as the schema says, with callbacks' costs too.
fn keeps_to_its_schema(report: &Report) {
    let mut report = report.clone();
    report.callbacks.push(Callbacks {
        profiler: "mine".into(),
        rate: 0,
        channels: 1,
        call_ns: 20.5,
        call_interval_ns: Some((20.0, 21.0)),
        progress_ns: -1.0,
        progress_interval_ns: None,
        p9999_us: 1.0,
        max_us: 2.0,
        own_cpu_percent: 0.1,
        rss_growth_mib: 0.0,
    });
    let schema = serde_json::from_str(include_str!("../../schema/judge-1.json")).expect("JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let written = serde_json::to_value(&report).expect("JSON");
    let wrong: Vec<String> = schema
        .iter_errors(&written)
        .map(|e| e.to_string())
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    for part in [
        "completeness",
        "recorded",
        "accuracy",
        "overhead",
        "distributions",
        "resources",
    ] {
        let rows = written[part].as_array();
        assert!(rows.is_some_and(|rows| !rows.is_empty()), "{part}");
    }
}

/// What a profiler wrote of it: every call but those of rank 1 from the 100th on, each half a microsecond too
/// long.
fn write_records(path: &Path) {
    let mut text = String::new();
    for rank in 0..RANKS {
        for call in -1..CALLS {
            if rank == 1 && call >= 100 {
                continue;
            }
            writeln!(
                text,
                "{{\"header\":{{\"id\":\"0x1\",\"rank\":{rank},\"n_ranks\":2}},\"metadata\":{{\"pid\":{}}},\
                 \"coll_perf\":{{\"coll\":\"AllReduce\",\"coll_sn\":{},\"coll_msg_size_bytes\":1024,\
                 \"coll_exec_time_us\":{:.3}}}}}",
                PIDS + rank,
                call + 1,
                (own(call, rank) + 500) as f64 / 1e3
            )
            .expect("written");
        }
    }
    fs::write(path, text).expect("written");
}

#[test]
fn a_profiler_half_a_microsecond_off_is_found_so_pair_by_pair_and_as_a_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for mode in ["single", "back-to-back"] {
        write_calls(&at(&format!("{mode}-none.parquet")), mode, 10);
        write_calls(
            &at(&format!("{mode}-under.parquet")),
            mode,
            if mode == "single" { 10 } else { 15 },
        );
    }
    write_records(&at("records.log"));
    // A benchmark that has run already.
    let program = at("ncclscope");
    let script = format!(
        r#"#!/bin/sh
        [ "$1 $2" = "bench --mode" ] || exit 1
        mode=$3; who=under
        [ "$NCCL_PROFILER_PLUGIN" = none ] && who=none
        while [ $# -gt 1 ]; do [ "$1" = --parquet ] && to=$2; shift; done
        cp '{0}'/$mode-$who.parquet "$to"
        if [ $who = under ]; then cp '{0}'/records.log "$NCCL_INSPECTOR_DUMP_DIR"/; fi
        "#,
        folder.path().display()
    );
    fs::write(&program, script).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set");
    let plan = JudgePlan {
        work: Work::Bench {
            program,
            args: vec!["all_reduce".into()],
            cases: vec!["single".into(), "back-to-back".into()],
        },
        profilers: vec![Profiler::parse("inspector=anything", None).expect("sound")],
        rounds: 3,
        seed: 1,
        limit: 1.02,
        step: None,
        counter: None,
        check_counter: false,
        timeout: Duration::from_secs(60),
        stopped: || false,
        callbacks: false,
        folder: None,
    };
    let report = judge::trial::run(&plan, &mut |_, _| {}).expect("run");
    keeps_to_its_schema(&report);
    assert_eq!(report.notes, Vec::<String>::new());

    // Warm-up calls are calls too. 20 calls of one rank lack.
    let counts = report.completeness[0].counts;
    assert_eq!(
        [counts.done, counts.matched, counts.missing],
        [3 * 242, 3 * 222, 3 * 20]
    );

    // Only the calls that were made one at a time have a time of their own.
    assert_eq!(report.accuracy.len(), 1);
    let accuracy = &report.accuracy[0].accuracy;
    assert_eq!((accuracy.done, accuracy.pairs), (3 * 240, 3 * 220));
    let near =
        |value: Option<f64>, expected: f64| value.is_some_and(|v| (v - expected).abs() < 2e-3);
    assert!(near(accuracy.error_p50_us, 0.5), "{accuracy:?}");
    assert!(
        near(accuracy.error_p95_us, 0.5) && near(accuracy.error_p99_us, 0.5),
        "{accuracy:?}"
    );
    let (low, high) = accuracy.error_p50_interval_us.expect("three runs");
    assert!(low > 0.49 && high < 0.51);
    // As a whole, the long calls that lack pull the other way: not what the pairs say.
    assert!(accuracy.shift_p95_us < 0.5, "{accuracy:?}");

    let of = |case: &str| {
        let row = report
            .overhead
            .iter()
            .find(|row| row.case == case)
            .expect("compared");
        (row.figure.clone(), row.overhead.ratio, row.overhead.verdict)
    };
    assert_eq!(
        of("single"),
        ("AllReduce 1KiB".into(), 1.0, Verdict::Within)
    );
    let (_, ratio, verdict) = of("back-to-back");
    assert!(
        (ratio - 1.5).abs() < 1e-6 && verdict == Verdict::Above,
        "{ratio}"
    );
    // The longest rank of each: rank 1, whose mean is 11 us and half of 119 steps of 100 ns.
    let without = report.overhead[0].overhead.without;
    assert!((without - 16.95).abs() < 1e-6, "{without}");

    // 20 of 121 calls of rank 1 lack, and none of rank 0.
    let recorded = &report.recorded[0];
    assert_eq!((recorded.done, recorded.matched), (3 * 242, 3 * 222));
    assert!((recorded.recorded_percent - 91.735).abs() < 1e-3);

    // The benchmark's times with and without the profiler, and the profiler's own.
    let spread = |profiler: &str, by: &str| {
        let mut rows = report.distributions.iter();
        let found = rows.find(|row| row.profiler == profiler && row.by == by);
        &found.expect("a distribution").distribution
    };
    let alone = spread("none", "bench");
    // 10.0 to 21.9 us on rank 0, a microsecond more on rank 1.
    assert_eq!((alone.count, alone.min_us, alone.max_us), (720, 10.0, 22.9));
    assert!((alone.mean_us - 16.45).abs() < 1e-9);
    assert_eq!(spread("inspector", "bench"), alone);
    let told = spread("inspector", "profiler");
    assert_eq!((told.count, told.min_us, told.max_us), (660, 10.5, 22.4));

    // The sum over calls of rank 0 and rank 1, by both, over two ranks.
    let communication = |profiler: &str| {
        let mut rows = report.communication.iter();
        let found = rows.find(|row| row.profiler == profiler && row.case == "single");
        found.expect("a row")
    };
    let near = |value: Option<f64>, expected: f64| {
        value.is_some_and(|value| (value / expected - 1.0).abs() < 1e-6)
    };
    let of_calls = |calls: std::ops::Range<i64>, rank, more| -> f64 {
        calls
            .map(|call| (own(call, rank) + more) as f64 / 1e9)
            .sum()
    };
    let own_s = (of_calls(0..CALLS, 0, 0) + of_calls(0..CALLS, 1, 0)) / 2.0;
    assert!(
        near(communication("none").own_s, own_s),
        "{:?}",
        communication("none")
    );
    assert_eq!(communication("none").told_s, None);
    // The profiler has a time of the warm-up, too.
    let told_s = (of_calls(-1..CALLS, 0, 500) + of_calls(-1..100, 1, 500)) / 2.0;
    assert!(
        near(communication("inspector").told_s, told_s),
        "{:?}",
        communication("inspector")
    );
    assert!(near(
        communication("inspector").timed_percent,
        222.0 / 242.0 * 100.0
    ));

    let mut page = Vec::new();
    judge::html::write(&report, &mut page).expect("written");
    if let Ok(to) = std::env::var("NCCLSCOPE_JUDGE_PAGE") {
        fs::write(to, &page).expect("written");
    }
    let page = String::from_utf8(page).expect("text");
    // Alone, under the profiler and by it; then alone and under it.
    assert_eq!(page.matches("<path").count(), 3 + 2, "{page}");
    for part in [
        "91.74 %",
        "Accuracy (",
        "<td>60</td>",
        "by profiler",
        "bench under it",
        "class=\"limit\"",
        ">11.50<",
    ] {
        assert!(page.contains(part), "`{part}` in\n{page}");
    }
    assert!(!page.contains("<script"), "{page}");

    let mut text = Vec::new();
    judge::text::write(&report, false, &mut text).expect("written");
    let text = String::from_utf8(text).expect("text");
    for part in [
        "660/720",
        "0.50 [0.50, 0.50]",
        "AllReduce 1KiB",
        "above",
        "within",
    ] {
        assert!(text.contains(part), "`{part}` in\n{text}");
    }
}
