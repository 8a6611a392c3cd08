//! NVTX, version 3, as much of it as a range needs.
//!
//! A program that uses NVTX has tables of function pointers. A tool says in `NVTX_INJECTION64_PATH` which
//! library fills them in. The program loads it and calls its `InitializeInjectionNvtx2`. The tool then asks
//! back for the tables ([`export_table`], [`module_table`]), and stores its functions there.
//!
//! ```text
//! environment ──▶ dlopen ──▶ InitializeInjectionNvtx2(export_table)
//!                               └▶ export_table(1) ──▶ Callbacks ──▶ module_table(5) ──▶ CORE2[4] = push
//! ```
//!
//! Ranges are in a domain of their own, so that they are no part of what the program or NCCL push.
//!
//! Rule: the tables are static, and the tool's library is never unloaded, because tools keep pointers.

use super::{Call, Line};
use crate::step_ranges;
use std::ffi::{c_char, c_int, c_uint, c_void, CString};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Acquire};

/// Modules of NVTX, and how many entries their tables have: the C functions, from 1 on.
const MODULES: [c_uint; 7] = [0, 16, 9, 15, 7, 16, 8];
/// The module of functions with domains.
const CORE2: usize = 5;
/// Its functions.
const PUSH: usize = 4;
const POP: usize = 5;
const CREATE_DOMAIN: usize = 12;
/// The only table to ask for.
const CALLBACKS: u32 = 1;

/// Entries of a module's table that the tool fills in.
const ENTRIES: usize = 16;
type Slots = [AtomicPtr<c_void>; ENTRIES];
static SLOTS: [Slots; MODULES.len()] =
    [const { [const { AtomicPtr::new(null_mut()) }; ENTRIES] }; MODULES.len()];

/// Pointers to them, which is what the tool gets.
struct Pointers([[*const AtomicPtr<c_void>; ENTRIES]; MODULES.len()]);
// SAFETY: pointers to statics that are never written to themselves.
unsafe impl Sync for Pointers {}

static POINTERS: Pointers = {
    let mut all = [[std::ptr::null(); ENTRIES]; MODULES.len()];
    let mut module = 0;
    while module < MODULES.len() {
        let mut at = 0;
        while at < ENTRIES {
            all[module][at] = &raw const SLOTS[module][at];
            at += 1;
        }
        module += 1;
    }
    Pointers(all)
};

#[repr(C)]
struct Callbacks {
    bytes: usize,
    module_table:
        unsafe extern "C" fn(u32, *mut *const *const AtomicPtr<c_void>, *mut c_uint) -> c_int,
}

static TABLE: Callbacks = Callbacks {
    bytes: size_of::<Callbacks>(),
    module_table,
};

extern "C" fn export_table(id: u32) -> *const c_void {
    match id {
        CALLBACKS => (&raw const TABLE).cast(),
        _ => std::ptr::null(),
    }
}

/// # Safety
/// The pointers are null or valid.
unsafe extern "C" fn module_table(
    module: u32,
    table: *mut *const *const AtomicPtr<c_void>,
    entries: *mut c_uint,
) -> c_int {
    let Some(n) = MODULES.get(module as usize).filter(|n| **n != 0) else {
        return 0;
    };
    // SAFETY: the tool's variables, if it wants them set.
    unsafe {
        if let Some(table) = table.as_mut() {
            *table = POINTERS.0[module as usize].as_ptr();
        }
        if let Some(entries) = entries.as_mut() {
            *entries = *n;
        }
    }
    1
}

/// What a push says: version 3 of NVTX's event attributes.
#[repr(C)]
struct Attributes {
    version: u16,
    bytes: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_char,
}

const _: () = assert!(size_of::<Attributes>() == 48);

type Push = unsafe extern "C" fn(*mut c_void, *const Attributes) -> c_int;
type Pop = unsafe extern "C" fn(*mut c_void) -> c_int;
type CreateDomain = unsafe extern "C" fn(*const c_char) -> *mut c_void;
type Initialize = unsafe extern "C" fn(extern "C" fn(u32) -> *const c_void) -> c_int;

/// A tool that takes ranges.
pub struct Tool {
    push: Push,
    pop: Pop,
    domain: *mut c_void,
}

// SAFETY: functions and a handle that NVTX lets any thread use.
unsafe impl Send for Tool {}
// SAFETY: as above.
unsafe impl Sync for Tool {}

impl Tool {
    /// Loads the tool that the environment names.
    pub fn find() -> Result<Tool, String> {
        const VARIABLE: &str = "NVTX_INJECTION64_PATH";
        let path = std::env::var(VARIABLE).ok().filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| {
            format!("no tool takes ranges ({VARIABLE} is not set, as `nsys profile` does it)")
        })?;
        let name = CString::new(path.clone()).map_err(|_| format!("{VARIABLE} has a zero byte"))?;
        // SAFETY: the library that the user's tool named; what it does when it is loaded is the tool's.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY) };
        if library.is_null() {
            return Err(format!("`{path}` can't be loaded"));
        }
        // SAFETY: an open library.
        let found = unsafe { libc::dlsym(library, c"InitializeInjectionNvtx2".as_ptr()) };
        if found.is_null() {
            return Err(format!("`{path}` has no InitializeInjectionNvtx2"));
        }
        if step_ranges::is_own(found) {
            return Err(format!(
                "{VARIABLE} is ncclscope's own library, which reads steps (NCCLSCOPE_STEPS), and no other \
                 tool takes ranges"
            ));
        }
        // SAFETY: NVTX says that the function of this name is one.
        let initialize: Initialize = unsafe { std::mem::transmute(found) };
        // SAFETY: as NVTX calls it.
        if unsafe { initialize(export_table) } == 0 {
            return Err(format!("`{path}` refused"));
        }
        let slot = |at: usize| {
            let found = SLOTS[CORE2][at].load(Acquire);
            (!found.is_null()).then_some(found)
        };
        let (Some(push), Some(pop)) = (slot(PUSH), slot(POP)) else {
            return Err(format!("`{path}` takes no ranges of domains"));
        };
        let domain = slot(CREATE_DOMAIN).map_or(null_mut(), |create| {
            // SAFETY: the tool stored the function with this number there.
            let create: CreateDomain = unsafe { std::mem::transmute(create) };
            // SAFETY: a text that ends in 0.
            unsafe { create(c"ncclscope".as_ptr()) }
        });
        // SAFETY: the tool stored the functions with these numbers there.
        let (push, pop) = unsafe {
            (
                std::mem::transmute::<*mut c_void, Push>(push),
                std::mem::transmute::<*mut c_void, Pop>(pop),
            )
        };
        Ok(Tool { push, pop, domain })
    }

    pub fn push(&self, call: &Call) {
        let line = Line::of(call);
        let attributes = Attributes {
            version: 3,
            bytes: size_of::<Attributes>() as u16,
            category: 0,
            color_type: 0,
            color: 0,
            // An unsigned number of 64 bits.
            payload_type: 1,
            reserved: 0,
            payload: call.bytes,
            // Text.
            message_type: 1,
            message: line.bytes.as_ptr().cast(),
        };
        // SAFETY: the tool copies what it keeps before it returns.
        unsafe { (self.push)(self.domain, &raw const attributes) };
    }

    pub fn pop(&self) {
        // SAFETY: a range of this thread in this domain is open.
        unsafe { (self.pop)(self.domain) };
    }
}
