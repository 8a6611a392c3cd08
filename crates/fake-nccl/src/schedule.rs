//! The job's virtual time: when each rank calls, arrives on its GPU and is done.
//!
//! A [`Schedule`] follows the whole script for all ranks, in every process alike. A call takes some
//! microseconds of its rank's host. Its kernel arrives when it is launched, its stream is free, and the
//! program's own kernels before it are done. It ends a transfer time after the last rank of the operation has
//! arrived. What hosts and GPUs do at single statements is here; `group` has groups of calls.
//!
//! Rule: no clock is read here. The same script gives the same times on every machine and in every process,
//! so the stamps of different processes agree without communication.
//!
//! Simplifications, so that one pass suffices: rooted collectives end like the others. A send or receive ends
//! by itself, as if buffered, if its peer makes no matching call in the same statement.

mod group;
mod kernel;
mod model;

use crate::script::{Act, Script};
use crate::stuck::{Drag, Stop};

pub use kernel::{Kernel, RankAction};
pub use model::{instance, nodes, ranks, time};

/// From a call's end on the host to its kernel's start on an idle GPU.
const LAUNCH_NS: u64 = 5_000;

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
    parts: Vec<RankAction>,
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
            parts: vec![RankAction::None; ranks],
        }
    }

    /// Notes what happens to a rank. A rank that ends by it makes no further call.
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

    /// Whether a rank makes no further call.
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

    /// The hosts of `who` wait for their GPUs. Those that wait for ever make no further call.
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

    /// The GPUs of `who` run a kernel of the program's own. Calls made after it wait for it.
    pub fn compute(&mut self, who: &[bool], time: u64) {
        for rank in ranks(who) {
            self.computed[rank] = self.computed[rank].max(self.host[rank] + LAUNCH_NS) + time;
        }
    }

    /// The next kernel of the program's own on the GPUs of `who` waits for the operations before.
    pub fn join(&mut self, who: &[bool]) {
        for rank in ranks(who) {
            self.computed[rank] = self.computed[rank].max(self.streams(rank));
        }
    }

    /// When what was launched by now begins on an idle GPU of a rank, and when its own kernels are done.
    pub fn computing(&self, rank: usize) -> [u64; 2] {
        [self.host[rank] + LAUNCH_NS, self.computed[rank]]
    }

    /// When the operations of a rank are over.
    fn streams(&self, rank: usize) -> u64 {
        self.stream.iter().map(|c| c[rank]).max().unwrap_or(0)
    }

    /// What `rank` does in the last group that was given to [`Schedule::group`].
    pub fn part(&self, rank: usize) -> RankAction {
        self.parts[rank]
    }

    /// When its kernel on a communicator ran.
    pub fn kernel(&self, comm: usize, rank: usize) -> Kernel {
        self.kernels[comm][rank]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Statement;
    use crate::stuck::Held;

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
        let script = "ranks 2
            rank 1 { compute 3ms }
            all_reduce 1KiB time=100us
            compute 2ms
            join
            compute 1ms
            sync
            all_reduce 1KiB time=100us";
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
    fn each_rank_of_a_group_makes_its_own_sends() {
        // Along a pipeline: the first only sends, and the last only receives.
        let (_, kernels) = run("ranks 3
            rank 0 late 1ms
            group { send 1KiB to=1 by=0 time=10us ; recv 1KiB from=0 by=1 time=10us }
            group { send 1KiB to=2 by=1 time=10us ; recv 1KiB from=1 by=2 time=10us }");
        let stop = |call: usize, rank: usize| kernels[call][rank].stop;
        assert_eq!(stop(0, 0), stop(0, 1));
        assert!(stop(0, 0) > Some(1_000_000) && stop(0, 2).is_none());
        assert_eq!(stop(1, 1), stop(1, 2));
        assert!(stop(1, 1) > stop(0, 1));
    }

    #[test]
    fn a_pair_waits_for_its_peers_only() {
        let (_, kernels) = run("ranks 4
            rank 1 late 1ms
            group { send 1KiB to=+1 time=10us ; recv 1KiB from=-1 time=10us }");
        let stops: Vec<u64> = kernels[0].iter().map(|k| k.stop.unwrap()).collect();
        assert_eq!(stops[0], stops[2]);
        assert!(stops[3] < 1_000_000 && stops[0] > 1_000_000);
    }
}
