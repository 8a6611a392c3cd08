//! Whether the process that recorded is still there, and where its newest calls are if they are not here.
//!
//! A container has pids, a host name and a memory of its own, and the boot of its machine. From the machine
//! itself its processes are seen under other pids ([`in_container`]); from another container they are not.
//!
//! Rule: a pid means something only on its own boot of its own machine and in its own pid name space.
//! Elsewhere nothing is known: another machine may have the same name.

use crate::process::{LiveSource, Process};
use capture::left::{self, Here};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Whether a process is still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    /// It runs on this machine.
    Running,
    /// It is on this machine, and a signal or a debugger has stopped it.
    Stopped,
    /// It ran on this machine and does not any more.
    Gone,
    /// It ran on another machine, or in a container that can't be seen from here.
    #[default]
    Unknown,
}

impl Life {
    /// Whether it is known to be there.
    pub fn is_there(self) -> bool {
        matches!(self, Life::Running | Life::Stopped)
    }
}

/// Where the calls of a process since its last flush are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Newest {
    /// Here: its live part was read, or it ended after it had written everything.
    #[default]
    Here,
    /// With the process or with `ncclscope run`, which still runs.
    Running,
    /// In a file on another host, as far as is known here.
    Elsewhere,
    /// Nowhere: the process is gone, and so is its live part.
    Gone,
    /// In a live part that is here and can't be read.
    Unreadable,
    /// Nothing says where the live part was.
    Unknown,
}

/// The pid name space of the machine itself, which sees those of all containers.
const MACHINE: u64 = 0xefff_fffc;

/// Whether these facts are of a process of this boot of this machine.
fn is_of(here: &Here, facts: &BTreeMap<String, String>) -> bool {
    !here.boot_id.is_empty() && facts.get("boot_id") == Some(&here.boot_id)
}

/// Whether these facts are of a process that shares pids with this one: what it left in memory would be seen.
fn is_beside(here: &Here, facts: &BTreeMap<String, String>) -> bool {
    let namespace = facts.get("pid_namespace").and_then(|v| v.parse().ok());
    // Older recorders did not tell.
    is_of(here, facts) && namespace.is_none_or(|of: u64| of == here.pid_namespace)
}

/// Where the live part is on this host, if it was left on this host since it was started.
pub(crate) fn place_here(facts: &BTreeMap<String, String>) -> Option<PathBuf> {
    let path = facts.get("live").filter(|path| path.starts_with('/'))?;
    is_of(&Here::ask(), facts).then(|| PathBuf::from(path))
}

/// Whether the process that left these facts is still there.
pub fn of_facts(facts: &BTreeMap<String, String>) -> Life {
    life(&Process {
        facts: facts.clone(),
        ..Process::default()
    })
}

/// Whether this process is still there.
pub(crate) fn life(process: &Process) -> Life {
    let is_ours = process.other_tool().is_none();
    match (asked(process, &Here::ask()), process.live) {
        // Only what a dead process left is adopted.
        (Life::Unknown, LiveSource::Adopted) if is_ours => Life::Gone,
        (life, _) => life,
    }
}

/// What this system knows of it.
fn asked(process: &Process, here: &Here) -> Life {
    let number = |key: &str| process.fact(key).and_then(|v| v.parse::<u64>().ok());
    // Empty where there is no /proc.
    let Some(boot) = process.fact("boot_id") else {
        return Life::Unknown;
    };
    if boot != here.boot_id {
        // The same host, started anew: what ran before is gone. Another machine may have the same name.
        let (host, seen) = (process.fact("host"), process.clock.newest());
        let known = host.is_some() && !here.boot_id.is_empty();
        return if known && here.was_restarted_since(host, seen) {
            Life::Gone
        } else {
            Life::Unknown
        };
    }
    let known = (
        number("pid").and_then(|pid| u32::try_from(pid).ok()),
        number("pid_start").filter(|start| *start != 0),
        number("pid_namespace").filter(|namespace| *namespace != 0),
    );
    let (Some(pid), Some(start), Some(namespace)) = known else {
        return Life::Unknown;
    };
    let state = if namespace == here.pid_namespace {
        left::state(pid, start)
    } else {
        match in_container(Path::new("/proc"), pid, start, namespace) {
            Ok(Some(outside)) => left::state(outside, start),
            // SAFETY: a plain system call.
            Ok(None) if here.pid_namespace == MACHINE && unsafe { libc::geteuid() } == 0 => None,
            Ok(None) | Err(Hidden) => return Life::Unknown,
        }
    };
    match state {
        Some('T' | 't') => Life::Stopped,
        Some(_) => Life::Running,
        None => Life::Gone,
    }
}

/// Some process that it could be may not be looked at.
#[derive(Debug, PartialEq, Eq)]
struct Hidden;

/// The pid here of the process with number `pid` in another pid name space, which started at `start`; nothing
/// if there is none that can be seen.
fn in_container(proc: &Path, pid: u32, start: u64, namespace: u64) -> Result<Option<u32>, Hidden> {
    let entries = std::fs::read_dir(proc).map_err(|_| Hidden)?.flatten();
    let mut hidden = false;
    for entry in entries {
        let name = entry.file_name();
        let Some(outside) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let folder = entry.path();
        let started = std::fs::read_to_string(folder.join("stat")).ok();
        let started = started.and_then(|stat| {
            let (_, rest) = stat.rsplit_once(')')?;
            rest.split_whitespace().nth(19)?.parse::<u64>().ok()
        });
        if started != Some(start) {
            continue;
        }
        let Ok(of) = std::fs::metadata(folder.join("ns/pid")) else {
            hidden = true;
            continue;
        };
        let status = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
        let inside = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let inside = inside.and_then(|pids| pids.split_whitespace().last()?.parse().ok());
        if of.ino() == namespace && inside == Some(pid) {
            return Ok(Some(outside));
        }
    }
    if hidden {
        Err(Hidden)
    } else {
        Ok(None)
    }
}

/// What is known of a process when its files were read.
pub(crate) struct LifeEvidence<'a> {
    pub facts: &'a BTreeMap<String, String>,
    pub life: Life,
    pub source: LiveSource,
    /// Its recorder wrote everything at its end.
    pub ended: bool,
    /// There is a live part that can't be read.
    pub unreadable: bool,
    /// Whether `ncclscope run` wrote down the end of the job; nothing if it did not make the capture.
    pub job_ended: Option<bool>,
}

/// Where the newest calls are.
pub(crate) fn newest(of: &LifeEvidence) -> Newest {
    // What a container had in its own memory can't be looked for from outside.
    let is_here = is_beside(&Here::ask(), of.facts);
    let place = of.facts.get("live").map(String::as_str);
    match (of.source, place) {
        (LiveSource::Adopted | LiveSource::Here, _) => Newest::Here,
        _ if of.ended => Newest::Here,
        _ if of.unreadable => Newest::Unreadable,
        _ if of.life.is_there() => Newest::Running,
        (_, None | Some("")) => Newest::Unknown,
        // `ncclscope run` holds it, and takes it into the capture when the job ends.
        (_, Some("memfd")) => match of.job_ended {
            Some(false) => Newest::Running,
            _ if is_here => Newest::Gone,
            Some(true) => Newest::Gone,
            None => Newest::Elsewhere,
        },
        _ if is_here => Newest::Gone,
        _ => Newest::Elsewhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Anchor, Clock};
    use capture::rows::Ticks;

    fn facts(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        list.iter().map(owned).collect()
    }

    #[test]
    fn where_the_newest_calls_are() {
        let here = Here::ask().boot_id;
        let case = |boot: &str, live: &str, change: &dyn Fn(&mut LifeEvidence)| {
            let facts = facts(&[("boot_id", boot), ("live", live)]);
            let mut evidence = LifeEvidence {
                facts: &facts,
                life: Life::Unknown,
                source: LiveSource::Snapshot,
                ended: false,
                unreadable: false,
                job_ended: None,
            };
            change(&mut evidence);
            newest(&evidence)
        };
        let path = "/dev/shm/ncclscope-0/x.live";
        let as_it_is = |_: &mut LifeEvidence| {};
        assert_eq!(case("other", path, &as_it_is), Newest::Elsewhere);
        assert_eq!(case(&here, path, &as_it_is), Newest::Gone);
        assert_eq!(case("other", "", &as_it_is), Newest::Unknown);
        assert_eq!(case("other", "memfd", &as_it_is), Newest::Elsewhere);
        for live in [path, "memfd"] {
            assert_eq!(
                case(&here, live, &|e| e.life = Life::Running),
                Newest::Running
            );
            assert_eq!(case("other", live, &|e| e.ended = true), Newest::Here);
            assert_eq!(
                case("other", live, &|e| e.unreadable = true),
                Newest::Unreadable
            );
            assert_eq!(
                case("other", live, &|e| e.source = LiveSource::Here),
                Newest::Here
            );
        }
        // While `ncclscope run` runs it has it, and after its end it has taken it into the capture or never
        // had it.
        for boot in ["other", &here] {
            let ended = |ended: bool| case(boot, "memfd", &|e| e.job_ended = Some(ended));
            assert_eq!((ended(false), ended(true)), (Newest::Running, Newest::Gone));
        }
    }

    #[test]
    fn what_a_container_had_in_its_memory_is_elsewhere() {
        let here = Here::ask();
        let of = |namespace: u64| {
            let facts = facts(&[
                ("boot_id", &here.boot_id),
                ("pid_namespace", &namespace.to_string()),
                ("live", "/dev/shm/ncclscope-0/x.live"),
            ]);
            newest(&LifeEvidence {
                facts: &facts,
                life: Life::Unknown,
                source: LiveSource::Snapshot,
                ended: false,
                unreadable: false,
                job_ended: None,
            })
        };
        assert_eq!(of(here.pid_namespace), Newest::Gone);
        assert_eq!(of(here.pid_namespace + 1), Newest::Elsewhere);
    }

    /// A process with these facts.
    fn process(list: &[(&str, &str)]) -> Process {
        Process {
            facts: facts(list),
            ..Process::default()
        }
    }

    #[test]
    fn this_process_runs_and_another_machines_may() {
        let own = std::fs::read_to_string("/proc/self/stat").expect("read");
        let start = own.rsplit_once(')').expect("fields").1;
        let start = start.split_whitespace().nth(19).expect("start");
        let here = Here::ask();
        let of = |pid: &str, boot: &str, namespace: u64| {
            life(&process(&[
                ("pid", pid),
                ("pid_start", start),
                ("boot_id", boot),
                ("pid_namespace", &namespace.to_string()),
            ]))
        };
        let pid = std::process::id().to_string();
        assert_eq!(of(&pid, &here.boot_id, here.pid_namespace), Life::Running);
        assert_eq!(
            of("4294967295", &here.boot_id, here.pid_namespace),
            Life::Gone
        );
        assert_eq!(of(&pid, "other", here.pid_namespace), Life::Unknown);
        // Nobody can tell without the name space.
        assert_eq!(of(&pid, &here.boot_id, 0), Life::Unknown);
    }

    #[test]
    fn a_process_on_another_machine_of_this_name_is_not_known_to_be_gone() {
        let here = Here {
            host: "node".to_owned(),
            boot_id: "aa".to_owned(),
            pid_namespace: 7,
            booted_ns: Some(2_000_000_000),
            now_ns: 4_000_000_000_000,
        };
        let life_of = |boot: &str, seen_ns: u64| {
            let anchor = Anchor {
                ticks: Ticks(1),
                realtime: seen_ns,
                monotonic: 1,
            };
            let process = Process {
                clock: Clock::new([anchor], true),
                ..process(&[("host", "node"), ("boot_id", boot), ("pid_namespace", "7")])
            };
            asked(&process, &here)
        };
        assert_eq!(life_of("bb", 3_999_000_000_000), Life::Unknown);
        // Seen last before this host was started anew, and not since.
        assert_eq!(life_of("bb", 1_000_000_000), Life::Gone);
    }

    #[test]
    fn a_process_in_a_container_is_found_under_its_pid_outside() {
        let proc = tempfile::tempdir().expect("a folder");
        // As /proc has them: two containers have a process 1, and a process started at the same time.
        let add = |outside: u32, inside: &str, start: u64| {
            let folder = proc.path().join(outside.to_string());
            std::fs::create_dir_all(folder.join("ns")).expect("made");
            let fields = "0 ".repeat(18);
            let stat = format!("{outside} (a) b) S {fields}{start} 0 0");
            std::fs::write(folder.join("stat"), stat).expect("written");
            let status = format!("Name:\ta\nNSpid:\t{inside}\n");
            std::fs::write(folder.join("status"), status).expect("written");
            let namespace = folder.join("ns/pid");
            std::fs::write(&namespace, "").expect("written");
            std::fs::metadata(namespace).expect("there").ino()
        };
        add(100, "100", 50);
        let first = add(101, "101\t1", 50);
        let second = add(102, "102\t1", 50);
        let found = |pid, start, namespace| in_container(proc.path(), pid, start, namespace);
        assert_eq!(found(1, 50, first), Ok(Some(101)));
        assert_eq!(found(1, 50, second), Ok(Some(102)));
        // Another number, or a later process of that number.
        assert_eq!(found(2, 50, first), Ok(None));
        assert_eq!(found(1, 51, first), Ok(None));
        // What may not be looked at may be it.
        std::fs::remove_file(proc.path().join("102/ns/pid")).expect("removed");
        assert_eq!(found(1, 50, second), Err(Hidden));
        assert_eq!(found(1, 50, first), Ok(Some(101)));
    }
}
