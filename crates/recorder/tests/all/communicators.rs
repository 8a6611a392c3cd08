//! Any number of communicators: at once, one after the other, and made again and again between two flushes.

use crate::job::{flushed, snapshot_file, Driver, Job};

/// Calls on each communicator.
const CALLS: usize = 10;

/// The account of a job's capture.
fn account(job: &Job) -> analyze::completeness::Completeness {
    let capture = job.capture();
    assert_eq!(capture.problems, []);
    analyze::report(&capture).completeness
}

#[track_caller]
fn complete(job: &Job, announced: u64) {
    let c = account(job);
    assert_eq!((c.announced, c.recorded), (announced, announced), "{c:#?}");
    assert!(c.lost.is_empty() && c.odd.is_empty() && c.adds_up, "{c:#?}");
}

fn calls(comm: &mut Driver) {
    (0..CALLS).for_each(|_| comm.all_reduce(1));
}

/// With time for the recorder's thread: this is not about many calls.
fn by_and_by(comms: &mut [Driver]) {
    for some in comms.chunks_mut(100) {
        some.iter_mut().for_each(calls);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
#[ignore = "played by the test below"]
fn job_that_makes_one_again_and_again() {
    let mut other = Driver::new(0xa0);
    for _ in 0..600 {
        let mut comm = Driver::new(0xc0);
        calls(&mut comm);
        comm.finalize();
        other.all_reduce(1);
    }
    other.finalize();
}

#[test]
fn a_communicator_that_is_made_600_times_beside_another_loses_no_call() {
    for flush in ["0.05", "3600"] {
        let mut job = Job::new(module_path!(), "job_that_makes_one_again_and_again")
            .env("NCCLSCOPE_FLUSH", flush);
        assert!(job.run().success());
        complete(&job, 600 * (CALLS as u64 + 1));
        let capture = job.capture();
        let process = &capture.processes[0];
        assert_eq!(process.communicators.len(), 601);
        // The same hash each time, so these are communicators of their own by what came before.
        assert_eq!(capture.communicators.len(), 601);
    }
}

#[test]
#[ignore = "played by the test below"]
fn job_of_700_communicators() {
    let mut comms: Vec<Driver> = (0..700).map(|i| Driver::new(0x1000 + i)).collect();
    by_and_by(&mut comms);
    by_and_by(&mut comms);
    comms.into_iter().for_each(Driver::finalize);
}

#[test]
#[ignore = "played by the test below"]
fn job_of_700_communicators_that_is_killed() {
    let mut comms: Vec<Driver> = (0..700).map(|i| Driver::new(0x1000 + i)).collect();
    snapshot_file();
    by_and_by(&mut comms);
    // SAFETY: ends this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

#[test]
fn seven_hundred_communicators_at_once_lose_no_call() {
    let mut job = Job::new(module_path!(), "job_of_700_communicators");
    assert!(job.run().success());
    complete(&job, 700 * 2 * CALLS as u64);
    assert_eq!(job.capture().communicators.len(), 700);
    // From its live part, which has grown.
    let mut job = Job::new(module_path!(), "job_of_700_communicators_that_is_killed")
        .env("NCCLSCOPE_FLUSH", "3600");
    assert!(!job.run().success());
    complete(&job, 700 * CALLS as u64);
}

#[test]
#[ignore = "played by the test below"]
fn job_that_makes_one_after_the_other() {
    let mut other = Driver::new(0xa0);
    for i in 0..400 {
        let mut comm = Driver::new(0x1000 + i);
        calls(&mut comm);
        comm.finalize();
        if i % 100 == 99 {
            flushed();
        }
        other.all_reduce(1);
    }
    other.finalize();
}

#[test]
fn a_slot_serves_again_once_its_own_calls_are_written() {
    let mut job = Job::new(module_path!(), "job_that_makes_one_after_the_other")
        .env("NCCLSCOPE_FLUSH", "0.05");
    assert!(job.run().success());
    complete(&job, 400 * (CALLS as u64 + 1));
    // The first 256 slots were enough: the snapshot has no more.
    let capture = job.capture();
    assert_eq!(capture.communicators.len(), 401);
    let hosts = std::fs::read_dir(&job.folder).expect("there").flatten();
    let files = hosts.flat_map(|host| std::fs::read_dir(host.path()).into_iter().flatten());
    let snapshot = files.flatten().map(|f| f.path());
    let snapshot = snapshot
        .into_iter()
        .find(|f| f.extension().is_some_and(|e| e == "snap"));
    let bytes = std::fs::read(snapshot.expect("a snapshot")).expect("read");
    let image = capture::snapshot::read(&bytes).expect("sound");
    assert_eq!(image.view().expect("a live part").comms().len(), 256);
}

#[test]
#[ignore = "played by the test below"]
fn job_without_room_for_more_communicators() {
    let first = Driver::new(0xa0);
    // Without its file, the live part can't grow.
    let capture = tables::Capture::open(&crate::job::out());
    let live = capture
        .ok()
        .and_then(|c| c.processes[0].fact("live").map(str::to_owned));
    std::fs::remove_file(live.expect("told")).expect("removed");
    let mut comms: Vec<Driver> = (0..300).map(|i| Driver::new(0x1000 + i)).collect();
    comms.iter_mut().for_each(calls);
    let mut last = comms.pop().expect("300");
    comms.into_iter().for_each(Driver::finalize);
    // Now there are slots, but this one has none.
    calls(&mut last);
    last.finalize();
    // Nor has one that was finalized.
    let mut again = first.beside();
    first.finalize();
    again.all_reduce(1);
}

#[test]
fn calls_that_cannot_be_kept_are_announced_and_lost_by_cause() {
    let mut job = Job::new(module_path!(), "job_without_room_for_more_communicators");
    assert!(job.run().success());
    let (full, kept) = (45 * CALLS as u64 + CALLS as u64, 255 * CALLS as u64);
    let c = account(&job);
    assert_eq!((c.announced, c.recorded), (full + kept + 1, kept), "{c:#?}");
    let lost = [("communicators_full", full), ("stale_context", 1)];
    let lost = lost.map(|(cause, n)| (cause.to_owned(), n));
    assert_eq!(c.lost.into_iter().collect::<Vec<_>>(), lost);
    assert_eq!(c.odd.get("communicators_full"), Some(&45));
    assert!(c.adds_up);
}

#[test]
#[ignore = "played by the test below"]
fn job_that_drives_8_ranks_flat_out() {
    let mut ranks: Vec<Driver> = (0..8).map(|_| Driver::new(0xc0)).collect();
    std::thread::scope(|scope| {
        for rank in &mut ranks {
            scope.spawn(|| (0..1500).for_each(|_| rank.all_reduce(1)));
        }
    });
    ranks.into_iter().for_each(Driver::finalize);
}

#[test]
fn a_process_that_drives_8_ranks_flat_out_has_rows_for_all() {
    // Nothing is sealed in time: the rows that there are must be enough.
    let job = || {
        Job::new(module_path!(), "job_that_drives_8_ranks_flat_out").env("NCCLSCOPE_FLUSH", "3600")
    };
    let mut flat_out = job();
    assert!(flat_out.run().success());
    let c = account(&flat_out);
    assert_eq!((c.announced, c.recorded), (12_000, 12_000), "{c:#?}");
    assert!(c.lost.is_empty() && c.adds_up, "{c:#?}");
    // No more than was permitted, and what is lost is counted.
    let mut bounded = job().env("NCCLSCOPE_MEMORY", "1MiB");
    assert!(bounded.run().success());
    let c = account(&bounded);
    let lost: u64 = c.lost.values().sum();
    assert_eq!((c.announced, c.recorded + lost), (12_000, 12_000), "{c:#?}");
    assert!(
        c.lost.keys().all(|cause| cause == "rows_full") && c.adds_up,
        "{c:#?}"
    );
}
