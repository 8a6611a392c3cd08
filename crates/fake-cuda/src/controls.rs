//! What tests ask of this driver, and what it says of its past: `fake_cuda_*`.

use crate::driver::{driver, now, stream_of, Kernel, BARE, LEGACY, NCCL, NEWEST, STUCK};
use crate::exported;
use crate::work::{Watcher, KERNEL};
use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;

exported! {
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
