//! A ring on the network, step by step, until one fault has stopped it: what each network operation then
//! waits for.
//!
//! Rank r sends to r + 1. A GPU first gives a step of its own, then one for each that it takes; it runs ahead
//! of the network by [`BUFFERS`] steps, and the network of it.

use tables::NetOp;

const BUFFERS: u32 = 8;

/// What stops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stuck {
    /// The network from this rank to the next.
    Link(usize),
    /// The receive of this rank is never posted.
    Receiver(usize),
    /// The GPU of this rank.
    Gpu(usize),
}

/// One rank's steps: given by the GPU, sent, arrived, taken by the GPU.
#[derive(Clone, Copy, Debug, Default)]
struct Rank {
    given: u32,
    sent: u32,
    arrived: u32,
    taken: u32,
}

/// Indexes into `capture::live::WAITS`; `None` is not begun.
type State = Option<(bool, Option<u8>, u32)>;

/// A channel of the ring.
pub struct Channel {
    /// By rank: its send and its receive, with the time since which each stands so; `None` when over.
    pub net_ops: Vec<[Option<NetOp>; 2]>,
}

impl Channel {
    /// Runs `ranks` with `steps` steps each until nothing moves; `stuck` strikes after `at` steps. The first
    /// move is at `start`, ns since 1970.
    pub fn run(
        ranks: usize,
        channel: u8,
        steps: u32,
        stuck: Stuck,
        at: u32,
        start: i64,
    ) -> Channel {
        let mut all = vec![Rank::default(); ranks];
        let mut states: Vec<[(State, i64); 2]> = vec![[(None, 0); 2]; ranks];
        let next = |rank: usize| (rank + 1) % ranks;
        for round in 0.. {
            let before = all.clone();
            let mut moved = false;
            for rank in 0..ranks {
                let (own, to) = (before[rank], before[next(rank)]);
                let gpu = stuck != Stuck::Gpu(rank) || own.given < at;
                let room = own.given < own.sent + BUFFERS;
                if gpu && own.given == 0 {
                    all[rank].given = 1;
                    moved = true;
                } else if gpu && own.taken < own.arrived && (room || own.given == steps) {
                    all[rank].taken += 1;
                    all[rank].given = (own.given + 1).min(steps);
                    moved = true;
                }
                let posted =
                    stuck != Stuck::Receiver(next(rank)) && to.arrived < to.taken + BUFFERS;
                let link = stuck != Stuck::Link(rank) || own.sent < at;
                if own.sent < own.given && posted && link {
                    all[rank].sent += 1;
                    all[next(rank)].arrived += 1;
                    moved = true;
                }
            }
            let now = start + round * 1000;
            for (rank, states) in states.iter_mut().enumerate() {
                for (side, send) in [true, false].into_iter().enumerate() {
                    let state = state(&all, rank, next(rank), send, steps, stuck);
                    if round == 0 || states[side].0 != state {
                        states[side] = (state, now);
                    }
                }
            }
            if !moved {
                break;
            }
        }
        let net_ops = states.iter().enumerate().map(|(rank, sides)| {
            let mut index = 0;
            sides.map(|(state, since_ns)| {
                let send = index == 0;
                index += 1;
                let (begun, wait, done) = state?;
                let peer = if send {
                    next(rank)
                } else {
                    (rank + ranks - 1) % ranks
                };
                Some(NetOp {
                    ticket: 0,
                    channel,
                    send,
                    peer: Some(peer as u32),
                    begun,
                    steps,
                    done,
                    wait,
                    since_ns,
                })
            })
        });
        Channel {
            net_ops: net_ops.collect(),
        }
    }
}

/// What a network operation waits for; `None` when it is over.
fn state(all: &[Rank], rank: usize, next: usize, send: bool, steps: u32, stuck: Stuck) -> State {
    let (own, to) = (all[rank], all[next]);
    if send {
        let ready = to.arrived < to.taken + BUFFERS && stuck != Stuck::Receiver(next);
        let wait = match (own.sent < own.given, ready) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        };
        return (own.sent < steps).then_some((true, Some(wait), own.sent));
    }
    if stuck == Stuck::Receiver(rank) {
        return Some((false, None, 0));
    }
    let wait = if own.taken < own.arrived { 5 } else { 3 };
    (own.taken < steps).then_some((true, Some(wait), own.taken))
}
