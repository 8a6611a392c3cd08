//! The tables as Arrow record batches: what the Parquet export writes and what Python hands to dataframe
//! libraries.
//!
//! A [`CallsTable`] is a choice of columns of the table of calls, made into batches of a range of rows. The
//! other tables are one batch each. [`operations`], [`ranks`], [`findings`] and [`graphs`] have the columns
//! that the report's JSON Schema gives them. Statistics are flattened (`time_ns_p50`), and maps stay maps. An
//! interval is two columns (`wall_low_ns`), and so is a span (`from_ns`).
//!
//! Rule: a column's type depends on its declaration alone, never on the values of a capture. A column
//! with `ns` in its name is an int64, of a moment or of a duration. Numbers are signed, so that no difference
//! wraps; only bit patterns (`uint`) are unsigned. Times are ns in all tables; those of the report's JSON, in
//! µs (`_us`), become ns (`_ns`).

use crate::report_json::SCHEMA;
use analyze::arrivals::table as arrivals;
use analyze::operation_ids::OperationIds;
use analyze::steps::{Step, StepsRow};
use analyze::streams::kernels;
use analyze::Report;
use arrow_array::builder::{
    ArrayBuilder, Float64Builder, Int64Builder, MapBuilder, MapFieldNames, StringBuilder,
    StringDictionaryBuilder,
};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef};
use serde_json::{json, Value as Json};
use std::collections::HashMap;
use std::sync::Arc;
use tables::calls::{CallRef, Column};
use tables::columns::{known, Value};
use tables::Capture;

/// The column that needs [`OperationIds`].
const OPERATION_ID: &str = "operation_id";

/// Rows of a batch, and of a row group in Parquet: DuckDB's own, and few enough that a batch is tens of
/// megabytes.
pub const ROWS: usize = 122_880;

/// Columns of the table of calls.
#[derive(Clone)]
pub struct CallsTable {
    columns: Vec<&'static Column>,
    schema: SchemaRef,
}

impl CallsTable {
    /// The table with these columns. Units are in the metadata of the fields.
    pub fn new(columns: Vec<&'static Column>) -> CallsTable {
        let field =
            |column: &&Column| field(column.name, column.kind, column.unit, &DataType::Utf8);
        let fields: Fields = columns.iter().map(field).collect();
        CallsTable {
            schema: Arc::new(Schema::new(fields)),
            columns,
        }
    }

    /// Whether a column needs the numbers of operations.
    pub fn needs_ids(&self) -> bool {
        let mut columns = self.columns.iter();
        columns.any(|column| column.name == OPERATION_ID)
    }

    /// Its schema.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The rows of `capture` from `first` on, at most `count`, in the order of [`tables::Capture::rows`].
    /// `ids` are the numbers of its operations, if [`CallsTable::needs_ids`].
    ///
    /// # Errors
    /// As [`CallsTable::batch`].
    pub fn range(
        &self,
        capture: &Capture,
        ids: Option<&OperationIds>,
        first: usize,
        count: usize,
    ) -> Result<RecordBatch, ArrowError> {
        let mut rows = Vec::with_capacity(count.min(ROWS));
        let mut skip = first;
        for (index, process) in capture.processes.iter().enumerate() {
            let calls = process.calls.iter().enumerate().skip(skip);
            skip = skip.saturating_sub(process.calls.len());
            rows.extend(
                calls
                    .take(count - rows.len())
                    .map(|(number, call)| CallRef {
                        capture,
                        process,
                        index,
                        call,
                        shape: &process.shapes[call.shape as usize],
                        operation: ids.and_then(|ids| ids.get(index, number)),
                    }),
            );
        }
        self.batch(&rows)
    }

    /// These rows as a batch.
    ///
    /// # Errors
    /// When the texts of a column are longer than 2 GiB together.
    pub fn batch(&self, rows: &[CallRef<'_>]) -> Result<RecordBatch, ArrowError> {
        let arrays = self.columns.iter().map(|column| {
            let values = rows.iter().map(|row| (column.value)(row));
            array(
                self.schema.field_with_name(column.name)?.data_type(),
                values,
            )
        });
        RecordBatch::try_new_with_options(
            self.schema.clone(),
            arrays.collect::<Result<_, ArrowError>>()?,
            &arrow_array::RecordBatchOptions::new().with_row_count(Some(rows.len())),
        )
    }
}

/// A field; `texts` is the type of its texts.
fn field(name: &str, kind: &str, unit: &str, texts: &DataType) -> Field {
    let kind = match kind {
        "bool" => DataType::Boolean,
        "text" => texts.clone(),
        "uint" => DataType::UInt64,
        _ => DataType::Int64,
    };
    let field = Field::new(name, kind, true);
    match unit {
        "" => field,
        unit => field.with_metadata(HashMap::from([("unit".into(), unit.into())])),
    }
}

/// An array of this type. What does not fit in it is null: only damage makes a number of 2⁶³ and more.
fn array<'a>(
    kind: &DataType,
    values: impl Iterator<Item = Value<'a>>,
) -> Result<ArrayRef, ArrowError> {
    let signed = |value: Value| match value {
        Value::Signed(value) => Some(value),
        Value::Unsigned(value) => i64::try_from(value).ok(),
        _ => None,
    };
    let text = |value: Value<'a>| match value {
        Value::Text(value) => Some(value),
        _ => None,
    };
    Ok(match kind {
        DataType::Boolean => Arc::new(BooleanArray::from_iter(values.map(|value| match value {
            Value::Bool(value) => Some(value),
            _ => None,
        }))),
        DataType::Utf8 => Arc::new(values.map(text).collect::<StringArray>()),
        DataType::Dictionary(..) => {
            let mut builder = StringDictionaryBuilder::<Int32Type>::new();
            values.for_each(|value| builder.append_option(text(value)));
            Arc::new(builder.finish())
        }
        DataType::UInt64 => Arc::new(UInt64Array::from_iter(values.map(|value| match value {
            Value::Unsigned(value) => Some(value),
            _ => None,
        }))),
        DataType::Int64 => Arc::new(Int64Array::from_iter(values.map(signed))),
        other => {
            let said = format!("no column is of type {other}");
            return Err(ArrowError::NotYetImplemented(said));
        }
    })
}

/// A table of which `rows` has a value for each of these columns (name, kind, unit). Its texts are
/// dictionaries.
pub(crate) fn table<'a, R>(
    columns: impl Iterator<Item = (&'static str, &'static str, &'static str)>,
    rows: &'a [R],
    value: impl Fn(usize, &'a R) -> Value<'a>,
) -> Result<RecordBatch, ArrowError> {
    let texts = dictionary();
    let fields: Fields = columns
        .map(|(name, kind, unit)| field(name, kind, unit, &texts))
        .collect();
    let array = |(index, field): (usize, &Arc<Field>)| {
        array(field.data_type(), rows.iter().map(|row| value(index, row)))
    };
    let arrays: Result<Vec<ArrayRef>, ArrowError> = fields.iter().enumerate().map(array).collect();
    let arrays = arrays?;
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

/// Names of kernels are long, and few; so are those of hosts and functions.
fn dictionary() -> DataType {
    DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into())
}

/// The table of operations of a report.
///
/// # Errors
/// Never for a report whose JSON is as its schema says.
pub fn operations(report: &Report) -> Result<RecordBatch, ArrowError> {
    of_report("operations", &report.operations)
}

/// The table of CUDA graphs of a report; the calls of one launch stay JSON.
///
/// # Errors
/// As [`operations`].
pub fn graphs(report: &Report) -> Result<RecordBatch, ArrowError> {
    of_report("graphs", &report.graphs)
}

/// How much of the run each rank spent in NCCL, a row for each process and GPU.
///
/// # Errors
/// As [`operations`].
pub fn ranks(report: &Report) -> Result<RecordBatch, ArrowError> {
    of_report("ranks/properties/rows", &report.ranks.rows)
}

/// What costs wall time, a row for each finding.
///
/// # Errors
/// As [`operations`].
pub fn findings(report: &Report) -> Result<RecordBatch, ArrowError> {
    of_report("findings", &crate::findings::rows(report))
}

/// How the wall time of the steps is divided on each rank.
///
/// # Errors
/// As [`operations`].
pub fn account(report: &Report) -> Result<RecordBatch, ArrowError> {
    let ranks = report.account.as_ref().map(|account| &account.ranks);
    of_report("account/properties/ranks", ranks.unwrap_or(&Vec::new()))
}

/// The steps of each process, one by one.
///
/// # Errors
/// When there are more than 2 GiB of host names.
pub fn steps(report: &Report) -> Result<RecordBatch, ArrowError> {
    type NumberedStep<'a> = (&'a StepsRow, usize, &'a Step);
    let rows = report.steps.iter().flat_map(|steps| &steps.rows);
    let rows = rows.flat_map(|row| row.each.iter().enumerate().map(move |(n, s)| (row, n, s)));
    let rows: Vec<NumberedStep<'_>> = rows.collect();
    const COLUMNS: [(&str, &str, &str); 7] = [
        ("launcher_rank", "int", ""),
        ("host", "text", ""),
        ("pid", "int", ""),
        ("step", "int", ""),
        ("start_ns", "time", "ns since 1970"),
        ("time_ns", "int", "ns"),
        ("communication_ns", "int", "ns"),
    ];
    table(
        COLUMNS.into_iter(),
        &rows,
        |column, (row, number, step)| match column {
            0 => known(row.process.rank),
            1 => Value::Text(&row.process.host),
            2 => known(tables::pid::known(row.process.pid)),
            3 => Value::Unsigned(*number as u64),
            4 => step.start_ns.map_or(Value::Null, Value::Signed),
            5 => known(step.time_ns),
            _ => known(step.communication_ns),
        },
    )
}

/// Who came when to each operation that has a GPU time on every rank.
///
/// # Errors
/// When the texts of a column are longer than 2 GiB together.
pub fn arrivals(capture: &Capture) -> Result<RecordBatch, ArrowError> {
    let columns = arrivals::COLUMNS.iter().map(|c| (c.name, c.kind, c.unit));
    let rows = arrivals::rows(capture);
    table(columns, &rows, |column, row| {
        (arrivals::COLUMNS[column].value)(row)
    })
}

/// The launches of CUDA graphs of a capture, one by one.
///
/// # Errors
/// When there are more than 2 GiB of host names.
pub fn graph_launches(capture: &Capture) -> Result<RecordBatch, ArrowError> {
    type GraphLaunch<'a> = (&'a tables::Process, &'a tables::graphs::Launch);
    let processes = capture.processes.iter();
    let rows =
        processes.flat_map(|process| process.graphs.launches.iter().map(move |l| (process, l)));
    let rows: Vec<GraphLaunch<'_>> = rows.collect();
    const COLUMNS: [(&str, &str, &str); 10] = [
        ("launcher_rank", "int", ""),
        ("host", "text", ""),
        ("pid", "int", ""),
        ("graph", "int", ""),
        ("calls", "int", ""),
        ("launch_ns", "time", "ns since 1970"),
        ("took_ns", "int", "ns"),
        ("stream", "uint", ""),
        ("gpu_start_ns", "time", "ns since 1970"),
        ("gpu_ns", "int", "ns"),
    ];
    table(
        COLUMNS.into_iter(),
        &rows,
        |column, (process, launch)| match column {
            0 => known(process.rank),
            1 => Value::Text(&process.host),
            2 => known(tables::pid::known(process.pid)),
            3 => Value::Unsigned(launch.graph.into()),
            4 => known(process.graphs.calls_of(launch.graph)),
            5 => Value::Signed(launch.at),
            6 => Value::Unsigned(launch.took),
            7 => Value::Unsigned(launch.stream),
            8 => launch
                .gpu
                .map_or(Value::Null, |(start, _)| Value::Signed(start)),
            _ => known(launch.gpu.map(|(_, ns)| ns)),
        },
    )
}

/// Columns of [`samples`].
const SAMPLES: [(&str, &str, &str); 6] = [
    ("host", "text", ""),
    ("name", "text", ""),
    ("of", "text", ""),
    ("at_ns", "time", "ns since 1970"),
    ("value", "int", ""),
    ("counts_up", "bool", ""),
];

/// Columns of [`switches`].
const SWITCHES: [(&str, &str, &str); 7] = [
    ("host", "text", ""),
    ("pid", "int", ""),
    ("tid", "int", ""),
    ("thread", "text", ""),
    ("off_ns", "time", "ns since 1970"),
    ("time_ns", "int", "ns"),
    ("preempted", "bool", ""),
];

/// Columns of [`mpi`].
const MPI: [(&str, &str, &str); 10] = [
    ("launcher_rank", "int", ""),
    ("host", "text", ""),
    ("pid", "int", ""),
    ("tid", "int", ""),
    ("function", "text", ""),
    ("calls", "int", ""),
    ("mpi_ns", "time", "ns since 1970"),
    ("time_ns", "int", "ns"),
    ("inside_ns", "int", "ns"),
    ("open", "bool", ""),
];

/// When threads were inside of MPI, by process, thread and time.
///
/// # Errors
/// When there are more than 2 GiB of texts.
pub fn mpi(capture: &Capture) -> Result<RecordBatch, ArrowError> {
    let processes = capture.processes.iter();
    let rows = processes.flat_map(|of| of.mpi.spans.iter().map(move |span| (of, span)));
    let rows: Vec<_> = rows.collect();
    let length = |ns: i64| Value::Unsigned(ns.max(0).unsigned_abs());
    table(
        MPI.into_iter(),
        &rows,
        |column, (process, span)| match column {
            0 => known(process.rank),
            1 => Value::Text(&process.host),
            2 => known(tables::pid::known(process.pid)),
            3 => known(span.thread),
            4 => Value::Text(process.mpi.name(span)),
            5 => Value::Unsigned(span.calls.into()),
            6 => Value::Signed(span.from),
            7 => length(span.to - span.from),
            8 => length(span.inside),
            _ => Value::Bool(span.open),
        },
    )
}

/// When watched threads were off their CPUs, by host, thread and time.
///
/// # Errors
/// When there are more than 2 GiB of texts.
pub fn switches(capture: &Capture) -> Result<RecordBatch, ArrowError> {
    let threads = capture
        .nodes
        .iter()
        .flat_map(|node| node.switches.iter().map(move |thread| (node, thread)));
    let rows = threads.flat_map(|(node, thread)| {
        let ids = thread.thread();
        thread.off.iter().map(move |off| (node, thread, ids, off))
    });
    let rows: Vec<_> = rows.collect();
    table(
        SWITCHES.into_iter(),
        &rows,
        |column, (node, thread, ids, off)| match column {
            0 => Value::Text(&node.host),
            1 => known(ids.map(|ids| ids.0)),
            2 => known(ids.map(|ids| ids.1)),
            3 => Value::Text(thread.name()),
            4 => Value::Signed(i64::try_from(off.from).unwrap_or(i64::MAX)),
            5 => Value::Unsigned(off.to.saturating_sub(off.from)),
            _ => Value::Bool(off.preempted),
        },
    )
}

/// Everything that the node sampler read, by host, series and time.
///
/// # Errors
/// When there are more than 2 GiB of texts.
pub fn samples(capture: &Capture) -> Result<RecordBatch, ArrowError> {
    let series = capture
        .nodes
        .iter()
        .flat_map(|node| node.series.iter().map(move |s| (node, s)));
    let rows = series.flat_map(|(node, series)| {
        let counts = series.kind().map(|kind| kind.counts);
        series
            .points
            .iter()
            .map(move |point| (node, series, counts, point))
    });
    let rows: Vec<_> = rows.collect();
    table(
        SAMPLES.into_iter(),
        &rows,
        |column, (node, series, counts, (at, value))| match column {
            0 => Value::Text(&node.host),
            1 => Value::Text(&series.name),
            2 if series.of.is_empty() => Value::Null,
            2 => Value::Text(&series.of),
            3 => Value::Signed(*at),
            4 => Value::Unsigned(*value),
            _ => counts.map_or(Value::Null, Value::Bool),
        },
    )
}

/// Everything that ran in kernel windows of a capture.
///
/// # Errors
/// As [`kernels_of`].
pub fn kernels(capture: &Capture) -> Result<RecordBatch, ArrowError> {
    let processes = 0..capture.processes.len();
    let rows = processes.flat_map(|process| kernels::of_process(capture, process));
    kernels_of(&rows.collect::<Vec<_>>())
}

/// These rows of the table of kernels.
///
/// # Errors
/// When the texts of a column are longer than 2 GiB together.
pub fn kernels_of(rows: &[kernels::KernelRef<'_>]) -> Result<RecordBatch, ArrowError> {
    table(kernel_columns(), rows, |column, row| {
        (kernels::COLUMNS[column].value)(row)
    })
}

fn kernel_columns() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    kernels::COLUMNS.iter().map(|c| (c.name, c.kind, c.unit))
}

/// An array of the report's JSON, which `path` names in the schema, as a table.
fn of_report(path: &str, rows: &impl serde::Serialize) -> Result<RecordBatch, ArrowError> {
    let json = |error: serde_json::Error| ArrowError::JsonError(error.to_string());
    let schema: Json = serde_json::from_str(SCHEMA).map_err(json)?;
    let rows = serde_json::to_value(rows).map_err(json)?;
    let rows: Vec<&Json> = rows.as_array().into_iter().flatten().collect();
    let declared = schema.pointer(&format!("/properties/{path}/items"));
    let mut columns = Vec::new();
    flatten(declared.unwrap_or(&Json::Null), "", &rows, &mut columns);
    let fields: Fields = columns.iter().map(|(field, _)| field.clone()).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

/// The name of a column with what the report's JSON calls `name`: times are ns in tables, and what the report
/// calls a rank is the launcher's.
pub fn column_of(name: &str) -> String {
    if name == "rank" {
        return "launcher_rank".to_owned();
    }
    in_ns(name)
}

/// The name of a figure with its unit in tables, where times are ns.
fn in_ns(name: &str) -> String {
    let part = |part| if part == "us" { "ns" } else { part };
    name.split('_').map(part).collect::<Vec<_>>().join("_")
}

/// Whether the unit in this name is µs.
fn is_in_us(name: &str) -> bool {
    name.split('_').any(|part| part == "us")
}

/// Appends the columns of what `declared` declares, with `values` in them.
fn flatten(declared: &Json, name: &str, values: &[&Json], columns: &mut Vec<(Field, ArrayRef)>) {
    if let Some(parts) = declared["properties"].as_object() {
        for (part, declared) in parts {
            let name = match name {
                "" => part.clone(),
                name => format!("{name}_{part}"),
            };
            let values: Vec<&Json> = values.iter().map(|value| &value[part]).collect();
            flatten(declared, &name, &values, columns);
        }
        return;
    }
    let two = match name.strip_suffix("interval_us") {
        Some(of) => Some([format!("{of}low_us"), format!("{of}high_us")]),
        None if name == "when_us" => Some(["from_us", "to_us"].map(str::to_owned)),
        None => None,
    };
    for (index, end) in two.iter().flatten().enumerate() {
        let values: Vec<&Json> = values.iter().map(|value| &value[index]).collect();
        flatten(&json!({ "type": "number" }), end, &values, columns);
    }
    if two.is_some() {
        return;
    }
    let column = column_of(name);
    let array: ArrayRef = if has_type(declared, "object") {
        let of_numbers = has_type(&declared["additionalProperties"], "number");
        if of_numbers {
            by_name(values, Float64Builder::new(), |builder, name, value| {
                let ns = |us: f64| {
                    if is_in_us(name) {
                        (us * 1e3).round()
                    } else {
                        us
                    }
                };
                builder.append_option(value.as_f64().map(ns));
            })
        } else {
            by_name(values, Int64Builder::new(), |builder, name, value| {
                let ns = |us: i64| {
                    if is_in_us(name) {
                        us.saturating_mul(1000)
                    } else {
                        us
                    }
                };
                builder.append_option(value.as_i64().map(ns));
            })
        }
    } else if has_type(declared, "integer") {
        Arc::new(values.iter().map(|v| v.as_i64()).collect::<Int64Array>())
    } else if has_type(declared, "number") && is_in_us(name) {
        // The JSON has three digits behind the point, so that nothing is lost but parts of a nanosecond.
        let ns = |v: &&Json| v.as_f64().map(|us| (us * 1e3).round() as i64);
        Arc::new(values.iter().map(ns).collect::<Int64Array>())
    } else if has_type(declared, "number") {
        Arc::new(values.iter().map(|v| v.as_f64()).collect::<Float64Array>())
    } else if has_type(declared, "boolean") {
        Arc::new(values.iter().map(|v| v.as_bool()).collect::<BooleanArray>())
    } else {
        // What has no type of its own here stays JSON.
        let text = |value: &&Json| match value {
            Json::Null => None,
            Json::String(text) => Some(text.clone()),
            value => Some(value.to_string()),
        };
        Arc::new(values.iter().map(text).collect::<StringArray>())
    };
    let field = Field::new(&column, array.data_type().clone(), true);
    let field = if column.split('_').any(|part| part == "ns") && !column.ends_with("_n") {
        field.with_metadata(HashMap::from([("unit".into(), "ns".into())]))
    } else {
        field
    };
    columns.push((field, array));
}

fn has_type(declared: &Json, name: &str) -> bool {
    match &declared["type"] {
        Json::String(one) => one == name,
        Json::Array(any) => any.iter().any(|one| one == name),
        _ => false,
    }
}

/// Objects with numbers under any names. Times are ns, as in columns, and their names say so.
fn by_name<B: ArrayBuilder>(
    values: &[&Json],
    numbers: B,
    append: impl Fn(&mut B, &str, &Json),
) -> ArrayRef {
    let names = MapFieldNames {
        entry: "entries".into(),
        key: "key".into(),
        value: "value".into(),
    };
    let mut builder = MapBuilder::new(Some(names), StringBuilder::new(), numbers);
    for value in values {
        for (key, number) in value.as_object().into_iter().flatten() {
            builder.keys().append_value(in_ns(key));
            append(builder.values(), key, number);
        }
        // Fails only where keys and values differ in number.
        let _ = builder.append(value.is_object());
    }
    Arc::new(builder.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Float64Type;

    #[test]
    fn figures_by_name_are_in_ns_as_columns_are() {
        let declared = json!({
            "type": "object",
            "additionalProperties": { "type": "number" },
        });
        let value = json!({ "held_up_us": 1.5, "steps": 12 });
        let mut columns = Vec::new();
        flatten(&declared, "figures", &[&value], &mut columns);
        let map = columns[0].1.as_map();
        let names: Vec<_> = map.keys().as_string::<i32>().iter().flatten().collect();
        let numbers = map.values().as_primitive::<Float64Type>().values();
        assert_eq!(names, ["held_up_ns", "steps"]);
        assert_eq!(&numbers[..], [1500.0, 12.0]);
    }
}
