//! Time in MPI, from a program that has loaded an MPI library to the report.

use crate::run::place::{stderr, RunFolder};
use crate::run::sampler::run;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Builds a library of C into the folder.
fn build(place: &RunFolder, source: &str, name: &str, options: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let folder = place.path().display();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-pthread", "-o"])
        .arg(place.path().join(name))
        .arg(source)
        .args(options)
        .args([format!("-L{folder}"), format!("-Wl,-rpath,{folder}")])
        .status();
    assert!(built.expect("there is a cc").success());
}

#[test]
fn time_in_mpi_is_in_every_output() {
    let place = RunFolder::new();
    let soname = "-Wl,-soname,libmpi.so.40";
    build(
        &place,
        "../recorder/tests/all/mpi/library.c",
        "libmpi.so.40",
        &[soname],
    );
    build(
        &place,
        "tests/all/run/mpi.c",
        "libcalls.so",
        &["-l:libmpi.so.40"],
    );
    let many = "ranks 2\nrepeat 100 {\nall_reduce 1MiB\nsleep 20ms\n}\n";
    fs::write(place.path().join("many"), many).expect("written");
    let play = "LD_PRELOAD=$PWD/libcalls.so \"$FAKE\" play many";
    let done = run(&place, play).output().expect("run");
    assert!(done.status.success(), "{}", stderr(&done));

    let out = |args: &[&str]| {
        let done = place.ncclscope(args).output().expect("run");
        assert!(done.status.success(), "{}", stderr(&done));
        String::from_utf8(done.stdout).expect("UTF-8")
    };
    let json: serde_json::Value =
        serde_json::from_str(&out(&["report", "c", "--json"])).expect("JSON");
    let rows = json["mpi"]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2, "{rows:#?}");
    for (rank, row) in rows.iter().enumerate() {
        assert_eq!(row["rank"], rank);
        let share = row["share"].as_f64().expect("a number");
        assert!((0.2..0.9).contains(&share), "{row:#}");
        let number = |name: &str| row[name].as_f64().expect("a number");
        assert!(
            number("collective_us") > 10.0 * number("waits_us"),
            "{row:#}"
        );
        // Those that ended while the last block was written are in its sums.
        assert!(
            number("files_us") == 0.0 && number("untimed") < 0.1 * number("calls"),
            "{row:#}"
        );
    }
    let functions = json["mpi"]["functions"].as_array().expect("rows");
    assert_eq!(functions[0]["function"], "MPI_Barrier");
    assert!(
        functions[0]["mean_us"].as_f64() >= Some(10_000.0),
        "{functions:#?}"
    );
    assert_eq!(functions[1]["function"], "MPI_Test");

    let text = out(&["report", "c"]);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("Ranks were in MPI for") && text.contains("in collectives"),
        "{text}"
    );
    let all = out(&["report", "c", "--all"]);
    assert!(
        all.contains("Functions of MPI") && all.contains("MPI_Barrier"),
        "{all}"
    );

    let page = place.path().join("page.html");
    out(&["report", "c", "--html", page.to_str().expect("text")]);
    let page = fs::read_to_string(page).expect("written");
    assert!(page.contains(" id=\"mpi\"") && page.contains("MPI_Barrier"));

    out(&[
        "export",
        "c",
        "--to",
        "jsonl",
        "--table",
        "mpi",
        "-o",
        "mpi.jsonl",
    ]);
    let lines = fs::read_to_string(place.path().join("mpi.jsonl")).expect("written");
    let row: serde_json::Value =
        serde_json::from_str(lines.lines().next().expect("a row")).expect("JSON");
    let mut columns: Vec<&str> = row
        .as_object()
        .expect("a row")
        .keys()
        .map(String::as_str)
        .collect();
    let mut expected = [
        "launcher_rank",
        "host",
        "pid",
        "tid",
        "function",
        "calls",
        "mpi_ns",
        "time_ns",
        "inside_ns",
        "open",
    ];
    expected.sort_unstable();
    columns.sort_unstable();
    assert_eq!(columns, expected);
}

#[test]
fn a_job_without_mpi_says_nothing_of_it() {
    let place = RunFolder::new();
    let done = run(&place, "\"$FAKE\" play job").output().expect("run");
    assert!(done.status.success(), "{}", stderr(&done));
    let out = |args: &[&str]| {
        let done = place.ncclscope(args).output().expect("run");
        String::from_utf8(done.stdout).expect("UTF-8")
    };
    let json: serde_json::Value =
        serde_json::from_str(&out(&["report", "c", "--json"])).expect("JSON");
    assert!(json["mpi"].is_null());
    assert!(!out(&["report", "c", "--all"]).contains("MPI"));
}
