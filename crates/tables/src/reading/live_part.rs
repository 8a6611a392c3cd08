//! Finds the live part of a process, wherever it is, and the facts that say where to look.
//!
//! The live part of a process that runs changes while it is copied, and so does its trace file. The order of
//! reading makes both show one moment, the one at which the copy was begun. First comes the number of calls
//! that were born, then the rows, then the staged blocks, and the trace file last. A row moves the same way,
//! so none is missed. What is in two places counts once. Calls that were born after that moment are left out,
//! wherever they are ([`Open::born`]).
//!
//! Rows that are folded into totals move against that order. So a copy during which some were is made again.

use crate::files::{self, load, Files, SMALL};
use crate::life::place_here;
use crate::problem::Problem;
use crate::process::LiveSource;
use capture::block::{self, BlockKind};
use capture::live::{Cause, Image, View, HEADER_BYTES};
use capture::snapshot;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

/// How often a live part is copied at most, until nothing is folded meanwhile, and how long is waited
/// between. The recorder folds in short bursts, at a flush or when many rows wait.
const TURNS: u32 = 50;
const BETWEEN: Duration = Duration::from_millis(1);

/// The live part that belongs to a trace file: the first of its places that has its id.
fn find_live(
    files: &Files,
    facts: &BTreeMap<String, String>,
    trace_id: Option<u64>,
    unreadable: &mut bool,
    problems: &mut Vec<Problem>,
) -> Option<(Copied, LiveSource)> {
    let here = place_here(facts).filter(|path| path.is_file());
    let places = [
        (files.live.as_ref(), LiveSource::Adopted),
        (here.as_ref(), LiveSource::Here),
        (files.snapshot.as_ref(), LiveSource::Snapshot),
    ];
    for (path, source) in places {
        let Some(path) = path else { continue };
        let whole = |bytes: Vec<u8>| Copied {
            is_empty: bytes.is_empty(),
            image: (match source {
                LiveSource::Snapshot => snapshot::read(&bytes),
                _ if snapshot::is_whole(&bytes) => {
                    snapshot::read_whole(&bytes).map(|(image, _)| image)
                }
                // As it was in memory: by recorders before, or copied by hand.
                _ => Some(Image::copy(&bytes)),
            })
            .map(Image::upgraded),
            born: None,
            settled: true,
        };
        let copied = match source {
            LiveSource::Here => copy_of_a_living_one(path, problems),
            _ => whole(load(path, SMALL, problems)),
        };
        let stated = copied.image.as_ref().and_then(Image::stated);
        let refused = stated.and_then(|stated| stated.refused());
        let mut is_own = true;
        let found = match copied.image.as_ref().and_then(Image::view) {
            None if copied.is_empty => "an empty file".to_owned(),
            None => match refused {
                Some(refused) => {
                    *unreadable |= source != LiveSource::Snapshot;
                    problems.push(Problem::refused(path.clone(), refused));
                    continue;
                }
                None => "bytes that are none".to_owned(),
            },
            Some(view) => match (trace_id, view.header().trace_id.load(Relaxed)) {
                (Some(wanted), found) if wanted != found => {
                    is_own = false;
                    format!("one of another trace file ({found:016x})")
                }
                _ => return Some((copied, source)),
            },
        };
        *unreadable |= is_own && source != LiveSource::Snapshot;
        problems.push(Problem {
            file: path.clone(),
            place: "its header".into(),
            expected: "the live part of this trace file".into(),
            found,
        });
    }
    None
}

/// A copy of a live part.
struct Copied {
    image: Option<Image>,
    is_empty: bool,
    /// See [`Open::born`].
    born: Option<u64>,
    /// See [`Open::settled`].
    settled: bool,
}

/// A copy of the live part in `path`, whose process may run. See the module for the order.
fn copy_of_a_living_one(path: &Path, problems: &mut Vec<Problem>) -> Copied {
    let file = files::open(path);
    let mut turn = 1;
    loop {
        let read = file.as_ref().map(Image::read);
        let image = match read {
            Ok(Ok(found)) => found.map(|(image, _)| image),
            Ok(Err(error)) => return unreadable(path, &error, problems),
            Err(error) => return unreadable(path, error, problems),
        };
        let settled = match (&file, image.as_ref().and_then(Image::view)) {
            (Ok(file), Some(view)) => staged_again(file, image.as_ref(), view),
            _ => Some(true),
        };
        if settled == Some(true) || turn == TURNS {
            let size = || file.as_ref().ok()?.metadata().ok();
            let born = image.as_ref().and_then(Image::view);
            return Copied {
                is_empty: size().is_some_and(|found| found.len() == 0),
                born: born.map(|view| view.header().born.load(Relaxed)),
                // For its format, if it is one that is not known.
                image: image.or_else(|| first_page(file.as_ref().ok()?)),
                settled: settled == Some(true),
            };
        }
        turn += 1;
        std::thread::sleep(BETWEEN);
    }
}

fn unreadable(path: &Path, error: &std::io::Error, problems: &mut Vec<Problem>) -> Copied {
    problems.push(Problem {
        file: path.to_owned(),
        place: "its content".into(),
        expected: "a readable file".into(),
        found: error.to_string(),
    });
    Copied {
        image: None,
        is_empty: true,
        born: None,
        settled: true,
    }
}

fn first_page(file: &File) -> Option<Image> {
    let mut page = vec![0; HEADER_BYTES];
    file.read_exact_at(&mut page, 0).ok()?;
    Some(Image::copy(&page))
}

/// Puts the header and the staged blocks as they are now into `image`, which was copied before, but leaves
/// the number of calls that were born. Says whether no row was folded in between, and the live part has not
/// grown; `None` if the file can't be read.
fn staged_again(file: &File, image: Option<&Image>, view: View) -> Option<bool> {
    let header = view.header();
    let folds = || {
        let lost = [Cause::SizeLimit, Cause::WriteFailed, Cause::TotalsFull];
        let lost = lost.map(|cause| header.lost[cause as usize].load(Relaxed));
        (header.folded.load(Relaxed), lost)
    };
    let (born, drained) = (header.born.load(Relaxed), header.drained.load(Relaxed));
    let before = folds();
    let is_same = image?.read_again(file).ok()?;
    header.born.store(born, Relaxed);
    header.drained.store(drained, Relaxed);
    Some(is_same && folds() == before)
}

pub(super) fn parse_facts(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs
        .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

/// What [`LiveSource`] found, and the bytes that complete the trace file.
pub(super) struct Open {
    pub(super) image: Option<Image>,
    pub(super) source: LiveSource,
    pub(super) staged: Vec<u8>,
    pub(super) staged_base: usize,
    /// Number of the trace file that these are of.
    pub(super) staged_for: u32,
    /// Bytes that were staged; a snapshot says so and does not have them.
    pub(super) staged_was: usize,
    /// Number of the block that comes next.
    pub(super) next_block: u32,
    /// Of a process that may run: how many calls were born when its live part was copied. Calls born since
    /// are in some of the places that are read later, and not in others.
    pub(super) born: Option<u64>,
    /// Whether the live part was copied while no row was folded into the totals.
    pub(super) settled: bool,
    /// There is a live part that can't be read.
    pub(super) unreadable: bool,
}

impl Open {
    /// Whether the process's live part may be elsewhere by now: it ended while this was read.
    pub(super) fn has_left(&self) -> bool {
        match self.source {
            LiveSource::None | LiveSource::OtherTool => true,
            LiveSource::Snapshot => !self.ended(),
            LiveSource::Adopted | LiveSource::Here => false,
        }
    }

    /// Whether the recorder had written everything when the live part was left.
    pub(super) fn ended(&self) -> bool {
        let view = self.image.as_ref().and_then(Image::view);
        view.is_some_and(|view| view.header().state.load(Relaxed) == 1)
    }

    /// The number of the first block that was not in the trace files yet, nor is staged here, when the live
    /// part was left.
    pub(super) fn blocks(&self) -> u32 {
        // A snapshot has no staged blocks, and they may have been many.
        let all = self.source != LiveSource::Snapshot || self.staged_was == 0;
        if all {
            self.next_block
        } else {
            0
        }
    }
}

pub(super) fn open_live(
    files: &Files,
    facts: &BTreeMap<String, String>,
    trace_id: Option<u64>,
    problems: &mut Vec<Problem>,
) -> Open {
    let mut open = Open {
        image: None,
        source: LiveSource::None,
        staged: Vec::new(),
        staged_base: 0,
        staged_for: 0,
        staged_was: 0,
        next_block: 0,
        born: None,
        settled: true,
        unreadable: false,
    };
    let found = find_live(files, facts, trace_id, &mut open.unreadable, problems);
    let Some((copied, source)) = found else {
        return open;
    };
    if let Some(view) = copied.image.as_ref().and_then(Image::view) {
        let header = view.header();
        open.staged = view.staged();
        open.staged_was = open.staged.len();
        open.staged_base = usize::try_from(header.staged_base.load(Relaxed))
            .map_or(usize::MAX / 2, |n| n.min(usize::MAX / 2));
        open.staged_for = header.trace_number.load(Acquire);
        open.next_block = header.block_number.load(Relaxed);
    }
    (open.born, open.settled) = (copied.born, copied.settled);
    (open.image, open.source) = (copied.image, source);
    open
}

/// The facts of the first Process block.
pub(super) fn first_facts(file: &[u8]) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let process = |b: block::Block| {
        if b.kind == BlockKind::Process as u16 && facts.is_empty() {
            facts = parse_facts(&String::from_utf8_lossy(b.payload));
        }
    };
    block::read(file, process, |_| ());
    facts
}
