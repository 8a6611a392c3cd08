//! The job's virtual time: when each rank calls, arrives on its GPU and is done.
//!
//! A [`Schedule`] follows the whole script for all ranks, in every process alike. A call takes its rank's host some
//! microseconds; its kernel arrives when it is launched, the stream is free and what was computed before is done, and ends a transfer time after the last
//! rank of the operation has arrived.
//!
//! Rule: no clock is read here. The same script gives the same times on every machine and in every process, so the
//! stamps of different processes agree without a word between them.
//!
//! Simplifications, so that one pass suffices: rooted collectives end like the others; a send or receive whose peer makes
//! no matching call in the same statement ends by itself, as if buffered.

use crate::script::{Act, Call, Op, Script};
use crate::stuck::{Drag, Held, Stop};

/// From a call's end on the host to its kernel's start on an idle GPU.
const LAUNCH_NS: u64 = 5_000;

/// When one rank's kernel runs; `None` is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Arrival.
    pub start: Option<u64>,
    /// End.
    pub stop: Option<u64>,
    /// Where its network operations stop, if they do not all end.
    pub held: Option<Held>,
    /// What makes its receives and its sends take longer.
    pub drags: [Option<Drag>; 2],
}

/// What a rank does at a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Nothing: not a member, skipping, or gone.
    None,
    /// Calls, beginning at this host time.
    Calls(u64),
    /// Begins its call and never leaves it.
    Inside(u64),
}

/// Virtual time of all ranks.
pub struct Schedule<'s> {
    script: &'s Script,
    /// Host time of each rank.
    pub host: Vec<u64>,
    last: Vec<Option<u64>>,
    gap: u64,
    late: Vec<u64>,
    slow: Vec<u64>,
    gone: Vec<bool>,
    skip: Vec<bool>,
    inside: Vec<bool>,
    /// Where network operations of each rank's next call stop.
    stops: Vec<Vec<Stop>>,
    /// What makes each rank's receives and sends take longer.
    drags: Vec<[Option<Drag>; 2]>,
    /// By communicator and rank: when its stream is free.
    stream: Vec<Vec<u64>>,
    /// By rank: when its stream of the program's own kernels is free.
    computed: Vec<u64>,
    stuck: Vec<Vec<bool>>,
    /// By communicator and rank: the kernel of the last statement.
    kernels: Vec<Vec<Kernel>>,
    parts: Vec<Part>,
}

impl<'s> Schedule<'s> {
    /// All ranks at time 0.
    pub fn new(script: &'s Script) -> Self {
        let (ranks, comms) = (script.ranks, script.comms.len());
        Schedule {
            script,
            host: vec![0; ranks],
            last: vec![None; ranks],
            gap: 0,
            late: vec![0; ranks],
            slow: vec![0; ranks],
            gone: vec![false; ranks],
            skip: vec![false; ranks],
            inside: vec![false; ranks],
            stops: vec![Vec::new(); ranks],
            drags: vec![[None; 2]; ranks],
            stream: vec![vec![0; ranks]; comms],
            computed: vec![0; ranks],
            stuck: vec![vec![false; ranks]; comms],
            kernels: vec![vec![Kernel::default(); ranks]; comms],
            parts: vec![Part::None; ranks],
        }
    }

    /// Notes what befalls a rank. Those that end it make it gone.
    pub fn act(&mut self, rank: usize, act: Act) {
        match act {
            Act::Late(by) => self.late[rank] += by,
            Act::Slow(by) => self.slow[rank] = by,
            Act::Skip => self.skip[rank] = true,
            Act::HangInside => self.inside[rank] = true,
            Act::Stuck(stop) => self.stops[rank].push(stop),
            Act::Drag(drag) => {
                self.drags[rank][usize::from(drag.send)] = Some(drag).filter(|drag| drag.ns > 0)
            }
            Act::Fork => {}
            Act::Kill | Act::Exit(_) | Act::QuickExit(_) | Act::Abort | Act::Hang => {
                self.gone[rank] = true
            }
        }
    }

    /// Whether a rank makes calls no more.
    pub fn gone(&self, rank: usize) -> bool {
        self.gone[rank]
    }

    /// Whether a rank waits on its GPU for ever.
    pub fn stuck(&self, rank: usize) -> bool {
        self.stuck.iter().any(|c| c[rank])
    }

    /// Least host time from call to call.
    pub fn pace(&mut self, gap: u64) {
        self.gap = gap;
    }

    /// The hosts of `who` do something else.
    pub fn sleep(&mut self, who: &[bool], by: u64) {
        for rank in ranks(who) {
            self.host[rank] += by;
        }
    }

    /// The hosts of `who` wait for their GPUs; those that wait for ever are gone.
    pub fn sync(&mut self, who: &[bool]) {
        for rank in ranks(who) {
            if self.stuck(rank) {
                self.gone[rank] = true;
            }
            self.host[rank] = self.host[rank]
                .max(self.streams(rank))
                .max(self.computed[rank]);
        }
    }

    /// The GPUs of `who` have a kernel of the program's own, which calls made after it wait for.
    pub fn compute(&mut self, who: &[bool], time: u64) {
        for rank in ranks(who) {
            self.computed[rank] = self.computed[rank].max(self.host[rank] + LAUNCH_NS) + time;
        }
    }

    /// What the GPUs of `who` compute next waits for the operations before.
    pub fn join(&mut self, who: &[bool]) {
        for rank in ranks(who) {
            self.computed[rank] = self.computed[rank].max(self.streams(rank));
        }
    }

    /// When the operations of a rank are over.
    fn streams(&self, rank: usize) -> u64 {
        self.stream.iter().map(|c| c[rank]).max().unwrap_or(0)
    }

    /// What `rank` does in the group given to [`Schedule::group`] last.
    pub fn part(&self, rank: usize) -> Part {
        self.parts[rank]
    }

    /// When its kernel on a communicator ran.
    pub fn kernel(&self, comm: usize, rank: usize) -> Kernel {
        self.kernels[comm][rank]
    }

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

/// The ranks that a flag is set for.
pub fn ranks(who: &[bool]) -> impl Iterator<Item = usize> + '_ {
    who.iter()
        .enumerate()
        .filter_map(|(rank, on)| on.then_some(rank))
}

/// The communicator of this name that `rank` is in, and its rank there.
pub fn instance(script: &Script, comm: usize, rank: usize) -> Option<(usize, usize)> {
    let instances = script.comms[comm].instances.iter().enumerate();
    let mut found = instances.map(|(i, inst)| (i, inst.members.iter().position(|m| *m == rank)));
    found.find_map(|(i, at)| at.map(|at| (i, at)))
}

/// Hosts that a communicator spans.
pub fn nodes(script: &Script, members: &[usize]) -> usize {
    let mut hosts: Vec<usize> = members.iter().map(|m| script.host(*m)).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.len()
}

/// From the last arrival to the end: as the script says, else latency and bandwidth of a round number.
pub fn time(script: &Script, call: &Call, members: &[usize]) -> u64 {
    if let Some(time) = call.time_ns {
        return time;
    }
    let (latency_us, gb_per_s) = match nodes(script, members) {
        1 => (10, 300),
        _ => (30, 40),
    };
    latency_us * 1000 + call.bytes / gb_per_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Statement;

    fn run(source: &str) -> (Script, Vec<Vec<Kernel>>) {
        let script = Script::parse(source).unwrap();
        let mut schedule = Schedule::new(&script);
        let who = vec![true; script.ranks];
        let mut all = Vec::new();
        for statement in &script.body {
            match statement {
                Statement::Group { calls, .. } => {
                    schedule.group(&who, calls);
                    all.push((0..script.ranks).map(|r| schedule.kernel(0, r)).collect());
                }
                Statement::Rank(ranks, act) => ranks.iter().for_each(|r| schedule.act(*r, *act)),
                _ => {}
            }
        }
        (script, all)
    }

    #[test]
    fn everyone_ends_a_transfer_after_the_last_arrival() {
        let (_, kernels) =
            run("ranks 3\nrank 1 late 5ms\nall_reduce 1KiB time=100us\nall_reduce 1KiB time=100us");
        let first = &kernels[0];
        assert_eq!(first[0].start, Some(15_000));
        assert_eq!(first[1].start, Some(5_015_000));
        assert!(first.iter().all(|k| k.stop == Some(5_115_000)));
        // The others wait in the stream of the first call, not in their own second one.
        assert!(kernels[1][0].start == Some(5_115_000) && kernels[1][0].stop == kernels[1][1].stop);
    }

    #[test]
    fn a_dead_rank_leaves_the_others_waiting_for_ever() {
        let (_, kernels) =
            run("ranks 3\nall_reduce 1KiB\nrank 2 kill\nall_reduce 1KiB\nall_reduce 1KiB");
        assert!(kernels[0].iter().all(|k| k.stop.is_some()));
        assert!(kernels[1][0].start.is_some() && kernels[1][0].stop.is_none());
        let queued = Kernel {
            held: Some(Held::queued()),
            ..Kernel::default()
        };
        assert_eq!(kernels[2][0], queued);
        assert_eq!(kernels[1][2], Kernel::default());
    }

    #[test]
    fn a_network_operation_that_stops_holds_up_its_operation_and_those_behind_it() {
        let (_, kernels) =
            run("ranks 2\nrank 1 stuck recv_network step=3\nall_reduce 1KiB\nall_reduce 1KiB");
        let held = |call: usize, rank: usize| kernels[call][rank].held.expect("it is held");
        assert!(kernels[0]
            .iter()
            .all(|k| k.start.is_some() && k.stop.is_none()));
        let stop = |send: bool| held(0, 0).stop(send, 0).expect("it stops");
        assert_eq!((stop(true).step, stop(false).step), (3, 3));
        assert_eq!(held(1, 1), Held::queued());
    }

    #[test]
    fn a_busy_gpu_is_late_and_computing_runs_beside_operations() {
        let script = "ranks 2\nrank 1 { compute 3ms }\nall_reduce 1KiB time=100us\ncompute 2ms\njoin\ncompute 1ms\nsync\nall_reduce 1KiB time=100us";
        let script = Script::parse(script).unwrap();
        let mut schedule = Schedule::new(&script);
        let mut ends = Vec::new();
        for statement in &script.body {
            let all = [true; 2];
            match statement {
                Statement::Group { calls, .. } => {
                    schedule.group(&all, calls);
                    ends.push([0, 1].map(|rank| schedule.kernel(0, rank)));
                }
                Statement::Only(_, _) => schedule.compute(&[false, true], 3_000_000),
                Statement::Compute(time) => schedule.compute(&all, *time),
                Statement::Join => schedule.join(&all),
                Statement::Sync => schedule.sync(&all),
                _ => {}
            }
        }
        assert_eq!(ends[0].map(|k| k.start), [Some(15_000), Some(3_005_000)]);
        assert!(ends[0].iter().all(|k| k.stop == Some(3_105_000)));
        // Rank 0 computes beside the operation and then after it, rank 1 after its 3 ms.
        let begins = [4_105_000, 6_005_000].map(|sync| Some(sync + 15_000));
        assert_eq!(ends[1].map(|k| k.start), begins);
    }

    #[test]
    fn a_pair_waits_for_its_peers_only() {
        let (_, kernels) = run("ranks 4\nrank 1 late 1ms\ngroup { send 1KiB to=+1 time=10us ; recv 1KiB from=-1 time=10us }");
        let stops: Vec<u64> = kernels[0].iter().map(|k| k.stop.unwrap()).collect();
        assert_eq!(stops[0], stops[2]);
        assert!(stops[3] < 1_000_000 && stops[0] > 1_000_000);
    }
}
