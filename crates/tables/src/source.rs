//! A capture whose calls stay in their files until they are asked for, process by process.
//!
//! [`Source::open`] learns everything else: who the processes are, their communicators, their clocks, and
//! where which calls lie. Then there are two ways. [`Source::load`] brings all calls into memory;
//! [`Capture::open`] does that. [`Source::fold`] shows them to an analysis on all cores, a process or a part
//! of one at a time.
//!
//! Rule: what is shown is the same either way, and whatever the number of threads. A process that makes sends
//! or receives is shown whole, because its operations are put together from calls that may lie far apart; so
//! is one with few calls.

mod copies;

use crate::attempts::{self, Which};
use crate::composites::{self, Partner, Sizes, Words};
use crate::files::{self, Files};
use crate::parallel;
use crate::part::Part;
use crate::reading::{self, Range, Reader, TicketRange};
use crate::sums::Sum;
use crate::trust::StampCheck;
use crate::{
    communicators, machines, unfinished, Capture, LiveSource, OpenError, Problem, Process,
};
use copies::{without_copies, Scanned};
use std::collections::HashSet;
use std::io::ErrorKind::NotFound;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{channel, sync_channel};

/// How a capture is read. What is read is the same however that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// Threads.
    pub threads: usize,
    /// A process with more calls than this is shown in parts.
    pub whole: u64,
    /// Calls in a part, about.
    pub part: u64,
    /// Which attempts of a job that was started again.
    pub attempt: Which,
}

impl Default for ReadOptions {
    /// On all cores, in parts that fit a core's cache as well as may be.
    fn default() -> ReadOptions {
        ReadOptions {
            threads: parallel::cores(),
            whole: 3 << 19,
            part: 1 << 17,
            attempt: Which::All,
        }
    }
}

/// Calls of processes that may be roots that are kept from their first reading to their second.
const KEPT: u64 = 1 << 20;

/// How far a reading is, in steps of about a byte of trace file each. Others may look at it meanwhile.
#[derive(Debug, Default)]
pub struct ReadProgress {
    /// Steps taken.
    pub done: AtomicU64,
    /// Steps to take in all, as far as is known.
    pub of: AtomicU64,
}

/// A capture but for its calls.
pub struct Source {
    capture: Capture,
    readers: Vec<Reader>,
    words: Words,
    how: ReadOptions,
    /// The part of a run that this is a capture of.
    part: Option<Part>,
    /// From when to when the chosen attempt was the newest, ns since 1970.
    span: std::ops::Range<i64>,
    /// Of the capture as a whole.
    first_problems: Vec<Problem>,
    /// By place of the files in the capture.
    problems: Vec<Vec<Problem>>,
    /// By process, the place of its files.
    places: Vec<usize>,
    /// Of processes that don't fit together.
    last_problems: Vec<Problem>,
}

/// Which part of a process is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Whether no part of it was shown before.
    pub first: bool,
    /// Whether no other part follows.
    pub last: bool,
}

/// What was found out while the calls of a process were read.
#[derive(Default)]
struct Found {
    sealed: u64,
    shapeless: u64,
    malformed: Vec<u32>,
}

impl Found {
    fn add(&mut self, part: &mut TicketRange) {
        self.sealed += part.sealed;
        self.shapeless += part.shapeless;
        self.malformed.append(&mut part.malformed);
    }

    fn tell(&self, process: &mut Process, bad_blocks: u64) {
        process.sealed = self.sealed;
        process.shapeless = self.shapeless;
        process.bad_blocks = bad_blocks + self.malformed.len() as u64;
    }
}

impl Source {
    /// Opens the capture at `path` as [`Capture::open`] does, but for its calls.
    ///
    /// # Errors
    /// When there is nothing to read; never for damage.
    pub fn open(path: &Path, progress: &ReadProgress) -> Result<Source, OpenError> {
        Source::open_as(path, progress, ReadOptions::default())
    }

    /// As [`Source::open`], but one attempt of a job that was started again.
    ///
    /// # Errors
    /// As there, and if there is no such attempt.
    pub fn open_attempt(
        path: &Path,
        progress: &ReadProgress,
        attempt: Which,
    ) -> Result<Source, OpenError> {
        let how = ReadOptions {
            attempt,
            ..ReadOptions::default()
        };
        Source::open_as(path, progress, how)
    }

    /// As [`Source::open`], read as `how` says.
    ///
    /// # Errors
    /// As there.
    pub fn open_as(
        path: &Path,
        progress: &ReadProgress,
        how: ReadOptions,
    ) -> Result<Source, OpenError> {
        let owned = path.to_owned();
        match path.metadata() {
            Err(error) if error.kind() == NotFound && files::is_packed(path) => {}
            Err(error) if error.kind() == NotFound => {
                return Err(OpenError::NotFound { path: owned });
            }
            Err(error) => return Err(OpenError::Unreadable { path: owned, error }),
            Ok(meta) if !meta.is_dir() && !files::is_named(path) => {
                return Err(OpenError::OtherFile { path: owned });
            }
            Ok(meta) if meta.is_dir() => {
                if let Err(error) = std::fs::read_dir(path) {
                    return Err(OpenError::Unreadable { path: owned, error });
                }
            }
            Ok(_) => {}
        }
        let mut capture = Capture {
            path: path.to_owned(),
            ..Capture::default()
        };
        capture.read_job();
        let found = files::find(path, &mut capture.problems);
        // Every file is gone over twice.
        progress
            .of
            .store(2 * found.iter().map(Files::size).sum::<u64>(), Relaxed);
        // `ncclscope run` writes it down.
        let job = capture.job.is_object();
        let job_ended = job.then(|| !capture.job["ended"].is_null());
        let scanned: Vec<Scanned> = parallel::map(how.threads, found, |files| {
            let mut problems = Vec::new();
            let scan = reading::scan(&files, job_ended, &mut problems);
            progress.done.fetch_add(files.size(), Relaxed);
            let unreadable = reading::unreadable(&files, &problems);
            (scan.ok_or(unreadable), problems)
        });
        let mut source = Source::of(capture, scanned, how)?;
        let root = source.capture.root().to_owned();
        if path.is_dir() {
            let mut unsound = Vec::new();
            // The folder of one host has the job of the folder around it.
            let written = if root.join("capture.json").is_file() {
                crate::nodes::written(&source.capture.job, &root, &mut unsound)
            } else {
                Default::default()
            };
            let processes = &source.capture.processes;
            let nodes = crate::nodes::read(&root, processes, written, &mut unsound);
            source.set_nodes(nodes);
            source.first_problems.extend(unsound);
        }
        Ok(source)
    }

    /// A capture of these processes. `capture` has its path, and what is known of its job.
    pub(crate) fn of(
        mut capture: Capture,
        scanned: Vec<Scanned>,
        how: ReadOptions,
    ) -> Result<Source, OpenError> {
        let path = capture.path.clone();
        let root = capture.root().to_owned();
        let relative = |problems: Vec<Problem>| -> Vec<Problem> {
            let relative = |mut problem: Problem| {
                problem.file = relative(&problem.file, &root);
                problem
            };
            problems.into_iter().map(relative).collect()
        };
        let mut source = Source {
            first_problems: relative(std::mem::take(&mut capture.problems)),
            capture,
            readers: Vec::new(),
            words: Words::default(),
            how,
            part: None,
            span: i64::MIN..i64::MAX,
            problems: Vec::new(),
            places: Vec::new(),
            last_problems: Vec::new(),
        };
        let mut processes = Vec::new();
        for (scan, problems) in without_copies(scanned, &root) {
            match scan {
                Ok(scan) => {
                    let (mut process, reader) = scan.name(&mut source.capture.names);
                    process.file = self::relative(&process.file, &root);
                    processes.push((process, reader, source.problems.len()));
                }
                Err(Some(mut unreadable)) => {
                    unreadable.file = self::relative(&unreadable.file, &root);
                    source.capture.unreadable.push(unreadable);
                }
                Err(None) => {}
            }
            source.problems.push(relative(problems));
        }
        if processes.is_empty() {
            return Err(OpenError::NoTrace {
                path,
                problems: source.all_problems(),
            });
        }
        processes.sort_by(|(a, ..), (b, ..)| {
            (a.restart, a.rank, &a.file).cmp(&(b.restart, b.rank, &b.file))
        });
        for (process, reader, place) in processes {
            source.capture.processes.push(process);
            source.readers.push(reader);
            source.places.push(place);
        }
        let missing = source.capture.miss_job(&source.first_problems);
        source.first_problems.extend(missing);
        let span = source.choose(how.attempt)?;
        let unsound = crate::sightings::read(&mut source.capture, &root);
        let seen = &mut source.capture.sightings;
        seen.retain(|sighting| span.contains(&sighting.at_ns));
        source.first_problems.extend(unsound);
        let (patterns, unsound) = crate::communication::read(&root);
        source.capture.communication = patterns;
        source.first_problems.extend(unsound);
        let (part, unsound) = crate::part::read(&root);
        source.part = part;
        source.first_problems.extend(unsound);
        machines::name(&mut source.capture.processes);
        source.span = span;
        source.unite();
        source.words = Words::new(&mut source.capture.names);
        Ok(source)
    }

    /// When the newest call of any process was made, to a block, ns since 1970.
    pub(crate) fn newest_call_ns(&self) -> Option<i64> {
        let processes = self.capture.processes.iter().zip(&self.readers);
        let newest = processes.filter_map(|(process, reader)| reader.newest(&process.clock));
        newest.max()
    }

    /// When the first call was made of which all processes have all that follow, to a block, ns since 1970.
    pub(crate) fn begins_ns(&self) -> Option<i64> {
        let processes = self.capture.processes.iter().zip(&self.readers);
        let cut = processes.filter(|(process, _)| process.forgotten > 0);
        let begins = cut.filter_map(|(process, reader)| reader.begins(&process.clock));
        begins.max()
    }

    /// Counts the calls of a process that are not kept, by shape. Also returns the tickets of those that are
    /// in the copy of the live part, too: it was made before the files were read.
    pub(crate) fn forgotten(&self, index: usize) -> (Vec<Sum>, HashSet<u64>) {
        let (process, reader) = (&self.capture.processes[index], &self.readers[index]);
        let mut sums = vec![Sum::default(); process.shapes.len()];
        let live: HashSet<u64> = reader.live_tickets().collect();
        let mut twice = HashSet::new();
        let mut check = StampCheck::new(process, &self.capture.names);
        let mut opened = reader.open(&process.clock);
        opened.forgotten(&mut TicketRange::default(), |part| {
            check.look(&process.shapes, &part.calls);
            check.check(&process.shapes, &mut part.calls, &mut part.extras);
            for call in &part.calls {
                let shape = &process.shapes[call.shape as usize];
                sums[call.shape as usize].add(shape, call);
                if live.contains(&call.ticket) {
                    twice.insert(call.ticket);
                }
            }
        });
        (sums, twice)
    }

    /// What samplers saw, of which the time of the chosen attempt is kept.
    pub(crate) fn set_nodes(&mut self, mut nodes: Vec<crate::Node>) {
        for node in &mut nodes {
            node.keep(&self.span);
        }
        self.capture.nodes = nodes;
    }

    /// Everything but the calls, and what becomes known with them: extras, composites, problems in rows.
    pub fn capture(&self) -> &Capture {
        &self.capture
    }

    /// Gives the capture another path for people, because it was made of what is there, and says what was
    /// unsound there.
    pub fn call_it(&mut self, path: std::path::PathBuf, problems: Vec<Problem>) {
        self.capture.path = path;
        self.first_problems.extend(problems);
    }

    /// Calls in the files of all processes, those that are in two places twice.
    pub fn rows(&self) -> u64 {
        self.readers.iter().map(Reader::rows).sum()
    }

    /// Leaves out what is of other attempts than `which`, and says from when to when that one was the newest.
    fn choose(&mut self, which: Which) -> Result<std::ops::Range<i64>, OpenError> {
        let (communicators, _) = communicators::unite(&self.capture.processes);
        let captures = crate::jobs::captures(&self.capture, &communicators);
        if captures.len() > 1 {
            return Err(OpenError::SeveralCaptures {
                path: self.capture.path.clone(),
                captures,
            });
        }
        let found = attempts::find(&self.capture.processes, &communicators);
        let number = match which {
            Which::All => None,
            Which::Last => Some(found.len()),
            Which::Number(asked) if (1..=found.len()).contains(&(asked as usize)) => {
                Some(asked as usize)
            }
            Which::Number(asked) => {
                return Err(OpenError::NoAttempt {
                    path: self.capture.path.clone(),
                    asked,
                    of: found.len(),
                })
            }
        };
        let mut span = i64::MIN..i64::MAX;
        if let Some(chosen) = number.filter(|_| found.len() > 1) {
            let others = found.iter().enumerate();
            let others = others.filter(|(at, _)| at + 1 != chosen);
            let mut left_out = vec![false; self.capture.processes.len()];
            let mut restarts = Vec::new();
            for (_, (attempt, processes)) in others {
                restarts.push(attempt.restart);
                processes.iter().for_each(|index| left_out[*index] = true);
            }
            let restart = found[chosen - 1].0.restart;
            let unreadable = &mut self.capture.unreadable;
            unreadable.retain(|of| of.restart == restart || !restarts.contains(&of.restart));
            for (place, _) in self.places.iter().zip(&left_out).filter(|(_, out)| **out) {
                self.problems[*place].clear();
            }
            fn keep<T>(all: &mut Vec<T>, left_out: &[bool]) {
                let mut out = left_out.iter();
                all.retain(|_| !out.next().is_some_and(|out| *out));
            }
            keep(&mut self.capture.processes, &left_out);
            keep(&mut self.readers, &left_out);
            keep(&mut self.places, &left_out);
            let began = |at: usize| found.get(at).and_then(|(attempt, _)| attempt.began_ns);
            if chosen > 1 {
                span.start = began(chosen - 1).unwrap_or(i64::MIN);
            }
            span.end = began(chosen).unwrap_or(i64::MAX);
        }
        self.capture.attempt = number.map(|number| number as u32);
        let attempts = found.into_iter().map(|(attempt, _)| attempt);
        self.capture.attempts = attempts.collect();
        Ok(span)
    }

    fn unite(&mut self) {
        let (communicators, united) = communicators::unite(&self.capture.processes);
        self.capture.communicators = communicators;
        for (index, process) in self.capture.processes.iter_mut().enumerate() {
            let mut undefined: Vec<u32> = Vec::new();
            for shape in &mut process.shapes {
                match united.get(&(index, shape.uid)) {
                    Some(communicator) => shape.communicator = u32::try_from(*communicator).ok(),
                    // In totals only: a communicator whose definition went with a trace file.
                    None if shape.uid == 0 => {}
                    None => undefined.push(shape.uid),
                }
            }
            undefined.sort_unstable();
            undefined.dedup();
            // Made after the moment that is shown of a process that runs.
            if process.live == LiveSource::Here && !process.ended {
                undefined.clear();
            }
            self.last_problems
                .extend(undefined.into_iter().map(|uid| Problem {
                    file: process.file.clone(),
                    place: "its definitions".into(),
                    expected: format!("communicator {uid}, which calls were made on"),
                    found: "none with that number".into(),
                }));
        }
    }

    fn all_problems(&mut self) -> Vec<Problem> {
        let mut all = std::mem::take(&mut self.first_problems);
        all.extend(std::mem::take(&mut self.problems).into_iter().flatten());
        all.append(&mut self.last_problems);
        all
    }

    /// Writes down what was found out about each process, in order.
    fn settle(&mut self, found: Vec<Found>) {
        for ((process, found), place) in self
            .capture
            .processes
            .iter_mut()
            .zip(found)
            .zip(&self.places)
        {
            let problems = &mut self.problems[*place];
            let malformed = found.malformed.iter();
            problems.extend(malformed.map(|number| reading::malformed(&process.file, *number)));
            if found.shapeless > 0 {
                problems.push(Problem {
                    file: process.file.clone(),
                    place: "rows after a damaged block".into(),
                    expected: "the block that says what they were".into(),
                    found: format!("{} rows without it", found.shapeless),
                });
            }
            let bad_blocks = process.bad_blocks;
            found.tell(process, bad_blocks);
        }
        self.capture.problems = self.all_problems();
    }

    /// Brings all calls into memory.
    pub fn load(mut self, progress: &ReadProgress) -> Capture {
        let indexes = (0..self.readers.len()).collect();
        let whole = parallel::map(self.how.threads, indexes, |index| {
            let mut whole = self.whole(index, &mut TicketRange::default(), progress);
            // What grew by doubling is given back.
            whole.process.calls.shrink_to_fit();
            whole
        });
        let partners = self.partners(whole.iter().map(|w| &w.process));
        let mut found = Vec::new();
        for ((index, mut whole), partners) in whole.into_iter().enumerate().zip(&partners) {
            composites::answer(&mut whole.process, &self.words, &whole.sizes, partners);
            let process = &mut self.capture.processes[index];
            process.calls = whole.process.calls;
            process.extras = whole.process.extras;
            process.composites = whole.process.composites;
            found.push(whole.found);
        }
        self.settle(found);
        let Capture {
            processes,
            communicators,
            names,
            ..
        } = &mut self.capture;
        unfinished::mark(processes, communicators, names);
        if let Some(part) = &self.part {
            part.keep(&mut self.capture);
        }
        self.capture
    }

    /// By process, what its calls answer to of others.
    fn partners<'a>(&self, processes: impl Iterator<Item = &'a Process>) -> Vec<Vec<Partner>> {
        let mut by_process = vec![Vec::new(); self.readers.len()];
        for process in processes {
            let communicators = &self.capture.communicators;
            for (of, partner) in composites::partners(process, communicators, &self.words) {
                by_process[of].push(partner);
            }
        }
        by_process
    }

    /// Shows the calls of all processes to analyses made by `new`. Each of them sees some consecutive
    /// processes. Returns the analyses in order, and the capture without calls.
    ///
    /// `add` is given the analysis, the capture without calls, the process with the calls that are shown, by
    /// ticket, and which part of it this is. Counts of damaged rows are whole at the last part.
    pub fn fold<A: Send>(
        mut self,
        progress: &ReadProgress,
        new: impl Fn() -> A + Sync,
        add: impl Fn(&mut A, &Capture, &Process, Shown) + Sync,
    ) -> (Vec<A>, Capture) {
        if self.part.is_some() {
            return self.fold_loaded(progress, new, add);
        }
        let (kept, partners) = self.first_reading();
        let mut kept = kept.into_iter();
        let turns = self.turns().into_iter().map(|turn| {
            let kept: Vec<Option<Whole>> = kept.by_ref().take(turn.len()).collect();
            (turn, kept)
        });
        let turns: Vec<_> = turns.collect();
        let done = parallel::map(self.how.threads, turns, |(turn, kept)| {
            let mut analysis = new();
            let mut part = TicketRange::default();
            let mut found = Vec::new();
            for (index, kept) in turn.zip(kept) {
                let mut add = |process: &Process, shown: Shown| {
                    add(&mut analysis, &self.capture, process, shown);
                };
                if kept.is_none() && !self.is_whole(index) {
                    found.push(self.in_parts(index, progress, add));
                    continue;
                }
                let mut whole = kept.unwrap_or_else(|| self.whole(index, &mut part, progress));
                let process = &mut whole.process;
                composites::answer(process, &self.words, &whole.sizes, &partners[index]);
                let shown = Shown {
                    first: true,
                    last: true,
                };
                add(process, shown);
                part.calls = std::mem::take(&mut process.calls);
                part.extras = std::mem::take(&mut process.extras);
                found.push(whole.found);
            }
            (analysis, found)
        });
        let (analyses, found): (Vec<A>, Vec<Vec<Found>>) = done.into_iter().unzip();
        self.settle(found.into_iter().flatten().collect());
        (analyses, self.capture)
    }

    /// [`Source::fold`] of a capture that must be in memory as a whole before it can be shown.
    fn fold_loaded<A>(
        self,
        progress: &ReadProgress,
        new: impl Fn() -> A,
        add: impl Fn(&mut A, &Capture, &Process, Shown),
    ) -> (Vec<A>, Capture) {
        let capture = self.load(progress);
        let mut analysis = new();
        let shown = Shown {
            first: true,
            last: true,
        };
        for process in &capture.processes {
            add(&mut analysis, &capture, process, shown);
        }
        (vec![analysis], capture)
    }

    /// Reads the processes that may be roots of a Gather or Scatter, to learn what the calls of others are a
    /// part of.
    fn first_reading(&self) -> (Vec<Option<Whole>>, Vec<Vec<Partner>>) {
        let mut kept: Vec<Option<Whole>> = self.readers.iter().map(|_| None).collect();
        let mut partners = vec![Vec::new(); self.readers.len()];
        let rooted =
            |i: &usize| composites::may_be_rooted(&self.capture.processes[*i], &self.words);
        let indexes: Vec<usize> = (0..kept.len()).filter(rooted).collect();
        let rows: u64 = indexes.iter().map(|i| self.readers[*i].rows()).sum();
        let read = parallel::map(self.how.threads, indexes, |index| {
            let whole = self.whole(index, &mut TicketRange::default(), &ReadProgress::default());
            let partners = self.partners(std::iter::once(&whole.process));
            (index, partners, (rows <= KEPT).then_some(whole))
        });
        for (index, of, whole) in read {
            kept[index] = whole;
            for (into, mut of) in partners.iter_mut().zip(of) {
                into.append(&mut of);
            }
        }
        (kept, partners)
    }

    fn has_pieces(&self, index: usize) -> bool {
        let mut shapes = self.capture.processes[index].shapes.iter();
        shapes.any(|shape| self.words.is_piece(shape))
    }

    fn is_whole(&self, index: usize) -> bool {
        self.readers[index].rows() <= self.how.whole || self.has_pieces(index)
    }

    /// Consecutive processes for each thread, with about as many calls.
    fn turns(&self) -> Vec<std::ops::Range<usize>> {
        let all = self.rows().max(1);
        let threads = self.how.threads.max(1) as u64;
        let mut turns: Vec<std::ops::Range<usize>> = Vec::new();
        let mut before = 0;
        for (index, reader) in self.readers.iter().enumerate() {
            let middle = before + reader.rows() / 2;
            let turn = (u128::from(middle) * u128::from(threads) / u128::from(all)) as usize;
            let begun = turns.len();
            match turns.last_mut() {
                Some(last) if turn < begun => last.end = index + 1,
                _ => turns.push(index..index + 1),
            }
            before += reader.rows();
        }
        turns
    }

    /// A process with its calls, checked, and the operations that they make among themselves.
    fn whole(&self, index: usize, part: &mut TicketRange, progress: &ReadProgress) -> Whole {
        let mut process = self.capture.processes[index].clone();
        let reader = &self.readers[index];
        let mut found = Found::default();
        reader.open(&process.clock).read((0, u64::MAX), part);
        progress.done.fetch_add(reader.bytes(), Relaxed);
        found.add(part);
        process.calls = std::mem::take(&mut part.calls);
        process.extras = std::mem::take(&mut part.extras);
        let mut check = StampCheck::new(&process, &self.capture.names);
        check.look(&process.shapes, &process.calls);
        check.check(&process.shapes, &mut process.calls, &mut process.extras);
        let sizes = if self.has_pieces(index) {
            composites::put_together(&mut process, &self.words)
        } else {
            Sizes::new()
        };
        let bad_blocks = process.bad_blocks;
        found.tell(&mut process, bad_blocks);
        Whole {
            process,
            sizes,
            found,
        }
    }

    /// Shows a process in parts.
    fn in_parts(
        &self,
        index: usize,
        progress: &ReadProgress,
        mut add: impl FnMut(&Process, Shown),
    ) -> Found {
        let mut process = self.capture.processes[index].clone();
        let reader = &self.readers[index];
        let clock = process.clock.clone();
        let ranges = reader.ranges(self.how.part);
        let mut check = StampCheck::new(&process, &self.capture.names);
        let mut left_bytes = reader.bytes();
        let events = matches!(process.fact("timing"), Some("auto" | "events"));
        if check.compares() && !events && reader.is_stamped() {
            let threads = self.how.threads.max(1);
            let looked = parallel::map(threads, (0..threads).collect(), |first| {
                let mut check = StampCheck::new(&process, &self.capture.names);
                let shapes = &process.shapes;
                let look = |call: &crate::Call| check.look_at(&shapes[call.shape as usize], call);
                reader.open(&clock).stamps(first, threads, look);
                check
            });
            looked.into_iter().for_each(|other| check.merge(other));
            left_bytes -= reader.bytes() / 3;
            progress.done.fetch_add(reader.bytes() / 3, Relaxed);
        }
        let (mut found, mut left) = (Found::default(), ranges.len());
        let bad_blocks = process.bad_blocks;
        read_ahead(reader, &clock, &ranges, |part| {
            check.check(&process.shapes, &mut part.calls, &mut part.extras);
            found.add(part);
            found.tell(&mut process, bad_blocks);
            std::mem::swap(&mut process.calls, &mut part.calls);
            std::mem::swap(&mut process.extras, &mut part.extras);
            let shown = Shown {
                first: left == ranges.len(),
                last: left == 1,
            };
            add(&process, shown);
            std::mem::swap(&mut process.calls, &mut part.calls);
            std::mem::swap(&mut process.extras, &mut part.extras);
            left -= 1;
            let step = left_bytes / ranges.len() as u64;
            progress.done.fetch_add(step, Relaxed);
        });
        found
    }
}

/// A process in memory.
struct Whole {
    process: Process,
    sizes: Sizes,
    found: Found,
}

/// Hands the calls of each range to `each`, while another thread decodes the next ones.
fn read_ahead(
    reader: &Reader,
    clock: &crate::clock::Clock,
    ranges: &[Range],
    mut each: impl FnMut(&mut TicketRange),
) {
    let (full, filled) = sync_channel::<TicketRange>(1);
    let (used, empty) = channel::<TicketRange>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut opened = reader.open(clock);
            for range in ranges {
                let mut part = empty.try_recv().unwrap_or_default();
                opened.read(*range, &mut part);
                if full.send(part).is_err() {
                    return;
                }
            }
        });
        for mut part in filled {
            each(&mut part);
            // The other thread may have ended.
            let _ = used.send(part);
        }
    });
}

fn relative(file: &Path, root: &Path) -> std::path::PathBuf {
    file.strip_prefix(root).unwrap_or(file).to_owned()
}
