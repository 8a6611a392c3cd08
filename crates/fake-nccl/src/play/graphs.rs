//! CUDA graphs: captured, and replayed by a thread of the CUDA driver.

use super::cuda::{Graph, HostCallback};
use super::driver::Driver;
use crate::nccl::Mode;
use crate::schedule::Part;
use crate::script::Statement;
use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::sync::Arc;

impl<'j> Driver<'j> {
    pub(super) fn capture(&mut self, body: &'j [Statement], who: &[bool], graph: &mut Graph) {
        for statement in body {
            match statement {
                Statement::Group { calls, explicit } => {
                    self.schedule.capture(who, calls);
                    let tasks = self.tasks(calls, false);
                    let explicit = *explicit || self.mine.len() > 1;
                    let captured = self.launcher.group(&tasks, explicit, Mode::Capture);
                    graph.push((calls.clone(), Arc::new(captured)));
                }
                Statement::Repeat(times, body) => {
                    for _ in 0..*times {
                        self.capture(body, who, graph);
                    }
                }
                // The parser lets nothing else into a graph.
                _ => {}
            }
        }
    }

    pub(super) fn replay(&mut self, id: usize, who: &[bool]) {
        let Some(graph) = self.graphs.get(&id).cloned() else {
            return;
        };
        for (calls, captured) in graph {
            self.schedule.group(who, &calls);
            let Some(rank) = self.mine.iter().copied().find(|r| who[*r]) else {
                continue;
            };
            if self.schedule.part(rank) == Part::None {
                continue;
            }
            self.wait_host(rank);
            let mut kernels = HashMap::new();
            for ((comm, rank), index) in &self.open {
                kernels.insert(*index, self.schedule.kernel(*comm, *rank));
            }
            let (launcher, timeline) = (self.launcher.clone(), self.timeline(rank));
            let launched = self.schedule.host[rank];
            self.host_callback(Box::new(move || {
                timeline.wait_gpu(launched);
                launcher.replay(&captured, |index| {
                    kernels.get(&index).copied().unwrap_or_default()
                });
            }));
        }
    }

    pub(super) fn host_callback(&mut self, work: HostCallback) {
        let (sender, _) = self.host_callbacks.get_or_insert_with(|| {
            let (sender, works) = channel::<HostCallback>();
            let run = move || works.into_iter().for_each(|work| work());
            let thread = std::thread::Builder::new().name("cuda-EvtHandlr".into());
            (sender, thread.spawn(run).expect("a thread"))
        });
        // The thread only ends when the sender is dropped.
        let _ = sender.send(work);
    }

    pub(super) fn drain_host_callbacks(&mut self) {
        if let Some((sender, thread)) = self.host_callbacks.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}
