//! What the timeline needs of kernels and operations, before they become figures.

use super::operations::{Operations, RankPart};
use super::what_if::WhatIf;
use crate::callers::Waits;
use std::cell::OnceCell;

pub(crate) use super::what_if::path::{Passed, Piece};

/// Which GPU of which process a kernel ran on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GpuKey<'a> {
    /// The launcher's rank.
    pub rank: Option<u32>,
    /// Host.
    pub host: &'a str,
    /// Process.
    pub pid: u32,
    /// CUDA device ordinal.
    pub device: Option<u32>,
}

/// One rank's part in an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartOver {
    /// Index of its GPU in [`OverTime::gpus`].
    pub gpu: usize,
    /// Begin on the clock of the GPU's kernels, ns.
    pub start: u64,
    /// GPU time, ns; larger ones count as 4.3 s.
    pub ns: u64,
}

/// Kernels and operations in time.
pub(crate) struct OverTime<'a> {
    pub(super) of: &'a Operations,
    /// Made if somebody needs it.
    pub(super) what_if: &'a OnceCell<WhatIf>,
}

impl OverTime<'_> {
    /// Whose kernels these are.
    pub fn gpus(&self) -> impl Iterator<Item = GpuKey<'_>> {
        self.of.lanes.iter().map(|lane| GpuKey {
            rank: lane.process.rank,
            host: &lane.process.host,
            pid: lane.process.pid,
            device: lane.device,
        })
    }

    /// Hands the parts of each operation with a time on every rank to `each`, in order of arrival: the last
    /// one arrived last.
    pub fn operations(&self, mut each: impl FnMut(&[PartOver])) {
        let mut parts = Vec::new();
        for operation in &self.of.whole {
            parts.clear();
            parts.extend(self.of.of(operation).map(|place| {
                let RankPart { start, ns, .. } = self.of.part(place);
                PartOver {
                    gpu: place.0 as usize,
                    start,
                    ns,
                }
            }));
            // Of equals the later place counts as last, as everywhere.
            parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
            each(&parts);
        }
    }

    /// How long ranks waited for the last one in each operation, by row and caller.
    pub fn waits_by_caller(&self, waits: &mut Waits) {
        if self.of.lanes.iter().all(|lane| lane.callers.is_empty()) {
            return;
        }
        for operation in &self.of.whole {
            // All are taken to end together, so the shortest one waited for nobody.
            let shortest = self.of.shortest(operation);
            for place in self.of.of(operation) {
                let part = self.of.part(place);
                let callers = &self.of.lanes[place.0 as usize].callers;
                let Some(caller) = callers.get(place.1 as usize) else {
                    continue;
                };
                let of = waits.entry((part.row, *caller)).or_default();
                of.push(part.ns - shortest);
            }
        }
    }

    /// Hands every kernel that is the one of its call, and no warm-up's, to `each`.
    pub fn timed(&self, mut each: impl FnMut(PartOver)) {
        for (gpu, lane) in self.of.lanes.iter().enumerate() {
            for part in lane.parts.iter().filter(|part| part.is_own()) {
                each(PartOver {
                    gpu,
                    start: part.start,
                    ns: part.ns,
                });
            }
        }
    }

    /// The critical path to the end of the last operation of a GPU, in order of time.
    pub fn path(&self, gpu: usize) -> Vec<Piece> {
        let what_if = self.what_if.get_or_init(|| WhatIf::new(self.of));
        what_if.path(self.of, gpu)
    }

    /// Row of an operation in the operations table, as gathered.
    pub fn row(&self, operation: usize) -> u32 {
        let (.., place) = self.of.parts[self.of.whole[operation].0];
        self.of.part(place).row
    }

    /// When an operation ended, by the clock of this GPU, if it has a part in it.
    pub fn end(&self, operation: usize, gpu: usize) -> Option<i64> {
        let mut places = self.of.of(&self.of.whole[operation]);
        let place = places.find(|(lane, _)| *lane as usize == gpu)?;
        let part = self.of.part(place);
        i64::try_from(part.start.saturating_add(part.ns)).ok()
    }

    /// Number of all parts of operations with a time on every rank.
    pub fn parts(&self) -> usize {
        self.of.whole.iter().map(|whole| whole.1 - whole.0).sum()
    }

    /// Whether any operation has a time on every rank.
    pub fn is_empty(&self) -> bool {
        self.of.whole.is_empty()
    }
}
