//! Takes a lock, even if a thread panicked while it held it.
//!
//! The panic is on standard error already. What the lock guards is a plain value that is whole between two
//! statements, so the others can go on with it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The guard of `mutex`, poisoned or not.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
