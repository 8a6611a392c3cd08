//! What NCCL does with a group of calls, seen from the plugin.
//!
//! A [`Communicator`] is one rank's part in one: its link to the plugin, its counters, its threads.
//! [`Launcher::group`] plays a group on the calling thread in NCCL's order and leaves GPU and network events
//! to the communicator's threads, and [`Launcher::replay`] plays a captured group on the host-callback
//! thread.
//!
//! Rule: which events come, with which parents, on which thread and with which holes depends on the release
//! and the mask alone, as the ABI sheet has it; never on what the plugin seems to want.
//!
//! Not simulated: the aliasing of stamps in NCCL's 64-slot ring, groups large enough for several plans,
//! nonblocking communicators, plugins inside a network plugin.

mod communicator;
mod copy_engine;
mod graph;
mod group;
mod kernel_channels;
mod launch;
mod launcher;
mod masks;
mod plan;
mod progress;
mod proxy;
mod task_events;
mod timeline;
mod work;
mod worker;

pub use communicator::{comm_name, Communicator};
pub use launcher::{Captured, Launcher, Mode};
pub use plan::Task;
pub use timeline::{Origin, Timeline};
