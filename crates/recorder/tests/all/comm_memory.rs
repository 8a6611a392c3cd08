//! What NCCL counts as a communicator's memory is asked for where the program itself speaks of it to NCCL,
//! and nowhere else. NCCL is a library of a few lines here, which counts wrong questions.

use crate::job::{recorded, Driver, Job};
use std::path::Path;
use std::process::Command;

/// An NCCL that has only what is asked here, and does as the real one does (2.29.7 to 2.32.3): it refuses a
/// communicator that does not begin with its magic number, or that has something pending. A communicator that
/// fails does so behind the program's own question. `wrong` counts what the real one would warn of.
const NCCL: &str = r"
    struct comm {
        unsigned long magic; int rank, nranks, device, state, fails, wrong, asked, suspended;
        unsigned long total;
    };
    static const unsigned long MAGIC = 0x280028002800280;
    int ncclGetVersion(int *version) { *version = 23007; return 0; }
    int ncclCommCount(struct comm *c, int *n) { *n = c->nranks; return 0; }
    int ncclCommUserRank(struct comm *c, int *n) { *n = c->rank; return 0; }
    int ncclCommCuDevice(struct comm *c, int *n) { *n = c->device; return 0; }
    int ncclCommGetAsyncError(struct comm *c, int *state) {
        if (!c || c->magic != MAGIC) return 4;
        *state = c->state;
        return 0;
    }
    int ncclCommMemStats(struct comm *c, int kind, unsigned long *bytes) {
        int state;
        if (ncclCommGetAsyncError(c, &state)) { if (c) c->wrong++; return 4; }
        if (state == 7) { c->wrong++; return 4; }
        if (state || c->fails) { c->wrong++; return state ? state : c->fails; }
        if (!bytes || kind < 0 || kind > 3) { c->wrong++; return 4; }
        c->asked++;
        *bytes = kind == 3 ? c->total : kind == 2 ? c->total - 5 : kind == 0 ? 5 : c->suspended;
        return 0;
    }
    int ncclCommFinalize(struct comm *c) { return 0; }
    int ncclCommDestroy(struct comm *c) { c->magic = 0; return 0; }
    int ncclCommAbort(struct comm *c) { c->magic = 0; return 0; }
";

/// A program that is linked with it.
const PROGRAM: &str = r"
    struct comm;
    int ncclCommGetAsyncError(struct comm *, int *);
    int ncclCommFinalize(struct comm *);
    int ncclCommDestroy(struct comm *);
    int ncclCommAbort(struct comm *);
    int ask(struct comm *c) { int state; return ncclCommGetAsyncError(c, &state); }
    int finalize(struct comm *c) { return ncclCommFinalize(c); }
    int destroy(struct comm *c) { return ncclCommDestroy(c); }
    int abort_it(struct comm *c) { return ncclCommAbort(c); }
";

#[repr(C)]
#[derive(Default)]
struct Comm {
    magic: u64,
    rank: i32,
    nranks: i32,
    device: i32,
    state: i32,
    fails: i32,
    wrong: i32,
    asked: i32,
    suspended: i32,
    total: u64,
}

impl Comm {
    fn new(rank: i32, total: u64) -> Comm {
        Comm {
            magic: 0x0280_0280_0280_0280,
            rank,
            nranks: 4,
            device: 1,
            total,
            ..Comm::default()
        }
    }
}

/// A program that is linked with such an NCCL, while a recorder is in the process.
struct Program {
    library: libloading::Library,
    _nccl: libloading::Library,
    _folder: tempfile::TempDir,
    driver: Option<Driver>,
}

impl Program {
    fn new(nccl: &str) -> Program {
        let folder = tempfile::tempdir().expect("made");
        let soname = "-Wl,-soname,libnccl.so.2";
        let nccl = built(folder.path(), "libnccl.so.2", nccl, &[soname]);
        let library = built(folder.path(), "program.so", PROGRAM, &["libnccl.so.2"]);
        Program {
            library,
            _nccl: nccl,
            _folder: folder,
            driver: Some(Driver::new(1)),
        }
    }

    /// NCCL's result of a call with this communicator.
    fn call(&self, name: &str, comm: &mut Comm) -> i32 {
        // SAFETY: the program has these functions, and the communicator lives.
        unsafe {
            let function = (self.library).get::<extern "C" fn(*mut Comm) -> i32>(name.as_bytes());
            function.expect("is there")(comm)
        }
    }

    fn finish(mut self) {
        self.driver.take().expect("not finished").finalize();
    }
}

pub fn built(folder: &Path, name: &str, source: &str, options: &[&str]) -> libloading::Library {
    let (code, path) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&code, source).expect("written");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .arg(&path)
        .arg(&code)
        .args(options)
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .current_dir(folder)
        .status();
    assert!(built.expect("there is a cc").success());
    // SAFETY: a library of ours without initialisers.
    unsafe { libloading::Library::new(path) }.expect("loads")
}

fn play(nccl: &str, counts: bool) {
    let program = Program::new(nccl);
    let (mut first, mut second) = (Comm::new(3, 100), Comm::new(0, 7000));
    let mut pending = Comm::new(1, 1);
    pending.state = 7;
    for _ in 0..100 {
        assert_eq!(program.call("ask", &mut first), 0);
    }
    // At most once a second, with four questions.
    let asked = first.asked;
    assert!(asked <= 4, "{asked}");
    assert_eq!(asked > 0, counts);
    if counts {
        recorded(|process| process.setup.comm_memory.len() == 1);
    }
    first.total = 200;
    let call = |name: &str, comm: &mut Comm| assert_eq!(program.call(name, comm), 0, "{name}");
    call("finalize", &mut first);
    call("destroy", &mut first);
    call("ask", &mut second);
    call("destroy", &mut second);
    // NCCL would refuse this one, and complete what is pending.
    for name in ["ask", "finalize", "destroy"] {
        call(name, &mut pending);
    }
    assert_eq!([first.wrong, second.wrong, pending.wrong], [0, 0, 0]);
    assert_eq!(pending.asked, 0);
    program.finish();
}

#[test]
#[ignore = "played by a test below"]
fn job_asks() {
    play(NCCL, true);
}

/// A communicator fails between the program's question and ours; a null pointer and a destroyed communicator
/// are passed; another one is aborted, and its address comes again.
#[test]
#[ignore = "played by a test below"]
fn job_with_communicators_that_fail() {
    let program = Program::new(NCCL);
    let mut failing = Comm::new(2, 300);
    failing.fails = 6;
    let mut gone = Comm::new(1, 400);
    gone.magic = 0;
    for _ in 0..10 {
        assert_eq!(program.call("ask", &mut failing), 0);
        assert_eq!(program.call("ask", &mut gone), 4);
    }
    // The one that fails was asked once, and once more at its end.
    assert_eq!((failing.wrong, failing.asked), (1, 0));
    assert_eq!(program.call("destroy", &mut failing), 0);
    assert_eq!((failing.wrong, gone.wrong), (2, 0));
    let mut suspended = Comm::new(3, 500);
    suspended.suspended = 1;
    assert_eq!(program.call("ask", &mut suspended), 0);
    recorded(|process| process.setup.comm_memory.len() == 1);
    let asked = suspended.asked;
    assert_eq!(program.call("abort_it", &mut suspended), 0);
    assert_eq!(suspended.asked, asked, "one that is aborted is left alone");
    // Another one at the same address. What it counts fell below zero at first.
    suspended = Comm::new(0, 3);
    assert_eq!(program.call("ask", &mut suspended), 0);
    suspended.total = 600;
    assert_eq!(program.call("destroy", &mut suspended), 0);
    program.finish();
}

/// The memory manager is off by a file of NCCL's, so every question is a warning.
#[test]
#[ignore = "played by a test below"]
fn job_of_an_nccl_that_does_not_count() {
    let program = Program::new(NCCL);
    let mut comms = [Comm::new(0, 1), Comm::new(1, 2)];
    for comm in &mut comms {
        comm.fails = 5;
        for _ in 0..10 {
            assert_eq!(program.call("ask", comm), 0);
        }
    }
    assert_eq!(comms.map(|comm| comm.wrong), [1, 0]);
    program.finish();
}

#[test]
#[ignore = "played by a test below"]
fn job_unasked() {
    play(NCCL, false);
}

#[test]
#[ignore = "played by a test below"]
fn job_of_an_older_nccl() {
    play(&NCCL.replace("ncclCommMemStats", "nothing"), false);
}

/// Of each line: communicator, device, rank, ranks, and bytes in all, persistent, suspendable.
type Found = Vec<(u64, Option<u32>, u32, u32, [u64; 3])>;

/// As `ncclscope run` sets them with `NCCLSCOPE_NCCL_LOG=on`.
const ASKED: [(&str, &str); 2] = [
    ("NCCLSCOPE_NCCL_LOG", "/dev/shm/ncclscope-test."),
    ("NCCL_DEBUG_FILE", "/dev/shm/ncclscope-test.%h.%p"),
];

fn counted(name: &str, settings: &[(&str, &str)]) -> Found {
    let mut job = Job::new(module_path!(), name).env("NCCLSCOPE_TIMING", "host");
    for (name, value) in settings {
        job = job.env(name, value);
    }
    assert!(job.run().success());
    let mut capture = job.capture();
    assert!(capture.problems.is_empty(), "{:?}", capture.problems);
    let lines = capture.processes.remove(0).setup.comm_memory;
    let bytes = lines.iter().map(|c| [c.total, c.persistent, c.suspendable]);
    (lines.iter().zip(bytes))
        .map(|(c, bytes)| (c.comm, c.device, c.rank, c.nranks, bytes))
        .collect()
}

#[test]
fn memory_is_asked_for_where_a_communicator_is_ready() {
    let found = counted("job_asks", &ASKED);
    let [first, later, second] = found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(first, (first.0, Some(1), 3, 4, [100, 95, 5]));
    assert_eq!(later, (first.0, Some(1), 3, 4, [200, 195, 5]));
    assert_eq!(second, (second.0, Some(1), 0, 4, [7000, 6995, 5]));
    assert_ne!(first.0, second.0);
}

#[test]
fn communicators_that_fail_are_asked_no_more_and_others_are() {
    let found = counted("job_with_communicators_that_fail", &ASKED);
    let [suspended, later] = found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(suspended, (suspended.0, Some(1), 3, 4, [500, 495, 5]));
    assert_eq!(later, (suspended.0, Some(1), 0, 4, [600, 595, 5]));
    assert_eq!(counted("job_of_an_nccl_that_does_not_count", &ASKED), []);
}

#[test]
fn an_nccl_that_counts_nothing_or_must_not_be_asked_is_left_alone() {
    let found = |name: &str, more: &[(&str, &str)]| counted(name, &[&ASKED, more].concat()).len();
    assert_eq!(found("job_of_an_older_nccl", &[]), 0);
    assert_eq!(
        found("job_unasked", &[("NCCL_DISABLE_MEM_MANAGER", "1")]),
        0
    );
    assert_eq!(found("job_unasked", &[("NCCLSCOPE_GRAPHS", "off")]), 0);
    // By default nothing is asked.
    assert_eq!(counted("job_unasked", &[]), []);
}
