//! ABI v4, native to NCCL 2.27.
//!
//! Communicator name, hash and size moved from the events to [`Init`], which also brings the logger. KernelCh
//! carries the GPU's time stamp. Its [`StateArgs`] are those of all later versions.
//!
//! Rule: `type_` is one byte, and the seven after it are uninitialised. Mask is the second argument of
//! [`Init`], and the communicator's hash the fourth; v5 swaps them about.

use core::ffi::{c_char, c_int, c_void};

pub use crate::v1::{ProxyOp, ProxyStep, StateProxyCtrl};
pub use crate::v3::NetPlugin;

/// Starts the profiler for a communicator.
///
/// Writes `*context`, never null, and the wanted bits of [`event`](crate::event) to `*mask`, which the whole
/// process shares. `comm_name` may be null, and is the caller's: copy it. `comm_hash` is the same on all
/// ranks, and not unique in time.
pub type Init = unsafe extern "C" fn(
    context: *mut *mut c_void,
    mask: *mut c_int,
    comm_name: *const c_char,
    comm_hash: u64,
    n_nodes: c_int,
    n_ranks: c_int,
    rank: c_int,
    logger: crate::Logger,
) -> c_int;

/// Describes an event at its start.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Descr {
    /// Exactly one bit of [`event`](crate::event). The bytes up to `parent_obj` are uninitialised.
    pub type_: u8,
    /// Handle of the parent event. Null, stale and foreign handles occur.
    pub parent_obj: *mut c_void,
    /// Rank in the communicator, where NCCL fills it in; the one given to `init` is always right.
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
    /// For [`KERNEL_CH`](crate::event::KERNEL_CH).
    pub kernel_ch: KernelCh,
    /// For [`NET_PLUGIN`](crate::event::NET_PLUGIN).
    pub net_plugin: NetPlugin,
}

/// One collective.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Coll {
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
    /// Channels used; 0 for CollNet and multi-node NVLS though their kernels use some.
    pub n_channels: u8,
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
    /// Channels of this direction. Garbage when NCCL 2.28 or later serves v4 through its shim: don't read it
    /// there.
    pub n_channels: u8,
}

/// One channel of a kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelCh {
    /// Channel.
    pub channel_id: u8,
    /// GPU clock in nanoseconds when the channel started.
    pub p_timer: u64,
}

/// Arguments of a state. The [`state`](crate::state) selects the member.
#[repr(C)]
#[derive(Clone, Copy)]
pub union StateArgs {
    /// For the states of proxy steps.
    pub proxy_step: StateProxyStep,
    /// For [`PROXY_CTRL_APPEND_END`](crate::state::PROXY_CTRL_APPEND_END).
    pub proxy_ctrl: StateProxyCtrl,
    /// For [`NET_PLUGIN_UPDATE`](crate::state::NET_PLUGIN_UPDATE).
    pub net_plugin: StateNetPlugin,
    /// For [`KERNEL_CH_STOP`](crate::state::KERNEL_CH_STOP), and in v7
    /// [`KERNEL_PHASE_STOP`](crate::state::KERNEL_PHASE_STOP).
    pub kernel_ch: StateKernelCh,
}

/// Progress of a proxy step.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StateProxyStep {
    /// Bytes of the chunk; see the [`state`](crate::state) for which chunk's.
    pub trans_size: usize,
}

/// News of the network plugin.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StateNetPlugin {
    /// Valid during the call only; its layout follows from the descriptor's `id`.
    pub data: *mut c_void,
}

/// End of a kernel's channel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StateKernelCh {
    /// GPU clock in nanoseconds when the channel or phase stopped.
    pub p_timer: u64,
}

plugin_struct!("ncclProfiler_v4");

layout! { Descr, size 104, align 8;
    type_: u8 = 0,
    parent_obj: *mut c_void = 8,
    rank: i32 = 16,
    u: DescrUnion = 24,
    u.coll.seq_number: u64 = 24,
    u.coll.func: *const c_char = 32,
    u.coll.send_buff: *const c_void = 40,
    u.coll.recv_buff: *const c_void = 48,
    u.coll.count: usize = 56,
    u.coll.root: i32 = 64,
    u.coll.datatype: *const c_char = 72,
    u.coll.n_channels: u8 = 80,
    u.coll.n_warps: u8 = 81,
    u.coll.algo: *const c_char = 88,
    u.coll.proto: *const c_char = 96,
    u.p2p.func: *const c_char = 24,
    u.p2p.buff: *const c_void = 32,
    u.p2p.datatype: *const c_char = 40,
    u.p2p.count: usize = 48,
    u.p2p.peer: i32 = 56,
    u.p2p.n_channels: u8 = 60,
    u.proxy_op.pid: i32 = 24,
    u.proxy_op.channel_id: u8 = 28,
    u.proxy_op.peer: i32 = 32,
    u.proxy_op.n_steps: i32 = 36,
    u.proxy_op.chunk_size: i32 = 40,
    u.proxy_op.is_send: i32 = 44,
    u.proxy_step.step: i32 = 24,
    u.kernel_ch.channel_id: u8 = 24,
    u.kernel_ch.p_timer: u64 = 32,
    u.net_plugin.id: i64 = 24,
    u.net_plugin.data: *mut c_void = 32,
}

layout! { DescrUnion, size 80, align 8; }

layout! { StateArgs, size 8, align 8;
    proxy_step.trans_size: usize = 0,
    proxy_ctrl.appended_proxy_ops: i32 = 0,
    net_plugin.data: *mut c_void = 0,
    kernel_ch.p_timer: u64 = 0,
}
