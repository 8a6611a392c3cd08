//! Streams that wait for collectives, with a driver of our own (`fake-cuda`) that knows when each stream
//! has nothing else to do.
//!
//! A job is a [`Play`] of stories. Each story makes some calls and says what is to be known of the streams
//! that wait for them ([`Expect`]). The parent compares that with the job's capture.

use crate::job::cuda::{built, Cuda, OTHER, STREAM};
use crate::job::{out, recorded, Driver, Job};
use nccl_abi::{event, state};
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tables::calls::Waited;
use tables::{Call, Process};

/// The compute stream, and others.
const COMPUTE: u64 = OTHER;
const SECOND: u64 = 0x59;
/// A stream that NCCL keeps for itself.
const NCCLS_OWN: u64 = 0x5a;
/// A stream of the second device.
const FOREIGN: u64 = 0x5b;

const MS: u64 = 1_000_000;
/// What the compute stream has to do before each story, so that nothing depends on when the host calls.
const BEFORE: u64 = 20 * MS;

/// What is to be known of the stream that waits for a call.
#[derive(Clone, Copy, Debug)]
enum Expect {
    /// No stream waits.
    Nobody,
    /// From the moment at which this stream had nothing else to do to the call's end, ns.
    For(i64, u64),
    Ended,
    Untimed,
}
use Expect::*;

impl Expect {
    fn value(&self) -> Value {
        match self {
            Nobody => json!(["nobody"]),
            For(ns, stream) => json!(["for", ns, stream]),
            Ended => json!(["ended"]),
            Untimed => json!(["untimed"]),
        }
    }
}

struct Play {
    cuda: Cuda,
    comm: Driver,
    /// NCCL's own event.
    own: u64,
    expected: Vec<Value>,
}

impl Play {
    fn new() -> Play {
        Play::with(Cuda::runtime())
    }

    fn with(cuda: Cuda) -> Play {
        let comm = Driver::new(1);
        let own = event_of(&cuda);
        Play {
            cuda,
            comm,
            own,
            expected: Vec::new(),
        }
    }

    /// An AllReduce with a kernel of this length. As NCCL does, it lets a stream of its own wait before it
    /// returns.
    fn all_reduce_on(&mut self, stream: u64, ns: u64) {
        let comm = &mut self.comm;
        let group = comm.group(false);
        let api = comm.coll_api_on(group, 4096, false, stream);
        comm.state(group, state::GROUP_END_API_START, None);
        let launch = comm.start(event::KERNEL_LAUNCH, group, |u| {
            u.kernel_launch.stream = stream as *mut _;
        });
        self.cuda.tell("kernel", stream, ns);
        comm.stop(launch);
        self.cuda.record(self.own, stream);
        self.cuda.wait(NCCLS_OWN, self.own, 0);
        let plan = comm.start(event::GROUP, std::ptr::null_mut(), |_| {});
        comm.coll(api, 4096, 2);
        comm.stop(plan);
        comm.stop(group);
    }

    fn all_reduce(&mut self, ns: u64) {
        self.all_reduce_on(STREAM, ns);
    }

    /// Two AllReduces in a group of a non-blocking communicator: NCCL (2.30) launches when the group has
    /// returned. It calls the driver from its own library.
    fn late_group(&mut self, nccl: &Cuda, ns: u64) {
        let comm = &mut self.comm;
        let group = comm.group(false);
        let apis = [0, 1].map(|_| comm.coll_api_on(group, 4096, false, STREAM));
        comm.state(group, state::GROUP_END_API_START, None);
        comm.stop(group);
        let launch = comm.start(event::KERNEL_LAUNCH, group, |u| {
            u.kernel_launch.stream = STREAM as *mut _;
        });
        self.cuda.tell("kernel", STREAM, ns);
        comm.stop(launch);
        nccl.record(self.own, STREAM);
        nccl.wait(NCCLS_OWN, self.own, 0);
        let plan = comm.start(event::GROUP, std::ptr::null_mut(), |_| {});
        apis.into_iter().for_each(|api| {
            comm.coll(api, 4096, 2);
        });
        comm.stop(plan);
    }

    /// A kernel of the program's own.
    fn compute(&self, stream: u64, ns: u64) {
        self.cuda.tell("kernel", stream, ns);
    }

    /// A new event, recorded on a stream.
    fn mark(&self, stream: u64) -> u64 {
        let event = event_of(&self.cuda);
        self.cuda.record_with(event, stream, 0);
        event
    }

    fn wait(&self, stream: u64, event: u64) {
        self.cuda.wait(stream, event, 0);
    }

    /// As torch does before a collective: its stream waits for what was computed.
    fn after_compute(&self) {
        let event = self.mark(COMPUTE);
        self.wait(STREAM, event);
    }

    /// Plays a story. Its calls begin when the compute stream has done what it has to do before, if the
    /// host is quick enough; else it is played again.
    fn story(&mut self, story: impl Fn(&mut Play) -> Vec<Expect>) {
        loop {
            let began = Instant::now();
            self.compute(COMPUTE, BEFORE);
            self.after_compute();
            let expected = story(self);
            let prompt = began.elapsed() < Duration::from_nanos(BEFORE * 3 / 4);
            self.expected
                .extend(expected.iter().map(|expect| match expect {
                    _ if !prompt => Value::Null,
                    Nobody => json!(["nobody"]),
                    For(ns, stream) => json!(["for", ns, stream]),
                    Ended => json!(["ended"]),
                    Untimed => json!(["untimed"]),
                }));
            std::thread::sleep(Duration::from_millis(60));
            if prompt {
                return;
            }
        }
    }

    /// Notes what is to be known of calls that were made outside of stories.
    fn expect(&mut self, expected: &[Expect]) {
        self.expected.extend(expected.iter().map(|e| e.value()));
    }

    fn end(self) {
        let expected = Value::Array(self.expected);
        std::fs::write(expected_file(&out()), expected.to_string()).expect("written");
        self.comm.finalize();
        assert_eq!(self.cuda.number("violations"), 0);
    }
}

fn event_of(cuda: &Cuda) -> u64 {
    let mut event = 0;
    cuda.make_event(&mut event, 0);
    event
}

fn expected_file(folder: &Path) -> PathBuf {
    folder.with_extension("expected")
}

/// Runs the ignored test `name`, and compares what it left with what it expected.
fn play(name: &str) -> Process {
    play_with(name, "NCCLSCOPE_TIMING", "auto")
}

fn play_with(name: &str, variable: &str, value: &str) -> Process {
    let mut job = Job::new(module_path!(), name)
        .env("NCCLSCOPE_WINDOWS", "off")
        .env(variable, value);
    job.command().env_remove("NCCLSCOPE_STAMPS");
    assert!(job.run().success());
    let file = expected_file(&job.folder);
    let text = std::fs::read_to_string(&file).expect("the job wrote it");
    let _ = std::fs::remove_file(file);
    let expected: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let mut capture = job.capture();
    assert!(capture.problems.is_empty(), "{:?}", capture.problems);
    let process = capture.processes.remove(0);
    assert_eq!(process.calls.len(), expected.len());
    // Where the machine is so busy that a clock's anchor is late, a call has no time.
    let timed = |call: &&Call| call.gpu.stop().is_some();
    let known = process.calls.iter().filter(timed).count();
    assert!(2 * known >= expected.len(), "{known} calls have times");
    for (i, (call, expected)) in process.calls.iter().zip(&expected).enumerate() {
        if call.gpu.stop().is_none() {
            continue;
        }
        assert!(
            fits(call, expected),
            "call {i}: {expected}, but {:?} {call:?}",
            call.waited()
        );
    }
    process
}

fn fits(call: &Call, expected: &Value) -> bool {
    match (expected[0].as_str(), call.waited()) {
        (None, _) | (Some("nobody"), None) => true,
        (Some("ended"), Some(Waited::Ended)) => call.exposed_ns() == Some(0),
        (Some("untimed"), Some(Waited::Untimed)) => call.exposed_ns().is_none(),
        (Some("for"), Some(Waited::For(ns))) => {
            let (truth, stream) = (expected[1].as_i64().expect("ns"), expected[2].as_u64());
            // Within what a float of ms and a unit leave.
            ns.abs_diff(truth) < 1_000 && call.waiting_stream().map(u64::from) == stream
        }
        _ => false,
    }
}

#[test]
#[ignore = "played by the test below"]
fn job_beside_and_after() {
    let mut play = Play::new();
    for _ in 0..3 {
        // 10 ms of computing beside an AllReduce of 4 ms.
        play.story(|p| {
            p.all_reduce(4 * MS);
            let end = p.mark(STREAM);
            p.compute(COMPUTE, 10 * MS);
            p.wait(COMPUTE, end);
            p.compute(COMPUTE, MS);
            vec![For(-6 * MS as i64, COMPUTE)]
        });
        // One after the other.
        play.story(|p| {
            p.all_reduce(4 * MS);
            let end = p.mark(STREAM);
            p.wait(COMPUTE, end);
            p.compute(COMPUTE, 10 * MS);
            vec![For(4 * MS as i64, COMPUTE)]
        });
        // Half of it.
        play.story(|p| {
            p.all_reduce(4 * MS);
            let end = p.mark(STREAM);
            p.compute(COMPUTE, 2 * MS);
            p.wait(COMPUTE, end);
            vec![For(2 * MS as i64, COMPUTE)]
        });
    }
    play.end();
}

#[test]
fn computing_beside_a_call_hides_it_and_computing_after_it_does_not() {
    let process = play("job_beside_and_after");
    let exposed = process.calls.iter().filter_map(|call| call.exposed_ns());
    let ms: Vec<u64> = exposed.map(|ns| ns.div_ceil(1_000) / 1_000).collect();
    assert!([0, 4, 2].iter().all(|of| ms.contains(of)), "{ms:?}");
    for call in &process.calls {
        let Some((_, stop)) = call.gpu.on_host() else {
            continue;
        };
        let from = call.waited_from().expect("known");
        let exposed = call.exposed_ns().expect("known");
        assert_eq!((stop - from).max(0) as u64, exposed);
    }
}

#[test]
fn waits_can_be_switched_off() {
    let mut job = Job::new(module_path!(), "job_beside_and_after").env("NCCLSCOPE_WAITS", "off");
    job.command().env_remove("NCCLSCOPE_STAMPS");
    assert!(job.run().success());
    let _ = std::fs::remove_file(expected_file(&job.folder));
    let capture = job.capture();
    let calls = &capture.processes[0].calls;
    assert!(calls.len() >= 9 && calls.iter().all(|call| call.waited().is_none()));
}

#[test]
#[ignore = "played by the test below"]
fn job_of_events() {
    let mut play = Play::new();
    // An event is recorded again: behind another call, behind none, and behind none of the recorder's.
    play.story(|p| {
        p.all_reduce(2 * MS);
        let end = p.mark(STREAM);
        p.all_reduce(2 * MS);
        p.cuda.record(end, STREAM);
        p.wait(COMPUTE, end);
        vec![Nobody, For(4 * MS as i64, COMPUTE)]
    });
    play.story(|p| {
        p.all_reduce(2 * MS);
        let end = p.mark(STREAM);
        p.cuda.record(end, COMPUTE);
        p.wait(SECOND, end);
        vec![Nobody]
    });
    // Destroyed, and the handle is another event's, which was never recorded.
    play.story(|p| {
        p.all_reduce(2 * MS);
        let end = p.mark(STREAM);
        p.cuda.destroy_event(end);
        let other = event_of(&p.cuda);
        assert_eq!(other, end, "fake-cuda gives handles again");
        p.wait(COMPUTE, other);
        vec![Nobody]
    });
    // Never recorded.
    play.story(|p| {
        let never = event_of(&p.cuda);
        p.all_reduce(2 * MS);
        p.wait(COMPUTE, never);
        vec![Nobody]
    });
    // Several streams wait: the first one counts. The same stream again does not.
    play.story(|p| {
        p.all_reduce(2 * MS);
        let end = p.mark(STREAM);
        p.compute(SECOND, BEFORE);
        let recorded = |p: &Play| p.cuda.tell("records_on", COMPUTE, 0);
        let before = recorded(p);
        p.wait(COMPUTE, end);
        assert_eq!(recorded(p), before + 1);
        p.wait(SECOND, end);
        p.wait(COMPUTE, end);
        assert_eq!(recorded(p), before + 1);
        vec![For(2 * MS as i64, COMPUTE)]
    });
    // The collective's own stream waits, which it needs not.
    play.story(|p| {
        p.all_reduce(2 * MS);
        let end = p.mark(STREAM);
        p.wait(STREAM, end);
        p.compute(STREAM, MS);
        p.wait(COMPUTE, end);
        vec![For(2 * MS as i64, COMPUTE)]
    });
    // Only behind the second of two calls; and what else is behind a call is none of it.
    play.story(|p| {
        p.all_reduce(2 * MS);
        p.all_reduce(2 * MS);
        p.compute(STREAM, 5 * MS);
        let end = p.mark(STREAM);
        p.wait(COMPUTE, end);
        vec![Nobody, For(4 * MS as i64, COMPUTE)]
    });
    play.end();
}

#[test]
fn events_that_are_recorded_again_destroyed_and_shared() {
    play("job_of_events");
}

#[test]
#[ignore = "played by the test below"]
fn job_that_waits_late() {
    let mut play = Play::new();
    for i in 0..4 {
        play.all_reduce(MS);
        let end = play.mark(STREAM);
        // The recorder's thread looks every 10 ms, if the machine lets it.
        std::thread::sleep(Duration::from_secs(1));
        let before = play.cuda.tell("records_on", COMPUTE, 0);
        if i % 2 == 0 {
            play.wait(COMPUTE, end);
        }
        // What is known needs no event.
        assert_eq!(play.cuda.tell("records_on", COMPUTE, 0), before);
    }
    play.expect(&[Ended, Nobody, Ended, Nobody]);
    play.end();
}

#[test]
fn a_stream_that_comes_after_the_end_gets_no_event() {
    play_with("job_that_waits_late", "NCCLSCOPE_FLUSH", "3600");
}

#[test]
#[ignore = "played by the test below"]
fn job_of_streams() {
    let mut play = Play::new();
    // The default streams, by both kinds of functions. 2 is this thread's own.
    play.story(|p| {
        let before = p.mark(COMPUTE);
        p.wait(0, before);
        p.wait(2, before);
        p.all_reduce_on(0, 2 * MS);
        let end = event_of(&p.cuda);
        p.cuda.record(end, 1);
        p.cuda.wait_own(0, end, 0);
        vec![For(2 * MS as i64, 2)]
    });
    play.story(|p| {
        p.wait(2, p.mark(COMPUTE));
        p.all_reduce_on(2, 2 * MS);
        let end = event_of(&p.cuda);
        p.cuda.record_own(end, 0);
        p.wait(COMPUTE, end);
        vec![For(2 * MS as i64, COMPUTE)]
    });
    // Another thread's own stream is another one.
    play.story(|p| {
        p.all_reduce_on(2, 2 * MS);
        let end = event_of(&p.cuda);
        std::thread::scope(|scope| {
            let cuda = &p.cuda;
            scope.spawn(move || cuda.record_own(end, 0));
        });
        p.wait(COMPUTE, end);
        vec![Nobody]
    });
    // A stream of another device, and one of this device while the other is the thread's.
    play.cuda.tell("stream_context", FOREIGN, 2);
    play.story(|p| {
        p.all_reduce(2 * MS);
        let end = p.mark(STREAM);
        p.wait(FOREIGN, end);
        vec![Untimed]
    });
    play.story(|p| {
        p.all_reduce(2 * MS);
        let end = p.mark(STREAM);
        p.cuda.set_device(1);
        p.wait(COMPUTE, end);
        p.cuda.set_device(0);
        vec![Untimed]
    });
    // Another thread makes the stream wait.
    play.story(|p| {
        p.all_reduce(2 * MS);
        let end = p.mark(STREAM);
        std::thread::scope(|scope| {
            let p = &*p;
            scope.spawn(move || p.wait(COMPUTE, end));
        });
        vec![For(2 * MS as i64, COMPUTE)]
    });
    play.end();
}

#[test]
fn default_streams_other_devices_and_other_threads() {
    play("job_of_streams");
}

#[test]
#[ignore = "played by the test below"]
fn job_beside_captures() {
    let mut play = Play::new();
    // The stream that waits is captured.
    play.story(|p| {
        p.all_reduce(2 * MS);
        let end = p.mark(STREAM);
        p.cuda.tell("capture", COMPUTE, 1);
        p.wait(COMPUTE, end);
        p.cuda.tell("capture", COMPUTE, 0);
        vec![Untimed]
    });
    // The event is recorded on a captured stream, to fork the capture: the call before it is none of the
    // graph's.
    play.story(|p| {
        p.all_reduce(2 * MS);
        p.cuda.tell("capture", STREAM, 1);
        p.cuda.tell("forks", 1, 0);
        let fork = p.mark(STREAM);
        p.cuda.tell("forks", 0, 0);
        p.wait(COMPUTE, fork);
        p.cuda.tell("capture", STREAM, 0);
        vec![Nobody]
    });
    // Another stream is captured, by whichever thread.
    play.story(|p| {
        p.cuda.tell("capture", SECOND, 1);
        p.all_reduce(2 * MS);
        let end = p.mark(STREAM);
        p.wait(COMPUTE, end);
        p.cuda.tell("capture", SECOND, 0);
        vec![For(2 * MS as i64, COMPUTE)]
    });
    // The default stream can't be asked about meanwhile.
    play.story(|p| {
        p.all_reduce(2 * MS);
        let end = p.mark(STREAM);
        p.cuda.tell("capture", SECOND, 1);
        p.wait(0, end);
        p.cuda.tell("capture", SECOND, 0);
        vec![Untimed]
    });
    play.end();
}

#[test]
fn captures_go_on_unharmed_and_their_events_are_no_waits() {
    play("job_beside_captures");
}

type Wait = unsafe extern "C" fn(u64, u64, u32) -> i32;

#[test]
#[ignore = "played by the test below"]
fn job_of_errors() {
    let mut play = Play::new();
    // The driver refuses the program's own wait, which gets its error.
    play.story(|p| {
        p.all_reduce(2 * MS);
        let end = p.mark(STREAM);
        p.cuda.tell("refuse_waits", 1, 0);
        // SAFETY: the runtime's function.
        let wait: Wait = unsafe { *p.cuda.caller.get(b"cudaStreamWaitEvent").expect("is there") };
        // SAFETY: an event of this driver.
        let refused = unsafe { wait(COMPUTE, end, 0) };
        assert_eq!(refused, 1);
        p.cuda.tell("refuse_waits", 0, 0);
        p.wait(COMPUTE, end);
        vec![Untimed]
    });
    // The next one is as if nothing had been.
    play.story(|p| {
        p.all_reduce(2 * MS);
        let end = p.mark(STREAM);
        p.wait(COMPUTE, end);
        vec![For(2 * MS as i64, COMPUTE)]
    });
    let calls = play.expected.len();
    recorded(|process| {
        process.calls.len() >= calls && process.calls[calls - 1].gpu.stop().is_some()
    });
    play.all_reduce(2 * MS);
    let end = play.mark(STREAM);
    // An error that stays: no event is recorded, and the program sees it.
    let before = play.cuda.tell("records_on", COMPUTE, 0);
    play.cuda.tell("fail", 700, 0);
    // SAFETY: the runtime's function.
    let wait: Wait = unsafe {
        *play
            .cuda
            .caller
            .get(b"cudaStreamWaitEvent")
            .expect("is there")
    };
    // SAFETY: an event of this driver.
    let failed = unsafe { wait(COMPUTE, end, 0) };
    assert_eq!(failed, 700);
    play.cuda.tell("fail", 0, 0);
    play.wait(COMPUTE, end);
    assert_eq!(play.cuda.tell("records_on", COMPUTE, 0), before);
    play.all_reduce(2 * MS);
    let end = play.mark(STREAM);
    play.wait(COMPUTE, end);
    assert_eq!(play.cuda.tell("records_on", COMPUTE, 0), before);
    // Nothing of the first is confirmed any more.
    play.expect(&[Nobody, Nobody]);
    play.end();
}

#[test]
fn errors_are_the_programs_to_see() {
    let process = play("job_of_errors");
    assert_eq!(process.counters.as_ref().map(|c| c.cuda_error), Some(700));
}

#[test]
#[ignore = "played by the test below"]
fn job_with_contexts_that_go() {
    let mut play = Play::new();
    play.all_reduce(2 * MS);
    let end = play.mark(STREAM);
    std::thread::sleep(Duration::from_millis(100));
    // The communicator is finalized, and its context made again at the same address.
    let comm = std::mem::replace(&mut play.comm, Driver::new(2));
    comm.finalize();
    play.cuda.tell("reset", 0, 0);
    let again = event_of(&play.cuda);
    let before = play.cuda.tell("records_on", COMPUTE, 0);
    // SAFETY: the runtime's function.
    let wait: Wait = unsafe {
        *play
            .cuda
            .caller
            .get(b"cudaStreamWaitEvent")
            .expect("is there")
    };
    // SAFETY: the driver says that the event is gone.
    let gone = unsafe { wait(COMPUTE, end, 0) };
    assert_eq!(gone, 400);
    play.wait(COMPUTE, again);
    assert_eq!(play.cuda.tell("records_on", COMPUTE, 0), before);
    play.comm.finalize();
    play.comm = Driver::new(3);
    play.own = event_of(&play.cuda);
    play.expect(&[Nobody]);
    play.story(|p| {
        p.all_reduce(2 * MS);
        let end = p.mark(STREAM);
        p.wait(COMPUTE, end);
        vec![For(2 * MS as i64, COMPUTE)]
    });
    play.end();
}

#[test]
fn a_context_that_is_gone_takes_its_waits_with_it() {
    play("job_with_contexts_that_go");
}

#[test]
#[ignore = "played by the test below"]
fn job_of_late_groups() {
    let cuda = Cuda::runtime();
    let folder = tempfile::tempdir().expect("made");
    let library = folder.path().join("libnccl.so.2");
    std::fs::copy(built(&["examples/libfake_cudart.so"]), &library).expect("copied");
    let nccl = Cuda::with_runtime(&library);
    let mut play = Play::with(cuda);
    for waits in [true, false, true] {
        play.story(|p| {
            p.late_group(&nccl, 3 * MS);
            let expected = if waits {
                let end = p.mark(STREAM);
                p.wait(COMPUTE, end);
                For(3 * MS as i64, COMPUTE)
            } else {
                Nobody
            };
            vec![expected; 2]
        });
    }
    play.end();
}

#[test]
fn a_group_that_launches_when_it_has_returned_is_waited_for() {
    play("job_of_late_groups");
}

#[test]
#[ignore = "played by the test below"]
fn job_that_forks() {
    let mut play = Play::new();
    play.story(|p| {
        p.all_reduce(2 * MS);
        let end = p.mark(STREAM);
        // SAFETY: the child calls the driver only, and ends at once.
        let child = unsafe { libc_fork() };
        if child == 0 {
            let before = p.cuda.tell("records_on", COMPUTE, 0);
            p.wait(COMPUTE, end);
            let same = p.cuda.tell("records_on", COMPUTE, 0) == before;
            std::process::exit(i32::from(!same));
        }
        let mut status = 0;
        // SAFETY: waits for the child above.
        assert_eq!(unsafe { libc_wait(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child recorded an event");
        p.wait(COMPUTE, end);
        vec![For(2 * MS as i64, COMPUTE)]
    });
    play.end();
}

extern "C" {
    #[link_name = "fork"]
    fn libc_fork() -> i32;
    #[link_name = "waitpid"]
    fn libc_wait(child: i32, status: *mut i32, options: i32) -> i32;
}

#[test]
fn a_forked_child_records_nothing() {
    play("job_that_forks");
}

#[test]
#[ignore = "played by the test below"]
fn job_of_many_calls() {
    let mut play = Play::new();
    let before = play.cuda.tell("records_on", COMPUTE, 0);
    let calls = 5_000;
    let began = Instant::now();
    for i in 0..calls {
        play.all_reduce(1_000);
        let end = play.mark(STREAM);
        play.wait(COMPUTE, end);
        play.cuda.destroy_event(end);
        // As fast as the driver goes, but within what the live part holds.
        if i % 100 == 99 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let recorded = play.cuda.tell("records_on", COMPUTE, 0) - before;
    let took = began.elapsed().as_secs_f64();
    std::fs::write(truth_file(&out()), json!([recorded, took]).to_string()).expect("written");
    play.expected = vec![Value::Null; calls];
    play.end();
}

fn truth_file(folder: &Path) -> PathBuf {
    folder.with_extension("truth")
}

#[test]
fn calls_that_are_not_timed_cost_no_event() {
    let mut job = Job::new(module_path!(), "job_of_many_calls").env("NCCLSCOPE_WINDOWS", "off");
    job.command().env_remove("NCCLSCOPE_STAMPS");
    assert!(job.run().success());
    let text = std::fs::read_to_string(truth_file(&job.folder)).expect("the job wrote it");
    for file in [truth_file(&job.folder), expected_file(&job.folder)] {
        let _ = std::fs::remove_file(file);
    }
    let truth: Value = serde_json::from_str(&text).expect("JSON");
    let recorded = truth[0].as_u64().expect("a number");
    let capture = job.capture();
    let process = &capture.processes[0];
    let waited = |call: &&Call| call.waited().is_some();
    let timed = |call: &Call| call.gpu_ns(&process.shapes[call.shape as usize]).is_ok();
    assert!(process.calls.iter().filter(waited).all(timed));
    let all = process.calls.iter().filter(|call| timed(call)).count() as u64;
    // One for each timed call at most, of which there are far fewer than calls.
    assert!(
        recorded <= all && all < 2_500 && recorded > 100,
        "{recorded} {all}"
    );
}

/// ns for each of many calls.
fn each(call: impl Fn() -> i32) -> f64 {
    const TIMES: u32 = 20_000;
    let mut best = f64::MAX;
    for _ in 0..50 {
        let began = Instant::now();
        for _ in 0..TIMES {
            std::hint::black_box(call());
        }
        best = best.min(began.elapsed().as_nanos() as f64 / f64::from(TIMES));
    }
    best
}

#[test]
#[ignore = "measures; bench/README.md has the command"]
fn cost() {
    // Nothing is to be left in the folder of whoever measures.
    let folder = tempfile::tempdir().expect("made");
    std::env::set_var("NCCLSCOPE_OUT", folder.path());
    std::env::set_var("NCCLSCOPE_QUIET", "1");
    type Record = unsafe extern "C" fn(u64, u64) -> i32;
    type Destroy = unsafe extern "C" fn(u64) -> i32;
    let cuda = Cuda::runtime();
    // SAFETY: the runtime's functions.
    let (record, wait): (Record, Wait) = unsafe {
        (
            *cuda.caller.get(b"cudaEventRecord").expect("is there"),
            *cuda.caller.get(b"cudaStreamWaitEvent").expect("is there"),
        )
    };
    // SAFETY: as above.
    let destroy: Destroy = unsafe { *cuda.caller.get(b"cudaEventDestroy").expect("is there") };
    let events: Vec<u64> = (0..64).map(|_| event_of(&cuda)).collect();
    let turn = std::cell::Cell::new(0);
    let next = || {
        turn.set(turn.get() + 1);
        events[turn.get() % events.len()]
    };
    let measure = || {
        cuda.tell("bare", 1, 0);
        // SAFETY: events of this driver, and streams as it takes them.
        let figures = unsafe {
            [
                each(|| record(next(), COMPUTE)),
                each(|| wait(COMPUTE, next(), 0)),
                each(|| destroy(next() | 1)),
            ]
        };
        cuda.tell("bare", 0, 0);
        figures
    };
    let without = measure();
    let mut play = Play {
        cuda: Cuda::runtime(),
        comm: Driver::new(1),
        own: 0,
        expected: Vec::new(),
    };
    play.own = event_of(&play.cuda);
    let before = measure();
    let last = (0..200).map(|_| {
        play.all_reduce(1_000);
        play.mark(STREAM)
    });
    let last = last.last().expect("some");
    let with = measure();
    // The stream of a call that is timed, and the event behind it.
    cuda.tell("bare", 1, 0);
    // SAFETY: as above.
    let timed = unsafe {
        [
            each(|| record(last, STREAM)),
            each(|| wait(STREAM, last, 0)),
        ]
    };
    cuda.tell("bare", 0, 0);
    println!("ns per call          cuEventRecord  cuStreamWaitEvent  cuEventDestroy");
    for (what, [record, wait, destroy]) in [
        ("without", without),
        ("no call was timed", before),
        ("calls are timed", with),
    ] {
        println!("{what:20} {record:13.1}  {wait:17.1}  {destroy:14.1}");
    }
    let [record, wait] = timed;
    println!("{:20} {record:13.1}  {wait:17.1}", "behind a timed call");
}
