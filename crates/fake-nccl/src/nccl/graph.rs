//! Captured groups: what a replay of a CUDA graph shows a plugin.

use super::communicator::Communicator;
use super::launcher::{Captured, Launcher};
use super::plan::{plan_of, sides, Planned, Play, Task};
use crate::announced::Times;
use crate::schedule::Kernel;
use crate::script::Path;
use nccl_abi::event::KERNEL_CH;

impl Launcher {
    /// Replays a captured group on the calling thread, which stands for the CUDA driver's. `kernel` gives the
    /// times of the kernel on a communicator.
    pub fn replay(&self, group: &Captured, kernel: impl Fn(usize) -> Kernel) {
        let mut tasks = group.tasks.clone();
        for task in &mut tasks {
            let times = Times {
                replayed: 1,
                ..Times::default()
            };
            self.count(task, times, &[]);
            task.kernel = kernel(task.comm);
        }
        for index in group.communicators() {
            let comm = &self.comms[index];
            let plan = plan_of(index, comm, &tasks, &group.planned);
            if !plan.is_empty() && replays_show(comm, &tasks, &plan) {
                self.emit(comm, &tasks, &plan, Play::Replay);
            }
        }
    }
}

/// Whether a replay of a plan shows. NCCL puts a host callback into the graph only for plans with network or
/// KernelCh work.
pub(super) fn replays_show(comm: &Communicator, tasks: &[Task], plan: &[Planned]) -> bool {
    let network = |p: &Planned| !sides(&tasks[p.task].call, p.part, comm).is_empty();
    let symmetric = |p: &Planned| tasks[p.task].call.path == Path::Symmetric;
    let kernel_ch = comm.native >= 3 && comm.mask() & KERNEL_CH != 0;
    (plan.iter().any(network) || kernel_ch) && !plan.iter().all(symmetric)
}
