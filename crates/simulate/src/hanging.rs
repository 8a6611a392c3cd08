//! Jobs that hang, and healthy jobs that pause, from a seed.
//!
//! A [`Trial`] is a job with a [`Story`]: one of twenty ways to hang, or a pause of up to ten minutes after
//! which the job goes on. [`Trial::play`] plays it in virtual time, and [`Stage::as_of`] is what a watcher on
//! the first host sees of it at a moment.
//!
//! Truth: the ranks that the story is about ([`Stage::culprits`]), and when the last of all ranks came to a
//! stand ([`Stage::stands_ns`]).

use crate::as_of::{AsOf, Fate, What};
use crate::evidence::Evidence;
use crate::files;
use crate::play::{play_open, Played, SINCE_1970, STREAMS};
use crate::random::Random;
use crate::shape::{Kind, Shape};
use crate::step::{Do, Fault, Job, Step, Way};
use std::fmt;
use std::io;
use std::path::Path;
use tables::Capture;

const SECOND: i64 = 1_000_000_000;
/// Streams of the calls that a story adds.
const EXTRA: [usize; 2] = [6, 7];
/// A launcher sees that a rank has died and ends the others within this time, s.
const LAUNCHER_S: f64 = 6.0;

/// A way to hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hang {
    /// A rank's program loops.
    Loops,
    /// A signal stops a rank.
    Stopped,
    /// A rank is killed.
    Dead,
    /// A rank's program ends with an error.
    Left,
    /// A kernel before a call never ends.
    Kernel,
    /// A rank leaves a call out.
    Skipped,
    /// A rank makes a call with another size.
    Size,
    /// A rank makes another call.
    Function,
    /// A rank makes a call with another datatype.
    Datatype,
    /// A rank makes two calls in the wrong order.
    Swapped,
    /// A rank makes calls on two communicators in the wrong order, and waits for each.
    Crossed,
    /// Two ranks receive from each other before they send.
    Receives,
    /// A rank leaves out a send.
    NoSend,
    /// A rank does not launch a graph.
    Graph,
    /// A rank never closes a group.
    Group,
    /// A rank waits in MPI.
    Mpi,
    /// A rank destroys a communicator too early.
    Destroyed,
    /// A transfer over the network never ends.
    Network,
    /// All ranks of the other host go silent.
    Silent,
    /// A rank leaves out a call on a communicator of some ranks.
    Part,
}

/// All of them.
pub const HANGS: [Hang; 20] = [
    Hang::Loops,
    Hang::Stopped,
    Hang::Dead,
    Hang::Left,
    Hang::Kernel,
    Hang::Skipped,
    Hang::Size,
    Hang::Function,
    Hang::Datatype,
    Hang::Swapped,
    Hang::Crossed,
    Hang::Receives,
    Hang::NoSend,
    Hang::Graph,
    Hang::Group,
    Hang::Mpi,
    Hang::Destroyed,
    Hang::Network,
    Hang::Silent,
    Hang::Part,
];

/// Why a healthy job stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pause {
    /// It does not.
    None,
    /// One rank's host does something else: a checkpoint, or data that is late.
    One,
    /// All hosts do.
    All,
    /// Some ranks evaluate, with calls on a communicator of their own.
    Evaluation,
    /// All ranks compile, each for another time.
    Compilation,
    /// A rank comes late to the first call.
    StartUp,
    /// A rank dies, and the launcher starts all again.
    Restart,
    /// A long kernel before a call on one rank.
    Kernel,
}

/// All of them.
pub const PAUSES: [Pause; 8] = [
    Pause::None,
    Pause::One,
    Pause::All,
    Pause::Evaluation,
    Pause::Compilation,
    Pause::StartUp,
    Pause::Restart,
    Pause::Kernel,
];

/// What happens to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Story {
    /// It hangs.
    Hangs(Hang),
    /// It pauses, and goes on.
    Pauses(Pause),
}

impl Story {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Story::Hangs(hang) => match hang {
                Hang::Loops => "program loops",
                Hang::Stopped => "rank stopped",
                Hang::Dead => "rank killed",
                Hang::Left => "rank ended with an error",
                Hang::Kernel => "kernel never ends",
                Hang::Skipped => "call left out",
                Hang::Size => "other size",
                Hang::Function => "other function",
                Hang::Datatype => "other datatype",
                Hang::Swapped => "two calls swapped",
                Hang::Crossed => "two communicators crossed",
                Hang::Receives => "two receives",
                Hang::NoSend => "send left out",
                Hang::Graph => "graph not launched",
                Hang::Group => "group not closed",
                Hang::Mpi => "inside of MPI",
                Hang::Destroyed => "communicator destroyed",
                Hang::Network => "transfer never ends",
                Hang::Silent => "host silent",
                Hang::Part => "call of some ranks left out",
            },
            Story::Pauses(pause) => match pause {
                Pause::None => "no pause",
                Pause::One => "one host pauses",
                Pause::All => "all hosts pause",
                Pause::Evaluation => "evaluation on some ranks",
                Pause::Compilation => "compilation",
                Pause::StartUp => "late to the first call",
                Pause::Restart => "restart",
                Pause::Kernel => "long kernel",
            },
        }
    }
}

/// A job from a seed.
#[derive(Clone, Debug)]
pub struct Trial {
    /// From this seed.
    pub seed: u64,
    /// What happens.
    pub story: Story,
    /// What its ranks do.
    pub shape: Shape,
    /// How many ranks.
    pub ranks: usize,
    /// On so many hosts.
    pub hosts: usize,
    /// How many steps.
    pub steps: usize,
    /// The rank that it happens to.
    pub rank: usize,
    /// In this step.
    pub step: usize,
    /// How long a pause lasts, s.
    pub pause_s: f64,
    /// Whether launches have GPU times.
    pub events: bool,
    /// One in `1 << level` launches has.
    pub level: u32,
    random: Random,
}

/// A trial that was played.
pub struct Stage {
    attempts: Vec<Attempt>,
    /// Whom a verdict may name.
    pub culprits: Vec<usize>,
    /// When the last of all ranks came to a stand, ns of virtual time; for a healthy job its end.
    pub stands_ns: i64,
    /// When anything changes, in order, ns of virtual time.
    pub changes: Vec<i64>,
    evidence: Evidence,
}

/// A start of the job.
struct Attempt {
    played: Played,
    from_ns: i64,
    fates: Vec<Option<Fate>>,
}

impl Trial {
    /// The job of this seed that hangs in this way.
    pub fn hangs(seed: u64, hang: Hang) -> Trial {
        Trial::new(seed, Story::Hangs(hang))
    }

    /// The healthy job of this seed.
    pub fn pauses(seed: u64, pause: Pause) -> Trial {
        Trial::new(seed, Story::Pauses(pause))
    }

    fn new(seed: u64, story: Story) -> Trial {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed_5eed);
        let launched = [
            Kind::Ddp,
            Kind::Fsdp,
            Kind::Zero1,
            Kind::Tensor,
            Kind::Ring,
            Kind::Experts,
        ];
        let kind = match story {
            Story::Hangs(Hang::Graph) => Kind::Decode,
            // Their steps have collectives of all ranks.
            Story::Hangs(Hang::Network) => random.one(&[Kind::Ddp, Kind::Fsdp, Kind::Zero1]),
            // Their steps have different collectives on one communicator.
            Story::Hangs(Hang::Swapped) => random.one(&[Kind::Fsdp, Kind::Zero1, Kind::Tensor]),
            Story::Hangs(
                Hang::Skipped
                | Hang::Size
                | Hang::Function
                | Hang::Datatype
                | Hang::Group
                | Hang::Kernel,
            ) => random.one(&launched),
            _ => match random.below(8) {
                0 => Kind::Pipeline,
                1 => Kind::Decode,
                _ => random.one(&launched),
            },
        };
        let two_hosts = matches!(story, Story::Hangs(Hang::Network | Hang::Silent));
        let ranks = match kind {
            Kind::Experts => random.one(&[2, 4, 4, 8]),
            _ if two_hosts => random.one(&[2, 4, 4, 8, 16]),
            _ => random.one(&[2, 2, 3, 4, 4, 6, 8, 8, 16]),
        };
        let may_split = ranks % 2 == 0;
        let hosts = if two_hosts || may_split && random.chance(0.2) {
            2
        } else {
            1
        };
        let shape = Shape::draw(kind, ranks, &mut random);
        let steps = 8 + random.below(7);
        let step = match story {
            Story::Pauses(Pause::StartUp) => 0,
            _ => 4 + random.below(steps - 5),
        };
        Trial {
            seed,
            story,
            shape,
            ranks,
            hosts,
            steps,
            rank: random.below(ranks),
            step,
            pause_s: random.between(5.0, 600.0),
            events: random.chance(0.8),
            level: random.one(&[0, 0, 0, 1, 3, 5]),
            random,
        }
    }

    /// The communicators of the shape, and those that the story adds.
    fn comms(&self) -> Vec<Vec<usize>> {
        let mut comms = self.shape.comms(self.ranks);
        let all: Vec<usize> = (0..self.ranks).collect();
        match self.story {
            Story::Hangs(Hang::Crossed) => comms.extend([all.clone(), all]),
            Story::Hangs(Hang::Receives | Hang::NoSend | Hang::Destroyed) => comms.push(all),
            Story::Hangs(Hang::Part) => {
                // The rank and its neighbours, without one of the others if there are enough.
                let others = all.iter().filter(|rank| **rank != self.rank);
                let half: Vec<usize> = others.copied().take((self.ranks / 2).max(1)).collect();
                let mut part = [half, vec![self.rank]].concat();
                part.sort_unstable();
                comms.push(part);
            }
            Story::Pauses(Pause::Evaluation) => comms.push(self.evaluators()),
            _ => {}
        }
        comms
    }

    /// Ranks that evaluate.
    fn evaluators(&self) -> Vec<usize> {
        let other = (self.rank + 1) % self.ranks;
        let mut ranks = if self.ranks > 2 && self.seed.is_multiple_of(2) {
            vec![self.rank, other]
        } else {
            vec![self.rank]
        };
        ranks.sort_unstable();
        ranks
    }

    /// The rank that sends to the culprit, or receives from it.
    fn peer(&self) -> usize {
        (self.rank + 1) % self.ranks
    }

    /// The calls that the story adds to each step.
    fn extra(&self, step: &mut Step) {
        let first = self.shape.comms(self.ranks).len();
        let call = |step: &mut Step, comm: usize, bytes: u64, stream: usize| {
            step.collective(comm, "AllReduce", bytes, 50.0, stream);
            step.sync(stream);
        };
        let pass = |step: &mut Step, way: Way| {
            step.pass(first, &[way], 1 << 20, 50.0, EXTRA[0]);
            step.sync(EXTRA[0]);
        };
        let is_here = step.number == self.step && step.rank == self.rank;
        match self.story {
            Story::Hangs(Hang::Crossed) => {
                let order = if is_here { [1, 0] } else { [0, 1] };
                for at in order {
                    call(step, first + at, 1 << (20 + at), EXTRA[at]);
                }
            }
            // The two exchange something: one sends first, and the other receives first.
            Story::Hangs(Hang::Receives | Hang::NoSend) => {
                let peer = self.peer();
                if step.rank == self.rank {
                    let (to, from) = (Way::To(peer), Way::From(peer));
                    match (is_here, self.story) {
                        (true, Story::Hangs(Hang::Receives)) => {
                            pass(step, from);
                            pass(step, to);
                        }
                        (true, _) => {}
                        (false, _) => {
                            pass(step, to);
                            pass(step, from);
                        }
                    }
                } else if step.rank == peer {
                    pass(step, Way::From(self.rank));
                    pass(step, Way::To(self.rank));
                }
            }
            Story::Hangs(Hang::Destroyed) if is_here => step.does.push(Do::Ends(first)),
            Story::Hangs(Hang::Destroyed) if step.rank == self.rank && step.number > self.step => {}
            Story::Hangs(Hang::Destroyed) => call(step, first, 1 << 20, EXTRA[0]),
            Story::Hangs(Hang::Part) if is_here => {}
            Story::Hangs(Hang::Part) if self.comms()[first].contains(&step.rank) => {
                call(step, first, 1 << 20, EXTRA[0]);
            }
            Story::Pauses(Pause::Evaluation)
                if step.number == self.step && self.evaluators().contains(&step.rank) =>
            {
                for _ in 0..40 {
                    step.sleeps(1e6 * self.pause_s / 40.0);
                    call(step, first, 1 << 16, EXTRA[0]);
                }
            }
            _ => {}
        }
    }

    /// What is different about the step in which it happens, once the script has written it.
    fn happens(&self, step: &mut Step) {
        let is_here = step.rank == self.rank;
        // The same place on every rank.
        let mut random = self.random.clone();
        let of = random.uniform();
        let calls = places(&step.does, |does| {
            matches!(does, Do::Call { .. } | Do::Graph(_))
        });
        let launched = places(
            &step.does,
            |does| matches!(does, Do::Call { ways, .. } if ways.is_empty()),
        );
        let pick = |of_these: &[usize]| {
            let at = (of * of_these.len() as f64) as usize;
            of_these.get(at).copied()
        };
        let pause = 1e9 * self.pause_s;
        match self.story {
            Story::Hangs(Hang::Loops | Hang::Stopped | Hang::Dead | Hang::Left | Hang::Mpi)
                if is_here =>
            {
                let at = pick(&calls).unwrap_or(0);
                step.does.insert(at, Do::Stops);
            }
            Story::Hangs(Hang::Silent) if step.rank >= self.ranks / 2 => {
                step.does.insert(pick(&calls).unwrap_or(0), Do::Stops);
            }
            Story::Hangs(Hang::Graph) if is_here => {
                let at = calls.first().copied().unwrap_or(0);
                step.does.truncate(at);
                step.does.push(Do::Stops);
            }
            Story::Hangs(Hang::Kernel) if is_here => {
                let at = pick(&launched).unwrap_or(0);
                let kernel = Do::Compute {
                    name: "spins",
                    ns: f64::INFINITY,
                    stream: 0,
                };
                // The stream of the call waits for the computing stream from there on.
                let before = step.does[..at]
                    .iter()
                    .rposition(|does| !matches!(does, Do::Wait(..)));
                step.does.insert(before.map_or(0, |at| at + 1), kernel);
            }
            Story::Hangs(Hang::Skipped) if is_here => {
                if let Some(at) = pick(&launched) {
                    step.does.remove(at);
                }
            }
            Story::Hangs(Hang::Group) if is_here => {
                if let Some(at) = pick(&launched) {
                    let call = step.does.remove(at);
                    step.does.insert(at, Do::Enters(Box::new(call)));
                }
            }
            Story::Hangs(Hang::Size | Hang::Function | Hang::Datatype) if is_here => {
                let at = pick(&launched);
                if let Some(Do::Call {
                    function,
                    bytes,
                    datatype,
                    ..
                }) = at.map(|at| &mut step.does[at])
                {
                    match self.story {
                        Story::Hangs(Hang::Size) => *bytes += 4096,
                        Story::Hangs(Hang::Datatype) => *datatype = "ncclFloat16",
                        _ if *function == "AllReduce" => *function = "Broadcast",
                        _ => *function = "AllReduce",
                    }
                }
            }
            Story::Hangs(Hang::Swapped) if is_here => swap(&mut step.does, of),
            Story::Pauses(Pause::One | Pause::StartUp) if is_here => {
                step.does.insert(pick(&calls).unwrap_or(0), Do::Host(pause));
            }
            Story::Pauses(Pause::All) => step.does.insert(0, Do::Host(pause)),
            Story::Pauses(Pause::Compilation) => {
                let own = 0.7 + 0.3 * Random(self.seed ^ step.rank as u64).uniform();
                step.does.insert(0, Do::Host(pause * own));
            }
            Story::Pauses(Pause::Kernel) if is_here => {
                let kernel = Do::Compute {
                    name: "long",
                    ns: pause,
                    stream: 0,
                };
                step.does.insert(0, kernel);
            }
            Story::Pauses(Pause::Restart) if is_here => {
                step.does.insert(pick(&calls).unwrap_or(0), Do::Stops);
            }
            _ => {}
        }
    }

    fn play_from(&self, from_ns: i64, plain: bool) -> Played {
        let script = |step: &mut Step| {
            if step.number == 0 {
                step.does.push(Do::Host(from_ns as f64));
            }
            self.extra(step);
            self.shape.step(step);
        };
        let comms = self.comms();
        let job = Job {
            hosts: self.hosts,
            noise: 0.05,
            of_steps: 0.02,
            waits_for_each: true,
            ..Job::new(comms, self.steps, &script)
        };
        let after = |step: &mut Step| {
            if step.number + 1 == self.steps {
                // Programs wait for everything before they end.
                (0..STREAMS).for_each(|stream| step.sync(stream));
            }
            if !plain && step.number == self.step {
                self.happens(step);
            }
        };
        let link = |ranks: &[usize], step: usize| {
            let is_far = ranks.len() == self.ranks && step == self.step;
            match self.story {
                Story::Hangs(Hang::Network) if is_far => f64::INFINITY,
                _ => 1.0,
            }
        };
        let fault = Fault {
            after: Some(&after),
            link: Some(&link),
            ..Fault::default()
        };
        play_open(&job, self.seed, fault)
    }

    /// Plays it.
    pub fn play(&self) -> Stage {
        let played = self.play_from(0, false);
        let mut random = self.random.clone();
        let stop = |rank: usize| played.stopped_ns(rank);
        let mut fates: Vec<Option<Fate>> = vec![None; self.ranks];
        let mut culprits = vec![self.rank];
        let mut attempts = Vec::new();
        let what = match self.story {
            Story::Hangs(Hang::Stopped) => Some(What::Stopped),
            Story::Hangs(Hang::Dead) => Some(What::Dead),
            Story::Hangs(Hang::Left) => Some(What::Left),
            Story::Hangs(Hang::Mpi) => Some(What::Mpi),
            _ => None,
        };
        if let (Some(what), Some(at)) = (what, stop(self.rank)) {
            fates[self.rank] = Some(Fate { at, what });
        }
        match self.story {
            Story::Hangs(Hang::Network) => {
                // From the last rank of the first host to the next.
                culprits = vec![self.ranks / 2 - 1, self.ranks / 2];
            }
            Story::Hangs(Hang::Silent) => {
                culprits = (self.ranks / 2..self.ranks).collect();
                for rank in &culprits {
                    let at = stop(*rank);
                    fates[*rank] = at.map(|at| Fate {
                        at,
                        what: What::Silent,
                    });
                }
            }
            Story::Pauses(Pause::Restart) => {
                let died = stop(self.rank).unwrap_or(0);
                let killed = died + (1e9 * LAUNCHER_S * random.uniform()) as i64;
                for (rank, fate) in fates.iter_mut().enumerate() {
                    let at = if rank == self.rank { died } else { killed };
                    *fate = Some(Fate {
                        at,
                        what: What::Dead,
                    });
                }
                let from_ns = killed + (1e9 * self.pause_s) as i64;
                attempts.push(Attempt {
                    played: self.play_from(from_ns, true),
                    from_ns,
                    fates: vec![None; self.ranks],
                });
            }
            _ => {}
        }
        let mut changes = played.changes();
        changes.extend(attempts.iter().flat_map(|attempt| attempt.played.changes()));
        changes.extend(fates.iter().flatten().map(|fate| fate.at));
        changes.sort_unstable();
        changes.dedup();
        let first = Attempt {
            played,
            from_ns: i64::MIN,
            fates,
        };
        attempts.insert(0, first);
        Stage {
            attempts,
            culprits,
            stands_ns: changes.last().copied().unwrap_or(0),
            changes,
            evidence: Evidence {
                events: self.events,
                levels: vec![self.level],
                stream_waits: false,
                ..Evidence::default()
            },
        }
    }

    /// Of a network that stands still: the rank whose send does.
    fn stuck(&self) -> Option<usize> {
        (self.story == Story::Hangs(Hang::Network)).then_some(self.ranks / 2 - 1)
    }

    /// What a watcher on the first host sees at a moment, ns of virtual time.
    pub fn as_of(&self, stage: &Stage, at: i64) -> Capture {
        let (attempt, of) = self.moment(stage, at);
        attempt.played.newest_as_of(&of)
    }

    /// The same with all calls up to then, written into a folder as the running job would have left it.
    /// [`files::look`] adds what `ncclscope hang` keeps.
    pub fn write_as_of(&self, stage: &Stage, at: i64, folder: &Path) -> io::Result<Capture> {
        let (attempt, of) = self.moment(stage, at);
        let capture = attempt.played.as_of(&of);
        files::write(&capture, folder)?;
        Ok(capture)
    }

    /// A moment of virtual time, ns since 1970.
    pub fn at_ns(&self, at: i64) -> i64 {
        SINCE_1970 + at
    }

    /// What really ran, as a picture of the step in which it happens, the one before and the one behind. What
    /// stands still is shown for a tenth of a second.
    pub fn picture(&self, stage: &Stage) -> String {
        let end = stage.stands_ns + SECOND / 10;
        let played = &stage.attempts[0].played;
        played.picture_until(self.step.saturating_sub(1), 3, end)
    }

    fn moment<'a>(&self, stage: &'a Stage, at: i64) -> (&'a Attempt, AsOf<'a>) {
        let mut attempts = stage.attempts.iter();
        let attempt = attempts.rfind(|attempt| attempt.from_ns <= at);
        let attempt = attempt.unwrap_or(&stage.attempts[0]);
        let of = AsOf {
            at,
            evidence: &stage.evidence,
            fates: &attempt.fates,
            stuck: self.stuck().map(|from| (from, stage.stands_ns)),
        };
        (attempt, of)
    }
}

impl Stage {
    /// Whether all ranks of the last attempt have done all.
    pub fn is_over(&self) -> bool {
        self.attempts
            .last()
            .is_some_and(|last| last.played.is_over())
    }

    /// When to look next, ns of virtual time: each second, and less often while nothing changes and no limit
    /// is near.
    pub fn next_look(&self, at: i64) -> i64 {
        let next = self.changes.partition_point(|change| *change <= at);
        let quiet_since = next.checked_sub(1).map_or(0, |before| self.changes[before]);
        let quiet = (at - quiet_since) / SECOND;
        let ahead = match quiet {
            0..12 => 1,
            12..30 => 3,
            quiet => (quiet / 4).min(60),
        };
        let change = self.changes.get(next).map_or(i64::MAX, |change| *change);
        let then = at + ahead * SECOND;
        // At the second after the next change.
        then.min(change.saturating_add(SECOND - 1) / SECOND * SECOND)
            .max(at + SECOND)
    }
}

/// Where a step does such a thing.
fn places(does: &[Do], is: impl Fn(&Do) -> bool) -> Vec<usize> {
    let all = does.iter().enumerate();
    all.filter(|(_, does)| is(does)).map(|(at, _)| at).collect()
}

/// Swaps two calls of a communicator that differ, one after the other on it.
fn swap(does: &mut [Do], of: f64) {
    let call = |does: &Do| match does {
        Do::Call {
            comm,
            function,
            bytes,
            ways,
            ..
        } if ways.is_empty() => Some((*comm, (*function, *bytes))),
        _ => None,
    };
    let mut pairs = Vec::new();
    for (at, first) in does.iter().enumerate() {
        let Some((comm, what)) = call(first) else {
            continue;
        };
        let mut behind = does.iter().enumerate().skip(at + 1);
        let next = behind.find_map(|(next, does)| {
            let (other, what) = call(does)?;
            (other == comm).then_some((next, what))
        });
        if let Some((next, _)) = next.filter(|(_, other)| *other != what) {
            pairs.push((at, next));
        }
    }
    let at = (of * pairs.len() as f64) as usize;
    if let Some((first, second)) = pairs.get(at) {
        does.swap(*first, *second);
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "seed {}: {} of rank {} in step {} of {}; {} of {} ranks on {} hosts, {}",
            self.seed,
            self.story.name(),
            self.rank,
            self.step,
            self.steps,
            self.shape.kind.name(),
            self.ranks,
            self.hosts,
            if self.events {
                format!("one in {} calls timed", 1u32 << self.level)
            } else {
                "host times only".to_owned()
            },
        )
    }
}
