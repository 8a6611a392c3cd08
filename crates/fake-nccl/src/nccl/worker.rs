//! One of NCCL's threads, and its queue.

use super::work::Work;
use crate::lock::lock;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Mutex;

/// A thread of NCCL: the proxy's progress thread, or the profiler thread of 2.31 and later.
pub(super) struct Worker {
    sender: Mutex<Option<Sender<Work>>>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Worker {
    pub(super) fn spawn(name: &str, run: impl FnOnce(Receiver<Work>) + Send + 'static) -> Worker {
        let (sender, receiver) = channel();
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || run(receiver))
            .expect("a thread");
        Worker {
            sender: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
        }
    }

    pub(super) fn send(&self, work: Work) {
        if let Some(sender) = &*lock(&self.sender) {
            // The thread only ends when the sender is gone, or by a panic that is on stderr already.
            let _ = sender.send(work);
        }
    }

    pub(super) fn join(&self) {
        drop(lock(&self.sender).take());
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }
}
