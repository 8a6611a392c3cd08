//! The formats that profilers write, one file each.
//!
//! [`read`] looks at a folder: an ncclscope capture, NCCL Inspector's JSON lines, ncclsee's tables, or events
//! in Chrome's trace format (torch.profiler, CoMMA and others). It hands each file to the reader of its
//! format, and the readers fill one [`Records`].
//!
//! Rule: reading never fails on content. A row that can't be read is counted in [`Records::unreadable`]. A
//! file in no known format is named in [`Records::foreign_files`].

pub(crate) mod capture;
pub(crate) mod csv;
pub(crate) mod json;

use crate::records::Records;
use std::path::{Path, PathBuf};

/// Reads what is in `folder`.
///
/// `nranks` is for formats that give sizes of one rank and don't say how many ranks there are. Killed
/// processes of an ncclscope capture leave live parts in shared memory. They are removed there; with `keep`
/// they are first copied into the folder.
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
        capture::read(folder, keep, &mut records);
        files.retain(|f| !has_extension(f, &["trace", "zst", "snap", "live", "json"]));
    }
    for file in files {
        if !csv::read(&file, &mut records) && !json::read(&file, nranks, &mut records) {
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
