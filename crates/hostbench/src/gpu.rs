//! GPUs: what a launch and an event cost, and how fast copies are.
//!
//! libcuda is opened at run time, so this runs on hosts without a GPU. The kernel that is launched is empty,
//! and the driver compiles it from PTX. Copies are of [`COPIED`] bytes, timed by events around them, as
//! NVIDIA's nvbandwidth and the p2pBandwidthLatencyTest of the CUDA samples do.
//!
//! Rule: nothing is measured with a full queue. A stream takes about a thousand launches before it makes the
//! host wait, so at most [`QUEUED`] are put into one.

use crate::item::{Items, Unit};
use crate::library::{ask, functions};
use crate::timing::{median, middle};
use libloading::os::unix::Library;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr, CString, OsStr};
use std::path::Path;
use std::ptr::null_mut;
use std::time::Instant;

/// Bytes of a copy that shows the bandwidth.
const COPIED: usize = 64 << 20;
/// Bytes of a copy that shows the latency.
const SMALL: usize = 8;
/// Launches, records or queries of a batch.
const QUEUED: usize = 100;
const BATCHES: usize = 15;
const COPIES: usize = 5;

/// PTX that does nothing. Newer drivers leave out old targets, and older GPUs need them.
const TARGETS: [&str; 2] = ["sm_75", "sm_50"];

type Handle = *mut c_void;

mod ipc;

pub use ipc::lend;

functions! { Driver of "the CUDA driver" {
    init = "cuInit" (c_uint);
    version = "cuDriverGetVersion" (*mut c_int);
    count = "cuDeviceGetCount" (*mut c_int);
    device = "cuDeviceGet" (*mut c_int, c_int);
    name = "cuDeviceGetName" (*mut c_char, c_int, c_int);
    retain = "cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
    set_current = "cuCtxSetCurrent" (Handle);
    can_access = "cuDeviceCanAccessPeer" (*mut c_int, c_int, c_int);
    enable_peer = "cuCtxEnablePeerAccess" (Handle, c_uint);
    load_module = "cuModuleLoadData" (*mut Handle, *const c_void);
    function = "cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
    allocate = "cuMemAlloc_v2" (*mut u64, usize);
    free = "cuMemFree_v2" (u64);
    allocate_host = "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    free_host = "cuMemFreeHost" (*mut c_void);
    to_device = "cuMemcpyHtoDAsync_v2" (u64, *const c_void, usize, Handle);
    to_host = "cuMemcpyDtoHAsync_v2" (*mut c_void, u64, usize, Handle);
    within = "cuMemcpyDtoDAsync_v2" (u64, u64, usize, Handle);
    to_peer = "cuMemcpyPeerAsync" (u64, Handle, u64, Handle, usize, Handle);
    stream = "cuStreamCreate" (*mut Handle, c_uint);
    wait = "cuStreamSynchronize" (Handle);
    event = "cuEventCreate" (*mut Handle, c_uint);
    record = "cuEventRecord" (Handle, Handle);
    query = "cuEventQuery" (Handle);
    elapsed = "cuEventElapsedTime" (*mut f32, Handle, Handle);
    launch = "cuLaunchKernel" (
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void,
        *mut *mut c_void
    );
} }

/// The driver's answers: 0, and what says that an event has not come.
const DONE: c_int = 0;
const NOT_READY: c_int = 600;
const NO_DEVICE: c_int = 100;
const PEER_ALREADY_ENABLED: c_int = 704;
/// The stream does not wait for the default one.
const NON_BLOCKING: c_uint = 1;

/// Calls the driver, and says which function failed.
macro_rules! call {
    ($gpus:expr, $function:ident($($arg:expr),*)) => {
        ask!(Driver, $gpus.driver, $function($($arg),*))
    };
}

/// A GPU with what measurements need.
struct Gpu {
    device: c_int,
    context: Handle,
    stream: Handle,
    events: [Handle; 2],
    memory: u64,
    other: u64,
}

struct Gpus {
    library: &'static Library,
    driver: Driver,
    all: Vec<Gpu>,
}

/// All items of GPUs, and the facts about them. `program` is this one, which lends memory ([`lend`]).
pub fn measure(
    items: &mut Items,
    program: &Path,
    cuda: Option<&Path>,
    facts: &mut Vec<(String, String)>,
) {
    items.group("GPU");
    let gpus = Gpus::open(cuda, facts);
    let gpus = gpus.as_ref().map_err(Clone::clone);
    let first = |of: fn(&Gpus, &Gpu) -> Result<f64, String>| {
        gpus.clone().and_then(|gpus| {
            let gpu = gpus.all.first().ok_or("no GPU")?;
            call!(gpus, set_current(gpu.context))?;
            of(gpus, gpu)
        })
    };
    type Measure = fn(&Gpus, &Gpu) -> Result<f64, String>;
    let times: [(&str, &str, Measure); 10] = [
        (
            "gpu_launch",
            "launch of an empty kernel, on the host",
            Gpus::launch_cost,
        ),
        (
            "gpu_launch_wait",
            "launch of an empty kernel, until the host knows its end; median",
            Gpus::launch_wait,
        ),
        (
            "gpu_event_record",
            "record of an event, on the host",
            Gpus::record_cost,
        ),
        (
            "gpu_event_query",
            "query of an event that has come, on the host",
            Gpus::query_cost,
        ),
        (
            "gpu_synchronize",
            "cuStreamSynchronize of a stream that has nothing to do",
            Gpus::synchronize_cost,
        ),
        (
            "gpu_event_pair",
            "GPU time between events around an empty kernel; median",
            Gpus::event_pair,
        ),
        (
            "gpu_allocate",
            "cuMemAlloc of 64M, and its cuMemFree; median",
            Gpus::allocate_cost,
        ),
        (
            "gpu_allocate_host",
            "cuMemHostAlloc of 64M, and its cuMemFreeHost; median",
            Gpus::allocate_host_cost,
        ),
        (
            "gpu_register_host",
            "cuMemHostRegister of 64M in use, and its cuMemHostUnregister; median",
            Gpus::register_cost,
        ),
        ("gpu_ipc_get", "cuIpcGetMemHandle of 64M", Gpus::handle_cost),
    ];
    for (name, what, measure) in times {
        items.add(name, Unit::Micros, what, first(measure));
    }
    let lender = gpus.as_ref().map_or(0, |gpus| gpus.lender());
    let opened = gpus.clone().and_then(|gpus| {
        let gpu = gpus.all.first().ok_or("no GPU")?;
        call!(gpus, set_current(gpu.context))?;
        gpus.open_cost(program, cuda, lender)
    });
    let what = format!("cuIpcOpenMemHandle of 64M on GPU {lender} of another process; median");
    items.add("gpu_ipc_open", Unit::Micros, &what, opened);
    let copies: [(&str, &str, Measure); 3] = [
        (
            "gpu_copy_from_host",
            "64M from page-locked memory to GPU 0",
            Gpus::copy_in,
        ),
        (
            "gpu_copy_to_host",
            "64M from GPU 0 to page-locked memory",
            Gpus::copy_out,
        ),
        (
            "gpu_copy_within",
            "64M within GPU 0, bytes copied",
            Gpus::within,
        ),
    ];
    for (name, what, measure) in copies {
        items.add(name, Unit::GbPerS, what, first(measure));
    }
    items.group("Between GPUs");
    let number = gpus.as_ref().map_or(0, |gpus| gpus.all.len());
    if number < 2 {
        let why = match &gpus {
            Ok(_) => "one GPU".to_owned(),
            Err(why) => why.clone(),
        };
        let what = "64M from GPU 0 to GPU 1";
        items.add("gpu_copy_0_to_1", Unit::GbPerS, what, Err(why.clone()));
        let what = "8B from GPU 0 to GPU 1; median";
        items.add("gpu_latency_0_to_1", Unit::Micros, what, Err(why));
        return;
    }
    let Ok(gpus) = gpus else { return };
    for (from, a) in gpus.all.iter().enumerate() {
        for (to, b) in gpus.all.iter().enumerate() {
            if from == to {
                continue;
            }
            let direct = gpus.peers(a, b);
            let how = if direct {
                "peer access"
            } else {
                "no peer access"
            };
            items.add(
                &format!("gpu_copy_{from}_to_{to}"),
                Unit::GbPerS,
                &format!("64M from GPU {from} to GPU {to}, {how}"),
                gpus.best_copy(a, COPIED, || gpus.to_peer(a, b, COPIED)),
            );
            items.add(
                &format!("gpu_latency_{from}_to_{to}"),
                Unit::Micros,
                &format!("8B from GPU {from} to GPU {to}, {how}; median"),
                gpus.latency(a, b),
            );
        }
    }
}

impl Gpus {
    fn open(cuda: Option<&Path>, facts: &mut Vec<(String, String)>) -> Result<Gpus, String> {
        let (mut gpus, count) = Gpus::driver(cuda, facts)?;
        for index in 0..count {
            let gpu = gpus.gpu(index, facts)?;
            gpus.all.push(gpu);
        }
        if gpus.all.is_empty() {
            Err("no GPU".to_owned())
        } else {
            Ok(gpus)
        }
    }

    /// The driver, made ready, and the number of its GPUs.
    fn driver(
        cuda: Option<&Path>,
        facts: &mut Vec<(String, String)>,
    ) -> Result<(Gpus, c_int), String> {
        let path = cuda.map_or(OsStr::new("libcuda.so.1"), Path::as_os_str);
        let library = crate::library::open(path, "CUDA driver")?;
        let gpus = Gpus {
            library,
            driver: Driver::load(library)?,
            all: Vec::new(),
        };
        // SAFETY: takes a number.
        match unsafe { (gpus.driver.init)(0) } {
            DONE => {}
            NO_DEVICE => return Err("no GPU".to_owned()),
            code => return Err(format!("cuInit failed with {code}")),
        }
        let (mut version, mut count) = (0, 0);
        call!(gpus, version(&mut version))?;
        let version = format!("{}.{}", version / 1000, version % 1000 / 10);
        facts.push(("CUDA".to_owned(), version));
        call!(gpus, count(&mut count))?;
        Ok((gpus, count))
    }

    /// The GPU whose memory another process lends: as NCCL's ranks, another one if GPU 0 reaches it.
    fn lender(&self) -> usize {
        match self.all.as_slice() {
            [a, b, ..] if self.peers(a, b) => 1,
            _ => 0,
        }
    }

    fn gpu(&self, index: c_int, facts: &mut Vec<(String, String)>) -> Result<Gpu, String> {
        let mut gpu = Gpu {
            device: 0,
            context: null_mut(),
            stream: null_mut(),
            events: [null_mut(); 2],
            memory: 0,
            other: 0,
        };
        call!(self, device(&mut gpu.device, index))?;
        let mut name = [0 as c_char; 128];
        call!(self, name(name.as_mut_ptr(), 127, gpu.device))?;
        // SAFETY: the last byte is still 0.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) };
        facts.push((format!("GPU {index}"), name.to_string_lossy().into_owned()));
        call!(self, retain(&mut gpu.context, gpu.device))?;
        call!(self, set_current(gpu.context))?;
        call!(self, stream(&mut gpu.stream, NON_BLOCKING))?;
        for event in &mut gpu.events {
            call!(self, event(event, 0))?;
        }
        call!(self, allocate(&mut gpu.memory, COPIED))?;
        call!(self, allocate(&mut gpu.other, COPIED))?;
        Ok(gpu)
    }

    /// The empty kernel, on the current GPU.
    fn kernel(&self) -> Result<Handle, String> {
        let mut failed = String::new();
        for target in TARGETS {
            let ptx = format!(
                ".version 6.4\n.target {target}\n.address_size 64\n.visible .entry empty() {{ ret; }}\n"
            );
            let ptx = CString::new(ptx).map_err(|error| error.to_string())?;
            let (mut module, mut function) = (null_mut(), null_mut());
            match call!(self, load_module(&mut module, ptx.as_ptr().cast())) {
                Ok(()) => {
                    call!(self, function(&mut function, module, c"empty".as_ptr()))?;
                    return Ok(function);
                }
                Err(why) => failed = why,
            }
        }
        Err(failed)
    }

    fn run(&self, kernel: Handle, gpu: &Gpu) -> Result<(), String> {
        let none = null_mut();
        call!(
            self,
            launch(kernel, 1, 1, 1, 1, 1, 1, 0, gpu.stream, none, none)
        )
    }

    /// µs of the host for one of many calls that the stream has room for.
    fn host_cost(
        &self,
        gpu: &Gpu,
        mut call: impl FnMut() -> Result<(), String>,
    ) -> Result<f64, String> {
        let mut best = f64::INFINITY;
        // The first batch compiles, loads and warms up.
        for batch in 0..=BATCHES {
            call!(self, wait(gpu.stream))?;
            let start = Instant::now();
            for _ in 0..QUEUED {
                call()?;
            }
            let took = start.elapsed().as_nanos() as f64 / QUEUED as f64 / 1e3;
            if batch > 0 {
                best = best.min(took);
            }
        }
        call!(self, wait(gpu.stream))?;
        Ok(best)
    }

    fn launch_cost(&self, gpu: &Gpu) -> Result<f64, String> {
        let kernel = self.kernel()?;
        self.host_cost(gpu, || self.run(kernel, gpu))
    }

    fn launch_wait(&self, gpu: &Gpu) -> Result<f64, String> {
        let kernel = self.kernel()?;
        let mut failed = Ok(());
        let took = median(QUEUED, || {
            let start = Instant::now();
            let done = self
                .run(kernel, gpu)
                .and_then(|()| call!(self, wait(gpu.stream)));
            failed = failed.clone().and(done);
            start.elapsed().as_nanos() as f64 / 1e3
        });
        failed.map(|()| took)
    }

    fn record_cost(&self, gpu: &Gpu) -> Result<f64, String> {
        self.host_cost(gpu, || call!(self, record(gpu.events[0], gpu.stream)))
    }

    fn query_cost(&self, gpu: &Gpu) -> Result<f64, String> {
        call!(self, record(gpu.events[0], gpu.stream))?;
        self.host_cost(gpu, || {
            // SAFETY: a handle of the driver's.
            match unsafe { (self.driver.query)(gpu.events[0]) } {
                DONE | NOT_READY => Ok(()),
                code => Err(format!("cuEventQuery failed with {code}")),
            }
        })
    }

    fn synchronize_cost(&self, gpu: &Gpu) -> Result<f64, String> {
        self.host_cost(gpu, || call!(self, wait(gpu.stream)))
    }

    fn allocate_cost(&self, _: &Gpu) -> Result<f64, String> {
        let mut failed = Ok(());
        let took = median(BATCHES, || {
            let mut memory = 0;
            let start = Instant::now();
            let done = call!(self, allocate(&mut memory, COPIED));
            failed = failed
                .clone()
                .and(done.and_then(|()| call!(self, free(memory))));
            start.elapsed().as_nanos() as f64 / 1e3
        });
        failed.map(|()| took)
    }

    fn allocate_host_cost(&self, _: &Gpu) -> Result<f64, String> {
        let mut failed = Ok(());
        let took = median(BATCHES, || {
            let start = Instant::now();
            let done = self.with_host(|_| Ok(()));
            failed = failed.clone().and(done);
            start.elapsed().as_nanos() as f64 / 1e3
        });
        failed.map(|()| took)
    }

    fn event_pair(&self, gpu: &Gpu) -> Result<f64, String> {
        let kernel = self.kernel()?;
        let mut all = Vec::with_capacity(QUEUED);
        for _ in 0..QUEUED {
            all.push(self.timed(gpu, || self.run(kernel, gpu))? / 1e3);
        }
        Ok(middle(all))
    }

    /// GPU time of what `work` puts into the stream, ns.
    fn timed(&self, gpu: &Gpu, work: impl FnOnce() -> Result<(), String>) -> Result<f64, String> {
        call!(self, record(gpu.events[0], gpu.stream))?;
        work()?;
        call!(self, record(gpu.events[1], gpu.stream))?;
        call!(self, wait(gpu.stream))?;
        let mut ms = 0f32;
        call!(self, elapsed(&mut ms, gpu.events[0], gpu.events[1]))?;
        Ok(f64::from(ms) * 1e6)
    }

    /// GB/s of the best of a few copies.
    fn best_copy(
        &self,
        gpu: &Gpu,
        bytes: usize,
        copy: impl Fn() -> Result<(), String>,
    ) -> Result<f64, String> {
        call!(self, set_current(gpu.context))?;
        let mut best = f64::INFINITY;
        for turn in 0..=COPIES {
            let took = self.timed(gpu, &copy)?;
            if turn > 0 {
                best = best.min(took);
            }
        }
        Ok(bytes as f64 / best)
    }

    /// With page-locked memory of the host as long as `work` runs.
    fn with_host<T>(&self, work: impl FnOnce(Handle) -> Result<T, String>) -> Result<T, String> {
        let mut host = null_mut();
        call!(self, allocate_host(&mut host, COPIED, 0))?;
        let done = work(host);
        call!(self, free_host(host))?;
        done
    }

    fn copy_in(&self, gpu: &Gpu) -> Result<f64, String> {
        self.with_host(|host| {
            self.best_copy(gpu, COPIED, || {
                call!(self, to_device(gpu.memory, host, COPIED, gpu.stream))
            })
        })
    }

    fn copy_out(&self, gpu: &Gpu) -> Result<f64, String> {
        self.with_host(|host| {
            self.best_copy(gpu, COPIED, || {
                call!(self, to_host(host, gpu.memory, COPIED, gpu.stream))
            })
        })
    }

    fn within(&self, gpu: &Gpu) -> Result<f64, String> {
        self.best_copy(gpu, COPIED, || {
            call!(self, within(gpu.other, gpu.memory, COPIED, gpu.stream))
        })
    }

    /// Lets `a` reach the memory of `b` if it can.
    fn peers(&self, a: &Gpu, b: &Gpu) -> bool {
        let mut can = 0;
        let asked = call!(self, can_access(&mut can, a.device, b.device));
        if asked.is_err() || can == 0 || call!(self, set_current(a.context)).is_err() {
            return false;
        }
        // SAFETY: a context of the driver's.
        let code = unsafe { (self.driver.enable_peer)(b.context, 0) };
        matches!(code, DONE | PEER_ALREADY_ENABLED)
    }

    fn to_peer(&self, a: &Gpu, b: &Gpu, bytes: usize) -> Result<(), String> {
        call!(
            self,
            to_peer(b.memory, b.context, a.memory, a.context, bytes, a.stream)
        )
    }

    fn latency(&self, a: &Gpu, b: &Gpu) -> Result<f64, String> {
        call!(self, set_current(a.context))?;
        let mut all = Vec::with_capacity(QUEUED);
        for _ in 0..QUEUED {
            all.push(self.timed(a, || self.to_peer(a, b, SMALL))? / 1e3);
        }
        Ok(middle(all))
    }
}

impl Drop for Gpus {
    fn drop(&mut self) {
        for gpu in &self.all {
            // The process ends soon; what can't be given back goes with it.
            let _ = call!(self, set_current(gpu.context));
            let _ = call!(self, free(gpu.memory));
            let _ = call!(self, free(gpu.other));
        }
    }
}
