//! A call of the user: which function, how much, and on which communicator.

use crate::event::Text;

/// A user's call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    /// What is called.
    pub op: Op,
    /// By nccl-tests' size convention.
    pub bytes: u64,
    /// NCCL's name of the datatype.
    pub datatype: Text,
    /// Index in [`super::Script::comms`].
    pub comm: usize,
    /// Root rank in the communicator.
    pub root: i32,
    /// The other side of a send or receive.
    pub peer: Peer,
    /// Algorithm.
    pub algo: Text,
    /// Protocol; `None` for the model's choice.
    pub proto: Option<Text>,
    /// Channels; `None` for the model's choice.
    pub channels: Option<u8>,
    /// From the last arrival to the end; `None` for the model's.
    pub time_ns: Option<u64>,
    /// Send and receive buffer are one.
    pub in_place: bool,
    /// The caller's tag.
    pub tag: u64,
    /// The only rank of the job that makes it; `None` for all of the communicator.
    pub by: Option<usize>,
    /// How it is done.
    pub path: Path,
}

impl Call {
    /// Whether a rank of the job makes this call, if its communicator has the rank.
    pub fn is_by(&self, rank: usize) -> bool {
        self.by.is_none_or(|by| by == rank)
    }
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Op {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Reduce,
    AlltoAll,
    Gather,
    Scatter,
    Send,
    Recv,
}

impl Op {
    pub(super) const ALL: [(Op, &'static str, Text); 10] = [
        (Op::AllReduce, "all_reduce", c"AllReduce"),
        (Op::AllGather, "all_gather", c"AllGather"),
        (Op::ReduceScatter, "reduce_scatter", c"ReduceScatter"),
        (Op::Broadcast, "broadcast", c"Broadcast"),
        (Op::Reduce, "reduce", c"Reduce"),
        (Op::AlltoAll, "all_to_all", c"AlltoAll"),
        (Op::Gather, "gather", c"Gather"),
        (Op::Scatter, "scatter", c"Scatter"),
        (Op::Send, "send", c"Send"),
        (Op::Recv, "recv", c"Recv"),
    ];

    /// NCCL's name.
    pub fn func(self) -> Text {
        Op::ALL[self as usize].2
    }

    /// The one that NCCL calls so.
    pub fn of_nccl(name: &str) -> Option<Op> {
        let mut all = Op::ALL.into_iter();
        all.find(|(_, _, of)| of.to_bytes() == name.as_bytes())
            .map(|(op, ..)| op)
    }

    /// Its word in a script.
    pub fn word(self) -> &'static str {
        Op::ALL[self as usize].1
    }

    /// Made of sends and receives.
    pub fn is_p2p(self) -> bool {
        matches!(
            self,
            Op::AlltoAll | Op::Gather | Op::Scatter | Op::Send | Op::Recv
        )
    }

    /// Copy engines can do it.
    pub(super) fn has_copy_engine(self) -> bool {
        matches!(
            self,
            Op::AllGather | Op::AlltoAll | Op::Gather | Op::Scatter
        )
    }

    /// What nccl-tests' size is divided by to give the count of the call.
    pub fn divisor(self, ranks: usize) -> u64 {
        match self {
            Op::AllGather | Op::ReduceScatter | Op::AlltoAll | Op::Gather | Op::Scatter => {
                ranks as u64
            }
            _ => 1,
        }
    }
}

/// The other side of a send or receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A communicator rank.
    Rank(usize),
    /// So many ranks further, round the communicator.
    Next(i64),
}

impl Peer {
    /// The peer's rank in the communicator, seen from `rank` of `ranks`.
    pub fn of(self, rank: usize, ranks: usize) -> usize {
        match self {
            Peer::Rank(peer) => peer % ranks,
            Peer::Next(by) => (rank as i64 + by).rem_euclid(ranks as i64) as usize,
        }
    }
}

/// How a collective is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// An ordinary kernel.
    Kernel,
    /// A symmetric kernel.
    Symmetric,
    /// Copy engines.
    CopyEngine,
}
