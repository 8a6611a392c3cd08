//! The account of made-up jobs: two ranks or more, in steps of two calls.

use super::*;
use capture::live::{part, verdict, waiter};
use tables::{Call, Capture, GpuTimes, Process, Shape};

const MS: i64 = 1_000_000;
const BEGIN: i64 = 1_000_000_000;

/// What a rank does in a step of 20 ms.
#[derive(Clone, Copy)]
struct Does {
    /// It launches the first call, which takes 2 ms of transfer, so long after the step's begin.
    launches: i64,
    /// Its GPU reaches the call then.
    arrives: i64,
}

/// A job of ranks that do this in steps of `step_ms`, of which `timed` says which calls have a time. The
/// first call ends 2 ms after the last arrival; the second one is hidden.
fn job(ranks: &[Does], function: &str, steps: usize, timed: impl Fn(usize) -> bool) -> Capture {
    let mut capture = Capture::default();
    let functions = [function, "AllGather"].map(|name| capture.names.intern(name));
    let last = ranks.iter().map(|does| does.arrives).max().unwrap_or(0);
    for (rank, does) in ranks.iter().enumerate() {
        let shape = |index: usize, parts| Shape {
            uid: 1,
            communicator: Some(0),
            function: functions[index],
            count: 1024 << index,
            peer: (index == 0 && function == "Send").then_some(1 ^ rank as u32),
            stream: 5,
            parts,
            ..Shape::default()
        };
        let parts = [part::EVENTS, part::UNSAMPLED];
        let shapes = (0..4).map(|i| shape(i / 2, parts[i % 2])).collect();
        let call = |ticket: usize| {
            let (step, second) = (ticket / 2, ticket % 2);
            let begin = BEGIN + step as i64 * 20 * MS;
            let launched = begin + if second == 0 { does.launches } else { 15 * MS };
            let (start, stop) = match second {
                0 => (begin + does.arrives, begin + last + 2 * MS),
                _ => (begin + 16 * MS, begin + 17 * MS),
            };
            let is_timed = timed(ticket);
            let waited = if second == 0 { stop - start } else { 0 };
            Call {
                ticket: ticket as u64,
                group: ticket as u64 + 1,
                shape: (2 * second + usize::from(!is_timed)) as u32,
                api_ns: launched - 10_000,
                return_ns: launched + 10_000,
                launch_start_ns: launched - 5_000,
                launch_end_ns: launched,
                gpu: match is_timed {
                    true => GpuTimes::OnHost {
                        start,
                        stop,
                        error: 500,
                    },
                    false => GpuTimes::None,
                },
                waiter: if is_timed {
                    waiter::word(7, waiter::TIMED)
                } else {
                    0
                },
                waited: if is_timed { waiter::units(waited) } else { 0 },
                sealed: true,
                ..Call::default()
            }
        };
        capture.processes.push(Process {
            rank: Some(rank as u32),
            pid: rank as u32,
            shapes,
            calls: (0..2 * steps).map(call).collect(),
            facts: [("timing".to_owned(), "auto".to_owned())].into(),
            ..Process::default()
        });
    }
    capture
}

fn account(capture: &Capture) -> Account {
    crate::report(capture).account.expect("steps")
}

const EARLY: Does = Does {
    launches: 0,
    arrives: 2 * MS,
};

#[test]
fn a_late_host_costs_what_the_others_stand_still() {
    let late = Does {
        launches: 9 * MS,
        arrives: 10 * MS,
    };
    for ranks in [vec![EARLY, late], vec![EARLY, late, EARLY, EARLY]] {
        let account = account(&job(&ranks, "AllReduce", 60, |_| true));
        let answer = &account.answers[0];
        assert_eq!((&answer.ranks[..], answer.cause), (&[1][..], Cause::Host));
        assert!((answer.share - 0.4).abs() < 1e-3, "{answer:?}");
        assert_eq!(answer.source, Source::Replay);
        let (low, high) = answer.interval_us;
        assert!(low < answer.loss_us && answer.loss_us < high && low > 0.0);
    }
}

#[test]
fn a_busy_gpu_is_told_from_a_late_host() {
    let busy = Does {
        launches: MS,
        arrives: 10 * MS,
    };
    let answer = account(&job(&[busy, EARLY], "AllReduce", 60, |_| true))
        .answers
        .remove(0);
    assert_eq!((&answer.ranks[..], answer.cause), (&[0][..], Cause::Gpu));
}

#[test]
fn a_sample_of_calls_stands_for_all_of_them() {
    let late = Does {
        launches: 9 * MS,
        arrives: 10 * MS,
    };
    let timed = |ticket: usize| (ticket / 2).is_multiple_of(4);
    let answer = account(&job(&[EARLY, late], "AllReduce", 200, timed))
        .answers
        .remove(0);
    assert_eq!(answer.source, Source::Waits);
    assert!((answer.share - 0.4).abs() < 1e-3);
}

#[test]
fn sends_and_receives_of_one_launch_are_one_operation() {
    let late = Does {
        launches: 9 * MS,
        arrives: 10 * MS,
    };
    let mut capture = job(&[EARLY, late], "Send", 60, |_| true);
    let receive = capture.names.intern("Recv");
    for process in &mut capture.processes {
        // A receive beside each send, in the same group and launch: their times are the launch's.
        let of = process.shapes[0];
        process.shapes.push(Shape {
            function: receive,
            ..of
        });
        let calls: Vec<Call> = std::mem::take(&mut process.calls);
        for mut call in calls {
            if call.shape < 2 {
                call.verdict = verdict::FUSED;
                process.calls.push(call);
                call.shape = 4;
            }
            process.calls.push(call);
        }
        for (ticket, call) in process.calls.iter_mut().enumerate() {
            call.ticket = ticket as u64;
        }
    }
    let answer = account(&capture).answers.remove(0);
    assert_eq!((&answer.ranks[..], answer.cause), (&[1][..], Cause::Host));
    assert!((answer.share - 0.4).abs() < 1e-3, "{answer:?}");
}

#[test]
fn the_lines_of_each_rank_sum_to_the_wall() {
    let late = Does {
        launches: 9 * MS,
        arrives: 10 * MS,
    };
    let account = account(&job(&[EARLY, late], "AllReduce", 60, |ticket| {
        ticket % 3 != 0
    }));
    for rank in &account.ranks {
        let sum = rank.work_us + rank.wait_us + rank.transfer_us + rank.unknown_us;
        assert!((sum - account.wall_us).abs() < 1e-2, "{rank:?}");
    }
    let shares = account.ranks[0].wait_us / account.wall_us;
    assert!((shares - 0.4).abs() < 1e-3, "{shares}");
}

#[test]
fn a_stall_is_priced_by_the_wall_of_its_step() {
    let mut capture = job(&[EARLY, EARLY], "AllReduce", 60, |ticket| ticket % 4 < 2);
    // The host of rank 1 stops for 300 ms in step 31, whose calls are not timed.
    for (rank, process) in capture.processes.iter_mut().enumerate() {
        for call in &mut process.calls[62..] {
            let first = call.ticket == 62;
            let by = 300 * MS;
            if !(first && rank == 0) {
                call.api_ns += by;
                call.launch_start_ns += by;
                call.launch_end_ns += by;
                call.return_ns += by;
            }
            if let GpuTimes::OnHost { start, stop, .. } = &mut call.gpu {
                (*start, *stop) = (*start + by, *stop + by);
            }
        }
    }
    let answer = account(&capture).answers.remove(0);
    assert_eq!((&answer.ranks[..], answer.stalls), (&[1][..], 1));
    assert!((answer.stalls_us / 300e3 - 1.0).abs() < 0.02, "{answer:?}");
}
