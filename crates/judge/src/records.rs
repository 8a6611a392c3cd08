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

    /// The sum of the times of calls, ns; `None` without any. A profiler that times a sample is not the
    /// cheaper one: a call without a time counts as the mean of those of its function and size that have one.
    pub fn told_ns(&self) -> Option<f64> {
        #[derive(Default)]
        struct Times {
            ns: f64,
            timed: f64,
            all: f64,
        }
        let mut by: BTreeMap<(&str, Option<u64>), Times> = BTreeMap::new();
        let made = self.rows.iter();
        for row in made.filter(|row| row.kind != RecordKind::Template || row.time_ns.is_some()) {
            let times = by.entry((&row.function, row.bytes)).or_default();
            let number = row.number as f64;
            times.all += number;
            if let Some(ns) = row.time_ns {
                times.timed += number;
                times.ns += ns as f64 * number;
            }
        }
        let timed = by.values().filter(|times| times.timed > 0.0);
        let scaled = timed.map(|times| times.ns * (times.all / times.timed));
        scaled.reduce(|a, b| a + b)
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
        assert_eq!(records.told_ns(), Some(2007.0));
        assert_eq!(Records::default().told_ns(), None);
    }
}
