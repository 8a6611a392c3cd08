//! Reads the tables that ncclsee writes: one file for each process, `PID.csv`, with totals.
//!
//! A row has a function, a range of sizes, calls and µs. A size is in no row: ncclsee counts by ranges, and
//! its bytes are what NCCL plans to move. So a row is so many calls of its function on the process's rank,
//! and its time is their mean. The row of groups is none of calls.
//!
//! Rule: names are taken as they stand. The version of 2025 writes Reduce for ReduceScatter and the other way
//! round, and the judge shows what its user would see.

use super::json::function;
use crate::records::{Record, Records};
use std::path::Path;

/// How ncclsee's files begin.
const HEADER: &str =
    "CollectiveType,BucketLabel,BucketMin,BucketMax,Calls,BytesTransferred,TotalTime_us";

/// Adds the calls in a file; false if it is none of ncclsee's.
pub fn read(file: &Path, records: &mut Records) -> bool {
    let Ok(text) = std::fs::read_to_string(file) else {
        return false;
    };
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return false;
    }
    let pid = file
        .file_stem()
        .and_then(|stem| stem.to_str()?.parse().ok());
    records.format = "ncclsee CSV".into();
    for line in lines.filter(|line| !line.starts_with("Group,")) {
        match row(line) {
            Some(row) => records.rows.push(Record { pid, ..row }),
            None => records.unreadable += 1,
        }
    }
    true
}

fn row(line: &str) -> Option<Record> {
    let fields: Vec<&str> = line.split(',').collect();
    let [name, _, _, _, calls, _, us] = fields[..] else {
        return None;
    };
    let (calls, us): (u64, f64) = (calls.parse().ok()?, us.parse().ok()?);
    let has_time = calls > 0 && us.is_finite() && us >= 0.0;
    Some(Record {
        function: function(name).unwrap_or(name).to_owned(),
        number: calls,
        time_ns: has_time.then(|| (us * 1e3 / calls as f64) as u64),
        ..Record::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(name: &str, text: &str) -> (bool, Records) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(name);
        std::fs::write(&file, text).expect("written");
        let mut records = Records::default();
        let known = read(&file, &mut records);
        (known, records)
    }

    // What ncclsee wrote of rank 0 of a job of fake-nccl's; tests/data/README.md has the job.
    const NCCLSEE: &str = include_str!("../../tests/data/ncclsee.csv");

    #[test]
    fn ncclsees_own_output_is_read() {
        let (known, records) = read_text("3541.csv", NCCLSEE);
        assert!(known);
        assert_eq!((&*records.format, records.unreadable), ("ncclsee CSV", 0));
        let rows: Vec<_> = records
            .rows
            .iter()
            .map(|r| (&*r.function, r.number, r.time_ns))
            .collect();
        // The job had four of Reduce and two of ReduceScatter: ncclsee swaps their names.
        let expected = [
            ("AllReduce", 1, Some(942)),
            ("AllReduce", 3, Some(4158)),
            ("Broadcast", 1, Some(1654)),
            ("ReduceScatter", 4, Some(972)),
            ("Reduce", 2, Some(3063)),
            ("AllGather", 1, Some(2436)),
        ];
        assert_eq!(rows, expected);
        assert!(records
            .rows
            .iter()
            .all(|r| r.pid == Some(3541) && r.bytes.is_none() && r.rank.is_none()));
    }

    #[test]
    fn torn_rows_are_counted_and_other_tables_are_none_of_ours() {
        let torn = format!("{HEADER}\nAllReduce,0-128,0,128,5,0,1.5\nAllReduce,0-1\n");
        let (known, records) = read_text("7.csv", &torn);
        assert!(known);
        assert_eq!((records.rows.len(), records.unreadable), (1, 1));
        assert!(!read_text("7.csv", "a,b\n1,2\n").0);
        assert!(!read_text("7.csv", "").0);
    }
}
