//! How other threads talk to the recorder's own.

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Condvar, Mutex, TryLockError};
use std::time::{Duration, Instant};

/// How other threads talk to the writer.
#[derive(Default)]
pub struct Control {
    pub asked: Mutex<Asked>,
    pub wake: Condvar,
    pub done: Condvar,
    pub definitions: AtomicBool,
    // Communicator slots with rows that are not sealed, by slot.
    pub busy: Mutex<Vec<bool>>,
    pub running: AtomicBool,
    // The capture folder holds all that the live part held when this was its [`changes`]; 0 it does not.
    pub complete: AtomicU64,
    pub uncovered_definitions: AtomicBool,
}

#[derive(Default)]
pub struct Asked {
    pub flushes: u64,
    pub flushed: u64,
    // The first try to make the files is over.
    pub opened: bool,
}

impl Control {
    /// Communicators or strings changed and want to be written.
    pub fn definitions_changed(&self) {
        self.uncovered_definitions.store(true, Relaxed);
        self.definitions.store(true, Release);
    }

    /// Whether a finalized communicator's slot may be used again: its rows are sealed and its definition is written.
    pub fn idle(&self, slot: usize) -> bool {
        let busy = self.busy.lock().unwrap_or_else(|p| p.into_inner());
        !busy.get(slot).copied().unwrap_or(false) && !self.uncovered_definitions.load(Relaxed)
    }

    /// Waits a little for the trace file, which says where the live part is: a process that is killed in its first
    /// milliseconds is then found like any other. A slow file system is not waited for.
    pub fn wait_for_files(&self) {
        let asked = self.asked.lock().unwrap_or_else(|p| p.into_inner());
        let _ = self
            .done
            .wait_timeout_while(asked, Duration::from_millis(100), |asked| !asked.opened);
    }

    /// Asks for the last flush of a capture (more may follow if NCCL starts again) and waits for it, at most a second;
    /// whether it came to its end. Not for event callbacks.
    pub fn flush(&self) -> bool {
        if !self.running.load(Acquire) {
            return false;
        }
        let deadline = Instant::now() + Duration::from_secs(1);
        // Not waited for without an end: a signal handler that calls exit() may have interrupted the thread that holds it.
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
