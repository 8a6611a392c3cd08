//! The program and the libraries that are loaded: where their data is, and which symbols they import.

use super::relocations::{self, Import, Initials};
use super::Wanted;
use crate::heap;
use std::ffi::{c_int, c_void, CStr};

/// A range of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    pub start: u64,
    pub end: u64,
}

impl Range {
    /// Whether an address is in it.
    pub fn has(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// A loaded program or library.
#[derive(Clone, Debug, Default)]
pub struct Object {
    /// As the dynamic linker names it; empty for the program.
    pub path: Vec<u8>,
    /// All that is loaded of it.
    pub whole: Range,
    /// Data that it may write to.
    pub writable: Vec<Range>,
    /// The part of it that the dynamic linker has filled in and made read-only.
    pub sealed: Range,
    /// Slots for the wanted functions, filled in by the dynamic linker.
    pub imports: Vec<Import>,
}

/// Libraries that are the driver, or tools inside of it. The pointers that they keep are not a caller's.
const NOT_CALLERS: [&str; 6] = [
    "libcuda.so",
    "libcupti.so",
    "libnvperf_",
    "libnvidia-",
    "libToolsInjection",
    "ld-linux",
];

impl Object {
    /// Whether it is NCCL as a library of its own, by its name.
    pub fn is_nccl(&self) -> bool {
        let file = self.path.rsplit(|b| *b == b'/').next().unwrap_or_default();
        file.starts_with(b"libnccl.so")
    }
}

struct Search<'a> {
    wanted: &'a [Wanted],
    initials: Initials,
    objects: Vec<Object>,
    loads: u64,
}

/// How many libraries this process has loaded so far.
pub fn loads() -> u64 {
    search(&[]).loads
}

/// All that is loaded and may call the wanted functions.
pub(super) fn callers(wanted: &[Wanted]) -> Vec<Object> {
    search(wanted).objects
}

/// The paths of all that is loaded.
pub fn names() -> Vec<String> {
    heap::wait_for_spare_memory();
    let mut names = Vec::new();
    each_module(|info, _| {
        if !info.dlpi_name.is_null() {
            // SAFETY: a C string, valid during this call.
            let name = unsafe { CStr::from_ptr(info.dlpi_name) };
            names.push(name.to_string_lossy().into_owned());
        }
    });
    names
}

/// Whether an address is in the data of a loaded program or library, which stays where it is as long as that
/// is loaded: not on a stack, and not allocated.
pub fn have(address: u64) -> bool {
    let mut has = false;
    each_module(|info, _| {
        has |= headers(info).iter().any(|header| {
            let start = info.dlpi_addr.wrapping_add(header.p_vaddr);
            let end = start.wrapping_add(header.p_memsz);
            header.p_type == libc::PT_LOAD && Range { start, end }.has(address)
        });
    });
    has
}

/// Calls this for each loaded program or library, with the length of its record, under the dynamic linker's
/// lock.
pub fn each_module(mut each: impl FnMut(&libc::dl_phdr_info, usize)) {
    unsafe extern "C" fn one(
        info: *mut libc::dl_phdr_info,
        size: libc::size_t,
        each: *mut c_void,
    ) -> c_int {
        // SAFETY: dl_iterate_phdr gives a valid record, and hands on what it got below.
        unsafe { (*each.cast::<&mut dyn FnMut(&libc::dl_phdr_info, usize)>())(&*info, size) };
        0
    }
    let mut each: &mut dyn FnMut(&libc::dl_phdr_info, usize) = &mut each;
    // SAFETY: `one` gets what it expects.
    unsafe { libc::dl_iterate_phdr(Some(one), (&raw mut each).cast()) };
}

/// The program headers of a module.
pub fn headers(info: &libc::dl_phdr_info) -> &[libc::Elf64_Phdr] {
    if info.dlpi_phdr.is_null() {
        return &[];
    }
    // SAFETY: so many headers, which stay as long as the module.
    unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) }
}

fn search(wanted: &[Wanted]) -> Search<'_> {
    let mut search = Search {
        wanted,
        initials: Initials::of(wanted),
        objects: Vec::new(),
        loads: 0,
    };
    // SAFETY: `one` gets what it expects.
    unsafe { libc::dl_iterate_phdr(Some(one), (&raw mut search).cast()) };
    search
}

/// Called for each object under the dynamic linker's lock, so that none is unloaded meanwhile.
unsafe extern "C" fn one(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    search: *mut c_void,
) -> c_int {
    // SAFETY: dl_iterate_phdr gives a valid record, and hands on what `search` gave.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    search.loads = info.dlpi_adds;
    if search.wanted.is_empty() {
        return 1;
    }
    let name = if info.dlpi_name.is_null() {
        &[]
    } else {
        // SAFETY: a C string, valid during this call.
        unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes()
    };
    let file = name.rsplit(|b| *b == b'/').next().unwrap_or_default();
    let is_tool = |tool: &&str| file.starts_with(tool.as_bytes());
    if NOT_CALLERS.iter().any(is_tool) {
        return 0;
    }
    let mut object = Object {
        path: name.to_vec(),
        ..Object::default()
    };
    object.whole.start = u64::MAX;
    let mut dynamic = Range::default();
    for header in headers(info) {
        let start = info.dlpi_addr.wrapping_add(header.p_vaddr);
        let range = Range {
            start,
            end: start.wrapping_add(header.p_memsz),
        };
        match header.p_type {
            libc::PT_LOAD => {
                object.whole.start = object.whole.start.min(range.start);
                object.whole.end = object.whole.end.max(range.end);
                if header.p_flags & libc::PF_W != 0 {
                    object.writable.push(range);
                }
            }
            libc::PT_GNU_RELRO => object.sealed = range,
            libc::PT_DYNAMIC => dynamic = range,
            _ => {}
        }
    }
    // This library's own pointers to the real functions must stay.
    if object.whole.has(one as *const () as u64) {
        return 0;
    }
    // SAFETY: the object is loaded and stays so during this call.
    object.imports =
        unsafe { relocations::imports(info.dlpi_addr, dynamic, search.wanted, &search.initials) };
    search.objects.push(object);
    0
}
