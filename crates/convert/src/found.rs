//! What a reader found in one file.

use crate::writer::Process;
use std::path::Path;
use tables::Problem;

/// What a file had, and what was wrong with it.
#[derive(Debug, Default)]
pub struct Found {
    /// For the capture.
    pub process: Process,
    /// CUDA's numbers of the GPUs on which something ran.
    pub devices: Vec<u32>,
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Name of the host.
    pub host: Option<String>,
    /// Where reading ended before the file did, and what was there: place, expected, found.
    pub damage: Vec<(String, String, String)>,
}

/// What was wrong with a file, for the capture.
pub fn problems(file: &Path, damage: Vec<(String, String, String)>) -> Vec<Problem> {
    let problem = |(place, expected, found)| Problem {
        file: file.to_owned(),
        place,
        expected,
        found,
    };
    damage.into_iter().map(problem).collect()
}
