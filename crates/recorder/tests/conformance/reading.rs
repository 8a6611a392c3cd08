//! The reading side: what a job left in its capture.

use capture::live::{Cause, Odd};
use tables::{Call, Capture, Process, Shape};

/// The one process of the capture.
pub fn process(capture: &Capture) -> &Process {
    assert_eq!(capture.processes.len(), 1);
    &capture.processes[0]
}

pub fn announced(process: &Process) -> u64 {
    process.counters.as_ref().expect("a live part").announced
}

pub fn odd(process: &Process, odd: Odd) -> u64 {
    process.counters.as_ref().expect("a live part").odd[odd as usize]
}

pub fn lost(process: &Process, cause: Cause) -> u64 {
    process.counters.as_ref().expect("a live part").lost[cause as usize]
}

pub fn calls<'a>(capture: &'a Capture, function: &str) -> Vec<(&'a Call, &'a Shape)> {
    let processes = capture.processes.iter();
    let all = processes.flat_map(|p| p.calls.iter().map(|c| (c, &p.shapes[c.shape as usize])));
    all.filter(|(_, s)| capture.names.get(s.function) == Some(function))
        .collect()
}

/// Nothing lost, nothing unexplained.
#[track_caller]
pub fn complete(capture: &Capture, announced: u64) {
    complete_but(capture, announced, &[]);
}

/// So many calls were recorded, and these lost.
#[track_caller]
pub fn complete_but(capture: &Capture, recorded: u64, lost: &[(&str, u64)]) {
    let c = analyze::report(capture).completeness;
    let all = recorded + lost.iter().map(|(_, n)| n).sum::<u64>();
    assert_eq!((c.announced, c.recorded), (all, recorded), "{c:#?}");
    let lost: Vec<_> = lost.iter().filter(|(_, n)| *n > 0).copied().collect();
    let found: Vec<_> = c
        .lost
        .iter()
        .map(|(cause, n)| (cause.as_str(), *n))
        .collect();
    assert_eq!(found, lost, "{c:#?}");
    assert!(c.adds_up, "{c:#?}");
}
