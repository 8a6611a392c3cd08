//! Jobs whose clocks are known: bounds always hold the truth, and what is proved is true.

use super::*;
use crate::findings::{Cause, Evidence, Finding, Kind};
use crate::fixtures::{communicator, Random};
use crate::{report, Report};
use capture::live::part;
use tables::communicators::Local;
use tables::{Call, Capture, GpuTimes, Name, Process, Shape};

const SINCE_1970: i64 = 1_700_000_000_000_000_000;

/// A host's clock: by how much it is off, how fast it runs, and when it is set by how much.
#[derive(Clone, Copy, Default)]
struct Truth {
    offset: i64,
    ppm: f64,
    step: (i64, i64),
}

impl Truth {
    /// What it says at this moment of the run, ns.
    fn at(&self, ns: i64) -> i64 {
        let stepped = if ns >= self.step.0 { self.step.1 } else { 0 };
        SINCE_1970 + ns + self.offset + (ns as f64 * self.ppm / 1e6) as i64 + stepped
    }
}

/// A kernel in true time: communicator, start, end.
type Kernel = (usize, i64, i64);

/// A job of known truth.
struct Job {
    clocks: Vec<Truth>,
    /// By rank.
    host: Vec<usize>,
    members: Vec<Vec<usize>>,
    kernels: Vec<Vec<Kernel>>,
    function: &'static str,
    error: u32,
}

impl Job {
    /// Ranks in blocks, one communicator of all.
    fn new(clocks: &[Truth], per_host: usize) -> Job {
        let ranks = clocks.len() * per_host;
        Job {
            clocks: clocks.to_vec(),
            host: (0..ranks).map(|rank| rank / per_host).collect(),
            members: vec![(0..ranks).collect()],
            kernels: vec![Vec::new(); ranks],
            function: "AllReduce",
            error: 2_000,
        }
    }

    /// An operation in which ranks come so long after `at`, and which takes `transfer` then and a little
    /// longer on some.
    fn operation(&mut self, on: usize, at: i64, late: &[i64], transfer: i64, random: &mut Random) {
        let last = at + late.iter().max().copied().unwrap_or(0);
        for (rank, late) in self.members[on].iter().zip(late) {
            let spread = (random.uniform() * 5e3) as i64;
            self.kernels[*rank].push((on, at + late, last + transfer + spread));
        }
    }

    fn capture(&self, random: &mut Random) -> Capture {
        let mut capture = Capture::default();
        let function = capture.names.intern(self.function);
        for (index, members) in self.members.iter().enumerate() {
            capture.communicators.push(communicator(index, members));
        }
        for rank in 0..self.host.len() {
            let process = self.process(rank, function, random);
            capture.processes.push(process);
        }
        capture
    }

    fn process(&self, rank: usize, function: Name, random: &mut Random) -> Process {
        let clock = self.clocks[self.host[rank]];
        let mut measured = |ns: i64| {
            let wrong = (random.uniform() * 2.0 - 1.0) * f64::from(self.error);
            clock.at(ns) + wrong as i64
        };
        let calls = self.kernels[rank].iter().enumerate();
        let calls = calls.map(|(ticket, (on, start, end))| Call {
            ticket: ticket as u64,
            shape: *on as u32,
            api_ns: clock.at(start - 20_000),
            launch_start_ns: clock.at(start - 5_000),
            return_ns: clock.at(start - 4_000),
            gpu: GpuTimes::OnHost {
                start: measured(*start),
                stop: measured(*end),
                error: self.error,
            },
            sealed: true,
            ..Call::default()
        });
        let calls = calls.collect();
        let uids = 0..self.members.len() as u32;
        Process {
            rank: Some(rank as u32),
            host: format!("node-{}", self.host[rank]),
            communicators: uids
                .clone()
                .map(|uid| Local {
                    uid,
                    ..Local::default()
                })
                .collect(),
            shapes: uids
                .map(|uid| Shape {
                    uid,
                    communicator: Some(uid),
                    function,
                    count: 1 << 20,
                    parts: part::EVENTS,
                    ..Shape::default()
                })
                .collect(),
            calls,
            ..Process::default()
        }
    }

    /// The clock of one host less that of another at a moment of the run.
    fn apart(&self, host: usize, base: usize, at: i64) -> i64 {
        self.clocks[host].at(at) - self.clocks[base].at(at)
    }
}

fn truth(offset: i64, ppm: f64) -> Truth {
    Truth {
        offset,
        ppm,
        ..Truth::default()
    }
}

fn clocks(report: &Report) -> &Clocks {
    report.clocks.as_ref().expect("two hosts")
}

/// A job with 50 operations a second for some seconds. All ranks come within 50 µs, except those that `late`
/// makes later. What is late to one makes the next later.
fn job(
    clocks: &[Truth],
    per_host: usize,
    seconds: i64,
    late: impl Fn(i64, usize) -> i64,
    random: &mut Random,
) -> Job {
    let mut job = Job::new(clocks, per_host);
    let ranks = clocks.len() * per_host;
    let mut at = 1_000_000;
    for i in 0..seconds * 50 {
        let arrivals: Vec<i64> = (0..ranks)
            .map(|rank| (random.uniform() * 5e4) as i64 + late(i, rank))
            .collect();
        job.operation(0, at, &arrivals, 100_000, random);
        at += 20_000_000 + (0..ranks).map(|rank| late(i, rank)).max().unwrap_or(0);
    }
    job
}

/// Whether the hosts' clocks prove most of what the finding says.
fn is_proved(finding: &Finding) -> bool {
    let Evidence::Late(late) = &finding.evidence else {
        return false;
    };
    let of = late.clocks;
    of.proved
        .is_some_and(|proved| proved > 0 && 2 * proved >= of.operations)
}

#[test]
fn the_truth_lies_within_the_bounds_and_what_is_proved_is_true() {
    let mut proved = 0;
    for seed in 0..60 {
        let mut random = Random(seed);
        let hosts = 2 + (random.uniform() * 3.0) as usize;
        let per_host = 1 + (random.uniform() * 3.0) as usize;
        let truths: Vec<Truth> = (0..hosts)
            .map(|_| {
                let offset = (random.uniform() - 0.5) * 2e8;
                truth(offset as i64, (random.uniform() - 0.5) * 50.0)
            })
            .collect();
        let ranks = hosts * per_host;
        let mut job = Job::new(&truths, per_host);
        job.error = 1 + (random.uniform() * 2e4) as u32;
        let often = random.uniform();
        let far = random.uniform() * 3e6;
        let (mut at, mut last) = (0, vec![(0u64, 0i64); ranks]);
        for _ in 0..200 {
            at += (random.uniform() * 5e7) as i64 + 20_000_000;
            let late: Vec<i64> = (0..ranks)
                .map(|rank| {
                    let usual = random.uniform() * 2e5;
                    let much = rank == 0 && random.uniform() < often;
                    (usual + if much { far } else { 0.0 }) as i64
                })
                .collect();
            let mut order: Vec<usize> = (0..ranks).collect();
            order.sort_unstable_by_key(|rank| late[*rank]);
            let of = &mut last[order[ranks - 1]];
            of.0 += 1;
            of.1 += late[order[ranks - 1]] - late[order[ranks - 2]];
            let transfer = (random.uniform() * 3e5) as i64;
            job.operation(0, at, &late, transfer, &mut random);
        }
        let report = report(&job.capture(&mut random));
        let found = clocks(&report);
        assert!(found.steps.is_empty(), "{seed}: {:?}", found.steps);
        // The first operation is a warm-up; ranks of the first host end close together.
        let first = job.clocks[0].at(job.kernels[0][1].2);
        let began = beginning(window_of(HostTime(first))).0;
        for (index, row) in found.hosts.iter().enumerate() {
            let (low, high) = row.low_us.zip(row.high_us).expect("bounds");
            let at = row.at_s.expect("bounds") * 1e9;
            let moment = began + at as i64 - job.clocks[0].at(0);
            let is = Nanos::from(job.apart(index + 1, 0, moment)).us();
            assert!(low - 0.1 <= is && is <= high + 0.1, "{seed}: {is}: {row:?}");
            let estimate = row.offset_us.expect("an estimate");
            assert!((low..=high).contains(&estimate));
            let drift = job.clocks[index + 1].ppm - job.clocks[0].ppm;
            let bounds = row.drift_low_ppm.zip(row.drift_high_ppm);
            let (low, high) = bounds.expect("two windows");
            assert!(low <= drift && drift <= high, "{seed}: {drift}: {row:?}");
        }
        for row in &report.arrivals.as_ref().expect("operations").ranks {
            let (times, by) = last[row.process.rank.expect("a rank") as usize];
            // Of a rank that never came last there is nothing to prove.
            assert_eq!(row.last_proved.is_some(), row.last_over_hosts > 0);
            assert!(row.last_proved <= Some(times), "{seed}: {row:?}");
            let by = Nanos::from(by).us() * 1.0001 + 1.0;
            assert!(row.late_proved_us <= Some(by), "{seed}: {by} {row:?}");
            proved += row.last_proved.unwrap_or(0);
        }
    }
    // The test would prove nothing otherwise.
    assert!(proved > 1000, "{proved}");
}

#[test]
fn a_rank_that_is_always_late_moves_no_bound_past_the_truth() {
    let mut random = Random(3);
    let late = |_, rank| if rank == 3 { 5_000_000 } else { 0 };
    let job = job(&[Truth::default(); 2], 2, 10, late, &mut random);
    let report = report(&job.capture(&mut random));
    let row = &clocks(&report).hosts[0];
    let (low, high) = row.low_us.zip(row.high_us).expect("bounds");
    // It may be an offset of 5 ms and nobody late: that is not excluded, and not claimed.
    assert!(low < 0.0 && 5_000.0 < high, "{row:?}");
    assert!(row.offset_us.expect("an estimate").abs() < 10.0, "{row:?}");
    let arrivals = report.arrivals.as_ref().expect("operations");
    let (first, others) = arrivals.ranks.split_first().expect("ranks");
    assert_eq!(first.process.rank, Some(3));
    assert_eq!((first.last_over_hosts, first.last_proved), (499, Some(0)));
    assert!(others.iter().all(|r| r.last_proved.unwrap_or(0) == 0));
    let finding = &report.findings[0];
    assert!(!is_proved(finding), "{finding:?}");
}

#[test]
fn a_rank_that_is_late_now_and_then_is_proved_so() {
    let mut random = Random(4);
    let late = |i, rank| {
        if rank == 3 && i % 3 == 0 {
            5_000_000
        } else {
            0
        }
    };
    let job = job(
        &[truth(80_000_000, 20.0), truth(-13_000_000, -20.0)],
        2,
        10,
        late,
        &mut random,
    );
    let report = report(&job.capture(&mut random));
    let first = &report.arrivals.as_ref().expect("operations").ranks[0];
    assert_eq!(first.process.rank, Some(3));
    assert!(first.last_proved >= Some(160), "{first:?}");
    let late = first.late_proved_us.expect("proved");
    assert!((0.9..1.001).contains(&(late / (167.0 * 5e3))), "{late}");
    let finding = &report.findings[0];
    assert!(is_proved(finding), "{finding:?}");
    // Its launches are 5 µs before its kernels, on a host whose clock is known well enough.
    assert_eq!(finding.cause, Some(Cause::Host));
}

#[test]
fn a_clock_that_is_set_by_a_millisecond_is_a_step() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let offset = (random.uniform() - 0.5) * 2e8;
        let mut set = truth(offset as i64, (random.uniform() - 0.5) * 100.0);
        let when = 1_500_000_000 + (random.uniform() * 7e9) as i64;
        set.step = (when, if seed % 2 == 0 { 1_000_000 } else { -1_000_000 });
        let job = job(&[Truth::default(), set], 2, 10, |_, _| 0, &mut random);
        let report = report(&job.capture(&mut random));
        let found = clocks(&report);
        let [step] = &found.steps[..] else {
            panic!("{seed}: {:?}", found.steps)
        };
        // Times are told from the beginning of the window of the first operation on.
        let first = job.clocks[0].at(job.kernels[0][1].2);
        let began = beginning(window_of(HostTime(first))).0 - job.clocks[0].at(0);
        let at = (when - began) as f64 / 1e9;
        assert!(step.from_s <= at && at <= step.until_s, "{at}: {step:?}");
        assert!(step.until_s - step.from_s <= 2.0, "{step:?}");
        assert!((600.0..=1_000.0).contains(&step.least_us), "{step:?}");
        assert_eq!((&*step.host, &*step.against), ("node-1", "node-0"));
        // Both sides are told apart, also by the line that is applied to times.
        let line = &found.lines["node-1"];
        for ns in (0..10).map(|i| i * 1_000_000_000 + 500_000_000) {
            if (ns - when).abs() < 1_500_000_000 {
                continue;
            }
            let moved = line.on_reference(HostTime(job.clocks[1].at(ns)));
            let wrong = moved - Moment(job.clocks[0].at(ns));
            assert!(wrong.abs() < Nanos::US * 20.0, "{seed}: {ns}: {wrong:?}");
        }
        assert!(report.findings.iter().any(|f| f.kind() == Kind::ClockStep));
    }
}

#[test]
fn no_bound_is_made_of_what_does_not_enclose_a_kernel() {
    let mut random = Random(5);
    let mut job = job(&[Truth::default(); 2], 1, 1, |_, _| 0, &mut random);
    let nothing = |capture: &Capture| {
        let report = report(capture);
        let found = clocks(&report);
        let row = &found.hosts[0];
        assert_eq!((row.low_us, row.offset_us, row.source), (None, None, None));
        let unbounded = Note::Unbounded(vec!["node-1".to_owned()]);
        assert_eq!(found.notes[0], unbounded);
        let arrivals = report.arrivals.iter().flat_map(|a| &a.ranks);
        assert!(arrivals.clone().all(|rank| rank.last_proved.is_none()));
    };
    // Host times alone.
    let mut capture = job.capture(&mut random);
    let calls = capture.processes.iter_mut().flat_map(|p| &mut p.calls);
    calls.for_each(|call| call.gpu = GpuTimes::None);
    nothing(&capture);
    // Stamps of TREE, or of RING on the GPU's clock.
    for (algorithm, is_on_host) in [("TREE", true), ("RING", false)] {
        let mut capture = job.capture(&mut random);
        let algorithm = capture.names.intern(algorithm);
        for process in &mut capture.processes {
            process.shapes[0].parts = 0;
            process.shapes[0].algorithm = algorithm;
            for call in &mut process.calls {
                if !is_on_host {
                    let (start, stop) = call.gpu.on_either_clock().expect("it is timed");
                    call.gpu = GpuTimes::stamps(start, stop);
                }
                (call.channels_started, call.channels_stopped) = (1, 1);
            }
        }
        nothing(&capture);
    }
    // A root need not wait for those that are late.
    job.function = "Broadcast";
    nothing(&job.capture(&mut random));
}

#[test]
fn stamps_of_ring_on_the_hosts_clock_make_bounds() {
    let mut random = Random(6);
    let mut job = job(
        &[truth(0, 0.0), truth(42_000_000, 5.0)],
        2,
        5,
        |_, _| 0,
        &mut random,
    );
    job.error = 40_000;
    let mut capture = job.capture(&mut random);
    let ring = capture.names.intern("RING");
    for process in &mut capture.processes {
        process.shapes[0].parts = 0;
        process.shapes[0].algorithm = ring;
        for call in &mut process.calls {
            (call.channels_started, call.channels_stopped) = (1, 1);
        }
    }
    let report = report(&capture);
    let row = &clocks(&report).hosts[0];
    let (low, high) = row.low_us.zip(row.high_us).expect("bounds");
    assert!(
        low < 42_000.0 && 42_000.0 < high && high - low < 400.0,
        "{row:?}"
    );
    let estimate = row.offset_us.expect("an estimate");
    assert!((estimate - 42_000.0).abs() < 50.0, "{row:?}");
}

#[test]
fn hosts_that_share_no_operation_are_joined_by_a_third() {
    let mut random = Random(7);
    let mut job = Job::new(
        &[
            truth(0, 0.0),
            truth(30_000_000, 20.0),
            truth(-5_000_000, -20.0),
        ],
        1,
    );
    job.members = vec![vec![0, 1], vec![1, 2]];
    for i in 0..200 {
        for on in 0..2 {
            let late = [
                (random.uniform() * 3e4) as i64,
                (random.uniform() * 3e4) as i64,
            ];
            let at = 20_000_000 * i + 7_000_000 * on as i64;
            job.operation(on, at, &late, 60_000, &mut random);
        }
    }
    let report = report(&job.capture(&mut random));
    for (row, offset) in clocks(&report).hosts.iter().zip([30_000.0, -5_000.0]) {
        let (low, high) = row.low_us.zip(row.high_us).expect("bounds");
        assert!(
            low < offset + 200.0 && offset - 200.0 < high && high - low < 600.0,
            "{row:?}"
        );
        assert!((row.offset_us.expect("an estimate") - offset).abs() < 200.0);
    }
}

#[test]
fn a_step_that_another_host_saw_breaks_the_line_on_the_reference_s_clock() {
    // The host between is 20 s ahead, and sees at 25 s of its clock that the last one's was set at 5 s.
    let mut random = Random(11);
    let mut set = truth(0, 0.0);
    set.step = (5_400_000_000, 1_000_000);
    let mut job = Job::new(&[truth(0, 0.0), truth(20_000_000_000, 0.0), set], 1);
    job.members = vec![vec![0, 1], vec![1, 2]];
    for i in 0..500 {
        for on in 0..2 {
            let at = 20_000_000 * i + 7_000_000 * on as i64;
            job.operation(on, at, &[0, 0], 60_000, &mut random);
        }
    }
    let report = report(&job.capture(&mut random));
    let line = &clocks(&report).lines["node-2"];
    for ns in (0..10).map(|i| i * 1_000_000_000 + 500_000_000) {
        if (ns - set.step.0).abs() < 1_500_000_000 {
            continue;
        }
        let moved = line.on_reference(HostTime(job.clocks[2].at(ns)));
        let wrong = moved - Moment(job.clocks[0].at(ns));
        assert!(wrong.abs() < Nanos::US * 50.0, "{ns}: {wrong:?}");
    }
}

#[test]
fn what_is_given_is_used_and_held_against_operations() {
    let mut random = Random(8);
    let late = |_, rank| if rank == 3 { 5_000_000 } else { 0 };
    let job = job(&[Truth::default(); 2], 2, 10, late, &mut random);
    let capture = job.capture(&mut random);
    let with = |given: Given| {
        let mut analysis = crate::Analysis {
            given: Some(given),
            ..crate::Analysis::default()
        };
        capture
            .processes
            .iter()
            .for_each(|p| analysis.add(&capture, p));
        analysis.finish(&capture)
    };
    // Who knows that clocks agree knows who is late.
    let within = with(Given::within("100us").expect("a time"));
    let first = &within.arrivals.as_ref().expect("operations").ranks[0];
    assert_eq!(
        (first.process.rank, first.last_proved),
        (Some(3), Some(499))
    );
    assert!(is_proved(&within.findings[0]));
    let row = &clocks(&within).hosts[0];
    assert_eq!((row.source, row.contradicted), (Some("given"), Some(false)));
    assert_eq!(
        (row.offset_us, row.given_error_us),
        (Some(0.0), Some(100.0))
    );
    // An offset that operations exclude is told of, and proves nothing.
    let file = "node-0,0,1000\nnode-1,-9000000,1000\nnode-7,1,1";
    let wrong = with(Given::parse(file).expect("offsets"));
    let found = clocks(&wrong);
    assert_eq!(found.hosts[0].contradicted, Some(true));
    let [Note::Contradicted {
        against, windows, ..
    }, Note::NoSuchHost(host)] = &found.notes[..]
    else {
        panic!("{:?}", found.notes);
    };
    assert_eq!((*against, *windows, &**host), (13, 13, "node-7"));
    let first = &wrong.arrivals.as_ref().expect("operations").ranks[0];
    assert_eq!(first.last_proved, Some(0));
}

#[test]
fn a_rank_is_not_blamed_where_clocks_prove_that_others_came_later() {
    // Rank 0 comes first, and leaves long before rank 1, so that its kernel is the shorter one.
    let mut job = Job::new(&[Truth::default(); 2], 1);
    for i in 0..500 {
        let at = 20_000_000 * i;
        job.kernels[0].push((0, at, at + 2_000_000));
        job.kernels[1].push((0, at + 1_000_000, at + 6_000_000));
    }
    let capture = job.capture(&mut Random(10));
    let ranks = |report: &Report| {
        let ranks = &report.arrivals.as_ref().expect("operations").ranks;
        (
            ranks[0].process.rank,
            ranks[0].last_proved,
            ranks[0].last_refuted,
        )
    };
    let found = |report: &Report| report.findings.iter().any(|f| f.kind() == Kind::LateRank);
    let blamed = |report: &Report| {
        let arrivals = report.arrivals.as_ref().expect("operations");
        !crate::findings::late(arrivals, None, crate::arrivals::LEVEL).is_empty()
    };
    let assumed = report(&capture);
    assert_eq!(ranks(&assumed), (Some(0), Some(0), Some(0)));
    // By the ends of operations, it is last. But all that the others waited for it, they needed themselves.
    assert!(blamed(&assumed) && !found(&assumed));
    let mut analysis = crate::Analysis {
        given: Some(Given::Within(Nanos::US * 10.0)),
        ..crate::Analysis::default()
    };
    let processes = capture.processes.iter();
    processes.for_each(|process| analysis.add(&capture, process));
    let known = analysis.finish(&capture);
    assert_eq!(ranks(&known), (Some(0), Some(0), Some(499)));
    assert!(!blamed(&known) && !found(&known), "{:?}", known.findings);
}

#[test]
fn one_host_needs_no_comparison() {
    let mut random = Random(9);
    let job = job(&[Truth::default()], 4, 1, |_, _| 0, &mut random);
    let report = report(&job.capture(&mut random));
    assert!(report.clocks.is_none());
    let ranks = &report.arrivals.as_ref().expect("operations").ranks;
    assert!(ranks
        .iter()
        .all(|r| (r.last_over_hosts, r.last_proved) == (0, None)));
}
