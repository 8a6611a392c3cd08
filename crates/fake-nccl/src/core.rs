//! What NCCL does with a group of calls, seen from the plugin.
//!
//! A [`Communicator`] is one rank's part in one: its link to the plugin, its counters, its threads. [`Launcher::group`]
//! plays a group on the calling thread in NCCL's order and leaves GPU and network events to the communicator's
//! threads, and [`Launcher::replay`] plays a captured group on the host-callback thread.
//!
//! Rule: which events come, with which parents, on which thread and with which holes depends on the release and the mask
//! alone, as the ABI sheet has it; never on what the plugin seems to want.
//!
//! Not simulated: the aliasing of stamps in NCCL's 64-slot ring, groups large enough for several plans, nonblocking
//! communicators, plugins inside a network plugin.

use crate::announced::{Announced, Operation, Times};
use crate::event::{CeColl, Coll, Event, Handle, P2p, StateArgs, Text};
use crate::lock::lock;
use crate::plugin::{Identity, Loader, Profiler};
use crate::schedule::Kernel;
use crate::script::{Call, Op, Path};
use crate::stuck::{Drag, Held, Wait};
use nccl_abi::event::*;
use nccl_abi::state;
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

const FOR_COLL: u64 = COLL | PROXY_OP | PROXY_STEP | KERNEL_CH | NET_PLUGIN;
const FOR_P2P: u64 = P2P | PROXY_OP | PROXY_STEP | KERNEL_CH | NET_PLUGIN;
const FOR_CE: u64 = CE_COLL | CE_SYNC | CE_BATCH;
const FOR_COLL_API: u64 = COLL_API | FOR_COLL | FOR_CE;
const FOR_P2P_API: u64 = P2P_API | FOR_P2P;
const FOR_GROUP: u64 = GROUP | FOR_COLL | FOR_P2P;
const FOR_GROUP_API: u64 = 0x7fdf;
const FOR_PROXY_OP: u64 = PROXY_OP | PROXY_STEP | NET_PLUGIN;
const FOR_PROXY_STEP: u64 = PROXY_STEP | NET_PLUGIN;

/// Collectives that share one device batch, and with it their stamps.
const BATCH: usize = 8;
const CHUNK: u64 = 512 << 10;

/// When virtual time 0 is.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// On the host; `None` plays without waiting.
    pub host: Option<Instant>,
    /// CLOCK_REALTIME at that moment, in nanoseconds.
    pub realtime_ns: u64,
}

/// Joins one rank's virtual time to this machine's clock.
///
/// The origin is set when all processes are ready, which is after the first communicators are made.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Shared by the process.
    pub origin: Arc<OnceLock<Origin>>,
    /// How far the GPU runs behind.
    pub lead_ns: u64,
    /// How far its clock is off.
    pub offset_ns: i64,
}

impl Timeline {
    fn origin(&self) -> &Origin {
        self.origin.get().expect("set before the first call")
    }

    /// Waits until the host is due.
    pub fn wait_host(&self, at: u64) {
        let Some(host) = self.origin().host else {
            return;
        };
        let left = (host + Duration::from_nanos(at)).saturating_duration_since(Instant::now());
        // A sleep is some 50 µs late, so a short one would only make the pace worse.
        if left > Duration::from_micros(200) {
            std::thread::sleep(left);
        }
    }

    /// Waits until the GPU is due.
    pub fn wait_gpu(&self, at: u64) {
        self.wait_host(at + self.lead_ns);
    }

    /// A stamp. The GPU's clock goes in steps of 32 ns; the origin is cut to a step first, so that durations don't
    /// depend on it.
    fn stamp(&self, at: u64) -> u64 {
        let origin = (self.origin().realtime_ns + self.lead_ns).wrapping_add_signed(self.offset_ns);
        (origin & !31) + (at & !31)
    }
}

/// Network work of one operation on one side.
#[derive(Clone, Copy, Debug)]
struct Side {
    peer: i32,
    send: bool,
    bytes: u64,
}

/// What the threads of a communicator are handed for one operation.
#[derive(Clone, Debug)]
struct Work {
    parent: Handle,
    first_channel: u8,
    channels: u8,
    kernel: Option<Kernel>,
    phases: bool,
    sides: Vec<Side>,
    held: Option<Held>,
    /// When it ends, and what makes its receives and sends take longer.
    drags: Option<(u64, [Option<Drag>; 2])>,
    mask: u64,
}

/// A network operation in the middle of its first step.
struct Paused<'w> {
    side: &'w Side,
    channel: u8,
    op: Handle,
    step: Handle,
    /// States that the step has been in.
    states: usize,
}

/// A thread of NCCL: the proxy's progress thread, or the profiler thread of 2.31 and later.
struct Worker {
    sender: Mutex<Option<Sender<Work>>>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Worker {
    fn spawn(name: &str, run: impl FnOnce(Receiver<Work>) + Send + 'static) -> Worker {
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || run(receiver))
            .expect("a thread");
        Worker {
            sender: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
        }
    }

    fn send(&self, work: Work) {
        if let Some(sender) = &*lock(&self.sender) {
            // The thread only ends when the sender is gone, or by a panic that is on stderr already.
            let _ = sender.send(work);
        }
    }

    fn join(&self) {
        drop(lock(&self.sender).take());
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }
}

/// What the progress thread calls its plugin with.
struct Progress {
    version: u32,
    native: u8,
    profiler: Profiler,
    rank: i32,
    timeline: Timeline,
}

impl Progress {
    fn run(self, works: Receiver<Work>, network: bool) {
        let control = |value: u32, args: StateArgs| {
            if network && self.profiler.mask() & PROXY_CTRL != 0 {
                // NCCL passes the address of an uninitialised variable here.
                let mut handle = Handle::GARBAGE;
                self.start(&Event::ProxyCtrl, Handle::NULL, 0, &mut handle);
                self.profiler.table.state(handle, value, args);
                self.profiler.table.stop(handle);
            }
        };
        // NCCL makes the progress thread for its first work, so nothing is told before.
        while let Ok(first) = works.recv() {
            control(state::PROXY_CTRL_WAKEUP, StateArgs::Null);
            for work in std::iter::once(first).chain(works.try_iter()) {
                control(state::PROXY_CTRL_APPEND, StateArgs::Null);
                control(
                    state::PROXY_CTRL_APPEND_END,
                    StateArgs::ProxyCtrl { appended: 1 },
                );
                self.work(&work);
            }
            control(state::PROXY_CTRL_IDLE, StateArgs::Null);
            control(state::PROXY_CTRL_SLEEP, StateArgs::Null);
        }
    }

    fn start(&self, event: &Event, parent: Handle, rank: i32, slot: &mut Handle) {
        self.profiler.start(event, parent, rank, slot);
    }

    fn work(&self, work: &Work) {
        let table = &self.profiler.table;
        let channels = work.first_channel..work.first_channel + work.channels;
        let mut kernels = Vec::with_capacity(usize::from(work.channels));
        let kernel = work.kernel.unwrap_or_default();
        if let Some(start) = kernel.start {
            self.timeline.wait_gpu(start);
            for (i, channel) in channels.clone().enumerate() {
                let mut handle = Handle::NULL;
                let stamp = self.timeline.stamp(start + 32 * i as u64);
                self.start(
                    &Event::KernelCh { channel, stamp },
                    work.parent,
                    0,
                    &mut handle,
                );
                kernels.push(handle);
            }
        }
        let drag = |side: &Side| {
            let (stop, drags) = work.drags?;
            drags[usize::from(side.send)].map(|drag| (stop.saturating_sub(drag.ns), drag.state))
        };
        let mut sides: Vec<&Side> = work.sides.iter().collect();
        sides.sort_by_key(|side| drag(side).map(|(from, _)| from));
        let mut paused = Vec::new();
        for side in sides {
            if let Some((from, _)) = drag(side) {
                self.timeline.wait_gpu(from);
            }
            let pause = drag(side).map(|(_, state)| state);
            for channel in channels.clone() {
                paused.extend(self.network(work, side, channel, pause, None));
            }
        }
        if let (false, Some((stop, _))) = (paused.is_empty(), work.drags) {
            self.timeline.wait_gpu(stop);
        }
        for paused in paused {
            self.network(work, paused.side, paused.channel, None, Some(paused));
        }
        let (Some(start), Some(stop)) = (kernel.start, kernel.stop) else {
            return;
        };
        self.timeline.wait_gpu(stop);
        let last = kernels.len().saturating_sub(1);
        for (i, (channel, handle)) in channels.zip(kernels).enumerate() {
            // A plugin that gave no handle hears no more of it.
            if handle == Handle::NULL {
                continue;
            }
            if work.phases {
                let marks = [start, start + (stop - start) / 4, stop, stop];
                for (phase, name) in [c"initial sync", c"compute", c"final sync"]
                    .iter()
                    .enumerate()
                {
                    let mut at = Handle::NULL;
                    let event = Event::KernelPhase {
                        channel,
                        phase: phase as u8,
                        name,
                        stamp: self.timeline.stamp(marks[phase]),
                    };
                    self.start(&event, handle, 0, &mut at);
                    let stamp = self.timeline.stamp(marks[phase + 1]);
                    table.state(at, state::KERNEL_PHASE_STOP, StateArgs::KernelCh { stamp });
                    table.stop(at);
                }
            }
            if self.native >= 4 {
                // The last channel ends the kernel, the others a tick or more before it.
                let early = (32 * (last - i) as u64).min(stop - start);
                let stamp = self.timeline.stamp(stop - early);
                table.state(handle, state::KERNEL_CH_STOP, StateArgs::KernelCh { stamp });
            }
            table.stop(handle);
        }
    }

    /// Plays a network operation; up to its first step's state `pause`, and on from there when it is given back.
    fn network<'w>(
        &self,
        work: &Work,
        side: &'w Side,
        channel: u8,
        pause: Option<u32>,
        paused: Option<Paused>,
    ) -> Option<Paused<'w>> {
        if work.mask & FOR_PROXY_OP == 0 {
            return None;
        }
        let table = &self.profiler.table;
        let bytes = side.bytes / u64::from(work.channels.max(1));
        let steps = bytes.div_ceil(CHUNK).clamp(1, 64);
        let chunk = (bytes / steps) as usize;
        let mut op = Handle::NULL;
        let event = Event::ProxyOp {
            pid: std::process::id() as i32,
            channel,
            peer: side.peer,
            steps: steps as i32,
            chunk: CHUNK as i32,
            send: side.send,
        };
        match &paused {
            Some(paused) => op = paused.op,
            None => self.start(&event, work.parent, self.rank, &mut op),
        }
        let states = match side.send {
            true => [
                state::PROXY_OP_SEND_POSTED,
                state::PROXY_OP_SEND_TRANSMITTED,
                state::PROXY_OP_SEND_DONE,
            ],
            false => [
                state::PROXY_OP_RECV_POSTED,
                state::PROXY_OP_RECV_RECEIVED,
                state::PROXY_OP_RECV_DONE,
            ],
        };
        let old = |which: usize, steps: u64| {
            if self.native < 4 && op != Handle::NULL {
                let args = StateArgs::ProxyOp {
                    bytes: chunk * steps as usize,
                    steps: steps as i32,
                };
                table.state(op, states[which], args);
            }
        };
        let held = work.held.and_then(|held| held.stop(side.send, channel));
        if held.is_some_and(|stop| stop.wait == Wait::Queued) {
            return None;
        }
        if paused.is_none() {
            old(0, 0);
        }
        if self.native >= 4 && op != Handle::NULL && paused.is_none() {
            table.state(op, state::PROXY_OP_IN_PROGRESS, StateArgs::Null);
        }
        let sequence: &[u32] = match side.send {
            true if self.native >= 4 => &[
                state::PROXY_STEP_SEND_GPU_WAIT,
                state::PROXY_STEP_SEND_PEER_WAIT,
                state::PROXY_STEP_SEND_WAIT,
            ],
            true => &[state::PROXY_STEP_SEND_GPU_WAIT, state::PROXY_STEP_SEND_WAIT],
            false => &[
                state::PROXY_STEP_RECV_WAIT,
                state::PROXY_STEP_RECV_FLUSH_WAIT,
                state::PROXY_STEP_RECV_GPU_WAIT,
            ],
        };
        // Of a network operation that stops, one more step is under way behind the one that does not end.
        let last = held.map(|stop| stop.step.min(steps - 1));
        let mut before = 0;
        for step in 0..last.map_or(steps, |last| (last + 2).min(steps)) {
            let ends = last.is_none_or(|last| step < last);
            let upto = match held.map(|stop| stop.wait) {
                Some(Wait::State(wait)) if last == Some(step) && sequence.contains(&wait) => wait,
                _ if !ends => sequence[0],
                _ => u32::MAX,
            };
            if work.mask & FOR_PROXY_STEP != 0 {
                let mut handle = Handle::NULL;
                let event = Event::ProxyStep { step: step as i32 };
                let resumed = paused.as_ref().filter(|_| step == 0);
                match resumed {
                    Some(paused) => handle = paused.step,
                    None => self.start(&event, op, self.rank, &mut handle),
                }
                let done = resumed.map_or(0, |paused| paused.states);
                // Without a handle for the operation, its steps are started and then left alone.
                if op != Handle::NULL {
                    for (at, value) in sequence.iter().enumerate().skip(done) {
                        // The size is the previous chunk's until the network took or brought this one.
                        if matches!(
                            *value,
                            state::PROXY_STEP_SEND_WAIT | state::PROXY_STEP_RECV_FLUSH_WAIT
                        ) {
                            before = chunk;
                        }
                        let args = match self.version {
                            ..22600 => StateArgs::Null,
                            22600..22700 => StateArgs::Empty,
                            _ => StateArgs::ProxyStep { bytes: before },
                        };
                        table.state(handle, *value, args);
                        if step == 0 && pause == Some(*value) {
                            return Some(Paused {
                                side,
                                channel,
                                op,
                                step: handle,
                                states: at + 1,
                            });
                        }
                        if *value == upto {
                            // NCCL looks again and again, and says so each time.
                            if *value == state::PROXY_STEP_SEND_PEER_WAIT {
                                table.state(handle, *value, args);
                            }
                            break;
                        }
                    }
                    if ends {
                        table.stop(handle);
                    }
                }
            }
            if ends {
                old(1, step + 1);
            }
        }
        if held.is_some() {
            return None;
        }
        old(2, steps);
        if op != Handle::NULL {
            table.stop(op);
        }
        None
    }
}

/// One rank's part in a communicator.
pub struct Communicator {
    /// Index of its name in the script.
    pub id: usize,
    /// Its link to the plugin, if there is one.
    pub profiler: Option<Profiler>,
    identity: Identity,
    label: String,
    hosts: Vec<usize>,
    stream: usize,
    seq: [AtomicU64; 15],
    ce_seq: AtomicU64,
    proxy: Option<Worker>,
    profiler_thread: Option<Worker>,
    version: u32,
    native: u8,
    all_gather_v: bool,
}

impl Communicator {
    /// ncclCommInit: tells the plugin, then starts the threads.
    ///
    /// `hosts` has the host of each member.
    pub fn init(
        loader: &Loader,
        id: usize,
        label: &str,
        identity: Identity,
        hosts: Vec<usize>,
        timeline: Timeline,
    ) -> Communicator {
        let (version, native) = (loader.version().0, loader.native());
        let profiler = loader.init(&identity);
        let progress = profiler.clone().map(|profiler| Progress {
            version,
            native,
            profiler,
            rank: identity.rank,
            timeline,
        });
        let spawn = |name: &str, network: bool| {
            let progress = progress.as_ref().map(|p| Progress {
                profiler: p.profiler.clone(),
                timeline: p.timeline.clone(),
                ..*p
            })?;
            Some(Worker::spawn(name, move |works| {
                progress.run(works, network)
            }))
        };
        Communicator {
            id,
            label: label.into(),
            hosts,
            stream: 0x7f55_0000_0000 + id * 0x100,
            seq: Default::default(),
            ce_seq: AtomicU64::new(0),
            proxy: spawn("NCCL Progress", true),
            // No name of its own in NCCL either; it inherits the creator's.
            profiler_thread: (version >= 23100)
                .then(|| spawn("fake-nccl", false))
                .flatten(),
            profiler,
            identity,
            version,
            native,
            all_gather_v: std::env::var("NCCL_ALLGATHERV_ENABLE").as_deref() != Ok("0"),
        }
    }

    /// ncclCommDestroy: waits for the threads, then tells the plugin.
    pub fn destroy(&self, loader: &Loader) {
        self.drain();
        if let Some(profiler) = self.profiler.clone() {
            loader.finalize(profiler);
        }
    }

    /// Waits until GPU and network have delivered everything, and ends the threads.
    pub fn drain(&self) {
        for worker in [&self.proxy, &self.profiler_thread].into_iter().flatten() {
            worker.join();
        }
    }

    fn mask(&self) -> u64 {
        let known = nccl_abi::event::known(self.native).unwrap_or(0);
        self.profiler.as_ref().map_or(0, Profiler::mask) & known
    }

    /// Symmetric kernels are told of as such from 2.31 on.
    fn symmetric(&self, call: &Call) -> bool {
        call.path == Path::Symmetric && self.version >= 23100
    }

    fn size(&self) -> usize {
        self.hosts.len()
    }

    fn rank(&self) -> usize {
        self.identity.rank as usize
    }

    /// The rank in events that NCCL doesn't fill in before 2.32.
    fn api_rank(&self) -> i32 {
        match self.version {
            23200.. => self.identity.rank,
            _ => 0,
        }
    }

    fn start(&self, event: &Event, parent: Handle, rank: i32, slot: &mut Handle) -> bool {
        let profiler = self.profiler.as_ref();
        profiler.is_some_and(|p| p.start(event, parent, rank, slot))
    }

    fn stop(&self, handle: Handle) {
        if let Some(profiler) = &self.profiler {
            // 2.23 to 2.25 don't look.
            if handle != Handle::NULL || self.version < 22600 {
                profiler.table.stop(handle);
            }
        }
    }

    fn state(&self, handle: Handle, value: u32) {
        if let Some(profiler) = &self.profiler {
            if handle != Handle::NULL {
                profiler.table.state(handle, value, StateArgs::Null);
            }
        }
    }
}

/// One call of a group, on one of the launcher's communicators.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// Index in [`Launcher::comms`].
    pub comm: usize,
    /// The call.
    pub call: Call,
    /// When the group's kernel on this communicator runs.
    pub kernel: Kernel,
    /// From the last arrival to the end, for this call.
    pub time: u64,
}

/// What a task becomes inside NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Coll,
    Send(usize),
    Recv(usize),
}

/// A part that goes to a kernel.
#[derive(Clone, Copy, Debug)]
struct Planned {
    task: usize,
    part: Part,
    api: Handle,
    mask: u64,
}

/// A captured group, to be replayed.
pub struct Captured {
    tasks: Vec<Task>,
    planned: Vec<Planned>,
}

/// How a group is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Now.
    Eager,
    /// Into a graph.
    Capture,
    /// As [`Mode::Eager`], but the first API call is never left.
    Inside,
}

/// Plays groups on one thread's communicators.
#[derive(Clone, Default)]
pub struct Launcher {
    /// The communicators that this thread drives.
    pub comms: Vec<Arc<Communicator>>,
    /// What they announced.
    pub announced: Arc<Mutex<Announced>>,
}

impl Launcher {
    /// Plays a group. For [`Mode::Capture`] the result can be replayed.
    pub fn group(&self, tasks: &[Task], explicit: bool, mode: Mode) -> Captured {
        let captured = mode == Mode::Capture;
        // A communicator of one rank, or a count of 0, makes no event at all.
        let tasks: Vec<Task> = tasks
            .iter()
            .filter(|t| self.comms[t.comm].size() > 1 && count(t.call, &self.comms[t.comm]) > 0)
            .copied()
            .collect();
        let mut planned = Vec::new();
        let Some(first) = tasks.first() else {
            return Captured { tasks, planned };
        };
        let first = &self.comms[first.comm];
        let api = first.native >= 5;
        let mut group_api = Handle::NULL;
        if api && first.mask() & FOR_GROUP_API != 0 {
            let depth = if explicit { 2 } else { 1 };
            let event = Event::GroupApi { captured, depth };
            first.start(&event, Handle::NULL, first.api_rank(), &mut group_api);
            first.state(group_api, state::GROUP_START_API_STOP);
        }
        for (index, task) in tasks.iter().enumerate() {
            let comm = &self.comms[task.comm];
            let mut times = Times {
                calls: 1,
                ..Times::default()
            };
            for part in parts(task.call, comm) {
                let mask = comm.mask();
                let mut handle = Handle::NULL;
                let bit = if part == Part::Coll {
                    FOR_COLL_API
                } else {
                    FOR_P2P_API
                };
                if api && mask & bit != 0 {
                    let told = self.api(task, part, group_api, captured, &mut handle);
                    times.announced += u64::from(told);
                    if mode == Mode::Inside {
                        self.count(task, times, &[]);
                        return Captured { tasks, planned };
                    }
                    comm.stop(handle);
                }
                planned.push(Planned {
                    task: index,
                    part,
                    api: handle,
                    mask,
                });
            }
            self.count(task, times, &[]);
        }
        if group_api != Handle::NULL {
            first.state(group_api, state::GROUP_END_API_START);
        }
        let mut launched = vec![false; self.comms.len()];
        for task in &tasks {
            if std::mem::replace(&mut launched[task.comm], true) {
                continue;
            }
            self.launch(task.comm, &tasks, &planned, group_api, mode);
        }
        if group_api != Handle::NULL {
            first.stop(group_api);
        }
        Captured { tasks, planned }
    }

    /// Replays a captured group on the calling thread, which stands for the CUDA driver's.
    pub fn replay(&self, graph: &Captured, kernel: impl Fn(usize) -> Kernel) {
        for task in &graph.tasks {
            let times = Times {
                replayed: 1,
                ..Times::default()
            };
            self.count(task, times, &[]);
        }
        let mut launched = vec![false; self.comms.len()];
        for task in &graph.tasks {
            let index = task.comm;
            if std::mem::replace(&mut launched[index], true) {
                continue;
            }
            let comm = &self.comms[index];
            let plan: Vec<Planned> = plan_of(index, comm, &graph.tasks, &graph.planned);
            if plan.is_empty() || !self.replays_show(comm, &graph.tasks, &plan) {
                continue;
            }
            let mut tasks = graph.tasks.clone();
            for task in &mut tasks {
                task.kernel = kernel(task.comm);
            }
            self.emit(comm, &tasks, &plan, Play::Replay);
        }
    }

    /// Plans with network or KernelCh work get a host callback in the graph; the others replay unseen.
    fn replays_show(&self, comm: &Communicator, tasks: &[Task], plan: &[Planned]) -> bool {
        let network = plan
            .iter()
            .any(|p| !sides(&tasks[p.task].call, p.part, comm).is_empty());
        let symmetric = |p: &Planned| tasks[p.task].call.path == Path::Symmetric;
        let kernel_ch = comm.native >= 3 && comm.mask() & KERNEL_CH != 0;
        (network || kernel_ch) && !plan.iter().all(symmetric)
    }

    fn api(
        &self,
        task: &Task,
        part: Part,
        group: Handle,
        captured: bool,
        slot: &mut Handle,
    ) -> bool {
        let comm = &self.comms[task.comm];
        let (call, stream) = (&task.call, comm.stream);
        let count = count(*call, comm) as usize;
        let event = match part {
            Part::Coll => Event::CollApi {
                func: call.op.func(),
                count,
                datatype: call.datatype,
                root: call.root,
                stream,
                captured,
                tag: call.tag,
            },
            Part::Send(_) | Part::Recv(_) => Event::P2pApi {
                func: func(part, call),
                count,
                datatype: call.datatype,
                stream,
                captured,
                tag: call.tag,
            },
        };
        let told = comm.start(&event, group, comm.api_rank(), slot);
        if told {
            self.count(task, Times::default(), &[func(part, call)]);
        }
        told
    }

    fn count(&self, task: &Task, times: Times, functions: &[Text]) {
        let comm = &self.comms[task.comm];
        let mut announced = lock(&self.announced);
        for function in functions {
            let name = function.to_str().unwrap_or_default();
            match announced.functions.get_mut(name) {
                Some(n) => *n += 1,
                None => {
                    announced.functions.insert(name.into(), 1);
                }
            }
        }
        if times == Times::default() {
            return;
        }
        let operation = Operation {
            communicator: comm.identity.hash,
            name: comm.label.clone(),
            nranks: comm.size(),
            function: task.call.op.func().to_string_lossy().into_owned(),
            datatype: task.call.datatype.to_string_lossy().into_owned(),
            bytes: task.call.bytes,
        };
        announced
            .operations
            .entry(operation)
            .or_default()
            .add(times);
    }

    fn launch(
        &self,
        index: usize,
        tasks: &[Task],
        planned: &[Planned],
        group_api: Handle,
        mode: Mode,
    ) {
        let comm = &self.comms[index];
        let on_comm = |p: &&Planned| tasks[p.task].comm == index;
        for p in planned.iter().filter(on_comm) {
            if tasks[p.task].call.path == Path::CopyEngine {
                copy_engine(comm, &tasks[p.task].call, p);
            }
        }
        let plan = plan_of(index, comm, tasks, planned);
        if plan.is_empty() {
            return;
        }
        if comm.native >= 5 && comm.mask() & KERNEL_LAUNCH != 0 {
            let mut handle = Handle::NULL;
            let event = Event::KernelLaunch {
                stream: comm.stream,
            };
            comm.start(&event, group_api, comm.api_rank(), &mut handle);
            comm.stop(handle);
        }
        match mode {
            Mode::Capture if self.replays_show(comm, tasks, &plan) => {}
            Mode::Capture => self.emit(comm, tasks, &plan, Play::Capture),
            _ => self.emit(comm, tasks, &plan, Play::Now),
        }
    }

    /// Group, then Coll and P2p of one communicator's plan, with their work handed to its threads.
    fn emit(&self, comm: &Communicator, tasks: &[Task], plan: &[Planned], play: Play) {
        let mask = plan.iter().fold(0, |m, p| m | p.mask);
        let mut group = Handle::NULL;
        if mask & FOR_GROUP != 0 {
            comm.start(&Event::Group, Handle::NULL, 0, &mut group);
        }
        // Up to 2.27 a null Group hides all that is in it.
        let hidden = comm.version < 22800 && group == Handle::NULL;
        let total: u64 = plan.iter().map(|p| tasks[p.task].time).sum();
        let all_pairs = plan.iter().all(|p| p.part != Part::Coll);
        let mut batch = (0, 0);
        for (i, p) in plan.iter().enumerate() {
            let task = &tasks[p.task];
            if p.part == Part::Coll && i % BATCH == 0 {
                let before: u64 = plan[..i].iter().map(|p| tasks[p.task].time).sum();
                let inside: u64 = plan[i..]
                    .iter()
                    .take(BATCH)
                    .map(|p| tasks[p.task].time)
                    .sum();
                batch = (total - before, total - before - inside);
            }
            let kernel = match (task.kernel, all_pairs || plan.len() <= BATCH) {
                (kernel, true) => kernel,
                // Later batches start when the one before ends; a kernel that never ends never gets there.
                (
                    Kernel {
                        start,
                        stop,
                        held,
                        drags,
                    },
                    false,
                ) => Kernel {
                    drags,
                    held: match i < BATCH {
                        true => held,
                        false => held.map(|_| Held::queued()),
                    },
                    start: if i < BATCH {
                        start
                    } else {
                        stop.map(|s| s.saturating_sub(batch.0))
                    },
                    stop: stop.map(|s| s.saturating_sub(batch.1)),
                },
            };
            let task = Task { kernel, ..*task };
            self.emit_part(comm, &task, p, group, hidden, play);
        }
        if group != Handle::NULL {
            comm.stop(group);
        }
    }

    fn emit_part(
        &self,
        comm: &Communicator,
        task: &Task,
        p: &Planned,
        group: Handle,
        hidden: bool,
        play: Play,
    ) {
        let call = &task.call;
        let channels = channels(call, p.part);
        let kernel_ch = comm.native >= 3 && p.mask & KERNEL_CH != 0;
        let mut wanted = match p.part {
            Part::Coll => p.mask & FOR_COLL != 0,
            // Up to 2.25 the P2p bit alone is not enough.
            _ if comm.version < 22600 => p.mask & (COLL | PROXY_OP | PROXY_STEP) != 0,
            _ => p.mask & FOR_P2P != 0,
        } && !hidden;
        let symmetric = comm.symmetric(call);
        wanted &= !(symmetric && play == Play::Capture && p.mask & KERNEL_CH == 0);
        let (comm_name, comm_hash) = (
            comm.identity
                .name
                .as_ref()
                .map_or(std::ptr::null(), |n| n.as_ptr()),
            comm.identity.hash,
        );
        let func = func(p.part, call);
        let buffer = 0x7f00_0000_0000 + comm.id * 0x1000_0000;
        let event = match p.part {
            Part::Coll => {
                let (count, datatype) = launched_count(call, comm);
                // Plans of a graph keep their number unless KernelCh is on; up to 2.25 only what is shown counts.
                let advances = match play {
                    Play::Now => comm.version >= 22600 || wanted,
                    Play::Capture | Play::Replay => kernel_ch,
                };
                let counter = &comm.seq[call.op as usize];
                let seq = if advances {
                    counter.fetch_add(1, Relaxed)
                } else {
                    counter.load(Relaxed)
                };
                let variant = symmetric.then(|| variant(call.op));
                Event::Coll(Coll {
                    comm_name,
                    comm_hash,
                    seq,
                    func,
                    send: buffer,
                    recv: if call.in_place {
                        buffer
                    } else {
                        buffer + 0x800_0000
                    },
                    count,
                    root: call.root,
                    datatype,
                    channels: told_channels(call, comm, channels),
                    max_channels: channels.max(16),
                    warps: 16,
                    algo: if symmetric {
                        suffix(call.op)
                    } else {
                        call.algo
                    },
                    proto: if symmetric { c"" } else { proto(call) },
                    group,
                    variant,
                    tag: call.tag,
                })
            }
            Part::Send(peer) | Part::Recv(peer) => Event::P2p(P2p {
                comm_name,
                comm_hash,
                func,
                buff: buffer,
                datatype: call.datatype,
                count: count(*call, comm) as usize,
                peer: peer as i32,
                channels,
                group,
                tag: call.tag,
            }),
        };
        let mut handle = Handle::NULL;
        let mut told = false;
        if wanted {
            let below_v5 = comm.profiler.as_ref().is_some_and(|p| p.table.seat.abi < 5);
            let parent = if below_v5 { group } else { p.api };
            told = comm.start(&event, parent, comm.identity.rank, &mut handle);
            let replay = play == Play::Replay;
            if told && (below_v5 || replay) {
                let times = Times {
                    calls: 0,
                    announced: u64::from(!replay),
                    replays: u64::from(replay),
                    replayed: 0,
                };
                self.count(task, times, &[func]);
            }
        }
        if play != Play::Capture && !hidden {
            self.post(comm, task, p, handle, channels, kernel_ch, play);
        }
        if told || (comm.version < 22600 && !hidden) {
            comm.stop(handle);
        }
    }

    #[allow(clippy::too_many_arguments)] // One caller; a struct would only repeat the names.
    fn post(
        &self,
        comm: &Communicator,
        task: &Task,
        p: &Planned,
        parent: Handle,
        channels: u8,
        kernel_ch: bool,
        play: Play,
    ) {
        let call = &task.call;
        let own = comm.rank();
        let to_self = matches!(p.part, Part::Send(peer) | Part::Recv(peer) if peer == own);
        let symmetric = comm.symmetric(call);
        // The host of 2.30 and before forgets the work that a send to oneself makes; a replayed symmetric kernel is blind.
        let seen =
            kernel_ch && !(to_self && comm.version < 23100) && !(symmetric && play == Play::Replay);
        let phases = seen
            && comm.native >= 7
            && p.mask & KERNEL_PHASE != 0
            && (symmetric || comm.version < 23200);
        let sides = sides(call, p.part, comm);
        let first_channel = match p.part {
            Part::Coll => 0,
            Part::Send(peer) | Part::Recv(peer) => ((peer + own) % 8) as u8 * 2,
        };
        let work = Work {
            parent,
            first_channel,
            channels,
            kernel: seen.then_some(task.kernel),
            phases,
            sides,
            held: task.kernel.held,
            drags: task.kernel.stop.map(|stop| (stop, task.kernel.drags)),
            mask: p.mask,
        };
        match (&comm.proxy, &comm.profiler_thread) {
            (Some(proxy), Some(profiler)) => {
                if !work.sides.is_empty() {
                    proxy.send(Work {
                        kernel: None,
                        ..work.clone()
                    });
                }
                if seen {
                    profiler.send(Work {
                        sides: Vec::new(),
                        ..work
                    });
                }
            }
            (Some(proxy), None) if seen || !work.sides.is_empty() => proxy.send(work),
            _ => {}
        }
    }
}

/// Why a plan's events are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Play {
    Now,
    Capture,
    Replay,
}

/// The name of a communicator as `init` gets it.
pub fn comm_name(label: Option<&str>) -> Option<CString> {
    label.map(|l| CString::new(l).expect("checked when parsed"))
}

/// The user's count.
fn count(call: Call, comm: &Communicator) -> u64 {
    call.bytes / call.op.divisor(comm.size()) / datatype_size(call.datatype)
}

fn datatype_size(datatype: Text) -> u64 {
    nccl_abi::names::datatype_size(datatype.to_bytes()) as u64
}

/// Count and datatype of the Coll event: AllGather and Broadcast were converted to bytes.
fn launched_count(call: &Call, comm: &Communicator) -> (usize, Text) {
    let count = count(*call, comm);
    match call.op {
        Op::AllGather | Op::Broadcast => {
            ((count * datatype_size(call.datatype)) as usize, c"ncclInt8")
        }
        _ => (count as usize, call.datatype),
    }
}

fn func(part: Part, call: &Call) -> Text {
    match part {
        Part::Coll => call.op.func(),
        Part::Send(_) => c"Send",
        Part::Recv(_) => c"Recv",
    }
}

/// What NCCL makes of a call.
fn parts(call: Call, comm: &Communicator) -> Vec<Part> {
    let (rank, ranks) = (comm.rank(), comm.size());
    let root = call.root as usize % ranks;
    // Copy engines keep the collective whole.
    if call.path == Path::CopyEngine {
        return vec![Part::Coll];
    }
    match call.op {
        Op::Send => vec![Part::Send(call.peer.of(rank, ranks))],
        Op::Recv => vec![Part::Recv(call.peer.of(rank, ranks))],
        Op::AlltoAll => (0..ranks)
            .flat_map(|i| {
                [
                    Part::Send((rank + i) % ranks),
                    Part::Recv((rank + ranks - i) % ranks),
                ]
            })
            .collect(),
        Op::Gather | Op::Scatter => {
            let (mine, roots): (Part, fn(usize) -> Part) = match call.op {
                Op::Gather => (Part::Send(root), Part::Recv),
                _ => (Part::Recv(root), Part::Send),
            };
            let all = (0..ranks).map(roots).filter(|_| rank == root);
            all.chain([mine]).collect()
        }
        _ => vec![Part::Coll],
    }
}

/// The parts of a communicator that reach a kernel and its events.
fn plan_of(index: usize, comm: &Communicator, tasks: &[Task], planned: &[Planned]) -> Vec<Planned> {
    let shown = |p: &&Planned| {
        let task = &tasks[p.task];
        let call = &task.call;
        let own = comm.rank();
        task.comm == index
            && match (call.path, p.part) {
                (Path::CopyEngine, _) => false,
                (Path::Symmetric, _) => !(22700..23100).contains(&comm.version),
                // 2.29 made a fused AllGatherV of it, and loses its mask on the way.
                (_, Part::Coll) if call.op == Op::Broadcast => {
                    comm.version < 22900 || !comm.all_gather_v
                }
                (_, Part::Send(peer) | Part::Recv(peer)) => !(call.in_place && peer == own),
                _ => true,
            }
    };
    planned.iter().filter(shown).copied().collect()
}

fn proto(call: &Call) -> Text {
    call.proto.unwrap_or(match call.bytes {
        ..=65536 => c"LL",
        65537..=1_048_576 => c"LL128",
        _ => c"SIMPLE",
    })
}

fn channels(call: &Call, part: Part) -> u8 {
    match (call.channels, part) {
        (Some(n), _) => n,
        (None, Part::Coll) => (call.bytes >> 16).clamp(1, 16) as u8,
        (None, _) => (call.bytes >> 20).clamp(1, 2) as u8,
    }
}

/// What the Coll event says of its channels.
fn told_channels(call: &Call, comm: &Communicator, used: u8) -> u8 {
    let algo = call.algo.to_bytes();
    let nodes = distinct(&comm.hosts);
    if algo.starts_with(b"COLLNET") || (nodes > 1 && algo.starts_with(b"NVLS")) {
        0
    } else {
        used
    }
}

fn distinct(hosts: &[usize]) -> usize {
    let mut hosts = hosts.to_vec();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.len()
}

fn variant(op: Op) -> Text {
    match op {
        Op::AllGather => c"AllGather_STMC",
        Op::ReduceScatter => c"ReduceScatter_LDMC",
        _ => c"AllReduce_RSxLDMC_AGxSTMC",
    }
}

fn suffix(op: Op) -> Text {
    match op {
        Op::AllGather => c"STMC",
        Op::ReduceScatter => c"LDMC",
        _ => c"RSxLDMC_AGxSTMC",
    }
}

/// The network work of a part: a ring to the next and from the previous host, or a peer on another host.
fn sides(call: &Call, part: Part, comm: &Communicator) -> Vec<Side> {
    let (rank, ranks) = (comm.rank(), comm.size());
    let far = |peer: usize| comm.hosts[peer] != comm.hosts[rank];
    if call.path != Path::Kernel {
        return Vec::new();
    }
    let side = |peer: usize, send: bool, bytes: u64| {
        far(peer).then_some(Side {
            peer: peer as i32,
            send,
            bytes,
        })
    };
    let each = call.bytes / call.op.divisor(ranks);
    let found = match part {
        Part::Send(peer) => [side(peer, true, each), None],
        Part::Recv(peer) => [side(peer, false, each), None],
        Part::Coll => {
            let n = ranks as u64;
            let bytes = match call.op {
                Op::AllReduce => 2 * call.bytes * (n - 1) / n,
                Op::AllGather | Op::ReduceScatter => call.bytes * (n - 1) / n,
                _ => call.bytes,
            };
            let (next, previous) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
            [side(next, true, bytes), side(previous, false, bytes)]
        }
    };
    found.into_iter().flatten().collect()
}

fn copy_engine(comm: &Communicator, call: &Call, p: &Planned) {
    if comm.native < 6 || p.mask & FOR_CE == 0 {
        return;
    }
    let ranks = comm.identity.ranks;
    let mut coll = Handle::NULL;
    let event = Event::CeColl(CeColl {
        seq: comm.ce_seq.load(Relaxed),
        func: call.op.func(),
        count: count(*call, comm) as usize,
        root: call.root,
        datatype: call.datatype,
        strategy: c"Barrier",
        stream: comm.stream,
        tag: call.tag,
    });
    comm.start(&event, p.api, comm.identity.rank, &mut coll);
    // A plugin that gave no handle is not told of the parts.
    if coll == Handle::NULL {
        return;
    }
    let sync = |complete: bool| {
        comm.ce_seq.fetch_add(1, Relaxed);
        if comm.mask() & CE_SYNC != 0 {
            let mut handle = Handle::NULL;
            let event = Event::CeSync { complete, ranks };
            comm.start(&event, coll, comm.identity.rank, &mut handle);
            comm.stop(handle);
        }
    };
    sync(false);
    if comm.mask() & CE_BATCH != 0 {
        let mut handle = Handle::NULL;
        let event = Event::CeBatch {
            ops: ranks - 1,
            bytes: call.bytes as usize,
            sync: false,
        };
        comm.start(&event, coll, comm.identity.rank, &mut handle);
        comm.stop(handle);
    }
    sync(true);
    comm.stop(coll);
}
