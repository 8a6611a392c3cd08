//! What the GPU does and what happened to it: streams, events, clocks, and what tests made of them.

use crate::graphs::{Graphs, Node};
use crate::work::{Watcher, Work};
use crate::{DEINITIALIZED, GLOBAL, INVALID_HANDLE, INVALID_VALUE};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock};

#[derive(Default)]
pub struct Driver {
    /// By stream: the moment it is busy until, host ns.
    pub busy: HashMap<u64, u64>,
    pub events: HashMap<u64, EventState>,
    /// The context of a stream; those that are not here are of each thread's own.
    pub contexts: HashMap<u64, u64>,
    pub graphs: Graphs,
    pub next: u64,
    /// From this moment on (host ns), the GPU's clock is ahead by so much more, ns.
    pub steps: Vec<(u64, i64)>,
    pub ppm: i64,
    pub fails: c_int,
    /// What questions about events are answered with; 0 as they should be.
    pub ask_fails: c_int,
    /// How often contexts were destroyed and made again.
    pub resets: u64,
    pub records: u64,
    pub records_on: HashMap<u64, u64>,
    /// Handles of events that were destroyed.
    pub freed: Vec<u64>,
    /// Whether events are recorded on streams that are captured, as programs do.
    pub forks: bool,
    pub refuses_waits: bool,
    pub violations: u64,
    /// Launches so far.
    pub correlation: u32,
    /// How much longer what is launched runs, percent, and by how much it has become longer in all, ns.
    pub slower: u64,
    pub extra: u64,
    pub watcher: Option<Watcher>,
}

/// An event.
#[derive(Clone, Copy)]
pub struct EventState {
    /// The context that it was made in.
    pub context: u64,
    /// When its newest record comes, host ns, and what the GPU's clock says then.
    pub due: Option<(u64, i128)>,
}

/// What a launch runs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    pub ns: u64,
    /// Mangled, and there for ever.
    pub name: *const c_char,
    pub kind: u32,
    pub size: u64,
}

// SAFETY: the name is never written to.
unsafe impl Send for Kernel {}

/// A kernel of NCCL's.
pub const NCCL: &std::ffi::CStr =
    c"_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE";

/// A thread that launches waits inside the driver, and keeps its lock.
pub static STUCK: AtomicBool = AtomicBool::new(false);

pub fn driver() -> MutexGuard<'static, Driver> {
    pub static DRIVER: OnceLock<Mutex<Driver>> = OnceLock::new();
    while STUCK.load(Relaxed) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let driver = DRIVER.get_or_init(Mutex::default);
    driver
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

thread_local! {
    pub static CONTEXT: Cell<u64> = const { Cell::new(1) };
    pub static MODE: Cell<c_int> = const { Cell::new(GLOBAL) };
    /// Tells threads apart.
    pub static NUMBER: u64 = {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Relaxed)
    };
    /// This thread's newest launch: its number, and from when to when it runs.
    pub static NEWEST: Cell<[u64; 3]> = const { Cell::new([0; 3]) };
}

/// Set: records of events and waits for them do nothing, at once, so that what is before them can be
/// measured.
pub static BARE: AtomicBool = AtomicBool::new(false);

/// Stream handles that stand for a default stream.
pub const LEGACY: u64 = 1;
pub const PER_THREAD: u64 = 2;

/// The stream that a handle means on the calling thread. `default` is what 0 stands for.
pub fn stream_of(handle: u64, default: u64) -> u64 {
    match if handle == 0 { default } else { handle } {
        // Streams of their own, far from all handles.
        PER_THREAD => NUMBER.with(|number| *number) << 48 | PER_THREAD,
        // As it was given to launches that know no other default.
        LEGACY => 0,
        other => other,
    }
}

/// Waits until this moment, as a host does for its GPU. It sleeps but for the last 200 µs: many processes may
/// wait on a machine with few cores.
pub fn wait_until(ns: u64) -> c_int {
    const SPINS: u64 = 200_000;
    let left = ns.saturating_sub(now());
    if left > SPINS {
        std::thread::sleep(std::time::Duration::from_nanos(left - SPINS / 2));
    }
    while now() < ns {
        std::hint::spin_loop();
    }
    driver().healthy()
}

pub fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills in a timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl Driver {
    pub fn gpu(&self, host: u64) -> i128 {
        let stepped = self.steps.iter().filter(|(at, _)| *at <= host);
        let steps: i64 = stepped.map(|(_, by)| by).sum();
        i128::from(host) + i128::from(host) * i128::from(self.ppm) / 1_000_000 + i128::from(steps)
    }

    /// Runs kernels on a stream, one after another, as one launch.
    pub fn run(&mut self, stream: u64, graph: u32, kernels: &[Kernel]) {
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
    pub fn launch_kernel(&mut self, stream: u64, kernel: Kernel) {
        let stream = stream_of(stream, LEGACY);
        if !self.captured(stream, Node::Kernel(kernel)) {
            self.run(stream, 0, &[kernel]);
        }
    }

    /// Records an event behind what the stream has to do.
    pub fn record(&mut self, event: u64, stream: u64) -> c_int {
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
            self.events.insert(event, EventState { context, due: None });
            return 0;
        }
        let due = self.busy.get(&stream).copied().unwrap_or(0).max(now());
        let due = Some((due, self.gpu(due)));
        self.records += 1;
        *self.records_on.entry(stream).or_default() += 1;
        self.events.insert(event, EventState { context, due });
        0
    }

    /// Makes a stream wait for an event's newest record; for an event without one it waits for nothing.
    pub fn wait(&mut self, stream: u64, event: u64) -> c_int {
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
    pub fn healthy(&mut self) -> c_int {
        if self.fails == DEINITIALIZED {
            self.violations += 1;
        }
        self.fails
    }
}
