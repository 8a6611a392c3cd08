//! Network operations that stop on the way, and where.
//!
//! A script's `stuck` gives a rank a [`Stop`] for its sends or its receives. If a member of an operation has
//! one, the operation never ends. [`Held`] says where the other network operations of that operation stand:
//! they have begun, and starve as behind one that does not move. A [`Drag`] only makes network operations,
//! and the operation, take longer.

use nccl_abi::state;

/// What the step that does not end waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The proxy has not begun the operation.
    Queued,
    /// This state, the step's last.
    State(u32),
}

/// The words of a script: word, whether it is of sends, and the stop.
pub const WORDS: [(&str, bool, Wait); 8] = [
    (
        "send_gpu",
        true,
        Wait::State(state::PROXY_STEP_SEND_GPU_WAIT),
    ),
    (
        "send_peer",
        true,
        Wait::State(state::PROXY_STEP_SEND_PEER_WAIT),
    ),
    (
        "send_network",
        true,
        Wait::State(state::PROXY_STEP_SEND_WAIT),
    ),
    ("send_queued", true, Wait::Queued),
    (
        "recv_network",
        false,
        Wait::State(state::PROXY_STEP_RECV_WAIT),
    ),
    (
        "recv_flush",
        false,
        Wait::State(state::PROXY_STEP_RECV_FLUSH_WAIT),
    ),
    (
        "recv_gpu",
        false,
        Wait::State(state::PROXY_STEP_RECV_GPU_WAIT),
    ),
    ("recv_queued", false, Wait::Queued),
];

/// Where the sends or the receives of a rank stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Sends; else receives.
    pub send: bool,
    /// In what.
    pub wait: Wait,
    /// After so many steps.
    pub step: u64,
    /// On this channel; `None` on all.
    pub channel: Option<u8>,
}

/// Sends or receives of a rank that stay in a state for longer than needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drag {
    /// Sends; else receives.
    pub send: bool,
    /// The state of the step.
    pub state: u32,
    /// By how much.
    pub ns: u64,
}

/// Where the network operations of a rank stop in a call that never ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    send: Stop,
    recv: Stop,
}

impl Held {
    /// For a rank with the stops `own`, of an operation whose members have those of `all`.
    pub fn new(own: &[Stop], all: &[Stop]) -> Held {
        let step = all.iter().map(|stop| stop.step).min().unwrap_or(0);
        let channel = all.first().and_then(|first| first.channel);
        let alike = all.iter().all(|stop| stop.channel == channel);
        let side = |send: bool, starved: u32| {
            let said = own.iter().rev().find(|stop| stop.send == send);
            said.copied().unwrap_or(Stop {
                send,
                wait: Wait::State(starved),
                step,
                channel: channel.filter(|_| alike),
            })
        };
        Held {
            send: side(true, state::PROXY_STEP_SEND_GPU_WAIT),
            recv: side(false, state::PROXY_STEP_RECV_WAIT),
        }
    }

    /// All wait for their turn.
    pub fn queued() -> Held {
        let stop = |send| Stop {
            send,
            wait: Wait::Queued,
            step: 0,
            channel: None,
        };
        Held {
            send: stop(true),
            recv: stop(false),
        }
    }

    /// Where a network operation on a channel stops, if it does.
    pub fn stop(&self, send: bool, channel: u8) -> Option<Stop> {
        let stop = if send { self.send } else { self.recv };
        stop.channel
            .is_none_or(|only| only == channel)
            .then_some(stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_starves_on_the_same_channel() {
        let stop = Stop {
            send: true,
            wait: Wait::State(state::PROXY_STEP_SEND_WAIT),
            step: 5,
            channel: Some(1),
        };
        let sender = Held::new(&[stop], &[stop]);
        assert_eq!(sender.stop(true, 1), Some(stop));
        assert_eq!(sender.stop(true, 0), None);
        let other = Held::new(&[], &[stop]).stop(false, 1).expect("it starves");
        assert_eq!(other.wait, Wait::State(state::PROXY_STEP_RECV_WAIT));
        assert_eq!((other.step, other.channel), (5, Some(1)));
    }
}
