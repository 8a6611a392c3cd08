//! Network operations and their steps.

use super::masks::{FOR_PROXY_OP, FOR_PROXY_STEP};
use super::progress::Progress;
use super::work::{Side, Work};
use crate::event::{Event, Handle, StateArgs};
use crate::stuck::Wait;
use nccl_abi::state;

const CHUNK: u64 = 512 << 10;

/// A network operation in the middle of its first step.
pub(super) struct Paused<'w> {
    pub(super) side: &'w Side,
    pub(super) channel: u8,
    pub(super) op: Handle,
    pub(super) step: Handle,
    /// States that the step has been in.
    pub(super) states: usize,
}

impl Progress {
    /// Plays a network operation; up to its first step's state `pause`, and on from there when it is given back.
    pub(super) fn network<'w>(
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
