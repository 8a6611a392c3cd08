//! The simulator against jobs of `data/` that ran on H200: fitted to the job without the fault, it plays the
//! one with it.
//!
//! Step times are those of `data/README.md`. Shares of the time are what the report on the capture has under
//! "What the GPUs did".

use simulate::{play, Job, Step, Way};

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
    let late = |step: &mut Step| {
        if step.rank == 1 {
            step.extra(10_900.0);
        }
    };
    let (plain, _) = played(&of_ddp(&ddp), None);
    assert!((plain / 20.29 - 1.0).abs() < 0.05, "{plain}");
    let real = (31.05, [[0.70, 0.50, 0.29], [0.94, 0.05, 0.00]]);
    is_like(played(&of_ddp(&ddp), Some(&late)), real, (0.03, 0.07));
}

#[test]
fn ddp_waits_for_a_late_host_as_it_does_on_two_h200() {
    let late = |step: &mut Step| {
        if step.rank == 1 {
            step.sleeps(10_000.0);
        }
    };
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
    let late = |step: &mut Step| {
        if step.rank == 1 {
            step.extra(25_000.0);
        }
    };
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
    let late = |step: &mut Step| {
        if step.rank == 1 {
            step.extra(2_150.0);
        }
    };
    let (plain, _) = played(&job, None);
    assert!((plain / 81.2 - 1.0).abs() < 0.10, "{plain}");
    let real = (98.6, [[0.64, 0.00, 0.32], [0.86, 0.00, 0.09]]);
    is_like(played(&job, Some(&late)), real, (0.06, 0.08));
}
