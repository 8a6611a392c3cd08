//! What was not as it should be.
//!
//! Rule: reading goes on after a problem, and each one reaches the report.

use crate::printable;
use capture::format::{Refused, FORMAT, OLDEST};
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

/// The formats that are read, as problems say it.
pub(crate) fn known_formats() -> String {
    format!(
        "format {OLDEST} or {}, which this ncclscope reads",
        FORMAT.major
    )
}

/// What helps with a file that has something newer.
pub(crate) const NEWER: &str = "a newer ncclscope may read it";

impl Problem {
    /// A file is of a format that is not known, or needs features that are not known.
    pub(crate) fn refused(file: PathBuf, found: Refused) -> Problem {
        let expected = match found {
            Refused::Format(_) => known_formats(),
            Refused::Features(..) => FEATURES.into(),
        };
        Problem {
            file,
            place: "its header".into(),
            expected,
            found: format!("{found}; {NEWER}"),
        }
    }

    /// A file has something that is not known. It is left out, and the rest is read.
    pub(crate) fn left_out(file: PathBuf, place: &str, expected: &str, found: &str) -> Problem {
        Problem {
            file,
            place: place.into(),
            expected: expected.into(),
            found: format!("{found}, left out; {NEWER}"),
        }
    }
}

/// What a header should have.
pub(crate) const FEATURES: &str = "features that this ncclscope knows";

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
