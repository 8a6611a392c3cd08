//! Arrivals over hosts: what operations tell of the hosts' clocks, and of which of them these prove who came
//! last.
//!
//! [`Operations::offsets`] hands every operation over several hosts to [`crate::clocks`], a [`Side`] for each
//! host, also those that lack a rank. A [`Proof`] then compares arrivals over the whole interval in which the
//! offsets lie.
//!
//! Rule: an operation of which one kernel's place on its host's clock is not known proves nothing.

use super::operations::{Operations, PartIndex};
use crate::clocks::{ahead, drift, Given, Observations, Offsets, Side, RESOLUTION};
use crate::time::{HostTime, Nanos};
use std::collections::HashMap;
use tables::Capture;

/// The hosts of a capture that have clocks of their own, by first process. Unknown hosts are left out.
pub(crate) fn hosts(capture: &Capture) -> Vec<String> {
    let mut hosts: Vec<String> = Vec::new();
    let mut known = std::collections::HashSet::new();
    for process in &capture.processes {
        let host = process.clock_host();
        if !host.is_empty() && known.insert(host) {
            hosts.push(host.to_owned());
        }
    }
    hosts
}

/// A kernel on its host's clock.
struct OnHost {
    start: HostTime,
    end: HostTime,
    error: Nanos,
}

impl Operations {
    /// By lane, the index of its host.
    pub(super) fn host_of(&self, hosts: &[String]) -> Vec<Option<u32>> {
        let index: HashMap<&str, u32> = (0..).zip(hosts).map(|(i, h)| (h.as_str(), i)).collect();
        let lanes = self.lanes.iter();
        lanes
            .map(|lane| index.get(lane.clock.as_str()).copied())
            .collect()
    }

    fn on_host(&self, place: PartIndex) -> Option<OnHost> {
        let part = self.part(place);
        if part.error == 0 {
            return None;
        }
        let start = HostTime(i64::try_from(part.start).ok()?);
        Some(OnHost {
            start,
            end: start + Nanos::from(part.ns),
            error: Nanos::from(part.error) + RESOLUTION,
        })
    }

    /// What all operations over several hosts say of their clocks.
    pub(super) fn offsets(&self, host_of: &[Option<u32>], hosts: usize) -> Offsets {
        let mut observations = Observations::default();
        if hosts < 2 {
            return observations.finish();
        }
        let mut by_host: Vec<Option<Side>> = vec![None; hosts];
        let (mut touched, mut sides): (Vec<u32>, Vec<Side>) = (Vec::new(), Vec::new());
        for group in self.parts.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let row = self.part(group[0].2).row;
            let twice = |w: &[(u32, u32, PartIndex)]| w[0].2 .0 == w[1].2 .0;
            // Ranks that disagree are no operation, and a damaged file may have one twice.
            let sound = group.iter().all(|(.., place)| self.part(*place).row == row)
                && !group.windows(2).any(twice);
            if !sound {
                continue;
            }
            for (.., place) in group {
                let (Some(host), Some(on)) = (host_of[place.0 as usize], self.on_host(*place))
                else {
                    continue;
                };
                let this = Side {
                    host,
                    begin: on.start - on.error,
                    end: on.end + on.error,
                    ended: on.end,
                };
                match &mut by_host[host as usize] {
                    Some(side) => {
                        side.begin = side.begin.max(this.begin);
                        side.end = side.end.min(this.end);
                        side.ended = side.ended.min(this.ended);
                    }
                    none => {
                        *none = Some(this);
                        touched.push(host);
                    }
                }
            }
            touched.sort_unstable();
            sides.clear();
            sides.extend(touched.drain(..).filter_map(|h| by_host[h as usize].take()));
            observations.add(&sides);
        }
        observations.finish()
    }

    /// By how much the last of these came after all others, as the hosts' clocks tell. `None` where that is
    /// not bounded. `arrivals` are of one operation, the last at their end.
    pub(super) fn lateness(
        &self,
        arrivals: &[(u64, PartIndex)],
        proof: &Proof,
    ) -> Option<Lateness> {
        let (_, last) = arrivals.last()?;
        let mut base: Option<(u32, HostTime)> = None;
        for (_, place) in arrivals {
            let host = proof.host_of[place.0 as usize]?;
            let on = self.on_host(*place)?;
            let end = on.end + on.error;
            base = Some(match base {
                Some((first, _)) if host < first => (host, end),
                Some((first, least)) if host == first => (host, least.min(end)),
                Some(other) => other,
                None => (host, end),
            });
        }
        let (base, at) = base?;
        let late = self.on_host(*last)?;
        let host = proof.host_of[last.0 as usize]?;
        let launched = |place: PartIndex| {
            let at = Some(self.part(place).launch_ns).filter(|ns| *ns != 0);
            at.map(HostTime)
        };
        const LATE: Nanos = Nanos(f64::INFINITY);
        let (mut arrival, mut launch) = ((LATE, LATE), Some((LATE, LATE)));
        let mut known: Option<(u32, (Nanos, Nanos))> = None;
        for (_, place) in &arrivals[..arrivals.len() - 1] {
            let (other, on) = (proof.host_of[place.0 as usize]?, self.on_host(*place)?);
            let apart = match known {
                Some((same, apart)) if same == other => apart,
                _ => proof.apart(base, at, host, other)?,
            };
            known = Some((other, apart));
            // As the two clocks say, which are `apart`.
            let after = ahead(late.start, on.start);
            let error = late.error + on.error;
            let (earliest, latest) = (after - error + apart.0, after + error + apart.1);
            arrival = (arrival.0.min(earliest), arrival.1.min(latest));
            launch = launch.and_then(|(low, high)| {
                let after = ahead(launched(*last)?, launched(*place)?);
                Some((low.min(after + apart.0), high.min(after + apart.1)))
            });
        }
        // The offset is of the end on the first host, and arrivals are earlier by the longest kernel at most.
        let slack = drift(Nanos::from(arrivals[0].0));
        Some(Lateness {
            arrival: (arrival.0 - slack, arrival.1 + slack),
            launch,
        })
    }
}

/// By how much the last came after all others: at least and at most. Negative where it came before one of
/// them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lateness {
    pub arrival: (Nanos, Nanos),
    /// Of its launch on the host; nothing where one was not known.
    pub launch: Option<(Nanos, Nanos)>,
}

/// What arrivals over hosts are compared by.
pub(super) struct Proof {
    host_of: Vec<Option<u32>>,
    offsets: Offsets,
    hosts: Vec<String>,
    given: Option<Given>,
}

impl Proof {
    pub(super) fn new(
        hosts: Vec<String>,
        host_of: Vec<Option<u32>>,
        offsets: Offsets,
        given: Option<&Given>,
    ) -> Proof {
        Proof {
            host_of,
            offsets,
            hosts,
            given: given.cloned(),
        }
    }

    pub(super) fn is_over_hosts(&self, arrivals: &[(u64, PartIndex)]) -> bool {
        let host = |(_, place): &(u64, PartIndex)| self.host_of[place.0 as usize];
        arrivals.windows(2).any(|w| host(&w[0]) != host(&w[1]))
    }

    /// The clock of `host` less that of `base`, in an operation that ended at `at` there.
    fn between(&self, base: u32, host: u32, at: HostTime) -> Option<(Nanos, Nanos)> {
        if base == host {
            return Some((Nanos::ZERO, Nanos::ZERO));
        }
        let bound = self.offsets.between(base, host, at);
        let hosts = [base, host].map(|host| self.hosts[host as usize].as_str());
        let given = self.given.as_ref();
        let given = given.and_then(|given| given.between(hosts[0], hosts[1]));
        let given = given.map(|(offset, error)| (offset - error, offset + error));
        match (bound, given) {
            (Some(bound), Some(given)) => {
                let both = (bound.0.max(given.0), bound.1.min(given.1));
                // What operations prove goes before what somebody says.
                Some(if both.0 <= both.1 { both } else { bound })
            }
            (bound, given) => bound.or(given),
        }
    }

    /// Least and greatest value of the clock of `other` less that of `host`, in an operation that has `base`
    /// as its first host.
    fn apart(&self, base: u32, at: HostTime, host: u32, other: u32) -> Option<(Nanos, Nanos)> {
        if host == other {
            return Some((Nanos::ZERO, Nanos::ZERO));
        }
        let host = self.between(base, host, at)?;
        let other = self.between(base, other, at)?;
        Some((other.0 - host.1, other.1 - host.0))
    }
}
