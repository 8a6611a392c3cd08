//! ABI v5, native to NCCL 2.28.
//!
//! Adds the user's API calls and kernel launches, which became the parents of [`Coll`] and [`P2p`].
//!
//! Rule: `type_` is eight bytes from here on. [`Init`] has the communicator's id second and the mask third,
//! unlike v4.

use core::ffi::{c_char, c_int, c_void};

pub use crate::v1::{ProxyOp, ProxyStep, StateProxyCtrl};
pub use crate::v3::NetPlugin;
pub use crate::v4::{KernelCh, StateArgs, StateKernelCh, StateNetPlugin, StateProxyStep};

/// Starts the profiler for a communicator.
///
/// Writes `*context`, never null, and the wanted bits of [`event`](crate::event) to `*mask`, which the whole
/// process shares. `comm_name` may be null, and is the caller's: copy it. `comm_id` is the same on all ranks,
/// and not unique in time.
pub type Init = unsafe extern "C" fn(
    context: *mut *mut c_void,
    comm_id: u64,
    mask: *mut c_int,
    comm_name: *const c_char,
    n_nodes: c_int,
    n_ranks: c_int,
    rank: c_int,
    logger: crate::Logger,
) -> c_int;

/// Describes an event at its start.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Descr {
    /// Exactly one bit of [`event`](crate::event).
    pub type_: u64,
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
    /// For [`GROUP_API`](crate::event::GROUP_API).
    pub group_api: GroupApi,
    /// For [`COLL_API`](crate::event::COLL_API).
    pub coll_api: CollApi,
    /// For [`P2P_API`](crate::event::P2P_API).
    pub p2p_api: P2pApi,
    /// For [`KERNEL_LAUNCH`](crate::event::KERNEL_LAUNCH).
    pub kernel_launch: KernelLaunch,
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
    /// Handle of the Group event; `parent_obj` is the API event's.
    pub parent_group: *mut c_void,
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
    /// Channels of this direction.
    pub n_channels: u8,
    /// Handle of the Group event; `parent_obj` is the API event's.
    pub parent_group: *mut c_void,
}

/// The user's group call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GroupApi {
    /// Non-zero while a CUDA graph is captured.
    pub graph_captured: u8,
    /// 1 for the implicit group around a single call.
    pub group_depth: i32,
}

/// The user's collective call. Count and datatype are the user's, also where [`Coll`] has bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CollApi {
    /// Function, a static string of libnccl.
    pub func: *const c_char,
    /// Elements.
    pub count: usize,
    /// Datatype, a static string of libnccl. `Unknown` for `ncclUint8`.
    pub datatype: *const c_char,
    /// Root rank, where the function has one.
    pub root: i32,
    /// The cudaStream_t of the call.
    pub stream: *mut c_void,
    /// Non-zero while a CUDA graph is captured.
    pub graph_captured: u8,
}

/// The user's send or receive call. It carries neither peer nor buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct P2pApi {
    /// Function, a static string of libnccl.
    pub func: *const c_char,
    /// Elements.
    pub count: usize,
    /// Datatype, a static string of libnccl. `Unknown` for `ncclUint8`.
    pub datatype: *const c_char,
    /// The cudaStream_t of the call.
    pub stream: *mut c_void,
    /// Non-zero while a CUDA graph is captured.
    pub graph_captured: u8,
}

/// A kernel launch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelLaunch {
    /// The cudaStream_t of the call.
    pub stream: *mut c_void,
}

plugin_struct!("ncclProfiler_v5");

layout! { Descr, size 112, align 8;
    type_: u64 = 0,
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
    u.coll.parent_group: *mut c_void = 104,
    u.p2p.func: *const c_char = 24,
    u.p2p.buff: *const c_void = 32,
    u.p2p.datatype: *const c_char = 40,
    u.p2p.count: usize = 48,
    u.p2p.peer: i32 = 56,
    u.p2p.n_channels: u8 = 60,
    u.p2p.parent_group: *mut c_void = 64,
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
    u.group_api.graph_captured: u8 = 24,
    u.group_api.group_depth: i32 = 28,
    u.coll_api.func: *const c_char = 24,
    u.coll_api.count: usize = 32,
    u.coll_api.datatype: *const c_char = 40,
    u.coll_api.root: i32 = 48,
    u.coll_api.stream: *mut c_void = 56,
    u.coll_api.graph_captured: u8 = 64,
    u.p2p_api.func: *const c_char = 24,
    u.p2p_api.count: usize = 32,
    u.p2p_api.datatype: *const c_char = 40,
    u.p2p_api.stream: *mut c_void = 48,
    u.p2p_api.graph_captured: u8 = 56,
    u.kernel_launch.stream: *mut c_void = 24,
}

layout! { DescrUnion, size 88, align 8; }

layout! { StateArgs, size 8, align 8;
    proxy_step.trans_size: usize = 0,
    proxy_ctrl.appended_proxy_ops: i32 = 0,
    net_plugin.data: *mut c_void = 0,
    kernel_ch.p_timer: u64 = 0,
}
