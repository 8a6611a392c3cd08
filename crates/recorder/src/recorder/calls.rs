//! Groups, API events, tasks and plans: a row, from its announcement to the return of its call.
//!
//! From ABI v5 on, NCCL announces a call in this order: GroupApi start, CollApi or P2pApi, (launch,) Group
//! (the plan), Coll or P2p, and the stop of GroupApi. The API event takes the row, the Coll or P2p event
//! fills in line B, and the stop of the group says that the call returned. Below v5, and in replays of CUDA
//! graphs, Coll or P2p does it all.

use super::communicators::CommState;
use super::rows::{prefetch, Birth};
use super::Recorder;
use crate::driver_time;
use crate::events::{Api, Task};
use crate::handle::{Handle, HandleKind};
use crate::ranges::{self, Ranges};
use crate::seats::{thread, Inside};
use capture::graphs::Shape;
use capture::live::{flag, part, Cause, Group, Odd, Row, GROUPS};
use capture::rows::Ticks;
use nccl_abi::names;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What is known of a call's return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    NotYet,
    /// At that time.
    At(Ticks),
    /// NCCL announced no group for the call, so it does not tell.
    NeverTold,
    /// So long ago that the group's entry serves another group.
    Forgotten,
}

impl Recorder {
    #[inline]
    pub(super) fn start_group(&self, context: u64, captured: bool, depth: i32) -> u64 {
        let Some((comm_slot, comm)) = self.comm(context) else {
            return self.ignored();
        };
        if let Some(ring) = comm.ring() {
            ring.called_by(thread());
            comm.launched.store(0, Relaxed);
            comm.has_returned.store(false, Relaxed);
        }
        let ticket = self.header().groups_seen.fetch_add(1, Relaxed);
        let group = &self.groups[ticket as usize % GROUPS];
        prefetch(&self.groups[(ticket as usize + 1) % GROUPS]);
        group.comm.store(comm.uid.load(Relaxed), Relaxed);
        group.calls.store(0, Relaxed);
        group.t_start.store(Ticks(0), Relaxed);
        group.t_closing.store(Ticks(0), Relaxed);
        group.t_stop.store(Ticks(0), Relaxed);
        group.first_row.store(0, Relaxed);
        group.launches.store(0, Relaxed);
        group.captured.store(captured.into(), Relaxed);
        group.depth.store(depth as u8, Relaxed);
        group.word.store(ticket + 1, Release);
        self.give(Handle::of_ticket(HandleKind::GroupApi, comm_slot, ticket))
    }

    #[inline(always)]
    pub(super) fn start_api(&self, context: u64, parent: u64, api: &Api) -> u64 {
        let t = self.clock.ticks();
        let Some((comm_slot, comm)) = self.comm(context) else {
            return self.call_without_comm(context);
        };
        let uid = comm.uid.load(Relaxed);
        // A group's context is that of its first call, so the parent may belong to another communicator.
        let parent = self.read(parent);
        let group = if parent.is(HandleKind::GroupApi) {
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
            stack: self.stack(),
            driver: driver_time::take(),
            user_tag: api.user_tag,
            thread: self.threads.number(),
        };
        if let Some(ranges) = &self.ranges {
            self.begin_range(ranges, (comm_slot, comm), &call);
        }
        let born = self.birth(HandleKind::Api, uid, &call);
        if let Some((_, group)) = group {
            let calls = group.calls.load(Relaxed);
            if calls == 0 {
                group.t_start.store(t, Relaxed);
                let first = born.map_or(0, |handle| handle.slot() + 1);
                group.first_row.store(first, Relaxed);
            }
            group.calls.store(calls.wrapping_add(1), Relaxed);
        }
        let handle = match born {
            Some(handle) => self.give(handle),
            None => self.encode(HandleKind::Rowless, 0, 0, 0),
        };
        if api.captured {
            let group = call.group;
            return self.template(
                comm_slot,
                uid,
                api,
                (group, call.stack),
                [call.func, call.datatype],
                handle,
            );
        }
        handle
    }

    /// Tells other tools of a call, if NCCL will tell when its group returns.
    #[cold]
    #[inline(never)]
    fn begin_range(&self, ranges: &Ranges, (slot, comm): (u16, &CommState), call: &Birth) {
        if call.group == 0 {
            return;
        }
        let place = |ids: &[u8], id: u8| ids.iter().position(|known| *known == id);
        let function = place(&self.known.funcs, call.func).unwrap_or(names::FUNCS.len());
        let datatype = place(&self.known.datatypes, call.datatype);
        let size = datatype.map_or(0, |at| names::DATATYPES[at].size as u64);
        let of = self.live.comms().get(usize::from(slot));
        let group = call.group;
        let call = ranges::Call {
            function,
            bytes: call.count.saturating_mul(size),
            communicator: of.map_or(0, |of| of.hash.load(Relaxed)),
            number: ranges::number(&comm.calls, function),
        };
        ranges.begin(group, &call);
    }

    /// The id of the calling thread's stack; 0 if stacks are off.
    #[inline(always)]
    fn stack(&self) -> u32 {
        self.stacks.as_ref().map_or(0, |stacks| stacks.id())
    }

    // Inlined, so that the call needn't be in memory on the way that other calls take.
    #[inline(always)]
    fn template(
        &self,
        comm_slot: u16,
        uid: u32,
        api: &Api,
        (group, stack): (u64, u32),
        names: [u8; 2],
        row: u64,
    ) -> u64 {
        let p2p = if api.p2p { flag::P2P } else { 0 };
        let [func, datatype] = names;
        // Before the capture can end: a library may have looked the driver up since the last time.
        self.look_for_callers(!self.graphs.any());
        self.graphs.captured(
            self.graph_of(api.stream),
            Shape {
                comm: uid,
                func,
                datatype,
                flags: flag::CAPTURED | p2p,
                count: api.count,
                root: api.root,
            },
        );
        let Some((number, template)) = self.templates.add() else {
            self.header().lost[Cause::TemplatesFull as usize].fetch_add(1, Relaxed);
            return row;
        };
        template.comm.store(uid, Relaxed);
        template.count.store(api.count, Relaxed);
        template.stream.store(api.stream, Relaxed);
        template.group.store(group, Relaxed);
        template.root.store(api.root as u32, Relaxed);
        template.func.store(func, Relaxed);
        template.datatype.store(datatype, Relaxed);
        template.p2p.store(api.p2p.into(), Relaxed);
        template.row.store(row, Relaxed);
        template.stack.store(stack, Relaxed);
        template.publish(comm_slot.into());
        self.encode(HandleKind::Template, 0, number, 0)
    }

    #[inline(always)]
    pub(super) fn start_task(&self, context: u64, parent: u64, task: &Task) -> u64 {
        let Some((_, comm)) = self.comm(context) else {
            return match self.read(parent).kind() {
                _ if task.legacy => self.call_without_comm(context),
                // A replay.
                Some(HandleKind::Template) => self.call_without_comm(context),
                Some(HandleKind::Rowless) => self.encode(HandleKind::Rowless, 0, 0, 0),
                _ => self.ignored(),
            };
        };
        if task.legacy {
            return self.start_legacy(comm, task);
        }
        let parent = self.read(parent);
        let inside = self.inside();
        let handle = if parent.is(HandleKind::Api) || parent.is(HandleKind::Task) {
            parent.renamed(HandleKind::Task, 0)
        } else {
            match self.adopt(&inside, parent) {
                Ok(handle) => handle,
                Err(given) => return given,
            }
        };
        if let Some(row) = self.row(&inside, handle) {
            self.plan(&inside, comm, handle, row, task);
        }
        self.give(handle)
    }

    /// The row of a task with a parent that is no row: the new row of a replay. `Err` is the handle to give
    /// if there is none.
    #[cold]
    fn adopt(&self, inside: &Inside, parent: Handle) -> Result<Handle, u64> {
        match parent.kind() {
            Some(HandleKind::Template) => self.replay(inside, parent.slot()),
            Some(HandleKind::Rowless) => Err(self.encode(HandleKind::Rowless, 0, 0, 0)),
            _ => {
                self.odd(Odd::Orphan);
                Err(self.ignored())
            }
        }
    }

    /// Fills in line B of a row from its Coll or P2p event, and joins it with its launch.
    #[inline(always)]
    fn plan(&self, inside: &Inside, comm: &CommState, handle: Handle, row: &Row, task: &Task) {
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
                    parts |= self.timed(inside, launch, timed, handle, row);
                }
            }
            None => row.t_enqueue.store(self.clock.ticks(), Relaxed),
        }
        row.parts.store(parts, Release);
    }

    pub(super) fn replay(&self, inside: &Inside, number: u32) -> Result<Handle, u64> {
        let Some(template) = self.templates.get(number).filter(|t| t.ready()) else {
            self.odd(Odd::ForeignHandle);
            return Err(self.ignored());
        };
        // If a plan needs nothing at replay, NCCL announces its tasks once, at capture. They belong to the
        // template's own row, which is there until its group has returned.
        let own = self.read(template.row.load(Relaxed));
        if own.is(HandleKind::Api) {
            let under_way = |row: &Row| self.returned(row) == Returned::NotYet;
            if self.live_row(inside, own).is_some_and(under_way) {
                return Ok(own.renamed(HandleKind::Task, 0));
            }
        }
        // A call that found no row was counted when it was announced. Until its group has returned, this is
        // the same call.
        if own.is(HandleKind::Rowless) && self.is_open(template.group.load(Relaxed)) {
            return Err(self.encode(HandleKind::Rowless, 0, 0, 0));
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
            stack: template.stack.load(Relaxed),
            driver: 0,
            user_tag: 0,
            thread: 0,
        };
        match self.birth(HandleKind::Task, template.comm.load(Relaxed), &call) {
            Some(handle) => Ok(handle),
            None => Err(self.encode(HandleKind::Rowless, 0, 0, 0)),
        }
    }

    /// The group of a handle that names one.
    #[inline]
    pub(super) fn group_at(&self, handle: Handle) -> Option<(u64, &'static Group)> {
        let group = &self.groups[handle.ticket() as usize % GROUPS];
        let word = group.word.load(Relaxed);
        handle
            .is_ticket(word.wrapping_sub(1))
            .then_some((word, group))
    }

    /// Whether the group that began with this word has not returned yet.
    fn is_open(&self, word: u64) -> bool {
        word.checked_sub(1).is_some_and(|ticket| {
            let group = &self.groups[ticket as usize % GROUPS];
            let t_stop = group.t_stop.load(Acquire);
            group.word.load(Acquire) == word && t_stop == Ticks(0)
        })
    }

    /// Whether and when a call returned to the program.
    pub fn returned(&self, row: &Row) -> Returned {
        let t_end = row.t_end.load(Acquire);
        if t_end != Ticks(0) {
            return Returned::At(t_end);
        }
        if row.flags.load(Relaxed) & flag::UNGROUPED != 0 {
            return Returned::NotYet;
        }
        let word = row.group.load(Relaxed);
        let Some(ticket) = word.checked_sub(1) else {
            return Returned::NeverTold;
        };
        let group = &self.groups[ticket as usize % GROUPS];
        let t_stop = group.t_stop.load(Acquire);
        if group.word.load(Acquire) != word {
            return Returned::Forgotten;
        }
        // An earlier time is the end of the group that had the entry before.
        if t_stop == Ticks(0) || t_stop < row.t_api.load(Relaxed) {
            return Returned::NotYet;
        }
        Returned::At(t_stop)
    }

    /// Below ABI v5, Coll or P2p is the first that NCCL tells of a call.
    #[inline(never)]
    pub(super) fn start_legacy(&self, comm: &CommState, task: &Task) -> u64 {
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
            stack: self.stack(),
            driver: driver_time::take(),
            user_tag: 0,
            thread: self.threads.number(),
        };
        let inside = self.inside();
        let Some(handle) = self.birth(HandleKind::Task, uid, &call) else {
            return self.encode(HandleKind::Rowless, 0, 0, 0);
        };
        if let Some(row) = self.row(&inside, handle) {
            self.plan(&inside, comm, handle, row, task);
        }
        self.give(handle)
    }

    /// ABI v1 to v3 tell a communicator's hash and rank only with its calls.
    fn learn(&self, uid: u32, task: &Task) {
        let Some(slot) = self.slot_of(uid) else {
            return;
        };
        let Some(comm) = self.live.comms().get(usize::from(slot)) else {
            return;
        };
        if comm.hash.load(Relaxed) == 0 && task.hash != 0 {
            comm.hash.store(task.hash, Relaxed);
            self.definition_changed(slot);
        }
        if comm.rank.load(Relaxed) == u32::MAX && task.rank >= 0 {
            comm.rank.store(task.rank as u32, Relaxed);
            self.definition_changed(slot);
        }
    }

    pub(super) fn start_copy_engine(
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
            Some(HandleKind::Api) => {
                let inside = self.inside();
                if let Some(row) = self.row(&inside, parent) {
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
                self.give(parent.renamed(HandleKind::Task, 0))
            }
            Some(HandleKind::Template | HandleKind::Rowless) => {
                self.encode(HandleKind::Rowless, 0, 0, 0)
            }
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
    pub(super) fn stop_group(&self, handle: Handle) {
        // Before the group is looked up: see `several_return`.
        let now = self.clock.ticks();
        let Some((word, group)) = self.group_at(handle) else {
            return self.odd(Odd::StaleHandle);
        };
        #[cfg(debug_assertions)]
        crate::guard::forced::found();
        if let Some(ranges) = &self.ranges {
            ranges.end(word);
        }
        let comm = self.comms.at(handle.comm());
        if group.calls.load(Relaxed) == 1 {
            // A group of one call, by far the commonest: its row gets the time, and needs the group no more.
            let inside = self.inside();
            if let Some(ring) = comm.ring() {
                self.end_bracket(&inside, comm, ring, word, group);
                self.launches_returned(comm, ring);
            }
            if let Some(row) = self.first_row(&inside, word, group) {
                return row.t_end.store(now, Release);
            }
        }
        if let Some(ring) = comm.ring() {
            self.launches_returned(comm, ring);
        }
        Self::several_return(group, now);
    }

    /// A group has returned, and its calls will find that time in it.
    ///
    /// The table of groups goes round, and this callback may be so late that the entry serves another group
    /// meanwhile. Then `now` is earlier than all of that group's times. Nobody takes it for that group's end,
    /// and it does not replace the end.
    #[inline(never)]
    fn several_return(group: &Group, now: Ticks) {
        let found = group.t_stop.compare_exchange(Ticks(0), now, Release);
        if found.is_err_and(|other| other < group.t_start.load(Relaxed)) {
            group.t_stop.store(now, Release);
        }
    }

    #[inline]
    pub(super) fn stop_plan(&self, handle: Handle) {
        let comm = self.comms.at(handle.comm());
        let popped = comm.popped.load(Relaxed);
        if popped != comm.pushed.load(Relaxed) {
            comm.popped.store(popped.wrapping_add(1), Relaxed);
        }
    }

    #[inline]
    pub(super) fn stop_task(&self, handle: Handle) {
        let inside = self.inside();
        let Some(row) = self.row(&inside, handle) else {
            return;
        };
        let parts = row.parts.load(Relaxed);
        row.parts.store(parts | part::ENQUEUE_DONE, Release);
        if row.flags.load(Relaxed) & flag::UNGROUPED != 0 {
            self.unbracketed_ends(row);
        }
    }

    #[inline]
    pub(super) fn group_closes(&self, handle: Handle) {
        if let Some((word, group)) = self.group_at(handle) {
            if group.calls.load(Relaxed) > 1 {
                self.several_close(group);
            } else if let Some(ring) = self.comms.at(handle.comm()).ring() {
                self.begin_bracket(ring, word, group);
            }
        }
    }

    #[cold]
    fn several_close(&self, group: &Group) {
        group.t_closing.store(self.clock.ticks(), Relaxed);
    }

    /// A call without a GroupApi event counts as returned once it is enqueued: NCCL tells no more.
    #[cold]
    fn unbracketed_ends(&self, row: &Row) {
        row.t_end.store(self.clock.ticks(), Release);
    }
}
