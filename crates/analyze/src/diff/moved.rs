//! Findings of ranks that are in both runs on other nodes: did the fault stay with the rank, or with the
//! node?
//!
//! Rule: that is only said if it tells software from hardware. The rank must be on another node in B, or
//! another rank must be to blame for the same on the node (or GPU) that it had in A.

use super::RunRow;
use crate::findings::{Finding, RankId};
use schemars::JsonSchema;
use serde::Serialize;

/// What a fault stayed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stayed {
    /// With the rank, on another node: what it runs or reads.
    Rank,
    /// With the node, and another rank is there: the hardware, or the node's system.
    Node,
    /// With the GPU, and another rank uses it.
    Gpu,
}

/// A fault that is in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// What it stayed with.
    pub stayed: Stayed,
    /// In A.
    pub a: Finding,
    /// In B.
    pub b: Finding,
}

/// Faults of A that moved or stayed in B, in the order of A's findings.
pub(super) fn moved(a: &RunRow, b: &RunRow) -> Vec<Moved> {
    let nodes = a.nhosts > 1 && b.nhosts > 1;
    let one = |of: &Finding| {
        let mut later = b.findings.iter();
        later.find_map(|then| {
            Some(Moved {
                stayed: stayed(of, then, nodes)?,
                a: of.clone(),
                b: then.clone(),
            })
        })
    };
    a.findings.iter().filter_map(one).collect()
}

/// The only rank that a finding blames, if the launcher numbered it.
fn only(of: &Finding) -> Option<&RankId> {
    match &of.subject.ranks[..] {
        [only] if only.process.rank.is_some() && !only.process.host.is_empty() => Some(only),
        _ => None,
    }
}

/// `nodes`: both runs are on several nodes. On one node, every fault stays with it.
fn stayed(a: &Finding, b: &Finding, nodes: bool) -> Option<Stayed> {
    let (was, is) = only(a).zip(only(b))?;
    if a.is_same(b) {
        return (was.process.host != is.process.host).then_some(Stayed::Rank);
    }
    if a.kind() != b.kind() || was.process.rank == is.process.rank {
        return None;
    }
    if was.gpu.is_some() && was.gpu == is.gpu {
        return Some(Stayed::Gpu);
    }
    (nodes && was.process.host == is.process.host).then_some(Stayed::Node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{Advice, Evidence, Late, Subject};
    use crate::subject::ProcessId;

    fn late(rank: u32, host: &str, gpu: &str) -> Finding {
        Finding {
            subject: Subject::of(RankId {
                process: ProcessId {
                    rank: Some(rank),
                    host: host.to_owned(),
                    ..ProcessId::default()
                },

                gpu: Some(gpu.to_owned()),
                ..RankId::default()
            }),
            loss: None,
            when_us: None,
            cause: None,
            evidence: Evidence::Late(Late::default()),
            advice: Advice::ProfileHost,
        }
    }

    #[test]
    fn the_same_straggler_on_other_nodes_stayed_with_the_rank_or_with_the_node() {
        let a = late(3, "n1", "aa");
        // The scheduler gave the job other nodes, and rank 3 is late again.
        let again = late(3, "n7", "bb");
        assert!(a.is_same(&again));
        assert_eq!(stayed(&a, &again, true), Some(Stayed::Rank));
        // Another rank is on that node now.
        assert_eq!(stayed(&a, &late(5, "n1", "bb"), true), Some(Stayed::Node));
        assert_eq!(stayed(&a, &late(5, "n1", "aa"), true), Some(Stayed::Gpu));
        // Nothing moved, or everything did, or there is one node.
        assert_eq!(stayed(&a, &a, true), None);
        assert_eq!(stayed(&a, &late(5, "n7", "bb"), true), None);
        assert_eq!(stayed(&a, &late(5, "n1", "bb"), false), None);
    }
}
