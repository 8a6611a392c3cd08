//! Finds the files of a capture and reads them, compressed or not.
//!
//! Files with one stem in one folder belong to one process: `NAME.trace`, `NAME.1.trace` and so on, `NAME.live`,
//! `NAME.snap`, each also as `….zst`. A path to a single trace file, or to the folder of one host, is a capture too.
//!
//! Rule: symbolic links to folders are not followed, so a walk ends.

use crate::problem::Problem;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Folders deeper than this are no part of a capture.
const MAX_DEPTH: usize = 8;
/// No file of a capture is larger once unpacked; keeps a damaged frame from filling memory.
const MAX_UNPACKED: u64 = 16 << 30;

/// What is expected of every folder in a capture.
pub(crate) const LISTED: &str = "a folder that can be listed";

/// The files of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Files {
    /// Path without extension.
    pub stem: PathBuf,
    pub trace: Option<PathBuf>,
    /// Later trace files by number, from 1.
    pub later: BTreeMap<u32, PathBuf>,
    pub live: Option<PathBuf>,
    pub snapshot: Option<PathBuf>,
}

impl Files {
    /// What problems and reports call the process.
    pub fn path(&self) -> &Path {
        let first = [&self.trace, &self.live, &self.snapshot];
        let mut first = first.into_iter().flatten().chain(self.later.values());
        first.next().unwrap_or(&self.stem)
    }

    /// Bytes of its trace files.
    pub fn size(&self) -> u64 {
        let files = self.trace.iter().chain(self.later.values());
        files
            .filter_map(|p| p.metadata().ok())
            .map(|m| m.len())
            .sum()
    }

    /// The number of the torchrun restart whose folder it lies in; 0 for the first start.
    pub fn restart(&self) -> u32 {
        let number = |part: &str| part.strip_prefix("restart-")?.parse().ok();
        self.stem
            .iter()
            .filter_map(|part| number(part.to_str()?))
            .next_back()
            .unwrap_or(0)
    }
}

/// What a file of a process is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// With its number.
    Trace(u32),
    Live,
    Snapshot,
}

/// The stem and the kind of a file by its name, and whether it is compressed.
fn split(path: &Path) -> Option<(PathBuf, Kind, bool)> {
    let name = path.file_name()?.to_str()?;
    let (name, packed) = match name.strip_suffix(".zst") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let (name, kind) = match name.rsplit_once('.')? {
        (name, "trace") => {
            let (name, number) = capture::rotated::split_number(name);
            (name, Kind::Trace(number))
        }
        (name, "live") => (name, Kind::Live),
        (name, "snap") => (name, Kind::Snapshot),
        _ => return None,
    };
    Some((path.with_file_name(name), kind, packed))
}

/// All processes with a file at `path` or below, in order of path.
pub(crate) fn find(path: &Path, problems: &mut Vec<Problem>) -> Vec<Files> {
    let mut found = BTreeMap::new();
    let mut add = |file: &Path| {
        let Some((stem, kind, packed)) = split(file) else {
            return;
        };
        let files: &mut Files = found.entry(stem.clone()).or_insert_with(|| Files {
            stem,
            ..Files::default()
        });
        let place = match kind {
            Kind::Trace(0) => &mut files.trace,
            Kind::Trace(number) => {
                if !packed || !files.later.contains_key(&number) {
                    files.later.insert(number, file.to_owned());
                }
                return;
            }
            Kind::Live => &mut files.live,
            Kind::Snapshot => &mut files.snapshot,
        };
        if place.is_none() || !packed {
            *place = Some(file.to_owned());
        }
    };
    if path.is_dir() {
        walk(path, 0, problems, &mut add);
    } else if let Some((stem, ..)) = split(path) {
        let folder = path
            .parent()
            .filter(|p| !p.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        walk(folder, MAX_DEPTH, problems, &mut |file| {
            if split(file).is_some_and(|(other, ..)| other.file_name() == stem.file_name()) {
                add(file);
            }
        });
    }
    found.into_values().collect()
}

fn walk(folder: &Path, depth: usize, problems: &mut Vec<Problem>, each: &mut impl FnMut(&Path)) {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            problems.push(Problem {
                file: folder.to_owned(),
                place: "its names".into(),
                expected: LISTED.into(),
                found: error.to_string(),
            });
            return;
        }
    };
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth < MAX_DEPTH => {
                walk(&entry.path(), depth + 1, problems, each);
            }
            Ok(kind) if !kind.is_dir() => each(&entry.path()),
            _ => {}
        }
    }
}

/// Whether a file has the name of one of a capture's.
pub(crate) fn is_named(path: &Path) -> bool {
    split(path).is_some()
}

/// Opens a regular file: a pipe would never end, and a device need not.
pub(crate) fn open(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    // Opening a pipe waits for its writer, but for this.
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(std::io::Error::new(
        std::io::ErrorKind::InvalidInput,
        "no regular file",
    ))
}

/// An open file that is kept so, as long as not too many are: a rotated trace file may be removed while it is read.
#[derive(Debug)]
pub(crate) struct Held(std::fs::File);

/// How many are held now.
static HELD: AtomicUsize = AtomicUsize::new(0);
/// Half of what a process may usually have open, or less. The files of more are opened again by name.
const MOST_HELD: usize = 400;

impl Held {
    pub(crate) fn new(file: std::fs::File) -> Option<Held> {
        let one_more = |n| (n < MOST_HELD).then_some(n + 1);
        HELD.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        Some(Held(file))
    }

    pub(crate) fn file(&self) -> &std::fs::File {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Relaxed);
    }
}

/// The content of a file, unpacked; as much as could be read when it is damaged, with a problem that says so.
pub(crate) fn load(path: &Path, problems: &mut Vec<Problem>) -> Vec<u8> {
    load_opened(path, open(path).as_ref(), problems)
}

/// The same of a file that was opened, or could not be.
pub(crate) fn load_opened(
    path: &Path,
    file: Result<&std::fs::File, &std::io::Error>,
    problems: &mut Vec<Problem>,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = file.map_err(|error| std::io::Error::new(error.kind(), error.to_string()));
    let read = file.and_then(|file| {
        if path.extension().is_some_and(|e| e == "zst") {
            zstd::Decoder::new(file)?
                .take(MAX_UNPACKED)
                .read_to_end(&mut bytes)
        } else {
            let len = file.metadata().map_or(0, |m| m.len().min(MAX_UNPACKED));
            // Without it, reading takes twice the memory at times.
            let _ = bytes.try_reserve_exact(usize::try_from(len).map_or(0, |len| len + 1));
            file.take(MAX_UNPACKED).read_to_end(&mut bytes)
        }
    });
    if let Err(error) = read {
        problems.push(Problem {
            file: path.to_owned(),
            place: format!("byte {} of its content", bytes.len()),
            expected: "a readable file".into(),
            found: error.to_string(),
        });
    }
    bytes
}
