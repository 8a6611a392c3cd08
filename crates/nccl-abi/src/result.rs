//! Values of ncclResult_t, which every entry of the plugin struct returns.
//!
//! Rule: a plugin returns [`SUCCESS`], also from `init`: after an error there, some NCCL releases call
//! through null or unload the plugin twice. The other values are for programs that stand in for NCCL.

use core::ffi::c_int;

/// No error.
pub const SUCCESS: c_int = 0;
/// A CUDA call failed.
pub const UNHANDLED_CUDA_ERROR: c_int = 1;
/// A system call failed.
pub const SYSTEM_ERROR: c_int = 2;
/// NCCL met a state it can't explain.
pub const INTERNAL_ERROR: c_int = 3;
/// An argument has a wrong value.
pub const INVALID_ARGUMENT: c_int = 4;
/// A call came at a wrong time.
pub const INVALID_USAGE: c_int = 5;
/// Another process failed or left.
pub const REMOTE_ERROR: c_int = 6;
/// A nonblocking call isn't over yet.
pub const IN_PROGRESS: c_int = 7;
/// Time ran out. NCCL 2.30 on.
pub const TIMEOUT: c_int = 8;
