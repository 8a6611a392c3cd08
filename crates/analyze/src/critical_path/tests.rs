//! Small jobs with a planted path.

use super::*;
use crate::fixtures::communicator;
use crate::report;
use capture::live::{part, waiter};
use tables::communicators::Local;
use tables::{Call, Capture, GpuTimes, Process, Shape};

/// Times in µs are spelled in ns here.
const US: u64 = 1000;
/// A step lasts so long.
const STEP: u64 = 10_000 * US;

/// A kernel of each step: its communicator, and its begin and end after the begin of the step. Then how long
/// before its begin it was launched, and for how long a stream stood still for it, if that is known. µs.
type Kernel = (u32, u64, u64, u64, Option<i64>);

/// Twelve steps of these kernels by rank, on GPUs with clocks of their own.
fn job(members: &[&[usize]], kernels: &[&[Kernel]]) -> Capture {
    let mut capture = Capture::default();
    let function = capture.names.intern("AllReduce");
    let datatype = capture.names.intern("ncclFloat32");
    for (index, members) in members.iter().enumerate() {
        capture.communicators.push(communicator(index, members));
    }
    for (rank, kernels) in kernels.iter().enumerate() {
        let all = (0..12u64).flat_map(|step| kernels.iter().enumerate().map(move |of| (step, of)));
        let call = |(ticket, (step, (at, kernel))): (usize, (u64, (usize, &Kernel)))| {
            let (_, begin, end, launched, exposed) = *kernel;
            let on_gpu = |us: u64| 77_000_000 * (rank as u64 + 1) + step * STEP + us * US;
            let host = 1_000_000_000 + (step * STEP + (begin - launched) * US) as i64;
            Call {
                ticket: ticket as u64,
                shape: at as u32,
                api_ns: host,
                launch_start_ns: host,
                return_ns: host + 1000,
                gpu: GpuTimes::stamps(on_gpu(begin), on_gpu(end)),
                waiter: exposed.map_or(0, |_| waiter::TIMED | 1 << 2),
                waited: exposed.map_or(0, |us| (us * 1000 / waiter::UNIT) as i32),
                channels_started: 1,
                channels_stopped: 1,
                sealed: true,
                ..Call::default()
            }
        };
        let shape = |(at, kernel): (usize, &Kernel)| Shape {
            uid: kernel.0,
            communicator: Some(kernel.0),
            function,
            datatype,
            count: 1024 << kernels[..at].iter().filter(|k| k.0 == kernel.0).count(),
            parts: part::EVENTS,
            ..Shape::default()
        };
        let local = |uid: u32| Local {
            uid,
            ..Local::default()
        };
        capture.processes.push(Process {
            rank: Some(rank as u32),
            pid: rank as u32,
            communicators: (0..members.len() as u32).map(local).collect(),
            shapes: kernels.iter().enumerate().map(shape).collect(),
            calls: all.enumerate().map(call).collect(),
            ..Process::default()
        });
    }
    capture
}

/// Kind, rank and µs of each segment of the step of median time.
fn path(capture: &Capture) -> Vec<(&'static str, u32, f64)> {
    let path = report(capture).critical_path.expect("a path");
    let sum: f64 = path.step.segments.iter().map(|s| s.time_us).sum();
    assert_eq!(sum, path.step.time_us);
    assert_eq!(path.sum_us, path.steps as f64 * 10_000.0);
    let share: f64 = path.rows.iter().map(|row| row.share).sum();
    assert!((share - 1.0).abs() < 1e-9);
    let segment = |s: &Segment| (s.on.kind, s.on.process.rank.expect("known"), s.time_us);
    path.step.segments.iter().map(segment).collect()
}

#[test]
fn the_path_goes_through_whoever_arrives_last() {
    // Rank 1 is 2 ms late to the first operation, and rank 0 as much to the second.
    let found = path(&job(
        &[&[0, 1]],
        &[
            &[(0, 1000, 4000, 10, None), (0, 8000, 9000, 10, None)],
            &[(0, 3000, 4000, 10, None), (0, 6000, 9000, 10, None)],
        ],
    ));
    let planted = [
        ("work", 1, 4000.0),
        ("operation", 1, 1000.0),
        ("work", 0, 4000.0),
        ("operation", 0, 1000.0),
    ];
    assert_eq!(found, planted);
}

#[test]
fn lateness_is_followed_over_communicators() {
    // Rank 0 is late to its pair; rank 1 comes late to rank 2 for it, with nothing to do in between.
    let found = path(&job(
        &[&[0, 1], &[1, 2], &[0, 1, 2]],
        &[
            &[(0, 5000, 6000, 10, None), (2, 7000, 9000, 10, None)],
            &[
                (0, 1000, 6000, 10, None),
                (1, 6005, 8005, 5000, None),
                (2, 8100, 9000, 10, None),
            ],
            &[(1, 2005, 8005, 10, None), (2, 8050, 9000, 10, None)],
        ],
    ));
    let planted = [
        ("work", 0, 6000.0),
        ("operation", 0, 1000.0),
        ("work", 1, 5.0),
        ("operation", 1, 2000.0),
        ("work", 1, 95.0),
        ("operation", 1, 900.0),
    ];
    assert_eq!(found, planted);
}

#[test]
fn operations_that_no_stream_stood_still_for_are_beside_the_path() {
    // The first operation ends while the ranks compute; a stream stands still for the second one.
    let of = |late: u64| {
        [
            (0, 2000 + late, 4000, 10, Some(0)),
            (0, 5000 + late, 6000, 10, Some(1000)),
        ]
    };
    let found = path(&job(&[&[0, 1]], &[&of(0), &of(100)]));
    let planted = [
        ("work", 1, 6100.0),
        ("work", 1, 3000.0),
        ("operation", 1, 900.0),
    ];
    assert_eq!(found, planted);
    // If the streams stand still for the first one, too, it is on the path.
    let of = |late: u64| {
        [
            (0, 2000 + late, 4000, 10, Some(500)),
            (0, 5000 + late, 6000, 10, Some(1000)),
        ]
    };
    let found = path(&job(&[&[0, 1]], &[&of(0), &of(100)]));
    let planted = [
        ("work", 1, 6100.0),
        ("operation", 1, 1900.0),
        ("work", 1, 1100.0),
        ("operation", 1, 900.0),
    ];
    assert_eq!(found, planted);
}

#[test]
fn work_ends_with_the_launch_or_with_the_gpu() {
    let why = |launched: u64| {
        let rank = |late: u64| {
            [
                (0, 2000 + late, 3000, 10, None),
                (0, 8000 + late, 9000, launched, None),
            ]
        };
        let found = report(&job(&[&[0, 1]], &[&rank(0), &rank(100)]));
        found.critical_path.expect("a path").step.segments[2].on.why
    };
    assert_eq!((why(10), why(4500)), (Some("launch"), Some("busy_gpu")));
}

#[test]
fn steps_with_calls_that_were_not_timed_are_left_out() {
    let kernels: [Kernel; 2] = [(0, 1000, 4000, 10, None), (0, 8000, 9000, 10, None)];
    let mut capture = job(&[&[0, 1]], &[&kernels, &kernels]);
    let steps = |capture: &Capture| report(capture).critical_path.map(|path| path.steps);
    // The first calls are warm-ups, with which the path does not begin.
    let all = steps(&capture).expect("a path");
    for process in &mut capture.processes {
        process.calls[13].gpu = GpuTimes::None;
    }
    // Nor is it known where the step after it began.
    assert_eq!(steps(&capture), Some(all - 2));
}
