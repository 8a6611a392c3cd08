//! What was not as it should be.
//!
//! Rule: reading goes on after a problem, and each one reaches the report.

use crate::printable;
use std::fmt;
use std::path::PathBuf;

/// Something unsound in a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, relative to the capture where it is inside.
    pub file: PathBuf,
    /// Where in it.
    pub place: String,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = format!(
            "{}, {}: expected {}, found {}",
            self.file.display(),
            self.place,
            self.expected,
            self.found
        );
        f.write_str(&printable(&line))
    }
}
