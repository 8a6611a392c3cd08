//! What is left of a job that is killed, whatever the moment.

use crate::job::{shared_counter, Driver, Job};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::Arc;

#[test]
#[ignore = "played by the tests below"]
fn endless_job() {
    let counter = shared_counter(std::path::Path::new(
        &std::env::var("COUNTER").expect("set"),
    ));
    let mut comm = Driver::new(0xc0ffee);
    loop {
        comm.all_reduce(256);
        // Counted only after the call has returned.
        counter.fetch_add(1, Release);
    }
}

/// A neighbour that writes to the disk and waits for it, as checkpoints do.
fn disk_writer(stop: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let path = std::env::temp_dir().join(format!("ncclscope-neighbour-{}", std::process::id()));
        while !stop.load(Relaxed) {
            let mut file = std::fs::File::create(&path).expect("creates");
            file.write_all(&vec![0x5a; 8 << 20]).expect("writes");
            file.sync_all().expect("syncs");
        }
        let _ = std::fs::remove_file(path);
    })
}

#[test]
fn killed_at_any_moment_keeps_every_completed_call() {
    let kills: u64 = std::env::var("NCCLSCOPE_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(60);
    let stop = Arc::new(AtomicBool::new(false));
    let neighbour = disk_writer(stop.clone());
    let (mut calls, mut collected) = (0, 0);
    for kill in 0..kills {
        let timing = if kill % 2 == 0 { "host" } else { "stamps" };
        let counter_path =
            std::env::temp_dir().join(format!("ncclscope-counter-{}-{kill}", std::process::id()));
        let counter = shared_counter(&counter_path);
        let mut job = Job::new(module_path!(), "endless_job")
            .env("COUNTER", counter_path.to_str().expect("utf-8"))
            .env("NCCLSCOPE_TIMING", timing)
            .env("NCCLSCOPE_FLUSH", "0.05");
        let mut child = job.spawn();
        while counter.load(Acquire) == 0 {
            std::thread::yield_now();
        }
        // Spread over a few flushes; the sequence is fixed, the moments are not.
        std::thread::sleep(std::time::Duration::from_micros(
            kill.wrapping_mul(7_919) % 150_000,
        ));
        child.kill().expect("killed");
        child.wait().expect("reaped");
        let done = counter.load(Acquire);
        // A first file that takes longer than 0.1 s to make is not waited for by the job: there may be none,
        // or one that does not say yet where the live part is.
        let is_named = job.folder.exists() && job.capture().processes[0].counters.is_some();
        if !is_named {
            assert!(job.collect(), "kill {kill}: neither a file nor a live part");
            collected += 1;
        }
        let capture = job.capture();
        let process = &capture.processes[0];
        let announced = process
            .counters
            .as_ref()
            .expect("the live part survives")
            .announced;
        let totals: u64 = process.totals.iter().map(|t| t.folded + t.rowless).sum();
        let recorded = process.calls.len() as u64 + totals;
        // One call may be under way, and one may have returned before the counter was raised.
        assert!(
            recorded == announced || recorded + 1 == announced,
            "kill {kill}: {recorded} of {announced}"
        );
        assert!(
            recorded >= done,
            "kill {kill} ({timing}): {done} calls done, {recorded} recorded"
        );
        assert!(
            announced <= done + 1,
            "kill {kill}: {done} calls done, {announced} announced"
        );
        calls += done;
        let _ = std::fs::remove_file(counter_path);
    }
    stop.store(true, Relaxed);
    neighbour.join().expect("no panic");
    assert!(calls > kills, "the jobs did next to nothing");
    eprintln!(
        "{kills} kills, {calls} completed calls, none lost: at 95 % fewer than {:.2} % of kills lose any; \
         {collected} before there was a file, collected from memory",
        300.0 / kills as f64
    );
}

#[test]
#[ignore = "played by the test below"]
fn job_with_10_000_captured_calls() {
    let mut comm = Driver::new(7);
    let mut captured = Vec::new();
    for i in 0..10_000usize {
        let group = comm.group(true);
        captured.push(comm.coll_api(group, 1 + i % 100, true));
        comm.state(group, nccl_abi::state::GROUP_END_API_START, None);
        comm.stop(group);
    }
    for _ in 0..2 {
        for (i, api) in captured.iter().enumerate() {
            let coll = comm.coll(*api, 1 + i % 100, 1);
            comm.kernel(coll, 1);
        }
    }
    comm.finalize();
}

#[test]
fn ten_thousand_captured_calls_name_all_of_their_replays() {
    let mut job = Job::new(module_path!(), "job_with_10_000_captured_calls")
        .env("NCCLSCOPE_TIMING", "stamps");
    assert!(job.run().success());
    let capture = job.capture();
    let process = &capture.processes[0];
    let counters = process.counters.as_ref().expect("a snapshot");
    assert_eq!(counters.announced, 30_000);
    let rows = process.calls.len() as u64;
    let totals: u64 = process.totals.iter().map(|t| t.folded + t.rowless).sum();
    assert_eq!(rows + totals, 30_000, "lost: {:?}", counters.lost);
    let of = |flag| {
        process
            .calls
            .iter()
            .filter(|c| process.shapes[c.shape as usize].is(flag))
            .count()
    };
    let (captured, replays) = (
        of(capture::live::flag::CAPTURED),
        of(capture::live::flag::REPLAY),
    );
    assert_eq!(captured as u64 + replays as u64, rows);
    assert!(replays > 0);
    for call in &process.calls {
        let shape = &process.shapes[call.shape as usize];
        if shape.is(capture::live::flag::REPLAY) {
            assert_eq!(
                shape.count,
                1 + u64::from(call.template - 1) % 100,
                "a replay was given another template"
            );
        }
    }
}

#[test]
#[ignore = "played by the test below"]
fn job_with_foreign_handles() {
    let mut comm = Driver::new(9);
    comm.all_reduce(1);
    // Another process's allocator gives out the same names but for the salt; and there is plain garbage.
    let ours = comm.group(false) as u64;
    let mut value = 0x1234_5678_9abc_def0u64;
    for i in 0..100_000u64 {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
        let foreign = if i % 2 == 0 {
            value
        } else {
            ours ^ (1 + i % 0xffff)
        };
        let handle = foreign as *mut std::ffi::c_void;
        comm.stop(handle);
        comm.state(handle, (value % 40) as u32, Some(value));
        let child = comm.start(nccl_abi::event::KERNEL_CH, handle, |u| {
            u.kernel_ch.channel_id = value as u8;
            u.kernel_ch.p_timer = value;
        });
        comm.stop(child);
    }
    comm.all_reduce(2);
    comm.finalize();
}

#[test]
fn foreign_handles_change_nothing_and_are_counted() {
    let mut job = Job::new(module_path!(), "job_with_foreign_handles");
    assert!(job.run().success());
    let capture = job.capture();
    let process = &capture.processes[0];
    let counters = process.counters.as_ref().expect("a snapshot");
    assert_eq!(counters.announced, 2);
    assert_eq!(process.calls.len(), 2);
    assert!(counters.odd[capture::live::Odd::ForeignHandle as usize] > 200_000);
    assert!(process.calls.iter().all(|c| c.gpu.start().is_none()));
}

#[test]
#[ignore = "played by the test below"]
fn job_that_waits_for_a_late_rank() {
    let mut comm = Driver::new(11);
    let colls: Vec<_> = (0..3).map(|_| comm.enqueue(64)).collect();
    // Longer than an unfinished call is waited for once a later one has run; here none has.
    std::thread::sleep(std::time::Duration::from_millis(3_600));
    for coll in colls {
        comm.kernel(coll, 2);
    }
    comm.finalize();
}

#[test]
fn calls_that_wait_long_for_a_late_rank_are_timed() {
    let mut job = Job::new(module_path!(), "job_that_waits_for_a_late_rank")
        .env("NCCLSCOPE_TIMING", "stamps")
        .env("NCCLSCOPE_STAMPS", "replayed");
    assert!(job.run().success());
    let capture = job.capture();
    let process = &capture.processes[0];
    assert_eq!(process.calls.len(), 3);
    for call in &process.calls {
        assert_eq!(call.gpu_ns(&process.shapes[call.shape as usize]), Ok(9_984));
    }
}

/// Each way that a process ends on its own, after 500 calls and with one open.
#[test]
#[ignore = "played by the test below"]
fn job_that_ends_itself() {
    let mut comm = Driver::new(0xe0);
    (0..500).for_each(|i| comm.all_reduce(1 + i % 9));
    // SAFETY: each of these ends the process, as a job's own code does.
    unsafe {
        match std::env::var("END").expect("set").as_str() {
            "destroy" => {
                comm.finalize();
                libc::_exit(0)
            }
            // NCCL finalizes the plugin for ncclCommAbort too, with what had been begun left open.
            "abort a communicator" => {
                let group = comm.group(false);
                comm.coll_api(group, 3, false);
                comm.finalize();
                libc::_exit(0)
            }
            "exit" => libc::exit(0),
            "_exit" => libc::_exit(0),
            "abort" => libc::abort(),
            "exec" => {
                let program = c"/bin/true".as_ptr();
                libc::execv(program, [program, std::ptr::null()].as_ptr());
                libc::abort()
            }
            "exit in a handler" => {
                extern "C" fn ends(_: libc::c_int) {
                    // SAFETY: what many trainers do.
                    unsafe { libc::exit(0) }
                }
                libc::signal(
                    libc::SIGTERM,
                    ends as extern "C" fn(libc::c_int) as libc::sighandler_t,
                );
                // In the middle of init, finalize and the flush that it waits for.
                let me = libc::pthread_self();
                let wait: u64 = std::env::var("WAIT").map_or(0, |w| w.parse().expect("a number"));
                std::thread::spawn(move || {
                    std::thread::sleep(std::time::Duration::from_micros(wait));
                    libc::pthread_kill(me, libc::SIGTERM);
                });
                loop {
                    Driver::new(0xe1).finalize();
                }
            }
            signal => {
                let signal = signal.parse().expect("a signal's number");
                // The tests may have been started with it ignored, and Rust's own handler goes on.
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
                libc::abort()
            }
        }
    }
}

#[test]
#[ignore = "played by the test below"]
fn job_that_is_killed_at_its_first_call() {
    Driver::new(0xe7).all_reduce(256);
    // SAFETY: ends this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

#[test]
fn a_process_that_is_killed_at_once_has_times() {
    let mut job = Job::new(module_path!(), "job_that_is_killed_at_its_first_call")
        .env("NCCLSCOPE_FLUSH", "3600");
    assert!(!job.run().success());
    let capture = job.capture();
    let process = &capture.processes[0];
    assert!(process.clock.is_known());
    assert_eq!(process.calls.len(), 1);
    assert!(process.calls[0].api_ns > 0);
}

#[test]
fn however_a_process_ends_all_of_its_calls_are_there() {
    let signals =
        [libc::SIGTERM, libc::SIGINT, libc::SIGSEGV, libc::SIGKILL].map(|s| s.to_string());
    let ends = [
        "destroy",
        "abort a communicator",
        "exit",
        "_exit",
        "abort",
        "exec",
    ];
    for end in ends.into_iter().chain(signals.iter().map(String::as_str)) {
        // No flush on the way but those that the end asks for.
        let mut job = Job::new(module_path!(), "job_that_ends_itself")
            .env("END", end)
            .env("NCCLSCOPE_FLUSH", "3600");
        job.run();
        // On a busy machine it may end before the recorder's thread has made a file.
        job.collect();
        let c = analyze::report(&job.capture()).completeness;
        let expected = 500 + u64::from(end == "abort a communicator");
        assert_eq!(
            (c.announced, c.recorded),
            (expected, expected),
            "{end}: {c:#?}"
        );
        assert!(c.adds_up && c.lost.is_empty(), "{end}: {c:#?}");
    }
}

#[test]
#[ignore = "played by the test below"]
fn job_that_exits_beside_a_busy_thread() {
    let counter = shared_counter(std::path::Path::new(
        &std::env::var("COUNTER").expect("set"),
    ));
    let wait: u64 = std::env::var("WAIT").map_or(0, |w| w.parse().expect("a number"));
    std::thread::spawn(move || {
        let mut comm = Driver::new(0xe6);
        loop {
            comm.all_reduce(256);
            counter.fetch_add(1, Release);
        }
    });
    while counter.load(Acquire) == 0 {
        std::thread::yield_now();
    }
    std::thread::sleep(std::time::Duration::from_micros(wait));
    // SAFETY: as trainers end whose main thread is done.
    unsafe { libc::exit(0) };
}

#[test]
fn exit_beside_a_busy_thread_keeps_every_completed_call() {
    for turn in 0..20u64 {
        let counter_path =
            std::env::temp_dir().join(format!("ncclscope-busy-{}-{turn}", std::process::id()));
        let counter = shared_counter(&counter_path);
        let mut job = Job::new(module_path!(), "job_that_exits_beside_a_busy_thread")
            .env("COUNTER", counter_path.to_str().expect("utf-8"))
            .env("WAIT", &(turn * 7_919 % 100_000).to_string())
            .env("NCCLSCOPE_FLUSH", "0.05");
        assert!(job.run().success());
        let done = counter.load(Acquire);
        let c = analyze::report(&job.capture()).completeness;
        assert!(c.adds_up, "{c:#?}");
        let recorded = c.recorded + c.lost.values().sum::<u64>();
        // One call may be under way, and one may have returned before the counter was raised.
        assert!(
            (done..=done + 1).contains(&recorded),
            "turn {turn}: {done} calls done, {recorded} recorded"
        );
        let _ = std::fs::remove_file(counter_path);
    }
}

#[test]
fn exit_from_a_signal_handler_never_hangs() {
    for turn in 0..25u32 {
        let mut job = Job::new(module_path!(), "job_that_ends_itself")
            .env("END", "exit in a handler")
            .env("WAIT", &(turn * 397 % 9000).to_string());
        let mut child = job.spawn();
        let began = std::time::Instant::now();
        while child.try_wait().expect("asked").is_none() {
            let late = began.elapsed() > std::time::Duration::from_secs(20);
            if late {
                child.kill().expect("killed");
                panic!("turn {turn} hangs");
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        // A first file that takes longer than 0.1 s to make is not waited for by the job.
        assert!(job.folder.exists() || job.collect(), "turn {turn}");
        let c = analyze::report(&job.capture()).completeness;
        assert!(c.recorded >= 500 && c.adds_up, "{c:#?}");
    }
}

#[test]
fn a_stopped_process_can_be_read_and_goes_on() {
    let seconds: f64 =
        std::env::var("NCCLSCOPE_STOP_SECONDS").map_or(2.0, |s| s.parse().expect("a number"));
    let counter_path = std::env::temp_dir().join(format!("ncclscope-stop-{}", std::process::id()));
    let counter = shared_counter(&counter_path);
    let mut job = Job::new(module_path!(), "endless_job")
        .env("COUNTER", counter_path.to_str().expect("utf-8"))
        .env("NCCLSCOPE_FLUSH", "0.05");
    let mut child = job.spawn();
    let reach = |n: u64| {
        while counter.load(Acquire) < n {
            std::thread::yield_now();
        }
    };
    let recorded = |job: &Job| {
        let c = analyze::report(&job.capture()).completeness;
        assert!(c.adds_up, "{c:#?}");
        // The thread may be stopped where it has taken a call's number and not yet published its row.
        assert!(c.lost.get("in_birth").is_none_or(|n| *n == 1), "{c:#?}");
        c.recorded + c.lost.values().sum::<u64>()
    };
    let signal = |signal| {
        // SAFETY: our child.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
    };
    reach(1000);
    signal(libc::SIGSTOP);
    std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
    let done = counter.load(Acquire);
    assert!(
        (done..=done + 1).contains(&recorded(&job)),
        "while it was stopped"
    );
    signal(libc::SIGCONT);
    reach(done + 1000);
    child.kill().expect("killed");
    child.wait().expect("reaped");
    let done = counter.load(Acquire);
    assert!(
        (done..=done + 1).contains(&recorded(&job)),
        "after it went on"
    );
    let _ = std::fs::remove_file(counter_path);
}

#[test]
#[ignore = "played by the test below"]
fn job_with_data_loaders() {
    let mut comm = Driver::new(0xe2);
    let inherited = |pid: u32| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("read");
        let names = files
            .flatten()
            .filter_map(|f| std::fs::read_link(f.path()).ok());
        names
            .filter(|name| name.to_string_lossy().contains("ncclscope"))
            .count()
    };
    for turn in 0..20u32 {
        comm.all_reduce(1);
        // SAFETY: the child does what a data loader does, and ends.
        let loader = unsafe { libc::fork() };
        if loader == 0 {
            comm.all_reduce(2);
            // SAFETY: the end of a worker, by a handler or without.
            unsafe {
                match turn % 2 {
                    0 => libc::exit(0),
                    _ => libc::_exit(0),
                }
            }
        }
        // One that becomes another program, which must not hold our files.
        let mut other = std::process::Command::new("sleep");
        let mut other = other.arg("0.02").spawn().expect("started");
        comm.all_reduce(3);
        let mut status = 0;
        // SAFETY: our child.
        assert_eq!(unsafe { libc::waitpid(loader, &mut status, 0) }, loader);
        assert_eq!(status, 0);
        assert!(inherited(std::process::id()) > 0);
        assert_eq!(
            inherited(other.id()),
            0,
            "files of the recorder are inherited"
        );
        other.wait().expect("ended");
    }
    comm.finalize();
}

#[test]
fn data_loaders_with_and_without_exec_cost_and_hold_nothing() {
    let mut job = Job::new(module_path!(), "job_with_data_loaders").env("NCCLSCOPE_FLUSH", "0.05");
    assert!(job.run().success());
    let capture = job.capture();
    assert_eq!(
        capture.processes.len(),
        1,
        "a data loader left a trace file"
    );
    let c = analyze::report(&capture).completeness;
    assert_eq!((c.announced, c.recorded), (40, 40), "{c:#?}");
}

#[test]
#[ignore = "played by the test below"]
fn job_whose_kernels_are_not_told() {
    let mut comm = Driver::new(0xa2a);
    // A group knows when its calls returned; they have no time of their own for that.
    let group = comm.group(false);
    for count in 1..=200 {
        let api = comm.coll_api(group, count, false);
        comm.coll(api, count, 2);
    }
    comm.stop(group);
    comm.all_reduce(1);
    comm.finalize();
}

#[test]
fn calls_whose_parts_never_came_are_written_at_the_end() {
    let mut job = Job::new(module_path!(), "job_whose_kernels_are_not_told")
        .env("NCCLSCOPE_TIMING", "stamps");
    assert!(job.run().success());
    let capture = job.capture();
    let process = &capture.processes[0];
    assert_eq!(process.calls.len(), 201);
    let open = process.calls.iter().filter(|call| !call.sealed).count();
    assert_eq!(open, 0, "calls that are in the live part only");
    let live = process.fact("live").expect("a live part");
    assert!(!std::path::Path::new(live).exists(), "{live} has served");
}

/// What the process holds: descriptors, threads, mappings, resident bytes.
fn held() -> [usize; 4] {
    let count = |folder: &str| std::fs::read_dir(folder).expect("read").count();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("read");
    let pages = std::fs::read_to_string("/proc/self/statm").expect("read");
    let resident: usize = pages
        .split(' ')
        .nth(1)
        .and_then(|n| n.parse().ok())
        .expect("a number");
    [
        count("/proc/self/fd"),
        count("/proc/self/task"),
        maps.lines().count(),
        resident * 4096,
    ]
}

#[test]
#[ignore = "played by the test below"]
fn job_that_loads_again_and_again() {
    let plugin = std::ffi::CString::new(std::env::var("PLUGIN").expect("set")).expect("no NUL");
    let cycle = || {
        // SAFETY: the plugin's own symbols, as NCCL finds and calls them.
        unsafe {
            let library = libc::dlopen(plugin.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!library.is_null());
            let table = libc::dlsym(library, c"ncclProfiler_v5".as_ptr());
            let mut comm = Driver::of(&*table.cast(), 0xe3);
            (0..3).for_each(|i| comm.all_reduce(1 + i));
            comm.finalize();
            libc::dlclose(library);
        }
    };
    (0..100).for_each(|_| cycle());
    let before = held();
    (100..1000).for_each(|_| cycle());
    let after = held();
    assert_eq!(before[..2], after[..2], "descriptors, threads");
    // The allocator's own come and go; a leak would be of 900.
    let mapped = after[2].saturating_sub(before[2]);
    assert!(mapped < 20, "{mapped} mappings more");
    let grown = after[3].saturating_sub(before[3]);
    // Of a tenth or of ten times as many calls, some 0.7 MiB: the encoder's buffers find their size.
    assert!(grown < 4 << 20, "{grown} bytes more are resident");
}

#[test]
fn a_thousand_loads_leave_nothing_behind() {
    let exe = std::env::current_exe().expect("known");
    let beside = exe
        .parent()
        .expect("deps")
        .join("libnccl_profiler_ncclscope.so");
    let plugin = std::env::var_os("NCCLSCOPE_PLUGIN").map_or(beside, Into::into);
    let mut job = Job::new(module_path!(), "job_that_loads_again_and_again")
        .env("PLUGIN", plugin.to_str().expect("text"));
    assert!(job.run().success());
    let c = analyze::report(&job.capture()).completeness;
    assert_eq!((c.announced, c.recorded), (3000, 3000), "{c:#?}");
    // One process has one set of files, however often it was loaded.
    assert_eq!(job.capture().processes.len(), 1);
}

#[test]
#[ignore = "played by the test below"]
fn job_of_many_calls() {
    let calls: u64 = std::env::var("CALLS")
        .expect("set")
        .parse()
        .expect("a number");
    let mut comm = Driver::new(0xe4);
    let mut before = None;
    let began = std::time::Instant::now();
    for i in 0..calls {
        comm.all_reduce(1 + i as usize % 100);
        if i == calls / 10 {
            before = Some(held());
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let (before, after) = (before.expect("calls"), held());
    eprintln!(
        "{calls} calls in {seconds:.1} s; resident {} KiB after a tenth, {} KiB at the end",
        before[3] >> 10,
        after[3] >> 10
    );
    assert_eq!(before[..2], after[..2], "descriptors, threads");
    let grown = after[3].saturating_sub(before[3]);
    // Of a tenth or of ten times as many calls, some 0.7 MiB: the encoder's buffers find their size.
    assert!(grown < 4 << 20, "{grown} bytes more are resident");
    comm.finalize();
}

#[test]
fn a_long_job_takes_no_more_memory_than_a_short_one_and_no_more_disk_than_it_may() {
    let calls: u64 =
        std::env::var("NCCLSCOPE_SOAK").map_or(300_000, |n| n.parse().expect("a number"));
    let mut job = Job::new(module_path!(), "job_of_many_calls")
        .env("CALLS", &calls.to_string())
        // With the largest size from the start.
        .env("NCCLSCOPE_MEMORY", "4MiB")
        .env("NCCLSCOPE_MAX_SIZE", "1MiB");
    let (status, said) = job.run_saying();
    assert!(status.success(), "{status}: {said}");
    eprint!("{said}");
    let capture = job.capture();
    let c = analyze::report(&capture).completeness;
    let lost: u64 = c.lost.values().sum();
    assert_eq!((c.announced, c.recorded + lost), (calls, calls), "{c:#?}");
    assert!(c.adds_up, "{c:#?}");
    // The snapshot is two live parts at most.
    let bytes = |ending: &str| -> u64 {
        let files = std::fs::read_dir(
            job.folder
                .join(&capture.processes[0].file)
                .with_file_name(""),
        )
        .expect("there")
        .flatten()
        .filter(|file| file.path().extension().is_some_and(|e| e == ending));
        files
            .map(|file| file.metadata().expect("there").len())
            .sum()
    };
    assert!(bytes("trace") <= 1 << 20, "{}", bytes("trace"));
    assert!(bytes("snap") <= 16 << 20, "{}", bytes("snap"));
}
