//! A CUDA driver without a GPU: streams that are busy for a while, and events in their order.
//!
//! A stream is the moment until which it is busy. [`controls::fake_cuda_kernel`] makes it busy for longer; an
//! event recorded on it has the moment that the stream then ends at, and is ready once that has come. The
//! GPU's clock is the host's monotonic one, faster by [`controls::fake_cuda_drift`] and set by
//! [`controls::fake_cuda_step`].
//!
//! Kernels that are launched while a stream is captured go into a graph ([`graphs`]). A function that was
//! given to [`controls::fake_cuda_watch`] gets all that is launched ([`work`]), as CUPTI does.
//!
//! A well-behaved caller does not record into a graph that another captures. It does not ask during a capture
//! if the thread's mode is not relaxed, and does not call after the driver was shut down. They are counted:
//! [`controls::fake_cuda_violations`].

use std::ffi::c_int;

mod api;
mod controls;
mod devices;
mod driver;
mod graphs;
mod work;

const NOT_READY: c_int = 600;
const CAPTURE_UNSUPPORTED: c_int = 900;
const CAPTURE_INVALIDATED: c_int = 901;
const INVALID_HANDLE: c_int = 400;
const INVALID_VALUE: c_int = 1;
const INVALID_CONTEXT: c_int = 201;
const NOT_PERMITTED: c_int = 800;
const DEINITIALIZED: c_int = 4;
const NOT_FOUND: c_int = 500;
const ILLEGAL_STATE: c_int = 401;
const GLOBAL: c_int = 0;

macro_rules! exported {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As for the driver's function: pointers must be valid.
            #[no_mangle]
            pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $result)? $body
        )*
    };
}
use exported;
