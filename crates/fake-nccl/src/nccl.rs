//! What NCCL does with a group of calls, seen from the plugin. There is one file for each mechanism of NCCL:
//!
//! - `communicator`: ncclCommInit, ncclCommDestroy, and what a communicator counts.
//! - `group`: ncclGroupStart, the API calls, ncclGroupEnd (GroupApi, CollApi, P2pApi).
//! - `plan`: the collectives, sends and receives that NCCL makes of the calls.
//! - `launch`: what is launched (KernelLaunch, Group), and the batches of a kernel.
//! - `task_events`: Coll and P2p. `copy_engine`: collectives without a kernel.
//! - `graph`: what a replay of a captured group shows.
//! - `worker`, `progress`: NCCL's threads (ProxyCtrl).
//! - `proxy`: network operations (ProxyOp, ProxyStep).
//! - `kernel_channels`: when a kernel ran on the GPU (KernelCh, KernelPhase).
//! - `timeline`: virtual time on the real clock.
//!
//! A [`Communicator`] is one rank's part in a communicator: its link to the plugin, its counters, its
//! threads. [`Launcher::group`] plays a group on the calling thread in NCCL's order. GPU and network events
//! are left to the communicator's threads. [`Launcher::replay`] plays a captured group on the host-callback
//! thread.
//!
//! Rule: the release and the mask alone decide which events come, with which parents, on which thread and
//! with which gaps. What the plugin seems to want does not matter.
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
pub use timeline::{Origin, Pace, VirtualClock};
