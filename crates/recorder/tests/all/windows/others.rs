//! Another profiler gets all of its records.

use super::launched::check_clock_set;
use super::*;

#[test]
#[ignore = "played by a story"]
fn job_that_was_profiled_before() {
    let own_clock = std::env::var_os("OWN_CLOCK").is_some();
    let mut play;
    {
        // The use of CUPTI has begun before the recorder is there.
        let cuda = Cuda::runtime();
        // SAFETY: our own, without initialisers.
        let _cupti = unsafe { Library::open(Some("libcupti.so.13"), RTLD_LAZY) };
        let profiler = Profiler::load();
        profiler.begin(own_clock);
        play = Play::with(cuda);
        let first = begun();
        play.long = play.compute;
        play.before_step = Some(profiler);
        // The first window may yield because the recorder has not listened for long enough.
        play.until_recorded(|p| p.windows.yielded >= 3);
        play.before_step = None;
        play.rest();
        assert_eq!(begun(), first, "a window opened meanwhile");
        let kernels = play
            .launches
            .iter()
            .filter(|l| l.kind == ActivityKind::Kernel);
        let kernels: u64 = kernels.map(|l| l.kernels).sum();
        assert_eq!(profiler.end(), [kernels, 0, 0]);
    }
    play.windows(3);
    play.rest();
    play.save();
}

pub(super) fn a_use_of_cupti_that_began_before_is_left_alone() {
    let profiled = |options: &[&str]| {
        let place = JobFolder::with_cupti().with_profiler(options);
        Left::of(place.job("others::job_that_was_profiled_before"))
    };
    std::thread::scope(|scope| {
        let imports = scope.spawn(|| profiled(&[]));
        let looked_up = scope.spawn(|| profiled(&["-DLOOKS_UP"]));
        for left in [imports, looked_up] {
            let left = left.join().expect("passed");
            assert!(left.process.windows.yielded > 0);
            assert_eq!(left.off(), None);
            assert!(left.check(true) >= 2);
        }
    });
}

pub(super) fn a_clock_that_was_given_to_cupti_before_is_not_taken_for_another() {
    let place = JobFolder::with_cupti().with_profiler(&[]);
    let job = place.job("others::job_that_was_profiled_before");
    let left = Left::of(job.env("OWN_CLOCK", "1"));
    check_clock_set(&left);
}

#[test]
#[ignore = "played by a story"]
fn job_that_is_profiled() {
    let own_clock = std::env::var_os("OWN_CLOCK").is_some();
    let late = std::env::var_os("LATE").is_some();
    // SAFETY: our own, without initialisers.
    let _cupti = unsafe { Library::open(Some("libcupti.so.13"), RTLD_LAZY) };
    let early = (!late).then(Profiler::load);
    let mut play = Play::new();
    play.set_up();
    play.windows(1);
    if late {
        // The recorder looks for new libraries before each window, and has had no call since this one.
        recorded(|p| !windows(p).is_empty());
    }
    let profiler = early.unwrap_or_else(Profiler::load);
    // Between windows.
    profiler.profile(&mut play, own_clock, late);
    play.windows(1);
    // In a window.
    play.until(|| enabled() == ALL_KINDS);
    play.step();
    profiler.profile(&mut play, own_clock, false);
    play.windows(1);
    play.rest();
    play.save();
}

fn profiled(options: &[&str], variable: &str) -> Left {
    let place = JobFolder::with_cupti().with_profiler(options);
    Left::of(place.job("others::job_that_is_profiled").env(variable, "1"))
}

/// A window yielded, windows came again, and all is in them.
fn check_profiled(left: &Left, own_clock: bool) {
    assert_eq!(left.off(), None);
    let yielded = |w: &&Window| w.end == End::Yielded;
    let windows = left.windows();
    let last = windows.iter().rposition(yielded).expect("one yielded");
    let ends: Vec<(End, u32)> = windows.iter().map(|w| (w.end, w.dropped)).collect();
    assert!(windows[last..].iter().any(|w| w.is_whole()), "{ends:?}");
    assert!(left.check(own_clock) >= 2, "{ends:?}");
}

pub(super) fn another_profiler_gets_all_of_its_records_and_windows_come_again() {
    std::thread::scope(|scope| {
        let ours = scope.spawn(|| check_profiled(&profiled(&[], "A"), true));
        let own_clock = scope.spawn(|| check_profiled(&profiled(&[], "OWN_CLOCK"), false));
        ours.join().expect("passed");
        own_clock.join().expect("passed");
    });
}

pub(super) fn a_profiler_that_is_loaded_late_gets_all_of_its_records() {
    std::thread::scope(|scope| {
        let imports = scope.spawn(|| check_profiled(&profiled(&[], "LATE"), true));
        let looks_up = scope.spawn(|| check_profiled(&profiled(&["-DLOOKS_UP"], "LATE"), true));
        imports.join().expect("passed");
        looks_up.join().expect("passed");
    });
}

#[test]
#[ignore = "played by a story"]
fn job_that_yields_with_an_error() {
    // SAFETY: our own, without initialisers.
    let _cupti = unsafe { Library::open(Some("libcupti.so.13"), RTLD_LAZY) };
    let profiler = Profiler::load();
    let mut play = Play::new();
    play.set_up();
    play.until(|| enabled() == ALL_KINDS);
    profiler.begin(false);
    play.go_on(Duration::from_millis(300));
    play.save();
}

pub(super) fn an_error_while_a_window_yields_is_the_last_too() {
    let place = JobFolder::with_cupti().with_profiler(&[]);
    let job = place.job("others::job_that_yields_with_an_error");
    let left = Left::of(job.env("FAKE_CUPTI_FAIL", "cuptiActivityDisable:4:15"));
    let ends: Vec<(End, u32)> = left.windows().iter().map(|w| (w.end, w.code)).collect();
    assert_eq!(ends, [(End::Yielded, 15)]);
    assert_eq!(left.off(), Some(Off::Error(15)));
}
