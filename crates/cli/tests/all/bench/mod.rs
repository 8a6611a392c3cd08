//! `ncclscope bench` over processes that talk to a mock of libcuda and libnccl (`examples/mock_gpu.rs`):
//! data, counts, skew, launchers, and every way in which a rank can fail.

mod ends;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn mock() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_ncclscope"));
    let mock = program.with_file_name("examples").join("libmock_gpu.so");
    assert!(
        mock.is_file(),
        "expected {}, which `cargo build -p ncclscope --examples` builds",
        mock.display()
    );
    mock
}

/// `ncclscope bench` with these arguments in `folder`, on mock GPUs.
fn bench(folder: &Path, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ncclscope"));
    command.arg("bench").args(args.split_whitespace());
    command.arg("--nccl").arg(mock()).arg("--cuda").arg(mock());
    for name in [
        "RANK",
        "WORLD_SIZE",
        "SLURM_PROCID",
        "OMPI_COMM_WORLD_RANK",
        "PMI_RANK",
    ] {
        command.env_remove(name);
    }
    command.current_dir(folder).env("TMPDIR", folder);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn done(command: &mut Command) -> (Output, String, String) {
    let output = command.output().expect("started");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    (output, out, err)
}

fn table(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("t.json")).expect("a table");
    as_the_schema_says(&text)
}

/// A table, held to its schema.
fn as_the_schema_says(text: &str) -> Value {
    let table = serde_json::from_str(text).expect("JSON");
    crate::schema::keeps_to(
        include_str!("../../../../bench/schema/bench-1.json"),
        &table,
    );
    table
}

/// One row of the table of calls.
#[derive(Debug)]
struct Call {
    function: String,
    mode: String,
    in_place: bool,
    iteration: u64,
    rank: u32,
    skew_ns: Option<i64>,
    time_ns: Option<i64>,
}

fn calls(folder: &Path) -> Vec<Call> {
    let file = std::fs::File::open(folder.join("c.parquet")).expect("a table of calls");
    let reader = SerializedFileReader::new(file).expect("Parquet");
    let rows = reader.get_row_iter(None).expect("rows");
    rows.map(|row| {
        let row = row.expect("a row");
        assert_eq!(row.get_string(0).expect("run"), "one");
        Call {
            function: row.get_string(1).expect("function").clone(),
            in_place: row.get_bool(5).expect("in_place"),
            mode: row.get_string(6).expect("mode").clone(),
            iteration: row.get_ulong(8).expect("iteration"),
            rank: row.get_uint(9).expect("rank"),
            skew_ns: row.get_long(11).ok(),
            time_ns: row.get_long(12).ok(),
        }
    })
    .collect()
}

const LENIENT: &str = "--max-skew 60s --timeout 60s --json t.json --parquet c.parquet --run one";

#[test]
fn data_of_every_function_is_right_in_both_placements() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = format!("all --sizes 1K,300000 -n 3 -w 1 --root 2 {LENIENT}");
    let (output, out, err) = done(&mut bench(folder.path(), &args));
    assert!(output.status.success(), "{err}");
    assert!(out.contains("# Out of bounds values : 0 OK"), "{out}");
    assert!(
        out.contains("# AlltoAll, Scatter: groups of ncclSend and ncclRecv in this NCCL"),
        "{out}"
    );
    let table = table(folder.path());
    let rows = table["results"].as_array().expect("rows");
    assert_eq!(rows.len(), 20);
    for row in rows {
        let both = !matches!(row["function"].as_str(), Some("SendRecv" | "AlltoAll"));
        assert_eq!(row["in_place"].is_null(), !both, "{row}");
        let sides = [&row["out_of_place"], &row["in_place"]];
        for side in sides.into_iter().filter(|side| !side.is_null()) {
            assert_eq!(
                (&side["nwrong"], &side["calls"]),
                (&0.into(), &3.into()),
                "{row}"
            );
            let time = side["time"].as_f64().expect("timed");
            assert!(
                time > 0.0 && time <= side["max_us"].as_f64().expect("timed"),
                "{row}"
            );
            // GB/s of the size that stands beside it.
            let algbw = row["size"].as_f64().expect("a size") / time / 1e3;
            assert!(
                (side["alg_bw"].as_f64().expect("moved") / algbw - 1.0).abs() < 1e-9,
                "{row}"
            );
        }
    }
    // The text that was printed is read as the same table.
    std::fs::write(folder.path().join("t.txt"), &out).expect("written");
    let mut read = Command::new(env!("CARGO_BIN_EXE_ncclscope"));
    read.args(["bench", "--read", "t.txt", "--json", "-"])
        .current_dir(folder.path());
    let (_, again, err) = done(&mut read);
    assert!(!again.is_empty(), "{err}");
    let again = as_the_schema_says(&again);
    for (row, again) in rows.iter().zip(again["results"].as_array().expect("rows")) {
        for field in ["experiment_name", "size", "count", "type", "redop", "root"] {
            assert_eq!(row[field], again[field], "{field}");
        }
        let (time, again) = (
            &row["out_of_place"]["p95_us"],
            &again["out_of_place"]["p95_us"],
        );
        let ratio = time.as_f64().expect("timed") / again.as_f64().expect("read");
        assert!((ratio - 1.0).abs() < 0.01, "{time} {again}");
    }
    // What the text does not have is not 0 in what is read from it.
    let side = &again["results"][0]["out_of_place"];
    assert!(
        side["calls"].is_null() && side["gpu_us"].is_null(),
        "{side}"
    );
    assert!(side["skew_us"].is_number(), "{side}");
}

#[test]
fn reductions_are_exact_in_narrow_datatypes() {
    let folder = tempfile::tempdir().expect("a folder");
    for (datatype, op) in [
        ("f8e4m3", "sum"),
        ("bfloat16", "prod"),
        ("half", "sum"),
        ("int8", "max"),
        ("double", "min"),
    ] {
        let args = format!(
            "all_reduce,reduce_scatter -b 3000 -n 1 -w 0 --gpus 3 -d {datatype} -o {op} {LENIENT}"
        );
        let (output, out, err) = done(&mut bench(folder.path(), &args));
        assert!(output.status.success(), "{datatype} {op}: {out}{err}");
        assert!(out.contains(" : 0 OK"), "{datatype} {op}: {out}");
    }
}

#[test]
fn every_call_that_nccl_got_is_a_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let counts = folder.path().join("counts");
    std::fs::create_dir(&counts).expect("made");
    let args =
        format!("all_reduce,gather -b 4K -n 4 -w 2 --group 3 --gpus 3 --hostid-per 2 {LENIENT}");
    let (output, _, err) = done(bench(folder.path(), &args).env("MOCK_COUNTS", &counts));
    assert!(output.status.success(), "{err}");
    let calls = calls(folder.path());
    for rank in 0..3 {
        let made = std::fs::read_to_string(counts.join(rank.to_string())).expect("counts");
        let mut rows: BTreeMap<&str, u64> = BTreeMap::new();
        for call in calls.iter().filter(|call| call.rank == rank) {
            *rows.entry(&call.function).or_default() += 1;
        }
        // One call to begin with, 2 and 4 groups of 3, and the check; in two placements.
        assert_eq!(
            rows,
            BTreeMap::from([("AllReduce", 2 * 20), ("Gather", 2 * 20)])
        );
        for (function, count) in rows {
            assert!(made.contains(&format!("{function} {count}\n")), "{made}");
        }
        assert!(
            made.contains(&format!("host ncclscope-bench-{}\n", rank / 2)),
            "{made}"
        );
    }
    let timed = calls
        .iter()
        .filter(|c| c.mode == "single" && c.rank == 1 && !c.in_place && c.function == "Gather");
    let iterations: Vec<u64> = timed.map(|c| c.iteration).collect();
    assert_eq!(iterations, (0..12).collect::<Vec<u64>>());
    for call in &calls {
        assert_eq!(call.time_ns.is_some(), call.mode == "single", "{call:?}");
    }
}

#[test]
fn graphs_and_back_to_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = format!(
        "all_gather -b 4K -n 5 -w 1 --graph 4 --mode back-to-back --placement out --gpus 2 {LENIENT}"
    );
    let (output, out, err) = done(bench(folder.path(), &args).env("MOCK_US", "2000"));
    assert!(output.status.success(), "{err}");
    assert!(
        out.contains("back-to-back mode, CUDA graphs of 4; 5 iterations"),
        "{out}"
    );
    let table = table(folder.path());
    let side = &table["results"][0]["out_of_place"];
    assert_eq!(
        (&side["calls"], &side["p50_us"]),
        (&20.into(), &Value::Null)
    );
    // The GPU takes 2 ms for each, and all of its time lies between the first call and the end.
    let figure = |name: &str| side[name].as_f64().expect("timed");
    assert!(figure("gpu_us") >= 2000.0, "{side}");
    assert!(figure("time") >= 2000.0, "{side}");
    // The host launches 4 calls at once, and waits for none.
    assert!(figure("host_us") < 1000.0, "{side}");
    let calls = calls(folder.path());
    let of = |mode: &str| {
        calls
            .iter()
            .filter(|call| call.mode == mode && call.rank == 1)
            .count()
    };
    assert_eq!(
        (of("warmup"), of("back-to-back"), of("check")),
        (1 + 4, 20, 1)
    );
}

#[test]
fn a_stress_run_counts_its_calls_and_their_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = format!(
        "all_reduce,broadcast -b 4K -n 2 -w 1 --stress=40 --stress-size 64K --gpus 2 {LENIENT}"
    );
    let (output, out, err) = done(bench(folder.path(), &args).env("MOCK_US", "500"));
    assert!(output.status.success(), "{err}");
    let table = table(folder.path());
    let stress = &table["stress"][1];
    assert_eq!(stress["function"], "Broadcast");
    assert_eq!(stress["operations"], 40);
    assert_eq!(stress["bytes"], 40 * 65536);
    let figure = |name: &str| stress[name].as_f64().expect("a number");
    // Each takes the mock's GPU 0.5 ms, one after the other.
    assert!(figure("time_s") >= 0.02, "{stress}");
    let rate = 40.0 / figure("time_s");
    assert!(
        (figure("operations_per_s") / rate - 1.0).abs() < 1e-9,
        "{stress}"
    );
    assert!(
        out.contains("# Stress broadcast     : 40 operations of 65536 bytes in "),
        "{out}"
    );
    assert!(out.contains("# Peak all_reduce      : busbw "), "{out}");
    assert!(
        out.contains("# All sizes, out-of-place: time (us) and busbw (GB/s)"),
        "{out}"
    );
    assert_eq!(table["peaks"].as_array().map(Vec::len), Some(2));
    let made = calls(folder.path());
    let stressed = made.iter().filter(|call| call.mode == "stress");
    assert_eq!(stressed.clone().count(), 2 * 2 * 40);
    assert!(stressed.clone().all(|call| call.time_ns.is_none()));
}

#[test]
fn starts_are_repeated_whole_and_their_spread_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = "all_reduce -b 4K -n 20 -w 1 --starts 3 --gpus 2 --max-skew 60s --json t.json";
    let (output, out, err) = done(&mut bench(folder.path(), args));
    assert!(output.status.success(), "{err}");
    let table = table(folder.path());
    let rows = table["starts"].as_array().expect("starts");
    assert_eq!(rows.len(), 2, "both placements: {table}");
    for row in rows {
        let means: Vec<f64> = row["means_us"]
            .as_array()
            .expect("means")
            .iter()
            .filter_map(Value::as_f64)
            .collect();
        assert_eq!(means.len(), 3, "{row}");
        let mean = means.iter().sum::<f64>() / 3.0;
        assert!((row["mean_us"].as_f64().expect("it") / mean - 1.0).abs() < 1e-9);
        assert!(
            row["within_share"]
                .as_f64()
                .is_some_and(|share| share > 0.0),
            "{row}"
        );
    }
    assert_eq!(table["results"][0]["out_of_place"]["calls"], 60);
    assert!(out.contains("# Over 3 starts: mean time"), "{out}");
    assert_eq!(
        out.matches("# Collective test starting").count(),
        1,
        "{out}"
    );
    let refused = bench(folder.path(), "--starts 3")
        .envs([("RANK", "0"), ("WORLD_SIZE", "2")])
        .output()
        .expect("started");
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("found those of a launcher"),
        "{}",
        text(&refused.stderr)
    );
}

#[test]
fn a_time_limit_gives_all_ranks_the_same_number_of_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = format!("all_reduce -b 1K --time 400ms --placement out --gpus 3 {LENIENT}");
    let (output, _, err) = done(&mut bench(folder.path(), &args));
    assert!(output.status.success(), "{err}");
    let calls = calls(folder.path());
    let of = |rank: u32| {
        calls
            .iter()
            .filter(move |call| call.mode == "single" && call.rank == rank)
    };
    let number = of(0).count();
    assert!(number > 5, "{number}");
    assert!((1..3).all(|rank| of(rank).count() == number));
    let spent: i64 = of(0).filter_map(|call| call.time_ns).sum();
    assert!(spent < 10_000_000_000, "{spent} ns of 400 ms");
}

#[test]
fn calls_that_ranks_start_apart_are_set_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = "all_reduce -b 1K -n 3 -w 0 --placement out --gpus 2 --max-skew 20ms \
                --json t.json --parquet c.parquet --run one";
    let (output, out, err) = done(bench(folder.path(), args).env("MOCK_LATE", "1:100000"));
    assert!(output.status.success(), "{err}");
    let side = table(folder.path())["results"][0]["out_of_place"].clone();
    assert_eq!(
        (&side["skewed"], &side["calls"], &side["time"]),
        (&3.into(), &0.into(), &Value::Null),
        "{out}"
    );
    assert!(
        side["skew_us"].as_f64().expect("a skew") > 20_000.0,
        "{side}"
    );
    assert!(
        out.contains("; calls with a start skew above 20000 us set apart"),
        "{out}"
    );
    assert!(
        err.contains("every call was set apart, its ranks started more than 20000 us"),
        "{err}"
    );
    for call in calls(folder.path())
        .iter()
        .filter(|call| call.mode == "single")
    {
        let skew = call.skew_ns.expect("timed");
        assert!(
            if call.rank == 1 {
                skew > 20_000_000
            } else {
                skew == 0
            },
            "{call:?}"
        );
    }
}

#[test]
fn a_function_or_size_that_is_named_twice_is_measured_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = format!(
        "all_reduce,gather,AllReduce --sizes 1K,4K,1024 -n 1 --placement out --gpus 2 {LENIENT}"
    );
    let (output, _, err) = done(&mut bench(folder.path(), &args));
    assert!(output.status.success(), "{err}");
    let rows = table(folder.path())["results"].clone();
    let row = |row: &Value| format!("{} {}", row["experiment_name"], row["size"]);
    let rows: Vec<String> = rows.as_array().expect("rows").iter().map(row).collect();
    assert_eq!(
        rows,
        [
            "\"all_reduce\" 1024",
            "\"all_reduce\" 4096",
            "\"gather\" 1024",
            "\"gather\" 4096"
        ]
    );
}

#[test]
fn wrong_data_is_counted_and_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    // The sixth call is the check: one to begin with and four timed ones come before.
    let args = "all_reduce -b 1K -n 4 -w 0 --placement out --max-skew 60s";
    let (output, out, _) = done(bench(folder.path(), args).env("MOCK_WRONG", "3:6"));
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(out.contains("# Out of bounds values : 1 FAILED"), "{out}");
}

#[test]
fn one_gpu_is_told_to_communicate_with_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let (output, out, err) =
        done(bench(folder.path(), &format!("-b 1M -n 2 {LENIENT}")).env("MOCK_GPUS", "1"));
    assert!(output.status.success(), "{err}");
    assert!(
        err.contains(
            "one rank: NCCL copies within the GPU and communicates with nobody, so busbw is 0"
        ),
        "{err}"
    );
    assert!(out.contains("# Avg bus bandwidth    : 0\n"), "{out}");
}

/// Two processes as torchrun starts them; their outputs.
fn launched(folder: &Path, args: [&str; 2]) -> [(Output, String, String); 2] {
    launched_with(folder, args, &[])
}

fn launched_with(
    folder: &Path,
    args: [&str; 2],
    env: &[(&str, &str)],
) -> [(Output, String, String); 2] {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .expect("a port")
        .port();
    let start = |rank: usize| {
        let mut command = bench(folder, args[rank]);
        let port = port.to_string();
        command
            .args(["--port", &port])
            .env("RANK", rank.to_string())
            .env("LOCAL_RANK", rank.to_string());
        command
            .env("WORLD_SIZE", "2")
            .env("MASTER_ADDR", "127.0.0.1")
            .envs(env.iter().copied());
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started")
    };
    [start(0), start(1)].map(|child| {
        let output = child.wait_with_output().expect("ended");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        (output, out, err)
    })
}

#[test]
fn ranks_of_a_launcher_meet_at_rank_0() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = "broadcast,sendrecv_pairs -b 1K -e 4K -f 4 -n 2 --max-skew 60s";
    let [(first, out, err), (second, nothing, other)] = launched(folder.path(), [args; 2]);
    assert!(
        first.status.success() && second.status.success(),
        "{err}{other}"
    );
    assert!(
        out.contains("# 2 ranks on 1 host") && out.contains("0 OK"),
        "{out}"
    );
    let rows = out.lines().filter(|line| line.contains(" float "));
    assert_eq!(rows.count(), 4, "{out}");
    assert_eq!(nothing, "");
}

#[test]
fn variables_of_a_launcher_that_can_not_be_are_no_job_of_our_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = bench(folder.path(), "-b 1K -n 1 --max-skew 60s");
    command.env("RANK", "2").env("WORLD_SIZE", "2");
    let (output, out, err) = done(&mut command);
    assert_eq!(output.status.code(), Some(2), "{out}");
    assert!(
        err.contains(
            "expected a rank in RANK and a larger number of ranks in WORLD_SIZE, \
             found `2` and `2`\n  hint: "
        ),
        "{err}"
    );
    let (output, _, err) = done(command.args(["--gpus", "2"]));
    assert!(output.status.success(), "{err}");
}

#[test]
fn ranks_with_other_options_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let [(first, _, err), (second, ..)] = launched(
        folder.path(),
        ["broadcast -b 1K -n 2", "broadcast -b 1K -n 3"],
    );
    assert_eq!(first.status.code(), Some(2), "{err}");
    assert!(err.contains("rank 1 on "), "{err}");
    assert!(err.contains("--iters is 3 there and 2 on rank 0"), "{err}");
    assert!(!second.status.success());
}

#[test]
fn what_can_not_begin_is_told_with_the_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    for (gpus, args, says) in [
        (
            "0",
            "",
            "the CUDA driver finds no GPU\n  hint: nvidia-smi -L",
        ),
        ("4", "--gpus 5", "expected 5 GPUs (--gpus), found 4"),
        ("4", "--root 4", "--root 4 is none of the ranks 0 to 3"),
        (
            "3",
            "sendrecv_pairs",
            "sendrecv_pairs needs an even number of ranks, found 3",
        ),
        (
            "4",
            "-b 2K -e 1K",
            "the first size, 2048 bytes (-b), is larger than the last, 1024 (-e)",
        ),
        ("4", "-b many", "`many` is not a size"),
        ("4", "-b 0", "a call of no bytes moves nothing"),
        (
            "4",
            "-b 3",
            "no size is large enough: one element of float has 4 bytes",
        ),
        (
            "4",
            "-b 1K --json nowhere/t.json",
            "`nowhere/t.json` can't be written: No such file",
        ),
        (
            "4",
            "-b 1K --parquet nowhere/c.parquet",
            "the table of calls `nowhere/c.parquet`: No such file",
        ),
        ("4", "all_reduced", "expected one of all_reduce, all_gather"),
        ("4", "-d float32", "expected one of int8, uint8"),
    ] {
        let (output, out, err) = done(bench(folder.path(), args).env("MOCK_GPUS", gpus));
        assert_eq!(output.status.code(), Some(2), "{args}: {out}{err}");
        assert!(err.contains(says), "{args}: {err}");
        assert!(!out.contains("(elements)"), "{args}: measured first: {out}");
    }
}

#[test]
fn a_library_that_is_none_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ncclscope"));
    command
        .args([
            "bench",
            "--nccl",
            "/nowhere/libnccl.so.2",
            "--gpus",
            "2",
            "--cuda",
        ])
        .arg(mock());
    let (output, _, err) = done(command.env("TMPDIR", folder.path()));
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(
        err.contains("NCCL can't be opened at `/nowhere/libnccl.so.2`"),
        "{err}"
    );
    assert!(
        err.contains("rank 0 (pid ") || err.contains("rank 1 (pid "),
        "{err}"
    );
}

#[test]
fn sizes_too_small_to_share_are_left_out_and_said_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let (output, _, err) = done(&mut bench(
        folder.path(),
        &format!("all_gather --sizes 32,1K -n 1 {LENIENT}"),
    ));
    assert!(output.status.success(), "{err}");
    let left_out =
        "AllGather of 32 bytes: less than 16 bytes, or one element, for each of 4 ranks; left out";
    assert!(err.contains(left_out), "{err}");
    assert_eq!(
        table(folder.path())["results"].as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
fn judges_counter_saw_every_call_that_bench_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let mock = mock().display().to_string();
    let mut judge = Command::new(env!("CARGO_BIN_EXE_ncclscope"));
    let args = "judge --work bench --pairs 1 --case grouped --only --plugin mine=anything \
                --check-counter --json j.json --";
    judge.args(args.split(' '));
    judge.args("all --sizes 1K --gpus 2 -n 3 -w 1 --max-skew 60s --nccl".split(' '));
    judge.args([&mock, "--cuda", &mock]);
    judge
        .current_dir(folder.path())
        .env("TMPDIR", folder.path());
    let (output, out, err) = done(&mut judge);
    assert!(output.status.success(), "{out}{err}");
    let text = std::fs::read_to_string(folder.path().join("j.json")).expect("a report");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    crate::schema::keeps_to(
        include_str!("../../../../judge/schema/judge-1.json"),
        &report,
    );
    let notes = report["notes"].as_array().expect("notes");
    // The mock has no AlltoAll and no Scatter, and nobody has a SendRecv.
    assert_eq!(notes.len(), 7, "{notes:?}");
    for note in notes {
        let note = note.as_str().expect("text");
        let numbers: Vec<u64> = note
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        // One call to begin with, 1 and 3 groups of 8, and the check; 2 ranks; in two placements, or the four
        // pieces of AlltoAll, Scatter in two placements, and SendRecv of both kinds.
        let calls = 2 * (1 + 4 * 8 + 1);
        let expected = if note.contains("AlltoAll, Scatter, SendRecv") {
            vec![(2 + 2 + 2) * calls; 3]
        } else {
            vec![2 * calls; 2]
        };
        assert_eq!(numbers, expected, "{note}");
    }
    // What the plugin left is none of it.
    let row = &report["completeness"][0];
    assert_eq!((&row["found"], &row["matched"]), (&0.into(), &0.into()));
    // Where every run fails there is nothing to report.
    judge.args(["--cuda", "nowhere"]);
    let (output, out, _) = done(&mut judge);
    assert_eq!(output.status.code(), Some(2), "{out}");
}
