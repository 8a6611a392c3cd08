//! Keeps which processes of the job were stopped by a signal or a debugger, and which ended by a signal, with
//! an error, or without ending their recording: when, and how.
//!
//! All of it can be seen only while the job is there: after its end, a process that was stopped and then
//! killed with all others looks like one that died first, and which of them failed first can't be told.
//! [`States`] looks once a second, and at each end ([`process_end`]), and writes `run-BOOT.json` beside the
//! trace files. Whoever opens the capture knows from that, and from what the others wrote later, which of the
//! two it was (`tables::sightings`).
//!
//! Rule: a job of which all goes well costs one read of /proc for each process and second, and writes
//! nothing.

use super::adopt::{Here, Leftover};
use super::process_end::{self, Handle, OutOfMemory};
use crate::hang::replace;
use capture::left::Left;
use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tables::exit::HowEnded;
use tables::sightings::{Looked, Sighting, Witness};
use tables::Life;

/// While processes are stopped, the file is written so often at least. A process that is let go for a moment
/// wrote something since an older file, which then says nothing of it any more.
const KEPT_EVERY: Duration = Duration::from_secs(5);

/// Whoever waits for less found that something had happened already.
const AT_ONCE: Duration = Duration::from_millis(1);
/// What the kernel does to a process for lack of memory.
const KILLED: HowEnded = HowEnded::Signal(libc::SIGKILL as u8);

/// The state in a live part of a recorder that has ended.
const ENDED: u32 = 1;

/// A process that records.
#[derive(Clone)]
struct Recording {
    live: PathBuf,
    /// The folder of its trace file.
    folder: PathBuf,
    /// Who it is, and what was seen of it last.
    process: Looked,
    /// What tells its end.
    handle: Option<Arc<Handle>>,
}

impl Recording {
    fn of(leftover: &Leftover) -> Option<Recording> {
        let start = &leftover.left.start;
        Some(Recording {
            live: leftover.file.clone(),
            folder: leftover.trace.parent()?.to_owned(),
            process: Looked {
                pid: start.pid,
                pid_start: start.pid_start,
                pid_namespace: start.pid_namespace,
                ..Looked::default()
            },
            handle: Handle::open(start.pid, start.pid_start).map(Arc::new),
        })
    }

    /// Whether it left its live part, which a recorder removes or marks when it ends.
    fn was_killed(&self) -> bool {
        Left::at(&self.live).is_some_and(|left| left.start.state != ENDED)
    }
}

/// See the module.
pub struct States {
    here: Here,
    /// Those that were there at the last look.
    recording: Vec<Recording>,
    /// What is kept.
    seen: Vec<Recording>,
    /// Those that ended their recording, and then themselves, in a way that could not be asked.
    unasked: Vec<Recording>,
    memory: OutOfMemory,
    /// What is seen at this look may have happened since the beginning of the look before.
    is_late: bool,
    looked_ns: i64,
    kept: Option<Instant>,
}

impl States {
    pub fn new(here: Here) -> States {
        States {
            here,
            recording: Vec::new(),
            seen: Vec::new(),
            unasked: Vec::new(),
            memory: OutOfMemory::new(),
            is_late: false,
            looked_ns: 0,
            kept: None,
        }
    }

    /// Adds processes with these live parts to those that are looked at.
    pub fn add(&mut self, found: &[Leftover]) {
        for of in found.iter().filter_map(Recording::of) {
            if !self
                .recording
                .iter()
                .any(|known| known.process.is(&of.process))
            {
                self.recording.push(of);
            }
        }
    }

    /// Waits until one of the processes ends, or `program` does, or the time is over. True if `program` has,
    /// or if nothing can be waited for.
    pub fn wait(&mut self, program: BorrowedFd, most: Duration) -> bool {
        let began = Instant::now();
        let handles = self.recording.iter().filter_map(|of| of.handle.as_ref());
        let files: Vec<BorrowedFd> = handles.map(|handle| handle.file()).collect();
        // The system may not let us wait for so many.
        let first = || process_end::wait(program, &[], most);
        let waited = process_end::wait(program, &files, most).or_else(|_| first());
        self.is_late = began.elapsed() < AT_ONCE;
        waited.unwrap_or(true)
    }

    /// Looks at all, and keeps what is new.
    pub fn look(&mut self) {
        let now_ns = Here::ask().now_ns;
        self.memory.look();
        let (mut is_new, mut is_any_stopped) = (false, false);
        for mut of in std::mem::take(&mut self.recording) {
            let Looked { pid, pid_start, .. } = of.process;
            // Adopting what others left may take a while: no end is told too late by that.
            of.process.at_ns = if self.is_late { self.looked_ns } else { now_ns };
            match capture::left::state(pid, pid_start) {
                None => {
                    let how = of.handle.as_ref().and_then(|handle| handle.how_ended());
                    of.process.how = how;
                    of.process.life = Life::Gone;
                    of.process.out_of_memory = how == Some(KILLED) && self.memory.takes_one();
                    of.handle = None;
                    if of.was_killed() || how.is_some_and(HowEnded::is_error) {
                        is_new |= self.note(of);
                    } else if how.is_none() {
                        self.unasked.push(of);
                    }
                }
                Some('T' | 't') => {
                    is_any_stopped = true;
                    of.process.life = Life::Stopped;
                    is_new |= self.note(of.clone());
                    self.recording.push(of);
                }
                Some(_) => self.recording.push(of),
            }
        }
        self.looked_ns = now_ns;
        let is_old = self.kept.is_none_or(|kept| kept.elapsed() >= KEPT_EVERY);
        if is_new || is_any_stopped && is_old {
            self.keep();
            self.kept = Some(Instant::now());
        }
    }

    /// Takes in how the program itself ended, which only its parent is told on an older system.
    pub fn told(&mut self, pid: u32, how: HowEnded) {
        let is_it = |of: &Recording| of.process.pid == pid && of.process.life == Life::Gone;
        if let Some(known) = self.seen.iter_mut().find(|of| is_it(of)) {
            if known.process.how.is_some() {
                return;
            }
            known.process.how = Some(how);
        } else {
            let ended = self.unasked.iter().position(is_it);
            let Some(mut of) = ended.map(|at| self.unasked.swap_remove(at)) else {
                return;
            };
            if !how.is_error() {
                return;
            }
            of.process.how = Some(how);
            self.seen.push(of);
        }
        self.keep();
    }

    /// Takes in what was seen of a process. True if that is more than what the file has.
    fn note(&mut self, of: Recording) -> bool {
        let mut seen = self.seen.iter_mut();
        match seen.find(|known| known.process.is(&of.process)) {
            // That it was stopped says more.
            Some(_) if of.process.life == Life::Gone => false,
            Some(known) => {
                let was_so = known.process.at_ns == self.looked_ns;
                *known = of;
                !was_so
            }
            None => {
                self.seen.push(of);
                true
            }
        }
    }

    /// Writes what is known into the folders of the processes. One that can't be written to stays as it is.
    fn keep(&self) {
        let folders: BTreeSet<&Path> = self.seen.iter().map(|of| of.folder.as_path()).collect();
        for folder in folders {
            let of_folder = self.seen.iter().filter(|of| of.folder == folder);
            let mut sighting = Sighting {
                by: Witness::Run,
                at_ns: self.looked_ns,
                host: self.here.host.clone(),
                boot_id: self.here.boot_id.clone(),
                processes: of_folder.map(|of| of.process).collect(),
                ..Sighting::default()
            };
            // An earlier `ncclscope run` of this job may have seen others.
            let before = Sighting::at(folder, &sighting.name()).unwrap_or_default();
            for process in before.processes {
                if !sighting.processes.iter().any(|of| of.is(&process)) {
                    sighting.processes.push(process);
                }
            }
            let text = format!("{:#}\n", sighting.json());
            let _ = replace(folder, &folder.join(sighting.name()), text.as_bytes());
        }
    }
}
