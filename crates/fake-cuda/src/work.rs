//! What a GPU was given to do, as it is handed to a watcher: a stand-in for CUPTI.

use std::ffi::c_char;

/// CUPTI's numbers of what can run.
#[allow(dead_code)]
pub const COPY: u32 = 1;
#[allow(dead_code)]
pub const FILL: u32 = 2;
#[allow(dead_code)]
pub const KERNEL: u32 = 10;

/// A kernel, a copy or a fill.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub kind: u32,
    /// The number of the launch; all that one launch of a graph runs has the same.
    pub correlation: u32,
    pub device: u32,
    /// The id that `cuStreamGetId` has for the stream.
    pub stream: u32,
    /// The executable graph; 0 none.
    pub graph: u32,
    pub node: u64,
    /// When it was launched, ns of CLOCK_MONOTONIC.
    pub launched: u64,
    /// From when to when it runs, likewise.
    pub start: u64,
    pub end: u64,
    /// Mangled, and there for ever; null for copies and fills.
    pub name: *const c_char,
    /// Blocks of a kernel, bytes of others.
    pub size: u64,
}

// SAFETY: the name is never written to.
unsafe impl Send for Work {}

/// Gets all that one launch will run, on the launching thread.
pub type Watcher = unsafe extern "C" fn(*const Work, usize);
