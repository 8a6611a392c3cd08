//! A stand-in for libcudart. It looks the driver's functions up once and keeps their addresses in its data,
//! as CUDA's runtime does, shared or linked into a program.

#![allow(missing_docs, non_snake_case)]

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

type GetProcAddress = unsafe extern "C" fn(
    *const std::ffi::c_char,
    *mut *mut c_void,
    c_int,
    u64,
    *mut c_int,
) -> c_int;

/// Asks the driver for a function's address, the first time.
fn found(kept: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = kept.load(Relaxed);
    if !known.is_null() {
        return known;
    }
    let mut address = std::ptr::null_mut();
    // SAFETY: fake-cuda's signatures.
    unsafe {
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
        let cuda = libc::dlopen(c"libcuda.so.1".as_ptr(), flags);
        let get = libc::dlsym(cuda, c"cuGetProcAddress_v2".as_ptr());
        assert!(!get.is_null(), "the driver is loaded");
        let get = std::mem::transmute::<*mut c_void, GetProcAddress>(get);
        assert_eq!(get(name.as_ptr(), &mut address, 12_000, 0, &mut 0), 0);
    }
    kept.store(address, Relaxed);
    address
}

macro_rules! runtime {
    ($($name:ident = $driver:literal ($($arg:ident: $type:ty),*);)*) => {
        $(
            /// # Safety
            /// As for CUDA's function.
            #[no_mangle]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
                let function = found(&kept::$name, $driver);
                // SAFETY: the driver's function has this signature.
                unsafe {
                    std::mem::transmute::<*mut c_void,
                        unsafe extern "C" fn($($type),*) -> c_int>(function)($($arg),*)
                }
            }
        )*

        /// Where the addresses are kept.
        #[allow(non_upper_case_globals)]
        mod kept {
            use super::AtomicPtr;
            $(pub static $name: AtomicPtr<std::ffi::c_void> = AtomicPtr::new(std::ptr::null_mut());)*
        }

        /// Looks all functions up, as the runtime does when it is initialised.
        #[no_mangle]
        pub extern "C" fn fake_cudart_initialise() {
            $(found(&kept::$name, $driver);)*
        }
    };
}

runtime! {
    cudaStreamBeginCapture = c"cuStreamBeginCapture_v2" (stream: u64, mode: c_int);
    cudaStreamEndCapture = c"cuStreamEndCapture" (stream: u64, graph: *mut u64);
    cudaGraphCreate = c"cuGraphCreate" (graph: *mut u64, flags: c_uint);
    cudaGraphClone = c"cuGraphClone" (clone: *mut u64, original: u64);
    cudaGraphAddChildGraphNode = c"cuGraphAddChildGraphNode"
        (node: *mut u64, graph: u64, dependencies: *const u64, n: usize, child: u64);
    cudaGraphAddNode = c"cuGraphAddNode"
        (node: *mut u64, graph: u64, dependencies: *const u64, n: usize, parameters: *mut [u64; 32]);
    cudaGraphInstantiate = c"cuGraphInstantiateWithFlags" (exec: *mut u64, graph: u64, flags: u64);
    cudaGraphExecUpdate = c"cuGraphExecUpdate_v2" (exec: u64, graph: u64, result: *mut c_void);
    cudaGraphLaunch = c"cuGraphLaunch" (exec: u64, stream: u64);
    cudaGraphExecDestroy = c"cuGraphExecDestroy" (exec: u64);
    cudaGraphDestroy = c"cuGraphDestroy" (graph: u64);
    cudaLaunchKernel = c"cuLaunchKernel"
        (function: *const c_void, x: c_uint, y: c_uint, z: c_uint, block_x: c_uint, block_y: c_uint,
            block_z: c_uint, shared: c_uint, stream: u64, parameters: *mut c_void, extra: *mut c_void);
    cudaMemcpyAsync = c"cuMemcpyAsync" (to: u64, from: u64, bytes: usize, stream: u64);
    cudaEventCreate = c"cuEventCreate" (event: *mut u64, flags: c_uint);
    cudaEventDestroy = c"cuEventDestroy_v2" (event: u64);
    cudaEventRecord = c"cuEventRecord" (event: u64, stream: u64);
    cudaEventRecordWithFlags = c"cuEventRecordWithFlags" (event: u64, stream: u64, flags: c_uint);
    cudaStreamWaitEvent = c"cuStreamWaitEvent" (stream: u64, event: u64, flags: c_uint);
    cudaEventRecord_ptsz = c"cuEventRecord_ptsz" (event: u64, stream: u64);
    cudaStreamWaitEvent_ptsz = c"cuStreamWaitEvent_ptsz" (stream: u64, event: u64, flags: c_uint);
    cudaMemsetAsync = c"cuMemsetD8Async" (to: u64, value: u8, bytes: usize, stream: u64);
    cudaMalloc = c"cuMemAlloc_v2" (address: *mut u64, bytes: usize);
    cudaHostAlloc = c"cuMemHostAlloc" (address: *mut u64, bytes: usize, flags: c_uint);
    cudaStreamSynchronize = c"cuStreamSynchronize" (stream: u64);
    cudaEventSynchronize = c"cuEventSynchronize" (event: u64);
    cudaDeviceSynchronize = c"cuCtxSynchronize_v2" (context: u64);
    create_memory = c"cuMemCreate" (handle: *mut u64, bytes: usize, properties: *const u32, flags: u64);
    map_memory = c"cuMemMap" (address: u64, bytes: usize, offset: usize, handle: u64, flags: u64);
    set_access = c"cuMemSetAccess" (address: u64, bytes: usize, who: *const c_void, n: usize);
    load_module = c"cuModuleLoadData" (module: *mut u64, text: *const c_char);
    get_function = c"cuModuleGetFunction" (function: *mut u64, module: u64, name: *const c_char);
    import_memory = c"cuMemImportFromShareableHandle"
        (handle: *mut u64, of_system: *mut c_void, kind: c_int);
}
