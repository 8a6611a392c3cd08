//! Why a communicator was not made: the warning that says so, and whose it is.
//!
//! Rule: there is a failure only if a rank began and did not end, or if no rank ever ended. What NCCL warned
//! of in a job that got ready is not called a failure of its start.

use crate::log::Init;
use crate::warnings::{Gravity, Warning};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// A warning of a start that failed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Failure {
    /// The rank that it came from, in the communicator that it did not make; null if that is not known.
    pub rank: Option<u32>,
    /// Ranks in the communicator that was not made.
    pub nranks: Option<u32>,
    /// Bytes that could not be allocated; null if it is about something else.
    pub bytes: Option<u64>,
    /// The warning.
    #[serde(flatten)]
    pub warning: Warning,
}

/// The first warning that may be the cause: of a process that did not end its init, before others.
pub fn failure(inits: &[Init], warnings: &[Warning]) -> Option<Failure> {
    let open: BTreeSet<(&str, u32)> = inits
        .iter()
        .filter(|init| !init.is_complete)
        .map(|init| (init.host.as_str(), init.pid))
        .collect();
    if open.is_empty() && inits.iter().any(|init| init.is_complete) {
        return None;
    }
    let is_open = |warning: &Warning| open.contains(&(warning.host.as_str(), warning.pid));
    let grave = warnings
        .iter()
        .filter(|warning| warning.gravity() != Gravity::Harmless);
    let are_timed = grave.clone().all(|warning| warning.at_s.is_some());
    let order = |a: &&Warning, b: &&Warning| {
        let key = |warning: &Warning| (warning.gravity(), !is_open(warning));
        let at = |warning: &Warning| warning.at_s.filter(|_| are_timed).unwrap_or(0.0);
        key(a).cmp(&key(b)).then(at(a).total_cmp(&at(b)))
    };
    // The first of equals.
    let first = grave.clone().min_by(order)?;
    // `out of memory` comes before the size.
    let of_process = |warning: &&Warning| (&warning.host, warning.pid) == (&first.host, first.pid);
    let sized = grave
        .filter(of_process)
        .find(|warning| warning.bytes_not_allocated().is_some())
        .filter(|_| first.is_out_of_memory());
    let warning = sized.unwrap_or(first);
    let init = inits.iter().rev().find(|init| {
        let same_device = warning.device.is_none() || init.device == warning.device;
        !init.is_complete && (&init.host, init.pid) == (&warning.host, warning.pid) && same_device
    });
    Some(Failure {
        rank: init.map(|init| init.rank),
        nranks: init.map(|init| init.nranks),
        bytes: warning.bytes_not_allocated(),
        warning: warning.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init(pid: u32, rank: u32, is_complete: bool) -> Init {
        Init {
            host: "n1".into(),
            pid,
            rank,
            nranks: 2,
            is_complete,
            ..Init::default()
        }
    }

    fn warning(pid: u32, at_s: Option<f64>, text: &str) -> Warning {
        Warning {
            host: "n1".into(),
            pid,
            at_s,
            text: text.into(),
            ..Warning::default()
        }
    }

    #[test]
    fn the_cause_comes_before_what_it_did_to_others() {
        let inits = [init(1, 0, false), init(2, 1, false)];
        let closed = warning(1, None, "Connection closed by remote peer n2");
        let memory = warning(2, None, "Cuda failure 2 'out of memory'");
        let size = warning(2, None, "Failed to CUDA calloc 4096 bytes");
        let found = failure(&inits, &[closed.clone(), memory, size]).expect("a failure");
        assert_eq!((found.rank, found.bytes), (Some(1), Some(4096)));
        let found = failure(&inits, &[closed]).expect("a failure");
        assert_eq!(found.rank, Some(0));
    }

    #[test]
    fn of_several_causes_the_earliest_counts_if_all_have_times() {
        let inits = [init(1, 0, false), init(2, 1, false)];
        let late = |at| warning(1, at, "a");
        let early = |at| warning(2, at, "b");
        let of = |warnings: &[Warning]| failure(&inits, warnings).and_then(|f| f.rank);
        assert_eq!(of(&[late(Some(9.0)), early(Some(5.0))]), Some(1));
        assert_eq!(of(&[late(Some(9.0)), early(None)]), Some(0));
    }

    #[test]
    fn a_job_that_got_ready_did_not_fail() {
        let done = [init(1, 0, true)];
        assert_eq!(failure(&done, &[warning(1, None, "a")]), None);
        let harmless = warning(1, None, "Failed to open libibverbs.so[.1]");
        assert_eq!(failure(&[init(1, 0, false)], &[harmless]), None);
        let alone = failure(&[], &[warning(1, None, "a")]).expect("a failure");
        assert_eq!((alone.rank, alone.warning.pid), (None, 1));
    }
}
