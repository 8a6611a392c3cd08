use super::*;
use crate::fixtures::communicator;
use capture::live::part;
use tables::communicators::Local;
use tables::process::Counters;
use tables::{Call, GpuTimes, LiveSource, Name, Total};

/// A job of ranks of one communicator, each a process.
struct Job {
    capture: Capture,
    names: [Name; 4],
}

const REDUCE: usize = 0;
const BROADCAST: usize = 1;
const SEND: usize = 2;
const RECEIVE: usize = 3;

impl Job {
    /// Of `nranks` ranks, these are here; `ended` says whether they destroyed their communicator.
    fn new(nranks: u32, here: &[u32], ended: bool) -> Job {
        let mut capture = Capture::default();
        let names = ["AllReduce", "Broadcast", "Send", "Recv"];
        let names = names.map(|name| capture.names.intern(name));
        let mut all = communicator(0, &(0..here.len()).collect::<Vec<_>>());
        all.nranks = Some(nranks);
        for (member, rank) in all.members.iter_mut().zip(here) {
            member.rank = Some(*rank);
        }
        capture.communicators.push(all);
        for rank in here {
            capture.processes.push(Process {
                rank: Some(*rank),
                live: LiveSource::Adopted,
                communicators: vec![Local {
                    nranks,
                    rank: Some(*rank),
                    ended_ns: ended.then_some(1),
                    ..Local::default()
                }],
                counters: Some(Counters {
                    announced: 1 << 20,
                    ..Counters::default()
                }),
                ..Process::default()
            });
        }
        Job { capture, names }
    }

    /// Process `p` makes `n` calls.
    fn calls(&mut self, p: usize, n: u64, function: usize, timed: bool) -> &mut Job {
        self.calls_with(p, n, function, timed, None, 0)
    }

    fn calls_with(
        &mut self,
        p: usize,
        n: u64,
        function: usize,
        timed: bool,
        peer: Option<u32>,
        flags: u8,
    ) -> &mut Job {
        let process = &mut self.capture.processes[p];
        process.shapes.push(Shape {
            communicator: Some(0),
            function: self.names[function],
            flags: flags | if function >= SEND { flag::P2P } else { 0 },
            parts: part::EVENTS,
            peer,
            ..Shape::default()
        });
        let shape = process.shapes.len() as u32 - 1;
        for _ in 0..n {
            process.calls.push(Call {
                ticket: process.calls.len() as u64,
                shape,
                gpu: if timed {
                    GpuTimes::OnHost {
                        start: 10,
                        stop: 20,
                        error: 1,
                    }
                } else {
                    GpuTimes::None
                },
                sealed: true,
                ..Call::default()
            });
        }
        self
    }

    fn found(&self) -> Found {
        let gathered = |processes: &[Process]| {
            let mut gatherer = Gatherer::default();
            for process in processes {
                let mut plan = gatherer.plan(&self.capture, process);
                gatherer.add(&mut plan, process);
                gatherer.end(plan, process);
            }
            gatherer
        };
        let processes = &self.capture.processes;
        let whole = gathered(processes).finish(&self.capture);
        for split in 0..=processes.len() {
            let mut first = gathered(&processes[..split]);
            first.merge(gathered(&processes[split..]));
            assert_eq!(first.finish(&self.capture), whole, "{split}");
        }
        whole
    }

    /// Of each gap: first and last rank, calls that are proved, and those that others began.
    fn absent(&self) -> Vec<(u32, u32, u64, u64)> {
        let of = |a: &Absent| match a.ranks {
            Ranks::Known(first, last) => (first, last, a.calls, a.begun),
            Ranks::Unknown => (u32::MAX, a.n as u32, a.calls, a.begun),
        };
        self.found().absent.iter().map(of).collect()
    }
}

#[test]
fn nothing_is_missing_of_a_whole_communicator() {
    let mut job = Job::new(2, &[0, 1], true);
    job.calls(0, 9, REDUCE, true).calls(1, 4, REDUCE, true);
    // Rank 1 counted its calls itself: it made 4.
    assert_eq!(
        job.found(),
        Found {
            partial: vec![0, 0],
            absent: vec![],
            undefined: vec![0, 0]
        }
    );
}

#[test]
fn of_communicators_that_attach_did_not_see_made_no_rank_is_missing() {
    let mut job = Job::new(2, &[1], false);
    job.calls(0, 7, REDUCE, true);
    job.capture.communicators[0].nranks = None;
    assert_eq!(job.absent(), [(0, 0, 7, 7)]);
    let facts = &mut job.capture.processes[0].facts;
    facts.insert("mode".into(), "attach".into());
    assert_eq!(job.absent(), []);
}

#[test]
fn a_rank_that_is_not_here_made_what_ended_elsewhere() {
    // The last 2 had not ended when rank 0 was killed, and of a Broadcast the root need not wait.
    let mut job = Job::new(4, &[0, 1], false);
    job.calls(0, 7, REDUCE, true).calls(0, 2, REDUCE, false);
    job.calls(1, 7, REDUCE, true).calls(1, 1, BROADCAST, true);
    assert_eq!(job.absent(), [(2, 3, 14, 18)]);
}

#[test]
fn an_operation_proves_those_before_it() {
    let mut job = Job::new(3, &[0, 2], false);
    job.calls(0, 5, BROADCAST, false).calls(0, 1, REDUCE, true);
    job.calls(1, 6, BROADCAST, false);
    assert_eq!(job.absent(), [(1, 1, 6, 6)]);
}

#[test]
fn without_gpu_times_a_destroyed_communicator_is_the_proof() {
    for (ended, proved) in [(true, 8), (false, 0)] {
        let mut job = Job::new(2, &[1], ended);
        job.calls(0, 8, REDUCE, false);
        assert_eq!(job.absent(), [(0, 0, proved, 8)]);
    }
}

#[test]
fn a_communicator_that_was_aborted_in_a_call_proves_nothing() {
    let mut job = Job::new(2, &[1], true);
    job.calls(0, 3, REDUCE, true).calls(0, 1, REDUCE, false);
    let call = job.capture.processes[0].calls.last_mut().expect("a call");
    // Begun on the GPU, and never ended.
    call.sealed = false;
    assert_eq!(job.absent(), [(0, 0, 3, 4)]);
}

#[test]
fn numbers_of_nccl_fill_lost_rows_in() {
    let mut job = Job::new(2, &[0], true);
    job.calls(0, 3, REDUCE, false);
    for (call, seq) in job.capture.processes[0].calls.iter_mut().zip([1, 2, 9]) {
        call.seq = seq;
    }
    assert_eq!(job.absent(), [(1, 1, 9, 9)]);
    // No more than were announced.
    let counters = &mut job.capture.processes[0].counters;
    counters.as_mut().expect("counters").announced = 5;
    assert_eq!(job.absent(), [(1, 1, 5, 5)]);
}

#[test]
fn totals_count_and_say_how_many_had_a_time() {
    let mut job = Job::new(2, &[0], false);
    job.calls(0, 0, REDUCE, false);
    job.capture.processes[0].totals = vec![Total {
        folded: 20,
        rowless: 5,
        timed: 12,
        ..Total::default()
    }];
    assert_eq!(job.absent(), [(1, 1, 12, 25)]);
}

#[test]
fn captured_calls_and_replays_need_not_show_everywhere() {
    let mut job = Job::new(2, &[0], true);
    job.calls_with(0, 5, REDUCE, false, None, flag::CAPTURED);
    job.calls_with(0, 50, REDUCE, true, None, flag::REPLAY);
    assert_eq!(job.absent(), [(1, 1, 0, 0)]);
}

#[test]
fn a_receive_proves_the_send_and_a_send_alone_nothing() {
    let mut job = Job::new(3, &[0], false);
    job.calls_with(0, 6, SEND, true, Some(1), 0);
    job.calls_with(0, 4, RECEIVE, true, Some(2), 0);
    assert_eq!(job.absent(), [(1, 2, 4, 10)]);
    job.capture.processes[0].communicators[0].ended_ns = Some(1);
    assert_eq!(job.absent(), [(1, 2, 10, 10)]);
    // With oneself.
    let mut alone = Job::new(2, &[0], true);
    alone.calls_with(0, 6, SEND, true, Some(0), 0);
    assert_eq!(alone.absent(), [(1, 1, 0, 0)]);
}

#[test]
fn a_rank_that_is_here_in_part_lacks_what_it_does_not_have() {
    let mut job = Job::new(2, &[0, 1], true);
    job.calls(0, 9, REDUCE, false);
    job.calls_with(0, 3, SEND, false, Some(1), 0);
    job.calls(1, 4, REDUCE, false);
    job.calls_with(1, 1, RECEIVE, false, Some(0), 0);
    job.capture.processes[1].live = LiveSource::None;
    assert_eq!(job.found().partial, [0, 7]);
    // Of receives in totals it is not known from whom they are.
    job.calls_with(1, 0, RECEIVE, false, None, 0);
    let shape = job.capture.processes[1].shapes.len() as u32 - 1;
    job.capture.processes[1].totals = vec![Total {
        shape,
        folded: 2,
        ..Total::default()
    }];
    assert_eq!(job.found().partial, [0, 5]);
}

#[test]
fn ranks_that_make_different_calls_lack_nothing() {
    // They disagree in every function, and not in how many calls they made.
    let mut job = Job::new(3, &[0, 1], true);
    job.calls(0, 6, REDUCE, true).calls(1, 6, BROADCAST, true);
    job.capture.processes[1].live = LiveSource::Snapshot;
    assert_eq!(job.found().partial, [0, 0]);
    assert_eq!(job.absent(), [(2, 2, 6, 6)]);
}

#[test]
fn an_old_nccl_tells_no_size_and_what_is_spoken_of_is_there() {
    let mut job = Job::new(4, &[0, 1, 3], true);
    job.capture.communicators[0].nranks = None;
    job.calls(0, 2, REDUCE, true);
    assert_eq!(job.absent(), [(2, 2, 2, 2)]);
    job.calls_with(0, 1, SEND, true, Some(5), 0);
    assert_eq!(job.absent(), [(2, 2, 2, 2), (4, 5, 5, 5)]);
    // Nor, older still, which ranks are here.
    job.capture.communicators[0].nranks = Some(4);
    job.capture.communicators[0].members[2].rank = None;
    assert_eq!(job.absent(), [(u32::MAX, 1, 2, 2)]);
}

#[test]
fn a_damaged_number_of_ranks_makes_no_long_list() {
    let mut job = Job::new(u32::MAX, &[0], true);
    job.calls(0, 2, REDUCE, true);
    assert_eq!(job.absent(), []);
}
