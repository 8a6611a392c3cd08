//! What a profiler wrote, as the same rows whatever its format.
//!
//! [`crate::readers`] fills [`Records`] with a [`Record`] for each row, in the order in which the profiler
//! says that the rows were made.
//!
//! Rule: this file knows no format. A reader imports it; it imports no reader.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a row is, in a job that may have CUDA graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordKind {
    /// A call that was made and executed, or a row of a profiler that doesn't say.
    #[default]
    Call,
    /// A captured call.
    Template,
    /// An execution of a captured call.
    Replay,
}

/// One row of a profiler's output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Process.
    pub pid: Option<u32>,
    /// Rank as the profiler has it: the launcher's or the communicator's.
    pub rank: Option<u32>,
    /// NCCL's name of the function, whole operations where the profiler unites their pieces.
    pub function: String,
    /// By nccl-tests' convention; none if the profiler gives no size.
    pub bytes: Option<u64>,
    /// How many calls the row stands for.
    pub number: u64,
    /// Identity of the communicator within the output.
    pub communicator: Option<u64>,
    /// NCCL's sequence number, per communicator and function.
    pub seq: Option<u64>,
    /// How long the call took on the GPU, as the profiler says.
    pub time_ns: Option<u64>,
    /// What it is.
    pub kind: RecordKind,
    /// The sends and receives that the profiler united to this row, with their bytes. If the program made
    /// them itself, they are what it called.
    pub pieces: Vec<(&'static str, u64)>,
}

/// A profiler's output.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// `ncclscope capture`, `Inspector JSON`, `CoMMA JSON`, `ncclsee CSV`, `torch.profiler`, `Chrome trace`
    /// or `none`.
    pub format: String,
    /// The rows.
    pub rows: Vec<Record>,
    /// Rows that can't be read.
    pub unreadable: u64,
    /// Calls that the profiler itself says it lost; none if it doesn't say.
    pub admitted: Option<u64>,
    /// Files in no known format.
    pub foreign_files: Vec<PathBuf>,
}

impl Records {
    /// Calls with a time.
    pub fn timed(&self) -> u64 {
        let timed = self.rows.iter().filter(|row| row.time_ns.is_some());
        timed.map(|row| row.number).fold(0, u64::saturating_add)
    }

    /// The times of all calls, by those that have one; `None` without any. A profiler that times a sample is
    /// not the cheaper one: a call without a time counts as the mean of those of its function and size that
    /// have one.
    pub fn told(&self) -> Option<Told> {
        let mut by: BTreeMap<(&str, Option<u64>), Times> = BTreeMap::new();
        let made = self.rows.iter();
        for row in made.filter(|row| row.kind != RecordKind::Template || row.time_ns.is_some()) {
            let times = by.entry((&row.function, row.bytes)).or_default();
            let number = row.number as f64;
            times.all += number;
            if let Some(ns) = row.time_ns.map(|ns| ns as f64) {
                times.timed += number;
                times.ns += ns * number;
                times.squares += ns * ns * number;
            }
        }
        let timed = by.values().filter(|times| times.timed > 0.0);
        timed.map(Times::told).reduce(|a, b| Told {
            ns: a.ns + b.ns,
            variance: a.variance + b.variance,
        })
    }
}

/// A sum that a sample tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    /// The sum, ns.
    pub ns: f64,
    /// Its variance for want of the calls that have no time, ns².
    pub variance: f64,
}

/// The calls of one function and size.
#[derive(Default)]
struct Times {
    /// The sum of the times that are known, and of their squares.
    ns: f64,
    squares: f64,
    timed: f64,
    all: f64,
}

impl Times {
    /// What calls without a time add to the variance is that of a sample without replacement. One time says
    /// nothing of how others scatter: then they may differ from it by as much as it is.
    fn told(&self) -> Told {
        let (n, left) = (self.timed, self.all - self.timed);
        let mean = self.ns / n;
        let scatter = if n > 1.0 {
            (self.squares - n * mean * mean).max(0.0) / (n - 1.0)
        } else {
            mean * mean
        };
        Told {
            ns: mean * self.all,
            variance: self.all * left * scatter / n,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_a_sample_is_that_of_all_calls() {
        let row = |function: &str, time_ns, kind| Record {
            function: function.to_owned(),
            bytes: Some(1024),
            number: 1,
            time_ns,
            kind,
            ..Record::default()
        };
        let mut rows = vec![row("AllReduce", None, RecordKind::Call); 8];
        rows.push(row("AllReduce", Some(100), RecordKind::Call));
        rows.push(row("AllReduce", Some(300), RecordKind::Call));
        rows.push(row("AllReduce", None, RecordKind::Template));
        rows.push(row("Broadcast", Some(7), RecordKind::Call));
        rows.push(row("Reduce", None, RecordKind::Call));
        let records = Records {
            rows,
            ..Records::default()
        };
        assert_eq!(records.timed(), 3);
        // Times of 100 and 300 scatter by 20 000 ns²; ten calls of which eight have no time.
        let told = Told {
            ns: 2007.0,
            variance: 10.0 * 8.0 * 20_000.0 / 2.0,
        };
        assert_eq!(records.told(), Some(told));
        assert_eq!(Records::default().told(), None);
    }

    #[test]
    fn a_sum_is_sure_if_all_calls_have_a_time_and_wide_if_one_has() {
        let told = |times: &[Option<u64>]| {
            let row = |time_ns: &Option<u64>| Record {
                number: 1,
                time_ns: *time_ns,
                ..Record::default()
            };
            let records = Records {
                rows: times.iter().map(row).collect(),
                ..Records::default()
            };
            let told = records.told().expect("a sum");
            (told.ns, told.variance)
        };
        assert_eq!(told(&[Some(100), Some(300)]), (400.0, 0.0));
        assert_eq!(told(&[Some(100), None]), (200.0, 20_000.0));
    }
}
