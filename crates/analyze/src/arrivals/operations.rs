//! The operations that have a time on every rank, and their parts by GPU.

use crate::executions::OnNetwork;
use crate::matching::Key;
use crate::subject::ProcessId;
use tables::{Capture, Name};

/// One rank's part in an operation.
#[derive(Clone, Copy)]
pub(super) struct RankPart {
    pub(super) sequence: u32,
    pub(super) number: u32,
    /// GPU time, ns.
    pub(super) ns: u64,
    /// Row of the operations table; of [`OTHER`], [`OWN`] or 0.
    pub(super) row: u32,
    /// Start, on one clock for the GPU, ns.
    pub(super) start: u64,
    /// Host time of the launch, 0 not known.
    pub(super) launch_ns: i64,
    /// Of times that enclose the kernel, their error on the host's clock, ns; 0 where they need not, or are
    /// not on that clock.
    pub(super) error: u32,
    /// Index of its communicator, [`u32::MAX`] not known.
    pub(super) communicator: u32,
}

/// The sequence of kernels that are no operation of interest: the GPU is in NCCL then.
pub(super) const OTHER: u32 = u32::MAX;

/// In place of the row: the time is the call's own, and no warm-up's.
pub(super) const OWN: u32 = 1;

impl RankPart {
    /// Whether the time is the call's own, and no warm-up's.
    pub(super) fn is_own(&self) -> bool {
        self.sequence != OTHER || self.row == OWN
    }

    /// Whether it is kept if one in `1 << level` operations is: the same ones on all ranks, and those of a
    /// lower level with others. The number is mixed, so that no stride of a model's layers stands out.
    pub(super) fn is_kept(&self, level: u32) -> bool {
        let of = match self.sequence {
            OTHER => self.start,
            _ => u64::from(self.number),
        };
        let mixed = (of ^ of >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 32).trailing_zeros() >= level
    }
}

/// The parts of one GPU of a process, by ticket.
#[derive(Default)]
pub(super) struct Lane {
    /// Its process.
    pub(super) process: ProcessId,
    /// The host by which its clock goes.
    pub(super) clock: String,
    pub(super) device: Option<u32>,
    pub(super) parts: Vec<RankPart>,
    /// What parts had on the network, in their order.
    pub(super) network: Vec<(u32, OnNetwork)>,
    /// By part: the line that made the call. Empty if the process recorded no stacks.
    pub(super) callers: Vec<Name>,
    /// By part: for how long a stream stood still for the call, ns; [`u64::MAX`] not known. May be shorter
    /// than the parts: of the rest it is not known.
    pub(super) exposed: Vec<u64>,
}

impl Lane {
    /// Keeps these parts, with what is known of each; returns the others.
    pub(super) fn keep(&mut self, is_kept: impl Fn(&RankPart) -> bool) -> Vec<RankPart> {
        let mut network = std::mem::take(&mut self.network).into_iter().peekable();
        let (mut kept, mut gone) = (0, Vec::new());
        for at in 0..self.parts.len() {
            let part = self.parts[at];
            let on_network = network.next_if(|(of, _)| *of as usize == at);
            if !is_kept(&part) {
                gone.push(part);
                continue;
            }
            self.parts[kept] = part;
            if let Some(caller) = self.callers.get(at).copied() {
                self.callers[kept] = caller;
            }
            if let Some(exposed) = self.exposed.get(at).copied() {
                self.exposed[kept] = exposed;
            } else {
                self.exposed.truncate(kept);
            }
            self.network
                .extend(on_network.map(|(_, of)| (kept as u32, of)));
            kept += 1;
        }
        self.parts.truncate(kept);
        self.callers.truncate(kept);
        self.exposed.truncate(kept);
        gone
    }
}

/// A part by lane and index.
pub(super) type PartIndex = (u32, u32);

/// The operations that have a time on every rank.
pub(super) struct Operations {
    pub(super) lanes: Vec<Lane>,
    /// By sequence as in `parts`: index of its communicator.
    pub(super) communicators: Vec<u32>,
    /// Sequence, number, part; operations one after the other, by what they are, then number.
    pub(super) parts: Vec<(u32, u32, PartIndex)>,
    /// Ranges of `parts`, with the operation's index among those of its sequence, and how many these are.
    pub(super) whole: Vec<(usize, usize, u32, u32)>,
    pub(super) differing: u64,
}

impl Operations {
    pub(super) fn new(lanes: Vec<Lane>, capture: &Capture, keys: &[Key]) -> Operations {
        // Sequences are numbered as they came; what they are of is the same however a capture was split.
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        order.sort_unstable_by_key(|sequence| keys[*sequence as usize]);
        let mut position = vec![0u32; keys.len()];
        for (at, sequence) in order.iter().enumerate() {
            position[*sequence as usize] = at as u32;
        }
        let mut parts = Vec::with_capacity(lanes.iter().map(|l| l.parts.len()).sum());
        for (lane, of) in lanes.iter().enumerate() {
            let parts_of = of.parts.iter().enumerate();
            for (index, part) in parts_of.filter(|(_, part)| part.sequence != OTHER) {
                let place = (lane as u32, index as u32);
                parts.push((position[part.sequence as usize], part.number, place));
            }
        }
        parts.sort_unstable();
        let nranks = |sequence: u32| {
            let key = keys[order[sequence as usize] as usize];
            let communicator = capture.communicators.get(key.communicator as usize);
            communicator.map_or(0, |c| c.nranks.map_or(c.members.len(), |n| n as usize))
        };
        let (mut whole, mut differing) = (Vec::new(), 0);
        let mut begin = 0;
        for group in parts.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let end = begin + group.len();
            let row = |(.., (lane, index)): &(u32, u32, PartIndex)| {
                lanes[*lane as usize].parts[*index as usize].row
            };
            if group.len() == nranks(group[0].0) && group.len() > 1 {
                // Each GPU once: a damaged file may say otherwise.
                if group.windows(2).any(|w| w[0].2 .0 == w[1].2 .0) {
                } else if group.iter().all(|part| row(part) == row(&group[0])) {
                    whole.push((begin, end, 0, 0));
                } else {
                    differing += 1;
                }
            }
            begin = end;
        }
        for of_sequence in whole.chunk_by_mut(|a, b| parts[a.0].0 == parts[b.0].0) {
            let length = of_sequence.len() as u32;
            for (index, operation) in of_sequence.iter_mut().enumerate() {
                (operation.2, operation.3) = (index as u32, length);
            }
        }
        let communicator = |sequence: &u32| keys[*sequence as usize].communicator;
        Operations {
            communicators: order.iter().map(communicator).collect(),
            lanes,
            parts,
            whole,
            differing,
        }
    }

    pub(super) fn part(&self, (lane, index): PartIndex) -> RankPart {
        self.lanes[lane as usize].parts[index as usize]
    }

    pub(super) fn of(
        &self,
        operation: &(usize, usize, u32, u32),
    ) -> impl Iterator<Item = PartIndex> + '_ {
        self.parts[operation.0..operation.1]
            .iter()
            .map(|(.., place)| *place)
    }

    /// What a part had on the network.
    pub(super) fn on_network(&self, (lane, index): PartIndex) -> Option<OnNetwork> {
        let network = &self.lanes[lane as usize].network;
        let at = network.binary_search_by_key(&index, |(part, _)| *part);
        at.ok().map(|at| network[at].1)
    }

    /// Its transfer, ns.
    pub(super) fn shortest(&self, operation: &(usize, usize, u32, u32)) -> u64 {
        let parts = self.of(operation);
        parts.map(|place| self.part(place).ns).min().unwrap_or(0)
    }
}
