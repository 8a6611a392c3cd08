//! CUDA graphs: captured from a stream, built from others, instantiated, updated and launched.
//!
//! A graph is a list of nodes: a kernel, or another graph. Capture of a stream puts what is launched on it
//! into a new graph. An executable graph is a copy of a graph's kernels at that moment, as in CUDA. Launching
//! one keeps the stream busy for the sum of its kernels.

use crate::driver::{Driver, Kernel};
use std::collections::HashMap;

/// One node of a graph.
#[derive(Clone, Debug)]
pub enum Node {
    /// A kernel.
    Kernel(Kernel),
    /// A copy of another graph, made when it was added.
    Child(Vec<Node>),
    /// Graphs that run as often as the GPU decides. This GPU never runs them.
    Conditional,
}

/// A stream that is being captured.
#[derive(Clone, Copy, Debug)]
pub struct Capture {
    pub id: u64,
    pub graph: u64,
    /// Something was asked that ends a capture.
    pub spoilt: bool,
}

/// All graphs of the process.
#[derive(Default)]
pub struct Graphs {
    pub graphs: HashMap<u64, Vec<Node>>,
    pub execs: HashMap<u64, Vec<Node>>,
    pub captures: HashMap<u64, Capture>,
    pub captured: u64,
    /// Launches that were made, and kernels that they executed.
    pub launches: u64,
    pub executed: u64,
}

/// The kernels of some nodes, in order.
pub fn kernels(nodes: &[Node]) -> Vec<Kernel> {
    nodes
        .iter()
        .flat_map(|node| match node {
            Node::Kernel(kernel) => vec![*kernel],
            Node::Child(nodes) => kernels(nodes),
            Node::Conditional => Vec::new(),
        })
        .collect()
}

impl Driver {
    /// A handle that no other thing has.
    pub fn handle(&mut self) -> u64 {
        self.next += 1;
        self.next << 8
    }

    /// A new graph of these nodes.
    pub fn graph(&mut self, nodes: Vec<Node>) -> u64 {
        let graph = self.handle();
        self.graphs.graphs.insert(graph, nodes);
        graph
    }

    /// Begins to capture a stream, into `graph` or a new one; `None` if it is captured already.
    pub fn begin_capture(&mut self, stream: u64, graph: Option<u64>) -> Option<()> {
        if self.graphs.captures.contains_key(&stream) {
            return None;
        }
        let graph = graph.unwrap_or_else(|| self.graph(Vec::new()));
        self.graphs.captured += 1;
        let id = self.graphs.captured;
        let spoilt = false;
        self.graphs
            .captures
            .insert(stream, Capture { id, graph, spoilt });
        Some(())
    }

    /// Adds a node to the graph that a stream is captured into; false if it is not captured.
    pub fn captured(&mut self, stream: u64, node: Node) -> bool {
        let Some(capture) = self.graphs.captures.get(&stream) else {
            return false;
        };
        let nodes = self.graphs.graphs.get_mut(&capture.graph);
        nodes.expect("made when the capture began").push(node);
        true
    }

    /// Launches an executable graph.
    pub fn launch(&mut self, exec: u64, stream: u64) -> Option<()> {
        let nodes = self.graphs.execs.get(&exec)?.clone();
        if self.captured(stream, Node::Child(nodes.clone())) {
            return Some(());
        }
        let kernels = kernels(&nodes);
        self.graphs.launches += 1;
        self.graphs.executed += kernels.len() as u64;
        self.run(stream, (exec >> 8) as u32, &kernels);
        Some(())
    }
}
