//! The parts of a call as a tree: the API call, NCCL's enqueueing, the launch, the kernel, and the network.
//!
//! In a capture with events, each operation and step of the network proxy is a part of its own, and so is
//! each channel of the kernel. Each stands under the part that NCCL gives as its parent. Other captures have
//! their sums.
//!
//! Rule: a part has a begin only if it was recorded; a part that is counted, and not timed, has a number.

use super::call_events::CallEvents;
use super::{Slice, View};
use analyze::spelling::time;
use nccl_abi::event;
use serde_json::{json, Value};
use tables::calls::CallRef;

/// Events in the tree of one call, at most.
const MOST_EVENTS: usize = 1000;

/// The parts of a call by begin, each with its number and its parent's.
pub(super) fn of(view: &View<'_>, call: &Slice, row: &CallRef<'_>) -> Vec<Value> {
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
    let events = view.events.as_ref().zip(event_of(view, call, row));
    let mut room = MOST_EVENTS;
    if let Some((events, event)) = events {
        let channels = events.under(event, event::KERNEL_CH);
        tree.events(events, &channels, kernel.or(launch).or(api), &mut room);
    }
    let operations = events.map_or(Vec::new(), |(events, event)| {
        events.under(event, event::PROXY_OP)
    });
    let extra = (of.extra as usize).checked_sub(1);
    let extra = extra.and_then(|index| row.process.extras.get(index));
    let extra = extra.filter(|extra| extra.ops_started != 0);
    let number = extra.map_or(operations.len() as u64, |extra| extra.ops_started.into());
    if number == 0 {
        return tree.parts;
    }
    let mut figures = json!({ "number": number });
    if let Some(extra) = extra {
        figures["finished"] = extra.ops_stopped.into();
        figures["steps"] = extra.steps.into();
        figures["bytes_sent"] = extra.bytes_sent.into();
        figures["bytes_received"] = extra.bytes_received.into();
    }
    let proxy = tree.push(figures, "Operations of the network proxy", kernel.or(api));
    if let Some((events, _)) = events {
        tree.events(events, &operations, Some(proxy), &mut room);
    }
    let waits = extra.map_or([0; 6], |extra| extra.waits_ns);
    for (name, ns) in capture::live::WAITS.iter().zip(waits) {
        if ns != 0 {
            let sum = json!({ "sum_us": ns as f64 / 1e3 });
            tree.push(sum, waited(name), Some(proxy));
        }
    }
    tree.parts
}

/// What steps of the network proxy waited for, in words.
fn waited(name: &str) -> &str {
    match name {
        "send_gpu" => "Sends waited for the GPU",
        "send_peer" => "Sends waited for the peer",
        "send_network" => "Sends waited for the network",
        "recv_network" => "Receives waited for the network",
        "recv_flush" => "Receives waited for the flush",
        "recv_gpu" => "Receives waited for the GPU",
        other => other,
    }
}

struct Tree<'a> {
    view: &'a View<'a>,
    call: &'a Slice,
    parts: Vec<Value>,
}

/// The event of a call, if events were recorded.
pub(super) fn event_of(view: &View<'_>, call: &Slice, row: &CallRef<'_>) -> Option<usize> {
    let at = |ns: i64| {
        let known = (ns != 0).then_some(ns);
        known.map(|ns| view.timeline.on_one_clock(call.process as usize, ns))
    };
    let of = row.call;
    let (api, enqueue) = (at(of.api_ns), at(of.enqueue_ns));
    let events = view.events.as_ref()?;
    events.of(row, api, enqueue, at(of.return_ns))
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
        if self.call.kind != super::SliceKind::Timed {
            return None;
        }
        let begin_us = self.view.us(self.call.span.begin);
        let length_us = self.call.length_ns() as f64 / 1e3;
        let part = json!({ "begin_us": begin_us, "length_us": length_us });
        let kernel = self.push(part, "Kernel on the GPU", parent);
        if self.call.transfer != super::NONE {
            let waited_us = self.call.waited_ns() as f64 / 1e3;
            let wait = json!({
                "begin_us": begin_us,
                "length_us": waited_us,
                "colour": "wait",
            });
            self.push(wait, "Waiting for the last rank", Some(kernel));
            let rest = json!({
                "begin_us": begin_us + waited_us,
                "length_us": self.call.transfer as f64 / 1e3,
                "colour": "transfer",
            });
            self.push(rest, "Transfer", Some(kernel));
        }
        Some(kernel)
    }

    /// Events with all that lie under them by NCCL's parent links, as long as there is room.
    fn events(
        &mut self,
        events: &CallEvents<'_>,
        of: &[usize],
        parent: Option<usize>,
        room: &mut usize,
    ) {
        for (at, number) in of.iter().enumerate() {
            let Some(left) = room.checked_sub(1) else {
                let more = json!({ "number": of.len() - at });
                self.push(more, "More events (Events shows all)", parent);
                return;
            };
            *room = left;
            let bar = events.bar(*number);
            let all = events.events();
            // A state's name begins with that of its type.
            let kind = event::name(bar.kind).unwrap_or_default();
            let mut words: Vec<String> = Vec::new();
            if bar.process != self.call.process as usize {
                words.push(format!(
                    "by {}",
                    self.view.timeline.short_title(bar.process)
                ));
            }
            if let Some(channel) = all.fields(bar).get("channel_id") {
                words.push(format!("channel {channel}"));
            }
            words.extend(bar.states.iter().map(|state| {
                let after = time((state.at - bar.span.begin) as f64 / 1e3);
                let name = state.name.strip_prefix(kind).unwrap_or(&state.name);
                format!("{name} after {after}")
            }));
            if bar.stopped.is_none() {
                words.push("not stopped".to_owned());
            }
            let part = json!({
                "begin_us": self.view.us(bar.span.begin),
                "length_us": (bar.span.end - bar.span.begin) as f64 / 1e3,
                "event": bar.number,
                "text": words.join(", "),
            });
            let this = self.push(part, &all.name(bar), parent);
            let inside: Vec<usize> = events.children(*number).collect();
            self.events(events, &inside, Some(this), room);
        }
    }
}
