//! Events as NCCL's core has them, with the fields of all ABI versions.

use core::ffi::{c_char, c_void, CStr};
use nccl_abi::event;

/// A handle or context of the plugin: a word that is handed back and never followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Handle(pub usize);

impl Handle {
    /// What NCCL has before the plugin gave anything.
    pub const NULL: Handle = Handle(0);
    /// An address that no plugin gave: uninitialised memory, another process's pointer.
    pub const GARBAGE: Handle = Handle(0xA5A5_A5A5_A5A5_A5A5);

    /// As the plugin's functions take it.
    pub fn ptr(self) -> *mut c_void {
        self.0 as *mut c_void
    }
}

/// A text of libnccl: static and NUL-terminated.
pub type Text = &'static CStr;

const TEXTS: [Text; 10] = [
    c"TREE",
    c"RING",
    c"COLLNET_DIRECT",
    c"COLLNET_CHAIN",
    c"NVLS",
    c"NVLS_TREE",
    c"PAT",
    c"LL",
    c"LL128",
    c"SIMPLE",
];

/// The static text of an algorithm or protocol.
pub fn text(text: &str) -> Option<Text> {
    TEXTS.into_iter().find(|t| t.to_bytes() == text.as_bytes())
}

/// A collective as the core has it when it is launched.
#[derive(Clone, Copy, Debug)]
pub struct Coll {
    /// Communicator name for v1 to v3; may be null.
    pub comm_name: *const c_char,
    /// Communicator hash for v1 to v3.
    pub comm_hash: u64,
    /// Counts the function on the communicator.
    pub seq: u64,
    /// NCCL's name of the function.
    pub func: Text,
    /// Device addresses.
    pub send: usize,
    /// Device addresses.
    pub recv: usize,
    /// Elements, or bytes for AllGather and Broadcast.
    pub count: usize,
    /// Root rank.
    pub root: i32,
    /// NCCL's name of the datatype.
    pub datatype: Text,
    /// Channels used.
    pub channels: u8,
    /// The tuner's maximum, which v1 to v3 carry instead.
    pub max_channels: u8,
    /// Warps per channel.
    pub warps: u8,
    /// Algorithm.
    pub algo: Text,
    /// Protocol.
    pub proto: Text,
    /// Handle of the Group event.
    pub group: Handle,
    /// Kernel of a symmetric collective.
    pub variant: Option<Text>,
    /// The caller's tag.
    pub tag: u64,
}

/// A send or receive as the core has it when it is launched.
#[derive(Clone, Copy, Debug)]
pub struct P2p {
    /// Communicator name for v1 to v3; may be null.
    pub comm_name: *const c_char,
    /// Communicator hash for v1 to v3.
    pub comm_hash: u64,
    /// `Send` or `Recv`.
    pub func: Text,
    /// Device address.
    pub buff: usize,
    /// NCCL's name of the datatype.
    pub datatype: Text,
    /// Elements.
    pub count: usize,
    /// Peer rank.
    pub peer: i32,
    /// Channels of this direction.
    pub channels: u8,
    /// Handle of the Group event.
    pub group: Handle,
    /// The caller's tag.
    pub tag: u64,
}

/// A copy-engine collective.
#[derive(Clone, Copy, Debug)]
pub struct CeColl {
    /// Synchronisations so far.
    pub seq: u64,
    /// NCCL's name of the function.
    pub func: Text,
    /// Elements.
    pub count: usize,
    /// Root rank.
    pub root: i32,
    /// NCCL's name of the datatype.
    pub datatype: Text,
    /// How the ranks synchronise.
    pub strategy: Text,
    /// The cudaStream_t.
    pub stream: usize,
    /// The caller's tag.
    pub tag: u64,
}

/// What an event says, in the core's own terms.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // The fields are nccl-abi's, which documents them.
pub enum Event {
    Group,
    Coll(Coll),
    P2p(P2p),
    ProxyOp {
        pid: i32,
        channel: u8,
        peer: i32,
        steps: i32,
        chunk: i32,
        send: bool,
    },
    ProxyStep {
        step: i32,
    },
    ProxyCtrl,
    KernelCh {
        channel: u8,
        stamp: u64,
    },
    NetPlugin {
        id: i64,
        data: usize,
    },
    GroupApi {
        captured: bool,
        depth: i32,
    },
    CollApi {
        func: Text,
        count: usize,
        datatype: Text,
        root: i32,
        stream: usize,
        captured: bool,
        tag: u64,
    },
    P2pApi {
        func: Text,
        count: usize,
        datatype: Text,
        stream: usize,
        captured: bool,
        tag: u64,
    },
    KernelLaunch {
        stream: usize,
    },
    CeColl(CeColl),
    CeSync {
        complete: bool,
        ranks: i32,
    },
    CeBatch {
        ops: i32,
        bytes: usize,
        sync: bool,
    },
    KernelPhase {
        channel: u8,
        phase: u8,
        name: Text,
        stamp: u64,
    },
    /// A bit of a later NCCL. All of the union is poison.
    Unknown(u64),
}

impl Event {
    /// The bit of [`nccl_abi::event`].
    pub fn bit(&self) -> u64 {
        match self {
            Event::Group => event::GROUP,
            Event::Coll(_) => event::COLL,
            Event::P2p(_) => event::P2P,
            Event::ProxyOp { .. } => event::PROXY_OP,
            Event::ProxyStep { .. } => event::PROXY_STEP,
            Event::ProxyCtrl => event::PROXY_CTRL,
            Event::KernelCh { .. } => event::KERNEL_CH,
            Event::NetPlugin { .. } => event::NET_PLUGIN,
            Event::GroupApi { .. } => event::GROUP_API,
            Event::CollApi { .. } => event::COLL_API,
            Event::P2pApi { .. } => event::P2P_API,
            Event::KernelLaunch { .. } => event::KERNEL_LAUNCH,
            Event::CeColl(_) => event::CE_COLL,
            Event::CeSync { .. } => event::CE_SYNC,
            Event::CeBatch { .. } => event::CE_BATCH,
            Event::KernelPhase { .. } => event::KERNEL_PHASE,
            Event::Unknown(bit) => *bit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_and_protocol_has_a_static_text() {
        use nccl_abi::names::{ALGOS, PROTOS};
        assert!(ALGOS.iter().chain(&PROTOS).all(|name| text(name).is_some()));
    }
}
