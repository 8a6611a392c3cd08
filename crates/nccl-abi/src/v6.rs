//! ABI v6, native to NCCL 2.29 and 2.30.
//!
//! Adds collectives done by copy engines.
//!
//! Rule: the events of v5 keep their layouts, and the descriptor its size.

use core::ffi::{c_char, c_void};

pub use crate::v1::{ProxyOp, ProxyStep, StateProxyCtrl};
pub use crate::v3::NetPlugin;
pub use crate::v4::{KernelCh, StateArgs, StateKernelCh, StateNetPlugin, StateProxyStep};
pub use crate::v5::{Coll, CollApi, GroupApi, Init, KernelLaunch, P2p, P2pApi};

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
    /// For [`CE_COLL`](crate::event::CE_COLL).
    pub ce_coll: CeColl,
    /// For [`CE_SYNC`](crate::event::CE_SYNC).
    pub ce_coll_sync: CeCollSync,
    /// For [`CE_BATCH`](crate::event::CE_BATCH).
    pub ce_coll_batch: CeCollBatch,
}

/// A collective done by copy engines.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CeColl {
    /// Counts synchronisations, not collectives.
    pub seq_number: u64,
    /// Function, a static string of libnccl.
    pub func: *const c_char,
    /// Send buffer, a device pointer.
    pub send_buff: *const c_void,
    /// Receive buffer, a device pointer.
    pub recv_buff: *const c_void,
    /// Elements.
    pub count: usize,
    /// Root rank, where the function has one.
    pub root: i32,
    /// Datatype, a static string of libnccl. `Unknown` for `ncclUint8`.
    pub datatype: *const c_char,
    /// Name of the way the ranks synchronise.
    pub sync_strategy: *const c_char,
    /// Non-zero if the batches synchronise inside.
    pub intra_batch_sync: u8,
    /// Copies per batch.
    pub batch_size: u32,
    /// Batches.
    pub num_batches: u32,
    /// The synchronisation counter again, in 32 bits.
    pub ce_seq_num: u32,
    /// The cudaStream_t of the call.
    pub stream: *mut c_void,
}

/// A synchronisation inside a copy-engine collective.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CeCollSync {
    /// Non-zero for the synchronisation that completes the collective.
    pub is_complete: u8,
    /// Ranks that synchronise.
    pub n_ranks: i32,
}

/// A batch of copies inside a copy-engine collective.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CeCollBatch {
    /// Copies in the batch.
    pub num_ops: i32,
    /// Bytes of the batch.
    pub total_bytes: usize,
    /// Non-zero if the batch synchronises inside.
    pub use_intra_sync: u8,
}

plugin_struct!("ncclProfiler_v6");

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
    u.ce_coll.seq_number: u64 = 24,
    u.ce_coll.func: *const c_char = 32,
    u.ce_coll.send_buff: *const c_void = 40,
    u.ce_coll.recv_buff: *const c_void = 48,
    u.ce_coll.count: usize = 56,
    u.ce_coll.root: i32 = 64,
    u.ce_coll.datatype: *const c_char = 72,
    u.ce_coll.sync_strategy: *const c_char = 80,
    u.ce_coll.intra_batch_sync: u8 = 88,
    u.ce_coll.batch_size: u32 = 92,
    u.ce_coll.num_batches: u32 = 96,
    u.ce_coll.ce_seq_num: u32 = 100,
    u.ce_coll.stream: *mut c_void = 104,
    u.ce_coll_sync.is_complete: u8 = 24,
    u.ce_coll_sync.n_ranks: i32 = 28,
    u.ce_coll_batch.num_ops: i32 = 24,
    u.ce_coll_batch.total_bytes: usize = 32,
    u.ce_coll_batch.use_intra_sync: u8 = 40,
}

layout! { DescrUnion, size 88, align 8; }

layout! { StateArgs, size 8, align 8;
    proxy_step.trans_size: usize = 0,
    proxy_ctrl.appended_proxy_ops: i32 = 0,
    net_plugin.data: *mut c_void = 0,
    kernel_ch.p_timer: u64 = 0,
}
