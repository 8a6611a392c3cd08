//! Finds and loads a profiler plugin the way NCCL does, and calls it.
//!
//! A [`Loader`] stands for what libnccl holds once per process: which plugin, how many communicators use it, and the
//! activation mask. [`Loader::init`] gives a [`Profiler`] for each communicator; [`Loader::finalize`] takes it back, and
//! the last one unloads the library, so that the next `init` loads it anew. A [`Table`] is the plugin's struct with its
//! ABI, and passes each event through what the release's shim would do to it.
//!
//! Rule: whatever the release under simulation does with a plugin's answer is done here too (a failed load is sticky, an
//! error from `init` has the release's own effect), and nothing else reads a handle or a context.

use crate::event::{Descr, Event, Handle, Seat, StateArgs};
use crate::lock::lock;
use core::ffi::{c_char, c_int, c_ulong, c_void, CStr};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use nccl_abi::{event, state, v1, v4, v5, SYMBOLS};
use std::ffi::{CString, OsString};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;

/// A simulated NCCL release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(pub u32);

impl Version {
    /// Reads `2.28.9`.
    pub fn parse(text: &str) -> Option<Version> {
        let mut parts = text.split('.').map(|p| p.parse::<u32>().ok());
        let number = parts.next()?? * 10000 + parts.next()?? * 100 + parts.next()??;
        parts.next().is_none().then_some(Version(number))
    }

    /// The newest ABI it looks up.
    pub fn native_abi(self) -> Option<u8> {
        nccl_abi::release::native_abi(self.0)
    }

    /// The releases that can be simulated, as text.
    pub fn known() -> String {
        let all = nccl_abi::release::ALL.map(|r| Version(r.version).to_string());
        all.join(" ")
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}.{}.{}",
            self.0 / 10000,
            self.0 / 100 % 100,
            self.0 % 100
        )
    }
}

/// Which plugin to load, and as which NCCL.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The release.
    pub version: Version,
    /// The value of `NCCL_PROFILER_PLUGIN`; `None` when unset.
    pub plugin: Option<String>,
    /// Symbols above this ABI are taken as absent, to try a plugin behind a shim.
    pub highest_abi: u8,
    /// Log what NCCL's logger gets, at this level and below, to stderr.
    pub log_level: c_int,
}

/// The plugin's struct and where it sits. Calls go through the shim of the release.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// ABI and release.
    pub seat: Seat,
    raw: v5::Profiler,
}

/// What a plugin did that NCCL doesn't notice and that a check does: counted for the process.
#[derive(Debug, Default)]
pub struct Misdeeds {
    /// Calls that returned an error.
    pub errors: AtomicU64,
    /// Starts after which the word for the handle still held [`Handle::GARBAGE`].
    pub unwritten: AtomicU64,
}

/// See [`Misdeeds`].
pub static MISDEEDS: Misdeeds = Misdeeds {
    errors: AtomicU64::new(0),
    unwritten: AtomicU64::new(0),
};

fn note(result: c_int) -> c_int {
    if result != nccl_abi::result::SUCCESS {
        MISDEEDS.errors.fetch_add(1, Relaxed);
    }
    result
}

type RawStart = unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut c_void) -> c_int;
type RawState = unsafe extern "C" fn(*mut c_void, u32, *mut c_void) -> c_int;

/// What `init` is told about a communicator.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The name, where the caller gave one.
    pub name: Option<CString>,
    /// The hash that all ranks share.
    pub hash: u64,
    /// Hosts it spans.
    pub nodes: i32,
    /// Its size.
    pub ranks: i32,
    /// This rank in it.
    pub rank: i32,
}

// SAFETY: NCCL calls a plugin from several threads and demands that it bears it; the struct itself is only read.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Table {
    /// The struct at `raw`, whose ABI is `seat.abi`.
    ///
    /// # Safety
    /// `raw` must be that version's `Profiler` with all entries set, and its library stay mapped while this lives.
    pub unsafe fn new(seat: Seat, raw: *const v5::Profiler) -> Table {
        // SAFETY: by the caller; the struct has the same six words in every version.
        let raw = unsafe { *raw };
        Table { seat, raw }
    }

    /// The plugin's name for NCCL's log.
    pub fn name(&self) -> String {
        if self.raw.name.is_null() {
            return String::from("(null)");
        }
        // SAFETY: not null, and a plugin's name is NUL-terminated static memory.
        unsafe { CStr::from_ptr(self.raw.name) }
            .to_string_lossy()
            .into_owned()
    }

    /// Where its code is.
    pub fn start_address(&self) -> usize {
        self.raw.start_event.map_or(0, |entry| entry as usize)
    }

    /// Entries that are null, which NCCL would call all the same.
    pub fn missing(&self) -> Vec<&'static str> {
        let raw = &self.raw;
        let entries = [
            ("init", raw.init.is_none()),
            ("startEvent", raw.start_event.is_none()),
            ("stopEvent", raw.stop_event.is_none()),
            ("recordEventState", raw.record_event_state.is_none()),
            ("finalize", raw.finalize.is_none()),
        ];
        entries
            .into_iter()
            .filter_map(|(name, null)| null.then_some(name))
            .collect()
    }

    /// Calls `init`: its result and the context it gave.
    pub fn init(&self, mask: &'static AtomicI32, of: &Identity) -> (c_int, Handle) {
        let mut context = std::ptr::null_mut();
        let entry = self.raw.init.expect("checked when loaded");
        let name = of.name.as_ref().map_or(std::ptr::null(), |n| n.as_ptr());
        let mask = mask.as_ptr();
        // SAFETY: the entry has the signature of its ABI version; `context`, `mask` and `name` live long enough, and
        // the mask for ever.
        let result = unsafe {
            match self.seat.abi {
                1..=3 => std::mem::transmute::<v5::Init, v1::Init>(entry)(&mut context, mask),
                4 => std::mem::transmute::<v5::Init, v4::Init>(entry)(
                    &mut context,
                    mask,
                    name,
                    of.hash,
                    of.nodes,
                    of.ranks,
                    of.rank,
                    logger(),
                ),
                _ => entry(
                    &mut context,
                    of.hash,
                    mask,
                    name,
                    of.nodes,
                    of.ranks,
                    of.rank,
                    logger(),
                ),
            }
        };
        (result, Handle(context as usize))
    }

    /// Calls `startEvent` with bytes as they are, whatever they say.
    #[inline]
    pub fn start_raw(&self, context: Handle, slot: &mut Handle, descr: &mut Descr) {
        let entry = self.raw.start_event.expect("checked when loaded");
        // SAFETY: pointers to the same-sized descriptor of another version; the plugin was told its version by the
        // symbol it was found under. `slot` is a word of ours.
        unsafe {
            let entry: RawStart = std::mem::transmute::<v5::StartEvent, RawStart>(entry);
            note(entry(
                context.ptr(),
                (slot as *mut Handle).cast(),
                descr.ptr(),
            ));
        }
        if *slot == Handle::GARBAGE {
            MISDEEDS.unwritten.fetch_add(1, Relaxed);
        }
    }

    /// Starts an event unless the shim drops it. A dropped event's slot becomes null or stays, as the shim has it.
    ///
    /// Whether the plugin was called.
    #[inline]
    pub fn start(
        &self,
        context: Handle,
        event: &Event,
        parent: Handle,
        rank: i32,
        slot: &mut Handle,
    ) -> bool {
        let seat = self.seat;
        let known = event::known(seat.abi).unwrap_or(0);
        let native = event::known(seat.native).unwrap_or(0);
        if seat.shimmed() && known & event.bit() == 0 && native & event.bit() != 0 {
            // The v4 shim leaves the word as it was, the others write null.
            if seat.abi != 4 {
                *slot = Handle::NULL;
            }
            return false;
        }
        let mut descr = Descr::default();
        descr.encode(seat, event, parent, rank);
        self.start_raw(context, slot, &mut descr);
        true
    }

    /// Calls `stopEvent`.
    #[inline]
    pub fn stop(&self, handle: Handle) {
        let entry = self.raw.stop_event.expect("checked when loaded");
        // SAFETY: a handle is opaque to us, and a plugin has to bear any.
        note(unsafe { entry(handle.ptr()) });
    }

    /// Calls `recordEventState` with any number; `None` passes null.
    #[inline]
    pub fn state_raw(&self, handle: Handle, state: u32, args: Option<&mut [u64; 2]>) {
        let args = args.map_or(std::ptr::null_mut(), |a| a.as_mut_ptr().cast());
        let entry = self.raw.record_event_state.expect("checked when loaded");
        // SAFETY: as in `start_raw`; `args` is null or the 16 bytes that any version takes.
        unsafe {
            let entry: RawState = std::mem::transmute::<v5::RecordEventState, RawState>(entry);
            note(entry(handle.ptr(), state, args));
        }
    }

    /// Records a state unless the shim drops it.
    #[inline]
    pub fn state(&self, handle: Handle, value: u32, args: StateArgs) {
        if !self.forwards(value) {
            return;
        }
        let mut bytes = args.encode();
        self.state_raw(
            handle,
            value,
            (args != StateArgs::Null).then_some(&mut bytes),
        );
    }

    /// What the shims let through: v1 to v3 behind 2.27 or later get ProxyCtrl and the five old step states only.
    fn forwards(&self, value: u32) -> bool {
        let seat = self.seat;
        if !seat.shimmed() {
            return true;
        }
        match seat.abi {
            1..=3 if seat.version >= 22700 => {
                (state::PROXY_STEP_SEND_GPU_WAIT..=state::PROXY_CTRL_APPEND_END).contains(&value)
            }
            abi => {
                let since = state::ALL.get(value as usize).map_or(0, |s| s.since);
                since <= abi
            }
        }
    }

    /// Calls `finalize`.
    pub fn finalize(&self, context: Handle) {
        let entry = self.raw.finalize.expect("checked when loaded");
        // SAFETY: a context is opaque to us.
        note(unsafe { entry(context.ptr()) });
    }
}

static LOG_LEVEL: AtomicI32 = AtomicI32::new(nccl_abi::log::LEVEL_WARN);

/// NCCL's logger as this process has it: prints the format text itself, since a well-behaved plugin passes `"%s"`.
///
/// Stable Rust can't define a C-variadic function, and on the platforms we know a callee that ignores what is passed
/// beyond its named arguments is called the same way; the one string of a `"%s"` is the sixth argument.
unsafe extern "C" fn log_line(
    level: c_int,
    _flags: c_ulong,
    _file: *const c_char,
    _line: c_int,
    format: *const c_char,
    first: *const c_char,
) {
    if level > LOG_LEVEL.load(Relaxed) || format.is_null() {
        return;
    }
    // SAFETY: the plugin passed a NUL-terminated format, and for "%s" a NUL-terminated string.
    let text = unsafe {
        let format = CStr::from_ptr(format);
        let text = if format == c"%s" && !first.is_null() {
            CStr::from_ptr(first)
        } else {
            format
        };
        text.to_string_lossy()
    };
    let name = match level {
        nccl_abi::log::LEVEL_WARN => "WARN",
        nccl_abi::log::LEVEL_INFO => "INFO",
        _ => "LOG",
    };
    eprintln!("fake-nccl[{}] NCCL {name} {text}", std::process::id());
}

fn logger() -> nccl_abi::Logger {
    type Fixed =
        unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, *const c_char);
    type Variadic = unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...);
    // SAFETY: on x86-64 System V and AArch64 Linux an integer or pointer argument beyond the named ones travels in the
    // next argument register, as it does for a named sixth argument.
    Some(unsafe { std::mem::transmute::<Fixed, Variadic>(log_line as Fixed) })
}

/// Why a process has no plugin.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum NoPlugin {
    /// `NCCL_PROFILER_PLUGIN=none`.
    #[error("NCCL_PROFILER_PLUGIN is `none`")]
    SwitchedOff,
    /// No library opened.
    #[error("no plugin library opened; tried {0}")]
    NotOpened(String),
    /// The library has none of the symbols that the release looks up.
    #[error("`{library}` exports none of {first} down to ncclProfiler_v1, which NCCL {version} looks up")]
    NoSymbol {
        /// What was opened.
        library: String,
        /// The first symbol looked up.
        first: &'static str,
        /// The release.
        version: String,
    },
    /// An entry is null; NCCL would call it and crash.
    #[error("{symbol} has null entries: {entries}; NCCL calls them without a check")]
    NullEntry {
        /// The struct.
        symbol: &'static str,
        /// Which.
        entries: String,
    },
}

struct Loaded {
    table: Table,
    library: Option<Library>,
    uses: usize,
}

enum State {
    Ready,
    Loaded(Loaded),
    /// A failed load is never tried again in the process.
    Failed(NoPlugin),
    /// 2.23 to 2.27 after an error from `init`.
    Off,
}

/// What libnccl holds once per process.
pub struct Loader {
    choice: Choice,
    native: u8,
    state: Mutex<State>,
    mask: &'static AtomicI32,
}

/// One communicator's link to the plugin.
#[derive(Clone)]
pub struct Profiler {
    /// The plugin's struct.
    pub table: Table,
    /// What `init` gave.
    pub context: Handle,
    mask: &'static AtomicI32,
}

impl Profiler {
    /// The events wanted at this moment.
    #[inline]
    pub fn mask(&self) -> u64 {
        u64::from(self.mask.load(Relaxed) as u32)
    }

    /// See [`Table::start`].
    #[inline]
    pub fn start(&self, event: &Event, parent: Handle, rank: i32, slot: &mut Handle) -> bool {
        self.table.start(self.context, event, parent, rank, slot)
    }
}

impl Loader {
    /// A process of the chosen release, with nothing loaded yet.
    ///
    /// # Panics
    /// When the release is none of [`nccl_abi::release::ALL`].
    pub fn new(choice: Choice) -> Loader {
        let native = choice.version.native_abi().expect("an examined release");
        LOG_LEVEL.store(choice.log_level, Relaxed);
        Loader {
            choice,
            native,
            state: Mutex::new(State::Ready),
            // NCCL's mask is in its data segment, so a plugin may store to it until the process ends.
            mask: Box::leak(Box::new(AtomicI32::new(0))),
        }
    }

    /// A process whose plugin is a struct of this program, for measuring what NCCL itself costs.
    pub fn with_table(version: Version, table: Table) -> Loader {
        let loader = Loader::new(Choice {
            version,
            plugin: None,
            highest_abi: 7,
            log_level: 0,
        });
        *lock(&loader.state) = State::Loaded(Loaded {
            table,
            library: None,
            uses: 0,
        });
        loader
    }

    /// The release.
    pub fn version(&self) -> Version {
        self.choice.version
    }

    /// The release's own ABI.
    pub fn native(&self) -> u8 {
        self.native
    }

    /// The activation mask.
    pub fn mask(&self) -> &'static AtomicI32 {
        self.mask
    }

    /// The ABI in use, or why there is none.
    pub fn abi(&self) -> Result<u8, NoPlugin> {
        match &*lock(&self.state) {
            State::Loaded(loaded) => Ok(loaded.table.seat.abi),
            State::Failed(why) => Err(why.clone()),
            State::Ready | State::Off => Err(NoPlugin::SwitchedOff),
        }
    }

    /// A communicator begins: loads the plugin if it isn't, and calls its `init` outside the lock.
    pub fn init(&self, of: &Identity) -> Option<Profiler> {
        let table = {
            let mut state = lock(&self.state);
            if let State::Ready = *state {
                *state = match self.load() {
                    Ok(loaded) => State::Loaded(loaded),
                    Err(why) => State::Failed(why),
                };
            }
            match &mut *state {
                State::Loaded(loaded) => {
                    loaded.uses += 1;
                    loaded.table
                }
                _ => return None,
            }
        };
        let (result, context) = table.init(self.mask, of);
        if result != nccl_abi::result::SUCCESS {
            eprintln!("fake-nccl: plugin's init returned {result}");
            match self.choice.version.0 {
                // One pointer for the whole process: profiling ends for every communicator.
                ..22800 => {
                    *lock(&self.state) = State::Off;
                    return None;
                }
                // Events go on with a null context; a shim's pointers were not filled in, so it would crash instead.
                22800..23000 if !table.seat.shimmed() => {}
                22800..23000 => {
                    eprintln!("fake-nccl: NCCL {} would now call through null in its v{} shim; profiling off", self.choice.version, table.seat.abi);
                    return None;
                }
                // Unloaded here, and once more when the communicator is freed.
                _ => {
                    self.unload();
                    return None;
                }
            }
        }
        // The shims take back what their version lacks.
        if table.seat.shimmed() {
            let known = match table.seat.abi {
                5 => !(event::CE_COLL | event::CE_SYNC | event::CE_BATCH | event::KERNEL_PHASE),
                6 => !event::KERNEL_PHASE,
                _ => u64::MAX,
            };
            self.mask.fetch_and(known as i32, Relaxed);
        }
        Some(Profiler {
            table,
            context: if result == 0 { context } else { Handle::NULL },
            mask: self.mask,
        })
    }

    /// ncclCommDestroy or ncclCommAbort reached the end: `finalize`, and the last communicator unloads the library.
    pub fn finalize(&self, profiler: Profiler) {
        if self.choice.version.0 < 22800 || profiler.context != Handle::NULL {
            profiler.table.finalize(profiler.context);
        }
        self.unload();
    }

    fn unload(&self) {
        let mut state = lock(&self.state);
        if let State::Loaded(loaded) = &mut *state {
            loaded.uses = loaded.uses.saturating_sub(1);
            if loaded.uses == 0 && loaded.library.is_some() {
                // Dropping the library closes it.
                *state = State::Ready;
            }
        }
    }

    fn load(&self) -> Result<Loaded, NoPlugin> {
        let version = self.choice.version;
        let candidates = candidates(version, self.choice.plugin.as_deref())?;
        let mut tried = Vec::new();
        let opened = candidates.iter().find_map(|candidate| {
            // SAFETY: loading a library runs its initialisers; that is what we are asked to do.
            match unsafe { Library::open(candidate.as_ref(), RTLD_NOW | RTLD_LOCAL) } {
                Ok(library) => Some((candidate, library)),
                Err(error) => {
                    let why = std::error::Error::source(&error).map(ToString::to_string);
                    tried.push(why.unwrap_or_else(|| error.to_string()));
                    None
                }
            }
        });
        let Some((name, library)) = opened else {
            return Err(NoPlugin::NotOpened(tried.join("; ")));
        };
        let highest = self.native.min(self.choice.highest_abi);
        for abi in (1..=highest).rev() {
            let symbol = SYMBOLS[usize::from(abi) - 1];
            // SAFETY: the symbol is only compared and, below, read as the struct that its name promises.
            let Ok(found) = (unsafe { library.get::<*const v5::Profiler>(symbol.as_bytes()) })
            else {
                continue;
            };
            let seat = Seat {
                abi,
                native: self.native,
                version: version.0,
            };
            // SAFETY: the library is kept beside the table until the last communicator has ended.
            let table = unsafe { Table::new(seat, *found) };
            let missing = table.missing();
            if !missing.is_empty() {
                return Err(NoPlugin::NullEntry {
                    symbol,
                    entries: missing.join(", "),
                });
            }
            return Ok(Loaded {
                table,
                library: Some(library),
                uses: 0,
            });
        }
        let library = name
            .as_ref()
            .map_or("the program itself".into(), |n| n.to_string_lossy());
        Err(NoPlugin::NoSymbol {
            library: library.into_owned(),
            first: SYMBOLS[usize::from(highest) - 1],
            version: version.to_string(),
        })
    }
}

/// What NCCL would hand to dlopen, in order; `None` in the list stands for the program itself.
fn candidates(version: Version, value: Option<&str>) -> Result<Vec<Option<OsString>>, NoPlugin> {
    let value = match value {
        None | Some("") => return Ok(vec![Some("libnccl-profiler.so".into())]),
        Some(value) => value,
    };
    if version.0 >= 22800 && value.eq_ignore_ascii_case("none") {
        return Err(NoPlugin::SwitchedOff);
    }
    // A prefix is enough: NCCL compares over the length of the value.
    let word = "STATIC_PLUGIN";
    if word
        .get(..value.len())
        .is_some_and(|w| w.eq_ignore_ascii_case(value))
    {
        return Ok(vec![None]);
    }
    let value = if version.0 >= 22600 {
        // A buffer of 255 characters.
        value
            .char_indices()
            .nth(255)
            .map_or(value, |(at, _)| &value[..at])
    } else {
        value
    };
    let mut list = vec![Some(OsString::from(value))];
    let library = value.starts_with("lib") && value.ends_with(".so");
    let short = version.0 >= 22700 && !value.contains('/') && !library;
    if short || (22600..22700).contains(&version.0) {
        list.push(Some(format!("libnccl-profiler-{value}.so").into()));
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(version: u32, value: Option<&str>) -> Vec<String> {
        let list = candidates(Version(version), value).unwrap();
        let text = |c: Option<OsString>| c.map_or("self".into(), |n| n.into_string().unwrap());
        list.into_iter().map(text).collect()
    }

    #[test]
    fn plugin_is_looked_up_as_nccl_does() {
        assert_eq!(names(22809, None), ["libnccl-profiler.so"]);
        assert_eq!(names(22809, Some("")), ["libnccl-profiler.so"]);
        assert_eq!(names(22809, Some("x")), ["x", "libnccl-profiler-x.so"]);
        assert_eq!(names(22809, Some("/a/b.so")), ["/a/b.so"]);
        assert_eq!(names(22809, Some("libx.so")), ["libx.so"]);
        assert_eq!(
            names(22602, Some("libx.so")),
            ["libx.so", "libnccl-profiler-libx.so.so"]
        );
        assert_eq!(names(22304, Some("x")), ["x"]);
        for value in ["STATIC_PLUGIN", "static", "s"] {
            assert_eq!(names(22809, Some(value)), ["self"]);
        }
        assert_eq!(names(22707, Some("none")).len(), 2);
        assert_eq!(
            candidates(Version(22809), Some("None")),
            Err(NoPlugin::SwitchedOff)
        );
    }

    #[test]
    fn version_reads_and_prints() {
        assert_eq!(Version::parse("2.28.9"), Some(Version(22809)));
        assert_eq!(Version(23203).to_string(), "2.32.3");
        assert_eq!(Version::parse("2.28"), None);
        assert_eq!(Version::parse("2.28.9.1"), None);
    }
}
