//! Reads the files of one process, in two steps.
//!
//! [`scan`] goes once over everything and learns all but the sealed calls: facts, communicators, shapes, the
//! clock, what is in the live part, and where which rows are. A [`Reader`] then decodes the calls, all at
//! once or one range of tickets after another, each independent of the others.
//!
//! Both put together the trace file's blocks, the staged blocks of the live part, the rows that were never
//! sealed, and the totals. A block of the file is trusted more than a staged one with the same number, and a
//! sealed row more than a live one with the same ticket.
//!
//! Rule: no bytes make it panic; what is unsound is left out and becomes a [`Problem`].

use crate::calls::Shape;
use crate::communicators::Local;
use crate::files::{self, Files, HeldFile};
use crate::life::{self, place_here, LifeEvidence};
use crate::names::{Name, Names};
use crate::problem::{Problem, FEATURES};
use crate::process::{LiveSource, Process};
use crate::stacks::UNDEFINED;
use crate::trace::{self, Trace};
use crate::Unreadable;
use capture::block::BlockKind;
use capture::format;
use capture::live::{flag, Image, View};
use capture::rotated::Rotated;
use capture::stamps;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

mod blocks;
mod calls;
mod followed;
mod live_part;
mod parts;
mod totals;

use blocks::blocks;
pub(crate) use calls::{Range, Reader, TicketRange};
pub(crate) use followed::{Followed, Keep};
use live_part::{first_facts, open_live, Open};
use parts::{Parts, PayloadOffset};

/// A process, read but for its sealed calls.
pub(crate) struct Scan {
    /// Without shapes, calls and extras.
    pub process: Process,
    pub reader: Reader,
    /// The random id of its trace, which no other process has.
    pub id: Option<u64>,
    /// Strings and their ids, in the order in which they were met.
    texts: Vec<(u8, String)>,
}

/// The trace files and the live part of one process: the live part first, and last what can only grow (see
/// [`live_part`]).
///
/// Meanwhile a running job may make and remove trace files, and a job that ends moves its live part. Then
/// everything is read again, a few times at most.
fn opened(files: &Files, problems: &mut Vec<Problem>) -> (Trace, BTreeMap<String, String>, Open) {
    let mut newer = None;
    let mut turns = 5;
    loop {
        let files = newer.as_ref().unwrap_or(files);
        let mut found = Vec::new();
        let again = || {
            files::find(files.path(), &mut Vec::new())
                .into_iter()
                .next()
        };
        let (id, head) = trace::head(files);
        let mut facts = first_facts(&head);
        let first = (!facts.is_empty()).then(|| open_live(files, &facts, id, &mut found));
        // Of a process that runs, more files may be there than were when the folder was listed.
        let runs = first.as_ref().is_some_and(|open| open.born.is_some());
        let listed = if runs { again() } else { None };
        let trace = Trace::load(listed.as_ref().unwrap_or(files), &mut found);
        let open = first.unwrap_or_else(|| {
            // Its first block is damaged, or it has none.
            facts = first_facts(&trace.files[0].bytes);
            open_live(files, &facts, trace.id(), &mut found)
        });
        let newest = trace.files.last().map_or(0, |file| file.number);
        let moved = open.staged_for > newest
            || files.later.values().any(|path| !files::exists(path))
            || (open.has_left() && place_here(&facts).is_some());
        if moved && turns > 0 {
            turns -= 1;
            if let Some(again) = again().filter(|again| again != files) {
                newer = Some(again);
                continue;
            }
        }
        problems.append(&mut found);
        return (trace, facts, open);
    }
}

/// Goes over the files of one process; `None` when nothing in them is sound.
///
/// `job_ended`: whether `ncclscope run` wrote down the end of the job, if it made the capture.
pub(crate) fn scan(
    files: &Files,
    job_ended: Option<bool>,
    problems: &mut Vec<Problem>,
) -> Option<Scan> {
    let path = files.path();
    let (trace, facts, open) = opened(files, problems);
    let view = open.image.as_ref().and_then(Image::view);
    let found = blocks(&trace, &open, problems);
    if found.sound.is_empty() && view.is_none() && trace.id().is_none() {
        return None;
    }
    let mut process = Process {
        file: path.to_owned(),
        restart: files.restart(),
        live: open.source,
        moving: !open.settled,
        bad_blocks: found.bad,
        ended: found
            .sound
            .last_key_value()
            .is_some_and(|(_, block)| block.kind == BlockKind::End as u16),
        facts,
        ..Process::default()
    };
    let mut parts = Parts::default();
    parts.born = open.born;
    if let Some(view) = &view {
        parts.of_live(view, &mut process);
    }
    let mut unknown: BTreeMap<u16, u64> = BTreeMap::new();
    for (number, block) in &found.sound {
        if BlockKind::from_u16(block.kind).is_none() {
            *unknown.entry(block.kind).or_default() += 1;
            continue;
        }
        let payload = block.payload;
        let place = || {
            // A payload lies in a file or in the staging area.
            let within = |bytes: &[u8]| {
                let at = (payload.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
                (at + payload.len() <= bytes.len()).then_some(at)
            };
            let files = trace.files.iter().enumerate();
            let in_file = || {
                let mut found = files.filter_map(|(file, f)| Some((file, within(&f.bytes)?)));
                found.next().unwrap_or((0, 0))
            };
            match within(&open.staged) {
                Some(at) => PayloadOffset::Staged(at),
                None => {
                    let (file, at) = in_file();
                    PayloadOffset::File(file, at as u64)
                }
            }
        };
        if !parts.of_block(block, place, &mut process) {
            problems.push(malformed(path, *number));
            process.bad_blocks += 1;
        }
    }
    problems.extend(unknown.into_iter().map(|(kind, n)| {
        let expected = "kinds of blocks that this ncclscope knows";
        let found = format!("{n} of kind {kind}");
        Problem::left_out(path.to_owned(), "its blocks", expected, &found)
    }));
    let features = found.features;
    let (id, rotated) = (trace.id(), trace.rotated);
    let trace_files = trace.files.into_iter().map(|f| (f.path, f.held)).collect();
    let read = Read {
        files,
        parts,
        open,
        features,
        id,
        rotated: rotated.as_ref(),
        trace_files,
        forgotten: Vec::new(),
        job_ended,
    };
    Some(read.finish(process, problems))
}

/// What was read of a process, before it is put together.
struct Read<'a> {
    files: &'a Files,
    parts: Parts,
    open: Open,
    /// Optional features of its trace files that are not known, a bit each.
    features: u32,
    id: Option<u64>,
    rotated: Option<&'a Rotated>,
    trace_files: Vec<(PathBuf, Option<HeldFile>)>,
    /// See [`Reader::forgotten`].
    forgotten: Vec<parts::Rows>,
    job_ended: Option<bool>,
}

impl Read<'_> {
    fn finish(self, mut process: Process, problems: &mut Vec<Problem>) -> Scan {
        let Read {
            files,
            mut parts,
            open,
            features,
            id,
            rotated,
            trace_files,
            forgotten,
            job_ended,
        } = self;
        let path = files.path();
        let view = open.image.as_ref().and_then(Image::view);
        if parts.columns != 0 {
            let expected = "columns that this ncclscope knows";
            let found = format!("{} more", parts.columns);
            problems.push(Problem::left_out(
                path.to_owned(),
                "its rows",
                expected,
                &found,
            ));
        }
        let stated = open.image.as_ref().and_then(Image::stated);
        let features = stated.map_or(0, |stated| stated.unknown() & !features);
        if features != 0 {
            let found = format::named(features);
            let place = "its live part's header";
            problems.push(Problem::left_out(path.to_owned(), place, FEATURES, &found));
        }
        identify(&mut process, files, view.as_ref());
        let texts = std::mem::take(&mut parts.texts);
        let id = id.or_else(|| Some(view.as_ref()?.header().trace_id.load(Relaxed)));
        let (blocks, shapes, live) = parts.finish(&mut process, view.as_ref(), rotated);
        if process.other_tool().is_some() && process.live == LiveSource::None {
            process.live = LiveSource::OtherTool;
        }
        process.marks = crate::marks::read(&files.stem, &process.clock, problems);
        process.life = life::life(&process);
        process.newest = life::newest(&LifeEvidence {
            facts: &process.facts,
            life: process.life,
            source: process.live,
            ended: open.ended() || (process.counters.is_none() && process.ended),
            unreadable: open.unreadable,
            job_ended,
        });
        let reader = Reader {
            files: trace_files,
            staged: open.staged,
            blocks,
            forgotten,
            shapes,
            live,
            born: open.born,
        };
        Scan {
            process,
            reader,
            id,
            texts,
        }
    }
}

impl Scan {
    /// Which of two copies of a process holds more: by rows, then by the live part. A live part without its
    /// trace file lacks what had been written to that.
    pub(crate) fn worth(&self) -> (u64, u8) {
        let live = match self.process.live {
            LiveSource::Adopted | LiveSource::Here => 2,
            LiveSource::Snapshot => 1,
            LiveSource::None | LiveSource::OtherTool => 0,
        };
        (self.reader.rows(), live)
    }

    /// Gives the process its shapes, now that names can be interned.
    pub(crate) fn name(mut self, names: &mut Names) -> (Process, Reader) {
        let mut texts = vec![Name::NONE; 256];
        let mut early = Vec::new();
        for (id, text) in &self.texts {
            texts[usize::from(*id)] = names.intern(text);
            if stamps::stops_early(text) {
                early.push(texts[usize::from(*id)]);
            }
        }
        let communicators = &self.process.communicators;
        let shapes = self.reader.shapes.list().iter();
        let stacks = &self.process.stacks;
        let mut by_id: BTreeMap<u32, [Name; 2]> = BTreeMap::new();
        let shapes = shapes.map(|shape| {
            let [caller, stack] = match shape.stack {
                0 => [Name::NONE; 2],
                id => *by_id.entry(id).or_insert_with(|| match stacks.get(&id) {
                    Some(stack) => [names.intern(&stack.caller), names.intern(&stack.text)],
                    None => [names.intern(UNDEFINED); 2],
                }),
            };
            Shape {
                caller,
                stack,
                ..named(shape, &texts, &early, communicators)
            }
        });
        self.process.shapes = shapes.collect();
        (self.process, self.reader)
    }
}

pub(crate) fn malformed(path: &Path, number: u32) -> Problem {
    Problem {
        file: path.to_owned(),
        place: format!("block {number}"),
        expected: "well-formed rows".into(),
        found: "bytes that no recorder writes".into(),
    }
}

/// Host, pid and rank: from the facts, else from where the file is and what it is called.
fn identify(process: &mut Process, files: &Files, view: Option<&View>) {
    let number = |key: &str| process.fact(key).and_then(|v| v.parse::<u32>().ok());
    let named = called(files);
    let rank = number("rank").or(named.rank);
    let pid = number("pid").or_else(|| view.map(|v| v.header().pid.load(Relaxed)));
    let host = process.fact("host").map(str::to_owned);
    (process.rank, process.pid) = (rank, pid.unwrap_or(named.pid));
    process.host = host.unwrap_or(named.host);
}

/// What the names of its files say of a process.
fn called(files: &Files) -> Unreadable {
    let stem = files.stem.file_name().and_then(|n| n.to_str());
    let part = |letter: char| {
        let mut parts = stem.unwrap_or("").split('-');
        parts.find_map(|p| p.strip_prefix(letter)?.parse::<u32>().ok())
    };
    let folder = files.stem.parent().and_then(Path::file_name);
    Unreadable {
        file: files.path().to_owned(),
        rank: part('r'),
        host: folder.map_or(String::new(), |n| n.to_string_lossy().into_owned()),
        pid: part('p').unwrap_or(0),
        restart: files.restart(),
        found: String::new(),
    }
}

/// What is known of a process if nothing in its files is sound. Nothing, if they are only called like a
/// process's.
pub(crate) fn unreadable(files: &Files, problems: &[Problem]) -> Option<Unreadable> {
    let found = problems.first().map_or(String::new(), |p| p.found.clone());
    let stem = files.stem.file_name().and_then(|n| n.to_str());
    let id = stem
        .and_then(|stem| stem.rsplit_once('-'))
        .map(|(_, id)| id);
    // Anybody's file may be called NAME.trace, but not RANK-PID-ID.trace.
    let ours = id.is_some_and(|id| id.len() == 8 && id.bytes().all(|b| b.is_ascii_hexdigit()));
    let called = called(files);
    (ours && called.pid != 0).then_some(Unreadable { found, ..called })
}

fn named(
    shape: &capture::rows::Shape,
    texts: &[Name],
    early: &[Name],
    communicators: &[Local],
) -> Shape {
    let name = |id: u8| texts[usize::from(id)];
    let local = crate::communicators::with_uid(communicators, shape.comm);
    Shape {
        uid: shape.comm,
        communicator: None,
        device: local.and_then(|l| l.device),
        thread: Some(shape.thread).filter(|thread| *thread != 0),
        init_thread: local.and_then(|l| l.thread),
        rank: local.and_then(|l| l.rank),
        nranks: local.map(|l| l.nranks).filter(|n| *n != 0),
        function: name(shape.func),
        datatype: name(shape.datatype),
        algorithm: name(shape.algorithm),
        protocol: name(shape.protocol),
        variant: name(shape.variant),
        flags: shape.flags,
        parts: shape.parts,
        nchannels: shape.nchannels,
        nwarps: shape.nwarps,
        count: shape.count,
        root: u32::try_from(shape.root).ok(),
        peer: shape.peer.checked_sub(1),
        stream: shape.stream,
        ce_batches: shape.ce_batches,
        caller: Name::NONE,
        stack: Name::NONE,
        stops_early: shape.flags & flag::P2P != 0 || early.contains(&name(shape.algorithm)),
    }
}

/// Hands the content of every Callbacks block of a process to `each`, staged ones included, in order.
pub(crate) fn callback_blocks(path: &Path, mut each: impl FnMut(&[u8])) {
    let mut ignored = Vec::new();
    let Some(files) = crate::files::find(path, &mut ignored).into_iter().next() else {
        return;
    };
    let (trace, _, open) = opened(&files, &mut ignored);
    for block in blocks(&trace, &open, &mut ignored).sound.values() {
        if block.kind == BlockKind::Callbacks as u16 {
            each(block.payload);
        }
    }
}
