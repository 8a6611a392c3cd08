//! How far ranks got with launches of CUDA graphs.
//!
//! NCCL reports nothing of a call that runs in a graph, so it is not known how far a launch came on the GPU.
//! How often each rank launched is: ranks of a job that launches graphs in step have launched equally often.
//! One that lacks launches is waited for, at the first call with it of the first launch that it lacks.

use tables::Capture;

/// The launches of one process. Only of graphs with NCCL calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launches {
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Process.
    pub pid: u32,
    /// How many, over all graphs.
    pub launches: u64,
    /// How long ago the newest was called, ns, by the newest evidence of the capture.
    pub newest_ago_ns: Option<i64>,
    /// It had not returned.
    pub launching: bool,
    /// NCCL calls in it.
    pub calls: Option<u64>,
}

/// The processes of a capture that launched graphs with NCCL calls.
pub(super) fn launches(capture: &Capture, as_of_ns: Option<i64>) -> Vec<Launches> {
    let launched = capture.processes.iter().filter(|p| p.graphs.launched() > 0);
    launched
        .map(|process| {
            let graphs = process.graphs.executables.iter();
            let newest = graphs.max_by_key(|graph| graph.newest);
            Launches {
                rank: process.rank,
                pid: process.pid,
                launches: process.graphs.launched(),
                newest_ago_ns: newest
                    .and_then(|graph| graph.newest)
                    .zip(as_of_ns)
                    .map(|(newest, now)| (now - newest).max(0)),
                launching: newest.is_some_and(|graph| graph.launching),
                calls: newest.and_then(|graph| process.graphs.calls_of(graph.number)),
            }
        })
        .collect()
}
