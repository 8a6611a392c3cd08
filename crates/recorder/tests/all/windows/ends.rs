//! However a job ends, its windows stay.

use super::*;

#[test]
#[ignore = "played by a story"]
fn job_that_ends_in_a_window() {
    let mut play = Play::new();
    play.long = play.compute;
    play.set_up();
    play.windows(1);
    recorded(|p| !windows(p).is_empty());
    // The window may have ended before the job does, on a busy machine.
    let mut in_window = false;
    while !in_window {
        play.until(|| enabled() == ALL_KINDS);
        (0..20).for_each(|_| play.step());
        play.rest();
        play.save();
        in_window = enabled() == ALL_KINDS;
    }
    if std::env::var("END").expect("set") == "kill" {
        // SAFETY: ends this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    std::process::exit(0);
}

pub(super) fn a_job_that_is_killed_in_a_window_keeps_those_before() {
    let place = JobFolder::with_cupti();
    let mut job = place
        .job("ends::job_that_ends_in_a_window")
        .env("END", "kill");
    assert!(!job.run().success());
    let left = Left::behind(&job);
    assert!(left.check(true) >= 1);
    assert_eq!(left.off(), None);
}

pub(super) fn a_job_that_exits_in_a_window_keeps_that_too() {
    let place = JobFolder::with_cupti();
    let left = Left::of(
        place
            .job("ends::job_that_ends_in_a_window")
            .env("END", "exit"),
    );
    assert!(left.check(true) >= 2);
    let ends: Vec<End> = left.windows().iter().map(|w| w.end).collect();
    assert_eq!(ends.last(), Some(&End::Exit), "{ends:?}");
}

static STILL_PLAYS: AtomicPtr<Play> = AtomicPtr::new(std::ptr::null_mut());

#[test]
#[ignore = "played by a story"]
fn job_that_calls_on_while_it_exits() {
    // Registered before the recorder's handler, so it runs behind it: as CUDA's own, which shuts the driver
    // down.
    extern "C" fn shuts_down() {
        // SAFETY: leaked below, and the exit handlers run on its thread.
        let play = unsafe { STILL_PLAYS.load(Relaxed).as_mut() }.expect("set");
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            play.step();
            std::thread::sleep(Duration::from_millis(1));
            if enabled() == ALL_KINDS {
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(9) };
            }
        }
    }
    // SAFETY: the function lives as long as the process.
    unsafe { libc::atexit(shuts_down) };
    let mut play = Play::new();
    play.set_up();
    play.windows(2);
    STILL_PLAYS.store(Box::into_raw(Box::new(play)), Relaxed);
    std::process::exit(0);
}

pub(super) fn no_window_is_opened_while_the_driver_shuts_down() {
    let place = JobFolder::with_cupti();
    let mut job = place.job("ends::job_that_calls_on_while_it_exits");
    assert_eq!(job.run().code(), Some(0));
}

#[test]
#[ignore = "played by a story"]
fn job_that_forks_in_a_window() {
    let mut play = Play::new();
    play.set_up();
    play.windows(1);
    play.until(|| enabled() == ALL_KINDS);
    // SAFETY: the child calls NCCL's profiler and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // A child must not use the GPU; its calls are recorded as of a process of its own.
        let mut comm = Driver::new(2);
        for _ in 0..20 {
            comm.enqueue(64);
        }
        recorded(|p| p.calls.len() == 20);
        // SAFETY: ends this process.
        unsafe { libc::_exit(0) };
    }
    play.windows(1);
    let mut status = 0;
    // SAFETY: the child is ours.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
    play.rest();
    play.save();
}

pub(super) fn a_fork_in_a_window_leaves_both_alone() {
    let place = JobFolder::with_cupti();
    let mut job = place.job("ends::job_that_forks_in_a_window");
    assert!(job.run().success());
    let file = launches_file(&job.folder);
    let copy = std::fs::read(&file).expect("the job wrote it");
    let processes = job.capture().processes;
    let pids: BTreeSet<u32> = processes.iter().map(|p| p.pid).collect();
    assert_eq!(pids.len(), 2);
    std::fs::write(&file, copy).expect("written");
    let (child, mut parent): (Vec<_>, Vec<_>) =
        processes.into_iter().partition(|p| p.calls.len() == 20);
    assert_eq!((child.len(), parent.len()), (1, 1));
    assert!(child[0].windows.list.is_empty());
    let left = Left {
        process: parent.remove(0),
        launches: Left::behind(&job).launches,
    };
    assert!(left.check(true) >= 2);
}
