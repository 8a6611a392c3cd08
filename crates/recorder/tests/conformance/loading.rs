//! Lines 1 to 6: the library and its symbols, and inits that never fail.

use crate::comm::{Comm, ABIS, MASK, REDUCE, SEND};
use crate::job::{release, table, Driver};
use crate::playing::{at, checked, played, plugin};
use crate::reading::{complete, process};
use fake_nccl::plugin::Identity;
use nccl_abi::event;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

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
fn line_01_the_seven_tables_are_exported_as_data_of_48_bytes_and_80_of_null() {
    use object::{Object, ObjectSymbol, SymbolKind};
    let bytes = std::fs::read(plugin()).expect("read");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let defined = file.dynamic_symbols().filter(|s| s.is_definition());
    let mut exported: Vec<_> = defined
        .map(|s| (s.name().expect("a name").to_owned(), s.size(), s.kind()))
        .collect();
    // NVTX looks this one up.
    let nvtx = exported
        .iter()
        .position(|e| e.0 == "InitializeInjectionNvtx2");
    let nvtx = exported.remove(nvtx.expect("exported"));
    assert_eq!(nvtx.2, SymbolKind::Text);
    let names: BTreeSet<&str> = exported.iter().map(|e| e.0.as_str()).collect();
    assert_eq!(names, BTreeSet::from(nccl_abi::SYMBOLS));
    assert!(
        exported
            .iter()
            .all(|e| e.1 == 128 && e.2 == SymbolKind::Data),
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
        "NCCLSCOPE_RUN",
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
