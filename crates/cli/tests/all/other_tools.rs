//! Files of other tools, as a user meets them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs the command with a folder for temporary files, in which nothing may be left.
fn ncclscope(arguments: &[&str]) -> Output {
    let home = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .args(arguments)
        .env("TMPDIR", home.path())
        .output()
        .expect("started");
    let left = home.path().read_dir().expect("listed").count();
    assert_eq!(left, 0, "{arguments:?} left files");
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The two traces of torch.profiler of a job on two GPUs.
fn traces(to: &Path) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/tests/torch_profiler");
    for name in ["fsdp2_traced.0.json.gz", "fsdp2_traced.1.json.gz"] {
        std::fs::copy(tests.join(name), to.join(name)).expect("copied");
    }
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn traces_of_torch_profiler_are_read_by_every_verb_that_can() {
    let folder = tempfile::tempdir().expect("a folder");
    traces(folder.path());
    let path = shown(folder.path());
    let report = ncclscope(&["report", path]);
    let page = text(&report.stdout);
    assert!(report.status.success(), "{}", text(&report.stderr));
    for part in [
        "mode kineto",
        "864 of at least 864 announced calls recorded, 864 timed",
        "This is a file of torch.profiler (Kineto).",
        &format!("Next: ncclscope view {path}"),
    ] {
        assert!(page.contains(part), "`{part}` is not in\n{page}");
    }
    let out = folder.path().join("run.csv");
    let export = ncclscope(&[
        "export",
        path,
        "--to",
        "parquet",
        "-o",
        shown(&out.with_extension("")),
    ]);
    assert!(export.status.success(), "{}", text(&export.stderr));
    let diff = ncclscope(&["diff", path, path]);
    assert!(text(&diff.stdout).contains("the same recording"));
    // No trace says which calls never ended.
    let hang = ncclscope(&["hang", path]);
    let said = text(&hang.stderr);
    assert_eq!(hang.status.code(), Some(2), "{said}");
    assert!(said.contains("flight recorder"), "{said}");
}

#[test]
fn a_dump_of_the_flight_recorder_says_who_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    for (rank, state) in ["started", "completed", "started"].iter().enumerate() {
        let call = |seq: u64, state: &str| {
            format!(
                r#"{{"record_id": {seq}, "process_group": ["0", "default_pg"], "collective_seq_id": {seq},
                "profiling_name": "nccl:all_reduce", "time_created_ns": {}, "input_sizes": [[8]],
                "input_dtypes": ["Float"], "output_sizes": [[8]], "output_dtypes": ["Float"],
                "state": "{state}", "is_p2p": false}}"#,
                1_790_857_026_000_000_000 + seq * 1_000_000
            )
        };
        let mut entries = vec![call(1, "completed"), call(2, "completed")];
        if *state == "started" {
            entries.push(call(3, state));
        }
        let dump = format!(
            r#"{{"version": "2.5", "pg_config": {{"0": {{"name": "0", "desc": "default_pg",
            "ranks": "[0, 1, 2]"}}}}, "entries": [{}]}}"#,
            entries.join(",")
        );
        let file = folder.path().join(format!("nccl_trace_rank_{rank}"));
        std::fs::write(file, dump).expect("written");
    }
    let hang = ncclscope(&["hang", shown(folder.path())]);
    let said = text(&hang.stdout);
    assert_eq!(hang.status.code(), Some(1), "{said}{}", text(&hang.stderr));
    let first = said.lines().next().unwrap_or("");
    assert!(first.contains("ank 1"), "{said}");
}

/// NCCL's RAS as JSON: rank 1 of three has launched so many operations of AllReduce, others one more.
fn ras_json(second: u32, behind: u64, is_dead: bool) -> String {
    let rank = |rank: u32| {
        let count = if rank == 1 { behind } else { 42 };
        let status = r#""status": {"init_state": 0, "async_error": 0}"#;
        format!(
            r#"{{"rank": {rank}, "host": "10.0.0.1", "pid": {}, "cuda_dev": {rank}, {status},
            "collective_counts": {{"AllReduce": {count}}}}}"#,
            4000 + rank
        )
    };
    let dead = r#"{"rank": 1, "host": "10.0.0.1", "pid": 4001, "cuda_dev": 1,
        "status": {"unresponsive": true, "considered_dead": true}}"#;
    let (ranks, missing) = if is_dead {
        (format!("{},{}", rank(0), rank(2)), dead)
    } else {
        (format!("{},{},{}", rank(0), rank(1), rank(2)), "")
    };
    format!(
        r#"{{"nccl_version": "2.29.1", "timestamp": "2025-12-19 13:06:{second:02}",
        "communicators_count": 1, "communicators": [{{"hash": "0xae94", "secondary_hash": "0x1:0x2",
        "size": 3, "ranks": [{ranks}], "missing_ranks": [{missing}]}}],
        "ras": {{"collection_time_sec": 0.0}}}}"#
    )
}

#[test]
fn an_answer_of_ras_says_who_is_behind_and_two_for_how_long() {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, second) in [("a.json", 0), ("b.json", 50)] {
        std::fs::write(folder.path().join(file), ras_json(second, 41, false)).expect("written");
    }
    let one = ncclscope(&["hang", shown(&folder.path().join("a.json"))]);
    let said = text(&one.stdout);
    assert_eq!(one.status.code(), Some(2), "{said}{}", text(&one.stderr));
    let first = said.lines().next().unwrap_or("");
    assert!(
        first.starts_with("Rank 1 has not made AllReduce, sequence number 42"),
        "{said}"
    );
    let both = ncclscope(&["hang", shown(folder.path()), "--after", "50s"]);
    let said = text(&both.stdout);
    assert_eq!(both.status.code(), Some(1), "{said}");
    assert!(said.contains("for 50"), "{said}");
    let report = ncclscope(&["report", shown(folder.path())]);
    assert!(
        text(&report.stdout).contains("NCCL's RAS"),
        "{}",
        text(&report.stdout)
    );
}

/// Answers as RAS does, once for each of these texts.
fn ras_server(answers: Vec<String>, knows_json: bool) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address").to_string();
    let serve = move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().expect("a client");
            let from = BufReader::new(stream.try_clone().expect("cloned"));
            for line in from.lines() {
                let line = line.expect("a line");
                let reply = match line.as_str() {
                    "VERBOSE STATUS" => answer.as_str(),
                    "SET FORMAT json" if !knows_json => "ERROR: Unknown command SET FORMAT json\n",
                    line if line.starts_with("CLIENT PROTOCOL") => "SERVER PROTOCOL 2\n",
                    _ => "OK\n",
                };
                stream.write_all(reply.as_bytes()).expect("sent");
                if line == "VERBOSE STATUS" {
                    break;
                }
            }
        }
    };
    (address, std::thread::spawn(serve))
}

#[test]
fn ras_is_asked_twice_if_somebody_is_behind() {
    let stands = vec![ras_json(0, 41, false), ras_json(2, 41, false)];
    let (address, server) = ras_server(stands, true);
    let hang = ncclscope(&["hang", &address, "--after", "1s"]);
    let said = text(&hang.stdout);
    assert_eq!(hang.status.code(), Some(1), "{said}{}", text(&hang.stderr));
    assert!(said.starts_with("Rank 1 has not made AllReduce"), "{said}");
    server.join().expect("asked twice");
    // It has caught up.
    let goes_on = vec![ras_json(0, 41, false), ras_json(2, 42, false)];
    let (address, server) = ras_server(goes_on, true);
    let hang = ncclscope(&["hang", &address, "--after", "1s"]);
    assert_eq!(hang.status.code(), Some(2), "{}", text(&hang.stdout));
    server.join().expect("asked twice");
}

#[test]
fn an_older_ras_answers_in_text() {
    let head = "NCCL version 2.26.2 compiled with CUDA 12.6\n\nJob summary\n===========\n\n";
    let table = "Communicators... (0.00s)\n=============\n\n\
        Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n\
        \x20   #  in group  per comm  per node  per comm  in group\n\
        \x20   0         1         1         2         2         2   RUNNING       OK\n\n";
    let (address, server) = ras_server(vec![format!("{head}{table}")], false);
    let hang = ncclscope(&["hang", &address]);
    let said = text(&hang.stderr);
    assert!(said.contains("2 ranks in step"), "{said}");
    server.join().expect("asked");
    // Nobody listens there any more.
    let hang = ncclscope(&["hang", &address]);
    let said = text(&hang.stderr);
    assert!(
        said.contains("hint:") && said.contains("NCCL_RAS_ADDR"),
        "{said}"
    );
    assert_eq!(hang.status.code(), Some(2));
}

#[test]
fn what_ras_knows_decides_if_the_capture_cannot_tell() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ras.json");
    std::fs::write(&file, ras_json(0, 41, true)).expect("written");
    let calm = folder.path().join("calm.json");
    std::fs::write(&calm, ras_json(0, 42, false)).expect("written");
    let hang = ncclscope(&["hang", shown(&calm), "--with", shown(&file), "--json"]);
    let answer: serde_json::Value = serde_json::from_slice(&hang.stdout).expect("JSON");
    crate::schema::keeps_to(include_str!("../../../render/schema/hang-1.json"), &answer);
    assert_eq!(hang.status.code(), Some(2), "{answer}");
    assert_eq!(answer["evidence"].as_array().map(Vec::len), Some(2));
    let hang = ncclscope(&["hang", shown(&calm), "--with", shown(&file)]);
    let said = text(&hang.stdout);
    assert!(said.contains("What each one says"), "{said}");
    // Somebody waits for the dead.
    let waits = ras_json(0, 41, true).replacen("\"AllReduce\": 42", "\"AllReduce\": 41", 1);
    std::fs::write(&file, waits).expect("written");
    let hang = ncclscope(&["hang", shown(&calm), "--with", shown(&file)]);
    let said = text(&hang.stdout);
    assert_eq!(hang.status.code(), Some(1), "{said}");
    assert!(said.starts_with("By NCCL's RAS: Rank 1 is dead"), "{said}");
    // A file of another job decides nothing here.
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/slow_plain");
    let hang = ncclscope(&["hang", shown(&capture), "--with", shown(&file)]);
    let said = text(&hang.stdout);
    assert!(!said.starts_with("By"), "{said}");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("says nothing of this job: none of its processes"),
        "{said}"
    );
}

/// A log of nccl-tests on eight GPUs: 20 µs of latency, and so many GB/s.
fn log(folder: &Path, name: &str, gb_per_s: f64) -> PathBuf {
    let mut log = String::from("# Collective test starting: all_reduce_perf\n");
    for rank in 0..8 {
        log += &format!(
            "#  Rank {rank:2} Group  0 Pid 6899 on host device {rank} [0000:04:00] NVIDIA H200\n"
        );
    }
    for power in 10..=30 {
        let bytes = 1u64 << power;
        let us = 20.0 + bytes as f64 / gb_per_s / 1e3;
        let algbw = bytes as f64 / us / 1e3;
        let side = format!("{us:9.2} {algbw:7.2} {:7.2} 0", 1.75 * algbw);
        log += &format!("{bytes:12} {:12} float sum -1 {side} {side}\n", bytes / 4);
    }
    log += "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 123.456\n";
    let path = folder.join(name);
    std::fs::write(&path, log).expect("written");
    path
}

#[test]
fn two_logs_of_nccl_tests_say_which_is_slower_and_whether_it_is_good() {
    let folder = tempfile::tempdir().expect("a folder");
    let a = log(folder.path(), "a.txt", 200.0);
    let b = log(folder.path(), "b.txt", 150.0);
    let diff = ncclscope(&["diff", shown(&a), shown(&b), "--ceiling", "400GB/s"]);
    let said = text(&diff.stdout);
    assert!(diff.status.success(), "{said}{}", text(&diff.stderr));
    assert!(
        said.starts_with("B is slower than A for large messages (from 4 MiB on): calls take 2"),
        "{said}"
    );
    assert!(said.contains("A reaches 87."), "{said}");
    assert!(said.contains("B reaches 65."), "{said}");
    assert!(
        said.contains("average bus bandwidth 123.456 GB/s as printed"),
        "{said}"
    );
    let json = ncclscope(&[
        "diff",
        shown(&a),
        shown(&b),
        "--json",
        "--ceiling",
        "400GB/s",
    ]);
    let answer: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let schema = include_str!("../../../render/schema/bench-diff-1.json");
    crate::schema::keeps_to(schema, &answer);
    for (a, b, status) in [(&a, &b, 1), (&b, &a, 0), (&a, &a, 0)] {
        let diff = ncclscope(&["diff", shown(a), shown(b), "--fail-on", "slower=5%"]);
        assert_eq!(diff.status.code(), Some(status), "{}", text(&diff.stdout));
    }
    let low = ncclscope(&["diff", shown(&a), shown(&b), "--ceiling", "100GB/s"]);
    let above = "More than 100 GB/s was reached, so that is not the ceiling of these runs.";
    assert!(
        text(&low.stdout).replace("\n    ", " ").contains(above),
        "{}",
        text(&low.stdout)
    );
    // Logs from before nccl-tests printed its program: the second could be of AllGather or AlltoAll.
    let unnamed = std::fs::read_to_string(&a).expect("read");
    let unnamed = unnamed.replace("Collective test starting", "x");
    for (log, expected) in [
        (unnamed.clone(), "A reaches 87."),
        (
            unnamed.replace("sum", "none"),
            "reach of the ceiling is not known",
        ),
    ] {
        let old = folder.path().join("old.txt");
        std::fs::write(&old, log).expect("written");
        let diff = ncclscope(&["diff", shown(&old), shown(&old), "--ceiling", "400GB/s"]);
        let said = text(&diff.stdout).replace("\n    ", " ").replace('\n', " ");
        assert!(said.contains(expected), "{said}");
    }
    let same = ncclscope(&["diff", shown(&a), shown(&a)]);
    assert!(text(&same.stdout).starts_with("Nothing shows that B is slower or faster"));
    // As a capture, too.
    let report = ncclscope(&["report", shown(&a)]);
    let page = text(&report.stdout);
    assert!(
        page.contains("This is a file of nccl-tests."),
        "{page}{}",
        text(&report.stderr)
    );
    // A log and something else.
    let file = folder.path().join("notes");
    std::fs::write(&file, "x").expect("written");
    let mixed = ncclscope(&["diff", shown(&a), shown(&file)]);
    let said = text(&mixed.stderr);
    assert!(
        said.contains("hint:") && mixed.status.code() == Some(2),
        "{said}"
    );
}

#[test]
fn a_file_of_no_tool_is_an_error_with_a_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let file: PathBuf = folder.path().join("notes.json");
    std::fs::write(&file, "{\"a\": 1}").expect("written");
    for verb in ["report", "hang", "view"] {
        let output = ncclscope(&[verb, shown(&file)]);
        let said = text(&output.stderr);
        assert!(said.contains("error:") && said.contains("hint:"), "{said}");
        assert_eq!(output.status.code(), Some(2), "{said}");
    }
}

/// A folder of recorded jobs.
fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data")
        .join(name);
    shown(&path).to_owned()
}

#[test]
fn a_merged_trace_does_not_replace_the_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    traces(folder.path());
    let mut all = std::fs::read_dir(folder.path()).expect("read").flatten();
    let trace = all.next().expect("a trace").path();
    let before = std::fs::read(&trace).expect("read");
    let run = data("fsdp2_traced");
    let merge = ncclscope(&["merge", &run, shown(&trace), "-o", shown(&trace)]);
    let said = text(&merge.stderr);
    assert!(
        !merge.status.success() && said.contains("would replace the trace itself"),
        "{said}"
    );
    // A folder that is not there leaves nothing behind either.
    let away = folder.path().join("away/merged.json");
    let merge = ncclscope(&["merge", &run, shown(&trace), "-o", shown(&away)]);
    let said = text(&merge.stderr);
    assert!(
        !merge.status.success() && said.contains("its folder is not there"),
        "{said}"
    );
    assert_eq!(std::fs::read(&trace).expect("read"), before);
}

#[test]
fn a_trace_of_the_same_run_is_merged_and_another_one_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (given, merged) = (folder.path().join("traces"), folder.path().join("merged"));
    std::fs::create_dir(&given).expect("made");
    traces(&given);
    let run = data("fsdp2_traced");
    let merge = ncclscope(&["merge", &run, shown(&given), "-o", shown(&merged)]);
    let said = text(&merge.stdout);
    assert!(merge.status.success(), "{said}{}", text(&merge.stderr));
    assert_eq!(said.matches("collectives joined").count(), 2, "{said}");
    // It is whole JSON, with the trace's own events and ours.
    let mut whole = String::new();
    let file = merged.join("fsdp2_traced.0.merged.json.gz");
    let file = std::fs::File::open(file).expect("written");
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut whole)
        .expect("packed");
    let whole: serde_json::Value = serde_json::from_str(&whole).expect("JSON");
    let events = whole["traceEvents"].as_array().expect("events");
    let of = |category: &str| {
        events
            .iter()
            .filter(|event| event["cat"] == category)
            .count()
    };
    assert!(
        of("kernel") > 0 && of("nccl") > 0,
        "{} events",
        events.len()
    );
    // Kernels of both tools are the same ones: they overlap on one clock.
    let spans = |is: &dyn Fn(&serde_json::Value) -> bool| -> Vec<(f64, f64)> {
        let found = events
            .iter()
            .filter(|event| event["ph"] == "X" && is(event));
        let mut spans: Vec<(f64, f64)> = found
            .map(|event| {
                let ts = event["ts"].as_f64().expect("a time");
                (ts, ts + event["dur"].as_f64().unwrap_or(0.0))
            })
            .collect();
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        spans
    };
    let theirs = spans(&|event| {
        event["cat"] == "kernel"
            && event["name"]
                .as_str()
                .is_some_and(|name| name.starts_with("nccl"))
    });
    let ours = spans(&|event| event["cat"] == "nccl" || event["cat"] == "nccl_wait");
    let overlaps = |span: &&(f64, f64)| ours.iter().any(|own| own.0 < span.1 && span.0 < own.1);
    let beside = theirs.iter().filter(overlaps).count();
    assert!(
        beside * 10 > theirs.len() * 9,
        "{beside} of {}",
        theirs.len()
    );
    // Another job.
    let other = data("ddp4");
    let merge = ncclscope(&["merge", &other, shown(&given), "-o", shown(&merged)]);
    let said = text(&merge.stderr);
    assert_eq!(merge.status.code(), Some(2), "{said}");
    assert!(
        said.contains("is not joined") && said.contains("another run"),
        "{said}"
    );
}

/// The most memory that a report of this file takes, bytes.
fn peak(path: &Path) -> u64 {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .args(["report", shown(path)])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("started");
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    // It only grows, so the last look counts.
    while child.try_wait().expect("waited").is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        most = most.max(kib.unwrap_or(0) << 10);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    most
}

#[test]
fn a_large_trace_takes_no_more_memory_than_what_is_kept_of_it() {
    const FRAMES: usize = 200_000;
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, frames: usize| {
        let path = folder.path().join(name);
        let mut out = std::io::BufWriter::new(std::fs::File::create(&path).expect("made"));
        let kernel = r#"{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)",
            "pid": 0, "tid": 7, "ts": 1, "dur": 9, "args": {"device": 0, "stream": 7, "correlation": 1}}"#;
        write!(out, r#"{{"schemaVersion": 1, "traceEvents": [{kernel}"#).expect("written");
        for frame in 0..frames {
            write!(
                out,
                r#",
{{"ph": "X", "cat": "python_function", "name": "torch/nn/modules/module.py(1751): _call_impl_{frame}",
 "pid": 4000, "tid": 77, "ts": {frame}.123, "dur": 40.5,
 "args": {{"Python parent id": 12, "Python module id": 3, "Ev Idx": {frame}}}}}"#
            )
            .expect("written");
        }
        write!(out, "]}}").expect("written");
        out.flush().expect("written");
        path
    };
    let (small, large) = (write("small.json", 0), write("large.json", FRAMES));
    let length = std::fs::metadata(&large).expect("there").len();
    let (of_small, of_large) = (peak(&small), peak(&large));
    assert!(length > 44_000_000, "{length}");
    assert!(
        of_small > 0 && of_large < of_small + (16 << 20),
        "{of_small} and {of_large}"
    );
}

/// Figures that may be 0 in a report on a file of another tool, because they say how many of something the
/// file has, how much of its time something took, or which number somebody has. All others are null: no file
/// of another tool knows that there was none.
const MAY_BE_ZERO: [&str; 35] = [
    // How much is here: it was counted in the file.
    "completeness.timed",
    "operations[].matched",
    "operations[].on_idle_stream",
    "operations[].timed",
    "ranks.rows[].p2p",
    "ranks.rows[].timed",
    "timeline.",
    // No more than this can be proved.
    "completeness.absent[].calls_at_least",
    "completeness.absent[].calls_begun",
    "completeness.absent[].communicators[].calls_at_least",
    "completeness.missing_at_least",
    // Percentiles are exact.
    "operations[].percentile_error",
    // What ncclscope compared.
    "arrivals.differing",
    "arrivals.ranks[].cost_rank_us",
    "arrivals.ranks[].device",
    "arrivals.ranks[].inherited",
    "arrivals.ranks[].last",
    "arrivals.ranks[].rank",
    "arrivals.ranks[].wait_rank_us",
    "clocks.hosts[].operations",
    "clocks.hosts[].windows",
    "streams.common_us",
    "streams.operations",
    // Numbers of ranks and GPUs begin with 0.
    "communicators[].members[].device",
    "communicators[].members[].global_rank",
    "communicators[].members[].rank",
    "ranks.rows[].device",
    "ranks.rows[].rank",
    // Of the time that the file shows. The recorder's windows are none of its own.
    "functions[].parts_us.",
    "parts[].parts_us.",
    "streams.communication[].",
    "streams.kernels",
    "streams.ranks[].",
    "streams.timed",
    "streams.yielded",
];

/// The places of all numbers that are 0.
fn zeros(value: &serde_json::Value, at: &str, found: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Object(members) => {
            for (key, value) in members {
                let dot = if at.is_empty() { "" } else { "." };
                zeros(value, &format!("{at}{dot}{key}"), found);
            }
        }
        serde_json::Value::Array(items) => {
            for value in items {
                zeros(value, &format!("{at}[]"), found);
            }
        }
        _ if value.as_f64() == Some(0.0) => {
            found.insert(at.to_owned());
        }
        _ => {}
    }
}

/// A file of each kind, and two traces of torch.profiler.
fn one_of_each(to: &Path) -> Vec<PathBuf> {
    traces(to);
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut files = vec![to.to_owned()];
    for kind in ["flight", "inspector", "kineto", "nccl_tests", "nsys", "ras"] {
        let entries = std::fs::read_dir(corpus.join(kind)).expect("seeds");
        files.extend(entries.map(|entry| entry.expect("a seed").path()));
    }
    assert!(files.len() > 6);
    files
}

#[test]
fn what_a_file_cannot_know_is_never_zero() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in one_of_each(folder.path()) {
        let output = ncclscope(&["report", "--json", shown(&file)]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let mut found = std::collections::BTreeSet::new();
        zeros(&report, "", &mut found);
        found.retain(|at| !MAY_BE_ZERO.iter().any(|known| at.starts_with(known)));
        assert!(found.is_empty(), "{}: {found:?}", file.display());
        let of_graphs = ["graph_launches", "in_graphs"];
        for name in of_graphs {
            assert!(report["completeness"][name].is_null(), "{name}");
        }
        // No advice to record otherwise.
        assert_eq!(report["completeness"]["remedies"], serde_json::json!({}));
        let name = file.display().to_string();
        let timeline = &report["timeline"];
        // The flight recorder has no lengths of calls, and RAS counts collectives alone.
        if name.contains("/flight/") {
            assert!(
                timeline["nccl"].is_null() && timeline["bytes"].is_object(),
                "{name}"
            );
        }
        assert_eq!(
            report["ranks"]["rows"][0]["p2p"].is_null(),
            name.contains("/ras/"),
            "{name}"
        );
    }
    // These traces have no sizes.
    let output = ncclscope(&["report", "--json", shown(folder.path())]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(report["timeline"]["bytes"].is_null());
    assert!(report["timeline"]["nccl"].is_object());
}

#[test]
fn an_export_leaves_empty_what_a_file_cannot_know() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = one_of_each(folder.path());
    for (file, number) in files.iter().zip(0..) {
        let csv = folder.path().join(format!("{number}.csv"));
        let output = ncclscope(&["export", shown(file), "-o", shown(&csv)]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let csv = std::fs::read_to_string(csv).expect("written");
        let mut lines = csv.lines();
        let names: Vec<&str> = lines.next().expect("names").split(',').collect();
        for line in lines {
            for (name, value) in names.iter().zip(line.split(',')) {
                let may_be_zero = [
                    "process",
                    "launcher_rank",
                    "device",
                    "ticket",
                    "rank",
                    "root",
                    "peer",
                    "seq",
                    "group_id",
                    "operation_id",
                    "communicator_name",
                ];
                let known = may_be_zero.contains(name) || !matches!(value, "0" | "false");
                let is_open = *name == "finished";
                assert!(known || is_open, "{}: {name} is {value}", file.display());
            }
        }
    }
}
