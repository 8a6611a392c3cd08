//! Captures below a folder, found by their files' names.
//!
//! A folder with `capture.json` is a capture, and so is one with a folder that has trace files. Nothing is
//! looked for within a capture.
//!
//! Rule: links and hidden folders are not followed, and the search ends after a bounded number of entries.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tables::{ReadProgress, Source, Which};

/// Captures lie no deeper.
const DEPTH: usize = 4;
/// Entries that are looked at.
const MOST_ENTRIES: usize = 200_000;

/// A capture that was found.
pub struct Found {
    /// Its folder.
    pub path: PathBuf,
    /// When its job started, as `ncclscope run` wrote it down; else when its first process did. A file's own
    /// time is that of a copy, and says nothing.
    pub started: Option<SystemTime>,
    /// What `capture.json` says.
    pub job: Option<serde_json::Value>,
    /// Processes that have a trace file.
    pub processes: usize,
}

/// The captures in `folder` and below, the newest first; and whether the search came to its end.
pub fn below(folder: &Path) -> (Vec<Found>, bool) {
    let (mut found, mut left) = (Vec::new(), MOST_ENTRIES);
    search(folder, DEPTH, &mut left, &mut found);
    found.sort_by(|a, b| b.started.cmp(&a.started).then(a.path.cmp(&b.path)));
    (found, left > 0)
}

/// The capture that is meant if none is named: the newest one here and below. Says which one it is.
///
/// # Errors
/// If there is none.
pub fn named_or_newest(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(path) = named {
        return Ok(path);
    }
    let (found, _) = below(Path::new("."));
    let Some(newest) = found.into_iter().next() else {
        anyhow::bail!(
            "there is no capture in this folder or below\
             \n  hint: name a capture folder; `ncclscope run -- COMMAND` records one"
        );
    };
    tell!(
        "ncclscope: the newest capture here: {}",
        newest.path.display()
    );
    Ok(newest.path)
}

fn entries(folder: &Path, left: &mut usize) -> Vec<std::fs::DirEntry> {
    let all = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let entries: Vec<_> = all.take(*left).collect();
    *left -= entries.len();
    entries
}

fn search(folder: &Path, depth: usize, left: &mut usize, found: &mut Vec<Found>) {
    if let Some(capture) = capture(folder, left) {
        found.push(capture);
        return;
    }
    if depth == 0 {
        return;
    }
    for entry in entries(folder, left) {
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_hidden && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // Not `./runs/a`, as nobody would type it.
            let path = if folder == Path::new(".") {
                PathBuf::from(entry.file_name())
            } else {
                entry.path()
            };
            search(&path, depth - 1, left, found);
        }
    }
}

/// The capture that this folder is.
fn capture(folder: &Path, left: &mut usize) -> Option<Found> {
    let job = tables::job(folder).ok().flatten();
    let has_job = job.is_some() || folder.join("capture.json").is_file();
    let mut traces = BTreeSet::new();
    for host in entries(folder, left) {
        if !host.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        // A capture is a folder of folders with files. Of a restart, the hosts are one deeper.
        let is_restart = host.file_name().as_encoded_bytes().starts_with(b"restart-");
        let hosts = if is_restart {
            entries(&host.path(), left)
                .iter()
                .map(|e| e.path())
                .collect()
        } else {
            vec![host.path()]
        };
        for (host, file) in hosts.iter().flat_map(|host| {
            let files = entries(host, left);
            files.into_iter().map(move |file| (host, file))
        }) {
            if tables::packs::number(&file.path()).is_some() {
                let packed = tables::packs::files(host, &mut Vec::new());
                traces.extend(packed.iter().filter_map(|file| process(file)));
            }
            traces.extend(process(&file.path()));
        }
    }
    if !has_job && traces.is_empty() {
        return None;
    }
    let started = job
        .as_ref()
        .and_then(|job| job["started"].as_str()?.parse().ok());
    let started = started.map(|at: jiff::Timestamp| SystemTime::from(at));
    Some(Found {
        path: folder.to_owned(),
        started: started.or_else(|| began(folder)),
        job,
        processes: traces.len(),
    })
}

/// When the first process of a capture began, by its own clock.
fn began(folder: &Path) -> Option<SystemTime> {
    let source = Source::open_attempt(folder, &ReadProgress::default(), Which::Last).ok()?;
    let attempts = source.capture().attempts.iter();
    let began = attempts.filter_map(|attempt| attempt.began_ns).min()?;
    let at = jiff::Timestamp::from_nanosecond(began.into()).ok()?;
    Some(SystemTime::from(at))
}

/// The process whose trace file this is: its host's folder and `r3-p71-00c0ffee`.
fn process(path: &Path) -> Option<PathBuf> {
    let name = path.file_name().and_then(OsStr::to_str)?;
    let name = name.strip_suffix(".zst").unwrap_or(name);
    let (stem, _) = capture::rotated::split_number(name.strip_suffix(".trace")?);
    let (_, id) = stem.rsplit_once("-")?;
    let is_ours = id.len() == 8 && id.bytes().all(|b| b.is_ascii_hexdigit());
    is_ours.then(|| path.with_file_name(stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_are_found_by_their_files() {
        let root = tempfile::tempdir().expect("a folder");
        let make = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        let job = |year: u32| {
            format!("{{\"started\": \"{year}-01-01T00:00:00Z\", \"command\": [\"a\"]}}")
        };
        make("runs/old/capture.json", &job(2024));
        make("runs/old/node/r0-p7-00c0ffee.trace", "");
        make("runs/old/node/r0-p7-00c0ffee.1.trace", "");
        make("runs/old/node/r1-p8-00c0ffef.trace.zst", "");
        make("runs/restarted/capture.json", &job(2025));
        make("runs/restarted/restart-1/node/r0-p7-00c0ffee.trace", "");
        // Without `run` there is no capture.json.
        make("plain/node/r0-p7-00c0ffee.trace", "");
        make("other/logs/a.trace", "");
        make(".hidden/node/r0-p7-00c0ffee.trace", "");
        let (found, is_whole) = below(root.path());
        let names: Vec<_> = found
            .iter()
            .map(|of| {
                (
                    of.path.strip_prefix(root.path()).expect("below"),
                    of.processes,
                )
            })
            .collect();
        assert!(is_whole);
        let [plain, restarted, old] = ["plain", "runs/restarted", "runs/old"].map(Path::new);
        // An empty file has no time: the order is not that of the files.
        assert_eq!(names, [(restarted, 1), (old, 2), (plain, 1)]);
        assert!(found[0].started.is_some() && found[2].started.is_none());
    }
}
