//! Which processes are recorded: those that are named, their children, or all.

use crate::job::{examples, start_within, Job};
use crate::session::{attached, during, during_with, read, without_bpf};
use attach::{Options, Targets};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Has a child of `fork` make its calls.
fn go_on(child: &str) {
    let child = child.parse().expect("a pid");
    // SAFETY: a process of this test.
    unsafe { libc::kill(child, libc::SIGUSR1) };
}

#[test]
fn a_library_that_is_loaded_later_and_a_child_join_in() {
    let mut job = Job::start();
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    let child = during_with(&mut session, &mut job, |job, probed| {
        job.tell("load");
        probed(1, 1);
        job.tell("loop 1 7");
        let child = job.tell("fork");
        probed(2, 1);
        go_on(&child);
        job.tell("loop 1 1");
        child
    });
    let summary = session.finish();
    let of = |pid: u32| {
        let seen = summary.processes.iter().find(|seen| seen.pid == pid);
        seen.map(|seen| (seen.counts.all(), seen.ended))
    };
    assert_eq!(of(job.pid()), Some((8, false)));
    assert_eq!(of(child.parse().expect("a pid")), Some((5, true)));
    assert_eq!(read(&job.capture()).processes.len(), 2);
}

#[test]
fn a_library_is_found_at_once_though_its_process_ran_for_long_without() {
    let mut job = Job::start();
    let options = Options {
        // Never without a reason.
        ask_again: Duration::from_secs(3600),
        ..job.options()
    };
    let Some(mut session) = attached(options) else {
        return;
    };
    during_with(&mut session, &mut job, |job, probed| {
        // Processes are looked at each 0.2 s.
        std::thread::sleep(Duration::from_secs(1));
        job.tell("load");
        probed(1, 1);
        job.tell("loop 1 9");
    });
    let made: u64 = session
        .finish()
        .processes
        .iter()
        .map(|p| p.counts.all())
        .sum();
    assert_eq!(made, 9);
}

#[test]
fn with_all_a_process_that_starts_later_is_seen_from_its_first_call() {
    if !attach::processes::sees_all() {
        return eprintln!("skipped: a container has process numbers of its own");
    }
    let mut first = Job::loaded();
    let options = Options {
        targets: Targets::All,
        ..first.options()
    };
    let Some(mut session) = attached(options) else {
        return;
    };
    let library = first.folder.path().join("libnccl.so.2");
    let second = during(&mut session, &mut first, |_| {
        let mut command = Command::new(examples().join("fake_job"));
        let command = command
            .arg(&library)
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let mut child = command.spawn().expect("started");
        child
            .stdin
            .take()
            .expect("piped")
            .write_all(b"load\nloop 2 50\n")
            .expect("told");
        child.wait().expect("ended");
        child.id()
    });
    let summary = session.finish();
    let seen = summary.processes.iter().find(|seen| seen.pid == second);
    // Its facts may be gone before they are read, but no call is.
    let counted = seen.map_or(0, |seen| seen.counts.all()) * 2 + summary.unseen;
    assert_eq!(counted, 200, "{summary:?}");
}

#[test]
fn without_bpf_a_process_that_is_not_asked_for_is_left_out_and_a_child_joins_in() {
    let (mut one, mut two) = (Job::loaded(), Job::loaded());
    let library = one.folder.path().join("libnccl.so.2");
    two.tell(&format!("also {}", library.display()));
    let Some(mut session) = without_bpf(one.options()) else {
        return;
    };
    let child = during_with(&mut session, &mut one, |one, probed| {
        two.tell("loop 2 500");
        one.tell("loop 1 20");
        let child = one.tell("fork");
        probed(2, 1);
        go_on(&child);
        // It waits for the child first.
        one.tell("loop 1 1");
        child
    });
    let summary = session.finish();
    let mut made: Vec<_> = summary
        .processes
        .iter()
        .map(|p| (p.pid, p.counts.all()))
        .collect();
    made.sort_unstable();
    let mut expected = [(one.pid(), 21), (child.parse().expect("a pid"), 5)];
    expected.sort_unstable();
    assert_eq!(made, expected);
    assert_eq!(read(&one.capture()).processes.len(), 2);
}

#[test]
fn a_process_that_makes_no_call_leaves_no_folder() {
    let job = Job::loaded();
    let Some(session) = attached(job.options()) else {
        return;
    };
    drop(session.finish());
    assert!(!job.capture().exists());
}

#[test]
fn a_program_that_takes_the_place_of_another_is_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = folder.path().join("libnccl.so.2");
    std::fs::copy(examples().join("libfake_nccl.so"), &library).expect("copied");
    let mut shell = Command::new("sh");
    let program = examples().join("fake_job");
    let words = format!(
        "read x; echo $$; exec {} {}",
        program.display(),
        library.display()
    );
    let mut job = start_within(shell.args(["-c", &words]), "");
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    during_with(&mut session, &mut job, |job, probed| {
        job.tell("go");
        job.tell("load");
        probed(1, 1);
        job.tell("loop 1 30");
    });
    let summary = session.finish();
    let seen = &summary.processes[0];
    assert_eq!(
        (seen.pid, seen.counts.all(), seen.ended),
        (job.pid(), 30, false)
    );
}

#[test]
fn a_process_that_makes_no_call_is_no_part_of_the_capture() {
    let agent = Job::loaded();
    let mut rank = Job::loaded();
    let options = Options {
        targets: Targets::Trees(vec![agent.pid(), rank.pid()]),
        ..rank.options()
    };
    let Some(mut session) = attached(options) else {
        return;
    };
    during(&mut session, &mut rank, |rank| rank.tell("loop 1 3"));
    let summary = session.finish();
    assert_eq!(summary.processes.len(), 2);
    let traces = summary.processes.iter().filter(|seen| seen.trace.is_some());
    assert_eq!(
        traces.map(|seen| seen.pid).collect::<Vec<_>>(),
        [rank.pid()]
    );
    assert_eq!(read(&rank.capture()).processes.len(), 1);
}
