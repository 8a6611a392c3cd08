//! Simulated jobs of which the loss is known: the same job without the lateness.

use super::super::operations::{Lane, RankPart};
use super::*;
use crate::fixtures::Random;
use crate::matching::Key;
use tables::{Capture, Communicator};

/// What a rank does next; times in µs.
#[derive(Clone, Copy)]
enum Do {
    /// The host is busy.
    Host(f64),
    /// A kernel of the program's own.
    Compute(f64),
    /// An operation on a communicator with this transfer time, after what was computed before.
    Call(usize, f64),
    /// A kernel of NCCL's for which nobody waits, on an idle stream.
    Other,
    /// What is computed next waits for the operations.
    Join,
    /// The host waits for its GPU.
    Sync,
}
use Do::{Call, Compute, Host, Join, Other, Sync};

/// Where a rank is late: rank, step, place in the step; µs.
type Late = fn(usize, usize, usize) -> f64;

const FROM_LAUNCH: f64 = 8.0;

/// A job of these communicators, which all make these steps. Gives its operations and how long it takes, µs.
/// The noise is the same for the same `seed`, whoever is late.
fn job(
    members: &[&[usize]],
    step: &[Do],
    steps: usize,
    late: Late,
    seed: u64,
) -> (Operations, f64) {
    let ranks = members.iter().flat_map(|m| *m).max().map_or(0, |m| m + 1);
    let (mut host, mut compute) = (vec![0f64; ranks], vec![0f64; ranks]);
    let mut stream = vec![vec![0f64; ranks]; members.len()];
    let mut lanes: Vec<Lane> = (0..ranks).map(|_| Lane::default()).collect();
    let mut numbers = vec![0; members.len()];
    let mut random = Random(seed);
    for number in 0..steps {
        for (place, what) in step.iter().enumerate() {
            let mut noise = |of: f64| of * (0.9 + 0.2 * random.uniform());
            let mut launches = vec![0.0; ranks];
            for rank in 0..ranks {
                let late = late(rank, number, place);
                match what {
                    Host(time) => host[rank] += noise(*time) + late,
                    Compute(time) => {
                        let begin = compute[rank].max(host[rank] + FROM_LAUNCH);
                        compute[rank] = begin + noise(*time) + late;
                    }
                    Call(..) | Other => {
                        host[rank] += noise(5.0);
                        launches[rank] = host[rank];
                    }
                    Join => {
                        let on = stream.iter().map(|s| s[rank]);
                        compute[rank] = on.fold(compute[rank], f64::max);
                    }
                    Sync => {
                        let on = stream.iter().map(|s| s[rank]);
                        host[rank] = on.fold(host[rank].max(compute[rank]), f64::max);
                    }
                }
            }
            // Each GPU has a clock of its own.
            let clock = |rank: usize, us: f64| ((us + 1e6 * (rank as f64 + 3.0)) * 1e3) as u64;
            let on_host = |us: f64| (us * 1e3) as i64 + 77_000_000_000;
            if let Other = what {
                for (rank, launch) in launches.iter().enumerate() {
                    lanes[rank].parts.push(RankPart {
                        communicator: u32::MAX,
                        sequence: OTHER,
                        number: 0,
                        ns: 10_000,
                        row: 0,
                        start: clock(rank, launch + FROM_LAUNCH),
                        launch_ns: on_host(*launch),
                        error: 0,
                    });
                }
            }
            let Call(on, transfer) = *what else { continue };
            // A call of one communicator is one of each that has as many ranks and other members.
            for group in (on..members.len())
                .filter(|g| *g == on || members[on].len() < ranks && g / 2 == on / 2)
            {
                let transfer = noise(transfer);
                let start: Vec<f64> = members[group]
                    .iter()
                    .map(|r| {
                        (launches[*r] + FROM_LAUNCH)
                            .max(compute[*r])
                            .max(stream[group][*r] + 2.0)
                    })
                    .collect();
                let end = start.iter().copied().fold(0.0, f64::max) + transfer;
                for (rank, start) in members[group].iter().zip(start) {
                    stream[group][*rank] = end;
                    lanes[*rank].parts.push(RankPart {
                        communicator: u32::MAX,
                        sequence: group as u32,
                        number: numbers[group],
                        ns: ((end - start) * 1e3) as u64,
                        row: place as u32,
                        start: clock(*rank, start),
                        launch_ns: on_host(launches[*rank]),
                        error: 0,
                    });
                }
                numbers[group] += 1;
            }
        }
    }
    let mut capture = Capture::default();
    let function = capture.names.intern("AllReduce");
    for members in members {
        capture.communicators.push(Communicator {
            id: String::new(),
            hash: 0,
            nranks: Some(members.len() as u32),
            nnodes: None,
            name: None,
            members: Vec::new(),
            created_ns: None,
            parent: None,
        });
    }
    let key = |communicator| Key {
        communicator,
        function,
        copy_engines: false,
        replay: false,
        by_seq: true,
    };
    let keys: Vec<Key> = (0..members.len() as u32).map(key).collect();
    // In a pattern, operations are told apart by their row.
    for lane in &mut lanes {
        lane.parts.sort_by_key(|part| part.start);
    }
    let end = compute.into_iter().chain(stream.into_iter().flatten());
    let end = end.chain(host).fold(0.0, f64::max);
    (Operations::new(lanes, &capture, &keys), end)
}

/// The loss by a rank and the truth, ms, for runs of different noise.
fn told(members: &[&[usize]], step: &[Do], rank: u32, late: Late) -> Vec<(f64, f64)> {
    let seeds = 1..=4;
    let of = |seed| {
        let (slowed, long) = job(members, step, 60, late, seed);
        let (_, short) = job(members, step, 60, |_, _, _| 0.0, seed);
        let what_if = WhatIf::new(&slowed);
        for other in (0..what_if.lanes.len() as u32).filter(|other| *other != rank) {
            let loss = what_if.loss(other).time.us();
            assert!(
                loss < 0.01 * long + 0.05 * (long - short),
                "rank {other}: {loss} µs"
            );
        }
        (what_if.loss(rank).time.ms(), (long - short) / 1e3)
    };
    seeds.map(of).collect()
}

fn within_a_tenth(what: &str, told: Vec<(f64, f64)>) {
    for (told, truth) in told {
        assert!(
            (told - truth).abs() <= 0.1 * truth,
            "{what}: {told} ms, and it is {truth} ms"
        );
    }
}

const WORLD: &[&[usize]] = &[&[0, 1, 2, 3]];

/// Forward, backward with five operations beside it, and the optimizer; host and GPU time of each part.
fn data_parallel(host: f64, gpu: f64) -> Vec<Do> {
    let mut step = vec![Host(4.0 * host), Compute(4.0 * gpu)];
    for _ in 0..5 {
        step.extend([Host(host), Compute(gpu), Call(0, 300.0)]);
    }
    step.extend([Join, Compute(gpu), Sync]);
    step
}

#[test]
fn with_nobody_late_the_run_is_as_it_was() {
    for step in [
        data_parallel(5_000.0, 2_000.0),
        data_parallel(50.0, 4_000.0),
    ] {
        let (healthy, end) = job(WORLD, &step, 60, |_, _, _| 0.0, 3);
        let what_if = WhatIf::new(&healthy);
        assert_eq!(what_if.without(&[], None).iter().max(), Some(&0));
        for lane in 0..4 {
            assert!(what_if.loss(lane).time.us() < 0.01 * end);
        }
    }
}

#[test]
fn a_host_that_sleeps_costs_its_sleep_once() {
    let late: Late = |rank, _, place| {
        if (rank, place) == (2, 0) {
            20_000.0
        } else {
            0.0
        }
    };
    let host = data_parallel(5_000.0, 2_000.0);
    within_a_tenth("bound by the host", told(WORLD, &host, 2, late));
    let gpu = data_parallel(50.0, 4_000.0);
    within_a_tenth("bound by the GPU", told(WORLD, &gpu, 2, late));
    let ahead = &host[..host.len() - 1];
    within_a_tenth("hosts that run ahead", told(WORLD, ahead, 2, late));
}

#[test]
fn work_that_waiting_hides_is_no_loss() {
    // The others work for 5 ms beside each operation, and soon all of that is hidden by the wait for rank 2.
    let step = [Host(1.0), Call(0, 24.0), Host(5_000.0), Sync];
    for (late_by, late) in [
        (
            1_000.0,
            (|rank, _, place| {
                if (rank, place) == (2, 0) {
                    1_000.0
                } else {
                    0.0
                }
            }) as Late,
        ),
        (2_000.0, |rank, _, place| {
            if (rank, place) == (2, 0) {
                2_000.0
            } else {
                0.0
            }
        }),
    ] {
        for seed in 1..=4 {
            let (slowed, long) = job(WORLD, &step, 200, late, seed);
            let (_, short) = job(WORLD, &step, 200, |_, _, _| 0.0, seed);
            let told = WhatIf::new(&slowed).loss(2).time.us();
            let truth = long - short;
            assert!(
                told <= 1.5 * truth,
                "late by {late_by}: {told} us, and it is {truth} us"
            );
        }
    }
}

/// DenseNet-121 under DistributedDataParallel with 256 pictures per GPU as two H200 ran it, ms: launched in a
/// third of the time that the GPU takes.
fn bound_by_the_gpu() -> Vec<Do> {
    let ms = [(1.0, 58.0, 33.0), (1.0, 57.0, 37.0), (1.0, 51.0, 4.0)];
    let mut step = vec![Other];
    for (before, gpu, after) in ms {
        step.extend([
            Host(before * 1e3),
            Compute(gpu * 1e3),
            Host(after * 1e3),
            Call(0, 300.0),
        ]);
    }
    step.extend([Join, Compute(4_000.0), Sync]);
    step
}

#[test]
fn a_gpu_that_its_host_runs_ahead_of_costs_what_it_is_late() {
    let two: &[&[usize]] = &[&[0, 1]];
    // Its host can't run ahead by more than the queue holds.
    let busy: Late = |rank, _, place| match (rank, place) {
        (1, 2) => 100_000.0,
        (1, 5) => 90_000.0,
        _ => 0.0,
    };
    within_a_tenth("more work", told(two, &bound_by_the_gpu(), 1, busy));
    let asleep: Late = |rank, _, place| match (rank, place) {
        (0, 3) => 100_000.0,
        _ => 0.0,
    };
    within_a_tenth("asleep", told(two, &bound_by_the_gpu(), 0, asleep));
}

#[test]
fn lateness_is_of_the_operation_in_which_it_began() {
    let busy: Late = |rank, _, place| match (rank, place) {
        (1, 2) => 100_000.0,
        (1, 5) => 90_000.0,
        _ => 0.0,
    };
    let (job, _) = job(&[&[0, 1]], &bound_by_the_gpu(), 20, busy, 1);
    let what_if = WhatIf::new(&job);
    for (operation, origin) in what_if.origins(1, |_| Nanos(50e6)).split_off(3) {
        assert_eq!(origin, operation - operation % 3);
    }
    // All that it holds up is new.
    for (operation, origin) in what_if.origins(1, |_| Nanos(f64::MIN)) {
        assert_eq!(origin, operation);
    }
}

#[test]
fn launches_are_placed_by_kernels_of_every_function() {
    let (job, _) = job(&[&[0, 1]], &bound_by_the_gpu(), 20, |_, _, _| 0.0, 1);
    let what_if = WhatIf::new(&job);
    for node in &what_if.nodes {
        let first = node.operation % 3 == 0;
        let ahead = (node.start - node.launch) as f64 / 1e6;
        assert!(!first || (10.0..35.0).contains(&ahead), "{ahead} ms");
    }
}

#[test]
fn what_other_work_hides_costs_nothing() {
    // 20 ms more on a GPU, which has caught up with its host when the step ends.
    let late: Late = |rank, step, place| match (rank, place) {
        (1, 1) => 14_000.0 + 1_000.0 * (step * 7 % 11) as f64,
        _ => 0.0,
    };
    let hidden = data_parallel(8_000.0, 1_000.0);
    for (loss, truth) in told(WORLD, &hidden, 1, late) {
        assert!(
            truth < 30.0 && loss < 30.0,
            "{loss} ms, and it is {truth} ms"
        );
    }
    let seen = data_parallel(50.0, 4_000.0);
    within_a_tenth("bound by the GPU", told(WORLD, &seen, 1, late));
}

#[test]
fn work_that_waits_for_operations_is_late_to_each() {
    // Layers: each operation waits for what is computed, and that for the operation before.
    let layers: Vec<Do> = (0..6)
        .flat_map(|_| [Host(10.0), Compute(800.0), Call(0, 100.0), Join])
        .collect();
    let late: Late = |rank, _, place| {
        if rank == 3 && place % 4 == 1 {
            200.0
        } else {
            0.0
        }
    };
    within_a_tenth("layers", told(WORLD, &layers, 3, late));
}

#[test]
fn two_late_ranks_hide_each_other() {
    let late: Late = |rank, _, place| {
        if rank > 1 && place == 0 {
            20_000.0
        } else {
            0.0
        }
    };
    let (slowed, _) = job(WORLD, &data_parallel(5_000.0, 2_000.0), 60, late, 3);
    let loss = WhatIf::new(&slowed).loss(2).time.ms();
    assert!(loss < 60.0, "{loss} ms of 1200");
}

#[test]
fn lateness_of_another_communicator_is_its_rank_s() {
    // Rows (0, 1) and (2, 3), then columns (0, 2) and (1, 3).
    let grid: &[&[usize]] = &[&[0, 1], &[2, 3], &[0, 2], &[1, 3]];
    let step = [
        Host(500.0),
        Call(0, 100.0),
        Join,
        Compute(300.0),
        Call(2, 100.0),
        Sync,
    ];
    let late: Late = |rank, _, place| {
        if (rank, place) == (0, 0) {
            4_000.0
        } else {
            0.0
        }
    };
    within_a_tenth("grid", told(grid, &step, 0, late));
}
