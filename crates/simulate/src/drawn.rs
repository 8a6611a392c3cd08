//! A job from a seed: its shape, what is wrong with it, and what was recorded of it.
//!
//! [`Drawn::new`] draws everything but the size of the fault, which is relative to the length of a step.
//! [`Drawn::play`] plays the job without the fault, then with it, and says what each cause costs: the same
//! job with all other causes.

use crate::cause::{Cause, Does, When, Why};
use crate::evidence::{Evidence, Ranks};
use crate::play::{play_with, Played};
use crate::random::Random;
use crate::shape::{Shape, KINDS};
use crate::step::{Fault, Job, Step, Tails};
use std::fmt;

/// Kernels and calls of a job, roughly: those of many ranks have fewer steps.
const MOST_NODES: usize = 60_000;
const FEWEST_STEPS: usize = 40;
const MOST_STEPS: usize = 300;
/// What a launch takes the host beside its own work, µs.
const LAUNCH_US: f64 = 6.0;

/// What a job has been drawn to be.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// From this seed.
    pub seed: u64,
    /// What its ranks do.
    pub shape: Shape,
    /// How many ranks.
    pub ranks: usize,
    /// On so many hosts.
    pub hosts: usize,
    /// How many steps.
    pub steps: usize,
    /// How much a kernel or launch differs, as a part of it.
    pub noise: f64,
    /// How much a step differs.
    pub of_steps: f64,
    /// What takes much longer now and then.
    pub tails: Tails,
    /// The host's work before each launch, µs.
    pub per_launch: f64,
    /// How many times as long a transfer between hosts takes.
    pub across: f64,
    /// How many times as long a kernel takes beside one of NCCL's.
    pub beside: f64,
    /// How many causes.
    pub causes: usize,
    /// What is recorded.
    pub evidence: Evidence,
    random: Random,
}

/// One cause and what it costs.
#[derive(Clone, Debug)]
pub struct Culprit {
    /// The cause.
    pub cause: Cause,
    /// Whom a report may name.
    pub ranks: Vec<usize>,
    /// What it is to say of them.
    pub why: Why,
    /// How much longer the job takes with it than without it, s.
    pub loss: f64,
}

/// A job that was played, and the truth about it.
pub struct Outcome {
    /// With all that is wrong.
    pub played: Played,
    /// How long it takes without, s.
    pub plain: f64,
    /// What is wrong, the costliest first.
    pub culprits: Vec<Culprit>,
}

impl Drawn {
    /// The job of this seed.
    pub fn new(seed: u64) -> Drawn {
        let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0xc0ff_ee00);
        let kind = random.one(&KINDS);
        let ranks = random.one(kind.ranks());
        let fit = |hosts: &usize| *hosts == 1 || ranks >= 2 * hosts && ranks.is_multiple_of(*hosts);
        let hosts: Vec<usize> = [1, 1, 2, 4, 8].into_iter().filter(fit).collect();
        let hosts = random.one(&hosts);
        let shape = Shape::draw(kind, ranks, &mut random);
        let tails = match random.below(3) {
            0 => Tails::default(),
            _ => Tails {
                host: random.between(1e-4, 3e-3),
                gpu: random.between(1e-5, 3e-4),
                least_us: random.between(100.0, 1000.0),
                most: 30.0,
            },
        };
        let events = random.chance(0.92);
        let level = random.one(&[0, 0, 1, 2, 3, 4, 5]);
        let levels = (0..ranks).map(|_| level + u32::from(random.chance(0.2)));
        let levels: Vec<u32> = levels.map(|level| level.min(5)).collect();
        let one = random.below(ranks);
        let evidence = Evidence {
            windows: random.one(&[
                Ranks::All,
                Ranks::All,
                Ranks::None,
                Ranks::None,
                Ranks::Only(one),
                Ranks::But(one),
            ]),
            events,
            levels,
            stream_waits: events && random.chance(0.75),
            sends_as_announced: random.chance(0.7),
            absent: random.chance(0.06).then_some(one),
            late: random
                .chance(0.06)
                .then(|| (random.below(ranks), random.between(0.05, 0.6))),
            clocks: if random.chance(0.5) {
                (0..hosts).map(|_| clock(&mut random)).collect()
            } else {
                Vec::new()
            },
        };
        let mut drawn = Drawn {
            seed,
            shape,
            ranks,
            hosts,
            steps: MOST_STEPS,
            noise: random.between(0.02, 0.15),
            of_steps: random.between(0.005, 0.06),
            tails,
            per_launch: 0.0,
            across: random.between(1.5, 4.0),
            beside: 1.0 + random.one(&[0.0, 1.0]) * random.between(0.05, 0.5),
            causes: random.one(&[0, 1, 1, 1, 1, 1, 2]),
            evidence,
            random,
        };
        let (nodes, step_us) = drawn.of_a_step();
        drawn.steps = (MOST_NODES / nodes.max(1)).clamp(FEWEST_STEPS, MOST_STEPS);
        // Hosts that are nearly as slow as their GPUs, or slower, are the next limit.
        let launches = nodes as f64 / ranks as f64;
        let of_host = drawn.random.between(0.05, 1.2);
        drawn.per_launch = (of_host * step_us / launches - LAUNCH_US).max(1.0);
        drawn
    }

    fn script(&self) -> impl Fn(&mut Step) + '_ {
        |step| self.shape.step(step)
    }

    fn job<'s>(&self, script: &'s dyn Fn(&mut Step), steps: usize) -> Job<'s> {
        Job {
            hosts: self.hosts,
            noise: self.noise,
            of_steps: self.of_steps,
            tails: self.tails,
            per_launch: self.per_launch,
            across: self.across,
            beside: self.beside,
            waits_for_each: true,
            ..Job::new(self.shape.comms(self.ranks), steps, script)
        }
    }

    /// Kernels and calls of all ranks in a step, and how long it takes if hosts take no time, µs.
    fn of_a_step(&self) -> (usize, f64) {
        let script = self.script();
        let play = |steps| {
            let played = play_with(&self.job(&script, steps), self.seed, Fault::default());
            let nodes = played.ranks.iter().map(|rank| rank.nodes.len());
            (nodes.sum::<usize>(), played.seconds)
        };
        let (one, three) = (play(1), play(3));
        ((three.0 - one.0) / 2, 1e6 * (three.1 - one.1) / 2.0)
    }

    /// Plays it with these causes in place of its own.
    pub fn play_by(&self, causes: &[Cause]) -> Played {
        let script = self.script();
        let job = self.job(&script, self.steps);
        let within = |step: &mut Step| causes.iter().for_each(|cause| cause.within(step));
        let before = |step: &mut Step| {
            causes
                .iter()
                .for_each(|cause| cause.before(&self.shape, step))
        };
        let link = |ranks: &[usize], step: usize| -> f64 {
            let times = causes
                .iter()
                .map(|cause| cause.link(ranks, step, self.steps));
            times.product()
        };
        let fault = Fault {
            within: Some(&within),
            before: Some(&before),
            link: Some(&link),
            ..Fault::default()
        };
        play_with(&job, self.seed, fault)
    }

    /// Plays it.
    pub fn play(&self) -> Outcome {
        let plain = self.play_by(&[]).seconds;
        let mut random = self.random.clone();
        let step_us = 1e6 * plain / self.steps as f64;
        let mut causes: Vec<Cause> = Vec::new();
        while causes.len() < self.causes {
            let next = Cause::draw(&self.shape, self.ranks, step_us, &mut random);
            // The same of another rank is late in turns, or less than one of them.
            if causes
                .iter()
                .all(|other| other.name() != next.name() && other.rank != next.rank)
            {
                causes.push(next);
            }
        }
        let played = self.play_by(&causes);
        let comms = self.shape.comms(self.ranks);
        let culprit = |(at, cause): (usize, &Cause)| {
            let mut others = causes.clone();
            others.remove(at);
            let without = if others.is_empty() {
                plain
            } else {
                self.play_by(&others).seconds
            };
            Culprit {
                cause: *cause,
                ranks: cause.who(&self.shape, &comms),
                why: cause.why(),
                loss: played.seconds - without,
            }
        };
        let mut culprits: Vec<Culprit> = causes.iter().enumerate().map(culprit).collect();
        culprits.sort_by(|a, b| b.loss.total_cmp(&a.loss));
        Outcome {
            played,
            plain,
            culprits,
        }
    }
}

/// A clock that is up to 50 ms ahead or behind, and gains or loses up to 20 us in a second.
fn clock(random: &mut Random) -> (i64, i64) {
    let mut within = |most: f64| (most * (2.0 * random.uniform() - 1.0)) as i64;
    (within(5e7), within(2e4))
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let shape = &self.shape;
        write!(
            f,
            "{} of {} ranks on {} hosts, {} steps, {} layers, groups of {}, {} pieces{}{}{}",
            shape.kind.name(),
            self.ranks,
            self.hosts,
            self.steps,
            shape.layers,
            shape.group,
            shape.pieces,
            if shape.syncs { ", hosts wait" } else { "" },
            if shape.beside { ", beside" } else { "" },
            match shape.evaluates {
                0 => String::new(),
                steps => format!(", an evaluation every {steps} steps"),
            },
        )
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.does {
            Does::InTurns(us) => write!(f, "ranks in turns have {us:.0} us more to do")?,
            Does::Sleeps(us) => write!(f, "host of rank {} works {us:.0} us longer", self.rank)?,
            Does::Extra(us) => write!(f, "GPU of rank {} has {us:.0} us more to do", self.rank)?,
            Does::Clock(times) => write!(
                f,
                "GPU of rank {} takes {times:.2} times as long",
                self.rank
            )?,
            Does::Stage(times) => write!(
                f,
                "stage of rank {} takes {times:.2} times as long",
                self.rank
            )?,
            Does::Link(times) => write!(
                f,
                "link of rank {} takes {times:.2} times as long",
                self.rank
            )?,
            Does::Stalls(every, us) => {
                write!(
                    f,
                    "host of rank {} stands still {us:.0} us every {every} steps",
                    self.rank
                )?;
            }
        }
        match self.when {
            When::Always => Ok(()),
            When::NowAndThen(of) => write!(f, " in one of {of} steps"),
            When::Part(from, to) => write!(f, " from {from:.2} to {to:.2} of the run"),
        }
    }
}
