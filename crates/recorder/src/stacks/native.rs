//! Return addresses of a thread without Python frames, and the programs and libraries that they are in.
//!
//! [`Modules::walk`] goes up the stack by the tables that compilers write for exceptions (`.eh_frame`): for
//! each address, they say where the caller's frame begins. Frame pointers can't be relied on, because
//! optimised libraries have none. The rule of an address is kept in a cache, so that the second walk reads no
//! table.
//!
//! Rule: nothing is read from the stack outside of its bounds: above the stack pointer, and below what lies
//! at its end. Tables are read only from modules that the dynamic linker listed. Where a rule is of a kind
//! that is not known, the walk ends there and says that there is more.

use crate::interpose::objects::{each_module, headers};
use crate::pages;
use crate::seats::thread;
use capture::stacks::DEPTH;
use std::ffi::CStr;
use std::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use super::rules::{Rule, Saved, UnwindTable};

/// A program or library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub path: Vec<u8>,
    pub build_id: Vec<u8>,
    /// Where it is loaded, and the end of that.
    pub start: u64,
    pub end: u64,
    /// What is to be taken from an address to get that in its file.
    pub bias: u64,
}

/// Rules that are kept. A power of two.
const RULES: usize = 4096;
/// Lists of modules that are made at most: each takes memory for good.
const LISTS: u64 = 256;

/// A module with tables of rules.
#[derive(Clone, Copy, Debug)]
struct Module {
    start: usize,
    end: usize,
    table: UnwindTable,
}

/// See the module.
pub struct Modules {
    /// By address. Replaced as a whole, and never freed: a walk may still read an older one.
    list: AtomicPtr<Vec<Module>>,
    /// Libraries that were loaded and unloaded when the list was made, and how many lists there were.
    seen: [AtomicU64; 2],
    lists: AtomicU64,
    /// Rules by address; mapped at the first look.
    rules: AtomicPtr<[AtomicU64; RULES]>,
}

impl Modules {
    pub fn new() -> Modules {
        Modules {
            list: AtomicPtr::default(),
            seen: Default::default(),
            lists: AtomicU64::new(0),
            rules: AtomicPtr::new(std::ptr::null_mut::<[AtomicU64; RULES]>()),
        }
    }

    /// Makes the list anew if libraries were loaded since. Not for callbacks: it takes the dynamic linker's
    /// lock.
    pub fn refresh(&self) {
        let counts = counts();
        let known = [self.seen[0].load(Relaxed), self.seen[1].load(Relaxed)];
        if known == counts && !self.list.load(Relaxed).is_null() {
            return;
        }
        if self.lists.fetch_add(1, Relaxed) >= LISTS
            || !pages::map_once(&self.rules, size_of::<[AtomicU64; RULES]>())
        {
            return;
        }
        let mut found = Vec::new();
        each_module(|info, _| found.extend(module(info)));
        found.sort_unstable_by_key(|module| module.start);
        // Meets the Acquire in `walk`.
        self.list.store(Box::into_raw(Box::new(found)), Release);
        if known[1] != counts[1] {
            // Another library may be where one was.
            self.forget();
        }
        self.seen[0].store(counts[0], Relaxed);
        self.seen[1].store(counts[1], Relaxed);
    }

    fn forget(&self) {
        // SAFETY: null, or mapped for good; zeros are values of atomic integers.
        if let Some(rules) = unsafe { self.rules.load(Acquire).as_ref() } {
            rules.iter().for_each(|rule| rule.store(0, Relaxed));
        }
    }

    /// The return addresses of the calling thread, innermost first, and whether there are more.
    #[inline(never)]
    pub fn walk<'a>(&self, into: &'a mut [usize; DEPTH]) -> (&'a [usize], bool) {
        // SAFETY: null, or a list that is never freed.
        let Some(modules) = (unsafe { self.list.load(Acquire).as_ref() }) else {
            return (&[], true);
        };
        // SAFETY: null, or mapped for good; zeros are values of atomic integers.
        let Some(rules) = (unsafe { self.rules.load(Acquire).as_ref() }) else {
            return (&[], true);
        };
        let Some((mut pc, mut sp, mut bp)) = registers() else {
            return (&[], true);
        };
        let Some(top) = top_of_stack(sp) else {
            return (&[], true);
        };
        let bottom = sp;
        let word = |at: usize| {
            let inside = at >= bottom && at < top.saturating_sub(8) && at.is_multiple_of(8);
            // SAFETY: between the stack pointer and the end of this thread's stack, which are its own frames.
            inside.then(|| unsafe { std::ptr::read(at as *const usize) })
        };
        let mut n = 0;
        // The first address is in this function; all others are those behind a call.
        let mut at = pc;
        loop {
            let rule = match kept(rules, pc).or_else(|| {
                let module = find(modules, at)?;
                let rule = module.table.rule(at)?;
                keep(rules, pc, rule);
                Some(rule)
            }) {
                Some(rule) => rule,
                None => return (&into[..n], true),
            };
            if rule.is_outermost {
                return (&into[..n], false);
            }
            let base = if rule.from_bp { bp } else { sp };
            let cfa = base.wrapping_add_signed(rule.cfa);
            // The caller's frame is above: so this ends.
            if cfa <= sp || cfa > top {
                return (&into[..n], true);
            }
            let Some(back) = word(cfa - 8) else {
                return (&into[..n], true);
            };
            if let Saved::At(offset) = rule.bp {
                match word(cfa.wrapping_add_signed(offset)) {
                    Some(saved) => bp = saved,
                    None => return (&into[..n], true),
                }
            }
            sp = cfa;
            if back == 0 {
                return (&into[..n], false);
            }
            if n == DEPTH {
                return (&into[..n], true);
            }
            into[n] = back;
            n += 1;
            pc = back;
            at = back - 1;
        }
    }
}

/// The module that an address is in.
fn find(modules: &[Module], address: usize) -> Option<&Module> {
    let at = modules.partition_point(|module| module.start <= address);
    let module = modules.get(at.checked_sub(1)?)?;
    (address < module.end).then_some(module)
}

/// Bits of a place in the cache.
const PLACE_BITS: u32 = RULES.trailing_zeros();
/// Bits of an address.
const ADDRESS_BITS: u32 = 47;
/// Bits of a rule.
const RULE_BITS: u32 = 64 - (ADDRESS_BITS - PLACE_BITS);

/// Where the rule of an address is kept, and what tells the address from others there. No two addresses
/// have the same of both, because the multiplication by an odd number can be undone.
fn place(address: usize) -> (usize, u64) {
    let mask = (1u64 << ADDRESS_BITS) - 1;
    let mixed = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
    let rest = mixed & ((1 << (ADDRESS_BITS - PLACE_BITS)) - 1);
    ((mixed >> (ADDRESS_BITS - PLACE_BITS)) as usize, rest)
}

fn kept(rules: &[AtomicU64; RULES], address: usize) -> Option<Rule> {
    let (at, rest) = place(address);
    let entry = rules[at].load(Relaxed);
    (entry != 0 && entry >> RULE_BITS == rest)
        .then(|| Rule::unpack(entry & ((1 << RULE_BITS) - 1)))?
}

fn keep(rules: &[AtomicU64; RULES], address: usize, rule: Rule) {
    let (at, rest) = place(address);
    if let Some(packed) = rule.pack(RULE_BITS) {
        rules[at].store(rest << RULE_BITS | packed, Relaxed);
    }
}

/// An address in the caller, and its stack and frame pointer.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn registers() -> Option<(usize, usize, usize)> {
    let (pc, sp, bp): (usize, usize, usize);
    // SAFETY: reads registers.
    unsafe {
        core::arch::asm!(
            "lea {0}, [rip]",
            "mov {1}, rsp",
            "mov {2}, rbp",
            out(reg) pc, out(reg) sp, out(reg) bp,
            options(nostack, preserves_flags, nomem)
        );
    }
    Some((pc, sp, bp))
}

/// Elsewhere there are no rules yet.
#[cfg(any(not(target_arch = "x86_64"), miri))]
fn registers() -> Option<(usize, usize, usize)> {
    None
}

/// What lies at the upper end of the stack that `sp` points to; nothing if it is no stack that libc made.
fn top_of_stack(sp: usize) -> Option<usize> {
    // glibc and musl put a thread's own data at the end of its stack.
    const THREADS: usize = 1 << 30;
    // The kernel puts the program's arguments at the end of the main thread's.
    const MAIN: usize = 1 << 33;
    let thread = thread() as usize;
    if sp < thread && thread - sp < THREADS {
        return Some(thread);
    }
    // SAFETY: reads what the kernel handed the program.
    let random = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
    (sp < random && random - sp < MAIN).then_some(random)
}

/// Libraries loaded and unloaded so far.
fn counts() -> [u64; 2] {
    let mut counts = [0; 2];
    each_module(|info, size| {
        // Older libraries of C have a shorter record.
        if size >= std::mem::offset_of!(libc::dl_phdr_info, dlpi_subs) + 8 {
            counts = [info.dlpi_adds, info.dlpi_subs];
        }
    });
    counts
}

/// From where to where a module is loaded.
fn range(info: &libc::dl_phdr_info) -> Option<(usize, usize)> {
    let loads = || {
        let loads = headers(info).iter();
        loads.filter(|header| header.p_type == libc::PT_LOAD)
    };
    let start = loads().map(|header| header.p_vaddr).min()?;
    let end = loads()
        .map(|header| header.p_vaddr + header.p_memsz)
        .max()?;
    let base = info.dlpi_addr as usize;
    Some((base + start as usize, base + end as usize))
}

/// A module with its table of rules, if it has one.
fn module(info: &libc::dl_phdr_info) -> Option<Module> {
    let (start, end) = range(info)?;
    let header = headers(info)
        .iter()
        .find(|header| header.p_type == libc::PT_GNU_EH_FRAME)?;
    let at = info.dlpi_addr as usize + header.p_vaddr as usize;
    // SAFETY: the dynamic linker says that the table is there, within the module.
    let table = unsafe { UnwindTable::at(at, start, end) }?;
    Some(Module { start, end, table })
}

/// Everything that is loaded now. Not for callbacks.
pub fn loaded() -> Vec<Loaded> {
    let mut found = Vec::new();
    each_module(|info, _| {
        let Some((start, end)) = range(info) else {
            return;
        };
        let mut path = Vec::new();
        if !info.dlpi_name.is_null() {
            // SAFETY: a C string, valid during this call.
            path = unsafe { CStr::from_ptr(info.dlpi_name) }
                .to_bytes()
                .to_vec();
        }
        if path.is_empty() {
            // The program has no name here.
            let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
            path = program.into_os_string().into_encoded_bytes();
        }
        found.push(Loaded {
            path,
            build_id: build_id(info).unwrap_or_default(),
            start: start as u64,
            end: end as u64,
            bias: info.dlpi_addr,
        });
    });
    found
}

/// The build id of a module, which stands in its notes.
fn build_id(info: &libc::dl_phdr_info) -> Option<Vec<u8>> {
    for header in headers(info).iter().filter(|h| h.p_type == libc::PT_NOTE) {
        let at = info.dlpi_addr as usize + header.p_vaddr as usize;
        // SAFETY: notes are loaded with the module, which stays while the linker's lock is held.
        let mut notes =
            unsafe { std::slice::from_raw_parts(at as *const u8, header.p_memsz as usize) };
        while notes.len() >= 12 {
            let word = |at: usize| {
                u32::from_le_bytes([notes[at], notes[at + 1], notes[at + 2], notes[at + 3]])
                    as usize
            };
            let (name, content, kind) = (word(0), word(4), word(8));
            let begin = 12 + name.next_multiple_of(4);
            let id = notes.get(begin..begin + content)?;
            // NT_GNU_BUILD_ID
            if kind == 3 && notes.get(12..16) == Some(b"GNU\0") {
                return Some(id.to_vec());
            }
            notes = notes.get(begin + content.next_multiple_of(4)..)?;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_loaded_has_a_path_and_its_addresses() {
        let here = what_is_loaded_has_a_path_and_its_addresses as *const () as u64;
        let loaded = loaded();
        let own = loaded
            .iter()
            .find(|module| (module.start..module.end).contains(&here))
            .expect("this program is loaded");
        let program = std::env::current_exe().expect("a path");
        assert_eq!(own.path, program.as_os_str().as_encoded_bytes());
        let libc = |module: &&Loaded| module.path.ends_with(b"libc.so.6");
        let libc = loaded.iter().find(libc);
        assert!(libc.is_none_or(|libc| libc.build_id.len() == 20));
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[test]
    fn a_walk_finds_every_function_twice_and_ends_at_the_threads_first() {
        #[inline(never)]
        fn deep(modules: &Modules, n: u32) -> (Vec<usize>, bool) {
            if n > 0 {
                let found = deep(modules, n - 1);
                // So that the call is no jump.
                return std::hint::black_box(found);
            }
            let mut into = [0; DEPTH];
            let (found, deeper) = modules.walk(&mut into);
            (found.to_vec(), deeper)
        }
        let thread = std::thread::spawn(|| {
            let modules = Modules::new();
            assert_eq!(modules.walk(&mut [0; DEPTH]), (&[][..], true));
            modules.refresh();
            [0, 5, 5, 100].map(|n| deep(&modules, n))
        });
        let [none, five, again, many] = thread.join().expect("ran");
        assert_eq!(five, again);
        assert!(!none.1 && !five.1, "{none:x?} {five:x?}");
        assert_eq!(five.0.len(), none.0.len() + 5);
        assert_eq!(five.0[5..].len(), none.0.len());
        assert_eq!((many.0.len(), many.1), (DEPTH, true));
    }
}
