//! The plugin that NCCL loads.
//!
//! [`abi`] exports one table of entry points for each profiler ABI, v1 to v7. An entry point reads what NCCL
//! passed as an event of [`events`], and hands it through [`guard`] to the process's [`recorder::Recorder`].
//! The recorder writes it into the live part (`capture::live`), which outlives the process. [`writer`] has
//! the two threads of our own: one seals finished rows into the trace file, and one asks CUDA. [`startup`]
//! makes all this at the first init. `docs/decisions/0001-recorder.md` says why it is so.
//!
//! Rules:
//!
//! - Nothing that NCCL hands back is dereferenced: a handle is a name (see [`handle`]).
//! - Another plugin runs behind ours only if the user asks for that, and then at its own risk ([`chain`]).
//! - A callback takes no lock, allocates nothing, makes no system call and does a bounded amount of work.
//! - No failure in here reaches the job.

mod abi;
mod array;
mod callbacks;
mod chain;
mod clock;
mod comm_memory;
mod communicator_calls;
mod control;
mod counts;
mod cpus;
mod cuda;
mod driver_time;
mod driver_watch;
mod epoch;
mod events;
mod facts;
mod free_ring;
mod gpu_events;
mod graphs;
mod guard;
mod handle;
mod heap;
mod intern;
mod interpose;
mod kept_file;
mod lock;
mod mask;
mod mpi;
mod network;
mod one_sided;
mod pages;
mod place;
mod ranges;
mod recorder;
mod rotation;
mod round;
mod seats;
mod settings;
mod stacks;
mod startup;
mod step_ranges;
mod stream_waits;
mod templates;
mod threads;
mod timed_calls;
mod torch_steps;
mod totals;
mod watch;
mod windows;
mod word;
mod writer;

pub use epoch::{oldest, Epoch, Quarantine};
pub use free_ring::{Cells, FreeRing};
#[cfg(debug_assertions)]
pub use guard::forced;
#[cfg(debug_assertions)]
pub use heap::counted;
pub use word::AtomicWord;
