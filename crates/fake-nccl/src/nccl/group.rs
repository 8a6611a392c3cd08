//! Groups of API calls.

use super::launcher::{Captured, Launcher, Mode};
use super::masks::{FOR_COLL_API, FOR_GROUP_API, FOR_P2P_API};
use super::plan::{count, func, parts, Part, Planned, Task};
use crate::announced::Times;
use crate::event::{Event, Handle};
use nccl_abi::state;

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

    pub(super) fn api(
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
}
