//! `--attempt`: which start of a job that was started again is read.

use tables::{Capture, Which};

/// Which attempt.
#[derive(clap::Args)]
pub struct Attempt {
    /// Which start of a job that was started again, from 1 [default: the last]
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
}

impl Attempt {
    /// The one that is asked for, or the last.
    pub fn which(&self) -> Which {
        self.attempt.map_or(Which::Last, Which::Number)
    }
}

/// Says on standard error which attempts are left out, if there are several.
pub fn tell(capture: &Capture) {
    if let Some(read) = capture.attempt {
        tell_of(read, capture.attempts.len());
    }
}

/// The same of attempt `read` of `of`.
pub fn tell_of(read: u32, of: usize) {
    if of > 1 {
        tell!(
            "ncclscope: note: this job was started {of} times, and this is attempt {read} only; \
             `--attempt N` reads another one"
        );
    }
}
