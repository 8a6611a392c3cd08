//! KernelLaunch and Group: what is launched on a communicator, and when the parts of a plan run.

use super::communicator::Communicator;
use super::copy_engine::copy_engine;
use super::graph::replays_show;
use super::launcher::{Captured, Launcher, Mode};
use super::plan::{plan_of, Planned, Play, Task, TaskPart};
use super::task_events::TaskEvent;
use crate::event::{Event, Handle};
use crate::gpu;
use crate::schedule::Kernel;
use crate::script::Path;
use crate::stuck::Held;
use nccl_abi::event::because::FOR_GROUP;
use nccl_abi::event::KERNEL_LAUNCH;

/// Collectives that share one device batch, and with it their stamps.
const BATCH: usize = 8;

impl Launcher {
    /// Launches what a group does on one communicator.
    pub(super) fn launch(&self, index: usize, group: &Captured, group_api: Handle, mode: Mode) {
        let comm = &self.comms[index];
        let tasks = &group.tasks;
        for p in group.planned.iter().filter(|p| tasks[p.task].comm == index) {
            if tasks[p.task].call.path == Path::CopyEngine {
                copy_engine(comm, &tasks[p.task].call, p);
            }
        }
        let plan = plan_of(index, comm, tasks, &group.planned);
        if plan.is_empty() {
            return;
        }
        if comm.native >= 5 && comm.mask() & KERNEL_LAUNCH != 0 {
            let mut handle = Handle::NULL;
            let event = Event::KernelLaunch {
                stream: comm.stream,
            };
            let gpu = gpu::get().filter(|_| mode == Mode::Eager);
            if let Some(gpu) = gpu {
                let starts = plan.iter().filter_map(|p| tasks[p.task].kernel.start);
                gpu.busy(comm.stream as u64, comm.until(starts.min()));
            }
            comm.start(&event, group_api, comm.api_rank(), &mut handle);
            if let Some(gpu) = gpu {
                let mut stops = plan.iter().map(|p| tasks[p.task].kernel.stop);
                let stop = stops.try_fold(0, |last: u64, stop| Some(last.max(stop?)));
                gpu.busy(comm.stream as u64, comm.until(stop));
            }
            comm.stop(handle);
            if let Some(gpu) = gpu {
                gpu.launched(comm.stream as u64);
            }
        }
        match mode {
            Mode::Capture if replays_show(comm, tasks, &plan) => {}
            Mode::Capture => self.emit(comm, tasks, &plan, Play::Capture),
            Mode::Eager | Mode::Inside => self.emit(comm, tasks, &plan, Play::Now),
        }
    }

    /// Group, then Coll and P2p of one communicator's plan. Its threads get the work behind them.
    pub(super) fn emit(&self, comm: &Communicator, tasks: &[Task], plan: &[Planned], play: Play) {
        let mask = plan.iter().fold(0, |m, p| m | p.mask);
        let mut group = Handle::NULL;
        if mask & FOR_GROUP != 0 {
            comm.start(&Event::Group, Handle::NULL, 0, &mut group);
        }
        for (planned, kernel) in plan.iter().zip(kernels(tasks, plan)) {
            let event = TaskEvent {
                comm,
                task: Task {
                    kernel,
                    ..tasks[planned.task]
                },
                planned: *planned,
                group,
                // Up to 2.27, a null handle of Group hides all events in it.
                hidden: comm.version < 22800 && group == Handle::NULL,
                play,
            };
            self.emit_task(&event);
        }
        if group != Handle::NULL {
            comm.stop(group);
        }
    }
}

/// When each part of a plan runs. Sends and receives share their stamps if there are no collectives among
/// them, and so does a batch of collectives.
fn kernels(tasks: &[Task], plan: &[Planned]) -> Vec<Kernel> {
    let pairs_only = plan.iter().all(|p| p.part != TaskPart::Coll);
    if pairs_only || plan.len() <= BATCH {
        return plan.iter().map(|p| tasks[p.task].kernel).collect();
    }
    let time = |plan: &[Planned]| plan.iter().map(|p| tasks[p.task].time).sum::<u64>();
    let total = time(plan);
    // How long before the end of the kernel the batch begins and ends.
    let mut to_end = (0, 0);
    let mut kernels = Vec::with_capacity(plan.len());
    for (i, p) in plan.iter().enumerate() {
        if p.part == TaskPart::Coll && i % BATCH == 0 {
            let left = total - time(&plan[..i]);
            let inside = time(&plan[i..plan.len().min(i + BATCH)]);
            to_end = (left, left - inside);
        }
        let kernel = tasks[p.task].kernel;
        let before_end = |by: u64| kernel.stop.map(|stop| stop.saturating_sub(by));
        // A later batch starts when the one before ends. If the kernel never ends, it never starts.
        let (start, held) = if i < BATCH {
            (kernel.start, kernel.held)
        } else {
            (before_end(to_end.0), kernel.held.map(|_| Held::queued()))
        };
        kernels.push(Kernel {
            start,
            // What begins later in the same kernel waits for nobody.
            ready: kernel.ready.max(start).filter(|_| start.is_some()),
            stop: before_end(to_end.1),
            held,
            drags: kernel.drags,
        });
    }
    kernels
}
