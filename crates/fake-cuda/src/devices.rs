//! Two GPUs with memory that nobody reads, modules of one empty kernel, and copies between them: what
//! `ncclscope hostbench` asks a driver for.
//!
//! A copy runs at 8 GB/s, and one between GPUs at 4 GB/s. So a bandwidth that is measured can be told
//! beforehand.

use crate::driver::{driver, wait_until, Kernel, CONTEXT};
use crate::work::COPY;
use crate::{exported, INVALID_CONTEXT, INVALID_VALUE, NOT_PERMITTED};
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};

/// GPUs, if `FAKE_CUDA_GPUS` says nothing else.
const GPUS: c_int = 2;
/// How long the empty kernel takes.
const EMPTY_NS: u64 = 1500;

/// What `cuLaunchKernel` takes for a function: how long it runs, and its name.
struct Function((u64, *const c_char));

// SAFETY: the name is never written to.
unsafe impl Sync for Function {}

static EMPTY: Function = Function((EMPTY_NS, c"empty".as_ptr()));

/// Puts a copy of so many ns into a stream.
fn copy(stream: u64, bytes: usize, ns: u64) -> c_int {
    let mut driver = driver();
    let (name, size) = (std::ptr::null(), bytes as u64);
    driver.launch_kernel(
        stream,
        Kernel {
            ns,
            name,
            kind: COPY,
            size,
        },
    );
    driver.healthy()
}

/// A handle of memory for other processes, in CUDA's size.
#[repr(C)]
pub struct IpcHandle([u64; 8]);

/// What a call is answered with: FAKE_CUDA_REFUSES has the names of those that a container forbids.
fn refused(function: &str) -> c_int {
    let names = std::env::var("FAKE_CUDA_REFUSES").unwrap_or_default();
    if names.split(',').any(|name| name == function) {
        NOT_PERMITTED
    } else {
        0
    }
}

exported! {
    /// Two, or as many as FAKE_CUDA_GPUS says.
    fn cuDeviceGetCount(count: *mut c_int) -> c_int {
        let said = std::env::var("FAKE_CUDA_GPUS").ok().and_then(|text| text.parse().ok());
        // SAFETY: the caller's.
        unsafe { *count = said.unwrap_or(GPUS) };
        0
    }

    /// A device's handle is its number.
    fn cuDeviceGet(device: *mut c_int, index: c_int) -> c_int {
        // SAFETY: the caller's.
        unsafe { *device = index };
        0
    }

    /// One attribute is known, whether MPS is used: FAKE_CUDA_MPS says so. Others are 0.
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) -> c_int {
        const MPS_ENABLED: c_int = 133;
        let is_used = attribute == MPS_ENABLED && std::env::var_os("FAKE_CUDA_MPS").is_some();
        // SAFETY: the caller's.
        unsafe { *value = c_int::from(is_used) };
        0
    }

    /// All have the same name.
    fn cuDeviceGetName(name: *mut c_char, room: c_int, _device: c_int) -> c_int {
        let text: &CStr = c"Fake GPU";
        let bytes = text.to_bytes_with_nul();
        if (room as usize) < bytes.len() {
            return INVALID_VALUE;
        }
        // SAFETY: the caller's, with enough room.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), name, bytes.len()) };
        0
    }

    /// A context is one more than its device.
    fn cuDevicePrimaryCtxRetain(context: *mut u64, device: c_int) -> c_int {
        // SAFETY: the caller's.
        unsafe { *context = device as u64 + 1 };
        0
    }

    /// All reach each other.
    fn cuDeviceCanAccessPeer(can: *mut c_int, a: c_int, b: c_int) -> c_int {
        // SAFETY: the caller's.
        unsafe { *can = c_int::from(a != b) };
        0
    }

    /// There is nothing to be done.
    fn cuCtxEnablePeerAccess(peer: u64, _flags: c_uint) -> c_int {
        if peer == CONTEXT.get() { INVALID_VALUE } else { 0 }
    }

    /// Any text is a module.
    fn cuModuleLoadData(module: *mut u64, text: *const c_char) -> c_int {
        // SAFETY: the caller's text, which ends with 0.
        let is_ptx = unsafe { CStr::from_ptr(text) }.to_bytes().starts_with(b".version");
        // SAFETY: the caller's.
        unsafe { *module = 1 };
        if is_ptx { 0 } else { INVALID_VALUE }
    }

    /// The empty kernel, whatever its name.
    fn cuModuleGetFunction(function: *mut *const c_void, _module: u64, _name: *const c_char) -> c_int {
        // SAFETY: the caller's.
        unsafe { *function = (&raw const EMPTY.0).cast() };
        0
    }

    /// An address that nothing is at.
    fn cuMemAlloc_v2(address: *mut u64, _bytes: usize) -> c_int {
        // SAFETY: the caller's.
        unsafe { *address = driver().handle() << 32 };
        0
    }

    /// There is nothing to be given back.
    fn cuMemFree_v2(_address: u64) -> c_int {
        0
    }

    /// A handle for memory that is not there.
    fn cuMemCreate(handle: *mut u64, _bytes: usize, _properties: *const u32, _flags: u64) -> c_int {
        // SAFETY: the caller's.
        unsafe { *handle = driver().handle() };
        0
    }

    /// There is nothing to be mapped; the handle 0 is refused.
    fn cuMemMap(_address: u64, _bytes: usize, _offset: usize, handle: u64, _flags: u64) -> c_int {
        if handle == 0 { INVALID_VALUE } else { 0 }
    }

    /// Everybody may read what is not there. It takes a millisecond, as to map memory of another GPU may.
    fn cuMemSetAccess(_address: u64, _bytes: usize, _who: *const c_void, _n: usize) -> c_int {
        std::thread::sleep(std::time::Duration::from_millis(1));
        0
    }

    /// A handle for memory of another process that is not there; the handle 0 is refused.
    fn cuMemImportFromShareableHandle(handle: *mut u64, of_system: *mut c_void, _kind: c_int) -> c_int {
        if of_system.is_null() {
            return INVALID_VALUE;
        }
        // SAFETY: the caller's.
        unsafe { *handle = driver().handle() };
        0
    }

    /// Every event has come.
    fn cuEventSynchronize(_event: u64) -> c_int {
        driver().healthy()
    }

    /// An address that nothing is at.
    fn cuMemHostAlloc(address: *mut u64, _bytes: usize, _flags: c_uint) -> c_int {
        // SAFETY: the caller's.
        unsafe { *address = driver().handle() << 32 };
        0
    }

    /// There is nothing to be given back.
    fn cuMemFreeHost(_address: u64) -> c_int {
        0
    }

    /// There is nothing to be done. Memory that is not there is refused.
    fn cuMemHostRegister_v2(address: u64, bytes: usize, _flags: c_uint) -> c_int {
        if address == 0 || bytes == 0 { INVALID_VALUE } else { refused("cuMemHostRegister_v2") }
    }

    /// There is nothing to be given back.
    fn cuMemHostUnregister(_address: u64) -> c_int {
        0
    }

    /// A handle: the process, and the address in it.
    fn cuIpcGetMemHandle(handle: *mut IpcHandle, address: u64) -> c_int {
        if address == 0 {
            return INVALID_VALUE;
        }
        let mut of = IpcHandle([0; 8]);
        (of.0[0], of.0[1]) = (std::process::id().into(), address);
        // SAFETY: the caller's.
        unsafe { *handle = of };
        refused("cuIpcGetMemHandle")
    }

    /// An address that nothing is at. As a real driver, it refuses handles of the same process.
    fn cuIpcOpenMemHandle_v2(address: *mut u64, handle: IpcHandle, flags: c_uint) -> c_int {
        if handle.0[0] == u64::from(std::process::id()) {
            return INVALID_CONTEXT;
        }
        if handle.0[1] == 0 || flags != 1 {
            return INVALID_VALUE;
        }
        // SAFETY: the caller's.
        unsafe { *address = driver().handle() << 32 };
        refused("cuIpcOpenMemHandle_v2")
    }

    /// There is nothing to be given back.
    fn cuIpcCloseMemHandle(_address: u64) -> c_int {
        0
    }

    /// A copy of 8 GB/s, which copies nothing.
    fn cuMemcpyHtoDAsync_v2(_to: u64, _from: u64, bytes: usize, stream: u64) -> c_int {
        copy(stream, bytes, bytes as u64 / 8)
    }

    /// The same.
    fn cuMemcpyDtoHAsync_v2(_to: u64, _from: u64, bytes: usize, stream: u64) -> c_int {
        copy(stream, bytes, bytes as u64 / 8)
    }

    /// The same.
    fn cuMemcpyDtoDAsync_v2(_to: u64, _from: u64, bytes: usize, stream: u64) -> c_int {
        copy(stream, bytes, bytes as u64 / 8)
    }

    /// A copy of 4 GB/s, which copies nothing.
    fn cuMemcpyPeerAsync(_to: u64, _there: u64, _from: u64, _here: u64, bytes: usize, stream: u64) -> c_int {
        copy(stream, bytes, 2 * bytes as u64 / 8)
    }

    /// Waits until a stream has nothing to do.
    fn cuStreamSynchronize(stream: u64) -> c_int {
        let until = driver().busy.get(&stream).copied().unwrap_or(0);
        wait_until(until)
    }

    /// Waits until all streams have nothing to do. CUDA 13 gives the context (null is the current one).
    fn cuCtxSynchronize_v2(_context: u64) -> c_int {
        let until = driver().busy.values().copied().max().unwrap_or(0);
        wait_until(until)
    }
}
