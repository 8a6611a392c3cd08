//! Says when NCCL no longer announces what the recorder asked for ([`crate::mask`]), and when it does again.
//!
//! ```text
//! ncclscope mask at_ns=1795413000000000000 asked=7686 missing=7686
//! ```
//!
//! Rule: a process has [`MOST`] lines at most, and the first of them always.

use super::Writer;
use crate::clock;
use crate::recorder::messages::say;
use capture::block::BlockKind;

/// Lines of a process.
const MOST: u32 = 64;

/// What was written.
#[derive(Default)]
pub(super) struct Announced {
    /// What was missing at the newest line.
    missing: u32,
    lines: u32,
}

impl Writer {
    /// Compares the masks, and stages a line for each change.
    pub(super) fn watch_masks(&mut self) {
        let overwritten = self.recorder.masks.take_overwritten();
        if overwritten != 0 {
            self.mask_is_missing(overwritten);
        }
        // After the last communicator, nothing is announced, and nothing is missing.
        if let Some(missing) = self.recorder.masks.missing() {
            self.mask_is_missing(missing);
        }
    }

    fn mask_is_missing(&mut self, missing: u32) {
        if missing == self.announced.missing || self.announced.lines >= MOST {
            return;
        }
        let at_ns = clock::nanoseconds(libc::CLOCK_REALTIME);
        let asked = self.recorder.mask();
        let line = format!("ncclscope mask at_ns={at_ns} asked={asked} missing={missing}\n");
        if !self.block(BlockKind::Setup, |out| out.extend(line.as_bytes())) {
            return;
        }
        if self.announced.lines == 0 {
            say(format_args!(
                "NCCL no longer announces all events that were asked for: somebody changed the mask of its \
                profiler, which was {asked:#x} (for example with `ncclras CONTROL PROFILER_MASK none`). What \
                is not announced can't be recorded; the report says since when"
            ));
        }
        self.announced.missing = missing;
        self.announced.lines += 1;
    }
}
