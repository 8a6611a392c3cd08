//! The program's own surface: exit status, standard output, and the check and bench commands.

use crate::common::{log_plugin, program};
use serde_json::Value;
use std::process::{Command, Output};

fn fake_nccl(args: &[&str], folder: &std::path::Path) -> Output {
    Command::new(program())
        .args(args)
        .env("LOG_PLUGIN_OUT", folder)
        .current_dir(folder)
        .output()
        .unwrap()
}

#[test]
fn play_prints_one_line_of_json_and_a_bad_script_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("job.txt");
    std::fs::write(&script, "ranks 2\nall_reduce 1KiB x3\n").unwrap();
    let plugin = log_plugin();
    let output = fake_nccl(
        &[
            "play", "job.txt", "--plugin", &plugin, "--nccl", "2.27.7", "--fast",
        ],
        folder.path(),
    );
    assert!(output.status.success());
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines.lines().count(), 1);
    let line: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(
        (&line["abi"], &line["announced"], &line["nccl"]),
        (&4.into(), &6.into(), &"2.27.7".into())
    );
    std::fs::write(&script, "ranks 2\nall_reduce 1XB\n").unwrap();
    let output = fake_nccl(&["play", "job.txt"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("line 2: expected a size like 64MiB, found `1XB`"),
        "{error}"
    );
}

#[test]
fn a_name_commands_no_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let evil = "x\u{1b}]0;pwn\u{7}\u{61c}y\u{202e}z";
    std::fs::write(folder.path().join(evil), format!("garbage {evil}\n")).unwrap();
    let no_file = format!("no{evil}");
    let no_option = format!("--{evil}");
    for args in [&["play", evil][..], &["play", &no_file], &[&no_option]] {
        let output = fake_nccl(args, folder.path());
        let error = String::from_utf8(output.stderr).unwrap();
        // clap leaves escape sequences out by itself.
        assert!(error.contains("\\u{202e}"), "{error}");
        assert_eq!(tables::printable_lines(&error), error);
    }
}

#[test]
fn check_reports_each_item_and_fails_a_plugin_that_lacks() {
    let nowhere = fake_nccl::check::Selection {
        plugin: Some("/nowhere.so".into()),
        program: Some(program()),
        ..Default::default()
    };
    let results = fake_nccl::check::check(&nowhere, |_| {});
    assert!(results.unwrap_err().to_string().contains("/nowhere.so"));
    // The log plugin lets itself be unmapped, which is the one thing held against it.
    let output = Command::new(program())
        .args(["check", "--plugin", &log_plugin(), "--abi", "5", "--json"])
        .env("LOG_PLUGIN_OUT", "none")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let failed: Vec<&Value> = lines
        .iter()
        .filter(|l| l["passed"] == false)
        .map(|l| &l["item"])
        .collect();
    assert_eq!(failed, [&Value::from("reload")]);
    assert_eq!(
        lines.len(),
        fake_nccl::check::ITEMS.len() + fake_nccl::script::FAULTS.len()
    );
}

#[test]
fn bench_gives_every_figure() {
    let sizes = [
        "--rate",
        "0",
        "--channels",
        "1,2",
        "--calls",
        "100",
        "--seconds",
        "0.1",
    ];
    let output = Command::new(program())
        .args(["bench", "--plugin", &log_plugin(), "--json"])
        .args(sizes)
        .env("LOG_PLUGIN_OUT", "none")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    for key in [
        "call_ns",
        "progress_ns",
        "p9999_us",
        "max_us",
        "empty_max_us",
        "own_cpu_percent",
        "rss_growth_mib",
    ] {
        assert!(lines[1][key].is_number(), "{key}");
    }
    assert!(lines[1]["per_channel_ns"].is_number() && lines[0]["per_channel_ns"].is_null());
    assert!(lines[0]["announced"].as_u64().unwrap() > 4096);
}

#[test]
fn documentation_lists_every_word() {
    let docs = include_str!("../../../../docs/reference/fake-nccl.md");
    let faults = fake_nccl::script::FAULTS.iter().map(|f| (f.1, f.2));
    let items = fake_nccl::check::ITEMS.iter().map(|i| (i.word, i.what));
    for (word, what) in faults.chain(items) {
        assert!(docs.contains(&format!("| `{word}` | {what} |")), "{word}");
    }
    for word in fake_nccl::script::statements() {
        let alone = format!("`{word}`");
        let row = docs.contains(&alone) || docs.contains(&format!("`{word} "));
        assert!(row, "{word}");
    }
    let calls = docs.lines().find_map(|l| l.strip_prefix("Calls: `"));
    let calls = calls.and_then(|l| l.split('`').next()).unwrap();
    let listed: Vec<&str> = calls.split(' ').collect();
    assert_eq!(listed, fake_nccl::script::calls());
    let script = docs.split("## A script\n\n```\n").nth(1).unwrap();
    fake_nccl::Script::parse(script.split("```").next().unwrap()).unwrap();
}

#[test]
fn an_output_that_nobody_reads_or_that_is_full_is_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("job.txt"), "all_reduce 1KiB\n").unwrap();
    let play = |out: std::process::Stdio| {
        let args = ["play", "job.txt", "--plugin", "none", "--fast"];
        let mut command = Command::new(program());
        command.args(args).current_dir(folder.path()).stdout(out);
        let output = command.stderr(std::process::Stdio::piped()).output();
        let output = output.unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let (status, said) = play(writer.into());
    assert_eq!(status, Some(0), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let (status, said) = play(full.into());
    assert_eq!(status, Some(2), "{said}");
    assert!(
        said.contains("error: writing the output: No space left"),
        "{said}"
    );
}

#[test]
fn a_time_limit_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for limit in ["inf", "NaN", "1e300", "soon"] {
        let output = fake_nccl(&["play", "-", "--timeout", limit], folder.path());
        assert_eq!(output.status.code(), Some(2), "{limit}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("number of seconds"), "{error}");
    }
}
