//! What the CUDA runtime of a process holds: captured graphs, and a thread that runs host callbacks.

use crate::nccl::Captured;
use crate::script::Call;
use std::sync::mpsc::{channel, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A captured graph: its groups, and the calls of each.
pub(super) type Graph = Vec<(Vec<Call>, Arc<Captured>)>;

/// Work for the thread on which the CUDA driver runs host callbacks.
type HostCallback = Box<dyn FnOnce() + Send>;

/// The thread on which the CUDA driver runs host callbacks. It begins with the first one.
#[derive(Default)]
pub(super) struct HostCallbacks(Option<(Sender<HostCallback>, JoinHandle<()>)>);

impl HostCallbacks {
    /// Has the thread run `work` after all that it was given before.
    pub(super) fn push(&mut self, work: impl FnOnce() + Send + 'static) {
        let (sender, _) = self.0.get_or_insert_with(|| {
            let (sender, works) = channel::<HostCallback>();
            let run = move || works.into_iter().for_each(|work| work());
            let thread = std::thread::Builder::new().name("cuda-EvtHandlr".into());
            (sender, thread.spawn(run).expect("a thread"))
        });
        // The thread only ends when the sender is dropped.
        let _ = sender.send(Box::new(work));
    }

    /// Waits until all is run, and ends the thread.
    pub(super) fn drain(&mut self) {
        if let Some((sender, thread)) = self.0.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}
