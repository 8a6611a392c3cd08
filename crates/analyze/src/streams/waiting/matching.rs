//! Which kernels of different GPUs are one operation, and who came last to it.

use super::super::kinds::function;
use super::super::window::{NcclKernel, Peer};
use super::super::{Lane, LaneWindow};
use super::{Direct, Late, WaitPart, Waits, ALL_TO_ALL};
use crate::time::Nanos;
use std::collections::HashMap;

/// Whether a kernel of `rank` with these peers passes data on between neighbours: a stage has two at most. An
/// AlltoAll that is made of sends and receives has more, or sends to itself.
fn passes_on(rank: u32, peers: &[Peer]) -> bool {
    let mut others: Vec<u32> = peers.iter().map(|peer| peer.rank).collect();
    others.sort_unstable();
    others.dedup();
    others.len() <= 2 && !others.contains(&rank)
}

/// Communicator and function of a kernel that is a part of a collective which nobody leaves before the last
/// has come. One that sends to and receives from all other ranks is, too. In an exchange of two, the other
/// may be the next stage of a pipeline, so that one counts as a send and a receive.
pub(super) fn collective<'w>(
    window: &'w LaneWindow,
    kernel: &NcclKernel,
    members: &[usize],
) -> Option<(u32, &'w str)> {
    let communicator = kernel.communicator?;
    let name = function(window.names.name(kernel.name));
    if ALL_TO_ALL.contains(&name) {
        return Some((communicator, name));
    }
    let ranks = members.get(communicator as usize).copied().unwrap_or(0);
    let peers = window.seen.peers_of(kernel).iter();
    let others = peers.filter(|peer| Some(peer.rank) != kernel.rank);
    let mut others: Vec<(u32, bool)> = others.map(|peer| (peer.rank, peer.receives)).collect();
    others.sort_unstable();
    others.dedup();
    (ranks > 2 && others.len() == 2 * (ranks - 1)).then_some((communicator, "AlltoAll"))
}

/// The kernel that ran beside `first` for the longest.
pub(super) fn beside(parts: &[WaitPart], first: &WaitPart) -> Option<WaitPart> {
    let from = parts.partition_point(|part| part.end <= first.start);
    let at_once = parts[from..]
        .iter()
        .take_while(|part| part.start < first.end);
    at_once
        .max_by_key(|part| part.end.min(first.end) - part.start.max(first.start))
        .copied()
}

/// By communicator, own rank and peer: the kernels that send to it, or receive from it, by start.
type ByPair = HashMap<(u32, u32, Peer), Vec<WaitPart>>;

/// By kernel and peer: the peer's kernel that belongs to it.
///
/// Between two ranks, what is sent first is received first. So of what the one sends and the other receives,
/// the first two that ran at the same time belong together, and what comes before them belongs to what is not
/// shown, or was over before.
fn meet(by_pair: &ByPair) -> HashMap<((usize, usize, usize), Peer), WaitPart> {
    let mut met = HashMap::new();
    for ((communicator, rank, peer), received) in by_pair.iter().filter(|(of, _)| of.2.receives) {
        let this = Peer {
            rank: *rank,
            receives: false,
        };
        let sent = by_pair.get(&(*communicator, peer.rank, this));
        let mut sent = sent.map_or(&[][..], |sent| sent).iter().peekable();
        for receive in received {
            while sent.next_if(|send| send.end <= receive.start).is_some() {}
            if let Some(send) = sent.next_if(|send| send.start < receive.end) {
                met.insert((receive.key(), *peer), *send);
                met.insert((send.key(), this), *receive);
            }
        }
    }
    met
}

/// By communicator and lane: the operation at whose end the GPU computed nothing, and that end.
pub(super) type Aligned = HashMap<(u32, usize), (usize, i64)>;

impl Waits {
    pub(super) fn add(
        &mut self,
        operation: &[WaitPart],
        lanes: &[Lane],
        communicator: u32,
        aligned: &mut Aligned,
    ) {
        let ns = |part: &WaitPart| part.end - part.start;
        let Some(last) = operation.iter().min_by_key(|part| (ns(part), part.lane)) else {
            return;
        };
        for part in operation {
            if let Some(found) = self.found_in(part.lane, (part.start, part.end)) {
                found.on_all += 1;
            }
        }
        if !operation.iter().any(|part| self.shows(part)) {
            return;
        }
        self.operations += 1;
        *self.last.entry(last.lane).or_default() += 1;
        let others = operation.iter().filter(|part| part.lane != last.lane);
        let before = |part: &WaitPart| {
            let at = aligned.get(&(communicator, part.lane)).copied()?;
            (lanes[part.lane].at(part.window).known.0 <= at.1).then_some(at)
        };
        let together = before(last);
        self.direct.extend(others.map(|part| {
            Direct {
                lane: part.lane,
                window: part.window,
                last: last.lane,
                late: Late::Rank,
                // If both went on at the end of one operation, what each worked since says who is behind.
                since: together
                    .filter(|at| before(part).is_some_and(|own| own.0 == at.0))
                    .map(|at| at.1),
                whole: (part.start, part.start + ns(part) - ns(last)),
            }
        }));
        for part in operation
            .iter()
            .filter(|part| lanes[part.lane].shows_computing(part.window))
        {
            let computes = &lanes[part.lane].at(part.window).computes;
            if computes.covers((part.end - 1, part.end)) == Nanos::ZERO {
                aligned.insert(
                    (communicator, part.lane),
                    (self.operations as usize, part.end),
                );
            }
        }
    }

    /// Adds the kernels that send and receive.
    pub(super) fn add_sends(&mut self, lanes: &[Lane], members: &[usize]) {
        // By communicator, own rank and peer.
        let mut by_pair = ByPair::new();
        let mut all = Vec::new();
        for (lane, of) in lanes.iter().enumerate() {
            for (window, seen) in of.all().enumerate() {
                let kernels = seen.seen.nccl.iter().enumerate();
                let passes_on = |(_, kernel): &(usize, &NcclKernel)| {
                    kernel.peers.0 < kernel.peers.1 && collective(seen, kernel, members).is_none()
                };
                for (number, kernel) in kernels.filter(passes_on) {
                    let (Some(communicator), Some(rank)) = (kernel.communicator, kernel.rank)
                    else {
                        continue;
                    };
                    let part = WaitPart {
                        lane,
                        window,
                        kernel: number,
                        start: kernel.start,
                        end: kernel.end,
                    };
                    let peers = seen.seen.peers_of(kernel);
                    all.push((rank, peers, part));
                    for peer in peers {
                        let parts = by_pair.entry((communicator, rank, *peer)).or_default();
                        if parts.last().is_none_or(|before| before.start != part.start) {
                            parts.push(part);
                        }
                    }
                }
            }
        }
        for parts in by_pair.values_mut() {
            parts.sort_by_key(|part| part.start);
        }
        let met = meet(&by_pair);
        // By lane, window, other lane and direction: when data was passed on last.
        let mut before: HashMap<(usize, usize, usize, bool), i64> = HashMap::new();
        all.sort_by_key(|(.., part)| (part.lane, part.window, part.start));
        for (rank, peers, part) in all {
            let others = peers.iter().filter(|peer| peer.rank != rank);
            let others =
                others.filter_map(|peer| Some((*met.get(&(part.key(), *peer))?, peer.receives)));
            let others: Vec<(WaitPart, bool)> = others.collect();
            if others.iter().any(|(_, receives)| *receives) {
                if let Some(found) = self.found_in(part.lane, (part.start, part.end)) {
                    found.sent += 1;
                }
            }
            let others = others.into_iter();
            let Some((last, receives)) =
                others.max_by_key(|(other, receives)| (other.start, other.lane, *receives))
            else {
                continue;
            };
            let met = last.start.max(part.start);
            let since = before.insert((part.lane, part.window, last.lane, receives), met);
            if !self.shows(&part) {
                continue;
            }
            self.operations += 1;
            self.passed_on += u64::from(passes_on(rank, peers));
            let span = (part.start, last.start.min(part.end));
            if span.0 < span.1 {
                *self.last.entry(last.lane).or_default() += 1;
                self.direct.push(Direct {
                    lane: part.lane,
                    window: part.window,
                    last: last.lane,
                    late: if receives {
                        Late::Sender
                    } else {
                        Late::Receiver
                    },
                    whole: span,
                    since,
                });
            }
        }
    }
}
