//! `communication-kernels.txt` in a capture's folder: names of kernels that communicate beside NCCL, said by
//! the user.
//!
//! ```text
//! # part of the kernel's name   library
//! my_all_reduce                 our own all-reduce
//! fused_moe_dispatch            MoE dispatch
//! ```
//!
//! Rule: a line that can't be used is a problem of the capture, and the others count.

use crate::problem::Problem;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The file's name.
pub const FILE: &str = "communication-kernels.txt";

/// Part of kernels' names, and the library that these are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Kernels with this in their name communicate.
    pub part: String,
    /// Whose kernels they are.
    pub library: &'static str,
}

/// Names of libraries, each kept for ever: what kernels do is copied often.
static LIBRARIES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

fn kept(library: &str) -> &'static str {
    let mut libraries = LIBRARIES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = libraries.get(library) {
        return known;
    }
    let library: &'static str = Box::leak(library.to_owned().into_boxed_str());
    libraries.insert(library);
    library
}

/// Reads the patterns of a capture whose folder is `root`.
pub(crate) fn read(root: &Path) -> (Vec<Pattern>, Vec<Problem>) {
    let file = root.join(FILE);
    if !file.is_file() {
        return (Vec::new(), Vec::new());
    }
    match crate::files::text(&file) {
        Ok(text) => parse(&text),
        Err(error) => (Vec::new(), vec![problem("its content", error.to_string())]),
    }
}

fn problem(place: &str, found: String) -> Problem {
    Problem {
        file: FILE.into(),
        place: place.to_owned(),
        expected: "a part of a kernel's name, and behind it the name of the library".to_owned(),
        found,
    }
}

fn parse(text: &str) -> (Vec<Pattern>, Vec<Problem>) {
    let (mut patterns, mut problems) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once(char::is_whitespace) {
            Some((part, library)) => patterns.push(Pattern {
                part: part.to_owned(),
                library: kept(library.trim()),
            }),
            None => problems.push(problem(&format!("line {number}"), format!("`{line}`"))),
        }
    }
    (patterns, problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_parts_and_libraries() {
        let (patterns, problems) =
            parse("# ours\n\n my_all_reduce\t our own  all-reduce \nalone\n");
        assert_eq!(
            patterns,
            [Pattern {
                part: "my_all_reduce".to_owned(),
                library: "our own  all-reduce"
            }]
        );
        assert_eq!(problems.len(), 1);
        assert_eq!(
            (problems[0].place.as_str(), problems[0].found.as_str()),
            ("line 4", "`alone`")
        );
        assert!(std::ptr::eq(kept("a library"), kept("a library")));
        assert_eq!(read(Path::new("/nowhere")), (Vec::new(), Vec::new()));
    }
}
