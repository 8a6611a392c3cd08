//! Whether a run did what the runs of the default did: a run that did less is no faster one.
//!
//! A program may fail and still end with status 0: behind a pipe, or under a launcher that does not pass the
//! status on. What it did is in its capture.
//!
//! Rule: what the default's runs differ in, a run may differ in by as much again. Most programs do the same
//! work in every run, so their runs must be equal.

use crate::Report;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What a run did, on all ranks together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Work {
    /// Calls that NCCL announced, and those in launches of CUDA graphs.
    pub calls: u64,
    /// Their bytes; null if not all calls were recorded, or if the size of some is not known.
    pub bytes: Option<u64>,
    /// Calls by function, of those that were recorded.
    #[serde(skip)]
    pub functions: BTreeMap<String, u64>,
}

/// What a run did that the default's runs did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OtherWork {
    /// It made no call, and the default so many.
    Nothing(u64),
    /// So many calls, and those of the default.
    Calls(u64, u64),
    /// So many calls of this function, and those of the default.
    Function(String, u64, u64),
    /// Calls of so many bytes in all, and those of the default.
    Bytes(u64, u64),
}

impl Work {
    /// What a run did, by its report.
    pub fn of(report: &Report) -> Work {
        let of = &report.completeness;
        let is_whole = of.lost.is_empty() && of.unseen.is_empty();
        let rows = report.operations.iter();
        let bytes = rows.map(|row| Some(row.bytes?.saturating_mul(row.calls)));
        let sum: Option<u64> = bytes.sum();
        let mut functions = BTreeMap::new();
        for row in &report.operations {
            if let Some(function) = row.function.as_ref().filter(|_| is_whole) {
                *functions.entry(function.clone()).or_default() += row.calls;
            }
        }
        Work {
            calls: of.announced.saturating_add(of.in_graphs.unwrap_or(0)),
            bytes: sum.filter(|_| is_whole),
            functions,
        }
    }

    /// How this differs from what the default's runs did; `None` if it does not, or if nothing is known of
    /// them.
    pub fn differs(&self, default: &[Work]) -> Option<OtherWork> {
        let calls = default.iter().map(|work| work.calls);
        let (calls, most) = (calls.clone().min()?, calls.max()?);
        let known: Option<Vec<u64>> = default.iter().map(|work| work.bytes).collect();
        let known = known.unwrap_or_default();
        let bytes = known.iter().min().zip(known.iter().max()).zip(self.bytes);
        let other_bytes = bytes.filter(|((least, most), own)| !alike(**least, **most, *own));
        if self.calls == 0 && calls > 0 {
            return Some(OtherWork::Nothing(calls));
        }
        if !alike(calls, most, self.calls) {
            return Some(OtherWork::Calls(self.calls, calls));
        }
        if let Some(other) = self.other_function(default) {
            return Some(other);
        }
        let ((least, _), own) = other_bytes?;
        Some(OtherWork::Bytes(own, *least))
    }

    /// A function of which this made other calls than the default's runs.
    fn other_function(&self, default: &[Work]) -> Option<OtherWork> {
        if self.functions.is_empty() || default.iter().any(|work| work.functions.is_empty()) {
            return None;
        }
        let all = default.iter().chain([self]);
        let all: BTreeSet<&String> = all.flat_map(|work| work.functions.keys()).collect();
        all.into_iter().find_map(|function| {
            let of = |work: &Work| work.functions.get(function).copied().unwrap_or(0);
            let (least, most) = (default.iter().map(of).min()?, default.iter().map(of).max()?);
            let own = of(self);
            (!alike(least, most, own)).then(|| OtherWork::Function(function.clone(), own, most))
        })
    }
}

/// Whether a value is among some, or as close to them as they are to each other.
fn alike(least: u64, most: u64, value: u64) -> bool {
    let spread = most - least;
    (least.saturating_sub(spread)..=most.saturating_add(spread)).contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(calls: u64, bytes: u64) -> Work {
        Work {
            calls,
            bytes: Some(bytes),
            functions: BTreeMap::new(),
        }
    }

    #[test]
    fn a_run_that_did_less_is_told() {
        let default = [work(48, 96 << 20), work(48, 96 << 20)];
        let other = |of: Work| of.differs(&default);
        assert_eq!(other(work(48, 96 << 20)), None);
        assert_eq!(other(work(0, 0)), Some(OtherWork::Nothing(48)));
        assert_eq!(other(work(24, 48 << 20)), Some(OtherWork::Calls(24, 48)));
        assert_eq!(
            other(work(48, 48 << 20)),
            Some(OtherWork::Bytes(48 << 20, 96 << 20))
        );
        // Lost calls say nothing of bytes.
        let lost = Work {
            calls: 48,
            ..Work::default()
        };
        assert_eq!(lost.differs(&default), None);
        assert_eq!(work(48, 1).differs(std::slice::from_ref(&lost)), None);
        assert_eq!(work(48, 1).differs(&[]), None);
    }

    #[test]
    fn other_functions_of_as_many_bytes_are_other_work() {
        let of = |function: &str| Work {
            functions: BTreeMap::from([(function.to_owned(), 48)]),
            ..work(48, 96 << 20)
        };
        let default = [of("AllReduce"), of("AllReduce")];
        assert_eq!(of("AllReduce").differs(&default), None);
        assert_eq!(
            of("ReduceScatter").differs(&default),
            Some(OtherWork::Function("AllReduce".to_owned(), 0, 48))
        );
        assert_eq!(work(48, 96 << 20).differs(&default), None);
    }

    #[test]
    fn runs_may_differ_as_much_as_those_of_the_default_do() {
        let default = [work(100, 1000), work(104, 1040), work(102, 1020)];
        assert_eq!(work(96, 960).differs(&default), None);
        assert_eq!(work(108, 1080).differs(&default), None);
        assert!(work(95, 960).differs(&default).is_some());
        assert!(work(100, 1100).differs(&default).is_some());
    }
}
