//! A whole report: the same however its capture is split.

use super::*;
use tables::{Call, GpuTimes, Shape};

/// Four processes with two functions on a communicator each does not share.
fn capture() -> Capture {
    let mut capture = Capture::default();
    let functions = ["AllReduce", "Broadcast"].map(|f| capture.names.intern(f));
    let datatype = capture.names.intern("ncclFloat32");
    for rank in 0..4u64 {
        let shape = |i: usize| Shape {
            uid: 1,
            function: functions[(i + rank as usize) % 2],
            datatype,
            count: 1024 << i,
            ..Shape::default()
        };
        let call = |ticket: u64| Call {
            ticket,
            shape: (ticket % 3) as u32,
            api_ns: 1_000 + 100 * ticket as i64,
            return_ns: 1_050 + 100 * ticket as i64 + rank as i64,
            gpu: GpuTimes::stamps(5_000 + 300 * ticket, 5_200 + 300 * ticket + 7 * rank),
            channels_started: 1,
            channels_stopped: 1,
            sealed: true,
            ..Call::default()
        };
        capture.processes.push(Process {
            rank: Some(rank as u32),
            shapes: (0..3).map(shape).collect(),
            calls: (0..50).map(call).collect(),
            ..Process::default()
        });
    }
    capture
}

#[test]
fn parts_put_together_give_the_same_report() {
    let capture = capture();
    let whole = format!("{:?}", report(&capture));
    for split in 0..=4 {
        let (mut first, mut second) = (Analysis::default(), Analysis::default());
        for (index, process) in capture.processes.iter().enumerate() {
            let part = if index < split {
                &mut first
            } else {
                &mut second
            };
            part.add(&capture, process);
        }
        first.merge(second);
        let report = first.finish(&capture);
        assert_eq!(format!("{report:?}"), whole);
    }
}

#[test]
fn the_first_call_of_a_rank_on_a_communicator_stands_apart() {
    let report = report(&capture());
    let sum = |pick: fn(&operations::Operation) -> u64| -> u64 {
        report.operations.iter().map(pick).sum()
    };
    assert_eq!(
        (
            sum(|o| o.calls),
            sum(|o| o.timed),
            sum(|o| o.warmup.unwrap_or(0))
        ),
        (200, 200, 4)
    );
    assert_eq!(sum(|o| o.time_us.map_or(0, |t| t.n)), 196);
    assert_eq!(report.warmup.iter().map(|w| w.calls).sum::<u64>(), 4);
    assert_eq!(report.completeness.timed, 200);
}

#[test]
fn after_lost_calls_none_is_known_to_be_the_first() {
    let mut capture = capture();
    for process in &mut capture.processes {
        process.calls.remove(0);
    }
    assert!(report(&capture).warmup.is_empty());
}
