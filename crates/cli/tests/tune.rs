//! What `ncclscope tune --json` prints, held to its schema.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

const SCHEMA: &str = include_str!("../../render/schema/tune-1.json");

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
    let printed = String::from_utf8_lossy(&output.stdout);
    let answer: Value = serde_json::from_str(&printed).expect("JSON");
    let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = validator
        .iter_errors(&answer)
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
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
