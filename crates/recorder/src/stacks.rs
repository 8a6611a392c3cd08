//! Who called NCCL: the stack of the calling thread, as a small number for each call.
//!
//! [`Stacks::id`] runs inside the API callback. It walks the Python frames of the thread ([`python`]) and
//! hashes their identities. A stack that was met before is found in a [`StackTable`] by this hash. A new one
//! is described there: files, functions and lines ([`lines`]). The recorder's thread writes new entries to
//! the capture (`writer/stacks.rs`). Threads without Python frames are described by their return addresses
//! ([`native`]) and their names.
//!
//! Rule: the callback never takes Python's GIL, a lock or memory, and does a bounded amount of work. It reads
//! nothing that another thread may unmap, unless the kernel does the reading ([`memory`]).
//! `docs/decisions/0007-stacks.md` has the proof and the costs.

mod closing;
mod lines;
mod memory;
mod native;
mod python;
mod rules;
mod table;

use capture::stacks::{Why, DEEPER, DEPTH};
use memory::{Guarded, Plain, ReadMemory};
pub use native::{loaded, Loaded};
pub use python::version as python_version;
use python::{Hop, Python};
use std::mem::MaybeUninit;
use std::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicU8,
    Ordering::{Acquire, Relaxed, Release},
};
pub use table::{Frame, Stack, StackTable};

/// What is known of the interpreter's layout.
mod vetted {
    pub const NOT_YET: u8 = 0;
    /// A walk with reads that can't fault found everything where it should be.
    pub const YES: u8 = 1;
    pub const NO: u8 = 2;
}

/// See the module.
pub struct Stacks {
    /// The interpreter; null until one is found that can be walked.
    python: AtomicPtr<Python>,
    /// Why none can, a [`Why`].
    why: AtomicU8,
    vetted: AtomicU8,
    /// The main thread of a Python program, as [`crate::seats::thread`] has it; 0 not known.
    main_thread: AtomicU64,
    /// The program is a Python interpreter, so only its main thread shuts it down.
    is_python: bool,
    pub table: StackTable,
    pub modules: native::Modules,
}

impl Stacks {
    /// An empty table. `None` if there is no memory for it.
    pub fn new() -> Option<Stacks> {
        let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        let name = program.file_name().unwrap_or_default();
        Some(Stacks {
            python: AtomicPtr::default(),
            why: AtomicU8::new(Why::NoInterpreter as u8),
            vetted: AtomicU8::new(vetted::NOT_YET),
            main_thread: AtomicU64::new(0),
            is_python: name.as_encoded_bytes().starts_with(b"python"),
            table: StackTable::new()?,
            modules: native::Modules::new(),
        })
    }

    /// Looks for an interpreter and for loaded libraries. Not for callbacks: it takes the dynamic linker's
    /// lock.
    pub fn look(&self) {
        self.modules.refresh();
        self.note_main_thread();
        if !self.python.load(Relaxed).is_null() {
            return;
        }
        match Python::find() {
            Ok(python) => {
                let python = Box::leak(Box::new(python));
                // Meets the Acquire in `walk_python`. Of two threads, either one's may stay.
                self.python.store(python, Release);
                closing::ask();
            }
            Err(why) => self.why.store(why as u8, Relaxed),
        }
    }

    /// Takes note of the main thread, if it is the calling one.
    fn note_main_thread(&self) {
        // SAFETY: plain system calls.
        let is_main =
            unsafe { libc::syscall(libc::SYS_gettid) } == libc::c_long::from(std::process::id());
        if self.is_python && is_main {
            self.main_thread.store(crate::seats::thread(), Relaxed);
        }
    }

    /// The id of the calling thread's stack.
    #[inline]
    pub fn id(&self) -> u32 {
        // Meets the Release in `look`.
        let python = self.python.load(Acquire);
        // SAFETY: null, or leaked.
        let Some(python) = (unsafe { python.as_ref() }) else {
            let why = Why::from_u64(self.why.load(Relaxed).into());
            return self.without_python(why.unwrap_or(Why::NoInterpreter));
        };
        let mut hops = [MaybeUninit::<Hop>::uninit(); DEPTH];
        let is_main = self.main_thread.load(Relaxed) == crate::seats::thread();
        if self.vetted.load(Relaxed) == vetted::YES {
            if is_main {
                return self.walk(python, &mut Plain, &mut hops);
            }
            if let Some(_walk) = closing::enter() {
                return self.walk(python, &mut Plain, &mut hops);
            }
        }
        self.walk_guarded(python, &mut hops)
    }

    #[cold]
    #[inline(never)]
    fn walk_guarded(&self, python: &Python, hops: &mut [MaybeUninit<Hop>; DEPTH]) -> u32 {
        match self.vetted.load(Relaxed) {
            vetted::NO => return self.empty(Why::Layout),
            // The first one in the main thread may be before any communicator was made there.
            _ if self.main_thread.load(Relaxed) == 0 => self.note_main_thread(),
            _ => {}
        }
        let mut memory = Guarded::new();
        if !memory.works() {
            return self.empty(Why::NoSafeRead);
        }
        self.walk(python, &mut memory, hops)
    }

    #[inline(always)]
    fn walk<M: ReadMemory>(
        &self,
        python: &Python,
        memory: &mut M,
        hops: &mut [MaybeUninit<Hop>; DEPTH],
    ) -> u32 {
        let state = match python.this_thread() {
            Ok(0) => return self.without_frames(python),
            Ok(state) => state,
            Err(why) => return self.empty(why),
        };
        let walked = python.walk(memory, state, hops);
        let (hops, flags, hash) = match walked {
            Ok(walked) if walked.hops.is_empty() => {
                return self.without_frames(python);
            }
            Ok(walked) => (
                walked.hops,
                if walked.deeper { DEEPER } else { 0 },
                walked.hash,
            ),
            Err(why) => return self.broken(python, why),
        };
        if M::GUARDED {
            // What was read may have been freed meanwhile. The flag is set before anything is.
            if python.is_finalizing() {
                return self.empty(Why::Finalizing);
            }
            // Of two threads that vet at once, both find the same.
            self.vetted.store(vetted::YES, Relaxed);
        }
        if let Some(id) = self.table.find(hash) {
            return id;
        }
        self.learn(python, memory, hops, flags, hash)
    }

    /// A thread that has no frames; or that had some, until the interpreter took them away.
    #[cold]
    fn without_frames(&self, python: &Python) -> u32 {
        if closing::has_begun() || python.is_finalizing() {
            return self.empty(Why::Finalizing);
        }
        self.without_python(Why::NoFrames)
    }

    /// Describes a new stack.
    #[cold]
    #[inline(never)]
    fn learn<M: ReadMemory>(
        &self,
        python: &Python,
        memory: &mut M,
        hops: &[Hop],
        flags: u64,
        hash: u64,
    ) -> u32 {
        let mut frames = [0; DEPTH];
        for (frame, hop) in frames.iter_mut().zip(hops) {
            let found = self.table.frame(python::hash_of(hop), |table| {
                Some(python.describe(memory, hop, |text| table.text(text)))
            });
            match found {
                Some(number) => *frame = number,
                None => return StackTable::FULL,
            }
        }
        if M::GUARDED && python.is_finalizing() {
            return self.empty(Why::Finalizing);
        }
        let frames = &frames[..hops.len()];
        self.table.stack(hash, Why::HasFrames, flags, b"", frames)
    }

    /// A walk that met what should not be there. Before the layout is known to be right, it is wrong.
    #[cold]
    fn broken(&self, python: &Python, why: Why) -> u32 {
        if python.is_finalizing() {
            return self.empty(Why::Finalizing);
        }
        if why == Why::Unreadable && self.vetted.load(Relaxed) != vetted::YES {
            self.vetted.store(vetted::NO, Relaxed);
            return self.empty(Why::Layout);
        }
        self.empty(why)
    }

    /// A stack without frames, and why.
    #[cold]
    fn empty(&self, why: Why) -> u32 {
        let hash = table::hash_of(&[why as u8]);
        let found = self.table.find(hash);
        found.unwrap_or_else(|| self.table.stack(hash, why, 0, b"", &[]))
    }

    /// The stack of a thread without Python frames: its name and its return addresses.
    #[cold]
    #[inline(never)]
    fn without_python(&self, why: Why) -> u32 {
        if !matches!(why, Why::NoFrames | Why::NoInterpreter) {
            return self.empty(why);
        }
        let mut name = [0u8; 16];
        // SAFETY: writes at most 16 bytes, with a NUL at their end.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
        let len = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        let name = &name[..len];
        let mut addresses = [0; DEPTH];
        let (addresses, deeper) = self.modules.walk(&mut addresses);
        let mut hash = table::hash_of(name) ^ why as u64;
        for address in addresses {
            hash = table::mix(hash, *address as u64);
        }
        if let Some(id) = self.table.find(hash) {
            return id;
        }
        let mut frames = [0; DEPTH];
        for (frame, address) in frames.iter_mut().zip(addresses) {
            let number = self.table.frame(table::mix(1, *address as u64), |_| {
                Some(Frame::Native(*address as u64))
            });
            match number {
                Some(number) => *frame = number,
                None => return StackTable::FULL,
            }
        }
        let frames = &frames[..addresses.len()];
        let flags = if deeper { DEEPER } else { 0 };
        self.table.stack(hash, why, flags, name, frames)
    }
}
