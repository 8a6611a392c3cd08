//! CUDA graphs: what they execute and how often they were launched, from the live part to blocks.
//!
//! Shapes and contents are staged as soon as they are known. A killed process leaves its counts in the live
//! part, which only has the numbers of shapes and contents. Executable graphs are staged at flushes, when
//! they have changed. Graphs that are gone are kept here until there are [`GONE`] of them. Then the oldest
//! are folded into counts. So memory stays bounded in a program that makes a graph for each step.

use super::sealing::AGED;
use super::Writer;
use crate::graphs::{Known, New};
use crate::heap::when_there_is_memory;
use capture::block::BlockKind;
use capture::graphs::{self, Executable, Folded, GraphRecord, Launched};
use capture::rows::Ticks;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{
    fence,
    Ordering::{Acquire, Relaxed, Release},
};

/// Launches in a block, unless a flush comes first.
const LAUNCHES: usize = 4096;
/// Executable graphs that are gone and are kept one by one.
const GONE: usize = 1024;
/// Records in a block at most: a block then fits in the staging area.
const RECORDS: usize = 512;
/// Shapes in a record at most, for the same reason.
const SHAPES: usize = 1024;

/// What the recorder's thread keeps of graphs.
#[derive(Default)]
pub(super) struct GraphState {
    /// Records that are to be staged.
    pending: VecDeque<GraphRecord>,
    /// Launches taken out of the live part and not in a block yet.
    launches: Vec<Launched>,
    /// As last staged, by table of entries and place there.
    staged: Vec<Vec<Executable>>,
    /// Executable graphs that are gone, oldest first.
    gone: VecDeque<Executable>,
    /// By contents: the older ones.
    folded: BTreeMap<u32, Folded>,
    /// Flushes at which there were graphs to be launched and no launch had been seen.
    without_launch: u32,
}

impl GraphState {
    fn add(&mut self, new: New) {
        let mut shapes = new.shapes;
        shapes.sort_by_key(|(number, _)| *number);
        for chunk in shapes.chunks(SHAPES) {
            // Numbers are given out without gaps.
            let list = chunk.iter().map(|(_, shape)| *shape).collect();
            self.pending
                .push_back(GraphRecord::Shapes(chunk[0].0, list));
        }
        let contents = new.contents.into_iter();
        self.pending.extend(contents.map(GraphRecord::Contents));
    }

    /// Keeps an executable graph that is gone, and folds the oldest one if there are too many.
    fn keep(&mut self, gone: Executable) {
        self.gone.push_back(gone);
        if self.gone.len() <= GONE {
            return;
        }
        let Some(oldest) = self.gone.pop_front() else {
            return;
        };
        let folded = self.folded.entry(oldest.contents).or_default();
        folded.contents = oldest.contents;
        folded.executables += 1;
        folded.launches += oldest.launches;
        let record = GraphRecord::Folded(*folded);
        // Its own record was staged before, and this one takes it back: a reader must not count it twice.
        self.pending.push_back(GraphRecord::Executable(Executable {
            number: oldest.number,
            ..Executable::default()
        }));
        self.pending.push_back(record);
    }
}

impl Writer {
    /// Stages what is new of graphs, and takes launches out of the ring before they are overwritten. At a
    /// flush, all that has changed is staged; at the `end`, also launches whose times have not come.
    pub(super) fn write_graphs(&mut self, flush: bool, end: bool) {
        if !self.recorder.graphs.any() {
            return;
        }
        if flush {
            self.look_for_launchers();
        }
        let new = self.recorder.graphs.take_new();
        self.graphs.add(new);
        self.take_launches(end);
        if flush {
            self.changed_executables();
        }
        self.stage_graphs();
        let is_written = self.graphs.pending.is_empty();
        if flush && is_written {
            self.free_gone();
        }
        if flush {
            // A program may go on after its last finalize.
            self.recorder.graphs.tell(end && is_written);
        }
        if self.graphs.launches.len() >= LAUNCHES || flush && !self.graphs.launches.is_empty() {
            self.stage_launches();
        }
    }

    /// Searches libraries that were loaded since calls were captured: they may launch. As long as no launch
    /// of any graph was seen, libraries that were searched may have looked the driver up since. A search of
    /// all of them takes 50 ms in a large process, so it is made at the 1st, 4th, 16th and 64th flush only.
    fn look_for_launchers(&mut self) {
        let missing = self.recorder.graphs.launches_are_missing();
        self.graphs.without_launch += u32::from(missing);
        let again = missing && [1, 4, 16, 64].contains(&self.graphs.without_launch);
        self.recorder.look_for_callers(again);
    }

    /// A new trace file begins: it must have all that is needed to read it without the others.
    pub(super) fn begin_graphs(&mut self) {
        if !self.recorder.graphs.any() {
            return;
        }
        let graphs = &self.recorder.graphs;
        let all = when_there_is_memory(|| graphs.all());
        let state = &mut self.graphs;
        state.pending.clear();
        state.add(all);
        let gone = state.gone.iter().map(|gone| GraphRecord::Executable(*gone));
        let folded = state
            .folded
            .values()
            .map(|folded| GraphRecord::Folded(*folded));
        let kept: Vec<GraphRecord> = gone.chain(folded).collect();
        state.pending.extend(kept);
        state.staged.clear();
        self.changed_executables();
        self.stage_graphs();
    }

    fn stage_graphs(&mut self) {
        while !self.graphs.pending.is_empty() {
            let n = self.graphs.pending.len().min(RECORDS);
            let records: Vec<GraphRecord> = self.graphs.pending.drain(..n).collect();
            let staged = self.block(BlockKind::Graphs, |out| {
                for record in &records {
                    graphs::put_record(out, record);
                }
            });
            if !staged {
                // The disk takes nothing at the moment.
                for record in records.into_iter().rev() {
                    self.graphs.pending.push_front(record);
                }
                return;
            }
        }
    }

    fn stage_launches(&mut self) {
        let launches = std::mem::take(&mut self.graphs.launches);
        self.note_launches(&launches);
        let full = self.size() >= self.recorder.settings.max_size;
        let staged = !full
            && self.block(BlockKind::Launches, |out| {
                graphs::put_launches(out, &launches)
            });
        if !staged {
            let untimed = &self.recorder.header().graph_launches_untimed;
            untimed.fetch_add(launches.len() as u64, Relaxed);
        }
    }

    /// Launches that other threads have put into the ring since the last time. Those that are to have a time
    /// stay in it until that has come, but not for long, and not if the ring is filling or at the `end`.
    fn take_launches(&mut self, end: bool) {
        let (header, ring) = (self.recorder.header(), self.recorder.live.launches());
        let newest = header.graph_launches.load(Acquire);
        let mut next = header.graph_launches_taken.load(Relaxed);
        let oldest = newest.saturating_sub(ring.len() as u64);
        if next < oldest {
            // Overwritten: they are counted at their graphs, and have no times.
            let lost = oldest - next;
            header.graph_launches_untimed.fetch_add(lost, Relaxed);
            next = oldest;
        }
        let now = self.recorder.clock.ticks();
        while next < newest {
            let entry = &ring[next as usize % ring.len()];
            // Meets the Release of the launching thread.
            if entry.word.load(Acquire) < next + 1 {
                // It is being stored.
                break;
            }
            let entered = entry.entered.load(Relaxed);
            let is_old = now.since(entered) as f64 * self.ns_per_tick > AGED as f64;
            let pressed = newest - next > ring.len() as u64 / 2;
            let gpu = match self.recorder.graphs.timing.of(self.recorder, next) {
                Known::For(gpu) => gpu,
                Known::NotYet if end || is_old || pressed => None,
                Known::NotYet => break,
            };
            let launched = Launched {
                exec: entry.exec.load(Relaxed),
                entered,
                took: entry.took.load(Relaxed),
                stream: entry.stream.load(Relaxed),
                gpu,
            };
            fence(Acquire);
            if entry.word.load(Relaxed) == next + 1 {
                self.graphs.launches.push(launched);
            } else {
                // Overwritten meanwhile.
                header.graph_launches_untimed.fetch_add(1, Relaxed);
            }
            next += 1;
        }
        header.graph_launches_taken.store(next, Release);
    }

    /// Executable graphs that changed since they were staged.
    fn changed_executables(&mut self) {
        let GraphState {
            pending, staged, ..
        } = &mut self.graphs;
        for (number, (_, entries)) in self.recorder.graphs.entries.tables().enumerate() {
            if number == staged.len() {
                staged.push(Vec::new());
            }
            // The program adds entries at any time.
            staged[number].resize(entries.len(), Executable::default());
            for (entry, staged) in entries.iter().zip(&mut staged[number]) {
                if entry.number.load(Acquire) != 0 {
                    let now = Executable::load(entry);
                    if now != *staged {
                        *staged = now;
                        pending.push_back(GraphRecord::Executable(now));
                    }
                }
            }
        }
    }

    /// Frees the entries of executable graphs that are gone and staged as they are.
    fn free_gone(&mut self) {
        let graphs = &self.recorder.graphs;
        // There may be more tables and entries than when they were staged.
        let number_of_staged = self.graphs.staged.len();
        for (number, (first, entries)) in graphs.entries.tables().enumerate().take(number_of_staged)
        {
            let most = self.graphs.staged[number].len();
            for (index, (place, entry)) in (first..).zip(entries.iter().enumerate().take(most)) {
                let staged = self.graphs.staged[number][place];
                // Once it is gone, nobody launches it any more.
                if staged.destroyed != Ticks(0) && staged == Executable::load(entry) {
                    self.graphs.keep(staged);
                    self.graphs.staged[number][place] = Executable::default();
                    graphs.free(index);
                }
            }
        }
    }
}
