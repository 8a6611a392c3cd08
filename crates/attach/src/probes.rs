//! Probes at NCCL's functions: maps and programs in the kernel, and the links that have programs run.
//!
//! [`Probes::new`] makes them in the best [`Way`] that the kernel and this user's privileges allow, or says
//! what is missing as a [`Refusal`]. [`Probes::attach`] sets those of one library.
//!
//! Rule: links at return are set before those at entry, and taken away after them. So a call that began with
//! a probe has its return seen, if it returns in time.

use crate::btf;
use crate::functions::{cookie, Common};
use crate::library::{is_slow, Library};
use crate::object_file::{self, Value};
use crate::ring::Ring;
use crate::sys::{self, Map, MapKind, Place, Runs, Way};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

/// Processes that may be watched, or lose calls.
const MOST_PROCESSES: u32 = 65_536;
/// Inits that are under way at once.
const MOST_INITS: u32 = 8192;
/// Threads that call NCCL, if the scheduler is watched.
const MOST_THREADS: u32 = 32_768;

/// Why nothing can be attached here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This build is for another processor than the programs are.
    Processor,
    /// The scheduler can't be watched here.
    Scheduler(String),
    /// A sandbox answers system calls, and has no probes.
    Gvisor,
    /// The kernel has no such system call, or is built without probes of user functions.
    Kernel(String),
    /// The kernel is older than 5.15.
    Old(String),
    /// The kernel is locked down against reading other programs' memory.
    Lockdown,
    /// Capabilities are missing.
    Privileges(String),
    /// Something else that the kernel said.
    Other(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Processor => f.write_str("attach is for x86-64 and aarch64 processors"),
            Refusal::Scheduler(why) => write!(f, "--sched can't work here: {why}"),
            Refusal::Gvisor => {
                f.write_str("this is a gVisor sandbox, which has no probes of user functions")
            }
            Refusal::Kernel(what) => write!(f, "this kernel has no {what}"),
            Refusal::Old(version) => {
                write!(f, "Linux {version} is too old: attach needs 5.15 or newer")
            }
            Refusal::Lockdown => f.write_str(
                "the kernel is locked down in mode `confidentiality`, so BPF may not read user memory",
            ),
            Refusal::Privileges(missing) => write!(f, "no privilege for probes: {missing}"),
            Refusal::Other(what) => write!(f, "the kernel refuses probes: {what}"),
        }
    }
}

impl Refusal {
    /// What helps.
    pub fn way_out(&self) -> &'static str {
        match self {
            Refusal::Privileges(_) => {
                "`sudo ncclscope attach …`, or once: `sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace=ep \
                 $(command -v ncclscope)`; in Kubernetes: a pod with hostPID and the capabilities BPF, \
                 PERFMON and SYS_PTRACE"
            }
            Refusal::Gvisor => "run attach on the node itself, outside of the sandbox",
            Refusal::Scheduler(_) => {
                "leave --sched out, or use a node with Linux 5.18 or newer, built with BTF"
            }
            Refusal::Lockdown => "boot with lockdown=integrity or lockdown=none",
            _ => "use a node with a newer kernel",
        }
    }

    /// What works without any of this.
    pub const INSTEAD: &'static str =
        "without privileges: start the job with `ncclscope run`, or see `/proc/PID/task/*/schedstat`";
}

/// Linux's version, and the text of it.
pub fn kernel() -> ((u32, u32), String) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let text = text.trim().to_owned();
    let number = |part: Option<&str>| {
        let digits = part.unwrap_or("").chars().take_while(char::is_ascii_digit);
        digits.collect::<String>().parse().unwrap_or(0)
    };
    let mut parts = text.split('.');
    ((number(parts.next()), number(parts.next())), text)
}

/// Numbers of capabilities.
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;
const BPF: u32 = 39;

fn has(capability: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    effective.is_some_and(|bits| bits >> capability & 1 != 0)
}

/// From here on a link for many places can be for one process.
const ONE_PROCESS: (u32, u32) = (6, 10);
/// From here on there are links for many places.
const MULTI: (u32, u32) = (6, 6);
/// From here on a perf event's program has a cookie.
const COOKIES: (u32, u32) = (5, 15);

/// Why an error of the kernel means that attach can't work here.
fn refusal(error: &io::Error) -> Refusal {
    let (version, text) = kernel();
    let gvisor = || {
        let log = std::fs::read_to_string("/proc/version").unwrap_or_default();
        // gVisor's kernel says a fixed version, and names itself in its log.
        log.contains("gVisor") || text.starts_with("4.4.0") && log.contains("2016")
    };
    let lockdown = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    let missing = || {
        let names = [(BPF, "CAP_BPF"), (PERFMON, "CAP_PERFMON")];
        let missing: Vec<&str> = match has(SYS_ADMIN) {
            true => Vec::new(),
            false => names
                .iter()
                .filter(|(n, _)| !has(*n))
                .map(|(_, name)| *name)
                .collect(),
        };
        match missing.is_empty() {
            true => format!(
                "{error}, although this process has the capabilities: a container or a security \
                module forbids it"
            ),
            false => format!("{} missing", missing.join(" and ")),
        }
    };
    match error.raw_os_error() {
        _ if gvisor() => Refusal::Gvisor,
        Some(libc::ENOSYS) => Refusal::Kernel("system call `bpf`".into()),
        _ if version < COOKIES => Refusal::Old(text),
        Some(libc::EPERM | libc::EACCES) if lockdown.contains("[confidentiality]") => {
            Refusal::Lockdown
        }
        Some(libc::EPERM | libc::EACCES) => Refusal::Privileges(missing()),
        Some(libc::ENOENT | libc::EOPNOTSUPP) => Refusal::Kernel("probes of user functions".into()),
        _ => Refusal::Other(error.to_string()),
    }
}

/// Maps and programs, before any probe.
pub struct Probes {
    /// How probes are set.
    pub way: Way,
    /// Whether a probe can be set for one process only, without slowing others that use the same file.
    pub by_process: bool,
    entry: OwnedFd,
    at_return: OwnedFd,
    lost: Map,
    watched: Map,
    threads: Map,
    /// Links to the scheduler's tracepoints, if it is watched.
    scheduler: Option<[OwnedFd; 4]>,
    /// Kept for the programs that use them.
    _results: Map,
    events: Map,
    ring: Ring,
}

/// Tracepoints of the kernel, and the sections of their programs.
const TRACEPOINTS: [(&str, &str); 4] = [
    ("sched_switch", "switch"),
    ("sched_wakeup", "wakeup"),
    ("softirq_entry", "softirq_begin"),
    ("softirq_exit", "softirq_end"),
];

/// Probes of one library. They are there for as long as this is.
#[derive(Default)]
pub struct Links {
    entry: Vec<OwnedFd>,
    at_return: Vec<OwnedFd>,
    /// Functions with probes, without those inside NCCL's init.
    pub functions: usize,
}

impl Links {
    /// Takes the probes at entry away: no call begins any more.
    pub fn close_entries(&mut self) {
        self.entry.clear();
    }
}

/// Losses of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Entries.
    pub entries: u64,
    /// Returns.
    pub returns: u64,
    /// Stretches in which a thread was off its CPU.
    pub switches: u64,
}

/// Since when a thread is off its CPU, and what the kernel noted since.
pub use crate::event::Stretch;

/// Which functions get a probe, besides those that always do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Which {
    /// Those where a probe is slow.
    pub slow: bool,
    /// Those inside NCCL's init.
    pub init: bool,
}

impl Probes {
    /// Loads the programs, with a ring of so many bytes, a power of two. `way` leaves no choice.
    ///
    /// # Errors
    /// Why nothing can be attached here.
    pub fn new(ring_bytes: usize, way: Option<Way>) -> Result<Probes, Refusal> {
        if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            return Err(Refusal::Processor);
        }
        let version = kernel().0;
        let ways = match way {
            Some(way) => vec![way],
            None if version >= MULTI => vec![Way::Multi, Way::Perf],
            None => vec![Way::Perf],
        };
        let mut first = None;
        for way in ways {
            match Probes::load(ring_bytes, way) {
                Ok(probes) => return Ok(probes),
                Err(error) => {
                    first.get_or_insert(error);
                }
            }
        }
        let error = first.unwrap_or_else(|| io::Error::from_raw_os_error(libc::ENOSYS));
        Err(refusal(&error))
    }

    fn load(ring_bytes: usize, way: Way) -> io::Result<Probes> {
        let hash = |name, value| Map::make(MapKind::Hash, name, 4, value, MOST_PROCESSES);
        let lost = Map::make(MapKind::Hash, "lost", 8, 24, MOST_PROCESSES)?;
        let watched = hash("watched", 4)?;
        let threads = Map::make(MapKind::Hash, "threads", 4, 48, MOST_THREADS)?;
        let results = Map::make(MapKind::LruHash, "results", 8, 8, MOST_INITS)?;
        let events = Map::make(MapKind::RingBuffer, "events", 0, 0, ring_bytes as u32)?;
        let maps = [
            ("lost", &lost),
            ("watched", &watched),
            ("results", &results),
            ("threads", &threads),
            ("events", &events),
        ];
        let named = |name: &str| {
            let map = maps.into_iter().find(|(known, _)| *known == name);
            map.map(|(_, map)| Value::Map(map.fd()))
        };
        let load = |section, name| {
            let code = object_file::program(section, named)?;
            sys::load_program(name, &code, Runs::AtFunctions(way))
        };
        let (entry, at_return) = (
            load("entry", "ncclscope_in")?,
            load("return", "ncclscope_out")?,
        );
        let ring = Ring::map(&events, ring_bytes)?;
        Ok(Probes {
            way,
            by_process: way == Way::Multi && kernel().0 >= ONE_PROCESS,
            entry,
            at_return,
            lost,
            watched,
            threads,
            scheduler: None,
            _results: results,
            events,
            ring,
        })
    }

    /// Watches the scheduler for threads that call NCCL from now on.
    ///
    /// # Errors
    /// Why that can't be here.
    pub fn watch_scheduler(&mut self) -> Result<(), Refusal> {
        let description = std::fs::read("/sys/kernel/btf/vmlinux").map_err(|error| {
            Refusal::Scheduler(format!(
                "this kernel does not describe its types (`/sys/kernel/btf/vmlinux`: {error})"
            ))
        })?;
        let pid = btf::Types::of(&description).and_then(|types| types.field("task_struct", "pid"));
        let pid = pid.ok_or_else(|| {
            Refusal::Scheduler(
                "the kernel's description of its types (BTF) is not as expected".into(),
            )
        })?;
        let maps = [
            ("lost", &self.lost),
            ("threads", &self.threads),
            ("events", &self.events),
        ];
        let named = |name: &str| {
            if name == "place_of_pid" {
                return Some(Value::Number(pid));
            }
            let map = maps.into_iter().find(|(known, _)| *known == name);
            map.map(|(_, map)| Value::Map(map.fd()))
        };
        let link = |(tracepoint, section): (&str, &str)| {
            let code = object_file::program(section, named)?;
            let program = sys::load_program("ncclscope_sched", &code, Runs::AtTracepoints)?;
            sys::link_tracepoint(&program, tracepoint)
                .map_err(|error| io::Error::new(error.kind(), format!("{tracepoint}: {error}")))
        };
        let [a, b, c, d] = TRACEPOINTS.map(link);
        let links = (|| Ok([a?, b?, c?, d?]))();
        let links = links.map_err(|error: io::Error| Refusal::Scheduler(error.to_string()))?;
        self.scheduler = Some(links);
        Ok(())
    }

    /// Whether the scheduler is watched.
    pub fn has_scheduler(&self) -> bool {
        self.scheduler.is_some()
    }

    /// The stretch that a thread is off its CPU in now.
    pub fn off_now(&self, thread: u32) -> Option<Stretch> {
        let value = self.threads.get(&thread.to_ne_bytes())?;
        let number = |at: usize| Some(u64::from_ne_bytes(value.get(at..at + 8)?.try_into().ok()?));
        let stretch = Stretch {
            from: number(8)?,
            woken: number(16)?,
            preempted: number(24)? != 0,
        };
        (stretch.from != 0).then_some(stretch)
    }

    /// Forgets a thread that has ended.
    pub fn forget_thread(&self, thread: u32) {
        self.threads.remove(&thread.to_ne_bytes());
    }

    /// Sets the probes of `library`: in one process, or in all that use the file. `given` comes back with
    /// each event. Places that are slow are left out unless `which` says otherwise.
    ///
    /// # Errors
    /// Why that can't be.
    pub fn attach(
        &self,
        library: &Library,
        process: Option<u32>,
        given: u32,
        which: Which,
    ) -> Result<Links, Refusal> {
        let common = Common {
            given,
            only_watched: process.is_some() && !self.by_process,
            sched: self.has_scheduler(),
        };
        let inner = library.inner.iter().filter(|_| which.init);
        let places: Vec<Place> = library
            .places
            .iter()
            .filter(|(index, entry)| which.slow || !is_slow(**index, entry))
            .chain(inner)
            .map(|(index, entry)| Place {
                offset: entry.offset,
                cookie: cookie(*index, common),
            })
            .collect();
        let one = process.filter(|_| self.by_process).unwrap_or(0);
        let links = self.link(&library.place(), &places, one);
        let mut links = links.map_err(|error| refusal(&error))?;
        if which.init {
            links.functions -= library.inner.len();
        }
        Ok(links)
    }

    /// Sets probes at these places of a file.
    pub(crate) fn link(&self, path: &str, places: &[Place], process: u32) -> io::Result<Links> {
        let mut links = Links {
            functions: places.len(),
            ..Links::default()
        };
        for is_return in [true, false] {
            let (program, to) = match is_return {
                true => (&self.at_return, &mut links.at_return),
                false => (&self.entry, &mut links.entry),
            };
            match self.way {
                Way::Multi => to.push(sys::link_multi(program, path, places, is_return, process)?),
                Way::Perf => {
                    for place in places {
                        to.extend(sys::link_perf(program, path, *place, is_return)?);
                    }
                }
            }
        }
        Ok(links)
    }

    /// Lets calls of a process count, if probes can't be set for one process only.
    ///
    /// # Errors
    /// If there is no room for more processes.
    pub fn watch(&self, process: u32) -> io::Result<()> {
        match self.by_process {
            true => Ok(()),
            false => self
                .watched
                .put(&process.to_ne_bytes(), &1u32.to_ne_bytes()),
        }
    }

    /// Takes that back.
    pub fn forget(&self, process: u32) {
        self.watched.remove(&process.to_ne_bytes());
    }

    /// Hands out the events that are there.
    pub fn drain(&mut self, each: impl FnMut(&[u8])) -> usize {
        self.ring.drain(each)
    }

    /// What had no room in the ring so far, by what the caller gave with the probe and by process.
    pub fn losses(&self) -> Vec<((u32, u32), Losses)> {
        let of = |key: Vec<u8>| {
            let value = self.lost.get(&key)?;
            let number =
                |at: usize| Some(u64::from_ne_bytes(value.get(at..at + 8)?.try_into().ok()?));
            let who = |at: usize| Some(u32::from_ne_bytes(key.get(at..at + 4)?.try_into().ok()?));
            let losses = Losses {
                entries: number(0)?,
                returns: number(8)?,
                switches: number(16)?,
            };
            Some(((who(0)?, who(4)?), losses))
        };
        self.lost.keys().into_iter().filter_map(of).collect()
    }
}
