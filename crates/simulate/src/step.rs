//! What scripts are written with: the steps of ranks, and the job that they belong to.
//!
//! A script is called for each step of each rank, and says what the host does then: it works, launches
//! kernels, calls NCCL, and waits.
//!
//! Rule: random numbers belong to a step of a rank. A fault draws none, so the same seed without the fault is
//! the same job.

use crate::random::Random;

/// A send or a receive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// Sends to this rank.
    To(usize),
    /// Receives from this rank.
    From(usize),
}

#[derive(Clone, Debug)]
pub(crate) enum Do {
    Host(f64),
    Compute {
        name: &'static str,
        ns: f64,
        stream: usize,
    },
    Call {
        comm: usize,
        function: &'static str,
        bytes: u64,
        ns: f64,
        stream: usize,
        ways: Vec<Way>,
        datatype: &'static str,
    },
    /// A stream waits for what is on another so far.
    Wait(usize, usize),
    /// The host waits for a stream.
    Sync(usize),
    /// One launch of a CUDA graph with all of this.
    Graph(Vec<Do>),
    /// The host enters this call and never comes to its launch.
    Enters(Box<Do>),
    /// The host does nothing more.
    Stops,
    /// The rank destroys this communicator.
    Ends(usize),
}

const DATATYPE: &str = "ncclFloat32";

/// One step of one rank, as the script writes it. Times are µs.
pub struct Step<'s> {
    /// The rank.
    pub rank: usize,
    /// Ranks of the job.
    pub ranks: usize,
    /// The step, from 0.
    pub number: usize,
    /// Steps of the job.
    pub steps: usize,
    /// What the script draws from.
    pub random: Random,
    pub(crate) noise: f64,
    pub(crate) tails: Tails,
    /// How slow the host is in this step; 1 is its usual speed.
    pub slow_host: f64,
    /// The same of the GPU.
    pub slow_gpu: f64,
    /// The host's own work before each launch, µs.
    pub per_launch: f64,
    pub(crate) fault: Fault<'s>,
    pub(crate) does: Vec<Do>,
}

impl Step<'_> {
    fn differs(&mut self) -> f64 {
        (1.0 + self.noise * self.random.normal()).max(0.2)
    }

    /// Now and then something takes much longer, ns.
    fn tail(&mut self, often: f64) -> f64 {
        if often == 0.0 || self.random.uniform() >= often {
            return 0.0;
        }
        1e3 * self.tails.least_us * self.random.heavy().min(self.tails.most)
    }

    /// The host works.
    pub fn host(&mut self, us: f64) {
        let ns = 1e3 * us * self.slow_host * self.differs() + self.tail(self.tails.host);
        self.does.push(Do::Host(ns));
    }

    /// A kernel on the computing stream.
    pub fn compute(&mut self, name: &'static str, us: f64) {
        self.compute_on(name, us, 0);
    }

    /// A kernel on another stream.
    pub fn compute_on(&mut self, name: &'static str, us: f64, stream: usize) {
        self.host(self.per_launch);
        let ns = 1e3 * us * self.slow_gpu * self.differs() + self.tail(self.tails.gpu);
        self.does.push(Do::Compute { name, ns, stream });
    }

    /// A collective on a stream of its own, which waits for the computing stream.
    pub fn collective(
        &mut self,
        comm: usize,
        function: &'static str,
        bytes: u64,
        us: f64,
        stream: usize,
    ) {
        self.host(self.per_launch);
        if stream != 0 {
            self.wait(stream, 0);
        }
        let ns = 1e3 * us;
        self.does.push(Do::Call {
            comm,
            function,
            bytes,
            ns,
            stream,
            ways: Vec::new(),
            datatype: DATATYPE,
        });
    }

    /// Sends and receives in one launch.
    pub fn pass(&mut self, comm: usize, ways: &[Way], bytes: u64, us: f64, stream: usize) {
        self.host(self.per_launch);
        if stream != 0 {
            self.wait(stream, 0);
        }
        self.does.push(Do::Call {
            comm,
            function: "SendRecv",
            bytes,
            ns: 1e3 * us,
            stream,
            ways: ways.to_vec(),
            datatype: DATATYPE,
        });
    }

    /// A stream waits for what is on another so far.
    pub fn wait(&mut self, stream: usize, on: usize) {
        self.does.push(Do::Wait(stream, on));
    }

    /// The host waits for a stream.
    pub fn sync(&mut self, stream: usize) {
        self.does.push(Do::Sync(stream));
    }

    /// What the script does in `body` is one launch of a CUDA graph.
    pub fn graph(&mut self, body: impl FnOnce(&mut Step)) {
        let before = self.does.len();
        body(self);
        let mut within = self.does.split_off(before);
        within.retain(|does| !matches!(does, Do::Host(_) | Do::Sync(_)));
        self.host(self.per_launch);
        self.does.push(Do::Graph(within));
    }

    /// Here the straggler does what it does.
    pub fn straggler(&mut self) {
        if let Some(within) = self.fault.within {
            within(self);
        }
    }

    /// A straggler's host works so much longer.
    pub fn sleeps(&mut self, us: f64) {
        self.does.push(Do::Host(1e3 * us));
    }

    /// A straggler's GPU has so much more to do.
    pub fn extra(&mut self, us: f64) {
        self.does.push(Do::Host(5e3));
        self.does.push(Do::Compute {
            name: "extra",
            ns: 1e3 * us,
            stream: 0,
        });
    }
}

/// Work that takes much longer now and then: how long is drawn from a Pareto distribution.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tails {
    /// How often a host's work does, of all its work; 0 never.
    pub host: f64,
    /// The same of kernels.
    pub gpu: f64,
    /// It takes so much longer at least, µs.
    pub least_us: f64,
    /// And so many times that at most.
    pub most: f64,
}

/// How many times as long a transfer between these ranks takes in a step.
pub type SlowLink<'s> = dyn Fn(&[usize], usize) -> f64 + 's;

/// What is wrong with a job.
#[derive(Clone, Copy, Default)]
pub struct Fault<'s> {
    /// What a rank does more in a step, at the place that the script says ([`Step::straggler`]).
    pub within: Option<&'s dyn Fn(&mut Step)>,
    /// What is different about a step of a rank as a whole.
    pub before: Option<&'s dyn Fn(&mut Step)>,
    /// What changes a step of a rank once its script has written it.
    pub after: Option<&'s dyn Fn(&mut Step)>,
    /// Transfers that take longer.
    pub link: Option<&'s SlowLink<'s>>,
}

/// A job.
pub struct Job<'s> {
    /// Members of communicators; the first has all ranks.
    pub comms: Vec<Vec<usize>>,
    /// How many ranks.
    pub ranks: usize,
    /// Of so many hosts; their ranks are neighbours.
    pub hosts: usize,
    /// How many steps.
    pub steps: usize,
    /// Standard deviation of what each launch of a host and each kernel takes, as a part of it.
    pub noise: f64,
    /// The same of whole steps of a rank.
    pub of_steps: f64,
    /// What takes much longer now and then.
    pub tails: Tails,
    /// What each rank does in a step.
    pub script: &'s dyn Fn(&mut Step),
    /// The host's own work before each launch, µs.
    pub per_launch: f64,
    /// How many times as long a transfer takes between hosts.
    pub across: f64,
    /// How many times as long a kernel takes while NCCL's run on the same GPU, also while they only wait.
    pub beside: f64,
    /// The computing stream waits for each call on another stream, as PyTorch lets it; otherwise for the last
    /// one alone.
    pub waits_for_each: bool,
}

impl<'s> Job<'s> {
    /// A job on one host without noise, with 20 µs of the host's work for each launch.
    pub fn new(comms: Vec<Vec<usize>>, steps: usize, script: &'s dyn Fn(&mut Step)) -> Job<'s> {
        Job {
            ranks: comms.first().map_or(0, Vec::len),
            comms,
            hosts: 1,
            steps,
            noise: 0.0,
            of_steps: 0.0,
            tails: Tails::default(),
            script,
            per_launch: 20.0,
            across: 1.0,
            beside: 1.0,
            waits_for_each: false,
        }
    }

    /// The host of a rank.
    pub fn host(&self, rank: usize) -> usize {
        rank * self.hosts / self.ranks
    }
}
