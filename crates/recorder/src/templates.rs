//! Captured calls: what each replay of a CUDA graph executes again.
//!
//! A captured call gets a handle at its capture. NCCL passes this handle as the parent of every replay, as
//! long as the graph lives. It never says when that ends. So templates are never recycled; the table grows in
//! chunks up to a cap, beyond which captured calls are counted and their replays can't be named.

use crate::pages;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicU8,
    Ordering::{Acquire, Relaxed, Release},
};

const CHUNK: usize = 4096;
const CHUNKS: usize = 64;

/// One captured call. Written once, before its handle is given out.
#[derive(Default)]
pub struct Template {
    /// Communicator's place in the table + 1; 0 not written yet.
    pub comm_slot: AtomicU32,
    pub comm: AtomicU32,
    pub count: AtomicU64,
    pub stream: AtomicU64,
    pub group: AtomicU64,
    pub root: AtomicU32,
    pub func: AtomicU8,
    pub datatype: AtomicU8,
    pub p2p: AtomicU8,
    /// The stack that captured it.
    pub stack: AtomicU32,
    /// Its own row, while that lives: NCCL may still tell its algorithm at capture.
    pub row: AtomicU64,
}

/// All templates of the process.
pub struct Templates {
    chunks: [AtomicPtr<[Template; CHUNK]>; CHUNKS],
    next: AtomicU32,
}

impl Templates {
    pub const fn new() -> Self {
        Templates {
            chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS],
            next: AtomicU32::new(0),
        }
    }

    /// A new template and its number; `None` beyond the cap.
    ///
    /// Maps memory every 4096 templates: capture is set-up work, and no other way keeps a process that
    /// captures nothing small.
    #[cold]
    pub fn add(&self) -> Option<(u32, &Template)> {
        let number = self.next.load(Relaxed);
        if number as usize >= CHUNK * CHUNKS {
            return None;
        }
        let number = self.next.fetch_add(1, Relaxed);
        let chunk = self.chunks.get(number as usize / CHUNK)?;
        if !pages::map_once(chunk, std::mem::size_of::<[Template; CHUNK]>()) {
            return None;
        }
        Some((number, self.get(number)?))
    }

    /// The template with this number, if it was ever added.
    pub fn get(&self, number: u32) -> Option<&Template> {
        let chunk = self.chunks.get(number as usize / CHUNK)?.load(Acquire);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: a chunk is zeroed memory, valid for atomics, and is never unmapped.
        Some(unsafe { &(*chunk)[number as usize % CHUNK] })
    }
}

impl Template {
    /// Publishes the template; the Acquire in [`Template::ready`] meets it.
    pub fn publish(&self, comm_slot: u32) {
        self.comm_slot.store(comm_slot + 1, Release);
    }

    /// Whether it was published.
    pub fn ready(&self) -> bool {
        self.comm_slot.load(Acquire) != 0
    }
}
