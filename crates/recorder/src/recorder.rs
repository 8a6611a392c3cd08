//! The process's recorder: what each callback does to the live part.
//!
//! One [`Recorder`] serves the process from its first init to its end. Its state is the live part (shared memory that a
//! reader may look at any time) and small private tables that only help to find things. [`Receive`] is implemented here;
//! every method is safe to call from any thread, with any values. What it does for each kind of event is in the modules below.
//!
//! Who writes what: the thread in the API call writes a row's line A; the launching thread line B; the thread that
//! delivers kernel events line C; the network proxy's thread line D; the recorder's thread ([`crate::writer`]) seals
//! rows and writes the totals. Where NCCL breaks that rule, counts may be off by what was lost between two plain stores,
//! and nothing worse.

use crate::callbacks::{self, Callbacks};
use crate::clock::{self, Clock};
use crate::cuda::{self, Driver};
use crate::events::{Event, Init, Name, Receive, State};
use crate::gpu_events::{Ring, Rings, Switch};
use crate::handle::{Handle, Kind};
use crate::intern::{read, text_id, Interner};
use crate::lock::InitLock;
use crate::network::{Network, Start};
use crate::place::{self, Mapping, Names};
use crate::ring::FreeRing;
use crate::round::Round;
use crate::settings::{Mode, Settings, Timing};
use crate::templates::Templates;
use crate::{facts, totals, writer};
use capture::live::{
    row_state, Cause, Comm, Group, Header, Layout, Odd, Row, View, COMMS, GROUPS, HEADER_BYTES,
    MAGIC,
};
use capture::stamps;
use nccl_abi::names;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::OnceLock;

mod calls;
mod kernels;
mod launches;
mod proxy;

/// Channels that stamps are checked on; NCCL has at most 64.
const CHANNELS: usize = 64;
/// Launches of a communicator that wait for their plan to be announced.
const LAUNCHES: usize = 16;

/// Where the recorder is, in a private page that the kernel zeroes in a forked child: there, the parent's rows must not
/// be touched. One load of the page's address and one of its content are all that a callback pays for knowing both.
static PAGE: AtomicPtr<Page> = AtomicPtr::new(std::ptr::addr_of!(NONE).cast_mut());
/// The page before there is one.
static NONE: Page = Page {
    any: AtomicPtr::new(std::ptr::null_mut()),
    plain: AtomicPtr::new(std::ptr::null_mut()),
};
static INIT: InitLock = InitLock::new();

struct Page {
    any: AtomicPtr<Recorder>,
    /// The same, unless each callback has more to do than to tell the recorder: `callbacks` mode, or recording is off.
    plain: AtomicPtr<Recorder>,
}

fn page() -> &'static Page {
    // SAFETY: PAGE leads to NONE or to a page that is never unmapped.
    unsafe { &*PAGE.load(Acquire) }
}

/// The process's recorder, if there is one and this is the process that made it.
#[inline]
pub fn get() -> Option<&'static Recorder> {
    // SAFETY: null, or a box that this process leaked.
    unsafe { page().any.load(Acquire).as_ref() }
}

/// The process's recorder, where an event callback need look no further than [`Receive`].
#[inline(always)]
pub fn plain() -> Option<&'static Recorder> {
    // SAFETY: as above.
    unsafe { page().plain.load(Acquire).as_ref() }
}

/// Sends callbacks the plain way again, after a test switched recording off.
#[cfg(debug_assertions)]
pub fn resume() {
    if let Some(recorder) = get().filter(|r| r.callbacks.is_none()) {
        page()
            .plain
            .store(std::ptr::from_ref(recorder).cast_mut(), Release);
    }
}

/// Counts a panic that the guard caught.
pub fn count_panic() {
    if let Some(recorder) = get() {
        page().plain.store(std::ptr::null_mut(), Release);
        recorder.odd(Odd::Panic);
        recorder.header().state.store(2, Relaxed);
    }
}

/// The recorder, made at the process's first init (or a forked child's).
pub fn get_or_make() -> Option<&'static Recorder> {
    if let Some(recorder) = get() {
        return Some(recorder);
    }
    let _guard = INIT.lock();
    if let Some(recorder) = get() {
        return Some(recorder);
    }
    match Recorder::make() {
        Ok(recorder) => Some(recorder),
        Err(error) => {
            say(&format!("recording is off: {error}"));
            None
        }
    }
}

/// One line on stderr.
pub fn say(line: &str) {
    // Written in one call, so that lines of many ranks do not mix.
    let mut whole = format!("ncclscope: {line}\n");
    // Paths and settings may hold what a terminal obeys.
    if line.contains(char::is_control) {
        whole = whole.trim_end().replace(char::is_control, "?") + "\n";
    }
    // A pipe that nobody reads is no reason to wait, and one whose reader has gone no reason to die of SIGPIPE.
    let mut stderr = libc::pollfd {
        fd: 2,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one pollfd; the buffer is valid for its length.
    unsafe {
        if libc::poll(&mut stderr, 1, 100) == 1 && stderr.revents == libc::POLLOUT {
            libc::write(2, whole.as_ptr().cast(), whole.len());
        }
    }
}

/// A communicator, by its slot: what helps to find and check things, private to the process.
#[repr(C, align(64))]
pub struct CommState {
    /// The context that NCCL was given; 0 while free.
    context: AtomicU64,
    /// Uid in the live part; 0 free.
    uid: AtomicU32,
    /// Times this slot was used.
    generation: AtomicU32,
    abi: AtomicU8,
    /// Its CUDA events, where launches are timed by them.
    ring: AtomicPtr<Ring>,
    /// Start of the launch under way, ticks.
    launching_since: AtomicU64,
    /// Its stream, and whether it is timed ([`Timed::pack`]).
    launching_on: AtomicU64,
    launching_timed: AtomicU64,
    pushed: AtomicU32,
    popped: AtomicU32,
    launches: [Launch; LAUNCHES],
    channels: [Channel; CHANNELS],
}

impl Default for CommState {
    fn default() -> Self {
        CommState {
            context: AtomicU64::new(0),
            uid: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            abi: AtomicU8::new(0),
            ring: AtomicPtr::new(std::ptr::null_mut()),
            launching_since: AtomicU64::new(0),
            launching_on: AtomicU64::new(0),
            launching_timed: AtomicU64::new(0),
            launches: Default::default(),
            pushed: AtomicU32::new(0),
            popped: AtomicU32::new(0),
            channels: std::array::from_fn(|_| Channel::default()),
        }
    }
}

impl CommState {
    /// The communicator's CUDA events.
    #[inline]
    pub fn ring(&self) -> Option<&'static Ring> {
        // SAFETY: null, or a ring that is never dropped.
        unsafe { self.ring.load(Acquire).as_ref() }
    }
}

/// A kernel launch that waits for its plan's Group event.
#[derive(Default)]
struct Launch {
    group: AtomicU64,
    t0: AtomicU64,
    t1: AtomicU64,
    /// [`Timed::pack`].
    timed: AtomicU64,
    /// Slot + 1 of its first call's row; 0 while none is known.
    first_row: AtomicU32,
}

/// The newest stamps of a channel, whosever they were.
#[derive(Default)]
struct Channel {
    start: AtomicU64,
    stop: AtomicU64,
    group: AtomicU64,
    row: AtomicU64,
}

/// Ids of the strings that v1 passes as numbers.
struct Known {
    funcs: Vec<u8>,
    datatypes: Vec<u8>,
    algos: Vec<u8>,
    protos: Vec<u8>,
}

/// The recorder of one process. What callbacks read comes first and never changes; what others write lies apart.
#[repr(C, align(64))]
pub struct Recorder {
    pub clock: Clock,
    mask: u32,
    pid: i32,
    salt: u16,
    buffers: bool,
    header: &'static Header,
    rows: Round<Row>,
    groups: &'static [Group; GROUPS],
    comms: Box<[CommState; COMMS]>,
    pub free: FreeRing<Round<AtomicU32>, AtomicU64>,
    pub live: View<'static>,
    network: Network,
    interner: Interner,
    pub callbacks: Option<Callbacks>,
    pub settings: Settings,
    pub names: Names,
    known: Known,
    templates: Templates,
    mapping: Mapping,
    driver: OnceLock<Option<&'static Driver>>,
    pub rings: Rings,
    pub switch: Switch,
    next_uid: AtomicU32,
    comms_alive: AtomicU32,
    said_hello: AtomicBool,
    pub writer: writer::Control,
}

impl Recorder {
    fn make() -> std::io::Result<&'static Recorder> {
        let settings = Settings::from_env();
        for complaint in &settings.complaints {
            say(complaint);
        }
        let clock = Clock::choose();
        let random = random();
        let names = place::names(&settings, random);
        let layout = Layout::for_memory(settings.memory);
        let ring = if settings.mode == Mode::Callbacks {
            callbacks::RING
        } else {
            0
        };
        place::spare_memory(layout.bytes() + ring)?;
        let mapping = place::live_part(&settings, &names, random, layout.bytes())?;
        if let Some(warning) = &mapping.warning {
            say(warning);
        }
        // SAFETY: the mapping is new, zeroed, page aligned, as long as said, and is never unmapped.
        let live: View<'static> = unsafe { View::create(mapping.base, &layout) };
        let preload = |list: &[&str]| {
            list.iter()
                .map(|text| text_id(&live, text.as_bytes()))
                .collect::<Vec<u8>>()
        };
        let known = Known {
            funcs: preload(&names::FUNCS),
            datatypes: names::DATATYPES
                .iter()
                .map(|d| text_id(&live, d.name.as_bytes()))
                .collect(),
            algos: preload(&names::ALGOS),
            protos: preload(&names::PROTOS),
        };
        let callbacks = (settings.mode == Mode::Callbacks)
            .then(Callbacks::new)
            .transpose()?;
        let odd_size = || std::io::Error::other("the live part has tables of an odd size");
        let cells: Box<[AtomicU32]> = (0..layout.rows).map(AtomicU32::new).collect();
        // Leaked like the recorder, which is never dropped.
        let cells: &'static [AtomicU32] = Box::leak(cells);
        let recorder = Box::leak(Box::new(Recorder {
            live,
            header: live.header(),
            clock,
            free: FreeRing::new(Round::new(cells).ok_or_else(odd_size)?, AtomicU64::new(0)),
            comms: array((0..layout.comms).map(|_| CommState::default()).collect()),
            callbacks,
            writer: writer::Control::default(),
            salt: (random >> 32) as u16 | 1,
            pid: std::process::id() as i32,
            rows: Round::new(live.rows()).ok_or_else(odd_size)?,
            groups: live.groups().try_into().map_err(|_| odd_size())?,
            templates: Templates::new(),
            network: Network::new(live.net_ops()).ok_or_else(odd_size)?,
            interner: Interner::new(),
            known,
            mask: settings.mask(),
            driver: OnceLock::new(),
            rings: Rings::new(),
            switch: Switch::new((settings.timing == Timing::Auto).then_some(settings.budget)),
            buffers: settings.mode == Mode::Full,
            next_uid: AtomicU32::new(1),
            comms_alive: AtomicU32::new(0),
            said_hello: AtomicBool::new(false),
            settings,
            names,
            mapping,
        }));
        recorder.fill_in_header(random);
        publish(recorder)?;
        writer::start(recorder);
        Ok(recorder)
    }

    fn fill_in_header(&self, trace_id: u64) {
        let header = self.header();
        header.trace_id.store(trace_id, Relaxed);
        header.pid.store(self.pid as u32, Relaxed);
        header.clock.store(self.clock as u32, Relaxed);
        header.pid_start.store(facts::pid_start(), Relaxed);
        header.pid_namespace.store(facts::pid_namespace(), Relaxed);
        let anchor = self.clock.anchor();
        clock::store(&header.first, &header.anchor_version, anchor);
        clock::store(&header.last, &header.anchor_version, anchor);
        let process = facts::process_lines(self, &self.mapping.place, anchor[2]);
        for (to, from) in header.process.iter().zip(process.bytes()) {
            to.store(from, Relaxed);
        }
        header
            .process_len
            .store(process.len().min(header.process.len()) as u32, Release);
        header.magic.store(MAGIC, Release);
        const { assert!(std::mem::size_of::<Header>() <= HEADER_BYTES) };
    }

    /// The live part's header.
    #[inline]
    pub fn header(&self) -> &'static Header {
        self.header
    }

    /// Where the live part is: a path, or `memfd`.
    pub fn live_place(&self) -> &str {
        &self.mapping.place
    }

    /// The events asked of NCCL.
    pub fn mask(&self) -> u32 {
        self.mask
    }

    #[cold]
    fn odd(&self, what: Odd) {
        self.header().odd[what as usize].fetch_add(1, Relaxed);
    }

    #[inline]
    fn encode(&self, kind: Kind, channel: u8, slot: u32, generation: u64) -> u64 {
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
        if !matches!(self.settings.timing, Timing::Auto | Timing::Events) {
            return None;
        }
        let find = || Driver::find().map(|driver| &*Box::leak(Box::new(driver)));
        *self.driver.get_or_init(find)
    }

    /// The CUDA events of the communicator in this slot.
    pub fn ring_of(&self, slot: usize) -> Option<&'static Ring> {
        self.comms[slot].ring()
    }

    /// The CUDA events of a new communicator, or null: not asked for, no driver, or a release that does not say when it
    /// launches.
    fn ring(&self, abi: u8) -> *mut Ring {
        let ring = (abi >= 5)
            .then(|| self.rings.take(self.driver()?))
            .flatten();
        ring.map_or(std::ptr::null_mut(), |ring| {
            // From 2.29 on NCCL tells of a Broadcast's launch no more.
            if abi >= 6 {
                ring.learn(self.broadcast(), false);
            }
            std::ptr::from_ref(ring).cast_mut()
        })
    }

    fn ignored(&self) -> u64 {
        self.encode(Kind::Ignored, 0, 0, 0)
    }

    /// Counts a handle that this process did not give out.
    #[cold]
    fn foreign(&self, given: u64) {
        self.odd(if given == 0 {
            Odd::NullHandle
        } else {
            Odd::ForeignHandle
        });
    }

    #[inline(always)]
    fn name(&self, name: Name) -> u8 {
        match name {
            Name::Text(pointer) => self.interner.pointer(&self.live, pointer),
            Name::Known(id) => id,
        }
    }

    /// The id of Broadcast's name.
    pub fn broadcast(&self) -> u8 {
        self.known.funcs[BROADCAST]
    }

    /// Ids of the algorithms whose stamps of the end come too early.
    pub fn early_algorithms(&self) -> Vec<u8> {
        let named = names::ALGOS.iter().zip(&self.known.algos);
        named
            .filter(|(name, _)| stamps::stops_early(name))
            .map(|(_, id)| *id)
            .collect()
    }

    /// The id of a v1 number's name; 0 when it has none.
    pub fn known_func(&self, value: u8) -> Name {
        Name::Known(
            self.known
                .funcs
                .get(usize::from(value))
                .copied()
                .unwrap_or(0),
        )
    }

    /// See [`Recorder::known_func`].
    pub fn known_datatype(&self, value: u8) -> Name {
        Name::Known(
            self.known
                .datatypes
                .get(usize::from(value))
                .copied()
                .unwrap_or(0),
        )
    }

    /// See [`Recorder::known_func`].
    pub fn known_algo(&self, value: u8) -> Name {
        Name::Known(
            self.known
                .algos
                .get(usize::from(value))
                .copied()
                .unwrap_or(0),
        )
    }

    /// See [`Recorder::known_func`].
    pub fn known_proto(&self, value: u8) -> Name {
        Name::Known(
            self.known
                .protos
                .get(usize::from(value))
                .copied()
                .unwrap_or(0),
        )
    }

    /// The communicator of a context.
    #[inline]
    fn comm(&self, context: u64) -> Option<(u8, &CommState)> {
        let slot = self.read(context).slot() as u8;
        let comm = &self.comms[usize::from(slot)];
        // A free entry holds 0, which a program may pass as well.
        if comm.context.load(Acquire) == context && context != 0 {
            return Some((slot, comm));
        }
        self.odd(Odd::StaleContext);
        None
    }

    #[inline]
    fn row_at(&self, slot: u32) -> &'static Row {
        self.rows.at(slot as usize)
    }

    /// The live row of a handle that names one.
    #[inline]
    fn row(&self, handle: Handle) -> Option<&'static Row> {
        let row = self.row_at(handle.slot());
        let word = row.word.load(Acquire);
        if word & 3 == row_state::ALIVE && row_state::generation(word) as u32 == handle.generation()
        {
            return Some(row);
        }
        self.odd(Odd::StaleHandle);
        None
    }

    /// Takes a row and publishes it; the handle is of `kind`. Without a free row the call is counted in the totals.
    #[inline(always)]
    fn birth(&self, kind: Kind, comm: u32, call: &Birth) -> Option<(Handle, &'static Row)> {
        let Some((ticket, slot)) = self.free.take(&self.header().born) else {
            // One by one, so that the call needn't be in memory on the way that calls take.
            self.rowless(comm, call.count, [call.func, call.datatype], call.flags);
            return None;
        };
        let row = self.row_at(slot);
        let next = self.row_at(self.free.next_of(ticket));
        prefetch(&next.word);
        prefetch(&next.t_launch0);
        let generation = row_state::generation(row.word.load(Relaxed));
        row.t_api.store(call.t, Relaxed);
        row.count.store(call.count, Relaxed);
        row.group.store(call.group, Relaxed);
        row.stream.store(call.stream, Relaxed);
        row.comm.store(comm, Relaxed);
        row.root.store(call.root as u32, Relaxed);
        row.func.store(call.func, Relaxed);
        row.datatype.store(call.datatype, Relaxed);
        row.flags.store(call.flags, Relaxed);
        row.template.store(call.template, Relaxed);
        row.t_end.store(0, Relaxed);
        // Meets the Acquire in `row` and in the writer.
        row.word.store(
            row_state::word(generation, ticket, row_state::ALIVE),
            Release,
        );
        Some((Handle::new(kind, 0, slot, generation), row))
    }

    #[cold]
    fn rowless(&self, comm: u32, count: u64, names: [u8; 2], flags: u8) {
        let header = self.header();
        header.lost[Cause::RowsFull as usize].fetch_add(1, Relaxed);
        match totals::total(&self.live, &totals::key_of_birth(comm, count, names, flags)) {
            Some(total) => total.1.rowless.fetch_add(1, Relaxed),
            None => header.lost[Cause::TotalsFull as usize].fetch_add(1, Relaxed),
        };
    }

    /// The group of a handle that names one.
    #[inline]
    fn group_at(&self, handle: Handle) -> Option<(u64, &'static Group)> {
        let group = &self.groups[handle.ticket() as usize % GROUPS];
        let word = group.word.load(Relaxed);
        handle
            .is_ticket(word.wrapping_sub(1))
            .then_some((word, group))
    }

    /// A communicator's slot, by uid: uids are given out in order and slots reused, so the place is looked up.
    #[inline]
    fn comm_of(&self, uid: u32) -> Option<&CommState> {
        let guess = &self.comms[uid.wrapping_sub(1) as usize % COMMS];
        if guess.uid.load(Relaxed) == uid {
            return Some(guess);
        }
        self.comms.iter().find(|c| c.uid.load(Relaxed) == uid)
    }

    /// What a kernel or network event gets whose parent is no task; `asked` if it would have to be one.
    #[cold]
    fn unowned(&self, parent: u64, asked: bool) -> u64 {
        match self.read(parent).kind() {
            Some(Kind::Rowless) => return self.encode(Kind::Rowless, 0, 0, 0),
            Some(_) if asked => self.odd(Odd::Orphan),
            Some(_) => {}
            None => self.foreign(parent),
        }
        self.ignored()
    }

    /// A state that changes nothing, or that does not fit its handle.
    #[inline(never)]
    fn other_state(&self, given: u64, known: bool) {
        match self.read(given).kind() {
            None => self.foreign(given),
            Some(Kind::Ignored | Kind::Rowless) if known => {}
            Some(_) => self.odd(Odd::UnknownState),
        }
    }
}

/// Index of Broadcast in `names::FUNCS`.
const BROADCAST: usize = 0;

/// What is known of a call when it is announced.
pub struct Birth {
    pub t: u64,
    pub count: u64,
    pub group: u64,
    pub stream: u64,
    pub root: i32,
    pub func: u8,
    pub datatype: u8,
    pub flags: u8,
    pub template: u32,
}

impl Receive for Recorder {
    fn init(&self, init: &Init) -> (u64, u32) {
        let gpu = cuda::current_gpu();
        let _guard = INIT.lock();
        let comms = self.live.comms();
        // A process may drive several ranks of a communicator, so only the same rank says that this is another one.
        let same = |c: &&Comm| {
            c.uid.load(Relaxed) != 0
                && init.hash != 0
                && c.hash.load(Relaxed) == init.hash
                && c.nranks.load(Relaxed) == init.nranks as u32
                && c.rank.load(Relaxed) == init.rank as u32
        };
        let generation = comms.iter().filter(same).count();
        // The oldest finalized slot is reused last of all the free ones, so that its calls are long sealed by then.
        let slot = (0..comms.len())
            .find(|i| comms[*i].uid.load(Relaxed) == 0)
            .or_else(|| {
                let finalized =
                    |i: &usize| comms[*i].finalized.load(Relaxed) != 0 && self.writer.idle(*i);
                (0..comms.len())
                    .filter(finalized)
                    .min_by_key(|i| comms[*i].t_final.load(Relaxed))
            });
        let Some(slot) = slot else {
            self.odd(Odd::CommsFull);
            return (self.encode(Kind::Context, 0, u32::MAX, 0), self.mask);
        };
        let uid = self.next_uid.fetch_add(1, Relaxed);
        let (comm, state) = (&comms[slot], &self.comms[slot]);
        fill_in_comm(
            comm,
            init,
            gpu.as_ref(),
            generation as u32,
            self.clock.ticks(),
        );
        state.abi.store(init.abi, Relaxed);
        state.pushed.store(0, Relaxed);
        state.popped.store(0, Relaxed);
        for channel in &state.channels {
            channel.start.store(0, Relaxed);
            channel.stop.store(0, Relaxed);
        }
        state.launching_timed.store(0, Relaxed);
        let ring = self.ring(init.abi);
        state.ring.store(ring, Release);
        let turn = state.generation.load(Relaxed).wrapping_add(1);
        state.generation.store(turn, Relaxed);
        let context = self.encode(Kind::Context, 0, slot as u32, turn.into());
        comm.uid.store(uid, Release);
        state.uid.store(uid, Release);
        state.context.store(context, Release);
        self.comms_alive.fetch_add(1, Relaxed);
        self.header().state.store(0, Relaxed);
        self.writer.definitions_changed();
        if !self.said_hello.swap(true, Relaxed) {
            facts::hello(self);
        }
        (context, self.mask)
    }

    // Inlined into each adapter's entry point for the event's type: the event is then never built in memory, and the match
    // is done when compiling.
    #[inline(always)]
    fn start(&self, context: u64, kind: u64, parent: u64, event: Event) -> u64 {
        if self.mask & kind as u32 == 0
            && kind & (nccl_abi::event::GROUP_API | nccl_abi::event::GROUP) == 0
        {
            self.header().unrequested.fetch_add(1, Relaxed);
        }
        match event {
            Event::GroupApi { captured, depth } => self.start_group(context, captured, depth),
            Event::Api(api) => self.start_api(context, parent, &api),
            Event::KernelLaunch { stream } => self.start_launch(context, parent, stream),
            Event::Group => match self.comm(context) {
                Some((slot, _)) => self.encode(Kind::Plan, slot, 0, 0),
                None => self.ignored(),
            },
            Event::Task(task) => self.start_task(context, parent, &task),
            Event::CeColl {
                sequence,
                batches,
                buffers,
                user_tag,
            } => self.start_copy_engine(parent, sequence, batches, buffers, user_tag),
            Event::ProxyOp {
                pid,
                channel,
                send,
                peer,
                steps,
            } => self.start_op(parent, pid, |row, now| Start {
                row,
                channel,
                send,
                peer,
                steps,
                now,
            }),
            Event::ProxyStep { number } => self.start_step(parent, number),
            Event::KernelCh { channel, stamp } => {
                self.start_kernel(context, parent, channel, stamp)
            }
            Event::KernelPhase { phase } => {
                let kernel = self.read(parent);
                if kernel.is(Kind::KernelCh) {
                    self.give(kernel.renamed(Kind::Phase, phase))
                } else {
                    self.unowned(parent, false)
                }
            }
            Event::Ignored => self.ignored(),
            Event::Unknown => {
                self.odd(Odd::UnknownType);
                self.ignored()
            }
        }
    }

    #[inline(always)]
    fn stop(&self, given: u64, bits: Option<usize>) {
        let handle = self.read(given);
        let handle = bits.map_or(handle, |bits| handle.of_bits(bits));
        match handle.kind() {
            Some(Kind::Task) => self.stop_task(handle),
            Some(Kind::Api | Kind::Template | Kind::Rowless | Kind::Ignored | Kind::Phase) => {}
            Some(Kind::Launch) => self.stop_launch(handle),
            Some(Kind::Plan) => self.stop_plan(handle),
            Some(Kind::GroupApi) => self.stop_group(handle),
            Some(Kind::KernelCh) => self.stop_kernel(handle),
            Some(Kind::ProxyOp) => self.stop_op(handle),
            Some(Kind::ProxyStep) => self.step(handle, None),
            Some(Kind::Context) => self.odd(Odd::ForeignHandle),
            None => self.foreign(given),
        }
    }

    #[inline(always)]
    fn state(&self, given: u64, state: State) {
        let handle = self.read(given);
        match state {
            State::KernelStop { stamp } if handle.is(Kind::KernelCh) => {
                self.kernel_stopped(handle, stamp);
            }
            State::GroupClosing if handle.is(Kind::GroupApi) => self.group_closes(handle),
            State::Step { wait, bytes } if handle.is(Kind::ProxyStep) => {
                self.step(handle, Some((wait, bytes)));
            }
            State::OpProgress { bytes } if handle.is(Kind::ProxyOp) => {
                if let Some(op) = self.network.op(handle) {
                    op.bytes.store(bytes, Relaxed);
                    op.begun.store(1, Relaxed);
                }
            }
            State::OpBegun if handle.is(Kind::ProxyOp) => {
                if let Some(op) = self.network.op(handle) {
                    op.begun.store(1, Relaxed);
                }
            }
            State::PhaseStop { stamp } if handle.is(Kind::Phase) => {
                if let Some(phase) = self
                    .row(handle)
                    .and_then(|row| row.phase_stop.get(usize::from(handle.channel())))
                {
                    phase.store(phase.load(Relaxed).max(stamp), Relaxed);
                }
            }
            State::Ignored | State::GroupOpened if handle.kind().is_some() => {}
            State::Unknown => self.other_state(given, false),
            _ => self.other_state(given, true),
        }
    }

    fn finalize(&self, context: u64) {
        let Some((slot, state)) = self.comm(context) else {
            return;
        };
        let _guard = INIT.lock();
        let comm = &self.live.comms()[usize::from(slot)];
        comm.t_final.store(self.clock.ticks(), Relaxed);
        comm.finalized.store(1, Release);
        state.context.store(0, Release);
        state.uid.store(0, Release);
        if let Some(ring) = state.ring() {
            ring.close();
        }
        self.writer.definitions_changed();
        if self.comms_alive.fetch_sub(1, Relaxed) == 1 {
            // The last communicator: NCCL will dlclose us (in vain) and may itself be unloaded.
            self.interner.forget();
            self.writer.flush();
        }
    }
}

/// A table of fixed size, made on the heap.
pub fn array<T, const N: usize>(entries: Box<[T]>) -> Box<[T; N]> {
    entries
        .try_into()
        .unwrap_or_else(|_| unreachable!("made with the layout's size"))
}

fn fill_in_comm(comm: &Comm, init: &Init, gpu: Option<&cuda::Gpu>, generation: u32, now: u64) {
    let mut bytes = [0u8; 96];
    let name: &[u8] = if init.name.is_null() {
        &[]
    } else {
        read(init.name, &mut bytes)
    };
    comm.abi.store(init.abi.into(), Relaxed);
    comm.hash.store(init.hash, Relaxed);
    comm.nranks.store(init.nranks as u32, Relaxed);
    comm.nnodes.store(init.nnodes as u32, Relaxed);
    comm.rank.store(init.rank as u32, Relaxed);
    comm.generation.store(generation, Relaxed);
    comm.device
        .store(gpu.map_or(u32::MAX, |g| g.ordinal as u32), Relaxed);
    comm.finalized.store(0, Relaxed);
    comm.t_init.store(now, Relaxed);
    comm.t_final.store(0, Relaxed);
    for (to, from) in comm.gpu.iter().zip(gpu.map_or([0; 2], |g| g.uuid)) {
        to.store(from, Relaxed);
    }
    for (to, from) in comm.name.iter().zip(name) {
        to.store(*from, Relaxed);
    }
    comm.name_len.store(name.len() as u32, Relaxed);
    // SAFETY: a plain system call.
    comm.tid
        .store(unsafe { libc::syscall(libc::SYS_gettid) } as u32, Relaxed);
}

/// A number that tells the calling thread from others, without a system call.
#[inline]
fn this_thread() -> u64 {
    // SAFETY: always succeeds.
    unsafe { libc::pthread_self() as u64 }
}

/// Asks for the cache line at `line`, to be written soon. What a call writes first was last touched by the recorder's
/// thread, so it is in another core's cache; and the locked instruction of the next birth would wait for the stores.
#[inline]
fn prefetch<T>(line: *const T) {
    // SAFETY: a hint that never faults; CPUs without it take it for a no-op.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags))
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

fn random() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: the buffer is as long as said.
    let got = unsafe {
        libc::syscall(
            libc::SYS_getrandom,
            bytes.as_mut_ptr(),
            bytes.len(),
            libc::GRND_NONBLOCK,
        )
    };
    let entropy = if got == 8 {
        u64::from_le_bytes(bytes)
    } else {
        0
    };
    entropy ^ clock::nanoseconds(libc::CLOCK_REALTIME) ^ u64::from(std::process::id()) << 32
}

/// Makes `recorder` the one that [`get`] gives, in a page that is mapped at the first time.
fn publish(recorder: *mut Recorder) -> std::io::Result<()> {
    if std::ptr::eq(page(), &NONE) {
        // SAFETY: a new anonymous mapping.
        let fresh = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if fresh == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the page is ours. On kernels before 4.14 the advice fails; a child that calls NCCL there is on its own.
        unsafe { libc::madvise(fresh, 4096, libc::MADV_WIPEONFORK) };
        PAGE.store(fresh.cast(), Release);
    }
    // SAFETY: the recorder lives as long as the process.
    if unsafe { &*recorder }.callbacks.is_none() {
        page().plain.store(recorder, Release);
    }
    page().any.store(recorder, Release);
    Ok(())
}

// SAFETY: the mapping's raw pointer is only used through `live`, which hands out atomics.
unsafe impl Sync for Recorder {}
// SAFETY: as above.
unsafe impl Send for Recorder {}
