//! The callbacks of a capture recorded in `callbacks` mode, in the order of each process.
//!
//! Rule: one process's trace file is in memory at a time, so a job's callbacks need not fit.

use crate::process::Process;
use crate::{reading, Capture};
use capture::callback::{self, Callback};

impl Capture {
    /// Hands every recorded callback with its process to `each`, process by process, until that fails.
    /// Returns how many there were.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn callbacks<E>(
        &self,
        mut each: impl FnMut(&Process, Callback<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut count = 0;
        for process in &self.processes {
            let mut failed = None;
            reading::callback_blocks(&self.absolute(process), |payload| {
                for callback in callback::read(payload) {
                    if failed.is_none() {
                        count += 1;
                        failed = each(process, callback).err();
                    }
                }
            });
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(count)
    }
}
