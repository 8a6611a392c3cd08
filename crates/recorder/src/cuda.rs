//! What CUDA and NCCL say about themselves, asked once per communicator at init, when NCCL has set the
//! device; and the few functions of the driver that [`crate::gpu_events`] needs.
//!
//! Both libraries are only looked up where the process has already loaded them.

use std::cell::LazyCell;
use std::ffi::{c_int, c_uint, c_void, CStr};

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

/// The address of a function of the driver, if the driver is loaded.
pub fn driver_function(name: &CStr) -> Option<*mut c_void> {
    symbol(loaded(c"libcuda.so.1")?, name)
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

/// Whether CUDA's MPS runs the work of this process together with that of others on its GPU.
pub fn has_mps() -> bool {
    /// `CU_DEVICE_ATTRIBUTE_MPS_ENABLED`, since CUDA 12.1; an older driver returns an error.
    const MPS_ENABLED: c_int = 133;
    type GetAttribute = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;
    let Some(get) = driver_function(c"cuDeviceGetAttribute") else {
        return false;
    };
    // SAFETY: the function's signature since CUDA 2.0.
    let get = unsafe { std::mem::transmute::<*mut c_void, GetAttribute>(get) };
    let mut enabled = 0;
    // SAFETY: it fills in a number. MPS is for all GPUs of a process, so the first is asked.
    (unsafe { get(&mut enabled, MPS_ENABLED, 0) }) == 0 && enabled != 0
}

/// The driver's functions for events, by their signatures of CUDA 11.4 and later. Handles are numbers here:
/// they are only handed back.
pub struct Driver {
    current: unsafe extern "C" fn(*mut u64) -> c_int,
    make_current: unsafe extern "C" fn(u64) -> c_int,
    event: unsafe extern "C" fn(*mut u64, c_uint) -> c_int,
    stream: unsafe extern "C" fn(*mut u64, c_uint) -> c_int,
    record: unsafe extern "C" fn(u64, u64) -> c_int,
    query: unsafe extern "C" fn(u64) -> c_int,
    elapsed: unsafe extern "C" fn(*mut f32, u64, u64) -> c_int,
    capturing: unsafe extern "C" fn(u64, *mut c_int) -> c_int,
    exchange: unsafe extern "C" fn(*mut c_int) -> c_int,
    /// From CUDA 12 on.
    id: Option<unsafe extern "C" fn(u64, *mut u64) -> c_int>,
    stream_context: Option<unsafe extern "C" fn(u64, *mut u64) -> c_int>,
    /// From CUDA 12 on.
    streams: Option<StreamQuery>,
}

/// A context of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// What the driver wants to be told. A context that is made after a reset may have the address of one
    /// before.
    pub handle: u64,
    /// Differs for all contexts that the process ever had; the same as `handle` before CUDA 12.
    pub id: u64,
}

/// The handles of CUDA's default streams: the one that all threads share, and the calling thread's own.
pub const SHARED_STREAM: u64 = 1;
pub const OWN_STREAM: u64 = 2;

/// Asks for the ids of streams.
pub struct StreamQuery {
    capturing: IsCapturing,
    id: GetId,
}

type IsCapturing = unsafe extern "C" fn(u64, *mut c_int) -> c_int;
type GetId = unsafe extern "C" fn(u64, *mut u64) -> c_int;

impl StreamQuery {
    /// The driver's functions, if it is loaded and has them.
    pub fn find() -> Option<StreamQuery> {
        let capturing = driver_function(c"cuStreamIsCapturing")?;
        let id = driver_function(c"cuStreamGetId")?;
        // SAFETY: the functions' signatures since CUDA 10.0 and 12.0.
        unsafe {
            Some(StreamQuery {
                capturing: std::mem::transmute::<*mut c_void, IsCapturing>(capturing),
                id: std::mem::transmute::<*mut c_void, GetId>(id),
            })
        }
    }

    /// CUDA's id of a stream, as in CUPTI's records; 0 if the driver does not say. `None` while the stream is
    /// captured: to ask for its id would end the capture (measured: bench/gpu/capture_questions.py).
    pub fn id(&self, stream: u64) -> Option<u32> {
        let (mut capturing, mut id) = (0, 0);
        // SAFETY: a stream that the program uses at this moment; fills in one number each. The shared stream
        // can't be captured, nor be asked about it while another one is.
        unsafe {
            let asks = stream > SHARED_STREAM;
            if asks && ((self.capturing)(stream, &mut capturing), capturing) != (0, 0) {
                return None;
            }
            match (self.id)(stream, &mut id) {
                0 => Some(id as u32),
                _ => Some(0),
            }
        }
    }
}

/// Asks which graph a stream is captured into.
pub struct CaptureQuery {
    info: Info,
}

type Info =
    unsafe extern "C" fn(u64, *mut c_int, *mut u64, *mut u64, *mut *const u64, *mut usize) -> c_int;

impl CaptureQuery {
    /// The driver's function, if it is loaded and has it.
    pub fn find() -> Option<CaptureQuery> {
        let cuda = loaded(c"libcuda.so.1")?;
        let info = symbol(cuda, c"cuStreamGetCaptureInfo_v2")?;
        // SAFETY: the function's documented signature since CUDA 11.3.
        let info = unsafe { std::mem::transmute::<*mut c_void, Info>(info) };
        Some(CaptureQuery { info })
    }

    /// The graph that a stream is captured into.
    pub fn graph(&self, stream: u64) -> Option<u64> {
        let (mut status, mut graph) = (0, 0);
        // SAFETY: fills in the two that it gets; the others may be null.
        let result = unsafe {
            (self.info)(
                stream,
                &mut status,
                std::ptr::null_mut(),
                &mut graph,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        (result == 0 && status == ACTIVE && graph != 0).then_some(graph)
    }
}

const NOT_READY: c_int = 600;
/// A stream's capture that goes on and has not failed.
const ACTIVE: c_int = 1;
/// Results that say that a graph is being captured, and nothing about the health of the program.
const CAPTURE_ERRORS: std::ops::RangeInclusive<c_int> = 900..=908;
const RELAXED: c_int = 2;
const NON_BLOCKING: c_uint = 1;

impl Driver {
    /// The functions, where the process has a driver that has them all.
    pub fn find() -> Option<Driver> {
        let cuda = loaded(c"libcuda.so.1")?;
        macro_rules! function {
            ($name:literal, $signature:ty) => {
                // SAFETY: these are the driver API's documented signatures, unchanged since the functions
                // exist.
                unsafe { std::mem::transmute::<*mut c_void, $signature>(symbol(cuda, $name)?) }
            };
        }
        type Get = unsafe extern "C" fn(*mut u64) -> c_int;
        type Make = unsafe extern "C" fn(*mut u64, c_uint) -> c_int;
        type Of = unsafe extern "C" fn(u64) -> c_int;
        type Record = unsafe extern "C" fn(u64, u64) -> c_int;
        type Elapsed = unsafe extern "C" fn(*mut f32, u64, u64) -> c_int;
        type Capturing = unsafe extern "C" fn(u64, *mut c_int) -> c_int;
        type Exchange = unsafe extern "C" fn(*mut c_int) -> c_int;
        type Id = unsafe extern "C" fn(u64, *mut u64) -> c_int;
        let optional = |name| {
            // SAFETY: as above; both have the same one.
            symbol(cuda, name).map(|found| unsafe { std::mem::transmute::<*mut c_void, Id>(found) })
        };
        Some(Driver {
            current: function!(c"cuCtxGetCurrent", Get),
            make_current: function!(c"cuCtxSetCurrent", Of),
            event: function!(c"cuEventCreate", Make),
            stream: function!(c"cuStreamCreate", Make),
            record: function!(c"cuEventRecord", Record),
            query: function!(c"cuEventQuery", Of),
            elapsed: function!(c"cuEventElapsedTime", Elapsed),
            capturing: function!(c"cuStreamIsCapturing", Capturing),
            exchange: function!(c"cuThreadExchangeStreamCaptureMode", Exchange),
            id: optional(c"cuCtxGetId"),
            stream_context: optional(c"cuStreamGetCtx"),
            streams: StreamQuery::find(),
        })
    }

    /// The calling thread's context.
    #[inline]
    pub fn current_context(&self) -> Option<u64> {
        let mut context = 0;
        // SAFETY: fills in one handle.
        let result = unsafe { (self.current)(&mut context) };
        (result == 0 && context != 0).then_some(context)
    }

    /// The calling thread's context, with its id.
    pub fn context(&self) -> Option<Context> {
        let handle = self.current_context()?;
        let mut id = 0;
        // SAFETY: the calling thread's own context, so it is there; fills in one number.
        let known = self
            .id
            .is_some_and(|ask| unsafe { ask(handle, &mut id) } == 0);
        Some(Context {
            handle,
            id: if known { id } else { handle },
        })
    }

    /// Makes a context the calling thread's.
    pub fn set_context(&self, context: u64) -> Result<(), u32> {
        // SAFETY: a handle that the driver gave.
        match unsafe { (self.make_current)(context) } {
            0 => Ok(()),
            code => Err(code as u32),
        }
    }

    /// A new event with timing, in the current context.
    pub fn new_event(&self) -> Option<u64> {
        let mut event = 0;
        // SAFETY: fills in one handle.
        let result = unsafe { (self.event)(&mut event, 0) };
        (result == 0 && event != 0).then_some(event)
    }

    /// A new stream that waits for no other, in the current context.
    pub fn new_stream(&self) -> Option<u64> {
        let mut stream = 0;
        // SAFETY: fills in one handle.
        let result = unsafe { (self.stream)(&mut stream, NON_BLOCKING) };
        (result == 0 && stream != 0).then_some(stream)
    }

    /// Records an event, unless the stream is being captured into a graph. Another stream's capture, this
    /// thread's or not, is left unharmed.
    #[inline]
    pub fn record(&self, event: u64, stream: u64) -> Result<bool, u32> {
        let (mut capturing, mut mode) = (0, RELAXED);
        // SAFETY: handles that the driver or NCCL gave; the thread's capture mode is put back.
        let result = unsafe {
            if (self.exchange)(&mut mode) != 0 {
                return Ok(false);
            }
            let mut result = (self.capturing)(stream, &mut capturing);
            if result == 0 && capturing == 0 {
                result = (self.record)(event, stream);
            }
            (self.exchange)(&mut mode);
            result
        };
        match result {
            0 => Ok(capturing == 0),
            code if CAPTURE_ERRORS.contains(&code) => Ok(false),
            code => Err(code as u32),
        }
    }

    /// Does what a capture by another thread would forbid and that does not touch it; `None` if that can't be
    /// allowed.
    pub fn relaxed<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        let mut mode = RELAXED;
        // SAFETY: exchanges the calling thread's own mode, which is put back.
        if unsafe { (self.exchange)(&mut mode) } != 0 {
            return None;
        }
        let result = act();
        // SAFETY: as above.
        unsafe { (self.exchange)(&mut mode) };
        Some(result)
    }

    /// Whether a stream is being captured into a graph; true also if that can't be asked now.
    pub fn is_capturing(&self, stream: u64) -> bool {
        let (mut capturing, mut mode) = (0, RELAXED);
        // SAFETY: a stream that the program uses at this moment; the thread's capture mode is put back.
        unsafe {
            if (self.exchange)(&mut mode) != 0 {
                return true;
            }
            let result = (self.capturing)(stream, &mut capturing);
            (self.exchange)(&mut mode);
            result != 0 || capturing != 0
        }
    }

    /// The context of a stream, if it can be asked: other errors are for the program to see.
    pub fn context_of(&self, stream: u64) -> Option<u64> {
        let mut context = 0;
        // SAFETY: a stream that the program uses at this moment; fills in one handle.
        let result = unsafe { (self.stream_context?)(stream, &mut context) };
        (result == 0 && context != 0).then_some(context)
    }

    /// CUDA's id of a stream, as in CUPTI's records; 0 if the driver is too old to tell, or if the stream is
    /// captured.
    pub fn stream_id(&self, stream: u64) -> u32 {
        let streams = self.streams.as_ref();
        streams.and_then(|streams| streams.id(stream)).unwrap_or(0)
    }

    /// Lets the calling thread, for good, ask for events while others capture graphs.
    pub fn relax_capture(&self) {
        let mut mode = RELAXED;
        // SAFETY: exchanges the calling thread's own mode.
        unsafe { (self.exchange)(&mut mode) };
    }

    /// Whether the GPU has come to the newest record of an event; `None` while a capture forbids the
    /// question.
    pub fn has_come_to(&self, event: u64) -> Result<Option<bool>, u32> {
        // SAFETY: an event that the driver gave.
        match unsafe { (self.query)(event) } {
            0 => Ok(Some(true)),
            NOT_READY => Ok(Some(false)),
            code if CAPTURE_ERRORS.contains(&code) => Ok(None),
            code => Err(code as u32),
        }
    }

    /// The same. While a capture forbids the question: not that anybody knew.
    pub fn has_ended(&self, event: u64) -> Result<bool, u32> {
        Ok(self.has_come_to(event)?.unwrap_or(false))
    }

    /// From one event to another, both ended, ns; negative where the second came first. `None` while a
    /// capture forbids the question.
    pub fn elapsed_ns(&self, from: u64, to: u64) -> Result<Option<f64>, u32> {
        let mut milliseconds = 0f32;
        // SAFETY: fills in one float; events that the driver gave.
        match unsafe { (self.elapsed)(&mut milliseconds, from, to) } {
            0 => Ok(Some(f64::from(milliseconds) * 1e6)),
            code if CAPTURE_ERRORS.contains(&code) => Ok(None),
            code => Err(code as u32),
        }
    }
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

/// The addresses of functions of the driver or, if it has none of that name, of NCCL. Both libraries are
/// looked for once, when the first function is: where one is absent, the dynamic linker searches its folders
/// each time.
pub fn driver_and_nccl() -> impl Fn(&CStr) -> Option<*mut c_void> {
    let libraries = LazyCell::new(|| [loaded(c"libcuda.so.1"), loaded(c"libnccl.so.2")]);
    move |name| libraries.iter().flatten().find_map(|l| symbol(*l, name))
}

/// A function of NCCL's, if NCCL is loaded as a library of its own and has it.
pub fn nccl_function(name: &CStr) -> Option<*mut c_void> {
    symbol(loaded(c"libnccl.so.2")?, name)
}

/// The newest CUDA that the driver supports, e.g. 13000.
pub fn driver_version() -> Option<i32> {
    version(loaded(c"libcuda.so.1"), c"cuDriverGetVersion")
}
