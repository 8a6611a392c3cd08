//! A CUDA driver without a GPU: streams that are busy for a while, and events in their order.
//!
//! A stream is the moment until which it is busy. [`fake_cuda_kernel`] makes it busy for longer; an event
//! recorded on it has the moment that the stream then ends at, and is ready once that has come. The GPU's
//! clock is the host's monotonic one, faster by [`fake_cuda_drift`] and set by [`fake_cuda_step`].
//!
//! Kernels that are launched while a stream is captured go into a graph ([`graphs`]). A function that was
//! given to [`fake_cuda_watch`] gets all that is launched ([`work`]), as CUPTI does.
//!
//! A well-behaved caller does not record into a graph that another captures. It does not ask during a capture
//! if the thread's mode is not relaxed, and does not call after the driver was shut down. They are counted:
//! [`fake_cuda_violations`].

use graphs::{Graphs, Node};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock};
use work::{Watcher, Work, COPY, FILL, KERNEL};

mod devices;
mod graphs;
mod work;

const NOT_READY: c_int = 600;
const CAPTURE_UNSUPPORTED: c_int = 900;
const CAPTURE_INVALIDATED: c_int = 901;
const INVALID_HANDLE: c_int = 400;
const INVALID_VALUE: c_int = 1;
const DEINITIALIZED: c_int = 4;
const NOT_FOUND: c_int = 500;
const ILLEGAL_STATE: c_int = 401;
const GLOBAL: c_int = 0;

#[derive(Default)]
struct Driver {
    /// By stream: the moment it is busy until, host ns.
    busy: HashMap<u64, u64>,
    events: HashMap<u64, Event>,
    /// The context of a stream; those that are not here are of each thread's own.
    contexts: HashMap<u64, u64>,
    graphs: Graphs,
    next: u64,
    /// From this moment on (host ns), the GPU's clock is ahead by so much more, ns.
    steps: Vec<(u64, i64)>,
    ppm: i64,
    fails: c_int,
    /// What questions about events are answered with; 0 as they should be.
    ask_fails: c_int,
    /// How often contexts were destroyed and made again.
    resets: u64,
    records: u64,
    records_on: HashMap<u64, u64>,
    /// Handles of events that were destroyed.
    freed: Vec<u64>,
    /// Whether events are recorded on streams that are captured, as programs do.
    forks: bool,
    refuses_waits: bool,
    violations: u64,
    /// Launches so far.
    correlation: u32,
    /// How much longer what is launched runs, percent, and by how much it has become longer in all, ns.
    slower: u64,
    extra: u64,
    watcher: Option<Watcher>,
}

/// An event.
#[derive(Clone, Copy)]
struct Event {
    /// The context that it was made in.
    context: u64,
    /// When its newest record comes, host ns, and what the GPU's clock says then.
    due: Option<(u64, i128)>,
}

/// What a launch runs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    ns: u64,
    /// Mangled, and there for ever.
    name: *const c_char,
    kind: u32,
    size: u64,
}

// SAFETY: the name is never written to.
unsafe impl Send for Kernel {}

/// A kernel of NCCL's.
const NCCL: &std::ffi::CStr =
    c"_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE";

/// A thread that launches waits inside the driver, and keeps its lock.
static STUCK: AtomicBool = AtomicBool::new(false);

fn driver() -> MutexGuard<'static, Driver> {
    static DRIVER: OnceLock<Mutex<Driver>> = OnceLock::new();
    while STUCK.load(Relaxed) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let driver = DRIVER.get_or_init(Mutex::default);
    driver
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

thread_local! {
    static CONTEXT: Cell<u64> = const { Cell::new(1) };
    static MODE: Cell<c_int> = const { Cell::new(GLOBAL) };
    /// Tells threads apart.
    static NUMBER: u64 = {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Relaxed)
    };
    /// This thread's newest launch: its number, and from when to when it runs.
    static NEWEST: Cell<[u64; 3]> = const { Cell::new([0; 3]) };
}

/// Set: records of events and waits for them do nothing, at once, so that what is before them can be
/// measured.
static BARE: AtomicBool = AtomicBool::new(false);

/// Stream handles that stand for a default stream.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

/// The stream that a handle means on the calling thread. `default` is what 0 stands for.
fn stream_of(handle: u64, default: u64) -> u64 {
    match if handle == 0 { default } else { handle } {
        // Streams of their own, far from all handles.
        PER_THREAD => NUMBER.with(|number| *number) << 48 | PER_THREAD,
        // As it was given to launches that know no other default.
        LEGACY => 0,
        other => other,
    }
}

fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills in a timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Driver {
    fn gpu(&self, host: u64) -> i128 {
        let stepped = self.steps.iter().filter(|(at, _)| *at <= host);
        let steps: i64 = stepped.map(|(_, by)| by).sum();
        i128::from(host) + i128::from(host) * i128::from(self.ppm) / 1_000_000 + i128::from(steps)
    }

    /// Runs kernels on a stream, one after another, as one launch.
    fn run(&mut self, stream: u64, graph: u32, kernels: &[Kernel]) {
        self.correlation += 1;
        let device = CONTEXT.get() as u32 - 1;
        let busy = self.busy.entry(stream).or_insert(0);
        let launched = now();
        let first = (*busy).max(launched);
        *busy = first;
        let mut work = Vec::with_capacity(kernels.len());
        for (i, kernel) in kernels.iter().enumerate() {
            let start = *busy;
            let extra = kernel.ns * self.slower / 100;
            self.extra += extra;
            *busy += kernel.ns + extra;
            work.push(Work {
                kind: kernel.kind,
                correlation: self.correlation,
                device,
                stream: stream as u32,
                graph,
                node: if graph == 0 {
                    0
                } else {
                    u64::from(graph) << 32 | i as u64
                },
                launched,
                start,
                end: *busy,
                name: kernel.name,
                size: kernel.size,
            });
        }
        NEWEST.set([self.correlation.into(), first, *busy]);
        if let Some(watcher) = self.watcher {
            // SAFETY: the watcher's signature; it does not call back.
            unsafe { watcher(work.as_ptr(), work.len()) };
        }
    }

    /// Launches a kernel, or captures it.
    fn launch_kernel(&mut self, stream: u64, kernel: Kernel) {
        let stream = stream_of(stream, LEGACY);
        if !self.captured(stream, Node::Kernel(kernel)) {
            self.run(stream, 0, &[kernel]);
        }
    }

    /// Records an event behind what the stream has to do.
    fn record(&mut self, event: u64, stream: u64) -> c_int {
        let failed = self.healthy();
        if failed != 0 {
            return failed;
        }
        let Some(context) = self.events.get(&event).map(|event| event.context) else {
            return INVALID_HANDLE;
        };
        if *self.contexts.get(&stream).unwrap_or(&context) != context {
            return INVALID_HANDLE;
        }
        if self.graphs.captures.contains_key(&stream) {
            // A program may, to fork its capture; then the event has no time.
            self.violations += u64::from(!self.forks);
            self.events.insert(event, Event { context, due: None });
            return 0;
        }
        let due = self.busy.get(&stream).copied().unwrap_or(0).max(now());
        let due = Some((due, self.gpu(due)));
        self.records += 1;
        *self.records_on.entry(stream).or_default() += 1;
        self.events.insert(event, Event { context, due });
        0
    }

    /// Makes a stream wait for an event's newest record; for an event without one it waits for nothing.
    fn wait(&mut self, stream: u64, event: u64) -> c_int {
        let failed = self.healthy();
        if failed != 0 {
            return failed;
        }
        if self.refuses_waits {
            return INVALID_VALUE;
        }
        let Some(event) = self.events.get(&event) else {
            return INVALID_HANDLE;
        };
        if let Some((due, _)) = event.due {
            let busy = self.busy.entry(stream).or_insert(0);
            *busy = due.max(*busy);
        }
        0
    }

    /// A call that needs a healthy driver.
    fn healthy(&mut self) -> c_int {
        if self.fails == DEINITIALIZED {
            self.violations += 1;
        }
        self.fails
    }
}

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

exported! {
    /// There is nothing to be made ready.
    fn cuInit(flags: u32) -> c_int {
        let _ = flags;
        0
    }

    /// The calling thread's context.
    fn cuCtxGetCurrent(context: *mut u64) -> c_int {
        // SAFETY: the caller's.
        unsafe { *context = CONTEXT.get() };
        0
    }

    /// A number that no other context of the process has or had.
    fn cuCtxGetId(context: u64, id: *mut u64) -> c_int {
        // SAFETY: the caller's.
        unsafe { *id = driver().resets << 32 | context };
        0
    }

    /// Sets the calling thread's context.
    fn cuCtxSetCurrent(context: u64) -> c_int {
        CONTEXT.set(context);
        driver().healthy()
    }

    /// The device of the calling thread's context: one less than its number.
    fn cuCtxGetDevice(device: *mut c_int) -> c_int {
        // SAFETY: the caller's.
        unsafe { *device = CONTEXT.get() as c_int - 1 };
        0
    }

    /// A UUID that is the device's number.
    fn cuDeviceGetUuid(uuid: *mut [u64; 2], device: c_int) -> c_int {
        // SAFETY: the caller's.
        unsafe { *uuid = [0xfa4e, device as u64 + 1] };
        0
    }

    /// CUDA 13.0.
    fn cuDriverGetVersion(version: *mut c_int) -> c_int {
        // SAFETY: the caller's.
        unsafe { *version = 13_000 };
        0
    }

    /// A new event.
    fn cuEventCreate(event: *mut u64, _flags: c_uint) -> c_int {
        let mut driver = driver();
        let new = driver.freed.pop().unwrap_or_else(|| driver.handle());
        let context = CONTEXT.get();
        driver.events.insert(new, Event { context, due: None });
        // SAFETY: the caller's.
        unsafe { *event = new };
        driver.healthy()
    }

    /// A new stream.
    fn cuStreamCreate(stream: *mut u64, _flags: c_uint) -> c_int {
        let mut driver = driver();
        driver.next += 1;
        // SAFETY: the caller's.
        unsafe { *stream = driver.next << 8 | 1 };
        driver.healthy()
    }

    /// Records an event behind what the stream has to do.
    fn cuEventRecord(event: u64, stream: u64) -> c_int {
        if BARE.load(Relaxed) {
            return 0;
        }
        driver().record(event, stream_of(stream, LEGACY))
    }

    /// The same; 0 is the calling thread's default stream.
    fn cuEventRecord_ptsz(event: u64, stream: u64) -> c_int {
        driver().record(event, stream_of(stream, PER_THREAD))
    }

    /// The same with flags.
    fn cuEventRecordWithFlags(event: u64, stream: u64, _flags: c_uint) -> c_int {
        if BARE.load(Relaxed) {
            return 0;
        }
        driver().record(event, stream_of(stream, LEGACY))
    }

    /// The same with flags; 0 is the calling thread's default stream.
    fn cuEventRecordWithFlags_ptsz(event: u64, stream: u64, _flags: c_uint) -> c_int {
        driver().record(event, stream_of(stream, PER_THREAD))
    }

    /// Makes a stream wait for an event.
    fn cuStreamWaitEvent(stream: u64, event: u64, _flags: c_uint) -> c_int {
        if BARE.load(Relaxed) {
            return 0;
        }
        driver().wait(stream_of(stream, LEGACY), event)
    }

    /// The same; 0 is the calling thread's default stream.
    fn cuStreamWaitEvent_ptsz(stream: u64, event: u64, _flags: c_uint) -> c_int {
        driver().wait(stream_of(stream, PER_THREAD), event)
    }

    /// Destroys an event. Another may get its handle.
    fn cuEventDestroy_v2(event: u64) -> c_int {
        if BARE.load(Relaxed) {
            return 0;
        }
        let mut driver = driver();
        match driver.events.remove(&event) {
            Some(_) => driver.freed.push(event),
            None => return INVALID_HANDLE,
        }
        driver.healthy()
    }

    /// The context of a stream.
    fn cuStreamGetCtx(stream: u64, context: *mut u64) -> c_int {
        let driver = driver();
        let own = CONTEXT.get();
        // SAFETY: the caller's.
        unsafe { *context = driver.contexts.get(&stream).copied().unwrap_or(own) };
        0
    }

    /// Whether an event has come.
    fn cuEventQuery(event: u64) -> c_int {
        let mut driver = driver();
        let failed = driver.healthy();
        if failed != 0 {
            return failed;
        }
        if driver.ask_fails != 0 {
            return driver.ask_fails;
        }
        if !driver.graphs.captures.is_empty() && MODE.get() == GLOBAL {
            driver.violations += 1;
            return CAPTURE_UNSUPPORTED;
        }
        match driver.events.get(&event).map(|event| event.due) {
            Some(Some((due, _))) if due > now() => NOT_READY,
            Some(_) => 0,
            None => INVALID_HANDLE,
        }
    }

    /// From one event to another, ms.
    fn cuEventElapsedTime(milliseconds: *mut f32, from: u64, to: u64) -> c_int {
        let mut driver = driver();
        let failed = driver.healthy();
        if failed != 0 {
            return failed;
        }
        if driver.ask_fails != 0 {
            return driver.ask_fails;
        }
        let at = |event: u64| driver.events.get(&event).and_then(|event| event.due);
        let (Some((from_due, from)), Some((to_due, to))) = (at(from), at(to)) else {
            return INVALID_HANDLE;
        };
        if from_due.max(to_due) > now() {
            return NOT_READY;
        }
        // SAFETY: the caller's.
        unsafe { *milliseconds = ((to - from) as f64 / 1e6) as f32 };
        0
    }

    /// Whether a stream is being captured.
    fn cuStreamIsCapturing(stream: u64, status: *mut c_int) -> c_int {
        let driver = driver();
        // SAFETY: the caller's.
        unsafe { *status = driver.graphs.captures.contains_key(&stream).into() };
        // The legacy stream can't be asked about while another is captured.
        if stream_of(stream, LEGACY) == 0 && !driver.graphs.captures.is_empty() {
            return 906;
        }
        0
    }

    /// Exchanges the calling thread's capture mode.
    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int) -> c_int {
        // SAFETY: the caller's.
        unsafe { *mode = MODE.replace(*mode) };
        0
    }

    /// Begins to capture a stream.
    fn cuStreamBeginCapture_v2(stream: u64, _mode: c_int) -> c_int {
        let begun = driver().begin_capture(stream, None);
        begun.map_or(ILLEGAL_STATE, |()| 0)
    }

    /// Begins to capture a stream into a graph that is there.
    fn cuStreamBeginCaptureToGraph(
        stream: u64,
        graph: u64,
        _dependencies: *const u64,
        _edges: *const c_void,
        _number: usize,
        _mode: c_int
    ) -> c_int {
        let begun = driver().begin_capture(stream, Some(graph));
        begun.map_or(ILLEGAL_STATE, |()| 0)
    }

    /// Ends the capture of a stream.
    fn cuStreamEndCapture(stream: u64, graph: *mut u64) -> c_int {
        let Some(capture) = driver().graphs.captures.remove(&stream) else {
            return ILLEGAL_STATE;
        };
        // SAFETY: the caller's.
        unsafe { *graph = if capture.spoilt { 0 } else { capture.graph } };
        if capture.spoilt { CAPTURE_INVALIDATED } else { 0 }
    }

    /// Whether a stream is captured, and into which graph.
    fn cuStreamGetCaptureInfo_v2(
        stream: u64,
        status: *mut c_int,
        id: *mut u64,
        graph: *mut u64,
        _dependencies: *mut *const u64,
        _number: *mut usize
    ) -> c_int {
        let driver = driver();
        let capture = driver.graphs.captures.get(&stream);
        // SAFETY: the caller's; all but the first may be null.
        unsafe {
            *status = capture.is_some().into();
            if let Some(capture) = capture {
                if let Some(id) = id.as_mut() {
                    *id = capture.id;
                }
                if let Some(graph) = graph.as_mut() {
                    *graph = capture.graph;
                }
            }
        }
        0
    }

    /// A new graph.
    fn cuGraphCreate(graph: *mut u64, _flags: c_uint) -> c_int {
        // SAFETY: the caller's.
        unsafe { *graph = driver().graph(Vec::new()) };
        0
    }

    /// A copy of a graph.
    fn cuGraphClone(clone: *mut u64, original: u64) -> c_int {
        let mut driver = driver();
        let Some(nodes) = driver.graphs.graphs.get(&original).cloned() else {
            return INVALID_VALUE;
        };
        // SAFETY: the caller's.
        unsafe { *clone = driver.graph(nodes) };
        0
    }

    /// Adds a copy of a graph to another.
    fn cuGraphAddChildGraphNode(
        node: *mut u64,
        graph: u64,
        _dependencies: *const u64,
        _number: usize,
        child: u64
    ) -> c_int {
        let mut driver = driver();
        let Some(nodes) = driver.graphs.graphs.get(&child).cloned() else {
            return INVALID_VALUE;
        };
        let handle = driver.handle();
        match driver.graphs.graphs.get_mut(&graph) {
            Some(parent) => parent.push(Node::Child(nodes)),
            None => return INVALID_VALUE,
        }
        // SAFETY: the caller's.
        unsafe { *node = handle };
        0
    }

    /// Adds a node of any kind; here, a child graph (4) or a conditional one (13) with one body.
    fn cuGraphAddNode(
        node: *mut u64,
        graph: u64,
        _dependencies: *const u64,
        _number: usize,
        parameters: *mut [u64; 32]
    ) -> c_int {
        let mut driver = driver();
        // SAFETY: the caller's: the type, then at byte 16 what the type has.
        let parameters = unsafe { &mut *parameters };
        let added = match parameters[0] as u32 {
            4 => match driver.graphs.graphs.get(&parameters[2]) {
                Some(nodes) => Node::Child(nodes.clone()),
                None => return INVALID_VALUE,
            },
            13 => {
                let body = driver.graph(Vec::new());
                let bodies = Box::leak(Box::new([body]));
                parameters[4] = bodies.as_ptr() as u64;
                Node::Conditional
            }
            _ => return INVALID_VALUE,
        };
        let handle = driver.handle();
        match driver.graphs.graphs.get_mut(&graph) {
            Some(parent) => parent.push(added),
            None => return INVALID_VALUE,
        }
        // SAFETY: the caller's.
        unsafe { *node = handle };
        0
    }

    /// Makes a graph executable.
    fn cuGraphInstantiateWithFlags(exec: *mut u64, graph: u64, _flags: u64) -> c_int {
        let mut driver = driver();
        let Some(nodes) = driver.graphs.graphs.get(&graph).cloned() else {
            return INVALID_VALUE;
        };
        let handle = driver.handle();
        driver.graphs.execs.insert(handle, nodes);
        // SAFETY: the caller's.
        unsafe { *exec = handle };
        0
    }

    /// Makes a graph executable, as programs for CUDA 11 call it.
    fn cuGraphInstantiate_v2(
        exec: *mut u64,
        graph: u64,
        _node: *mut u64,
        _log: *mut c_char,
        _size: usize
    ) -> c_int {
        // SAFETY: the caller's.
        unsafe { cuGraphInstantiateWithFlags(exec, graph, 0) }
    }

    /// Makes a graph executable, with flags first among its parameters.
    fn cuGraphInstantiateWithParams(exec: *mut u64, graph: u64, parameters: *mut u64) -> c_int {
        // SAFETY: the caller's.
        unsafe { cuGraphInstantiateWithFlags(exec, graph, *parameters) }
    }

    /// Makes an executable graph do what another graph does.
    fn cuGraphExecUpdate_v2(exec: u64, graph: u64, _result: *mut c_void) -> c_int {
        let mut driver = driver();
        let Some(nodes) = driver.graphs.graphs.get(&graph).cloned() else {
            return INVALID_VALUE;
        };
        match driver.graphs.execs.get_mut(&exec) {
            Some(known) => *known = nodes,
            None => return INVALID_VALUE,
        }
        0
    }

    /// Launches an executable graph.
    fn cuGraphLaunch(exec: u64, stream: u64) -> c_int {
        let mut driver = driver();
        let failed = driver.healthy();
        if failed != 0 {
            return failed;
        }
        driver.launch(exec, stream).map_or(INVALID_HANDLE, |()| 0)
    }

    /// Destroys an executable graph.
    fn cuGraphExecDestroy(exec: u64) -> c_int {
        driver().graphs.execs.remove(&exec);
        0
    }

    /// Destroys a graph; what was made of it stays.
    fn cuGraphDestroy(graph: u64) -> c_int {
        driver().graphs.graphs.remove(&graph);
        0
    }

    /// A kernel of a length and with a name: `function` points to both.
    fn cuLaunchKernel(
        function: *const (u64, *const c_char),
        x: c_uint,
        y: c_uint,
        z: c_uint,
        _block_x: c_uint,
        _block_y: c_uint,
        _block_z: c_uint,
        _shared: c_uint,
        stream: u64,
        _parameters: *mut c_void,
        _extra: *mut c_void
    ) -> c_int {
        // SAFETY: the caller's.
        let (ns, name) = unsafe { *function };
        let size = u64::from(x) * u64::from(y) * u64::from(z);
        let mut driver = driver();
        driver.launch_kernel(stream, Kernel { ns, name, kind: KERNEL, size });
        driver.healthy()
    }

    /// A copy that takes 1 ns for each byte, and copies nothing.
    fn cuMemcpyAsync(_to: u64, _from: u64, bytes: usize, stream: u64) -> c_int {
        let mut driver = driver();
        let (ns, name) = (bytes as u64, std::ptr::null());
        driver.launch_kernel(stream, Kernel { ns, name, kind: COPY, size: ns });
        driver.healthy()
    }

    /// A fill that takes 1 ns for each byte, and fills nothing.
    fn cuMemsetD8Async(_to: u64, _value: u8, bytes: usize, stream: u64) -> c_int {
        let mut driver = driver();
        let (ns, name) = (bytes as u64, std::ptr::null());
        driver.launch_kernel(stream, Kernel { ns, name, kind: FILL, size: ns });
        driver.healthy()
    }

    /// The id of a stream. To ask for it ends the capture of that stream, whatever the mode (measured).
    fn cuStreamGetId(stream: u64, id: *mut u64) -> c_int {
        if let Some(capture) = driver().graphs.captures.get_mut(&stream) {
            capture.spoilt = true;
            return CAPTURE_UNSUPPORTED;
        }
        // SAFETY: the caller's.
        unsafe { *id = stream };
        0
    }

    /// The address of a function, by its name.
    fn cuGetProcAddress_v2(
        name: *const c_char,
        function: *mut *mut c_void,
        _version: c_int,
        _flags: u64,
        _status: *mut c_int
    ) -> c_int {
        // SAFETY: the caller's name; all of ours are found in what is loaded.
        unsafe {
            *function = libc::dlsym(libc::RTLD_DEFAULT, name);
            if (*function).is_null() {
                let this = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
                *function = libc::dlsym(this, name);
            }
            if (*function).is_null() { NOT_FOUND } else { 0 }
        }
    }

    /// A kernel of so many ns is launched on a stream.
    fn fake_cuda_kernel(stream: u64, ns: u64) {
        let kernel = Kernel { ns, name: NCCL.as_ptr(), kind: KERNEL, size: 1 };
        driver().launch_kernel(stream, kernel);
    }

    /// A stream has something to do until this moment, ns of CLOCK_MONOTONIC.
    fn fake_cuda_busy(stream: u64, until: u64) {
        let mut driver = driver();
        let busy = driver.busy.entry(stream_of(stream, LEGACY)).or_insert(0);
        *busy = until.max(*busy);
    }

    /// From now on, this function gets all that is launched.
    fn fake_cuda_watch(watcher: Watcher) {
        driver().watcher = Some(watcher);
    }

    /// What is launched from now on takes so many percent longer.
    fn fake_cuda_slow(percent: u64) {
        driver().slower = percent;
    }

    /// By how much all that was launched takes longer, ns.
    fn fake_cuda_extra() -> u64 {
        driver().extra
    }

    /// The calling thread's newest launch: its number, then from when to when it runs, ns of CLOCK_MONOTONIC.
    fn fake_cuda_newest(newest: *mut [u64; 3]) {
        // SAFETY: the caller's.
        unsafe { *newest = NEWEST.get() };
    }

    /// A stream is captured from now on, or no more.
    fn fake_cuda_capture(stream: u64, on: bool) {
        let mut driver = driver();
        driver.graphs.captures.remove(&stream);
        if on {
            driver.begin_capture(stream, None);
        }
    }

    /// Graph launches so far.
    fn fake_cuda_launches() -> u64 {
        driver().graphs.launches
    }

    /// Kernels that graph launches have executed.
    fn fake_cuda_executed() -> u64 {
        driver().graphs.executed
    }

    /// The GPU's clock steps now, ns.
    fn fake_cuda_step(ns: i64) {
        driver().steps.push((now(), ns));
    }

    /// The GPU's clock is faster by so many millionths.
    fn fake_cuda_drift(ppm: i64) {
        driver().ppm = ppm;
    }

    /// Every call that can fail returns this from now on.
    fn fake_cuda_fail(code: c_int) {
        driver().fails = code;
    }

    /// Questions about events return this from now on.
    fn fake_cuda_ask_fail(code: c_int) {
        driver().ask_fails = code;
    }

    /// No call returns as long as this is on: a launch waits for room in its stream, and keeps the driver's
    /// lock.
    fn fake_cuda_stick(on: bool) {
        STUCK.store(on, Relaxed);
    }

    /// All contexts are destroyed with their events, and are made again at the same addresses.
    fn fake_cuda_reset() {
        let mut driver = driver();
        driver.resets += 1;
        driver.events.clear();
    }

    /// A stream belongs to a context, whichever is the calling thread's.
    fn fake_cuda_stream_context(stream: u64, context: u64) {
        driver().contexts.insert(stream, context);
    }

    /// From now on it is the program that records events on streams that are captured, or no more.
    fn fake_cuda_forks(forks: bool) {
        driver().forks = forks;
    }

    /// Streams can't be made to wait from now on, or they can again.
    fn fake_cuda_refuse_waits(refuse: bool) {
        driver().refuses_waits = refuse;
    }

    /// Records of events and waits for them do nothing from now on, or all again.
    fn fake_cuda_bare(bare: bool) {
        BARE.store(bare, Relaxed);
    }

    /// Events recorded so far.
    fn fake_cuda_records() -> u64 {
        driver().records
    }

    /// Events recorded on a stream so far.
    fn fake_cuda_records_on(stream: u64) -> u64 {
        let stream = stream_of(stream, LEGACY);
        driver().records_on.get(&stream).copied().unwrap_or(0)
    }

    /// Things that a well-behaved caller would not have done.
    fn fake_cuda_violations() -> u64 {
        driver().violations
    }
}
