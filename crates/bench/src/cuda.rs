//! The CUDA driver, as far as a benchmark of NCCL needs it.
//!
//! The driver alone: it is on every machine with a GPU, where the runtime (libcudart) comes in many places
//! and versions. NCCL's own runtime works in the device's primary context, which is the one made current
//! here.
//!
//! Rule: each function checks the driver's answer, and an error names the function and what the driver says
//! of it.

use crate::library::{functions, open_cuda, text};
use anyhow::{bail, Result};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::null_mut;

/// An address in GPU memory.
pub type Address = u64;
type Handle = *mut c_void;

const NOT_READY: c_int = 600;
const NO_DEVICE: c_int = 100;
/// The stream does not wait for the default one.
const NON_BLOCKING: c_uint = 1;
/// Other threads of NCCL may make unsafe calls while this one captures.
const CAPTURE_THREAD_LOCAL: c_uint = 1;

functions! {
    /// libcuda's functions.
    Functions {
        init = "cuInit" (c_uint);
        device_count = "cuDeviceGetCount" (*mut c_int);
        device = "cuDeviceGet" (*mut c_int, c_int);
        device_name = "cuDeviceGetName" (*mut c_char, c_int, c_int);
        device_bus = "cuDeviceGetPCIBusId" (*mut c_char, c_int, c_int);
        error_text = "cuGetErrorString" (c_int, *mut *const c_char);
        context = "cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
        set_context = "cuCtxSetCurrent" (Handle);
        synchronize = "cuCtxSynchronize" ();
        allocate = "cuMemAlloc_v2" (*mut Address, usize);
        to_device = "cuMemcpyHtoD_v2" (Address, *const c_void, usize);
        to_host = "cuMemcpyDtoH_v2" (*mut c_void, Address, usize);
        fill = "cuMemsetD8_v2" (Address, u8, usize);
        stream = "cuStreamCreate" (*mut Handle, c_uint);
        stream_query = "cuStreamQuery" (Handle);
        event = "cuEventCreate" (*mut Handle, c_uint);
        event_record = "cuEventRecord" (Handle, Handle);
        event_query = "cuEventQuery" (Handle);
        event_elapsed = "cuEventElapsedTime" (*mut f32, Handle, Handle);
        begin_capture = "cuStreamBeginCapture_v2" (Handle, c_uint);
        end_capture = "cuStreamEndCapture" (Handle, *mut Handle);
        instantiate = "cuGraphInstantiateWithFlags" (*mut Handle, Handle, u64);
        launch = "cuGraphLaunch" (Handle, Handle);
        destroy_executable = "cuGraphExecDestroy" (Handle);
        destroy_graph = "cuGraphDestroy" (Handle);
    }
    optional {}
}

/// The driver.
pub struct Cuda {
    functions: Functions,
}

/// A stream of the current device.
#[derive(Clone, Copy)]
pub struct Stream(pub(crate) Handle);

/// A point in a stream, with the GPU's time.
#[derive(Clone, Copy)]
pub struct Event(Handle);

/// A captured graph that can be launched.
pub struct Graph {
    executable: Handle,
    graph: Handle,
}

/// Calls a function of the driver and checks its answer.
macro_rules! call {
    ($cuda:expr, $function:ident($($arg:expr),*)) => {
        // SAFETY: arguments are handles that the driver gave, live places for its results, or memory of the
        // length given; the callers below keep all of them valid during the call.
        $cuda.check(stringify!($function), unsafe { ($cuda.functions.$function)($($arg),*) })
    };
}

impl Cuda {
    /// Opens the driver and starts it.
    ///
    /// # Errors
    /// When there is no driver.
    pub fn open(given: Option<&Path>) -> Result<Cuda> {
        let cuda = Cuda {
            functions: Functions::load(open_cuda(given)?)?,
        };
        // SAFETY: takes a number.
        match unsafe { (cuda.functions.init)(0) } {
            NO_DEVICE => bail!("{NO_GPU}"),
            code => cuda.check("init", code)?,
        }
        Ok(cuda)
    }

    fn check(&self, function: &str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut said = std::ptr::null();
        // SAFETY: `said` is a place for a pointer to a static string.
        unsafe { (self.functions.error_text)(code, &mut said) };
        // SAFETY: NULL or a static string, as above.
        let said = unsafe { text(said) };
        bail!("CUDA's {function} failed with {code} ({said})")
    }

    /// How many GPUs this process may use.
    ///
    /// # Errors
    /// When there is none, or as the driver says.
    pub fn devices(&self) -> Result<u32> {
        let mut count = 0;
        call!(self, device_count(&mut count))?;
        if count < 1 {
            bail!("{NO_GPU}");
        }
        Ok(count as u32)
    }

    /// Makes a GPU this thread's, and returns its name and PCI address.
    ///
    /// # Errors
    /// As the driver says.
    pub fn use_device(&self, index: u32) -> Result<(String, String)> {
        let mut device = 0;
        call!(self, device(&mut device, index as c_int))?;
        let mut context = null_mut();
        call!(self, context(&mut context, device))?;
        call!(self, set_context(context))?;
        let mut name = [0 as c_char; 128];
        let mut bus = [0 as c_char; 32];
        call!(self, device_name(name.as_mut_ptr(), 127, device))?;
        call!(self, device_bus(bus.as_mut_ptr(), 31, device))?;
        // SAFETY: the last byte of both is still 0.
        unsafe { Ok((text(name.as_ptr()), text(bus.as_ptr()))) }
    }

    /// GPU memory; it is given back when the process ends.
    ///
    /// # Errors
    /// Mostly that there is not enough.
    pub fn allocate(&self, bytes: usize) -> Result<Address> {
        let mut address = 0;
        call!(self, allocate(&mut address, bytes.max(16)))?;
        Ok(address)
    }

    /// Copies to the GPU.
    ///
    /// # Errors
    /// As the driver says.
    pub fn to_device(&self, to: Address, from: &[u8]) -> Result<()> {
        call!(self, to_device(to, from.as_ptr().cast(), from.len()))
    }

    /// Copies from the GPU.
    ///
    /// # Errors
    /// As the driver says.
    pub fn to_host(&self, to: &mut [u8], from: Address) -> Result<()> {
        call!(self, to_host(to.as_mut_ptr().cast(), from, to.len()))
    }

    /// Fills GPU memory with a byte.
    ///
    /// # Errors
    /// As the driver says.
    pub fn fill(&self, at: Address, byte: u8, bytes: usize) -> Result<()> {
        call!(self, fill(at, byte, bytes))
    }

    /// Waits for the whole GPU.
    ///
    /// # Errors
    /// As the driver says, also for what failed before.
    pub fn synchronize(&self) -> Result<()> {
        call!(self, synchronize())
    }

    /// A stream.
    ///
    /// # Errors
    /// As the driver says.
    pub fn stream(&self) -> Result<Stream> {
        let mut stream = null_mut();
        call!(self, stream(&mut stream, NON_BLOCKING))?;
        Ok(Stream(stream))
    }

    /// Whether all work of a stream is done.
    ///
    /// # Errors
    /// When some of it failed.
    pub fn is_done(&self, stream: Stream) -> Result<bool> {
        // SAFETY: a handle of the driver's.
        match unsafe { (self.functions.stream_query)(stream.0) } {
            NOT_READY => Ok(false),
            code => self.check("stream_query", code).map(|()| true),
        }
    }

    /// An event with a time.
    ///
    /// # Errors
    /// As the driver says.
    pub fn event(&self) -> Result<Event> {
        let mut event = null_mut();
        call!(self, event(&mut event, 0))?;
        Ok(Event(event))
    }

    /// Puts an event into a stream.
    ///
    /// # Errors
    /// As the driver says.
    pub fn record(&self, event: Event, stream: Stream) -> Result<()> {
        call!(self, event_record(event.0, stream.0))
    }

    /// Whether the GPU has come to an event.
    ///
    /// # Errors
    /// When work before it failed.
    pub fn has_passed(&self, event: Event) -> Result<bool> {
        // SAFETY: a handle of the driver's.
        match unsafe { (self.functions.event_query)(event.0) } {
            NOT_READY => Ok(false),
            code => self.check("event_query", code).map(|()| true),
        }
    }

    /// Nanoseconds between two events that have passed.
    ///
    /// # Errors
    /// As the driver says.
    pub fn between(&self, from: Event, to: Event) -> Result<i64> {
        let mut ms = 0f32;
        call!(self, event_elapsed(&mut ms, from.0, to.0))?;
        Ok((f64::from(ms) * 1e6).round() as i64)
    }

    /// Captures what `calls` puts into the stream, which does not run yet.
    ///
    /// # Errors
    /// As `calls`, or as the driver says.
    pub fn capture(&self, stream: Stream, calls: impl FnOnce() -> Result<()>) -> Result<Graph> {
        call!(self, begin_capture(stream.0, CAPTURE_THREAD_LOCAL))?;
        let made = calls();
        let (mut graph, mut executable) = (null_mut(), null_mut());
        let ended = call!(self, end_capture(stream.0, &mut graph));
        made?;
        ended?;
        call!(self, instantiate(&mut executable, graph, 0))?;
        Ok(Graph { executable, graph })
    }

    /// Launches a graph.
    ///
    /// # Errors
    /// As the driver says.
    pub fn launch(&self, graph: &Graph, stream: Stream) -> Result<()> {
        call!(self, launch(graph.executable, stream.0))
    }

    /// Gives a graph back.
    ///
    /// # Errors
    /// As the driver says.
    pub fn destroy(&self, graph: Graph) -> Result<()> {
        call!(self, destroy_executable(graph.executable))?;
        call!(self, destroy_graph(graph.graph))
    }
}

const NO_GPU: &str = "the CUDA driver finds no GPU\n  hint: nvidia-smi -L lists those of this machine; \
                      CUDA_VISIBLE_DEVICES may hide them, and a container or a Slurm step has only the GPUs \
                      that it asked for";
