//! Jobs of which the truth is known: how long each step would have taken without recording.

use super::*;
use crate::executions::{Steps, Walk};
use crate::fixtures::Random;
use ::capture::live::part;
use ::capture::windows::{ActivityKind, End};
use tables::graphs::Launch;
use tables::windows::{GpuActivity, Window};
use tables::{Call, GpuTimes, Shape};

const MS: f64 = 1e6;

/// A job, and what recording does to it.
#[derive(Clone, Copy)]
struct Job {
    steps: usize,
    step_ms: f64,
    /// Calls in a step; 0 is one launch of a graph.
    calls: usize,
    /// How much longer a step takes with events, and how much in a window.
    events: f64,
    windows: f64,
    /// Steps that the host is ahead of the GPU.
    ahead: usize,
    /// Spread of a step, and how alike neighbours are.
    spread: f64,
    alike: f64,
    /// How much longer the last step takes than the first.
    drift: f64,
    /// From one window to the next, s.
    period: f64,
    /// Every so many steps there is a pause of 3 s.
    pauses: usize,
}

const TRAINING: Job = Job {
    steps: 6000,
    step_ms: 20.0,
    calls: 3,
    events: 0.01,
    windows: 0.04,
    ahead: 0,
    spread: 0.05,
    alike: 0.3,
    drift: 0.2,
    period: 4.0,
    pauses: 0,
};

const DECODING: Job = Job {
    steps: 24_000,
    step_ms: 1.0,
    calls: 0,
    events: 0.0,
    windows: 0.035,
    ahead: 50,
    spread: 0.02,
    alike: 0.5,
    drift: -0.1,
    period: 2.0,
    pauses: 0,
};

fn normal(random: &mut Random) -> f64 {
    (-2.0 * (1.0 - random.uniform()).ln()).sqrt() * (random.uniform() * std::f64::consts::TAU).cos()
}

/// What one rank leaves, and what recording cost it.
fn play(job: &Job, seed: u64) -> (Process, f64) {
    let mut random = Random(seed);
    // As the recorder does it: a window in one half of each period and a quiet spell in the other.
    let half = job.period / 2.0;
    let mut spells: Vec<(bool, f64, f64)> = Vec::new();
    let whole = job.steps as f64 * job.step_ms / 1e3;
    for number in 2..(1.5 * whole / half) as usize {
        let open = (number as f64 + 0.7 * random.uniform()) * half;
        let quiet = number % 2 != 0;
        let length: f64 = if quiet { 0.4 } else { 0.2 };
        let from = spells
            .last()
            .map_or(0.0, |spell| spell.2 + half / 3.0 * 1e9);
        if open * 1e9 > from {
            spells.push((quiet, open * 1e9, (open + length) * 1e9));
        }
    }
    let mut process = Process::default();
    let function = tables::Name::default();
    process.shapes = (0..job.calls.max(1))
        .map(|call| Shape {
            function,
            count: call as u64,
            parts: part::EVENTS,
            ..Shape::default()
        })
        .collect();
    let (mut noise, mut without) = (0.0, 0.0);
    // When each step ended on the GPU.
    let mut ends: Vec<f64> = Vec::with_capacity(job.steps);
    let begin = 1e9;
    let mut ran = vec![0.0f64; spells.len()];
    let mut spell = 0;
    let mut paused = 0.0;
    for step in 0..job.steps {
        noise = job.alike * noise + (1.0 - job.alike * job.alike).sqrt() * normal(&mut random);
        let age = step as f64 / job.steps as f64;
        let slowly = 1.0 + job.drift * age;
        let usual = job.step_ms * MS * slowly * (1.0 + job.spread * noise).max(0.2);
        without += usual;
        let ready = |back: usize| step.checked_sub(back).map_or(begin, |i| ends[i]);
        let (mut host, mut gpu) = (ready(1 + job.ahead), ready(1));
        if job.pauses != 0 && step % job.pauses == job.pauses / 2 {
            paused += (gpu + 3e9 - host.max(gpu)).max(0.0);
            host = gpu + 3e9;
        }
        let calls = job.calls.max(1);
        for call in 0..calls {
            while spells.get(spell).is_some_and(|s| s.2 < host) {
                spell += 1;
            }
            let of = spells.get(spell).filter(|s| s.1 <= host);
            let (slower, timed) = match of {
                Some((true, ..)) => (0.0, false),
                Some((false, ..)) => (job.events + job.windows, true),
                None => (job.events, true),
            };
            let start = gpu.max(host);
            gpu = start + usual / calls as f64 * (1.0 + slower);
            if of.is_some() {
                ran[spell] = gpu;
            }
            if job.calls == 0 {
                process.graphs.launches.push(Launch {
                    graph: 1,
                    at: host as i64,
                    took: 1,
                    stream: 7,
                    gpu: None,
                });
            } else {
                process.calls.push(Call {
                    ticket: (step * calls + call) as u64,
                    shape: call as u32,
                    api_ns: host as i64,
                    launch_start_ns: host as i64,
                    return_ns: host as i64 + 1,
                    gpu: if timed {
                        GpuTimes::OnHost {
                            start: start as i64,
                            stop: gpu as i64,
                            error: 50,
                        }
                    } else {
                        GpuTimes::None
                    },
                    channels_started: u16::from(timed),
                    channels_stopped: u16::from(timed),
                    sealed: true,
                    ..Call::default()
                });
            }
            host += usual / calls as f64 * 0.9;
        }
        ends.push(gpu);
    }
    let last = ends.last().copied().unwrap_or(0.0);
    process.windows.list = spells
        .iter()
        .zip(ran)
        .enumerate()
        .filter(|(_, (spell, _))| spell.2 < last)
        .map(|(number, ((quiet, open, end), ran))| Window {
            number: number as u32 + 1,
            planned: number as u64,
            opening: *open as i64,
            open: *open as i64,
            closing: *end as i64,
            closed: *end as i64,
            end: if *quiet { End::Quiet } else { End::Planned },
            ran: (!quiet && ran > 0.0)
                .then(|| GpuActivity {
                    device: 0,
                    start: ran as i64 - 1000,
                    end: ran as i64,
                    name: 0,
                    stream: 7,
                    correlation: 1,
                    graph: 1,
                    node: 0,
                    kind: ActivityKind::Kernel,
                    size: 1,
                })
                .into_iter()
                .collect(),
            ..Window::default()
        })
        .collect();
    (process, (last - begin - paused) / without - 1.0)
}

fn cost(processes: &[&Process]) -> Cost {
    let mut gatherer = Gatherer::default();
    for process in processes {
        let mut plan = ProcessSpells::new(process);
        let walk = Walk::new(process);
        walk.for_each(&mut Steps::default(), |execution| {
            plan.add(process, execution);
        });
        gatherer.add(process, plan);
    }
    gatherer.finish().expect("time has passed")
}

/// In how many of a hundred jobs the interval covers the truth; the mean error of the figure and the mean
/// half width.
fn coverage(job: Job, jobs: u64) -> (f64, f64, f64) {
    let (mut covered, mut error, mut width) = (0, 0.0, 0.0);
    for seed in 0..jobs {
        let (process, truth) = play(&job, 1000 * seed + 17);
        let gpu = cost(&[&process]).gpu.expect("spells enough");
        let (low, high) = gpu.interval.expect("with an interval");
        covered += u32::from((low..=high).contains(&truth));
        error += gpu.share - truth;
        width += (high - low) / 2.0;
    }
    let n = jobs as f64;
    (100.0 * f64::from(covered) / n, error / n, width / n)
}

#[test]
fn an_interval_covers_the_truth_in_95_of_100_jobs() {
    let jobs = [
        ("as it is", TRAINING, 0.8),
        (
            "the host is ahead",
            Job {
                ahead: 3,
                ..TRAINING
            },
            0.8,
        ),
        (
            "short",
            Job {
                steps: 2000,
                ..TRAINING
            },
            1.7,
        ),
        (
            "without a cost",
            Job {
                events: 0.0,
                windows: 0.0,
                ..TRAINING
            },
            0.8,
        ),
        (
            "pauses",
            Job {
                pauses: 700,
                ..TRAINING
            },
            0.8,
        ),
        ("graphs", DECODING, 0.1),
    ];
    let check = |(name, job, widest): (&str, Job, f64)| {
        let n = 120;
        let (covered, error, width) = coverage(job, n);
        println!(
            "{name}: {covered:.0} %, {:.3} %, {:.3} %",
            100.0 * error,
            100.0 * width
        );
        assert!((90.0..=99.5).contains(&covered), "{name}: {covered} %");
        // The mean of all jobs is right, and the interval is of use.
        assert!(
            error.abs() < 2.0 * width / (n as f64).sqrt(),
            "{name}: {error}"
        );
        assert!(100.0 * width < widest, "{name}: {width}");
    };
    std::thread::scope(|scope| {
        for job in jobs {
            scope.spawn(move || check(job));
        }
    });
}

#[test]
fn too_few_spells_tell_nothing() {
    let (process, _) = play(
        &Job {
            steps: 300,
            ..TRAINING
        },
        1,
    );
    let few = cost(&[&process]);
    assert!((1..LEAST as u64).contains(&few.quiet_spells), "{few:?}");
    assert_eq!((few.gpu, few.events, few.windows), (None, None, None));
    // What is counted is known.
    assert_eq!((few.calls, few.timed_launches > 0), (900, true));
    assert!(few.callbacks > 0.0 && few.events_counted > few.callbacks);
}

#[test]
fn what_cupti_adds_to_launches_is_counted() {
    let (mut process, _) = play(&DECODING, 3);
    let asked = |kind: DriverCallKind| tables::windows::DriverCall {
        at: 0,
        took: 0,
        kind,
        thread: 1,
        stream: 7,
        object: 0,
    };
    assert_eq!(cost(&[&process]).cupti_at_most, Some(0.0));
    let windows = process.windows.list.iter_mut();
    for window in windows.filter(|window| !window.is_quiet()) {
        // Each 0.2 s long: 2000 launches and 100 of graphs add 17 ms and 0.35 ms.
        window.closing = window.open + 200_000_000;
        window.asked = vec![asked(DriverCallKind::Launch); 1500];
        window.asked.extend(vec![asked(DriverCallKind::Copy); 500]);
        window
            .asked
            .extend(vec![asked(DriverCallKind::LaunchGraph); 100]);
        window
            .asked
            .extend(vec![asked(DriverCallKind::Record); 900]);
    }
    let share = cost(&[&process]).cupti_at_most.expect("there are windows");
    assert!((share - 17.35 / 200.0).abs() < 1e-6, "{share}");
    process.windows.list.retain(Window::is_quiet);
    assert_eq!(cost(&[&process]).cupti_at_most, None);
}

#[test]
fn what_was_not_recorded_costs_nothing() {
    let (mut process, _) = play(&DECODING, 3);
    process.windows.list.retain(Window::is_quiet);
    let none = cost(&[&process]);
    let nothing = Share {
        share: 0.0,
        interval: Some((0.0, 0.0)),
    };
    assert_eq!(
        (none.gpu, none.events, none.windows),
        (Some(nothing), Some(nothing), Some(nothing))
    );
}

#[test]
fn ranks_of_one_job_are_no_further_evidence() {
    let (process, _) = play(&TRAINING, 5);
    let (one, four) = (cost(&[&process]), cost(&[&process; 4]));
    assert_eq!(one.gpu, four.gpu);
    assert_eq!(one.quiet_spells, four.quiet_spells);
    assert_eq!((4 * one.calls, one.callbacks), (four.calls, four.callbacks));
}

#[test]
fn a_job_that_stood_still_in_a_spell_is_left_out_there() {
    let job = Job {
        pauses: 150,
        ..TRAINING
    };
    let (process, truth) = play(&job, 7);
    let found = cost(&[&process]);
    assert!(found.left_out > 0, "{found:?}");
    let (low, high) = found.gpu.and_then(|gpu| gpu.interval).expect("enough");
    assert!(
        low < truth && truth < high && high - low < 0.03,
        "{found:?}"
    );
}

#[test]
fn a_cost_is_above_the_budget_if_it_is_so_for_certain() {
    let (process, _) = play(&TRAINING, 5);
    let mut found = cost(&[&process]);
    let mut over = |share: f64, low: f64, high: f64| {
        found.gpu = Some(Share {
            share,
            interval: Some((low, high)),
        });
        found.budget = Some(0.01);
        found.over_budget()
    };
    assert_eq!(over(0.0031, 0.0012, 0.005), None);
    assert_eq!(over(0.03, 0.02, 0.04), Some(OverBudget::Windows));
}

#[test]
fn an_upper_limit_above_the_budget_is_remarked() {
    let (process, _) = play(&TRAINING, 5);
    let mut found = cost(&[&process]);
    (found.gpu, found.events, found.events_counted) = (None, None, 0.0);
    (found.cupti_at_most, found.budget) = (Some(0.2026), Some(0.01));
    assert_eq!(found.over_budget(), Some(OverBudget::CuptiAtMost));
    found.cupti_at_most = Some(0.0099);
    assert_eq!(found.over_budget(), None);
}
