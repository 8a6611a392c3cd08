//! Reads trace files that have callbacks.

use anyhow::{bail, Context};
use capture::block::{self, BlockKind};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What is read from a trace file before it is played.
pub(super) struct Trace {
    pub(super) process: HashMap<String, String>,
    /// Callback records, back to back.
    pub(super) records: Vec<u8>,
    /// (ticks, CLOCK_MONOTONIC ns) pairs.
    pub(super) anchors: Vec<(u64, u64)>,
    /// What could not be read.
    pub(super) damage: Vec<String>,
}

pub(super) fn read_file(path: &Path) -> anyhow::Result<Trace> {
    let file = std::fs::File::open(path)
        .with_context(|| format!("could not read `{}`", path.display()))?;
    let bytes = if path.extension().is_some_and(|e| e == "zst") {
        zstd::decode_all(file)?
    } else {
        std::fs::read(path)?
    };
    let mut trace = Trace {
        process: HashMap::new(),
        records: Vec::new(),
        anchors: Vec::new(),
        damage: Vec::new(),
    };
    let mut damage = Vec::new();
    let each = |block: block::Block| match BlockKind::from_u16(block.kind) {
        Some(BlockKind::Process) => {
            let text = String::from_utf8_lossy(block.payload);
            let pairs = text.lines().filter_map(|l| l.split_once('='));
            trace
                .process
                .extend(pairs.map(|(k, v)| (k.to_string(), v.to_string())));
        }
        Some(BlockKind::Callbacks) => trace.records.extend(block.payload),
        Some(BlockKind::Anchor) => {
            let word = |i: usize| {
                let bytes = block.payload.get(8 * i..8 * i + 8)?;
                Some(u64::from_le_bytes(bytes.try_into().ok()?))
            };
            trace.anchors.extend(word(0).zip(word(1)));
        }
        _ => {}
    };
    block::read(&bytes, each, |d| damage.push(format!("{d:?}")));
    trace.damage = damage;
    Ok(trace)
}

/// The trace files of a capture: `*.trace` and `*.trace.zst` in a folder and below, or one file. Processes
/// with callbacks have one trace file each.
pub(super) fn trace_files(capture: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if capture.is_file() {
        return Ok(vec![capture.into()]);
    }
    let mut files = Vec::new();
    let mut folders = vec![capture.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("could not read `{}`", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".trace") || name.ends_with(".trace.zst") {
                files.push(path);
            }
        }
    }
    files.sort();
    if files.is_empty() {
        bail!(
            "expected `.trace` or `.trace.zst` files under `{}`, found none",
            capture.display()
        );
    }
    Ok(files)
}
