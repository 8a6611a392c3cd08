//! What the system shows of the network of ranks on this machine, if an operation does not end that all ranks
//! are in: TCP connections with data that does not go on, and errors that RDMA adapters count.
//!
//! Rule: the kernel is asked, and nothing is executed in the processes. Connections of the program itself are
//! among them, so only those are told that have something to send and do not get on.

use analyze::hang::{Hang, Liveness, Outcome, RankProgress, StuckConnection, Traffic, Verdict};
use analyze::time::Nanos;
use attach::net::{Connection, Net, Who};
use attach::rdma::Adapters;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Ranks of which connections are looked at.
const MOST: usize = 64;
/// Between the two looks: TCP sends again after 200 ms at the earliest.
const APART: Duration = Duration::from_millis(300);
/// What the names of counters have that tell of errors and retries, of all drivers.
const ERRORS: [&str; 8] = [
    "retry",
    "retrans",
    "timeout",
    "out_of_seq",
    "seq_err",
    "rnr",
    "link_downed",
    "rcv_errors",
];

/// Looks, if the verdict is an operation that all ranks are in and that does not end.
pub fn look(hang: &mut Hang, is_here: impl Fn(u32) -> bool) {
    let Verdict::Stall(stall) = &hang.verdict else {
        return;
    };
    if !matches!(stall.outcome, Outcome::Stuck | Outcome::Unknown) {
        return;
    }
    let all = &hang.communicators[stall.ranks.communicator].ranks;
    let here = |rank: &&RankProgress| rank.state == Liveness::Running && is_here(rank.process.pid);
    let ranks: Vec<(u32, Option<u32>)> = all
        .iter()
        .filter(here)
        .map(|rank| (rank.process.pid, rank.number))
        .take(MOST)
        .collect();
    if !ranks.is_empty() {
        hang.traffic = Some(seen(&ranks));
    }
}

/// Two looks at processes with these numbers, by pid.
fn seen(ranks: &[(u32, Option<u32>)]) -> Traffic {
    let adapters = Adapters::new();
    let mut net = Net::default();
    let who = |(index, (pid, _)): (usize, &(u32, Option<u32>))| Who {
        index,
        pid: *pid,
        calls: 0,
    };
    let who: Vec<Who> = ranks.iter().enumerate().map(who).collect();
    net.tick(0, &who, |_| {});
    std::thread::sleep(APART);
    net.tick(APART.as_nanos() as u64, &who, |_| {});
    let is_stuck = |of: &Connection| {
        !of.has_ended && !of.is_new && of.last.send_queue > 0 && of.since().sent == 0
    };
    let interfaces = interfaces();
    let stuck = |of: Connection| StuckConnection {
        number: ranks[of.process].1,
        pid: ranks[of.process].0,
        interface: interfaces.get(&of.local.ip()).cloned(),
        local: of.local.to_string(),
        remote: of.remote.to_string(),
        peer: of.peer.and_then(|peer| ranks[peer].1),
        unsent: of.last.send_queue,
        retransmits: of.last.retransmits,
        is_other_full: of.since().window_full > 0,
    };
    let mut connections: Vec<StuckConnection> = net
        .finish()
        .into_iter()
        .filter(is_stuck)
        .map(stuck)
        .collect();
    connections.sort_by_key(|of| (of.is_other_full, std::cmp::Reverse(of.retransmits)));
    let ports = adapters.moved().into_iter().flat_map(|port| {
        let grown = port.moved.into_iter();
        let errors = grown.filter(|(name, _)| ERRORS.iter().any(|part| name.contains(part)));
        errors.map(move |(name, by)| (format!("{} {name}", port.name), by))
    });
    Traffic {
        lasted: Nanos::from_seconds(APART.as_secs_f64()),
        connections,
        errors: ports.collect(),
    }
}

/// The interfaces of this machine by address.
fn interfaces() -> HashMap<IpAddr, String> {
    let all = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let named = all.filter_map(|of| {
        let address = of.address?;
        let ip = address
            .as_sockaddr_in()
            .map(|v4| IpAddr::V4(v4.ip()))
            .or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))?;
        Some((ip, of.interface_name))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    #[test]
    fn a_connection_is_stuck_if_there_is_something_to_send_and_nothing_goes_on() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("an address");
        let mut sends = TcpStream::connect(address).expect("connected");
        let (mut reads, _) = listener.accept().expect("accepted");
        let own = [(std::process::id(), Some(3))];
        let of = |traffic: Traffic| {
            let mut all = traffic.connections.into_iter();
            all.find(|of| of.remote == address.to_string())
        };
        assert_eq!(of(seen(&own)), None);
        // Until no buffer takes more.
        sends.set_nonblocking(true).expect("set");
        while sends.write(&[0; 1 << 16]).is_ok() {}
        let began = Instant::now();
        let mut stuck = None;
        // The last bytes find their place slowly.
        while began.elapsed() < Duration::from_secs(20) && stuck.is_none() {
            stuck = of(seen(&own));
        }
        let stuck = stuck.expect("it is stuck");
        assert_eq!((stuck.number, stuck.peer), (Some(3), Some(3)));
        assert_eq!(stuck.interface.as_deref(), Some("lo"));
        assert!(stuck.unsent > 0 && stuck.is_other_full, "{stuck:?}");
        // Somebody reads.
        reads.set_nonblocking(true).expect("set");
        let mut some = vec![0; 1 << 16];
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(20) && of(seen(&own)).is_some() {
            while reads.read(&mut some).is_ok_and(|n| n > 0) {}
        }
        assert_eq!(of(seen(&own)), None);
    }
}
