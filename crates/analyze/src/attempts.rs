//! The attempts of a job that was started again, as a report has them. [`tables::attempts`] finds them.

use crate::moments::Zone;
use crate::spelling::ranges;
use schemars::JsonSchema;
use serde::Serialize;
use tables::Capture;

/// One start of a job that was started several times.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "OneAttempt")]
pub struct AttemptRow {
    /// From 1, the oldest first.
    pub attempt: u32,
    /// Number of the torchrun restart, 0 for the first start.
    pub restart: u32,
    /// Processes with a trace.
    pub nprocesses: usize,
    /// The launcher's ranks that are here, as `0-7`.
    pub ranks: Option<String>,
    /// When its first process began, RFC 3339, in the recording's time zone.
    pub started: Option<String>,
    /// The last moment that any of its recorders wrote down.
    pub seen: Option<String>,
}

/// The attempts, the oldest first; nothing if the job was started once.
pub fn rows(capture: &Capture) -> Vec<AttemptRow> {
    if capture.attempts.len() < 2 {
        return Vec::new();
    }
    let zone = Zone::of(capture);
    let time = |ns: Option<i64>| zone.rfc3339(ns?);
    let row = |attempt: &tables::Attempt| AttemptRow {
        attempt: attempt.number,
        restart: attempt.restart,
        nprocesses: attempt.nprocesses,
        ranks: (!attempt.ranks.is_empty()).then(|| ranges(attempt.ranks.iter().copied())),
        started: time(attempt.began_ns),
        seen: time(attempt.seen_ns),
    };
    capture.attempts.iter().map(row).collect()
}
