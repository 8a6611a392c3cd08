//! `--steps`, `--last` and `--phase` of the verbs that take them.

use std::path::Path;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ncclscope"));
    command.args(arguments);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data"));
    command.output().expect("started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let done = run(arguments);
    assert!(done.status.success(), "{}", text(&done.stderr));
    serde_json::from_slice(&done.stdout).expect("JSON")
}

#[test]
fn report_and_exports_have_the_same_part() {
    let part = ["--steps", "100..200"];
    let report = json(&[&["report", "ddp_late_host", "--json"], &part[..]].concat());
    assert_eq!(report["job"]["part"], "steps 100 to 199 of 504");
    let steps = report["steps"]["steps"]["median"].as_f64().expect("steps");
    assert!((99.0..=100.0).contains(&steps), "{steps}");
    let csv = run(&[&["export", "ddp_late_host", "--to", "csv"], &part[..]].concat());
    let rows = text(&csv.stdout).lines().count() - 1;
    let calls = report["operations"].as_array().expect("rows").iter();
    let calls: u64 = calls.filter_map(|row| row["calls"].as_u64()).sum();
    assert_eq!(rows as u64, calls);
    let each = report["steps"]["calls"]["median"].as_f64().expect("calls");
    assert_eq!(rows as f64, 2.0 * 100.0 * each);
    assert_eq!(
        text(&csv.stderr).lines().next(),
        Some("ncclscope: note: this is steps 100 to 199 of 504 alone")
    );
    let page = run(&[&["report", "ddp_late_host", "--html", "-"], &part[..]].concat());
    assert!(text(&page.stdout).contains("steps 100 to 199 of 504"));
}

#[test]
fn diff_compares_the_same_part_of_both() {
    let runs = ["diff", "short_fsdp2_host", "short_fsdp2_gpu", "--json"];
    let whole = json(&runs);
    let part = json(&[&runs[..], &["--last", "1s"]].concat());
    for side in ["a", "b"] {
        let wall = |diff: &serde_json::Value| diff[side]["figures"]["wall_us"].as_f64();
        let (whole, part) = (wall(&whole).expect("a time"), wall(&part).expect("a time"));
        assert!(
            whole > 2e6 && (0.5e6..1.3e6).contains(&part),
            "{whole} and {part}"
        );
    }
}

#[test]
fn a_part_that_is_not_there_is_an_error_with_the_way_out() {
    for (option, value, said) in [
        (
            "--steps",
            "9000..",
            "expected steps from 0 to 503, found 9000\n  hint: ",
        ),
        ("--steps", "5..5", "expected steps such as 100..200"),
        ("--last", "soon", "expected a time such as 30s or 5m"),
        (
            "--phase",
            "eval",
            "expected a phase `eval`, found none\n  hint: ",
        ),
    ] {
        let done = run(&["report", "ddp_late_host", option, value]);
        let error = text(&done.stderr);
        assert!(error.contains(said), "{error}");
        assert_eq!(done.status.code(), Some(2), "{error}");
        assert!(done.stdout.is_empty());
    }
    let two = run(&["report", "ddp_late_host", "--last", "1s", "--phase", "eval"]);
    assert!(text(&two.stderr).contains("cannot be used with"));
}
