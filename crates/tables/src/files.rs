//! Finds the files of a capture and reads them, compressed or not, by themselves or in [packs](crate::packs).
//!
//! Files with one stem in one folder belong to one process: `NAME.trace`, `NAME.1.trace` and so on,
//! `NAME.live`, `NAME.snap`, each also as `….zst`. A path to a single trace file, or to the folder of one
//! host, is a capture too.
//!
//! Rule: symbolic links to folders are not followed, so a walk ends.

use crate::packs;
use crate::problem::Problem;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Folders deeper than this are no part of a capture.
const MAX_DEPTH: usize = 8;
/// How much is read of a kind of file. Keeps a file of nothing but holes, or a damaged frame, from filling
/// memory.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    /// No such file is larger.
    pub(crate) most: u64,
    /// Bytes that it may have beyond those that are stored: in holes, or once it is unpacked.
    pub(crate) slack: u64,
}

/// Trace files are appended to, so only a host that went down leaves a hole.
pub(crate) const TRACE: Limit = Limit {
    most: 16 << 30,
    slack: 16 << 20,
};
/// Live parts, of which most may be holes; snapshots and `capture.json`.
pub(crate) const SMALL: Limit = Limit {
    most: 256 << 20,
    slack: 128 << 20,
};
impl Limit {
    /// Of a file that has so many bytes for certain.
    fn of(self, stored: u64) -> u64 {
        stored.saturating_add(self.slack).min(self.most)
    }
}

/// What one stored byte unpacks to at most, on a disk that compresses or in a compressed file. Trace files
/// reach 10.
const RATIO: u64 = 64;

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
    /// What the first of them is called if it is in a pack: as it was before that.
    unpacked: Option<PathBuf>,
}

impl Files {
    /// What problems and reports call the process.
    pub fn path(&self) -> &Path {
        self.unpacked.as_deref().unwrap_or_else(|| self.first())
    }

    fn first(&self) -> &Path {
        let first = [&self.trace, &self.live, &self.snapshot];
        let mut first = first.into_iter().flatten().chain(self.later.values());
        first.next().unwrap_or(&self.stem)
    }

    /// Bytes of its trace files.
    pub fn size(&self) -> u64 {
        let files = self.trace.iter().chain(self.later.values());
        files.map(|path| size(path)).sum()
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
pub(crate) enum FileKind {
    /// With its number.
    Trace(u32),
    Live,
    Snapshot,
}

/// The stem and the kind of a file by its name, and whether it is compressed.
pub(crate) fn split(path: &Path) -> Option<(PathBuf, FileKind, bool)> {
    let name = path.file_name()?.to_str()?;
    let (name, packed) = match name.strip_suffix(".zst") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let (name, kind) = match name.rsplit_once('.')? {
        (name, "trace") => {
            let (name, number) = capture::rotated::split_number(name);
            (name, FileKind::Trace(number))
        }
        (name, "live") => (name, FileKind::Live),
        (name, "snap") => (name, FileKind::Snapshot),
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
            FileKind::Trace(0) => &mut files.trace,
            FileKind::Trace(number) => {
                if !packed || !files.later.contains_key(&number) {
                    files.later.insert(number, file.to_owned());
                }
                return;
            }
            FileKind::Live => &mut files.live,
            FileKind::Snapshot => &mut files.snapshot,
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
    let named = |mut files: Files| {
        let first = files.first();
        let is_packed = packs::is_compressed(first) && first.symlink_metadata().is_err();
        files.unpacked = is_packed.then(|| first.with_extension(""));
        files
    };
    found.into_values().map(named).collect()
}

/// Hands every file in `folder` and below to `each`, and every file that is in a pack there.
pub(crate) fn walk(
    folder: &Path,
    depth: usize,
    problems: &mut Vec<Problem>,
    each: &mut impl FnMut(&Path),
) {
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
    let mut has_packs = false;
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth < MAX_DEPTH => {
                walk(&entry.path(), depth + 1, problems, each);
            }
            Ok(kind) if !kind.is_dir() => {
                let path = entry.path();
                has_packs |= packs::number(&path).is_some();
                each(&path);
            }
            _ => {}
        }
    }
    if has_packs {
        let files = packs::files(folder, problems);
        files.iter().for_each(|file| each(file));
    }
}

/// Whether a file has the name of one of a capture's.
pub(crate) fn is_named(path: &Path) -> bool {
    split(path).is_some()
}

/// Whether there is such a file, by itself or in a pack.
pub(crate) fn exists(path: &Path) -> bool {
    path.exists() || packs::holder(path).is_some()
}

/// Its length in bytes; 0 if it isn't there.
fn size(path: &Path) -> u64 {
    match path.metadata() {
        Ok(meta) => meta.len(),
        Err(_) => packs::holder(path).map_or(0, |(_, len)| len),
    }
}

/// Opens a regular file. If it is only in a pack, what is opened is a copy in memory.
pub(crate) fn open(path: &Path) -> std::io::Result<File> {
    match open_there(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let of_pack = packs::open(path);
            of_pack.map_err(|of_pack| match of_pack.kind() {
                ErrorKind::NotFound => error,
                _ => of_pack,
            })
        }
        opened => opened,
    }
}

/// Whether this is the name of a process's file that is in a pack, compressed or not.
pub(crate) fn is_packed(path: &Path) -> bool {
    is_named(path) && !find(path, &mut Vec::new()).is_empty()
}

/// Opens a regular file. If it is compressed, what is opened is its content in memory.
pub(crate) fn open_uncompressed(path: &Path) -> std::io::Result<File> {
    if !packs::is_compressed(path) {
        return open(path);
    }
    let mut memory = packs::in_memory()?;
    memory.write_all(&load(path, TRACE, &mut Vec::new()))?;
    Ok(memory)
}

/// Opens a regular file: a pipe would never end, and a device need not.
pub(crate) fn open_there(path: &Path) -> std::io::Result<File> {
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
    Err(Error::new(ErrorKind::InvalidInput, "no regular file"))
}

/// An open file that is kept so, as long as not too many are: a rotated trace file may be removed while it is
/// read.
#[derive(Debug)]
pub(crate) struct HeldFile(File);

/// How many are held now.
static HELD: AtomicUsize = AtomicUsize::new(0);
/// Half of what a process may usually have open, or less. The files of more are opened again by name.
const MOST_HELD: usize = 400;

impl HeldFile {
    pub(crate) fn new(file: File) -> Option<HeldFile> {
        let one_more = |n| (n < MOST_HELD).then_some(n + 1);
        HELD.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        Some(HeldFile(file))
    }

    pub(crate) fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Relaxed);
    }
}

/// The content of a file, unpacked; as much as could be read when it is damaged, with a problem that says so.
pub(crate) fn load(path: &Path, limit: Limit, problems: &mut Vec<Problem>) -> Vec<u8> {
    load_opened(path, open(path).as_ref(), limit, problems)
}

/// The same of a file that was opened, or could not be.
pub(crate) fn load_opened(
    path: &Path,
    file: Result<&File, &Error>,
    limit: Limit,
    problems: &mut Vec<Problem>,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = file.map_err(|error| Error::new(error.kind(), error.to_string()));
    let read = file.and_then(|file| {
        let packed = packs::is_compressed(path);
        let len = file.metadata()?.len();
        let stored = stored(file);
        let ratio = if packed { RATIO } else { 1 };
        let most = limit.of(stored.saturating_mul(ratio));
        let read = if packed {
            zstd::Decoder::new(file)?
                .take(most + 1)
                .read_to_end(&mut bytes)
        } else {
            // Without it, reading takes twice the memory at times.
            let room = usize::try_from(len.min(most)).map_or(0, |room| room + 1);
            let _ = bytes.try_reserve_exact(room);
            file.take(most + 1).read_to_end(&mut bytes)
        };
        read.map(|_| (stored, most))
    });
    // A file in a pack is called by both.
    let called = || match path.symlink_metadata() {
        Err(_) => {
            packs::holder(path).map(|(pack, _)| pack.join(path.file_name().unwrap_or_default()))
        }
        Ok(_) => None,
    };
    let problem = |place: String, expected: String, found: String| Problem {
        file: called().unwrap_or_else(|| path.to_owned()),
        place,
        expected,
        found,
    };
    match read {
        Err(error) => problems.push(problem(
            format!("byte {} of its content", bytes.len()),
            "a readable file".into(),
            error.to_string(),
        )),
        Ok((stored, most)) if bytes.len() as u64 > most => {
            bytes.truncate(most as usize);
            problems.push(problem(
                format!("byte {most} of its content"),
                format!("the end of a file that takes {stored} bytes on disk"),
                "more; it was not read".into(),
            ));
        }
        Ok(_) => {}
    }
    bytes
}

/// The text of a small file, such as `capture.json`.
///
/// # Errors
/// Those of reading; when it is no regular file, too large, or no UTF-8.
pub(crate) fn text(path: &Path) -> Result<String, Error> {
    let mut text = String::new();
    let file = open(path)?;
    let most = SMALL.of(stored(&file));
    file.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        let why = format!("more than {most} bytes");
        return Err(Error::new(ErrorKind::InvalidData, why));
    }
    Ok(text)
}

/// How many bytes of a file are really there; its length where the file system does not tell.
pub(crate) fn stored(file: &File) -> u64 {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;
    let Ok(meta) = file.metadata() else { return 0 };
    // Disks that compress store less than there is.
    let blocks = meta.blocks().saturating_mul(512).saturating_mul(RATIO);
    let len = meta.len().min(blocks.max(1 << 20));
    let seek = |from: u64, whence| {
        let from = libc::off64_t::try_from(from).ok()?;
        // SAFETY: a plain system call on an open file; where a reader begins is set anew below.
        let at = unsafe { libc::lseek64(file.as_raw_fd(), from, whence) };
        u64::try_from(at).ok()
    };
    let (mut at, mut there) = (0, 0u64);
    while let Some(begin) = seek(at, libc::SEEK_DATA) {
        let Some(end) = seek(begin, libc::SEEK_HOLE).filter(|end| *end > begin) else {
            break;
        };
        there = there.saturating_add(end - begin);
        at = end;
    }
    let failed = Error::last_os_error().raw_os_error();
    seek(0, libc::SEEK_SET);
    // Behind the last data there is none, which is no failure.
    let told = at > 0 || failed == Some(libc::ENXIO);
    if told {
        there.min(len)
    } else {
        len
    }
}
