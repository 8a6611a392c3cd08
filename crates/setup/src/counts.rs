//! How often the CUDA driver was called, as the recorder counts it ([`crate::recorded`]).
//!
//! A line has all counts since the recorder began, in no fixed order:
//!
//! ```text
//! ncclscope counts at_ns=1795413000000000000 told_apart=1 kernel_launches=4711 nccl.kernel_launches=80
//! ```
//!
//! Rule: a name that a line does not have stands for 0. A name that a reader does not know is kept.

use std::collections::BTreeMap;

/// How a line goes on behind [`crate::recorded::OWN`].
pub const COUNTS: &str = "counts ";

/// The counts at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// When they were read, ns since 1970.
    pub at_ns: i64,
    /// By name.
    pub of: BTreeMap<String, u64>,
}

impl Counts {
    /// From what stands behind [`COUNTS`]; `None` without a moment.
    pub fn parse(text: &str) -> Option<Counts> {
        let mut counts = Counts::default();
        let mut at_ns = None;
        for word in text.split_ascii_whitespace() {
            let (name, value) = word.split_once('=')?;
            match name {
                "at_ns" => at_ns = Some(value.parse().ok()?),
                name => {
                    counts.of.insert(name.to_owned(), value.parse().ok()?);
                }
            }
        }
        counts.at_ns = at_ns?;
        Some(counts)
    }

    /// Whether NCCL's calls are told from the program's. They are not if NCCL is linked into another library.
    pub fn are_told_apart(&self) -> bool {
        self.get("told_apart") == 1
    }

    /// Whether loads of code and mappings are counted, and the time of calls that may take long.
    pub fn are_timed(&self) -> bool {
        self.get("timed") == 1
    }

    /// The count of this name.
    pub fn get(&self, name: &str) -> u64 {
        self.of.get(name).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_read_and_the_moment_is_needed() {
        let counts = Counts::parse("at_ns=12 told_apart=1 copies=3 nccl.copies=4 new=5");
        let counts = counts.expect("well formed");
        assert_eq!((counts.at_ns, counts.are_told_apart()), (12, true));
        let read = ["copies", "nccl.copies", "new", "ipc_opens"].map(|name| counts.get(name));
        assert_eq!(read, [3, 4, 5, 0]);
        for text in ["copies=3", "at_ns=1 copies", "at_ns=1 copies=x"] {
            assert_eq!(Counts::parse(text), None, "{text}");
        }
    }
}
