//! Reads trace files that have callbacks.

use anyhow::{bail, Context};
use capture::block::{self, BlockKind};
use capture::live::Image;
use capture::snapshot;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

/// What is read from a trace file before it is played.
pub(super) struct Trace {
    pub(super) process: HashMap<String, String>,
    /// Callback records, back to back.
    pub(super) records: Vec<u8>,
    /// (ticks, CLOCK_MONOTONIC ns) pairs, the first first.
    pub(super) anchors: Vec<(u64, u64)>,
    /// The process was killed: what it left says that it was recording.
    pub(super) killed: bool,
    /// What could not be read.
    pub(super) damage: Vec<String>,
}

pub(super) fn read_file(path: &Path) -> anyhow::Result<Trace> {
    let bytes = load(path).with_context(|| format!("could not read `{}`", path.display()))?;
    let mut trace = Trace {
        process: HashMap::new(),
        records: Vec::new(),
        anchors: Vec::new(),
        killed: false,
        damage: Vec::new(),
    };
    let mut damage = Vec::new();
    let mut numbers = BTreeSet::new();
    let mut has_end = false;
    let each = |block: block::Block| {
        numbers.insert(block.number);
        has_end |= block.kind == BlockKind::End as u16;
        trace.add(&block);
    };
    block::read(&bytes, each, |d| damage.push(format!("{d:?}")));
    let image = live_part(path);
    if let Some(view) = image.as_ref().and_then(Image::view) {
        // What a killed process had not written yet.
        let each = |block: block::Block| {
            if numbers.insert(block.number) {
                trace.add(&block);
            }
        };
        block::read(&view.staged(), each, |_| ());
        let header = view.header();
        for anchor in [&header.first, &header.last] {
            let ticks = anchor.ticks.load(Relaxed).0;
            trace.anchors.push((ticks, anchor.monotonic.load(Relaxed)));
        }
        trace.killed = !has_end && header.state.load(Relaxed) == 0;
    }
    trace.anchors.retain(|(ticks, _)| *ticks != 0);
    trace.anchors.sort_unstable();
    trace.damage = damage;
    Ok(trace)
}

impl Trace {
    fn add(&mut self, block: &block::Block) {
        match BlockKind::from_u16(block.kind) {
            Some(BlockKind::Process) => {
                let text = String::from_utf8_lossy(block.payload);
                let pairs = text.lines().filter_map(|l| l.split_once('='));
                self.process
                    .extend(pairs.map(|(k, v)| (k.to_string(), v.to_string())));
            }
            Some(BlockKind::Callbacks) => self.records.extend(block.payload),
            Some(BlockKind::Anchor) => {
                let word = |i: usize| {
                    let bytes = block.payload.get(8 * i..8 * i + 8)?;
                    Some(u64::from_le_bytes(bytes.try_into().ok()?))
                };
                self.anchors.extend(word(0).zip(word(1)));
            }
            _ => {}
        }
    }
}

/// The bytes of a file that may be compressed.
fn load(path: &Path) -> std::io::Result<Vec<u8>> {
    if path.extension().is_some_and(|e| e == "zst") {
        zstd::decode_all(std::fs::File::open(path)?)
    } else {
        std::fs::read(path)
    }
}

/// The live part that lies beside a trace file, or its snapshot.
fn live_part(trace: &Path) -> Option<Image> {
    let name = trace.file_name()?.to_str()?;
    let stem = name.strip_suffix(".zst").unwrap_or(name);
    let stem = stem.strip_suffix(".trace")?;
    let beside = ["live", "live.zst", "snap", "snap.zst"].into_iter();
    let found = beside.filter_map(|ending| {
        let bytes = load(&trace.with_file_name(format!("{stem}.{ending}"))).ok()?;
        if ending.starts_with("snap") {
            snapshot::read(&bytes)
        } else if snapshot::is_whole(&bytes) {
            snapshot::read_whole(&bytes).map(|(image, _)| image)
        } else {
            Some(Image::copy(&bytes))
        }
    });
    found.map(Image::upgraded).next()
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
