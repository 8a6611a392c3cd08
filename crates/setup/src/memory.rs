//! What NCCL says of the memory that it allocates, and for which communicator.
//!
//! [`Allocation::parse`] reads one line of the subsystem ALLOC. A [`Ledger`] takes the lines of all processes
//! in their order. It gathers a [`Memory`] for each communicator and rank: what was held after the init,
//! after the first use of each algorithm, and at the end.
//!
//! NCCL names no communicator in these lines. The ledger finds it in three ways. The thread is making a
//! communicator; or the thread is a communicator's proxy, which NCCL starts during the init; or the process
//! has only one communicator on that device.
//!
//! Rule: a line that fits several communicators is added to none, but to [`Ledger::unowned`]. NCCL says
//! nothing of frees, so a sum is no less than what is held. A pointer that comes again was freed, and counts
//! once.

mod ledger;

pub use ledger::Ledger;

/// cuMem, through which NCCL allocates GPU memory, rounds up to this.
const GRANULE: u64 = 2 << 20;

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryKind {
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
    pub kind: MemoryKind,
    /// How much.
    pub bytes: u64,
    /// Its address or, in /dev/shm, its path: what tells it from others in the process.
    pub at: &'a str,
}

/// What stands before size and address, for each kind of line with both.
const SIZED: [(&str, MemoryKind); 7] = [
    ("CUMEM Host Alloc Size ", MemoryKind::Pinned),
    ("Cuda Host Alloc Size ", MemoryKind::Pinned),
    ("Persistent host work buf Size ", MemoryKind::Pinned),
    ("Cuda Alloc Size ", MemoryKind::Gpu),
    ("Cuda Calloc Size ", MemoryKind::Gpu),
    ("Cuda CallocAsync Size ", MemoryKind::Gpu),
    ("Persistent cudaMallocAsync work buf Size ", MemoryKind::Gpu),
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
        if let Some((_, rest)) = text.split_once("Allocated shareable buffer ") {
            let (at, rest) = rest.split_once(" size ")?;
            return Allocation::new(MemoryKind::Gpu, rest.split_whitespace().next()?, at);
        }
        let (_, rest) = text.split_once("Allocated ")?;
        let (bytes, at) = rest.split_once(" bytes of shared memory in ")?;
        Allocation::new(MemoryKind::Shared, bytes, at.trim_end())
    }

    fn new(kind: MemoryKind, bytes: &str, at: &'a str) -> Option<Allocation<'a>> {
        let asked: u64 = bytes.trim().parse().ok()?;
        // cudaMalloc's small pieces share a granule; cuMem's addresses begin at one.
        let address = u64::from_str_radix(at.trim_start_matches("0x"), 16).ok();
        let bytes = match kind {
            MemoryKind::Gpu if address.is_some_and(|at| at % GRANULE == 0) => {
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
        let (sender, receiver) = if way.contains("/read") {
            (self.simple.checked_add(HEAD)?, all)
        } else {
            (HEAD, all.checked_add(self.simple)?)
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
    fn of(&mut self, kind: MemoryKind) -> &mut u64 {
        match kind {
            MemoryKind::Gpu => &mut self.gpu,
            MemoryKind::Pinned => &mut self.pinned,
            MemoryKind::Shared => &mut self.shared,
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
pub struct MemoryStep {
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
    pub steps: Vec<MemoryStep>,
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
            self.steps.push(MemoryStep::default());
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
#[cfg(test)]
mod tests;
