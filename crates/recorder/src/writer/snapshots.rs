//! The snapshot file: a copy of the live part, without what is free in it. It is for readers who can only
//! read the capture folder.

use super::{Writer, NONE};
use capture::graphs::Exec;
use capture::live::{self, row_state, Row, Section};
use capture::net_op::NetOp;
use capture::snapshot;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The snapshot of a process that does nothing is written again at every so many flushes. Its clock then goes
/// on while no call comes. So a reader of the capture folder can tell a hang from a process that is gone.
const HEARTBEAT: u32 = 5;
/// What [`changes`] gives as long as nothing has happened.
pub(super) const NOTHING: u64 = 1;

impl Writer {
    /// Writes the snapshot if anything changed, and every [`HEARTBEAT`]th time in any case.
    pub(super) fn take_snapshot(&mut self, end: bool) {
        let recorder = self.recorder;
        let header = recorder.header();
        let state = changes(header);
        let collected = self.waiting == 0 && self.drained == header.born.load(Relaxed);
        let unchanged = state == self.snapshot_state && self.waiting == 0 && !end;
        self.snapshots_spared = if unchanged {
            self.snapshots_spared + 1
        } else {
            0
        };
        if unchanged && !self.snapshots_spared.is_multiple_of(HEARTBEAT) {
            return;
        }
        self.snapshot_state = state;
        if self.snapshot.is_none() {
            return;
        }
        // A copy has no room for growth.
        let stored: Vec<[u32; 2]> = header
            .stored_sections()
            .map(|section| [section[0].load(Relaxed), section[1].load(Acquire)])
            .collect();
        let counts = std::array::from_fn(|i| stored.get(i).map_or(0, |section| section[1]));
        let Some((sections, bytes)) = live::dense(counts) else {
            return;
        };
        let at = |section: Section| {
            let section = section as usize;
            (stored[section][0] as usize, sections[section][0] as usize)
        };
        let mut out = std::mem::take(&mut self.buffer);
        snapshot::begin(&mut out);
        // SAFETY: the live part is so long, 8-byte aligned, and all of it is valid as atomics.
        let words = unsafe {
            std::slice::from_raw_parts(
                std::ptr::from_ref(header).cast::<AtomicU64>(),
                header.size.load(Relaxed) as usize / 8,
            )
        };
        snapshot::span(&mut out, 0, &words[..live::HEADER_BYTES / 8]);
        let page = out.len() - live::HEADER_BYTES;
        live::relocate(&mut out[page..], &sections, bytes);
        // Bytes of a section, `from` its beginning.
        let mut span = |section: Section, from: usize, bytes: usize| {
            let (in_use, in_copy) = at(section);
            let words = &words[(in_use + from) / 8..(in_use + from + bytes).div_ceil(8)];
            snapshot::span(&mut out, in_copy + from, words);
        };
        let used = recorder
            .live
            .strings()
            .iter()
            .take_while(|s| s.len.load(Relaxed) != 0)
            .count();
        span(
            Section::Strings,
            0,
            used * std::mem::size_of::<live::Text>(),
        );
        let comms = recorder
            .live
            .comms()
            .iter()
            .rposition(|c| c.uid.load(Relaxed) != 0)
            .map_or(0, |last| last + 1);
        span(Section::Comms, 0, comms * std::mem::size_of::<live::Comm>());
        if header.totals_used.load(Relaxed) != 0 {
            // A hash table, of which a small job uses few entries: runs of used ones are written.
            let bytes = std::mem::size_of::<live::Total>();
            let mut totals = |from: usize, to: usize| {
                span(Section::Totals, from * bytes, (to - from) * bytes);
            };
            let mut first = None;
            for (index, total) in recorder.live.totals().iter().enumerate() {
                // Asked once: an entry may be made meanwhile, which is then in the next snapshot.
                match (total.state.load(Acquire) != 0, first) {
                    (true, None) => first = Some(index),
                    (false, Some(from)) => {
                        totals(from, index);
                        first = None;
                    }
                    _ => {}
                }
            }
            if let Some(from) = first {
                totals(from, recorder.live.totals().len());
            }
            span(
                Section::Pages,
                0,
                header.pages_used.load(Relaxed) as usize
                    * std::mem::size_of::<live::HistogramPage>(),
            );
        }
        for queue in &self.queues {
            let mut slot = queue.first;
            while slot != NONE {
                let row = &self.rows()[slot as usize];
                span(
                    Section::Rows,
                    slot as usize * std::mem::size_of::<Row>(),
                    std::mem::size_of::<Row>(),
                );
                if let Some(entry) = (row.group.load(Relaxed) as usize).checked_sub(1) {
                    let entry = entry & (recorder.live.groups().len() - 1);
                    span(
                        Section::Groups,
                        entry * std::mem::size_of::<live::Group>(),
                        std::mem::size_of::<live::Group>(),
                    );
                }
                slot = self.next[slot as usize];
            }
        }
        for (index, op) in recorder.live.net_ops().iter().enumerate() {
            // NCCL may never stop an operation, which then outlives its row.
            let alive = op.open().is_some_and(|open| {
                let row = self.rows().get(open.row);
                let word = row.map_or(0, |row| row.word.load(Acquire));
                word & 3 == row_state::ALIVE && row_state::generation(word) == open.generation
            });
            if alive {
                let bytes = std::mem::size_of::<NetOp>();
                span(Section::NetOps, index * bytes, bytes);
            }
        }
        for (index, exec) in recorder.live.graphs().iter().enumerate() {
            if exec.number.load(Relaxed) != 0 {
                let bytes = std::mem::size_of::<Exec>();
                span(Section::Graphs, index * bytes, bytes);
            }
        }
        snapshot::finish(&mut out, self.snapshots, bytes);
        let at = snapshot::slot_offset(self.snapshots, out.len());
        let Some(file) = &mut self.snapshot else {
            return;
        };
        match file.write_all_at(&out, at) {
            Ok(()) => {
                self.snapshots += 1;
                let whole = collected && header.staged_len.load(Relaxed) == 0;
                let covered = if whole { state } else { 0 };
                recorder.writer.complete.store(covered, Release);
            }
            Err(error) => {
                recorder.writer.complete.store(0, Release);
                self.complain(&error);
            }
        }
        self.buffer = out;
    }
}

/// A number that changes with every announced call and with everything that is counted; never 0.
pub(super) fn changes(header: &live::Header) -> u64 {
    let counted = header.odd.iter().chain(&header.lost);
    let odd: u64 = counted.map(|c| c.load(Relaxed)).sum();
    let folded = header.folded.load(Relaxed).rotate_left(40);
    let launches = header.graph_launches.load(Relaxed).rotate_left(30);
    (header.born.load(Relaxed) ^ odd.rotate_left(20) ^ folded ^ launches).max(NOTHING)
}
