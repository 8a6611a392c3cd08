//! A library that has NCCL's entry points from whatever is loaded, as a framework's own library that is
//! linked with libnccl: for the tests of the counter.

use std::ffi::{c_int, c_void};

extern "C" {
    fn ncclAllReduce(
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        datatype: c_int,
        op: c_int,
        comm: *mut c_void,
        stream: *mut c_void,
    ) -> c_int;
}

/// Makes a number of calls on a communicator; the sum of the results.
#[unsafe(no_mangle)]
pub extern "C" fn use_linked(times: c_int, comm: usize) -> c_int {
    let null = std::ptr::null_mut();
    // SAFETY: the mock reads no pointer.
    let call = |_| unsafe { ncclAllReduce(null, null, 1000, 9, 0, comm as *mut c_void, null) };
    (0..times).map(call).sum()
}
