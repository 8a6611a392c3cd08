//! The job's processes on this node, and the threads of theirs that matter.
//!
//! [`Processes`] knows the job's processes: what `ncclscope run` started, what that started, and processes
//! that write into the same capture folder under other runs. Of each process, the main thread and the threads
//! that ran most are *watched*: they are read at every tick.
//!
//! Rule: only /proc is read, and only of processes that are the user's own. Nothing is asked of the
//! processes themselves.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Threads that are watched of one process, besides the main thread.
const WATCHED: usize = 3;
/// Threads that are watched on one node.
const MOST_WATCHED: usize = 64;

/// The job's processes.
#[derive(Default)]
pub struct Processes {
    tick_us: u64,
    page_bytes: u64,
    found: BTreeMap<u32, OneProcess>,
    watched: Vec<Watched>,
    buffer: Vec<u8>,
}

#[derive(Default)]
struct OneProcess {
    /// Run time and ready time of threads that were seen, ns.
    threads: HashMap<u32, [u64; 2]>,
    /// Ready time of threads that are gone.
    ready_of_gone: u64,
}

struct Watched {
    tid: u32,
    /// `pid/tid/name`.
    of: String,
    stat: String,
    schedstat: String,
}

/// What /proc/PID/stat says.
#[derive(Debug, PartialEq, Eq)]
struct Stat<'a> {
    name: &'a str,
    state: u8,
    parent: u32,
    user: u64,
    system: u64,
    threads: u64,
    pages: u64,
}

impl Processes {
    /// None yet.
    pub fn new() -> Processes {
        // SAFETY: both ask for constants.
        let (ticks, page) = unsafe {
            (
                libc::sysconf(libc::_SC_CLK_TCK),
                libc::sysconf(libc::_SC_PAGESIZE),
            )
        };
        Processes {
            tick_us: 1_000_000 / u64::try_from(ticks).unwrap_or(100).max(1),
            page_bytes: u64::try_from(page).unwrap_or(4096),
            ..Processes::default()
        }
    }

    /// Looks for the job's processes: descendants of `root`, which is not one itself, and those in `others`
    /// with their descendants.
    pub fn find(&mut self, root: u32, others: &BTreeSet<u32>) {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut all = BTreeSet::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let parent = read(&mut self.buffer, format!("/proc/{pid}/stat"))
                .and_then(stat)
                .map(|stat| stat.parent);
            if let Some(parent) = parent {
                all.insert(pid);
                children.entry(parent).or_default().push(pid);
            }
        }
        let of = |pid: u32| children.get(&pid).into_iter().flatten().copied();
        let mut open: Vec<u32> = of(root).collect();
        open.extend(others.iter().filter(|pid| all.contains(pid)));
        let mut job = BTreeSet::new();
        while let Some(pid) = open.pop() {
            if job.insert(pid) {
                open.extend(of(pid));
            }
        }
        self.found.retain(|pid, _| job.contains(pid));
        for pid in job {
            self.found.entry(pid).or_default();
        }
    }

    /// Adds what the main threads of known processes started since. Much cheaper than [`Processes::find`],
    /// and finds nothing on kernels that don't list children.
    pub fn find_children(&mut self, root: u32) {
        let mut open: Vec<u32> = self.found.keys().copied().chain([root]).collect();
        while let Some(pid) = open.pop() {
            let path = format!("/proc/{pid}/task/{pid}/children");
            let children = read(&mut self.buffer, path).unwrap_or_default();
            // The last number of a long list may be cut.
            let whole = children.rsplit_once(' ').map_or("", |(whole, _)| whole);
            for child in whole
                .split_ascii_whitespace()
                .filter_map(|pid| pid.parse().ok())
            {
                if let Entry::Vacant(new) = self.found.entry(child) {
                    new.insert(OneProcess::default());
                    open.push(child);
                }
            }
        }
    }

    /// Hands CPU time, memory and threads of all processes to `each`: name, pid, and value.
    pub fn read(&mut self, each: &mut impl FnMut(&'static str, &str, u64)) {
        for pid in self.found.keys() {
            let Some(stat) = read(&mut self.buffer, format!("/proc/{pid}/stat")).and_then(stat)
            else {
                continue;
            };
            let of = pid.to_string();
            let us = |ticks: u64| ticks.saturating_mul(self.tick_us);
            each(
                "process_cpu_us",
                &of,
                us(stat.user.saturating_add(stat.system)),
            );
            each("process_system_us", &of, us(stat.system));
            each(
                "process_memory_bytes",
                &of,
                stat.pages.saturating_mul(self.page_bytes),
            );
            each("process_threads", &of, stat.threads);
        }
    }

    /// Goes over all threads and chooses those that are watched. It gives `each` the time for which a thread
    /// was ready and did not run.
    pub fn read_threads(&mut self, each: &mut impl FnMut(&'static str, &str, u64)) {
        self.watched.clear();
        for (pid, process) in &mut self.found {
            let mut now: HashMap<u32, [u64; 2]> = HashMap::new();
            let mut ran: Vec<(u64, u32)> = Vec::new();
            let folder = format!("/proc/{pid}/task");
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let Some(tid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                    continue;
                };
                let path = format!("{folder}/{tid}/schedstat");
                let Some([running, ready]) = read(&mut self.buffer, &path).and_then(schedstat)
                else {
                    continue;
                };
                let before = process.threads.remove(&tid);
                ran.push((
                    running.saturating_sub(before.map_or(0, |before| before[0])),
                    tid,
                ));
                now.insert(tid, [running, ready]);
            }
            // What is left ended since.
            let gone = process.threads.values().map(|times| times[1]).sum::<u64>();
            process.ready_of_gone = process.ready_of_gone.saturating_add(gone);
            let ready = now.values().fold(process.ready_of_gone, |sum, times| {
                sum.saturating_add(times[1])
            });
            if !now.is_empty() {
                each("process_ready_ns", &pid.to_string(), ready);
            }
            process.threads = now;
            ran.sort_unstable_by_key(|(ran, tid)| (std::cmp::Reverse(*ran), *tid));
            let busy = ran.iter().filter(|(ran, tid)| *ran > 0 && tid != pid);
            let busy = busy.take(WATCHED).map(|(_, tid)| *tid);
            for tid in std::iter::once(*pid).chain(busy) {
                if self.watched.len() == MOST_WATCHED {
                    break;
                }
                let stat_path = format!("{folder}/{tid}/stat");
                let name = read(&mut self.buffer, &stat_path).and_then(stat);
                let Some(name) = name.map(|stat| stat.name.to_owned()) else {
                    continue;
                };
                self.watched.push(Watched {
                    tid,
                    of: format!("{pid}/{tid}/{name}"),
                    stat: stat_path,
                    schedstat: format!("{folder}/{tid}/schedstat"),
                });
            }
        }
    }

    /// The watched threads: number, and `pid/tid/name`.
    pub fn watched(&self) -> impl Iterator<Item = (u32, &str)> {
        self.watched
            .iter()
            .map(|thread| (thread.tid, thread.of.as_str()))
    }

    /// Hands what the watched threads did to `each`.
    pub fn read_watched(&mut self, each: &mut impl FnMut(&'static str, &str, u64)) {
        for thread in &self.watched {
            let Some([running, ready]) =
                read(&mut self.buffer, &thread.schedstat).and_then(schedstat)
            else {
                continue;
            };
            each("thread_running_ns", &thread.of, running);
            each("thread_ready_ns", &thread.of, ready);
            if let Some(stat) = read(&mut self.buffer, &thread.stat).and_then(stat) {
                each("thread_in_io", &thread.of, u64::from(stat.state == b'D'));
            }
        }
    }
}

/// Processes that write trace files into `folder`, by the files' names: `r<rank>-p<pid>-<digits>.trace`.
pub fn writers(folder: &Path) -> BTreeSet<u32> {
    let pid = |name: &str| -> Option<u32> {
        let stem = name.strip_suffix(".trace")?;
        stem.split('-')
            .rev()
            .nth(1)?
            .strip_prefix('p')?
            .parse()
            .ok()
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| pid(entry.file_name().to_str()?))
        .collect()
}

/// A small file, into `buffer`.
fn read(buffer: &mut Vec<u8>, path: impl AsRef<Path>) -> Option<&str> {
    buffer.resize(1024, 0);
    let n = File::open(path).ok()?.read(buffer).ok()?;
    std::str::from_utf8(&buffer[..n]).ok()
}

/// What /proc/PID/stat says. The name may hold anything, but for the last parenthesis.
fn stat(text: &str) -> Option<Stat<'_>> {
    let (name, rest) = text.split_once('(')?.1.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |place: usize| fields.get(place)?.parse().ok();
    Some(Stat {
        name,
        state: *fields.first()?.as_bytes().first()?,
        parent: fields.get(1)?.parse().ok()?,
        user: number(11)?,
        system: number(12)?,
        threads: number(17)?,
        pages: number(21)?,
    })
}

/// For how long a thread ran, and was ready and did not run, ns.
fn schedstat(text: &str) -> Option<[u64; 2]> {
    let mut fields = text.split_ascii_whitespace();
    Some([fields.next()?.parse().ok()?, fields.next()?.parse().ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_is_read() {
        let text =
            "7 (a) b (c) S 1 7 7 0 -1 4194560 9 0 0 0 120 30 0 0 20 0 5 0 100 1000 250 184467";
        let stat = stat(text).expect("well formed");
        assert_eq!((stat.name, stat.state, stat.parent), ("a) b (c", b'S', 1));
        assert_eq!(
            (stat.user, stat.system, stat.threads, stat.pages),
            (120, 30, 5, 250)
        );
    }

    #[test]
    fn writers_are_known_by_their_trace_files() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in [
            "r0-p123-0a1b2c3d.trace",
            "p456-0a1b2c3d.trace",
            "r1-p7-00000000.snap",
            "x",
        ] {
            std::fs::write(folder.path().join(name), "").expect("written");
        }
        assert_eq!(writers(folder.path()), BTreeSet::from([123, 456]));
    }

    #[test]
    fn a_child_is_found_and_its_thread_watched() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleeps");
        let mut processes = Processes::new();
        processes.find(std::process::id(), &BTreeSet::new());
        let of = child.id().to_string();
        let mut found = Vec::new();
        processes.read(&mut |name, pid, value| found.push((name, pid.to_owned(), value)));
        processes.read_threads(&mut |name, pid, value| found.push((name, pid.to_owned(), value)));
        let mut watched = Vec::new();
        processes.read_watched(&mut |name, thread, _| watched.push((name, thread.to_owned())));
        child.kill().expect("killed");
        child.wait().expect("reaped");
        let threads = found
            .iter()
            .find(|(name, pid, _)| *name == "process_threads" && *pid == of);
        assert_eq!(threads.map(|(.., value)| *value), Some(1));
        let thread = format!("{of}/{of}/");
        assert!(watched
            .iter()
            .any(|(name, of)| *name == "thread_running_ns" && of.starts_with(&thread)));
        // Its parent's main thread is another one in tests, so this must not find it and must not fail.
        processes.find_children(std::process::id());
        // It is gone when it is looked for again.
        processes.find(std::process::id(), &BTreeSet::new());
        assert!(!processes.found.contains_key(&child.id()));
    }
}
