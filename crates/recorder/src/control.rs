//! How other threads talk to the recorder's own thread.
//!
//! Inits and finalizes say that definitions changed and ask which slots are idle. The last finalize and the
//! process's exit ask for a flush. The recorder's thread ([`crate::writer`]) looks at [`Control`] in each of
//! its turns, and answers there.
//!
//! Rule: an event callback may call [`Control::definitions_changed`] and nothing else here, because the rest
//! takes locks.

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Condvar, Mutex, TryLockError};
use std::time::{Duration, Instant};

/// See the module.
#[derive(Default)]
pub struct Control {
    pub asked: Mutex<Asked>,
    /// A flush was asked for.
    pub wake: Condvar,
    /// `asked` was answered.
    pub done: Condvar,
    /// Communicators or strings changed since they were last staged.
    pub definitions: AtomicBool,
    /// Whether a communicator's slot has rows that are not sealed, by slot.
    pub busy: Mutex<Vec<bool>>,
    /// The thread was started.
    pub running: AtomicBool,
    /// The live part's number of changes (`writer::snapshots::changes`) that the capture folder covers; 0 if
    /// it does not hold all.
    pub complete: AtomicU64,
    /// Communicators changed, and their definitions are not staged.
    pub uncovered_definitions: AtomicBool,
}

/// What is asked of the recorder's thread, and how far it is.
#[derive(Default)]
pub struct Asked {
    /// Flushes asked for so far.
    pub flushes: u64,
    /// Those of them that are done.
    pub flushed: u64,
    /// The first try to make the files is over.
    pub opened: bool,
}

impl Control {
    /// Says that communicators or strings changed and must be written.
    pub fn definitions_changed(&self) {
        self.uncovered_definitions.store(true, Relaxed);
        self.definitions.store(true, Release);
    }

    /// Whether a finalized communicator's slot may be used again: its rows are sealed and its definition is
    /// written.
    pub fn idle(&self, slot: usize) -> bool {
        let busy = self.busy.lock().unwrap_or_else(|p| p.into_inner());
        !busy.get(slot).copied().unwrap_or(false) && !self.uncovered_definitions.load(Relaxed)
    }

    /// Waits for the trace file, at most 100 ms. The file says where the live part is, so a process that is
    /// killed in its first milliseconds is found like any other. The job must not wait longer for a slow file
    /// system.
    pub fn wait_for_files(&self) {
        let asked = self.asked.lock().unwrap_or_else(|p| p.into_inner());
        let _ = self
            .done
            .wait_timeout_while(asked, Duration::from_millis(100), |asked| !asked.opened);
    }

    /// Asks for the last flush of a capture and waits for it, at most a second. True if it is done. If NCCL
    /// starts again, more flushes may follow.
    pub fn flush(&self) -> bool {
        if !self.running.load(Acquire) {
            return false;
        }
        let deadline = Instant::now() + Duration::from_secs(1);
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
