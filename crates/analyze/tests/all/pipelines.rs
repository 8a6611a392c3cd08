//! Bubbles of pipelines, against the truth: what each stage of a simulated pipeline computed in a step.

use crate::windowed::{Job, Way, MS};
use analyze::streams::bubbles::{Bubble, For};
use std::ops::Range;

/// A transfer takes so long once both sides are there.
const TRANSFER: i64 = MS / 50;
const STEPS: usize = 24;

/// What a stage does next: the forward or the backward pass of a micro-batch.
#[derive(Clone, Copy)]
enum Pass {
    Forward(usize),
    Backward(usize),
}

/// The passes of a stage in a step of 1F1B: forward passes until the first gradient can be there, then one of
/// each, then what is left.
fn one_forward_one_backward(stage: usize, stages: usize, pieces: usize) -> Vec<Pass> {
    let ahead = (stages - 1 - stage).min(pieces);
    let mut passes: Vec<Pass> = (0..ahead).map(Pass::Forward).collect();
    for piece in ahead..pieces {
        passes.push(Pass::Forward(piece));
        passes.push(Pass::Backward(piece - ahead));
    }
    passes.extend((pieces - ahead..pieces).map(Pass::Backward));
    passes
}

/// What is known of a played pipeline.
struct Truth {
    bubbles: Vec<Bubble>,
    /// Length of a step, µs.
    step_us: f64,
    /// By stage: what of a step it computes nothing.
    shares: Vec<f64>,
}

/// Plays 1F1B. `long` is how long the passes of a stage take, ns; `noise` by which part they differ.
fn played(stages: usize, pieces: usize, noise: f64, long: &dyn Fn(usize, Pass) -> i64) -> Truth {
    let mut job = Job::new(stages as u32);
    let mut random = 1u64;
    let mut free = vec![0i64; stages];
    let mut computed = vec![0i64; stages];
    let mut begins = vec![0i64];
    for _ in 0..STEPS {
        let orders: Vec<Vec<Pass>> = (0..stages)
            .map(|stage| one_forward_one_backward(stage, stages, pieces))
            .collect();
        // When the results of the passes are there, by stage and piece.
        let mut forward = vec![vec![None; pieces]; stages];
        let mut backward = vec![vec![None; pieces]; stages];
        let mut next = vec![0; stages];
        while next.iter().any(|next| *next < 2 * pieces) {
            for stage in 0..stages {
                let Some(pass) = orders[stage].get(next[stage]).copied() else {
                    continue;
                };
                let from = match pass {
                    Pass::Forward(piece) => (stage.checked_sub(1)).map(|s| (s, forward[s][piece])),
                    Pass::Backward(piece) => {
                        (stage + 1 < stages).then(|| (stage + 1, backward[stage + 1][piece]))
                    }
                };
                let mut begin = free[stage];
                if let Some((peer, sent)) = from {
                    let Some(sent) = sent else { continue };
                    let end = begin.max(sent) + TRANSFER;
                    let (to, from) = (Way::To(stage as u32), Way::From(peer as u32));
                    // Each pair and direction has a stream: a send does not hold up what comes back.
                    let stream = |own: usize, other: usize| 20 + 4 * own as u32 + other as u32;
                    job.passes(stage as u32, &[from], stream(1, peer), begin..end);
                    job.passes(peer as u32, &[to], stream(0, stage), sent..end);
                    begin = end;
                }
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                let jitter = (random >> 40) as f64 / f64::from(1 << 24) - 0.5;
                let takes = (long(stage, pass) as f64 * (1.0 + noise * jitter)) as i64;
                let (name, done) = match pass {
                    Pass::Forward(piece) => ("forward", &mut forward[stage][piece]),
                    Pass::Backward(piece) => ("backward", &mut backward[stage][piece]),
                };
                *done = Some(begin + takes);
                job.computes(stage as u32, name, begin..begin + takes);
                (free[stage], computed[stage]) = (begin + takes, computed[stage] + takes);
                next[stage] += 1;
            }
        }
        for stage in 0..stages {
            let begin = free[stage];
            job.computes(stage as u32, "optimizer", begin..begin + MS / 10);
            (free[stage], computed[stage]) = (begin + MS / 10, computed[stage] + MS / 10);
        }
        begins.push(free[0]);
    }
    let whole = *begins.last().expect("steps") as f64;
    // Six windows of three steps and a half.
    let windows: Vec<Range<i64>> = (0..6)
        .map(|n| begins[4 * n]..(begins[4 * n + 3] + begins[4 * n + 4]) / 2)
        .collect();
    let report = job.report(&windows);
    let streams = report.streams.expect("windows");
    Truth {
        bubbles: streams.bubbles,
        step_us: whole / STEPS as f64 / 1e3,
        shares: computed.iter().map(|of| 1.0 - *of as f64 / whole).collect(),
    }
}

/// Asserts that each bubble is the true one, and what its parts sum to.
fn are_true(truth: &Truth) {
    assert_eq!(truth.bubbles.len(), truth.shares.len());
    for (bubble, share) in truth.bubbles.iter().zip(&truth.shares) {
        assert!(
            (bubble.bubble.share - share).abs() < 0.01,
            "{bubble:?} {share}"
        );
        let (low, high) = bubble.bubble.interval.expect("enough windows");
        assert!(
            low - 0.002 <= *share && *share <= high + 0.002,
            "{bubble:?} {share}"
        );
        assert!((bubble.step_us / truth.step_us - 1.0).abs() < 0.01);
        let parts = bubble.late_sender_us
            + bubble.late_receiver_us
            + bubble.collective_us
            + bubble.transfer_us
            + bubble.idle_us;
        assert!((parts - bubble.bubble_us).abs() < 1.0, "{bubble:?}");
    }
}

#[test]
fn a_balanced_pipeline_has_the_bubble_of_its_schedule() {
    for (stages, pieces) in [(2, 8), (4, 8), (4, 16)] {
        let long = |_, pass| match pass {
            Pass::Forward(_) => 3 * MS,
            Pass::Backward(_) => 6 * MS,
        };
        let truth = played(stages, pieces, 0.0, &long);
        are_true(&truth);
        let of_schedule = (stages - 1) as f64 / (pieces + stages - 1) as f64;
        for bubble in &truth.bubbles {
            assert!(
                (bubble.bubble.share - of_schedule).abs() < 0.01,
                "{bubble:?}"
            );
            // All of it is waiting to receive, but for the transfers.
            assert!(bubble.late_sender_us > 0.9 * bubble.bubble_us, "{bubble:?}");
        }
    }
}

/// Passes of 3 and 6 ms; those of the slow stage take `times` as long.
fn passes(slow: usize, times: f64) -> impl Fn(usize, Pass) -> i64 {
    move |stage, pass| {
        let long = match pass {
            Pass::Forward(_) => 3 * MS,
            Pass::Backward(_) => 6 * MS,
        };
        if stage == slow {
            (long as f64 * times) as i64
        } else {
            long
        }
    }
}

#[test]
fn stages_wait_for_the_slow_one() {
    let truth = played(4, 16, 0.05, &passes(2, 1.5));
    are_true(&truth);
    let but_the_slow = |(stage, _): &(usize, &Bubble)| *stage != 2;
    for (stage, bubble) in truth.bubbles.iter().enumerate().filter(but_the_slow) {
        let most = |of: fn(&For) -> f64| {
            let others = bubble.waits_for.iter();
            let most = others.max_by(|a, b| of(a).total_cmp(&of(b)));
            most.and_then(|other| other.process.rank)
        };
        assert_eq!(most(|other| other.behind_us), Some(2), "{bubble:?}");
        // Stage 0 waits for stage 1, which waits for stage 2.
        let neighbour = if stage == 0 { 1 } else { 2 };
        assert_eq!(most(|other| other.late_sender_us), Some(neighbour));
        // Nothing is said of more waiting than there was.
        let sums = [
            bubble.waits_for.iter().map(|o| o.late_sender_us).sum(),
            bubble.waits_for.iter().map(|o| o.late_receiver_us).sum(),
        ];
        let parts = [bubble.late_sender_us, bubble.late_receiver_us];
        assert!(sums
            .iter()
            .zip(parts)
            .all(|(a, b): (&f64, f64)| (a - b).abs() < 1.0));
    }
}

/// Two ranks that do this in steps of 10 ms, in six windows.
fn steps_of(step: impl Fn(&mut Job, i64)) -> Vec<Bubble> {
    let mut job = Job::new(2);
    (0..60).for_each(|n| step(&mut job, 10 * n * MS));
    let windows: Vec<Range<i64>> = (0..6).map(|n| 100 * n * MS..(100 * n + 75) * MS).collect();
    job.report(&windows).streams.expect("windows").bubbles
}

#[test]
fn who_only_sends_waits_for_a_late_receiver() {
    let bubbles = steps_of(|job, at| {
        job.computes(0, "makes", at..at + 3 * MS);
        job.passes(0, &[Way::To(1)], 20, at + 3 * MS..at + 9 * MS);
        job.computes(1, "uses", at..at + 8 * MS);
        job.passes(1, &[Way::From(0)], 20, at + 8 * MS..at + 9 * MS);
    });
    let first = &bubbles[0];
    assert_eq!(
        (first.late_sender_us, first.late_receiver_us),
        (0.0, 5000.0)
    );
    assert_eq!((first.transfer_us, first.idle_us), (1000.0, 1000.0));
    assert_eq!(bubbles[1].late_receiver_us, 0.0);
}

#[test]
fn a_group_that_sends_and_receives_waits_for_the_sender() {
    let bubbles = steps_of(|job, at| {
        for (rank, long) in [(0, 3), (1, 8)] {
            let other = 1 - rank;
            job.computes(rank, "computes", at..at + long * MS);
            let group = [Way::To(other), Way::From(other)];
            job.passes(rank, &group, 20, at + long * MS..at + 9 * MS);
        }
    });
    assert_eq!(bubbles[0].late_sender_us, 5000.0);
    assert_eq!(bubbles[0].waits_for[0].process.rank, Some(1));
    assert_eq!(bubbles[1].late_sender_us, 0.0);
}

#[test]
fn an_alltoall_of_sends_and_receives_is_no_pipeline() {
    let bubbles = steps_of(|job, at| {
        for rank in 0..2 {
            job.computes(rank, "computes", at..at + 3 * MS);
            let all = [Way::To(0), Way::To(1), Way::From(0), Way::From(1)];
            job.passes(rank, &all, 20, at + 3 * MS..at + 9 * MS);
        }
    });
    assert!(bubbles.is_empty());
}
