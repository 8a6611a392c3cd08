//! Probes that have BPF programs run: maps and programs in the kernel, and the links between places and them.
//!
//! The programs put finished events into one ring, so nothing is left to do here but to hand them out.
//!
//! Rule: links at return are set before those at entry, and taken away after them. So a call that began with
//! a probe has its return seen, if it returns in time.

use crate::btf;
use crate::event::Stretch;
use crate::object_file::{self, Value};
use crate::probes::{Losses, Refusal};
use crate::ring::Ring;
use crate::sys::{self, Map, MapKind, ProbePoint, Runs, Way};
use std::io;
use std::os::fd::OwnedFd;

/// Processes that may be watched, or lose calls.
const MOST_PROCESSES: u32 = 65_536;
/// Inits that are under way at once.
const MOST_INITS: u32 = 8192;
/// Threads that call NCCL, if the scheduler is watched.
const MOST_THREADS: u32 = 32_768;

/// Maps and programs, before any probe.
pub struct Programs {
    way: Way,
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

/// Links to the places of one library.
#[derive(Default)]
pub struct Linked {
    pub entry: Vec<OwnedFd>,
    at_return: Vec<OwnedFd>,
}

impl Programs {
    /// Loads them, with a ring of so many bytes, a power of two.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn load(ring_bytes: usize, way: Way) -> io::Result<Programs> {
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
        Ok(Programs {
            way,
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

    /// Sets probes at these places of a file.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn link(&self, path: &str, places: &[ProbePoint], process: u32) -> io::Result<Linked> {
        let mut links = Linked::default();
        for is_return in [true, false] {
            let (program, to) = if is_return {
                (&self.at_return, &mut links.at_return)
            } else {
                (&self.entry, &mut links.entry)
            };
            match self.way {
                Way::Multi => to.push(sys::link_multi(program, path, places, is_return, process)?),
                _ => {
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
        let key = process.to_ne_bytes();
        self.watched.put(&key, &1u32.to_ne_bytes())
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
