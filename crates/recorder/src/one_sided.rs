//! Counts the calls of NCCL that it tells no profiler of: `ncclPutSignal`, `ncclSignal` and `ncclWaitSignal`,
//! which are there from 2.29 on. Their tasks start no event in any release up to 2.32.
//!
//! Ours stand before them in the libraries that call them, as before the driver's functions
//! ([`crate::driver_watch`]).
//!
//! Rule: ours hand on all arguments as they came, and add only a count. A call that NCCL refuses, or that is
//! in a group which NCCL refuses later, counts too: the program made it.

use crate::counts;
use crate::interpose::interposed;
use capture::counts::Count;
use std::ffi::c_int;

fn counted(nccl: bool, count: Count, call: impl FnOnce() -> c_int) -> c_int {
    counts::add(count, nccl, 1);
    call()
}

interposed! { FUNCTIONS reals call;
    put_signal "ncclPutSignal" (data: usize, count: usize, datatype: c_int, peer: c_int, window: usize,
        offset: usize, signal: c_int, context: c_int, flags: u32, comm: usize, stream: usize) -> c_int {
        counted(NCCL, Count::PutSignal, call)
    }
    signal "ncclSignal" (peer: c_int, signal: c_int, context: c_int, flags: u32, comm: usize,
        stream: usize) -> c_int {
        counted(NCCL, Count::Signal, call)
    }
    wait_signal "ncclWaitSignal" (n: c_int, signals: usize, comm: usize, stream: usize) -> c_int {
        counted(NCCL, Count::WaitSignal, call)
    }
}
