//! Patterns of the user's that fit no kernel ([`tables::communication`]): what they are, and why they don't.
//!
//! Rule: a pattern that changes nothing is said to. Otherwise its user takes the figures for others than they
//! are.

use super::Note;
use crate::streams::Streams;
use tables::communication::Pattern;

/// Patterns that are named; more are counted.
const NAMED: usize = 8;

/// Why a pattern fits no kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unused {
    /// Only NCCL's own kernels have it in their names.
    OnlyNccl,
    /// Capitals count, and it has others than the name of this kernel.
    Capitals(String),
    /// Nothing that is known explains it.
    Unknown,
}

/// A note on each pattern that fits no kernel.
pub fn notes(patterns: &[Pattern], streams: Option<&Streams>) -> Vec<Note> {
    let names = streams.map(|streams| &streams.names);
    let Some(names) = names.filter(|names| !names.is_empty()) else {
        let first = patterns.first();
        return first
            .map(|_| Note::PatternsWithoutWindows)
            .into_iter()
            .collect();
    };
    let fits = |pattern: &&Pattern| {
        let mut others = names.iter().filter(|name| !name.starts_with("nccl"));
        others.any(|name| name.contains(&pattern.part))
    };
    let why = |pattern: &Pattern| {
        let lower = pattern.part.to_lowercase();
        let nccl = names.iter().any(|name| name.contains(&pattern.part));
        let close = names
            .iter()
            .find(|name| name.to_lowercase().contains(&lower));
        match (nccl, close) {
            (true, _) => Unused::OnlyNccl,
            (_, Some(name)) => Unused::Capitals(name.clone()),
            _ => Unused::Unknown,
        }
    };
    let without: Vec<&Pattern> = patterns.iter().filter(|pattern| !fits(pattern)).collect();
    let note = |pattern: &&Pattern| Note::PatternUnused {
        pattern: pattern.part.clone(),
        why: why(pattern),
    };
    let mut notes: Vec<Note> = without.iter().take(NAMED).map(note).collect();
    if without.len() > NAMED {
        notes.push(Note::MorePatternsUnused(without.len() - NAMED));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(names: &[&str]) -> Streams {
        Streams {
            windows: 8,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Streams::default()
        }
    }

    fn pattern(part: &str) -> Pattern {
        Pattern {
            part: part.to_owned(),
            library: "ours",
        }
    }

    #[test]
    fn a_pattern_that_fits_nothing_is_said_to() {
        let ran = streams(&[
            "gemm",
            "MyAllReduce<float, 8>",
            "ncclDevKernel_AllReduce_Sum",
        ]);
        let unused = |part: &str| {
            let notes = notes(&[pattern("gemm"), pattern(part)], Some(&ran));
            let why = notes.into_iter().map(|note| match note {
                Note::PatternUnused { pattern, why } if pattern == part => why,
                other => panic!("{other:?}"),
            });
            why.collect::<Vec<Unused>>()
        };
        assert_eq!(unused("float, 8>"), []);
        let name = "MyAllReduce<float, 8>".to_owned();
        assert_eq!(unused("myallreduce"), [Unused::Capitals(name)]);
        assert_eq!(unused("ncclDev"), [Unused::OnlyNccl]);
        assert_eq!(unused("other"), [Unused::Unknown]);
        let many: Vec<Pattern> = (0..10).map(|n| pattern(&format!("x{n}"))).collect();
        assert_eq!(notes(&many, Some(&ran)).len(), NAMED + 1);
        assert_eq!(notes(&many, None), [Note::PatternsWithoutWindows]);
        assert!(notes(&[], None).is_empty());
    }
}
