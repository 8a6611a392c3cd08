//! Probes at NCCL's functions, in the best way that the kernel and this user's privileges allow.
//!
//! ```text
//! Way::Multi     programs of BPF, one link for a library     programs.rs
//! Way::Perf      programs of BPF, a perf event for a place   programs.rs
//! Way::Samples   no BPF: perf events sample registers        perf_samples.rs
//! ```
//!
//! [`Probes::new`] tries one way after the other, with a probe at a function of this process. If none works,
//! it says what is missing as a [`Refusal`]. [`Probes::attach`] sets those of one library.

use crate::cost;
use crate::functions::{cookie, Common};
use crate::library::{is_slow, Library};
use crate::perf_samples::{Samples, Sampling};
use crate::programs::{Linked, Programs};
use crate::sys::{ProbePoint, Way};
use std::fmt;
use std::io;

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
    /// The kernel is older than 5.15, so it has no BPF for this.
    Old(String),
    /// BPF does not work here for a reason that is no lack of privileges, nor does the way without.
    #[allow(missing_docs)]
    Neither { bpf: Box<Refusal>, samples: String },
    /// The kernel is locked down against reading other programs' memory.
    Lockdown,
    /// Capabilities are missing.
    Privileges(String),
    /// This process may not open as many files as the probes need.
    OpenFiles,
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
                write!(f, "Linux {version} is too old for BPF at functions, which needs 5.15")
            }
            Refusal::Neither { bpf, samples } => {
                write!(f, "{bpf}; and perf events without BPF don't work either: {samples}")
            }
            Refusal::Lockdown => f.write_str(
                "the kernel is locked down in mode `confidentiality`, so BPF may not read user memory",
            ),
            Refusal::Privileges(missing) => write!(f, "no privilege for probes: {missing}"),
            Refusal::OpenFiles => f.write_str("the probes need more open files than this process may have"),
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
            Refusal::OpenFiles => {
                "raise the limit in this shell, as root if need be: `ulimit -n 65536`; or attach to fewer \
                 processes"
            }
            Refusal::Lockdown => "boot with lockdown=integrity or lockdown=none",
            Refusal::Neither { bpf, .. } => bpf.way_out(),
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
pub(crate) const SYS_PTRACE: u32 = 19;
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;
const BPF: u32 = 39;

/// Whether this process has a capability.
pub(crate) fn has_capability(capability: u32) -> bool {
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
        let missing: Vec<&str> = if has_capability(SYS_ADMIN) {
            Vec::new()
        } else {
            names
                .iter()
                .filter(|(n, _)| !has_capability(*n))
                .map(|(_, name)| *name)
                .collect()
        };
        match missing.is_empty() {
            // Without uprobe_multi these two are not enough.
            true if !has_capability(SYS_ADMIN) && version < MULTI => "CAP_SYS_ADMIN missing".into(),
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
        Some(libc::EMFILE) => Refusal::OpenFiles,
        Some(libc::ENOENT | libc::EOPNOTSUPP) => Refusal::Kernel("probes of user functions".into()),
        _ => Refusal::Other(error.to_string()),
    }
}

/// Probes of one library. They are there for as long as this is.
#[derive(Default)]
pub struct Links {
    kind: Option<Kind>,
    /// Functions with probes, without those inside NCCL's init.
    pub functions: usize,
}

enum Kind {
    Programs(Linked),
    Samples(Sampling),
}

impl Links {
    /// Takes the probes at entry away: no call begins any more.
    pub fn close_entries(&mut self) {
        match &mut self.kind {
            Some(Kind::Programs(linked)) => linked.entry.clear(),
            Some(Kind::Samples(sampling)) => sampling.close_entries(),
            None => {}
        }
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

/// What probes need, before any is set.
pub struct Probes {
    /// How probes are set.
    pub way: Way,
    /// Whether a probe can be set for one process only, without slowing others that use the same file.
    pub by_process: bool,
    /// What entry and return of a call cost here, ns.
    pub ns_per_call: Option<f64>,
    set: Set,
}

enum Set {
    Programs(Box<Programs>),
    Samples(Box<Samples>),
}

impl Probes {
    /// Sets up the best way that works, with a ring of so many bytes, a power of two. `way` leaves no choice.
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
            None if version >= MULTI => vec![Way::Multi, Way::Perf, Way::Samples],
            None => vec![Way::Perf, Way::Samples],
        };
        let mut errors = Vec::new();
        for way in ways {
            match Probes::tried(ring_bytes, way) {
                Ok(probes) => return Ok(probes),
                Err(error) => errors.push((way, error)),
            }
        }
        let (_, first) = &errors[0];
        Err(match (refusal(first), errors.last()) {
            (bpf @ (Refusal::Privileges(_) | Refusal::Gvisor), _) => bpf,
            (bpf, Some((Way::Samples, samples))) if errors.len() > 1 => Refusal::Neither {
                bpf: Box::new(bpf),
                samples: samples.to_string(),
            },
            (refusal, _) => refusal,
        })
    }

    /// Sets up a way, and sees if it works: programs can be loaded with fewer privileges than probes need.
    fn tried(ring_bytes: usize, way: Way) -> io::Result<Probes> {
        let set = match way {
            Way::Samples => Set::Samples(Box::new(Samples::new(ring_bytes)?)),
            _ => Set::Programs(Box::new(Programs::load(ring_bytes, way)?)),
        };
        let mut probes = Probes {
            way,
            by_process: way == Way::Multi && kernel().0 >= ONE_PROCESS,
            ns_per_call: None,
            set,
        };
        probes.ns_per_call = cost::measure(&mut probes)?;
        Ok(probes)
    }

    /// Watches the scheduler for threads that call NCCL from now on.
    ///
    /// # Errors
    /// Why that can't be here.
    pub fn watch_scheduler(&mut self) -> Result<(), Refusal> {
        match &mut self.set {
            Set::Programs(programs) => programs.watch_scheduler(),
            Set::Samples(_) => Err(Refusal::Scheduler("it needs BPF".into())),
        }
    }

    /// Whether the scheduler is watched.
    pub fn has_scheduler(&self) -> bool {
        matches!(&self.set, Set::Programs(programs) if programs.has_scheduler())
    }

    /// The stretch that a thread is off its CPU in now.
    pub fn off_now(&self, thread: u32) -> Option<Stretch> {
        match &self.set {
            Set::Programs(programs) => programs.off_now(thread),
            Set::Samples(_) => None,
        }
    }

    /// Forgets a thread that has ended.
    pub fn forget_thread(&self, thread: u32) {
        if let Set::Programs(programs) = &self.set {
            programs.forget_thread(thread);
        }
    }

    /// Whether events number processes as this process does, also in a container with numbers of its own.
    pub fn has_own_numbers(&self) -> bool {
        self.by_process || self.way == Way::Samples
    }

    /// Sets the probes of `library`: in one process, or in all that use the file. `given` comes back with
    /// each event. Places that are slow are left out unless `which` says otherwise.
    ///
    /// # Errors
    /// Why that can't be.
    pub fn attach(
        &mut self,
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
        let places: Vec<ProbePoint> = library
            .places
            .iter()
            .filter(|(index, entry)| which.slow || !is_slow(**index, entry))
            .chain(inner)
            .map(|(index, entry)| ProbePoint {
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
    pub(crate) fn link(
        &mut self,
        path: &str,
        places: &[ProbePoint],
        process: u32,
    ) -> io::Result<Links> {
        let kind = match &mut self.set {
            Set::Programs(programs) => Kind::Programs(programs.link(path, places, process)?),
            Set::Samples(samples) => Kind::Samples(samples.link(path, places)?),
        };
        Ok(Links {
            kind: Some(kind),
            functions: places.len(),
        })
    }

    /// Lets calls of a process count, if probes can't be set for one process only.
    ///
    /// # Errors
    /// If there is no room for more processes.
    pub fn watch(&mut self, process: u32) -> io::Result<()> {
        match &mut self.set {
            Set::Programs(_) if self.by_process => {}
            Set::Programs(programs) => programs.watch(process)?,
            Set::Samples(samples) => samples.watch(process),
        }
        Ok(())
    }

    /// Takes that back.
    pub fn forget(&mut self, process: u32) {
        match &mut self.set {
            Set::Programs(programs) => programs.forget(process),
            Set::Samples(samples) => samples.forget(process),
        }
    }

    /// Forgets what was so far, when nothing has probes.
    pub(crate) fn restart(&mut self) {
        self.drain(|_| ());
        if let Set::Samples(samples) = &mut self.set {
            samples.restart();
        }
    }

    /// Hands out the events that are there.
    pub fn drain(&mut self, each: impl FnMut(&[u8])) -> usize {
        match &mut self.set {
            Set::Programs(programs) => programs.drain(each),
            Set::Samples(samples) => samples.drain(each),
        }
    }

    /// What had no room in the ring so far, by what the caller gave with the probe and by process, which is 0
    /// if it is not known.
    pub fn losses(&mut self) -> Vec<((u32, u32), Losses)> {
        match &mut self.set {
            Set::Programs(programs) => programs.losses(),
            Set::Samples(samples) => samples.losses(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_open_files_is_said_with_the_way_to_raise_it() {
        let refusal = refusal(&io::Error::from_raw_os_error(libc::EMFILE));
        assert!(refusal.to_string().contains("open files"), "{refusal}");
        assert!(refusal.way_out().contains("ulimit -n"));
    }
}
