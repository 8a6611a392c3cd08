//! Start-up: from the start of each process to its first call, and what NCCL did meanwhile.
//!
//! [`startup`] puts together what NCCL's debug output says ([`setup::startup`]) and what the recorder saw.
//! The [`Gatherer`] keeps each process's first calls. [`Whole`] has the start of one process as a tree, down
//! to calls of the driver, and [`HardlyUsed`] the communicators that were made for few calls.
//!
//! Rule: what NCCL did not say is null, and a note says why. Nothing is estimated.

mod hardly_used;
mod tree;

pub use hardly_used::HardlyUsed;
pub use tree::{DriverPart, InitPart, PhasePart, UsePart, Whole, WholePart};

use crate::executions::Execution;
use crate::first_uses::{self, FirstUse, ProcessUses};
use crate::subject::ProcessId;
use crate::time::{HostTime, Nanos};
use schemars::JsonSchema;
use serde::Serialize;
use setup::failure::{failure, Failure};
use setup::log::{Init, Said};
use setup::paths::HostFacts;
use setup::startup::{communicators, group, together, Attempts, CommunicatorStartup, Together};
use setup::warnings::Warning;
use std::collections::{BTreeMap, BTreeSet};
use tables::{Capture, Process, Which};

/// The format of [`Startup`].
pub const SCHEMA: &str = "ncclscope.startup/1";

/// What the lines or the capture leave open, or what is unusual about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Ray left out so many lines.
    LeftOutByRay(u64),
    /// Several ranks of a communicator share a GPU.
    SharedGpu {
        /// So many ranks, if these are all of it.
        all: Option<usize>,
        /// The GPU's bus number.
        bus: u64,
        /// Its host.
        host: String,
    },
    /// The job set NCCL's debug level itself, to this.
    OwnLevel(String),
    /// It did so with a file, in which nothing is said of phases.
    OwnFile {
        /// The level.
        level: String,
    },
    /// What NCCL said was not recorded.
    NotRecorded,
}

/// The start-up of a job.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Startup {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The communicators that were made, the slowest first.
    pub communicators: Vec<CommunicatorStartup>,
    /// The processes, the last to be ready first; empty for a file of NCCL's output.
    pub processes: Vec<ProcessRow>,
    /// What the first use of each function, algorithm, protocol and peer cost, the longest first; empty for a
    /// file of NCCL's output.
    pub first_uses: Vec<FirstUse>,
    /// The parts of the start of the process where that took longest; null if none is known.
    pub whole: Option<Whole>,
    /// What the process that spent longest on its communicators spent; null if no process made several.
    pub together: Option<Together>,
    /// Communicators with two calls or fewer on each rank, the one that took longest to make first; empty for
    /// a file of NCCL's output.
    pub hardly_used: Vec<HardlyUsed>,
    /// The warning that says why a rank did not end its init; null if NCCL said none or if no rank failed.
    pub failure: Option<Failure>,
    /// What NCCL warned of, in the order of lines; the first of many.
    pub warnings: Vec<Warning>,
    /// How often it warned.
    pub warned: u64,
    /// What is not known, and why. `render` writes it.
    #[serde(skip)]
    pub notes: Vec<Note>,
    /// What NCCL said, of which the communicators are made.
    #[serde(skip)]
    pub inits: Vec<Init>,
    /// What NCCL said of each host.
    #[serde(skip)]
    pub hosts: BTreeMap<String, HostFacts>,
}

/// The way of a process to its first call.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProcessRow {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// From the start of the process until NCCL first initialised its profiler plugin, near the end of the
    /// first communicator's init.
    pub to_init_s: Option<f64>,
    /// How long the recorder took in all its inits.
    pub plugin_init_s: Option<f64>,
    /// From the start of the process to the first call.
    pub to_first_call_s: Option<f64>,
    /// Host time of the first call on the communicator on which that took longest: NCCL connects the ranks in
    /// it.
    pub first_call_s: Option<f64>,
}

/// First calls, by index of the process in the order of the capture.
#[derive(Default)]
pub struct Gatherer {
    processes: Vec<FirstCalls>,
    uses: first_uses::Gatherer,
}

/// The first calls of a process, one for each communicator.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstCalls {
    /// When the first one began, ns since 1970.
    begun_ns: Option<i64>,
    /// Host time of the longest one, ns.
    longest_ns: Option<u64>,
}

impl FirstCalls {
    /// Adds an execution, which must be the first one on its communicator.
    pub fn add(&mut self, execution: &Execution) {
        let begun = execution.api.map(|(begun, _)| begun);
        self.begun_ns = [self.begun_ns, begun].into_iter().flatten().min();
        self.longest_ns = self.longest_ns.max(execution.host());
    }
}

impl Gatherer {
    /// Adds the first calls and the first uses of the next process.
    pub fn add(&mut self, of: FirstCalls, uses: ProcessUses) {
        self.processes.push(of);
        self.uses.add(uses);
    }

    /// Takes in what was gathered from later processes.
    pub fn merge(&mut self, later: Gatherer) {
        self.processes.extend(later.processes);
        self.uses.merge(later.uses);
    }

    /// The start-up of a capture.
    pub fn finish(self, capture: &Capture) -> Startup {
        let processes = capture.processes.iter().zip(self.processes);
        let mut rows: Vec<ProcessRow> = processes.map(|(p, first)| row(p, first)).collect();
        let whole = tree::whole(capture, &rows, &self.uses);
        let ready = |row: &ProcessRow| row.to_first_call_s.unwrap_or(-1.0);
        rows.sort_by(|a, b| ready(b).total_cmp(&ready(a)));
        let mut said = Said::default();
        for process in &capture.processes {
            said.inits.extend(inits_of(process));
            said.warnings.extend(process.setup.warnings.iter().cloned());
            for (host, facts) in &process.setup.hosts {
                let mut facts = facts.clone();
                // NCCL prints its settings only if it is asked for its subsystem ENV.
                let settings = process.facts.iter().filter_map(|(key, value)| {
                    let name = key.strip_prefix("env.")?;
                    name.starts_with("NCCL_").then_some((name, value))
                });
                for (name, value) in settings {
                    let known = facts.env.entry(name.to_owned());
                    known.or_insert_with(|| value.clone());
                }
                said.hosts.entry(host.clone()).or_default().merge(facts);
            }
        }
        said.warned = said.warnings.len() as u64;
        Startup {
            processes: rows,
            first_uses: self.uses.finish(capture),
            whole,
            hardly_used: hardly_used::hardly_used(capture, &self.uses),
            notes: notes(capture, &said.inits),
            ..of_said(&said)
        }
    }
}

/// The inits of a process. NCCL tells its profiler of a communicator at the end of the init, so these are
/// complete even if the line that says so is lost.
fn inits_of(process: &Process) -> Vec<Init> {
    let mut inits = process.setup.inits.clone();
    if process.communicators.len() >= inits.len() {
        inits.iter_mut().for_each(|init| init.is_complete = true);
    }
    inits
}

/// Leaves what one start of the program said in NCCL's output, and says which one of how many that is.
///
/// Warnings of a process that made no communicator stay, because nothing says of which start they are.
///
/// # Errors
/// How many there are, if there is none of the number that is asked for.
pub fn leave_attempt(said: &mut Said, which: Which) -> Result<(u32, u32), u32> {
    let attempts = Attempts::of_inits(&said.inits);
    let of = attempts.count();
    let read = match which {
        Which::All => return Ok((of, 1)),
        Which::Last => of,
        Which::Number(number) if (1..=of).contains(&number) => number,
        Which::Number(_) => return Err(of),
    };
    let is_of = |host: &str, pid: u32| attempts.of(host, pid).is_none_or(|of| of == read);
    said.inits.retain(|init| is_of(&init.host, init.pid));
    let before = said.warnings.len();
    said.warnings
        .retain(|warning| is_of(&warning.host, warning.pid));
    said.warned -= (before - said.warnings.len()) as u64;
    Ok((read, of))
}

/// The start-up that lines of NCCL's debug output tell of.
pub fn of_said(said: &Said) -> Startup {
    let inits = &said.inits;
    let mut communicators = communicators(inits);
    let total = |c: &CommunicatorStartup| c.phases.last().map_or(0.0, |total| total.slowest_s);
    communicators.sort_by(|a, b| total(b).total_cmp(&total(a)));
    Startup {
        schema: SCHEMA,
        communicators,
        processes: Vec::new(),
        first_uses: Vec::new(),
        whole: None,
        together: together(inits),
        hardly_used: Vec::new(),
        failure: failure(inits, &said.warnings),
        warnings: said.warnings.clone(),
        warned: said.warned,
        notes: remarks(said),
        inits: inits.to_vec(),
        hosts: said.hosts.clone(),
    }
}

/// What the lines leave open, and what is unusual about them.
fn remarks(said: &Said) -> Vec<Note> {
    let mut remarks = Vec::new();
    if said.left_out > 0 {
        remarks.push(Note::LeftOutByRay(said.left_out));
    }
    for members in group(&said.inits) {
        let shared = members.iter().find(|init| {
            let same = members
                .iter()
                .filter(|other| (&other.host, other.bus) == (&init.host, init.bus));
            let processes: BTreeSet<u32> = same.map(|other| other.pid).collect();
            // Containers may have equal names, and then equal numbers, too.
            init.bus.is_some() && processes.len() > 1
        });
        let all = |bus| members.iter().all(|init| init.bus == bus);
        if let Some((init, bus)) = shared.and_then(|init| Some((init, init.bus?))) {
            remarks.push(Note::SharedGpu {
                all: all(init.bus).then_some(members.len()),
                bus,
                host: init.host.clone(),
            });
            break;
        }
    }
    remarks
}

fn row(process: &Process, first: FirstCalls) -> ProcessRow {
    let number = |key: &str| process.fact(key).and_then(|v| v.parse::<i64>().ok());
    let begun = number("started")
        .zip(number("process_age_ms"))
        .map(|(started, age_ms)| HostTime(started) - Nanos::from_ms(age_ms as f64));
    let since = |at: Option<HostTime>| {
        let passed = at? - begun?;
        // A clock that was set meanwhile makes no time of the past.
        (passed >= Nanos::ZERO).then(|| passed.seconds())
    };
    let made = process
        .communicators
        .iter()
        .filter_map(|c| c.created_ns.map(HostTime));
    let seconds = |ns: u64| Nanos::from(ns).seconds();
    ProcessRow {
        process: ProcessId::of(process),
        to_init_s: since(made.min()),
        plugin_init_s: process.setup.plugin_ns.map(seconds),
        to_first_call_s: since(first.begun_ns.map(HostTime)),
        first_call_s: first.longest_ns.map(seconds),
    }
}

/// Why phases are not known, if they are not.
fn notes(capture: &Capture, inits: &[Init]) -> Vec<Note> {
    if capture.processes.is_empty() || inits.iter().any(|init| init.timings.is_some()) {
        return Vec::new();
    }
    let by_user: BTreeMap<&str, &str> = capture
        .processes
        .iter()
        .flat_map(|p| &p.facts)
        .filter_map(|(key, value)| Some((key.strip_prefix("env.")?, value.as_str())))
        .filter(|(name, _)| name.starts_with("NCCL_DEBUG"))
        .collect();
    vec![
        match by_user.get("NCCL_DEBUG").map(|level| (*level).to_owned()) {
            Some(level) if !by_user.contains_key("NCCL_DEBUG_FILE") => Note::OwnLevel(level),
            Some(level) => Note::OwnFile { level },
            None => Note::NotRecorded,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::communicators::Local;
    use tables::{Call, Shape};

    fn capture(facts: &[(&str, &str)]) -> Capture {
        let mut capture = Capture::default();
        let shape = Shape {
            uid: 1,
            function: capture.names.intern("AllReduce"),
            ..Shape::default()
        };
        let call = |ticket: u64, api_ns: i64| Call {
            ticket,
            api_ns,
            return_ns: api_ns + 250_000_000,
            sealed: true,
            ..Call::default()
        };
        capture.processes.push(Process {
            rank: Some(0),
            shapes: vec![shape],
            calls: vec![call(0, 14_000_000_000), call(1, 15_000_000_000)],
            communicators: vec![Local {
                uid: 1,
                created_ns: Some(12_000_000_000),
                ..Local::default()
            }],
            facts: facts
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            ..Process::default()
        });
        capture
    }

    #[test]
    fn a_process_s_way_to_its_first_call_is_told_from_its_start() {
        let capture = capture(&[("started", "12000000000"), ("process_age_ms", "2500")]);
        let startup = crate::report(&capture).startup;
        let row = &startup.processes[0];
        assert_eq!((row.to_init_s, row.to_first_call_s), (Some(2.5), Some(4.5)));
        assert_eq!(row.first_call_s, Some(0.25));
        assert_eq!(row.plugin_init_s, None);
    }

    #[test]
    fn without_phases_a_note_says_why() {
        let notes = |facts: &[(&str, &str)]| crate::report(&capture(facts)).startup.notes;
        assert_eq!(notes(&[]), [Note::NotRecorded]);
        let own = [("env.NCCL_DEBUG", "WARN")];
        assert_eq!(notes(&own), [Note::OwnLevel("WARN".to_owned())]);
        let file = [("env.NCCL_DEBUG", "INFO"), ("env.NCCL_DEBUG_FILE", "/x")];
        let level = "INFO".to_owned();
        assert_eq!(notes(&file), [Note::OwnFile { level }]);
    }
}
