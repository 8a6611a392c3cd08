//! Finds processes that came or ended, and sets probes in them.

use super::watched::{Plan, Watched};
use super::{Probed, Seen, Session, Targets, ANY};
use crate::library::Library;
use crate::probes::{has_capability, kernel, Refusal, Which, SYS_PTRACE};
use crate::processes;
use crate::readers::{Answer, Facts, Process};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After so long, an answer of a reader is late.
const LATE: Duration = Duration::from_secs(1);

/// A process that was asked for its libraries.
pub(super) struct Asked {
    start: u64,
    name: String,
    /// Its address space at that time.
    bytes: u64,
    /// It had grown since the time before. A library may have been half loaded, so it is asked again.
    had_grown: bool,
    at: Instant,
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

impl Session {
    /// Whether probes are at a file, for all processes.
    pub(super) fn is_shared(&self) -> bool {
        self.options.targets == Targets::All && processes::sees_all() || !self.probes.by_process
    }

    /// Whether a process that is watched is not there any more.
    pub(super) fn has_ended(&self, index: usize) -> bool {
        self.watched[index].as_ref().is_some_and(|watched| {
            let stat = processes::stat(watched.pid);
            stat.is_none_or(|stat| stat.ended || stat.start != watched.start)
        })
    }

    /// Looks for processes that came or ended.
    pub(super) fn look(&mut self) {
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
        self.asked.retain(|pid, _| all.contains_key(pid));
        let (me, ask_again) = (std::process::id(), self.options.ask_again);
        for pid in candidates.into_iter().filter(|pid| *pid != me) {
            let Some(stat) = processes::stat(pid).filter(|stat| !stat.ended) else {
                continue;
            };
            let now = Instant::now();
            let before = self.asked.get(&pid);
            let before = before.filter(|b| (b.start, &b.name) == (stat.start, &stat.name));
            let has_grown = before.is_none_or(|b| stat.bytes > b.bytes);
            // To ask takes a look at each file that it has loaded. A library that is loaded makes it larger
            // than it was, unless as much was freed.
            if before.is_some_and(|b| !has_grown && !b.had_grown && now < b.at + ask_again) {
                continue;
            }
            if !self.readers.ask((pid, stat.start)) {
                continue;
            }
            let asked = Asked {
                start: stat.start,
                name: stat.name,
                bytes: stat.bytes,
                had_grown: has_grown,
                at: now,
            };
            self.asked.insert(pid, asked);
        }
    }

    /// Takes answers of readers until all are there, or that about `last`, or this time is over, and sets
    /// probes.
    pub(super) fn take_answers(&mut self, last: Option<Process>, within: Duration) {
        for answer in self.readers.until(last, within) {
            let (pid, start) = answer.process;
            // Another process may have its number by now.
            if processes::stat(pid).is_some_and(|stat| !stat.ended && stat.start == start) {
                self.take_answer(answer);
            }
        }
    }

    /// Says of which processes nothing is known because their files are not read yet.
    pub(super) fn tell_unanswered(&mut self) {
        // Of one that is recorded, nothing but a library that it loaded later is missed.
        for (user, mut late) in self.readers.unanswered(LATE) {
            for pids in [&mut late.reading, &mut late.waiting] {
                pids.retain(|pid| !self.by_pid.contains_key(pid));
                pids.sort_unstable();
            }
            for pid in late.reading {
                self.troubles.push(format!(
                    "process {pid}: the files that it has loaded were not read until now, so it was not \
                     recorded. They are very large, or their file system does not answer"
                ));
            }
            match late.waiting.as_slice() {
                [] => {}
                [pid] => self.troubles.push(format!(
                    "process {pid} of user {user} waits for these, and was not recorded either"
                )),
                [first, .., last] => self.troubles.push(format!(
                    "{} processes of user {user} from {first} to {last} wait for these, and were not \
                     recorded either",
                    late.waiting.len()
                )),
            }
        }
    }

    /// Watches a process that has NCCL, and sets probes.
    fn take_answer(&mut self, answer: Answer) {
        let (pid, start) = answer.process;
        self.troubles.extend(answer.troubles);
        let libraries = match answer.found {
            Ok(libraries) => libraries,
            Err(error) => {
                let named =
                    matches!(&self.options.targets, Targets::Trees(roots) if roots.contains(&pid));
                if named && error.kind() == io::ErrorKind::PermissionDenied {
                    let helps = if has_capability(SYS_PTRACE) {
                        "although attach has CAP_SYS_PTRACE: a container or a security module forbids it"
                    } else {
                        "CAP_SYS_PTRACE helps, or its user's id"
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
        let Some(facts) = answer.facts else {
            return;
        };
        let Some(index) = self.add(pid, start, &libraries, facts) else {
            return;
        };
        for library in libraries {
            let is_new = |watched: &Watched| watched.libraries.iter().all(|l| l.id != library.id);
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

    fn attach(&mut self, index: usize, library: &Arc<Library>) -> Result<(), Refusal> {
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
            if self.shared.iter().any(|(known, _)| known.id == library.id) {
                return Ok(());
            }
            self.probes.attach(library, None, ANY, slow)?
        } else if self.probes.by_process {
            self.probes.attach(library, Some(pid), index as u32, slow)?
        } else {
            let watch = self.probes.watch(pid);
            watch.map_err(|error| Refusal::Other(error.to_string()))?;
            if self.shared.iter().any(|(known, _)| known.id == library.id) {
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
        if is_shared {
            self.shared.push((library.clone(), links))
        } else {
            watched.links.push(links)
        }
        Ok(())
    }

    /// Begins to watch a process; its index.
    pub(super) fn add(
        &mut self,
        pid: u32,
        start: u64,
        libraries: &[Arc<Library>],
        facts: Facts,
    ) -> Option<usize> {
        if let Some(index) = self.by_pid.get(&pid) {
            return Some(*index);
        }
        match self.make(pid, start, libraries, facts) {
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

    fn make(
        &self,
        pid: u32,
        start: u64,
        libraries: &[Arc<Library>],
        facts: Facts,
    ) -> io::Result<Watched> {
        let id = random()?;
        let Facts {
            lines: mut facts,
            own,
            rank,
        } = facts;
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
        if !self.options.slow {
            let slow: BTreeSet<&str> = libraries
                .iter()
                .flat_map(|library| library.slow())
                .collect();
            let slow: Vec<&str> = slow.into_iter().collect();
            line("not_recorded", &slow.join(","));
        }
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
}
