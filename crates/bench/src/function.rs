//! What is measured: functions, and how many elements each rank sends and receives for a size.
//!
//! Sizes and counts follow nccl-tests. The size of AllGather, ReduceScatter, AlltoAll, Gather and Scatter is
//! that of the larger buffer. Their count is what the API takes, for each rank.
//!
//! Rule: [`Shape`] alone knows where a rank's data lies; the calls and the check both ask it.

use crate::datatype::Datatype;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, Deserialize)]
pub enum Function {
    /// ncclAllReduce.
    AllReduce,
    /// ncclAllGather.
    AllGather,
    /// ncclReduceScatter.
    ReduceScatter,
    /// ncclBroadcast.
    Broadcast,
    /// ncclReduce.
    Reduce,
    /// ncclSend to the next rank and ncclRecv from the one before, in one group.
    SendRecv,
    /// ncclSend to and ncclRecv from the other rank of a pair (0 and 1, 2 and 3, …), in one group.
    SendRecvPairs,
    /// ncclAlltoAll, or a group of sends and receives where the library has none (before 2.28).
    AlltoAll,
    /// ncclGather, or a group of sends and receives.
    Gather,
    /// ncclScatter, or a group of sends and receives.
    Scatter,
}

use Function::*;

impl Function {
    /// All of them, in the order in which `all` runs them.
    pub const ALL: [Function; 10] = [
        AllReduce,
        AllGather,
        ReduceScatter,
        Broadcast,
        Reduce,
        SendRecv,
        SendRecvPairs,
        AlltoAll,
        Gather,
        Scatter,
    ];

    /// What a user types.
    pub fn option(self) -> &'static str {
        match self {
            AllReduce => "all_reduce",
            AllGather => "all_gather",
            ReduceScatter => "reduce_scatter",
            Broadcast => "broadcast",
            Reduce => "reduce",
            SendRecv => "sendrecv",
            SendRecvPairs => "sendrecv_pairs",
            AlltoAll => "alltoall",
            Gather => "gather",
            Scatter => "scatter",
        }
    }

    /// The name in captures and bandwidth factors; both kinds of SendRecv have the same.
    pub fn name(self) -> &'static str {
        match self {
            AllReduce => "AllReduce",
            AllGather => "AllGather",
            ReduceScatter => "ReduceScatter",
            Broadcast => "Broadcast",
            Reduce => "Reduce",
            SendRecv | SendRecvPairs => "SendRecv",
            AlltoAll => "AlltoAll",
            Gather => "Gather",
            Scatter => "Scatter",
        }
    }

    /// By what a user types, or by the name.
    pub fn named(name: &str) -> Option<Function> {
        Function::ALL
            .into_iter()
            .find(|f| f.option() == name || f.name() == name)
    }

    /// Whether it reduces.
    pub fn reduces(self) -> bool {
        matches!(self, AllReduce | ReduceScatter | Reduce)
    }

    /// Whether one rank is the root.
    pub fn has_root(self) -> bool {
        matches!(self, Broadcast | Reduce | Gather | Scatter)
    }

    /// Whether it can be done in one buffer.
    pub fn in_place(self) -> bool {
        !matches!(self, SendRecv | SendRecvPairs | AlltoAll)
    }

    /// Whom `rank` sends to and whom it receives from; for the two kinds of SendRecv.
    pub fn peers(self, rank: u32, ranks: u32) -> (u32, u32) {
        match self {
            SendRecvPairs => (rank ^ 1, rank ^ 1),
            _ => ((rank + 1) % ranks, (rank + ranks - 1) % ranks),
        }
    }
}

/// A function at one size, over so many ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The function.
    pub function: Function,
    /// Ranks.
    pub ranks: u32,
    /// The root; for functions that have one.
    pub root: u32,
    /// Elements, as the API takes them.
    pub count: usize,
    /// Elements of the larger buffer: the size of nccl-tests.
    pub elements: usize,
}

/// A stretch of a rank's receive buffer, and what must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedPart {
    /// First element.
    pub at: usize,
    /// Elements.
    pub length: usize,
    /// Whose data: one rank's, or that of all ranks reduced.
    pub source: Option<u32>,
    /// First element in the source's send buffer.
    pub from: usize,
}

impl Shape {
    /// For a size in bytes, which is rounded down to what the ranks can share.
    pub fn new(function: Function, bytes: u64, datatype: Datatype, ranks: u32, root: u32) -> Shape {
        let elements = bytes as usize / datatype.size();
        let n = ranks as usize;
        // Each rank's part begins at a multiple of 16 bytes, as in nccl-tests.
        let part = (elements / n) & !(16 / datatype.size() - 1);
        let (count, elements) = match function {
            AllGather | ReduceScatter | AlltoAll | Gather | Scatter => (part, part * n),
            _ => (elements, elements),
        };
        Shape {
            function,
            ranks,
            root,
            count,
            elements,
        }
    }

    /// Elements that a rank sends.
    pub fn sent(&self) -> usize {
        match self.function {
            ReduceScatter | AlltoAll | Scatter => self.elements,
            _ => self.count,
        }
    }

    /// First element of the send buffer, in place.
    pub fn send_at(&self, rank: u32) -> usize {
        match self.function {
            AllGather => rank as usize * self.count,
            Gather if rank == self.root => rank as usize * self.count,
            _ => 0,
        }
    }

    /// First element of the receive buffer, in place.
    pub fn receive_at(&self, rank: u32) -> usize {
        match self.function {
            ReduceScatter => rank as usize * self.count,
            Scatter if rank == self.root => rank as usize * self.count,
            _ => 0,
        }
    }

    /// What a rank must have received.
    pub fn received(&self, rank: u32) -> Vec<ReceivedPart> {
        let count = self.count;
        let whole = |source: Option<u32>, from: usize| {
            vec![ReceivedPart {
                at: 0,
                length: count,
                source,
                from,
            }]
        };
        let own = rank as usize * count;
        let by_rank = |from: usize| {
            (0..self.ranks)
                .map(|source| ReceivedPart {
                    at: source as usize * count,
                    length: count,
                    source: Some(source),
                    from,
                })
                .collect()
        };
        match self.function {
            AllReduce => whole(None, 0),
            ReduceScatter => whole(None, own),
            Reduce if rank == self.root => whole(None, 0),
            Broadcast => whole(Some(self.root), 0),
            Scatter => whole(Some(self.root), own),
            SendRecv | SendRecvPairs => whole(Some(self.function.peers(rank, self.ranks).1), 0),
            AllGather => by_rank(0),
            AlltoAll => by_rank(own),
            Gather if rank == self.root => by_rank(0),
            Reduce | Gather => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(function: Function, bytes: u64, ranks: u32) -> (usize, usize) {
        let float = Datatype::named("float").expect("a name");
        let shape = Shape::new(function, bytes, float, ranks, 0);
        (shape.count, shape.elements * 4)
    }

    #[test]
    fn sizes_and_counts_are_those_of_nccl_tests() {
        assert_eq!(shape(AllReduce, 1024, 8), (256, 1024));
        assert_eq!(shape(AllGather, 1024, 8), (32, 1024));
        assert_eq!(shape(ReduceScatter, 1 << 20, 8), (32768, 1 << 20));
        assert_eq!(shape(SendRecv, 1024, 8), (256, 1024));
        // Less than 16 bytes for each rank is nothing.
        assert_eq!(shape(AllGather, 64, 8), (0, 0));
        assert_eq!(shape(AllGather, 1000, 3), (80, 960));
        assert_eq!(shape(AllReduce, 1001, 3), (250, 1000));
    }

    #[test]
    fn names_round_trip_and_have_a_bandwidth_factor() {
        for function in Function::ALL {
            assert_eq!(Function::named(function.option()), Some(function));
            assert!(analyze::bandwidth::factor(function.name(), Some(4)).is_some());
        }
        assert_eq!(Function::named("ReduceScatter"), Some(ReduceScatter));
        assert_eq!(Function::named("Reduce"), Some(Reduce));
    }

    #[test]
    fn what_is_received_was_sent() {
        let float = Datatype::named("float").expect("a name");
        for function in Function::ALL {
            let shape = Shape::new(function, 4096, float, 4, 2);
            for rank in 0..4 {
                for block in shape.received(rank) {
                    assert!(block.from + block.length <= shape.sent(), "{function:?}");
                    assert!(block.at + block.length <= shape.elements, "{function:?}");
                }
            }
        }
    }

    #[test]
    fn peers_of_rings_and_pairs() {
        assert_eq!(SendRecv.peers(3, 4), (0, 2));
        assert_eq!(SendRecvPairs.peers(3, 4), (2, 2));
        assert_eq!(SendRecv.peers(0, 1), (0, 0));
    }
}
