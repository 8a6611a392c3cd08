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
    /// Gradients are scattered in buckets beside the backward pass, and the parameters gathered behind it.
    Zero2,
    /// Tensor and sequence parallel: AllGather and ReduceScatter on the computing stream or beside it, within
    /// data parallel groups if there are more ranks.
    Tensor,
    /// Pipeline, one forward and one backward pass in turns.
    Pipeline,
    /// The same with two chunks of the model on each rank.
    Interleaved,
    /// Pipelines of two stages, each of them a pair of ranks with half of a tensor each, and data parallel.
    Mixed,
    /// Keys and values go round a ring of grouped sends.
    Ring,
    /// Experts: tokens go to all ranks and back.
    Experts,
    /// Tensor-parallel inference: a CUDA graph for each token.
    Decode,
}

/// All of them.
pub const KINDS: [Kind; 11] = [
    Kind::Ddp,
    Kind::Fsdp,
    Kind::Zero1,
    Kind::Zero2,
    Kind::Tensor,
    Kind::Pipeline,
    Kind::Interleaved,
    Kind::Mixed,
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
            Kind::Zero2 => "zero2",
            Kind::Tensor => "tensor",
            Kind::Pipeline => "pipeline",
            Kind::Interleaved => "interleaved",
            Kind::Mixed => "mixed",
            Kind::Ring => "ring",
            Kind::Experts => "experts",
            Kind::Decode => "decode",
        }
    }

    /// Numbers of ranks that jobs of this kind have, some more often than others.
    pub fn ranks(self) -> &'static [usize] {
        match self {
            Kind::Experts | Kind::Decode => &[2, 2, 3, 4, 4, 8],
            Kind::Ring => &[2, 2, 3, 4, 4, 8, 16],
            // With two stages, passes of both chunks go between the same two ranks.
            Kind::Interleaved => &[3, 4, 4, 4, 6, 8, 8, 16, 32],
            Kind::Mixed => &[4, 8, 8, 16, 32, 64],
            _ => &[2, 2, 2, 3, 4, 4, 4, 6, 8, 8, 16, 32, 64],
        }
    }

    /// Whether ranks have different stages of a model.
    pub fn has_stages(self) -> bool {
        matches!(self, Kind::Pipeline | Kind::Interleaved | Kind::Mixed)
    }
}

/// Chunks of the model on each rank of an interleaved pipeline.
const CHUNKS: usize = 2;
/// Ranks that have a tensor in [`Kind::Mixed`], and stages of its pipelines.
const PAIR: usize = 2;
const STAGES: usize = 2;

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
    /// Ranks of a tensor-parallel group or of a pipeline, or of both in [`Kind::Mixed`].
    pub group: usize,
    /// A layer's forward pass takes so long, µs; its backward pass twice that.
    pub forward_us: f64,
    /// A transfer of one layer takes so long, µs.
    pub transfer_us: f64,
    /// What the host does before a step, µs.
    pub host_us: f64,
    /// Whether the host waits for the GPU at the end of each step.
    pub syncs: bool,
    /// Calls of tensor parallel groups are on a stream of their own, and the computing stream waits for each.
    pub beside: bool,
    /// An evaluation comes before every so many-th step; 0 for none.
    pub evaluates: usize,
}

impl Shape {
    /// A shape of this kind for so many ranks.
    pub fn draw(kind: Kind, ranks: usize, random: &mut Random) -> Shape {
        let group = match kind {
            Kind::Mixed => PAIR * STAGES,
            Kind::Tensor | Kind::Pipeline | Kind::Interleaved => {
                let fits = |g: &usize| {
                    ranks.is_multiple_of(*g)
                        && (*g <= MOST_TENSOR || *g == ranks)
                        && (*g > 2 || kind != Kind::Interleaved)
                };
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
            layers: 2 + random.below(if kind.has_stages() { 3 } else { 9 }),
            pieces: match kind {
                Kind::Pipeline => 2 * group + random.below(6),
                Kind::Interleaved => group * (1 + random.below(3)),
                Kind::Mixed => 2 * STAGES + random.below(6),
                Kind::Ddp => random.one(&[1, 1, 1, 2, 4]),
                _ => 1,
            },
            bucket: 1 + random.below(4),
            group,
            forward_us,
            transfer_us: forward_us * random.between(0.05, 1.0),
            host_us: random.between(50.0, 5000.0),
            syncs: random.chance(0.4) || kind == Kind::Decode,
            beside: random.chance(0.4),
            evaluates: if random.chance(0.15) && kind != Kind::Decode {
                10 + random.below(30)
            } else {
                0
            },
        }
    }

    /// Ranks with the same number have the same place in a pipeline or a tensor-parallel group.
    pub fn place(&self, rank: usize) -> usize {
        match self.kind {
            Kind::Mixed => rank / PAIR % STAGES,
            _ => rank % self.group,
        }
    }

    /// Members of the communicators: all ranks first, then the groups, then those of equal place in them. A
    /// group of [`Kind::Mixed`] is two pairs, and two pipelines.
    pub fn comms(&self, ranks: usize) -> Vec<Vec<usize>> {
        let mut comms = vec![(0..ranks).collect::<Vec<_>>()];
        if self.kind == Kind::Mixed {
            comms.extend((0..ranks).step_by(PAIR).map(|at| vec![at, at + 1]));
            let first = (0..ranks).filter(|rank| self.place(*rank) == 0);
            comms.extend(first.map(|at| vec![at, at + PAIR]));
            if ranks > self.group {
                comms.extend((0..self.group).map(|at| (at..ranks).step_by(self.group).collect()));
            }
            return comms;
        }
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
        if self.evaluates > 0 && step.number % self.evaluates == self.evaluates - 1 {
            self.evaluation(step);
        }
        match self.kind {
            Kind::Ddp => self.ddp(step),
            Kind::Fsdp => self.fsdp(step),
            Kind::Zero1 => self.zero1(step),
            Kind::Zero2 => self.zero2(step),
            Kind::Tensor => self.tensor(step),
            Kind::Pipeline => self.pipeline(step),
            Kind::Interleaved => self.interleaved(step),
            Kind::Mixed => self.mixed(step),
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

    /// Forward passes, and what came out is added up.
    fn evaluation(&self, step: &mut Step) {
        (0..4 * self.layers).for_each(|_| self.forward(step));
        step.collective(0, "AllReduce", 8, 20.0, 0);
        step.sync(0);
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

    fn zero2(&self, step: &mut Step) {
        (0..self.layers).for_each(|_| self.forward(step));
        step.straggler();
        let mut buckets = Vec::new();
        for layer in 0..self.layers {
            self.backward(step);
            if (layer + 1) % self.bucket == 0 || layer + 1 == self.layers {
                let layers = layer % self.bucket + 1;
                let bytes = ((16 << 20) * layers) as u64;
                buckets.push((bytes, self.transfer_us * layers as f64));
                let (bytes, us) = buckets[buckets.len() - 1];
                step.collective(0, "ReduceScatter", bytes, 0.5 * us, 1);
            }
        }
        step.wait(0, 1);
        step.compute("update", 0.3 * self.forward_us);
        for (bytes, us) in buckets {
            step.collective(0, "AllGather", bytes, 0.5 * us, 1);
        }
        step.wait(0, 1);
    }

    /// A call of a tensor-parallel group, on the computing stream or beside it.
    fn within_group(
        &self,
        step: &mut Step,
        comm: usize,
        function: &'static str,
        bytes: u64,
        us: f64,
    ) {
        let stream = if self.beside { 6 } else { 0 };
        step.collective(comm, function, bytes, us, stream);
        if self.beside {
            step.wait(0, stream);
        }
    }

    fn tensor(&self, step: &mut Step) {
        let (group, same) = self.own(step.rank, step.ranks);
        let us = 0.3 * self.transfer_us;
        let half = |step: &mut Step, name: &'static str, takes: f64| {
            self.within_group(step, group, "AllGather", 16 << 20, us);
            step.compute(name, takes);
            self.within_group(step, group, "ReduceScatter", 16 << 20, us);
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
        self.reduce_same(step, same);
    }

    /// Interleaved 1F1B: the first forward passes of both chunks, then a forward and a backward pass in
    /// turns, then the last backward passes. Micro-batches go through a chunk by as many as there are stages.
    fn interleaved(&self, step: &mut Step) {
        step.straggler();
        let (comm, same) = self.own(step.rank, step.ranks);
        let (stage, stages) = (step.rank % self.group, self.group);
        let us = (0.2 * self.transfer_us).max(10.0);
        let first = step.rank - stage;
        let next = first + (stage + 1) % stages;
        let previous = first + (stage + stages - 1) % stages;
        let all = CHUNKS * self.pieces;
        let chunk = |pass: usize| pass / stages % CHUNKS;
        let forward = |step: &mut Step, pass: usize| {
            let chunk = chunk(pass);
            if stage > 0 || chunk > 0 {
                step.pass(comm, &[Way::From(previous)], 8 << 20, us, 1);
                step.wait(0, 1);
            }
            (0..self.layers).for_each(|_| self.forward(step));
            if stage + 1 < stages || chunk + 1 < CHUNKS {
                step.pass(comm, &[Way::To(next)], 8 << 20, us, 2);
            }
        };
        let backward = |step: &mut Step, pass: usize| {
            let chunk = CHUNKS - 1 - chunk(pass);
            if stage + 1 < stages || chunk + 1 < CHUNKS {
                step.pass(comm, &[Way::From(next)], 8 << 20, us, 3);
                step.wait(0, 3);
            }
            (0..self.layers).for_each(|_| self.backward(step));
            if stage > 0 || chunk > 0 {
                step.pass(comm, &[Way::To(previous)], 8 << 20, us, 4);
            }
        };
        let ahead = (2 * (stages - stage - 1) + (CHUNKS - 1) * stages).min(all);
        (0..ahead).for_each(|pass| forward(step, pass));
        for pass in ahead..all {
            forward(step, pass);
            backward(step, pass - ahead);
        }
        (all - ahead..all).for_each(|pass| backward(step, pass));
        self.reduce_same(step, same);
    }

    /// The gradients of a stage are reduced over those of all pipelines.
    fn reduce_same(&self, step: &mut Step, same: Option<usize>) {
        if let Some(same) = same {
            let us = self.transfer_us * self.layers as f64;
            step.collective(same, "AllReduce", 64 << 20, us, 5);
            step.wait(0, 5);
        }
    }

    fn mixed(&self, step: &mut Step) {
        step.straggler();
        let (rank, ranks) = (step.rank, step.ranks);
        let stage = self.place(rank);
        let pair = 1 + rank / PAIR;
        let pipelines = 1 + ranks / PAIR;
        let pipeline = pipelines + rank / self.group * PAIR + rank % PAIR;
        let same = (ranks > self.group).then(|| pipelines + ranks / STAGES + rank % self.group);
        let peer = if stage == 0 { rank + PAIR } else { rank - PAIR };
        let (us, passes) = (0.3 * self.transfer_us, (0.2 * self.transfer_us).max(10.0));
        let pass = |step: &mut Step, receives: bool, stream: usize| {
            let way = if receives {
                Way::From(peer)
            } else {
                Way::To(peer)
            };
            step.pass(pipeline, &[way], 4 << 20, passes, stream);
            if receives {
                step.wait(0, stream);
            }
        };
        // All layers of a piece, from one stage to the other.
        let through = |step: &mut Step, from: usize, layer: fn(&Shape, &mut Step)| {
            let stream = 1 + 2 * from;
            if stage != from {
                pass(step, true, stream);
            }
            for _ in 0..self.layers {
                layer(self, step);
                self.within_group(step, pair, "AllReduce", 4 << 20, us);
            }
            if stage == from {
                pass(step, false, stream + 1);
            }
        };
        let forward = |step: &mut Step| through(step, 0, Shape::forward);
        let backward = |step: &mut Step| through(step, 1, Shape::backward);
        let ahead = STAGES - 1 - stage;
        (0..ahead).for_each(|_| forward(step));
        for _ in ahead..self.pieces {
            forward(step);
            backward(step);
        }
        (0..ahead).for_each(|_| backward(step));
        self.reduce_same(step, same);
    }

    fn ring(&self, step: &mut Step) {
        let ranks = step.ranks;
        let (next, previous) = ((step.rank + 1) % ranks, (step.rank + ranks - 1) % ranks);
        let hops = ranks;
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
