//! PyTorch's words for what NCCL does: names of collectives and datatypes, process groups.
//!
//! Rule: a name that is not known gives nothing, and no other name in its place.

use std::hash::{BuildHasher, Hasher};

/// NCCL's function for PyTorch's name of a collective; `None` for what is no call, such as the begin of a
/// coalesced group.
pub fn function(name: &str) -> Option<&'static str> {
    let name = name.strip_prefix("nccl:").unwrap_or(name);
    Some(
        match name.trim_start_matches('_').to_ascii_lowercase().as_str() {
            "allreduce"
            | "all_reduce"
            | "allreduce_coalesced"
            | "all_reduce_coalesced"
            | "barrier"
            | "all_reduce_barrier"
            | "allreduce_sparse" => "AllReduce",
            "allgather"
            | "all_gather"
            | "allgather_base"
            | "all_gather_base"
            | "allgather_coalesced"
            | "allgather_into_tensor"
            | "all_gather_into_tensor"
            | "allgather_into_tensor_coalesced"
            | "all_gather_into_tensor_coalesced" => "AllGather",
            "reduce_scatter"
            | "reducescatter"
            | "reduce_scatter_base"
            | "reduce_scatter_tensor"
            | "reduce_scatter_tensor_coalesced"
            | "reduce_scatter_coalesced" => "ReduceScatter",
            "broadcast" | "broadcast_oop" | "broadcast_coalesced" => "Broadcast",
            "reduce" | "reduce_oop" => "Reduce",
            "alltoall" | "all_to_all" | "alltoall_base" | "all_to_allv" | "all_to_all_single" => {
                "AlltoAll"
            }
            "gather" => "Gather",
            "scatter" => "Scatter",
            "send" => "Send",
            "recv" | "recv_any_source" => "Recv",
            _ => return None,
        },
    )
}

/// NCCL's datatype for PyTorch's; empty if it is not known.
pub fn datatype(name: &str) -> &'static str {
    match name
        .trim_start_matches("torch.")
        .to_ascii_lowercase()
        .as_str()
    {
        "float" | "float32" => "ncclFloat32",
        "double" | "float64" => "ncclFloat64",
        "half" | "float16" => "ncclFloat16",
        "bfloat16" => "ncclBfloat16",
        "char" | "int8" => "ncclInt8",
        "byte" | "uint8" | "bool" => "ncclUint8",
        "int" | "int32" => "ncclInt32",
        "uint32" => "ncclUint32",
        "long" | "int64" => "ncclInt64",
        "uint64" => "ncclUint64",
        // What another tool has in place of a datatype.
        "bytes" => "bytes",
        "float8_e4m3fn" => "ncclFloat8e4m3",
        "float8_e5m2" => "ncclFloat8e5m2",
        _ => "",
    }
}

/// Elements as NCCL counts them, from those that a rank gives and gets.
pub fn count(function: &str, given: u64, got: u64, nranks: u32) -> u64 {
    let either = |first: u64, second: u64| if first != 0 { first } else { second };
    match function {
        "ReduceScatter" | "Scatter" | "Recv" => either(got, given / u64::from(nranks.max(1))),
        "AlltoAll" => given / u64::from(nranks.max(1)),
        "AllGather" => either(given, got / u64::from(nranks.max(1))),
        _ => either(given, got),
    }
}

/// What a process group is called and which ranks of the job are in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// PyTorch's name, equal on all its ranks.
    pub name: String,
    /// What the program calls it.
    pub description: String,
    /// Its backends, such as `cuda:nccl`; empty if that is not known.
    pub backend: String,
    /// Ranks; 0 not known.
    pub size: u32,
    /// The job's ranks in it in order; empty if not all are known.
    pub ranks: Vec<u32>,
}

impl Group {
    /// A number that is equal on all its ranks and on no other group; 0 if nothing is known of it.
    pub fn hash(&self) -> u64 {
        if self.name.is_empty() && self.ranks.is_empty() {
            return 0;
        }
        let build = std::hash::BuildHasherDefault::<Fnv>::default();
        let mut hasher = build.build_hasher();
        hasher.write(self.name.as_bytes());
        for rank in &self.ranks {
            hasher.write(&rank.to_le_bytes());
        }
        hasher.write(&self.size.to_le_bytes());
        hasher.finish().max(1)
    }

    /// Whether NCCL may carry out its calls on GPUs.
    pub fn may_be_nccl(&self) -> bool {
        self.backend.is_empty() || self.backend.contains("nccl") || self.backend == "undefined"
    }

    /// The place of a rank of the job in it.
    pub fn place_of(&self, rank: u32) -> Option<u32> {
        let at = self.ranks.iter().position(|member| *member == rank)?;
        u32::try_from(at).ok()
    }

    /// What the program calls it, or else PyTorch does.
    pub fn title(&self) -> &str {
        match self.description.as_str() {
            "" | "undefined" => &self.name,
            described => described,
        }
    }
}

/// A list of ranks as PyTorch prints it, `[0, 1]`; `None` if it is cut off.
pub fn ranks(list: &str) -> Option<Vec<u32>> {
    let inner = list.trim().strip_prefix('[')?.strip_suffix(']')?;
    if inner.trim().is_empty() {
        return None;
    }
    inner
        .split(',')
        .map(|rank| rank.trim().parse().ok())
        .collect()
}

/// FNV-1a, which is the same on every machine.
#[derive(Clone, Copy)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_nccl_s() {
        for (name, is) in [
            ("_allgather_base", "AllGather"),
            ("nccl:all_reduce", "AllReduce"),
            ("_reduce_scatter_base", "ReduceScatter"),
            ("all_to_allv", "AlltoAll"),
        ] {
            assert_eq!(function(name), Some(is), "{name}");
        }
        assert_eq!(
            (function("startCoalescing"), datatype("ComplexFloat")),
            (None, "")
        );
        assert_eq!(
            (datatype("BFloat16"), datatype("float")),
            ("ncclBfloat16", "ncclFloat32")
        );
    }

    #[test]
    fn ranks_that_are_cut_off_are_not_known() {
        assert_eq!(ranks("[0, 8]"), Some(vec![0, 8]));
        assert_eq!(ranks("[0, 1, 2, ..., 299]"), None);
        assert_eq!(ranks("[]"), None);
    }

    #[test]
    fn groups_of_other_ranks_are_other_groups() {
        let group = |name: &str, ranks: &[u32]| Group {
            name: name.to_owned(),
            ranks: ranks.to_vec(),
            ..Group::default()
        };
        assert_eq!(group("1", &[0, 1]).hash(), group("1", &[0, 1]).hash());
        assert_ne!(group("1", &[0, 1]).hash(), group("1", &[2, 3]).hash());
        assert_ne!(group("1", &[0, 1]).hash(), group("2", &[0, 1]).hash());
        assert_eq!(group("", &[]).hash(), 0);
    }
}
