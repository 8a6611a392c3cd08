//! Groups of calls: when the hosts call, and when the kernels run.

use super::kernel::{Kernel, Part};
use super::model::{instance, time};
use super::{Schedule, LAUNCH_NS};
use crate::script::{Call, Op};
use crate::stuck::{Drag, Held, Stop};

impl<'s> Schedule<'s> {
    /// The ranks of `who` make these calls in one group.
    pub fn group(&mut self, who: &[bool], calls: &[Call]) {
        self.capture(who, calls);
        let mut launched = Vec::new();
        for call in calls {
            if !launched.contains(&call.comm) {
                launched.push(call.comm);
                self.launch(call.comm, calls);
            }
        }
        for (stops, part) in self.stops.iter_mut().zip(&self.parts) {
            if *part != Part::None {
                stops.clear();
            }
        }
    }

    /// As [`Schedule::group`], into a graph: the hosts call, and nothing is launched.
    pub fn capture(&mut self, who: &[bool], calls: &[Call]) {
        let script = self.script;
        for (rank, takes_part) in who.iter().enumerate() {
            let member = |c: &Call| instance(script, c.comm, rank).is_some();
            let mine = calls.iter().filter(|c| member(c)).count() as u64;
            self.parts[rank] = Part::None;
            if !takes_part || self.gone[rank] || mine == 0 {
                continue;
            }
            if std::mem::take(&mut self.skip[rank]) {
                continue;
            }
            let paced = self.last[rank].map_or(0, |last| last + self.gap);
            let late = std::mem::take(&mut self.late[rank]) + self.slow[rank];
            let begin = self.host[rank].max(paced) + late;
            self.last[rank] = Some(begin);
            if std::mem::take(&mut self.inside[rank]) {
                self.gone[rank] = true;
                self.parts[rank] = Part::Inside(begin);
                continue;
            }
            self.host[rank] = begin + mine * script.host_cost_ns;
            self.parts[rank] = Part::Calls(begin);
        }
    }

    /// What makes receives and sends of a member take longer in these calls: those that go over the network, between neighbours in the
    /// ring or to a peer.
    fn drags_of<'c, C: Iterator<Item = &'c Call>>(
        &self,
        index: usize,
        members: &[usize],
        calls: impl Fn() -> C,
    ) -> [Option<Drag>; 2] {
        let n = members.len();
        let rank = members[index];
        let calling = self.parts[rank] != Part::None;
        let far = |peer: usize| self.script.host(members[peer]) != self.script.host(rank);
        let uses = |send: bool| {
            calls().any(|call| match call.op {
                Op::Send | Op::Recv => (call.op == Op::Send) == send && far(call.peer.of(index, n)),
                op if op.is_p2p() => (0..n).any(far),
                _ if send => far((index + 1) % n),
                _ => far((index + n - 1) % n),
            })
        };
        [false, true].map(|send| {
            let drag = self.drags[rank][usize::from(send)];
            drag.filter(|_| calling && uses(send))
        })
    }

    fn launch(&mut self, comm: usize, calls: &[Call]) {
        let script = self.script;
        for instance in &script.comms[comm].instances {
            let members = &instance.members;
            let on_comm = || calls.iter().filter(|c| c.comm == comm);
            let arrival = |s: &Self, rank: usize| match s.parts[rank] {
                Part::Calls(_) if !s.stuck[comm][rank] => {
                    let launched = s.host[rank] + LAUNCH_NS;
                    Some(launched.max(s.stream[comm][rank]).max(s.computed[rank]))
                }
                _ => None,
            };
            let pairs_only = on_comm().all(|c| matches!(c.op, Op::Send | Op::Recv));
            let times = on_comm().map(|c| time(script, c, members));
            let time = if on_comm().all(|c| c.op.is_p2p()) {
                times.max().unwrap_or(0)
            } else {
                times.sum()
            };
            let mut last = Some(0);
            for rank in members {
                last = last.zip(arrival(self, *rank)).map(|(a, b)| a.max(b));
            }
            let calling = |rank: &&usize| self.parts[**rank] != Part::None;
            let stops: Vec<Stop> = members
                .iter()
                .filter(calling)
                .flat_map(|rank| self.stops[*rank].iter().copied())
                .collect();
            let drags: Vec<[Option<Drag>; 2]> = (0..members.len())
                .map(|index| self.drags_of(index, members, on_comm))
                .collect();
            let dragged = drags.iter().flatten().flatten().map(|drag| drag.ns);
            let time = time + dragged.max().unwrap_or(0);
            for (index, rank) in members.iter().copied().enumerate() {
                let start = arrival(self, rank);
                let ready = if pairs_only {
                    let peers = on_comm().map(|c| members[c.peer.of(index, members.len())]);
                    peers.fold(start, |ready, peer| {
                        let peer_ready = match self.parts[peer] {
                            Part::None if !self.gone[peer] => ready,
                            _ => arrival(self, peer),
                        };
                        ready.zip(peer_ready).map(|(a, b)| a.max(b))
                    })
                } else {
                    last
                };
                let ready = ready.filter(|_| stops.is_empty());
                let stop = start.and(ready).map(|ready| ready + time);
                let held = match (start, stop) {
                    _ if self.parts[rank] == Part::None => None,
                    (_, Some(_)) => None,
                    (Some(_), None) => Some(Held::new(&self.stops[rank], &stops)),
                    (None, None) => Some(Held::queued()),
                };
                self.kernels[comm][rank] = Kernel {
                    start,
                    stop,
                    held,
                    drags: drags[index],
                };
            }
            for rank in members.iter().copied() {
                if self.parts[rank] == Part::None {
                    continue;
                }
                match self.kernels[comm][rank].stop {
                    Some(stop) => self.stream[comm][rank] = stop,
                    None => self.stuck[comm][rank] = true,
                }
            }
        }
    }
}
