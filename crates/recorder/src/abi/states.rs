//! What the number of a state means, up to v3 and from v4 on.

use crate::events::State;
use capture::rows::GpuTime;
use nccl_abi::state;

/// A step's state as an index into `live::WAITS`.
#[inline(always)]
fn wait(number: u32) -> Option<u8> {
    Some(match number {
        state::PROXY_STEP_SEND_GPU_WAIT => 0,
        state::PROXY_STEP_SEND_PEER_WAIT => 1,
        state::PROXY_STEP_SEND_WAIT => 2,
        state::PROXY_STEP_RECV_WAIT => 3,
        state::PROXY_STEP_RECV_FLUSH_WAIT => 4,
        state::PROXY_STEP_RECV_GPU_WAIT => 5,
        _ => return None,
    })
}

/// A state up to v3. `moved` is the operation's transSize, if arguments came.
#[inline(always)]
pub(super) fn old_state(number: u32, moved: Option<u64>) -> State {
    match (number, moved) {
        (0..=7, Some(bytes)) => State::OpProgress { bytes },
        (_, _) if wait(number).is_some() => State::Step {
            wait: wait(number).unwrap_or(0),
            bytes: 0,
        },
        (0..=18, _) => State::Ignored,
        _ => State::Unknown,
    }
}

/// A state from v4 on. The first 8 bytes of its arguments are all that any state needs.
#[inline(always)]
pub(super) fn new_state(number: u32, args: Option<u64>, newest: u32) -> State {
    let value = args.unwrap_or(0);
    if number > newest {
        return State::Unknown;
    }
    match number {
        state::KERNEL_CH_STOP => State::KernelStop {
            stamp: GpuTime(value),
        },
        state::PROXY_OP_IN_PROGRESS => State::OpBegun,
        state::GROUP_START_API_STOP => State::GroupOpened,
        state::GROUP_END_API_START => State::GroupClosing,
        31 => State::PhaseStop {
            stamp: GpuTime(value),
        },
        _ => match wait(number) {
            Some(wait) => State::Step { wait, bytes: value },
            None => State::Ignored,
        },
    }
}
