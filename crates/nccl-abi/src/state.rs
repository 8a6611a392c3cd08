//! Event states: the values given to `record_event_state`.
//!
//! One flat enumeration for all event types; NCCL has never renumbered it. [`ALL`] is the table and [`name`]
//! reads it.
//!
//! Rule: each constant names the member of `StateArgs` that its state defines. Any other member is garbage,
//! and the pointer may be null for every state. A value not in [`ALL`] is ignored.

/// Send operation posted. Member `proxy_op` (v1 to v3), as for all of 0 to 7.
pub const PROXY_OP_SEND_POSTED: u32 = 0;
/// Send operation waiting for the remote FIFO. Member `proxy_op`.
pub const PROXY_OP_SEND_REM_FIFO_WAIT: u32 = 1;
/// Send operation handed a chunk to the network. Member `proxy_op`.
pub const PROXY_OP_SEND_TRANSMITTED: u32 = 2;
/// Send operation finished a chunk. Member `proxy_op`.
pub const PROXY_OP_SEND_DONE: u32 = 3;
/// Receive operation posted. Member `proxy_op`.
pub const PROXY_OP_RECV_POSTED: u32 = 4;
/// Receive operation got a chunk. Member `proxy_op`.
pub const PROXY_OP_RECV_RECEIVED: u32 = 5;
/// Receive operation passed a chunk on to the GPU. Member `proxy_op`.
pub const PROXY_OP_RECV_TRANSMITTED: u32 = 6;
/// Receive operation finished a chunk. Member `proxy_op`.
pub const PROXY_OP_RECV_DONE: u32 = 7;
/// Send step waiting for the GPU to fill its buffer. From v4 on member `proxy_step`, as for all steps, but
/// its size is the previous chunk's except where said.
pub const PROXY_STEP_SEND_GPU_WAIT: u32 = 8;
/// Send step waiting for the network. Member `proxy_step`, with this chunk's size.
pub const PROXY_STEP_SEND_WAIT: u32 = 9;
/// Receive step waiting for data. Member `proxy_step`.
pub const PROXY_STEP_RECV_WAIT: u32 = 10;
/// Receive step flushing to the GPU. Member `proxy_step`, with this chunk's size.
pub const PROXY_STEP_RECV_FLUSH_WAIT: u32 = 11;
/// Receive step waiting for the GPU to take the data. Member `proxy_step`.
pub const PROXY_STEP_RECV_GPU_WAIT: u32 = 12;
/// Proxy thread has nothing to do. No arguments.
pub const PROXY_CTRL_IDLE: u32 = 13;
/// Proxy thread has work. No arguments.
pub const PROXY_CTRL_ACTIVE: u32 = 14;
/// Proxy thread goes to sleep. No arguments.
pub const PROXY_CTRL_SLEEP: u32 = 15;
/// Proxy thread woke up. No arguments.
pub const PROXY_CTRL_WAKEUP: u32 = 16;
/// Proxy thread begins to take new operations. No arguments.
pub const PROXY_CTRL_APPEND: u32 = 17;
/// Proxy thread took new operations. Member `proxy_ctrl`.
pub const PROXY_CTRL_APPEND_END: u32 = 18;
/// Proxy operation made its first progress (v4 on). No arguments.
pub const PROXY_OP_IN_PROGRESS: u32 = 19;
/// Send step waiting for the peer's credits (v4 on). Member `proxy_step`. May repeat.
pub const PROXY_STEP_SEND_PEER_WAIT: u32 = 20;
/// The network plugin has news (v4 on). Member `net_plugin`. May come with a null handle.
pub const NET_PLUGIN_UPDATE: u32 = 21;
/// The GPU finished a channel (v4 on). Member `kernel_ch`.
pub const KERNEL_CH_STOP: u32 = 22;
/// The group's start call is over (v5 on). Arguments are null.
pub const GROUP_START_API_STOP: u32 = 23;
/// The group's end call began (v5 on). Arguments are null.
pub const GROUP_END_API_START: u32 = 24;
/// Copy-engine collective starts (v6 on). Defined, never emitted by NCCL so far, as all of 25 to 30.
pub const CE_COLL_START: u32 = 25;
/// Copy-engine collective is complete (v6 on). Never emitted so far.
pub const CE_COLL_COMPLETE: u32 = 26;
/// Copy-engine synchronisation starts (v6 on). Never emitted so far.
pub const CE_SYNC_START: u32 = 27;
/// Copy-engine synchronisation is complete (v6 on). Never emitted so far.
pub const CE_SYNC_COMPLETE: u32 = 28;
/// Copy-engine batch starts (v6 on). Never emitted so far.
pub const CE_BATCH_START: u32 = 29;
/// Copy-engine batch is complete (v6 on). Never emitted so far.
pub const CE_BATCH_COMPLETE: u32 = 30;
/// The GPU finished a phase (v7). Member `kernel_ch`: NCCL reuses it, there is no member of its own.
pub const KERNEL_PHASE_STOP: u32 = 31;

/// One state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The value, which is also the index in [`ALL`].
    pub value: u32,
    /// The event's name followed by what happened. Unique in [`ALL`].
    pub name: &'static str,
    /// First ABI version that carries it.
    pub since: u8,
}

const fn row(value: u32, name: &'static str, since: u8) -> State {
    State { value, name, since }
}

/// Every state, in order of value.
pub const ALL: [State; 32] = [
    row(PROXY_OP_SEND_POSTED, "ProxyOpSendPosted", 1),
    row(PROXY_OP_SEND_REM_FIFO_WAIT, "ProxyOpSendRemFifoWait", 1),
    row(PROXY_OP_SEND_TRANSMITTED, "ProxyOpSendTransmitted", 1),
    row(PROXY_OP_SEND_DONE, "ProxyOpSendDone", 1),
    row(PROXY_OP_RECV_POSTED, "ProxyOpRecvPosted", 1),
    row(PROXY_OP_RECV_RECEIVED, "ProxyOpRecvReceived", 1),
    row(PROXY_OP_RECV_TRANSMITTED, "ProxyOpRecvTransmitted", 1),
    row(PROXY_OP_RECV_DONE, "ProxyOpRecvDone", 1),
    row(PROXY_STEP_SEND_GPU_WAIT, "ProxyStepSendGpuWait", 1),
    row(PROXY_STEP_SEND_WAIT, "ProxyStepSendWait", 1),
    row(PROXY_STEP_RECV_WAIT, "ProxyStepRecvWait", 1),
    row(PROXY_STEP_RECV_FLUSH_WAIT, "ProxyStepRecvFlushWait", 1),
    row(PROXY_STEP_RECV_GPU_WAIT, "ProxyStepRecvGpuWait", 1),
    row(PROXY_CTRL_IDLE, "ProxyCtrlIdle", 1),
    row(PROXY_CTRL_ACTIVE, "ProxyCtrlActive", 1),
    row(PROXY_CTRL_SLEEP, "ProxyCtrlSleep", 1),
    row(PROXY_CTRL_WAKEUP, "ProxyCtrlWakeup", 1),
    row(PROXY_CTRL_APPEND, "ProxyCtrlAppend", 1),
    row(PROXY_CTRL_APPEND_END, "ProxyCtrlAppendEnd", 1),
    row(PROXY_OP_IN_PROGRESS, "ProxyOpInProgress", 4),
    row(PROXY_STEP_SEND_PEER_WAIT, "ProxyStepSendPeerWait", 4),
    row(NET_PLUGIN_UPDATE, "NetPluginUpdate", 4),
    row(KERNEL_CH_STOP, "KernelChStop", 4),
    row(GROUP_START_API_STOP, "GroupStartApiStop", 5),
    row(GROUP_END_API_START, "GroupEndApiStart", 5),
    row(CE_COLL_START, "CeCollStart", 6),
    row(CE_COLL_COMPLETE, "CeCollComplete", 6),
    row(CE_SYNC_START, "CeSyncStart", 6),
    row(CE_SYNC_COMPLETE, "CeSyncComplete", 6),
    row(CE_BATCH_START, "CeBatchStart", 6),
    row(CE_BATCH_COMPLETE, "CeBatchComplete", 6),
    row(KERNEL_PHASE_STOP, "KernelPhaseStop", 7),
];

/// The name of a state; `None` for a value of a later NCCL.
pub const fn name(value: u32) -> Option<&'static str> {
    if (value as usize) < ALL.len() {
        Some(ALL[value as usize].name)
    } else {
        None
    }
}

/// The value of a state name, spelled as [`name`] gives it.
pub fn value(name: &str) -> Option<u32> {
    ALL.iter().find(|s| s.name == name).map(|s| s.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (i, s) in ALL.iter().enumerate() {
            assert_eq!(s.value as usize, i);
            assert_eq!(name(s.value), Some(s.name));
            assert_eq!(value(s.name), Some(s.value));
        }
        assert_eq!(name(32), None);
        assert_eq!(name(u32::MAX), None);
    }

    #[test]
    fn later_versions_only_append() {
        assert!(ALL.is_sorted_by_key(|s| s.since));
    }
}
