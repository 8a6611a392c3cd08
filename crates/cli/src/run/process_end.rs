//! How processes end that are not our children.
//!
//! The system tells whoever holds a file descriptor of a process when that process ends, and from Linux 6.15
//! on how. An older system shows it in /proc until the parent of the process has asked: we are told when the
//! parent is, so a parent that is faster leaves only the time.

use attach::processes;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};
use tables::exit::HowEnded;

/// `PIDFD_GET_INFO` of linux/pidfd.h: `_IOWR(0xff, 11, struct pidfd_info)` with its first 64 bytes.
const GET_INFO: libc::c_ulong = 0xc040_ff0b;
/// `PIDFD_INFO_EXIT`: ask for the exit status.
const INFO_EXIT: u64 = 1 << 3;

/// The first 64 bytes of `struct pidfd_info`.
#[repr(C)]
#[derive(Default)]
struct Info {
    mask: u64,
    cgroup: u64,
    numbers: [u32; 11],
    exit_code: i32,
}

/// A process, to be told of its end.
pub struct Handle {
    file: OwnedFd,
    pid: u32,
    pid_start: u64,
}

impl Handle {
    /// Of a process that is there; `None` before Linux 5.3, or if it has ended.
    pub fn open(pid: u32, pid_start: u64) -> Option<Handle> {
        // SAFETY: the system call takes two numbers and gives a descriptor of ours.
        let file =
            unsafe { libc::syscall(libc::SYS_pidfd_open, libc::pid_t::try_from(pid).ok()?, 0) };
        let file = i32::try_from(file).ok().filter(|file| *file >= 0)?;
        // SAFETY: it was just opened, and nobody else has it.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        // The number may have been another process's by then.
        let is_it = capture::left::state(pid, pid_start).is_some();
        is_it.then_some(Handle {
            file,
            pid,
            pid_start,
        })
    }

    /// What can be read from once it has ended.
    pub fn file(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.file)
    }

    /// How it ended; `None` if it has not, or if that can't be asked any more.
    pub fn how_ended(&self) -> Option<HowEnded> {
        // Its parent may ask between the two.
        let status = self.by_file().or_else(|| self.by_proc());
        let status = status.or_else(|| self.by_file())?;
        Some(HowEnded::of_wait_status(status))
    }

    fn by_file(&self) -> Option<i32> {
        let mut info = Info {
            mask: INFO_EXIT,
            ..Info::default()
        };
        // SAFETY: the struct is as long as the number of the request says.
        let result = unsafe { libc::ioctl(self.file.as_raw_fd(), GET_INFO, &raw mut info) };
        (result == 0 && info.mask & INFO_EXIT != 0).then_some(info.exit_code)
    }

    /// While its parent has not asked.
    fn by_proc(&self) -> Option<i32> {
        let stat = processes::stat(self.pid)?;
        (stat.start == self.pid_start && stat.ended).then_some(stat.exit_code)
    }
}

/// Whether the kernel ended processes of this machine for lack of memory.
pub struct OutOfMemory {
    /// How many so far.
    count: Option<u64>,
    /// When that was seen to grow, and how many of those were not told yet.
    grew: Option<(Instant, u64)>,
}

/// A large process may need so long to die.
const DYING: Duration = Duration::from_secs(10);

impl OutOfMemory {
    pub fn new() -> OutOfMemory {
        OutOfMemory {
            count: kills(),
            grew: None,
        }
    }

    /// Looks again.
    pub fn look(&mut self) {
        self.sees(kills());
    }

    /// Whether a process that SIGKILL ended now may be one of those, of which each is told once.
    pub fn takes_one(&mut self) -> bool {
        match &mut self.grew {
            Some((grew, left)) if *left > 0 && grew.elapsed() <= DYING => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }

    fn sees(&mut self, count: Option<u64>) {
        let more = count
            .zip(self.count)
            .map_or(0, |(now, before)| now.saturating_sub(before));
        if more > 0 {
            let left = self.grew.map_or(0, |(_, left)| left);
            self.grew = Some((Instant::now(), left + more));
        }
        self.count = count;
    }
}

/// How many processes of this machine the kernel has ended for lack of memory, in a control group of their
/// own or in all of it.
fn kills() -> Option<u64> {
    kills_in(&std::fs::read_to_string("/proc/vmstat").ok()?)
}

fn kills_in(vmstat: &str) -> Option<u64> {
    let mut lines = vmstat.lines();
    let count = lines.find_map(|line| line.strip_prefix("oom_kill "))?;
    count.trim().parse().ok()
}

/// Waits until one of these can be read from, or the time is over. True if the first can.
///
/// # Errors
/// When the system can't wait for so many.
pub fn wait(first: BorrowedFd, others: &[BorrowedFd], most: Duration) -> io::Result<bool> {
    use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
    let all = std::iter::once(&first).chain(others);
    let mut all: Vec<PollFd> = all
        .map(|file| PollFd::new(*file, PollFlags::POLLIN))
        .collect();
    let most = PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX);
    match poll(&mut all, most) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(all[0].any().unwrap_or(false)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn run(script: &str) -> (Child, Handle) {
        let child = Command::new("sh").args(["-c", script]).spawn().expect("sh");
        let start = processes::stat(child.id()).expect("it is there").start;
        let handle = Handle::open(child.id(), start).expect("Linux 5.3");
        (child, handle)
    }

    fn ends(handle: &Handle) -> bool {
        wait(handle.file(), &[], Duration::from_secs(20)).expect("waited")
    }

    #[test]
    fn how_a_process_ended_is_asked_before_its_parent_does() {
        for (script, how) in [
            ("sleep 0.05; exit 3", HowEnded::Status(3)),
            ("sleep 0.05; kill -SEGV $$", HowEnded::Signal(11)),
        ] {
            let (mut child, handle) = run(script);
            assert_eq!(handle.how_ended(), None);
            assert!(ends(&handle));
            assert_eq!(handle.by_proc().map(HowEnded::of_wait_status), Some(how));
            assert_eq!(handle.how_ended(), Some(how));
            child.wait().expect("ended");
            assert_eq!(handle.by_proc(), None);
            // Known after that from Linux 6.15 on.
            let after = handle.how_ended();
            assert!(after.is_none() || after == Some(how), "{after:?}");
        }
    }

    #[test]
    fn a_process_that_is_gone_has_no_handle() {
        let (mut child, handle) = run("sleep 0.2");
        child.wait().expect("ended");
        assert!(Handle::open(handle.pid, handle.pid_start).is_none());
        assert!(Handle::open(std::process::id(), 1).is_none());
    }

    #[test]
    fn a_process_that_the_kernel_ended_is_counted() {
        assert_eq!(kills_in("nr_free_pages 7\noom_kill 2\n"), Some(2));
        assert_eq!(kills_in("nr_free_pages 7\n"), None);
        let mut memory = OutOfMemory {
            count: Some(5),
            grew: None,
        };
        memory.sees(Some(5));
        assert!(!memory.takes_one());
        memory.sees(Some(6));
        memory.sees(Some(6));
        assert!(memory.takes_one(), "it takes long to die");
        assert!(!memory.takes_one(), "only one was ended");
        memory.sees(None);
        memory.sees(Some(7));
        assert!(!memory.takes_one(), "how many were new is not known");
    }
}
