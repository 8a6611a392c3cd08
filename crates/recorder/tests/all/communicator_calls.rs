//! A rank that does not come to an init or a split keeps the others inside of theirs, and NCCL tells a
//! profiler nothing of that. It is seen where the program calls them.

use crate::comm_memory::built;
use crate::job::{recorded, Driver, Job};

/// An NCCL that has only these functions. They add up all that they are given, and wait while `held` is set.
const NCCL: &str = r"
    #include <unistd.h>
    volatile int held, came;
    long sum;
    typedef struct { char of[128]; } Id;
    static int wait_there(void) { came++; while (held) usleep(1000); return 7; }
    static long of(Id id) { long all = 0; for (int i = 0; i < 128; i++) all += id.of[i]; return all; }
    int ncclGetVersion(int *version) { *version = 23007; return 0; }
    int ncclCommInitRank(void **comm, int n, Id id, int rank) {
        sum += (long)comm + n + of(id) + rank;
        return wait_there();
    }
    int ncclCommInitRankConfig(void **comm, int n, Id id, int rank, void *config) {
        sum += (long)comm + n + of(id) + rank + (long)config;
        return wait_there();
    }
    int ncclCommInitRankScalable(void **comm, int n, int rank, int nids, Id *ids, void *config) {
        sum += (long)comm + n + rank + nids + (long)ids + (long)config;
        return wait_there();
    }
    int ncclCommInitAll(void **comms, int n, const int *devices) {
        sum += (long)comms + n + (long)devices;
        return wait_there();
    }
    int ncclCommSplit(void *comm, int color, int key, void **made, void *config) {
        sum += (long)comm + color + key + (long)made + (long)config;
        return wait_there();
    }
    int ncclCommShrink(void *comm, int *without, int n, void **made, void *config, int flags) {
        sum += (long)comm + (long)without + n + (long)made + (long)config + flags;
        return wait_there();
    }
    int ncclCommFinalize(void *comm) { sum += (long)comm; return wait_there(); }
    int ncclCommDestroy(void *comm) { sum += (long)comm; return wait_there(); }
    int ncclCommAbort(void *comm) { sum += (long)comm; return wait_there(); }
";

/// A program that is linked with it.
const PROGRAM: &str = r#"
    #include <string.h>
    extern volatile int held, came;
    extern long sum;
    typedef struct { char of[128]; } Id;
    int ncclCommInitRank(void **, int, Id, int);
    int ncclCommInitRankConfig(void **, int, Id, int, void *);
    int ncclCommInitRankScalable(void **, int, int, int, Id *, void *);
    int ncclCommInitAll(void **, int, const int *);
    int ncclCommSplit(void *, int, int, void **, void *);
    int ncclCommShrink(void *, int *, int, void **, void *, int);
    int ncclCommFinalize(void *), ncclCommDestroy(void *), ncclCommAbort(void *);
    static Id id(void) { Id id; memset(&id, 1, sizeof id); return id; }
    int each(void) {
        return ncclCommInitRank((void **)1, 2, id(), 3)
            + ncclCommInitRankConfig((void **)1, 2, id(), 3, (void *)4)
            + ncclCommInitRankScalable((void **)1, 2, 3, 4, (Id *)5, (void *)6)
            + ncclCommInitAll((void **)1, 2, (int *)3)
            + ncclCommSplit((void *)1, 2, 3, (void **)4, (void *)5)
            + ncclCommShrink((void *)1, (int *)2, 3, (void **)4, (void *)5, 6)
            + ncclCommFinalize((void *)1) + ncclCommDestroy((void *)2) + ncclCommAbort((void *)3);
    }
    int split(void) { return ncclCommSplit((void *)1, 2, 3, (void **)4, (void *)5); }
    int hold(void) { return held = 1; }
    int let_go(void) { return held = 0; }
    int have_come(void) { return came; }
    long all(void) { return sum; }
"#;

/// How many bytes of ones the id has.
const ID: i64 = 128;

#[test]
#[ignore = "played by the tests below"]
fn job_in_a_split() {
    let folder = tempfile::tempdir().expect("made");
    let soname = ["-Wl,-soname,libnccl.so.2"];
    let nccl = built(folder.path(), "libnccl.so.2", NCCL, &soname);
    let program = built(folder.path(), "program.so", PROGRAM, &["libnccl.so.2"]);
    let call = |name: &str| {
        // SAFETY: the program has these functions.
        let function = unsafe { program.get::<extern "C" fn() -> i64>(name.as_bytes()) };
        function.expect("is there")()
    };
    let mut driver = Driver::new(1);
    driver.all_reduce(8);
    // What they return and what they are given is handed on.
    assert_eq!(call("each") as i32, 9 * 7);
    let given = [6 + ID, 10 + ID, 21, 6, 15, 21, 1, 2, 3];
    assert_eq!(call("all"), given.iter().sum::<i64>());
    call("hold");
    std::thread::scope(|scope| {
        // Two threads, of which one goes in later.
        let splits = [(), ()].map(|()| scope.spawn(|| call("split")));
        recorded(|process| process.setup.in_nccl.calls.len() == 2);
        if std::env::var_os("DIES").is_some() {
            // SAFETY: a plain system call.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        call("let_go");
        for split in splits {
            assert_eq!(split.join().expect("no panic") as i32, 7);
        }
    });
    recorded(|process| process.setup.in_nccl.calls.is_empty() && process.setup.in_nccl.at_ns > 0);
    driver.finalize();
    drop(nccl);
}

#[test]
fn calls_that_make_communicators_are_handed_on_and_over_in_the_end() {
    let mut job = Job::new(module_path!(), "job_in_a_split").env("NCCLSCOPE_TIMING", "host");
    assert!(job.run().success());
    let capture = job.capture();
    assert!(capture.problems.is_empty(), "{:?}", capture.problems);
    assert_eq!(capture.processes[0].setup.in_nccl.calls, []);
}

#[test]
fn a_killed_process_leaves_in_which_split_it_was() {
    let mut job = Job::new(module_path!(), "job_in_a_split");
    job = job.env("NCCLSCOPE_TIMING", "host").env("DIES", "1");
    assert!(!job.run().success());
    let capture = job.capture();
    let calls = &capture.processes[0].setup.in_nccl.calls;
    let names: Vec<&str> = calls.iter().map(|call| call.function.as_str()).collect();
    assert_eq!(names, ["ncclCommSplit"; 2]);
    assert!(calls
        .iter()
        .all(|call| call.thread.is_some() && call.since_ns > 0));
}
