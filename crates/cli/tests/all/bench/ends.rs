//! Runs that end before their end: ranks that hang, stop or end, full disks, and ^C.

use super::*;

/// Runs with a fault; the error.
fn failure(fault: (&str, &str), args: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let began = Instant::now();
    let args = format!("all_reduce -b 1K -n 4 -w 0 --placement out --max-skew 60s {args}");
    let (output, out, err) = done(bench(folder.path(), &args).env(fault.0, fault.1));
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(began.elapsed() < Duration::from_secs(50), "it ended late");
    err
}

#[test]
fn a_rank_inside_a_call_is_named() {
    let err = failure(("MOCK_HANG", "2:4"), "--timeout 6s");
    assert!(
        err.contains("error: AllReduce of 1024 bytes has not ended for 6 s: rank 2 (pid "),
        "{err}"
    );
    assert!(
        err.contains(
            "is inside the NCCL call of step 3, which does not return; ranks 0-1,3 wait for it"
        ),
        "{err}"
    );
}

#[test]
fn a_gpu_without_progress_blames_no_rank() {
    let err = failure(("MOCK_STALL", "2:4"), "--timeout 6s");
    assert!(
        err.contains("all ranks are in it, at step 3; the GPUs or the network make no progress"),
        "{err}"
    );
}

#[test]
fn a_rank_that_ends_is_named() {
    let err = failure(("MOCK_EXIT", "1:3"), "--timeout 60s");
    assert!(err.contains("error: rank 1 (pid "), "{err}");
    assert!(
        err.contains("ended in AllReduce of 1024 bytes (exit status: 3)"),
        "{err}"
    );
}

#[test]
fn what_was_measured_before_a_rank_ended_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    // One call to begin with, 2 timed ones and the check of the first size; the second call of the second
    // size fails.
    let args = format!("all_reduce --sizes 1K,2K -n 2 -w 0 --placement out {LENIENT}");
    let (output, out, err) = done(bench(folder.path(), &args).env("MOCK_EXIT", "1:6"));
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    let table = table(folder.path());
    let why = table["error"].as_str().expect("an error");
    assert!(err.contains(why) && why.contains("rank 1 (pid "), "{why}");
    assert_eq!(table["results"].as_array().map(Vec::len), Some(1));
    let modes = ["warmup", "single", "check"];
    let kept = calls(folder.path());
    let of = |mode: &str| kept.iter().filter(|call| call.mode == mode).count();
    // Of the second size only its first call is known to have been made.
    assert_eq!(modes.map(of), [8, 8, 4], "{kept:?}");
}

#[test]
fn a_table_that_nobody_can_have_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let full = || std::fs::File::create("/dev/full").expect("there");
    let args = format!("all_reduce -b 1K -n 1 -w 0 --gpus 2 {LENIENT}");
    let (output, _, err) = done(bench(folder.path(), &args).stdout(full()));
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("the table can't be printed"), "{err}");
    // It is in the file all the same.
    assert!(table(folder.path())["error"].is_null());
    for option in ["--json", "--parquet"] {
        let args = format!("all_reduce -b 1K -n 1 -w 0 --gpus 2 --max-skew 60s {option} /dev/full");
        let (output, _, err) = done(&mut bench(folder.path(), &args));
        assert_eq!(output.status.code(), Some(2), "{option}: {err}");
        assert!(err.contains("can't be written"), "{option}: {err}");
    }
}

#[test]
fn ctrl_c_keeps_what_was_measured() {
    use nix::sys::signal::{killpg, Signal};
    use std::os::unix::process::CommandExt;
    let folder = tempfile::tempdir().expect("a folder");
    let args = format!("all_reduce --sizes 1K,2K -n 1000000 --gpus 2 -w 0 {LENIENT}");
    let mut child = bench(folder.path(), &args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    lines.find(|line| line.as_ref().is_ok_and(|l| l.contains("(elements)")));
    // Past the call that begins a size, of which nothing tells; later is as well.
    std::thread::sleep(Duration::from_millis(500));
    // As a terminal does it: to all of them.
    killpg(
        nix::unistd::Pid::from_raw(child.id() as i32),
        Signal::SIGINT,
    )
    .expect("sent");
    let output = child.wait_with_output().expect("ended");
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert_eq!(err, "error: stopped by signal 2\n");
    assert_eq!(table(folder.path())["error"], "stopped by signal 2");
    assert!(!calls(folder.path()).is_empty());
}

#[test]
fn a_rank_that_is_stopped_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = "all_reduce -b 1K --time 600s --placement out --max-skew 60s --timeout 6s";
    let mut command = bench(folder.path(), args);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let rank_1 = lines.find_map(|line| {
        let line = line.expect("read");
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["#", "Rank", "1", "Group", _, "Pid", pid, ..] => pid.parse::<i32>().ok(),
            _ => None,
        }
    });
    // Into the calls, which begin after the head of the table: on a loaded machine some time after.
    lines.find(|line| line.as_ref().is_ok_and(|l| l.contains("(elements)")));
    std::thread::sleep(Duration::from_secs(2));
    let rank_1 = nix::unistd::Pid::from_raw(rank_1.expect("rank 1 in the table"));
    nix::sys::signal::kill(rank_1, nix::sys::signal::Signal::SIGSTOP).expect("stopped");
    let output = child.wait_with_output().expect("ended");
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(
        err.contains(&format!("rank 1 (pid {rank_1} on "))
            && err.contains("gives no sign of life since"),
        "{err}"
    );
    assert!(err.contains("; ranks 0,2-3 wait for it"), "{err}");
}

#[test]
fn ranks_of_a_launcher_end_though_their_gpus_hang() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = "all_reduce -b 1K -n 4 -w 0 --placement out --max-skew 60s --timeout 6s";
    let outputs = launched_with(folder.path(), [args; 2], &[("MOCK_STALL", "1:3")]);
    let [(first, _, err), (second, _, other)] = outputs;
    assert_eq!(first.status.code(), Some(1), "{err}");
    assert!(
        err.contains("has not ended for 6 s: all ranks are in it"),
        "{err}"
    );
    assert_eq!(second.status.code(), Some(1), "{other}");
}

#[test]
fn ctrl_c_ends_judge_its_work_and_its_files() {
    use nix::sys::signal::{kill, Signal};
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!("echo $$ >'{}/pid'; sleep 1000", folder.path().display());
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary).expect("made");
    let mut judge = Command::new(env!("CARGO_BIN_EXE_ncclscope"));
    judge.args(["judge", "--only", "--plugin", "mine=anything", "--", "sh"]);
    judge.args(["-c", &script]).env("TMPDIR", &temporary);
    let child = judge.stderr(Stdio::piped()).spawn().expect("started");
    let pid = || std::fs::read_to_string(folder.path().join("pid")).unwrap_or_default();
    let began = Instant::now();
    while pid().is_empty() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let own = nix::unistd::Pid::from_raw(child.id() as i32);
    kill(own, Signal::SIGINT).expect("sent");
    let output = child.wait_with_output().expect("ended");
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert_eq!(err, "error: stopped after 1 of 10 runs\n");
    assert_eq!(std::fs::read_dir(&temporary).expect("there").count(), 0);
    let work = nix::unistd::Pid::from_raw(pid().trim().parse().expect("a pid"));
    assert!(kill(work, None).is_err(), "the work still runs");
}
