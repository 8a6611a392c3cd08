//! Functions of ours before those of the CUDA driver.
//!
//! [`install`] puts them there (see [`crate::interpose`]). Each calls the driver's function with what it got,
//! and returns what that returned. Functions that capture, make and launch graphs tell the recorder's
//! [`Graphs`](crate::graphs::Graphs): what each means is one handler below. Functions that launch kernels and
//! copies, and that order or wait for them, note the call while a kernel window is open ([`asked`]). Those
//! that record events, and that make streams wait for them, also tell
//! [`StreamWaits`](crate::stream_waits::StreamWaits). Launches and synchronisations are counted
//! ([`crate::counts`]), and so are NCCL's [one-sided calls](crate::one_sided). Those that make
//! and end communicators are [noted](communicator_calls). Allocations, IPC opens, loads
//! of code and mappings are counted with their time ([`timed_calls`]). Tables at the end have all names and
//! signatures.
//!
//! Rule: a handler looks only at what the driver has accepted, but for a wait: the event that is recorded
//! before it is taken back if the driver refuses. A process without a recorder (a forked child, or one that
//! is ending) calls straight on. A panic in here turns recording off and reaches nobody.

use crate::communicator_calls;
use crate::counts;
use crate::cuda::{driver_and_nccl, StreamQuery};
use crate::guard::guard;
use crate::interpose::{interposed, Interposed, Replacement, Search};
use crate::one_sided;
use crate::recorder::fork_page::get;
use crate::recorder::Recorder;
use crate::stream_waits::Stream;
use crate::timed_calls;
use crate::watch::Watch;
use crate::windows::driver_calls;
use capture::counts::Count;
use capture::graphs::sight;
use capture::live::Section;
use capture::rows::Ticks;
use capture::windows::DriverCallKind;
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::OnceLock;

/// Puts ours before the driver's functions, in all libraries that call them by now.
///
/// `again` looks once more even if no library was loaded since the last time.
pub fn install(watch: Watch, again: bool) {
    let wanted =
        |is_wanted: bool, table: &'static [Replacement]| if is_wanted { table } else { &[] };
    let tables = [
        wanted(watch.graphs, &FUNCTIONS),
        wanted(watch.windows || watch.counts, &NOTED),
        wanted(watch.counts, &COUNTED),
        wanted(watch.windows || watch.waits, &ORDER),
        wanted(watch.counts, &one_sided::FUNCTIONS),
        wanted(watch.counts, &communicator_calls::FUNCTIONS),
    ];
    // What is found now may have launched them before.
    let late = get().is_some_and(|recorder| recorder.graphs.are_there());
    let installed = INTERPOSED.install(&tables, Search { again, late }, driver_and_nccl());
    if installed.of_nccl != 0 {
        counts::nccl_is_seen();
    }
    if let Some(recorder) = get().filter(|_| watch.graphs && installed.pointers != 0) {
        let sight = &recorder.header().graph_sight;
        sight.fetch_or(sight::INTERPOSED, Relaxed);
        if late {
            recorder.graphs.callers_found(recorder.clock.ticks());
        }
    }
}

static INTERPOSED: Interposed = Interposed::new();

const OK: c_int = 0;
/// The GPU itself may launch a graph that was instantiated with this flag.
const DEVICE_LAUNCH: u64 = 4;
/// Kinds of node, as in the parameters of a new node.
const CHILD_GRAPH: u32 = 4;
const CONDITIONAL: u32 = 13;

/// Tells the recorder something after the driver's function succeeded.
fn after(recorder: &Recorder, call: impl FnOnce() -> c_int, tell: impl FnOnce(&Recorder)) -> c_int {
    let result = call();
    if result == OK {
        guard((), || tell(recorder));
    }
    result
}

/// What the driver stored at `place`; 0 for a null pointer.
fn stored(place: *const u64) -> u64 {
    if place.is_null() {
        0
    } else {
        // SAFETY: the driver has just stored a handle there.
        unsafe { place.read_unaligned() }
    }
}

fn begin_capture(recorder: &Recorder, call: impl FnOnce() -> c_int, _stream: u64) -> c_int {
    after(recorder, call, |r| r.graphs.capture_began())
}

fn end_capture(
    recorder: &Recorder,
    call: impl FnOnce() -> c_int,
    stream: u64,
    graph: *mut u64,
) -> c_int {
    // Asked for before, because a failed capture ends without a graph.
    let into = guard(None, || recorder.graph_of(stream));
    let result = call();
    let failed = result != OK || stored(graph) == 0;
    guard((), || recorder.graphs.capture_ended(into, failed));
    result
}

fn instantiate(
    recorder: &Recorder,
    call: impl FnOnce() -> c_int,
    exec: *mut u64,
    graph: u64,
    flags: u64,
) -> c_int {
    after(recorder, call, |r| {
        let by_device = flags & DEVICE_LAUNCH != 0;
        let now = r.clock.ticks();
        let grow = |from, to| r.grow(Section::Graphs, from, to);
        r.graphs
            .instantiated(stored(exec), graph, by_device, now, &grow);
    })
}

fn update(recorder: &Recorder, call: impl FnOnce() -> c_int, exec: u64, graph: u64) -> c_int {
    after(recorder, call, |r| {
        let (now, grow) = (r.clock.ticks(), |from, to| {
            r.grow(Section::Graphs, from, to)
        });
        r.graphs.instantiated(exec, graph, false, now, &grow);
    })
}

/// A graph is launched; `late` if by a caller that was found when there were graphs already.
fn launch(
    recorder: &Recorder,
    call: impl FnOnce() -> c_int,
    late: bool,
    exec: u64,
    stream: u64,
) -> c_int {
    counts::add(Count::GraphLaunch, false, 1);
    let call = || noted(DriverCallKind::LaunchGraph, stream, exec, call);
    let entered = recorder.clock.ticks();
    let (into, entry) = guard((None, None), || {
        // Looked at first, because most graphs have no captured calls.
        if !recorder.graphs.has(exec) {
            return (None, None);
        }
        let capturing = recorder.graphs.capturing();
        match capturing.then(|| recorder.graph_of(stream)).flatten() {
            Some(graph) => (Some(graph), None),
            None => {
                let entry = recorder.graphs.launching(exec, stream, entered);
                if let Some(entry) = entry.filter(|_| late) {
                    recorder.graphs.launched_late(entry);
                }
                (None, entry)
            }
        }
    });
    let graphs = &recorder.graphs;
    let begun = entry.and_then(|entry| {
        let calls = entry.calls.load(Relaxed);
        guard(None, || graphs.timing.begin(recorder, stream, calls))
    });
    let called = match begun {
        Some(_) => recorder.clock.ticks(),
        None => entered,
    };
    let result = call();
    guard((), || {
        let launch = match (into, entry) {
            _ if result != OK => None,
            (Some(graph), _) => {
                graphs.launched_into(graph, exec, entered);
                None
            }
            (None, Some(entry)) => {
                let times = [called, recorder.clock.ticks()];
                Some(graphs.launched(entry, stream, times))
            }
            _ => None,
        };
        if let Some(begun) = begun {
            graphs.timing.end(recorder, begun, stream, launch);
        }
    });
    result
}

fn add_child(recorder: &Recorder, call: impl FnOnce() -> c_int, graph: u64, child: u64) -> c_int {
    after(recorder, call, |r| r.graphs.added(graph, child))
}

/// The first words of a node's parameters: kind, then from the third on what the kind has.
type Parameters = *const [u64; 5];

fn add_node(
    recorder: &Recorder,
    call: impl FnOnce() -> c_int,
    graph: u64,
    parameters: Parameters,
) -> c_int {
    after(recorder, call, |r| {
        // SAFETY: the driver has just accepted these parameters, which are larger.
        let [kind, _, child, bodies, out] = unsafe { parameters.read_unaligned() };
        match kind as u32 {
            CHILD_GRAPH => r.graphs.added(graph, child),
            CONDITIONAL => {
                let number = bodies >> 32;
                for i in 0..number.min(64) {
                    // SAFETY: the driver has stored this many graphs there.
                    let body = unsafe { (out as *const u64).add(i as usize).read_unaligned() };
                    r.graphs.body(graph, body);
                }
            }
            _ => {}
        }
    })
}

fn set_child(recorder: &Recorder, call: impl FnOnce() -> c_int, exec: u64, child: u64) -> c_int {
    after(recorder, call, |r| {
        let grow = |from, to| r.grow(Section::Graphs, from, to);
        r.graphs.edited(exec, child, r.clock.ticks(), &grow);
    })
}

fn set_node(
    recorder: &Recorder,
    call: impl FnOnce() -> c_int,
    exec: u64,
    parameters: Parameters,
) -> c_int {
    after(recorder, call, |r| {
        // SAFETY: as in `add_node`.
        let [kind, _, child, ..] = unsafe { parameters.read_unaligned() };
        if kind as u32 == CHILD_GRAPH {
            let grow = |from, to| r.grow(Section::Graphs, from, to);
            r.graphs.edited(exec, child, r.clock.ticks(), &grow);
        }
    })
}

fn clone(recorder: &Recorder, call: impl FnOnce() -> c_int, clone: *mut u64, of: u64) -> c_int {
    after(recorder, call, |r| r.graphs.cloned(stored(clone), of))
}

fn destroy(recorder: &Recorder, call: impl FnOnce() -> c_int, graph: u64) -> c_int {
    after(recorder, call, |r| r.graphs.destroyed(graph))
}

fn destroy_exec(recorder: &Recorder, call: impl FnOnce() -> c_int, exec: u64) -> c_int {
    // Before, because another thread may get the handle for a new graph as soon as it is free.
    guard((), || {
        recorder.graphs.exec_destroyed(exec, recorder.clock.ticks());
    });
    call()
}

/// An event is recorded on a stream. NCCL's own (`nccl`) order its own streams, and say nothing of the
/// program's.
#[inline(always)]
fn record(nccl: bool, event: u64, stream: Stream, call: impl FnOnce() -> c_int) -> c_int {
    let result = noted(DriverCallKind::Record, stream.handle, event, call);
    if let (Some(recorder), OK, false) = (get(), result, nccl) {
        guard((), || {
            recorder.waits.recorded(event, stream, || recorder.driver());
        });
    }
    result
}

/// A stream is made to wait for an event. `nccl` is as in [`record`].
#[inline(always)]
fn wait(nccl: bool, stream: Stream, event: u64, call: impl FnOnce() -> c_int) -> c_int {
    let awaited = get().filter(|_| !nccl).and_then(|recorder| {
        guard(None, || {
            let (rings, switch) = (&recorder.rings, &recorder.switch);
            recorder.waits.awaited(stream, event, rings, switch)
        })
    });
    let result = noted(DriverCallKind::Wait, stream.handle, event, call);
    if let (Some(awaited), false) = (awaited, result == OK) {
        awaited.undo();
    }
    result
}

fn destroy_event(event: u64, call: impl FnOnce() -> c_int) -> c_int {
    // Before, because another thread may get the handle for a new event as soon as it is free.
    if let Some(recorder) = get() {
        guard((), || recorder.waits.destroyed(event));
    }
    call()
}

/// Notes a call of the driver, if a window is open.
#[inline(always)]
fn noted(kind: DriverCallKind, stream: u64, object: u64, call: impl FnOnce() -> c_int) -> c_int {
    if !driver_calls::open() {
        return passed(kind, call);
    }
    note(kind, stream, object, call)
}

/// Makes a call of the driver while no window is open.
#[inline(always)]
fn passed(kind: DriverCallKind, call: impl FnOnce() -> c_int) -> c_int {
    let ticks = || get().map_or(Ticks(0), |recorder| recorder.clock.ticks());
    driver_calls::pass(kind, ticks, call)
}

#[cold]
fn note(kind: DriverCallKind, stream: u64, object: u64, call: impl FnOnce() -> c_int) -> c_int {
    let Some(recorder) = get() else {
        return call();
    };
    let at = recorder.clock.ticks();
    let result = call();
    let took = recorder.clock.ticks().since(at);
    driver_calls::took(kind, took);
    guard((), || {
        let Some(stream) = stream_id(stream) else {
            return;
        };
        // SAFETY: a plain system call.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        driver_calls::note(kind, at, took, thread, stream, object);
    });
    result
}

/// What a synchronisation is of, if not of a stream.
const WHOLE_CONTEXT: u64 = u64::MAX;

/// The handle of a stream, from a function for which 0 is the calling thread's own.
fn own(stream: u64) -> u64 {
    Stream::per_thread(stream).handle
}

/// CUDA's id of a stream, as in CUPTI's records; 0 if the driver is too old to tell. `None` while the stream
/// is captured: what it is given is not done yet.
fn stream_id(stream: u64) -> Option<u32> {
    static STREAMS: OnceLock<Option<StreamQuery>> = OnceLock::new();
    match STREAMS.get_or_init(StreamQuery::find) {
        Some(streams) if stream != WHOLE_CONTEXT => streams.id(stream),
        _ => Some(0),
    }
}

/// The stream of a launch with a configuration: behind seven sizes of 32 bits.
fn stream_of(config: *const u8) -> u64 {
    if config.is_null() {
        return 0;
    }
    // SAFETY: the program passes a whole CUlaunchConfig.
    unsafe { config.add(32).cast::<u64>().read_unaligned() }
}

/// The table: a function of ours for each name, with the driver's signature and the handler's arguments.
macro_rules! watched {
    ($($name:ident $symbol:literal ($($arg:ident: $type:ty),*) => $handler:ident($($given:expr),*);)*) => {
        interposed! { FUNCTIONS reals call;
            $($name $symbol ($($arg: $type),*) -> c_int {
                match get() {
                    Some(recorder) => $handler(recorder, call, $($given),*),
                    None => call(),
                }
            })*
        }
    };
}

type Out = *mut u64;
type Deps = *const u64;
type Pointer = *mut c_void;

watched! {
    begin_v1 "cuStreamBeginCapture" (stream: u64) => begin_capture(stream);
    begin_v1_ptsz "cuStreamBeginCapture_ptsz" (stream: u64) => begin_capture(stream);
    begin_v2 "cuStreamBeginCapture_v2" (stream: u64, mode: c_int) => begin_capture(stream);
    begin_v2_ptsz "cuStreamBeginCapture_v2_ptsz" (stream: u64, mode: c_int) => begin_capture(stream);
    begin_into "cuStreamBeginCaptureToGraph" (stream: u64, graph: u64, deps: Deps, edges: Pointer, n: usize,
        mode: c_int)
        => begin_capture(stream);
    begin_into_ptsz "cuStreamBeginCaptureToGraph_ptsz" (stream: u64, graph: u64, deps: Deps, edges: Pointer,
        n: usize, mode: c_int)
        => begin_capture(stream);
    end "cuStreamEndCapture" (stream: u64, graph: Out) => end_capture(stream, graph);
    end_ptsz "cuStreamEndCapture_ptsz" (stream: u64, graph: Out) => end_capture(stream, graph);
    instantiate_v1 "cuGraphInstantiate" (exec: Out, graph: u64, node: Out, log: Pointer, size: usize)
        => instantiate(exec, graph, 0);
    instantiate_v2 "cuGraphInstantiate_v2" (exec: Out, graph: u64, node: Out, log: Pointer, size: usize)
        => instantiate(exec, graph, 0);
    instantiate_flags "cuGraphInstantiateWithFlags" (exec: Out, graph: u64, flags: u64)
        => instantiate(exec, graph, flags);
    instantiate_params "cuGraphInstantiateWithParams" (exec: Out, graph: u64, parameters: Out)
        => instantiate(exec, graph, stored(parameters));
    instantiate_params_ptsz "cuGraphInstantiateWithParams_ptsz" (exec: Out, graph: u64, parameters: Out)
        => instantiate(exec, graph, stored(parameters));
    update_v1 "cuGraphExecUpdate" (exec: u64, graph: u64, node: Out, result: Pointer) => update(exec, graph);
    update_v2 "cuGraphExecUpdate_v2" (exec: u64, graph: u64, result: Pointer) => update(exec, graph);
    launch_legacy "cuGraphLaunch" (exec: u64, stream: u64) => launch(LATE, exec, stream);
    launch_ptsz "cuGraphLaunch_ptsz" (exec: u64, stream: u64) => launch(LATE, exec, own(stream));
    child "cuGraphAddChildGraphNode" (node: Out, graph: u64, deps: Deps, n: usize, child: u64)
        => add_child(graph, child);
    node_v1 "cuGraphAddNode" (node: Out, graph: u64, deps: Deps, n: usize, parameters: Parameters)
        => add_node(graph, parameters);
    node_v2 "cuGraphAddNode_v2" (node: Out, graph: u64, deps: Deps, edges: Pointer, n: usize,
        parameters: Parameters)
        => add_node(graph, parameters);
    exec_child "cuGraphExecChildGraphNodeSetParams" (exec: u64, node: u64, child: u64)
        => set_child(exec, child);
    exec_node "cuGraphExecNodeSetParams" (exec: u64, node: u64, parameters: Parameters)
        => set_node(exec, parameters);
    clone_graph "cuGraphClone" (copy: Out, original: u64) => clone(copy, original);
    destroy_graph "cuGraphDestroy" (graph: u64) => destroy(graph);
    destroy_executable "cuGraphExecDestroy" (exec: u64) => destroy_exec(exec);
}

/// The table of what is noted and counted. Each line has the name and signature, what was asked, of which
/// stream, with which object, and as what the call counts.
macro_rules! noted {
    ($($name:ident $symbol:literal ($($arg:ident: $type:ty),*)
        => $kind:ident($stream:expr, $object:expr) as $count:ident;)*) => {
        interposed! { NOTED note_reals call;
            $($name $symbol ($($arg: $type),*) -> c_int {
                counts::add(Count::$count, NCCL, 1);
                if !driver_calls::open() {
                    return passed(DriverCallKind::$kind, call);
                }
                note(DriverCallKind::$kind, $stream, $object, call)
            })*
        }
    };
}

noted! {
    kernel "cuLaunchKernel" (f: u64, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32,
        stream: u64, params: Pointer, extra: Pointer)
        => Launch(stream, 0) as KernelLaunch;
    kernel_ptsz "cuLaunchKernel_ptsz" (f: u64, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32,
        shared: u32, stream: u64, params: Pointer, extra: Pointer)
        => Launch(own(stream), 0) as KernelLaunch;
    kernel_ex "cuLaunchKernelEx" (config: *const u8, f: u64, params: Pointer, extra: Pointer)
        => Launch(stream_of(config), 0) as KernelLaunch;
    kernel_ex_ptsz "cuLaunchKernelEx_ptsz" (config: *const u8, f: u64, params: Pointer, extra: Pointer)
        => Launch(own(stream_of(config)), 0) as KernelLaunch;
    cooperative "cuLaunchCooperativeKernel" (f: u64, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32,
        shared: u32, stream: u64, params: Pointer)
        => Launch(stream, 0) as KernelLaunch;
    cooperative_ptsz "cuLaunchCooperativeKernel_ptsz" (f: u64, gx: u32, gy: u32, gz: u32, bx: u32, by: u32,
        bz: u32, shared: u32, stream: u64, params: Pointer)
        => Launch(own(stream), 0) as KernelLaunch;
    copy "cuMemcpyAsync" (to: u64, from: u64, n: usize, stream: u64) => Copy(stream, 0) as Copy;
    copy_ptsz "cuMemcpyAsync_ptsz" (to: u64, from: u64, n: usize, stream: u64)
        => Copy(own(stream), 0) as Copy;
    copy_in "cuMemcpyHtoDAsync_v2" (to: u64, from: u64, n: usize, stream: u64) => Copy(stream, 0) as Copy;
    copy_in_ptsz "cuMemcpyHtoDAsync_v2_ptsz" (to: u64, from: u64, n: usize, stream: u64)
        => Copy(own(stream), 0) as Copy;
    copy_out "cuMemcpyDtoHAsync_v2" (to: u64, from: u64, n: usize, stream: u64) => Copy(stream, 0) as Copy;
    copy_out_ptsz "cuMemcpyDtoHAsync_v2_ptsz" (to: u64, from: u64, n: usize, stream: u64)
        => Copy(own(stream), 0) as Copy;
    copy_within "cuMemcpyDtoDAsync_v2" (to: u64, from: u64, n: usize, stream: u64) => Copy(stream, 0) as Copy;
    copy_within_ptsz "cuMemcpyDtoDAsync_v2_ptsz" (to: u64, from: u64, n: usize, stream: u64)
        => Copy(own(stream), 0) as Copy;
    fill_8 "cuMemsetD8Async" (to: u64, value: u8, n: usize, stream: u64) => Copy(stream, 0) as Copy;
    fill_8_ptsz "cuMemsetD8Async_ptsz" (to: u64, value: u8, n: usize, stream: u64)
        => Copy(own(stream), 0) as Copy;
    fill_32 "cuMemsetD32Async" (to: u64, value: u32, n: usize, stream: u64) => Copy(stream, 0) as Copy;
    fill_32_ptsz "cuMemsetD32Async_ptsz" (to: u64, value: u32, n: usize, stream: u64)
        => Copy(own(stream), 0) as Copy;
    blocking_copy_in "cuMemcpyHtoD_v2" (to: u64, from: u64, n: usize) => Synchronise(0, 0) as ContextSync;
    blocking_copy_out "cuMemcpyDtoH_v2" (to: u64, from: u64, n: usize) => Synchronise(0, 0) as ContextSync;
    blocking_copy "cuMemcpy" (to: u64, from: u64, n: usize) => Synchronise(0, 0) as ContextSync;
    stream_end "cuStreamSynchronize" (stream: u64) => Synchronise(stream, 0) as StreamSync;
    stream_end_ptsz "cuStreamSynchronize_ptsz" (stream: u64) => Synchronise(own(stream), 0) as StreamSync;
    event_end "cuEventSynchronize" (event: u64) => Synchronise(WHOLE_CONTEXT, event) as EventSync;
    context_end "cuCtxSynchronize" () => Synchronise(WHOLE_CONTEXT, 0) as ContextSync;
    context_end_v2 "cuCtxSynchronize_v2" (context: u64) => Synchronise(WHOLE_CONTEXT, 0) as ContextSync;
}

interposed! { ORDER order_reals call;
    record_legacy "cuEventRecord" (event: u64, stream: u64) -> c_int {
        record(NCCL, event, Stream::legacy(stream), call)
    }
    record_ptsz "cuEventRecord_ptsz" (event: u64, stream: u64) -> c_int {
        record(NCCL, event, Stream::per_thread(stream), call)
    }
    record_flags "cuEventRecordWithFlags" (event: u64, stream: u64, flags: u32) -> c_int {
        record(NCCL, event, Stream::legacy(stream), call)
    }
    record_flags_ptsz "cuEventRecordWithFlags_ptsz" (event: u64, stream: u64, flags: u32) -> c_int {
        record(NCCL, event, Stream::per_thread(stream), call)
    }
    wait_legacy "cuStreamWaitEvent" (stream: u64, event: u64, flags: u32) -> c_int {
        wait(NCCL, Stream::legacy(stream), event, call)
    }
    wait_ptsz "cuStreamWaitEvent_ptsz" (stream: u64, event: u64, flags: u32) -> c_int {
        wait(NCCL, Stream::per_thread(stream), event, call)
    }
    destroy_v1 "cuEventDestroy" (event: u64) -> c_int {
        destroy_event(event, call)
    }
    destroy_v2 "cuEventDestroy_v2" (event: u64) -> c_int {
        destroy_event(event, call)
    }
}

/// As the driver has it, which takes it by value.
#[repr(C)]
#[derive(Clone, Copy)]
struct IpcHandle([u8; 64]);

/// Where memory of `cuMemCreate` is: on a GPU.
const ON_GPU: u32 = 1;

fn on_gpu(nccl: bool, bytes: usize, call: impl FnOnce() -> c_int) -> c_int {
    let bytes = (Some(Count::GpuBytes), bytes as u64);
    timed_calls::make(nccl, Count::GpuAllocation, bytes, call)
}

fn on_host(nccl: bool, bytes: usize, call: impl FnOnce() -> c_int) -> c_int {
    let bytes = (Some(Count::HostBytes), bytes as u64);
    timed_calls::make(nccl, Count::HostAllocation, bytes, call)
}

fn opened(nccl: bool, call: impl FnOnce() -> c_int) -> c_int {
    timed_calls::make(nccl, Count::IpcOpen, (None, 0), call)
}

fn loaded(nccl: bool, call: impl FnOnce() -> c_int) -> c_int {
    timed_calls::make(nccl, Count::ModuleLoad, (None, 0), call)
}

/// The bytes of mappings are in no count: they are those of allocations and IPC opens.
fn mapped(nccl: bool, bytes: usize, call: impl FnOnce() -> c_int) -> c_int {
    timed_calls::make(nccl, Count::Mapping, (None, bytes as u64), call)
}

/// Whether memory with these properties is on a GPU: behind two words of 32 bits is the kind of its place.
fn is_on_gpu(properties: *const u32) -> bool {
    // SAFETY: the program passes a whole CUmemAllocationProp.
    !properties.is_null() && unsafe { properties.add(2).read_unaligned() } == ON_GPU
}

interposed! { COUNTED counted_reals call;
    alloc "cuMemAlloc_v2" (address: Out, bytes: usize) -> c_int { on_gpu(NCCL, bytes, call) }
    alloc_pitch "cuMemAllocPitch_v2" (address: Out, pitch: *mut usize, width: usize, height: usize,
        element: u32) -> c_int { on_gpu(NCCL, width.saturating_mul(height), call) }
    alloc_managed "cuMemAllocManaged" (address: Out, bytes: usize, flags: u32) -> c_int {
        on_gpu(NCCL, bytes, call)
    }
    alloc_async "cuMemAllocAsync" (address: Out, bytes: usize, stream: u64) -> c_int {
        on_gpu(NCCL, bytes, call)
    }
    alloc_async_ptsz "cuMemAllocAsync_ptsz" (address: Out, bytes: usize, stream: u64) -> c_int {
        on_gpu(NCCL, bytes, call)
    }
    from_pool "cuMemAllocFromPoolAsync" (address: Out, bytes: usize, pool: u64, stream: u64) -> c_int {
        on_gpu(NCCL, bytes, call)
    }
    from_pool_ptsz "cuMemAllocFromPoolAsync_ptsz" (address: Out, bytes: usize, pool: u64, stream: u64)
        -> c_int { on_gpu(NCCL, bytes, call) }
    create "cuMemCreate" (handle: Out, bytes: usize, properties: *const u32, flags: u64) -> c_int {
        if is_on_gpu(properties) { on_gpu(NCCL, bytes, call) } else { on_host(NCCL, bytes, call) }
    }
    host_alloc "cuMemHostAlloc" (address: Out, bytes: usize, flags: u32) -> c_int {
        on_host(NCCL, bytes, call)
    }
    host_alloc_plain "cuMemAllocHost_v2" (address: Out, bytes: usize) -> c_int {
        on_host(NCCL, bytes, call)
    }
    host_register "cuMemHostRegister_v2" (address: u64, bytes: usize, flags: u32) -> c_int {
        on_host(NCCL, bytes, call)
    }
    ipc_memory "cuIpcOpenMemHandle_v2" (address: Out, handle: IpcHandle, flags: u32) -> c_int {
        opened(NCCL, call)
    }
    ipc_event "cuIpcOpenEventHandle" (event: Out, handle: IpcHandle) -> c_int { opened(NCCL, call) }
    ipc_import "cuMemImportFromShareableHandle" (handle: Out, of_system: Pointer, kind: c_int) -> c_int {
        opened(NCCL, call)
    }
    module "cuModuleLoad" (module: Out, path: Pointer) -> c_int { loaded(NCCL, call) }
    module_data "cuModuleLoadData" (module: Out, image: Pointer) -> c_int { loaded(NCCL, call) }
    module_data_ex "cuModuleLoadDataEx" (module: Out, image: Pointer, n: u32, options: Pointer,
        values: Pointer) -> c_int { loaded(NCCL, call) }
    module_fat "cuModuleLoadFatBinary" (module: Out, image: Pointer) -> c_int { loaded(NCCL, call) }
    module_function "cuModuleGetFunction" (function: Out, module: u64, name: Pointer) -> c_int {
        loaded(NCCL, call)
    }
    library_data "cuLibraryLoadData" (library: Out, code: Pointer, options: Pointer, values: Pointer, n: u32,
        of_library: Pointer, values_of_library: Pointer, n_of_library: u32) -> c_int { loaded(NCCL, call) }
    library_file "cuLibraryLoadFromFile" (library: Out, path: Pointer, options: Pointer, values: Pointer,
        n: u32, of_library: Pointer, values_of_library: Pointer, n_of_library: u32) -> c_int {
        loaded(NCCL, call)
    }
    library_kernel "cuLibraryGetKernel" (kernel: Out, library: u64, name: Pointer) -> c_int {
        loaded(NCCL, call)
    }
    library_module "cuLibraryGetModule" (module: Out, library: u64) -> c_int { loaded(NCCL, call) }
    function_load "cuFuncLoad" (function: u64) -> c_int { loaded(NCCL, call) }
    map "cuMemMap" (address: u64, bytes: usize, offset: usize, handle: u64, flags: u64) -> c_int {
        mapped(NCCL, bytes, call)
    }
    set_access "cuMemSetAccess" (address: u64, bytes: usize, who: Pointer, n: usize) -> c_int {
        mapped(NCCL, 0, call)
    }
    multicast "cuMulticastCreate" (handle: Out, properties: Pointer) -> c_int { mapped(NCCL, 0, call) }
    multicast_device "cuMulticastAddDevice" (handle: u64, device: c_int) -> c_int { mapped(NCCL, 0, call) }
    multicast_memory "cuMulticastBindMem" (handle: u64, offset: usize, memory: u64, from: usize,
        bytes: usize, flags: u64) -> c_int { mapped(NCCL, bytes, call) }
    multicast_address "cuMulticastBindAddr" (handle: u64, offset: usize, address: u64, bytes: usize,
        flags: u64) -> c_int { mapped(NCCL, bytes, call) }
}
