//! What libnccl holds once per process, and once per communicator.

use super::log::LOG_LEVEL;
use super::search::{candidates, NoPlugin};
use super::table::{Identity, Table};
use super::version::Version;
use crate::event::{Event, Handle, Seat};
use crate::lock::lock;
use crate::nccl_log;
use core::ffi::c_int;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use nccl_abi::{event, v5, SYMBOLS};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::Relaxed};
use std::sync::Mutex;

/// Which plugin to load, and as which NCCL.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The release.
    pub version: Version,
    /// The value of `NCCL_PROFILER_PLUGIN`; `None` when unset.
    pub plugin: Option<String>,
    /// Symbols above this ABI are taken as absent, to try a plugin behind a shim.
    pub highest_abi: u8,
    /// Print what NCCL's logger gets at this level and below on stderr.
    pub log_level: c_int,
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
pub struct PluginContext {
    /// The plugin's struct.
    pub table: Table,
    /// What `init` gave.
    pub context: Handle,
    mask: &'static AtomicI32,
}

impl PluginContext {
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

/// A new mask. NCCL's is in its data segment, so a plugin may store to it until the process ends, and may
/// tell it from memory that is given back. Beyond 64 processes in one, masks are allocated.
fn mask() -> &'static AtomicI32 {
    static MASKS: [AtomicI32; 64] = [const { AtomicI32::new(0) }; 64];
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    MASKS
        .get(NEXT.fetch_add(1, Relaxed))
        .unwrap_or_else(|| Box::leak(Box::default()))
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
            mask: mask(),
        }
    }

    /// A process with a struct of this program as its plugin, for measuring what NCCL itself costs.
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
    pub fn init(&self, of: &Identity) -> Option<PluginContext> {
        let table = {
            let mut state = lock(&self.state);
            if let State::Ready = *state {
                let loaded = self.load();
                nccl_log::plugin(&match &loaded {
                    Ok(loaded) => {
                        let Seat { abi, .. } = loaded.table.seat;
                        format!("PROFILER/Plugin: Loaded {} (v{abi})", loaded.table.name())
                    }
                    Err(NoPlugin::NoSymbol { library, .. }) => {
                        format!("External profiler plugin {library} is unsupported")
                    }
                    Err(why) => format!("PROFILER/Plugin: {why}"),
                });
                *state = match loaded {
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
            tell!("fake-nccl: plugin's init returned {result}");
            match self.choice.version.0 {
                // One pointer for the whole process: profiling ends for every communicator.
                ..22800 => {
                    *lock(&self.state) = State::Off;
                    return None;
                }
                // Events go on with a null context. In a shim the pointers are not filled in, so it would
                // crash instead.
                22800..23000 if !table.seat.shimmed() => {}
                22800..23000 => {
                    tell!(
                        "fake-nccl: NCCL {} would now call through null in its v{} shim; \
                         profiling off",
                        self.choice.version,
                        table.seat.abi
                    );
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
        Some(PluginContext {
            table,
            context: if result == 0 { context } else { Handle::NULL },
            mask: self.mask,
        })
    }

    /// ncclCommDestroy or ncclCommAbort reached the end: `finalize`, and the last communicator unloads the
    /// library.
    pub fn finalize(&self, profiler: PluginContext) {
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
