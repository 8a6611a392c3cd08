//! What the tests share: the log plugin, and what it wrote.

// Each test file is a program of its own and uses a part of this.
#![allow(dead_code)]

use serde_json::Value;
use std::path::{Path, PathBuf};

/// The example plugin, which `cargo test` builds beside the tests.
pub fn log_plugin() -> String {
    let tests = std::env::current_exe().unwrap();
    let profile = tests.ancestors().nth(2).unwrap();
    let path = profile.join("examples/liblog_plugin.so");
    assert!(
        path.is_file(),
        "expected {}; `cargo build -p ncclscope-fake-nccl --examples` makes it",
        path.display()
    );
    path.into_os_string().into_string().unwrap()
}

/// The program under test.
pub fn program() -> PathBuf {
    env!("CARGO_BIN_EXE_fake-nccl").into()
}

/// One process's log.
#[derive(Debug)]
pub struct Log(pub Vec<Value>);

impl Log {
    /// Every log in a folder, by the rank that its first `init` was told, else by the launcher's.
    pub fn all(folder: &Path) -> Vec<Log> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        files.sort();
        let mut logs: Vec<Log> = files
            .iter()
            .map(|file| {
                let text = std::fs::read_to_string(file).unwrap();
                // A killed process may leave half a line.
                Log(text
                    .lines()
                    .filter_map(|l| serde_json::from_str(l).ok())
                    .collect())
            })
            .collect();
        logs.sort_by_key(|l| {
            l.calls("init")
                .first()
                .map_or(0, |i| i["rank"].as_u64().unwrap_or(0))
        });
        logs
    }

    pub fn calls(&self, call: &str) -> Vec<&Value> {
        self.0.iter().filter(|l| l["call"] == call).collect()
    }

    /// Starts of a type.
    pub fn starts(&self, kind: &str) -> Vec<&Value> {
        let starts = self.calls("start").into_iter();
        starts.filter(|l| l["type"] == kind).collect()
    }

    /// `start Coll`, `state KernelChStop`, `stop Coll` and so on, without those of a type.
    pub fn story(&self) -> Vec<String> {
        let mut kinds = std::collections::HashMap::new();
        let mut story = Vec::new();
        for line in &self.0 {
            let call = line["call"].as_str().unwrap();
            match call {
                "start" => {
                    let kind = line["type"].as_str().unwrap_or("?").to_string();
                    story.push(format!("start {kind}"));
                    kinds.insert(line["handle"].as_u64().unwrap(), kind);
                }
                "state" => story.push(format!("state {}", line["state"].as_str().unwrap_or("?"))),
                "stop" => {
                    let kind = kinds.get(&line["handle"].as_u64().unwrap());
                    story.push(format!("stop {}", kind.map_or("?", |k| k)));
                }
                call => story.push(call.to_string()),
            }
        }
        story
    }

    /// The start that has this handle.
    pub fn by_handle(&self, handle: &Value) -> Option<&Value> {
        let mut starts = self.0.iter().filter(|l| l["call"] == "start");
        starts.find(|l| l["handle"] == *handle)
    }

    /// When the GPU stopped, of the KernelCh with this handle.
    pub fn gpu_stop(&self, handle: &Value) -> Option<u64> {
        let mut states = self.calls("state").into_iter();
        let state = states.find(|l| l["handle"] == *handle && l["state"] == "KernelChStop")?;
        let hex = state["args"].as_str()?;
        let bytes: Vec<u8> = (0..8)
            .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        Some(u64::from_le_bytes(bytes.try_into().unwrap()))
    }
}
