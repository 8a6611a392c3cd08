//! Reads the files of one process, in two steps.
//!
//! [`scan`] goes once over everything and learns all but the sealed calls: facts, communicators, shapes, the clock, what is
//! in the live part, and where which rows are. A [`Reader`] then decodes the calls, all at once or one range of tickets
//! after another, each independent of the others.
//!
//! Both put together the trace file's blocks, the staged ones of the live part, the rows that were never sealed, and the
//! totals, in this order of trust: a block of the file over a staged one with the same number, a sealed row over a live
//! one with the same ticket.
//!
//! Rule: no bytes make it panic; what is unsound is left out and becomes a [`Problem`].

use crate::calls::Shape;
use crate::communicators::Local;
use crate::files::{self, Files};
use crate::names::{Name, Names};
use crate::problem::Problem;
use crate::process::Process;
use crate::trace::Trace;
use capture::block::Kind;
use capture::left::{Here, Left};
use capture::live::{flag, Image, View};
use capture::stamps;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

mod blocks;
mod calls;
mod live_part;
mod parts;
mod totals;

use blocks::blocks;
pub(crate) use calls::{Part, Range, Reader};
use live_part::{first_facts, open_live, Open};
use parts::{Parts, Place};

/// A process, read but for its sealed calls.
pub(crate) struct Scan {
    /// Without shapes, calls and extras.
    pub process: Process,
    pub reader: Reader,
    /// Strings and their ids, in the order in which they were met.
    texts: Vec<(u8, String)>,
}

/// The trace files and the live part of one process. A job that goes on makes trace files and removes others meanwhile; then
/// all is done again, a few times at most.
fn opened(files: &Files, problems: &mut Vec<Problem>) -> (Trace, BTreeMap<String, String>, Open) {
    let mut newer = None;
    let mut turns = 5;
    loop {
        let files = newer.as_ref().unwrap_or(files);
        let mut found = Vec::new();
        let trace = Trace::load(files, &mut found);
        let facts = first_facts(&trace.files[0].bytes);
        let open = open_live(files, &facts, &trace, &mut found);
        let newest = trace.files.last().map_or(0, |file| file.number);
        let moved = open.staged_for > newest || files.later.values().any(|path| !path.exists());
        if moved && turns > 0 {
            turns -= 1;
            let mut again = files::find(files.path(), &mut Vec::new()).into_iter();
            let again = again.next().filter(|again| again != files);
            if again.is_some() {
                newer = again;
                continue;
            }
        }
        problems.append(&mut found);
        return (trace, facts, open);
    }
}

/// Goes over the files of one process; `None` when nothing in them is sound.
pub(crate) fn scan(files: &Files, problems: &mut Vec<Problem>) -> Option<Scan> {
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
        bad_blocks: found.bad,
        ended: found
            .sound
            .last_key_value()
            .is_some_and(|(_, (kind, _))| *kind == Kind::End as u16),
        facts,
        ..Process::default()
    };
    let mut parts = Parts::default();
    if let Some(view) = &view {
        parts.of_live(view, &mut process);
    }
    for (number, (kind, payload)) in &found.sound {
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
                Some(at) => Place::Staged(at),
                None => {
                    let (file, at) = in_file();
                    Place::File(file, at as u64)
                }
            }
        };
        if !parts.of_block(*number, *kind, payload, place, &mut process) {
            problems.push(malformed(path, *number));
            process.bad_blocks += 1;
        }
    }
    identify(&mut process, files, view.as_ref());
    if process.may_lack_calls() {
        process.liveness = Left::of_facts(process.facts.clone()).liveness(&Here::ask());
    }
    let texts = std::mem::take(&mut parts.texts);
    let (blocks, shapes, live) = parts.finish(&mut process, view.as_ref(), trace.rotated.as_ref());
    let reader = Reader {
        files: trace.files.into_iter().map(|f| (f.path, f.held)).collect(),
        staged: open.staged,
        blocks,
        shapes,
        live,
    };
    Some(Scan {
        process,
        reader,
        texts,
    })
}

impl Scan {
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
        self.process.shapes = shapes
            .map(|s| named(s, &texts, &early, communicators))
            .collect();
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
    let stem = files
        .stem
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or("");
    let part = |letter: char| {
        stem.split('-')
            .find_map(|p| p.strip_prefix(letter)?.parse::<u32>().ok())
    };
    let folder = files
        .stem
        .parent()
        .and_then(Path::file_name)
        .map(|n| n.to_string_lossy().into_owned());
    let rank = number("rank").or_else(|| part('r'));
    let pid = number("pid")
        .or_else(|| view.map(|v| v.header().pid.load(Relaxed)))
        .or_else(|| part('p'));
    let host = process.fact("host").map(str::to_owned).or(folder);
    (process.rank, process.pid, process.host) = (rank, pid.unwrap_or(0), host.unwrap_or_default());
}

fn named(
    shape: &capture::rows::Shape,
    texts: &[Name],
    early: &[Name],
    communicators: &[Local],
) -> Shape {
    let name = |id: u8| texts[usize::from(id)];
    let local = communicators.iter().find(|c| c.uid == shape.comm);
    Shape {
        uid: shape.comm,
        communicator: None,
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
    for (kind, payload) in blocks(&trace, &open, &mut ignored).sound.values() {
        if *kind == Kind::Callbacks as u16 {
            each(payload);
        }
    }
}
