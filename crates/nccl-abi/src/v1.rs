//! ABI v1, native to NCCL 2.23.
//!
//! The only version that passes function, datatype, algorithm and protocol as numbers;
//! [`names`](crate::names) has their strings. It has no GPU events.
//!
//! Rule: `type_` is one byte, and the seven after it are uninitialised.

use core::ffi::{c_char, c_int, c_void};

/// Starts the profiler for a communicator. The communicator is only told by its events.
///
/// Writes `*context`, never null, and the wanted bits of [`event`](crate::event) to `*mask`, which the whole
/// process shares.
pub type Init = unsafe extern "C" fn(context: *mut *mut c_void, mask: *mut c_int) -> c_int;

/// Describes an event at its start.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Descr {
    /// Exactly one bit of [`event`](crate::event). The bytes up to `parent_obj` are uninitialised.
    pub type_: u8,
    /// Handle of the parent event. Null, stale and foreign handles occur.
    pub parent_obj: *mut c_void,
    /// Rank in the communicator, where NCCL fills it in; 0 otherwise.
    pub rank: i32,
    /// The member that `type_` selects; Group and ProxyCtrl have none.
    pub u: DescrUnion,
}

/// What a descriptor says besides its header.
#[repr(C)]
#[derive(Clone, Copy)]
pub union DescrUnion {
    /// For [`COLL`](crate::event::COLL).
    pub coll: Coll,
    /// For [`P2P`](crate::event::P2P).
    pub p2p: P2p,
    /// For [`PROXY_OP`](crate::event::PROXY_OP).
    pub proxy_op: ProxyOp,
    /// For [`PROXY_STEP`](crate::event::PROXY_STEP).
    pub proxy_step: ProxyStep,
}

/// One collective.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Coll {
    /// Communicator name. Null behind a shim of NCCL 2.27 or later.
    pub name: *const c_char,
    /// Communicator hash. Zero behind a shim of NCCL 2.27 or later.
    pub comm_hash: u64,
    /// Counts this function on this communicator, from 0.
    pub seq_number: u64,
    /// Function; [`names::func`](crate::names::func) has the string.
    pub func: u8,
    /// Send buffer, a device pointer.
    pub send_buff: *const c_void,
    /// Receive buffer, a device pointer.
    pub recv_buff: *const c_void,
    /// Elements; bytes for AllGather and Broadcast, with datatype 0.
    pub count: usize,
    /// Root rank, where the function has one.
    pub root: i32,
    /// Datatype; [`names::datatype`](crate::names::datatype) has the string.
    pub datatype: u8,
    /// Reduction. Zero behind a shim of NCCL 2.27 or later.
    pub op: u32,
    /// Bytes by NCCL's own estimate. Zero behind a shim of NCCL 2.27 or later.
    pub traffic_bytes: usize,
    /// Channels the tuner allows at most; not the number used, except behind a shim.
    pub n_max_channels: u8,
    /// Warps per channel.
    pub n_warps: u8,
    /// Algorithm; [`names::algo`](crate::names::algo) has the string.
    pub algo: u8,
    /// Protocol; [`names::proto`](crate::names::proto) has the string.
    pub proto: u8,
    /// Non-zero for CollNet. Zero behind a shim of NCCL 2.27 or later.
    pub is_collnet: i32,
    /// Non-zero for NVLS. Zero behind a shim of NCCL 2.27 or later.
    pub is_nvls: i32,
}

/// One send or receive.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct P2p {
    /// Communicator name. Null behind a shim of NCCL 2.27 or later.
    pub name: *const c_char,
    /// Communicator hash. Zero behind a shim of NCCL 2.27 or later.
    pub comm_hash: u64,
    /// Function; [`names::func`](crate::names::func) has the string.
    pub func: u8,
    /// Buffer, a device pointer.
    pub buff: *const c_void,
    /// Datatype; [`names::datatype`](crate::names::datatype) has the string.
    pub datatype: u8,
    /// Elements.
    pub count: usize,
    /// Peer rank.
    pub peer: i32,
}

/// One channel of an operation, on the network proxy.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProxyOp {
    /// Process that enqueued the operation. If it isn't this one, the context and `parent_obj` are addresses
    /// of another process and mean nothing here.
    pub pid: i32,
    /// Channel.
    pub channel_id: u8,
    /// Peer rank.
    pub peer: i32,
    /// Steps of the operation.
    pub n_steps: i32,
    /// Bytes of a step at most.
    pub chunk_size: i32,
    /// 1 for a network send.
    pub is_send: i32,
}

/// One chunk of a proxy operation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProxyStep {
    /// Index of the step.
    pub step: i32,
}

/// Arguments of a state. The [`state`](crate::state) selects the member.
#[repr(C)]
#[derive(Clone, Copy)]
pub union StateArgs {
    /// For the states of proxy operations.
    pub proxy_op: StateProxyOp,
    /// For [`PROXY_CTRL_APPEND_END`](crate::state::PROXY_CTRL_APPEND_END).
    pub proxy_ctrl: StateProxyCtrl,
}

/// Progress of a proxy operation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StateProxyOp {
    /// Bytes of the chunk; see the [`state`](crate::state) for which chunk's.
    pub trans_size: usize,
    /// Steps done.
    pub steps: i32,
}

/// What the proxy thread took over.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StateProxyCtrl {
    /// Operations taken.
    pub appended_proxy_ops: i32,
}

plugin_struct!("ncclProfiler_v1");

layout! { Descr, size 120, align 8;
    type_: u8 = 0,
    parent_obj: *mut c_void = 8,
    rank: i32 = 16,
    u: DescrUnion = 24,
    u.coll.name: *const c_char = 24,
    u.coll.comm_hash: u64 = 32,
    u.coll.seq_number: u64 = 40,
    u.coll.func: u8 = 48,
    u.coll.send_buff: *const c_void = 56,
    u.coll.recv_buff: *const c_void = 64,
    u.coll.count: usize = 72,
    u.coll.root: i32 = 80,
    u.coll.datatype: u8 = 84,
    u.coll.op: u32 = 88,
    u.coll.traffic_bytes: usize = 96,
    u.coll.n_max_channels: u8 = 104,
    u.coll.n_warps: u8 = 105,
    u.coll.algo: u8 = 106,
    u.coll.proto: u8 = 107,
    u.coll.is_collnet: i32 = 108,
    u.coll.is_nvls: i32 = 112,
    u.p2p.name: *const c_char = 24,
    u.p2p.comm_hash: u64 = 32,
    u.p2p.func: u8 = 40,
    u.p2p.buff: *const c_void = 48,
    u.p2p.datatype: u8 = 56,
    u.p2p.count: usize = 64,
    u.p2p.peer: i32 = 72,
    u.proxy_op.pid: i32 = 24,
    u.proxy_op.channel_id: u8 = 28,
    u.proxy_op.peer: i32 = 32,
    u.proxy_op.n_steps: i32 = 36,
    u.proxy_op.chunk_size: i32 = 40,
    u.proxy_op.is_send: i32 = 44,
    u.proxy_step.step: i32 = 24,
}

layout! { DescrUnion, size 96, align 8; }

layout! { StateArgs, size 16, align 8;
    proxy_op.trans_size: usize = 0,
    proxy_op.steps: i32 = 8,
    proxy_ctrl.appended_proxy_ops: i32 = 0,
}
