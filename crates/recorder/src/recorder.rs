//! The process's recorder: what each callback does to the live part.
//!
//! One [`Recorder`] serves the process from its first init to its end. Its state is the live part (shared memory that a
//! reader may look at any time) and small private tables that only help to find things. [`Receive`] is implemented here;
//! every method is safe to call from any thread, with any values.
//!
//! Who writes what: the thread in the API call writes a row's line A; the launching thread line B; the thread that
//! delivers kernel events line C; the network proxy's thread line D; the recorder's thread ([`crate::writer`]) seals
//! rows and writes the totals. Where NCCL breaks that rule, counts may be off by what was lost between two plain stores,
//! and nothing worse.

use crate::callbacks::{self, Callbacks};
use crate::clock::{self, Clock};
use crate::cuda::{self, Driver};
use crate::events::{Api, Event, Init, Name, Receive, State, Task};
use crate::gpu_events::{Ring, Rings, Switch, Timed};
use crate::handle::{Handle, Kind};
use crate::intern::{read, text_id, Interner};
use crate::lock::InitLock;
use crate::network::{Network, Start, RECV_FLUSH, SEND_NETWORK};
use crate::place::{self, Mapping, Names};
use crate::ring::FreeRing;
use crate::round::Round;
use crate::settings::{Mode, Settings, Timing};
use crate::templates::Templates;
use crate::{facts, totals, writer};
use capture::live::{
    flag, part, row_state, verdict, Cause, Comm, Group, Header, Layout, Odd, Row, View, COMMS,
    GROUPS, HEADER_BYTES, MAGIC,
};
use capture::net_op::NetOp;
use capture::stamps;
use nccl_abi::names;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::OnceLock;

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

    #[inline]
    fn start_group(&self, context: u64, captured: bool, depth: i32) -> u64 {
        let Some((comm_slot, comm)) = self.comm(context) else {
            return self.ignored();
        };
        if let Some(ring) = comm.ring() {
            ring.called_by(this_thread());
        }
        let ticket = self.header().groups_seen.fetch_add(1, Relaxed);
        let group = &self.groups[ticket as usize % GROUPS];
        prefetch(&self.groups[(ticket as usize + 1) % GROUPS]);
        group.comm.store(comm.uid.load(Relaxed), Relaxed);
        group.calls.store(0, Relaxed);
        group.t_start.store(0, Relaxed);
        group.t_closing.store(0, Relaxed);
        group.t_stop.store(0, Relaxed);
        group.first_row.store(0, Relaxed);
        group.launches.store(0, Relaxed);
        group.captured.store(captured.into(), Relaxed);
        group.depth.store(depth as u8, Relaxed);
        group.word.store(ticket + 1, Release);
        self.give(Handle::of_ticket(Kind::GroupApi, comm_slot, ticket))
    }

    #[inline(always)]
    fn start_api(&self, context: u64, parent: u64, api: &Api) -> u64 {
        let t = self.clock.ticks();
        let Some((comm_slot, comm)) = self.comm(context) else {
            return self.ignored();
        };
        let uid = comm.uid.load(Relaxed);
        // A group's context is that of its first call, so the parent may belong to another communicator.
        let parent = self.read(parent);
        let group = if parent.is(Kind::GroupApi) {
            self.group_at(parent)
        } else {
            None
        };
        let mut flags = if api.p2p { flag::P2P } else { 0 };
        if api.captured {
            flags |= flag::CAPTURED;
        }
        let call = Birth {
            t,
            count: api.count,
            group: group.map_or(0, |(word, _)| word),
            stream: api.stream,
            root: api.root,
            func: self.name(api.func),
            datatype: self.name(api.datatype),
            flags,
            template: 0,
        };
        let born = self.birth(Kind::Api, uid, &call);
        if let Some((_, group)) = group {
            let calls = group.calls.load(Relaxed);
            if calls == 0 {
                group.t_start.store(t, Relaxed);
                let first = born.map_or(0, |(handle, _)| handle.slot() + 1);
                group.first_row.store(first, Relaxed);
            }
            group.calls.store(calls.wrapping_add(1), Relaxed);
        }
        let handle = match born {
            Some((handle, row)) => {
                if api.user_tag != 0 {
                    row.user_tag.store(api.user_tag, Relaxed);
                }
                self.give(handle)
            }
            None => self.encode(Kind::Rowless, 0, 0, 0),
        };
        if api.captured {
            let group = call.group;
            return self.template(
                comm_slot,
                uid,
                api,
                group,
                [call.func, call.datatype],
                handle,
            );
        }
        handle
    }

    // Inlined, so that the call needn't be in memory on the way that other calls take.
    #[inline(always)]
    fn template(
        &self,
        comm_slot: u8,
        uid: u32,
        api: &Api,
        group: u64,
        names: [u8; 2],
        row: u64,
    ) -> u64 {
        let Some((number, template)) = self.templates.add() else {
            self.header().lost[Cause::TemplatesFull as usize].fetch_add(1, Relaxed);
            return row;
        };
        template.comm.store(uid, Relaxed);
        template.count.store(api.count, Relaxed);
        template.stream.store(api.stream, Relaxed);
        template.group.store(group, Relaxed);
        template.root.store(api.root as u32, Relaxed);
        template.func.store(names[0], Relaxed);
        template.datatype.store(names[1], Relaxed);
        template.p2p.store(api.p2p.into(), Relaxed);
        template.row.store(row, Relaxed);
        template.publish(comm_slot.into());
        self.encode(Kind::Template, 0, number, 0)
    }

    #[inline]
    fn start_launch(&self, context: u64, parent: u64, stream: u64) -> u64 {
        let Some((comm_slot, comm)) = self.comm(context) else {
            return self.ignored();
        };
        let parent = self.read(parent);
        let handle = if parent.is(Kind::GroupApi) {
            if let Some((word, group)) = self.group_at(parent) {
                group
                    .launches
                    .store(group.launches.load(Relaxed).wrapping_add(1), Relaxed);
                if let Some(ring) = comm.ring() {
                    self.time_launch(comm, ring, word, group, stream);
                }
            }
            parent.renamed(Kind::Launch, comm_slot)
        } else {
            // The ticket before the first, which names no group.
            Handle::of_ticket(Kind::Launch, comm_slot, u64::MAX)
        };
        comm.launching_since.store(self.clock.ticks(), Relaxed);
        self.give(handle)
    }

    /// Records the first CUDA event of a launch that is to be timed.
    // Apart, so that nothing of it is in the way where launches are not timed.
    #[inline(never)]
    fn time_launch(&self, comm: &CommState, ring: &Ring, word: u64, group: &Group, stream: u64) {
        let timed = if group.captured.load(Relaxed) != 0 {
            Timed::No
        } else {
            ring.launched_by(this_thread());
            let (func, count) = self.first_call(word, group);
            ring.begin(&self.switch, stream, func, count)
        };
        comm.launching_on.store(stream, Relaxed);
        comm.launching_timed.store(timed.pack(), Relaxed);
    }

    /// Function and count of a group's first call, as far as it has a row.
    fn first_call(&self, word: u64, group: &Group) -> (u8, u64) {
        self.first_row(word, group).map_or((0, 0), |row| {
            (row.func.load(Relaxed), row.count.load(Relaxed))
        })
    }

    /// The live row of a group's first call.
    #[inline]
    fn first_row(&self, word: u64, group: &Group) -> Option<&'static Row> {
        let row = self.row_at(group.first_row.load(Relaxed).checked_sub(1)?);
        let alive = row.word.load(Acquire) & 3 == row_state::ALIVE;
        (alive && row.group.load(Relaxed) == word).then_some(row)
    }

    /// Records the second CUDA event of a launch.
    #[inline(never)]
    fn end_timing(&self, comm: &CommState, ring: &Ring) -> u64 {
        let timed = comm.launching_timed.load(Relaxed);
        let stream = comm.launching_on.load(Relaxed);
        match Timed::unpack(timed) {
            Timed::By(_) if !ring.end(&self.switch, stream) => Timed::No.pack(),
            _ => timed,
        }
    }

    #[inline]
    fn stop_launch(&self, handle: Handle) {
        let now = self.clock.ticks();
        let comm = &self.comms[usize::from(handle.channel())];
        // First of all, so that the GPU isn't kept waiting for it.
        let timed = comm.ring().map_or(0, |ring| self.end_timing(comm, ring));
        let since = comm.launching_since.load(Relaxed);
        let Some((word, group)) = self.group_at(handle) else {
            return;
        };
        group.t_launch[0].store(since, Relaxed);
        group.t_launch[1].store(now, Relaxed);
        if group.captured.load(Relaxed) != 0 {
            return;
        }
        let pushed = comm.pushed.load(Relaxed);
        let launch = &comm.launches[pushed as usize % LAUNCHES];
        launch.group.store(word, Relaxed);
        launch.t0.store(since, Relaxed);
        launch.t1.store(now, Relaxed);
        launch.timed.store(timed, Relaxed);
        launch.first_row.store(0, Relaxed);
        comm.pushed.store(pushed.wrapping_add(1), Release);
    }

    /// The launch that a plan's first call belongs to: the oldest one of its group that no plan has taken.
    #[inline]
    fn launch_of<'a>(&self, comm: &'a CommState, group: u64) -> Option<(&'a Launch, bool)> {
        let pushed = comm.pushed.load(Acquire);
        let mut at = comm.popped.load(Relaxed);
        let overrun = pushed.wrapping_sub(at) > LAUNCHES as u32;
        if overrun {
            at = pushed.wrapping_sub(LAUNCHES as u32);
        }
        while at != pushed {
            let launch = &comm.launches[at as usize % LAUNCHES];
            if launch.group.load(Relaxed) == group {
                comm.popped.store(at, Relaxed);
                return Some((launch, overrun));
            }
            at = at.wrapping_add(1);
        }
        None
    }

    #[inline(always)]
    fn start_task(&self, context: u64, parent: u64, task: &Task) -> u64 {
        let Some((_, comm)) = self.comm(context) else {
            return self.ignored();
        };
        if task.legacy {
            return self.start_legacy(comm, task);
        }
        let parent = self.read(parent);
        let handle = if parent.is(Kind::Api) || parent.is(Kind::Task) {
            parent.renamed(Kind::Task, 0)
        } else {
            match self.adopt(parent) {
                Ok(handle) => handle,
                Err(given) => return given,
            }
        };
        if let Some(row) = self.row(handle) {
            self.plan(comm, handle.slot(), row, task);
        }
        self.give(handle)
    }

    /// The row of a task whose parent is none: a replay's new one, or the handle to give in its stead.
    #[cold]
    fn adopt(&self, parent: Handle) -> Result<Handle, u64> {
        match parent.kind() {
            Some(Kind::Template) => self.replay(parent.slot()),
            Some(Kind::Rowless) => Err(self.encode(Kind::Rowless, 0, 0, 0)),
            _ => {
                self.odd(Odd::Orphan);
                Err(self.ignored())
            }
        }
    }

    /// Fills in line B of a row from its Coll or P2p event.
    #[inline(always)]
    fn plan(&self, comm: &CommState, slot: u32, row: &Row, task: &Task) {
        let mut parts = part::ENQUEUED;
        row.seq
            .store(task.sequence.map_or(0, |s| s.wrapping_add(1)), Relaxed);
        row.algorithm.store(self.name(task.algorithm), Relaxed);
        row.protocol.store(self.name(task.protocol), Relaxed);
        row.nchannels.store(task.nchannels, Relaxed);
        row.nwarps.store(task.nwarps, Relaxed);
        if let Some(peer) = task.peer {
            row.peer.store(peer.wrapping_add(1), Relaxed);
        }
        if task.symmetric {
            parts |= part::SYMMETRIC;
            row.variant.store(self.name(task.variant), Relaxed);
        }
        if task.user_tag != 0 {
            row.user_tag.store(task.user_tag, Relaxed);
        }
        if self.buffers {
            row.send_buffer.store(task.buffers[0], Relaxed);
            row.recv_buffer.store(task.buffers[1], Relaxed);
        }
        let eager = row.flags.load(Relaxed) & (flag::REPLAY | flag::LEGACY) == 0;
        match eager
            .then(|| self.launch_of(comm, row.group.load(Relaxed)))
            .flatten()
        {
            Some((launch, ambiguous)) => {
                row.t_launch0.store(launch.t0.load(Relaxed), Relaxed);
                row.t_launch1.store(launch.t1.load(Relaxed), Relaxed);
                parts |= part::LAUNCHED | if ambiguous { part::LAUNCH_AMBIGUOUS } else { 0 };
                let timed = launch.timed.load(Relaxed);
                if timed != 0 {
                    parts |= self.timed(launch, timed, slot, row);
                }
            }
            None => row.t_enqueue.store(self.clock.ticks(), Relaxed),
        }
        row.parts.store(parts, Release);
    }

    /// Joins a row with the CUDA events of its launch; returns what to add to its parts. Calls of one launch share its
    /// time, which is then none of theirs.
    #[inline(never)]
    fn timed(&self, launch: &Launch, timed: u64, slot: u32, row: &Row) -> u8 {
        let fuse = |row: &Row| {
            let verdict = row.verdict.load(Relaxed) | verdict::FUSED;
            row.verdict.store(verdict, Relaxed);
        };
        match launch.first_row.load(Relaxed).checked_sub(1) {
            None => launch.first_row.store(slot + 1, Relaxed),
            Some(first) => {
                fuse(self.row_at(first));
                fuse(row);
            }
        }
        match Timed::unpack(timed) {
            Timed::By(number) => {
                row.event.store(number, Relaxed);
                part::EVENTS
            }
            Timed::Unsampled => part::UNSAMPLED,
            Timed::No => 0,
        }
    }

    fn replay(&self, number: u32) -> Result<Handle, u64> {
        let Some(template) = self.templates.get(number).filter(|t| t.ready()) else {
            self.odd(Odd::ForeignHandle);
            return Err(self.ignored());
        };
        // Where a plan needs nothing at replay, NCCL announces its tasks once, at capture: that is the template's own
        // row, which lives until its group has returned.
        let own = self.read(template.row.load(Relaxed));
        if own.is(Kind::Api) {
            let row = self.row_at(own.slot());
            let word = row.word.load(Acquire);
            let alive = word & 3 == row_state::ALIVE
                && row_state::generation(word) as u32 == own.generation();
            if alive
                && row.t_end.load(Relaxed) == 0
                && !self.group_returned(row.group.load(Relaxed))
            {
                return Ok(own.renamed(Kind::Task, 0));
            }
        }
        let p2p = if template.p2p.load(Relaxed) != 0 {
            flag::P2P
        } else {
            0
        };
        let call = Birth {
            t: self.clock.ticks(),
            count: template.count.load(Relaxed),
            group: template.group.load(Relaxed),
            stream: template.stream.load(Relaxed),
            root: template.root.load(Relaxed) as i32,
            func: template.func.load(Relaxed),
            datatype: template.datatype.load(Relaxed),
            flags: flag::REPLAY | p2p,
            template: number + 1,
        };
        match self.birth(Kind::Task, template.comm.load(Relaxed), &call) {
            Some((handle, _)) => Ok(handle),
            None => Err(self.encode(Kind::Rowless, 0, 0, 0)),
        }
    }

    /// Whether the group with this word has returned to the program; true when its entry was recycled.
    pub fn group_returned(&self, word: u64) -> bool {
        if word == 0 {
            return true;
        }
        let group = &self.groups[(word - 1) as usize % GROUPS];
        group.word.load(Acquire) != word || group.t_stop.load(Acquire) != 0
    }

    /// Below ABI v5 nothing announces a call but its Coll or P2p.
    #[inline(never)]
    fn start_legacy(&self, comm: &CommState, task: &Task) -> u64 {
        let uid = comm.uid.load(Relaxed);
        if comm.abi.load(Relaxed) < 4 {
            self.learn(uid, task);
        }
        let call = Birth {
            t: self.clock.ticks(),
            count: task.count,
            group: 0,
            stream: 0,
            root: task.root,
            func: self.name(task.func),
            datatype: self.name(task.datatype),
            flags: flag::LEGACY | if task.p2p { flag::P2P } else { 0 },
            template: 0,
        };
        let Some((handle, row)) = self.birth(Kind::Task, uid, &call) else {
            return self.encode(Kind::Rowless, 0, 0, 0);
        };
        self.plan(comm, handle.slot(), row, task);
        self.give(handle)
    }

    /// ABI v1 to v3 tell a communicator's hash and rank with its first call only.
    fn learn(&self, uid: u32, task: &Task) {
        let Some(comm) = self
            .live
            .comms()
            .iter()
            .find(|c| c.uid.load(Relaxed) == uid)
        else {
            return;
        };
        if comm.hash.load(Relaxed) == 0 && task.hash != 0 {
            comm.hash.store(task.hash, Relaxed);
            self.writer.definitions_changed();
        }
        if comm.rank.load(Relaxed) == u32::MAX && task.rank >= 0 {
            comm.rank.store(task.rank as u32, Relaxed);
            self.writer.definitions_changed();
        }
    }

    fn start_copy_engine(
        &self,
        parent: u64,
        sequence: u64,
        batches: u32,
        buffers: [u64; 2],
        tag: u64,
    ) -> u64 {
        let given = parent;
        let parent = self.read(given);
        match parent.kind() {
            Some(Kind::Api) => {
                if let Some(row) = self.row(parent) {
                    row.seq.store(sequence.wrapping_add(1), Relaxed);
                    row.ce_batches.store(batches.min(0xffff) as u16, Relaxed);
                    row.t_enqueue.store(self.clock.ticks(), Relaxed);
                    if tag != 0 {
                        row.user_tag.store(tag, Relaxed);
                    }
                    if self.buffers {
                        row.send_buffer.store(buffers[0], Relaxed);
                        row.recv_buffer.store(buffers[1], Relaxed);
                    }
                    row.parts.store(part::ENQUEUED | part::COPY_ENGINE, Release);
                }
                self.give(parent.renamed(Kind::Task, 0))
            }
            Some(Kind::Template | Kind::Rowless) => self.encode(Kind::Rowless, 0, 0, 0),
            Some(_) => {
                self.odd(Odd::Orphan);
                self.ignored()
            }
            None => {
                self.foreign(given);
                self.ignored()
            }
        }
    }

    #[inline]
    fn start_kernel(&self, context: u64, parent: u64, channel: u8, stamp: u64) -> u64 {
        let task = self.read(parent);
        if !task.is(Kind::Task) {
            return self.unowned(parent, true);
        }
        let Some(row) = self.row(task) else {
            return self.ignored();
        };
        let handle = self.give(task.renamed(Kind::KernelCh, channel));
        row.k_started
            .store(row.k_started.load(Relaxed).wrapping_add(1), Relaxed);
        if stamp == 0 {
            row.verdict
                .store(row.verdict.load(Relaxed) | verdict::MISSING, Relaxed);
            return handle;
        }
        let earliest = row.k_start.load(Relaxed);
        if earliest == 0 || stamp < earliest {
            row.k_start.store(stamp, Relaxed);
        }
        let Some((_, comm)) = self.comm(context) else {
            return handle;
        };
        let last = &comm.channels[usize::from(channel) % CHANNELS];
        let group = row.group.load(Relaxed);
        let before = last.start.load(Relaxed);
        if stamp == before || stamp < last.stop.load(Relaxed) {
            self.overlap(row, group, last, stamp == before);
        }
        last.start.store(stamp, Relaxed);
        last.group.store(group, Relaxed);
        last.row.store(handle, Relaxed);
        handle
    }

    /// Two calls of a communicator share a channel's time. NCCL runs them there one after the other, but for calls fused
    /// into one batch of a launch, whose stamps lie some 160 ns apart and all span the batch (seen on H200). Any
    /// other overlap means that at least one of the stamps is another call's.
    #[cold]
    fn overlap(&self, row: &Row, group: u64, last: &Channel, equal: bool) {
        // Below ABI v5 a call's group is not known; what is known to start at one moment then is one batch.
        let batch = if row.flags.load(Relaxed) & flag::LEGACY != 0 {
            equal
        } else {
            group != 0 && group == last.group.load(Relaxed)
        };
        let found = match (batch, equal) {
            (true, _) => verdict::FUSED,
            (false, true) => verdict::REPEATED,
            (false, false) => verdict::BACKWARDS,
        };
        row.verdict
            .store(row.verdict.load(Relaxed) | found, Relaxed);
        // The first of a batch looks like any other until the second comes.
        if found == verdict::FUSED {
            let other = self.read(last.row.load(Relaxed));
            if let Some(other) = other.is(Kind::KernelCh).then(|| self.row(other)).flatten() {
                other
                    .verdict
                    .store(other.verdict.load(Relaxed) | found, Relaxed);
            }
        }
    }

    #[inline]
    fn kernel_stopped(&self, handle: Handle, stamp: u64) {
        let Some(row) = self.row(handle) else { return };
        if stamp == 0 {
            row.verdict
                .store(row.verdict.load(Relaxed) | verdict::MISSING, Relaxed);
            return;
        }
        if stamp > row.k_stop.load(Relaxed) {
            row.k_stop.store(stamp, Relaxed);
        }
        if stamp < row.k_start.load(Relaxed) {
            row.verdict
                .store(row.verdict.load(Relaxed) | verdict::NEGATIVE, Relaxed);
        }
        let Some(comm) = self.comm_of(row.comm.load(Relaxed)) else {
            return;
        };
        let last = &comm.channels[usize::from(handle.channel()) % CHANNELS];
        let other = self.read(last.row.load(Relaxed));
        // From 2.31 on, starts of several calls may be delivered before the first one's stop. Without a start of its own
        // a call overlaps nothing that is known.
        let started = row.k_start.load(Relaxed) != 0;
        if started
            && stamp > last.start.load(Relaxed)
            && other.is(Kind::KernelCh)
            && other.slot() != handle.slot()
        {
            self.overlap(row, row.group.load(Relaxed), last, false);
        }
        // The newest, not the largest: when the GPU's timer steps back, the calls after the step are sound again.
        last.stop.store(stamp, Relaxed);
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

    #[inline]
    fn stop_kernel(&self, handle: Handle) {
        let Some(row) = self.row(handle) else { return };
        let stopped = row.k_stopped.load(Relaxed);
        if stopped >= row.k_started.load(Relaxed) {
            return self.odd(Odd::DoubleStop);
        }
        let nchannels = u16::from(row.nchannels.load(Relaxed));
        if stopped + 1 >= nchannels {
            row.k_seen.store(self.clock.ticks(), Relaxed);
        }
        row.k_stopped.store(stopped + 1, Release);
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

    #[inline]
    fn start_op(&self, parent: u64, pid: i32, op: impl FnOnce(Handle, u64) -> Start) -> u64 {
        // With PXN another process's operation runs here; its context and parent are names of that process.
        if pid != self.pid {
            self.odd(Odd::ForeignPid);
            return self.ignored();
        }
        let task = self.read(parent);
        if !task.is(Kind::Task) {
            return self.unowned(parent, false);
        }
        let Some(row) = self.row(task) else {
            return self.ignored();
        };
        row.ops_started
            .store(row.ops_started.load(Relaxed).wrapping_add(1), Relaxed);
        let (name, unstopped) = self.network.begin(&op(task, self.clock.ticks()));
        if unstopped {
            self.odd(Odd::Unstopped);
        }
        self.give(name)
    }

    #[inline]
    fn stop_op(&self, handle: Handle) {
        let Some(op) = self.network.op(handle) else {
            return self.odd(Odd::DoubleStop);
        };
        op.word.store(0, Relaxed);
        let Some(row) = self.row_of(op) else {
            return;
        };
        let bytes = op.bytes.load(Relaxed);
        if bytes != 0 {
            let total = if op.send.load(Relaxed) != 0 {
                &row.bytes_sent
            } else {
                &row.bytes_received
            };
            total.store(total.load(Relaxed) + bytes, Relaxed);
        }
        Network::account(op, row);
        row.net_seen
            .store((self.clock.ticks() >> 10) as u32, Relaxed);
        row.ops_stopped
            .store(row.ops_stopped.load(Relaxed).wrapping_add(1), Release);
    }

    /// The live row that a network operation belongs to, or belonged to until it was stopped.
    #[inline]
    fn row_of(&self, op: &NetOp) -> Option<&'static Row> {
        let task = Handle::read(op.row.load(Relaxed), 0);
        task.is(Kind::Task).then(|| self.row(task)).flatten()
    }

    #[inline]
    fn start_step(&self, parent: u64, number: i32) -> u64 {
        // A step carries no pid: only an operation that this process was told of vouches for it.
        let owner = self.read(parent);
        if !owner.is(Kind::ProxyOp) {
            return self.unowned(parent, false);
        }
        let Some(op) = self.network.op(owner) else {
            self.odd(Odd::StaleHandle);
            return self.ignored();
        };
        self.give(Network::begin_step(owner, op, number, self.clock.ticks()))
    }

    /// Ends the present wait of a step; `next` is the wait that begins, or `None` at its stop.
    #[inline]
    fn step(&self, handle: Handle, next: Option<(u8, u64)>) {
        let Some((op, step)) = self.network.step(handle) else {
            return self.odd(Odd::DoubleStop);
        };
        let before = step.wait.load(Relaxed);
        // NCCL says again that a send waits for its peer each time it looks; the wait goes on.
        if next.is_some_and(|(wait, _)| before & 7 == u64::from(wait) + 1) {
            return;
        }
        let now = self.clock.ticks();
        if let Some(row) = self.row_of(op) {
            if let Some(total) = (before as usize & 7)
                .checked_sub(1)
                .and_then(|w| row.waits.get(w))
            {
                // An eighth of a tick is the unit here.
                let units = ((now << 3).wrapping_sub(before & !7) >> 9).min(u32::MAX.into());
                total.store(total.load(Relaxed).saturating_add(units as u32), Relaxed);
            }
            match next {
                Some((SEND_NETWORK, bytes)) => {
                    row.bytes_sent
                        .store(row.bytes_sent.load(Relaxed).wrapping_add(bytes), Relaxed);
                }
                Some((RECV_FLUSH, bytes)) => {
                    row.bytes_received.store(
                        row.bytes_received.load(Relaxed).wrapping_add(bytes),
                        Relaxed,
                    );
                }
                Some(_) => {}
                None => row
                    .steps
                    .store(row.steps.load(Relaxed).wrapping_add(1), Relaxed),
            }
        }
        let wait = (before & 7).checked_sub(1);
        Network::hold(op, wait, next.map(|(wait, _)| wait), now);
        match next {
            Some((wait, _)) => step.wait.store(now << 3 | (u64::from(wait) + 1), Relaxed),
            None => Network::end_step(handle, op, now),
        }
    }

    #[inline]
    fn stop_group(&self, handle: Handle) {
        let Some((word, group)) = self.group_at(handle) else {
            return self.odd(Odd::StaleHandle);
        };
        let now = self.clock.ticks();
        if group.calls.load(Relaxed) != 1 {
            group.t_stop.store(now, Release);
            return;
        }
        if let Some(ring) = self.comms[usize::from(handle.channel())].ring() {
            self.end_bracket(ring, word, group);
        }
        group.t_stop.store(now, Release);
        // A group of one, by far the commonest: its row gets the time at once and needs the group no more. Where the call
        // found no row, or has none any more, the row looked at is another group's.
        let row = self.row_at(group.first_row.load(Relaxed).wrapping_sub(1));
        if row.group.load(Relaxed) == word && row.word.load(Acquire) & 3 == row_state::ALIVE {
            row.t_end.store(now, Release);
        }
    }

    #[inline]
    fn stop_plan(&self, handle: Handle) {
        let comm = &self.comms[usize::from(handle.channel())];
        let popped = comm.popped.load(Relaxed);
        if popped != comm.pushed.load(Relaxed) {
            comm.popped.store(popped.wrapping_add(1), Relaxed);
        }
    }

    #[inline]
    fn stop_task(&self, handle: Handle) {
        let Some(row) = self.row(handle) else { return };
        let parts = row.parts.load(Relaxed);
        if row.flags.load(Relaxed) & (flag::LEGACY | flag::REPLAY) != 0 {
            self.unbracketed_ends(row);
        }
        row.parts.store(parts | part::ENQUEUE_DONE, Release);
    }

    /// What no GroupApi event brackets has returned when it is enqueued, as far as NCCL tells.
    #[cold]
    fn unbracketed_ends(&self, row: &Row) {
        row.t_end.store(self.clock.ticks(), Relaxed);
    }

    #[inline]
    fn group_closes(&self, handle: Handle) {
        if let Some((word, group)) = self.group_at(handle) {
            if group.calls.load(Relaxed) > 1 {
                self.several_close(group);
            } else if let Some(ring) = self.comms[usize::from(handle.channel())].ring() {
                self.begin_bracket(ring, word, group);
            }
        }
    }

    /// A call of a kind that NCCL launches without telling is timed from the group's end to its return, in which it is
    /// launched if the communicator is a blocking one.
    #[inline(never)]
    fn begin_bracket(&self, ring: &Ring, word: u64, group: &Group) {
        if group.captured.load(Relaxed) != 0 {
            return;
        }
        let Some(row) = self.first_row(word, group) else {
            return;
        };
        let (func, count) = (row.func.load(Relaxed), row.count.load(Relaxed));
        if ring.brackets(func) {
            let timed = ring.begin(&self.switch, row.stream.load(Relaxed), func, count);
            ring.bracket(timed);
        }
    }

    #[inline(never)]
    fn end_bracket(&self, ring: &Ring, word: u64, group: &Group) {
        let timed = ring.take_bracket();
        if group.captured.load(Relaxed) != 0 {
            return;
        }
        let Some(row) = self.first_row(word, group) else {
            return;
        };
        let launched = group.launches.load(Relaxed) != 0;
        ring.learn(row.func.load(Relaxed), launched);
        if launched {
            return;
        }
        let parts = row.parts.load(Relaxed);
        match timed {
            Timed::By(number) if ring.end(&self.switch, row.stream.load(Relaxed)) => {
                row.event.store(number, Relaxed);
                row.parts.store(parts | part::EVENTS, Release);
            }
            Timed::Unsampled => row.parts.store(parts | part::UNSAMPLED, Release),
            _ => {}
        }
    }

    #[cold]
    fn several_close(&self, group: &Group) {
        group.t_closing.store(self.clock.ticks(), Relaxed);
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
