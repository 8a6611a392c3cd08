//! Steps from NVTX ranges, beside the trace: `NAME.1.marks`, in the format of `NAME.marks`, which Python
//! writes.
//!
//! Steps are taken out at each turn, so that the ring has room, and written at each flush. If the disk takes
//! nothing, they wait within bounds, and what is beyond is counted.

use super::Writer;
use crate::kept_file::KeptFile;
use crate::recorder::messages::say;
use crate::step_ranges;
use std::fmt::Write;
use std::io;

/// Bytes that wait for a disk.
const MOST_WAITING: usize = 1 << 20;
/// A file is no larger, as one of Python's marks. A step takes about 45 bytes.
const MOST: u64 = 64 << 20;

/// See the module.
#[derive(Default)]
pub(super) struct Marks {
    file: Option<KeptFile>,
    /// Bytes that the file has.
    written: u64,
    /// Lines to write.
    waiting: String,
    dropped: u64,
    /// Of the next step.
    number: u64,
    /// The user was told that nothing can be written.
    said: bool,
}

impl Marks {
    fn add(&mut self, from: u64, to: u64) {
        let is_full =
            self.waiting.len() >= MOST_WAITING || self.written + self.waiting.len() as u64 >= MOST;
        if is_full {
            self.dropped += 1;
        } else {
            let number = self.number;
            let _ = writeln!(self.waiting, "[\"step\",{number},{from},{to}]");
        }
        self.number += 1;
    }

    /// The next flush tries again.
    fn complain(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.said, true) {
            say(format_args!(
                "steps of the program can't be written: {error}"
            ));
        }
    }

    /// The first line of the file.
    fn head() -> String {
        let pid = std::process::id();
        // Only names of frameworks, which are public.
        let range = step_ranges::range();
        let range = range.map_or("null".to_owned(), |name| format!("\"{name}\""));
        format!(
            "{{\"schema\":\"ncclscope.marks/1\",\"clock\":\"CLOCK_MONOTONIC\",\"pid\":{pid},\
             \"from\":\"nvtx\",\"range\":{range}}}\n"
        )
    }
}

impl Writer {
    /// Takes the steps that came since the last time.
    pub(super) fn take_steps(&mut self) {
        if self.recorder.settings.steps {
            let marks = &mut self.marks;
            let dropped = step_ranges::take(|from, to| marks.add(from, to));
            marks.dropped += dropped;
        }
    }

    /// Writes them. The trace file comes first, because it says whose steps these are.
    pub(super) fn write_steps(&mut self) {
        if self.file.is_none() || self.marks.waiting.is_empty() && self.marks.dropped == 0 {
            return;
        }
        if self.marks.file.is_none() {
            match KeptFile::create(&self.path(".1.marks")) {
                Ok(file) => self.marks.file = Some(file),
                Err(error) => return self.marks.complain(&error),
            }
        }
        let marks = &mut self.marks;
        let Some(file) = &mut marks.file else { return };
        let mut text = String::new();
        if marks.written == 0 {
            text.push_str(&Marks::head());
        }
        text.push_str(&marks.waiting);
        if marks.dropped > 0 {
            let _ = writeln!(text, "{{\"dropped\":{}}}", marks.dropped);
        }
        match file.write_all_at(text.as_bytes(), marks.written) {
            Ok(()) => {
                marks.written += text.len() as u64;
                marks.waiting.clear();
                marks.dropped = 0;
            }
            // From the same place.
            Err(error) => marks.complain(&error),
        }
    }
}
