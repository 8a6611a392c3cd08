//! Files of other tools, as a user meets them.

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
