//! What NVTX loads: version 3's injection, as much of it as ranges need.
//!
//! A program that uses NVTX has tables of pointers to functions, one table for each library that includes
//! NVTX's header. At its first range it loads the library that `NVTX_INJECTION64_PATH` names, and calls
//! [`InitializeInjectionNvtx2`] with a function that hands out its tables. Functions that are not put there
//! stay empty, and cost a program a load and a jump.
//!
//! ```text
//! first range ──▶ dlopen ──▶ InitializeInjectionNvtx2(export_table)
//!                               └▶ export_table(1) ──▶ module_table(1, CORE), module_table(5, CORE2)
//! ```
//!
//! A handle of a domain is its number, and one of a registered string says if the string is a step. Neither
//! is an address, so one that somebody else made is harmless.
//!
//! NCCL's own ranges and ours (`NCCLSCOPE_NVTX`) are no steps: their domains are left out.
//!
//! Rule: a table of the program is written to while it is handed over, and never later.

use super::names::{asked, Found, Names, Unit, Wide};
use super::{mark, pop, push, start, stop, DOMAINS, PROCESS};
use crate::guard::guard;
use crate::pages;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::sync::OnceLock;

/// Where NVTX finds the library to load.
const SLOT: &str = "NVTX_INJECTION64_PATH";

/// Modules of NVTX: functions without and with domains.
const CORE: u32 = 1;
const CORE2: u32 = 5;
/// The table to ask for.
const CALLBACKS: u32 = 1;

/// What NVTX answers where no depth is known.
const NO_DEPTH: c_int = -2;
/// Characters of a domain's name that count.
const LONGEST: usize = 128;
/// The handle of a domain whose ranges are no steps.
const OTHER_DOMAIN: usize = DOMAINS;
/// The handle of a string that is no step.
const OTHER_STRING: usize = 1;

/// Which ranges are steps.
static NAMES: OnceLock<Names> = OnceLock::new();
/// A program has handed over its tables.
static IS_LOADED: AtomicBool = AtomicBool::new(false);
/// Hashes of the names of domains; the number of a domain is its place. The first is the one without a name.
static NAMED: [AtomicU64; DOMAINS] = [const { AtomicU64::new(0) }; DOMAINS];

type Slot = *mut *const c_void;
type ModuleTable = unsafe extern "C" fn(u32, *mut *const Slot, *mut c_uint) -> c_int;
type ExportTable = unsafe extern "C" fn(u32) -> *const c_void;

#[repr(C)]
struct Callbacks {
    bytes: usize,
    module_table: Option<ModuleTable>,
}

/// The fields of version 2 of NVTX's attributes of events, which version 3 has, too.
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
    message: *const c_void,
}

const _: () = assert!(size_of::<Attributes>() == 48);

/// What a message is.
const PLAIN: i32 = 1;
const WIDE: i32 = 2;
const REGISTERED: i32 = 3;

/// NVTX calls this in a program, once for each library that uses it. Returns 0 if ranges are not to be read:
/// NVTX then has no tool.
///
/// # Safety
/// `export_table` is null or NVTX's function of that name.
#[no_mangle]
pub unsafe extern "C" fn InitializeInjectionNvtx2(export_table: Option<ExportTable>) -> c_int {
    guard(0, || {
        // The names to look for are kept on the heap.
        if !pages::are_spare() {
            return 0;
        }
        let value = std::env::var("NCCLSCOPE_STEPS").unwrap_or_default();
        let Some(names) = asked(&value).ok().flatten() else {
            return 0;
        };
        // SAFETY: NVTX's function, with the number of a table.
        let table = export_table.map(|export| unsafe { export(CALLBACKS) });
        let table = table.unwrap_or(std::ptr::null()).cast::<Callbacks>();
        // SAFETY: null, or NVTX's table, which says how long it is.
        let table = unsafe { table.as_ref() };
        let known = table.filter(|table| table.bytes >= size_of::<Callbacks>());
        let Some(module_table) = known.and_then(|table| table.module_table) else {
            return 0;
        };
        NAMES.get_or_init(|| names);
        // SAFETY: NVTX's function; the functions have the types of their places.
        let filled =
            unsafe { fill(module_table, CORE, &core()) && fill(module_table, CORE2, &core2()) };
        if filled && !IS_LOADED.swap(true, AcqRel) {
            PROCESS.store(std::process::id(), Release);
        }
        c_int::from(filled)
    })
}

/// Puts functions into a module's table, by their places. False if NVTX does not hand it out.
///
/// # Safety
/// `module_table` is NVTX's, and the functions are of the types that their places have.
unsafe fn fill(
    module_table: ModuleTable,
    module: u32,
    functions: &[(usize, *const c_void)],
) -> bool {
    let (mut table, mut places) = (std::ptr::null::<Slot>(), 0);
    // SAFETY: NVTX's function; both are variables of ours.
    let is_there = unsafe { module_table(module, &mut table, &mut places) } != 0;
    if !is_there || table.is_null() {
        return false;
    }
    for (place, function) in functions
        .iter()
        .filter(|(place, _)| *place < places as usize)
    {
        // SAFETY: the table has so many places. Each leads to a pointer of the program, or to nothing.
        unsafe {
            let slot = *table.add(*place);
            if !slot.is_null() {
                *slot = *function;
            }
        }
    }
    true
}

/// The functions without domains.
fn core() -> [(usize, *const c_void); 11] {
    [
        (1, mark_ex as *const c_void),
        (2, mark_a as *const c_void),
        (3, mark_w as *const c_void),
        (4, start_ex as *const c_void),
        (5, start_a as *const c_void),
        (6, start_w as *const c_void),
        (7, end_range as *const c_void),
        (8, push_ex as *const c_void),
        (9, push_a as *const c_void),
        (10, push_w as *const c_void),
        (11, pop_range as *const c_void),
    ]
}

/// The functions with domains.
fn core2() -> [(usize, *const c_void); 9] {
    [
        (1, domain_mark as *const c_void),
        (2, domain_start as *const c_void),
        (3, domain_end as *const c_void),
        (4, domain_push as *const c_void),
        (5, domain_pop as *const c_void),
        (10, register_a as *const c_void),
        (11, register_w as *const c_void),
        (12, create_a as *const c_void),
        (13, create_w as *const c_void),
    ]
}

/// # Safety
/// `text` is null or ends in 0.
#[inline]
unsafe fn find<T: Unit>(text: *const T) -> Option<Found> {
    // SAFETY: as the caller promises.
    unsafe { NAMES.get()?.find(text) }
}

/// # Safety
/// `attributes` is null or NVTX's, with a message of the kind that it says.
#[inline]
unsafe fn find_in(attributes: *const Attributes) -> Option<Found> {
    // SAFETY: as the caller promises. The fields are read one by one, because later versions may have others
    // behind them.
    unsafe {
        if attributes.is_null() || usize::from((*attributes).bytes) < size_of::<Attributes>() {
            return None;
        }
        let message = (*attributes).message;
        match (*attributes).message_type {
            PLAIN => find(message.cast::<c_char>()),
            WIDE => find(message.cast::<Wide>()),
            REGISTERED => Found::of_handle(message as usize),
            _ => None,
        }
    }
}

/// The number of a domain by its handle.
#[inline]
fn domain(handle: *const c_void) -> usize {
    handle as usize
}

fn depth(around: Option<u32>) -> c_int {
    around.map_or(NO_DEPTH, |around| around.min(i32::MAX as u32) as c_int)
}

// The functions that NVTX calls. What they are given is the program's: null, or as NVTX's header says.

unsafe extern "C" fn mark_ex(attributes: *const Attributes) {
    // SAFETY: see above.
    mark(0, unsafe { find_in(attributes) });
}

unsafe extern "C" fn mark_a(text: *const c_char) {
    // SAFETY: see above.
    mark(0, unsafe { find(text) });
}

unsafe extern "C" fn mark_w(text: *const Wide) {
    // SAFETY: see above.
    mark(0, unsafe { find(text) });
}

unsafe extern "C" fn start_ex(attributes: *const Attributes) -> u64 {
    // SAFETY: see above.
    start(0, unsafe { find_in(attributes) })
}

unsafe extern "C" fn start_a(text: *const c_char) -> u64 {
    // SAFETY: see above.
    start(0, unsafe { find(text) })
}

unsafe extern "C" fn start_w(text: *const Wide) -> u64 {
    // SAFETY: see above.
    start(0, unsafe { find(text) })
}

extern "C" fn end_range(number: u64) {
    stop(number);
}

unsafe extern "C" fn push_ex(attributes: *const Attributes) -> c_int {
    // SAFETY: see above.
    depth(Some(push(0, unsafe { find_in(attributes) })))
}

unsafe extern "C" fn push_a(text: *const c_char) -> c_int {
    // SAFETY: see above.
    depth(Some(push(0, unsafe { find(text) })))
}

unsafe extern "C" fn push_w(text: *const Wide) -> c_int {
    // SAFETY: see above.
    depth(Some(push(0, unsafe { find(text) })))
}

extern "C" fn pop_range() -> c_int {
    depth(pop(0))
}

unsafe extern "C" fn domain_mark(of: *const c_void, attributes: *const Attributes) {
    // SAFETY: see above.
    mark(domain(of), unsafe { find_in(attributes) });
}

unsafe extern "C" fn domain_start(of: *const c_void, attributes: *const Attributes) -> u64 {
    // SAFETY: see above.
    start(domain(of), unsafe { find_in(attributes) })
}

extern "C" fn domain_end(_: *const c_void, number: u64) {
    stop(number);
}

unsafe extern "C" fn domain_push(of: *const c_void, attributes: *const Attributes) -> c_int {
    // SAFETY: see above.
    depth(Some(push(domain(of), unsafe { find_in(attributes) })))
}

extern "C" fn domain_pop(of: *const c_void) -> c_int {
    depth(pop(domain(of)))
}

unsafe extern "C" fn register_a(_: *const c_void, text: *const c_char) -> usize {
    // SAFETY: see above.
    unsafe { find(text) }.map_or(OTHER_STRING, Found::handle)
}

unsafe extern "C" fn register_w(_: *const c_void, text: *const Wide) -> usize {
    // SAFETY: see above.
    unsafe { find(text) }.map_or(OTHER_STRING, Found::handle)
}

unsafe extern "C" fn create_a(name: *const c_char) -> usize {
    // SAFETY: see above.
    guard(OTHER_DOMAIN, || unsafe { create(name) })
}

unsafe extern "C" fn create_w(name: *const Wide) -> usize {
    // SAFETY: see above.
    guard(OTHER_DOMAIN, || unsafe { create(name) })
}

/// The handle of the domain with this name. Domains of one name are the same.
///
/// # Safety
/// `name` is null or ends in 0.
unsafe fn create<T: Unit>(name: *const T) -> usize {
    if name.is_null() {
        return OTHER_DOMAIN;
    }
    let (mut hash, mut text, mut length) = (0xcbf2_9ce4_8422_2325, [0u8; 16], 0);
    while length < LONGEST {
        // SAFETY: as the caller promises; the loop stops at the end.
        let code = unsafe { *name.add(length) }.code();
        if code == 0 {
            break;
        }
        if let Some(at) = text.get_mut(length) {
            *at = u8::try_from(code).unwrap_or(b'?');
        }
        hash = (hash ^ u64::from(code)).wrapping_mul(0x0100_0000_01b3);
        length += 1;
    }
    let text = &text[..length.min(text.len())];
    if [&b"NCCL"[..], b"ncclscope"].contains(&text) {
        return OTHER_DOMAIN;
    }
    // 0 is a place that is free.
    let hash = hash | 1;
    for (place, named) in NAMED.iter().enumerate().skip(1) {
        match named.compare_exchange(0, hash, AcqRel, Acquire) {
            Ok(_) => return place,
            Err(there) if there == hash => return place,
            Err(_) => {}
        }
    }
    OTHER_DOMAIN
}

/// Whether a function that `dlsym` found is ours: NVTX's slot has this library, and not another tool's.
pub fn is_own(found: *mut c_void) -> bool {
    std::ptr::eq(found, InitializeInjectionNvtx2 as *const c_void)
}

/// Why ranges are not read in this process, though they are to be; `None` if they are, or may still be.
pub fn slot() -> Option<String> {
    if IS_LOADED.load(Relaxed) {
        return None;
    }
    let Some(path) = std::env::var_os(SLOT).filter(|path| !path.is_empty()) else {
        return Some(format!(
            "{SLOT} is not set, as `ncclscope run --steps nvtx` does it"
        ));
    };
    let own = own_file();
    let real = |path: &Path| path.canonicalize().ok();
    let is_own = own.is_some_and(|own| real(own).is_some() && real(own) == real(Path::new(&path)));
    (!is_own).then(|| {
        format!(
            "{SLOT} is `{}`, so another tool reads NVTX ranges",
            path.to_string_lossy()
        )
    })
}

/// The file of this library.
fn own_file() -> Option<&'static Path> {
    // SAFETY: a struct of pointers, which the call fills in.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: an address of this library.
    let found = unsafe { libc::dladdr(InitializeInjectionNvtx2 as *const c_void, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the linker's text, which it keeps as long as the library is loaded: for ever.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())))
}
