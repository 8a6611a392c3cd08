//! One run of the program: started, timed, and ended if it takes too long.

use anyhow::Context;
use bench::stop;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How a run went.
pub struct RunOutcome {
    /// From start to end.
    pub wall: Duration,
    /// How it ended, if not with status 0.
    pub failed: Option<String>,
}

/// How often the watch looks whether to stop.
const LOOK: Duration = Duration::from_millis(100);
/// How long a run has to end after it was asked to.
const GRACE: Duration = Duration::from_secs(10);

/// Runs `command` to its end; what it prints goes to `log`. After `timeout`, or once a stop is asked for, its
/// group is asked to end, and killed if it does not.
pub fn run(mut command: Command, log: &Path, timeout: Duration) -> anyhow::Result<RunOutcome> {
    let shown = || format!("could not write `{}`", log.display());
    let out = File::create(log).with_context(shown)?;
    let err = out.try_clone().with_context(shown)?;
    command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0);
    let began = Instant::now();
    let mut child = command.spawn().context("could not start `ncclscope run`")?;
    let group = -(child.id() as i32);
    let (over, ended) = channel::<()>();
    let watch = std::thread::spawn(move || {
        let mut asked: Option<Instant> = None;
        while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            let signal = match asked {
                None if began.elapsed() > timeout || stop::asked().is_some() => libc::SIGTERM,
                Some(since) if since.elapsed() > GRACE => libc::SIGKILL,
                _ => continue,
            };
            asked.get_or_insert_with(Instant::now);
            // SAFETY: the leader is not waited for before `over` is dropped, so the group is still its own.
            unsafe { libc::kill(group, signal) };
        }
        asked.is_some()
    });
    wait_unreaped(child.id());
    let wall = began.elapsed();
    drop(over);
    let ended = watch.join().unwrap_or(false);
    let status = child.wait().context("could not wait for the run")?;
    let failed = match (status.code(), status.signal()) {
        _ if ended && stop::asked().is_some() => Some("stopped".to_owned()),
        _ if ended => Some(format!("still running after {} s", timeout.as_secs_f64())),
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit status {code}")),
        (None, signal) => Some(format!("signal {}", signal.unwrap_or(0))),
    };
    Ok(RunOutcome { wall, failed })
}

/// Waits for the end of a child, and leaves its id taken.
fn wait_unreaped(pid: u32) {
    loop {
        // SAFETY: all zeros is a siginfo, which the call fills; the child is ours, and nobody else waits for
        // it.
        let ended = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, pid, &mut info, libc::WEXITED | libc::WNOWAIT)
        };
        if ended == 0 || std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, timeout: f64) -> (RunOutcome, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let ran = run(command, &log, Duration::from_secs_f64(timeout)).expect("started");
        (ran, std::fs::read_to_string(log).expect("read"))
    }

    #[test]
    fn output_and_status_of_a_run_are_kept() {
        let (ran, log) = sh("echo hello; echo there >&2; exit 3", 60.0);
        assert_eq!(
            (ran.failed.as_deref(), log.as_str()),
            (Some("exit status 3"), "hello\nthere\n")
        );
        assert_eq!(sh("true", 60.0).0.failed, None);
        assert_eq!(sh("kill -9 $$", 60.0).0.failed.as_deref(), Some("signal 9"));
    }

    #[test]
    fn what_hangs_is_ended_with_its_children() {
        let (ran, _) = sh("sleep 1000 & wait", 0.2);
        assert_eq!(ran.failed.as_deref(), Some("still running after 0.2 s"));
        assert!(ran.wall < Duration::from_secs(60));
    }
}
