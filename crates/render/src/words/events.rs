//! NCCL's profiler events and their states, as `explain` tells of them.
//!
//! Rule: each name of `nccl-abi` is here (`crates/render/tests/all/explain.rs`).

use super::{word, Word};

/// Types of events.
pub const EVENTS: &[Word] = &[
    word("GroupApi", "the user's group of calls, or one call without a group, from its first call to the end \
        of the group. From NCCL 2.28 on (ABI v5)."),
    word("CollApi", "the user's call of a collective, until it returns to the group. Parent: GroupApi. \
        From NCCL 2.28 on (ABI v5)."),
    word("P2pApi", "the user's send or receive, until it returns to the group. It does not say the peer. \
        Parent: GroupApi. From NCCL 2.28 on (ABI v5)."),
    word("KernelLaunch", "the host's launch of a kernel. Parent: GroupApi. From NCCL 2.28 on (ABI v5)."),
    word("Group", "what NCCL launches together. It has no parent, and lasts as long as the host enqueues."),
    word("Coll", "a collective as NCCL planned it, with algorithm, protocol and channels. Its stop means \
        enqueued, and not done. Parent: CollApi; Group up to NCCL 2.27."),
    word("P2p", "a send or receive as NCCL planned it, with its peer. Its stop means enqueued, and not done. \
        Parent: P2pApi; Group up to NCCL 2.27."),
    word("ProxyOp", "a network operation: what a call sends or receives on one channel. The proxy's thread \
        tells of it. With PXN it may be another process's. Parent: Coll or P2p."),
    word("ProxyStep", "one chunk of a network operation. Its states say what it waits for. NCCL starts a \
        receive's step again until the network takes it. Parent: ProxyOp."),
    word("ProxyCtrl", "what the proxy's thread does beside its operations: it takes new ones, idles, sleeps \
        or wakes up. It has no parent."),
    word("KernelCh", "a kernel on one channel, with the GPU's stamps from NCCL 2.27 on (ABI v4). It comes \
        late, because NCCL polls for it. Parent: Coll or P2p. Mode callbacks has it with \
        NCCLSCOPE_EVENTS=all, which costs /dev/shm and a thread."),
    word("KernelPhase", "a phase of a kernel on one channel: initial sync, compute, final sync. Parent: \
        KernelCh. From NCCL 2.31 on (ABI v7); NCCL 2.31.2 crashed with it."),
    word("NetPlugin", "an event of the network plugin, which defines its data. No official build has any. \
        Parent: ProxyStep."),
    word("CeColl", "a collective that copy engines do without a kernel. It lasts as long as the host \
        enqueues. Parent: CollApi. From NCCL 2.29 on (ABI v6)."),
    word("CeSync", "a synchronisation of the ranks in a collective of the copy engines. Parent: CeColl."),
    word("CeBatch", "a batch of copies in a collective of the copy engines. Parent: CeColl."),
];

/// States of events.
pub const STATES: &[Word] = &[
    word(
        "ProxyOpSendPosted",
        "a send's buffers are posted. NCCL 2.23 to 2.26.",
    ),
    word(
        "ProxyOpSendRemFifoWait",
        "a send waits for the peer's credits. NCCL 2.23 to 2.26.",
    ),
    word(
        "ProxyOpSendTransmitted",
        "a send gave a chunk to the network. NCCL 2.23 to 2.26.",
    ),
    word(
        "ProxyOpSendDone",
        "the network has sent a chunk. NCCL 2.23 to 2.26.",
    ),
    word(
        "ProxyOpRecvPosted",
        "a receive's buffers are posted. NCCL 2.23 to 2.26.",
    ),
    word(
        "ProxyOpRecvReceived",
        "a chunk has arrived. NCCL 2.23 to 2.26.",
    ),
    word(
        "ProxyOpRecvTransmitted",
        "a chunk was handed to the GPU. NCCL 2.23 to 2.26.",
    ),
    word(
        "ProxyOpRecvDone",
        "the GPU has taken a chunk. NCCL 2.23 to 2.26.",
    ),
    word(
        "ProxyOpInProgress",
        "the proxy works on the operation for the first time. \
        From NCCL 2.27 on (ABI v4).",
    ),
    word(
        "ProxyStepSendGpuWait",
        "a send's step waits for the GPU to fill its buffer.",
    ),
    word(
        "ProxyStepSendPeerWait",
        "a send's step waits for the receiver's credits. \
        From NCCL 2.27 on (ABI v4).",
    ),
    word(
        "ProxyStepSendWait",
        "a send's step is in the network's hands.",
    ),
    word("ProxyStepRecvWait", "a receive's step waits for data."),
    word(
        "ProxyStepRecvFlushWait",
        "a receive's data have arrived and are flushed to the GPU's memory.",
    ),
    word(
        "ProxyStepRecvGpuWait",
        "a receive's step waits for the GPU to take its data.",
    ),
    word(
        "ProxyCtrlIdle",
        "the proxy's thread has nothing that moves on.",
    ),
    word(
        "ProxyCtrlActive",
        "the proxy's thread has operations to work on.",
    ),
    word(
        "ProxyCtrlSleep",
        "the proxy's thread goes to sleep until there is work.",
    ),
    word(
        "ProxyCtrlWakeup",
        "the proxy's thread wakes up, because there is work.",
    ),
    word(
        "ProxyCtrlAppend",
        "the proxy's thread begins to take new operations.",
    ),
    word(
        "ProxyCtrlAppendEnd",
        "the proxy's thread has taken new operations, and says how many.",
    ),
    word(
        "NetPluginUpdate",
        "the network plugin has news, in data of its own. From NCCL 2.27 on (ABI v4).",
    ),
    word(
        "KernelChStop",
        "the GPU's stamp of the end of a kernel on a channel. \
        From NCCL 2.27 on (ABI v4).",
    ),
    word(
        "KernelPhaseStop",
        "the GPU's stamp of the end of a phase. From NCCL 2.31 on (ABI v7).",
    ),
    word(
        "GroupStartApiStop",
        "the start of the user's group is over. From NCCL 2.28 on (ABI v5).",
    ),
    word(
        "GroupEndApiStart",
        "the end of the user's group begins, and with it the launch. \
        From NCCL 2.28 on (ABI v5).",
    ),
    word(
        "CeCollStart",
        "a collective of the copy engines starts. Defined, but NCCL does not record it.",
    ),
    word(
        "CeCollComplete",
        "a collective of the copy engines is complete. Defined, but NCCL does not record it.",
    ),
    word(
        "CeSyncStart",
        "a synchronisation starts. Defined, but NCCL does not record it.",
    ),
    word(
        "CeSyncComplete",
        "a synchronisation is complete. Defined, but NCCL does not record it.",
    ),
    word(
        "CeBatchStart",
        "a batch of copies starts. Defined, but NCCL does not record it.",
    ),
    word(
        "CeBatchComplete",
        "a batch of copies is complete. Defined, but NCCL does not record it.",
    ),
];
