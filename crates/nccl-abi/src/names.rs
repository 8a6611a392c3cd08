//! Names of functions, datatypes, algorithms and protocols.
//!
//! ABI v1 passes small numbers where v2 and later pass strings. [`func`], [`datatype`], [`algo`] and
//! [`proto`] turn v1's numbers into the later strings, so that a capture reads the same from every NCCL. The
//! functions in `_value` are their inverse. [`datatype_size`] works on the strings, and so for every version.
//!
//! Rule: names are compared whole, so `Reduce` is never taken for `ReduceScatter`. A number without a name is
//! `None`.
//!
//! NCCL's own string table lacks `ncclUint8` and says [`UNKNOWN`] for it; v1's number 1 is unambiguous and
//! keeps its name here. NCCL says [`INVALID`] for AllGatherV.

/// What NCCL prints for a datatype missing in its table, in practice `ncclUint8`.
pub const UNKNOWN: &str = "Unknown";
/// What NCCL prints for a function missing in its table, in practice `AllGatherV`.
pub const INVALID: &str = "Invalid";

/// Function names by v1's number. Those from 8 on exist in newer NCCL only.
pub const FUNCS: [&str; 15] = [
    "Broadcast",
    "Reduce",
    "AllGather",
    "ReduceScatter",
    "AllReduce",
    "SendRecv",
    "Send",
    "Recv",
    "AlltoAll",
    "Scatter",
    "Gather",
    "AllGatherV",
    "PutSignal",
    "Signal",
    "WaitSignal",
];

/// One datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datatype {
    /// NCCL's spelling.
    pub name: &'static str,
    /// Bytes of one element.
    pub size: usize,
}

const fn datatype_row(name: &'static str, size: usize) -> Datatype {
    Datatype { name, size }
}

/// Datatypes by v1's number.
pub const DATATYPES: [Datatype; 12] = [
    datatype_row("ncclInt8", 1),
    datatype_row("ncclUint8", 1),
    datatype_row("ncclInt32", 4),
    datatype_row("ncclUint32", 4),
    datatype_row("ncclInt64", 8),
    datatype_row("ncclUint64", 8),
    datatype_row("ncclFloat16", 2),
    datatype_row("ncclFloat32", 4),
    datatype_row("ncclFloat64", 8),
    datatype_row("ncclBfloat16", 2),
    datatype_row("ncclFloat8e4m3", 1),
    datatype_row("ncclFloat8e5m2", 1),
];

/// Algorithm names by v1's number.
pub const ALGOS: [&str; 7] = [
    "TREE",
    "RING",
    "COLLNET_DIRECT",
    "COLLNET_CHAIN",
    "NVLS",
    "NVLS_TREE",
    "PAT",
];

/// Protocol names by v1's number.
pub const PROTOS: [&str; 3] = ["LL", "LL128", "SIMPLE"];

/// The name of v1's function number.
pub fn func(value: u8) -> Option<&'static str> {
    FUNCS.get(usize::from(value)).copied()
}

/// The name of v1's datatype number.
pub fn datatype(value: u8) -> Option<&'static str> {
    DATATYPES.get(usize::from(value)).map(|d| d.name)
}

/// The name of v1's algorithm number.
pub fn algo(value: u8) -> Option<&'static str> {
    ALGOS.get(usize::from(value)).copied()
}

/// The name of v1's protocol number.
pub fn proto(value: u8) -> Option<&'static str> {
    PROTOS.get(usize::from(value)).copied()
}

/// v1's number of a function name.
pub fn func_value(name: &str) -> Option<u8> {
    index(FUNCS.iter().position(|&n| n == name))
}

/// v1's number of a datatype name.
pub fn datatype_value(name: &str) -> Option<u8> {
    index(DATATYPES.iter().position(|d| d.name == name))
}

/// v1's number of an algorithm name.
pub fn algo_value(name: &str) -> Option<u8> {
    index(ALGOS.iter().position(|&n| n == name))
}

/// v1's number of a protocol name.
pub fn proto_value(name: &str) -> Option<u8> {
    index(PROTOS.iter().position(|&n| n == name))
}

/// Bytes of one element of a datatype, given as `&str` or as the bytes of a C string without the NUL.
///
/// A name that isn't in [`DATATYPES`] counts as 1 byte, because the one that NCCL can't name is `ncclUint8`.
pub fn datatype_size(name: impl AsRef<[u8]>) -> usize {
    let name = name.as_ref();
    DATATYPES
        .iter()
        .find(|d| d.name.as_bytes() == name)
        .map_or(1, |d| d.size)
}

/// Table positions are below 256, so none is lost.
fn index(position: Option<usize>) -> Option<u8> {
    position.and_then(|i| u8::try_from(i).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name of v1's number and the inverse.
    type Pair = (fn(u8) -> Option<&'static str>, fn(&str) -> Option<u8>);

    #[test]
    fn every_number_round_trips_through_its_name() {
        let pairs: [(Pair, usize); 4] = [
            ((func, func_value), 15),
            ((datatype, datatype_value), 12),
            ((algo, algo_value), 7),
            ((proto, proto_value), 3),
        ];
        for ((to_name, to_value), count) in pairs {
            let named = (0..=u8::MAX).filter_map(|v| to_name(v).map(|n| (v, n)));
            assert_eq!(named.clone().count(), count);
            for (value, name) in named {
                assert!(usize::from(value) < count);
                assert_eq!(to_value(name), Some(value), "{name}");
            }
        }
    }

    #[test]
    fn names_that_begin_alike_stay_apart() {
        assert_eq!((func(1), func(3)), (Some("Reduce"), Some("ReduceScatter")));
        assert_eq!((func(5), func(6)), (Some("SendRecv"), Some("Send")));
        assert_eq!((algo(4), algo(5)), (Some("NVLS"), Some("NVLS_TREE")));
        assert_eq!((proto(0), proto(1)), (Some("LL"), Some("LL128")));
        assert_eq!(func_value("ReduceS"), None);
        assert_eq!(func_value(""), None);
    }

    #[test]
    fn datatype_sizes() {
        assert_eq!(datatype_size("ncclFloat32"), 4);
        assert_eq!(datatype_size("ncclBfloat16"), 2);
        assert_eq!(datatype_size(c"ncclInt64".to_bytes()), 8);
        for unnamed in [UNKNOWN, INVALID, "", "ncclFloat", "ncclFloat321"] {
            assert_eq!(datatype_size(unnamed), 1, "{unnamed}");
        }
    }
}
