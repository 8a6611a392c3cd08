//! NCCL's one-sided calls come with no event. They are counted where the program calls them: through its
//! table of imports, and through a pointer that a library looked up by itself, as Python's bindings do.

use crate::comm_memory::built;
use crate::job::{Driver, Job};

/// An NCCL that has only these calls, and adds up all that it is given.
const NCCL: &str = r"
    long sum;
    int ncclGetVersion(int *version) { *version = 23007; return 0; }
    int ncclPutSignal(const char *data, unsigned long count, int type, int peer, void *window,
        unsigned long offset, int signal, int context, unsigned flags, void *comm, void *stream) {
        sum += (long)data + count + type + peer + (long)window + offset + signal + context + flags;
        sum += (long)comm + (long)stream;
        return 0;
    }
    int ncclSignal(int peer, int signal, int context, unsigned flags, void *comm, void *stream) {
        sum += peer + signal + context + flags + (long)comm + (long)stream;
        return 5;
    }
    int ncclWaitSignal(int n, void *signals, void *comm, void *stream) {
        sum += n + (long)signals + (long)comm + (long)stream;
        return 0;
    }
";

/// A program that is linked with it, and keeps a pointer of its own to one of its functions.
const PROGRAM: &str = r#"
    #define _GNU_SOURCE
    #include <dlfcn.h>
    extern long sum;
    int ncclPutSignal(const char *, unsigned long, int, int, void *, unsigned long, int, int, unsigned,
        void *, void *);
    int ncclWaitSignal(int, void *, void *, void *);
    static int (*kept)(int, int, int, unsigned, void *, void *);
    void look(void) { 
        kept = dlsym(dlopen("libnccl.so.2", RTLD_NOLOAD | RTLD_NOW), "ncclSignal");
    }
    int put(void) {
        return ncclPutSignal((char *)1, 2, 3, 4, (void *)5, 6, 7, 8, 9, (void *)10, (void *)11);
    }
    int wait_for(void) { return ncclWaitSignal(1, (void *)2, (void *)3, (void *)4); }
    int signal_by_pointer(void) { return kept(1, 2, 3, 4, (void *)5, (void *)6); }
    long all(void) { return sum; }
"#;

#[test]
#[ignore = "played by a test below"]
fn job_of_one_sided_calls() {
    let folder = tempfile::tempdir().expect("made");
    let nccl = built(
        folder.path(),
        "libnccl.so.2",
        NCCL,
        &["-Wl,-soname,libnccl.so.2"],
    );
    let program = built(folder.path(), "program.so", PROGRAM, &["libnccl.so.2"]);
    // SAFETY: the program has these functions.
    let call = |name: &str| unsafe {
        let function = program.get::<extern "C" fn() -> i64>(name.as_bytes());
        function.expect("is there")()
    };
    call("look");
    let driver = Driver::new(1);
    for _ in 0..3 {
        assert_eq!(call("put") as i32, 0);
    }
    assert_eq!(call("wait_for") as i32, 0);
    for _ in 0..2 {
        // What NCCL refuses comes back.
        assert_eq!(call("signal_by_pointer") as i32, 5);
    }
    // All arguments came as they were given.
    assert_eq!(call("all"), 3 * 66 + 10 + 2 * 21);
    driver.finalize();
    drop(nccl);
}

#[test]
fn one_sided_calls_are_counted_and_handed_on() {
    let mut job =
        Job::new(module_path!(), "job_of_one_sided_calls").env("NCCLSCOPE_TIMING", "host");
    assert!(job.run().success());
    let capture = job.capture();
    assert!(capture.problems.is_empty(), "{:?}", capture.problems);
    let counts = capture.processes[0].setup.counts.last().expect("counted");
    let found = capture::counts::ONE_SIDED.map(|name| counts.get(name));
    assert_eq!(found, [3, 2, 1]);
    let report = analyze::report(&capture);
    assert_eq!(report.completeness.unseen.get("one_sided"), Some(&6));
}
