//! What a host may lack: space, files, threads, memory, a clock that runs forward. The job goes on, and what
//! could not be recorded is counted and said.
//!
//! Each test plays an ignored one of its own name in a child process, as in `job`. Some lacks can't be had
//! for real without privileges. For these, this program replaces a function of the C library, because the
//! recorder is linked in and calls it like any other ([`shim`]).
//!
//! Rule: the jobs assert nothing of what was recorded; the parent reads the capture that they left.

#[path = "all/job/mod.rs"]
mod job;

use job::{flushed, mounts_are_permitted, until, Driver, Job};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use tables::LiveSource;

/// Functions of the C library as the recorder meets them in this program. Each does what it always does
/// unless told otherwise.
mod shim {
    use super::*;
    use std::ffi::{c_char, c_int, c_void};
    use std::sync::atomic::{AtomicI32, AtomicI64, AtomicPtr, AtomicU64};

    /// The error of every write to a file at a position; 0 none.
    pub static WRITE_ERRNO: AtomicI32 = AtomicI32::new(0);
    /// Writes that ended with it.
    pub static WRITES_FAILED: AtomicU64 = AtomicU64::new(0);
    /// How long such a write takes, ms.
    pub static WRITE_MS: AtomicU64 = AtomicU64::new(0);
    /// Bytes that one write takes at most; 0 any.
    pub static SHORT_WRITES: AtomicU64 = AtomicU64::new(0);
    /// No thread can be made.
    pub static NO_THREADS: AtomicI32 = AtomicI32::new(0);
    /// Added to CLOCK_REALTIME, s.
    pub static CLOCK_STEP: AtomicI64 = AtomicI64::new(0);
    /// The host's name, where it is not this one's.
    pub static HOST: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());
    /// This process's id, where it is not its own.
    pub static PID: AtomicI32 = AtomicI32::new(0);
    /// What statfs says a folder is on; 0 the truth.
    pub static FILE_SYSTEM: AtomicI64 = AtomicI64::new(0);
    /// What statvfs says is free; negative the truth.
    pub static FREE: AtomicI64 = AtomicI64::new(-1);

    /// Sets errno.
    fn fail(errno: c_int) {
        // SAFETY: errno of this thread.
        unsafe { *libc::__errno_location() = errno };
    }

    #[no_mangle]
    unsafe extern "C" fn pwrite64(fd: c_int, from: *const c_void, n: usize, at: i64) -> isize {
        std::thread::sleep(Duration::from_millis(WRITE_MS.load(Relaxed)));
        let errno = WRITE_ERRNO.load(Relaxed);
        if errno != 0 {
            WRITES_FAILED.fetch_add(1, Relaxed);
            fail(errno);
            return -1;
        }
        let n = match SHORT_WRITES.load(Relaxed) as usize {
            0 => n,
            most => n.min(most),
        };
        // SAFETY: as the caller's.
        unsafe { libc::syscall(libc::SYS_pwrite64, fd, from, n, at) as isize }
    }

    #[no_mangle]
    unsafe extern "C" fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        entry: *mut c_void,
        argument: *mut c_void,
    ) -> c_int {
        if NO_THREADS.load(Relaxed) != 0 {
            return libc::EAGAIN;
        }
        type Real = unsafe extern "C" fn(
            *mut libc::pthread_t,
            *const libc::pthread_attr_t,
            *mut c_void,
            *mut c_void,
        ) -> c_int;
        // SAFETY: the C library has it, with this signature, and so has a sanitizer that must know of each
        // thread and that this function stands in front of (`scripts/sanitize.sh`).
        unsafe {
            let mut real =
                libc::dlsym(libc::RTLD_DEFAULT, c"__interceptor_pthread_create".as_ptr());
            if real.is_null() {
                real = libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr());
            }
            assert!(!real.is_null());
            std::mem::transmute::<*mut c_void, Real>(real)(thread, attributes, entry, argument)
        }
    }

    #[no_mangle]
    unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
        // SAFETY: as the caller's.
        let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) } as c_int;
        if clock == libc::CLOCK_REALTIME && result == 0 {
            // SAFETY: as the caller's.
            unsafe { (*time).tv_sec += CLOCK_STEP.load(Relaxed) };
        }
        result
    }

    #[no_mangle]
    unsafe extern "C" fn gethostname(name: *mut c_char, len: usize) -> c_int {
        let host = HOST.load(Relaxed);
        // SAFETY: the buffer is as long as said; `host` is NUL-terminated; uname fills in its struct.
        unsafe {
            if !host.is_null() {
                libc::strncpy(name, host, len);
                return 0;
            }
            let mut names: libc::utsname = std::mem::zeroed();
            libc::uname(&mut names);
            libc::strncpy(name, names.nodename.as_ptr(), len);
        }
        0
    }

    #[no_mangle]
    extern "C" fn getpid() -> libc::pid_t {
        match PID.load(Relaxed) {
            // SAFETY: a plain system call.
            0 => unsafe { libc::syscall(libc::SYS_getpid) as libc::pid_t },
            pid => pid,
        }
    }

    #[no_mangle]
    unsafe extern "C" fn statfs(path: *const c_char, found: *mut libc::statfs) -> c_int {
        // SAFETY: as the caller's.
        let result = unsafe { libc::syscall(libc::SYS_statfs, path, found) } as c_int;
        let kind = FILE_SYSTEM.load(Relaxed);
        if result == 0 && kind != 0 {
            // SAFETY: as the caller's.
            unsafe { (*found).f_type = kind as _ };
        }
        result
    }

    #[no_mangle]
    unsafe extern "C" fn statvfs(path: *const c_char, found: *mut libc::statvfs) -> c_int {
        // SAFETY: as the caller's; every bit pattern is valid for both structs.
        unsafe {
            let mut plain: libc::statfs = std::mem::zeroed();
            let result = libc::syscall(libc::SYS_statfs, path, &mut plain) as c_int;
            *found = std::mem::zeroed();
            (*found).f_frsize = plain.f_bsize as _;
            (*found).f_bavail = plain.f_bavail;
            if let Ok(free) = u64::try_from(FREE.load(Relaxed)) {
                ((*found).f_frsize, (*found).f_bavail) = (1, free);
            }
            result
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn number(name: &str) -> i64 {
    variable(name).and_then(|v| v.parse().ok()).unwrap_or(0)
}

/// What the job of a test that has no steps of its own does: `CALLS` calls, under the lacks that the
/// variables ask for.
#[test]
#[ignore = "played by the tests below"]
fn job_in_need() {
    shim::NO_THREADS.store(number("NO_THREADS") as i32, Relaxed);
    shim::WRITE_ERRNO.store(number("WRITE_ERRNO") as i32, Relaxed);
    shim::SHORT_WRITES.store(number("SHORT_WRITES") as u64, Relaxed);
    shim::PID.store(number("PID") as i32, Relaxed);
    shim::FREE.store(variable("FREE").map_or(-1, |_| number("FREE")), Relaxed);
    if let Some(host) = variable("HOST") {
        let host = std::ffi::CString::new(host).expect("no NUL");
        shim::HOST.store(host.into_raw(), Relaxed);
    }
    if let Some(more) = variable("MORE_MEMORY") {
        let more: u64 = more.parse().expect("a number");
        let pages = std::fs::read_to_string("/proc/self/statm").expect("read");
        let pages: u64 = pages
            .split(' ')
            .next()
            .and_then(|n| n.parse().ok())
            .expect("a number");
        let limit = libc::rlimit {
            rlim_cur: pages * 4096 + more,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: a valid limit.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    }
    let mut comm = Driver::new(0x11);
    for i in 0..number("CALLS").max(10) {
        comm.all_reduce(1 + i as usize % 7);
    }
    // A flush or two, with the lack still there.
    std::thread::sleep(Duration::from_millis(150));
    if number("MENDED") != 0 {
        until(|| shim::WRITES_FAILED.load(Relaxed) > 0);
        shim::WRITE_ERRNO.store(0, Relaxed);
        (0..10).for_each(|_| comm.all_reduce(9));
        std::thread::sleep(Duration::from_millis(150));
    }
    comm.finalize();
    // SAFETY: the end of a process that may have no memory left for the test harness.
    unsafe { libc::_exit(0) };
}

fn in_need(env: &[(&str, &str)]) -> Job {
    let job = Job::new(module_path!(), "job_in_need").env("NCCLSCOPE_FLUSH", "0.05");
    env.iter()
        .fold(job, |job, (name, value)| job.env(name, value))
}

/// Every call is a row or was counted by a cause that is among `causes`.
#[track_caller]
fn accounted(job: &Job, announced: u64, causes: &[&str]) {
    let capture = job.capture();
    let c = analyze::report(&capture).completeness;
    let lost: u64 = c.lost.values().sum();
    assert_eq!(
        (c.announced, c.recorded + lost),
        (announced, announced),
        "{c:#?}"
    );
    assert!(
        c.adds_up && c.lost.keys().all(|k| causes.contains(&k.as_str())),
        "{c:#?}"
    );
}

#[test]
fn writes_that_fail_are_said_once_and_calls_go_to_the_totals() {
    for errno in [libc::ENOSPC, libc::EDQUOT, libc::EIO, libc::ESTALE] {
        // From the start: not even the trace file's header could be written; it is made when there is room.
        let mut job = in_need(&[("WRITE_ERRNO", &errno.to_string()), ("MENDED", "1")]);
        let (status, said) = job.run_saying();
        assert!(status.success(), "{status}");
        let complaints = said.lines().filter(|l| l.contains("cannot write")).count();
        assert_eq!(complaints, 1, "{said}");
        accounted(&job, 20, &["write_failed"]);
        let capture = job.capture();
        assert_eq!(
            capture.processes[0].sealed, 20,
            "{errno}: nothing was written later"
        );
    }
    // A disk that stays full: the live part has it all, and says where it is.
    let mut job = in_need(&[("WRITE_ERRNO", &libc::ENOSPC.to_string())]);
    let (status, said) = job.run_saying();
    assert!(status.success() && said.contains("No space left"), "{said}");
}

#[test]
fn writes_that_take_a_part_only_are_completed() {
    let mut job = in_need(&[("SHORT_WRITES", "100"), ("CALLS", "3000")]);
    assert!(job.run().success());
    accounted(&job, 3000, &[]);
}

#[test]
fn a_disk_that_fails_at_the_end_leaves_the_live_part_where_it_is() {
    for (errno, ms) in [(libc::ENOSPC, 0), (0, 2500)] {
        let mut job = Job::new(module_path!(), "job_whose_disk_fails_at_the_end")
            .env("NCCLSCOPE_FLUSH", "0.05")
            .env("WRITE_ERRNO", &errno.to_string())
            .env("WRITE_MS", &ms.to_string());
        assert!(job.run().success());
        assert_eq!(job.capture().processes[0].live, LiveSource::Here);
        accounted(&job, 200, &[]);
    }
}

#[test]
#[ignore = "played by the test above"]
fn job_whose_disk_fails_at_the_end() {
    let mut comm = Driver::new(0x19);
    (0..100).for_each(|i| comm.all_reduce(1 + i % 7));
    flushed();
    shim::WRITE_ERRNO.store(number("WRITE_ERRNO") as i32, Relaxed);
    shim::WRITE_MS.store(number("WRITE_MS") as u64, Relaxed);
    (0..100).for_each(|i| comm.all_reduce(1 + i % 7));
    // SAFETY: the end of a job that destroys nothing.
    unsafe { libc::exit(0) };
}

#[test]
fn without_a_thread_the_live_part_keeps_the_calls_and_a_line_says_so() {
    let mut job = in_need(&[("NO_THREADS", "1")]);
    let (status, said) = job.run_saying();
    assert!(status.success(), "{status}: {said}");
    assert!(said.contains("no thread for writing"), "{said}");
    let capture = job.capture();
    assert_eq!(capture.processes[0].live, LiveSource::Here);
    accounted(&job, 10, &[]);
    // More than it has room for: counted, not lost.
    let job = in_need(&[("NO_THREADS", "1"), ("CALLS", "20000")]);
    assert!(job.quietly().run().success());
}

#[test]
fn a_process_near_its_memory_limit_is_never_ended_by_the_recorder() {
    let mut without = 0;
    for kib in [
        0, 64, 256, 600, 1000, 2000, 3000, 4000, 4300, 4600, 5000, 5500, 6000, 7000, 9000, 12_000,
        16_000, 200_000,
    ] {
        let mut job = in_need(&[("MORE_MEMORY", &(kib << 10u64).to_string())]);
        let (status, said) = job.run_saying();
        assert!(status.success(), "{kib} KiB more: {status}: {said}");
        if said.contains("recording is off") {
            without += 1;
        }
    }
    // With none to spare there is no recording, and with plenty there is.
    assert!((1..18).contains(&without), "{without}");
}

#[test]
fn a_clock_that_is_set_back_bends_no_time() {
    let mut job =
        Job::new(module_path!(), "job_whose_clock_is_set_back").env("NCCLSCOPE_FLUSH", "0.05");
    assert!(job.run().success());
    accounted(&job, 400, &[]);
    let capture = job.capture();
    let calls = &capture.processes[0].calls;
    let order: Vec<i64> = calls.iter().map(|c| c.api_ns).collect();
    assert!(order.is_sorted(), "calls are out of order");
    let span = order[order.len() - 1] - order[0];
    assert!((300_000_000..60_000_000_000).contains(&span), "{span} ns");
    for call in calls {
        let took = call.host_ns().expect("timed");
        assert!((0..5_000_000_000).contains(&took), "{took} ns");
    }
}

#[test]
#[ignore = "played by the test above"]
fn job_whose_clock_is_set_back() {
    let mut comm = Driver::new(0x12);
    for step in [0, -3600, -3600, 7] {
        shim::CLOCK_STEP.store(step, Relaxed);
        for _ in 0..100 {
            comm.all_reduce(1);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    comm.finalize();
}

#[test]
fn two_processes_of_equal_host_and_pid_share_a_folder() {
    // Two containers, or two jobs one after the other: names and pids are the same, the files are not.
    let mut first = in_need(&[("PID", "77"), ("HOST", "node"), ("CALLS", "500")]);
    let folder = first.folder.clone();
    let mut second = in_need(&[("PID", "77"), ("HOST", "node"), ("CALLS", "600")])
        .env("NCCLSCOPE_OUT", folder.to_str().expect("text"));
    let (mut a, mut b) = (first.spawn(), second.spawn());
    assert!(a.wait().expect("ends").success() && b.wait().expect("ends").success());
    accounted(&first, 1100, &[]);
    let capture = first.capture();
    let who: Vec<_> = capture
        .processes
        .iter()
        .map(|p| (p.host.as_str(), p.pid))
        .collect();
    assert_eq!(who, [("node", 77); 2]);
}

#[test]
fn paths_as_long_as_a_file_system_takes_are_used_and_longer_ones_are_said() {
    let root = tempfile::tempdir().expect("a folder");
    let part = "d".repeat(255);
    let host = "h".repeat(64);
    let mut deep = root.path().to_owned();
    while deep.as_os_str().len() + 256 + 200 < libc::PATH_MAX as usize {
        deep.push(&part);
    }
    for (folder, works) in [
        (root.path().join(&part), true),
        (deep.clone(), true),
        (deep.join(&part), false),
    ] {
        let mut job =
            in_need(&[("HOST", &host)]).env("NCCLSCOPE_OUT", folder.to_str().expect("text"));
        let (status, said) = job.run_saying();
        assert!(status.success(), "{status}: {said}");
        if works {
            job.folder = folder;
            accounted(&job, 10, &[]);
        } else {
            assert!(
                said.contains("cannot write") && said.contains("name too long"),
                "{said}"
            );
        }
    }
}

/// As root, a folder that can't be written to is one on a file system that can't.
#[test]
fn folders_that_are_read_only_or_full_cost_the_job_nothing() {
    if !mounts_are_permitted() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (options, error) in [
        ("ro", "Read-only file system"),
        ("size=4k,nr_inodes=1", "No space left"),
    ] {
        let mut job = in_need(&[]).with_mounts(&[(folder.path(), options)]);
        job = job.env(
            "NCCLSCOPE_OUT",
            folder.path().join("capture").to_str().expect("text"),
        );
        let (status, said) = job.run_saying();
        assert!(status.success(), "{status}: {said}");
        assert!(said.contains(error), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_folder_that_is_full_for_a_while_is_written_to_when_there_is_room() {
    if !mounts_are_permitted() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut job = Job::new(module_path!(), "job_with_a_full_folder")
        .env("NCCLSCOPE_FLUSH", "0.05")
        .env(
            "NCCLSCOPE_OUT",
            folder.path().join("capture").to_str().expect("text"),
        )
        .env(
            "FILLER",
            folder.path().join("filler").to_str().expect("text"),
        )
        .with_mounts(&[(folder.path(), "size=1m")]);
    let (status, said) = job.run_saying();
    assert!(status.success(), "{status}: {said}");
    assert!(said.contains("No space left"), "{said}");
}

/// Fills its folder, makes room, and fills it again. Its mounts end with it, so it reads its own capture.
#[test]
#[ignore = "played by the test above"]
fn job_with_a_full_folder() {
    let filler = PathBuf::from(variable("FILLER").expect("set"));
    let fill = || {
        let mut file = std::fs::File::create(&filler).expect("created");
        while std::io::Write::write(&mut file, &[1; 4096]).is_ok_and(|n| n > 0) {}
    };
    let mut comm = Driver::new(0x13);
    let mut calls = |n: usize| {
        for _ in 0..n {
            comm.all_reduce(5);
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    fill();
    calls(100);
    std::fs::remove_file(&filler).expect("removed");
    calls(100);
    fill();
    for _ in 0..30 {
        calls(1000);
    }
    std::fs::remove_file(&filler).expect("removed");
    calls(100);
    comm.finalize();
    let capture = tables::Capture::open(Path::new(&variable("NCCLSCOPE_OUT").expect("set")))
        .unwrap_or_else(|error| panic!("{error}"));
    let c = analyze::report(&capture).completeness;
    let lost: u64 = c.lost.values().sum();
    assert_eq!((c.announced, c.recorded + lost), (30_300, 30_300), "{c:#?}");
    assert!(
        c.adds_up && c.lost.keys().all(|k| k == "write_failed"),
        "{c:#?}"
    );
    assert!(c.recorded >= 300, "{c:#?}");
    assert!(capture.problems.is_empty(), "{:?}", capture.problems);
}

#[test]
fn a_small_or_full_shared_memory_is_left_to_nccl() {
    if !mounts_are_permitted() {
        return;
    }
    let shm = Path::new("/dev/shm");
    let local = tempfile::tempdir().expect("a folder");
    // As in a container: enough for one process beside NCCL's own need, then not enough, then nothing.
    for (options, filled, place) in [
        ("size=64m", "0", "/dev/shm/"),
        ("size=64m", "20", local.path().to_str().expect("text")),
        ("size=64m", "64", local.path().to_str().expect("text")),
    ] {
        let mut job = Job::new(module_path!(), "job_in_small_shared_memory")
            .env("FILLED", filled)
            .env("PLACE", place)
            .env("TMPDIR", local.path().to_str().expect("text"))
            .with_mounts(&[(shm, options)]);
        let (status, said) = job.run_saying();
        assert!(status.success(), "{filled} MB filled: {status}: {said}");
        let warned = said.contains("MiB in /dev/shm beside NCCL's own");
        assert_eq!(warned, filled != "0", "{said}");
        accounted(&job, 1000, &[]);
    }
}

#[test]
#[ignore = "played by the test above"]
fn job_in_small_shared_memory() {
    let filled = number("FILLED") as usize;
    let _ = std::fs::write("/dev/shm/nccl", vec![1u8; filled << 20]);
    let mut comm = Driver::new(0x14);
    // Later the rest is taken too. Every page of the live part is there already: no store can fault.
    let mut rest = std::fs::File::create("/dev/shm/more").expect("created");
    while std::io::Write::write(&mut rest, &[1; 1 << 20]).is_ok_and(|n| n > 0) {}
    (0..1000).for_each(|i| comm.all_reduce(1 + i % 50));
    let names = std::fs::read_to_string("/proc/self/maps").expect("read");
    let place = variable("PLACE").expect("set");
    let live: Vec<&str> = names.lines().filter(|l| l.ends_with(".live")).collect();
    assert!(live.len() == 1 && live[0].contains(&place), "{live:?}");
    comm.finalize();
    // SAFETY: ends this process; its mounts go with it.
    unsafe { libc::exit(0) };
}

#[test]
fn a_setting_with_control_characters_reaches_no_terminal() {
    let mut job = in_need(&[("NCCLSCOPE_NET", "off\u{1b}[31m\nmore")]);
    let (status, said) = job.run_saying();
    assert!(status.success(), "{status}: {said}");
    assert!(
        said.contains("NCCLSCOPE_NET=off\\u{1b}[31m\\nmore is none of"),
        "{said:?}"
    );
    assert!(!said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn nowhere_for_the_live_part_turns_recording_off_with_a_line() {
    let mut job = in_need(&[("FREE", "0"), ("TMPDIR", "/proc/nowhere")]);
    let (status, said) = job.run_saying();
    assert!(status.success(), "{status}: {said}");
    assert!(
        said.contains(
            "recording is off: no room for 4 MiB in /dev/shm beside NCCL's own, and no place for open calls \
            in /proc/nowhere: "
        ),
        "{said}"
    );
    assert!(said.contains("TMPDIR may name another folder"), "{said}");
}

#[test]
#[ignore = "played by the test below"]
fn job_of_50_communicators_in_need() {
    shim::FREE.store(0, Relaxed);
    for hash in 0..50 {
        let mut comm = Driver::new(hash);
        comm.all_reduce(1);
        comm.finalize();
    }
}

#[test]
fn what_is_wrong_is_said_once_however_many_communicators_there_are() {
    let mut job = Job::new(module_path!(), "job_of_50_communicators_in_need")
        .env("TMPDIR", "/proc/nowhere")
        .env("NCCLSCOPE_FLUSH", "soon");
    let (status, said) = job.run_saying();
    assert!(status.success(), "{status}: {said}");
    for line in ["recording is off", "NCCLSCOPE_FLUSH=soon"] {
        assert_eq!(said.matches(line).count(), 1, "{said}");
    }
}

#[test]
fn a_stderr_without_a_reader_neither_ends_nor_stops_the_job() {
    for full in [false, true] {
        let mut ends = [0; 2];
        // SAFETY: two descriptors are filled in.
        let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
        assert_eq!(made, 0);
        let [reader, writer] = ends;
        // SAFETY: a descriptor of ours.
        let writer = unsafe { OwnedFd::from_raw_fd(writer) };
        if full {
            // SAFETY: writes of a valid buffer until the pipe takes no more.
            unsafe {
                let fd = writer.as_raw_fd();
                libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK);
                while libc::write(fd, [0u8; 4096].as_ptr().cast(), 4096) > 0 {}
                libc::fcntl(fd, libc::F_SETFL, 0);
            }
        } else {
            // SAFETY: ours.
            unsafe { libc::close(reader) };
        }
        let mut job = Job::new(module_path!(), "job_that_dies_of_sigpipe")
            .env("NCCLSCOPE_MODE", "no such mode");
        job.command().env_remove("NCCLSCOPE_QUIET").stderr(writer);
        let began = Instant::now();
        let status = job.run();
        assert!(status.success(), "{status}");
        assert!(began.elapsed() < Duration::from_secs(20));
        if full {
            // SAFETY: ours.
            unsafe { libc::close(reader) };
        }
    }
}

#[test]
#[ignore = "played by the test above"]
fn job_that_dies_of_sigpipe() {
    // Rust's programs ignore it; C++ ones do not.
    // SAFETY: a plain call.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let mut comm = Driver::new(0x15);
    comm.all_reduce(1);
    comm.finalize();
    // SAFETY: ends the process before the harness writes.
    unsafe { libc::_exit(0) };
}

/// How often the calling thread waited, and for pages of a disk.
fn waits() -> (i64, i64) {
    // SAFETY: getrusage fills in the struct.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        (usage.ru_nvcsw, usage.ru_majflt)
    }
}

#[test]
fn a_neighbour_that_writes_to_the_disk_makes_no_callback_wait() {
    let mut job =
        Job::new(module_path!(), "job_beside_a_disk_writer").env("NCCLSCOPE_FLUSH", "0.05");
    let (status, said) = job.run_saying();
    assert!(status.success(), "{status}: {said}");
    eprint!("{said}");
    accounted(&job, 100_000, &["rows_full"]);
}

#[test]
#[ignore = "played by the test above"]
fn job_beside_a_disk_writer() {
    let going = std::sync::atomic::AtomicBool::new(true);
    let path = PathBuf::from(format!(
        "{}.neighbour",
        variable("NCCLSCOPE_OUT").expect("set")
    ));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while going.load(Relaxed) {
                let file = std::fs::File::create(&path).expect("created");
                std::os::unix::fs::FileExt::write_all_at(&file, &vec![0x5a; 8 << 20], 0)
                    .expect("written");
                file.sync_all().expect("synced");
            }
        });
        let mut comm = Driver::new(0x16);
        comm.all_reduce(1);
        let mut longest = Duration::ZERO;
        let before = waits();
        let mut blocked = (0, 0);
        for i in 1..100_000 {
            let began = Instant::now();
            comm.all_reduce(1 + i % 50);
            longest = longest.max(began.elapsed());
            if i % 2000 == 0 {
                // Not to be counted: the sleep waits.
                let now = waits();
                blocked = (now.0 - before.0 - i as i64 / 2000 + 1, now.1 - before.1);
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        going.store(false, Relaxed);
        eprintln!("longest call (8 callbacks) {longest:?}, the thread's time slices included; it waited {} \
            times", blocked.0);
        assert_eq!(blocked, (0, 0), "times it waited; for a disk");
        comm.finalize();
    });
    let _ = std::fs::remove_file(path);
}

#[test]
fn on_a_network_file_system_calls_of_5_s_ago_are_in_the_folder() {
    let mut job = Job::new(module_path!(), "job_on_a_network_file_system");
    let mut child = job.spawn();
    std::thread::sleep(Duration::from_millis(12_300));
    child.kill().expect("killed");
    child.wait().expect("reaped");
    let killed = std::time::SystemTime::now();
    // The node is gone, and the live part with it.
    let capture = job.capture();
    let live = capture.processes[0].fact("live").expect("named").to_owned();
    assert!(live.starts_with('/'), "{live}");
    let all = capture.processes[0].calls.len();
    std::fs::remove_file(&live).expect("removed");
    let capture = job.capture();
    let process = &capture.processes[0];
    assert_eq!(process.live, LiveSource::Snapshot);
    let newest = process
        .calls
        .iter()
        .map(|c| c.return_ns)
        .max()
        .expect("calls");
    let killed = killed
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_nanos() as i64;
    let age = Duration::from_nanos((killed - newest) as u64);
    eprintln!(
        "{} of {all} calls are in the folder, the newest {age:?} old",
        process.calls.len()
    );
    // Every call up to then is there, by its ticket.
    assert!(process
        .calls
        .iter()
        .enumerate()
        .all(|(i, c)| c.ticket == i as u64));
    assert!(
        process.calls.len() < all && age < Duration::from_secs(5),
        "{age:?}"
    );
}

#[test]
#[ignore = "played by the test above"]
fn job_on_a_network_file_system() {
    shim::FILE_SYSTEM.store(0x6969, Relaxed);
    let mut comm = Driver::new(0x17);
    loop {
        comm.all_reduce(1);
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn files_are_private_whatever_the_umask() {
    let mut job = in_need(&[("CALLS", "10")]);
    // SAFETY: umask is safe to call between fork and exec.
    unsafe {
        job.command().pre_exec(|| {
            libc::umask(0);
            Ok(())
        })
    };
    assert!(job.run().success());
    let mut seen = 0;
    let mut folders = vec![job.folder.clone()];
    while let Some(folder) = folders.pop() {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
        for entry in std::fs::read_dir(folder).expect("read").flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 2);
    let shm = PathBuf::from(format!("/dev/shm/ncclscope-{}", user()));
    if shm.exists() {
        assert_eq!(mode(&shm), 0o700);
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path)
        .expect("there")
        .permissions()
        .mode()
        & 0o777
}

#[test]
fn links_that_others_put_into_shared_folders_are_not_followed() {
    let root = tempfile::tempdir().expect("a folder");
    let victim = root.path().join("victim");
    std::fs::create_dir(&victim).expect("made");
    let empty = || std::fs::read_dir(&victim).expect("read").count() == 0;
    // The host's folder in a shared capture.
    let capture = root.path().join("capture");
    std::fs::create_dir(&capture).expect("made");
    std::os::unix::fs::symlink(&victim, capture.join("node")).expect("linked");
    let mut job = in_need(&[
        ("HOST", "node"),
        ("NCCLSCOPE_OUT", capture.to_str().expect("text")),
    ]);
    let (status, said) = job.run_saying();
    assert!(status.success() && said.contains("cannot write"), "{said}");
    assert!(empty(), "a link in the capture folder was followed");
    // The folder of live parts in a shared temporary folder: a link, then one that others may write to.
    let temporary = root.path().join("tmp");
    std::fs::create_dir(&temporary).expect("made");
    let ours = temporary.join(format!("ncclscope-{}", user()));
    std::os::unix::fs::symlink(&victim, &ours).expect("linked");
    let out = root.path().join("out");
    let env = [
        ("FREE", "0"),
        ("TMPDIR", temporary.to_str().expect("text")),
        ("NCCLSCOPE_OUT", out.to_str().expect("text")),
    ];
    for link in [true, false] {
        if !link {
            std::fs::remove_file(&ours).expect("removed");
            std::fs::create_dir(&ours).expect("made");
            std::fs::set_permissions(&ours, std::fs::Permissions::from_mode(0o777)).expect("set");
        }
        let mut job = in_need(&env);
        let (status, said) = job.run_saying();
        let why = if link {
            "is no folder, so open calls live in "
        } else {
            "can be written to by others, so open calls live in "
        };
        assert!(status.success() && said.contains(why), "{said}");
        // In a folder beside it, of a name that nobody could know. It is taken again.
        let own: Vec<_> = capture::left::folders_in(&temporary, user());
        assert_eq!(own.len(), 1, "{own:?}");
        assert_eq!(mode(&own[0]), 0o700);
        assert!(said.contains(own[0].to_str().expect("text")), "{said}");
        assert!(empty(), "a link in the temporary folder was followed");
        assert_eq!(
            std::fs::symlink_metadata(&ours).expect("there").uid(),
            user()
        );
    }
    assert_eq!(
        tables::Capture::open(&out).expect("read").processes.len(),
        2
    );
    assert_eq!(std::fs::read_dir(&ours).expect("read").count(), 0);
}

fn user() -> u32 {
    // SAFETY: a plain call.
    unsafe { libc::geteuid() }
}

#[test]
fn a_job_killed_for_want_of_memory_keeps_every_completed_call() {
    let Some(group) = MemoryGroup::make(48 << 20) else {
        eprintln!("skipped: no memory cgroup can be made here");
        return;
    };
    let mut job = Job::new(module_path!(), "job_that_takes_all_memory").quietly();
    let file = std::ffi::CString::new(group.0.join("cgroup.procs").to_str().expect("text"))
        .expect("no NUL");
    // SAFETY: system calls on memory that was made before the fork.
    unsafe {
        job.command().pre_exec(move || {
            let fd = libc::open(file.as_ptr(), libc::O_WRONLY);
            let joined = libc::write(fd, b"0".as_ptr().cast(), 1) == 1;
            libc::close(fd);
            joined
                .then_some(())
                .ok_or_else(std::io::Error::last_os_error)
        })
    };
    let status = job.run();
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{status}");
    accounted(&job, 5000, &[]);
}

/// A cgroup with a memory limit, version 1 or 2, removed when dropped.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    fn make(bytes: u64) -> Option<MemoryGroup> {
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let (root, path, limit) = own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            match (parts.next()?, parts.next()?) {
                ("memory", path) => Some((
                    "/sys/fs/cgroup/memory",
                    path.to_owned(),
                    "memory.limit_in_bytes",
                )),
                ("", path) if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() => {
                    Some(("/sys/fs/cgroup", path.to_owned(), "memory.max"))
                }
                _ => None,
            }
        })?;
        let group = Path::new(root)
            .join(path.trim_start_matches('/'))
            .join(format!("ncclscope-test-{}", std::process::id()));
        std::fs::create_dir(&group).ok()?;
        let group = MemoryGroup(group);
        std::fs::write(group.0.join(limit), bytes.to_string()).ok()?;
        Some(group)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
#[ignore = "played by the test above"]
fn job_that_takes_all_memory() {
    let mut comm = Driver::new(0x18);
    for i in 0..5000 {
        comm.all_reduce(1 + i % 50);
        if i % 500 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let mut taken = Vec::new();
    loop {
        taken.push(vec![1u8; 1 << 20]);
        std::hint::black_box(&taken);
    }
}
