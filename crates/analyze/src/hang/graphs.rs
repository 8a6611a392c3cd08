//! How far ranks got with launches of CUDA graphs.
//!
//! NCCL reports nothing of a call that runs in a graph, so it is not known how far a launch came on the GPU.
//! How often each rank launched is: ranks whose graphs have calls of one communicator launch them in step.
//! One that lacks launches is waited for, at the first call with it of the first launch that it lacks.

use super::calls::{Lane, RankCalls};
use super::case::Case;
use super::reached::known;
use tables::{Capture, Process};

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

/// A launch that some members of a communicator have made, and that some lack.
pub(super) struct Lacked {
    pub communicator: usize,
    /// Its number, from 1.
    pub number: u64,
    pub waiting: Vec<usize>,
    pub missing: Vec<usize>,
    /// When the first of those made it that have, as far as that is known.
    pub since_ns: Option<i64>,
}

impl Lacked {
    /// Of launches that members have made.
    fn of(case: &Case, communicator: usize, made: &[u64], ahead: &[u64]) -> Option<Lacked> {
        let (least, most) = (*made.iter().min()?, *made.iter().max()?);
        if least == most {
            return None;
        }
        let (missing, waiting): (Vec<usize>, Vec<usize>) =
            (0..made.len()).partition(|member| made[*member] == least);
        let since = waiting.iter().filter_map(|member| {
            let own = &case.calls.communicators[communicator].ranks[*member];
            let process = &case.capture.processes[own.process];
            launch_at(process, own.uid, made[*member] - least + ahead[*member])
        });
        Some(Lacked {
            communicator,
            number: least + 1,
            since_ns: since.min(),
            waiting,
            missing,
        })
    }
}

/// The first launch that ranks lack, of the first communicator in whose graphs one is lacking.
pub(super) fn lacked(case: &Case) -> Option<Lacked> {
    let all = case.calls.communicators.iter().enumerate();
    let open = all.filter(|(_, of)| !of.is_over() && of.is_shared() && of.nabsent == 0);
    let lacked = open.filter_map(|(communicator, of)| {
        let made = |own: &RankCalls| {
            let process = &case.capture.processes[own.process];
            launched(process, own.uid).filter(|n| *n > 0)
        };
        let made: Option<Vec<u64>> = of.ranks.iter().map(made).collect();
        let made = made?;
        Lacked::of(case, communicator, &made, &vec![0; made.len()])
    });
    lacked.min_by_key(|lacked| (lacked.since_ns.is_none(), lacked.since_ns))
}

/// The first launch that ranks had not made when they made the call with this ordinal, and others had.
pub(super) fn lacked_before(case: &Case, communicator: usize, ordinal: u64) -> Option<Lacked> {
    let (mut made, mut ahead) = (Vec::new(), Vec::new());
    for (member, own) in case.of(communicator).ranks.iter().enumerate() {
        let process = &case.capture.processes[own.process];
        let call = own.call(Lane::Eager, ordinal)?;
        let called = known(case.calls.made(communicator, (member, call)).0.api_ns)?;
        let after = launches_after(process, own.uid, called)?;
        made.push(launched(process, own.uid)?.checked_sub(after)?);
        ahead.push(after);
    }
    Lacked::of(case, communicator, &made, &ahead)
}

/// Whether a graph with these contents has calls of a communicator; `None` if they are not known.
fn has(process: &Process, content: Option<usize>, uid: u32) -> Option<bool> {
    let content = process.graphs.contents.get(content?)?;
    let shape = |(shape, _): &(u32, u32)| {
        let index = process.graphs.shapes.get(*shape as usize)?;
        process.shapes.get(*index as usize)
    };
    let mut shapes = content.runs.iter().filter_map(shape);
    Some(shapes.any(|shape| shape.uid == uid))
}

/// How often a process launched graphs with calls of a communicator; `None` if that is not known.
fn launched(process: &Process, uid: u32) -> Option<u64> {
    let graphs = &process.graphs;
    let there = graphs
        .executables
        .iter()
        .map(|of| (of.content, of.launches));
    let gone = graphs.folded.iter().map(|of| (of.content, of.launches));
    let mut sum = 0;
    for (content, launches) in there.chain(gone).filter(|(_, launches)| *launches > 0) {
        if has(process, content, uid)? {
            sum += launches;
        }
    }
    Some(sum)
}

/// When a process made the first of its last `back` launches of such graphs; of those whose times are known.
fn launch_at(process: &Process, uid: u32, back: u64) -> Option<i64> {
    let (times, newest) = launch_times(process, uid);
    let first = times.len().saturating_sub(back as usize);
    match times.get(first) {
        Some(at) if times.last() >= newest.as_ref() => Some(*at),
        // Older blocks have the others.
        _ => newest,
    }
}

/// How many such launches a process made after a moment; `None` if that is not known.
fn launches_after(process: &Process, uid: u32, at: i64) -> Option<u64> {
    let (times, newest) = launch_times(process, uid);
    let none = newest.is_none_or(|newest| newest <= at);
    let known = none || times.last() >= newest.as_ref() && times.first() <= Some(&at);
    known.then(|| times.iter().filter(|time| **time > at).count() as u64)
}

/// When a process made its launches of such graphs, in order, as far as that is known, and when it made the
/// newest.
fn launch_times(process: &Process, uid: u32) -> (Vec<i64>, Option<i64>) {
    let graphs = &process.graphs;
    let number = |number: u32| {
        let at = graphs
            .executables
            .binary_search_by_key(&number, |of| of.number);
        has(process, graphs.executables.get(at.ok()?)?.content, uid)
    };
    let of = graphs
        .launches
        .iter()
        .filter(|launch| number(launch.graph) == Some(true));
    let mut times: Vec<i64> = of.map(|launch| launch.at).collect();
    times.sort_unstable();
    let newest = graphs
        .executables
        .iter()
        .filter(|of| has(process, of.content, uid) == Some(true));
    (times, newest.filter_map(|of| of.newest).max())
}
