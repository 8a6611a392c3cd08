//! What processes left in the memory of this node: who left a live part, whether that process still runs, and
//! whether a capture still needs the part.
//!
//! A [`Left`] is read from the first page of a live part. [`sweep`] removes the live parts in a folder that
//! no capture needs.
//!
//! Rule: a live part is removed only if its process is known to be dead. In addition, its whole content must
//! be in a capture, or its capture must have been removed.

use crate::live::{self, HEADER_BYTES};
use crate::{block, snapshot};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The `key=value` lines of a Process block.
pub type Facts = BTreeMap<String, String>;

/// Whether the writer of a live part still runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Liveness {
    /// It runs on this node.
    Alive,
    /// It does not, or the node was restarted since.
    Dead,
    /// It is on another host or in another pid name space, where its pid means nothing to us, or there is no
    /// /proc.
    #[default]
    Unknown,
}

/// This node, as the facts of processes name it.
#[derive(Clone, Debug, Default)]
pub struct Here {
    /// Its host name.
    pub host: String,
    /// Which boot of it.
    pub boot_id: String,
    /// Inode of our own pid name space; 0 if it is not known.
    pub pid_namespace: u64,
    /// When it was started, ns since 1970.
    pub booted_ns: Option<i64>,
    /// Now, ns since 1970.
    pub now_ns: i64,
}

/// A recorder that lives writes the time many times a second, and a file system that is shared brings it here
/// within a minute.
const SILENT_NS: i64 = 600_000_000_000;

impl Here {
    /// Asks the system.
    pub fn ask() -> Here {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        Here {
            host: host().unwrap_or_default(),
            boot_id: boot_id.unwrap_or_default().trim().to_owned(),
            pid_namespace: std::fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino()),
            booted_ns: booted_ns(),
            now_ns: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |passed| {
                    i64::try_from(passed.as_nanos()).unwrap_or(i64::MAX)
                }),
        }
    }

    /// Whether a process of another boot surely ran before this node was started anew. The host name alone
    /// proves nothing, because other machines may have the same: the process must not have been seen since.
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

/// This host's name.
pub fn host() -> Option<String> {
    let mut name = [0u8; 256];
    // SAFETY: the buffer is as long as said; its last byte stays 0.
    let result = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let len = name.iter().position(|b| *b == 0)?;
    let known = result == 0 && len > 0;
    known.then(|| String::from_utf8_lossy(&name[..len]).into_owned())
}

/// At most 100 characters of `text`, for a part of a path: what is neither a letter of ASCII, a digit nor one
/// of `._-` becomes `_`.
pub fn path_part(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let characters = text.chars().map(|c| if fits(c) { c } else { '_' });
    characters.take(100).collect()
}

/// `text` as one path component: the folder of a host in a capture has such a name.
pub fn file_name(text: &str) -> String {
    let clean = path_part(text);
    if clean.trim_matches('.').is_empty() {
        format!("_{clean}")
    } else {
        clean
    }
}

/// The first page of a live part.
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// Who left it.
    pub facts: Facts,
    /// What its header says.
    pub start: live::Start,
}

impl Left {
    /// From the first [`HEADER_BYTES`] of a live part; `None` if they are something else.
    pub fn of(first_page: &[u8]) -> Option<Left> {
        let (start, facts) = live::start(first_page)?;
        Some(Left {
            facts: facts_of(facts),
            start,
        })
    }

    /// Of the live part in a file.
    pub fn at(file: &Path) -> Option<Left> {
        let page = beginning(file, HEADER_BYTES)?;
        if !snapshot::is_whole(&page) {
            return Left::of(&page);
        }
        let (image, _) = snapshot::read_whole(&beginning(file, ADOPTED)?)?;
        let words = image.words().iter().take(HEADER_BYTES / 8);
        let page = words.flat_map(|word| word.load(Relaxed).to_le_bytes());
        Left::of(&page.collect::<Vec<u8>>())
    }

    /// As far as it is known from the facts of a Process block.
    pub fn of_facts(facts: Facts) -> Left {
        let number = |key: &str| facts.get(key).and_then(|value| value.parse().ok());
        let start = live::Start {
            pid: number("pid").unwrap_or(0) as u32,
            pid_start: number("pid_start").unwrap_or(0),
            pid_namespace: number("pid_namespace").unwrap_or(0),
            ..live::Start::default()
        };
        Left { facts, start }
    }

    /// The trace file that its process named.
    pub fn trace(&self) -> Option<&Path> {
        self.facts.get("trace").map(Path::new)
    }

    /// Whether its process still runs.
    pub fn liveness(&self, here: &Here) -> Liveness {
        let (host, boot) = (self.facts.get("host"), self.facts.get("boot_id"));
        if let Some(boot) = boot.filter(|boot| **boot != here.boot_id) {
            // Without /proc, as in a bare chroot, neither side knows.
            let told = !boot.is_empty() && !here.boot_id.is_empty();
            // The same host, started anew; or another of that name, with which a folder is shared.
            let seen = i64::try_from(self.start.last_realtime).ok();
            let here_before = here.was_restarted_since(host.map(String::as_str), seen);
            return if told && here_before {
                Liveness::Dead
            } else {
                Liveness::Unknown
            };
        }
        let namespace = self.start.pid_namespace;
        if namespace == 0 || namespace != here.pid_namespace {
            return Liveness::Unknown;
        }
        match state(self.start.pid, self.start.pid_start) {
            Some(_) => Liveness::Alive,
            None => Liveness::Dead,
        }
    }

    /// Whether the process said that it had put everything into its trace file.
    fn has_ended(&self) -> bool {
        let start = &self.start;
        start.state == 1 && start.staged_len == 0 && start.born == start.sealed + start.folded
    }

    /// Whether the trace file and the snapshot beside it have all that this has.
    fn is_in_capture(&self, trace: &Path) -> bool {
        let newest = || {
            let file = open(&trace.with_extension("snap")).ok()?;
            Left::of(&snapshot::first_page(&file, SNAPSHOT)?)
        };
        // Totals and counters are in the live part alone, so the snapshot must be as new as this.
        self.has_ended()
            && newest().is_some_and(|kept| {
                kept.has_ended()
                    && kept.start.trace_id == self.start.trace_id
                    && kept.start.announced() == self.start.announced()
            })
    }

    /// For how long its process has written nothing.
    fn age(&self) -> Duration {
        let last = UNIX_EPOCH + Duration::from_nanos(self.start.last_realtime);
        SystemTime::now().duration_since(last).unwrap_or_default()
    }

    /// Whether a capture needs it. Its process is dead.
    fn is_needed(&self) -> bool {
        let Some(trace) = self.trace() else {
            return false;
        };
        let same = |left: &Left| left.start.trace_id == self.start.trace_id;
        if Left::at(&trace.with_extension("live")).is_some_and(|kept| same(&kept)) {
            return false;
        }
        match beginning(trace, block::FILE_HEADER) {
            // A file without a whole header was being made when its process died.
            Some(header) => {
                let other = block::trace_id(&header).is_ok_and(|id| id != self.start.trace_id);
                !other && !self.is_in_capture(trace)
            }
            // Its process made the file, and somebody removed it, or it died before its first call. Or the
            // file system is not here now.
            None => {
                let may_be_alone = self.start.staged_base == 0 && self.start.announced() > 0;
                may_be_alone || self.age() < REMOVED
            }
        }
    }
}

/// Bytes of an adopted live part, at most.
const ADOPTED: usize = 256 << 20;
/// Bytes of the newest snapshot of a process that has ended, at most.
const SNAPSHOT: usize = 1 << 20;
/// For how long a process has been dead at least when its capture counts as removed.
const REMOVED: Duration = Duration::from_secs(3600);

/// The facts in the text of a Process block.
pub fn facts_of(text: &[u8]) -> Facts {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter_map(|line| line.split_once('='));
    lines.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

/// The state of process `pid` as in /proc, such as `S`, if it runs and is the one that started at `start`.
pub fn state(pid: u32, start: u64) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command may hold anything, but for the last parenthesis; the state is field 3 and the start time
    // field 22.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.get(19)?.parse::<u64>() != Ok(start) {
        return None;
    }
    // A first thread that has ended is a zombie too while other threads of the process go on.
    let others =
        || std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|tasks| tasks.count() > 1);
    let state = fields.first()?.chars().next()?;
    (!matches!(state, 'Z' | 'X') || others()).then_some(state)
}

/// Opens a regular file, not through a link and without waiting.
///
/// # Errors
/// When it can't be opened, or is something else.
pub fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "not a regular file",
    ))
}

/// Up to so many bytes from the beginning of a file.
fn beginning(path: &Path, bytes: usize) -> Option<Vec<u8>> {
    let mut start = Vec::with_capacity(bytes.min(HEADER_BYTES));
    let mut first = open(path).ok()?.take(bytes as u64);
    first.read_to_end(&mut start).ok()?;
    Some(start)
}

/// The folders in which recorders of user `uid` make their live parts on this node. They are in /dev/shm, or
/// in the place that the recorder takes when /dev/shm is full. A folder that others can write to is left out.
pub fn folders(uid: u32) -> impl Iterator<Item = PathBuf> {
    let local = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    [PathBuf::from("/dev/shm"), local]
        .into_iter()
        .flat_map(move |place| folders_in(&place, uid))
}

/// Entries of a place that are looked at.
const ENTRIES: usize = 65_536;

/// Those of them in one place, such as /dev/shm: the usual one first.
///
/// Any user may make a folder of the usual name there before this user does. Then the recorder takes a name
/// with random digits behind it ([`folder_beside`]).
pub fn folders_in(place: &Path, uid: u32) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let named = entries
        .take(ENTRIES)
        .filter(|entry| is_named(&entry.file_name(), uid));
    let mut found: Vec<PathBuf> = named.map(|entry| place.join(entry.file_name())).collect();
    found.retain(|folder| belongs_to(folder, uid));
    // The shortest name is the usual one.
    found.sort();
    found
}

/// The name of the folder in which the recorders of a user make their live parts, if nobody else has it.
pub fn folder_of(uid: u32) -> String {
    format!("ncclscope-{uid}")
}

/// The name of such a folder, if somebody else has the usual one.
pub fn folder_beside(uid: u32, random: u32) -> String {
    format!("{}-{random:08x}", folder_of(uid))
}

/// Whether a folder of this name may be one of those of user `uid`.
fn is_named(name: &OsStr, uid: u32) -> bool {
    let Some(rest) = name.to_str().and_then(|n| n.strip_prefix(&folder_of(uid))) else {
        return false;
    };
    let digits = rest.strip_prefix('-').unwrap_or("x");
    rest.is_empty() || digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Why a folder, if it is there, can't be one of live parts of user `uid`.
pub fn why_not_ours(folder: &Path, uid: u32) -> Option<String> {
    let meta = std::fs::symlink_metadata(folder).ok()?;
    match () {
        () if meta.uid() != uid => Some(format!("belongs to another user (uid {})", meta.uid())),
        () if !meta.is_dir() => Some("is no folder".to_owned()),
        () if meta.mode() & 0o022 != 0 => Some("can be written to by others".to_owned()),
        () => None,
    }
}

/// Whether `folder` is a folder, and no link to one, of user `uid`, to which nobody else can write.
fn belongs_to(folder: &Path, uid: u32) -> bool {
    std::fs::symlink_metadata(folder).is_ok() && why_not_ours(folder, uid).is_none()
}

/// Whether `folder` is one in which recorders of this user make their live parts, below any folder: a job may
/// have had a TMPDIR of its own.
pub fn is_ours(folder: &Path) -> bool {
    // SAFETY: always succeeds.
    let uid = unsafe { libc::geteuid() };
    folder.file_name().is_some_and(|name| is_named(name, uid)) && belongs_to(folder, uid)
}

/// Where file systems are mounted, and whether their type is one of disks or memory of this host.
#[derive(Debug, Default)]
pub struct Mounts(Vec<(PathBuf, bool)>);

impl Mounts {
    /// Asks the system.
    pub fn ask() -> Mounts {
        let text = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        Mounts::of(&text)
    }

    fn of(text: &str) -> Mounts {
        let local = [
            "tmpfs", "ramfs", "rootfs", "overlay", "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs",
            "f2fs",
        ];
        let mounts = text.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            // Blanks and the like are written as \040.
            let place = fields.next()?.replace("\\040", " ");
            Some((PathBuf::from(place), local.contains(&fields.next()?)))
        });
        Mounts(mounts.collect())
    }

    fn is_local(&self, path: &Path) -> bool {
        let over = self.0.iter().filter(|(place, _)| path.starts_with(place));
        // Of two at one place, the later hides the earlier.
        let nearest = over.max_by_key(|(place, _)| place.components().count());
        nearest.is_some_and(|(_, local)| *local)
    }

    /// Whether the way to `path` touches file systems of this host only, so that nobody who goes it waits for
    /// another host.
    pub fn reach_locally(&self, path: &Path) -> bool {
        let (mut way, mut links) = (PathBuf::from("/"), 0);
        let parts = |path: &Path| -> Vec<std::ffi::OsString> {
            let parts = path.components().filter_map(|part| match part {
                Component::Normal(name) => Some(name.to_owned()),
                Component::ParentDir => Some("..".into()),
                _ => None,
            });
            parts.rev().collect()
        };
        let mut left = parts(path);
        while let Some(part) = left.pop() {
            if part == ".." {
                way.pop();
                continue;
            }
            way.push(part);
            // Before the file system is asked for anything.
            if !self.is_local(&way) {
                return false;
            }
            match std::fs::read_link(&way) {
                Ok(target) => {
                    links += 1;
                    if links > 40 {
                        return false;
                    }
                    way = if target.is_absolute() {
                        PathBuf::from("/")
                    } else {
                        way.pop();
                        way
                    };
                    left.extend(parts(&target));
                }
                Err(_) => continue,
            }
        }
        true
    }
}

/// Removes live parts in a folder that no capture needs; returns how many. It looks at `most` files, from a
/// different one on for each `turn`, and at captures only where it `may`.
pub fn sweep(
    folder: &Path,
    here: &Here,
    (most, turn): (usize, usize),
    may: impl Fn(&Path) -> bool,
) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "live"));
    if files.is_empty() {
        return 0;
    }
    let first = turn % files.len();
    files.rotate_left(first);
    let unneeded = files.iter().take(most).filter(|file| {
        Left::at(file).is_some_and(|left| {
            left.liveness(here) == Liveness::Dead
                && left.trace().is_none_or(&may)
                && !left.is_needed()
        })
    });
    unneeded
        .filter(|file| std::fs::remove_file(file).is_ok())
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{Header, Image, Layout, View, MAGIC};
    use std::sync::atomic::Ordering::Relaxed;

    const ID: u64 = 7;

    fn here() -> Here {
        Here {
            host: "node1".to_owned(),
            boot_id: "aa".to_owned(),
            pid_namespace: 7,
            booted_ns: Some(MINUTE),
            now_ns: 20 * MINUTE,
        }
    }

    const MINUTE: i64 = 60_000_000_000;

    /// A live part with these facts, of a process with a pid that is nobody's.
    fn image(facts: &str, change: impl FnOnce(&Header)) -> Vec<u8> {
        let layout = Layout::for_memory(0);
        let image = Image::zeroed(layout.bytes());
        // SAFETY: the image is zeroed, long enough and outlives the view.
        let view = unsafe { View::create(image.words().as_ptr() as *mut u8, &layout) };
        let header = view.header();
        for (to, from) in header.process.iter().zip(facts.bytes()) {
            to.store(from, Relaxed);
        }
        header.process_len.store(facts.len() as u32, Relaxed);
        header.pid.store(u32::MAX, Relaxed);
        header.pid_namespace.store(7, Relaxed);
        header.trace_id.store(ID, Relaxed);
        header.born.store(9, Relaxed);
        header.magic.store(MAGIC, Relaxed);
        change(header);
        let words = image.words().iter();
        words.flat_map(|w| w.load(Relaxed).to_le_bytes()).collect()
    }

    #[test]
    fn folders_of_a_user_are_known_by_name_owner_and_rights() {
        let root = std::env::temp_dir().join(format!("ncclscope-own-{}", std::process::id()));
        // SAFETY: always succeeds.
        let uid = unsafe { libc::geteuid() };
        let of = |name: &str| root.join(name);
        let usual = of(&folder_of(uid));
        for name in [
            folder_of(uid),
            folder_beside(uid, 7),
            format!("ncclscope-{uid}7"),
        ] {
            std::fs::create_dir_all(of(&name)).expect("made");
        }
        std::fs::create_dir_all(of(&format!("ncclscope-{uid}-0000000g"))).expect("made");
        let link = of(&folder_beside(uid, 8));
        std::os::unix::fs::symlink(&usual, &link).expect("linked");
        let beside = of(&folder_beside(uid, 7));
        let private = std::os::unix::fs::PermissionsExt::from_mode;
        for folder in [&usual, &beside] {
            std::fs::set_permissions(folder, private(0o700)).expect("set");
        }
        assert_eq!(folders_in(&root, uid), [usual.clone(), beside.clone()]);
        assert!(is_ours(&usual) && is_ours(&beside) && !is_ours(&link));
        assert_eq!(why_not_ours(&link, uid).as_deref(), Some("is no folder"));
        std::fs::set_permissions(&usual, private(0o777)).expect("set");
        assert_eq!(folders_in(&root, uid), [beside]);
        let why = why_not_ours(&usual, uid);
        assert_eq!(why.as_deref(), Some("can be written to by others"));
        let why = why_not_ours(&usual, uid + 1).expect("another user's");
        assert!(why.starts_with("belongs to another user"), "{why}");
        std::fs::remove_dir_all(root).expect("removed");
    }

    #[test]
    fn only_a_process_of_this_host_and_name_space_can_be_known_to_be_dead() {
        let last_seen = |facts: &str, namespace: u64, seen: i64| {
            let image = image(facts, |header| {
                header.pid_namespace.store(namespace, Relaxed);
                header.last.realtime.store(seen as u64, Relaxed);
            });
            Left::of(&image).expect("a live part").liveness(&here())
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
        let (_, rest) = stat.rsplit_once(')').expect("fields");
        let start = rest.split_whitespace().nth(19).expect("start");
        let start = start.parse().expect("number");
        assert!(state(std::process::id(), start).is_some());
        assert!(state(std::process::id(), start + 1).is_none());
        assert!(state(u32::MAX, start).is_none());
    }

    #[test]
    fn a_way_is_local_if_no_step_of_it_is_on_another_host() {
        let root = std::env::temp_dir().join(format!("ncclscope-way-{}", std::process::id()));
        std::fs::create_dir_all(root.join("here/far")).expect("made");
        for (link, target) in [
            ("absolute", root.join("here/far/x")),
            ("relative", PathBuf::from("here/../here/far")),
            ("near", PathBuf::from("here")),
            ("loop", PathBuf::from("loop")),
        ] {
            std::os::unix::fs::symlink(target, root.join(link)).expect("linked");
        }
        let text = format!(
            "a / ext4 rw 0 0\nb {0} tmpfs rw 0 0\nserver:/x {0}/here/far nfs4 rw 0 0\n",
            root.display()
        );
        let mounts = Mounts::of(&text);
        let reach = |path: &str| mounts.reach_locally(&root.join(path));
        assert!(reach("here/x/y") && reach("near/x") && reach("new/folder"));
        for far in [
            "here/far",
            "here/far/x",
            "absolute",
            "relative/x",
            "near/far/x",
            "loop",
        ] {
            assert!(!reach(far), "{far}");
        }
        assert!(!Mounts::default().reach_locally(&root));
        std::fs::remove_dir_all(root).expect("removed");
    }

    fn ended(header: &Header) {
        header.state.store(1, Relaxed);
        header.sealed.store(9, Relaxed);
        header.staged_base.store(100, Relaxed);
    }

    fn snapshot_of(image: &[u8]) -> Vec<u8> {
        let (mut out, image) = (Vec::new(), Image::copy(image));
        snapshot::begin(&mut out);
        snapshot::span(&mut out, 0, &image.words()[..HEADER_BYTES / 8]);
        snapshot::finish(&mut out, 0, HEADER_BYTES);
        out
    }

    #[test]
    fn what_no_capture_needs_is_removed_and_nothing_else() {
        let root = std::env::temp_dir().join(format!("ncclscope-sweep-{}", std::process::id()));
        let place = |name: &str| root.join(name);
        std::fs::create_dir_all(place("shm")).expect("made");
        std::fs::create_dir_all(place("host")).expect("made");
        let left = |name: &str, change: fn(&Header)| {
            let trace = place("host").join(name).with_extension("trace");
            let facts = format!("host=node1\nboot_id=aa\ntrace={}\n", trace.display());
            let image = image(&facts, change);
            std::fs::write(place("shm").join(format!("{name}.live")), &image).expect("written");
            (trace, image)
        };
        let made = |header: &Header| header.staged_base.store(100, Relaxed);
        let header = |id| block::file_header(id).to_vec();

        // Needed: an open call; an ended one that the snapshot is behind; no trace file was ever made; the
        // process runs, or may run.
        let (trace, _) = left("open", made);
        std::fs::write(trace, header(ID)).expect("written");
        let (trace, image) = left("behind", ended);
        std::fs::write(&trace, header(ID)).expect("written");
        let mut old = snapshot_of(&image);
        old[snapshot::HEADER + 8 + 200] ^= 1;
        std::fs::write(trace.with_extension("snap"), old).expect("written");
        left("unmade", |_| ());
        left("elsewhere", |header| header.pid_namespace.store(8, Relaxed));
        left("recent", |header| {
            header.staged_base.store(100, Relaxed);
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now = now.expect("after 1970").as_nanos() as u64;
            header.last.realtime.store(now, Relaxed);
        });
        // Not needed: adopted; ended and all in the folder; another process's file; the capture was removed.
        let (trace, image) = left("adopted", made);
        std::fs::write(&trace, header(ID)).expect("written");
        std::fs::write(trace.with_extension("live"), image).expect("written");
        let (trace, image) = left("whole", ended);
        std::fs::write(&trace, header(ID)).expect("written");
        std::fs::write(trace.with_extension("snap"), snapshot_of(&image)).expect("written");
        let (trace, _) = left("replaced", made);
        std::fs::write(trace, header(ID + 1)).expect("written");
        left("removed", made);
        left("without a call", |header| header.born.store(0, Relaxed));
        std::fs::write(place("shm/other.live"), "something else").expect("written");

        assert_eq!(sweep(&place("shm"), &here(), (100, 3), |_| false), 0);
        assert_eq!(sweep(&place("shm"), &here(), (100, 3), |_| true), 5);
        let names = std::fs::read_dir(place("shm")).expect("listed");
        let names = names.map(|e| e.expect("a file").file_name().into_string());
        let mut names: Vec<String> = names.map(|n| n.expect("UTF-8")).collect();
        names.sort();
        let stay = ["behind", "elsewhere", "open", "other", "recent", "unmade"];
        assert_eq!(names, stay.map(|name| format!("{name}.live")));
        assert_eq!(sweep(&place("none"), &here(), (100, 0), |_| true), 0);
        std::fs::remove_dir_all(root).expect("removed");
    }
}
