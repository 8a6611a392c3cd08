//! Groups of calls: when the hosts call, and when the kernels run.

use super::kernel::{Kernel, RankAction};
use super::model::{instance, time};
use super::{Schedule, LAUNCH_NS};
use crate::script::{Call, Op, Script};
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
            if *part != RankAction::None {
                stops.clear();
            }
        }
    }

    /// As [`Schedule::group`], but into a graph: the hosts call, and nothing is launched.
    pub fn capture(&mut self, who: &[bool], calls: &[Call]) {
        let script = self.script;
        for (rank, takes_part) in who.iter().enumerate() {
            let member = |c: &Call| c.is_by(rank) && instance(script, c.comm, rank).is_some();
            let mine = calls.iter().filter(|c| member(c)).count() as u64;
            self.parts[rank] = RankAction::None;
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
                self.parts[rank] = RankAction::Inside(begin);
                continue;
            }
            self.host[rank] = begin + mine * script.host_cost_ns;
            self.parts[rank] = RankAction::Calls(begin);
        }
    }

    /// Runs the kernels of the calls on one name, which may stand for several communicators.
    fn launch(&mut self, comm: usize, calls: &[Call]) {
        let script = self.script;
        let calls: Vec<&Call> = calls.iter().filter(|c| c.comm == comm).collect();
        for instance in &script.comms[comm].instances {
            self.kernel_of_each(comm, &instance.members, &calls);
            for rank in &instance.members {
                if self.parts[*rank] == RankAction::None {
                    continue;
                }
                match self.kernels[comm][*rank].stop {
                    Some(stop) => self.stream[comm][*rank] = stop,
                    None => self.stuck[comm][*rank] = true,
                }
            }
        }
    }

    /// When the kernel of each member runs.
    fn kernel_of_each(&mut self, comm: usize, members: &[usize], calls: &[&Call]) {
        let pairs_only = calls.iter().all(|c| matches!(c.op, Op::Send | Op::Recv));
        let mut arrivals = members.iter().map(|rank| self.arrival(comm, *rank));
        let last = arrivals.try_fold(0, |last, arrival| Some(last.max(arrival?)));
        let calling = members
            .iter()
            .filter(|r| self.parts[**r] != RankAction::None);
        let stops: Vec<Stop> = calling.flat_map(|r| self.stops[*r].clone()).collect();
        let drags = (0..members.len()).map(|index| self.drags_of(index, members, calls));
        let drags: Vec<[Option<Drag>; 2]> = drags.collect();
        let dragged = drags.iter().flatten().flatten().map(|drag| drag.ns).max();
        let time = duration(self.script, calls, members) + dragged.unwrap_or(0);
        for (index, rank) in members.iter().copied().enumerate() {
            let start = self.arrival(comm, rank);
            let ready = if pairs_only {
                self.peers_arrival(comm, index, members, calls)
            } else {
                last
            };
            let ready = ready.filter(|_| stops.is_empty());
            let stop = start.and(ready).map(|ready| ready + time);
            let held = match (start, stop) {
                _ if self.parts[rank] == RankAction::None => None,
                (_, Some(_)) => None,
                (Some(_), None) => Some(Held::new(&self.stops[rank], &stops)),
                (None, None) => Some(Held::queued()),
            };
            self.kernels[comm][rank] = Kernel {
                start,
                ready: start.and(ready),
                stop,
                held,
                drags: drags[index],
            };
        }
    }

    /// When the kernel of a rank starts: it is launched, its stream is free, and the program's own kernels
    /// before it are done. `None` if never.
    fn arrival(&self, comm: usize, rank: usize) -> Option<u64> {
        match self.parts[rank] {
            RankAction::Calls(_) if !self.stuck[comm][rank] => {
                let launched = self.host[rank] + LAUNCH_NS;
                let free = self.stream[comm][rank];
                Some(launched.max(free).max(self.computed[rank]))
            }
            _ => None,
        }
    }

    /// When a member and its peers in these sends and receives have all arrived. A peer that makes no call in
    /// this statement doesn't count, as if it had buffered.
    fn peers_arrival(
        &self,
        comm: usize,
        index: usize,
        members: &[usize],
        calls: &[&Call],
    ) -> Option<u64> {
        let mut last = self.arrival(comm, members[index])?;
        for call in calls.iter().filter(|call| call.is_by(members[index])) {
            let peer = members[call.peer.of(index, members.len())];
            if self.parts[peer] != RankAction::None || self.gone[peer] {
                last = last.max(self.arrival(comm, peer)?);
            }
        }
        Some(last)
    }

    /// What makes receives and sends of a member take longer in these calls. Only those over the network
    /// count: between neighbours in the ring, or to a peer on another host.
    fn drags_of(&self, index: usize, members: &[usize], calls: &[&Call]) -> [Option<Drag>; 2] {
        let n = members.len();
        let rank = members[index];
        let calling = self.parts[rank] != RankAction::None;
        let far = |peer: usize| self.script.host(members[peer]) != self.script.host(rank);
        let uses = |send: bool| {
            let mut own = calls.iter().filter(|call| call.is_by(rank));
            own.any(|call| match call.op {
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
}

/// From the last arrival to the end of calls in one group. Sends and receives run side by side.
fn duration(script: &Script, calls: &[&Call], members: &[usize]) -> u64 {
    let times = calls.iter().map(|c| time(script, c, members));
    if calls.iter().all(|c| c.op.is_p2p()) {
        times.max().unwrap_or(0)
    } else {
        times.sum()
    }
}
