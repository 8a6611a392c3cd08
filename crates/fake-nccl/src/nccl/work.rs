//! What a launch hands to a communicator's threads.

use super::progress::Progress;
use crate::event::Handle;
use crate::schedule::Kernel;
use crate::stuck::{Drag, Held};
use std::sync::Arc;

/// Sends, or receives, of one operation over the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) peer: i32,
    pub(super) send: bool,
    pub(super) bytes: u64,
}

/// What a communicator's threads get for one operation.
#[derive(Clone)]
pub(super) struct Work {
    /// The communicator's link to the plugin, because communicators may share their threads.
    pub(super) of: Arc<Progress>,
    pub(super) parent: Handle,
    pub(super) first_channel: u8,
    pub(super) channels: u8,
    pub(super) kernel: Option<Kernel>,
    pub(super) phases: bool,
    pub(super) sides: Vec<Side>,
    pub(super) held: Option<Held>,
    /// When it ends, and what makes its receives and sends take longer.
    pub(super) drags: Option<(u64, [Option<Drag>; 2])>,
    pub(super) mask: u64,
}

impl Work {
    /// The channels that it uses.
    pub(super) fn channels(&self) -> std::ops::Range<u8> {
        self.first_channel..self.first_channel + self.channels
    }
}
