//! The plugin that NCCL loads.
//!
//! [`abi`] exports one table of entry points for each profiler ABI, v1 to v7. Each decodes what NCCL passed into the
//! [`events`] of one internal trait and hands them, through [`guard`], to the process's [`recorder::Recorder`]. That
//! writes into the live part (`capture::live`), which outlives the process; [`writer`] is the one thread that seals
//! finished rows into the trace file. `docs/decisions/0001-recorder.md` says why it is so.
//!
//! Rules: nothing that NCCL hands back is dereferenced (a handle is a name, see [`handle`]); a callback takes no lock,
//! allocates nothing, makes no system call and does a bounded amount of work; no failure in here reaches the job.

mod abi;
mod array;
mod callbacks;
mod clock;
mod control;
mod cuda;
mod events;
mod facts;
mod free_ring;
mod gpu_events;
mod guard;
mod handle;
mod intern;
mod lock;
mod network;
mod place;
mod recorder;
mod rotation;
mod round;
mod settings;
mod startup;
mod templates;
mod totals;
mod writer;

pub use free_ring::{Cells, FreeRing, Word};
#[cfg(debug_assertions)]
pub use guard::forced;
