//! Where the live part and the trace file live.
//!
//! The live part is a file in memory: in /dev/shm when NCCL's own need leaves room there, else a node-local
//! file. So it outlives this process and whoever started it. It is never a page of a file on disk by choice,
//! because a store to such a page can stall while the page is being written back. Its pages are allocated
//! before anybody uses them, at creation or by [`Mapping::allocate`], so no store can fault for want of space
//! (SIGBUS). What it may grow to is a hole in the file.

use crate::kept_file::OpenFile;
use crate::pages;
use crate::settings::{file_name, host, Settings};
use capture::file_id::FileId;
use capture::{launcher, left};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Free space that is left to NCCL in /dev/shm: with kernel events, releases up to 2.30 take 34 MB a rank
/// there, and run out with a crash.
const NCCL_SHARED_MEMORY: u64 = 48 << 20;

/// What the recorder takes of the process's own memory, its thread's stack included, bytes; with room for
/// what grows. 2 MiB of it are the table of executable graphs.
const OWN_MEMORY: usize = 6 << 20;

/// The mapped live part.
pub struct Mapping {
    pub base: *mut u8,
    /// Its path.
    pub place: String,
    /// The same, for the kernel.
    path: CString,
    /// To be shown once: it ended up on a disk.
    pub warning: Option<String>,
    id: FileId,
}

impl Mapping {
    /// Removes the file's name. The mapping stays.
    pub fn remove(&self) {
        // SAFETY: a C string.
        unsafe { libc::unlink(self.path.as_ptr()) };
    }

    /// Makes some more of the file usable: nobody used it before, and it is zeroed then.
    ///
    /// # Errors
    /// When there is no space, or none beside what NCCL needs; or when the file was taken away.
    pub fn allocate(&self, at: usize, bytes: usize) -> io::Result<()> {
        // Not a descriptor that was kept: the program may have closed all and opened files of its own.
        let file = OpenFile::again(&self.path, self.id)?;
        let needed = bytes as u64 + NCCL_SHARED_MEMORY;
        let in_memory = self.place.starts_with("/dev/shm/");
        if in_memory && free_space(&self.path).is_none_or(|free| free < needed) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        reserve(file.get()?, at, bytes)?;
        // SAFETY: this part of the mapping is there now, and nobody uses it.
        unsafe { touch(self.base, at, bytes) };
        Ok(())
    }
}

/// Maps the pages of a part of the mapping, so that no callback waits for that.
///
/// # Safety
/// The file has the part, and nobody uses it but for what shares its first page.
unsafe fn touch(base: *mut u8, at: usize, bytes: usize) {
    for page in (at.next_multiple_of(4096)..at + bytes).step_by(4096) {
        // SAFETY: in the mapping, zero, and used by nobody.
        unsafe { base.add(page).write_volatile(0) };
    }
}

/// Names of this process's files.
pub struct FileNames {
    /// DIR, or DIR/restart-n.
    pub folder: PathBuf,
    /// DIR/HOST/NAME without an ending.
    pub stem: PathBuf,
}

/// Where this process's trace goes. `random` makes the name unique over hosts and time.
pub fn names(settings: &Settings, random: u64) -> FileNames {
    let mut folder =
        std::path::absolute(&settings.out).unwrap_or_else(|_| settings.out.clone().into());
    let restart = std::env::var("TORCHELASTIC_RESTART_COUNT")
        .ok()
        .and_then(|n| n.parse::<u32>().ok())
        .unwrap_or(0);
    if restart > 0 {
        folder.push(format!("restart-{restart}"));
    }
    let rank = launcher::rank(&|name| std::env::var(name).ok()).unwrap_or_else(|| "x".to_owned());
    let stem = folder.join(file_name(&host())).join(format!(
        "r{rank}-p{}-{:08x}",
        std::process::id(),
        random as u32
    ));
    FileNames { folder, stem }
}

/// Makes and maps the live part.
///
/// # Errors
/// When no place can be had at all; recording is then off.
pub fn live_part(
    names: &FileNames,
    trace_id: u64,
    room: usize,
    used: &[(usize, usize)],
) -> io::Result<Mapping> {
    let bytes: usize = used.iter().map(|(_, bytes)| bytes).sum();
    // SAFETY: plain calls without arguments.
    let uid = unsafe { libc::geteuid() };
    let file = format!(
        "{}-{trace_id:016x}.live",
        names.stem.file_name().unwrap_or_default().to_string_lossy()
    );
    let shm = Path::new("/dev/shm");
    let space = free_space(c"/dev/shm");
    let why = if space.is_some_and(|free| free >= bytes as u64 + NCCL_SHARED_MEMORY) {
        match in_place(shm, uid, trace_id, &file, room, used) {
            Ok(mapping) => return Ok(mapping),
            Err(error) => format!("/dev/shm can't be used ({error})"),
        }
    } else {
        format!(
            "no room for {} MiB in /dev/shm beside NCCL's own",
            bytes >> 20
        )
    };
    let local = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
    let mut mapping = in_place(&local, uid, trace_id, &file, room, used).map_err(|error| {
        let text = format!(
            "{why}, and no place for open calls in {}: {error}; TMPDIR may name another folder",
            local.display()
        );
        io::Error::new(error.kind(), text)
    })?;
    let lives = format!("open calls live in {}", mapping.place);
    let lives = mapping.warning.take().unwrap_or(lives);
    mapping.warning = Some(format!(
        "{why}; {lives} (if that is a disk, callbacks may stall)"
    ));
    Ok(mapping)
}

/// A file of ours in this user's folder below `place`. If somebody else has the folder's name, it is in one
/// beside it, whose name nobody can know before.
fn in_place(
    place: &Path,
    uid: u32,
    random: u64,
    file: &str,
    room: usize,
    used: &[(usize, usize)],
) -> io::Result<Mapping> {
    let usual = place.join(left::folder_of(uid));
    if private_folder(&usual).is_ok() {
        return in_file(&usual, file, room, used);
    }
    let Some(why) = left::why_not_ours(&usual, uid) else {
        return in_file(&usual, file, room, used);
    };
    // One that an earlier process made serves all.
    let there = left::folders_in(place, uid).into_iter().next();
    let beside = there.unwrap_or_else(|| place.join(left::folder_beside(uid, random as u32)));
    let usual = usual.display();
    let mut mapping = in_file(&beside, file, room, used)
        .map_err(|error| io::Error::new(error.kind(), format!("{usual} {why}; {error}")))?;
    mapping.warning = Some(format!(
        "{usual} {why}, so open calls live in {}",
        mapping.place
    ));
    Ok(mapping)
}

/// Whether the process may have `bytes` and the recorder's own memory beside what it has.
///
/// Asked before anything is made: an allocation that fails later ends the process.
///
/// # Errors
/// When it may not.
pub fn spare_memory(bytes: usize) -> io::Result<()> {
    let bytes = bytes + OWN_MEMORY;
    let base = pages::map(bytes)?;
    // SAFETY: a new mapping, which nobody knows of when it goes.
    unsafe { libc::munmap(base, bytes) };
    Ok(())
}

fn free_space(path: &CStr) -> Option<u64> {
    // SAFETY: statvfs fills in the zeroed struct; the path is NUL-terminated.
    unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut stat) == 0).then(|| stat.f_bavail * stat.f_frsize)
    }
}

/// A file of ours in a private folder: created, never opened through a link, every block that is used
/// allocated.
fn in_file(folder: &Path, file: &str, room: usize, used: &[(usize, usize)]) -> io::Result<Mapping> {
    private_folder(folder)?;
    let path = folder.join(file);
    let c_path = CString::new(path.as_os_str().as_bytes())?;
    let file = OpenFile::create(&c_path)?;
    let base = map(&file, room, used).inspect_err(|_| {
        let _ = std::fs::remove_file(&path);
    })?;
    Ok(Mapping {
        base,
        place: path.to_string_lossy().into_owned(),
        path: c_path,
        warning: None,
        id: file.id(),
    })
}

/// Makes `folder`, or accepts it when it is a directory of this user's that others can't write to.
fn private_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // SAFETY: a plain call without arguments.
    match left::why_not_ours(folder, unsafe { libc::geteuid() }) {
        Some(why) => Err(io::Error::new(io::ErrorKind::PermissionDenied, why)),
        None => Ok(()),
    }
}

/// Maps `room` bytes of a new file, shared, and allocates what is used of them: offsets and lengths.
fn map(file: &OpenFile, room: usize, used: &[(usize, usize)]) -> io::Result<*mut u8> {
    // SAFETY: the descriptor was compared just before each use; the mapping is new memory and replaces
    // nothing.
    unsafe {
        // A file beyond the process's limit would be answered with SIGXFSZ, which ends it.
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) == 0 && limit.rlim_cur < room as u64 {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        if libc::ftruncate(file.get()?.as_raw_fd(), room as libc::off_t) != 0 {
            return Err(io::Error::last_os_error());
        }
        for (at, bytes) in used {
            reserve(file.get()?, *at, *bytes)?;
        }
        let base = libc::mmap(
            std::ptr::null_mut(),
            room,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.get()?.as_raw_fd(),
            0,
        );
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A core dump would fill the holes.
        libc::madvise(base, room, libc::MADV_DONTDUMP);
        for (at, bytes) in used {
            touch(base.cast(), *at, *bytes);
        }
        Ok(base.cast())
    }
}

/// Allocates a part of a file.
fn reserve(file: &File, at: usize, bytes: usize) -> io::Result<()> {
    let (at, bytes) = (at as libc::off_t, bytes as libc::off_t);
    // SAFETY: the descriptor is ours. posix_fallocate returns the error instead of setting errno.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), at, bytes) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Whether a folder is on a file system that other hosts share, where few large writes are kind.
pub fn is_network(folder: &Path) -> bool {
    let Ok(path) = CString::new(folder.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: statfs fills in the zeroed struct.
    let kind = unsafe {
        let mut stat: libc::statfs = std::mem::zeroed();
        if libc::statfs(path.as_ptr(), &mut stat) != 0 {
            return false;
        }
        stat.f_type as u32
    };
    // NFS, SMB, SMB2, CIFS, Lustre, GPFS, BeeGFS, Ceph, AFS, 9p, FUSE, Panfs.
    [
        0x6969,
        0x517b,
        0xfe53_4d42,
        0xff53_4d42,
        0x0bd0_0bd0,
        0x4750_4653,
        0x1983_0326,
        0x00c3_6400,
        0x5346_414f,
        0x0102_1997,
        0x6573_5546,
        0xaad7_aaea,
    ]
    .contains(&kind)
}
