//! A stand-in for CUPTI's activity interface: records of what fake-cuda runs.
//!
//! [`State`] has all that CUPTI keeps. [`launched`] is called by fake-cuda for each launch, and reserves a
//! record in a buffer that it asks the profiler for. [`deliver`] fills records in and hands buffers back: a
//! flush does, and a thread of ours for those that are full.
//!
//! It behaves as CUPTI 13.0 was seen to. What is launched while a kind is enabled is recorded, even if it
//! runs later. A buffer is handed out once all of it has run, or by a forced flush, without the ends of what
//! has not run. Buffers go to the callbacks that were registered last. Times are CLOCK_REALTIME or another
//! clock that was given.
//!
//! For tests, `FAKE_CUPTI_FAIL=FUNCTION:FROM:CODE` makes each call of a function return an error from the
//! FROMth on, `FAKE_CUPTI_DROP=N` drops each Nth record, `FAKE_CUPTI_RECORDS=N` puts so many into a buffer at
//! most, `FAKE_CUPTI_AHEAD=NS` sets the clock ahead, and `FAKE_CUPTI_SLOWS=PERCENT` makes what is launched
//! while records of kernels are on take so much longer. `FAKE_CUPTI_VERSION=130001` is CUPTI 13.0; without
//! it, this is 13.5.

#![allow(missing_docs, non_snake_case)]

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_char, c_void, CStr};
use std::sync::{Mutex, MutexGuard, Once, OnceLock};
use std::time::Duration;
use work::{Watcher, Work, KERNEL};

#[path = "../src/work.rs"]
mod work;

const INVALID_PARAMETER: u32 = 1;
const MAX_LIMIT_REACHED: u32 = 12;

type Requested = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Completed = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
type Clock = extern "C" fn() -> u64;

/// A profiler's memory.
struct Buffer {
    at: usize,
    size: usize,
    /// What is in it, and how many bytes that takes.
    work: Vec<Work>,
    used: usize,
    full: bool,
}

impl Buffer {
    fn has_run(&self, now: u64) -> bool {
        self.work.iter().all(|work| work.end <= now)
    }
}

#[derive(Default)]
struct State {
    callbacks: Option<(Requested, Completed)>,
    /// Kinds of activity, a bit each, and when the newest was enabled, ns of CLOCK_MONOTONIC.
    enabled: u64,
    since: u64,
    /// Another clock than CLOCK_REALTIME: it, and what it and CLOCK_MONOTONIC were when it was given.
    clock: Option<(Clock, [u64; 2])>,
    buffers: Vec<Buffer>,
    dropped: usize,
    launched: u64,
    calls: HashMap<&'static str, u64>,
}

fn state() -> MutexGuard<'static, State> {
    static STATE: OnceLock<Mutex<State>> = OnceLock::new();
    let state = STATE.get_or_init(Mutex::default);
    state
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills in a timespec.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn monotonic() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// CLOCK_MONOTONIC and another clock at nearly one moment: the closest of some tries.
fn beside(other: impl Fn() -> u64) -> [u64; 2] {
    let tries = (0..9).map(|_| {
        let before = monotonic();
        let value = other();
        let took = monotonic() - before;
        (took, [before + took / 2, value])
    });
    tries.min().expect("some").1
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &str) -> u64 {
    variable(name).map_or(0, |n| n.parse().expect("a number"))
}

/// Counts a call of a function; the error that it is to return.
fn called(name: &'static str) -> Result<(), u32> {
    let mut state = state();
    let calls = state.calls.entry(name).or_insert(0);
    *calls += 1;
    let Some(fail) = variable("FAKE_CUPTI_FAIL") else {
        return Ok(());
    };
    let parts: Vec<&str> = fail.split(':').collect();
    let [function, from, code] = parts[..] else {
        panic!("FAKE_CUPTI_FAIL={fail}");
    };
    if function == name && *calls >= from.parse().expect("a number") {
        return Err(code.parse().expect("a number"));
    }
    Ok(())
}

/// From CLOCK_MONOTONIC to the clock of records.
fn to_records(clock: Option<(Clock, [u64; 2])>) -> impl Fn(u64) -> u64 {
    let ahead = number("FAKE_CUPTI_AHEAD");
    let ([first, first_value], [last, value]) = match clock {
        Some((clock, first)) => (first, beside(|| clock())),
        None => ([0; 2], beside(|| nanoseconds(libc::CLOCK_REALTIME))),
    };
    let rate = match clock {
        Some(_) => (value - first_value) as f64 / (last - first).max(1) as f64,
        None => 1.0,
    };
    move |time| {
        let since = time as i64 - last as i64;
        let units = if rate == 1.0 {
            since
        } else {
            (since as f64 * rate) as i64
        };
        value.wrapping_add(units as u64) + ahead
    }
}

/// Bytes of a record.
fn size(kind: u32) -> usize {
    if kind == KERNEL {
        224
    } else {
        80
    }
}

/// A launch: reserves its records.
unsafe extern "C" fn launched(work: *const Work, number: usize) {
    // SAFETY: fake-cuda's.
    let work = unsafe { std::slice::from_raw_parts(work, number) };
    for work in work {
        let mut state = state();
        let Some((requested, _)) = state.callbacks else {
            return;
        };
        // A launch that was under way when records were switched on is not in them.
        if state.enabled >> work.kind & 1 == 0 || work.launched < state.since {
            continue;
        }
        state.launched += 1;
        let drop = number_of_drops();
        if drop != 0 && state.launched.is_multiple_of(drop) {
            state.dropped += 1;
            continue;
        }
        let bytes = size(work.kind);
        if let Some(buffer) = state.buffers.last_mut() {
            buffer.full |= buffer.used + bytes > buffer.size || buffer.work.len() >= most_records();
        }
        if state.buffers.last().is_none_or(|buffer| buffer.full) {
            let (mut at, mut size, mut most) = (std::ptr::null_mut(), 0, 0);
            // SAFETY: the profiler's callback.
            unsafe { requested(&mut at, &mut size, &mut most) };
            if at.is_null() || size < bytes {
                state.dropped += 1;
                continue;
            }
            state.buffers.push(Buffer {
                at: at as usize,
                size,
                work: Vec::new(),
                used: 0,
                full: false,
            });
        }
        let buffer = state.buffers.last_mut().expect("one with room");
        buffer.used += bytes;
        buffer.work.push(*work);
    }
}

fn number_of_drops() -> u64 {
    static DROPS: OnceLock<u64> = OnceLock::new();
    *DROPS.get_or_init(|| number("FAKE_CUPTI_DROP"))
}

fn most_records() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| match number("FAKE_CUPTI_RECORDS") {
        0 => usize::MAX,
        most => most as usize,
    })
}

/// Which buffers are handed out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// Those that are full and have run.
    Full,
    /// Those that have run.
    Ran,
    All,
}

thread_local! {
    /// Dropped records that the buffer which this thread hands out tells of.
    static DROPPED: Cell<usize> = const { Cell::new(0) };
}

fn deliver(which: Which) {
    // A flush returns when all that it hands out was handed out, also by another thread.
    static DELIVERY: Mutex<()> = Mutex::new(());
    let _one = DELIVERY
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut guard = state();
    let state = &mut *guard;
    let Some((_, completed)) = state.callbacks else {
        return;
    };
    let now = monotonic();
    let out = |buffer: &Buffer| match which {
        Which::Full => buffer.full && buffer.has_run(now),
        Which::Ran => buffer.has_run(now),
        Which::All => true,
    };
    let (buffers, stay) = std::mem::take(&mut state.buffers)
        .into_iter()
        .partition(out);
    state.buffers = stay;
    let buffers: Vec<Buffer> = buffers;
    let mut dropped = if buffers.is_empty() {
        0
    } else {
        std::mem::take(&mut state.dropped)
    };
    let clock = state.clock;
    drop(guard);
    if buffers.is_empty() {
        return;
    }
    let time = to_records(clock);
    for buffer in buffers {
        let mut at = buffer.at as *mut u8;
        for work in &buffer.work {
            // SAFETY: the records that are reserved fit into the profiler's buffer.
            unsafe {
                put(at, work, &time, work.end <= now);
                at = at.add(size(work.kind));
            }
        }
        DROPPED.set(std::mem::take(&mut dropped));
        // SAFETY: the callback that was registered last.
        unsafe {
            completed(
                std::ptr::null_mut(),
                0,
                buffer.at as *mut u8,
                buffer.size,
                buffer.used,
            )
        };
    }
}

/// Writes a record.
///
/// # Safety
/// There is room for one.
unsafe fn put(at: *mut u8, work: &Work, time: impl Fn(u64) -> u64, over: bool) {
    // SAFETY: by the caller.
    unsafe {
        std::ptr::write_bytes(at, 0, size(work.kind));
        let u32_at =
            |offset: usize, value: u32| at.add(offset).cast::<u32>().write_unaligned(value);
        let u64_at =
            |offset: usize, value: u64| at.add(offset).cast::<u64>().write_unaligned(value);
        let (start, end) = if over {
            (time(work.start), time(work.end))
        } else {
            (0, 0)
        };
        u32_at(0, work.kind);
        if work.kind == KERNEL {
            u64_at(16, start);
            u64_at(24, end);
            u32_at(40, work.device);
            u32_at(48, work.stream);
            u32_at(52, work.size as u32);
            u32_at(56, 1);
            u32_at(60, 1);
            u32_at(92, work.correlation);
            u64_at(104, work.name as u64);
            u64_at(144, work.node);
            u32_at(156, work.graph);
        } else {
            u64_at(8, work.size);
            u64_at(16, start);
            u64_at(24, end);
            u32_at(32, work.device);
            u32_at(40, work.stream);
            u32_at(44, work.correlation);
            u64_at(64, work.node);
            u32_at(72, work.graph);
        }
    }
}

/// Watches fake-cuda, and hands out what is full.
fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        // SAFETY: fake-cuda's function.
        unsafe {
            let cuda = libc::dlopen(
                c"libcuda.so.1".as_ptr(),
                libc::RTLD_LAZY | libc::RTLD_NOLOAD,
            );
            let watch = libc::dlsym(cuda, c"fake_cuda_watch".as_ptr());
            assert!(!watch.is_null(), "fake-cuda is loaded");
            let watch = std::mem::transmute::<*mut c_void, unsafe extern "C" fn(Watcher)>(watch);
            watch(launched);
        }
        std::thread::spawn(|| loop {
            std::thread::sleep(Duration::from_millis(5));
            deliver(Which::Full);
        });
    });
}

fn enable(kind: u32) {
    let mut state = state();
    state.enabled |= 1 << kind.min(63);
    state.since = monotonic();
    drop(state);
    slow(kind, number("FAKE_CUPTI_SLOWS"));
}

fn disable(kind: u32) {
    state().enabled &= !(1 << kind.min(63));
    slow(kind, 0);
}

fn slow(kind: u32, percent: u64) {
    if kind != KERNEL || variable("FAKE_CUPTI_SLOWS").is_none() {
        return;
    }
    // SAFETY: fake-cuda's function.
    unsafe {
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
        let cuda = libc::dlopen(c"libcuda.so.1".as_ptr(), flags);
        let slow = libc::dlsym(cuda, c"fake_cuda_slow".as_ptr());
        assert!(!slow.is_null(), "fake-cuda is loaded");
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(u64)>(slow)(percent);
    }
}

macro_rules! cupti {
    ($(fn $name:ident($($arg:ident: $type:ty),*) $body:block)*) => {
        $(
            /// # Safety
            /// As for CUPTI's function.
            #[no_mangle]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> u32 {
                let done = called(stringify!($name)).and_then(|()| $body);
                done.map_or_else(|code| code, |()| 0)
            }
        )*
    };
}

cupti! {
    fn cuptiActivityRegisterCallbacks(requested: Option<Requested>, completed: Option<Completed>) {
        start();
        let callbacks = requested.zip(completed).ok_or(INVALID_PARAMETER)?;
        state().callbacks = Some(callbacks);
        Ok(())
    }

    fn cuptiGetVersion(version: *mut u32) {
        let said = std::env::var("FAKE_CUPTI_VERSION");
        // SAFETY: by the caller, as for CUPTI's function.
        unsafe { *version = said.map_or(130_500, |it| it.parse().expect("a version")) };
        Ok(())
    }

    fn cuptiActivitySetAttribute(attribute: u32, size: *mut usize, value: *mut c_void) {
        // The only attribute that a test sets: whether threads have buffers of their own. Undefined once
        // something is recorded.
        // SAFETY: by the caller, as for CUPTI's function.
        let (size, value) = unsafe { (*size, *value.cast::<u8>()) };
        let begun = state().calls.contains_key("cuptiActivityRegisterCallbacks");
        ((attribute, size, value, begun) == (9, 1, 0, false))
            .then_some(())
            .ok_or(INVALID_PARAMETER)?;
        *state().calls.entry("shared buffers").or_insert(0) += 1;
        Ok(())
    }

    fn cuptiActivityEnable(kind: u32) {
        enable(kind);
        Ok(())
    }

    fn cuptiActivityEnableContext(_context: *mut c_void, kind: u32) {
        enable(kind);
        Ok(())
    }

    fn cuptiActivityDisable(kind: u32) {
        disable(kind);
        Ok(())
    }

    fn cuptiActivityDisableContext(_context: *mut c_void, kind: u32) {
        disable(kind);
        Ok(())
    }

    fn cuptiActivityFlushAll(flag: u32) {
        deliver(if flag & 1 == 1 { Which::All } else { Which::Ran });
        Ok(())
    }

    fn cuptiActivityGetNextRecord(buffer: *mut u8, valid: usize, record: *mut *mut u8) {
        // SAFETY: the caller's buffer, and the last record in it or null.
        unsafe {
            let next = if (*record).is_null() {
                buffer
            } else {
                (*record).add(size((*record).cast::<u32>().read_unaligned()))
            };
            if next as usize >= buffer as usize + valid {
                return Err(MAX_LIMIT_REACHED);
            }
            *record = next;
        }
        Ok(())
    }

    fn cuptiActivityGetNumDroppedRecords(_context: *mut c_void, _stream: u32, dropped: *mut usize) {
        // SAFETY: the caller's.
        unsafe { *dropped = DROPPED.take() };
        Ok(())
    }

    fn cuptiActivityRegisterTimestampCallback(clock: Option<Clock>) {
        state().clock = clock.map(|clock| (clock, beside(|| clock())));
        Ok(())
    }

    fn cuptiActivityPushExternalCorrelationId(_kind: u32, _id: u64) {
        Ok(())
    }

    fn cuptiActivityPopExternalCorrelationId(_kind: u32, _id: *mut u64) {
        Ok(())
    }
}

/// How often a function was called.
///
/// # Safety
/// `name` is a C string.
#[no_mangle]
pub unsafe extern "C" fn fake_cupti_calls(name: *const c_char) -> u64 {
    // SAFETY: by the caller.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    state().calls.get(&*name).copied().unwrap_or(0)
}

/// The kinds of activity that are enabled, a bit each.
#[no_mangle]
pub extern "C" fn fake_cupti_enabled() -> u64 {
    state().enabled
}
