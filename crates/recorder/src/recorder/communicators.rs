//! Communicators: init, finalize, and the slot between them.
//!
//! A communicator has a slot in two tables. `capture::live::Comm` is what readers see: who it is.
//! [`CommState`] is private, and helps callbacks to find and check things: the context that NCCL was given,
//! launches that wait for their plan, and the newest stamps of each channel.
//!
//! Rule: init and finalize hold [`INIT`]. A slot is used again only after its communicator was finalized, its
//! rows were sealed and its definition was written.

use super::Recorder;
use crate::cuda;
use crate::events::Init;
use crate::gpu_events::Ring;
use crate::handle::Kind;
use crate::intern::read;
use crate::lock::INIT;
use capture::live::{Comm, Odd, COMMS};
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicU8,
    Ordering::{Acquire, Relaxed, Release},
};

/// Channels on which stamps are checked. NCCL has at most 64.
pub(super) const CHANNELS: usize = 64;
/// Launches of a communicator that can wait for NCCL to announce their plan.
pub(super) const LAUNCHES: usize = 16;

/// The private half of a communicator's slot.
#[repr(C, align(64))]
pub struct CommState {
    /// The context that NCCL was given; 0 while the slot is free.
    pub(super) context: AtomicU64,
    /// Uid in the live part; 0 while the slot is free.
    pub(super) uid: AtomicU32,
    /// Times this slot was used.
    pub(super) generation: AtomicU32,
    pub(super) abi: AtomicU8,
    /// Its CUDA events, if they time its launches.
    pub(super) ring: AtomicPtr<Ring>,
    /// When the launch under way began, ticks.
    pub(super) launching_since: AtomicU64,
    /// The stream of that launch.
    pub(super) launching_on: AtomicU64,
    /// Whether that launch is timed ([`crate::gpu_events::Timed::pack`]).
    pub(super) launching_timed: AtomicU64,
    /// Launches put into `launches` so far, by the launching thread.
    pub(super) pushed: AtomicU32,
    /// Launches taken out again, at the stop of their plan. Those between `popped` and `pushed` wait.
    pub(super) popped: AtomicU32,
    /// A ring of the newest launches.
    pub(super) launches: [Launch; LAUNCHES],
    pub(super) channels: [Channel; CHANNELS],
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
pub(super) struct Launch {
    pub(super) group: AtomicU64,
    pub(super) t0: AtomicU64,
    pub(super) t1: AtomicU64,
    /// Whether it is timed ([`crate::gpu_events::Timed::pack`]).
    pub(super) timed: AtomicU64,
    /// The handle of its first call; 0 while none is known.
    pub(super) first: AtomicU64,
}

/// The newest stamps of a channel, of whichever call.
#[derive(Default)]
pub(super) struct Channel {
    pub(super) start: AtomicU64,
    pub(super) stop: AtomicU64,
    pub(super) group: AtomicU64,
    pub(super) row: AtomicU64,
}

impl Recorder {
    /// A communicator's profiler is initialised; returns its context and the events wanted.
    pub(super) fn init_communicator(&self, init: &Init) -> (u64, u32) {
        let gpu = cuda::current_gpu();
        let _guard = INIT.lock();
        let comms = self.live.comms();
        // The same communicator once more only if the rank is the same too: a process may drive several ranks
        // of one.
        let same = |c: &&Comm| {
            c.uid.load(Relaxed) != 0
                && init.hash != 0
                && c.hash.load(Relaxed) == init.hash
                && c.nranks.load(Relaxed) == init.nranks as u32
                && c.rank.load(Relaxed) == init.rank as u32
        };
        let generation = comms.iter().filter(same).count();
        // A slot that was never used comes first. Then the one that was finalized first: its calls are long
        // sealed.
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
        (context, self.mask)
    }

    /// A communicator's profiler is done.
    pub(super) fn finalize_communicator(&self, context: u64) {
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
            // The last communicator. NCCL now calls dlclose, which does not unload us; NCCL itself may be
            // unloaded.
            self.interner.forget();
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
    pub(super) fn comm(&self, context: u64) -> Option<(u8, &CommState)> {
        let slot = self.read(context).slot() as u8;
        let comm = &self.comms[usize::from(slot)];
        // A free slot holds 0, and a program may pass 0.
        if comm.context.load(Acquire) == context && context != 0 {
            return Some((slot, comm));
        }
        self.odd(Odd::StaleContext);
        None
    }

    /// A communicator's slot, by its uid. Uids are given out in order, so the slot is usually `uid - 1`;
    /// after slots were used again it must be searched for.
    #[inline]
    pub(super) fn comm_of(&self, uid: u32) -> Option<&CommState> {
        let guess = &self.comms[uid.wrapping_sub(1) as usize % COMMS];
        if guess.uid.load(Relaxed) == uid {
            return Some(guess);
        }
        self.comms.iter().find(|c| c.uid.load(Relaxed) == uid)
    }
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
