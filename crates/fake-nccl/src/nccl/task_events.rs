//! Coll and P2p: the parts of a plan, and the work behind them for the communicator's threads.

use super::communicator::Communicator;
use super::launcher::Launcher;
use super::plan::{
    channels, count, func, launched_count, proto, sides, suffix, told_channels, variant, Planned,
    Play, Task, TaskPart,
};
use super::progress::Progress;
use super::work::Work;
use crate::announced::Times;
use crate::event::{Coll, Event, Handle, P2p};
use nccl_abi::event::because::{FOR_COLL, FOR_P2P};
use nccl_abi::event::*;
use std::ffi::c_char;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// One part of a plan that is launched, captured or replayed.
pub(super) struct TaskEvent<'c> {
    pub(super) comm: &'c Communicator,
    /// Its call, with the times of this part.
    pub(super) task: Task,
    pub(super) planned: Planned,
    /// The Group event.
    pub(super) group: Handle,
    /// Neither the event comes nor any event of the work behind it.
    pub(super) hidden: bool,
    pub(super) play: Play,
}

impl Launcher {
    /// Plays Coll or P2p, and hands on the work behind it.
    pub(super) fn emit_task(&self, of: &TaskEvent) {
        let comm = of.comm;
        let wanted = of.wanted();
        let event = match of.planned.part {
            TaskPart::Coll => Event::Coll(of.coll(wanted)),
            TaskPart::Send(peer) | TaskPart::Recv(peer) => Event::P2p(of.p2p(peer)),
        };
        let mut handle = Handle::NULL;
        let mut told = false;
        if wanted {
            let below_v5 = comm.profiler.as_ref().is_some_and(|p| p.table.seat.abi < 5);
            let parent = if below_v5 { of.group } else { of.planned.api };
            told = comm.start(&event, parent, comm.identity.rank, &mut handle);
            let replay = of.play == Play::Replay;
            if told && (below_v5 || replay) {
                let times = Times {
                    calls: 0,
                    announced: u64::from(!replay),
                    replays: u64::from(replay),
                    replayed: 0,
                };
                let func = func(of.planned.part, &of.task.call);
                self.count(&of.task, times, &[func]);
            }
        }
        let progress = comm.progress.as_ref();
        if let Some(progress) = progress.filter(|_| of.play != Play::Capture && !of.hidden) {
            comm.post(of.work(progress.clone(), handle));
        }
        if told || (comm.version < 22600 && !of.hidden) {
            comm.stop(handle);
        }
    }
}

impl TaskEvent<'_> {
    /// Whether NCCL starts the event.
    fn wanted(&self) -> bool {
        let mask = self.planned.mask;
        let asked = match self.planned.part {
            TaskPart::Coll => mask & FOR_COLL != 0,
            // Up to 2.25 the P2p bit alone is not enough.
            _ if self.comm.version < 22600 => mask & (COLL | PROXY_OP | PROXY_STEP) != 0,
            _ => mask & FOR_P2P != 0,
        };
        let captured = self.symmetric() && self.play == Play::Capture && mask & KERNEL_CH == 0;
        asked && !self.hidden && !captured
    }

    fn symmetric(&self) -> bool {
        self.comm.symmetric(&self.task.call)
    }

    /// Whether its kernel has KernelCh events, if it is seen.
    fn kernel_ch(&self) -> bool {
        self.comm.native >= 3 && self.planned.mask & KERNEL_CH != 0
    }

    fn channels(&self) -> u8 {
        channels(&self.task.call, self.planned.part)
    }

    fn comm_name(&self) -> *const c_char {
        let name = self.comm.identity.name.as_ref();
        name.map_or(std::ptr::null(), |n| n.as_ptr())
    }

    /// The address of the first buffer.
    fn buffer(&self) -> usize {
        0x7f00_0000_0000 + self.comm.id * 0x1000_0000
    }

    /// NCCL's number of the collective. It counts each function of a communicator by itself.
    fn sequence(&self, wanted: bool) -> u64 {
        // Plans of a graph keep their number unless KernelCh is on. Up to 2.25, only events that come count.
        let advances = match self.play {
            Play::Now => self.comm.version >= 22600 || wanted,
            Play::Capture | Play::Replay => self.kernel_ch(),
        };
        let counter = &self.comm.seq[self.task.call.op as usize];
        if advances {
            counter.fetch_add(1, Relaxed)
        } else {
            counter.load(Relaxed)
        }
    }

    fn coll(&self, wanted: bool) -> Coll {
        let (comm, call) = (self.comm, &self.task.call);
        let (count, datatype) = launched_count(call, comm);
        let channels = self.channels();
        let symmetric = self.symmetric();
        let buffer = self.buffer();
        Coll {
            comm_name: self.comm_name(),
            comm_hash: comm.identity.hash,
            seq: self.sequence(wanted),
            func: func(self.planned.part, call),
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
            group: self.group,
            variant: symmetric.then(|| variant(call.op)),
            tag: call.tag,
        }
    }

    fn p2p(&self, peer: usize) -> P2p {
        let (comm, call) = (self.comm, &self.task.call);
        P2p {
            comm_name: self.comm_name(),
            comm_hash: comm.identity.hash,
            func: func(self.planned.part, call),
            buff: self.buffer(),
            datatype: call.datatype,
            count: count(*call, comm) as usize,
            peer: peer as i32,
            channels: self.channels(),
            group: self.group,
            tag: call.tag,
        }
    }

    /// What the communicator's threads do for it, under the event `parent`.
    fn work(&self, of: Arc<Progress>, parent: Handle) -> Work {
        let (comm, part) = (self.comm, self.planned.part);
        let (version, own) = (comm.version, comm.rank());
        let to_self = matches!(part, TaskPart::Send(peer) | TaskPart::Recv(peer) if peer == own);
        let symmetric = self.symmetric();
        // Up to 2.30 the host forgets the work of a send to oneself. A replayed symmetric kernel makes no
        // stamps.
        let seen = self.kernel_ch()
            && !(to_self && version < 23100)
            && !(symmetric && self.play == Play::Replay);
        let phases = seen
            && comm.native >= 7
            && self.planned.mask & KERNEL_PHASE != 0
            && (symmetric || version < 23200);
        let kernel = self.task.kernel;
        Work {
            of,
            parent,
            first_channel: match part {
                TaskPart::Coll => 0,
                TaskPart::Send(peer) | TaskPart::Recv(peer) => ((peer + own) % 8) as u8 * 2,
            },
            channels: self.channels(),
            kernel: seen.then_some(kernel),
            phases,
            sides: sides(&self.task.call, part, comm),
            held: kernel.held,
            drags: kernel.stop.map(|stop| (stop, kernel.drags)),
            mask: self.planned.mask,
        }
    }
}
