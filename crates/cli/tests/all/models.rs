//! `ncclscope model` and `estimate` on tables whose truth is known, and on recorded jobs.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn ncclscope(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ncclscope"));
    command.args(arguments).output().expect("started")
}

/// What it prints, held to the schema.
fn answer(arguments: &[&str], schema: &str) -> Value {
    let output = ncclscope(&[arguments, &["--json"]].concat());
    let printed = String::from_utf8_lossy(&output.stdout);
    let answer: Value = serde_json::from_str(&printed).expect("JSON");
    crate::schema::keeps_to(schema, &answer);
    answer
}

const MODEL: &str = include_str!("../../../render/schema/model-1.json");
const REPORT: &str = include_str!("../../../render/schema/report-1.json");
const ESTIMATE: &str = include_str!("../../../render/schema/estimate-1.json");

/// The time over so many ranks of so many bytes, µs.
type Time = dyn Fn(f64, f64) -> f64;

/// nccl-tests' text with these times, µs.
fn table(folder: &Path, name: &str, ranks: u32, time: impl Fn(f64) -> f64) -> PathBuf {
    let mut text = String::from("# Collective test starting: all_reduce_perf\n");
    for rank in 0..ranks {
        text += &format!(
            "#  Rank {rank:2} Group  0 Pid 6899 on host device {rank} [0000:04:00] NVIDIA H200\n"
        );
    }
    for power in 10..=30 {
        let bytes = 1u64 << power;
        let us = time(bytes as f64);
        let algbw = bytes as f64 / us / 1e3;
        let side = format!("{us:9.2} {algbw:7.2} {algbw:7.2} 0");
        text += &format!("{bytes:12} {:12} float sum -1 {side} {side}\n", bytes / 4);
    }
    let path = folder.join(name);
    std::fs::write(&path, text).expect("written");
    path
}

#[test]
fn programs_that_ran_alone_are_no_measurement_and_wrong_data_is_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = table(folder.path(), "whole", 8, |bytes| 3.0 + bytes / 2e5);
    let whole = std::fs::read_to_string(&file).expect("there");
    let alone = folder.path().join("alone");
    // Built without MPI, each program is rank 0.
    let ranks = (0..8).fold(whole.clone(), |text, rank| {
        text.replace(&format!("Rank {rank:2} "), "Rank  0 ")
    });
    std::fs::write(&alone, ranks).expect("written");
    let output = ncclscope(&["model", alone.to_str().expect("UTF-8")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("MPI=1"), "{said}");
    let wrong = folder.path().join("wrong");
    let line = whole.lines().last().expect("a row");
    let bad = format!("{} 7", line.strip_suffix(" 0").expect("a count"));
    std::fs::write(&wrong, whole.replace(line, &bad)).expect("written");
    let output = ncclscope(&["model", wrong.to_str().expect("UTF-8")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("wrong data at 1 size, from 1 GiB on"),
        "{said}"
    );
}

#[test]
fn alpha_and_bandwidth_of_a_ring_and_a_tree_are_recovered_within_a_percent() {
    let folder = tempfile::tempdir().expect("a folder");
    let (n, alpha, gb_per_s) = (8.0, 3.0, 200.0);
    // β in µs a byte.
    let beta = 1.0 / (gb_per_s * 1e3);
    let ring = move |n: f64, bytes: f64| 2.0 * (n - 1.0) * (alpha + beta * bytes / n);
    let tree = move |n: f64, bytes: f64| 2.0 * n.log2() * alpha + 2.0 * beta * bytes;
    let close = |found: &Value, truth: f64| {
        let found = found.as_f64().expect("a number");
        assert!((found / truth - 1.0).abs() < 0.01, "{found} for {truth}");
    };
    let made: [(&str, &Time); 2] = [("ring", &ring), ("tree", &tree)];
    for (algorithm, time) in made {
        let file = table(folder.path(), algorithm, 8, |bytes| time(n, bytes));
        let file = file.to_str().expect("UTF-8");
        let asked = [
            "model",
            file,
            "--algorithm",
            algorithm,
            "--size",
            "4G",
            "--ranks",
            "64",
        ];
        let answer = answer(&asked, MODEL);
        let model = &answer["models"][0];
        close(&model["alpha_us"], alpha);
        close(&model["beta_gb_per_s"], gb_per_s);
        let prediction = &answer["predictions"][0];
        close(&prediction["time_us"], time(64.0, (1u64 << 32) as f64));
        assert_eq!(prediction["size_outside_ratio"], 4.0);
        assert_eq!(prediction["ranks_outside_ratio"], 8.0);
    }
}

#[test]
fn recorded_jobs_have_models_with_residuals_and_a_decode_loop_its_token() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let job = |name: &str| data.join(name).to_str().expect("UTF-8").to_owned();
    let found = answer(&["model", &job("calls_228")], MODEL);
    let models = found["models"].as_array().expect("models");
    assert!(models.len() >= 5);
    for model in models {
        assert!(model["residual_max_share"]
            .as_f64()
            .is_some_and(|share| share > 0.0));
        assert!(model["samples"]
            .as_array()
            .is_some_and(|samples| samples.len() >= 3));
    }
    let found = answer(&["estimate", "--from", &job("decode_plain")], ESTIMATE);
    let replay = &found["measured"][0];
    assert_eq!(
        (&replay["kind"], &replay["calls"]),
        (&"replay".into(), &24.into())
    );
    let share = replay["exposed_share"].as_f64().expect("from windows");
    assert!((0.2..0.35).contains(&share), "{share}");
}

#[test]
fn a_recorded_job_has_two_thirds_of_its_links_and_its_blind_spot() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/calls_228");
    let job = data.to_str().expect("UTF-8");
    let found = answer(&["report", job, "--ceiling", "450GB/s"], REPORT);
    let rows = found["efficiency"].as_array().expect("rows");
    let of = |row: &&Value| row["function"] == "AllReduce" && row["bytes"] == 32 << 20;
    let row = rows.iter().find(of).expect("AllReduce of 32 MiB");
    let near = |found: &Value, truth: f64| {
        let found = found.as_f64().expect("a number");
        assert!((found - truth).abs() < 0.005, "{found} for {truth}");
    };
    assert_eq!(row["ceilings"][0]["named"], "--ceiling 450GB/s");
    near(&row["ceilings"][0]["share"], 0.67);
    near(&row["blind_share"], 0.887);
}

#[test]
fn an_estimate_counts_layers_and_says_the_ratio_to_one_gpu() {
    let folder = tempfile::tempdir().expect("a folder");
    let eight = table(folder.path(), "8", 8, |bytes| 100.0 + bytes / 1e5);
    let one = table(folder.path(), "1", 1, |bytes| 10.0 + bytes / 1e6);
    let (eight, one) = (eight.to_str().expect("UTF-8"), one.to_str().expect("UTF-8"));
    let asked = [
        "estimate", "--layers", "32", "--bytes", "8M", "--ttft", "100ms",
    ];
    let asked = [&asked[..], &["--from", eight, "--baseline", one]].concat();
    let found = &answer(&asked, ESTIMATE)["estimate"];
    let call = 100.0 + f64::from(8 << 20) / 1e5;
    let near = |name: &str, truth: f64| {
        let found = found[name].as_f64().expect("a number");
        assert!(
            (found / truth - 1.0).abs() < 1e-3,
            "{name}: {found} for {truth}"
        );
    };
    assert_eq!(
        (&found["calls"], &found["source"]),
        (&64.into(), &"measured".into())
    );
    near("communication_us", 64.0 * call);
    near("ttft_share", 64.0 * call / 1e5);
    near("baseline_ratio", call / (10.0 + f64::from(8 << 20) / 1e6));
}

#[test]
fn what_can_t_be_told_is_said_and_is_no_success() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bare.txt");
    std::fs::write(
        &file,
        "1024 256 float sum -1 10.0 0.1 0.1 0 10.0 0.1 0.1 0\n",
    )
    .expect("written");
    let file = file.to_str().expect("UTF-8");
    let said = |arguments: &[&str]| {
        let output = ncclscope(arguments);
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    };
    let (status, text) = said(&["model", file]);
    assert!(
        status == Some(2) && text.contains("--measured-ranks"),
        "{text}"
    );
    let (status, text) = said(&["model", file, "--measured-ranks", "8"]);
    assert!(status == Some(2) && text.contains("--function"), "{text}");
    let known = ["--measured-ranks", "8", "--function", "all_reduce"];
    let (status, text) = said(&[&["model", file][..], &known].concat());
    assert!(status == Some(1) && text.contains("three sizes"), "{text}");
    let (status, text) = said(&["estimate", "--from", file, "--measured-ranks", "8"]);
    assert!(status == Some(2) && text.contains("--function"), "{text}");
    let (status, text) = said(&[&["estimate", "--from", file][..], &known].concat());
    assert!(
        status == Some(2) && text.contains("no forward pass"),
        "{text}"
    );
}
