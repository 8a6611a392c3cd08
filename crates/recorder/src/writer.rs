//! The recorder's own thread: it seals finished rows into the trace file and keeps everything durable.
//!
//! Every few milliseconds it looks at the rows born since, in order of ticket, and queues each at its communicator. Rows
//! are sealed at a flush, or earlier when many wait: encoded into a block, staged in the live part, and only then freed.
//! When a row can't be written (`profile` mode, disk full) it is folded into the totals instead, so a call is
//! always in exactly one place. A trace file that has its share of the size limit is followed by another ([`Rotation`]).
//!
//! A row is sealed when all parts that its kind of call has on its communicator have come; parts that never come (an
//! aborted kernel, a proxy without completion) are waited for only until the communicator has moved on. A stalled
//! communicator's rows stay live, and only those.

use crate::clock;
use crate::gpu_events::{HostClock, Poller, PAIRS};
use crate::recorder::{say, Recorder};
use crate::rotation::Rotation;
use crate::settings::{host, Mode, Timing};
use crate::totals::{key_of_record, Totals};
use crate::{cuda, place};
use capture::block::{self, Kind};
use capture::live::{self, flag, part, row_state, Cause, Odd, Row, Section};
use capture::net_op::NetOp;
use capture::rotated;
use capture::rows::{definitions, Encoder, Record};
use capture::snapshot;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Condvar, Mutex, TryLockError};
use std::time::{Duration, Instant};

/// Rows in a block at most: a block then fits in the staging area whatever the rows hold.
const BATCH: usize = 1024;
/// How long a part that usually follows at once is waited for, ns.
const SETTLE: u64 = 200_000_000;
/// How long a part that NCCL has begun and not ended is waited for once the communicator has moved on, ns.
const AGED: u64 = 3_000_000_000;
/// Between flushes to a disk of this host.
const FLUSH: Duration = Duration::from_secs(1);
/// Between flushes to a network file system, where few large writes are kind; a call is there 5 s after it ended, the time
/// of the write itself included.
const NETWORK_FLUSH: Duration = Duration::from_millis(4500);
/// Rows looked at behind the oldest one of a communicator.
const WINDOW: usize = 32;
/// At every so many flushes of a process that does nothing, its snapshot is written again: that the clock goes on and no call
/// comes is what tells a hang from a process that is gone, where only the capture folder can be read.
const HEARTBEAT: u32 = 5;

/// How other threads talk to the writer.
#[derive(Default)]
pub struct Control {
    asked: Mutex<Asked>,
    wake: Condvar,
    done: Condvar,
    definitions: AtomicBool,
    // Communicator slots with rows that are not sealed, by slot.
    busy: Mutex<Vec<bool>>,
    running: AtomicBool,
    // The capture folder holds all that the live part held when this was its [`changes`]; 0 it does not.
    complete: AtomicU64,
    uncovered_definitions: AtomicBool,
}

#[derive(Default)]
struct Asked {
    flushes: u64,
    flushed: u64,
    // The first try to make the files is over.
    opened: bool,
}

impl Control {
    /// Communicators or strings changed and want to be written.
    pub fn definitions_changed(&self) {
        self.uncovered_definitions.store(true, Relaxed);
        self.definitions.store(true, Release);
    }

    /// Whether a finalized communicator's slot may be used again: its rows are sealed and its definition is written.
    pub fn idle(&self, slot: usize) -> bool {
        let busy = self.busy.lock().unwrap_or_else(|p| p.into_inner());
        !busy.get(slot).copied().unwrap_or(false) && !self.uncovered_definitions.load(Relaxed)
    }

    /// Waits a little for the trace file, which says where the live part is: a process that is killed in its first
    /// milliseconds is then found like any other. A slow file system is not waited for.
    fn wait_for_files(&self) {
        let asked = self.asked.lock().unwrap_or_else(|p| p.into_inner());
        let _ = self
            .done
            .wait_timeout_while(asked, Duration::from_millis(100), |asked| !asked.opened);
    }

    /// Asks for the last flush of a capture (more may follow if NCCL starts again) and waits for it, at most a second;
    /// whether it came to its end. Not for event callbacks.
    pub fn flush(&self) -> bool {
        if !self.running.load(Acquire) {
            return false;
        }
        let deadline = Instant::now() + Duration::from_secs(1);
        // Not waited for without an end: a signal handler that calls exit() may have interrupted the thread that holds it.
        let mut asked = loop {
            match self.asked.try_lock() {
                Ok(asked) => break asked,
                Err(TryLockError::Poisoned(asked)) => break asked.into_inner(),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return false,
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(50)),
            }
        };
        asked.flushes += 1;
        let want = asked.flushes;
        self.wake.notify_one();
        while asked.flushed < want {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return false;
            };
            asked = self
                .done
                .wait_timeout(asked, left)
                .unwrap_or_else(|p| p.into_inner())
                .0;
        }
        true
    }
}

/// A communicator's rows that are not sealed, oldest first, linked through `Writer::next`.
#[derive(Clone, Copy)]
struct Queue {
    first: u32,
    last: u32,
    rows: u32,
    // Ticket + 1 of the newest row that was sealed, and of the newest of which kernel or network events had come.
    sealed: u64,
    executed: u64,
    // Up to here, rows whose launch was timed have their times, or never will; NONE where nothing is known.
    timed: u32,
}

const NONE: u32 = u32::MAX;

/// What later calls of a communicator have done.
#[derive(Clone, Copy)]
struct Passed {
    /// One has returned to the program.
    called: bool,
    /// One has run on the GPU or the network.
    executed: bool,
}

struct Writer {
    recorder: &'static Recorder,
    queues: Vec<Queue>,
    next: Vec<u32>,
    waiting: u64,
    drained: u64,
    encoder: Encoder,
    records: Vec<Record>,
    slots: Vec<u32>,
    buffer: Vec<u8>,
    file: Option<File>,
    rotation: Rotation,
    totals: Totals,
    batch: usize,
    snapshot: Option<File>,
    snapshots: u64,
    strings_written: usize,
    interval: Duration,
    failed: bool,
    snapshot_state: u64,
    /// Flushes since then at which nothing had changed.
    snapshots_spared: u32,
    ns_per_tick: f64,
    started: (Instant, u64),
    poller: Poller,
}

/// Starts the thread, and has the process's exit ask for a last flush. Without a thread the live part is all there is.
pub fn start(recorder: &'static Recorder) {
    // SAFETY: the sets are filled in before use, and the mask is put back.
    let result = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        // The thread inherits the mask: no signal of the job is ever handled on it.
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = std::thread::Builder::new()
            .name("ncclscope".to_owned())
            .stack_size(512 << 10)
            .spawn(move || Writer::new(recorder).run());
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        result
    };
    match result {
        Ok(_) => {
            recorder.writer.running.store(true, Release);
            recorder.writer.wait_for_files();
            // Once a process; a forked child has its parent's handlers.
            static REGISTERED: AtomicBool = AtomicBool::new(false);
            if !REGISTERED.swap(true, Relaxed) {
                // SAFETY: the library is never unloaded (-z nodelete), so the handler stays callable.
                unsafe { libc::atexit(at_exit) };
            }
        }
        Err(error) => {
            say(&format!(
                "no thread for writing ({error}): calls stay in the live part only, {}",
                recorder.live_place()
            ));
            // The trace file tells a report where that is.
            Writer::new(recorder).open();
        }
    }
}

extern "C" fn at_exit() {
    crate::guard::guard((), || {
        if let Some(recorder) = crate::recorder::get() {
            // The driver shuts down behind this handler.
            recorder.switch.end();
            let flushed = recorder.writer.flush();
            // Everything is in the capture folder: the live part has served. Were it left, /dev/shm would fill up
            // with those of ended jobs. NCCL's threads may still call; they find the mapping as before. Where one did
            // since, or the flush failed or is still under way, it has the only copy of the newest calls.
            let place = recorder.live_place();
            let whole = recorder.writer.complete.load(Acquire) == changes(recorder.header());
            if flushed && whole && place.starts_with('/') {
                let _ = std::fs::remove_file(place);
            }
        }
    });
}

impl Writer {
    fn new(recorder: &'static Recorder) -> Self {
        let rows = recorder.live.rows().len();
        let comms = recorder.live.comms().len();
        let settings = &recorder.settings;
        let rotation = Rotation::new(settings.max_size, settings.mode);
        Writer {
            recorder,
            queues: vec![
                Queue {
                    first: NONE,
                    last: NONE,
                    rows: 0,
                    sealed: 0,
                    executed: 0,
                    timed: NONE
                };
                comms
            ],
            next: vec![NONE; rows],
            waiting: 0,
            drained: 0,
            encoder: Encoder::new(),
            records: Vec::with_capacity(BATCH),
            slots: Vec::with_capacity(BATCH),
            buffer: Vec::with_capacity(256 << 10),
            file: None,
            batch: rotation.batch(BATCH),
            rotation,
            totals: Totals::new(recorder),
            snapshot: None,
            snapshots: 0,
            strings_written: 0,
            interval: FLUSH,
            failed: false,
            snapshot_state: NOTHING,
            snapshots_spared: 0,
            ns_per_tick: 1.0,
            started: (Instant::now(), recorder.clock.ticks()),
            poller: Poller::default(),
        }
    }

    fn run(mut self) {
        // A panic must neither reach the job nor leave others waiting.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.main()));
        if result.is_err() {
            crate::guard::OFF.store(true, Relaxed);
            crate::recorder::count_panic();
        }
    }

    fn main(&mut self) {
        own_scheduling();
        self.open();
        self.recorder
            .writer
            .asked
            .lock()
            .unwrap_or_else(|p| p.into_inner())
            .opened = true;
        self.recorder.writer.done.notify_all();
        let mut due = Instant::now() + self.interval;
        let mut pause = Duration::from_millis(10);
        loop {
            let wanted = self.sleep(pause);
            // Not only at flushes: a process may be killed before its first one, and one anchor alone tells no time.
            let header = self.recorder.header();
            let anchor = self.recorder.clock.anchor();
            clock::store(&header.last, &header.anchor_version, anchor);
            let began = self.drained;
            self.collect();
            // Only the ends of a job ask: the last finalize and the exit.
            let end = wanted.is_some();
            let flush = end || Instant::now() >= due;
            // When rows fill up, those whose times are known wait for nothing.
            let filling = self.waiting > self.recorder.live.rows().len() as u64 / 2;
            let under_way = self.time_launches(end || filling);
            if flush || self.waiting > self.recorder.live.rows().len() as u64 / 4 {
                self.seal(end);
            }
            self.drain_callbacks();
            if flush {
                self.flush(anchor, end);
                due = Instant::now() + self.interval;
            }
            if let Some(upto) = wanted {
                let mut asked = self
                    .recorder
                    .writer
                    .asked
                    .lock()
                    .unwrap_or_else(|p| p.into_inner());
                asked.flushed = asked.flushed.max(upto);
                self.recorder.writer.done.notify_all();
            }
            // A busy ring is looked at more often: 8192 rows last 80 ms at 100 000 calls/s.
            let came = self.drained - began;
            let many = self.recorder.live.rows().len() as u64 / 16;
            pause = if under_way > PAIRS / 4 {
                Duration::from_millis(1)
            } else if came > many || self.recorder.callbacks.is_some() {
                Duration::from_millis(2)
            } else if came == 0 {
                (pause * 2).min(Duration::from_millis(40))
            } else {
                Duration::from_millis(10)
            };
        }
    }

    /// Waits; returns the number of a flush that was asked for.
    fn sleep(&self, pause: Duration) -> Option<u64> {
        let control = &self.recorder.writer;
        let mut asked = control.asked.lock().unwrap_or_else(|p| p.into_inner());
        if asked.flushes == asked.flushed {
            asked = control
                .wake
                .wait_timeout(asked, pause)
                .unwrap_or_else(|p| p.into_inner())
                .0;
        }
        (asked.flushes > asked.flushed).then_some(asked.flushes)
    }

    fn rows(&self) -> &'static [Row] {
        self.recorder.live.rows()
    }

    /// Queues the rows born since the last time.
    fn collect(&mut self) {
        let recorder = self.recorder;
        let born = recorder.header().born.load(Acquire);
        while self.drained < born {
            let slot = recorder.free.slot_of(self.drained);
            let row = &self.rows()[slot as usize];
            let word = row.word.load(Acquire);
            if word & 3 != row_state::ALIVE
                || row_state::ticket(word) != self.drained & ((1 << row_state::TICKET_BITS) - 1)
            {
                // Its birth is under way; those after it wait a moment too.
                break;
            }
            let uid = row.comm.load(Relaxed);
            let at = comm_slot(recorder, uid);
            let queue = &mut self.queues[at];
            self.next[slot as usize] = NONE;
            if queue.first == NONE {
                queue.first = slot;
            } else {
                self.next[queue.last as usize] = slot;
            }
            queue.last = slot;
            queue.rows += 1;
            self.drained += 1;
            self.waiting += 1;
        }
        recorder.header().drained.store(self.drained, Release);
    }

    /// Takes in the GPU times of launches that have ended since, and joins rows with them; returns how many are under way.
    fn time_launches(&mut self, last: bool) -> usize {
        let recorder = self.recorder;
        let Some(driver) = recorder.driver() else {
            return 0;
        };
        self.learn_rate();
        let clock = HostClock {
            ticks: &|| recorder.clock.ticks(),
            ns_per_tick: self.ns_per_tick,
        };
        let (rings, switch) = (&recorder.rings, &recorder.switch);
        let under_way = self.poller.poll(driver, rings, switch, &clock, last);
        let error = switch.error.load(Relaxed);
        if error != recorder.header().cuda_error.load(Relaxed) {
            recorder.header().cuda_error.store(error, Relaxed);
        }
        // So that a process that is killed leaves its times with its calls.
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
                let group = row.group.load(Relaxed);
                let returned = row.t_end.load(Acquire) != 0 || recorder.group_returned(group);
                if !returned || !self.join(at, row) {
                    break;
                }
                (newest, slot) = (slot, self.next[slot as usize]);
            }
            self.queues[at].timed = newest;
        }
        under_way
    }

    /// Gives a row the times of its launch. False while they may still come.
    fn join(&self, at: usize, row: &Row) -> bool {
        let asked = row.parts.load(Acquire) & part::EVENTS != 0;
        if !asked || row.k_stop.load(Relaxed) != 0 {
            return true;
        }
        let Some(ring) = self.recorder.ring_of(at) else {
            return true;
        };
        match ring.span(row.event.load(Relaxed), &self.recorder.switch) {
            None => false,
            Some(None) => true,
            Some(Some(span)) => {
                row.k_start.store(span.start, Relaxed);
                row.k_error.store(span.error, Relaxed);
                row.k_stop.store(span.start + span.length, Release);
                true
            }
        }
    }

    fn learn_rate(&mut self) {
        let now = self.recorder.clock.ticks();
        let elapsed = self.started.0.elapsed().as_nanos() as f64;
        let ticks = now.wrapping_sub(self.started.1) as f64;
        if ticks > 0.0 && elapsed > 1e6 {
            self.ns_per_tick = elapsed / ticks;
        }
    }

    /// Seals what can be sealed. `all` also seals calls whose later parts have not come and may never.
    fn seal(&mut self, all: bool) {
        let now = self.recorder.clock.ticks();
        self.learn_rate();
        let rows = self.rows().len() as u64;
        // Under pressure nothing is waited for that is not certain to come.
        let pressed = self.waiting > rows * 3 / 4;
        for at in 0..self.queues.len() {
            if self.queues[at].rows != 0 {
                self.seal_queue(at, now, all || pressed);
            }
        }
        self.write_batch();
        let mut busy = self
            .recorder
            .writer
            .busy
            .lock()
            .unwrap_or_else(|p| p.into_inner());
        busy.clear();
        busy.extend(self.queues.iter().map(|q| q.rows != 0));
    }

    fn seal_queue(&mut self, at: usize, now: u64, hurried: bool) {
        let mut previous = NONE;
        let mut slot = self.queues[at].first;
        let mut looked = 0;
        while slot != NONE && looked < WINDOW {
            let next = self.next[slot as usize];
            let row = &self.rows()[slot as usize];
            let timed = self.join(at, row);
            let record = Record::load(row).and_then(|record| {
                let passed = self.passed(at, next, record.ticket);
                self.ready(record, now, passed, timed, hurried)
            });
            if let Some(record) = record {
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
                // Times come soon, and to many at once.
                looked += usize::from(timed);
            }
            slot = next;
        }
    }

    /// How far the communicator is past a call, by the one behind it and by those that were sealed.
    fn passed(&self, at: usize, next: u32, ticket: u64) -> Passed {
        let queue = &self.queues[at];
        let (mut called, mut executed) = (queue.sealed > ticket, queue.executed > ticket);
        if next != NONE {
            let row = &self.rows()[next as usize];
            let ran = row.k_stopped.load(Relaxed) != 0
                || row.k_stop.load(Relaxed) != 0
                || row.ops_stopped.load(Relaxed) != 0;
            let group = row.group.load(Relaxed);
            called |= ran || row.t_end.load(Relaxed) != 0 || self.recorder.group_returned(group);
            executed |= ran;
        }
        Passed { called, executed }
    }

    /// The row as it is to be written, with what its group knows, if all of its parts have come.
    /// `timed`: no GPU time of it is waited for.
    fn ready(
        &self,
        mut r: Record,
        now: u64,
        passed: Passed,
        timed: bool,
        hurried: bool,
    ) -> Option<Record> {
        if r.t_end == 0 {
            r.t_end = self.group_end(&r);
        }
        if r.t_end == 0 {
            return None;
        }
        let age = |since: u64| now.saturating_sub(since) as f64 * self.ns_per_tick;
        let settled = hurried || age(r.t_end) > SETTLE as f64;
        // A later call that only returned proves nothing: the program may be far ahead of a GPU that waits for a late rank.
        let aged =
            passed.executed && age(r.t_end.max(r.k_seen)) > AGED as f64 || passed.called && hurried;
        let stamps = self.recorder.settings.timing == Timing::Stamps
            && r.shape.parts & part::COPY_ENGINE == 0;
        let channels = u16::from(r.shape.nchannels);
        let ready = if r.shape.flags & flag::CAPTURED != 0 {
            true
        } else if !timed {
            aged
        } else if r.shape.parts & part::ENQUEUED == 0 {
            // Broadcast from 2.29 on, symmetric kernels up to 2.30: the API events are all there is.
            settled
        } else if r.k_started != r.k_stopped
            || (stamps && r.k_stopped < channels)
            || r.ops_started != r.ops_stopped
        {
            aged
        } else {
            // Kernel events of a call with an unknown number of channels, and operations of the network, begin a little
            // after the call.
            let more = (stamps && r.k_stopped == 0)
                || (r.ops_started == 0 && self.multi_node(r.shape.comm));
            !more || settled
        };
        ready.then_some(r)
    }

    fn multi_node(&self, uid: u32) -> bool {
        let comm = &self.recorder.live.comms()[comm_slot(self.recorder, uid)];
        comm.uid.load(Relaxed) == uid && comm.nnodes.load(Relaxed) > 1
    }

    /// When the group of a call returned; 0 when it has not. A recycled group's end is lost, and the call's own last
    /// known time stands for it.
    fn group_end(&self, r: &Record) -> u64 {
        let last_known = r.t_launch1.max(r.t_enqueue).max(r.t_api);
        if r.group == 0 {
            return last_known;
        }
        let groups = self.recorder.live.groups();
        let group = &groups[(r.group - 1) as usize & (groups.len() - 1)];
        if group.word.load(Acquire) != r.group {
            self.recorder.header().odd[Odd::GroupLost as usize].fetch_add(1, Relaxed);
            return last_known;
        }
        group.t_stop.load(Acquire)
    }

    /// Writes the batch as a block, or folds it into the totals, and frees its rows.
    fn write_batch(&mut self) {
        if self.records.is_empty() {
            return;
        }
        match self.why_not() {
            None if !self.make_room() => self.fold_batch(Some(Cause::WriteFailed)),
            None => {
                let number = self.recorder.header().block_number.load(Relaxed);
                self.buffer.clear();
                let start = block::begin(&mut self.buffer);
                self.encoder.encode(&mut self.buffer, &self.records);
                block::finish(&mut self.buffer, start, Kind::Rows, number);
                if self.stage() {
                    self.recorder
                        .header()
                        .sealed
                        .fetch_add(self.records.len() as u64, Relaxed);
                    self.account();
                    for i in 0..self.slots.len() {
                        self.free(self.slots[i]);
                    }
                } else {
                    self.fold_batch(Some(Cause::WriteFailed));
                }
            }
            Some(cause) => self.fold_batch(cause),
        }
        self.records.clear();
        self.slots.clear();
    }

    /// Why rows are folded instead of written: `Some(None)` in profile mode, where that is what was asked for.
    fn why_not(&self) -> Option<Option<Cause>> {
        if self.recorder.settings.mode == Mode::Profile {
            return Some(None);
        }
        if !self.rotation.rotates() && self.size() >= self.recorder.settings.max_size {
            return Some(Some(Cause::SizeLimit));
        }
        None
    }

    /// Bytes of the trace file that is written to, staged ones included.
    fn size(&self) -> u64 {
        let header = self.recorder.header();
        header.staged_base.load(Relaxed) + header.staged_len.load(Relaxed)
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

    /// Begins the next trace file when this one has its share; false when that can't be done.
    fn make_room(&mut self) -> bool {
        if !self.rotation.is_full(self.size(), self.batch) {
            return true;
        }
        self.write_staged();
        // What is staged belongs to the file that it could not be written to.
        if self.recorder.header().staged_len.load(Relaxed) != 0 {
            return false;
        }
        match self.next_file() {
            Ok(()) => true,
            Err(error) => {
                self.complain(&error);
                false
            }
        }
    }

    /// Begins another trace file, with the account of the one that is removed for it.
    ///
    /// Whenever the process ends meanwhile, a call is in one place: the account counts from the moment when it is whole in
    /// the new file, and nothing is staged until the new file's number is known.
    fn next_file(&mut self) -> io::Result<()> {
        let header = self.recorder.header();
        let first_block = header.block_number.load(Relaxed);
        let comms = self.recorder.live.comms();
        let known = |uid: u32| comms.iter().any(|c| c.uid.load(Relaxed) == uid);
        let current = header.trace_number.load(Relaxed);
        let (number, rotated) = self.rotation.next(current, first_block, known);
        let mut bytes = block::file_header(header.trace_id.load(Relaxed)).to_vec();
        let start = block::begin(&mut bytes);
        rotated.put(&mut bytes);
        block::finish(&mut bytes, start, Kind::Rotated, first_block);
        let path = self.path(&rotated::file_ending(number));
        let file = File::from(place::create(&path)?);
        if let Err(error) = file.write_all_at(&bytes, 0) {
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        header.block_number.store(first_block + 1, Relaxed);
        header.staged_base.store(bytes.len() as u64, Release);
        header.trace_number.store(number, Release);
        self.file = Some(file);
        let gone = self.rotation.begun(number, first_block, rotated);
        let removed = gone.map(|n| std::fs::remove_file(self.path(&rotated::file_ending(n))));
        if let Some(Err(error)) = removed {
            self.complain(&error);
        }
        // What is needed to read its rows must not go with other files.
        self.encoder.restart();
        self.strings_written = 0;
        self.recorder.writer.definitions.store(true, Relaxed);
        self.definitions();
        self.rotation.begins_with(self.size());
        Ok(())
    }

    /// The path of a file of this process.
    fn path(&self, ending: &str) -> PathBuf {
        let mut path = self.recorder.names.stem.clone().into_os_string();
        path.push(ending);
        PathBuf::from(path)
    }

    fn fold_batch(&mut self, cause: Option<Cause>) {
        let header = self.recorder.header();
        if let Some(cause) = cause {
            header.lost[cause as usize].fetch_add(self.records.len() as u64, Relaxed);
        }
        for i in 0..self.records.len() {
            self.totals.fold(&self.records[i], self.ns_per_tick);
            self.free(self.slots[i]);
            header.undo.ticket.store(0, Release);
            header.folded.fetch_add(1, Relaxed);
        }
    }

    /// Gives a row back.
    fn free(&mut self, slot: u32) {
        let row = &self.rows()[slot as usize];
        let word = row.word.load(Relaxed);
        let generation =
            (row_state::generation(word) + 1) & ((1 << row_state::GENERATION_BITS) - 1);
        row.word.store(
            row_state::word(generation, row_state::ticket(word), row_state::FREE),
            Release,
        );
        clear(row);
        self.recorder.free.give(slot);
        self.waiting -= 1;
    }

    /// Moves recorded callbacks into blocks, as far as the trace file has room for them.
    fn drain_callbacks(&mut self) {
        let Some(callbacks) = &self.recorder.callbacks else {
            return;
        };
        let header = self.recorder.header();
        loop {
            // Said as it happens: the process may end before the ring is empty.
            let dropped = callbacks.dropped.load(Relaxed);
            header.odd[Odd::CallbacksDropped as usize].store(dropped, Relaxed);
            let number = header.block_number.load(Relaxed);
            self.buffer.clear();
            let start = block::begin(&mut self.buffer);
            let taken = callbacks.take(&mut self.buffer, 128 << 10);
            if taken == 0 {
                return;
            }
            block::finish(&mut self.buffer, start, Kind::Callbacks, number);
            let full = self.size() >= self.recorder.settings.max_size;
            if full || !self.stage() {
                callbacks.dropped.fetch_add(taken, Relaxed);
                // A disk that takes nothing now may do so before the ring is full.
                if !full {
                    return;
                }
            }
        }
    }

    /// Stages `buffer` (whole blocks), writing staged bytes out first when there is no room.
    fn stage(&mut self) -> bool {
        let staging = self.recorder.live.staging();
        let header = self.recorder.header();
        if header.staged_len.load(Relaxed) as usize + self.buffer.len() > staging.len() {
            self.write_staged();
        }
        let at = header.staged_len.load(Relaxed) as usize;
        let Some(room) = staging.get(at..at + self.buffer.len()) else {
            return false;
        };
        for (to, from) in room.iter().zip(&self.buffer) {
            to.store(*from, Relaxed);
        }
        header.block_number.fetch_add(1, Relaxed);
        header
            .staged_len
            .store((at + self.buffer.len()) as u64, Release);
        true
    }

    /// Writes the staged bytes to the trace file.
    fn write_staged(&mut self) {
        let header = self.recorder.header();
        let len = header.staged_len.load(Relaxed) as usize;
        if len == 0 {
            return;
        }
        if self.file.is_none() {
            self.open();
        }
        let Some(file) = &self.file else { return };
        // SAFETY: only this thread stores to the staging area, and not during this call.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.recorder.live.staging().as_ptr().cast::<u8>(), len)
        };
        let base = header.staged_base.load(Relaxed);
        match file.write_all_at(bytes, base) {
            Ok(()) => {
                header.staged_base.store(base + len as u64, Release);
                header.staged_len.store(0, Release);
                header.write_errno.store(0, Relaxed);
                self.failed = false;
            }
            Err(error) => self.complain(&error),
        }
    }

    fn complain(&mut self, error: &io::Error) {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        self.recorder
            .header()
            .write_errno
            .store(errno as u32, Relaxed);
        if !std::mem::replace(&mut self.failed, true) {
            say(&format!(
                "cannot write {}: {error}; calls are counted in totals until it works again",
                self.recorder.names.stem.display()
            ));
        }
    }

    /// Opens the trace file and the snapshot file, new ones. What fails is tried again at later flushes.
    fn open(&mut self) {
        let (trace, snapshot) = match self.make_files() {
            Ok(files) => files,
            Err(error) => return self.complain(&error),
        };
        let settings = &self.recorder.settings;
        let network = place::is_network(&self.recorder.names.folder);
        self.interval = settings
            .flush
            .map_or(if network { NETWORK_FLUSH } else { FLUSH }, |seconds| {
                Duration::from_secs_f64(seconds)
            });
        (self.file, self.snapshot) = (Some(trace), Some(snapshot));
        let header = self.recorder.header();
        if header.staged_base.load(Relaxed) != 0 {
            return;
        }
        header.staged_base.store(block::FILE_HEADER as u64, Release);
        let len = header.process_len.load(Acquire) as usize;
        let process: Vec<u8> = header.process[..len]
            .iter()
            .map(|b| b.load(Relaxed))
            .collect();
        // First in the file, before anything that was staged while the folder could not be made; and at once, because it
        // says where the live part is.
        if header.block_number.load(Relaxed) == 0 {
            // Read here and not with the other facts, which the first communicator's init waits for.
            let gpus = host_gpus(Path::new("/proc/driver/nvidia"));
            self.block(Kind::Process, |out| {
                out.extend(process);
                out.extend(gpus.as_bytes());
            });
            self.write_staged();
        }
    }

    /// A new trace file with its header, and a new snapshot file; or neither, so that a full disk can be tried again.
    fn make_files(&self) -> io::Result<(File, File)> {
        let names = &self.recorder.names;
        private_folders(names.stem.parent().unwrap_or(&names.folder))?;
        let trace_id = self.recorder.header().trace_id.load(Relaxed);
        let path = self.path(".trace");
        let trace = File::from(place::create(&path)?);
        let others = trace
            .write_all_at(&block::file_header(trace_id), 0)
            .and_then(|()| place::create(&self.path(".snap")));
        match others {
            Ok(snapshot) => Ok((trace, File::from(snapshot))),
            Err(error) => {
                let _ = std::fs::remove_file(path);
                Err(error)
            }
        }
    }

    /// Stages one block.
    fn block(&mut self, kind: Kind, fill: impl FnOnce(&mut Vec<u8>)) -> bool {
        let number = self.recorder.header().block_number.load(Relaxed);
        self.buffer.clear();
        let start = block::begin(&mut self.buffer);
        fill(&mut self.buffer);
        block::finish(&mut self.buffer, start, kind, number);
        self.stage()
    }

    /// Makes everything durable: definitions, this pass's anchor, staged blocks, snapshot.
    fn flush(&mut self, anchor: [u64; 3], end: bool) {
        let header = self.recorder.header();
        self.definitions();
        let staged = header.staged_len.load(Relaxed) != 0;
        if staged || end {
            self.block(Kind::Anchor, |out| {
                out.extend(anchor.iter().flat_map(|v| v.to_le_bytes()))
            });
        }
        if end {
            self.block(Kind::End, |_| {});
        }
        self.write_staged();
        if end {
            header.state.store(1, Release);
        }
        self.take_snapshot(end);
    }

    /// Stages strings and communicators that are new or changed.
    fn definitions(&mut self) {
        let recorder = self.recorder;
        let strings = recorder.live.strings();
        let known = strings
            .iter()
            .take_while(|s| s.len.load(Acquire) >= 2)
            .count();
        let comms_changed = recorder.writer.definitions.swap(false, Acquire);
        if !comms_changed && known == self.strings_written {
            return;
        }
        let from = self.strings_written;
        let written = self.block(Kind::Definitions, |out| {
            for (i, text) in strings[..known].iter().enumerate().skip(from) {
                definitions::put_text(out, (i + 1) as u8, text);
            }
            if comms_changed {
                for (i, comm) in recorder
                    .live
                    .comms()
                    .iter()
                    .enumerate()
                    .filter(|(_, c)| c.uid.load(Acquire) != 0)
                {
                    definitions::put_comm(out, i as u16, comm);
                }
            }
        });
        if written {
            self.strings_written = known;
            if comms_changed && !recorder.writer.definitions.load(Relaxed) {
                recorder.writer.uncovered_definitions.store(false, Relaxed);
            }
        } else if comms_changed {
            recorder.writer.definitions.store(true, Relaxed);
        }
    }

    /// Writes the live part, without what is free in it, to the snapshot file, when anything changed; and every
    /// [`HEARTBEAT`]th time all the same.
    fn take_snapshot(&mut self, end: bool) {
        let recorder = self.recorder;
        let header = recorder.header();
        let state = changes(header);
        let collected = self.waiting == 0 && self.drained == header.born.load(Relaxed);
        let unchanged = state == self.snapshot_state && self.waiting == 0 && !end;
        self.snapshots_spared = if unchanged {
            self.snapshots_spared + 1
        } else {
            0
        };
        if unchanged && !self.snapshots_spared.is_multiple_of(HEARTBEAT) {
            return;
        }
        self.snapshot_state = state;
        let Some(file) = &self.snapshot else { return };
        let layout_bytes = header.size.load(Relaxed) as usize;
        let offsets: Vec<u32> = header
            .stored_sections()
            .map(|section| section[0].load(Relaxed))
            .collect();
        let at = |section: Section| offsets[section as usize] as usize;
        let mut out = std::mem::take(&mut self.buffer);
        snapshot::begin(&mut out);
        // SAFETY: the live part is `layout_bytes` long, 8-byte aligned, and all of it is valid as atomics.
        let words = unsafe {
            std::slice::from_raw_parts(
                std::ptr::from_ref(header).cast::<AtomicU64>(),
                layout_bytes / 8,
            )
        };
        let mut span = |at: usize, bytes: usize| {
            snapshot::span(&mut out, at, &words[at / 8..(at + bytes).div_ceil(8)])
        };
        span(0, live::HEADER_BYTES);
        let used = recorder
            .live
            .strings()
            .iter()
            .take_while(|s| s.len.load(Relaxed) != 0)
            .count();
        span(
            at(Section::Strings),
            used * std::mem::size_of::<live::Text>(),
        );
        let comms = recorder
            .live
            .comms()
            .iter()
            .take_while(|c| c.uid.load(Relaxed) != 0)
            .count();
        span(
            at(Section::Comms),
            comms * std::mem::size_of::<live::Comm>(),
        );
        if header.totals_used.load(Relaxed) != 0 {
            span(
                at(Section::Totals),
                std::mem::size_of_val(recorder.live.totals()),
            );
            span(
                at(Section::Pages),
                header.pages_used.load(Relaxed) as usize * std::mem::size_of::<live::Page>(),
            );
        }
        for queue in &self.queues {
            let mut slot = queue.first;
            while slot != NONE {
                let row = &self.rows()[slot as usize];
                span(
                    at(Section::Rows) + slot as usize * std::mem::size_of::<Row>(),
                    std::mem::size_of::<Row>(),
                );
                if let Some(entry) = (row.group.load(Relaxed) as usize).checked_sub(1) {
                    let entry = entry & (recorder.live.groups().len() - 1);
                    span(
                        at(Section::Groups) + entry * std::mem::size_of::<live::Group>(),
                        std::mem::size_of::<live::Group>(),
                    );
                }
                slot = self.next[slot as usize];
            }
        }
        for (index, op) in recorder.live.net_ops().iter().enumerate() {
            // One that NCCL never stops outlives its row.
            let alive = op.open().is_some_and(|open| {
                let row = self.rows().get(open.row);
                let word = row.map_or(0, |row| row.word.load(Acquire));
                word & 3 == row_state::ALIVE && row_state::generation(word) == open.generation
            });
            if alive {
                let bytes = std::mem::size_of::<NetOp>();
                span(at(Section::NetOps) + index * bytes, bytes);
            }
        }
        snapshot::finish(&mut out, self.snapshots, layout_bytes);
        match file.write_all_at(&out, snapshot::slot_offset(self.snapshots, out.len())) {
            Ok(()) => {
                self.snapshots += 1;
                let whole = collected && header.staged_len.load(Relaxed) == 0;
                let covered = if whole { state } else { 0 };
                recorder.writer.complete.store(covered, Release);
            }
            Err(error) => {
                recorder.writer.complete.store(0, Release);
                self.complain(&error);
            }
        }
        self.buffer = out;
    }
}

/// [`changes`] as long as nothing has happened.
const NOTHING: u64 = 1;

/// A number that every call that is announced changes, and everything that is counted; never 0.
fn changes(header: &live::Header) -> u64 {
    let counted = header.odd.iter().chain(&header.lost);
    let odd: u64 = counted.map(|c| c.load(Relaxed)).sum();
    let folded = header.folded.load(Relaxed).rotate_left(40);
    (header.born.load(Relaxed) ^ odd.rotate_left(20) ^ folded).max(NOTHING)
}

/// Whether anything has come from the GPU or the network.
fn has_run(record: &Record) -> bool {
    record.k_stopped != 0 || record.k_stop != 0 || record.ops_stopped != 0
}

/// Zeroes what the other threads wrote, for the next call.
fn clear(row: &Row) {
    // SAFETY: lines B to D of the row, 8-byte aligned; the row is free, and every field is an atomic.
    let words = unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(row).cast::<AtomicU64>().add(8), 24)
    };
    words.iter().for_each(|word| word.store(0, Relaxed));
}

/// A communicator's place in the tables, by uid.
fn comm_slot(recorder: &Recorder, uid: u32) -> usize {
    let comms = recorder.live.comms();
    let guess = uid.wrapping_sub(1) as usize % comms.len();
    if comms[guess].uid.load(Relaxed) == uid {
        return guess;
    }
    comms
        .iter()
        .position(|c| c.uid.load(Relaxed) == uid)
        .unwrap_or(guess)
}

/// All CPUs and a low priority for the calling thread: it must neither be tied to the CPU of the thread that called
/// NCCL nor take it away from the job.
fn own_scheduling() {
    // SAFETY: plain system calls on locals; failures leave things as they were.
    unsafe {
        let all = [0xffu8; 512];
        libc::syscall(libc::SYS_sched_setaffinity, 0, all.len(), all.as_ptr());
        libc::setpriority(
            libc::PRIO_PROCESS,
            libc::syscall(libc::SYS_gettid) as u32,
            5,
        );
    }
}

/// Makes a folder and those above it that are missing, for this user only.
fn private_folders(folder: &std::path::Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    // O_NOFOLLOW | O_DIRECTORY: the host's folder must be a folder, not a link that another user put there.
    let path = CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: the path is NUL-terminated; the descriptor is closed at once.
    unsafe {
        let fd = libc::open(
            path.as_ptr(),
            libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC,
        );
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::close(fd);
    }
    Ok(())
}

/// Field 22 of /proc/self/stat: when the process started, in clock ticks since boot; 0 when it can't be read.
pub fn pid_start() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The command name may hold blanks; fields are counted from the parenthesis that closes it.
    let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after
        .split_ascii_whitespace()
        .nth(19)
        .and_then(|field| field.parse().ok())
        .unwrap_or(0)
}

/// Inode of the pid name space; 0 when it can't be read.
pub fn pid_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |m| m.ino())
}

/// The Process block: who writes this trace. The header's own fields come first.
pub fn process_lines(recorder: &Recorder, live: &str, started: u64) -> String {
    use std::fmt::Write;
    let mut lines = String::new();
    let mut line = |key: &str, value: &str| {
        let value: String = value
            .chars()
            .map(|c| if c == '\n' || c == '\r' { ' ' } else { c })
            .take(400)
            .collect();
        let _ = writeln!(lines, "{key}={value}");
    };
    let var = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let settings = &recorder.settings;
    line("ncclscope", env!("CARGO_PKG_VERSION"));
    line("host", &host());
    line(
        "boot_id",
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .unwrap_or_default()
            .trim(),
    );
    line("pid", &std::process::id().to_string());
    let header = recorder.header();
    line("pid_start", &header.pid_start.load(Relaxed).to_string());
    line(
        "pid_namespace",
        &header.pid_namespace.load(Relaxed).to_string(),
    );
    for (key, names) in [
        (
            "world_size",
            &[
                "WORLD_SIZE",
                "SLURM_NTASKS",
                "OMPI_COMM_WORLD_SIZE",
                "PMI_SIZE",
                "FLUX_JOB_SIZE",
            ][..],
        ),
        (
            "local_rank",
            &[
                "LOCAL_RANK",
                "SLURM_LOCALID",
                "OMPI_COMM_WORLD_LOCAL_RANK",
                "FLUX_TASK_LOCAL_ID",
            ],
        ),
        (
            "job",
            &[
                "SLURM_JOB_ID",
                "PBS_JOBID",
                "LSB_JOBID",
                "FLUX_JOB_ID",
                "TORCHELASTIC_RUN_ID",
            ],
        ),
    ] {
        if let Some(value) = names.iter().find_map(|name| var(name)) {
            line(key, &value);
        }
    }
    if let Some(rank) = crate::settings::rank(&|name| var(name)) {
        line("rank", &rank);
    }
    line("mode", &format!("{:?}", settings.mode).to_lowercase());
    let events = matches!(settings.timing, Timing::Auto | Timing::Events);
    if events && recorder.driver().is_none() {
        line("timing", "host");
        line("timing_because", "the process has no CUDA driver");
    } else {
        line("timing", &format!("{:?}", settings.timing).to_lowercase());
    }
    if settings.timing == Timing::Auto {
        line("budget", &format!("{} %", settings.budget * 100.0));
    }
    line("mask", &format!("{:#x}", recorder.mask()));
    if let Some(version) = cuda::nccl_version() {
        line(
            "nccl",
            &format!(
                "{}.{}.{}",
                version / 10_000,
                version / 100 % 100,
                version % 100
            ),
        );
    }
    if let Some(version) = cuda::driver_version() {
        line(
            "driver",
            &format!("CUDA {}.{}", version / 1000, version % 1000 / 10),
        );
    }
    line("clock", recorder.clock.name());
    line("live", live);
    line("trace", &format!("{}.trace", recorder.names.stem.display()));
    let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let command: Vec<String> = command
        .split(|b| *b == 0)
        .filter(|a| !a.is_empty())
        .map(|a| String::from_utf8_lossy(a).into_owned())
        .collect();
    line("command", &command.join(" "));
    line("started", &started.to_string());
    let mut variables: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| {
            Some((
                name.into_string().ok()?,
                value.to_string_lossy().into_owned(),
            ))
        })
        .filter(|(name, _)| name.starts_with("NCCL"))
        .collect();
    variables.sort();
    for (name, value) in variables {
        line(&format!("env.{name}"), &value);
    }
    // The header keeps so much; a cut line at the end is dropped.
    let room = std::mem::size_of_val(&recorder.header().process);
    if lines.len() > room {
        let mut cut = room;
        while !lines.is_char_boundary(cut) {
            cut -= 1;
        }
        let end = lines[..cut].rfind('\n').map_or(0, |at| at + 1);
        lines.truncate(end);
    }
    lines
}

/// Lines with the driver's version and the GPUs of this host by model, as the kernel module tells them without asking
/// CUDA; empty where it doesn't.
fn host_gpus(proc: &Path) -> String {
    use std::fmt::Write;
    let mut lines = String::new();
    let text = std::fs::read_to_string(proc.join("version")).unwrap_or_default();
    let numbered =
        |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    let mut words = text.lines().next().unwrap_or("").split_whitespace();
    if let Some(version) = words.find(numbered) {
        let _ = writeln!(lines, "driver_version={version}");
    }
    let mut models: BTreeMap<String, usize> = BTreeMap::new();
    let gpus = std::fs::read_dir(proc.join("gpus"));
    for gpu in gpus.into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(gpu.path().join("information")).unwrap_or_default();
        if let Some(model) = text.lines().find_map(|line| line.strip_prefix("Model:")) {
            *models.entry(model.trim().to_owned()).or_insert(0) += 1;
        }
    }
    if !models.is_empty() {
        let models: Vec<String> = models
            .iter()
            .map(|(model, n)| format!("{n} x {model}"))
            .collect();
        let _ = writeln!(lines, "gpus={}", models.join(", "));
    }
    lines
}

/// Where GPU times come from in this process.
fn times(recorder: &Recorder) -> String {
    let settings = &recorder.settings;
    let events = recorder.ring_of(0).is_some();
    match settings.timing {
        Timing::Host => "host times only".to_owned(),
        Timing::Stamps => "GPU times from NCCL's stamps".to_owned(),
        Timing::Auto if events => format!(
            "GPU times from CUDA events for at most {} % of the time",
            settings.budget * 100.0
        ),
        Timing::Events if events => "GPU times from CUDA events".to_owned(),
        _ if recorder.driver().is_none() => {
            "host times only: this process has no CUDA driver".to_owned()
        }
        _ => "host times only: CUDA events need NCCL 2.28 or later".to_owned(),
    }
}

/// The line that tells the user that recording has begun, from the first rank only. Where nothing can be written there is
/// another line already.
pub fn hello(recorder: &Recorder) {
    if recorder.header().write_errno.load(Relaxed) != 0 {
        return;
    }
    let rank = crate::settings::rank(&|name| std::env::var(name).ok());
    if rank.is_none_or(|rank| rank == "0") && std::env::var_os("NCCLSCOPE_QUIET").is_none() {
        let settings = &recorder.settings;
        say(&format!(
            "recording to {} (mode {}, {})",
            recorder.names.folder.display(),
            format!("{:?}", settings.mode).to_lowercase(),
            times(recorder)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_and_gpus_are_read_where_the_kernel_module_tells_them() {
        let folder = std::env::temp_dir().join(format!("ncclscope-gpus-{}", std::process::id()));
        assert_eq!(host_gpus(&folder), "");
        for gpu in ["0000:01:00.0", "0000:02:00.0"] {
            let gpu = folder.join("gpus").join(gpu);
            std::fs::create_dir_all(&gpu).expect("made");
            let text = "Model: \t\t NVIDIA H200\nIRQ:   \t\t 57\n";
            std::fs::write(gpu.join("information"), text).expect("written");
        }
        let version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\nGCC version: 12.3.0\n";
        std::fs::write(folder.join("version"), version).expect("written");
        let found = host_gpus(&folder);
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(found, "driver_version=580.95.05\ngpus=2 x NVIDIA H200\n");
    }
}
