//! Calls done as `ncclscope bench --parquet` has them: each with its own time on each rank.
//!
//! Rule: a time that is the mean of a batch is no time of a call: only calls made one at a time are held against a
//! profiler's times.

use super::{Calls, Graphs, Key, Timed, Truth};
use anyhow::{bail, Context};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::Path;

/// The ways of calling that are compared, with the options of `ncclscope bench` for each.
pub const CASES: [(&str, &[&str]); 4] = [
    ("single", &["--mode", "single"]),
    ("back-to-back", &["--mode", "back-to-back"]),
    ("grouped", &["--mode", "back-to-back", "--group", "8"]),
    ("graph", &["--mode", "back-to-back", "--graph", "16"]),
];

/// One run of the benchmark.
pub struct Bench {
    /// The calls.
    pub truth: Truth,
    /// Mean time of an operation in µs, the longest of its ranks, by what it was.
    pub figures: BTreeMap<String, f64>,
}

/// Reads the file that the benchmark wrote.
///
/// # Errors
/// When it isn't there or has other columns.
pub fn read(file: &Path) -> anyhow::Result<Bench> {
    let open = || {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(file)?)?;
        anyhow::Ok(reader.build()?)
    };
    let reader = open().with_context(|| format!("could not read `{}`", file.display()))?;
    let mut rows = Vec::new();
    for batch in reader {
        add(&batch?, &mut rows)?;
    }
    Ok(summarise(rows))
}

/// A row of the file.
struct Row {
    function: String,
    bytes: u64,
    in_place: bool,
    single: bool,
    graph: bool,
    run: i64,
    iteration: i64,
    rank: u32,
    start_ns: i64,
    time_ns: Option<i64>,
}

fn add(batch: &RecordBatch, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let column = |name: &str| {
        batch.column_by_name(name).with_context(|| {
            format!("expected the column `{name}` of `ncclscope bench --parquet`, found none")
        })
    };
    let (function, mode) = (text(column("function")?)?, text(column("mode")?)?);
    let (bytes, run) = (numbers(column("bytes")?)?, numbers(column("run")?)?);
    let (iteration, rank) = (numbers(column("iteration")?)?, numbers(column("rank")?)?);
    let (start, time) = (numbers(column("start_ns")?)?, numbers(column("time_ns")?)?);
    let in_place = column("in_place")?;
    for row in 0..batch.num_rows() {
        rows.push(Row {
            function: nccl_name(&function[row]),
            bytes: bytes[row].unwrap_or(0).max(0) as u64,
            in_place: in_place.as_boolean_opt().is_some_and(|b| b.value(row)),
            single: mode[row].starts_with("single"),
            graph: mode[row].contains("graph"),
            run: run[row].unwrap_or(0),
            iteration: iteration[row].unwrap_or(0),
            rank: rank[row].unwrap_or(0).max(0) as u32,
            start_ns: start[row].unwrap_or(0),
            time_ns: time[row],
        });
    }
    Ok(())
}

/// Whole numbers, whatever their width.
fn numbers(column: &ArrayRef) -> anyhow::Result<Vec<Option<i64>>> {
    macro_rules! by_type {
        ($($name:ident $type:ident),*) => {
            match column.data_type() {
                $(DataType::$name => column.as_primitive::<$type>().iter().map(|v| v.map(|v| v as i64)).collect(),)*
                other => bail!("expected a column of numbers, found {other}"),
            }
        };
    }
    Ok(by_type!(
        Int8 Int8Type, Int16 Int16Type, Int32 Int32Type, Int64 Int64Type,
        UInt8 UInt8Type, UInt16 UInt16Type, UInt32 UInt32Type, UInt64 UInt64Type,
        Float32 Float32Type, Float64 Float64Type
    ))
}

fn text(column: &ArrayRef) -> anyhow::Result<Vec<String>> {
    let owned = |v: Option<&str>| v.unwrap_or_default().to_owned();
    Ok(match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().iter().map(owned).collect(),
        DataType::LargeUtf8 => column.as_string::<i64>().iter().map(owned).collect(),
        DataType::Utf8View => column.as_string_view().iter().map(owned).collect(),
        other => bail!("expected a column of text, found {other}"),
    })
}

/// NCCL's spelling of `all_reduce`, `AllReduce` or `alltoall`.
fn nccl_name(name: &str) -> String {
    crate::readers::json::function(name).map_or_else(|| name.to_owned(), str::to_owned)
}

fn summarise(mut rows: Vec<Row>) -> Bench {
    rows.sort_by_key(|row| (row.rank, row.run, row.start_ns, row.iteration));
    let mut truth = Truth {
        nranks: rows.iter().map(|row| row.rank + 1).max(),
        graphs: Graphs::Executions,
        ..Truth::default()
    };
    let mut made: HashMap<(String, u32), u64> = HashMap::new();
    // By operation: the longest of its ranks.
    let mut longest: BTreeMap<(String, i64, i64), i64> = BTreeMap::new();
    for row in &rows {
        let index = made.entry((row.function.clone(), row.rank)).or_default();
        let key = Key {
            function: row.function.clone(),
            bytes: row.bytes,
            rank: row.rank,
        };
        let calls: &mut Calls = truth.calls.entry(key).or_default();
        calls.number += 1;
        calls.each.push(Timed {
            index: *index,
            time_ns: row
                .time_ns
                .filter(|ns| row.single && !row.graph && *ns >= 0)
                .map(|ns| ns as u64),
        });
        *index += 1;
        if let Some(ns) = row.time_ns.filter(|_| row.iteration >= 0) {
            let place = if row.in_place { ", in place" } else { "" };
            let what = format!("{} {}{place}", row.function, size(row.bytes));
            let most = longest.entry((what, row.run, row.iteration)).or_default();
            *most = ns.max(*most);
        }
    }
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for ((what, ..), ns) in longest {
        let sum = sums.entry(what).or_default();
        *sum = (sum.0 + ns as f64 / 1e3, sum.1 + 1.0);
    }
    let mean = |(what, (sum, n))| (what, sum / n);
    Bench {
        truth,
        figures: sums.into_iter().map(mean).collect(),
    }
}

/// `1KiB`, `1000B`.
pub(crate) fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let fits = |(_, bits): &&(&str, u32)| bytes > 0 && bytes % (1 << bits) == 0;
    match units.iter().find(fits) {
        Some((unit, bits)) => format!("{}{unit}", bytes >> bits),
        None => format!("{bytes}B"),
    }
}
