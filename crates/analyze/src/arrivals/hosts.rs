//! Arrivals over hosts: what operations tell of the hosts' clocks, and of which of them these prove who came
//! last.
//!
//! [`Operations::offsets`] hands every operation over several hosts to [`crate::clocks`], a [`Side`] for each
//! host, also those that lack a rank. A [`Proof`] then compares arrivals over the whole interval in which the
//! offsets lie.
//!
//! Rule: an operation of which one kernel's place on its host's clock is not known proves nothing.

use super::operations::{Operations, PartIndex};
use crate::clocks::{drift, Given, Observations, Offsets, Side, RESOLUTION_NS};
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

/// A kernel on its host's clock, ns.
struct OnHost {
    start: i64,
    end: i64,
    error: i64,
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
        let start = i64::try_from(part.start).ok()?;
        Some(OnHost {
            start,
            end: start.saturating_add_unsigned(part.ns),
            error: i64::from(part.error) + RESOLUTION_NS,
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
                    begin: on.start.saturating_sub(on.error),
                    end: on.end.saturating_add(on.error),
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
        let mut base: Option<(u32, i64)> = None;
        for (_, place) in arrivals {
            let host = proof.host_of[place.0 as usize]?;
            let on = self.on_host(*place)?;
            let end = on.end.saturating_add(on.error);
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
        let launched = |place: PartIndex| Some(self.part(place).launch_ns).filter(|ns| *ns != 0);
        let (mut arrival, mut launch) = ((i64::MAX, i64::MAX), Some((i64::MAX, i64::MAX)));
        let mut known: Option<(u32, (i64, i64))> = None;
        for (_, place) in &arrivals[..arrivals.len() - 1] {
            let (other, on) = (proof.host_of[place.0 as usize]?, self.on_host(*place)?);
            let apart = match known {
                Some((same, apart)) if same == other => apart,
                _ => proof.apart(base, at, host, other)?,
            };
            known = Some((other, apart));
            let after = late.start.saturating_sub(on.start);
            let error = late.error.saturating_add(on.error);
            let earliest = after.saturating_sub(error).saturating_add(apart.0);
            let latest = after.saturating_add(error).saturating_add(apart.1);
            arrival = (arrival.0.min(earliest), arrival.1.min(latest));
            launch = launch.and_then(|(low, high)| {
                let after = launched(*last)?.saturating_sub(launched(*place)?);
                let (earliest, latest) =
                    (after.saturating_add(apart.0), after.saturating_add(apart.1));
                Some((low.min(earliest), high.min(latest)))
            });
        }
        // The offset is of the end on the first host, and arrivals are earlier by the longest kernel at most.
        let slack = drift(i64::try_from(arrivals[0].0).unwrap_or(i64::MAX));
        Some(Lateness {
            arrival: (
                arrival.0.saturating_sub(slack),
                arrival.1.saturating_add(slack),
            ),
            launch,
        })
    }
}

/// By how much the last came after all others, ns: at least and at most. Negative where it came before one of
/// them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lateness {
    pub arrival: (i64, i64),
    /// Of its launch on the host; nothing where one was not known.
    pub launch: Option<(i64, i64)>,
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
    fn between(&self, base: u32, host: u32, at: i64) -> Option<(i64, i64)> {
        if base == host {
            return Some((0, 0));
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
    fn apart(&self, base: u32, at: i64, host: u32, other: u32) -> Option<(i64, i64)> {
        if host == other {
            return Some((0, 0));
        }
        let host = self.between(base, host, at)?;
        let other = self.between(base, other, at)?;
        Some((
            other.0.saturating_sub(host.1),
            other.1.saturating_sub(host.0),
        ))
    }
}
