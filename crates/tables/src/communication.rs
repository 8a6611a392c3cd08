//! `communication-kernels.txt` in a capture's folder: names of kernels that communicate beside NCCL, said by
//! the user.
//!
//! ```text
//! # part of the kernel's name             library
//! my_all_reduce                           our own all-reduce
//! void ours::dispatch<float, 8>(int)      MoE dispatch
//! ```
//!
//! Names of kernels have spaces. So a tab or two spaces end the part, or the quotes around it. In a line with
//! single spaces, the part is a name: it goes on within brackets, and after the type that it begins with.
//!
//! Rule: a line that can't be used is a problem of the capture, and the others count. A name is never cut: a
//! part like `void` would be in almost all names.

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
        expected: "a part of a kernel's name, two spaces, and the name of the library".to_owned(),
        found,
    }
}

fn parse(text: &str) -> (Vec<Pattern>, Vec<Problem>) {
    let (mut patterns, mut problems) = (Vec::new(), Vec::new());
    // Some editors begin a file with a mark.
    let text = text.trim_start_matches('\u{feff}');
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match split(line) {
            Some((part, library)) if !part.is_empty() && !library.is_empty() => {
                patterns.push(Pattern {
                    part: part.to_owned(),
                    library: kept(library),
                });
            }
            _ => problems.push(problem(&format!("line {number}"), format!("`{line}`"))),
        }
    }
    (patterns, problems)
}

/// Types that names begin with, as the report prints them.
const TYPES: [&str; 9] = [
    "void", "bool", "char", "int", "unsigned", "long", "float", "double", "const",
];

/// The part of a name and the library; `None` if it can't be told where the part ends.
fn split(line: &str) -> Option<(&str, &str)> {
    let quote = line.chars().next().filter(|c| "\"'`".contains(*c));
    let (part, library) = match quote {
        Some(quote) => line[1..].split_once(quote)?,
        None => {
            let ends = [line.find('\t'), line.find("  ")];
            let end = ends.into_iter().flatten().min();
            line.split_at(end.or_else(|| end_of_name(line))?)
        }
    };
    // The report cuts long names.
    let part = part.trim().trim_end_matches('…').trim_end();
    Some((part, library.trim()))
}

/// Where the name of a kernel ends that a line begins with: at a space outside of brackets, and not behind a
/// type.
fn end_of_name(line: &str) -> Option<usize> {
    let (mut depth, mut word) = (0i32, 0);
    for (at, c) in line.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth -= 1,
            ' ' if depth <= 0 => {
                if !TYPES.contains(&&line[word..at]) {
                    return Some(at);
                }
                word = at + 1;
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_is_not_cut() {
        let name = "void at::native::(anonymous namespace)::norm<float, 8>(int, float*)";
        for line in [
            format!("{name} our norm"),
            format!("{name}   our norm"),
            format!("{name}\tour norm"),
            format!("\u{feff}\"{name}\" our norm"),
            format!("`{name}`  our norm"),
            format!("  {name}…  our norm"),
        ] {
            let (patterns, problems) = parse(&line);
            assert!(problems.is_empty(), "{line}: {problems:?}");
            assert_eq!(
                (patterns[0].part.as_str(), patterns[0].library),
                (name, "our norm")
            );
        }
        let part = parse("float, 8>  ours").0;
        assert_eq!(part[0].part, "float, 8>");
        // It can't be told where these end.
        for line in [
            "void norm",
            "void norm<float, 8… ours",
            "\"norm ours",
            "\"\" ours",
            "norm  ",
        ] {
            let (patterns, problems) = parse(line);
            assert_eq!((patterns.len(), problems.len()), (0, 1), "{line}");
        }
    }

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
