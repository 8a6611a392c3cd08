//! Open network operations: those that a process had not ended, and what each waits for.
//!
//! [`open`] reads them from the live part (or its snapshot) and puts each beside its call by ticket.
//!
//! Rule: a network operation is here only if its call is, open, in the same live part; what NCCL never stops
//! (transports without completion) goes with its call.

use crate::clock::Clock;
use capture::live::{row_state, View, WAITS};
use std::sync::atomic::Ordering::Acquire;

/// A network operation that is not over: one channel of one call, to or from one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetOp {
    /// [`crate::Call::ticket`] of its call.
    pub ticket: u64,
    /// Channel.
    pub channel: u8,
    /// Whether it sends; else it receives.
    pub send: bool,
    /// Peer's rank in the communicator.
    pub peer: Option<u32>,
    /// Whether the network proxy has begun it.
    pub begun: bool,
    /// Steps that it consists of.
    pub steps: u32,
    /// Steps done.
    pub done: u32,
    /// What its oldest open step waits for, an index into [`WAITS`]; `None` where none is open or none has
    /// come that far, and where steps are not recorded.
    pub wait: Option<u8>,
    /// Since when it stands where it is, ns since 1970: since that step waits, since the last step ended, or
    /// since it was started; 0 where the clock is not known.
    pub since_ns: i64,
}

impl NetOp {
    /// The name of what it waits for.
    pub fn state(&self) -> Option<&'static str> {
        WAITS.get(usize::from(self.wait?)).copied()
    }
}

/// The open network operations of a live part, by ticket, channel, direction and peer.
pub(crate) fn open(view: &View, clock: &Clock) -> Vec<NetOp> {
    let rows = view.rows();
    let of = |op: &capture::net_op::NetOp| {
        let open = op.open()?;
        let word = rows.get(open.row)?.word.load(Acquire);
        let alive = word & 3 == row_state::ALIVE && row_state::generation(word) == open.generation;
        let since = match open.oldest {
            Some(step) => step.since,
            None => open.t_step.unwrap_or(open.t_start),
        };
        alive.then(|| NetOp {
            ticket: row_state::ticket(word),
            channel: open.channel,
            send: open.send,
            peer: open.peer,
            begun: open.begun,
            steps: open.steps,
            done: open.done,
            wait: open.oldest.and_then(|step| step.wait),
            since_ns: clock.realtime(since).unwrap_or(0),
        })
    };
    let mut found: Vec<NetOp> = view.net_ops().iter().filter_map(of).collect();
    found.sort_by_key(|t| (t.ticket, t.channel, t.send, t.peer, t.done));
    found
}
