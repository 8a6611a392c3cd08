//! What is kept of each kernel while a capture is read.

use super::operations::{Lane, Operations, RankPart, OTHER, OWN};
use super::over_time::OverTime;
use super::{hosts, Arrivals};
use crate::clocks::{Clocks, Given};
use crate::executions::{Execution, Walk};
use crate::matching::Matcher;
use crate::subject::ProcessId;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use tables::calls::Untimed;
use tables::{Capture, Name, Process};

/// Whether no rank can leave this function before the last has arrived.
pub fn waits_for_last(function: &str) -> bool {
    matches!(
        function,
        "AllReduce" | "AllGather" | "ReduceScatter" | "AlltoAll"
    )
}

/// If there are more kernels than this, a part of them is kept: at 80 bytes each, all take 2.5 GiB.
const MOST_PARTS: usize = 1 << 25;

/// What is gathered.
pub struct Gatherer {
    lanes: Vec<Lane>,
    /// Kernels that are kept.
    kept: usize,
    /// [`MOST_PARTS`], and fewer in tests.
    most: usize,
    /// One in `1 << level` operations is kept.
    level: u32,
    /// Calls whose length is all that is known of their GPU time.
    lengths: u64,
    /// By row, calls that were left out of the sample that is timed.
    unsampled: Vec<u64>,
}

impl Default for Gatherer {
    fn default() -> Gatherer {
        Gatherer::keeping(MOST_PARTS)
    }
}

/// Where the executions of a process go, by place.
pub struct Routes(Vec<Way>);

/// Where the executions of a place go.
struct Way {
    lane: u32,
    /// As in [`Part`].
    communicator: u32,
    /// Whether all ranks of these wait for the last.
    all: bool,
    /// Whether times of these enclose the kernel: CUDA events, and stamps of RING.
    encloses: bool,
    /// The line that calls from here, if the process has stacks.
    caller: Option<Name>,
}

impl Gatherer {
    /// A gatherer that keeps so many kernels.
    pub(crate) fn keeping(most: usize) -> Gatherer {
        Gatherer {
            lanes: Vec::new(),
            kept: 0,
            most,
            level: 0,
            lengths: 0,
            unsampled: Vec::new(),
        }
    }

    /// Prepares for a process.
    pub fn plan(&mut self, capture: &Capture, process: &Process, walk: &Walk) -> Routes {
        let mut lanes: BTreeMap<Option<u32>, u32> = BTreeMap::new();
        let has_callers = walk.places().iter().any(|p| p.shape.caller != Name::NONE);
        let mut lane = |place: &crate::executions::Place| {
            let local = process.communicator(place.shape.uid);
            let device = local.and_then(|l| l.device);
            let function = capture.names.get(place.function);
            let all = function.is_some_and(waits_for_last);
            let lane = *lanes.entry(device).or_insert_with(|| {
                self.lanes.push(Lane {
                    process: ProcessId::of(process),
                    clock: process.clock_host().to_owned(),

                    device,
                    parts: Vec::new(),
                    network: Vec::new(),
                    callers: Vec::new(),
                    exposed: Vec::new(),
                });
                self.lanes.len() as u32 - 1
            });
            Way {
                lane,
                communicator: place.shape.communicator.unwrap_or(u32::MAX),
                all,
                encloses: place.shape.has_events()
                    || capture.names.get(place.shape.algorithm) == Some("RING"),
                caller: has_callers.then_some(place.shape.caller),
            }
        };
        Routes(walk.places().iter().map(&mut lane).collect())
    }

    /// Adds an execution, which is operation `at` and counted in `row` where it is to count. Those without a
    /// time are left out.
    #[inline]
    pub fn add(&mut self, plan: &Routes, execution: &Execution, at: Option<((u32, u64), u32)>) {
        let way = &plan.0[execution.place];
        let times = execution.kernel.on_either_clock();
        let Some((start, stop)) = times.filter(|_| !execution.captured) else {
            self.lengths += u64::from(execution.gpu.is_ok());
            let row = at.filter(|_| way.all && execution.gpu == Err(Untimed::Unsampled));
            if let Some((_, row)) = row {
                self.leave_out(row, 1);
            }
            return;
        };
        let counts = |((sequence, number), row): ((u32, u64), u32)| {
            Some((sequence, u32::try_from(number).ok()?, row))
        };
        let at = at.filter(|_| way.all && execution.gpu.is_ok());
        let own = if execution.gpu.is_ok() && !execution.warmup {
            OWN
        } else {
            0
        };
        let (sequence, number, row) = at.and_then(counts).unwrap_or((OTHER, 0, own));
        let part = RankPart {
            sequence,
            number,
            ns: stop.saturating_sub(start),
            row,
            start,
            launch_ns: execution.call.launch_start_ns,
            error: execution
                .kernel
                .error()
                .filter(|_| way.encloses)
                .unwrap_or(0),
            communicator: way.communicator,
        };
        if !part.is_kept(self.level) {
            if sequence != OTHER {
                self.leave_out(row, 1);
            }
            return;
        }
        self.kept += 1;
        let lane = &mut self.lanes[way.lane as usize];
        if let Some(network) = execution.network.filter(|_| sequence != OTHER) {
            lane.network.push((lane.parts.len() as u32, network));
        }
        lane.callers.extend(way.caller);
        if let Some(ns) = execution.last.exposed_ns() {
            lane.exposed.resize(lane.parts.len(), u64::MAX);
            lane.exposed.push(ns.min(u64::MAX - 1));
        }
        lane.parts.push(part);
        self.thin_out();
    }

    /// Of how many operations one is kept, if not each is.
    pub fn one_in(&self) -> Option<u64> {
        (self.level > 0).then(|| 1 << self.level.min(63))
    }

    /// Whether it is known how long calls ran, and of none when.
    pub fn has_only_lengths(&self) -> bool {
        self.kept == 0 && self.level == 0 && self.lengths > 0
    }

    /// Leaves out half of the operations until there are no more kernels than are kept, the same ones on all
    /// ranks. They count as those that the recorder did not time.
    fn thin_out(&mut self) {
        while self.kept > self.most {
            self.level += 1;
            self.thin_out_to_level();
        }
    }

    #[cold]
    fn thin_out_to_level(&mut self) {
        let level = self.level;
        let mut left_out = Vec::new();
        for lane in &mut self.lanes {
            let gone = lane.keep(|part| part.is_kept(level));
            let counted = gone.iter().filter(|part| part.sequence != OTHER);
            left_out.extend(counted.map(|part| part.row));
        }
        left_out.into_iter().for_each(|row| self.leave_out(row, 1));
        self.kept = self.lanes.iter().map(|lane| lane.parts.len()).sum();
    }

    fn leave_out(&mut self, row: u32, calls: u64) {
        let row = row as usize;
        if self.unsampled.len() <= row {
            self.unsampled.resize(row + 1, 0);
        }
        self.unsampled[row] += calls;
    }

    /// Takes in what was gathered from later processes, whose sequences and rows are ours by these.
    pub fn merge(&mut self, mut later: Gatherer, sequences: &[u32], rows: &[u32]) {
        let parts = later.lanes.iter_mut().flat_map(|lane| &mut lane.parts);
        for part in parts.filter(|part| part.sequence != OTHER) {
            part.sequence = sequences[part.sequence as usize];
            part.row = rows[part.row as usize];
        }
        for (row, calls) in later.unsampled.iter().enumerate().filter(|(_, n)| **n > 0) {
            self.leave_out(rows[row], *calls);
        }
        self.lanes.append(&mut later.lanes);
        self.kept += later.kept;
        self.lengths += later.lengths;
        if self.level != later.level {
            self.level = self.level.max(later.level);
            self.thin_out_to_level();
        }
        self.thin_out();
    }

    /// The figures, `None` where no operation has a time on every rank; and how the hosts' clocks stand to
    /// each other, `None` for one host. `look` sees operations and clocks before.
    pub(crate) fn finish(
        mut self,
        capture: &Capture,
        matcher: &Matcher,
        given: Option<&Given>,
        look: impl FnOnce(&OverTime, Option<&Clocks>),
    ) -> (Option<Arrivals>, Option<Clocks>) {
        let unsampled = std::mem::take(&mut self.unsampled);
        let (operations, proof, clocks) = self.compare(capture, matcher, given);
        let what_if = OnceCell::new();
        let over = OverTime {
            of: &operations,
            what_if: &what_if,
        };
        look(&over, clocks.as_ref());
        let arrivals = operations.figures(capture, &proof, &unsampled, what_if.into_inner());
        (arrivals, clocks)
    }

    /// Only how the hosts' clocks stand to each other.
    pub fn clocks(
        self,
        capture: &Capture,
        matcher: &Matcher,
        given: Option<&Given>,
    ) -> Option<Clocks> {
        self.compare(capture, matcher, given).2
    }

    fn compare(
        self,
        capture: &Capture,
        matcher: &Matcher,
        given: Option<&Given>,
    ) -> (Operations, hosts::Proof, Option<Clocks>) {
        let hosts = hosts::hosts(capture);
        let operations = Operations::new(self.lanes, capture, &matcher.keys());
        let host_of = operations.host_of(&hosts);
        let offsets = operations.offsets(&host_of, hosts.len());
        let clocks = Clocks::new(&hosts, &offsets, given);
        let proof = hosts::Proof::new(hosts, host_of, offsets, given);
        (operations, proof, clocks)
    }
}
