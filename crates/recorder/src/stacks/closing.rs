//! When the interpreter begins to shut down: from then on, another thread may free what a walk reads.
//!
//! A thread's state and frames are freed by the thread itself, or by the one that shuts the interpreter down.
//! So a walk in another thread than that one needs to know that this has not begun. [`ask`] has the
//! interpreter's main thread register an exit function, at a moment at which that thread holds the GIL
//! anyway. The exit function runs before anything is freed. It says so in [`CLOSING`], and waits for the
//! walks that are under way ([`enter`]).
//!
//! Rule: a walk reads with loads only between `enter` and the drop of what that gave. Without a registered
//! exit function there is no `enter`, and the kernel does the reading.

use super::python::symbol;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU32,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use std::time::{Duration, Instant};

/// The exit function is registered.
static WATCHED: AtomicBool = AtomicBool::new(false);
/// It has run.
static CLOSING: AtomicBool = AtomicBool::new(false);
/// Walks under way.
static WALKS: AtomicU32 = AtomicU32::new(0);
/// The process that these are of. A forked child has the exit function, and no walks.
static PID: AtomicI32 = AtomicI32::new(0);

/// How long the exit function waits for walks. They take microseconds, if their threads run.
const PATIENCE: Duration = Duration::from_secs(1);

/// A walk that reads with loads.
pub struct Walk(());

impl Drop for Walk {
    #[inline(always)]
    fn drop(&mut self) {
        WALKS.fetch_sub(1, Release);
    }
}

/// Begins a walk, unless the interpreter shuts down, or would not say so.
#[inline(always)]
pub fn enter() -> Option<Walk> {
    if !WATCHED.load(Relaxed) {
        return None;
    }
    // Before the look at `CLOSING`: of this thread and the one that closes, one sees what the other stored.
    WALKS.fetch_add(1, SeqCst);
    let walk = Walk(());
    (!CLOSING.load(SeqCst)).then_some(walk)
}

/// Whether the interpreter has begun to shut down, as far as it says so.
pub fn has_begun() -> bool {
    CLOSING.load(Relaxed)
}

fn pid() -> c_int {
    // SAFETY: a plain system call.
    unsafe { libc::getpid() }
}

/// Asks the interpreter's main thread to register the exit function. Not for callbacks: it takes a lock of
/// the interpreter for a moment.
pub fn ask() {
    if PID.swap(pid(), SeqCst) != pid() {
        WALKS.store(0, SeqCst);
        CLOSING.store(false, SeqCst);
    }
    if WATCHED.load(Relaxed) {
        return;
    }
    let Some(add) = symbol(c"Py_AddPendingCall") else {
        return;
    };
    type Add =
        unsafe extern "C" fn(unsafe extern "C" fn(*mut c_void) -> c_int, *mut c_void) -> c_int;
    // SAFETY: the function has this type in all releases, and may be called from any thread without the GIL.
    unsafe {
        let add = std::mem::transmute::<*mut c_void, Add>(add);
        add(pending, std::ptr::null_mut());
    }
}

/// Runs in the main thread, with the GIL. Whatever fails there, fails silently: the kernel goes on reading.
unsafe extern "C" fn pending(_: *mut c_void) -> c_int {
    crate::guard::guard((), || {
        if WATCHED.load(Relaxed) {
            return;
        }
        // SAFETY: this thread holds the GIL.
        let is_registered = unsafe { register_newer().or_else(|| register_older()) };
        WATCHED.store(is_registered == Some(true), Release);
    });
    0
}

/// 3.13 and later have a function of C for that.
unsafe fn register_newer() -> Option<bool> {
    type AtExit =
        unsafe extern "C" fn(*mut c_void, unsafe extern "C" fn(*mut c_void), *mut c_void) -> c_int;
    let at_exit = symbol(c"PyUnstable_AtExit")?;
    let interpreter = symbol(c"PyInterpreterState_Get")?;
    // SAFETY: the functions have these types since 3.13 and 3.9, and the caller holds the GIL.
    unsafe {
        let at_exit = std::mem::transmute::<*mut c_void, AtExit>(at_exit);
        let interpreter =
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *mut c_void>(interpreter);
        Some(at_exit(interpreter(), closes, std::ptr::null_mut()) == 0)
    }
}

/// `PyMethodDef`.
#[repr(C)]
struct Method {
    name: *const c_char,
    function: unsafe extern "C" fn(*mut c_void, *mut c_void) -> *mut c_void,
    flags: c_int,
    doc: *const c_char,
}
// SAFETY: never written to.
unsafe impl Sync for Method {}

/// `METH_NOARGS`.
const NO_ARGUMENTS: c_int = 4;

static METHOD: Method = Method {
    name: c"ncclscope_closes".as_ptr(),
    function: closes_python,
    flags: NO_ARGUMENTS,
    doc: std::ptr::null(),
};

/// Before, there is the module `atexit`.
unsafe fn register_older() -> Option<bool> {
    type Object = *mut c_void;
    macro_rules! function {
        ($name:literal as $type:ty) => {
            // SAFETY: the function has this type in 3.9 to 3.12.
            unsafe { std::mem::transmute::<*mut c_void, $type>(symbol($name)?) }
        };
    }
    let new = function!(
        c"PyCFunction_NewEx" as unsafe extern "C" fn(*const Method, Object, Object) -> Object
    );
    let import =
        function!(c"PyImport_ImportModule" as unsafe extern "C" fn(*const c_char) -> Object);
    let call = function!(
        c"PyObject_CallMethod"
            as unsafe extern "C" fn(Object, *const c_char, *const c_char, ...) -> Object
    );
    let drop = function!(c"Py_DecRef" as unsafe extern "C" fn(Object));
    let clear = function!(c"PyErr_Clear" as unsafe extern "C" fn());
    symbol(c"_Py_NoneStruct")?;
    // SAFETY: the caller holds the GIL; each function takes null where it can get it here (`Py_DecRef`), and
    // each object is dropped once.
    unsafe {
        let module = import(c"atexit".as_ptr());
        let function = new(&METHOD, std::ptr::null_mut(), std::ptr::null_mut());
        let mut result = std::ptr::null_mut();
        if !module.is_null() && !function.is_null() {
            result = call(module, c"register".as_ptr(), c"O".as_ptr(), function);
        }
        if result.is_null() {
            clear();
        }
        drop(result);
        drop(function);
        drop(module);
        Some(!result.is_null())
    }
}

unsafe extern "C" fn closes_python(_: *mut c_void, _: *mut c_void) -> *mut c_void {
    closing();
    let none = symbol(c"_Py_NoneStruct").unwrap_or(std::ptr::null_mut());
    if let Some(take) = symbol(c"Py_IncRef") {
        // SAFETY: this thread holds the GIL; null is allowed.
        unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(take)(none)
        };
    }
    none
}

unsafe extern "C" fn closes(_: *mut c_void) {
    closing();
}

/// The interpreter shuts down, and nothing is freed before this returns.
fn closing() {
    CLOSING.store(true, SeqCst);
    if PID.load(SeqCst) != pid() {
        return;
    }
    let until = Instant::now() + PATIENCE;
    // Meets the Release at the end of each walk.
    while WALKS.load(Acquire) != 0 && Instant::now() < until {
        std::thread::yield_now();
    }
}
