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

/// First letters of the wanted names. They rule out most of a library's symbols at once.
pub struct Initials([bool; 256]);

impl Initials {
    pub fn of(wanted: &[Wanted]) -> Initials {
        let mut initials = [false; 256];
        let first = |of: &Wanted| of.name.to_bytes().first().copied().unwrap_or(0);
        wanted
            .iter()
            .for_each(|of| initials[usize::from(first(of))] = true);
        Initials(initials)
    }

    fn has(&self, initial: u8) -> bool {
        self.0[usize::from(initial)]
    }
}

/// The slots of an object that is loaded at `base` for the wanted functions.
///
/// # Safety
/// `dynamic` is its dynamic section, and it stays loaded during the call.
pub unsafe fn imports(
    base: u64,
    dynamic: Range,
    wanted: &[Wanted],
    initials: &Initials,
) -> Vec<Import> {
    let (mut strings, mut symbols) = (0, 0);
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
            RELA => rela = address(value),
            RELASZ => rela_bytes = value,
            RELACOUNT => relative = value,
            JMPREL => calls = address(value),
            PLTRELSZ => calls_bytes = value,
            _ => {}
        }
    }
    let mut found = Vec::new();
    if strings == 0 || symbols == 0 {
        return found;
    }
    // Which wanted function a symbol stands for. The hash table would say which symbols are imported, but
    // not of an object that exports nothing, as most programs.
    let imported = |number: u32| {
        // SAFETY: a symbol that a relocation names; its name is in the table of strings.
        let (symbol, name, initial) = unsafe {
            let symbol = &*(symbols as *const Symbol).add(number as usize);
            let name = (strings + u64::from(symbol.name)) as *const c_char;
            (symbol, name, *name)
        };
        if symbol.section != 0 || !initials.has(initial as u8) {
            return None;
        }
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(name) };
        wanted.iter().position(|w| w.name == name)
    };
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
            if symbol == 0 || !STORES.contains(&kind) {
                continue;
            }
            if let Some(function) = imported(symbol) {
                found.push(Import {
                    slot: base.wrapping_add(relocation.offset),
                    function,
                });
            }
        }
    }
    found
}
