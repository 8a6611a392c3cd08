//! CUPTI's activity interface: records of what ran on the GPU.
//!
//! [`Cupti`] has the functions, [`activity`] reads one record. CUPTI asks for memory through
//! [`buffer_requested`] and hands it back, filled, through [`buffer_completed`], on a thread of its own or on
//! the one that flushes. [`Pool`] has that memory, so that nothing is allocated then.
//!
//! Measured on H200 with CUPTI 13.0: without a subscription, records of kernels leave torch.profiler's
//! subscription alone. What is launched while recording is on is recorded, even if it runs later. A flush
//! hands out only what has run. Times are CLOCK_REALTIME, in ns. `cuptiFinalize` is never called: it makes
//! the next replay of a CUDA graph fail.
//!
//! CUPTI 13 has buffers for each thread that launches unless it is told otherwise. Here all threads share
//! them, as they did before, because 16 buffers then serve any number of threads.
//!
//! CUPTI 13.0 and 13.2 crash programs of several threads when records are switched on and off again and
//! again: their worker thread reads memory that was freed ([`SAFE`]). So only a newer one is switched on
//! unasked.
//!
//! Rule: one libcupti in a process. The one that is loaded is used, else one that lies beside CUDA's runtime
//! is loaded.

use crate::interpose::objects;
use crate::pages;
use std::ffi::{c_char, c_void, CStr, CString};
use std::path::PathBuf;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::sync::Once;

/// Kinds of activity.
pub const COPY: u32 = 1;
pub const FILL: u32 = 2;
pub const KERNEL: u32 = 10;
/// What is switched on in a window.
pub const KINDS: [u32; 3] = [KERNEL, COPY, FILL];

/// Whether each thread that launches has buffers of its own:
/// `CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER`.
const BUFFERS_OF_THREADS: u32 = 9;
static SHARED_BUFFERS: Once = Once::new();

/// The oldest CUPTI that did not crash, as `cuptiGetVersion` says it: 13.5. Plain training of one GPU,
/// without NCCL and without a recorder, with four switches a second (`bench/gpu/cupti_threads.py`, 2 H100):
/// 13.0.85 and 13.2.86 ended 4 of 5 processes by SIGSEGV within 132 s, and 13.5.25 none of 3 in 160 s.
const SAFE: u32 = 130_500;

/// There are no more records in a buffer.
const MAX_LIMIT_REACHED: u32 = 12;

type Requested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Completed = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

/// The functions that a window needs.
pub struct Cupti {
    register: unsafe extern "C" fn(Requested, Completed) -> u32,
    enable: unsafe extern "C" fn(u32) -> u32,
    disable: unsafe extern "C" fn(u32) -> u32,
    flush: unsafe extern "C" fn(u32) -> u32,
    next: unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> u32,
    dropped: unsafe extern "C" fn(*mut c_void, u32, *mut usize) -> u32,
    version: unsafe extern "C" fn(*mut u32) -> u32,
}

/// The name of CUPTI's library in a path, as `libcupti.so.13`.
pub fn is_cupti(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    file.starts_with("libcupti.so")
}

/// An address of a function of CUPTI, if it is loaded.
pub fn function(name: &CStr) -> Option<*mut c_void> {
    let path = objects::names().into_iter().find(|name| is_cupti(name))?;
    let path = CString::new(path).ok()?;
    // SAFETY: RTLD_NOLOAD only finds what is mapped; the reference is kept for the process's life.
    let found = unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() {
            return None;
        }
        libc::dlsym(library, name.as_ptr())
    };
    (!found.is_null()).then_some(found)
}

impl Cupti {
    /// The loaded CUPTI, or the one that lies beside CUDA's runtime.
    pub fn find() -> Option<Cupti> {
        let loaded = objects::names();
        if !loaded.iter().any(|name| is_cupti(name)) {
            candidates(&loaded).into_iter().find(|path| load(path))?;
        }
        macro_rules! found {
            ($name:literal, $type:ty) => {
                // SAFETY: CUPTI's documented signatures, unchanged since CUDA 11.
                unsafe { std::mem::transmute::<*mut c_void, $type>(function($name)?) }
            };
        }
        type OfKind = unsafe extern "C" fn(u32) -> u32;
        type Next = unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> u32;
        type Dropped = unsafe extern "C" fn(*mut c_void, u32, *mut usize) -> u32;
        Some(Cupti {
            register: found!(
                c"cuptiActivityRegisterCallbacks",
                unsafe extern "C" fn(Requested, Completed) -> u32
            ),
            enable: found!(c"cuptiActivityEnable", OfKind),
            disable: found!(c"cuptiActivityDisable", OfKind),
            flush: found!(c"cuptiActivityFlushAll", OfKind),
            next: found!(c"cuptiActivityGetNextRecord", Next),
            dropped: found!(c"cuptiActivityGetNumDroppedRecords", Dropped),
            version: found!(c"cuptiGetVersion", unsafe extern "C" fn(*mut u32) -> u32),
        })
    }

    /// Its version, as 130001 for 13.0.85; 0 if it can't say.
    pub fn version(&self) -> u32 {
        let mut version = 0;
        // SAFETY: fills in a number.
        let result = unsafe { (self.version)(&mut version) };
        if result == 0 {
            version
        } else {
            0
        }
    }

    /// Whether it may be switched on and off in a program that did not ask for it.
    pub fn is_safe(&self) -> bool {
        self.version() >= SAFE
    }

    /// Switches records on. Nobody else may use CUPTI then.
    pub fn begin(&self) -> Result<(), u32> {
        SHARED_BUFFERS.call_once(share_buffers);
        // SAFETY: the callbacks live as long as the process.
        check(unsafe { (self.register)(buffer_requested, buffer_completed) })?;
        for kind in KINDS {
            // SAFETY: a kind of activity.
            check(unsafe { (self.enable)(kind) })?;
        }
        Ok(())
    }

    /// Switches records off; those of what was launched before still come.
    pub fn end(&self) -> Result<(), u32> {
        let mut result = Ok(());
        for kind in KINDS {
            // SAFETY: as above.
            result = result.and(check(unsafe { (self.disable)(kind) }));
        }
        result
    }

    /// Has CUPTI hand out what has run. `all` takes back every buffer, with what was not over missing.
    pub fn flush(&self, all: bool) -> Result<(), u32> {
        // SAFETY: a plain call.
        check(unsafe { (self.flush)(all.into()) })
    }

    /// Calls `each` with every record of a buffer; how many were dropped before it.
    fn read(
        &self,
        context: *mut c_void,
        stream: u32,
        buffer: *mut u8,
        valid: usize,
        mut each: impl FnMut(*const u8),
    ) -> usize {
        let mut record = std::ptr::null_mut();
        // SAFETY: the buffer is CUPTI's to read until it is given back.
        unsafe {
            while (self.next)(buffer, valid, &mut record) == 0 {
                each(record);
            }
            let mut dropped = 0;
            if (self.dropped)(context, stream, &mut dropped) != 0 {
                dropped = 0;
            }
            dropped
        }
    }
}

/// Has all threads share their buffers. A CUPTI that lacks the function or the attribute does so anyway.
/// Must come before the buffers' callbacks, and not while something is recorded.
fn share_buffers() {
    type SetAttribute = unsafe extern "C" fn(u32, *mut usize, *mut c_void) -> u32;
    let Some(set) = function(c"cuptiActivitySetAttribute") else {
        return;
    };
    let (mut size, mut value) = (1, 0u8);
    // SAFETY: CUPTI's documented signature; the value is a byte, which it reads.
    unsafe {
        let set = std::mem::transmute::<*mut c_void, SetAttribute>(set);
        set(BUFFERS_OF_THREADS, &mut size, (&raw mut value).cast());
    }
}

fn check(result: u32) -> Result<(), u32> {
    match result {
        0 | MAX_LIMIT_REACHED => Ok(()),
        code => Err(code),
    }
}

/// Where to look for a CUPTI that fits the CUDA of this process. First come the folder of libcudart and those
/// of Python's packages and of the toolkit; then wherever the dynamic linker looks.
fn candidates(loaded: &[String]) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for runtime in loaded.iter().filter(|name| name.contains("libcudart.so.")) {
        let Some(major) = runtime
            .rsplit("libcudart.so.")
            .next()
            .and_then(|v| v.split('.').next())
        else {
            continue;
        };
        let library = format!("libcupti.so.{major}");
        let folder = PathBuf::from(runtime);
        for up in folder.ancestors().skip(1).take(3) {
            for down in ["", "cuda_cupti/lib", "extras/CUPTI/lib64", "lib64"] {
                paths.push(up.join(down).join(&library));
            }
        }
    }
    paths.retain(|path| path.is_file());
    paths.extend(["libcupti.so.13", "libcupti.so.12"].map(PathBuf::from));
    paths
}

fn load(path: &std::path::Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: NVIDIA's library, whose initialisers are its own; it stays loaded.
    unsafe { !libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL).is_null() }
}

/// A moment on CUPTI's clock, in its units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CuptiTime(pub u64);

/// What a record says, whatever its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// [`KERNEL`], [`COPY`] or [`FILL`].
    pub kind: u32,
    /// From when to when; an end of 0 if it was not over.
    pub start: CuptiTime,
    pub end: CuptiTime,
    pub device: u32,
    pub stream: u32,
    pub correlation: u32,
    pub graph: u32,
    pub node: u64,
    /// Mangled; null for copies and fills.
    pub name: *const c_char,
    /// Bytes, or blocks of the grid.
    pub size: u64,
}

/// Where the fields of a record are, in bytes. New fields were always appended: they are the same in CUPTI
/// 11.0 to 13.0.
mod at {
    pub const KERNEL_START: usize = 16;
    pub const KERNEL_DEVICE: usize = 40;
    pub const KERNEL_STREAM: usize = 48;
    pub const KERNEL_GRID: usize = 52;
    pub const KERNEL_CORRELATION: usize = 92;
    pub const KERNEL_NAME: usize = 104;
    pub const KERNEL_NODE: usize = 144;
    pub const KERNEL_GRAPH: usize = 156;
    /// Copies and fills: bytes, then start and end.
    pub const BYTES: usize = 8;
    pub const START: usize = 16;
    pub const DEVICE: usize = 32;
    pub const STREAM: usize = 40;
    pub const CORRELATION: usize = 44;
    pub const NODE: usize = 64;
    pub const GRAPH: usize = 72;
}

/// Reads a record; `None` if it is of another kind.
///
/// # Safety
/// `record` is a record of CUPTI 11.6 or newer.
pub unsafe fn activity(record: *const u8) -> Option<Activity> {
    // SAFETY: by the caller; records are packed to 8 bytes, so their fields may be read unaligned.
    unsafe {
        let u32_at = |at: usize| record.add(at).cast::<u32>().read_unaligned();
        let u64_at = |at: usize| record.add(at).cast::<u64>().read_unaligned();
        let kind = u32_at(0);
        match kind {
            KERNEL => {
                let grid = [0, 4, 8].map(|i| u64::from(u32_at(at::KERNEL_GRID + i)));
                Some(Activity {
                    kind,
                    start: CuptiTime(u64_at(at::KERNEL_START)),
                    end: CuptiTime(u64_at(at::KERNEL_START + 8)),
                    device: u32_at(at::KERNEL_DEVICE),
                    stream: u32_at(at::KERNEL_STREAM),
                    correlation: u32_at(at::KERNEL_CORRELATION),
                    graph: u32_at(at::KERNEL_GRAPH),
                    node: u64_at(at::KERNEL_NODE),
                    name: u64_at(at::KERNEL_NAME) as *const c_char,
                    size: grid[0].saturating_mul(grid[1]).saturating_mul(grid[2]),
                })
            }
            COPY | FILL => Some(Activity {
                kind,
                start: CuptiTime(u64_at(at::START)),
                end: CuptiTime(u64_at(at::START + 8)),
                device: u32_at(at::DEVICE),
                stream: u32_at(at::STREAM),
                correlation: u32_at(at::CORRELATION),
                graph: u32_at(at::GRAPH),
                node: u64_at(at::NODE),
                name: std::ptr::null(),
                size: u64_at(at::BYTES),
            }),
            _ => None,
        }
    }
}

/// Bytes of a buffer: some 1200 kernels.
const BUFFER: usize = 256 << 10;
/// Buffers that CUPTI may hold at a time: 4 MiB in all. It has one or two per stream that is in use.
const BUFFERS: usize = 16;

/// Memory for records, made at the first window.
struct Pool {
    memory: AtomicPtr<u8>,
    /// A bit for each buffer that is free.
    free: AtomicU32,
}

static POOL: Pool = Pool {
    memory: AtomicPtr::new(std::ptr::null_mut()),
    free: AtomicU32::new(0),
};
/// Requests that found no buffer: CUPTI drops records then.
static REFUSED: AtomicUsize = AtomicUsize::new(0);

impl Pool {
    fn take(&self) -> Option<*mut u8> {
        let mut free = self.free.load(Acquire);
        loop {
            let bit = free.checked_ilog2()?;
            match self
                .free
                .compare_exchange_weak(free, free & !(1 << bit), AcqRel, Acquire)
            {
                Ok(_) => {
                    // SAFETY: the memory has this many buffers; the bit says that nobody has this one.
                    return Some(unsafe { self.memory.load(Acquire).add(bit as usize * BUFFER) });
                }
                Err(now) => free = now,
            }
        }
    }

    /// Which buffer this is; `None` if it is somebody else's.
    fn index(&self, buffer: *mut u8) -> Option<u32> {
        let at = (buffer as usize).checked_sub(self.memory.load(Acquire) as usize)?;
        (at < BUFFERS * BUFFER && at.is_multiple_of(BUFFER)).then_some((at / BUFFER) as u32)
    }

    fn give(&self, index: u32) {
        self.free.fetch_or(1 << index, Release);
    }
}

/// Makes the memory for records, once; false if it can't be had.
pub fn make_buffers() -> bool {
    if !POOL.memory.load(Acquire).is_null() {
        return true;
    }
    if !pages::map_once(&POOL.memory, BUFFERS * BUFFER) {
        return false;
    }
    POOL.free.store((1 << BUFFERS) - 1, Release);
    true
}

/// Buffers that CUPTI has not given back.
pub fn buffers_out() -> u32 {
    if POOL.memory.load(Acquire).is_null() {
        return 0;
    }
    BUFFERS as u32 - POOL.free.load(Acquire).count_ones()
}

/// Requests since the last time that found no buffer.
pub fn refused() -> usize {
    REFUSED.swap(0, Relaxed)
}

extern "C" fn buffer_requested(buffer: *mut *mut u8, size: *mut usize, most: *mut usize) {
    let taken = POOL.take();
    if taken.is_none() {
        REFUSED.fetch_add(1, Relaxed);
    }
    // SAFETY: CUPTI passes three places to fill in. Without a buffer, it drops records and counts them.
    unsafe {
        *buffer = taken.unwrap_or(std::ptr::null_mut());
        *size = if taken.is_some() { BUFFER } else { 0 };
        *most = 0;
    }
}

/// Takes in a buffer, whose records go to this function.
type RecordSink = fn(&Activity);
static SINK: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static CUPTI: AtomicPtr<Cupti> = AtomicPtr::new(std::ptr::null_mut());
static DROPPED: AtomicUsize = AtomicUsize::new(0);

/// Says where records go.
pub fn deliver_to(cupti: &'static Cupti, sink: RecordSink) {
    SINK.store(sink as *mut c_void, Release);
    CUPTI.store(std::ptr::from_ref(cupti).cast_mut(), Release);
}

/// Records that CUPTI dropped since the last time.
pub fn dropped() -> usize {
    DROPPED.swap(0, Relaxed)
}

extern "C" fn buffer_completed(
    context: *mut c_void,
    stream: u32,
    buffer: *mut u8,
    _size: usize,
    valid: usize,
) {
    let Some(index) = POOL.index(buffer) else {
        return;
    };
    crate::guard::guard((), || {
        let (sink, cupti) = (SINK.load(Acquire), CUPTI.load(Acquire));
        if sink.is_null() || cupti.is_null() || valid == 0 {
            return;
        }
        // SAFETY: both were stored by `deliver_to`; the records are CUPTI's, in a buffer of the pool.
        unsafe {
            let sink = std::mem::transmute::<*mut c_void, RecordSink>(sink);
            let dropped = (*cupti).read(context, stream, buffer, valid, |record| {
                if let Some(activity) = activity(record) {
                    sink(&activity);
                }
            });
            DROPPED.fetch_add(dropped, Relaxed);
        }
    });
    POOL.give(index);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_go_out_and_come_back() {
        assert!(make_buffers() && make_buffers());
        let mut out = Vec::new();
        for _ in 0..BUFFERS {
            let (mut buffer, mut size, mut most) = (std::ptr::null_mut(), 0, 9);
            buffer_requested(&mut buffer, &mut size, &mut most);
            assert_eq!((size, most), (BUFFER, 0));
            out.push(buffer);
        }
        assert_eq!((buffers_out(), refused()), (BUFFERS as u32, 0));
        let (mut buffer, mut size, mut most) = (std::ptr::null_mut(), 1, 9);
        buffer_requested(&mut buffer, &mut size, &mut most);
        assert!(buffer.is_null() && size == 0);
        assert_eq!(refused(), 1);
        // Nobody else's memory is taken for one of these.
        buffer_completed(std::ptr::null_mut(), 0, 0x1000 as *mut u8, BUFFER, 0);
        out.sort_unstable();
        out.dedup();
        assert_eq!(out.len(), BUFFERS);
        for buffer in out {
            buffer_completed(std::ptr::null_mut(), 0, buffer, BUFFER, 0);
        }
        assert_eq!(buffers_out(), 0);
    }

    #[test]
    fn a_kernels_record_is_read() {
        let mut record = [0u8; 216];
        let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &KERNEL.to_le_bytes());
        put(16, &1000u64.to_le_bytes());
        put(24, &3000u64.to_le_bytes());
        put(40, &1u32.to_le_bytes());
        put(48, &7u32.to_le_bytes());
        for i in 0..3 {
            put(52 + 4 * i, &(2 + i as u32).to_le_bytes());
        }
        put(92, &41u32.to_le_bytes());
        put(144, &8_589_934_592u64.to_le_bytes());
        put(156, &2u32.to_le_bytes());
        // SAFETY: a record of the size that CUPTI 13.0 has.
        let found = unsafe { activity(record.as_ptr()) }.expect("a kernel");
        assert_eq!(
            (found.start, found.end, found.device, found.stream),
            (CuptiTime(1000), CuptiTime(3000), 1, 7)
        );
        assert_eq!(
            (found.correlation, found.graph, found.node),
            (41, 2, 8_589_934_592)
        );
        assert_eq!(found.size, 2 * 3 * 4);
        record[0] = 51;
        // SAFETY: as above.
        assert_eq!(unsafe { activity(record.as_ptr()) }, None);
    }
}
