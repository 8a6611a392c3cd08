//! What `ncclscope tune --json` prints, held to its schema.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

const SCHEMA: &str = include_str!("../../render/schema/tune-1.json");

/// What was printed, held to the schema.
fn valid(printed: &[u8]) -> Value {
    let answer: Value = serde_json::from_slice(printed).expect("JSON");
    let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = validator
        .iter_errors(&answer)
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    answer
}

#[test]
fn json_of_runs_without_nccl_is_as_the_schema_says() {
    let folder = tempfile::tempdir().expect("a folder");
    // The sleep is what the setting changes; there is no NCCL, so the whole command is timed.
    let output = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .args([
            "tune",
            "--try",
            "NAP=0.4,0.01",
            "--rounds",
            "3",
            "--json",
            "-o",
            "t",
            "--",
        ])
        .args(["sh", "-c", "sleep ${NAP:-0.2}"])
        .current_dir(&folder)
        .env_remove("NCCLSCOPE_RUN")
        .env(
            "NCCLSCOPE_PLUGIN",
            Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"),
        )
        .output()
        .expect("started");
    let answer = valid(&output.stdout);
    assert_eq!(answer["measure"], "process");
    assert_eq!(answer["runs"].as_array().map(Vec::len), Some(9));
    let order: Vec<&str> = answer["settings"]
        .as_array()
        .expect("settings")
        .iter()
        .map(|setting| setting["name"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(order, ["NAP=0.01", "default", "NAP=0.4"]);
}

#[test]
fn json_of_blocks_is_as_the_schema_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "ranks 2\nchoice RING SIMPLE x1 ; choice TREE SIMPLE x0.5\n\
        repeat 150 { sleep 1ms ; all_reduce 1MiB time=12ms ; all_gather 1MiB time=2ms ; sync }";
    std::fs::write(folder.path().join("job"), script).expect("written");
    let built = Path::new(env!("CARGO_BIN_EXE_ncclscope"))
        .parent()
        .expect("target/PROFILE");
    let plugin = std::env::var_os("NCCLSCOPE_PLUGIN");
    let plugin = plugin.unwrap_or_else(|| built.join("libnccl_profiler_ncclscope.so").into());
    let output = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .args([
            "tune",
            "--within",
            "--block",
            "20",
            "--try",
            "NCCL_ALGO=Tree",
        ])
        .args(["--try", "NCCL_PROTO=Simple,LL", "--json", "-o", "t", "--"])
        .arg(built.join("fake-nccl"))
        .args(["play", "job"])
        .current_dir(&folder)
        .env_remove("NCCLSCOPE_RUN")
        .env("NCCLSCOPE_PLUGIN", plugin)
        .output()
        .expect("started");
    let answer = valid(&output.stdout);
    assert_eq!(
        (&answer["way"], &answer["measure"]),
        (&"blocks".into(), &"step".into())
    );
    let settings = answer["settings"].as_array().expect("settings");
    let ignored = |name: &str| {
        let of = settings
            .iter()
            .find(|setting| setting["name"] == name)
            .expect("a setting");
        (of["blocks"]["ignored"].as_u64(), of["standing"].as_str())
    };
    assert_eq!(ignored("NCCL_ALGO=Tree NCCL_PROTO=Simple").0, Some(0));
    let (blocks, standing) = ignored("NCCL_ALGO=Tree NCCL_PROTO=LL");
    assert!(
        blocks > Some(0) && standing == Some("not_judged"),
        "{blocks:?} {standing:?}"
    );
}
