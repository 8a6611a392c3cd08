//! Jobs that were ended while ranks waited for another one: all of their processes end at once, so nobody
//! died first.

use analyze::findings::{Kind, RankId};
use analyze::how_far::Does;
use analyze::recommendations::Rule;
use analyze::summary::Next;
use analyze::time::Nanos;
use analyze::{report, Report};
use capture::live::part;
use capture::rows::Ticks;
use simulate::communicator;
use tables::clock::{Anchor, Clock};
use tables::communicators::Local;
use tables::process::Counters;
use tables::{Call, Capture, Communicator, Life, LiveSource, Process, Shape};

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_700_000_000 * SECOND;

/// A job of these communicators, by their ranks. `calls` has, by rank, the communicator of each AllReduce and
/// when it was made, in s. All recordings end at once, after `ended` s.
fn job(members: &[&[usize]], calls: &[&[(usize, i64)]], ended: i64) -> Capture {
    let mut capture = Capture::default();
    let function = capture.names.intern("AllReduce");
    let datatype = capture.names.intern("ncclInt8");
    for (index, members) in members.iter().enumerate() {
        capture.communicators.push(Communicator {
            id: format!("c{index}"),
            hash: index as u64,
            ..communicator(index, members)
        });
    }
    let anchor = |time: i64| Anchor {
        ticks: Ticks((time - START + SECOND) as u64),
        realtime: time as u64,
        monotonic: 0,
    };
    for (rank, calls) in calls.iter().enumerate() {
        let mut process = Process {
            rank: Some(rank as u32),
            pid: 100 + rank as u32,
            host: "node-0".to_owned(),
            live: LiveSource::Adopted,
            life: Life::Gone,
            counters: Some(Counters {
                announced: calls.len() as u64,
                ..Counters::default()
            }),
            clock: Clock::new([anchor(START), anchor(START + ended * SECOND)], true),
            ..Process::default()
        };
        for (index, members) in members.iter().enumerate() {
            if let Some(own) = members.iter().position(|member| *member == rank) {
                process.communicators.push(Local {
                    uid: index as u32,
                    rank: Some(own as u32),
                    nranks: members.len() as u32,
                    ..Local::default()
                });
                process.shapes.push(Shape {
                    uid: index as u32,
                    communicator: Some(index as u32),
                    function,
                    datatype,
                    count: 1 << 20,
                    parts: part::ENQUEUED,
                    ..Shape::default()
                });
            }
        }
        for (ticket, (communicator, at)) in (0..).zip(calls.iter()) {
            let shapes = process.shapes.iter();
            let shape = shapes
                .map(|shape| shape.communicator)
                .position(|of| of == Some(*communicator as u32));
            process.calls.push(Call {
                ticket,
                shape: shape.expect("a member") as u32,
                api_ns: START + at * SECOND,
                return_ns: START + at * SECOND + 1,
                ..Call::default()
            });
        }
        capture.processes.push(process);
    }
    capture
}

/// The report on [`job`].
fn of(members: &[&[usize]], calls: &[&[(usize, i64)]], ended: i64) -> Report {
    report(&job(members, calls, ended))
}

#[test]
fn a_job_that_was_ended_while_it_hung_says_so_first() {
    let all: &[(usize, i64)] = &[(0, 1), (0, 2), (0, 3)];
    let found = of(&[&[0, 1, 2]], &[all, &[(0, 1), (0, 2)], all], 40);
    assert!(found.verdict.is_finding(0));
    let standstill = found.standstill.as_ref().expect("it stood still");
    let at = (standstill.lasted, standstill.call);
    assert_eq!(at, (Nanos::from_seconds(37.0), Some(3)));
    let call = standstill.hang.verdict.call().expect("a call");
    let all_reduce = (call.function.as_deref(), call.bytes);
    assert_eq!(all_reduce, (Some("AllReduce"), Some(1 << 20)));
    let finding = &found.findings[0];
    assert_eq!(finding.kind(), Kind::Standstill);
    let [missing] = &finding.subject.ranks[..] else {
        panic!("{finding:?}");
    };
    let process = (
        missing.process.rank,
        missing.process.pid,
        missing.process.host.as_str(),
    );
    assert_eq!(process, (Some(1), 101, "node-0"));
    let first = &found.recommendations[0].rule;
    assert_eq!(*first, Rule::Finding(Box::new(finding.clone())));
    assert_eq!(found.next, Next::Hang);
}

#[test]
fn a_job_that_was_ended_in_a_step_did_not_stand_still() {
    let all: &[(usize, i64)] = &[(0, 1), (0, 2), (0, 36)];
    // A wait of 4 s, and one that is shorter than a pause that the job came back from.
    for (calls, ended) in [(&[(0, 1), (0, 2)][..], 40), (&[(0, 1), (0, 2)][..], 60)] {
        let found = of(&[&[0, 1]], &[all, calls], ended);
        assert_eq!(found.standstill, None, "{ended}");
    }
    // All made all.
    assert_eq!(of(&[&[0, 1]], &[all, all], 400).standstill, None);
}

/// Like [`of`], with times in ms.
fn of_ms(calls: &[&[(usize, i64)]], ended: i64) -> Report {
    let mut capture = job(&[&[0, 1]], calls, ended);
    let scaled = |at: i64| START + (at - START) / 1000;
    for process in &mut capture.processes {
        for call in &mut process.calls {
            call.api_ns = scaled(call.api_ns);
            call.return_ns = call.api_ns + 1;
        }
        let anchor = |time: i64| Anchor {
            ticks: Ticks((time - START + SECOND) as u64),
            realtime: time as u64,
            monotonic: 0,
        };
        let end = scaled(START + ended * SECOND);
        process.clock = Clock::new([anchor(START), anchor(end)], true);
    }
    report(&capture)
}

#[test]
fn a_wait_is_long_by_the_pauses_of_the_job() {
    // A step of 20 ms, and one of 300 ms with a checkpoint.
    let steps = |n: i64| -> Vec<(usize, i64)> {
        (0..n)
            .map(|step| (0, 20 * step + if step > 50 { 280 } else { 0 }))
            .collect()
    };
    let (all, early) = (steps(100), steps(99));
    let ended = |ms: i64| of_ms(&[&all, &early], all[99].1 + ms).standstill;
    let found = ended(2000).expect("2 s are a hundred steps");
    assert_eq!(
        (found.lasted, found.call),
        (Nanos::from_seconds(2.0), Some(100))
    );
    let missing: Vec<_> = found.missing.iter().map(|id| id.process.rank).collect();
    assert_eq!(missing, [Some(1)]);
    assert!(ended(400).is_some());
    // The checkpoint took as long.
    assert_eq!(ended(250), None);
    // Of three steps, nobody knows.
    let (all, early) = (steps(3), steps(2));
    let ended = |ms: i64| of_ms(&[&all, &early], all[2].1 + ms).standstill;
    assert_eq!(ended(50), None);
    assert!(ended(2000).is_some());
    // The first call tells nothing of the job's pace.
    assert_eq!(of_ms(&[&[(0, 1)], &[]], 4001).standstill, None);
    assert!(of_ms(&[&[(0, 1)], &[]], 6001).standstill.is_some());
}

#[test]
fn the_rank_that_waits_for_nobody_is_named() {
    // Rank 0 waits for rank 1, which waits for rank 2.
    let communicators: &[&[usize]] = &[&[0, 1], &[1, 2]];
    let found = of(communicators, &[&[(0, 1)], &[(1, 2)], &[]], 60);
    let standstill = found.standstill.expect("it stood still");
    let ranks = |of: &[RankId]| {
        of.iter()
            .filter_map(|id| id.process.rank)
            .collect::<Vec<_>>()
    };
    let found = [&standstill.missing, &standstill.waiting].map(|of| ranks(of));
    assert_eq!(found, [[2], [1]]);
    // Two that wait for each other: who is the cause is not known, so both are named.
    let found = of(&[&[0, 1], &[0, 1]], &[&[(0, 1)], &[(1, 2)]], 60);
    let standstill = found.standstill.expect("it stood still");
    assert_eq!(ranks(&standstill.missing), [0, 1]);
    assert_eq!(found.how_far, None);
}

#[test]
fn what_lacks_calls_proves_nothing() {
    let all: &[(usize, i64)] = &[(0, 1), (0, 2), (0, 3)];
    let mut capture = job(&[&[0, 1]], &[all, &[(0, 1), (0, 2)]], 60);
    // It made one more, which is not here.
    capture.processes[1].counters = Some(Counters {
        announced: 3,
        ..Counters::default()
    });
    assert_eq!(report(&capture).standstill, None);
    // A member is not here at all.
    let mut capture = job(&[&[0, 1]], &[all, &[(0, 1), (0, 2)]], 60);
    capture.communicators[0].nranks = Some(3);
    assert_eq!(report(&capture).standstill, None);
}

#[test]
fn how_far_each_rank_came_is_beside_it() {
    let all: &[(usize, i64)] = &[(0, 1), (0, 2), (0, 3)];
    // Rank 3 waits on another communicator, so it lacks the call and is no cause.
    let mut rank_3 = vec![(0, 1), (0, 2), (1, 3)];
    let job = |rank_3: &[(usize, i64)]| {
        let early: &[(usize, i64)] = &[(0, 1), (0, 2)];
        of(&[&[0, 1, 2, 3], &[1, 3]], &[all, early, all, rank_3], 40)
    };
    let did = |report: &Report| -> Vec<(Option<u64>, Does)> {
        let of = report.how_far.as_ref().expect("it stood still");
        assert_eq!(
            (of.call, of.absent, of.communicator.as_str()),
            (3, Some(0), "c0")
        );
        of.ranks.iter().map(|of| (of.calls, of.does)).collect()
    };
    let (waits, lacks) = ((Some(3), Does::Waits), (Some(2), Does::Lacks));
    let too = (Some(2), Does::LacksToo);
    assert_eq!(did(&job(&rank_3)), [waits, lacks, waits, too]);
    rank_3[2] = (0, 3);
    assert_eq!(did(&job(&rank_3)), [waits, lacks, waits, waits]);
    // A job that ended as it should has none.
    assert_eq!(of(&[&[0, 1]], &[all, all], 400).how_far, None);
}
