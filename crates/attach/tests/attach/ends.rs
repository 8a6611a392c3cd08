//! Whatever ends first, nothing is left behind, and the capture is whole.

use crate::job::Job;
use crate::session::{address, attached, during, memory, read, wait_for};
use attach::{Options, Targets};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tables::{ReadProgress, Source};

#[test]
fn nothing_is_left_in_the_job_s_memory() {
    let mut job = Job::loaded();
    let library = job.folder.path().join("libnccl.so.2");
    let at = address(job.pid(), &library);
    let before = memory(job.pid(), at);
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    during(&mut session, &mut job, |job| job.tell("loop 1 10"));
    assert_ne!(memory(job.pid(), at), before, "a probe is there");
    drop(session.finish());
    wait_for(|| memory(job.pid(), at) == before);
    assert_eq!(
        job.tell("loop 1 10").split(' ').count(),
        1,
        "the job goes on"
    );
}

#[test]
fn a_job_that_dies_in_the_middle_of_its_calls_ends_the_session() {
    for way in [None, Some(attach::Way::Samples)] {
        let mut job = Job::loaded();
        let options = Options {
            way,
            ..job.options()
        };
        let Some(mut session) = attached(options) else {
            return;
        };
        job.send("loop 2 100000000");
        let (pid, begin) = (job.pid(), Instant::now());
        session.run(|_| {
            if begin.elapsed() > Duration::from_millis(300) {
                // SAFETY: a process of this test.
                unsafe { libc::kill(pid as i32, libc::SIGKILL) };
                let _ = job.child.try_wait();
            }
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "it goes on for ever"
            );
            false
        });
        let summary = session.finish();
        let seen = &summary.processes[0];
        assert!(
            seen.ended && seen.counts.all() > 0 && seen.open <= 2,
            "{seen:?}"
        );
        let capture = read(&job.capture());
        let process = &capture.processes[0];
        assert!(process.ended);
        assert_eq!(process.calls.len() as u64, seen.counts.all());
    }
}

/// Not a test: [`a_session_that_is_killed_leaves_no_probe_and_a_whole_capture`] runs it in a process of its
/// own, and kills that.
#[test]
fn killed_session() {
    let Ok(pid) = std::env::var("ATTACH_TO") else {
        return;
    };
    let folder = std::env::var("ATTACH_FOLDER").expect("a folder");
    let targets = Targets::Trees(vec![pid.parse().expect("a pid")]);
    let without_bpf = std::env::var_os("ATTACH_WITHOUT_BPF").is_some();
    let options = Options {
        ring_bytes: 1 << 20,
        sched: !without_bpf,
        net: true,
        init: true,
        way: without_bpf.then_some(attach::Way::Samples),
        ..Options::new(targets, folder.into())
    };
    let Some(mut session) = attached(options) else {
        return;
    };
    println!("\nattached");
    session.run(|_| false);
}

#[test]
fn a_session_that_is_killed_leaves_no_probe_and_a_whole_capture() {
    killed(false);
}

#[test]
fn a_session_without_bpf_that_is_killed_leaves_no_name_either() {
    killed(true);
    let Some(probes) = Tracefs::mount() else {
        return eprintln!("skipped: no tracefs");
    };
    // Others of these tests have names of their own, by the number of their process.
    let ours = |line: &&str| line.contains("ncclscope_");
    let alive = |line: &&str| {
        let pid = line
            .split("ncclscope_")
            .nth(1)
            .and_then(|rest| rest.split('_').next());
        pid.is_some_and(|pid| Path::new("/proc").join(pid).exists())
    };
    wait_for(|| {
        let all = std::fs::read_to_string(probes.0.path().join("uprobe_events")).expect("read");
        all.lines().filter(ours).all(|line| alive(&line))
    });
}

/// The kernel's tracefs, mounted for a test.
struct Tracefs(tempfile::TempDir);

impl Tracefs {
    fn mount() -> Option<Tracefs> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", "tracefs", "none"]).arg(folder.path());
        let status = mount.stderr(Stdio::null()).status().ok()?;
        status.success().then_some(Tracefs(folder))
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Calls of the first process in a capture that may not be there yet.
fn calls_of_first(folder: &Path) -> usize {
    let source = Source::open(folder, &ReadProgress::default()).ok();
    let capture = source.map(|source| source.load(&ReadProgress::default()));
    capture.map_or(0, |capture| {
        capture.processes.first().map_or(0, |p| p.calls.len())
    })
}

fn killed(without_bpf: bool) {
    let mut job = Job::loaded();
    let at = address(job.pid(), &job.folder.path().join("libnccl.so.2"));
    let before = memory(job.pid(), at);
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args(["--exact", "ends::killed_session", "--nocapture"]);
    command
        .env("ATTACH_TO", job.pid().to_string())
        .env("ATTACH_FOLDER", job.capture());
    if without_bpf {
        command.env("ATTACH_WITHOUT_BPF", "1");
    }
    let mut session = command.stdout(Stdio::piped()).spawn().expect("started");
    let lines = BufReader::new(session.stdout.take().expect("piped")).lines();
    let mut lines = lines.map_while(Result::ok);
    if !lines.any(|line| line == "attached") {
        session.wait().expect("ended");
        return eprintln!("skipped: no probes here, see ends::killed_session");
    }
    job.tell("loop 1 100");
    job.tell("hang");
    assert_ne!(memory(job.pid(), at), before, "a probe is there");
    wait_for(|| calls_of_first(&job.capture()) == 101);
    session.kill().expect("killed");
    session.wait().expect("ended");
    // The kernel takes links away a moment after the process.
    wait_for(|| memory(job.pid(), at) == before);
    let capture = read(&job.capture());
    let process = &capture.processes[0];
    let open = process
        .calls
        .iter()
        .filter(|call| call.return_ns == 0)
        .count();
    assert_eq!((process.calls.len(), open), (101, 1));
}

#[test]
fn a_full_disk_ends_neither_the_session_nor_the_job() {
    // Room for nothing, and for a live part but not for the trace file of so many calls.
    for (size, any) in [("100k", false), ("6m", true)] {
        let disk = tempfile::tempdir().expect("a folder");
        let size = format!("size={size}");
        let mut mount = Command::new("mount");
        let mount = mount
            .args(["-t", "tmpfs", "-o", &size, "none"])
            .arg(disk.path());
        if !mount.status().is_ok_and(|status| status.success()) {
            return eprintln!("skipped: this user may mount nothing");
        }
        let filler = disk.path().join("filler");
        let mut job = Job::loaded();
        let options = Options {
            folder: disk.path().to_owned(),
            ..job.options()
        };
        let session = attached(options);
        if let Some(mut session) = session {
            during(&mut session, &mut job, |job| {
                job.tell("loop 1 10");
                if any {
                    wait_for(|| calls_of_first(disk.path()) == 10);
                }
                let _ = std::fs::write(&filler, vec![0; 8 << 20]);
                job.tell("loop 1 40000")
            });
            let summary = session.finish();
            assert!(summary.write_error.is_some());
            let seen = &summary.processes[0];
            assert_eq!((seen.counts.all() > 0, seen.trace.is_some()), (any, any));
            if any {
                let capture = read(disk.path());
                let process = &capture.processes[0];
                let counters = process.counters.as_ref().expect("a live part");
                assert_eq!(counters.announced, 40_010);
                let lost = counters.lost.last().copied().expect("a count");
                assert_eq!(process.calls.len() as u64 + lost, 40_010);
                assert!(process.calls.len() >= 16_000);
            }
        }
        let _ = Command::new("umount").arg(disk.path()).status();
        assert_eq!(
            job.tell("loop 1 10").split(' ').count(),
            1,
            "the job goes on"
        );
    }
}
