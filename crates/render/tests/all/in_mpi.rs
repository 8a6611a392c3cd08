//! Ranks that wait in MPI while others wait for them in NCCL.

use analyze::hang::{hang, Conditions};
use analyze::time::Nanos;
use capture::live::part;
use capture::rows::Ticks;
use render::hang::Answer;
use tables::clock::{Anchor, Clock};
use tables::communicators::{Local, Member};
use tables::mpi::{Mpi, MpiSpan};
use tables::{Call, Capture, Communicator, LiveSource, Process, Shape};

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_700_000_000 * SECOND;
/// The thread that calls NCCL.
const THREAD: u32 = 7;

/// Four ranks, of which rank 2 makes one call less than these, as of 20 s after them.
fn job(calls: usize, finished: bool) -> Capture {
    let mut capture = Capture::default();
    let function = capture.names.intern("AllReduce");
    let datatype = capture.names.intern("ncclInt8");
    let member = |rank: usize| Member {
        process: rank,
        uid: 0,
        rank: Some(rank as u32),
    };
    capture.communicators.push(Communicator {
        id: "c".to_owned(),
        hash: 1,
        nranks: Some(4),
        nnodes: Some(1),
        name: None,
        members: (0..4).map(member).collect(),
        created_ns: Some(START),
        parent: None,
    });
    for rank in 0..4 {
        let anchor = |time: i64| Anchor {
            ticks: Ticks((time - START + SECOND) as u64),
            realtime: time as u64,
            monotonic: 0,
        };
        let calls = if rank == 2 && !finished {
            calls - 1
        } else {
            calls
        };
        let call = |at: usize| Call {
            ticket: at as u64,
            api_ns: START + at as i64,
            return_ns: START + at as i64 + 1,
            channels_started: u16::from(finished || at + 1 < calls),
            channels_stopped: u16::from(finished || at + 1 < calls),
            sealed: finished || at + 1 < calls,
            ..Call::default()
        };
        capture.processes.push(Process {
            rank: Some(rank),
            pid: 100 + rank,
            live: LiveSource::Here,
            clock: Clock::new([anchor(START), anchor(START + 20 * SECOND)], true),
            communicators: vec![Local {
                rank: Some(rank),
                nranks: 4,
                ..Local::default()
            }],
            shapes: vec![Shape {
                communicator: Some(0),
                function,
                datatype,
                count: 1024,
                parts: part::ENQUEUED,
                thread: Some(THREAD),
                ..Shape::default()
            }],
            calls: (0..calls).map(call).collect(),
            ..Process::default()
        });
    }
    capture
}

/// The rank is inside of a function since 6 s after its last call.
fn waits_in(capture: &mut Capture, rank: usize, function: &str, thread: u32) {
    let (from, to) = (START + 6 * SECOND, START + 20 * SECOND);
    capture.processes[rank].mpi = Mpi {
        seen: Some((START, to)),
        names: vec![function.to_owned()],
        spans: vec![MpiSpan {
            thread: Some(thread),
            from,
            to,
            inside: to - from,
            calls: 1,
            function: 0,
            open: true,
        }],
        ..Mpi::default()
    };
}

fn answer(capture: &Capture) -> Answer {
    Answer::new(&hang(capture, &Conditions::default()))
}

/// Waits of 10 s are hangs.
fn impatient() -> Conditions {
    Conditions {
        after: Some(Nanos::from_seconds(10.0)),
    }
}

#[test]
fn a_rank_that_others_wait_for_is_said_to_be_in_mpi() {
    let mut capture = job(3, false);
    let lacks = "Rank 2 has not made AllReduce of 1 KiB, call 3 on communicator c, which ranks 0-1,3 wait in \
                 for 20.0 s";
    let plain = answer(&capture);
    assert_eq!(plain.sentence, format!("{lacks}."));
    let computing = |answer: &Answer| {
        answer
            .details
            .iter()
            .any(|of| of.contains("Long computing"))
    };
    assert!(computing(&plain), "{:?}", plain.details);

    waits_in(&mut capture, 2, "MPI_Recv", THREAD);
    let inside = answer(&capture);
    let said = format!("{lacks}; rank 2 has been inside of MPI_Recv for 14.0 s.");
    assert_eq!(inside.sentence, said);
    assert!(!computing(&inside), "{:?}", inside.details);
    let details = inside.details.join(" ");
    assert!(
        details.contains("from 2 min on it counts as a hang"),
        "{details}"
    );
    assert!(
        details.contains("No other rank is seen inside of MPI."),
        "{details}"
    );
    let rank = &inside.communicators[0].ranks[2];
    assert_eq!(
        (rank.in_mpi.as_deref(), rank.in_mpi_s),
        (Some("MPI_Recv"), Some(14.0))
    );

    waits_in(&mut capture, 3, "MPI_Barrier", THREAD);
    let details = answer(&capture).details.join(" ");
    let too = "Rank 3 has been inside of MPI_Barrier for 14.0 s, too.";
    assert!(details.contains(too), "{details}");
}

#[test]
fn another_thread_in_mpi_keeps_nobody_from_nccl() {
    let mut capture = job(3, false);
    waits_in(&mut capture, 2, "MPI_Recv", THREAD + 1);
    assert!(!answer(&capture).sentence.contains("MPI"));
}

#[test]
fn a_job_that_waits_in_mpi_does_not_compute() {
    let mut capture = job(3, true);
    let plain = Answer::new(&hang(&capture, &impatient()));
    assert!(
        plain.details.join(" ").contains("computes for long"),
        "{plain:?}"
    );
    for rank in [0, 1, 3] {
        waits_in(&mut capture, rank, "MPI_Barrier", THREAD);
    }
    let facts = hang(&capture, &impatient());
    let inside = Answer::new(&facts);
    let sentence = &inside.sentence;
    assert!(
        sentence.contains("anks 0-1,3 are inside of MPI_Barrier for ")
            && sentence.contains(", and rank 2 is not: each call ends"),
        "{sentence}"
    );
    assert_eq!(inside.blamed.len(), 1);
    assert_eq!(inside.blamed[0].global_rank, Some(2));
    let mut text = Vec::new();
    render::hang::text(&facts, false, render::layout::Look::default(), &mut text).expect("written");
    let text = String::from_utf8(text).expect("text");
    assert!(
        text.contains("Inside of MPI_Barrier: ranks 0-1,3, for up to 14.0 s"),
        "{text}"
    );
}
