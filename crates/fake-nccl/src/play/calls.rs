//! Groups of calls.

use super::driver::Driver;
use super::job::{Flow, Stuck};
use crate::lock::lock;
use crate::nccl::{Mode, Task};
use crate::schedule::{self, instance, Kernel, RankAction};
use crate::script::Call;
use crate::tuner::Context;

impl Driver<'_> {
    /// What my ranks launch in the group that the schedule was given last.
    pub(super) fn tasks(&self, calls: &[Call], launched: bool) -> Vec<Task> {
        let script = &self.job.script;
        let mut tasks = Vec::new();
        for call in calls {
            for rank in &self.mine {
                if self.schedule.part(*rank) == RankAction::None || !call.is_by(*rank) {
                    continue;
                }
                let Some(index) = self.open.get(&(call.comm, *rank)) else {
                    continue;
                };
                let kernel = if launched {
                    self.schedule.kernel(call.comm, *rank)
                } else {
                    Kernel::default()
                };
                let members = instance(script, call.comm, *rank)
                    .map(|(at, _)| &script.comms[call.comm].instances[at].members);
                tasks.push(Task {
                    comm: *index,
                    call: *call,
                    kernel,
                    time: members.map_or(0, |m| schedule::time(script, call, m)),
                });
            }
        }
        tasks
    }

    /// The calls, with what NCCL chooses for them. A tuner of each rank here is asked; the others of the job
    /// are taken to say the same.
    pub(super) fn chosen(&mut self, calls: &[Call], who: &[bool]) -> Vec<Call> {
        let script = &self.job.script;
        // A tuner is asked within the call.
        if self.job.tuner.is_some() {
            for rank in self.mine.iter().filter(|rank| who[**rank]) {
                let within = self.schedule.host[*rank] + script.host_cost_ns / 2;
                self.timeline(*rank).wait_host(within);
            }
        }
        let (tuner, tuned, mine) = (self.job.tuner.as_ref(), &self.tuned, &self.mine);
        self.chooser.group(script, calls, |left, call| {
            let of = |rank: &&usize| who[**rank];
            let contexts = mine
                .iter()
                .filter(of)
                .filter_map(|rank| tuned.get(&(call.comm, *rank)));
            let choose = |context: &Context| {
                tuner?.choose(*context, call.op, call.bytes, &script.choices, left)
            };
            let chosen: Vec<Option<usize>> = contexts.map(choose).collect();
            chosen.first().copied().flatten()
        })
    }

    pub(super) fn group(&mut self, calls: &[Call], explicit: bool, who: &[bool]) -> Flow {
        let calls = &self.chosen(calls, who);
        self.schedule.group(who, calls);
        let tasks = self.tasks(calls, true);
        if tasks.is_empty() {
            return Flow::Continue(());
        }
        let mut inside = false;
        for rank in &self.mine {
            match self.schedule.part(*rank) {
                RankAction::None => {}
                RankAction::Calls(at) => self.timeline(*rank).wait_host(at),
                RankAction::Inside(at) => {
                    self.timeline(*rank).wait_host(at);
                    inside = true;
                }
            }
        }
        // Several GPUs of one thread need a group of the caller's.
        let explicit = explicit || self.mine.len() > 1;
        if inside {
            self.launcher.group(&tasks, explicit, Mode::Inside);
            return Flow::Break(Stuck);
        }
        self.launcher.group(&tasks, explicit, Mode::Eager);
        lock(&self.job.announced).took.groups += 1;
        Flow::Continue(())
    }
}
