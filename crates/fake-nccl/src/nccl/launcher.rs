//! The communicators that one thread drives, and the count of what they announced.
//!
//! `group`, `launch`, `task_events` and `graph` have what a [`Launcher`] does.

use super::communicator::Communicator;
use super::plan::{Planned, Task};
use crate::announced::{Announced, Operation, Times};
use crate::event::Text;
use crate::lock::lock;
use std::sync::{Arc, Mutex};

/// A captured group, to be replayed.
pub struct Captured {
    pub(super) tasks: Vec<Task>,
    pub(super) planned: Vec<Planned>,
}

impl Captured {
    /// The communicators of its calls, in the order of their first calls.
    pub(super) fn communicators(&self) -> Vec<usize> {
        let mut found = Vec::new();
        for task in &self.tasks {
            if !found.contains(&task.comm) {
                found.push(task.comm);
            }
        }
        found
    }
}

/// How a group is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The group is launched.
    Eager,
    /// The group is captured into a CUDA graph.
    Capture,
    /// As [`Mode::Eager`], but the first API call never returns.
    Inside,
}

/// Plays groups on one thread's communicators.
#[derive(Clone, Default)]
pub struct Launcher {
    /// The communicators that this thread drives.
    pub comms: Vec<Arc<Communicator>>,
    /// What they announced.
    pub announced: Arc<Mutex<Announced>>,
}

impl Launcher {
    /// Counts a call, and the names of functions under which it was announced.
    pub(super) fn count(&self, task: &Task, times: Times, functions: &[Text]) {
        let comm = &self.comms[task.comm];
        let mut announced = lock(&self.announced);
        for function in functions {
            let name = function.to_str().unwrap_or_default();
            match announced.functions.get_mut(name) {
                Some(n) => *n += 1,
                None => {
                    announced.functions.insert(name.into(), 1);
                }
            }
        }
        if times == Times::default() {
            return;
        }
        let operation = Operation {
            communicator: comm.identity.hash,
            name: comm.label.clone(),
            nranks: comm.size(),
            function: task.call.op.func().to_string_lossy().into_owned(),
            datatype: task.call.datatype.to_string_lossy().into_owned(),
            bytes: task.call.bytes,
        };
        announced
            .operations
            .entry(operation)
            .or_default()
            .add(times);
    }
}
