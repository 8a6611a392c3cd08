//! The ABI that a plugin is called with, and the NCCL release that calls it.

use super::types::Event;
use core::ffi::c_char;

/// Where a plugin sits: the ABI it is called with, and the NCCL release that calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The ABI of the plugin's struct.
    pub abi: u8,
    /// The release's own ABI; above `abi` the release goes through a shim.
    pub native: u8,
    /// The release, as ncclGetVersion gives it.
    pub version: u32,
}

impl Seat {
    /// Whether a shim stands between.
    pub fn shimmed(&self) -> bool {
        self.abi < self.native
    }

    /// Shims of 2.27 and later fill in neither name nor hash, which v1 to v3 have.
    pub(super) fn nameless(&self) -> bool {
        self.shimmed() && self.version >= 22700
    }

    /// Name and hash of the communicator, as v1 to v3 have them in an event.
    pub(super) fn identity(&self, event: &Event) -> (*const c_char, u64) {
        match event {
            Event::Coll(c) if !self.nameless() => (c.comm_name, c.comm_hash),
            Event::P2p(p) if !self.nameless() => (p.comm_name, p.comm_hash),
            _ => (std::ptr::null(), 0),
        }
    }
}
