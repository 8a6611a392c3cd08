//! What CUDA and NCCL say about themselves, asked once per communicator at init, when NCCL has set the device.
//!
//! Both libraries are only looked up where the process has already loaded them.

use std::ffi::{c_int, c_void, CStr};

/// The GPU of the calling thread: ordinal and UUID, where they can be asked.
pub struct Gpu {
    pub ordinal: i32,
    pub uuid: [u64; 2],
}

fn loaded(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: RTLD_NOLOAD only finds what is already mapped; the reference is kept for the process's life.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    (!library.is_null()).then_some(library)
}

fn symbol(library: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a plain lookup in a library that is mapped, or in the global scope.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// The GPU current on this thread.
pub fn current_gpu() -> Option<Gpu> {
    let cuda = loaded(c"libcuda.so.1")?;
    let get_device = symbol(cuda, c"cuCtxGetDevice")?;
    let get_uuid = symbol(cuda, c"cuDeviceGetUuid")?;
    // SAFETY: these are the driver API's signatures, unchanged since CUDA 9.2.
    let (get_device, get_uuid) = unsafe {
        (
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(
                get_device,
            ),
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut [u64; 2], c_int) -> c_int>(
                get_uuid,
            ),
        )
    };
    let mut gpu = Gpu {
        ordinal: -1,
        uuid: [0; 2],
    };
    // SAFETY: both are given memory of the size they fill in.
    unsafe {
        if get_device(&mut gpu.ordinal) != 0 {
            return None;
        }
        get_uuid(&mut gpu.uuid, gpu.ordinal);
    }
    Some(gpu)
}

type Version = unsafe extern "C" fn(*mut c_int) -> c_int;

fn version(library: Option<*mut c_void>, name: &CStr) -> Option<i32> {
    let get = symbol(library?, name)?;
    let mut version = 0;
    // SAFETY: ncclGetVersion and cuDriverGetVersion both fill in one int.
    let result = unsafe { std::mem::transmute::<*mut c_void, Version>(get)(&mut version) };
    (result == 0 && version > 0).then_some(version)
}

/// NCCL's version, e.g. 22809.
pub fn nccl_version() -> Option<i32> {
    version(loaded(c"libnccl.so.2"), c"ncclGetVersion")
        .or_else(|| version(Some(libc::RTLD_DEFAULT), c"ncclGetVersion"))
}

/// The newest CUDA that the driver supports, e.g. 13000.
pub fn driver_version() -> Option<i32> {
    version(loaded(c"libcuda.so.1"), c"cuDriverGetVersion")
}
