//! Launches, and the CUDA events around them.
//!
//! NCCL links a launch to its group only, and tells of it before it announces the calls. So a launch waits in
//! a queue of its communicator ([`PendingLaunch`]), and the calls of its plan take it from there
//! (`launch_of`). Some calls are launched without an event: they are timed from the group's end to the call's
//! return (`begin_bracket`, `end_bracket`).
//!
//! Rule: in event callbacks, nothing but [`Ring::begin`] and [`Ring::end`] calls CUDA.

use super::communicators::{CommState, PendingLaunch, LAUNCHES};
use super::Recorder;
use crate::counts::nccl_is_told_apart;
use crate::gpu_events::{Ring, Timed};
use crate::handle::{Handle, HandleKind};
use crate::seats::{thread, Inside};
use capture::live::{part, row_state, verdict, Group, Row};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

impl Recorder {
    #[inline]
    pub(super) fn start_launch(&self, context: u64, parent: u64, stream: u64) -> u64 {
        let Some((comm_slot, comm)) = self.comm(context) else {
            return self.ignored();
        };
        let parent = self.read(parent);
        let handle = if parent.is(HandleKind::GroupApi) {
            if let Some((word, group)) = self.group_at(parent) {
                group
                    .launches
                    .store(group.launches.load(Relaxed).wrapping_add(1), Relaxed);
                if let Some(ring) = comm.ring() {
                    self.time_launch(comm, ring, word, group, stream);
                }
            }
            Handle::of_ticket(HandleKind::Launch, comm_slot, parent.ticket())
        } else {
            // The ticket before the first, which names no group.
            Handle::of_ticket(HandleKind::Launch, comm_slot, u64::MAX)
        };
        comm.launching_since.store(self.clock.ticks(), Relaxed);
        self.give(handle)
    }

    /// Records the first CUDA event of a launch that is to be timed.
    // A function of its own, so that launches that are not timed do not carry its code.
    #[inline(never)]
    fn time_launch(&self, comm: &CommState, ring: &Ring, word: u64, group: &Group, stream: u64) {
        self.waits.launching(stream);
        let timed = if group.captured.load(Relaxed) != 0 {
            Timed::No
        } else {
            ring.launched_by(thread());
            let (func, count) = self.first_call(word, group);
            ring.begin(&self.switch, stream, func, count)
        };
        comm.launching_on.store(stream, Relaxed);
        comm.launching_timed.store(timed.pack(), Relaxed);
    }

    /// Function and count of a group's first call; zeros if that has no row.
    pub(super) fn first_call(&self, word: u64, group: &Group) -> (u8, u64) {
        self.first_row(&self.inside(), word, group)
            .map_or((0, 0), |row| {
                (row.func.load(Relaxed), row.count.load(Relaxed))
            })
    }

    /// The live row of a group's first call. It stays that call's as long as the caller is inside.
    #[inline]
    pub(super) fn first_row<'a>(&self, _: &'a Inside, word: u64, group: &Group) -> Option<&'a Row> {
        let row = self.row_at(group.first_row.load(Relaxed).checked_sub(1)?);
        // In this order: who is alive has its own group. If the call found no row, or its row was given
        // away, the row here belongs to another group.
        let alive = row.word.load(Acquire) & 3 == row_state::ALIVE;
        (alive && row.group.load(Relaxed) == word).then_some(row)
    }

    /// Records the second CUDA event of a launch.
    #[inline(never)]
    fn end_timing(&self, comm: &CommState, ring: &Ring) -> u64 {
        let timed = comm.launching_timed.load(Relaxed);
        let stream = comm.launching_on.load(Relaxed);
        match Timed::unpack(timed) {
            Timed::By(number) if ring.end(&self.switch, stream) => {
                comm.launched.store(u64::from(number) + 1, Relaxed);
                timed
            }
            other => {
                comm.launched.store(0, Relaxed);
                match other {
                    Timed::By(_) => Timed::No.pack(),
                    other => other.pack(),
                }
            }
        }
    }

    /// The calls of a group have returned: from now on, streams that wait for what is on their stream wait
    /// for its newest launch.
    ///
    /// A group of several calls on a non-blocking communicator launches only after it has "returned", though
    /// on the same thread. Then this comes with the end of the launch ([`Self::stop_launch`]).
    #[inline]
    pub(super) fn launches_returned(&self, comm: &CommState, ring: &Ring) {
        comm.has_returned.store(true, Relaxed);
        let launched = comm.launched.load(Relaxed);
        if launched != 0 {
            comm.launched.store(0, Relaxed);
            if let Some(call) = ring.call((launched - 1) as u32) {
                self.waits.returned(comm.launching_on.load(Relaxed), call);
            }
        }
    }

    #[inline]
    pub(super) fn stop_launch(&self, handle: Handle) {
        let now = self.clock.ticks();
        let comm = self.comms.at(handle.comm());
        // First of all, so that the GPU isn't kept waiting for it.
        let timed = comm.ring().map_or(0, |ring| {
            let timed = self.end_timing(comm, ring);
            // NCCL lets streams of its own wait behind the launch. These are no longer left out by the
            // group's return, but by who calls.
            if comm.has_returned.load(Relaxed) && nccl_is_told_apart() {
                self.launches_returned(comm, ring);
            }
            timed
        });
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
        launch.first.store(0, Relaxed);
        comm.pushed.store(pushed.wrapping_add(1), Release);
    }

    /// The launch of a plan's calls: the oldest one of their group that no plan has taken. True beside it if
    /// launches were lost, so that this may be another's.
    #[inline]
    pub(super) fn launch_of<'a>(
        &self,
        comm: &'a CommState,
        group: u64,
    ) -> Option<(&'a PendingLaunch, bool)> {
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

    /// Joins a row with the CUDA events of its launch; returns the part to add to the row. If several calls
    /// share a launch, its time belongs to none of them.
    #[inline(never)]
    pub(super) fn timed(
        &self,
        inside: &Inside,
        launch: &PendingLaunch,
        timed: u64,
        handle: Handle,
        row: &Row,
    ) -> u16 {
        let fuse = |row: &Row| {
            let verdict = row.verdict.load(Relaxed) | verdict::FUSED;
            row.verdict.store(verdict, Relaxed);
        };
        match launch.first.load(Relaxed) {
            0 => launch.first.store(self.give(handle), Relaxed),
            first => {
                if let Some(first) = self.live_row(inside, self.read(first)) {
                    fuse(first);
                }
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

    /// Begins to time a call that NCCL launches without an event. A blocking communicator launches it between
    /// the end of the group and the return of the call.
    #[inline(never)]
    pub(super) fn begin_bracket(&self, ring: &Ring, word: u64, group: &Group) {
        if group.captured.load(Relaxed) != 0 {
            return;
        }
        let inside = self.inside();
        let Some(row) = self.first_row(&inside, word, group) else {
            return;
        };
        let (func, count) = (row.func.load(Relaxed), row.count.load(Relaxed));
        if ring.brackets(func) {
            let timed = ring.begin(&self.switch, row.stream.load(Relaxed), func, count);
            ring.bracket(timed);
        }
    }

    /// Ends what [`Recorder::begin_bracket`] began, and learns whether calls of this function are launched
    /// with an event.
    #[inline(never)]
    pub(super) fn end_bracket(
        &self,
        inside: &Inside,
        comm: &CommState,
        ring: &Ring,
        word: u64,
        group: &Group,
    ) {
        let timed = ring.take_bracket();
        if group.captured.load(Relaxed) != 0 {
            return;
        }
        let Some(row) = self.first_row(inside, word, group) else {
            return;
        };
        let launched = group.launches.load(Relaxed) != 0;
        ring.learn(row.func.load(Relaxed), launched);
        if launched {
            return;
        }
        let parts = row.parts.load(Relaxed);
        let stream = row.stream.load(Relaxed);
        self.waits.launching(stream);
        match timed {
            Timed::By(number) if ring.end(&self.switch, stream) => {
                comm.launching_on.store(stream, Relaxed);
                comm.launched.store(u64::from(number) + 1, Relaxed);
                row.event.store(number, Relaxed);
                row.parts.store(parts | part::EVENTS, Release);
            }
            Timed::Unsampled => row.parts.store(parts | part::UNSAMPLED, Release),
            _ => {}
        }
    }
}
