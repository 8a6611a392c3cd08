//! How often the driver is called, by NCCL and by the program, and how long calls take that may take long,
//! with a driver of our own (`fake-cuda`). NCCL is a library that keeps the driver's addresses as libnccl
//! does, and has its name.

use crate::job::cuda::{built, Cuda, STREAM};
use crate::job::{Driver, Job};
use ::capture::counts::{NS, TIMED};
use setup::timed_calls::TimedCall;
use std::collections::BTreeMap;
use std::ffi::c_char;
use std::path::Path;
use std::time::Duration;
use tables::Capture;

/// The capture of the ignored test `name`: of one process.
fn played(name: &str, settings: &[(&str, &str)]) -> Capture {
    let mut job = Job::new(module_path!(), name).env("NCCLSCOPE_TIMING", "host");
    for (name, value) in settings {
        job = job.env(name, value);
    }
    assert!(job.run().success());
    let capture = job.capture();
    assert!(capture.problems.is_empty(), "{:?}", capture.problems);
    assert_eq!(capture.processes.len(), 1);
    capture
}

/// Its newest counts, and apart from them the times.
type Counted = (BTreeMap<String, u64>, BTreeMap<String, u64>);

fn counted(name: &str, settings: &[(&str, &str)]) -> Option<Counted> {
    let capture = played(name, settings);
    let newest = capture.processes[0].setup.counts.last()?.of.clone();
    let is_time = |(name, _): &(String, u64)| name.ends_with(NS);
    let (times, counts) = newest.into_iter().partition(is_time);
    Some((counts, times))
}

/// Calls of one library.
struct Caller<'a>(&'a libloading::Library);

impl Caller<'_> {
    fn call(&self, name: &str, arguments: [u64; 4]) -> i32 {
        // SAFETY: fake_cudart has these functions, and none takes more.
        unsafe {
            let function: libloading::Symbol<unsafe extern "C" fn(u64, u64, u64, u64) -> i32> =
                self.0.get(name.as_bytes()).expect("is there");
            function(arguments[0], arguments[1], arguments[2], arguments[3])
        }
    }

    /// Allocates, opens and waits: each so many times.
    fn work(&self, times: u64) {
        let mut handle = 0u64;
        let place = &raw mut handle as u64;
        // In place 3: on the host. In place 1: on a GPU.
        let [on_host, on_gpu]: [[u32; 4]; 2] = [[1, 0, 3, 0], [1, 0, 1, 0]];
        for _ in 0..times {
            assert_eq!(self.call("cudaMalloc", [place, 100, 0, 0]), 0);
            assert_eq!(self.call("cudaHostAlloc", [place, 10, 0, 0]), 0);
            let on_gpu = on_gpu.as_ptr() as u64;
            assert_eq!(self.call("create_memory", [place, 1000, on_gpu, 0]), 0);
            let on_host = on_host.as_ptr() as u64;
            assert_eq!(self.call("create_memory", [place, 1, on_host, 0]), 0);
            assert_eq!(self.call("import_memory", [place, 1, 1, 0]), 0);
            assert_eq!(self.call("cudaStreamSynchronize", [STREAM, 0, 0, 0]), 0);
            assert_eq!(self.call("cudaEventSynchronize", [7, 0, 0, 0]), 0);
            assert_eq!(self.call("cudaDeviceSynchronize", [0, 0, 0, 0]), 0);
            assert_eq!(self.call("cudaMemcpyAsync", [1, 2, 3, STREAM]), 0);
            assert_eq!(self.call("map_memory", [0x1000, 64, 0, 5]), 0);
            assert_eq!(self.call("set_access", [0x1000, 64, 0, 0]), 0);
            assert_eq!(
                self.call("load_module", [place, c".version".as_ptr() as u64, 0, 0]),
                0
            );
            assert_eq!(
                self.call("get_function", [place, 1, c"k".as_ptr() as u64, 0]),
                0
            );
            // A call that fails is not counted.
            assert_ne!(self.call("import_memory", [place, 0, 1, 0]), 0);
            assert_ne!(self.call("map_memory", [0x1000, 64, 0, 0]), 0);
            assert_ne!(
                self.call("load_module", [place, c"no code".as_ptr() as u64, 0, 0]),
                0
            );
        }
    }
}

/// Calls the driver from the program and from NCCL.
fn play(nccl: &str) {
    let cuda = Cuda::runtime();
    let folder = tempfile::tempdir().expect("made");
    let copy = folder.path().join(nccl);
    std::fs::copy(built(&["examples/libfake_cudart.so"]), &copy).expect("copied");
    let nccl = Cuda::with_runtime(Path::new(&copy));
    let mut comm = Driver::new(1);
    Caller(&cuda.caller).work(3);
    Caller(&nccl.caller).work(5);
    let kernel: (u64, *const c_char) = (1000, c"k".as_ptr());
    for (caller, launches) in [(&cuda, 4), (&nccl, 2)] {
        for _ in 0..launches {
            let none = std::ptr::null_mut();
            caller.launch_kernel(&kernel, 1, 1, 1, 1, 1, 1, 0, STREAM, none, none);
        }
    }
    comm.all_reduce(64);
    comm.finalize();
}

#[test]
#[ignore = "played by a test below"]
fn job_both() {
    play("libnccl.so.2");
}

#[test]
#[ignore = "played by a test below"]
fn job_linked_in() {
    play("libtorch_and_nccl.so");
}

#[test]
#[ignore = "played by the test below"]
fn job_that_stands_still() {
    let cuda = Cuda::runtime();
    let mut comm = Driver::new(1);
    let launch = |ns: u64| {
        let kernel: (u64, *const c_char) = (ns, c"k".as_ptr());
        let none = std::ptr::null_mut();
        cuda.launch_kernel(&kernel, 1, 1, 1, 1, 1, 1, 0, STREAM, none, none);
    };
    let synchronise = || {
        let caller = Caller(&cuda.caller);
        assert_eq!(caller.call("cudaStreamSynchronize", [STREAM, 0, 0, 0]), 0);
    };
    // By now the recorder's thread knows the rate of the clock.
    comm.all_reduce(64);
    crate::job::recorded(|p| !p.calls.is_empty());
    // A thread that launches nothing may wait for as long as it likes.
    std::thread::scope(|scope| {
        launch(20_000_000);
        scope.spawn(synchronise);
    });
    comm.all_reduce(64);
    launch(50_000_000);
    synchronise();
    comm.all_reduce(64);
    launch(1000);
    comm.all_reduce(64);
    // A launch that finds the driver's lock taken.
    std::thread::scope(|scope| {
        cuda.tell("stick", 1, 0);
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(60));
            cuda.tell("stick", 0, 0);
        });
        launch(1000);
    });
    comm.all_reduce(64);
    comm.finalize();
}

#[test]
fn a_call_knows_how_long_the_program_waited_in_the_driver_before_it() {
    let mut job = Job::new(module_path!(), "job_that_stands_still").env("NCCLSCOPE_TIMING", "host");
    assert!(job.run().success());
    let capture = job.capture();
    let process = &capture.processes[0];
    let calls = &process.calls;
    let before = |i: usize| calls[i].driver_waited_ns;
    let ms = |i| before(i) / 1_000_000;
    assert_eq!(calls.len(), 5);
    // A busy machine may hold up any call; at most all that passed between the two.
    for (i, least) in [(2, 49), (4, 59)] {
        let passed = (calls[i].api_ns - calls[i - 1].api_ns) as u64;
        let found = before(i);
        assert!(
            ms(i) >= least && found <= passed,
            "call {i}: {found} of {passed}"
        );
    }
    // The driver was called.
    assert!(before(3) > 0);
    // While the other thread waits, this one stands still outside of the driver.
    let passed = (calls[1].api_ns - calls[0].api_ns) as u64 / 1_000_000;
    assert!(ms(1) + 19 <= passed, "{} of {passed}", ms(1));
}

/// So many of each.
fn expected(prefix: &str, times: u64, launches: u64) -> Vec<(String, u64)> {
    let counts = [
        ("kernel_launches", launches),
        ("copies", times),
        ("gpu_allocations", 2 * times),
        ("gpu_bytes", 1100 * times),
        ("host_allocations", 2 * times),
        ("host_bytes", 11 * times),
        ("ipc_opens", times),
        ("event_syncs", times),
        ("stream_syncs", times),
        ("context_syncs", times),
        ("module_loads", 2 * times),
        ("mappings", 2 * times),
    ];
    let named = |(name, count)| (format!("{prefix}{name}"), count);
    counts.into_iter().map(named).collect()
}

#[test]
fn nccl_s_calls_are_told_from_the_program_s() {
    let (found, times) = counted("job_both", &[]).expect("counted");
    let mut truth: BTreeMap<String, u64> = expected("", 3, 4).into_iter().collect();
    truth.extend(expected("nccl.", 5, 2));
    truth.insert("told_apart".to_owned(), 1);
    truth.insert("timed".to_owned(), 1);
    assert_eq!(found, truth);
    // The stub takes a millisecond for each.
    assert!(times["mappings_ns"] >= 3_000_000, "{times:?}");
    assert!(times["nccl.mappings_ns"] >= 5_000_000, "{times:?}");
    for name in TIMED {
        let time = times.get(&format!("nccl.{name}{NS}"));
        assert!(time.is_some_and(|ns| *ns > 0), "{name} in {times:?}");
    }
}

#[test]
fn calls_that_may_take_long_are_in_the_capture_one_by_one() {
    let capture = played("job_both", &[]);
    let process = &capture.processes[0];
    let calls = &process.setup.timed_calls;
    let of = |name: &str, by_nccl: bool| {
        let mut of = calls.clone();
        of.retain(|call| call.of == name && call.by_nccl == by_nccl);
        of
    };
    // Of each kind as many as are counted, refused ones left out.
    for (by_nccl, times) in [(false, 3), (true, 5)] {
        let found = TIMED.map(|name| of(name, by_nccl).len());
        assert_eq!(found, [2 * times, 2 * times, times, 2 * times, 2 * times]);
    }
    let gpu: Vec<u64> = of("gpu_allocations", true)
        .iter()
        .map(|call| call.bytes)
        .collect();
    assert_eq!(gpu[..4], [100, 1000, 100, 1000]);
    let mapped = of("mappings", true);
    assert_eq!((mapped[0].bytes, mapped[1].bytes), (64, 0));
    assert!(mapped[1].took_ns >= 1_000_000, "{mapped:?}");
    // They lie between the recorder's begin and the first call of NCCL's, on the same clock.
    let began = process.communicators[0].created_ns.expect("known");
    let first = process.calls[0].api_ns;
    let end = |call: &TimedCall| call.at_ns + call.took_ns as i64;
    assert!(calls
        .iter()
        .all(|call| began <= call.at_ns && end(call) <= first));
    assert!(mapped.windows(2).all(|pair| end(&pair[0]) <= pair[1].at_ns));
    assert!(calls.iter().all(|call| call.thread == calls[0].thread));
    // So start-up has them before the first call.
    let whole = analyze::report(&capture).startup.whole.expect("known");
    let part = whole.parts.iter().find(|part| part.part == "to_first_call");
    let below = &part.expect("some time passed").driver_calls;
    // A busy machine may hold up any call, so it is not said which took longest.
    let mappings = below.iter().filter(|part| part.counter == "mappings");
    let mut mappings: Vec<_> = mappings.map(|part| (part.caller, part.calls)).collect();
    mappings.sort_unstable();
    assert_eq!(
        mappings,
        [(Some("nccl"), 10), (Some("program"), 6)],
        "{whole:?}"
    );
    assert_eq!(below.len(), 2 * TIMED.len());
}

#[test]
fn without_a_library_of_nccl_s_own_all_calls_are_the_program_s() {
    let (found, _) = counted("job_linked_in", &[]).expect("counted");
    let mut truth: BTreeMap<String, u64> = expected("", 8, 6).into_iter().collect();
    truth.insert("told_apart".to_owned(), 0);
    truth.insert("timed".to_owned(), 1);
    assert_eq!(found, truth);
}

#[test]
fn nothing_is_counted_if_the_driver_is_not_to_be_watched() {
    assert_eq!(counted("job_both", &[("NCCLSCOPE_GRAPHS", "off")]), None);
    let windows = [("NCCLSCOPE_WINDOWS", "off")];
    let (found, _) = counted("job_both", &windows).expect("counted");
    assert_eq!(found["nccl.kernel_launches"], 2);
}

/// `cargo test --release -p ncclscope-recorder --test all -- --ignored counts::job_cost --exact --nocapture`
#[test]
#[ignore = "prints ns per call: bench/README.md"]
fn job_cost() {
    let cuda = Cuda::runtime();
    let caller = Caller(&cuda.caller);
    let mut place = 0u64;
    let place = &raw mut place as u64;
    let best = |what: &str, name: &str, arguments: [u64; 4], times: u32| {
        let once = || {
            let begin = std::time::Instant::now();
            (0..times).for_each(|_| {
                caller.call(name, arguments);
            });
            begin.elapsed().as_nanos() as f64 / f64::from(times)
        };
        let best = (0..50).map(|_| once()).reduce(f64::min).expect("some");
        println!("{name} {what}: {best:.1} ns");
    };
    let wait = |what: &str| best(what, "cudaEventSynchronize", [7, 0, 0, 0], 20_000);
    // 40 calls in 50 rounds: as many as the log has room for. Then it is full.
    let map = |what: &str, times: u32| best(what, "map_memory", [0x1000, 64, 0, 5], times);
    wait("without the recorder");
    map("without the recorder", 40);
    let alloc = |what: &str| best(what, "cudaMalloc", [place, 100, 0, 0], 20_000);
    alloc("without the recorder");
    let comm = Driver::new(1);
    wait("counted");
    map("counted, timed and noted", 40);
    map("counted and timed", 20_000);
    alloc("counted and timed");
    comm.finalize();
}
