//! What NCCL asks the driver for while it makes a communicator and connects it.
//!
//! NCCL gets the addresses of these functions from `cuGetProcAddress` and keeps them in its data. So does
//! this program, into which NCCL is linked as into a library of XLA: a recorder can't tell these calls from
//! the program's.
//!
//! ```text
//! ncclCommInit   load kernels ──▶ plugin's init ──▶ a ring's memory for each channel
//! first use      of an algorithm: buffers, and those of the neighbours; of a peer: its buffers
//! ```
//!
//! Rule: memory is what two channels of NCCL take. Nothing of it is there, so nothing is given back.

use super::Gpu;
use anyhow::bail;
use std::ffi::{c_char, c_int, c_void, CStr};

/// Finds a function of the driver by its name.
pub(super) type GetProcAddress =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> c_int;

type LoadModule = unsafe extern "C" fn(*mut u64, *const c_char) -> c_int;
type Create = unsafe extern "C" fn(*mut u64, usize, *const u32, u64) -> c_int;
type Map = unsafe extern "C" fn(u64, usize, usize, u64, u64) -> c_int;
type SetAccess = unsafe extern "C" fn(u64, usize, *const c_void, usize) -> c_int;
type AllocateOnHost = unsafe extern "C" fn(*mut u64, usize, u32) -> c_int;
type Import = unsafe extern "C" fn(*mut u64, *mut c_void, c_int) -> c_int;

/// Channels of a communicator.
const CHANNELS: usize = 2;
/// Allocations of a channel in the init: its peers, their copy on the GPU, and the ring.
const OF_CHANNEL: usize = 3;
/// The smallest piece of memory that a GPU hands out.
const PIECE: usize = 2 << 20;
/// A channel's buffer for the protocol SIMPLE, and what NCCL shares with a network card.
const BUFFER: usize = 4 << 20;
/// A queue of work in the host's memory.
const QUEUE: usize = 1 << 20;
/// `CU_MEM_LOCATION_TYPE_DEVICE`, in the place that the kind of location has in a CUmemAllocationProp.
const ON_GPU: [u32; 4] = [1, 0, 1, 0];
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const FILE_DESCRIPTOR: c_int = 1;
/// The code of NCCL's kernels.
const KERNELS: &CStr = c".version 9.0";

/// The driver's functions for memory and code.
pub(super) struct Memory {
    load: LoadModule,
    create: Create,
    map: Map,
    set_access: SetAccess,
    allocate_on_host: AllocateOnHost,
    import: Import,
}

impl Memory {
    /// Asks the driver for its functions.
    pub(super) fn find(get: GetProcAddress) -> anyhow::Result<Memory> {
        macro_rules! function {
            ($name:literal, $signature:ty) => {{
                let mut found = std::ptr::null_mut();
                // SAFETY: the driver's function fills in one pointer and one number.
                let result = unsafe { get($name.as_ptr(), &mut found, 12_000, 0, &mut 0) };
                if result != 0 || found.is_null() {
                    bail!("expected {:?} in the driver, found none", $name);
                }
                // SAFETY: the function of this name has the signature of its field.
                unsafe { std::mem::transmute::<*mut c_void, $signature>(found) }
            }};
        }
        Ok(Memory {
            load: function!(c"cuModuleLoadData", LoadModule),
            create: function!(c"cuMemCreate", Create),
            map: function!(c"cuMemMap", Map),
            set_access: function!(c"cuMemSetAccess", SetAccess),
            allocate_on_host: function!(c"cuMemHostAlloc", AllocateOnHost),
            import: function!(c"cuMemImportFromShareableHandle", Import),
        })
    }
}

impl Gpu {
    /// NCCL loads its kernels, before it loads the plugin.
    pub fn load_kernels(&self) {
        // SAFETY: fills in one handle.
        unsafe { (self.memory.load)(&mut 0, KERNELS.as_ptr()) };
    }

    /// NCCL makes the channels of a communicator, after it has loaded the plugin.
    pub fn make_channels(&self) {
        for _ in 0..CHANNELS * OF_CHANNEL {
            self.allocate(PIECE);
        }
        self.allocate_on_host(QUEUE);
    }

    /// NCCL connects its neighbours in an algorithm, each on the same host or not.
    pub fn connect(&self, neighbours: &[bool]) {
        for _ in 0..CHANNELS {
            self.allocate(BUFFER);
        }
        neighbours.iter().for_each(|local| self.reach(*local));
    }

    /// NCCL connects a peer: its memory is mapped, or buffers for a network card are made.
    pub fn reach(&self, is_local: bool) {
        if !is_local {
            self.allocate_on_host(BUFFER);
            return;
        }
        let (mut handle, mut descriptor) = (0, 3);
        let descriptor: *mut c_int = &mut descriptor;
        // SAFETY: fills in one handle.
        unsafe { (self.memory.import)(&mut handle, descriptor.cast(), FILE_DESCRIPTOR) };
        self.map(handle, BUFFER);
    }

    /// As NCCL's ncclCuMemAlloc.
    fn allocate(&self, bytes: usize) {
        let mut handle = 0;
        // SAFETY: fills in one handle; the properties are as long as the driver reads them.
        unsafe { (self.memory.create)(&mut handle, bytes, ON_GPU.as_ptr(), 0) };
        self.map(handle, bytes);
    }

    fn map(&self, handle: u64, bytes: usize) {
        // SAFETY: nothing is at the address, and nobody looks there.
        unsafe {
            (self.memory.map)(handle << 32, bytes, 0, handle, 0);
            (self.memory.set_access)(handle << 32, bytes, ON_GPU.as_ptr().cast(), 1);
        }
    }

    fn allocate_on_host(&self, bytes: usize) {
        // SAFETY: fills in one address.
        unsafe { (self.memory.allocate_on_host)(&mut 0, bytes, 0) };
    }
}
