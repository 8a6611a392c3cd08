//! Parts of recorded runs: some steps, the last of it, phases.

use analyze::notes::Note;
use analyze::spans::Part;
use analyze::{report, Report};
use std::path::Path;
use tables::{Capture, Communicator};

fn open(name: &str) -> Capture {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    Capture::open(&data.join(name)).expect("it opens")
}

fn of(name: &str, part: &Part) -> Report {
    let mut capture = open(name);
    part.keep(&mut capture).expect("there is such a part");
    report(&capture)
}

fn steps(report: &Report) -> (u64, f64) {
    let steps = report.steps.as_ref().expect("steps");
    let row = steps.reference().expect("a rank with steps");
    let mean = row.step_us.as_ref().expect("times").mean;
    (row.steps, mean)
}

/// The loss of the first finding as a share of the account's steps.
fn share(report: &Report) -> f64 {
    let loss = report.findings[0].loss.as_ref().expect("a price");
    loss.wall_us / report.account.as_ref().expect("an account").wall_us
}

#[test]
fn some_steps_are_told_as_all_of_them() {
    for name in ["ddp_late_host", "short_fsdp2_gpu", "fsdp1_late_host"] {
        let whole = report(&open(name));
        let (n, step) = steps(&whole);
        let (from, to) = (n as usize / 4, n as usize * 3 / 4);
        let part = of(name, &Part::Steps(from..to));
        let (kept, of_part) = steps(&part);
        // The last step has no next one.
        let asked = (to - from) as u64;
        assert!(
            (asked - 1..=asked).contains(&kept),
            "{name}: {kept} of {asked}"
        );
        assert!(
            (of_part / step - 1.0).abs() < 0.1,
            "{name}: {of_part} and {step}"
        );
        assert_eq!(part.findings[0].cause, whole.findings[0].cause, "{name}");
        assert_eq!(part.findings[0].rank(), whole.findings[0].rank(), "{name}");
        let (a, b) = (share(&whole), share(&part));
        assert!((a / b - 1.0).abs() < 0.3, "{name}: {a} and {b}");
        let said = format!("steps {from} to {} of {n}", to - 1);
        assert_eq!(part.job.part.as_deref(), Some(&*said));
        let Note::Part { part: named, .. } = &part.notes[0] else {
            panic!("{:?}", part.notes[0]);
        };
        assert_eq!(*named, said);
        let wall = part.ranks.wall_us.expect("times").max;
        assert!(
            (wall / (asked as f64 * of_part) - 1.0).abs() < 0.1,
            "{name}: {wall}"
        );
        // Whether the recording is complete is said of all of the run.
        let counts = |report: &Report| {
            let of = &report.completeness;
            (of.announced, of.recorded)
        };
        assert_eq!(counts(&part), counts(&whole), "{name}");
        assert_eq!(part.problems.len(), whole.problems.len(), "{name}");
    }
}

#[test]
fn all_ranks_begin_the_last_seconds_with_the_same_operation() {
    let whole = open("ddp_late_host");
    let calls = |capture: &Capture| {
        let all = capture.processes.iter().map(|process| process.calls.len());
        all.collect::<Vec<usize>>()
    };
    let mut last = open("ddp_late_host");
    Part::Last(2_000_000_000).keep(&mut last).expect("calls");
    let kept = calls(&last);
    assert!(kept.iter().all(|n| *n > 0 && *n == kept[0]), "{kept:?}");
    assert!(kept[0] < calls(&whole)[0]);
    let first = |at: usize| &last.processes[at].calls[0];
    assert_eq!(first(0).seq, first(1).seq);
    for node in &last.nodes {
        let points = node.series.iter().flat_map(|series| &series.points);
        assert!(points.map(|(at, _)| *at).min() >= Some(newest(&whole) - 2_000_000_000));
    }
    // Longer than the run: all of it.
    let mut all = open("ddp_late_host");
    Part::Last(i64::MAX / 2).keep(&mut all).expect("calls");
    assert_eq!(calls(&all), calls(&whole));
}

/// When the newest call was made.
fn newest(capture: &Capture) -> i64 {
    let calls = capture.processes.iter().flat_map(|process| &process.calls);
    calls.map(|call| call.api_ns).max().expect("calls")
}

#[test]
fn the_last_of_a_run_is_the_time_that_was_asked_for() {
    let whole = open("ddp_late_host");
    let newest = newest(&whole);
    // A process has more than 64 calls in a second, and fewer in 10 ms.
    for span in [1_000_000, 10_000_000, 100_000_000, 1_000_000_000] {
        let mut last = open("ddp_late_host");
        Part::Last(span).keep(&mut last).expect("calls");
        let is_in = |call: &tables::Call| call.api_ns >= newest - span;
        // Each call but for those of an operation that some rank began before.
        let begun_before = |of: &tables::Process, call: &tables::Call| {
            let key = |of: &tables::Process, call: &tables::Call| {
                let shape = &of.shapes[call.shape as usize];
                (shape.communicator, shape.function, call.seq)
            };
            let others = whole.processes.iter();
            let mut all = others.flat_map(|other| other.calls.iter().map(move |c| (other, c)));
            all.any(|(other, c)| !is_in(c) && key(other, c) == key(of, call))
        };
        for (last, whole) in last.processes.iter().zip(&whole.processes) {
            assert!(last.calls.iter().all(is_in), "{span}");
            let kept: Vec<u64> = last.calls.iter().map(|call| call.ticket).collect();
            let asked = whole.calls.iter().filter(|call| is_in(call));
            for left in asked.filter(|call| !kept.contains(&call.ticket)) {
                assert!(begun_before(whole, left), "{span}: {left:?}");
            }
        }
    }
}

#[test]
fn a_rare_operation_of_all_ranks_leaves_nothing_else_out() {
    // Both ranks make calls on communicators of their own, and one on the common one, late.
    let mut capture = open("ddp_late_host");
    let own = |index: usize| Communicator {
        id: format!("own{index}"),
        hash: index as u64,
        ..simulate::communicator(index, &[index])
    };
    capture.communicators.extend([own(0), own(1)]);
    let common = capture.communicators.len() as u32 - 2;
    for (index, process) in capture.processes.iter_mut().enumerate() {
        let mut shapes = process.shapes.clone();
        for shape in &mut shapes {
            shape.communicator = Some(common + index as u32);
        }
        let n = process.shapes.len() as u32;
        process.shapes.extend(shapes);
        let late = process.calls.len() - 20;
        for call in &mut process.calls[..late] {
            call.shape += n;
        }
    }
    let newest = newest(&capture);
    let whole = capture.processes.clone();
    let is_in = |call: &&tables::Call| call.api_ns >= newest - 1_000_000_000;
    Part::Last(1_000_000_000).keep(&mut capture).expect("calls");
    for (last, whole) in capture.processes.iter().zip(&whole) {
        assert_eq!(last.calls.len(), whole.calls.iter().filter(is_in).count());
        assert!(last.calls.len() > 40);
    }
}

#[test]
fn ranks_with_other_steps_are_named_and_the_cost_is_that_of_the_run() {
    let mut capture = open("ddp_late_host");
    assert!(report(&capture).cost.is_some());
    Part::Steps(10..20).keep(&mut capture).expect("steps");
    assert_eq!(capture.part.as_deref(), Some("steps 10 to 19 of 504"));
    assert!(report(&capture).cost.is_none());
    let mut capture = open("ddp_late_host");
    for (rank, process) in capture.processes.iter_mut().enumerate() {
        let from = process.calls[0].api_ns;
        let ns = 10_000_000 * (rank as i64 + 1);
        let step = |n: i64| tables::marks::MarkedStep {
            from: from + n * ns,
            to: from + (n + 1) * ns,
            ..Default::default()
        };
        process.marks.steps = (0..100 / (rank as i64 + 1)).map(step).collect();
    }
    Part::Steps(10..20).keep(&mut capture).expect("steps");
    let said = "steps 10 to 19 of 100 (as rank 0 counts them; on rank 1 there are 50 steps)";
    assert_eq!(capture.part.as_deref(), Some(said));
}

#[test]
fn launches_of_graphs_are_those_of_the_part() {
    let whole = report(&open("decode_graphs_gpu"));
    let (n, step) = steps(&whole);
    let part = of("decode_graphs_gpu", &Part::Steps(0..n as usize / 2));
    let calls = |report: &Report| report.completeness.in_graphs.expect("counted") as f64;
    let ratio = calls(&part) / calls(&whole);
    assert!((0.4..0.6).contains(&ratio), "{ratio}");
    assert!((steps(&part).1 / step - 1.0).abs() < 0.1);
}

#[test]
fn a_phase_has_what_began_in_it() {
    let mut capture = open("ddp_late_host");
    let mut spans = Vec::new();
    for process in &mut capture.processes {
        let at = |part: usize| process.calls[process.calls.len() * part / 10].api_ns;
        let two = [(at(2), at(3)), (at(6), at(8))];
        process.marks.names = vec!["train".into(), "eval".into()];
        let phase = |(from, to): (i64, i64)| tables::marks::MarkedPhase { from, to, name: 1 };
        process.marks.phases = two.map(phase).to_vec();
        spans.push(two);
    }
    let before: usize = capture.processes[0].calls.len();
    Part::Phase("eval".into())
        .keep(&mut capture)
        .expect("phases");
    for (process, spans) in capture.processes.iter().zip(&spans) {
        let is_in = |at: i64| spans.iter().any(|(from, to)| (*from..*to).contains(&at));
        assert!(process.calls.iter().all(|call| is_in(call.api_ns)));
        let share = process.calls.len() as f64 / before as f64;
        assert!((0.28..0.32).contains(&share), "{share}");
    }
    assert_eq!(capture.part.as_deref(), Some("2 phases `eval`"));
    let said = Part::Phase("test".into()).keep(&mut capture);
    let said = said.expect_err("no such phase").to_string();
    assert_eq!(said, "expected a phase `test`, found `eval`, `train`");
}

#[test]
fn what_is_not_there_is_an_error_that_says_what_is() {
    let no = |name: &str, part: &Part| {
        let kept = part.keep(&mut open(name));
        kept.expect_err("no such part").to_string()
    };
    let said = no("ddp_late_host", &Part::Steps(100_000..100_001));
    assert!(said.starts_with("expected steps from 0 to "), "{said}");
    let said = no("killed_228", &Part::Steps(0..1));
    assert!(said.contains("no pattern"), "{said}");
    let said = no("ddp_late_host", &Part::Phase("eval".into()));
    assert_eq!(said, "expected a phase `eval`, found none");
}
