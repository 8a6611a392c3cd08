//! `ncclscope top` on a terminal and in a pipe, on recorded jobs and on one that runs.

use crate::running::Job;
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// No test waits longer.
const PATIENCE: Duration = Duration::from_secs(50);

fn top(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ncclscope"));
    command.arg("top").args(arguments);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data"));
    command
        .env("TERM", "xterm")
        .env("LC_ALL", "C.UTF-8")
        .env_remove("NO_COLOR");
    command
}

#[test]
fn json_keeps_to_its_schema() {
    for job in [
        "ddp_late_host",
        "killed_228",
        "slow_link",
        "decode_slow_gpu",
        "mix_232",
    ] {
        let done = top(&[job, "--once", "--json"]).output().expect("started");
        let line: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        crate::schema::keeps_to(render::top::SCHEMA, &line);
        assert_eq!(line["state"], "ended", "{job}");
    }
}

#[test]
fn the_late_rank_of_a_recorded_job_is_named() {
    let done = top(&["ddp_late_host", "--once", "--json"])
        .output()
        .expect("started");
    let line: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(line["verdict"], "late_rank", "{line}");
    let done = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .args(["report", "ddp_late_host", "--json"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data"))
        .output()
        .expect("started");
    let report: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let named = &report["findings"][0]["ranks"][0];
    assert_eq!(&line["culprits"][0]["rank"], named, "{line}");
}

/// The line of JSON on a recorded job, and the first line of its report.
fn judged(job: &str) -> (Value, String) {
    let done = top(&[job, "--once", "--json"]).output().expect("started");
    let line: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let done = Command::new(env!("CARGO_BIN_EXE_ncclscope"))
        .args(["report", job, "--json"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data"))
        .output()
        .expect("started");
    let report: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let verdict = report["verdict"].as_str().expect("a verdict").to_owned();
    (line, verdict)
}

#[test]
fn what_the_report_does_not_know_is_not_even() {
    for job in [
        "engines_232",
        "events_228",
        "flood_228",
        "phases_232",
        "symmetric_230",
        "ddp4",
    ] {
        let (line, verdict) = judged(job);
        assert_eq!(line["verdict"], "unknown", "{job}: {line}");
        assert_eq!(line["sentence"], *verdict, "{job}");
    }
    for job in ["decode_plain", "everything_228", "slow_plain", "mix_232"] {
        let (line, verdict) = judged(job);
        assert_eq!(line["verdict"], "even", "{job}: {line}");
        assert_eq!(line["sentence"], *verdict, "{job}");
    }
}

#[test]
fn the_waiting_of_a_hang_is_waiting() {
    let (line, _) = judged("killed_228");
    assert_eq!(line["verdict"], "hang", "{line}");
    let ranks = line["ranks"].as_array().expect("ranks");
    for rank in ranks {
        let share = |part: &str| {
            let parts = rank["parts"].as_array().expect("parts");
            let found = parts.iter().find(|of| of["part"] == part);
            found.and_then(|of| of["share"].as_f64()).unwrap_or(0.0)
        };
        let dead = rank["rank"] == 1;
        let most = if dead { "unknown" } else { "waiting" };
        assert!(share(most) > 0.9, "{rank}");
        let sum: f64 = ["work_or_host", "transfer", "waiting", "unknown"]
            .map(share)
            .iter()
            .sum();
        assert!((sum - 1.0).abs() < 1e-9, "{rank}");
        assert!(dead || rank["waits_for"] == 1, "{rank}");
    }
}

#[test]
fn a_folder_without_a_capture_is_said() {
    let done = top(&["no-such-folder", "--once"])
        .output()
        .expect("started");
    assert_eq!(done.status.code(), Some(2));
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(
        text.contains("no-such-folder") && text.contains("hint"),
        "{text}"
    );
}

/// Whoever watches a job may start before the job has made a communicator.
#[test]
fn json_waits_for_a_capture_that_has_no_trace_yet() {
    let folder = tempfile::tempdir().expect("made");
    let empty = folder.path().display().to_string();
    let mut run = top(&[&empty, "--json", "--every", "100ms"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("started");
    let mut out = std::io::BufReader::new(run.stdout.take().expect("piped"));
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/slow_link");
    // Long enough for some looks at nothing. If it were too short, the test would only see less.
    std::thread::sleep(Duration::from_millis(500));
    assert!(run.try_wait().expect("asked").is_none(), "it ended");
    for entry in std::fs::read_dir(recorded).expect("listed") {
        let entry = entry.expect("read");
        let to = folder.path().join(entry.file_name());
        let mut copy = Command::new("cp");
        copy.arg("-r").arg(entry.path()).arg(to);
        assert!(copy.status().expect("copied").success());
    }
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).expect("read");
    run.kill().expect("killed");
    run.wait().expect("ended");
    let line: Value = serde_json::from_str(&line).expect("JSON");
    crate::schema::keeps_to(render::top::SCHEMA, &line);
}

#[test]
fn a_running_job_is_shown_on_a_terminal_until_q() {
    let job = Job::play(
        "ranks 2\nrepeat 6000 {\n  all_reduce 1MiB\n  sleep 10ms\n}\n",
        &[("NCCLSCOPE_FLUSH", "0.2")],
    );
    let size = nix::pty::Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let terminal = nix::pty::openpty(&size, None).expect("opened");
    let slave = File::from(terminal.slave);
    let mut command = top(&[&job.capture().display().to_string(), "--every", "200ms"]);
    // The terminal draws what changes only, so both processes must be there from the first frame on.
    let folder = job.capture().display().to_string();
    let begun = Instant::now();
    loop {
        let once = top(&[&folder, "--once"]).output().expect("started");
        if String::from_utf8_lossy(&once.stdout).contains("2 processes") {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "the job records nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    command.stdin(slave.try_clone().expect("cloned"));
    command
        .stdout(slave.try_clone().expect("cloned"))
        .stderr(slave);
    let mut run = command.spawn().expect("started");
    drop(command);
    let mut master = File::from(terminal.master);
    let mut keys = master.try_clone().expect("cloned");
    let (send, seen) = std::sync::mpsc::channel::<Vec<u8>>();
    std::thread::spawn(move || {
        let mut part = [0; 4096];
        while let Ok(n @ 1..) = master.read(&mut part) {
            if send.send(part[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    let mut screen = Vec::new();
    let has = |screen: &[u8], text: &str| String::from_utf8_lossy(screen).contains(text);
    let until = |screen: &mut Vec<u8>, text: &str| {
        let begun = Instant::now();
        while !has(screen, text) {
            assert!(
                begun.elapsed() < PATIENCE,
                "no `{text}`: {}",
                String::from_utf8_lossy(screen)
            );
            if let Ok(part) = seen.recv_timeout(Duration::from_millis(200)) {
                screen.extend(part);
            }
        }
    };
    until(&mut screen, "2 processes");
    until(&mut screen, "live");
    keys.write_all(b"?").expect("typed");
    // Cells that were the same before are not drawn, and none of these was.
    until(&mut screen, "q, Esc");
    keys.write_all(b"q").expect("typed");
    // The screen of before is back.
    until(&mut screen, "\u{1b}[?1049l");
    let status = run.wait().expect("ended");
    assert!(status.success(), "{status}");
}

/// The verdict on a job of a minute of which the last part is as `last` says.
fn after(last: &str) -> Value {
    // Fewer calls than the recorder has rows: a busy machine may not write any before the end.
    let healthy = "all_reduce 4MiB time=3ms ; all_reduce 1KiB time=50us ; sleep 20ms";
    let script = format!(
        "ranks 4\nvirtual_time\nrepeat 2250 {{ {healthy} }}\nrepeat 375 {{ {last}{healthy} }}\n"
    );
    let mut job = Job::play(&script, &[("NCCLSCOPE_TIMING", "stamps")]);
    job.wait();
    let capture = job.capture().display().to_string();
    let done = top(&[&capture, "--once", "--json"]).output();
    let now = serde_json::from_slice(&done.expect("started").stdout).expect("JSON");
    crate::schema::keeps_to(render::top::SCHEMA, &now);
    now
}

#[test]
fn a_rank_that_became_late_ten_seconds_ago_is_named() {
    let now = after("rank 2 late 16ms ; ");
    assert_eq!(now["verdict"], "late_rank", "{now}");
    assert_eq!(now["culprits"][0]["rank"], 2, "{now}");
    assert!(now["recent_s"].as_f64().is_some_and(|s| s < 20.0), "{now}");
    let sentence = now["sentence"].as_str().expect("a sentence");
    assert!(sentence.starts_with("New in the last "), "{sentence}");
}

#[test]
fn nobody_is_named_in_a_job_that_goes_on_as_before() {
    let now = after("");
    // Only stamps were recorded, so the report can't tell who is late.
    assert_eq!(now["verdict"], "unknown", "{now}");
    let sentence = now["sentence"].as_str().expect("a sentence");
    assert!(
        sentence.starts_with("No rank is proved to hold this job up."),
        "{sentence}"
    );
    assert_eq!(now["culprits"], Value::Array(Vec::new()), "{now}");
    assert_eq!(now["recent_s"], Value::Null);
}
