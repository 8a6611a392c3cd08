//! CUDA graphs: capture them, and have a thread of the CUDA driver replay them.

use super::cuda::Graph;
use super::driver::Driver;
use crate::nccl::{Captured, Mode};
use crate::schedule::RankAction;
use crate::script::{Call, Statement};
use std::collections::HashMap;
use std::sync::Arc;

impl<'j> Driver<'j> {
    /// Captures the calls in `body`.
    pub(super) fn graph(&mut self, id: usize, body: &'j [Statement], who: &[bool]) {
        let mut graph = Vec::new();
        self.capture(body, who, &mut graph);
        self.graphs.insert(id, graph);
    }

    fn capture(&mut self, body: &'j [Statement], who: &[bool], graph: &mut Graph) {
        for statement in body {
            match statement {
                Statement::Group { calls, explicit } => {
                    // A choice is made at the capture, and stays for every replay.
                    let calls = self.chosen(calls, who);
                    self.schedule.capture(who, &calls);
                    let tasks = self.tasks(&calls, false);
                    let explicit = *explicit || self.mine.len() > 1;
                    let captured = self.launcher.group(&tasks, explicit, Mode::Capture);
                    graph.push((calls, Arc::new(captured)));
                }
                Statement::Repeat(times, body) => {
                    for _ in 0..*times {
                        self.capture(body, who, graph);
                    }
                }
                // The grammar allows nothing else in a graph.
                _ => {}
            }
        }
    }

    /// Launches a graph several times, if it was captured here.
    pub(super) fn replay(&mut self, id: usize, times: u64, who: &[bool]) {
        for _ in 0..times {
            let Some(graph) = self.graphs.get(&id).cloned() else {
                return;
            };
            for (calls, captured) in graph {
                self.replay_group(&calls, captured, who);
            }
        }
    }

    fn replay_group(&mut self, calls: &[Call], captured: Arc<Captured>, who: &[bool]) {
        self.schedule.group(who, calls);
        let Some(rank) = self.mine.iter().copied().find(|r| who[*r]) else {
            return;
        };
        if self.schedule.part(rank) == RankAction::None {
            return;
        }
        self.wait_host(rank);
        let mut kernels = HashMap::new();
        for ((comm, rank), index) in &self.open {
            kernels.insert(*index, self.schedule.kernel(*comm, *rank));
        }
        let (launcher, timeline) = (self.launcher.clone(), self.timeline(rank));
        let launched = self.schedule.host[rank];
        self.host_callbacks.push(move || {
            timeline.wait_gpu(launched);
            launcher.replay(&captured, |index| {
                kernels.get(&index).copied().unwrap_or_default()
            });
        });
    }
}
