//! One of NCCL's threads, and its queue.

use super::work::Work;
use crate::lock::lock;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};

/// A thread of NCCL: the proxy's progress thread, or the profiler thread of 2.31 and later. Communicators
/// that share resources share it.
pub(super) struct Worker {
    sender: Mutex<Option<Sender<Work>>>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
    /// Communicators that use it.
    users: AtomicUsize,
}

impl Worker {
    pub(super) fn spawn(
        name: &str,
        run: impl FnOnce(Receiver<Work>) + Send + 'static,
    ) -> Arc<Worker> {
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || run(receiver))
            .expect("a thread");
        Arc::new(Worker {
            sender: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
            users: AtomicUsize::new(1),
        })
    }

    /// The same thread for another communicator.
    pub(super) fn share(self: &Arc<Worker>) -> Arc<Worker> {
        self.users.fetch_add(1, AcqRel);
        self.clone()
    }

    pub(super) fn send(&self, work: Work) {
        if let Some(sender) = &*lock(&self.sender) {
            // The thread only ends when the sender is gone, or by a panic that is on stderr already.
            let _ = sender.send(work);
        }
    }

    /// A communicator needs it no more. The last one ends the thread, and waits until it has.
    pub(super) fn leave(&self) {
        let before = self.users.fetch_sub(1, AcqRel);
        if before > 1 {
            return;
        }
        drop(lock(&self.sender).take());
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }
}
