//! What is wrong with a random job, and who is to be blamed for it.

use crate::random::Random;
use crate::shape::{Kind, Shape};
use crate::step::Step;

/// What costs time, as a report names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// A host that launches late.
    Host,
    /// A GPU that takes longer.
    Gpu,
    /// A link of the network.
    Link,
    /// Ranks are late in turns.
    InTurns,
}

/// What a rank does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Does {
    /// Its host works so much longer in a step, µs.
    Sleeps(f64),
    /// Its GPU has so much more to do in a step, µs.
    Extra(f64),
    /// The same kernels take so many times as long.
    Clock(f64),
    /// The same for all ranks with its place in a pipeline or a tensor-parallel group.
    Stage(f64),
    /// In each step another rank's GPU has so much more to do, µs.
    InTurns(f64),
    /// Transfers over its link take so many times as long.
    Link(f64),
    /// Its host stands still every so many steps, for so long, µs.
    Stalls(usize, f64),
}

/// When it does it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// In all steps.
    Always,
    /// In one of so many steps, wherever.
    NowAndThen(usize),
    /// From this part of the run to that.
    Part(f64, f64),
}

/// One cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cause {
    /// Whose.
    pub rank: usize,
    /// What it does.
    pub does: Does,
    /// When.
    pub when: When,
}

/// Steps of a job apart, so that a draw for one says nothing of the next.
fn mixed(number: usize) -> usize {
    let mut random = Random(number as u64 ^ 0x5eed);
    (random.uniform() * 1e9) as usize
}

impl Cause {
    /// A cause for a job of this shape, with steps of this length without it, µs.
    pub fn draw(shape: &Shape, ranks: usize, step_us: f64, random: &mut Random) -> Cause {
        let part = random.between(0.08, 0.9);
        let us = part * step_us;
        let grouped = shape.group < ranks || shape.kind.has_stages();
        // A host that is ahead of its GPU can sleep for a step and cost nothing.
        let ahead = if shape.syncs {
            0.0
        } else {
            random.one(&[0.0, 1.0]) * step_us
        };
        let does = match random.below(9) {
            0 | 1 => Does::Sleeps(us + ahead),
            2 | 3 => Does::Extra(us),
            4 => Does::Clock(1.0 + part),
            5 if grouped => Does::Stage(1.0 + part),
            5 => Does::Extra(us),
            6 => Does::InTurns(us),
            7 => Does::Link(1.0 + random.between(1.0, 8.0)),
            _ => Does::Stalls(10 + random.below(20), random.between(2.0, 10.0) * step_us),
        };
        let when = match (does, random.below(8)) {
            (Does::Stalls(..) | Does::InTurns(_), _) => When::Always,
            // A link that is slow in all operations of all is a slow network.
            (Does::Link(_), _) if !grouped && shape.kind != Kind::Ring => part_of_the_run(random),
            (_, 0) => When::NowAndThen(3 + random.below(5)),
            (_, 1) => part_of_the_run(random),
            _ => When::Always,
        };
        let rank = random.below(ranks);
        Cause { rank, does, when }
    }

    fn is_on(&self, step: usize, steps: usize) -> bool {
        match self.when {
            When::Always => true,
            When::NowAndThen(of) => mixed(step).is_multiple_of(of),
            When::Part(from, to) => (from..to).contains(&(step as f64 / steps.max(1) as f64)),
        }
    }

    /// What is different about a step of a rank.
    pub fn before(&self, shape: &Shape, step: &mut Step) {
        if !self.is_on(step.number, step.steps) {
            return;
        }
        match self.does {
            Does::Clock(times) if step.rank == self.rank => step.slow_gpu *= times,
            Does::Stage(times) if shape.place(step.rank) == shape.place(self.rank) => {
                step.slow_gpu *= times;
            }
            _ => {}
        }
    }

    /// What it does in a step.
    pub fn within(&self, step: &mut Step) {
        if !self.is_on(step.number, step.steps) {
            return;
        }
        let own = step.rank == self.rank;
        match self.does {
            Does::Sleeps(us) if own => step.sleeps(us),
            Does::Extra(us) if own => step.extra(us),
            Does::InTurns(us) if step.rank == mixed(step.number) % step.ranks => step.extra(us),
            Does::Stalls(every, us) if own && step.number % every == every / 2 => step.sleeps(us),
            _ => {}
        }
    }

    /// How many times as long a transfer between these ranks takes.
    pub fn link(&self, ranks: &[usize], step: usize, steps: usize) -> f64 {
        match self.does {
            Does::Link(times) if ranks.contains(&self.rank) && self.is_on(step, steps) => times,
            _ => 1.0,
        }
    }

    /// What a report is to name.
    pub fn why(&self) -> Why {
        match self.does {
            Does::Sleeps(_) | Does::Stalls(..) => Why::Host,
            Does::Extra(_) | Does::Clock(_) | Does::Stage(_) => Why::Gpu,
            Does::InTurns(_) => Why::InTurns,
            Does::Link(_) => Why::Link,
        }
    }

    /// Whom it may name.
    pub fn who(&self, shape: &Shape, comms: &[Vec<usize>]) -> Vec<usize> {
        let all = comms.first().map_or(0, Vec::len);
        match self.does {
            Does::InTurns(_) => Vec::new(),
            Does::Stage(_) => {
                let same = |rank: &usize| shape.place(*rank) == shape.place(self.rank);
                (0..all).filter(same).collect()
            }
            // Whose end of it is slow can't be told.
            Does::Link(_) => {
                let own = comms.iter().filter(|members| members.contains(&self.rank));
                own.flatten().copied().collect()
            }
            _ => vec![self.rank],
        }
    }

    /// The row that it has in the matrix.
    pub fn name(&self) -> &'static str {
        match (self.does, self.when) {
            (Does::Sleeps(_), When::Always) => "late host",
            (Does::Sleeps(_), _) => "late host, at times",
            (Does::Extra(_), When::Always) => "late GPU",
            (Does::Extra(_), _) => "late GPU, at times",
            (Does::Clock(_), _) => "slow clock",
            (Does::Stage(_), _) => "long stage",
            (Does::InTurns(_), _) => "late in turns",
            (Does::Link(_), _) => "slow link",
            (Does::Stalls(..), _) => "stalls",
        }
    }
}

fn part_of_the_run(random: &mut Random) -> When {
    let from = random.uniform() * 0.6;
    When::Part(from, from + 0.2 + 0.2 * random.uniform())
}
