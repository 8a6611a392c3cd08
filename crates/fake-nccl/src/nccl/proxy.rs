//! ProxyOp and ProxyStep: network operations and their steps.

use super::progress::Progress;
use super::work::{Side, Work};
use crate::event::{Event, Handle, StateArgs};
use crate::stuck::{Stop, Wait};
use nccl_abi::event::because::{FOR_PROXY_OP, FOR_PROXY_STEP};
use nccl_abi::event::NET_PLUGIN;
use nccl_abi::state;

/// What kind of event a network plugin of sockets says its own is: the kind, and the version of its data.
const NET_ID: i64 = 2 << 16 | 1;
/// Bytes of one step.
const CHUNK: u64 = 512 << 10;

/// A network operation of one side on one channel.
struct NetworkOp<'w> {
    progress: &'w Progress,
    side: &'w Side,
    channel: u8,
    parent: Handle,
    mask: u64,
    /// Where it stops for ever.
    held: Option<Stop>,
    steps: u64,
    /// Bytes of each step.
    chunk: usize,
    handle: Handle,
}

/// A step in the middle of its states.
struct Step {
    handle: Handle,
    /// States that it has been in.
    states: usize,
}

impl Progress {
    /// Plays the network operations of an operation. A dragged one begins so late that it is in the dragged
    /// state for as long as the script says. It goes on from there when the operation ends.
    pub(super) fn network(&self, work: &Work) {
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
            for channel in work.channels() {
                if let Some(mut op) = NetworkOp::new(self, work, side, channel) {
                    let step = op.begin(pause);
                    paused.extend(step.map(|step| (op, step)));
                }
            }
        }
        if let (false, Some((stop, _))) = (paused.is_empty(), work.drags) {
            self.timeline.wait_gpu(stop);
        }
        for (op, step) in paused {
            op.go_on(Some(step), None);
        }
    }
}

impl<'w> NetworkOp<'w> {
    /// `None` if no plugin wants its events.
    fn new(
        progress: &'w Progress,
        work: &Work,
        side: &'w Side,
        channel: u8,
    ) -> Option<NetworkOp<'w>> {
        if work.mask & FOR_PROXY_OP == 0 {
            return None;
        }
        let bytes = side.bytes / u64::from(work.channels.max(1));
        let steps = bytes.div_ceil(CHUNK).clamp(1, 64);
        Some(NetworkOp {
            progress,
            side,
            channel,
            parent: work.parent,
            mask: work.mask,
            held: work.held.and_then(|held| held.stop(side.send, channel)),
            steps,
            chunk: (bytes / steps) as usize,
            handle: Handle::NULL,
        })
    }

    /// Plays it to its end, or to where it stops for ever. With `pause`, plays up to that state of its first
    /// step, and gives the step.
    fn begin(&mut self, pause: Option<u32>) -> Option<Step> {
        let event = Event::ProxyOp {
            pid: std::process::id() as i32,
            channel: self.channel,
            peer: self.side.peer,
            steps: self.steps as i32,
            chunk: CHUNK as i32,
            send: self.side.send,
        };
        let progress = self.progress;
        progress.start(&event, self.parent, progress.rank, &mut self.handle);
        if self.held.is_some_and(|stop| stop.wait == Wait::Queued) {
            return None;
        }
        self.counted(0, 0);
        if progress.native >= 4 {
            self.state(state::PROXY_OP_IN_PROGRESS, StateArgs::Null);
        }
        self.go_on(None, pause)
    }

    /// Plays its steps. The first one goes on from `resumed`.
    fn go_on(&self, mut resumed: Option<Step>, pause: Option<u32>) -> Option<Step> {
        let last = self.held.map(|stop| stop.step.min(self.steps - 1));
        // If a network operation stops, one more step is under way behind the step that does not end.
        let begun = last.map_or(self.steps, |last| (last + 2).min(self.steps));
        let mut told = 0;
        for step in 0..begun {
            let ends = last.is_none_or(|last| step < last);
            if self.mask & FOR_PROXY_STEP != 0 {
                let until = match self.held.map(|stop| stop.wait) {
                    _ if ends => None,
                    Some(Wait::State(wait))
                        if last == Some(step) && self.step_states().contains(&wait) =>
                    {
                        Some(wait)
                    }
                    _ => Some(self.step_states()[0]),
                };
                let pause = pause.filter(|_| step == 0);
                let paused = self.step(step, resumed.take(), pause, until, &mut told);
                if paused.is_some() {
                    return paused;
                }
            }
            if ends {
                self.counted(1, step + 1);
            }
        }
        if self.held.is_none() {
            self.counted(2, self.steps);
            if self.handle != Handle::NULL {
                self.progress.profiler.table.stop(self.handle);
            }
        }
        None
    }

    /// Plays one step, from `resumed` on, to its end. With `until`, it stays in that state for ever. With
    /// `pause`, it is given back in that state. `told` is the size in the arguments of the states.
    fn step(
        &self,
        step: u64,
        resumed: Option<Step>,
        pause: Option<u32>,
        until: Option<u32>,
        told: &mut usize,
    ) -> Option<Step> {
        let progress = self.progress;
        let table = &progress.profiler.table;
        let begin = || {
            let mut handle = Handle::NULL;
            let event = Event::ProxyStep { step: step as i32 };
            progress.start(&event, self.handle, progress.rank, &mut handle);
            Step { handle, states: 0 }
        };
        let Step { handle, states } = resumed.unwrap_or_else(begin);
        // Without a handle for the operation, its steps are started and then left alone.
        if self.handle == Handle::NULL {
            return None;
        }
        for (at, value) in self.step_states().iter().enumerate().skip(states) {
            // NCCL gives the size of the chunk before until the network has taken or brought this chunk.
            if matches!(
                *value,
                state::PROXY_STEP_SEND_WAIT | state::PROXY_STEP_RECV_FLUSH_WAIT
            ) {
                *told = self.chunk;
            }
            let args = match progress.version {
                ..22600 => StateArgs::Null,
                22600..22700 => StateArgs::Empty,
                _ => StateArgs::ProxyStep { bytes: *told },
            };
            table.state(handle, *value, args);
            let is_sending = *value == state::PROXY_STEP_SEND_WAIT;
            if is_sending || *value == state::PROXY_STEP_RECV_WAIT {
                self.net_plugin(handle, step);
            }
            if pause == Some(*value) {
                let states = at + 1;
                return Some(Step { handle, states });
            }
            if until == Some(*value) {
                // NCCL polls, and records the state at each poll.
                if *value == state::PROXY_STEP_SEND_PEER_WAIT {
                    table.state(handle, *value, args);
                }
                return None;
            }
        }
        table.stop(handle);
        None
    }

    /// The network plugin's own event of a step.
    fn net_plugin(&self, step: Handle, number: u64) {
        let progress = self.progress;
        if !progress.net_plugin || progress.native < 3 || self.mask & NET_PLUGIN == 0 {
            return;
        }
        let data = number as usize + 1;
        let event = Event::NetPlugin { id: NET_ID, data };
        let mut handle = Handle::NULL;
        progress.start(&event, step, progress.rank, &mut handle);
        let table = &progress.profiler.table;
        if progress.native >= 4 {
            let args = StateArgs::NetPlugin { data };
            table.state(handle, state::NET_PLUGIN_UPDATE, args);
        }
        table.stop(handle);
    }

    /// The states of a step, in order.
    fn step_states(&self) -> &'static [u32] {
        match self.side.send {
            true if self.progress.native >= 4 => &[
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
        }
    }

    /// One of the three states that count an operation's steps, up to ABI v3.
    fn counted(&self, which: usize, steps: u64) {
        let states = if self.side.send {
            [
                state::PROXY_OP_SEND_POSTED,
                state::PROXY_OP_SEND_TRANSMITTED,
                state::PROXY_OP_SEND_DONE,
            ]
        } else {
            [
                state::PROXY_OP_RECV_POSTED,
                state::PROXY_OP_RECV_RECEIVED,
                state::PROXY_OP_RECV_DONE,
            ]
        };
        if self.progress.native < 4 {
            let args = StateArgs::ProxyOp {
                bytes: self.chunk * steps as usize,
                steps: steps as i32,
            };
            self.state(states[which], args);
        }
    }

    /// Records a state of the operation, if the plugin gave a handle.
    fn state(&self, value: u32, args: StateArgs) {
        if self.handle != Handle::NULL {
            self.progress.profiler.table.state(self.handle, value, args);
        }
    }
}
