//! ABI v2, native to NCCL 2.24 and 2.25.
//!
//! Function, datatype, algorithm and protocol became static strings of libnccl.
//!
//! Rule: `type_` is one byte, and the seven after it are uninitialised.

use core::ffi::{c_char, c_void};

pub use crate::v1::{Init, ProxyOp, ProxyStep, StateArgs, StateProxyCtrl, StateProxyOp};

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
    /// Function, a static string of libnccl.
    pub func: *const c_char,
    /// Send buffer, a device pointer.
    pub send_buff: *const c_void,
    /// Receive buffer, a device pointer.
    pub recv_buff: *const c_void,
    /// Elements; bytes for AllGather and Broadcast.
    pub count: usize,
    /// Root rank, where the function has one.
    pub root: i32,
    /// Datatype, a static string of libnccl. `ncclInt8` with a count of bytes for AllGather and Broadcast.
    pub datatype: *const c_char,
    /// Bytes by NCCL's own estimate. Zero behind a shim of NCCL 2.27 or later.
    pub traffic_bytes: usize,
    /// Channels the tuner allows at most; not the number used, except behind a shim.
    pub n_max_channels: u8,
    /// Warps per channel.
    pub n_warps: u8,
    /// Algorithm, a static string of libnccl.
    pub algo: *const c_char,
    /// Protocol, a static string of libnccl.
    pub proto: *const c_char,
}

/// One send or receive.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct P2p {
    /// Communicator name. Null behind a shim of NCCL 2.27 or later.
    pub name: *const c_char,
    /// Communicator hash. Zero behind a shim of NCCL 2.27 or later.
    pub comm_hash: u64,
    /// Function, a static string of libnccl.
    pub func: *const c_char,
    /// Buffer, a device pointer.
    pub buff: *const c_void,
    /// Datatype, a static string of libnccl. `Unknown` for `ncclUint8`.
    pub datatype: *const c_char,
    /// Elements.
    pub count: usize,
    /// Peer rank.
    pub peer: i32,
}

plugin_struct!("ncclProfiler_v2");

layout! { Descr, size 128, align 8;
    type_: u8 = 0,
    parent_obj: *mut c_void = 8,
    rank: i32 = 16,
    u: DescrUnion = 24,
    u.coll.name: *const c_char = 24,
    u.coll.comm_hash: u64 = 32,
    u.coll.seq_number: u64 = 40,
    u.coll.func: *const c_char = 48,
    u.coll.send_buff: *const c_void = 56,
    u.coll.recv_buff: *const c_void = 64,
    u.coll.count: usize = 72,
    u.coll.root: i32 = 80,
    u.coll.datatype: *const c_char = 88,
    u.coll.traffic_bytes: usize = 96,
    u.coll.n_max_channels: u8 = 104,
    u.coll.n_warps: u8 = 105,
    u.coll.algo: *const c_char = 112,
    u.coll.proto: *const c_char = 120,
    u.p2p.name: *const c_char = 24,
    u.p2p.comm_hash: u64 = 32,
    u.p2p.func: *const c_char = 40,
    u.p2p.buff: *const c_void = 48,
    u.p2p.datatype: *const c_char = 56,
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

layout! { DescrUnion, size 104, align 8; }

layout! { StateArgs, size 16, align 8;
    proxy_op.trans_size: usize = 0,
    proxy_op.steps: i32 = 8,
    proxy_ctrl.appended_proxy_ops: i32 = 0,
}
