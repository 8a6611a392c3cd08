//! Which link of the network is slower than the others.
//!
//! A [`Link`] is what a GPU has on the network for a communicator. In each operation it has a time in which
//! its data was in the network's hands. That is the wall time in which at least one step was sent and not
//! done, or was received and being flushed. Of its network operations (one for each channel and peer), the
//! longest counts. Waiting for the GPU's data, for the receiver, or for the sender is not in that time. So if
//! one link of a ring is slow, the time is long at that link's sender, and nowhere else.
//!
//! It is held against the median of the other ranks that moved as many bytes the same way in the same
//! operation. The excess over that, at most the transfer, is what the transfer would save if the link were as
//! fast as theirs and nothing else slowed it. A what-if replay finds what the run would take less
//! ([`super::what_if`]).
//!
//! Rule: a link is compared within one operation only, so sizes, functions and the load of the network are
//! the same for all.

use super::operations::{Operations, PartIndex};
use super::what_if::WhatIf;
use super::{LEVEL, MOST_LATE};
use crate::executions::OnNetwork;
use crate::interval::{beyond_chance, Batches};
use crate::subject::ProcessId;
use crate::subject::RankId;
use crate::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tables::Capture;

/// Bytes count as equal within such a part of the larger.
const ALIKE: f64 = 0.1;

/// What a GPU has on the network for a communicator, against the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Link {
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessId,
    /// The communicator.
    pub communicator: Option<String>,
    /// Where most of the time in the network's hands passed: `send_network` or `recv_flush`; null if there
    /// was none that was long enough to be seen.
    #[schemars(extend("enum" = ["send_network", "recv_flush", null]))]
    pub state: Option<&'static str>,
    /// The launcher's rank of the peer that this was with; null where it is not known.
    pub peer: Option<u32>,
    /// The host of the rank that the link leads to.
    pub peer_host: Option<String>,
    /// Part of the operations in which it was that peer and state.
    pub peer_share: Option<f64>,
    /// Operations in which it was compared.
    pub operations: u64,
    /// Transfers of these operations, from the last arrival to the end, µs of the wall.
    pub transfer_wall_us: f64,
    /// In the network's hands, µs of the wall: of the network operations of a call the longest, in which a
    /// step was sent and not done, or being flushed.
    pub held_wall_us: f64,
    /// The same of the median of the ranks that moved as many bytes in the same operation.
    pub others_wall_us: f64,
    /// By how much it was longer in the network's hands than these others, µs of the wall.
    pub excess_wall_us: f64,
    /// 95 % interval of the excess; null for too few operations.
    pub excess_interval_us: Option<(f64, f64)>,
    /// How likely a link that is as fast as the others is to have such an excess; null for too few
    /// operations.
    pub excess_p: Option<f64>,
    /// What the run would take less, were it as fast as the median of the others, µs of the wall. Null for
    /// links that are not slower than chance gives.
    pub loss_wall_us: Option<f64>,
    /// 95 % interval of the loss; null for too few operations.
    pub loss_interval_us: Option<(f64, f64)>,
    /// The loss is an estimate, and no more than this is possible, µs.
    pub loss_at_most_us: Option<f64>,
}

impl Link {
    /// Which rank it is.
    pub fn id(&self) -> RankId {
        RankId::new(self.process.clone(), None)
    }
}

/// How much of transfers was the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct OverNetwork {
    /// Operations that used it.
    pub operations: u64,
    /// Their transfers, µs of the wall.
    pub transfer_wall_us: f64,
    /// Of these: data of the rank whose data was there longest was in the network's hands, µs of the wall.
    pub held_wall_us: f64,
}

/// By operation: for how much of its transfer data was in the network's hands, ns; `None` where nothing of
/// that was recorded. 0 of operations that did not use it.
pub(super) fn held(of: &Operations) -> Option<Vec<u64>> {
    let recorded = of.lanes.iter().flat_map(|lane| &lane.network);
    if recorded
        .into_iter()
        .all(|(_, network)| network.longest == 0)
    {
        return None;
    }
    let held = |whole| {
        let longest = of.of(whole).filter_map(|place| of.on_network(place));
        let longest = longest.map(|network| network.longest).max();
        longest.map_or(0, |held| of.shortest(whole).min(held))
    };
    Some(of.whole.iter().map(held).collect())
}

/// All of it; `held` is by operation.
pub(super) fn over_network(of: &Operations, held: &[u64]) -> OverNetwork {
    let mut all = OverNetwork::default();
    let on_network = |whole: &&_| of.of(whole).any(|place| of.on_network(place).is_some());
    for (whole, held) in of
        .whole
        .iter()
        .zip(held)
        .filter(|(whole, _)| on_network(whole))
    {
        all.operations += 1;
        all.transfer_wall_us += Nanos::from(of.shortest(whole)).us();
        all.held_wall_us += Nanos::from(*held).us();
    }
    all
}

/// One operation of a link.
struct Sample {
    start: u64,
    /// Among those with a time on every rank.
    operation: u32,
    held: u64,
    others: u64,
    peer: Option<u32>,
    sends: bool,
}

/// The links that can be compared, by largest excess.
pub(super) fn links(of: &Operations, capture: &Capture, what_if: &mut Option<WhatIf>) -> Vec<Link> {
    if of.lanes.iter().all(|lane| lane.network.is_empty()) {
        return Vec::new();
    }
    let shortest: Vec<u64> = of.whole.iter().map(|whole| of.shortest(whole)).collect();
    let samples = samples(of);
    let keys: Vec<(u32, u32)> = samples.keys().copied().collect();
    let mut links: Vec<Link> = samples
        .iter()
        .map(|((lane, communicator), samples)| {
            let lane = &of.lanes[*lane as usize];
            Link {
                process: lane.process.clone(),

                ..link(capture, *communicator, samples, &shortest)
            }
        })
        .collect();
    let mut slow = beyond_chance(0..links.len(), |at| links[*at].excess_p, LEVEL);
    slow.sort_by(|a, b| {
        let excess = |at: &usize| links[*at].excess_wall_us;
        excess(b).total_cmp(&excess(a)).then(a.cmp(b))
    });
    slow.truncate(MOST_LATE);
    for at in slow {
        let mut longer = vec![0i64; of.whole.len()];
        for sample in &samples[&keys[at]] {
            let most = shortest[sample.operation as usize];
            let more = sample.held.saturating_sub(sample.others).min(most);
            longer[sample.operation as usize] = more as i64;
        }
        let what_if = what_if.get_or_insert_with(|| WhatIf::new(of));
        let loss = what_if.loss_of(keys[at].0, &longer);
        links[at].loss_wall_us = Some(loss.time.us());
        links[at].loss_interval_us = loss.interval_us();
    }
    links.sort_by(|a, b| b.excess_wall_us.total_cmp(&a.excess_wall_us));
    links
}

/// By lane and communicator.
fn samples(of: &Operations) -> BTreeMap<(u32, u32), Vec<Sample>> {
    let mut samples: BTreeMap<(u32, u32), Vec<Sample>> = BTreeMap::new();
    let mut parts: Vec<(PartIndex, OnNetwork)> = Vec::new();
    let mut others: Vec<u64> = Vec::new();
    for (operation, whole) in (0..).zip(&of.whole) {
        parts.clear();
        parts.extend(
            of.of(whole)
                .filter_map(|place| Some((place, of.on_network(place)?))),
        );
        for (place, this) in &parts {
            // One that was in nobody's hands for long enough to see went both ways.
            let way = |network: &OnNetwork| {
                if this.sends {
                    network.sent
                } else {
                    network.received
                }
            };
            let alike = |other: &OnNetwork| {
                let (a, b) = (way(this) as f64, way(other) as f64);
                b > 0.0 && (a - b).abs() <= ALIKE * a.max(b)
            };
            others.clear();
            let rest = parts.iter().filter(|(other, _)| other.0 != place.0);
            // Of another that was longer the other way, this way's time is not more.
            others.extend(rest.filter(|(_, n)| alike(n)).map(|(_, n)| n.longest));
            others.sort_unstable();
            let Some(upper) = others.get(others.len() / 2) else {
                continue;
            };
            let median = others[(others.len() - 1) / 2].midpoint(*upper);
            let communicator = of.communicators[of.parts[whole.0].0 as usize];
            samples
                .entry((place.0, communicator))
                .or_default()
                .push(Sample {
                    start: of.part(*place).start,
                    operation,
                    held: this.longest,
                    others: median,
                    peer: this.peer,
                    sends: this.sends,
                });
        }
    }
    // Recorders of before did not keep it.
    let seen = samples.iter().filter(|(_, s)| s.iter().any(|s| s.held > 0));
    let seen: BTreeSet<u32> = seen.map(|((_, communicator), _)| *communicator).collect();
    samples.retain(|(_, communicator), _| seen.contains(communicator));
    samples
        .values_mut()
        .for_each(|samples| samples.sort_by_key(|sample| sample.start));
    samples
}

fn link(capture: &Capture, communicator: u32, samples: &[Sample], shortest: &[u64]) -> Link {
    let us = |ns: u64| Nanos::from(ns).us();
    let communicator = capture.communicators.get(communicator as usize);
    let mut ways: BTreeMap<(bool, Option<u32>), (u64, u64)> = BTreeMap::new();
    let mut link = Link {
        communicator: communicator.map(|c| c.id.clone()),
        operations: samples.len() as u64,
        ..Link::default()
    };
    let mut batches = Batches::new(samples.len());
    for (index, sample) in samples.iter().enumerate() {
        let excess = us(sample.held) - us(sample.others);
        link.transfer_wall_us += us(shortest[sample.operation as usize]);
        link.held_wall_us += us(sample.held);
        link.others_wall_us += us(sample.others);
        link.excess_wall_us += excess;
        if let Some(batches) = &mut batches {
            batches.add(index, samples.len(), excess, 1.0);
        }
        if sample.held > 0 {
            let way = ways.entry((sample.sends, sample.peer)).or_default();
            *way = (way.0.saturating_add(sample.held), way.1 + 1);
        }
    }
    let most = ways.into_iter().max_by_key(|(_, (held, _))| *held);
    if let Some(((sends, peer), (_, operations))) = most {
        let [_, _, send_network, _, recv_flush, _] = capture::live::WAITS;
        link.state = Some(if sends { send_network } else { recv_flush });
        let member = communicator.zip(peer).and_then(|(communicator, peer)| {
            let mut members = communicator.members.iter();
            members.find(|member| member.rank == Some(peer))
        });
        let process = member.and_then(|member| capture.processes.get(member.process));
        link.peer = process.and_then(|process| process.rank);
        link.peer_host = process.map(|process| process.host.clone());
        link.peer_share = Some(operations as f64 / samples.len() as f64);
    }
    if let Some(mean) = batches.and_then(|batches| batches.mean(0.0)) {
        let n = samples.len() as f64;
        link.excess_interval_us = mean.interval().map(|(low, high)| (n * low, n * high));
        link.excess_p = mean.p_by_chance();
    }
    link
}

#[cfg(test)]
mod tests {
    use super::super::Gatherer;
    use super::*;
    use crate::fixtures::{communicator, gather, Random};
    use crate::matching::Matcher;
    use tables::calls::Extra;
    use tables::communicators::Local;
    use tables::{Call, GpuTimes, Process, Shape};

    /// What a rank sends: bytes, to whom, and for how long that is in the network's hands in each operation,
    /// ns.
    type Sends = (u64, u32, Vec<u64>);

    /// Operations of all ranks, one a millisecond, that take 500 µs.
    fn links_of(ranks: &[Sends]) -> Vec<Link> {
        let mut capture = Capture::default();
        let function = capture.names.intern("AllReduce");
        let members: Vec<usize> = (0..ranks.len()).collect();
        capture.communicators.push(communicator(0, &members));
        let (mut matcher, mut gatherer) = (Matcher::default(), Gatherer::default());
        for (rank, (bytes, peer, held)) in (0..).zip(ranks) {
            let call = |ticket: u64| Call {
                ticket,
                gpu: GpuTimes::stamps(1_000_000 * (ticket + 1), 1_000_000 * (ticket + 1) + 500_000),
                channels_started: 1,
                channels_stopped: 1,
                sealed: true,
                extra: ticket as u32 + 1,
                ..Call::default()
            };
            let extra = |held: &u64| Extra {
                ops_started: 1,
                steps: 1,
                bytes_sent: *bytes,
                longest_ns: *held,
                longest_peer: peer + 1,
                longest_sends: true,
                ..Extra::default()
            };
            let shape = Shape {
                communicator: Some(0),
                function,
                ..Shape::default()
            };
            let process = Process {
                rank: Some(rank),
                host: format!("host-{}", rank / 2),
                communicators: vec![Local::default()],
                shapes: vec![shape],
                calls: (0..held.len() as u64).map(call).collect(),
                extras: held.iter().map(extra).collect(),
                ..Process::default()
            };
            gather(&capture, &process, &mut matcher, &mut gatherer);
            capture.processes.push(Process {
                rank: process.rank,
                host: process.host,
                ..Process::default()
            });
        }
        let (found, _) = gatherer.finish(&capture, &matcher, None, |_, _| ());
        found.expect("operations").links
    }

    fn noise(random: &mut Random, mean: u64) -> Vec<u64> {
        (0..200)
            .map(|_| mean - 5_000 + random.below(10_000))
            .collect()
    }

    #[test]
    fn a_link_is_held_against_those_that_moved_as_much() {
        let mut random = Random(3);
        let mut of = |mean| noise(&mut random, mean);
        // The first three move half of what the others do, in half the time; the second is 60 µs slower than
        // it might be.
        let ranks = [
            (1_000, 2, of(100_000)),
            (1_040, 3, of(160_000)),
            (1_000, 4, of(100_000)),
            (2_000, 5, of(200_000)),
            (2_000, 0, of(200_000)),
            (9_000, 1, of(450_000)),
        ];
        let links = links_of(&ranks);
        // Nobody moved as much as the last.
        assert_eq!(links.len(), 5);
        let slow = &links[0];
        assert_eq!(
            (slow.process.rank, slow.peer, slow.state),
            (Some(1), Some(3), Some("send_network"))
        );
        assert_eq!(
            (slow.peer_host.as_deref(), slow.peer_share),
            (Some("host-1"), Some(1.0))
        );
        let truth = 200.0 * 60.0;
        let (low, high) = slow.excess_interval_us.expect("an interval");
        assert!(
            (low..high).contains(&truth) && high - low < 0.1 * truth,
            "{slow:?}"
        );
        let loss = slow.loss_wall_us.expect("a loss");
        assert!((loss - truth).abs() < 0.05 * truth, "{slow:?}");
        assert!(links[1..].iter().all(|link| link.loss_wall_us.is_none()));
    }

    #[test]
    fn what_was_not_recorded_is_compared_with_nothing() {
        assert_eq!(
            links_of(&[(1_000, 1, vec![0; 50]), (1_000, 0, vec![0; 50])]),
            []
        );
    }
}
