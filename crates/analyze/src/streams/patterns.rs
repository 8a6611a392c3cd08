//! Patterns of the user's that fit no kernel ([`tables::communication`]): what they are, and why they don't.
//!
//! Rule: a pattern that changes nothing is said to. Otherwise its user takes the figures for others than they
//! are.

use super::Streams;
use tables::communication::{Pattern, FILE};

/// Patterns that are named; more are counted.
const NAMED: usize = 8;

/// A note on each pattern that fits no kernel.
pub fn notes(patterns: &[Pattern], streams: Option<&Streams>) -> Vec<String> {
    let names = streams.map(|streams| &streams.names);
    let Some(names) = names.filter(|names| !names.is_empty()) else {
        let note = format!("{FILE} changes nothing: the capture has no kernel windows.");
        return patterns.iter().take(1).map(|_| note.clone()).collect();
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
            (true, _) => "only NCCL's own kernels have it in their names".to_owned(),
            (_, Some(name)) => format!("capitals count, and one is named `{name}`"),
            _ => "`report --kernels` has the names".to_owned(),
        }
    };
    let without: Vec<&Pattern> = patterns.iter().filter(|pattern| !fits(pattern)).collect();
    let note = |pattern: &&Pattern| {
        let (part, why) = (&pattern.part, why(pattern));
        format!("{FILE}: no kernel is named like `{part}`; {why}.")
    };
    let mut notes: Vec<String> = without.iter().take(NAMED).map(note).collect();
    if without.len() > NAMED {
        let more = without.len() - NAMED;
        notes.push(format!("{FILE}: {more} more patterns fit no kernel."));
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
        let said = |part: &str| notes(&[pattern("gemm"), pattern(part)], Some(&ran));
        assert_eq!(said("float, 8>"), Vec::<String>::new());
        assert_eq!(
            said("myallreduce"),
            ["communication-kernels.txt: no kernel is named like `myallreduce`; capitals count, and one is \
              named `MyAllReduce<float, 8>`."]
        );
        assert_eq!(
            said("ncclDev"),
            ["communication-kernels.txt: no kernel is named like `ncclDev`; only NCCL's own kernels have it \
              in their names."]
        );
        assert!(said("other")[0].ends_with("`report --kernels` has the names."));
        let many: Vec<Pattern> = (0..10).map(|n| pattern(&format!("x{n}"))).collect();
        assert_eq!(notes(&many, Some(&ran)).len(), NAMED + 1);
        let without = notes(&many, None);
        assert_eq!(without.len(), 1);
        assert!(without[0].contains("no kernel windows"));
        assert!(notes(&[], None).is_empty());
    }
}
