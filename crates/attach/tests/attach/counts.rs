//! Calls are counted one by one; what there was no room for is counted as lost.

use crate::job::Job;
use crate::session::{attached, calls, during, each, read, without_bpf};
use attach::{Options, Targets, Way};
use std::time::{Duration, Instant};

#[test]
fn calls_of_each_thread_are_counted_exactly_with_their_return_codes() {
    let mut job = Job::loaded();
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
    let expected = each(&ids, 20_000);
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

/// No event of them has a communicator, so they are counted, and the report begins with their number.
#[test]
fn one_sided_calls_are_counted() {
    let mut job = Job::loaded();
    let Some(mut session) = attached(job.options()) else {
        return;
    };
    during(&mut session, &mut job, |job| {
        job.tell("signals 100");
        job.tell("loop 1 10")
    });
    let summary = session.finish();
    let counted = |symbol: &str| calls(&summary, symbol).iter().map(|(_, n)| n).sum::<u64>();
    assert_eq!(counted("ncclPutSignal"), 200);
    let capture = read(&job.capture());
    let counts = capture.processes[0].setup.counts.last().expect("a line");
    assert_eq!(
        capture::counts::ONE_SIDED.map(|name| counts.get(name)),
        [200, 100, 100]
    );
}

#[test]
fn of_a_million_calls_none_is_lost_if_the_ring_has_room_for_all() {
    let mut job = Job::loaded();
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
    let expected = each(&ids, 500_000);
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
fn a_call_that_does_not_return_is_seen_while_the_session_runs() {
    let mut job = Job::loaded();
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
    let mut job = Job::loaded();
    let options = Options {
        way: Some(Way::Perf),
        ..job.options()
    };
    let Some(mut session) = attached(options) else {
        return;
    };
    let ids = during(&mut session, &mut job, |job| job.tell("loop 2 300"));
    let summary = session.finish();
    let expected = each(&ids, 300);
    assert_eq!(calls(&summary, "ncclAllReduce"), expected);
}

#[test]
fn without_bpf_calls_of_each_thread_are_counted_exactly_with_their_return_codes() {
    let mut job = Job::loaded();
    // Each CPU has its own part of the ring, and room for all: nobody may have time to empty it.
    // SAFETY: a plain question.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1) as usize;
    let options = Options {
        ring_bytes: (16 << 20) * cpus.next_power_of_two(),
        ..job.options()
    };
    let Some(mut session) = without_bpf(options) else {
        return;
    };
    assert!(session.ns_per_call().is_some());
    let ids = during(&mut session, &mut job, |job| {
        job.tell("code 4");
        job.tell("loop 2 20000")
    });
    let summary = session.finish();
    let expected = each(&ids, 20_000);
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

#[test]
fn without_bpf_a_loss_that_may_be_of_either_process_is_counted_once() {
    let (mut one, mut two) = (Job::loaded(), Job::loaded());
    let library = one.folder.path().join("libnccl.so.2");
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

/// A million calls, with probes set so; what was seen of them is recorded, and the rest is counted.
fn a_million(way: Option<Way>) {
    let mut job = Job::loaded();
    let options = Options {
        way,
        ..job.options()
    };
    let Some(mut session) = attached(options) else {
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
fn of_a_million_calls_none_is_lost_without_being_counted() {
    a_million(None);
}

#[test]
fn without_bpf_of_a_million_calls_none_is_lost_without_being_counted() {
    a_million(Some(Way::Samples));
}

/// 5000 calls, while nobody takes events out of small rings.
fn without_room(way: Option<Way>) {
    let mut job = Job::loaded();
    let options = Options {
        ring_bytes: 64 << 10,
        way,
        ..job.options()
    };
    let Some(session) = attached(options) else {
        return;
    };
    job.tell("loop 1 5000");
    let summary = session.finish();
    let seen = &summary.processes[0];
    assert!(seen.losses.entries > 1000, "{:?}", seen.losses);
    assert_eq!(seen.counts.all() + seen.losses.entries, 5000);
    let capture = read(&job.capture());
    let counters = capture.processes[0].counters.as_ref().expect("a live part");
    assert_eq!(counters.announced, 5000);
    match way {
        None => assert_eq!(counters.lost.last(), Some(&seen.losses.entries)),
        Some(_) => {
            assert!(seen.losses.returns > 1000, "{:?}", seen.losses);
            assert!(!summary.shared_losses);
        }
    }
}

#[test]
fn what_the_ring_has_no_room_for_is_counted() {
    without_room(None);
}

#[test]
fn without_bpf_what_the_rings_have_no_room_for_is_counted() {
    without_room(Some(Way::Samples));
}
