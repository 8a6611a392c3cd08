//! Attaches to a program that already runs and calls a libnccl.so.2 which does nothing. Skipped with the
//! reason if this machine allows no probes.

#![cfg(target_arch = "x86_64")]

use attach::{Options, Session, Summary, Targets};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tables::{Capture, ReadProgress, Source};

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
            ring_bytes: 16 << 20,
            ..Options::new(Targets::Trees(vec![self.pid()]), self.capture())
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
    let source = Source::open(folder, &ReadProgress::default()).expect("a capture");
    source.load(&ReadProgress::default())
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
fn of_a_million_calls_none_is_lost_if_the_ring_has_room_for_all() {
    let mut job = Job::start();
    job.tell("load");
    // Entry and return are 144 bytes. So the test does not depend on how busy the machine is.
    let options = Options {
        ring_bytes: 256 << 20,
        ..job.options()
    };
    let Some(mut session) = attached(options) else {
        return;
    };
    let ids = during(&mut session, &mut job, |job| job.tell("loop 2 500000"));
    let summary = session.finish();
    let expected: Vec<(u32, u64)> = threads(&ids).into_iter().map(|id| (id, 500_000)).collect();
    assert_eq!(calls(&summary, "ncclAllReduce"), expected);
    let seen = &summary.processes[0];
    assert_eq!((seen.losses.entries, seen.losses.returns), (0, 0));
    let capture = read(&job.capture());
    assert_eq!(capture.processes[0].calls.len(), 1_000_000);
    assert!(capture.processes[0]
        .calls
        .iter()
        .all(|call| call.return_ns > 0));
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

/// A session that uses no BPF.
fn without_bpf(options: Options) -> Option<Session> {
    attached(Options {
        way: Some(attach::Way::Samples),
        ..options
    })
}

#[test]
fn without_bpf_calls_of_each_thread_are_counted_exactly_with_their_return_codes() {
    let mut job = Job::start();
    job.tell("load");
    let Some(mut session) = without_bpf(job.options()) else {
        return;
    };
    assert!(session.ns_per_call() > Some(0.0));
    let ids = during(&mut session, &mut job, |job| {
        job.tell("code 4");
        job.tell("loop 2 20000")
    });
    let summary = session.finish();
    let expected: Vec<(u32, u64)> = threads(&ids).into_iter().map(|id| (id, 20_000)).collect();
    assert_eq!(calls(&summary, "ncclAllReduce"), expected);
    assert_eq!(summary.processes[0].counts.failed[&4], 40_000);
    let counts = &summary.processes[0].counts;
    assert_eq!((counts.unreturned, counts.begun_before), (0, 0));
    let capture = read(&job.capture());
    let process = &capture.processes[0];
    assert_eq!(process.calls.len(), 40_000);
    for call in &process.calls {
        let shape = &process.shapes[call.shape as usize];
        assert_eq!(shape.count, 1024);
        assert!(call.return_ns >= call.api_ns, "{call:?}");
        assert_eq!(process.extras[call.extra as usize - 1].error, 4);
    }
}

/// The communicators and calls of a job, as one way to set probes has them.
fn as_seen(way: Option<attach::Way>) -> Option<Vec<String>> {
    let mut job = Job::start();
    job.tell("load");
    let mut session = attached(Options {
        way,
        ..job.options()
    })?;
    during(&mut session, &mut job, |job| {
        for line in ["init 8 3", "loop 1 10", "group 2", "end"] {
            job.tell(line);
        }
    });
    drop(session.finish());
    let capture = read(&job.capture());
    let process = &capture.processes[0];
    let communicators = process.communicators.iter().map(|c| {
        let lives = (c.created_ns.is_some(), c.ended_ns > c.created_ns);
        format!("{} {:?} {:x} {lives:?}", c.nranks, c.rank, c.hash)
    });
    let calls = process.calls.iter().map(|call| {
        let shape = &process.shapes[call.shape as usize];
        let function = capture.names.get(shape.function).unwrap_or("?");
        let grouped = call.group != 0;
        format!(
            "{function} {} {:?} {} {grouped}",
            shape.count, shape.peer, call.seq
        )
    });
    Some(communicators.chain(calls).collect())
}

#[test]
fn without_bpf_communicators_numbers_and_groups_are_the_same() {
    let (Some(with), Some(without)) = (as_seen(None), as_seen(Some(attach::Way::Samples))) else {
        return;
    };
    assert_eq!(with.len(), 1 + 10 + 4);
    assert_eq!(with, without);
}

#[test]
fn without_bpf_a_communicator_is_known_only_if_its_address_can_be_proved() {
    let mut job = Job::start();
    job.tell("load");
    let Some(mut session) = without_bpf(job.options()) else {
        return;
    };
    // The first two are overwritten by the next at once. Whatever is read in their place has another rank.
    during(&mut session, &mut job, |job| job.tell("heap 3"));
    drop(session.finish());
    let capture = read(&job.capture());
    let process = &capture.processes[0];
    assert_eq!(process.calls.len(), 3);
    for call in &process.calls {
        let shape = &process.shapes[call.shape as usize];
        let mut all = process.communicators.iter();
        let local = all.find(|c| c.uid == shape.uid).expect("known");
        // Each call is the first of its communicator. It has that number only if the init is known to be its.
        let is_known = local.hash != 0;
        assert_eq!((local.nranks, call.seq), (3, u64::from(is_known)));
    }
    let ranks: Vec<_> = process.communicators.iter().map(|c| c.rank).collect();
    assert_eq!(ranks.len(), 3, "{ranks:?}");
    for rank in 0..3 {
        assert!(ranks.contains(&Some(rank)), "{ranks:?}");
    }
}

#[test]
fn without_bpf_a_process_that_is_not_asked_for_is_left_out_and_a_child_joins_in() {
    let (mut one, mut two) = (Job::start(), Job::start());
    let library = one.folder.path().join("libnccl.so.2");
    one.tell("load");
    two.tell("load");
    two.tell(&format!("also {}", library.display()));
    let Some(mut session) = without_bpf(one.options()) else {
        return;
    };
    let child = during(&mut session, &mut one, |one| {
        two.tell("loop 2 500");
        one.tell("loop 1 20");
        let child = one.tell("fork");
        // It waits for the child first.
        one.tell("loop 1 1");
        child
    });
    let summary = session.finish();
    let mut made: Vec<_> = summary
        .processes
        .iter()
        .map(|p| (p.pid, p.counts.all()))
        .collect();
    made.sort_unstable();
    let mut expected = [(one.pid(), 21), (child.parse().expect("a pid"), 5)];
    expected.sort_unstable();
    assert_eq!(made, expected);
    assert_eq!(read(&one.capture()).processes.len(), 2);
}

#[test]
fn a_job_that_dies_in_the_middle_of_its_calls_ends_the_session() {
    for way in [None, Some(attach::Way::Samples)] {
        let mut job = Job::start();
        job.tell("load");
        let options = Options {
            way,
            ..job.options()
        };
        let Some(mut session) = attached(options) else {
            return;
        };
        job.send("loop 2 100000000");
        let (pid, begin) = (job.pid(), Instant::now());
        session.run(|_| {
            if begin.elapsed() > Duration::from_millis(300) {
                // SAFETY: a process of this test.
                unsafe { libc::kill(pid as i32, libc::SIGKILL) };
                let _ = job.child.try_wait();
            }
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "it goes on for ever"
            );
            false
        });
        let summary = session.finish();
        let seen = &summary.processes[0];
        assert!(
            seen.ended && seen.counts.all() > 0 && seen.open <= 2,
            "{seen:?}"
        );
        let capture = read(&job.capture());
        let process = &capture.processes[0];
        assert!(process.ended);
        assert_eq!(process.calls.len() as u64, seen.counts.all());
    }
}

#[test]
fn without_bpf_what_the_rings_have_no_room_for_is_counted() {
    let mut job = Job::start();
    job.tell("load");
    let options = Options {
        ring_bytes: 64 << 10,
        ..job.options()
    };
    let Some(session) = without_bpf(options) else {
        return;
    };
    // Nobody takes events meanwhile.
    job.tell("loop 1 5000");
    let summary = session.finish();
    let seen = &summary.processes[0];
    assert!(seen.losses.entries > 1000, "{:?}", seen.losses);
    assert!(seen.losses.returns > 1000, "{:?}", seen.losses);
    assert!(!summary.shared_losses);
    assert_eq!(seen.counts.all() + seen.losses.entries, 5000);
    let capture = read(&job.capture());
    let counters = capture.processes[0].counters.as_ref().expect("a live part");
    assert_eq!(counters.announced, 5000);
}

#[test]
fn without_bpf_a_loss_that_may_be_of_either_process_is_counted_once() {
    let (mut one, mut two) = (Job::start(), Job::start());
    let library = one.folder.path().join("libnccl.so.2");
    one.tell("load");
    two.tell("load");
    two.tell(&format!("also {}", library.display()));
    let options = Options {
        ring_bytes: 64 << 10,
        targets: Targets::Trees(vec![one.pid(), two.pid()]),
        ..one.options()
    };
    let Some(session) = without_bpf(options) else {
        return;
    };
    one.tell("loop 1 10");
    two.tell("loop 1 6000");
    one.tell("loop 1 5000");
    let summary = session.finish();
    let sum = |of: fn(&attach::Seen) -> u64| summary.processes.iter().map(of).sum::<u64>();
    assert!(summary.shared_losses);
    assert_eq!(sum(|p| p.counts.all()) + sum(|p| p.losses.entries), 11_010);
}

#[test]
fn without_bpf_of_a_million_calls_none_is_lost_without_being_counted() {
    let mut job = Job::start();
    job.tell("load");
    let Some(mut session) = without_bpf(job.options()) else {
        return;
    };
    during(&mut session, &mut job, |job| job.tell("loop 2 500000"));
    let summary = session.finish();
    let seen = &summary.processes[0];
    assert_eq!(seen.counts.all() + seen.losses.entries, 1_000_000);
    let capture = read(&job.capture());
    assert_eq!(capture.processes[0].calls.len() as u64, seen.counts.all());
}

/// Not a test: [`a_session_that_is_killed_leaves_no_probe_and_a_whole_capture`] runs it in a process of its
/// own, and kills that.
#[test]
fn killed_session() {
    let Ok(pid) = std::env::var("ATTACH_TO") else {
        return;
    };
    let folder = std::env::var("ATTACH_FOLDER").expect("a folder");
    let targets = Targets::Trees(vec![pid.parse().expect("a pid")]);
    let without_bpf = std::env::var_os("ATTACH_WITHOUT_BPF").is_some();
    let options = Options {
        ring_bytes: 1 << 20,
        sched: !without_bpf,
        net: true,
        init: true,
        way: without_bpf.then_some(attach::Way::Samples),
        ..Options::new(targets, folder.into())
    };
    let Some(mut session) = attached(options) else {
        return;
    };
    println!("\nattached");
    session.run(|_| false);
}

#[test]
fn a_session_that_is_killed_leaves_no_probe_and_a_whole_capture() {
    killed(false);
}

#[test]
fn a_session_without_bpf_that_is_killed_leaves_no_name_either() {
    killed(true);
    let Some(probes) = Tracefs::mount() else {
        return eprintln!("skipped: no tracefs");
    };
    // Others of these tests have names of their own, by the number of their process.
    let ours = |line: &&str| line.contains("ncclscope_");
    let alive = |line: &&str| {
        let pid = line
            .split("ncclscope_")
            .nth(1)
            .and_then(|rest| rest.split('_').next());
        pid.is_some_and(|pid| Path::new("/proc").join(pid).exists())
    };
    wait_for(|| {
        let all = std::fs::read_to_string(probes.0.path().join("uprobe_events")).expect("read");
        all.lines().filter(ours).all(|line| alive(&line))
    });
}

/// The kernel's tracefs, mounted for a test.
struct Tracefs(tempfile::TempDir);

impl Tracefs {
    fn mount() -> Option<Tracefs> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", "tracefs", "none"]).arg(folder.path());
        let status = mount.stderr(Stdio::null()).status().ok()?;
        status.success().then_some(Tracefs(folder))
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

fn killed(without_bpf: bool) {
    let mut job = Job::start();
    job.tell("load");
    let at = address(job.pid(), &job.folder.path().join("libnccl.so.2"));
    let before = memory(job.pid(), at);
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args(["--exact", "killed_session", "--nocapture"]);
    command
        .env("ATTACH_TO", job.pid().to_string())
        .env("ATTACH_FOLDER", job.capture());
    if without_bpf {
        command.env("ATTACH_WITHOUT_BPF", "1");
    }
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

#[test]
fn what_a_thread_did_in_a_long_call_is_known() {
    let mut job = Job::start();
    job.tell("load");
    let options = Options {
        sched: true,
        ..job.options()
    };
    let Some(mut session) = attached(options) else {
        return;
    };
    let threads = during(&mut session, &mut job, |job| {
        let asleep = job.tell("long 78 0");
        let softirq = job.tell("long 80 0");
        job.tell("hog 0");
        let queued = job.tell("long 79 0");
        job.send("hang");
        job.answer();
        [asleep, softirq, queued]
    });
    let summary = session.finish();
    let seen = &summary.processes[0];
    let [asleep, softirq, queued] = threads.map(|line| {
        let thread: u32 = line.parse().expect("a thread");
        let sum = seen.sums[&("ncclAllReduce", thread)];
        assert_eq!(sum.calls, 1);
        assert!(sum.longest >= 29_000_000, "{sum:?}");
        (thread, sum.parts)
    });
    let most = |part: u64, of: u64| part * 2 > of;
    assert!(asleep.1.asleep >= 29_000_000, "{asleep:?}");
    assert!(softirq.1.softirq > 0, "{softirq:?}");
    // Half of its CPU belongs to the other thread. Both are of one process, so no group changes that.
    assert!(queued.1.queued * 5 > queued.1.took, "{queued:?}");
    // The call that hangs is asleep.
    let open = seen.longest.iter().find(|long| long.open).expect("open");
    assert!(most(open.parts.asleep, open.parts.took), "{open:?}");

    // The same is in the capture, as the node sampler would have written it.
    let capture = read(&job.capture());
    let process = &capture.processes[0];
    let node = &capture.nodes[0];
    let of = |thread: u32| {
        let is_it = |s: &&tables::nodes::Switches| s.thread() == Some((process.pid, thread));
        node.switches.iter().find(is_it).expect("watched")
    };
    let offset = |call: &tables::Call| {
        let shape = &process.shapes[call.shape as usize];
        (shape.thread, call.api_ns, call.return_ns)
    };
    for (thread, parts) in [asleep, queued] {
        let call = process.calls.iter().map(offset);
        let mut call = call.filter(|(of, ..)| *of == Some(thread));
        let (_, from, to) = call.next().expect("recorded");
        let switches = of(thread);
        assert!(switches.covers(from, to), "{switches:?} {from} {to}");
        let off: i64 = switches.off_between(from, to).iter().sum();
        let expected = (parts.asleep + parts.queued) as i64;
        // The two clocks are read one after the other.
        assert!((off - expected).abs() < 1_000_000, "{off} {expected}");
    }
}

/// A job that another program starts, such as one that makes it a container.
fn start_within(command: &mut Command, library: &str) -> Job {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = command
        .env("FOLDER", folder.path())
        .env("LIBRARY", library)
        .env("EXAMPLES", examples())
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

/// A job in name spaces of its own, as in a container: process numbers, network, and a file system in which
/// only it sees its NCCL. `None` if this machine does not allow that.
fn contained() -> Option<Job> {
    const INSIDE: &str = "mount -t tmpfs none $FOLDER && cp $EXAMPLES/libfake_nccl.so $LIBRARY && \
                          ip link set lo up && exec $EXAMPLES/fake_job $LIBRARY";
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--net", "--mount", "--fork", "--mount-proc"]);
    unshare.args(["--kill-child", "sh", "-c"]);
    let probe = Command::new("unshare")
        .args(["--pid", "--net", "--mount", "--fork", "--mount-proc"])
        .args(["sh", "-c", "ip link set lo up"])
        .stderr(Stdio::null())
        .status();
    if !probe.is_ok_and(|status| status.success()) {
        eprintln!("skipped: this machine gives no name spaces to a test");
        return None;
    }
    let inside = INSIDE.replace("$LIBRARY", "$FOLDER/libnccl.so.2");
    let mut job = start_within(unshare.arg(inside), "");
    assert_eq!(job.tell("pid"), "1", "it has process numbers of its own");
    Some(job)
}

#[test]
fn a_job_in_a_container_is_recorded_from_the_machine() {
    let Some(mut job) = contained() else { return };
    job.tell("load");
    let options = Options {
        sched: true,
        net: true,
        ..job.options()
    };
    let capture = tempfile::tempdir().expect("a folder");
    let options = Options {
        folder: capture.path().to_owned(),
        ..options
    };
    let Some(mut session) = attached(options) else {
        return;
    };
    let path = job.folder.path().join("libnccl.so.2");
    assert!(!path.exists(), "only the job sees its library");
    during(&mut session, &mut job, |job| {
        job.tell("loop 2 1000");
        let port = job.tell("pid");
        assert_eq!(port, "1");
    });
    let summary = session.finish();
    // The shell that starts the program may have been seen before the program took its place.
    let made = summary.processes.iter().map(|p| p.counts.all());
    let made: Vec<u64> = made.filter(|calls| *calls > 0).collect();
    assert_eq!(made, [2000]);
    assert_eq!(summary.libraries[0].path, path.to_str().expect("text"));
    let capture = read(capture.path());
    assert_eq!((capture.processes[0].pid, capture.processes.len()), (1, 1));
}

/// Not a test: [`attach_works_inside_a_container_of_its_own`] runs it in a process name space, with a way to
/// set probes.
#[test]
fn session_in_a_container() {
    let Ok(folder) = std::env::var("ATTACH_INSIDE") else {
        return;
    };
    assert!(!attach::processes::sees_all());
    let without_bpf = std::env::var_os("ATTACH_WITHOUT_BPF").is_some();
    let mut job = Job::start();
    job.tell("load");
    let options = Options {
        ring_bytes: 64 << 10,
        sched: !without_bpf,
        net: true,
        way: without_bpf.then_some(attach::Way::Samples),
        ..Options::new(Targets::All, folder.into())
    };
    let mut session = match Session::start(options) {
        Ok(session) => session,
        Err(refusal) => return println!("\nskipped: {refusal}"),
    };
    let tenth = Duration::from_millis(100);
    session.run({
        let until = Instant::now() + tenth;
        move |_| Instant::now() > until
    });
    // Nobody takes events meanwhile: losses must find their process, too.
    job.tell("loop 1 5000");
    let summary = session.finish();
    let seen = &summary.processes[0];
    assert_eq!(seen.pid, job.pid());
    assert!(seen.losses.entries > 0);
    assert_eq!(seen.counts.all() + seen.losses.entries, 5000);
    println!("\nrecorded inside");
}

#[test]
fn attach_works_inside_a_container_of_its_own() {
    inside_a_container(false);
}

#[test]
fn without_bpf_attach_works_inside_a_container_of_its_own() {
    inside_a_container(true);
}

fn inside_a_container(without_bpf: bool) {
    if contained().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut unshare = Command::new("unshare");
    if without_bpf {
        unshare.env("ATTACH_WITHOUT_BPF", "1");
    }
    let output = unshare
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(std::env::current_exe().expect("a path"))
        .args(["--exact", "session_in_a_container", "--nocapture"])
        .env("ATTACH_INSIDE", folder.path())
        .output()
        .expect("ran");
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(line) = text.lines().find(|line| line.starts_with("skipped")) {
        return eprintln!("{line}");
    }
    assert!(text.contains("recorded inside"), "{text}");
    assert_eq!(read(folder.path()).processes.len(), 1);
}

#[test]
fn each_of_several_copies_of_the_library_is_recorded() {
    let mut job = Job::start();
    // A copy that has another name: what counts is what a library exports.
    let other = job.folder.path().join("libinference-engine.so");
    std::fs::copy(examples().join("libfake_nccl.so"), &other).expect("copied");
    job.tell("load");
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    during(&mut session, &mut job, |job| {
        job.tell("loop 1 100");
        job.tell(&format!("also {}", other.display()));
        std::thread::sleep(Duration::from_secs(3));
        job.tell("loop 1 50");
    });
    let summary = session.finish();
    assert_eq!(summary.processes[0].counts.all(), 150);
    let libraries = &summary.libraries;
    let paths: Vec<&str> = libraries.iter().map(|l| l.path.as_str()).collect();
    assert_eq!(paths.len(), 2);
    assert_eq!(paths[1], other.to_str().expect("text"));
    // Both are one build.
    assert_eq!(libraries[0].build_id, libraries[1].build_id);
    assert!(libraries[0].build_id.len() >= 16, "{libraries:?}");
    let capture = read(&job.capture());
    let build = capture.processes[0].fact("nccl_build_id");
    assert_eq!(build, Some(libraries[0].build_id.as_str()));
}

#[test]
fn a_program_that_links_nccl_statically_is_recorded() {
    let mut command = Command::new(examples().join("fake_static"));
    let mut job = start_within(&mut command, "");
    job.tell("loop 10");
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    during(&mut session, &mut job, |job| job.tell("loop 1234"));
    let summary = session.finish();
    assert_eq!(summary.processes[0].counts.all(), 1234);
    let path = examples().join("fake_static");
    assert_eq!(summary.libraries[0].path, path.to_str().expect("text"));
}

/// A copy of the program that links NCCL statically, as `strip` and the like leave it.
fn stripped(folder: &Path, tool: &str, arguments: &[&str]) -> Option<PathBuf> {
    let to = folder.join("program");
    std::fs::copy(examples().join("fake_static"), &to).expect("copied");
    let status = Command::new(tool).args(arguments).arg(&to).status();
    if !status.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no {tool}");
        return None;
    }
    Some(to)
}

#[test]
fn a_stripped_program_says_what_it_needs_and_is_recorded_with_its_symbols() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = examples().join("fake_static");
    for id in [true, false] {
        let more: &[&str] = if id {
            &[]
        } else {
            &["-R", ".note.gnu.build-id"]
        };
        let arguments = [&["-s"], more].concat();
        let Some(program) = stripped(folder.path(), "strip", &arguments) else {
            return;
        };
        // Another build has other code; the program itself has no symbols; the third is the right one.
        let wrong = examples().join("fake_job");
        for (symbols, works) in [
            (vec![], false),
            (vec![wrong.clone(), program.clone()], false),
            (vec![wrong, whole.clone()], true),
        ] {
            let mut job = start_within(&mut Command::new(&program), "");
            job.tell("loop 1");
            let options = Options {
                symbols,
                ..job.options()
            };
            let Some(mut session) = attached(options.clone()) else {
                return;
            };
            during(&mut session, &mut job, |job| job.tell("loop 1234"));
            let troubles = session.troubles().concat();
            let summary = session.finish();
            let made: u64 = summary.processes.iter().map(|p| p.counts.all()).sum();
            assert_eq!(made, if works { 1234 } else { 0 }, "{troubles}");
            assert_eq!(
                troubles.contains("NCCL 2.99.1 built in"),
                !works,
                "{troubles}"
            );
            assert_eq!(troubles.contains("--symbols"), !works, "{troubles}");
            let others = if options.symbols.len() == 2 && !works {
                1
            } else {
                0
            };
            assert_eq!(
                troubles.matches("another build").count(),
                others,
                "{troubles}"
            );
        }
    }
}

#[test]
fn a_debug_file_is_found_by_build_id_also_where_only_the_process_sees_it() {
    const FOLDER: &str = "/usr/lib/debug";
    if !Path::new(FOLDER).is_dir() {
        return eprintln!("skipped: no {FOLDER}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = stripped(folder.path(), "strip", &["-s"]) else {
        return;
    };
    let whole = examples().join("fake_static");
    let mut job = start_within(&mut Command::new(&whole), "");
    job.tell("loop 1");
    let Some(session) = attached(job.options()) else {
        return;
    };
    let id = session.finish().libraries[0].build_id.clone();
    let (first, rest) = id.split_at(2);
    let script = format!(
        "mount -t tmpfs none {FOLDER} && mkdir -p {FOLDER}/.build-id/{first} && objcopy --only-keep-debug \
         {} {FOLDER}/.build-id/{first}/{rest}.debug && exec {}",
        whole.display(),
        program.display(),
    );
    let mut unshare = Command::new("unshare");
    let mut job = start_within(unshare.args(["--mount", "sh", "-c", &script]), "");
    if writeln!(job.input, "loop 1").is_err() || job.answer() != "done" {
        return eprintln!("skipped: this machine gives no name spaces to a test");
    }
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    during(&mut session, &mut job, |job| job.tell("loop 77"));
    assert_eq!(session.finish().processes[0].counts.all(), 77);
}

#[test]
fn a_library_that_was_removed_since_is_found() {
    let mut job = Job::start();
    job.tell("load");
    std::fs::remove_file(job.folder.path().join("libnccl.so.2")).expect("removed");
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    during(&mut session, &mut job, |job| job.tell("loop 1 77"));
    assert_eq!(session.finish().processes[0].counts.all(), 77);
}

#[test]
fn a_full_disk_ends_neither_the_session_nor_the_job() {
    // Room for nothing, and for a live part but not for the trace file of so many calls.
    for (size, any) in [("100k", false), ("6m", true)] {
        let disk = tempfile::tempdir().expect("a folder");
        let size = format!("size={size}");
        let mut mount = Command::new("mount");
        let mount = mount
            .args(["-t", "tmpfs", "-o", &size, "none"])
            .arg(disk.path());
        if !mount.status().is_ok_and(|status| status.success()) {
            return eprintln!("skipped: this user may mount nothing");
        }
        let filler = disk.path().join("filler");
        let mut job = Job::start();
        job.tell("load");
        let options = Options {
            folder: disk.path().to_owned(),
            ..job.options()
        };
        let session = attached(options);
        if let Some(mut session) = session {
            during(&mut session, &mut job, |job| {
                job.tell("loop 1 10");
                std::thread::sleep(Duration::from_millis(300));
                let _ = std::fs::write(&filler, vec![0; 8 << 20]);
                job.tell("loop 1 40000")
            });
            let summary = session.finish();
            assert!(summary.write_error.is_some());
            let seen = &summary.processes[0];
            assert_eq!((seen.counts.all() > 0, seen.trace.is_some()), (any, any));
            if any {
                let capture = read(disk.path());
                let process = &capture.processes[0];
                let counters = process.counters.as_ref().expect("a live part");
                assert_eq!(counters.announced, 40_010);
                let lost = counters.lost.last().copied().expect("a count");
                assert_eq!(process.calls.len() as u64 + lost, 40_010);
                assert!(process.calls.len() >= 16_000);
            }
        }
        let _ = Command::new("umount").arg(disk.path()).status();
        assert_eq!(
            job.tell("loop 1 10").split(' ').count(),
            1,
            "the job goes on"
        );
    }
}

#[test]
fn a_process_that_makes_no_call_leaves_no_folder() {
    let mut job = Job::start();
    job.tell("load");
    let Some(session) = attached(job.options()) else {
        return;
    };
    drop(session.finish());
    assert!(!job.capture().exists());
}

#[test]
fn a_program_that_takes_the_place_of_another_is_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = folder.path().join("libnccl.so.2");
    std::fs::copy(examples().join("libfake_nccl.so"), &library).expect("copied");
    let mut shell = Command::new("sh");
    let program = examples().join("fake_job");
    let words = format!(
        "read x; echo $$; exec {} {}",
        program.display(),
        library.display()
    );
    let mut job = start_within(shell.args(["-c", &words]), "");
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    during(&mut session, &mut job, |job| {
        job.tell("go");
        job.tell("load");
        // A young process is looked at again after 0.2 s, then 0.4 s and so on.
        std::thread::sleep(Duration::from_secs(3));
        job.tell("loop 1 30");
    });
    let summary = session.finish();
    let seen = &summary.processes[0];
    assert_eq!(
        (seen.pid, seen.counts.all(), seen.ended),
        (job.pid(), 30, false)
    );
}

#[test]
fn a_process_that_makes_no_call_is_no_part_of_the_capture() {
    let mut agent = Job::start();
    agent.tell("load");
    let mut rank = Job::start();
    rank.tell("load");
    let options = Options {
        targets: Targets::Trees(vec![agent.pid(), rank.pid()]),
        ..rank.options()
    };
    let Some(mut session) = attached(options) else {
        return;
    };
    during(&mut session, &mut rank, |rank| rank.tell("loop 1 3"));
    let summary = session.finish();
    assert_eq!(summary.processes.len(), 2);
    let traces = summary.processes.iter().filter(|seen| seen.trace.is_some());
    assert_eq!(
        traces.map(|seen| seen.pid).collect::<Vec<_>>(),
        [rank.pid()]
    );
    assert_eq!(read(&rank.capture()).processes.len(), 1);
}

#[test]
fn steps_inside_an_init_are_recorded_on_request() {
    for init in [true, false] {
        let mut job = Job::start();
        job.tell("load");
        let options = Options {
            init,
            ..job.options()
        };
        let Some(mut session) = attached(options) else {
            return;
        };
        during(&mut session, &mut job, |job| {
            job.tell("init 8 3");
            job.tell("init 8 3");
        });
        let summary = session.finish();
        assert_eq!(summary.libraries[0].inner, 3);
        let inits = &summary.processes[0].inits;
        if !init {
            assert!(inits.is_empty());
            continue;
        }
        assert_eq!(inits.len(), 2);
        for steps in inits {
            let of = |step: &attach::inner::Step| (step.function, step.calls, step.depth);
            let expected = [
                ("bootstrapInit", 1, 0),
                ("bootstrapAllGather", 3, 1),
                ("ncclTopoCompute", 1, 0),
            ];
            assert_eq!(steps.iter().map(of).collect::<Vec<_>>(), expected);
            assert!(steps[0].took_ns >= 6_000_000 && steps[0].inner_ns >= 6_000_000);
            assert!(steps[2].began_ns >= 6_000_000);
        }
        let capture = read(&job.capture());
        assert_eq!(capture.processes[0].calls.len(), 0);
    }
}

#[test]
fn connections_have_their_bytes_and_the_process_at_the_other_end() {
    let (mut one, mut two) = (Job::start(), Job::start());
    one.tell("load");
    two.tell("load");
    let port = one.tell("listen");
    two.tell(&format!("connect {port}"));
    let carry = |one: &mut Job, two: &mut Job, bytes: usize| {
        two.send(&format!("send {bytes}"));
        one.tell(&format!("receive {bytes}"));
        two.answer();
    };
    // Before: not counted.
    carry(&mut one, &mut two, 10_000);
    let options = Options {
        targets: Targets::Trees(vec![one.pid(), two.pid()]),
        net: true,
        ..one.options()
    };
    let Some(mut session) = attached(options) else {
        return;
    };
    during(&mut session, &mut one, |one| {
        for _ in 0..3 {
            carry(one, &mut two, 3_000_000);
            two.tell("loop 1 10");
            one.tell("loop 1 10");
            std::thread::sleep(Duration::from_millis(400));
        }
    });
    let summary = session.finish();
    let pid = |index: usize| {
        let seen = summary.processes.iter().find(|seen| seen.index == index);
        seen.expect("seen").pid
    };
    let connections = summary.connections.as_ref().expect("asked for");
    assert_eq!(connections.len(), 2, "{connections:?}");
    for connection in connections {
        let (since, peer) = (connection.since(), connection.peer.map(pid));
        match pid(connection.process) {
            of if of == two.pid() => {
                assert_eq!((since.sent, since.received), (9_000_000, 0));
                assert_eq!(peer, Some(one.pid()));
                assert!(connection.calls > 0 && connection.calls <= 30);
                assert!(connection.mean_rtt() > 0);
            }
            of => {
                assert_eq!(of, one.pid());
                assert_eq!((since.sent, since.received), (0, 9_000_000));
                assert_eq!(peer, Some(two.pid()));
            }
        }
    }
    let capture = read(&one.capture());
    let sent: Vec<_> = capture.nodes[0].named("tcp_sent_bytes").collect();
    let points = |series: &&tables::nodes::Series| {
        let (first, last) = (series.points.first(), series.points.last());
        Some(last?.1 - first?.1)
    };
    let of = |series: &&&tables::nodes::Series| series.of.starts_with(&format!("{}/", two.pid()));
    let series = sent.iter().find(of).expect("a series");
    assert!(points(series).is_some_and(|bytes| bytes > 0 && bytes <= 9_000_000));
}

#[test]
fn what_was_sent_again_is_counted_also_in_a_network_of_its_own() {
    let Some(mut job) = contained() else { return };
    let capture = tempfile::tempdir().expect("a folder");
    let target = job_pid(&job).to_string();
    let inside = |command: &[&str]| {
        let mut all = Command::new("nsenter");
        all.args(["-t", &target, "--net"]).args(command);
        all
    };
    let mut other = {
        let library = format!("{}/libfake_nccl.so", examples().display());
        let program = examples().join("fake_job");
        let mut command = inside(&[program.to_str().expect("text"), &library]);
        start_within(&mut command, "")
    };
    job.tell("load");
    other.tell("load");
    let port = job.tell("listen");
    other.tell(&format!("connect {port}"));
    let options = Options {
        targets: Targets::Trees(vec![job.pid(), other.pid()]),
        net: true,
        ..Options::new(Targets::All, capture.path().to_owned())
    };
    let Some(mut session) = attached(options) else {
        return;
    };
    let link = |state: &str| {
        let status = inside(&["ip", "link", "set", "lo", state]).status();
        assert!(status.expect("ip").success());
    };
    link("down");
    other.send("send 100000");
    let until = Instant::now() + Duration::from_millis(600);
    session.run(|_| Instant::now() > until);
    link("up");
    job.tell("receive 100000");
    other.answer();
    let summary = session.finish();
    let connections = summary.connections.expect("asked for");
    let sender = connections
        .iter()
        .find(|c| c.since().sent > 0)
        .expect("sent");
    let since = sender.since();
    assert_eq!(since.sent, 100_000);
    assert!(
        since.retransmits > 0 && since.retransmitted > 0,
        "{since:?}"
    );
    assert!(sender.most_send_queue > 0, "{sender:?}");
    assert!(sender.peer.is_some());
}

/// The process in the container, which is a child of the one that made it.
fn job_pid(job: &Job) -> u32 {
    let all = attach::processes::all();
    let child = all.iter().find(|(_, parent)| **parent == job.pid());
    *child.expect("a child").0
}
