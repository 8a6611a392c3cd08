//! A process of which the newest span is read again and again: a [`Followed`].
//!
//! It reads each trace file on from where it stopped, and keeps what the blocks define. Of the calls it keeps
//! only where those blocks lie that are of the newest span. The live part is copied anew each time.
//!
//! Rule: memory does not grow with the length of the run. What can be counted only once (calls that are
//! forgotten, blocks that are damaged) is counted when it is read.

use super::live_part::{first_facts, open_live};
use super::parts::{Parts, PayloadOffset, Rows};
use super::{malformed, Read, Scan};
use crate::clock::{Anchor, Clock};
use crate::files::{self, Files, HeldFile, TRACE};
use crate::packs::is_compressed;
use crate::problem::Problem;
use crate::process::Process;
use crate::sums::Sum;
use crate::trace;
use capture::block::{self, Block, BlockKind, Damage, Growing};
use capture::live::Image;
use capture::rotated::Rotated;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

/// Bytes that are read at once, unless a block is larger.
const STRETCH: usize = 4 << 20;
/// No recorder writes a larger block.
const MOST_BLOCK: usize = 256 << 20;
/// Anchors that are kept besides the first. Times are told from the newest ones.
const MOST_ANCHORS: usize = 1024;
/// Kernel windows that are kept.
const MOST_WINDOWS: usize = 8;
/// Launches of graphs, and calls of MPI, that are kept.
const MOST_RECORDS: usize = 1 << 16;
/// Problems that are kept.
const MOST_PROBLEMS: usize = 32;

/// Which calls of a process are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    /// Those made from this moment on, ns since 1970, to a block.
    pub from_ns: i64,
    /// No more than about this many.
    pub rows: u64,
}

/// One trace file.
struct Source {
    path: PathBuf,
    /// Kept open while its calls are of the span, because it may be removed.
    file: Option<File>,
    inode: u64,
    growing: Growing,
}

/// See the module.
pub(crate) struct Followed {
    files: Files,
    id: Option<u64>,
    facts: BTreeMap<String, String>,
    /// By number.
    sources: BTreeMap<u32, Source>,
    /// What was gone before the first reading.
    rotated: Option<Rotated>,
    next_number: u32,
    parts: Parts,
    forgotten: u64,
    /// Blocks that are not kept and not counted yet; nothing if nobody counts.
    uncounted: Option<Vec<Rows>>,
    /// The calls that were counted, by shape.
    pub(crate) sums: Vec<Sum>,
    /// Tickets of calls that were counted at the newest look, and stand in its copy of the live part, too.
    pub(crate) twice: HashSet<u64>,
    bad: u64,
    features: u32,
    ended: bool,
    problems: Vec<Problem>,
    buffer: Vec<u8>,
}

impl Followed {
    /// Of these files. `None` if they can't be followed: they are packed, or there is no sound trace file
    /// yet.
    /// With `counts`, calls that are not kept are counted ([`Reader::forgotten`]).
    pub(crate) fn new(files: &Files, counts: bool) -> Option<Followed> {
        let mut paths = files.trace.iter().chain(files.later.values());
        if paths.any(|path| is_compressed(path)) {
            return None;
        }
        let (id, head) = trace::head(files);
        let facts = first_facts(&head);
        if facts.is_empty() {
            return None;
        }
        let mut parts = Parts::default();
        let clock = facts.get("clock").map_or("", String::as_str);
        parts.nanoseconds = clock.contains("mono") || clock.contains("vdso");
        Some(Followed {
            files: files.clone(),
            id,
            facts,
            sources: BTreeMap::new(),
            rotated: trace::newest_rotated(files),
            next_number: 0,
            parts,
            forgotten: 0,
            uncounted: counts.then(Vec::new),
            sums: Vec::new(),
            twice: HashSet::new(),
            bad: 0,
            features: 0,
            ended: false,
            problems: Vec::new(),
            buffer: Vec::new(),
        })
    }

    /// Its file, as [`Process::file`] has it but from the capture's folder on.
    pub(crate) fn path(&self) -> &std::path::Path {
        self.files.path()
    }

    /// Whether the files are still those that were read: a capture may be removed and made anew.
    pub(crate) fn is_of(&self, files: &Files) -> bool {
        let is_same = |number: u32, path: &PathBuf| {
            let (Some(known), Ok(found)) = (self.sources.get(&number), path.metadata()) else {
                return true;
            };
            known.inode == found.ino() && found.len() >= known.growing.at
        };
        files.trace.iter().all(|path| is_same(0, path))
            && files
                .later
                .iter()
                .all(|(number, path)| is_same(*number, path))
    }

    /// Whether a file was removed before it was read, because a newer one needed the room. Its calls are in
    /// the account of removed files, together with all that were read before, so reading begins anew.
    pub(crate) fn lacks(&self, files: &Files) -> bool {
        // Only a new file says that others are gone.
        let newest = files.later.last_key_value().map(|(number, _)| number);
        if newest.is_none_or(|newest| self.sources.contains_key(newest)) {
            return false;
        }
        let first = |gone: &Rotated| gone.first_kept;
        let known = self.rotated.as_ref().map_or(1, first).max(1);
        let gone = trace::newest_rotated(files).as_ref().map_or(0, first);
        (known..gone).any(|number| self.sources.get(&number).is_none_or(|of| of.inode == 0))
    }

    /// Reads what was written since. `files` are those that are there now.
    pub(crate) fn advance(&mut self, files: &Files, keep: &Keep) {
        self.files = files.clone();
        let first = self.rotated.as_ref().map_or(0, |gone| gone.first_kept);
        let numbered = files.trace.iter().map(|path| (0, path));
        let numbered = numbered.chain(files.later.iter().map(|(number, path)| (*number, path)));
        for (number, path) in numbered {
            let newest = self.sources.last_key_value().map(|(number, _)| *number);
            let is_gone = number != 0 && number < first;
            if !self.sources.contains_key(&number) && !is_gone && newest < Some(number) {
                let source = Source {
                    path: path.clone(),
                    file: None,
                    inode: 0,
                    growing: Growing::default(),
                };
                self.sources.insert(number, source);
            }
        }
        let newest = self
            .sources
            .last_key_value()
            .map_or(0, |(number, _)| *number);
        // An older file may have grown until the newer one was made.
        let numbers: Vec<u32> = self.sources.keys().rev().take(2).copied().collect();
        let all: Vec<u32> = self.sources.keys().copied().collect();
        for number in all {
            let is_new = self.sources[&number].growing.at == 0;
            if is_new || numbers.contains(&number) || number == newest {
                self.read(number, keep);
            }
        }
    }

    fn read(&mut self, number: u32, keep: &Keep) {
        let Some(source) = self.sources.get_mut(&number) else {
            return;
        };
        if source.file.is_none() {
            let Ok(file) = files::open(&source.path) else {
                return;
            };
            source.inode = file.metadata().map_or(0, |meta| meta.ino());
            if source.growing.at == 0 {
                source.growing.next_number = self.next_number;
            }
            source.file = Some(file);
        }
        let mut size = STRETCH;
        loop {
            let Some(source) = self.sources.get_mut(&number) else {
                return;
            };
            let Some(file) = &source.file else { return };
            let len = file.metadata().map_or(0, |meta| meta.len());
            let left = len.min(TRACE.most).saturating_sub(source.growing.at);
            if left == 0 || source.growing.refused {
                break;
            }
            let stretch = usize::try_from(left).map_or(size, |left| left.min(size));
            self.buffer.resize(stretch, 0);
            if file
                .read_exact_at(&mut self.buffer, source.growing.at)
                .is_err()
            {
                break;
            }
            match self.take(number) {
                0 if stretch < size || size >= MOST_BLOCK => break,
                0 => size *= 4,
                _ => self.prune(keep),
            }
        }
        // Large blocks are rare.
        self.buffer.truncate(STRETCH);
        self.buffer.shrink_to(STRETCH);
    }

    /// Takes the blocks in the buffer, which is of this file. Returns how many bytes they are.
    fn take(&mut self, number: u32) -> usize {
        let Some(source) = self.sources.get_mut(&number) else {
            return 0;
        };
        let at = source.growing.at;
        let begin = self.buffer.as_ptr() as usize;
        let (parts, path) = (&mut self.parts, &source.path);
        let mut process = Process::default();
        process.facts.clone_from(&self.facts);
        let mut unsound = Vec::new();
        let (mut bad, mut ended) = (0, self.ended);
        let mut damages = Vec::new();
        let each = |block: Block<'_>| {
            ended = block.kind == BlockKind::End as u16;
            let offset = (block.payload.as_ptr() as usize - begin) as u64;
            let place = || PayloadOffset::File(number as usize, at + offset);
            if !parts.of_block(&block, place, &mut process) {
                unsound.push(malformed(path, block.number));
                bad += 1;
            }
        };
        let taken = source
            .growing
            .read(&self.buffer, each, |damage| damages.push(damage));
        self.next_number = self.next_number.max(source.growing.next_number);
        let path = path.clone();
        self.ended = ended;
        self.bad += bad;
        for damage in damages {
            let (place, expected, found) = match damage {
                Damage::Format { found } => {
                    unsound.push(Problem::refused(path.clone(), found));
                    continue;
                }
                Damage::Features { unknown } => {
                    self.features |= unknown;
                    continue;
                }
                Damage::FileHeader => (
                    "byte 0".to_owned(),
                    "a trace file's header",
                    "other bytes".to_owned(),
                ),
                Damage::Skipped { at: from, bytes } => (
                    format!("byte {}", at + from),
                    "a block",
                    format!("{bytes} bytes that are none"),
                ),
                Damage::Payload { number, .. } => {
                    self.bad += 1;
                    (
                        format!("block {number}"),
                        "content that matches its checksum",
                        "damaged content".to_owned(),
                    )
                }
                Damage::Missing { first, count } => {
                    let end = first.saturating_add(count);
                    let gone = self.rotated.as_ref().map_or(0, |gone| {
                        let last = gone.first_block.saturating_add(gone.blocks);
                        end.min(last).saturating_sub(first.max(gone.first_block))
                    });
                    let missing = count.saturating_sub(gone);
                    self.bad += u64::from(missing);
                    if missing == 0 {
                        continue;
                    }
                    (
                        format!("block {first}"),
                        "blocks numbered without a gap",
                        format!("{missing} missing"),
                    )
                }
                // What is not whole yet.
                Damage::Truncated { .. } => continue,
            };
            unsound.push(Problem {
                file: path.clone(),
                place,
                expected: expected.to_owned(),
                found,
            });
        }
        let room = MOST_PROBLEMS.saturating_sub(self.problems.len());
        self.problems.extend(unsound.into_iter().take(room));
        taken
    }

    /// When about the newest call was made that is in a file, ns since 1970.
    pub(crate) fn newest_call_ns(&self) -> Option<i64> {
        let clock = Clock::new(self.parts.anchors.clone(), self.parts.nanoseconds);
        let newest = self.parts.blocks.last()?;
        clock.realtime(newest.outline.first)
    }

    /// Forgets what is not of the span.
    pub(crate) fn prune(&mut self, keep: &Keep) {
        let parts = &mut self.parts;
        if parts.anchors.len() > 2 * MOST_ANCHORS {
            let end = parts.anchors.len() - MOST_ANCHORS;
            parts.anchors.drain(1..end);
        }
        parts.windows.keep_newest(MOST_WINDOWS);
        parts.graphs.keep_newest(MOST_RECORDS);
        parts.mpi.keep_newest(MOST_RECORDS);
        let anchors: Vec<Anchor> = parts.anchors.clone();
        let clock = Clock::new(anchors, parts.nanoseconds);
        let mut rows: u64 = parts.blocks.iter().map(|b| u64::from(b.outline.rows)).sum();
        let mut old = 0;
        while let [block, next, ..] = &parts.blocks[old..] {
            let begins = clock.realtime(next.outline.first);
            let is_old = begins.is_some_and(|begins| begins < keep.from_ns);
            if !is_old && rows <= keep.rows {
                break;
            }
            rows -= u64::from(block.outline.rows);
            self.forgotten += u64::from(block.outline.rows);
            old += 1;
        }
        let old: Vec<Rows> = parts.blocks.drain(..old).collect();
        if let Some(uncounted) = &mut self.uncounted {
            uncounted.extend(old);
        }
        // Files that are not needed any more are closed; the newest may grow.
        let used = |number: u32| {
            let is_of = |place: &PayloadOffset| match place {
                PayloadOffset::File(of, _) => *of == number as usize,
                PayloadOffset::Staged(_) => false,
            };
            let uncounted = self.uncounted.iter().flatten();
            let mut blocks = parts.blocks.iter().chain(uncounted);
            blocks.any(|block| is_of(&block.place))
        };
        let newest = self
            .sources
            .last_key_value()
            .map_or(0, |(number, _)| *number);
        for (number, source) in &mut self.sources {
            if *number != newest && !used(*number) {
                source.file = None;
            }
        }
    }

    /// The process as it is now, with the calls of the span.
    pub(crate) fn scan(
        &mut self,
        files: &Files,
        keep: &Keep,
        job_ended: Option<bool>,
    ) -> (Scan, Vec<Problem>) {
        let mut problems = Vec::new();
        // The live part first, and last what can only grow.
        let open = open_live(files, &self.facts, self.id, &mut problems);
        self.advance(files, keep);
        self.prune(keep);
        let view = open.image.as_ref().and_then(Image::view);
        let mut process = Process {
            file: files.path().to_owned(),
            restart: files.restart(),
            live: open.source,
            moving: !open.settled,
            bad_blocks: self.bad,
            ended: self.ended,
            facts: self.facts.clone(),
            forgotten: self.forgotten,
            ..Process::default()
        };
        let mut parts = self.parts.clone();
        parts.born = open.born;
        // By number of the file, its place among those that are needed.
        let mut needed: BTreeMap<usize, usize> = BTreeMap::new();
        let mut forgotten = self
            .uncounted
            .as_mut()
            .map_or_else(Vec::new, std::mem::take);
        for block in parts.blocks.iter_mut().chain(&mut forgotten) {
            if let PayloadOffset::File(number, _) = &mut block.place {
                let next = needed.len();
                *number = *needed.entry(*number).or_insert(next);
            }
        }
        let mut trace_files: Vec<_> = needed.iter().collect();
        trace_files.sort_by_key(|(_, place)| **place);
        let trace_files = trace_files.into_iter().filter_map(|(number, _)| {
            let source = self.sources.get(&(*number as u32))?;
            let held = source.file.as_ref().and_then(|file| file.try_clone().ok());
            Some((source.path.clone(), held.and_then(HeldFile::new)))
        });
        let trace_files = trace_files.collect();
        let begin = open.staged.as_ptr() as usize;
        block::read(
            &open.staged,
            |block| {
                let offset = block.payload.as_ptr() as usize - begin;
                if block.number >= self.next_number {
                    process.ended = block.kind == BlockKind::End as u16;
                    parts.of_block(&block, || PayloadOffset::Staged(offset), &mut process);
                }
            },
            |_| (),
        );
        if let Some(view) = &view {
            parts.of_live(view, &mut process);
        }
        problems.extend(self.problems.iter().cloned());
        let read = Read {
            files,
            parts,
            open,
            features: self.features,
            id: self.id,
            rotated: self.rotated.as_ref(),
            trace_files,
            forgotten,
            job_ended,
        };
        (read.finish(process, &mut problems), problems)
    }
}
