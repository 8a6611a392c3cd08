//! A GPU for a played job: a CUDA driver without one (`fake-cuda`).
//!
//! With the setting `cuda`, each process loads it before the plugin, so that a plugin finds a driver as in
//! any program. The addresses of its functions are kept in this program's data, as a CUDA runtime that is
//! linked into a program keeps them. The schedule decides what streams do. [`Gpu::busy`] keeps a stream busy
//! until a moment. [`Gpu::join`] makes the compute stream wait for a collective's stream, as programs do with
//! an event. [`memory`] has what NCCL asks the driver for while it makes a communicator and connects it.
//!
//! Rule: the library is looked for beside the program, where it is built.

mod memory;

use crate::lock::lock;
use anyhow::{bail, Context};
use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};
use memory::Memory;
use std::collections::HashMap;
use std::ffi::c_int;
use std::path::Path;
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// NCCL's own stream, which it lets wait for each launch.
const NCCLS_OWN: u64 = 0x7f54_0000_0000;
/// The first rank's compute stream. No stream has the id 0, and an id is the lower part of this.
const COMPUTE: u64 = 0x7f56_0000_0100;

type OnStream = unsafe extern "C" fn(u64, u64) -> c_int;
type Wait = unsafe extern "C" fn(u64, u64, u32) -> c_int;
type Make = unsafe extern "C" fn(*mut u64, u32) -> c_int;
type Of = unsafe extern "C" fn(u64) -> c_int;

/// The driver of this process.
pub struct Gpu {
    busy: OnStream,
    record: OnStream,
    wait: Wait,
    make: Make,
    set_context: Of,
    synchronise: Of,
    memory: Memory,
    /// One moment of [`Instant`]'s clock and of the driver's.
    together: (Instant, u64),
    /// By stream: the event that is recorded on it.
    events: Mutex<HashMap<u64, u64>>,
}

static GPU: OnceLock<Gpu> = OnceLock::new();

/// The GPU of this process, if its job has some.
pub fn get() -> Option<&'static Gpu> {
    GPU.get()
}

/// Gives this process a GPU.
///
/// # Errors
/// The library is not there.
pub fn load() -> anyhow::Result<()> {
    if GPU.get().is_some() {
        return Ok(());
    }
    let program = std::env::current_exe().context("the program's own path")?;
    let folder = program.parent().unwrap_or(Path::new(""));
    let folders = [folder, folder.parent().unwrap_or(folder)];
    let places = folders
        .iter()
        .flat_map(|f| ["libfake_cuda.so", "deps/libfake_cuda.so"].map(|name| f.join(name)));
    let Some(path) = places.into_iter().find(|path| path.is_file()) else {
        bail!(
            "expected libfake_cuda.so beside {}; `cargo build -p ncclscope-fake-cuda` builds it",
            program.display()
        );
    };
    // SAFETY: a library of ours without initialisers.
    let driver = unsafe { Library::open(Some(path), RTLD_LAZY | RTLD_LOCAL) }?;
    // The process keeps it, as it does CUDA's.
    let driver: &'static Library = Box::leak(Box::new(driver));
    // SAFETY: fake-cuda's functions, with their signatures.
    let gpu = unsafe {
        Gpu {
            busy: *driver.get(b"fake_cuda_busy")?,
            set_context: *driver.get(b"cuCtxSetCurrent")?,
            synchronise: *driver.get(b"cuStreamSynchronize")?,
            record: *driver.get(b"cuEventRecord")?,
            wait: *driver.get(b"cuStreamWaitEvent")?,
            make: *driver.get(b"cuEventCreate")?,
            memory: Memory::find(*driver.get(b"cuGetProcAddress_v2")?)?,
            together: together(),
            events: Mutex::default(),
        }
    };
    let _ = GPU.set(gpu);
    Ok(())
}

impl Gpu {
    /// The calling thread works with this device from now on.
    pub fn set_device(&self, device: usize) {
        // SAFETY: the driver's function.
        unsafe { (self.set_context)(device as u64 + 1) };
    }

    /// A stream has something to do until then; `None` for ever.
    pub fn busy(&self, stream: u64, until: Option<Instant>) {
        let until = match until {
            Some(until) => {
                // Both clocks are CLOCK_MONOTONIC. A thread that stands still between two readings would make
                // the stream busy for as much too long.
                let (known, ns) = self.together;
                ns.saturating_add(until.saturating_duration_since(known).as_nanos() as u64)
            }
            None => u64::MAX >> 1,
        };
        // SAFETY: fake-cuda's function.
        unsafe { (self.busy)(stream, until) };
    }

    /// The calling thread waits in the driver until a stream that is busy until then has nothing to do.
    pub fn synchronise(&self, stream: u64, until: Instant) {
        self.busy(stream, Some(until));
        // SAFETY: the driver's function.
        unsafe { (self.synchronise)(stream) };
    }

    /// As NCCL does behind each launch, before the call returns.
    pub fn launched(&self, stream: u64) {
        self.behind(NCCLS_OWN + (stream & 0xffff_ffff), stream);
    }

    /// A rank's compute stream.
    pub fn compute_stream(rank: usize) -> u64 {
        COMPUTE + rank as u64 * 0x100
    }

    /// A rank's compute stream waits for what is on this stream.
    pub fn join(&self, rank: usize, stream: u64) {
        self.behind(Gpu::compute_stream(rank), stream);
    }

    /// Makes a stream wait for another, with an event.
    fn behind(&self, waits: u64, stream: u64) {
        let mut events = lock(&self.events);
        let event = *events.entry(stream ^ waits << 16).or_insert_with(|| {
            let mut event = 0;
            // SAFETY: fills in one handle.
            unsafe { (self.make)(&mut event, 0) };
            event
        });
        // SAFETY: an event of the driver's.
        unsafe {
            (self.record)(event, stream);
            (self.wait)(waits, event, 0);
        }
    }
}

/// Of many pairs of readings, the one with the least time between.
fn together() -> (Instant, u64) {
    let read = || {
        let before = Instant::now();
        let ns = now();
        (before.elapsed(), before, ns)
    };
    let closest = (0..100)
        .map(|_| read())
        .min_by_key(|(between, ..)| *between);
    let (_, instant, ns) = closest.unwrap_or_else(read);
    (instant, ns)
}

/// ns of the clock that the driver goes by.
fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills in a timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
