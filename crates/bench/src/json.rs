//! A table as JSON, with nccl-tests' names, and ours beside them.
//!
//! Rule: what nccl-tests' own JSON has is under the same name at the same place; times are µs, bandwidths
//! GB/s.

use crate::function::Function;
use crate::plan::Plan;
use crate::summary::{peaks, OverStarts, Peak, Stress};
use crate::table::{Device, Figures, Spread, Table, TableRow};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// The schema's name.
pub const SCHEMA: &str = "ncclscope.bench/1";

/// What `ncclscope bench --json` writes.
#[derive(Serialize, JsonSchema)]
pub struct BenchJson<'a> {
    schema: &'static str,
    /// Why the benchmark ended before its end; null if it did not.
    error: Option<&'a str>,
    /// As ncclGetVersion gives it, for example 22809.
    nccl_version: Option<u32>,
    /// How it was measured; null of a table that was read.
    config: Option<&'a Plan>,
    /// The ranks' GPUs.
    devices: &'a [Device],
    /// One for each function and size.
    results: Vec<Row<'a>>,
    /// Whether data were right.
    out_of_bounds: OutOfBounds,
    /// The mean over all results.
    average_bus_bandwidth: Average,
    /// The best result of each function.
    peaks: Vec<Peak>,
    /// Runs without a wait between calls; empty without --stress.
    stress: Vec<StressJson>,
    /// How far starts differ; empty without --starts.
    starts: &'a [OverStarts],
}

/// Whether data were right.
#[derive(Serialize, JsonSchema)]
struct OutOfBounds {
    /// Wrong elements of all results; null if data were not checked.
    count: Option<u64>,
    /// Whether none is wrong; null if data were not checked.
    okay: Option<bool>,
}

/// The mean over all results.
#[derive(Serialize, JsonSchema)]
struct Average {
    /// Mean of all bus bandwidths, the unit is GB/s.
    bandwidth: Option<f64>,
}

/// A function at a size.
#[derive(Serialize, JsonSchema)]
struct Row<'a> {
    /// NCCL's name; null if a table that was read does not say it.
    function: Option<&'static str>,
    /// The function as an option spells it, for example all_reduce.
    experiment_name: Option<&'static str>,
    /// Bytes, by nccl-tests' convention.
    size: u64,
    /// Elements, as the API takes them.
    count: u64,
    /// nccl-tests' name of the datatype.
    r#type: &'a str,
    /// nccl-tests' name of the reduction, or none.
    redop: &'a str,
    /// Root, or -1.
    root: i64,
    /// With two buffers; null if that was not measured.
    out_of_place: Option<Side>,
    /// In one buffer; null if that was not measured.
    in_place: Option<Side>,
}

/// What was measured on one side.
#[derive(Serialize, JsonSchema)]
struct Side {
    /// Mean time of a call, µs; null if every call was set apart.
    time: Option<f64>,
    /// Bytes by time, the unit is GB/s.
    alg_bw: Option<f64>,
    /// Bus bandwidth as nccl-tests defines it, the unit is GB/s.
    bus_bw: Option<f64>,
    /// Wrong elements over all ranks; null if data were not checked.
    nwrong: Option<u64>,
    #[serde(flatten)]
    spread: Option<SpreadJson>,
}

/// What nccl-tests does not have.
#[derive(Serialize, JsonSchema)]
struct SpreadJson {
    /// Calls in the mean. This name and those below are not in a table of nccl-tests'.
    calls: Option<u64>,
    /// How far the ranks of a host started apart, median over calls.
    skew_us: Option<f64>,
    /// Calls that were set apart because their ranks started too far from each other.
    skewed: u64,
    /// Median of the calls; mode Single only.
    p50_us: Option<f64>,
    /// 95th percentile of the calls; mode Single only.
    p95_us: Option<f64>,
    /// 99th percentile of the calls; mode Single only.
    p99_us: Option<f64>,
    /// The longest call; mode Single only.
    max_us: Option<f64>,
    /// Standard deviation of the calls; mode Single only.
    stdev_us: Option<f64>,
    /// GPU time of a call, mean over ranks.
    gpu_us: Option<f64>,
    /// Time that a host spends inside a call, mean over ranks.
    host_us: f64,
}

/// Calls of one function without a wait between them.
#[derive(Serialize, JsonSchema)]
struct StressJson {
    /// NCCL's name.
    function: &'static str,
    /// Bytes of a call.
    size: u64,
    /// Calls.
    operations: u64,
    /// Host time from the first call to the end of the last one's work, on the slowest rank.
    time_s: f64,
    /// Bytes of all calls.
    bytes: u64,
    /// Calls by time.
    operations_per_s: f64,
}

/// The whole table; `plan` is how it was measured, if that was us, and `error` why it ended before its end.
pub fn of<'a>(table: &'a Table, plan: Option<&'a Plan>, error: Option<&'a str>) -> BenchJson<'a> {
    let count = table.wrong();
    BenchJson {
        schema: SCHEMA,
        error: error.or(table.failed.as_deref()),
        nccl_version: table.nccl_version,
        config: plan,
        devices: &table.devices,
        results: table.rows.iter().map(row).collect(),
        out_of_bounds: OutOfBounds {
            count,
            okay: count.map(|wrong| wrong == 0),
        },
        average_bus_bandwidth: Average {
            bandwidth: table.average_busbw(),
        },
        peaks: peaks(table),
        stress: table.stress.iter().map(stress).collect(),
        starts: &table.starts,
    }
}

/// A function by NCCL's name, for `serialize_with`.
pub(crate) fn name<S: Serializer>(of: &Option<Function>, to: S) -> Result<S::Ok, S::Error> {
    of.map(Function::name).serialize(to)
}

fn row(row: &TableRow) -> Row<'_> {
    Row {
        function: row.function.map(Function::name),
        experiment_name: row.function.map(Function::option),
        size: row.size,
        count: row.count,
        r#type: &row.datatype,
        redop: &row.redop,
        root: row.root,
        out_of_place: row.out_of_place.as_ref().map(side),
        in_place: row.in_place.as_ref().map(side),
    }
}

fn side(figures: &Figures) -> Side {
    Side {
        time: figures.time_us,
        alg_bw: figures.algbw,
        bus_bw: figures.busbw,
        nwrong: figures.wrong,
        spread: figures.spread.as_ref().map(spread),
    }
}

fn spread(spread: &Spread) -> SpreadJson {
    let [p50_us, p95_us, p99_us, max_us] = spread.percentiles.map_or([None; 4], |p| p.map(Some));
    SpreadJson {
        calls: spread.calls,
        skew_us: spread.skew_us,
        skewed: spread.skewed,
        p50_us,
        p95_us,
        p99_us,
        max_us,
        stdev_us: spread.deviation_us,
        gpu_us: spread.gpu_us,
        host_us: spread.host_us,
    }
}

fn stress(stress: &Stress) -> StressJson {
    StressJson {
        function: stress.function.name(),
        size: stress.size,
        operations: stress.operations,
        time_s: stress.time_s,
        bytes: stress.bytes(),
        operations_per_s: stress.operations_per_s(),
    }
}
