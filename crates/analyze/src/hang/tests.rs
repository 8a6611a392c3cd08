//! The facts of small jobs. Words, and the facts of some 960 simulated jobs, are tested in `render`.

use super::*;
use crate::fixtures::communicator;
use crate::subject::ProcessId;
use capture::live::{flag, part, WAITS};
use capture::rows::Ticks;
use setup::recorded::{CommunicatorCall, InNccl as InNcclLine};
use tables::clock::{Anchor, Clock};
use tables::communicators::Local;
use tables::exit::{Exit, HowEnded};
use tables::sightings::{LastSeen, Witness};
use tables::{Call, LiveSource, Process, Shape};

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_700_000_000 * SECOND;

/// A call: communicator, bytes, and whether it ended.
type Made = (usize, u64, bool);

/// The clock of a process that wrote the time from the start to then.
fn seen_until(newest_ns: i64) -> Clock {
    let anchor = |time: i64| Anchor {
        ticks: Ticks((time - START + SECOND) as u64),
        realtime: time as u64,
        monotonic: 0,
    };
    Clock::new([anchor(START), anchor(newest_ns)], true)
}

/// A job of these communicators, by the ranks in each, and of these calls, by rank. All recorders still write
/// 300 s after the calls.
fn job(members: &[&[usize]], calls: &[&[Made]]) -> Capture {
    let mut capture = Capture::default();
    let function = capture.names.intern("AllReduce");
    let datatype = capture.names.intern("ncclInt8");
    for (index, members) in members.iter().enumerate() {
        capture.communicators.push(communicator(index, members));
    }
    for (rank, calls) in calls.iter().enumerate() {
        let mut process = Process {
            rank: Some(rank as u32),
            live: LiveSource::Here,
            clock: seen_until(START + 300 * SECOND),
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
            }
        }
        for (ticket, (communicator, bytes, ended)) in (0..).zip(calls.iter()) {
            process.shapes.push(Shape {
                uid: *communicator as u32,
                communicator: Some(*communicator as u32),
                function,
                datatype,
                count: *bytes,
                parts: part::ENQUEUED,
                ..Shape::default()
            });
            process.calls.push(Call {
                ticket,
                shape: ticket as u32,
                api_ns: START + ticket as i64 * SECOND,
                return_ns: START + ticket as i64 * SECOND + 1,
                channels_started: u16::from(*ended),
                channels_stopped: u16::from(*ended),
                sealed: *ended,
                ..Call::default()
            });
        }
        capture.processes.push(process);
    }
    capture
}

fn of(capture: &Capture) -> Hang {
    hang(capture, &Conditions::default())
}

#[test]
fn a_rank_that_lacks_a_call_is_the_sink_and_its_progress_ends_before() {
    let ended = (0, 8, true);
    let all: &[Made] = &[ended, (0, 16, false)];
    let found = of(&job(&[&[0, 1, 2]], &[all, all, &[ended]]));
    let Verdict::Sink(sink) = &found.verdict else {
        panic!("{:?}", found.verdict);
    };
    assert_eq!(sink.ranks.members, [2]);
    assert_eq!(sink.waiting.members, [0, 1]);
    assert_eq!(sink.lack, Lack::Call);
    assert_eq!(sink.reason, Reason::Running(ByTime::Hang));
    assert_eq!((sink.call.number, sink.call.bytes), (Some(2), Some(16)));
    assert_eq!(found.verdict.kind(), VerdictKind::Missing);
    assert_eq!(
        (found.verdict.hang(), found.verdict.certain()),
        (Some(true), true)
    );
    let entered = |rank: usize| {
        let rank = &found.communicators[0].ranks[rank];
        (
            rank.entered.as_ref().and_then(|call| call.number),
            rank.came,
        )
    };
    assert_eq!(entered(0), (Some(2), Some(Reached::Launched)));
    assert_eq!(entered(2), (Some(1), Some(Reached::Finished)));
}

/// Two ranks that are in a call which the GPU of rank 1 has begun, and that of rank 0 has not. When they
/// launched a graph for the second time, by rank; `None` if a rank did it once.
fn behind_a_graph(launched: [Option<i64>; 2]) -> Capture {
    let all: &[Made] = &[(0, 8, true), (0, 16, false)];
    let mut capture = job(&[&[0, 1]], &[all, all]);
    for (rank, process) in capture.processes.iter_mut().enumerate() {
        process.on_gpu.push(tables::OnGpu {
            ticket: 1,
            begun: rank == 1,
            asked_ns: START + 9 * SECOND,
        });
        let times: Vec<i64> = [START - SECOND].into_iter().chain(launched[rank]).collect();
        process.graphs = tables::Graphs {
            shapes: vec![0],
            contents: vec![tables::graphs::Content {
                runs: vec![(0, 1)],
                countable: true,
            }],
            executables: vec![tables::graphs::Graph {
                number: 1,
                content: Some(0),
                launches: times.len() as u64,
                newest: times.last().copied(),
                before: None,
                instantiated: None,
                destroyed: None,
                launching: false,
                stream: 0,
            }],
            launches: times
                .iter()
                .map(|at| tables::graphs::Launch {
                    graph: 1,
                    at: *at,
                    took: 0,
                    stream: 0,
                    gpu: None,
                })
                .collect(),
            ..Default::default()
        };
    }
    capture
}

#[test]
fn a_gpu_that_stands_in_a_graph_waits_for_the_rank_that_did_not_launch_it() {
    let (before, behind) = (START + SECOND / 2, START + 3 * SECOND / 2);
    // Rank 1 left the launch out. It may have made the next one since.
    for later in [None, Some(behind)] {
        let found = of(&behind_a_graph([Some(before), later]));
        let Verdict::Sink(sink) = &found.verdict else {
            panic!("{:?}", found.verdict);
        };
        assert_eq!((&sink.ranks.members[..], sink.lack), (&[1][..], Lack::Call));
        assert_eq!(
            sink.call.function.as_deref(),
            Some("launch 2 of a CUDA graph")
        );
        let went_on = sink.went_on.as_ref().and_then(|call| call.number);
        assert_eq!(went_on, Some(2));
    }
    // All launched it before the call, or behind it: the GPU is busy with something else.
    for launched in [[before; 2], [behind; 2]] {
        let found = of(&behind_a_graph(launched.map(Some)));
        let Verdict::Sink(sink) = &found.verdict else {
            panic!("{:?}", found.verdict);
        };
        assert_eq!(
            (&sink.ranks.members[..], sink.lack),
            (&[0][..], Lack::Start)
        );
    }
}

#[test]
fn a_gpu_may_stand_in_a_graph_that_was_not_seen() {
    let certain = |unseen: &[tables::graphs::Unseen]| {
        let both = [Some(START + SECOND / 2); 2];
        let mut capture = behind_a_graph(both);
        capture.processes[0].graphs.unseen = unseen.to_vec();
        let verdict = of(&capture).verdict;
        (verdict.hang(), verdict.certain())
    };
    assert_eq!(certain(&[]), (Some(true), true));
    assert_eq!(
        certain(&[tables::graphs::Unseen::NeverLaunched(1)]),
        (Some(true), true)
    );
    assert_eq!(
        certain(&[tables::graphs::Unseen::Unplaced(1)]),
        (Some(true), false)
    );
}

#[test]
fn what_is_cut_off_at_the_end_of_a_file_may_be_a_call() {
    let cut = |calls: &[&[Made]]| {
        let mut capture = job(&[&[0, 1]], calls);
        for process in &mut capture.processes {
            process.life = Life::Gone;
            process.bad_blocks = 1;
        }
        let found = of(&capture).verdict;
        (found.kind(), found.hang())
    };
    let made: Made = (0, 8, true);
    let unknown = (VerdictKind::Unknown, None);
    assert_eq!(cut(&[&[], &[]]), unknown);
    assert_eq!(cut(&[&[made], &[made]]), unknown);
    // The rank that lacks a call may have made it.
    assert_eq!(cut(&[&[made], &[]]), unknown);
}

#[test]
fn a_death_that_nobody_saw_is_not_certain() {
    let dead = |seen: Option<LastSeen>| {
        let mut capture = job(
            &[&[0, 1]],
            &[&[(0, 8, true), (0, 8, false)], &[(0, 8, true)]],
        );
        for process in &mut capture.processes {
            process.life = Life::Gone;
            process.live = LiveSource::Adopted;
        }
        let died = &mut capture.processes[1];
        died.clock = seen_until(START + 2 * SECOND);
        died.seen = seen;
        let verdict = of(&capture).verdict;
        (verdict.kind(), verdict.hang(), verdict.certain())
    };
    let by_run = LastSeen {
        at_ns: START + 3 * SECOND,
        life: Life::Gone,
        by: Witness::Run,
    };
    assert_eq!(dead(None), (VerdictKind::Dead, Some(true), false));
    assert_eq!(dead(Some(by_run)), (VerdictKind::Dead, Some(true), true));
}

/// Two ranks that send to each other and then receive, on one stream each. Rank 0's GPU, and that of rank 1
/// if `both`, is seen in the send. With `grouped`, both calls are one group.
fn sends_first(both: bool, grouped: bool) -> Capture {
    let all: &[Made] = &[(0, 16, false), (0, 16, false)];
    let mut capture = job(&[&[0, 1]], &[all, all]);
    let (send, receive) = (capture.names.intern("Send"), capture.names.intern("Recv"));
    for (rank, process) in capture.processes.iter_mut().enumerate() {
        for (shape, function) in process.shapes.iter_mut().zip([send, receive]) {
            shape.function = function;
            shape.peer = Some(1 - rank as u32);
            shape.flags = flag::P2P;
            shape.stream = 7;
        }
        for call in &mut process.calls {
            call.group = u64::from(grouped);
        }
        if both || rank == 0 {
            process.on_gpu.push(tables::OnGpu {
                ticket: 0,
                begun: true,
                asked_ns: START + 9 * SECOND,
            });
        }
    }
    capture
}

#[test]
fn two_ranks_that_both_send_first_wait_for_each_other() {
    let found = of(&sends_first(true, false));
    let Verdict::Cycle(cycle) = &found.verdict else {
        panic!("{:?}", found.verdict);
    };
    let of_step = |step: &CycleStep| (step.waiting.member, step.missing.member);
    assert_eq!(
        cycle.steps.iter().map(of_step).collect::<Vec<_>>(),
        [(0, 1), (1, 0)]
    );
    assert_eq!(cycle.steps[0].call.function.as_deref(), Some("Send"));
    // In a group, both are one kernel; and a GPU that was not asked may be in its receive.
    for capture in [sends_first(true, true), sends_first(false, false)] {
        let found = of(&capture);
        assert_eq!(found.verdict.kind(), VerdictKind::NoProgress);
    }
}

#[test]
fn a_call_is_not_taken_for_another_of_the_same_millisecond() {
    let all: &[Made] = &[(0, 8, true), (0, 8, false)];
    let mut capture = job(&[&[0, 1]], &[all, all]);
    for process in &mut capture.processes {
        for (index, call) in process.calls.iter_mut().enumerate() {
            call.api_ns = START + 1000 * index as i64;
        }
    }
    let found = of(&capture);
    let came = found.communicators[0].ranks.iter().map(|rank| rank.came);
    // Its first call ended, and the one that it is in did not.
    assert!(came.eq([Some(Reached::Launched); 2]));
}

#[test]
fn a_rank_of_another_host_is_silent_once_two_flushes_have_not_come() {
    let kind = |behind_s: i64, flush: Option<&str>| {
        let mut capture = job(&[&[0, 1]], &[&[(0, 8, false)], &[]]);
        let far = &mut capture.processes[1];
        far.live = LiveSource::Snapshot;
        far.clock = seen_until(START + (300 - behind_s) * SECOND);
        let flush = flush.map(|seconds| ("env.NCCLSCOPE_FLUSH".to_owned(), seconds.to_owned()));
        far.facts.extend(flush);
        of(&capture).verdict.kind()
    };
    assert_eq!(kind(9, None), VerdictKind::Missing);
    assert_eq!(kind(10, None), VerdictKind::Silent);
    // The setting may make it longer, and it is not believed to be shorter.
    assert_eq!(kind(10, Some("6")), VerdictKind::Missing);
    assert_eq!(kind(13, Some("6")), VerdictKind::Silent);
    assert_eq!(kind(9, Some("1")), VerdictKind::Missing);
}

#[test]
fn the_wait_for_graph_is_followed_over_communicators() {
    // Rank 0 waits for rank 1, which waits for rank 2.
    let communicators: &[&[usize]] = &[&[0, 1], &[1, 2]];
    let found = of(&job(
        communicators,
        &[&[(0, 8, false)], &[(1, 16, false)], &[]],
    ));
    let Verdict::Sink(sink) = &found.verdict else {
        panic!("{:?}", found.verdict);
    };
    let blamed = Member {
        communicator: 1,
        member: 1,
    };
    assert_eq!(found.verdict.blamed(), [blamed]);
    assert!(sink.others.is_empty());
    assert_eq!(found.waits.len(), 2);
}

#[test]
fn ranks_that_wait_for_each_other_are_a_cycle() {
    let both: &[&[usize]] = &[&[0, 1], &[0, 1]];
    let found = of(&job(both, &[&[(0, 8, false)], &[(1, 8, false)]]));
    let Verdict::Cycle(cycle) = &found.verdict else {
        panic!("{:?}", found.verdict);
    };
    let step = |step: &CycleStep| {
        (
            step.waiting.communicator,
            step.waiting.member,
            step.missing.member,
        )
    };
    let steps: Vec<_> = cycle.steps.iter().map(step).collect();
    assert_eq!(steps, [(0, 0, 1), (1, 1, 0)]);
    assert!(cycle.astray.is_none());
    assert_eq!(found.verdict.hang(), Some(true));
}

#[test]
fn gpus_that_wait_for_each_other_are_named_before_a_rank_that_is_in_a_call_itself() {
    // Ranks 0 and 1 wait for each other. Rank 3 waits for rank 2, whose own call may not have ended either.
    let communicators: &[&[usize]] = &[&[0, 1], &[0, 1], &[2, 3], &[2, 3]];
    let verdict = |begun: bool, ended: bool| {
        let mut capture = job(
            communicators,
            &[
                &[(0, 8, false)],
                &[(1, 8, false)],
                &[(2, 8, ended)],
                &[(2, 8, ended), (3, 8, false)],
            ],
        );
        for process in &mut capture.processes[..2] {
            process.calls[0].channels_started = u16::from(begun);
        }
        of(&capture).verdict
    };
    let ranks = |verdict: &Verdict| -> Vec<(usize, usize)> {
        let blamed = verdict.blamed().into_iter();
        blamed.map(|of| (of.communicator, of.member)).collect()
    };
    let found = verdict(true, false);
    assert!(matches!(found, Verdict::Cycle(_)), "{found:?}");
    // Hosts may have launched those calls and wait for something else.
    assert_eq!(ranks(&verdict(false, false)), [(3, 0)]);
    // Rank 2 does something else than to wait.
    assert_eq!(ranks(&verdict(true, true)), [(3, 0)]);
}

#[test]
fn all_calls_that_others_wait_for_show_a_new_order() {
    // Ranks 1 and 2 on communicator 0, ranks 0 and 1 on the others. A step of rank 1 is 0, 1, 0, 2. In the
    // last one it leaves communicator 1 to the end.
    let communicators: &[&[usize]] = &[&[1, 2], &[0, 1], &[0, 1]];
    let step = |step: &[Made], last: &[Made]| [step, step, step, last].concat();
    let ranks = [
        step(
            &[(1, 8, true), (2, 8, true)],
            &[(1, 8, false), (2, 8, false)],
        ),
        step(
            &[(0, 8, true), (1, 8, true), (0, 16, true), (2, 8, true)],
            &[
                (0, 8, true),
                (0, 16, true),
                (2, 8, false),
                (1, 8, false),
                (0, 8, false),
            ],
        ),
        step(
            &[(0, 8, true), (0, 16, true)],
            &[(0, 8, true), (0, 16, true), (0, 8, false)],
        ),
    ];
    let calls: Vec<&[Made]> = ranks.iter().map(Vec::as_slice).collect();
    let found = of(&job(communicators, &calls));
    let Verdict::Cycle(cycle) = &found.verdict else {
        panic!("{:?}", found.verdict);
    };
    // Rank 2 waits for it in a call on communicator 0, since whose last call the order is as ever. Rank 0
    // waits for it in the call that was left to the end.
    let turned = cycle.turned.iter().map(|of| {
        let rank = &found.communicators[of.communicator].ranks[of.member];
        rank.global_rank
    });
    assert!(turned.eq([Some(1)]), "{cycle:?}");
    assert_eq!(found.verdict.hang(), Some(true));
}

#[test]
fn what_is_not_in_the_capture_makes_a_verdict_uncertain() {
    let all: &[Made] = &[(0, 8, true), (0, 16, false)];
    let mut capture = job(
        &[&[0, 1], &[1, 2]],
        &[all, &[(1, 8, false)], &[(1, 8, false)]],
    );
    assert!(of(&capture).verdict.certain());
    // A third rank of the second communicator is absent, and rank 1 may wait for it.
    capture.communicators[1].nranks = Some(3);
    let found = of(&capture);
    let unknown = Unknown::Absent {
        count: 1,
        ranks: vec![2],
    };
    assert_eq!(found.communicators[1].unknown, Some(unknown));
    let Verdict::Sink(sink) = &found.verdict else {
        panic!("{:?}", found.verdict);
    };
    assert_eq!(sink.may_wait_on, Some(1));
    assert!(!found.verdict.certain());
}

#[test]
fn waits_of_the_network_keep_the_recorders_order() {
    let all = [
        (NetWait::SendGpu, "send_gpu"),
        (NetWait::SendPeer, "send_peer"),
        (NetWait::SendNetwork, "send_network"),
        (NetWait::RecvNetwork, "recv_network"),
        (NetWait::RecvFlush, "recv_flush"),
        (NetWait::RecvGpu, "recv_gpu"),
    ];
    assert_eq!(all.map(|(_, name)| name), WAITS);
    for (wait, name) in all {
        assert_eq!(wait.name(), name);
    }
}

#[test]
fn no_process_of_a_job_that_was_killed_runs() {
    let ended = (0, 8, true);
    let states = |life: Life| -> Vec<Liveness> {
        let mut capture = job(&[&[0, 1]], &[&[ended], &[ended]]);
        for process in &mut capture.processes {
            process.life = life;
        }
        let hang = of(&capture);
        let ranks = hang.communicators.iter().flat_map(|c| &c.ranks);
        ranks.map(|rank| rank.state).collect()
    };
    assert_eq!(states(Life::Unknown), [Liveness::Running; 2]);
    assert_eq!(states(Life::Gone), [Liveness::Dead; 2]);
}

#[test]
fn communicators_that_were_made_before_attach_came_hide_who_waits_for_whom() {
    // Without hash, each process has a communicator of its own.
    let mut capture = job(
        &[&[0], &[1]],
        &[&[(0, 8, true), (0, 16, false)], &[(1, 8, true)]],
    );
    capture
        .communicators
        .iter_mut()
        .for_each(|c| c.nranks = None);
    let over = of(&capture);
    assert_eq!(over.verdict.hang(), Some(false), "{:?}", over.verdict);
    for process in &mut capture.processes {
        process.facts.insert("mode".into(), "attach".into());
    }
    capture.processes[0].calls[1].return_ns = 0;
    let found = of(&capture);
    let Verdict::Quiet(quiet) = &found.verdict else {
        panic!("{:?}", found.verdict);
    };
    let Because::FromOutside(Some((process, ns))) = &quiet.because else {
        panic!("{quiet:?}");
    };
    assert_eq!((process.rank, *ns), (Some(0), Nanos::from_seconds(299.0)));
    assert_eq!(
        (found.verdict.hang(), found.verdict.kind()),
        (None, VerdictKind::Unknown)
    );
}

#[test]
fn ranks_that_lack_calls_that_were_not_announced_are_not_compared() {
    let open = (0, 8, false);
    let calls: [&[Made]; 2] = [&[(0, 8, true), open], &[(0, 8, true), (0, 16, false)]];
    let mut capture = job(&[&[0, 1]], &calls);
    assert!(matches!(of(&capture).verdict, Verdict::Mismatch(_)));
    // Somebody took the events of calls of collectives away for some time.
    for process in &mut capture.processes {
        process.setup.masks.push(Default::default());
        process.setup.masks[0].missing = 1 << 9;
    }
    let verdict = of(&capture).verdict;
    assert!(matches!(&verdict, Verdict::Quiet(quiet) if quiet.because == Because::NotAnnounced));
    assert_eq!((verdict.hang(), verdict.certain()), (None, false));
}

/// Calls on two communicators that both ranks have, in these orders; none is seen to have ended.
fn two_communicators(orders: [&[usize]; 2]) -> Capture {
    let made = |order: &[usize]| -> Vec<Made> { order.iter().map(|of| (*of, 8, false)).collect() };
    let (first, second) = (made(orders[0]), made(orders[1]));
    job(&[&[0, 1], &[0, 1]], &[&first, &second])
}

#[test]
fn ranks_that_make_calls_on_two_communicators_in_a_new_order_wait_for_each_other() {
    let same = [0, 1, 0, 1, 0, 1];
    let crossed: Vec<usize> = same.into_iter().chain([1, 0]).collect();
    let as_ever: Vec<usize> = same.into_iter().chain([0, 1]).collect();
    let found = of(&two_communicators([&as_ever, &crossed]));
    let Verdict::Cycle(cycle) = &found.verdict else {
        panic!("{:?}", found.verdict);
    };
    let turned: Vec<usize> = cycle.turned.iter().map(|of| of.member).collect();
    assert_eq!((turned, found.verdict.hang()), (vec![1], Some(true)));
    assert_eq!(found.verdict.blamed(), cycle.turned);
    assert_eq!(found.waits.len(), 2);
    // In one order everywhere there is nothing to say.
    let found = of(&two_communicators([&as_ever, &as_ever]));
    assert_eq!(found.verdict.kind(), VerdictKind::Unknown);
    assert!(found.waits.is_empty());
}

#[test]
fn an_order_that_a_rank_always_had_is_no_hang() {
    let found = of(&two_communicators([
        &[0, 1, 0, 1, 0, 1],
        &[1, 0, 1, 0, 1, 0],
    ]));
    assert_eq!(found.verdict.kind(), VerdictKind::Unknown);
    // A call behind the place where it is new has ended.
    let made = |order: [usize; 7]| -> Vec<Made> {
        let calls = order.into_iter().enumerate();
        calls.map(|(at, of)| (of, 8, at == 6)).collect()
    };
    let (first, second) = (made([0, 1, 0, 1, 0, 1, 0]), made([0, 1, 0, 1, 1, 0, 0]));
    let found = of(&job(&[&[0, 1], &[0, 1]], &[&first, &second]));
    assert!(
        !matches!(found.verdict, Verdict::Cycle(_)),
        "{:?}",
        found.verdict
    );
}

#[test]
fn a_stopped_rank_that_dies_is_still_known_to_be_stopped() {
    use tables::sightings::{LastSeen, Witness};
    let ended = (0, 8, true);
    let all: &[Made] = &[ended, (0, 16, false)];
    let mut capture = job(&[&[0, 1, 2]], &[all, all, &[ended]]);
    for process in &mut capture.processes {
        process.life = Life::Running;
    }
    // It was killed and closes its devices: the system says that it runs. It writes nothing any more.
    let seen = LastSeen {
        at_ns: START + 200 * SECOND,
        life: Life::Stopped,
        by: Witness::Hang,
    };
    capture.processes[2].seen = Some(seen);
    let found = of(&capture);
    assert_eq!(found.verdict.kind(), VerdictKind::Stopped);
    let rank = &found.communicators[0].ranks[2];
    assert_eq!((rank.was_stopped, rank.state), (Some(seen), Liveness::Dead));
    // Without a live part, nobody knows whether it has written something since.
    capture.processes[2].live = LiveSource::Snapshot;
    assert_eq!(of(&capture).verdict.kind(), VerdictKind::Missing);
    // After the end of all.
    for process in &mut capture.processes {
        process.life = Life::Gone;
        process.live = LiveSource::Adopted;
    }
    assert_eq!(of(&capture).verdict.kind(), VerdictKind::Stopped);
    // The same if all ranks are in the call.
    let mut capture = job(&[&[0, 1]], &[all, all]);
    for process in &mut capture.processes {
        process.life = Life::Gone;
    }
    capture.processes[1].seen = Some(seen);
    let found = of(&capture);
    assert_eq!(
        found.verdict.kind(),
        VerdictKind::Stopped,
        "{:?}",
        found.verdict
    );
}

/// Three ranks of a communicator, of which the first two went into a split so long after the calls.
fn in_a_split(after: [i64; 2]) -> Capture {
    let all: &[Made] = &[(0, 8, true), (0, 16, true)];
    let mut capture = job(&[&[0, 1, 2]], &[all; 3]);
    for (process, after) in capture.processes.iter_mut().zip(after) {
        process.setup.in_nccl = InNcclLine {
            at_ns: START + after + SECOND,
            calls: vec![CommunicatorCall {
                function: "ncclCommSplit".to_owned(),
                since_ns: START + after,
                thread: Some(1),
            }],
        };
    }
    capture
}

#[test]
fn ranks_in_a_split_wait_for_those_that_are_not() {
    let hangs = of(&in_a_split([5 * SECOND, 9 * SECOND]));
    let Verdict::Quiet(Quiet {
        because: Because::Blocked(found),
        ..
    }) = &hangs.verdict
    else {
        panic!("{:?}", hangs.verdict);
    };
    let ranks = |of: &[ProcessId]| -> Vec<u32> { of.iter().filter_map(|of| of.rank).collect() };
    assert_eq!(found.inside.len(), 1);
    assert_eq!(ranks(&found.inside[0].ranks), [0, 1]);
    assert_eq!(found.inside[0].function, "ncclCommSplit");
    assert_eq!(ranks(&found.outside), [2]);
    // Since the second one came.
    assert_eq!(found.lasted, Nanos::from_seconds(291.0));
    let verdict = &hangs.verdict;
    assert_eq!(verdict.kind(), VerdictKind::Missing);
    assert_eq!((verdict.hang(), verdict.certain()), (Some(true), false));
    let blamed: Vec<usize> = verdict.blamed().iter().map(|of| of.member).collect();
    assert_eq!(blamed, [2]);
    assert_eq!(hangs.stands_still(), Some(Nanos::from_seconds(291.0)));
    // One went in lately: that is no hang.
    let goes_on = of(&in_a_split([5 * SECOND, 297 * SECOND]));
    assert_eq!(goes_on.verdict.kind(), VerdictKind::Unknown);
    // A while ago: that can't be told yet.
    let early = of(&in_a_split([5 * SECOND, 260 * SECOND]));
    assert_eq!(early.verdict.hang(), None);
    assert_eq!(early.verdict.kind(), VerdictKind::Missing);
    // All are there, and nothing happens.
    let mut all = in_a_split([5 * SECOND; 2]);
    all.processes[2].setup = all.processes[0].setup.clone();
    let all = of(&all).verdict;
    assert_eq!(
        (all.kind(), all.hang()),
        (VerdictKind::NoProgress, Some(true))
    );
    assert_eq!(all.blamed().len(), 0);
}

#[test]
fn a_rank_that_is_in_another_function_than_the_others_is_named() {
    let mut capture = in_a_split([5 * SECOND; 2]);
    let mut other = capture.processes[0].setup.clone();
    other.in_nccl.calls[0].function = "ncclCommDestroy".to_owned();
    capture.processes[2].setup = other.clone();
    let found = of(&capture).verdict;
    assert_eq!(
        (found.kind(), found.hang(), found.certain()),
        (VerdictKind::Missing, Some(true), false)
    );
    let blamed: Vec<usize> = found.blamed().iter().map(|of| of.member).collect();
    assert_eq!(blamed, [2]);
    // Each in one of its own: none is the odd one.
    other.in_nccl.calls[0].function = "ncclCommInitRank".to_owned();
    capture.processes[1].setup = other;
    let found = of(&capture).verdict;
    assert_eq!(
        (found.kind(), found.hang(), found.blamed().len()),
        (VerdictKind::NoProgress, Some(true), 0)
    );
}

#[test]
fn a_rank_that_others_wait_for_in_a_call_is_named_before_those_in_a_split() {
    let mut capture = in_a_split([5 * SECOND; 2]);
    let ended = (0, 8, true);
    let waits = job(
        &[&[0, 1, 2]],
        &[&[ended], &[ended], &[ended, (0, 16, false)]],
    );
    for (process, other) in capture.processes.iter_mut().zip(waits.processes) {
        (process.calls, process.shapes) = (other.calls, other.shapes);
    }
    let found = of(&capture);
    let Verdict::Sink(sink) = &found.verdict else {
        panic!("{:?}", found.verdict);
    };
    assert_eq!(sink.ranks.members, [0, 1]);
    let inside = found.communicators[0].ranks[0]
        .inside()
        .expect("in a split");
    assert_eq!(
        (inside.function.as_str(), inside.lasted),
        ("ncclCommSplit", Nanos::from_seconds(295.0))
    );
}

#[test]
fn a_job_that_is_started_again_does_not_go_on() {
    let stands = of(&in_a_split([5 * SECOND, 9 * SECOND]));
    let runs = Hang {
        verdict: Verdict::Quiet(Quiet {
            because: Because::Active { all_killed: false },
            named: Vec::new(),
            newest_call_ago: Some(Nanos::SECOND),
        }),
        ..stands.clone()
    };
    let over = Hang {
        is_over: true,
        ..stands.clone()
    };
    let told = |looks: &[&Hang]| {
        let mut watch = Watch::new(PATIENCE);
        let news = looks.iter().map(|hang| watch.look(hang));
        news.last().flatten()
    };
    let lasted = Nanos::from_seconds(291.0);
    assert_eq!(told(&[&stands, &runs]), Some(News::GoesOn(lasted)));
    assert_eq!(told(&[&stands, &over]), None);
    assert_eq!(
        told(&[&stands, &over, &runs]),
        Some(News::StartedAgain(lasted))
    );
}

#[test]
fn of_several_dead_ranks_the_first_is_named() {
    let all: &[Made] = &[(0, 8, true), (0, 16, false)];
    let mut capture = job(&[&[0, 1, 2]], &[all, all, all]);
    for process in &mut capture.processes {
        process.facts.insert("ends".to_owned(), "gpu".to_owned());
    }
    for (process, at) in capture.processes.iter_mut().zip([7, 5]) {
        process.life = Life::Gone;
        process.exit = Some(Exit {
            at_ns: START + at * SECOND,
            how: Some(HowEnded::Signal(9)),
            out_of_memory: false,
        });
    }
    // The launcher has not come to it yet.
    capture.processes[2].life = Life::Running;
    let verdict = of(&capture).verdict;
    assert_eq!(verdict.kind(), VerdictKind::Dead);
    let blamed: Vec<usize> = verdict.blamed().iter().map(|of| of.member).collect();
    assert_eq!(blamed, [1]);
}
