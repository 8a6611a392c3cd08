//! Links of the network that are slower than the others.
//!
//! Rule: a link is blamed only if three things hold. Its excess over the median of the others is more than
//! chance gives one of so many (Holm's method), and at least half of what they take. Transfers wait for the
//! network: data of this link is in the network's hands for half of their time. And the run loses 1 % by it
//! at least, with the lower end of the interval above zero.

use super::{costs_about, estimate, Finding, LEAST_SHARE};
use crate::arrivals::{Arrivals, Link, LEAST_US, LEVEL};
use crate::interval::beyond_chance;
use crate::spelling::{three, time, times};

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
            (low > 0.0 && loss >= LEAST_SHARE * run_us).then(|| Finding {
                kind: "slow_network",
                sentence: sentence(link, (loss, low, high), run_us),
                wall_us: Some(loss),
                wall_interval_us: Some((low, high)),
                wall_at_most_us: link.loss_at_most_us,
                when_us: None,
                evidence: evidence(link, (low, high)),
                advice: advice(link).to_owned(),
            })
        })
        .collect()
}

fn matters(link: &Link, run_us: f64) -> bool {
    link.excess_interval_us.is_some_and(|(low, _)| low > 0.0)
        && link.excess_wall_us >= LEAST_SHARE * run_us
        && link.excess_wall_us >= LEAST_US * link.operations as f64
        && link.held_wall_us >= LEAST_RATIO * link.others_wall_us
        && link.held_wall_us >= LEAST_HELD * link.transfer_wall_us
}

fn sends(link: &Link) -> bool {
    link.state == Some("send_network")
}

fn of_rank(rank: Option<u32>, host: &str) -> String {
    match rank {
        Some(rank) => format!("rank {rank} on {host}"),
        None => format!("a rank on {host}"),
    }
}

fn sentence(link: &Link, (loss, low, high): (f64, f64, f64), run_us: f64) -> String {
    let this = match link.rank {
        Some(rank) => format!("rank {rank} on {}", link.host),
        None => format!("pid {} on {}", link.pid, link.host),
    };
    let peer = link
        .peer_host
        .as_ref()
        .filter(|_| link.peer_share >= Some(LEAST_PEER))
        .map(|host| of_rank(link.peer, host));
    let peer = peer.unwrap_or_else(|| "other hosts".to_owned());
    let costs = costs_about(loss, (low, high), Some(run_us));
    let ratio = link.held_wall_us / link.others_wall_us.max(f64::MIN_POSITIVE);
    let slower = match ratio {
        ratio if ratio < 1000.0 => format!("{} times", three(ratio)),
        _ => "over 1000 times".to_owned(),
    };
    match sends(link) {
        true => format!(
            "The network from {this} to {peer} {costs}: \
             its data takes {slower} as long as on the other links."
        ),
        false => format!(
            "What {this} receives from {peer} {costs}: it is flushed to the GPU in {slower} \
             the time of the other links."
        ),
    }
}

fn evidence(link: &Link, (low, high): (f64, f64)) -> String {
    let mean = |us: f64| time(us / link.operations.max(1) as f64);
    let communicator = link.communicator.as_deref().unwrap_or("that is not known");
    let way = if sends(link) { "sent" } else { "received" };
    format!(
        "In {} operations of communicator {communicator}, its data was in {} for {} on average, and for {} \
         at the median of the other ranks that {way} as many bytes in the same operation. Waiting for a GPU \
         or for the other side is not in that. A transfer takes {}. {} 95 % interval: {}.",
        link.operations,
        link.state.unwrap_or("the network"),
        mean(link.held_wall_us),
        mean(link.others_wall_us),
        mean(link.transfer_wall_us),
        estimate(link.loss_at_most_us),
        times(low, high),
    )
}

fn advice(link: &Link) -> &'static str {
    match sends(link) {
        true => {
            "Look at the two hosts' NICs and what is between them: speed and errors (ibstat, perfquery, \
             ethtool -S), cable, congestion; and whether the receiving host's CPUs are \
             free for NCCL's proxy thread."
        }
        false => {
            "Look at the way from this host's NIC to its GPU: nvidia-smi topo -m, \
             the PCIe links' width and speed (lspci -vv), ACS."
        }
    }
}
