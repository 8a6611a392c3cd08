//! Slots that the dynamic linker fills in: the imports of an ELF file, by the names of their symbols.

use super::objects::Range;
use super::Wanted;
use std::ffi::{c_char, CStr};

/// A slot that holds, or will hold, the address of a wanted function.
#[derive(Clone, Copy, Debug)]
pub struct Import {
    pub slot: u64,
    /// Which of the wanted functions.
    pub function: usize,
}

// Tags of the dynamic section.
const STRTAB: u64 = 5;
const SYMTAB: u64 = 6;
const RELA: u64 = 7;
const RELASZ: u64 = 8;
const PLTRELSZ: u64 = 2;
const JMPREL: u64 = 23;
const GNU_HASH: u64 = 0x6fff_fef5;
const RELACOUNT: u64 = 0x6fff_fff9;

/// Relocations that store a symbol's address: of a call, of a variable, of a table.
#[cfg(target_arch = "x86_64")]
const STORES: [u32; 3] = [7, 6, 1];
#[cfg(target_arch = "aarch64")]
const STORES: [u32; 3] = [1026, 1025, 257];

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// The slots of an object that is loaded at `base` for the wanted functions.
///
/// # Safety
/// `dynamic` is its dynamic section, and it stays loaded during the call.
pub unsafe fn imports(base: u64, dynamic: Range, wanted: &[Wanted]) -> Vec<Import> {
    let (mut strings, mut symbols, mut hash) = (0, 0, 0);
    let (mut rela, mut rela_bytes, mut relative) = (0, 0, 0);
    let (mut calls, mut calls_bytes) = (0, 0);
    // glibc has made addresses of these; others leave them relative to the base.
    let address = |value: u64| if value < base { base + value } else { value };
    let entries = (dynamic.end - dynamic.start) / 16;
    for i in 0..entries {
        // SAFETY: within the dynamic section.
        let [tag, value] = unsafe { *((dynamic.start + 16 * i) as *const [u64; 2]) };
        match tag {
            0 => break,
            STRTAB => strings = address(value),
            SYMTAB => symbols = address(value),
            GNU_HASH => hash = address(value),
            RELA => rela = address(value),
            RELASZ => rela_bytes = value,
            RELACOUNT => relative = value,
            JMPREL => calls = address(value),
            PLTRELSZ => calls_bytes = value,
            _ => {}
        }
    }
    if strings == 0 || symbols == 0 || hash == 0 {
        return Vec::new();
    }
    // Symbols that are not defined here come first, before those that the hash table has.
    // SAFETY: the hash table begins with the number of buckets and this one.
    let undefined = unsafe { *((hash + 4) as *const u32) };
    let mut imported = Vec::new();
    for number in 1..undefined {
        // SAFETY: a symbol before the first one that the hash table has; its name is in the table of strings.
        let (symbol, name) = unsafe {
            let symbol = &*(symbols as *const Symbol).add(number as usize);
            let name = CStr::from_ptr((strings + u64::from(symbol.name)) as *const c_char);
            (symbol, name)
        };
        if symbol.section == 0 {
            if let Some(function) = wanted.iter().position(|w| w.name == name) {
                imported.push((number, function));
            }
        }
    }
    let mut found = Vec::new();
    if imported.is_empty() {
        return found;
    }
    let size = std::mem::size_of::<Relocation>() as u64;
    // The first ones of the others only add the base, millions of them in a large library.
    let tables = [
        (calls, 0, calls_bytes / size),
        (rela, relative, rela_bytes / size),
    ];
    for (table, first, end) in tables.into_iter().filter(|(table, ..)| *table != 0) {
        for i in first..end {
            // SAFETY: as many relocations as the dynamic section says.
            let relocation = unsafe { &*(table as *const Relocation).add(i as usize) };
            let (symbol, kind) = ((relocation.info >> 32) as u32, relocation.info as u32);
            let import = imported.iter().find(|(number, _)| *number == symbol);
            if let Some((_, function)) = import.filter(|_| STORES.contains(&kind)) {
                found.push(Import {
                    slot: base.wrapping_add(relocation.offset),
                    function: *function,
                });
            }
        }
    }
    found
}
