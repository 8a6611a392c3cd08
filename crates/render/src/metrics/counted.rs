//! Counts of all calls since the start, process by process, and the rule that no counter falls.
//!
//! Whoever reads counters takes a fall for a new start, and what is left for new calls. So a process whose
//! files a file system does not show for a moment keeps its counts ([`Counted`]), and a series stays at the
//! highest value that was said ([`Highest`]). A new attempt of the job begins with nothing.

use super::{Family, Kind, Labels, Value};
use capture::live::flag;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use tables::sums::Sum;
use tables::{Capture, Process};

/// Calls of one kind: communicator's name and ranks, function and class of size.
pub(super) type Key = [String; 4];

/// Up to so many bytes, and the name of that class.
const SIZES: [(u64, &str); 10] = [
    (1 << 10, "1KiB"),
    (16 << 10, "16KiB"),
    (256 << 10, "256KiB"),
    (1 << 20, "1MiB"),
    (4 << 20, "4MiB"),
    (16 << 20, "16MiB"),
    (64 << 20, "64MiB"),
    (256 << 20, "256MiB"),
    (1 << 30, "1GiB"),
    (u64::MAX, "more"),
];

/// The class of a size: the first that it fits in.
pub(super) fn size(bytes: Option<u64>) -> &'static str {
    let class = |bytes| SIZES.iter().find(|(most, _)| bytes <= *most);
    bytes.and_then(class).map_or("unknown", |(_, name)| name)
}

/// What was counted of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub sum: Sum,
    /// Bytes of its calls.
    pub bytes: u64,
}

impl Counts {
    pub(super) fn merge(&mut self, other: &Counts) {
        self.sum.merge(&other.sum);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// What a process counted.
#[derive(Clone, Debug, Default)]
pub(super) struct OfProcess {
    pub rank: Option<u32>,
    pub host: String,
    pub pid: u32,
    pub by_key: BTreeMap<Key, Counts>,
    /// By CUDA's number of the GPU.
    pub by_device: BTreeMap<Option<u32>, Counts>,
    /// Calls that are not over, now.
    pub open: BTreeMap<Option<u32>, u64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Counted {
    attempt: u32,
    processes: BTreeMap<PathBuf, OfProcess>,
}

impl Counted {
    /// Takes what is known now. Returns whether this is a new attempt, or another job in the same folder.
    pub(super) fn look(&mut self, capture: &Capture) -> bool {
        let attempt = capture.attempts.last().map_or(0, |last| last.number);
        let is_known = |process: &Process| self.processes.contains_key(&process.file);
        let is_new = attempt > self.attempt || !capture.processes.iter().any(is_known);
        if is_new {
            self.processes.clear();
            self.attempt = attempt;
        }
        for of in self.processes.values_mut() {
            of.open.clear();
        }
        for process in &capture.processes {
            let new = of_process(capture, process);
            self.processes.insert(process.file.clone(), new);
        }
        is_new
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = &OfProcess> {
        self.processes.values()
    }
}

/// The highest value of each series of a counter or histogram.
#[derive(Debug, Default)]
pub(super) struct Highest(HashMap<(&'static str, Labels), Value>);

impl Highest {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Raises what would have fallen.
    pub(super) fn raise(&mut self, families: &mut [Family]) {
        let counting = families.iter_mut().filter(|of| of.kind != Kind::Gauge);
        for family in counting {
            for sample in &mut family.samples {
                let key = (family.name, sample.labels.clone());
                let highest = self.0.entry(key).or_insert_with(|| sample.value.clone());
                if falls(highest, &sample.value) {
                    sample.value = highest.clone();
                } else {
                    highest.clone_from(&sample.value);
                }
            }
        }
    }
}

fn falls(before: &Value, now: &Value) -> bool {
    match (before, now) {
        (Value::Count(before), Value::Count(now)) => now < before,
        (Value::Number(before), Value::Number(now)) => now < before,
        // As a whole: the buckets of one look belong together.
        (Value::Times { count: before, .. }, Value::Times { count: now, .. }) => now < before,
        _ => false,
    }
}

fn of_process(capture: &Capture, process: &Process) -> OfProcess {
    let mut of = OfProcess {
        rank: process.rank,
        host: process.host.clone(),
        pid: process.pid,
        ..OfProcess::default()
    };
    for (shape, sum) in process.shapes.iter().zip(&process.sums) {
        // What was captured ran when its graph was launched, and not then.
        if sum.calls == 0 || shape.is(flag::CAPTURED) {
            continue;
        }
        let communicator = shape
            .communicator
            .and_then(|of| capture.communicators.get(of as usize));
        let name = communicator.and_then(|of| of.name.clone());
        let ranks = shape.nranks.map_or_else(String::new, |n| n.to_string());
        let function = capture.names.get(shape.function).unwrap_or("unknown");
        let bytes = capture.bytes(shape);
        let key = [
            name.unwrap_or_default(),
            ranks,
            function.to_owned(),
            size(bytes).to_owned(),
        ];
        let counts = Counts {
            sum: *sum,
            bytes: bytes.unwrap_or(0).saturating_mul(sum.calls),
        };
        of.by_key.entry(key).or_default().merge(&counts);
        of.by_device.entry(shape.device).or_default().merge(&counts);
    }
    if !process.ended {
        for call in process.calls.iter().filter(|call| !call.sealed) {
            let shape = &process.shapes[call.shape as usize];
            if !shape.is(flag::CAPTURED) {
                *of.open.entry(shape.device).or_default() += 1;
            }
        }
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::Attempt;

    fn capture(attempt: u32, processes: &[(&str, u64)]) -> Capture {
        let process = |(file, calls): &(&str, u64)| Process {
            file: PathBuf::from(file),
            shapes: vec![tables::Shape::default()],
            sums: vec![Sum {
                calls: *calls,
                ..Sum::default()
            }],
            ..Process::default()
        };
        Capture {
            processes: processes.iter().map(process).collect(),
            attempts: vec![Attempt {
                number: attempt,
                ..Attempt::default()
            }],
            ..Capture::default()
        }
    }

    fn calls(counted: &Counted) -> u64 {
        let all = counted.processes().flat_map(|of| of.by_key.values());
        all.map(|counts| counts.sum.calls).sum()
    }

    #[test]
    fn a_file_that_is_not_shown_for_a_moment_takes_no_count_away() {
        let mut counted = Counted::default();
        counted.look(&capture(1, &[("a", 10), ("b", 20)]));
        counted.look(&capture(1, &[("a", 11)]));
        assert_eq!(calls(&counted), 31);
        counted.look(&capture(1, &[("a", 12), ("b", 25)]));
        assert_eq!(calls(&counted), 37);
    }

    #[test]
    fn a_series_stays_at_its_highest_value_and_a_gauge_does_not() {
        let mut highest = Highest::default();
        let mut say = |count| {
            let mut all = [Kind::Counter, Kind::Gauge].map(|kind| Family::new("x", kind, "", "X."));
            for family in &mut all {
                family.add(&[("rank", "0")], Value::Count(count));
            }
            highest.raise(&mut all);
            all.map(|family| family.samples[0].value.clone())
        };
        assert_eq!(say(5), [Value::Count(5), Value::Count(5)]);
        assert_eq!(say(3), [Value::Count(5), Value::Count(3)]);
        assert_eq!(say(7), [Value::Count(7), Value::Count(7)]);
    }

    #[test]
    fn a_job_that_was_started_again_begins_with_nothing() {
        let mut counted = Counted::default();
        counted.look(&capture(1, &[("a", 10), ("b", 20)]));
        counted.look(&capture(2, &[("c", 1)]));
        assert_eq!(calls(&counted), 1);
        // The folder was removed, and another job records there.
        counted.look(&capture(1, &[("d", 2)]));
        assert_eq!(calls(&counted), 2);
    }

    #[test]
    fn a_size_is_in_the_first_class_that_it_fits_in() {
        let classes = [0, 1024, 1025, 1 << 30, (1 << 30) + 1].map(|bytes| size(Some(bytes)));
        assert_eq!(classes, ["1KiB", "1KiB", "16KiB", "1GiB", "more"]);
        assert_eq!(size(None), "unknown");
    }
}
