//! What others take away while the job runs: descriptors, the capture folder, the live part's file, the
//! working folder. The job goes on, and what is left says what it has.

use crate::job::{flushed, out, snapshot_file, Driver, Job};
use std::ffi::CString;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tables::LiveSource;

/// A flush or two.
fn rest() {
    std::thread::sleep(Duration::from_millis(200));
}

#[test]
#[ignore = "played by the test below"]
fn job_without_descriptors() {
    let mut comm = Driver::new(0x21);
    comm.all_reduce(1);
    snapshot_file();
    let limit = |most| {
        let limit = libc::rlimit {
            rlim_cur: most,
            rlim_max: 1024,
        };
        // SAFETY: a valid limit.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    };
    // The files that are open stay open, and no other can be.
    limit(0);
    for i in 0..20_000 {
        comm.all_reduce(1 + i % 7);
        if i % 2000 == 0 {
            rest();
        }
    }
    limit(1024);
    for i in 0..3000 {
        comm.all_reduce(1 + i % 7);
    }
    rest();
    comm.finalize();
}

#[test]
fn without_descriptors_for_later_files_every_call_is_counted() {
    let mut job = Job::new(module_path!(), "job_without_descriptors")
        .env("NCCLSCOPE_FLUSH", "0.05")
        .env("NCCLSCOPE_MAX_SIZE", "64KiB");
    let (status, said) = job.run_saying();
    assert!(status.success(), "{status}: {said}");
    let capture = job.capture();
    assert_eq!(capture.problems, []);
    let c = analyze::report(&capture).completeness;
    let lost: u64 = c.lost.values().sum();
    assert_eq!(
        (c.announced, c.recorded + lost, c.adds_up),
        (23_001, 23_001, true),
        "{c:#?}, {said}"
    );
    let causes = ["rotated", "write_failed"];
    assert!(c.lost.keys().eq(causes), "{c:#?}");
}

#[test]
#[ignore = "played by the test below"]
fn job_without_standard_streams() {
    // As a daemon does. Whatever the process opens next has these numbers.
    // SAFETY: nothing of this process is behind them that it needs.
    (0..3).for_each(|fd| unsafe { assert_eq!(libc::close(fd), 0) });
    let mut comm = Driver::new(0x23);
    (0..500).for_each(|i| comm.all_reduce(1 + i % 7));
    snapshot_file();
    for fd in 0..3 {
        let text = b"what a program says that does not know of it".repeat(100);
        // SAFETY: the bytes are there.
        let written = unsafe { libc::write(fd, text.as_ptr().cast(), text.len()) };
        assert_eq!(written, -1, "descriptor {fd} is somebody's");
    }
    (0..500).for_each(|i| comm.all_reduce(1 + i % 7));
    comm.finalize();
}

#[test]
fn a_program_without_standard_streams_does_not_write_into_the_capture() {
    let mut job =
        Job::new(module_path!(), "job_without_standard_streams").env("NCCLSCOPE_FLUSH", "0.05");
    assert!(job.run().success());
    let capture = job.capture();
    assert_eq!(capture.problems, []);
    let c = analyze::report(&capture).completeness;
    assert_eq!((c.announced, c.recorded), (1000, 1000), "{c:#?}");
}

#[test]
#[ignore = "played by the test below"]
fn job_that_closes_what_it_does_not_know() {
    let mut comm = Driver::new(0x25);
    (0..100).for_each(|i| comm.all_reduce(1 + i % 7));
    flushed();
    // As os.closerange and daemons do. What the program opens next gets the numbers of our files.
    // SAFETY: nothing of this test is behind them that it needs.
    (3..1024).for_each(|fd| unsafe {
        libc::close(fd);
    });
    let precious = b"PRECIOUS".repeat(40_000);
    let folder = out().with_extension("program");
    std::fs::create_dir(&folder).expect("made");
    let files: Vec<_> = (0..12)
        .map(|i| {
            let path = folder.join(format!("checkpoint{i}"));
            std::fs::write(&path, &precious).expect("written");
            let file = OpenOptions::new().read(true).write(true).open(&path);
            (file.expect("opened"), path)
        })
        .collect();
    for _ in 0..6 {
        (0..200).for_each(|i| comm.all_reduce(1 + i % 7));
        rest();
    }
    comm.finalize();
    for (file, path) in files {
        assert!(
            std::fs::read(&path).expect("read") == precious,
            "{} is damaged",
            path.display()
        );
        // SAFETY: only asks.
        let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) };
        assert!(flags >= 0, "{} was closed", path.display());
    }
    std::fs::remove_dir_all(folder).expect("removed");
}

#[test]
fn a_program_that_closes_all_descriptors_keeps_its_files_and_we_keep_ours() {
    for mode in ["trace", "profile"] {
        let mut job = Job::new(module_path!(), "job_that_closes_what_it_does_not_know")
            .env("NCCLSCOPE_MODE", mode)
            .env("NCCLSCOPE_FLUSH", "0.05");
        let (status, said) = job.run_saying();
        assert!(status.success(), "{mode}: {status}: {said}");
        let capture = job.capture();
        assert_eq!(capture.problems, [], "{mode}");
        let c = analyze::report(&capture).completeness;
        assert_eq!((c.announced, c.recorded), (1300, 1300), "{mode}: {c:#?}");
        assert!(c.adds_up && c.lost.is_empty(), "{mode}: {c:#?}");
    }
}

#[test]
#[ignore = "played by the tests below"]
fn job_of_which_something_is_removed() {
    let mut comm = Driver::new(0x22);
    (0..500).for_each(|i| comm.all_reduce(1 + i % 7));
    flushed();
    let out = out();
    match std::env::var("REMOVED").expect("set").as_str() {
        "folder" => std::fs::remove_dir_all(&out).expect("removed"),
        "live part" => {
            let maps = std::fs::read_to_string("/proc/self/maps").expect("read");
            let live = maps.lines().find(|l| l.ends_with(".live")).expect("mapped");
            let path = &live[live.find('/').expect("a path")..];
            std::fs::remove_file(path).expect("removed");
        }
        _ => {
            let here = out.with_extension("here");
            std::fs::create_dir(&here).expect("made");
            std::env::set_current_dir(&here).expect("entered");
            std::fs::remove_dir(&here).expect("removed");
        }
    }
    (0..500).for_each(|i| comm.all_reduce(1 + i % 7));
    rest();
    (0..500).for_each(|i| comm.all_reduce(1 + i % 7));
    comm.finalize();
}

#[test]
fn a_live_part_or_working_folder_that_is_removed_costs_nothing() {
    for removed in ["live part", "working folder"] {
        let mut job = Job::new(module_path!(), "job_of_which_something_is_removed")
            .env("REMOVED", removed)
            .env("NCCLSCOPE_FLUSH", "0.05");
        let (status, said) = job.run_saying();
        assert!(status.success(), "{removed}: {status}: {said}");
        let capture = job.capture();
        assert_eq!(capture.problems, [], "{removed}");
        assert_eq!(capture.processes[0].live, LiveSource::Snapshot);
        let c = analyze::report(&capture).completeness;
        assert_eq!((c.announced, c.recorded), (1500, 1500), "{removed}: {c:#?}");
    }
}

#[test]
fn a_capture_folder_that_is_removed_ends_no_job() {
    let mut job = Job::new(module_path!(), "job_of_which_something_is_removed")
        .env("REMOVED", "folder")
        .env("NCCLSCOPE_FLUSH", "0.05");
    let (status, said) = job.run_saying();
    assert!(status.success(), "{status}: {said}");
}

#[test]
#[ignore = "played by the test below"]
fn job_that_is_killed() {
    let mut comm = Driver::new(0x23);
    comm.all_reduce(1);
    snapshot_file();
    // SAFETY: ends this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

#[test]
#[ignore = "played by the test below"]
fn job_after_others() {
    let mut comm = Driver::new(0x24);
    comm.all_reduce(1);
    flushed();
    comm.finalize();
}

#[test]
fn the_next_recorder_removes_what_no_capture_needs() {
    use std::os::unix::fs::FileExt;
    let killed = || {
        let mut job = Job::new(module_path!(), "job_that_is_killed");
        assert!(!job.run().success());
        let live = job.capture().processes[0].fact("live").map(PathBuf::from);
        (job, live.expect("told"))
    };
    let (_kept, needed) = killed();
    let (removed, unneeded) = killed();
    std::fs::remove_dir_all(&removed.folder).expect("removed");
    // Long ago.
    let file = OpenOptions::new().write(true).open(&unneeded);
    let at = std::mem::offset_of!(capture::live::Header, last) + 16;
    file.expect("there")
        .write_all_at(&[0; 8], at as u64)
        .expect("written");
    // Each looks at some of what is there only, and there may be more of other jobs.
    let runs = (0..100).take_while(|_| unneeded.exists());
    runs.for_each(|_| {
        let mut job = Job::new(module_path!(), "job_after_others").env("NCCLSCOPE_FLUSH", "0.05");
        assert!(job.run().success());
    });
    assert!(!unneeded.exists(), "{}", unneeded.display());
    assert!(needed.exists(), "{}", needed.display());
}

/// A file of the program's.
fn own_file(folder: &Path) -> PathBuf {
    folder.with_extension("own")
}

#[test]
#[ignore = "played by the test below"]
fn job_with_a_file_in_place_of_its_standard_error() {
    if std::env::var_os("TAKES_2").is_some() {
        let path = own_file(&out());
        let path = CString::new(path.as_os_str().as_bytes()).expect("a path");
        // SAFETY: the lowest number that is free is that of the standard error.
        unsafe {
            libc::close(2);
            let flags = libc::O_WRONLY | libc::O_CREAT;
            assert_eq!(libc::open(path.as_ptr(), flags, 0o600), 2);
        }
    }
    let mut comm = Driver::new(0x2f);
    comm.all_reduce(1);
    comm.finalize();
}

#[test]
fn a_file_that_the_program_opened_in_place_of_its_standard_error_gets_no_message() {
    // A setting that can't be used is said.
    let job = || {
        let name = "job_with_a_file_in_place_of_its_standard_error";
        Job::new(module_path!(), name).env("NCCLSCOPE_FLUSH", "nonsense")
    };
    let (status, said) = job().run_saying();
    assert!(
        status.success() && said.contains("NCCLSCOPE_FLUSH"),
        "{said}"
    );
    let mut job = job().env("TAKES_2", "1");
    let (status, said) = job.run_saying();
    assert!(status.success(), "{status}: {said}");
    let own = own_file(&job.folder);
    let got = std::fs::read_to_string(&own).expect("the job made it");
    let _ = std::fs::remove_file(own);
    assert_eq!((got.as_str(), said.as_str()), ("", ""));
    assert_eq!(job.capture().problems, []);
}
