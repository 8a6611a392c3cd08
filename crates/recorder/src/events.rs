//! NCCL's events with the ABI versions' differences taken out, and the trait that receives them.
//!
//! Adapters ([`crate::abi`]) fill only what their version has; the rest is its "not known" value: null string
//! pointers, 0 counts, -1 ranks. Pointers to strings are NCCL's static literals and are read once, when
//! interned.

use capture::rows::GpuTime;
use std::ffi::c_char;

/// What a plugin's init was told.
pub struct Init {
    pub abi: u8,
    /// commId or commHash; 0 when the ABI does not tell.
    pub hash: u64,
    /// May be null; belongs to the caller.
    pub name: *const c_char,
    pub nnodes: i32,
    pub nranks: i32,
    pub rank: i32,
}

/// A string. Which of the two is settled when compiling: an adapter always says the same.
#[derive(Clone, Copy)]
pub enum RawName {
    /// As NCCL passes it from ABI v2 on; may be null.
    Text(*const c_char),
    /// The id of a v1 number's name; 0 for none.
    Known(u8),
}

/// A collective as announced by CollApi, or a send or receive by P2pApi.
pub struct Api {
    pub p2p: bool,
    pub func: RawName,
    pub datatype: RawName,
    pub count: u64,
    /// -1 for P2P.
    pub root: i32,
    pub stream: u64,
    pub captured: bool,
    pub user_tag: u64,
}

/// A collective, send or receive as planned: Coll or P2p. The first fields serve ABIs without API events.
pub struct Task {
    /// Nothing announced it: ABI below v5.
    pub legacy: bool,
    pub p2p: bool,
    pub func: RawName,
    pub datatype: RawName,
    pub count: u64,
    pub root: i32,
    /// v1 to v3: the communicator's hash, as its init did not tell.
    pub hash: u64,
    /// The descriptor's rank, for the same reason.
    pub rank: i32,
    pub sequence: Option<u64>,
    pub algorithm: RawName,
    pub protocol: RawName,
    pub variant: RawName,
    pub nchannels: u8,
    pub nwarps: u8,
    pub symmetric: bool,
    pub user_tag: u64,
    pub peer: Option<u32>,
    pub buffers: [u64; 2],
}

/// What NCCL announces with startEvent, `parentObj` beside it.
pub enum Event {
    GroupApi {
        captured: bool,
        depth: i32,
    },
    Api(Api),
    KernelLaunch {
        stream: u64,
    },
    /// A plan.
    Group,
    Task(Task),
    /// A copy-engine collective.
    CeColl {
        sequence: u64,
        batches: u32,
        buffers: [u64; 2],
        user_tag: u64,
    },
    ProxyOp {
        pid: i32,
        channel: u8,
        send: bool,
        /// Rank in the communicator.
        peer: i32,
        steps: i32,
    },
    ProxyStep {
        number: i32,
    },
    KernelCh {
        channel: u8,
        stamp: GpuTime,
    },
    KernelPhase {
        phase: u8,
    },
    /// Known to the ABI and in no row: ProxyCtrl, CeSync, CeBatch, NetPlugin.
    Ignored,
    /// Not known to the ABI.
    Unknown,
}

/// What NCCL reports with recordEventState.
pub enum State {
    /// The start of a group's calls is over (23).
    GroupOpened,
    /// ncclGroupEnd has begun (24).
    GroupClosing,
    /// A channel of the kernel stopped (22).
    KernelStop { stamp: GpuTime },
    /// A phase of the kernel stopped (31).
    PhaseStop { stamp: GpuTime },
    /// A network step goes into one of the waits of `live::WAITS`, with the size of its newest chunk.
    Step { wait: u8, bytes: u64 },
    /// The proxy has begun a ProxyOp (19).
    OpBegun,
    /// v1 to v3: what a ProxyOp has moved so far.
    OpProgress { bytes: u64 },
    /// Known and of no consequence.
    Ignored,
    /// Not known to the ABI.
    Unknown,
}

/// The one receiver behind all ABI versions. Contexts and handles are names; any value may come back.
pub trait Receive {
    /// A communicator's profiler is initialised; returns its context and the events wanted.
    fn init(&self, init: &Init) -> (u64, u32);
    /// Returns the event's handle, never 0.
    fn start(&self, context: u64, kind: u64, parent: u64, event: Event) -> u64;
    /// The event of this handle is over. `bits` are the bits of its kind, where they are known when
    /// compiling.
    fn stop(&self, handle: u64, bits: Option<usize>);
    /// The event of this handle changed.
    fn state(&self, handle: u64, state: State);
    /// A communicator's profiler is done.
    fn finalize(&self, context: u64);
}
