//! The driver's functions: contexts, streams, events, captures and graphs.

use crate::driver::{
    driver, now, stream_of, EventState, Kernel, BARE, CONTEXT, LEGACY, MODE, PER_THREAD,
};
use crate::graphs::Node;
use crate::work::{COPY, FILL, KERNEL};
use crate::{
    exported, CAPTURE_INVALIDATED, CAPTURE_UNSUPPORTED, GLOBAL, ILLEGAL_STATE, INVALID_HANDLE,
    INVALID_VALUE, NOT_FOUND, NOT_READY,
};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::Ordering::Relaxed;

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
        driver.events.insert(new, EventState { context, due: None });
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
}
