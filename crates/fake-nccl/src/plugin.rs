//! Finds and loads a profiler plugin the way NCCL does, and calls it.
//!
//! A [`Loader`] stands for what libnccl holds once per process: which plugin, how many communicators use it,
//! and the activation mask. [`Loader::init`] gives a [`Profiler`] for each communicator; [`Loader::finalize`]
//! takes it back, and the last one unloads the library, so that the next `init` loads it anew. A [`Table`] is
//! the plugin's struct with its ABI, and passes each event through what the release's shim would do to it.
//!
//! Rule: whatever the release under simulation does with a plugin's answer is done here too (a failed load is
//! sticky, an error from `init` has the release's own effect), and nothing else reads a handle or a context.

mod loader;
mod log;
mod search;
mod table;
mod version;

pub use loader::{Choice, Loader, Profiler};
pub use search::NoPlugin;
pub use table::{Identity, Misdeeds, Table, MISDEEDS};
pub use version::Version;
