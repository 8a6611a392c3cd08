//! Probes at NCCL's functions: maps and programs in the kernel, and the links that have programs run.
//!
//! [`Probes::new`] makes them in the best [`Way`] that the kernel and this user's privileges allow, or says
//! what is missing as a [`Refusal`]. [`Probes::attach`] sets those of one library.
//!
//! Rule: links at return are set before those at entry, and taken away after them. So a call that began with
//! a probe has its return seen, if it returns in time.

use crate::functions::cookie;
use crate::library::{is_slow, Library};
use crate::object_file;
use crate::ring::Ring;
use crate::sys::{self, Map, MapKind, Place, Way};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

/// Processes that may be watched, or lose calls.
const MOST_PROCESSES: u32 = 65_536;
/// Inits that are under way at once.
const MOST_INITS: u32 = 8192;

/// Why nothing can be attached here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This build is for another processor than the programs are.
    Processor,
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
            Refusal::Processor => f.write_str("attach is for x86-64 processors only so far"),
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
    /// Kept for the programs that use them.
    _results: Map,
    _events: Map,
    ring: Ring,
}

/// Probes of one library. They are there for as long as this is.
#[derive(Default)]
pub struct Links {
    entry: Vec<OwnedFd>,
    at_return: Vec<OwnedFd>,
    /// Functions with probes.
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
}

impl Probes {
    /// Loads the programs, with a ring of so many bytes, a power of two. `way` leaves no choice.
    ///
    /// # Errors
    /// Why nothing can be attached here.
    pub fn new(ring_bytes: usize, way: Option<Way>) -> Result<Probes, Refusal> {
        if !cfg!(target_arch = "x86_64") {
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
        let (lost, watched) = (hash("lost", 16)?, hash("watched", 4)?);
        let results = Map::make(MapKind::LruHash, "results", 8, 8, MOST_INITS)?;
        let events = Map::make(MapKind::RingBuffer, "events", 0, 0, ring_bytes as u32)?;
        let named = |name: &str| {
            let maps = [
                ("lost", &lost),
                ("watched", &watched),
                ("results", &results),
            ];
            let all = maps.into_iter().chain([("events", &events)]);
            all.into_iter()
                .find(|(known, _)| *known == name)
                .map(|(_, map)| map.fd())
        };
        let load = |section, name| {
            let code = object_file::program(section, named)?;
            sys::load_program(name, &code, way)
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
            _results: results,
            _events: events,
            ring,
        })
    }

    /// Sets the probes of `library`: in one process, or in all that use the file. `given` comes back with
    /// each event. Places that are slow are left out unless `slow`.
    ///
    /// # Errors
    /// Why that can't be.
    pub fn attach(
        &self,
        library: &Library,
        process: Option<u32>,
        given: u32,
        slow: bool,
    ) -> Result<Links, Refusal> {
        let only_watched = process.is_some() && !self.by_process;
        let places: Vec<Place> = library
            .places
            .iter()
            .filter(|(index, entry)| slow || !is_slow(**index, entry))
            .map(|(index, entry)| Place {
                offset: entry.offset,
                cookie: cookie(*index, given, only_watched),
            })
            .collect();
        let one = process.filter(|_| self.by_process).unwrap_or(0);
        self.link(&library.place(), &places, one)
            .map_err(|error| refusal(&error))
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

    /// What had no room in the ring so far, by process.
    pub fn losses(&self) -> Vec<(u32, Losses)> {
        let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        let of = |key: Vec<u8>| {
            let value = self.lost.get(&key)?;
            let process = u32::from_ne_bytes(key.try_into().ok()?);
            let losses = Losses {
                entries: number(&value[..8]),
                returns: number(&value[8..]),
            };
            Some((process, losses))
        };
        self.lost.keys().into_iter().filter_map(of).collect()
    }
}
