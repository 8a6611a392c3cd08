//! How the ranks of one host start a call at the same time.
//!
//! A [`Meet`] is a page of memory that the ranks of a host share. Each says that it is ready; the first of
//! them then sets a time a little ahead, which all spin for. Clocks are the host's own, so the times compare
//! within a host only.
//!
//! Rule: waiting spins and makes no system call while there are cores enough, so that a start is not late by
//! a wake-up.

use anyhow::{Context, Result};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Acquire, Ordering::Release};

/// From the moment all are ready to the start, in ns: longer than it takes to see that.
const LEAD: i64 = 20_000;
/// Looks before a core is offered to others, which only matters where ranks share cores.
const LOOKS: u32 = 20_000;

/// What one rank writes, on a cache line of its own.
#[repr(C, align(128))]
struct Line {
    /// The last start that this rank is ready for; the first line's has the last one that was set.
    step: AtomicU64,
    /// When; only in the first line.
    at: AtomicI64,
}

/// The shared page.
pub struct Meet {
    /// One line for the start, then one for each rank.
    lines: &'static [Line],
    own: usize,
    step: u64,
    name: Name,
}

/// The page's name, to be removed once all have opened it, and at the latest when this is dropped.
pub struct Name(PathBuf);

impl Name {
    /// Where the page of this name is, or will be.
    pub fn new(name: &str) -> Name {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        Name(folder.join(format!("ncclscope-bench-{name}")))
    }

    fn remove(&self) {
        // Somebody may have cleaned up already.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The host's clock, in ns.
pub fn now() -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

impl Meet {
    /// Opens the page of this name for `ranks` ranks, of which this is number `own`.
    ///
    /// # Errors
    /// When there is no place for shared memory.
    pub fn open(name: &str, own: u32, ranks: u32) -> Result<Meet> {
        let name = Name::new(name);
        let length = (ranks as usize + 1) * size_of::<Line>();
        let shared = || -> io::Result<&'static [Line]> {
            let mut options = File::options();
            let file = options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&name.0)?;
            file.set_len(length as u64)?;
            // SAFETY: a new mapping, of a file that is long enough. It is never unmapped, and all who have it
            // use atomics.
            unsafe {
                let access = libc::PROT_READ | libc::PROT_WRITE;
                let base = libc::mmap(
                    std::ptr::null_mut(),
                    length,
                    access,
                    libc::MAP_SHARED,
                    file.as_raw_fd(),
                    0,
                );
                if base == libc::MAP_FAILED {
                    return Err(io::Error::last_os_error());
                }
                Ok(std::slice::from_raw_parts(base.cast(), ranks as usize + 1))
            }
        };
        let lines = shared().with_context(|| format!("shared memory at `{}`", name.0.display()))?;
        Ok(Meet {
            lines,
            own: own as usize + 1,
            step: 0,
            name,
        })
    }

    /// Removes its name; for one of the ranks, once all have opened it.
    pub fn remove_name(&self) {
        self.name.remove();
    }

    /// Waits for the others and for the time that is set; returns that time.
    pub fn start(&mut self) -> i64 {
        self.step += 1;
        let step = self.step;
        let start = &self.lines[0];
        self.lines[self.own].step.store(step, Release);
        if self.own == 1 {
            for line in &self.lines[1..] {
                wait(|| line.step.load(Acquire) >= step);
            }
            start.at.store(now() + LEAD, Release);
            start.step.store(step, Release);
        } else {
            wait(|| start.step.load(Acquire) >= step);
        }
        // The next start is set only after all have come to it, so this is still ours.
        let at = start.at.load(Acquire);
        while now() < at {
            std::hint::spin_loop();
        }
        at
    }
}

fn wait(mut until: impl FnMut() -> bool) {
    let mut looks = 0;
    while !until() {
        std::hint::spin_loop();
        looks += 1;
        if looks > LOOKS {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_starts_before_the_last_is_ready() {
        let name = format!("test-{}", std::process::id());
        let rank = |own: u32| {
            let mut meet = Meet::open(&name, own, 3).expect("shared memory");
            let mut last = 0;
            for step in 0..50 {
                if step % 3 == u64::from(own) {
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
                let ready = now();
                let at = meet.start();
                assert!(at >= ready && at > last, "{at} {ready} {last}");
                last = at;
            }
            (meet, last)
        };
        let ends: Vec<(Meet, i64)> = std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..3).map(|own| scope.spawn(move || rank(own))).collect();
            ranks
                .into_iter()
                .map(|r| r.join().expect("no panic"))
                .collect()
        });
        assert!(
            ends.iter().all(|(_, last)| *last == ends[0].1),
            "one time for all"
        );
        ends[0].0.remove_name();
        assert!(!ends[0].0.name.0.exists());
    }
}
