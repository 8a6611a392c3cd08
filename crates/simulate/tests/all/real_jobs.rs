//! The simulator against real jobs.
//!
//! - Jobs of `data/` on two H200, and of other shapes on two H100: fitted to the job without the fault, it
//!   plays the one with it. Step times were taken by the programs (`data/README.md`). Shares of the time are
//!   what the report on the capture has under "What the GPUs did", or in its account.
//! - Training jobs of ByteDance's straggler study (J. Lin et al., "Understanding stragglers in large model
//!   training using what-if analysis", OSDI 2025; traces in ByteDance-Seed/StragglerAnalysis): of how long
//!   their workers compute and transfer, it makes their steps.

use simulate::{play, Job, Random, Step, Way};

/// How a rank's GPU spends its time: computing, that of it which is beside communication, and only
/// communicating.
type Shares = [f64; 3];

/// Step time, ms, and the shares of ranks 0 and 1.
fn played(job: &Job, late: Option<&dyn Fn(&mut Step)>) -> (f64, Vec<Shares>) {
    let played = play(job, 1, late);
    let report = analyze::report(&played.capture(&|_| true));
    let streams = report.streams.expect("windows");
    let shares = streams.ranks.iter().map(|rank| {
        let (alone, beside) = (rank.computing.share, rank.beside.share);
        [alone + beside, beside, rank.exposed.share]
    });
    (1e3 * played.seconds / job.steps as f64, shares.collect())
}

/// The GPU of this rank has so much more to do, µs.
fn busier_gpu(rank: usize, us: f64) -> impl Fn(&mut Step) {
    move |step| {
        if step.rank == rank {
            step.extra(us);
        }
    }
}

/// The host of this rank works so much longer, µs.
fn later_host(rank: usize, us: f64) -> impl Fn(&mut Step) {
    move |step| {
        if step.rank == rank {
            step.sleeps(us);
        }
    }
}

/// Asserts that the simulated job is like the real one: its step within this part, each share within that.
fn is_like(simulated: (f64, Vec<Shares>), real: (f64, [Shares; 2]), (part, share): (f64, f64)) {
    let off = simulated.0 / real.0 - 1.0;
    assert!(off.abs() < part, "{simulated:?}, and it is {real:?}");
    for (a, b) in simulated.1.iter().zip(&real.1) {
        let far = a.iter().zip(b).any(|(a, b)| (a - b).abs() > share);
        assert!(!far, "{simulated:?}, and it is {real:?}");
    }
}

/// `jobs.py ddp`: 12 layers, 11 AllReduces, all of them waited for at the end. The GPUs compute for 19.1 ms,
/// and the hosts launch for 16.
fn ddp(step: &mut Step) {
    step.host(400.0);
    step.straggler();
    for _ in 0..12 {
        (0..4).for_each(|_| step.compute("forward", 85.0));
    }
    for layer in 0..12 {
        (0..6).for_each(|_| step.compute("backward", 186.0));
        if layer != 0 {
            step.collective(0, "AllReduce", 32 << 20, 150.0, 1);
        }
    }
    step.wait(0, 1);
    step.compute("optimizer", 1600.0);
}

/// Its hosts need 16.5 ms a step for 132 launches and 11 calls.
fn of_ddp<'s>(script: &'s dyn Fn(&mut Step)) -> Job<'s> {
    Job {
        noise: 0.05,
        of_steps: 0.02,
        per_launch: 115.0,
        beside: 1.2,
        waits_for_each: true,
        ..Job::new(vec![vec![0, 1]], 500, script)
    }
}

#[test]
fn ddp_waits_for_a_busy_gpu_as_it_does_on_two_h200() {
    let late = busier_gpu(1, 10_900.0);
    let (plain, _) = played(&of_ddp(&ddp), None);
    assert!((plain / 20.29 - 1.0).abs() < 0.05, "{plain}");
    let real = (31.05, [[0.70, 0.50, 0.29], [0.94, 0.05, 0.00]]);
    is_like(played(&of_ddp(&ddp), Some(&late)), real, (0.03, 0.07));
}

#[test]
fn ddp_waits_for_a_late_host_as_it_does_on_two_h200() {
    let late = later_host(1, 10_000.0);
    let real = (26.2, [[0.83, 0.59, 0.15], [0.66, 0.05, 0.01]]);
    is_like(played(&of_ddp(&ddp), Some(&late)), real, (0.04, 0.12));
}

/// `jobs.py fsdp2`: 12 layers and the root. The GPUs compute for 35.5 ms, and the hosts launch for 54.
fn fsdp2(step: &mut Step) {
    step.straggler();
    for backward in [false, true] {
        step.collective(0, "AllGather", 24 << 20, 75.0, 1);
        for layer in 0..12 {
            step.wait(0, 1);
            if layer < 11 {
                step.collective(0, "AllGather", 24 << 20, 75.0, 1);
            }
            let (name, us) = if backward {
                ("backward", 270.0)
            } else {
                ("forward", 135.0)
            };
            (0..7).for_each(|_| step.compute(name, us));
            if backward {
                step.collective(0, "ReduceScatter", 48 << 20, 75.0, 2);
            }
        }
    }
    step.wait(0, 2);
    step.compute("optimizer", 1500.0);
}

#[test]
fn hosts_are_the_next_limit_of_fsdp2_as_on_two_h200() {
    let job = Job {
        noise: 0.05,
        of_steps: 0.02,
        per_launch: 250.0,
        beside: 1.16,
        waits_for_each: true,
        ..Job::new(vec![vec![0, 1]], 250, &fsdp2)
    };
    let late = busier_gpu(1, 25_000.0);
    let (plain, _) = played(&job, None);
    assert!((plain / 54.9 - 1.0).abs() < 0.05, "{plain}");
    let real = (67.4, [[0.53, 0.19, 0.45], [0.90, 0.04, 0.01]]);
    is_like(played(&job, Some(&late)), real, (0.10, 0.14));
}

/// `jobs.py pipeline`: two stages and 8 micro-batches, whose backward passes take twice as long.
fn pipeline(step: &mut Step) {
    for piece in 0..=8 {
        let (first, last) = (step.rank == 0, step.rank == 1);
        if piece < 8 {
            if last {
                step.pass(0, &[Way::From(0)], 16 << 20, 66.0, 1);
                step.wait(0, 1);
            }
            step.straggler();
            step.compute("forward", 2600.0);
            if first {
                step.pass(0, &[Way::To(1)], 16 << 20, 66.0, 2);
            }
        }
        if last && piece < 8 || first && piece > 0 {
            if first {
                step.pass(0, &[Way::From(1)], 16 << 20, 66.0, 3);
                step.wait(0, 3);
            }
            step.compute("backward", if first { 5300.0 } else { 5850.0 });
            if last {
                step.pass(0, &[Way::To(0)], 16 << 20, 66.0, 4);
            }
        }
    }
    step.compute("optimizer", 2000.0);
}

#[test]
fn a_pipeline_waits_for_its_longer_stage_as_it_does_on_two_h200() {
    let job = Job {
        noise: 0.02,
        of_steps: 0.01,
        waits_for_each: true,
        ..Job::new(vec![vec![0, 1]], 180, &pipeline)
    };
    let late = busier_gpu(1, 2_150.0);
    let (plain, _) = played(&job, None);
    assert!((plain / 81.2 - 1.0).abs() < 0.10, "{plain}");
    let real = (98.6, [[0.64, 0.00, 0.32], [0.86, 0.00, 0.09]]);
    is_like(played(&job, Some(&late)), real, (0.06, 0.08));
}

/// Step time, ms, and which part of the time ranks 0 and 1 stand still in communication.
fn stood_still(job: &Job, late: Option<&dyn Fn(&mut Step)>) -> (f64, [f64; 2]) {
    let (step, shares) = played(job, late);
    (step, [0, 1].map(|rank| shares[rank][2]))
}

/// Asserts that the simulated job is like the real one: its step within this part, each rank's standing still
/// within that part of the time.
fn stands_still_like(simulated: (f64, [f64; 2]), real: (f64, [f64; 2]), (part, share): (f64, f64)) {
    let off = simulated.0 / real.0 - 1.0;
    let far = (0..2).any(|rank| (simulated.1[rank] - real.1[rank]).abs() > share);
    assert!(
        off.abs() < part && !far,
        "{simulated:?}, and it is {real:?}"
    );
}

/// Sequence parallel layers, whose AllGather and ReduceScatter are on the computing stream. The program waits
/// for the GPU after each ten steps. A straggler is late in the middle.
fn sequence_parallel(step: &mut Step) {
    for layer in 0..12 {
        if layer == 6 {
            step.straggler();
        }
        step.collective(0, "AllGather", 32 << 20, 101.0, 0);
        (0..5).for_each(|_| step.compute("layer", 166.0));
        step.collective(0, "ReduceScatter", 32 << 20, 101.0, 0);
    }
    if step.number % 10 == 9 {
        step.sync(0);
    }
}

#[test]
fn calls_on_the_computing_stream_wait_as_they_do_on_two_h100() {
    let job = Job {
        noise: 0.03,
        of_steps: 0.01,
        per_launch: 40.0,
        ..Job::new(vec![vec![0, 1]], 600, &sequence_parallel)
    };
    let extra = busier_gpu(1, 12_000.0);
    let sleeps = later_host(0, 10_200.0);
    stands_still_like(stood_still(&job, None), (12.39, [0.20, 0.21]), (0.03, 0.02));
    stands_still_like(
        stood_still(&job, Some(&extra)),
        (24.49, [0.62, 0.10]),
        (0.03, 0.03),
    );
    // A third of the waiting rank's calls were timed.
    stands_still_like(
        stood_still(&job, Some(&sleeps)),
        (14.52, [0.17, 0.37]),
        (0.03, 0.07),
    );
}

/// A ring of keys and values: each layer passes its own on while it attends to them, and then attends to
/// those of the other rank. One AllReduce ends the step.
fn ring_of_keys(step: &mut Step) {
    let other = 1 - step.rank;
    for layer in 0..8 {
        if layer == 4 {
            step.straggler();
        }
        step.pass(
            0,
            &[
                Way::To(other),
                Way::To(other),
                Way::From(other),
                Way::From(other),
            ],
            32 << 20,
            250.0,
            1,
        );
        step.compute("attention", 597.0);
        step.wait(0, 1);
        step.compute("attention", 597.0);
    }
    step.collective(0, "AllReduce", 160 << 20, 2_000.0, 1);
    step.wait(0, 1);
    if step.number % 10 == 9 {
        step.sync(0);
    }
}

#[test]
fn a_ring_of_sends_waits_as_it_does_on_two_h100() {
    let job = Job {
        noise: 0.03,
        of_steps: 0.01,
        per_launch: 95.0,
        ..Job::new(vec![vec![0, 1]], 500, &ring_of_keys)
    };
    let extra = busier_gpu(1, 16_100.0);
    let sleeps = later_host(0, 15_500.0);
    stands_still_like(stood_still(&job, None), (11.93, [0.20, 0.20]), (0.03, 0.03));
    stands_still_like(
        stood_still(&job, Some(&extra)),
        (27.58, [0.65, 0.07]),
        (0.03, 0.03),
    );
    stands_still_like(
        stood_still(&job, Some(&sleeps)),
        (18.66, [0.10, 0.49]),
        (0.03, 0.04),
    );
}

/// ZeRO 1: ten layers, 20 AllReduces of gradients beside the backward pass, and 116 Broadcasts of parameters.
/// A straggler is late between the passes.
fn zero1(step: &mut Step) {
    (0..40).for_each(|_| step.compute("forward", 242.0));
    step.straggler();
    for _ in 0..20 {
        (0..3).for_each(|_| step.compute("backward", 332.0));
        step.collective(0, "AllReduce", 25 << 20, 190.0, 1);
    }
    step.wait(0, 1);
    (0..4).for_each(|_| step.compute("optimizer", 400.0));
    (0..116).for_each(|_| step.collective(0, "Broadcast", 4 << 20, 16.0, 1));
    step.wait(0, 1);
}

#[test]
fn zero1_waits_for_a_late_host_as_it_does_on_two_h100() {
    let job = Job {
        noise: 0.03,
        of_steps: 0.02,
        per_launch: 75.0,
        beside: 1.1,
        ..Job::new(vec![vec![0, 1]], 140, &zero1)
    };
    let sleeps = later_host(0, 40_200.0);
    stands_still_like(stood_still(&job, None), (34.32, [0.07, 0.08]), (0.03, 0.03));
    stands_still_like(
        stood_still(&job, Some(&sleeps)),
        (61.47, [0.03, 0.46]),
        (0.03, 0.06),
    );
}

/// Stages of pipelines, each with some data parallel ranks, that train with 1F1B. Rank `of * stages + stage`
/// is in pipeline `of`. Times are in µs.
struct Stages<'s> {
    stages: usize,
    pipelines: usize,
    pieces: usize,
    /// Forward and backward pass of a micro-batch, by step, pipeline, stage, and number of the micro-batch.
    passes: &'s dyn Fn(usize, usize, usize, usize) -> [f64; 2],
    /// From stage to stage.
    transfer: f64,
    /// AllGather of the parameters, ReduceScatter of the gradients, optimizer.
    ends: [f64; 3],
}

impl Stages<'_> {
    fn step(&self, step: &mut Step) {
        let (of, stage) = (step.rank / self.stages, step.rank % self.stages);
        let [gather, scatter, optimizer] = self.ends;
        let same = 1 + stage;
        step.collective(same, "AllGather", 256 << 20, gather, 0);
        let before = (stage > 0).then(|| step.rank - 1);
        let after = (stage + 1 < self.stages).then_some(step.rank + 1);
        let pass = |step: &mut Step, backward: usize, piece: usize| {
            let (from, to) = if backward == 1 {
                (after, before)
            } else {
                (before, after)
            };
            if let Some(from) = from {
                step.pass(
                    0,
                    &[Way::From(from)],
                    64 << 20,
                    self.transfer,
                    1 + 2 * backward,
                );
                step.wait(0, 1 + 2 * backward);
            }
            let us = (self.passes)(step.number, of, stage, piece)[backward];
            step.compute(["forward", "backward"][backward], us);
            if let Some(to) = to {
                step.pass(0, &[Way::To(to)], 64 << 20, self.transfer, 2 + 2 * backward);
            }
        };
        let ahead = (self.stages - 1 - stage).min(self.pieces);
        (0..ahead).for_each(|piece| pass(step, 0, piece));
        for piece in ahead..self.pieces {
            pass(step, 0, piece);
            pass(step, 1, piece - ahead);
        }
        (self.pieces - ahead..self.pieces).for_each(|piece| pass(step, 1, piece));
        step.collective(same, "ReduceScatter", 256 << 20, scatter, 0);
        step.compute("optimizer", optimizer);
        // The gradients' norm is of all ranks, and the host reads it.
        step.collective(0, "AllReduce", 4, 500.0, 0);
        step.sync(0);
    }

    /// The mean step, s.
    fn mean_step(&self, steps: usize) -> f64 {
        let ranks = self.stages * self.pipelines;
        let mut comms = vec![(0..ranks).collect::<Vec<_>>()];
        comms.extend((0..self.stages).map(|stage| (stage..ranks).step_by(self.stages).collect()));
        let script = |step: &mut Step| self.step(step);
        let job = Job {
            noise: 0.02,
            ..Job::new(comms, steps, &script)
        };
        play(&job, 1, None).seconds / steps as f64
    }
}

/// Both are within this part of each other.
fn agree(simulated: f64, real: f64, part: f64) {
    assert!(
        (simulated / real - 1.0).abs() < part,
        "{simulated}, and it is {real}"
    );
}

#[test]
fn a_stage_that_is_too_long_makes_the_steps_of_the_study() {
    let stages = Stages {
        stages: 4,
        pipelines: 2,
        pieces: 4,
        passes: &|_, _, stage, _| match stage {
            3 => [139_700.0, 203_500.0],
            _ => [67_100.0, 143_300.0],
        },
        transfer: 500.0,
        ends: [25_000.0, 50_000.0, 40_000.0],
    };
    agree(stages.mean_step(20), 2.17, 0.03);
}

#[test]
fn a_slow_worker_makes_the_steps_of_the_study() {
    let passes = |slow: bool| {
        move |_: usize, of: usize, stage: usize, _: usize| match (of, stage) {
            (0, 0) if slow => [546_100.0, 869_200.0],
            (_, 3) => [232_000.0, 395_600.0],
            _ => [217_600.0, 382_500.0],
        }
    };
    fn stages(passes: &dyn Fn(usize, usize, usize, usize) -> [f64; 2]) -> Stages<'_> {
        Stages {
            stages: 4,
            pipelines: 4,
            pieces: 32,
            passes,
            transfer: 1_000.0,
            ends: [113_000.0, 210_000.0, 21_400.0],
        }
    }
    agree(stages(&passes(true)).mean_step(6), 46.3, 0.03);
    // The study computed this one.
    agree(stages(&passes(false)).mean_step(6), 23.5, 0.06);
}

#[test]
fn sequences_of_uneven_length_make_the_steps_of_the_study() {
    // Most sequences are short and few are long, alike for both stages and both passes.
    let passes = |step: usize, of: usize, stage: usize, piece: usize| {
        let mut random = Random(((step * 32 + of) * 8 + piece) as u64);
        let longer = -(1.0 - random.uniform()).ln() - 1.0;
        let mean = [[161_000.0, 346_000.0], [278_000.0, 484_000.0]][stage];
        [mean[0] + 46_000.0 * longer, mean[1] + 151_000.0 * longer]
    };
    let stages = Stages {
        stages: 2,
        pipelines: 32,
        pieces: 8,
        passes: &passes,
        transfer: 4_000.0,
        ends: [15_600.0, 256_000.0, 600.0],
    };
    agree(stages.mean_step(40), 9.1, 0.05);
}
