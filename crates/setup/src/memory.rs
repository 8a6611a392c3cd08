//! What NCCL says of the memory that it allocates, and for which communicator.
//!
//! [`Allocation::parse`] reads one line of the subsystem ALLOC. A [`Ledger`] takes the lines of all processes
//! in their order and gathers a [`Memory`] for each communicator and rank: what it held after its init, after
//! the first use of each algorithm, and at the end.
//!
//! NCCL names no communicator in these lines. The ledger knows three ways: the thread makes a communicator;
//! the thread is the proxy of one, which NCCL starts during its init; or the process has only one on that
//! device.
//!
//! Rule: a line that fits several communicators is added to none, but to [`Ledger::unowned`]. NCCL says
//! nothing of frees, so a sum is no less than what is held. A pointer that comes again was freed, and counts
//! once.

use crate::log::Line;
use std::collections::BTreeMap;

/// cuMem, through which NCCL allocates GPU memory, rounds up to this.
const GRANULE: u64 = 2 << 20;

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// On the GPU.
    Gpu,
    /// On the host, pinned for the GPU.
    Pinned,
    /// In /dev/shm.
    Shared,
}

/// Something that NCCL allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation<'a> {
    /// Where.
    pub kind: Kind,
    /// How much.
    pub bytes: u64,
    /// Its address or, in /dev/shm, its path: what tells it from others in the process.
    pub at: &'a str,
}

/// What stands before size and address, for each kind of line with both.
const SIZED: [(&str, Kind); 7] = [
    ("CUMEM Host Alloc Size ", Kind::Pinned),
    ("Cuda Host Alloc Size ", Kind::Pinned),
    ("Persistent host work buf Size ", Kind::Pinned),
    ("Cuda Alloc Size ", Kind::Gpu),
    ("Cuda Calloc Size ", Kind::Gpu),
    ("Cuda CallocAsync Size ", Kind::Gpu),
    ("Persistent cudaMallocAsync work buf Size ", Kind::Gpu),
];

impl<'a> Allocation<'a> {
    /// Of what NCCL said; `None` for another line, and for nothing allocated.
    pub fn parse(text: &'a str) -> Option<Allocation<'a>> {
        for (before, kind) in SIZED {
            if let Some((_, rest)) = text.split_once(before) {
                let (bytes, rest) = rest.split_once(" pointer ")?;
                return Allocation::new(kind, bytes, rest.split_whitespace().next()?);
            }
        }
        if let Some(rest) = text.strip_prefix("Allocated shareable buffer ") {
            let (at, rest) = rest.split_once(" size ")?;
            return Allocation::new(Kind::Gpu, rest.split_whitespace().next()?, at);
        }
        let (_, rest) = text.split_once("Allocated ")?;
        let (bytes, at) = rest.split_once(" bytes of shared memory in ")?;
        Allocation::new(Kind::Shared, bytes, at.trim_end())
    }

    fn new(kind: Kind, bytes: &str, at: &'a str) -> Option<Allocation<'a>> {
        let asked: u64 = bytes.trim().parse().ok()?;
        // cudaMalloc's small pieces share a granule; cuMem's addresses begin at one.
        let address = u64::from_str_radix(at.trim_start_matches("0x"), 16).ok();
        let bytes = match kind {
            Kind::Gpu if address.is_some_and(|at| at % GRANULE == 0) => {
                asked.checked_next_multiple_of(GRANULE)?
            }
            _ => asked,
        };
        (bytes > 0).then_some(Allocation { kind, bytes, at })
    }
}

/// Sizes of NCCL's buffers for one connection, by protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Of LL.
    pub ll: u64,
    /// Of LL128.
    pub ll128: u64,
    /// Of SIMPLE.
    pub simple: u64,
}

impl Buffers {
    /// NCCL's own sizes, if `set` gives no other for `NCCL_LL_BUFFSIZE`, `NCCL_LL128_BUFFSIZE` and
    /// `NCCL_BUFFSIZE`. They are the same in 2.22 to 2.30.
    pub fn new(set: impl Fn(&str) -> Option<u64>) -> Buffers {
        Buffers {
            ll: set("NCCL_LL_BUFFSIZE").unwrap_or(512 << 10),
            ll128: set("NCCL_LL128_BUFFSIZE").unwrap_or(4_915_200),
            simple: set("NCCL_BUFFSIZE").unwrap_or(4 << 20),
        }
    }

    /// GPU memory that a connection takes: at the sender, and at the receiver. Nothing is known of ways other
    /// than through the other GPU's memory.
    pub fn of(&self, connection: &Connection) -> Option<(u64, u64)> {
        /// Room for counters, at most.
        const HEAD: u64 = 4 << 10;
        let way = connection.way.strip_prefix("P2P/")?;
        let all = self.ll.checked_add(self.ll128)?.checked_add(HEAD)?;
        let (sender, receiver) = match way.contains("/read") {
            true => (self.simple.checked_add(HEAD)?, all),
            false => (HEAD, all.checked_add(self.simple)?),
        };
        let round = |bytes: u64| bytes.checked_next_multiple_of(GRANULE);
        Some((round(sender)?, round(receiver)?))
    }
}

/// Bytes by where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// On the GPU.
    pub gpu: u64,
    /// Pinned on the host.
    pub pinned: u64,
    /// In /dev/shm.
    pub shared: u64,
}

impl Sizes {
    fn of(&mut self, kind: Kind) -> &mut u64 {
        match kind {
            Kind::Gpu => &mut self.gpu,
            Kind::Pinned => &mut self.pinned,
            Kind::Shared => &mut self.shared,
        }
    }

    /// Adds other bytes.
    pub fn add(&mut self, other: Sizes) {
        self.gpu = self.gpu.saturating_add(other.gpu);
        self.pinned = self.pinned.saturating_add(other.pinned);
        self.shared = self.shared.saturating_add(other.shared);
    }
}

/// What was allocated up to some point in the life of a communicator, since the point before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// `init`; `rings`, `trees` and so on for the first use of an algorithm; `later` behind the last of
    /// these.
    pub name: String,
    /// What was allocated in it.
    pub sizes: Sizes,
}

/// A connection from this rank to another, or to this rank over the network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connection {
    /// From which rank.
    pub from: u32,
    /// To which.
    pub to: u32,
    /// The channel.
    pub channel: u32,
    /// 0 for collectives; 1 for send and receive.
    pub index: u32,
    /// NCCL's name for the way, such as `P2P/CUMEM`.
    pub way: String,
}

impl Connection {
    /// Of `Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM`.
    fn parse(text: &str) -> Option<Connection> {
        let (place, rest) = text.strip_prefix("Channel ")?.split_once(" : ")?;
        let (ranks, way) = rest.split_once(" via ")?;
        let (from, to) = ranks.split_once(" -> ")?;
        let rank = |text: &str| text.split('[').next()?.trim().parse().ok();
        let (channel, index) = place.split_once('/').unwrap_or((place, "0"));
        Some(Connection {
            from: rank(from)?,
            to: rank(to)?,
            channel: channel.trim().parse().ok()?,
            index: index.trim().parse().ok()?,
            way: way.split_whitespace().next()?.to_owned(),
        })
    }
}

/// The memory of one rank of one communicator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// By what it was allocated for, in the order of time; empty if NCCL said nothing of allocations.
    pub steps: Vec<Step>,
    /// Connections that the rank made, each once.
    pub connections: Vec<Connection>,
    /// Whether the communicator was destroyed.
    pub is_gone: bool,
    /// When the first and the last of it was allocated, seconds since 1970; nothing without times of day.
    pub between_s: Option<(f64, f64)>,
    /// When it was destroyed.
    pub gone_s: Option<f64>,
    /// Whether the step that is going on is the first sends and receives.
    is_pairs: bool,
    /// Connections whose memory has not been seen since their line.
    expected: u32,
}

impl Memory {
    /// All steps together.
    pub fn total(&self) -> Sizes {
        let mut total = Sizes::default();
        self.steps.iter().for_each(|step| total.add(step.sizes));
        total
    }

    /// The bytes of a step.
    pub fn step(&self, name: &str) -> Sizes {
        let mut sizes = Sizes::default();
        let steps = self.steps.iter().filter(|step| step.name == name);
        steps.for_each(|step| sizes.add(step.sizes));
        sizes
    }

    /// The step that is going on, which has no name yet.
    fn open(&mut self) -> usize {
        if self.steps.last().is_none_or(|step| !step.name.is_empty()) {
            self.steps.push(Step::default());
        }
        self.steps.len() - 1
    }

    /// Names what was allocated since the last step. Nothing was if there is no open one.
    fn close(&mut self, name: &str) {
        let name = if self.is_pairs { PAIRS } else { name };
        (self.is_pairs, self.expected) = (false, 0);
        if let Some(step) = self.steps.last_mut().filter(|step| step.name.is_empty()) {
            step.name = name.to_owned();
        }
    }

    /// Adds a connection. NCCL allocates for all that come in, then speaks of each that goes out and
    /// allocates for it. No line says that the sends and receives of a group are connected.
    fn connect(&mut self, connection: Connection) {
        self.is_pairs |= connection.index > 0;
        self.expected += 1;
        self.connections.push(connection);
    }

    /// Something is allocated, which may be the beginning of another step.
    fn proceed(&mut self) {
        match self.expected.checked_sub(1) {
            Some(left) => self.expected = left,
            None if self.is_pairs => self.close(PAIRS),
            None => {}
        }
    }

    /// Makes one step of neighbours with one name, and none of those in which nothing stayed.
    fn unite(&mut self) {
        self.steps.retain(|step| step.sizes != Sizes::default());
        self.steps.dedup_by(|later, first| {
            let same = later.name == first.name;
            if same {
                first.sizes.add(later.sizes);
            }
            same
        });
    }
}

/// The step of the first sends and receives.
pub const PAIRS: &str = "send and receive";
/// What was allocated behind the last step that has a name.
const LATER: &str = "later";

/// Host and process.
type Process = (String, u32);

/// A communicator of one rank, while lines are read.
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
#[derive(Default)]
pub struct Ledger {
    comms: Vec<Comm>,
    /// The communicator that a thread makes now.
    making: BTreeMap<(Process, u32), usize>,
    /// Threads that serve a communicator.
    proxies: BTreeMap<(Process, u32), usize>,
    /// By process, kind and place: who has it, in which step, and how much.
    live: BTreeMap<(Process, Kind, String), (Owner, usize, u64)>,
    /// What threads allocated lately that make no communicator, or will only say so in their next lines.
    lately: BTreeMap<(Process, u32), Vec<(Kind, String)>>,
    unowned: BTreeMap<Process, Sizes>,
    /// By process: the communicator for which a proxy allocated last.
    served: BTreeMap<Process, usize>,
}

impl Ledger {
    /// A thread begins to make a communicator. Returns its number, in the order of these calls.
    pub fn begin(&mut self, line: &Line, device: Option<u32>, comm: u64) -> usize {
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
    pub fn end(&mut self, line: &Line, index: usize) {
        self.making.remove(&(process(line), line.tid));
        if let Some(comm) = self.comms.get_mut(index) {
            comm.is_ready = true;
            comm.memory.close("init");
        }
    }

    /// Takes any other line.
    pub fn add(&mut self, line: &Line) {
        let text = line.text.trim_end();
        if let Some(allocation) = Allocation::parse(text) {
            self.allocate(line, &allocation);
        } else if let Some(rest) = text.strip_prefix("[Proxy Service] Device ") {
            // The thread has no device of its own yet, so the line begins with any.
            let device = rest.split_whitespace().next().and_then(|n| n.parse().ok());
            self.bind(&Line { device, ..*line });
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

    fn allocate(&mut self, line: &Line, allocation: &Allocation) {
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

    fn put(&mut self, place: (Process, Kind, String), owner: Owner, bytes: u64) {
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
    fn there(&self, line: &Line) -> impl Iterator<Item = usize> + '_ {
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
    fn owner(&self, line: &Line) -> Owner {
        let thread = (process(line), line.tid);
        if let Some(index) = self.making.get(&thread).or(self.proxies.get(&thread)) {
            return Owner::Comm(*index);
        }
        only(self.there(line)).map_or(Owner::Unknown, Owner::Comm)
    }

    /// The communicator that the thread connects. If that could be several, it is the one for which a proxy
    /// allocated last: NCCL has memory allocated for what comes in, and then speaks of what goes out.
    fn connecting(&self, line: &Line) -> Option<usize> {
        if let Owner::Comm(index) = self.owner(line) {
            return Some(index);
        }
        let last = self.served.get(&process(line)).copied();
        last.filter(|last| self.there(line).any(|index| index == *last))
    }

    /// The thread of the line serves the communicator that is being made there.
    fn bind(&mut self, line: &Line) {
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
    fn connected(&mut self, line: &Line, what: &str) {
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
    fn nvls(&mut self, line: &Line, text: &str) {
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
            let place = (process(line), Kind::Gpu, format!("nvls {comm}"));
            self.put(place, Owner::Comm(index), size);
        }
    }

    /// `comm 0x5580 rank 0 nranks 8 cudaDev 0 busId 18000 - Destroy COMPLETE`.
    fn destroyed(&mut self, line: &Line, text: &str) {
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

fn process(line: &Line) -> Process {
    (line.host.to_owned(), line.pid)
}

fn pointer(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

/// The one of them, if there is exactly one.
fn only(mut all: impl Iterator<Item = usize>) -> Option<usize> {
    all.next().filter(|_| all.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{read, Reader};

    const MIB: u64 = 1 << 20;

    fn line(tid: u32, text: &str) -> String {
        format!("n1:100:{tid} [0] NCCL INFO {text}\n")
    }

    fn state(tid: u32, comm: u32, what: &str) -> String {
        let text = format!(
            "ncclCommInitRank comm {comm:#x} rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 18000 commId {comm:#x}"
        );
        line(tid, &format!("{text} - Init {what}"))
    }

    #[test]
    fn every_kind_of_line_is_read() {
        let cases = [
            (
                "channel.cc:42 Cuda Alloc Size 1152 pointer 0x7f2a26000000",
                Kind::Gpu,
                2 * MIB,
            ),
            (
                "channel.cc:42 Cuda Alloc Size 1152 pointer 0x7f2a26000200",
                Kind::Gpu,
                1152,
            ),
            (
                "init.cc:1 (f) Cuda Calloc Size 5 pointer 0x200000 memType 0",
                Kind::Gpu,
                2 * MIB,
            ),
            (
                "Allocated shareable buffer 0x7f2a00000000 size 9637888 ipcDesc 0x1",
                Kind::Gpu,
                10 * MIB,
            ),
            (
                "CUMEM Host Alloc Size 2097152 pointer 0x9 handle 1 numa 0 dev 0 granularity 2",
                Kind::Pinned,
                2 * MIB,
            ),
            (
                "transport/net.cc:917 Cuda Host Alloc Size 1024 pointer 0x9",
                Kind::Pinned,
                1024,
            ),
            (
                "Allocated 33030144 bytes of shared memory in /dev/shm/nccl-x1",
                Kind::Shared,
                33_030_144,
            ),
        ];
        for (text, kind, bytes) in cases {
            let found = Allocation::parse(text).map(|a| (a.kind, a.bytes));
            assert_eq!(found, Some((kind, bytes)), "{text}");
        }
        for text in [
            "Mem Realloc old size 0, new size 8 pointer 0x1",
            "net_ib.cc:1 Ib Alloc Size 4096 pointer 0x1",
            "x.cc:1 Cuda Alloc Size 0 pointer (nil)",
            "x.cc:1 Cuda Alloc Size -1 pointer 0x1",
            "Allocated shareable buffer",
            "x.cc:1 Cuda Alloc Size 18446744073709551615 pointer 0x200000",
        ] {
            assert_eq!(Allocation::parse(text), None, "{text}");
        }
    }

    #[test]
    fn each_communicator_has_what_its_threads_and_its_proxy_allocate() {
        let log = [
            line(7, "a.cc:1 Cuda Alloc Size 1 pointer 0x200000"),
            state(7, 0x10, "START"),
            line(8, "[Proxy Service] Device 0 CPU core 3"),
            line(
                8,
                "Allocated shareable buffer 0x400000 size 4194304 ipcDesc 0x1",
            ),
            state(7, 0x10, "COMPLETE"),
            line(9, "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"),
            line(9, "a.cc:1 Cuda Alloc Size 1 pointer 0x800000"),
            line(
                8,
                "Allocated shareable buffer 0xa00000 size 10000000 ipcDesc 0x1",
            ),
            line(9, "Connected all rings, use ring PXN 0 GDR 1"),
            line(10, "Channel 00/1 : 0[0] -> 1[1] via P2P/CUMEM"),
            line(
                8,
                "Allocated shareable buffer 0x2000000 size 10000000 ipcDesc 0x1",
            ),
            state(7, 0x20, "START"),
            line(11, "[Proxy Service] Device 0 CPU core 3"),
            line(
                11,
                "Allocated shareable buffer 0x4000000 size 4194304 ipcDesc 0x1",
            ),
            state(7, 0x20, "COMPLETE"),
            line(8, "Allocated shareable buffer 0x6000000 size 1 ipcDesc 0x1"),
            // Either of them.
            line(12, "a.cc:1 Cuda Host Alloc Size 77 pointer 0x1"),
        ];
        let mut reader = Reader::default();
        log.concat().lines().for_each(|line| reader.add(line));
        let said = reader.finish();
        let steps: Vec<Vec<(&str, u64)>> = said
            .inits
            .iter()
            .map(|init| {
                let steps = init.memory.steps.iter();
                steps
                    .map(|s| (s.name.as_str(), s.sizes.gpu / MIB))
                    .collect()
            })
            .collect();
        assert_eq!(
            steps[0],
            [("init", 6), ("rings", 12), (PAIRS, 10), (LATER, 2)]
        );
        assert_eq!(steps[1], [("init", 4)]);
        let connections = &said.inits[0].memory.connections;
        assert_eq!(connections.len(), 2);
        assert_eq!(
            (connections[1].index, connections[1].way.as_str()),
            (1, "P2P/CUMEM")
        );
        assert_eq!(said.unowned[&("n1".to_owned(), 100)].pinned, 77);
    }

    #[test]
    fn an_address_that_comes_again_was_freed() {
        let log = [
            state(7, 0x10, "START"),
            line(7, "a.cc:1 Cuda Alloc Size 4194304 pointer 0x200000"),
            line(7, "Allocated shareable buffer 0x200000 size 4194304 ipcDesc 0x1"),
            state(7, 0x10, "COMPLETE"),
            line(7, "a.cc:1 Cuda Alloc Size 1 pointer 0x200000"),
            line(7, "comm 0x10 rank 0 nranks 2 cudaDev 0 busId 18000 - Destroy COMPLETE"),
            state(7, 0x10, "START"),
            line(7, "a.cc:1 Cuda Alloc Size 4194304 pointer 0x200000"),
            line(7, "NVLS comm 0x10 headRank 0 nHeads 2 buffSize 1 nvlsPerRankSize 1 nvlsTotalSize 5000000"),
        ];
        let inits = read(&log.concat());
        assert_eq!(inits[0].memory.total().gpu, 2 * MIB);
        assert!(inits[0].memory.is_gone);
        assert_eq!(inits[1].memory.total().gpu, 10 * MIB);
    }

    /// NCCL 2.28.9 on two H200, 2026-11-23: a ring of sends and receives, then collectives.
    const TWO_H200: &str = include_str!("../tests/two_h200.log");

    #[test]
    fn a_real_job_s_memory_is_told_by_step() {
        for init in read(TWO_H200) {
            let memory = &init.memory;
            let steps: Vec<(&str, u64)> = memory
                .steps
                .iter()
                .map(|s| (s.name.as_str(), s.sizes.gpu / MIB))
                .collect();
            // 98 allocations of a few bytes take 2 MiB each. Then 32 channels, 10 MiB in and 2 MiB out;
            // and 24.
            assert_eq!(steps, [("init", 196), (PAIRS, 384), ("rings", 288)]);
            let of = |index: u32| memory.connections.iter().filter(move |c| c.index == index);
            assert_eq!((of(1).count(), of(0).count()), (32, 24));
            assert!(memory.is_gone);
        }
    }

    #[test]
    fn two_real_communicators_of_a_process_are_told_apart() {
        // The driver's free memory fell by the same for the second one, on two H200 with NCCL 2.28.9. For the
        // first one it fell by the kernels of NCCL, too.
        let inits = read(include_str!("../tests/two_communicators.log"));
        assert_eq!(inits.len(), 2);
        for init in inits {
            let steps = init.memory.steps.iter();
            let steps: Vec<(&str, u64)> = steps
                .map(|step| (step.name.as_str(), step.sizes.gpu / MIB))
                .collect();
            assert_eq!(steps, [("init", 196), ("rings", 288), (PAIRS, 384)]);
        }
    }
}
