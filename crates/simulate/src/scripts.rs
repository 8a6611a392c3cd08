//! Jobs of many shapes, and what stragglers do in them.

use crate::held_out;
use crate::step::{Step, Way};

/// What each rank does in a step.
pub type Script = fn(&mut Step);

/// Data parallel: gradients are reduced beside the backward pass.
pub fn ddp(step: &mut Step) {
    step.straggler();
    for _ in 0..8 {
        step.compute("forward", 600.0);
        step.compute("norm", 100.0);
    }
    for layer in 0..8 {
        step.compute("backward", 1200.0);
        step.compute("norm_backward", 150.0);
        if layer % 2 == 1 {
            step.collective(0, "AllReduce", 64 << 20, 500.0, 1);
        }
    }
    step.wait(0, 1);
    step.compute("optimizer", 800.0);
}

/// Several backward passes without communication, and one with.
pub fn accumulation(step: &mut Step) {
    step.straggler();
    for micro in 0..4 {
        for _ in 0..4 {
            step.compute("forward", 600.0);
        }
        for _ in 0..4 {
            step.compute("backward", 1200.0);
            if micro == 3 {
                step.collective(0, "AllReduce", 64 << 20, 500.0, 1);
            }
        }
    }
    step.wait(0, 1);
    step.compute("optimizer", 800.0);
}

/// Layers of which the parameters are gathered one layer ahead.
pub fn gathered(
    step: &mut Step,
    comm: usize,
    us: f64,
    layers: usize,
    mut layer: impl FnMut(&mut Step),
) {
    step.collective(comm, "AllGather", 32 << 20, us, 1);
    for index in 0..layers {
        step.wait(0, 1);
        if index + 1 < layers {
            step.collective(comm, "AllGather", 32 << 20, us, 1);
        }
        layer(step);
    }
}

/// Parameters are gathered one layer ahead, and gradients scattered.
pub fn zero3(step: &mut Step) {
    step.straggler();
    gathered(step, 0, 400.0, 8, |step| {
        step.compute("forward", 700.0);
        step.compute("norm", 100.0);
    });
    gathered(step, 0, 400.0, 8, |step| {
        step.compute("backward", 1400.0);
        step.compute("norm_backward", 150.0);
        step.collective(0, "ReduceScatter", 32 << 20, 400.0, 2);
    });
    step.wait(0, 2);
    step.compute("optimizer", 300.0);
}

/// Tensor parallel pairs (communicators 1 and on) within data parallel groups.
pub fn tensor_data(step: &mut Step) {
    step.straggler();
    let (tp, dp) = (1 + step.rank / 2, 1 + step.ranks / 2 + step.rank % 2);
    for _ in 0..6 {
        step.compute("attention", 500.0);
        step.collective(tp, "AllReduce", 8 << 20, 80.0, 0);
        step.compute("mlp", 700.0);
        step.collective(tp, "AllReduce", 8 << 20, 80.0, 0);
    }
    for _ in 0..6 {
        step.compute("mlp_backward", 1400.0);
        step.collective(tp, "AllReduce", 8 << 20, 80.0, 0);
        step.compute("attention_backward", 1000.0);
        step.collective(tp, "AllReduce", 8 << 20, 80.0, 0);
        step.collective(dp, "AllReduce", 48 << 20, 600.0, 1);
    }
    step.wait(0, 1);
    step.compute("optimizer", 400.0);
}

/// Its communicators.
pub fn tensor_data_comms(ranks: usize) -> Vec<Vec<usize>> {
    let mut comms = vec![(0..ranks).collect()];
    comms.extend((0..ranks / 2).map(|pair| vec![2 * pair, 2 * pair + 1]));
    comms.extend((0..2).map(|odd| (0..ranks / 2).map(|p| 2 * p + odd).collect::<Vec<_>>()));
    comms
}

/// Experts: tokens go to all ranks and back, in each layer.
pub fn experts(step: &mut Step) {
    step.straggler();
    let all: Vec<Way> = (0..step.ranks)
        .flat_map(|rank| [Way::To(rank), Way::From(rank)])
        .collect();
    for _ in 0..6 {
        step.compute("attention", 800.0);
        step.pass(0, &all, 4 << 20, 150.0, 0);
        step.compute("expert", 900.0);
        step.pass(0, &all, 4 << 20, 150.0, 0);
    }
    for _ in 0..6 {
        step.pass(0, &all, 4 << 20, 150.0, 0);
        step.compute("expert_backward", 1800.0);
        step.pass(0, &all, 4 << 20, 150.0, 0);
        step.compute("attention_backward", 1600.0);
    }
    step.collective(0, "AllReduce", 64 << 20, 900.0, 1);
    step.wait(0, 1);
    step.compute("optimizer", 400.0);
}

/// A pipeline of as many stages as ranks, 1F1B.
pub fn one_f_one_b(step: &mut Step) {
    pipeline(step, 8)
}

/// The same with so many micro-batches.
pub fn pipeline(step: &mut Step, pieces: usize) {
    step.straggler();
    let (stage, stages) = (step.rank, step.ranks);
    let ahead = (stages - 1 - stage).min(pieces);
    let receive = |step: &mut Step, from: Option<usize>, stream: usize| {
        if let Some(from) = from {
            step.pass(0, &[Way::From(from)], 8 << 20, 60.0, stream);
            step.wait(0, stream);
        }
    };
    let before = stage.checked_sub(1);
    let after = (stage + 1 < stages).then_some(stage + 1);
    let forward = |step: &mut Step| {
        receive(step, before, 1);
        step.compute("forward", 1500.0);
        step.compute("norm", 300.0);
        if let Some(after) = after {
            step.pass(0, &[Way::To(after)], 8 << 20, 60.0, 2);
        }
    };
    let backward = |step: &mut Step| {
        receive(step, after, 3);
        step.compute("backward", 3000.0);
        step.compute("norm_backward", 500.0);
        if let Some(before) = before {
            step.pass(0, &[Way::To(before)], 8 << 20, 60.0, 4);
        }
    };
    for _ in 0..ahead {
        forward(step);
    }
    for _ in ahead..pieces {
        forward(step);
        backward(step);
    }
    for _ in 0..ahead {
        backward(step);
    }
    step.compute("optimizer", 300.0);
    step.sync(0);
}

/// Parameters are gathered ahead by hosts that are slower than their GPUs, and that wait for their GPU before
/// the last layers. Before the first step, parameters are handed out one by one.
pub fn zero3_slow_hosts(step: &mut Step) {
    if step.number == 0 {
        for call in 0..90 {
            step.collective(0, "Broadcast", 1 << (10 + call % 9), 20.0, 1);
        }
        step.sync(1);
    }
    step.host(3000.0);
    step.straggler();
    const LAYERS: usize = 8;
    for layer in 0..LAYERS {
        step.collective(0, "AllGather", 96 << 20, 370.0, 1);
        if layer == LAYERS / 2 {
            step.sync(1);
        }
        step.host(1500.0);
        step.wait(0, 1);
        step.compute("forward", 900.0);
    }
    step.host(60_000.0);
    step.compute("backward", 15_000.0);
    step.collective(0, "ReduceScatter", 768 << 20, 3000.0, 0);
    step.sync(0);
    step.collective(0, "AllReduce", 4, 10.0, 0);
    step.sync(0);
    step.compute("optimizer", 5000.0);
}

/// A small step in which hosts limit all ranks.
pub fn host_bound(step: &mut Step) {
    step.host(1500.0);
    step.straggler();
    for _ in 0..10 {
        step.host(120.0);
        step.compute("small", 40.0);
        step.host(120.0);
        step.compute("smaller", 20.0);
        step.collective(0, "AllReduce", 1 << 20, 30.0, 0);
    }
    step.compute("optimizer", 50.0);
}

/// Steps of different sizes, as sequences of different lengths make them.
pub fn sizes(step: &mut Step) {
    step.straggler();
    let size = 0.5 + ((step.number * 7919) % 97) as f64 / 97.0;
    for _ in 0..8 {
        step.compute("forward", 700.0 * size);
    }
    for layer in 0..8 {
        step.compute("backward", 1400.0 * size);
        if layer % 2 == 1 {
            step.collective(0, "AllReduce", 64 << 20, 500.0, 1);
        }
    }
    step.wait(0, 1);
    step.compute("optimizer", 800.0);
}

/// Every 20 steps come four of an evaluation.
pub fn evaluation(step: &mut Step) {
    if step.number % 20 >= 16 {
        for _ in 0..16 {
            step.compute("forward", 600.0);
        }
        step.collective(0, "AllReduce", 8, 20.0, 0);
        step.sync(0);
        return;
    }
    ddp(step);
}

/// Rank 0 writes a checkpoint every 40 steps.
pub fn checkpoint(step: &mut Step) {
    if step.number % 40 == 39 {
        step.sync(0);
        if step.rank == 0 {
            step.host(400_000.0);
        }
        step.collective(0, "AllReduce", 4, 20.0, 0);
        step.sync(0);
    }
    ddp(step);
}

/// Interleaved 1F1B: each rank has two chunks of the model.
pub fn interleaved(step: &mut Step) {
    step.straggler();
    const PIECES: usize = 8;
    let (rank, ranks) = (step.rank, step.ranks);
    // All forward passes of both chunks in turns of `ranks`, then the backward passes, as warm-up allows.
    let order: Vec<(bool, usize)> = (0..2 * PIECES).map(|n| (true, (n / ranks) % 2)).collect();
    let warm = (2 * (ranks - rank - 1) + ranks).min(2 * PIECES);
    let backs: Vec<(bool, usize)> = (0..2 * PIECES)
        .map(|n| (false, 1 - (n / ranks) % 2))
        .collect();
    let mut all: Vec<(bool, usize)> = order[..warm].to_vec();
    for n in warm..2 * PIECES {
        all.push(order[n]);
        all.push(backs[n - warm]);
    }
    all.extend(&backs[2 * PIECES - warm..]);
    for (forward, chunk) in all {
        let (next, previous) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        if forward {
            if rank > 0 || chunk > 0 {
                step.pass(0, &[Way::From(previous)], 8 << 20, 40.0, 1);
                step.wait(0, 1);
            }
            step.compute("forward", 900.0);
            if rank + 1 < ranks || chunk == 0 {
                step.pass(0, &[Way::To(next)], 8 << 20, 40.0, 2);
            }
        } else {
            if rank + 1 < ranks || chunk == 0 {
                step.pass(0, &[Way::From(next)], 8 << 20, 40.0, 3);
                step.wait(0, 3);
            }
            step.compute("backward", 1800.0);
            if rank > 0 || chunk > 0 {
                step.pass(0, &[Way::To(previous)], 8 << 20, 40.0, 4);
            }
        }
    }
    step.compute("optimizer", 300.0);
    step.sync(0);
}

/// Pipelines of two stages, tensor parallel pairs, and data parallel: ranks = 8.
pub fn three_ways(step: &mut Step) {
    step.straggler();
    let (rank, pieces) = (step.rank, 6);
    let (tp, stage) = (rank % 2, rank / 2 % 2);
    let tp_comm = 1 + rank / 2;
    let pp_comm = 5 + (rank / 4) * 2 + tp;
    let dp_comm = 9 + rank % 4;
    let peer = if stage == 0 { rank + 2 } else { rank - 2 };
    let layers = |step: &mut Step, name: &'static str, us: f64| {
        for _ in 0..2 {
            step.compute(name, us);
            step.collective(tp_comm, "AllReduce", 4 << 20, 60.0, 0);
        }
    };
    let forward = |step: &mut Step| {
        if stage == 1 {
            step.pass(pp_comm, &[Way::From(peer)], 4 << 20, 50.0, 1);
            step.wait(0, 1);
        }
        layers(step, "forward", 600.0);
        if stage == 0 {
            step.pass(pp_comm, &[Way::To(peer)], 4 << 20, 50.0, 2);
        }
    };
    let backward = |step: &mut Step| {
        if stage == 0 {
            step.pass(pp_comm, &[Way::From(peer)], 4 << 20, 50.0, 3);
            step.wait(0, 3);
        }
        layers(step, "backward", 1200.0);
        if stage == 1 {
            step.pass(pp_comm, &[Way::To(peer)], 4 << 20, 50.0, 4);
        }
    };
    let ahead = 1 - stage;
    (0..ahead).for_each(|_| forward(step));
    for _ in ahead..pieces {
        forward(step);
        backward(step);
    }
    (0..ahead).for_each(|_| backward(step));
    step.collective(dp_comm, "AllReduce", 64 << 20, 900.0, 5);
    step.wait(0, 5);
    step.compute("optimizer", 300.0);
    step.sync(0);
}

/// Its communicators.
pub fn three_ways_comms() -> Vec<Vec<usize>> {
    let mut comms = vec![(0..8).collect()];
    comms.extend((0..4).map(|n| vec![2 * n, 2 * n + 1]));
    for half in [0, 4] {
        comms.extend((0..2).map(|tp| vec![half + tp, half + tp + 2]));
    }
    comms.extend((0..4).map(|n| vec![n, n + 4]));
    comms
}

/// The communicators of a job of this name.
pub fn comms(script: &str, ranks: usize) -> Vec<Vec<usize>> {
    match script {
        "tensor_data" => tensor_data_comms(ranks),
        "three_ways" => three_ways_comms(),
        _ => held_out::comms(script, ranks).unwrap_or_else(|| vec![(0..ranks).collect()]),
    }
}

/// Name, script, ranks and steps.
pub fn scripts() -> Vec<(&'static str, Script, usize, usize)> {
    vec![
        ("ddp", ddp, 2, 300),
        ("ddp", ddp, 3, 300),
        ("ddp", ddp, 8, 300),
        ("accumulation", accumulation, 4, 250),
        ("zero3", zero3, 4, 300),
        ("tensor_data", tensor_data, 4, 250),
        ("tensor_data", tensor_data, 16, 200),
        ("experts", experts, 4, 200),
        ("one_f_one_b", one_f_one_b, 4, 150),
        ("one_f_one_b", one_f_one_b, 2, 150),
        ("interleaved", interleaved, 4, 150),
        ("three_ways", three_ways, 8, 200),
        ("host_bound", host_bound, 4, 1000),
        ("sizes", sizes, 4, 300),
        ("evaluation", evaluation, 4, 300),
        ("checkpoint", checkpoint, 4, 300),
    ]
}

/// What a straggler does, and who is to be blamed.
pub struct Straggler {
    /// Its name.
    pub name: &'static str,
    /// Who is to be blamed; `None` if nobody is.
    pub rank: Option<u32>,
    /// Its host is late, and not its GPU.
    pub host: bool,
    /// What it does.
    pub late: fn(&mut Step),
    /// What stays if that rank alone is no longer late.
    pub stays: fn(&mut Step),
}

/// Stragglers of all kinds.
pub fn stragglers() -> Vec<Straggler> {
    let of = |name, rank, host, late| Straggler {
        name,
        rank,
        host,
        late,
        stays: |_| {},
    };
    vec![
        of("gpu", Some(1), false, |s| {
            if s.rank == 1 {
                s.extra(5_000.0)
            }
        }),
        of("host", Some(1), true, |s| {
            if s.rank == 1 {
                s.sleeps(40_000.0)
            }
        }),
        Straggler {
            stays: |s| {
                if s.rank == 0 {
                    s.extra(3_000.0)
                }
            },
            ..of("two", Some(1), false, |s| {
                if s.rank == 1 {
                    s.extra(6_000.0)
                }
                if s.rank == 0 {
                    s.extra(3_000.0)
                }
            })
        },
        of("moves", None, false, |s| {
            if s.rank == s.number % s.ranks {
                s.extra(5_000.0)
            }
        }),
        of("some", Some(1), false, |s| {
            if s.rank == 1 && s.number % 10 == 3 {
                s.extra(40_000.0)
            }
        }),
        of("late_half", Some(1), false, |s| {
            if s.rank == 1 && s.number > 100 {
                s.extra(6_000.0)
            }
        }),
        of("hidden_host", None, true, |s| {
            if s.rank == 1 {
                s.sleeps(3_000.0)
            }
        }),
    ]
}
