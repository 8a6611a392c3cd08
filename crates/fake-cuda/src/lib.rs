//! A CUDA driver without a GPU: streams that are busy for a while, and events in their order.
//!
//! A stream is the moment until which it is busy. [`fake_cuda_kernel`] makes it busy for longer; an event recorded on it has
//! the moment that the stream then ends at, and is ready once that has come. The GPU's clock is the host's monotonic one,
//! faster by [`fake_cuda_drift`] and set by [`fake_cuda_step`].
//!
//! What a well-behaved caller must not do (record into a graph that another captures, ask during a capture with the thread's
//! mode not relaxed, call after the driver was shut down) is counted: [`fake_cuda_violations`].

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, MutexGuard, OnceLock};

const NOT_READY: c_int = 600;
const CAPTURE_UNSUPPORTED: c_int = 900;
const INVALID_HANDLE: c_int = 400;
const DEINITIALIZED: c_int = 4;
const GLOBAL: c_int = 0;

#[derive(Default)]
struct Driver {
    /// By stream: the moment it is busy until, host ns.
    busy: HashMap<u64, u64>,
    /// By event: when it comes, host ns, and what the GPU's clock says then.
    events: HashMap<u64, Option<(u64, i128)>>,
    capturing: Vec<u64>,
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
    violations: u64,
}

fn driver() -> MutexGuard<'static, Driver> {
    static DRIVER: OnceLock<Mutex<Driver>> = OnceLock::new();
    let driver = DRIVER.get_or_init(Mutex::default);
    driver
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

thread_local! {
    static CONTEXT: Cell<u64> = const { Cell::new(1) };
    static MODE: Cell<c_int> = const { Cell::new(GLOBAL) };
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

exported! {
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
        driver.next += 1;
        let new = driver.next << 8;
        driver.events.insert(new, None);
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
        let mut driver = driver();
        let failed = driver.healthy();
        if failed != 0 {
            return failed;
        }
        if driver.capturing.contains(&stream) {
            driver.violations += 1;
        }
        let due = driver.busy.get(&stream).copied().unwrap_or(0).max(now());
        let gpu = driver.gpu(due);
        driver.records += 1;
        match driver.events.get_mut(&event) {
            Some(known) => *known = Some((due, gpu)),
            None => return INVALID_HANDLE,
        }
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
        if !driver.capturing.is_empty() && MODE.get() == GLOBAL {
            driver.violations += 1;
            return CAPTURE_UNSUPPORTED;
        }
        match driver.events.get(&event) {
            Some(Some((due, _))) if *due <= now() => 0,
            Some(Some(_)) => NOT_READY,
            Some(None) => 0,
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
        let at = |event: u64| driver.events.get(&event).copied().flatten();
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
        unsafe { *status = driver.capturing.contains(&stream).into() };
        // The legacy stream can't be asked about while another is captured.
        if stream == 0 && !driver.capturing.is_empty() {
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

    /// A kernel of so many ns is launched on a stream.
    fn fake_cuda_kernel(stream: u64, ns: u64) {
        let mut driver = driver();
        let busy = driver.busy.entry(stream).or_insert(0);
        *busy = (*busy).max(now()) + ns;
    }

    /// A stream is captured from now on, or no more.
    fn fake_cuda_capture(stream: u64, on: bool) {
        let mut driver = driver();
        driver.capturing.retain(|s| *s != stream);
        if on {
            driver.capturing.push(stream);
        }
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

    /// All contexts are destroyed with their events, and are made again at the same addresses.
    fn fake_cuda_reset() {
        let mut driver = driver();
        driver.resets += 1;
        driver.events.clear();
    }

    /// Events recorded so far.
    fn fake_cuda_records() -> u64 {
        driver().records
    }

    /// Things that a well-behaved caller would not have done.
    fn fake_cuda_violations() -> u64 {
        driver().violations
    }
}
