//! Launches.

use super::communicator::Communicator;
use super::copy_engine::copy_engine;
use super::launcher::{Launcher, Mode};
use super::masks::{FOR_COLL, FOR_GROUP, FOR_P2P};
use super::plan::{
    channels, count, func, launched_count, plan_of, proto, sides, suffix, told_channels, variant,
    Part, Planned, Task,
};
use super::work::Work;
use crate::announced::Times;
use crate::event::{Coll, Event, Handle, P2p};
use crate::schedule::Kernel;
use crate::script::Path;
use crate::stuck::Held;
use nccl_abi::event::*;
use std::sync::atomic::Ordering::Relaxed;

/// Collectives that share one device batch, and with it their stamps.
const BATCH: usize = 8;

/// Why a plan's events are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Play {
    Now,
    Capture,
    Replay,
}

impl Launcher {
    pub(super) fn launch(
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
    pub(super) fn emit(&self, comm: &Communicator, tasks: &[Task], plan: &[Planned], play: Play) {
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

    pub(super) fn emit_part(
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
    pub(super) fn post(
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
