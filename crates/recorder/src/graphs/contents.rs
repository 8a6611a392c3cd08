//! Which captured calls a graph executes.
//!
//! A graph gets calls in three ways: a stream is captured into it, another graph becomes its child, or it is
//! a copy of another. [`Contents`] follows each way by the graph's handle. When a graph is instantiated, what
//! it executes is settled: CUDA copies the graph then, so later changes of the graph don't count.
//!
//! Rule: what can't be followed is never taken for nothing. A graph with calls that can't be counted is
//! [`Content::uncountable`]. A captured call that was never seen in an executable graph stays unseen. This
//! runs on the program's threads, so no allocation may end the process: what finds no memory is uncountable.

use crate::heap::copied;
use capture::graphs::UNCOUNTABLE;
use std::collections::HashMap;

/// What one launch of a graph executes.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct Content {
    /// Calls in the order of capture: their shape and how many.
    pub runs: Vec<(u32, u32)>,
    /// Parts of it run as often as the GPU decides, or were replaced in a way that was not followed.
    pub uncountable: bool,
}

impl Content {
    /// Whether it makes no NCCL call, as far as is known.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && !self.uncountable
    }

    /// The same once more; uncountable if there is no memory.
    pub fn copied(&self) -> Content {
        let mut copy = Content::default();
        copy.add(self);
        copy
    }

    fn push(&mut self, shape: u32, calls: u32) {
        if let Some(run) = self.runs.last_mut().filter(|run| run.0 == shape) {
            run.1 = run.1.saturating_add(calls);
        } else if self.runs.try_reserve(1).is_ok() {
            self.runs.push((shape, calls));
        } else {
            self.uncountable = true;
        }
    }

    /// As in a block; `None` if there is no memory.
    pub fn numbered(&self, number: u32) -> Option<capture::graphs::Contents> {
        Some(capture::graphs::Contents {
            number,
            flags: if self.uncountable { UNCOUNTABLE } else { 0 },
            runs: copied(&self.runs)?,
        })
    }

    /// Adds what another executes.
    pub fn add(&mut self, other: &Content) {
        for (shape, calls) in &other.runs {
            self.push(*shape, *calls);
        }
        self.uncountable |= other.uncountable;
    }
}

#[derive(Default)]
struct Graph {
    content: Content,
    /// Graphs that are the bodies of its conditional nodes. Calls may be captured into these later.
    bodies: Vec<u64>,
}

/// All graphs that have captured calls, by handle.
#[derive(Default)]
pub struct Contents {
    graphs: HashMap<u64, Graph>,
    /// Graphs with calls that found no memory, since they were asked for.
    pub lost: u32,
}

impl Contents {
    /// A call was captured into a graph.
    pub fn captured(&mut self, graph: u64, shape: u32) {
        if let Some(graph) = self.of_handle(graph) {
            graph.content.push(shape, 1);
        }
    }

    /// A call was captured into a graph, and it is not known which.
    pub fn uncountable(&mut self, graph: u64) {
        if let Some(graph) = self.of_handle(graph) {
            graph.content.uncountable = true;
        }
    }

    fn of_handle(&mut self, graph: u64) -> Option<&mut Graph> {
        if self.graphs.try_reserve(1).is_err() && !self.graphs.contains_key(&graph) {
            self.lost += 1;
            return None;
        }
        Some(self.graphs.entry(graph).or_default())
    }

    /// A graph, as it is now, became a part of another.
    pub fn added(&mut self, parent: u64, child: u64) {
        let content = self.of(child);
        if !content.is_empty() {
            self.launched_into(parent, &content);
        }
    }

    /// An executable graph became a part of a graph, because it was launched on a stream that is captured.
    pub fn launched_into(&mut self, parent: u64, content: &Content) {
        if let Some(graph) = self.of_handle(parent) {
            graph.content.add(content);
        }
    }

    /// A graph was copied.
    pub fn cloned(&mut self, clone: u64, original: u64) {
        // A handle of a graph that was destroyed may be used again.
        self.graphs.remove(&clone);
        self.added(clone, original);
    }

    /// A graph runs as often as a node of its parent decides.
    pub fn body(&mut self, parent: u64, body: u64) {
        let Some(graph) = self.of_handle(parent) else {
            return;
        };
        match graph.bodies.try_reserve(1) {
            Ok(()) => graph.bodies.push(body),
            Err(_) => graph.content.uncountable = true,
        }
    }

    /// The graphs that run as often as nodes of this one decide.
    pub fn bodies(&self, parent: u64) -> &[u64] {
        let known = self.graphs.get(&parent);
        known.map_or(&[], |graph| &graph.bodies)
    }

    /// A graph was destroyed, or its capture failed. What was made of it stays.
    pub fn destroyed(&mut self, graph: u64) {
        self.graphs.remove(&graph);
    }

    /// What a graph executes, if it is instantiated now.
    pub fn of(&self, graph: u64) -> Content {
        // CUDA allows no circles of graphs, but a handle that was used again could close one here.
        self.of_depth(graph, 8)
    }

    fn of_depth(&self, graph: u64, depth: u32) -> Content {
        let Some(known) = self.graphs.get(&graph).filter(|_| depth != 0) else {
            return Content::default();
        };
        let mut content = known.content.copied();
        for body in &known.bodies {
            let inner = self.of_depth(*body, depth - 1);
            content.uncountable |= !inner.is_empty();
            content.add(&inner);
        }
        content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_one_shape_in_a_row_are_one_run() {
        let mut contents = Contents::default();
        for shape in [4, 4, 4, 9, 4] {
            contents.captured(1, shape);
        }
        assert_eq!(contents.of(1).runs, [(4, 3), (9, 1), (4, 1)]);
        assert!(contents.of(2).is_empty());
    }

    #[test]
    fn a_child_counts_as_often_as_it_was_added() {
        let mut contents = Contents::default();
        contents.captured(1, 0);
        contents.added(2, 1);
        contents.captured(2, 1);
        contents.added(2, 1);
        // What is captured later is not in the copies.
        contents.captured(1, 2);
        assert_eq!(contents.of(2).runs, [(0, 1), (1, 1), (0, 1)]);
        assert_eq!(contents.of(1).runs, [(0, 1), (2, 1)]);
    }

    #[test]
    fn a_copy_outlives_its_original_and_a_handle_may_come_back() {
        let mut contents = Contents::default();
        contents.captured(1, 0);
        contents.cloned(2, 1);
        contents.destroyed(1);
        assert_eq!(contents.of(2).runs, [(0, 1)]);
        assert!(contents.of(1).is_empty());
        contents.captured(1, 7);
        contents.cloned(2, 1);
        assert_eq!(contents.of(2).runs, [(7, 1)]);
    }

    #[test]
    fn calls_in_the_body_of_a_condition_are_known_and_not_countable() {
        let mut contents = Contents::default();
        contents.captured(1, 0);
        contents.body(1, 2);
        assert!(!contents.of(1).uncountable);
        contents.captured(2, 1);
        let content = contents.of(1);
        assert!(content.uncountable);
        assert_eq!(content.runs, [(0, 1), (1, 1)]);
        contents.added(3, 1);
        assert!(contents.of(3).uncountable);
        // A circle, by a handle that was used again.
        contents.body(2, 1);
        assert!(contents.of(1).uncountable);
    }
}
