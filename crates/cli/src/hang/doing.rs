//! What the threads do that others wait for, as the system shows it: run, sleep, or wait for a file, a lock,
//! a connection, a child or the GPU's driver.
//!
//! Rule: it is read from /proc, and nothing is executed in the process; py-spy reads its memory. A single
//! look may catch a moment that says nothing, so several must show the same.

use super::py_spy;
use analyze::hang::{Does, Doing, Hang, Liveness, RankProgress};
use attach::processes;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Threads that are looked at: those of the first ranks that a verdict names.
const MOST: usize = 4;
/// So often, and so many of these looks must show the same.
const LOOKS: usize = 5;
const SAME: usize = 4;
const APART: Duration = Duration::from_millis(10);

/// Looks at those processes of this machine that a verdict names and that run. py-spy is asked about them if
/// `asks`.
pub fn look(hang: &mut Hang, is_here: impl Fn(u32) -> bool, asks: bool) {
    let mut pids = BTreeSet::new();
    let named = hang.verdict.blamed();
    let ranks = named
        .iter()
        .map(|of| &hang.communicators[of.communicator].ranks[of.member]);
    let here = |rank: &&RankProgress| rank.state == Liveness::Running && is_here(rank.process.pid);
    let ranks: Vec<&RankProgress> = ranks.filter(here).collect();
    let called: BTreeSet<u32> = ranks.iter().filter_map(|rank| rank.thread).collect();
    let these: Vec<(u32, u32, Option<u32>)> = ranks
        .into_iter()
        .filter(|rank| pids.insert(rank.process.pid))
        .map(|rank| (rank.process.pid, thread(rank), rank.number))
        .take(MOST)
        .collect();
    let mut seen: Vec<Vec<Option<Does>>> = vec![Vec::new(); these.len()];
    for at in 0..LOOKS {
        for ((pid, thread, _), seen) in these.iter().zip(&mut seen) {
            seen.push(does(*pid, *thread));
        }
        if at + 1 < LOOKS && !these.is_empty() {
            std::thread::sleep(APART);
        }
    }
    let doing = these.into_iter().zip(seen);
    hang.doing = doing
        .filter_map(|((pid, thread, number), seen)| {
            let most = seen
                .iter()
                .max_by_key(|one| seen.iter().filter(|other| other == one).count());
            let most = most?.clone();
            let count = seen.iter().filter(|one| **one == most).count();
            let does = most.filter(|_| count >= SAME);
            let runs = match does {
                Some(Does::WaitsForThread) => running_thread(pid, thread),
                _ => None,
            };
            let is_python = is_python(pid);
            let stands = (asks && is_python)
                .then(|| py_spy::ask(pid, thread))
                .flatten();
            let is_known = does.is_some() || stands.is_some();
            is_known.then_some(Doing {
                number,
                pid,
                calls_nccl: called.contains(&thread),
                is_python,
                does,
                runs,
                stands,
            })
        })
        .collect();
}

/// The thread that made the newest call, or the first of the process if that one has ended.
fn thread(of: &RankProgress) -> u32 {
    let is_there =
        |thread: &u32| Path::new(&format!("/proc/{}/task/{thread}", of.process.pid)).exists();
    of.thread.filter(is_there).unwrap_or(of.process.pid)
}

/// What a thread does at this moment; `None` if that is nothing that can be named.
fn does(pid: u32, thread: u32) -> Option<Does> {
    let stat = processes::stat(thread)?;
    if stat.runs {
        return Some(Does::Runs);
    }
    let folder = format!("/proc/{pid}/task/{thread}");
    let text = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).unwrap_or_default();
    // With Yama, only a parent may read this.
    let called = call(&text("syscall"));
    let by_call = called.and_then(|(number, first)| of_call(pid, number, first));
    by_call.or_else(|| match (stat.waits_for_disk, text("wchan").as_str()) {
        (true, _) => Some(Does::WaitsForFile(None)),
        (_, at) if at.contains("futex") => Some(Does::WaitsForThread),
        (_, at) if at.contains("nanosleep") => Some(Does::Sleeps),
        (_, "do_wait") => Some(Does::WaitsForChild),
        (_, at) if at.contains("poll") || at.contains("select") || at.contains("tcp") => {
            Some(Does::WaitsForConnection)
        }
        _ => None,
    })
}

/// The number of a system call, and its first argument.
fn call(text: &str) -> Option<(i64, u64)> {
    let mut words = text.split_whitespace();
    let number = words.next()?.parse().ok().filter(|number| *number >= 0)?;
    let first = words.next()?.trim_start_matches("0x");
    Some((number, u64::from_str_radix(first, 16).ok()?))
}

/// System calls whose first argument is a descriptor.
const OF_FILES: [i64; 18] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_ioctl,
    libc::SYS_getdents64,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
];

/// What a thread does that is inside of this system call.
fn of_call(pid: u32, number: i64, first: u64) -> Option<Does> {
    #[cfg(target_arch = "x86_64")]
    let waits = [libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_wait];
    #[cfg(not(target_arch = "x86_64"))]
    let waits = [libc::SYS_ppoll; 1];
    match number {
        libc::SYS_futex => return Some(Does::WaitsForThread),
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => return Some(Does::Sleeps),
        libc::SYS_wait4 | libc::SYS_waitid => return Some(Does::WaitsForChild),
        libc::SYS_ppoll | libc::SYS_pselect6 | libc::SYS_epoll_pwait => {
            return Some(Does::WaitsForConnection)
        }
        number if waits.contains(&number) => return Some(Does::WaitsForConnection),
        // Their first argument is no descriptor of what they wait for.
        libc::SYS_openat | libc::SYS_newfstatat | libc::SYS_statx | libc::SYS_unlinkat => {
            return Some(Does::WaitsForFile(None))
        }
        number if OF_FILES.contains(&number) => {}
        _ => return None,
    }
    let target = std::fs::read_link(format!("/proc/{pid}/fd/{first}")).ok()?;
    let name = target.to_string_lossy();
    if name.starts_with("socket:") || name.starts_with("pipe:") {
        Some(Does::WaitsForConnection)
    } else if name.starts_with("/dev/nvidia") {
        Some(Does::InDriver)
    } else if name.starts_with("/dev/") || !target.is_absolute() {
        None
    } else {
        Some(Does::WaitsForFile(Some(name.into_owned())))
    }
}

/// Another thread of the process that runs, by its name.
fn running_thread(pid: u32, but: u32) -> Option<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let numbers = threads
        .flatten()
        .filter_map(|of| of.file_name().to_str()?.parse::<u32>().ok());
    for thread in numbers.filter(|thread| *thread != but) {
        if does(pid, thread) == Some(Does::Runs) {
            return Some(format!("{} ({thread})", processes::stat(thread)?.name));
        }
    }
    None
}

fn is_python(pid: u32) -> bool {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let name = program.file_name().unwrap_or_default();
    Path::new(name).to_string_lossy().starts_with("python")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};
    use std::time::Instant;

    fn until(mut child: Child, wanted: &Does) {
        let began = Instant::now();
        let mut found = None;
        while began.elapsed() < Duration::from_secs(20) && found.as_ref() != Some(wanted) {
            found = does(child.id(), child.id());
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert_eq!(found.as_ref(), Some(wanted));
    }

    #[test]
    fn a_thread_runs_sleeps_or_waits() {
        let start = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdin(Stdio::piped());
            command.spawn().expect("sh runs")
        };
        until(start("while :; do :; done"), &Does::Runs);
        until(start("exec sleep 60"), &Does::Sleeps);
        until(start("sleep 60; true"), &Does::WaitsForChild);
        until(start("read line"), &Does::WaitsForConnection);
    }

    #[test]
    fn a_system_call_has_a_number_and_a_first_argument() {
        assert_eq!(
            call("0 0x3 0x7ffd 0x1000 0x0 0x0 0x0 0x7ffe 0x7f1a\n"),
            Some((0, 3))
        );
        for text in ["running\n", "-1 0x7ffe 0x7f1a\n", ""] {
            assert_eq!(call(text), None, "{text}");
        }
    }

    #[test]
    fn a_running_thread_beside_one_that_waits_is_found() {
        let script = "import threading\ndef spin():\n while True: pass\n\
            busy = threading.Thread(target=spin, daemon=True)\nbusy.start()\nbusy.join()";
        let mut child = Command::new("python3");
        let mut child = child.args(["-c", script]).spawn().expect("python3 runs");
        let pid = child.id();
        let began = Instant::now();
        let mut found = None;
        while began.elapsed() < Duration::from_secs(20) && found.is_none() {
            let waits = does(pid, pid) == Some(Does::WaitsForThread);
            found = running_thread(pid, pid).filter(|_| waits);
        }
        assert!(is_python(pid));
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert!(found.is_some());
    }
}
