//! Measures the analyses on a made-up job of 1024 ranks × 10 000 operations: time and peak memory.
//!
//! `cargo run --release -p analyze --example large_job -- report|hang [RANKS] [OPERATIONS]`. For `report`, processes come
//! one at a time, as from files; `hang` has all calls in memory.

use analyze::hang::{hang, Conditions};
use analyze::Analysis;
use capture::live::part;
use std::time::Instant;
use tables::clock::{Anchor, Clock};
use tables::communicators::{Local, Member};
use tables::{Call, Capture, Communicator, Name, Process, Shape};

fn process(rank: u32, ranks: u32, operations: u64, function: Name) -> Process {
    let mut random = u64::from(rank) + 1;
    let call = |i: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let late = (random >> 33) % 20_000 + if rank == 517 { 30_000 } else { 0 };
        let begin = 1_700_000_000_000_000_000 + 1_000_000 * i;
        Call {
            ticket: i,
            seq: i / 2 + 1,
            api_ns: begin as i64,
            launch_start_ns: (begin + late) as i64,
            launch_end_ns: (begin + late + 2_000) as i64,
            return_ns: (begin + late + 3_000) as i64,
            gpu_start: begin + late,
            gpu_stop: begin + 500_000,
            gpu_error: 2_000,
            shape: (i % 2) as u32,
            channels_started: 2,
            channels_stopped: 2,
            sealed: true,
            ..Call::default()
        }
    };
    let calls = (0..operations).map(call).collect();
    let of = [(1, 0, rank, ranks), (2, 1 + rank / 8, rank % 8, 8)];
    let anchor = |ns: u64| Anchor {
        ticks: ns,
        realtime: ns,
        monotonic: 0,
    };
    let end = 1_700_000_000_000_000_000 + 1_000_000 * operations;
    Process {
        rank: Some(rank),
        host: format!("node-{:03}", rank / 8),
        clock: Clock::new([anchor(end)], true),
        communicators: of
            .iter()
            .map(|(uid, _, own, nranks)| Local {
                uid: *uid,
                rank: Some(*own),
                nranks: *nranks,
                ..Local::default()
            })
            .collect(),
        shapes: of
            .iter()
            .map(|(uid, communicator, own, nranks)| Shape {
                uid: *uid,
                communicator: Some(*communicator),
                rank: Some(*own),
                nranks: Some(*nranks),
                function,
                count: 1 << 20,
                nchannels: 2,
                parts: part::EVENTS,
                ..Shape::default()
            })
            .collect(),
        calls,
        ..Process::default()
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_else(|| "report".to_owned());
    let mut number = |default: u64| {
        arguments
            .next()
            .map_or(default, |n| n.parse().expect("a number"))
    };
    let (ranks, operations) = (number(1024) as u32, number(10_000));
    let mut capture = Capture::default();
    let function = capture.names.intern("AllReduce");
    let member = |first: u32, uid: u32| {
        move |rank: u32| Member {
            process: (first + rank) as usize,
            uid,
            rank: Some(rank),
        }
    };
    let communicator = |index: u32, members: Vec<Member>| Communicator {
        id: index.to_string(),
        hash: 1,
        nranks: Some(members.len() as u32),
        nnodes: None,
        name: None,
        members,
        created_ns: None,
        parent: None,
    };
    let all = communicator(0, (0..ranks).map(member(0, 1)).collect());
    capture.communicators.push(all);
    for node in 0..ranks / 8 {
        let members = (0..8).map(member(8 * node, 2)).collect();
        capture.communicators.push(communicator(node + 1, members));
    }
    let mut spent = std::time::Duration::ZERO;
    if what == "hang" {
        let processes = (0..ranks).map(|rank| process(rank, ranks, operations, function));
        capture.processes = processes.collect();
        capture.processes[3].calls.truncate(operations as usize - 4);
        let began = Instant::now();
        let found = hang(&capture, &Conditions::default());
        spent += began.elapsed();
        println!(
            "{:?}, hang: {:?}",
            found.verdict.kind(),
            found.verdict.hang()
        );
    } else {
        let mut analysis = Analysis::default();
        // Of processes, finishing looks at everything but calls.
        for rank in 0..ranks {
            let mut one = process(rank, ranks, operations, function);
            let began = Instant::now();
            analysis.add(&capture, &one);
            spent += began.elapsed();
            one.calls = Vec::new();
            capture.processes.push(one);
        }
        let began = Instant::now();
        let report = analysis.finish(&capture);
        spent += began.elapsed();
        for finding in &report.findings {
            println!("{}", finding.sentence);
        }
        let compared = report.clocks.map_or(0, |clocks| clocks.hosts.len());
        println!("clocks of {compared} hosts compared with the first");
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    println!(
        "{what}: {ranks} ranks, {operations} operations each: {:.1} s; {}",
        spent.as_secs_f64(),
        peak.unwrap_or("peak memory not known")
    );
}
