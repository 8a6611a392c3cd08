//! What an NCCL profiler plugin must bear and do, line by line: the checklist of docs/conformance.md.
//!
//! A test `line_07_…` shows line 7. Most play a job in a child process: either an ignored test of this binary ([`job!`]),
//! which calls the tables that the rlib carries, or fake-nccl with the built plugin ([`played`], [`checked`]). The parent
//! then reads the capture that was left.
//!
//! Rule: every number that is compared was counted on the calling side.

mod job;

/// A job that the ignored test of this name plays, which stands in the same module.
macro_rules! job {
    ($test:ident) => {{
        let _: fn() = $test;
        let path = concat!(module_path!(), "::", stringify!($test));
        // The name that the test has in its binary, whose own name comes first.
        let (_, name) = path.split_once("::").expect("a crate");
        crate::job::Job::new(name)
    }};
}

use capture::live::{flag, part, Odd};
use fake_nccl::event::{Coll, Descr, Event, Handle, P2p, StateArgs, POISON};
use fake_nccl::plugin::{Identity, Table, MISDEEDS};
use job::{flushed, recorded, release, table, until, Driver};
use nccl_abi::{event, state};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_void, CString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};
use tables::{Call, Capture, LiveSource, Process, Shape, Untimed};

// ---- Both sides

const ABIS: std::ops::RangeInclusive<u8> = 1..=7;

static MASK: AtomicI32 = AtomicI32::new(0);

/// A communicator at any ABI.
struct Comm {
    table: Table,
    context: Handle,
    /// Where the plugin was told of the communicator's hash: v1 to v3 only in each call.
    hash: u64,
}

impl Comm {
    fn new(abi: u8, hash: u64, rank: i32) -> Comm {
        Comm::named(abi, hash, rank, None)
    }

    fn named(abi: u8, hash: u64, rank: i32, name: Option<CString>) -> Comm {
        let table = table(abi);
        let identity = Identity {
            name,
            hash,
            nodes: 3,
            ranks: 24,
            rank,
        };
        let (result, context) = table.init(&MASK, &identity);
        assert_eq!(result, nccl_abi::result::SUCCESS);
        assert_ne!(context, Handle::NULL);
        Comm {
            table,
            context,
            hash,
        }
    }

    fn start(&self, event: &Event, parent: Handle) -> Handle {
        let mut handle = Handle::GARBAGE;
        assert!(self
            .table
            .start(self.context, event, parent, 5, &mut handle));
        assert_ne!(handle, Handle::GARBAGE, "the handle was not written");
        handle
    }

    fn has_api_events(&self) -> bool {
        self.table.seat.abi >= 5
    }

    /// A collective up to its Coll event, in the order of the ABI's own NCCL; its handles for the API and the Coll.
    fn coll(&self, coll: Coll) -> (Handle, Handle) {
        let coll = Coll {
            comm_hash: self.hash,
            ..coll
        };
        let (mut group, mut api) = (Handle::NULL, Handle::NULL);
        if self.has_api_events() {
            group = self.start(
                &Event::GroupApi {
                    captured: false,
                    depth: 1,
                },
                Handle::NULL,
            );
            let announced = Event::CollApi {
                func: coll.func,
                count: coll.count,
                datatype: coll.datatype,
                root: coll.root,
                stream: 0x57,
                captured: false,
                tag: 0,
            };
            api = self.start(&announced, group);
            self.table.stop(api);
        }
        let plan = self.start(&Event::Group, Handle::NULL);
        let parent = if self.has_api_events() { api } else { plan };
        let handle = self.start(
            &Event::Coll(Coll {
                group: plan,
                ..coll
            }),
            parent,
        );
        self.table.stop(handle);
        self.table.stop(plan);
        if self.has_api_events() {
            self.table.stop(group);
        }
        (api, handle)
    }

    /// A send or receive, likewise.
    fn p2p(&self, p2p: P2p) -> Handle {
        let p2p = P2p {
            comm_hash: self.hash,
            ..p2p
        };
        let (mut group, mut api) = (Handle::NULL, Handle::NULL);
        if self.has_api_events() {
            group = self.start(
                &Event::GroupApi {
                    captured: false,
                    depth: 1,
                },
                Handle::NULL,
            );
            let announced = Event::P2pApi {
                func: p2p.func,
                count: p2p.count,
                datatype: p2p.datatype,
                stream: 0x57,
                captured: false,
                tag: 0,
            };
            api = self.start(&announced, group);
            self.table.stop(api);
        }
        let plan = self.start(&Event::Group, Handle::NULL);
        let parent = if self.has_api_events() { api } else { plan };
        let handle = self.start(&Event::P2p(P2p { group: plan, ..p2p }), parent);
        self.table.stop(handle);
        self.table.stop(plan);
        if self.has_api_events() {
            self.table.stop(group);
        }
        handle
    }

    fn finalize(self) {
        self.table.finalize(self.context);
    }
}

const REDUCE: Coll = Coll {
    comm_name: std::ptr::null(),
    comm_hash: 0,
    seq: 0,
    func: c"Reduce",
    send: 0x5e5e,
    recv: 0xdede,
    count: 1000,
    root: 3,
    datatype: c"ncclFloat16",
    channels: 4,
    max_channels: 4,
    warps: 7,
    algo: c"TREE",
    proto: c"LL128",
    group: Handle::NULL,
    variant: None,
    tag: 0,
};

const SEND: P2p = P2p {
    comm_name: std::ptr::null(),
    comm_hash: 0,
    func: c"Send",
    buff: 0xb0ff,
    datatype: c"ncclInt64",
    count: 77,
    peer: 9,
    channels: 2,
    group: Handle::NULL,
    tag: 0,
};

/// One event of each type that an ABI has, children after the parents that [`Comm::start`] is given none of.
fn one_of_each(abi: u8) -> Vec<Event> {
    let all = [
        Event::Group,
        Event::Coll(REDUCE),
        Event::P2p(SEND),
        Event::ProxyOp {
            pid: std::process::id() as i32,
            channel: 1,
            peer: 2,
            steps: 3,
            chunk: 4,
            send: true,
        },
        Event::ProxyStep { step: 0 },
        Event::ProxyCtrl,
        Event::KernelCh {
            channel: 0,
            stamp: 1 << 40,
        },
        Event::NetPlugin {
            id: 0x3_0001,
            data: 8,
        },
        Event::GroupApi {
            captured: false,
            depth: 1,
        },
        Event::KernelLaunch { stream: 0 },
        Event::CeSync {
            complete: false,
            ranks: 8,
        },
        Event::KernelPhase {
            channel: 0,
            phase: 0,
            name: c"sync",
            stamp: 1 << 40,
        },
    ];
    let known = nccl_abi::event::known(abi).expect("an ABI");
    all.into_iter().filter(|e| known & e.bit() != 0).collect()
}

/// This process's capture is read by the parent, which must not find more than was announced.
fn process(capture: &Capture) -> &Process {
    assert_eq!(capture.processes.len(), 1);
    &capture.processes[0]
}

fn announced(process: &Process) -> u64 {
    process.counters.as_ref().expect("a live part").announced
}

fn odd(process: &Process, odd: Odd) -> u64 {
    process.counters.as_ref().expect("a live part").odd[odd as usize]
}

fn calls<'a>(capture: &'a Capture, function: &str) -> Vec<(&'a Call, &'a Shape)> {
    let processes = capture.processes.iter();
    let all = processes.flat_map(|p| p.calls.iter().map(|c| (c, &p.shapes[c.shape as usize])));
    all.filter(|(_, s)| capture.names.get(s.function) == Some(function))
        .collect()
}

/// Nothing lost, nothing unexplained.
#[track_caller]
fn complete(capture: &Capture, announced: u64) {
    let c = analyze::report(capture).completeness;
    assert_eq!((c.announced, c.recorded), (announced, announced), "{c:#?}");
    assert!(c.adds_up && c.lost.is_empty(), "{c:#?}");
}

/// Something that cargo built beside this test.
fn built(name: &str) -> PathBuf {
    let exe = std::env::current_exe().expect("known");
    let folder = exe.ancestors().nth(2).expect("target/PROFILE");
    let places = ["", "deps"].map(|f| folder.join(f).join(name));
    let found = places.into_iter().find(|p| p.is_file());
    found.unwrap_or_else(|| panic!("no {name} in {}; `make debug` builds it", folder.display()))
}

fn plugin() -> PathBuf {
    let named = std::env::var_os("NCCLSCOPE_PLUGIN").map(PathBuf::from);
    named.unwrap_or_else(|| built("libnccl_profiler_ncclscope.so"))
}

/// A job of fake-nccl with the built plugin.
fn played(
    script: &str,
    env: &[(&str, &str)],
    options: fake_nccl::Options,
) -> (fake_nccl::play::Outcome, Capture) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut all: Vec<(String, String)> = vec![
        (
            "NCCLSCOPE_OUT".into(),
            folder.path().join("c").display().to_string(),
        ),
        ("NCCLSCOPE_QUIET".into(), "1".into()),
    ];
    all.extend(env.iter().map(|(k, v)| ((*k).into(), (*v).into())));
    let options = fake_nccl::Options {
        plugin: Some(plugin().display().to_string()),
        program: Some(built("fake-nccl")),
        timeout: Some(Duration::from_secs(60)),
        env: all,
        ..options
    };
    let outcome = fake_nccl::play(script, &options).expect("played");
    assert!(outcome.as_expected(), "{:#?}", outcome.processes);
    let capture = Capture::open(&folder.path().join("c")).unwrap_or_else(|e| panic!("{e}"));
    (outcome, capture)
}

fn at(abi: u8) -> fake_nccl::Options {
    fake_nccl::Options {
        nccl: Some(release(abi)),
        ..Default::default()
    }
}

/// An item of `fake-nccl check`, at every ABI.
#[track_caller]
fn checked(item: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    // Each item is a process with this one's environment; its capture is of no interest.
    let output = std::process::Command::new(built("fake-nccl"))
        .args(["check", "--json", "--item", item, "--plugin"])
        .arg(plugin())
        .env("NCCLSCOPE_OUT", folder.path())
        .current_dir(folder.path())
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    assert_eq!(said.lines().count(), 7, "{said}");
}

// ---- Loading and lifetime

/// The bytes of an ELF file and the entries of its dynamic section.
fn dynamic(bytes: &[u8]) -> Vec<(u64, u64, Option<String>)> {
    use object::elf;
    use object::read::elf::{Dyn, FileHeader};
    let file = elf::FileHeader64::<object::Endianness>::parse(bytes).expect("ELF");
    let endian = file.endian().expect("known");
    let sections = file.sections(endian, bytes).expect("sections");
    let (entries, link) = sections
        .dynamic(endian, bytes)
        .expect("sound")
        .expect("a dynamic section");
    let strings = sections.strings(endian, bytes, link).expect("strings");
    let entry = |d: &elf::Dyn64<object::Endianness>| {
        let tag: u64 = d.d_tag(endian);
        let value: u64 = d.d_val(endian);
        let text = (tag == u64::from(elf::DT_NEEDED)).then(|| {
            let name = d.string(endian, strings).expect("a name");
            String::from_utf8_lossy(name).into_owned()
        });
        (tag, value, text)
    };
    entries.iter().map(entry).collect()
}

#[test]
fn line_01_the_seven_tables_are_exported_as_data_of_48_bytes() {
    use object::{Object, ObjectSymbol, SymbolKind};
    let bytes = std::fs::read(plugin()).expect("read");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let defined = file.dynamic_symbols().filter(|s| s.is_definition());
    let exported: Vec<_> = defined
        .map(|s| (s.name().expect("a name").to_owned(), s.size(), s.kind()))
        .collect();
    let names: BTreeSet<&str> = exported.iter().map(|e| e.0.as_str()).collect();
    assert_eq!(names, BTreeSet::from(nccl_abi::SYMBOLS));
    assert!(
        exported
            .iter()
            .all(|e| e.1 == 48 && e.2 == SymbolKind::Data),
        "{exported:?}"
    );
}

#[test]
fn line_02_loads_with_all_symbols_bound_and_needs_neither_nccl_nor_cuda() {
    let bytes = std::fs::read(plugin()).expect("read");
    for needed in dynamic(&bytes).into_iter().filter_map(|e| e.2) {
        let system = [
            "libc.",
            "libgcc_s.",
            "libm.",
            "libpthread.",
            "libdl.",
            "librt.",
            "ld-linux",
        ];
        assert!(
            system.iter().any(|s| needed.starts_with(s)),
            "it needs {needed}"
        );
    }
    let path = CString::new(plugin().display().to_string()).expect("no NUL");
    // SAFETY: the library has no initialisers but Rust's; it stays open.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!library.is_null());
        for symbol in nccl_abi::SYMBOLS {
            let symbol = CString::new(symbol).expect("no NUL");
            assert!(!libc::dlsym(library, symbol.as_ptr()).is_null());
        }
    }
}

#[test]
fn line_03_is_linked_to_stay_and_begins_again_after_dlclose() {
    const NODELETE: u64 = 8;
    let bytes = std::fs::read(plugin()).expect("read");
    let flags = dynamic(&bytes)
        .into_iter()
        .find(|e| e.0 == u64::from(object::elf::DT_FLAGS_1));
    assert!(flags.is_some_and(|e| e.1 & NODELETE != 0));
    checked("reload");
    // Recorded before and after, as two communicators of one process.
    let script =
        "ranks 2\ncomm dp\nall_reduce 1KiB x3 comm=dp\nreinit dp\nall_reduce 1KiB x4 comm=dp";
    let (_, capture) = played(script, &[], at(5));
    complete(&capture, 14);
    assert_eq!(
        (capture.processes.len(), capture.communicators.len()),
        (2, 2)
    );
}

#[test]
#[ignore = "played by the test below"]
fn job_static_plugin() {
    use fake_nccl::plugin::{Choice, Loader};
    for abi in ABIS {
        let loader = Loader::new(Choice {
            version: release(abi),
            plugin: Some("STATIC_PLUGIN".into()),
            highest_abi: abi,
            log_level: nccl_abi::log::LEVEL_NONE,
        });
        let identity = Identity {
            name: None,
            hash: abi.into(),
            nodes: 1,
            ranks: 2,
            rank: 0,
        };
        let profiler = loader.init(&identity).expect("a plugin");
        assert_eq!(loader.abi(), Ok(abi));
        // It is the one that is linked in.
        assert_eq!(profiler.table.start_address(), table(abi).start_address());
        let comm = Comm {
            table: profiler.table,
            context: profiler.context,
            hash: abi.into(),
        };
        comm.coll(REDUCE);
        loader.finalize(profiler);
    }
}

#[test]
fn static_plugin_is_found_in_the_program_itself() {
    let mut job = job!(job_static_plugin);
    assert!(job.run().success());
    complete(&job.capture(), 7);
}

#[test]
#[ignore = "played by line 4"]
fn job_line_04() {
    let limit = |what, bytes| {
        let limit = libc::rlimit {
            rlim_cur: bytes,
            rlim_max: bytes,
        };
        // SAFETY: a valid limit.
        assert_eq!(unsafe { libc::setrlimit(what, &limit) }, 0);
    };
    match std::env::var("LIMIT").as_deref() {
        Ok("files") => limit(libc::RLIMIT_NOFILE, 3),
        Ok("size") => limit(libc::RLIMIT_FSIZE, 0),
        _ => {}
    }
    for abi in ABIS {
        for before in [0, -1, i32::MAX] {
            MASK.store(before, Relaxed);
            // Asserts that init succeeds and gives a context.
            let comm = Comm::new(abi, 0xabc, 1);
            let mask = MASK.load(Relaxed) as u32 as u64;
            // Without a single file there is nothing to record into, and nothing is asked for.
            let off = mask == 0 && std::env::var("LIMIT").is_ok();
            assert!(off || mask & event::COLL != 0, "{mask:x}");
            comm.coll(REDUCE);
            comm.p2p(SEND);
            comm.finalize();
        }
    }
}

#[test]
fn line_04_init_never_fails_and_gives_a_context_whatever_the_environment() {
    let long = "%h%p%r%j%".repeat(5000);
    let everything = [
        "NCCLSCOPE_MODE",
        "NCCLSCOPE_TIMING",
        "NCCLSCOPE_NET",
        "NCCLSCOPE_FLUSH",
        "NCCLSCOPE_MEMORY",
        "NCCLSCOPE_MAX_SIZE",
        "NCCLSCOPE_RUN_SOCKET",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "TORCHELASTIC_RESTART_COUNT",
    ];
    let mut jobs: Vec<Vec<(&str, &str)>> =
        ["", "-1", "\u{fffd}/../%", "99999999999999999999", &long]
            .into_iter()
            .map(|value| everything.iter().map(|name| (*name, value)).collect())
            .collect();
    jobs.push(vec![("NCCLSCOPE_OUT", "/proc/nowhere")]);
    jobs.push(vec![("NCCLSCOPE_OUT", "/dev/full")]);
    jobs.push(vec![("NCCLSCOPE_OUT", &long)]);
    jobs.push(vec![("LIMIT", "files")]);
    jobs.push(vec![("LIMIT", "size")]);
    for env in jobs {
        let mut job = job!(job_line_04);
        for (name, value) in &env {
            job = job.env(name, value);
        }
        let status = job.quietly().run();
        assert!(status.success(), "{status} with {:.100?}", env);
    }
}

#[test]
#[ignore = "played by line 4"]
fn job_line_04_disk_full() {
    let mut comm = Driver::new(4);
    comm.all_reduce(1);
    // Every later write of the trace file fails with EFBIG, as a full disk's do with ENOSPC.
    let limit = libc::rlimit {
        rlim_cur: 16 << 10,
        rlim_max: 16 << 10,
    };
    // SAFETY: a valid limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    for i in 0..60_000 {
        comm.all_reduce(1 + i % 100);
        if i % 1000 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    comm.finalize();
}

#[test]
fn line_04_a_full_disk_is_counted_and_no_call_is_unaccounted_for() {
    let mut job = job!(job_line_04_disk_full)
        .env("NCCLSCOPE_FLUSH", "0.05")
        .quietly();
    assert!(job.run().success());
    let capture = job.capture();
    let c = analyze::report(&capture).completeness;
    let lost: u64 = c.lost.values().sum();
    assert_eq!(c.announced, 60_001);
    assert_eq!(c.recorded + lost, c.announced, "{c:#?}");
    assert!(c.adds_up, "{c:#?}");
    // On a busy machine the recorder's thread may come too late to find out, and rows run out first.
    let causes: Vec<&str> = c.lost.keys().map(String::as_str).collect();
    assert!(
        !causes.is_empty()
            && causes
                .iter()
                .all(|c| ["write_failed", "rows_full"].contains(c)),
        "{c:#?}"
    );
    let errno = process(&capture).counters.as_ref().map(|c| c.write_errno);
    assert_eq!(errno, Some(libc::EFBIG as u32));
}

#[test]
#[ignore = "played by line 5"]
fn job_line_05() {
    for abi in [4, 5, 6, 7] {
        let mut name = CString::new(format!("name at v{abi}")).expect("no NUL");
        let comm = Comm::named(
            abi,
            0x1122_3344_5566_0000 + u64::from(abi),
            17,
            Some(name.clone()),
        );
        // The caller's memory goes away.
        name = CString::new(vec![b'x'; name.as_bytes().len()]).expect("no NUL");
        drop(name);
        let nameless = Comm::named(abi, u64::MAX - u64::from(abi), 3, None);
        comm.finalize();
        nameless.finalize();
    }
}

#[test]
fn line_05_a_communicator_is_told_apart_at_both_orders_of_arguments() {
    let mut job = job!(job_line_05);
    assert!(job.run().success());
    let capture = job.capture();
    let told: Vec<_> = process(&capture)
        .communicators
        .iter()
        .map(|c| (c.abi, c.hash, c.name.clone(), c.nnodes, c.nranks, c.rank))
        .collect();
    let mut expected = Vec::new();
    for abi in [4, 5, 6, 7] {
        let name = Some(format!("name at v{abi}"));
        expected.push((
            abi,
            0x1122_3344_5566_0000 + u64::from(abi),
            name,
            3,
            24,
            Some(17),
        ));
        expected.push((abi, u64::MAX - u64::from(abi), None, 3, 24, Some(3)));
    }
    assert_eq!(told, expected);
}

#[test]
#[ignore = "played by line 6"]
fn job_line_06() {
    let together = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let together = &together;
            scope.spawn(move || {
                together.wait();
                for turn in 0..5 {
                    let comm = Comm::new(5, 0x600 + turn, thread);
                    (0..100).for_each(|_| {
                        comm.coll(REDUCE);
                    });
                    comm.finalize();
                }
            });
        }
    });
}

#[test]
fn line_06_eight_threads_begin_at_once() {
    let mut job = job!(job_line_06);
    assert!(job.run().success());
    let capture = job.capture();
    complete(&capture, 8 * 5 * 100);
    let comms = &process(&capture).communicators;
    let distinct: BTreeSet<_> = comms.iter().map(|c| (c.uid, c.hash, c.rank)).collect();
    assert_eq!((comms.len(), distinct.len()), (40, 40));
    // Threads of one process that share a hash are ranks of one communicator.
    assert_eq!(capture.communicators.len(), 5);
    checked("parallel_init");
}

#[test]
#[ignore = "played by line 7"]
fn job_line_07_killed() {
    let mut comm = Driver::new(7);
    (0..2000).for_each(|i| comm.all_reduce(1 + i % 10));
    flushed();
    (0..50).for_each(|_| comm.all_reduce(11));
    // SAFETY: ends this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

#[test]
#[ignore = "played by line 7"]
fn job_line_07_exit() {
    let mut comm = Driver::new(7);
    (0..1234).for_each(|_| comm.all_reduce(1));
    // SAFETY: the end of a program that destroys nothing.
    unsafe { libc::exit(0) }
}

#[test]
fn line_07_without_finalize_kill_loses_one_flush_interval_at_most_and_exit_nothing() {
    use std::os::unix::process::ExitStatusExt;
    let mut job = job!(job_line_07_killed).env("NCCLSCOPE_FLUSH", "0.05");
    assert_eq!(job.run().signal(), Some(libc::SIGKILL));
    // With the live part, which outlives the process: all (see also `killed_at_any_moment_keeps_every_completed_call`).
    complete(&job.capture(), 2050);
    // The node is gone, and the live part with it.
    let live = process(&job.capture())
        .fact("live")
        .expect("a path")
        .to_owned();
    std::fs::remove_file(live).expect("removed");
    let capture = job.capture();
    assert_eq!(process(&capture).live, LiveSource::Snapshot);
    let c = analyze::report(&capture).completeness;
    assert!(c.recorded >= 2000, "{c:#?}");
    assert!(c.adds_up);

    let mut job = job!(job_line_07_exit).env("NCCLSCOPE_FLUSH", "3600");
    assert!(job.run().success());
    let capture = job.capture();
    complete(&capture, 1234);
    let process = process(&capture);
    assert!(process.ended);
    // All of it is in the folder: the live part is not left behind.
    assert!(!Path::new(process.fact("live").expect("a path")).exists());
}

#[test]
#[ignore = "played by line 8"]
fn job_line_08() {
    for abi in ABIS {
        let (comm, other) = (Comm::new(abi, 1, 0), Comm::new(abi, 2, 0));
        let (api, coll) = comm.coll(REDUCE);
        let mut open: Vec<Handle> = vec![api, coll];
        open.extend(one_of_each(abi).iter().map(|e| comm.start(e, coll)));
        let late = |open: &[Handle]| {
            for handle in open {
                for number in 0..40 {
                    comm.table.state_raw(*handle, number, None);
                    comm.table.state_raw(*handle, number, Some(&mut [7; 2]));
                }
                comm.table.stop(*handle);
            }
            for event in one_of_each(abi) {
                comm.start(&event, coll);
            }
        };
        // Others go on, then none does.
        comm.table.finalize(comm.context);
        late(&open);
        other.coll(REDUCE);
        other.finalize();
        late(&open);
        comm.table.finalize(comm.context);
    }
    assert_eq!(MISDEEDS.errors.load(Relaxed), 0);
}

#[test]
fn line_08_callbacks_after_finalize_change_nothing() {
    let mut job = job!(job_line_08);
    assert!(job.run().success());
    let capture = job.capture();
    let p = process(&capture);
    // Below v5 the Coll and the P2p that `one_of_each` starts are calls, once while the communicator lived.
    let expected = 7 * 2 + 4 * 2;
    assert_eq!(announced(p), expected);
    complete(&capture, expected);
    assert!(odd(p, Odd::StaleContext) > 7);
    checked("late_callbacks");
}

static LATE: std::sync::Mutex<Option<Driver>> = std::sync::Mutex::new(None);

extern "C" fn calls_at_exit() {
    if let Some(mut comm) = LATE.lock().expect("held by none").take() {
        (0..100).for_each(|_| comm.all_reduce(9));
        comm.finalize();
    }
}

#[test]
#[ignore = "played by line 9"]
fn job_line_09() {
    // Registered before the plugin's, so it runs after it.
    // SAFETY: a plain registration.
    unsafe { libc::atexit(calls_at_exit) };
    let mut comm = Driver::new(9);
    (0..10).for_each(|_| comm.all_reduce(1));
    *LATE.lock().expect("free") = Some(comm);
    let mut busy = Driver::new(10);
    static CALLED: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(move || loop {
        busy.all_reduce(2);
        CALLED.store(true, Release);
    });
    until(|| CALLED.load(Acquire));
    // SAFETY: the thread goes on calling meanwhile, which is the point.
    unsafe { libc::exit(0) }
}

#[test]
fn line_09_callbacks_during_and_after_the_exit_handlers_do_no_harm() {
    let mut job = job!(job_line_09);
    assert!(job.run().success());
    let capture = job.capture();
    let recorded = calls(&capture, "AllReduce");
    let of = |count| recorded.iter().filter(|(_, s)| s.count == count).count();
    // What came before the exit is all there.
    assert_eq!(of(1), 10);
    assert!(of(2) > 0);
    checked("exit");
}

#[test]
#[ignore = "played by line 10"]
fn job_line_10() {
    let mut comm = Driver::new(0x10);
    let open = comm.group(false);
    // Keeps every lock of the recorder busy: init, finalize and the flush that it waits for.
    let going = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let going = &going;
        scope.spawn(move || {
            while going.load(Relaxed) {
                let mut other = Driver::new(0x11);
                other.all_reduce(5);
                other.finalize();
            }
        });
        for turn in 0..40 {
            comm.all_reduce(1);
            // SAFETY: the child calls the plugin and exits.
            let child = unsafe { libc::fork() };
            assert!(child >= 0, "turn {turn}: no process");
            if child == 0 {
                // The parent's names mean nothing here, and are not touched.
                comm.stop(open);
                comm.all_reduce(2);
                if turn % 4 == 0 {
                    // NCCL begins anew in the child, while the parent's lock may look held.
                    let mut own = Driver::new(0xc41d);
                    own.all_reduce(3);
                    own.finalize();
                }
                // SAFETY: the handlers run, the plugin's too.
                unsafe { libc::exit(0) };
            }
            let began = Instant::now();
            loop {
                let mut status = 0;
                // SAFETY: our child.
                if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
                    assert_eq!(status, 0, "turn {turn}");
                    break;
                }
                if began.elapsed() > Duration::from_secs(20) {
                    eprintln!("the child of turn {turn} hangs");
                    // SAFETY: our child, and the end of this process with its busy thread.
                    unsafe {
                        libc::kill(child, libc::SIGKILL);
                        libc::_exit(1);
                    }
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        going.store(false, Relaxed);
    });
    comm.all_reduce(4);
    comm.finalize();
}

#[test]
fn line_10_a_forked_child_neither_touches_its_parents_rows_nor_hangs() {
    let mut job = job!(job_line_10);
    assert!(job.run().success());
    let capture = job.capture();
    let counts = |p: &Process| {
        let mut counts = BTreeMap::new();
        for call in &p.calls {
            *counts
                .entry(p.shapes[call.shape as usize].count)
                .or_insert(0) += 1;
        }
        counts
    };
    let (mut parents, mut children) = (0, 0);
    for p in &capture.processes {
        let counts = counts(p);
        if counts.contains_key(&3) {
            assert_eq!(
                counts,
                BTreeMap::from([(3, 1)]),
                "a child recorded its own call only"
            );
            children += 1;
        } else {
            assert_eq!(
                (counts.get(&1), counts.get(&2), counts.get(&4)),
                (Some(&40), None, Some(&1))
            );
            parents += 1;
        }
    }
    assert_eq!((parents, children), (1, 10));
    checked("fork");
}

// ---- Descriptors

#[test]
#[ignore = "played by lines 11 to 13"]
fn job_line_11() {
    for abi in ABIS {
        let comm = Comm::new(abi, u64::from(abi), 5);
        let send = P2p {
            func: c"Send",
            ..SEND
        };
        comm.coll(Coll { seq: 41, ..REDUCE });
        comm.p2p(send);
        comm.finalize();
    }
}

#[test]
fn line_11_every_field_arrives_at_every_version() {
    // The offsets themselves are asserted when nccl-abi is compiled; this is what became of the bytes behind them.
    let mut job = job!(job_line_11).env("NCCLSCOPE_MODE", "full");
    assert!(job.run().success());
    let capture = job.capture();
    complete(&capture, 14);
    let text = |name| capture.names.get(name).unwrap_or("-");
    let p = process(&capture);
    for (abi, ((call, coll), (_, p2p))) in ABIS.zip(
        calls(&capture, "Reduce")
            .into_iter()
            .zip(calls(&capture, "Send")),
    ) {
        assert_eq!(
            [coll.datatype, coll.algorithm, coll.protocol, p2p.datatype].map(text),
            ["ncclFloat16", "TREE", "LL128", "ncclInt64"],
            "v{abi}"
        );
        assert_eq!(
            (coll.count, coll.root, call.seq, coll.nwarps),
            (1000, Some(3), 42, 7),
            "v{abi}"
        );
        assert_eq!((p2p.count, p2p.peer), (77, Some(9)), "v{abi}");
        let channels = if abi < 4 { 0 } else { 4 };
        assert_eq!(coll.nchannels, channels, "v{abi}");
        let comm = p
            .communicators
            .iter()
            .find(|c| c.uid == coll.uid)
            .expect("there");
        assert_eq!(
            (comm.abi, comm.hash, comm.rank),
            (abi.into(), abi.into(), Some(5)),
            "v{abi}"
        );
        let extra = &p.extras[call.extra as usize - 1];
        assert_eq!(
            (extra.send_buffer, extra.recv_buffer),
            (0x5e5e, 0xdede),
            "v{abi}"
        );
        let stream = if abi < 5 { 0 } else { 0x57 };
        assert_eq!((coll.stream, p2p.stream), (stream, stream), "v{abi}");
    }
    assert_eq!(calls(&capture, "Reduce").len(), 7);
}

#[test]
#[ignore = "played by line 12"]
fn job_line_12() {
    for abi in ABIS {
        let comm = Comm::new(abi, u64::from(abi), 0);
        let announcing = if abi < 5 {
            Event::Coll(Coll {
                comm_hash: u64::from(abi),
                ..REDUCE
            })
        } else {
            Event::CollApi {
                func: c"Reduce",
                count: 1,
                datatype: c"ncclInt8",
                root: 0,
                stream: 0,
                captured: false,
                tag: 0,
            }
        };
        let mut descr = Descr::default();
        descr.encode(comm.table.seat, &announcing, Handle::NULL, 0);
        if abi < 5 {
            assert_eq!(
                descr.0[1..8],
                [POISON; 7],
                "v{abi}: the rest of the word is garbage"
            );
        } else {
            assert_eq!(descr.0[..8], event::COLL_API.to_le_bytes(), "v{abi}");
        }
        let mut handle = Handle::GARBAGE;
        comm.table.start_raw(comm.context, &mut handle, &mut descr);
        if abi >= 5 {
            // Read as eight bytes, this is a type that no ABI has.
            descr.0[7] = 1;
            comm.table.start_raw(comm.context, &mut handle, &mut descr);
        }
        comm.finalize();
    }
}

#[test]
fn line_12_type_is_one_byte_up_to_v4_and_eight_from_v5_on() {
    let mut job = job!(job_line_12);
    assert!(job.run().success());
    let capture = job.capture();
    assert_eq!(announced(process(&capture)), 7);
    assert_eq!(odd(process(&capture), Odd::UnknownType), 3);
}

#[test]
#[ignore = "played by line 13"]
fn job_line_13() {
    for abi in ABIS {
        let comm = Comm::new(abi, u64::from(abi), 5);
        let coll = Coll {
            comm_hash: u64::from(abi),
            ..REDUCE
        };
        for garbage in [POISON, 0, 0xff] {
            let send = |event: Event, parent: Handle| {
                let mut descr = Descr([garbage; 136]);
                descr.encode(comm.table.seat, &event, parent, 5);
                let mut handle = Handle::GARBAGE;
                comm.table.start_raw(comm.context, &mut handle, &mut descr);
                comm.table.stop(handle);
                handle
            };
            let group = if abi < 5 {
                Handle::NULL
            } else {
                send(
                    Event::GroupApi {
                        captured: false,
                        depth: 1,
                    },
                    Handle::NULL,
                )
            };
            let api = if abi < 5 {
                Handle::NULL
            } else {
                let (func, datatype, count, root) =
                    (coll.func, coll.datatype, coll.count, coll.root);
                send(
                    Event::CollApi {
                        func,
                        count,
                        datatype,
                        root,
                        stream: 1,
                        captured: false,
                        tag: 0,
                    },
                    group,
                )
            };
            let task = send(Event::Coll(coll), api);
            send(
                Event::ProxyOp {
                    pid: std::process::id() as i32,
                    channel: 0,
                    peer: 1,
                    steps: 1,
                    chunk: 1,
                    send: true,
                },
                task,
            );
        }
        comm.finalize();
    }
}

#[test]
fn line_13_bytes_that_the_type_does_not_define_are_not_read() {
    let mut job = job!(job_line_13);
    assert!(job.run().success());
    let capture = job.capture();
    complete(&capture, 21);
    let p = process(&capture);
    for comm in &p.communicators {
        let of_comm = p
            .calls
            .iter()
            .filter(|c| p.shapes[c.shape as usize].uid == comm.uid);
        // Three descriptors that differ in their garbage only make calls of one shape.
        let shapes: Vec<u32> = of_comm.clone().map(|c| c.shape).collect();
        assert_eq!(shapes.len(), 3);
        assert!(
            shapes.iter().all(|s| *s == shapes[0]),
            "v{}: {:#?}",
            comm.abi,
            p.shapes
        );
        assert!(of_comm
            .map(|c| c.extra)
            .all(|e| p.extras[e as usize - 1].ops_started == 1));
    }
    checked("every_byte");
}

#[test]
#[ignore = "played by lines 14 and 15"]
fn job_line_14() {
    for abi in ABIS {
        let comm = Comm::new(abi, u64::from(abi), 5);
        let (api, coll) = comm.coll(REDUCE);
        let bits: &[u64] = if abi < 5 {
            &[0, 0x80, 0xff]
        } else {
            &[0, 1 << 16, 1 << 40, u64::MAX]
        };
        for bit in bits {
            let handle = comm.start(&Event::Unknown(*bit), coll);
            comm.table.stop(handle);
        }
        if abi >= 3 {
            for id in [0, -1, i64::MAX, 0x7fff_0001] {
                let handle = comm.start(&Event::NetPlugin { id, data: 8 }, coll);
                comm.table.state_raw(handle, state::NET_PLUGIN_UPDATE, None);
                comm.table.stop(handle);
            }
        }
        let mut handles = vec![api, coll, Handle::NULL];
        handles.extend(
            one_of_each(abi)
                .iter()
                .filter(|e| e.bit() & (event::COLL | event::P2P) == 0)
                .map(|e| comm.start(e, coll)),
        );
        for handle in handles {
            for number in (0..64).chain([255, 256, 0x8000_0000, u32::MAX]) {
                comm.table.state_raw(handle, number, None);
            }
        }
        comm.finalize();
    }
    assert_eq!(
        (
            MISDEEDS.errors.load(Relaxed),
            MISDEEDS.unwritten.load(Relaxed)
        ),
        (0, 0)
    );
}

#[test]
fn lines_14_and_15_unknown_types_states_and_null_arguments_are_ignored() {
    let mut job = job!(job_line_14)
        .env("NCCLSCOPE_MODE", "full")
        .env("NCCLSCOPE_TIMING", "stamps");
    assert!(job.run().success());
    let capture = job.capture();
    let p = process(&capture);
    complete(&capture, 7);
    // 0x80 is NetPlugin from v3 on.
    assert_eq!(odd(p, Odd::UnknownType), 2 * 3 + 2 * 2 + 3 * 4);
    assert!(odd(p, Odd::UnknownState) > 7 * 32);
    // A state without arguments tells no stamp and moves no byte.
    assert!(p.calls.iter().all(|c| c.gpu_stop == 0));
    for call in &p.calls {
        let moved = p
            .extras
            .get((call.extra as usize).wrapping_sub(1))
            .map(|e| (e.bytes_sent, e.bytes_received));
        assert!(matches!(moved, None | Some((0, 0))), "{moved:?}");
    }
    for item in ["unknown_type", "unknown_state", "null_args", "net_plugin"] {
        checked(item);
    }
}

#[test]
#[ignore = "played by line 16"]
fn job_line_16() {
    for abi in ABIS {
        let comm = Comm::new(abi, u64::from(abi), 5);
        for text in [c"", c"Unknown", c"Invalid"] {
            comm.coll(Coll {
                func: text,
                datatype: text,
                algo: text,
                proto: text,
                ..REDUCE
            });
            comm.p2p(P2p {
                func: text,
                datatype: text,
                ..SEND
            });
        }
        comm.finalize();
    }
}

#[test]
fn line_16_null_and_empty_texts_are_taken() {
    let mut job = job!(job_line_16);
    assert!(job.run().success());
    let capture = job.capture();
    complete(&capture, 7 * 6);
    // v1 has numbers for names; from v2 on there are no names behind the empty texts, and each other text is kept.
    let p = process(&capture);
    let named = |text: Option<&str>| {
        p.calls
            .iter()
            .filter(|c| capture.names.get(p.shapes[c.shape as usize].datatype) == text)
            .count()
    };
    assert_eq!((named(Some("Unknown")), named(Some("Invalid"))), (12, 12));
    checked("null_strings");
    checked("odd_strings");
}

#[test]
fn line_17_the_garbage_channels_of_the_v4_shim_are_not_believed() {
    let script = "ranks 2\nrepeat 20 { group { send 1MiB to=+1 ; recv 1MiB from=-1 } }";
    let options = fake_nccl::Options {
        highest_abi: 4,
        ..at(5)
    };
    let (outcome, capture) = played(script, &[("NCCLSCOPE_TIMING", "stamps")], options);
    assert_eq!(outcome.abi, Ok(4));
    complete(&capture, 80);
    for (call, shape) in calls(&capture, "Send")
        .into_iter()
        .chain(calls(&capture, "Recv"))
    {
        assert_eq!(shape.nchannels, 0);
        // Sealed in order, not given up on: the stamps that came are all there are.
        assert!(
            call.sealed
                && call.channels_stopped > 0
                && call.channels_stopped == call.channels_started
        );
    }
}

// ---- Handles and threads

#[test]
#[ignore = "played by line 18"]
fn job_line_18() {
    for abi in ABIS {
        let comm = Comm::new(abi, u64::from(abi), 5);
        for parent in [Handle::NULL, Handle::GARBAGE, comm.context] {
            for event in one_of_each(abi) {
                // Asserts that it was written.
                let handle = comm.start(&event, parent);
                assert_ne!(handle, Handle::NULL, "v{abi} {event:?}");
            }
        }
        comm.finalize();
    }
}

#[test]
fn line_18_every_start_writes_a_handle_that_is_not_null() {
    let mut job = job!(job_line_18);
    assert!(job.run().success());
    checked("handles");
}

#[test]
#[ignore = "played by line 19"]
fn job_line_19() {
    let mut comm = Driver::new(0x19);
    let group = comm.group(false);
    let api = comm.coll_api(group, 100, false);
    let coll = comm.coll(api, 100, 1);
    let kernel = comm.start(event::KERNEL_CH, coll, |u| {
        u.kernel_ch.channel_id = 0;
        u.kernel_ch.p_timer = 1000;
    });
    comm.state(kernel, state::KERNEL_CH_STOP, Some(2000));
    comm.stop(kernel);
    comm.stop(group);
    // Stopped twice; changed after its stop; nothing at all.
    (0..3).for_each(|_| comm.stop(kernel));
    (0..5).for_each(|_| comm.stop(std::ptr::null_mut()));
    comm.state(std::ptr::null_mut(), state::NET_PLUGIN_UPDATE, None);
    // The row is sealed, and other calls take its place: 20 000 are more than there are rows.
    for i in 0..20_000 {
        comm.all_reduce(200 + i % 50);
        if i % 2000 == 0 {
            recorded(|p| p.sealed + 4000 > i as u64);
        }
    }
    for handle in [kernel, coll, api, group] {
        comm.state(handle, state::KERNEL_CH_STOP, Some(999_999));
        comm.stop(handle);
        let child = comm.start(event::KERNEL_CH, handle, |u| {
            u.kernel_ch.channel_id = 0;
            u.kernel_ch.p_timer = 1;
        });
        comm.stop(child);
    }
    comm.finalize();
}

#[test]
fn line_19_stops_of_null_stopped_and_recycled_handles_have_no_effect_and_are_counted() {
    let mut job = job!(job_line_19)
        .env("NCCLSCOPE_TIMING", "stamps")
        .env("NCCLSCOPE_FLUSH", "0.05");
    assert!(job.run().success());
    let capture = job.capture();
    let p = process(&capture);
    complete(&capture, 20_001);
    assert_eq!(odd(p, Odd::DoubleStop), 3);
    assert_eq!(odd(p, Odd::NullHandle), 6);
    assert!(odd(p, Odd::StaleHandle) >= 4, "{:?}", p.counters);
    let first = &p.calls[0];
    assert_eq!((first.gpu_start, first.gpu_stop), (1000, 2000));
    assert_eq!((first.channels_started, first.channels_stopped), (1, 1));
    // Whoever has the place now kept its own stamps: 9984 ns each in the driver.
    let strange = p.calls[1..]
        .iter()
        .filter(|c| c.gpu_stop - c.gpu_start != 9_984)
        .count();
    assert_eq!(strange, 0);
    for item in [
        "stale_stop",
        "double_stop",
        "null_stop",
        "stale_state",
        "null_state",
    ] {
        checked(item);
    }
}

#[test]
#[ignore = "played by line 20"]
fn job_line_20() {
    for abi in ABIS {
        let comm = Comm::new(abi, u64::from(abi), 5);
        comm.coll(REDUCE);
        let mut word = 0x9e37_79b9_7f4a_7c15u64;
        for i in 0..20_000usize {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            // Random, small, kernel space, misaligned, and a name of ours with one bit wrong.
            let ours = comm.context.0;
            let pointer = [
                word as usize,
                i,
                usize::MAX - i,
                ours ^ (1 << (i % 52)),
                0x7fff_0000_0001 + i,
            ][i % 5];
            let pointer = Handle(pointer);
            comm.table.stop(pointer);
            comm.table
                .state_raw(pointer, (word % 40) as u32, Some(&mut [word; 2]));
            let kinds = one_of_each(abi);
            let event = &kinds[i % kinds.len()];
            let mut handle = Handle::GARBAGE;
            if event.bit() & (event::COLL | event::P2P) == 0 || abi >= 5 {
                comm.table
                    .start(comm.context, event, pointer, 5, &mut handle);
            }
            // With a context that it never gave, nothing announces.
            comm.table
                .start(pointer, event, comm.context, 5, &mut handle);
            comm.table.finalize(pointer);
        }
        comm.coll(REDUCE);
        comm.finalize();
    }
}

#[test]
fn line_20_nothing_that_is_handed_back_is_followed() {
    let mut job = job!(job_line_20);
    assert!(
        job.run().success(),
        "a word that was handed back was followed"
    );
    let capture = job.capture();
    complete(&capture, 14);
    assert!(odd(process(&capture), Odd::ForeignHandle) > 100_000);
    for item in [
        "foreign_stop",
        "foreign_parent",
        "foreign_context",
        "null_context",
        "random_handles",
    ] {
        checked(item);
    }
}

#[test]
#[ignore = "played by line 21"]
fn job_line_21() {
    for abi in ABIS {
        let comm = Comm::new(abi, u64::from(abi), 5);
        let (_, coll) = comm.coll(REDUCE);
        // The very words that would be right in this process.
        for pid in [0, -1, 1, std::process::id() as i32 + 1] {
            let op = comm.start(
                &Event::ProxyOp {
                    pid,
                    channel: 0,
                    peer: 1,
                    steps: 1,
                    chunk: 1,
                    send: true,
                },
                coll,
            );
            let step = comm.start(&Event::ProxyStep { step: 0 }, op);
            comm.table.state(
                step,
                state::PROXY_STEP_SEND_WAIT,
                StateArgs::ProxyStep { bytes: 4096 },
            );
            comm.table.stop(step);
            comm.table.stop(op);
        }
        comm.finalize();
    }
}

#[test]
fn line_21_a_proxy_operation_of_another_process_touches_nothing_here() {
    let mut job = job!(job_line_21);
    assert!(job.run().success());
    let capture = job.capture();
    let p = process(&capture);
    complete(&capture, 7);
    assert_eq!(odd(p, Odd::ForeignPid), 4 * 7);
    let touched = p
        .calls
        .iter()
        .filter(|c| c.extra != 0)
        .map(|c| &p.extras[c.extra as usize - 1]);
    assert!(touched
        .clone()
        .all(|e| e.ops_started == 0 && e.bytes_sent == 0 && e.steps == 0));
    checked("foreign_pid");
}

#[test]
#[ignore = "played by line 22"]
fn job_line_22() {
    let comm = Driver::new(0x22);
    let shared = std::sync::Arc::new(comm);
    // One thread announces, one launches, one delivers kernels, one stops what it did not start: as in NCCL, each
    // handing on to the next. Two such teams on one communicator.
    std::thread::scope(|scope| {
        for team in 0..2u64 {
            let (to_stop, stops) = std::sync::mpsc::sync_channel::<usize>(256);
            let (to_run, runs) = std::sync::mpsc::sync_channel::<(usize, usize)>(256);
            let (announcing, running) = (shared.clone(), shared.clone());
            scope.spawn(move || {
                for i in 0..10_000usize {
                    let count = 1 + (i % 100) + 1000 * team as usize;
                    let group = announcing.group(false);
                    let api = announcing.coll_api(group, count, false);
                    let coll = announcing.start(event::COLL, api, |u| {
                        u.coll = job::coll_fields(count, 1);
                    });
                    to_run.send((coll as usize, count)).expect("taken");
                    to_stop.send(group as usize).expect("taken");
                    to_stop.send(coll as usize).expect("taken");
                }
            });
            let stopping = shared.clone();
            scope.spawn(move || {
                for handle in stops {
                    stopping.stop(handle as *mut c_void);
                }
            });
            scope.spawn(move || {
                for (i, (coll, count)) in runs.into_iter().enumerate() {
                    let stamp = (1 << 40) + 1_000_000 * i as u64;
                    let kernel = running.start(event::KERNEL_CH, coll as *mut c_void, |u| {
                        u.kernel_ch.channel_id = team as u8;
                        u.kernel_ch.p_timer = stamp;
                    });
                    running.state(kernel, state::KERNEL_CH_STOP, Some(stamp + count as u64));
                    running.stop(kernel);
                }
            });
        }
    });
    std::sync::Arc::into_inner(shared)
        .expect("all threads are done")
        .finalize();
}

#[test]
fn line_22_six_threads_on_one_communicator_lose_and_mix_nothing() {
    let mut job = job!(job_line_22)
        .env("NCCLSCOPE_TIMING", "stamps")
        .env("NCCLSCOPE_MEMORY", "16MiB");
    assert!(job.run().success());
    let capture = job.capture();
    let p = process(&capture);
    assert_eq!(announced(p), 20_000);
    let c = analyze::report(&capture).completeness;
    assert!(c.adds_up, "{c:#?}");
    // Each kernel ran as long as its call's count says: no row got another's.
    let mut timed = 0;
    for call in p.calls.iter().filter(|c| c.gpu_stop != 0) {
        assert_eq!(
            call.gpu_stop - call.gpu_start,
            p.shapes[call.shape as usize].count
        );
        timed += 1;
    }
    assert!(timed > 10_000, "{timed}");
    checked("threads");
}

#[test]
#[ignore = "played by line 23"]
fn job_line_23() {
    let mut comm = Driver::new(0x23);
    // `coll_api` and `coll` stop their event before the next begins, and the group ends before the kernel does.
    comm.all_reduce(10);
    comm.finalize();
}

#[test]
fn line_23_children_join_parents_that_were_stopped() {
    let mut job = job!(job_line_23).env("NCCLSCOPE_TIMING", "stamps");
    assert!(job.run().success());
    let capture = job.capture();
    complete(&capture, 1);
    let (call, shape) = calls(&capture, "AllReduce")[0];
    assert_eq!(capture.names.get(shape.algorithm), Some("RING"));
    assert_eq!(call.gpu_ns(shape), Ok(9_984));
    assert_ne!(shape.parts & part::LAUNCHED, 0);
    assert_eq!(odd(process(&capture), Odd::Orphan), 0);
}

#[test]
#[ignore = "played by line 24"]
fn job_line_24() {
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/statm").expect("read");
        let pages: u64 = text
            .split(' ')
            .nth(1)
            .expect("a field")
            .parse()
            .expect("a number");
        pages * 4096
    };
    let mut comm = Driver::new(0x24);
    comm.all_reduce(1);
    let group = comm.group(false);
    let api = comm.coll_api(group, 1, false);
    let coll = comm.coll(api, 1, 1);
    comm.stop(group);
    let before = resident();
    for i in 0..100_000u32 {
        let op = comm.start(event::PROXY_OP, coll, |u| {
            u.proxy_op.pid = std::process::id() as i32;
            u.proxy_op.channel_id = 0;
            u.proxy_op.is_send = 1;
        });
        comm.start(event::PROXY_STEP, op, |u| u.proxy_step.step = i as i32);
        comm.start(event::KERNEL_CH, coll, |u| {
            u.kernel_ch.channel_id = 0;
            u.kernel_ch.p_timer = 1;
        });
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes more");
    // What comes later finds its place, and the communicator's other calls are sealed without waiting for these.
    for _ in 0..100 {
        comm.all_reduce(2);
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: no destroy, so nothing is hurried.
    unsafe { libc::_exit(0) }
}

#[test]
fn line_24_events_that_never_stop_take_bounded_memory_and_hold_up_nothing() {
    let mut job = job!(job_line_24).env("NCCLSCOPE_FLUSH", "0.05");
    assert!(job.run().success());
    let capture = job.capture();
    let p = process(&capture);
    complete(&capture, 102);
    // 4096 are remembered; the others were aged out by newer ones.
    assert_eq!(odd(p, Odd::Unstopped), 100_000 - 4096);
    checked("unstopped");
    checked("unstopped_op");
}

/// Counts what the current thread allocates while it wants to know.
struct Counting;

static COUNTED: AtomicU64 = AtomicU64::new(0);
static COUNTED_THREAD: AtomicU64 = AtomicU64::new(0);

fn count_allocation() {
    // SAFETY: a plain call; pthread_self allocates nothing.
    let me = unsafe { libc::pthread_self() };
    if COUNTED_THREAD.load(Relaxed) == me {
        COUNTED.fetch_add(1, Relaxed);
    }
}

// SAFETY: the system's allocator does the work.
unsafe impl std::alloc::GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
        count_allocation();
        // SAFETY: as the caller's.
        unsafe { std::alloc::System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: std::alloc::Layout) {
        count_allocation();
        // SAFETY: as the caller's.
        unsafe { std::alloc::System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// All kinds of callbacks, none of which allocates on this side.
fn all_callbacks(comm: &mut Driver, pid: i32) {
    comm.all_reduce(3);
    let group = comm.group(false);
    let api = comm.coll_api(group, 100, false);
    let coll = comm.coll(api, 100, 2);
    comm.stop(group);
    comm.kernel(coll, 2);
    let op = comm.start(event::PROXY_OP, coll, |u| {
        u.proxy_op.pid = pid;
        u.proxy_op.channel_id = 0;
        u.proxy_op.is_send = 1;
    });
    let step = comm.start(event::PROXY_STEP, op, |u| u.proxy_step.step = 0);
    for number in [
        state::PROXY_STEP_SEND_GPU_WAIT,
        state::PROXY_STEP_SEND_PEER_WAIT,
        state::PROXY_STEP_SEND_WAIT,
    ] {
        comm.state(step, number, Some(100));
    }
    comm.stop(step);
    comm.stop(op);
    // And what is wrong.
    comm.stop(std::ptr::null_mut());
    comm.stop(0xdead_beef as *mut c_void);
    comm.stop(op);
    let unknown = comm.start(1 << 40, coll, |_| {});
    comm.state(unknown, 77, None);
}

/// Others who keep the recorder's locks busy, until `going` ends.
fn busy_locks(going: &AtomicBool) {
    let mut hash = 0x2500;
    while going.load(Relaxed) {
        let mut other = Driver::new(hash);
        other.all_reduce(1);
        other.finalize();
        hash += 1;
    }
}

/// The first system call that was made in spite of [`forbid_system_calls`], + 1.
static FORBIDDEN: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_forbidden(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: siginfo_t of SIGSYS has the call's number at byte 24 on 64-bit Linux.
    let number = unsafe { info.cast::<u8>().add(24).cast::<i32>().read() };
    let _ = FORBIDDEN.compare_exchange(0, number + 1, Relaxed, Relaxed);
    loop {
        std::hint::spin_loop();
    }
}

/// From here on this thread makes no system call but its own end; false where that can't be had.
///
/// # Safety
/// The thread must not return.
unsafe fn forbid_system_calls() -> bool {
    const fn op(code: u32, k: u32, skip: u8) -> libc::sock_filter {
        libc::sock_filter {
            code: code as u16,
            jt: skip,
            jf: 0,
            k,
        }
    }
    let mut program = [
        // The call's number is the first word that a filter sees.
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        op(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            libc::SYS_exit as u32,
            1,
        ),
        op(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_TRAP, 0),
        op(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: plain calls on valid arguments.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_forbidden as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut());
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) == 0
    }
}

#[test]
#[ignore = "played by line 25"]
fn job_line_25() {
    let mut comm = Driver::new(0x25);
    let pid = std::process::id() as i32;
    let going = &AtomicBool::new(true);
    let done = &AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(move || busy_locks(going));
        // From its very first callback, with every row taken and the totals' turn on the way.
        let worker = scope.spawn(move || {
            // SAFETY: plain calls.
            unsafe {
                COUNTED_THREAD.store(libc::pthread_self(), Relaxed);
                for _ in 0..20_000 {
                    all_callbacks(&mut comm, pid);
                }
                COUNTED_THREAD.store(0, Relaxed);
                done.store(1, Release);
                if !forbid_system_calls() {
                    done.store(3, Release);
                    return;
                }
                for _ in 0..20_000 {
                    all_callbacks(&mut comm, pid);
                }
                done.store(2, Release);
                // Shows that one would have been seen.
                libc::syscall(libc::SYS_getppid);
                // The one call that is left; what Rust and pthreads do at a thread's end is not.
                libc::syscall(libc::SYS_exit, 0);
            }
        });
        let began = Instant::now();
        while done.load(Acquire) < 3
            && FORBIDDEN.load(Relaxed) == 0
            && began.elapsed() < Duration::from_secs(30)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        let made = libc::c_long::from(FORBIDDEN.load(Relaxed) - 1);
        let status = match (COUNTED.load(Relaxed), done.load(Acquire)) {
            (0, 2) if made == libc::SYS_getppid => 0,
            (0, 3) => {
                eprintln!("no seccomp here: system calls were not looked at");
                0
            }
            (0, _) => {
                eprintln!("system call {made} was made");
                11
            }
            _ => 12,
        };
        // Not joined: the worker is gone without a word.
        std::mem::forget(worker);
        // SAFETY: ends the process with its stuck scope.
        unsafe { libc::_exit(status) }
    });
}

#[test]
fn line_25_callbacks_allocate_nothing_and_make_no_system_call() {
    for (mode, timing) in [("trace", "stamps"), ("profile", "host"), ("full", "stamps")] {
        let mut job = job!(job_line_25)
            .env("NCCLSCOPE_MODE", mode)
            .env("NCCLSCOPE_TIMING", timing);
        job = job
            .env("NCCLSCOPE_MEMORY", "1MiB")
            .env("NCCLSCOPE_FLUSH", "0.05");
        let status = job.run().code();
        assert_ne!(status, Some(11), "{mode}: a callback made a system call");
        assert_ne!(status, Some(12), "{mode}: a callback allocated");
        assert_eq!(status, Some(0), "{mode}");
    }
}

#[cfg(debug_assertions)]
#[test]
#[ignore = "played by line 26"]
fn job_line_26() {
    use nccl_profiler_ncclscope::forced;
    for abi in ABIS {
        forced::forget();
        let comm = Comm::new(abi, u64::from(abi), 5);
        let (_, coll) = comm.coll(REDUCE);
        forced::at_next_entry();
        let other = Comm::new(abi, 0x26, 6);
        forced::at_next_entry();
        let handle = comm.start(&Event::Group, coll);
        assert_ne!(handle, Handle::NULL);
        forced::at_next_entry();
        comm.table.state_raw(coll, 22, Some(&mut [1; 2]));
        forced::at_next_entry();
        comm.table.stop(coll);
        forced::at_next_entry();
        comm.table.finalize(comm.context);
        // Recording is off now, and everything is still answered.
        comm.coll(REDUCE);
        other.coll(REDUCE);
        other.finalize();
    }
    assert_eq!(
        (
            MISDEEDS.errors.load(Relaxed),
            MISDEEDS.unwritten.load(Relaxed)
        ),
        (0, 0)
    );
}

#[cfg(debug_assertions)]
#[test]
fn line_26_no_panic_leaves_any_entry_point_of_any_table() {
    let mut job = job!(job_line_26).quietly();
    let status = job.run();
    assert!(status.success(), "{status}");
    let capture = job.capture();
    let p = process(&capture);
    assert_eq!(odd(p, Odd::Panic), 5 * 7);
    assert_eq!(
        p.counters.as_ref().map(|c| c.state),
        Some(2),
        "the report must say that recording went off"
    );
    assert_eq!(announced(p), 7);
}

#[test]
#[ignore = "played by line 27"]
fn job_line_27() {
    const BEFORE: i32 = 0x5a5a_5a5a;
    // The word gets a page of its own that can be made read-only.
    // SAFETY: a new mapping, used as one atomic.
    let word = unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(page, libc::MAP_FAILED);
        &*page.cast::<AtomicI32>()
    };
    let seen = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for abi in ABIS {
            let wanted = {
                let comm = Comm::new(abi, 1, 0);
                comm.finalize();
                MASK.load(Relaxed)
            };
            seen.store(false, Relaxed);
            word.store(BEFORE, SeqCst);
            // A thread of NCCL that looks at the mask meanwhile sees the old or the new one, and no third.
            let watcher = scope.spawn(move || {
                let mut values = BTreeSet::new();
                while !seen.load(Relaxed) {
                    values.insert(word.load(Relaxed));
                }
                values
            });
            for _ in 0..200 {
                word.store(BEFORE, SeqCst);
                let comm = comm_with_mask(abi, word);
                comm.finalize();
            }
            seen.store(true, Relaxed);
            let values = watcher.join().expect("no panic");
            assert!(
                values.is_subset(&BTreeSet::from([BEFORE, wanted])),
                "{values:x?}"
            );
        }
    });
    // Nobody writes it after init: a store would be the end of the process.
    let comm = comm_with_mask(5, word);
    let page = std::ptr::from_ref(word).cast_mut().cast();
    // SAFETY: the page is ours.
    let result = unsafe { libc::mprotect(page, 4096, libc::PROT_READ) };
    assert_eq!(result, 0);
    comm.coll(REDUCE);
    for event in one_of_each(5) {
        // None of these types is in the mask of NCCLSCOPE_NET=off and timing host but those of a call.
        let handle = comm.start(&event, Handle::NULL);
        comm.table.stop(handle);
    }
    comm.finalize();
}

fn comm_with_mask(abi: u8, mask: &'static AtomicI32) -> Comm {
    let table = table(abi);
    let identity = Identity {
        name: None,
        hash: 27,
        nodes: 1,
        ranks: 8,
        rank: 0,
    };
    let (result, context) = table.init(mask, &identity);
    assert_eq!(result, 0);
    Comm {
        table,
        context,
        hash: 27,
    }
}

#[test]
fn line_27_the_mask_is_stored_once_and_unrequested_events_are_borne() {
    let mut job = job!(job_line_27).env("NCCLSCOPE_NET", "off");
    assert!(job.run().success());
    let capture = job.capture();
    let p = process(&capture);
    complete(&capture, 1);
    // ProxyOp, ProxyStep, ProxyCtrl, KernelCh and NetPlugin were not asked for.
    assert_eq!(p.counters.as_ref().map(|c| c.unrequested), Some(5));
    checked("unrequested");
}

// ---- Data quality

#[test]
fn line_28_gpu_and_host_times_are_never_mixed() {
    let script = |offset: &str| format!("ranks 2\n{offset}\nrepeat 20 {{ all_reduce 1MiB }}");
    let env = [("NCCLSCOPE_TIMING", "stamps")];
    let (_, plain) = played(&script(""), &env, at(5));
    // Clocks that are off by more than the job lasts, each its own way.
    let (_, apart) = played(
        &script("gpu_offset 0 -3600s\ngpu_offset 1 86400s"),
        &env,
        at(5),
    );
    let durations = |capture: &Capture| -> Vec<_> {
        calls(capture, "AllReduce")
            .iter()
            .map(|(c, s)| c.gpu_ns(s))
            .collect()
    };
    assert_eq!(durations(&plain).len(), 40);
    assert_eq!(durations(&plain), durations(&apart));
    assert!(durations(&plain).iter().all(Result::is_ok));
    let report = |capture| {
        serde_json::to_value(analyze::report(capture).operations[0].time_us).expect("JSON")
    };
    assert_eq!(report(&plain), report(&apart));
    // A call's host times lie in this minute, its stamps do not.
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_nanos() as i64;
    for (call, _) in calls(&apart, "AllReduce") {
        assert!((now - call.api_ns).abs() < 600_000_000_000);
        assert!((now - call.gpu_start as i64).abs() > 3_000_000_000_000);
    }
}

#[test]
#[ignore = "played by line 29"]
fn job_line_29() {
    let mut comm = Driver::new(0x29);
    // Start and stop of one channel of calls that follow each other, each a group of its own.
    let stamps = [
        (10_000, 11_000),
        (12_000, 11_500),
        (20_000, 21_000),
        (20_000, 21_000),
        (15_000, 16_000),
        (0, 30_000),
        (40_000, 0),
        (50_000, 51_000),
    ];
    for (i, (start, stop)) in stamps.into_iter().enumerate() {
        let group = comm.group(false);
        let api = comm.coll_api(group, i + 1, false);
        let coll = comm.coll(api, i + 1, 1);
        comm.stop(group);
        let kernel = comm.start(event::KERNEL_CH, coll, |u| {
            u.kernel_ch.channel_id = 0;
            u.kernel_ch.p_timer = start;
        });
        comm.state(kernel, state::KERNEL_CH_STOP, Some(stop));
        comm.stop(kernel);
    }
    comm.finalize();
}

#[test]
fn line_29_stamps_that_can_not_be_right_taint_their_call_and_are_counted() {
    let mut job = job!(job_line_29).env("NCCLSCOPE_TIMING", "stamps");
    assert!(job.run().success());
    let capture = job.capture();
    complete(&capture, 8);
    let verdicts: Vec<_> = calls(&capture, "AllReduce")
        .iter()
        .map(|(c, s)| c.gpu_ns(s))
        .collect();
    assert_eq!(
        verdicts,
        [
            Ok(1000),
            Err(Untimed::Negative),
            Ok(1000),
            Err(Untimed::Repeated),
            Err(Untimed::Backwards),
            Err(Untimed::Missing),
            Err(Untimed::Unfinished),
            Ok(1000),
        ]
    );
    let counted = analyze::report(&capture).completeness.untimed;
    assert_eq!(counted.values().sum::<u64>(), 5, "{counted:?}");
}

#[test]
#[ignore = "played by line 30"]
fn job_line_30() {
    let mut comm = Driver::new(0x30);
    let group = comm.group(false);
    let apis: Vec<_> = (0..4).map(|i| comm.coll_api(group, i + 1, false)).collect();
    let colls: Vec<_> = apis
        .iter()
        .enumerate()
        .map(|(i, api)| comm.coll(*api, i + 1, 1))
        .collect();
    comm.stop(group);
    for coll in colls {
        let kernel = comm.start(event::KERNEL_CH, coll, |u| {
            u.kernel_ch.channel_id = 0;
            u.kernel_ch.p_timer = 5000;
        });
        comm.state(kernel, state::KERNEL_CH_STOP, Some(9000));
        comm.stop(kernel);
    }
    comm.finalize();
}

#[test]
fn line_30_equal_stamps_of_siblings_are_a_fused_batch() {
    let mut job = job!(job_line_30).env("NCCLSCOPE_TIMING", "stamps");
    assert!(job.run().success());
    let capture = job.capture();
    complete(&capture, 4);
    for (call, shape) in calls(&capture, "AllReduce") {
        assert_eq!(call.gpu_ns(shape), Err(Untimed::Fused));
    }
}

#[test]
#[ignore = "played by line 31"]
fn job_line_31() {
    let mut comm = Driver::new(0x31);
    for (count, told, kernels) in [(1, 0, 3), (2, 0, 0), (3, 4, 0), (4, 4, 4)] {
        for _ in 0..10 {
            let group = comm.group(false);
            let api = comm.coll_api(group, count, false);
            let coll = comm.coll(api, count, told);
            comm.stop(group);
            comm.kernel(coll, kernels);
        }
    }
    // Seconds, until a part that never comes is given up; then a kill, so nothing is hurried.
    recorded(|p| p.calls.len() == 40 && p.calls.iter().all(|c| c.sealed));
    // SAFETY: ends this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

#[test]
fn line_31_a_call_completes_whatever_its_channels_say() {
    let mut job = job!(job_line_31)
        .env("NCCLSCOPE_TIMING", "stamps")
        .env("NCCLSCOPE_FLUSH", "0.1");
    job.run();
    let capture = job.capture();
    complete(&capture, 40);
    let all = calls(&capture, "AllReduce");
    let of = |count, is: &dyn Fn(&Call, &Shape) -> bool| {
        all.iter()
            .filter(|(c, s)| s.count == count && is(c, s))
            .count()
    };
    // CollNet and NVLS over nodes say 0 channels and have kernels; others have none of either.
    assert_eq!(
        of(1, &|c, s| c.sealed
            && c.channels_stopped == 3
            && c.gpu_ns(s).is_ok()),
        10
    );
    assert_eq!(
        of(2, &|c, s| c.sealed && c.gpu_ns(s) == Err(Untimed::NoStamp)),
        10
    );
    assert_eq!(
        of(3, &|c, s| c.sealed && c.gpu_ns(s) == Err(Untimed::NoStamp)),
        10
    );
    assert_eq!(of(4, &|c, s| c.sealed && c.gpu_ns(s).is_ok()), 10);
}

#[test]
#[ignore = "played by line 32"]
fn job_line_32() {
    let mut comm = Driver::new(0x32);
    let group = comm.group(false);
    let api = comm.coll_api(group, 1, false);
    let coll = comm.coll(api, 1, 3);
    comm.stop(group);
    for (channel, start, stop) in [(0, 1500, 2500), (1, 1000, 2000), (2, 1200, 9000)] {
        let kernel = comm.start(event::KERNEL_CH, coll, |u| {
            u.kernel_ch.channel_id = channel;
            u.kernel_ch.p_timer = start;
        });
        comm.state(kernel, state::KERNEL_CH_STOP, Some(stop));
        comm.stop(kernel);
    }
    comm.finalize();
}

#[test]
fn line_32_gpu_time_is_first_start_to_last_stop() {
    let mut job = job!(job_line_32).env("NCCLSCOPE_TIMING", "stamps");
    assert!(job.run().success());
    let capture = job.capture();
    let (call, shape) = calls(&capture, "AllReduce")[0];
    assert_eq!(
        (call.gpu_start, call.gpu_stop, call.gpu_ns(shape)),
        (1000, 9000, Ok(8000))
    );
    // TREE, NVLS and send/receive end before their stamp of the end says so; they have no time that can be believed.
    let stamped = |script: &str, mode| {
        let env = [("NCCLSCOPE_TIMING", "stamps"), ("NCCLSCOPE_MODE", mode)];
        let (_, capture) = played(script, &env, at(5));
        analyze::report(&capture).completeness
    };
    let early = |script: &str| {
        // Calls that are counted in totals only are judged by the recorder.
        assert_eq!(
            stamped(script, "profile").timed,
            stamped(script, "trace").timed
        );
        let c = stamped(script, "trace");
        (c.timed, c.untimed.get("early_stop").copied().unwrap_or(0))
    };
    assert_eq!(early("ranks 2\nall_reduce 1KiB algo=TREE"), (0, 2));
    assert_eq!(early("ranks 2\nall_reduce 1KiB algo=NVLS"), (0, 2));
    let pair = "ranks 2\ngroup { send 1KiB to=+1 ; recv 1KiB from=-1 }";
    assert_eq!(early(pair).0, 0);
    assert_eq!(early("ranks 2\nall_reduce 1KiB algo=RING"), (2, 0));
}

#[test]
fn stamps_after_a_call_that_spoils_them_have_no_time() {
    let timed = |script: &str, mode| {
        let env = [("NCCLSCOPE_TIMING", "stamps"), ("NCCLSCOPE_MODE", mode)];
        let (_, capture) = played(script, &env, fake_nccl::Options::default());
        let report = analyze::report(&capture);
        let of = |o: &analyze::operations::Operation| o.function.as_deref() == Some("AllReduce");
        let operations = report.operations.iter().filter(|o| of(o));
        operations.map(|o| o.timed).sum::<u64>()
    };
    // All ranks' calls before it; none behind it.
    for (release, spoiler, expected) in [
        ("2.28.9", "all_to_all 4KiB", 6),
        ("2.32.3", "all_to_all 4KiB", 14),
        ("2.32.3", "broadcast 4KiB", 6),
        ("2.28.9", "broadcast 4KiB", 14),
    ] {
        let script =
            format!("ranks 2\nnccl {release}\nall_reduce 4KiB x3\n{spoiler}\nall_reduce 4KiB x4");
        for mode in ["trace", "profile"] {
            assert_eq!(timed(&script, mode), expected, "{mode}: {script}");
        }
    }
}

#[test]
fn line_33_bytes_follow_nccl_tests_at_every_version_and_type() {
    let script = "ranks 4\n\
        all_reduce 4000 f32 ; all_reduce 4000 u8 ; all_gather 4000 f16 ; all_gather 4000 u8\n\
        reduce_scatter 4000 f64 ; broadcast 4000 f32 ; broadcast 4000 i64 ; reduce 4000 bf16";
    for abi in [4, 5, 6, 7] {
        let (outcome, capture) = played(script, &[], at(abi));
        // fake-nccl knows what the program asked for; the datatype may be lost on the way (bytes as Int8 below v5).
        let expected: u64 = outcome
            .announced()
            .operations
            .iter()
            .map(|(o, times)| o.bytes * times.announced)
            .sum();
        let operations = analyze::report(&capture).operations;
        let found: u64 = operations
            .iter()
            .map(|o| o.bytes.expect("known") * o.calls)
            .sum();
        assert_eq!(found, expected, "v{abi}");
        assert!(
            operations.iter().all(|o| o.bytes == Some(4000)),
            "v{abi}: {operations:#?}"
        );
    }
}

#[test]
fn line_34_rooted_and_all_to_all_operations_are_put_together() {
    let script =
        "ranks 3\nall_to_all 3000 i8 x5\ngather 3000 i8 root=1 x4\nscatter 3000 i8 root=2 x3";
    let (outcome, capture) = played(script, &[], at(5));
    complete(&capture, outcome.announced().total());
    let found: BTreeMap<_, _> = analyze::report(&capture)
        .operations
        .into_iter()
        .map(|o| {
            (
                o.function.expect("named"),
                (o.bytes.expect("known"), o.calls),
            )
        })
        .collect();
    let expected =
        [("AlltoAll", 15), ("Gather", 12), ("Scatter", 9)].map(|(f, n)| (f.to_owned(), (3000, n)));
    assert_eq!(found, BTreeMap::from(expected));
    // Sends and receives have no sequence number of NCCL's; their order in a process is that of their tickets.
    for p in &capture.processes {
        assert!(p.calls.iter().all(|c| c.seq == 0));
        assert!(p
            .calls
            .windows(2)
            .all(|pair| pair[0].ticket < pair[1].ticket));
    }
}

#[test]
fn line_35_calls_known_by_their_api_event_only_have_host_times_and_no_gpu_time() {
    for (abi, calls_of) in [
        (5, "all_reduce 1KiB symmetric x3\nall_gather 1KiB ce x3"),
        (6, "broadcast 1KiB x3\nall_gather 1KiB ce x3"),
    ] {
        let script = format!("ranks 2\n{calls_of}");
        let (_, capture) = played(&script, &[("NCCLSCOPE_TIMING", "stamps")], at(abi));
        complete(&capture, 12);
        for p in &capture.processes {
            for call in &p.calls {
                let shape = &p.shapes[call.shape as usize];
                assert_eq!(call.gpu_ns(shape), Err(Untimed::NoStamp), "v{abi}");
                assert!(call.host_ns().is_some_and(|ns| ns > 0), "v{abi}");
            }
        }
        let operations = analyze::report(&capture).operations;
        assert!(operations
            .iter()
            .all(|o| o.time_us.is_none() && o.host_us.is_some() && o.timed == 0));
    }
}

#[test]
fn line_36_replays_are_executions_of_their_template() {
    let script =
        "ranks 2\ngraph g { all_reduce 1KiB ; all_reduce 2KiB }\nreplay g x6\nall_reduce 1KiB";
    let (outcome, capture) = played(script, &[("NCCLSCOPE_TIMING", "stamps")], at(5));
    complete(&capture, outcome.announced().total());
    for p in &capture.processes {
        let of = |f: u8| {
            p.calls
                .iter()
                .filter(move |c| p.shapes[c.shape as usize].is(f))
        };
        assert_eq!(
            (of(flag::CAPTURED).count(), of(flag::REPLAY).count()),
            (2, 12)
        );
        // A replay's template, not its sequence number, says what it is.
        for replay in of(flag::REPLAY) {
            let count = p.shapes[replay.shape as usize].count;
            assert_eq!(replay.template, (count / 256) as u32);
        }
    }
    // See also `ten_thousand_captured_calls_name_all_of_their_replays`.
}

#[test]
fn line_37_the_same_call_has_the_same_key_on_every_rank() {
    let script = "ranks 4\ncomm dp hash 0x37\n\
        repeat 5 { all_reduce 1KiB comm=dp ; reduce 1KiB comm=dp ; all_reduce 2KiB comm=dp symmetric }\n\
        reinit dp\nall_reduce 1KiB comm=dp x2";
    let (_, capture) = played(script, &[], at(5));
    // A communicator that is made again is another one, though its hash and its sequence numbers begin alike.
    let ids: Vec<&str> = capture
        .communicators
        .iter()
        .map(|c| c.id.as_str())
        .collect();
    assert_eq!(ids, ["0000000000000037", "0000000000000037#2"]);
    let mut ranks_of = BTreeMap::new();
    for p in &capture.processes {
        let mut silent = BTreeMap::new();
        for call in &p.calls {
            let s = &p.shapes[call.shape as usize];
            let function = capture.names.get(s.function).expect("named");
            // NCCL numbers what it announces; of what it doesn't, the order on the communicator is the number.
            let number = if call.seq != 0 {
                (true, call.seq)
            } else {
                let next = silent.entry(s.communicator).or_insert(0);
                *next += 1;
                (false, *next)
            };
            let key = (s.communicator, s.nranks, function, number);
            ranks_of
                .entry(key)
                .or_insert_with(Vec::new)
                .push((s.rank, s.count));
        }
    }
    assert_eq!(ranks_of.len(), 17);
    for (key, of) in ranks_of {
        let ranks: BTreeSet<_> = of.iter().map(|(rank, _)| *rank).collect();
        let counts: BTreeSet<_> = of.iter().map(|(_, count)| *count).collect();
        assert_eq!((of.len(), ranks.len(), counts.len()), (4, 4, 1), "{key:?}");
    }
}

#[test]
fn line_38_every_counter_of_the_recorder_is_in_the_report() {
    // At each ABI, every fault of fake-nccl between calls that must come out whole.
    let faults: String = fake_nccl::script::FAULTS
        .iter()
        .map(|f| format!("fault {}\n", f.1))
        .collect();
    let script = format!("ranks 2\nall_reduce 1KiB x5\n{faults}all_reduce 1KiB x5");
    let mut seen = BTreeSet::new();
    for abi in ABIS {
        let (outcome, capture) = played(&script, &[("NCCLSCOPE_TIMING", "stamps")], at(abi));
        assert_eq!(outcome.abi, Ok(abi));
        assert_eq!(outcome.announced().total(), 20, "v{abi}");
        complete(&capture, 20);
        seen.extend(analyze::report(&capture).completeness.odd.into_keys());
    }
    for counted in [
        "foreign_handle",
        "null_handle",
        "unknown_type",
        "unknown_state",
        "stale_context",
        "foreign_pid",
        "orphan",
    ] {
        assert!(seen.contains(counted), "{counted} is not among {seen:?}");
    }
}

#[test]
fn every_line_of_the_page_names_tests_that_are_there() {
    let page = include_str!("../../../docs/conformance.md");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let sources = [
        "recorder/tests/conformance.rs",
        "recorder/tests/ends.rs",
        "recorder/tests/model.rs",
        "recorder/tests/pins.rs",
        "recorder/src/lock.rs",
        "tables/src/trust.rs",
    ];
    let sources = sources.map(|s| std::fs::read_to_string(root.join(s)).expect("read"));
    let items = fake_nccl::check::ITEMS.iter().map(|i| i.word);
    let faults = fake_nccl::script::FAULTS.iter().map(|f| f.1);
    let words: BTreeSet<&str> = items.chain(faults).collect();
    let mut lines = 0;
    for row in page.lines().filter(|l| l.starts_with("| ")).skip(1) {
        lines += 1;
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells[0], lines.to_string());
        let named: Vec<&str> = cells[2].split('`').skip(1).step_by(2).collect();
        assert!(named.iter().any(|n| n.starts_with("line")), "{row}");
        for name in named.into_iter().filter(|n| !n.contains('/')) {
            let test = sources.iter().any(|s| s.contains(&format!("fn {name}()")));
            let story = root.join(format!("cli/tests/stories/{name}.story"));
            assert!(
                test || words.contains(name) || story.is_file(),
                "no test {name}"
            );
        }
    }
    assert_eq!(lines, 38);
}
