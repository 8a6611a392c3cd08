//! Counts a program's NCCL calls, whatever profiler is loaded: to preload (`LD_PRELOAD`).
//!
//! It has the entry points of NCCL's calls. Each counts by function, datatype, count and communicator size,
//! and then calls NCCL. A program finds them in one of two ways. Linked with libnccl, its calls come here
//! because a preloaded library is searched first. If NCCL is opened at run time, the address comes from
//! `dlsym`. That is here, too, and hands out ours in place of NCCL's. For every other name it jumps to the
//! real one, so that `RTLD_NEXT` means what it means to the caller.
//!
//! `NCCLSCOPE_COUNTER_DIR` is the folder for the files (crate `counter`); without it nothing is counted.
//!
//! Rule: a call that NCCL makes on behalf of another (for example the sends of an AlltoAll) is not counted,
//! and neither is one that failed. A program that can't be counted runs as it would have.

use capture::stderr;
use counter::{CallShape, Counter};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};

mod find;

use find::Cached;

/// ncclInternalError: what a call returns when there is no NCCL to call.
const INTERNAL_ERROR: c_int = 3;
const IN_PROGRESS: c_int = 7;

/// The counter of this process, once it has made a call.
static COUNTER: AtomicPtr<Counter> = AtomicPtr::new(std::ptr::null_mut());
/// Which process tried to make its counter, and whether it still does: `pid << 1 | done`; 0 nobody yet.
///
/// No lock: a child that is forked meanwhile would never get it. Here it sees that the word is not its own.
static TRIED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Inside a call of NCCL's.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

extern "C" fn forked() {
    // The child's counts are its own; the parent's file stays mapped in it and is left alone.
    COUNTER.store(std::ptr::null_mut(), Release);
    TRIED.store(0, Release);
}

fn counter() -> Option<&'static Counter> {
    // Pairs with the Release below.
    let made = || COUNTER.load(Acquire);
    let found = made();
    if !found.is_null() {
        // SAFETY: leaked, so it lives as long as the process.
        return Some(unsafe { &*found });
    }
    let making = u64::from(std::process::id()) << 1;
    loop {
        let tried = TRIED.load(Acquire);
        if tried == making | 1 {
            // SAFETY: null, or as above.
            return unsafe { made().as_ref() };
        }
        if tried == making {
            // Another thread does.
            std::thread::sleep(std::time::Duration::from_micros(50));
        } else if TRIED
            .compare_exchange(tried, making, AcqRel, Relaxed)
            .is_ok()
        {
            break;
        }
    }
    let counter = make();
    TRIED.store(making | 1, Release);
    counter
}

/// Before the program runs, so that descriptor 2 is its standard error.
#[used]
#[link_section = ".init_array"]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        stderr::note();
    }
    at_load
};

fn make() -> Option<&'static Counter> {
    // An allocation that fails ends the process, and this makes some.
    Vec::<u8>::new().try_reserve_exact(1 << 16).ok()?;
    let folder = std::env::var_os(counter::FOLDER).filter(|f| !f.is_empty())?;
    let rank = [
        "RANK",
        "SLURM_PROCID",
        "OMPI_COMM_WORLD_RANK",
        "PMI_RANK",
        "PMIX_RANK",
    ];
    let rank = rank
        .iter()
        .find_map(|name| std::env::var(name).ok()?.parse().ok());
    match Counter::create(Path::new(&folder), std::process::id(), rank) {
        Ok(new) => {
            static REGISTERED: AtomicBool = AtomicBool::new(false);
            if !REGISTERED.swap(true, Relaxed) {
                // SAFETY: registers a function that only stores. A child has its parent's.
                unsafe { libc::pthread_atfork(None, None, Some(forked)) };
            }
            let new = Box::leak(Box::new(new));
            COUNTER.store(new, Release);
            Some(new)
        }
        Err(error) => {
            let folder = Path::new(&folder).display();
            let line = format!("ncclscope counter: can't count in `{folder}`: {error}\n");
            // Not `eprintln`, which takes a lock that a forked child would find taken.
            if stderr::is_the_one() {
                // SAFETY: the buffer is valid for its length.
                unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
            }
            None
        }
    }
}

type Query = unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int;

fn query(cached: &Cached, name: &CStr, comm: *mut c_void) -> Option<u32> {
    let found = cached.real(name)?;
    let mut value = -1;
    // SAFETY: NCCL's function of that name has this signature, and the program passed this communicator to
    // NCCL.
    let result = unsafe { std::mem::transmute::<*mut c_void, Query>(found)(comm, &mut value) };
    u32::try_from(value).ok().filter(|_| result == 0)
}

/// Makes the call and counts it.
fn counted(
    cached: &Cached,
    name: &CStr,
    (count, datatype, comm): (usize, c_int, *mut c_void),
    call: impl FnOnce(*mut c_void) -> c_int,
) -> c_int {
    static COUNT: Cached = Cached::new();
    static USER_RANK: Cached = Cached::new();
    let Some(found) = cached.real(name) else {
        return INTERNAL_ERROR;
    };
    // Threads that are ending have no such variable any more; they are not inside of a call.
    let inside = INSIDE
        .try_with(|inside| inside.replace(true))
        .unwrap_or(false);
    if inside {
        return call(found);
    }
    let kind = CallShape {
        function: counter::function(name).unwrap_or(u32::MAX),
        datatype: datatype as u32,
        // Before the call, because a nonblocking communicator is busy after it.
        nranks: query(&COUNT, c"ncclCommCount", comm).unwrap_or(0),
        rank: query(&USER_RANK, c"ncclCommUserRank", comm).unwrap_or(u32::MAX),
        count: count as u64,
    };
    let result = call(found);
    let _ = INSIDE.try_with(|inside| inside.set(false));
    if result == 0 || result == IN_PROGRESS {
        if let Some(counter) = counter() {
            counter.count(&kind);
        }
    }
    result
}

/// Entry points: name, arguments before count and datatype, and arguments between these and communicator and
/// stream.
macro_rules! calls {
    ($($name:ident $text:literal ($($before:ident: $pointer:ty),*) ($($option:ident),*);)*) => {
        $(
            #[doc = concat!("As NCCL's `", $text, "`.")]
            ///
            /// # Safety
            /// As NCCL has it.
            #[unsafe(export_name = $text)]
            pub unsafe extern "C" fn $name(
                $($before: $pointer,)*
                count: usize,
                datatype: c_int,
                $($option: c_int,)*
                comm: Pointer,
                stream: Pointer,
            ) -> c_int {
                type Call = unsafe extern "C" fn($($pointer,)* usize, c_int,
                    $(calls!(@int $option),)* Pointer, Pointer) -> c_int;
                let name = const {
                    match CStr::from_bytes_with_nul(concat!($text, "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a name has no NUL"),
                    }
                };
                static CACHED: Cached = Cached::new();
                counted(&CACHED, name, (count, datatype, comm), |found| {
                    // SAFETY: NCCL's function of that name has this signature, and gets what the program
                    // passed.
                    unsafe {
                        let call = std::mem::transmute::<*mut c_void, Call>(found);
                        call($($before,)* count, datatype, $($option,)* comm, stream)
                    }
                })
            }
        )*

        /// Our entry point in place of NCCL's.
        fn ours(name: &CStr) -> Option<*mut c_void> {
            match name.to_bytes() {
                $(name if name == $text.as_bytes() => Some($name as *mut c_void),)*
                _ => None,
            }
        }
    };
    (@int $option:ident) => { c_int };
}

type Buffer = *const c_void;
type Pointer = *mut c_void;

calls! {
    all_reduce "ncclAllReduce" (send: Buffer, recv: Pointer) (op);
    broadcast "ncclBroadcast" (send: Buffer, recv: Pointer) (root);
    bcast "ncclBcast" (buffer: Pointer) (root);
    reduce "ncclReduce" (send: Buffer, recv: Pointer) (op, root);
    all_gather "ncclAllGather" (send: Buffer, recv: Pointer) ();
    reduce_scatter "ncclReduceScatter" (send: Buffer, recv: Pointer) (op);
    send "ncclSend" (buffer: Buffer) (peer);
    recv "ncclRecv" (buffer: Pointer) (peer);
    all_to_all "ncclAlltoAll" (send: Buffer, recv: Pointer) ();
    gather "ncclGather" (send: Buffer, recv: Pointer) (root);
    scatter "ncclScatter" (send: Buffer, recv: Pointer) (root);
}

/// What `dlsym` hands out instead of NCCL's own; null for every other name.
///
/// # Safety
/// `name` must be null or a C string, as for `dlsym`.
unsafe extern "C" fn instead(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    find::prepare();
    if name.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: by the caller.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(ours) = ours(name) else {
        return std::ptr::null_mut();
    };
    match find::in_handle(handle, name) {
        // The real dlsym is asked again and says that it is not there.
        None => std::ptr::null_mut(),
        Some(_) => ours,
    }
}
