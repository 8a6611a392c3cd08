//! Watches processes until it is ended: finds them, sets probes, takes events, writes.
//!
//! ```text
//! each 5 ms      take events out of the ring
//! each 200 ms    look for processes that came or ended, and ask for libraries that were loaded
//! each 500 ms    ask for connections (`--net`)
//! each second    write blocks, and count losses
//! ```
//!
//! If this tool has the machine's own view of processes, `--all` sets probes at a file, for all processes at
//! once. So a process that starts later is seen from its first call. Otherwise a probe is for one process,
//! and a process joins when it is found.
//!
//! Rule: an event belongs to the process that made it, even if another process has that number by now. So a
//! process that ended is finished before its number can be given away.

mod finding;
mod summary;
mod taking;
mod watched;

use crate::cost;
use crate::library::Library;
use crate::net::Net;
use crate::probes::{Links, Losses, Probes, Refusal};
use crate::processes;
use crate::rdma::Adapters;
use crate::readers::Readers;
use crate::samples::Samples;
use crate::writer::now;
use crate::Way;
use finding::Asked;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use watched::Watched;

pub use summary::{Probed, Seen, Summary};

const TURN: Duration = Duration::from_millis(5);
const LOOK: Duration = Duration::from_millis(200);
const FLUSH: Duration = Duration::from_secs(1);
const NET: Duration = Duration::from_millis(500);
/// For how long the session waits at its start for what the processes have loaded. It takes a tenth of a
/// second to read the symbols of PyTorch and NCCL.
const FIRST_ANSWERS: Duration = Duration::from_secs(2);
/// For how long calls may still return when the session ends.
const LAST_RETURNS: Duration = Duration::from_millis(200);
/// What an event has in place of the process's index if its probe is for all processes.
const ANY: u32 = u32::MAX;

/// Whom to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Every process with NCCL.
    All,
    /// These and their descendants.
    Trees(Vec<u32>),
}

/// How to watch.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whom.
    pub targets: Targets,
    /// The capture's folder.
    pub folder: PathBuf,
    /// Bytes of the kernel's ring, a power of two.
    pub ring_bytes: usize,
    /// Probe functions also where that is slow.
    pub slow: bool,
    /// Watch the scheduler for threads that call NCCL.
    pub sched: bool,
    /// Ask for connections and adapters.
    pub net: bool,
    /// Probe functions inside NCCL's init.
    pub init: bool,
    /// Files with symbols of programs that have none.
    pub symbols: Vec<PathBuf>,
    /// A process is asked for its libraries again after so long even if nothing tells of a new one.
    pub ask_again: Duration,
    /// How probes are set, if that is not to be chosen.
    pub way: Option<Way>,
}

impl Options {
    /// The plain way to watch: calls, and nothing besides.
    pub fn new(targets: Targets, folder: PathBuf) -> Options {
        Options {
            targets,
            folder,
            ring_bytes: 32 << 20,
            slow: false,
            sched: false,
            net: false,
            init: false,
            symbols: Vec::new(),
            ask_again: Duration::from_secs(5),
            way: None,
        }
    }
}

/// Watches.
pub struct Session {
    options: Options,
    probes: Probes,
    readers: Readers,
    /// Ended ones stay, as `None` with what was seen in `done`.
    watched: Vec<Option<Watched>>,
    by_pid: HashMap<u32, usize>,
    asked: HashMap<u32, Asked>,
    /// Libraries with probes for all processes.
    shared: Vec<(Arc<Library>, Links)>,
    libraries: Vec<Probed>,
    done: Vec<Seen>,
    /// Why a process could not be watched, once for each.
    troubles: Vec<String>,
    /// How many of these were handed out.
    told: usize,
    started: Instant,
    unseen: u64,
    /// Some losses may be of any process.
    shared_losses: bool,
    /// Losses that stand at processes that have ended.
    shared_ended: Losses,
    write_error: Option<String>,
    net: Option<Net>,
    adapters: Option<Adapters>,
    samples: Option<Samples>,
}

impl Session {
    /// Loads the programs, measures what a call costs, and sets probes in the processes that are there.
    ///
    /// # Errors
    /// Why nothing can be attached here.
    pub fn start(options: Options) -> Result<Session, Refusal> {
        let mut probes = Probes::new(options.ring_bytes, options.way)?;
        if !probes.has_own_numbers() && !processes::sees_all() {
            return Err(Refusal::Other(
                "this is a container with process numbers of its own, and its kernel can't set probes for \
                 one process; run attach with hostPID, or on the node"
                    .into(),
            ));
        }
        if options.sched {
            probes.watch_scheduler()?;
            // It has more to do at each call then.
            probes.ns_per_call = cost::measure(&mut probes).ok().flatten();
        }
        let samples = if options.sched || options.net {
            Some(Samples::new(&options.folder, &options))
        } else {
            None
        };
        let samples = samples
            .transpose()
            .map_err(|error| Refusal::Other(error.to_string()))?;
        let readers = Readers::new(options.symbols.clone());
        let mut session = Session {
            net: options.net.then(Net::default),
            adapters: options.net.then(Adapters::new),
            samples,
            options,
            probes,
            readers,
            watched: Vec::new(),
            by_pid: HashMap::new(),
            asked: HashMap::new(),
            shared: Vec::new(),
            libraries: Vec::new(),
            done: Vec::new(),
            troubles: Vec::new(),
            told: 0,
            started: Instant::now(),
            unseen: 0,
            shared_losses: false,
            shared_ended: Losses::default(),
            write_error: None,
        };
        session.look();
        session.take_answers(None, FIRST_ANSWERS);
        session.ask_net();
        Ok(session)
    }

    /// Processes that are watched now.
    pub fn watched(&self) -> impl Iterator<Item = &Seen> {
        self.watched.iter().flatten().map(|watched| &watched.seen)
    }

    /// Libraries that have probes.
    pub fn libraries(&self) -> &[Probed] {
        &self.libraries
    }

    /// Why processes can't be watched, as far as that was not said yet.
    pub fn troubles(&mut self) -> Vec<String> {
        let fresh = self.troubles[self.told..].to_vec();
        self.told = self.troubles.len();
        fresh
    }

    /// How probes are set.
    pub fn way(&self) -> Way {
        self.probes.way
    }

    /// What entry and return of a call cost here, ns.
    pub fn ns_per_call(&self) -> Option<f64> {
        self.probes.ns_per_call
    }

    /// Whether there is nobody left to watch: all processes that were named have ended.
    pub fn is_over(&self) -> bool {
        match &self.options.targets {
            Targets::All => false,
            Targets::Trees(roots) => {
                let is_there = |pid: &u32| processes::stat(*pid).is_some_and(|stat| !stat.ended);
                self.by_pid.is_empty() && !roots.iter().any(is_there)
            }
        }
    }

    /// Takes events until `stop` says so, or nobody is left.
    pub fn run(&mut self, mut stop: impl FnMut(&mut Session) -> bool) {
        let (mut looked, mut flushed) = (Instant::now(), Instant::now());
        let mut asked = Instant::now();
        loop {
            let taken = self.drain();
            if looked.elapsed() >= LOOK {
                self.look();
                looked = Instant::now();
            }
            self.take_answers(None, Duration::ZERO);
            if self.net.is_some() && asked.elapsed() >= NET {
                self.ask_net();
                asked = Instant::now();
            }
            if flushed.elapsed() >= FLUSH {
                self.flush();
                flushed = Instant::now();
            }
            if stop(self) || self.is_over() {
                self.tell_unanswered();
                return;
            }
            if taken == 0 {
                std::thread::sleep(TURN);
            }
        }
    }

    /// Takes the probes away, and writes the rest.
    pub fn finish(mut self) -> Summary {
        let seconds = self.started.elapsed().as_secs_f64();
        self.ask_net();
        for watched in self.watched.iter_mut().flatten() {
            watched.links.iter_mut().for_each(Links::close_entries);
        }
        for (_, links) in &mut self.shared {
            links.close_entries();
        }
        let until = now() + LAST_RETURNS.as_nanos() as u64;
        loop {
            self.drain();
            let open: usize = self.watched.iter().flatten().map(Watched::open).sum();
            if open == 0 || now() >= until {
                break;
            }
            std::thread::sleep(TURN);
        }
        self.shared.clear();
        for watched in self.watched.iter_mut().flatten() {
            watched.links.clear();
        }
        self.drain();
        for index in 0..self.watched.len() {
            let has_ended = self.has_ended(index);
            self.end(index, has_ended);
        }
        if let Some(samples) = &mut self.samples {
            samples.flush(true);
        }
        Summary {
            sched: self.options.sched,
            connections: self.net.map(Net::finish),
            ports: self.adapters.map(|adapters| adapters.moved()),
            way: self.probes.way,
            processes: self.done,
            libraries: self.libraries,
            seconds,
            ns_per_call: self.probes.ns_per_call,
            shared_losses: self.shared_losses,
            unseen: self.unseen,
            write_error: self.write_error,
        }
    }
}
