//! Communicators: init, finalize, and the slot between them.
//!
//! A communicator has a slot in two tables. `capture::live::Comm` is what readers see: who it is.
//! [`CommState`] is private, and helps callbacks to find and check things: the context that NCCL was given,
//! launches that wait for their plan, and the newest stamps of each channel.
//!
//! Rule: init and finalize hold [`INIT`]. A slot is used again only after its communicator was finalized, its
//! rows were sealed and its definition was staged. The recorder's thread says so, for each slot by itself.

use super::comm_table;
use super::Recorder;
use crate::chain::Chained;
use crate::cuda;
use crate::events::Init;
use crate::gpu_events::Ring;
use crate::handle::{HandleKind, NO_SLOT};
use crate::intern::read;
use crate::lock::INIT;
use crate::ranges::FUNCTIONS;
use capture::live::{Cause, Comm, Odd, Section};
use capture::rows::{AtomicGpuTime, AtomicTicks, GpuTime, Ticks};
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8,
    Ordering::{Acquire, Relaxed, Release},
};

/// Channels on which stamps are checked. NCCL has at most 64.
pub(super) const CHANNELS: usize = 64;
/// Launches of a communicator that can wait for NCCL to announce their plan.
pub(super) const LAUNCHES: usize = 16;

/// The private half of a communicator's slot. All zeros is a free one.
#[repr(C, align(64))]
pub struct CommState {
    /// The context that NCCL was given; 0 while the slot is free.
    pub(super) context: AtomicU64,
    /// Uid in the live part; 0 while the slot is free.
    pub(super) uid: AtomicU32,
    /// Times this slot was used.
    pub(super) generation: AtomicU32,
    pub(super) abi: AtomicU8,
    /// As the plugin behind ours knows it.
    chained: Chained,
    /// Its CUDA events, if they time its launches.
    pub(super) ring: AtomicPtr<Ring>,
    /// When the launch under way began.
    pub(super) launching_since: AtomicTicks,
    /// The stream of that launch.
    pub(super) launching_on: AtomicU64,
    /// Whether that launch is timed ([`crate::gpu_events::Timed::pack`]).
    pub(super) launching_timed: AtomicU64,
    /// The number + 1 of the events of the newest launch, until its call returns; 0 none.
    pub(super) launched: AtomicU64,
    /// The newest group has returned.
    pub(super) has_returned: AtomicBool,
    /// Launches put into `launches` so far, by the launching thread.
    pub(super) pushed: AtomicU32,
    /// Launches taken out again, at the stop of their plan. Those between `popped` and `pushed` wait.
    pub(super) popped: AtomicU32,
    /// A ring of the newest launches.
    pub(super) launches: [PendingLaunch; LAUNCHES],
    pub(super) channels: [Channel; CHANNELS],
    /// Calls by function so far, for tools that get ranges.
    pub(super) calls: [AtomicU32; FUNCTIONS],
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
pub(super) struct PendingLaunch {
    pub(super) group: AtomicU64,
    pub(super) t0: AtomicTicks,
    pub(super) t1: AtomicTicks,
    /// Whether it is timed ([`crate::gpu_events::Timed::pack`]).
    pub(super) timed: AtomicU64,
    /// The handle of its first call; 0 while none is known.
    pub(super) first: AtomicU64,
}

/// The newest stamps of a channel, of whichever call.
#[derive(Default)]
pub(super) struct Channel {
    pub(super) start: AtomicGpuTime,
    pub(super) stop: AtomicGpuTime,
    pub(super) group: AtomicU64,
    pub(super) row: AtomicU64,
}

impl Recorder {
    /// A communicator's profiler is initialised; returns its context and the events wanted.
    pub(super) fn init_communicator(&self, init: &Init) -> (u64, u32) {
        let gpu = cuda::current_gpu();
        let _guard = INIT.lock();
        let generation = self.generation(init);
        let Some((generation, slot)) = generation.zip(self.take_slot()) else {
            self.odd(Odd::CommsFull);
            return (self.encode(HandleKind::Context, 0, NO_SLOT, 0), self.mask);
        };
        let uid = self.next_uid.fetch_add(1, Relaxed);
        let (comm, state) = (&self.live.comms()[usize::from(slot)], self.comms.at(slot));
        // Readers may look at any time. All that is known of the communicator before is in the trace file.
        comm.uid.store(0, Release);
        fill_in_comm(comm, init, gpu.as_ref(), generation, self.clock.ticks());
        state.abi.store(init.abi, Relaxed);
        state.pushed.store(0, Relaxed);
        state.popped.store(0, Relaxed);
        for channel in &state.channels {
            channel.start.store(GpuTime(0), Relaxed);
            channel.stop.store(GpuTime(0), Relaxed);
        }
        state.calls.iter().for_each(|count| count.store(0, Relaxed));
        state.launching_timed.store(0, Relaxed);
        state.launched.store(0, Relaxed);
        state.has_returned.store(false, Relaxed);
        let ring = self.ring(init.abi);
        state.ring.store(ring, Release);
        let turn = state.generation.load(Relaxed).wrapping_add(1);
        state.generation.store(turn, Relaxed);
        let context = self.encode(HandleKind::Context, 0, slot.into(), turn.into());
        self.comms.place(uid, slot);
        comm.uid.store(uid, Release);
        state.uid.store(uid, Release);
        state.context.store(context, Release);
        self.comms_alive.fetch_add(1, Relaxed);
        self.header().state.store(0, Relaxed);
        self.definition_changed(slot);
        self.rows_for(init.hash);
        (context, self.mask)
    }

    /// A slot for a new communicator. The caller holds [`INIT`].
    fn take_slot(&self) -> Option<u16> {
        let used = self.comms_used.load(Relaxed);
        if used as usize >= self.live.comms().len() {
            // The one that ended first: late callbacks have long ceased.
            if let Some(slot) = self.writer.idle_slot() {
                return Some(slot);
            }
            let there = self.live.comms().len();
            if used as usize >= comm_table::MOST || !self.grow(Section::Comms, there, 2 * there) {
                return None;
            }
        }
        let slot = u16::try_from(used).ok()?;
        if !self.comms.make_room(slot) {
            return None;
        }
        self.comms_used.store(used + 1, Relaxed);
        Some(slot)
    }

    /// How many communicators with the hash, size and rank of a new one the process had before; `None` if
    /// there is no memory to keep that in. The rank counts too, because a process may drive several ranks of
    /// a communicator.
    fn generation(&self, init: &Init) -> Option<u32> {
        if init.hash == 0 {
            return Some(0);
        }
        let mut known = self.generations.lock().unwrap_or_else(|p| p.into_inner());
        known.try_reserve(1).ok()?;
        let next = known
            .entry((init.hash, init.nranks, init.rank))
            .or_default();
        *next += 1;
        Some(*next - 1)
    }

    /// Asks for rows by the number of ranks that the process drives of one communicator, because a process
    /// with many ranks makes many calls at once.
    fn rows_for(&self, hash: u64) {
        let alive = |c: &&Comm| {
            hash != 0
                && c.hash.load(Relaxed) == hash
                && c.uid.load(Relaxed) != 0
                && c.finalized.load(Relaxed) == 0
        };
        let ranks = self.live.comms().iter().filter(alive).count();
        let rows = self.first_rows.saturating_mul(ranks.next_power_of_two());
        let most = self.live.room::<capture::live::Row>(Section::Rows).1;
        if ranks > 1 && self.rows.len() < rows.min(most) {
            self.writer.want_rows(rows.min(most));
        }
    }

    /// Says that a communicator's definition is to be written again.
    pub(super) fn definition_changed(&self, slot: u16) {
        self.comms.changed.put(slot);
        self.writer.definitions.store(true, Release);
    }

    /// A communicator's profiler is done.
    pub(super) fn finalize_communicator(&self, context: u64) {
        let Some((slot, state)) = self.comm(context) else {
            return;
        };
        let _guard = INIT.lock();
        let Some(comm) = self.live.comms().get(usize::from(slot)) else {
            return;
        };
        comm.t_final.store(self.clock.ticks(), Relaxed);
        comm.finalized.store(1, Release);
        state.context.store(0, Release);
        state.uid.store(0, Release);
        if let Some(ring) = state.ring() {
            ring.close();
        }
        self.definition_changed(slot);
        // Behind its definition.
        self.comms.ended.put(slot);
        if self.comms_alive.fetch_sub(1, Relaxed) == 1 {
            // The last communicator. NCCL now calls dlclose, which does not unload us; NCCL itself may be
            // unloaded.
            self.graphs.timing.close();
            self.interner.forget();
            self.masks.forget();
            self.writer.flush();
        }
    }

    /// The CUDA events of a new communicator. Null if they were not asked for, if there is no driver, or if
    /// this release does not announce its launches.
    fn ring(&self, abi: u8) -> *mut Ring {
        let ring = (abi >= 5)
            .then(|| self.rings.take(self.driver()?))
            .flatten();
        ring.map_or(std::ptr::null_mut(), |ring| {
            // From 2.29 on, NCCL does not announce the launch of a Broadcast.
            if abi >= 6 {
                ring.learn(self.broadcast(), false);
            }
            std::ptr::from_ref(ring).cast_mut()
        })
    }

    /// The communicator of a context.
    #[inline]
    pub(super) fn comm(&self, context: u64) -> Option<(u16, &'static CommState)> {
        let slot = self.read(context).slot() as u16;
        let comm = self.comms.at(slot);
        // A free slot holds 0, and a program may pass 0.
        if comm.context.load(Acquire) == context && context != 0 {
            return Some((slot, comm));
        }
        self.no_comm(context);
        None
    }

    #[cold]
    fn no_comm(&self, context: u64) {
        if !self.found_no_slot(context) {
            self.odd(Odd::StaleContext);
        }
    }

    /// What the plugin behind ours knows of the communicator of a context.
    pub fn chained(&self, context: u64) -> Option<&'static Chained> {
        let comm = self.comms.at(self.read(context).slot() as u16);
        let is = context != 0 && comm.context.load(Acquire) == context;
        is.then_some(&comm.chained)
    }

    fn found_no_slot(&self, context: u64) -> bool {
        let handle = self.read(context);
        handle.is(HandleKind::Context) && handle.slot() == NO_SLOT
    }

    /// Whether this is the context of a communicator that this process had.
    fn was_given(&self, context: u64) -> bool {
        let handle = self.read(context);
        let slot = handle.slot();
        let turns = || self.comms.at(slot as u16).generation.load(Relaxed);
        handle.is(HandleKind::Context)
            && slot < self.comms_used.load(Relaxed)
            && (1..=turns()).contains(&handle.generation())
    }

    /// Counts a call on a communicator that is not in the table; returns its handle. A context that this
    /// process never gave announces nothing.
    #[cold]
    pub(super) fn call_without_comm(&self, context: u64) -> u64 {
        let cause = if self.found_no_slot(context) {
            Cause::CommsFull
        } else if self.was_given(context) {
            Cause::StaleContext
        } else {
            return self.ignored();
        };
        self.header().lost[cause as usize].fetch_add(1, Relaxed);
        self.encode(HandleKind::Rowless, 0, 0, 0)
    }

    /// The communicator with this uid, if it is not finalized.
    #[inline]
    pub(super) fn comm_of(&self, uid: u32) -> Option<&'static CommState> {
        let guess = self.comms.at(self.comms.newest(uid));
        if guess.uid.load(Relaxed) == uid {
            return Some(guess);
        }
        let found = self.comms.at(self.slot_of(uid)?);
        (found.uid.load(Relaxed) == uid).then_some(found)
    }

    /// The slot of the communicator with this uid.
    pub fn slot_of(&self, uid: u32) -> Option<u16> {
        let comms = self.live.comms();
        let is = |slot: &u16| {
            let comm = comms.get(usize::from(*slot));
            uid != 0 && comm.is_some_and(|c| c.uid.load(Relaxed) == uid)
        };
        let guess = self.comms.newest(uid);
        if is(&guess) {
            return Some(guess);
        }
        // It is 65 536 communicators old, or its slot serves another.
        (0..self.comms_used.load(Relaxed) as u16).find(is)
    }
}

fn fill_in_comm(comm: &Comm, init: &Init, gpu: Option<&cuda::Gpu>, generation: u32, now: Ticks) {
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
    comm.t_final.store(Ticks(0), Relaxed);
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
