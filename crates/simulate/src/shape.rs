//! Shapes of jobs, with sizes that are drawn.
//!
//! A [`Shape`] is a script with parameters: how many layers, buckets or micro-batches, how long kernels and
//! transfers take. [`Shape::draw`] takes them from a seed, [`Shape::comms`] makes the communicators, and
//! [`Shape::step`] is what a rank does in a step.

use crate::random::Random;
use crate::step::{Step, Way};

/// Largest number of ranks in a tensor-parallel group.
const MOST_TENSOR: usize = 8;

/// What kind of job it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Data parallel: gradients are reduced in buckets beside the backward pass.
    Ddp,
    /// Parameters are gathered one layer ahead, and gradients scattered.
    Fsdp,
    /// Gradients are reduced, and the parameters then broadcast by their owners.
    Zero1,
    /// Tensor and sequence parallel: AllGather and ReduceScatter on the computing stream, within data
    /// parallel groups if there are more ranks.
    Tensor,
    /// Pipeline, one forward and one backward pass in turns.
    Pipeline,
    /// Keys and values go round a ring of grouped sends.
    Ring,
    /// Experts: tokens go to all ranks and back.
    Experts,
    /// Tensor-parallel inference: a CUDA graph for each token.
    Decode,
}

/// All of them.
pub const KINDS: [Kind; 8] = [
    Kind::Ddp,
    Kind::Fsdp,
    Kind::Zero1,
    Kind::Tensor,
    Kind::Pipeline,
    Kind::Ring,
    Kind::Experts,
    Kind::Decode,
];

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ddp => "ddp",
            Kind::Fsdp => "fsdp",
            Kind::Zero1 => "zero1",
            Kind::Tensor => "tensor",
            Kind::Pipeline => "pipeline",
            Kind::Ring => "ring",
            Kind::Experts => "experts",
            Kind::Decode => "decode",
        }
    }
}

/// A shape with its sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// What kind of job it is.
    pub kind: Kind,
    /// Layers of the model; of one stage in a pipeline.
    pub layers: usize,
    /// Micro-batches in a step.
    pub pieces: usize,
    /// Layers whose gradients are in one bucket.
    pub bucket: usize,
    /// Ranks of a tensor-parallel group or of a pipeline.
    pub group: usize,
    /// A layer's forward pass takes so long, µs; its backward pass twice that.
    pub forward_us: f64,
    /// A transfer of one layer takes so long, µs.
    pub transfer_us: f64,
    /// What the host does before a step, µs.
    pub host_us: f64,
    /// Whether the host waits for the GPU at the end of each step.
    pub syncs: bool,
}

impl Shape {
    /// A shape of this kind for so many ranks.
    pub fn draw(kind: Kind, ranks: usize, random: &mut Random) -> Shape {
        let group = match kind {
            Kind::Tensor | Kind::Pipeline => {
                let fits =
                    |g: &usize| ranks.is_multiple_of(*g) && (*g <= MOST_TENSOR || *g == ranks);
                let all: Vec<usize> = [2, 3, 4, 6, 8].into_iter().filter(fits).collect();
                if all.is_empty() {
                    ranks
                } else {
                    random.one(&all)
                }
            }
            _ => ranks,
        };
        let forward_us = match kind {
            Kind::Decode => random.between(20.0, 300.0),
            _ => random.between(300.0, 8000.0),
        };
        Shape {
            kind,
            layers: 2 + random.below(if kind == Kind::Pipeline { 3 } else { 9 }),
            pieces: match kind {
                Kind::Pipeline => 2 * group + random.below(6),
                Kind::Ddp => random.one(&[1, 1, 1, 2, 4]),
                _ => 1,
            },
            bucket: 1 + random.below(4),
            group,
            forward_us,
            transfer_us: forward_us * random.between(0.05, 1.0),
            host_us: random.between(50.0, 5000.0),
            syncs: random.chance(0.4) || kind == Kind::Decode,
        }
    }

    /// Members of the communicators: all ranks first, then the groups, then those of equal place in them.
    pub fn comms(&self, ranks: usize) -> Vec<Vec<usize>> {
        let mut comms = vec![(0..ranks).collect::<Vec<_>>()];
        if self.group < ranks {
            let groups = ranks / self.group;
            comms.extend((0..groups).map(|g| (g * self.group..(g + 1) * self.group).collect()));
            comms.extend(
                (0..self.group).map(|at| (0..groups).map(|g| g * self.group + at).collect()),
            );
        }
        comms
    }

    /// The communicators of a rank's group, and of the ranks with the same place in theirs.
    fn own(&self, rank: usize, ranks: usize) -> (usize, Option<usize>) {
        let groups = ranks / self.group;
        match groups {
            1 => (0, None),
            _ => (1 + rank / self.group, Some(1 + groups + rank % self.group)),
        }
    }

    /// What a rank does in a step.
    pub fn step(&self, step: &mut Step) {
        if step.number == 0 {
            self.start_up(step);
        }
        step.host(self.host_us);
        match self.kind {
            Kind::Ddp => self.ddp(step),
            Kind::Fsdp => self.fsdp(step),
            Kind::Zero1 => self.zero1(step),
            Kind::Tensor => self.tensor(step),
            Kind::Pipeline => self.pipeline(step),
            Kind::Ring => self.ring(step),
            Kind::Experts => self.experts(step),
            Kind::Decode => self.decode(step),
        }
        step.compute("optimizer", 0.5 * self.forward_us);
        if self.syncs {
            step.sync(0);
        }
    }

    /// Ranks come at different times, and get the parameters.
    fn start_up(&self, step: &mut Step) {
        let us = 1e5 + 1e6 * step.random.uniform();
        step.sleeps(us);
        for layer in 0..self.layers {
            step.collective(
                0,
                "Broadcast",
                1 << (18 + layer % 6),
                0.5 * self.transfer_us,
                1,
            );
        }
        step.sync(1);
    }

    fn forward(&self, step: &mut Step) {
        step.compute("forward", 0.85 * self.forward_us);
        step.compute("norm", 0.15 * self.forward_us);
    }

    fn backward(&self, step: &mut Step) {
        step.compute("backward", 1.8 * self.forward_us);
        step.compute("norm_backward", 0.2 * self.forward_us);
    }

    /// The gradients of some layers; no bucket is quite as large as another.
    fn reduce(&self, step: &mut Step, layers: usize, bucket: usize) {
        let us = self.transfer_us * layers as f64;
        let bytes = ((16 << 20) * layers + (bucket << 12)) as u64;
        step.collective(0, "AllReduce", bytes, us, 1);
    }

    fn ddp(&self, step: &mut Step) {
        for piece in 0..self.pieces {
            if piece + 1 == self.pieces {
                step.straggler();
            }
            (0..self.layers).for_each(|_| self.forward(step));
            let mut full = 0;
            for layer in 0..self.layers {
                self.backward(step);
                full += 1;
                if full == self.bucket || layer + 1 == self.layers {
                    if piece + 1 == self.pieces {
                        self.reduce(step, full, layer);
                    }
                    full = 0;
                }
            }
        }
        step.wait(0, 1);
    }

    fn fsdp(&self, step: &mut Step) {
        step.straggler();
        for backward in [false, true] {
            step.collective(0, "AllGather", 32 << 20, self.transfer_us, 1);
            for layer in 0..self.layers {
                step.wait(0, 1);
                if layer + 1 < self.layers {
                    step.collective(0, "AllGather", 32 << 20, self.transfer_us, 1);
                }
                if backward {
                    self.backward(step);
                    step.collective(0, "ReduceScatter", 32 << 20, self.transfer_us, 2);
                } else {
                    self.forward(step);
                }
            }
        }
        step.wait(0, 2);
    }

    fn zero1(&self, step: &mut Step) {
        (0..self.layers).for_each(|_| self.forward(step));
        step.straggler();
        for layer in 0..self.layers {
            self.backward(step);
            if (layer + 1) % self.bucket == 0 || layer + 1 == self.layers {
                self.reduce(step, self.bucket, layer);
            }
        }
        step.wait(0, 1);
        step.compute("update", 0.3 * self.forward_us);
        for owner in 0..step.ranks.max(self.layers) {
            let us = 0.3 * self.transfer_us;
            step.collective(0, "Broadcast", 4 << (20 + owner % 3), us, 1);
        }
        step.wait(0, 1);
    }

    fn tensor(&self, step: &mut Step) {
        let (group, same) = self.own(step.rank, step.ranks);
        let us = 0.3 * self.transfer_us;
        let half = |step: &mut Step, name: &'static str, takes: f64| {
            step.collective(group, "AllGather", 16 << 20, us, 0);
            step.compute(name, takes);
            step.collective(group, "ReduceScatter", 16 << 20, us, 0);
        };
        for layer in 0..self.layers {
            if layer == self.layers / 2 {
                step.straggler();
            }
            half(step, "attention", 0.4 * self.forward_us);
            half(step, "mlp", 0.6 * self.forward_us);
        }
        for _ in 0..self.layers {
            half(step, "mlp_backward", 1.2 * self.forward_us);
            half(step, "attention_backward", 0.8 * self.forward_us);
            if let Some(same) = same {
                step.collective(same, "AllReduce", 48 << 20, self.transfer_us, 1);
            }
        }
        if same.is_some() {
            step.wait(0, 1);
        }
    }

    fn pipeline(&self, step: &mut Step) {
        step.straggler();
        let (group, same) = self.own(step.rank, step.ranks);
        let (stage, stages) = (step.rank % self.group, self.group);
        let us = (0.2 * self.transfer_us).max(10.0);
        let before = (stage > 0).then(|| step.rank - 1);
        let after = (stage + 1 < stages).then_some(step.rank + 1);
        let receive = |step: &mut Step, from: Option<usize>, stream: usize| {
            if let Some(from) = from {
                step.pass(group, &[Way::From(from)], 8 << 20, us, stream);
                step.wait(0, stream);
            }
        };
        let forward = |step: &mut Step| {
            receive(step, before, 1);
            (0..self.layers).for_each(|_| self.forward(step));
            if let Some(after) = after {
                step.pass(group, &[Way::To(after)], 8 << 20, us, 2);
            }
        };
        let backward = |step: &mut Step| {
            receive(step, after, 3);
            (0..self.layers).for_each(|_| self.backward(step));
            if let Some(before) = before {
                step.pass(group, &[Way::To(before)], 8 << 20, us, 4);
            }
        };
        let ahead = (stages - 1 - stage).min(self.pieces);
        (0..ahead).for_each(|_| forward(step));
        for _ in ahead..self.pieces {
            forward(step);
            backward(step);
        }
        (0..ahead).for_each(|_| backward(step));
        if let Some(same) = same {
            step.collective(
                same,
                "AllReduce",
                64 << 20,
                self.transfer_us * self.layers as f64,
                5,
            );
            step.wait(0, 5);
        }
    }

    fn ring(&self, step: &mut Step) {
        let ranks = step.ranks;
        let (next, previous) = ((step.rank + 1) % ranks, (step.rank + ranks - 1) % ranks);
        // A ring of many ranks has shorter pieces.
        let hops = ranks.min(6);
        let us = self.transfer_us / hops as f64;
        let round = |step: &mut Step, name: &'static str, takes: f64| {
            for hop in 0..hops {
                let passes = hop + 1 < hops;
                if passes {
                    let ways = [
                        Way::To(next),
                        Way::To(next),
                        Way::From(previous),
                        Way::From(previous),
                    ];
                    step.pass(0, &ways, 8 << 20, us, 1);
                }
                step.compute(name, takes / hops as f64);
                if passes {
                    step.wait(0, 1);
                }
            }
        };
        for layer in 0..self.layers {
            if layer == self.layers / 2 {
                step.straggler();
            }
            round(step, "attend", 0.5 * self.forward_us);
            step.compute("mlp", 0.5 * self.forward_us);
        }
        for _ in 0..self.layers {
            step.compute("mlp_backward", self.forward_us);
            round(step, "attend_backward", self.forward_us);
        }
        step.collective(
            0,
            "AllReduce",
            64 << 20,
            self.transfer_us * self.layers as f64,
            2,
        );
        step.wait(0, 2);
    }

    fn experts(&self, step: &mut Step) {
        step.straggler();
        let all: Vec<Way> = (0..step.ranks)
            .flat_map(|rank| [Way::To(rank), Way::From(rank)])
            .collect();
        let us = 0.3 * self.transfer_us;
        for _ in 0..self.layers {
            step.compute("attention", 0.5 * self.forward_us);
            step.pass(0, &all, 4 << 20, us, 0);
            // A router sends more to some ranks than to others.
            let share = 1.0 + 0.1 * step.random.normal();
            step.compute("expert", 0.5 * self.forward_us * share.max(0.3));
            step.pass(0, &all, 4 << 20, us, 0);
        }
        for _ in 0..self.layers {
            step.pass(0, &all, 4 << 20, us, 0);
            step.compute("expert_backward", self.forward_us);
            step.pass(0, &all, 4 << 20, us, 0);
            step.compute("attention_backward", self.forward_us);
        }
        self.reduce(step, self.layers, 0);
        step.wait(0, 1);
    }

    /// A token: all layers are one launch of a graph. Then it is sampled, which the host waits for.
    fn decode(&self, step: &mut Step) {
        step.straggler();
        step.graph(|step| {
            for _ in 0..self.layers {
                step.compute("attention", 0.5 * self.forward_us);
                step.collective(0, "AllReduce", 64 << 10, 0.3 * self.transfer_us, 0);
                step.compute("mlp", 0.5 * self.forward_us);
                step.collective(0, "AllReduce", 64 << 10, 0.3 * self.transfer_us, 0);
            }
        });
        step.compute("sample", 0.2 * self.forward_us);
        // What was sampled on one rank is told to all.
        step.collective(0, "Broadcast", 4 << 10, 8.0, 0);
    }
}
