//! Levels and flags of NCCL's [`Logger`](crate::Logger).
//!
//! The level is what `NCCL_DEBUG` compares with, the flags are the topics of `NCCL_DEBUG_SUBSYS`.
//!
//! Rule: a plugin's own messages use [`PROFILE`]; the other flags belong to NCCL's parts.

use core::ffi::{c_int, c_ulong};

/// No output.
pub const LEVEL_NONE: c_int = 0;
/// The version line.
pub const LEVEL_VERSION: c_int = 1;
/// Warnings.
pub const LEVEL_WARN: c_int = 2;
/// Information.
pub const LEVEL_INFO: c_int = 3;
/// Aborts.
pub const LEVEL_ABORT: c_int = 4;
/// Everything.
pub const LEVEL_TRACE: c_int = 5;
/// Attention. NCCL 2.32 on; an older NCCL doesn't know it.
pub const LEVEL_ATTN: c_int = 6;

/// Initialisation.
pub const INIT: c_ulong = 0x1;
/// Collectives.
pub const COLL: c_ulong = 0x2;
/// Sends and receives.
pub const P2P: c_ulong = 0x4;
/// Shared memory.
pub const SHM: c_ulong = 0x8;
/// Network.
pub const NET: c_ulong = 0x10;
/// Topology graphs.
pub const GRAPH: c_ulong = 0x20;
/// Tuning.
pub const TUNING: c_ulong = 0x40;
/// Environment variables.
pub const ENV: c_ulong = 0x80;
/// Allocations.
pub const ALLOC: c_ulong = 0x100;
/// API calls.
pub const CALL: c_ulong = 0x200;
/// Proxy threads.
pub const PROXY: c_ulong = 0x400;
/// NVLink SHARP.
pub const NVLS: c_ulong = 0x800;
/// Bootstrap.
pub const BOOTSTRAP: c_ulong = 0x1000;
/// Buffer registration.
pub const REG: c_ulong = 0x2000;
/// Profilers.
pub const PROFILE: c_ulong = 0x4000;
/// The reliability service.
pub const RAS: c_ulong = 0x8000;
/// Destruction of communicators.
pub const DESTROY: c_ulong = 0x10000;
/// Host allocations.
pub const ALLOC_HOST: c_ulong = 0x20000;
