//! Finds and loads a profiler plugin the way NCCL does, and calls it.
//!
//! A [`Loader`] stands for what libnccl holds once per process: which plugin, how many communicators use it,
//! and the activation mask. [`Loader::init`] gives a [`PluginContext`] for each communicator, and
//! [`Loader::finalize`] takes it back. The last one unloads the library, so that the next `init` loads it
//! again. A [`Table`] is the plugin's struct with its ABI. It passes each event through what the release's
//! shim would do to it. `search` has where a plugin is looked for, and `log` has NCCL's logger.
//!
//! Rule: what the simulated release does with a plugin's answer is done here too. For example, a failed load
//! is never tried again. Nothing else reads a handle or a context.

mod loader;
mod log;
mod search;
mod table;
mod version;

pub use loader::{Choice, Loader, PluginContext};
pub use search::NoPlugin;
pub use table::{Identity, Misdeeds, Table, MISDEEDS};
pub use version::Version;
