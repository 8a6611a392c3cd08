//! NCCL's public functions that are recorded, and where their arguments are.
//!
//! The signatures are those of `nccl.h`; they have not changed since the functions exist. Arguments are
//! numbered from 0 as the caller passes them, without the unique id that two inits get by value: it lies on
//! the stack.
//!
//! Rule: a function keeps its place in the list for as long as a probe is there; nothing else knows numbers.

/// What a function is, with the numbers of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An operation of all ranks.
    Collective(Arguments),
    /// A send or receive; `root` is the peer.
    PointToPoint(Arguments),
    /// A one-sided call, which is only counted: its communicator may be an argument that no event has.
    OneSided,
    /// `ncclGroupStart`.
    GroupStart,
    /// `ncclGroupEnd`.
    GroupEnd,
    /// Makes a communicator.
    Init {
        /// Where the communicator is put.
        result: u8,
        /// Its number of ranks.
        nranks: usize,
        /// The caller's rank.
        rank: usize,
        /// Where the unique id is.
        id: UniqueId,
    },
    /// Makes communicators that this tool learns of only when they are used.
    InitAll,
    /// Makes a communicator from another one.
    Derive {
        /// Where the new communicator is put.
        result: u8,
    },
    /// Ends a communicator.
    End,
    /// Says how many ranks a communicator has, which rank the caller is, or on which device.
    Tells(Told),
}

/// Where an init has its unique id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum UniqueId {
    OnStack,
    /// This argument points to it, or to the first of several.
    Pointed(u8),
}

/// How `ncclCommInitRank` takes its unique id of 128 bytes, and which number the rank behind it has: x86-64
/// passes a copy on the stack, and aarch64 the address of a copy.
#[cfg(not(target_arch = "aarch64"))]
const BY_VALUE: (UniqueId, usize) = (UniqueId::OnStack, 2);
#[cfg(target_arch = "aarch64")]
const BY_VALUE: (UniqueId, usize) = (UniqueId::Pointed(2), 3);

/// What a function says of a communicator, in an `int` that its second argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Told {
    Ranks,
    Rank,
    Device,
}

/// Arguments of an operation, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// Elements.
    pub count: usize,
    /// The root, or the peer.
    pub root: Option<usize>,
    /// The communicator. The datatype is behind the count, and the stream behind the communicator.
    pub communicator: usize,
}

/// A function that is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// As exported.
    pub symbol: &'static str,
    /// As NCCL names it to profilers.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
}

const fn of(symbol: &'static str, name: &'static str, kind: Kind) -> Function {
    Function { symbol, name, kind }
}

const fn collective(
    symbol: &'static str,
    name: &'static str,
    count: usize,
    root: Option<usize>,
    communicator: usize,
) -> Function {
    let kind = Kind::Collective(Arguments {
        count,
        root,
        communicator,
    });
    Function { symbol, name, kind }
}

const fn point_to_point(symbol: &'static str, name: &'static str) -> Function {
    let kind = Kind::PointToPoint(Arguments {
        count: 1,
        root: Some(3),
        communicator: 4,
    });
    Function { symbol, name, kind }
}

/// An init that gets the communicator's id by value.
const INIT_RANK: Kind = Kind::Init {
    result: 0,
    nranks: 1,
    rank: BY_VALUE.1,
    id: BY_VALUE.0,
};

/// All of them.
pub const FUNCTIONS: [Function; 41] = [
    collective("ncclAllReduce", "AllReduce", 2, None, 5),
    collective("ncclBroadcast", "Broadcast", 2, Some(4), 5),
    collective("ncclBcast", "Broadcast", 1, Some(3), 4),
    collective("ncclReduce", "Reduce", 2, Some(5), 6),
    collective("ncclAllGather", "AllGather", 2, None, 4),
    collective("ncclReduceScatter", "ReduceScatter", 2, None, 5),
    collective("ncclAlltoAll", "AlltoAll", 2, None, 4),
    collective("ncclGather", "Gather", 2, Some(4), 5),
    collective("ncclScatter", "Scatter", 2, Some(4), 5),
    // From 2.32 on, the same with a configuration behind the stream.
    collective("ncclAllReduceConfig", "AllReduce", 2, None, 5),
    collective("ncclBroadcastConfig", "Broadcast", 2, Some(4), 5),
    collective("ncclReduceConfig", "Reduce", 2, Some(5), 6),
    collective("ncclAllGatherConfig", "AllGather", 2, None, 4),
    collective("ncclReduceScatterConfig", "ReduceScatter", 2, None, 5),
    collective("ncclAlltoAllConfig", "AlltoAll", 2, None, 4),
    collective("ncclGatherConfig", "Gather", 2, Some(4), 5),
    collective("ncclScatterConfig", "Scatter", 2, Some(4), 5),
    point_to_point("ncclSend", "Send"),
    point_to_point("ncclRecv", "Recv"),
    // From 2.29 on, in the order of `capture::counts::ONE_SIDED`.
    of("ncclPutSignal", "PutSignal", Kind::OneSided),
    of("ncclSignal", "Signal", Kind::OneSided),
    of("ncclWaitSignal", "WaitSignal", Kind::OneSided),
    of("ncclGroupStart", "GroupStart", Kind::GroupStart),
    of("ncclGroupEnd", "GroupEnd", Kind::GroupEnd),
    of("ncclGroupSimulateEnd", "GroupSimulateEnd", Kind::GroupEnd),
    of("ncclCommInitRank", "CommInitRank", INIT_RANK),
    of("ncclCommInitRankConfig", "CommInitRankConfig", INIT_RANK),
    of(
        "ncclCommInitRankScalable",
        "CommInitRankScalable",
        Kind::Init {
            result: 0,
            nranks: 1,
            rank: 2,
            id: UniqueId::Pointed(4),
        },
    ),
    of("ncclCommInitAll", "CommInitAll", Kind::InitAll),
    of("ncclCommSplit", "CommSplit", Kind::Derive { result: 3 }),
    of("ncclCommShrink", "CommShrink", Kind::Derive { result: 3 }),
    of("ncclCommGrow", "CommGrow", Kind::InitAll),
    of("ncclCommFinalize", "CommFinalize", Kind::End),
    of("ncclCommDestroy", "CommDestroy", Kind::End),
    of("ncclCommAbort", "CommAbort", Kind::End),
    of("ncclCommRevoke", "CommRevoke", Kind::InitAll),
    of("ncclCommCount", "CommCount", Kind::Tells(Told::Ranks)),
    of("ncclCommUserRank", "CommUserRank", Kind::Tells(Told::Rank)),
    of(
        "ncclCommCuDevice",
        "CommCuDevice",
        Kind::Tells(Told::Device),
    ),
    of("ncclCommRegister", "CommRegister", Kind::InitAll),
    of("ncclCommDeregister", "CommDeregister", Kind::InitAll),
];

impl Function {
    /// Whether programs call it in every step, so that the cost of a probe counts.
    pub fn is_frequent(&self) -> bool {
        use Kind::*;
        matches!(
            self.kind,
            Collective(_) | PointToPoint(_) | OneSided | GroupStart | GroupEnd
        )
    }
}

impl Function {
    /// Whether it makes a communicator.
    pub fn makes_communicator(&self) -> bool {
        matches!(self.kind, Kind::Init { .. } | Kind::Derive { .. })
            || matches!(self.symbol, "ncclCommInitAll" | "ncclCommGrow")
    }
}

/// What holds for all probes of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// Comes back with each event.
    pub given: u32,
    /// Only processes that are on the list count.
    pub only_watched: bool,
    /// The scheduler is watched for threads that call NCCL.
    pub sched: bool,
}

/// The parts of a cookie that `bpf/calls.bpf.c` knows, for function number `index`.
pub fn cookie(index: usize, common: Common) -> u64 {
    let (result, id) = match FUNCTIONS.get(index).map(|function| function.kind) {
        Some(Kind::Init { result, id, .. }) => (result + 1, Some(id)),
        Some(Kind::Derive { result }) => (result + 1, None),
        Some(Kind::Tells(_)) => (2, None),
        _ => (0, None),
    };
    let id = match id {
        None => 0,
        Some(UniqueId::OnStack) => 1 << 20,
        Some(UniqueId::Pointed(at)) => {
            if cfg!(target_arch = "aarch64") {
                u64::from(at + 1) << 24
            } else {
                1 << 21
            }
        }
    };
    index as u64
        | u64::from(result) << 16
        | id
        | u64::from(common.only_watched) << 22
        | u64::from(common.sched) << 23
        | u64::from(common.given) << 32
}

/// NCCL's name of a datatype, as it tells profilers; `None` for a number that no release has.
pub fn datatype(number: u64) -> Option<&'static str> {
    const NAMES: [&str; 12] = [
        "ncclInt8",
        "ncclUint8",
        "ncclInt32",
        "ncclUint32",
        "ncclInt64",
        "ncclUint64",
        "ncclFloat16",
        "ncclFloat32",
        "ncclFloat64",
        "ncclBfloat16",
        "ncclFloat8e4m3",
        "ncclFloat8e5m2",
    ];
    NAMES.get(usize::try_from(number).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_there_once_and_its_arguments_fit_an_event() {
        for (i, function) in FUNCTIONS.iter().enumerate() {
            assert!(FUNCTIONS[..i].iter().all(|f| f.symbol != function.symbol));
            if let Kind::Collective(a) | Kind::PointToPoint(a) = function.kind {
                let last = a.communicator + 1;
                assert!(
                    last < 8 && a.count + 1 < a.communicator,
                    "{}",
                    function.symbol
                );
            }
        }
    }

    #[test]
    fn a_cookie_has_what_the_program_needs() {
        let index = |symbol| {
            FUNCTIONS
                .iter()
                .position(|f| f.symbol == symbol)
                .expect("there")
        };
        let init = index("ncclCommInitRank");
        let of = |given, only_watched, sched| Common {
            given,
            only_watched,
            sched,
        };
        let id = if cfg!(target_arch = "aarch64") {
            3 << 24
        } else {
            1 << 20
        };
        assert_eq!(
            cookie(init, of(7, false, false)),
            7 << 32 | id | 1 << 16 | init as u64
        );
        let split = index("ncclCommSplit");
        assert_eq!(
            cookie(split, of(0, true, true)),
            3 << 22 | 4 << 16 | split as u64
        );
        assert_eq!(cookie(0, of(1, false, false)), 1 << 32);
        assert_eq!(cookie(0x100, of(0, false, false)), 0x100);
    }
}
