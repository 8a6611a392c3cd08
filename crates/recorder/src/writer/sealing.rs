//! Sealing: takes rows from their birth to the block or the totals that they end in. `recorder/rows.rs` has
//! the chart.
//!
//! A row is sealed when all parts have come that its kind of call has on its communicator. Some parts never
//! come: an aborted kernel does not stop, and a proxy may report no completion. The recorder waits for these
//! only until the communicator has moved on. If a communicator stalls, its rows stay live, and no others.

use super::folding::key_of_record;
use super::{Writer, NONE};
use crate::control::lock;
use crate::gpu_events::{Ring, Waited};
use crate::recorder::{Recorder, Returned};
use crate::settings::{Mode, Timing};
use capture::block::{self, BlockKind};
use capture::live::{flag, on_gpu, part, row_state, waiter, Cause, Odd, Row, Section};
use capture::rows::{GpuTime, Record, Ticks};
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// How long the recorder waits for a part that usually follows at once, ns.
const SETTLE: u64 = 200_000_000;
/// How long it waits for a part that NCCL has begun and not ended, once the communicator has moved on, ns.
pub(super) const AGED: u64 = 3_000_000_000;
/// Rows of a communicator that are looked at in a pass, from the oldest on, while they can't be sealed.
const WINDOW: usize = 32;

/// A communicator's rows that are not sealed, oldest first, linked through `Writer::next`.
#[derive(Clone, Copy)]
pub(super) struct Queue {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) rows: u32,
    // Ticket + 1 of the newest row that was sealed, and of the newest sealed one that had run (`has_run`).
    pub(super) sealed: u64,
    pub(super) executed: u64,
    // The last row up to which all rows have the times of their launches, or never will; NONE if not known.
    pub(super) timed: u32,
}

impl Queue {
    pub(super) const EMPTY: Queue = Queue {
        first: NONE,
        last: NONE,
        rows: 0,
        sealed: 0,
        executed: 0,
        timed: NONE,
    };
}

/// What later calls of a communicator have done.
#[derive(Clone, Copy)]
struct Passed {
    /// One has returned to the program.
    called: bool,
    /// One has run on the GPU or the network.
    executed: bool,
}

impl Writer {
    /// Queues the rows born since the last time.
    pub(super) fn collect(&mut self) {
        let recorder = self.recorder;
        let born = recorder.header().born.load(Acquire);
        while self.drained < born {
            let slot = recorder.free.slot_of(self.drained);
            let row = &self.rows()[slot as usize];
            let word = row.word.load(Acquire);
            if word & 3 != row_state::ALIVE
                || row_state::ticket(word) != self.drained & ((1 << row_state::TICKET_BITS) - 1)
            {
                // Its birth is under way. The rows after it wait a moment too.
                break;
            }
            let uid = row.comm.load(Relaxed);
            let at = comm_slot(recorder, uid);
            if at >= self.queues.len() {
                self.queues.resize(at + 1, Queue::EMPTY);
            }
            let queue = &mut self.queues[at];
            self.next[slot as usize] = NONE;
            if queue.first == NONE {
                queue.first = slot;
            } else {
                self.next[queue.last as usize] = slot;
            }
            queue.last = slot;
            queue.rows += 1;
            let nranks = recorder.live.comms()[at].nranks.load(Relaxed);
            self.traffic.count(nranks, row.peer.load(Relaxed));
            self.drained += 1;
            self.waiting += 1;
        }
        recorder.header().drained.store(self.drained, Release);
    }

    /// Joins rows with the GPU times that came since.
    pub(super) fn join_times(&mut self) {
        if self.recorder.driver().is_none() {
            return;
        }
        let error = self.recorder.switch.error.load(Relaxed);
        if error != self.recorder.header().cuda_error.load(Relaxed) {
            self.recorder.header().cuda_error.store(error, Relaxed);
        }
        // At once, and not only when a row is sealed, so that a process that is killed leaves its times with
        // its calls.
        for at in 0..self.queues.len() {
            let mut newest = self.queues[at].timed;
            let mut slot = if newest == NONE {
                self.queues[at].first
            } else {
                self.next[newest as usize]
            };
            while slot != NONE {
                let row = &self.rows()[slot as usize];
                // Until a call has returned, its launch may still be timed.
                let under_way = self.recorder.returned(row) == Returned::NotYet;
                if under_way || !self.join(at, row) {
                    break;
                }
                (newest, slot) = (slot, self.next[slot as usize]);
            }
            self.queues[at].timed = newest;
            self.note_oldest(at, slot);
        }
    }

    /// Notes how far the GPU has come with the oldest launch of a communicator, if that has been under way
    /// for long. The rows of its calls are not before `from`.
    fn note_oldest(&self, at: usize, from: u32) {
        let oldest = self.recorder.ring_of(at).and_then(|ring| ring.oldest());
        let Some(oldest) = oldest else {
            return;
        };
        let mut slot = from;
        let mut is_noted = false;
        while slot != NONE {
            let row = &self.rows()[slot as usize];
            let is_its = row.parts.load(Acquire) & part::EVENTS != 0
                && row.event.load(Relaxed) == oldest.number;
            if is_its {
                row.asked.store(oldest.asked, Relaxed);
                row.on_gpu.store(oldest.on_gpu, Release);
            } else if is_noted {
                break;
            }
            is_noted |= is_its;
            slot = self.next[slot as usize];
        }
    }

    /// Gives a row the times of its launch. False as long as they may still come.
    fn join(&self, at: usize, row: &Row) -> bool {
        let asked = row.parts.load(Acquire) & part::EVENTS != 0;
        if !asked || row.event_start.load(Relaxed) != Ticks(0) {
            return true;
        }
        let Some(ring) = self.recorder.ring_of(at) else {
            return true;
        };
        match ring.span(row.event.load(Relaxed), &self.recorder.switch) {
            None => false,
            Some(None) => {
                row.on_gpu.store(on_gpu::NOT_ASKED, Relaxed);
                true
            }
            Some(Some(span)) => {
                row.on_gpu.store(on_gpu::NOT_ASKED, Relaxed);
                row.event_ns.store(span.ns, Relaxed);
                row.event_error.store(span.error, Relaxed);
                store_wait(ring, row);
                // Meets the Acquire of `Record::load`: whoever sees the start sees the others.
                row.event_start.store(span.start, Release);
                true
            }
        }
    }

    /// Gives a row that has times what is known since of the stream that waited for its call.
    fn note_wait(&self, at: usize, row: &Row) {
        let timed = row.parts.load(Acquire) & part::EVENTS != 0
            && row.event_start.load(Relaxed) != Ticks(0);
        if let Some(ring) = self.recorder.ring_of(at).filter(|_| timed) {
            store_wait(ring, row);
        }
    }

    /// Seals what can be sealed. With `all`, that includes calls with parts that have not come and may never.
    pub(super) fn seal(&mut self, all: bool) {
        let now = self.recorder.clock.ticks();
        let rows = self.rows().len() as u64;
        // Under pressure the recorder waits only for what is certain to come.
        let pressed = self.waiting > rows * 3 / 4;
        for at in 0..self.queues.len() {
            if self.queues[at].rows != 0 {
                self.seal_queue(at, now, all || pressed);
            }
        }
        self.write_batch();
    }

    /// Makes rows if that was asked for, or if few are free.
    pub(super) fn make_rows(&mut self) {
        let control = &self.recorder.writer;
        let wanted = lock(&control.asked).rows;
        while self.rows().len() < wanted && self.double_rows() {}
        let mut asked = lock(&control.asked);
        if asked.rows_seen < wanted {
            asked.rows_seen = wanted;
            control.done.notify_all();
        }
        drop(asked);
        if self.waiting > self.rows().len() as u64 / 2 && !self.grown {
            self.grown = !self.double_rows();
        }
    }

    /// Makes as many rows as there are. False if there is no room.
    fn double_rows(&mut self) -> bool {
        let recorder = self.recorder;
        let (there, more) = (self.rows().len(), 2 * self.rows().len());
        if !recorder.grow(Section::Rows, there, more) {
            return false;
        }
        // SAFETY: the live part has so many now.
        unsafe { recorder.rows.grow(more) };
        self.next.resize(more, NONE);
        (there..more).for_each(|slot| recorder.free.give(slot as u32));
        true
    }

    /// Takes note of communicators that were finalized. All of their calls are among those that are born.
    pub(super) fn take_ended(&mut self) {
        let ended = self.recorder.comms.ended.take(usize::MAX);
        let born = self.recorder.header().born.load(Acquire);
        self.ending
            .extend(ended.into_iter().map(|slot| (slot, born)));
    }

    /// Gives back the slots of finalized communicators that nothing here needs any more.
    pub(super) fn give_slots(&mut self) {
        let (recorder, drained, queues) = (self.recorder, self.drained, &self.queues);
        self.ending.retain(|(slot, born)| {
            let queue = queues.get(usize::from(*slot));
            let is_needed = drained < *born
                || queue.is_some_and(|queue| queue.rows != 0)
                || recorder.comms.changed.has(*slot);
            is_needed || !recorder.writer.slot_is_idle(*slot)
        });
    }

    fn seal_queue(&mut self, at: usize, now: Ticks, hurried: bool) {
        let mut previous = NONE;
        let mut slot = self.queues[at].first;
        let mut looked = 0;
        while slot != NONE && looked < WINDOW {
            let next = self.next[slot as usize];
            let row = &self.rows()[slot as usize];
            let timed = self.join(at, row);
            // The stream may have come to its wait long after the call's end.
            self.note_wait(at, row);
            let record = self.load(row).and_then(|record| {
                let passed = self.passed(at, next, record.ticket);
                self.ready(record, now, passed, timed, hurried)
            });
            if let Some(record) = record {
                if self.recorder.returned(row) == Returned::Forgotten {
                    self.recorder.header().odd[Odd::GroupLost as usize].fetch_add(1, Relaxed);
                }
                let queue = &mut self.queues[at];
                queue.sealed = queue.sealed.max(record.ticket + 1);
                if has_run(&record) {
                    queue.executed = queue.executed.max(record.ticket + 1);
                }
                if previous == NONE {
                    self.queues[at].first = next;
                } else {
                    self.next[previous as usize] = next;
                }
                if next == NONE {
                    self.queues[at].last = previous;
                }
                self.queues[at].rows -= 1;
                self.queues[at].timed = NONE;
                self.records.push(record);
                self.slots.push(slot);
                if self.records.len() == self.batch {
                    self.write_batch();
                }
            } else {
                previous = slot;
                // A row that waits for its time does not count: times come soon, and to many rows at once.
                looked += usize::from(timed);
            }
            slot = next;
        }
    }

    /// What a row has, if its call has returned.
    fn load(&self, row: &Row) -> Option<Record> {
        // Before all other fields: what the call's thread stored before its return is then seen.
        let returned = self.recorder.returned(row);
        let mut record = Record::load(row)?;
        if record.t_end == Ticks(0) {
            // If NCCL does not tell when a call returned, its last known time stands for that.
            let last_known = record.t_launch1.max(record.t_enqueue).max(record.t_api);
            record.t_end = match returned {
                Returned::NotYet => return None,
                Returned::At(t) => t,
                Returned::NeverTold | Returned::Forgotten => last_known,
            };
        }
        Some(record)
    }

    /// How far the communicator is past a call, judged by the call behind it and by the sealed ones.
    fn passed(&self, at: usize, next: u32, ticket: u64) -> Passed {
        let queue = &self.queues[at];
        let (mut called, mut executed) = (queue.sealed > ticket, queue.executed > ticket);
        if next != NONE {
            let row = &self.rows()[next as usize];
            let ran = row.k_stopped.load(Relaxed) != 0
                || row.stamp_stop.load(Relaxed) != GpuTime(0)
                || row.event_start.load(Relaxed) != Ticks(0)
                || row.ops_stopped.load(Relaxed) != 0;
            called |= ran || self.recorder.returned(row) != Returned::NotYet;
            executed |= ran;
        }
        Passed { called, executed }
    }

    /// The row as it is to be written, if all of its parts have come. `timed`: it has its GPU time, or gets
    /// none.
    fn ready(
        &self,
        r: Record,
        now: Ticks,
        passed: Passed,
        timed: bool,
        hurried: bool,
    ) -> Option<Record> {
        let age = |then: Ticks| now.since(then) as f64 * self.ns_per_tick;
        let settled = hurried || age(r.t_end) > SETTLE as f64;
        // A later call that only returned proves nothing: the program may be far ahead of a GPU that waits
        // for a late rank.
        let aged =
            passed.executed && age(r.t_end.max(r.k_seen)) > AGED as f64 || passed.called && hurried;
        let stamps = self.recorder.settings.timing == Timing::Stamps
            && r.shape.parts & part::COPY_ENGINE == 0;
        let channels = u16::from(r.shape.nchannels);
        let ready = if r.shape.flags & flag::CAPTURED != 0 {
            true
        } else if !timed {
            aged
        } else if r.shape.parts & part::ENQUEUED == 0 && r.shape.flags & flag::P2P != 0 {
            // All NCCL releases tell that a send is enqueued. A non-blocking communicator may connect to the
            // peer for seconds before that, long after the call has returned.
            aged || hurried
        } else if r.shape.parts & part::ENQUEUED == 0 {
            // Broadcast from 2.29 on, symmetric kernels up to 2.30: the API events are all there is.
            settled
        } else if r.k_started != r.k_stopped
            || (stamps && r.k_stopped < channels)
            || r.ops_started != r.ops_stopped
        {
            aged
        } else {
            // If the number of channels is not known, kernel events begin a little after the call; so do
            // network operations.
            let more = (stamps && r.k_stopped == 0)
                || (r.ops_started == 0 && self.multi_node(r.shape.comm));
            !more || settled
        };
        ready.then_some(r)
    }

    fn multi_node(&self, uid: u32) -> bool {
        let slot = self.recorder.slot_of(uid).map(usize::from);
        let comm = slot.and_then(|slot| self.recorder.live.comms().get(slot));
        comm.is_some_and(|comm| comm.nnodes.load(Relaxed) > 1)
    }

    /// Writes the batch as a block, or folds it into the totals, and retires its rows.
    fn write_batch(&mut self) {
        if self.records.is_empty() {
            return;
        }
        self.note_steps();
        match self.why_not() {
            None if !self.make_room() => self.fold_batch(Some(Cause::WriteFailed)),
            None => {
                let number = self.recorder.header().block_number.load(Relaxed);
                self.buffer.clear();
                let start = block::begin(&mut self.buffer);
                self.encoder.encode(&mut self.buffer, &self.records);
                block::finish(&mut self.buffer, start, BlockKind::Rows, number);
                if self.stage() {
                    self.recorder
                        .header()
                        .sealed
                        .fetch_add(self.records.len() as u64, Relaxed);
                    self.account();
                    for i in 0..self.slots.len() {
                        self.retire(self.slots[i]);
                    }
                } else {
                    self.fold_batch(Some(Cause::WriteFailed));
                }
            }
            Some(cause) => self.fold_batch(cause),
        }
        self.records.clear();
        self.slots.clear();
        self.give_back();
    }

    /// Why rows are folded instead of written. `Some(None)`: in profile mode, because that was asked for.
    fn why_not(&self) -> Option<Option<Cause>> {
        if self.recorder.settings.mode == Mode::Profile {
            return Some(None);
        }
        if !self.rotation.rotates() && self.size() >= self.recorder.settings.max_size {
            return Some(Some(Cause::SizeLimit));
        }
        None
    }

    /// Adds the rows of the batch, which is written, to the account of their file.
    fn account(&mut self) {
        if !self.rotation.accounts() {
            return;
        }
        for r in &self.records {
            let times = self.totals.times(r, self.ns_per_tick);
            self.rotation.add(key_of_record(r, &times), times);
        }
    }

    fn fold_batch(&mut self, cause: Option<Cause>) {
        let header = self.recorder.header();
        if let Some(cause) = cause {
            header.lost[cause as usize].fetch_add(self.records.len() as u64, Relaxed);
        }
        for i in 0..self.records.len() {
            self.totals.fold(&self.records[i], self.ns_per_tick);
            self.retire(self.slots[i]);
            header.undo.ticket.store(0, Release);
            header.folded.fetch_add(1, Relaxed);
            self.net_totals.add(&self.records[i]);
        }
    }

    /// Takes a row out of the callbacks' reach: from here on its handles find nothing.
    fn retire(&mut self, slot: u32) {
        let row = &self.rows()[slot as usize];
        let word = row.word.load(Relaxed);
        let generation =
            (row_state::generation(word) + 1) & ((1 << row_state::GENERATION_BITS) - 1);
        row.word.store(
            row_state::word(generation, row_state::ticket(word), row_state::FREE),
            Release,
        );
        self.keeper.retire(&self.recorder.seats, slot);
        self.waiting -= 1;
    }

    /// Gives retired rows back to the ring that no callback can be storing to any more.
    pub(super) fn give_back(&mut self) {
        let revoked = self.recorder.revoked_net_ops();
        if !self.keeper.waits() && revoked == self.revoked {
            return;
        }
        self.revoked = revoked;
        let seats = &self.recorder.seats;
        self.keeper.look(seats);
        while let Some(slot) = self.keeper.take(seats) {
            clear(&self.rows()[slot as usize]);
            self.recorder.free.give(slot);
        }
    }
}

/// Gives a row what is known of the stream that waited for its call.
fn store_wait(ring: &Ring, row: &Row) {
    let (kind, stream, length) = match ring.waited(row.event.load(Relaxed)) {
        Waited::Not => return,
        Waited::For(length, stream) => (waiter::TIMED, stream, length),
        Waited::Ended(stream) => (waiter::ENDED, stream, 0),
        Waited::Untimed(stream) => (waiter::UNTIMED, stream, 0),
    };
    row.waited.store(waiter::units(length) as u32, Relaxed);
    row.waiter.store(waiter::word(stream, kind), Relaxed);
}

/// Whether anything has come from the GPU or the network.
fn has_run(record: &Record) -> bool {
    let of_gpu = record.stamp_stop != GpuTime(0) || record.event_start != Ticks(0);
    record.k_stopped != 0 || of_gpu || record.ops_stopped != 0
}

/// Zeroes what the other threads wrote, for the next call.
fn clear(row: &Row) {
    const WORDS: usize = std::mem::size_of::<Row>() / 8;
    // SAFETY: lines B to E of the row, 8-byte aligned; the row is free, and every field is an atomic.
    let words = unsafe {
        std::slice::from_raw_parts(
            std::ptr::from_ref(row).cast::<AtomicU64>().add(8),
            WORDS - 8,
        )
    };
    words.iter().for_each(|word| word.store(0, Relaxed));
}

/// A communicator's place in the tables, by uid. That of one which is gone is as good as any: its calls are
/// sealed one after the other.
fn comm_slot(recorder: &Recorder, uid: u32) -> usize {
    let slot = recorder.slot_of(uid);
    slot.map_or(uid as usize % recorder.live.comms().len(), usize::from)
}
