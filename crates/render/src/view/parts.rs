//! The parts of a call as a tree: the API call, NCCL's enqueueing, the launch, the kernel, and the network.
//!
//! Rule: a part has a begin only if it was recorded; a part that is counted, and not timed, has a number.

use super::{Seen, View};
use serde_json::{json, Value};
use tables::calls::CallRef;

/// The parts of a call by begin, each with its number and its parent's.
pub(super) fn of(view: &View<'_>, call: &Seen, row: &CallRef<'_>) -> Vec<Value> {
    let of = row.call;
    let mut tree = Tree {
        view,
        call,
        parts: Vec::new(),
    };
    let known = |ns: i64| (ns != 0).then_some(ns);
    let api = tree.host("API call", None, known(of.api_ns), known(of.return_ns));
    if of.enqueue_ns != 0 {
        tree.host("NCCL enqueued it", api, known(of.enqueue_ns), None);
    }
    let launch = (known(of.launch_start_ns), known(of.launch_end_ns));
    let launch = tree.host("Launch of its kernel", api, launch.0, launch.1);
    let kernel = tree.kernel(launch.or(api));
    let extra = (of.extra as usize).checked_sub(1);
    let Some(extra) = extra.and_then(|index| row.process.extras.get(index)) else {
        return tree.parts;
    };
    if extra.ops_started == 0 {
        return tree.parts;
    }
    let operations = tree.counted(
        "Operations of the network proxy",
        kernel.or(api),
        json!({ "number": extra.ops_started, "finished": extra.ops_stopped }),
    );
    let steps = tree.counted(
        "Steps of these",
        Some(operations),
        json!({
            "number": extra.steps,
            "bytes_sent": extra.bytes_sent,
            "bytes_received": extra.bytes_received,
        }),
    );
    for (name, ns) in capture::live::WAITS.iter().zip(extra.waits_ns) {
        if ns != 0 {
            let sum = json!({ "sum_us": ns as f64 / 1e3 });
            tree.counted(name, Some(steps), sum);
        }
    }
    tree.parts
}

struct Tree<'a> {
    view: &'a View<'a>,
    call: &'a Seen,
    parts: Vec<Value>,
}

impl Tree<'_> {
    fn push(&mut self, mut part: Value, name: &str, parent: Option<usize>) -> usize {
        let number = self.parts.len();
        part["name"] = name.into();
        part["part"] = number.into();
        part["parent"] = parent.into();
        self.parts.push(part);
        number
    }

    /// On the host's clock; nothing without a begin.
    fn host(
        &mut self,
        name: &str,
        parent: Option<usize>,
        begin: Option<i64>,
        end: Option<i64>,
    ) -> Option<usize> {
        let begin = begin?;
        let process = self.call.process as usize;
        let at = |ns| self.view.timeline.on_one_clock(process, ns);
        let part = json!({
            "begin_us": self.view.us(at(begin)),
            "length_us": end.map(|end| (end - begin).max(0) as f64 / 1e3),
        });
        Some(self.push(part, name, parent))
    }

    fn kernel(&mut self, parent: Option<usize>) -> Option<usize> {
        if self.call.kind != super::Kind::Timed {
            return None;
        }
        let begin_us = self.view.us(self.call.span.begin);
        let length_us = self.call.length_ns() as f64 / 1e3;
        let part = json!({ "begin_us": begin_us, "length_us": length_us });
        let kernel = self.push(part, "Kernel on the GPU", parent);
        if self.call.transfer != super::NONE {
            let waited_us = self.call.waited_ns() as f64 / 1e3;
            let wait = json!({ "begin_us": begin_us, "length_us": waited_us });
            self.push(wait, "Waiting for the last rank", Some(kernel));
            let rest = json!({
                "begin_us": begin_us + waited_us,
                "length_us": self.call.transfer as f64 / 1e3,
            });
            self.push(rest, "Transfer", Some(kernel));
        }
        Some(kernel)
    }

    fn counted(&mut self, name: &str, parent: Option<usize>, figures: Value) -> usize {
        self.push(figures, name, parent)
    }
}
