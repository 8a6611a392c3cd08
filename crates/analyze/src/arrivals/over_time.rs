//! What the timeline needs of kernels and operations, before they become figures.

use super::operations::{Operations, RankPart};
use crate::callers::Waits;

/// Which GPU of which process a kernel ran on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Gpu<'a> {
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
pub(crate) struct OverTime<'a>(pub(super) &'a Operations);

impl OverTime<'_> {
    /// Whose kernels these are.
    pub fn gpus(&self) -> impl Iterator<Item = Gpu<'_>> {
        self.0.lanes.iter().map(|lane| Gpu {
            rank: lane.rank,
            host: &lane.host,
            pid: lane.pid,
            device: lane.device,
        })
    }

    /// Hands the parts of each operation with a time on every rank to `each`, in order of arrival: the last
    /// one arrived last.
    pub fn operations(&self, mut each: impl FnMut(&[PartOver])) {
        let mut parts = Vec::new();
        for operation in &self.0.whole {
            parts.clear();
            parts.extend(self.0.of(operation).map(|place| {
                let RankPart { start, ns, .. } = self.0.part(place);
                PartOver {
                    gpu: place.0 as usize,
                    start,
                    ns: ns.into(),
                }
            }));
            // Of equals the later place counts as last, as everywhere.
            parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
            each(&parts);
        }
    }

    /// How long ranks waited for the last one in each operation, by row and caller.
    pub fn waits_by_caller(&self, waits: &mut Waits) {
        if self.0.lanes.iter().all(|lane| lane.callers.is_empty()) {
            return;
        }
        for operation in &self.0.whole {
            // All are taken to end together, so the shortest one waited for nobody.
            let shortest = self.0.shortest(operation);
            for place in self.0.of(operation) {
                let part = self.0.part(place);
                let callers = &self.0.lanes[place.0 as usize].callers;
                let Some(caller) = callers.get(place.1 as usize) else {
                    continue;
                };
                let (n, ns) = waits.entry((part.row, *caller)).or_default();
                *n += 1;
                *ns += u64::from(part.ns - shortest);
            }
        }
    }

    /// Hands every kernel that is the one of its call, and no warm-up's, to `each`.
    pub fn timed(&self, mut each: impl FnMut(PartOver)) {
        for (gpu, lane) in self.0.lanes.iter().enumerate() {
            for part in lane.parts.iter().filter(|part| part.is_own()) {
                each(PartOver {
                    gpu,
                    start: part.start,
                    ns: part.ns.into(),
                });
            }
        }
    }

    /// Whether any operation has a time on every rank.
    pub fn is_empty(&self) -> bool {
        self.0.whole.is_empty()
    }
}
