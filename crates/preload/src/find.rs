//! Where NCCL's own functions are, and the `dlsym` of this library.
//!
//! Rule: nothing here calls `dlsym` by that name, which would be ours.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};

extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// The C library's `dlsym`.
static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// What the program opened NCCL as, + 1; 0 while it has not.
static OPENED: AtomicUsize = AtomicUsize::new(0);

/// The version that a C library of this machine has had `dlsym` in from the beginning.
#[cfg(target_arch = "x86_64")]
const FIRST: &CStr = c"GLIBC_2.2.5";
#[cfg(target_arch = "aarch64")]
const FIRST: &CStr = c"GLIBC_2.17";

/// Finds the C library's `dlsym`. To be called before anything else here.
pub(crate) fn prepare() {
    if REAL.load(Relaxed).is_null() {
        // SAFETY: both are C strings; from here, the next one is the C library's.
        let found = unsafe { dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), FIRST.as_ptr()) };
        REAL.store(found, Relaxed);
    }
}

fn look(handle: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    prepare();
    let dlsym = REAL.load(Relaxed);
    if dlsym.is_null() {
        return None;
    }
    // SAFETY: the C library's function of that name has this signature.
    let found = unsafe { std::mem::transmute::<*mut c_void, Dlsym>(dlsym)(handle, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// As `dlsym`; a handle in which NCCL is gets remembered.
pub(crate) fn in_handle(handle: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    let found = look(handle, name)?;
    let pseudo = handle == libc::RTLD_DEFAULT || handle == libc::RTLD_NEXT;
    if !pseudo && super::ours(name) != Some(found) {
        OPENED.store((handle as usize).wrapping_add(1), Relaxed);
    }
    Some(found)
}

/// Where a function was found, so that it is looked up once and not in every call.
pub(crate) struct Cached {
    opened: AtomicUsize,
    found: AtomicPtr<c_void>,
}

impl Cached {
    pub(crate) const fn new() -> Cached {
        Cached {
            opened: AtomicUsize::new(0),
            found: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// As [`real`].
    pub(crate) fn real(&self, name: &CStr) -> Option<*mut c_void> {
        // Pairs with the Release below: what was found is at least as new as what it was found in.
        let opened = self.opened.load(Acquire);
        let found = self.found.load(Relaxed);
        if !found.is_null() && opened == OPENED.load(Relaxed) {
            return Some(found);
        }
        let found = real(name)?;
        self.found.store(found, Relaxed);
        self.opened.store(OPENED.load(Relaxed), Release);
        Some(found)
    }
}

/// NCCL's own function. It is in the libnccl that the program opened, or in a library loaded after this one.
/// Or it is in a libnccl that only some other library can see, for example a Python extension.
fn real(name: &CStr) -> Option<*mut c_void> {
    let opened = OPENED.load(Relaxed);
    let own = super::ours(name);
    let others = |found: &*mut c_void| Some(*found) != own;
    if opened != 0 {
        let handle = opened.wrapping_sub(1) as *mut c_void;
        if let Some(found) = look(handle, name).filter(others) {
            return Some(found);
        }
    }
    if let Some(found) = look(libc::RTLD_NEXT, name).filter(others) {
        return Some(found);
    }
    let mut path = Found([0; 4096]);
    // SAFETY: the callback gets this pointer during the call only.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut path).cast()) };
    if path.0[0] == 0 {
        return None;
    }
    // Not in the callback, where the loader holds a lock.
    // SAFETY: a C string; the library is loaded, so this only gives another handle of it.
    let handle =
        unsafe { libc::dlopen(path.0.as_ptr().cast(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return None;
    }
    OPENED.store((handle as usize).wrapping_add(1), Relaxed);
    look(handle, name).filter(others)
}

/// The path of a loaded library, with a NUL behind it; empty for none.
struct Found([u8; 4096]);

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, place: *mut c_void) -> c_int {
    // SAFETY: the loader passes a whole info with a C string.
    let path = unsafe { CStr::from_ptr((*info).dlpi_name) }.to_bytes();
    let base = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
    // SAFETY: `place` is the caller's variable.
    let found = unsafe { &mut *place.cast::<Found>() };
    if !base.starts_with(b"libnccl.so") || path.len() >= found.0.len() {
        return 0;
    }
    found.0[..path.len()].copy_from_slice(path);
    1
}

/// As the C library's, which gets every call but those for NCCL's entry points: by a jump, because it goes by
/// the address that it returns to.
///
/// # Safety
/// As the C library has it.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {instead}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jne 2f",
        "jmp qword ptr [rip + {real}]",
        "2:",
        "ret",
        instead = sym super::instead,
        real = sym REAL,
    )
}

/// As the C library's, which gets every call but those for NCCL's entry points: by a jump, because it goes by
/// the address that it returns to.
///
/// # Safety
/// As the C library has it.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "stp x0, x1, [sp, #16]",
        "mov x29, sp",
        "bl {instead}",
        "mov x9, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "cbnz x9, 2f",
        "adrp x16, {real}",
        "ldr x16, [x16, :lo12:{real}]",
        "br x16",
        "2:",
        "mov x0, x9",
        "ret",
        instead = sym super::instead,
        real = sym REAL,
    )
}
