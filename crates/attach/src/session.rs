//! Watches processes until it is ended: finds them, sets probes, takes events, writes.
//!
//! ```text
//! each 5 ms      take events out of the ring
//! each 200 ms    look for processes that came or ended, and for libraries that were loaded
//! each 500 ms    ask for connections (`--net`)
//! each second    write blocks, and count losses
//! ```
//!
//! If this tool has the machine's own view of processes, `--all` sets probes at a file for all processes at
//! once: one that starts later is seen from its first call. Otherwise probes are for one process each, and
//! a process joins when it is found.
//!
//! Rule: an event belongs to the process that made it, whatever its number is by now: a process that ended is
//! finished before its number can be another's.

use crate::calls::{Ask, CallTracker, Counts};
use crate::cost;
use crate::event::{BpfEvent, Stretch};
use crate::inner::Step;
use crate::library::{self, Catalog, Library};
use crate::net::{Connection, Net, Who};
use crate::probes::{has_capability, kernel, Links, Losses, Probes, Refusal, Which, SYS_PTRACE};
use crate::processes;
use crate::rdma::{Adapters, Port};
use crate::samples::Samples;
use crate::sched::{Long, Sum};
use crate::writer::{clock, now, Writer};
use crate::Way;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

const TURN: Duration = Duration::from_millis(5);
const LOOK: Duration = Duration::from_millis(200);
const FLUSH: Duration = Duration::from_secs(1);
const NET: Duration = Duration::from_millis(500);
/// A process without NCCL is asked again after twice as long each time, up to this.
const LONGEST_LOOK: Duration = Duration::from_secs(5);
/// For how long calls may still return when the session ends.
const LAST_RETURNS: Duration = Duration::from_millis(200);
/// What an event has in place of the process's index if its probe is for all processes.
const ANY: u32 = u32::MAX;

/// In place of a process if it is not known which one lost something.
const NOBODY: u32 = 0;

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
            way: None,
        }
    }
}

/// One process of a [`Summary`].
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Its number in the session, by which connections name it.
    pub index: usize,
    /// As this tool numbers it.
    pub pid: u32,
    /// As the launcher says.
    pub rank: Option<String>,
    /// Its trace file; `None` if it did not call NCCL.
    pub trace: Option<PathBuf>,
    /// What it did.
    pub counts: Counts,
    /// What the kernel had no room for.
    pub losses: Losses,
    /// Calls that had not returned at the end.
    pub open: usize,
    /// It ended before the session.
    pub ended: bool,
    /// What the scheduler did with its threads in calls, by function and thread.
    pub sums: BTreeMap<(&'static str, u32), Sum>,
    /// Its longest calls, with what the scheduler did meanwhile. They began at CLOCK_REALTIME.
    pub longest: Vec<Long>,
    /// What went on inside its inits, one by one.
    pub inits: Vec<Vec<Step>>,
    /// RDMA adapters that it has open.
    pub adapters: Vec<String>,
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
    /// Functions inside its init that have symbols.
    pub inner: usize,
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
    /// It is not known which of several processes the losses are of: all stand at the one with most calls.
    pub shared_losses: bool,
    /// Events of processes that can't be seen from here.
    pub unseen: u64,
    /// Why the last write failed.
    pub write_error: Option<String>,
    /// Whether the scheduler was watched.
    pub sched: bool,
    /// TCP connections, if they were asked for.
    pub connections: Option<Vec<Connection>>,
    /// Ports of RDMA adapters, if they were asked for.
    pub ports: Option<Vec<Port>>,
}

/// What is needed to write a process's calls once it makes one.
struct Plan {
    stem: PathBuf,
    id: u64,
    facts: String,
    /// Its own number, its start, and its name space.
    who: [u64; 3],
}

struct Watched {
    pid: u32,
    /// As it numbers itself.
    own: u32,
    start: u64,
    /// As long as it has made no call. A process that only loaded NCCL is no part of the capture: the agent
    /// of torchrun is none of the job's ranks.
    plan: Option<Plan>,
    calls: Option<CallTracker>,
    libraries: Vec<Rc<Library>>,
    /// Probes for this process alone.
    links: Vec<Links>,
    seen: Seen,
    error: Option<String>,
}

impl Watched {
    /// What takes its calls.
    fn calls(&mut self) -> Option<&mut CallTracker> {
        if let Some(plan) = self.plan.take() {
            // Only now: what records nothing leaves no folder.
            let folder = plan.stem.parent().map_or(Ok(()), std::fs::create_dir_all);
            match folder.and_then(|()| Writer::make(&plan.stem, plan.id, &plan.facts, plan.who)) {
                Ok(writer) => {
                    self.seen.trace = Some(plan.stem.with_extension("trace"));
                    self.calls = Some(CallTracker::new(
                        writer,
                        ask(self.pid, self.libraries.first()),
                    ));
                }
                Err(error) => self.error = Some(error.to_string()),
            }
        }
        self.calls.as_mut()
    }

    fn take(&mut self, event: &BpfEvent) {
        if let Some(calls) = self.calls() {
            calls.take(event);
        }
    }

    /// What of it was lost so far.
    fn lost(&mut self, losses: Losses) {
        self.seen.losses = losses;
        let any = losses.entries + losses.returns;
        if self.calls.is_none() && any == 0 {
            return;
        }
        if let Some(calls) = self.calls() {
            calls.lost(losses.entries, any);
        }
    }

    /// Something was lost, and it is not known whose it is.
    fn numbers_end(&mut self, losses: Losses) {
        if let Some(calls) = &mut self.calls {
            calls.numbers_end(losses.entries + losses.returns);
        }
    }

    fn open(&self) -> usize {
        self.calls.as_ref().map_or(0, CallTracker::open)
    }

    fn made(&self) -> u64 {
        self.calls.as_ref().map_or(0, |calls| calls.counts.all())
    }
}

/// What a process has lost.
fn losses_of(all: &[((u32, u32), Losses)], index: usize, pid: u32) -> Option<Losses> {
    let is_it = |given: u32, process: u32| match given {
        ANY => process == pid,
        given => given as usize == index,
    };
    let of = all
        .iter()
        .filter(|((given, process), _)| is_it(*given, *process));
    of.map(|(_, losses)| *losses).reduce(|a, b| Losses {
        entries: a.entries + b.entries,
        returns: a.returns + b.returns,
        switches: a.switches + b.switches,
    })
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
        let samples = match options.sched || options.net {
            true => Some(Samples::new(&options.folder, &options)),
            false => None,
        };
        let samples = samples
            .transpose()
            .map_err(|error| Refusal::Other(error.to_string()))?;
        let catalog = Catalog::with_symbols(options.symbols.clone());
        let mut session = Session {
            net: options.net.then(Net::default),
            adapters: options.net.then(Adapters::new),
            samples,
            options,
            probes,
            catalog,
            watched: Vec::new(),
            by_pid: HashMap::new(),
            looks: HashMap::new(),
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
        let found = library::find(pid, &mut self.catalog);
        self.troubles.append(&mut self.catalog.troubles);
        let libraries = match found {
            Ok(libraries) => libraries,
            Err(error) => {
                let named =
                    matches!(&self.options.targets, Targets::Trees(roots) if roots.contains(&pid));
                if named && error.kind() == io::ErrorKind::PermissionDenied {
                    let helps = match has_capability(SYS_PTRACE) {
                        true => {
                            "although attach has CAP_SYS_PTRACE: a container or a security module forbids it"
                        }
                        false => "CAP_SYS_PTRACE helps, or its user's id",
                    };
                    let text = format!(
                        "process {pid}: the files that it has loaded may not be read; {helps}"
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
        let slow = Which {
            slow: self.options.slow,
            init: self.options.init,
        };
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
                inner: library.inner.len(),
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
            Ok(mut watched) => {
                let index = self.watched.len();
                watched.seen.index = index;
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
        Ok(Watched {
            pid,
            own,
            start,
            plan: Some(Plan {
                stem,
                id,
                facts,
                who: [own.into(), start, namespace],
            }),
            calls: None,
            libraries: Vec::new(),
            links: Vec::new(),
            seen: Seen {
                pid,
                rank,
                ..Seen::default()
            },
            error: None,
        })
    }

    /// Takes what is in the ring.
    fn drain(&mut self) -> usize {
        let (watched, by_pid) = (&mut self.watched, &self.by_pid);
        let mut strangers: Vec<(u32, Vec<u8>)> = Vec::new();
        let taken = self.probes.drain(|bytes| {
            let Some(event) = BpfEvent::read(bytes) else {
                return;
            };
            let index = match event.given {
                ANY => by_pid.get(&event.process).copied(),
                index => Some(index as usize),
            };
            match index.and_then(|index| watched.get_mut(index)) {
                Some(Some(watched)) => watched.take(&event),
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
            BpfEvent::read(bytes),
        ) {
            (Some(watched), Some(event)) => watched.take(&event),
            _ => self.unseen += 1,
        }
    }

    /// Tells each process what of it was lost.
    fn take_losses(&mut self) {
        let losses = self.probes.losses();
        for (index, watched) in self.watched.iter_mut().enumerate() {
            let Some(watched) = watched else { continue };
            if let Some(losses) = losses_of(&losses, index, watched.pid) {
                watched.lost(losses);
            }
        }
        let Some(all) = losses_of(&losses, usize::MAX, NOBODY) else {
            return;
        };
        // Any of them may have lost calls, so none may number them.
        self.shared_losses |= all != Losses::default();
        let rest = Losses {
            entries: all.entries.saturating_sub(self.shared_ended.entries),
            returns: all.returns.saturating_sub(self.shared_ended.returns),
            switches: 0,
        };
        let made = |watched: &Watched| (watched.made(), std::cmp::Reverse(watched.seen.index));
        let most = self.watched.iter().flatten().map(made).max();
        for watched in self.watched.iter_mut().flatten() {
            watched.numbers_end(all);
            match Some(made(watched)) == most {
                true => watched.lost(rest),
                false => watched.lost(Losses::default()),
            }
        }
    }

    fn flush(&mut self) {
        self.take_losses();
        for watched in self.watched.iter_mut().flatten() {
            if let Some(Err(error)) = watched.calls.as_mut().map(CallTracker::flush) {
                watched.error = Some(error.to_string());
            }
            if let Some(error) = watched.error.take() {
                self.write_error = Some(error);
            }
        }
        self.note_switches(None);
        if let Some(samples) = &mut self.samples {
            samples.flush(false);
        }
    }

    /// Writes what the scheduler did with threads up to now: those of one process, or all.
    fn note_switches(&mut self, only: Option<usize>) {
        if !self.options.sched {
            return;
        }
        let until = now();
        let is_asked = |index: usize| only.is_none_or(|only| only == index);
        let indices = (0..self.watched.len()).filter(|index| is_asked(*index));
        let indices: Vec<usize> = indices.collect();
        let mut off: HashMap<u32, Stretch> = HashMap::new();
        for index in &indices {
            let calls = self.watched[*index].as_ref().and_then(|w| w.calls.as_ref());
            for thread in calls.map(|calls| calls.why.threads()).unwrap_or_default() {
                off.extend(self.probes.off_now(thread).map(|stretch| (thread, stretch)));
            }
        }
        // Who is back since is in the ring by now.
        self.drain();
        let Some(samples) = &mut self.samples else {
            return;
        };
        samples.tick();
        for index in indices {
            let Some(watched) = &mut self.watched[index] else {
                continue;
            };
            let (pid, own, lost) = (watched.pid, watched.own, watched.seen.losses.switches);
            let Some(calls) = &mut watched.calls else {
                continue;
            };
            for span in calls
                .why
                .take(until, lost, |thread| off.get(&thread).copied())
            {
                samples.put_span(pid, own, span);
            }
        }
    }

    /// Asks for connections, and writes what they have by now.
    fn ask_net(&mut self) {
        let (Some(net), Some(samples)) = (&mut self.net, &mut self.samples) else {
            return;
        };
        let who = |(index, watched): (usize, &Option<Watched>)| {
            let watched = watched.as_ref()?;
            Some(Who {
                index,
                pid: watched.pid,
                calls: watched.made(),
            })
        };
        let processes: Vec<Who> = self.watched.iter().enumerate().filter_map(who).collect();
        samples.tick();
        let own = |index: usize| self.watched[index].as_ref().map(|watched| watched.own);
        net.tick(now(), &processes, |connection| {
            if let Some(own) = own(connection.process) {
                samples.put_connection(own, connection);
            }
        });
        samples.put_devices();
        for trouble in &net.troubles {
            if !self.troubles.contains(trouble) {
                self.troubles.push(trouble.clone());
            }
        }
        if let Some(adapters) = self.adapters.as_ref().filter(|all| all.are_there()) {
            for watched in self.watched.iter_mut().flatten() {
                for adapter in adapters.of_process(watched.pid) {
                    if !watched.seen.adapters.contains(&adapter) {
                        watched.seen.adapters.push(adapter);
                    }
                }
            }
        }
    }

    /// Ends one process's part.
    fn end(&mut self, index: usize, ended: bool) {
        self.note_switches(Some(index));
        self.take_losses();
        let Some(mut watched) = self.watched[index].take() else {
            return;
        };
        self.shared_ended.entries += watched.seen.losses.entries;
        self.shared_ended.returns += watched.seen.losses.returns;
        self.by_pid.remove(&watched.pid);
        self.probes.forget(watched.pid);
        let mut seen = std::mem::take(&mut watched.seen);
        seen.ended = ended;
        if let Some(mut calls) = watched.calls.take() {
            if self.options.sched {
                calls.leave_open(now(), |thread| self.probes.off_now(thread));
                for thread in calls.why.threads() {
                    self.probes.forget_thread(thread);
                }
            }
            if let Err(error) = calls.finish(ended) {
                watched.error = Some(error.to_string());
            }
            seen.open = calls.open();
            seen.counts = calls.counts;
            seen.sums = calls.why.sums;
            seen.longest = calls.why.longest;
            let ahead = clock(libc::CLOCK_REALTIME).wrapping_sub(now());
            for long in &mut seen.longest {
                long.began = long.began.wrapping_add(ahead);
            }
            seen.inits = calls.steps.finish();
        }
        self.write_error = watched.error.take().or(self.write_error.take());
        self.done.push(seen);
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
            if self.net.is_some() && asked.elapsed() >= NET {
                self.ask_net();
                asked = Instant::now();
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
