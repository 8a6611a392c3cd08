//! Looks at other captures in a process of its own.
//!
//! Live parts on a node may belong to a capture on a file system that does not answer. Who looks there, with
//! any thread, does not end before it does. So `ncclscope collect --sweep` and `--nearest` look, and are left
//! alone if they take long.
//!
//! Rule: what is not answered in time is not known, and a few such are enough.

use super::adopt;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an answer is waited for: a process takes milliseconds, and longer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(3);
/// After so many answers that did not come by then, nothing is asked any more.
const MOST_LATE: u32 = 2;
/// How long it is waited until everything is removed that no capture needs. It goes on after that.
const SWEEP: Duration = Duration::from_secs(1);

/// What is known of folders of other captures, and how many answers did not come in time.
struct Known {
    nearest: HashMap<PathBuf, Option<PathBuf>>,
    late: u32,
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// [`adopt::nearest`] of a trace file that may be in another capture; `None` if that is not known.
pub fn nearest(trace: &Path) -> Option<PathBuf> {
    let folder = trace.parent()?;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_with(|| Known {
        nearest: HashMap::new(),
        late: 0,
    });
    if let Some(nearest) = known.nearest.get(folder) {
        return nearest.clone();
    }
    if known.late >= MOST_LATE {
        return None;
    }
    let Some(path) = said(&[OsStr::new("--nearest"), trace.as_os_str()], PATIENCE) else {
        known.late += 1;
        return None;
    };
    let nearest = (!path.is_empty()).then(|| PathBuf::from(OsString::from_vec(path)));
    known.nearest.insert(folder.to_owned(), nearest.clone());
    nearest
}

/// [`adopt::sweep`], which goes on if it takes long.
pub fn sweep() {
    said(&[OsStr::new("--sweep")], SWEEP);
}

/// What `ncclscope collect` says with these arguments; `None` if it is not done in time.
fn said(arguments: &[&OsStr], within: Duration) -> Option<Vec<u8>> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.arg("collect").args(arguments).process_group(0);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut process = command.spawn().ok()?;
    let until = Instant::now() + within;
    while process.try_wait().ok()?.is_none() {
        if Instant::now() >= until {
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    // A path fits in a pipe, so nobody waited for this.
    let mut said = Vec::new();
    process.stdout?.read_to_end(&mut said).ok()?;
    Some(said)
}

/// What the process does that was begun with `--nearest`.
pub fn say_nearest(trace: &Path) -> std::io::Result<()> {
    let nearest = adopt::nearest(trace).unwrap_or_default();
    std::io::Write::write_all(
        &mut std::io::stdout(),
        nearest.into_os_string().as_encoded_bytes(),
    )
}
