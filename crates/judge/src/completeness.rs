//! Calls done against calls in the profiler's output.
//!
//! [`judge`] gives every done call to `matched` or `missing`, and every record to `matched`, `duplicate` or
//! `foreign`. A record is a duplicate when one before it has the same process, communicator, function and
//! sequence number. It is foreign in three cases. No call with its function, size and rank was
//! done; its sequence number is higher than the number of calls; or there are more records than such calls.
//!
//! NCCL announces an AlltoAll, Gather, Scatter or SendRecv as sends and receives where it has no kernel for
//! it. A profiler that names none of them and has sends or receives is judged by these pieces. The work does
//! not say which rank is the root of a Gather or Scatter. Its receives (or sends) are looked for on the rank
//! that has most of them by the profiler.
//!
//! If no record of an output has a size, as torch.profiler's have none, a record is of any call of its
//! function and rank.
//!
//! Rule: matched + missing = done, and matched + duplicate + foreign = found. Where records have no sequence
//! number, calls of one kind can't be told apart: then one that never was hides one that is missing.

use crate::records::{Record, RecordKind, Records};
use crate::truth::{Graphs, Key, KeyCalls, Truth};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Counts of calls and records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Counts {
    /// Calls that the work made.
    pub done: u64,
    /// Records in the profiler's output.
    pub found: u64,
    /// Calls that have a record.
    pub matched: u64,
    /// Calls that have none.
    pub missing: u64,
    /// Records of calls that have one already.
    pub duplicate: u64,
    /// Records of calls that never were.
    pub foreign: u64,
}

impl Counts {
    /// Adds another's.
    pub fn add(&mut self, other: &Counts) {
        self.done += other.done;
        self.found += other.found;
        self.matched += other.matched;
        self.missing += other.missing;
        self.duplicate += other.duplicate;
        self.foreign += other.foreign;
    }

    /// Whether every call is there once and nothing else is.
    pub fn whole(&self) -> bool {
        self.done == self.matched && self.found == self.matched
    }
}

/// What came of one run's comparison.
#[derive(Clone, Debug, Default)]
pub struct Completeness<'a> {
    /// By function, size and rank.
    pub by: BTreeMap<Key, Counts>,
    /// Records that are neither duplicate nor foreign, by key, in the profiler's order.
    pub accepted: BTreeMap<Key, Vec<&'a Record>>,
    /// Operations judged by their pieces.
    pub by_pieces: Vec<String>,
    /// Records without function, size or rank; they count as foreign too.
    pub nameless: u64,
}

impl Completeness<'_> {
    /// Over all functions, sizes and ranks.
    pub fn total(&self) -> Counts {
        let mut total = Counts {
            found: self.nameless,
            foreign: self.nameless,
            ..Counts::default()
        };
        self.by.values().for_each(|counts| total.add(counts));
        total
    }
}

/// Compares what was done with what was recorded.
pub fn judge<'a>(truth: &Truth, records: &'a Records) -> Completeness<'a> {
    let mut out = Completeness::default();
    let done = as_told(truth, records, &mut out.by_pieces);
    let mut made: HashMap<(&str, u32), u64> = HashMap::new();
    for (key, calls) in &done {
        *made.entry((&key.function, key.rank)).or_default() += calls.number;
        out.by.entry(key.clone()).or_default().done = calls.number;
    }
    let sizes = records.rows.iter().any(|record| record.bytes.is_some());
    let mut seen = HashSet::new();
    for record in &records.rows {
        let counts = match (truth.graphs, record.kind) {
            (Graphs::Templates, RecordKind::Replay)
            | (Graphs::Executions, RecordKind::Template) => continue,
            _ => record.number,
        };
        let rank = truth.rank_of(record);
        if let (Some(rank), false) = (rank, sizes) {
            without_size(&mut out, &record.function, rank, counts);
            continue;
        }
        let (Some(rank), Some(bytes)) = (rank, record.bytes) else {
            out.nameless += counts;
            continue;
        };
        let key = |function: &str, bytes| Key::new(function, bytes, rank);
        let whole = key(&record.function, bytes);
        let room = out.by.get(&whole).map_or(0, |c| c.done - c.matched);
        if room == 0 && !record.pieces.is_empty() {
            // The program made these sends and receives itself.
            for (function, bytes) in &record.pieces {
                let sum = out.by.entry(key(function, *bytes)).or_default();
                sum.found += 1;
                let fits = u64::from(sum.matched < sum.done);
                sum.matched += fits;
                sum.foreign += 1 - fits;
            }
            continue;
        }
        let of_function = made.get(&(&*record.function, rank)).copied().unwrap_or(0);
        let sum = out.by.entry(whole.clone()).or_default();
        sum.found += counts;
        if let (Some(communicator), Some(seq), 1) = (record.communicator, record.seq, record.number)
        {
            let identity = (record.pid, rank, communicator, &record.function, seq);
            if !seen.insert(identity) {
                sum.duplicate += 1;
                continue;
            }
            // Profilers count from 0, as NCCL does, or from 1.
            if truth.whole && seq > of_function {
                sum.foreign += 1;
                continue;
            }
        }
        sum.matched += counts.min(room);
        sum.foreign += counts.saturating_sub(room);
        if counts <= room {
            out.accepted.entry(whole).or_default().push(record);
        }
    }
    for counts in out.by.values_mut() {
        counts.missing = counts.done - counts.matched;
    }
    out
}

/// Gives calls of a function and rank to those that have no record yet, whatever their size.
fn without_size(out: &mut Completeness, function: &str, rank: u32, calls: u64) {
    let is_of = |key: &Key| key.function == function && key.rank == rank;
    let mut left = calls;
    let mut last = None;
    for (key, counts) in out.by.iter_mut().filter(|(key, _)| is_of(key)) {
        let some = left.min(counts.done - counts.matched);
        counts.matched += some;
        counts.found += some;
        left -= some;
        last = Some(key.clone());
    }
    // What is too much stands at one size, or at none if nothing of the function was done.
    if left > 0 {
        let key = last.unwrap_or_else(|| Key::new(function, 0, rank));
        let counts = out.by.entry(key).or_default();
        counts.found += left;
        counts.foreign += left;
    }
}

/// The calls done. Calls that this profiler shows as sends and receives are counted in these pieces.
fn as_told(
    truth: &Truth,
    records: &Records,
    by_pieces: &mut Vec<String>,
) -> BTreeMap<Key, KeyCalls> {
    let told: HashSet<&str> = records.rows.iter().map(|r| &*r.function).collect();
    let pieces = told.contains("Send") || told.contains("Recv");
    let nranks = truth.nranks.map(|nranks| u64::from(nranks.max(1)));
    let mut done = BTreeMap::new();
    // By function and size: the calls of each rank.
    let mut rooted: BTreeMap<(&str, u64), Vec<(u32, u64)>> = BTreeMap::new();
    for (key, calls) in &truth.calls {
        let Key {
            function,
            bytes,
            rank,
        } = key;
        let parts = match (&**function, nranks) {
            ("AlltoAll", Some(nranks)) => nranks,
            ("Gather" | "Scatter", Some(_)) | ("SendRecv", _) => 1,
            _ => 0,
        };
        if parts == 0 || !pieces || told.contains(&**function) {
            add(&mut done, key.clone(), calls.number);
            continue;
        }
        if !by_pieces.contains(function) {
            by_pieces.push(function.clone());
        }
        if matches!(&**function, "Gather" | "Scatter") {
            let of = rooted.entry((function, *bytes)).or_default();
            of.push((*rank, calls.number));
            continue;
        }
        for piece in ["Send", "Recv"] {
            let key = Key::new(piece, bytes / parts, *rank);
            add(&mut done, key, calls.number * parts);
        }
    }
    let found = if rooted.is_empty() {
        HashMap::new()
    } else {
        sends_and_receives(truth, records)
    };
    for ((function, bytes), ranks) in rooted {
        let nranks = nranks.unwrap_or(1);
        let (one, many) = match function {
            "Gather" => ("Send", "Recv"),
            _ => ("Recv", "Send"),
        };
        let piece = |function: &str, rank| Key::new(function, bytes / nranks, rank);
        // What the profiler has of the roots' pieces beyond what other operations explain: most first.
        let mut surplus: Vec<(u64, u32)> = Vec::new();
        for (rank, number) in &ranks {
            add(&mut done, piece(one, *rank), *number);
            let key = piece(many, *rank);
            let explained = done.get(&key).map_or(0, |calls| calls.number);
            let found = found.get(&key).copied().unwrap_or(0);
            surplus.push((found.saturating_sub(explained), *rank));
        }
        surplus.sort_by_key(|(surplus, rank)| (Reverse(*surplus), *rank));
        let mut left = ranks.iter().map(|(_, number)| *number).max().unwrap_or(0);
        let share = |(surplus, rank): &(u64, u32)| {
            let calls = surplus.div_ceil(nranks).min(left);
            left -= calls;
            (*rank, calls)
        };
        let mut roots: Vec<(u32, u64)> = surplus.iter().map(share).collect();
        // What left no trace is missing where most of it is.
        roots[0].1 += left;
        for (rank, calls) in roots {
            add(&mut done, piece(many, rank), calls * nranks);
        }
    }
    done
}

fn add(done: &mut BTreeMap<Key, KeyCalls>, key: Key, number: u64) {
    if number > 0 {
        done.entry(key).or_default().number += number;
    }
}

/// Records of sends and receives.
fn sends_and_receives(truth: &Truth, records: &Records) -> HashMap<Key, u64> {
    let mut found = HashMap::new();
    for record in &records.rows {
        let named = matches!(&*record.function, "Send" | "Recv");
        if let (true, Some(rank), Some(bytes)) = (named, truth.rank_of(record), record.bytes) {
            *found
                .entry(Key::new(&record.function, bytes, rank))
                .or_default() += record.number;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(function: &str, bytes: u64) -> Key {
        Key {
            function: function.into(),
            bytes,
            rank: 0,
        }
    }

    fn truth(calls: &[(&str, u64, u64)]) -> Truth {
        let mut truth = Truth {
            nranks: Some(4),
            whole: true,
            ..Truth::default()
        };
        for (function, bytes, number) in calls {
            truth.add(key(function, *bytes), *number);
        }
        truth
    }

    fn record(function: &str, bytes: u64, seq: Option<u64>) -> Record {
        Record {
            rank: Some(0),
            function: function.into(),
            bytes: Some(bytes),
            number: 1,
            communicator: Some(1),
            seq,
            ..Record::default()
        }
    }

    fn records(rows: Vec<Record>) -> Records {
        Records {
            rows,
            ..Records::default()
        }
    }

    /// done, found, matched, missing, duplicate, foreign.
    fn all(c: &Counts) -> [u64; 6] {
        [
            c.done,
            c.found,
            c.matched,
            c.missing,
            c.duplicate,
            c.foreign,
        ]
    }

    #[test]
    fn missing_duplicate_and_foreign_are_told_apart_by_sequence_numbers() {
        let truth = truth(&[("AllReduce", 1024, 5), ("AllReduce", 2048, 5)]);
        // Of the sequence 0 to 9: 2 and 7 lack, 4 is there twice, 99 never was.
        let seqs = [0, 1, 3, 4, 4, 99, 5, 6, 8, 9];
        let rows = seqs.map(|seq| {
            let bytes = if matches!(seq, 0..=4 | 99) {
                1024
            } else {
                2048
            };
            record("AllReduce", bytes, Some(seq))
        });
        let records = records(rows.into());
        let judged = judge(&truth, &records);
        assert_eq!(all(&judged.total()), [10, 10, 8, 2, 1, 1]);
        assert_eq!(all(&judged.by[&key("AllReduce", 1024)]), [5, 6, 4, 1, 1, 1]);
        assert_eq!(judged.accepted[&key("AllReduce", 2048)].len(), 4);
    }

    #[test]
    fn without_sequence_numbers_numbers_are_compared_by_kind() {
        let truth = truth(&[("AllReduce", 1024, 3), ("Broadcast", 64, 2)]);
        let mut rows = vec![record("AllReduce", 1024, None); 4];
        rows.push(record("Broadcast", 64, None));
        rows.push(record("Broadcast", 65, None));
        rows.push(Record {
            bytes: None,
            ..record("Broadcast", 64, None)
        });
        let records = records(rows);
        let judged = judge(&truth, &records);
        assert_eq!(all(&judged.total()), [5, 7, 4, 1, 0, 3]);
        assert_eq!(judged.nameless, 1);
    }

    #[test]
    fn pieces_stand_for_their_operation_unless_it_is_named() {
        let truth = truth(&[("AlltoAll", 4096, 2)]);
        let mut rows = vec![record("Send", 1024, None); 8];
        rows.extend(vec![record("Recv", 1024, None); 7]);
        let pieces = records(rows);
        let judged = judge(&truth, &pieces);
        assert_eq!(all(&judged.total()), [16, 15, 15, 1, 0, 0]);
        assert_eq!(judged.by_pieces, ["AlltoAll"]);
        let named = records(vec![record("AlltoAll", 4096, None); 2]);
        assert!(judge(&truth, &named).total().whole());
        // Nothing at all is two operations short, not 32 pieces.
        assert_eq!(
            all(&judge(&truth, &records(vec![])).total()),
            [2, 0, 0, 2, 0, 0]
        );
    }

    #[test]
    fn the_pieces_of_a_gather_are_looked_for_where_its_root_has_them() {
        // 3 Gathers on each of 4 ranks, two to rank 2 and one to rank 1, beside a ring of the same size.
        let mut truth = truth(&[]);
        for rank in 0..4 {
            truth.add(Key::new("Gather", 4096, rank), 3);
            truth.add(Key::new("SendRecv", 1024, rank), 1);
        }
        let of = |rank, function, number| {
            let row = Record {
                rank: Some(rank),
                ..record(function, 1024, None)
            };
            vec![row; number]
        };
        let mut rows = Vec::new();
        for (rank, receives) in [(0, 1), (1, 1 + 4), (2, 1 + 8), (3, 1)] {
            rows.extend(of(rank, "Send", 1 + 3));
            rows.extend(of(rank, "Recv", receives));
        }
        let whole = records(rows.clone());
        let judged = judge(&truth, &whole);
        assert!(judged.total().whole(), "{:?}", judged.by);
        assert_eq!(judged.by_pieces, ["Gather", "SendRecv"]);
        // Without a receive of rank 1 and one of rank 2, these are what is missing.
        for rank in [1, 2] {
            let lost = |r: &Record| r.rank == Some(rank) && r.function == "Recv";
            let at = rows.iter().position(lost).expect("there");
            rows.remove(at);
        }
        let lossy = records(rows);
        let judged = judge(&truth, &lossy);
        let missing = |rank| judged.by[&Key::new("Recv", 1024, rank)].missing;
        assert_eq!([0, 1, 2, 3].map(missing), [0, 1, 1, 0]);
        assert_eq!(judged.total().foreign, 0);
    }

    #[test]
    fn an_operation_that_the_program_made_of_sends_and_receives_counts_as_these() {
        let truth = truth(&[("Send", 64, 2), ("Recv", 64, 3), ("SendRecv", 128, 1)]);
        let united = |bytes| Record {
            pieces: vec![("Send", bytes), ("Recv", bytes)],
            ..record("SendRecv", bytes, None)
        };
        let records = records(vec![
            united(64),
            united(128),
            united(64),
            record("Recv", 64, None),
        ]);
        let judged = judge(&truth, &records);
        assert!(judged.total().whole(), "{:?}", judged.by);
        assert_eq!(judged.total().done, 6);
    }

    #[test]
    fn replays_and_templates_count_as_the_work_counts_them() {
        let mut truth = truth(&[("AllReduce", 1024, 3)]);
        let with = |kind| Record {
            kind,
            ..record("AllReduce", 1024, None)
        };
        let records = records(vec![
            with(RecordKind::Template),
            with(RecordKind::Replay),
            with(RecordKind::Replay),
        ]);
        assert!(judge(&truth, &records).total().whole());
        truth.graphs = Graphs::Executions;
        assert_eq!(judge(&truth, &records).total().missing, 1);
        truth.graphs = Graphs::Templates;
        assert_eq!(judge(&truth, &records).total().missing, 2);
    }

    #[test]
    fn totals_without_rows_count_as_often_as_they_say_and_a_pid_gives_the_rank() {
        let mut truth = truth(&[("AllReduce", 1024, 30)]);
        truth.ranks.insert(77, 0);
        let records = records(vec![Record {
            number: 31,
            rank: Some(5),
            pid: Some(77),
            ..record("AllReduce", 1024, None)
        }]);
        assert_eq!(all(&judge(&truth, &records).total()), [30, 31, 30, 0, 0, 1]);
    }

    #[test]
    fn records_without_sizes_are_of_any_call_of_their_function_and_rank() {
        let mut truth = Truth::default();
        truth.add(Key::new("AllReduce", 1024, 0), 3);
        truth.add(Key::new("AllReduce", 4096, 0), 2);
        truth.add(Key::new("AllGather", 4096, 0), 2);
        let rows = |function: &str, number| Record {
            rank: Some(0),
            function: function.into(),
            number,
            ..Record::default()
        };
        let of = |rows: Vec<Record>| {
            let records = Records {
                rows,
                ..Records::default()
            };
            let judged = judge(&truth, &records);
            (judged.total(), judged.nameless)
        };
        let (counts, nameless) = of(vec![rows("AllReduce", 4), rows("AllGather", 2)]);
        assert_eq!((counts.matched, counts.missing, counts.foreign), (6, 1, 0));
        assert_eq!((counts.found, nameless), (6, 0));
        let (counts, _) = of(vec![rows("AllReduce", 7), rows("Reduce", 1)]);
        assert_eq!((counts.matched, counts.missing, counts.foreign), (5, 2, 3));
        // If others have sizes, one without has lost its own.
        let sized = Record {
            bytes: Some(1024),
            ..rows("AllReduce", 1)
        };
        let (counts, nameless) = of(vec![rows("AllReduce", 1), sized]);
        assert_eq!((counts.matched, nameless), (1, 1));
    }
}
