//! GroupApi, CollApi and P2pApi: a group of API calls, from ncclGroupStart to ncclGroupEnd.

use super::communicator::{Communicator, Connection};
use super::launcher::{Captured, Launcher, Mode};
use super::plan::{count, func, parts, Planned, Task, TaskPart};
use crate::announced::Times;
use crate::event::{Event, Handle};
use crate::script::Path;
use nccl_abi::event::because::{FOR_COLL_API, FOR_GROUP_API, FOR_P2P_API};
use nccl_abi::state;
use std::ops::ControlFlow;

impl Launcher {
    /// Plays a group. For [`Mode::Capture`] the result can be replayed.
    pub fn group(&self, tasks: &[Task], explicit: bool, mode: Mode) -> Captured {
        // A communicator of one rank, or a count of 0, makes no event at all.
        let moves_data = |t: &&Task| {
            let comm = &self.comms[t.comm];
            comm.size() > 1 && count(t.call, comm) > 0
        };
        let mut group = Captured {
            tasks: tasks.iter().filter(moves_data).copied().collect(),
            planned: Vec::new(),
        };
        let Some(first) = group.tasks.first() else {
            return group;
        };
        let first = &self.comms[first.comm];
        let handle = group_start(first, explicit, mode == Mode::Capture);
        if self.calls(&mut group, handle, mode).is_break() {
            return group;
        }
        first.state(handle, state::GROUP_END_API_START);
        for planned in &group.planned {
            let task = &group.tasks[planned.task];
            let what = match planned.part {
                TaskPart::Coll if task.call.path == Path::CopyEngine => continue,
                TaskPart::Coll => Connection::Algorithm(task.call.algo),
                TaskPart::Send(peer) => Connection::SendTo(peer),
                TaskPart::Recv(peer) => Connection::RecvFrom(peer),
            };
            self.comms[task.comm].connect(what);
        }
        for comm in group.communicators() {
            self.launch(comm, &group, handle, mode);
        }
        if handle != Handle::NULL {
            first.stop(handle);
        }
        group
    }

    /// The API calls of a group. Breaks if the first one is never left.
    fn calls(&self, group: &mut Captured, handle: Handle, mode: Mode) -> ControlFlow<()> {
        for (index, task) in group.tasks.iter().enumerate() {
            let comm = &self.comms[task.comm];
            let mut times = Times {
                calls: 1,
                ..Times::default()
            };
            for part in parts(task.call, comm) {
                let mask = comm.mask();
                let mut api = Handle::NULL;
                let bits = match part {
                    TaskPart::Coll => FOR_COLL_API,
                    TaskPart::Send(_) | TaskPart::Recv(_) => FOR_P2P_API,
                };
                if comm.native >= 5 && mask & bits != 0 {
                    let captured = mode == Mode::Capture;
                    let told = self.api(task, part, handle, captured, &mut api);
                    times.announced += u64::from(told);
                    if mode == Mode::Inside {
                        self.count(task, times, &[]);
                        return ControlFlow::Break(());
                    }
                    comm.stop(api);
                }
                group.planned.push(Planned {
                    task: index,
                    part,
                    api,
                    mask,
                });
            }
            self.count(task, times, &[]);
        }
        ControlFlow::Continue(())
    }

    /// CollApi or P2pApi. Gives whether the plugin was called.
    fn api(
        &self,
        task: &Task,
        part: TaskPart,
        group: Handle,
        captured: bool,
        slot: &mut Handle,
    ) -> bool {
        let comm = &self.comms[task.comm];
        let (call, stream) = (&task.call, comm.stream);
        let count = count(*call, comm) as usize;
        let event = match part {
            TaskPart::Coll => Event::CollApi {
                func: call.op.func(),
                count,
                datatype: call.datatype,
                root: call.root,
                stream,
                captured,
                tag: call.tag,
            },
            TaskPart::Send(_) | TaskPart::Recv(_) => Event::P2pApi {
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

/// Starts GroupApi, up to the end of ncclGroupStart. The handle is null if no plugin wants the event.
fn group_start(comm: &Communicator, explicit: bool, captured: bool) -> Handle {
    let mut handle = Handle::NULL;
    if comm.native >= 5 && comm.mask() & FOR_GROUP_API != 0 {
        let depth = if explicit { 2 } else { 1 };
        let event = Event::GroupApi { captured, depth };
        comm.start(&event, Handle::NULL, comm.api_rank(), &mut handle);
        comm.state(handle, state::GROUP_START_API_STOP);
    }
    handle
}
