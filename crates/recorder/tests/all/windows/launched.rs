//! Windows have what was launched in them, and cost no more than they may.

use super::*;

#[test]
#[ignore = "played by a story"]
fn job_of_steps() {
    let mut play = Play::new();
    play.set_up();
    play.windows(3);
    play.until_recorded(|p| p.windows.list.iter().any(Window::is_quiet));
    if std::env::var_os("ALL_STREAMS").is_some() {
        // Also the kernels that run for long, which not every window has.
        play.until_recorded(|p| windows(p).iter().any(|w| runs_after(w)) && has_all_streams(p));
    }
    play.rest();
    play.save();
}

/// Something of it was launched in the window and ran after it.
fn runs_after(window: &Window) -> bool {
    window.ran.iter().any(|r| r.end > window.closed)
}

fn has_all_streams(process: &Process) -> bool {
    let windows = windows(process);
    let all: BTreeSet<u64> = windows
        .iter()
        .flat_map(|w| w.ran.iter().map(|r| r.stream.into()))
        .collect();
    [STREAM, OTHER, SECOND, LONG]
        .iter()
        .all(|stream| all.contains(stream))
}

pub(super) fn all_that_was_launched_in_a_window_is_in_it() {
    let place = JobFolder::with_cupti();
    let job = place.job("launched::job_of_steps").env("ALL_STREAMS", "1");
    let left = Left::of(job);
    assert_eq!(left.off(), None);
    assert!(left.check(true) >= 2);
    assert!(!left.process.calls.is_empty());
    let windows = left.windows();
    let all: Vec<&GpuActivity> = windows.iter().flat_map(|w| &w.ran).collect();
    assert!(has_all_streams(&left.process));
    assert!(all.iter().any(|r| r.graph != 0));
    // Numbers of windows and of calls that they were planned for rise.
    assert!(windows
        .windows(2)
        .all(|pair| (pair[0].number, pair[0].planned) < (pair[1].number, pair[1].planned)));
    assert!(windows.iter().any(|w| runs_after(w)));
    assert!(left.process.windows.list.iter().any(|w| w.is_quiet()));
}

#[test]
#[ignore = "played by a story"]
fn job_that_has_just_begun() {
    let mut play = Play::new();
    play.step();
    // CUPTI is there, was switched on and off, and no call is due for a window.
    until(|| calls("cuptiActivityDisable") == KINDS);
    assert_eq!((begun(), enabled()), (1, 0));
    // With buffers for each thread, which is its default, CUPTI 13.0 crashes some jobs.
    assert_eq!(calls("shared buffers"), 1);
    play.rest();
    play.save();
}

pub(super) fn cupti_is_set_up_before_the_first_window() {
    let place = JobFolder::with_cupti();
    let left = Left::of(place.job("launched::job_that_has_just_begun"));
    assert_eq!(left.off(), None);
    assert!(left.process.windows.list.is_empty());
}

#[test]
#[ignore = "played by a story"]
fn job_with_few_launches() {
    let mut play = Play::new();
    play.windows(2);
    play.rest();
    play.save();
}

pub(super) fn a_job_that_can_afford_cupti_has_windows() {
    let place = JobFolder::with_cupti();
    // Some 10 000 launches a second: CUPTI may cost 9 %.
    let left = Left::of(place.thrifty_job("launched::job_with_few_launches", "50"));
    assert_eq!(left.off(), None);
    assert!(left.check(true) >= 1);
}

#[test]
#[ignore = "played by a story"]
fn job_with_many_launches() {
    let mut play = Play::new();
    play.go_on(Duration::from_millis(2500));
    // CUPTI stays in the way of launches once it was on: it never was.
    assert_eq!((begun(), calls("cuptiActivityEnable")), (0, 0));
    // The GPU has more to do than the host from now on.
    if std::env::var_os("GETS_AHEAD").is_some() {
        let began = Instant::now();
        while calls("cuptiActivityDisable") < KINDS {
            assert!(began.elapsed().as_secs() < 60, "it never comes");
            play.kernel(play.compute, 0, OTHER);
            play.timed_call(5_000_000);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    play.save();
}

pub(super) fn a_job_that_waits_for_its_host_is_not_slowed_by_cupti() {
    let place = JobFolder::with_cupti();
    let left = Left::of(place.thrifty_job("launched::job_with_many_launches", "0.1"));
    let Some(Off::HostBound(share)) = left.off() else {
        panic!("{:?}", left.off());
    };
    // More than the budget of 0.1 %, and less than all.
    assert!((10..10_000).contains(&share), "{share}");
    // Quiet spells still show what events cost.
    let list = &left.process.windows.list;
    assert!(list.iter().all(|w| w.is_quiet()));
}

pub(super) fn cupti_is_set_up_once_the_host_is_ahead() {
    let place = JobFolder::with_cupti();
    let job = place.thrifty_job("launched::job_with_many_launches", "0.1");
    let mut job = job.env("NCCLSCOPE_TIMING", "auto").env("GETS_AHEAD", "1");
    // The stamps here are of this run's launches.
    job.command().env_remove("NCCLSCOPE_STAMPS");
    let left = Left::of(job);
    assert_eq!(left.off(), None);
}

#[test]
#[ignore = "played by a story"]
fn job_whose_library_looks_the_driver_up_late() {
    // As cuBLAS, which has a runtime of its own in it.
    let runtime = place().join("libcublas.so.13");
    let driver = Cuda::runtime().driver;
    // SAFETY: our own, without initialisers.
    let caller = unsafe { libloading::Library::new(runtime) }.expect("loads");
    let mut play = Play::new();
    let before_cupti = std::env::var_os("BEFORE_CUPTI").is_some();
    if !before_cupti {
        play.set_up();
    }
    let cublas = Cuda::found(driver, caller);
    if before_cupti {
        // It looks the driver up when it first launches.
        let null = std::ptr::null_mut();
        cublas.launch_kernel(&play.compute, 2, 3, 4, 1, 1, 1, 0, OTHER, null, null);
        play.set_up();
    }
    let closed = || calls("cuptiActivityDisable") / KINDS;
    let before = closed();
    while closed() < before + 4 {
        play.step();
        let null = std::ptr::null_mut();
        cublas.launch_kernel(&play.compute, 2, 3, 4, 1, 1, 1, 0, OTHER, null, null);
        cublas.launch_kernel(&play.compute, 2, 3, 4, 1, 1, 1, 0, OTHER, null, null);
    }
    play.rest();
    play.save();
}

pub(super) fn launches_of_a_library_that_looks_the_driver_up_late_are_seen() {
    let unseen = |when: &str| -> Vec<usize> {
        let place = JobFolder::with_cupti();
        place.put("libcublas.so.13", "fake_cudart");
        let job = place.job("launched::job_whose_library_looks_the_driver_up_late");
        let left = Left::of(job.env(when, "1"));
        let unseen = |window: &&Window| {
            let kernels = window
                .ran
                .iter()
                .filter(|r| r.kind == ActivityKind::Kernel && r.graph == 0);
            let launches = window
                .asked
                .iter()
                .filter(|a| a.kind == DriverCallKind::Launch);
            kernels.count().saturating_sub(launches.count())
        };
        left.windows().iter().map(unseen).collect()
    };
    let late = unseen("AFTER_CUPTI");
    // A launch at a window's edge may be in it without its kernel, or the other way round: those of the steps
    // that the host is ahead of its GPU. Unseen are hundreds.
    let edge = |unseen: &usize| *unseen <= 8;
    assert!(late[0] > 2 && late.last().is_some_and(edge), "{late:?}");
    // cuBLAS is used in a job's first steps: the first window has its launches.
    let early = unseen("BEFORE_CUPTI");
    assert!(early.iter().all(edge), "{early:?}");
}

pub(super) fn dropped_records_are_counted_and_the_others_stay() {
    let place = JobFolder::with_cupti();
    let left = Left::of(
        place
            .job("launched::job_of_steps")
            .env("FAKE_CUPTI_DROP", "50"),
    );
    assert_eq!(left.off(), None);
    left.check(true);
    let windows = left.windows();
    // One of 50, so a window that is whole has fewer.
    assert!(windows.iter().all(|w| !w.is_whole() || w.ran.len() < 50));
    let all: usize = windows.iter().map(|w| w.ran.len()).sum();
    let dropped: u32 = windows.iter().map(|w| w.dropped).sum();
    assert!(
        dropped > 0 && all > 30 * dropped as usize,
        "{dropped} of {all}"
    );
}

pub(super) fn records_without_a_buffer_are_counted_once() {
    let place = JobFolder::with_cupti();
    let left = Left::of(
        place
            .job("launched::job_of_steps")
            .env("FAKE_CUPTI_RECORDS", "2"),
    );
    let mut most = 0;
    for window in left.windows() {
        let there: BTreeSet<u64> = window.ran.iter().map(|r| r.correlation.into()).collect();
        let missing = left.launches.iter().filter(|launch| {
            let near = window.opening - ERROR..=window.closed + ERROR;
            let perhaps = near.contains(&launch.before) || near.contains(&launch.after);
            perhaps && !there.contains(&launch.correlation)
        });
        let missing: u64 = missing.map(|launch| launch.kernels).sum();
        // Of a launch of a graph, some may be there.
        let missing =
            missing + IN_GRAPH * window.ran.iter().filter(|r| r.graph != 0).count() as u64;
        let dropped = u64::from(window.dropped);
        assert!(dropped <= missing, "{dropped} of {missing}");
        most = most.max(dropped);
    }
    assert!(most > 0);
}

/// Nothing with a time is in the windows, and what is left out is counted.
pub(super) fn check_clock_set(left: &Left) {
    let windows = left.windows();
    assert!(windows.iter().all(|w| w.ran.is_empty()));
    let set = windows.iter().filter(|w| w.end == End::ClockSet);
    let set: Vec<&&Window> = set.collect();
    assert!(!set.is_empty());
    assert!(set.iter().all(|w| w.dropped > 0 && !w.asked.is_empty()));
}

pub(super) fn times_of_an_unknown_clock_are_left_out() {
    let place = JobFolder::with_cupti();
    let job = place.job("launched::job_of_steps");
    let left = Left::of(job.env("FAKE_CUPTI_AHEAD", "5000000000"));
    check_clock_set(&left);
}

#[test]
#[ignore = "played by a story"]
fn job_that_windows_slow() {
    let mut play = Play::new();
    play.set_up();
    let (began, before) = (now(libc::CLOCK_MONOTONIC), play.cuda.number("extra"));
    let end = |play: &Play| play.cuda.newest()[2] as i64;
    play.nccl.0 = 2_000_000;
    while calls("cuptiActivityDisable") / KINDS < 8 {
        play.comm.enqueue(4096);
        let nccl = play.nccl;
        play.kernel(nccl, 0, STREAM);
        let left = end(&play) - now(libc::CLOCK_MONOTONIC);
        std::thread::sleep(Duration::from_nanos(left.max(0) as u64));
        assert!(
            now(libc::CLOCK_MONOTONIC) - began < 60_000_000_000,
            "too few windows"
        );
    }
    let took = now(libc::CLOCK_MONOTONIC) - began;
    let extra = (play.cuda.number("extra") - before) as f64;
    // The newest window has to be fetched, and something comes after it.
    play.rest();
    let truth = extra / (took as f64 - extra);
    std::fs::write(launches_file(&out()), truth.to_string()).expect("written");
}

/// The job takes a quarter longer in windows. The host waits for each kernel, and a busy machine wakes it
/// late. The interval contains that: an estimate is off by three of its half widths once in some thousand
/// runs.
pub(super) fn a_report_says_what_windows_cost() {
    let place = JobFolder::with_cupti();
    let mut job = place
        .job("launched::job_that_windows_slow")
        .env("NCCLSCOPE_BUDGET", "1")
        .env("FAKE_CUPTI_SLOWS", "25");
    assert!(job.run().success());
    let truth = std::fs::read_to_string(launches_file(&job.folder)).expect("the job wrote it");
    let _ = std::fs::remove_file(launches_file(&job.folder));
    let truth: f64 = truth.parse().expect("a number");
    let cost = analyze::report(&job.capture())
        .cost
        .expect("calls were made");
    assert_eq!(cost.timed_launches, 0);
    let windows = cost.windows.expect("enough of them");
    let (low, high) = windows.interval.expect("as many");
    assert_eq!(cost.gpu, Some(windows));
    assert!(truth > 0.002, "{truth}");
    let off = (windows.share - truth).abs();
    assert!(off < 1.5 * (high - low), "{truth}: {cost:?}");
    println!("{truth}: {cost:?}");
}

#[test]
#[ignore = "played by a story"]
fn job_with_a_runtime_of_its_own() {
    let runtime = place().join("cuda_runtime/lib/libcudart.so.13");
    let mut play = Play::with(Cuda::with_runtime(&runtime));
    play.until_recorded(|p| !windows(p).is_empty());
    play.save();
}

pub(super) fn the_cupti_that_lies_beside_cudas_runtime_is_found() {
    let place = JobFolder::new();
    place.put("cuda_runtime/lib/libcudart.so.13", "fake_cudart");
    place.put("cuda_cupti/lib/libcupti.so.13", "fake_cupti");
    let left = Left::of(place.job("launched::job_with_a_runtime_of_its_own"));
    assert_eq!(left.off(), None);
    assert!(left.check(true) >= 1);
}

#[test]
#[ignore = "played by a story"]
fn job_without_windows() {
    // It is there for others.
    let found = place().join("libcupti.so.13");
    // SAFETY: our own, without initialisers.
    let _cupti = unsafe { Library::open(Some(found), RTLD_LAZY) };
    // A tool's library may be there too.
    let tool = place().join("libToolsInjection64.so");
    // SAFETY: as above.
    let _tool = unsafe { Library::open(Some(tool), RTLD_LAZY) };
    let mut play = Play::new();
    play.go_on(Duration::from_millis(1500));
    assert_eq!(begun(), 0);
    play.save();
}

pub(super) fn there_may_be_no_windows_and_the_cause_is_said() {
    let without = |place: &JobFolder, name: &str, value: &str| {
        let left = Left::of(place.job("launched::job_without_windows").env(name, value));
        assert!(left.process.windows.list.is_empty());
        left.off()
    };
    let nowhere = JobFolder::new();
    for name in ["libcupti.so.13", "libcupti.so.12"] {
        // The dynamic linker looks no further than a file that it can't load.
        std::fs::write(nowhere.path().join(name), "no library").expect("written");
    }
    let there = JobFolder::with_cupti();
    let tool = JobFolder::with_cupti();
    tool.put("libToolsInjection64.so", "fake_cudart");
    std::thread::scope(|scope| {
        let no_cupti = scope.spawn(|| without(&nowhere, "A", "1"));
        let off = scope.spawn(|| without(&there, "NCCLSCOPE_WINDOWS", "off"));
        let profile = scope.spawn(|| without(&there, "NCCLSCOPE_MODE", "profile"));
        let foreign = scope.spawn(|| without(&tool, "A", "1"));
        let shared = scope.spawn(|| {
            let job = there.job("launched::job_without_windows");
            let job = job.env("NCCLSCOPE_WINDOWS", "auto");
            Left::of(job.env("FAKE_CUDA_MPS", "1")).off()
        });
        let crashing = scope.spawn(|| {
            let job = there.job("launched::job_without_windows");
            let job = job.env("NCCLSCOPE_WINDOWS", "auto");
            Left::of(job.env("FAKE_CUPTI_VERSION", "130202")).off()
        });
        assert_eq!(no_cupti.join().expect("passed"), Some(Off::NoCupti));
        assert_eq!(off.join().expect("passed"), Some(Off::NotAsked));
        assert_eq!(profile.join().expect("passed"), Some(Off::NotAsked));
        assert_eq!(foreign.join().expect("passed"), Some(Off::ForeignTool));
        assert_eq!(shared.join().expect("passed"), Some(Off::SharedGpu));
        assert_eq!(
            crashing.join().expect("passed"),
            Some(Off::UnsafeCupti(130_202))
        );
    });
}

#[test]
#[ignore = "played by a story"]
fn job_with_an_error() {
    let mut play = Play::new();
    let fails = std::env::var("FAKE_CUPTI_FAIL").expect("set");
    let fails: Vec<&str> = fails.split(':').collect();
    let (name, from) = (fails[0], fails[1].parse().expect("a number"));
    play.until(|| calls(name) >= from);
    play.go_on(Duration::from_millis(300));
    let (windows, failing) = (begun(), calls(name));
    play.go_on(Duration::from_millis(800));
    // For good, and nothing is left on.
    assert_eq!((windows, failing, enabled()), (begun(), calls(name), 0));
    play.rest();
    play.save();
}

pub(super) fn an_error_of_cupti_ends_windows_for_good() {
    let left = |fail: &str| {
        let place = JobFolder::with_cupti();
        Left::of(
            place
                .job("launched::job_with_an_error")
                .env("FAKE_CUPTI_FAIL", fail),
        )
    };
    std::thread::scope(|scope| {
        // Before the first window, as if a tool had the GPU; then at the second; then after any.
        let first = scope.spawn(|| left("cuptiActivityEnable:2:39"));
        let second = scope.spawn(|| left("cuptiActivityEnable:7:8"));
        let flush = scope.spawn(|| left("cuptiActivityFlushAll:12:999"));
        let first = first.join().expect("passed");
        assert_eq!(first.off(), Some(Off::Error(39)));
        assert!(first.windows().is_empty());
        let second = second.join().expect("passed");
        assert_eq!(second.off(), Some(Off::Error(8)));
        assert_eq!((second.windows().len(), second.check(true)), (1, 1));
        let flush = flush.join().expect("passed");
        assert_eq!(flush.off(), Some(Off::Error(999)));
        let ends: Vec<(End, u32)> = flush.windows().iter().map(|w| (w.end, w.code)).collect();
        // Set-up has flushed too, more often on a busy machine.
        let failed = ends.is_empty() || ends.last() == Some(&(End::Failed, 999));
        assert!(failed, "{ends:?}");
    });
}
