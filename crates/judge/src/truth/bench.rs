//! Calls done as `ncclscope bench --parquet` has them: each with its own time on each rank.
//!
//! The file has every call of every rank in the order made, also those of warm-up and data check, which have
//! no time.
//!
//! Rule: a time that is the mean of a batch is no time of a call: only calls made one at a time are held
//! against a profiler's times.

use super::{Graphs, Key, KeyCalls, Timed, Truth};
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

/// An operation with ranks that began further apart is left out if there are others, because its time shows
/// when ranks began, not what it took. As the benchmark's own default.
const MOST_SKEW_NS: i64 = 10_000;

/// One run of the benchmark.
pub struct Bench {
    /// The calls.
    pub truth: Truth,
    /// Mean time of an operation that began together, in µs, the longest of its ranks, by what it was.
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
    Ok(summarise(&rows))
}

/// A row of the file.
struct BenchRow {
    function: String,
    bytes: u64,
    in_place: bool,
    single: bool,
    iteration: i64,
    rank: u32,
    pid: Option<u32>,
    time_ns: Option<i64>,
    skew_ns: Option<i64>,
}

fn add(batch: &RecordBatch, rows: &mut Vec<BenchRow>) -> anyhow::Result<()> {
    let column = |name: &str| {
        batch.column_by_name(name).with_context(|| {
            format!("expected the column `{name}` of `ncclscope bench --parquet`, found none")
        })
    };
    let (function, mode) = (text(column("function")?)?, text(column("mode")?)?);
    let (bytes, time) = (numbers(column("bytes")?)?, numbers(column("time_ns")?)?);
    let (iteration, rank) = (numbers(column("iteration")?)?, numbers(column("rank")?)?);
    let (skew, pid) = (numbers(column("skew_ns")?)?, numbers(column("pid")?)?);
    let in_place = column("in_place")?;
    for row in 0..batch.num_rows() {
        rows.push(BenchRow {
            function: nccl_name(&function[row]),
            bytes: bytes[row].unwrap_or(0).max(0) as u64,
            in_place: in_place.as_boolean_opt().is_some_and(|b| b.value(row)),
            single: mode[row] == "single",
            iteration: iteration[row].unwrap_or(0),
            rank: rank[row].unwrap_or(0).max(0) as u32,
            pid: pid[row].and_then(|pid| u32::try_from(pid).ok()),
            time_ns: time[row],
            skew_ns: skew[row],
        });
    }
    Ok(())
}

/// Whole numbers, whatever their width.
fn numbers(column: &ArrayRef) -> anyhow::Result<Vec<Option<i64>>> {
    macro_rules! by_type {
        ($($name:ident $type:ident),*) => {
            match column.data_type() {
                $(DataType::$name => {
                    column.as_primitive::<$type>().iter().map(|v| v.map(|v| v as i64)).collect()
                })*
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

fn summarise(rows: &[BenchRow]) -> Bench {
    let mut truth = Truth {
        nranks: rows.iter().map(|row| row.rank + 1).max(),
        // ncclsee says no more of a call than its process.
        ranks: rows
            .iter()
            .filter_map(|row| Some((row.pid?, row.rank)))
            .collect(),
        graphs: Graphs::Executions,
        whole: true,
        ..Truth::default()
    };
    let mut made: HashMap<(String, u32), u64> = HashMap::new();
    // By operation: the longest and the latest of its ranks.
    let mut operations: BTreeMap<(String, i64), (i64, i64)> = BTreeMap::new();
    for row in rows {
        let index = made.entry((row.function.clone(), row.rank)).or_default();
        let key = Key {
            function: row.function.clone(),
            bytes: row.bytes,
            rank: row.rank,
        };
        let calls: &mut KeyCalls = truth.calls.entry(key).or_default();
        calls.number += 1;
        calls.each.push(Timed {
            index: *index,
            time_ns: row
                .time_ns
                .filter(|ns| row.single && *ns >= 0)
                .map(|ns| ns as u64),
        });
        *index += 1;
        if let Some(ns) = row.time_ns {
            let place = if row.in_place { ", in place" } else { "" };
            let what = format!("{} {}{place}", row.function, size(row.bytes));
            let most = operations.entry((what, row.iteration)).or_default();
            *most = (most.0.max(ns), most.1.max(row.skew_ns.unwrap_or(0)));
        }
    }
    let mut times: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
    for ((what, _), operation) in operations {
        times.entry(what).or_default().push(operation);
    }
    let figures = times.into_iter().map(|(what, mut operations)| {
        if operations.iter().any(|o| o.1 <= MOST_SKEW_NS) {
            operations.retain(|o| o.1 <= MOST_SKEW_NS);
        }
        let sum: i64 = operations.iter().map(|o| o.0).sum();
        (what, sum as f64 / 1e3 / operations.len() as f64)
    });
    Bench {
        truth,
        figures: figures.collect(),
    }
}

/// `1KiB`, `1000B`.
pub(crate) fn size(bytes: u64) -> String {
    analyze::spelling::size(bytes).replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{BooleanArray, Int64Array, StringArray, UInt32Array, UInt64Array};
    use parquet::arrow::ArrowWriter;
    use std::sync::Arc;

    /// Function, bytes, mode, iteration, rank and time. The third operation is skewed.
    type Line<'a> = (&'a str, u64, &'a str, u64, u32, Option<i64>);

    /// As the benchmark writes it: the columns that are read, and one that is not.
    fn write(path: &Path, rows: &[Line]) {
        let text = |of: fn(&Line) -> String| {
            Arc::new(StringArray::from_iter_values(rows.iter().map(of))) as ArrayRef
        };
        let long = |of: fn(&Line) -> u64| {
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(of))) as ArrayRef
        };
        let ranks = UInt32Array::from_iter_values(rows.iter().map(|r| r.4));
        let pids = UInt32Array::from_iter_values(rows.iter().map(|r| 500 + r.4));
        let times = Int64Array::from_iter(rows.iter().map(|r| r.5));
        let skews = rows
            .iter()
            .map(|r| Some(if r.3 == 2 { 20_000 } else { 400 }));
        let skews = Int64Array::from_iter(skews);
        let places = BooleanArray::from_iter(rows.iter().map(|_| Some(false)));
        let batch = RecordBatch::try_from_iter([
            ("run", text(|_| "bench".into())),
            ("function", text(|r| r.0.into())),
            ("bytes", long(|r| r.1)),
            ("mode", text(|r| r.2.into())),
            ("iteration", long(|r| r.3)),
            ("in_place", Arc::new(places) as ArrayRef),
            ("rank", Arc::new(ranks) as ArrayRef),
            ("pid", Arc::new(pids) as ArrayRef),
            ("time_ns", Arc::new(times) as ArrayRef),
            ("skew_ns", Arc::new(skews) as ArrayRef),
        ])
        .expect("columns");
        let file = File::create(path).expect("made");
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("a writer");
        writer.write(&batch).expect("written");
        writer.close().expect("closed");
    }

    #[test]
    fn every_call_is_done_and_those_made_one_at_a_time_are_timed() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("calls.parquet");
        let rows = [
            ("AllReduce", 1024, "warmup", 0, 0, None),
            ("AllReduce", 1024, "warmup", 0, 1, None),
            ("AllReduce", 1024, "single", 0, 0, Some(10_000)),
            ("AllReduce", 1024, "single", 1, 0, Some(30_000)),
            ("AllReduce", 1024, "single", 2, 0, Some(99_000)),
            ("AllReduce", 1024, "single", 0, 1, Some(20_000)),
            ("AllReduce", 1024, "single", 1, 1, Some(10_000)),
            ("AllReduce", 1024, "single", 2, 1, Some(79_000)),
            ("AllReduce", 2048, "back-to-back", 0, 0, Some(7_000)),
            ("AllReduce", 2048, "back-to-back", 0, 1, Some(9_000)),
        ];
        write(&file, &rows);
        let bench = read(&file).expect("read");
        assert_eq!((bench.truth.total(), bench.truth.nranks), (10, Some(2)));
        assert_eq!(bench.truth.ranks, [(500, 0), (501, 1)].into());
        let key = |bytes| Key {
            function: "AllReduce".into(),
            bytes,
            rank: 0,
        };
        let calls = &bench.truth.calls[&key(1024)];
        let times: Vec<_> = calls.each.iter().map(|c| (c.index, c.time_ns)).collect();
        assert_eq!(
            times,
            [
                (0, None),
                (1, Some(10_000)),
                (2, Some(30_000)),
                (3, Some(99_000))
            ]
        );
        // The next size goes on counting, and the mean of a batch is no call's time.
        let batch = bench.truth.calls[&key(2048)].each[0];
        assert_eq!((batch.index, batch.time_ns), (4, None));
        // The longest rank of each that began together: 20 and 30 us.
        let expected = [
            ("AllReduce 1KiB".to_owned(), 25.0),
            ("AllReduce 2KiB".to_owned(), 9.0),
        ];
        assert_eq!(bench.figures, expected.into());
    }

    #[test]
    fn a_profiler_that_names_only_its_process_is_matched_by_it() {
        // The calls of rank 0 in tests/data/README.md's second script, under its ncclsee's names: it writes
        // Reduce for ReduceScatter, and the other way round.
        let calls = [
            ("AllReduce", 65536, 3),
            ("AllReduce", 1024, 1),
            ("AllGather", 65536, 1),
            ("Reduce", 1 << 20, 2),
            ("Broadcast", 65536, 1),
            ("ReduceScatter", 4096, 4),
        ];
        let of_rank = |rank| {
            let each = move |(name, bytes, n): &(&'static str, u64, u64)| {
                (0..*n).map({
                    let (name, bytes) = (*name, *bytes);
                    move |i| (name, bytes, "single", i, rank, Some(9_000))
                })
            };
            calls.iter().flat_map(each).collect::<Vec<Line>>()
        };
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("calls.parquet");
        write(&file, &[of_rank(0), of_rank(1)].concat());
        let out = folder.path().join("out/ncclsee_20261123_101500");
        std::fs::create_dir_all(&out).expect("made");
        let written = include_bytes!("../../tests/data/ncclsee.csv");
        for pid in [500, 501] {
            std::fs::write(out.join(format!("{pid}.csv")), written).expect("written");
        }
        let bench = read(&file).expect("read");
        let records = crate::readers::read(&out, bench.truth.nranks, false).expect("read");
        let counts = crate::completeness::judge(&bench.truth, &records).total();
        assert!(counts.whole() && counts.done == 24, "{counts:?}");
    }

    #[test]
    fn another_table_is_an_error_that_names_the_column() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("calls.parquet");
        let batch =
            RecordBatch::try_from_iter([("x", Arc::new(UInt32Array::from(vec![1])) as ArrayRef)]);
        let batch = batch.expect("a column");
        let mut writer =
            ArrowWriter::try_new(File::create(&file).expect("made"), batch.schema(), None)
                .expect("a writer");
        writer.write(&batch).expect("written");
        writer.close().expect("closed");
        let error = read(&file).err().expect("an error").to_string();
        assert!(error.contains("`function`"), "{error}");
        assert!(read(&folder.path().join("none")).is_err());
    }

    #[test]
    fn sizes_are_short_where_they_are_whole() {
        let texts = [0, 1000, 1024, 3 << 20, 1 << 30].map(size);
        assert_eq!(texts, ["0B", "1000B", "1KiB", "3MiB", "1GiB"]);
    }
}
