//! CUDA graphs: which captured calls an executable graph has, and how often it is launched.
//!
//! NCCL announces a captured call once, and no replay of it. So the recorder watches the driver's functions
//! that make and launch graphs. Before each of them, [`crate::driver_watch`] has a function of ours, which
//! calls the driver and then tells [`Graphs`]. [`contents`] follows what is in a graph. Executable graphs
//! have entries in the live part, where each launch is counted; the recorder's thread writes them and the
//! launches to blocks.
//!
//! ```text
//! NCCL, captured call ──▶ Graphs::captured   ─┐ by the graph's handle
//! driver, graph built ──▶ Graphs::added, …    ├──▶ Contents
//! driver, instantiate ──▶ Graphs::instantiated ──▶ entry in the live part
//! driver, launch      ──▶ Graphs::launched     ──▶ count, ring of launches ──▶ recorder's thread ──▶ blocks
//! ```
//!
//! Of a sample of launches, [`timing`] says when they ran on the GPU.
//!
//! Rule: a graph without captured calls costs its launches one failed look-up, and nothing else. Nothing here
//! fails a call of the driver. What could not be followed is never taken for zero launches. A captured call
//! stays *unplaced* in [`Header::unplaced`] until its graph is instantiated in our sight, and a reader says
//! so. To destroy a graph places nothing: programs destroy it as soon as they have instantiated it.

mod contents;
mod entries;
mod execs;
mod timing;

use crate::lock::Lock;
use capture::graphs::{sight, Exec, Launch, Shape};
use capture::live::{Header, View};
use capture::rows::{AtomicTicks, Ticks};
use contents::{Content, Contents};
use entries::Entries;
use execs::Execs;
use std::cell::UnsafeCell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, Release},
};
pub use timing::Known;
use timing::Timing;

/// The graphs of a process.
pub struct Graphs {
    header: &'static Header,
    launches: &'static [Launch],
    /// Where their launches are counted.
    pub entries: Entries,
    /// Executable graphs by handle; read without a lock at each launch.
    execs: Execs,
    /// Streams that are captured now, as far as was seen.
    capturing: AtomicU32,
    /// When callers were found that may have launched graphs before, ticks; 0 never.
    callers_found: AtomicTicks,
    /// When launches ran.
    pub timing: Timing,
    lock: Lock,
    /// Under the lock.
    state: UnsafeCell<State>,
}

// SAFETY: `state` is only touched under `lock`.
unsafe impl Sync for Graphs {}
// SAFETY: nothing here belongs to a thread.
unsafe impl Send for Graphs {}

#[derive(Default)]
struct State {
    contents: Contents,
    /// Graphs with captured calls of their own that were not instantiated in our sight.
    unplaced: HashSet<u64>,
    /// Those of them that are gone. Another graph may have the handle by now.
    gone: u32,
    shapes: HashMap<Shape, u32>,
    numbers: HashMap<Content, u32>,
    /// Executable graphs so far.
    executables: u32,
    new: New,
}

/// Makes the table of entries longer, from so many to so many.
pub type Grow<'a> = &'a dyn Fn(usize, usize) -> bool;

/// What the recorder's thread has not written yet.
#[derive(Default)]
pub struct New {
    pub shapes: Vec<(u32, Shape)>,
    pub contents: Vec<capture::graphs::Contents>,
}

impl Graphs {
    /// `None` if there is no memory.
    pub fn new(live: &View<'static>) -> Option<Graphs> {
        Some(Graphs {
            header: live.header(),
            launches: live.launches(),
            entries: Entries::new(live),
            execs: Execs::new()?,
            capturing: AtomicU32::new(0),
            callers_found: AtomicTicks::default(),
            timing: Timing::new(live.launches().len())?,
            lock: Lock::new(),
            state: UnsafeCell::new(State::default()),
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let _held = self.lock.lock();
        // SAFETY: under the lock, and `act` does not come back here.
        let state = unsafe { &mut *self.state.get() };
        let result = act(state);
        let lost = std::mem::take(&mut state.contents.lost);
        self.header.graphs_full.fetch_add(lost, Relaxed);
        let unplaced = state.gone.saturating_add(state.unplaced.len() as u32);
        self.header.unplaced.store(unplaced, Relaxed);
        result
    }

    /// Whether calls were captured.
    pub fn any(&self) -> bool {
        self.header.graph_sight.load(Relaxed) & sight::CAPTURED != 0
    }

    /// A call is being captured into a graph; `None` if the driver does not say which.
    pub fn captured(&self, graph: Option<u64>, shape: Shape) {
        self.header.graph_sight.fetch_or(sight::CAPTURED, Relaxed);
        self.with(|s| {
            // No graph has the handle 0, so these stay unplaced.
            let graph = graph.unwrap_or(0);
            s.unplaced(graph);
            match s.shape(shape) {
                Some(number) => s.contents.captured(graph, number),
                None => s.contents.uncountable(graph),
            }
        });
    }

    /// Whether streams are captured at the moment, as far as was seen.
    #[inline]
    pub fn capturing(&self) -> bool {
        self.capturing.load(Relaxed) != 0
    }

    /// A stream is captured from now on.
    pub fn capture_began(&self) {
        self.capturing.fetch_add(1, Relaxed);
    }

    /// The capture of a stream ended: its graph is complete, or was given up.
    pub fn capture_ended(&self, graph: Option<u64>, failed: bool) {
        let fewer = |n: u32| n.checked_sub(1);
        let _ = self.capturing.fetch_update(Relaxed, Relaxed, fewer);
        if let Some(graph) = graph.filter(|_| failed) {
            self.with(|s| {
                s.contents.destroyed(graph);
                // It never was a whole graph, so nobody has instantiated it.
                s.unplaced.remove(&graph);
            });
        }
    }

    /// A graph became a part of another. What is left of it as a graph of its own matters no more.
    pub fn added(&self, parent: u64, child: u64) {
        self.with(|s| {
            s.contents.added(parent, child);
            s.moved(parent, child);
        });
    }

    /// A graph was copied.
    pub fn cloned(&self, clone: u64, original: u64) {
        self.with(|s| {
            s.contents.cloned(clone, original);
            // A graph with this handle was destroyed out of sight.
            s.destroyed(clone);
            s.moved(clone, original);
        });
    }

    /// A graph runs as often as a node of its parent decides.
    pub fn body(&self, parent: u64, body: u64) {
        self.with(|s| s.contents.body(parent, body));
    }

    /// A graph was launched on a stream that is captured: it became a part of that graph.
    pub fn launched_into(&self, graph: u64, exec: u64, now: Ticks) {
        self.with(|s| {
            if let Some(content) = self.execs.content(exec) {
                s.contents.launched_into(graph, content);
                s.unplaced(graph);
            }
            // It was launched, if only into another.
            if let Some(index) = self.execs.find(exec) {
                let entry = self.entries.at(index);
                entry.entered.store(now, Relaxed);
                entry.returned.store(now, Release);
            }
        });
    }

    /// A graph was destroyed. What was made of it stays, whether that was seen or not.
    pub fn destroyed(&self, graph: u64) {
        self.with(|s| {
            s.contents.destroyed(graph);
            s.destroyed(graph);
        });
    }

    /// An executable graph was made of a graph, or updated to it. `by_device`: the GPU may launch it.
    pub fn instantiated(&self, exec: u64, graph: u64, by_device: bool, now: Ticks, grow: Grow) {
        self.with(|s| {
            let mut content = s.contents.of(graph);
            content.uncountable |= by_device && !content.is_empty();
            s.unplaced.remove(&graph);
            for body in s.contents.bodies(graph) {
                s.unplaced.remove(body);
            }
            self.replace(s, exec, content, now, grow);
        });
    }

    /// A part of an executable graph was replaced by a graph. What it executes now is not followed.
    pub fn edited(&self, exec: u64, part: u64, now: Ticks, grow: Grow) {
        self.with(|s| {
            let mut content = self.execs.content(exec).map(Content::copied);
            let mut content = content.take().unwrap_or_default();
            content.add(&s.contents.of(part));
            content.uncountable = !content.is_empty();
            s.unplaced.remove(&part);
            self.replace(s, exec, content, now, grow);
        });
    }

    /// An executable graph was destroyed.
    pub fn exec_destroyed(&self, exec: u64, now: Ticks) {
        // Most graphs have no captured calls.
        if self.has(exec) {
            self.with(|s| self.replace(s, exec, Content::default(), now, &|_, _| false));
        }
    }

    /// Gives an executable graph other contents: its entry ends, and a new one begins unless nothing is in
    /// it.
    fn replace(&self, state: &mut State, exec: u64, content: Content, now: Ticks, grow: Grow) {
        if !content.is_empty() && self.execs.content(exec) == Some(&content) {
            // Updated to the same: the graph is what it was, and so is its number.
            return;
        }
        let before = self.execs.remove(exec).map_or(0, |index| {
            let entry = self.entries.at(index);
            entry.destroyed.store(now, Release);
            entry.number.load(Relaxed)
        });
        if content.is_empty() {
            return;
        }
        let calls: u64 = content
            .runs
            .iter()
            .map(|(_, calls)| u64::from(*calls))
            .sum();
        let contents = state.number(&content);
        let Some((contents, index)) = contents.zip(self.entries.take(grow)) else {
            self.header.graphs_full.fetch_add(1, Relaxed);
            return;
        };
        if !self.execs.insert(exec, index, content) {
            self.entries.free(index);
            self.header.graphs_full.fetch_add(1, Relaxed);
            return;
        }
        let entry = self.entries.at(index);
        state.executables += 1;
        entry.launches.store(0, Relaxed);
        entry.stream.store(0, Relaxed);
        for time in [&entry.entered, &entry.returned, &entry.destroyed] {
            time.store(Ticks(0), Relaxed);
        }
        entry.instantiated.store(now, Relaxed);
        entry.contents.store(contents, Relaxed);
        entry.before.store(before, Relaxed);
        entry
            .calls
            .store(calls.min(u32::MAX.into()) as u32, Relaxed);
        // Meets the Acquire of the recorder's thread and of readers.
        entry.number.store(state.executables, Release);
    }

    /// Whether graphs with captured calls were instantiated, and no launch of any of them was seen.
    pub fn launches_are_missing(&self) -> bool {
        self.header.graph_launches.load(Relaxed) == 0 && self.are_there()
    }

    /// Whether executable graphs with captured calls were made so far.
    pub fn are_there(&self) -> bool {
        self.with(|s| s.executables != 0)
    }

    /// Callers were found that may have launched graphs before.
    pub fn callers_found(&self, now: Ticks) {
        self.callers_found.store(now, Relaxed);
    }

    /// Such a caller launches a graph. If the graph was there before the caller was found, this may not be
    /// its first launch from there.
    pub fn launched_late(&self, entry: &Exec) {
        if entry.instantiated.load(Relaxed) < self.callers_found.load(Relaxed) {
            let sight = &self.header.graph_sight;
            sight.fetch_or(sight::FOUND_LATE, Relaxed);
        }
    }

    /// Whether an executable graph has captured calls.
    #[inline]
    pub fn has(&self, exec: u64) -> bool {
        self.execs.find(exec).is_some()
    }

    /// A graph is about to be launched; what [`Graphs::launched`] needs, if it has captured calls.
    #[inline]
    pub fn launching(&self, exec: u64, stream: u64, now: Ticks) -> Option<&'static Exec> {
        let entry = self.entries.at(self.execs.find(exec)?);
        entry.stream.store(stream, Relaxed);
        entry.entered.store(now, Release);
        Some(entry)
    }

    /// The driver accepted a launch; its number.
    pub fn launched(&self, entry: &Exec, stream: u64, [entered, returned]: [Ticks; 2]) -> u64 {
        entry.launches.fetch_add(1, Relaxed);
        entry.returned.store(returned, Release);
        let number = self.header.graph_launches.fetch_add(1, Relaxed);
        let Some(launch) = self
            .launches
            .get(number as usize % self.launches.len().max(1))
        else {
            return number;
        };
        launch.word.store(0, Relaxed);
        std::sync::atomic::fence(Release);
        launch.entered.store(entered, Relaxed);
        launch.stream.store(stream, Relaxed);
        launch.exec.store(entry.number.load(Relaxed), Relaxed);
        let took = returned.since(entered).min(u32::MAX.into());
        launch.took.store(took as u32, Relaxed);
        // Meets the Acquire of the recorder's thread.
        launch.word.store(number + 1, Release);
        number
    }

    /// The shapes and contents that are new since the last time.
    pub fn take_new(&self) -> New {
        self.with(|s| std::mem::take(&mut s.new))
    }

    /// All of them, for a trace file that begins anew; `None` if there is no memory.
    pub fn all(&self) -> Option<New> {
        self.with(|s| {
            let mut all = New::default();
            all.shapes.try_reserve_exact(s.shapes.len()).ok()?;
            all.contents.try_reserve_exact(s.numbers.len()).ok()?;
            let shapes = s.shapes.iter().map(|(shape, number)| (*number, *shape));
            all.shapes.extend(shapes);
            for (content, number) in &s.numbers {
                all.contents.push(content.numbered(*number)?);
            }
            s.new = New::default();
            Some(all)
        })
    }

    /// Tells readers whether all that is known of graphs is in the trace.
    pub fn tell(&self, written: bool) {
        self.with(|_| self.entries.tell(written));
    }

    /// Frees the entry of a graph that is gone and was written.
    pub fn free(&self, index: u32) {
        self.with(|_| self.entries.free(index));
    }
}

impl State {
    /// What was in `from` is in `to` as well, and need not be seen anywhere else.
    fn moved(&mut self, to: u64, from: u64) {
        if self.unplaced.remove(&from) || !self.contents.of(from).is_empty() {
            self.unplaced(to);
        }
    }

    /// A graph is gone, and its handle may serve another.
    fn destroyed(&mut self, graph: u64) {
        self.gone += u32::from(self.unplaced.remove(&graph));
    }

    /// A graph has calls of its own that are in no executable graph yet.
    fn unplaced(&mut self, graph: u64) {
        match self.unplaced.try_reserve(1) {
            Ok(()) => drop(self.unplaced.insert(graph)),
            Err(_) => self.contents.lost += 1,
        }
    }

    /// The number of a shape; `None` if there is no memory.
    fn shape(&mut self, shape: Shape) -> Option<u32> {
        if let Some(number) = self.shapes.get(&shape) {
            return Some(*number);
        }
        self.shapes.try_reserve(1).ok()?;
        self.new.shapes.try_reserve(1).ok()?;
        let number = self.shapes.len() as u32;
        self.shapes.insert(shape, number);
        self.new.shapes.push((number, shape));
        Some(number)
    }

    /// The number of contents; `None` if there is no memory.
    fn number(&mut self, content: &Content) -> Option<u32> {
        if let Some(number) = self.numbers.get(content) {
            return Some(*number);
        }
        self.numbers.try_reserve(1).ok()?;
        self.new.contents.try_reserve(1).ok()?;
        let number = self.numbers.len() as u32 + 1;
        let numbered = content.numbered(number)?;
        self.numbers.insert(content.copied(), number);
        self.new.contents.push(numbered);
        Some(number)
    }
}
