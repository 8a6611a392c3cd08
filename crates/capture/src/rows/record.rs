//! What a row is: a [`Record`] as the recorder seals it, a [`Sealed`] row with its [`Rest`] as a reader finds it.

use crate::live::{flag, Row};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// What many calls have in common. Names are string ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Shape {
    pub comm: u32,
    pub func: u8,
    pub datatype: u8,
    pub flags: u8,
    pub parts: u8,
    pub algorithm: u8,
    pub protocol: u8,
    pub variant: u8,
    pub nchannels: u8,
    pub nwarps: u8,
    /// Elements, as the program gave them.
    pub count: u64,
    /// Root, or -1.
    pub root: i32,
    /// Peer + 1, 0 unknown.
    pub peer: u32,
    pub stream: u64,
    pub ce_batches: u16,
}

/// One rank's part in an operation, as recorded. See [`Row`] for units; 0 stands for "not known" in every time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Record {
    pub ticket: u64,
    pub shape: Shape,
    pub t_api: u64,
    pub t_launch0: u64,
    pub t_launch1: u64,
    pub t_enqueue: u64,
    pub t_end: u64,
    /// Group ticket + 1.
    pub group: u64,
    /// NCCL's seqNumber + 1.
    pub seq: u64,
    pub k_start: u64,
    pub k_stop: u64,
    pub k_seen: u64,
    pub k_error: u32,
    pub k_started: u16,
    pub k_stopped: u16,
    pub verdict: u16,
    pub template: u32,
    pub user_tag: u64,
    pub send_buffer: u64,
    pub recv_buffer: u64,
    pub phase_stop: [u64; 2],
    pub ops_started: u32,
    pub ops_stopped: u32,
    pub steps: u32,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub waits: [u32; 6],
    pub net_longest: u32,
    pub net_link: u32,
}

impl Record {
    /// The present content of a row, or `None` when no call lives there.
    pub fn load(row: &Row) -> Option<Record> {
        let word = row.word.load(Acquire);
        if word & 3 != crate::live::row_state::ALIVE {
            return None;
        }
        Some(Record {
            ticket: crate::live::row_state::ticket(word),
            shape: Shape {
                comm: row.comm.load(Relaxed),
                func: row.func.load(Relaxed),
                datatype: row.datatype.load(Relaxed),
                flags: row.flags.load(Relaxed),
                parts: row.parts.load(Acquire),
                algorithm: row.algorithm.load(Relaxed),
                protocol: row.protocol.load(Relaxed),
                variant: row.variant.load(Relaxed),
                nchannels: row.nchannels.load(Relaxed),
                nwarps: row.nwarps.load(Relaxed),
                count: row.count.load(Relaxed),
                root: row.root.load(Relaxed) as i32,
                peer: row.peer.load(Relaxed),
                stream: row.stream.load(Relaxed),
                ce_batches: row.ce_batches.load(Relaxed),
            },
            t_api: row.t_api.load(Relaxed),
            t_launch0: row.t_launch0.load(Relaxed),
            t_launch1: row.t_launch1.load(Relaxed),
            t_enqueue: row.t_enqueue.load(Relaxed),
            t_end: row.t_end.load(Acquire),
            group: row.group.load(Relaxed),
            seq: row.seq.load(Relaxed),
            k_stopped: row.k_stopped.load(Acquire),
            k_started: row.k_started.load(Relaxed),
            k_start: row.k_start.load(Relaxed),
            k_stop: row.k_stop.load(Relaxed),
            k_seen: row.k_seen.load(Relaxed),
            k_error: row.k_error.load(Relaxed),
            verdict: row.verdict.load(Relaxed),
            template: row.template.load(Relaxed),
            user_tag: row.user_tag.load(Relaxed),
            send_buffer: row.send_buffer.load(Relaxed),
            recv_buffer: row.recv_buffer.load(Relaxed),
            phase_stop: [
                row.phase_stop[0].load(Relaxed),
                row.phase_stop[1].load(Relaxed),
            ],
            ops_stopped: row.ops_stopped.load(Acquire),
            ops_started: row.ops_started.load(Relaxed),
            steps: row.steps.load(Relaxed),
            bytes_sent: row.bytes_sent.load(Relaxed),
            bytes_received: row.bytes_received.load(Relaxed),
            waits: std::array::from_fn(|i| row.waits[i].load(Relaxed)),
            net_longest: row.net_longest.load(Relaxed),
            net_link: row.net_link.load(Relaxed),
        })
    }

    /// Whether the call was a send or a receive.
    pub fn is_p2p(&self) -> bool {
        self.shape.flags & flag::P2P != 0
    }
}

/// A row of a block: a [`Record`] whose shape has a number, without what few rows have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Sealed {
    pub ticket: u64,
    /// Index into [`Shapes::list`](super::Shapes::list).
    pub shape: u32,
    pub template: u32,
    pub t_api: u64,
    pub t_launch0: u64,
    pub t_launch1: u64,
    pub t_enqueue: u64,
    pub t_end: u64,
    pub group: u64,
    pub seq: u64,
    pub k_start: u64,
    pub k_stop: u64,
    pub k_seen: u64,
    pub k_error: u32,
    pub k_started: u16,
    pub k_stopped: u16,
    pub verdict: u16,
}

/// What few rows have. See [`Record`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Rest {
    pub user_tag: u64,
    pub send_buffer: u64,
    pub recv_buffer: u64,
    pub phase_stop: [u64; 2],
    pub ops_started: u32,
    pub ops_stopped: u32,
    pub steps: u32,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub waits: [u32; 6],
    pub net_longest: u32,
    pub net_link: u32,
}

/// A row as it was before it was sealed.
impl From<(&Sealed, &Rest, &Shape)> for Record {
    fn from((r, rest, shape): (&Sealed, &Rest, &Shape)) -> Record {
        Record {
            ticket: r.ticket,
            shape: *shape,
            t_api: r.t_api,
            t_launch0: r.t_launch0,
            t_launch1: r.t_launch1,
            t_enqueue: r.t_enqueue,
            t_end: r.t_end,
            group: r.group,
            seq: r.seq,
            k_start: r.k_start,
            k_stop: r.k_stop,
            k_seen: r.k_seen,
            k_error: r.k_error,
            k_started: r.k_started,
            k_stopped: r.k_stopped,
            verdict: r.verdict,
            template: r.template,
            user_tag: rest.user_tag,
            send_buffer: rest.send_buffer,
            recv_buffer: rest.recv_buffer,
            phase_stop: rest.phase_stop,
            ops_started: rest.ops_started,
            ops_stopped: rest.ops_stopped,
            steps: rest.steps,
            bytes_sent: rest.bytes_sent,
            bytes_received: rest.bytes_received,
            waits: rest.waits,
            net_longest: rest.net_longest,
            net_link: rest.net_link,
        }
    }
}

impl Record {
    /// What [`Decoder::decode`](super::Decoder::decode) would hand out for this record with shape number `shape`.
    pub fn parts(&self, shape: u32) -> (Sealed, Rest) {
        let sealed = Sealed {
            ticket: self.ticket,
            shape,
            template: self.template,
            t_api: self.t_api,
            t_launch0: self.t_launch0,
            t_launch1: self.t_launch1,
            t_enqueue: self.t_enqueue,
            t_end: self.t_end,
            group: self.group,
            seq: self.seq,
            k_start: self.k_start,
            k_stop: self.k_stop,
            k_seen: self.k_seen,
            k_error: self.k_error,
            k_started: self.k_started,
            k_stopped: self.k_stopped,
            verdict: self.verdict,
        };
        let rest = Rest {
            user_tag: self.user_tag,
            send_buffer: self.send_buffer,
            recv_buffer: self.recv_buffer,
            phase_stop: self.phase_stop,
            ops_started: self.ops_started,
            ops_stopped: self.ops_stopped,
            steps: self.steps,
            bytes_sent: self.bytes_sent,
            bytes_received: self.bytes_received,
            waits: self.waits,
            net_longest: self.net_longest,
            net_link: self.net_link,
        };
        (sealed, rest)
    }
}
