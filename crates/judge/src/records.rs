//! What a profiler wrote, as the same rows whatever its format.
//!
//! [`read`] looks at a folder: an ncclscope capture, NCCL Inspector's JSON lines, or events in Chrome's trace format (CoMMA
//! and others). Each becomes [`Records`] of [`Record`]s in the order in which the profiler says that they were made.
//!
//! Rule: reading never fails on content. What can't be read is counted in [`Records::unreadable`], and a file in no known
//! format is named in [`Records::foreign_files`].

use crate::readers;
use std::path::{Path, PathBuf};

/// What a row is, where CUDA graphs are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A call that was made and executed, or a profiler that doesn't tell.
    #[default]
    Call,
    /// A captured call.
    Template,
    /// An execution of a captured call.
    Replay,
}

/// One row of a profiler's output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Process.
    pub pid: Option<u32>,
    /// Rank as the profiler has it: the launcher's or the communicator's.
    pub rank: Option<u32>,
    /// NCCL's name of the function, whole operations where the profiler unites their pieces.
    pub function: String,
    /// By nccl-tests' convention; none where the profiler gives no size.
    pub bytes: Option<u64>,
    /// How many calls the row stands for.
    pub number: u64,
    /// Identity of the communicator within the output.
    pub communicator: Option<u64>,
    /// NCCL's sequence number, per communicator and function.
    pub seq: Option<u64>,
    /// How long the call took on the GPU, as the profiler says.
    pub time_ns: Option<u64>,
    /// What it is.
    pub kind: Kind,
    /// The sends and receives that the profiler united to this, with their bytes: what the program called, where it made
    /// them itself.
    pub pieces: Vec<(&'static str, u64)>,
}

/// A profiler's output.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// `ncclscope capture`, `Inspector JSON`, `Chrome trace` or `none`.
    pub format: String,
    /// The rows.
    pub rows: Vec<Record>,
    /// Rows that can't be read.
    pub unreadable: u64,
    /// Calls that the profiler itself says it lost; none where it doesn't say.
    pub admitted: Option<u64>,
    /// Files in no known format.
    pub foreign_files: Vec<PathBuf>,
}

/// Reads what is in `folder`. `nranks` is for formats that don't say it and give sizes of one rank. What killed processes of
/// an ncclscope capture left in shared memory is removed there, and put into the folder first where it is to be kept.
///
/// # Errors
/// When the folder can't be listed.
pub fn read(folder: &Path, nranks: Option<u32>, keep: bool) -> std::io::Result<Records> {
    let mut files = Vec::new();
    list(folder, &mut files)?;
    files.sort();
    let mut records = Records {
        format: "none".into(),
        ..Records::default()
    };
    let capture = files.iter().any(|f| has_extension(f, &["trace", "zst"]));
    if capture {
        readers::capture::read(folder, keep, &mut records);
        files.retain(|f| !has_extension(f, &["trace", "zst", "snap", "live", "json"]));
    }
    for file in files {
        if !readers::json::read(&file, nranks, &mut records) {
            records.foreign_files.push(file);
        }
    }
    Ok(records)
}

fn has_extension(file: &Path, extensions: &[&str]) -> bool {
    file.extension()
        .and_then(|e| e.to_str())
        .is_some_and(|e| extensions.contains(&e))
}

/// The files below `folder` that are not empty.
pub(crate) fn list(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            list(&entry.path(), files)?;
        } else if kind.is_file() && entry.metadata()?.len() > 0 {
            files.push(entry.path());
        }
    }
    Ok(())
}
