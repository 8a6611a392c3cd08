//! What is left of a job that is killed, whatever the moment.

mod job;

use job::{Driver, Job};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::Arc;

/// A counter in a file that both processes map: what the job knows it has done, independent of the recorder.
fn shared_counter(path: &std::path::Path) -> &'static AtomicU64 {
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .expect("opens");
    file.set_len(4096).expect("grows");
    use std::os::fd::AsRawFd;
    // SAFETY: a new shared mapping of a file of that length; it stays for the life of the process.
    unsafe {
        let base = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(base, libc::MAP_FAILED);
        &*base.cast()
    }
}

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
    let mut calls = 0;
    for kill in 0..kills {
        let timing = if kill % 2 == 0 { "host" } else { "stamps" };
        let counter_path =
            std::env::temp_dir().join(format!("ncclscope-counter-{}-{kill}", std::process::id()));
        let counter = shared_counter(&counter_path);
        let mut job = Job::new("endless_job")
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
    eprintln!("{kills} kills, {calls} completed calls, none lost");
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
    let mut job = Job::new("job_with_10_000_captured_calls").env("NCCLSCOPE_TIMING", "stamps");
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
    let mut job = Job::new("job_with_foreign_handles");
    assert!(job.run().success());
    let capture = job.capture();
    let process = &capture.processes[0];
    let counters = process.counters.as_ref().expect("a snapshot");
    assert_eq!(counters.announced, 2);
    assert_eq!(process.calls.len(), 2);
    assert!(counters.odd[capture::live::Odd::ForeignHandle as usize] > 200_000);
    assert!(process.calls.iter().all(|c| c.gpu_start == 0));
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
    let mut job = Job::new("job_that_waits_for_a_late_rank")
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
