//! A child's end of the socket to the process that started it.
//!
//! Rule: only [`Control`] uses the socket, and the plugin never finds it. It is no longer standard input, and
//! it closes on exec.

use crate::lock::lock;
use anyhow::{bail, Context};
use serde_json::{json, Value};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

/// A child's end of the control socket.
pub(crate) struct Control {
    stream: UnixStream,
    lines: Mutex<BufReader<UnixStream>>,
}

impl Control {
    /// Takes the socket away from standard input, which becomes empty.
    pub(crate) fn from_stdin() -> anyhow::Result<Control> {
        let null = std::fs::File::open("/dev/null")?;
        // SAFETY: plain descriptor calls; the duplicate is ours alone and closes on exec and with its owner.
        let stream = unsafe {
            let own = libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 3);
            if own < 0 {
                bail!(
                    "expected a socket as standard input: {}",
                    std::io::Error::last_os_error()
                );
            }
            libc::dup2(null.as_raw_fd(), 0);
            UnixStream::from(OwnedFd::from_raw_fd(own))
        };
        let lines = Mutex::new(BufReader::new(stream.try_clone()?));
        Ok(Control { stream, lines })
    }

    pub(crate) fn receive(&self) -> anyhow::Result<Value> {
        let mut line = String::new();
        lock(&self.lines).read_line(&mut line)?;
        serde_json::from_str(&line).context("the starting process is gone")
    }

    pub(crate) fn say(&self, what: &Value) {
        // Without a parent there is no one to tell, and the job goes on as one does without its launcher.
        let _ = writeln!(&self.stream, "{what}");
    }

    /// Waits for the common beginning.
    pub(crate) fn begin(&self, abi: Result<u8, String>) -> anyhow::Result<u64> {
        self.say(&match abi {
            Ok(abi) => json!({"ready": abi}),
            Err(why) => json!({"ready": null, "no_plugin": why}),
        });
        self.receive()?["go"]
            .as_u64()
            .context("expected a time to begin")
    }
}

pub(crate) fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| d.as_nanos() as u64)
}

/// CLOCK_MONOTONIC.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills what it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
