//! ProxyOps and ProxySteps: the network side of a call, folded into its row as bytes and waits.
//!
//! Two small tables, private to the process, whose entries go round oldest first: NCCL starts operations and steps that
//! it never stops (retries, transports without completion), and those simply age out.

use crate::handle::Handle;
use crate::recorder::array;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};

/// Entries of each table; powers of two.
pub const OPS: usize = 4096;
/// See [`OPS`].
pub const STEPS: usize = 8192;

/// A ProxyOp in flight.
#[derive(Default)]
pub struct Op {
    /// Turn + 1 of the entry; 0 when stopped or never used.
    pub turn: AtomicU64,
    /// The handle of its row.
    pub row: AtomicU64,
    /// 1 when sending.
    pub send: AtomicU64,
    /// v1 to v3: bytes reported so far.
    pub bytes: AtomicU64,
}

/// A ProxyStep in flight.
#[derive(Default)]
pub struct Step {
    /// As for [`Op`].
    pub turn: AtomicU64,
    /// The handle of its row.
    pub row: AtomicU64,
    /// When the present wait began, ticks.
    pub since: AtomicU64,
    /// The present wait + 1; 0 before the first state.
    pub wait: AtomicU64,
}

/// Both tables.
pub struct Network {
    pub ops: Box<[Op; OPS]>,
    pub steps: Box<[Step; STEPS]>,
    next_op: AtomicU64,
    next_step: AtomicU64,
}

impl Network {
    pub fn new() -> Self {
        Network {
            ops: array((0..OPS).map(|_| Op::default()).collect()),
            steps: array((0..STEPS).map(|_| Step::default()).collect()),
            next_op: AtomicU64::new(0),
            next_step: AtomicU64::new(0),
        }
    }

    /// Takes the oldest op entry: its slot, its turn, and whether what it held was never stopped.
    #[inline]
    pub fn op(&self) -> (u32, u64, bool) {
        let turn = self.next_op.fetch_add(1, Relaxed);
        let slot = turn as usize % OPS;
        let unstopped = self.ops[slot].turn.load(Relaxed) != 0;
        self.ops[slot].turn.store(turn + 1, Release);
        (slot as u32, turn / OPS as u64, unstopped)
    }

    /// Takes the oldest step entry, likewise.
    #[inline]
    pub fn step(&self) -> (u32, u64, bool) {
        let turn = self.next_step.fetch_add(1, Relaxed);
        let slot = turn as usize % STEPS;
        let unstopped = self.steps[slot].turn.load(Relaxed) != 0;
        self.steps[slot].turn.store(turn + 1, Release);
        (slot as u32, turn / STEPS as u64, unstopped)
    }

    /// The op entry that a handle names, if it still holds that op.
    #[inline]
    pub fn op_at(&self, handle: Handle) -> Option<&Op> {
        let op = self.ops.get(handle.slot() as usize)?;
        same(op.turn.load(Relaxed), OPS, handle).then_some(op)
    }

    /// The step entry that a handle names, likewise.
    #[inline]
    pub fn step_at(&self, handle: Handle) -> Option<&Step> {
        let step = self.steps.get(handle.slot() as usize)?;
        same(step.turn.load(Relaxed), STEPS, handle).then_some(step)
    }
}

#[inline]
fn same(turn: u64, entries: usize, handle: Handle) -> bool {
    turn != 0 && ((turn - 1) / entries as u64) as u32 & 0x3ffff == handle.generation()
}
