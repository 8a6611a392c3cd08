//! The newest span of a capture that is still being written.
//!
//! A [`Tail`] is asked again and again ([`Tail::newest`]). Each time it reads what was written since, and
//! answers with a [`Capture`] that holds the calls of the last minute or so. All that is asked of a whole
//! capture can be asked of this one. Calls before the span are only counted ([`Process::forgotten`]).
//!
//! Rule: an answer takes time and memory by what the span holds, not by the length of the run. Processes may
//! come and go between two answers.
//!
//! [`Process::forgotten`]: crate::Process::forgotten

use crate::attempts::Which;
use crate::files::{self, TRACE};
use crate::nodes;
use crate::reading::{self, Followed, Keep};
use crate::source::{ReadOptions, ReadProgress, Source};
use crate::spans;
use crate::sums::Sum;
use crate::{Call, Capture, Name, OpenError, Process};
use capture::block::Growing;
use capture::live::flag;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Calls of all processes in a span, at most: they take some 200 bytes each, with what is made of them.
const MOST_CALLS: u64 = 4 << 20;
/// A process may have so many of them in any case.
const LEAST_CALLS: u64 = 4096;
/// The newest calls of a process are kept however old they are: what it did last matters if it does nothing.
const KEPT: usize = 64;
/// Bytes of a sampler's file that are read at once.
const STRETCH: u64 = 16 << 20;

/// See the module.
pub struct Tail {
    path: PathBuf,
    span_ns: i64,
    processes: BTreeMap<PathBuf, Followed>,
    samples: BTreeMap<PathBuf, (Growing, nodes::Gathered)>,
    /// When the newest call of any process was made, ns since 1970. The span ends there: if all wait, what
    /// they wait in is of the span.
    newest_ns: Option<i64>,
    counts: bool,
}

impl Tail {
    /// Of the capture at `path`: a capture folder, or the folder of one host. A span has `span_ns`.
    pub fn new(path: &Path, span_ns: i64) -> Tail {
        Tail {
            path: path.to_owned(),
            span_ns,
            processes: BTreeMap::new(),
            samples: BTreeMap::new(),
            newest_ns: None,
            counts: false,
        }
    }

    /// Also counts the calls since the start ([`Process::sums`]). The first answer then takes time by the
    /// length of the run, and a process in memory that is gone takes its counts with it.
    pub fn counting(mut self) -> Tail {
        self.counts = true;
        self
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The newest span.
    ///
    /// # Errors
    /// When there is nothing to read; never for damage.
    pub fn newest(&mut self) -> Result<Capture, OpenError> {
        let mut capture = Capture {
            path: self.path.clone(),
            ..Capture::default()
        };
        capture.read_job();
        let found = files::find(&self.path, &mut capture.problems);
        let job_ended = capture.job.is_object();
        let job_ended = job_ended.then(|| !capture.job["ended"].is_null());
        self.processes.retain(|stem, followed| {
            let mut own = found.iter().filter(|files| files.stem == *stem);
            own.any(|files| followed.is_of(files) && !followed.lacks(files))
        });
        for files in &found {
            if !self.processes.contains_key(&files.stem) {
                if let Some(followed) = Followed::new(files, self.counts) {
                    self.processes.insert(files.stem.clone(), followed);
                }
            }
        }
        let rows = MOST_CALLS / (self.processes.len().max(1) as u64);
        let mut keep = Keep {
            from_ns: self.begin_ns(),
            rows: rows.max(LEAST_CALLS),
        };
        if self.newest_ns.is_none() {
            // The first time: until all are read, nobody knows which span is the newest.
            for files in &found {
                if let Some(followed) = self.processes.get_mut(&files.stem) {
                    followed.advance(files, &keep);
                    self.newest_ns = self.newest_ns.max(followed.newest_call_ns());
                    keep.from_ns = self.newest_ns.map_or(i64::MIN, |ns| ns - self.span_ns);
                }
            }
        }
        keep.from_ns = self.begin_ns();
        let mut scanned = Vec::new();
        for files in &found {
            let mut problems = Vec::new();
            let scan = match self.processes.get_mut(&files.stem) {
                Some(followed) => {
                    let (scan, found) = followed.scan(files, &keep, job_ended);
                    problems = found;
                    Some(scan)
                }
                None => reading::scan(files, job_ended, &mut problems),
            };
            let unreadable = reading::unreadable(files, &problems);
            scanned.push((scan.ok_or(unreadable), problems));
        }
        let how = ReadOptions {
            attempt: Which::Last,
            ..ReadOptions::default()
        };
        let mut source = Source::of(capture, scanned, how)?;
        self.newest_ns = source.newest_call_ns();
        let from_ns = source.begins_ns().max(Some(self.begin_ns()));
        source.set_nodes(self.nodes(&source));
        self.count(&source);
        let mut capture = source.load(&ReadProgress::default());
        self.sum_up(&mut capture);
        // A job that only launches graphs makes no call.
        self.newest_ns = self.newest_ns.max(made(&capture).map(|(_, last)| last));
        let from_ns = from_ns.max(Some(self.begin_ns()));
        leave_out_before(&mut capture, from_ns.unwrap_or(i64::MIN));
        Ok(capture)
    }

    /// Counts the calls that are not kept from now on.
    fn count(&mut self, source: &Source) {
        if !self.counts {
            return;
        }
        let mut followed = by_file(source.capture().root(), &mut self.processes);
        for (index, process) in source.capture().processes.iter().enumerate() {
            let Some(followed) = followed.get_mut(&process.file) else {
                continue;
            };
            let (new, twice) = source.forgotten(index);
            followed.twice = twice;
            let sums = &mut followed.sums;
            sums.resize(sums.len().max(new.len()), Sum::default());
            for (into, of) in sums.iter_mut().zip(&new) {
                into.merge(of);
            }
        }
    }

    /// Adds the calls that are kept to those that are not.
    fn sum_up(&mut self, capture: &mut Capture) {
        if !self.counts {
            return;
        }
        let followed = by_file(capture.root(), &mut self.processes);
        for process in &mut capture.processes {
            let known = followed.get(&process.file);
            let mut sums = known.map_or_else(Vec::new, |followed| followed.sums.clone());
            sums.resize(process.shapes.len(), Sum::default());
            let is_counted = |call: &&Call| {
                known.is_some_and(|followed| !call.sealed && followed.twice.contains(&call.ticket))
            };
            for call in process.calls.iter().filter(|call| !is_counted(call)) {
                let index = call.shape as usize;
                sums[index].add(&process.shapes[index], call);
            }
            for total in &process.totals {
                sums[total.shape as usize].add_total(total);
            }
            process.sums = sums;
        }
    }

    fn begin_ns(&self) -> i64 {
        let newest = self.newest_ns.map(|ns| ns.saturating_sub(self.span_ns));
        newest.unwrap_or(i64::MIN)
    }

    /// What samplers saw in the span.
    fn nodes(&mut self, source: &Source) -> Vec<crate::Node> {
        if !self.path.is_dir() {
            return Vec::new();
        }
        let from = self.begin_ns();
        let found = nodes::find(&self.path);
        self.samples.retain(|path, _| found.contains(path));
        let mut all = Vec::new();
        for path in found {
            let name = path.strip_prefix(&self.path).unwrap_or(&path);
            let new = || (Growing::default(), nodes::Gathered::new(name));
            let (growing, gathered) = self.samples.entry(path.clone()).or_insert_with(new);
            // What is compressed doesn't grow.
            if growing.at == 0 || !crate::packs::is_compressed(&path) {
                if let Ok(file) = files::open_uncompressed(&path) {
                    read_samples(&file, growing, gathered, from);
                }
            }
            gathered.forget(from);
            all.push(gathered.node());
        }
        nodes::join(all, &source.capture().processes)
    }
}

/// Processes by the name of their file in the capture.
fn by_file<'a>(
    root: &Path,
    processes: &'a mut BTreeMap<PathBuf, Followed>,
) -> HashMap<PathBuf, &'a mut Followed> {
    let name = |followed: &Followed| {
        let path = followed.path();
        path.strip_prefix(root).unwrap_or(path).to_owned()
    };
    let all = processes.values_mut();
    all.map(|followed| (name(followed), followed)).collect()
}

/// When the first call or launch of a graph was made of those that are here, and the last, ns since 1970.
pub fn made(capture: &Capture) -> Option<(i64, i64)> {
    let of = |process: &Process| {
        let calls = process
            .calls
            .iter()
            .map(|call| call.api_ns)
            .filter(|at| *at != 0);
        let launches = process.graphs.launches.iter().map(|launch| launch.at);
        let ends = |(first, last): (i64, i64), at: i64| (first.min(at), last.max(at));
        let all = calls.chain(launches);
        all.fold((i64::MAX, i64::MIN), ends)
    };
    let all = capture.processes.iter().map(of);
    let ends = all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
    (ends.0 <= ends.1).then_some(ends)
}

/// Leaves out the calls, launches of graphs, windows and steps of before a moment, ns since 1970. What counts
/// those of the whole run stays.
///
/// All ranks of the largest communicator begin with the same operation then. Otherwise the first step of one
/// would stand beside the second of another. Composites that are cut apart are left out, too.
pub fn leave_out_before(capture: &mut Capture, from_ns: i64) {
    let first = first_calls(capture, from_ns);
    for (process, first) in capture.processes.iter_mut().zip(first) {
        forget(process, first);
        let launches = &mut process.graphs.launches;
        launches.drain(..launches.partition_point(|launch| launch.at < from_ns));
        process.windows.list.retain(|window| window.open >= from_ns);
        process.marks.steps.retain(|step| step.from >= from_ns);
    }
}

/// By process, the first call that is kept; see [`leave_out_before`].
fn first_calls(capture: &Capture, from_ns: i64) -> Vec<usize> {
    let all = capture.processes.iter();
    let mut first: Vec<usize> = all.map(|process| first_from(process, from_ns)).collect();
    if first.iter().any(|first| *first != 0) {
        if let Some(communicator) = largest(capture) {
            align(capture, communicator, &mut first);
        }
    }
    first
}

/// The first call that was made at or after a moment.
fn first_from(process: &Process, from_ns: i64) -> usize {
    let calls = &process.calls;
    let is_in = |call: &Call| call.api_ns >= from_ns && call.api_ns != 0;
    let first = calls.iter().position(is_in).unwrap_or(calls.len());
    first.min(calls.len().saturating_sub(KEPT))
}

/// The communicator with the most members, of equals the first.
pub(crate) fn largest(capture: &Capture) -> Option<u32> {
    let all = capture.communicators.iter().enumerate();
    let largest = all.max_by_key(|(index, c)| (c.members.len(), Reverse(*index)))?;
    u32::try_from(largest.0).ok()
}

/// The function of a call whose number is the same on all ranks of the communicator.
pub(crate) fn counted(process: &Process, call: &Call, communicator: u32) -> Option<Name> {
    let shape = &process.shapes[call.shape as usize];
    let own = shape.flags & (flag::P2P | flag::REPLAY | flag::CAPTURED) == 0;
    (own && shape.communicator == Some(communicator) && call.seq != 0).then_some(shape.function)
}

/// Moves the first calls of a communicator's members to the first operation that all of them keep.
fn align(capture: &Capture, communicator: u32, first: &mut [usize]) {
    // By process and function: the number of the first call that is kept.
    let counted = |process: &Process, call: &Call| counted(process, call, communicator);
    let members: BTreeSet<usize> = capture.communicators[communicator as usize]
        .members
        .iter()
        .map(|member| member.process)
        .collect();
    let mut numbers: BTreeMap<usize, (Name, u64)> = BTreeMap::new();
    let mut function = None;
    for member in &members {
        let process = &capture.processes[*member];
        let found = process.calls[first[*member]..].iter().find_map(|call| {
            let of = counted(process, call)?;
            (function.is_none_or(|function| function == of)).then_some((of, call.seq))
        });
        if let Some((of, seq)) = found {
            function = Some(of);
            numbers.insert(*member, (of, seq));
        }
    }
    let Some(number) = numbers.values().map(|(_, seq)| *seq).max() else {
        return;
    };
    let mut from_ns = i64::MAX;
    for member in &members {
        let process = &capture.processes[*member];
        let is_it = |call: &Call| counted(process, call) == function && call.seq == number;
        if let Some(index) = process.calls.iter().position(is_it) {
            first[*member] = index;
            from_ns = from_ns.min(process.calls[index].api_ns);
        }
    }
    for (index, process) in capture.processes.iter().enumerate() {
        if !members.contains(&index) && from_ns < i64::MAX {
            first[index] = first_from(process, from_ns);
        }
    }
}

/// Leaves out the calls before this one.
fn forget(process: &mut Process, first: usize) {
    if first == 0 {
        return;
    }
    // What is said of the run is said of the span: no rank is seen before it begins.
    if let Some(begins) = process.calls.get(first).map(|call| call.api_ns) {
        for local in &mut process.communicators {
            let later = |at: i64| at.max(begins);
            local.created_ns = local.created_ns.map(later);
            local.ended_ns = local.ended_ns.map(later);
        }
    }
    spans::keep_calls(process, |at, _| at >= first);
}

/// Reads a file of samples on.
fn read_samples(file: &File, growing: &mut Growing, gathered: &mut nodes::Gathered, from: i64) {
    let len = file.metadata().map_or(0, |meta| meta.len()).min(TRACE.most);
    let mut bytes = Vec::new();
    while growing.at < len && !growing.refused {
        let size = (len - growing.at).min(STRETCH);
        bytes.resize(size as usize, 0);
        if file.read_exact_at(&mut bytes, growing.at).is_err() {
            return;
        }
        let each = |block: capture::block::Block<'_>| {
            gathered.of_block(&block);
        };
        if growing.read(&bytes, each, |_| ()) == 0 {
            return;
        }
        gathered.forget(from);
    }
}
