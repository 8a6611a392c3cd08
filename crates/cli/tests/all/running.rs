//! Reports of jobs that run: read again and again while the recorders seal, fold, flush and remove files,
//! every report adds up and finds nothing unsound.

use crate::built;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tables::{Capture, LiveSource, Process};

/// A job that runs until it is dropped.
pub(crate) struct Job {
    child: Child,
    folder: tempfile::TempDir,
}

impl Job {
    /// One that makes calls as fast as it may, and goes on for a minute.
    fn start(settings: &[(&str, &str)]) -> Job {
        let calls =
            "ranks 2\nrate 4000/s\nrepeat 40000 { all_reduce 1KiB x5 ; broadcast 64B ; all_gather \
            4KiB x4 }\n";
        Job::play(calls, settings)
    }

    /// Of this script.
    pub(crate) fn play(calls: &str, settings: &[(&str, &str)]) -> Job {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("job");
        std::fs::write(&script, calls).expect("written");
        let child = Command::new(built::folder().join("fake-nccl"))
            .arg("play")
            .arg(&script)
            .env("NCCL_PROFILER_PLUGIN", built::plugin())
            .env("NCCLSCOPE_OUT", folder.path().join("capture"))
            .env("NCCLSCOPE_FLUSH", "0.05")
            .envs(settings.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("fake-nccl; `make debug` builds it");
        Job { child, folder }
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) {
        let status = self.child.wait().expect("waited for");
        assert!(status.success(), "{status}");
    }

    pub(crate) fn capture(&self) -> PathBuf {
        self.folder.path().join("capture")
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // With its ranks, which are of its process group.
            // SAFETY: a plain system call with the id of a child that was not waited for.
            unsafe { libc::kill(-(self.child.id() as i32), libc::SIGKILL) };
        }
        let _ = self.child.wait();
        for file in live_parts(&self.capture()) {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// The live parts in this host's memory that the capture's processes named.
fn live_parts(capture: &Path) -> Vec<PathBuf> {
    let capture = Capture::open(capture);
    let processes = capture.map(|capture| capture.processes).unwrap_or_default();
    let places = processes.iter().filter_map(|p| p.fact("live"));
    places
        .filter(|place| place.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

/// How many reports are made of a job; `NCCLSCOPE_REPORTS=500` for more.
fn wanted() -> u32 {
    let wanted = std::env::var("NCCLSCOPE_REPORTS").ok();
    wanted.map_or(10, |n| n.parse().expect("a number"))
}

/// Reads the capture again and again.
fn every_report_adds_up(settings: &[(&str, &str)]) {
    let job = Job::start(settings);
    let began = Instant::now();
    let (mut reports, mut calls) = (0, 0);
    while reports < wanted() && began.elapsed() < Duration::from_secs(30) {
        let Ok(capture) = Capture::open(&job.capture()) else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        // A rank that has no communicator yet is missed by the others' communicator.
        let is_up = |p: &Process| p.live == LiveSource::Here && !p.communicators.is_empty();
        if capture.processes.len() < 2 || !capture.processes.iter().all(is_up) {
            continue;
        }
        let report = analyze::report(&capture);
        let c = &report.completeness;
        let said: Vec<String> = capture.problems.iter().map(ToString::to_string).collect();
        assert_eq!(said, [""; 0], "report {reports}");
        assert!(c.adds_up, "report {reports}: {c:#?}");
        assert_eq!((c.absent.len(), c.missing_at_least), (0, 0), "{c:#?}");
        for cause in c.lost.keys() {
            let known = ["in_birth", "rotated", "rows_full", "moving"];
            assert!(known.contains(&cause.as_str()), "report {reports}: {c:#?}");
        }
        assert!(c.announced >= calls, "report {reports}: {c:#?}");
        calls = c.announced;
        reports += 1;
    }
    assert!(reports > 0 && calls > 0, "{reports} reports, {calls} calls");
    eprintln!("{reports} reports of up to {calls} calls");
}

#[test]
fn reports_of_a_running_job_add_up() {
    every_report_adds_up(&[]);
}

#[test]
fn reports_of_a_running_job_that_rotates_add_up() {
    every_report_adds_up(&[("NCCLSCOPE_MAX_SIZE", "256KiB")]);
}

#[test]
fn reports_of_a_running_job_that_folds_add_up() {
    every_report_adds_up(&[("NCCLSCOPE_MODE", "profile")]);
}

#[test]
fn reports_of_a_running_job_short_of_rows_add_up() {
    every_report_adds_up(&[("NCCLSCOPE_MEMORY", "1MiB")]);
}
