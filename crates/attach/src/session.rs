//! Watches processes until it is ended: finds them, sets probes, takes events, writes.
//!
//! ```text
//! each 5 ms      take events out of the ring
//! each 200 ms    look for processes that came or ended, and for libraries that were loaded
//! each second    write blocks, and count losses
//! ```
//!
//! If this tool has the machine's own view of processes, `--all` sets probes at a file for all processes at
//! once: one that starts later is seen from its first call. Otherwise probes are for one process each, and
//! a process joins when it is found.
//!
//! Rule: an event belongs to the process that made it, whatever its number is by now: a process that ended is
//! finished before its number can be another's.

use crate::calls::{Ask, Calls, Counts};
use crate::cost;
use crate::event::Event;
use crate::library::{self, Catalog, Library};
use crate::probes::{kernel, Links, Losses, Probes, Refusal};
use crate::processes;
use crate::writer::{now, Writer};
use crate::Way;
use std::collections::HashMap;
use std::fmt::Write;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

const TURN: Duration = Duration::from_millis(5);
const LOOK: Duration = Duration::from_millis(200);
const FLUSH: Duration = Duration::from_secs(1);
/// A process without NCCL is asked again after twice as long each time, up to this.
const LONGEST_LOOK: Duration = Duration::from_secs(5);
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
    /// How probes are set, if that is not to be chosen.
    pub way: Option<Way>,
}

/// One process of a [`Summary`].
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// As this tool numbers it.
    pub pid: u32,
    /// As the launcher says.
    pub rank: Option<String>,
    /// Its trace file.
    pub trace: PathBuf,
    /// What it did.
    pub counts: Counts,
    /// What the kernel had no room for.
    pub losses: Losses,
    /// Calls that had not returned at the end.
    pub open: usize,
    /// It ended before the session.
    pub ended: bool,
}

/// A library with probes.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Probed {
    pub path: String,
    pub build_id: String,
    pub version: Option<String>,
    /// Functions with probes.
    pub functions: usize,
    /// Functions where a probe is slow.
    pub slow: Vec<&'static str>,
}

/// What a session did.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Summary {
    pub way: Way,
    pub processes: Vec<Seen>,
    pub libraries: Vec<Probed>,
    pub seconds: f64,
    /// Of entry and return, as measured on this machine before.
    pub ns_per_call: Option<f64>,
    /// Events of processes that can't be seen from here.
    pub unseen: u64,
    /// Why the last write failed.
    pub write_error: Option<String>,
}

struct Watched {
    pid: u32,
    start: u64,
    calls: Calls,
    libraries: Vec<Rc<Library>>,
    /// Probes for this process alone.
    links: Vec<Links>,
    seen: Seen,
}

/// A process that was looked at.
struct Look {
    start: u64,
    next: Instant,
    wait: Duration,
}

/// Watches.
pub struct Session {
    options: Options,
    probes: Probes,
    catalog: Catalog,
    /// Ended ones stay, as `None` with what was seen in `done`.
    watched: Vec<Option<Watched>>,
    by_pid: HashMap<u32, usize>,
    looks: HashMap<u32, Look>,
    /// Libraries with probes for all processes.
    shared: Vec<(Rc<Library>, Links)>,
    libraries: Vec<Probed>,
    done: Vec<Seen>,
    /// Why a process could not be watched, once for each.
    troubles: Vec<String>,
    /// How many of these were handed out.
    told: usize,
    started: Instant,
    ns_per_call: Option<f64>,
    unseen: u64,
    write_error: Option<String>,
}

/// How to read a process's communicators, if its memory may be read and its NCCL says where.
fn ask(pid: u32, library: Option<&Rc<Library>>) -> Option<Ask> {
    let fields = library?.fields?;
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    Some(Box::new(move |address| fields.read(&memory, address)))
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

impl Session {
    /// Loads the programs, measures what a call costs, and sets probes in the processes that are there.
    ///
    /// # Errors
    /// Why nothing can be attached here.
    pub fn start(options: Options) -> Result<Session, Refusal> {
        let mut probes = Probes::new(options.ring_bytes, options.way)?;
        if !probes.by_process && !processes::sees_all() {
            return Err(Refusal::Other(
                "this is a container with process numbers of its own, and its kernel can't set probes for \
                 one process; run attach with hostPID, or on the node"
                    .into(),
            ));
        }
        let ns_per_call = cost::measure(&mut probes);
        let mut session = Session {
            options,
            probes,
            catalog: Catalog::default(),
            watched: Vec::new(),
            by_pid: HashMap::new(),
            looks: HashMap::new(),
            shared: Vec::new(),
            libraries: Vec::new(),
            done: Vec::new(),
            troubles: Vec::new(),
            told: 0,
            started: Instant::now(),
            ns_per_call,
            unseen: 0,
            write_error: None,
        };
        session.look();
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

    /// What entry and return of a call cost here, ns.
    pub fn ns_per_call(&self) -> Option<f64> {
        self.ns_per_call
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

    /// Whether probes are at a file, for all processes.
    fn is_shared(&self) -> bool {
        self.options.targets == Targets::All && processes::sees_all() || !self.probes.by_process
    }

    /// Whether a process that is watched is not there any more.
    fn has_ended(&self, index: usize) -> bool {
        self.watched[index].as_ref().is_some_and(|watched| {
            let stat = processes::stat(watched.pid);
            stat.is_none_or(|stat| stat.ended || stat.start != watched.start)
        })
    }

    /// Looks for processes that came or ended.
    fn look(&mut self) {
        let all = processes::all();
        let gone: Vec<usize> = (0..self.watched.len())
            .filter(|index| self.has_ended(*index))
            .collect();
        if !gone.is_empty() {
            self.drain();
        }
        for index in gone {
            self.end(index, true);
        }
        let candidates = match &self.options.targets {
            Targets::All => all.keys().copied().collect(),
            Targets::Trees(roots) => processes::below(&all, roots),
        };
        self.looks.retain(|pid, _| all.contains_key(pid));
        let me = std::process::id();
        for pid in candidates.into_iter().filter(|pid| *pid != me) {
            let Some(stat) = processes::stat(pid).filter(|stat| !stat.ended) else {
                continue;
            };
            let now = Instant::now();
            let look = self.looks.entry(pid).or_insert(Look {
                start: stat.start,
                next: now,
                wait: LOOK,
            });
            if look.start != stat.start {
                *look = Look {
                    start: stat.start,
                    next: now,
                    wait: LOOK,
                };
            }
            if now < look.next {
                continue;
            }
            look.next = now + look.wait;
            look.wait = (look.wait * 2).min(LONGEST_LOOK);
            self.ask(pid, stat.start);
        }
    }

    /// Looks at a process's libraries, and sets probes.
    fn ask(&mut self, pid: u32, start: u64) {
        let libraries = match library::find(pid, &mut self.catalog) {
            Ok(libraries) => libraries,
            Err(error) => {
                let named =
                    matches!(&self.options.targets, Targets::Trees(roots) if roots.contains(&pid));
                if named && error.kind() == io::ErrorKind::PermissionDenied {
                    let text = format!(
                        "process {pid}: its mappings may not be read; CAP_SYS_PTRACE helps, or its user's id"
                    );
                    if !self.troubles.contains(&text) {
                        self.troubles.push(text);
                    }
                }
                return;
            }
        };
        if libraries.is_empty() {
            return;
        }
        let Some(index) = self.add(pid, start, &libraries) else {
            return;
        };
        for library in libraries {
            let is_new =
                |watched: &Watched| !watched.libraries.iter().any(|l| Rc::ptr_eq(l, &library));
            if !self.watched[index].as_ref().is_some_and(is_new) {
                continue;
            }
            if let Err(refusal) = self.attach(index, &library) {
                self.troubles
                    .push(format!("process {pid}: {}: {refusal}", library.path));
            }
            if let Some(watched) = &mut self.watched[index] {
                watched.libraries.push(library);
            }
        }
    }

    fn attach(&mut self, index: usize, library: &Rc<Library>) -> Result<(), Refusal> {
        let is_shared = self.is_shared();
        let Some(watched) = &mut self.watched[index] else {
            return Ok(());
        };
        let pid = watched.pid;
        let slow = self.options.slow;
        let links = if self.options.targets == Targets::All && processes::sees_all() {
            if self
                .shared
                .iter()
                .any(|(known, _)| Rc::ptr_eq(known, library))
            {
                return Ok(());
            }
            self.probes.attach(library, None, ANY, slow)?
        } else if self.probes.by_process {
            self.probes.attach(library, Some(pid), index as u32, slow)?
        } else {
            let watch = self.probes.watch(pid);
            watch.map_err(|error| Refusal::Other(error.to_string()))?;
            if self
                .shared
                .iter()
                .any(|(known, _)| Rc::ptr_eq(known, library))
            {
                return Ok(());
            }
            self.probes.attach(library, Some(pid), ANY, slow)?
        };
        if !self
            .libraries
            .iter()
            .any(|l| l.path == library.path && l.build_id == library.build_id)
        {
            self.libraries.push(Probed {
                path: library.path.clone(),
                build_id: library.build_id.clone(),
                version: library.version.clone(),
                functions: links.functions,
                slow: library.slow().collect(),
            });
        }
        match is_shared {
            true => self.shared.push((library.clone(), links)),
            false => watched.links.push(links),
        }
        Ok(())
    }

    /// Begins to watch a process; its index.
    fn add(&mut self, pid: u32, start: u64, libraries: &[Rc<Library>]) -> Option<usize> {
        if let Some(index) = self.by_pid.get(&pid) {
            return Some(*index);
        }
        match self.make(pid, start, libraries) {
            Ok(watched) => {
                let index = self.watched.len();
                self.watched.push(Some(watched));
                self.by_pid.insert(pid, index);
                Some(index)
            }
            Err(error) => {
                self.write_error = Some(error.to_string());
                None
            }
        }
    }

    fn make(&self, pid: u32, start: u64, libraries: &[Rc<Library>]) -> io::Result<Watched> {
        let id = random()?;
        let (mut facts, own) = processes::facts(pid, start);
        let rank = processes::rank(&processes::environment(pid));
        let host = capture::left::host().unwrap_or_default();
        let folder = self.options.folder.join(capture::left::file_name(&host));
        std::fs::create_dir_all(&folder)?;
        let shown = rank.as_deref().unwrap_or("x");
        let stem = folder.join(format!("r{shown}-p{own}-{:08x}", id as u32));
        let library = libraries.first();
        let version = library.and_then(|library| library.version.clone());
        let build_id = library.map(|library| library.build_id.clone());
        let trace = stem.with_extension("trace");
        let because = "`ncclscope attach` sees calls from outside, and no GPU";
        let mut line = |key: &str, value: &str| {
            if !value.is_empty() {
                let _ = writeln!(facts, "{key}={value}");
            }
        };
        line("mode", "attach");
        line("timing", "host");
        line("timing_because", because);
        line("clock", "monotonic");
        line("trace", &trace.display().to_string());
        line("nccl", version.as_deref().unwrap_or_default());
        line("nccl_path", library.map_or("", |library| &library.path));
        line("nccl_build_id", build_id.as_deref().unwrap_or_default());
        line("kernel", &kernel().1);
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        line(
            "started",
            &since_epoch.map_or(0, |d| d.as_nanos()).to_string(),
        );
        let namespace = Path::new("/proc").join(pid.to_string()).join("ns/pid");
        let namespace = std::fs::metadata(namespace).map_or(0, |meta| {
            use std::os::unix::fs::MetadataExt;
            meta.ino()
        });
        let writer = Writer::make(&stem, id, &facts, [own.into(), start, namespace])?;
        Ok(Watched {
            pid,
            start,
            calls: Calls::new(writer, ask(pid, library)),
            libraries: Vec::new(),
            links: Vec::new(),
            seen: Seen {
                pid,
                rank,
                trace,
                ..Seen::default()
            },
        })
    }

    /// Takes what is in the ring.
    fn drain(&mut self) -> usize {
        let (watched, by_pid) = (&mut self.watched, &self.by_pid);
        let mut strangers: Vec<(u32, Vec<u8>)> = Vec::new();
        let taken = self.probes.drain(|bytes| {
            let Some(event) = Event::read(bytes) else {
                return;
            };
            let index = match event.given {
                ANY => by_pid.get(&event.process).copied(),
                index => Some(index as usize),
            };
            match index.and_then(|index| watched.get_mut(index)) {
                Some(Some(watched)) => watched.calls.take(&event),
                _ if event.given == ANY => strangers.push((event.process, bytes.to_vec())),
                _ => {}
            }
        });
        for (pid, bytes) in strangers {
            self.stranger(pid, &bytes);
        }
        taken
    }

    /// An event of a process that was not looked at yet.
    fn stranger(&mut self, pid: u32, bytes: &[u8]) {
        let known = self.by_pid.contains_key(&pid);
        if let Some(stat) = processes::stat(pid).filter(|_| !known) {
            self.ask(pid, stat.start);
            if !self.by_pid.contains_key(&pid) {
                // It called NCCL, so it has it, whether its mappings can be read or not.
                self.add(pid, stat.start, &[]);
            }
        }
        let index = self.by_pid.get(&pid).copied();
        match (
            index.and_then(|index| self.watched[index].as_mut()),
            Event::read(bytes),
        ) {
            (Some(watched), Some(event)) => watched.calls.take(&event),
            _ => self.unseen += 1,
        }
    }

    fn flush(&mut self) {
        let losses: HashMap<u32, Losses> = self.probes.losses().into_iter().collect();
        for watched in self.watched.iter_mut().flatten() {
            if let Some(losses) = losses.get(&watched.pid) {
                watched.seen.losses = *losses;
                watched
                    .calls
                    .lost(losses.entries, losses.entries + losses.returns);
            }
            if let Err(error) = watched.calls.flush() {
                self.write_error = Some(error.to_string());
            }
        }
    }

    /// Ends one process's part.
    fn end(&mut self, index: usize, ended: bool) {
        let Some(mut watched) = self.watched[index].take() else {
            return;
        };
        let losses = self.probes.losses();
        if let Some((_, losses)) = losses.iter().find(|(pid, _)| *pid == watched.pid) {
            watched.seen.losses = *losses;
            watched
                .calls
                .lost(losses.entries, losses.entries + losses.returns);
        }
        if let Err(error) = watched.calls.finish(ended) {
            self.write_error = Some(error.to_string());
        }
        self.by_pid.remove(&watched.pid);
        self.probes.forget(watched.pid);
        let mut seen = watched.seen;
        seen.open = watched.calls.open();
        seen.counts = std::mem::take(&mut watched.calls.counts);
        seen.ended = ended;
        self.done.push(seen);
    }

    /// Takes events until `stop` says so, or nobody is left.
    pub fn run(&mut self, mut stop: impl FnMut(&mut Session) -> bool) {
        let (mut looked, mut flushed) = (Instant::now(), Instant::now());
        loop {
            let taken = self.drain();
            if looked.elapsed() >= LOOK {
                self.look();
                looked = Instant::now();
            }
            if flushed.elapsed() >= FLUSH {
                self.flush();
                flushed = Instant::now();
            }
            if stop(self) || self.is_over() {
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
        for watched in self.watched.iter_mut().flatten() {
            watched.links.iter_mut().for_each(Links::close_entries);
        }
        for (_, links) in &mut self.shared {
            links.close_entries();
        }
        let until = now() + LAST_RETURNS.as_nanos() as u64;
        loop {
            self.drain();
            let open: usize = self.watched.iter().flatten().map(|w| w.calls.open()).sum();
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
        Summary {
            way: self.probes.way,
            processes: self.done,
            libraries: self.libraries,
            seconds,
            ns_per_call: self.ns_per_call,
            unseen: self.unseen,
            write_error: self.write_error,
        }
    }
}
