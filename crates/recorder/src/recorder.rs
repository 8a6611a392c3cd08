//! The process's recorder: what each callback does to the live part.
//!
//! One [`Recorder`] serves the process from its first init to its end. Its state is the live part (shared
//! memory that a reader may look at any time) and small private tables that only help to find things.
//! Callbacks find the recorder through [`fork_page`]. `dispatch` then gives each event to the file that
//! handles it:
//!
//! - `communicators`: init, finalize, and the slot between them
//! - `calls`: groups, API events, tasks and plans
//! - `launches`: kernel launches, and the CUDA events around them
//! - `kernels`: the stamps of each channel
//! - `proxy`: network operations and their steps
//!
//! These use `rows` (how a call gets a row, and the life of a row as a chart) and `names` (ids of names).
//! `making` makes a recorder, and [`crate::startup`] sets it to work. [`messages`] has what the user is told.
//!
//! Every method is safe to call from any thread, with any values.
//!
//! Rule: each line of a row has one writing thread. Line A belongs to the thread in the API call, and line B
//! to the launching thread. Line C belongs to the thread that delivers kernel events, and line D to the
//! network proxy's thread. The recorder's own thread ([`crate::writer`]) seals rows and writes the totals. If
//! NCCL breaks the rule, a count may be off by what two plain stores lose, and nothing worse happens.

use crate::array;
use crate::callbacks::Callbacks;
use crate::chain::Chain;
use crate::clock::Clock;
use crate::control::Control;
use crate::cuda::{CaptureQuery, Driver};
use crate::free_ring::FreeRing;
use crate::gpu_events::{Ring, Rings, Switch};
use crate::graphs::Graphs;
use crate::handle::{Handle, HandleKind};
use crate::intern::Interner;
use crate::mask::Masks;
use crate::mpi::Mpi;
use crate::network::Network;
use crate::place::{FileNames, Mapping};
use crate::ranges::{NoRanges, Ranges};
use crate::round::Round;
use crate::seats::{Inside, Seats};
use crate::settings::{Settings, When};
use crate::stacks::Stacks;
use crate::stream_waits::StreamWaits;
use crate::templates::Templates;
use crate::threads::Threads;
use crate::watch::Watch;
use capture::live::{Group, Header, Odd, Row, Section, View, GROUPS};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

mod calls;
mod comm_table;
mod communicators;
mod dispatch;
pub mod fork_page;
mod kernels;
mod launches;
mod making;
pub mod messages;
mod names;
mod proxy;
mod rows;

pub use calls::Returned;
pub use comm_table::CommTable;
use names::Known;

/// The recorder of one process. What callbacks read comes first and never changes; what others write lies
/// apart.
#[repr(C, align(64))]
pub struct Recorder {
    pub clock: Clock,
    mask: u32,
    pid: i32,
    salt: u16,
    buffers: bool,
    /// Who called NCCL, if that is asked for.
    pub stacks: Option<Stacks>,
    /// Tools that get each call as a range, if that is asked for.
    ranges: Option<Ranges>,
    /// Why tools that were asked for get none.
    pub no_ranges: Vec<NoRanges>,
    /// Why the program's ranges are not read, if they are to be.
    pub no_steps: Option<String>,
    /// Whether rows take the stamps of kernel events. Not if these are only recorded, because then GPU times
    /// come from elsewhere.
    folds_stamps: bool,
    header: &'static Header,
    pub rows: Round<Row>,
    groups: &'static [Group; GROUPS],
    pub comms: CommTable,
    pub free: FreeRing<Round<AtomicU32>, AtomicU64>,
    pub seats: Seats,
    threads: Threads,
    pub live: View<'static>,
    network: Network,
    interner: Interner,
    pub callbacks: Option<Callbacks>,
    /// Another plugin behind this one, if that is asked for.
    pub chain: Option<Chain>,
    pub settings: Settings,
    pub names: FileNames,
    known: Known,
    templates: Templates,
    pub graphs: Graphs,
    capture_query: OnceLock<Option<CaptureQuery>>,
    /// Looks for new callers of the driver; the second time with `true` even if nothing was loaded.
    watch_driver: fn(Watch, again: bool),
    mapping: Mapping,
    driver: OnceLock<Option<&'static Driver>>,
    pub rings: Rings,
    pub switch: Switch,
    pub waits: StreamWaits,
    pub masks: Masks,
    pub mpi: Mpi,
    next_uid: AtomicU32,
    /// Slots of communicators that were given out.
    comms_used: AtomicU32,
    /// How many communicators with a hash, size and rank there were.
    generations: Mutex<HashMap<(u64, i32, i32), u32>>,
    /// Rows that there were at first.
    first_rows: usize,
    comms_alive: AtomicU32,
    said_hello: AtomicBool,
    pub writer: Control,
}

impl Recorder {
    /// The live part's header.
    #[inline]
    pub fn header(&self) -> &'static Header {
        self.header
    }

    /// Where the live part is.
    pub fn live_place(&self) -> &str {
        &self.mapping.place
    }

    /// Removes the live part's name. What is mapped stays.
    pub fn remove_live_part(&self) {
        self.mapping.remove();
    }

    /// The events asked of NCCL.
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// From here on, rows that are looked up stay with their call until the guard is dropped.
    #[inline(always)]
    fn inside(&self) -> Inside<'_> {
        self.seats.enter()
    }

    #[cold]
    fn odd(&self, what: Odd) {
        self.odds(what, 1);
    }

    #[cold]
    fn odds(&self, what: Odd, times: u64) {
        self.header().odd[what as usize].fetch_add(times, Relaxed);
    }

    #[inline]
    fn encode(&self, kind: HandleKind, channel: u8, slot: u32, generation: u64) -> u64 {
        self.give(Handle::new(kind, channel, slot, generation))
    }

    #[inline]
    fn give(&self, handle: Handle) -> u64 {
        handle.give(self.salt)
    }

    /// What NCCL handed back.
    #[inline]
    pub fn read(&self, given: u64) -> Handle {
        Handle::read(given, self.salt)
    }

    /// The CUDA driver's functions, where the process has a driver and launches are timed by its events.
    pub fn driver(&self) -> Option<&'static Driver> {
        if !self.settings.times_by_events() {
            return None;
        }
        let find = || array::leaked(Driver::find()?);
        *self.driver.get_or_init(find)
    }

    /// Whether a communicator lives.
    pub fn has_communicators(&self) -> bool {
        self.comms_alive.load(Relaxed) != 0
    }

    /// Whether a callback only has to hand its event on to this.
    pub fn is_plain(&self) -> bool {
        self.callbacks.is_none() && self.chain.is_none()
    }

    /// How many network operations were taken out of their table before they were stopped.
    pub fn revoked_net_ops(&self) -> u64 {
        self.network.revoked.load(Relaxed)
    }

    /// Makes sure that what calls the driver is seen, as far as it is to be.
    pub fn look_for_callers(&self, again: bool) {
        let watch = Watch {
            graphs: self.settings.graphs,
            windows: self.settings.windows != When::Off,
            waits: self.settings.waits,
            counts: self.settings.graphs,
        };
        if watch != Watch::default() {
            (self.watch_driver)(watch, again);
        }
    }

    /// The number of the calling thread; 0 not known.
    #[inline]
    pub fn thread(&self) -> u32 {
        self.threads.number()
    }

    /// The graph that a stream is captured into.
    pub fn graph_of(&self, stream: u64) -> Option<u64> {
        let query = self.capture_query.get_or_init(CaptureQuery::find);
        query.as_ref()?.graph(stream)
    }

    /// The CUDA events of the communicator in this slot.
    pub fn ring_of(&self, slot: usize) -> Option<&'static Ring> {
        self.comms.at(slot as u16).ring()
    }

    /// Makes a section longer, from `from` elements to `to`. False if there is no room for that.
    pub fn grow(&self, section: Section, from: usize, to: usize) -> bool {
        let Some((at, bytes)) = self.live.bytes_of(section, from, to) else {
            return false;
        };
        if self.mapping.allocate(at, bytes).is_err() {
            return false;
        }
        // SAFETY: just allocated, so zeroed and there.
        unsafe { self.live.grow(section, to) };
        true
    }
}

// SAFETY: the mapping's raw pointer is only used through `live`, which hands out atomics.
unsafe impl Sync for Recorder {}
// SAFETY: as above.
unsafe impl Send for Recorder {}
