//! The recorder's thread: it seals finished rows into the trace file and keeps everything durable.
//!
//! Every few milliseconds it looks at the rows born since, in order of ticket, and queues each at its
//! communicator. It seals rows at a flush, or earlier if many wait. Sealing encodes the rows into a block,
//! stages the block in the live part, and only then retires the rows. If a row can't be written (`profile`
//! mode, disk full), it folds the call into the totals instead. When a trace file has its share of the size
//! limit, it begins another ([`Rotation`]).
//!
//! `sealing` has the rows, `folding` the totals, `files` the trace files, and `snapshots` the copy of the
//! live part. Other threads talk to this one through [`crate::control::Control`].
//!
//! Rule: a row is retired only after its call is in a block or in the totals. So no call is ever nowhere. And
//! it serves another call only after every callback that may have found it is over ([`crate::seats`]).

use crate::communicator_calls::Call;
use crate::gpu_events::PAIRS;
use crate::kept_file::KeptFile;
use crate::recorder::messages::say;
use crate::recorder::Recorder;
use crate::rotation::Rotation;
use crate::seats::Keeper;
use crate::settings::When;
use crate::windows::price::InLaunches;
use crate::windows::steps::StepWatch;
use crate::windows::{off, Windows};
use crate::{clock, cpus, driver_time, heap};
use capture::left::{self, Here, Mounts};
use capture::live::Row;
use capture::rows::{Encoder, Record};
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::{Duration, Instant};

mod chain;
mod communicator_calls;
mod counts;
mod files;
mod folding;
mod gpu_thread;
mod graphs;
mod mask;
mod mpi;
mod net_totals;
mod sealing;
mod setup;
mod snapshots;
mod stacks;
mod step_marks;
mod timed_calls;
mod windows;

use folding::Totals;
use gpu_thread::GpuThread;
use sealing::Queue;
use snapshots::{changes, NOTHING};

/// Rows in a block at most: a block then fits in the staging area whatever the rows hold.
const BATCH: usize = 1024;
/// Time between flushes to a disk of this host.
const FLUSH: Duration = Duration::from_secs(1);

/// Live parts of other processes that a new recorder looks at, in each folder.
const SWEPT: usize = 64;

const NONE: u32 = u32::MAX;

struct Writer {
    recorder: &'static Recorder,
    /// By communicator's slot.
    queues: Vec<Queue>,
    /// Slots of finalized communicators that are not idle yet, and the ticket behind their last call.
    ending: Vec<(u16, u64)>,
    /// No more rows can be had.
    grown: bool,
    next: Vec<u32>,
    waiting: u64,
    drained: u64,
    encoder: Encoder,
    records: Vec<Record>,
    slots: Vec<u32>,
    /// Rows that are retired and not given back.
    keeper: Keeper,
    /// Network operations that were revoked when the keeper looked last.
    revoked: u64,
    buffer: Vec<u8>,
    file: Option<KeptFile>,
    rotation: Rotation,
    /// Bytes of callbacks in the trace file.
    callback_bytes: u64,
    totals: Totals,
    net_totals: net_totals::NetTotals,
    batch: usize,
    snapshot: Option<KeptFile>,
    snapshots: u64,
    strings_written: usize,
    interval: Duration,
    failed: bool,
    snapshot_state: u64,
    /// Flushes since the newest snapshot at which nothing had changed.
    snapshots_spared: u32,
    ns_per_tick: f64,
    gpu: GpuThread,
    graphs: graphs::GraphState,
    steps: StepWatch,
    /// The group of the call that was noted last.
    group_before: u64,
    in_launches: InLaunches,
    traffic: windows::Traffic,
    stacks: stacks::Written,
    setup: setup::Kept,
    mpi: mpi::Waiting,
    marks: step_marks::Marks,
    counts: counts::Written,
    timed_calls: timed_calls::Written,
    announced: mask::Announced,
    /// What the capture says of the plugin behind ours.
    chain: String,
    /// What it says of threads inside of NCCL.
    inside_nccl: Vec<Call>,
}

/// Starts the thread, and makes the process's exit ask for a last flush. Without a thread, the live part is
/// all there is.
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
            // Once in a process. A forked child has its parent's handlers.
            static REGISTERED: AtomicBool = AtomicBool::new(false);
            if !REGISTERED.swap(true, Relaxed) {
                // SAFETY: the library is never unloaded (-z nodelete), so the handler stays callable.
                unsafe { libc::atexit(at_exit) };
            }
        }
        Err(error) => {
            say(format_args!(
                "no thread for writing ({error}): calls stay in the live part only, {}",
                recorder.live_place()
            ));
            // The trace file says where the live part is.
            Writer::new(recorder).open();
        }
    }
}

extern "C" fn at_exit() {
    crate::guard::guard((), || {
        if let Some(recorder) = crate::recorder::fork_page::get() {
            // The driver shuts down behind this handler.
            recorder.switch.end();
            recorder.writer.exits.store(true, Release);
            let flushed = recorder.writer.flush();
            // If everything is in the capture folder, the live part has served, and /dev/shm must not fill up
            // with those of ended jobs. NCCL's threads may still call; they find the mapping as before. If
            // one called since, or the flush failed or is still under way, the live part has the only copy of
            // the newest calls, and stays.
            let whole = recorder.writer.complete.load(Acquire) == changes(recorder.header());
            if flushed && whole {
                recorder.remove_live_part();
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
            queues: vec![Queue::EMPTY; comms],
            ending: Vec::new(),
            grown: false,
            next: vec![NONE; rows],
            waiting: 0,
            drained: 0,
            encoder: Encoder::new(),
            records: Vec::with_capacity(BATCH),
            slots: Vec::with_capacity(BATCH),
            keeper: Keeper::new(rows),
            revoked: 0,
            buffer: Vec::with_capacity(256 << 10),
            file: None,
            batch: rotation.batch(BATCH),
            rotation,
            callback_bytes: 0,
            totals: Totals::new(recorder),
            net_totals: net_totals::NetTotals::default(),
            snapshot: None,
            snapshots: 0,
            strings_written: 0,
            interval: FLUSH,
            failed: false,
            snapshot_state: NOTHING,
            snapshots_spared: 0,
            ns_per_tick: 1.0,
            gpu: GpuThread::new(recorder, Windows::new(settings.windows, settings.budget)),
            graphs: graphs::GraphState::default(),
            steps: StepWatch::default(),
            group_before: 0,
            in_launches: InLaunches::default(),
            traffic: windows::Traffic::default(),
            stacks: stacks::Written::default(),
            setup: setup::Kept::default(),
            mpi: mpi::Waiting::default(),
            marks: step_marks::Marks::default(),
            counts: counts::Written::new(),
            timed_calls: timed_calls::Written::new(),
            announced: mask::Announced::default(),
            chain: String::new(),
            inside_nccl: Vec::new(),
        }
    }

    fn run(mut self) {
        // A panic must neither reach the job nor leave others waiting.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.main()));
        if result.is_err() {
            crate::guard::OFF.store(true, Relaxed);
            crate::recorder::fork_page::count_panic();
        }
    }

    fn main(&mut self) {
        own_thread(0);
        self.keeper.ask_kernel(&self.recorder.seats);
        if self.recorder.settings.windows == When::Off {
            let why = &self.recorder.header().windows_off;
            why.store(off::NOT_ASKED, Relaxed);
        }
        self.open();
        // The files may have taken long, and the anchors of the start are near each other.
        let (header, anchor) = (self.recorder.header(), self.recorder.clock.anchor());
        clock::store(&header.last, &header.anchor_version, anchor);
        self.recorder
            .writer
            .asked
            .lock()
            .unwrap_or_else(|p| p.into_inner())
            .opened = true;
        self.recorder.writer.done.notify_all();
        sweep(self.recorder.header().trace_id.load(Relaxed));
        let mut due = Instant::now() + self.interval;
        let mut pause = Duration::from_millis(10);
        loop {
            let wanted = self.sleep(pause);
            // Not only at flushes: a process may be killed before its first flush, and one anchor alone tells
            // no time.
            let header = self.recorder.header();
            let anchor = self.recorder.clock.anchor();
            clock::store(&header.last, &header.anchor_version, anchor);
            if let Some(rate) = anchor.ns_per_tick(&header.first) {
                self.ns_per_tick = rate;
                driver_time::learn(rate);
            }
            let began = self.drained;
            self.watch_masks();
            self.take_ended();
            self.collect();
            // Before rows that need them, so that both are in one file.
            self.definitions();
            self.make_rows();
            // Only the ends of a job ask: the last finalize and the exit.
            let end = wanted.is_some();
            let flush = end || Instant::now() >= due;
            // When rows fill up, the times of launches are confirmed at once.
            let filling = self.waiting > self.recorder.live.rows().len() as u64 / 2;
            let under_way = self.ask_gpu(end || filling, end);
            self.join_times();
            if flush || self.waiting > self.recorder.live.rows().len() as u64 / 4 {
                self.seal(end);
            }
            // Also what an earlier pass could not give back.
            self.give_back();
            self.drain_callbacks();
            self.give_slots();
            self.write_graphs(flush, end);
            self.take_steps();
            self.take_mpi(end);
            self.write_mpi(flush, end);
            if flush {
                self.write_setup();
                self.write_chain();
                self.write_communicator_calls();
                self.write_counts(end);
                self.write_timed_calls();
                self.write_net_totals(end);
                self.flush(anchor, end);
                self.write_steps();
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
            // The busier the process, the shorter the pause: 8192 rows last 80 ms at 100 000 calls/s.
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
            if let Some(windows) = self.gpu.windows() {
                pause = pause.min(windows.patience());
            }
        }
    }

    /// Waits; returns the number of a flush that was asked for.
    fn sleep(&self, pause: Duration) -> Option<u64> {
        let control = &self.recorder.writer;
        let mut asked = control.asked.lock().unwrap_or_else(|p| p.into_inner());
        if asked.flushes == asked.flushed && asked.rows <= asked.rows_seen {
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
}

/// Removes some live parts that no capture needs: a new recorder cleans up behind older ones. It asks no file
/// system of another host, which may not answer.
fn sweep(random: u64) {
    let (here, mounts) = (Here::ask(), Mounts::ask());
    // SAFETY: a plain call without arguments.
    let uid = unsafe { libc::geteuid() };
    for folder in left::folders(uid) {
        left::sweep(&folder, &here, (SWEPT, random as usize), |trace| {
            mounts.reach_locally(trace)
        });
    }
}

/// The calling thread is one of the recorder's own: this one (0), or the one that asks the driver (1). Gives
/// it the process's CPUs and a low priority: it must not be tied to the CPU of the thread that called NCCL,
/// nor take that CPU away from the job.
fn own_thread(which: usize) {
    heap::waits_on_this_thread(which);
    cpus::as_the_process();
    // SAFETY: plain system calls; if they fail, things stay as they are.
    unsafe {
        libc::setpriority(
            libc::PRIO_PROCESS,
            libc::syscall(libc::SYS_gettid) as u32,
            5,
        );
    }
}
