//! The file of a sampler in the capture: `HOST/node-p<pid>-<8 hex digits>.samples`.
//!
//! A [`SamplesFile`] is written a block at a time, and only once the capture has a trace file: a run that
//! records nothing leaves no folder. Until then, blocks are kept in memory.
//!
//! Rule: the file is appended to in whole blocks, each with its checksum. A `kill -9` between two writes
//! loses what was sampled since the last one, and nothing else.

use capture::block::{self, BlockKind};
use capture::left::{file_name, Here};
use capture::samples::{self, THREAD_RUNNING};
use capture::switches::{self, Off};
use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Kept in memory at most, until there is a trace file: more than half an hour.
const MOST_KEPT: usize = 8 << 20;
/// Folders deeper than this are no part of a capture.
const MAX_DEPTH: usize = 4;

/// What is sampled, and where it goes.
pub struct SamplesFile {
    capture: PathBuf,
    /// The host's folder.
    folder: PathBuf,
    file: Option<File>,
    /// Its name.
    name: String,
    /// Encoded and not written.
    pending: Vec<u8>,
    number: u32,
    samples: samples::Samples,
    /// By name and what it is of.
    series: HashMap<(&'static str, String), usize>,
    /// Series since the last block.
    unnamed: Vec<u8>,
    /// When threads were off their CPUs, since the last block.
    switches: Vec<u8>,
    /// Why nothing more is written.
    failed: bool,
}

impl SamplesFile {
    /// Prepares the file; `facts` are `key=value` lines.
    pub fn new(capture: &Path, here: &Here, facts: &str) -> io::Result<SamplesFile> {
        let mut id = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut id)?;
        let mut file = SamplesFile {
            capture: capture.to_owned(),
            folder: capture.join(file_name(&here.host)),
            file: None,
            name: format!(
                "node-p{}-{:02x}{:02x}{:02x}{:02x}.samples",
                std::process::id(),
                id[0],
                id[1],
                id[2],
                id[3]
            ),
            pending: block::file_header(u64::from_le_bytes(id)).to_vec(),
            number: 0,
            samples: samples::Samples::default(),
            series: HashMap::new(),
            unnamed: Vec::new(),
            switches: Vec::new(),
            failed: false,
        };
        file.block(BlockKind::Process, facts.as_bytes());
        Ok(file)
    }

    /// The file, relative to the capture, and how many blocks it has. `None` if none was made, or not all
    /// could be written.
    pub fn written(&self) -> Option<(PathBuf, u32)> {
        let whole = self.file.is_some() && self.pending.is_empty();
        let folder = self.folder.strip_prefix(&self.capture).ok()?;
        whole.then(|| (folder.join(&self.name), self.number))
    }

    /// The folder of this host in the capture.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Begins a tick, at `now` ns since 1970.
    pub fn tick(&mut self, now: u64) {
        self.samples.tick(now);
    }

    /// A value at the newest tick.
    pub fn put(&mut self, name: &'static str, of: &str, value: u64) {
        let id = self.series(name, of);
        self.samples.put(id, value);
    }

    /// When a thread was off its CPU in a span of time.
    pub fn put_span(&mut self, thread: &str, span: (u64, u64), off: &[Off]) {
        let id = self.series(THREAD_RUNNING, thread);
        switches::put_span(&mut self.switches, id, span, off);
    }

    fn series(&mut self, name: &'static str, of: &str) -> usize {
        // No allocation for a series that is known would need a key that borrows; a tick has some 100 values.
        let next = self.series.len();
        match self.series.entry((name, of.to_owned())) {
            std::collections::hash_map::Entry::Occupied(known) => *known.get(),
            std::collections::hash_map::Entry::Vacant(new) => {
                samples::put_series(&mut self.unnamed, next, name, of);
                *new.insert(next)
            }
        }
    }

    /// Ticks that are not encoded yet.
    pub fn ticks(&self) -> usize {
        self.samples.ticks()
    }

    /// Writes what was sampled. At the end, it is written wherever in the capture a trace file lies.
    pub fn flush(&mut self, is_end: bool) {
        if self.samples.ticks() > 0 && !self.failed {
            if !self.unnamed.is_empty() {
                let series = std::mem::take(&mut self.unnamed);
                self.block(BlockKind::Series, &series);
            }
            let mut payload = Vec::new();
            self.samples.encode(&mut payload);
            self.block(BlockKind::Samples, &payload);
            if !self.switches.is_empty() {
                let switches = std::mem::take(&mut self.switches);
                self.block(BlockKind::Switches, &switches);
            }
        }
        if is_end {
            self.block(BlockKind::End, &[]);
        }
        if self.file.is_none() && !self.failed {
            let ready = has_trace(&self.folder, MAX_DEPTH)
                || (is_end || self.number.is_multiple_of(16))
                    && has_trace(&self.capture, MAX_DEPTH);
            if ready {
                match self.create() {
                    Ok(file) => self.file = Some(file),
                    Err(_) => self.fail(),
                }
            } else if self.pending.len() > MOST_KEPT {
                self.fail();
            }
        }
        let Some(file) = &mut self.file else {
            return;
        };
        match file.write_all(&self.pending) {
            Ok(()) => self.pending.clear(),
            Err(_) => self.fail(),
        }
    }

    /// Writes nothing more: a disk is full, or the folder is gone. The job is not to be disturbed by that.
    fn fail(&mut self) {
        self.failed = true;
        self.file = None;
        self.pending = Vec::new();
    }

    fn block(&mut self, kind: BlockKind, payload: &[u8]) {
        if self.failed {
            return;
        }
        let start = block::begin(&mut self.pending);
        self.pending.extend_from_slice(payload);
        block::finish(&mut self.pending, start, kind, self.number);
        self.number += 1;
    }

    fn create(&self) -> io::Result<File> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.folder)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(self.folder.join(&self.name))
    }
}

/// Whether a trace file lies in `folder` or below.
fn has_trace(folder: &Path, depth: usize) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries = entries.map(|entry| (entry.path(), entry.file_type()));
    entries.any(|(path, kind)| match kind {
        Ok(kind) if kind.is_dir() => depth > 0 && has_trace(&path, depth - 1),
        _ => path
            .extension()
            .is_some_and(|extension| extension == "trace"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Here {
        Here {
            host: "node/1".to_owned(),
            ..Here::default()
        }
    }

    fn blocks(folder: &Path) -> Vec<u16> {
        let mut kinds = Vec::new();
        for entry in std::fs::read_dir(folder.join("node_1"))
            .into_iter()
            .flatten()
            .flatten()
        {
            if entry.path().extension().is_some_and(|e| e == "samples") {
                let bytes = std::fs::read(entry.path()).expect("read");
                block::read(
                    &bytes,
                    |block| kinds.push(block.kind),
                    |damage| panic!("{damage:?}"),
                );
            }
        }
        kinds
    }

    #[test]
    fn nothing_is_written_before_there_is_a_trace_file() {
        let place = tempfile::tempdir().expect("a folder");
        let mut file = SamplesFile::new(place.path(), &here(), "host=node/1\n").expect("prepared");
        file.tick(1);
        file.put("node_cpu_us", "", 7);
        file.flush(false);
        assert!(!place.path().join("node_1").exists() && file.written().is_none());
        std::fs::create_dir(place.path().join("node_1")).expect("made");
        std::fs::write(place.path().join("node_1/r0-p1-00000000.trace"), "").expect("written");
        file.tick(2);
        file.put("node_cpu_us", "", 9);
        file.flush(false);
        // Facts, the series, and two blocks of samples: the first was kept.
        assert_eq!(blocks(place.path()), [1, 16, 17, 17]);
        file.tick(3);
        file.put("node_memory_bytes", "", 1);
        file.flush(true);
        assert_eq!(blocks(place.path()), [1, 16, 17, 17, 16, 17, 6]);
        let (name, blocks) = file.written().expect("all of it");
        assert!(place.path().join(name).is_file());
        assert_eq!(blocks, 7);
    }

    #[test]
    fn a_run_without_a_trace_file_leaves_nothing() {
        let place = tempfile::tempdir().expect("a folder");
        let mut file = SamplesFile::new(place.path(), &here(), "").expect("prepared");
        file.tick(1);
        file.put("node_cpu_us", "", 7);
        file.flush(true);
        assert_eq!(
            std::fs::read_dir(place.path()).expect("a folder").count(),
            0
        );
    }
}
