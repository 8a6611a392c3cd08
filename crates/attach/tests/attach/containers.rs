//! Jobs in containers, seen from the machine and from inside.

use crate::job::{contained, Job};
use crate::session::{attached, during, read};
use attach::{Options, Session, Targets};
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn a_job_in_a_container_is_recorded_from_the_machine() {
    let Some(mut job) = contained() else { return };
    job.tell("load");
    let options = Options {
        sched: true,
        net: true,
        ..job.options()
    };
    let capture = tempfile::tempdir().expect("a folder");
    let options = Options {
        folder: capture.path().to_owned(),
        ..options
    };
    let Some(mut session) = attached(options) else {
        return;
    };
    let path = job.folder.path().join("libnccl.so.2");
    assert!(!path.exists(), "only the job sees its library");
    during(&mut session, &mut job, |job| {
        job.tell("loop 2 1000");
        let port = job.tell("pid");
        assert_eq!(port, "1");
    });
    let summary = session.finish();
    // The shell that starts the program may have been seen before the program took its place.
    let made = summary.processes.iter().map(|p| p.counts.all());
    let made: Vec<u64> = made.filter(|calls| *calls > 0).collect();
    assert_eq!(made, [2000]);
    assert_eq!(summary.libraries[0].path, path.to_str().expect("text"));
    let capture = read(capture.path());
    assert_eq!((capture.processes[0].pid, capture.processes.len()), (1, 1));
}

/// Not a test: [`attach_works_inside_a_container_of_its_own`] runs it in a process name space, with a way to
/// set probes.
#[test]
fn session_in_a_container() {
    let Ok(folder) = std::env::var("ATTACH_INSIDE") else {
        return;
    };
    assert!(!attach::processes::sees_all());
    let without_bpf = std::env::var_os("ATTACH_WITHOUT_BPF").is_some();
    let mut job = Job::loaded();
    let options = Options {
        ring_bytes: 64 << 10,
        sched: !without_bpf,
        net: true,
        way: without_bpf.then_some(attach::Way::Samples),
        ..Options::new(Targets::All, folder.into())
    };
    let mut session = match Session::start(options) {
        Ok(session) => session,
        Err(refusal) => return println!("\nskipped: {refusal}"),
    };
    let tenth = Duration::from_millis(100);
    session.run({
        let until = Instant::now() + tenth;
        move |_| Instant::now() > until
    });
    // Nobody takes events meanwhile: losses must find their process, too.
    job.tell("loop 1 5000");
    let summary = session.finish();
    let seen = &summary.processes[0];
    assert_eq!(seen.pid, job.pid());
    assert!(seen.losses.entries > 0);
    assert_eq!(seen.counts.all() + seen.losses.entries, 5000);
    println!("\nrecorded inside");
}

#[test]
fn attach_works_inside_a_container_of_its_own() {
    inside_a_container(false);
}

#[test]
fn without_bpf_attach_works_inside_a_container_of_its_own() {
    inside_a_container(true);
}

fn inside_a_container(without_bpf: bool) {
    if contained().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut unshare = Command::new("unshare");
    if without_bpf {
        unshare.env("ATTACH_WITHOUT_BPF", "1");
    }
    let output = unshare
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(std::env::current_exe().expect("a path"))
        .args([
            "--exact",
            "containers::session_in_a_container",
            "--nocapture",
        ])
        .env("ATTACH_INSIDE", folder.path())
        .output()
        .expect("ran");
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(line) = text.lines().find(|line| line.starts_with("skipped")) {
        return eprintln!("{line}");
    }
    assert!(text.contains("recorded inside"), "{text}");
    assert_eq!(read(folder.path()).processes.len(), 1);
}
