//! Which event each callback belongs to: what joins the callbacks of a capture in `callbacks` mode.
//!
//! NCCL hands back the handle that `startEvent` gave, and passes it as the parent of other events. A
//! [`Follower`] goes through the callbacks of one process in order, and numbers its events from 1. It finds
//! the event of each stop and state, and the parent of each start. [`Index`] has what must be known before:
//! who each thread is, which communicator a context is, and for which process a network operation was done
//! (PXN).
//!
//! Rule: a handle names the newest start that gave it. Context and parent of another process's network
//! operation are names of that process, and are looked up there.

use crate::process::Process;
use crate::{reading, Capture};
use capture::callback::{self, Callback, EntryPoint};
use capture::rows::Ticks;
use nccl_abi::{event, v1, v7};
use std::collections::{BTreeMap, HashMap};
use std::mem::offset_of;

/// What a thread does for NCCL, by the events that it sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadRole {
    /// It calls NCCL.
    Caller,
    /// It launches what others called: NCCL's own thread of a nonblocking communicator, or the CUDA driver's
    /// thread for host callbacks.
    Launcher,
    /// NCCL's thread that moves data over the network. Up to 2.30 it also reads kernels' stamps.
    Proxy,
    /// NCCL's thread that reads kernels' stamps, from 2.31 on.
    Profiler,
    /// A thread of the network plugin.
    Network,
    /// It only made or ended communicators.
    Setup,
}

impl ThreadRole {
    /// As exports write it.
    pub fn name(self) -> &'static str {
        match self {
            ThreadRole::Caller => "caller",
            ThreadRole::Launcher => "launcher",
            ThreadRole::Proxy => "proxy",
            ThreadRole::Profiler => "profiler",
            ThreadRole::Network => "network",
            ThreadRole::Setup => "setup",
        }
    }

    /// By the bits of all events that the thread started, and the ABI.
    fn of(bits: u64, abi: u8) -> ThreadRole {
        let any = |wanted: u64| bits & wanted != 0;
        // Below ABI v5, calls are not announced.
        let called = if abi < 5 {
            event::GROUP | event::COLL | event::P2P
        } else {
            event::GROUP_API | event::COLL_API | event::P2P_API
        };
        let launched =
            event::GROUP | event::COLL | event::P2P | event::KERNEL_LAUNCH | event::CE_COLL;
        if any(event::PROXY_OP | event::PROXY_STEP | event::PROXY_CTRL) {
            ThreadRole::Proxy
        } else if any(called) {
            ThreadRole::Caller
        } else if any(launched) {
            ThreadRole::Launcher
        } else if any(event::KERNEL_CH | event::KERNEL_PHASE) {
            ThreadRole::Profiler
        } else if any(event::NET_PLUGIN) {
            ThreadRole::Network
        } else {
            ThreadRole::Setup
        }
    }
}

/// A thread that called the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The operating system's id; nothing in captures of recorders before 0.1.
    pub id: Option<u32>,
    /// Its name.
    pub name: Option<String>,
    /// What it does.
    pub role: ThreadRole,
}

/// An event of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// Index of the process in the capture; nothing if the capture lacks it.
    pub process: Option<usize>,
    /// Number of its event; nothing if it is not known.
    pub event: Option<u64>,
}

/// What is known of one process's callbacks before they are gone through.
#[derive(Clone, Debug, Default)]
pub struct OfProcess {
    /// Threads by their number in the capture.
    pub threads: BTreeMap<u32, Thread>,
    /// By number of a network operation that was done for another process: that process's event.
    pub foreign: HashMap<u64, Elsewhere>,
    /// Numbers of communicators by context.
    pub communicators: HashMap<u64, u32>,
    /// The newest time.
    pub last_ticks: Ticks,
}

/// What is known of all processes.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// In the order of the capture's processes.
    pub processes: Vec<OfProcess>,
}

/// What a callback belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Belongs {
    /// Number of its event.
    pub event: Option<u64>,
    /// Of a start: the number of the parent in this process.
    pub parent: Option<u64>,
    /// Of a start: whether it is work for another process.
    pub is_foreign: bool,
}

/// The type of a start, as one bit.
pub fn kind(callback: &Callback<'_>) -> u64 {
    let at = offset_of!(v7::Descr, type_);
    match callback.abi {
        // The seven bytes after a type of v1 to v4 are uninitialised.
        ..5 => callback.payload.get(at).map_or(0, |b| u64::from(*b)),
        _ => word(callback.payload, at).unwrap_or(0),
    }
}

/// The parent's handle of a start, which has the same place in every version.
pub fn parent(callback: &Callback<'_>) -> u64 {
    word(callback.payload, offset_of!(v7::Descr, parent_obj)).unwrap_or(0)
}

/// The process that a network operation is for, by its id.
pub fn origin_pid(callback: &Callback<'_>) -> Option<u32> {
    // The same place in every version.
    let at = offset_of!(v1::Descr, u.proxy_op.pid);
    let pid = callback.payload.get(at..at + 4)?.try_into().ok()?;
    (callback.what == EntryPoint::Start && kind(callback) == event::PROXY_OP)
        .then(|| u32::from_le_bytes(pid))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at + 8)?.try_into().ok()?;
    Some(u64::from_le_bytes(word))
}

/// Goes through the callbacks of one process.
#[derive(Debug)]
pub struct Follower {
    pid: u32,
    count: u64,
    by_handle: HashMap<u64, u64>,
}

impl Follower {
    /// Before the first callback of a process.
    pub fn new(process: &Process) -> Follower {
        Follower {
            pid: process.pid,
            count: 0,
            by_handle: HashMap::new(),
        }
    }

    /// What the next callback belongs to.
    pub fn next(&mut self, callback: &Callback<'_>) -> Belongs {
        match callback.what {
            EntryPoint::Start => {
                let is_foreign = origin_pid(callback).is_some_and(|pid| pid != self.pid);
                let known = || self.by_handle.get(&parent(callback)).copied();
                let parent = if is_foreign { None } else { known() };
                self.count += 1;
                self.by_handle.insert(callback.result, self.count);
                Belongs {
                    event: Some(self.count),
                    parent,
                    is_foreign,
                }
            }
            EntryPoint::Stop | EntryPoint::State => Belongs {
                event: self.by_handle.get(&callback.subject).copied(),
                ..Belongs::default()
            },
            _ => Belongs::default(),
        }
    }
}

/// A network operation that a process did for another one.
struct Foreign {
    process: usize,
    number: u64,
    /// Of the other process.
    origin: Option<usize>,
    parent: u64,
    at: Option<i64>,
}

/// When events were started, and their numbers, by process and handle.
type Starts = HashMap<(usize, u64), Vec<(Option<i64>, u64)>>;

impl Capture {
    /// Hands every callback of one process to `each`, with what it belongs to, in order.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn follow<E>(
        &self,
        process: usize,
        mut each: impl FnMut(Callback<'_>, Belongs) -> Result<(), E>,
    ) -> Result<(), E> {
        let of = &self.processes[process];
        let mut follower = Follower::new(of);
        let mut result = Ok(());
        reading::callback_blocks(&self.absolute(of), |payload| {
            for callback in callback::read(payload) {
                if result.is_ok() {
                    let link = follower.next(&callback);
                    result = each(callback, link);
                }
            }
        });
        result
    }

    /// What is known of the callbacks before they are gone through.
    pub fn events(&self) -> Index {
        let mut foreign = Vec::new();
        let all = 0..self.processes.len();
        let mut index = Index {
            processes: all.map(|p| self.first_look(p, &mut foreign)).collect(),
        };
        let parents = self.starts_of(&foreign);
        for of in &foreign {
            let starts = of.origin.and_then(|p| parents.get(&(p, of.parent)));
            // The newest that began before. Processes of one host have one clock.
            let before = |(at, _): &&(Option<i64>, u64)| *at <= of.at;
            let found = starts.and_then(|s| s.iter().rfind(before).or(s.first()));
            let elsewhere = Elsewhere {
                process: of.origin,
                event: found.map(|(_, number)| *number),
            };
            index.processes[of.process]
                .foreign
                .insert(of.number, elsewhere);
        }
        index
    }

    fn first_look(&self, process: usize, foreign: &mut Vec<Foreign>) -> OfProcess {
        let of = &self.processes[process];
        let mut found = OfProcess::default();
        let mut started: BTreeMap<u32, (u64, u8)> = BTreeMap::new();
        let mut named: BTreeMap<u32, (u32, String)> = BTreeMap::new();
        let mut inits: HashMap<(u64, i32), u32> = HashMap::new();
        let mut count = 0;
        let Ok(()) = self.follow(process, |callback, link| {
            found.last_ticks = found.last_ticks.max(callback.ticks);
            let bits = started.entry(callback.thread).or_default();
            bits.1 = callback.abi;
            match callback.what {
                EntryPoint::Start => bits.0 |= kind(&callback),
                EntryPoint::Thread => {
                    let name = String::from_utf8_lossy(callback.payload).into_owned();
                    named.insert(callback.thread, (callback.subject as u32, name));
                }
                EntryPoint::Init => {
                    let hash = word(callback.payload, 0).unwrap_or(0);
                    let rank = word(callback.payload, 16).map_or(-1, |w| w as i32);
                    let earlier = inits.entry((hash, rank)).or_default();
                    // Below ABI v4, init tells nothing, and communicators are numbered as they are made.
                    let uid = if hash == 0 {
                        count += 1;
                        Some(count)
                    } else {
                        let is = |local: &&crate::communicators::Local| {
                            (local.hash, local.generation) == (hash, *earlier)
                                && local.rank == u32::try_from(rank).ok()
                        };
                        of.communicators.iter().find(is).map(|local| local.uid)
                    };
                    *earlier += 1;
                    found
                        .communicators
                        .extend(uid.map(|uid| (callback.result, uid)));
                }
                _ => {}
            }
            if let (true, Some(number)) = (link.is_foreign, link.event) {
                let is = |other: &Process| {
                    other.clock_host() == of.clock_host()
                        && Some(other.pid) == origin_pid(&callback)
                };
                foreign.push(Foreign {
                    process,
                    number,
                    origin: self.processes.iter().position(is),
                    parent: parent(&callback),
                    at: of.clock.realtime(callback.ticks),
                });
            }
            Ok::<(), std::convert::Infallible>(())
        });
        for (number, (bits, abi)) in started {
            let (id, name) = named.remove(&number).unzip();
            let role = ThreadRole::of(bits, abi);
            found.threads.insert(number, Thread { id, name, role });
        }
        found
    }

    /// When, and with which numbers, the parents of these network operations were started, by process and
    /// handle.
    fn starts_of(&self, foreign: &[Foreign]) -> Starts {
        let wanted = foreign
            .iter()
            .filter_map(|of| Some((of.origin?, of.parent)));
        let mut starts: Starts = wanted.map(|key| (key, Vec::new())).collect();
        for (process, of) in self.processes.iter().enumerate() {
            if !starts.keys().any(|(p, _)| *p == process) {
                continue;
            }
            let Ok(()) = self.follow(process, |callback, link| {
                if let (EntryPoint::Start, Some(number)) = (callback.what, link.event) {
                    if let Some(list) = starts.get_mut(&(process, callback.result)) {
                        list.push((of.clock.realtime(callback.ticks), number));
                    }
                }
                Ok::<(), std::convert::Infallible>(())
            });
        }
        starts
    }
}

impl Index {
    /// The communicator's number in a process, by the context of an event.
    pub fn communicator(&self, process: usize, context: u64) -> Option<u32> {
        self.processes[process].communicators.get(&context).copied()
    }

    /// Network operations that processes did for others.
    pub fn foreign(&self) -> usize {
        self.processes.iter().map(|p| p.foreign.len()).sum()
    }
}
