//! NCCL's algorithms, and the functions that have them.
//!
//! Rule: every algorithm that NCCL names to a profiler is here.

/// Each algorithm, with its functions.
pub const ALGORITHMS: [(&str, &[&str]); 7] = [
    (
        "RING",
        &[
            "AllReduce",
            "AllGather",
            "ReduceScatter",
            "Broadcast",
            "Reduce",
        ],
    ),
    ("TREE", &["AllReduce"]),
    (
        "COLLNET_DIRECT",
        &["AllReduce", "AllGather", "ReduceScatter"],
    ),
    ("COLLNET_CHAIN", &["AllReduce"]),
    ("NVLS", &["AllReduce", "AllGather", "ReduceScatter"]),
    ("NVLS_TREE", &["AllReduce"]),
    ("PAT", &["AllGather", "ReduceScatter"]),
];

/// The algorithms that a function can have.
pub fn algorithms_of(function: &str) -> Vec<&'static str> {
    let with = ALGORITHMS
        .iter()
        .filter(|(_, functions)| functions.contains(&function));
    with.map(|(name, _)| *name).collect()
}

/// The functions that have an algorithm.
pub fn functions_of(algorithm: &str) -> &'static [&'static str] {
    let of = ALGORITHMS.iter().find(|(name, _)| *name == algorithm);
    of.map_or(&[], |(_, functions)| functions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_algorithms_are_found_by_each_other() {
        assert_eq!(algorithms_of("Reduce"), ["RING"]);
        assert_eq!(
            algorithms_of("AllGather"),
            ["RING", "COLLNET_DIRECT", "NVLS", "PAT"]
        );
        assert_eq!(algorithms_of("Send"), [""; 0]);
        assert_eq!(functions_of("PAT"), ["AllGather", "ReduceScatter"]);
        assert!(functions_of("SIMPLE").is_empty());
    }
}
