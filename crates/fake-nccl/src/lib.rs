//! Plays a job at the C ABI of an NCCL profiler plugin, from a script or from a recorded job, without a GPU.
//!
//! A [`script::Script`] says what a job does, and [`schedule`] says when, in virtual time. [`play()`] makes a
//! process for each rank. Each process loads the plugin with a [`plugin::Loader`]. [`nccl`] calls it as the
//! simulated NCCL release would: on the same kinds of threads, in the same order and with the same parents.
//! The same events are left out. [`replay`] does it from a `callbacks` capture. [`mod@bench`] measures what a
//! plugin costs, and [`check`] plays hostile callbacks to it.
//!
//! Rule: fake-nccl counts by itself what it announces ([`announced::Announced`]), independently of the
//! plugin. So a test can compare the plugin's report with it.

/// A line on standard error. Names in it, of a file or of what is in a script, must not command the terminal.
#[macro_export]
macro_rules! tell {
    ($($text:tt)*) => { $crate::output::tell(format_args!($($text)*)) };
}

pub mod announced;
pub mod bench;
pub mod check;
mod choosing;
mod control;
pub mod event;
mod fault;
mod gpu;
mod hash;
mod lock;
pub mod machine;
pub mod nccl;
mod nccl_log;
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
mod tuner;

pub use play::play;
pub use processes::Options;
pub use script::Script;
