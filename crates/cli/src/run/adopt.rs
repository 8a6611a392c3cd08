//! Adoption: keeping the live part of a process that died, as `NAME.live` beside its trace file.
//!
//! [`leftovers`] finds the live parts that processes of this user have on this node, by their first pages. A
//! [`Part`] is a copy of a live part, read from such a file. [`adopt`] writes it into the capture, unless the
//! capture has everything already. [`traces`] finds the trace files of a capture.
//!
//! Rule: only a dead writer's part is adopted. A copy of a living one would be taken for its last word by
//! readers, which prefer `NAME.live`.

use super::apart;
use anyhow::{bail, Context};
use capture::left::facts_of;
pub use capture::left::{open, Facts, Here, Left, Liveness};
use capture::live::{Image, View, HEADER_BYTES};
use capture::{block, rotated, snapshot};
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Bytes of a snapshot file, or of an adopted live part, that are read at most.
const MOST_BYTES: u64 = 256 << 20;

/// A copy of a live part.
pub struct LivePart {
    image: Image,
    bytes: usize,
}

/// What became of a part.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Written to this file.
    Adopted(PathBuf),
    /// The capture had everything in it already.
    Whole,
}

impl LivePart {
    /// The live part in `file`, in use or adopted; `None` when it holds none.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn read(file: &File) -> io::Result<Option<LivePart>> {
        let mut bytes = Vec::new();
        file.take(HEADER_BYTES as u64).read_to_end(&mut bytes)?;
        let found = if snapshot::is_whole(&bytes) {
            file.take(MOST_BYTES).read_to_end(&mut bytes)?;
            snapshot::read_whole(&bytes)
        } else {
            Image::read(file)?
        };
        Ok(found.and_then(|(image, bytes)| LivePart::of(image, bytes)))
    }

    /// The live part that a snapshot file holds.
    pub fn of_snapshot(path: &Path) -> Option<LivePart> {
        let mut file = Vec::new();
        plain_or_packed(path)
            .ok()?
            .take(MOST_BYTES)
            .read_to_end(&mut file)
            .ok()?;
        let image = snapshot::read(&file)?;
        let bytes = std::mem::size_of_val(image.words());
        LivePart::of(image, bytes)
    }

    fn of(image: Image, bytes: usize) -> Option<LivePart> {
        image.view()?;
        Some(LivePart { image, bytes })
    }

    fn view(&self) -> View<'_> {
        self.image
            .view()
            .expect("opened when it was read, and nobody writes to the copy")
    }

    /// The id it shares with its trace file.
    pub fn trace_id(&self) -> u64 {
        self.view().header().trace_id.load(Relaxed)
    }

    /// Calls announced to its writer.
    pub fn announced(&self) -> u64 {
        self.view().header().announced()
    }

    /// The newest time that its writer wrote, ns since 1970.
    pub fn seen_ns(&self) -> Option<i64> {
        let newest = &self.view().header().last;
        i64::try_from(newest.realtime.load(Relaxed)).ok()
    }

    /// Its first page.
    fn first_page(&self) -> Vec<u8> {
        let words = self.image.words().iter().take(HEADER_BYTES / 8);
        words.flat_map(|w| w.load(Relaxed).to_le_bytes()).collect()
    }

    /// Who wrote it.
    pub fn left(&self) -> Left {
        Left::of(&self.first_page()).unwrap_or_default()
    }

    /// Whether the writer said that it had put everything into its trace file.
    pub fn ended(&self) -> bool {
        let view = self.view();
        let header = view.header();
        header.state.load(Acquire) == 1
            && header.staged_len.load(Acquire) == 0
            && view
                .rows()
                .iter()
                .all(|row| row.word.load(Acquire) & 3 == capture::live::row_state::FREE)
    }

    /// Whether `snap` and the trace file beside it hold all that this part does.
    fn is_in(&self, snap: &Path) -> bool {
        // Totals and counters are in the live part alone, so the snapshot must be as new as this.
        self.ended()
            && LivePart::of_snapshot(snap).is_some_and(|kept| {
                kept.ended()
                    && kept.trace_id() == self.trace_id()
                    && kept.announced() == self.announced()
            })
    }

    /// Writes the part to `path` by way of a temporary name, with a checksum.
    fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("/")))?;
        file.write_all(&snapshot::whole(&self.image, self.bytes))?;
        file.persist(path)?;
        Ok(())
    }
}

/// The live part in the file at `path`, if there is one that can be read.
pub fn part_at(path: &Path) -> Option<LivePart> {
    LivePart::read(&open(path).ok()?).ok()?
}

/// Who wrote a trace file, from its first block.
pub fn process_of(trace: &Path) -> Facts {
    let mut bytes = Vec::new();
    let mut process = Facts::new();
    if let Ok(file) = open(trace) {
        if file.take(64 << 10).read_to_end(&mut bytes).is_ok() {
            let first = |b: block::Block| {
                if b.kind == block::BlockKind::Process as u16 && process.is_empty() {
                    process = facts_of(b.payload);
                }
            };
            block::read(&bytes, first, |_| {});
        }
    }
    process
}

/// `trace` when it is a trace file's path in `capture`, by names and by what links make of them.
///
/// # Errors
/// When it leads elsewhere, or has no trace file's name.
pub fn inside(given: &Path, trace: &Path) -> anyhow::Result<()> {
    let plain = trace.is_absolute() && !trace.components().any(|c| c == Component::ParentDir);
    if !plain || trace.extension().is_none_or(|e| e != "trace") || trace.file_stem().is_none() {
        bail!("`{}` is no absolute path of a trace file", trace.display());
    }
    let capture = given
        .canonicalize()
        .with_context(|| format!("`{}`", given.display()))?;
    let named_in = |folder: &Path| trace.starts_with(folder);
    let is_named = named_in(&capture) || std::path::absolute(given).is_ok_and(|of| named_in(&of));
    let there = if is_named {
        nearest(trace)
    } else {
        apart::nearest(trace)
    };
    if there.is_some_and(|folder| folder.starts_with(&capture)) {
        Ok(())
    } else {
        bail!(
            "`{}` is not in the capture `{}`",
            trace.display(),
            capture.display()
        )
    }
}

/// The nearest folder of a trace file that is there, without links. The host's folder may not be there yet.
pub fn nearest(trace: &Path) -> Option<PathBuf> {
    let mut folders = trace.ancestors().skip(1);
    folders.find_map(|folder| folder.canonicalize().ok())
}

/// What is in the place in which a trace file says that its live part is.
pub enum Named {
    /// The live part of that very process.
    Part(Left),
    /// No file.
    Absent,
    /// A file that is none of this user's live parts, or belongs to another trace file. A capture that
    /// somebody else prepared may name any file. This says what it is.
    Foreign(String),
}

/// Looks at `place`, in which `trace` says that its live part is.
///
/// A live part is this user's, in a folder `ncclscope-UID` that nobody else can write to. It and `trace` name
/// each other, and have the same id. If `trace` was moved, the id and the file's name must do, and nothing
/// may
/// be left in the old place.
pub fn named(place: &Path, trace: &Path) -> Named {
    let foreign = |why: &str| Named::Foreign(why.to_owned());
    match std::fs::symlink_metadata(place) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Named::Foreign(format!("it can't be read ({error})"))
        }
        Err(_) => return Named::Absent,
    }
    if !place.parent().is_some_and(capture::left::is_ours) {
        return foreign("it is in no folder of your own live parts");
    }
    let left = match open(place) {
        Ok(file) if file.metadata().is_ok_and(|m| m.uid() == uid()) => Left::at(place),
        Ok(_) => return foreign("it is another user's"),
        Err(error) => return Named::Foreign(format!("it can't be read ({error})")),
    };
    let Some(left) = left else {
        return foreign("it is no live part");
    };
    let own = left.trace().is_some_and(|own| {
        same_for_all(own) == same_for_all(trace)
            || own.file_name() == trace.file_name() && std::fs::symlink_metadata(own).is_err()
    });
    if !own {
        return foreign("it is the live part of another trace file");
    }
    match trace_id_of(trace) {
        Ok(Some(id)) if id == left.start.trace_id => Named::Part(left),
        _ => foreign("its id is not that of the trace file"),
    }
}

/// A file of a capture, by itself or in a pack.
fn plain_or_packed(path: &Path) -> io::Result<Box<dyn Read>> {
    match open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => tables::packs::content(path),
        file => Ok(Box::new(file?)),
    }
}

/// Whether there is such a file of a capture, by itself or in a pack.
pub fn is_there(path: &Path) -> bool {
    plain_or_packed(path).is_ok()
}

/// The id in the header of a trace file; `None` if it ends before its header does, because its writer died
/// while it made the file.
fn trace_id_of(trace: &Path) -> io::Result<Option<u64>> {
    let mut header = Vec::new();
    let file = plain_or_packed(trace)?;
    let mut start = file.take(block::FILE_HEADER as u64);
    start.read_to_end(&mut header)?;
    if header.len() < block::FILE_HEADER {
        return Ok(None);
    }
    let damaged = |_| io::Error::new(io::ErrorKind::InvalidData, "its header is damaged");
    block::trace_id(&header).map(Some).map_err(damaged)
}

/// One name for a trace file, however its path is written; it need not be there.
pub fn same_for_all(trace: &Path) -> PathBuf {
    let folder = trace.parent().filter(|p| !p.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize();
    match (folder, trace.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => trace.to_owned(),
    }
}

fn uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Keeps `part` beside `trace`, its writer's trace file, unless nothing in it is missing there.
///
/// A writer that died before it made its trace file gets one that says who it was, so that readers see it.
///
/// # Errors
/// When the trace file is another process's, or the folder can't be written to.
pub fn adopt(part: &LivePart, trace: &Path) -> anyhow::Result<Outcome> {
    let live = trace.with_extension("live");
    if part.is_in(&trace.with_extension("snap"))
        || part_at(&live).is_some_and(|kept| kept.trace_id() == part.trace_id())
    {
        return Ok(Outcome::Whole);
    }
    let folder = trace.parent().unwrap_or(Path::new("/"));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("`{}`", folder.display()))?;
    match trace_id_of(trace) {
        Ok(None) => {}
        Ok(Some(id)) if id == part.trace_id() => {}
        Ok(Some(_)) => bail!(
            "`{}` is another process's trace file than {:016x}",
            trace.display(),
            part.trace_id()
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut bytes = block::file_header(part.trace_id()).to_vec();
            let start = block::begin(&mut bytes);
            bytes.extend(
                capture::live::start(&part.first_page()).map_or(&[][..], |(_, facts)| facts),
            );
            block::finish(&mut bytes, start, block::BlockKind::Process, 0);
            let mut options = OpenOptions::new();
            let file = options.write(true).create_new(true).mode(0o600).open(trace);
            file.and_then(|mut f| f.write_all(&bytes))
                .with_context(|| format!("`{}`", trace.display()))?;
        }
        Err(error) => return Err(error).with_context(|| format!("`{}`", trace.display())),
    }
    part.write(&live)
        .with_context(|| format!("`{}`", live.display()))?;
    Ok(Outcome::Adopted(live))
}

/// A live part in a file of this node.
pub struct Leftover {
    /// Where it is.
    pub file: PathBuf,
    /// Its process's trace file, as that named it.
    pub trace: PathBuf,
    /// Its first page.
    pub left: Left,
}

/// The live parts that this user's processes, dead or alive, have in files of this node, of which
/// `wanted(file, trace file)`.
///
/// No more than first pages are read: hundreds may be there of earlier jobs, of megabytes each.
pub fn leftovers(wanted: impl Fn(&Path, &Path) -> bool) -> Vec<Leftover> {
    let folders = capture::left::folders(uid());
    let mut found: Vec<Leftover> = folders
        .flat_map(|folder| leftovers_in(&folder, &wanted))
        .collect();
    found.sort_by(|a, b| a.file.cmp(&b.file));
    found
}

/// The live parts of which `known` does not know the file yet, and whose trace file `wanted` tells.
pub fn new_leftovers(
    known: &mut BTreeSet<PathBuf>,
    wanted: impl Fn(&Path) -> bool,
) -> Vec<Leftover> {
    let folders = capture::left::folders(uid());
    let entries =
        folders.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    let files: BTreeSet<PathBuf> = entries.map(|entry| entry.path()).collect();
    // Memory is for those that are there.
    known.retain(|file| files.contains(file));
    let mut new = Vec::new();
    for file in files {
        // One that is being made has no content yet.
        let left = (!known.contains(&file)).then(|| Left::at(&file)).flatten();
        if let Some(left) = left {
            known.insert(file.clone());
            new.extend(Leftover::of(file, left, |_, trace| wanted(trace)));
        }
    }
    new
}

/// Removes the live parts that processes of this user left on this node and that no capture needs any more.
pub fn sweep() {
    let here = Here::ask();
    for folder in capture::left::folders(uid()) {
        capture::left::sweep(&folder, &here, (usize::MAX, 0), |_| true);
    }
}

impl Leftover {
    /// What was read of a file, if `wanted(file, trace file)`.
    fn of(file: PathBuf, left: Left, wanted: impl Fn(&Path, &Path) -> bool) -> Option<Leftover> {
        let trace = left
            .trace()
            .filter(|trace| wanted(&file, trace))?
            .to_owned();
        Some(Leftover { file, trace, left })
    }

    /// All of it, if it is still there.
    pub fn part(&self) -> Option<LivePart> {
        part_at(&self.file)
    }
}

fn leftovers_in(folder: &Path, wanted: impl Fn(&Path, &Path) -> bool) -> Vec<Leftover> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let wanted = entries.filter_map(|entry| {
        let file = entry.path();
        let left = Left::at(&file)?;
        Leftover::of(file, left, &wanted)
    });
    wanted.collect()
}

/// The first trace file of the process whose file this is.
pub fn trace_of(file: &Path) -> PathBuf {
    let first = file.with_extension("trace");
    let Some(stem) = file.file_stem().and_then(std::ffi::OsStr::to_str) else {
        return first;
    };
    first.with_file_name(format!("{}.trace", rotated::split_number(stem).0))
}

/// Folders below a capture's own that may hold trace files: a restart, a host, and two of an output pattern.
const DEPTH: usize = 4;
/// Entries that are looked at before a folder is taken for something else than a capture.
const MOST_ENTRIES: usize = 1 << 20;

/// Hands the files below `folder` to `each`, in order of their names, until it returns false. Follows no
/// links.
pub fn walk(folder: &Path, each: &mut impl FnMut(&Path) -> bool) {
    fn below(
        folder: &Path,
        depth: usize,
        left: &mut usize,
        each: &mut impl FnMut(&Path) -> bool,
    ) -> bool {
        let mut entries: Vec<_> = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .take(*left)
            .collect();
        *left -= entries.len();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        entries.iter().all(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => depth == 0 || below(&entry.path(), depth - 1, left, each),
            Ok(kind) if kind.is_file() => each(&entry.path()),
            _ => true,
        })
    }
    below(folder, DEPTH, &mut MOST_ENTRIES.clone(), each);
}

/// Whether a file is a process's first trace file, which says who that is and is never removed.
fn is_first_trace(path: &Path) -> bool {
    let stem = path.file_stem().and_then(std::ffi::OsStr::to_str);
    let later = stem.is_some_and(|stem| rotated::split_number(stem).1 > 0);
    path.extension().is_some_and(|e| e == "trace") && !later
}

/// The first trace file of each process of a capture.
pub fn traces(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(folder, &mut |path| {
        if is_first_trace(path) {
            found.push(path.to_owned());
        }
        true
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_out_of_the_capture_are_refused() {
        let root = tempfile::tempdir().expect("a folder");
        let capture = root.path().join("capture");
        std::fs::create_dir_all(capture.join("host")).expect("made");
        std::os::unix::fs::symlink("/tmp", capture.join("link")).expect("made");
        let ok = |path: &str| inside(&capture, &capture.join(path)).is_ok();
        assert!(ok("host/r0-p1-0.trace") && ok("restart-1/new/r0-p1-0.trace"));
        assert!(
            !ok("../r0.trace")
                && !ok("host/../../r0.trace")
                && !ok("link/r0.trace")
                && !ok("link/new/r0.trace")
        );
        assert!(!ok("/etc/r0.trace") && !ok("host/r0.live") && !ok("host/.trace"));
        assert!(inside(&capture, Path::new("host/r0.trace")).is_err());
    }

    #[test]
    fn a_trace_file_has_one_name_whether_it_is_there_or_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("there");
        std::os::unix::fs::symlink(&root, root.join("link")).expect("linked");
        let same = root.join("r0.trace");
        assert_eq!(same_for_all(&root.join("link/r0.trace")), same);
        assert_eq!(
            same_for_all(Path::new("/nowhere/at/all.trace")),
            Path::new("/nowhere/at/all.trace")
        );
    }

    #[test]
    fn only_leftovers_of_wanted_trace_files_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let layout = capture::live::Layout::for_memory(0);
        let left = |name: &str, trace: &str| {
            let image = Image::zeroed(layout.bytes());
            // SAFETY: the image is zeroed, long enough and outlives the view.
            let view = unsafe { View::create(image.words().as_ptr() as *mut u8, &layout) };
            let header = view.header();
            let facts = format!("pid=1\ntrace={trace}\n");
            for (to, from) in header.process.iter().zip(facts.bytes()) {
                to.store(from, Relaxed);
            }
            header.process_len.store(facts.len() as u32, Relaxed);
            header.magic.store(capture::live::MAGIC, Relaxed);
            let part = LivePart::of(image, layout.bytes()).expect("a part");
            part.write(&folder.path().join(name)).expect("written");
        };
        left("a.live", "/one/h/r0-p1-aa.trace");
        left("b.live", "/two/h/r0-p1-bb.trace");
        std::fs::write(folder.path().join("c.live"), "short").expect("written");
        let asked = std::cell::RefCell::new(Vec::new());
        let found = leftovers_in(folder.path(), |_, trace| {
            asked.borrow_mut().push(trace.to_owned());
            trace.starts_with("/two")
        });
        assert_eq!(asked.borrow().len(), 2);
        let [left] = &found[..] else {
            panic!("{} found", found.len())
        };
        assert_eq!(left.trace, Path::new("/two/h/r0-p1-bb.trace"));
        assert_eq!(left.file, folder.path().join("b.live"));
        assert_eq!(left.left.facts["pid"], "1");
    }

    #[test]
    fn a_process_is_known_by_its_first_trace_file() {
        assert!(is_first_trace(Path::new("h/r0-p1-aa.trace")));
        assert!(!is_first_trace(Path::new("h/r0-p1-aa.2.trace")));
        assert!(!is_first_trace(Path::new("h/r0-p1-aa.live")));
        for file in ["r0-p1-aa.trace", "r0-p1-aa.snap", "r0-p1-aa.12.trace"] {
            let first = trace_of(&Path::new("h").join(file));
            assert_eq!(first, Path::new("h/r0-p1-aa.trace"));
        }
    }
}
