//! GPU times from CUDA events, with a driver of our own (`fake-cuda`) that knows the truth.

use crate::job::{flushed, out, recorded, Driver, Job};
use capture::live::part;
use nccl_abi::{event, state};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tables::{Call, Capture, GpuTimes, Process, Untimed};

/// The driver, loaded as CUDA's would be: before the recorder looks for it.
struct Cuda(libloading::Library);

macro_rules! function {
    ($name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?) => {
        fn $name(&self $(, $arg: $type)*) $(-> $result)? {
            let name = concat!("fake_cuda_", stringify!($name));
            // SAFETY: these are fake-cuda's signatures.
            unsafe {
                let function: libloading::Symbol<unsafe extern "C" fn($($type),*) $(-> $result)?> =
                    self.0.get(name.as_bytes()).expect("fake-cuda has it");
                function($($arg),*)
            }
        }
    };
}

impl Cuda {
    fn load() -> Cuda {
        let exe = std::env::current_exe().expect("known");
        let folder = exe.ancestors().nth(2).expect("target/PROFILE");
        let places = ["", "deps"].map(|f| folder.join(f).join("libfake_cuda.so"));
        let path: PathBuf = places
            .into_iter()
            .find(|path| path.is_file())
            .expect("`make debug` builds libfake_cuda.so");
        // SAFETY: a library of ours without initialisers.
        Cuda(unsafe { libloading::Library::new(path) }.expect("loaded"))
    }

    function!(kernel(stream: u64, ns: u64));
    function!(capture(stream: u64, on: bool));
    function!(step(ns: i64));
    function!(drift(ppm: i64));
    function!(fail(code: i32));
    function!(ask_fail(code: i32));
    function!(stick(on: bool));
    function!(reset());
    function!(records() -> u64);
    function!(violations() -> u64);
}

const STREAM: u64 = 0x57;

/// One AllReduce whose kernel takes `ns`.
fn all_reduce(cuda: &Cuda, comm: &mut Driver, count: usize, ns: u64) {
    let group = comm.group(false);
    let api = comm.coll_api(group, count, false);
    comm.state(group, state::GROUP_END_API_START, None);
    launch(cuda, comm, group, ns);
    let plan = comm.start(event::GROUP, std::ptr::null_mut(), |_| {});
    comm.coll(api, count, 2);
    comm.stop(plan);
    comm.stop(group);
}

fn launch(cuda: &Cuda, comm: &Driver, group: *mut std::ffi::c_void, ns: u64) {
    let launch = comm.start(event::KERNEL_LAUNCH, group, |u| {
        u.kernel_launch.stream = STREAM as *mut _;
    });
    cuda.kernel(STREAM, ns);
    comm.stop(launch);
}

/// Gives the stream so much to do that the next launch begins when this work ends, and not earlier. Only then
/// is no launch latency between its events.
fn load(cuda: &Cuda) {
    cuda.kernel(STREAM, 300_000);
}

/// Calls `launch` behind [`load`], and notes its number in `late` if the host took so long that the stream
/// ran dry.
fn loaded(cuda: &Cuda, late: &mut Vec<usize>, number: usize, launch: impl FnOnce()) {
    let began = Instant::now();
    load(cuda);
    launch();
    if began.elapsed() >= Duration::from_micros(250) {
        late.push(number);
    }
}

/// Where a job says which of its launches were late.
fn late_file(folder: &Path) -> PathBuf {
    folder.with_extension("late")
}

fn tell_late(late: &[usize]) {
    std::fs::write(late_file(&out()), serde_json::to_vec(late).expect("JSON")).expect("written");
}

/// The launches of a job that were late: few, or it shows nothing.
fn late_of(job: &Job) -> Vec<usize> {
    let file = late_file(&job.folder);
    let late: Vec<usize> =
        serde_json::from_slice(&std::fs::read(&file).expect("read")).expect("JSON");
    let _ = std::fs::remove_file(file);
    late
}

/// Calls `each` and waits for `period`, again and again. What a busy machine holds up is not made up for:
/// that would be a flood.
fn paced(n: usize, period: Duration, mut each: impl FnMut(usize)) {
    for i in 0..n {
        each(i);
        std::thread::sleep(period);
    }
}

/// Whether the first `n` calls have their times.
fn has_times(n: usize) -> impl Fn(&Process) -> bool {
    move |p| p.calls.len() >= n && p.calls[..n].iter().all(|c| time(p, c).is_ok())
}

fn process(capture: &Capture) -> &Process {
    assert_eq!(capture.processes.len(), 1);
    &capture.processes[0]
}

fn time(process: &Process, call: &Call) -> Result<u64, Untimed> {
    call.gpu_ns(&process.shapes[call.shape as usize])
}

/// Runs the ignored test of this name.
fn run(name: &str, timing: &str) -> (Job, std::process::ExitStatus) {
    let mut job = Job::new(module_path!(), name).env("NCCLSCOPE_TIMING", timing);
    // The stamps here are of this run's launches.
    job.command().env_remove("NCCLSCOPE_STAMPS");
    let status = job.run();
    (job, status)
}

#[test]
#[ignore = "played by the test below"]
fn job_of_known_lengths() {
    let cuda = Cuda::load();
    cuda.drift(30);
    let mut comm = Driver::new(1);
    let mut late = Vec::new();
    paced(300, Duration::from_millis(1), |i| {
        loaded(&cuda, &mut late, i, || {
            all_reduce(&cuda, &mut comm, 256, 20_000 + 1_000 * (i as u64 % 50));
        });
    });
    tell_late(&late);
    // As ncclCommDestroy does, which waits for what is under way.
    std::thread::sleep(Duration::from_millis(5));
    comm.finalize();
    assert_eq!(cuda.violations(), 0);
}

#[test]
fn every_launch_of_a_calm_job_is_timed_and_its_time_is_on_the_hosts_clock() {
    let (job, status) = run("job_of_known_lengths", "auto");
    assert!(status.success());
    let capture = job.capture();
    let p = process(&capture);
    assert_eq!(p.calls.len(), 300);
    let late = late_of(&job);
    assert!(late.len() < 100, "{} launches were late", late.len());
    for (i, call) in p.calls.iter().enumerate() {
        let length = 20_000 + 1_000 * (i as u64 % 50);
        let found = time(p, call).unwrap_or_else(|why| panic!("call {i}: {why:?}"));
        // Within what a float of ms and the steps of 16 ns leave.
        assert!(
            found.abs_diff(length) <= 200 || late.contains(&i),
            "call {i}: {found} for {length}"
        );
        // Not before its launch, nor before the one before it had ended.
        let GpuTimes::OnHost { start, error, .. } = call.gpu else {
            panic!("call {i} is not on the host's clock: {call:?}");
        };
        let error = i64::from(error);
        assert!(error > 0 && error < 5_000_000);
        assert!(start + error >= call.api_ns, "call {i}");
        let (_, before) = p.calls[i.saturating_sub(1)].gpu.on_host().expect("timed");
        let known = i == 0 || before <= start + 2 * error;
        assert!(known, "call {i}");
    }
}

#[test]
#[ignore = "played by the test below"]
fn job_on_a_busy_host() {
    let cuda = Cuda::load();
    let mut comm = Driver::new(1);
    paced(100, Duration::from_millis(2), |_| {
        all_reduce(&cuda, &mut comm, 256, 30_000);
    });
    std::thread::sleep(Duration::from_millis(5));
    comm.finalize();
}

#[test]
fn a_recorder_that_loses_its_cpu_does_not_take_it_for_a_step_of_the_gpus_clock() {
    let folder = tempfile::tempdir().expect("made");
    let library = folder.path().join("libinterrupted.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/gpu_events/interrupted.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .args([&library, &source])
        .status();
    assert!(built.expect("there is a cc").success());
    let mut job = Job::new(module_path!(), "job_on_a_busy_host")
        .env("LD_PRELOAD", library.to_str().expect("text"));
    assert!(job.run().success());
    let capture = job.capture();
    let p = process(&capture);
    assert_eq!(p.calls.len(), 100);
    for (i, call) in p.calls.iter().enumerate() {
        time(p, call).unwrap_or_else(|why| panic!("call {i}: {why:?}"));
    }
}

#[test]
#[ignore = "played by the test below"]
fn job_of_a_flood() {
    let cuda = Cuda::load();
    let mut comm = Driver::new(1);
    paced(2_000, Duration::from_millis(1), |_| {
        for _ in 0..20 {
            all_reduce(&cuda, &mut comm, 256, 2_000);
        }
    });
    std::thread::sleep(Duration::from_millis(5));
    comm.finalize();
}

#[test]
fn a_flood_is_sampled_and_every_call_is_counted() {
    let (job, status) = run("job_of_a_flood", "auto");
    assert!(status.success());
    let capture = job.capture();
    let report = analyze::report(&capture);
    let c = &report.completeness;
    // Rows may be short where the machine gives the recorder's thread no time; calls count all the same.
    let lost: u64 = c.lost.values().sum();
    assert_eq!((c.announced, c.recorded + lost), (40_000, 40_000), "{c:#?}");
    let unsampled = c.untimed.get("unsampled").copied().unwrap_or(0);
    assert!(unsampled > 20_000 && c.timed > 200, "{c:#?}");
}

#[test]
#[ignore = "played by the test below"]
fn job_that_times_all() {
    let cuda = Cuda::load();
    let mut comm = Driver::new(1);
    paced(2_000, Duration::from_micros(500), |i| {
        // There are 1024 pairs of events.
        if i % 500 == 0 && i > 0 {
            recorded(has_times(i));
        }
        all_reduce(&cuda, &mut comm, 256, 2_000);
    });
    std::thread::sleep(Duration::from_millis(5));
    comm.finalize();
}

#[test]
fn with_timing_events_nothing_is_left_out() {
    let (job, status) = run("job_that_times_all", "events");
    assert!(status.success());
    let capture = job.capture();
    let c = analyze::report(&capture).completeness;
    assert_eq!((c.announced, c.timed), (2_000, 2_000), "{c:#?}");
}

#[test]
#[ignore = "played by the test below"]
fn job_beside_a_capture() {
    let cuda = Cuda::load();
    let mut comm = Driver::new(1);
    paced(100, Duration::from_millis(1), |i| {
        // Another thread captures another stream, in global mode, again and again.
        cuda.capture(0x99, i % 10 < 8);
        all_reduce(&cuda, &mut comm, 256, 10_000);
    });
    cuda.capture(0x99, false);
    // And the launching stream itself, which NCCL told of.
    cuda.capture(STREAM, true);
    let group = comm.group(true);
    comm.coll_api(group, 512, true);
    comm.state(group, state::GROUP_END_API_START, None);
    launch(&cuda, &comm, group, 10_000);
    comm.stop(group);
    // And one that it did not tell of.
    all_reduce(&cuda, &mut comm, 1024, 10_000);
    cuda.capture(STREAM, false);
    std::thread::sleep(Duration::from_millis(50));
    comm.finalize();
    assert_eq!(cuda.violations(), 0);
}

#[test]
fn graph_captures_go_on_unharmed_and_captured_launches_have_no_time() {
    let (job, status) = run("job_beside_a_capture", "auto");
    assert!(status.success(), "the recorder did what ends a capture");
    let capture = job.capture();
    let p = process(&capture);
    let timed = p.calls[..100].iter().filter(|c| time(p, c).is_ok());
    assert_eq!(timed.count(), 100);
    assert!(p.calls[100..].iter().all(|c| time(p, c).is_err()));
}

#[test]
#[ignore = "played by the test below"]
fn job_with_a_sticky_error() {
    let cuda = Cuda::load();
    let mut comm = Driver::new(1);
    paced(50, Duration::from_millis(2), |i| {
        if i == 40 {
            recorded(has_times(10));
            cuda.fail(700);
        }
        all_reduce(&cuda, &mut comm, 256, 10_000);
    });
    let before = cuda.records();
    cuda.fail(0);
    (0..10).for_each(|_| all_reduce(&cuda, &mut comm, 256, 10_000));
    assert_eq!(
        cuda.records(),
        before,
        "events were recorded after the error"
    );
    comm.finalize();
}

#[test]
fn an_error_of_cuda_ends_the_timing_for_good() {
    let (job, status) = run("job_with_a_sticky_error", "auto");
    assert!(status.success());
    let capture = job.capture();
    let p = process(&capture);
    assert_eq!(p.calls.len(), 60);
    // The last ones before the error are not confirmed any more.
    assert!(p.calls[..10].iter().all(|c| time(p, c).is_ok()));
    assert!(p.calls[41..].iter().all(|c| time(p, c).is_err()));
    assert_eq!(p.counters.as_ref().map(|c| c.cuda_error), Some(700));
}

#[test]
#[ignore = "played by the test below"]
fn job_with_questions_that_a_capture_forbids() {
    let cuda = Cuda::load();
    let mut comm = Driver::new(1);
    paced(60, Duration::from_millis(2), |i| {
        // For as long as the recorder asks a few times.
        if i == 20 || i == 40 {
            cuda.ask_fail(if i == 20 { 906 } else { 0 });
        }
        all_reduce(&cuda, &mut comm, 256, 10_000);
    });
    recorded(has_times(60));
    comm.finalize();
}

#[test]
fn a_question_that_a_capture_forbids_is_asked_again() {
    let (job, status) = run("job_with_questions_that_a_capture_forbids", "auto");
    assert!(status.success());
    let capture = job.capture();
    let p = process(&capture);
    assert_eq!(p.counters.as_ref().map(|c| c.cuda_error), Some(0));
    assert!(p.calls.iter().all(|c| time(p, c).is_ok()));
}

#[test]
#[ignore = "played by the test below"]
fn job_that_resets_its_device() {
    let cuda = Cuda::load();
    for turn in 0..3 {
        let mut comm = Driver::new(1 + turn);
        paced(30, Duration::from_millis(2), |_| {
            all_reduce(&cuda, &mut comm, 256, 10_000);
        });
        recorded(has_times(30 * (turn as usize + 1)));
        comm.finalize();
        // The next context has the address of this one, and none of its events.
        cuda.reset();
    }
}

#[test]
fn after_a_reset_of_the_device_launches_are_timed_again() {
    let (job, status) = run("job_that_resets_its_device", "auto");
    assert!(status.success());
    let capture = job.capture();
    let p = process(&capture);
    assert_eq!(p.counters.as_ref().map(|c| c.cuda_error), Some(0));
    assert_eq!(p.calls.len(), 90);
    assert!(p.calls.iter().all(|c| time(p, c).is_ok()));
}

#[test]
#[ignore = "played by the test below"]
fn job_whose_gpu_clock_steps() {
    let cuda = Cuda::load();
    let mut comm = Driver::new(1);
    paced(300, Duration::from_millis(1), |i| {
        if i == 150 {
            recorded(has_times(110));
            cuda.step(-2_170_000);
        }
        load(&cuda);
        all_reduce(&cuda, &mut comm, 256, 30_000);
    });
    std::thread::sleep(Duration::from_millis(5));
    comm.finalize();
}

#[test]
fn what_a_step_of_the_gpus_clock_may_have_spoilt_is_not_trusted() {
    let (job, status) = run("job_whose_gpu_clock_steps", "auto");
    assert!(status.success());
    let capture = job.capture();
    let p = process(&capture);
    let mut times = Vec::new();
    for (i, call) in p.calls.iter().enumerate() {
        if let Ok(ns) = time(p, call) {
            // A step back would take 2.17 ms off. A host that is late with the kernel makes it longer.
            assert!((29_800..1_000_000_000).contains(&ns), "call {i} has {ns}");
            let GpuTimes::OnHost { start, error, .. } = call.gpu else {
                panic!("call {i} is not on the host's clock: {call:?}");
            };
            assert!(start + i64::from(error) >= call.api_ns);
            times.push(ns);
        }
    }
    times.sort_unstable();
    assert!(times.len() > 100, "{} are timed", times.len());
    let median = times[times.len() / 2];
    assert!(median.abs_diff(30_000) < 200, "{median}");
}

#[test]
#[ignore = "played by the test below"]
fn job_that_exits_under_way() {
    // Registered before the recorder's handler, so it runs behind it: as CUDA's own, which shuts the driver
    // down.
    extern "C" fn shut_down() {
        let cuda = Cuda::load();
        cuda.fail(4);
        std::thread::sleep(Duration::from_millis(200));
        if cuda.violations() != 0 {
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(9) };
        }
    }
    // SAFETY: the function lives as long as the process.
    unsafe { libc::atexit(shut_down) };
    let cuda = Cuda::load();
    let mut comm = Driver::new(1);
    paced(100, Duration::from_millis(1), |_| {
        all_reduce(&cuda, &mut comm, 256, 10_000);
    });
    recorded(has_times(30));
    all_reduce(&cuda, &mut comm, 256, 60_000_000_000);
    std::process::exit(0);
}

#[test]
fn an_exit_without_destroy_keeps_the_times_that_were_known() {
    let (job, status) = run("job_that_exits_under_way", "auto");
    assert_eq!(status.code(), Some(0));
    let capture = job.capture();
    let p = process(&capture);
    assert_eq!(p.calls.len(), 101);
    let timed = p.calls.iter().filter(|c| time(p, c).is_ok()).count();
    assert!((30..=100).contains(&timed), "{timed}");
    assert!(time(p, &p.calls[100]).is_err());
}

#[test]
#[ignore = "played by the tests below"]
fn job_whose_driver_keeps_its_lock() {
    let cuda = Cuda::load();
    let mut comm = Driver::new(1);
    for _ in 0..20 {
        all_reduce(&cuda, &mut comm, 256, 10_000);
    }
    recorded(has_times(20));
    // This one never ends, so the recorder asks for its end again and again.
    all_reduce(&cuda, &mut comm, 256, 60_000_000_000);
    cuda.stick(true);
    let group = comm.group(false);
    comm.coll_api(group, 256, false);
    flushed();
    if std::env::var("END").as_deref() == Ok("kill") {
        // SAFETY: ends this very process.
        unsafe { libc::raise(libc::SIGKILL) };
    }
    std::process::exit(0);
}

#[test]
fn a_driver_that_keeps_its_lock_holds_up_neither_the_capture_nor_the_exit() {
    for end in ["exit", "kill"] {
        let mut job = Job::new(module_path!(), "job_whose_driver_keeps_its_lock").env("END", end);
        let status = job.run();
        assert_eq!(status.success(), end == "exit");
        let capture = job.capture();
        let p = process(&capture);
        assert_eq!(p.ended, end == "exit");
        assert_eq!(p.calls.len(), 22, "{end}");
        assert!(p.calls[..20].iter().all(|call| time(p, call).is_ok()));
        assert!(p.calls[20..].iter().all(|call| time(p, call).is_err()));
        // The clock went on: two flushes come after the last call.
        let newest = p.clock.newest().expect("known");
        assert!(newest - p.calls[21].api_ns > 500_000_000, "{end}");
    }
}

/// Whether the GPU was asked about the call with this ticket alone, and had begun it or not.
fn is_asked(ticket: u64, begun: bool) -> impl Fn(&Process) -> bool {
    move |p| matches!(p.on_gpu[..], [found] if found.ticket == ticket && found.begun == begun)
}

#[test]
#[ignore = "played by the test below"]
fn job_on_a_busy_gpu() {
    let cuda = Cuda::load();
    let mut comm = Driver::new(1);
    for _ in 0..20 {
        all_reduce(&cuda, &mut comm, 256, 10_000);
    }
    recorded(has_times(20));
    // Something else keeps the stream busy for a while, and then a call does.
    cuda.kernel(STREAM, 2_000_000_000);
    all_reduce(&cuda, &mut comm, 256, 1_500_000_000);
    all_reduce(&cuda, &mut comm, 256, 10_000);
    recorded(is_asked(20, false));
    recorded(is_asked(20, true));
    // A call that has ended is open no more.
    recorded(|p| has_times(22)(p) && p.on_gpu.is_empty());
    cuda.kernel(STREAM, 60_000_000_000);
    all_reduce(&cuda, &mut comm, 256, 10_000);
    recorded(is_asked(22, false));
    assert_eq!(cuda.violations(), 0);
    // SAFETY: ends this very process.
    unsafe { libc::raise(libc::SIGKILL) };
}

#[test]
fn how_far_the_gpu_is_with_an_open_call_is_known_live_and_after_sigkill() {
    let (job, status) = run("job_on_a_busy_gpu", "auto");
    assert!(!status.success());
    let capture = job.capture();
    let p = process(&capture);
    assert!(is_asked(22, false)(p), "{:?}", p.on_gpu);
    let (call, asked) = (&p.calls[22], p.on_gpu[0].asked_ns);
    assert!(asked - call.api_ns >= 1_000_000_000, "asked too early");
}

#[test]
#[ignore = "played by the test below"]
fn job_of_silent_broadcasts() {
    let cuda = Cuda::load();
    let mut comm = Driver::new(1);
    let mut late = Vec::new();
    let mut broadcast = |comm: &mut Driver, number: usize| {
        let group = comm.group(false);
        let api = comm.start(event::COLL_API, group, |u| {
            u.coll_api.func = c"Broadcast".as_ptr();
            u.coll_api.count = 64;
            u.coll_api.datatype = c"ncclFloat32".as_ptr();
            u.coll_api.root = 0;
            u.coll_api.stream = STREAM as *mut _;
            u.coll_api.graph_captured = 0;
        });
        comm.stop(api);
        loaded(&cuda, &mut late, number, || {
            comm.state(group, state::GROUP_END_API_START, None);
            cuda.kernel(STREAM, 40_000);
            comm.stop(group);
        });
    };
    // Nothing shows yet that calls launch before they return.
    broadcast(&mut comm, 0);
    all_reduce(&cuda, &mut comm, 256, 10_000);
    for i in 2..22 {
        broadcast(&mut comm, i);
        std::thread::sleep(Duration::from_millis(2));
    }
    tell_late(&late);
    std::thread::sleep(Duration::from_millis(5));
    comm.finalize();
}

#[test]
fn a_call_whose_launch_is_not_told_is_timed_once_its_communicator_is_known_to_block() {
    let (job, status) = run("job_of_silent_broadcasts", "auto");
    assert!(status.success());
    let capture = job.capture();
    let p = process(&capture);
    assert_eq!(p.calls.len(), 22);
    assert_eq!(time(p, &p.calls[0]), Err(Untimed::NoStamp));
    let late = late_of(&job);
    assert!(late.len() < 10, "{} launches were late", late.len());
    for (i, call) in p.calls.iter().enumerate().skip(2) {
        let found = time(p, call);
        assert!(
            found.is_ok_and(|ns| ns.abs_diff(40_000) < 200 || late.contains(&i)),
            "call {i}: {found:?}"
        );
    }
}

#[test]
#[ignore = "played by the test below"]
fn job_of_two_gpus() {
    let cuda = Cuda::load();
    let set = |context: u64| {
        // SAFETY: fake-cuda's signature.
        unsafe {
            let set: libloading::Symbol<unsafe extern "C" fn(u64) -> i32> =
                cuda.0.get(b"cuCtxSetCurrent").expect("there");
            set(context);
        }
    };
    set(1);
    let mut first = Driver::new(1);
    set(2);
    let mut second = Driver::new(2);
    paced(50, Duration::from_millis(1), |i| {
        set(1);
        all_reduce(&cuda, &mut first, 256, 10_000);
        // Every other time the program leaves the wrong GPU current: no event of another context is used.
        set(if i % 2 == 0 { 2 } else { 1 });
        all_reduce(&cuda, &mut second, 512, 20_000);
    });
    std::thread::sleep(Duration::from_millis(50));
    set(1);
    first.finalize();
    second.finalize();
}

#[test]
fn several_gpus_of_a_process_have_events_of_their_own() {
    let (job, status) = run("job_of_two_gpus", "auto");
    assert!(status.success());
    let capture = job.capture();
    let p = process(&capture);
    let of = |count: u64| {
        let mine = p
            .calls
            .iter()
            .filter(move |c| p.shapes[c.shape as usize].count == count);
        mine.filter(|c| time(p, c).is_ok()).count()
    };
    assert_eq!((of(256), of(512)), (50, 25));
    let events = p
        .calls
        .iter()
        .filter(|c| p.shapes[c.shape as usize].parts & part::EVENTS != 0);
    assert_eq!(events.count(), 75);
}

#[test]
#[ignore = "played by the test below"]
fn job_without_a_driver() {
    let mut comm = Driver::new(1);
    (0..10).for_each(|_| comm.all_reduce(256));
    comm.finalize();
}

#[test]
fn without_a_driver_there_are_host_times_and_a_word_about_it() {
    let mut job = Job::new(module_path!(), "job_without_a_driver");
    job.command().env_remove("NCCLSCOPE_QUIET");
    let (status, said) = job.run_saying();
    assert!(status.success());
    assert!(
        said.contains("host times only: this process has no CUDA driver"),
        "{said}"
    );
    assert!(process(&job.capture())
        .calls
        .iter()
        .all(|c| c.host_ns().is_some()));
}

#[test]
#[ignore = "played by the test below"]
fn job_that_is_killed() {
    let cuda = Cuda::load();
    let mut comm = Driver::new(1);
    paced(400, Duration::from_millis(1), |i| {
        if i == 300 {
            recorded(has_times(200));
        }
        all_reduce(&cuda, &mut comm, 256, 10_000);
    });
    // SAFETY: ends the process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

#[test]
fn a_killed_process_leaves_its_times_but_for_the_newest() {
    let (job, _) = run("job_that_is_killed", "auto");
    let capture = job.capture();
    let p = process(&capture);
    assert_eq!(p.calls.len(), 400);
    assert!(p.calls[..200].iter().all(|c| time(p, c).is_ok()));
}
