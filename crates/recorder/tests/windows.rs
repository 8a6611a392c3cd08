//! Kernel windows, with a driver and a CUPTI of our own (`fake-cuda`): all that was launched in a window is
//! in it, at the time when it ran, and another profiler gets all that it would have got without us.
//!
//! A job is a [`Play`], which keeps a list of its launches. The test reads the job's capture and that list
//! ([`Left`]). Windows come about once a second, so the stories of a test are played at once.

mod job;

use job::cuda::{built, capture, Cuda, OTHER, STREAM};
use job::{out, recorded, until, Driver, Job};
use libloading::os::unix::{Library, RTLD_LAZY};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_char, CString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tables::windows::{Off, Ran, Window};
use tables::Process;

use ::capture::windows::{ActivityKind, Ask, End};

/// Streams of the second device, and of kernels that run for long.
const SECOND: u64 = 0x60;
const LONG: u64 = 0x61;
/// Captured into graphs.
const CAPTURED: u64 = 0x62;
/// A kernel on it runs longer than the recorder's thread sleeps while a window drains.
const LONG_NS: u64 = 120_000_000;
/// Kernels in the graph.
const IN_GRAPH: u64 = 3;
/// Clocks are mapped to each other with less error, on a busy machine too.
const ERROR: i64 = 1_000_000;

/// A launch, as the job knows it.
#[derive(Clone, Copy, Debug)]
struct Launch {
    kind: ActivityKind,
    asked: Ask,
    correlation: u64,
    device: u64,
    stream: u64,
    /// Kernels that it runs.
    kernels: u64,
    /// When the host called, CLOCK_REALTIME.
    before: i64,
    after: i64,
    /// When they run, CLOCK_REALTIME.
    start: i64,
    end: i64,
}

fn now(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills in a timespec.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn realtime() -> i64 {
    now(libc::CLOCK_REALTIME)
}

/// By how much CLOCK_REALTIME is ahead of CLOCK_MONOTONIC: the closest of some looks.
fn ahead() -> i64 {
    let looks = (0..9).map(|_| {
        let before = now(libc::CLOCK_MONOTONIC);
        let ahead = realtime() - before;
        (now(libc::CLOCK_MONOTONIC) - before, ahead)
    });
    looks.min().expect("some").1
}

/// A job that makes calls and launches.
struct Play {
    cuda: Cuda,
    comm: Driver,
    launches: Vec<Launch>,
    /// What is launched: length and name.
    nccl: (u64, *const c_char),
    compute: (u64, *const c_char),
    long: (u64, *const c_char),
    exec: u64,
    steps: u64,
    ahead: i64,
    /// Gets to know of each step before it.
    before_step: Option<Profiler>,
}

impl Play {
    fn new() -> Play {
        Play::with(Cuda::runtime())
    }

    fn with(cuda: Cuda) -> Play {
        let mut comm = Driver::new(1);
        let graph = cuda.graph(|| capture(&cuda, &mut comm, 32_768, IN_GRAPH as usize));
        let exec = cuda.instantiated(graph);
        let nccl =
            c"_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE";
        Play {
            cuda,
            comm,
            launches: Vec::new(),
            nccl: (20_000, nccl.as_ptr()),
            compute: (30_000, c"compute".as_ptr()),
            long: (LONG_NS, c"long".as_ptr()),
            exec,
            steps: 0,
            ahead: ahead(),
            before_step: None,
        }
    }

    fn launch(
        &mut self,
        kind: ActivityKind,
        asked: Ask,
        at: [u64; 2],
        launch: impl FnOnce(&Cuda, u64),
    ) {
        let [device, stream] = at;
        let before = realtime();
        launch(&self.cuda, stream);
        let after = realtime();
        let [correlation, start, end] = self.cuda.newest();
        self.launches.push(Launch {
            kind,
            asked,
            correlation,
            device,
            stream,
            kernels: if asked == Ask::LaunchGraph {
                IN_GRAPH
            } else {
                1
            },
            before,
            after,
            start: start as i64 + self.ahead,
            end: end as i64 + self.ahead,
        });
    }

    fn kernel(&mut self, function: (u64, *const c_char), device: u64, stream: u64) {
        let null = std::ptr::null_mut();
        self.launch(
            ActivityKind::Kernel,
            Ask::Launch,
            [device, stream],
            |cuda, stream| {
                cuda.launch_kernel(&function, 2, 3, 4, 1, 1, 1, 0, stream, null, null);
            },
        );
    }

    /// A call of NCCL's with its kernel, and what else a step of a job has.
    fn step(&mut self) {
        self.steps += 1;
        let nth = |n: u64| self.steps.is_multiple_of(n);
        let (graph, second, long) = (nth(4), nth(8), nth(200));
        if let Some(profiler) = self.before_step {
            profiler.announce(self.steps);
        }
        self.comm.enqueue(4096);
        self.kernel(self.nccl, 0, STREAM);
        self.kernel(self.compute, 0, OTHER);
        self.launch(ActivityKind::Copy, Ask::Copy, [0, OTHER], |cuda, stream| {
            cuda.copy_on(0, 0, 5000, stream);
        });
        self.launch(ActivityKind::Fill, Ask::Copy, [0, OTHER], |cuda, stream| {
            cuda.fill_on(0, 0, 2000, stream);
        });
        if graph {
            let exec = self.exec;
            self.launch(
                ActivityKind::Kernel,
                Ask::LaunchGraph,
                [0, STREAM],
                |cuda, stream| {
                    cuda.launch_on(exec, stream);
                },
            );
        }
        if second {
            self.cuda.set_device(1);
            self.kernel(self.compute, 1, SECOND);
            self.cuda.set_device(0);
        }
        if long {
            self.kernel(self.long, 0, LONG);
        }
        if second {
            self.captured();
        }
        std::thread::sleep(Duration::from_micros(300));
    }

    /// A graph is captured, on a stream that no other work is on, and destroyed. Its kernels never run.
    fn captured(&self) {
        let (cuda, null) = (&self.cuda, std::ptr::null_mut());
        let mut graph = 0;
        cuda.begin(CAPTURED, 0);
        cuda.launch_kernel(&self.compute, 1, 1, 1, 1, 1, 1, 0, CAPTURED, null, null);
        cuda.end(CAPTURED, &mut graph);
        cuda.destroy(graph);
    }

    /// A call of NCCL's whose launch is timed, with a kernel that takes so long.
    fn timed_call(&mut self, ns: u64) {
        let group = self.comm.group(false);
        let api = self.comm.coll_api(group, 4096, false);
        self.comm
            .state(group, nccl_abi::state::GROUP_END_API_START, None);
        let launch = self.comm.start(nccl_abi::event::KERNEL_LAUNCH, group, |u| {
            u.kernel_launch.stream = STREAM as *mut _;
        });
        self.kernel((ns, self.nccl.1), 0, STREAM);
        self.comm.stop(launch);
        let plan = self
            .comm
            .start(nccl_abi::event::GROUP, std::ptr::null_mut(), |_| {});
        self.comm.coll(api, 4096, 2);
        self.comm.stop(plan);
        self.comm.stop(group);
    }

    /// Steps until then.
    #[track_caller]
    fn until(&mut self, mut done: impl FnMut() -> bool) {
        let began = Instant::now();
        while !done() {
            assert!(began.elapsed().as_secs() < 60, "it never comes");
            self.step();
        }
    }

    fn go_on(&mut self, time: Duration) {
        let began = Instant::now();
        self.until(|| began.elapsed() >= time);
    }

    /// Steps until CUPTI is set up: it was switched on and off before the first window.
    #[track_caller]
    fn set_up(&mut self) {
        self.windows(1);
    }

    /// Steps until so many more windows are closed.
    #[track_caller]
    fn windows(&mut self, more: u64) {
        let closed = || calls("cuptiActivityDisable") / KINDS;
        let before = closed();
        self.until(|| closed() >= before + more);
    }

    /// Steps until what is in the capture is enough. To read it takes longer than a step.
    #[track_caller]
    fn until_recorded(&mut self, enough: impl Fn(&Process) -> bool) {
        let mut looks = 0;
        self.until(|| {
            looks += 1;
            let look = looks % 200 == 0;
            let capture = look.then(|| tables::Capture::open(&out()).ok()).flatten();
            capture.is_some_and(|capture| capture.processes.iter().any(&enough))
        });
    }

    /// Waits until what was launched has run.
    fn rest(&self) {
        let end = self.launches.iter().map(|l| l.end).max();
        until(|| realtime() > end.unwrap_or(0));
    }

    /// Writes the list of launches.
    fn save(&self) {
        let mut text = String::new();
        for l in &self.launches {
            let numbers = [
                l.kind as u64,
                l.asked as u64,
                l.correlation,
                l.device,
                l.stream,
                l.kernels,
                l.before as u64,
                l.after as u64,
                l.start as u64,
                l.end as u64,
            ];
            text += &numbers.map(|n| n.to_string()).join(" ");
            text.push('\n');
        }
        std::fs::write(launches_file(&out()), text).expect("written");
    }
}

fn launches_file(folder: &Path) -> PathBuf {
    folder.with_extension("launches")
}

/// In a job: CUPTI, once it is loaded.
fn cupti() -> Option<Library> {
    let flags = RTLD_LAZY | libc::RTLD_NOLOAD;
    // SAFETY: finds only what is loaded.
    unsafe { Library::open(Some("libcupti.so.13"), flags) }.ok()
}

/// In a job: how often a function of CUPTI was called.
fn calls(name: &str) -> u64 {
    cupti().map_or(0, |cupti| {
        let name = CString::new(name).expect("no NUL");
        // SAFETY: fake_cupti has this function.
        unsafe {
            let calls = cupti.get::<extern "C" fn(*const c_char) -> u64>(b"fake_cupti_calls");
            calls.expect("is there")(name.as_ptr())
        }
    })
}

/// In a job: how often anybody has begun to use CUPTI.
fn begun() -> u64 {
    calls("cuptiActivityRegisterCallbacks")
}

/// In a job: the kinds of activity that are enabled.
fn enabled() -> u64 {
    cupti().map_or(0, |cupti| {
        // SAFETY: fake_cupti has this function.
        unsafe {
            let enabled = cupti.get::<extern "C" fn() -> u64>(b"fake_cupti_enabled");
            enabled.expect("is there")()
        }
    })
}

/// All kinds of activity that a window has, and their number.
const KINDS: u64 = 3;
const ALL_KINDS: u64 = 1 << 10 | 1 << 1 | 1 << 2;

/// The windows that a process has by now, without quiet spells.
fn windows(process: &Process) -> Vec<&Window> {
    let list = process.windows.list.iter();
    list.filter(|w| !w.is_quiet()).collect()
}

/// In a job: windows that were not opened because of others.
fn yielded() -> u64 {
    let capture = tables::Capture::open(&out()).expect("it is there");
    capture.processes.iter().map(|p| p.windows.yielded).sum()
}

/// A folder with what a job needs beside its capture: CUPTI, and the other profiler.
struct JobFolder(tempfile::TempDir);

impl JobFolder {
    fn new() -> JobFolder {
        JobFolder(tempfile::tempdir().expect("made"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn with_cupti() -> JobFolder {
        let place = JobFolder::new();
        place.put("libcupti.so.13", "fake_cupti");
        place
    }

    /// An example of fake-cuda's under this name.
    fn put(&self, name: &str, example: &str) {
        let to = self.path().join(name);
        std::fs::create_dir_all(to.parent().expect("has one")).expect("made");
        let from = built(&[&format!("examples/lib{example}.so")]);
        std::fs::copy(from, to).expect("copied");
    }

    /// Builds the other profiler.
    fn with_profiler(self, options: &[&str]) -> JobFolder {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/profiler.c");
        let folder = self.path().display().to_string();
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(self.path().join("libprofiler.so"))
            .arg(source)
            .args(options)
            .args([&format!("-L{folder}"), "-l:libcupti.so.13"])
            .arg(format!("-Wl,-rpath,{folder}"))
            .status();
        assert!(built.expect("there is a cc").success());
        self
    }

    /// The ignored test `name`, with windows often, whatever they cost.
    fn job(&self, name: &str) -> Job {
        self.thrifty_job(name, "10").env("NCCLSCOPE_WINDOWS", "on")
    }

    /// The ignored test `name`, with windows if it can afford them.
    fn thrifty_job(&self, name: &str, budget: &str) -> Job {
        let folder = self.path().to_str().expect("utf-8");
        Job::new(name)
            .env("NCCLSCOPE_TIMING", "host")
            .env("NCCLSCOPE_BUDGET", budget)
            .env("LD_LIBRARY_PATH", folder)
            .env("PLACE", folder)
    }
}

/// In a job: its [`Place`].
fn place() -> PathBuf {
    PathBuf::from(std::env::var_os("PLACE").expect("set"))
}

/// What a job left.
struct Left {
    process: Process,
    launches: Vec<Launch>,
}

impl Left {
    /// Runs a job to its end.
    fn of(mut job: Job) -> Left {
        assert!(job.run().success());
        Left::behind(&job)
    }

    fn behind(job: &Job) -> Left {
        let file = launches_file(&job.folder);
        let text = std::fs::read_to_string(&file).expect("the job wrote it");
        let _ = std::fs::remove_file(file);
        let launches = text.lines().map(|line| {
            let mut numbers = line.split(' ').map(|n| n.parse::<u64>().expect("a number"));
            let mut next = || numbers.next().expect("one more");
            Launch {
                kind: [ActivityKind::Kernel, ActivityKind::Copy, ActivityKind::Fill]
                    [next() as usize],
                asked: match next() {
                    0 => Ask::Launch,
                    1 => Ask::LaunchGraph,
                    _ => Ask::Copy,
                },
                correlation: next(),
                device: next(),
                stream: next(),
                kernels: next(),
                before: next() as i64,
                after: next() as i64,
                start: next() as i64,
                end: next() as i64,
            }
        });
        let mut capture = job.capture();
        assert!(capture.problems.is_empty(), "{:?}", capture.problems);
        Left {
            process: capture.processes.remove(0),
            launches: launches.collect(),
        }
    }

    fn windows(&self) -> Vec<&Window> {
        windows(&self.process)
    }

    fn off(&self) -> Option<Off> {
        self.process.windows.off
    }

    /// Compares the whole windows with what was launched; how many there are.
    fn check(&self, own_clock: bool) -> usize {
        assert_eq!(self.process.windows.lost, 0);
        let whole: Vec<&Window> = self
            .windows()
            .into_iter()
            .filter(|w| w.is_whole())
            .collect();
        let inside = whole.iter().map(|w| self.check_window(w, own_clock));
        let inside: usize = inside.sum();
        assert!(whole.is_empty() || inside > 50, "{inside} launches");
        whole.len()
    }

    /// How many launches were certainly made in it.
    fn check_window(&self, window: &Window, own_clock: bool) -> usize {
        let times = [window.opening, window.open, window.closing, window.closed];
        assert!(times.is_sorted(), "{times:?}");
        let mut ran: BTreeMap<u64, Vec<&Ran>> = BTreeMap::new();
        for r in &window.ran {
            ran.entry(r.correlation.into()).or_default().push(r);
        }
        let graphs = window.ran.iter().filter(|r| r.graph != 0);
        let newest_graph = graphs.map(|r| u64::from(r.correlation)).max().unwrap_or(0);
        let mut inside = 0;
        for launch in &self.launches {
            let Some(ran) = ran.remove(&launch.correlation) else {
                // A reader leaves out the last launch of a graph.
                let last = launch.asked == Ask::LaunchGraph && launch.correlation > newest_graph;
                let sure =
                    launch.before > window.open + ERROR && launch.after < window.closing - ERROR;
                assert!(!sure || last, "{launch:?} is not in window {window:?}");
                continue;
            };
            self.check_launch(launch, &ran, own_clock);
            assert!(
                launch.after >= window.opening - ERROR && launch.before <= window.closed + ERROR,
                "{launch:?}"
            );
            if launch.before > window.open + ERROR && launch.after < window.closing - ERROR {
                inside += 1;
                let asked = window.asked.iter().any(|asked| {
                    let at = launch.before - ERROR..=launch.after + ERROR;
                    asked.kind == launch.asked
                        && u64::from(asked.stream) == launch.stream
                        && at.contains(&asked.at)
                });
                assert!(asked, "{launch:?} is in no call of the driver");
            }
        }
        assert!(ran.is_empty(), "was never launched: {ran:?}");
        assert!(window.asked.len() >= inside);
        inside
    }

    fn check_launch(&self, launch: &Launch, ran: &[&Ran], own_clock: bool) {
        assert_eq!(ran.len() as u64, launch.kernels, "{launch:?}: {ran:?}");
        let (first, last) = (ran[0], ran[ran.len() - 1]);
        let near = |a: i64, b: i64| (a - b).abs() < ERROR;
        assert!(
            near(first.start, launch.start) && near(last.end, launch.end),
            "{launch:?} {ran:?}"
        );
        let took: i64 = ran.iter().map(|r| r.end - r.start).sum();
        let error = if own_clock {
            0
        } else {
            launch.kernels as i64 + (launch.end - launch.start) / 100
        };
        assert!(
            (took - (launch.end - launch.start)).abs() <= error,
            "{launch:?} {ran:?}"
        );
        for (i, r) in ran.iter().enumerate() {
            assert_eq!(r.kind, launch.kind);
            assert_eq!(
                (u64::from(r.device), u64::from(r.stream)),
                (launch.device, launch.stream)
            );
            let name = &self.process.windows.names[r.name as usize];
            let in_graph = launch.asked == Ask::LaunchGraph;
            let (expected, size) = match (launch.kind, launch.stream) {
                (ActivityKind::Copy, _) => ("", 5000),
                (ActivityKind::Fill, _) => ("", 2000),
                (_, STREAM) if in_graph => ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1),
                (_, STREAM) => ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 24),
                (_, LONG) if launch.end - launch.start == LONG_NS as i64 => ("long", 24),
                _ => ("compute", 24),
            };
            assert_eq!((name.as_str(), r.size), (expected, size));
            assert_eq!(r.graph != 0, in_graph);
            assert_eq!(r.node & 0xffff_ffff, i as u64);
        }
    }
}

#[test]
#[ignore = "played by a story"]
fn job_of_steps() {
    let mut play = Play::new();
    play.set_up();
    play.windows(3);
    play.until_recorded(|p| p.windows.list.iter().any(Window::is_quiet));
    play.rest();
    play.save();
}

fn all_that_was_launched_in_a_window_is_in_it() {
    let place = JobFolder::with_cupti();
    let left = Left::of(place.job("job_of_steps"));
    assert_eq!(left.off(), None);
    assert!(left.check(true) >= 2);
    assert!(left.process.calls.len() > 1000);
    let windows = left.windows();
    let all: Vec<&Ran> = windows.iter().flat_map(|w| &w.ran).collect();
    for stream in [STREAM, OTHER, SECOND, LONG] {
        assert!(all.iter().any(|r| u64::from(r.stream) == stream));
    }
    assert!(all.iter().any(|r| r.graph != 0));
    // Numbers of windows and of calls that they were planned for rise.
    assert!(windows
        .windows(2)
        .all(|pair| (pair[0].number, pair[0].planned) < (pair[1].number, pair[1].planned)));
    // Something of them was launched in the window and ran after it.
    let late = |w: &&&Window| w.ran.iter().any(|r| r.end > w.closed);
    assert!(windows.iter().any(|w| late(&w)));
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
    play.rest();
    play.save();
}

fn cupti_is_set_up_before_the_first_window() {
    let place = JobFolder::with_cupti();
    let left = Left::of(place.job("job_that_has_just_begun"));
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

fn a_job_that_can_afford_cupti_has_windows() {
    let place = JobFolder::with_cupti();
    // Some 10 000 launches a second: CUPTI may cost 9 %.
    let left = Left::of(place.thrifty_job("job_with_few_launches", "50"));
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

fn a_job_that_waits_for_its_host_is_not_slowed_by_cupti() {
    let place = JobFolder::with_cupti();
    let left = Left::of(place.thrifty_job("job_with_many_launches", "0.1"));
    let Some(Off::HostBound(share)) = left.off() else {
        panic!("{:?}", left.off());
    };
    // More than the budget of 0.1 %, and less than all.
    assert!((10..10_000).contains(&share), "{share}");
    // Quiet spells still show what events cost.
    let list = &left.process.windows.list;
    assert!(list.iter().all(|w| w.is_quiet()));
}

fn cupti_is_set_up_once_the_host_is_ahead() {
    let place = JobFolder::with_cupti();
    let job = place.thrifty_job("job_with_many_launches", "0.1");
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
    play.set_up();
    let cublas = Cuda::found(driver, caller);
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

fn launches_of_a_library_that_looks_the_driver_up_late_are_seen() {
    let place = JobFolder::with_cupti();
    place.put("libcublas.so.13", "fake_cudart");
    let left = Left::of(place.job("job_whose_library_looks_the_driver_up_late"));
    let unseen = |window: &&Window| {
        let kernels = window
            .ran
            .iter()
            .filter(|r| r.kind == ActivityKind::Kernel && r.graph == 0);
        let launches = window.asked.iter().filter(|a| a.kind == Ask::Launch);
        kernels.count().saturating_sub(launches.count())
    };
    let unseen: Vec<usize> = left.windows().iter().map(unseen).collect();
    assert!(
        unseen[0] > 20 && unseen[unseen.len() - 1] == 0,
        "{unseen:?}"
    );
}

fn dropped_records_are_counted_and_the_others_stay() {
    let place = JobFolder::with_cupti();
    let left = Left::of(place.job("job_of_steps").env("FAKE_CUPTI_DROP", "50"));
    assert_eq!((left.off(), left.check(true)), (None, 0));
    for window in left.windows() {
        let (all, dropped) = (window.ran.len() as u32, window.dropped);
        assert!(dropped > 0 && all > 30 * dropped, "{dropped} of {all}");
    }
}

fn records_without_a_buffer_are_counted_once() {
    let place = JobFolder::with_cupti();
    let left = Left::of(place.job("job_of_steps").env("FAKE_CUPTI_RECORDS", "2"));
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
    assert!(most > 20, "{most}");
}

/// Nothing with a time is in the windows, and what is left out is counted.
fn check_clock_set(left: &Left) {
    let windows = left.windows();
    assert!(windows.iter().all(|w| w.ran.is_empty()));
    let set = windows.iter().filter(|w| w.end == End::ClockSet);
    let set: Vec<&&Window> = set.collect();
    assert!(!set.is_empty());
    assert!(set.iter().all(|w| w.dropped > 0 && !w.asked.is_empty()));
}

fn times_of_an_unknown_clock_are_left_out() {
    let place = JobFolder::with_cupti();
    let job = place.job("job_of_steps");
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
/// late, which the interval knows: an estimate that is off by three of its half widths comes once in some
/// thousand runs.
fn a_report_says_what_windows_cost() {
    let place = JobFolder::with_cupti();
    let mut job = place
        .job("job_that_windows_slow")
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
    println!("{truth}: {}", cost.sentence());
}

#[test]
#[ignore = "played by a story"]
fn job_with_a_runtime_of_its_own() {
    let runtime = place().join("cuda_runtime/lib/libcudart.so.13");
    let mut play = Play::with(Cuda::with_runtime(&runtime));
    play.until_recorded(|p| !windows(p).is_empty());
    play.save();
}

fn the_cupti_that_lies_beside_cudas_runtime_is_found() {
    let place = JobFolder::new();
    place.put("cuda_runtime/lib/libcudart.so.13", "fake_cudart");
    place.put("cuda_cupti/lib/libcupti.so.13", "fake_cupti");
    let left = Left::of(place.job("job_with_a_runtime_of_its_own"));
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

fn there_may_be_no_windows_and_the_cause_is_said() {
    let without = |place: &JobFolder, name: &str, value: &str| {
        let left = Left::of(place.job("job_without_windows").env(name, value));
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
        assert_eq!(no_cupti.join().expect("passed"), Some(Off::NoCupti));
        assert_eq!(off.join().expect("passed"), Some(Off::NotAsked));
        assert_eq!(profile.join().expect("passed"), Some(Off::NotAsked));
        assert_eq!(foreign.join().expect("passed"), Some(Off::ForeignTool));
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

fn an_error_of_cupti_ends_windows_for_good() {
    let left = |fail: &str| {
        let place = JobFolder::with_cupti();
        Left::of(place.job("job_with_an_error").env("FAKE_CUPTI_FAIL", fail))
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

/// Another profiler in the job. It stays loaded, because CUPTI keeps addresses of its functions.
#[derive(Clone, Copy)]
struct Profiler(&'static Library);

impl Profiler {
    fn load() -> Profiler {
        let path = place().join("libprofiler.so");
        // SAFETY: our own, without initialisers.
        let library = unsafe { Library::new(path) }.expect("loads");
        let profiler = Profiler(Box::leak(Box::new(library)));
        // SAFETY: profiler.c has this function.
        unsafe {
            let look_up = profiler.0.get::<extern "C" fn()>(b"profiler_look_up");
            look_up.expect("is there")();
        }
        profiler
    }

    fn begin(&self, own_clock: bool) {
        // SAFETY: profiler.c has this function.
        let begun = unsafe {
            let begin = self.0.get::<extern "C" fn(i32) -> u32>(b"profiler_begin");
            begin.expect("is there")(own_clock.into())
        };
        assert_eq!(begun, 0);
    }

    fn announce(&self, operator: u64) {
        // SAFETY: profiler.c has this function.
        unsafe {
            let announce = self.0.get::<extern "C" fn(u64)>(b"profiler_announce");
            announce.expect("is there")(operator);
        }
    }

    /// Ends; records, records of what was not over, and buffers that it did not know.
    fn end(&self) -> [u64; 3] {
        let mut counts = [0; 3];
        // SAFETY: profiler.c has this function.
        unsafe {
            let end = self
                .0
                .get::<extern "C" fn(*mut [u64; 3]) -> u32>(b"profiler_end");
            let _ = end.expect("is there")(&mut counts);
        }
        counts
    }

    /// Profiles some steps of a job, and has all of their kernels. `noticed` waits until a window yields.
    fn profile(&self, play: &mut Play, own_clock: bool, noticed: bool) {
        // What is not over when it ends is not counted: no long ones.
        let long = play.long;
        play.long = play.compute;
        self.begin(own_clock);
        let (first, registered) = (play.launches.len(), begun());
        let before = yielded();
        play.before_step = Some(*self);
        play.go_on(Duration::from_millis(500));
        if noticed {
            play.until_recorded(|p| p.windows.yielded > before);
        }
        play.before_step = None;
        play.rest();
        assert_eq!(begun(), registered, "a window opened meanwhile");
        let kernels = play.launches[first..].iter();
        let kernels = kernels.filter(|l| l.kind == ActivityKind::Kernel);
        let kernels: u64 = kernels.map(|l| l.kernels).sum();
        assert_eq!(self.end(), [kernels, 0, 0]);
        play.long = long;
    }
}

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

fn a_use_of_cupti_that_began_before_is_left_alone() {
    let profiled = |options: &[&str]| {
        let place = JobFolder::with_cupti().with_profiler(options);
        Left::of(place.job("job_that_was_profiled_before"))
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

fn a_clock_that_was_given_to_cupti_before_is_not_taken_for_another() {
    let place = JobFolder::with_cupti().with_profiler(&[]);
    let job = place.job("job_that_was_profiled_before");
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
    Left::of(place.job("job_that_is_profiled").env(variable, "1"))
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

fn another_profiler_gets_all_of_its_records_and_windows_come_again() {
    std::thread::scope(|scope| {
        let ours = scope.spawn(|| check_profiled(&profiled(&[], "A"), true));
        let own_clock = scope.spawn(|| check_profiled(&profiled(&[], "OWN_CLOCK"), false));
        ours.join().expect("passed");
        own_clock.join().expect("passed");
    });
}

fn a_profiler_that_is_loaded_late_gets_all_of_its_records() {
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

fn an_error_while_a_window_yields_is_the_last_too() {
    let place = JobFolder::with_cupti().with_profiler(&[]);
    let job = place.job("job_that_yields_with_an_error");
    let left = Left::of(job.env("FAKE_CUPTI_FAIL", "cuptiActivityDisable:4:15"));
    let ends: Vec<(End, u32)> = left.windows().iter().map(|w| (w.end, w.code)).collect();
    assert_eq!(ends, [(End::Yielded, 15)]);
    assert_eq!(left.off(), Some(Off::Error(15)));
}

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

fn a_job_that_is_killed_in_a_window_keeps_those_before() {
    let place = JobFolder::with_cupti();
    let mut job = place.job("job_that_ends_in_a_window").env("END", "kill");
    assert!(!job.run().success());
    let left = Left::behind(&job);
    assert!(left.check(true) >= 1);
    assert_eq!(left.off(), None);
}

fn a_job_that_exits_in_a_window_keeps_that_too() {
    let place = JobFolder::with_cupti();
    let left = Left::of(place.job("job_that_ends_in_a_window").env("END", "exit"));
    assert!(left.check(true) >= 2);
    let ends: Vec<End> = left.windows().iter().map(|w| w.end).collect();
    assert_eq!(ends.last(), Some(&End::Exit), "{ends:?}");
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

fn a_fork_in_a_window_leaves_both_alone() {
    let place = JobFolder::with_cupti();
    let mut job = place.job("job_that_forks_in_a_window");
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

/// A test of several stories, which are played at once.
macro_rules! stories {
    ($($test:ident: $($story:ident)*;)*) => {
        $(
            #[test]
            fn $test() {
                let stories = [$((stringify!($story), $story as fn())),*];
                let play = |(name, story): (&str, fn())| {
                    let thread = std::thread::Builder::new().name(name.to_owned());
                    thread.spawn(story).expect("starts")
                };
                let threads = stories.map(play).map(|thread| thread.join().is_err());
                let failed = stories.iter().zip(threads).filter(|(_, failed)| *failed);
                let failed: Vec<&str> = failed.map(|((name, _), _)| *name).collect();
                assert!(failed.is_empty(), "{failed:?}");
            }
        )*
    };
}

stories! {
    windows_have_what_was_launched_in_them:
        all_that_was_launched_in_a_window_is_in_it
        cupti_is_set_up_before_the_first_window
        a_job_that_can_afford_cupti_has_windows
        a_job_that_waits_for_its_host_is_not_slowed_by_cupti
        cupti_is_set_up_once_the_host_is_ahead
        launches_of_a_library_that_looks_the_driver_up_late_are_seen
        dropped_records_are_counted_and_the_others_stay
        records_without_a_buffer_are_counted_once
        a_report_says_what_windows_cost
        times_of_an_unknown_clock_are_left_out
        the_cupti_that_lies_beside_cudas_runtime_is_found
        there_may_be_no_windows_and_the_cause_is_said
        an_error_of_cupti_ends_windows_for_good;
    another_profiler_has_all_of_its_records:
        a_use_of_cupti_that_began_before_is_left_alone
        a_clock_that_was_given_to_cupti_before_is_not_taken_for_another
        another_profiler_gets_all_of_its_records_and_windows_come_again
        a_profiler_that_is_loaded_late_gets_all_of_its_records
        an_error_while_a_window_yields_is_the_last_too;
    however_a_job_ends_its_windows_stay:
        a_job_that_is_killed_in_a_window_keeps_those_before
        a_job_that_exits_in_a_window_keeps_that_too
        a_fork_in_a_window_leaves_both_alone;
}
