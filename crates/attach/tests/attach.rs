//! Attaches to a program that already runs and calls a libnccl.so.2 which does nothing. Skipped with the
//! reason if this machine allows no probes.

#![cfg(target_arch = "x86_64")]

use attach::{Options, Session, Summary, Targets};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tables::{Capture, Progress, Source};

/// A folder of examples: beside the tests.
fn examples() -> PathBuf {
    let me = std::env::current_exe().expect("a path");
    me.parent()
        .and_then(Path::parent)
        .expect("a folder")
        .join("examples")
}

/// The program, with a library of its own, so that no test sees another's calls.
struct Job {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    folder: tempfile::TempDir,
}

impl Job {
    fn start() -> Job {
        Job::start_with("libnccl.so.2", &[])
    }

    fn start_with(library: &str, variables: &[(&str, &str)]) -> Job {
        let folder = tempfile::tempdir().expect("a folder");
        let library = folder.path().join(library);
        std::fs::copy(examples().join("libfake_nccl.so"), &library)
            .expect("`cargo build --examples`");
        let mut command = Command::new(examples().join("fake_job"));
        command.arg(&library).envs(variables.iter().copied());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Job {
            child,
            input,
            output,
            folder,
        }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the job listens");
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the job answers");
        line.trim().to_owned()
    }

    fn tell(&mut self, line: &str) -> String {
        self.send(line);
        self.answer()
    }

    fn capture(&self) -> PathBuf {
        self.folder.path().join("capture")
    }

    fn options(&self) -> Options {
        Options {
            targets: Targets::Trees(vec![self.pid()]),
            folder: self.capture(),
            ring_bytes: 16 << 20,
            slow: false,
            way: None,
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `None` if probes can't be had here, with the reason on standard error.
fn attached(options: Options) -> Option<Session> {
    match Session::start(options) {
        Ok(session) => Some(session),
        Err(refusal) => {
            eprintln!("skipped: {refusal}");
            None
        }
    }
}

/// Takes events for as long as another thread does something with the job.
fn during<T: Send>(
    session: &mut Session,
    job: &mut Job,
    act: impl FnOnce(&mut Job) -> T + Send,
) -> T {
    std::thread::scope(|scope| {
        let acting = scope.spawn(|| act(job));
        session.run(|_| acting.is_finished());
        acting.join().expect("acted")
    })
}

fn read(folder: &Path) -> Capture {
    let source = Source::open(folder, &Progress::default()).expect("a capture");
    source.load(&Progress::default())
}

fn calls(summary: &Summary, function: &str) -> Vec<(u32, u64)> {
    let all = summary.processes.iter().flat_map(|seen| &seen.counts.calls);
    all.filter(|((name, _), _)| *name == function)
        .map(|((_, thread), n)| (*thread, *n))
        .collect()
}

fn threads(line: &str) -> Vec<u32> {
    let mut ids: Vec<u32> = line
        .split(' ')
        .map(|id| id.parse().expect("a number"))
        .collect();
    ids.sort_unstable();
    ids
}

#[test]
fn calls_of_each_thread_are_counted_exactly_with_their_return_codes() {
    let mut job = Job::start();
    job.tell("load");
    // Before the probes: these are not seen.
    job.tell("loop 1 100");
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    let ids = during(&mut session, &mut job, |job| {
        job.tell("code 4");
        job.tell("loop 2 20000")
    });
    let summary = session.finish();
    let expected: Vec<(u32, u64)> = threads(&ids).into_iter().map(|id| (id, 20_000)).collect();
    assert_eq!(calls(&summary, "ncclAllReduce"), expected);
    assert_eq!(summary.processes[0].counts.failed[&4], 40_000);
    let ns = summary.ns_per_call.expect("measured");
    assert!(ns > 0.0);

    let capture = read(&job.capture());
    let process = &capture.processes[0];
    assert_eq!(
        (process.calls.len(), process.fact("mode")),
        (40_000, Some("attach"))
    );
    assert_eq!(process.counters.as_ref().map(|c| c.announced), Some(40_000));
    for (id, n) in expected {
        let of = |call: &&tables::Call| process.shapes[call.shape as usize].thread == Some(id);
        let of_thread: Vec<_> = process.calls.iter().filter(of).collect();
        assert_eq!(of_thread.len() as u64, n);
        for call in of_thread {
            assert!(call.return_ns >= call.api_ns, "{call:?}");
            assert_eq!(process.extras[call.extra as usize - 1].error, 4);
        }
    }
}

#[test]
fn of_a_million_calls_none_is_lost_without_being_counted() {
    let mut job = Job::start();
    job.tell("load");
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    during(&mut session, &mut job, |job| job.tell("loop 2 500000"));
    let summary = session.finish();
    let seen = &summary.processes[0];
    assert_eq!(seen.counts.all() + seen.losses.entries, 1_000_000);
    let capture = read(&job.capture());
    let counters = capture.processes[0].counters.as_ref().expect("a live part");
    assert_eq!(counters.announced, 1_000_000);
    assert_eq!(capture.processes[0].calls.len() as u64, seen.counts.all());
}

#[test]
fn what_the_ring_has_no_room_for_is_counted() {
    let mut job = Job::start();
    job.tell("load");
    let options = Options {
        ring_bytes: 64 << 10,
        ..job.options()
    };
    let Some(session) = attached(options) else {
        return;
    };
    // Nobody takes events meanwhile.
    job.tell("loop 1 5000");
    let summary = session.finish();
    let seen = &summary.processes[0];
    assert!(seen.losses.entries > 1000, "{:?}", seen.losses);
    assert_eq!(seen.counts.all() + seen.losses.entries, 5000);
    let capture = read(&job.capture());
    let counters = capture.processes[0].counters.as_ref().expect("a live part");
    assert_eq!(counters.announced, 5000);
    assert_eq!(counters.lost.last(), Some(&seen.losses.entries));
}

#[test]
fn communicators_and_groups_are_as_the_program_made_them() {
    let mut job = Job::start_with("libnccl.so.2.99.1", &[("RANK", "3"), ("WORLD_SIZE", "8")]);
    job.tell("load");
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    during(&mut session, &mut job, |job| {
        for line in ["init 8 3", "loop 1 10", "group 2", "end"] {
            job.tell(line);
        }
    });
    drop(session.finish());
    let capture = read(&job.capture());
    let process = &capture.processes[0];
    assert_eq!(process.rank, Some(3));
    let local = &process.communicators[0];
    assert_eq!((local.nranks, local.rank), (8, Some(3)));
    assert!(local.hash != 0 && local.created_ns.is_some() && local.ended_ns > local.created_ns);
    let shape = |call: &tables::Call| &process.shapes[call.shape as usize];
    let name = |call: &tables::Call| {
        capture
            .names
            .get(shape(call).function)
            .unwrap_or("?")
            .to_owned()
    };
    let reduces: Vec<_> = process
        .calls
        .iter()
        .filter(|call| name(call) == "AllReduce")
        .collect();
    let numbers: Vec<u64> = reduces.iter().map(|call| call.seq).collect();
    assert_eq!(numbers, (1..=10).collect::<Vec<u64>>());
    let grouped: Vec<_> = process
        .calls
        .iter()
        .filter(|call| call.group != 0)
        .collect();
    assert_eq!(grouped.len(), 4);
    assert!(grouped
        .iter()
        .all(|call| call.return_ns == grouped[0].return_ns));
    let peers: Vec<Option<u32>> = grouped.iter().map(|call| shape(call).peer).collect();
    assert_eq!(peers, [Some(0), Some(0), Some(1), Some(1)]);
}

#[test]
fn of_a_communicator_that_was_made_before_rank_and_size_are_read() {
    let mut job = Job::start();
    job.tell("load");
    job.tell("init 8 3");
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    during(&mut session, &mut job, |job| job.tell("loop 1 10"));
    drop(session.finish());
    let capture = read(&job.capture());
    let process = &capture.processes[0];
    let local = &process.communicators[0];
    let known = (local.nranks, local.rank, local.device, local.hash);
    assert_eq!(known, (8, Some(3), Some(5), 0));
    // Its calls began before, so their numbers are not known.
    assert!(process.calls.iter().all(|call| call.seq == 0));
}

/// Bytes of a process's memory.
fn memory(pid: u32, at: u64) -> u8 {
    use std::os::unix::fs::FileExt;
    let mut byte = [0];
    let file = std::fs::File::open(format!("/proc/{pid}/mem")).expect("opened");
    file.read_exact_at(&mut byte, at).expect("read");
    byte[0]
}

/// Waits until something holds. The test of `--all` may have probes in this job, too, for a while.
fn wait_for(holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < until, "it never comes to hold");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Where a function is in a process's memory.
fn address(pid: u32, library: &Path) -> u64 {
    let mut catalog = attach::library::Catalog::default();
    let found = attach::library::find(pid, &mut catalog).expect("mappings");
    let offset = found[0].places[&0].offset;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("mappings");
    let line = maps
        .lines()
        .find(|line| line.ends_with(library.to_str().expect("text")) && line.contains("r-xp"));
    let mut words = line.expect("mapped").split_ascii_whitespace();
    let hex = |text: &str| u64::from_str_radix(text, 16).expect("hex");
    let start = hex(words
        .next()
        .and_then(|r| r.split('-').next())
        .expect("a range"));
    start + offset - hex(words.nth(1).expect("an offset"))
}

#[test]
fn nothing_is_left_in_the_job_s_memory() {
    let mut job = Job::start();
    job.tell("load");
    let library = job.folder.path().join("libnccl.so.2");
    let at = address(job.pid(), &library);
    let before = memory(job.pid(), at);
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    during(&mut session, &mut job, |job| job.tell("loop 1 10"));
    assert_ne!(memory(job.pid(), at), before, "a probe is there");
    drop(session.finish());
    wait_for(|| memory(job.pid(), at) == before);
    assert_eq!(
        job.tell("loop 1 10").split(' ').count(),
        1,
        "the job goes on"
    );
}

#[test]
fn a_library_that_is_loaded_later_and_a_child_join_in() {
    let mut job = Job::start();
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    let child = during(&mut session, &mut job, |job| {
        job.tell("load");
        std::thread::sleep(Duration::from_secs(2));
        job.tell("loop 1 7");
        let child = job.tell("fork");
        job.tell("loop 1 1");
        child
    });
    let summary = session.finish();
    let of = |pid: u32| {
        let seen = summary.processes.iter().find(|seen| seen.pid == pid);
        seen.map(|seen| (seen.counts.all(), seen.ended))
    };
    assert_eq!(of(job.pid()), Some((8, false)));
    assert_eq!(of(child.parse().expect("a pid")), Some((5, true)));
    assert_eq!(read(&job.capture()).processes.len(), 2);
}

#[test]
fn with_all_a_process_that_starts_later_is_seen_from_its_first_call() {
    if !attach::processes::sees_all() {
        return eprintln!("skipped: a container has process numbers of its own");
    }
    let mut first = Job::start();
    first.tell("load");
    let options = Options {
        targets: Targets::All,
        ..first.options()
    };
    let Some(mut session) = attached(options) else {
        return;
    };
    let library = first.folder.path().join("libnccl.so.2");
    let second = during(&mut session, &mut first, |_| {
        let mut command = Command::new(examples().join("fake_job"));
        let command = command
            .arg(&library)
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let mut child = command.spawn().expect("started");
        child
            .stdin
            .take()
            .expect("piped")
            .write_all(b"load\nloop 2 50\n")
            .expect("told");
        child.wait().expect("ended");
        child.id()
    });
    let summary = session.finish();
    let seen = summary.processes.iter().find(|seen| seen.pid == second);
    // Its facts may be gone before they are read, but no call is.
    let counted = seen.map_or(0, |seen| seen.counts.all()) * 2 + summary.unseen;
    assert_eq!(counted, 200, "{summary:?}");
}

#[test]
fn a_call_that_does_not_return_is_seen_while_the_session_runs() {
    let mut job = Job::start();
    job.tell("load");
    job.tell("init 2 0");
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    during(&mut session, &mut job, |job| job.tell("hang"));
    let until = Instant::now() + Duration::from_millis(300);
    session.run(|_| Instant::now() > until);
    let capture = read(&job.capture());
    let open: Vec<_> = capture.processes[0]
        .calls
        .iter()
        .filter(|call| call.return_ns == 0)
        .collect();
    assert_eq!((open.len(), open[0].sealed), (1, false));
    assert_eq!(session.finish().processes[0].open, 1);
}

#[test]
fn perf_events_see_the_same_calls() {
    let mut job = Job::start();
    job.tell("load");
    let options = Options {
        way: Some(attach::Way::Perf),
        ..job.options()
    };
    let Some(mut session) = attached(options) else {
        return;
    };
    let ids = during(&mut session, &mut job, |job| job.tell("loop 2 300"));
    let summary = session.finish();
    let expected: Vec<(u32, u64)> = threads(&ids).into_iter().map(|id| (id, 300)).collect();
    assert_eq!(calls(&summary, "ncclAllReduce"), expected);
}

/// Not a test: [`a_session_that_is_killed_leaves_no_probe_and_a_whole_capture`] runs it in a process of its
/// own, and kills that.
#[test]
fn killed_session() {
    let Ok(pid) = std::env::var("ATTACH_TO") else {
        return;
    };
    let options = Options {
        targets: Targets::Trees(vec![pid.parse().expect("a pid")]),
        folder: std::env::var("ATTACH_FOLDER").expect("a folder").into(),
        ring_bytes: 1 << 20,
        slow: false,
        way: None,
    };
    let Some(mut session) = attached(options) else {
        return;
    };
    println!("\nattached");
    session.run(|_| false);
}

#[test]
fn a_session_that_is_killed_leaves_no_probe_and_a_whole_capture() {
    let mut job = Job::start();
    job.tell("load");
    let at = address(job.pid(), &job.folder.path().join("libnccl.so.2"));
    let before = memory(job.pid(), at);
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args(["--exact", "killed_session", "--nocapture"]);
    command
        .env("ATTACH_TO", job.pid().to_string())
        .env("ATTACH_FOLDER", job.capture());
    let mut session = command.stdout(Stdio::piped()).spawn().expect("started");
    let lines = BufReader::new(session.stdout.take().expect("piped")).lines();
    let mut lines = lines.map_while(Result::ok);
    if !lines.any(|line| line == "attached") {
        session.wait().expect("ended");
        return eprintln!("skipped: no probes here, see killed_session");
    }
    job.tell("loop 1 100");
    job.tell("hang");
    assert_ne!(memory(job.pid(), at), before, "a probe is there");
    std::thread::sleep(Duration::from_millis(500));
    session.kill().expect("killed");
    session.wait().expect("ended");
    // The kernel takes links away a moment after the process.
    wait_for(|| memory(job.pid(), at) == before);
    let capture = read(&job.capture());
    let process = &capture.processes[0];
    let open = process
        .calls
        .iter()
        .filter(|call| call.return_ns == 0)
        .count();
    assert_eq!((process.calls.len(), open), (101, 1));
}
