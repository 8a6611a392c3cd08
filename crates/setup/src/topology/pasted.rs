//! Matrices as people paste them: with a launcher's tags before each line, coloured, several in one file.
//!
//! Rule: lines with different tags are of different hosts, and each heading begins another matrix.

use super::matrix::{is_link, is_numbered};
use crate::log_line::without_colours;

/// The texts of the matrices of a file, with the tag before their lines, which may be empty.
pub(super) fn parts(text: &str) -> Vec<(String, String)> {
    let lines: Vec<String> = text
        .lines()
        .map(|line| without_colours(line).into_owned())
        .collect();
    // What stands before the first GPU of each heading.
    let mut tags: Vec<&str> = Vec::new();
    for line in &lines {
        if let Some(tag) = heading(line) {
            let tag = tag.trim();
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
    }
    let mut parts: Vec<(String, String)> = Vec::new();
    for tag in &tags {
        let title = tag.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
        let mut open = false;
        for line in &lines {
            let rest = match tag.is_empty() {
                // Lines of other tags are not of this host.
                true if heading(line).is_some_and(|of| !of.trim().is_empty()) => continue,
                true => Some(line.as_str()),
                false => line.trim_start().strip_prefix(tag),
            };
            let Some(rest) = rest else { continue };
            if heading(rest).is_some() {
                parts.push((title.clone(), String::new()));
                open = true;
            }
            if open {
                if let Some((_, part)) = parts.last_mut() {
                    part.push_str(rest);
                    part.push('\n');
                }
            }
        }
    }
    parts
}

/// What stands before the heading of a matrix; `None` for any other line. A row has a link behind its device.
fn heading(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let first = words.by_ref().find(|word| is_device(word))?;
    let next = words.next()?;
    if is_link(next) || first_link(next) {
        return None;
    }
    let is_heading = is_device(next) || ["CPU", "NUMA"].contains(&next) || !first.contains(':');
    let at = line.find(first)?;
    let before = &line[..at];
    // Text about GPUs is no heading.
    let is_tag = before.split_whitespace().count() <= 1;
    let many = is_device(next) || next == "CPU" || next == "NUMA" || glued(first).len() > 1;
    (is_heading && is_tag && many).then_some(before)
}

/// Whether a word is `GPU0`, or several of these without blanks between them.
fn is_device(word: &str) -> bool {
    glued(word).iter().all(|name| is_numbered(name, "GPU"))
}

/// Names without blanks between them: `GPU0GPU1` is two.
pub(super) fn glued(word: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = word;
    while let Some(at) = rest.get(1..).and_then(|behind| behind.find("GPU")) {
        names.push(&rest[..at + 1]);
        rest = &rest[at + 1..];
    }
    names.push(rest);
    names
}

/// Whether a word begins with several links without blanks between them.
fn first_link(word: &str) -> bool {
    links(word).is_some_and(|links| links.len() > 1)
}

/// Links without blanks between them: `NV18NV18SYS` is three. `None` if something else is in it.
pub(super) fn links(word: &str) -> Option<Vec<&str>> {
    const NAMES: [&str; 7] = ["PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "X"];
    let mut found = Vec::new();
    let mut rest = word;
    while !rest.is_empty() {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let length = match rest.strip_prefix("NV") {
            Some(count) if digits(count) > 0 => 2 + digits(count),
            _ => NAMES.iter().find(|name| rest.starts_with(**name))?.len(),
        };
        found.push(&rest[..length]);
        rest = &rest[length..];
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;

    #[test]
    fn cells_without_blanks_are_taken_apart() {
        assert_eq!(links("NV18NV18SYS"), Some(vec!["NV18", "NV18", "SYS"]));
        assert_eq!(links("XNV4PIX"), Some(vec!["X", "NV4", "PIX"]));
        for word in ["0-55", "NV", "NV18x", "N/A0"] {
            assert_eq!(links(word), None, "{word}");
        }
        assert_eq!(glued("GPU0GPU1GPU12"), ["GPU0", "GPU1", "GPU12"]);
        let text = "GPU0GPU1 CPU Affinity\nGPU0 XNV12 0-15\nGPU1 NV12X 0-15\n";
        let read = Topology::read(text).expect("a matrix");
        assert_eq!(read.link("GPU0", "GPU1"), Some("NV12"));
    }

    #[test]
    fn hosts_with_tags_are_read_apart() {
        let text = "n1: \tGPU0\tGPU1\tCPU Affinity\nn2: \tGPU0\tGPU1\tCPU Affinity\n\
                    n1: GPU0\t X \tNV4\t0-7\nn2: GPU0\t X \tSYS\t0-7\n\
                    n1: GPU1\tNV4\t X \t0-7\nn2: GPU1\tSYS\t X \t8-15\n";
        let all = Topology::read_all(text).expect("two matrices");
        let seen: Vec<_> = all
            .iter()
            .map(|(host, topology)| (host.as_deref(), topology.link("GPU0", "GPU1")))
            .collect();
        assert_eq!(seen, [(Some("n1"), Some("NV4")), (Some("n2"), Some("SYS"))]);
    }

    #[test]
    fn two_matrices_behind_each_other_are_two_hosts_and_what_is_possible_is_another() {
        let one = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n";
        let two = one.replace("NV4", "SYS");
        let possible = one.replace("NV4", "NS");
        let read = |text: &str| Topology::read_all(text).map(|all| all.len());
        assert_eq!(read(&format!("{one}\n{two}")), Ok(2));
        assert_eq!(read(&format!("{one}\n{possible}")), Ok(1));
        assert_eq!(read(&format!("{one}\n{one}")), Ok(1));
        assert!(read("hello GPU0 GPU1").is_err());
        assert_eq!(read(&possible), Ok(1));
    }
}
