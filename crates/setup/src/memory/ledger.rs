//! From lines to the memory of each communicator: who allocated, in which step, and what came again.

use super::{Allocation, Connection, Memory, MemoryKind, Sizes, GRANULE};
use crate::log::LogLine;
use std::collections::BTreeMap;

/// What was allocated behind the last step that has a name.
pub(super) const LATER: &str = "later";

/// Host and process.
type Process = (String, u32);

/// A communicator of one rank, while lines are read.
#[derive(Clone)]
struct Comm {
    process: Process,
    device: Option<u32>,
    /// NCCL's pointer, as it prints it.
    comm: u64,
    is_ready: bool,
    /// The thread that serves its connections.
    proxy: Option<u32>,
    memory: Memory,
}

/// Who owns an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The communicator with this index.
    Comm(usize),
    /// No one can tell.
    Unknown,
}

/// Gathers the memory of communicators from lines.
#[derive(Clone, Default)]
pub struct Ledger {
    comms: Vec<Comm>,
    /// The communicator that a thread makes now.
    making: BTreeMap<(Process, u32), usize>,
    /// Threads that serve a communicator.
    proxies: BTreeMap<(Process, u32), usize>,
    /// By process, kind and place: who has it, in which step, and how much.
    live: BTreeMap<(Process, MemoryKind, String), (Owner, usize, u64)>,
    /// What threads allocated lately that make no communicator, or will only say so in their next lines.
    lately: BTreeMap<(Process, u32), Vec<(MemoryKind, String)>>,
    unowned: BTreeMap<Process, Sizes>,
    /// By process: the communicator for which a proxy allocated last.
    served: BTreeMap<Process, usize>,
}

impl Ledger {
    /// A thread begins to make a communicator. Returns its number, in the order of these calls.
    pub fn begin(&mut self, line: &LogLine, device: Option<u32>, comm: u64) -> usize {
        let process = process(line);
        let index = self.comms.len();
        self.comms.push(Comm {
            process: process.clone(),
            device,
            comm,
            is_ready: false,
            proxy: None,
            memory: Memory::default(),
        });
        let thread = (process.clone(), line.tid);
        self.making.insert(thread.clone(), index);
        // NCCL allocates before it says that it begins.
        for (kind, at) in self.lately.remove(&thread).unwrap_or_default() {
            let place = (process.clone(), kind, at);
            if let Some((_, _, bytes)) = self.live.get(&place).copied() {
                self.put(place, Owner::Comm(index), bytes);
            }
        }
        index
    }

    /// The communicator is made.
    pub fn end(&mut self, line: &LogLine, index: usize) {
        self.making.remove(&(process(line), line.tid));
        if let Some(comm) = self.comms.get_mut(index) {
            comm.is_ready = true;
            comm.memory.close("init");
        }
    }

    /// Takes any other line.
    pub fn add(&mut self, line: &LogLine) {
        let text = line.text.trim_end();
        if let Some(allocation) = Allocation::parse(text) {
            self.allocate(line, &allocation);
        } else if let Some(rest) = text.strip_prefix("[Proxy Service] Device ") {
            // The thread has no device of its own yet, so the line begins with any.
            let device = rest.split_whitespace().next().and_then(|n| n.parse().ok());
            self.bind(&LogLine { device, ..*line });
        } else if let Some(what) = text.strip_prefix("Connected ") {
            self.connected(line, what);
        } else if let Some(rest) = text.strip_prefix("NVLS comm ") {
            self.nvls(line, rest);
        } else if text.ends_with(" COMPLETE") && text.starts_with("comm ") {
            self.destroyed(line, text);
        } else if let Some(connection) = Connection::parse(text) {
            if let Some(index) = self.connecting(line) {
                self.comms[index].memory.connect(connection);
            }
        }
    }

    /// The memory of each communicator by its number, and what is of no one of them.
    pub fn finish(self) -> (Vec<Memory>, BTreeMap<Process, Sizes>) {
        let memories = self.comms.into_iter().map(|comm| {
            let mut memory = comm.memory;
            memory.close(LATER);
            memory.unite();
            memory.connections.sort();
            memory.connections.dedup();
            memory
        });
        (memories.collect(), self.unowned)
    }

    fn allocate(&mut self, line: &LogLine, allocation: &Allocation) {
        let (kind, at) = (allocation.kind, allocation.at.to_owned());
        let thread = (process(line), line.tid);
        let owner = self.owner(line);
        self.put(
            (thread.0.clone(), kind, at.clone()),
            owner,
            allocation.bytes,
        );
        if let Some(index) = self.proxies.get(&thread) {
            self.served.insert(thread.0.clone(), *index);
        }
        if let (Owner::Comm(index), Some(at_s)) = (owner, line.at_s) {
            let between = &mut self.comms[index].memory.between_s;
            let first = between.map_or(at_s, |(first, _)| first);
            *between = Some((first, at_s));
        }
        if !self.making.contains_key(&thread) && !self.proxies.contains_key(&thread) {
            self.lately.entry(thread).or_default().push((kind, at));
        }
    }

    fn put(&mut self, place: (Process, MemoryKind, String), owner: Owner, bytes: u64) {
        let (process, kind) = (place.0.clone(), place.1);
        // What was at this place is free, or this is a second line about it.
        if let Some((owner, step, bytes)) = self.live.get(&place).copied() {
            let size = match owner {
                Owner::Comm(index) => self.comms[index].memory.steps[step].sizes.of(kind),
                Owner::Unknown => self.unowned.entry(process.clone()).or_default().of(kind),
            };
            *size = size.saturating_sub(bytes);
        }
        let (size, step) = match owner {
            Owner::Comm(index) => {
                let memory = &mut self.comms[index].memory;
                memory.proceed();
                let step = memory.open();
                (memory.steps[step].sizes.of(kind), step)
            }
            Owner::Unknown => (self.unowned.entry(process).or_default().of(kind), 0),
        };
        *size = size.saturating_add(bytes);
        self.live.insert(place, (owner, step, bytes));
    }

    /// Communicators of the line's process and device that are not destroyed.
    fn there(&self, line: &LogLine) -> impl Iterator<Item = usize> + '_ {
        let (process, device) = (process(line), line.device);
        let fits = move |comm: &Comm| {
            let elsewhere = device.is_some() && comm.device.is_some() && comm.device != device;
            comm.process == process && !elsewhere && !comm.memory.is_gone
        };
        let comms = self.comms.iter().enumerate();
        comms
            .filter(move |(_, comm)| fits(comm))
            .map(|(index, _)| index)
    }

    /// Whose a line of this thread is.
    fn owner(&self, line: &LogLine) -> Owner {
        let thread = (process(line), line.tid);
        if let Some(index) = self.making.get(&thread).or(self.proxies.get(&thread)) {
            return Owner::Comm(*index);
        }
        only(self.there(line)).map_or(Owner::Unknown, Owner::Comm)
    }

    /// The communicator that the thread connects. If several fit, it is the one for which a proxy allocated
    /// last, because NCCL allocates for what comes in before it prints what goes out.
    fn connecting(&self, line: &LogLine) -> Option<usize> {
        if let Owner::Comm(index) = self.owner(line) {
            return Some(index);
        }
        let last = self.served.get(&process(line)).copied();
        last.filter(|last| self.there(line).any(|index| index == *last))
    }

    /// The thread of the line serves the communicator that is being made there.
    fn bind(&mut self, line: &LogLine) {
        let lacks: Vec<usize> = self
            .there(line)
            .filter(|at| self.comms[*at].proxy.is_none())
            .collect();
        let made = lacks.iter().copied().filter(|at| !self.comms[*at].is_ready);
        let found = only(made).or_else(|| only(lacks.iter().copied()));
        if let Some(index) = found {
            self.comms[index].proxy = Some(line.tid);
            self.proxies.insert((process(line), line.tid), index);
        }
    }

    /// `all rings, use ring PXN 0 GDR 1`, `all trees`, `NVLS tree`, `binomial trees`.
    fn connected(&mut self, line: &LogLine, what: &str) {
        let what = what.split(',').next().unwrap_or(what);
        let name = what.strip_prefix("all ").unwrap_or(what).trim().to_owned();
        let Some(index) = self.connecting(line) else {
            return;
        };
        self.lately.remove(&(process(line), line.tid));
        // Connections that are made during the init are a part of it.
        if self.comms[index].is_ready {
            self.comms[index].memory.close(&name);
        }
    }

    /// `0x5580 headRank 0 nHeads 8 … nvlsTotalSize 50331648`: buffers for NVLink SHARP, which no other line
    /// has.
    fn nvls(&mut self, line: &LogLine, text: &str) {
        let mut words = text.split_whitespace();
        let comm = words.next().unwrap_or_default().to_owned();
        let size = words.skip_while(|word| *word != "nvlsTotalSize").nth(1);
        let Some(size) = size.and_then(|size| size.parse::<u64>().ok()) else {
            return;
        };
        let Some(size) = size.checked_next_multiple_of(GRANULE) else {
            return;
        };
        let pointer = pointer(&comm);
        let of = self
            .there(line)
            .find(|at| Some(self.comms[*at].comm) == pointer);
        if let Some(index) = of {
            let place = (process(line), MemoryKind::Gpu, format!("nvls {comm}"));
            self.put(place, Owner::Comm(index), size);
        }
    }

    /// `comm 0x5580 rank 0 nranks 8 cudaDev 0 busId 18000 - Destroy COMPLETE`.
    fn destroyed(&mut self, line: &LogLine, text: &str) {
        let pointer = text.split_whitespace().nth(1).and_then(pointer);
        let of = self
            .there(line)
            .find(|at| Some(self.comms[*at].comm) == pointer);
        if let Some(index) = of {
            self.comms[index].memory.is_gone = true;
            self.comms[index].memory.gone_s = line.at_s;
            self.comms[index].memory.close(LATER);
            if let Some(tid) = self.comms[index].proxy {
                self.proxies.remove(&(process(line), tid));
            }
            // What comes to its addresses later is no second line about them.
            let gone = |owner: &Owner| *owner == Owner::Comm(index);
            self.live.retain(|_, (owner, _, _)| !gone(owner));
        }
    }
}

fn process(line: &LogLine) -> Process {
    (line.host.to_owned(), line.pid)
}

fn pointer(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

/// The one of them, if there is exactly one.
fn only(mut all: impl Iterator<Item = usize>) -> Option<usize> {
    all.next().filter(|_| all.next().is_none())
}
