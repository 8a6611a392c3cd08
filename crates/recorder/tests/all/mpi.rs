//! Time in MPI, with a library and a program of C that are opened while the job runs, as Python opens MPI.

use crate::job::{out, recorded, until, Driver, Job};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tables::mpi::{Mpi, MpiSpan};
use tables::Process;

/// Builds one of the two into a folder.
fn build(folder: &Path, source: &str, library: &str, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/all/mpi")
        .join(source);
    let to = folder.join(library);
    let folder = folder.display();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .arg(&to)
        .arg(source)
        .args(options)
        .args([format!("-L{folder}"), format!("-Wl,-rpath,{folder}")])
        .status();
    assert!(built.expect("there is a cc").success());
    to
}

struct Built(tempfile::TempDir);

impl Built {
    fn new() -> Built {
        let folder = tempfile::tempdir().expect("made");
        build(
            folder.path(),
            "library.c",
            "libmpi.so.12",
            &["-Wl,-soname,libmpi.so.12"],
        );
        for (name, options) in [
            ("libprogram.so", ["-Wl,-z,lazy", "-l:libmpi.so.12"]),
            ("liblate.so", ["-Wl,-z,now,-z,relro", "-l:libmpi.so.12"]),
        ] {
            build(folder.path(), "program.c", name, &options);
        }
        Built(folder)
    }

    fn job(&self, name: &str) -> Job {
        let folder = self.0.path().to_str().expect("text");
        Job::new(module_path!(), name)
            .env("MPI", folder)
            .env("NCCLSCOPE_FLUSH", "0.05")
    }
}

/// In a job: a library from the folder, loaded for good.
fn load(name: &str) -> &'static libloading::Library {
    let folder = PathBuf::from(std::env::var_os("MPI").expect("set"));
    // SAFETY: a library of ours without initialisers.
    let library = unsafe { libloading::Library::new(folder.join(name)) };
    Box::leak(Box::new(library.expect("loads")))
}

/// Calls a function of the program; it must find its arguments as they were passed.
fn call(program: &libloading::Library, function: &str, us: i64) {
    // SAFETY: all these functions take a number or nothing, and return a number.
    let result = unsafe {
        let function = program.get::<extern "C" fn(i64) -> i32>(function);
        function.expect("is there")(us)
    };
    assert_eq!(result, 0, "{function}");
}

fn mpi(capture: &tables::Capture) -> &Mpi {
    &capture.processes[0].mpi
}

fn calls(mpi: &Mpi, name: &str) -> (u64, f64) {
    let of = mpi.functions.iter().find(|of| of.name == name);
    of.map_or((0, 0.0), |of| (of.calls, of.ns as f64 / 1e6))
}

fn of<'a>(mpi: &'a Mpi, name: &'a str) -> impl Iterator<Item = &'a MpiSpan> {
    mpi.spans.iter().filter(move |span| mpi.name(span) == name)
}

#[test]
#[ignore = "played by the test below"]
fn job_with_mpi() {
    let program = load("libprogram.so");
    // Before NCCL: nobody sees this.
    call(program, "barrier", 1);
    call(program, "init", 0);
    let comm = Driver::new(1);
    call(program, "send", 5_000);
    call(program, "sendrecv", 3_000);
    call(program, "many", 2_000);
    call(program, "barrier", 40_000);
    // SAFETY: a subroutine as Fortran's compilers make it.
    unsafe {
        let barrier = program.get::<extern "C" fn(&i32, &mut i32)>("mpi_barrier_");
        let mut error = -1;
        barrier.expect("is there")(&10_000, &mut error);
        assert_eq!(error, 0);
    }
    call(program, "reduce", 8_000);
    call(program, "jump", 2_000);
    call(program, "poll", 100_000);
    // Another thread.
    std::thread::spawn(|| call(program, "barrier", 20_000))
        .join()
        .expect("no panic");
    // A library that is loaded when all is under way is found at the next flush.
    let late = load("liblate.so");
    until(|| {
        call(late, "send", 100);
        let capture = tables::Capture::open(&out());
        capture.is_ok_and(|capture| calls(mpi(&capture), "MPI_Send").0 > 1)
    });
    call(program, "finalize", 0);
    comm.finalize();
}

#[test]
fn time_in_mpi_is_recorded_however_it_is_called() {
    let built = Built::new();
    let mut job = built.job("job_with_mpi");
    assert!(job.run().success());
    let capture = job.capture();
    assert!(capture.problems.is_empty(), "{:?}", capture.problems);
    let mpi = mpi(&capture);
    assert_eq!((mpi.lost, mpi.untimed), (0, 0));
    // Once from C, once from Fortran, once from another thread. Those within a reduction are the reduction's.
    let (barriers, took) = calls(mpi, "MPI_Barrier");
    assert_eq!(barriers, 3, "{:?}", mpi.functions);
    assert!((70.0..1_000.0).contains(&took), "{took}");
    let long: Vec<&MpiSpan> = of(mpi, "MPI_Barrier").collect();
    let threads: std::collections::BTreeSet<_> = long.iter().map(|of| of.thread).collect();
    assert_eq!((long.len(), threads.len()), (3, 2), "{long:?}");
    assert!(long
        .iter()
        .all(|of| of.thread.is_some() && of.inside == of.to - of.from));
    for (name, least) in [("MPI_Sendrecv", 3.0), ("MPI_Rget_accumulate", 2.0)] {
        let (calls, took) = calls(mpi, name);
        assert!(calls == 1 && took >= least, "{name} {calls} {took}");
    }
    // One that was left by `longjmp` is no call, and those behind it are calls as before.
    assert_eq!(calls(mpi, "MPI_Allreduce").0, 1);
    assert!(calls(mpi, "MPI_Allreduce").1 >= 9.0);
    assert_eq!(calls(mpi, "MPI_Finalize").0, 1);
    // Calls that only look are summed up, so that records are few.
    let polls = of(mpi, "MPI_Test");
    let (records, polled) = polls.fold((0, 0), |(n, calls), of| (n + 1, calls + of.calls));
    assert_eq!(calls(mpi, "MPI_Test").0, 100_000);
    assert!(polled >= 99_000 && records < 10_000, "{records} {polled}");
    assert_eq!(calls(mpi, "MPI_Init").0, 0);
    for pair in mpi
        .spans
        .windows(2)
        .filter(|pair| pair[0].thread == pair[1].thread)
    {
        assert!(pair[0].to <= pair[1].from, "{pair:?}");
    }
}

#[test]
#[ignore = "played by the tests below"]
fn job_that_hangs_in_mpi() {
    let program = load("libprogram.so");
    let _comm = Driver::new(1);
    call(program, "send", 3_000);
    std::thread::spawn(|| call(program, "barrier", 600_000_000));
    let inside = |process: &Process| {
        let mut open = process.mpi.spans.iter().filter(|span| span.open);
        open.any(|span| span.to - span.from > 300_000_000)
    };
    recorded(inside);
    // SAFETY: ends this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

#[test]
fn a_rank_that_is_killed_inside_of_mpi_was_there_until_then() {
    let built = Built::new();
    let mut job = built.job("job_that_hangs_in_mpi");
    assert!(!job.run().success());
    let capture = job.capture();
    let mpi = mpi(&capture);
    assert_eq!(calls(mpi, "MPI_Send").0, 1);
    let open: Vec<&MpiSpan> = mpi.spans.iter().filter(|span| span.open).collect();
    assert_eq!((open.len(), mpi.name(open[0])), (1, "MPI_Barrier"));
    assert!(open[0].inside > 300_000_000);
}

#[test]
#[ignore = "played by the test below"]
fn job_that_dies_before_a_flush() {
    let program = load("libprogram.so");
    let _comm = Driver::new(1);
    let seen = |name: &'static str, n: u64| recorded(move |of| calls(&of.mpi, name).0 == n);
    for n in 1..=3 {
        for _ in 0..20 {
            call(program, "send", 200);
        }
        seen("MPI_Send", 20 * n);
    }
    call(program, "barrier", 1_000);
    seen("MPI_Barrier", 1);
    std::thread::spawn(|| call(program, "barrier", 600_000_000));
    recorded(|of| of.mpi.spans.iter().any(|span| span.open));
    // SAFETY: ends this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

#[test]
fn a_process_that_is_killed_before_its_first_flush_keeps_its_calls() {
    let built = Built::new();
    let mut job = built
        .job("job_that_dies_before_a_flush")
        .env("NCCLSCOPE_FLUSH", "600");
    assert!(!job.run().success());
    let capture = job.capture();
    let mpi = mpi(&capture);
    assert_eq!(
        (calls(mpi, "MPI_Send").0, calls(mpi, "MPI_Barrier").0),
        (60, 1)
    );
    let closed = mpi.spans.iter().filter(|span| !span.open);
    assert_eq!(closed.map(|span| span.calls).sum::<u32>(), 61);
    let open: Vec<&MpiSpan> = mpi.spans.iter().filter(|span| span.open).collect();
    assert_eq!((open.len(), mpi.name(open[0])), (1, "MPI_Barrier"));
    // As far as is known, it was inside until its end.
    assert_eq!(Some(open[0].to), mpi.seen.map(|seen| seen.1));
    assert!(mpi.seen.map(|seen| seen.1) >= capture.processes[0].clock.newest());
}

#[test]
#[ignore = "played by the test below"]
fn job_that_forks() {
    let program = load("libprogram.so");
    let comm = Driver::new(1);
    call(program, "send", 2_000);
    // SAFETY: the child calls only what a child may, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        call(program, "send", 1_000);
        // SAFETY: ends this process without its parent's exit handlers.
        unsafe { libc::_exit(0) };
    }
    let mut status = -1;
    // SAFETY: waits for the child.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
    call(program, "send", 2_000);
    comm.finalize();
}

#[test]
fn a_forked_child_calls_mpi_and_is_not_its_parent() {
    let built = Built::new();
    let mut job = built.job("job_that_forks");
    assert!(job.run().success());
    let capture = job.capture();
    assert_eq!(capture.processes.len(), 1);
    assert_eq!(calls(mpi(&capture), "MPI_Send").0, 2);
}

#[test]
#[ignore = "played by the test below"]
fn job_of_many_threads() {
    let program = load("libprogram.so");
    let comm = Driver::new(1);
    let (begun, ends) = (Instant::now(), Duration::from_millis(300));
    let turns = || {
        let mut turns = 0u64;
        while begun.elapsed() < ends {
            call(program, "poll", 50);
            call(program, "send", 30);
            turns += 1;
        }
        turns
    };
    let all: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..80).map(|_| scope.spawn(turns)).collect();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        ended.sum()
    });
    comm.finalize();
    std::fs::write(out().join("turns"), all.to_string()).expect("written");
}

#[test]
fn calls_of_many_threads_are_counted_each_once() {
    let built = Built::new();
    let mut job = built.job("job_of_many_threads");
    assert!(job.run().success());
    let turns = std::fs::read_to_string(job.folder.join("turns")).expect("written");
    let turns: u64 = turns.parse().expect("a number");
    let capture = job.capture();
    let mpi = mpi(&capture);
    let (sends, polls) = (calls(mpi, "MPI_Send").0, calls(mpi, "MPI_Test").0);
    assert_eq!(sends + polls + mpi.untimed, 51 * turns);
    // 64 threads have seats.
    assert!(
        mpi.untimed > 0 && polls == 50 * sends,
        "{} {polls} {sends}",
        mpi.untimed
    );
    let in_spans: u64 = mpi.spans.iter().map(|span| u64::from(span.calls)).sum();
    assert!(in_spans + mpi.lost <= sends + polls);
}

#[test]
#[ignore = "played by the test below"]
fn job_with_a_tool() {
    let program = load("libprogram.so");
    let comm = Driver::new(1);
    // The program's slots are not bound yet.
    for _ in 0..3 {
        call(program, "barrier", 2_000);
        call(program, "send", 1_000);
    }
    // SAFETY: the tool is preloaded, and has this function.
    let seen = unsafe {
        let tool = libloading::os::unix::Library::this();
        tool.get::<extern "C" fn() -> i32>("tool_saw")
            .expect("is there")()
    };
    assert_eq!(seen, 3);
    comm.finalize();
}

#[test]
fn a_tool_before_mpi_sees_what_it_saw_and_so_do_we() {
    let built = Built::new();
    let folder = built.0.path();
    let tool = build(folder, "tool.c", "libtool.so", &["-l:libmpi.so.12"]);
    let mut job = built
        .job("job_with_a_tool")
        .env("LD_PRELOAD", tool.to_str().expect("text"));
    assert!(job.run().success());
    let capture = job.capture();
    let mpi = mpi(&capture);
    // The tool knows of barriers only.
    assert_eq!(
        (calls(mpi, "MPI_Barrier").0, calls(mpi, "MPI_Send").0),
        (3, 3)
    );
    assert!(calls(mpi, "MPI_Barrier").1 >= 6.0);
}

#[test]
#[ignore = "played by the test below"]
fn job_with_two_libraries() {
    let (program, other) = (load("libprogram.so"), load("libother.so"));
    let comm = Driver::new(1);
    for program in [program, other] {
        call(program, "send", 1_000);
        // SAFETY: both have this function.
        let version = unsafe {
            program
                .get::<extern "C" fn() -> i32>("version")
                .expect("is there")()
        };
        assert_eq!(version, if std::ptr::eq(program, other) { 2 } else { 1 });
    }
    comm.finalize();
}

#[test]
fn with_two_mpi_libraries_each_caller_keeps_its_own() {
    let built = Built::new();
    let folder = built.0.path();
    let options = ["-Wl,-soname,libmpi_abi.so.1", "-DVERSION=2"];
    build(folder, "library.c", "libmpi_abi.so.1", &options);
    build(
        folder,
        "program.c",
        "libother.so",
        &["-Wl,-z,lazy", "-l:libmpi_abi.so.1"],
    );
    let mut job = built.job("job_with_two_libraries");
    assert!(job.run().success());
    assert_eq!(mpi(&job.capture()), &Mpi::default());
}

#[test]
fn in_totals_mode_calls_have_sums_and_no_times() {
    let built = Built::new();
    let mut job = built.job("job_that_forks").env("NCCLSCOPE_MODE", "profile");
    assert!(job.run().success());
    let capture = job.capture();
    let mpi = mpi(&capture);
    assert_eq!(calls(mpi, "MPI_Send").0, 2);
    assert_eq!((mpi.spans.len(), mpi.lost), (0, 2));
}

#[test]
fn it_can_be_switched_off() {
    let built = Built::new();
    let mut job = built.job("job_that_forks").env("NCCLSCOPE_MPI", "off");
    assert!(job.run().success());
    assert_eq!(mpi(&job.capture()), &Mpi::default());
}
