//! What the run loses by a late rank, against the truth: how much longer the same script takes with the
//! lateness than without.
//!
//! Scripts are fake-nccl's. Their times are taken from its schedule and not from a recording, so that the
//! load of the machine that tests are run on is in no launch.

use analyze::findings::{Cause, Evidence, Finding, Kind, Stalls};
use analyze::{report, Report};
use fake_nccl::schedule::{RankAction, Schedule};
use fake_nccl::script::{Script, Statement};
use simulate::communicator;
use tables::communicators::Local;
use tables::{Call, Capture, Communicator, GpuTimes, Process, Shape};

struct Played<'s> {
    script: &'s Script,
    schedule: Schedule<'s>,
    capture: Capture,
    /// By how much one launch in 20 is read late, and another kernel in 20 begins too early by, ns.
    error_ns: u64,
}

impl<'s> Played<'s> {
    fn new(script: &'s Script, error_ns: u64) -> Played<'s> {
        let mut capture = Capture::default();
        let locals = |_| Local::default();
        for (index, comm) in script.comms.iter().enumerate() {
            let instance = &comm.instances[0];
            capture.communicators.push(Communicator {
                id: comm.name.clone(),
                hash: instance.hash,
                ..communicator(index, &instance.members)
            });
        }
        capture.processes = (0..script.ranks)
            .map(|rank| Process {
                rank: Some(rank as u32),
                host: format!("host-{}", script.host(rank)),
                communicators: (0..script.comms.len()).map(locals).collect(),
                ..Process::default()
            })
            .collect();
        Played {
            script,
            schedule: Schedule::new(script),
            capture,
            error_ns,
        }
    }

    fn play(&mut self, body: &'s [Statement], who: &[bool]) {
        for statement in body {
            match statement {
                Statement::Group { calls, .. } => {
                    self.schedule.group(who, calls);
                    let [call] = &calls[..] else {
                        panic!("groups are not played here");
                    };
                    for rank in 0..self.script.ranks {
                        if let RankAction::Calls(begin) = self.schedule.part(rank) {
                            self.called(rank, call, begin);
                        }
                    }
                }
                Statement::Repeat(times, body) => {
                    (0..*times).for_each(|_| self.play(body, who));
                }
                Statement::Only(ranks, body) => {
                    let these: Vec<bool> = (0..who.len()).map(|r| ranks.contains(&r)).collect();
                    self.play(body, &these);
                }
                Statement::Rank(ranks, act) => {
                    ranks.iter().for_each(|r| self.schedule.act(*r, *act));
                }
                Statement::Sleep(by) => self.schedule.sleep(who, *by),
                Statement::Compute(time) => self.schedule.compute(who, *time),
                Statement::Join => self.schedule.join(who),
                Statement::Sync => self.schedule.sync(who),
                Statement::Create(_) | Statement::Destroy(_) => {}
                other => panic!("{other:?} is not played here"),
            }
        }
    }

    fn called(&mut self, rank: usize, call: &fake_nccl::script::Call, begin: u64) {
        let kernel = self.schedule.kernel(call.comm, rank);
        let (Some(start), Some(stop)) = (kernel.start, kernel.stop) else {
            return;
        };
        let function = self.capture.names.intern("AllReduce");
        let datatype = self.capture.names.intern("ncclInt8");
        let process = &mut self.capture.processes[rank];
        let shape = Shape {
            uid: call.comm as u32,
            communicator: Some(call.comm as u32),
            function,
            datatype,
            count: call.bytes,
            ..Shape::default()
        };
        let known = process.shapes.iter().position(|s| *s == shape);
        let index = known.unwrap_or_else(|| {
            process.shapes.push(shape);
            process.shapes.len() - 1
        });
        const SINCE_1970: u64 = 1_700_000_000_000_000_000;
        // Each GPU has a clock of its own.
        let gpu = |ns: u64| SINCE_1970 + ns + 3_000_000_007 * (rank as u64 + 1);
        let host = |ns: u64| (SINCE_1970 + ns) as i64;
        // A thread that is interrupted between a launch and reading its clock; not at the same calls on all
        // ranks.
        let (late, early) = match (process.calls.len() + 7 * rank) % 20 {
            19 => (self.error_ns as i64, 0),
            9 => (0, self.error_ns),
            _ => (0, 0),
        };
        process.calls.push(Call {
            ticket: process.calls.len() as u64,
            shape: index as u32,
            api_ns: host(begin),
            launch_start_ns: host(self.schedule.host[rank]) + late,
            return_ns: host(self.schedule.host[rank] + 1) + late,
            gpu: GpuTimes::stamps(gpu(start) - early, gpu(stop)),
            channels_started: 1,
            channels_stopped: 1,
            sealed: true,
            ..Call::default()
        });
    }
}

/// The report on a script, and how long it takes, µs.
fn played(script: &str) -> (Report, f64) {
    with_errors(script, 0)
}

/// The same, with times of which some are wrong by this, ns.
fn with_errors(script: &str, error_ns: u64) -> (Report, f64) {
    let script = Script::parse(script).expect("a script");
    let mut played = Played::new(&script, error_ns);
    played.play(&script.body, &vec![true; script.ranks]);
    let everyone = vec![true; script.ranks];
    played.schedule.sync(&everyone);
    let end = played.schedule.host.iter().max().expect("ranks");
    (report(&played.capture), *end as f64 / 1e3)
}

/// 40 steps of a training job in which operations run beside the backward pass; `late` comes before each.
fn training(late: &str, host: u64, gpu: u64) -> String {
    let mut step = format!("{late}\nsleep {}us\ncompute {}us\n", 3 * host, 3 * gpu);
    for size in [16, 8, 4] {
        step += &format!(
            "sleep {host}us\ncompute {gpu}us\nall_reduce {size}MiB time={}us\n",
            20 * size
        );
    }
    format!("ranks 4\nrepeat 40 {{\n{step}join\ncompute {gpu}us\nsync\n}}\n")
}

/// Asserts that `rank` is blamed for a loss within 10 % of the truth, and nobody without the lateness. Gives
/// the finding's cause.
fn within_a_tenth(slowed: &str, plain: &str, rank: u32) -> Option<Cause> {
    let ((found, long), (healthy, short)) = (played(slowed), played(plain));
    assert!(healthy.findings.is_empty(), "{:?}", healthy.findings);
    let truth = long - short;
    assert_eq!(found.findings.len(), 1, "{slowed}: {:?}", found.findings);
    let finding = &found.findings[0];
    let found = finding.loss.as_ref().expect("a loss");
    let loss = found.wall_us;
    assert_eq!(finding.rank(), Some(rank), "{finding:?}");
    assert!(
        (loss - truth).abs() <= 0.1 * truth,
        "{slowed}: {loss} µs, and it is {truth} µs: {finding:?}"
    );
    let (low, high) = found.interval_us.expect("an interval");
    assert!(low > 0.0 && low <= loss && loss <= high);
    finding.cause
}

#[test]
fn the_loss_is_what_the_run_takes_less_without_the_lateness() {
    let cases = [
        ("rank 2 { sleep 8ms }", 2_000, 800, 2),
        ("rank 2 { sleep 8ms }", 100, 2_000, 2),
        ("rank 0 { sleep 700us }", 500, 50, 0),
        ("rank 1 { compute 6ms }", 100, 2_000, 1),
    ];
    for (late, host, gpu, rank) in cases {
        let plain = training("", host, gpu);
        let cause = within_a_tenth(&training(late, host, gpu), &plain, rank);
        let why = if late.contains("compute") {
            Cause::Gpu
        } else {
            Cause::Host
        };
        assert_eq!(cause, Some(why), "{late}");
    }
}

#[test]
fn errors_of_clocks_hide_nobody() {
    let synced = |late: &str| format!("ranks 2\nrepeat 48 {{\n{late}\nall_reduce 1MiB\nsync\n}}\n");
    let late = "rank 1 { sleep 10ms }";
    let queued = |late: &str| training(late, 100, 2_000);
    for (slowed, plain) in [(synced(late), synced("")), (queued(late), queued(""))] {
        let ((found, long), (_, short)) = (with_errors(&slowed, 200_000), played(&plain));
        let loss = found.findings.first().and_then(Finding::wall_us);
        let (loss, truth) = (loss.expect("rank 1 is named"), long - short);
        assert!(
            (loss - truth).abs() <= 0.1 * truth,
            "{loss} µs, and it is {truth} µs: {slowed}"
        );
    }
}

#[test]
fn held_up_operations_and_the_run_s_loss_are_two_figures() {
    let (found, long) = played(&training("rank 2 { sleep 8ms }", 2_000, 800));
    let (_, short) = played(&training("", 2_000, 800));
    let arrivals = found.arrivals.expect("operations");
    let late = &arrivals.ranks[0];
    assert!(late.saving_wall_us > 1.25 * (long - short), "{late:?}");
}

#[test]
fn lateness_that_other_work_hides_is_no_finding() {
    // The GPU has caught up with its host when the last operation comes.
    let late = "rank 1 { compute 9ms }\nrank 1 { compute 3ms }";
    let (found, long) = played(&training(late, 4_000, 500));
    let (_, short) = played(&training("", 4_000, 500));
    assert!(long - short < 0.01 * short, "{long} {short}");
    assert!(found.findings.is_empty(), "{:?}", found.findings);
}

#[test]
fn calls_one_after_the_other_lose_what_each_is_late() {
    let calls = |late: &str| {
        format!("ranks 4\nrepeat 20 {{\nall_reduce 1MiB time=1ms\n{late}\nall_reduce 2MiB time=1ms\n}}\n")
    };
    within_a_tenth(&calls("rank 2 late 5ms"), &calls(""), 2);
    let synced = |late: &str| calls(&format!("{late}\nsync"));
    within_a_tenth(&synced("rank 3 late 5ms"), &synced(""), 3);
}

/// Plain steps of a few operations, with what some rank does before some of them.
fn steps_of(calls: &str, number: usize, before: impl Fn(usize) -> String) -> String {
    let step = |at: usize| {
        let before = before(at);
        format!("{before}\nsleep 2ms\n{calls}\nsync\n")
    };
    let steps: String = (0..number).map(step).collect();
    format!("ranks 4\n{steps}")
}

fn steps(number: usize, before: impl Fn(usize) -> String) -> String {
    let calls = "all_reduce 4MiB time=1ms\nall_reduce 1MiB time=500us";
    steps_of(calls, number, before)
}

fn stalls(finding: &Finding) -> &Stalls {
    match &finding.evidence {
        Evidence::Stalls(stalls) => stalls,
        _ => panic!("{finding:?}"),
    }
}

#[test]
fn a_single_stall_is_found_with_when() {
    let stalled = |at: usize| match at {
        30 => "rank 2 { sleep 500ms }".to_owned(),
        _ => String::new(),
    };
    let (found, long) = played(&steps(40, stalled));
    let [finding] = &found.findings[..] else {
        panic!("{:?}", found.findings);
    };
    assert_eq!((finding.kind(), finding.rank()), (Kind::Stall, Some(2)));
    let loss = finding.wall_us().expect("a loss");
    assert!((499_500.0..500_500.0).contains(&loss), "{finding:?}");
    let stalls = stalls(finding);
    assert_eq!((stalls.times, stalls.operations), (1, 1), "{finding:?}");
    assert_eq!(finding.cause, Some(Cause::Host));
    assert!(found.verdict.is_finding(0));
    let (from, until) = finding.when_us.expect("when");
    // 30 steps of 3.5 ms, less what comes before the first kernel.
    assert!((from - 30.0 * 3.5e3).abs() < 5e3, "{from} of {long}");
    assert!((until - from - 500e3).abs() < 5e3, "{from} {until}");
}

#[test]
fn a_start_that_one_rank_is_late_to_is_found() {
    let late = |at: usize| match at {
        0..8 => "rank 1 { sleep 30ms }".to_owned(),
        _ => String::new(),
    };
    let (found, _) = played(&steps(200, late));
    let [finding] = &found.findings[..] else {
        panic!("{:?}", found.findings);
    };
    assert_eq!((finding.kind(), finding.rank()), (Kind::Stall, Some(1)));
    let loss = finding.wall_us().expect("a loss");
    assert!((209_500.0..210_500.0).contains(&loss), "{finding:?}");
    let stalls = stalls(finding);
    assert_eq!((stalls.at_start, stalls.operations), (true, 7));
    assert_eq!(finding.cause, Some(Cause::Host));
    let from = finding.when_us.map(|(from, _)| from < 50e3);
    assert_eq!(from, Some(true), "{finding:?}");
}

#[test]
fn stalls_that_come_again_are_counted_and_a_habit_is_none() {
    let now_and_then = |at: usize| match at % 50 {
        25 => "rank 3 { sleep 80ms }".to_owned(),
        _ => String::new(),
    };
    let (found, _) = played(&steps(200, now_and_then));
    let [finding] = &found.findings[..] else {
        panic!("{:?}", found.findings);
    };
    let stalls = stalls(finding);
    assert_eq!(stalls.times, 4);
    assert!((79.5e3..81e3).contains(&stalls.longest_us), "{stalls:?}");
    let always = |_| "rank 3 { sleep 8ms }".to_owned();
    let (found, _) = played(&steps(100, always));
    let kinds: Vec<Kind> = found.findings.iter().map(Finding::kind).collect();
    assert_eq!(kinds, [Kind::LateRank], "{:?}", found.findings);
}

#[test]
fn noise_is_no_finding() {
    let mut state = 1u64;
    let mut uniform = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut found = Vec::new();
    for job in 0..100usize {
        let number = [12, 40, 150][job % 3];
        let noise: Vec<String> = (0..number)
            .map(|_| {
                let rank = |rank: usize| {
                    // Normal for half of the jobs, with a long tail for the others: 10 % of a step of 3.5 ms.
                    let of_10 = match job % 2 {
                        0 => (0..12).map(|_| uniform()).sum::<f64>() - 6.0 + 3.0,
                        _ => -uniform().max(1e-9).ln(),
                    };
                    let us = (350.0 * of_10.max(0.0)) as u64;
                    format!("rank {rank} {{ sleep {us}us }}\n")
                };
                (0..4).map(rank).collect()
            })
            .collect();
        // The first of several equal operations is late, and the others follow at once.
        let calls = ["all_reduce 4MiB time=1ms\n", "all_reduce 4MiB time=100us\n"][job % 4 / 2];
        let calls = calls.repeat([1, 2, 10][job % 5 % 3]);
        let (report, _) = played(&steps_of(&calls, number, |at| noise[at].clone()));
        found.extend(report.findings);
    }
    assert!(found.len() <= 1, "{found:?}");
}
