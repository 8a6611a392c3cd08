//! Runs a command and says what it took.
//!
//! Rule: processor time and memory are the kernel's own count for the command and all its descendants that it
//! waited for (`wait4`), so nothing has to be sampled.

use anyhow::Context;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::{Duration, Instant};

/// What a run took.
#[derive(Clone, Debug)]
pub(crate) struct RunOutcome {
    /// Seconds from start to end.
    pub wall_s: f64,
    /// Processor seconds, user and system.
    pub cpu_s: f64,
    /// Resident memory of the largest process, bytes.
    pub peak_bytes: u64,
    /// How it ended, if not with status 0.
    pub failed: Option<String>,
    /// What it printed.
    pub stdout: String,
}

/// How often it is asked whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Runs `command` to its end, or kills it and its group after `timeout`, or once `stopped`. What it prints
/// goes to `stdout` and `stderr` in `folder`.
pub(crate) fn run(
    mut command: Command,
    folder: &Path,
    timeout: Duration,
    stopped: fn() -> bool,
) -> anyhow::Result<RunOutcome> {
    let file = |name: &str| {
        let path = folder.join(name);
        File::create(&path).with_context(|| format!("could not write `{}`", path.display()))
    };
    let program = command.get_program().to_string_lossy().into_owned();
    command
        .stdin(Stdio::null())
        .stdout(file("stdout")?)
        .stderr(file("stderr")?)
        .process_group(0);
    // SAFETY: between fork and exec this makes one system call and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            // In a group of its own it does not get the terminal's ^C; it must not outlive us either.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        })
    };
    let began = Instant::now();
    let child = command
        .spawn()
        .with_context(|| format!("could not start `{program}`"))?;
    let pid = child.id() as i32;
    let (over, ended) = channel::<()>();
    let watch = std::thread::spawn(move || {
        let late = loop {
            let left = timeout.saturating_sub(began.elapsed());
            let over = ended.recv_timeout(left.min(LOOK)) != Err(RecvTimeoutError::Timeout);
            if over || left.is_zero() || stopped() {
                break !over;
            }
        };
        if late {
            // SAFETY: the leader is not waited for before `over` is dropped, so the group is still its own.
            unsafe { libc::kill(-pid, libc::SIGKILL) };
        }
        late
    });
    let mut status = 0;
    // SAFETY: all zeros is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // Not reaped yet: the group's id stays ours until the watch is over.
        // SAFETY: fills what it is given; the child is ours and nobody else waits for it.
        let ended = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(
                libc::P_PID,
                pid as u32,
                &mut info,
                libc::WEXITED | libc::WNOWAIT,
            )
        };
        if ended == 0 || std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            break;
        }
    }
    let wall_s = began.elapsed().as_secs_f64();
    drop(over);
    let late = watch.join().unwrap_or(false);
    // SAFETY: as above.
    if unsafe { libc::wait4(pid, &mut status, 0, &mut usage) } != pid {
        return Err(std::io::Error::last_os_error()).context("could not wait for the run");
    }
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    let failed = if late && stopped() {
        Some("stopped".to_owned())
    } else if late {
        Some(format!("still running after {} s", timeout.as_secs_f64()))
    } else if libc::WIFSIGNALED(status) {
        Some(format!("signal {}", libc::WTERMSIG(status)))
    } else if libc::WEXITSTATUS(status) != 0 {
        Some(format!("exit {}", libc::WEXITSTATUS(status)))
    } else {
        None
    };
    let stdout = std::fs::read(folder.join("stdout")).unwrap_or_default();
    Ok(RunOutcome {
        wall_s,
        cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        // Linux counts it in KiB.
        peak_bytes: usage.ru_maxrss as u64 * 1024,
        failed,
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, timeout: f64) -> RunOutcome {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let timeout = Duration::from_secs_f64(timeout);
        run(command, folder.path(), timeout, || false).expect("started")
    }

    #[test]
    fn status_output_and_memory_of_a_child_s_child_are_known() {
        let ran = sh(
            "echo hello; sh -c 'x=$(head -c 20000000 /dev/zero | tr \"\\0\" a); echo ${#x}' \
            >/dev/null; exit 3",
            60.0,
        );
        assert_eq!(ran.failed.as_deref(), Some("exit 3"));
        assert_eq!(ran.stdout, "hello\n");
        assert!(ran.peak_bytes > 16 << 20, "{}", ran.peak_bytes);
        assert!(ran.cpu_s > 0.0 && ran.wall_s > 0.0);
        assert_eq!(sh("kill -9 $$", 60.0).failed.as_deref(), Some("signal 9"));
        assert_eq!(sh("true", 60.0).failed, None);
    }

    #[test]
    fn what_is_to_stop_is_killed_with_its_children() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & wait"]);
        let ran = run(command, folder.path(), Duration::from_secs(1000), || true).expect("started");
        assert_eq!(ran.failed.as_deref(), Some("stopped"));
        assert!(ran.wall_s < 60.0);
    }

    #[test]
    fn what_hangs_is_killed_with_its_children() {
        let ran = sh("sleep 1000 & wait", 0.2);
        assert_eq!(ran.failed.as_deref(), Some("still running after 0.2 s"));
        assert!(ran.wall_s < 60.0);
    }
}
