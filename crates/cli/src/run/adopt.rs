//! Adoption: keeping the live part of a process that died, as `NAME.live` beside its trace file.
//!
//! A [`Part`] is a copy of a live part, read from the memfd that `ncclscope run` holds or from a file on this node.
//! [`adopt`] writes it into the capture, unless the capture has everything already; [`leftovers`] finds the live parts
//! that processes of this user left on this node; [`traces`] the trace files of a capture.
//!
//! Rule: only a dead writer's part is adopted. A copy of a living one would be taken for its last word by readers,
//! which prefer `NAME.live`.

use anyhow::{bail, Context};
use capture::live::{Image, View, HEADER_BYTES};
use capture::{block, rotated, snapshot};
use nix::fcntl::OFlag;
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// The largest image that is read.
pub const MOST_BYTES: u64 = 256 << 20;

/// The `key=value` lines of a process block.
pub type Process = BTreeMap<String, String>;

/// A copy of a live part.
pub struct Part {
    image: Image,
    bytes: usize,
}

/// Whether the writer of a live part is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It runs on this node.
    Alive,
    /// It does not, or the node was restarted since.
    Dead,
    /// It is on another host or in another pid name space, where its pid means nothing to us, or there is no /proc.
    Unknown,
}

/// What became of a part.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Written to this file.
    Adopted(PathBuf),
    /// The capture had everything in it already.
    Whole,
}

/// This node, as process blocks name it.
pub struct Here {
    /// Its host name.
    pub host: String,
    /// Which boot of it.
    pub boot_id: String,
    /// Inode of our own pid name space.
    pub pid_namespace: u64,
    /// When it was started, ns since 1970.
    pub booted_ns: Option<i64>,
    /// Now, ns since 1970.
    pub now_ns: i64,
}

/// A recorder that lives writes the time many times a second, and a file system that is shared brings it here within
/// a minute.
const SILENT_NS: i64 = 600_000_000_000;

impl Here {
    /// Asks the system.
    pub fn ask() -> Here {
        Here {
            host: nix::unistd::gethostname()
                .map(|h| h.to_string_lossy().into_owned())
                .unwrap_or_default(),
            boot_id: std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            pid_namespace: std::fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino()),
            booted_ns: booted_ns(),
            now_ns: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |passed| {
                    i64::try_from(passed.as_nanos()).unwrap_or(i64::MAX)
                }),
        }
    }

    /// Whether a process of another boot surely ran before this node was started anew. The host name alone proves
    /// nothing, because other machines may have the same: the process must not have been seen since.
    pub fn was_restarted_since(&self, host: Option<&str>, seen_ns: Option<i64>) -> bool {
        let same = !self.host.is_empty() && host.is_none_or(|host| host == self.host);
        let (Some(seen), Some(booted)) = (seen_ns.filter(|ns| *ns > 0), self.booted_ns) else {
            return false;
        };
        same && seen < booted && self.now_ns.saturating_sub(seen) > SILENT_NS
    }
}

/// When this node was started, ns since 1970.
fn booted_ns() -> Option<i64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    seconds
        .trim()
        .parse::<i64>()
        .ok()?
        .checked_mul(1_000_000_000)
}

impl Part {
    /// The live part in `file`; `None` when it holds none.
    ///
    /// Read, never mapped: whoever shares the file could cut it short under a mapping.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn read(file: &File) -> io::Result<Option<Part>> {
        let size = file.metadata()?.len();
        if !(HEADER_BYTES as u64..=MOST_BYTES).contains(&size) {
            return Ok(None);
        }
        let image = Image::zeroed(size as usize);
        let mut buffer = vec![0; 1 << 20];
        let mut at = 0;
        while at < size {
            let want = buffer.len().min((size - at) as usize);
            let mut got = 0;
            while got < want {
                match file.read_at(&mut buffer[got..want], at + got as u64)? {
                    0 => break,
                    n => got += n,
                }
            }
            image.write(at as usize, &buffer[..got]);
            if got < want {
                break;
            }
            at += got as u64;
        }
        Ok(Part::of(image, size as usize))
    }

    /// The live part that a snapshot file holds.
    pub fn of_snapshot(path: &Path) -> Option<Part> {
        let mut file = Vec::new();
        open(path)
            .ok()?
            .take(MOST_BYTES)
            .read_to_end(&mut file)
            .ok()?;
        let image = snapshot::read(&file)?;
        let bytes = std::mem::size_of_val(image.words());
        Part::of(image, bytes)
    }

    fn of(image: Image, bytes: usize) -> Option<Part> {
        image.view()?;
        Some(Part { image, bytes })
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

    fn process_bytes(&self) -> Vec<u8> {
        let header = self.view().header();
        let len = (header.process_len.load(Acquire) as usize).min(header.process.len());
        header.process[..len]
            .iter()
            .map(|b| b.load(Relaxed))
            .collect()
    }

    /// Who wrote it.
    pub fn process(&self) -> Process {
        lines(&self.process_bytes())
    }

    /// Whether its writer is still there.
    pub fn liveness(&self, here: &Here) -> Liveness {
        let process = self.process();
        let (host, boot) = (process.get("host"), process.get("boot_id"));
        if let Some(boot) = boot.filter(|boot| **boot != here.boot_id) {
            // Without /proc, as in a bare chroot, neither side knows.
            let told = !boot.is_empty() && !here.boot_id.is_empty();
            // The same host, started anew; or another of that name, with which a folder is shared.
            let before = here.was_restarted_since(host.map(String::as_str), self.seen_ns());
            return match told && before {
                true => Liveness::Dead,
                false => Liveness::Unknown,
            };
        }
        let header = self.view().header();
        let namespace = header.pid_namespace.load(Relaxed);
        if namespace == 0 || namespace != here.pid_namespace {
            return Liveness::Unknown;
        }
        match runs(header.pid.load(Relaxed), header.pid_start.load(Relaxed)) {
            true => Liveness::Alive,
            false => Liveness::Dead,
        }
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
            && Part::of_snapshot(snap).is_some_and(|kept| {
                kept.ended()
                    && kept.trace_id() == self.trace_id()
                    && kept.announced() == self.announced()
            })
    }

    /// Writes the image to `path` by way of a temporary name; pages of zeros become holes.
    fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("/")))?;
        let words = &self.image.words()[..self.bytes.div_ceil(8).min(self.image.words().len())];
        let mut page = Vec::with_capacity(4096);
        for (number, chunk) in words.chunks(512).enumerate() {
            if chunk.iter().all(|word| word.load(Relaxed) == 0) {
                continue;
            }
            page.clear();
            page.extend(
                chunk
                    .iter()
                    .flat_map(|word| word.load(Relaxed).to_le_bytes()),
            );
            file.seek(SeekFrom::Start(number as u64 * 4096))?;
            file.write_all(&page)?;
        }
        file.as_file().set_len(self.bytes as u64)?;
        file.persist(path)?;
        Ok(())
    }
}

/// Whether process `pid` runs and is the one that started at `start`.
fn runs(pid: u32, start: u64) -> bool {
    state(pid, start).is_some()
}

/// The state of process `pid` as in /proc, such as `S`, if it runs and is the one that started at `start`.
pub fn state(pid: u32, start: u64) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command may hold anything, but for the last parenthesis; the state is field 3 and the start time field 22.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.get(19)?.parse::<u64>() != Ok(start) {
        return None;
    }
    // A first thread that has ended is a zombie too while other threads of the process go on.
    let others =
        || std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|tasks| tasks.count() > 1);
    let state = fields[0].chars().next()?;
    (!matches!(state, 'Z' | 'X') || others()).then_some(state)
}

/// Opens a regular file, not through a link and without waiting.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        )),
    }
}

/// The live part in the file at `path`, if there is one that can be read.
pub fn part_at(path: &Path) -> Option<Part> {
    Part::read(&open(path).ok()?).ok()?
}

fn lines(text: &[u8]) -> Process {
    let text = String::from_utf8_lossy(text);
    text.lines()
        .filter_map(|l| l.split_once('='))
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect()
}

/// Who wrote a trace file, from its first block.
pub fn process_of(trace: &Path) -> Process {
    let mut bytes = Vec::new();
    let mut process = Process::new();
    if let Ok(file) = open(trace) {
        if file.take(64 << 10).read_to_end(&mut bytes).is_ok() {
            let first = |b: block::Block| {
                if b.kind == block::Kind::Process as u16 && process.is_empty() {
                    process = lines(b.payload);
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
pub fn inside(capture: &Path, trace: &Path) -> anyhow::Result<()> {
    let plain = trace.is_absolute() && !trace.components().any(|c| c == Component::ParentDir);
    if !plain || trace.extension().is_none_or(|e| e != "trace") || trace.file_stem().is_none() {
        bail!("`{}` is no absolute path of a trace file", trace.display());
    }
    let capture = capture
        .canonicalize()
        .with_context(|| format!("`{}`", capture.display()))?;
    // The host's folder may not be there yet; what is there must be in the capture.
    let there = trace
        .ancestors()
        .skip(1)
        .find_map(|folder| folder.canonicalize().ok());
    match there.is_some_and(|folder| folder.starts_with(&capture)) {
        true => Ok(()),
        false => bail!(
            "`{}` is not in the capture `{}`",
            trace.display(),
            capture.display()
        ),
    }
}

/// Keeps `part` beside `trace`, its writer's trace file, unless nothing in it is missing there.
///
/// A writer that died before it made its trace file gets one that says who it was, so that readers see it.
///
/// # Errors
/// When the trace file is another process's, or the folder can't be written to.
pub fn adopt(part: &Part, trace: &Path) -> anyhow::Result<Outcome> {
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
    match open(trace) {
        Ok(mut file) => {
            let mut header = [0; block::FILE_HEADER];
            // A file without a whole header was being made when its writer died.
            if file.read_exact(&mut header).is_ok()
                && block::trace_id(&header).is_ok_and(|id| id != part.trace_id())
            {
                bail!(
                    "`{}` is another process's trace file than {:016x}",
                    trace.display(),
                    part.trace_id()
                );
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut bytes = block::file_header(part.trace_id()).to_vec();
            let start = block::begin(&mut bytes);
            bytes.extend(part.process_bytes());
            block::finish(&mut bytes, start, block::Kind::Process, 0);
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

/// A live part in a file of this node, with the trace file that it belongs to.
pub struct Leftover {
    /// Where it is.
    pub file: PathBuf,
    /// Its process's trace file, as that named it.
    pub trace: PathBuf,
    /// All of it.
    pub part: Part,
}

/// The live parts that this user's processes, dead or alive, have in files of this node (in /dev/shm, or where the
/// recorder goes when that is full), of which `wanted(file, trace file)`.
///
/// Of others no more than the first page is read: hundreds may be there of earlier jobs, of megabytes each.
pub fn leftovers(wanted: impl Fn(&Path, &Path) -> bool) -> Vec<Leftover> {
    let uid = nix::unistd::geteuid().as_raw();
    let local = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    let mut found = Vec::new();
    for place in [Path::new("/dev/shm"), &local] {
        let folder = place.join(format!("ncclscope-{uid}"));
        let ours = |m: std::fs::Metadata| m.is_dir() && m.uid() == uid && m.mode() & 0o022 == 0;
        if std::fs::symlink_metadata(&folder).is_ok_and(ours) {
            found.extend(leftovers_in(&folder, &wanted));
        }
    }
    found.sort_by(|a, b| a.file.cmp(&b.file));
    found
}

fn leftovers_in(folder: &Path, wanted: impl Fn(&Path, &Path) -> bool) -> Vec<Leftover> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let wanted = entries.filter_map(|entry| {
        let file = entry.path();
        let trace = trace_named_in(&file).filter(|trace| wanted(&file, trace))?;
        let part = part_at(&file)?;
        Some(Leftover { file, trace, part })
    });
    wanted.collect()
}

/// The trace file that the live part in `file` names in its first page.
fn trace_named_in(file: &Path) -> Option<PathBuf> {
    let mut start = Vec::with_capacity(HEADER_BYTES);
    let mut first = open(file).ok()?.take(HEADER_BYTES as u64);
    first.read_to_end(&mut start).ok()?;
    let trace = lines(capture::live::facts(&start)?).remove("trace")?;
    Some(PathBuf::from(trace))
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

/// Hands the files below `folder` to `each`, in order of their names, until it returns false. Follows no links.
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
            let part = Part::of(image, layout.bytes()).expect("a part");
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
        assert_eq!(left.part.process()["pid"], "1");
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

    const MINUTE: i64 = 60_000_000_000;

    #[test]
    fn only_a_process_of_this_host_and_name_space_can_be_known_to_be_dead() {
        let here = Here {
            host: "node1".to_owned(),
            boot_id: "aa".to_owned(),
            pid_namespace: 7,
            booted_ns: Some(MINUTE),
            now_ns: 20 * MINUTE,
        };
        let last_seen = |facts: &str, namespace: u64, seen: i64| {
            let layout = capture::live::Layout::for_memory(0);
            let image = Image::zeroed(layout.bytes());
            // SAFETY: the image is zeroed, long enough and outlives the view.
            let view = unsafe { View::create(image.words().as_ptr() as *mut u8, &layout) };
            let header = view.header();
            for (to, from) in header.process.iter().zip(facts.bytes()) {
                to.store(from, Relaxed);
            }
            header.process_len.store(facts.len() as u32, Relaxed);
            header.pid.store(u32::MAX, Relaxed);
            header.pid_namespace.store(namespace, Relaxed);
            header.last.realtime.store(seen as u64, Relaxed);
            header.magic.store(capture::live::MAGIC, Relaxed);
            Part::of(image, layout.bytes())
                .expect("a part")
                .liveness(&here)
        };
        let liveness = |facts: &str, namespace: u64| last_seen(facts, namespace, MINUTE / 2);
        // Its pid is nobody's.
        assert_eq!(liveness("host=node1\nboot_id=aa\n", 7), Liveness::Dead);
        // The node was started anew.
        assert_eq!(liveness("host=node1\nboot_id=bb\n", 7), Liveness::Dead);
        // Another machine of that name, whose process was seen since; or nobody knows when it was seen.
        for seen in [2 * MINUTE, 20 * MINUTE, 0] {
            let found = last_seen("host=node1\nboot_id=bb\n", 7, seen);
            assert_eq!(found, Liveness::Unknown, "{seen}");
        }
        for (facts, namespace) in [
            ("host=node2\nboot_id=bb\n", 7),
            ("host=node1\nboot_id=aa\n", 8),
            // Recorded where there is no /proc.
            ("host=node1\nboot_id=\n", 0),
            ("host=node1\nboot_id=aa\n", 0),
        ] {
            let found = liveness(facts, namespace);
            assert_eq!(found, Liveness::Unknown, "{facts} {namespace}");
        }
    }

    #[test]
    fn this_process_runs_and_no_earlier_one_with_its_pid_does() {
        let stat = std::fs::read_to_string("/proc/self/stat").expect("read");
        let start = stat
            .rsplit_once(')')
            .expect("fields")
            .1
            .split_whitespace()
            .nth(19)
            .expect("start")
            .parse()
            .expect("number");
        assert!(runs(std::process::id(), start));
        assert!(!runs(std::process::id(), start + 1));
        assert!(!runs(u32::MAX, start));
    }
}
