//! The trace files of one process, as one.
//!
//! A [`Trace`] holds `NAME.trace` and the later ones that are there, in order; their blocks are numbered
//! through. The newest one's first block says which are gone and what was in them ([`Rotated`]).
//!
//! Rule: a file that it says is gone is left out even when it is there, because its calls are in the account.
//! That is so when the process ended before it could remove the file.

use crate::files::{load_opened, open, Files, HeldFile, TRACE};
use crate::packs::is_compressed;
use crate::problem::Problem;
use capture::block::{self, BlockKind};
use capture::rotated::Rotated;
use std::io::Read;
use std::path::PathBuf;

/// Bytes of a trace file's beginning, with its Process block.
const HEAD: u64 = 64 << 10;

/// One trace file.
pub(crate) struct TraceFile {
    pub number: u32,
    pub path: PathBuf,
    pub bytes: Vec<u8>,
    /// False for the one that stands for none.
    pub there: bool,
    /// Where it may be removed before it is read again.
    pub held: Option<HeldFile>,
}

/// See the module.
pub(crate) struct Trace {
    /// By number; one without content where there is none.
    pub files: Vec<TraceFile>,
    /// What files that are gone held.
    pub rotated: Option<Rotated>,
}

/// The beginning of the first of these files: its id and, as far as they are sound, its first blocks. It is
/// there from the start and stays as it is, so it may be read before all else.
pub(crate) fn head(files: &Files) -> (Option<u64>, Vec<u8>) {
    let mut paths = files.trace.iter().chain(files.later.values());
    let read = |path: &PathBuf| -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(HEAD as usize);
        let file = open(path).ok()?;
        if is_compressed(path) {
            let file = zstd::Decoder::new(file).ok()?;
            file.take(HEAD).read_to_end(&mut bytes).ok()?;
        } else {
            file.take(HEAD).read_to_end(&mut bytes).ok()?;
        }
        Some(bytes)
    };
    let found = paths.find_map(|path| {
        let bytes = read(path)?;
        Some((block::trace_id(&bytes).ok()?, bytes))
    });
    found.map_or((None, Vec::new()), |(id, bytes)| (Some(id), bytes))
}

impl Trace {
    /// Loads the files. One of another process, by its id, is left out and becomes a problem.
    pub fn load(files: &Files, problems: &mut Vec<Problem>) -> Trace {
        let numbered = files.trace.iter().map(|path| (0, path));
        let numbered = numbered.chain(files.later.iter().map(|(n, path)| (*n, path)));
        let mut found: Vec<TraceFile> = Vec::new();
        let mut id = None;
        for (number, path) in numbered {
            let file = open(path);
            let bytes = load_opened(path, file.as_ref(), TRACE, problems);
            let packed = is_compressed(path);
            let may_go = number > 0 && !packed;
            if let Ok(other) = block::trace_id(&bytes) {
                if *id.get_or_insert(other) != other {
                    problems.push(Problem {
                        file: path.clone(),
                        place: "its header".into(),
                        expected: "a later trace file of the same process".into(),
                        found: format!("one of another process ({other:016x})"),
                    });
                    continue;
                }
            }
            found.push(TraceFile {
                number,
                path: path.clone(),
                bytes,
                there: true,
                held: file.ok().filter(|_| may_go).and_then(HeldFile::new),
            });
        }
        // The process ended while it made this one.
        if found
            .last()
            .is_some_and(|f| f.number > 0 && is_bare(&f.bytes))
        {
            found.pop();
        }
        let rotated = found.iter().rev().find_map(|file| {
            let rotated = rotated(&file.bytes).filter(|_| file.number > 0)?;
            Some((rotated, file.number))
        });
        if let Some((rotated, own)) = &rotated {
            let first = rotated.first_kept.min(*own);
            found.retain(|file| file.number == 0 || file.number >= first);
        }
        if found.is_empty() {
            found.push(TraceFile {
                number: 0,
                path: files.path().to_owned(),
                bytes: Vec::new(),
                there: false,
                held: None,
            });
        }
        Trace {
            files: found,
            rotated: rotated.map(|(rotated, _)| rotated),
        }
    }

    /// The id that its files share, if one has a sound header.
    pub fn id(&self) -> Option<u64> {
        let mut files = self.files.iter();
        files.find_map(|file| block::trace_id(&file.bytes).ok())
    }

    /// How many of the blocks with these numbers are gone with their files.
    pub fn gone(&self, first: u32, last: u32) -> u64 {
        self.rotated.as_ref().map_or(0, |gone| {
            let end = gone.first_block.saturating_add(gone.blocks);
            u64::from(last.min(end).saturating_sub(first.max(gone.first_block)))
        })
    }
}

/// What the newest of these files says of those that are gone.
pub(crate) fn newest_rotated(files: &Files) -> Option<Rotated> {
    let (_, newest) = files.later.last_key_value()?;
    let mut bytes = Vec::new();
    let file = open(newest).ok()?;
    file.take(4 << 20).read_to_end(&mut bytes).ok()?;
    rotated(&bytes)
}

/// Whether there is not even one whole block.
fn is_bare(bytes: &[u8]) -> bool {
    let mut bare = true;
    let start = &bytes[..bytes.len().min(64 << 10)];
    block::read(start, |_| bare = false, |_| ());
    bare && start.len() == bytes.len()
}

/// The first block of a later file.
fn rotated(bytes: &[u8]) -> Option<Rotated> {
    let mut first = None;
    let start = &bytes[..bytes.len().min(4 << 20)];
    let take = |b: block::Block| {
        if b.kind == BlockKind::Rotated as u16 && first.is_none() {
            first = Some(Rotated::read(b.payload));
        }
    };
    block::read(start, take, |_| ());
    first.flatten()
}
