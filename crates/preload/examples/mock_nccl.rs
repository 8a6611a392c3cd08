//! A library with NCCL's entry points that does nothing, for the tests of the counter.
//!
//! A communicator is a number: ranks × 256 + rank. A datatype of 99 makes a call fail. An AlltoAll calls
//! `ncclSend` as the program would find it, as a libnccl does that is linked without `-Bsymbolic`.

use std::ffi::{c_char, c_int, c_void};

extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

const FAILING: c_int = 99;

fn done(datatype: c_int) -> c_int {
    if datatype == FAILING {
        4
    } else {
        0
    }
}

/// # Safety
/// `ranks` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommCount(comm: *mut c_void, ranks: *mut c_int) -> c_int {
    // SAFETY: by the caller.
    unsafe { *ranks = (comm as usize / 256) as c_int };
    0
}

/// # Safety
/// `rank` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommUserRank(comm: *mut c_void, rank: *mut c_int) -> c_int {
    // SAFETY: by the caller.
    unsafe { *rank = (comm as usize % 256) as c_int };
    0
}

/// As NCCL's.
#[unsafe(no_mangle)]
pub extern "C" fn ncclAllReduce(
    _send: *const c_void,
    _recv: *mut c_void,
    _count: usize,
    datatype: c_int,
    _op: c_int,
    _comm: *mut c_void,
    _stream: *mut c_void,
) -> c_int {
    done(datatype)
}

/// As NCCL's.
#[unsafe(no_mangle)]
pub extern "C" fn ncclAllGather(
    _send: *const c_void,
    _recv: *mut c_void,
    _count: usize,
    datatype: c_int,
    _comm: *mut c_void,
    _stream: *mut c_void,
) -> c_int {
    done(datatype)
}

/// As NCCL's.
#[unsafe(no_mangle)]
pub extern "C" fn ncclSend(
    _buffer: *const c_void,
    _count: usize,
    datatype: c_int,
    _peer: c_int,
    _comm: *mut c_void,
    _stream: *mut c_void,
) -> c_int {
    done(datatype)
}

/// As NCCL's.
#[unsafe(no_mangle)]
pub extern "C" fn ncclAlltoAll(
    send: *const c_void,
    _recv: *mut c_void,
    count: usize,
    datatype: c_int,
    comm: *mut c_void,
    stream: *mut c_void,
) -> c_int {
    type Send =
        extern "C" fn(*const c_void, usize, c_int, c_int, *mut c_void, *mut c_void) -> c_int;
    // SAFETY: the C library's, or the counter's.
    let found = unsafe { dlsym(libc::RTLD_DEFAULT, c"ncclSend".as_ptr()) };
    if found.is_null() {
        return done(datatype);
    }
    // SAFETY: whichever of them it is has this signature.
    let ncclsend = unsafe { std::mem::transmute::<*mut c_void, Send>(found) };
    ncclsend(send, count, datatype, 0, comm, stream)
}
