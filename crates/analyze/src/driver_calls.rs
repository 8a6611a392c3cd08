//! How often the CUDA driver was called, by NCCL and by the program: in all, and per step. Of calls that may
//! take long, also for how long.
//!
//! The recorder writes what it counted now and then ([`setup::counts`]). [`of_capture`] sums up the last
//! counts of all processes. Per step, [`per_step`] takes two neighbouring readings if steps fill the time
//! between them, and places both within the steps.
//!
//! Rule: what nobody could see is null, and the row says why. Zero means that it was watched and did not
//! happen.

use crate::statistics::median;
use crate::steps::{Step, Steps};
use crate::time::Nanos;
use capture::counts::{NS, OF_DRIVER, OF_NCCL, SINCE_TIMED, TIMED};
use schemars::JsonSchema;
use serde::Serialize;
use setup::counts::Counts;
use tables::{Capture, Process};

/// Steps fill at least this share of the time between two readings that count.
const FILLED: f64 = 0.9;
/// So many steps must lie between readings.
const LEAST_STEPS: f64 = 1.0;

/// How often NCCL's proxy threads woke up.
const WAKEUPS: &str = "proxy_wakeups";

/// Why a counter has no figure of NCCL or of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFigure {
    /// NCCL is no library of its own in the program, so its calls are among the program's.
    NotToldApart,
    /// An older recorder did not count it.
    NotCounted,
    /// No thread has the name of one of NCCL's proxies.
    NoProxies,
    /// Only NCCL has proxy threads.
    OfNcclOnly,
}

/// The driver calls of a job.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DriverCalls {
    /// Processes that were counted.
    pub processes: u64,
    /// One for each counter.
    #[serde(skip)]
    pub rows: Vec<DriverCallRow>,
}

/// A counter.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DriverCallRow {
    /// What is counted, by a name that `ncclscope explain` knows.
    pub counter: &'static str,
    /// Calls of the CUDA driver that libnccl made, over all processes since the recorder began; null if they
    /// are not known (`why_null`).
    pub nccl: Option<u64>,
    /// Calls of the driver by libnccl in a step of the median rank, from readings between which the job did
    /// nothing but steps; null without these.
    pub nccl_per_step: Option<f64>,
    /// How long calls of the driver by libnccl took, over all processes and threads, s. It is measured of
    /// calls that are rare and may take long; null if not.
    pub nccl_s: Option<f64>,
    /// Calls of the CUDA driver by the program and its other libraries, over all processes; null if they are
    /// not known (`why_null`).
    pub program: Option<u64>,
    /// Calls of the driver by the program in a step of the median rank, from readings between which the job
    /// did nothing but steps; null without these.
    pub program_per_step: Option<f64>,
    /// How long calls of the driver by the program took, over all processes and threads, s; null if that is
    /// not measured.
    pub program_s: Option<f64>,
    /// Why `nccl` or `program` is null.
    #[serde(skip)]
    pub why_null: Option<NoFigure>,
}

/// The driver calls of a capture; `None` if no process was counted.
pub fn of_capture(capture: &Capture, steps: Option<&Steps>) -> Option<DriverCalls> {
    // `ncclscope attach` counts calls of NCCL in such lines, and none of the driver.
    let counted: Vec<(&Process, &Counts)> = (capture.processes.iter())
        .filter(|process| !process.is_attached())
        .filter_map(|process| Some((process, process.setup.counts.last()?)))
        .collect();
    if counted.is_empty() {
        return None;
    }
    let sum = |name: &str| -> u64 { counted.iter().map(|(_, last)| last.get(name)).sum() };
    let of_step = |name: &str| {
        let mut ranks: Vec<f64> = (counted.iter())
            .filter_map(|(process, _)| {
                let row = steps?.row_of(&process.host, process.pid)?;
                per_step(&process.setup.counts, &row.each, name)
            })
            .collect();
        ranks.sort_unstable_by(f64::total_cmp);
        median(&ranks)
    };
    let told_apart = counted.iter().all(|(_, last)| last.are_told_apart());
    let is_timed = counted.iter().all(|(_, last)| last.are_timed());
    let mut rows: Vec<DriverCallRow> = (OF_DRIVER.iter())
        .map(|name| {
            let of_nccl = format!("{OF_NCCL}{name}");
            let is_counted = is_timed || !SINCE_TIMED.contains(name);
            let of_nccl = Some(of_nccl).filter(|_| told_apart && is_counted);
            let has_time = is_timed && TIMED.contains(name);
            let time = |name: &str| Nanos::from(sum(&format!("{name}{NS}")));
            let time_s = |name: &str| has_time.then(|| time(name).seconds());
            DriverCallRow {
                counter: name,
                nccl: of_nccl.as_deref().map(sum),
                nccl_per_step: of_nccl.as_deref().and_then(of_step),
                nccl_s: of_nccl.as_deref().and_then(time_s),
                program: is_counted.then(|| sum(name)),
                program_per_step: is_counted.then(|| of_step(name)).flatten(),
                program_s: time_s(name),
                why_null: match (is_counted, told_apart) {
                    (false, _) => Some(NoFigure::NotCounted),
                    (true, false) => Some(NoFigure::NotToldApart),
                    (true, true) => None,
                },
            }
        })
        .collect();
    let has_proxies = sum("proxies") > 0;
    rows.push(DriverCallRow {
        counter: WAKEUPS,
        nccl: has_proxies.then(|| sum(WAKEUPS)),
        nccl_per_step: has_proxies.then(|| of_step(WAKEUPS)).flatten(),
        nccl_s: None,
        program: None,
        program_per_step: None,
        program_s: None,
        why_null: Some(if has_proxies {
            NoFigure::OfNcclOnly
        } else {
            NoFigure::NoProxies
        }),
    });
    Some(DriverCalls {
        processes: counted.len() as u64,
        rows,
    })
}

/// A counter's growth in a step, from the readings that have steps between them.
fn per_step(readings: &[Counts], steps: &[Step], name: &str) -> Option<f64> {
    let (mut grown, mut done) = (0u64, 0.0);
    for pair in readings.windows(2) {
        let [from, to] = [&pair[0], &pair[1]];
        let (so_many, filled_ns) = between(steps, from.at_ns, to.at_ns);
        if filled_ns < FILLED * (to.at_ns - from.at_ns) as f64 {
            continue;
        }
        grown += to.get(name).saturating_sub(from.get(name));
        done += so_many;
    }
    (done >= LEAST_STEPS).then(|| grown as f64 / done)
}

/// How many steps lie between two moments, parts included, and how much of the time they fill.
fn between(steps: &[Step], from: i64, to: i64) -> (f64, f64) {
    let (mut so_many, mut filled) = (0.0, 0.0);
    for step in steps {
        let Some((start, length)) = step.start_ns.zip(step.time_ns) else {
            continue;
        };
        let end = start.saturating_add_unsigned(length);
        let inside = to.min(end).saturating_sub(from.max(start)).max(0) as f64;
        if inside > 0.0 {
            filled += inside;
            so_many += inside / length as f64;
        }
    }
    (so_many, filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const S: i64 = 1_000_000_000;

    fn reading(at_s: i64, of: &[(&str, u64)]) -> Counts {
        let of: BTreeMap<String, u64> = of.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
        Counts {
            at_ns: at_s * S,
            of,
        }
    }

    /// Steps of 100 ms from 10 s on.
    fn steps(n: i64) -> Vec<Step> {
        let step = |i: i64| Step {
            start_ns: Some(10 * S + i * S / 10),
            time_ns: Some(S as u64 / 10),
            communication_ns: None,
            end_ns: None,
        };
        (0..n).map(step).collect()
    }

    #[test]
    fn only_readings_with_steps_between_them_count() {
        // 30 launches a second. Before the steps and behind them, 1000 a second.
        let launches = |at_s: i64, n: u64| reading(at_s, &[("kernel_launches", n)]);
        let readings = [
            launches(9, 0),
            launches(10, 1000),
            launches(11, 1030),
            launches(12, 1060),
            launches(13, 2060),
        ];
        let found = per_step(&readings, &steps(20), "kernel_launches");
        assert_eq!(found, Some(3.0));
        assert_eq!(per_step(&readings, &steps(20), "copies"), Some(0.0));
        // Half of a step is none.
        assert_eq!(per_step(&readings[..3], &steps(5), "kernel_launches"), None);
    }

    fn capture(readings: &[Vec<Counts>]) -> Capture {
        let processes = readings.iter().enumerate().map(|(pid, readings)| {
            let mut process = Process {
                host: "n1".to_owned(),
                pid: pid as u32,
                ..Process::default()
            };
            process.setup.counts.clone_from(readings);
            process
        });
        Capture {
            processes: processes.collect(),
            ..Capture::default()
        }
    }

    #[test]
    fn processes_add_up_and_what_was_not_seen_is_null() {
        let one = |told: u64| {
            let of = [
                ("told_apart", told),
                ("copies", 5),
                ("nccl.copies", 2),
                ("proxies", told),
                ("proxy_wakeups", 70 * told),
            ];
            vec![reading(9, &[]), reading(10, &of)]
        };
        let calls = of_capture(&capture(&[one(1), one(1)]), None).expect("counted");
        let row = |calls: &DriverCalls, name: &str| {
            let mut rows = calls.rows.iter();
            rows.find(|row| row.counter == name).expect("a row").clone()
        };
        let copies = row(&calls, "copies");
        assert_eq!((copies.nccl, copies.program), (Some(4), Some(10)));
        assert_eq!((copies.nccl_per_step, copies.why_null), (None, None));
        assert_eq!(row(&calls, "ipc_opens").nccl, Some(0));
        assert_eq!(row(&calls, WAKEUPS).nccl, Some(140));
        let calls = of_capture(&capture(&[one(1), one(0)]), None).expect("counted");
        let copies = row(&calls, "copies");
        assert_eq!((copies.nccl, copies.program), (None, Some(10)));
        assert_eq!(copies.why_null, Some(NoFigure::NotToldApart));
        // An older recorder neither counted mappings nor measured any time.
        let mappings = row(&calls, "mappings");
        assert_eq!(
            (mappings.program, mappings.why_null),
            (None, Some(NoFigure::NotCounted))
        );
        assert_eq!(row(&calls, "ipc_opens").program_s, None);
        let timed = [
            ("told_apart", 1),
            ("timed", 1),
            ("nccl.mappings", 2),
            ("nccl.mappings_ns", 1_500_000),
        ];
        let timed = || vec![reading(9, &timed)];
        let calls = of_capture(&capture(&[timed(), timed()]), None).expect("counted");
        let mappings = row(&calls, "mappings");
        assert_eq!((mappings.nccl, mappings.nccl_s), (Some(4), Some(0.003)));
        assert_eq!((mappings.program, mappings.program_s), (Some(0), Some(0.0)));
        assert_eq!(
            (row(&calls, "copies").nccl_s, mappings.why_null),
            (None, None)
        );
        let none = capture(&[vec![reading(9, &[("told_apart", 1)])]]);
        let calls = of_capture(&none, None).expect("counted");
        assert_eq!(row(&calls, WAKEUPS).why_null, Some(NoFigure::NoProxies));
        assert_eq!(of_capture(&capture(&[Vec::new()]), None), None);
    }
}
