//! Looks at a capture again and again, and finds those that are written on this node.

use crate::pace::Pace;
use analyze::live;
use anyhow::bail;
use capture::left::{self, Here, Left, Liveness};
use render::top::Now;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tables::{Capture, OpenError, Tail};

/// A look may take one in so many parts of the time.
const PART: u32 = 10;

/// What was seen.
pub struct Look {
    /// The figures.
    pub now: Now,
    /// The newest span, or a part of it, with what was counted since the start.
    pub capture: Capture,
}

/// See the module.
pub struct Watch {
    tail: Tail,
    pace: Pace,
    /// When the first look was over, and the CPU time of this process until then.
    since: Option<(Instant, Duration)>,
}

impl Watch {
    /// Of the capture in a folder. Times are ns.
    pub fn new(folder: &Path, span_ns: i64, every_ns: i64) -> Watch {
        Watch {
            tail: Tail::new(folder, span_ns),
            pace: Pace::new(Duration::from_nanos(every_ns.unsigned_abs()), PART),
            since: None,
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.tail.path()
    }

    /// Looks.
    ///
    /// # Errors
    /// If there is nothing to read.
    pub fn look(&mut self) -> Result<Look, OpenError> {
        self.pace.begin();
        self.tail.newest().map(judge).map(|mut look| {
            look.now.view_share = self.share();
            look
        })
    }

    /// Also counts all calls since the start, for metrics.
    pub fn counting(mut self) -> Watch {
        self.tail = self.tail.counting();
        self
    }

    /// CPU time of this process since the first look, as a share of one CPU.
    fn share(&mut self) -> Option<f64> {
        let (at, used) = (Instant::now(), cpu_time()?);
        let (first, before) = *self.since.get_or_insert((at, used));
        let wall = at.duration_since(first).as_secs_f64();
        (wall > 0.0).then(|| used.saturating_sub(before).as_secs_f64() / wall)
    }

    /// Waits for the time of the next look.
    pub fn pause(&self) {
        self.pace.rest();
    }
}

/// CPU time of this process.
fn cpu_time() -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes to a local of the right type.
    let is_known = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) } == 0;
    is_known.then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// What the newest span of a capture says.
fn judge(mut capture: Capture) -> Look {
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ns = now_ns.map_or(0, |since| since.as_nanos() as i64);
    let now = live::judge(&mut capture, |capture, live| {
        Now::new(capture, live, now_ns)
    });
    Look { now, capture }
}

/// The capture of the job of this user that runs on this node.
///
/// # Errors
/// If there is none, or several.
pub fn running() -> anyhow::Result<PathBuf> {
    // SAFETY: always succeeds.
    let uid = unsafe { libc::geteuid() };
    let here = Here::ask();
    let mut found = BTreeSet::new();
    for folder in left::folders(uid) {
        let Ok(entries) = std::fs::read_dir(folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let Some(left) = Left::at(&entry.path()) else {
                continue;
            };
            if left.liveness(&here) == Liveness::Alive {
                found.extend(left.trace().and_then(capture_of));
            }
        }
    }
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (None, _) => bail!(
            "no job of yours is recorded on this node now\n  hint: `ncclscope run -o DIR -- COMMAND` records \
             one; `ncclscope top DIR` shows a capture that other nodes write to"
        ),
        (Some(one), None) => Ok(one),
        (Some(one), Some(other)) => {
            let all: Vec<String> = [one, other]
                .into_iter()
                .chain(found)
                .map(|folder| format!("ncclscope top {}", folder.display()))
                .collect();
            bail!(
                "{} jobs of yours are recorded on this node now\n  hint: name one of them:\n    {}",
                all.len(),
                all.join("\n    ")
            )
        }
    }
}

/// The folder of the capture that a trace file is in: the files of a host have one of their own in it.
fn capture_of(trace: &Path) -> Option<PathBuf> {
    let folders = trace.ancestors().skip(1);
    let marked = |folder: &&Path| folder.join("capture.json").is_file();
    let found = folders.clone().take(4).find(marked);
    let found = found.or_else(|| trace.parent()?.parent())?;
    Some(found.to_owned())
}
