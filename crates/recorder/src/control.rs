//! How other threads talk to the recorder's own thread.
//!
//! Inits ask for slots that are idle, and for rows; finalizes say which slots ended. The last finalize and
//! the process's exit ask for a flush. The recorder's thread ([`crate::writer`]) looks at [`Control`] in each
//! of its turns, and answers there.
//!
//! Rule: an event callback may set [`Control::definitions`] and nothing else here, because the rest takes
//! locks.

use crate::heap::MayFail;
use std::collections::VecDeque;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Release},
};
use std::sync::{Condvar, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// See the module.
#[derive(Default)]
pub struct Control {
    pub asked: Mutex<Requests>,
    /// A flush was asked for.
    pub wake: Condvar,
    /// `asked` was answered.
    pub done: Condvar,
    /// Communicators changed since their definitions were last staged.
    pub definitions: AtomicBool,
    /// Slots of finalized communicators that may be used again, first ended first.
    idle: Mutex<VecDeque<u16>>,
    /// The thread was started.
    pub running: AtomicBool,
    /// The newest flush was not done in its time.
    late: AtomicBool,
    /// The process exits: the driver shuts down when the exit handler returns.
    pub exits: AtomicBool,
    /// How long inits took that are not written yet, ns.
    pub init_ns: AtomicU64,
    /// The live part's number of changes (`writer::snapshots::changes`) that the capture folder covers; 0 if
    /// it does not hold all.
    pub complete: AtomicU64,
}

/// What is asked of the recorder's thread, and how far it is.
#[derive(Default)]
pub struct Requests {
    /// Flushes asked for so far.
    pub flushes: u64,
    /// Those of them that are done.
    pub flushed: u64,
    /// The first try to make the files is over.
    pub opened: bool,
    /// Rows that the process should have.
    pub rows: usize,
    /// Those of them that were looked at: they are there, or can't be had.
    pub rows_seen: usize,
}

impl Control {
    /// Says that a slot may be used again; false if there is no memory to remember it.
    pub fn slot_is_idle(&self, slot: u16) -> bool {
        let _may_fail = MayFail::from_here();
        let mut idle = lock(&self.idle);
        let is_kept = idle.try_reserve(1).is_ok();
        if is_kept {
            idle.push_back(slot);
        }
        is_kept
    }

    /// A slot that may be used again.
    pub fn idle_slot(&self) -> Option<u16> {
        lock(&self.idle).pop_front()
    }

    /// Asks for so many rows and waits for them, at most 100 ms.
    pub fn want_rows(&self, rows: usize) {
        if !self.running.load(Acquire) {
            return;
        }
        let mut asked = lock(&self.asked);
        asked.rows = asked.rows.max(rows);
        self.wake.notify_one();
        let _ = self
            .done
            .wait_timeout_while(asked, Duration::from_millis(100), |asked| {
                asked.rows_seen < rows
            });
    }

    /// Waits for the trace file, at most 100 ms. The file says where the live part is, so a process that is
    /// killed in its first milliseconds is found like any other. The job must not wait longer for a slow file
    /// system.
    pub fn wait_for_files(&self) {
        let asked = lock(&self.asked);
        let _ = self
            .done
            .wait_timeout_while(asked, Duration::from_millis(100), |asked| !asked.opened);
    }

    /// Asks for the last flush of a capture and waits for it, at most a second. True if it is done. If NCCL
    /// starts again, more flushes may follow.
    ///
    /// A job ends with two of these: the last finalize, and the exit. If the file system did not answer in
    /// the first one's second, the second one does not wait for it again.
    pub fn flush(&self) -> bool {
        if !self.running.load(Acquire) {
            return false;
        }
        let deadline = Instant::now() + patience(self.late.load(Acquire));
        let done = self.flush_until(deadline);
        self.late.store(!done, Release);
        done
    }

    fn flush_until(&self, deadline: Instant) -> bool {
        // Not a plain `lock`: a signal handler may call exit() on the very thread that holds the lock.
        let mut asked = loop {
            match self.asked.try_lock() {
                Ok(asked) => break asked,
                Err(TryLockError::Poisoned(asked)) => break asked.into_inner(),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return false,
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(50)),
            }
        };
        asked.flushes += 1;
        let want = asked.flushes;
        self.wake.notify_one();
        while asked.flushed < want {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return false;
            };
            asked = self
                .done
                .wait_timeout(asked, left)
                .unwrap_or_else(|p| p.into_inner())
                .0;
        }
        true
    }
}

/// How long a flush is waited for, given that the one before was not done in its time.
fn patience(late: bool) -> Duration {
    if late {
        Duration::from_millis(50)
    } else {
        Duration::from_secs(1)
    }
}

/// A lock that a thread which panicked does not keep from others.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|p| p.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_does_not_answer_is_waited_for_once() {
        let control = Control::default();
        control.running.store(true, Release);
        // Nobody answers.
        assert!(!control.flush());
        assert!(control.late.load(Acquire));
        assert!(patience(true) * 10 < patience(false));
        assert!(!control.flush());
        std::thread::scope(|scope| {
            // It answers again.
            scope.spawn(|| loop {
                let mut asked = lock(&control.asked);
                asked.flushed = asked.flushes;
                control.done.notify_all();
                if !control.late.load(Acquire) {
                    return;
                }
                drop(asked);
                std::thread::sleep(Duration::from_millis(1));
            });
            while !control.flush() {}
        });
        assert!(!control.late.load(Acquire));
    }
}
