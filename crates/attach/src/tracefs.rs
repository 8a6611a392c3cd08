//! Names of probes in the kernel's file `uprobe_events`, for perf events without BPF.
//!
//! ```text
//! p:ncclscope_4711_9f3c/f12 /proc/self/fd/7:0x2a40     entry
//! r:ncclscope_4711_9f3c/r12 /proc/self/fd/7:0x2a40     return
//! ```
//!
//! A perf event could also have a probe of its own, without a name. But then the kernel has one probe for
//! each CPU at each place. On a machine with 128 CPUs, a call would run 256 of them, and it would take a
//! quarter of an hour to remove them all.
//!
//! A name is no probe: without a perf event, nothing is in any process. But a name does not go with the
//! descriptors of this process. So a second process, the guard, does nothing but wait for the end of this
//! one, and then removes the names. Names that even a killed guard has left go when somebody attaches next.
//!
//! Rule: between its definition and its first perf event, a name belongs to whoever has the lock of
//! `uprobe_events`. From then on the kernel refuses to remove it.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

const EVENTS: &std::ffi::CStr = c"uprobe_events";
/// With what all names begin.
const OURS: &[u8] = b"ncclscope_";
/// Bytes of `uprobe_events` that are looked at.
const LISTING: usize = 1 << 20;

/// The folder of tracefs: mounted, or else mounted for this process alone, at no path.
fn folder() -> io::Result<OwnedFd> {
    let mounted = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let open = |path: &str| {
        let flags = libc::O_DIRECTORY | libc::O_CLOEXEC;
        let folder = File::options().read(true).custom_flags(flags).open(path)?;
        open_events(folder.as_raw_fd(), libc::O_RDONLY)?;
        Ok::<_, io::Error>(OwnedFd::from(folder))
    };
    let found = mounted.iter().find_map(|path| open(path).ok());
    found.map_or_else(mount, Ok)
}

fn mount() -> io::Result<OwnedFd> {
    const CLOEXEC: i32 = 1;
    const CREATE: i32 = 6;
    let made = |result: libc::c_long| match result {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the kernel just made it for this caller.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }),
    };
    // SAFETY: fsopen takes a text and a number.
    let context = made(unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), CLOEXEC) })?;
    let null = std::ptr::null::<u8>();
    // SAFETY: fsconfig of this kind takes no key and no value.
    let result = unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            CREATE,
            null,
            null,
            0,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fsmount takes numbers.
    made(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), CLOEXEC, 0) })
}

/// Opens `uprobe_events`. Never with O_TRUNC, which would remove everybody's probes.
fn open_events(folder: RawFd, flags: i32) -> io::Result<File> {
    // SAFETY: a text that ends with 0.
    let fd = unsafe { libc::openat(folder, EVENTS.as_ptr(), flags | libc::O_CLOEXEC) };
    match fd {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: it was just opened for this caller.
        fd => Ok(unsafe { File::from_raw_fd(fd) }),
    }
}

/// Removes the names that begin with `prefix` and are not in use; how many are left. It allocates nothing,
/// because the guard is a fork of a program that may have several threads.
fn remove(folder: RawFd, prefix: &[u8], listing: &mut [u8]) -> usize {
    // SAFETY: a text that ends with 0.
    let file = unsafe { libc::openat(folder, EVENTS.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return 0;
    }
    let mut filled = 0;
    while filled < listing.len() {
        let rest = &mut listing[filled..];
        // SAFETY: the kernel writes at most as many bytes as are there.
        match unsafe { libc::read(file, rest.as_mut_ptr().cast(), rest.len()) } {
            n if n > 0 => filled += n as usize,
            _ => break,
        }
    }
    // SAFETY: opened above.
    unsafe { libc::close(file) };
    let mut left = 0;
    for line in listing[..filled].split(|byte| *byte == b'\n') {
        // p:GROUP/NAME PATH:OFFSET; a return probe may have a number behind the r.
        let name = line.splitn(2, |byte| *byte == b':').nth(1).unwrap_or(&[]);
        let name = name.split(|byte| *byte == b' ').next().unwrap_or(&[]);
        if !name.starts_with(prefix) {
            continue;
        }
        let mut command = [0u8; 160];
        let Some(to) = command.get_mut(..name.len() + 3) else {
            continue;
        };
        to[..2].copy_from_slice(b"-:");
        to[2..2 + name.len()].copy_from_slice(name);
        to[2 + name.len()] = b'\n';
        let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC;
        // SAFETY: a text that ends with 0; the bytes of a command.
        let done = unsafe {
            let file = libc::openat(folder, EVENTS.as_ptr(), flags);
            let done = libc::write(file, to.as_ptr().cast(), to.len()) >= 0;
            libc::close(file);
            done
        };
        left += usize::from(!done);
    }
    left
}

/// Names of this process. They go when this is dropped, and also if the process is killed.
pub struct Names {
    folder: OwnedFd,
    group: String,
    /// The guard waits for its end.
    alive: Option<OwnedFd>,
    guard: libc::pid_t,
}

/// Nobody else defines or removes names for as long as this is there.
pub struct Lock {
    _file: File,
}

impl Names {
    /// Removes what others have left, and starts the guard.
    ///
    /// # Errors
    /// If there is no tracefs, or if it may not be used.
    pub fn new() -> io::Result<Names> {
        let folder = folder()?;
        // Whether it may be written.
        open_events(folder.as_raw_fd(), libc::O_WRONLY | libc::O_APPEND)?;
        let mut random = [0u8; 4];
        io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut random)?;
        let group = format!(
            "{}{}_{:08x}",
            String::from_utf8_lossy(OURS),
            std::process::id(),
            u32::from_ne_bytes(random)
        );
        let mut names = Names {
            folder,
            group,
            alive: None,
            guard: 0,
        };
        let lock = names.lock()?;
        let mut listing = vec![0; LISTING];
        remove(names.folder.as_raw_fd(), OURS, &mut listing);
        drop(lock);
        let mut pipe = [0; 2];
        // SAFETY: room for two descriptors.
        if unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just made both for this caller.
        let [ended, alive] = pipe.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        let group = format!("{}/", names.group);
        // SAFETY: the child calls nothing but system calls, on memory that was made before.
        match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()),
            0 => guard(
                names.folder.as_raw_fd(),
                ended.as_raw_fd(),
                group.as_bytes(),
                &mut listing,
            ),
            child => names.guard = child,
        }
        names.alive = Some(alive);
        Ok(names)
    }

    /// Waits until nobody else defines names.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn lock(&self) -> io::Result<Lock> {
        let file = open_events(self.folder.as_raw_fd(), libc::O_RDONLY)?;
        // SAFETY: a plain call on a descriptor of ours.
        match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } {
            0 => Ok(Lock { _file: file }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Defines a probe, and says by which number perf events know it. The lock must be kept until it has one.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn define(
        &self,
        _lock: &Lock,
        name: &str,
        path: &str,
        offset: u64,
        is_return: bool,
    ) -> io::Result<u64> {
        let kind = if is_return { 'r' } else { 'p' };
        let group = &self.group;
        let line = format!("{kind}:{group}/{name} {path}:{offset:#x}\n");
        let flags = libc::O_WRONLY | libc::O_APPEND;
        open_events(self.folder.as_raw_fd(), flags)?.write_all(line.as_bytes())?;
        let path = CString::new(format!("events/{group}/{name}/id"))?;
        // SAFETY: a text that ends with 0.
        let fd = unsafe {
            libc::openat(
                self.folder.as_raw_fd(),
                path.as_ptr(),
                libc::O_RDONLY | libc::O_CLOEXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just opened for this caller.
        let text = io::read_to_string(unsafe { File::from_raw_fd(fd) })?;
        text.trim().parse().map_err(io::Error::other)
    }

    /// Removes all names that have no perf event.
    pub fn clear(&self) {
        let group = format!("{}/", self.group);
        let mut listing = vec![0; LISTING];
        remove(self.folder.as_raw_fd(), group.as_bytes(), &mut listing);
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.clear();
        drop(self.alive.take());
        if self.guard > 0 {
            // SAFETY: a child of this process; it ends now that the pipe is closed.
            unsafe { libc::waitpid(self.guard, std::ptr::null_mut(), 0) };
        }
    }
}

/// Waits until the process that has the other end of `ended` is gone, and removes its names.
fn guard(folder: RawFd, ended: RawFd, group: &[u8], listing: &mut [u8]) -> ! {
    // SAFETY: system calls on numbers and on memory that lives as long as this process. Nothing here takes a
    // lock that another thread of the parent may have held.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        libc::setsid();
        // No file system stays busy because of the guard.
        libc::chdir(c"/".as_ptr());
        libc::prctl(libc::PR_SET_NAME, c"ncclscope-guard".as_ptr());
        // The parent's files, too: whoever reads its output waits for their end.
        let (low, high) = (folder.min(ended) as u32, folder.max(ended) as u32);
        for (from, to) in [(0, low), (low + 1, high), (high + 1, u32::MAX)] {
            if from < to && libc::syscall(libc::SYS_close_range, from, to - 1, 0) != 0 {
                // Linux before 5.9.
                (from..to.min(1 << 16)).for_each(|fd| {
                    libc::close(fd as i32);
                });
            }
        }
        let mut byte = 0u8;
        while libc::read(ended, (&raw mut byte).cast(), 1) < 0
            && *libc::__errno_location() == libc::EINTR
        {}
        // The kernel takes the perf events away a moment after the process: some 0.1 s each.
        for _ in 0..600 {
            if remove(folder, group, listing) == 0 {
                break;
            }
            libc::usleep(100_000);
        }
        libc::_exit(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &Names, what: &str) -> bool {
        let file = open_events(names.folder.as_raw_fd(), libc::O_RDONLY).expect("opened");
        io::read_to_string(file).expect("read").contains(what)
    }

    #[test]
    fn names_go_with_their_owner_also_if_it_is_killed() {
        let names = match Names::new() {
            Ok(names) => names,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let lock = names.lock().expect("locked");
        let place = std::fs::read_link("/proc/self/exe").expect("a path");
        let place = place.to_str().expect("text");
        let id = names.define(&lock, "f0", place, 0x1000, false);
        assert!(id.expect("defined") > 0);
        let group = names.group.clone();
        assert!(listed(&names, &group));
        // As if this process were killed: the pipe closes, and nothing else happens.
        let mut names = names;
        drop(names.alive.take());
        // SAFETY: the guard is a child of this process.
        unsafe { libc::waitpid(names.guard, std::ptr::null_mut(), 0) };
        names.guard = 0;
        assert!(!listed(&names, &group));
        drop(lock);
        let other = Names::new().expect("again");
        let lock = other.lock().expect("locked");
        other
            .define(&lock, "r0", place, 0x1000, true)
            .expect("defined");
        let group = other.group.clone();
        drop(other);
        assert!(!listed(&names, &group));
    }
}
