//! Jobs of shapes that no rule of the report was made with: they are looked at last.

use crate::scripts::{gathered, Script};
use crate::step::{Step, Way};

/// ZeRO stage 1: nothing is communicated until all gradients are there. Then they are scattered, and the
/// parameters gathered behind the optimizer.
fn zero1(step: &mut Step) {
    step.straggler();
    for _ in 0..8 {
        step.compute("forward", 600.0);
        step.compute("norm", 100.0);
    }
    for _ in 0..8 {
        step.compute("backward", 1200.0);
        step.compute("norm_backward", 150.0);
    }
    for _ in 0..2 {
        step.collective(0, "ReduceScatter", 64 << 20, 600.0, 1);
    }
    step.wait(0, 1);
    step.compute("optimizer", 500.0);
    for _ in 0..2 {
        step.collective(0, "AllGather", 32 << 20, 500.0, 1);
    }
    step.wait(0, 1);
}

/// Context parallelism: keys and values go round a ring while each rank attends to those that it has.
fn ring(step: &mut Step) {
    step.straggler();
    let (next, previous) = (
        (step.rank + 1) % step.ranks,
        (step.rank + step.ranks - 1) % step.ranks,
    );
    let round = |step: &mut Step, name: &'static str, us: f64| {
        for hop in 0..step.ranks {
            let passes = hop + 1 < step.ranks;
            if passes {
                step.pass(0, &[Way::To(next), Way::From(previous)], 8 << 20, 200.0, 1);
            }
            step.compute(name, us);
            if passes {
                step.wait(0, 1);
            }
        }
    };
    for _ in 0..4 {
        round(step, "attend", 300.0);
        step.compute("mlp", 700.0);
    }
    for _ in 0..4 {
        step.compute("mlp_backward", 1400.0);
        round(step, "attend_backward", 600.0);
    }
    step.collective(0, "AllReduce", 64 << 20, 900.0, 2);
    step.wait(0, 2);
    step.compute("optimizer", 400.0);
}

/// Data parallel over a link so slow that steps are bound by it.
fn slow_link(step: &mut Step) {
    step.straggler();
    for _ in 0..8 {
        step.compute("forward", 600.0);
    }
    for layer in 0..8 {
        step.compute("backward", 1200.0);
        if layer % 2 == 1 {
            step.collective(0, "AllReduce", 64 << 20, 4_500.0, 1);
        }
    }
    step.wait(0, 1);
    step.compute("optimizer", 800.0);
}

/// Two nodes of four ranks: parameters are gathered and gradients scattered within a node, and reduced
/// between the two.
fn two_nodes(step: &mut Step) {
    step.straggler();
    let (node, pair) = (1 + step.rank / 4, 3 + step.rank % 4);
    const LAYERS: usize = 6;
    gathered(step, node, 200.0, LAYERS, |step| {
        step.compute("forward", 900.0)
    });
    for _ in 0..LAYERS {
        step.compute("backward", 1800.0);
        step.collective(node, "ReduceScatter", 32 << 20, 200.0, 1);
        step.wait(2, 1);
        step.collective(pair, "AllReduce", 8 << 20, 500.0, 2);
    }
    step.wait(0, 2);
    step.compute("optimizer", 400.0);
}

/// Data parallel whose data loaders hiccup, on all ranks alike. The host waits for each step's loss.
fn hiccups(step: &mut Step) {
    step.host(300.0);
    if step.random.uniform() < 0.04 {
        step.host(15_000.0);
    }
    step.straggler();
    for _ in 0..6 {
        step.compute("forward", 800.0);
    }
    for layer in 0..6 {
        step.compute("backward", 1600.0);
        if layer % 3 == 2 {
            step.collective(0, "AllReduce", 96 << 20, 700.0, 1);
        }
    }
    step.wait(0, 1);
    step.compute("optimizer", 600.0);
    step.sync(0);
}

/// Tensor parallel inference: all calls are on the computing stream, and the host waits for each batch.
fn serving(step: &mut Step) {
    step.straggler();
    for _ in 0..16 {
        step.compute("attention", 350.0);
        step.collective(0, "AllReduce", 4 << 20, 60.0, 0);
        step.compute("mlp", 450.0);
        step.collective(0, "AllReduce", 4 << 20, 60.0, 0);
    }
    step.compute("sample", 200.0);
    step.sync(0);
}

/// The communicators of such a job; `None` if it has one.
pub fn comms(script: &str, ranks: usize) -> Option<Vec<Vec<usize>>> {
    (script == "two_nodes").then(|| {
        let mut comms = vec![(0..ranks).collect(), vec![0, 1, 2, 3], vec![4, 5, 6, 7]];
        comms.extend((0..4).map(|rank| vec![rank, rank + 4]));
        comms
    })
}

/// Name, script, ranks and steps.
pub fn scripts() -> Vec<(&'static str, Script, usize, usize)> {
    vec![
        ("zero1", zero1, 4, 300),
        ("ring", ring, 4, 200),
        ("slow_link", slow_link, 2, 250),
        ("slow_link", slow_link, 4, 250),
        ("two_nodes", two_nodes, 8, 200),
        ("hiccups", hiccups, 4, 300),
        ("serving", serving, 4, 250),
    ]
}
