//! How new the evidence of each rank is, and when each was last seen to do something.
//!
//! [`Evidence`] is read from the clocks and calls of the capture. All times of a verdict count back from the
//! newest evidence of the whole capture, `as_of`, because nothing later is known of the job. Clocks of hosts
//! are taken to agree here: a hang lasts far longer than they differ.
//!
//! Rule: a time that was not recorded is `None`, never a guess.

use super::calls::CaptureCalls;
use super::pace::Pace;
use super::reached::newest;
use crate::time::{HostTime, Nanos};
use std::collections::BTreeMap;

/// When processes were seen, and when they were active.
pub(super) struct Evidence {
    /// By process: when it was seen last.
    pub newest: Vec<Option<HostTime>>,
    /// By vertex: newest host time of any of its calls. A launch of a CUDA graph counts for
    /// all vertices of the process.
    pub active: Vec<Option<HostTime>>,
    /// The newest evidence of all processes.
    pub as_of: Option<HostTime>,
    /// Longest pause between two calls that a process has come back from.
    pub longest_pause: Nanos,
    /// By process.
    pub paces: Vec<Pace>,
    /// `as_of` is when the capture shows the job. A file of another tool may not say when it was written.
    /// Then `as_of` is the time of the newest call, and how long ago anything was is not known.
    is_dated: bool,
}

impl Evidence {
    /// `paces` are of all calls; `None` if all are in the capture.
    pub fn new(calls: &CaptureCalls, paces: Option<Vec<Pace>>) -> Evidence {
        let processes = &calls.capture.processes;
        let newest_of = processes.iter().map(|p| p.clock.newest().map(HostTime));
        let newest_of: Vec<Option<HostTime>> = newest_of.collect();
        let mut vertices: Vec<BTreeMap<u32, usize>> = vec![BTreeMap::new(); processes.len()];
        for own in calls.communicators.iter().flat_map(|all| &all.ranks) {
            vertices[own.process].insert(own.uid, own.vertex);
        }
        let mut active = vec![None; calls.vertices];
        let mut of_calls = Vec::with_capacity(processes.len());
        for (process, vertices) in processes.iter().zip(&vertices) {
            let shapes = process.shapes.iter();
            let vertex_of: Vec<Option<usize>> = shapes
                .map(|shape| vertices.get(&shape.uid).copied())
                .collect();
            let mut pace = Pace::default();
            for call in &process.calls {
                if let Some(vertex) = vertex_of[call.shape as usize] {
                    active[vertex] = active[vertex].max(newest(call));
                }
                pace.add(call);
            }
            of_calls.push(pace);
            let graphs = process.graphs.executables.iter();
            let launched = graphs.filter_map(|graph| graph.newest).max();
            for vertex in vertices.values() {
                active[*vertex] = active[*vertex].max(launched.map(HostTime));
            }
        }
        let paces = paces.unwrap_or(of_calls);
        let longest_pause = paces.iter().map(|pace| pace.longest).max();
        Evidence {
            as_of: newest_of.iter().flatten().copied().max(),
            newest: newest_of,
            active,
            longest_pause: longest_pause.unwrap_or_default(),
            paces,
            is_dated: processes
                .iter()
                .all(|of| of.fact("as_of") != Some("unknown")),
        }
    }

    /// How long ago a time was, as of the newest evidence.
    pub fn ago(&self, since: Option<HostTime>) -> Option<Nanos> {
        if !self.is_dated {
            return None;
        }
        Some((self.as_of? - since?).max(Nanos::ZERO))
    }
}
