use super::super::kinds::Names;
use super::super::window::{NcclKernel, Peer, Seen};
use super::super::LaneWindow;
use super::*;
use std::sync::Arc;

const fn from(rank: u32) -> Peer {
    Peer {
        rank,
        receives: true,
    }
}

const fn to(rank: u32) -> Peer {
    Peer {
        rank,
        receives: false,
    }
}

/// One GPU with a window of 100 ns: when it computed, and its kernels: from, to, peers.
fn lane(rank: u32, computes: &[Span], kernels: &[(i64, i64, &[Peer])]) -> Lane {
    named("ncclDevKernel_SendRecv", rank, computes, kernels)
}

/// The same with one AllReduce.
fn collective(rank: u32, computes: &[Span], (start, end): Span) -> Lane {
    let kernel = (start, end, &[][..]);
    named(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        rank,
        computes,
        &[kernel],
    )
}

fn named(name: &str, rank: u32, computes: &[Span], kernels: &[(i64, i64, &[Peer])]) -> Lane {
    let mut seen = Seen {
        span: (0, 100),
        known: (0, 100),
        marks: vec![0, 50, 100],
        computes: Union::of(computes.to_vec()),
        ..Seen::default()
    };
    for (start, end, peers) in kernels {
        let first = seen.peers.len() as u32;
        seen.peers.extend(*peers);
        seen.nccl.push(NcclKernel {
            start: *start,
            end: *end,
            name: 1,
            stream: 0,
            correlation: 0,
            graph: 0,
            communicator: Some(0),
            call: None,
            captured_as: None,
            rank: Some(rank),
            peers: (first, seen.peers.len() as u32),
            launched: None,
        });
    }
    let names = ["", name].map(String::from);
    Lane::with(vec![LaneWindow::with(
        seen,
        Arc::new(Names::new(&names, &[])),
    )])
}

/// By waiting lane, and the lane that is behind: for how long the first waited and computed nothing.
fn behind(lanes: &[Lane]) -> Vec<((usize, usize), i64)> {
    let waits = waits(lanes, &[lanes.len()]);
    let mut by: HashMap<(usize, usize), Nanos> = HashMap::new();
    for (wait, causes) in waits.direct.iter().zip(&waits.causes) {
        let exposed = lanes[wait.lane]
            .at(wait.window)
            .without_computing(wait.whole);
        for (lane, part) in causes {
            *by.entry((wait.lane, *lane)).or_default() += exposed * *part;
        }
    }
    let rounded = by.into_iter().map(|(lanes, ns)| (lanes, ns.whole()));
    let mut by: Vec<_> = rounded.collect();
    by.sort_unstable();
    by
}

#[test]
fn a_late_sender_is_charged_for_what_the_receiver_did_not_compute() {
    // The receiver is there from 10 on, and computes until 15; the sender comes at 40.
    let receiver = lane(1, &[(0, 15), (45, 50)], &[(10, 45, &[from(0)])]);
    let sender = lane(0, &[(0, 40)], &[(40, 45, &[to(1)])]);
    let lanes = [sender, receiver];
    assert_eq!(behind(&lanes), [((1, 0), 25)]);
    assert_eq!(waits(&lanes, &[2]).direct[0].late, Late::Sender);
}

#[test]
fn a_late_receiver_is_charged_too_and_a_send_that_was_over_is_not() {
    let sender = lane(0, &[(0, 10)], &[(10, 45, &[to(1)]), (60, 62, &[to(1)])]);
    let receiver = lane(1, &[(0, 40)], &[(40, 45, &[from(0)]), (80, 82, &[from(0)])]);
    let lanes = [sender, receiver];
    assert_eq!(behind(&lanes), [((0, 1), 30)]);
    assert_eq!(waits(&lanes, &[2]).direct[0].late, Late::Receiver);
}

#[test]
fn two_that_both_receive_at_a_time_do_not_wait_for_each_other() {
    // Rank 1 gets what rank 0 sent; the kernel in which rank 0 receives began before that was over.
    let first = lane(0, &[(50, 60)], &[(10, 22, &[to(1)]), (18, 42, &[from(1)])]);
    let second = lane(1, &[(24, 40)], &[(12, 22, &[from(0)]), (40, 42, &[to(0)])]);
    let lanes = [first, second];
    assert_eq!(behind(&lanes), [((0, 1), 24)]);
    let waits = waits(&lanes, &[2]);
    assert_eq!(waits.direct.len(), 2);
    assert_eq!(waits.passed_on, 4);
}

#[test]
fn who_waited_itself_passes_the_charge_on() {
    // Stage 2 waits for stage 1, which waits from 5 to 30 for stage 0 and then computes until 40.
    let lanes = [
        lane(0, &[(0, 30)], &[(30, 32, &[to(1)])]),
        lane(
            1,
            &[(0, 5), (32, 40)],
            &[(5, 32, &[from(0)]), (40, 42, &[to(2)])],
        ),
        lane(2, &[(0, 8)], &[(8, 42, &[from(1)])]),
    ];
    let charges = [((1, 0), 25), ((2, 0), 22), ((2, 1), 10)];
    assert_eq!(behind(&lanes), charges);
}

#[test]
fn the_last_of_a_collective_is_behind_the_waits_of_the_others() {
    // Rank 2 comes at 40. Rank 1 computes until 35, and rank 0 until 20.
    let kernel = (10, 45);
    let lanes = [
        collective(0, &[(0, 20)], kernel),
        collective(1, &[(0, 35)], kernel),
        collective(2, &[(0, 40)], (40, 45)),
    ];
    assert_eq!(behind(&lanes), [((0, 2), 20), ((1, 2), 5)]);
}

#[test]
fn without_whole_steps_nobody_is_charged() {
    let mut late = lane(0, &[(0, 40)], &[(40, 45, &[to(1)])]);
    late.windows[0].seen.marks.clear();
    let other = lane(1, &[], &[(10, 45, &[from(0)])]);
    assert_eq!(behind(&[late, other]), []);
}

#[test]
fn an_exchange_with_all_is_a_collective() {
    // Rank 2 comes at 40 and rank 1 at 30: rank 0 waits from 10 on.
    let all = [to(0), from(0), to(1), from(1), to(2), from(2)];
    let lanes = [(0, 10), (1, 30), (2, 40)]
        .map(|(rank, came)| lane(rank, &[(0, came)], &[(came, 45, &all)]));
    assert_eq!(behind(&lanes), [((0, 2), 30), ((1, 2), 10)]);
    let waits = waits(&lanes, &[3]);
    assert!(waits.direct.iter().all(|wait| wait.late == Late::Rank));
    assert_eq!((waits.operations, waits.passed_on), (1, 0));
}
