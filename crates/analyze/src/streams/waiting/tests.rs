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

/// Exposed and hidden, by waiting lane and charged lane.
fn charged(lanes: &[Lane]) -> Vec<((usize, usize), (i64, i64))> {
    let waits = waits(lanes, &[lanes.len()]);
    let mut by: HashMap<(usize, usize), (i64, i64)> = HashMap::new();
    for ((lane, last, _), (exposed, hidden)) in &waits.by {
        let sum = by.entry((*lane, *last)).or_default();
        *sum = (sum.0 + exposed, sum.1 + hidden);
    }
    let mut by: Vec<_> = by.into_iter().collect();
    by.sort_unstable();
    by
}

#[test]
fn a_late_sender_is_charged_for_what_the_receiver_did_not_compute() {
    // The receiver is there from 10 on, and computes until 15; the sender comes at 40.
    let receiver = lane(1, &[(0, 15), (45, 50)], &[(10, 45, &[from(0)])]);
    let sender = lane(0, &[(0, 40)], &[(40, 45, &[to(1)])]);
    let lanes = [sender, receiver];
    assert_eq!(charged(&lanes), [((1, 0), (25, 5))]);
    assert_eq!(waits(&lanes, &[2]).direct[0].late, Late::Sender);
}

#[test]
fn a_late_receiver_is_charged_too_and_a_send_that_was_over_is_not() {
    let sender = lane(0, &[(0, 10)], &[(10, 45, &[to(1)]), (60, 62, &[to(1)])]);
    let receiver = lane(1, &[(0, 40)], &[(40, 45, &[from(0)]), (80, 82, &[from(0)])]);
    let lanes = [sender, receiver];
    assert_eq!(charged(&lanes), [((0, 1), (30, 0))]);
    assert_eq!(waits(&lanes, &[2]).direct[0].late, Late::Receiver);
}

#[test]
fn two_that_both_receive_at_a_time_do_not_wait_for_each_other() {
    // Rank 1 gets what rank 0 sent; the kernel in which rank 0 receives began before that was over.
    let first = lane(0, &[(50, 60)], &[(10, 22, &[to(1)]), (18, 42, &[from(1)])]);
    let second = lane(1, &[(24, 40)], &[(12, 22, &[from(0)]), (40, 42, &[to(0)])]);
    let lanes = [first, second];
    assert_eq!(charged(&lanes), [((0, 1), (24, 0))]);
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
    let charges = [((1, 0), (25, 0)), ((2, 0), (22, 0)), ((2, 1), (10, 0))];
    assert_eq!(charged(&lanes), charges);
}

#[test]
fn a_transfer_that_the_wait_made_exposed_is_charged() {
    // Ranks 0 and 1 come at 10 and 40, and both end at 50. Rank 0 computes until 25 or 45.
    let late = |shown: bool| {
        let mut lane = collective(1, &[(0, 40), (45, 50)], (40, 50));
        if !shown {
            lane.timed = lane.windows.pop();
        }
        lane
    };
    let waits = |until: i64| collective(0, &[(0, until)], (10, 50));
    // With both in windows: 10 of the transfer are exposed on rank 0, and 5 on the late one.
    assert_eq!(charged(&[waits(25), late(true)]), [((0, 1), (20, 15))]);
    // Else it would have run beside what rank 0 computed from 10 on: all of it, or what is exposed now.
    assert_eq!(charged(&[waits(25), late(false)]), [((0, 1), (25, 15))]);
    assert_eq!(charged(&[waits(45), late(false)]), [((0, 1), (5, 30))]);
    // Nothing was computed from 10 on.
    assert_eq!(charged(&[waits(10), late(false)]), [((0, 1), (30, 0))]);
}

#[test]
fn without_whole_steps_nobody_is_charged() {
    let mut late = lane(0, &[(0, 40)], &[(40, 45, &[to(1)])]);
    late.windows[0].seen.marks.clear();
    let other = lane(1, &[], &[(10, 45, &[from(0)])]);
    assert_eq!(charged(&[late, other]), []);
}

#[test]
fn an_exchange_with_all_is_a_collective() {
    // Rank 2 comes at 40 and rank 1 at 30: rank 0 waits from 10 on, and is charged for what comes after 30.
    let all = [to(0), from(0), to(1), from(1), to(2), from(2)];
    let lanes = [(0, 10), (1, 30), (2, 40)]
        .map(|(rank, came)| lane(rank, &[(0, came)], &[(came, 45, &all)]));
    assert_eq!(charged(&lanes), [((0, 2), (10, 0)), ((1, 2), (10, 0))]);
    let waits = waits(&lanes, &[3]);
    assert!(waits.direct.iter().all(|wait| wait.late == Late::Rank));
    assert_eq!((waits.operations, waits.passed_on), (1, 0));
}

#[test]
fn nobody_is_charged_for_more_than_the_rank_with_most_to_compute_stood_still() {
    // Rank 2 comes at 40. Rank 1 computes until 35, and rank 0 until 20.
    let kernel = (10, 45);
    let lanes = [
        collective(0, &[(0, 20)], kernel),
        collective(1, &[(0, 35)], kernel),
        collective(2, &[(0, 40)], (40, 45)),
    ];
    // The transfer is as exposed as rank 2's own.
    assert_eq!(charged(&lanes), [((0, 2), (5, 10)), ((1, 2), (5, 25))]);
}
