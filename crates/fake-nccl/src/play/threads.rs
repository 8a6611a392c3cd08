//! The threads of a process, from the first communicator to the end.

use super::driver::Driver;
use super::job::{Flow, Job, Stuck};
use crate::bench::cpu_ns;
use crate::script::Statement;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Barrier;

impl Job {
    /// Plays these ranks: one thread each, or one for all.
    pub(super) fn run(&self, ranks: Range<usize>) -> Flow {
        let teams: Vec<Vec<usize>> = if self.script.one_thread {
            vec![ranks.collect()]
        } else {
            ranks.map(|rank| vec![rank]).collect()
        };
        let barrier = Barrier::new(teams.len());
        let flows: Vec<Flow> = std::thread::scope(|scope| {
            let threads: Vec<_> = teams
                .into_iter()
                .map(|mine| {
                    let barrier = &barrier;
                    scope.spawn(move || Driver::new(self, mine).run(barrier))
                })
                .collect();
            let joined = threads.into_iter().map(|t| t.join());
            joined
                .map(|flow| flow.unwrap_or(Flow::Break(Stuck)))
                .collect()
        });
        if flows.iter().any(Flow::is_break) {
            Flow::Break(Stuck)
        } else {
            Flow::Continue(())
        }
    }
}

impl Driver<'_> {
    fn run(mut self, barrier: &Barrier) -> Flow {
        let script = &self.job.script;
        let everyone = vec![true; script.ranks];
        let first = script
            .body
            .iter()
            .take_while(|s| matches!(s, Statement::Create(_)));
        let first = first.count();
        self.statements(&script.body[..first], &everyone)?;
        if barrier.wait().is_leader() {
            self.job.begin();
        }
        barrier.wait();
        let cpu = || cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        let began = cpu();
        let flow = self.statements(&script.body[first..], &everyone);
        let spent = cpu().saturating_sub(began);
        self.job.calling_cpu_ns.fetch_add(spent, Relaxed);
        flow?;
        self.host_callbacks.drain();
        if self.mine.iter().any(|r| self.schedule.stuck(*r)) {
            // Whether it would destroy or only synchronise, it waits for its GPU.
            return Flow::Break(Stuck);
        }
        let mut open: Vec<_> = self.open.drain().collect();
        open.sort_unstable();
        for (_, index) in open {
            if script.destroy {
                self.launcher.comms[index].destroy(&self.job.loader);
            } else {
                self.launcher.comms[index].drain();
            }
        }
        Flow::Continue(())
    }
}
