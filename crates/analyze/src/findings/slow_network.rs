//! Links of the network that are slower than the others.
//!
//! Rule: a link is blamed only if three things hold. Its excess over the median of the others is more than
//! chance gives one of so many (Holm's method), and at least half of what they take. Transfers wait for the
//! network: data of this link is in the network's hands for half of their time. And the run loses 1 % by it
//! at least, with the lower end of the interval above zero.

use super::{
    Advice, CommunicatorId, Evidence, Finding, Loss, Method, Peer, SlowLink, Subject, Way,
};
use crate::account::LEAST_SHARE;
use crate::arrivals::{Arrivals, Link, LEAST_US, LEVEL};
use crate::interval::beyond_chance;

/// Least ratio to the others.
const LEAST_RATIO: f64 = 1.5;
/// Least part of the transfers.
const LEAST_HELD: f64 = 0.5;
/// Least part of the operations in which it was one peer, for it to be named.
const LEAST_PEER: f64 = 0.5;

/// The findings, largest loss first. `run_us` is the length of the run.
pub(super) fn slow_network(arrivals: &Arrivals, run_us: f64) -> Vec<Finding> {
    beyond_chance(&arrivals.links, |link| link.excess_p, LEVEL)
        .into_iter()
        .filter(|link| matters(link, run_us))
        .filter_map(|link| {
            let (loss, (low, high)) = link.loss_wall_us.zip(link.loss_interval_us)?;
            let proved = low > 0.0 && loss >= LEAST_SHARE * run_us;
            let loss = Loss {
                wall_us: loss,
                interval_us: Some((low, high)),
                at_most_us: link.loss_at_most_us,
                method: Method::WhatIf,
                coverage: arrivals.sampled.map_or(Some(1.0), |all| Some(all.share)),
                untimed_in_graphs: None,
                run_us: Some(run_us),
            };
            proved.then(|| finding(link, loss))
        })
        .collect()
}

fn finding(link: &Link, loss: Loss) -> Finding {
    let way = match link.state {
        Some("recv_flush") => Way::RecvFlush,
        _ => Way::SendNetwork,
    };
    let peer = link.peer_host.as_ref();
    let peer = peer.filter(|_| link.peer_share >= Some(LEAST_PEER));
    Finding {
        subject: Subject {
            communicator: link.communicator.as_deref().map(CommunicatorId::of),
            peer: peer.map(|host| Peer {
                rank: link.peer,
                host: host.clone(),
            }),
            way: Some(way),
            ..Subject::of(link.id())
        },
        loss: Some(loss),
        when_us: None,
        cause: None,
        evidence: Evidence::Link(SlowLink {
            operations: link.operations,
            transfer_us: link.transfer_wall_us,
            held_us: link.held_wall_us,
            others_us: link.others_wall_us,
        }),
        advice: match way {
            Way::SendNetwork => Advice::CheckNetwork,
            Way::RecvFlush => Advice::CheckGpuPath,
        },
    }
}

fn matters(link: &Link, run_us: f64) -> bool {
    link.excess_interval_us.is_some_and(|(low, _)| low > 0.0)
        && link.excess_wall_us >= LEAST_SHARE * run_us
        && link.excess_wall_us >= LEAST_US * link.operations as f64
        && link.held_wall_us >= LEAST_RATIO * link.others_wall_us
        && link.held_wall_us >= LEAST_HELD * link.transfer_wall_us
}
