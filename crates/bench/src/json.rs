//! A table as JSON, with nccl-tests' names, and ours beside them.
//!
//! Rule: what nccl-tests' own JSON has is under the same name at the same place; times are µs, bandwidths
//! GB/s.

use crate::function::Function;
use crate::plan::Plan;
use crate::summary::{peaks, OverStarts, Peak, Stress};
use crate::table::{Figures, Table, TableRow};
use serde_json::{json, Map, Value};

/// The schema's name.
pub const SCHEMA: &str = "ncclscope.bench/1";

/// The whole table; `plan` is how it was measured, where that was us, and `error` why it ended before its
/// end.
pub fn of(table: &Table, plan: Option<&Plan>, error: Option<&str>) -> Value {
    let devices = table.devices.iter().map(|d| {
        json!({
            "rank": d.rank, "group": d.group, "pid": d.pid, "hostname": d.hostname, "device": d.device,
            "device_hex": d.device_hex,
            "device_info": d.device_info,
        })
    });
    let wrong = table.wrong();
    json!({
        "schema": SCHEMA,
        "error": error.or(table.failed.as_deref()),
        "nccl_version": table.nccl_version,
        "config": plan,
        "devices": devices.collect::<Vec<Value>>(),
        "results": table.rows.iter().map(row).collect::<Vec<Value>>(),
        "out_of_bounds": { "count": wrong, "okay": wrong.map(|wrong| wrong == 0) },
        "average_bus_bandwidth": { "bandwidth": table.average_busbw() },
        "peaks": peaks(table).iter().map(peak).collect::<Vec<Value>>(),
        "stress": table.stress.iter().map(stress).collect::<Vec<Value>>(),
        "starts": table.starts.iter().map(over_starts).collect::<Vec<Value>>(),
    })
}

fn peak(peak: &Peak) -> Value {
    json!({
        "function": peak.function.map(Function::name), "size": peak.size, "in_place": peak.in_place,
        "bus_bw": peak.busbw, "time": peak.time_us,
    })
}

fn stress(stress: &Stress) -> Value {
    json!({
        "function": stress.function.name(), "size": stress.size, "operations": stress.operations,
        "time_s": stress.time_s, "bytes": stress.bytes(), "operations_per_s": stress.operations_per_s(),
    })
}

fn over_starts(row: &OverStarts) -> Value {
    json!({
        "function": row.function.map(Function::name), "size": row.size, "in_place": row.in_place,
        "means_us": row.means_us, "mean_us": row.mean_us, "interval_us": row.interval_us,
        "between_share": row.between_share, "within_share": row.within_share,
        "beyond_calls_ratio": row.beyond_calls,
    })
}

fn row(row: &TableRow) -> Value {
    json!({
        "function": row.function.map(Function::name), "experiment_name": row.function.map(Function::option),
        "size": row.size, "count": row.count, "type": row.datatype, "redop": row.redop,
        "root": row.root,
        "out_of_place": row.out_of_place.as_ref().map(figures),
        "in_place": row.in_place.as_ref().map(figures),
    })
}

fn figures(figures: &Figures) -> Value {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    put("time", json!(figures.time_us));
    put("alg_bw", json!(figures.algbw));
    put("bus_bw", json!(figures.busbw));
    put("nwrong", json!(figures.wrong));
    if let Some(spread) = figures.spread {
        let at = |index: usize| json!(spread.percentiles.map(|p| p[index]));
        put("calls", json!(spread.calls));
        put("skew_us", json!(spread.skew_us));
        put("skewed", json!(spread.skewed));
        put("p50_us", at(0));
        put("p95_us", at(1));
        put("p99_us", at(2));
        put("max_us", at(3));
        put("stdev_us", json!(spread.deviation_us));
        put("gpu_us", json!(spread.gpu_us));
        put("host_us", json!(spread.host_us));
    }
    Value::Object(fields)
}
