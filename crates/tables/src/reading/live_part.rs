//! Finds the live part of a process, wherever it is, and the facts that say where to look.

use crate::files::{load, Files};
use crate::problem::Problem;
use crate::process::LiveSource;
use crate::trace::Trace;
use capture::block::{self, Kind};
use capture::live::Image;
use capture::snapshot;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// The live part that belongs to a trace file: the first of its places that has its id.
fn find_live(
    files: &Files,
    facts: &BTreeMap<String, String>,
    trace_id: Option<u64>,
    problems: &mut Vec<Problem>,
) -> Option<(Image, LiveSource)> {
    let here = facts
        .get("live")
        .filter(|path| {
            path.starts_with('/') && facts.get("boot_id").is_some_and(|id| *id == boot_id())
        })
        .map(PathBuf::from)
        .filter(|path| path.is_file());
    let places = [
        (files.live.as_ref(), LiveSource::Adopted),
        (here.as_ref(), LiveSource::Here),
        (files.snapshot.as_ref(), LiveSource::Snapshot),
    ];
    for (path, source) in places {
        let Some(path) = path else { continue };
        let (image, is_empty) = match source {
            // Where it grows, so that most of the file may be room.
            LiveSource::Here => {
                let size = std::fs::metadata(path).map_or(0, |found| found.len());
                (read(path, problems), size == 0)
            }
            _ => {
                let bytes = load(path, problems);
                let image = match source {
                    LiveSource::Snapshot => snapshot::read(&bytes),
                    _ => Some(Image::copy(&bytes)),
                };
                (image, bytes.is_empty())
            }
        };
        let found = match image.as_ref().and_then(|image| image.view()) {
            None if is_empty => "an empty file".to_owned(),
            None => "bytes that are none".to_owned(),
            Some(view) => match (trace_id, view.header().trace_id.load(Relaxed)) {
                (Some(wanted), found) if wanted != found => {
                    format!("one of another trace file ({found:016x})")
                }
                _ => return image.map(|image| (image, source)),
            },
        };
        let expected = "the live part of this trace file".to_owned();
        problems.push(Problem {
            file: path.clone(),
            place: "its header".into(),
            expected,
            found,
        });
    }
    None
}

/// The live part in a file.
fn read(path: &Path, problems: &mut Vec<Problem>) -> Option<Image> {
    let image = File::open(path).and_then(|file| Image::read(&file));
    let image = image.unwrap_or_else(|error| {
        problems.push(Problem {
            file: path.to_owned(),
            place: "its content".into(),
            expected: "a readable file".into(),
            found: error.to_string(),
        });
        None
    });
    image.map(|(image, _)| image)
}

/// The id of this boot of this host, empty where there is none.
fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
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
}

pub(super) fn open_live(
    files: &Files,
    facts: &BTreeMap<String, String>,
    trace: &Trace,
    problems: &mut Vec<Problem>,
) -> Open {
    let mut open = Open {
        image: None,
        source: LiveSource::None,
        staged: Vec::new(),
        staged_base: 0,
        staged_for: 0,
    };
    let Some((image, source)) = find_live(files, facts, trace.id(), problems) else {
        return open;
    };
    if let Some(view) = image.view() {
        let header = view.header();
        let len = (header.staged_len.load(Acquire) as usize).min(view.staging().len());
        open.staged = view.staging()[..len]
            .iter()
            .map(|b| b.load(Relaxed))
            .collect();
        open.staged_base = usize::try_from(header.staged_base.load(Relaxed))
            .map_or(usize::MAX / 2, |n| n.min(usize::MAX / 2));
        open.staged_for = header.trace_number.load(Acquire);
    }
    (open.image, open.source) = (Some(image), source);
    open
}

/// The facts of the first Process block.
pub(super) fn first_facts(file: &[u8]) -> BTreeMap<String, String> {
    let within = |file: &[u8]| {
        let mut facts = BTreeMap::new();
        let process = |b: block::Block| {
            if b.kind == Kind::Process as u16 && facts.is_empty() {
                facts = parse_facts(&String::from_utf8_lossy(b.payload));
            }
        };
        block::read(file, process, |_| ());
        facts
    };
    // It is the first of all, but where that is damaged.
    let facts = within(&file[..file.len().min(64 << 10)]);
    if facts.is_empty() {
        within(file)
    } else {
        facts
    }
}
