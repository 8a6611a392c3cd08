//! CUDA graphs of a process: what they execute, and how often they were launched.
//!
//! NCCL announces a captured call once. What a graph executes afterwards is the product of its launches and
//! its contents: [`Graphs::executions`]. The blocks' records and the live part's entries are put together by
//! [`Gathered`]; of a graph that both know, the live part has the newer count.
//!
//! Rule: a product is only formed where both factors are known. [`Graphs::unseen`] says why others are
//! missing.

use crate::clock::Clock;
use crate::windows::{Window, Windows};
use capture::graphs::{sight, Contents, Executable, Folded, GraphRecord, Launched, UNCOUNTABLE};
use capture::live::View;
use capture::rows::Ticks;
use capture::varint::Reader;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// The CUDA graphs of a process.
#[derive(Clone, Debug, Default)]
pub struct Graphs {
    /// Shapes of captured calls: indices into [`crate::Process::shapes`], by the numbers that contents use.
    pub shapes: Vec<u32>,
    /// What launches execute.
    pub contents: Vec<Content>,
    /// Executable graphs with captured calls, by number.
    pub executables: Vec<Graph>,
    /// Graphs that were gone and were only counted.
    pub folded: Vec<GoneGraphs>,
    /// Launches one by one, by time. Those without a time are not among them.
    pub launches: Vec<Launch>,
    /// Launches that are counted and have no time.
    pub untimed: u64,
    /// Why launches were not seen; empty if all were, as far as is known.
    pub unseen: Vec<Unseen>,
}

/// What one launch executes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Index into [`Graphs::shapes`] and number of calls, in the order of capture.
    pub runs: Vec<(u32, u32)>,
    /// Whether launches times calls is what ran. Not so if the GPU decides how often a part runs.
    pub countable: bool,
}

impl Content {
    /// Calls of one launch.
    pub fn calls(&self) -> u64 {
        self.runs.iter().map(|(_, calls)| u64::from(*calls)).sum()
    }
}

/// An executable graph. Times are realtime ns; `None` if not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Unique in the process, from 1.
    pub number: u32,
    /// Index into [`Graphs::contents`]; `None` if that was lost.
    pub content: Option<usize>,
    /// The number that it had before it was updated.
    pub before: Option<u32>,
    /// When it was instantiated or updated.
    pub instantiated: Option<i64>,
    /// When it was destroyed or updated to something else.
    pub destroyed: Option<i64>,
    /// Launches that CUDA accepted.
    pub launches: u64,
    /// When the newest launch was called.
    pub newest: Option<i64>,
    /// Whether the newest launch had not returned.
    pub launching: bool,
    /// The stream of the newest launch.
    pub stream: u64,
}

/// Graphs of the same contents that were gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoneGraphs {
    /// Index into [`Graphs::contents`]; `None` if that was lost.
    pub content: Option<usize>,
    /// How many graphs.
    pub graphs: u64,
    /// Their launches.
    pub launches: u64,
}

/// A launch of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Number of the graph.
    pub graph: u32,
    /// When it was called, realtime ns.
    pub at: i64,
    /// How long the call took on the host, ns.
    pub took: u64,
    /// The stream.
    pub stream: u64,
    /// When it began to run on the GPU, realtime ns, and for how long, ns; `None` if that was not timed.
    pub gpu: Option<(i64, u64)>,
}

/// Why executions of captured calls were not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// Nothing that the process uses to launch graphs could be watched, or watching was switched off.
    NotWatched,
    /// This many graphs with captured calls were not instantiated in the recorder's sight.
    Unplaced(u64),
    /// This many executable graphs, of which no launch was seen: the program may have launched them in a way
    /// that the recorder does not watch.
    NeverLaunched(u64),
    /// Kernel windows show this many more launches than were seen in them: the program also launches graphs
    /// in a way that the recorder does not watch.
    MoreInWindows(u64),
    /// A place that launches graphs was found when there were graphs already and no launch had been seen:
    /// earlier launches from there were missed.
    FoundLate,
    /// This many graphs found no entry in the recorder's table.
    Full(u64),
    /// Graphs that ran, and of which a part runs as often as the GPU decides: this many launches.
    Uncountable(u64),
    /// What these launches executed was lost with damaged or removed blocks.
    Lost(u64),
    /// Calls were captured, and nothing in the capture says how often they ran.
    NoEvidence,
}

impl Graphs {
    /// Whether calls were captured, or graphs with captured calls were seen.
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty() && self.unseen.is_empty() && self.executables.is_empty()
    }

    /// All launches, of graphs that are there and that are gone.
    pub fn launched(&self) -> u64 {
        let there = self.executables.iter().map(|g| g.launches);
        let gone = self.folded.iter().map(|g| g.launches);
        there.chain(gone).sum()
    }

    /// NCCL calls that one launch of a graph executes; `None` if that is not known.
    pub fn calls_of(&self, number: u32) -> Option<u64> {
        let at = self
            .executables
            .binary_search_by_key(&number, |graph| graph.number);
        let content = self.executables.get(at.ok()?)?.content?;
        Some(self.contents.get(content)?.calls())
    }

    /// How often calls of each shape ran in graphs: index into [`crate::Process::shapes`] and calls.
    pub fn executions(&self) -> BTreeMap<u32, u64> {
        let there = self.executables.iter().map(|g| (g.content, g.launches));
        let gone = self.folded.iter().map(|g| (g.content, g.launches));
        let mut executions = BTreeMap::new();
        for (content, launches) in there.chain(gone) {
            let content = content.and_then(|index| self.contents.get(index));
            for (shape, calls) in content.filter(|c| c.countable).map_or(&[][..], |c| &c.runs) {
                if let Some(shape) = self.shapes.get(*shape as usize) {
                    let ran = u64::from(*calls).saturating_mul(launches);
                    let sum: &mut u64 = executions.entry(*shape).or_default();
                    *sum = sum.saturating_add(ran);
                }
            }
        }
        executions
    }

    /// Holds the launches against what ran in kernel windows, and notes if more ran than were seen.
    ///
    /// A window has what was launched in it and nothing else, and all that one launch runs has one number. So
    /// a window with more such numbers than launches proves that some were not seen.
    pub(crate) fn hold_against(&mut self, windows: &Windows) {
        if self.executables.is_empty() && self.folded.is_empty() {
            return;
        }
        let of_nccl: Vec<bool> = windows
            .names
            .iter()
            .map(|n| n.starts_with("nccl"))
            .collect();
        let beyond = |window: &Window| {
            let ran = window.ran.iter().filter(|ran| {
                ran.graph != 0
                    && of_nccl
                        .get(ran.name as usize)
                        .is_some_and(|of_nccl| *of_nccl)
            });
            let ran: BTreeSet<u32> = ran.map(|ran| ran.correlation).collect();
            let first = self.launches.partition_point(|l| l.at < window.opening);
            let last = self.launches.partition_point(|l| l.at <= window.closed);
            // A call that had begun when the window was opened.
            let is_under_way = |l: &&Launch| l.at.saturating_add_unsigned(l.took) >= window.opening;
            let before = self.launches[..first].iter().rev();
            let seen = last.saturating_sub(first) + before.take_while(is_under_way).count();
            ran.len().saturating_sub(seen) as u64
        };
        let whole = windows.list.iter().filter(|window| window.is_whole());
        let beyond: u64 = whole.map(beyond).sum();
        // Launches that were counted and are not in the list may have been in any window.
        let unlisted = self.launched().saturating_sub(self.launches.len() as u64);
        if beyond > unlisted {
            self.unseen.push(Unseen::MoreInWindows(beyond - unlisted));
        }
    }
}

/// What is gathered of graphs before it can be put together.
#[derive(Clone, Default)]
pub(crate) struct Gathered {
    shapes: BTreeMap<u32, capture::graphs::Shape>,
    contents: BTreeMap<u32, Contents>,
    executables: BTreeMap<u32, Executable>,
    folded: BTreeMap<u32, Folded>,
    launches: Vec<Launched>,
    untimed: u64,
    unplaced: u64,
    full: u64,
    sight: Option<u32>,
}

impl Gathered {
    /// Forgets all but the newest launches.
    pub(crate) fn keep_newest(&mut self, launches: usize) {
        let old = self.launches.len().saturating_sub(launches);
        self.launches.drain(..old);
    }

    /// A block of graphs; false if it is not well formed.
    pub(crate) fn of_graphs(&mut self, payload: &[u8]) -> bool {
        let mut reader = Reader::new(payload);
        while reader.remaining() != 0 {
            match capture::graphs::record(&mut reader) {
                Some(GraphRecord::Shapes(first, shapes)) => {
                    self.shapes.extend((first..).zip(shapes));
                }
                Some(GraphRecord::Contents(contents)) => {
                    self.contents.insert(contents.number, contents);
                }
                Some(GraphRecord::Executable(graph)) if graph.contents == 0 => {
                    self.executables.remove(&graph.number);
                }
                Some(GraphRecord::Executable(graph)) => {
                    self.executables.insert(graph.number, graph);
                }
                Some(GraphRecord::Folded(folded)) => {
                    self.folded.insert(folded.contents, folded);
                }
                None => return false,
            }
        }
        true
    }

    /// A block of launches; false if it is not well formed.
    pub(crate) fn of_launches(&mut self, payload: &[u8]) -> bool {
        let launches = capture::graphs::launches(payload);
        let sound = launches.is_some();
        self.launches.extend(launches.into_iter().flatten());
        sound
    }

    /// The live part, which is newer than all blocks.
    pub(crate) fn of_live(&mut self, view: &View) {
        let header = view.header();
        self.sight = Some(header.graph_sight.load(Relaxed));
        self.unplaced = header.unplaced.load(Relaxed).into();
        self.full = header.graphs_full.load(Relaxed).into();
        self.untimed = header.graph_launches_untimed.load(Relaxed);
        for exec in view.graphs() {
            if exec.number.load(Acquire) != 0 {
                let graph = Executable::load(exec);
                self.executables.insert(graph.number, graph);
            }
        }
        // Launches that the recorder's thread had not taken yet.
        let newest = header.graph_launches.load(Acquire);
        let ring = view.launches();
        let oldest = newest.saturating_sub(ring.len() as u64);
        let next = header.graph_launches_taken.load(Acquire).max(oldest);
        for number in next..newest {
            let launch = &ring[number as usize % ring.len()];
            if launch.word.load(Acquire) == number + 1 {
                self.launches.push(Launched {
                    exec: launch.exec.load(Relaxed),
                    entered: launch.entered.load(Relaxed),
                    took: launch.took.load(Relaxed),
                    stream: launch.stream.load(Relaxed),
                    gpu: None,
                });
            }
        }
    }

    /// Puts the graphs together. `shape` makes an index into the process's shapes; `captured`: calls were
    /// captured.
    pub(crate) fn finish(
        self,
        clock: &Clock,
        captured: bool,
        mut shape: impl FnMut(&capture::graphs::Shape) -> u32,
    ) -> Graphs {
        // Numbers are given out without gaps, so one that is missing was lost.
        let whole = (0..).zip(&self.shapes).take_while(|(i, (n, _))| i == *n);
        let shapes: Vec<u32> = whole.map(|(_, (_, s))| shape(s)).collect();
        let numbers: Vec<u32> = self.contents.keys().copied().collect();
        let contents: Vec<Content> = self
            .contents
            .into_values()
            .map(|c| Content {
                countable: c.flags & UNCOUNTABLE == 0
                    && c.runs.iter().all(|(s, _)| (*s as usize) < shapes.len()),
                runs: c.runs,
            })
            .collect();
        let content = |number: u32| numbers.binary_search(&number).ok();
        let at = |ticks: Ticks| clock.realtime(ticks);
        let executables: Vec<Graph> = self
            .executables
            .into_values()
            .map(|e| Graph {
                number: e.number,
                content: content(e.contents),
                before: (e.before != 0).then_some(e.before),
                instantiated: at(e.instantiated),
                destroyed: at(e.destroyed),
                launches: e.launches,
                newest: at(e.entered),
                launching: e.entered > e.returned,
                stream: e.stream,
            })
            .collect();
        let folded: Vec<GoneGraphs> = self
            .folded
            .into_values()
            .map(|f| GoneGraphs {
                content: content(f.contents),
                graphs: f.executables,
                launches: f.launches,
            })
            .collect();
        let mut launches: Vec<Launch> = self
            .launches
            .iter()
            .filter_map(|l| {
                Some(Launch {
                    graph: l.exec,
                    at: at(l.entered)?,
                    took: clock.duration(l.took.into()).unwrap_or(0),
                    stream: l.stream,
                    gpu: l.gpu.and_then(|gpu| Some((at(gpu.start)?, gpu.ns))),
                })
            })
            .collect();
        launches.sort_by_key(|launch| launch.at);
        let mut graphs = Graphs {
            shapes,
            contents,
            executables,
            folded,
            launches,
            untimed: self.untimed,
            unseen: Vec::new(),
        };
        let of = |which: &dyn Fn(Option<&Content>) -> bool| -> u64 {
            let there = graphs.executables.iter().map(|g| (g.content, g.launches));
            let gone = graphs.folded.iter().map(|g| (g.content, g.launches));
            let content = |index: Option<usize>| index.map(|i| &graphs.contents[i]);
            let all = there.chain(gone);
            all.filter(|(index, _)| which(content(*index)))
                .map(|(_, launches)| launches)
                .sum()
        };
        let (uncountable, lost) = (
            of(&|content| content.is_some_and(|c| !c.countable)),
            of(&|content| content.is_none()),
        );
        let captured = captured || self.sight.is_some_and(|s| s & sight::CAPTURED != 0);
        match self.sight {
            _ if !captured => {}
            // A recorder that did not watch graphs, or a live part that was lost.
            Some(0) => graphs.unseen.push(Unseen::NoEvidence),
            None if graphs.executables.is_empty() && graphs.folded.is_empty() => {
                graphs.unseen.push(Unseen::NoEvidence);
            }
            Some(sight) if sight & sight::INTERPOSED == 0 => graphs.unseen.push(Unseen::NotWatched),
            Some(sight) if sight & sight::FOUND_LATE != 0 => graphs.unseen.push(Unseen::FoundLate),
            _ => {}
        }
        let never = graphs.executables.iter();
        let never = never.filter(|g| g.launches == 0 && g.newest.is_none());
        let folded = graphs.folded.iter().filter(|g| g.launches == 0);
        let never = never.count() as u64 + folded.map(|g| g.graphs).sum::<u64>();
        let counted = [
            (never, Unseen::NeverLaunched as fn(u64) -> Unseen),
            (self.unplaced, Unseen::Unplaced),
            (self.full, Unseen::Full),
            (uncountable, Unseen::Uncountable),
            (lost, Unseen::Lost),
        ];
        let found = counted.into_iter().filter(|(n, _)| *n != 0);
        graphs.unseen.extend(found.map(|(n, why)| why(n)));
        graphs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::windows::GpuActivity;
    use capture::windows::ActivityKind;

    /// A graph of one AllReduce and a matrix product that was launched at these times, and seen to be
    /// launched so often.
    fn launched(at: impl Iterator<Item = i64>, launches: u64) -> Graphs {
        let launch = |at| Launch {
            graph: 1,
            at,
            took: 5,
            stream: 7,
            gpu: None,
        };
        let graph = Graph {
            number: 1,
            content: Some(0),
            before: None,
            instantiated: Some(0),
            destroyed: None,
            launches,
            newest: Some(1),
            launching: false,
            stream: 7,
        };
        Graphs {
            executables: vec![graph],
            launches: at.map(launch).collect(),
            ..Graphs::default()
        }
    }

    /// A window from 100 to 1100, in which a launch ran in each of these moments.
    fn window(at: impl Iterator<Item = i64>, nccl: bool) -> Windows {
        let ran = |(correlation, start): (u32, i64)| {
            [1, 2].map(|name| GpuActivity {
                device: 0,
                start,
                end: start + 1,
                name,
                stream: 7,
                correlation,
                graph: 3,
                node: 0,
                kind: ActivityKind::Kernel,
                size: 1,
            })
        };
        let window = Window {
            opening: 100,
            open: 110,
            closing: 1000,
            closed: 1100,
            ran: (0..).zip(at).flat_map(ran).collect(),
            ..Window::default()
        };
        let second = if nccl {
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        } else {
            "gemm"
        };
        Windows {
            list: vec![window],
            names: ["", "gemm", second].map(str::to_owned).into(),
            ..Windows::default()
        }
    }

    fn unseen(mut graphs: Graphs, windows: &Windows) -> Vec<Unseen> {
        graphs.hold_against(windows);
        graphs.unseen
    }

    #[test]
    fn a_window_with_more_launches_than_were_seen_proves_that_some_were_not() {
        let ran = || window((120..1000).step_by(20), true);
        let all = || (110..990).step_by(20);
        assert_eq!(unseen(launched(all(), 44), &ran()), []);
        // A call that was under way when the window was opened is in it.
        assert_eq!(unseen(launched((96..990).step_by(20), 45), &ran()), []);
        // Each second one was made through a pointer on the heap.
        let half = || (110..990).step_by(40);
        assert_eq!(
            unseen(launched(half(), 22), &ran()),
            [Unseen::MoreInWindows(22)]
        );
        // Their times may be lost.
        assert_eq!(unseen(launched(half(), 44), &ran()), []);
        // Before the window, all were seen.
        let early = (0..90).step_by(20).chain(half());
        assert_eq!(
            unseen(launched(early, 27), &ran()),
            [Unseen::MoreInWindows(22)]
        );
    }

    #[test]
    fn a_window_that_is_not_whole_and_graphs_without_calls_prove_nothing() {
        let half = || launched((110..990).step_by(40), 22);
        let at = || (120..1000).step_by(20);
        assert_eq!(unseen(half(), &window(at(), false)), []);
        let mut dropped = window(at(), true);
        dropped.list[0].dropped = 1;
        assert_eq!(unseen(half(), &dropped), []);
        // Nothing is known of its graphs: a file of another tool.
        assert_eq!(unseen(Graphs::default(), &window(at(), true)), []);
    }
}
