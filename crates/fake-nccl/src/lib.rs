//! Plays a job at the C ABI of an NCCL profiler plugin, from a script or from a recorded job, without a GPU.
//!
//! A [`script::Script`] says what a job does; [`play`] makes one process for each rank, and each loads the
//! plugin with a [`plugin::Loader`] and calls it as the simulated NCCL release would: on the same kinds of
//! threads, in the same order, with the same parents and the same gaps. [`replay`] does it from a `callbacks`
//! capture, [`bench`] measures what a plugin costs, and [`check`] plays hostile sequences to it.
//!
//! Rule: what is announced is counted here, independently of the plugin ([`announced::Announced`]), so that a
//! test can hold a plugin's report against it.

pub mod announced;
pub mod bench;
pub mod check;
mod control;
pub mod event;
mod fault;
mod hash;
mod lock;
pub mod machine;
pub mod nccl;
pub mod outcome;
pub mod output;
pub mod play;
pub mod plugin;
pub mod processes;
pub mod rank_process;
pub mod replay;
pub mod schedule;
pub mod script;
pub mod stuck;

pub use play::play;
pub use processes::Options;
pub use script::Script;
