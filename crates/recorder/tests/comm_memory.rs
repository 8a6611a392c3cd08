//! What NCCL counts as a communicator's memory is asked for where the program itself speaks of it to NCCL,
//! and nowhere else. NCCL is a library of a few lines here, which counts wrong questions.

mod job;

use job::{recorded, Driver, Job};
use std::path::Path;
use std::process::Command;

/// An NCCL that has only what is asked here. As the real one, it refuses a communicator with something
/// pending.
const NCCL: &str = r"
    struct comm { int rank, nranks, device, state, wrong, asked; unsigned long total; };
    int ncclGetVersion(int *version) { *version = 23007; return 0; }
    int ncclCommCount(struct comm *c, int *n) { *n = c->nranks; return 0; }
    int ncclCommUserRank(struct comm *c, int *n) { *n = c->rank; return 0; }
    int ncclCommCuDevice(struct comm *c, int *n) { *n = c->device; return 0; }
    int ncclCommGetAsyncError(struct comm *c, int *state) { *state = c->state; return 0; }
    int ncclCommMemStats(struct comm *c, int kind, unsigned long *bytes) {
        int state;
        ncclCommGetAsyncError(c, &state);
        if (state) { c->wrong++; return 4; }
        c->asked++;
        *bytes = kind == 3 ? c->total : kind == 2 ? c->total - 5 : kind == 0 ? 5 : 0;
        return 0;
    }
    int ncclCommFinalize(struct comm *c) { return 0; }
    int ncclCommDestroy(struct comm *c) { c->state = 99; return 0; }
";

/// A program that is linked with it.
const PROGRAM: &str = r"
    struct comm;
    int ncclCommGetAsyncError(struct comm *, int *);
    int ncclCommFinalize(struct comm *);
    int ncclCommDestroy(struct comm *);
    int ask(struct comm *c) { int state; return ncclCommGetAsyncError(c, &state); }
    int finalize(struct comm *c) { return ncclCommFinalize(c); }
    int destroy(struct comm *c) { return ncclCommDestroy(c); }
";

#[repr(C)]
#[derive(Default)]
struct Comm {
    rank: i32,
    nranks: i32,
    device: i32,
    state: i32,
    wrong: i32,
    asked: i32,
    total: u64,
}

fn built(folder: &Path, name: &str, source: &str, options: &[&str]) -> libloading::Library {
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
    let folder = tempfile::tempdir().expect("made");
    let folder = folder.path();
    let soname = "-Wl,-soname,libnccl.so.2";
    let _nccl = built(folder, "libnccl.so.2", nccl, &[soname]);
    let program = built(folder, "program.so", PROGRAM, &["libnccl.so.2"]);
    let call = |name: &str, comm: &mut Comm| {
        // SAFETY: the program has these functions.
        let result = unsafe {
            let function = program.get::<extern "C" fn(*mut Comm) -> i32>(name.as_bytes());
            function.expect("is there")(comm)
        };
        assert_eq!(result, 0);
    };
    let new = |rank: i32, total: u64| Comm {
        rank,
        nranks: 4,
        device: 1,
        total,
        ..Comm::default()
    };
    let (mut first, mut second, mut pending) = (new(3, 100), new(0, 7000), new(1, 1));
    pending.state = 7;
    let comm = Driver::new(1);
    for _ in 0..100 {
        call("ask", &mut first);
    }
    // At most once a second.
    let asked = first.asked;
    assert!(asked <= 3, "{asked}");
    assert_eq!(asked > 0, counts);
    if counts {
        recorded(|process| process.setup.comm_memory.len() == 1);
    }
    first.total = 200;
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
    comm.finalize();
}

#[test]
#[ignore = "played by a test below"]
fn job_asks() {
    play(NCCL, true);
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
    let mut job = Job::new(name).env("NCCLSCOPE_TIMING", "host");
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
