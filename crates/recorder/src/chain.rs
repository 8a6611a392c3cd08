//! Another profiler plugin behind ours: `NCCLSCOPE_CHAIN=PATH`. NCCL loads only one.
//!
//! The other plugin gets the calls that NCCL would make if the plugin were alone: its own context for each
//! communicator, its own handles ([`Handles`]), and the events that its own mask brings. NCCL's mask holds
//! what either plugin asks for, and each gets its own part of the events.
//!
//! A plugin exports a table for each ABI version that it knows. Ours sees the newest version that NCCL knows.
//! From v5 on, descriptors only became longer, so a table of an older version from v5 on can be called with
//! them as well. Below v5, the table must be of the very version.
//!
//! What the other plugin costs or breaks is its own affair: we can't catch its crashes, and install no signal
//! handler. So the live part says how many threads are inside it, and that outlives the process.
//!
//! Rule: the recorder's own records are the same with and without another plugin. If it can't be loaded,
//! fails or has no fitting table, the user is told once, and the job goes on without it.

mod handles;

use crate::events::Init;
use crate::recorder::messages::say;
use crate::threads::Threads;
use capture::live::Header;
use capture::printable::obeyed;
use handles::Handles;
use nccl_abi::{event, v1, v4, v5, Logger, SYMBOLS};
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::fmt;
use std::mem::{offset_of, transmute};
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::OnceLock;

/// The other plugin.
pub struct Chain {
    path: String,
    header: &'static Header,
    threads: Threads,
    /// Its table, once the first communicator was made; `None` if it can't be used.
    plugin: OnceLock<Option<Plugin>>,
    /// Why it gets no calls, or not those of a communicator.
    refused: OnceLock<Refused>,
    /// Where it stores the events that it wants, at any time.
    mask: AtomicI32,
    /// Events of its mask that NCCL was asked for, at the newest init.
    asked: AtomicU32,
    /// Events that crash this release of NCCL.
    crashes: u32,
    handles: Handles,
    /// Numbers of events that have no other name.
    numbers: AtomicU64,
}

/// A table of the other plugin.
#[derive(Clone, Copy)]
struct Plugin {
    /// The version that NCCL speaks.
    nccl: u8,
    /// The version of its table.
    version: u8,
    /// All versions have the same six words.
    table: v5::Profiler,
}

/// Why the other plugin gets no calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The dynamic linker does not load it.
    NotLoaded,
    /// It has no table that fits NCCL's.
    NoTable,
    /// An entry of its table is null.
    HalfATable,
    /// It is this plugin, or another copy of it.
    IsOurs,
    /// NCCL speaks another version with this communicator than with the first one.
    OtherVersion,
    /// Its init returned an error.
    InitFailed,
}

impl Refused {
    /// In a line of the capture.
    fn word(self) -> &'static str {
        match self {
            Refused::NotLoaded => "not_loaded",
            Refused::NoTable => "no_table",
            Refused::HalfATable => "half_a_table",
            Refused::IsOurs => "is_ncclscope",
            Refused::OtherVersion => "other_version",
            Refused::InitFailed => "init_failed",
        }
    }
}

/// A communicator as the other plugin knows it. All zeros is one that it does not know.
#[derive(Default)]
pub struct Chained {
    /// Its context, if `is_on`. NCCL calls a plugin with a null context, too.
    context: AtomicU64,
    is_on: AtomicBool,
}

type Start = unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut c_void) -> c_int;
type Change = unsafe extern "C" fn(*mut c_void, u32, *mut c_void) -> c_int;

/// Where a descriptor has its parent; the same in all versions.
const PARENT: usize = offset_of!(v5::Descr, parent_obj);
/// Where a Coll and a P2p have their second parent, the Group, from v5 on.
const GROUP_OF_COLL: usize = offset_of!(v5::Descr, u) + offset_of!(v5::Coll, parent_group);
const GROUP_OF_P2P: usize = offset_of!(v5::Descr, u) + offset_of!(v5::P2p, parent_group);

impl Chain {
    /// The plugin at `path`, which is loaded at the first init. `None` if there is no memory.
    pub fn new(
        path: String,
        header: &'static Header,
        threads: Threads,
        crashes: u32,
    ) -> Option<Chain> {
        Some(Chain {
            path,
            header,
            threads,
            plugin: OnceLock::new(),
            mask: AtomicI32::new(0),
            asked: AtomicU32::new(0),
            crashes,
            handles: Handles::new()?,
            numbers: AtomicU64::new(0),
            refused: OnceLock::new(),
        })
    }

    /// What the recorder's mask does not bring and the other plugin asked for.
    pub fn alone_wants(&self, kind: u64, ours: u32) -> bool {
        let Some(plugin) = self.plugin() else {
            return false;
        };
        let with = |mask: u32| event::announced_with(plugin.nccl, mask.into());
        with(ours) & kind == 0 && with(self.asked.load(Relaxed)) & kind != 0
    }

    /// A number for an event whose handle would be that of another.
    pub fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Relaxed)
    }

    /// The other plugin's init for a communicator; what NCCL is to be asked for besides.
    ///
    /// # Safety
    /// `init.name` and the logger are NCCL's.
    pub unsafe fn init(&self, comm: Option<&Chained>, init: &Init, logger: Logger) -> u32 {
        let asked = || self.asked.load(Relaxed);
        let loaded = self.plugin.get_or_init(|| {
            // SAFETY: loading a library runs its code: the user asks for that.
            unsafe { self.load(init.abi) }
        });
        let (Some(plugin), Some(comm)) = (loaded, comm) else {
            return asked();
        };
        if plugin.nccl != init.abi {
            self.refuse(Refused::OtherVersion, format_args!(""));
            return asked();
        }
        let mut context = std::ptr::null_mut();
        let entry = plugin.table.init;
        let (context_at, mask_at) = (&raw mut context, self.mask.as_ptr());
        let result = self.inside(|| {
            // SAFETY: the entry has the signature of its version.
            unsafe {
                let Some(entry) = entry else { return 0 };
                match plugin.version {
                    1..=3 => transmute::<v5::Init, v1::Init>(entry)(context_at, mask_at),
                    4 => transmute::<v5::Init, v4::Init>(entry)(
                        context_at,
                        mask_at,
                        init.name,
                        init.hash,
                        init.nnodes,
                        init.nranks,
                        init.rank,
                        logger,
                    ),
                    _ => entry(
                        context_at,
                        init.hash,
                        mask_at,
                        init.name,
                        init.nnodes,
                        init.nranks,
                        init.rank,
                        logger,
                    ),
                }
            }
        });
        if result != nccl_abi::result::SUCCESS {
            self.refuse(Refused::InitFailed, format_args!(": it returned {result}"));
            return asked();
        }
        comm.context.store(context as u64, Relaxed);
        comm.is_on.store(true, Release);
        let known = event::known(plugin.version).unwrap_or(0) as u32;
        let wants = self.mask.load(Relaxed) as u32 & known & !self.crashes;
        self.asked.store(wants, Relaxed);
        wants
    }

    /// An event began. `ours` is our handle for it.
    ///
    /// # Safety
    /// `descr` is NCCL's descriptor of an event of this kind.
    pub unsafe fn start(&self, comm: &Chained, kind: u64, ours: u64, descr: *mut c_void) {
        let Some(plugin) = self.plugin() else { return };
        let wanted = self.mask.load(Relaxed) as u32 & self.asked.load(Relaxed);
        let brought = event::announced_with(plugin.version, wanted.into());
        if kind & brought == 0 || !comm.is_on.load(Acquire) {
            return;
        }
        let group = match kind {
            event::COLL if plugin.version >= 5 => GROUP_OF_COLL,
            event::P2P if plugin.version >= 5 => GROUP_OF_P2P,
            _ => PARENT,
        };
        // SAFETY: both lie in a descriptor of this version and type, and NCCL's descriptors are ours until
        // we return.
        let [parent, group] =
            [PARENT, group].map(|at| unsafe { descr.byte_add(at).cast::<*mut c_void>() });
        // SAFETY: as above.
        let before = unsafe { (parent.read(), group.read()) };
        let theirs = |ours: *mut c_void| self.handles.get(ours as u64).unwrap_or(0) as *mut c_void;
        let (new_parent, new_group) = (theirs(before.0), theirs(before.1));
        // As NCCL does for a plugin that is alone: a NULL parent of these has no such children.
        let orphan = new_parent.is_null()
            && (kind & (event::CE_SYNC | event::CE_BATCH) != 0
                || plugin.version < 5 && kind & (event::COLL | event::P2P) != 0);
        if orphan {
            return;
        }
        let context = comm.context.load(Relaxed) as *mut c_void;
        let mut handle = std::ptr::null_mut();
        let out = &raw mut handle;
        // SAFETY: as above; the entry has this signature in every version, but for the descriptor's type.
        self.count(self.inside(|| unsafe {
            group.write(new_group);
            parent.write(new_parent);
            let result = plugin.table.start_event.map_or(0, |entry| {
                transmute::<v5::StartEvent, Start>(entry)(context, out, descr)
            });
            group.write(before.1);
            parent.write(before.0);
            result
        }));
        if !handle.is_null() {
            self.handles.put(ours, handle as u64);
        }
    }

    /// An event ended.
    pub fn stop(&self, ours: u64) {
        if let Some((plugin, theirs)) = self.find(ours) {
            let stop = plugin.table.stop_event;
            // SAFETY: the plugin's own handle.
            self.count(self.inside(|| unsafe { stop.map_or(0, |stop| stop(theirs)) }));
        }
    }

    /// An event changed.
    ///
    /// # Safety
    /// `args` are NCCL's for this state.
    pub unsafe fn change(&self, ours: u64, state: u32, args: *mut c_void) {
        if let Some((plugin, theirs)) = self.find(ours) {
            let change = plugin.table.record_event_state;
            // SAFETY: the plugin's own handle, and NCCL's arguments. The signature is the same in every
            // version, but for the type of the arguments.
            self.count(self.inside(|| unsafe {
                change.map_or(0, |change| {
                    transmute::<v5::RecordEventState, Change>(change)(theirs, state, args)
                })
            }));
        }
    }

    /// A communicator ended.
    pub fn finalize(&self, comm: &Chained) {
        let Some(plugin) = self.plugin() else { return };
        if comm.is_on.swap(false, Relaxed) {
            let context = comm.context.load(Relaxed) as *mut c_void;
            // A plugin that gave none could not begin. NCCL does not end it, from 2.28 on.
            if let Some(finalize) = plugin.table.finalize.filter(|_| !context.is_null()) {
                // SAFETY: the plugin's own context.
                self.count(self.inside(|| unsafe { finalize(context) }));
            }
        }
    }

    fn plugin(&self) -> Option<&Plugin> {
        self.plugin.get()?.as_ref()
    }

    fn find(&self, ours: u64) -> Option<(&Plugin, *mut c_void)> {
        let theirs = self.handles.get(ours)?;
        Some((self.plugin()?, theirs as *mut c_void))
    }

    /// Calls the other plugin. Whoever looks at the live part meanwhile, or after a death, sees that.
    fn inside<T>(&self, call: impl FnOnce() -> T) -> T {
        let thread = self.threads.number();
        self.header.chain_thread.store(thread, Relaxed);
        self.header.chain_inside.fetch_add(1, Relaxed);
        let result = call();
        self.header.chain_inside.fetch_sub(1, Relaxed);
        result
    }

    /// NCCL takes no notice of what a callback returns; a reader may want to know.
    fn count(&self, result: c_int) {
        if result != nccl_abi::result::SUCCESS {
            self.header.chain_errors.fetch_add(1, Relaxed);
        }
    }

    /// Loads the library, and finds the table for this version of NCCL's.
    ///
    /// # Safety
    /// Runs the library's initialisers.
    unsafe fn load(&self, nccl: u8) -> Option<Plugin> {
        let refuse = |why: Refused, more: fmt::Arguments| {
            self.refuse(why, more);
            None
        };
        let mut why = String::new();
        // As NCCL finds the library of NCCL_PROFILER_PLUGIN.
        let names = [
            self.path.clone(),
            format!("libnccl-profiler-{}.so", self.path),
        ];
        let library = names.iter().find_map(|name| {
            let name = CString::new(name.as_str()).ok()?;
            let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
            // SAFETY: as the caller says.
            let library = self.inside(|| unsafe { libc::dlopen(name.as_ptr(), flags) });
            if library.is_null() && why.is_empty() {
                // SAFETY: the text of the last failure in this thread.
                why = unsafe { text(libc::dlerror()) };
            }
            (!library.is_null()).then_some(library)
        });
        let Some(library) = library else {
            return refuse(Refused::NotLoaded, format_args!(": {why}"));
        };
        let oldest = if nccl >= 5 { 5 } else { nccl };
        for version in (oldest..=nccl).rev() {
            let symbol = CString::new(SYMBOLS[usize::from(version) - 1]).unwrap_or_default();
            // SAFETY: a library that is never closed.
            let found = unsafe { libc::dlsym(library, symbol.as_ptr()) };
            if found.is_null() {
                continue;
            }
            // SAFETY: the symbol promises this struct.
            let table = unsafe { *found.cast::<v5::Profiler>() };
            // SAFETY: a plugin's name is null, or a static string.
            if unsafe { text(table.name) } == OUR_NAME.to_string_lossy() {
                return refuse(Refused::IsOurs, format_args!(""));
            }
            let whole = table.init.is_some()
                && table.start_event.is_some()
                && table.stop_event.is_some()
                && table.record_event_state.is_some()
                && table.finalize.is_some();
            if !whole {
                return refuse(Refused::HalfATable, format_args!(""));
            }
            return Some(Plugin {
                nccl,
                version,
                table,
            });
        }
        if oldest == nccl {
            refuse(Refused::NoTable, format_args!(": NCCL speaks v{nccl}"))
        } else {
            let would = format_args!("tables from v{oldest} on would do");
            refuse(
                Refused::NoTable,
                format_args!(": NCCL speaks v{nccl}, and {would}"),
            )
        }
    }

    fn refuse(&self, why: Refused, more: fmt::Arguments) {
        if self.refused.set(why).is_err() {
            return;
        }
        let path = &self.path;
        let what = match why {
            Refused::NotLoaded => "can't be loaded",
            Refused::NoTable => "has no table of a fitting version",
            Refused::HalfATable => "has a table with null entries",
            Refused::IsOurs => "is ncclscope itself",
            Refused::OtherVersion => {
                "gets no calls of a communicator, because this process has two releases of NCCL"
            }
            Refused::InitFailed => "could not begin with a communicator",
        };
        say(format_args!(
            "the profiler plugin `{path}` of NCCLSCOPE_CHAIN {what}{more}. The job and the recording go on \
            without it"
        ));
    }

    /// For one rank to say at the beginning: who runs behind us.
    pub fn note(&self) -> Option<String> {
        let plugin = self.plugin()?;
        Some(format!(
            "the profiler plugin `{}` ({}, ABI v{}) gets NCCL's events, too, at its own cost \
            (NCCLSCOPE_CHAIN)",
            self.path,
            plugin.name(),
            plugin.version,
        ))
    }

    /// What the capture says of it, once the first communicator was made.
    pub fn line(&self) -> Option<String> {
        let plugin = self.plugin.get()?;
        let mut line = String::new();
        if let Some(plugin) = plugin {
            let name = plugin
                .name()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join("_");
            let asked = u64::from(self.asked.load(Relaxed));
            let asked = event::ALL.iter().filter(|event| asked & event.bit != 0);
            let asked: Vec<&str> = asked.map(|event| event.name).collect();
            let (version, asked) = (plugin.version, asked.join(","));
            line += &format!("name={name} abi={version} events={asked} ");
        }
        if let Some(why) = self.refused.get() {
            line += &format!("refused={} ", why.word());
        }
        Some(format!("{line}path={}", self.path))
    }
}

/// Ours, as in the tables.
pub const OUR_NAME: &CStr = c"ncclscope";

impl Plugin {
    fn name(&self) -> String {
        // SAFETY: a plugin's name is null, or a static string.
        let name = unsafe { text(self.table.name) };
        let shown = name.chars().filter(|c| !obeyed(*c)).take(60).collect();
        Some(shown)
            .filter(|name: &String| !name.trim().is_empty())
            .unwrap_or_else(|| "no name".to_owned())
    }
}

/// # Safety
/// Null or a C string.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
