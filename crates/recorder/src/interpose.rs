//! Puts functions of ours before functions of another library, in every loaded library that calls them.
//!
//! CUDA has no way to watch graph launches that leaves the process's one CUPTI subscription to others. But
//! every call of the driver goes through a pointer that the caller keeps. The CUDA runtime (libcudart),
//! shared or linked into a program, asks for its addresses once and keeps them in its data. A program that is
//! linked with the driver has them in its global offset table. [`Interposed::install`] finds these pointers
//! and stores ours in their place:
//!
//! ```text
//! caller's table:  [ cuGraphLaunch ] ──▶ libcuda        before
//!                  [ ours          ] ──▶ ours ──▶ libcuda   after
//! ```
//!
//! [`objects`] lists the loaded libraries. [`relocations`] finds the pointers that the dynamic linker fills
//! in, by the name of their symbol. [`words`] finds those that a library has looked up by itself, by their
//! value.
//!
//! Measured on CUDA 13.0 (driver 580): all launches of torch, CuPy, JAX, and of programs with a static and a
//! shared libcudart and with the driver's API were seen.
//!
//! Rule: a word is replaced only if it is a symbol's slot, or equals the symbol's address to the last bit.
//! Memory is read in a way that can't fault. Ours calls on, so a caller gets what it would have got.

pub mod objects;
mod relocations;
mod words;

use crate::pages;
use std::ffi::{c_void, CStr};
use std::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::Mutex;

/// A function to be put before another.
pub struct Replacement {
    /// The name that the other library exports.
    pub name: &'static CStr,
    /// Ours, of the same signature.
    pub ours: *const c_void,
    /// Ours for what NCCL calls.
    pub for_nccl: *const c_void,
    /// Ours for callers that were found late (see [`Interposed::install`]).
    pub late: *const c_void,
    /// Where ours finds the one to call on.
    pub real: &'static Real,
}

// SAFETY: both are addresses of functions.
unsafe impl Sync for Replacement {}

/// The function that ours calls on; null until it is known.
pub struct Real(AtomicPtr<c_void>);

impl Real {
    /// Not known yet.
    pub const fn unknown() -> Real {
        Real(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Its address. Ours is only reachable once this is set.
    #[inline]
    pub fn get(&self) -> *mut c_void {
        // Meets the Release in `set`.
        self.0.load(Acquire)
    }

    fn set(&self, address: *mut c_void) {
        self.0.store(address, Release);
    }
}

/// A table of functions to be put before others: for each its name here, the symbol, the signature, and what
/// ours does. In that, `$call` calls on, `NCCL` says that it is libnccl that calls, and `LATE` that the
/// caller was found late. `$reals` is a module for what ours call on.
macro_rules! interposed {
    ($table:ident $reals:ident $call:ident;
     $($name:ident $symbol:literal ($($arg:ident: $type:ty),*) -> $result:ty $does:block)*) => {
        $(
            extern "C" fn $name<const NCCL: bool, const LATE: bool>($($arg: $type),*) -> $result {
                // SAFETY: ours is only reached in the real function's place, so its address is known; it has
                // this signature.
                let $call = || unsafe {
                    let real = std::mem::transmute::<
                        *mut std::ffi::c_void,
                        extern "C" fn($($type),*) -> $result,
                    >($reals::$name.get());
                    real($($arg),*)
                };
                $does
            }
        )*

        #[allow(non_upper_case_globals)]
        mod $reals {
            use $crate::interpose::Real;
            $(pub static $name: Real = Real::unknown();)*
        }

        pub(crate) static $table: [$crate::interpose::Replacement; [$($symbol),*].len()] = [$(
            $crate::interpose::Replacement {
                name: match std::ffi::CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name has no NUL"),
                },
                ours: $name::<false, false> as *const std::ffi::c_void,
                for_nccl: $name::<true, false> as *const std::ffi::c_void,
                late: $name::<false, true> as *const std::ffi::c_void,
                real: &$reals::$name,
            },
        )*];
    };
}
pub(crate) use interposed;

/// The functions of one library that ours are put before.
pub struct Interposed {
    /// How many libraries had ever been loaded when they were last searched; 0 never.
    loads: AtomicU64,
    /// What was searched: where it lies, and its path. A child forked in the middle of a search makes no more
    /// of them.
    searched: Mutex<Vec<(u64, Vec<u8>)>>,
    /// Whether pointers are found by their value, too, or by the names of symbols only.
    by_value: bool,
}

/// What [`Interposed::install`] searches, and for whom.
#[derive(Clone, Copy, Debug, Default)]
pub struct Search {
    /// All libraries, not only those that were not searched before: one may have looked up an address since.
    pub again: bool,
    /// Callers that are found now may have made calls before that mattered.
    pub late: bool,
}

/// What [`Interposed::install`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// Pointers that lead to ours now and did not before.
    pub pointers: u32,
    /// Of these, those that libraries had looked up by themselves.
    pub words: u32,
    /// Bytes of libraries' data that were searched.
    pub bytes: usize,
    /// Of the pointers, those of NCCL.
    pub of_nccl: u32,
}

impl Interposed {
    /// Nothing is searched yet.
    pub const fn new() -> Interposed {
        Interposed {
            loads: AtomicU64::new(0),
            searched: Mutex::new(Vec::new()),
            by_value: true,
        }
    }

    /// The same for functions that callers import by name. What a library has looked up by itself is left as
    /// it is, and a search takes a tenth of the time.
    pub const fn by_name() -> Interposed {
        let mut all = Interposed::new();
        all.by_value = false;
        all
    }

    /// Puts ours before the functions of these tables that `find` knows the addresses of, wherever they are
    /// called from by now.
    ///
    /// Each library is searched once, unless all are to be searched again.
    /// A search of all takes 50 to 100 ms in a process with torch, and the job's launches may stall for half
    /// of that (measured on two H200). So it belongs at the start of a job.
    pub fn install(
        &self,
        tables: &[&[Replacement]],
        Search { again, late }: Search,
        find: impl Fn(&CStr) -> Option<*mut c_void>,
    ) -> Installed {
        let loads = objects::loads();
        let Ok(mut searched) = self.searched.try_lock() else {
            return Installed::default();
        };
        if self.loads.swap(loads, Relaxed) == loads && !again {
            return Installed::default();
        }
        if !pages::are_spare() {
            // The next call looks again.
            self.loads.store(0, Relaxed);
            return Installed::default();
        }
        let mut wanted = Vec::new();
        for function in tables.iter().copied().flatten() {
            let known = function.real.get();
            let address = if known.is_null() {
                find(function.name).unwrap_or(std::ptr::null_mut())
            } else {
                known
            };
            if !address.is_null() {
                // Before any pointer leads to ours.
                function.real.set(address);
                wanted.push(Wanted {
                    name: function.name,
                    address: address as u64,
                    ours: if late { function.late } else { function.ours } as u64,
                    for_nccl: function.for_nccl as u64,
                });
            }
        }
        let mut installed = Installed::default();
        // Nothing to find until another library is loaded.
        if wanted.is_empty() {
            return installed;
        }
        let callers = objects::callers(&wanted);
        let before = std::mem::take(&mut *searched);
        for object in callers {
            let id = (object.whole.start, object.path.clone());
            let known = before.contains(&id);
            let is_nccl = object.is_nccl();
            let so_far = installed;
            searched.push(id);
            if known && !again {
                continue;
            }
            for import in &object.imports {
                let function = &wanted[import.function];
                // Until the first call, a slot may lead to the caller's own stub, which looks the symbol up.
                let bound = |word: u64| word == function.address || object.whole.has(word);
                let writable = !object.sealed.has(import.slot);
                let ours = function.ours_for(is_nccl);
                let replaced = memory::replace(import.slot, bound, ours, writable);
                installed.pointers += u32::from(replaced);
            }
            if !self.by_value {
                continue;
            }
            let bytes = words::search(&object, &wanted, |word, function| {
                let function = &wanted[function];
                let same = |word| word == function.address;
                let replaced = memory::replace(word, same, function.ours_for(is_nccl), true);
                installed.words += u32::from(replaced);
            });
            installed.bytes += bytes;
            if is_nccl {
                installed.of_nccl +=
                    installed.pointers + installed.words - so_far.pointers - so_far.words;
            }
        }
        installed.pointers += installed.words;
        installed
    }
}

/// A function with its address, and ours.
struct Wanted {
    name: &'static CStr,
    address: u64,
    ours: u64,
    for_nccl: u64,
}

impl Wanted {
    fn ours_for(&self, is_nccl: bool) -> u64 {
        if is_nccl {
            self.for_nccl
        } else {
            self.ours
        }
    }
}

/// Memory of this process, read without the risk of a fault: libraries may be unloaded while they are
/// searched.
pub mod memory {
    use super::{AtomicU64, Relaxed};

    /// Copies `into.len()` bytes from `from`; how many could be read.
    pub fn read<T>(from: u64, into: &mut [T]) -> usize
    where
        T: From<u32>,
    {
        let bytes = std::mem::size_of_val(into);
        let (local, remote) = (
            libc::iovec {
                iov_base: into.as_mut_ptr().cast(),
                iov_len: bytes,
            },
            libc::iovec {
                iov_base: from as *mut _,
                iov_len: bytes,
            },
        );
        // SAFETY: the local buffer is as long as said; of the other the kernel says what it could not read.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
        usize::try_from(read).unwrap_or(0)
    }

    /// The 32 bits at `from`; `None` if nothing is there.
    pub fn read_u32(from: u64) -> Option<u32> {
        let mut word = [0u32];
        (read(from, &mut word) == 4).then_some(word[0])
    }

    /// Replaces the word at `at` if it is as expected. A page that may not be written to, as of a global
    /// offset table, is made writable for the time.
    pub fn replace(at: u64, expected: impl Fn(u64) -> bool, to: u64, writable: bool) -> bool {
        let mut now = [0];
        if !at.is_multiple_of(8) || read(at, &mut now) != 8 || !expected(now[0]) {
            return false;
        }
        // SAFETY: sysconf has no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        let start = (at & !(page - 1)) as *mut libc::c_void;
        // SAFETY: the page was mapped and readable a moment ago, and is a library's data. Other threads may
        // read the word at the same time, which an atomic store of it allows.
        unsafe {
            let open = libc::PROT_READ | libc::PROT_WRITE;
            if !writable && libc::mprotect(start, page as usize, open) != 0 {
                return false;
            }
            AtomicU64::from_ptr(at as *mut u64).store(to, Relaxed);
            if !writable {
                libc::mprotect(start, page as usize, libc::PROT_READ);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;
    use std::sync::atomic::AtomicU32;

    static CALLS: AtomicU32 = AtomicU32::new(0);
    static REAL: Real = Real::unknown();
    static FUNCTIONS: [Replacement; 2] = [
        Replacement {
            name: c"fake_answer",
            ours: ours as *const c_void,
            for_nccl: for_nccl as *const c_void,
            late: for_late as *const c_void,
            real: &REAL,
        },
        Replacement {
            name: c"fake_that_is_not_there",
            ours: ours as *const c_void,
            for_nccl: ours as *const c_void,
            late: ours as *const c_void,
            real: &MISSING,
        },
    ];
    static MISSING: Real = Real::unknown();

    extern "C" fn ours(question: i32) -> i32 {
        CALLS.fetch_add(1, Relaxed);
        // SAFETY: the library below has this function, of this signature.
        unsafe {
            std::mem::transmute::<*mut c_void, extern "C" fn(i32) -> i32>(REAL.get())(question)
        }
    }

    static CALLS_OF_NCCL: AtomicU32 = AtomicU32::new(0);

    extern "C" fn for_nccl(question: i32) -> i32 {
        CALLS_OF_NCCL.fetch_add(1, Relaxed);
        ours(question) + 1
    }

    const AGAIN: Search = Search {
        again: true,
        late: false,
    };
    const LATE: Search = Search {
        again: false,
        late: true,
    };
    static CALLS_OF_LATE: AtomicU32 = AtomicU32::new(0);

    extern "C" fn for_late(question: i32) -> i32 {
        CALLS_OF_LATE.fetch_add(1, Relaxed);
        ours(question) + 2
    }

    /// A library of this source, loaded.
    fn library(folder: &Path, name: &str, source: &str, options: &[&str]) -> libloading::Library {
        let path = folder.join(format!("lib{name}.so"));
        let code = folder.join(format!("{name}.c"));
        std::fs::write(&code, source).expect("written");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&path)
            .arg(&code)
            .args(options)
            .arg(format!("-L{}", folder.display()))
            .arg(format!("-Wl,-rpath,{}", folder.display()))
            .status();
        assert!(built.expect("there is a cc").success());
        // SAFETY: a library of ours without initialisers.
        unsafe { libloading::Library::new(path) }.expect("loads")
    }

    fn call(library: &libloading::Library) -> i32 {
        // SAFETY: each caller below has this function.
        unsafe {
            let ask = library
                .get::<extern "C" fn(i32) -> i32>(b"ask")
                .expect("is there");
            ask(3)
        }
    }

    const IMPORTS: &str = "int fake_answer(int); int ask(int x) { return fake_answer(x); }";
    const POINTS: &str = "int fake_answer(int); int (*volatile const table[])(int) = {fake_answer};
        int ask(int x) { return table[x - 3](x); }";
    const LOOKS_UP: &str = "#define _GNU_SOURCE
        #include <dlfcn.h>
        static int (*found)(int);
        int ask(int x) {
            if (!found) found = (int (*)(int))dlsym(dlopen(\"libtold.so\", RTLD_LAZY | RTLD_NOLOAD), \
                \"fake_answer\");
            return found(x);
        }";

    /// Exports nothing, as most programs do. Its function is called through the library that it registers at.
    const SILENT: &str = "int fake_answer(int); void fake_register(int (*)(int));
        static int silent(int x) { return fake_answer(x); }
        __attribute__((constructor)) static void begin(void) { fake_register(silent); }";
    const ANSWERS: &str = "static int (*registered)(int);
        int fake_answer(int x) { return 14 * x; }
        void fake_register(int (*of)(int)) { registered = of; }
        int ask(int x) { return registered(x); }";

    #[test]
    fn functions_that_no_library_has_are_not_looked_up_again() {
        let asked = std::cell::Cell::new(0);
        let find = |_: &CStr| {
            asked.set(asked.get() + 1);
            None
        };
        let interposed = Interposed::new();
        for _ in 0..100 {
            let installed = interposed.install(&[&FUNCTIONS[1..]], Search::default(), find);
            assert_eq!(installed, Installed::default());
        }
        // Other tests of this process load a few libraries meanwhile.
        assert!(asked.get() < 50, "{}", asked.get());
        let loads = objects::loads();
        let _late = library(
            tempfile::tempdir().expect("made").path(),
            "one",
            ANSWERS,
            &[],
        );
        let before = asked.get();
        interposed.install(&[&FUNCTIONS[1..]], Search::default(), find);
        assert!(objects::loads() > loads);
        assert_eq!(asked.get(), before + 1);
    }

    #[test]
    fn every_way_to_call_a_library_leads_to_ours() {
        let folder = tempfile::tempdir().expect("made");
        let folder = folder.path();
        let told = library(folder, "told", ANSWERS, &["-Wl,-soname,libtold.so"]);
        let _silent = library(folder, "silent", SILENT, &["-ltold"]);
        let callers = [
            library(folder, "lazy", IMPORTS, &["-Wl,-z,lazy", "-ltold"]),
            library(folder, "now", IMPORTS, &["-Wl,-z,now,-z,relro", "-ltold"]),
            library(folder, "points", POINTS, &["-Wl,-z,relro", "-ltold"]),
            library(folder, "looks_up", LOOKS_UP, &[]),
        ];
        // The last one knows the address once it has called; the first was never called.
        for caller in &callers[1..] {
            assert_eq!(call(caller), 42);
        }
        let interposed = Interposed::new();
        let tables = [&FUNCTIONS[..]];
        let find = |name: &CStr| {
            // SAFETY: a look-up of an address, which is handed on as it is.
            unsafe {
                told.get::<*mut c_void>(name.to_bytes())
                    .ok()?
                    .try_as_raw_ptr()
            }
        };
        let installed = interposed.install(&tables, Search::default(), find);
        assert_eq!(installed.pointers, 5, "{installed:?}");
        assert!(MISSING.get().is_null());
        for (calls, caller) in callers.iter().enumerate() {
            assert_eq!(CALLS.load(Relaxed), calls as u32);
            assert_eq!(call(caller), 42);
        }
        assert_eq!((call(&told), CALLS.load(Relaxed)), (42, 5));

        // Nothing new is loaded: nothing is searched, unless asked for.
        assert_eq!(
            interposed.install(&tables, Search::default(), find),
            Installed::default()
        );
        assert_eq!(interposed.install(&tables, AGAIN, find).pointers, 0);
        // What is loaded later is found too.
        let late = library(folder, "late", IMPORTS, &["-Wl,-z,lazy", "-ltold"]);
        let installed = interposed.install(&tables, Search::default(), find);
        assert_eq!(installed.pointers, 1);
        assert_eq!((call(&late), CALLS.load(Relaxed)), (42, 6));
        // A library that is NCCL by its name gets a function of its own.
        let nccl = library(folder, "nccl.so.2", LOOKS_UP, &[]);
        assert_eq!(call(&nccl), 42);
        let installed = interposed.install(&tables, Search::default(), find);
        assert_eq!((installed.pointers, installed.of_nccl), (1, 1));
        assert_eq!((call(&nccl), CALLS_OF_NCCL.load(Relaxed)), (43, 1));
        // And so does one that is found late.
        let last = library(folder, "last", IMPORTS, &["-Wl,-z,lazy", "-ltold"]);
        let installed = interposed.install(&tables, LATE, find);
        assert_eq!(installed.pointers, 1);
        assert_eq!((call(&last), CALLS_OF_LATE.load(Relaxed)), (44, 1));
    }
}
