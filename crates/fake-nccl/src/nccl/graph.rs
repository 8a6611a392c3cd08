//! Replays of captured groups.

use super::communicator::Communicator;
use super::launch::Play;
use super::launcher::{Captured, Launcher};
use super::plan::{plan_of, sides, Planned, Task};
use crate::announced::Times;
use crate::schedule::Kernel;
use crate::script::Path;
use nccl_abi::event::KERNEL_CH;

impl Launcher {
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
    pub(super) fn replays_show(
        &self,
        comm: &Communicator,
        tasks: &[Task],
        plan: &[Planned],
    ) -> bool {
        let network = plan
            .iter()
            .any(|p| !sides(&tasks[p.task].call, p.part, comm).is_empty());
        let symmetric = |p: &Planned| tasks[p.task].call.path == Path::Symmetric;
        let kernel_ch = comm.native >= 3 && comm.mask() & KERNEL_CH != 0;
        (network || kernel_ch) && !plan.iter().all(symmetric)
    }
}
