//! The reading side: what a job left in its capture.

use capture::live::Odd;
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

pub fn calls<'a>(capture: &'a Capture, function: &str) -> Vec<(&'a Call, &'a Shape)> {
    let processes = capture.processes.iter();
    let all = processes.flat_map(|p| p.calls.iter().map(|c| (c, &p.shapes[c.shape as usize])));
    all.filter(|(_, s)| capture.names.get(s.function) == Some(function))
        .collect()
}

/// Nothing lost, nothing unexplained.
#[track_caller]
pub fn complete(capture: &Capture, announced: u64) {
    let c = analyze::report(capture).completeness;
    assert_eq!((c.announced, c.recorded), (announced, announced), "{c:#?}");
    assert!(c.adds_up && c.lost.is_empty(), "{c:#?}");
}
