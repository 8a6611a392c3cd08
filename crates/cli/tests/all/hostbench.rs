//! `ncclscope hostbench` as users run it: starts of its own, figures of this host, GPUs of the fake CUDA
//! driver (`crates/fake-cuda`), and a comparison of two hosts.

use crate::built;
use crate::schema::keeps_to;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn fake_cuda() -> PathBuf {
    let places = ["", "deps"].map(|folder| built::folder().join(folder).join("libfake_cuda.so"));
    let found = places.into_iter().find(|path| path.exists());
    found.expect("`cargo build -p ncclscope-fake-cuda --lib` builds libfake_cuda.so")
}

fn fake_nvml() -> PathBuf {
    built::folder().join("examples/libfake_nvml.so")
}

fn hostbench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .arg("hostbench")
        .args(arguments)
        .output()
        .expect("started")
}

/// One start on the GPUs of the stubs of CUDA and NVML, with these variables.
fn on_gpus(variables: &[(&str, &str)]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .args([
            "hostbench",
            "--starts",
            "1",
            "--only",
            "gpu",
            "--json",
            "-",
            "--cuda",
        ])
        .arg(fake_cuda())
        .env("NCCLSCOPE_NVML", fake_nvml())
        .envs(variables.iter().copied())
        .output();
    let results = json(&output.expect("started"));
    keeps_to(RESULTS, &results);
    results
}

/// Items without a figure, and why.
fn absent(results: &Value) -> Vec<(String, String)> {
    let items = results["items"].as_array().expect("items");
    let absent = items.iter().filter(|item| item["median"].is_null());
    let text = |item: &Value, name: &str| item[name].as_str().unwrap_or_default().to_owned();
    absent
        .map(|item| (text(item, "name"), text(item, "not_applicable")))
        .collect()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", errors(output)))
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The figure of an item, in its unit.
fn figure(results: &Value, name: &str) -> f64 {
    let items = results["items"].as_array().expect("items");
    let item = items.iter().find(|item| item["name"] == name);
    let item = item.unwrap_or_else(|| panic!("no {name}"));
    item["median"].as_f64().unwrap_or_else(|| panic!("{item}"))
}

const RESULTS: &str = include_str!("../../../hostbench/schema/hostbench-1.json");
const DIFF: &str = include_str!("../../../hostbench/schema/hostbench-diff-1.json");

#[test]
fn every_part_has_figures_or_says_why_not() {
    let results = json(&hostbench(&["--starts", "2", "--json", "-"]));
    keeps_to(RESULTS, &results);
    let items = results["items"].as_array().expect("items");
    assert!(items.len() > 60, "{}", items.len());
    for item in items {
        let reason = item["not_applicable"].as_str();
        assert_eq!(item["median"].is_null(), reason.is_some(), "{item}");
        assert!(item["interval"].is_null(), "{item}");
    }
    for name in [
        "clock_monotonic",
        "mutex",
        "getpid",
        "memory_read",
        "sleep_1ms",
        "unix_round_trip_8B",
        "unix_stream_1M",
    ] {
        assert!(figure(&results, name) > 0.0);
    }
    // No clock is read in less time than its step, and no thread is made in less than a read.
    assert!(figure(&results, "thread_create") * 1e3 > figure(&results, "clock_monotonic"));
}

#[test]
fn gpus_are_those_of_the_driver() {
    let results = on_gpus(&[]);
    assert_eq!(absent(&results), []);
    let facts = results["facts"].as_array().expect("facts");
    let gpus = facts.iter().filter(|fact| fact["value"] == "Fake GPU");
    assert_eq!(gpus.count(), 2);
    let close = |name: &str, expected: f64| {
        let found = figure(&results, name);
        assert!((found / expected - 1.0).abs() < 0.01, "{name}: {found}");
    };
    for name in ["gpu_copy_from_host", "gpu_copy_to_host", "gpu_copy_within"] {
        close(name, 8.0);
    }
    close("gpu_copy_0_to_1", 4.0);
    close("gpu_copy_1_to_0", 4.0);
    // The empty kernel takes 1.5 µs, and what is between the events is that and the launch.
    assert!(figure(&results, "gpu_event_pair") >= 1.5);
    assert!(figure(&results, "gpu_launch_wait") >= 1.5);
    for name in [
        "gpu_launch",
        "gpu_event_record",
        "gpu_event_query",
        "gpu_synchronize",
        "gpu_allocate",
        "gpu_allocate_host",
        "gpu_register_host",
        "gpu_ipc_get",
        "gpu_ipc_open",
        "nvml_init",
        "nvml_handle",
        "nvml_link",
        "nvml_p2p",
        "nvml_power",
    ] {
        assert!(figure(&results, name) > 0.0);
    }
}

#[test]
fn one_gpu_copies_to_no_other_and_none_says_so() {
    let reasons = |gpus: &str| {
        absent(&on_gpus(&[
            ("FAKE_CUDA_GPUS", gpus),
            ("FAKE_NVML_GPUS", gpus),
        ]))
    };
    let one = reasons("1");
    assert_eq!(one.len(), 3, "{one:?}");
    assert!(one.iter().all(|(_, why)| why == "one GPU"), "{one:?}");
    let none = reasons("0");
    assert_eq!(none.len(), 20, "{none:?}");
    assert!(none.iter().all(|(_, why)| why == "no GPU"), "{none:?}");
}

#[test]
fn what_a_container_forbids_has_its_reason_and_the_rest_its_figures() {
    let said = |variables: &[(&str, &str)]| {
        let found = absent(&on_gpus(variables));
        let said: Vec<String> = found
            .iter()
            .map(|(name, why)| format!("{name}: {why}"))
            .collect();
        said.join("; ")
    };
    let refuses = |names| said(&[("FAKE_CUDA_REFUSES", names)]);
    assert_eq!(
        refuses("cuIpcOpenMemHandle_v2,cuMemHostRegister_v2"),
        "gpu_register_host: cuMemHostRegister_v2 failed with 800; \
         gpu_ipc_open: cuIpcOpenMemHandle_v2 failed with 800"
    );
    assert_eq!(
        refuses("cuIpcGetMemHandle"),
        "gpu_ipc_get: cuIpcGetMemHandle failed with 800; \
         gpu_ipc_open: a second process: cuIpcGetMemHandle failed with 800"
    );
    assert_eq!(
        said(&[("FAKE_NVML_NO_NVLINK", "0")]),
        "nvml_link: nvmlDeviceGetNvLinkState failed with 3"
    );
    for (name, value, why) in [
        ("FAKE_NVML_FAILS", "init", "nvmlInit_v2 failed with 9"),
        ("NCCLSCOPE_NVML", "/nowhere/libnvidia-ml.so.1", "no NVML"),
    ] {
        let found = absent(&on_gpus(&[(name, value)]));
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(found.iter().all(|(_, of)| of == why), "{found:?}");
    }
}

#[test]
fn memory_is_lent_until_the_input_ends() {
    let lend = |gpus: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
            .args(["hostbench", "--lend-memory", "1", "--cuda"])
            .arg(fake_cuda())
            .env("FAKE_CUDA_GPUS", gpus)
            .stdin(std::process::Stdio::null())
            .output()
            .expect("started");
        assert!(output.status.success(), "{}", errors(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert_eq!(lend("2").trim().len(), 128);
    assert_eq!(
        lend("0"),
        "no GPU
"
    );
}

/// A file of figures, made of a real one: every item has ten values around its own.
fn host(folder: &Path, name: &str, change: impl Fn(&str) -> f64) -> String {
    let mut results = json(&hostbench(&[
        "--starts",
        "1",
        "--only",
        "clocks,calls",
        "--json",
        "-",
    ]));
    for item in results["items"].as_array_mut().expect("items") {
        let of = item["name"].as_str().expect("a name").to_owned();
        let values: Vec<f64> = (0..10)
            .map(|start| 100.0 * change(&of) * (1.0 + f64::from(start % 4) / 100.0))
            .collect();
        item["median"] = values[0].into();
        item["values"] = values.into();
    }
    let path = folder.join(name);
    std::fs::write(&path, results.to_string()).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_diff_names_what_differs_and_nothing_of_a_host_with_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let a = host(folder.path(), "a.json", |_| 1.0);
    let b = host(folder.path(), "b.json", |name| match name {
        "getpid" => 4.0,
        "dlsym" => 1.1,
        _ => 1.0,
    });
    let same = hostbench(&["diff", &a, &a]);
    assert_eq!(same.status.code(), Some(0), "{}", errors(&same));
    let text = String::from_utf8(same.stdout).expect("UTF-8");
    assert!(
        text.starts_with("None of 12 items differs by more than 25 %"),
        "{text}"
    );
    let other = hostbench(&["diff", &a, &b]);
    assert_eq!(other.status.code(), Some(1), "{}", errors(&other));
    let text = String::from_utf8(other.stdout).expect("UTF-8");
    assert!(text.contains("\n  getpid 100 400 ns   4.00 A"), "{text}");
    assert!(!text.contains("dlsym"), "{text}");
    let all = json(&hostbench(&["diff", &a, &b, "--limit", "1.05", "--json"]));
    keeps_to(DIFF, &all);
    let names: Vec<&str> = all["differs"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(names, ["getpid", "dlsym"]);
    // The page has every item, each with its winner.
    let page = folder.path().join("hosts.html");
    let file = page.to_str().expect("UTF-8");
    let written = hostbench(&["diff", &a, &b, "--html", file]);
    assert_eq!(written.status.code(), Some(1), "{}", errors(&written));
    let page = std::fs::read_to_string(page).expect("written");
    // A figure and its unit stay on one line.
    let page = page.replace('\u{a0}', " ");
    assert!(
        page.contains("1 of 12 items differs by more than 25 %"),
        "{page}"
    );
    assert!(
        page.contains("A is better in 2 of 12 rows, B in 0"),
        "{page}"
    );
}

#[test]
fn one_start_can_not_be_told_from_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("one.json");
    let file = file.to_str().expect("UTF-8");
    let measured = hostbench(&["--starts", "1", "--only", "clocks", "--json", file]);
    assert!(measured.status.success(), "{}", errors(&measured));
    let text = String::from_utf8(measured.stdout).expect("UTF-8");
    assert!(text.contains("Six starts give intervals."), "{text}");
    let same = hostbench(&["diff", file, file]);
    assert_eq!(same.status.code(), Some(2));
    let text = String::from_utf8(same.stdout).expect("UTF-8");
    assert!(text.contains("Measure with --starts 10"), "{text}");
}

#[test]
fn wrong_usage_says_what_was_expected() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("other.json");
    std::fs::write(&file, "{\"schema\": 1}").expect("written");
    let file = file.to_str().expect("UTF-8");
    let wrong = hostbench(&["diff", file, file]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        errors(&wrong).contains("expected what `ncclscope hostbench --json FILE` writes"),
        "{}",
        errors(&wrong)
    );
    let part = hostbench(&["--only", "disks"]);
    assert_eq!(part.status.code(), Some(2));
    assert!(
        errors(&part).contains("[possible values: clocks,"),
        "{}",
        errors(&part)
    );
    let limit = hostbench(&["diff", file, file, "--limit", "0.5"]);
    assert!(
        errors(&limit).contains("expected a ratio of 1 or more"),
        "{}",
        errors(&limit)
    );
}
