//! What is recorded on request: the scheduler, steps of an init, connections.

use crate::job::{contained, examples, job_pid, start_within, Job};
use crate::session::{attached, during, read};
use attach::{Options, Targets};
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn what_a_thread_did_in_a_long_call_is_known() {
    let mut job = Job::loaded();
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

#[test]
fn a_session_does_not_record_another_one_that_measures_what_a_call_costs() {
    let sessions = || {
        for _ in 0..5 {
            let mut job = Job::loaded();
            let options = Options {
                sched: true,
                ..job.options()
            };
            let Some(mut session) = attached(options) else {
                return;
            };
            during(&mut session, &mut job, |job| job.tell("loop 1 10"));
            let summary = session.finish();
            let pids: Vec<u32> = summary.processes.iter().map(|seen| seen.pid).collect();
            assert_eq!(pids, [job.pid()]);
            assert_eq!(summary.unseen, 0);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(sessions);
        scope.spawn(sessions);
    });
}

#[test]
fn steps_inside_an_init_are_recorded_on_request() {
    for init in [true, false] {
        let mut job = Job::loaded();
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
    let (mut one, mut two) = (Job::loaded(), Job::loaded());
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
