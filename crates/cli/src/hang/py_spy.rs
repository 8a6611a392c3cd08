//! py-spy, if it is installed: the lines at which a Python program stands, and who has the interpreter's
//! lock.
//!
//! Rule: it is told not to stop the process, and gets a few seconds. What it can't tell is left out.

use analyze::hang::Stands;
use serde_json::Value;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

const LONGEST: Duration = Duration::from_secs(5);
/// Bytes that it may print.
const MOST: u64 = 16 << 20;
/// Frames that are kept: the line itself, and those that led there.
const FRAMES: usize = 8;

/// Where it is, by PATH.
fn find() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&paths).map(|place| place.join("py-spy"));
    places.find(|place| place.is_file())
}

/// Where a thread of a process stands, or its main thread if that one is not Python's; `None` if nothing is
/// known.
pub fn ask(pid: u32, thread: u32) -> Option<Stands> {
    let mut child = Command::new(find()?)
        .args(["dump", "--nonblocking", "--json", "--pid"])
        .arg(pid.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let out = child.stdout.take()?;
    let (done, text) = channel();
    // A pipe takes 64 KiB before somebody has to read. What it started may keep the pipe open.
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = out.take(MOST).read_to_string(&mut text);
        let _ = done.send(read.ok().map(|_| text));
    });
    let text = text.recv_timeout(LONGEST).ok().flatten();
    let _ = child.kill();
    let _ = child.wait();
    stands(&text?, thread)
}

/// From what it prints.
fn stands(text: &str, thread: u32) -> Option<Stands> {
    let dump: Value = serde_json::from_str(text).ok()?;
    let threads = dump.as_array()?;
    let is_it = |of: &&Value| of["os_thread_id"].as_u64() == Some(thread.into());
    let is_main = |of: &&Value| of["thread_name"] == "MainThread";
    let own = threads.iter().find(is_it);
    let own = own.or_else(|| threads.iter().find(is_main))?;
    let frame = |of: &Value| {
        let file = of["short_filename"].as_str().or(of["filename"].as_str())?;
        let (name, line) = (of["name"].as_str()?, of["line"].as_i64()?);
        Some(tables::printable(&format!("{name} ({file}:{line})")).into_owned())
    };
    let frames: Vec<String> = own["frames"]
        .as_array()?
        .iter()
        .filter_map(frame)
        .take(FRAMES)
        .collect();
    let has_lock = threads
        .iter()
        .find(|of| of["owns_gil"] == true && of["os_thread_id"] != own["os_thread_id"]);
    let name = |of: &Value| {
        let name = of["thread_name"].as_str();
        name.map_or_else(
            || format!("thread {}", of["os_thread_id"]),
            |name| tables::printable(name).into_owned(),
        )
    };
    (!frames.is_empty()).then(|| Stands {
        frames,
        lock_is_with: has_lock.map(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_the_owner_of_the_lock_are_read() {
        let thread = |id: u32, name: &str, gil: bool, line: u32| {
            format!(
                r#"{{"pid": 7, "thread_id": 99, "thread_name": "{name}", "os_thread_id": {id}, "active": true,
                "owns_gil": {gil}, "frames": [{{"name": "step", "filename": "/w/train.py", "module": null,
                "short_filename": "train.py", "line": {line}, "locals": null}}]}}"#
            )
        };
        let text = format!(
            "[{}, {}]",
            thread(7, "MainThread", false, 33),
            thread(8, "loader", true, 5)
        );
        let main = Stands {
            frames: vec!["step (train.py:33)".to_owned()],
            lock_is_with: Some("loader".to_owned()),
        };
        assert_eq!(stands(&text, 7), Some(main.clone()));
        // A thread of no Python.
        assert_eq!(stands(&text, 9), Some(main));
        let loader = stands(&text, 8).expect("it is there");
        assert_eq!(
            (&loader.frames[0][..], loader.lock_is_with),
            ("step (train.py:5)", None)
        );
        for text in ["", "{}", "[]", "[{}]", "Error: no such process"] {
            assert_eq!(stands(text, 7), None, "{text}");
        }
    }
}
