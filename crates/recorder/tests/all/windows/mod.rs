//! Kernel windows, with a driver and a CUPTI of our own (`fake-cuda`). All that was launched in a window is
//! in it, at the time when it ran. Another profiler gets all that it would have got without us.
//!
//! A job is a [`Play`], which keeps a list of its launches. The test reads the job's capture and that list
//! ([`Left`]). Windows come about once a second, so the stories of a test are played at once. `launched`
//! tests what is in windows and what they cost, `others` other profilers, and `ends` jobs that end in a
//! window.

mod ends;
mod launched;
mod others;

use crate::job::cuda::{built, capture, Cuda, OTHER, STREAM};
use crate::job::{out, recorded, until, Driver, Job};
use libloading::os::unix::{Library, RTLD_LAZY};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_char, CString};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tables::windows::{GpuActivity, Off, Window};
use tables::Process;

use ::capture::windows::{ActivityKind, DriverCallKind, End};

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
    asked: DriverCallKind,
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
        asked: DriverCallKind,
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
            kernels: if asked == DriverCallKind::LaunchGraph {
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
            DriverCallKind::Launch,
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
        self.launch(
            ActivityKind::Copy,
            DriverCallKind::Copy,
            [0, OTHER],
            |cuda, stream| {
                cuda.copy_on(0, 0, 5000, stream);
            },
        );
        self.launch(
            ActivityKind::Fill,
            DriverCallKind::Copy,
            [0, OTHER],
            |cuda, stream| {
                cuda.fill_on(0, 0, 2000, stream);
            },
        );
        if graph {
            let exec = self.exec;
            self.launch(
                ActivityKind::Kernel,
                DriverCallKind::LaunchGraph,
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

    /// Steps until what is in the capture is enough. Another thread reads it, because that may take longer
    /// than a window on a busy machine.
    #[track_caller]
    fn until_recorded(&mut self, enough: impl Fn(&Process) -> bool + Sync) {
        let (stop, found) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    let capture = tables::Capture::open(&out()).ok();
                    if capture.is_some_and(|capture| capture.processes.iter().any(&enough)) {
                        found.store(true, Relaxed);
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
            // It must end if a step fails, too.
            let stepped = std::panic::catch_unwind(AssertUnwindSafe(|| {
                self.until(|| found.load(Relaxed));
            }));
            stop.store(true, Relaxed);
            if let Err(failed) = stepped {
                std::panic::resume_unwind(failed);
            }
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
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/program/profiler.c");
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
        Job::new(module_path!(), name)
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
                    0 => DriverCallKind::Launch,
                    1 => DriverCallKind::LaunchGraph,
                    _ => DriverCallKind::Copy,
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
        // On a busy machine, the program may have had no time in a single one.
        assert!(whole.len() < 2 || inside > 0, "{inside} launches");
        whole.len()
    }

    /// How many launches were certainly made in it.
    fn check_window(&self, window: &Window, own_clock: bool) -> usize {
        let times = [window.opening, window.open, window.closing, window.closed];
        assert!(times.is_sorted(), "{times:?}");
        let mut ran: BTreeMap<u64, Vec<&GpuActivity>> = BTreeMap::new();
        for r in &window.ran {
            ran.entry(r.correlation.into()).or_default().push(r);
        }
        let graphs = window.ran.iter().filter(|r| r.graph != 0);
        let newest_graph = graphs.map(|r| u64::from(r.correlation)).max().unwrap_or(0);
        let mut inside = 0;
        for launch in &self.launches {
            let Some(ran) = ran.remove(&launch.correlation) else {
                // A reader leaves out the last launch of a graph.
                let last = launch.asked == DriverCallKind::LaunchGraph
                    && launch.correlation > newest_graph;
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

    fn check_launch(&self, launch: &Launch, ran: &[&GpuActivity], own_clock: bool) {
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
            let in_graph = launch.asked == DriverCallKind::LaunchGraph;
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

/// A test of several stories, which are played at once.
macro_rules! stories {
    ($($test:ident: $($story:path)*;)*) => {
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
        launched::all_that_was_launched_in_a_window_is_in_it
        launched::cupti_is_set_up_before_the_first_window
        launched::a_job_that_can_afford_cupti_has_windows
        launched::a_job_that_waits_for_its_host_is_not_slowed_by_cupti
        launched::cupti_is_set_up_once_the_host_is_ahead
        launched::launches_of_a_library_that_looks_the_driver_up_late_are_seen
        launched::dropped_records_are_counted_and_the_others_stay
        launched::records_without_a_buffer_are_counted_once
        launched::a_report_says_what_windows_cost
        launched::times_of_an_unknown_clock_are_left_out
        launched::the_cupti_that_lies_beside_cudas_runtime_is_found
        launched::there_may_be_no_windows_and_the_cause_is_said
        launched::an_error_of_cupti_ends_windows_for_good;
    another_profiler_has_all_of_its_records:
        others::a_use_of_cupti_that_began_before_is_left_alone
        others::a_clock_that_was_given_to_cupti_before_is_not_taken_for_another
        others::another_profiler_gets_all_of_its_records_and_windows_come_again
        others::a_profiler_that_is_loaded_late_gets_all_of_its_records
        others::an_error_while_a_window_yields_is_the_last_too;
    however_a_job_ends_its_windows_stay:
        ends::a_job_that_is_killed_in_a_window_keeps_those_before
        ends::a_job_that_exits_in_a_window_keeps_that_too
        ends::no_window_is_opened_while_the_driver_shuts_down
        ends::a_fork_in_a_window_leaves_both_alone;
}
