//! Arguments of states, and their bytes.

use super::descr::POISON;

/// Arguments of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateArgs {
    /// A null pointer.
    Null,
    /// All bytes poison: for states that define no member.
    Empty,
    /// Bytes of a network chunk.
    ProxyStep {
        /// The state decides which chunk it is.
        bytes: usize,
    },
    /// Bytes and steps of a network operation, v1 to v3.
    ProxyOp {
        /// Bytes so far.
        bytes: usize,
        /// Steps done.
        steps: i32,
    },
    /// Operations taken over by the proxy thread.
    ProxyCtrl {
        /// How many.
        appended: i32,
    },
    /// An address of the network plugin's own data.
    NetPlugin {
        /// The address.
        data: usize,
    },
    /// The GPU's clock.
    KernelCh {
        /// In nanoseconds.
        stamp: u64,
    },
}

impl StateArgs {
    /// The 16 bytes that hold any version's arguments.
    pub fn encode(&self) -> [u64; 2] {
        let fill = u64::from_ne_bytes([POISON; 8]);
        let low = |value: u32| (fill & !0xffff_ffff) | u64::from(value);
        match *self {
            StateArgs::Null | StateArgs::Empty => [fill; 2],
            StateArgs::ProxyStep { bytes } => [bytes as u64, fill],
            StateArgs::ProxyOp { bytes, steps } => [bytes as u64, low(steps as u32)],
            StateArgs::ProxyCtrl { appended } => [low(appended as u32), fill],
            StateArgs::NetPlugin { data } => [data as u64, fill],
            StateArgs::KernelCh { stamp } => [stamp, fill],
        }
    }
}
