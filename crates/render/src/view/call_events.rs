//! Which events are those of a call: what a capture in `callbacks` mode adds to the parts of a call.
//!
//! A row is made when NCCL starts the event of a call, a moment before the callback is written, by the same
//! thread. So the event of a call is the first of its function that starts at the call's time or after it,
//! and before the call returns. What lies under that event by NCCL's parent links belongs to the call.
//!
//! Rule: an event is given to a call only if thread, function and time agree.

use crate::events::{Bar, Events};
use nccl_abi::event;
use tables::calls::CallRef;

/// Events of calls as programs make them.
const API: u64 = event::COLL_API | event::P2P_API;
/// Events of calls as NCCL does them, which is all that there is before ABI v5.
const TASK: u64 = event::COLL | event::P2P | event::CE_COLL;
/// A call whose return is not known has its event within so many ns.
const SOON: i64 = 1_000_000;

/// Events by what is asked of them.
pub(super) struct CallEvents<'a> {
    events: &'a Events<'a>,
    /// By process, those of calls and their tasks: when they started, and which they are.
    starts: Vec<Vec<(i64, usize)>>,
    /// Parents and their children.
    children: Vec<(usize, usize)>,
    /// Operations with parts on several ranks, and these parts.
    operations: Vec<(u64, usize)>,
}

impl<'a> CallEvents<'a> {
    pub(super) fn new(events: &'a Events<'a>) -> CallEvents<'a> {
        let mut starts = vec![Vec::new(); events.capture().processes.len()];
        let mut children = Vec::new();
        let mut operations = Vec::new();
        for (number, bar) in events.bars.iter().enumerate() {
            if bar.kind & (API | TASK) != 0 {
                starts[bar.process].push((bar.started, number));
            }
            children.extend(bar.parent.map(|parent| (parent, number)));
            operations.extend(bar.operation.map(|operation| (operation, number)));
        }
        starts.iter_mut().for_each(|of_process| of_process.sort());
        children.sort_unstable();
        operations.sort_unstable();
        CallEvents {
            events,
            starts,
            children,
            operations,
        }
    }

    /// A bar by its index.
    pub(super) fn bar(&self, index: usize) -> &'a Bar {
        &self.events.bars[index]
    }

    /// All events.
    pub(super) fn events(&self) -> &'a Events<'a> {
        self.events
    }

    /// The event of a call, made at `api` or enqueued at `enqueue` and over at `end`, all ns since 1970.
    pub(super) fn of(
        &self,
        row: &CallRef<'_>,
        api: Option<i64>,
        enqueue: Option<i64>,
        end: Option<i64>,
    ) -> Option<usize> {
        let (kinds, from) = match api {
            Some(api) => (API, api),
            None => (TASK, enqueue?),
        };
        let until = end.filter(|_| api.is_some()).unwrap_or(from + SOON);
        let function = row.capture.names.get(row.shape.function)?;
        let starts = self.starts.get(row.index)?;
        let first = starts.partition_point(|(started, _)| *started < from);
        let in_time = starts[first..].iter().take_while(|(at, _)| *at <= until);
        let is_it = |bar: &Bar| {
            let thread = self.events.thread(bar).zip(row.shape.thread);
            let is_of_thread = thread.is_none_or(|(a, b)| a == b);
            bar.kind & kinds != 0 && is_of_thread && self.events.fields(bar)["func"] == function
        };
        in_time
            .map(|(_, number)| *number)
            .find(|number| is_it(self.bar(*number)))
    }

    /// The event of the call that an event belongs to: itself, or the one above it.
    pub(super) fn of_call(&self, of: usize) -> Option<usize> {
        let mut above = std::iter::successors(Some(of), |number| self.bar(*number).parent);
        let kind = |number: &usize| self.bar(*number).kind;
        let task = above.clone().find(|number| kind(number) & TASK != 0);
        above.find(|number| kind(number) & API != 0).or(task)
    }

    /// The events that name this one as their parent, by begin.
    pub(super) fn children(&self, of: usize) -> impl Iterator<Item = usize> + '_ {
        let first = self.children.partition_point(|(parent, _)| *parent < of);
        let mine = move |(parent, _): &&(usize, usize)| *parent == of;
        let of_it = self.children[first..].iter().take_while(mine);
        of_it.map(|(_, child)| *child)
    }

    /// The parts on all ranks of the operation that an event is of: its own, or that of what it belongs to,
    /// or that of what belongs to it. Empty if it is of none, or of one without other parts.
    pub(super) fn same_operation(&self, of: usize) -> Vec<usize> {
        let above = std::iter::successors(Some(of), |number| self.bar(*number).parent);
        let above = above.filter_map(|number| self.bar(number).operation).next();
        let below = || {
            let tasks = self.under(of, TASK);
            tasks.iter().find_map(|number| self.bar(*number).operation)
        };
        let Some(operation) = above.or_else(below) else {
            return Vec::new();
        };
        let first = self
            .operations
            .partition_point(|(other, _)| *other < operation);
        let mine = self.operations[first..].iter();
        let mine = mine.take_while(|(other, _)| *other == operation);
        mine.map(|(_, number)| *number).collect()
    }

    /// Events of a type under this one, however deep.
    pub(super) fn under(&self, of: usize, kind: u64) -> Vec<usize> {
        let mut found = Vec::new();
        let mut open: Vec<usize> = self.children(of).collect();
        while let Some(number) = open.pop() {
            if self.bar(number).kind & kind != 0 {
                found.push(number)
            } else {
                open.extend(self.children(number))
            }
        }
        found.sort_by_key(|number| (self.bar(*number).span.begin, *number));
        found
    }
}
