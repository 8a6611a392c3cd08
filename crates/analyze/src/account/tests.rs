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
    let does = |rank: usize, _| ranks[rank];
    varied(ranks.len(), &does, &|_| 2 * MS, function, steps, timed)
}

/// The same if ranks do other things in other steps, and transfers take other times.
fn varied(
    ranks: usize,
    does: &dyn Fn(usize, usize) -> Does,
    transfer: &dyn Fn(usize) -> i64,
    function: &str,
    steps: usize,
    timed: impl Fn(usize) -> bool,
) -> Capture {
    let mut capture = Capture::default();
    let members: Vec<usize> = (0..ranks).collect();
    let communicator = crate::fixtures::communicator(0, &members);
    capture.communicators.push(tables::Communicator {
        id: "comm-0".to_owned(),
        ..communicator
    });
    let functions = [function, "AllGather"].map(|name| capture.names.intern(name));
    let last = |step: usize| {
        (0..ranks)
            .map(|rank| does(rank, step).arrives)
            .max()
            .unwrap_or(0)
    };
    for rank in 0..ranks {
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
            let (begin, does) = (BEGIN + step as i64 * 20 * MS, does(rank, step));
            let launched = begin + if second == 0 { does.launches } else { 15 * MS };
            let (start, stop) = match second {
                0 => (begin + does.arrives, begin + last(step) + transfer(step)),
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
                gpu: if is_timed {
                    GpuTimes::OnHost {
                        start,
                        stop,
                        error: 500,
                    }
                } else {
                    GpuTimes::None
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
            communicators: vec![tables::communicators::Local {
                uid: 1,
                nranks: ranks as u32,
                rank: Some(rank as u32),
                ..Default::default()
            }],
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
fn waiting_that_is_hidden_behind_computing_costs_what_its_channels_keep() {
    // As on eight H200 whose GPUs stood still for 2 % of the time: a late host made the step 15 % longer,
    // because the kernels beside those that waited were slower.
    let late = Does {
        launches: 11 * MS,
        arrives: 12 * MS,
    };
    let mut capture = job(&[EARLY, late, EARLY, EARLY], "AllReduce", 60, |ticket| {
        (ticket / 2).is_multiple_of(2)
    });
    for process in &mut capture.processes {
        process
            .facts
            .insert("gpus".to_owned(), "4 x NVIDIA H200".to_owned());
        for shape in &mut process.shapes {
            shape.nchannels = 24;
        }
        let first = process.calls.iter_mut().step_by(2);
        for call in first.filter(|call| call.waited > 0) {
            let is_late = process.rank == Some(1);
            call.waited = waiter::units(if is_late { 0 } else { MS / 4 });
        }
    }
    let account = account(&capture);
    let answer = account
        .late()
        .next()
        .unwrap_or_else(|| panic!("{account:?}"));
    assert_eq!((&answer.ranks[..], answer.cause), (&[1][..], Cause::Host));
    // The others wait for 10 ms of 20, all but 0.25 ms of it beside their own kernels.
    let share = (0.25 + 24.0 / 132.0 * (10.0 - 0.25)) / 20.0;
    assert!((answer.share - share).abs() < 0.005, "{answer:?}");
    let (low, high) = answer.interval_us;
    let part = |us: f64| us / account.wall_us;
    assert!(part(low) < 0.05 && part(high) > 1.5 * share, "{answer:?}");
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
fn what_is_waited_after_a_launch_is_its_gpu_s() {
    // Its host works 3 ms longer in a step of which 5.5 could be saved. But its GPU comes 5 ms behind that.
    let slow = Does {
        launches: 5 * MS,
        arrives: 10 * MS,
    };
    let mut capture = job(&[slow, EARLY], "AllReduce", 60, |_| true);
    for (process, ms) in capture.processes.iter_mut().zip([2.5, 5.5]) {
        let calls = process.calls.iter_mut().step_by(2);
        calls.for_each(|call| call.driver_waited_ns = (ms * MS as f64) as u64);
    }
    let answer = account(&capture).answers.remove(0);
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
fn a_rank_is_named_if_its_price_matters_and_is_no_chance() {
    let late = Does {
        launches: 9 * MS,
        arrives: 10 * MS,
    };
    let account = account(&job(&[EARLY, late], "AllReduce", 60, |_| true));
    let named = |percent: f64, sure: f64, source: Source| {
        let mut account = account.clone();
        let answer = &mut account.answers[0];
        answer.loss_us = percent / 100.0 * account.wall_us;
        answer.sure_us = sure / 100.0 * account.wall_us;
        answer.source = source;
        account.late().count() == 1
    };
    assert!(named(7.0, 3.0, Source::Waits));
    assert!(
        !named(7.0, 2.0, Source::Waits),
        "two standard errors from nothing"
    );
    assert!(
        named(30.0, 6.0, Source::Waits),
        "even its lower end matters"
    );
    assert!(!named(4.9, 4.0, Source::Waits), "it costs little");
    assert!(
        !named(7.0, 3.0, Source::Replay),
        "a model's error is no chance"
    );
    assert!(named(7.0, 5.5, Source::Replay));
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

/// NCCL's phases of the first calls: they wait for the last rank, and then move bytes for 2 ms.
fn with_phases(capture: &mut Capture) {
    for process in &mut capture.processes {
        for call in process.calls.iter_mut().filter(|call| call.ticket % 2 == 0) {
            let (start, stop) = call.gpu.on_host().expect("all are timed");
            let synced = stop - 2 * MS;
            assert!(start <= synced);
            process.extras.push(tables::calls::Extra {
                phase_stop: [synced as u64, stop as u64],
                ..Default::default()
            });
            call.extra = process.extras.len() as u32;
            call.seq = call.ticket / 2 + 1;
        }
    }
    capture.communicators.push(tables::Communicator {
        nranks: Some(capture.processes.len() as u32),
        ..Default::default()
    });
}

fn phases(capture: &Capture) -> Option<crate::phases::Phases> {
    let mut gatherer = crate::phases::Gatherer::default();
    for process in &capture.processes {
        // As if each process were read elsewhere.
        let mut own = crate::phases::Gatherer::default();
        own.add(process);
        gatherer.merge(own);
    }
    gatherer.finish(capture)
}

#[test]
fn phases_and_the_times_of_all_ranks_give_the_same_waits() {
    let late = Does {
        launches: 9 * MS,
        arrives: 10 * MS,
    };
    let ranks = [EARLY, late, EARLY];
    let by_times = job(&ranks, "AllReduce", 60, |_| true);
    let mut capture = job(&ranks, "AllReduce", 60, |_| true);
    with_phases(&mut capture);
    let waits = |capture: &Capture| -> Vec<i64> {
        let ranks = account(capture).ranks;
        ranks.iter().map(|rank| rank.wait_us as i64).collect()
    };
    assert_eq!(waits(&capture), waits(&by_times));
    assert!(waits(&capture)[0] > 400_000 && waits(&capture)[1] == 0);
    let phases = phases(&capture).expect("phases");
    assert_eq!((phases.kernels, phases.matched), (180, 60));
    assert_eq!(phases.matched_waited, phases.matched_longer);
    assert_eq!(phases.matched_waited, 60 * 2 * 8 * MS as u64);
    assert_eq!(phases.moved, 180 * 2 * MS as u64);
    assert!(self::phases(&by_times).is_none());
}

/// Without the times of other ranks, only phases tell waiting from moving.
#[test]
fn phases_of_one_rank_tell_how_long_it_waited() {
    let late = Does {
        launches: 9 * MS,
        arrives: 10 * MS,
    };
    let mut capture = job(&[EARLY, late], "AllReduce", 60, |_| true);
    with_phases(&mut capture);
    // The calls of the late rank lose their times.
    for call in &mut capture.processes[1].calls {
        (call.gpu, call.waiter, call.extra) = (GpuTimes::None, 0, 0);
        call.shape |= 1;
    }
    let account = account(&capture);
    let share = account.ranks[0].wait_us / account.wall_us;
    assert!((share - 0.4).abs() < 1e-3, "{share}");
}

/// A job of two ranks in steps of 20 ms and what one of them is late by, ns: its host stops for so long
/// before the first call, and the other rank's GPU waits in it.
fn stopped(
    steps: usize,
    timed: impl Fn(usize) -> bool,
    late: impl Fn(usize, usize) -> i64,
) -> Capture {
    let mut capture = job(&[EARLY, EARLY], "AllReduce", steps, timed);
    for (rank, process) in capture.processes.iter_mut().enumerate() {
        let mut before = 0;
        for (step, calls) in process.calls.chunks_mut(2).enumerate() {
            let by = before + late(0, step).max(late(1, step));
            let own = before + late(rank, step);
            for (call, launched) in calls.iter_mut().zip([own, by]) {
                call.api_ns += launched;
                call.launch_start_ns += launched;
                call.launch_end_ns += launched;
                call.return_ns += launched;
                if let GpuTimes::OnHost { start, stop, .. } = &mut call.gpu {
                    (*start, *stop) = (*start + launched, *stop + by);
                    if call.waiter != 0 && call.ticket % 2 == 0 {
                        call.waited = waiter::units(*stop - *start);
                    }
                }
            }
            before = by;
        }
    }
    capture
}

#[test]
fn a_stall_is_priced_by_the_wall_of_its_step() {
    // The calls of the step are not timed.
    let late = |rank: usize, step: usize| i64::from((rank, step) == (1, 31)) * 300 * MS;
    let capture = stopped(60, |ticket| ticket % 4 < 2, late);
    let answer = account(&capture).answers.remove(0);
    assert_eq!((&answer.ranks[..], answer.stalls), (&[1][..], 1));
    assert!((answer.stalls_us / 300e3 - 1.0).abs() < 0.02, "{answer:?}");
}

#[test]
fn a_stall_costs_no_more_than_others_waited() {
    // Both ranks write a checkpoint in a step, and rank 1 takes 200 ms for what rank 0 does in 100.
    let late = |rank: usize, step: usize| i64::from(step == 31) * (100 + 100 * rank as i64) * MS;
    let answer = account(&stopped(60, |_| true, late)).answers.remove(0);
    assert_eq!((&answer.ranks[..], answer.stalls), (&[1][..], 1));
    assert!((answer.stalls_us / 100e3 - 1.0).abs() < 0.05, "{answer:?}");
}

#[test]
fn a_host_that_was_ahead_and_waited_for_its_gpu_made_no_stall() {
    // The host of rank 1 is 100 ms ahead. Before step 31, both GPUs have 60 ms more to do, as in an
    // evaluation, and both hosts wait for them. A step is 11 ms of work to a host.
    let mut capture = stopped(60, |_| true, |_, step| i64::from(step == 31) * 60 * MS);
    for (rank, process) in capture.processes.iter_mut().enumerate() {
        let ahead = |step: usize| match step {
            _ if rank == 0 => 0,
            0..31 => 100,
            _ => (8 * (step as i64 - 31)).min(100),
        };
        for call in &mut process.calls {
            let step = call.ticket as usize / 2;
            let lead = ahead(step) * MS;
            let before = step.saturating_sub(1);
            let took = if step == 31 { 80 } else { 20 } + ahead(before) - ahead(step);
            call.api_ns -= lead;
            call.return_ns -= lead;
            call.launch_start_ns -= lead;
            call.launch_end_ns -= lead;
            if call.ticket % 2 == 0 {
                call.driver_waited_ns = u64::try_from((took - 11) * MS).unwrap_or(0);
            }
        }
    }
    let account = account(&capture);
    let longest = account.walls_ns.iter().max();
    assert!(longest.is_some_and(|ns| *ns > 75_000_000), "{longest:?}");
    assert!(
        account.answers.iter().all(|answer| answer.stalls == 0),
        "{:?}",
        account.answers
    );
}

#[test]
fn many_stalls_of_which_a_sample_shows_some_have_the_price_of_all() {
    // The GPU of rank 1 has 30 ms more to do in one of 12 steps. Hosts are 0.2 s ahead, so nothing shows
    // these steps but the calls that were timed, one in four.
    let late = |rank: usize, step: usize| i64::from(rank == 1 && step % 12 == 5) * 30 * MS;
    let mixed = |ticket: usize| (ticket as u64 / 2 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let mut capture = stopped(1200, |ticket| mixed(ticket).is_multiple_of(4), late);
    for call in capture.processes.iter_mut().flat_map(|of| &mut of.calls) {
        let ahead = BEGIN + call.ticket as i64 * 45 * MS / 4 - 200 * MS;
        (call.api_ns, call.return_ns) = (ahead - 10_000, ahead + 10_000);
        (call.launch_start_ns, call.launch_end_ns) = (ahead - 5_000, ahead);
        call.driver_waited_ns = 9 * MS as u64;
    }
    let answer = account(&capture).answers.remove(0);
    assert_eq!((&answer.ranks[..], answer.cause), (&[1][..], Cause::Gpu));
    let ratio = answer.loss_us / (1200.0 / 12.0 * 30e3);
    assert!((0.85..1.15).contains(&ratio), "{ratio}: {answer:?}");
}

#[test]
fn long_steps_that_are_no_stalls_stay_in_the_price() {
    // Rank 1 waits for data in each step: for 14 ms on average, and mostly for less.
    let late = |rank: usize, step: usize| {
        let mut mixed = (step as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let part = ((mixed ^ mixed >> 27) >> 40) as f64 / f64::from(1 << 24);
        (rank as f64 * -part.max(1e-3).ln() * 14e6) as i64
    };
    let account = account(&stopped(200, |_| true, late));
    let (answer, first) = (&account.answers[0], account.skipped as usize);
    let steps = first..first + account.steps as usize;
    let truth: i64 = steps.map(|step| late(1, step)).sum();
    let ratio = answer.loss_us * 1e3 / truth as f64;
    assert!((0.9..1.1).contains(&ratio), "{ratio}: {answer:?}");
}

#[test]
fn no_rank_owns_stalls_that_all_have() {
    let stalls = |rank: usize, step: usize| step % 20 == 10 * rank + 9;
    let late = |rank, step| i64::from(stalls(rank, step)) * (100 - 4 * rank as i64) * MS;
    let both = account(&stopped(200, |_| true, late));
    let named = both.late().filter(|late| !late.ranks.is_empty()).count();
    assert_eq!(named, 0, "{:?}", both.answers);
    let one = |rank: usize, step: usize| rank as i64 * late(rank, step);
    let one = account(&stopped(200, |_| true, one));
    assert_eq!(
        one.late().next().map(|late| &late.ranks[..]),
        Some(&[1][..])
    );
}

#[test]
fn no_rank_owns_what_ranks_lose_that_are_late_in_turns() {
    // Another rank has 6 ms more to do in each step, and all differ by some µs.
    let noise = |rank: usize, step: usize| {
        let mixed = ((rank * 1000 + step + 1) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 31).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 32) as i64 % 31 * 10_000
    };
    for ranks in [2, 4] {
        let does = |rank: usize, step: usize| Does {
            launches: 0,
            arrives: 2 * MS + noise(rank, step) + i64::from(step * 5 / 3 % ranks == rank) * 6 * MS,
        };
        let timed = |ticket: usize| (ticket / 2).is_multiple_of(3);
        let mut capture = varied(ranks, &does, &|_| 2 * MS, "AllReduce", 300, timed);
        // Hosts wait for the first call.
        for process in &mut capture.processes {
            for (step, calls) in process.calls.chunks_mut(2).enumerate() {
                let arrivals = (0..ranks).map(|rank| does(rank, step).arrives);
                let last = arrivals.max().unwrap_or(0);
                calls[1].api_ns = BEGIN + step as i64 * 20 * MS + last + 3 * MS;
            }
        }
        let account = account(&capture);
        let answer = &account.answers[0];
        assert!(answer.ranks.is_empty(), "{answer:?}");
        assert!((answer.share - 0.3).abs() < 0.02, "{answer:?}");
        // Of such noise alone, nothing is told.
        let does = |rank: usize, step: usize| Does {
            launches: 0,
            arrives: 2 * MS + 10 * noise(rank, step),
        };
        let capture = varied(ranks, &does, &|_| 2 * MS, "AllReduce", 300, timed);
        assert_eq!(self::account(&capture).late().count(), 0);
    }
}

#[test]
fn a_link_that_is_slow_for_a_part_of_the_run_costs_what_transfers_take_longer() {
    let transfer = |step: usize| {
        if (60..110).contains(&step) {
            8 * MS
        } else {
            2 * MS
        }
    };
    let timed = |ticket: usize| (ticket / 2).is_multiple_of(3);
    let does = |_: usize, _: usize| EARLY;
    let capture = varied(3, &does, &transfer, "AllReduce", 200, timed);
    let account = account(&capture);
    assert_eq!(account.late().count(), 0, "{:?}", account.answers);
    let slow = account.slow().next().expect("slow");
    assert_eq!(
        (slow.ranks.len(), &slow.communicator),
        (3, &"comm-0".to_owned())
    );
    assert!((slow.loss_us / (50.0 * 6e3) - 1.0).abs() < 0.1, "{slow:?}");
    assert_eq!(slow.transfer_us, (8e3, 2e3));
    let (from, to) = slow.when_us.expect("a part of the run");
    assert!((from / 60.0 / 20e3 - 1.0).abs() < 0.1 && (to / 110.0 / 20e3 - 1.0).abs() < 0.1);
    // If a rank is not there, the others may wait for it.
    let mut capture = varied(3, &does, &transfer, "AllReduce", 200, timed);
    capture.processes.pop();
    capture.communicators[0].members.pop();
    let account = self::account(&capture);
    assert_eq!(
        (account.slow().count(), account.open),
        (0, Some(Open::Absent(1)))
    );
}

#[test]
fn gpus_stand_still_within_bounds_that_are_said() {
    let late = Does {
        launches: 9 * MS,
        arrives: 10 * MS,
    };
    let mut capture = job(&[EARLY, late], "AllReduce", 60, |_| true);
    for call in capture
        .processes
        .iter_mut()
        .flat_map(|process| &mut process.calls)
    {
        (call.waiter, call.waited) = (0, 0);
    }
    // Calls take 10 and 2 ms of 20, and a hidden one 1 ms. What of that computing waited for is not known.
    let account = account(&capture);
    let (low, high) = account.still_between;
    assert_eq!((low, account.open), (0.0, Some(Open::Hidden)));
    assert!((high - 0.35).abs() < 0.01, "{high}");
}

#[test]
fn without_a_pattern_of_calls_the_steps_are_those_of_the_account() {
    let mut account = account(&stopped(60, |_| true, |_, _| 0));
    // A report forgets these.
    account.begins_ns = vec![(0..=account.steps as i64).collect(); 2];
    let steps = settled::settle(None, &account, 2).expect("steps");
    let rows = steps.rows.iter();
    let of: Vec<_> = rows
        .map(|row| {
            (
                row.process.rank,
                row.steps,
                row.calls,
                row.each.len() as u64,
            )
        })
        .collect();
    let calls = account.launches[0];
    assert!(calls > 0);
    assert_eq!(
        of,
        [0, 1].map(|rank| (Some(rank), account.steps, calls, account.steps))
    );
    assert_eq!(steps.without, 0);
    assert!(
        (steps.mean_us().expect("times") * account.steps as f64 / account.wall_us - 1.0).abs()
            < 1e-3
    );
    // One call that follows itself at once may be any part of a step.
    account.launches = vec![1; 2];
    account.walls_ns.fill(220_000);
    assert!(settled::settle(None, &account, 2).is_none());
}
